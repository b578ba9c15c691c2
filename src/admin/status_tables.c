/*-------------------------------------------------------------------------
 *
 * status_tables.c
 *	  Checks of snowflake_status() about the tables of this database: columns
 *	  whose default makes IDs; and which roles may write what guards the IDs.
 *
 * The catalogues list the columns: they depend on a function that makes IDs
 * (sf_id_makers()).  If any other function calls ours, the catalogues do not
 * show it.  Tables are read with the caller's rights, only if an index finds
 * their highest IDs, and if no policies of row security apply; and without
 * running their owner's code: see access.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "admin/status.h"
#include "admin/status_rights.sql.inc"
#include "admin/status_tables.sql.inc"

#include "access/relation.h"
#include "base/clock.h"
#include "base/message.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "mark/mark.h"
#include "parser/parse_coerce.h"
#include "partition/id_span.h"
#include "query/query.h"
#include "runtime/preconditions.h"
#include "runtime/settings.h"
#include "storage/lmgr.h"
#include "table/table.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* Number of rows with the highest IDs to look at. */
#define LOOK_AT_ROWS	10000

/* Number of columns that a row names. */
#define NAMES			10

typedef struct Column
{
	Oid			relation;
	AttrNumber	number;
	NameData	name;
	Oid			type;			/* not that of a domain */
	char	   *shown;			/* schema.table.column, quoted */
	char	   *subscriptions;	/* that bring rows, quoted; or NULL */
	char	   *failing;		/* those that fail, and how often; or NULL */
	SfKeyLayout key;			/* of its default */
	bool		has_layout;		/* ... which could be told */
	bool		is_unique;
	bool		may_read;		/* the caller may, and no policy applies */
} Column;

/* The columns, or why they could not be read. */
struct SfStatusColumns
{
	MemoryContext context;
	Column	   *column;
	int			n;
	int			hidden;			/* columns that the caller may not read */
	char	   *problem;		/* or NULL */
	const char *remedy;
};

/* Columns with a problem; the remedy is for one of them. */
typedef struct Names
{
	StringInfoData text;
	int			n;
	const Column *one;			/* or NULL */
} Names;

/* ---- the catalogs ---- */

/* Connect to SPI, and run a query. */
static void
run_query(const char *query, int nargs, Oid *types, Datum *values)
{
	SPI_connect();
	if (SPI_execute_with_args(query, nargs, types, values, NULL, true,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
}

/* Return a column of the query's one row in this context; NULL is null. */
static char *
get_text(int number, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	char	   *value;

	if (SPI_processed != 1)
		elog(ERROR, "catalogs could not be read");
	value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
						 number);
	MemoryContextSwitchTo(old);
	return value;
}

static void
put_unreadable(SfStatus *status, const char *problem, const char *remedy)
{
	sf_status_put(status, SF_STATUS_ERROR,
				  psprintf("the catalogs cannot be read: %s", problem),
				  remedy);
}

/* Return a column of a row of the query as a boolean; NULL is false. */
static bool
get_flag(HeapTuple row, int number)
{
	bool		isnull;
	Datum		value = SPI_getbinval(row, SPI_tuptable->tupdesc, number,
									  &isnull);

	return !isnull && DatumGetBool(value);
}

static void
get_column(Column *column, HeapTuple row, MemoryContext context)
{
	TupleDesc	desc = SPI_tuptable->tupdesc;
	MemoryContext old;
	bool		isnull;

	column->relation = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
	column->name = *DatumGetName(SPI_getbinval(row, desc, 2, &isnull));
	column->type = getBaseType(DatumGetObjectId(SPI_getbinval(row, desc, 3,
															  &isnull)));
	column->number = DatumGetInt16(SPI_getbinval(row, desc, 5, &isnull));
	old = MemoryContextSwitchTo(context);
	column->shown = SPI_getvalue(row, desc, 4);
	column->subscriptions = SPI_getvalue(row, desc, 9);
	column->failing = SPI_getvalue(row, desc, 10);
	column->has_layout = sf_key_layout_find(&column->key, column->relation,
											column->number);
	MemoryContextSwitchTo(old);
	column->is_unique = get_flag(row, 6);
	column->may_read = get_flag(row, 8);
}

static Datum
make_array(List *oids)
{
	Datum	   *elements = palloc((list_length(oids) + 1) * sizeof(Datum));
	ListCell   *lc;

	foreach(lc, oids)
		elements[foreach_current_index(lc)] = ObjectIdGetDatum(lfirst_oid(lc));
	return PointerGetDatum(construct_array(elements, list_length(oids), OIDOID,
										   sizeof(Oid), true, TYPALIGN_INT));
}

static void
find_columns(void *arg)
{
	SfStatusColumns *columns = arg;
	Oid			types[] = {OIDARRAYOID};
	Datum		values[] = {make_array(sf_id_makers())};

	run_query(SQL_COLUMNS, 1, types, values);
	columns->column = MemoryContextAllocZero(columns->context,
											 (SPI_processed + 1) *
											 sizeof(Column));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];

		if (get_flag(row, 7))
			get_column(&columns->column[columns->n++], row, columns->context);
		else
			columns->hidden++;
	}
	SPI_finish();
}

