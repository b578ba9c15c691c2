/*-------------------------------------------------------------------------
 *
 * clock_wait.c
 *	  Sleep until the wall clock permits the next ID, or refuse.
 *
 * A sleep is cut into pieces.  After each, the caller looks again at the
 * counter and the clock, because both may have moved.  The time since boot
 * bounds the whole sleep, so that a wall clock that stands still is noticed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "generate/generator.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/message.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "runtime/counts.h"
#include "runtime/log.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/latch.h"

/* The longest piece of a sleep. */
#define PIECE_MS			100

/* Shorter sleeps do not use a latch, which counts in ms. */
#define LATCH_FROM_US		5000

/* The longest sleep at the layout's capacity, unless a tick is longer. */
#define FULL_US				2500

/* How much longer than promised a wait may take. */
#define GRACE_MS			1000

/* The shortest time in which the clock's progress can be judged. */
#define LOOK_FROM_MS		10

/* How many looks must find that the clock stands still. */
#define SLOW_LOOKS			3

static uint32 wait_event_sequence = 0;
static uint32 wait_event_clock = 0;

/* Sleep, at most until a signal arrives. */
static void
sleep_us(int64 us, uint32 wait_event)
{
	if (us < LATCH_FROM_US)
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep(us);
		pgstat_report_wait_end();
	}
	else
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 us / 1000, wait_event);
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
}

static void
refuse_frozen(int64 wall_ms, int64 real_ms)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock stands still"),
			 errdetail("It advanced by %lld ms while the monotonic clock advanced by %lld ms.",
					   (long long) wall_ms, (long long) real_ms),
			 errhint("Check the clock of this machine, or of its hypervisor.")));
}

/*
 * Record that the clock stepped back.  Usually a session notices a step when
 * it moves the mark, but no session moves the mark while the clock is far
 * behind.
 */
static void
see_step(void)
{
	int64		wall_ms;
	int64		offset_ms = sf_clock_boot_offset_ms(&wall_ms);

	sf_stats_see_clock(wall_ms, offset_ms);
	sf_stats_log_step();
}

static void
refuse_behind(const SfDelay *delay)
{
	see_step();
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %s behind the next ID's timestamp",
					sf_timefmt_span(delay->ahead_ms)),
			 errdetail("snowflake.max_clock_drift allows %s, and snowflake.max_clock_wait %s of waiting.",
					   sf_timefmt_span(delay->drift_ms),
					   sf_timefmt_span(sf_max_clock_wait)),
			 errhint("%s",
					 sf_clock_behind_remedy(delay->next_ms - delay->drift_ms,
											psprintf(SF_COUNTER_REMEDY,
													 sf_check_step("mark"))))));
}

/* Throw an error if the call would have to sleep too long. */
void
sf_clock_wait_refuse(const SfDelay *delay)
{
	if (sf_clock_judge(delay->ahead_ms, delay->drift_ms, delay->tick_ms,
					   sf_max_clock_wait) == SF_CLOCK_REFUSE)
		refuse_behind(delay);
}

/*
 * Throw an error if the wall clock stands still.  It does if at several looks
 * in a row it had advanced by less than half as much as the time since boot.
 * One such look proves nothing: the process may have lost the processor for
 * long, and the clock may have been set back by less than that time.
 *
 * Because the process may have lost the processor, the caller's reading may be
 * old.  So read both clocks here, at one time.
 */
static void
look_at_clock(SfDelay *delay)
{
	int64		wall_ms;
	int64		offset_ms = sf_clock_boot_offset_ms(&wall_ms);
	int64		boot_ms = wall_ms - offset_ms;
	int64		step_ms = wall_ms - delay->last_wall_ms;

	/* too soon: clocks that count in ms cannot tell yet */
	if (delay->asleep && boot_ms - delay->last_boot_ms < LOOK_FROM_MS)
		return;
	if (!delay->asleep || step_ms < 0 ||
		step_ms * 2 >= boot_ms - delay->last_boot_ms)
	{
		delay->slow_looks = 0;
		delay->window_wall_ms = wall_ms;
		delay->window_boot_ms = boot_ms;
	}
	else
		delay->slow_looks++;
	delay->last_wall_ms = wall_ms;
	delay->last_boot_ms = boot_ms;

	if (delay->slow_looks >= SLOW_LOOKS &&
		sf_clock_is_frozen(wall_ms - delay->window_wall_ms,
						   boot_ms - delay->window_boot_ms))
		refuse_frozen(wall_ms - delay->window_wall_ms,
					  boot_ms - delay->window_boot_ms);
}

