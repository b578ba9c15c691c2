/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker of an audited database: writes the records of its
 *	  ring into snowflake_audit.log.
 *
 * A batch is one transaction, which also writes into snowflake_audit.state how
 * far it has come in which ring.  The records are released after its commit.
 * If the worker ends in between, the next worker finds there what is written,
 * so no record is written twice.
 *
 * All that the worker runs in the database runs as the owner of the log, in an
 * operation that cannot switch to any other role: triggers of the log are the
 * owner's code.  A transaction that takes longer than TIMEOUT_MS ends in an
 * error.  So a slow disk keeps a stop of the server waiting for 70 s at most.
 * After an error another worker begins, 5 s later, and 5 s more after each
 * further one.  Sessions never wait for the worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "ring.h"

#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/pidfile.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "worker.sql.inc"

#define RESTART_S		5
#define MAX_PAUSE_S		55		/* in addition, after errors in a row */
#define ROUND_MS		1000	/* between two looks at the ring */
#define BATCH			1000	/* records of one transaction */
#define TIMEOUT_MS		30000	/* of one transaction */
#define MAINTAIN_MS		3600000 /* between two looks at the partitions */
#define AGAIN_MS		60000	/* after one that failed */
#define STEADY_MS		4000	/* of the clock, where days are to be dropped
								 * soon */
#define WAITS			3		/* for locks, in one look */
#define DAYS			20		/* dropped in one transaction: each takes
								 * locks */
#define STOP_MS			10000	/* how long to wait for the ends of sessions */
#define MOMENT_US		15000	/* in which DROP EXTENSION locks its parts */

/* How to find, and to end, what uses the log or one of its days. */
#define LOCKS_HINT \
	"Run there: SELECT pid, relation::regclass, mode FROM pg_locks " \
	"WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()) " \
	"AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'snowflake_audit'::regnamespace " \
	"UNION SELECT ev_class FROM pg_rewrite r, pg_depend d, pg_class c " \
	"WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refobjid = c.oid " \
	"AND c.relnamespace = 'snowflake_audit'::regnamespace) " \
	"AND pid IS DISTINCT FROM (SELECT pid FROM snowflake_audit.status() WHERE database = current_database()); " \
	"and then SELECT pg_terminate_backend(PID); " \
	"A lock without a pid is that of a prepared transaction: " \
	"SELECT gid FROM pg_prepared_xacts; ROLLBACK PREPARED 'GID';"

extern PGDLLEXPORT void snowflake_audit_worker_main(Datum arg);

static SfRing *ring;
static emit_log_hook_type prev_emit_log_hook = NULL;
static bool wants_room = false; /* old days may be dropped for this */

/* Of the worker's session; those of the database or the role may differ. */
static const char *const settings[][2] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"default_transaction_read_only", "off"},
	{"default_tablespace", ""},
	{"default_table_access_method", "heap"},
	{"lock_timeout", "0"},
	{"deadlock_timeout", "1s"},
	{"synchronous_commit", "local"},	/* a stop would wait, too */
	{"default_transaction_isolation", "read committed"},
	{"log_min_messages", "warning"},	/* status() shows what is logged */
	{"temp_file_limit", "-1"},
	{"jit", "off"},
#if PG_VERSION_NUM >= 170000
	{"transaction_timeout", "0"},
#endif
};

/* The day, since 2000, whose partition this worker has seen, in which log. */
static int64 known_day = PG_INT64_MIN;
static Oid	known_log = InvalidOid;

/* The functions of the extension that the worker calls, by name. */
typedef enum Function
{
	ADVANCE, CREATE_DAYS, DAYS_BEFORE, HAS_DAY, REACHED, WRITE,
	FUNCTIONS
} Function;

/*
 * Where the log is; valid in one transaction.  Functions are called by OID: a
 * superuser may rename the schema at any time, and then somebody else may
 * create another schema of this name, with functions of his.
 */
typedef struct Log
{
	Oid			oid;
	Oid			owner;
	Oid			function[FUNCTIONS];
	int			guc_level;
	bool		extension_locked;
} Log;

/* What snowflake_audit.state says. */
typedef struct State
{
	int64		life;
	int64		position;
	int64		number;
} State;

/* ---- statements ---- */

