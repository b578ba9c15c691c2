/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Makes positions and IDs, one by one and in ranges.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_GENERATOR_H
#define SF_GENERATOR_H

#include "fmgr.h"
#include "layout/layout.h"

/* IDs that a caller has taken and not used yet. */
typedef struct SfIdRange
{
	const SfLayout *layout;
	int64		next;			/* the next position */
	int64		last;			/* the last, inclusive */
	int64		maker;			/* bits of the node or shard, as in an ID */
} SfIdRange;

extern int	sf_generator_slot_of(const SfLayout *layout);
extern int64 sf_generator_next_node(void);
extern int64 sf_generator_next(int slot);
extern int64 sf_generator_next_shard(uint32 shard);
extern void sf_generator_take(SfIdRange *range, int shard, int slot,
							  int64 want);
extern void sf_generator_probe(int slot);
extern void sf_generator_pass_time(int shard, int slot, bool has_node);

/* functions that the default of a column may call */
extern PGDLLEXPORT Datum snowflake_next_id(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_nextval_layout(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_shard_nextval(PG_FUNCTION_ARGS);

/* clock_wait.c */
/* The waits of one call: for the clock, or for a lease. */
typedef struct SfDelay
{
	uint64		right;			/* at the last look; not for a shard */
	int64		unleased_ms;	/* since when the lease is missing, monotonic;
								 * 0: it was not waited for */

	/* At the last look: */
	int64		wall_us;		/* the wall clock, Unix microseconds */
	int64		next_ms;		/* start of the next ID's tick */
	int64		ahead_ms;		/* its distance from the clock's tick */
	int64		drift_ms;		/* the allowed distance */
	int64		tick_ms;

	bool		counted;		/* counted and logged as a call that sleeps */

	/*
	 * At the last sleep, with times since boot.  The caller sets all to 0
	 * first.  When it meets another obstacle than the clock, it calls
	 * sf_clock_wait_over().
	 */
	bool		asleep;
	int64		last_wall_ms;
	int64		last_boot_ms;
	bool		behind;			/* the clock is behind; false if the sequence
								 * of a tick is full */
	int64		behind_from_ms;

	/* since the wall clock last advanced as it should */
	int			slow_looks;
	int64		window_wall_ms;
	int64		window_boot_ms;
} SfDelay;

/* Note that the call's obstacle is not the clock. */
static inline void
sf_clock_wait_over(SfDelay *delay)
{
	delay->asleep = delay->behind = false;
}

extern void sf_clock_wait_explain(const SfDelay *delay);
extern void sf_clock_wait_sleep(SfDelay *delay);
extern void sf_clock_wait_refuse(const SfDelay *delay);

#endif							/* SF_GENERATOR_H */
