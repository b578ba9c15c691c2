-- Statements before columns are widened, and after.  Each query returns statements,
-- their locks, and notes.

-- ---- before ----

-- LOCK needs rights of its own, also on tables that are only referred to.
-- name: lock_tables
WITH RECURSIVE
:columns,
:foreign_keys,
wanted AS (
	SELECT attrelid AS relid FROM shared WHERE place = 1
	UNION SELECT relid FROM altered WHERE attinhcount = 0
	UNION SELECT x.relid FROM foreign_keys f,
			unnest(ARRAY[f.conrelid, f.confrelid]) x(relid)
			JOIN pg_class c ON c.oid = x.relid WHERE pg_has_role(c.relowner, 'USAGE')
)
SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE',
		string_agg(relid::regclass::text, ', ' ORDER BY relid::regclass::text COLLATE "C")),
	'ACCESS EXCLUSIVE', 'nobody reads or writes these tables before the end of the transaction',
	NULL::oid, array_agg(relid ORDER BY relid::regclass::text COLLATE "C")
FROM wanted;

-- name: without_bodies
WITH RECURSIVE
:given
SELECT 'SET LOCAL check_function_bodies = off', NULL::text, NULL::text FROM functions LIMIT 1;

-- name: leave_publications
WITH RECURSIVE
:given
SELECT format('ALTER PUBLICATION %I DROP TABLE ONLY %s', pubname, prrelid::regclass),
	'SHARE UPDATE EXCLUSIVE on ' || prrelid::regclass,
	concat('the column list or row filter of the publication has the column',
		CASE WHEN (SELECT bool_or(rewrites) FROM altered)
			THEN '; subscribers must widen theirs before the first new row' END)
FROM publications
ORDER BY pubname::text COLLATE "C", prrelid::regclass::text COLLATE "C";

-- name: empty_functions
WITH RECURSIVE
:given
SELECT format('CREATE OR REPLACE %s %s.%I(%s)%s LANGUAGE sql AS %L', kind,
		pronamespace::regnamespace, proname, pg_get_function_arguments(oid),
		' RETURNS ' || pg_get_function_result(oid), ''), NULL::text,
	'its body comes back below; arguments and results stay as they are declared'
FROM functions ORDER BY oid::regprocedure::text COLLATE "C";

-- name: blind_policies
WITH RECURSIVE
:given
SELECT format('ALTER POLICY %I ON %s%s%s', polname, polrelid::regclass,
		CASE WHEN polqual IS NOT NULL THEN ' USING (false)' END,
		CASE WHEN polwithcheck IS NOT NULL THEN ' WITH CHECK (false)' END),
	'ACCESS EXCLUSIVE on ' || polrelid::regclass, NULL::text
FROM policies ORDER BY polrelid::regclass::text COLLATE "C", polname::text COLLATE "C";

-- name: drop_triggers
WITH RECURSIVE
:given
SELECT format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass),
	'ACCESS EXCLUSIVE on ' || tgrelid::regclass, NULL::text
FROM triggers WHERE stands
ORDER BY tgrelid::regclass::text COLLATE "C", tgname::text COLLATE "C";

-- name: drop_rules
WITH RECURSIVE
:given
SELECT format('DROP RULE %I ON %s', rulename, ev_class::regclass),
	'ACCESS EXCLUSIVE on ' || ev_class::regclass, NULL::text
FROM rules WHERE stands
ORDER BY ev_class::regclass::text COLLATE "C", rulename::text COLLATE "C";

-- Indexes of partitions go with the parent's, others with their views.
-- name: drop_indexes
WITH RECURSIVE
:given
SELECT format('DROP INDEX %s', indexrelid::regclass),
	'ACCESS EXCLUSIVE on ' || indrelid::regclass, NULL::text
FROM indexes WHERE relkind = 'I' AND inhparent IS NULL
ORDER BY indexrelid::regclass::text COLLATE "C";

