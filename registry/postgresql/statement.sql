-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true);
