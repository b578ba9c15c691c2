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

	/* since the call began to sleep; the caller begins with zeros */
	bool		asleep;
	int64		begun_ms;		/* since boot */

	/* since the wall clock was last seen to go back */
	int64		window_wall_ms;
	int64		window_boot_ms;
	int64		last_wall_ms;
} SfDelay;

extern void sf_wait_clock(SfDelay *delay);
extern void sf_wait_refuse(const SfDelay *delay);

#endif							/* SF_WAIT_H */
