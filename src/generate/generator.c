/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  The making of an ID: the compare-and-swap, and the removal of obstacles.
 *
 * A counter holds the last position issued, and only grows (counter.h).  A
 * call computes the last position that it may issue (its cap) from three
 * values, and then tries to swap:
 *
 *	mark	the end of an ID's tick must be at or below it: it is on disk, and
 *			what a crash or a promoted standby finds covers the ID
 *	lease	until when this server may issue as its node
 *	clock	the tick may be ahead of it by the allowed drift
 *
 * All three are read before the counter is swapped.  That is safe: the mark
 * that was read stays flushed, the lease is a right to a range of timestamps
 * and not to a moment, and the clock is advice.  A process that sleeps for an
 * hour between its reads and its swap still has all three.  A counter that was
 * raised meanwhile makes the swap fail.
 *
 * If the next position is beyond the cap, the call looks for the reason: first
 * at the counter, then at the clock.  In the other order, a process that lost
 * the processor after reading the clock would mistake the others' progress for
 * a step of the clock.  A clock read after the counter is at least as late as
 * the reading that permitted the counter's position.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "generate/generator.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/message.h"
#include "common/pg_prng.h"
#include "generate/pending.h"
#include "identity/identity.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "query/query.h"
#include "runtime/audit.h"
#include "runtime/counter.h"
#include "runtime/counts.h"
#include "runtime/shmem.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "utils/memutils.h"

/* The last right that was read, decoded for one layout. */
typedef struct DecodedRight
{
	uint64		word;			/* SfShmem.right */
	int64		end_tick;		/* the first tick outside the right */
	int64		node;			/* the node's bits, where an ID has them */
} DecodedRight;

/* One of the counters, with its layout. */
typedef struct Source
{
	const SfLayout *layout;
	pg_atomic_uint64 *counter;
	int			shard;			/* or SF_NO_SHARD */
	int			slot;			/* of the layout; unused for a shard */
	DecodedRight *right;		/* of the node; NULL for a shard */
} Source;

static pg_always_inline bool
is_node(const Source *source)
{
	return source->shard == SF_NO_SHARD;
}

/* Return true for the node's IDs of snowflake.layout. */
static pg_always_inline bool
is_configured(const Source *source)
{
	return source->layout == &sf_node_layout;
}

/* The result of a successful swap. */
typedef struct Taken
{
	SfPositionRange range;
	bool		half_used;		/* half of the reserve: time to extend */
} Taken;

/* The reason why a call cannot go on yet. */
typedef enum Obstacle
{
	OBSTACLE_NONE,				/* it is gone, or only our copy of the right
								 * was old: try again */
	OBSTACLE_UNLOADED,			/* the mark must be loaded */
	OBSTACLE_NODE,				/* the node must be taken */
	OBSTACLE_LEASE,				/* the lease is missing, or has expired */
	OBSTACLE_CLOCK,				/* the call must sleep */
	OBSTACLE_MARK				/* the mark must be extended */
} Obstacle;

/* The right in snowflake.layout; its word is 0 until diagnose() reads one. */
static DecodedRight node_right;

/* A layout other than snowflake.layout, by its slot. */
typedef struct Other
{
	SfLayout	layout;
	DecodedRight right;
	bool		known;
} Other;

static Other *others = NULL;

/*
 * Return the first tick of a layout outside the right.  If ticks are long, a
 * lease may end in the middle of a tick; that tick is outside.  A configured
 * node lasts until the end of the layout, and no right lasts longer.  So the
 * usual path need not check the end of the layout.
 */
static int64
end_of_right(const SfLayout *layout, uint64 word)
{
	int64		end_tick = sf_settings_end_tick_of(word);

	if (layout == &sf_node_layout)
		return end_tick;
	if (!sf_settings_leases())
		return layout->end_tick;
	return Min(layout->end_tick,
			   sf_layout_ms_to_tick(layout,
									end_tick * sf_node_layout.tick_ms));
}

/*
 * Read a right that was published.  If the session had that of another node
 * before, its next ID must be of a later tick than its last one; otherwise its
 * IDs might not ascend.
 */
static void
decode_right(const Source *source, uint64 word)
{
	DecodedRight *r = source->right;
	uint32		node = sf_settings_node_of(word);

	if (!is_configured(source))
		sf_node_require_fit(source->layout, node);
	if (r->word != 0 && sf_settings_node_of(r->word) != node)
		sf_layout_slot_end_tick(source->slot, source->layout);
	r->word = word;
	r->end_tick = end_of_right(source->layout, word);
	r->node = (int64) sf_layout_place_node(source->layout, node);
}

