/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  The compare-and-swap: a counter only grows, and only by this.
 *
 * A counter holds the last position issued: time and sequence as one number,
 * (tick << sequence bits) | sequence.  Each value replaces the one before it
 * by a larger one, so no two calls get one position while the shared memory
 * lives; that needs no order between any other words.
 *
 * Needs no server but its atomics, so that threads can be let loose on it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COUNTER_H
#define SF_COUNTER_H

#include "port/atomics.h"

/*
 * Ask for the counter's cache line before it is needed, and to write to it.
 * Where several processes take at a time it goes back and forth between
 * processors: twice for each call if it is first read.
 */
static inline void
sf_counter_fetch(pg_atomic_uint64 *counter)
{
#if defined(__x86_64__) && defined(__GNUC__)
	__asm__ volatile ("prefetchw %0"::"m" (*counter));
#endif
}

/* Positions that were taken. */
typedef struct SfRun
{
	int64		first;
	int64		last;			/* inclusive */
} SfRun;

/*
 * Take up to want positions, at least one, none above cap: those after the
 * last one, or, if the tick now is later than that one's, from start in it.
 * False if there is none.  Adds how often somebody else was faster to retries.
 */
static pg_always_inline bool
sf_counter_take(pg_atomic_uint64 *counter, int sequence_bits, int64 now,
				int64 start, int64 want, int64 cap, SfRun *run,
				uint64 *retries)
{
	uint64		old = pg_atomic_read_u64(counter);

	for (;;)
	{
		/* a carry opens a tick at zero, a call where it starts */
		run->first = (int64) old + 1;
		if (now > (int64) (old >> sequence_bits))
			run->first = (now << sequence_bits) + start;
		if (unlikely(run->first > cap))
			return false;
		run->last = Min(run->first + want - 1, cap);
		if (likely(pg_atomic_compare_exchange_u64(counter, &old,
												  (uint64) run->last)))
			return true;
		(*retries)++;
	}
}

/* Let nothing at or below this position be taken any more. */
static inline void
sf_counter_raise(pg_atomic_uint64 *counter, uint64 position)
{
	uint64		old = pg_atomic_read_u64(counter);

	while (old < position &&
		   !pg_atomic_compare_exchange_u64(counter, &old, position))
		;
}

#endif							/* SF_COUNTER_H */
