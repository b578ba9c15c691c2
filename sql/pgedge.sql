-- ALTER EXTENSION snowflake UPDATE where what the database has is pgEdge's
-- extension of this name. The Makefile installs this once for each version of
-- that which was released: without a way from there, the server would say so and
-- no more. The same script takes an update of ours back which pgEdge's scripts
-- made, where they were left beside ours: those from 1.0 to 1.2 are empty.

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION snowflake UPDATE" to load this file. \quit

DO $$
BEGIN
	IF pg_catalog.to_regprocedure('snowflake_nextval()') IS NOT NULL THEN
		RETURN;
	END IF;
	RAISE EXCEPTION USING
		ERRCODE = 'object_not_in_prerequisite_state',
		MESSAGE = 'extension "snowflake" of this database is pgEdge''s, and the files that are installed are those of another extension of that name',
		DETAIL = 'In a database, the one extension cannot be changed into the other.',
		HINT = 'To keep pgEdge''s, install it again. To migrate, see "From pgEdge''s extension" in doc/migration.md.';
END
$$;
