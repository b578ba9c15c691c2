/*-------------------------------------------------------------------------
 *
 * adminfuncs.c
 *	  SQL functions for administrators and probes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"

#include "access/htup_details.h"
#include "base/clock.h"
#include "base/message.h"
#include "fmgr.h"
#include "funcapi.h"
#include "generate/generator.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "mark/mark.h"
#include "mb/pg_wchar.h"
#include "query/query.h"
#include "runtime/preconditions.h"
#include "runtime/right.h"
#include "runtime/settings.h"
#include "runtime/shmem.h"
#include "storage/fd.h"
#include "table/table.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* snowflake_advance() goes no further ahead of the clock without force. */
#define ADVANCE_UNFORCED_MS	(INT64CONST(24) * 3600 * 1000)

/* A message shows at most this many bytes of a text. */
#define MAX_SHOWN	40

SF_FUNCTION(snowflake_advance);
SF_FUNCTION(snowflake_accept);
SF_FUNCTION(snowflake_ready);
SF_FUNCTION(snowflake_ready_layout);
SF_FUNCTION(snowflake_initialize);
SF_FUNCTION(snowflake_lease);
SF_FUNCTION(snowflake_clock);
SF_FUNCTION(snowflake_stat_get);
SF_FUNCTION(snowflake_stat_layouts);
SF_FUNCTION(snowflake_stat_reset);

/* What to do with an ID that may be of another layout. */
#define CHECK_ID \
	"If the ID was made with another layout, such as 'shard', name that: SELECT %s.snowflake_advance('%lld'::bigint, 'LAYOUT');"

/* Throw an error if the layout would have no ID left. */
static void
refuse_end(const SfLayout *layout, int64 id, int64 floor_ms)
{
	int64		end_ms = layout->end_tick * layout->tick_ms;

	if (floor_ms >= end_ms)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("no ID would be left to issue"),
				 errdetail("The ID lies at %s, and a configured layout ends at %s.",
						   sf_timefmt_show(floor_ms), sf_timefmt_show(end_ms)),
				 errhint(CHECK_ID, sf_extschema(), (long long) id)));
}

/*
 * Check the ID against our layout.  An ID of another layout can be above the
 * IDs made for the same time and later: then new IDs would rise through the
 * existing ones.  That is no danger if a column's default makes IDs of the
 * other layout.
 */
static void
require_above(const SfLayout *layout, int64 id, int64 from_ms)
{
	const SfLayout *ours = sf_layout_has(layout, SF_SHARD) ?
		&sf_shard_layout : &sf_node_layout;
	char		text[SF_LAYOUT_TEXT_SIZE];
	char		ids[SF_LAYOUT_TEXT_SIZE];

	/* from_ms is within the life of both, but may be before the epoch */
	if (sf_layout_ms_to_tick(ours, from_ms) >= ours->epoch_tick &&
		sf_layout_min_id(ours, sf_layout_ms_to_tick(ours, from_ms)) > id)
		return;
	if (sf_key_layout_is_used(layout))
		return;
	sf_layout_print(ours, text, sizeof(text));
	sf_layout_print(layout, ids, sizeof(ids));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("IDs of the configured layout would not be above this ID"),
			 errdetail("The configured layout is \"%s\".", text),
			 errhint("Name the layout of the ID in the default of its column. Or, if old and new IDs never share a column, run: SELECT %s.snowflake_advance('%lld'::bigint, '%s', true);",
					 sf_extschema(), (long long) id, ids)));
}

/*
 * Say so if the mark lies above an old ID already: perhaps the ID was made
 * later, with another layout.
 */
static void
doubt(const SfLayout *layout, int64 id, int64 floor_ms)
{
	char		text[SF_LAYOUT_TEXT_SIZE];

	if (floor_ms > sf_clock_wall_ms() - ADVANCE_UNFORCED_MS ||
		floor_ms > (int64) pg_atomic_read_u64(&sf_mark_attached->mark))
		return;
	sf_layout_print(layout, text, sizeof(text));
	ereport(NOTICE,
			(errmsg("the mark was not moved, since it is above this ID already"),
			 errdetail("In the layout \"%s\" the ID was made at %s, with node id %llu.",
					   text, sf_timefmt_show(floor_ms),
					   (unsigned long long) sf_layout_node(layout, id)),
			 errhint(CHECK_ID, sf_extschema(), (long long) id)));
}