static void
run(const char *sql, int nargs, Oid *types, Datum *values)
{
	pgstat_report_activity(STATE_RUNNING, sql);
	if (SPI_execute_with_args(sql, nargs, types, values, NULL, false, 0) < 0)
		elog(ERROR, "could not run: %s", sql);
}

/* Call a function; the result may be NULL. */
static Datum
call(const Log *log, Function function, int nargs, const Datum *values,
	 bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 4);
	FmgrInfo	flinfo;
	Datum		result;

	Assert(nargs <= 4);
	pgstat_report_activity(STATE_RUNNING, "snowflake_audit");
	fmgr_info(log->function[function], &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, InvalidOid, NULL, NULL);
	for (int i = 0; i < nargs; i++)
	{
		fcinfo->args[i].value = values[i];
		fcinfo->args[i].isnull = false;
	}
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
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

/* Look after the days soon. */
static void
hurry(void)
{
	ring->maintained_at = 0;
	ring->hurries = true;
}

/*
 * Note an error, of which snowflake_audit.status() shows the primary message
 * alone: a DETAIL can have values of other tables.
 */
static void
note_error(ErrorData *edata)
{
	if (edata->elevel >= ERROR && edata->message != NULL)
		sf_ring_set_problem(ring, edata->message);
	if (wants_room && edata->sqlerrcode == ERRCODE_DISK_FULL)
		hurry();				/* the next worker may drop days */
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
}

static int64
monotonic_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* Return true if the last such line in the log is a minute old. */
static bool
is_due(TimestampTz *last)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now >= *last && now - *last < USECS_PER_MINUTE)
		return false;
	*last = now;
	return true;
}

/* Say why records wait: in status(), and once a minute at most in the log. */
static void
complain(const char *problem, const char *hint)
{
	static TimestampTz last = 0;

	if (sf_ring_tail(ring) == pg_atomic_read_u64(&ring->head))
		return;
	sf_ring_set_problem(ring, problem);
	if (!is_due(&last))
		return;
	ereport(WARNING,
			(errmsg("snowflake_audit writes no records of database \"%s\": %s",
					NameStr(ring->name), problem),
			 errhint("%s", hint)));
}

/* Say once a minute at most, or at the end, how many records were dropped. */
static void
report_dropped(bool ends)
{
	static TimestampTz last = 0;
	uint64		dropped = pg_atomic_read_u64(&ring->dropped_ever);

	if (dropped == ring->reported || !(is_due(&last) || ends))
		return;
	ereport(WARNING,
			(errmsg("snowflake_audit has dropped %llu records of database \"%s\"",
					(unsigned long long) (dropped - ring->reported),
					NameStr(ring->name)),
			 errdetail("The ring was full, a transaction made IDs of more than %d layouts and shards, or the database was renamed.",
					   SF_MADE_SOURCES),
			 errhint("If this happens again, see SELECT * FROM snowflake_audit.status(); or raise snowflake_audit.ring_size, which is %d, and restart.",
					 sf_audit_ring_size)));
	ring->reported = dropped;
}

/*
 * Lock the extension against DROP EXTENSION, which locks it before all else:
 * then that waits for our transaction, and we never wait for what it holds.
 */
static bool
lock_extension(void)
{
	Oid			extension = get_extension_oid("snowflake_audit", true);

	return !OidIsValid(extension) ||
		ConditionalLockDatabaseObject(ExtensionRelationId, extension, 0,
									  AccessShareLock);
}

/* Take the OIDs of the functions that SQL_FIND has found. */
static void
take_functions(Log *log, ArrayType *oids)
{
	if (ARR_NDIM(oids) != 1 || ARR_DIMS(oids)[0] != FUNCTIONS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension snowflake_audit of database \"%s\" is not that of this library",
						NameStr(ring->name)),
				 errhint("Run there: DROP EXTENSION snowflake_audit; CREATE EXTENSION snowflake_audit; Its log is lost.")));
	memcpy(log->function, ARR_DATA_PTR(oids), sizeof(log->function));
}

/*
 * Refuse a day that a role owns which is no superuser, whether or not it is a
 * part of the extension: its triggers would run.
 */
