/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of an audited database: writes the records of its
 *	  ring into snowflake_audit_log.
 *
 * A batch is one transaction, which also writes into snowflake_audit_state how
 * far it has come in which ring.  The records are released after its commit.
 * If the worker ends in between, the next worker finds there what is written,
 * so no record is written twice.
 *
 * All that the worker runs in the database runs as the owner of the log, in an
 * operation that cannot switch to any other role: triggers of the log are the
 * owner's code.  A transaction that takes longer than TIMEOUT_MS ends in an
 * error.  So a slow disk keeps neither the shutdown of the server nor DROP
 * DATABASE waiting for long.  After an error another worker begins, 5 s later,
 * and 5 s more after each further one.  Sessions never wait for the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "ring.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "worker.sql.inc"

#define RESTART_S		5
#define MAX_PAUSE_S		55		/* in addition, after errors in a row */
#define ROUND_MS		1000	/* between two looks at the ring */
#define BATCH			1000	/* records of one transaction */
#define TIMEOUT_MS		30000	/* of one transaction */
#define MAINTAIN_MS		3600000 /* between two looks at the partitions */

extern PGDLLEXPORT void snowflake_audit_worker_main(Datum arg);

static SfRing *ring;

/* The day, since 2000, whose partition this worker has seen, in which log. */
static int64 known_day = PG_INT64_MIN;
static Oid	known_log = InvalidOid;

/* Where the log is; valid in one transaction. */
typedef struct Log
{
	char	   *audit;			/* schemas of the two extensions, quoted */
	char	   *snowflake;
	Oid			oid;
	Oid			owner;
	int			guc_level;
} Log;

/* What snowflake_audit_state says. */
typedef struct State
{
	int64		life;
	int64		position;
	int64		number;
} State;

/* ---- statements ---- */

/* Run a statement, in which %a and %s stand for the two schemas. */
static void
run(const Log *log, const char *sql, int nargs, Oid *types, Datum *values)
{
	StringInfoData text;

	initStringInfo(&text);
	for (const char *c = sql; *c != '\0'; c++)
	{
		if (*c != '%')
			appendStringInfoChar(&text, *c);
		else
			appendStringInfoString(&text, *++c == 'a' ? log->audit :
								   log->snowflake);
	}
	pgstat_report_activity(STATE_RUNNING, text.data);
	if (SPI_execute_with_args(text.data, nargs, types, values, NULL, false,
							  0) < 0)
		elog(ERROR, "could not run: %s", text.data);
}

static Datum
get(int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, column, &isnull);

	Assert(!isnull);
	return value;
}

/*
 * Begin a transaction, find the log, lock it, and become its owner.  Return
 * false if there is no log, or somebody else has locked it.
 */
