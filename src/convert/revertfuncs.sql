-- Queries of snowflake_revert().  $1 and $2 are the table and the number of its
-- column.

-- $3 is the function itself: the default must be of the same extension.
-- name: makes_ids
SELECT 'is' FROM pg_attrdef f
	JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
		AND d.refclassid = 'pg_proc'::regclass
	JOIN pg_proc p ON p.oid = d.refobjid
	JOIN pg_proc o ON o.oid = $3 AND o.pronamespace = p.pronamespace
WHERE f.adrelid = $1 AND f.adnum = $2
	AND p.proname IN ('snowflake_nextval', 'snowflake_shard_nextval');

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
