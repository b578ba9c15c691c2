-- The statements that widen columns.  Each query returns statements, their locks,
-- and notes.

-- One statement rewrites a table once.  A generated column comes back at the end
-- of its table: no other way exists in all majors.  What it computes is no ID, so it
-- becomes bigint at most.
-- name: pieces
:given,
:foreign_keys,
pieces AS (
	SELECT relid, 1 AS pass, attnum, place, true AS rewrites,
		format('DROP COLUMN %I', attname) AS piece
	FROM made WHERE attinhcount = 0
	UNION ALL
	SELECT relid, 2, attnum, place, rewrites,
		format('ALTER COLUMN %I TYPE %s', attname, $3::regtype)
	FROM altered WHERE attinhcount = 0
	UNION ALL
	SELECT m.relid, 3, m.attnum, m.place, true,
		format('ADD COLUMN %I %s%s GENERATED ALWAYS AS (%s) %s%s', m.attname,
		CASE WHEN a.atttypid IN ('int2'::regtype, 'int4'::regtype) THEN 'bigint'
			ELSE format_type(a.atttypid, a.atttypmod) END,
		(SELECT format(' COLLATE %s.%I', collnamespace::regnamespace, collname)
			FROM pg_collation c, pg_type t WHERE c.oid = a.attcollation AND t.oid = a.atttypid
				AND a.attcollation <> t.typcollation),
		pg_get_expr(f.adbin, f.adrelid),
		CASE a.attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END,
		CASE WHEN a.attnotnull THEN ' NOT NULL' END)
	FROM made m JOIN pg_attribute a ON a.attrelid = m.relid AND a.attnum = m.attnum
		JOIN pg_attrdef f ON f.adrelid = m.relid AND f.adnum = m.attnum
	WHERE m.attinhcount = 0
),
tree(root, relid) AS (
	SELECT relid, relid FROM pieces
	UNION SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid
),
-- A snowflake cannot refer to an integer or smallint.  So where these become the type,
-- a table comes after those that it refers to.
depths(root, depth) AS (
	SELECT relid, 0 FROM pieces
	UNION
	SELECT r.root, d.depth + 1
	FROM depths d JOIN tree t ON t.root = d.root JOIN foreign_keys f ON f.confrelid = t.relid
		JOIN tree r ON r.relid = f.conrelid
	WHERE $3 <> 'int8'::regtype AND r.root <> d.root AND d.depth < 100
		AND EXISTS (SELECT FROM altered WHERE rewrites)
),
readers AS (
	SELECT t.root FROM tree t JOIN altered a ON a.relid = t.relid
		CROSS JOIN LATERAL (SELECT classid, objid FROM pg_depend
			WHERE refclassid = 'pg_class'::regclass AND refobjid = a.relid
				AND refobjsubid = a.attnum OFFSET 0) d
		LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid
		LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
		LEFT JOIN pg_statistic_ext s
			ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid
	WHERE c.contype IN ('c', 'x') OR num_nonnulls(i.indexprs, i.indpred, s.stxexprs) > 0
	UNION
	SELECT root FROM depths WHERE EXISTS (SELECT FROM depths WHERE depth > 0)
),
statements AS (
	SELECT relid, min(pass) AS first, bool_or(pass = 2) AS alters, bool_or(pass = 3) AS adds,
		min(place) AS place,
		bool_or(pass = 3) OR (relid IN (SELECT root FROM readers)) IS TRUE AS reads,
		format('ALTER TABLE %s %s', relid::regclass,
			string_agg(piece, ', ' ORDER BY pass, attnum)) AS statement
	FROM pieces p GROUP BY relid, CASE WHEN EXISTS (
		SELECT FROM pieces o WHERE o.relid = p.relid AND o.pass = 2) THEN 2 ELSE pass END
),
sizes AS (
	SELECT root, concat(CASE WHEN rewrites THEN 'rewrites '
			ELSE 'rewrites no table; makes the indexes with the column again: ' END,
		CASE WHEN count(*) > 1 THEN count(*) || ' tables, ' END,
		CASE WHEN rewrites THEN pg_size_pretty(sum(pg_total_relation_size(relid))) || ', with the indexes'
			ELSE 'at most ' || pg_size_pretty(sum(pg_indexes_size(relid))) END) AS size
	FROM tree JOIN (SELECT relid AS root, bool_or(rewrites) AS rewrites FROM pieces GROUP BY relid) p
		USING (root)
	GROUP BY root, rewrites
),
keys AS (
	SELECT t.root, '; checks foreign keys: '
		|| string_agg(DISTINCT format('%I of %s', f.conname, f.conrelid::regclass), ', ') AS keys
	FROM tree t JOIN foreign_keys f ON f.relid = t.relid WHERE f.convalidated GROUP BY t.root
)

-- name: drop_generated
WITH RECURSIVE
:pieces
SELECT statement, 'ACCESS EXCLUSIVE on ' || relid::regclass, NULL::text
FROM statements WHERE first = 1 AND NOT alters ORDER BY place;

