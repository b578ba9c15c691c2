/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  The horizon: the bound below which transactions bring in no more rows.
 *
 * IDs are made before their transaction commits, so the rows of a table do not
 * appear in the order of their IDs.  The horizon of a snapshot is a position
 * such that each ID below it belongs to a transaction that has ended, and
 * whose outcome the snapshot sees.  Two kinds of transactions hold it back.
 *
 * Running transactions.  Before its first swap of the node's counter, a
 * transaction writes the counter's value into its backend's low-water mark in
 * shared memory.  Counters only grow, so all its IDs will lie above that.
 *
 * Each shard has a counter, and so has each layout other than the node's.  But
 * a backend has one low-water mark for all of them: a time in Unix ms.  No ID
 * that the transaction makes of a shard or of such a layout is before it.  The
 * transaction lowers this low-water mark before a swap that may go below it:
 * if the clock steps back, the counter of an idle shard does not prevent that.
 * It writes the start of the tick that it will use or go beyond, which is a
 * whole number of ms in every layout.  A reader divides that time by the tick
 * of its own layout, and rounds down.  If the ID is of that layout, the time
 * was at most the start of the ID's tick, so the quotient is at most that
 * tick.  So layouts may have different ticks: a long tick delays the reader by
 * at most one tick more, and no row is lost.
 *
 * A reader loads the counter, then every backend's low-water mark, then every
 * ring.  Say that transaction T takes position p.  If the reader loaded the
 * counter at or above p, it observed T's swap or a later one.  T stored its
 * low-water mark before that swap, which is at least a release.  So the reader
 * also observes the low-water mark, or the pending range that replaced it when
 * T ended.  If the reader loaded the counter below p, p is above the bound
 * anyway.  The bound is the least of the values loaded, plus one: every
 * position up to it was issued, and to none of the running transactions.
 * Without the plus one, the last row of an idle system would never be visible.
 *
 * Transactions that have ended, but not for the snapshot.  The snapshot is
 * older than the look at the low-water marks: by hours at REPEATABLE READ,
 * otherwise by some microseconds.  If a transaction ends in between, the
 * snapshot does not see the transaction's rows, and the low-water mark is
 * gone.  So before a transaction clears its low-water mark, it leaves a
 * pending range with its transaction ID in its backend's ring.  The pending
 * range counts for the snapshots that see this ID as running.  A reader looks
 * at the low-water mark first and at the ring afterwards: if it finds the
 * low-water mark cleared, it finds the pending range.
 *
 * A transaction leaves its pending range, and clears its low-water mark, after
 * the server has made its end known to others (XACT_EVENT_COMMIT).  So a
 * snapshot may see the rows while the low-water mark is still there, which
 * does no harm.  And no callback can write a row later that the pending range
 * does not cover.
 *
 * - The transaction ID is that of the top transaction: subtransactions end
 *   with it.  It may be assigned after the IDs were made.  A transaction
 *   without one has written no rows, and leaves nothing.  Nor does one that
 *   aborts.
 * - PREPARE TRANSACTION leaves a pending range as COMMIT does.  COMMIT
 *   PREPARED runs no callback, and need not: the range counts only as long as
 *   its transaction ID is seen as running.
 * - A backend that dies without a callback ends the shared memory with it.
 *   FATAL aborts the transaction before the process ends.
 * - Parallel workers make no IDs, and write no rows.
 * - Low-water marks and ranges name their database.  A transaction of another
 *   database has no rows here.
 *
 * The rings.  Each backend has its own, which it alone writes.  It counts its
 * changes, so that a reader that reads in between reads again.  A pending
 * range may go when no snapshot can see its transaction as running.  When its
 * ring is full, a backend now and then looks for ranges that may go.  If there
 * is none, it merges the oldest pending range into an overflow range: a range
 * of transaction IDs, with the least of their positions.  An overflow range
 * counts for a snapshot that sees any ID in it as running, except for IDs that
 * are still running and not prepared: no overflow range contains those.  So a
 * long transaction does not hold back a fresh snapshot.  An old snapshot is
 * held back by more than necessary, which does no harm.  There are two
 * overflow ranges: one waits until it may go, while pending ranges are merged
 * into the other.  A single one would never go while there is always a
 * snapshot that lags behind.
 *
 * Transactions that were prepared before the server started have left nothing
 * in this shared memory.  Their transaction IDs are below the next transaction
 * ID as it was at the first look in this life.  If all below that have ended
 * for a snapshot, none of them matters to it.  Otherwise, look at each one
 * that runs for the snapshot.  It may be a transaction of this life.  Or it is
 * still prepared, and then the answer is an error.  If it has ended since the
 * snapshot, nobody can tell any more to which life it belonged: then the bound
 * is zero until the next snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "horizon/horizon.h"

