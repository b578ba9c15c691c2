-- Feeds: up to which ID the rows are complete.
\pset format unaligned
\pset tuples_only
CREATE TABLE feed (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO feed (n) VALUES (1), (2);
-- on an idle system, the last row is below the horizon
SELECT n FROM feed WHERE id > 0 AND id < snowflake_horizon() ORDER BY id LIMIT 10;
-- rows of this transaction are not: it has not ended
BEGIN;
INSERT INTO feed (n) VALUES (3);
SELECT n FROM feed WHERE id < snowflake_horizon() ORDER BY id;
SELECT pid = pg_backend_pid() AS ours, gid, database = d.oid AS here,
	since = now() AS since, lowest_id <= snowflake_currval() AS lowest_id,
	lowest_time
FROM snowflake_horizon_holders JOIN pg_database d ON datname = current_database()
WHERE pid = pg_backend_pid();
ROLLBACK;
SELECT count(*) FROM snowflake_horizon_holders WHERE pid = pg_backend_pid();
-- an ID is no row
SELECT snowflake_nextval() < snowflake_horizon() AS within;
SELECT n FROM feed WHERE id < snowflake_horizon() ORDER BY id;
-- one statement has one horizon, and the horizon does not go back
SELECT count(DISTINCT snowflake_horizon()) FROM generate_series(1, 1000);
SELECT snowflake_horizon() AS before \gset
INSERT INTO feed (n) VALUES (3);
SELECT snowflake_horizon() > :before AS grown;
-- the time of the horizon
SELECT snowflake_timestamp(snowflake_horizon()) BETWEEN now() - interval '1 minute' AND now() + interval '1 minute' AS recent;
-- it bounds an index scan, also for a role that may only read
SET enable_seqscan = off;
SET enable_bitmapscan = off;
BEGIN READ ONLY;
EXPLAIN (COSTS OFF)
SELECT * FROM feed WHERE id > 5 AND id < snowflake_horizon() ORDER BY id LIMIT 10;
SELECT n FROM feed WHERE id > 5 AND id < snowflake_horizon() ORDER BY id LIMIT 10;
COMMIT;
RESET enable_seqscan;
RESET enable_bitmapscan;
-- cursors, exceptions, COPY
BEGIN;
DECLARE feed_cursor CURSOR WITH HOLD FOR
	SELECT n FROM feed WHERE id < snowflake_horizon() ORDER BY id;
FETCH 1 FROM feed_cursor;
INSERT INTO feed (n) VALUES (4);
FETCH ALL FROM feed_cursor;
COMMIT;
CLOSE feed_cursor;
DO $$
BEGIN
	FOR i IN 5 .. 7 LOOP
		BEGIN
			INSERT INTO feed (n) VALUES (i);
			IF i = 6 THEN
				RAISE EXCEPTION 'away with it';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
COPY feed (n) FROM stdin;
8
\.
SELECT n FROM feed WHERE id < snowflake_horizon() ORDER BY id;
-- IDs of another layout
CREATE TABLE web (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'), n int);
INSERT INTO web (n) VALUES (1), (2);
SELECT n FROM web WHERE id < snowflake_horizon('javascript') ORDER BY id;
-- a later tick
SELECT FROM pg_sleep(0.002);
BEGIN;
INSERT INTO web (n) VALUES (3);
SELECT n FROM web WHERE id < snowflake_horizon('javascript') ORDER BY id;
SELECT lowest_id, lowest_time <= snowflake_timestamp(snowflake_currval(), 'javascript') AS lowest_time
FROM snowflake_horizon_holders WHERE pid = pg_backend_pid();
COMMIT;
SELECT n FROM web WHERE id < snowflake_horizon('javascript') ORDER BY id;
SELECT snowflake_node(snowflake_horizon('javascript'), 'javascript') = snowflake_node(snowflake_horizon()) AS node,
	snowflake_horizon('node') = snowflake_horizon() AS same;
SELECT snowflake_horizon(NULL);
SELECT snowflake_horizon('instagram');
SELECT snowflake_horizon('wordpress');
DROP TABLE web;
-- every role may call it
CREATE ROLE snowflake_reader;
SET ROLE snowflake_reader;
SELECT snowflake_horizon() > :before AS asked;
SELECT count(*) FROM snowflake_horizon_holders WHERE pid = pg_backend_pid();
RESET ROLE;
DROP ROLE snowflake_reader;
-- refused in a session that Citus opened for a part of a query; allowed in its
-- other sessions
SET application_name = 'citus_internal gpid=10000000123';
SELECT snowflake_horizon();
SET application_name = 'citus_run_command gpid=10000000123';
SELECT snowflake_horizon() > :before AS asked;
RESET application_name;
DROP TABLE feed;
