/*-------------------------------------------------------------------------
 *
 * snowflake.c
 *	  Library load: hooks, settings, the library that leases.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "base/clock.h"
#include "base/fault.h"
#include "feed/feed.h"
#include "fmgr.h"
#include "generate/pending.h"
#include "identity/identity.h"
#include "mark/mark.h"
#include "miscadmin.h"
#include "query/query.h"
#include "runtime/audit.h"
#include "runtime/counts.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

SF_MODULE_MAGIC("snowflake");

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	sf_shmem_request();
	RequestAddinShmemSpace(add_size(sf_db_slots_size(), sf_pending_size()));
}

static void
create_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	sf_shmem_create();
	sf_db_slots_create();
	sf_pending_create();
	if (IsUnderPostmaster)
		return;
	sf_layout_slots_begin();
	sf_settings_publish();
	sf_node_take_at_start();
	sf_shutdown_file_at_start();
	sf_identity_at_start();
}

/*
 * Set up the library.  Without preload there is no shared memory and only one
 * setting: functions with an explicit layout work, and the others throw an
 * error with the remedy.
 */
void
_PG_init(void)
{
	sf_planner_hook_install();

	if (!process_shared_preload_libraries_in_progress)
	{
		sf_settings_define_planner();
		return;
	}

	sf_clock_start();
	sf_fault_define();			/* before the prefix is reserved */
	sf_settings_define();
	/* at a transaction's end the server calls the last one of these first */
	sf_stats_register();
	sf_audit_register();
	sf_pending_register();
	sf_sequence_sync_install();
	sf_right_at_load();
	sf_feed_at_load();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared_memory;
}
