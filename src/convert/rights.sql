-- Who owns what changes with a column, and which rights the conversion needs.
-- Each query returns texts for a message, or NULL.

-- Objects that are changed or made anew, with owner; other roles needed.
-- name: owned
:given,
owned AS (
	SELECT 'pg_class'::regclass AS class, s.attrelid AS object, s.relowner AS owner, s.place
	FROM shared s WHERE s.place = 1 OR s.attrelid IN (SELECT relid FROM altered)
	UNION ALL SELECT 'pg_class'::regclass, oid, relowner, NULL FROM views
	UNION ALL SELECT 'pg_class'::regclass, oid, relowner, NULL FROM pg_class WHERE oid IN (
		SELECT ev_class FROM rules UNION SELECT tgrelid FROM triggers
		UNION SELECT polrelid FROM policies UNION SELECT prrelid FROM publications)
	UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, NULL FROM functions
	UNION ALL SELECT 'pg_publication'::regclass, prpubid, pubowner, NULL FROM publications
),
statistics AS (
	SELECT s.*, t.owner FROM pg_statistic_ext s JOIN owned t ON t.place = 1
	WHERE stxrelid IN (SELECT oid FROM views) OR stxrelid IN (SELECT relid FROM altered)
		AND (stxstattarget >= 0 OR current_setting('server_version_num')::int < 180000)
),
others(role, what) AS (
	SELECT stxowner, 'statistics' FROM statistics
	UNION SELECT relowner, 'views' FROM views WHERE pg_has_role(relowner, 'USAGE')
	UNION SELECT x.grantor, 'grants' FROM views v, aclexplode(v.relacl) x
		WHERE x.grantor <> v.relowner
	UNION SELECT x.grantor, 'grants'
		FROM views v JOIN pg_type t ON t.oid = v.reltype, aclexplode(t.typacl) x
		WHERE x.grantor <> v.relowner
	UNION SELECT x.grantor, 'grants'
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) x
		WHERE x.grantor <> c.relowner AND (a.attrelid IN (SELECT oid FROM views)
			OR (a.attrelid, a.attnum) IN (SELECT relid, attnum FROM made))
)

-- The right in another role that SET ROLE, or a change of owner, needs.
-- name: become
CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END

-- name: not_owned
WITH RECURSIVE
:owned
SELECT string_agg(why, chr(10) ORDER BY why COLLATE "C") FROM (
	SELECT DISTINCT pg_describe_object(class, object, 0) AS why FROM owned
	WHERE NOT pg_has_role(owner, 'USAGE')
	UNION SELECT format('%s of %s', what, pg_get_userbyid(role))
	FROM others WHERE NOT pg_has_role(role,
		:become
	)
) o;

-- What is named in definitions that are read anew.
-- name: read_anew
:owned,
named AS (
	SELECT DISTINCT d.refclassid, d.refobjid, d.refobjsubid,
		coalesce(v.relkind = 'm' AND v.relispopulated, d.classid NOT IN ('pg_rewrite'::regclass,
			'pg_policy'::regclass, 'pg_proc'::regclass, 'pg_publication_rel'::regclass)) AS runs
	FROM pg_depend d LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
		LEFT JOIN views v ON v.oid = r.ev_class
	WHERE (d.classid, d.objid) IN (SELECT classid, objid FROM dependent
		UNION SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite w JOIN views ON views.oid = w.ev_class)
		AND d.refobjid >= 16384
)