/*
 * Return where the sequence begins in a tick that a call opens.  A random
 * start lies in the lower half, which leaves the upper half for later calls.
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
 * Find out why the call cannot take the next position, and read the right
 * anew if another has been published.  Throw an error if no wait can help.
 * Set *need_ms for OBSTACLE_MARK, delay->right for OBSTACLE_LEASE, and all of
 * the delay for OBSTACLE_CLOCK.
 */
static Obstacle
diagnose(const Source *source, int64 *need_ms, SfDelay *delay)
{
	const SfLayout *layout = source->layout;
	SfDatabase *database = sf_mark_attached;
	uint64		word = sf_shmem_right();
	int64		now_tick;
	int64		tick;

	delay->right = word;
	if (pg_atomic_read_u64(&database->mark) == 0)
	{
		/* snowflake.clock_check: by default it lets every clock pass */
		(void) sf_clock_sync_check(true);
		return OBSTACLE_UNLOADED;
	}

	/*
	 * The postmaster publishes a configured node at the start.  Without one,
	 * and while a reload changes it, sf_node_take() looks again, or refuses.
	 */
	if (is_node(source) && word == 0)
		return sf_settings_leases() ? OBSTACLE_LEASE : OBSTACLE_NODE;

	/* one read of shared memory, unless this is a copy, or leases */
	if (is_node(source) &&
		!sf_identity_require(sf_server_number_of(sf_settings_node_of(word))))
		return OBSTACLE_NODE;

	/* the counter first, then the clock: see the head of this file */
	tick = (int64) (((pg_atomic_read_u64(source->counter) & ~SF_CLOSED) + 1)
					>> layout->sequence_bits);
	pg_read_barrier();
	delay->wall_us = sf_clock_wall_us();
	now_tick = sf_layout_ms_to_tick(layout, delay->wall_us / 1000);
	if (now_tick < layout->epoch_tick)
		sf_layout_start_refuse(layout);
	tick = Max(tick, now_tick);
	if (is_node(source))
		decode_right(source, word); /* a first call has none before */
	if (tick >= layout->end_tick)
		sf_layout_end_refuse(layout, now_tick);
	if (is_node(source) && tick >= source->right->end_tick)
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
		return OBSTACLE_NONE;
	(void) sf_clock_sync_check(true);
	return OBSTACLE_MARK;
}

/* What a call waits for. */
typedef struct Waiting
{
	Obstacle	obstacle;
	int64		need_ms;
	const SfDelay *delay;
} Waiting;

/* If a timeout or a cancel ends the wait, tell the client what it was. */
static void
explain_wait(void *arg)
{
	const Waiting *waiting = arg;
	int			code = geterrcode();

	if (code != ERRCODE_QUERY_CANCELED && code != ERRCODE_LOCK_NOT_AVAILABLE)
		return;
	sf_stats_count(SF_STAT_REFUSED_WAIT);
	if (waiting->obstacle == OBSTACLE_LEASE)
		sf_lease_wait_explain(waiting->delay->unleased_ms);
	else if (waiting->obstacle == OBSTACLE_CLOCK)
		sf_clock_wait_explain(waiting->delay);
	else if (waiting->obstacle == OBSTACLE_MARK)
		errcontext("waiting until the mark of this database is moved to %s",
				   sf_timefmt_show(waiting->need_ms));
	else if (waiting->obstacle == OBSTACLE_NODE)
		errcontext("waiting until a reload has changed the node id");
	else
		errcontext("waiting until the mark of this database is read");
}

/* Remove, or wait out, whatever keeps this call from taking a position. */
static void
resolve_obstacle(const Source *source, SfDelay *delay)
{
	Waiting		waiting = {.delay = delay};
	ErrorContextCallback callback = {
		.previous = error_context_stack, .callback = explain_wait,
		.arg = &waiting
	};

	CHECK_FOR_INTERRUPTS();
	waiting.obstacle = diagnose(source, &waiting.need_ms, delay);
	if (waiting.obstacle != OBSTACLE_CLOCK)
		sf_clock_wait_over(delay);
	error_context_stack = &callback;
	switch (waiting.obstacle)
	{
		case OBSTACLE_NONE:
			break;
		case OBSTACLE_UNLOADED:
			sf_mark_load();
			break;
		case OBSTACLE_NODE:
			sf_node_take();
			break;
		case OBSTACLE_LEASE:
			sf_stats_begin_wait(SF_STAT_LEASE_WAITS, true);
			sf_lease_wait_sleep(delay->right, &delay->unleased_ms);
			sf_stats_end_wait();
			break;
		case OBSTACLE_CLOCK:
			sf_clock_wait_sleep(delay);
			break;
		case OBSTACLE_MARK:
			sf_stats_begin_wait(SF_STAT_MARK_WAITS, true);
			sf_mark_extend(waiting.need_ms);
			sf_stats_end_wait();
			break;
	}
	error_context_stack = callback.previous;
}

