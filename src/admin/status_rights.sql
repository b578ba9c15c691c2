-- Find the further privileges on objects of the extension $1, and of a registry in this
-- database, and the commands that revoke them.  The caller's search_path applies, so
-- operators and functions have their schema.
-- name: rights
WITH member AS (
	SELECT d.classid, d.objid, x.extowner, x.extname
	FROM pg_catalog.pg_depend d
		JOIN pg_catalog.pg_extension x ON x.oid OPERATOR(pg_catalog.=) d.refobjid
	WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
		AND (x.oid OPERATOR(pg_catalog.=) $1 OR x.extname OPERATOR(pg_catalog.=) 'snowflake_registry')
		AND d.deptype OPERATOR(pg_catalog.=) 'e'
	UNION ALL
	-- no member, though CREATE EXTENSION has made it
	SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass, x.extnamespace, x.extowner, x.extname
	FROM pg_catalog.pg_extension x
	WHERE x.extname OPERATOR(pg_catalog.=) 'snowflake_registry'
),
given AS (
	SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
		pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,
		CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS role,
		pg_catalog.string_agg(a.privilege_type, ', '
			ORDER BY a.privilege_type) AS privileges
	FROM pg_catalog.pg_class c JOIN member m ON m.objid OPERATOR(pg_catalog.=) c.oid
		AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace,
		LATERAL (SELECT r.grantee, r.privilege_type
				FROM pg_catalog.aclexplode(c.relacl) r
			UNION SELECT p.grantee, p.privilege_type
				FROM pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) p
				WHERE t.attrelid OPERATOR(pg_catalog.=) c.oid AND NOT t.attisdropped) a
	WHERE a.grantee OPERATOR(pg_catalog.<>) c.relowner
		AND (c.relkind OPERATOR(pg_catalog.=) 'S'
				AND a.privilege_type OPERATOR(pg_catalog.=) ANY ('{UPDATE,USAGE}'::pg_catalog.text[])
			OR c.relkind OPERATOR(pg_catalog.=) 'r'
				AND a.privilege_type OPERATOR(pg_catalog.=) ANY
					('{DELETE,INSERT,TRIGGER,TRUNCATE,UPDATE}'::pg_catalog.text[]))
	GROUP BY 1, 2, 3
	UNION ALL
	SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname),
		CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END, a.privilege_type
	FROM pg_catalog.pg_namespace n JOIN member m ON m.objid OPERATOR(pg_catalog.=) n.oid
		AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass,
		LATERAL pg_catalog.aclexplode(n.nspacl) a
	WHERE a.grantee OPERATOR(pg_catalog.<>) n.nspowner
		AND (a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
			-- who can name a table can lock it
			OR (m.extname OPERATOR(pg_catalog.=) 'snowflake' OR a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid)
				AND NOT EXISTS (
					SELECT
					FROM pg_catalog.pg_init_privs i, pg_catalog.aclexplode(i.initprivs) g
					WHERE i.objoid OPERATOR(pg_catalog.=) n.oid AND i.classoid OPERATOR(pg_catalog.=) m.classid
						AND g.grantee OPERATOR(pg_catalog.=) ANY (ARRAY[a.grantee, 0::pg_catalog.oid])
						AND g.privilege_type OPERATOR(pg_catalog.=) 'USAGE'))
	UNION ALL
	SELECT 'FUNCTION', pg_catalog.format('%I.%I(%s)', n.nspname, p.proname,
			pg_catalog.oidvectortypes(p.proargtypes)),
		CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
			ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END, a.privilege_type
	FROM pg_catalog.pg_proc p JOIN member m ON m.objid OPERATOR(pg_catalog.=) p.oid
		AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace,
		LATERAL pg_catalog.aclexplode(COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) a
	WHERE a.grantee OPERATOR(pg_catalog.<>) p.proowner
		AND (p.proname OPERATOR(pg_catalog.=) ANY ('{
				snowflake_accept, snowflake_advance, snowflake_stat_reset,
				snowflake_recover, snowflake_reset_mark,
				snowflake_registry_init, snowflake_registry_recover,
				snowflake_registry_release, snowflake_registry_slots
			}'::pg_catalog.name[])
			-- other roles have what snowflake_registry.grant() has given
			OR m.extname OPERATOR(pg_catalog.=) 'snowflake_registry'
				AND a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid)
),
owned AS (
	SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
		pg_catalog.format('%I.%I', n.nspname, c.relname) AS name,
		c.relowner AS owner, m.extowner
	FROM pg_catalog.pg_class c JOIN member m ON m.objid OPERATOR(pg_catalog.=) c.oid
		AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
	WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{S,r}'::pg_catalog."char"[])
	UNION ALL
	SELECT 'SCHEMA', pg_catalog.quote_ident(n.nspname), n.nspowner,
		m.extowner
	FROM pg_catalog.pg_namespace n JOIN member m ON m.objid OPERATOR(pg_catalog.=) n.oid
		AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
),
joined AS (
	SELECT kind, role, privileges,
		pg_catalog.string_agg(name, ', ' ORDER BY name) AS names
	FROM given GROUP BY 1, 2, 3
),
said AS (
	SELECT names, role,
		pg_catalog.format('%s may %s %s', role, privileges, names) AS found,
		pg_catalog.format('REVOKE %s ON %s %s FROM %s CASCADE;',
			privileges, kind, names, role) AS remedy
	FROM joined
	UNION ALL
	SELECT o.name, r.rolname,
		pg_catalog.format('%I owns %s', r.rolname, o.name),
		pg_catalog.format('ALTER %s %s OWNER TO %s;', o.kind, o.name,
			o.extowner::pg_catalog.regrole)
	FROM owned o JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) o.owner
	WHERE o.owner OPERATOR(pg_catalog.<>) o.extowner AND NOT r.rolsuper
)
SELECT pg_catalog.string_agg(found, '; ' ORDER BY names, role),
	pg_catalog.string_agg(remedy, ' ' ORDER BY names, role)
FROM said;
