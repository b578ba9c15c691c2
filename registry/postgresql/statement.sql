-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true);
-- Read who holds slots and shards, or did, as JSON, and whether more is left out.  The
-- worker has the answer in memory: so at most $1 rows and $2 bytes, the newest.  $3 is
-- the slot or NULL; $4 is the time in Unix ms or NULL.
-- name: history
SELECT pg_catalog.string_agg(l.line, E'\n') FILTER (WHERE NOT l.is_cut),
	pg_catalog.bool_or(l.is_cut)
FROM (
	SELECT j.line, pg_catalog.row_number() OVER w OPERATOR(pg_catalog.>) $1
		OR pg_catalog.sum(pg_catalog.octet_length(j.line)) OVER w
			OPERATOR(pg_catalog.>) $2 AS is_cut
	FROM (
		SELECT h.ended_at, pg_catalog.row_to_json(h)::text AS line
		FROM snowflake_registry.history($3,
			pg_catalog.to_timestamp($4 OPERATOR(pg_catalog./) 1000.0)) h
		ORDER BY h.ended_at DESC NULLS FIRST
		LIMIT $1 OPERATOR(pg_catalog.+) 1) j
	WINDOW w AS (ORDER BY j.ended_at DESC NULLS FIRST ROWS UNBOUNDED PRECEDING)) l;
