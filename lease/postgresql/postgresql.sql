-- Set what a request needs, for its transaction only.  $1 is the time for an answer
-- in ms.  A statement that takes longer would run on, although nobody waits for it any
-- more: so it ends a second later.  An error of lock_timeout comes first, and says more.
-- Fail with 3F000, as if the schema was not there, if it is not the extension's: nobody
-- can create a schema whose name begins with "pg_".
-- name: settings
SELECT pg_catalog.set_config('synchronous_commit', 'on', true),
	pg_catalog.set_config('search_path', '', true),
	pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),
	pg_catalog.set_config('statement_timeout', ($1 OPERATOR(pg_catalog.+) 1000)::pg_catalog.text, true),
	pg_catalog.set_config('jit', 'off', true),
	CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_depend d
			ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
				AND d.refobjid OPERATOR(pg_catalog.=) e.oid
		WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry'
			AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
			AND d.objid OPERATOR(pg_catalog.=) 'snowflake_servers'::pg_catalog.regnamespace::pg_catalog.oid)
		THEN 'pg_catalog' ELSE 'pg_no_extension_snowflake_registry' END::pg_catalog.regnamespace;
