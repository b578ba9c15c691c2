-- What the queries of a conversion begin with.
--
-- $1 and $2 are the columns that share their values with the converted one, which
-- is the first.  They get the type $3: bigint, or the type snowflake of the extension;
-- $4 is the one of the two that they do not get.  $5 are the views that are made anew,
-- each after those that it reads.  Some of the columns are altered to the type;
-- generated columns computed from these are made anew; both are changed.  Only a change
-- from a smaller integer rewrites the table.
--
-- OFFSET, and IS TRUE below, prevent the server from joining everything with
-- everything while it has no statistics of a thousand new partitions.

-- name: columns
shared AS (
	SELECT a.*, x.place, c.relowner, c.relkind, c.reltype, c.reloftype
	FROM unnest($1, $2) WITH ORDINALITY x(relid, number, place)
		JOIN pg_attribute a ON a.attrelid = x.relid AND a.attnum = x.number
		JOIN pg_class c ON c.oid = a.attrelid
),
altered AS (
	SELECT attrelid AS relid, attnum, attname, attinhcount, place, atttypid <> $4 AS rewrites
	FROM shared WHERE atttypid IN ('int2'::regtype, 'int4'::regtype, $4)
),
made AS (
	SELECT DISTINCT g.attrelid AS relid, g.attnum, g.attname, g.attinhcount, a.place
	FROM altered a CROSS JOIN LATERAL (SELECT objid FROM pg_depend
			WHERE refclassid = 'pg_class'::regclass AND refobjid = a.relid
				AND refobjsubid = a.attnum AND classid = 'pg_attrdef'::regclass OFFSET 0) d
		JOIN pg_attrdef f ON f.oid = d.objid
		JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
			AND g.attgenerated <> ''
),
changed AS (SELECT relid, attnum FROM altered UNION SELECT relid, attnum FROM made)

-- ALTER TABLE keeps all indexes except those of partitions, which it makes as if
-- their parent's were new.  So these are among the indexes that are made here.  If
-- they belong to constraints, or foreign keys refer to them (parts), they are
-- renamed from the names that the server will have given them.
-- name: given
:columns,
views AS (
	SELECT c.*, x.place, CASE c.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'VIEW' END AS kind
	FROM unnest($5) WITH ORDINALITY x(relid, place) JOIN pg_class c ON c.oid = x.relid
),
dependent AS (
	SELECT DISTINCT d.classid, d.objid FROM pg_depend d
	WHERE d.refclassid = 'pg_class'::regclass
		AND ((d.refobjid, d.refobjsubid) IN (SELECT relid, attnum FROM changed)
			OR d.refobjid IN (SELECT oid FROM views))
),
rules AS (
	SELECT r.oid, r.ev_class, r.rulename, r.ev_enabled, v.oid IS NULL AS stands
	FROM pg_rewrite r LEFT JOIN views v ON v.oid = r.ev_class
	WHERE r.ev_type <> '1' AND (v.oid IS NOT NULL OR EXISTS (SELECT FROM dependent d
		WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid))
),
triggers AS (
	SELECT t.oid, t.tgrelid, t.tgname, t.tgenabled, v.oid IS NULL AS stands
	FROM pg_trigger t LEFT JOIN views v ON v.oid = t.tgrelid
	WHERE NOT t.tgisinternal AND t.tgparentid = 0
		AND (v.oid IS NOT NULL OR EXISTS (SELECT FROM dependent d
			WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid))
),
policies AS (
	SELECT p.* FROM pg_policy p JOIN dependent d
		ON d.classid = 'pg_policy'::regclass AND d.objid = p.oid
),
functions AS (
	SELECT p.*, CASE p.prokind WHEN 'p' THEN 'PROCEDURE' ELSE 'FUNCTION' END AS kind
	FROM pg_proc p JOIN dependent d
		ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
	WHERE p.prosqlbody IS NOT NULL
),
publications AS (
	SELECT p.pubname, p.pubowner, r.* FROM pg_publication_rel r JOIN dependent d
		ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid
		JOIN pg_publication p ON p.oid = r.prpubid
),
uses AS (
	SELECT d.objid, (x.relid, x.attnum) IN (SELECT relid, attnum FROM made) AS of_made
	FROM changed x CROSS JOIN LATERAL (SELECT objid FROM pg_depend
		WHERE refclassid = 'pg_class'::regclass AND refobjid = x.relid
			AND refobjsubid = x.attnum AND classid = 'pg_class'::regclass OFFSET 0) d
),
indexes AS (
	SELECT i.*, c.relname, c.reltablespace, c.relkind, h.inhparent
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		LEFT JOIN pg_inherits h ON h.inhrelid = c.oid
	WHERE c.oid NOT IN (SELECT conindid FROM pg_constraint)
		AND (i.indrelid IN (SELECT oid FROM views)
			OR c.oid IN (SELECT objid FROM uses WHERE of_made)
			OR (c.relkind = 'I' OR h.inhparent IS NOT NULL) AND c.oid IN (SELECT objid FROM uses))
),
parts AS (
	SELECT i.*, c.relname, c.reloptions, c.reltablespace, k.oid AS constraint_oid, n.given,
		c.relname = n.given OR octet_length(n.given) < 64 AND NOT EXISTS (
			SELECT FROM pg_class o
			WHERE o.relname = n.given AND o.relnamespace = r.relnamespace) AS is_named
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_class r ON r.oid = i.indrelid
		JOIN pg_inherits h ON h.inhrelid = c.oid
		LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype IN ('p', 'u', 'x'),
		LATERAL (SELECT CASE k.contype WHEN 'p' THEN r.relname || '_pkey' ELSE (
				SELECT concat_ws('_', r.relname, string_agg(a.attname, '_' ORDER BY x.place),
					CASE k.contype WHEN 'u' THEN 'key' WHEN 'x' THEN 'excl' ELSE 'idx' END)
				FROM unnest(i.indkey::int2[]) WITH ORDINALITY x(number, place)
					JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = x.number
			) END AS given) n
	WHERE (c.oid IN (SELECT conindid FROM pg_constraint)) IS TRUE
		AND EXISTS (SELECT FROM altered a
			WHERE a.relid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]))
)

-- Foreign keys with altered columns on either side.
-- name: foreign_keys
foreign_keys AS (
	SELECT a.relid, f.conname, f.conrelid, f.confrelid, f.convalidated
	FROM altered a JOIN pg_constraint f ON f.conrelid = a.relid
	WHERE f.contype = 'f' AND f.conparentid = 0 AND a.attnum = ANY (f.conkey)
	UNION
	SELECT a.relid, f.conname, f.conrelid, f.confrelid, f.convalidated
	FROM altered a JOIN pg_constraint f ON f.confrelid = a.relid
	WHERE f.contype = 'f' AND f.conparentid = 0 AND a.attnum = ANY (f.confkey)
)
