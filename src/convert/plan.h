/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  A column whose default changes: its dependents, and the statements around
 *	  its widening.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PLAN_H
#define SF_PLAN_H

#include "access/attnum.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "table/owner.h"

/* With this search_path, names read from catalogues have a schema. */
#define SF_CONVERSION_PATH	"pg_catalog, pg_temp"

typedef struct SfConversion
{
	Oid			relation;
	AttrNumber	number;
	const char *table;			/* as in statements, like the next */
	const char *column;
	Datum		given[3];		/* arguments of the queries: columns, views */
	List	   *steps;			/* of SfStatement */
	const char *path;			/* the session's search_path */
	int			guc_level;
	SfOwner		caller;
} SfConversion;

typedef struct SfStatement
{
	const char *text;
	const char *locks;			/* or NULL */
	const char *note;			/* or NULL */
	Oid			role;			/* to become, in place of SET ROLE; or 0 */
} SfStatement;

typedef struct SfObstacle
{
	const char *query;			/* returns texts for the DETAIL */
	int			sqlstate;
	const char *message;
	const char *hint;
} SfObstacle;

/* plan.c; all within SPI */
extern void sf_conversion_find(SfConversion *conversion);
extern void sf_conversion_require(SfConversion *conversion);
extern bool sf_conversion_widens(SfConversion *conversion);
extern char *sf_conversion_text(SfConversion *conversion, const char *query);
extern void sf_conversion_refuse(SfConversion *conversion,
								 const SfObstacle *obstacles, int n);
extern char *sf_conversion_value(const char *query, int nargs, Oid *types,
								 Datum *values);
extern void sf_conversion_query(SfConversion *conversion, const char *query);
extern void sf_conversion_add(SfConversion *conversion, const char *text,
							  const char *locks, const char *note);

extern void sf_conversion_queries(SfConversion *conversion,
								  const char *const *queries, int n);
extern void sf_conversion_query_with_path(SfConversion *conversion,
										  const char *query);

/* rights.c */
extern void sf_conversion_require_rights(SfConversion *conversion);
extern char *sf_conversion_owners(SfConversion *conversion);
extern char *sf_conversion_not_one_owner(SfConversion *conversion);
extern void sf_conversion_require_one_owner(SfConversion *conversion);

/* steps.c */
extern void sf_conversion_lock(SfConversion *conversion);
extern void sf_conversion_take_away(SfConversion *conversion);
extern void sf_conversion_put_back(SfConversion *conversion);

/* widen.c */
extern void sf_conversion_widen(SfConversion *conversion);

/* script.c; call the first before SPI_connect() */
extern void sf_conversion_arguments(FunctionCallInfo fcinfo, int dry_run,
									const char *name);
extern SfConversion *sf_conversion_open(Oid relation, const char *column);
extern char *sf_conversion_ask(const SfConversion *conversion,
							   const char *query);
extern bool sf_conversion_number(const SfConversion *conversion,
								 const char *query, int64 *number);
extern bool sf_conversion_outermost(const SfConversion *conversion,
									int64 lowest, bool ascending, int64 *id);
extern void sf_conversion_alter(SfConversion *conversion, const char *action,
								const char *note);
extern void sf_conversion_start(SfConversion *conversion, bool dry_run);
extern void sf_conversion_finish(SfConversion *conversion,
								 ReturnSetInfo *rsinfo, bool dry_run);

/*
 * Beginning of a conversion's queries. $1 and $2 are the columns that share
 * their values with the converted one, which is the first; $3 the views that
 * are made anew, each after those that it reads.  Some of the columns are
 * altered to bigint; generated columns computed from these are made anew; both
 * are changed.  ALTER TABLE keeps all indexes except those of partitions,
 * which it makes as if their parent's were new.  So these are among the
 * indexes that are made here.  If they belong to constraints, or foreign keys
 * refer to them (parts), they are renamed from the names that the server will
 * have given them.
 */
/*
 * OFFSET, and IS TRUE below, prevent the server from joining everything with
 * everything while it has no statistics of a thousand new partitions.
 */
#define SF_CONVERSION_DEPENDERS(column, catalog) \
" CROSS JOIN LATERAL (SELECT objid FROM pg_depend" \
"  WHERE refclassid = 'pg_class'::regclass AND refobjid = " column ".relid" \
"   AND refobjsubid = " column ".attnum AND classid = '" catalog "'::regclass OFFSET 0) d"

#define SF_CONVERSION_COLUMNS \
"WITH RECURSIVE shared AS (" \
" SELECT a.*, x.place, c.relowner, c.relkind, c.reltype, c.reloftype" \
" FROM unnest($1, $2) WITH ORDINALITY x(relid, number, place)" \
"  JOIN pg_attribute a ON a.attrelid = x.relid AND a.attnum = x.number" \
"  JOIN pg_class c ON c.oid = a.attrelid)," \
" altered AS (" \
" SELECT attrelid AS relid, attnum, attname, attinhcount, place FROM shared" \
" WHERE atttypid IN ('int2'::regtype, 'int4'::regtype))," \
" made AS (" \
" SELECT DISTINCT g.attrelid AS relid, g.attnum, g.attname, g.attinhcount, a.place" \
" FROM altered a" SF_CONVERSION_DEPENDERS("a", "pg_attrdef") \
"  JOIN pg_attrdef f ON f.oid = d.objid" \
"  JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum" \
"   AND g.attgenerated <> '')," \
" changed AS (SELECT * FROM altered UNION SELECT * FROM made)"

