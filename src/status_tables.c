/*-------------------------------------------------------------------------
 *
 * status_tables.c
 *	  What snowflake_status() finds in the tables of this database: columns
 *	  whose default makes IDs.
 *
 * The catalogues say which those are: they depend on a function of this
 * extension.  What calls one from within a function of its own is not known
 * there.  Tables are read with the caller's rights, only where an index finds
 * their highest IDs, and where no policies of row security apply; and without
 * running what is their owner's: see column.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "status.h"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "settings.h"
#include "slot.h"
#include "twins.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Of so many rows with the highest IDs. */
#define LOOK_AT_ROWS	10000

/* So many columns are named in a row. */
#define NAMES			10

typedef struct Column
{
	Oid			relation;
	NameData	name;
	Oid			type;			/* not that of a domain */
	char	   *shown;			/* schema.table.column, quoted */
	char	   *subscriptions;	/* that bring rows, quoted; or NULL */
	bool		is_node;		/* its default makes the node's IDs */
	bool		is_unique;
	bool		may_read;		/* the caller may, and no policy applies */
} Column;

typedef struct Columns
{
	Oid			extension;
	MemoryContext context;
	Column	   *column;
	int			n;
	int			hidden;			/* columns that the caller may not read */
} Columns;

/* Columns that something is wrong with. */
typedef struct Names
{
	StringInfoData text;
	int			n;
} Names;

#define EQ	" OPERATOR(pg_catalog.=) "
#define MINUS	" OPERATOR(pg_catalog.-) "

/* Is the column of u one of the keys of a valid unique index on this table? */
#define UNIQUE_ON(relation, attnum) \
	"EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid" EQ relation \
	" AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND " attnum EQ \
	"ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts" MINUS "1]))"

/*
 * A partition is not listed beside the table that it is a part of.  That has
 * unique IDs also where each of its leaves has, if it is they who divide it;
 * which is taken for granted.  Partitions are looked for in the catalog, since
 * pg_partition_tree() waits for a lock on each of them, and keeps it.
 */
static const char *const query =
"WITH RECURSIVE used AS MATERIALIZED ("
" SELECT f.adrelid, f.adnum, a.attname,"
"  pg_catalog.bool_and(p.prosrc" EQ "'snowflake_next_id') AS is_node"
" FROM pg_catalog.pg_depend e"
"  JOIN pg_catalog.pg_proc p ON p.oid" EQ "e.objid"
"  JOIN pg_catalog.pg_depend d ON d.refobjid" EQ "p.oid"
"  JOIN pg_catalog.pg_attrdef f ON f.oid" EQ "d.objid"
"  JOIN pg_catalog.pg_attribute a ON a.attrelid" EQ "f.adrelid"
"   AND a.attnum" EQ "f.adnum"
" WHERE e.refclassid" EQ "'pg_catalog.pg_extension'::pg_catalog.regclass"
"  AND e.refobjid" EQ "$1 AND e.deptype" EQ "'e'"
"  AND e.classid" EQ "'pg_catalog.pg_proc'::pg_catalog.regclass"
"  AND (p.prosrc" EQ "'snowflake_next_id'"
"   OR p.prosrc" EQ "'snowflake_shard_nextval')"
"  AND d.refclassid" EQ "'pg_catalog.pg_proc'::pg_catalog.regclass"
"  AND d.classid" EQ "'pg_catalog.pg_attrdef'::pg_catalog.regclass"
"  AND NOT a.attisdropped"
" GROUP BY f.adrelid, f.adnum, a.attname),"
" part AS ("
" SELECT DISTINCT u.adrelid AS root, u.adrelid AS relid FROM used u"
" UNION"
" SELECT t.root, i.inhrelid FROM part t"
"  JOIN pg_catalog.pg_inherits i ON i.inhparent" EQ "t.relid"
"  JOIN pg_catalog.pg_class c ON c.oid" EQ "i.inhrelid"
" WHERE c.relispartition AND NOT i.inhdetachpending),"
" leaf AS ("
" SELECT t.root, t.relid FROM part t"
"  JOIN pg_catalog.pg_class c ON c.oid" EQ "t.relid"
" WHERE NOT c.relkind" EQ "'p')"
" SELECT c.oid, a.attname, a.atttypid, pg_catalog.format('%I.%I.%I',"
"   n.nspname, c.relname, a.attname), u.is_node,"
"  " UNIQUE_ON("c.oid", "a.attnum")
"  OR (c.relkind" EQ "'p' AND EXISTS (SELECT FROM leaf t"
"    WHERE t.root" EQ "c.oid)"
"   AND NOT EXISTS (SELECT FROM leaf t"
"    JOIN pg_catalog.pg_attribute l ON l.attrelid" EQ "t.relid"
"     AND l.attname" EQ "a.attname"
"    WHERE t.root" EQ "c.oid AND NOT "
UNIQUE_ON("l.attrelid", "l.attnum") ")),"
"  pg_catalog.has_schema_privilege(n.oid, 'USAGE')"
"   AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT'),"
"  NOT pg_catalog.row_security_active(c.oid),"
"  (SELECT pg_catalog.string_agg(DISTINCT"
"    pg_catalog.format('%I', s.subname), ', ')"
"   FROM pg_catalog.pg_subscription_rel r"
"    JOIN pg_catalog.pg_subscription s ON s.oid" EQ "r.srsubid"
"   WHERE r.srrelid" EQ "ANY (ARRAY("
"    SELECT t.relid FROM part t WHERE t.root" EQ "c.oid)))"
" FROM used u"
"  JOIN pg_catalog.pg_class c ON c.oid" EQ "u.adrelid"
"  JOIN pg_catalog.pg_namespace n ON n.oid" EQ "c.relnamespace"
"  JOIN pg_catalog.pg_attribute a ON a.attrelid" EQ "c.oid"
"   AND a.attnum" EQ "u.adnum"
" WHERE (c.relkind" EQ "'r' OR c.relkind" EQ "'p')"
"  AND (c.relnamespace" EQ "pg_catalog.pg_my_temp_schema()"
"   OR NOT c.relpersistence" EQ "'t')"
"  AND NOT (c.relispartition AND EXISTS (SELECT FROM used r"
"   WHERE r.adrelid" EQ "pg_catalog.pg_partition_root(c.oid)"
"    AND r.attname" EQ "a.attname))"
" ORDER BY n.nspname, c.relname, a.attnum";

