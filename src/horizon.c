/*-------------------------------------------------------------------------
 *
 * horizon.c
 *	  What transactions may still bring in: writers, what they left, the bound.
 *
 * IDs are made before their transaction commits, so the rows of a table do
 * not appear in the order of their IDs.  The horizon of a snapshot is a
 * position such that each ID below it belongs to a transaction that has ended,
 * and whose outcome the snapshot sees.  Two things hold it back:
 *
 * Transactions that run.  Before its first swap of the node's counter a
 * transaction writes what it has read from the counter into its backend's
 * word in shared memory.  Counters only grow, so all IDs it will ever make are
 * above that.  There are as many counters of shards as shards, and one word
 * for all of them: a tick that its IDs are not before.  It is made lower
 * before a swap that may go below it, since an idle shard's counter does not
 * keep a clock that steps back from that.
 *
 * Who asks reads the counter first and the words after it.  Say that the
 * transaction T takes position p.  If the counter was read at or above p, the
 * swap of T, or one after it, was seen; T's word was written before that swap,
 * which is a full barrier, and so it is seen, too: T's, or what T has put
 * there when it ended.  If the counter was read below p, p is above the bound
 * whatever the words say.  The bound is the least of what was read, plus one:
 * everything at or below has been given away, and to none of those who run.
 * Without the one, nobody would ever see the last row of an idle system.
 *
 * Transactions that have ended, but not for the snapshot.  It is older than
 * the look at the words: at REPEATABLE READ by hours, otherwise by some
 * microseconds.  A transaction that ends in between is invisible to it, and
 * has cleared its word.  So before that it leaves an entry with its
 * transaction ID in its backend's ring, and the entry counts for the snapshots
 * that see this ID as running.  Who asks looks at the word first and at the
 * ring after it: he who finds the word cleared finds the entry.
 *
 * Both are done when the server has made the end known (XACT_EVENT_COMMIT).
 * So a snapshot may see the rows while the word is still there, which is no
 * harm; and no row can be written any more, by nobody's callback, that the
 * entry does not speak for.
 *
 * - The transaction ID is the top one: subtransactions end with it.  It may
 *   have been given after the IDs were made.  Without one there are no rows,
 *   and nothing is left.  The same for a transaction that aborts.
 * - PREPARE TRANSACTION leaves an entry as COMMIT does.  COMMIT PREPARED calls
 *   nobody back, and need not: the entry ends when its transaction ID does.
 * - A backend that dies without a callback takes the shared memory with it.
 *   FATAL aborts the transaction before the process is gone.
 * - Parallel workers make no IDs, and write no rows.
 * - Words and entries name their database.  Others have no rows in ours.
 *
 * The rings.  Each backend has its own, which it alone writes, and counts its
 * changes, so that who reads in between reads again.  An entry may go when no
 * snapshot can see its transaction as running.  A ring that is full looks at
 * that, now and then, and otherwise folds its oldest entry into a generation:
 * a range of transaction IDs, with the least of their positions.  A generation
 * counts for a snapshot that sees any ID in the range as running, except those
 * which run still and are not prepared: they are in nobody's generation.  So a
 * long transaction does not hold back who has a fresh snapshot.  An old
 * snapshot is held back by more than it must be, and that does no harm.  There
 * are two generations: one waits until it may go, while the other takes in.  A
 * single one would never go while there is always a snapshot that lags behind.
 *
 * Transactions that were prepared before the server started have left nothing
 * in this shared memory.  Their transaction IDs are below the next one as it
 * was at the first look in this life.  A snapshot to which all below that are
 * ended has nothing to do with them.  If not, each must be accounted for: as
 * one of this life, or as one that is still prepared, and then the answer is
 * an error.  One that has ended since the snapshot can no longer be asked, and
 * nothing is promised: the bound is zero until the next snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "horizon.h"

#include "access/twophase.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "prepared.h"
#include "settings.h"
#include "shard.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "writer.h"
#include "xids.h"

#define NBROUGHT	(SF_WRITER_ENTRIES + SF_WRITER_GENERATIONS)

/*
 * What a snapshot was asked for.  Three words tell a transaction's snapshots
 * apart by what they contain: while xmax stays, others only end.
 */
typedef struct Question
{
	TransactionId xmin;
	TransactionId xmax;
	uint32		xcnt;
	int32		shard;			/* -1: the node's horizon */
} Question;

typedef struct Kept
{
	Question	question;		/* the key: must be first */
	uint64		answer;			/* SF_NONE: nothing yet */
} Kept;

/* A snapshot, with what it says about transaction IDs given their epoch. */
typedef struct View
{
	Snapshot	snapshot;
	uint64		next;			/* some transaction ID after it */
	uint64		xmin;
	uint64		xmax;
} View;

