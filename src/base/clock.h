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
#include <time.h>

#include "base/tick_counter.h"

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