/*
 * Read the columns, unless an earlier check has.  If that fails, put a row
 * that says so, and return false.
 */
bool
sf_status_read_columns(SfStatus *status)
{
	SfStatusColumns *columns = status->columns;
	ErrorData  *error;

	if (columns == NULL)
	{
		columns = status->columns = palloc0(sizeof(SfStatusColumns));
		columns->context = CurrentMemoryContext;
		error = sf_status_try(find_columns, columns);
		if (error != NULL)
		{
			columns->problem = error->message;
			columns->remedy = sf_status_log_error(error);
		}
	}
	if (columns->problem != NULL)
		put_unreadable(status, columns->problem, columns->remedy);
	return columns->problem == NULL;
}

/* ---- rows about the columns ---- */

static void
name_column(Names *names, const Column *column, const char *shown)
{
	if (names->n == 0)
	{
		initStringInfo(&names->text);
		names->one = column;
	}
	if (names->n < NAMES)
		appendStringInfo(&names->text, "%s%s", names->n > 0 ? ", " : "",
						 shown);
	names->n++;
}

/* Return the name of its table, with the schema, quoted. */
static char *
table_of(const Column *column)
{
	return pnstrdup(column->shown, strlen(column->shown) -
					strlen(quote_identifier(NameStr(column->name))) - 1);
}

/*
 * Return the first two arguments of a call of ours about a column, with their
 * types, so that no other function of this name is a better match.
 */
static char *
arguments_of(const Column *column)
{
	return psprintf("%s::pg_catalog.regclass, %s::pg_catalog.name",
					quote_literal_cstr(table_of(column)),
					quote_literal_cstr(NameStr(column->name)));
}

/* Put the row of a check.  Once its remedy is typed, the next column shows. */
static void
put_names(SfStatus *status, SfStatusLevel level, const char *what,
		  Names *names, int seen, int unseen, const char *remedy)
{
	StringInfoData found;

	initStringInfo(&found);
	appendStringInfo(&found, "%d of %d columns %s", names->n, seen, what);
	if (names->n > 0)
		appendStringInfo(&found, ": %s", names->text.data);
	if (names->n > NAMES)
		appendStringInfo(&found, ", and %d more", names->n - NAMES);
	if (unseen > 0)
		appendStringInfo(&found, "; %d not looked at", unseen);
	if (names->one != NULL && names->n > 1)
		remedy = psprintf("First %s: %s", names->one->shown, remedy);
	sf_status_put(status, names->n > 0 ? level : SF_STATUS_OK,
				  found.data, names->n > 0 ? remedy : NULL);
}

