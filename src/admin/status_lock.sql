-- Find who has locked a durable number, or waits for such a lock, so that nobody else can
-- read or write it.  The caller's search_path applies, so operators and functions have their schema.
-- name: lock
SELECT l.pid, p.gid
FROM pg_catalog.pg_locks l
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) l.database
	-- a prepared transaction has no process
	LEFT JOIN pg_catalog.pg_locks t ON t.virtualtransaction OPERATOR(pg_catalog.=) l.virtualtransaction
		AND t.locktype OPERATOR(pg_catalog.=) 'transactionid' AND t.pid IS NULL
	LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) t.transactionid
WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_state'
	AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	AND l.locktype OPERATOR(pg_catalog.=) 'relation'
	AND l.mode OPERATOR(pg_catalog.=) ANY ('{
		AccessExclusiveLock, ExclusiveLock, ShareRowExclusiveLock, ShareLock
	}'::pg_catalog.text[])
	AND (l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() OR p.gid IS NOT NULL)
ORDER BY l.granted DESC
LIMIT 1;
