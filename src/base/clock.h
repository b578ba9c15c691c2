/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Readings of clocks, and their classification.
 *
 * Never sleeps and never decides: the caller acts on a verdict.  Needs no
 * server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLOCK_H
#define SF_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- the processor's own counter ---- */

/*
 * It makes most readings of the clock unnecessary (sf_clock_tick_ms()).
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
 */

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

/* ---- clocks ---- */

/* Verdict on an ID's time compared with the wall clock. */
typedef enum SfClockVerdict
{
	SF_CLOCK_GO,				/* within the allowed drift */
	SF_CLOCK_TICK,				/* one tick too far: the sequence is full */
	SF_CLOCK_WAIT,				/* behind, and within reach by sleeping */
	SF_CLOCK_REFUSE				/* behind, and too far to sleep for */
} SfClockVerdict;

/* The kernel's own opinion of its wall clock. */
typedef struct SfClockSync
{
	bool		synchronized;	/* a program keeps the clock right */
	int64_t		max_error_us;	/* how wrong it can be */
	int64_t		estimated_error_us;
} SfClockSync;

/* Return the wall clock, in Unix microseconds. */
static inline int64_t
sf_clock_wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Return the wall clock, in Unix milliseconds. */
static inline int64_t
sf_clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The last reading of the wall clock, and for how long it holds. */
typedef struct SfClockReading
{
	uint64_t	since;			/* the counter, before the reading */
	uint64_t	span;			/* its ticks while ms is valid; 0: never */
	int64_t		ms;				/* Unix ms */
} SfClockReading;

extern SfClockReading sf_clock_reading;

extern void sf_clock_start(void);
extern int64_t sf_clock_read_anew(void);

/*
 * Return the wall clock in Unix ms, as every call that makes an ID needs it.
 * The clock is read only if the millisecond of the last reading may be over.
 * If somebody sets the clock, this notices it by the end of that millisecond.
 *
 * The only assumption about the processor's counter is that it runs at
 * SF_TICK_COUNTER_MHZ or faster.
 */
static inline int64_t
sf_clock_tick_ms(void)
{
	const SfClockReading *last = &sf_clock_reading;

	/* if the counter is not trusted, do not read it: that may be slow */
	if (__builtin_expect(last->span != 0, 1) &&
		__builtin_expect(sf_tick_counter_read() - last->since < last->span, 1))
		return last->ms;
	return sf_clock_read_anew();
}

extern void sf_clock_print_span(int64_t ms, char *text, size_t size);
extern int64_t sf_clock_monotonic_ms(void);
extern int64_t sf_clock_boot_offset_ms(int64_t *wall_ms);
extern int	sf_clock_read_sync(SfClockSync *sync);
extern SfClockVerdict sf_clock_judge(int64_t ahead_ms, int64_t drift_ms,
									 int64_t tick_ms, int64_t max_wait_ms);
extern bool sf_clock_is_frozen(int64_t wall_ms, int64_t monotonic_ms);

#endif							/* SF_CLOCK_H */
