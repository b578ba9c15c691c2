/*-------------------------------------------------------------------------
 *
 * leaser_publish.c
 *	  What the worker writes into shared memory: the right, and at the end that
 *	  there is none any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "leaser.h"

#include "clock.h"
#include "counter.h"
#include "settings.h"
#include "state.h"

static void
write_word(uint64 word)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_state->lease, word);
	ConditionVariableBroadcast(&sf_state->leasing.changed);
}

/*
 * Nothing is made below the right's start; and under another node than before
 * nothing in a tick that the counter has got to, so that nobody's IDs descend.
 * What horizon.c finds is composed with regard to who may still use the other.
 */
static void
prepare_counter(const SfRight *right)
{
	SfLeasing  *leasing = &sf_state->leasing;
	pg_atomic_uint64 *counter = &sf_state->node_counter.position;
	int			bits = sf_node_layout.sequence_bits;
	uint32		last = pg_atomic_read_u32(&leasing->node);
	uint32		lowest = pg_atomic_read_u32(&leasing->lowest_node);
	uint64		start = sf_node_layout.epoch_tick + right->start;

	if (start > 0)
		sf_counter_raise(counter, (start << bits) - 1);
	if (last == right->node + 1)
		return;
	if (last != 0)
	{
		uint64		until = pg_atomic_read_u64(&leasing->until);

		write_word(0);
		if (until > pg_atomic_read_u64(&leasing->other_until))
			pg_atomic_write_u64(&leasing->other_until, until);
		sf_counter_raise(counter, (pg_atomic_read_u64(counter) + 1) |
						 sf_node_layout.sequence_mask);
	}
	if (lowest == 0 || right->node + 1 < lowest)
		pg_atomic_write_u32(&leasing->lowest_node, right->node + 1);
}

/*
 * Let sessions issue under this right, or under none if it is not valid.  A
 * worker that has not had one yet leaves alone what the one before it has
 * published: it holds, as it is.
 */
void
sf_leaser_publish(const SfRight *right)
{
	static bool had = false;
	SfLeasing  *leasing = &sf_state->leasing;
	uint64		word = 0;

	had = had || right->valid;
	if (right->valid)
		word = (uint64) right->until << sf_node_layout.node_bits | right->node;
	if (!had || word == pg_atomic_read_u64(&sf_state->lease))
		return;
	if (!right->valid)
	{
		pg_atomic_write_u64(&leasing->since_ms, sf_clock_monotonic_ms());
		write_word(0);
		return;
	}
	prepare_counter(right);
	pg_atomic_write_u32(&leasing->node, right->node + 1);
	pg_atomic_write_u64(&leasing->until, right->until);
	write_word(word);
}

/*
 * The server stops.  Let nobody issue any more, also not who has read the
 * lease before and goes on late; returns the last timestamp that was issued,
 * in ticks since the epoch.
 *
 * That is the moment in which the counter is closed.  Whoever swaps it before
 * is counted; who comes after finds nothing below any cap.
 */
int64
sf_leaser_close(void)
{
	SfLeasing  *leasing = &sf_state->leasing;
	pg_atomic_uint64 *counter = &sf_state->node_counter.position;
	uint64		position = pg_atomic_read_u64(counter);

	write_word(0);
	do
		pg_atomic_write_u64(&leasing->closed_at, position);
	while (!pg_atomic_compare_exchange_u64(counter, &position, SF_CLOSED));
	return (int64) (position >> sf_node_layout.sequence_bits) -
		sf_node_layout.epoch_tick;
}