static void
check_days(const Log *log)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(log->oid, NoLock, NULL))
	{
		Oid			oid = lfirst_oid(cell);
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(oid));
		Form_pg_class day;

		if (!HeapTupleIsValid(tuple))
			continue;			/* it was dropped */
		day = (Form_pg_class) GETSTRUCT(tuple);
		if (!superuser_arg(day->relowner))
		{
			char	   *schema = get_namespace_name(day->relnamespace);
			char	   *name = NameStr(day->relname);

			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("a role that is no superuser owns partition \"%s\" of snowflake_audit.log in database \"%s\"",
							name, NameStr(ring->name)),
					 errhint("As a superuser, run there: ALTER TABLE %s OWNER TO CURRENT_USER;",
							 quote_qualified_identifier(schema, name))));
		}
		ReleaseSysCache(tuple);
	}
}

/*
 * Wait for no lock for long, until the end of the transaction.  Others wait
 * for this worker while it has locked the log.  And where it could not lock
 * the extension, it gives way before a DROP EXTENSION finds a deadlock.
 */
static void
do_not_wait(void)
{
	(void) set_config_option("lock_timeout", "100ms", PGC_SUSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Begin a transaction, find the log, lock it, and become its owner.  Return
 * false if there is no log, or somebody else has locked it.  A trigger of the
 * log may ignore that it is cancelled, and so hold up the shutdown: nobody but
 * a superuser may own anything that the worker uses.
 *
 * Any role can lock the extension, by ALTER FUNCTION ... DEPENDS ON EXTENSION.
 * So return false for a moment, and then go on without that lock: a DROP
 * EXTENSION that has begun has locked the log by then.
 */
static bool
begin(Log *log, LOCKMODE mode)
{
	static int64 since_us = 0;	/* others lock the extension; 0: nobody */
	static int64 seen_us = 0;
	int64		now_us = monotonic_us();

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	enable_timeout_after(STATEMENT_TIMEOUT, TIMEOUT_MS);
	log->guc_level = NewGUCNestLevel();
	log->extension_locked = lock_extension();
	if (log->extension_locked)
		since_us = 0;
	else if (since_us == 0 || now_us - seen_us > 10 * USECS_PER_SEC)
		since_us = now_us;
	seen_us = now_us;
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	if (SPI_execute(SQL_FIND, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
	if (SPI_processed == 0)
	{
		if (OidIsValid(get_extension_oid("snowflake_audit", true)))
			complain("the schema of extension snowflake_audit, or its table log, was renamed",
					 "Run there \\dx+ snowflake_audit, which lists them, and give them back their names: ALTER SCHEMA NAME RENAME TO snowflake_audit; ALTER TABLE NAME RENAME TO log;");
		else
			complain("there is no extension snowflake_audit",
					 "Run there: CREATE EXTENSION snowflake_audit CASCADE;");
		return false;
	}
	log->oid = DatumGetObjectId(get(1));
	log->owner = DatumGetObjectId(get(2));
	if (!DatumGetBool(get(3)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a role that is no superuser owns a part of extension snowflake_audit in database \"%s\"",
						NameStr(ring->name)),
				 errhint("As a superuser, look there at the owners that \\dn snowflake_audit, \\dt snowflake_audit.* and \\df+ snowflake_audit.* show, and run for what is no superuser's: ALTER SCHEMA (or TABLE, FUNCTION) NAME OWNER TO CURRENT_USER;")));
	take_functions(log, DatumGetArrayTypeP(get(4)));
	check_days(log);
	if (since_us != 0 && now_us - since_us < MOMENT_US)
		return false;			/* the next round looks again */
	if (!ConditionalLockRelationOid(log->oid, mode))
	{
		if (mode == RowExclusiveLock)
			complain("somebody has locked table snowflake_audit.log, or drops the extension",
					 LOCKS_HINT);
		return false;
	}
	if (!log->extension_locked || mode == AccessExclusiveLock)
		do_not_wait();
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

/* If what follows fails, this worker or the next one looks again, later. */
static void
look_again(TimestampTz now, int ms)
{
	ring->maintained_at = now - INT64CONST(1000) * (MAINTAIN_MS - ms);
	ring->kept = sf_audit_keep;
}

/* Take away what ALTER DEFAULT PRIVILEGES has given to partitions. */
static void
revoke_rights(const Log *log)
{
	Oid			type = OIDOID;
	Datum		value = ObjectIdGetDatum(log->oid);
	SPITupleTable *table;

	run(SQL_REVOKE, 1, &type, &value);
	table = SPI_tuptable;
	for (uint64 i = 0; i < table->numvals; i++)
		run(SPI_getvalue(table->vals[i], table->tupdesc, 1), 0, NULL, NULL);
}

/*
 * Make all partitions parts of the extension, so that no dump has them: it
 * could not restore the indexes that the extension gives them.  Return false
 * if that must wait for whoever uses one of them, or has locked the extension.
 */
static bool
adopt_partitions(const Log *log)
{
	Oid			type = OIDOID;
	Datum		value = ObjectIdGetDatum(log->oid);
	SPITupleTable *table;
	bool		all = true;

	if (!log->extension_locked)
		return false;
	run(SQL_STRANGERS, 1, &type, &value);
	table = SPI_tuptable;
	for (uint64 i = 0; i < table->numvals; i++)
	{
		bool		isnull;
		Datum		day = SPI_getbinval(table->vals[i], table->tupdesc, 1,
										&isnull);

		if (!ConditionalLockRelationOid(DatumGetObjectId(day),
										ShareUpdateExclusiveLock))
			all = false;
		else
			run(SPI_getvalue(table->vals[i], table->tupdesc, 2), 0, NULL,
				NULL);
	}
	return all;
}

/*
 * Make the missing partitions of some days.  Return false if not all of them
 * are parts of the extension.
 */
static bool
create_partitions(const Log *log, TimestampTz from, TimestampTz until)
{
	Datum		values[] = {
		TimestampTzGetDatum(from), TimestampTzGetDatum(until)
	};
	bool		isnull;

	(void) call(log, CREATE_DAYS, 2, values, &isnull);
	revoke_rights(log);
	return adopt_partitions(log);
}

/*
 * Make the partition of a day, if it is missing.  Return false if that would
 * have to wait for those who read the log: others who want to read it would
 * wait behind this worker.
 */
static bool
ensure_day(const Log *log, const SfRecord *first)
{
	Datum		at = TimestampTzGetDatum(first->ended_at);
	bool		isnull;

	if (day_of(first) == known_day && log->oid == known_log)
		return true;
	if (!DatumGetBool(call(log, HAS_DAY, 1, &at, &isnull)))
	{
		if (!ConditionalLockRelationOid(log->oid, AccessExclusiveLock))
		{
			complain("a transaction that has read table snowflake_audit.log is still open, and a day is missing",
					 LOCKS_HINT);
			return false;
		}
		do_not_wait();
		if (!create_partitions(log, first->ended_at, first->ended_at))
			look_again(GetCurrentTimestamp(), AGAIN_MS);
	}
	known_day = day_of(first);
	known_log = log->oid;
	return true;
}

/*
 * Read how far the log has come.  If an earlier worker has written records
 * that it did not release, release them.
 */
static State
read_state(const Log *log)
{
	bool		isnull;
	Datum		reached = call(log, REACHED, 0, NULL, &isnull);
	const int64 *numbers;
	State		state;

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table snowflake_audit.state of database \"%s\" has no row",
						NameStr(ring->name)),
				 errhint("Run there: INSERT INTO snowflake_audit.state (life, position, number) SELECT 0, 0, coalesce(max(number), 0) FROM snowflake_audit.log;")));
	numbers = (const int64 *) ARR_DATA_PTR(DatumGetArrayTypeP(reached));
	state.life = numbers[0];
	state.position = numbers[1];
	state.number = numbers[2];
	if (state.life == (int64) ring->life &&
		(uint64) state.position > sf_ring_tail(ring) &&
		(uint64) state.position <= pg_atomic_read_u64(&ring->head))
		sf_ring_release(ring, (uint64) state.position);
	return state;
}

/*
 * Skip records of other databases, which had this name; they count as dropped.
 * Keep what they say of dropped ones.  Return the next record, or NULL.
 */
static const SfRecord *
next_record(void)
{
	const SfRecord *record;

	while ((record = sf_ring_read(ring, sf_ring_tail(ring))) != NULL &&
		   record->database != MyDatabaseId)
	{
		pg_atomic_fetch_add_u64(&ring->dropped, record->dropped);
		pg_atomic_fetch_add_u64(&ring->dropped_ever, 1);
		pg_atomic_fetch_add_u64(&ring->skipped, 1);
		sf_ring_release(ring, sf_ring_tail(ring) + 1);
	}
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
		   record->database == MyDatabaseId &&
		   day_of(record) == day_of(first))
		end++;
	return end;
}

