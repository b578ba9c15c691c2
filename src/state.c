/*-------------------------------------------------------------------------
 *
 * state.c
 *	  Request and create the shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "state.h"

#include "clock.h"

#include "storage/ipc.h"
#include "storage/shmem.h"

#define TRANCHE "snowflake"

SfState    *sf_state = NULL;
SfDatabaseSlot *sf_databases = NULL;
SfNoted    *sf_noted = NULL;
SfWriterSlot *sf_writers = NULL;
pg_atomic_uint64 *sf_shard_counters = NULL;
pg_atomic_uint32 *sf_shard_map = NULL;

/* Where the parts lie, from the start of the allocation. */
typedef struct Parts
{
	Size		databases;
	Size		writers;
	Size		counters;
	Size		noted;
	Size		map;
	Size		total;
} Parts;

static Parts
measure(int ndatabases, int nshards, int nwriters)
{
	Parts		parts;

	parts.databases = TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(SfState));
	parts.writers = add_size(parts.databases,
							 mul_size(ndatabases, sizeof(SfDatabaseSlot)));
	parts.counters = add_size(parts.writers,
							  mul_size(nwriters, sizeof(SfWriterSlot)));
	parts.noted = add_size(parts.counters,
						   mul_size(nshards, sizeof(pg_atomic_uint64)));
	parts.map = add_size(parts.noted, mul_size(ndatabases, sizeof(SfNoted)));
	parts.total = add_size(parts.map,
						   mul_size((nshards + 31) / 32,
									sizeof(pg_atomic_uint32)));
	return parts;
}

/* To be called from the server's hook for requests. */
void
sf_state_request(int ndatabases, int nshards, int nwriters)
{
	RequestAddinShmemSpace(measure(ndatabases, nshards, nwriters).total);
	RequestNamedLWLockTranche(TRANCHE, 1);
}

static void
initialize_leasing(SfLeasing *leasing)
{
	ConditionVariableInit(&leasing->changed);
	pg_atomic_init_u64(&leasing->since_ms, 0);
	pg_atomic_init_u32(&leasing->node, 0);
	pg_atomic_init_u64(&leasing->until, 0);
	pg_atomic_init_u32(&leasing->lowest_node, 0);
	pg_atomic_init_u64(&leasing->other_until, 0);
	pg_atomic_init_u64(&leasing->closed_at, 0);
	memset(&leasing->status, 0, sizeof(SfLeaseStatus));
	pg_atomic_init_u64(&leasing->shards_since_ms, 0);
	pg_atomic_init_u64(&leasing->highest_shard_end, 0);
	memset(&leasing->shards_status, 0, sizeof(SfLeaseStatus));
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
 * What tells this life of the shared memory from all others, and from what
 * nextval() leaves in a sequence, which is at most 32.
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
initialize(int ndatabases, int nshards, int nwriters)
{
	sf_state->lock = &GetNamedLWLockTranche(TRANCHE)->lock;
	sf_state->life = make_life();
	sf_state->ndatabases = ndatabases;
	sf_state->nshards = nshards;
	sf_state->nwriters = nwriters;
	sf_state->noted_ms = 0;
	pg_atomic_init_u64(&sf_state->lease, 0);
	pg_atomic_init_u64(&sf_state->shard_end, 0);
	pg_atomic_init_u64(&sf_state->node_counter.position, 0);
	pg_atomic_init_u64(&sf_state->configured, 0);
	pg_atomic_init_u32(&sf_state->pending_node, 0);
	pg_atomic_init_u32(&sf_state->pending_datacenter, 0);
	pg_atomic_init_u64(&sf_state->boot_offset, 0);
	pg_atomic_init_u64(&sf_state->first_xid, 0);
	initialize_leasing(&sf_state->leasing);
	pg_atomic_init_u64(&sf_state->identity.server, 0);
	pg_atomic_init_u32(&sf_state->identity.copied, 0);
	pg_atomic_init_u32(&sf_state->identity.recorded, 0);
	sf_state->identity.original = 0;
	sf_state->identity.running = 0;
	sf_state->identity.primary = 0;
	ConditionVariableInit(&sf_state->desk.changed);
	sf_state->desk.worker = NULL;
	sf_state->desk.pid = 0;
	sf_state->desk.job = 0;
	pg_atomic_init_u32(&sf_state->log_interval_ms, 0);
	for (int i = 0; i < SF_EVENTS; i++)
	{
		pg_atomic_init_u64(&sf_state->events[i].due_ms, 0);
		pg_atomic_init_u64(&sf_state->events[i].left_out, 0);
	}
	initialize_stats(&sf_state->stats);

	for (int i = 0; i < ndatabases; i++)
	{
		SfDatabase *database = &sf_databases[i].database;

		database->oid = InvalidOid;
		database->attached = 0;
		LWLockInitialize(&database->lock, sf_state->lock->tranche);
		ConditionVariableInit(&database->changed);
		pg_atomic_init_u64(&database->mark, 0);
		pg_atomic_init_u64(&database->early, 0);
		sf_noted[i].oid = InvalidOid;
		sf_noted[i].mark = 0;
	}
	for (int i = 0; i < nwriters; i++)
	{
		SfWriter   *writer = &sf_writers[i].writer;

		memset(writer, 0, sizeof(SfWriter));
		pg_atomic_init_u64(&writer->node, SF_NONE);
		pg_atomic_init_u64(&writer->shard_tick, SF_NONE);
		pg_atomic_init_u32(&writer->database, InvalidOid);
		pg_atomic_init_u64(&writer->prepared_early, 0);
		pg_atomic_init_u32(&writer->changes, 0);
	}
	for (int i = 0; i < nshards; i++)
		pg_atomic_init_u64(&sf_shard_counters[i], 0);
	for (int i = 0; i < (nshards + 31) / 32; i++)
		pg_atomic_init_u32(&sf_shard_map[i], 0);
}

/*
 * To be called from the server's hook for start-up: in the postmaster, at the
 * start and after a crash of any backend, when everything starts from zero.
 */
void
sf_state_create(int ndatabases, int nshards, int nwriters)
{
	Parts		parts = measure(ndatabases, nshards, nwriters);
	bool		found;
	char	   *base;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	base = ShmemInitStruct("snowflake", parts.total, &found);
	sf_state = (SfState *) base;
	sf_databases = (SfDatabaseSlot *) (base + parts.databases);
	sf_writers = (SfWriterSlot *) (base + parts.writers);
	sf_shard_counters = (pg_atomic_uint64 *) (base + parts.counters);
	sf_noted = (SfNoted *) (base + parts.noted);
	sf_shard_map = (pg_atomic_uint32 *) (base + parts.map);
	if (!found)
		initialize(ndatabases, nshards, nwriters);
	LWLockRelease(AddinShmemInitLock);
}
