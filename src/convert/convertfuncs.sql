-- Queries of snowflake_convert().  $1 and $2 are the table and the number of its
-- column.

-- The GRANTs that roles lack for calling the function $3.
-- name: grants
SELECT string_agg(format('GRANT %s TO %s', x.what,
		CASE r.role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r.role)) END), '; '
	ORDER BY r.role, x.what DESC)
FROM pg_proc p, roles r, LATERAL (VALUES
	(has_schema_privilege(r.role, p.pronamespace, 'USAGE'),
		format('USAGE ON SCHEMA %s', p.pronamespace::regnamespace)),
	(has_function_privilege(r.role, p.oid, 'EXECUTE'),
		format('EXECUTE ON FUNCTION %s', p.oid::regprocedure))) x(may, what)
WHERE $2 > 0 AND p.oid = $3::regprocedure AND NOT x.may;

-- name: grants_for_owner
WITH roles(role) AS (SELECT relowner FROM pg_class WHERE oid = $1)
:grants

-- name: grants_for_inserters
WITH roles(role) AS (
	SELECT x.grantee FROM pg_class c, aclexplode(c.relacl) x
	WHERE c.oid = $1 AND x.privilege_type = 'INSERT'
	UNION
	SELECT x.grantee FROM pg_attribute a, aclexplode(a.attacl) x
	WHERE a.attrelid = $1 AND x.privilege_type = 'INSERT'
)
:grants

-- The table, its partitions and children.
-- name: tree
tree AS (
	SELECT $1 AS relid
	UNION
	SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.relid
)

-- Partitions share their parent's identity from 17 on; children never do.
-- name: drop_identities
WITH RECURSIVE
:tree
SELECT format('ALTER TABLE %s%s ALTER COLUMN %I DROP IDENTITY',
		CASE WHEN t.relid <> $1 THEN 'ONLY ' END, t.relid::regclass, a.attname),
	'ACCESS EXCLUSIVE on ' || t.relid::regclass,
	format('was GENERATED %s; the sequence %s is dropped; its last value was %s',
		CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, s.name,
		coalesce(pg_sequence_last_value(s.name::regclass)::text, 'none'))
FROM tree t JOIN pg_class c ON c.oid = t.relid JOIN pg_attribute a ON a.attrelid = t.relid
	JOIN pg_attribute r ON r.attrelid = $1 AND r.attnum = $2 AND r.attname = a.attname,
	pg_get_serial_sequence(t.relid::regclass::text, a.attname) s(name)
WHERE a.attidentity <> '' AND (t.relid = $1 OR NOT c.relispartition
	OR current_setting('server_version_num')::int < 170000)
ORDER BY t.relid <> $1, t.relid::regclass::text COLLATE "C";

-- The old defaults.
-- name: defaults
WITH RECURSIVE
:tree
SELECT 'was ' || string_agg(format('%s of %s', expression, relations), ', ' ORDER BY relations)
FROM (
	SELECT pg_get_expr(f.adbin, f.adrelid) AS expression,
		string_agg(t.relid::regclass::text, ' and '
			ORDER BY t.relid <> $1, t.relid::regclass::text COLLATE "C") AS relations
	FROM tree t JOIN pg_attribute a ON a.attrelid = t.relid
		JOIN pg_attribute r ON r.attrelid = $1 AND r.attnum = $2 AND r.attname = a.attname
		JOIN pg_attrdef f ON f.adrelid = t.relid AND f.adnum = a.attnum
	GROUP BY 1
) d;

-- Is there a default that is not $3?  If $3 is the first name of the function, its other
-- name is as good.
-- name: other_defaults
WITH RECURSIVE
:tree
SELECT 'is other' FROM tree t
	JOIN pg_attribute r ON r.attrelid = $1 AND r.attnum = $2
	JOIN pg_attribute a ON a.attrelid = t.relid AND a.attname = r.attname
	LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
WHERE (pg_get_expr(f.adbin, f.adrelid) IN ($3, replace($3, '.snowflake_nextval(', '.snowflake_generate('))) IS NOT TRUE LIMIT 1;

-- The column's sequences, by serial or OWNED BY.  A sequence that the column still
-- owned would be set to the largest ID after a restore, by
-- setval(pg_get_serial_sequence(...), max(id)).  The end of its comment says whose it
-- was.
-- name: keep_sequences
SELECT s.statement, s.locks, s.note
FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
	JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid,
	LATERAL (VALUES
		(1, format('ALTER SEQUENCE %s OWNED BY NONE', c.oid::regclass),
			'SHARE ROW EXCLUSIVE on ' || c.oid::regclass,
			'it stays for snowflake_revert(), also if the table is dropped'),
		(2, format('COMMENT ON SEQUENCE %s IS %L', c.oid::regclass, concat_ws(' ',
				obj_description(c.oid, 'pg_class'),
				format('[snowflake_revert() gives it back to %s.%I]', a.attrelid::regclass, a.attname))), 'SHARE UPDATE EXCLUSIVE on ' || c.oid::regclass, NULL))
	s(place, statement, locks, note)
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
	AND d.refobjid = $1 AND d.refobjsubid = $2 AND d.deptype = 'a'
ORDER BY c.oid, s.place;