/*
 * Write a batch.  Nobody knows what is missing before it if the log has not
 * come to its beginning: in another life, or when the database had another
 * name, or as the copy of another one.
 */
static void
write_batch(const Log *log, const State *state, uint64 begin, uint64 end)
{
	bool		is_new = state->life != (int64) ring->life ||
		state->position != (int64) begin;
	bool		isnull;
	Datum		written[] = {
		Int64GetDatum((int64) begin), Int64GetDatum((int64) end),
		Int64GetDatum(state->number + 1 - (int64) begin),
		Int64GetDatum(is_new ? (int64) begin : -1)
	};
	Datum		reached[] = {
		Int64GetDatum((int64) ring->life), Int64GetDatum((int64) end),
		Int64GetDatum(state->number + (int64) (end - begin))
	};

	(void) call(log, WRITE, 4, written, &isnull);
	(void) call(log, ADVANCE, 3, reached, &isnull);
}

/*
 * Say why there is no next record.  A session writes one in less than a
 * millisecond, unless it was stopped.
 */
static void
look_at_incomplete(void)
{
	static uint64 seen = 0;
	static int64 seen_us;
	uint64		tail = sf_ring_tail(ring);

	if (tail == pg_atomic_read_u64(&ring->head))
	{
		sf_ring_set_problem(ring, "");
		return;
	}
	if (seen != tail + 1)
		seen_us = monotonic_us();
	seen = tail + 1;
	if (monotonic_us() - seen_us >= USECS_PER_SEC)
		complain("a session stands still while it writes its record",
				 "Find a process of the server that was stopped, and let it go on: \"ps -C postgres -o pid,stat,args\" shows it with a T, and \"kill -CONT PID\" lets it go on.");
}

