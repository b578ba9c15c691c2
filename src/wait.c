/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Sleeping for the wall clock, or refusing to.
 *
 * A sleep is cut into pieces; after each the caller looks again at counter
 * and clock, since either may have moved.  The time since boot bounds the
 * whole, so that a wall clock that stands still is found out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "wait.h"

#include "clock.h"
#include "fault.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "register.h"
#include "settings.h"
#include "state.h"
#include "stats.h"
#include "storage/latch.h"
#include "tell.h"
#include "times.h"

/* The longest piece of a sleep. */
#define PIECE_MS			100

/* Below this a latch, which counts in ms, sleeps too coarsely. */
#define LATCH_FROM_US		2000

/* How much later than promised a wait may end. */
#define GRACE_MS			1000

/* So long a time says how the clock goes. */
#define LOOK_FROM_MS		10

/* So many looks must say that the clock stands still. */
#define SLOW_LOOKS			3

static uint32 wait_event_sequence = 0;
static uint32 wait_event_clock = 0;

/* Sleep, until a signal arrives at the latest. */
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
 * The clock is behind.  If it was set back, see that here: the mark, which
 * sees steps otherwise, is not moved before the clock is there.
 */
static void
see_step(void)
{
	int64		wall_ms;
	int64		offset_ms = sf_clock_boot_offset_ms(&wall_ms);

	sf_stats_see_clock(wall_ms, offset_ms);
	sf_stats_tell_step();
}

static void
refuse_behind(const SfDelay *delay)
{
	see_step();
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %s behind the next ID's timestamp",
					sf_times_span(delay->ahead_ms)),
			 errdetail("snowflake.max_clock_drift allows %s, and snowflake.max_clock_wait %s of waiting.",
					   sf_times_span(delay->drift_ms),
					   sf_times_span(sf_max_clock_wait)),
			 errhint("Set the server's clock right. Generation goes on by itself when the clock reaches %s. " SF_REG_MARK_REMEDY,
					 sf_times_show(delay->next_ms - delay->drift_ms))));
}

/* Refuse if a call would not sleep that long. */
void
sf_wait_refuse(const SfDelay *delay)
{
	if (sf_clock_judge(delay->ahead_ms, delay->drift_ms, delay->tick_ms,
					   sf_max_clock_wait) == SF_CLOCK_REFUSE)
		refuse_behind(delay);
}

/*
 * Does the wall clock stand still?  What speaks for it is one look after the
 * other at which it had advanced by less than half as much as the time since
 * boot.  One alone tells nothing: meanwhile the process may have lost the
 * processor for long, and the clock may have been set back by less than that.
 *
 * What the caller read may be old, for the same reason.  So both clocks are
 * read here, as of one time.
 */
static void
look_at_clock(SfDelay *delay)
{
	int64		wall_ms;
	int64		offset_ms = sf_clock_boot_offset_ms(&wall_ms);
	int64		boot_ms = wall_ms - offset_ms;
	int64		step_ms = wall_ms - delay->last_wall_ms;

	/* too soon to tell, by clocks that count in ms */
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
 * A wait for a clock that is behind has an end.  It begins when that is found
 * to be so, and is over when the clock has got to where it was waited for,
 * though it may be behind again: others have made IDs meanwhile.
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

/*
 * Sleep towards the time when the next ID is no further ahead of the clock
 * than it may be; return after a piece of that.  Throws 58000 if it is too
 * long, or if the clock does not get there.
 *
 * Who is at the layout's capacity sleeps for the rest of a tick.  What a late
 * wake-up misses of the next one is not lost: the drift keeps it.
 */
void
sf_wait_clock(SfDelay *delay)
{
	SfClockVerdict verdict = sf_clock_judge(delay->ahead_ms, delay->drift_ms,
											delay->tick_ms, sf_max_clock_wait);
	int64		target_ms = delay->next_ms - delay->drift_ms;
	int64		us = target_ms * 1000 - delay->wall_us;
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
		sf_tell(SF_EVENT_CLOCK_WAITED_FOR, NULL, NULL,
				"waiting for the wall clock, which is %s behind the next ID's timestamp, until %s",
				sf_times_span(delay->ahead_ms), sf_times_show(target_ms));
	}
	sf_stats_begin_wait(full ? SF_STAT_SEQUENCE_WAITS : SF_STAT_CLOCK_WAITS,
						first);
	sleep_us(Max(1, Min(us, PIECE_MS * 1000)),
			 full ? sf_wait_event(&wait_event_sequence, "SnowflakeSequence") :
			 sf_wait_event(&wait_event_clock, "SnowflakeClock"));
	sf_stats_end_wait();
}
