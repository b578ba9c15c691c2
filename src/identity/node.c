/*-------------------------------------------------------------------------
 *
 * node.c
 *	  The configured node of this server, and its change by a reload.
 *
 * A configured node id is a right without end: until the layout's last tick.
 * The postmaster publishes it at the start, or the first process that needs
 * it.  If a reload brings another number, the postmaster changes the node; no
 * other process does.  With a leased node (right.c), the configuration says
 * which nodes it may be.
 *
 * A server that has leased its node id, and finds no snowflake.registry at its
 * start, has probably lost that line.  Then a configured node may be one that
 * the registry leases to another server.  So it is not taken until an
 * administrator says that the registry is given up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/clock.h"
#include "base/durable_file.h"
#include "base/fault.h"
#include "base/message.h"
#include "identity/identity.h"
#include "layout/layout.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/fd.h"
#include "storage/latch.h"

static uint32 wait_event_node = 0;

#define WAS_LEASED \
	"this server has leased its node id, and snowflake.registry is not set"
#define MISFIT	"node id does not fit the layout"
#define MISFIT_HINT \
	"Change or unset the number, or choose a layout that has room for it."

/* Find the nodes for these numbers: see sf_node_find(). */
static bool
find_nodes(uint64 numbers, uint32 *first, uint32 *last,
		   char *reason, size_t reason_size)
{
	const SfLayout *layout = &sf_node_layout;
	int			within_bits = layout->node_bits;
	SfServerNumber within;
	SfServerNumber datacenter;
	uint32		number;

	reason[0] = '\0';
	*first = *last = 0;
	sf_settings_split_numbers(numbers, &datacenter, &within);
	if (sf_settings_leases() && layout->node_bits == 0)
		snprintf(reason, reason_size,
				 "snowflake.registry is set, and the layout has no field for a node.");
	else if (within == SF_NO_NUMBER && !sf_settings_leases())
		return layout->node_bits == 0;
	if (reason[0] != '\0')
		return false;

	if (datacenter != SF_NO_NUMBER)
		within_bits -= layout->field[SF_DATACENTER].width;
	if (!sf_settings_fit(datacenter, within, reason, reason_size))
		return false;
	number = within == SF_NO_NUMBER ? 0 : sf_server_number_value(within);
	*first = datacenter == SF_NO_NUMBER ? number :
		sf_layout_join_node(layout, sf_server_number_value(datacenter),
							number);
	if (within == SF_NO_NUMBER)
		number = (UINT32_C(1) << within_bits) - 1;
	*last = datacenter == SF_NO_NUMBER ? number :
		sf_layout_join_node(layout, sf_server_number_value(datacenter),
							number);
	if (within == SF_NO_NUMBER && *last - *first != number)
		snprintf(reason, reason_size,
				 "The nodes of a datacenter are not neighbours in the layout; to lease one of them, the layout must have the datacenter before the other fields of the node.");
	return reason[0] == '\0';
}

/*
 * Find the nodes that this server may be: the configured one; or, for a lease,
 * those of the datacenter, or all.  If there is none, return false, with the
 * reason as a sentence.  The reason is empty if no number is configured and
 * none is leased.
 */
bool
sf_node_find(uint32 *first, uint32 *last, char *reason, size_t reason_size)
{
	if (sf_node_was_leased())
	{
		strlcpy(reason, WAS_LEASED, reason_size);
		return false;
	}
	return find_nodes(sf_settings_numbers(), first, last, reason, reason_size);
}

/* Return the configured node, also if it may not be taken. */
SfServerNumber
sf_node_configured(void)
{
	uint32		node;
	uint32		last;
	char		reason[SF_REASON_SIZE];

	return !sf_settings_leases() &&
		find_nodes(sf_settings_numbers(), &node, &last, reason,
				   sizeof(reason)) ? sf_server_number_of(node) : SF_NO_NUMBER;
}

/* Return the word of SfShmem.right for a configured node. */
static uint64
configured_right(uint32 node)
{
	uint64		until = sf_node_layout.end_tick - sf_node_layout.epoch_tick;
	uint64		right = until << sf_node_layout.node_bits | node;

	/* until fits: it needs at most one bit more than the timestamp has */
	Assert(((uint64) node >> sf_node_layout.node_bits) == 0);
	Assert(right >> sf_node_layout.node_bits == until);
	return right;
}

/*
 * Publish the node that these numbers give; later numbers are not published.
 * If other numbers have been read meanwhile, publish nothing.
 */
