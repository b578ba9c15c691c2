/*-------------------------------------------------------------------------
 *
 * node.c
 *	  The node that the configuration gives this server, taken once.
 *
 * A configured node id is a lease without end: until the layout's last tick.
 * The first process that finds one configured, as the postmaster has it too,
 * publishes it, and nothing but a new start of the server replaces it.  Where
 * the node is leased (leaser.c), the configuration says which ones it may be.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "node.h"

#include "fault.h"
#include "layout.h"
#include "settings.h"
#include "state.h"
#include "stats.h"
#include "tell.h"

#define MISFIT	"node id does not fit the layout"
#define MISFIT_HINT \
	"Change or unset the number, or choose a layout that has room for it."

/*
 * Do the numbers of snowflake.node_id and snowflake.datacenter_id, each + 1,
 * fit the layout?  If not, false, with the reason as a sentence.
 */
static bool
check_numbers(uint32 within, uint32 datacenter, int within_bits,
			  char *reason, size_t reason_size)
{
	int			datacenter_bits = sf_node_layout.field[SF_DATACENTER].width;

	reason[0] = '\0';
	if ((int64) datacenter > INT64_C(1) << datacenter_bits)
		snprintf(reason, reason_size,
				 "snowflake.datacenter_id is %u, and the layout has room for 0 to %d.",
				 datacenter - 1, (1 << datacenter_bits) - 1);
	else if (datacenter > 0 && datacenter_bits == 0)
		snprintf(reason, reason_size,
				 "snowflake.datacenter_id is set, and the layout has no field for it.");
	else if ((int64) within > INT64_C(1) << within_bits)
		snprintf(reason, reason_size,
				 "snowflake.node_id is %u, and the layout has room for 0 to %lld.",
				 within - 1, (long long) (INT64_C(1) << within_bits) - 1);
	return reason[0] == '\0';
}

/*
 * The nodes that this server may be: the one that is configured; or those of
 * the datacenter, or all of them, of which one will be leased.  If there is
 * none, false, with the reason as a sentence, or empty where no number is
 * configured and none is leased.
 */
bool
sf_node_find(uint32 *first, uint32 *last, char *reason, size_t reason_size)
{
	const SfLayout *layout = &sf_node_layout;
	int			within_bits = layout->node_bits;
	uint32		within;
	uint32		datacenter;
	uint32		number;

	reason[0] = '\0';
	*first = *last = 0;
	(void) sf_settings_parse_number(sf_node_id, &within);
	(void) sf_settings_parse_number(sf_datacenter_id, &datacenter);
	if (sf_settings_leases() && layout->node_bits == 0)
		snprintf(reason, reason_size,
				 "snowflake.registry is set, and the layout has no field for a node.");
	else if (within == 0 && !sf_settings_leases())
		return layout->node_bits == 0;
	if (reason[0] != '\0')
		return false;

	if (datacenter > 0)
		within_bits -= layout->field[SF_DATACENTER].width;
	if (!check_numbers(within, datacenter, within_bits, reason, reason_size))
		return false;
	number = within > 0 ? within - 1 : 0;
	*first = datacenter == 0 ? number :
		sf_layout_join_node(layout, datacenter - 1, number);
	if (within == 0)
		number = (UINT32_C(1) << within_bits) - 1;
	*last = datacenter == 0 ? number :
		sf_layout_join_node(layout, datacenter - 1, number);
	if (within == 0 && *last - *first != number)
		snprintf(reason, reason_size,
				 "The nodes of a datacenter are not neighbours in the layout; to lease one of them, the layout must have the datacenter before the other fields of the node.");
	return reason[0] == '\0';
}

/*
 * Publish the node that these numbers give.  No other ones come after that; if
 * others have come meanwhile, nothing is published.
 */
static void
publish(uint32 node, uint64 configured)
{
	uint64		none = 0;
	uint64		until = sf_node_layout.end_tick - sf_node_layout.epoch_tick;
	uint64		lease = until << sf_node_layout.node_bits | node;

	SF_FAULT("node-found");
	if ((configured & SF_NODE_TAKEN) == 0 &&
		!pg_atomic_compare_exchange_u64(&sf_state->configured, &configured,
										configured | SF_NODE_TAKEN))
		return;

	/* until fits: it needs a bit more than the timestamp has at the most */
	(void) pg_atomic_compare_exchange_u64(&sf_state->lease, &none, lease);
}

/*
 * The postmaster's part: what is configured must fit, or there is no start.
 * When it starts anew after a crash, a server that has run before must not
 * stay down for what somebody has put into the file meanwhile; then it runs
 * without a node.
 */
void
sf_node_take_at_start(void)
{
	static bool started = false;
	uint32		node;
	uint32		last;
	char		reason[SF_REASON_SIZE];

	if (sf_node_find(&node, &last, reason, sizeof(reason)))
	{
		if (!sf_settings_leases())
			publish(node, sf_settings_numbers());
	}
	else if (reason[0] != '\0' && started)
		sf_tell(SF_EVENT_NODE_MISFIT, reason, MISFIT_HINT, MISFIT);
	else if (reason[0] != '\0')
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg(MISFIT), errdetail("%s", reason),
				 errhint(MISFIT_HINT)));
	started = true;
}

/*
 * How to give this server a number.  Not by ALTER SYSTEM: base backups take
 * along what that writes, and the copy has the number, too.
 */
char *
sf_node_remedy(void)
{
	return psprintf("Have an administrator add this line to %s, with a number that no other server has:\nsnowflake.node_id = '<number>'\nand run:\n%sSELECT pg_reload_conf();",
					sf_settings_file(),
					sf_settings_is_altered("snowflake.node_id") ?
					"ALTER SYSTEM RESET snowflake.node_id;\n" : "");
}

/*
 * Take the node that a reload has brought, or say how to bring one; look again
 * whether there is one.  Not from settings that the postmaster has not got, or
 * not any more: a process that is busy sees a reload late.
 */
void
sf_node_take(void)
{
	uint32		node;
	uint32		last;
	int64		nodes = INT64_C(1) << sf_node_layout.node_bits;
	uint64		configured = pg_atomic_read_u64(&sf_state->configured);
	char		reason[SF_REASON_SIZE];

	if (sf_settings_numbers() != (configured & ~SF_NODE_TAKEN))
	{
		sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake.node_id is being changed by a reload"),
				 errhint("Repeat the command.")));
	}
	if (sf_node_find(&node, &last, reason, sizeof(reason)))
	{
		publish(node, configured);
		return;
	}
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	if (reason[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(MISFIT),
				 errdetail("%s", reason),
				 errhint("Change it in %s, and reload: SELECT pg_reload_conf();",
						 sf_settings_is_altered("snowflake.node_id") ||
						 sf_settings_is_altered("snowflake.datacenter_id") ?
						 "postgresql.auto.conf, by ALTER SYSTEM" :
						 sf_settings_file())));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake.node_id is not set"),
			 errdetail("Each server needs a number of its own from 0 to %lld; two servers with one number issue the same IDs.",
					   (long long) nodes - 1),
			 errhint("%s", sf_node_remedy())));
}