-- name: drop_views
WITH RECURSIVE
:given
SELECT format('DROP %s %s', kind, oid::regclass),
	'ACCESS EXCLUSIVE on ' || oid::regclass, NULL::text
FROM views ORDER BY place DESC;

-- ---- after: views, and what belongs to them ----

-- name: make_views
WITH RECURSIVE
:given
SELECT s.statement, NULL::text, nullif(concat_ws('; ',
		CASE WHEN s.statement ~ '::(integer|smallint)\M'
			THEN 'has a cast to integer or smallint, which no new ID fits' END,
		CASE WHEN s.statement ~ '::([^ ]*\.)?(bigint|snowflake)\M' AND EXISTS (SELECT FROM altered WHERE NOT rewrites)
			THEN 'has a cast to bigint or snowflake: compare the types of its columns before and after' END), '')
FROM views v LEFT JOIN pg_am m ON m.oid = v.relam
	LEFT JOIN pg_tablespace t ON t.oid = v.reltablespace,
	LATERAL (SELECT nullif(concat_ws(', ',
			(SELECT string_agg(format('%s=%L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ')
				FROM unnest(v.reloptions) o),
			(SELECT string_agg(format('toast.%s=%L', split_part(o, '=', 1), substr(o, strpos(o, '=') + 1)), ', ')
				FROM pg_class c, unnest(c.reloptions) o WHERE c.oid = v.reltoastrelid)), '') AS options) o,
	LATERAL (VALUES
		(1, format('CREATE %s %s%s%s%s AS %s%s', v.kind, v.oid::regclass,
				' USING ' || quote_ident(m.amname), ' WITH (' || options || ')',
				' TABLESPACE ' || quote_ident(t.spcname), btrim(pg_get_viewdef(v.oid), E' ;\n'),
				CASE v.relkind WHEN 'm' THEN ' WITH NO DATA' END)),
		(2, CASE WHEN v.relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
			THEN format('ALTER %s %s OWNER TO %s', v.kind, v.oid::regclass,
				quote_ident(pg_get_userbyid(v.relowner))) END))
	s(place, statement)
WHERE s.statement IS NOT NULL ORDER BY v.place, s.place;

-- Columns of which only the definition has been made anew.
-- name: anew
:given,
anew AS (
	SELECT a.*, coalesce(v.kind, 'TABLE') AS kind, c.relowner, coalesce(v.place, 0) AS place
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN views v ON v.oid = c.oid
	WHERE a.attnum > 0 AND NOT a.attisdropped
		AND (v.oid IS NOT NULL OR (a.attrelid, a.attnum) IN (SELECT relid, attnum FROM made))
)

-- name: defaults_for_view
d.defaclrole = (SELECT oid FROM pg_roles WHERE rolname = current_user)
AND d.defaclobjtype = 'r' AND d.defaclnamespace IN (0, v.relnamespace)

-- Nothing that default privileges grant or omit makes a difference.
-- name: owner_has_all
coalesce((acldefault('r', v.relowner))[1] = ANY (v.relacl), true)
AND NOT EXISTS (SELECT FROM pg_default_acl d
	WHERE
		:defaults_for_view
		AND (d.defaclnamespace = 0 AND NOT (acldefault('r', d.defaclrole))[1] = ANY (d.defaclacl)
			OR EXISTS (SELECT FROM aclexplode(d.defaclacl) x
				WHERE x.is_grantable AND x.grantee IN (v.relowner, d.defaclrole))))

-- Privileges granted by default, and not by the owner.  The type of a view's rows
-- has privileges of its own; at first every role may use it.
-- name: revoke_defaults
WITH RECURSIVE
:given
SELECT format('REVOKE ALL ON %s %s FROM %s', what, oid::regclass,
		CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END),
	NULL::text, NULL::text
FROM views v, LATERAL (
	SELECT 'TABLE' AS what, v.relowner AS grantee WHERE NOT (
		:owner_has_all
	)
	UNION
	SELECT 'TABLE', x.grantee FROM pg_default_acl d, aclexplode(d.defaclacl) x
	WHERE
		:defaults_for_view
		AND x.grantee NOT IN (v.relowner, d.defaclrole)
	UNION
	SELECT 'TYPE', r.role FROM pg_type t, (VALUES (0), (v.relowner)) r(role)
	WHERE t.oid = v.reltype AND t.typacl IS NOT NULL) g
ORDER BY place, what, grantee;

-- In the order in which roles can grant: the owner first, then roles that have the
-- privilege from it, and so on.  The server refuses circles.
-- name: grant
WITH RECURSIVE
:anew,
grants AS (
	SELECT v.oid, v.place, v.relowner, 'TABLE' AS what, NULL::name AS attname, 0 AS attnum, x.*
	FROM views v, aclexplode(coalesce(v.relacl, acldefault('r', v.relowner))) x
	WHERE NOT (x.grantee = v.relowner AND
		:owner_has_all
	)
	UNION ALL
	SELECT v.oid, v.place, v.relowner, 'TYPE', NULL, 0, x.*
	FROM views v JOIN pg_type t ON t.oid = v.reltype, aclexplode(t.typacl) x
	UNION ALL
	SELECT a.attrelid, a.place, a.relowner, 'TABLE', a.attname, a.attnum, x.*
	FROM anew a, aclexplode(a.attacl) x
),
grantors(oid, attnum, privilege_type, role, depth) AS (
	SELECT oid, attnum, privilege_type, relowner, 0 FROM grants
	UNION
	SELECT g.oid, g.attnum, g.privilege_type, g.grantee, r.depth + 1
	FROM grantors r JOIN grants g ON g.oid = r.oid AND r.attnum IN (0, g.attnum)
		AND g.privilege_type = r.privilege_type AND g.grantor = r.role
	WHERE g.is_grantable
),
placed AS (
	SELECT g.*, (SELECT min(r.depth) FROM grantors r
		WHERE r.oid = g.oid AND r.attnum IN (0, g.attnum)
			AND r.privilege_type = g.privilege_type AND r.role = g.grantor) AS depth
	FROM grants g
),
statements AS (
	SELECT place, depth, what, attnum, relowner, grantor, grantee, is_grantable, oid::regclass::text AS target,
		format('GRANT %s ON %s %s TO %s%s',
			string_agg(concat(privilege_type, ' (' || quote_ident(attname) || ')'), ', '
				ORDER BY privilege_type), what, oid::regclass,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
			CASE WHEN is_grantable THEN ' WITH GRANT OPTION' END) AS statement
	FROM placed
	GROUP BY oid, place, depth, what, relowner, attname, attnum, grantor, grantee, is_grantable
)
-- What another role than the owner grants, it grants on an object of the owner.
SELECT s.statement, NULL::text, NULL::text, s.role, NULL::oid[],
	CASE WHEN part = 2 AND grantor <> relowner THEN target END
FROM statements g, pg_roles r, LATERAL (VALUES
	(1, 'SET LOCAL ROLE ' || quote_ident(pg_get_userbyid(grantor)), grantor), (2, statement, NULL),
	(3, 'SET LOCAL ROLE ' || quote_ident(rolname), r.oid)) s(part, statement, role)
WHERE rolname = current_user AND (grantor <> relowner OR part = 2)
ORDER BY g.place, depth, grantee <> relowner, what, attnum, grantor, grantee, is_grantable, part;

-- Only options that users set; a server may have others of its own.
-- name: set_columns
WITH RECURSIVE
:anew
SELECT format('ALTER %s %s ALTER COLUMN %I %s', a.kind, a.attrelid::regclass, a.attname, s.action),
	NULL::text, NULL::text
FROM anew a JOIN pg_type t ON t.oid = a.atttypid
	LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum AND a.kind = 'VIEW',
	LATERAL (VALUES (1, 'SET DEFAULT ' || pg_get_expr(f.adbin, f.adrelid)),
		(2, CASE WHEN a.attstattarget >= 0 THEN 'SET STATISTICS ' || a.attstattarget END),
		(3, 'SET (' || (SELECT string_agg(o, ', ') FROM unnest(a.attoptions) o
				WHERE o LIKE 'n\_distinct%') || ')'),
		(4, CASE WHEN a.kind <> 'VIEW' AND a.attstorage <> t.typstorage THEN 'SET STORAGE ' ||
			CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN'
				ELSE 'EXTENDED' END END),
		(5, CASE a.attcompression WHEN 'p' THEN 'SET COMPRESSION pglz'
			WHEN 'l' THEN 'SET COMPRESSION lz4' END))
	s(place, action)
WHERE s.action IS NOT NULL
ORDER BY a.place, a.attrelid::regclass::text COLLATE "C", a.attnum, s.place;

-- ---- after: objects on tables and views ----

-- name: make_rules
WITH RECURSIVE
:given
SELECT s.statement, 'ACCESS EXCLUSIVE on ' || ev_class::regclass, NULL::text
FROM rules r, LATERAL (VALUES (1, btrim(pg_get_ruledef(oid), ';')),
	(2, CASE WHEN ev_enabled <> 'O' THEN format('ALTER TABLE %s %s %I', ev_class::regclass,
		CASE ev_enabled WHEN 'O' THEN 'ENABLE' WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA'
			ELSE 'ENABLE ALWAYS' END || ' RULE', rulename) END)) s(place, statement)
WHERE s.statement IS NOT NULL
ORDER BY ev_class::regclass::text COLLATE "C", rulename::text COLLATE "C", s.place;

-- Triggers of partitions come with their parent's; their state may differ.
-- name: clones
clones(root, oid, tgrelid, tgname, tgenabled, above) AS (
	SELECT oid, oid, tgrelid, tgname, tgenabled, 'O'::"char" FROM triggers
	UNION ALL
	SELECT c.root, t.oid, t.tgrelid, t.tgname, t.tgenabled, c.tgenabled
	FROM clones c JOIN pg_trigger t ON t.tgparentid = c.oid
)

-- name: make_triggers
WITH RECURSIVE
:given,
:clones
SELECT s.statement, s.locks, NULL::text FROM (
	SELECT tgrelid, tgname, 1 AS place, tgrelid AS relid, pg_get_triggerdef(oid) AS statement,
		'SHARE ROW EXCLUSIVE on ' || tgrelid::regclass AS locks
	FROM triggers
	UNION ALL
	SELECT r.tgrelid, r.tgname, 2, c.tgrelid, format('ALTER TABLE %s %s %I', c.tgrelid::regclass,
			CASE c.tgenabled WHEN 'O' THEN 'ENABLE' WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA'
				ELSE 'ENABLE ALWAYS' END || ' TRIGGER', c.tgname),
		'SHARE ROW EXCLUSIVE on ' || c.tgrelid::regclass
	FROM clones c JOIN triggers r ON r.oid = c.root
	WHERE c.tgenabled <> c.above) s
ORDER BY tgrelid::regclass::text COLLATE "C", tgname::text COLLATE "C", place,
	relid::regclass::text COLLATE "C";

-- name: open_policies
WITH RECURSIVE
:given
SELECT format('ALTER POLICY %I ON %s%s%s', polname, polrelid::regclass,
		' USING (' || pg_get_expr(polqual, polrelid) || ')',
		' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')'),
	'ACCESS EXCLUSIVE on ' || polrelid::regclass, NULL::text
FROM policies ORDER BY polrelid::regclass::text COLLATE "C", polname::text COLLATE "C";

-- name: fill_functions
WITH RECURSIVE
:given
SELECT rtrim(pg_get_functiondef(oid), E'\n'), NULL::text, NULL::text
FROM functions ORDER BY oid::regprocedure::text COLLATE "C";

-- name: refresh
WITH RECURSIVE
:given
SELECT format('REFRESH MATERIALIZED VIEW %s', oid::regclass), NULL::text, NULL::text
FROM views WHERE relkind = 'm' AND relispopulated ORDER BY place;

-- name: make_indexes
WITH RECURSIVE
:given
SELECT s.statement, 'SHARE on ' || indrelid::regclass, CASE WHEN s.place = 1 AND EXISTS (
		SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = indexrelid
			AND d.refclassid = 'pg_proc'::regclass)
	THEN 'its functions see search_path = ' || current_setting('search_path') END
FROM indexes, LATERAL (
	SELECT 1 AS place, pg_get_indexdef(indexrelid) AS statement
	UNION ALL
	SELECT 2, format('ALTER INDEX %s SET TABLESPACE %I', indexrelid::regclass,
		(SELECT spcname FROM pg_tablespace t WHERE t.oid = reltablespace))
	WHERE reltablespace <> 0
	UNION ALL
	SELECT 2, format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s',
		indexrelid::regclass, attnum, attstattarget)
	FROM pg_attribute WHERE attrelid = indexrelid AND attstattarget >= 0
	UNION ALL
	SELECT 3, format('ALTER INDEX %s ATTACH PARTITION %s', inhparent::regclass, indexrelid::regclass)
	WHERE inhparent IS NOT NULL
	UNION ALL
	SELECT 3, format('ALTER %s %s CLUSTER ON %I',
		coalesce((SELECT kind FROM views v WHERE v.oid = indrelid), 'TABLE'),
		indrelid::regclass, relname)
	WHERE indisclustered
	UNION ALL
	SELECT 3, format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', indrelid::regclass, relname)
	WHERE indisreplident) s
