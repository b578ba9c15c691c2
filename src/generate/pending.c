/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  Per-backend bookkeeping: the low-water mark of the running transaction,
 *	  and the pending ranges of ended ones.
 *
 * Before its first swap, a transaction writes its low-water mark into shared
 * memory.  When it has ended, it leaves a pending range in its backend's ring,
 * and clears the low-water mark.  horizon.c reads both, and explains why the
 * order matters.
 *
 * If the ring is full, its oldest pending range is merged into the younger of
 * two overflow ranges.  The older one only waits until it may go.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "generate/pending.h"

#include "access/parallel.h"
#include "base/fault.h"
#include "miscadmin.h"
#include "runtime/shmem.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"

/* After this many commits, a full ring looks for ranges that may go. */
#define LOOK_EVERY	(SF_PENDING_RANGES / 2)

SfPendingSlot *sf_pending_writers = NULL;

bool		sf_pending_made_node = false;
uint64		sf_pending_other_ms = SF_NONE;

static SfPending *my_pending = NULL;	/* set by this process's first ID */
static bool entered = false;	/* a low-water mark is written */

/* At the last look, all transaction IDs below had ended for all snapshots. */
static uint64 oldest_running = 0;
static int	commits_since_look = LOOK_EVERY;	/* an earlier process may have
												 * filled the ring */

/* Return the size of the shared memory of all writers. */
Size
sf_pending_size(void)
{
	return mul_size(MaxBackends, sizeof(SfPendingSlot));
}

/* Create it: nobody has made an ID. */
void
sf_pending_create(void)
{
	bool		found;

	sf_pending_writers = sf_shmem_create_part("snowflake writers",
											  sf_pending_size(), &found);
	for (int i = 0; i < MaxBackends && !found; i++)
	{
		SfPending  *writer = &sf_pending_writers[i].writer;

		memset(writer, 0, sizeof(SfPending));
		pg_atomic_init_u64(&writer->node, SF_NONE);
		pg_atomic_init_u64(&writer->other_ms, SF_NONE);
		pg_atomic_init_u32(&writer->database, InvalidOid);
		pg_atomic_init_u64(&writer->prepared_early, 0);
		pg_atomic_init_u32(&writer->changes, 0);
	}
}

/* Return the next transaction ID as of the first look in this life. */
uint64
sf_pending_first_xid(void)
{
	uint64		seen = pg_atomic_read_u64(&sf_shmem->first_xid);

	if (seen == 0 &&
		pg_atomic_compare_exchange_u64(&sf_shmem->first_xid, &seen,
									   sf_xids_next()))
		seen = pg_atomic_read_u64(&sf_shmem->first_xid);
	return seen;
}

/* Throw SQLSTATE 25000 in a parallel worker. */
void
sf_pending_require_leader(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot make IDs in a parallel worker"),
				 errhint("Mark the function that makes them PARALLEL RESTRICTED.")));
}

static void
enter_transaction(void)
{
	sf_pending_require_leader();
	if (my_pending == NULL)
	{
		int			number = sf_my_proc_number();

		if (number < 0 || number >= MaxBackends)
			elog(ERROR, "process has number %d of %d", number,
				 MaxBackends);
		my_pending = &sf_pending_writers[number].writer;
		pg_atomic_write_u32(&my_pending->database, MyDatabaseId);
	}
	if (!entered)
		my_pending->since = GetCurrentTransactionStartTimestamp();
	entered = true;
	pg_write_barrier();
}

/*
 * Write the node's low-water mark for this transaction.  Until an ID is made
 * above it, the mark may be written anew: nothing is below the later one.
 */
void
sf_pending_enter_node(void)
{
	enter_transaction();
	pg_atomic_write_u64(&my_pending->node,
						sf_counter_position(sf_layout_slot_counter(0)));
	/* the swap releases it */
}

/* Write the low-water mark of all IDs of shards and of other layouts. */
void
sf_pending_lower_other(uint64 ms)
{
	enter_transaction();
	pg_atomic_write_u64(&my_pending->other_ms, ms);
	sf_pending_other_ms = ms;	/* the swap releases it */
}

/* Return true if no snapshot needs this range, or if it is empty. */
static bool
may_go(const SfPendingRange *range)
{
	return range->last_xid == 0 || range->last_xid < oldest_running;
}