#include "access/htup_details.h"
#include "access/twophase.h"
#include "access/xlog.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_subscription.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "generate/pending.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "query/query.h"
#include "runtime/shmem.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* ---- the prepared transactions, as pg_prepared_xacts shows them ---- */

/* A prepared transaction. */
typedef struct Prepared
{
	TransactionId xid;
	char	   *gid;
	TimestampTz since;
	Oid			owner;
	Oid			database;
} Prepared;

/* The columns of pg_prepared_xact(). */
enum
{
	PREPARED_XID = 1,
	PREPARED_GID,
	PREPARED_SINCE,
	PREPARED_OWNER,
	PREPARED_DATABASE
};

static Prepared
read_row(HeapTupleHeader row)
{
	Prepared	found;
	bool		isnull;

	found.xid =
		DatumGetTransactionId(GetAttributeByNum(row, PREPARED_XID, &isnull));
	found.gid =
		TextDatumGetCString(GetAttributeByNum(row, PREPARED_GID, &isnull));
	found.since = DatumGetTimestampTz(GetAttributeByNum(row, PREPARED_SINCE,
														&isnull));
	found.owner =
		DatumGetObjectId(GetAttributeByNum(row, PREPARED_OWNER, &isnull));
	found.database =
		DatumGetObjectId(GetAttributeByNum(row, PREPARED_DATABASE, &isnull));
	return found;
}

/*
 * Return all transactions that are prepared now, in all databases.
 *
 * The server exports its list only by the function of the view, which is
 * called here as any caller of a set-returning function may (fmgr/README).  A
 * query through SPI would need the caller's rights, read catalogues and handle
 * invalidations in the middle of a horizon.  And it would cost a plan each
 * time, and be seen by the hooks of other extensions.
 */
static Prepared *
list_prepared(int *count)
{
	LOCAL_FCINFO(fcinfo, 0);
	Prepared   *list;
	FmgrInfo	function;
	ReturnSetInfo result = {.type = T_ReturnSetInfo};

	*count = 0;
	list = palloc(sizeof(Prepared) * (max_prepared_xacts + 1));
	if (max_prepared_xacts == 0)
		return list;

	fmgr_info(F_PG_PREPARED_XACT, &function);
	result.econtext = CreateStandaloneExprContext();
	result.allowedModes = SFRM_ValuePerCall;
	InitFunctionCallInfoData(*fcinfo, &function, 0, InvalidOid, NULL,
							 (Node *) &result);
	for (;;)
	{
		Datum		row;

		result.returnMode = SFRM_ValuePerCall;
		result.isDone = ExprSingleResult;
		fcinfo->isnull = false;
		row = FunctionCallInvoke(fcinfo);
		if (result.isDone != ExprMultipleResult)
			break;
		Assert(*count < max_prepared_xacts);
		list[(*count)++] = read_row(DatumGetHeapTupleHeader(row));
	}
	FreeExprContext(result.econtext, true);
	return list;
}

static const Prepared *
find_prepared(const Prepared *list, int count, TransactionId xid)
{
	for (int i = 0; i < count; i++)
	{
		if (list[i].xid == xid)
			return &list[i];
	}
	return NULL;
}

/* ---- the horizon ---- */

/*
 * Tell snapshots of one transaction apart, together with xmin and xmax.  The
 * number of running transactions would not do: while one is prepared, and
 * waits for a synchronous standby, a snapshot has its ID twice.
 */