static bool
begin(Log *log, LOCKMODE mode)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	enable_timeout_after(STATEMENT_TIMEOUT, TIMEOUT_MS);
	log->guc_level = NewGUCNestLevel();
	SPI_connect();
	if (SPI_execute(SQL_FIND, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
	if (SPI_processed == 0)
		return false;
	log->audit = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	log->snowflake = SPI_getvalue(SPI_tuptable->vals[0],
								  SPI_tuptable->tupdesc, 2);
	log->oid = DatumGetObjectId(get(3));
	log->owner = DatumGetObjectId(get(4));
	if (!ConditionalLockRelationOid(log->oid, mode))
		return false;
	SetUserIdAndSecContext(log->owner, SECURITY_RESTRICTED_OPERATION |
						   SECURITY_LOCAL_USERID_CHANGE);
	return true;
}

/* Commit as the owner, and end the owner's role and settings. */
static void
finish(const Log *log)
{
	SPI_finish();
	AtEOXact_GUC(false, log->guc_level);
	PopActiveSnapshot();
	CommitTransactionCommand();
	SetUserIdAndSecContext(GetSessionUserId(), 0);
	disable_timeout(STATEMENT_TIMEOUT, false);
	pgstat_report_stat(true);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* ---- a batch ---- */

static int64
day_of(const SfRecord *record)
{
	return record->ended_at / USECS_PER_DAY;
}

/* Run a query, and the statements that it returns. */
static void
run_all(const Log *log, const char *sql, int nargs, Oid *types, Datum *values)
{
	SPITupleTable *table;

	run(log, sql, nargs, types, values);
	table = SPI_tuptable;
	for (uint64 i = 0; i < table->numvals; i++)
	{
		if (SPI_execute(SPI_getvalue(table->vals[i], table->tupdesc, 1),
						false, 0) < 0)
			elog(ERROR, "could not change a partition");
	}
}

/*
 * Make the missing partitions of some days.  ALTER DEFAULT PRIVILEGES may have
 * given rights to them: take these away.  They belong to the extension, so
 * that no dump has them: it could not restore the indexes that the extension
 * gives them.
 */
static void
create_partitions(const Log *log, TimestampTz from, TimestampTz until)
{
	Oid			types[] = {OIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID};
	Datum		values[] = {
		ObjectIdGetDatum(log->oid), TimestampTzGetDatum(from),
		TimestampTzGetDatum(until)
	};

	run(log, SQL_CREATE, 3, types, values);
	run_all(log, SQL_ADOPT, 1, types, values);
}

/* Make the partition of a day, if it is missing. */
static void
ensure_day(const Log *log, const SfRecord *first)
{
	if (day_of(first) == known_day && log->oid == known_log)
		return;
	create_partitions(log, first->ended_at, first->ended_at + 1000);
	known_day = day_of(first);
	known_log = log->oid;
}

/*
 * Read how far the log has come.  If an earlier worker has written records
 * that it did not release, release them.
 */
static State
read_state(const Log *log)
{
	State		state;

	run(log, SQL_STATE, 0, NULL, NULL);
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s.snowflake_audit_state must have one row",
						log->audit),
				 errhint("Run: BEGIN; DELETE FROM %s.snowflake_audit_state; INSERT INTO %s.snowflake_audit_state SELECT 0, 0, coalesce(max(number), 0) FROM %s.snowflake_audit_log; COMMIT;",
						 log->audit, log->audit, log->audit)));
	state.life = DatumGetInt64(get(1));
	state.position = DatumGetInt64(get(2));
	state.number = DatumGetInt64(get(3));
	if (state.life == (int64) ring->life &&
		(uint64) state.position > sf_ring_tail(ring))
		sf_ring_release(ring, (uint64) state.position);
	return state;
}

/* Skip records of other databases.  Return the next record, or NULL. */
static const SfRecord *
next_record(void)
{
	const SfRecord *record;

	while ((record = sf_ring_read(ring, sf_ring_tail(ring))) != NULL &&
		   record->database != MyDatabaseId)
		sf_ring_release(ring, sf_ring_tail(ring) + 1);
	return record;
}

/* Return the end of a batch of one day, of which this is the first record. */
static uint64
end_of_batch(const SfRecord *first)
{
	uint64		end = sf_ring_tail(ring) + 1;
	uint64		most = end - 1 + BATCH;
	const SfRecord *record;

	while (end < most && (record = sf_ring_read(ring, end)) != NULL &&
		   day_of(record) == day_of(first))
		end++;
	return end;
}

static void
write_batch(const Log *log, const State *state, uint64 begin, uint64 end)
{
	bool		is_new = state->life != (int64) ring->life;
	Oid			types[] = {INT8OID, INT8OID, INT8OID, INT8OID};
	Datum		written[] = {
		Int64GetDatum((int64) begin), Int64GetDatum((int64) end),
		Int64GetDatum(state->number + 1 - (int64) begin),
		Int64GetDatum(is_new ? (int64) begin : -1)
	};
	Datum		reached[] = {
		Int64GetDatum((int64) ring->life), Int64GetDatum((int64) end),
		Int64GetDatum(state->number + (int64) (end - begin))
	};

	run(log, SQL_WRITE, 4, types, written);
	run(log, SQL_ADVANCE, 3, types, reached);
}