ORDER BY s.place, indexrelid::regclass::text COLLATE "C", s.statement COLLATE "C";

-- ALTER TABLE makes the other indexes anew, and loses their targets.
-- name: target_indexes
WITH RECURSIVE
:given
SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s',
	i.indexrelid::regclass, a.attnum, a.attstattarget), NULL::text, NULL::text
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid
WHERE a.attstattarget >= 0 AND i.indrelid IN (SELECT relid FROM altered)
	AND i.indexrelid NOT IN (SELECT indexrelid FROM indexes
		UNION SELECT indexrelid FROM parts WHERE NOT is_named)
ORDER BY i.indexrelid::regclass::text COLLATE "C", a.attnum;

-- name: depend_on_extensions
WITH RECURSIVE
:given
SELECT format('ALTER %s DEPENDS ON EXTENSION %I', s.what, e.extname), NULL::text, NULL::text
FROM (SELECT 'pg_class'::regclass AS class, oid, 'MATERIALIZED VIEW ' || oid::regclass AS what
		FROM views
		UNION ALL
		SELECT 'pg_class'::regclass, indexrelid, 'INDEX ' || indexrelid::regclass
		FROM pg_index
		WHERE indrelid IN (SELECT relid FROM changed UNION SELECT oid FROM views)
			AND indexrelid NOT IN (SELECT indexrelid FROM parts WHERE NOT is_named)
		UNION ALL
		SELECT 'pg_trigger'::regclass, oid, format('TRIGGER %I ON %s', tgname, tgrelid::regclass)
		FROM triggers
		UNION ALL
		SELECT 'pg_proc'::regclass, oid, format('%s %s', kind, oid::regprocedure)
		FROM functions) s
	JOIN pg_depend d ON d.classid = s.class AND d.objid = s.oid AND d.deptype = 'x'
	JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
