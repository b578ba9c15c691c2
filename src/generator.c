/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  The compare-and-swap, and what to do when it may not be tried.
 *
 * A counter holds the last position issued, and only grows (counter.h).  A
 * call computes the last position that it may issue (its cap) from three
 * words, and then tries:
 *
 *	mark	the end of an ID's tick must be at or below it: it is on disk, and
 *			what a crash or a promoted standby finds covers the ID
 *	lease	until when this server may issue as its node, or for its shards
 *	clock	the tick may be ahead of it by the allowed drift
 *
 * All three are read before the counter is swapped.  None is a race: the
 * mark that was read stays flushed, the lease is a right to a range of
 * timestamps and not to a moment, and the clock is advice.  A process that
 * sleeps for an hour between its reads and its swap still holds all three.
 * A counter that was raised meanwhile makes the swap fail.
 *
 * When the next position is beyond the cap, find out why with a new look at
 * the counter and then at the clock, in this order.  A process that lost the
 * CPU after it read the clock would take the others' progress for a step of
 * the clock; a clock read after the counter is at least as late as the one
 * that justified the counter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "generator.h"

#include "clock.h"
#include "common/pg_prng.h"
#include "counter.h"
#include "fault.h"
#include "identity.h"
#include "jump.h"
#include "leased.h"
#include "lifetime.h"
#include "mark.h"
#include "miscadmin.h"
#include "node.h"
#include "settings.h"
#include "shard.h"
#include "stats.h"
#include "sync.h"
#include "wait.h"
#include "writer.h"

/* One of the counters, and what it needs. */
typedef struct Source
{
	const SfLayout *layout;
	pg_atomic_uint64 *counter;
	int			shard;			/* -1: the node's */
} Source;

/* Positions that were taken. */
typedef struct Taken
{
	SfRun		run;
	bool		half_used;		/* half of the reserve: time to extend */
} Taken;

/* The state of a call that cannot go on yet. */
typedef enum Obstacle
{
	OBSTACLE_GONE,				/* look again */
	OBSTACLE_LEASE,				/* it is missing, or has run out */
	OBSTACLE_CLOCK,				/* the call would have to sleep */
	OBSTACLE_MARK				/* the mark would have to move */
} Obstacle;

/* What a lease says, taken apart once. */
static struct
{
	uint64		lease;
	int64		end_tick;		/* the first tick without a right */
	int64		node;			/* the bits of the node, in place */
}			right;

static void
take_apart(uint64 lease)
{
	sf_leased_change(right.lease, lease);
	right.lease = lease;
	right.end_tick = sf_node_layout.epoch_tick +
		(int64) (lease >> sf_node_layout.node_bits);
	right.node = (int64) sf_layout_place_node(&sf_node_layout,
											  sf_settings_node_of(lease));
}

/*
 * Where the sequence begins in a tick that a call opens.  At random it is in
 * the lower half, so that the other half is left for who comes next.
 */
static int64
sequence_start(const SfLayout *layout)
{
	if (sf_sequence_start == SF_START_ZERO)
		return 0;
	return pg_prng_uint64(&pg_global_prng_state) &
		(layout->sequence_mask >> 1);
}

/*
 * Find out why the next position cannot be had, and remove what can be
 * removed without waiting for a clock or a disk.  need_ms is set with
 * OBSTACLE_MARK, the delay with the two before it.
 */
static Obstacle
examine(const Source *source, Oid function, int64 *need_ms, SfDelay *delay)
{
	const SfLayout *layout = source->layout;
	SfDatabase *database = sf_mark_attached;
	uint64		lease = source->shard >= 0 ? sf_shard_end(source->shard) :
		pg_atomic_read_u64(&sf_state->lease);
	int64		now_tick;
	int64		tick;

	delay->lease = lease;

	if (pg_atomic_read_u64(&database->mark) == 0)
	{
		sf_sync_require();
		sf_mark_attach(function, 0);
		return OBSTACLE_GONE;
	}
	if (lease == 0)
	{
		if (sf_settings_leases())
			return OBSTACLE_LEASE;
		sf_node_take();
		return OBSTACLE_GONE;
	}
	if (source->shard < 0)
		sf_identity_require(sf_settings_node_of(lease) + 1);

	/* the counter first, the clock after it: see above */
	tick = (int64) (((pg_atomic_read_u64(source->counter) & ~SF_CLOSED) + 1)
					>> layout->sequence_bits);
	pg_read_barrier();
	delay->wall_us = sf_clock_wall_us();
	now_tick = sf_layout_ms_to_tick(layout, delay->wall_us / 1000);
	if (now_tick < layout->epoch_tick)
		sf_lifetime_refuse_start(layout);
	tick = Max(tick, now_tick);
	if (source->shard < 0)
		take_apart(lease);
	if (tick >= layout->end_tick)
		sf_lifetime_refuse_end(layout, now_tick);
	if (tick >= (source->shard < 0 ? right.end_tick : (int64) lease))
		return OBSTACLE_LEASE;

	delay->tick_ms = layout->tick_ms;
	delay->drift_ms = sf_settings_drift_ticks(layout) * layout->tick_ms;
	delay->next_ms = tick * layout->tick_ms;
	delay->ahead_ms = (tick - now_tick) * layout->tick_ms;
	sf_stats_see_drift(delay->wall_us / 1000);
	if (sf_clock_judge(delay->ahead_ms, delay->drift_ms, layout->tick_ms,
					   sf_max_clock_wait) != SF_CLOCK_GO)
		return OBSTACLE_CLOCK;

	*need_ms = (tick + 1) * layout->tick_ms;
	if (pg_atomic_read_u64(&database->mark) >= (uint64) *need_ms)
		return OBSTACLE_GONE;
	sf_sync_require();
	return OBSTACLE_MARK;
}

