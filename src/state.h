/*-------------------------------------------------------------------------
 *
 * state.h
 *	  The shared memory: what is in it, and who may write it.
 *
 * No algorithm lives here.  Fields that are written together share a cache
 * line, and the two words that every call reads (lease and mark) do not lie
 * on the line that every call writes (the counter).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STATE_H
#define SF_STATE_H

#include "datatype/timestamp.h"
#include "event.h"
#include "layout.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

/*
 * One database that generates.  A slot belongs to one database until that
 * database is gone.
 */
typedef struct SfDatabase
{
	/* Written under SfState.lock, exclusive. */
	Oid			oid;			/* InvalidOid: the slot is free */
	uint32		attached;		/* how often a backend has attached */

	/*
	 * Held by the one backend that changes the mark, across the flush of its
	 * WAL.  Only ever acquired conditionally: who must wait sleeps on the
	 * condition variable, so that it can be cancelled.
	 */
	LWLock		lock;
	ConditionVariable changed;

	/*
	 * The published mark, in Unix ms: it has been flushed to disk, and all
	 * counters were raised to what was found there.  0: not loaded yet.
	 * Written under the lock above; read by every call without it.
	 */
	pg_atomic_uint64 mark;

	/* The mark for which a backend has taken up the early extension. */
	pg_atomic_uint64 early;
} SfDatabase;

typedef union SfDatabaseSlot
{
	SfDatabase	database;
	char		pad[PG_CACHE_LINE_SIZE];
} SfDatabaseSlot;

typedef union SfCounter
{
	pg_atomic_uint64 position;	/* last position issued; CAS only */
	char		pad[PG_CACHE_LINE_SIZE];
} SfCounter;

/*
 * A database in the note of the last clean shutdown.  Fixed at start, but that
 * the mark becomes 0, under the lock of the database's slot.
 */
typedef struct SfNoted
{
	Oid			oid;			/* InvalidOid: none */
	int64		mark;			/* Unix ms */
} SfNoted;

/* No position, or no tick, is to be waited for. */
#define SF_NONE PG_UINT64_MAX

/* What transactions with a transaction ID in a range may have brought in. */
typedef struct SfBrought
{
	uint64		first_xid;		/* with its epoch; 0: nothing */
	uint64		last_xid;		/* inclusive */
	uint64		node;			/* their IDs are above this position */
	uint64		shard_tick;		/* those of shards are not before this tick */
	Oid			database;		/* InvalidOid: several */
	bool		prepared;		/* they may not have ended */
} SfBrought;

#define SF_WRITER_ENTRIES		16
#define SF_WRITER_GENERATIONS	2

/*
 * What a backend's transactions may still bring in: see horizon.c.  It
 * belongs to whoever has that number among the server's processes, and only
 * that process writes it.
 */
typedef struct SfWriter
{
	/* Of the transaction that runs.  Written and read without a lock. */
	pg_atomic_uint64 node;		/* its IDs are above; SF_NONE: it has none */
	pg_atomic_uint64 shard_tick;	/* likewise, and not before */
	pg_atomic_uint32 database;	/* written before these; 0: never used */
	TimestampTz since;			/* when the transaction began */

	/* Older than the first look at transaction IDs, and prepared since. */
	pg_atomic_uint64 prepared_early;

	/* Of those before it.  Whoever else reads sees to the changes' number. */
	pg_atomic_uint32 changes;	/* odd while the owner writes what follows */
	SfBrought	entry[SF_WRITER_ENTRIES];
	SfBrought	generation[SF_WRITER_GENERATIONS];
} SfWriter;

typedef union SfWriterSlot
{
	SfWriter	writer;
	char		pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SfWriter))];
} SfWriterSlot;

/* The states of a leased node id, as people are told. */
typedef enum SfLeaseStage
{
	SF_STAGE_NONE,				/* there is no worker */
	SF_STAGE_SEARCHING,
	SF_STAGE_HELD,
	SF_STAGE_EXPIRED,			/* held, and run out */
	SF_STAGE_HALTED,			/* held, and not to be used for now */
	SF_STAGE_ENDED
} SfLeaseStage;

/* What the worker says of itself. */
typedef struct SfLeaseStatus
{
	int			pid;
	SfLeaseStage stage;
	int64		next_ms;		/* when the next write is due, Unix ms; or 0 */
	bool		clock_known;	/* has the registry told its time? */
	int64		offset_ms;		/* then our clock is ahead by this */
	char		problem[SF_REASON_SIZE];	/* empty: there is none */
	char		public_problem[SF_REASON_SIZE]; /* without names and places */
	char		remedy[SF_REMEDY_SIZE];
} SfLeaseStatus;

