/*-------------------------------------------------------------------------
 *
 * conversion.h
 *	  A column whose default changes: what depends on it, and the statements
 *	  in between which it can be widened.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CONVERSION_H
#define SF_CONVERSION_H

#include "access/attnum.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

/* As catalogs are read with search_path = pg_catalog, names have a schema. */
typedef struct SfConversion
{
	Oid			relation;
	AttrNumber	number;
	const char *table;			/* as in statements, like the next */
	const char *column;
	Datum		given[3];		/* of the queries: columns, views */
	List	   *steps;			/* of SfStatement */
} SfConversion;

typedef struct SfStatement
{
	const char *text;
	const char *locks;			/* or NULL */
	const char *note;			/* or NULL */
} SfStatement;

/* conversion.c; all within SPI */
extern void sf_conversion_find(SfConversion *conversion);
extern void sf_conversion_require(SfConversion *conversion);
extern char *sf_conversion_value(const char *query, int nargs, Oid *types,
								 Datum *values);
extern void sf_conversion_query(SfConversion *conversion, const char *query);
extern void sf_conversion_add(SfConversion *conversion, const char *text,
							  const char *locks, const char *note);

/* conversion_steps.c */
extern void sf_conversion_lock(SfConversion *conversion);
extern void sf_conversion_take_away(SfConversion *conversion);
extern void sf_conversion_widen(SfConversion *conversion);
extern void sf_conversion_put_back(SfConversion *conversion);

/* conversion_script.c; the first begins outside of SPI */
extern void sf_conversion_arguments(FunctionCallInfo fcinfo, int dry_run,
									const char *name);
extern SfConversion *sf_conversion_open(Oid relation, const char *column);
extern char *sf_conversion_ask(const SfConversion *conversion,
							   const char *query);
extern bool sf_conversion_number(const SfConversion *conversion,
								 const char *query, int64 *number);
extern const char *sf_conversion_of(const SfConversion *conversion,
									const char *format);
extern const char *sf_conversion_own_sequence(const SfConversion *conversion);
extern void sf_conversion_alter(SfConversion *conversion, const char *action,
								const char *note);
extern void sf_conversion_start(SfConversion *conversion, bool dry_run);
extern void sf_conversion_finish(SfConversion *conversion,
								 ReturnSetInfo *rsinfo, bool dry_run);

/*
 * What queries of a conversion begin with.  $1 and $2 are the columns that
 * share their values with the one that is converted, which is the first; $3
 * the views that are made anew, each after those that it reads.  Some of the
 * columns are altered to bigint; generated columns that are computed from
 * these are made anew, too, and both are changed.  ALTER TABLE keeps all
 * indexes but those of partitions, which it makes as if their parent's were
 * new: so these are among the indexes that are made here, and where they are
 * of constraints (parts), they are renamed from what the server will have
 * called them.
 */
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
" FROM altered a JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass" \
"   AND d.refobjid = a.relid AND d.refobjsubid = a.attnum" \
"   AND d.classid = 'pg_attrdef'::regclass" \
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
" indexes AS (" \
" SELECT i.*, c.relname, c.reltablespace, c.relkind, h.inhparent" \
" FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid" \
"  LEFT JOIN pg_inherits h ON h.inhrelid = c.oid" \
" WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid)" \
"  AND (i.indrelid IN (SELECT oid FROM views) OR c.oid IN (" \
"   SELECT d.objid FROM changed x JOIN pg_depend d ON d.refobjid = x.relid AND d.refobjsubid = x.attnum" \
"   WHERE d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass" \
"    AND (c.relkind = 'I' OR h.inhparent IS NOT NULL" \
"     OR (x.relid, x.attnum) IN (SELECT relid, attnum FROM made)))))," \
" parts AS (" \
" SELECT k.*, n.given, k.conname = n.given OR octet_length(n.given) < 64 AND NOT EXISTS (" \
"   SELECT FROM pg_class o WHERE o.relname = n.given AND o.relnamespace = r.relnamespace) AS is_named" \
" FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid JOIN pg_index i ON i.indexrelid = k.conindid," \
"  LATERAL (SELECT CASE k.contype WHEN 'p' THEN r.relname || '_pkey' ELSE (" \
"    SELECT concat_ws('_', r.relname, string_agg(a.attname, '_' ORDER BY x.place)," \
"     CASE k.contype WHEN 'u' THEN 'key' ELSE 'excl' END)" \
"    FROM unnest(i.indkey::int2[]) WITH ORDINALITY x(number, place)" \
"     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.number) END AS given) n" \
" WHERE k.conparentid <> 0 AND k.contype IN ('p', 'u', 'x')" \
"  AND EXISTS (SELECT FROM altered a WHERE a.relid = k.conrelid AND a.attnum = ANY (i.indkey::int2[])))" \
" "

#endif							/* SF_CONVERSION_H */
