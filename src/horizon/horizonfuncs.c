/*-------------------------------------------------------------------------
 *
 * horizonfuncs.c
 *	  SQL functions for feeds: the ID up to which the rows are complete.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/xlog.h"
#include "base/message.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "horizon/horizon.h"
#include "identity/identity.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "query/layout_arg.h"
#include "runtime/layout_slot.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

SF_FUNCTION(snowflake_horizon);
SF_FUNCTION(snowflake_horizon_layout);
SF_FUNCTION(snowflake_shard_horizon);
SF_FUNCTION(snowflake_horizon_holders);

/* The columns of horizon_holders(). */
enum
{
	COLUMN_PID,
	COLUMN_GID,
	COLUMN_DATABASE,
	COLUMN_SINCE,
	COLUMN_LOWEST_ID,
	COLUMN_LOWEST_TIME,
	NCOLUMNS
};

static void
require_primary(void)
{
	if (RecoveryInProgress() || GetActiveSnapshot()->takenDuringRecovery)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errdetail("Only the primary knows which transactions may still bring in IDs."),
				 errhint("Connect to the primary. After a promotion, begin a new transaction.")));
}

/*
 * Throw SQLSTATE 55000 in a session that Citus opened to run one part of a
 * distributed query.  Citus pushes stable functions down, and the IDs in its
 * tables come from several servers: with this server's horizon, a feed would
 * skip rows of the others.  Citus knows its own sessions by the same prefix;
 * those of run_command_on_workers() have another one.
 */
static void
refuse_distributed(void)
{
	static const char citus[] = "citus_internal gpid=";

	if (strncmp(application_name, citus, strlen(citus)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a horizon does not cover a distributed table"),
				 errdetail("A Citus node sent this query for a part of the table. This server does not know which transactions on other servers may still bring in IDs."),
				 errhint("Have each transaction write what the feed delivers also into a table that is not distributed, and read the feed from that table.")));
}

/*
 * Return a position as an ID of this maker.  Outside of the layout's life,
 * return 0 or the largest bigint.
 */
static int64
to_id(const SfLayout *layout, uint64 position, int64 maker)
{
	int64		tick = (int64) (position >> layout->sequence_bits);

	if (tick < layout->epoch_tick)
		return 0;
	if (tick >= layout->end_tick)
		return PG_INT64_MAX;
	return sf_layout_compose(layout, position) | maker;
}

/*
 * Return a position as an ID of this node.  If IDs that this server made under
 * other nodes may lie above it, use the lowest of these nodes.  Throws
 * SQLSTATE 55000: the node does not fit the layout.
 */
static int64
to_node_id(const SfLayout *layout, uint64 position)
{
	uint64		right = sf_shmem_right();
	uint32		node = sf_settings_node_of(right);

	node = sf_lease_wait_lowest(layout, position, right == 0, node);
	sf_node_require_fit(layout, node);
	return to_id(layout, position,
				 (int64) sf_layout_place_node(layout, node));
}

static void
prepare(FunctionCallInfo fcinfo)
{
	sf_require_loaded();
	require_primary();
	refuse_distributed();
	sf_mark_require();
}

/* Return the horizon of the node's IDs of the layout in this slot. */
static int64
horizon_of(int slot, const SfLayout *layout)
{
	sf_lease_wait_settle(slot, layout);
	return to_node_id(layout, sf_horizon_node(slot, layout));
}

/*
 * snowflake_horizon() returns bigint
 *
 * Return a bound: every ID of this node below it belongs to a transaction that
 * has ended, and whose outcome the calling statement sees.  Throws SQLSTATE
 * 55000 (a standby; a part of a distributed query; transactions prepared
 * before the start; not preloaded), and the errors of loading the mark.
 */
Datum
snowflake_horizon(PG_FUNCTION_ARGS)
{
	prepare(fcinfo);
	PG_RETURN_INT64(horizon_of(0, &sf_node_layout));
}

/*
 * snowflake_horizon(layout text) returns bigint
 *
 * Return the same for the IDs of a layout.  Also throws 22004 (null), 22023
 * (not a layout, or one with shards), 53400 (too many layouts), 55000 for a
 * node that does not fit the layout, and 58000 or 2200H for a layout in which
 * this server has made no ID, and whose time is not now.
 */
