-- Queries of snowflake_empty_default().  $1 and $2 are the partitioned table and the
-- number of its key; the first three begin as those of a conversion, and so $1 is an
-- array there.

-- The foreign keys that refer to the table, to its default partition, to one below that,
-- or to a table of which this one is a partition.  The server detaches no partition with
-- rows to which one refers.
-- name: keys_to_rest
rest AS (
	SELECT partdefid AS relid FROM parent JOIN pg_partitioned_table ON partrelid = relid
	UNION
	SELECT i.inhrelid FROM rest r JOIN pg_inherits i ON i.inhparent = r.relid
),
above AS (
	SELECT relid FROM parent
	UNION
	SELECT i.inhparent FROM above a JOIN pg_inherits i ON i.inhrelid = a.relid
),
keys AS (
	SELECT k.oid, k.conname, k.conrelid AS relid FROM pg_constraint k
	WHERE k.contype = 'f' AND k.conparentid = 0
		AND k.confrelid IN (SELECT relid FROM above UNION SELECT relid FROM rest)
)

-- name: move_lock
WITH RECURSIVE parent AS (SELECT $1[1] AS relid),
:keys_to_rest
SELECT 'LOCK TABLE ' || string_agg(relid::regclass::text, ', ' ORDER BY relid <> $1[1], relid::regclass::text COLLATE "C")
	|| ' IN ACCESS EXCLUSIVE MODE',
	'ACCESS EXCLUSIVE', 'nobody reads or writes these tables before the end of the transaction'
FROM (SELECT relid FROM parent UNION SELECT relid FROM keys) t;

-- The tables whose owners' code the statements run.
-- name: moving
WITH RECURSIVE parent AS (SELECT $1[1] AS relid),
:keys_to_rest,
moving AS (
	SELECT relid FROM (SELECT relid FROM above UNION SELECT relid FROM keys) k
	UNION
	SELECT i.inhrelid FROM moving m JOIN pg_inherits i ON i.inhparent = m.relid
)

-- name: move_other_owners
:moving
SELECT string_agg(DISTINCT quote_ident(pg_get_userbyid(relowner)), ', ')
FROM moving JOIN pg_class c ON c.oid = relid
WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user);

-- name: move_not_one_owner
:moving
SELECT string_agg(DISTINCT format('%s belongs to %s.', pg_describe_object('pg_class'::regclass, c.oid, 0),
	pg_get_userbyid(relowner)), chr(10))
FROM moving JOIN pg_class c ON c.oid = relid
WHERE relowner <> (SELECT relowner FROM pg_class WHERE oid = $1[1]);

-- name: default_partition
SELECT partdefid::regclass FROM pg_partitioned_table
WHERE partrelid = $1 AND partnatts = 1 AND partattrs[0] = $2 AND partdefid <> 0;

-- Foreign keys of tables with other owners: what drops them, and what makes them again.
-- name: foreign_keys_of_others
WITH RECURSIVE parent AS (SELECT $1 AS relid, $2),
:keys_to_rest
SELECT string_agg(format('ALTER TABLE %s DROP CONSTRAINT %I;', relid::regclass, conname), ' ' ORDER BY k.oid),
	string_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s;', relid::regclass, conname, pg_get_constraintdef(k.oid)), ' ' ORDER BY k.oid)
FROM keys k JOIN pg_class c ON c.oid = k.relid
WHERE c.relowner <> (SELECT relowner FROM pg_class WHERE oid = $1);

-- name: move_begin
WITH RECURSIVE parent AS (SELECT $1 AS relid, $2),
:keys_to_rest,
steps AS (
	SELECT oid, format('ALTER TABLE %s DROP CONSTRAINT %I', relid::regclass, conname) AS statement FROM keys
	UNION ALL
	SELECT NULL, format('ALTER TABLE %s DETACH PARTITION %s', partrelid::regclass, partdefid::regclass)
	FROM pg_partitioned_table WHERE partrelid = $1
)
SELECT statement, NULL::text, NULL::text FROM steps ORDER BY oid NULLS LAST;

-- name: move_end
WITH RECURSIVE parent AS (SELECT $1 AS relid, $2),
:keys_to_rest,
steps AS (
	SELECT NULL::oid AS oid, format('ALTER TABLE %s ATTACH PARTITION %s DEFAULT', partrelid::regclass, partdefid::regclass) AS statement
	FROM pg_partitioned_table WHERE partrelid = $1
	UNION ALL
	SELECT oid, format('ALTER TABLE %s ADD CONSTRAINT %I %s', relid::regclass, conname, pg_get_constraintdef(oid)) FROM keys
)
SELECT statement, NULL::text, NULL::text FROM steps ORDER BY oid NULLS FIRST;

-- The statement that moves the rows; $3 is the schema of the extension.
-- name: move_rows
SELECT format('WITH moved AS (DELETE FROM %1$s r USING %2$s.snowflake_partitions(%3$L::regclass, NULL) p '
	'WHERE r.%4$I OPERATOR(pg_catalog.>=) p.from_id AND (p.until_id IS NULL OR r.%4$I OPERATOR(pg_catalog.<) p.until_id) '
	'RETURNING r.*) INSERT INTO %3$s (%5$s) OVERRIDING SYSTEM VALUE SELECT %5$s FROM moved',
	t.partdefid::regclass, $3, t.partrelid::regclass, k.attname,
	(SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''))
FROM pg_partitioned_table t JOIN pg_attribute k ON k.attrelid = t.partrelid AND k.attnum = $2
WHERE t.partrelid = $1;
