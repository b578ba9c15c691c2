-- SQL of the worker. %a is the schema of snowflake_audit, %s that of snowflake. It runs as the owner of the log, with search_path = pg_catalog, pg_temp. Others may create functions in those schemas: an argument has exactly the type of the parameter, so that no other function fits better.

-- name: find
SELECT pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(m.nspname), c.oid, c.relowner
FROM pg_catalog.pg_extension e
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
	JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid
		AND c.relname OPERATOR(pg_catalog.=) 'snowflake_audit_log'
	JOIN pg_catalog.pg_extension s ON s.extname OPERATOR(pg_catalog.=) 'snowflake'
	JOIN pg_catalog.pg_namespace m ON m.oid OPERATOR(pg_catalog.=) s.extnamespace
WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_audit'

-- name: state
SELECT life, position, number FROM %a.snowflake_audit_state FOR UPDATE

-- name: write
INSERT INTO %a.snowflake_audit_log
SELECT %s.snowflake_min_id(p.ended_at, 'snowflake'::pg_catalog.text),
	p.position OPERATOR(pg_catalog.+) $3,
	CASE WHEN p.position OPERATOR(pg_catalog.<>) $4 THEN p.dropped END,
	p.ended_at, p.committed, pg_catalog.pg_get_userbyid(p.role), p.application_name,
	p.client_addr, p.pid, p.xid, p.layout, p.shard, p.first_id, p.last_id, p.ids
FROM %a.snowflake_audit_pending($1, $2) p

-- name: advance
UPDATE %a.snowflake_audit_state SET life = $1, position = $2, number = $3

-- name: create
SELECT %s.snowflake_create_partitions($1::pg_catalog.regclass, '1 day'::pg_catalog.interval, $2, $3, 'snowflake'::pg_catalog.text)

-- name: drop
SELECT %s.snowflake_drop_partitions($1::pg_catalog.regclass, $2, 'snowflake'::pg_catalog.text)

-- name: adopt
SELECT pg_catalog.concat('REVOKE ALL ON TABLE ', c.oid::pg_catalog.regclass, ' FROM ',
	CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
	ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END)
FROM pg_catalog.pg_inherits i
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid,
	LATERAL pg_catalog.aclexplode(c.relacl) a
WHERE i.inhparent OPERATOR(pg_catalog.=) $1
	AND a.grantee OPERATOR(pg_catalog.<>) c.relowner
UNION ALL
SELECT pg_catalog.concat('ALTER EXTENSION snowflake_audit ADD TABLE ', i.inhrelid::pg_catalog.regclass)
FROM pg_catalog.pg_inherits i
WHERE i.inhparent OPERATOR(pg_catalog.=) $1
	AND NOT EXISTS (
		SELECT
		FROM pg_catalog.pg_depend d
		WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
			AND d.objid OPERATOR(pg_catalog.=) i.inhrelid
			AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char")

-- name: disown
SELECT pg_catalog.concat('ALTER EXTENSION snowflake_audit DROP TABLE ', p.partition)
FROM %s.snowflake_partitions($1::pg_catalog.regclass, 'snowflake'::pg_catalog.text) p
WHERE p.until_time OPERATOR(pg_catalog.<=) $2
