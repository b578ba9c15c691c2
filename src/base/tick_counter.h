/*-------------------------------------------------------------------------
 *
 * tick_counter.h
 *	  The processor's own counter, which makes most readings of the clock
 *	  unnecessary (sf_clock_tick_ms()).
 *
 * On an AMD EPYC with two cores, a reading of the clock takes 23.5 ns, and
 * sf_clock_tick_ms() with this counter takes 9.6 ns.  On other processors and
 * systems nothing was measured, so only x86-64 under Linux has the counter.
 * "make TICK_COUNTER=no" leaves it out; then each call reads the clock, and
 * nothing else changes.
 *
 * Prefetching the line of the node's counter for writing was tried, too, and
 * dropped: one session makes as many IDs as without it; two and eight sessions
 * that do nothing else on two cores make 3 % more, which no INSERT would show.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TICK_COUNTER_H
#define SF_TICK_COUNTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * A lower bound for the counter's speed; real ones run at 1000 and more.  The
 * lower the bound, the more often the clock is read.  If the counter runs at
 * twice the bound, the clock is read when half of the rest of a millisecond is
 * over, then when three quarters are over, and so on, about ten times; at six
 * times the bound, about sixty times.
 */
#define SF_TICK_COUNTER_MHZ		500

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && \
	!defined(SF_NO_TICK_COUNTER)

/*
 * Read the counter, without the fence that the clock needs, and without a
 * conversion to time.
 */
static inline uint64_t
sf_tick_counter_read(void)
{
	return __builtin_ia32_rdtsc();
}

/*
 * Return true if the kernel keeps time by the counter: then it is the same on
 * all processors, and neither stops nor changes its speed.
 */
static inline bool
sf_tick_counter_is_trusted(void)
{
	FILE	   *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
	char		name[16];
	bool		trusted;

	if (file == NULL)
		return false;
	trusted = fgets(name, sizeof(name), file) != NULL &&
		strcmp(name, "tsc\n") == 0;
	fclose(file);
	return trusted;
}

#else

static inline uint64_t
sf_tick_counter_read(void)
{
	return 0;
}

static inline bool
sf_tick_counter_is_trusted(void)
{
	return false;
}

#endif

#endif							/* SF_TICK_COUNTER_H */
