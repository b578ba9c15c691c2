/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  SQL functions that take IDs apart, make them of fields, and show or read
 *	  them as texts: check arguments, call, return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/clock.h"
#include "base/message.h"
#include "fmgr.h"
#include "funcapi.h"
#include "layout/text_format.h"
#include "mb/pg_wchar.h"
#include "query/query.h"
#include "runtime/shmem.h"
#include "runtime/settings.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* Columns of snowflake_decode(); snowflake_inspect() begins with them. */
#define DECODE_COLUMNS		7
#define INSPECT_COLUMNS		(DECODE_COLUMNS + 3)
#define LAYOUTS_COLUMNS		10

/* A plausible ID is at most this far ahead of the clock. */
#define PLAUSIBLE_AHEAD_MS	(INT64CONST(24) * 3600 * 1000)

/* A message shows at most this many bytes of a text. */
#define MAX_SHOWN	40

/* Many generators are used without an epoch of their own. */
#define UNIX_LAYOUT "timestamp:41 node:10 sequence:12 epoch:1970-01-01"

SF_FUNCTION(snowflake_decode);
SF_FUNCTION(snowflake_node);
SF_FUNCTION(snowflake_shard);
SF_FUNCTION(snowflake_sequence);
SF_FUNCTION(snowflake_layouts);
SF_FUNCTION(snowflake_inspect);
SF_FUNCTION(snowflake_compose);
SF_FUNCTION(snowflake_encode);
SF_FUNCTION(snowflake_parse);

/* Compute the columns of snowflake_decode(). */
static void
decode_columns(const SfLayout *layout, int64 id, Datum *values, bool *nulls)
{
	static const SfFieldKind kinds[DECODE_COLUMNS] = {
		SF_TIMESTAMP, SF_DATACENTER, SF_WORKER, SF_PROCESS, SF_NODE, SF_SHARD,
		SF_SEQUENCE
	};

	values[0] = TimestampTzGetDatum(sf_id_time_of(layout, id));
	nulls[0] = false;
	for (int i = 1; i < DECODE_COLUMNS; i++)
	{
		nulls[i] = !sf_layout_has(layout, kinds[i]);
		values[i] = Int32GetDatum((int32)
								  sf_layout_field(layout, kinds[i], id));
	}

	/* a node may have several fields: datacenter, worker, process */
	nulls[4] = layout->node_bits == 0;
	values[4] = Int32GetDatum((int32) sf_layout_node(layout, id));
}

/* Return true if a server with this layout can have made this ID by now. */
static bool
is_plausible(const SfLayout *layout, int64 id)
{
	int64		ms = sf_id_time_tick_ms(layout, sf_layout_tick(layout, id));

	return sf_layout_fits(layout, id) &&
		ms <= sf_clock_wall_ms() + PLAUSIBLE_AHEAD_MS;
}

/*
 * Warn if an ID seems to be decoded with a layout that is not its own: once in
 * a transaction.
 */
static void
warn_of_future(const SfLayout *layout, int64 id)
{
	static TimestampTz warned_in = 0;

	if (is_plausible(layout, id) ||
		warned_in == GetCurrentTransactionStartTimestamp())
		return;
	warned_in = GetCurrentTransactionStartTimestamp();
	if (layout == &sf_node_layout && is_plausible(&sf_shard_layout, id))
		ereport(WARNING,
				(errmsg("ID " INT64_FORMAT " lies in the future by snowflake.layout, and not by snowflake.shard_layout",
						id),
				 errhint("If it is the ID of a shard, name that layout: SELECT * FROM %s.snowflake_decode('" INT64_FORMAT "'::bigint, 'shard');",
						 sf_extschema(), id)));
	else
		ereport(WARNING,
				(errmsg("ID " INT64_FORMAT " lies in the future by this layout",
						id),
				 errhint(SF_INSPECT_REMEDY, sf_extschema(), id)));
}