/* Write a batch.  Return true if there may be more. */
static bool
write_some(void)
{
	Log			log;
	State		state;
	const SfRecord *first;
	uint64		end;

	if (next_record() == NULL)
	{
		look_at_incomplete();
		return false;
	}
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
		wants_room = true;
		if (!ensure_day(&log, first))
		{
			finish(&log);
			wants_room = false;
			return false;
		}
		end = end_of_batch(first);
		write_batch(&log, &state, sf_ring_tail(ring), end);
	}
	finish(&log);
	wants_room = false;
	SF_AUDIT_FAULT("audit-written");
	sf_ring_release(ring, end);
	sf_ring_set_problem(ring, "");
	return first != NULL;
}

/* ---- partitions ---- */

/* Say why a day is not dropped, once a minute at most. */
static void
complain_of_day(const char *name, const char *problem)
{
	static TimestampTz last = 0;

	if (is_due(&last))
		ereport(WARNING,
				(errmsg("snowflake_audit cannot drop %s in database \"%s\": %s",
						name, NameStr(ring->name), problem),
				 errhint("As a superuser, run there: ALTER EXTENSION snowflake_audit DROP TABLE %s; DROP TABLE %s CASCADE; If this fails, it says what to do away with.",
						 name, name)));
}

/* Take an object out of the extension.  Newer majors add a table's types. */
static void
leave_extension(Oid class_oid, Oid oid)
{
	(void) deleteDependencyRecordsForClass(class_oid, oid,
										   ExtensionRelationId,
										   DEPENDENCY_EXTENSION);
}

/*
 * Drop a day, and the views on it, unless somebody uses them.  A part of the
 * extension could not be dropped, and ALTER EXTENSION would wait for whoever
 * has locked the extension.  Count in *failures what took its time.
 */
