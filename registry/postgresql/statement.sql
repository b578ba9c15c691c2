-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.  A statement that takes longer would run on, although nobody waits for it any
-- more: so it ends a second later.  An error of lock_timeout comes first, and says more.
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('statement_timeout', ($1 OPERATOR(pg_catalog.+) 1000)::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true);
-- Read who holds slots and shards, or did, as JSON, and whether more is left out.  The
-- worker has the answer in memory: so at most $1 rows and $2 bytes, the newest.  A
-- character of the host can take six bytes in JSON, and the other columns take less than
-- 300.  Rows that are too much do not become JSON.  $3 is the slot or NULL; $4 is the
-- time in Unix ms or NULL.
-- name: history
SELECT pg_catalog.string_agg(pg_catalog.row_to_json(l.entry)::text, E'\n')
		FILTER (WHERE NOT l.is_cut),
	pg_catalog.bool_or(l.is_cut)
FROM (
	SELECT h AS entry, pg_catalog.row_number() OVER w OPERATOR(pg_catalog.>) $1
		OR pg_catalog.sum(300 OPERATOR(pg_catalog.+) coalesce(pg_catalog.octet_length(h.shards), 0)
			OPERATOR(pg_catalog.+) (6 OPERATOR(pg_catalog.*) pg_catalog.octet_length(h.host))) OVER w
			OPERATOR(pg_catalog.>) $2 AS is_cut
	FROM (
		SELECT e.*
		FROM snowflake_registry.history($3,
			pg_catalog.to_timestamp($4 OPERATOR(pg_catalog./) 1000.0)) e
		ORDER BY e.ended_at DESC NULLS FIRST
		LIMIT $1 OPERATOR(pg_catalog.+) 1) h
	WINDOW w AS (ORDER BY h.ended_at DESC NULLS FIRST ROWS UNBOUNDED PRECEDING)) l;
