-- Create the extension beside portable functions that are closed, and let it begin above
-- their IDs. The server has the library preloaded, with their node id and layouts. As a
-- superuser, with the number that snowflake_close() has returned:
--
--	psql -XAtq -v last=1795700000123 -f sql/portable-library.sql
--
-- This prints a number for portable-to-extension.sql. It calls and plans nothing of the
-- functions' owner, and the number counts in this database alone.  The owner of the
-- database can rename schemas: hence the lock.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS snowflake SCHEMA public;
SELECT nspname AS home FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'snowflake' FOR SHARE OF n \gset
-- an ID of the last millisecond below it
SELECT (date_part('epoch', :"home".snowflake_advance((:'last'::bigint - 1) << 16, 'mastodon'::text, true)) * 1000)::bigint;
COMMIT;
