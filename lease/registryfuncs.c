/*-------------------------------------------------------------------------
 *
 * registryfuncs.c
 *	  SQL functions that administer a registry, and two for the database of a
 *	  registry in PostgreSQL: snowflake_registry.layout() and .files().
 *
 * The first ones ask the registry in snowflake.registry, of whatever kind.  In
 * the database of a registry in PostgreSQL, administrators call functions of
 * the extension snowflake_registry: sql/snowflake_registry--1.0.sql.  Its
 * server need not preload the library, so the two use no shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/durable_file.h"
#include "base/place.h"
#include "base/read_only.h"
#include "base/text.h"
#include "base/timefmt.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lease/lease_worker.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#define SLOT_COLUMNS	10

SF_FUNCTION(snowflake_registry_init);
SF_FUNCTION(snowflake_registry_recover);
SF_FUNCTION(snowflake_registry_slots);
SF_FUNCTION(snowflake_registry_release);
SF_FUNCTION(snowflake_registry_layout);
SF_FUNCTION(snowflake_registry_files);

/* A message shows at most this many bytes of a text. */
#define MAX_SHOWN	200

#define MARK_FILE	SF_PLACE_DIR "/snowflake_registry"

static void
require_writable(const char *function)
{
	if (XactReadOnly)
		sf_read_only_refuse(function);
}

/*
 * Read a layout of which node ids can be leased.  The names "node" and "shard"
 * are refused: the layout is that of the servers.  Throws SQLSTATE 22023.
 */
static void
read_layout(SfLayout *layout, const text *t)
{
	char		reason[SF_REASON_SIZE];
	char	   *str = text_to_cstring(t);

	if (!sf_layout_parse(layout, str, reason, sizeof(reason)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid layout: \"%.*s\"",
						pg_mbcliplen(str, strlen(str), MAX_SHOWN), str),
				 errdetail("%s", reason),
				 errhint("On a server that leases, run SELECT layout FROM snowflake_layouts() WHERE name = 'node'; and give that layout here.")));
	if (layout->node_bits == 0 || sf_layout_has(layout, SF_SHARD))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no server can lease a node id of this layout"),
				 layout->node_bits == 0 ?
				 errdetail("It has no field for a node.") :
				 errdetail("It has the field \"shard\"."),
				 errhint("Give the layout that the servers have as snowflake.layout. Shards are not leased.")));
}

/*
 * snowflake_registry.layout(layout text) returns a row: the text that workers
 * compare, the epoch, and the tick.  The server of a registry in PostgreSQL
 * need not have the library preloaded.  Throws SQLSTATE 22023.
 */
Datum
snowflake_registry_layout(PG_FUNCTION_ARGS)
{
	SfLayout	layout;
	char		spelled[SF_LAYOUT_TEXT_SIZE];
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	read_layout(&layout, PG_GETARG_TEXT_PP(0));
	sf_layout_print(&layout, spelled, sizeof(spelled));
	values[0] = CStringGetTextDatum(spelled);
	values[1] = Int64GetDatum(layout.epoch_ms);
	values[2] = Int32GetDatum(layout.tick_ms);
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/*
 * snowflake_registry_init(layout text DEFAULT NULL) returns boolean
 *
 * Create a registry for servers with this layout, by default this server's;
 * return false if there is one.  Throws SQLSTATE 22023, 25006, 55000, 58000
 * (registry_session.c).
 */
Datum
snowflake_registry_init(PG_FUNCTION_ARGS)
{
	SfRegistryChange change = {.kind = SF_ASK_INITIALIZE};

	require_writable("snowflake_registry_init()");
	sf_registry_session_require("init");
	if (PG_ARGISNULL(0))
		change.layout = *sf_core->layout;
	else
		read_layout(&change.layout, PG_GETARG_TEXT_PP(0));
	PG_RETURN_BOOL(sf_registry_session_change(&change));
}

/* Convert a registry's tick, which may be any number, into Unix ms. */
static int64
get_ms(const SfLayout *layout, int64 tick)
{
	tick = Max(0, Min(tick, SF_END_OF_TICKS));
	return sf_layout_after_epoch_ms(layout, tick);
}

/*
 * Convert the arguments into ms from now on: to the end of the first, and of
 * both.  SQLSTATE 22004, 22023.
 */
static void
get_ahead_ms(FunctionCallInfo fcinfo, SfRegistryChange *change)
{
	/* in UTC, where each day has 24 hours */
	Timestamp	now = GetCurrentTimestamp();
	Datum		then = TimestampGetDatum(now);

	for (int i = 0; i < 2; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("largest_reserve and largest_offset must not be null"),
					 errhint("Leave an argument out to get its default.")));
		then = DirectFunctionCall2(timestamp_pl_interval, then,
								   PG_GETARG_DATUM(i));
		if (DatumGetTimestamp(then) < now ||
			DatumGetTimestamp(then) - now > SF_RECOVERY_MAX_MS * 1000)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("largest_reserve and largest_offset must be from 0 to 31 days together"),
					 errhint("Give the largest snowflake.lease_reserve of all servers, and how far clocks may be off.")));
		change->ahead_ms = (DatumGetTimestamp(then) - now + 999) / 1000;
		if (i == 0)
			change->reserve_ms = change->ahead_ms;
	}
}