uint64
sf_horizon_hash_running(Snapshot snapshot)
{
	bool		standby = snapshot->takenDuringRecovery;

	/* a standby has all of them in the other array */
	return hash_bytes_extended((unsigned char *)
							   (standby ? snapshot->subxip : snapshot->xip),
							   (standby ? (uint32) snapshot->subxcnt :
								snapshot->xcnt) *
							   sizeof(TransactionId), 0);
}

#define NRANGES		(SF_PENDING_RANGES + SF_OVERFLOW_RANGES)

/*
 * The key of a kept answer, without padding.  The first three members tell a
 * transaction's snapshots apart.
 */
typedef struct Question
{
	uint64		running;		/* sf_horizon_hash_running() */
	TransactionId xmin;
	TransactionId xmax;
	int32		shard;			/* or SF_NO_SHARD */
	int32		slot;			/* of the layout; unused for a shard */
} Question;

typedef struct Kept
{
	Question	question;		/* the key: must be first */
	uint64		position;		/* SF_NONE: nothing yet */
	int64		id;				/* of this node; -1: nothing yet */
} Kept;

/* A snapshot, with its transaction IDs extended by their epoch. */
typedef struct View
{
	Snapshot	snapshot;
	uint64		next;			/* a "next" transaction ID, read afterwards */
	uint64		xmin;
	uint64		xmax;
} View;

/* The lower bounds found so far. */
typedef struct Bound
{
	uint64		node;
	uint64		other_ms;
} Bound;

/*
 * Return true if any transaction of the overflow range is running for the
 * snapshot.  A transaction that is still running is not in the range, unless
 * it is prepared.  List the prepared ones first: they may end at any time.
 */
static bool
any_is_running(const View *view, const SfPendingRange *overflow)
{
	Snapshot	snapshot = view->snapshot;
	Prepared   *list = NULL;
	int			count = 0;

	for (uint32 i = 0; i < snapshot->xcnt; i++)
	{
		uint64		xid = sf_xids_widen(snapshot->xip[i], view->next);

		if (xid < overflow->first_xid || xid > overflow->last_xid)
			continue;
		if (overflow->prepared && list == NULL)
			list = list_prepared(&count);
		if (find_prepared(list, count, snapshot->xip[i]) != NULL ||
			!TransactionIdIsInProgress(snapshot->xip[i]))
			return true;
	}
	return false;
}

/* Return true if the snapshot sees a transaction of this range as running. */
static bool
is_held(const View *view, const SfPendingRange *range)
{
	uint32		database = range->database;

	if (range->last_xid < view->xmin ||
		(OidIsValid(database) && database != MyDatabaseId))
		return false;
	if (range->last_xid >= view->xmax)
		return true;
	if (range->first_xid == range->last_xid)
		return XidInMVCCSnapshot((TransactionId) range->last_xid,
								 view->snapshot);
	return any_is_running(view, range);
}

static void
lower_to(Bound *bound, uint64 node, uint64 other_ms)
{
	bound->node = Min(bound->node, node);
	bound->other_ms = Min(bound->other_ms, other_ms);
}

/* Copy a writer's ranges as of one moment: first pending, then overflow. */
static void
copy_ranges(SfPending *writer, SfPendingRange *copy)
{
	for (int tries = 0;; tries++)
	{
		uint32		before = pg_atomic_read_u32(&writer->changes);

		pg_read_barrier();
		memcpy(copy, writer->range, sizeof(writer->range));
		memcpy(copy + SF_PENDING_RANGES, writer->overflow,
			   sizeof(writer->overflow));
		pg_read_barrier();
		if (before % 2 == 0 && pg_atomic_read_u32(&writer->changes) == before)
			return;
		CHECK_FOR_INTERRUPTS();
		if (tries > 100)		/* the writer was frozen, or lost its
								 * processor */
			pg_usleep(1000);
	}
}

