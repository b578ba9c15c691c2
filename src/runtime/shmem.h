/*-------------------------------------------------------------------------
 *
 * shmem.h
 *	  The shared memory: its contents, and which process may write them.  The
 *	  slots of databases are in mark/mark.h, those of writers in
 *	  generate/pending.h.
 *
 * Contains no algorithm.  Fields that are written together share a cache line.
 * The two words that every call reads (right and mark) do not lie on the line
 * that every call writes (the counter).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHMEM_H
#define SF_SHMEM_H

#include "layout/layout.h"
#include "layout/ranges.h"
#include "layout/server_number.h"
#include "port/atomics.h"
#include "runtime/counter.h"
#include "runtime/log_event.h"
#include "runtime/right.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

/* Limits how often one kind of event is logged. */
typedef struct SfEventLimit
{
	pg_atomic_uint64 due_ms;	/* when the next line is due, monotonic */
	pg_atomic_uint64 left_out;	/* since the last one */
} SfEventLimit;

/*
 * The slot of a layout, with which this server makes IDs of its node.  It
 * belongs to that layout until the shared memory ends: see layout_slot.c.
 */
typedef struct SfLayoutCounter
{
	pg_atomic_uint64 counter;	/* last position issued; CAS only */

	/* Written before the slot is counted, and never again. */
	int64		code;			/* sf_layout_code() */
	int64		epoch_ms;

	/* IDs made, counted at the end of transactions; in slot 0 not used */
	pg_atomic_uint64 ids;

	SfEventLimit ends;			/* warnings of the layout's end */
} SfLayoutCounter;

/* The most slots for snowflake.max_layouts, and for snowflake.layouts. */
#define SF_MAX_LAYOUTS	64

/* Presets have slots beside those. */
#define SF_MAX_PRESETS	8

#define SF_MAX_LAYOUT_SLOTS	(2 * SF_MAX_LAYOUTS + SF_MAX_PRESETS)

typedef union SfLayoutSlot
{
	SfLayoutCounter layout;
	char		pad[PG_CACHE_LINE_SIZE];
} SfLayoutSlot;

/* Room for a setting's name, its value, and a reason of SF_REASON_SIZE. */
#define SF_REFUSED_SIZE	360

/*
 * The lease.  Only the lease worker writes this; without a registry, only the
 * postmaster, where a reload changes the node.
 */
typedef struct SfLeasing
{
	ConditionVariable changed;	/* signalled when SfShmem.right changes */

	/* When the lease was lost, or first looked for; monotonic ms, or 0. */
	pg_atomic_uint64 since_ms;

	/*
	 * The last leased node, and its until; the lowest node of this life; and
	 * the until of nodes other than the last.  Nodes are SfServerNumbers, and
	 * an until is in ticks since the layout's epoch.  0: none.  A configured
	 * node counts from its first change on.
	 */
	pg_atomic_uint32 node;
	pg_atomic_uint64 until;
	pg_atomic_uint32 lowest_node;
	pg_atomic_uint64 other_until;

	SfLeaseStatus status;		/* under SfShmem.lock */
} SfLeasing;

/* SfIdentity.shards: all are this server's own, or */
#define SF_SHARDS_OWN		0
#define SF_SHARDS_COPIED	1	/* another server's, and not accepted yet */
#define SF_SHARDS_SEEN		2	/* another server had the lock of one when
								 * this one looked */
#define SF_SHARDS_UNASKED	4	/* a reload opened some while the file of
								 * entries was busy */

/* SfIdentity.node is an SfServerNumber, and: */
#define SF_NODE_COPIED		(UINT64CONST(1) << 32)	/* another server's, and
													 * not accepted yet */
#define SF_NODE_SEEN		(UINT64CONST(1) << 33)	/* another server had its
													 * lock when this one
													 * looked */
#define SF_NODE_SHARED		(SF_NODE_COPIED | SF_NODE_SEEN)
#define SF_NODE_RECORDED	(UINT64CONST(1) << 34)	/* the list of servers has
													 * it, and it is used */
