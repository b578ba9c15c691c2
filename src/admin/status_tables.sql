-- Find the columns whose default makes IDs; $1 are the functions that make them.  The
-- caller's search_path applies, so operators and functions have their schema.
--
-- A partition is not listed beside a table above it.  That table has unique IDs
-- also if each of its leaves has, provided that the IDs divide it, which is assumed.
-- Partitions are searched in the catalogue, because pg_partition_tree() waits for a
-- lock on each of them, and keeps it.  Each is visited once, from above:
-- pg_partition_root() would climb from each.  OFFSET makes the server use an index
-- at each step.  No two of the lists are joined: the server takes them for short,
-- and would go through one of them for each row of the other.
-- name: columns
WITH RECURSIVE used AS MATERIALIZED (
	SELECT DISTINCT f.adrelid, f.adnum, a.attname
	FROM pg_catalog.pg_depend d
		JOIN pg_catalog.pg_attrdef f ON f.oid OPERATOR(pg_catalog.=) d.objid
		JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) f.adrelid
			AND a.attnum OPERATOR(pg_catalog.=) f.adnum
	WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
		AND d.refobjid OPERATOR(pg_catalog.=) ANY ($1)
		AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
		AND NOT a.attisdropped
),
below AS (
	SELECT i.inhrelid AS relid, u.attname
	FROM used u CROSS JOIN LATERAL (SELECT i.inhrelid FROM pg_catalog.pg_inherits i
			JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid
		WHERE i.inhparent OPERATOR(pg_catalog.=) u.adrelid
			AND c.relispartition AND NOT i.inhdetachpending OFFSET 0) i
	UNION
	SELECT i.inhrelid, b.attname
	FROM below b CROSS JOIN LATERAL (SELECT i.inhrelid FROM pg_catalog.pg_inherits i
			JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid
		WHERE i.inhparent OPERATOR(pg_catalog.=) b.relid
			AND c.relispartition AND NOT i.inhdetachpending OFFSET 0) i
),
part AS (
	SELECT u.*, u.adrelid AS relid FROM used u
	WHERE NOT (u.adrelid, u.attname) OPERATOR(pg_catalog.=) ANY (SELECT b.relid, b.attname FROM below b)
	UNION ALL
	SELECT t.adrelid, t.adnum, t.attname, i.inhrelid
	FROM part t CROSS JOIN LATERAL (SELECT i.inhrelid FROM pg_catalog.pg_inherits i
			JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid
		WHERE i.inhparent OPERATOR(pg_catalog.=) t.relid
			AND c.relispartition AND NOT i.inhdetachpending OFFSET 0) i
),
listed AS (
	-- unique: the column is a key of a valid unique index on each leaf
	SELECT t.adrelid, t.adnum,
		pg_catalog.bool_and(EXISTS (
			SELECT FROM pg_catalog.pg_index i
			WHERE i.indrelid OPERATOR(pg_catalog.=) a.attrelid
				AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
				AND a.attnum OPERATOR(pg_catalog.=)
					ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1])
			)) FILTER (WHERE NOT c.relkind OPERATOR(pg_catalog.=) 'p') AS is_unique,
		pg_catalog.string_agg(DISTINCT pg_catalog.quote_ident(s.subname), ', ') AS subscriptions,
		-- it has met errors, and its worker does not run, or was just started again
		pg_catalog.string_agg(DISTINCT pg_catalog.format('%I: %s errors', s.subname,
				e.apply_error_count OPERATOR(pg_catalog.+) y.sync_errors), ', ')
			FILTER (WHERE (y.sync_errors OPERATOR(pg_catalog.>) 0
					AND NOT r.srsubstate OPERATOR(pg_catalog.=) ANY ('{r,s}'))
				OR (e.apply_error_count OPERATOR(pg_catalog.>) 0 AND NOT EXISTS (
					SELECT FROM pg_catalog.pg_stat_subscription w
						JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) w.pid
					WHERE w.subid OPERATOR(pg_catalog.=) s.oid AND w.relid IS NULL
						AND (a.backend_start IS NULL OR a.backend_start OPERATOR(pg_catalog.<)
							(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) '10 s'::pg_catalog.interval))))) AS failing
	FROM part t
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.relid
		JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) t.relid
			AND a.attname OPERATOR(pg_catalog.=) t.attname
		LEFT JOIN pg_catalog.pg_subscription_rel r ON r.srrelid OPERATOR(pg_catalog.=) t.relid
		LEFT JOIN pg_catalog.pg_subscription s ON s.oid OPERATOR(pg_catalog.=) r.srsubid
		LEFT JOIN pg_catalog.pg_stat_subscription_stats e ON e.subid OPERATOR(pg_catalog.=) s.oid
		-- one column before 19, then one for tables and one for sequences
		CROSS JOIN LATERAL (
			SELECT pg_catalog.sum(value::pg_catalog.int8) AS sync_errors
			FROM pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(e))
			WHERE key OPERATOR(pg_catalog.~~) 'sync%error_count') y
	GROUP BY t.adrelid, t.adnum
)
SELECT c.oid, a.attname, a.atttypid,
	pg_catalog.format('%I.%I.%I', n.nspname, c.relname, a.attname), a.attnum,
	EXISTS (
		SELECT FROM pg_catalog.pg_index i
		WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid
			AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
			AND a.attnum OPERATOR(pg_catalog.=)
				ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1])
		) OR u.is_unique,
	pg_catalog.has_schema_privilege(n.oid, 'USAGE')
		AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT'),
	NOT pg_catalog.row_security_active(c.oid),
	u.subscriptions, u.failing
FROM listed u
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) u.adrelid
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid
		AND a.attnum OPERATOR(pg_catalog.=) u.adnum
WHERE (c.relkind OPERATOR(pg_catalog.=) 'r' OR c.relkind OPERATOR(pg_catalog.=) 'p')
	AND (c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
		OR NOT c.relpersistence OPERATOR(pg_catalog.=) 't')
ORDER BY n.nspname, c.relname, a.attnum;

-- What drops the invalid unique indexes on column $2 of table $1, unless some index is
-- being made: which one that is, other roles may not see.
-- name: remains
SELECT pg_catalog.string_agg(pg_catalog.format('DROP INDEX CONCURRENTLY %I.%I;', n.nspname, c.relname), ' ')
FROM pg_catalog.pg_index i
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE i.indrelid OPERATOR(pg_catalog.=) $1 AND c.relkind OPERATOR(pg_catalog.=) 'i'
	AND i.indisunique AND NOT i.indisvalid AND i.indpred IS NULL
	AND i.indnkeyatts OPERATOR(pg_catalog.=) 1
	AND i.indkey[0] OPERATOR(pg_catalog.=) $2
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index p
		WHERE p.relid OPERATOR(pg_catalog.=) $1 OR p.relid IS NULL);
