/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  The compare-and-swap on a counter, which only increases its position.
 *
 * A counter holds the last position issued: time and sequence as one number,
 * (tick << sequence bits) | sequence.  Each value is larger than the one it
 * replaces.  So no two calls get the same position while the shared memory
 * lives, whatever the order of other accesses.
 *
 * A counter is closed while this server has no right to issue from it.  It
 * keeps its position, with the bit SF_CLOSED in it, which is above any cap.
 * So a session that found its right before the counter was closed, and swaps
 * late, gets nothing.  A closed counter can still be raised.
 *
 * Needs only the server's atomics, so that a stress test can run it in
 * threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COUNTER_H
#define SF_COUNTER_H

#include "port/atomics.h"

/*
 * The postmaster uses atomics while backends may be killed: with a simulated
 * one it would wait for ever for a spinlock that a killed backend held.
 */
#ifdef PG_HAVE_ATOMIC_U64_SIMULATION
#error "snowflake needs 64-bit atomics, which PostgreSQL does not have on this processor (such as 32-bit ARM)"
#endif

/* Far above any real position, and far from an overflow. */
#define SF_CLOSED	(UINT64CONST(1) << 62)

/* Positions that one swap has taken. */
typedef struct SfPositionRange
{
	int64		first;
	int64		last;			/* inclusive */
} SfPositionRange;

/*
 * Take up to "want" positions, at least one, none above "cap".  They follow
 * the last position; or, if the tick "now" is later than its tick, they begin
 * at sequence "start" of "now".  Return false if the cap leaves none.  Add the
 * number of lost races to *retries.
 */
static pg_always_inline bool
sf_counter_take(pg_atomic_uint64 *counter, int sequence_bits, int64 now,
				int64 start, int64 want, int64 cap, SfPositionRange *range,
				uint64 *retries)
{
	uint64		old = pg_atomic_read_u64(counter);

	for (;;)
	{
		/* a tick that a carry opens begins at sequence zero, not at "start" */
		range->first = (int64) old + 1;
		if (now > (int64) (old >> sequence_bits))
			range->first = (now << sequence_bits) + start;
		if (unlikely(range->first > cap))
			return false;
		range->last = Min(range->first + want - 1, cap);
		if (likely(pg_atomic_compare_exchange_u64(counter, &old,
												  (uint64) range->last)))
			return true;
		(*retries)++;
	}
}

/* Return the last position issued, also if the counter is closed. */
static inline uint64
sf_counter_position(pg_atomic_uint64 *counter)
{
	return pg_atomic_read_u64(counter) & ~SF_CLOSED;
}

static inline bool
sf_counter_is_closed(pg_atomic_uint64 *counter)
{
	return (pg_atomic_read_u64(counter) & SF_CLOSED) != 0;
}

/*
 * Raise an open or closed counter, so that no position up to this one is taken
 * any more.
 */
static inline void
sf_counter_raise(pg_atomic_uint64 *counter, uint64 position)
{
	uint64		old = pg_atomic_read_u64(counter);

	while ((old & ~SF_CLOSED) < position &&
		   !pg_atomic_compare_exchange_u64(counter, &old,
										   position | (old & SF_CLOSED)))
		;
}

/* Close the counter.  Return the last position that was issued. */
static inline uint64
sf_counter_close(pg_atomic_uint64 *counter)
{
	return pg_atomic_fetch_or_u64(counter, SF_CLOSED) & ~SF_CLOSED;
}

static inline void
sf_counter_open(pg_atomic_uint64 *counter)
{
	(void) pg_atomic_fetch_and_u64(counter, ~SF_CLOSED);
}

#endif							/* SF_COUNTER_H */
