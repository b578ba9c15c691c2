-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.  A statement that takes longer would run on, although nobody waits for it any
-- more: so it ends a second later.  An error of lock_timeout comes first, and says more.
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('statement_timeout', ($1 OPERATOR(pg_catalog.+) 1000)::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true);