static bool
drop_day(Oid day, int *failures)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool dropped = false;
	Oid			type = get_rel_type_id(day);
	char	   *name;

	if (!ConditionalLockRelationOid(day, AccessExclusiveLock))
		return false;
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(day)))
		return true;			/* somebody has dropped it */
	name = DatumGetCString(DirectFunctionCall1(regclassout,
											   ObjectIdGetDatum(day)));
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		leave_extension(RelationRelationId, day);
		leave_extension(TypeRelationId, type);
		leave_extension(TypeRelationId, get_array_type(type));
		CommandCounterIncrement();
		run(psprintf("DROP TABLE %s CASCADE", name), 0, NULL, NULL);
		ReleaseCurrentSubTransaction();
		dropped = true;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (edata->sqlerrcode == ERRCODE_DISK_FULL ||
			ERRCODE_TO_CATEGORY(edata->sqlerrcode) ==
			ERRCODE_OPERATOR_INTERVENTION)
			ReThrowError(edata);
		if (edata->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			complain_of_day(name, edata->message);
		(*failures)++;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return dropped;
}

/*
 * Drop some of the days that are over for longer than snowflake_audit.keep.
 * The log is locked meanwhile, so end after some failures, and begin behind
 * them the next time.  Return false if the log cannot be locked.
 */
static bool
drop_days(TimestampTz now, bool *more, bool *used)
{
	static int	start = 0;
	Log			log;
	Datum		oldest = TimestampTzGetDatum(now - (int64) sf_audit_keep *
											 USECS_PER_MINUTE);
	bool		locked = begin(&log, AccessExclusiveLock);
	int			dropped = 0;
	int			failures = 0;

	if (locked)
	{
		bool		isnull;
		ArrayType  *days;
		int			first = start;
		int			n;

		look_again(now, AGAIN_MS);
		days = DatumGetArrayTypeP(call(&log, DAYS_BEFORE, 1, &oldest,
									   &isnull));
		n = ARR_NDIM(days) > 0 ? ARR_DIMS(days)[0] : 0;
		start = 0;
		for (int i = 0; i < n && dropped < DAYS && failures < WAITS; i++)
		{
			const Oid  *day = (const Oid *) ARR_DATA_PTR(days);

			if (drop_day(day[(first + i) % n], &failures))
				dropped++;
			else
				*used = true;
			if (failures == WAITS)
				start = (first + i + 1) % n;
		}
	}
	finish(&log);
	*more = dropped == DAYS && failures < WAITS;
	return locked;
}

/*
 * Make the partitions of today and tomorrow.  If that fails, records of a day
 * that is there are written all the same.  Return false if the log cannot be
 * locked.
 */
static bool
create_days(TimestampTz now, bool *adopted)
{
	Log			log;
	bool		locked = begin(&log, AccessExclusiveLock);

	if (locked)
	{
		look_again(now, AGAIN_MS);
		*adopted = create_partitions(&log, now, now + USECS_PER_DAY);
	}
	finish(&log);
	return locked;
}

/*
 * Say that somebody uses days that are to be dropped, if two looks find it:
 * it may have been a vacuum.
 */
static void
complain_of_use(bool used)
{
	static bool before = false;
	static TimestampTz last = 0;

	if (used && before && is_due(&last))
		ereport(WARNING,
				(errmsg("snowflake_audit has not dropped old days of the log of database \"%s\": transactions use them, or views on them",
						NameStr(ring->name)),
				 errhint("%s", LOCKS_HINT)));
	before = used;
}

/*
 * Return true if the wall clock has been as far from the monotonic one for
 * long: a clock that is wrong for a while must not drop days.
 */
static bool
is_clock_steady(TimestampTz now)
{
	int64		now_us = monotonic_us();
	int64		offset_us = now - now_us;

	if (ring->steady_us == 0 ||
		llabs(offset_us - ring->clock_offset_us) >= USECS_PER_HOUR)
	{
		ring->clock_offset_us = offset_us;
		ring->steady_us = now_us;
	}
	return now_us - ring->steady_us >= INT64CONST(1000) *
		(ring->hurries ? STEADY_MS : MAINTAIN_MS / 2);
}

/*
 * Look after the partitions, now and then, but not while somebody reads the
 * log.
 */
