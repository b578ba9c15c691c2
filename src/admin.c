/*-------------------------------------------------------------------------
 *
 * admin.c
 *	  The SQL functions of administrators and of probes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "clock.h"
#include "fmgr.h"
#include "funcapi.h"
#include "generator.h"
#include "guard.h"
#include "jump.h"
#include "layout_arg.h"
#include "leased.h"
#include "lib/stringinfo.h"
#include "mark.h"
#include "ranges.h"
#include "record.h"
#include "settings.h"
#include "shard.h"
#include "times.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* How far ahead of the clock snowflake_advance() goes without being forced. */
#define ADVANCE_UNFORCED_MS	(INT64CONST(24) * 3600 * 1000)

SF_FUNCTION(snowflake_advance);
SF_FUNCTION(snowflake_accept_clock);
SF_FUNCTION(snowflake_accept_configuration);
SF_FUNCTION(snowflake_ready);
SF_FUNCTION(snowflake_initialize);
SF_FUNCTION(snowflake_lease);
SF_FUNCTION(snowflake_shard_lease);
SF_FUNCTION(snowflake_registry_layout);

/* No layout may be moved to where it has no ID left. */
static void
refuse_end(const SfLayout *layout, int64 floor_ms)
{
	int64		end_ms = layout->end_tick * layout->tick_ms;

	if (floor_ms >= end_ms)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("no ID would be left to issue"),
				 errdetail("The ID lies at %s, and a configured layout ends at %s.",
						   sf_times_show(floor_ms), sf_times_show(end_ms)),
				 errhint("Check the ID. If it is one of a shard, or of another layout, name that: snowflake_advance(id, layout => current_setting('snowflake.shard_layout')).")));
}

/*
 * An ID of another layout can be above what is made for the same time and for
 * later ones: then new IDs would climb through those that are there.
 */
static void
require_above(const SfLayout *layout, int64 id, int64 from_ms)
{
	const SfLayout *ours = sf_layout_has(layout, SF_SHARD) ?
		&sf_shard_layout : &sf_node_layout;
	char		text[SF_LAYOUT_TEXT_SIZE];

	/* from_ms is within the life of both, but may be before the epoch */
	if (sf_layout_ms_to_tick(ours, from_ms) >= ours->epoch_tick &&
		sf_layout_min_id(ours, sf_layout_ms_to_tick(ours, from_ms)) > id)
		return;
	sf_layout_print(ours, text, sizeof(text));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("IDs of the configured layout would not be above this ID"),
			 errdetail("The configured layout is \"%s\".", text),
			 errhint("Configure the layout and epoch that the ID was made with. If old and new IDs never share a column, call snowflake_advance(id, force => true, layout => ...).")));
}

/*
 * snowflake_advance(id bigint, force boolean DEFAULT false,
 *					 layout text DEFAULT NULL) returns timestamptz
 *
 * Never issue at or below this ID again; returns the end of its tick.  The ID
 * reads in the given layout, or else in snowflake.layout.  Throws SQLSTATE
 * 22003 (negative, not of the layout, or beyond its end), 22008 (more than a
 * day ahead, and not forced), 22023 (new IDs would be below, and not forced;
 * not a layout), 22004.
 */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	const SfLayout *layout;
	int64		id;
	int64		floor_ms;
	int64		now_ms;

	sf_guard_writable("snowflake_advance()");
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("id and force must not be null"),
				 errhint("The largest ID of an empty table is null: then nothing needs to be done.")));
	id = PG_GETARG_INT64(0);
	layout = PG_ARGISNULL(2) ? &sf_node_layout : sf_layout_arg(fcinfo, 2);
	sf_layout_arg_require_fit(layout, id);
	sf_mark_require(fcinfo->flinfo->fn_oid);

	floor_ms = (sf_layout_tick(layout, id) + 1) * layout->tick_ms;
	refuse_end(&sf_node_layout, floor_ms);
	refuse_end(&sf_shard_layout, floor_ms);
	now_ms = sf_clock_wall_ms();
	if (floor_ms > now_ms + ADVANCE_UNFORCED_MS && !PG_GETARG_BOOL(1))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("ID lies more than a day ahead of the wall clock"),
				 errdetail("It was made for %s; this database would generate nothing until then.",
						   sf_times_show(floor_ms)),
				 errhint("Check the ID. If it is one of a shard, or of another layout, name that: snowflake_advance(id, layout => current_setting('snowflake.shard_layout')). Only if it is meant, call snowflake_advance(id, force => true).")));
	if (!PG_GETARG_BOOL(1))
		require_above(layout, id, Max(floor_ms, now_ms));
	sf_mark_advance(floor_ms);
	PG_RETURN_TIMESTAMPTZ(sf_times_from_ms(floor_ms));
}