static bool
is_narrow(Oid type)
{
	return type == INT2OID || type == INT4OID ||
		type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * Return what makes a column wide enough, and all that refer to it.  That sets
 * the default anew, so it is not for a shard, whose number is not known here.
 */
static const char *
remedy_of_type(const Column *column)
{
	Oid			type = get_atttype(column->relation, column->number);
	bool		can_convert = column->has_layout && !column->key.is_shard &&
		(type == INT2OID || type == INT4OID);
	const char *call = can_convert ?
		psprintf("SELECT * FROM %s.snowflake_convert(%s, NULL::integer, false, %s, 'bigint');",
				 sf_extschema(), arguments_of(column), column->key.name == NULL ? "NULL" :
				 quote_literal_cstr(column->key.name)) :
		psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE bigint;",
				 table_of(column), quote_identifier(NameStr(column->name)));

	return psprintf("Run as the owner of the table; this rewrites and locks it: %s",
					call);
}

/* Report columns that are too narrow for their IDs. */
void
sf_status_column_types(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	Names		names = {.n = 0};

	for (int i = 0; i < columns->n; i++)
	{
		if (is_narrow(columns->column[i].type))
			name_column(&names, &columns->column[i],
						columns->column[i].shown);
	}
	put_names(status, SF_STATUS_ERROR,
			  "are too narrow for the IDs that are their default", &names,
			  columns->n, columns->hidden,
			  names.n == 0 ? NULL : remedy_of_type(names.one));
}

/* The search for the indexes that a column's failed ones have left. */
typedef struct Remains
{
	const Column *column;
	MemoryContext context;
	char	   *drop;			/* statements; NULL: there are none */
} Remains;

static void
find_remains(void *arg)
{
	Remains    *remains = arg;
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {
		ObjectIdGetDatum(remains->column->relation),
		Int16GetDatum(remains->column->number)
	};

	run_query(SQL_REMAINS, 2, types, values);
	remains->drop = get_text(1, remains->context);
	SPI_finish();
}

/*
 * Return what makes a unique index.  A partitioned table makes none
 * concurrently, and only one that has its partition key.  One that equal IDs
 * have refused is left, invalid.
 */
static const char *
remedy_of_index(const Column *column)
{
	bool		is_parent =
		get_rel_relkind(column->relation) == RELKIND_PARTITIONED_TABLE;
	Remains		remains = {.column = column, .context = CurrentMemoryContext};
	ErrorData  *error = sf_status_try(find_remains, &remains);
	const char *create = psprintf("CREATE UNIQUE INDEX%s ON %s (%s);",
								  is_parent ? "" : " CONCURRENTLY",
								  table_of(column),
								  quote_identifier(NameStr(column->name)));

	if (error != NULL)
		return sf_status_log_error(error);
	if (remains.drop != NULL)
		return psprintf("An index is invalid, since two rows have one ID, or its making was stopped. Give one of these rows another ID. Then run as the owner of the table: %s %s",
						remains.drop, create);
	return psprintf("Run as the owner of the table%s: %s It refuses an ID that a second server with this node id makes again.",
					is_parent ? ", or so for each partition" : "", create);
}

/* Report columns that no unique index guards. */
void
sf_status_unique_indexes(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	Names		names = {.n = 0};

	for (int i = 0; i < columns->n; i++)
	{
		if (!columns->column[i].is_unique)
			name_column(&names, &columns->column[i],
						columns->column[i].shown);
	}
	put_names(status, SF_STATUS_WARNING,
			  "are in no valid unique index", &names,
			  columns->n, columns->hidden,
			  names.n == 0 ? NULL : remedy_of_index(names.one));
}

/*
 * Report subscriptions that fail to bring rows.  If publisher and subscriber
 * have one node id, they make the same ID sooner or later, and the row of the
 * publisher with that ID is refused again and again.
 */