/*
 * snowflake_advance(id bigint [, layout text [, force boolean]])
 *		returns timestamptz
 *
 * Never issue an ID at or below this one again; return the end of its tick.
 * The ID is read in the given layout, or in snowflake.layout.  A number that
 * cannot be read is mended first, as by snowflake_recover().  Throws SQLSTATE
 * 22003 (negative, not of the layout, or beyond its end), 22008 (more than a
 * day ahead, and not forced), 22023 (new IDs would be below, and not forced;
 * not a layout), 22004, 58000 (the clock has jumped).
 */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	const SfLayout *layout;
	int64		id;
	bool		force = false;
	int64		floor_ms;
	int64		now_ms;

	sf_require_writable("snowflake_advance()");
	if (PG_ARGISNULL(0) || (PG_NARGS() > 2 && PG_ARGISNULL(2)))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("id and force must not be null"),
				 errhint("The largest ID of an empty table is null: then nothing needs to be done.")));
	id = PG_GETARG_INT64(0);
	if (PG_NARGS() > 2)
		force = PG_GETARG_BOOL(2);
	layout = PG_NARGS() < 2 || PG_ARGISNULL(1) ? &sf_node_layout :
		sf_layout_arg(fcinfo, 1);
	sf_layout_arg_require_fit(layout, id);
	floor_ms = (sf_layout_tick(layout, id) + 1) * layout->tick_ms;
	refuse_end(&sf_node_layout, id, floor_ms);
	refuse_end(&sf_shard_layout, id, floor_ms);
	now_ms = sf_clock_wall_ms();
	if (floor_ms > now_ms + ADVANCE_UNFORCED_MS && !force)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("ID lies more than a day ahead of the wall clock"),
				 errdetail("Its time is %s; this database would make no IDs until then.",
						   sf_timefmt_show(floor_ms)),
				 errhint(CHECK_ID " If a wrong clock made it, run as the owner of its table: SELECT * FROM %s.snowflake_renumber('TABLE'::pg_catalog.regclass, 'COLUMN'::pg_catalog.name, '%lld'::bigint, '%lld'::bigint, false);",
						 sf_extschema(), (long long) id, sf_extschema(),
						 (long long) id, (long long) id)));
	if (!force)
		require_above(layout, id, Max(floor_ms, now_ms));
	if (sf_recover_numbers(floor_ms))
	{
		ereport(NOTICE,
				(errmsg("the mark or the recorded configuration could not be read, and was made anew"),
				 errhint(SF_RECOVER_REMEDY, sf_extschema())));
		PG_RETURN_TIMESTAMPTZ(sf_timefmt_from_ms(floor_ms));
	}
	sf_mark_require();
	doubt(layout, id, floor_ms);
	(void) sf_mark_advance(floor_ms);
	PG_RETURN_TIMESTAMPTZ(sf_timefmt_from_ms(floor_ms));
}

/* Trust the present wall clock after a jump. */
static void
accept_clock(void)
{
	if (!sf_clock_jump_accept())
		ereport(NOTICE,
				(errmsg("nothing to accept: the clock has not jumped"),
				 errhint("If IDs are refused because the mark is ahead of the clock, %s",
						 sf_check_step("mark"))));
}

#define REINDEX \
	"REINDEX partial indexes whose predicate names the layout 'node' or 'shard'."

/*
 * Record the configured layouts in this database, replacing others.  Warn if
 * that endangers IDs.
 */
static void
accept_configuration(void)
{
	StringInfoData detail;
	SfDurableNumbers numbers;
	SfStatus	status = {0};

	/* a record counts here also if the mark was lost, or is damaged */
	sf_durable_numbers_find(NULL);
	sf_durable_record_read(&numbers);
	numbers.value[SF_DURABLE_MARK] =
		sf_status_numbers(&status)->read.value[SF_DURABLE_MARK];
	if (numbers.value[SF_DURABLE_MARK] == 0)
		numbers.value[SF_DURABLE_MARK] = sf_clock_wall_ms();
	initStringInfo(&detail);
	if (!sf_config_record_is_other(&numbers) ||
		!sf_config_record_differs(&numbers, &detail))
	{
		ereport(NOTICE,
				(errmsg("nothing to accept: no other configuration is recorded in this database")));
		return;
	}
	if (sf_config_record_endangers(&numbers))
		ereport(WARNING,
				(errmsg("IDs made from now on can repeat IDs that are already in this database, and sort before them"),
				 errdetail("%s", detail.data),
				 errhint("Keep a unique index on every column that holds IDs, or put the old configuration back, restart the server, and call this function again. " REINDEX)));
	else
		ereport(WARNING,
				(errmsg("IDs that are already in this database will decode wrongly with the configured layout"),
				 errdetail("%s", detail.data),
				 errhint("Decode them with the recorded layout, spelled out. IDs made from now on are larger. " REINDEX)));
	sf_config_record_replace();
}