#ifdef SF_FAULTS
/* The fault point of this library: see src/base/fault.h. */
static void
reach_written(void)
{
	const char *fault = GetConfigOption("snowflake.fault", true, false);

	if (fault != NULL && strcmp(fault, "audit-written exit") == 0)
		proc_exit(1);
}
#else
#define reach_written()	((void) 0)
#endif

/* Write a batch.  Return true if there may be more. */
static bool
write_some(void)
{
	Log			log;
	State		state;
	const SfRecord *first;
	uint64		end;

	if (next_record() == NULL)
		return false;
	if (!begin(&log, RowExclusiveLock))
	{
		finish(&log);
		return false;
	}
	state = read_state(&log);
	first = next_record();
	end = sf_ring_tail(ring);
	if (first != NULL)
	{
		ensure_day(&log, first);
		end = end_of_batch(first);
		write_batch(&log, &state, sf_ring_tail(ring), end);
	}
	finish(&log);
	reach_written();
	sf_ring_release(ring, end);
	return first != NULL;
}

/* ---- partitions ---- */

/*
 * Make the partitions of today and tomorrow, and drop those of days that are
 * over for longer than snowflake_audit.keep; not while somebody reads the log.
 * If that fails, the next worker does not try again at once.
 */
static void
maintain(void)
{
	Log			log;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz oldest = now - (int64) sf_audit_keep * USECS_PER_MINUTE;
	Oid			types[] = {OIDOID, TIMESTAMPTZOID};
	Datum		values[] = {0, TimestampTzGetDatum(oldest)};

	if (ring->maintained_at != 0 &&
		llabs(now - ring->maintained_at) < INT64CONST(1000) * MAINTAIN_MS)
		return;
	if (begin(&log, AccessExclusiveLock))
	{
		ring->maintained_at = now;
		values[0] = ObjectIdGetDatum(log.oid);
		create_partitions(&log, now, now + USECS_PER_DAY);
		run_all(&log, SQL_DISOWN, 2, types, values);
		run(&log, SQL_DROP, 2, types, values);
	}
	finish(&log);
}

/* ---- the worker ---- */

static void
on_exit_worker(int code, Datum arg)
{
	ring->worker = NULL;
	pg_atomic_write_u32(&ring->pid, 0);
}

static void
rest(void)
{
	static uint32 wait_event = 0;

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ROUND_MS, sf_wait_event(&wait_event, "SnowflakeAudit"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	ring->maintained_at = 0;	/* days to keep may have changed */
}

/* After errors in a row: do not fill the server's log with them. */
static void
pause_after_failures(void)
{
	int			seconds = Min((ring->failures - 1) * RESTART_S, MAX_PAUSE_S);

	ring->failures++;
	while (seconds-- > 0 && !ShutdownRequestPending)
		rest();
	if (ShutdownRequestPending)
		proc_exit(1);
}

void
snowflake_audit_worker_main(Datum arg)
{
	ring = sf_ring_get(DatumGetInt32(arg));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	pause_after_failures();
	BackgroundWorkerInitializeConnection(NameStr(ring->name), NULL, 0);
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_SUSET,
					PGC_S_SESSION);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET,
					PGC_S_SESSION);

	on_shmem_exit(on_exit_worker, (Datum) 0);
	pg_atomic_write_u32(&ring->database, MyDatabaseId);
	pg_atomic_write_u32(&ring->pid, MyProcPid);
	ring->worker = MyLatch;

	while (!ShutdownRequestPending)
	{
		while (write_some() && !ShutdownRequestPending)
			CHECK_FOR_INTERRUPTS();
		maintain();
		ring->failures = 0;
		rest();
	}
	while (write_some())
		;
	proc_exit(1);				/* so that another one begins, unless the
								 * server stops */
}

void
sf_audit_worker_register(int i, const char *database)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	snprintf(worker.bgw_name, BGW_MAXLEN, "snowflake audit of %s", database);
	snprintf(worker.bgw_type, BGW_MAXLEN, "snowflake audit");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_S;
	worker.bgw_main_arg = Int32GetDatum(i);
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "snowflake_audit");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "snowflake_audit_worker_main");
	RegisterBackgroundWorker(&worker);
}