/*
 * Try to take up to "want" positions, at least one, given the wall clock in ms
 * and the sequence with which an opened tick starts.  The transaction has
 * written its low-water mark.  Return false if no position is below the cap,
 * or if the right has changed.
 *
 * Every instruction here counts: nothing is computed twice, no function is
 * called (registers would have to be saved), and rare cases are left to the
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
	uint64		made;

	if (is_node(&source))
	{
		/* the mark before the right: see change_node() in identity/node.c */
		pg_read_barrier();
		if (unlikely(pg_atomic_read_u64(&sf_shmem->right) !=
					 source.right->word))
			return false;
	}

	/* the mark and all times are in ticks from here on */
	if (unlikely(layout->tick_ms != 1))
	{
		int64		reach = now + sf_settings_lead_ms();

		now = sf_layout_ms_to_tick(layout, now);
		mark = sf_layout_ms_to_tick(layout, mark);
		half = sf_layout_ms_to_tick(layout, half);

		/* do not extend the mark if that covers no further tick */
		if (reach < (mark + 1) * layout->tick_ms)
			half = 0;
	}

	end = now + sf_settings_drift_ticks(layout) + 1;
	end = Min(end, mark);
	end = Min(end, is_node(&source) ? source.right->end_tick :
			  layout->end_tick);
	cap = (end << shift) - 1;

	SF_FAULT("before-swap");
	if (unlikely(!sf_counter_take(source.counter, shift, now, start, want,
								  cap, &taken->range,
								  &sf_stats_pending[SF_STAT_SWAP_RETRIES])))
		return false;
	made = want == 1 ? 1 : taken->range.last - taken->range.first + 1;
	sf_stats_add(is_node(&source) ? SF_STAT_NODE_IDS : SF_STAT_SHARD_IDS,
				 made);
	if (is_node(&source) && !is_configured(&source))
		sf_stats_layout_pending[source.slot] += made;
	SF_FAULT("swapped");
	taken->half_used = mark - (taken->range.last >> shift) <= half;
	return true;
}

/*
 * Return true if this transaction has made an ID; or has tried to make one of
 * a shard, or of a layout that the call names.
 */
static inline bool
has_low_water_mark(void)
{
	return sf_pending_made_node || sf_pending_other_ms != SF_NONE;
}

/*
 * Write the low-water mark (pending.h), before the swap.  Before this session
 * has loaded the mark, it reads a mark of 0, and the counter may be far
 * behind: then return false, and do not swap.
 */
static bool
enter_source(const Source *source, int64 now)
{
	const SfLayout *layout = source->layout;
	int64		tick;

	if (pg_atomic_read_u64(&sf_mark_attached->mark) == 0)
		return false;
	if (is_configured(source))
	{
		/* the counter's position, for horizons, into this backend's slot */
		if (!sf_pending_made_node)
			sf_pending_enter_node();
		return true;
	}
	tick = (int64) (sf_counter_position(source->counter) >>
					layout->sequence_bits);
	tick = Max(tick, sf_layout_ms_to_tick(layout, now));
	sf_pending_enter_other((uint64) (tick * layout->tick_ms));
	return true;
}

/* Return the bits of the node or shard, as in an ID. */
static inline int64
maker_of(const Source *source)
{
	return is_node(source) ? source->right->node :
		(int64) source->shard << source->layout->field[SF_SHARD].shift;
}

/* Note what was taken, for the audit.  The usual path of the node does not. */
static void
note_taken(const Source *source, const SfPositionRange *range)
{
	const SfLayout *layout = source->layout;
	int64		maker = maker_of(source);
	SfMade		made = {
		.layout = layout, .shard = source->shard, .maker = maker,
		.first = sf_layout_compose(layout, range->first) | maker,
		.last = sf_layout_compose(layout, range->last) | maker,
		.count = range->last - range->first + 1
	};

	sf_audit_note(&made);
}

/*
 * Return false if the node of a right that this session has read is not this
 * server's any more.  Throws SQLSTATE 55000 if another server has taken it, as
 * a status may have found since.
 */
static inline bool
has_node_still(const Source *source)
{
	uint64		word = is_node(source) ? source->right->word : 0;

	return word == 0 || !sf_identity_has_rival() ||
		sf_identity_require(sf_server_number_of(sf_settings_node_of(word)));
}