static void
publish_configured(uint32 node, uint64 configured)
{
	uint64		none = 0;

	SF_FAULT("node-found");
	if (!pg_atomic_compare_exchange_u64(&sf_shmem->configured, &configured,
										configured | SF_NODE_TAKEN))
		return;
	(void) pg_atomic_compare_exchange_u64(&sf_shmem->right, &none,
										  configured_right(node));
}

/* ---- remedies ---- */

static char *
choose_number(const char *verb)
{
	SfSettingLine line = {"snowflake.node_id", "NUMBER"};

	return psprintf("%s a number that no other server has, and %s",
					verb, sf_settings_step(&line, 1, SF_APPLY_RELOAD));
}

/* Return how to give this server another number. */
char *
sf_node_change_remedy(void)
{
	return choose_number("Choose");
}

/* Return how to give a number to this server, which has none. */
char *
sf_node_remedy(void)
{
	if (sf_node_was_leased())
		return psprintf("Set snowflake.registry in %s again, to what the other servers have, and restart this server. Only if no server leases from that registry any more, set a snowflake.node_id that no other server has, and run as a superuser: SELECT %s.snowflake_accept('node_id'::pg_catalog.text);",
						sf_settings_file(), sf_extschema());
	return psprintf("If the other servers have a snowflake.registry, set the same one here, and restart this server. %s",
					choose_number("Otherwise choose"));
}

/* ---- the configured node ---- */

/* Return true if a reload may bring these numbers. */
static bool
may_change(uint64 numbers, char *reason, size_t reason_size)
{
	uint32		node;
	uint32		last;

	if (!find_nodes(numbers, &node, &last, reason, reason_size))
		return false;
	if (sf_identity_may_become(sf_server_number_of(node)))
		return true;
	snprintf(reason, reason_size,
			 "Another server with these data runs now, and has taken node id %u.",
			 node);
	return false;
}

/*
 * In the postmaster, at a reload: change the node of a server that runs.  If
 * none is published yet, as on a standby without a number, only record it.  A
 * call under way that has read the old right has read the clock and the mark
 * before, and makes its ID below both.  So the IDs of the old node end below
 * the marks of this moment; the lead is for a session that publishes its
 * mark late.  Meanwhile there is no right, and calls look again
 * (sf_node_take()).
 */
static void
change_node(uint64 numbers)
{
	uint64		before = pg_atomic_read_u64(&sf_shmem->configured);
	uint32		old;
	uint32		node;
	uint32		last;
	int64		end_ms = 0;
	char		reason[SF_REASON_SIZE];

	if (!find_nodes(numbers, &node, &last, reason, sizeof(reason)))
		return;					/* may_change() has found it */
	if ((before & SF_NODE_TAKEN) == 0)
	{
		sf_identity_become(sf_server_number_of(node));
		return;
	}
	if (!find_nodes(before & ~SF_NODE_TAKEN, &old, &last, reason,
					sizeof(reason)))
		return;
	if (node != old)
	{
		pg_atomic_write_u64(&sf_shmem->right, SF_RIGHT_WITHDRAWN);
		pg_memory_barrier();
		sf_identity_become(sf_server_number_of(node));
		SF_FAULT("node-withdrawn");
		end_ms = Max(sf_db_slots_highest_mark(), sf_clock_wall_ms()) +
			sf_settings_lead_ms();
		sf_right_change_node(sf_server_number_of(old),
							 sf_server_number_of(node),
							 sf_layout_ms_to_tick(&sf_node_layout, end_ms) +
							 1 - sf_node_layout.epoch_tick);
	}
	pg_atomic_write_u64(&sf_shmem->configured, numbers | SF_NODE_TAKEN);
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_shmem->right, configured_right(node));
	if (node != old)			/* now, since the log may be slow */
		sf_log_event(SF_EVENT_NODE_CHANGED, NULL, NULL,
					 "a reload has changed the node id from %u to %u: from %s on, this server makes no ID of node %u",
					 old, node, sf_timefmt_show(end_ms), old);
}

/* Write one line that says what this server's IDs will be. */
static void
log_start(void)
{
	const SfLayout *layout = &sf_node_layout;
	uint64		right = sf_shmem_right();
	char		node[40] = "no node id yet";
	char		text[SF_LAYOUT_TEXT_SIZE];

	if (right != 0)
		snprintf(node, sizeof(node), "node id %u", sf_settings_node_of(right));
	else if (sf_settings_leases())
		strlcpy(node, "a leased node id", sizeof(node));
	sf_layout_print(layout, text, sizeof(text));
	sf_log_event(SF_EVENT_STARTED, NULL, NULL,
				 "IDs of this server have %s and the layout \"%s\", up to %lld IDs a second",
				 node, text,
				 (1000LL << layout->sequence_bits) / layout->tick_ms);
}

