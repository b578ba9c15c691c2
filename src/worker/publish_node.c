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
#include "base/fault.h"
#include "miscadmin.h"
#include "runtime/layout_slot.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"

static void
publish_right(uint64 word)
{
	Assert(sf_shmem->leasing.status.pid == MyProcPid);	/* only the worker
														 * writes it */
	pg_memory_barrier();
	pg_atomic_write_u64(&sf_shmem->lease, word);
	ConditionVariableBroadcast(&sf_shmem->leasing.changed);
}

/*
 * Prepare the counters: no ID is made below the right's start.  If the node
 * has changed, no ID is made in a tick that a counter has reached, so that no
 * session's IDs descend. horizon.c considers sessions that may still use the
 * other node.
 *
 * Write the nodes before the ticks end.  A reader that finds a counter in the
 * new tick then also finds the new node, and composes no horizon there with
 * the other one, which may be higher (sf_lease_wait_lowest()).
 */
static void
prepare_counters(const SfRight *right)
{
	SfLeasing  *leasing = &sf_shmem->leasing;
	SfServerNumber node = sf_server_number_of(right->node);
	SfServerNumber last = pg_atomic_read_u32(&leasing->node);
	SfServerNumber lowest = pg_atomic_read_u32(&leasing->lowest_node);
	int64		start = sf_node_layout.epoch_tick + (int64) right->start;

	sf_layout_slots_raise(start * sf_node_layout.tick_ms);
	if (last == node)
		return;
	if (last != SF_NO_NUMBER)
	{
		uint64		until = pg_atomic_read_u64(&leasing->until);

		publish_right(0);
		if (until > pg_atomic_read_u64(&leasing->other_until))
			pg_atomic_write_u64(&leasing->other_until, until);
	}
	if (lowest == SF_NO_NUMBER || node < lowest)
		pg_atomic_write_u32(&leasing->lowest_node, node);
	pg_write_barrier();			/* the lowest node before the last one */
	pg_atomic_write_u32(&leasing->node, node);

	/*
	 * A session that takes a slot finds the nodes above, or we find its slot.
	 */
	pg_memory_barrier();
	if (last != SF_NO_NUMBER)
		sf_layout_slots_end_ticks();
	SF_FAULT("ticks-ended");
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
	prepare_counters(right);
	pg_atomic_write_u64(&leasing->until, right->until);
	publish_right(word);
}

/*
 * Withdraw the right when the server stops, and close the counters, so that no
 * session issues any more.  Return the last timestamp that was issued, in
 * ticks since the epoch.
 */
int64
sf_publish_close_node(void)
{
	int64		end_ms;

	publish_right(0);
	end_ms = sf_layout_slots_close();
	return sf_layout_ms_to_tick(&sf_node_layout, end_ms - 1) -
		sf_node_layout.epoch_tick;
}