void
sf_status_subscriptions(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	Names		names = {.n = 0};

	for (int i = 0; i < columns->n; i++)
	{
		const Column *column = &columns->column[i];

		if (column->failing != NULL)
			name_column(&names, column, psprintf("%s (%s)", column->shown,
												 column->failing));
	}
	put_names(status, SF_STATUS_WARNING,
			  "get rows from a subscription that fails",
			  &names, columns->n, columns->hidden,
			  names.n == 0 ? NULL :
			  psprintf("If the log names a unique constraint or index (SQLSTATE 23505), run on both servers: SELECT node_id FROM %s.pg_stat_snowflake; If these are equal, set another here, and run: SELECT pg_catalog.pg_reload_conf(); If they never were, do not renumber: the row may be here already. Else, as the table's owner, with the log's ID: SELECT * FROM %s.snowflake_renumber(%s, ID::bigint, ID::bigint, false);",
					   sf_extschema(), sf_extschema(),
					   arguments_of(names.one)));
}

/* ---- partitions that come to an end ---- */

static const char *remedy_of_rows(const Column *column,
								  const SfNodeSearch *search);

/* What is known of a column that divides its table into ranges of IDs. */
typedef struct Partitions
{
	bool		is_key;			/* it does */
	Oid			rest;			/* the default partition, or InvalidOid */
	int			count;			/* without the default partition */
	bool		has_now;		/* one is for the IDs of now */
	SfIdSpan	last;			/* before the first gap after now */
} Partitions;

/*
 * Find the last partition before the first gap that new IDs will reach.  A gap
 * that they have reached, and that a default partition fills, is none.
 */
static void
find_last(const SfIdSpan *spans, int64 now_id, Partitions *found)
{
	int			last = 0;

	while (last + 1 < found->count &&
		   (spans[last + 1].first <= now_id ||
			spans[last + 1].first == spans[last].last + 1 ||
			(OidIsValid(found->rest) && spans[last].last < now_id)))
		last++;
	found->last = spans[last];
	for (int i = 0; i < found->count; i++)
	{
		if (spans[i].first <= now_id && spans[i].last >= now_id)
			found->has_now = true;
	}
}

static void
read_partitions(Relation table, const Column *column, int64 now_id,
				Partitions *found)
{
	SfIdSpan   *spans;

	if (!sf_id_span_is_parent(table) ||
		RelationGetPartitionKey(table)->partattrs[0] != column->number)
		return;
	found->is_key = true;
	spans = sf_id_span_read(table, &found->count, &found->rest);
	if (found->count > 0)
		find_last(spans, now_id, found);
}

/* The search for the partitions of a table. */
typedef struct Search
{
	const Column *column;
	int64		now_id;
	bool		is_read;		/* else it is locked, or cannot be read */
	Partitions	found;
} Search;

static void
find_partitions(void *arg)
{
	Search	   *search = arg;
	Oid			relation = search->column->relation;
	Relation	table;

	if (!ConditionalLockRelationOid(relation, AccessShareLock))
		return;
	/* rules and policies may take more stack to read than there is */
	table = try_relation_open(relation, NoLock);
	if (table == NULL)
	{
		UnlockRelationOid(relation, AccessShareLock);
		return;
	}
	read_partitions(table, search->column, search->now_id, &search->found);
	relation_close(table, AccessShareLock);
	search->is_read = true;
}

/*
 * Return true if no partition is for the IDs of now.  A default partition may
 * be for those before the first other one.
 */
static bool
are_over(const Partitions *found, int64 now_id)
{
	if (found->count == 0)
		return !OidIsValid(found->rest);
	return !found->has_now &&
		(!OidIsValid(found->rest) || found->last.last < now_id);
}

/* Return true if the last partition ends sooner than it is long. */
static bool
end_soon(const Partitions *found, int64 now_id)
{
	if (found->count == 0 || found->last.last == PG_INT64_MAX ||
		found->last.first == PG_INT64_MIN || found->last.last < now_id)
		return false;
	return (uint64) found->last.last - now_id <
		(uint64) found->last.last - found->last.first;
}

static const char *
show_end(const Column *column, const Partitions *found, int64 now_id)
{
	TimestampTz end;

	if (found->count == 0)
		return "has none";
	if (!found->has_now && found->last.last >= now_id)
		return "has none for the present";
	end = sf_id_time_of(&column->key.layout, found->last.last + 1);
	return psprintf("until %s", timestamptz_to_str(end));
}