/*
 * snowflake_registry_recover(largest_reserve interval,
 *							  largest_offset interval) returns timestamptz
 *
 * Recover after a loss of data: no claim begins before what any server may
 * have reserved, which is what is given, or more if the registry knows of
 * more.  A registry that is empty is created, with this server's layout.
 * Throws SQLSTATE 22004, 22023, 25006, 55000, 58000 (registry_session.c).
 */
Datum
snowflake_registry_recover(PG_FUNCTION_ARGS)
{
	SfRegistryChange change = {.kind = SF_ASK_RECOVER};
	int64		floor_ms;

	require_writable("snowflake_registry_recover()");
	sf_registry_session_require("recover");
	change.layout = *sf_core->layout;
	get_ahead_ms(fcinfo, &change);
	sf_registry_session_change(&change);
	floor_ms = get_ms(&change.floor_layout, change.floor);
	PG_RETURN_TIMESTAMPTZ(sf_timefmt_from_ms(floor_ms));
}

/* Return an address; NULL if the text is none. */
static Datum
get_address(const SfSlotRecord *record, bool *isnull)
{
	unsigned char address[sizeof(struct in6_addr)];
	int			family = strchr(record->address, ':') != NULL ?
		AF_INET6 : AF_INET;

	*isnull = inet_pton(family, record->address, address) != 1;
	return *isnull ? (Datum) 0 :
		DirectFunctionCall1(inet_in, CStringGetDatum(record->address));
}

static void
put_slot(ReturnSetInfo *rsinfo, const SfLayout *layout, SfSlotRecord *record)
{
	Datum		values[SLOT_COLUMNS];
	bool		nulls[SLOT_COLUMNS] = {0};
	bool		written = record->version != 0;
	int64		until_ms = get_ms(layout, record->until);
	char	   *holder = psprintf("%llx", (unsigned long long) record->owner);
	Interval	offset = {.time = record->offset_ms * 1000};

	sf_text_make_printable(record->host);
	values[0] = Int64GetDatum(record->node);
	values[1] = CStringGetTextDatum(record->host);
	values[2] = get_address(record, &nulls[2]);
	values[3] = Int32GetDatum(record->process);
	values[4] = CStringGetTextDatum(holder);
	values[5] = TimestampTzGetDatum(sf_timefmt_from_ms(record->since_ms));
	values[6] = TimestampTzGetDatum(sf_timefmt_from_ms(until_ms));
	values[7] = BoolGetDatum(record->present != 0);
	values[8] = BoolGetDatum(record->released);
	values[9] = IntervalPGetDatum(&offset);
	nulls[1] = nulls[4] = nulls[6] = nulls[9] = !written;
	nulls[3] = nulls[5] = record->since_ms == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_registry_slots() returns rows, by slot
 *
 * List the holders.  Throws SQLSTATE 55000, 58000 (registry_session.c).
 */
Datum
snowflake_registry_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfSlotRecord *records;
	SfLayout	layout;
	int			n;

	sf_registry_session_require("slots");
	InitMaterializedSRF(fcinfo, 0);
	records = sf_registry_session_slots(&layout, &n);
	for (int i = 0; i < n; i++)
		put_slot(rsinfo, &layout, &records[i]);
	return (Datum) 0;
}