-- Properties that are not restored; code that may fail with wider IDs.  Definitions
-- read anew are computed with this search_path, which is safe for that.
-- name: alter_types
WITH RECURSIVE
:pieces,
lost AS (
	SELECT string_agg(what, ', ' ORDER BY what) AS lost FROM (
		SELECT format('the name and settings of index %s', indexrelid::regclass) AS what
		FROM parts WHERE NOT is_named
		UNION
		SELECT format('the name and comment of foreign key %I of %s',
			f.conname, f.conrelid::regclass)
		FROM altered a JOIN pg_constraint f ON f.conrelid = a.relid
			JOIN pg_constraint p ON p.oid = f.conparentid
		WHERE f.contype = 'f' AND a.attnum = ANY (f.conkey) AND f.conrelid <> p.conrelid
			AND (f.conname <> p.conname OR obj_description(f.oid, 'pg_constraint') IS NOT NULL)) w
),
narrow AS (
	SELECT string_agg(p.oid::regprocedure::text, ', '
		ORDER BY p.oid::regprocedure::text COLLATE "C") AS narrow
	FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang,
		(SELECT string_agg(regexp_replace(c.relname, '(\W)', '\\\1', 'g'), '|') AS names
			FROM altered a JOIN pg_class c ON c.oid = a.relid
			WHERE a.rewrites AND a.attinhcount = 0) n
	-- anybody may write a long body to use up memory
	WHERE l.lanname IN ('plpgsql', 'sql') AND p.oid >= 16384
		AND CASE WHEN octet_length(p.prosrc) < 100000 THEN (p.prosrc ~* ('\m(' || names || ')\M')
			OR EXISTS (SELECT FROM altered a JOIN pg_trigger t ON t.tgrelid = a.relid
				WHERE a.rewrites AND t.tgfoid = p.oid))
		AND (p.prosrc ~* '\m(int|int2|int4|integer|smallint|serial)\M'
			OR ARRAY[p.prorettype] || p.proargtypes::oid[] || p.proallargtypes
				&& ARRAY['int2'::regtype, 'int4'::regtype]::oid[]) END
)
SELECT statement, 'ACCESS EXCLUSIVE on ' || relid::regclass,
	concat(size, keys, '; ANALYZE it afterwards',
		CASE WHEN adds THEN '; the generated columns become its last ones' END,
		CASE WHEN reads THEN '; its functions see search_path = ' || current_setting('search_path') END,
		CASE WHEN place = min(place) OVER () THEN
			concat('; reconnect all clients: their plans and PL/pgSQL variables are of the old type',
				'; look at the integers of ' || (SELECT narrow FROM narrow),
				'; lost: ' || (SELECT lost FROM lost)) END)
FROM statements JOIN sizes s ON s.root = relid LEFT JOIN keys k ON k.root = relid
WHERE alters AND

-- Functions see the session's path, as whenever a table is altered.  The exception:
-- if the server reads expressions with the column again, that path might contain
-- operators that take the new type.
-- name: alter_others
:alter_types
	NOT reads ORDER BY place;

-- name: alter_readers
:alter_types
	reads ORDER BY (SELECT max(depth) FROM depths d WHERE d.root = relid), place;

-- name: add_generated
WITH RECURSIVE
:pieces
SELECT statement, 'ACCESS EXCLUSIVE on ' || relid::regclass,
	size || '; the generated columns become its last ones'
		|| '; its functions see search_path = ' || current_setting('search_path')
FROM statements JOIN sizes s ON s.root = relid
WHERE first = 3 ORDER BY place;

-- name: restore_parts
WITH RECURSIVE
:given
SELECT s.statement, 'ACCESS EXCLUSIVE on ' || p.indrelid::regclass, NULL::text
FROM parts p, LATERAL (VALUES
	(1, CASE WHEN p.given <> p.relname THEN CASE WHEN p.constraint_oid IS NULL
			THEN format('ALTER INDEX %s.%I RENAME TO %I',
				(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = p.indexrelid),
				p.given, p.relname)
			ELSE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I',
				p.indrelid::regclass, p.given, p.relname) END END),
	(2, 'ALTER INDEX ' || p.indexrelid::regclass || ' SET (' || array_to_string(p.reloptions, ', ') || ')'),
	(3, 'ALTER INDEX ' || p.indexrelid::regclass || ' SET TABLESPACE ' ||
		(SELECT quote_ident(spcname) FROM pg_tablespace t WHERE t.oid = p.reltablespace)),
	(4, CASE WHEN p.indisclustered THEN
			format('ALTER TABLE %s CLUSTER ON %I', p.indrelid::regclass, p.relname) END),
	(5, CASE WHEN p.indisreplident THEN
			format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', p.indrelid::regclass, p.relname) END))
	s(place, statement)
WHERE p.is_named AND s.statement IS NOT NULL
ORDER BY p.indrelid::regclass::text COLLATE "C", p.relname::text COLLATE "C", s.place;