ORDER BY s.what COLLATE "C", e.extname;

-- ALTER TABLE ... TYPE loses the target and, before 18, the owner.
-- name: make_statistics
WITH RECURSIVE
:given,
named AS (
	SELECT e.*, format('%s.%I', stxnamespace::regnamespace, stxname) AS name, v.oid IS NOT NULL AS anew
	FROM pg_statistic_ext e LEFT JOIN views v ON v.oid = e.stxrelid
	WHERE v.oid IS NOT NULL OR EXISTS (SELECT FROM dependent d
		WHERE d.classid = 'pg_statistic_ext'::regclass AND d.objid = e.oid)
)
SELECT s.statement, NULL::text, NULL::text
FROM named, LATERAL (VALUES (1, CASE WHEN anew THEN pg_get_statisticsobjdef(oid) END),
	(2, CASE WHEN stxowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
		THEN format('ALTER STATISTICS %s OWNER TO %I', name, pg_get_userbyid(stxowner)) END),
	(3, CASE WHEN stxstattarget >= 0
		THEN format('ALTER STATISTICS %s SET STATISTICS %s', name, stxstattarget) END))
	s(place, statement)
WHERE s.statement IS NOT NULL ORDER BY name COLLATE "C", s.place;

-- MATERIALIZED, or the server reads the comments of all columns.
-- name: comment
WITH RECURSIVE
:anew,
:clones,
said AS MATERIALIZED (
	SELECT format('%s %s', kind, oid::regclass) AS what, obj_description(oid, 'pg_class') AS comment
	FROM views
	UNION ALL
	SELECT format('COLUMN %s.%I', attrelid::regclass, attname), col_description(attrelid, attnum)
	FROM anew
	UNION ALL
	SELECT format('RULE %I ON %s', rulename, ev_class::regclass), obj_description(oid, 'pg_rewrite')
	FROM rules
	UNION ALL
	SELECT format('TRIGGER %I ON %s', tgname, tgrelid::regclass), obj_description(oid, 'pg_trigger')
	FROM clones
	UNION ALL
	SELECT format('STATISTICS %s.%I', stxnamespace::regnamespace, stxname),
		obj_description(oid, 'pg_statistic_ext')
	FROM pg_statistic_ext WHERE stxrelid IN (SELECT oid FROM views)
	UNION ALL
	SELECT format('INDEX %s', oid::regclass), obj_description(oid, 'pg_class')
	FROM (SELECT indexrelid FROM indexes UNION SELECT indexrelid FROM parts WHERE is_named) x(oid)
	UNION ALL
	SELECT format('CONSTRAINT %I ON %s', relname, indrelid::regclass),
		obj_description(constraint_oid, 'pg_constraint')
	FROM parts WHERE is_named
)
SELECT format('COMMENT ON %s IS %L', what, comment), NULL::text, NULL::text
FROM said WHERE comment IS NOT NULL ORDER BY what COLLATE "C";