static void
maintain(void)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		is_steady = is_clock_steady(now);
	bool		locked = true;
	bool		used = false;
	bool		adopted = false;

	if (ring->maintained_at != 0 && ring->kept == sf_audit_keep &&
		llabs(now - ring->maintained_at) < INT64CONST(1000) * MAINTAIN_MS)
		return;
	if (is_steady)
	{
		bool		more = true;

		while (locked && more && !ShutdownRequestPending)
		{
			CHECK_FOR_INTERRUPTS();
			locked = drop_days(now, &more, &used);
		}
		if (locked)
			complain_of_use(used);
	}
	if (!locked || ShutdownRequestPending)
		return;
	wants_room = !is_steady;
	locked = create_days(now, &adopted);
	wants_room = false;
	if (!locked)
		return;
	if (ring->hurries && !is_steady)
		look_again(now, STEADY_MS);
	else
	{
		ring->hurries = false;
		look_again(now, used || !adopted ? AGAIN_MS : MAINTAIN_MS);
	}
}

/* ---- the worker ---- */

/* Return true if the whole server stops, which the postmaster notes first. */
static bool
is_server_stopping(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");
	char		line[MAXPGPATH] = "";

	if (file == NULL)
		return false;
	for (int i = 0; i < LOCK_FILE_LINE_PM_STATUS; i++)
	{
		if (fgets(line, sizeof(line), file) == NULL)
			line[0] = '\0';
	}
	FreeFile(file);
	return strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

/*
 * If the server stops, say what is lost.  In a smart stop other workers begin
 * while there are clients.
 */
static void
on_exit_worker(int code, Datum arg)
{
	uint64		waiting = pg_atomic_read_u64(&ring->head) - sf_ring_tail(ring);

	ring->worker = NULL;
	pg_atomic_write_u32(&ring->pid, 0);
	if (!is_server_stopping())
		return;
	report_dropped(true);
	if (waiting > 0)
		ereport(WARNING,
				(errmsg("snowflake_audit ends, and records of database \"%s\" are not written: %llu",
						NameStr(ring->name), (unsigned long long) waiting),
				 errdetail("They are lost, unless the server waits for clients, and another worker begins.")));
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
	hurry();					/* days to keep may have changed */
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

/*
 * Write what is there.  If the server stops, other sessions end at the same
 * time as this worker, and some commit.  One of them may have locked the log.
 * So wait for them, but not for long.
 */
static void
write_the_rest(void)
{
	int64		until_us = monotonic_us() + INT64CONST(1000) * STOP_MS;
	bool		stops = is_server_stopping();
	int			tries = 0;		/* while there are no others */
	uint64		last;

	do
	{
		if (!stops || CountDBConnections(MyDatabaseId) == 0)
			tries++;
		last = pg_atomic_read_u64(&ring->head);
		while (sf_ring_tail(ring) < last && monotonic_us() < until_us &&
			   write_some())
			;
		if (tries > (stops && sf_ring_tail(ring) < last ? 3 : 0))
			return;
		pg_usleep(20000);
	} while (monotonic_us() < until_us && PostmasterIsAlive());
}

/*
 * Make the database of this worker the one of its ring.  Another ring has it
 * yet if databases were renamed.
 */
static void
take_database(void)
{
	for (int i = 0; i < sf_ring_count; i++)
	{
		SfRing	   *other = sf_ring_get(i);
		uint32		database = MyDatabaseId;

		if (other != ring)
			(void) pg_atomic_compare_exchange_u32(&other->database, &database,
												  InvalidOid);
	}
	pg_atomic_write_u32(&ring->database, MyDatabaseId);
	pg_atomic_write_u32(&ring->pid, MyProcPid);
	ring->worker = MyLatch;
}

void
snowflake_audit_worker_main(Datum arg)
{
	ring = sf_ring_get(DatumGetInt32(arg));
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = note_error;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	on_shmem_exit(on_exit_worker, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	pause_after_failures();
	BackgroundWorkerInitializeConnection(NameStr(ring->name), NULL, 0);
	for (int i = 0; i < (int) lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
						PGC_S_SESSION);
	take_database();

	while (!ShutdownRequestPending)
	{
		maintain();				/* it makes room on the disk */
		while (!ShutdownRequestPending && write_some())
			CHECK_FOR_INTERRUPTS();
		report_dropped(false);
		ring->failures = 0;
		rest();
	}
	write_the_rest();
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
