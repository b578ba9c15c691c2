-- Which columns and views a conversion changes, and what forbids it.

-- Find columns down and up the inheritance, and from keys to the columns that
-- refer to them.  Each way uses an index, so that a table may have thousands of
-- partitions.
-- name: find_columns
WITH RECURSIVE found(relid, number) AS (
	SELECT $1, $2
	UNION
	SELECT n.relid, n.number
	FROM found f JOIN pg_attribute a ON a.attrelid = f.relid AND a.attnum = f.number,
		LATERAL (
			SELECT o.attrelid AS relid, o.attnum AS number
			FROM (
				SELECT inhrelid AS relid FROM pg_inherits WHERE inhparent = f.relid
				UNION ALL SELECT inhparent FROM pg_inherits WHERE inhrelid = f.relid) i
				CROSS JOIN LATERAL (SELECT attrelid, attnum FROM pg_attribute
					WHERE attrelid = i.relid AND attname = a.attname AND NOT attisdropped OFFSET 0) o
			UNION ALL
			SELECT c.conrelid, k.referring
			FROM pg_depend d JOIN pg_constraint c ON c.oid = d.objid,
				unnest(c.conkey, c.confkey) k(referring, referred)
			WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = f.relid
				AND d.refobjsubid = f.number AND d.classid = 'pg_constraint'::regclass
				AND c.contype = 'f' AND c.confrelid = f.relid AND k.referred = f.number) n
)
SELECT array_agg(relid ORDER BY place), array_agg(number ORDER BY place)
FROM (SELECT *, row_number() OVER (ORDER BY relid <> $1,
		relid::regclass::text COLLATE "C", number) AS place FROM found) f;

-- A view comes after the longest way to it; a view of itself is skipped.
-- name: find_views
WITH RECURSIVE
:columns,
found(relid, depth) AS (
	SELECT r.ev_class, 1
	FROM changed c JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass
			AND d.refobjid = c.relid AND d.refobjsubid = c.attnum
			AND d.classid = 'pg_rewrite'::regclass
		JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1'
	UNION
	SELECT r.ev_class, f.depth + 1
	FROM found f JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass
			AND d.refobjid = f.relid AND d.classid = 'pg_rewrite'::regclass
		JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1'
	WHERE r.ev_class <> f.relid AND f.depth < 1000
)
SELECT coalesce(array_agg(relid ORDER BY depth, relid::regclass::text COLLATE "C"), '{}')
FROM (SELECT relid, max(depth) AS depth FROM found GROUP BY relid) f;

-- name: any_altered
WITH RECURSIVE
:columns
SELECT 'it is' FROM altered LIMIT 1;

-- Each of the next queries returns the DETAIL of an error, or NULL.

-- name: other_types
WITH RECURSIVE
:columns
SELECT string_agg(why, chr(10) ORDER BY why COLLATE "C"),
	CASE WHEN bool_and(is_own)
		THEN string_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE %s;', relid, attname, $3::regtype), ' ' ORDER BY why COLLATE "C") END
FROM (
	SELECT format('Column %I of %s is of type %s.', s.attname, s.attrelid::regclass,
		format_type(s.atttypid, s.atttypmod)) AS why, s.attrelid::regclass AS relid, s.attname,
		s.relowner = (SELECT relowner FROM shared WHERE place = 1) AS is_own
	FROM shared s JOIN pg_type t ON t.oid = s.atttypid
	WHERE s.atttypid NOT IN ('int2'::regtype, 'int4'::regtype, $3, $4)
		AND NOT (t.typtype = 'd' AND t.typbasetype = $3)
) o;

