/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  A counter under a lock, to compare it with the compare-and-swap.
 *
 * bench/run builds the extension twice with this file in place of
 * src/runtime/counter.h, which it names counter_swap.h: with BENCH_SPINLOCK,
 * and without.  Measure only the node's IDs with it: a shard's counter has no
 * room for a spinlock behind it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

/* All but the swap stays as it is. */
#define sf_counter_take sf_counter_swap
#include "runtime/counter_swap.h"
#undef sf_counter_take

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

#endif							/* BENCH_COUNTER_H */
