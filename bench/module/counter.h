/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  A counter under a lock, to compare it with the compare-and-swap.
 *
 * bench/run builds the extension twice with this file in place of
 * src/runtime/counter.h: with BENCH_SPINLOCK, and without.  Measure only the
 * node's IDs with it: a shard's counter has no room for a spinlock behind it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COUNTER_H
#define SF_COUNTER_H

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#ifdef BENCH_SPINLOCK

/*
 * The lock is in the counter's cache line, behind the other members of its
 * slot.  The bytes there are zero at first, which is a lock that nobody holds.
 */
#define COUNTER_SPINLOCK	((slock_t *) (counter + 7))
#define COUNTER_LOCK()		SpinLockAcquire(COUNTER_SPINLOCK)
#define COUNTER_UNLOCK()	SpinLockRelease(COUNTER_SPINLOCK)

#else

/* Return the lock that bench.c has requested. */
static inline LWLock *
counter_lock(void)
{
	static LWLock *lock = NULL;

	if (unlikely(lock == NULL))
		lock = &GetNamedLWLockTranche("snowflake_bench")->lock;
	return lock;
}

#define COUNTER_LOCK()		LWLockAcquire(counter_lock(), LW_EXCLUSIVE)
#define COUNTER_UNLOCK()	LWLockRelease(counter_lock())

#endif

#define SF_CLOSED	(UINT64CONST(1) << 62)

typedef struct SfPositionRange
{
	int64		first;
	int64		last;			/* inclusive */
} SfPositionRange;

static pg_always_inline bool
sf_counter_take(pg_atomic_uint64 *counter, int sequence_bits, int64 now,
				int64 start, int64 want, int64 cap, SfPositionRange *range,
				uint64 *retries)
{
	uint64		old;

	COUNTER_LOCK();
	old = pg_atomic_read_u64(counter);
	range->first = (int64) old + 1;
	if (now > (int64) (old >> sequence_bits))
		range->first = (now << sequence_bits) + start;
	if (unlikely(range->first > cap))
	{
		COUNTER_UNLOCK();
		return false;
	}
	range->last = Min(range->first + want - 1, cap);
	pg_atomic_write_u64(counter, (uint64) range->last);
	COUNTER_UNLOCK();
	return true;
}

/* From here on the file is the same as src/runtime/counter.h. */

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
