/*-------------------------------------------------------------------------
 *
 * registry_admin.c
 *	  The SQL functions of those who look after a registry.
 *
 * Where snowflake.registry names one, the worker asks that, of whatever kind.
 * Elsewhere the registry is this database: then what is done is done by SQL
 * functions, snowflake_registry_..._here(), in the transaction and with the
 * rights of the caller.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "errand.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "guard.h"
#include "layout_arg.h"
#include "mb/pg_wchar.h"
#include "settings.h"
#include "times.h"
#include "utils/builtins.h"
#include "utils/inet.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* snowflake.lease_reserve is a day at the most. */
#define AHEAD_MAX_MS	(INT64CONST(31) * 24 * 3600 * 1000)

#define SLOT_COLUMNS	10

SF_FUNCTION(snowflake_registry_init);
SF_FUNCTION(snowflake_registry_recover);
SF_FUNCTION(snowflake_registry_slots);
SF_FUNCTION(snowflake_registry_release);

static bool
is_elsewhere(void)
{
	return sf_state != NULL && sf_settings_leases();
}

static void
require_writable(const char *function)
{
	if (XactReadOnly)
		sf_guard_refuse_read_only(function);
}

/* ---- the registry in this database ---- */

/* Call "<the extension's schema>.<function>(...)" between SPI's two ends. */
static void
call_here(FunctionCallInfo fcinfo, const char *function, int n, Oid *types,
		  Datum *values)
{
	static const char *const args[] = {"", "$1", "$1, $2"};
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	char	   *call = psprintf("SELECT * FROM %s.%s(%s)",
								quote_identifier(get_namespace_name(schema)),
								function, args[n]);

	if (SPI_execute_with_args(call, n, types, values, NULL, false, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not execute: %s", call);
}

/* The one value, of a type that is passed by value. */
static Datum
call_for_value(FunctionCallInfo fcinfo, const char *function, int n,
			   Oid *types, Datum *values)
{
	Datum		value;

	SPI_connect();
	call_here(fcinfo, function, n, types, values);
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
						  &fcinfo->isnull);
	SPI_finish();
	return value;
}

static void
put_slots_here(FunctionCallInfo fcinfo, ReturnSetInfo *rsinfo)
{
	SPI_connect();
	call_here(fcinfo, "snowflake_registry_slots_here", 0, NULL, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
		tuplestore_puttuple(rsinfo->setResult, SPI_tuptable->vals[i]);
	SPI_finish();
}

/* ---- the functions ---- */

static void
configured_layout(SfJob *job)
{
	job->layout = sf_node_layout;
	sf_layout_print(&job->layout, job->layout_text, sizeof(job->layout_text));
}

/*
 * snowflake_registry_init(layout text DEFAULT NULL) returns boolean
 *
 * Make it a registry for servers with this layout; false if it is one.  The
 * layout is that of this server, or the default one where nothing is
 * preloaded.  Throws SQLSTATE 22023, 25006; 55000, 58000 (errand.c).
 */
Datum
snowflake_registry_init(PG_FUNCTION_ARGS)
{
	SfJob		job = {.kind = SF_JOB_INIT};
	Oid			types[] = {TEXTOID};
	Datum		values[1];
	bool		changed;

	require_writable("snowflake_registry_init()");
	if (!PG_ARGISNULL(0))
	{
		job.layout = *sf_layout_arg(fcinfo, 0);
		sf_layout_print(&job.layout, job.layout_text,
						sizeof(job.layout_text));
	}
	else if (sf_state != NULL)
		configured_layout(&job);
	else
		strlcpy(job.layout_text, "snowflake", sizeof(job.layout_text));
	if (is_elsewhere())
	{
		changed = sf_errand_begin(&job)->changed;
		sf_errand_end();
		PG_RETURN_BOOL(changed);
	}
	values[0] = CStringGetTextDatum(job.layout_text);
	return call_for_value(fcinfo, "snowflake_registry_init_here", 1, types,
						  values);
}

/* Of a registry's ticks, which are whatever somebody has written there. */
static int64
get_ms(const SfLayout *layout, int64 tick)
{
	tick = Max(0, Min(tick, SF_END_OF_TICKS));
	return (layout->epoch_tick + tick) * layout->tick_ms;
}

/* So long from now on, in ms; SQLSTATE 22004, 22023. */
static int64
get_ahead_ms(FunctionCallInfo fcinfo)
{
	TimestampTz now = GetCurrentTimestamp();
	Datum		then = TimestampTzGetDatum(now);

	for (int i = 0; i < 2; i++)
	{
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("largest_reserve and largest_offset must not be null")));
		then = DirectFunctionCall2(timestamptz_pl_interval, then,
								   PG_GETARG_DATUM(i));
		if (DatumGetTimestampTz(then) < now ||
			DatumGetTimestampTz(then) - now > AHEAD_MAX_MS * 1000)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("largest_reserve and largest_offset must be from 0 to 31 days"),
					 errhint("Give the largest snowflake.lease_reserve of all servers, and how far clocks may be off.")));
	}
	return (DatumGetTimestampTz(then) - now + 999) / 1000;
}

