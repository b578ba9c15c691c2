-- SQL of the worker, which runs as a superuser, with search_path = pg_catalog, pg_temp. What it reads and calls is in pg_catalog. A name in the schema snowflake_audit may be another role's object by now, so it may stand only where that could run no code: where a table is dropped, or its rights are taken away.

-- name: find
SELECT c.oid, c.relowner, NOT EXISTS (
	SELECT
	FROM pg_catalog.pg_depend d
		LEFT JOIN pg_catalog.pg_class k ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
			AND k.oid OPERATOR(pg_catalog.=) d.objid
		LEFT JOIN pg_catalog.pg_proc f ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
			AND f.oid OPERATOR(pg_catalog.=) d.objid
		JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) ANY (ARRAY[k.relowner, f.proowner, n.nspowner])
	WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
		AND d.refobjid OPERATOR(pg_catalog.=) e.oid
		-- another role's function may depend on the extension, and is no part of it
		AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
		AND NOT r.rolsuper),
	ARRAY(
	SELECT f.oid
	FROM pg_catalog.pg_proc f
		JOIN pg_catalog.pg_depend d ON d.objid OPERATOR(pg_catalog.=) f.oid
			AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
	WHERE f.proname OPERATOR(pg_catalog.=) ANY (ARRAY['advance', 'create_days', 'days_before', 'has_day', 'reached', 'write']::pg_catalog.name[])
		AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
		AND d.refobjid OPERATOR(pg_catalog.=) e.oid
		AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
	ORDER BY f.proname)
FROM pg_catalog.pg_extension e
	JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
	JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid
		AND c.relname OPERATOR(pg_catalog.=) 'log'
WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_audit'
	AND n.nspname OPERATOR(pg_catalog.=) 'snowflake_audit'

-- name: revoke
SELECT pg_catalog.concat('REVOKE ALL ON TABLE ', c.oid::pg_catalog.regclass, ' FROM ',
	CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
	ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END, ' CASCADE')
FROM pg_catalog.pg_inherits i
	JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.inhrelid,
	LATERAL pg_catalog.aclexplode(c.relacl) a
WHERE i.inhparent OPERATOR(pg_catalog.=) $1
	AND a.grantee OPERATOR(pg_catalog.<>) c.relowner

-- name: strangers
SELECT i.inhrelid, pg_catalog.concat('ALTER EXTENSION snowflake_audit ADD TABLE ', i.inhrelid::pg_catalog.regclass)
FROM pg_catalog.pg_inherits i
WHERE i.inhparent OPERATOR(pg_catalog.=) $1
	AND NOT EXISTS (
		SELECT
		FROM pg_catalog.pg_depend d
		WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
			AND d.objid OPERATOR(pg_catalog.=) i.inhrelid
			AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char")