/* A leased node.  The worker alone writes it. */
typedef struct SfLeasing
{
	ConditionVariable changed;	/* SfState.lease */

	/* When the lease was lost, or first looked for; monotonic ms, or 0. */
	pg_atomic_uint64 since_ms;

	/*
	 * The node that was leased last, + 1, and until when; in this life of the
	 * server the lowest one ever, + 1; and until when one may have been used
	 * that was not the last.  Ticks since the layout's epoch.  All 0: none.
	 */
	pg_atomic_uint32 node;
	pg_atomic_uint64 until;
	pg_atomic_uint32 lowest_node;
	pg_atomic_uint64 other_until;

	/* The last position of the node's counter, once that is SF_CLOSED. */
	pg_atomic_uint64 closed_at;

	SfLeaseStatus status;		/* under SfState.lock */

	/*
	 * Likewise of the shards: when some of those that are configured were
	 * first missed; and the highest SfState.shard_end of this life of the
	 * server.
	 */
	pg_atomic_uint64 shards_since_ms;
	pg_atomic_uint64 highest_shard_end;
	SfLeaseStatus shards_status;	/* under SfState.lock */
} SfLeasing;

/* Which server this is: see identity.c. */
typedef struct SfIdentity
{
	pg_atomic_uint64 server;	/* random, stays over restarts; 0: a copy */
	pg_atomic_uint32 copied;	/* 1: a copy, until somebody accepts it */
	pg_atomic_uint32 recorded;	/* the node in the record, + 1; 0: not yet */
	uint32		original;		/* as found at the start; 0: not known */
	uint32		running;		/* a copy: the node of the original, + 1, if
								 * that was seen running then; or 0 */
	uint32		primary;		/* at the start this was a standby of one that
								 * had this node, + 1; 0: not known */
} SfIdentity;

/*
 * Where administrators leave what the worker is to ask the registry for them
 * (registrar.c).  All under SfState.lock.
 */
typedef struct SfDesk
{
	ConditionVariable changed;	/* what follows */
	struct Latch *worker;		/* NULL: there is none */
	int			pid;			/* the worker's */
	uint32		job;			/* the dsm_handle of one to be taken; or 0 */
} SfDesk;

/*
 * The position of a counter that gives nothing away any more: far above any,
 * and far enough from where it would overflow.
 */
#define SF_CLOSED	(UINT64CONST(1) << 62)

/* What is counted, in the order of the columns of pg_stat_snowflake. */
typedef enum SfStat
{
	SF_STAT_NODE_IDS,
	SF_STAT_NODE_BATCHES,
	SF_STAT_SHARD_IDS,
	SF_STAT_SHARD_BATCHES,
	SF_STAT_SWAP_RETRIES,		/* somebody else has swapped the counter */

	/* waits, each with the time of all of them behind it, in us */
	SF_STAT_SEQUENCE_WAITS,		/* for the next tick: the sequence is full */
	SF_STAT_SEQUENCE_WAIT_US,
	SF_STAT_CLOCK_WAITS,		/* for a clock that was set back */
	SF_STAT_CLOCK_WAIT_US,
	SF_STAT_MARK_WAITS,			/* for the disk */
	SF_STAT_MARK_WAIT_US,
	SF_STAT_LEASE_WAITS,		/* for the registry */
	SF_STAT_LEASE_WAIT_US,
	SF_STAT_EXTENSIONS,			/* of the mark, also where nobody waits */
	SF_STAT_EXTENSION_US,

	/* steps of the wall clock against the time since boot */
	SF_STAT_STEPS_BACK,
	SF_STAT_STEPS_FORWARD,

	SF_STAT_REFUSED_CLOCK,		/* 58000 */
	SF_STAT_REFUSED_LEASE,		/* 55000: there is none */
	SF_STAT_REFUSED_CONFIGURATION,	/* 55000: all else */
	SF_STAT_REFUSED_READ_ONLY,	/* 25006 */
	SF_STAT_REFUSED_END,		/* 2200H */
	SF_STATS
} SfStat;

/* What is not a sum, but the largest, or the last. */
typedef enum SfPeak
{
	SF_PEAK_DRIFT_MS,			/* of an ID ahead of the clock */
	SF_PEAK_STEP_BACK_MS,
	SF_PEAK_STEP_FORWARD_MS,
	SF_PEAK_STEP_AT_MS,			/* when the clock was last seen to have
								 * stepped, Unix ms */
	SF_PEAKS
} SfPeak;

/* What a line in the log of one kind has to wait for. */
typedef struct SfEventLimit
{
	pg_atomic_uint64 due_ms;	/* the next one is due, monotonic */
	pg_atomic_uint64 left_out;	/* since the last one */
} SfEventLimit;