/*
 * snowflake_decode(id bigint [, layout text]) returns record
 *
 * Return the fields of an ID.  The first row of a call warns if its time lies
 * in the future, as when it is read with a layout that is not its own.  Throws
 * SQLSTATE 22003 (negative, or wider than the layout), and the errors of
 * sf_layout_arg().
 */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	bool		first = fcinfo->flinfo->fn_extra == NULL;
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);
	TupleDesc	desc;
	Datum		values[DECODE_COLUMNS];
	bool		nulls[DECODE_COLUMNS];

	sf_layout_arg_require_fit(layout, PG_GETARG_INT64(0));
	if (first)
		warn_of_future(layout, PG_GETARG_INT64(0));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	decode_columns(layout, PG_GETARG_INT64(0), values, nulls);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/*
 * snowflake_node(id bigint [, layout text]) returns integer
 *
 * Return the node of an ID; NULL if the layout has none.  In a layout with
 * datacenter and worker, the node is both fields as one number.
 */
Datum
snowflake_node(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);

	if (layout->node_bits == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) sf_layout_node(layout, PG_GETARG_INT64(0)));
}

static Datum
return_field(FunctionCallInfo fcinfo, SfFieldKind kind)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 1);

	if (!sf_layout_has(layout, kind))
		PG_RETURN_NULL();
	PG_RETURN_INT32((int32) sf_layout_field(layout, kind, PG_GETARG_INT64(0)));
}

/* snowflake_shard(id bigint [, layout text]) returns integer, or NULL */
Datum
snowflake_shard(PG_FUNCTION_ARGS)
{
	return return_field(fcinfo, SF_SHARD);
}

/* snowflake_sequence(id bigint [, layout text]) returns integer */
Datum
snowflake_sequence(PG_FUNCTION_ARGS)
{
	return return_field(fcinfo, SF_SEQUENCE);
}

/* A function that takes a layout and its name, or its text if it has none. */
typedef void (*Taker) (const char *name, bool configured,
					   const SfLayout *layout, void *arg);

/* Call f for each layout in use that is neither configured nor a preset. */
static void
for_each_other(Taker f, void *arg)
{
	SfLayout	layout;
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	for (int i = 1; i < sf_shmem->nlayouts; i++)
	{
		if (!sf_layout_slot_read(i, &layout))
			break;
		if (sf_layout_is_preset(&layout))
			continue;
		sf_layout_print(&layout, spelled, sizeof(spelled));
		f(spelled, false, &layout, arg);
	}
}

/*
 * Call f for the configured layouts, each preset, and the other layouts in
 * use.
 */
static void
for_each_layout(Taker f, void *arg)
{
	char		reason[SF_REASON_SIZE];
	SfLayout	layout;

	if (sf_shmem != NULL)
	{
		f("node", true, &sf_node_layout, arg);
		f("shard", true, &sf_shard_layout, arg);
	}
	for (int i = 0; i < sf_npresets; i++)
	{
		if (!sf_layout_parse(&layout, sf_presets[i].text,
							 reason, sizeof(reason)))
			elog(ERROR, "preset \"%s\" is not a layout: %s",
				 sf_presets[i].name, reason);
		f(sf_presets[i].name, false, &layout, arg);
	}
	if (sf_shmem != NULL)
		for_each_other(f, arg);
}