/* The search for the highest ID in a default partition. */
typedef struct Highest
{
	const Column *column;
	Oid			rest;
	bool		looked;			/* false: not possible in passing */
	int64		id;
} Highest;

/* Skip some rows that the layout is too narrow for. */
static bool
take_highest(int64 value, uint64 nth, void *arg)
{
	Highest    *highest = arg;
	const SfLayout *layout = &highest->column->key.layout;

	if (sf_layout_tick(layout, value) >= layout->end_tick)
		return nth < LOOK_AT_ROWS;
	highest->id = Max(highest->id, value);
	return false;
}

static void
find_highest(void *arg)
{
	Highest    *highest = arg;
	SfColumn	column = {
		.relation = highest->rest, .name = NameStr(highest->column->name),
		.lowest = 0, .in_passing = true, .visit = take_highest,
		.arg = highest
	};

	highest->looked = highest->column->may_read && sf_column_read(&column);
}

/* Return the start of the next step. */
static TimestampTz
next_step(const SfStep *step, TimestampTz time)
{
	return sf_calendar_end(step, sf_calendar_start(step, time));
}

/*
 * Return the call that makes partitions above all rows of the default
 * partition, since the server makes no other ones.  There is an hour to type
 * it before new rows are in its way.
 */
static const char *
later_partitions(const Column *column, Oid rest, const char *interval)
{
	Highest		highest = {.column = column, .rest = rest};
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz start;
	TimestampTz until;
	SfStep		step;
	Datum		parsed = DirectFunctionCall3(interval_in,
											 CStringGetDatum(interval),
											 ObjectIdGetDatum(InvalidOid),
											 Int32GetDatum(-1));
	ErrorData  *error = sf_status_try(find_highest, &highest);

	if (error != NULL)
	{
		(void) sf_status_log_error(error);
		highest.looked = false;
	}
	sf_calendar_step(&step, DatumGetIntervalP(parsed));
	start = sf_id_time_of(&column->key.layout, highest.id);
	if (start > now + USECS_PER_DAY)
	{
		SfNodeSearch search = {.id = highest.id};

		return remedy_of_rows(column, &search);
	}
	start = Max(start, now);
	if (!highest.looked)
		start = next_step(&step, now);
	start = next_step(&step, start + USECS_PER_HOUR);
	until = next_step(&step, next_step(&step, next_step(&step, start)));
	return psprintf("Run once, as the owner of the table: SELECT %s.snowflake_create_partitions(%s::pg_catalog.regclass, interval '%s', timestamp with time zone '%s', timestamp with time zone '%s', NULL); Until these partitions begin, rows go to the default partition, and stay there. Then make more from cron, before the last one ends.",
					sf_extschema(), quote_literal_cstr(table_of(column)),
					interval,
					pstrdup(timestamptz_to_str(start)),
					pstrdup(timestamptz_to_str(until)));
}

/* Return the call that makes more partitions like the last one. */
static const char *
more_partitions(const Column *column, const Partitions *found, bool is_over)
{
	const SfLayout *layout = &column->key.layout;
	const char *step = NULL;

	if (found->count > 0 && found->last.first >= 0 &&
		found->last.last < PG_INT64_MAX)
		step = sf_calendar_interval(sf_id_time_of(layout, found->last.first),
									sf_id_time_of(layout,
												  found->last.last + 1));
	if (step == NULL)
		step = "1 month";
	if (is_over && OidIsValid(found->rest))
		return later_partitions(column, found->rest, step);
	return psprintf("Run this now, and from cron, as the owner of the table: SELECT %s.snowflake_create_partitions(%s::pg_catalog.regclass, interval '%s', pg_catalog.now(), pg_catalog.now() OPERATOR(pg_catalog.+) interval '%lld%s', NULL);",
					sf_extschema(), quote_literal_cstr(table_of(column)), step,
					3 * strtoll(step, NULL, 10), strchr(step, ' '));
}

