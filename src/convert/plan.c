/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Dependents of a converted column, and obstacles to the conversion.
 *
 * Columns share their values through foreign keys and inheritance: those that
 * refer to the column, those that refer to these, and the same column of
 * partitions and children.  All of them get the same type, bigint or
 * snowflake.  ALTER TABLE itself makes indexes, constraints and statistics
 * anew.  The dependents that it refuses to alter are found here and in
 * script.c: views, rules, triggers, policies, publications, functions with an
 * SQL body, generated columns.
 *
 * The queries run with search_path = pg_catalog, pg_temp, and with the rights
 * of the caller, or, if the script is run, of the table's owner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "convert/plan.h"
#include "convert/plan.sql.inc"
#include "convert/rights.sql.inc"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

/* ---- queries ---- */

/*
 * Run a query without JIT: the planner overestimates these queries, and
 * compiling one takes seconds.
 */
static void
select_rows(const char *query, int nargs, Oid *types, Datum *values)
{
	int			guc_level = NewGUCNestLevel();

	(void) set_config_option("jit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_execute_with_args(query, nargs, types, values, NULL, false,
							  0) != SPI_OK_SELECT)
		elog(ERROR, "catalogs could not be read");
	AtEOXact_GUC(true, guc_level);
}

/* Return a text; NULL if there is no row, or no value. */
char *
sf_conversion_value(const char *query, int nargs, Oid *types, Datum *values)
{
	select_rows(query, nargs, types, values);
	if (SPI_processed == 0)
		return NULL;
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

/* Return an array, whose contents live until SPI_finish(). */
static Datum
get_array(int number)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0],
									  SPI_tuptable->tupdesc, number, &isnull);

	Assert(!isnull);
	return value;
}

static Oid	given_types[] = {OIDARRAYOID, INT2ARRAYOID, OIDOID, OIDOID,
OIDARRAYOID};

/* Return a text, from a query that begins with the given arrays. */
char *
sf_conversion_text(SfConversion *conversion, const char *query)
{
	return sf_conversion_value(query, lengthof(given_types), given_types,
							   conversion->given);
}

void
sf_conversion_add(SfConversion *conversion, const char *text,
				  const char *locks, const char *note)
{
	SfStatement *statement = palloc(sizeof(SfStatement));

	statement->text = text;
	statement->locks = locks;
	statement->note = note;
	statement->role = InvalidOid;
	conversion->steps = lappend(conversion->steps, statement);
}

/* Add the statements found: text, locks, note, and a role to become. */
static void
add_found(SfConversion *conversion)
{
	SPITupleTable *table = SPI_tuptable;

	for (uint64 i = 0; i < table->numvals; i++)
	{
		SfStatement *statement;
		bool		isnull = true;
		Datum		role = (Datum) 0;

		sf_conversion_add(conversion,
						  SPI_getvalue(table->vals[i], table->tupdesc, 1),
						  SPI_getvalue(table->vals[i], table->tupdesc, 2),
						  SPI_getvalue(table->vals[i], table->tupdesc, 3));
		if (table->tupdesc->natts > 3)
			role = SPI_getbinval(table->vals[i], table->tupdesc, 4, &isnull);
		statement = llast(conversion->steps);
		if (!isnull)
			statement->role = DatumGetObjectId(role);
	}
}

/* Add the statements of a query that begins with the given arrays. */
void
sf_conversion_query(SfConversion *conversion, const char *query)
{
	select_rows(query, lengthof(given_types), given_types, conversion->given);
	add_found(conversion);
}

/* Add the statements of a query about the column, which is $1 and $2. */
void
sf_conversion_query_column(SfConversion *conversion, const char *query)
{
	(void) sf_conversion_ask(conversion, query);
	add_found(conversion);
}

void
sf_conversion_queries(SfConversion *conversion, const char *const *queries,
					  int n)
{
	for (int i = 0; i < n; i++)
		sf_conversion_query(conversion, queries[i]);
}

/*
 * Add a SET of the path.  A path as it was set may not be valid for SET: $user
 * stands without quotes in many, and any other text, even a semicolon, may
 * come from a user that set it for the database.  SET takes no name without
 * letters.
 */