Datum
snowflake_horizon_layout(PG_FUNCTION_ARGS)
{
	const SfLayout *layout;
	uint64		right;
	int			slot;

	sf_require_loaded();
	layout = sf_layout_arg_node(fcinfo, 0);
	prepare(fcinfo);
	/* fail before a layout in which this server makes no IDs takes a slot */
	right = sf_shmem_right();
	sf_node_require_fit(layout, sf_settings_node_of(right));
	slot = sf_layout_slot_of(layout);
	PG_RETURN_INT64(horizon_of(slot, slot == 0 ? &sf_node_layout : layout));
}

/*
 * snowflake_shard_horizon(shard bigint) returns bigint
 *
 * Return the same for the IDs of a shard.  Also throws 22004, 22023, and 55000
 * for a shard that this server does not have.
 */
Datum
snowflake_shard_horizon(PG_FUNCTION_ARGS)
{
	int32		shard;

	sf_require_loaded();
	shard = sf_layout_arg_shard(fcinfo, 0);
	sf_require_shard(shard);
	prepare(fcinfo);
	PG_RETURN_INT64(to_id(&sf_shard_layout, sf_horizon_shard(shard),
						  (int64) shard <<
						  sf_shard_layout.field[SF_SHARD].shift));
}

/* Set the columns of the lowest IDs, if there are such IDs. */
static void
set_lowest(Datum *values, bool *nulls, uint64 node, uint64 other_ms)
{
	if (node != SF_NONE)
	{
		values[COLUMN_LOWEST_ID] =
			Int64GetDatum(to_node_id(&sf_node_layout, node + 1));
		nulls[COLUMN_LOWEST_ID] = false;
	}
	if (other_ms != SF_NONE)
	{
		values[COLUMN_LOWEST_TIME] =
			TimestampTzGetDatum(sf_timefmt_from_ms((int64) other_ms));
		nulls[COLUMN_LOWEST_TIME] = false;
	}
}

/* Add the backend's running transaction if it makes IDs. */
static void
put_running(ReturnSetInfo *rsinfo, int number)
{
	SfPending  *writer = &sf_pending_writers[number].writer;
	PGPROC	   *proc = GetPGProcByNumber(number);
	uint64		node = pg_atomic_read_u64(&writer->node);
	uint64		other_ms = pg_atomic_read_u64(&writer->other_ms);
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS];

	if (node == SF_NONE && other_ms == SF_NONE)
		return;
	memset(nulls, true, sizeof(nulls));
	values[COLUMN_PID] = Int32GetDatum(proc->pid);
	values[COLUMN_DATABASE] =
		ObjectIdGetDatum(pg_atomic_read_u32(&writer->database));
	nulls[COLUMN_PID] = nulls[COLUMN_DATABASE] = false;
	if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), proc->roleId))
	{
		values[COLUMN_SINCE] = TimestampTzGetDatum(writer->since);
		nulls[COLUMN_SINCE] = false;
		set_lowest(values, nulls, node, other_ms);
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Add a prepared transaction if it has made IDs, or may have. */
static void
put_prepared(ReturnSetInfo *rsinfo, const SfPrepared *prepared)
{
	SfPendingRange range;
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS];

	memset(nulls, true, sizeof(nulls));
	if (!sf_horizon_of_prepared(prepared->xid, &range))
		return;
	set_lowest(values, nulls, range.node, range.other_ms);
	values[COLUMN_GID] = CStringGetTextDatum(prepared->gid);
	values[COLUMN_DATABASE] = ObjectIdGetDatum(prepared->database);
	values[COLUMN_SINCE] = TimestampTzGetDatum(prepared->since);
	nulls[COLUMN_GID] = nulls[COLUMN_DATABASE] = nulls[COLUMN_SINCE] = false;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_internal.horizon_holders() returns setof record
 *
 * List the transactions that hold horizons back, in all databases: running
 * ones that have made IDs, and prepared ones.  Of other roles' running
 * transactions, a role sees as much as in pg_stat_activity.  Throws SQLSTATE
 * 55000.
 */
Datum
snowflake_horizon_holders(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfPrepared *list;
	int			count;

	sf_require_loaded();
	require_primary();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < MaxBackends; i++)
		put_running(rsinfo, i);
	list = sf_prepared_list(&count);
	for (int i = 0; i < count; i++)
		put_prepared(rsinfo, &list[i]);
	return (Datum) 0;
}
