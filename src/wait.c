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

static void
refuse_behind(const SfDelay *delay)
{
	sf_stats_count(SF_STAT_REFUSED_CLOCK);
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("wall clock is %s behind the next ID's timestamp",
					sf_times_span(delay->ahead_ms)),
			 errdetail("snowflake.max_clock_drift allows %lld ms, and snowflake.max_clock_wait %d ms of waiting.",
					   (long long) delay->drift_ms, sf_max_clock_wait),
			 errhint("Set the server's clock right. Generation goes on by itself when the clock reaches %s. If a wrong clock was believed before, see \"A mark in the far future\" in doc/operations.md of the extension.",
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
 * See that the wait so far has got nearer to its end.  A clock that is set
 * back meanwhile does not stand still: watch it from there anew.
 *
 * What the caller read may be old: a process can lose the processor for longer
 * than a clock may stand still.  So both clocks are read here, as of one time.
 */
static void
check_progress(SfDelay *delay, SfClockVerdict verdict)
{
	int64		wall_ms;
	int64		offset_ms = sf_clock_boot_offset_ms(&wall_ms);
	int64		since_boot_ms = wall_ms - offset_ms;

	if (!delay->asleep)
		delay->begun_ms = since_boot_ms;
	if (!delay->asleep || wall_ms < delay->last_wall_ms)
	{
		delay->window_wall_ms = wall_ms;
		delay->window_boot_ms = since_boot_ms;
	}
	delay->asleep = true;
	delay->last_wall_ms = wall_ms;

	if (sf_clock_is_frozen(wall_ms - delay->window_wall_ms,
						   since_boot_ms - delay->window_boot_ms))
		refuse_frozen(wall_ms - delay->window_wall_ms,
					  since_boot_ms - delay->window_boot_ms);
	if (verdict == SF_CLOCK_WAIT &&
		wall_ms < delay->next_ms - delay->drift_ms &&
		since_boot_ms - delay->begun_ms > sf_max_clock_wait + GRACE_MS)
		refuse_behind(delay);
}

/*
 * Sleep towards the time when the next ID is no further ahead of the clock
 * than it may be; return after a piece of that.  Throws 58000 if it is too
 * long, or if the clock does not get there.
 *
 * Who is at the layout's capacity sleeps on for half of the drift: then there
 * is more to take than one tick for which all would wake up, and none is lost.
 */
void
sf_wait_clock(SfDelay *delay)
{
	SfClockVerdict verdict = sf_clock_judge(delay->ahead_ms, delay->drift_ms,
											delay->tick_ms, sf_max_clock_wait);
	int64		target_ms = delay->next_ms - delay->drift_ms;
	int64		us = target_ms * 1000 - delay->wall_us;
	bool		full = verdict == SF_CLOCK_TICK;
	bool		first = !delay->asleep;

	if (full)
		us += delay->drift_ms * 1000 / 2;
	if (verdict == SF_CLOCK_REFUSE)
		refuse_behind(delay);
	SF_FAULT("clock-read");
	check_progress(delay, verdict);
	if (verdict == SF_CLOCK_WAIT && first)
		sf_tell(SF_EVENT_CLOCK_WAITED_FOR, NULL, NULL,
				"waiting for the wall clock, which is %s behind the next ID's timestamp",
				sf_times_span(delay->ahead_ms));
	sf_stats_begin_wait(full ? SF_STAT_SEQUENCE_WAITS : SF_STAT_CLOCK_WAITS,
						first);
	sleep_us(Max(1, Min(us, PIECE_MS * 1000)),
			 full ? sf_wait_event(&wait_event_sequence, "SnowflakeSequence") :
			 sf_wait_event(&wait_event_clock, "SnowflakeClock"));
	sf_stats_end_wait();
}
