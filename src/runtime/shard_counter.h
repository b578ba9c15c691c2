/*-------------------------------------------------------------------------
 *
 * shard_counter.h
 *	  Counters of shards.  A counter is closed (counter.h) while
 *	  snowflake.shards does not list its shard.
 *
 * Only the postmaster opens and closes counters: when the shared memory is
 * new, and at a reload.  A session that swaps after that, however long it
 * slept before, gets nothing.  So the position of a closed counter is at or
 * above the last one that this server has issued for the shard in this life.
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

/* Return true if this server may issue for this shard. */
static inline bool
sf_shard_is_open(uint32 shard)
{
	return !sf_counter_is_closed(&sf_shard_counters[shard]);
}

/* Return true if a reload has removed the shard in this life. */
static inline bool
sf_shard_is_removed(uint32 shard)
{
	return (pg_atomic_read_u32(&sf_shards_removed[shard / 32]) >>
			(shard % 32)) & 1;
}

static inline void
sf_shard_raise(uint32 shard, uint64 position)
{
	sf_counter_raise(&sf_shard_counters[shard], position);
}

#endif							/* SF_SHARD_COUNTER_H */
