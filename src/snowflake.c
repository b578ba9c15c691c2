/*-------------------------------------------------------------------------
 *
 * snowflake.c
 *	  What happens when the library is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "clock.h"
#include "fault.h"
#include "fmgr.h"
#include "identity.h"
#include "leased.h"
#include "leaser.h"
#include "miscadmin.h"
#include "node.h"
#include "note.h"
#include "seqsync.h"
#include "settings.h"
#include "state.h"
#include "stats.h"
#include "storage/ipc.h"
#include "timequal.h"
#include "writer.h"

SF_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static int
count_shards(void)
{
	return 1 << sf_shard_layout.field[SF_SHARD].width;
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	sf_state_request(sf_max_databases, count_shards(), MaxBackends);
}

static void
create_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	sf_state_create(sf_max_databases, count_shards(), MaxBackends);
	if (IsUnderPostmaster)
		return;
	sf_settings_publish();
	sf_leased_close_shards();
	sf_node_take_at_start();
	sf_identity_at_start();
	sf_note_at_start();
}

/*
 * Without preload there is neither shared memory nor a setting; functions
 * with an explicit layout work, and the others say what to do.
 */
void
_PG_init(void)
{
	sf_timequal_install();

	if (!process_shared_preload_libraries_in_progress)
	{
		sf_settings_define_planner();
		return;
	}

	sf_clock_start();
	sf_settings_define();
	sf_fault_define();
	sf_writer_register();
	sf_stats_register();
	sf_seqsync_register();
	sf_leaser_register();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}