static void
set_path(SfConversion *conversion, const char *path, const char *note)
{
	StringInfoData list;
	List	   *names;
	ListCell   *cell;
	bool		can_set = SplitIdentifierString(pstrdup(path), ',', &names) &&
		names != NIL;
	const char *text;

	initStringInfo(&list);
	foreach(cell, names)
	{
		const char *name = lfirst(cell);

		can_set = can_set && name[0] != '\0';
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
						 quote_identifier(name));
	}
	text = psprintf("SET LOCAL search_path = %s", list.data);
	if (!can_set)
		text = psprintf("SELECT pg_catalog.set_config('search_path', %s, true)",
						quote_literal_cstr(path));
	sf_conversion_add(conversion, text, NULL, note);
}

/* Add statements that run functions with the session's path, if it differs. */
void
sf_conversion_query_with_path(SfConversion *conversion, const char *query)
{
	bool		differs = strcmp(conversion->path, SF_CONVERSION_PATH) != 0;
	int			before = list_length(conversion->steps);
	int			begins;

	if (differs)
		set_path(conversion, conversion->path,
				 "functions see the session's path, as without this script");
	begins = list_length(conversion->steps);
	sf_conversion_query(conversion, query);
	if (list_length(conversion->steps) == begins)
		conversion->steps = list_truncate(conversion->steps, before);
	else if (differs)
		set_path(conversion, SF_CONVERSION_PATH, NULL);
}

/* ---- dependents ---- */

/* Find the arrays that the queries of a conversion take. */
void
sf_conversion_find(SfConversion *conversion)
{
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
	Int16GetDatum(conversion->number)};

	select_rows(SQL_FIND_COLUMNS, 2, types, values);
	conversion->given[0] = get_array(1);
	conversion->given[1] = get_array(2);
	conversion->given[2] = ObjectIdGetDatum(conversion->type);
	conversion->given[3] = ObjectIdGetDatum(conversion->other);
	select_rows(SQL_FIND_VIEWS, 4, given_types, conversion->given);
	conversion->given[4] = get_array(1);
}

/* Return true if any column must be altered. */
bool
sf_conversion_widens(SfConversion *conversion)
{
	return sf_conversion_text(conversion, SQL_ANY_ALTERED) != NULL;
}

/* ---- obstacles ---- */

static const struct
{
	const char *query;			/* returns texts for the DETAIL */
	int			sqlstate;
	const char *message;		/* %s in these two is the type */
	const char *hint;
}			obstacles[] = {

	{SQL_NOT_OWNED, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"must be owner of all objects that change with the column",
	"Call it as the owner of these, or as a superuser."},
	{SQL_OWNER_MAY_NOT, ERRCODE_INSUFFICIENT_PRIVILEGE,
		"the table's owner cannot make the objects again that depend on the column",
	"GRANT CREATE or USAGE ON SCHEMA, USAGE ON TYPE, or EXECUTE ON FUNCTION, to the owner, for as long as it takes."},
	{SQL_OTHER_TYPES, ERRCODE_DATATYPE_MISMATCH,
		"columns that refer to this one, or inherit it, cannot become %s",
	"Make these columns %s first."},
	{SQL_NOT_IN_PLACE, ERRCODE_FEATURE_NOT_SUPPORTED,
		"the column cannot become %s in place",
	"First drop what computes with the column, and add it again afterwards. For a table that is partitioned by the column, make a new one with the type %s, and copy the rows."},
	{SQL_DEPENDENT_OBJECTS, ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
		"other objects depend on views or generated columns that have to be made again",
	"Drop them, convert the column, and make them again."}
};

/*
 * Throw an error, also in a dry run, if rights are missing or the conversion
 * is impossible: SQLSTATE 42501, 42804, 0A000, 2BP01.
 */
void
sf_conversion_require(SfConversion *conversion)
{
	const char *type = format_type_be(conversion->type);

	for (int i = 0; i < (int) lengthof(obstacles); i++)
	{
		char	   *why = sf_conversion_text(conversion, obstacles[i].query);

		if (why != NULL)
			ereport(ERROR,
					(errcode(obstacles[i].sqlstate),
					 errmsg(obstacles[i].message, type),
					 errdetail_internal("%s", why),
					 errhint(obstacles[i].hint, type)));
	}
}
