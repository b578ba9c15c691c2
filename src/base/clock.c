/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  Readings of several clocks, and verdicts about the wall clock.
 *
 *-------------------------------------------------------------------------
 */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/timex.h>

#ifndef __linux__
#define adjtimex(timex)		ntp_adjtime(timex)
#endif

/* A wall clock must stand still for this long before it counts as frozen. */
#define FROZEN_AFTER_MS		200

#define NS_PER_MS		1000000

SfClockReading sf_clock_reading;

/* The processor's counter may be used in place of the clock. */
static bool tick_counter_usable = false;

/*
 * Decide whether to use the processor's counter.  Called once, when the
 * library is loaded.  The kernel may come to distrust it later.  Then a
 * timestamp is late, by no more than the rest of a transaction.
 */
void
sf_clock_start(void)
{
	tick_counter_usable = sf_tick_counter_is_trusted();
}

/* Read the wall clock, in Unix ms, and how long the reading will hold. */
int64_t
sf_clock_read_anew(void)
{
	SfClockReading *reading = &sf_clock_reading;
	struct timespec ts;

	if (tick_counter_usable)
		reading->since = sf_tick_counter_read();
	clock_gettime(CLOCK_REALTIME, &ts);
	reading->ms = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
	if (tick_counter_usable)
		reading->span = (NS_PER_MS - ts.tv_nsec % NS_PER_MS) *
			SF_TICK_COUNTER_MHZ / 1000;
	return reading->ms;
}

static int64_t
read_ms(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Return a clock that nobody sets, to bound waits by; ms since some start. */
int64_t
sf_clock_monotonic_ms(void)
{
	return read_ms(CLOCK_MONOTONIC);
}

static int64_t
since_boot_ms(void)
{
#ifdef CLOCK_BOOTTIME
	return read_ms(CLOCK_BOOTTIME);
#else
	return read_ms(CLOCK_MONOTONIC);
#endif
}

/*
 * Return the wall clock minus the time since boot, in ms, and set *wall_ms to
 * the wall clock used.  The result changes only when somebody sets the wall
 * clock, because CLOCK_BOOTTIME continues while the machine is suspended.
 * Without that clock, a suspended machine looks like a jump.
 *
 * A process that is stopped between the two readings would see a jump too.  So
 * the time since boot is read before and after the wall clock.
 */
int64_t
sf_clock_boot_offset_ms(int64_t *wall_ms)
{
	int64_t		before,
				after;
	int			tries = 0;

	do
	{
		before = since_boot_ms();
		*wall_ms = sf_clock_wall_ms();
		after = since_boot_ms();
	} while (after - before > 1 && ++tries < 100);
	return *wall_ms - before;
}

/*
 * Read what the kernel says of its clock.  This needs no privilege, but some
 * containers forbid it.  Return 0, or the errno of the refusal.
 */
int
sf_clock_read_sync(SfClockSync *sync)
{
	struct timex timex = {.modes = 0};
	int			state = adjtimex(&timex);

	if (state < 0)
		return errno;
	sync->synchronized = state != TIME_ERROR &&
		(timex.status & STA_UNSYNC) == 0;
	sync->max_error_us = timex.maxerror;
	sync->estimated_error_us = timex.esterror;
	return 0;
}

/*
 * Print a length of time as people say it, rounded: "2500 ms", "57 min", "2 h
 * 5 min", "400 days".
 */
void
sf_clock_print_span(int64_t ms, char *text, size_t size)
{
	static const struct
	{
		int64_t		s;
		const char *name;
	}			units[] = {
		{86400, "days"}, {3600, "h"}, {60, "min"}, {1, "s"}
	};
	int64_t		s = ms / 1000 + (ms % 1000 >= 500);
	int			i = 0;
	int64_t		n;
	int64_t		rest;

	if (ms < 10000)
	{
		snprintf(text, size, "%lld ms", (long long) ms);
		return;
	}
	while (s < units[i].s)
		i++;
	if (units[i].s == 1 || s / units[i].s >= 10)
	{
		n = (s + units[i].s / 2) / units[i].s;
		if (i > 0 && n * units[i].s >= units[i - 1].s)
			s = units[--i].s;
		else
		{
			snprintf(text, size, "%lld %s", (long long) n, units[i].name);
			return;
		}
	}

	/* also print the smaller unit */
	n = (s + units[i + 1].s / 2) / units[i + 1].s;
	rest = n % (units[i].s / units[i + 1].s);
	n /= units[i].s / units[i + 1].s;
	if (rest == 0)
		snprintf(text, size, "%lld %s", (long long) n,
				 n == 1 && i == 0 ? "day" : units[i].name);
	else
		snprintf(text, size, "%lld %s %lld %s", (long long) n,
				 n == 1 && i == 0 ? "day" : units[i].name,
				 (long long) rest, units[i + 1].name);
}

/*
 * Classify an ID whose tick begins ahead_ms after the wall clock's tick.
 * drift_ms is a whole number of ticks.
 */
SfClockVerdict
sf_clock_judge(int64_t ahead_ms, int64_t drift_ms, int64_t tick_ms,
			   int64_t max_wait_ms)
{
	int64_t		excess = ahead_ms - drift_ms;

	if (excess <= 0)
		return SF_CLOCK_GO;

	/*
	 * No call issues beyond the drift.  So unless the clock stepped back, the
	 * next ID is at most the first of the tick after it.
	 */
	if (excess <= tick_ms)
		return SF_CLOCK_TICK;
	return excess <= max_wait_ms ? SF_CLOCK_WAIT : SF_CLOCK_REFUSE;
}

/*
 * Return true if the wall clock stood still, or nearly, while the monotonic
 * clock moved on by monotonic_ms.  No slewing slows a clock to half its speed.
 */
bool
sf_clock_is_frozen(int64_t wall_ms, int64_t monotonic_ms)
{
	return monotonic_ms >= FROZEN_AFTER_MS &&
		wall_ms >= 0 && wall_ms < monotonic_ms / 2;
}
