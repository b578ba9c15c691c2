/*-------------------------------------------------------------------------
 *
 * node.c
 *	  The node that the configuration gives this server, taken once.
 *
 * A configured node id is a lease without end: until the layout's last tick.
 * The first process that finds one configured publishes it, and nothing but a
 * new start of the server replaces it: while a reload runs, some processes
 * see the old value and some the new one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "node.h"

#include "layout.h"
#include "settings.h"
#include "state.h"

static void
publish(uint32 node)
{
	uint64		none = 0;
	uint64		until = sf_node_layout.end_tick - sf_node_layout.epoch_tick;

	/* until fits: it needs a bit more than the timestamp has at the most */
	(void) pg_atomic_compare_exchange_u64(&sf_state->lease, &none,
										  until << sf_node_layout.node_bits | node);
}

/* The postmaster's part: what is configured must fit, or there is no start. */
void
sf_node_take_at_start(void)
{
	uint32		node;
	char		reason[SF_REASON_SIZE];

	if (sf_settings_node(&node, reason, sizeof(reason)))
		publish(node);
	else if (reason[0] != '\0')
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("node id does not fit the layout"),
				 errdetail("%s", reason),
				 errhint("Change the number, or give the layout more bits for the node.")));
}

/* Take the node that a reload has brought, or say how to bring one. */
void
sf_node_take(void)
{
	uint32		node;
	char		reason[SF_REASON_SIZE];

	if (sf_settings_node(&node, reason, sizeof(reason)))
	{
		publish(node);
		return;
	}
	if (reason[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("node id does not fit the layout"),
				 errdetail("%s", reason),
				 errhint("Change it in postgresql.conf, and reload: SELECT pg_reload_conf();")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake.node_id is not set"),
			 errdetail("Each server needs a number of its own from 0 to %lld; two servers with one number issue the same IDs.",
					   (long long) (INT64_C(1) << sf_node_layout.node_bits) - 1),
			 errhint("Have an administrator run, with a number that no other server has:\nALTER SYSTEM SET snowflake.node_id = '<number>';\nSELECT pg_reload_conf();")));
}