-- name: label
WITH RECURSIVE
:anew
SELECT format('SECURITY LABEL FOR %I ON %s IS %L', l.provider, s.what, l.label),
	NULL::text, NULL::text
FROM (SELECT oid AS relid, 0 AS number, format('%s %s', kind, oid::regclass) AS what FROM views
		UNION ALL
		SELECT attrelid, attnum, format('COLUMN %s.%I', attrelid::regclass, attname) FROM anew) s
	JOIN pg_seclabel l ON l.classoid = 'pg_class'::regclass AND l.objoid = s.relid AND l.objsubid = s.number
ORDER BY s.what COLLATE "C", l.provider;

-- name: join_publications
WITH RECURSIVE
:given
SELECT format('ALTER PUBLICATION %I ADD TABLE ONLY %s%s%s', pubname, prrelid::regclass,
		(SELECT format(' (%s)', string_agg(quote_ident(a.attname), ', ' ORDER BY x.place))
			FROM unnest(prattrs::int2[]) WITH ORDINALITY x(number, place)
				JOIN pg_attribute a ON a.attrelid = prrelid AND a.attnum = x.number HAVING count(*) > 0),
		' WHERE (' || pg_get_expr(prqual, prrelid) || ')'),
	'SHARE UPDATE EXCLUSIVE on ' || prrelid::regclass, NULL::text
FROM publications
ORDER BY pubname::text COLLATE "C", prrelid::regclass::text COLLATE "C";