#define SF_NODE_HELD		(UINT64CONST(1) << 35)	/* this server has its
													 * lock, until it ends */

/* a bitmap of shards */
#define SF_SHARDS_WORDS		SF_RANGES_WORDS(SF_RANGES_MAX)

/* Identity of this server: see identity.c. */
typedef struct SfIdentity
{
	pg_atomic_uint64 server;	/* random, kept over restarts unless this is a
								 * copy */
	pg_atomic_uint64 node;		/* the configured one; a reload changes it
								 * here first */
	pg_atomic_uint32 shards;
	pg_atomic_uint64 tried_ms;	/* time of the last attempt to record one;
								 * monotonic */
	SfServerNumber original;	/* the node before the start */
	uint32		control;		/* checksum of pg_control at the start: later,
								 * a failure to read it would throw an error */
	bool		follows;		/* it began as a standby, and is not known to
								 * be promoted */
	bool		marked;			/* it has its marker */
	bool		promoted;		/* it began as a standby */
	int			segment;		/* this shared memory, + 1 */
	int64		began;			/* when the kernel made that */
	uint64		file;			/* where what it holds was written */
	uint64		family;			/* of the servers with these data */
	uint64		namespace;		/* in which the segments have numbers */
	pg_atomic_uint64 looked_ms; /* time of the last look at what is refused;
								 * monotonic */
	pg_atomic_uint32 held_shards[SF_SHARDS_WORDS];	/* locks, until it ends */
	char		reason[MAXPGPATH + 64]; /* why it is another server */
} SfIdentity;

/* The counts, in the order of the columns of pg_stat_snowflake. */
typedef enum SfStat
{
	SF_STAT_NODE_IDS,
	SF_STAT_NODE_BATCHES,
	SF_STAT_SHARD_IDS,
	SF_STAT_SHARD_BATCHES,
	SF_STAT_SWAP_RETRIES,		/* another process swapped first */

	/* numbers of waits, each followed by their total time in us */
	SF_STAT_SEQUENCE_WAITS,		/* for the next tick: the sequence is full */
	SF_STAT_SEQUENCE_WAIT_US,
	SF_STAT_CLOCK_WAITS,		/* for a clock that was set back */
	SF_STAT_CLOCK_WAIT_US,
	SF_STAT_MARK_WAITS,			/* for the disk */
	SF_STAT_MARK_WAIT_US,
	SF_STAT_LEASE_WAITS,		/* for the registry */
	SF_STAT_LEASE_WAIT_US,
	SF_STAT_EXTENSIONS,			/* of the mark, also if no call waits */
	SF_STAT_EXTENSION_US,

	/* steps of the wall clock against the time since boot */
	SF_STAT_STEPS_BACK,
	SF_STAT_STEPS_FORWARD,

	SF_STAT_REFUSED_CLOCK,		/* 58000 */
	SF_STAT_REFUSED_LEASE,		/* 55000: there is none */
	SF_STAT_REFUSED_CONFIGURATION,	/* 55000: all else */
	SF_STAT_REFUSED_READ_ONLY,	/* 25006 */
	SF_STAT_REFUSED_END,		/* 2200H */
	SF_STAT_REFUSED_WAIT,		/* 57014, 55P03: cancelled in a wait */
	SF_STATS
} SfStat;

/* Values that are not sums, but the largest or the last one. */
typedef enum SfPeak
{
	SF_PEAK_DRIFT_MS,			/* of an ID ahead of the clock */
	SF_PEAK_STEP_BACK_MS,
	SF_PEAK_STEP_FORWARD_MS,
	SF_PEAK_STEP_AT_MS,			/* when the last step was seen, Unix ms */
	SF_PEAKS
} SfPeak;

