/*-------------------------------------------------------------------------
 *
 * leaser_publish_shards.c
 *	  What the worker writes into shared memory: until when this server may
 *	  issue for shards, and for which.
 *
 * That is one word for all of them, and one bit in each counter (shard.h).  A
 * session that makes an ID reads the word and then swaps the counter, and may
 * sleep before, between and after; so
 *
 * - a counter is raised to where the right begins, and then opened,
 *
 * - those of which the right is lost, or is to be given back, are closed
 *   before another word is written: who reads that finds them closed;
 *
 * - a word that was read may be used with a counter that was closed and opened
 *   since.  No word is below one that was written before (shard_lease.c sees
 *   to that), so it is a part of the right that opened the counter.
 *
 * The position of a closed counter is the last that was issued: nobody can
 * swap it any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "leaser.h"

#include "clock.h"
#include "settings.h"
#include "shard.h"

/*
 * Let nobody issue for any shard but these any more, also not who has found
 * his right before and goes on late.  Returns the last timestamp that was
 * issued for one which was open, in ticks since the epoch, or -1.
 */
int64
sf_leaser_close_shards_but(const uint32 *these)
{
	int64		last = -1;

	for (uint32 i = 0; i < (uint32) sf_state->nshards; i++)
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
write_word(uint64 end)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_state->shard_end, end);
	ConditionVariableBroadcast(&sf_state->leasing.changed);
}

/*
 * Open what is closed.  What a worker finds open is what the one before it has
 * left, under a right that began earlier.
 */
static void
open_shards(const SfShardRight *right, bool is_first)
{
	uint64		start = sf_shard_layout.epoch_tick + right->start;
	uint64		position = start == 0 ? 0 :
		(start << sf_shard_layout.sequence_bits) - 1;

	for (uint32 i = 0; i < (uint32) sf_state->nshards; i++)
	{
		if (!sf_ranges_has(right->shards, i) ||
			(!is_first && !sf_shard_is_closed(i)))
			continue;
		sf_shard_raise(i, position);
		sf_shard_open(i);
	}
}

/*
 * Let sessions issue under this right, or under none if it is not valid.  A
 * worker that has not had one yet leaves alone what the one before it has
 * published: it holds, as it is.
 */
void
sf_leaser_publish_shards(const SfShardRight *right)
{
	static SfShardRight last;
	SfLeasing  *leasing = &sf_state->leasing;
	static bool had = false;
	uint64		end;

	if ((!had && !right->valid) ||
		memcmp(right, &last, sizeof(SfShardRight)) == 0)
		return;
	memcpy(&last, right, sizeof(SfShardRight));
	if (!right->valid && pg_atomic_read_u64(&sf_state->shard_end) != 0)
	{
		pg_atomic_write_u64(&leasing->shards_since_ms,
							sf_clock_monotonic_ms());
		write_word(0);
	}
	(void) sf_leaser_close_shards_but(right->shards);
	if (!right->valid)
		return;
	open_shards(right, !had);
	had = true;
	end = sf_shard_layout.epoch_tick + right->until;
	if (pg_atomic_read_u64(&leasing->highest_shard_end) < end)
		pg_atomic_write_u64(&leasing->highest_shard_end, end);
	write_word(end);
}