/* Lower the bound by a backend's low-water marks, and then by its ring. */
static void
lower_by_writer(SfPending *writer, const View *view, Bound *bound)
{
	uint64		node = pg_atomic_read_u64(&writer->node);
	uint64		other_ms = pg_atomic_read_u64(&writer->other_ms);
	SfPendingRange range[NRANGES];

	/* read "database" last: a new owner of the slot may be in another one */
	pg_read_barrier();
	if (pg_atomic_read_u32(&writer->database) == MyDatabaseId)
		lower_to(bound, node, other_ms);

	copy_ranges(writer, range);
	for (int i = 0; i < NRANGES; i++)
	{
		if (is_held(view, &range[i]))
			lower_to(bound, range[i].node, range[i].other_ms);
	}
}

/*
 * Find the pending range of a transaction; return false if it has none.  If
 * the range was merged, its positions are no longer known.
 */
static bool
find_range(uint64 xid, SfPendingRange *found)
{
	SfPendingRange alone = {
		.first_xid = xid, .last_xid = xid,
		.node = SF_NONE, .other_ms = SF_NONE
	};

	memset(found, 0, sizeof(SfPendingRange));
	for (int i = 0; i < MaxBackends && found->last_xid == 0; i++)
	{
		SfPending  *writer = &sf_pending_writers[i].writer;
		SfPendingRange range[NRANGES];

		if (pg_atomic_read_u32(&writer->database) == InvalidOid)
			continue;
		copy_ranges(writer, range);
		for (int p = 0; p < SF_PENDING_RANGES; p++)
			if (range[p].last_xid == xid)
				*found = range[p];
		for (int o = SF_PENDING_RANGES; o < NRANGES; o++)
		{
			SfPendingRange *overflow = &range[o];

			if (found->last_xid == 0 && overflow->prepared &&
				xid >= overflow->first_xid && xid <= overflow->last_xid)
				*found = alone;
		}
	}
	return found->last_xid != 0;
}

/* Return true if this life is known to have begun the transaction. */
static bool
is_known(uint64 xid)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		SfPending  *writer = &sf_pending_writers[i].writer;

		if (pg_atomic_read_u64(&writer->prepared_early) == xid)
			return true;
	}
	return xid >= sf_pending_first_xid();
}

/*
 * Return true if a prepared transaction has made IDs, or may have.  Set their
 * lower bounds, as far as they are known.
 */
static bool
find_range_of_prepared(TransactionId xid, SfPendingRange *range)
{
	uint64		wide = sf_xids_widen(xid, sf_xids_next());

	if (find_range(wide, range))
		return true;
	range->node = SF_NONE;
	range->other_ms = SF_NONE;
	return !is_known(wide);
}

/*
 * Return the subscription that has prepared this transaction, or NULL, and its
 * transaction ID on the publisher, which will end it here, too.  If it is
 * ended here before, the replication fails from then on.  Anybody can prepare
 * one with such a name: believe it only of the subscription's owner, or of a
 * superuser, which may be a former owner.
 */
static char *
find_subscription(const Prepared *prepared, TransactionId *xid)
{
	Oid			subscription;
	int			end = 0;
	HeapTuple	tuple;
	Form_pg_subscription form;
	char	   *name = NULL;

	if (sscanf(prepared->gid, "pg_gid_%u_%u%n", &subscription, xid, &end) != 2 ||
		prepared->gid[end] != '\0')
		return NULL;
	tuple = SearchSysCache1(SUBSCRIPTIONOID, ObjectIdGetDatum(subscription));
	if (!HeapTupleIsValid(tuple))
		return NULL;
	form = (Form_pg_subscription) GETSTRUCT(tuple);
	if (form->subdbid == MyDatabaseId &&
		(form->subowner == prepared->owner || superuser_arg(prepared->owner)))
		name = pstrdup(NameStr(form->subname));
	ReleaseSysCache(tuple);
	return name;
}

/* Refuse these, and those of publishers: SQLSTATE 55000. */
static void
refuse_prepared(const StringInfo gids, const StringInfo theirs)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("transactions that were prepared before the server started may still bring in IDs"),
			 errdetail("Prepared transactions: %s.", gids->data),
			 errhint("End each with COMMIT PREPARED or ROLLBACK PREPARED%s%s.",
					 theirs->len == 0 ? "" :
					 "; but these on the publisher, or the replication fails for good:",
					 theirs->data)));
}

