/*-------------------------------------------------------------------------
 *
 * recoverfuncs.c
 *	  SQL functions for a mark that was lost, or lies in the future.
 *
 * Both look at the columns whose default makes IDs, each in its own layout.
 * They read the tables without running their owner's code: see access.c.  What
 * an application fills, or a function of a user, the catalogues do not show.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/recover.sql.inc"
#include "admin/status.h"
#include "admin/status_tables.sql.inc"

#include "access/htup_details.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mark/mark.h"
#include "parser/parse_coerce.h"
#include "partition/id_span.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/lmgr.h"
#include "table/table.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* The clock and what a person says that it is may differ by this. */
#define MINUTE_MS		60000

#define PRESENT_TIME \
	"If the clock is wrong, correct it first. Otherwise pass the present time, as date -u prints it on another machine."

/* For a column that was not looked at. */
#define ADVANCE \
	"Run as a superuser, with its highest ID and the layout that it was made with: SELECT %s.snowflake_advance('ID'::bigint, 'LAYOUT');"

/* A row of another session's locks ends the look at a table. */
#define LOCK_TIMEOUT	"5s"

SF_FUNCTION(snowflake_recover);
SF_FUNCTION(snowflake_reset_mark);

/* A column whose default makes IDs, and what was found in it. */
typedef struct Column
{
	Oid			relation;
	char	   *name;
	char	   *shown;			/* schema.table.column, quoted */
	Oid			type;			/* not that of a domain */
	SfKeyLayout key;			/* of its default */
	bool		has_layout;		/* ... which could be told */
	int64		future;			/* IDs from here on count as ahead */
	int64		highest;		/* of those before; -1: none */
	uint64		ahead;			/* how many are ahead */
	int64		lowest;			/* of these */
} Column;

/* Put a row of the result, if the function that was called returns rows. */
static void
put(FunctionCallInfo fcinfo, const char *object, const char *found,
	const char *remedy)
{
	ReturnSetInfo *result;
	bool		nulls[3] = {false, false, remedy == NULL};
	Datum		values[3] = {
		CStringGetTextDatum(object), CStringGetTextDatum(found), (Datum) 0
	};

	if (fcinfo == NULL)
		return;
	result = (ReturnSetInfo *) fcinfo->resultinfo;
	if (remedy != NULL)
		values[2] = CStringGetTextDatum(remedy);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*
 * Read the durable numbers.  Throw SQLSTATE 55P03 if another session has
 * locked them.
 */
static const SfStatusNumbers *
require_unlocked(void)
{
	SfStatus	status = {0};
	const SfStatusNumbers *numbers = sf_status_numbers(&status);

	if (numbers->locked)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("another session has locked the mark, or the recorded configuration"),
				 errhint("%s", numbers->remedy)));
	return numbers;
}

/* ---- the columns ---- */

