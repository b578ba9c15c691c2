/*-------------------------------------------------------------------------
 *
 * shmem.c
 *	  Request and creation of the shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "runtime/shmem.h"

#include "base/clock.h"
#include "runtime/settings.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define TRANCHE "snowflake"

SfShmem    *sf_shmem = NULL;
SfLayoutSlot *sf_layout_slots = NULL;
pg_atomic_uint64 *sf_shard_counters = NULL;
pg_atomic_uint32 *sf_shards_removed = NULL;

/* Offsets of the parts within the allocation. */
typedef struct Parts
{
	Size		layouts;
	Size		counters;
	Size		removed;
	Size		total;
} Parts;

static int
count_shards(void)
{
	return 1 << sf_shard_layout.field[SF_SHARD].width;
}

static int
count_layouts(void)
{
	return sf_max_layouts + sf_nother_layouts + sf_npresets;
}

static Parts
measure(void)
{
	Parts		parts;

	parts.layouts = TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SfShmem));
	parts.counters = add_size(parts.layouts,
							  mul_size(count_layouts(),
									   sizeof(SfLayoutSlot)));
	parts.removed = add_size(parts.counters,
							 mul_size(count_shards(),
									  sizeof(pg_atomic_uint64)));
	parts.total = add_size(parts.removed,
						   mul_size((count_shards() + 31) / 32,
									sizeof(pg_atomic_uint32)));
	return parts;
}

/* Request the memory.  Call this from the server's hook for requests. */
void
sf_shmem_request(void)
{
	RequestAddinShmemSpace(measure().total);
	RequestNamedLWLockTranche(TRANCHE, 1);
}

static void
initialize_leasing(SfLeasing *leasing)
{
	ConditionVariableInit(&leasing->changed);
	pg_atomic_init_u64(&leasing->since_ms, 0);
	pg_atomic_init_u32(&leasing->node, SF_NO_NUMBER);
	pg_atomic_init_u64(&leasing->until, 0);
	pg_atomic_init_u32(&leasing->lowest_node, SF_NO_NUMBER);
	pg_atomic_init_u64(&leasing->other_until, 0);
	memset(&leasing->status, 0, sizeof(SfLeaseStatus));
}

static void
initialize_stats(SfStats *stats)
{
	for (int i = 0; i < SF_STATS; i++)
		pg_atomic_init_u64(&stats->sum[i], 0);
	for (int i = 0; i < SF_PEAKS; i++)
		pg_atomic_init_u64(&stats->peak[i], 0);
	pg_atomic_init_u64(&stats->reset_ms, sf_clock_wall_ms());
	pg_atomic_init_u64(&stats->since_ms, sf_clock_monotonic_ms());
	pg_atomic_init_u64(&stats->refused_ms, 0);
	pg_atomic_init_u64(&stats->offset_ms, 0);
	pg_atomic_init_u64(&stats->seen_ms, 0);
}

/*
 * Draw the stamp of this life.  It differs from those of all other lives, and
 * from log_cnt as nextval() leaves it in a sequence, which is at most 32.
 */
static int64
make_life(void)
{
	uint64		random;

	if (!pg_strong_random(&random, sizeof(random)))
		return 0;
	return (int64) ((random >> 2) | (UINT64CONST(1) << 61));
}

static void
initialize_shmem(void)
{
	sf_shmem->lock = &GetNamedLWLockTranche(TRANCHE)->lock;
	sf_shmem->life = make_life();
	sf_shmem->nlayouts = count_layouts();
	Assert(sf_npresets <= SF_MAX_PRESETS);
	sf_shmem->nshards = count_shards();
	sf_shmem->shutdown_life = 0;
	sf_shmem->shutdown_ms = 0;
	pg_atomic_init_u64(&sf_shmem->right, 0);
	pg_atomic_init_u32(&sf_shmem->layouts_used, 0);
	pg_atomic_init_u64(&sf_shmem->raised_ms, 0);
	pg_atomic_init_u64(&sf_shmem->configured, 0);
	pg_atomic_init_u64(&sf_shmem->pending, 0);
	pg_atomic_init_u32(&sf_shmem->refusals, 0);
	memset(sf_shmem->refused, 0, sizeof(sf_shmem->refused));
	pg_atomic_init_u64(&sf_shmem->boot_offset, 0);
	pg_atomic_init_u64(&sf_shmem->least_past, 0);
	pg_atomic_init_u64(&sf_shmem->first_xid, 0);
	initialize_leasing(&sf_shmem->leasing);
	pg_atomic_init_u64(&sf_shmem->identity.server, 0);
	pg_atomic_init_u64(&sf_shmem->identity.node, SF_NO_NUMBER);
	pg_atomic_init_u32(&sf_shmem->identity.shards, SF_SHARDS_OWN);
	pg_atomic_init_u64(&sf_shmem->identity.tried_ms, 0);
	pg_atomic_init_u64(&sf_shmem->identity.looked_ms, 0);
	sf_shmem->identity.original = SF_NO_NUMBER;
	sf_shmem->identity.segment = 0;
	sf_shmem->identity.namespace = 0;
	sf_shmem->identity.file = 0;
	for (int i = 0; i < SF_SHARDS_WORDS; i++)
		pg_atomic_init_u32(&sf_shmem->identity.held_shards[i], 0);
	pg_atomic_init_u32(&sf_shmem->log_interval_ms, 0);
	for (int i = 0; i < SF_EVENTS; i++)
	{
		pg_atomic_init_u64(&sf_shmem->events[i].due_ms, 0);
		pg_atomic_init_u64(&sf_shmem->events[i].left_out, 0);
	}
	pg_atomic_init_u64(&sf_shmem->shard_layout_ends.due_ms, 0);
	pg_atomic_init_u64(&sf_shmem->shard_layout_ends.left_out, 0);
	initialize_stats(&sf_shmem->stats);

	for (int i = 0; i < sf_shmem->nlayouts; i++)
	{
		SfLayoutCounter *layout = &sf_layout_slots[i].layout;

		pg_atomic_init_u64(&layout->counter, 0);
		layout->code = 0;
		layout->epoch_ms = 0;
		pg_atomic_init_u64(&layout->ids, 0);
		pg_atomic_init_u64(&layout->ends.due_ms, 0);
		pg_atomic_init_u64(&layout->ends.left_out, 0);
	}
	for (int i = 0; i < sf_shmem->nshards; i++)
		pg_atomic_init_u64(&sf_shard_counters[i], SF_CLOSED);
	for (int i = 0; i < (sf_shmem->nshards + 31) / 32; i++)
		pg_atomic_init_u32(&sf_shards_removed[i], 0);
}

/*
 * Create a part of the memory, or find it.  Only the postmaster creates it,
 * alone, so it can be filled in without a lock.
 */
void *
sf_shmem_create_part(const char *name, Size size, bool *found)
{
	void	   *part;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	part = ShmemInitStruct(name, size, found);
	LWLockRelease(AddinShmemInitLock);
	return part;
}

/*
 * Create the memory.  Call this from the server's hook for start-up: in the
 * postmaster at the start, and after the crash of any backend, when everything
 * begins at zero.
 */
void
sf_shmem_create(void)
{
	Parts		parts = measure();
	bool		found;
	char	   *base = sf_shmem_create_part("snowflake", parts.total, &found);

	sf_shmem = (SfShmem *) base;
	sf_layout_slots = (SfLayoutSlot *) (base + parts.layouts);
	sf_shard_counters = (pg_atomic_uint64 *) (base + parts.counters);
	sf_shards_removed = (pg_atomic_uint32 *) (base + parts.removed);
	if (!found)
		initialize_shmem();
}