/*
 * Check that each transaction that runs for the snapshot is one of this life.
 * Throw an error if one is prepared and of an earlier life.  Return false if
 * one has ended since, so that its life is unknown.
 */
static bool
all_accounted_for(const View *view)
{
	bool		sure = true;
	SfPendingRange range;
	StringInfoData gids;
	StringInfoData theirs;
	Prepared   *list;
	int			count;

	if (view->xmin >= sf_pending_first_xid() || max_prepared_xacts == 0)
		return true;

	initStringInfo(&gids);
	initStringInfo(&theirs);
	list = list_prepared(&count);
	for (uint32 i = 0; i < view->snapshot->xcnt; i++)
	{
		TransactionId xid = view->snapshot->xip[i];
		uint64		wide = sf_xids_widen(xid, view->next);
		const Prepared *found = find_prepared(list, count, xid);

		if (is_known(wide) || find_range(wide, &range))
			continue;
		if (found == NULL)
			sure = sure && TransactionIdIsInProgress(xid);
		else if (found->database == MyDatabaseId)
		{
			TransactionId remote;
			char	   *subscription = find_subscription(found, &remote);

			appendStringInfo(&gids, "%s%s", gids.len > 0 ? ", " : "",
							 sf_text_quote(found->gid));
			if (subscription != NULL)
				appendStringInfo(&theirs, "%s %u of the subscription %s",
								 theirs.len > 0 ? "," : "", remote,
								 quote_identifier(subscription));
		}
	}
	if (gids.len > 0)
		refuse_prepared(&gids, &theirs);
	return sure;
}

static View
view_of(Snapshot snapshot)
{
	View		view = {.snapshot = snapshot, .next = sf_xids_next()};

	view.xmin = sf_xids_widen(snapshot->xmin, view.next);
	view.xmax = sf_xids_widen(snapshot->xmax, view.next);
	return view;
}

/*
 * Return the lowest position of all shards: a shard that this server does not
 * have may be opened later.
 */
static uint64
lowest_shard_position(void)
{
	uint64		lowest = SF_NONE;

	for (int i = 0; i < sf_shmem->nshards; i++)
		lowest = Min(lowest, sf_shard_position(i));
	return lowest;
}

/* Compute the bound of the IDs of a counter; NULL stands for all shards. */
static uint64
compute_bound(const View *view, const SfLayout *layout,
			  pg_atomic_uint64 *counter)
{
	uint64		position = counter == NULL ?
		lowest_shard_position() : sf_counter_position(counter);
	Bound		bound = {SF_NONE, SF_NONE};
	uint64		tick;

	pg_memory_barrier();
	if (!all_accounted_for(view))
		return 0;
	for (int i = 0; i < MaxBackends; i++)
	{
		SfPending  *writer = &sf_pending_writers[i].writer;

		if (pg_atomic_read_u32(&writer->database) != InvalidOid)
			lower_by_writer(writer, view, &bound);
	}
	if (layout == &sf_node_layout)
		return Min(position, bound.node) + 1;
	tick = bound.other_ms / layout->tick_ms;
	if (tick <= position >> layout->sequence_bits)
		return tick << layout->sequence_bits;
	return position + 1;
}