static void
extend(SfPendingRange *overflow, const SfPendingRange *range)
{
	if (overflow->last_xid == 0)
	{
		*overflow = *range;
		return;
	}
	overflow->first_xid = Min(overflow->first_xid, range->first_xid);
	overflow->last_xid = Max(overflow->last_xid, range->last_xid);
	overflow->node = Min(overflow->node, range->node);
	overflow->other_ms = Min(overflow->other_ms, range->other_ms);
	if (overflow->database != range->database)
		overflow->database = InvalidOid;
	overflow->prepared |= range->prepared;
}

/* Merge a pending range into the younger overflow range. */
static void
merge_ranges(const SfPendingRange *range)
{
	SfPendingRange *overflow = my_pending->overflow;

	if (may_go(&overflow[0]))
	{
		overflow[0] = overflow[1];
		memset(&overflow[1], 0, sizeof(SfPendingRange));
	}
	extend(&overflow[1], range);
}

/*
 * Choose a pending range to overwrite: one that may go, otherwise the oldest.
 * Spare those of prepared transactions, because readers look for them one by
 * one.
 */
static SfPendingRange *
choose_range(void)
{
	static int	next = 0;

	next = (next + 1) % SF_PENDING_RANGES;
	if (may_go(&my_pending->range[next]))
		return &my_pending->range[next];
	for (int looks = 0; looks < 2; looks++)
	{
		SfPendingRange *oldest = NULL;

		for (int i = 0; i < SF_PENDING_RANGES; i++)
		{
			SfPendingRange *range = &my_pending->range[i];

			if (may_go(range))
				return range;
			if (oldest == NULL || range->prepared < oldest->prepared ||
				(range->prepared == oldest->prepared &&
				 range->last_xid < oldest->last_xid))
				oldest = range;
		}
		if (looks > 0 || ++commits_since_look < LOOK_EVERY)
			return oldest;
		commits_since_look = 0;
		oldest_running =
			sf_xids_widen(GetOldestTransactionIdConsideredRunning(),
						  sf_xids_next());
	}
	pg_unreachable();
}

/*
 * Leave a pending range for this transaction.  It is committed, so there must
 * be no error here.
 */
static void
leave_range(bool prepared)
{
	uint64		xid = sf_xids_top();
	SfPendingRange *range;

	if (xid == 0)
		return;
	range = choose_range();

	/* count twice, as the server does for pg_stat_activity */
	pg_atomic_write_u32(&my_pending->changes,
						pg_atomic_read_u32(&my_pending->changes) + 1);
	pg_write_barrier();
	if (!may_go(range))
		merge_ranges(range);
	SF_FAULT("range-begun");
	range->first_xid = xid;
	range->last_xid = xid;
	range->node = pg_atomic_read_u64(&my_pending->node);
	range->other_ms = pg_atomic_read_u64(&my_pending->other_ms);
	range->database = MyDatabaseId;
	range->prepared = prepared;
	pg_write_barrier();
	pg_atomic_write_u32(&my_pending->changes,
						pg_atomic_read_u32(&my_pending->changes) + 1);
}

/*
 * Before a transaction is prepared, record that it is of this life, whether or
 * not it has made IDs.  Otherwise a reader could take it for one of an earlier
 * life.
 */
static void
record_prepared(void)
{
	uint64		xid = sf_xids_top();

	if (sf_shmem != NULL && xid < sf_pending_first_xid())
	{
		SfPending  *writer = &sf_pending_writers[sf_my_proc_number()].writer;

		pg_atomic_write_u64(&writer->prepared_early, xid);
		pg_memory_barrier();
	}
}

/* Clear the low-water marks: this transaction holds nothing back any more. */
static void
leave(void)
{
	pg_write_barrier();
	pg_atomic_write_u64(&my_pending->node, SF_NONE);
	pg_atomic_write_u64(&my_pending->other_ms, SF_NONE);
	entered = false;
	sf_pending_made_node = false;
	sf_pending_other_ms = SF_NONE;
}

/* Run after the server has made the transaction's end known to others. */
static void
end_pending(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_PREPARE)
		record_prepared();
	if (event == XACT_EVENT_COMMIT)
		SF_FAULT("committed");
	if (!entered)
		return;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			leave_range(event == XACT_EVENT_PREPARE);
			SF_FAULT("range-left");
			leave();
			break;
		case XACT_EVENT_ABORT:
			leave();
			break;
		default:
			break;
	}
}

/* Install the callback at load; all processes inherit it. */
void
sf_pending_register(void)
{
	RegisterXactCallback(end_pending, NULL);
}