#define SF_CONVERSION_GIVEN \
SF_CONVERSION_COLUMNS "," \
" views AS (" \
" SELECT c.*, x.place, CASE c.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind" \
" FROM unnest($3) WITH ORDINALITY x(relid, place) JOIN pg_class c ON c.oid = x.relid)," \
" dependent AS (" \
" SELECT DISTINCT d.classid, d.objid FROM pg_depend d" \
" WHERE d.refclassid = 'pg_class'::regclass" \
"  AND ((d.refobjid, d.refobjsubid) IN (SELECT relid, attnum FROM changed)" \
"   OR d.refobjid IN (SELECT oid FROM views)))," \
" rules AS (" \
" SELECT r.oid, r.ev_class, r.rulename, r.ev_enabled, v.oid IS NULL AS stands" \
" FROM pg_rewrite r LEFT JOIN views v ON v.oid = r.ev_class" \
" WHERE r.ev_type <> '1' AND (v.oid IS NOT NULL OR EXISTS (SELECT FROM dependent d" \
"  WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid)))," \
" triggers AS (" \
" SELECT t.oid, t.tgrelid, t.tgname, t.tgenabled, v.oid IS NULL AS stands" \
" FROM pg_trigger t LEFT JOIN views v ON v.oid = t.tgrelid" \
" WHERE NOT t.tgisinternal AND t.tgparentid = 0" \
"  AND (v.oid IS NOT NULL OR EXISTS (SELECT FROM dependent d" \
"   WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid)))," \
" policies AS (" \
" SELECT p.* FROM pg_policy p JOIN dependent d" \
"  ON d.classid = 'pg_policy'::regclass AND d.objid = p.oid)," \
" functions AS (" \
" SELECT p.*, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind" \
" FROM pg_proc p JOIN dependent d" \
"  ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid" \
" WHERE p.prosqlbody IS NOT NULL)," \
" publications AS (" \
" SELECT p.pubname, p.pubowner, r.* FROM pg_publication_rel r JOIN dependent d" \
"  ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid" \
"  JOIN pg_publication p ON p.oid = r.prpubid)," \
" uses AS (" \
" SELECT d.objid, (x.relid, x.attnum) IN (SELECT relid, attnum FROM made) AS of_made" \
" FROM changed x" SF_CONVERSION_DEPENDERS("x", "pg_class") ")," \
" indexes AS (" \
" SELECT i.*, c.relname, c.reltablespace, c.relkind, h.inhparent" \
" FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid" \
"  LEFT JOIN pg_inherits h ON h.inhrelid = c.oid" \
" WHERE c.oid NOT IN (SELECT conindid FROM pg_constraint)" \
"  AND (i.indrelid IN (SELECT oid FROM views)" \
"   OR c.oid IN (SELECT objid FROM uses WHERE of_made)" \
"   OR (c.relkind = 'I' OR h.inhparent IS NOT NULL) AND c.oid IN (SELECT objid FROM uses)))," \
" parts AS (" \
" SELECT i.*, c.relname, c.reloptions, c.reltablespace, k.oid AS constraint_oid, n.given," \
"  c.relname = n.given OR octet_length(n.given) < 64 AND NOT EXISTS (" \
"   SELECT FROM pg_class o WHERE o.relname = n.given AND o.relnamespace = r.relnamespace) AS is_named" \
" FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class r ON r.oid = i.indrelid" \
"  JOIN pg_inherits h ON h.inhrelid = c.oid" \
"  LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u', 'x')," \
"  LATERAL (SELECT CASE k.contype WHEN 'p' THEN r.relname || '_pkey' ELSE (" \
"    SELECT concat_ws('_', r.relname, string_agg(a.attname, '_' ORDER BY x.place)," \
"     CASE k.contype WHEN 'u' THEN 'key' WHEN 'x' THEN 'excl' ELSE 'idx' END)" \
"    FROM unnest(i.indkey::int2[]) WITH ORDINALITY x(number, place)" \
"     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.number) END AS given) n" \
" WHERE (c.oid IN (SELECT conindid FROM pg_constraint)) IS TRUE" \
"  AND EXISTS (SELECT FROM altered a WHERE a.relid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])))" \
" "

/* Foreign keys with altered columns on either side. */
#define SF_CONVERSION_FOREIGN_KEYS \
" foreign_keys AS (" \
" SELECT a.relid, f.conname, f.conrelid, f.confrelid, f.convalidated FROM altered a JOIN pg_constraint f ON f.conrelid = a.relid" \
" WHERE f.contype = 'f' AND f.conparentid = 0 AND a.attnum = ANY (f.conkey)" \
" UNION" \
" SELECT a.relid, f.conname, f.conrelid, f.confrelid, f.convalidated FROM altered a JOIN pg_constraint f ON f.confrelid = a.relid" \
" WHERE f.contype = 'f' AND f.conparentid = 0 AND a.attnum = ANY (f.confkey))"

/* For a statement that takes no new lock, and needs no note. */
#define SF_CONVERSION_NOTHING "NULL::text, NULL::text"

/* Sorts names in the same alphabetical order everywhere. */
#define SF_CONVERSION_BY(name) name "::text COLLATE \"C\""

#endif							/* SF_PLAN_H */