-- What the owner may not do.
-- name: owner_may_not
WITH RECURSIVE
:read_anew
SELECT string_agg(why, chr(10) ORDER BY why COLLATE "C")
FROM (
	SELECT DISTINCT format('%s cannot create in schema %s.', pg_get_userbyid(o.owner), n.nspname) AS why
	FROM (SELECT relnamespace AS namespace FROM views
			UNION SELECT pronamespace FROM functions
			UNION SELECT relnamespace FROM indexes JOIN pg_class ON oid = indexrelid) x
		JOIN pg_namespace n ON n.oid = x.namespace JOIN owned o ON o.place = 1
	WHERE NOT has_schema_privilege(o.owner, n.oid, 'CREATE')
	UNION
	SELECT format('%s cannot use schema %s.', pg_get_userbyid(o.owner), n.nspname)
	FROM (SELECT (pg_identify_object(refclassid, refobjid, 0)).schema FROM named
			UNION SELECT c.relnamespace::regnamespace::text FROM owned JOIN pg_class c
				ON class = 'pg_class'::regclass AND c.oid = object) x
		JOIN pg_namespace n ON quote_ident(n.nspname) = x.schema JOIN owned o ON o.place = 1
	WHERE NOT has_schema_privilege(o.owner, n.oid, 'USAGE')
	UNION
	SELECT format('%s cannot execute function %s.', pg_get_userbyid(o.owner), refobjid::regprocedure)
	FROM named JOIN owned o ON o.place = 1
	WHERE runs AND refclassid = 'pg_proc'::regclass
		AND NOT has_function_privilege(o.owner, refobjid, 'EXECUTE')
	UNION
	SELECT format('%s cannot use type %s.', pg_get_userbyid(o.owner), $3::regtype)
	FROM altered JOIN owned o ON o.place = 1 WHERE NOT has_type_privilege(o.owner, $3, 'USAGE')
) o;

-- The objects whose owners' code the script runs: those above, and the tables on both
-- sides of foreign keys with altered columns, with their partitions.  The server validates
-- such a key anew by a query, and planning it runs functions of indexes and constraints.
-- So does the query that fills a materialized view, with all tables and views that it
-- reads, through views, policies and functions, but for a body that is a text.  The key of
-- a table above a partition is code, too.  What a superuser owns there gives him no right that
-- he lacks.
-- name: run
:owned,
:foreign_keys,
joined(relid) AS (
	SELECT x.relid FROM foreign_keys f, unnest(ARRAY[f.conrelid, f.confrelid]) x(relid)
	UNION
	SELECT i.inhrelid FROM joined j JOIN pg_inherits i ON i.inhparent = j.relid
),
read(class, object) AS (
	SELECT 'pg_class'::regclass::oid, oid FROM views WHERE relkind = 'm' AND relispopulated
	UNION
	SELECT x.class, x.object FROM read r, LATERAL (
		SELECT refclassid, refobjid FROM pg_depend
		WHERE r.class <> 'pg_class'::regclass AND classid = r.class AND objid = r.object
			AND refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass) AND refobjid >= 16384
		UNION ALL
		SELECT 'pg_rewrite'::regclass, w.oid FROM pg_rewrite w JOIN pg_class c ON c.oid = ev_class
		WHERE r.class = 'pg_class'::regclass AND ev_class = r.object
			AND (c.relkind = 'v' OR c.oid IN (SELECT oid FROM views))
		UNION ALL
		SELECT 'pg_policy'::regclass, oid FROM pg_policy
		WHERE r.class = 'pg_class'::regclass AND polrelid = r.object
		UNION ALL
		SELECT 'pg_class'::regclass, inhrelid FROM pg_inherits
		WHERE r.class = 'pg_class'::regclass AND inhparent = r.object) x(class, object)
),
tables_read AS (
	SELECT object FROM read WHERE class = 'pg_class'::regclass
),
run AS (
	SELECT class, object, owner FROM owned
	UNION
	SELECT 'pg_class'::regclass, oid, relowner FROM joined JOIN pg_class ON oid = relid
	UNION
	SELECT 'pg_class'::regclass, c.oid, relowner
	FROM (SELECT object FROM tables_read
			UNION
			SELECT above FROM (SELECT relid FROM joined UNION SELECT object FROM tables_read) x(relid),
				pg_partition_ancestors(relid) a(above)) x(relid)
		JOIN pg_class c ON c.oid = relid JOIN pg_roles o ON o.oid = relowner
	WHERE relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT rolsuper
)