/*
 * Accept this copy: no other server has this data any more.  An original that
 * is not seen may run elsewhere, or start later: say what follows.
 */
static void
accept_copy(void)
{
	(void) sf_identity_look();
	if (!sf_identity_is_copy() && sf_identity_primary() == SF_NO_NUMBER)
	{
		ereport(NOTICE,
				(errmsg("nothing to accept: this data directory is no copy, or one that need not be accepted")));
		return;
	}
	sf_identity_accept();
	ereport(WARNING,
			(errmsg("this server now counts as the only one that has this data"),
			 errdetail("No other one is seen on this machine now. If the original or a copy of it runs elsewhere, or starts there later, with the same node id or shards, both servers issue the same IDs."),
			 errhint("If one of them may run, %s", sf_identity_separate(true))));
}

/*
 * Accept a configured node id on a server that has leased one: no server
 * leases from that registry any more.
 */
static void
accept_node_id(void)
{
	if (!sf_node_was_leased())
	{
		ereport(NOTICE,
				(errmsg("nothing to accept: this server has leased no node id, or snowflake.registry is set")));
		return;
	}
	(void) durable_unlink(SF_AGE_FILE, ERROR);
	ereport(WARNING,
			(errmsg("this server now takes its node id from snowflake.node_id"),
			 errdetail("If another server still leases from the registry, it can get the same node id, and both servers issue the same IDs."),
			 errhint("If another server still leases, set snowflake.registry again, and restart this server at once.")));
}

/*
 * snowflake_accept(what text) returns void
 *
 * Record that an administrator declares something right: 'clock',
 * 'configuration', 'copy' or 'node_id'.  Throws SQLSTATE 22023 (anything else,
 * or NULL); for the last two also 58030 and similar errors of writing files,
 * and for a copy 55000 (another one runs).
 */
Datum
snowflake_accept(PG_FUNCTION_ARGS)
{
	char	   *what = PG_ARGISNULL(0) ? "" :
		text_to_cstring(PG_GETARG_TEXT_PP(0));

	sf_require_writable("snowflake_accept()");
	if (strcmp(what, "clock") == 0)
		accept_clock();
	else if (strcmp(what, "configuration") == 0)
		accept_configuration();
	else if (strcmp(what, "copy") == 0)
		accept_copy();
	else if (strcmp(what, "node_id") == 0)
		accept_node_id();
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snowflake_accept() does not know \"%.*s\"",
						pg_mbcliplen(what, strlen(what), MAX_SHOWN), what),
				 errhint("Accept 'clock', 'configuration', 'copy' or 'node_id'.")));
	PG_RETURN_VOID();
}

/*
 * snowflake_ready() returns boolean
 *
 * Return true if snowflake_nextval() would succeed, perhaps after sleeping for
 * the clock; otherwise throw the error that it would throw.  Makes no ID.
 */
Datum
snowflake_ready(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_ready()");
	sf_generator_probe(0);
	PG_RETURN_BOOL(true);
}

/*
 * snowflake_ready(layout text) returns boolean
 *
 * The same for snowflake_nextval(layout).
 */
Datum
snowflake_ready_layout(PG_FUNCTION_ARGS)
{
	const SfLayout *layout;

	sf_require_writable("snowflake_ready()");
	layout = sf_layout_arg_of_ids(PG_GETARG_TEXT_PP(0));
	sf_generator_probe(sf_generator_slot_of(layout));
	PG_RETURN_BOOL(true);
}

/*
 * snowflake_internal.initialize() returns void
 *
 * Begin a new mark above the old one, if the extension is created again while
 * the server runs.  Called by the install script, which then drops it.
 */
Datum
snowflake_initialize(PG_FUNCTION_ARGS)
{
	if (sf_shmem != NULL)
		sf_mark_initialize();
	PG_RETURN_VOID();
}

static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/* ---- the lease ---- */