/* Return the answers that the running transaction was given. */
static HTAB *
kept_answers(void)
{
	static HTAB *kept = NULL;
	static LocalTransactionId owner = InvalidLocalTransactionId;
	HASHCTL		control = {
		.keysize = sizeof(Question), .entrysize = sizeof(Kept),
		.hcxt = TopTransactionContext
	};

	/* an earlier transaction's answers are gone with its memory */
	if (owner != sf_my_lxid())
	{
		kept = hash_create("snowflake horizons", 16, &control,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		owner = sf_my_lxid();
	}
	return kept;
}

/*
 * Return the position of this shard, of all shards, or of the layout in this
 * slot, below which everything has ended for the active snapshot.  The caller
 * has such a snapshot, which was not taken during recovery, and has loaded the
 * mark of the database.  The layout of slot 0 is &sf_node_layout.  Throws
 * SQLSTATE 55000.
 *
 * A statement may ask again, for each row, with the same snapshot, and must
 * get the same answer: with a later answer, it would return a row after it has
 * skipped one with a smaller ID.  A cursor may ask again until the transaction
 * ends, so every answer is kept until then.  Each takes about 50 bytes.
 */
static Kept *
ask(int shard, int slot, const SfLayout *layout,
	pg_atomic_uint64 *counter)
{
	Snapshot	snapshot = GetActiveSnapshot();
	Question	question = {
		.running = sf_horizon_hash_running(snapshot),
		.xmin = snapshot->xmin, .xmax = snapshot->xmax,
		.shard = shard, .slot = slot
	};
	bool		found;
	Kept	   *kept = hash_search(kept_answers(), &question, HASH_ENTER,
								   &found);

	Assert(!snapshot->takenDuringRecovery);
	Assert(shard != SF_NO_SHARD ||
		   (slot == 0) == (layout == &sf_node_layout));
	if (!found)
	{
		kept->position = SF_NONE;
		kept->id = -1;
	}
	if (kept->position == SF_NONE)
	{
		View		view = view_of(snapshot);

		kept->position = compute_bound(&view, layout, counter);
	}
	return kept;
}

/* ---- the SQL functions ---- */

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
				 errhint("Connect to the primary; after a promotion, begin a new transaction. Or, if the primary publishes its horizon, call: SELECT %s.snowflake_feed_horizon();",
						 sf_extschema())));
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
 * Return true if there may be IDs of other nodes at this position of a layout,
 * or above.
 */
static bool
is_mixed(const SfLayout *layout, uint64 position)
{
	int64		tick = (int64) (position >> layout->sequence_bits);
	uint64		until = pg_atomic_read_u64(&sf_shmem->leasing.other_until);
	int64		end_ms = sf_layout_after_epoch_ms(&sf_node_layout, until);

	return until != 0 && tick * layout->tick_ms < end_ms;
}

/*
 * Return a position as an ID of this node.  If IDs that this server made under
 * other nodes may lie above it, use the lowest of these nodes: no ID at this
 * position or above is of a lower one.  Throws SQLSTATE 55000: the node does
 * not fit the layout.
 */
static int64
to_node_id(const SfLayout *layout, uint64 position)
{
	uint64		right = sf_shmem_right();
	uint32		node = sf_settings_node_of(right);
	SfServerNumber lowest;
	SfServerNumber last;

	pg_read_barrier();			/* read the right before these */
	lowest = pg_atomic_read_u32(&sf_shmem->leasing.lowest_node);
	last = pg_atomic_read_u32(&sf_shmem->leasing.node);
	if (right == 0 && last != SF_NO_NUMBER)
		node = sf_server_number_value(last);
	if (is_mixed(layout, position) && lowest != SF_NO_NUMBER)
		node = Min(node, sf_server_number_value(lowest));
	sf_node_require_fit(layout, node);
	return to_id(layout, position,
				 (int64) sf_layout_place_node(layout, node));
}

static void
prepare(void)
{
	sf_require_loaded();
	require_primary();
	refuse_distributed();
	sf_mark_require();
}

/*
 * Return the horizon of the node's IDs of the layout in this slot.  If it will
 * be composed with a lower node than the last ID has, that ID must be of an
 * earlier tick.  Otherwise it would not come to lie below the horizon while no
 * further ID is made.
 */