static void
put_layout(const char *name, bool configured, const SfLayout *layout,
		   void *arg)
{
	ReturnSetInfo *rsinfo = arg;
	Datum		values[LAYOUTS_COLUMNS];
	bool		nulls[LAYOUTS_COLUMNS] = {0};
	char		spelled[SF_LAYOUT_TEXT_SIZE];
	int64		end_ms = sf_id_time_tick_ms(layout, layout->end_tick);

	sf_layout_print(layout, spelled, sizeof(spelled));
	values[0] = CStringGetTextDatum(name);
	values[1] = BoolGetDatum(configured);
	values[2] = CStringGetTextDatum(spelled);
	values[3] = Int32GetDatum(layout->bits);
	values[4] = TimestampTzGetDatum(sf_timefmt_from_ms(layout->epoch_ms));
	values[5] = Int32GetDatum(layout->tick_ms);
	values[6] = Int32GetDatum(1 << layout->sequence_bits);
	values[7] = Int64GetDatum(INT64CONST(1) << layout->node_bits);
	nulls[7] = layout->node_bits == 0;
	values[8] = Int64GetDatum(INT64CONST(1) << layout->field[SF_SHARD].width);
	nulls[8] = !sf_layout_has(layout, SF_SHARD);
	values[9] = TimestampTzGetDatum(sf_timefmt_from_ms(end_ms));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * snowflake_layouts(): presets, and, if preloaded, the configured layouts and
 * others in use
 */
Datum
snowflake_layouts(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	for_each_layout(put_layout, fcinfo->resultinfo);
	return (Datum) 0;
}

/* An ID, and which readings of it to list: plausible ones or the others. */
typedef struct Inspection
{
	ReturnSetInfo *rsinfo;
	int64		id;
	bool		plausible;
} Inspection;

static void
put_reading(const char *name, bool configured, const SfLayout *layout,
			void *arg)
{
	Inspection *inspection = arg;
	ReturnSetInfo *rsinfo = inspection->rsinfo;
	Datum		values[INSPECT_COLUMNS];
	bool		nulls[INSPECT_COLUMNS] = {0};
	bool		plausible = is_plausible(layout, inspection->id);

	if (plausible != inspection->plausible)
		return;
	values[0] = CStringGetTextDatum(name);
	values[1] = BoolGetDatum(configured);
	values[2] = BoolGetDatum(plausible);
	decode_columns(layout, inspection->id, values + 3, nulls + 3);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* List the readings that the inspection asks for. */
static void
put_readings(Inspection *inspection)
{
	char		reason[SF_REASON_SIZE];
	SfLayout	unix_layout;

	for_each_layout(put_reading, inspection);
	if (!sf_layout_parse(&unix_layout, UNIX_LAYOUT, reason, sizeof(reason)))
		elog(ERROR, "\"%s\" is not a layout: %s", UNIX_LAYOUT, reason);
	put_reading(UNIX_LAYOUT, false, &unix_layout, inspection);
}

/*
 * snowflake_inspect(id bigint): list the readings of an ID in every known
 * layout, and in the fields of Twitter's from the Unix epoch.  A reading is
 * plausible if it fits the layout and is not in the future.
 */
Datum
snowflake_inspect(PG_FUNCTION_ARGS)
{
	Inspection	inspection;

	InitMaterializedSRF(fcinfo, 0);
	inspection.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	inspection.id = PG_GETARG_INT64(0);
	inspection.plausible = true;
	put_readings(&inspection);
	inspection.plausible = false;
	put_readings(&inspection);
	return (Datum) 0;
}

/* ---- an ID of given fields: the inverse of snowflake_decode() ---- */

/* Return the value of a field of this width.  Throws SQLSTATE 22003. */
static uint64
require_field(const SfLayout *layout, const char *name, int width, int32 value)
{
	int64		last = (INT64CONST(1) << width) - 1;
	char		spelled[SF_LAYOUT_TEXT_SIZE];

	if (value >= 0 && value <= last)
		return value;
	sf_layout_print(layout, spelled, sizeof(spelled));
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%s %d is out of range 0 to " INT64_FORMAT,
					name, value, last),
			 errdetail("The layout is \"%s\".", spelled),
			 width == 0 ?
			 errhint("Use 0, or a layout that has this field.") :
			 errhint("Use a number in that range, or a layout with more bits for this field.")));
}