/*
 * snowflake_lease() returns a row: the state of the lease, which node id this
 * server has and until when, when that will be extended, the problem and its
 * remedy, the registry, and the worker.  Without a lease, only the state and
 * the node id are set.  It works without a registry, too.
 */
Datum
snowflake_lease(PG_FUNCTION_ARGS)
{
	static const char *const stages[] = {
		"no worker", "searching", "held", "expired", "halted", "given back"
	};
	Datum		values[8] = {0};
	bool		nulls[8] = {false, true, true, true, true, true, true, true};
	SfLeaseStatus status;
	char		name[200];
	uint64		lease;
	int64		until_ms;

	sf_require_loaded();
	lease = sf_shmem_right();
	until_ms = sf_settings_end_tick_of(lease) * sf_node_layout.tick_ms;
	values[0] = CStringGetTextDatum(lease != 0 ? "configured" : "not configured");
	values[1] = Int64GetDatum(sf_settings_node_of(lease));
	nulls[1] = lease == 0;
	if (!sf_settings_leases())
		return make_row(fcinfo, values, nulls);
	sf_lease_wait_status(&status);
	sf_lease_wait_registry_name(name, sizeof(name));
	values[0] = CStringGetTextDatum(stages[status.stage]);
	values[2] = TimestampTzGetDatum(sf_timefmt_from_ms(until_ms));
	values[3] = TimestampTzGetDatum(sf_timefmt_from_ms(status.next_ms));
	values[4] = CStringGetTextDatum(status.problem);
	values[5] = CStringGetTextDatum(status.remedy);
	values[6] = CStringGetTextDatum(name);
	values[7] = Int32GetDatum(status.pid);
	nulls[2] = lease == 0;
	nulls[3] = status.next_ms == 0;
	nulls[4] = status.problem[0] == '\0';
	nulls[5] = status.remedy[0] == '\0';
	nulls[6] = false;
	nulls[7] = status.pid == 0;
	return make_row(fcinfo, values, nulls);
}

/* ---- the clock ---- */

static Datum
interval_from_us(int64 us)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = us;
	return IntervalPGetDatum(interval);
}

/*
 * snowflake_clock() returns a row: the wall clock; the kernel's opinion
 * whether it is synchronized, and its largest error, NULL if unknown; and how
 * far it is ahead of the registry's, NULL without a registry.
 */
Datum
snowflake_clock(PG_FUNCTION_ARGS)
{
	Datum		values[5] = {0};
	bool		nulls[5] = {false, true, true, true, true};
	SfClockSync sync;

	values[0] = TimestampTzGetDatum(GetCurrentTimestamp());
	if (sf_clock_read_sync(&sync) == 0)
	{
		values[1] = BoolGetDatum(sync.synchronized);
		values[2] = interval_from_us(sync.max_error_us);
		values[3] = interval_from_us(sync.estimated_error_us);
		nulls[1] = nulls[2] = nulls[3] = false;
	}
	if (sf_shmem != NULL && sf_settings_leases())
	{
		SfLeaseStatus status;

		sf_lease_wait_status(&status);
		values[4] = interval_from_us(status.offset_ms * 1000);
		nulls[4] = !status.clock_known;
	}
	return make_row(fcinfo, values, nulls);
}

/* ---- the counts ---- */

#define PRESENT_COLUMNS	6		/* after the sums and peaks */

/* Return true if a sum is in microseconds. */
static bool
is_time(SfStat stat)
{
	return stat == SF_STAT_SEQUENCE_WAIT_US || stat == SF_STAT_CLOCK_WAIT_US ||
		stat == SF_STAT_MARK_WAIT_US || stat == SF_STAT_LEASE_WAIT_US ||
		stat == SF_STAT_EXTENSION_US;
}

static void
put_time(Datum *value, bool *is_null, int64 unix_ms)
{
	*is_null = unix_ms == 0;
	*value = TimestampTzGetDatum(sf_timefmt_from_ms(unix_ms));
}