static int64
horizon_of(int slot, const SfLayout *layout)
{
	pg_atomic_uint64 *counter = sf_layout_slot_counter(slot);
	uint64		position = sf_counter_position(counter);
	Kept	   *kept;

	if (is_mixed(layout, position) &&
		(int64) (position >> layout->sequence_bits) <
		sf_layout_ms_to_tick(layout, sf_clock_wall_ms()))
		sf_layout_slot_end_tick(slot, layout);
	kept = ask(SF_NO_SHARD, slot, layout, counter);
	/* the node may change while the snapshot asks again */
	if (kept->id < 0)
		kept->id = to_node_id(layout, kept->position);
	return kept->id;
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
	prepare();
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
	int			slot;

	sf_require_loaded();
	layout = sf_layout_arg_node(fcinfo, 0);
	prepare();
	/* fail before a layout in which this server makes no IDs takes a slot */
	sf_node_require_own_fit(layout);
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
	prepare();
	PG_RETURN_INT64(to_id(&sf_shard_layout,
						  ask(shard, 0, &sf_shard_layout,
							  &sf_shard_counters[shard])->position,
						  (int64) shard <<
						  sf_shard_layout.field[SF_SHARD].shift));
}

/*
 * Return the horizon of the layout in this slot, or of all shards, for readers
 * on any server.  The horizon holds whatever happens to this server, and
 * whatever node id it gets: no ID of any node at this position or above is
 * below it.  In an own later life, or on a promoted standby, no ID is made
 * below the mark.  So the horizon is not above *highest, which is the mark's.
 */
int64
sf_horizon_to_publish(int shard, int slot, const SfLayout *layout,
					  int64 *highest)
{
	uint64		position;
	int64		mark;

	prepare();
	position = ask(shard, slot, layout, shard == SF_ALL_SHARDS ? NULL :
				   sf_layout_slot_counter(slot))->position;
	sf_mark_require();
	mark = (int64) pg_atomic_read_u64(&sf_mark_attached->mark);
	*highest = to_id(layout, (uint64) sf_layout_ms_to_tick(layout, mark) <<
					 layout->sequence_bits, 0);
	return Min(to_id(layout, position, 0), *highest);
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
put_prepared(ReturnSetInfo *rsinfo, const Prepared *prepared)
{
	SfPendingRange range;
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS];

	memset(nulls, true, sizeof(nulls));
	if (!find_range_of_prepared(prepared->xid, &range))
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
	Prepared   *list;
	int			count;

	sf_require_loaded();
	require_primary();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < MaxBackends; i++)
		put_running(rsinfo, i);
	list = list_prepared(&count);
	for (int i = 0; i < count; i++)
		put_prepared(rsinfo, &list[i]);
	return (Datum) 0;
}

/*
 * Return statements that end the transactions of this database that can still
 * commit IDs: those that run, and have made some, and prepared ones that may
 * have.  Each has a blank before it.  Of many, these are the first.
 */
const char *
sf_horizon_end_holders(void)
{
	StringInfoData ends;
	Prepared   *list;
	int			count;
	int			most = 6;

	initStringInfo(&ends);
	for (int i = 0; i < MaxBackends && most > 0; i++)
	{
		SfPending  *writer = &sf_pending_writers[i].writer;

		if (pg_atomic_read_u32(&writer->database) == MyDatabaseId &&
			(pg_atomic_read_u64(&writer->node) != SF_NONE ||
			 pg_atomic_read_u64(&writer->other_ms) != SF_NONE))
		{
			int			pid = GetPGProcByNumber(i)->pid;

			if (pid == MyProcPid)
				appendStringInfoString(&ends, " COMMIT; or ROLLBACK;");
			else
				appendStringInfo(&ends,
								 " SELECT pg_catalog.pg_terminate_backend(%d, '5000'::bigint);",
								 pid);
			most--;
		}
	}
	list = list_prepared(&count);
	for (int i = 0; i < count && most > 0; i++)
	{
		SfPendingRange range;

		if (list[i].database == MyDatabaseId &&
			find_range_of_prepared(list[i].xid, &range))
		{
			char	   *gid = sf_text_quote(list[i].gid);
			TransactionId remote;
			char	   *subscription = find_subscription(&list[i], &remote);

			if (subscription != NULL)
				appendStringInfo(&ends,
								 " on the publisher of the subscription %s, the prepared transaction %u;",
								 quote_identifier(subscription), remote);
			else
				appendStringInfo(&ends,
								 " COMMIT PREPARED %s; or ROLLBACK PREPARED %s;",
								 gid, gid);
			most--;
		}
	}
	return ends.data;
}
