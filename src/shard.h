/*-------------------------------------------------------------------------
 *
 * shard.h
 *	  The counters of shards: closed, where the right to issue is leased and
 *	  this server has none for the shard.
 *
 * A closed counter keeps its position, with SF_CLOSED in it, which is above
 * any cap.  So who has found his right before it was closed, and goes on late,
 * is given nothing.  The position is raised all the same, by whoever has to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARD_H
#define SF_SHARD_H

#include "state.h"

/* Without what says that it is closed. */
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

/* The first tick that this server may not issue for the shard; 0: none. */
static inline uint64
sf_shard_end(uint32 shard)
{
	if (sf_shard_is_closed(shard))
		return 0;
	pg_read_barrier();			/* of the right that opened it, or later */
	return pg_atomic_read_u64(&sf_state->shard_end);
}

/* Let nothing at or below this position be taken, now or when it is open. */
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

/* Nothing more is issued; returns the last position that was. */
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

#endif							/* SF_SHARD_H */
