-- Queries of snowflake_revert().  $1 and $2 are the table and the number of its
-- column.

-- The sequence that the column owns, or else the one that a conversion has kept for
-- it, with the comment to put back.  The names in the comment are compared as names: a
-- setting, or another major, may quote them or not.  The column could own only one of its
-- schema and its owner.  A maximum that is that of the sequence's type counts as bigint's.
-- name: sequences
WITH candidates AS (
	SELECT s.oid, d.refobjid IS NOT NULL AS is_owned, k.said[1] AS before,
		parse_ident(k.said[2]) = ARRAY[n.nspname, t.relname, a.attname]::text[] AS is_kept
	FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid JOIN pg_namespace n ON n.oid = t.relnamespace
		JOIN pg_class s ON s.relkind = 'S' AND s.relnamespace = t.relnamespace AND s.relowner = t.relowner
		LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid
			AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'),
		LATERAL (SELECT regexp_match(obj_description(s.oid, 'pg_class'),
			'^(.*?) ?\[snowflake_revert\(\) gives it back to ((?:(?:"(?:[^"]|"")+"|[a-z_][a-z0-9_]*)(?:\.(?!\])|(?=\]$))){3})\]$') AS said) k
	WHERE a.attrelid = $1 AND a.attnum = $2
		AND (d.refobjid IS NULL OR d.refobjid = a.attrelid AND d.refobjsubid = a.attnum)
), found AS (
	SELECT * FROM candidates WHERE is_owned OR is_kept
)
SELECT oid::regclass::text, q.seqtypid::regtype::text, q.seqincrement::text,
	CASE WHEN (seqtypid, seqmax) IN (('int2'::regtype, 32767), ('int4'::regtype, 2147483647))
		THEN 9223372036854775807 ELSE seqmax END::text,
	oid::text,
	CASE WHEN NOT is_owned THEN quote_nullable(nullif(before, '')) END
FROM found JOIN pg_sequence q ON q.seqrelid = oid
WHERE is_owned OR NOT EXISTS (SELECT FROM found WHERE is_owned);