/* What is left of a call when its position is beyond its cap. */
static void
clear_way(const Source *source, Oid function, SfDelay *delay)
{
	int64		need_ms;
	Obstacle	obstacle;

	CHECK_FOR_INTERRUPTS();
	obstacle = examine(source, function, &need_ms, delay);
	if (obstacle != OBSTACLE_CLOCK)
		sf_wait_over(delay);
	switch (obstacle)
	{
		case OBSTACLE_GONE:
			break;
		case OBSTACLE_LEASE:
			sf_stats_begin_wait(SF_STAT_LEASE_WAITS, true);
			sf_leased_wait(source->shard, delay->lease, &delay->unleased_ms);
			sf_stats_end_wait();
			break;
		case OBSTACLE_CLOCK:
			sf_wait_clock(delay);
			break;
		case OBSTACLE_MARK:
			sf_stats_begin_wait(SF_STAT_MARK_WAITS, true);
			sf_mark_attach(function, need_ms);
			sf_stats_end_wait();
			break;
	}
}

/*
 * Try to take up to want positions, at least one, given the wall clock in ms
 * and where the sequence starts in a tick that is opened.  The transaction has
 * said that it makes IDs.  Returns false if there is none below the cap, or if
 * the lease has changed.
 *
 * Every instruction here counts: nothing is computed twice, nothing is called
 * (or registers would have to be saved), and what is rare is left to the
 * caller.
 */
static pg_always_inline bool
try_take(Source source, int64 want, int64 now, int64 start, Taken *taken)
{
	const SfLayout *layout = source.layout;
	const int	shift = layout->sequence_bits;
	int64		mark = (int64) pg_atomic_read_u64(&sf_mark_attached->mark);
	int64		half = (uint32) sf_reserve / 2;
	int64		end;
	int64		cap;

	if (source.shard < 0 &&
		unlikely(pg_atomic_read_u64(&sf_state->lease) != right.lease))
		return false;

	/* the mark and all times are in ticks from here on */
	if (unlikely(layout->tick_ms != 1))
	{
		now = sf_layout_ms_to_tick(layout, now);
		mark = sf_layout_ms_to_tick(layout, mark);
		half = sf_layout_ms_to_tick(layout, half);
	}

	end = now + sf_settings_drift_ticks(layout) + 1;
	end = Min(end, mark);
	end = Min(end, source.shard < 0 ? right.end_tick :
			  (int64) pg_atomic_read_u64(&sf_state->shard_end));
	cap = (end << shift) - 1;

	SF_FAULT("before-swap");
	if (unlikely(!sf_counter_take(source.counter, shift, now, start, want,
								  cap, &taken->run,
								  &sf_stats_pending[SF_STAT_SWAP_RETRIES])))
		return false;
	sf_stats_add(source.shard < 0 ? SF_STAT_NODE_IDS : SF_STAT_SHARD_IDS,
				 want == 1 ? 1 : taken->run.last - taken->run.first + 1);
	SF_FAULT("swapped");
	taken->half_used = mark - (taken->run.last >> shift) <= half;
	return true;
}

/*
 * Before the swap, say that this transaction makes IDs (writer.h).  Not before
 * the mark was loaded, since the counter may be far behind until then: false,
 * and there must be no swap.
 */
static bool
enter(const Source *source, int64 now)
{
	const SfLayout *layout = source->layout;
	uint64		tick;

	if (pg_atomic_read_u64(&sf_mark_attached->mark) == 0)
		return false;
	if (source->shard < 0)
	{
		if (!sf_writer_entered)
			sf_writer_enter_node();
		return true;
	}
	tick = sf_shard_position(source->shard) >> layout->sequence_bits;
	sf_writer_enter_shard(Max(tick,
							  (uint64) sf_layout_ms_to_tick(layout, now)));
	return true;
}

/*
 * Take up to want positions, at least one, whatever it needs.  A transaction's
 * first call comes here.
 */
