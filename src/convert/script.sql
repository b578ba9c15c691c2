-- Queries for a script's beginning and end.  $1 and $2 are the table and the number
-- of its column.

-- The commands that take foreign tables out of the inheritance.  A renumbering runs this
-- with the session's path, too.
-- name: foreign_tables
WITH RECURSIVE tree AS (
	SELECT $1 AS relid, NULL::pg_catalog.oid AS parent
	UNION
	SELECT i.inhrelid, i.inhparent
	FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) t.relid
)
SELECT pg_catalog.string_agg(pg_catalog.format(CASE WHEN relispartition THEN 'ALTER TABLE %1$s DETACH PARTITION %2$s'
		ELSE 'ALTER FOREIGN TABLE %2$s NO INHERIT %1$s' END,
		parent::pg_catalog.regclass, relid::pg_catalog.regclass), '; '
	ORDER BY relid::pg_catalog.regclass::pg_catalog.text COLLATE pg_catalog."C")
FROM tree JOIN pg_catalog.pg_class c
	ON c.oid OPERATOR(pg_catalog.=) relid AND relkind OPERATOR(pg_catalog.=) 'f'
WHERE $2 OPERATOR(pg_catalog.>) 0;

-- name: event_triggers
SELECT 'event triggers see this path, too: ' || string_agg(quote_ident(evtname), ', ' ORDER BY evtname)
FROM pg_event_trigger WHERE evtenabled <> 'D' AND ($1, $2) IS NOT NULL;

-- Tables that the column refers to.
-- name: referred_tables
SELECT string_agg(DISTINCT confrelid::regclass::text, ', ')
FROM pg_constraint WHERE contype = 'f' AND conrelid = $1 AND $2 = ANY (conkey);
