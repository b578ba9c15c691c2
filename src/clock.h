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
#include <stdint.h>
#include <time.h>

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

/*
 * The wall clock, in Unix milliseconds.  Every call of ours does this; not on
 * the stack, or compilers guard it.
 */
static inline int64_t
sf_clock_wall_ms(void)
{
	static struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

extern int64_t sf_clock_monotonic_ms(void);
extern int64_t sf_clock_boot_offset_ms(int64_t *wall_ms);
extern int	sf_clock_read_sync(SfClockSync *sync);
extern SfClockVerdict sf_clock_judge(int64_t ahead_ms, int64_t drift_ms,
									 int64_t tick_ms, int64_t max_wait_ms);
extern bool sf_clock_is_frozen(int64_t wall_ms, int64_t monotonic_ms);

#endif							/* SF_CLOCK_H */