/*
 * snowflake_compose(created_at timestamptz, node integer,
 *					 sequence integer DEFAULT 0) returns bigint
 * snowflake_compose(created_at timestamptz, node integer, sequence integer,
 *					 layout text, shard integer DEFAULT 0) returns bigint
 *
 * Return the ID with these fields, in the tick that holds created_at.  In a
 * layout that has a shard and no node, the argument "node" is the shard; the
 * argument "shard" is for a layout that has both.  Throws SQLSTATE 22003 (a
 * number does not fit its field), 22008 (out of the layout's life), and what
 * sf_layout_arg() throws.
 */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	const SfLayout *layout = sf_layout_arg(fcinfo, 3);
	int			shard_bits = layout->field[SF_SHARD].width;
	int64		tick;
	uint64		node = 0;
	uint64		shard = 0;
	uint64		sequence;

	tick = sf_id_time_require_tick(layout, PG_GETARG_TIMESTAMPTZ(0),
								   "Use a time within that range, or a layout with another epoch.");
	if (layout->node_bits == 0 && shard_bits > 0)
		shard = require_field(layout, "shard", shard_bits, PG_GETARG_INT32(1));
	else
		node = require_field(layout, "node", layout->node_bits,
							 PG_GETARG_INT32(1));
	sequence = require_field(layout, "sequence", layout->sequence_bits,
							 PG_GETARG_INT32(2));
	if (PG_NARGS() > 4)
		shard |= require_field(layout, "shard",
							   layout->node_bits > 0 ? shard_bits : 0,
							   PG_GETARG_INT32(4));
	PG_RETURN_INT64(sf_layout_pack(layout, tick, node, shard, sequence));
}

/* ---- IDs as texts ---- */

/* Return how much of a text a message shows. */
static int
shown(const char *str)
{
	return pg_mbcliplen(str, strlen(str), MAX_SHOWN);
}

/* Return the format that argument n names.  Throws SQLSTATE 22023. */
static const SfTextFormat *
format_arg(FunctionCallInfo fcinfo, int n)
{
	text	   *name = PG_GETARG_TEXT_PP(n);
	const SfTextFormat *digits = sf_text_format_find(VARDATA_ANY(name),
													 VARSIZE_ANY_EXHDR(name));

	if (digits == NULL)
	{
		char	   *str = text_to_cstring(name);

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no format \"%.*s\"", shown(str), str),
				 errhint("Formats are base32, base58 and base62.")));
	}
	return digits;
}

/*
 * snowflake_encode(id bigint, format text) returns text
 *
 * Throws SQLSTATE 22003 (negative), 22023 (no such format).
 */
Datum
snowflake_encode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const SfTextFormat *digits = format_arg(fcinfo, 1);
	char		buf[SF_DIGITS_SIZE];

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("ID " INT64_FORMAT " is negative", id),
				 errdetail("No layout makes such IDs, and they have no text form."),
				 errhint("Use an ID that a layout has made.")));
	sf_text_format_print(digits, id, buf);
	PG_RETURN_TEXT_P(cstring_to_text(buf));
}

static void
refuse_text(const SfTextFormat *digits, const char *str,
			const SfTextFault *fault)
{
	char		largest[SF_DIGITS_SIZE];

	if (!fault->out_of_range)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid ID in %s: \"%.*s\"",
						digits->name, shown(str), str),
				 errdetail("%s", fault->reason),
				 errhint("%s", digits->rules)));
	sf_text_format_print(digits, PG_INT64_MAX, largest);
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("ID in %s is out of range: \"%.*s\"",
					digits->name, shown(str), str),
			 errdetail("%s", fault->reason),
			 errhint("The largest ID in %s is %s.", digits->name, largest)));
}

/*
 * snowflake_parse(text text, format text) returns bigint
 *
 * Throws SQLSTATE 22P02 (not a text of this format), 22003 (beyond bigint),
 * 22023 (no such format).
 */
Datum
snowflake_parse(PG_FUNCTION_ARGS)
{
	text	   *t = PG_GETARG_TEXT_PP(0);
	const SfTextFormat *digits = format_arg(fcinfo, 1);
	SfTextFault fault;
	int64		id;

	if (!sf_text_format_parse(digits, &id, VARDATA_ANY(t),
							  VARSIZE_ANY_EXHDR(t), &fault))
		refuse_text(digits, text_to_cstring(t), &fault);
	PG_RETURN_INT64(id);
}