static Taken
take(Source source, int64 want, Oid function)
{
	SfDelay		delay = {0};
	Taken		taken;
	bool		is_first = !sf_writer_entered && sf_writer_tick == SF_NONE;
	bool		cleared = false;

	if (source.shard >= 0)
		sf_identity_require(0);
	for (;;)
	{
		/* no reading outlives a transaction, whatever the counter says */
		int64		now = is_first || cleared ?
			sf_clock_read_anew() : sf_clock_tick_ms();

		if (enter(&source, now) &&
			try_take(source, want, now, sequence_start(source.layout), &taken))
			break;
		clear_way(&source, function, &delay);
		cleared = true;
		if (source.shard >= 0)	/* still, after a reload */
			sf_generator_require_shard(source.shard);
	}
	if (taken.half_used)
		sf_mark_extend_early();
	if (cleared)
		sf_lifetime_remind(source.layout);
	return taken;
}

static inline Source
node_source(void)
{
	return (Source)
	{
		&sf_node_layout, &sf_state->node_counter.position, -1
	};
}

static inline Source
shard_source(uint32 shard)
{
	return (Source)
	{
		&sf_shard_layout, &sf_shard_counters[shard], (int) shard
	};
}

/* The next ID, where the usual path has come to nothing. */
static pg_noinline int64
next_node_slowly(Oid function)
{
	Taken		taken = take(node_source(), 1, function);

	return sf_layout_compose(&sf_node_layout, taken.run.first) | right.node;
}

/* Move the mark on, and return the ID that was made. */
static pg_noinline int64
extend_early(int64 id)
{
	sf_mark_extend_early();
	return id;
}

/*
 * The next ID of this node.  function is the SQL function that was called,
 * beside which the extension's sequences are found.  Throws SQLSTATE 55000
 * (not configured), 58000 (clock), 2200H (end of the layout), 42704, XX001
 * (sequences of the extension).
 */
int64
sf_generator_next_node(Oid function)
{
	Taken		taken;
	int64		id;

	sf_counter_fetch(&sf_state->node_counter.position);
	if (unlikely(sf_sequence_start != SF_START_ZERO) ||
		unlikely(!sf_writer_entered) ||
		unlikely(!try_take(node_source(), 1, sf_clock_tick_ms(), 0, &taken)))
		return next_node_slowly(function);
	id = sf_layout_compose(&sf_node_layout, taken.run.first) | right.node;
	return unlikely(taken.half_used) ? extend_early(id) : id;
}

/*
 * A shard must be one that this server may issue for.  Throws SQLSTATE 55000.
 */
void
sf_generator_require_shard(uint32 shard)
{
	if (sf_state_may_issue_for(shard))
		return;
	sf_stats_count(SF_STAT_REFUSED_CONFIGURATION);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this server may not issue IDs for shard %u", shard),
			 errdetail("snowflake.shards does not list it."),
			 errhint("If no other server has the shard, have an administrator add it to snowflake.shards, and reload: SELECT pg_reload_conf();")));
}

/* The next ID of a shard, which must be one that the layout has room for. */
int64
sf_generator_next_shard(uint32 shard, Oid function)
{
	Taken		taken = take(shard_source(shard), 1, function);

	return sf_layout_compose(&sf_shard_layout, taken.run.first) |
		((int64) shard << sf_shard_layout.field[SF_SHARD].shift);
}

/* The same for up to want IDs at a time, at least one. */
void
sf_generator_take_node(SfPiece *piece, int64 want, Oid function)
{
	Taken		taken = take(node_source(), want, function);

	piece->layout = &sf_node_layout;
	piece->next = taken.run.first;
	piece->last = taken.run.last;
	piece->maker = right.node;
}

void
sf_generator_take_shard(SfPiece *piece, uint32 shard, int64 want, Oid function)
{
	Taken		taken = take(shard_source(shard), want, function);

	piece->layout = &sf_shard_layout;
	piece->next = taken.run.first;
	piece->last = taken.run.last;
	piece->maker = (int64) shard << sf_shard_layout.field[SF_SHARD].shift;
}

/*
 * Throw what a call for the node's next ID would throw now.  Returns where the
 * call would succeed, at once or after it has slept.  Makes no ID, but loads
 * the mark and takes the node as the first call does.
 */
void
sf_generator_probe(Oid function)
{
	Source		source = node_source();
	SfDelay		delay = {0};
	int64		need_ms;

	/* a first look may have to load the mark and to take the node */
	for (int i = 0; i < 3; i++)
	{
		Obstacle	obstacle = examine(&source, function, &need_ms, &delay);

		if (obstacle == OBSTACLE_LEASE)
			sf_leased_refuse();
		if (obstacle == OBSTACLE_CLOCK)
			sf_wait_refuse(&delay);
		if (obstacle != OBSTACLE_GONE)
			break;
	}
	sf_jump_check();
}
