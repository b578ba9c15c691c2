/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Sleeping for the wall clock, or refusing to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WAIT_H
#define SF_WAIT_H

/* A call that is too far ahead of the clock, or has no lease. */
typedef struct SfDelay
{
	uint64		lease;			/* or sf_shard_end(), as of the last look */
	int64		unleased_ms;	/* monotonic; 0: it has not missed it yet */

	/* as of the last look */
	int64		wall_us;		/* the wall clock, Unix microseconds */
	int64		next_ms;		/* where the tick of the next ID begins */
	int64		ahead_ms;		/* how far that is ahead of the clock's tick */
	int64		drift_ms;		/* how far it may be */
	int64		tick_ms;

	bool		counted;		/* as a call that sleeps, and told of */

	/*
	 * As of the last sleep, with times since boot.  The caller begins with
	 * zeros, and is awake again when it comes to anything but the clock.
	 */
	bool		asleep;
	int64		last_wall_ms;
	int64		last_boot_ms;
	bool		behind;			/* the clock was, not the sequence full */
	int64		behind_from_ms;

	/* since the wall clock was last seen to advance as it should */
	int			slow_looks;
	int64		window_wall_ms;
	int64		window_boot_ms;
} SfDelay;

/* What the call has to wait for is not the clock. */
static inline void
sf_wait_over(SfDelay *delay)
{
	delay->asleep = delay->behind = false;
}

extern void sf_wait_clock(SfDelay *delay);
extern void sf_wait_refuse(const SfDelay *delay);

#endif							/* SF_WAIT_H */
