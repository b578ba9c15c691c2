-- Queries of snowflake_revert().  $1 and $2 are the table and the number of its
-- column.

-- The column's sequence, by serial or OWNED BY.  A maximum that is that of the
-- sequence's type counts as bigint's.
-- name: sequences
SELECT s.oid::regclass::text, q.seqtypid::regtype::text, q.seqincrement::text,
	CASE WHEN (seqtypid, seqmax) IN (('int2'::regtype, 32767), ('int4'::regtype, 2147483647))
		THEN 9223372036854775807 ELSE seqmax END::text,
	s.oid::text
FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
	JOIN pg_sequence q ON q.seqrelid = s.oid
WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
	AND d.refobjid = $1 AND d.refobjsubid = $2 AND d.deptype = 'a';