/*
 * Throw an error if the wait takes too long.  A wait begins when the clock is
 * found to be behind the next ID.  It is over when the clock has reached that
 * ID's time.  If other sessions have made IDs meanwhile, the clock is behind
 * again, and another wait begins.
 */
static void
check_end(SfDelay *delay)
{
	bool		was_behind = delay->behind;

	delay->behind = delay->last_wall_ms < delay->next_ms - delay->drift_ms;
	if (!was_behind)
		delay->behind_from_ms = delay->last_boot_ms;
	else if (delay->behind && delay->last_boot_ms - delay->behind_from_ms >
			 sf_max_clock_wait + GRACE_MS)
		refuse_behind(delay);
}

/* Add to an error that ends the sleep for what the call waited. */
void
sf_clock_wait_explain(const SfDelay *delay)
{
	if (sf_clock_judge(delay->ahead_ms, delay->drift_ms, delay->tick_ms,
					   sf_max_clock_wait) == SF_CLOCK_TICK)
		errcontext("waiting for the next tick, since all IDs of this one are made");
	else
		errcontext("waiting until %s for the wall clock, which is %s behind the next ID's timestamp",
				   sf_timefmt_show(delay->next_ms - delay->drift_ms),
				   sf_timefmt_span(delay->ahead_ms));
}

/*
 * Sleep for a part of the time until the clock permits the next ID.  Throws
 * 58000 if the wait is too long, or if the clock stands still.
 *
 * At the layout's capacity, a call sleeps for half of the drift, at most for
 * FULL_US, and at least for the rest of a tick.  The ticks that it misses are
 * not lost: the drift covers them.  Waking up for each tick would cost more
 * than the IDs do.
 */
void
sf_clock_wait_sleep(SfDelay *delay)
{
	SfClockVerdict verdict = sf_clock_judge(delay->ahead_ms, delay->drift_ms,
											delay->tick_ms, sf_max_clock_wait);
	int64		target_ms = delay->next_ms - delay->drift_ms;
	int64		us = target_ms * 1000 - delay->wall_us;
	int64		half_us = delay->drift_ms * 1000 / 2;
	bool		full = verdict == SF_CLOCK_TICK;
	bool		first = !delay->counted;

	if (verdict == SF_CLOCK_REFUSE)
		refuse_behind(delay);
	SF_FAULT("clock-read");
	look_at_clock(delay);
	delay->asleep = delay->counted = true;
	if (verdict == SF_CLOCK_WAIT)
		check_end(delay);
	else
		delay->behind = false;
	if (verdict == SF_CLOCK_WAIT && first)
	{
		see_step();
		sf_log_event(SF_EVENT_CLOCK_WAITED_FOR, NULL, NULL,
					 "waiting for the wall clock, which is %s behind the next ID's timestamp, until %s",
					 sf_timefmt_span(delay->ahead_ms),
					 sf_timefmt_show(target_ms));
	}
	if (full)
		us = Max(us, Min(half_us, FULL_US));
	sf_stats_begin_wait(full ? SF_STAT_SEQUENCE_WAITS : SF_STAT_CLOCK_WAITS,
						first);
	sleep_us(Max(1, Min(us, PIECE_MS * 1000)),
			 full ? sf_wait_event(&wait_event_sequence, "SnowflakeSequence") :
			 sf_wait_event(&wait_event_clock, "SnowflakeClock"));
	sf_stats_end_wait();
}
