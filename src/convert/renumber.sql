-- Queries of snowflake_renumber().  Those before the last two begin as those of a
-- conversion: $1 and $2 are the columns that share their values.  Partitions change with
-- their parents.

-- The tables whose owners' triggers can fire: what the statement changes, and what the
-- server changes for ON UPDATE, because a trigger has changed another column; and the tables
-- above partitions, whose keys the server computes.
-- name: touched
WITH RECURSIVE touched AS (
	SELECT relid FROM unnest($1) x(relid)
	UNION
	SELECT k.conrelid FROM touched t JOIN pg_constraint k ON k.confrelid = t.relid
	WHERE k.contype = 'f' AND k.confupdtype IN ('c', 'n', 'd')
),
above AS (
	SELECT relid FROM touched
	UNION SELECT a.relid FROM touched t, pg_partition_ancestors(t.relid) a(relid)
)

-- name: renumber_lock
:touched
SELECT format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE',
		string_agg(DISTINCT relid::regclass::text COLLATE "C", ', ')),
	'SHARE ROW EXCLUSIVE', 'nobody writes these tables before the end of the transaction; if a foreign key is new since this was printed, print it again',
	NULL::oid, array_agg(DISTINCT relid)
FROM touched JOIN pg_class c ON c.oid = relid
WHERE NOT relispartition;

-- name: renumber_other_owners
:touched
SELECT string_agg(DISTINCT quote_ident(pg_get_userbyid(c.relowner)), ', ')
FROM above JOIN pg_class c ON c.oid = relid
WHERE c.relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user);

-- name: renumber_not_one_owner
:touched
SELECT string_agg(DISTINCT format('%s belongs to %s.', pg_describe_object('pg_class'::regclass, c.oid, 0),
	pg_get_userbyid(c.relowner)), chr(10))
FROM above JOIN pg_class c ON c.oid = relid
WHERE c.relowner <> (SELECT relowner FROM pg_class WHERE oid = $1[1]);

-- Each of the next queries returns the DETAIL of an error, or NULL, and commands for its
-- HINT.

-- Foreign keys to generated columns: ON UPDATE would change what refers to these.
-- name: keys_to_generated
SELECT string_agg(DISTINCT format('%s: %I', k.conrelid::regclass, k.conname), chr(10)), NULL
FROM unnest($1, $2) x(relid, number)
	JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = x.relid
		AND d.refobjsubid = x.number AND d.classid = 'pg_attrdef'::regclass
	JOIN pg_attrdef f ON f.oid = d.objid
	JOIN pg_attribute g ON g.attrelid = f.adrelid AND g.attnum = f.adnum AND g.attgenerated <> ''
	JOIN pg_constraint k ON k.contype = 'f' AND k.conparentid = 0 AND k.confrelid = x.relid
		AND g.attnum = ANY (k.confkey);

-- Columns that share their values only for the inheritance: a parent of a child, and a
-- partitioned table of whose partitions only some have the foreign key.
-- name: not_referring
SELECT string_agg(format('%s: %s', p.relid::regclass, c.oid::regclass), chr(10) ORDER BY c.oid::regclass::text COLLATE "C"),
	string_agg(format(CASE WHEN c.relispartition THEN 'ALTER TABLE %s DETACH PARTITION %s;' ELSE 'ALTER TABLE %2$s NO INHERIT %1$s;' END,
		p.relid::regclass, c.oid::regclass), ' ' ORDER BY c.oid::regclass::text COLLATE "C")
FROM unnest($1, $2) p(relid, number)
	JOIN pg_inherits i ON i.inhparent = p.relid
	JOIN pg_class c ON c.oid = i.inhrelid AND c.oid = ANY ($1)
WHERE NOT c.relispartition OR pg_partition_root(p.relid) <> $1[1] AND NOT EXISTS (
	SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = p.relid AND p.number = ANY (k.conkey));

-- Triggers that can keep a reference as it was, or change it: ON UPDATE then changes it.
-- A move to another partition fires those of DELETE and INSERT.
-- name: reference_keepers
SELECT string_agg(DISTINCT format('%s: %I', t.tgrelid::regclass, t.tgname), chr(10)),
	string_agg(DISTINCT format('ALTER TABLE %s DISABLE TRIGGER %I;', t.tgrelid::regclass, t.tgname), ' ')
FROM unnest($1, $2) x(relid, number)
	JOIN pg_constraint k ON k.contype = 'f' AND k.conrelid = x.relid AND x.number = ANY (k.conkey)
		AND k.confupdtype IN ('c', 'n', 'd')
	JOIN pg_class c ON c.oid = x.relid
	JOIN pg_trigger t ON t.tgrelid = x.relid AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
		AND t.tgtype & 3 = 3 AND (t.tgtype & 16 = 16 OR c.relispartition OR c.relkind = 'p')
WHERE NOT EXISTS (SELECT FROM pg_trigger p WHERE p.oid = t.tgparentid AND p.tgenabled IN ('O', 'A'));