-- name: other_owners
WITH RECURSIVE
:run
SELECT string_agg(DISTINCT quote_ident(pg_get_userbyid(owner)), ', ') FROM run
WHERE owner <> (SELECT oid FROM pg_roles WHERE rolname = current_user);

-- Why the script cannot run as the table's owner.  That owner must be able to give
-- statistics back to their owners.
-- name: not_one_owner
WITH RECURSIVE
:run
SELECT string_agg(DISTINCT format('%s belongs to %s.', pg_describe_object(class, object, 0),
	pg_get_userbyid(owner)), chr(10))
FROM (
	SELECT class, object, owner FROM run
	WHERE owner <> (SELECT owner FROM owned WHERE place = 1)
	UNION
	SELECT 'pg_statistic_ext'::regclass, s.oid, stxowner
	FROM statistics s JOIN pg_roles r ON r.oid = s.owner
	WHERE NOT rolsuper AND stxowner <> s.owner
		AND NOT (pg_has_role(s.owner, stxowner, 'USAGE') AND pg_has_role(s.owner, stxowner,
				:become
			)
			AND has_schema_privilege(stxowner, stxnamespace, 'CREATE'))
) x;

-- Who could make a definition that is read anew mean something else, and the commands
-- against it.  The server looks for functions, operators and casts by the types of their
-- arguments, and would find another one, which fits the new type better; or a type with the
-- function's name, to which it casts the argument.  A role that may
-- become the table's owner gains nothing.  The commands are only for a table of a superuser:
-- another owner could choose what a superuser takes from others, and to whom it goes.  There
-- is none for a type that comes with code: of a table, a view, a domain or a range.
-- name: overloads
WITH RECURSIVE
:read_anew,
enemies(role, name, owner) AS (
	SELECT r.role, r.name, quote_ident(pg_get_userbyid(o.owner))
	FROM (SELECT oid, quote_ident(rolname) FROM pg_roles UNION ALL SELECT 0, 'PUBLIC') r(role, name),
		owned o, pg_database d
	WHERE o.place = 1 AND d.datname = current_database() AND NOT pg_has_role(
		CASE r.role WHEN 'pg_database_owner'::regrole THEN datdba ELSE r.role END, o.owner,
		:become
	)
),
callable AS NOT MATERIALIZED (
	SELECT 'pg_proc'::regclass AS class, oid, proname AS name, pronamespace AS namespace,
		proowner AS role, pronargs AS arguments, oid::regproc::text AS call,
		'ROUTINE ' || oid::regprocedure AS object
	FROM pg_proc
	UNION ALL
	SELECT 'pg_operator'::regclass, oid, oprname, oprnamespace, oprowner, 2, oid::regoper::text,
		'OPERATOR ' || oid::regoperator
	FROM pg_operator
),
called AS (
	SELECT c.* FROM callable c JOIN named ON refclassid = class AND refobjid = oid
	WHERE arguments > 0
),
types(oid) AS (
	SELECT t.oid FROM named
		LEFT JOIN pg_proc p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
		LEFT JOIN pg_operator o ON refclassid = 'pg_operator'::regclass AND o.oid = refobjid
		LEFT JOIN pg_attribute a ON refclassid = 'pg_class'::regclass AND attrelid = refobjid
			AND attnum = refobjsubid
		JOIN pg_type t ON t.oid = coalesce(prorettype, oprresult, atttypid,
			CASE refclassid WHEN 'pg_type'::regclass THEN refobjid END)
	WHERE t.oid >= 16384
	UNION
	SELECT x.oid FROM types JOIN pg_type t USING (oid), unnest(ARRAY[typbasetype, typelem]) x(oid)
	WHERE x.oid >= 16384
)
SELECT string_agg(DISTINCT why, chr(10)), string_agg(DISTINCT command, ' ') FILTER (WHERE EXISTS (
		SELECT FROM owned o JOIN pg_roles r ON r.oid = o.owner WHERE place = 1 AND rolsuper)) FROM (
	SELECT format('Schema %s lets %s create functions that would be called in place of %s.',
			nspname, e.name, call) AS why,
		CASE WHEN is_owner THEN format('ALTER SCHEMA %I OWNER TO %s;', nspname, owner)
			ELSE format('REVOKE CREATE ON SCHEMA %I FROM %s%s;', nspname, e.name,
				CASE WHEN is_grantable THEN ' CASCADE' END) END AS command
	FROM called JOIN pg_namespace n ON n.oid = namespace, LATERAL (
			SELECT nspowner AS role, true AS is_owner, true AS is_grantable
			UNION ALL
			SELECT grantee, false, is_grantable FROM aclexplode(nspacl)
			WHERE privilege_type = 'CREATE' AND grantee <> nspowner) r
		JOIN enemies e USING (role)
	UNION ALL
	SELECT format('%s of %s could be called in place of %s.',
		pg_describe_object(class, o.oid, 0), e.name, c.call), format('DROP %s;', o.object)
	FROM called c JOIN callable o USING (class, namespace, name) JOIN enemies e ON e.role = o.role
	WHERE o.oid NOT IN (SELECT oid FROM called)
	UNION ALL
	SELECT format('Type %s of %s could be taken for %s.', t.oid::regtype, e.name, call),
		CASE WHEN typcategory <> 'A' THEN
			format('DROP %s %s;', CASE typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, t.oid::regtype) END
	FROM called JOIN pg_type t ON typname = name AND typnamespace = namespace JOIN enemies e ON e.role = typowner
	WHERE class = 'pg_proc'::regclass
	UNION ALL
	SELECT format('Type %s lets %s create casts that would be called.', t.oid::regtype, e.name),
		CASE WHEN typtype = 'e' OR relkind = 'c' THEN format('ALTER TYPE %s OWNER TO %s;', t.oid::regtype, owner) END
	FROM types JOIN pg_type t USING (oid) JOIN enemies e ON e.role = typowner
		LEFT JOIN pg_class k ON k.oid = typrelid
	WHERE typcategory <> 'A'
	UNION ALL
	SELECT format('Function %s of %s could be called for a cast.', p.oid::regprocedure, e.name),
		format('DROP CAST (%s AS %s);', castsource::regtype, casttarget::regtype)
	FROM pg_cast JOIN pg_proc p ON p.oid = castfunc JOIN enemies e ON e.role = proowner
	WHERE (castsource IN (SELECT oid FROM types) OR casttarget IN (SELECT oid FROM types))
		AND castfunc NOT IN (SELECT oid FROM called)
) x;

-- All that the statements name, but for what is named with its table: what changes or is
-- made anew, and what these definitions, columns and defaults depend on.
-- name: named
WITH RECURSIVE
:owned,
told(class, object) AS (
	SELECT class, object FROM owned
	UNION SELECT 'pg_class'::regclass, attrelid FROM shared
	UNION SELECT classid, objid FROM dependent
	UNION SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN views ON views.oid = r.ev_class
	UNION SELECT d.classid, d.objid FROM shared s JOIN pg_depend d
		ON d.refclassid = 'pg_class'::regclass AND d.refobjid = s.attrelid AND d.refobjsubid = s.attnum
			AND d.classid IN ('pg_class'::regclass, 'pg_attrdef'::regclass)
)
SELECT class::oid, object FROM (
	SELECT class, object FROM told
	UNION SELECT 'pg_type'::regclass, $3
	UNION SELECT refclassid, refobjid FROM pg_depend WHERE (classid, objid) IN (SELECT class, object FROM told)) x
WHERE object >= 16384 OR class = 'pg_namespace'::regclass
ORDER BY class::oid, object;
