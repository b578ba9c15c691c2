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

/* The lock is in the counter's cache line.  Zeroed, it is not locked. */
#define COUNTER_LOCK()		SpinLockAcquire((slock_t *) (counter + 1))
#define COUNTER_UNLOCK()	SpinLockRelease((slock_t *) (counter + 1))

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

/* Also called for shards, which these builds do not use. */
static inline void
sf_counter_raise(pg_atomic_uint64 *counter, uint64 position)
{
	uint64		old = pg_atomic_read_u64(counter);

	while (old < position &&
		   !pg_atomic_compare_exchange_u64(counter, &old, position))
		;
}

#endif							/* SF_COUNTER_H */