/*
 * snowflake_accept_clock() returns void
 *
 * Take the present wall clock for right after it has jumped.
 */
Datum
snowflake_accept_clock(PG_FUNCTION_ARGS)
{
	sf_guard_writable("snowflake_accept_clock()");
	if (!sf_jump_accept())
		ereport(NOTICE,
				(errmsg("nothing to accept: the clock has not jumped"),
				 errhint("A mark that is ahead of the clock is another matter. " SF_REG_MARK_REMEDY)));
	PG_RETURN_VOID();
}

/*
 * snowflake_accept_configuration() returns void
 *
 * Record the configured epochs and layouts in this database, in place of
 * others.  Says in a WARNING what that endangers.
 */
Datum
snowflake_accept_configuration(PG_FUNCTION_ARGS)
{
	StringInfoData detail;
	int64		mark;

	sf_guard_writable("snowflake_accept_configuration()");
	sf_register_find(fcinfo->flinfo->fn_oid, NULL);
	mark = sf_register_read(SF_REG_MARK);
	initStringInfo(&detail);
	if (!sf_record_is_other() || !sf_record_differs(&detail))
	{
		ereport(NOTICE,
				(errmsg("nothing to accept: no other configuration is recorded in this database")));
		PG_RETURN_VOID();
	}
	if (sf_record_endangers(mark))
		ereport(WARNING,
				(errmsg("IDs made from now on can repeat IDs that are already in this database, and sort before them"),
				 errdetail("%s", detail.data),
				 errhint("Keep a unique index on every column that holds IDs, or put the old configuration back, restart the server, and call this function again.")));
	else
		ereport(WARNING,
				(errmsg("IDs that are already in this database will decode wrongly with the configured layout"),
				 errdetail("%s", detail.data),
				 errhint("Decode them with the recorded layout, given explicitly. IDs made from now on are larger than those.")));
	sf_mark_accept_configuration();
	PG_RETURN_VOID();
}

/*
 * snowflake_ready() returns boolean
 *
 * True if snowflake_nextval() would succeed, perhaps after sleeping for the
 * clock; otherwise throws what it would throw.  Makes no ID.
 */
Datum
snowflake_ready(PG_FUNCTION_ARGS)
{
	sf_guard_writable("snowflake_ready()");
	sf_generator_probe(fcinfo->flinfo->fn_oid);
	PG_RETURN_BOOL(true);
}

/*
 * snowflake_initialize() returns void
 *
 * Part of the install script, which drops it: where the extension is created
 * again while the server runs, the new mark begins above the old one.
 */
Datum
snowflake_initialize(PG_FUNCTION_ARGS)
{
	if (sf_state != NULL)
		sf_mark_initialize(fcinfo->flinfo->fn_oid);
	PG_RETURN_VOID();
}

/* ---- leases ---- */

static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls));
}

/* What the worker says of either, in the columns that are not of that. */
static void
put_leased(const SfLeaseStatus *status, Datum *values, bool *nulls)
{
	static const char *const stages[] = {
		"no worker", "searching", "held", "expired", "halted", "given back"
	};
	char		name[200];

	sf_leased_registry_name(name, sizeof(name));
	values[0] = CStringGetTextDatum(name);
	values[1] = CStringGetTextDatum(stages[status->stage]);
	values[4] = TimestampTzGetDatum(sf_times_from_ms(status->next_ms));
	values[5] = CStringGetTextDatum(status->problem);
	values[6] = CStringGetTextDatum(status->remedy);
	values[7] = Int32GetDatum(status->pid);
	nulls[0] = false;
	nulls[4] = status->next_ms == 0;
	nulls[5] = status->problem[0] == '\0';
	nulls[6] = status->remedy[0] == '\0';
	nulls[7] = status->pid == 0;
}