-- name: not_in_place
WITH RECURSIVE
:given
SELECT string_agg(why, chr(10) ORDER BY why COLLATE "C") FROM (
	SELECT format('Column %I is part of the partition key of %s.', attname, relid::regclass) AS why
	FROM altered a WHERE EXISTS (SELECT FROM pg_depend d
		WHERE d.classid = 'pg_class'::regclass AND d.objid = a.relid AND d.objsubid = a.attnum
			AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.relid
			AND d.refobjsubid = 0 AND d.deptype = 'i')
	UNION
	SELECT format('Column %I of %s is inherited from more than one table.', attname, relid::regclass)
	FROM altered WHERE attinhcount > 1
	UNION
	SELECT format('Table %s has the type %s.', attrelid::regclass, reloftype::regtype)
	FROM shared JOIN altered ON relid = attrelid WHERE reloftype <> 0
	UNION
	SELECT format('Column %I is in the foreign table %s.', s.attname, attrelid::regclass)
	FROM shared s JOIN altered ON relid = attrelid WHERE relkind = 'f'
	UNION
	SELECT format('Column %I of %s is generated.', a.attname, relid::regclass)
	FROM shared JOIN altered a ON relid = attrelid AND a.attnum = shared.attnum
	WHERE attgenerated <> ''
	UNION
	SELECT format('Generated column %I of %s has a definition of its own beside the inherited one.',
		m.attname, m.relid::regclass)
	FROM made m JOIN pg_attribute a ON a.attrelid = m.relid AND a.attnum = m.attnum
		JOIN pg_attrdef f ON f.adrelid = m.relid AND f.adnum = m.attnum
	WHERE m.attinhcount > 0 AND (a.attislocal OR m.attinhcount > 1 OR NOT EXISTS (
		SELECT FROM made r JOIN pg_attrdef e ON e.adrelid = r.relid AND e.adnum = r.attnum
		WHERE r.attinhcount = 0 AND r.attname = m.attname
			AND pg_get_expr(e.adbin, e.adrelid) = pg_get_expr(f.adbin, f.adrelid)))
	UNION
	SELECT format('%s has the row type of %s.',
		pg_describe_object(d.classid, d.objid, d.objsubid), s.attrelid::regclass)
	FROM shared s JOIN altered ON relid = attrelid
		JOIN pg_type t ON t.oid = s.reltype
		JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass
			AND d.refobjid IN (t.oid, t.typarray) AND d.classid = 'pg_class'::regclass
			AND d.objsubid > 0
		JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
	UNION
	SELECT format('Publication %I filters the rows of %s by column %I: the server takes only a type of its own there.',
		pubname, prrelid::regclass, attname)
	FROM publications JOIN altered a ON a.relid = prrelid
	WHERE $3 <> 'int8'::regtype AND prqual::text ~ format(':varattno %s ', a.attnum)
	UNION
	SELECT format('%s compares column %I of %s: the access method %I has no operator class for %s.',
		pg_describe_object('pg_constraint'::regclass, c.oid, 0), a.attname, a.relid::regclass, m.amname, $3::regtype)
	FROM altered a JOIN pg_constraint c ON c.conrelid = a.relid AND a.attnum = ANY (c.conkey)
		JOIN pg_class i ON i.oid = c.conindid JOIN pg_am m ON m.oid = i.relam
	WHERE c.contype = 'x' AND NOT EXISTS (SELECT FROM pg_opclass o
		WHERE o.opcmethod = m.oid AND o.opcintype = $3 AND o.opcdefault)
	UNION
	SELECT format('%s belongs to another session.', pg_describe_object('pg_class'::regclass, oid, 0))
	FROM views WHERE pg_is_other_temp_schema(relnamespace)
	UNION
	SELECT format('%s refers to the key of a partition, %s.',
		pg_describe_object('pg_constraint'::regclass, f.oid, 0), f.confrelid::regclass)
	FROM parts p JOIN pg_constraint f ON f.conindid = p.indexrelid
	WHERE f.contype = 'f' AND f.conparentid = 0
	UNION
	SELECT format('%s computes with column %I of %s by a cast.',
		pg_describe_object(class, object, 0), a.attname, a.relid::regclass)
	FROM altered a JOIN (
		SELECT 'pg_class'::regclass AS class, indexrelid AS object, indrelid AS relid,
			concat(indexprs, indpred) AS tree FROM pg_index
		UNION ALL
		SELECT 'pg_constraint'::regclass, oid, conrelid, conbin::text FROM pg_constraint
		UNION ALL
		SELECT 'pg_attrdef'::regclass, oid, adrelid, adbin::text FROM pg_attrdef
		UNION ALL
		SELECT 'pg_policy'::regclass, oid, polrelid, concat(polqual, polwithcheck) FROM pg_policy
		UNION ALL
		SELECT 'pg_trigger'::regclass, oid, tgrelid, tgqual::text FROM pg_trigger) x USING (relid)
	WHERE tree ~ format(':funcid (%s|%s) [^{}]*:args \({VAR :varno \d+ :varattno %s ',
		'int4(int2)'::regprocedure::oid, 'int2(int4)'::regprocedure::oid, a.attnum)
	UNION
	SELECT format('%s calls %s, whose body has to be made again.',
		pg_describe_object(d.classid, d.objid, d.objsubid), f.oid::regprocedure)
	FROM functions f JOIN pg_depend d
		ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = f.oid
	WHERE d.classid = 'pg_constraint'::regclass
		OR d.classid = 'pg_class'::regclass AND d.objid IN (SELECT indexrelid FROM pg_index)
		OR d.classid = 'pg_attrdef'::regclass AND d.objid IN (SELECT f.oid FROM pg_attrdef f
			JOIN pg_attribute ON attrelid = f.adrelid AND attnum = f.adnum WHERE attgenerated <> '')
) o;