/* Report tables whose partitions end soon. */
void
sf_status_partitions(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	Names		names = {.n = 0};
	SfStatusLevel level = SF_STATUS_WARNING;
	const char *remedy = NULL;
	int			seen = 0;
	int			unseen = columns->hidden;

	for (int i = 0; i < columns->n; i++)
	{
		const Column *column = &columns->column[i];
		Search		search = {.column = column};
		Partitions	found;
		bool		is_over;
		int64		now_id;

		if (column->has_layout)
		{
			search.now_id = sf_id_span_first_id(&column->key.layout,
												GetCurrentTimestamp());
			(void) sf_status_try(find_partitions, &search);
		}
		if (!search.is_read)
		{
			unseen++;
			continue;
		}
		now_id = search.now_id;
		found = search.found;
		if (!found.is_key)
			continue;
		seen++;
		is_over = are_over(&found, now_id);
		if (!is_over && !end_soon(&found, now_id))
			continue;
		if (is_over && !OidIsValid(found.rest))
			level = SF_STATUS_ERROR;
		if (names.n == 0)
			remedy = more_partitions(column, &found, is_over);
		name_column(&names, column,
					psprintf("%s (%s)", column->shown,
							 show_end(column, &found, now_id)));
	}
	put_names(status, level,
			  "that partition a table have no partition after the present one",
			  &names, seen, unseen, remedy);
}

/* ---- IDs of other servers ---- */

/* Return true if its default makes IDs of the node, in a known layout. */
static bool
makes_node_ids(const Column *column)
{
	return column->has_layout && !column->key.is_shard;
}

static bool
may_read_ids(const Column *column)
{
	return makes_node_ids(column) && column->may_read &&
		IsBinaryCoercible(column->type, INT8OID);
}

/*
 * Return the remedy of rows above.  If their time has come, no ID need be made
 * below them.  Otherwise the database would make no IDs until then: new IDs
 * for these rows are better.
 */
static const char *
remedy_of_rows(const Column *column, const SfNodeSearch *search)
{
	const SfKeyLayout *key = &column->key;
	int64		id = search->id;
	int64		from_ms = sf_clock_wall_ms() + sf_max_clock_wait;
	int64		tick = sf_layout_ms_to_tick(&key->layout, from_ms);
	const char *first = search->is_ours ?
		psprintf("If another server made these rows, give it another node id: SELECT * FROM %s.snowflake_node_conflicts(%s, 100); If the default or this server had another layout, set that again.",
				 sf_extschema(), arguments_of(column)) :
		"If the default or this server had another layout, set that again.";

	if (sf_layout_tick(&key->layout, id) * key->layout.tick_ms <= from_ms)
		return psprintf("%s If the rows are this server's own, restored without their mark, run as a superuser: SELECT %s.snowflake_advance('%lld'::bigint%s%s);",
						first, sf_extschema(), (long long) id,
						key->name == NULL ? "" : ", ",
						key->name == NULL ? "" :
						quote_literal_cstr(key->name));
	return psprintf("%s If this clock is behind, correct it. If a wrong clock made the rows, and no subscription brought them, stop all clients, and run as the table's owner: SELECT * FROM %s.snowflake_renumber(%s, '%lld'::bigint, '%lld'::bigint, false);",
					first, sf_extschema(), arguments_of(column), (long long)
					sf_layout_min_id(&key->layout,
									 Max(tick, key->layout.epoch_tick)),
					(long long) id);
}

