/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  What is counted, where the transaction ends.
 *
 * A call that makes an ID adds to a number of its process, which costs it one
 * instruction.  Where the transaction ends, its numbers are added to those in
 * shared memory: one atomic addition for each that is not zero.  They begin
 * anew with the shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "stats.h"

#include "access/xact.h"
#include "clock.h"
#include "counter.h"
#include "settings.h"
#include "tell.h"
#include "times.h"

/*
 * What is a step of the clock, and not a correction of its speed, over the
 * time between two looks: more than this, and than a tenth of that time.
 */
#define STEP_MS			100
#define STEP_DIVISOR	10

uint64		sf_stats_pending[SF_STATS];

/* The step of the clock that this process has seen last, to be told; or 0. */
static int64 step_ms = 0;

/* The wait that this process is in: where its time is summed up; or 0. */
static SfStat waiting = 0;
static instr_time wait_begun;

void
sf_stats_raise(SfPeak peak, int64 value)
{
	if (value > 0)
		sf_counter_raise(&sf_state->stats.peak[peak], value);
}

/* The step of the wall clock since the last look at it, or 0. */
int64
sf_stats_find_step(int64 wall_ms, int64 offset_ms)
{
	SfStats    *stats = &sf_state->stats;
	int64		before = (int64) pg_atomic_read_u64(&stats->offset_ms);
	int64		passed = wall_ms - offset_ms -
		(int64) pg_atomic_read_u64(&stats->seen_ms);
	int64		step = offset_ms - before;

	return before != 0 && llabs(step) > Max(STEP_MS, passed / STEP_DIVISOR) ?
		step : 0;
}

/*
 * The wall clock, and its distance from the time since boot, as the mark sees
 * them, or a call that finds the clock behind.  Two who look at once may count
 * a step twice; that is not what this is for.  The caller may hold a lock, so
 * that the log is told later.
 */
void
sf_stats_see_clock(int64 wall_ms, int64 offset_ms)
{
	SfStats    *stats = &sf_state->stats;
	int64		step = sf_stats_find_step(wall_ms, offset_ms);

	pg_atomic_write_u64(&stats->offset_ms, offset_ms);
	pg_atomic_write_u64(&stats->seen_ms, wall_ms - offset_ms);
	if (step == 0)
		return;
	step_ms = step;
	sf_stats_count(step < 0 ? SF_STAT_STEPS_BACK : SF_STAT_STEPS_FORWARD);
	sf_stats_raise(step < 0 ? SF_PEAK_STEP_BACK_MS : SF_PEAK_STEP_FORWARD_MS,
				   llabs(step));
	pg_atomic_write_u64(&stats->peak[SF_PEAK_STEP_AT_MS], wall_ms);
}

/* Let the log know of it. */
void
sf_stats_tell_step(void)
{
	int64		step = step_ms;

	step_ms = 0;
	if (step != 0)
		sf_tell(step < 0 ? SF_EVENT_CLOCK_BACK : SF_EVENT_CLOCK_FORWARD,
				NULL, NULL, "wall clock was set %s by %s",
				step < 0 ? "back" : "forward", sf_times_span(llabs(step)));
}

/*
 * A wait begins; or another piece of it, which is not counted.  Where an error
 * ends it, its end is that of the transaction.
 */
void
sf_stats_begin_wait(SfStat stat, bool is_new)
{
	if (is_new)
		sf_stats_pending[stat]++;
	waiting = stat + 1;
	INSTR_TIME_SET_CURRENT(wait_begun);
}

void
sf_stats_end_wait(void)
{
	if (waiting != 0)
		sf_stats_pending[waiting] += sf_stats_since(&wait_begun);
	waiting = 0;
}

/* How far the node's last ID is ahead of the clock. */
void
sf_stats_see_drift(int64 wall_ms)
{
	int64		tick = (int64) (sf_state_last_position() >>
								sf_node_layout.sequence_bits);

	sf_stats_raise(SF_PEAK_DRIFT_MS,
				   tick * sf_node_layout.tick_ms - wall_ms);
}

/* Refused, and not for what the client alone has chosen. */
static bool
is_refusal(SfStat stat)
{
	return stat == SF_STAT_REFUSED_CLOCK || stat == SF_STAT_REFUSED_LEASE ||
		stat == SF_STAT_REFUSED_CONFIGURATION || stat == SF_STAT_REFUSED_END;
}

/* Also where a process ends in the middle of one: that aborts it. */
static void
on_transaction(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		event != XACT_EVENT_PREPARE)
		return;
	sf_stats_end_wait();
	if (sf_stats_pending[SF_STAT_NODE_IDS] != 0)
		sf_stats_see_drift(sf_clock_wall_ms());
	for (int i = 0; i < SF_STATS; i++)
	{
		if (likely(sf_stats_pending[i] == 0))
			continue;
		pg_atomic_fetch_add_u64(&sf_state->stats.sum[i], sf_stats_pending[i]);
		if (is_refusal(i))
			pg_atomic_write_u64(&sf_state->stats.refused_ms,
								sf_clock_monotonic_ms());
		sf_stats_pending[i] = 0;
	}
}

/* To be called when the library is loaded: all processes inherit it. */
void
sf_stats_register(void)
{
	RegisterXactCallback(on_transaction, NULL);
}
