-- IDs in a layout that the call names.
\pset format unaligned
\pset tuples_only

-- what the ID says, read with that layout
SELECT layout, node_id, created_at BETWEEN now() - interval '2 s' AND clock_timestamp() + interval '2 s' AS is_new
FROM (VALUES ('javascript'), ('sonyflake'), ('twitter'), ('pgedge'), ('timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01')) AS l (layout),
	snowflake_decode(snowflake_nextval(layout), layout);
SELECT snowflake_nextval('javascript') < 2^53 AS exact;

-- the configured layout has one counter, whatever it is called
CREATE TEMPORARY TABLE made (n serial, id bigint UNIQUE);
INSERT INTO made (id) SELECT CASE g % 4
	WHEN 0 THEN snowflake_nextval()
	WHEN 1 THEN snowflake_nextval('snowflake')
	WHEN 2 THEN snowflake_nextval('node')
	ELSE snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:2024-01-01') END
FROM generate_series(1, 4000) AS g;
SELECT count(*), bool_and(id > before) IS TRUE AS ascends
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before FROM made) AS m;

-- another layout has its own, and they do not disturb each other
TRUNCATE made;
INSERT INTO made (id) SELECT snowflake_nextval(CASE g % 2 WHEN 0 THEN 'javascript' ELSE 'sonyflake' END)
FROM generate_series(1, 4000) AS g;
SELECT n % 2 AS which, count(DISTINCT id), bool_and(id > before) AS ascends
FROM (SELECT n, id, lag(id, 1, 0::bigint) OVER (PARTITION BY n % 2 ORDER BY n) AS before FROM made) AS m
GROUP BY 1 ORDER BY 1;

-- a call site whose argument changes
CREATE FUNCTION make(layout text) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN snowflake_nextval(layout); END$$;
SELECT make('javascript') < 2^53 AS small, make('pgedge') > 2^57 AS large, make('javascript') < 2^53 AS small_again;
DROP FUNCTION make;

-- batches; the last ID of the session
SELECT count(DISTINCT id), min(snowflake_node(id, 'javascript')), max(snowflake_node(id, 'javascript'))
FROM snowflake_nextval_batch(1000, 'javascript') AS id;
SELECT snowflake_nextval('javascript') = snowflake_currval() AS same;
SELECT max(id) = snowflake_currval() AS same FROM snowflake_nextval_batch(100, 'sonyflake') AS id;

-- a default says what the keys are; COPY inserts many rows at a time
CREATE TABLE api_keys (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'), name text);
INSERT INTO api_keys (name) VALUES ('a'), ('b');
COPY api_keys (name) FROM stdin;
c
d
\.
ALTER TABLE api_keys ADD COLUMN other bigint DEFAULT snowflake_nextval('sonyflake');
SELECT count(DISTINCT id), count(DISTINCT other), bool_and(id < 2^53) FROM api_keys;
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'api_keys'::regclass ORDER BY adnum;
EXPLAIN (COSTS OFF) SELECT name FROM api_keys WHERE snowflake_timestamp(id, 'javascript') >= '2026-01-01 00:00+00';
DROP TABLE api_keys;

-- statistics: one row for each layout in use; snowflake_layouts() has those without a name, too
SELECT layout, ids > 0 AS has_ids, last_timestamp > now() - interval '1 day' AS is_new, layout_end > now() AS lasts
FROM pg_stat_snowflake_layouts WHERE ids > 0 ORDER BY layout COLLATE "C";
SELECT sum(l.ids) = min(s.node_ids) AS all_of_them FROM pg_stat_snowflake_layouts l, pg_stat_snowflake s;
SELECT name, configured, tick_ms FROM snowflake_layouts() WHERE name ~ ' ' ORDER BY name COLLATE "C";

-- what cannot be
SELECT snowflake_nextval(NULL);
SELECT snowflake_nextval('wordpress');
SELECT snowflake_nextval('instagram');
SELECT snowflake_nextval('shard');
SELECT snowflake_nextval('mastodon');
SELECT snowflake_nextval('timestamp:41 node:2 sequence:12');
SELECT snowflake_ready('timestamp:41 node:2 sequence:12');
SELECT snowflake_horizon('mastodon');
SELECT snowflake_nextval('timestamp:31 node:10 sequence:12 epoch:1990-01-01');
SELECT snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:2190-01-01');
SELECT snowflake_nextval_batch(10, NULL);
-- a horizon, too, takes a slot only in a layout of which there can be IDs
SELECT count(*) AS before FROM pg_stat_snowflake_layouts \gset
BEGIN TRANSACTION READ ONLY;
SELECT snowflake_horizon('timestamp:31 node:10 sequence:12 epoch:1990-01-01');
ROLLBACK;
SELECT snowflake_horizon('timestamp:41 node:10 sequence:12 epoch:2190-01-01');
SELECT count(*) = :before AS same FROM pg_stat_snowflake_layouts;
BEGIN TRANSACTION READ ONLY;
SELECT snowflake_nextval('javascript');
ROLLBACK;

-- a row of another node in the tick of the next ID: the remedy is typed
CREATE TABLE slow (id bigint PRIMARY KEY
	DEFAULT snowflake_nextval('timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01'));
DO $$
DECLARE
	first bigint;
	last bigint;
	hint text;
BEGIN
	FOR i IN 1 .. 10 LOOP	-- if a tick ends meanwhile, new IDs are above the rows
		DELETE FROM slow;
		last := snowflake_max_id(clock_timestamp(), 'timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01');
		first := snowflake_min_id(snowflake_timestamp(last, 'timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01'), 'timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01');
		INSERT INTO slow VALUES (first), (last);
		BEGIN
			PERFORM snowflake_renumber('slow'::regclass, 'id'::name, first, last, false);
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
			EXIT;
		END;
	END LOOP;
	RAISE WARNING 'HINT:  %', replace(hint, last::text, 'N');
	EXECUTE substring(hint FROM 'SELECT .*;');
	PERFORM snowflake_renumber('slow'::regclass, 'id'::name, first, last, false);
	RAISE WARNING '% old IDs are left', (SELECT count(*) FROM slow WHERE id <= last);
END $$;
DROP TABLE slow;
