-- Queries of snowflake_revert().  $1 and $2 are the table and the number of its
-- column.

-- The sequence that the column owns, or else the one that a conversion has kept for
-- it, with the comment to put back.  The column could own only one of its schema and
-- its owner.  A maximum that is that of the sequence's type counts as bigint's.
-- name: sequences
WITH candidates AS (
	SELECT s.oid, d.refobjid IS NOT NULL AS is_owned, obj_description(s.oid, 'pg_class') AS comment,
			:sequence_of_column
		AS mark
	FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid
		JOIN pg_class s ON s.relkind = 'S' AND s.relnamespace = t.relnamespace AND s.relowner = t.relowner
		LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid
			AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
	WHERE a.attrelid = $1 AND a.attnum = $2
		AND (d.refobjid IS NULL OR d.refobjid = a.attrelid AND d.refobjsubid = a.attnum)
), found AS (
	SELECT * FROM candidates WHERE is_owned OR right(comment, length(mark)) = mark
)
SELECT oid::regclass::text, q.seqtypid::regtype::text, q.seqincrement::text,
	CASE WHEN (seqtypid, seqmax) IN (('int2'::regtype, 32767), ('int4'::regtype, 2147483647))
		THEN 9223372036854775807 ELSE seqmax END::text,
	oid::text,
	CASE WHEN NOT is_owned THEN quote_nullable(nullif(left(comment, -1 - length(mark)), '')) END
FROM found JOIN pg_sequence q ON q.seqrelid = oid
WHERE is_owned OR NOT EXISTS (SELECT FROM found WHERE is_owned);
