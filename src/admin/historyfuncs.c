/*-------------------------------------------------------------------------
 *
 * historyfuncs.c
 *	  The SQL function that says who holds slots and shards, or did.
 *
 * The worker passes on what the registry holds, as lines of JSON.  They are
 * read here, so that a broken one can harm this call only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"
#include "base/text.h"
#include "base/timefmt.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "runtime/preconditions.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "worker/job_client.h"

SF_FUNCTION(snowflake_registry_history);

/* The columns. */
enum
{
	SLOT, SHARDS, HOST, ADDRESS, PROCESS, SINCE, UNTIL, ENDED_AT, ENDED,
	COLUMNS
};

/* A line of the history, and the row that it makes. */
typedef struct Row
{
	const char *line;
	AttInMetadata *columns;
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS];
} Row;

/* Return a field as text; NULL if it is missing or empty. */
static char *
get_field(JsonbContainer *json, const char *name)
{
	JsonbValue	value;
	char	   *text = NULL;

	if (getKeyJsonValueFromContainer(json, name, strlen(name), &value) == NULL)
		return NULL;
	if (value.type == jbvString)
		text = pnstrdup(value.val.string.val, value.val.string.len);
	else if (value.type == jbvNumeric)
	{
		Datum		number = NumericGetDatum(value.val.numeric);

		text = DatumGetCString(DirectFunctionCall1(numeric_out, number));
	}
	return text == NULL || text[0] == '\0' ? NULL : text;
}

/* Read a line; throw any error if it makes no sense. */
static void
read_row(void *arg)
{
	Row		   *row = arg;
	AttInMetadata *in = row->columns;
	Datum		line = CStringGetDatum(row->line);
	Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, line));

	if (!JB_ROOT_IS_OBJECT(json))
		elog(ERROR, "not an object");
	for (int i = 0; i < COLUMNS; i++)
	{
		Form_pg_attribute column = TupleDescAttr(in->tupdesc, i);
		char	   *text = get_field(&json->root, NameStr(column->attname));

		row->nulls[i] = text == NULL;
		row->values[i] = text == NULL ? (Datum) 0 :
			InputFunctionCall(&in->attinfuncs[i], text, in->attioparams[i],
							  in->atttypmods[i]);
	}
	if (row->nulls[SLOT] && row->nulls[SHARDS])
		elog(ERROR, "neither a slot nor shards");
}

/* Return true if the row is one of those that the arguments ask for. */
static bool
is_wanted(FunctionCallInfo fcinfo, const Row *row)
{
	int			end = row->nulls[ENDED_AT] ? UNTIL : ENDED_AT;
	TimestampTz at;

	if (!PG_ARGISNULL(0) &&
		(row->nulls[SLOT] ||
		 DatumGetInt64(row->values[SLOT]) != PG_GETARG_INT64(0)))
		return false;
	if (PG_ARGISNULL(1))
		return true;
	at = PG_GETARG_TIMESTAMPTZ(1);
	return (row->nulls[SINCE] ||
			DatumGetTimestampTz(row->values[SINCE]) <= at) &&
		!row->nulls[end] && DatumGetTimestampTz(row->values[end]) > at;
}

/*
 * Return which entries the registry shall read.  Registries print times from
 * 1970 to 9999.  Any other time is compared here only.
 */
static SfHistoryFilter
choose_filter(FunctionCallInfo fcinfo)
{
	SfHistoryFilter filter = {.has_slot = !PG_ARGISNULL(0)};

	if (!PG_ARGISNULL(0))
		filter.slot = PG_GETARG_INT64(0);
	if (!PG_ARGISNULL(1) && !TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(1)))
	{
		int64		ms = sf_timefmt_to_ms(PG_GETARG_TIMESTAMPTZ(1));

		if (ms > 0 && ms <= SF_HISTORY_LAST_MS)
			filter.at_ms = ms;
	}
	return filter;
}

/* A holder that says nothing of its end has expired at its until. */
static void
expire(Row *row)
{
	if (!row->nulls[ENDED] || row->nulls[UNTIL] ||
		DatumGetTimestampTz(row->values[UNTIL]) > GetCurrentTimestamp())
		return;
	row->values[ENDED_AT] = row->values[UNTIL];
	row->values[ENDED] = CStringGetTextDatum("expired");
	row->nulls[ENDED_AT] = row->nulls[ENDED] = false;
}

/* Put the rows of these lines into the result; the text is changed. */
static void
put_rows(FunctionCallInfo fcinfo, char *text)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "snowflake history",
												  ALLOCSET_DEFAULT_SIZES);
	Row			row = {.columns = TupleDescGetAttInMetadata(rsinfo->setDesc)};
	MemoryContext before = MemoryContextSwitchTo(context);

	for (char *line = text, *next; line != NULL; line = next)
	{
		CHECK_FOR_INTERRUPTS();
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		MemoryContextReset(context);
		sf_text_make_valid(line);
		row.line = line;
		if (sf_status_try(read_row, &row, NULL) != NULL ||
			!is_wanted(fcinfo, &row))
			continue;
		expire(&row);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values,
							 row.nulls);
	}
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
}

/*
 * snowflake_registry_history(slot bigint DEFAULT NULL,
 *							  at timestamptz DEFAULT NULL) returns rows
 *
 * List who held this slot, or any slot or shards, at that time, or at any.
 * Throws SQLSTATE 55000, 58000 (job_client.c).
 */
Datum
snowflake_registry_history(PG_FUNCTION_ARGS)
{
	SfJob		job = {.kind = SF_JOB_HISTORY};
	bool		has_both = !PG_ARGISNULL(0) && !PG_ARGISNULL(1);
	const SfJobReply *reply;
	char	   *text = NULL;
	bool		is_cut;

	sf_job_require_registry("history");
	InitMaterializedSRF(fcinfo, 0);
	job.history = choose_filter(fcinfo);
	reply = sf_job_begin(&job);
	is_cut = reply->is_cut;
	if (reply->nrows > 0)
		text = pstrdup(sf_job_next(reply->row_size));
	sf_job_end();
	if (text != NULL)
		put_rows(fcinfo, text);
	if (is_cut)
		ereport(WARNING,
				(errmsg("the registry's history is too long to be read whole"),
				 errdetail("At most %d entries are read, and at most %d MB.",
						   SF_HISTORY_MAX, SF_HISTORY_MAX_SIZE / 1024 / 1024),
				 has_both ? 0 :
				 errhint("Give a time, and the slot if you ask for a node id: snowflake_registry_history(7, 'today 14:03').")));
	return (Datum) 0;
}
