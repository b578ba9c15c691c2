/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Dependents of a converted column, and obstacles to the conversion.
 *
 * Columns share their values through foreign keys and inheritance: those that
 * refer to the column, those that refer to these, and the same column of
 * partitions and children.  All of them must be bigint.  ALTER TABLE itself
 * makes indexes, constraints and statistics anew.  The dependents that it
 * refuses to alter are found here and in steps.c: views, rules, triggers,
 * policies, publications, functions with an SQL body, generated columns.
 *
 * The queries run with search_path = pg_catalog, pg_temp, and with the rights
 * of the caller, or, if the script is run, of the table's owner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"
#include "compat.h"

#include "convert/plan.h"

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

static Oid	given_types[] = {OIDARRAYOID, INT2ARRAYOID, OIDARRAYOID};

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

/* Add the statements of a query: text, locks, note, and a role to become. */
void
sf_conversion_query(SfConversion *conversion, const char *query)
{
	SPITupleTable *table;

	select_rows(query, 3, given_types, conversion->given);
	table = SPI_tuptable;
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

/*
 * Finds columns down and up the inheritance, and from keys to the columns that
 * refer to them.  Each way uses an index, so that a table may have thousands
 * of partitions.
 */
static const char *const columns_query =
"WITH RECURSIVE found(relid, number) AS ("
" SELECT $1, $2"
" UNION"
" SELECT n.relid, n.number"
" FROM found f JOIN pg_attribute a ON a.attrelid = f.relid AND a.attnum = f.number,"
"  LATERAL ("
"   SELECT o.attrelid AS relid, o.attnum AS number"
"   FROM ("
"    SELECT inhrelid AS relid FROM pg_inherits WHERE inhparent = f.relid"
"    UNION ALL SELECT inhparent FROM pg_inherits WHERE inhrelid = f.relid) i"
"    CROSS JOIN LATERAL (SELECT attrelid, attnum FROM pg_attribute"
"     WHERE attrelid = i.relid AND attname = a.attname AND NOT attisdropped OFFSET 0) o"
"   UNION ALL"
"   SELECT c.conrelid, k.referring"
"   FROM pg_depend d JOIN pg_constraint c ON c.oid = d.objid,"
"    unnest(c.conkey, c.confkey) k(referring, referred)"
"   WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = f.relid"
"    AND d.refobjsubid = f.number AND d.classid = 'pg_constraint'::regclass"
"    AND c.contype = 'f' AND c.confrelid = f.relid AND k.referred = f.number) n)"
" SELECT array_agg(relid ORDER BY place), array_agg(number ORDER BY place)"
" FROM (SELECT *, row_number() OVER (ORDER BY relid <> $1,"
"   relid::regclass::text COLLATE \"C\", number) AS place FROM found) f";

/* A view comes after the longest way to it; a view of itself is skipped. */
static const char *const views_query =
SF_CONVERSION_COLUMNS ","
" found(relid, depth) AS ("
" SELECT r.ev_class, 1"
" FROM changed c JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass"
"   AND d.refobjid = c.relid AND d.refobjsubid = c.attnum"
"   AND d.classid = 'pg_rewrite'::regclass"
"  JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1'"
" UNION"
" SELECT r.ev_class, f.depth + 1"
" FROM found f JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass"
"   AND d.refobjid = f.relid AND d.classid = 'pg_rewrite'::regclass"
"  JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1'"
" WHERE r.ev_class <> f.relid AND f.depth < 1000)"
" SELECT coalesce(array_agg(relid ORDER BY depth, relid::regclass::text COLLATE \"C\"), '{}')"
" FROM (SELECT relid, max(depth) AS depth FROM found GROUP BY relid) f";

/* Find the arrays that the queries of a conversion take. */
void
sf_conversion_find(SfConversion *conversion)
{
	Oid			types[] = {OIDOID, INT2OID};
	Datum		values[] = {ObjectIdGetDatum(conversion->relation),
	Int16GetDatum(conversion->number)};

	select_rows(columns_query, 2, types, values);
	conversion->given[0] = get_array(1);
	conversion->given[1] = get_array(2);
	select_rows(views_query, 2, given_types, conversion->given);
	conversion->given[2] = get_array(1);
}

/* Return true if any column must be altered. */
bool
sf_conversion_widens(SfConversion *conversion)
{
	return sf_conversion_text(conversion, SF_CONVERSION_COLUMNS
							  " SELECT 'it is' FROM altered LIMIT 1") != NULL;
}

/* ---- obstacles ---- */

#define DEPENDS(condition) \
"SELECT format('%s depends on %s.', pg_describe_object(d.classid, d.objid, d.objsubid)," \
" pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)) AS why" \
" FROM pg_depend d WHERE " condition

#define CLASS(relkinds) \
"(d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND EXISTS (SELECT FROM" \
" pg_class i WHERE i.oid = d.objid AND i.relkind IN (" relkinds ")))"

#define WITH_BODY \
"(d.classid = 'pg_proc'::regclass AND EXISTS (SELECT FROM functions p WHERE p.oid = d.objid))"

static const SfObstacle obstacles[] = {
	{SF_CONVERSION_COLUMNS
		" SELECT format('Column %I of %s is of type %s.', s.attname, s.attrelid::regclass,"
		"  format_type(s.atttypid, s.atttypmod)) AS why"
		" FROM shared s JOIN pg_type t ON t.oid = s.atttypid"
		" WHERE s.atttypid NOT IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)"
		"  AND NOT (t.typtype = 'd' AND t.typbasetype = 'int8'::regtype)",
		ERRCODE_DATATYPE_MISMATCH,
		"IDs do not fit into columns that refer to this one, or inherit it",
	"Make these columns bigint first."},
	{SF_CONVERSION_GIVEN
		" SELECT format('Column %I is part of the partition key of %s.', attname, relid::regclass) AS why"
		" FROM altered a WHERE EXISTS (SELECT FROM pg_depend d"
		"  WHERE d.classid = 'pg_class'::regclass AND d.objid = a.relid AND d.objsubid = a.attnum"
		"   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.relid"
		"   AND d.refobjsubid = 0 AND d.deptype = 'i')"
		" UNION"
		" SELECT format('Column %I of %s is inherited from more than one table.', attname, relid::regclass)"
		" FROM altered WHERE attinhcount > 1"
		" UNION"
		" SELECT format('Table %s has the type %s.', attrelid::regclass, reloftype::regtype)"
		" FROM shared JOIN altered ON relid = attrelid WHERE reloftype <> 0"
		" UNION"
		" SELECT format('Column %I of the foreign table %s is elsewhere.', s.attname, attrelid::regclass)"
		" FROM shared s JOIN altered ON relid = attrelid WHERE relkind = 'f'"
		" UNION"
		" SELECT format('Column %I of %s is generated.', a.attname, relid::regclass)"
		" FROM shared JOIN altered a ON relid = attrelid AND a.attnum = shared.attnum"
		" WHERE attgenerated <> ''"
		" UNION"
		" SELECT format('Generated column %I of %s has a definition of its own beside the inherited one.', m.attname, m.relid::regclass)"
		" FROM made m JOIN pg_attribute a ON a.attrelid = m.relid AND a.attnum = m.attnum"
		"  JOIN pg_attrdef f ON f.adrelid = m.relid AND f.adnum = m.attnum"
		" WHERE m.attinhcount > 0 AND (a.attislocal OR m.attinhcount > 1 OR NOT EXISTS ("
		"  SELECT FROM made r JOIN pg_attrdef e ON e.adrelid = r.relid AND e.adnum = r.attnum"
		"  WHERE r.attinhcount = 0 AND r.attname = m.attname"
		"   AND pg_get_expr(e.adbin, e.adrelid) = pg_get_expr(f.adbin, f.adrelid)))"
		" UNION"
		" SELECT format('%s has the row type of %s.',"
		"  pg_describe_object(d.classid, d.objid, d.objsubid), s.attrelid::regclass)"
		" FROM shared s JOIN altered ON relid = attrelid"
		"  JOIN pg_type t ON t.oid = s.reltype"
		"  JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass"
		"   AND d.refobjid IN (t.oid, t.typarray) AND d.classid = 'pg_class'::regclass"
		"   AND d.objsubid > 0"
		"  JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')"
		" UNION"
		" SELECT format('%s is of another session.', pg_describe_object('pg_class'::regclass, oid, 0))"
		" FROM views WHERE pg_is_other_temp_schema(relnamespace)"
		" UNION"
		" SELECT format('%s refers to the key of a partition, %s.',"
		"  pg_describe_object('pg_constraint'::regclass, f.oid, 0), f.confrelid::regclass)"
		" FROM parts p JOIN pg_constraint f ON f.conindid = p.indexrelid"
		" WHERE f.contype = 'f' AND f.conparentid = 0"
		" UNION"
		" SELECT format('%s computes with column %I of %s as it is now, by a cast.', pg_describe_object(class, object, 0),"
		"  a.attname, a.relid::regclass)"
		" FROM altered a JOIN ("
		"  SELECT 'pg_class'::regclass AS class, indexrelid AS object, indrelid AS relid, concat(indexprs, indpred) AS tree FROM pg_index"
		"  UNION ALL SELECT 'pg_constraint'::regclass, oid, conrelid, conbin::text FROM pg_constraint"
		"  UNION ALL SELECT 'pg_attrdef'::regclass, oid, adrelid, adbin::text FROM pg_attrdef"
		"  UNION ALL SELECT 'pg_policy'::regclass, oid, polrelid, concat(polqual, polwithcheck) FROM pg_policy"
		"  UNION ALL SELECT 'pg_trigger'::regclass, oid, tgrelid, tgqual::text FROM pg_trigger) x USING (relid)"
		" WHERE tree ~ format(':funcid (%s|%s) [^{}]*:args \\({VAR :varno \\d+ :varattno %s ',"
		"  'int4(int2)'::regprocedure::oid, 'int2(int4)'::regprocedure::oid, a.attnum)"
		" UNION"
		" SELECT format('%s calls %s, whose body has to be made again.',"
		"  pg_describe_object(d.classid, d.objid, d.objsubid), f.oid::regprocedure)"
		" FROM functions f JOIN pg_depend d ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = f.oid"
		" WHERE d.classid = 'pg_constraint'::regclass"
		"  OR d.classid = 'pg_class'::regclass AND d.objid IN (SELECT indexrelid FROM pg_index)"
		"  OR d.classid = 'pg_attrdef'::regclass AND d.objid IN (SELECT f.oid FROM pg_attrdef f"
		"   JOIN pg_attribute ON attrelid = f.adrelid AND attnum = f.adnum WHERE attgenerated <> '')",
		ERRCODE_FEATURE_NOT_SUPPORTED,
		"the column cannot be widened in place",
	"Change this first: drop what computes with the column, and add it afterwards with bigint. For a table that is partitioned by the column, make a new one with a bigint, and copy the rows."},
	{SF_CONVERSION_GIVEN
		DEPENDS("d.refclassid = 'pg_class'::regclass AND d.refobjid IN (SELECT oid FROM views)"
				" AND NOT (d.classid IN ('pg_rewrite'::regclass, 'pg_attrdef'::regclass,"
				"  'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_statistic_ext'::regclass,"
				"  'pg_type'::regclass)"
				" OR " WITH_BODY " OR " CLASS("'i', 't'") ")")
		" UNION "
		DEPENDS("d.refclassid = 'pg_type'::regclass"
				" AND d.refobjid IN (SELECT t.oid FROM views v JOIN pg_type t ON v.reltype IN (t.oid, t.typelem))"
				" AND d.classid <> 'pg_rewrite'::regclass"
				" AND NOT (d.classid = 'pg_type'::regclass AND d.deptype = 'i')")
		" UNION "
		DEPENDS("d.classid = 'pg_class'::regclass AND d.objid IN (SELECT oid FROM views)"
				" AND d.deptype = 'e'")
		" UNION "
		DEPENDS("d.refclassid = 'pg_class'::regclass"
				" AND (d.refobjid, d.refobjsubid) IN (SELECT relid, attnum FROM made)"
				" AND NOT (d.classid IN ('pg_rewrite'::regclass, 'pg_attrdef'::regclass,"
				"  'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_publication_rel'::regclass)"
				" OR " WITH_BODY " OR " CLASS("'i', 'I'")
				" OR d.classid = 'pg_constraint'::regclass AND EXISTS (SELECT FROM pg_constraint c"
				"  WHERE c.oid = d.objid AND c.contype = 'n'))"),
		ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
		"other objects depend on views or generated columns that have to be made again",
	"Drop them, convert the column, and make them again."}
};

/* Throw the error of the first obstacle that is there. */
void
sf_conversion_refuse(SfConversion *conversion, const SfObstacle *obstacles,
					 int n)
{
	for (int i = 0; i < n; i++)
	{
		const SfObstacle *obstacle = &obstacles[i];
		char	   *why =
			sf_conversion_text(conversion,
							   psprintf("SELECT string_agg(why, chr(10) ORDER BY why COLLATE \"C\") FROM (%s) o",
										obstacle->query));

		if (why != NULL)
			ereport(ERROR,
					(errcode(obstacle->sqlstate),
					 errmsg("%s", obstacle->message),
					 errdetail_internal("%s", why),
					 errhint("%s", obstacle->hint)));
	}
}

/*
 * Throw an error if the conversion is impossible: SQLSTATE 42804, 0A000,
 * 2BP01.
 */
void
sf_conversion_require(SfConversion *conversion)
{
	sf_conversion_refuse(conversion, obstacles, lengthof(obstacles));
}
