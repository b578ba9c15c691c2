/*-------------------------------------------------------------------------
 *
 * publish_node.c
 *	  The node's right in shared memory: published, and withdrawn at the end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "worker/lease_worker.h"

#include "base/clock.h"
#include "runtime/counter.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

static void
publish_right(uint64 word)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_shmem->lease, word);
	ConditionVariableBroadcast(&sf_shmem->leasing.changed);
}

/*
 * Prepare the counter: no ID is made below the right's start.  If the node has
 * changed, no ID is made in a tick that the counter has reached, so that no
 * session's IDs descend. horizon.c considers sessions that may still use the
 * other node.
 */
static void
prepare_counter(const SfRight *right)
{
	SfLeasing  *leasing = &sf_shmem->leasing;
	pg_atomic_uint64 *counter = &sf_shmem->node_counter.position;
	int			bits = sf_node_layout.sequence_bits;
	SfServerNumber node = sf_server_number_of(right->node);
	SfServerNumber last = pg_atomic_read_u32(&leasing->node);
	SfServerNumber lowest = pg_atomic_read_u32(&leasing->lowest_node);
	uint64		start = sf_node_layout.epoch_tick + right->start;

	if (start > 0)
		sf_counter_raise(counter, (start << bits) - 1);
	if (last == node)
		return;
	if (last != SF_NO_NUMBER)
	{
		uint64		until = pg_atomic_read_u64(&leasing->until);

		publish_right(0);
		if (until > pg_atomic_read_u64(&leasing->other_until))
			pg_atomic_write_u64(&leasing->other_until, until);
		sf_counter_raise(counter, (pg_atomic_read_u64(counter) + 1) |
						 sf_node_layout.sequence_mask);
	}
	if (lowest == SF_NO_NUMBER || node < lowest)
		pg_atomic_write_u32(&leasing->lowest_node, node);
}

/*
 * Publish this right, or none if it is not valid.  A worker that has had no
 * right yet does not touch what the previous worker has published: it is still
 * valid.
 */
void
sf_publish_node(const SfRight *right)
{
	static bool had = false;
	SfLeasing  *leasing = &sf_shmem->leasing;
	uint64		word = 0;

	had = had || right->valid;
	if (right->valid)
		word = (uint64) right->until << sf_node_layout.node_bits | right->node;
	if (!had || word == pg_atomic_read_u64(&sf_shmem->lease))
		return;
	if (!right->valid)
	{
		pg_atomic_write_u64(&leasing->since_ms, sf_clock_monotonic_ms());
		publish_right(0);
		return;
	}
	prepare_counter(right);
	pg_atomic_write_u32(&leasing->node, sf_server_number_of(right->node));
	pg_atomic_write_u64(&leasing->until, right->until);
	publish_right(word);
}

/*
 * Close the counter when the server stops, so that no session issues any more,
 * not even one that has read the lease before and swaps late.  Return the last
 * timestamp that was issued, in ticks since the epoch.
 *
 * The moment of the swap decides: an earlier swap of a session is counted, and
 * a later one finds nothing below its cap.
 */
int64
sf_publish_close_node(void)
{
	SfLeasing  *leasing = &sf_shmem->leasing;
	pg_atomic_uint64 *counter = &sf_shmem->node_counter.position;
	uint64		position = pg_atomic_read_u64(counter);

	publish_right(0);
	do
		pg_atomic_write_u64(&leasing->closed_at, position);
	while (!pg_atomic_compare_exchange_u64(counter, &position, SF_CLOSED));
	return (int64) (position >> sf_node_layout.sequence_bits) -
		sf_node_layout.epoch_tick;
}
