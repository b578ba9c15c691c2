-- Queries of snowflake_renumber().  The first three begin as those of a conversion: $1
-- and $2 are the columns that share their values.  Columns that are inherited change
-- with those above them.

-- name: renumber_lock
SELECT format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE',
		string_agg(DISTINCT a.attrelid::regclass::text COLLATE "C", ', ')),
	'SHARE ROW EXCLUSIVE', 'nobody writes these tables before the end of the transaction'
FROM unnest($1, $2) x(relid, number)
	JOIN pg_attribute a ON a.attrelid = x.relid AND a.attnum = x.number
WHERE a.attinhcount = 0;

-- name: renumber_other_owners
SELECT string_agg(DISTINCT quote_ident(pg_get_userbyid(c.relowner)), ', ')
FROM unnest($1) x(relid) JOIN pg_class c ON c.oid = x.relid
WHERE c.relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user);

-- name: renumber_not_one_owner
SELECT string_agg(DISTINCT format('%s belongs to %s.', pg_describe_object('pg_class'::regclass, c.oid, 0),
	pg_get_userbyid(c.relowner)), chr(10))
FROM unnest($1) x(relid) JOIN pg_class c ON c.oid = x.relid
WHERE c.relowner <> (SELECT relowner FROM pg_class WHERE oid = $1[1]);

-- name: default_of_key
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = $1 AND adnum = $2;

-- The statement, and the other columns that it changes.  $3 and $4 are the key, $5 its
-- default; $6 and $7 the lowest and highest ID.  A statement changes a row only once: a
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
		'ORDER BY 3) o), ', $5, k.name, k.relid, $6, $7) ||
	(SELECT string_agg(format('%I AS (%s)', 'changed' || place, change), ', ' ORDER BY place) FROM (
		SELECT change, row_number() OVER (ORDER BY NOT is_first, relid::text COLLATE "C") AS place FROM changes) c) ||
	' SELECT pg_catalog.count(*) AS rows, pg_catalog.count(DISTINCT m.old) AS old_ids, '
	'pg_catalog.count(DISTINCT m.new) AS new_ids FROM map m',
	(SELECT string_agg(format('%s.%s', relid, name), ', ' ORDER BY relid::text COLLATE "C", n) FROM columns WHERE NOT is_key)
FROM columns k WHERE is_key;
