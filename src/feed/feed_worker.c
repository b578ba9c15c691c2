/*-------------------------------------------------------------------------
 *
 * feed_worker.c
 *	  The workers that publish this server's horizons, one for each database in
 *	  snowflake.feed_databases.
 *
 * A worker begins when recovery has ended, so also at a promotion.  If it
 * fails, another one is started.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "feed/feed.h"

#include "access/relation.h"
#include "access/xact.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/* A worker whose database is gone logs an error each time. */
#define RESTART_S	60

extern PGDLLEXPORT void snowflake_feed_worker_main(Datum arg);

static uint32 wait_event_feed = 0;

/* ---- the worker ---- */

/*
 * Publish, if there is an extension and a table.  Return false if a layout has
 * no slot yet, and was left out.
 */
static bool
publish(SfLayout *missing)
{
	Relation	table = sf_feed_open(SF_FEED_WRITE_LOCK,
									 ACL_NO_RIGHTS);
	bool		all;

	if (table == NULL)
		return true;
	PushActiveSnapshot(GetTransactionSnapshot());
	all = sf_feed_go_on(table, missing);
	PopActiveSnapshot();
	relation_close(table, NoLock);
	return all;
}

/* Log an error, but none of the kind that was the last. */
static void
log_error(int *last)
{
	int			code = geterrcode();

	if (code != *last)
		EmitErrorReport();
	*last = code;
	FlushErrorState();
}

/* Publish in a transaction of its own. */
static void
try_publish(void)
{
	static int	last = 0;

	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "snowflake_publish_horizon()");
	PG_TRY();
	{
		SfLayout	missing;
		bool		all;

		StartTransactionCommand();
		all = publish(&missing);
		CommitTransactionCommand();
		if (!all)
		{
			/* the others are published, also if there is none */
			StartTransactionCommand();
			(void) sf_layout_slot_of(&missing);
			CommitTransactionCommand();
		}
		last = 0;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		log_error(&last);
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
}

void
snowflake_feed_worker_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(MyBgworkerEntry->bgw_extra, NULL, 0);
	/* also where others read only, and wait for a safe snapshot */
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET,
					PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	for (;;)
	{
		try_publish();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 sf_feed_interval,
						 sf_wait_event(&wait_event_feed, "SnowflakeFeed"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}

/* ---- server start ---- */

/* Return true if a worker publishes in this database. */
bool
sf_feed_has_worker(void)
{
	return list_member(sf_settings_feed_databases(),
					   makeString(get_database_name(MyDatabaseId)));
}

static void
register_worker(const char *database)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "snowflake feed");
	snprintf(worker.bgw_type, BGW_MAXLEN, "snowflake feed");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_S;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "snowflake");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "snowflake_feed_worker_main");
	strlcpy(worker.bgw_extra, database, sizeof(worker.bgw_extra));
	RegisterBackgroundWorker(&worker);
}

/* Register the workers, while shared_preload_libraries is processed. */
void
sf_feed_at_load(void)
{
	ListCell   *cell;

	if (IsBinaryUpgrade)
		return;
	foreach(cell, sf_settings_feed_databases())
		register_worker(strVal(lfirst(cell)));
}