/*
 * Take up to "want" positions, at least one, removing all obstacles.  A
 * transaction's first call comes here.
 */
static Taken
take_past_obstacles(Source source, int64 want)
{
	SfDelay		delay = {0};
	Taken		taken;
	bool		is_first = !has_low_water_mark();
	bool		cleared = false;

	Assert(want >= 1 && source.shard < sf_shmem->nshards);
	if (is_first)
		sf_audit_begin();		/* snowflake.audit: off by default */
	if (!is_node(&source))
		sf_identity_require_shard(source.shard);
	for (;;)
	{
		/* do not use a reading of the clock by an earlier transaction */
		int64		now = is_first || cleared ?
			sf_clock_read_anew() : sf_clock_tick_ms();

		if ((!is_first || has_node_still(&source)) &&
			enter_source(&source, now) &&
			try_take(source, want, now, sequence_start(source.layout), &taken))
			break;
		if (!is_node(&source))	/* its counter may be closed */
			sf_require_shard(source.shard);
		resolve_obstacle(&source, &delay);
		cleared = true;
	}
	if (is_configured(&source))
		sf_pending_made_node = true;
	if (unlikely(sf_audit_notes))
		note_taken(&source, &taken.range);
	if (taken.half_used)
		sf_mark_extend_early();
	if (cleared)
		sf_layout_end_warn(source.layout, source.slot);
	return taken;
}

static inline Source
node_source(void)
{
	Source		source = {
		.layout = &sf_node_layout, .counter = sf_layout_slot_counter(0),
		.shard = SF_NO_SHARD, .slot = 0, .right = &node_right
	};

	return source;
}

/* Return the source of a slot that sf_generator_slot_of() has found. */
static inline Source
slot_source(int slot)
{
	Source		source = {.shard = SF_NO_SHARD};

	if (slot == 0)
		return node_source();
	Assert(others[slot].known);
	source.layout = &others[slot].layout;
	source.counter = sf_layout_slot_counter(slot);
	source.slot = slot;
	source.right = &others[slot].right;
	return source;
}

static inline Source
shard_source(uint32 shard)
{
	Source		source = {
		.layout = &sf_shard_layout, .counter = &sf_shard_counters[shard],
		.shard = (int) shard
	};

	return source;
}

/* Return the next ID when the usual path has failed. */
static pg_noinline int64
next_node_slowly(void)
{
	Taken		taken = take_past_obstacles(node_source(), 1);

	return sf_layout_compose(&sf_node_layout, taken.range.first) |
		node_right.node;
}

/* Extend the mark, and return the ID that was made. */
static pg_noinline int64
extend_early(int64 id)
{
	sf_mark_extend_early();
	return id;
}

/*
 * Return the next ID of this node.  Throws 55000 (not configured), 58000
 * (clock), 2200H (end of the layout), 42704, XX001 (sequences of the
 * extension).
 */
int64
sf_generator_next_node(void)
{
	Taken		taken;
	int64		id;

	if (unlikely(sf_sequence_start != SF_START_ZERO) ||
		unlikely(!sf_pending_made_node) ||
		unlikely(!try_take(node_source(), 1, sf_clock_tick_ms(), 0, &taken)))
		return next_node_slowly();
	id = sf_layout_compose(&sf_node_layout, taken.range.first) |
		node_right.node;
	sf_audit_last_id = id;		/* all that audit.c takes from here */
	return unlikely(taken.half_used) ? extend_early(id) : id;
}

/*
 * Return the slot of a layout with which the node may make IDs.  A layout of
 * which no call could get an ID takes none.  Throws SQLSTATE 22023 (it has a
 * field for shards), 55000 (the node id does not fit), 53400 (no slot is
 * left), 58000 and 2200H (its time is not now).
 */
int
sf_generator_slot_of(const SfLayout *layout)
{
	int			slot;

	sf_layout_arg_require_node(layout);
	sf_pending_require_leader();
	sf_node_require_own_fit(layout);
	slot = sf_layout_slot_of(layout);
	if (others == NULL)
		others = MemoryContextAllocZero(TopMemoryContext,
										sf_shmem->nlayouts * sizeof(Other));
	others[slot].layout = *layout;
	others[slot].known = true;
	return slot;
}

/* Take one position, usually without a call of take_past_obstacles(). */
static pg_always_inline Taken
take_one(Source source)
{
	int64		now = sf_clock_tick_ms();
	Taken		taken;

	if (unlikely(sf_sequence_start != SF_START_ZERO) ||
		unlikely(sf_audit_notes) ||
		unlikely(!has_low_water_mark()) ||
		unlikely(!enter_source(&source, now)) ||
		unlikely(!try_take(source, 1, now, 0, &taken)))
		return take_past_obstacles(source, 1);
	if (unlikely(taken.half_used))
		sf_mark_extend_early();
	return taken;
}

