/*-------------------------------------------------------------------------
 *
 * counts.c
 *	  Counts per process, added to shared memory at the end of each
 *	  transaction.
 *
 * A call that makes an ID adds to a number of its process, which costs one
 * instruction.  At the end of the transaction, its numbers are added to those
 * in shared memory: one atomic addition for each that is not zero.  The counts
 * begin at 0 with the shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/counts.h"

#include "access/xact.h"
#include "base/clock.h"
#include "base/message.h"
#include "runtime/counter.h"
#include "runtime/log.h"
#include "runtime/settings.h"

/*
 * A change of the clock counts as a step, and not as a correction of its
 * speed, if it exceeds STEP_MS, and one STEP_DIVISOR-th of the time since the
 * last look.
 */
#define STEP_MS			100
#define STEP_DIVISOR	10

uint64		sf_stats_pending[SF_STATS];
uint64		sf_stats_layout_pending[SF_MAX_LAYOUT_SLOTS];

/* The last step of the clock that was seen here, not logged yet; or 0. */
static int64 step_ms = 0;

/* Where the current wait's time is added up; 0: no wait. */
static SfStat waiting = 0;
static instr_time wait_begun;

void
sf_stats_raise(SfPeak peak, int64 value)
{
	if (value > 0)
		sf_counter_raise(&sf_shmem->stats.peak[peak], value);
}

/* Return the step of the wall clock since the last look at it, or 0. */
int64
sf_stats_find_step(int64 wall_ms, int64 offset_ms)
{
	SfStats    *stats = &sf_shmem->stats;
	int64		before = (int64) pg_atomic_read_u64(&stats->offset_ms);
	int64		passed = wall_ms - offset_ms -
		(int64) pg_atomic_read_u64(&stats->seen_ms);
	int64		step = offset_ms - before;

	return before != 0 && llabs(step) > Max(STEP_MS, passed / STEP_DIVISOR) ?
		step : 0;
}

/*
 * Compare the clocks with the last look, and count a step.  Called with the
 * wall clock and its distance from the time since boot when a mark is loaded
 * or extended, and when a call finds the clock behind.  Two processes that
 * look at once may count a step twice, which is acceptable.  The caller may
 * hold a lock, so sf_stats_log_step() logs it later.
 */
void
sf_stats_see_clock(int64 wall_ms, int64 offset_ms)
{
	SfStats    *stats = &sf_shmem->stats;
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

/* Log the step. */
void
sf_stats_log_step(void)
{
	int64		step = step_ms;

	step_ms = 0;
	if (step != 0)
		sf_log_event(step < 0 ? SF_EVENT_CLOCK_BACK : SF_EVENT_CLOCK_FORWARD,
					 NULL, NULL, "wall clock was set %s by %s",
					 step < 0 ? "back" : "forward", sf_timefmt_span(llabs(step)));
}

/*
 * Begin a wait, or another part of one, which is not counted again.  If an
 * error ends the wait, it ends with the subtransaction or the transaction.
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

/* Record how far the node's last ID is ahead of the clock. */
void
sf_stats_see_drift(int64 wall_ms)
{
	int64		tick = (int64) (sf_shmem_last_position() >>
								sf_node_layout.sequence_bits);

	sf_stats_raise(SF_PEAK_DRIFT_MS,
				   tick * sf_node_layout.tick_ms - wall_ms);
}

/* Return true for a refusal that the client alone did not cause. */
static bool
is_refusal(SfStat stat)
{
	return stat == SF_STAT_REFUSED_CLOCK || stat == SF_STAT_REFUSED_LEASE ||
		stat == SF_STAT_REFUSED_CONFIGURATION ||
		stat == SF_STAT_REFUSED_END || stat == SF_STAT_REFUSED_WAIT;
}

static void
add_layouts(void)
{
	int			used = (int) pg_atomic_read_u32(&sf_shmem->layouts_used);

	for (int i = 1; i < used; i++)
	{
		if (sf_stats_layout_pending[i] == 0)
			continue;
		pg_atomic_fetch_add_u64(&sf_layout_slots[i].layout.ids,
								sf_stats_layout_pending[i]);
		sf_stats_layout_pending[i] = 0;
	}
}

/* Add the counts.  A process that ends in a transaction comes here too. */
static void
end_counts(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		event != XACT_EVENT_PREPARE)
		return;
	sf_stats_end_wait();
	if (sf_stats_pending[SF_STAT_NODE_IDS] != 0)
	{
		sf_stats_see_drift(sf_clock_wall_ms());
		add_layouts();
	}
	for (int i = 0; i < SF_STATS; i++)
	{
		if (likely(sf_stats_pending[i] == 0))
			continue;
		pg_atomic_fetch_add_u64(&sf_shmem->stats.sum[i], sf_stats_pending[i]);
		if (is_refusal(i))
			pg_atomic_write_u64(&sf_shmem->stats.refused_ms,
								sf_clock_monotonic_ms());
		sf_stats_pending[i] = 0;
	}
}

/* The transaction may go on for long after an error that it has caught. */
static void
on_subtransaction(SubXactEvent event, SubTransactionId id,
				  SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		sf_stats_end_wait();
}

/* Install the callbacks at load; all processes inherit them. */
void
sf_stats_register(void)
{
	RegisterXactCallback(end_counts, NULL);
	RegisterSubXactCallback(on_subtransaction, NULL);
}