/* The least that holds back. */
typedef struct Bound
{
	uint64		node;
	uint64		shard_tick;
} Bound;

/*
 * Is any of the generation running for the snapshot?  What runs still is not
 * of the generation, unless it is prepared.  Look for that first: what is
 * prepared may end at any time.
 */
static bool
any_is_running(const View *view, const SfBrought *generation)
{
	Snapshot	snapshot = view->snapshot;
	SfPrepared *list = NULL;
	int			count = 0;

	for (uint32 i = 0; i < snapshot->xcnt; i++)
	{
		uint64		xid = sf_xids_widen(snapshot->xip[i], view->next);

		if (xid < generation->first_xid || xid > generation->last_xid)
			continue;
		if (generation->prepared && list == NULL)
			list = sf_prepared_list(&count);
		if (sf_prepared_find(list, count, snapshot->xip[i]) != NULL ||
			!TransactionIdIsInProgress(snapshot->xip[i]))
			return true;
	}
	return false;
}

/* Has the snapshot still to wait for what was brought? */
static bool
is_held(const View *view, const SfBrought *brought)
{
	uint32		database = brought->database;

	if (brought->last_xid < view->xmin ||
		(OidIsValid(database) && database != MyDatabaseId))
		return false;
	if (brought->last_xid >= view->xmax)
		return true;
	if (brought->first_xid == brought->last_xid)
		return XidInMVCCSnapshot((TransactionId) brought->last_xid,
								 view->snapshot);
	return any_is_running(view, brought);
}

static void
lower(Bound *bound, uint64 node, uint64 shard_tick)
{
	bound->node = Min(bound->node, node);
	bound->shard_tick = Min(bound->shard_tick, shard_tick);
}

/* What a writer has left, all of one moment: its entries, then generations. */
static void
copy_brought(SfWriter *writer, SfBrought *copy)
{
	for (int tries = 0;; tries++)
	{
		uint32		before = pg_atomic_read_u32(&writer->changes);

		pg_read_barrier();
		memcpy(copy, writer->entry, sizeof(writer->entry));
		memcpy(copy + SF_WRITER_ENTRIES, writer->generation,
			   sizeof(writer->generation));
		pg_read_barrier();
		if (before % 2 == 0 && pg_atomic_read_u32(&writer->changes) == before)
			return;
		CHECK_FOR_INTERRUPTS();
		if (tries > 100)		/* it was frozen, or has lost its processor */
			pg_usleep(1000);
	}
}

/* The words first, then the ring. */
static void
look_at_writer(SfWriter *writer, const View *view, Bound *bound)
{
	uint64		node = pg_atomic_read_u64(&writer->node);
	uint64		shard_tick = pg_atomic_read_u64(&writer->shard_tick);
	SfBrought	brought[NBROUGHT];

	/* in this order: who has the slot now may be of another database */
	pg_read_barrier();
	if (pg_atomic_read_u32(&writer->database) == MyDatabaseId)
		lower(bound, node, shard_tick);

	copy_brought(writer, brought);
	for (int i = 0; i < NBROUGHT; i++)
	{
		if (is_held(view, &brought[i]))
			lower(bound, brought[i].node, brought[i].shard_tick);
	}
}

/*
 * The entry of a transaction.  false: there is none.  One that was folded has
 * no positions of its own any more.
 */
static bool
find_entry(uint64 xid, SfBrought *found)
{
	SfBrought	alone = {
		.first_xid = xid, .last_xid = xid,
		.node = SF_NONE, .shard_tick = SF_NONE
	};

	memset(found, 0, sizeof(SfBrought));
	for (int i = 0; i < sf_state->nwriters && found->last_xid == 0; i++)
	{
		SfWriter   *writer = &sf_writers[i].writer;
		SfBrought	brought[NBROUGHT];

		if (pg_atomic_read_u32(&writer->database) == InvalidOid)
			continue;
		copy_brought(writer, brought);
		for (int e = 0; e < SF_WRITER_ENTRIES; e++)
			if (brought[e].last_xid == xid)
				*found = brought[e];
		for (int g = SF_WRITER_ENTRIES; g < NBROUGHT; g++)
		{
			SfBrought  *generation = &brought[g];

			if (found->last_xid == 0 && generation->prepared &&
				xid >= generation->first_xid && xid <= generation->last_xid)
				*found = alone;
		}
	}
	return found->last_xid != 0;
}

/* Is it one of this life, that was prepared later than the first look? */
static bool
is_known(uint64 xid)
{
	for (int i = 0; i < sf_state->nwriters; i++)
	{
		if (pg_atomic_read_u64(&sf_writers[i].writer.prepared_early) == xid)
			return true;
	}
	return xid >= sf_writer_first_xid();
}

