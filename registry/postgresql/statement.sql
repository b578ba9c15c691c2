-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true);
-- Read who holds slots and shards, or did, as JSON: at most $1 of them, the newest.
-- name: history
SELECT pg_catalog.string_agg(pg_catalog.row_to_json(h)::text, E'\n'),
	pg_catalog.count(*) OPERATOR(pg_catalog.=) $1
FROM (SELECT * FROM snowflake_registry.history()
	ORDER BY ended_at DESC NULLS FIRST
	LIMIT $1) h;
