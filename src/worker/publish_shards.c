/*-------------------------------------------------------------------------
 *
 * publish_shards.c
 *	  The right to shards in shared memory: one word for all shards, and one
 *	  bit in each counter (shard_counter.h).
 *
 * A session that makes an ID reads the word and then swaps the counter, and
 * may sleep before, between and after.  So
 *
 * - a counter is raised to where the right begins, and then opened;
 *
 * - counters whose right is lost, or will be given back, are closed before
 *   another word is written: a session that reads that word finds them closed;
 *
 * - a word that a session has read may be used with a counter that was closed
 *   and opened since.  No word is below an earlier one (shard_lease.c ensures
 *   that), so the word is part of the right that opened the counter.
 *
 * The position of a closed counter is the last one issued: no session can swap
 * it any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "worker/lease_worker.h"

#include "base/clock.h"
#include "miscadmin.h"
#include "runtime/settings.h"
#include "runtime/shard_counter.h"

/*
 * Close the counters of all shards but these, so that no session issues for
 * them, not even one that has found its right before and swaps late.  Return
 * the last timestamp issued for a counter that was open, in ticks since the
 * epoch, or -1.
 */
int64
sf_publish_close_shards_but(const uint32 *these)
{
	int64		last = -1;

	for (uint32 i = 0; i < (uint32) sf_shmem->nshards; i++)
	{
		uint64		position;

		if (sf_ranges_has(these, i) || sf_shard_is_closed(i))
			continue;
		position = sf_shard_close(i);
		last = Max(last, (int64) (position >> sf_shard_layout.sequence_bits) -
				   sf_shard_layout.epoch_tick);
	}
	return last;
}

static void
publish_right(uint64 end)
{
	Assert(sf_shmem->leasing.status.pid == MyProcPid);	/* only the worker
														 * writes it */
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_shmem->shard_end, end);
	ConditionVariableBroadcast(&sf_shmem->leasing.changed);
}

/*
 * Open closed counters.  Counters that a new worker finds open are those of
 * the previous worker, under a right that began earlier.
 */
static void
open_shards(const SfShardRight *right, bool is_first)
{
	uint64		start = sf_shard_layout.epoch_tick + right->start;
	uint64		position = start == 0 ? 0 :
		(start << sf_shard_layout.sequence_bits) - 1;

	for (uint32 i = 0; i < (uint32) sf_shmem->nshards; i++)
	{
		if (!sf_ranges_has(right->shards, i) ||
			(!is_first && !sf_shard_is_closed(i)))
			continue;
		sf_shard_raise(i, position);
		sf_shard_open(i);
	}
}

/*
 * Publish this right, or none if it is not valid.  A worker that has had no
 * right yet does not touch what the previous worker has published: it is still
 * valid.
 */
void
sf_publish_shards(const SfShardRight *right)
{
	static SfShardRight last;
	SfLeasing  *leasing = &sf_shmem->leasing;
	static bool had = false;
	uint64		end;

	if ((!had && !right->valid) ||
		memcmp(right, &last, sizeof(SfShardRight)) == 0)
		return;
	memcpy(&last, right, sizeof(SfShardRight));
	if (!right->valid && pg_atomic_read_u64(&sf_shmem->shard_end) != 0)
	{
		pg_atomic_write_u64(&leasing->shards_since_ms,
							sf_clock_monotonic_ms());
		publish_right(0);
	}
	(void) sf_publish_close_shards_but(right->shards);
	if (!right->valid)
		return;
	open_shards(right, !had);
	had = true;
	end = sf_shard_layout.epoch_tick + right->until;
	if (pg_atomic_read_u64(&leasing->highest_shard_end) < end)
		pg_atomic_write_u64(&leasing->highest_shard_end, end);
	publish_right(end);
}