/* A column of a row of the query, as a boolean; false where it is NULL. */
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
	bool		isnull;

	column->relation = DatumGetObjectId(SPI_getbinval(row, desc, 1, &isnull));
	column->name = *DatumGetName(SPI_getbinval(row, desc, 2, &isnull));
	column->type = getBaseType(DatumGetObjectId(SPI_getbinval(row, desc, 3,
															  &isnull)));
	column->shown = MemoryContextStrdup(context, SPI_getvalue(row, desc, 4));
	column->subscriptions = SPI_getvalue(row, desc, 9);
	if (column->subscriptions != NULL)
		column->subscriptions = MemoryContextStrdup(context,
													column->subscriptions);
	column->is_node = get_flag(row, 5);
	column->is_unique = get_flag(row, 6);
	column->may_read = get_flag(row, 8);
}

static void
find_columns(void *arg)
{
	Columns    *columns = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(columns->extension)};

	SPI_connect();
	if (SPI_execute_with_args(query, 1, types, values, NULL, true,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
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

/* ---- what is said of them ---- */

static void
name_column(Names *names, const char *shown)
{
	if (names->n == 0)
		initStringInfo(&names->text);
	if (names->n < NAMES)
		appendStringInfo(&names->text, "%s%s", names->n > 0 ? ", " : "",
						 shown);
	names->n++;
}

static void
put_names(ReturnSetInfo *result, const char *check, SfStatusLevel level,
		  const char *what, Names *names, int seen, int unseen,
		  const char *remedy)
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
	sf_status_put(result, check, names->n > 0 ? level : SF_STATUS_OK,
				  found.data, names->n > 0 ? remedy : NULL);
}

static bool
is_narrow(Oid type)
{
	return type == INT2OID || type == INT4OID ||
		type == FLOAT4OID || type == FLOAT8OID;
}

static void
put_types(ReturnSetInfo *result, const Columns *columns)
{
	Names		names = {.n = 0};

	for (int i = 0; i < columns->n; i++)
	{
		if (is_narrow(columns->column[i].type))
			name_column(&names, columns->column[i].shown);
	}
	put_names(result, "column types", SF_STATUS_ERROR,
			  "are too narrow for the IDs that are their default", &names,
			  columns->n, columns->hidden,
			  "Make these columns bigint, and all that refer to them: snowflake_convert() prints the statements. That rewrites the tables and locks them meanwhile.");
}

static void
put_indexes(ReturnSetInfo *result, const Columns *columns)
{
	Names		names = {.n = 0};

	for (int i = 0; i < columns->n; i++)
	{
		if (!columns->column[i].is_unique)
			name_column(&names, columns->column[i].shown);
	}
	put_names(result, "unique indexes", SF_STATUS_WARNING,
			  "are in no valid unique index", &names,
			  columns->n, columns->hidden,
			  "Make them the primary key, or CREATE UNIQUE INDEX CONCURRENTLY: it refuses what a second server with this node id would make twice.");
}

/* ---- rows that are not ours ---- */

typedef struct Look
{
	const Column *column;
	uint32		node;
	int64		mark_ms;		/* if it is not loaded */
	bool		looked;
	bool		found;
	int64		id;
} Look;

static void
look_at(void *arg)
{
	Look	   *look = arg;

	look->looked = sf_twins_look(look->column->relation,
								 NameStr(look->column->name), look->node,
								 look->mark_ms, LOOK_AT_ROWS,
								 &look->found, &look->id);
}

static bool
can_look_at(const Column *column)
{
	return column->is_node && column->type == INT8OID && column->may_read;
}

static void
look_at_all(ReturnSetInfo *result, const Columns *columns, uint32 node,
			int64 mark_ms)
{
	Names		names = {.n = 0};
	int			seen = 0;

	for (int i = 0; i < columns->n; i++)
	{
		Look		look = {.column = &columns->column[i], .node = node,
		.mark_ms = mark_ms};

		if (can_look_at(look.column))
			(void) sf_status_try(look_at, &look, NULL);
		if (look.looked || look.found)
			seen++;
		if (look.found)
			name_column(&names, psprintf("%s (%lld%s%s)", look.column->shown,
										 (long long) look.id,
										 look.column->subscriptions == NULL ?
										 "" : ", has rows of the subscription ",
										 look.column->subscriptions == NULL ?
										 "" : look.column->subscriptions));
	}
	put_names(result, "rows above", SF_STATUS_ERROR,
			  "hold an ID of this node that this server cannot have issued",
			  &names, seen, columns->n + columns->hidden - seen,
			  "See these rows with snowflake_twins(). If another server, such as the publisher of a subscription, has this node id, give one of them another. If the rows are this server's own, restored without their mark, have an administrator call snowflake_advance() with the largest ID.");
}

static bool
has_node_column(const Columns *columns)
{
	for (int i = 0; i < columns->n; i++)
	{
		if (columns->column[i].is_node)
			return true;
	}
	return false;
}

/* All that was issued in this database lies below the mark, loaded or not. */
static void
put_rows(ReturnSetInfo *result, const Columns *columns, Oid function)
{
	uint64		lease;
	int64		mark_ms = 0;
	char	   *error = NULL;

	if (sf_status_standby(result, "rows above"))
		return;
	if (sf_state != NULL && sf_slot_published_mark() == 0)
		error = sf_status_read_mark(function, &mark_ms, NULL);
	lease = sf_state == NULL ? 0 : pg_atomic_read_u64(&sf_state->lease);
	if (lease == 0 && has_node_column(columns))
		sf_status_put(result, "rows above", SF_STATUS_WARNING,
					  "not looked at: this server has no node id",
					  "Do what the rows above this one say.");
	else if (error != NULL)
		sf_status_put(result, "rows above", SF_STATUS_WARNING,
					  psprintf("not looked at: the mark cannot be read: %s",
							   error),
					  "Do what the row \"mark\" says.");
	else
		look_at_all(result, columns, sf_settings_node_of(lease), mark_ms);
}

/* Also where the library is not preloaded. */
void
sf_status_tables(ReturnSetInfo *result, Oid function)
{
	Columns		columns = {.context = CurrentMemoryContext};
	char	   *error;

	columns.extension = getExtensionOfObject(ProcedureRelationId, function);
	error = sf_status_try(find_columns, &columns, NULL);
	if (error != NULL)
	{
		sf_status_put(result, "tables", SF_STATUS_ERROR,
					  psprintf("the catalogs cannot be read: %s", error),
					  "See the server's log for this error.");
		return;
	}
	put_types(result, &columns);
	put_indexes(result, &columns);
	put_rows(result, &columns, function);
}
