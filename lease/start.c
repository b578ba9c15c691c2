/*-------------------------------------------------------------------------
 *
 * start.c
 *	  Start of the library: the core calls it where snowflake.registry is set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "lease/lease_worker.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

SF_MODULE_MAGIC("snowflake_lease");

extern PGDLLEXPORT void snowflake_lease_start(const SfRightAccess *access);

const SfRightAccess *sf_core = NULL;
SfLeaseShared *sf_lease_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(sizeof(SfLeaseShared));
}

static void
create_shared_memory(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	sf_lease_shared = ShmemInitStruct(SF_LEASE_LIBRARY, sizeof(SfLeaseShared),
									  &found);
	if (!found)
	{
		memset(sf_lease_shared, 0, sizeof(SfLeaseShared));
		pg_atomic_init_u64(&sf_lease_shared->promised_ms, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Take what the core offers, and register the worker.  The core calls this
 * while shared_preload_libraries is processed.  Where it does not, nothing is
 * leased; but a session may load the library for a function of its SQL.
 */
void
snowflake_lease_start(const SfRightAccess *access)
{
	if (strcmp(access->version, SF_RIGHT_VERSION) != 0 ||
		access->size != SF_RIGHT_SIZE)
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("libraries \"snowflake\" and \"%s\" are not of one build",
						SF_LEASE_LIBRARY),
				 errdetail("The first one is of %s, the second one of %s.",
						   access->version, SF_RIGHT_VERSION),
				 errhint("Install both from one package; or run make clean, make and make install in one copy of the sources. Then start the server.")));
	sf_core = access;
	sf_lease_worker_register();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}