/* Sums over all processes, added atomically at the end of transactions. */
typedef struct SfStats
{
	pg_atomic_uint64 sum[SF_STATS];
	pg_atomic_uint64 peak[SF_PEAKS];
	pg_atomic_uint64 reset_ms;	/* Unix ms */
	pg_atomic_uint64 since_ms;	/* the same time, monotonic */
	pg_atomic_uint64 refused_ms;	/* last refusal other than for a read-only
									 * transaction, monotonic; or 0 */

	/* The last look at both clocks; 0: none.  See sf_stats_see_clock(). */
	pg_atomic_uint64 offset_ms; /* wall clock - time since boot */
	pg_atomic_uint64 seen_ms;	/* time since boot */
} SfStats;

typedef struct SfShmem
{
	/*
	 * The right to issue as a node: (until << node bits) | node. until is in
	 * ticks since the layout's epoch, exclusive; 0 is no right.  A leased
	 * node is written by the lease worker alone.  A configured one is set
	 * once, from 0 by compare-and-swap, and changed by the postmaster alone:
	 * it writes SF_RIGHT_WITHDRAWN first, so that a late compare-and-swap
	 * fails.  Every call reads it.
	 */
	pg_atomic_uint64 right;
	char		pad[PG_CACHE_LINE_SIZE - sizeof(pg_atomic_uint64)];

	/* Protects the assignment of slots; never held across a wait. */
	LWLock	   *lock;

	/*
	 * How many layout slots are in use; only grows, under the lock above.
	 * Slot 0 is that of snowflake.layout.
	 */
	pg_atomic_uint32 layouts_used;

	/*
	 * The latest time, in Unix ms, that the counters of layouts were raised
	 * to: a slot that is taken later begins there.  With SF_CLOSED they are
	 * closed, and so is that slot.
	 */
	pg_atomic_uint64 raised_ms;

	/*
	 * The numbers of the node and the datacenter in snowflake.node_id of the
	 * postmaster, which alone changes them, as sf_settings_numbers() returns
	 * them.  With SF_NODE_TAKEN the node is published, or the postmaster is
	 * changing it.  Before that, it is written by compare-and-swap: a process
	 * that was frozen after reading the numbers publishes nothing else.
	 */
	pg_atomic_uint64 configured;

	/*
	 * The numbers in the configuration files, which wait for a restart, in
	 * the same form and with SF_NUMBER_PENDING; 0: the files say the same.
	 * Written by the postmaster.
	 */
	pg_atomic_uint64 pending;

	/*
	 * Why the number in the configuration files is refused; empty if it is
	 * not.  Written by the postmaster.
	 */
	pg_atomic_uint32 refusals;	/* odd while the postmaster writes them */
	char		refused[SF_REFUSED_SIZE];

	/*
	 * The largest distance, in ms, of the wall clock from the time since boot
	 * at which a mark was loaded or extended; 0: none yet.  Written by
	 * compare-and-swap, on slow paths only.
	 */
	pg_atomic_uint64 boot_offset;

	/*
	 * How far the trusted clock was past the newest loaded mark, in ms, + 1;
	 * 0: none was loaded.  Written by compare-and-swap, on slow paths only:
	 * see clock_trust.c.
	 */
	pg_atomic_uint64 least_past;

	/*
	 * Transactions prepared in an earlier life of the server have transaction
	 * IDs below this one. 0: no process has looked yet.  Set once, by
	 * compare-and-swap.
	 */
	pg_atomic_uint64 first_xid;

	SfLeasing	leasing;
	SfIdentity	identity;

	/* The log: see log.c.  Only the postmaster writes the interval. */
	pg_atomic_uint32 log_interval_ms;
	SfEventLimit events[SF_EVENTS];
	SfEventLimit shard_layout_ends; /* warnings of its end */

	/* fixed at start */
	int64		life;			/* the stamp, random: see mark.c; 0: none */
	int			nlayouts;
	int			nshards;
	int64		shutdown_life;	/* the life in the shutdown file; 0: none */
	int64		shutdown_ms;	/* the IDs of that life are below this */

	/* Keep the counts off the lines that calls read. */
	char		stats_pad[PG_CACHE_LINE_SIZE];
	SfStats		stats;
} SfShmem;