/*
 * Take the configured node in the postmaster.  If it does not fit, the server
 * does not start.  But after a crash of a running server, a change of the file
 * must not keep it down: then it runs without a node.
 */
void
sf_node_take_at_start(void)
{
	static const SfNodeChange change = {may_change, change_node};
	static bool started = false;
	uint32		node;
	uint32		last;
	char		reason[SF_REASON_SIZE];

	Assert(!IsUnderPostmaster);
	sf_settings_node_change = &change;
	if (sf_node_was_leased())
		sf_log_event(SF_EVENT_WAS_LEASED, NULL, sf_node_remedy(), WAS_LEASED);
	else if (sf_node_find(&node, &last, reason, sizeof(reason)))
	{
		if (!sf_settings_leases())
			publish_configured(node, sf_settings_numbers());
	}
	else if (reason[0] != '\0' && started)
		sf_log_event(SF_EVENT_NODE_MISFIT, reason, MISFIT_HINT, MISFIT);
	else if (reason[0] != '\0')
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg(MISFIT), errdetail("%s", reason),
				 errhint(MISFIT_HINT)));
	started = true;
	log_start();
}

/*
 * Return true if no node is taken because this server has leased one; until
 * snowflake_accept('node_id') removes the file.
 */
bool
sf_node_was_leased(void)
{
	return !sf_settings_leases() && sf_durable_file_exists(SF_AGE_FILE);
}

/*
 * Check that a node id fits a layout that a call names.  Throws SQLSTATE
 * 55000.
 */
void
sf_node_require_fit(const SfLayout *layout, uint32 node)
{
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	if (((uint64) node >> layout->node_bits) == 0)
		return;
	sf_layout_print(layout, spelled, sizeof(spelled));
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("node id %u does not fit the layout \"%s\"",
					node, spelled),
			 layout->node_bits == 0 ?
			 errdetail("The layout has no field for a node, so only the server with node id 0 may make its IDs.") :
			 errdetail("The layout has room for node ids 0 to %lld.",
					   (long long) (INT64_C(1) << layout->node_bits) - 1),
			 errhint("Name a layout with room for it. Or give this server a smaller node id: one that no other server has, set in snowflake.node_id, also where node ids are leased.")));
}

/* The same for the node of this server, once one is configured or leased. */
void
sf_node_require_own_fit(const SfLayout *layout)
{
	uint64		right = sf_shmem_right();
	SfServerNumber node = right == 0 ? sf_node_configured() :
		sf_server_number_of(sf_settings_node_of(right));

	if (node != SF_NO_NUMBER)
		sf_node_require_fit(layout, sf_server_number_value(node));
}

/*
 * Take the node that a reload has brought, or throw an error that says how to
 * configure one.  The caller then looks again for a node.  The postmaster's
 * numbers count: a busy process reads a reload late.
 */
void
sf_node_take(void)
{
	uint32		node;
	uint32		last;
	int64		nodes = INT64_C(1) << sf_node_layout.node_bits;
	uint64		configured = pg_atomic_read_u64(&sf_shmem->configured);
	char		reason[SF_REASON_SIZE];

	if ((configured & SF_NODE_TAKEN) != 0)
	{
		/* another process is about to publish it */
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1,
						 sf_wait_event(&wait_event_node, "SnowflakeLease"));
		CHECK_FOR_INTERRUPTS();
		return;
	}
	reason[0] = '\0';
	if (!sf_node_was_leased() &&
		find_nodes(configured, &node, &last, reason, sizeof(reason)))
	{
		publish_configured(node, configured);
		return;
	}
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	if (sf_node_was_leased())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(WAS_LEASED),
				 errdetail("The registry may lease any node id to another server, and then both issue the same IDs."),
				 errhint("%s", sf_node_remedy())));
	if (reason[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg(MISFIT),
				 errdetail("%s", reason),
				 errhint("%s", sf_node_change_remedy())));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake.node_id is not set"),
			 errdetail("Each server needs a number of its own from 0 to %lld; two servers with one number issue the same IDs.",
					   (long long) nodes - 1),
			 errhint("%s", sf_node_remedy())));
}