/*
 * snowflake_registry_release(slot bigint) returns boolean
 *
 * Free the slot of a holder that is gone; return false if it had no holder.
 * Throws SQLSTATE 22004, 25006; 55000, 58000 (registry_session.c).
 */
Datum
snowflake_registry_release(PG_FUNCTION_ARGS)
{
	SfRegistryChange change = {.kind = SF_ASK_RELEASE};
	int64		slot = PG_GETARG_INT64(0);

	require_writable("snowflake_registry_release()");
	sf_registry_session_require("release");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("slot must not be null"),
				 errhint("SELECT * FROM snowflake_registry_slots() lists the slots.")));
	if (slot < 0 || slot > PG_UINT32_MAX)
		PG_RETURN_BOOL(false);
	change.node = (uint32) slot;
	PG_RETURN_BOOL(sf_registry_session_change(&change));
}

/* ---- which data directory a registry in PostgreSQL is in ---- */

/*
 * A base backup that starts without a recovery.signal keeps the system
 * identifier and the timeline, and has lost what was written since.  Two
 * things distinguish it: the place of the data directory, and a random number
 * in a file that base backups leave out (place.h).  Making a database a
 * registry, or recovering one, creates and records both.
 *
 * The machine and the directory's inode prove nothing: a container that is
 * made again, a disk that another machine takes over, and some file systems
 * change them, and a false alarm would stop all servers.  If files are copied
 * back to their old place, the leasing servers notice it, because they
 * remember what the registry had (registry_age.c).
 */

/*
 * Return the random number, or 0 if there is none.  If its file is unreadable,
 * throw an error: a new number would turn this directory into a copy.
 */
static uint64
read_mark(void)
{
	void	   *data;
	size_t		size;
	uint64		mark = 0;

	if (sf_durable_file_read(MARK_FILE, &data, &size) && size == sizeof(mark))
		memcpy(&mark, data, sizeof(mark));
	if (data != NULL)
		pfree(data);
	if (mark == 0 && sf_durable_file_exists(MARK_FILE))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\" in the data directory",
						MARK_FILE),
				 errhint("Make it readable for the server. If it is damaged, remove it, and run in the registry's database: SELECT snowflake_registry.recover();")));
	return mark;
}

/* Create the number, unless another session has done so meanwhile. */
static uint64
make_mark(void)
{
	uint64		mark;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	mark = read_mark();
	if (mark == 0)
	{
		if (!pg_strong_random(&mark, sizeof(mark)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random number")));
		mark |= 1;
		(void) sf_place_make_dir(ERROR);
		(void) sf_durable_file_write(MARK_FILE, &mark, sizeof(mark), ERROR);
	}
	LWLockRelease(AddinShmemInitLock);
	return mark;
}

/*
 * snowflake_registry.files(make boolean) returns bigint
 *
 * Return a number that no copy of this data directory has; 0 if it has none
 * and "make" is false.  A number, once made, stays, so making one gives a
 * caller no advantage.
 *
 * Only a transaction that begins or recovers a registry sets "make".  It must
 * see what workers have written while it waited for them.
 *
 * Throws SQLSTATE 25000, 25006, XX001, and errors of files.
 */
Datum
snowflake_registry_files(PG_FUNCTION_ARGS)
{
	bool		make = PG_GETARG_BOOL(0);
	uint64		mark = read_mark();
	SfPlace		here;

	if (make && IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot begin or recover a registry at this isolation level"),
				 errdetail("The snapshot may be older than the lock on the registry, and miss what servers have reserved."),
				 errhint("Use READ COMMITTED.")));
	if (mark == 0 && !make)
		PG_RETURN_INT64(0);
	if (mark == 0)
	{
		if (XactReadOnly)
			sf_read_only_refuse("snowflake_registry.files()");
		mark = make_mark();
	}
	sf_place_find(&here);
	PG_RETURN_INT64((int64) (hash_bytes_extended((unsigned char *) here.path,
												 (int) strlen(here.path),
												 mark) | 1));
}
