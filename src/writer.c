/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  What a transaction that makes IDs says of itself, and leaves behind.
 *
 * Before its first swap it writes into its backend's word in shared memory,
 * and when it has ended it leaves an entry in its backend's ring, and clears
 * the word.  Why, and why in this order, is told in horizon.c, which reads
 * them.
 *
 * A ring that is full folds its oldest entry into the younger one of two
 * generations.  The older one only waits until it may go.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "writer.h"

#include "access/parallel.h"
#include "fault.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "xids.h"

/* A full ring looks for what may go once in as many commits. */
#define LOOK_EVERY	(SF_WRITER_ENTRIES / 2)

bool		sf_writer_entered = false;
uint64		sf_writer_tick = SF_NONE;

static SfWriter *own = NULL;	/* since the first ID of this process */

/* All transaction IDs below had ended for every snapshot, when last seen. */
static uint64 oldest_running = 0;
static int	commits_since_look = LOOK_EVERY;	/* others filled the ring */

/* The first look in this life of the server: see above. */
uint64
sf_writer_first_xid(void)
{
	uint64		seen = pg_atomic_read_u64(&sf_state->first_xid);

	if (seen == 0 &&
		pg_atomic_compare_exchange_u64(&sf_state->first_xid, &seen,
									   sf_xids_next()))
		seen = pg_atomic_read_u64(&sf_state->first_xid);
	return seen;
}

static void
enter(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot make IDs in a parallel worker"),
				 errhint("Mark the function that calls for them PARALLEL RESTRICTED.")));
	if (own == NULL)
	{
		int			number = sf_my_proc_number();

		if (number < 0 || number >= sf_state->nwriters)
			elog(ERROR, "process has number %d of %d", number,
				 sf_state->nwriters);
		own = &sf_writers[number].writer;
		pg_atomic_write_u32(&own->database, MyDatabaseId);
	}
	if (!sf_writer_entered && sf_writer_tick == SF_NONE)
		own->since = GetCurrentTransactionStartTimestamp();
	pg_write_barrier();
}

/* The transaction will make IDs of the node. */
void
sf_writer_enter_node(void)
{
	enter();
	pg_atomic_write_u64(&own->node,
						pg_atomic_read_u64(&sf_state->node_counter.position));
	sf_writer_entered = true;	/* the swap is a barrier */
}

void
sf_writer_enter_tick(uint64 tick)
{
	enter();
	pg_atomic_write_u64(&own->shard_tick, tick);
	sf_writer_tick = tick;		/* likewise */
}

/* An empty one, too. */
static bool
may_go(const SfBrought *brought)
{
	return brought->last_xid == 0 || brought->last_xid < oldest_running;
}

static void
take_in(SfBrought *generation, const SfBrought *entry)
{
	if (generation->last_xid == 0)
	{
		*generation = *entry;
		return;
	}
	generation->first_xid = Min(generation->first_xid, entry->first_xid);
	generation->last_xid = Max(generation->last_xid, entry->last_xid);
	generation->node = Min(generation->node, entry->node);
	generation->shard_tick = Min(generation->shard_tick, entry->shard_tick);
	if (generation->database != entry->database)
		generation->database = InvalidOid;
	generation->prepared |= entry->prepared;
}

/* Fold an entry into the younger generation. */
static void
fold(const SfBrought *entry)
{
	SfBrought  *generation = own->generation;

	if (may_go(&generation[0]))
	{
		generation[0] = generation[1];
		memset(&generation[1], 0, sizeof(SfBrought));
	}
	take_in(&generation[1], entry);
}

/*
 * An entry to write over: one that may go, or else the oldest, those that are
 * prepared last, since they are the ones that somebody will look for.
 */
static SfBrought *
choose_entry(void)
{
	static int	next = 0;

	next = (next + 1) % SF_WRITER_ENTRIES;
	if (may_go(&own->entry[next]))
		return &own->entry[next];
	for (int looks = 0; looks < 2; looks++)
	{
		SfBrought  *oldest = NULL;

		for (int i = 0; i < SF_WRITER_ENTRIES; i++)
		{
			SfBrought  *entry = &own->entry[i];

			if (may_go(entry))
				return entry;
			if (oldest == NULL || entry->prepared < oldest->prepared ||
				(entry->prepared == oldest->prepared &&
				 entry->last_xid < oldest->last_xid))
				oldest = entry;
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
 * Leave word of this transaction.  It has been committed: there must be no
 * error here.
 */
static void
leave_entry(bool prepared)
{
	uint64		xid = sf_xids_top();
	SfBrought  *entry;

	if (xid == 0)
		return;
	entry = choose_entry();

	/* as the server does with what pg_stat_activity shows */
	pg_atomic_write_u32(&own->changes, pg_atomic_read_u32(&own->changes) + 1);
	pg_write_barrier();
	if (!may_go(entry))
		fold(entry);
	SF_FAULT("entry-begun");
	entry->first_xid = xid;
	entry->last_xid = xid;
	entry->node = pg_atomic_read_u64(&own->node);
	entry->shard_tick = pg_atomic_read_u64(&own->shard_tick);
	entry->database = MyDatabaseId;
	entry->prepared = prepared;
	pg_write_barrier();
	pg_atomic_write_u32(&own->changes, pg_atomic_read_u32(&own->changes) + 1);
}

/*
 * Before a transaction is prepared, whether or not it has made IDs: it can be
 * taken for one of an earlier life, unless it says that it is not.
 */
static void
note_prepared(void)
{
	uint64		xid = sf_xids_top();

	if (sf_state != NULL && xid < sf_writer_first_xid())
	{
		SfWriter   *writer = &sf_writers[sf_my_proc_number()].writer;

		pg_atomic_write_u64(&writer->prepared_early, xid);
		pg_memory_barrier();
	}
}

/* Nothing of this transaction is to be waited for any more. */
static void
leave(void)
{
	pg_write_barrier();
	pg_atomic_write_u64(&own->node, SF_NONE);
	pg_atomic_write_u64(&own->shard_tick, SF_NONE);
	sf_writer_entered = false;
	sf_writer_tick = SF_NONE;
}

/* The server has made the end of the transaction known to others before. */
static void
on_transaction(XactEvent event, void *arg)
{
	bool		entered = sf_writer_entered || sf_writer_tick != SF_NONE;

	if (event == XACT_EVENT_PRE_PREPARE)
		note_prepared();
	if (!entered)
		return;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			leave_entry(event == XACT_EVENT_PREPARE);
			SF_FAULT("entry-left");
			leave();
			break;
		case XACT_EVENT_ABORT:
			leave();
			break;
		default:
			break;
	}
}

/* To be called when the library is loaded: all processes inherit it. */
void
sf_writer_register(void)
{
	RegisterXactCallback(on_transaction, NULL);
}