/*
 * Return the next ID of the layout in this slot.  Also throws 55000 for a node
 * id that does not fit the layout.
 */
int64
sf_generator_next(int slot)
{
	Source		source;
	Taken		taken;

	if (slot == 0)
		return sf_generator_next_node();
	source = slot_source(slot);
	taken = take_one(source);
	return sf_layout_compose(source.layout, taken.range.first) |
		maker_of(&source);
}

/* Return the next ID of a shard.  Also throws 55000 if it is not listed. */
int64
sf_generator_next_shard(uint32 shard)
{
	Source		source = shard_source(shard);
	Taken		taken;

	sf_identity_require_shard(shard);
	taken = take_one(source);
	return sf_layout_compose(source.layout, taken.range.first) |
		maker_of(&source);
}

/*
 * Take up to "want" IDs, at least one: of a shard, or, for SF_NO_SHARD, of the
 * node in the layout in this slot.
 */
void
sf_generator_take(SfIdRange *range, int shard, int slot, int64 want)
{
	Source		source = shard == SF_NO_SHARD ?
		slot_source(slot) : shard_source(shard);
	Taken		taken = take_past_obstacles(source, want);

	range->layout = source.layout;
	range->next = taken.range.first;
	range->last = taken.range.last;
	range->maker = maker_of(&source);
}

/*
 * Look for what keeps a call from the next ID.  Load the mark and take the
 * node, as a first call does.  "may_extend": also extend the mark.
 */
static Obstacle
find_obstacle(const Source *source, SfDelay *delay, bool may_extend)
{
	Obstacle	obstacle = OBSTACLE_NONE;

	for (int i = 0; i < 4; i++)
	{
		int64		need_ms;

		CHECK_FOR_INTERRUPTS();
		obstacle = diagnose(source, &need_ms, delay);
		if (obstacle == OBSTACLE_UNLOADED)
			sf_mark_load();
		else if (obstacle == OBSTACLE_NODE)
			sf_node_take();
		else if (obstacle == OBSTACLE_MARK && may_extend)
			sf_mark_extend(need_ms);
		else
			break;
	}
	return obstacle;
}

/*
 * Throw the error that a call for the next ID of the layout in this slot would
 * throw now.  Return if the call would succeed, at once or after a sleep.
 * Makes no ID, but loads the mark and takes the node like a first call.
 */
void
sf_generator_probe(int slot)
{
	Source		source = slot_source(slot);
	SfDelay		delay = {0};
	Obstacle	obstacle = find_obstacle(&source, &delay, false);

	if (obstacle == OBSTACLE_LEASE)
		sf_lease_wait_refuse();
	if (obstacle == OBSTACLE_CLOCK)
		sf_clock_wait_refuse(&delay);
	sf_clock_jump_check();
}

/*
 * Raise the counter of the layout in this slot, or with a shard those of all
 * shards, to the start of the clock's tick: from now on no ID is made of an
 * earlier one.  It is as if IDs had been made and thrown away, within the same
 * limits.  But nothing here waits for the clock or for a lease: without a
 * right, or beyond it, the counter stays.  No low-water mark is needed, since
 * nobody gets these IDs.
 *
 * A server without a node makes no IDs of one, and so has no right to keep
 * within: like the shards, it follows the clock and the mark.
 */
void
sf_generator_pass_time(int shard, int slot, bool has_node)
{
	Source		source = shard == SF_NO_SHARD ?
		slot_source(slot) : shard_source((uint32) shard);
	Source		asks = has_node ? source : shard_source(0);
	const SfLayout *layout = source.layout;
	SfDelay		delay = {0};
	int64		mark;
	int64		tick;
	uint64		position;

	(void) find_obstacle(&asks, &delay, true);
	mark = (int64) pg_atomic_read_u64(&sf_mark_attached->mark);
	tick = sf_layout_ms_to_tick(layout, Min(delay.wall_us / 1000, mark));
	if (is_node(&asks))
		tick = Min(tick, asks.right->end_tick);
	if (tick <= layout->epoch_tick ||
		(is_node(&asks) && asks.right->word != delay.right))
		return;
	position = ((uint64) tick << layout->sequence_bits) - 1;
	if (is_node(&source))
		sf_counter_raise(source.counter, position);
	for (int i = 0; !is_node(&source) && i < sf_shmem->nshards; i++)
		sf_shard_raise(i, position);
}
