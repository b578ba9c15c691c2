/*-------------------------------------------------------------------------
 *
 * audit.c
 *	  Library load, settings and SQL functions of snowflake_audit.
 *
 * The library records, for each transaction that makes IDs, which role,
 * application and client it was.  snowflake calls it at the transaction's end
 * (src/runtime/made.h); ring.c keeps the record until worker.c writes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "ring.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inet.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"

#define RING_COLUMNS	14
#define STATUS_COLUMNS	7

/* Each database costs a worker and a ring. */
#define MAX_DATABASES	64

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

SF_FUNCTION(snowflake_audit_ring);
SF_FUNCTION(snowflake_audit_status);

char	   *sf_audit_databases;
int			sf_audit_ring_size;
int			sf_audit_keep;

/* ---- SQL functions ---- */


static void
put_record(ReturnSetInfo *result, uint64 position, const SfRecord *record)
{
	Datum		values[RING_COLUMNS];
	bool		nulls[RING_COLUMNS] = {0};
	const char *layout = sf_ring_text(record, SF_TEXT_LAYOUT);
	const char *address = sf_ring_text(record, SF_TEXT_ADDRESS);
	int			n = 0;

	values[n++] = Int64GetDatum((int64) position);
	values[n++] = Int64GetDatum((int64) record->dropped);
	values[n++] = TimestampTzGetDatum(record->ended_at);
	nulls[n] = record->event == XACT_EVENT_PREPARE;
	values[n++] = BoolGetDatum(record->event == XACT_EVENT_COMMIT);
	values[n++] = ObjectIdGetDatum(record->role);
	values[n++] = CStringGetTextDatum(sf_ring_text(record,
												   SF_TEXT_APPLICATION));
	nulls[n] = address[0] == '\0';
	values[n] = nulls[n] ? (Datum) 0 :
		DirectFunctionCall1(inet_in, CStringGetDatum(address));
	n++;
	values[n++] = Int32GetDatum(record->pid);
	nulls[n] = record->xid == 0;
	values[n++] = UInt64GetDatum(record->xid);
	nulls[n] = layout[0] == '\0';
	values[n] = nulls[n] ? (Datum) 0 : CStringGetTextDatum(layout);
	n++;
	nulls[n] = record->shard == SF_NO_SHARD;
	values[n++] = Int32GetDatum(record->shard);
	values[n++] = Int64GetDatum(record->first);
	values[n++] = Int64GetDatum(record->last);
	values[n++] = Int64GetDatum((int64) record->count);
	Assert(n == RING_COLUMNS);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * snowflake_audit.ring(start bigint, until bigint) returns rows: the records
 * of this database from one position up to another one, exclusive, that are
 * still in shared memory
 */
Datum
snowflake_audit_ring(PG_FUNCTION_ARGS)
{
	uint64		position = (uint64) Max(PG_GETARG_INT64(0), 0);
	uint64		until = (uint64) Max(PG_GETARG_INT64(1), 0);
	SfRing	   *ring = sf_ring_of_database();
	uint64		head;

	InitMaterializedSRF(fcinfo, 0);
	if (ring == NULL)
		return (Datum) 0;
	head = pg_atomic_read_u64(&ring->head);
	until = Min(until, head);
	if (head > (uint64) sf_audit_ring_size)
		position = Max(position, head - sf_audit_ring_size);
	for (; position < until; position++)
	{
		SfRecord	record;

		CHECK_FOR_INTERRUPTS();
		if (sf_ring_copy(ring, position, &record) &&
			record.database == MyDatabaseId)
			put_record((ReturnSetInfo *) fcinfo->resultinfo, position,
					   &record);
	}
	return (Datum) 0;
}

/*
 * snowflake_audit.status() returns rows: each audited database, and how its
 * ring is doing
 */
Datum
snowflake_audit_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < sf_ring_count; i++)
	{
		SfRing	   *ring = sf_ring_get(i);
		uint64		tail = sf_ring_tail(ring);
		uint64		head = pg_atomic_read_u64(&ring->head);
		uint32		pid = pg_atomic_read_u32(&ring->pid);
		char		problem[SF_PROBLEM_SIZE];
		Datum		values[STATUS_COLUMNS] = {
			NameGetDatum(&ring->name), Int32GetDatum((int32) pid),
			Int64GetDatum((int64) (tail - pg_atomic_read_u64(&ring->skipped))),
			Int64GetDatum((int64) (head - tail)),
			Int32GetDatum(sf_audit_ring_size),
			Int64GetDatum((int64) pg_atomic_read_u64(&ring->dropped_ever))
		};
		bool		nulls[STATUS_COLUMNS] = {false, pid == 0};

		sf_ring_get_problem(ring, problem);
		if (problem[0] == '\0' && pid == 0 && !RecoveryInProgress())
			strlcpy(problem, "no worker runs: one begins within a minute, or max_worker_processes is too small",
					sizeof(problem));
		nulls[6] = problem[0] == '\0';
		values[6] = CStringGetTextDatum(problem);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

/* ---- settings ---- */

static bool
is_listed(const List *databases, const char *name)
{
	ListCell   *cell;

	foreach(cell, databases)
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

/*
 * Return the databases of the setting, or NIL with *valid = false.  One that
 * is named twice is audited once: two workers would write each record twice.
 */
static List *
split_databases(const char *setting, bool *valid)
{
	List	   *listed = NIL;
	List	   *databases = NIL;
	ListCell   *cell;

	*valid = SplitGUCList(pstrdup(setting), ',', &listed) &&
		list_length(listed) <= MAX_DATABASES;
	foreach(cell, listed)
	{
		/* the server may cut it elsewhere, at the end of a character */
		if (strlen(lfirst(cell)) >= NAMEDATALEN)
			*valid = false;
		if (*valid && !is_listed(databases, lfirst(cell)))
			databases = lappend(databases, lfirst(cell));
	}
	list_free(listed);
	return databases;
}

static bool
check_databases(char **newval, void **extra, GucSource source)
{
	bool		valid;
	List	   *databases = split_databases(*newval, &valid);

	if (!valid)
	{
		GUC_check_errdetail("It must be a list of at most %d names of databases, each of at most %d bytes, separated by commas.",
							MAX_DATABASES, NAMEDATALEN - 1);
		GUC_check_errhint("Example, where one name has blanks: snowflake_audit.databases = 'app, \"my shop\"'");
	}
	list_free(databases);
	return valid;
}

static void
define_settings(void)
{
	DefineCustomStringVariable("snowflake_audit.databases",
							   "Databases in which snowflake_audit records who made IDs.",
							   "A list, separated by commas. Each needs one of max_worker_processes, and the extension snowflake_audit.",
							   &sf_audit_databases, "", PGC_POSTMASTER,
							   GUC_LIST_INPUT, check_databases, NULL, NULL);
	DefineCustomIntVariable("snowflake_audit.ring_size",
							"Records of each audited database that can wait to be written.",
							"If there is no room, records are dropped and counted. A record takes about 400 bytes of shared memory.",
							&sf_audit_ring_size, 16384, 16, 1048576,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("snowflake_audit.keep",
							"How long the log keeps records.",
							"A day's partition is dropped when the whole day is older than this.",
							&sf_audit_keep, 7 * 24 * 60, 24 * 60,
							3650 * 24 * 60, PGC_SIGHUP, GUC_UNIT_MIN, NULL,
							NULL, NULL);
	MarkGUCPrefixReserved("snowflake_audit");
}

/*
 * Define the settings.  If their names were not known yet, the server would
 * only warn of a wrong list, and audit nothing: here it does not start.
 */
static void
define_settings_strictly(void)
{
	const char *name = "snowflake_audit.databases";
	const char *text = GetConfigOption(name, true, false);

	text = text == NULL ? NULL : pstrdup(text);
	define_settings();
	if (text != NULL && !IsUnderPostmaster)
		(void) set_config_option(name, text, PGC_POSTMASTER, PGC_S_FILE,
								 GUC_ACTION_SET, false, FATAL, false);
}

void
_PG_init(void)
{
	bool		valid;
	List	   *databases;
	ListCell   *cell;
	int			i = 0;

	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings_strictly();
	databases = split_databases(sf_audit_databases, &valid);
	if (databases == NIL || IsBinaryUpgrade)
		return;
	sf_ring_install(databases);
	foreach(cell, databases)
		sf_audit_worker_register(i++, lfirst(cell));
}