/* Set in the postmaster, and inherited; NULL without preload. */
extern SfShmem *sf_shmem;
extern SfLayoutSlot *sf_layout_slots;	/* nlayouts of them */

/*
 * The counters of shards, nshards of them.  A counter is closed (counter.h)
 * while snowflake.shards does not list its shard.
 *
 * Only the postmaster opens and closes counters: when the shared memory is
 * new, and at a reload.  A session that swaps after that, however long it
 * slept before, gets nothing.  So the position of a closed counter is at or
 * above the last one that this server has issued for the shard in this life.
 */
extern pg_atomic_uint64 *sf_shard_counters;

/*
 * One bit for each shard that a reload has removed from snowflake.shards in
 * this life.  Only the postmaster writes it.
 */
extern pg_atomic_uint32 *sf_shards_removed;

extern void sf_shmem_request(void);
extern void sf_shmem_create(void);
extern void *sf_shmem_create_part(const char *name, Size size, bool *found);

/* SfShmem.right while a reload changes the node: no until is that late. */
#define SF_RIGHT_WITHDRAWN	PG_UINT64_MAX

/* Return the right to issue, or 0 if there is none. */
static inline uint64
sf_shmem_right(void)
{
	uint64		right = pg_atomic_read_u64(&sf_shmem->right);

	return right == SF_RIGHT_WITHDRAWN ? 0 : right;
}

/* Return the last position of the configured layout, also if it is closed. */
static inline uint64
sf_shmem_last_position(void)
{
	return sf_counter_position(&sf_layout_slots[0].layout.counter);
}

/* Return the last position, also if the counter is closed. */
static inline uint64
sf_shard_position(uint32 shard)
{
	return sf_counter_position(&sf_shard_counters[shard]);
}

/* Return true if this server may issue for this shard. */
static inline bool
sf_shard_is_open(uint32 shard)
{
	return !sf_counter_is_closed(&sf_shard_counters[shard]);
}

/* Return true if a reload has removed the shard in this life. */
static inline bool
sf_shard_is_removed(uint32 shard)
{
	return (pg_atomic_read_u32(&sf_shards_removed[shard / 32]) >>
			(shard % 32)) & 1;
}

static inline void
sf_shard_raise(uint32 shard, uint64 position)
{
	sf_counter_raise(&sf_shard_counters[shard], position);
}

/* layout_slot.c: counters of the layouts with which the node makes IDs */
extern void sf_layout_slots_begin(void);
extern int	sf_layout_slot_of(const SfLayout *layout);
extern int	sf_layout_slots_counted(void);
extern bool sf_layout_slot_read(int slot, SfLayout *layout);
extern void sf_layout_slots_raise(int64 floor_ms);
extern void sf_layout_slots_raise_above(int64 now_ms);
extern void sf_layout_slots_pass_ticks(void);
extern int64 sf_layout_slots_close(void);
extern int64 sf_layout_slots_issued_below(void);
extern char *sf_layout_slots_remedy(const SfLayout *layout);
extern bool sf_layout_has_place(const SfLayout *layout);
extern bool sf_layout_slot_exists(const SfLayout *layout);

static inline pg_atomic_uint64 *
sf_layout_slot_counter(int slot)
{
	return &sf_layout_slots[slot].layout.counter;
}

/* Return the number of slots in use. */
static inline int
sf_layout_slots_used(void)
{
	return (int) pg_atomic_read_u32(&sf_shmem->layouts_used);
}

/* Skip the rest of the tick that the counter has reached. */
static inline void
sf_layout_slot_end_tick(int slot, const SfLayout *layout)
{
	pg_atomic_uint64 *counter = sf_layout_slot_counter(slot);

	sf_counter_raise(counter,
					 sf_counter_position(counter) | layout->sequence_mask);
}

#endif							/* SF_SHMEM_H */