/* The sums of all processes.  By atomic operations, where transactions end. */
typedef struct SfStats
{
	pg_atomic_uint64 sum[SF_STATS];
	pg_atomic_uint64 peak[SF_PEAKS];
	pg_atomic_uint64 reset_ms;	/* Unix ms */
	pg_atomic_uint64 since_ms;	/* the same, monotonic */
	pg_atomic_uint64 refused_ms;	/* the last refusal that was not for a
									 * read-only transaction; likewise, or 0 */

	/* The last look at both clocks; 0: none.  See sf_stats_see_clock(). */
	pg_atomic_uint64 offset_ms; /* wall clock - time since boot */
	pg_atomic_uint64 seen_ms;	/* time since boot */
} SfStats;

typedef struct SfState
{
	/*
	 * The right to issue as a node: (until << node bits) | node, where until
	 * is in ticks since the layout's epoch, exclusive; 0 is no right.  Set
	 * once, by compare-and-swap; where it is leased, by the worker alone.
	 * Read by every call.
	 */
	pg_atomic_uint64 lease;

	/*
	 * The right to issue for the shards of which the counter is not closed
	 * (shard.h): the first tick without it.  The layout's end; where shards
	 * are leased, 0 is no right, and the worker alone writes it.  Read by
	 * every call for a shard.
	 */
	pg_atomic_uint64 shard_end;
	char		pad[PG_CACHE_LINE_SIZE - 2 * sizeof(pg_atomic_uint64)];

	SfCounter	node_counter;

	/* Guards the assignment of slots, never held across a wait. */
	LWLock	   *lock;

	/*
	 * What snowflake.node_id and snowflake.datacenter_id say in the
	 * postmaster, which alone changes it: as sf_settings_numbers() has it.
	 * With SF_NODE_TAKEN it does not change any more: by compare-and-swap, so
	 * that a process that has looked at it and was frozen takes nothing else.
	 */
	pg_atomic_uint64 configured;

	/*
	 * What the configuration files say instead, for the next start: a number
	 * + 1 or 0, with SF_NUMBER_PENDING.  0: the same.  The postmaster writes.
	 */
	pg_atomic_uint32 pending_node;
	pg_atomic_uint32 pending_datacenter;

	/*
	 * The highest distance of the wall clock from the time since boot, in ms,
	 * under which a mark was loaded or extended; 0: not yet.  Written by
	 * compare-and-swap, on slow paths only.
	 */
	pg_atomic_uint64 boot_offset;

	/*
	 * What transactions that were prepared in an earlier life of the server
	 * have is below this transaction ID.  0: nobody has looked yet.  Set
	 * once, by compare-and-swap.
	 */
	pg_atomic_uint64 first_xid;

	SfLeasing	leasing;
	SfIdentity	identity;
	SfDesk		desk;

	/* The log: see tell.c.  The interval is the postmaster's to write. */
	pg_atomic_uint32 log_interval_ms;
	SfEventLimit events[SF_EVENTS];

	/* fixed at start */
	int64		life;			/* random: see mark.c; 0: there was none */
	int			ndatabases;
	int			nshards;
	int			nwriters;
	int64		noted_ms;		/* what the note's IDs are below */

	/* Not on a line that calls read. */
	char		stats_pad[PG_CACHE_LINE_SIZE];
	SfStats		stats;
} SfState;

/* Set in the postmaster, and inherited; NULL without preload. */
extern SfState *sf_state;
extern SfDatabaseSlot *sf_databases;	/* ndatabases of them */
extern SfNoted *sf_noted;		/* as many */
extern SfWriterSlot *sf_writers;	/* nwriters of them */
extern pg_atomic_uint64 *sf_shard_counters; /* nshards positions: shard.h */

/* One bit for each shard in snowflake.shards; the postmaster writes. */
extern pg_atomic_uint32 *sf_shard_map;

extern void sf_state_request(int ndatabases, int nshards, int nwriters);
extern void sf_state_create(int ndatabases, int nshards, int nwriters);

static inline bool
sf_state_may_issue_for(uint32 shard)
{
	return (pg_atomic_read_u32(&sf_shard_map[shard / 32]) >> (shard % 32)) & 1;
}

/* The last position of the node's counter, also when that is closed. */
static inline uint64
sf_state_last_position(void)
{
	uint64		position;

	position = pg_atomic_read_u64(&sf_state->node_counter.position);
	if (position < SF_CLOSED)
		return position;
	return pg_atomic_read_u64(&sf_state->leasing.closed_at);
}

#endif							/* SF_STATE_H */