-- name: is_identity
SELECT 'yes' FROM pg_attribute WHERE attrelid = $1 AND attnum = $2 AND attidentity <> '';

-- The statement, the other columns that it changes, and one that finds equal IDs.  $3 and $4 are the key, $5
-- and $6 the lowest and highest ID.  A statement changes a row only once: a
-- table with several of the columns, such as one that refers to itself, first collects
-- what changes in each row.  The statement runs with the session's path.
-- name: renumber
WITH columns AS (
	SELECT a.attrelid::regclass AS relid, quote_ident(a.attname) AS name,
		format_type(a.atttypid, a.atttypmod) AS type,
		a.attrelid = $3 AND a.attnum = $4 AS is_key, a.attrelid = $3 AS is_first,
		row_number() OVER (PARTITION BY a.attrelid ORDER BY x.place) AS n,
		count(*) OVER (PARTITION BY a.attrelid) AS of
	FROM unnest($1, $2) WITH ORDINALITY x(relid, number, place)
		JOIN pg_attribute a ON a.attrelid = x.relid AND a.attnum = x.number
	WHERE a.attinhcount = 0
),
parts AS (
	SELECT *, CASE of WHEN 1 THEN format('%s = CAST(m.new AS %s)', name, type)
			ELSE format('%1$s = coalesce(CAST(h.n%3$s AS %2$s), x.%1$s)', name, type, n) END AS setting,
		format('SELECT %s, %s FROM map m%s', CASE WHEN is_key THEN 'm.part, m.place' ELSE 'y.tableoid, y.ctid' END,
			(SELECT string_agg(CASE i WHEN n THEN 'm.new' ELSE 'NULL::bigint' END, ', ' ORDER BY i)
				FROM generate_series(1, of) i),
			CASE WHEN NOT is_key THEN format(' JOIN %s y ON y.%s OPERATOR(pg_catalog.=) m.old', relid, name) END) AS hits,
		CASE WHEN is_key THEN ' AND x.tableoid OPERATOR(pg_catalog.=) m.part AND x.ctid OPERATOR(pg_catalog.=) m.place' END AS own_row
	FROM columns
),
changes AS (
	SELECT relid, is_first, format('UPDATE %s x SET %s FROM ', relid, string_agg(setting, ', ' ORDER BY n)) ||
		CASE of WHEN 1 THEN format('map m WHERE x.%s OPERATOR(pg_catalog.=) m.old%s', min(name), min(own_row))
			ELSE format('(SELECT u.part, u.place, %s FROM (%s) u(part, place, %s) GROUP BY u.part, u.place) h '
				'WHERE x.tableoid OPERATOR(pg_catalog.=) h.part AND x.ctid OPERATOR(pg_catalog.=) h.place',
				string_agg(format('pg_catalog.max(u.n%1$s) AS n%1$s', n), ', ' ORDER BY n),
				string_agg(hits, ' UNION ALL ' ORDER BY n), string_agg('n' || n, ', ' ORDER BY n)) END AS change
	FROM parts GROUP BY relid, is_first, of
)
SELECT format('WITH map AS MATERIALIZED (SELECT o.part, o.place, o.old, CAST((%1$s) AS bigint) AS new '
		'FROM (SELECT t.tableoid AS part, t.ctid AS place, CAST(t.%2$s AS bigint) AS old FROM %3$s t '
		'WHERE t.%2$s OPERATOR(pg_catalog.>=) ''%4$s''::bigint AND t.%2$s OPERATOR(pg_catalog.<=) ''%5$s''::bigint '
		'ORDER BY 3) o), ', (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = $3 AND adnum = $4),
		k.name, k.relid, $5, $6) ||
	(SELECT string_agg(format('%I AS (%s)', 'changed' || place, change), ', ' ORDER BY place) FROM (
		SELECT change, row_number() OVER (ORDER BY NOT is_first, relid::text COLLATE "C") AS place FROM changes) c) ||
	format(' SELECT pg_catalog.count(*) AS rows, pg_catalog.min(m.new) AS lowest, pg_catalog.max(m.new) AS highest, '
		'(SELECT pg_catalog.count(*) FROM map o JOIN %1$s t ON t.%2$s OPERATOR(pg_catalog.=) o.new) AS taken FROM map m',
		k.relid, k.name),
	(SELECT string_agg(format('%s.%s', relid, name), ', ' ORDER BY relid::text COLLATE "C", n) FROM columns WHERE NOT is_key),
	format('SELECT pg_catalog.min(o.id) AS equal FROM (SELECT CAST(t.%1$s AS bigint) AS id FROM %2$s t '
		'WHERE t.%1$s OPERATOR(pg_catalog.>=) ''%3$s''::bigint AND t.%1$s OPERATOR(pg_catalog.<=) ''%4$s''::bigint '
		'GROUP BY 1 HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1) o', k.name, k.relid, $5, $6)
FROM columns k WHERE is_key;