static void
find_conflicts(SfStatus *status, const SfStatusColumns *columns, uint32 node,
			   int64 mark_ms)
{
	Names		names = {.n = 0};
	SfStatusLevel level = SF_STATUS_WARNING;
	const Column *worst = NULL;
	const char *remedy = NULL;
	int			seen = 0;

	for (int i = 0; i < columns->n; i++)
	{
		const Column *column = &columns->column[i];
		SfNodeSearch search = {
			.relation = column->relation, .name = NameStr(column->name),
			.layout = &column->key.layout, .node = node,
			.mark_ms = mark_ms, .nrows = LOOK_AT_ROWS
		};

		if (may_read_ids(column))
		{
			ErrorData  *error = sf_status_try(sf_node_conflicts_find, &search);

			if (error != NULL)
			{
				(void) sf_status_log_error(error);
				search.looked = false;
			}
		}
		if (search.looked || search.found)
			seen++;
		if (!search.found)
			continue;
		if (remedy == NULL ||
			(search.is_ours && level < SF_STATUS_ERROR))
		{
			worst = column;
			remedy = remedy_of_rows(column, &search);
		}
		if (search.is_ours)
			level = SF_STATUS_ERROR;
		name_column(&names, column, psprintf("%s (%lld%s%s%s)", column->shown,
											 (long long) search.id,
											 search.is_ours ? "" :
											 ", more than a day ahead",
											 column->subscriptions == NULL ?
											 "" : ", has rows of the subscription ",
											 column->subscriptions == NULL ?
											 "" : column->subscriptions));
	}
	names.one = worst;
	put_names(status, level,
			  "hold an ID above those that were made so far",
			  &names, seen, columns->n + columns->hidden - seen,
			  remedy);
}

static bool
has_node_column(const SfStatusColumns *columns)
{
	for (int i = 0; i < columns->n; i++)
	{
		if (makes_node_ids(&columns->column[i]))
			return true;
	}
	return false;
}

/* Find this server's node, even if not published yet; or the remedy. */
static bool
find_node(uint32 *node, const char **remedy)
{
	uint64		lease;
	uint32		last;
	char		reason[SF_REASON_SIZE];

	*node = 0;
	if (sf_shmem == NULL)
	{
		*remedy = sf_preload_hint();
		return false;
	}
	lease = sf_shmem_right();
	*node = sf_settings_node_of(lease);
	*remedy = sf_settings_leases() ?
		SF_SEE_LEASE : sf_node_remedy();
	return lease != 0 || (!sf_settings_leases() &&
						  sf_node_find(node, &last, reason, sizeof(reason)));
}

/* Return true if calls for IDs of this layout are refused now. */
static bool
is_refused(const SfLayout *layout, bool has_node, uint32 node)
{
	int64		tick = sf_layout_ms_to_tick(layout, sf_clock_wall_ms());

	return (has_node && (uint64) node >> layout->node_bits != 0) ||
		tick < layout->epoch_tick || tick >= layout->end_tick;
}

/* Return what makes IDs in another layout. */
static const char *
remedy_of_layout(const Column *column)
{
	return psprintf("In one column, IDs of two layouts can be equal. For a new one, run as the owner of the table: ALTER TABLE %s ADD COLUMN NAME bigint DEFAULT %s.snowflake_nextval('LAYOUT'::pg_catalog.text); These layouts last: SELECT * FROM %s.snowflake_layouts();",
					table_of(column), sf_extschema(), sf_extschema());
}

/*
 * Report defaults in a layout in which this server can make no IDs, or soon
 * none.  Layouts that no column names are not reported: any role can name one.
 */
