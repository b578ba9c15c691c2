/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Reads the clocks and classifies what they say.
 *
 * Never sleeps and never decides: what to do about a verdict is the
 * caller's.  Needs no server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CLOCK_H
#define SF_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A counter that each processor has, and that an instruction reads. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define SF_CLOCK_COUNTER()	__builtin_ia32_rdtsc()
#endif

/* What an ID that would be ahead of the wall clock means. */
typedef enum SfClockVerdict
{
	SF_CLOCK_GO,				/* within the allowed drift */
	SF_CLOCK_TICK,				/* one tick too far: the sequence is full */
	SF_CLOCK_WAIT,				/* behind, and within reach by sleeping */
	SF_CLOCK_REFUSE				/* behind, and too far to sleep for */
} SfClockVerdict;

/* What the kernel says of its wall clock. */
typedef struct SfClockSync
{
	bool		synchronized;	/* somebody sees to it that it is right */
	int64_t		max_error_us;	/* how wrong it can be */
	int64_t		estimated_error_us;
} SfClockSync;

/* The wall clock, in Unix microseconds. */
static inline int64_t
sf_clock_wall_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The wall clock, in Unix milliseconds. */
static inline int64_t
sf_clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* What the wall clock said last, and for how long that holds. */
typedef struct SfClockReading
{
	uint64_t	since;			/* the processor's counter, before that */
	uint64_t	span;			/* so many of its ticks; 0: not at all */
	int64_t		ms;				/* Unix ms */
} SfClockReading;

extern SfClockReading sf_clock_reading;

extern void sf_clock_start(void);
extern int64_t sf_clock_read_anew(void);

/*
 * The same, for what every call of ours does: the clock is read only where a
 * millisecond may be over since the last reading.  That somebody sets it is
 * noticed by the end of that millisecond.
 *
 * The processor's counter is read without a fence, and not turned into time,
 * which makes it three times as fast as the clock.  All that is known of it is
 * that it runs at no less than COUNTER_MHZ (clock.c).
 */
static inline int64_t
sf_clock_tick_ms(void)
{
#ifdef SF_CLOCK_COUNTER
	const SfClockReading *last = &sf_clock_reading;

	/* where it is not trusted, reading it may be slow */
	if (__builtin_expect(last->span != 0, 1) &&
		__builtin_expect(SF_CLOCK_COUNTER() - last->since < last->span, 1))
		return last->ms;
#endif
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
