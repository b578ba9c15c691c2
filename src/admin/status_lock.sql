-- Find who has locked table $1, or if that is 0 a durable number, so that nobody else can
-- read or write it.  If that one still waits for its lock, find for whom: to end that one
-- helps both.  The caller's search_path applies, so operators and functions have their schema.
-- name: lock
SELECT CASE WHEN l.granted OR b.pid OPERATOR(pg_catalog.=) 0 THEN l.pid ELSE coalesce(b.pid, l.pid) END, p.gid
FROM pg_catalog.pg_locks l
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) l.database
	-- a prepared transaction has no process
	LEFT JOIN pg_catalog.pg_locks t ON t.virtualtransaction OPERATOR(pg_catalog.=) l.virtualtransaction
		AND t.locktype OPERATOR(pg_catalog.=) 'transactionid' AND t.pid IS NULL
	LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction OPERATOR(pg_catalog.=) t.transactionid
	-- nobody, for a lock that has been granted; 0 is a prepared transaction
	LEFT JOIN LATERAL (SELECT pg_catalog.max(w) AS pid
		FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(l.pid)) w) b ON NOT l.granted
WHERE CASE WHEN $1 OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN n.nspname OPERATOR(pg_catalog.=) 'snowflake_state'
		ELSE c.oid OPERATOR(pg_catalog.=) $1 END
	AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
	AND l.locktype OPERATOR(pg_catalog.=) 'relation'
	AND l.mode OPERATOR(pg_catalog.=) ANY ('{
		AccessExclusiveLock, ExclusiveLock, ShareRowExclusiveLock, ShareLock
	}'::pg_catalog.text[])
	AND (l.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid() OR p.gid IS NOT NULL)
ORDER BY l.granted DESC
LIMIT 1;