/*
 * What a prepared transaction may bring in.  false: nothing.
 */
bool
sf_horizon_of_prepared(TransactionId xid, SfBrought *brought)
{
	uint64		wide = sf_xids_widen(xid, sf_xids_next());

	if (find_entry(wide, brought))
		return true;
	brought->node = SF_NONE;
	brought->shard_tick = SF_NONE;
	return !is_known(wide);
}

static void
refuse_prepared(const StringInfo gids)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("transactions that were prepared before the server started may still bring in IDs"),
			 errdetail("Prepared are: %s.", gids->data),
			 errhint("End each with COMMIT PREPARED or ROLLBACK PREPARED.")));
}

/*
 * Is each transaction that runs for the snapshot one of this life?  Throws an
 * error if one is prepared and is not; false if one has ended since, so that
 * nobody knows.
 */
static bool
all_accounted_for(const View *view)
{
	bool		sure = true;
	SfBrought	entry;
	StringInfoData gids;
	SfPrepared *list;
	int			count;

	if (view->xmin >= sf_writer_first_xid() || max_prepared_xacts == 0)
		return true;

	initStringInfo(&gids);
	list = sf_prepared_list(&count);
	for (uint32 i = 0; i < view->snapshot->xcnt; i++)
	{
		TransactionId xid = view->snapshot->xip[i];
		uint64		wide = sf_xids_widen(xid, view->next);
		const SfPrepared *found = sf_prepared_find(list, count, xid);

		if (is_known(wide) || find_entry(wide, &entry))
			continue;
		if (found == NULL)
			sure = sure && TransactionIdIsInProgress(xid);
		else if (found->database == MyDatabaseId)
			appendStringInfo(&gids, "%s\"%s\"", gids.len > 0 ? ", " : "",
							 found->gid);
	}
	if (gids.len > 0)
		refuse_prepared(&gids);
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

static uint64
compute(const View *view, int shard)
{
	uint64		position = shard >= 0 ? sf_shard_position(shard) :
		pg_atomic_read_u64(&sf_state->node_counter.position);
	Bound		bound = {SF_NONE, SF_NONE};

	pg_memory_barrier();
	if (!all_accounted_for(view))
		return 0;
	for (int i = 0; i < sf_state->nwriters; i++)
	{
		SfWriter   *writer = &sf_writers[i].writer;

		if (pg_atomic_read_u32(&writer->database) != InvalidOid)
			look_at_writer(writer, view, &bound);
	}
	if (shard < 0)
		return Min(position, bound.node) + 1;
	if (bound.shard_tick <= position >> sf_shard_layout.sequence_bits)
		return bound.shard_tick << sf_shard_layout.sequence_bits;
	return position + 1;
}

/* The answers that the running transaction was given. */
static HTAB *
kept_answers(void)
{
	static HTAB *kept = NULL;
	static LocalTransactionId owner = InvalidLocalTransactionId;
	HASHCTL		control = {
		.keysize = sizeof(Question), .entrysize = sizeof(Kept),
		.hcxt = TopTransactionContext
	};

	/* another transaction's have gone with its memory */
	if (owner != sf_my_lxid())
	{
		kept = hash_create("snowflake horizons", 16, &control,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		owner = sf_my_lxid();
	}
	return kept;
}

/*
 * A statement that asks again for one snapshot, be it for each row, and for
 * each shard, must get the answer that it got before: with a later one it
 * would return a row and have passed over one with a smaller ID.  A cursor may
 * ask again until the transaction ends, whatever is asked in between, so no
 * answer is forgotten before.  Each takes about 40 bytes.
 */
static uint64
ask(int shard)
{
	Snapshot	snapshot = GetActiveSnapshot();
	Question	question = {
		.xmin = snapshot->xmin, .xmax = snapshot->xmax,
		.xcnt = snapshot->xcnt, .shard = shard
	};
	bool		found;
	Kept	   *kept = hash_search(kept_answers(), &question, HASH_ENTER,
								   &found);

	if (!found)
		kept->answer = SF_NONE;
	if (kept->answer == SF_NONE)
	{
		View		view = view_of(snapshot);

		kept->answer = compute(&view, shard);
	}
	return kept->answer;
}

/*
 * The position below which everything has ended for the active snapshot.
 * There must be one, not taken during recovery, and the mark of the database
 * must have been loaded.  Throws SQLSTATE 55000.
 */
uint64
sf_horizon_node(void)
{
	return ask(-1);
}

uint64
sf_horizon_shard(uint32 shard)
{
	return ask((int) shard);
}