-- name: depends
SELECT format('%s depends on %s.', pg_describe_object(d.classid, d.objid, d.objsubid),
	pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)) AS why
FROM pg_depend d WHERE

-- name: has_new_body
(d.classid = 'pg_proc'::regclass AND EXISTS (SELECT FROM functions p WHERE p.oid = d.objid))

-- name: dependent_objects
WITH RECURSIVE
:given
SELECT string_agg(why, chr(10) ORDER BY why COLLATE "C") FROM (
	:depends
		d.refclassid = 'pg_class'::regclass AND d.refobjid IN (SELECT oid FROM views)
		AND NOT (d.classid IN ('pg_rewrite'::regclass, 'pg_attrdef'::regclass,
				'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_statistic_ext'::regclass,
				'pg_type'::regclass)
			OR
			:has_new_body
			OR (d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND EXISTS (SELECT FROM
				pg_class i WHERE i.oid = d.objid AND i.relkind IN ('i', 't'))))
	UNION
	:depends
		d.refclassid = 'pg_type'::regclass
		AND d.refobjid IN (SELECT t.oid FROM views v JOIN pg_type t ON v.reltype IN (t.oid, t.typelem))
		AND d.classid <> 'pg_rewrite'::regclass
		AND NOT (d.classid = 'pg_type'::regclass AND d.deptype = 'i')
	UNION
	:depends
		d.classid = 'pg_class'::regclass AND d.objid IN (SELECT oid FROM views)
		AND d.deptype = 'e'
	UNION
	:depends
		d.refclassid = 'pg_class'::regclass
		AND (d.refobjid, d.refobjsubid) IN (SELECT relid, attnum FROM made)
		AND NOT (d.classid IN ('pg_rewrite'::regclass, 'pg_attrdef'::regclass,
				'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_publication_rel'::regclass)
			OR
			:has_new_body
			OR (d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND EXISTS (SELECT FROM
				pg_class i WHERE i.oid = d.objid AND i.relkind IN ('i', 'I')))
			OR d.classid = 'pg_constraint'::regclass AND EXISTS (SELECT FROM pg_constraint c
				WHERE c.oid = d.objid AND c.contype = 'n'))
) o;