/* List the columns, in this memory context. */
static List *
find_columns(void)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *makers = sf_id_makers();
	Datum	   *oids = palloc((list_length(makers) + 1) * sizeof(Datum));
	Oid			types[] = {OIDARRAYOID};
	Datum		values[1];
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, makers)
		oids[foreach_current_index(lc)] = ObjectIdGetDatum(lfirst_oid(lc));
	values[0] = PointerGetDatum(construct_array(oids, list_length(makers),
												OIDOID, sizeof(Oid), true,
												TYPALIGN_INT));
	SPI_connect();
	if (SPI_execute_with_args(SQL_COLUMNS, 1, types, values, NULL, true,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		MemoryContext old = MemoryContextSwitchTo(context);
		Column	   *column = palloc0(sizeof(Column));
		bool		isnull;
		AttrNumber	number =
			DatumGetInt16(SPI_getbinval(row, desc, 5, &isnull));

		column->relation = DatumGetObjectId(SPI_getbinval(row, desc, 1,
														  &isnull));
		column->name = SPI_getvalue(row, desc, 2);
		column->type = getBaseType(get_atttype(column->relation, number));
		column->shown = SPI_getvalue(row, desc, 4);
		column->has_layout = sf_key_layout_find(&column->key,
												column->relation, number);
		columns = lappend(columns, column);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return columns;
}

static bool
see_id(int64 id, uint64 unused, void *arg)
{
	Column	   *column = arg;

	/* the highest come first */
	if (id < column->future)
	{
		column->highest = Max(column->highest, id);
		return false;
	}
	column->lowest = column->ahead++ == 0 ? id : Min(column->lowest, id);
	return true;
}

static void
read_column(void *arg)
{
	Column	   *column = arg;
	SfColumn	read = {
		.relation = column->relation, .name = column->name,
		.in_progress = true, .visit = see_id, .arg = column
	};

	sf_column_require_select(column->relation, column->name);
	(void) sf_column_read(&read);
}

/*
 * Return the call that gives a column's IDs of the future new ones.  It begins
 * at the lowest of them, since new IDs must lie below.
 */
static char *
renumber(const Column *column)
{
	Oid			schema = get_rel_namespace(column->relation);
	char	   *table =
		quote_qualified_identifier(get_namespace_name(schema),
								   get_rel_name(column->relation));

	return psprintf("SELECT * FROM %s.snowflake_renumber(%s::pg_catalog.regclass, %s::pg_catalog.name, '%lld'::bigint, '9223372036854775807'::bigint, false);",
					sf_extschema(), quote_literal_cstr(table),
					quote_literal_cstr(column->name),
					(long long) column->lowest);
}

/*
 * Look for the highest ID in a column; return the end of its tick, or 0.  IDs
 * of "future" or later only count.  Put a row if that is not possible.
 */
static int64
look(FunctionCallInfo fcinfo, Column *column, TimestampTz future)
{
	const SfLayout *layout = &column->key.layout;
	const char *problem = NULL;
	ErrorData  *error;

	column->highest = -1;
	if (!column->has_layout)
		problem = "its default hides the layout of its IDs";
	else if (column->type != INT2OID && column->type != INT4OID &&
			 !IsBinaryCoercible(column->type, INT8OID))
		problem = "it holds no integers";
	else
	{
		column->future = sf_id_span_first_id(layout, future);
		error = sf_status_try(read_column, column);
		if (error != NULL)
			problem = error->message;
	}
	if (problem == NULL)
		return column->highest < 0 ? 0 :
			(sf_layout_tick(layout, column->highest) + 1) * layout->tick_ms;
	put(fcinfo, column->shown, psprintf("not looked at: %s", problem),
		psprintf(ADVANCE, sf_extschema()));
	column->relation = InvalidOid;
	return 0;
}

/* Do this without waiting for long for any lock on a table. */
static int
limit_waits(void)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("lock_timeout", LOCK_TIMEOUT, PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/* ---- a mark that was lost ---- */

/* Make a sequence of the extension, as the schema's owner; see recover.sql. */
static void
make_number(const char *name)
{
	Oid			extension = get_extension_oid("snowflake", false);
	Oid			schema = get_namespace_oid("snowflake_state", false);
	HeapTuple	tuple = SearchSysCache1(NAMESPACEOID,
										ObjectIdGetDatum(schema));
	Datum		statement =
		DirectFunctionCall3Coll(replace_text, C_COLLATION_OID,
								CStringGetTextDatum(SQL_MAKE_NUMBER),
								CStringGetTextDatum("number_name"),
								CStringGetTextDatum(name));
	SfOwner		before;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for schema %u", schema);
	sf_owner_become(&before,
					((Form_pg_namespace) GETSTRUCT(tuple))->nspowner);
	ReleaseSysCache(tuple);
	creating_extension = true;
	CurrentExtensionObject = extension;
	PG_TRY();
	{
		SPI_connect();
		(void) SPI_execute(TextDatumGetCString(statement), false, 0);
		SPI_finish();
	}
	PG_FINALLY();
	{
		creating_extension = false;
		CurrentExtensionObject = InvalidOid;
	}
	PG_END_TRY();
	sf_owner_leave(&before);
}

/* Mend the numbers, the mark above floor_ms, and say so. */
static void
mend(FunctionCallInfo fcinfo, int64 floor_ms)
{
	bool		mended[SF_DURABLE_NUMBERS];
	char		layout[SF_LAYOUT_TEXT_SIZE];
	char		shard_layout[SF_LAYOUT_TEXT_SIZE];

	/* two sessions do not make the same sequence */
	LockDatabaseObject(NamespaceRelationId,
					   get_namespace_oid("snowflake_state", false), 0,
					   ShareUpdateExclusiveLock);
	for (int i = 0; i < SF_DURABLE_NUMBERS; i++)
	{
		bool		is_there;
		const char *gone = sf_durable_number_gone(i, &is_there);

		mended[i] = gone != NULL && !is_there;
		if (gone != NULL)
			make_number(gone);
		if (gone != NULL && is_there)
			put(fcinfo, gone, "it had left the extension, and is back, with its value",
				NULL);
	}
	sf_mark_mend(mended, floor_ms);
	if (mended[SF_DURABLE_MARK])
		put(fcinfo, "mark", "it was missing or damaged, and was made anew",
			NULL);
	sf_layout_print(&sf_node_layout, layout, sizeof(layout));
	sf_layout_print(&sf_shard_layout, shard_layout, sizeof(shard_layout));
	for (int i = SF_DURABLE_RECORD; i < SF_DURABLE_NUMBERS; i++)
	{
		if (!mended[i])
			continue;
		put(fcinfo, "recorded configuration",
			psprintf("a part was missing or damaged; what is configured was recorded in its place: snowflake.layout is \"%s\", snowflake.shard_layout is \"%s\"",
					 layout, shard_layout),
			psprintf("If the IDs of this database were made with another layout, set that in snowflake.layout or snowflake.shard_layout, restart the server, and run as a superuser: SELECT %s.snowflake_accept('configuration'::pg_catalog.text);",
					 sf_extschema()));
		break;
	}
}

/* A time to raise the mark to, and the mark that is published then. */
typedef struct Raised
{
	int64		floor_ms;
	int64		published;
} Raised;

/*
 * Load the mark, and raise it to this time.  Without a mark, the first call
 * would write over the record: here it counts, since the mark was lost.
 */
static void
raise_mark(void *arg)
{
	Raised	   *raised = arg;
	SfDurableNumbers numbers;

	sf_durable_numbers_find(NULL);
	(void) sf_durable_numbers_read(&numbers, SF_DURABLE_WAIT);
	numbers.value[SF_DURABLE_MARK] = Max(numbers.value[SF_DURABLE_MARK], 1);
	(void) sf_config_record_verify(&numbers);
	if (sf_db_slot_published_mark() == 0)
		sf_mark_write_up(raised->floor_ms); /* nobody loads a lower one */
	raised->published = sf_mark_advance(raised->floor_ms);
}

static void
read_record(void *numbers)
{
	sf_durable_numbers_find(NULL);
	sf_durable_record_read(numbers);
}

/*
 * Look for the highest IDs, then make each number anew that is missing or
 * damaged, and last load the mark.  So at any moment the durable mark cannot
 * be read, or is above the IDs found and floor_ms.
 *
 * An ID that lies more than a day ahead is not followed if there is a mark.  A
 * mark that was lost is made above all IDs: perhaps it is the clock that is
 * wrong.  If not, a person lowers it by snowflake_reset_mark().
 */
static void
recover_numbers(FunctionCallInfo fcinfo, const SfStatusNumbers *numbers,
				int64 floor_ms)
{
	bool		is_lost = numbers->read.value[SF_DURABLE_MARK] == 0 &&
		sf_db_slot_published_mark() == 0;
	TimestampTz future = is_lost ? DT_NOEND :
		sf_timefmt_from_ms(sf_clock_wall_ms() + DAY_MS);
	uint64		ahead = 0;
	Raised		raised = {0};
	int			level = limit_waits();
	ListCell   *lc;
	SfDurableNumbers record;
	ErrorData  *error;

	/* in another layout, the rows would say nothing */
	record.value[SF_DURABLE_MARK] = 1;
	if (numbers->problem != NULL &&
		sf_status_try(read_record, &record) == NULL)
		(void) sf_config_record_verify(&record);
	foreach(lc, find_columns())
	{
		Column	   *column = lfirst(lc);
		int64		end_ms = look(fcinfo, column, future);

		floor_ms = Max(floor_ms, end_ms);
		ahead += column->ahead;
		if (!OidIsValid(column->relation))
			continue;
		put(fcinfo, column->shown,
			psprintf("%s%s", end_ms == 0 ? "it holds no ID" :
					 psprintf("its highest ID is %lld, of %s",
							  (long long) column->highest,
							  sf_timefmt_show(end_ms)),
					 column->ahead == 0 ? "" :
					 psprintf(", but for %llu that lie more than a day ahead of the clock",
							  (unsigned long long) column->ahead)),
			column->ahead == 0 ? NULL :
			psprintf("If a wrong clock made these, and no subscription brought them, stop all clients, and run as the owner of the table: %s",
					 renumber(column)));
	}
	put(fcinfo, "other columns",
		"columns that are filled in another way, such as by an application, were not looked at",
		psprintf(ADVANCE, sf_extschema()));
	mend(fcinfo, floor_ms);

	/* if this fails, what was made anew stays */
	raised.floor_ms = floor_ms;
	error = sf_status_try(raise_mark, &raised);
	AtEOXact_GUC(true, level);
	if (error != NULL)
		put(fcinfo, "mark", psprintf("not loaded: %s", error->message),
			error->hint != NULL ? error->hint : sf_status_log_error(error));
	else if (raised.published == 0)
		put(fcinfo, "mark", psprintf("no ID is made before %s",
									 sf_timefmt_show(floor_ms)),
			sf_clock_jump_mark_remedy());
	else
		put(fcinfo, "mark", psprintf("it is at %s, above all %sIDs found",
									 sf_timefmt_show(raised.published),
									 ahead == 0 ? "" : "other "), NULL);
}

/*
 * snowflake_recover() returns rows: object, what was found or done, and what
 * to type next, or NULL
 *
 * Make each durable number anew that is missing or damaged, and raise the mark
 * above the IDs in this database.  Throws SQLSTATE 55P03 (locked), 42501,
 * 55000 (a number is damaged, and another configuration is recorded).
 */
Datum
snowflake_recover(PG_FUNCTION_ARGS)
{
	sf_require_writable("snowflake_recover()");
	InitMaterializedSRF(fcinfo, 0);
	recover_numbers(fcinfo, require_unlocked(), 0);
	return (Datum) 0;
}

/*
 * If a number cannot be read, do the same, with a mark that is not below
 * floor_ms, and return true.
 */
bool
sf_recover_numbers(int64 floor_ms)
{
	SfStatus	status = {0};
	const SfStatusNumbers *numbers = sf_status_numbers(&status);

	if (numbers->locked || numbers->problem == NULL)
		return false;
	recover_numbers(NULL, numbers, floor_ms);
	return true;
}

/* ---- a mark that lies in the future ---- */

/* Throw SQLSTATE 22023 unless both clocks say the same. */
static void
require_now(TimestampTz said)
{
	int64		now_ms = sf_clock_wall_ms();

	if (TIMESTAMP_NOT_FINITE(said) ||
		llabs(sf_timefmt_to_ms(said) - now_ms) > MINUTE_MS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the given time is not what this server's clock says"),
				 errdetail("The clock says %s. A mark that is set to a wrong clock makes IDs twice.",
						   sf_timefmt_show(now_ms)),
				 errhint(PRESENT_TIME)));
}

/*
 * Return what is said of a column's feeds: the new IDs, from "first" on, lie
 * below cursors of the future.  A second call does not know them any more.
 */
static const char *
where_feeds_go_on(int64 found_ms, int64 first)
{
	return found_ms == 0 ? "" :
		psprintf("; a feed of this column whose cursor is above %lld must go on at that ID",
				 (long long) first - 1);
}

/*
 * snowflake_reset_mark(now timestamptz) returns rows as snowflake_recover()
 *
 * Lower a mark that lies in the future to the present.  "now" is what another
 * machine's clock says.  Where there is nothing to lower, list the rows of the
 * future that are left.  Throws SQLSTATE 22004, 22023 (the clocks differ),
 * 55000 (this life can still make IDs of the future), 55P03 (locked).
 */
Datum
snowflake_reset_mark(PG_FUNCTION_ARGS)
{
	int64		found_ms;
	int64		mark_ms;
	int64		first;
	int			level;
	ListCell   *lc;

	sf_require_writable("snowflake_reset_mark()");
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the time must not be null"),
				 errhint(PRESENT_TIME)));
	require_now(PG_GETARG_TIMESTAMPTZ(0));
	(void) require_unlocked();
	InitMaterializedSRF(fcinfo, 0);
	level = limit_waits();
	found_ms = sf_mark_reset(&mark_ms);
	if (found_ms == 0)
		ereport(NOTICE,
				(errmsg("nothing to reset: the mark is no farther ahead of the clock than it may be")));
	else
		ereport(WARNING,
				(errmsg("the mark was lowered from %s to %s",
						sf_timefmt_show(found_ms), sf_timefmt_show(mark_ms)),
				 errdetail("New IDs lie below IDs of the future that rows, feeds or other systems have."),
				 errhint("Before you start the clients, type the remedy in each row of the result, and set the cursors of feeds back as the row says.")));
	foreach(lc, find_columns())
	{
		Column	   *column = lfirst(lc);

		(void) look(fcinfo, column, sf_timefmt_from_ms(mark_ms));
		if (OidIsValid(column->relation))
			put(fcinfo, column->shown,
				psprintf("%llu IDs of the future%s",
						 (unsigned long long) column->ahead,
						 where_feeds_go_on(found_ms, column->future)),
				column->ahead == 0 ? NULL :
				psprintf("If no subscription brought them, run as the owner of the table: %s",
						 renumber(column)));
		else if (found_ms != 0)
			put(fcinfo, column->shown,
				"a feed of this column must go on below its IDs of the future",
				psprintf("Set the cursor back to: SELECT %s.snowflake_min_id(timestamp with time zone '%s', 'LAYOUT') OPERATOR(pg_catalog.-) 1;",
						 sf_extschema(), sf_timefmt_show(mark_ms)));
	}
	AtEOXact_GUC(true, level);
	first = sf_id_span_first_id(&sf_node_layout, sf_timefmt_from_ms(mark_ms));
	put(fcinfo, "other columns",
		psprintf("columns that are filled in another way, such as by an application, were not looked at; in snowflake.layout, IDs from %lld on lie in the future%s",
				 (long long) first, where_feeds_go_on(found_ms, first)),
		psprintf("As the owner of such a table, with its lowest ID of the future: SELECT * FROM %s.snowflake_renumber('TABLE'::pg_catalog.regclass, 'COLUMN'::pg_catalog.name, 'ID'::bigint, '9223372036854775807'::bigint, false);",
				 sf_extschema()));
	return (Datum) 0;
}
