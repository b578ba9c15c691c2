/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clocks beside the wall clock, and verdicts about it.
 *
 *-------------------------------------------------------------------------
 */
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>

#ifndef __linux__
#define adjtimex(timex)		ntp_adjtime(timex)
#endif

/* A wall clock that fell behind by less than this has not been caught yet. */
#define FROZEN_AFTER_MS		200

#define NS_PER_MS		1000000

/*
 * The processor's counter is no slower than this; they run at 1000 and more.
 * The less it is, the more often the clock is read: at half of its speed when
 * half of what is left of a millisecond is over, then at three quarters, and
 * so on, some ten times; at a sixth of it some sixty times.
 */
#define COUNTER_MHZ		500

/* Where the kernel says which clock is its own. */
#define CLOCKSOURCE		"/sys/devices/system/clocksource/clocksource0/current_clocksource"

SfClockReading sf_clock_reading;

/* Is the processor's counter to be trusted? */
static bool counts = false;

/*
 * To be called once, when the library is loaded.  The processor's counter is
 * trusted where the kernel keeps its own time by it: then it is the same on
 * all processors, and neither stops nor changes its speed.  Should the kernel
 * come to distrust it later, what is late for it is a timestamp, and by no
 * more than the rest of a transaction.
 */
void
sf_clock_start(void)
{
#ifdef SF_CLOCK_COUNTER
	FILE	   *file = fopen(CLOCKSOURCE, "r");
	char		name[16];

	if (file == NULL)
		return;
	counts = fgets(name, sizeof(name), file) != NULL &&
		strcmp(name, "tsc\n") == 0;
	fclose(file);
#endif
}

/* Read the wall clock, in Unix ms, and for how long that will do. */
int64_t
sf_clock_read_anew(void)
{
	SfClockReading *reading = &sf_clock_reading;
	struct timespec ts;

#ifdef SF_CLOCK_COUNTER
	if (counts)
		reading->since = SF_CLOCK_COUNTER();
#endif
	clock_gettime(CLOCK_REALTIME, &ts);
	reading->ms = (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
	if (counts)
		reading->span = (NS_PER_MS - ts.tv_nsec % NS_PER_MS) *
			COUNTER_MHZ / 1000;
	return reading->ms;
}

static int64_t
read_ms(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A clock that nobody sets, to bound waits by; in ms from some start. */
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
 * The wall clock's distance from the time since boot, in ms, and the wall
 * clock that it was computed from.  It changes only when somebody sets the
 * wall clock: CLOCK_BOOTTIME goes on while the machine is suspended.  Where
 * there is none, a suspended machine looks like a jump.
 *
 * A process that is stopped between the two readings would take that for a
 * jump as well; so the reading is framed by two of the other clock.
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
 * Ask the kernel, which takes no right, but some containers forbid it.
 * Returns 0, or why it does not say.
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
 * Print a length of time as people say it, rounded: "2500 ms", "57 min",
 * "2 h 5 min", "400 days".
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
	int64_t		s = (ms + 500) / 1000;
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

	/* of the smaller unit, too */
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
	 * Nobody issues beyond the drift, so without a step back the next ID is
	 * at most the first of the tick after it.
	 */
	if (excess <= tick_ms)
		return SF_CLOCK_TICK;
	return excess <= max_wait_ms ? SF_CLOCK_WAIT : SF_CLOCK_REFUSE;
}

/*
 * Has the wall clock stood still, or nearly, while the monotonic one moved on
 * by monotonic_ms?  No slewing makes a clock run at half its speed.
 */
bool
sf_clock_is_frozen(int64_t wall_ms, int64_t monotonic_ms)
{
	return monotonic_ms >= FROZEN_AFTER_MS &&
		wall_ms >= 0 && wall_ms < monotonic_ms / 2;
}
