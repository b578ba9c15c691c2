-- Find the schema with the functions that requests call.
-- name: schema
SELECT (SELECT 'snowflake_servers'
	FROM pg_catalog.pg_extension e
	WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_registry');
