-- Find the schema with the functions that requests call.
-- name: schema
SELECT (SELECT pg_catalog.quote_ident(n.nspname)
	FROM pg_catalog.pg_extension e
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
	WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry');