/*
 * snowflake_lease() returns a row: the registry, the state, the node and until
 * when, when that will be extended, and what is wrong.  Where the node is not
 * leased, only the state and the node.
 */
Datum
snowflake_lease(PG_FUNCTION_ARGS)
{
	Datum		values[8] = {0};
	bool		nulls[8] = {true, false, true, true, true, true, true, true};
	uint64		lease;
	int64		until_ms;

	sf_guard_loaded();
	lease = pg_atomic_read_u64(&sf_state->lease);
	until_ms = (sf_node_layout.epoch_tick +
				(int64) (lease >> sf_node_layout.node_bits)) *
		sf_node_layout.tick_ms;
	values[1] = CStringGetTextDatum(lease != 0 ? "configured" : "not configured");
	values[2] = Int64GetDatum(sf_settings_node_of(lease));
	values[3] = TimestampTzGetDatum(sf_times_from_ms(until_ms));
	nulls[2] = lease == 0;
	if (sf_settings_leases())
	{
		SfLeaseStatus status;

		sf_leased_status(&status);
		nulls[3] = lease == 0;
		put_leased(&status, values, nulls);
	}
	return make_row(fcinfo, values, nulls);
}

/* The shards that this server may issue for, as snowflake.shards has them. */
static char *
list_shards(void)
{
	Size		size = SF_RANGES_TEXT_SIZE(sf_state->nshards);
	uint32	   *set = palloc0(SF_RANGES_WORDS(sf_state->nshards) *
							  sizeof(uint32));
	char	   *text = palloc(size);

	for (uint32 i = 0; i < (uint32) sf_state->nshards; i++)
	{
		if (sf_state_may_issue_for(i) && !sf_shard_is_closed(i))
			sf_ranges_add(set, i);
	}
	(void) sf_ranges_print(set, sf_state->nshards, text, size);
	return text;
}

/*
 * snowflake_shard_lease() returns a row: the same of the shards in
 * snowflake.shards; until when it may issue for those that it has.
 */
Datum
snowflake_shard_lease(PG_FUNCTION_ARGS)
{
	Datum		values[8] = {0};
	bool		nulls[8] = {true, false, false, true, true, true, true, true};
	char	   *shards;
	bool		wants = false;
	uint64		end;

	sf_guard_loaded();
	shards = list_shards();
	for (int i = 0; i < sf_state->nshards && !wants; i++)
		wants = sf_state_may_issue_for(i);
	end = pg_atomic_read_u64(&sf_state->shard_end);
	values[1] = CStringGetTextDatum(wants ? "configured" : "not configured");
	values[2] = CStringGetTextDatum(shards);
	values[3] = TimestampTzGetDatum(sf_times_from_ms((int64) end *
													 sf_shard_layout.tick_ms));
	nulls[2] = shards[0] == '\0';
	if (sf_settings_leases() && wants)
	{
		SfLeaseStatus status;

		sf_leased_shards_status(&status);
		nulls[3] = end == 0;
		put_leased(&status, values, nulls);
	}
	return make_row(fcinfo, values, nulls);
}

/*
 * snowflake_registry_layout(layout text) returns a row: its text as workers
 * compare it, its epoch, and its tick.  Throws SQLSTATE 22023.
 */
Datum
snowflake_registry_layout(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 0);
	char		text[SF_LAYOUT_TEXT_SIZE];
	Datum		values[3];
	bool		nulls[3] = {0};

	sf_layout_print(layout, text, sizeof(text));
	values[0] = CStringGetTextDatum(text);
	values[1] = Int64GetDatum(layout->epoch_ms);
	values[2] = Int32GetDatum(layout->tick_ms);
	return make_row(fcinfo, values, nulls);
}