/*
 * snowflake_registry_recover(largest_reserve interval,
 *							  largest_offset interval) returns timestamptz
 *
 * After a loss of data: let nobody claim a slot before what any server may
 * have reserved.  NULL where this database is to be the registry, and is none;
 * elsewhere one is made, with this server's layout.  Throws SQLSTATE 22004,
 * 22023, 25006; 55000, 58000 (errand.c).
 */
Datum
snowflake_registry_recover(PG_FUNCTION_ARGS)
{
	SfJob		job = {.kind = SF_JOB_RECOVER};
	Oid			types[] = {INTERVALOID, INTERVALOID};
	const SfJobReply *reply;
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];
	int64		floor_ms;

	require_writable("snowflake_registry_recover()");
	job.ahead_ms = get_ahead_ms(fcinfo);
	if (!is_elsewhere())
	{
		Datum		values[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};

		return call_for_value(fcinfo, "snowflake_registry_recover_here", 2,
							  types, values);
	}
	configured_layout(&job);
	reply = sf_errand_begin(&job);
	if (!sf_layout_parse(&layout, reply->layout, reason, sizeof(reason)))
		elog(ERROR, "the registry's layout is none: %s", reason);
	floor_ms = get_ms(&layout, reply->floor);
	sf_errand_end();
	PG_RETURN_TIMESTAMPTZ(sf_times_from_ms(floor_ms));
}

/* NULL where the text is no address. */
static Datum
get_address(const SfRecord *record, bool *isnull)
{
	*isnull = record->address[0] == '\0' ||
		strspn(record->address, "0123456789abcdefABCDEF:.") !=
		strlen(record->address);
	return *isnull ? (Datum) 0 :
		DirectFunctionCall1(inet_in, CStringGetDatum(record->address));
}

static void
put_slot(ReturnSetInfo *rsinfo, const SfLayout *layout,
		 const SfRecord *record)
{
	Datum		values[SLOT_COLUMNS];
	bool		nulls[SLOT_COLUMNS] = {0};
	bool		written = record->version != 0;
	int64		until_ms = get_ms(layout, record->until);
	char	   *holder = psprintf("%llx", (unsigned long long) record->owner);
	Interval	offset = {.time = record->offset_ms * 1000};

	values[0] = Int64GetDatum(record->node);
	values[1] = CStringGetTextDatum(record->host);
	values[2] = get_address(record, &nulls[2]);
	values[3] = Int32GetDatum(record->process);
	values[4] = CStringGetTextDatum(holder);
	values[5] = TimestampTzGetDatum(sf_times_from_ms(record->since_ms));
	values[6] = TimestampTzGetDatum(sf_times_from_ms(until_ms));
	values[7] = BoolGetDatum(record->present != 0);
	values[8] = BoolGetDatum(record->released);
	values[9] = IntervalPGetDatum(&offset);
	nulls[1] = !written ||
		!pg_verifymbstr(record->host, strlen(record->host), true);
	nulls[4] = nulls[6] = nulls[9] = !written;
	nulls[3] = nulls[5] = record->since_ms == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_registry_slots() returns rows, by slot: who has it.  Throws
 * SQLSTATE 55000, 58000 (errand.c).
 */
Datum
snowflake_registry_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfJob		job = {.kind = SF_JOB_SLOTS};
	const SfJobReply *reply;
	SfLayout	layout;
	char		reason[SF_REASON_SIZE];
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	if (!is_elsewhere())
	{
		put_slots_here(fcinfo, rsinfo);
		return (Datum) 0;
	}
	reply = sf_errand_begin(&job);
	n = reply->nrecords;
	if (!sf_layout_parse(&layout, reply->layout, reason, sizeof(reason)))
		layout = sf_node_layout;
	for (int i = 0; i < n; i++)
		put_slot(rsinfo, &layout, sf_errand_next());
	sf_errand_end();
	return (Datum) 0;
}

/*
 * snowflake_registry_release(slot bigint) returns boolean
 *
 * Free the slot of a holder that is gone; false if nobody held it.  Throws
 * SQLSTATE 22004, 25006; 55000, 58000 (errand.c).
 */
Datum
snowflake_registry_release(PG_FUNCTION_ARGS)
{
	SfJob		job = {.kind = SF_JOB_RELEASE};
	Oid			types[] = {INT8OID};
	Datum		values[] = {PG_GETARG_DATUM(0)};
	int64		slot = PG_GETARG_INT64(0);
	bool		changed;

	require_writable("snowflake_registry_release()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("slot must not be null")));
	if (!is_elsewhere())
		return call_for_value(fcinfo, "snowflake_registry_release_here", 1,
							  types, values);
	if (slot < 0 || slot > PG_UINT32_MAX)
		PG_RETURN_BOOL(false);
	job.node = (uint32) slot;
	changed = sf_errand_begin(&job)->changed;
	sf_errand_end();
	PG_RETURN_BOOL(changed);
}
