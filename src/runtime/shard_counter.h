/*-------------------------------------------------------------------------
 *
 * shard_counter.h
 *	  Counters of shards.  With leases, a counter is closed (counter.h) while
 *	  this server has no right to issue for its shard.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_COUNTER_H
#define SF_SHARD_COUNTER_H

#include "runtime/counter.h"
#include "runtime/shmem.h"

/* Return the last position, also if the counter is closed. */
static inline uint64
sf_shard_position(uint32 shard)
{
	return sf_counter_position(&sf_shard_counters[shard]);
}

static inline bool
sf_shard_is_closed(uint32 shard)
{
	return sf_counter_is_closed(&sf_shard_counters[shard]);
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

static inline void
sf_shard_raise(uint32 shard, uint64 position)
{
	sf_counter_raise(&sf_shard_counters[shard], position);
}

/* Close the counter.  Return the last position that was issued. */
static inline uint64
sf_shard_close(uint32 shard)
{
	return sf_counter_close(&sf_shard_counters[shard]);
}

static inline void
sf_shard_open(uint32 shard)
{
	sf_counter_open(&sf_shard_counters[shard]);
}

#endif							/* SF_SHARD_COUNTER_H */
