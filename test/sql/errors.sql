-- Errors and their messages; after each one the session goes on.
\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never
BEGIN READ ONLY;
SELECT snowflake_nextval();
ROLLBACK;
BEGIN READ ONLY;
SELECT snowflake_nextval_batch(1);
ROLLBACK;
BEGIN READ ONLY;
SELECT snowflake_ready();
ROLLBACK;
BEGIN READ ONLY;
SELECT snowflake_ready('javascript');
ROLLBACK;
SELECT snowflake_ready('javascript') AS ready, snowflake_ready(NULL) AS unknown;
SELECT snowflake_ready('instagram');
BEGIN READ ONLY;
SELECT created_at IS NOT NULL AS readable FROM snowflake_decode(snowflake_currval()) WHERE false;
ROLLBACK;

-- advance: NULL, a negative ID, two days ahead, and the last possible ID
SELECT snowflake_advance(NULL);
SELECT snowflake_advance(-1);
SELECT snowflake_advance(snowflake_nextval()) > now() - interval '1 min' AS advanced;
SELECT snowflake_nextval() > snowflake_currval() - 1 AS goes_on;
DO $$
BEGIN
	PERFORM snowflake_advance(snowflake_min_id(now() + interval '2 days'));
	RAISE 'not refused';
EXCEPTION WHEN datetime_field_overflow THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
SELECT snowflake_advance(9223372036854775807);
SELECT snowflake_advance(9223372036854775807, NULL, force => true);
SELECT snowflake_advance(1, layout => 'nonsense');
SELECT snowflake_advance(175928847299117063, layout => 'discord') AS advanced_above_discord;
-- an ID of another layout that lies years above the IDs made here
SELECT snowflake_advance(snowflake_min_id('2026-01-01 00:00Z', 'twitter'), 'twitter');
SELECT snowflake_advance(snowflake_min_id(now(), 'twitter'), 'twitter', true) <= clock_timestamp() + interval '1 s' AS forced;
SELECT snowflake_nextval() > 0 AS goes_on;
-- which is right if a column's default makes such IDs
CREATE TABLE tweets (id bigint DEFAULT snowflake_nextval('twitter'));
SELECT snowflake_min_id(now() + interval '50 ms', 'twitter') AS ahead \gset
SELECT snowflake_advance(:ahead, layout => 'twitter') IS NOT NULL AS advanced;
SELECT snowflake_nextval('twitter') > :ahead AS above;
DROP TABLE tweets;
DO $$
BEGIN
	PERFORM snowflake_advance(snowflake_min_id(now(), 'twitter'), layout => 'twitter');
	RAISE 'not refused';
EXCEPTION WHEN invalid_parameter_value THEN
	RAISE NOTICE '%', SQLERRM;
END $$;

-- nothing to accept
SELECT snowflake_accept('everything');
SELECT snowflake_accept('configuration');

-- SQLSTATEs
DO $$
DECLARE
	c text;
BEGIN
	FOREACH c IN ARRAY ARRAY['snowflake_nextval_batch(0)', 'snowflake_nextval_batch(NULL)',
		'snowflake_decode(-1)', 'snowflake_timestamp(1, ''x'')', 'snowflake_shard_nextval(-1)',
		'snowflake_shard_nextval(NULL)', 'snowflake_min_id(''1900-01-01'')', 'snowflake_advance(-1)',
		'snowflake_advance(9223372036854775807, NULL, true)']
	LOOP
		BEGIN
			EXECUTE 'SELECT ' || c;
			RAISE 'not refused: %', c;
		EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
			RAISE NOTICE '% for %', SQLSTATE, c;
		END;
	END LOOP;
END $$;

-- the extension dropped and created again, in one session
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() > 0 AS works;
-- the extension created, used and rolled back
BEGIN;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake;
SELECT snowflake_nextval() > 0 AS works;
ROLLBACK;
SELECT snowflake_nextval() > 0 AS works;
-- in a schema of the user's choice; the durable numbers have their own schema
CREATE SCHEMA elsewhere;
BEGIN;
DROP EXTENSION snowflake;
CREATE EXTENSION snowflake SCHEMA elsewhere;
SELECT elsewhere.snowflake_nextval() > 0 AS works;
SELECT is_called FROM snowflake_state.snowflake_mark;
ROLLBACK;
ALTER EXTENSION snowflake SET SCHEMA elsewhere;
SELECT snowflake_nextval() > 0 AS works;
DROP SCHEMA elsewhere;
-- a durable number that was removed from the extension, or made useless
BEGIN;
ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark;
DROP SEQUENCE snowflake_state.snowflake_mark;
SAVEPOINT s;
SELECT snowflake_nextval();
ROLLBACK TO s;
SELECT object, found FROM snowflake_recover() WHERE (remedy IS NULL OR object = 'mark') AND found !~ 'highest' AND found !~ ' at ';
SELECT snowflake_nextval() > 0 AS works;
ROLLBACK;
BEGIN;
ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED;
SELECT snowflake_nextval();
ROLLBACK;
SELECT snowflake_nextval() > 0 AS works;
-- the mark is lowered only to the time of two clocks
SELECT * FROM snowflake_reset_mark(NULL);
DO $$
BEGIN
	PERFORM snowflake_reset_mark(now() - interval '1 h');
EXCEPTION WHEN invalid_parameter_value THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
SELECT object, substring(found FROM 1 FOR 7) AS found FROM snowflake_reset_mark(clock_timestamp());