/* Set the values of now: drift, mark, last timestamp, layout ends, reset. */
static void
put_present(Datum *values, bool *nulls)
{
	const SfLayout *layout = &sf_node_layout;
	int64		tick = (int64) (sf_shmem_last_position() >>
								layout->sequence_bits);
	int64		last_ms = tick * layout->tick_ms;

	values[0] = Float8GetDatum((double) Max(last_ms - sf_clock_wall_ms(), 0));
	put_time(&values[1], &nulls[1], sf_db_slot_published_mark());
	put_time(&values[2], &nulls[2], last_ms);
	put_time(&values[3], &nulls[3], layout->end_tick * layout->tick_ms);
	put_time(&values[4], &nulls[4],
			 sf_shard_layout.end_tick * sf_shard_layout.tick_ms);
	put_time(&values[5], &nulls[5],
			 (int64) pg_atomic_read_u64(&sf_shmem->stats.reset_ms));
}

/*
 * snowflake_internal.stat_get() returns a row: see pg_stat_snowflake.  Throws
 * SQLSTATE 55000 (not preloaded).
 */
Datum
snowflake_stat_get(PG_FUNCTION_ARGS)
{
	Datum		values[SF_STATS + SF_PEAKS + PRESENT_COLUMNS];
	bool		nulls[SF_STATS + SF_PEAKS + PRESENT_COLUMNS] = {0};
	SfStats    *stats;
	int			n = 0;

	sf_require_loaded();
	stats = &sf_shmem->stats;
	for (int i = 0; i < SF_STATS; i++, n++)
	{
		int64		sum = (int64) pg_atomic_read_u64(&stats->sum[i]);

		values[n] = is_time(i) ? Float8GetDatum(sum / 1000.0) :
			Int64GetDatum(sum);
	}
	for (int i = 0; i < SF_PEAKS; i++, n++)
	{
		int64		peak = (int64) pg_atomic_read_u64(&stats->peak[i]);

		values[n] = Float8GetDatum((double) peak);
		if (i == SF_PEAK_STEP_AT_MS)
			put_time(&values[n], &nulls[n], peak);
	}
	put_present(&values[n], &nulls[n]);
	return make_row(fcinfo, values, nulls);
}

/* Return how many IDs were made in the layout of a slot. */
static int64
ids_of(int slot)
{
	int64		ids;

	if (slot > 0)
		return (int64) pg_atomic_read_u64(&sf_layout_slots[slot].layout.ids);
	ids = (int64) pg_atomic_read_u64(&sf_shmem->stats.sum[SF_STAT_NODE_IDS]);
	for (int i = 1; i < sf_layout_slots_used(); i++)
		ids -= ids_of(i);
	return Max(ids, 0);			/* a transaction may be adding its counts */
}

/*
 * snowflake_internal.stat_layouts() returns setof record
 *
 * One row for each layout in use: see pg_stat_snowflake_layouts.  Throws
 * SQLSTATE 55000 (not preloaded).
 */
Datum
snowflake_stat_layouts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SfLayout	layout;

	sf_require_loaded();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; sf_layout_slot_read(i, &layout); i++)
	{
		pg_atomic_uint64 *counter = sf_layout_slot_counter(i);
		uint64		position = sf_counter_position(counter);
		int64		tick = (int64) (position >> layout.sequence_bits);
		char		spelled[SF_LAYOUT_TEXT_SIZE];
		Datum		values[4];
		bool		nulls[4] = {0};

		sf_layout_print(&layout, spelled, sizeof(spelled));
		values[0] = CStringGetTextDatum(spelled);
		values[1] = Int64GetDatum(ids_of(i));
		put_time(&values[2], &nulls[2],
				 tick < layout.epoch_tick ? 0 : tick * layout.tick_ms);
		put_time(&values[3], &nulls[3], layout.end_tick * layout.tick_ms);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}

/*
 * snowflake_stat_reset() returns void
 *
 * Set the counts to zero.  Running transactions add their counts at their end.
 */
Datum
snowflake_stat_reset(PG_FUNCTION_ARGS)
{
	SfStats    *stats;

	sf_require_loaded();
	stats = &sf_shmem->stats;
	for (int i = 0; i < SF_STATS; i++)
		pg_atomic_write_u64(&stats->sum[i], 0);
	for (int i = 0; i < SF_PEAKS; i++)
		pg_atomic_write_u64(&stats->peak[i], 0);
	for (int i = 1; i < sf_layout_slots_used(); i++)
		pg_atomic_write_u64(&sf_layout_slots[i].layout.ids, 0);
	pg_atomic_write_u64(&stats->reset_ms, sf_clock_wall_ms());
	pg_atomic_write_u64(&stats->since_ms, sf_clock_monotonic_ms());
	pg_atomic_write_u64(&stats->refused_ms, 0);
	PG_RETURN_VOID();
}