void
sf_status_column_layouts(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	Names		names = {.n = 0};
	SfStatusLevel level = SF_STATUS_WARNING;
	int			seen = 0;
	uint32		node;
	const char *remedy;
	bool		has_node = find_node(&node, &remedy);
	bool		has_room = true;

	for (int i = 0; i < columns->n; i++)
	{
		const Column *column = &columns->column[i];
		const SfLayout *layout = &column->key.layout;
		int64		end_ms;
		int64		left_ms;

		if (!makes_node_ids(column))
			continue;
		seen++;
		end_ms = layout->end_tick * layout->tick_ms;
		left_ms = end_ms - sf_clock_wall_ms();
		if (is_refused(layout, has_node, node))
		{
			if (names.n == 0)
				has_room = !has_node ||
					(uint64) node >> layout->node_bits == 0;
			level = SF_STATUS_ERROR;
			name_column(&names, column, psprintf("%s (inserts fail)", column->shown));
		}
		else if (column->key.name != NULL && left_ms < YEAR_MS)
		{
			if (left_ms < 30 * DAY_MS)
				level = SF_STATUS_ERROR;
			name_column(&names, column, psprintf("%s (until %s)", column->shown,
												 sf_timefmt_show(end_ms)));
		}
	}
	put_names(status, level,
			  has_node ? psprintf("have a default in a layout without room for node id %u, or whose time is not now or ends within a year", node) :
			  "have a default in a layout whose time is not now or ends within a year",
			  &names, seen, 0,
			  names.n == 0 ? NULL : has_room ? remedy_of_layout(names.one) :
			  "Set a smaller snowflake.node_id, which no other server has, and restart the server.");
}

/*
 * Report IDs above those that this server has made: other servers', or this
 * one's without their mark.  Ours lie below the mark, loaded or not.
 */
void
sf_status_rows_above(SfStatus *status)
{
	const SfStatusColumns *columns = status->columns;
	const SfStatusNumbers *unloaded = NULL;
	uint32		node;
	const char *remedy;

	if (sf_shmem != NULL && sf_db_slot_published_mark() == 0)
		unloaded = sf_status_numbers(status);
	if (!find_node(&node, &remedy) && has_node_column(columns))
		sf_status_put(status, SF_STATUS_WARNING,
					  "not looked at: this server has no node id", remedy);
	else if (unloaded != NULL && unloaded->problem != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("not looked at, since the mark is not known: %s",
							   unloaded->problem), unloaded->remedy);
	else if (unloaded != NULL && sf_config_record_is_other(&unloaded->read))
		sf_status_put(status, SF_STATUS_WARNING,
					  "not looked at: this server's layouts would decode them wrongly",
					  "See the check \"recorded configuration\".");
	else
		find_conflicts(status, columns, node, unloaded == NULL ? 0 :
					   unloaded->read.value[SF_DURABLE_MARK]);
}

/* ---- rights ---- */

/*
 * By design, the extension's owner alone may write or lock the data on which
 * the uniqueness of IDs rests: it owns the durable numbers.  In a registry,
 * roles that may execute the workers' functions write its tables
 * (doc/leases.md).
 *
 * A privilege on a column counts as one on its table: REVOKE removes both.  On
 * a column of a sequence the server grants nothing but SELECT.
 *
 * Each role that was granted a function for administrators shows, also one
 * that an administrator chose: GRANT ... ON ALL ROUTINES IN SCHEMA leaves the
 * same entries.
 *
 * A role that may use the schema of a table or sequence can lock it, since the
 * parser locks before any other right is checked.  The install script lets the
 * owner of the database do so, for pg_dump.
 */
typedef struct Rights
{
	Oid			extension;
	char	   *found;			/* NULL: there are none */
	char	   *remedy;
} Rights;

static void
find_rights(void *arg)
{
	Rights	   *rights = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(rights->extension)};
	MemoryContext context = CurrentMemoryContext;

	run_query(SQL_RIGHTS, 1, types, values);
	rights->found = get_text(1, context);
	rights->remedy = get_text(2, context);
	SPI_finish();
}

/* Report roles that may write or lock what guards the IDs. */
void
sf_status_rights(SfStatus *status)
{
	Rights		rights = {0};
	ErrorData  *error;

	rights.extension = getExtensionOfObject(ProcedureRelationId,
											status->function);
	error = sf_status_try(find_rights, &rights);
	if (error != NULL)
		put_unreadable(status, error->message, sf_status_log_error(error));
	else if (rights.found != NULL)
		sf_status_put(status, SF_STATUS_WARNING,
					  psprintf("roles other than the extension's owner may write or lock what guards the IDs: %s",
							   rights.found),
					  rights.remedy);
	else
		sf_status_ok(status, "no role was granted more than CREATE EXTENSION grants");
}
