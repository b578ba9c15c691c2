/*-------------------------------------------------------------------------
 *
 * shard_counter.h
 *	  Counters of shards.  With leases, a counter is closed while this server
 *	  has no right to issue for its shard.
 *
 * A closed counter keeps its position, with the bit SF_CLOSED in it, which is
 * above any cap.  So a session that found its right before the counter was
 * closed, and swaps late, gets nothing.  A closed counter can still be raised.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_COUNTER_H
#define SF_SHARD_COUNTER_H

#include "runtime/shmem.h"

/* Return the position without the bit that says "closed". */
static inline uint64
sf_shard_position(uint32 shard)
{
	return pg_atomic_read_u64(&sf_shard_counters[shard]) & ~SF_CLOSED;
}

static inline bool
sf_shard_is_closed(uint32 shard)
{
	return (pg_atomic_read_u64(&sf_shard_counters[shard]) & SF_CLOSED) != 0;
}

/* Return the end of the right to this shard, a tick; 0: no right. */
static inline uint64
sf_shard_end(uint32 shard)
{
	if (sf_shard_is_closed(shard))
		return 0;
	pg_read_barrier();			/* read the right that opened it, or a later
								 * one */
	return pg_atomic_read_u64(&sf_shmem->shard_end);
}

/* Raise an open or closed counter: no position up to this one is taken. */
static inline void
sf_shard_raise(uint32 shard, uint64 position)
{
	pg_atomic_uint64 *counter = &sf_shard_counters[shard];
	uint64		old = pg_atomic_read_u64(counter);

	while ((old & ~SF_CLOSED) < position &&
		   !pg_atomic_compare_exchange_u64(counter, &old,
										   position | (old & SF_CLOSED)))
		;
}

/* Close the counter.  Return the last position that was issued. */
static inline uint64
sf_shard_close(uint32 shard)
{
	return pg_atomic_fetch_or_u64(&sf_shard_counters[shard], SF_CLOSED) &
		~SF_CLOSED;
}

static inline void
sf_shard_open(uint32 shard)
{
	(void) pg_atomic_fetch_and_u64(&sf_shard_counters[shard], ~SF_CLOSED);
}

#endif							/* SF_SHARD_COUNTER_H */
