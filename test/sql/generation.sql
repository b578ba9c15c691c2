-- Making IDs one by one. Nothing here depends on the configured layout.
\pset format unaligned
\pset tuples_only
SELECT snowflake_currval();
SELECT snowflake_ready();
SELECT snowflake_nextval() > 0 AS positive;
SELECT snowflake_nextval() < snowflake_nextval() AS ascending;
SELECT snowflake_nextval() = snowflake_currval() AS current;

-- a key
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
INSERT INTO t (n) SELECT generate_series(1, 10000);
INSERT INTO t (n) VALUES (10001), (10002), (10003);
-- the order of IDs is the order of rows
SELECT count(*), bool_and(id > before) AS ascending
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before FROM t) s;
TRUNCATE t;
INSERT INTO t (n) SELECT n FROM generate_series(1, 1000) n ORDER BY n % 7, n DESC;
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY id) AS i,
	row_number() OVER (ORDER BY n % 7, n DESC) AS j FROM t) s WHERE i <> j;
TRUNCATE t;
INSERT INTO t (n) VALUES (3), (1), (2);
SELECT n FROM t ORDER BY id;

-- its time and its node can be read from it
SELECT bool_and(created_at BETWEEN clock_timestamp() - interval '1 day' AND clock_timestamp() + interval '10 s') AS now,
	count(DISTINCT node_id) <= 1 AS one_node
FROM t, snowflake_decode(id);
SELECT bool_and(id BETWEEN snowflake_min_id(snowflake_timestamp(id)) AND snowflake_max_id(snowflake_timestamp(id)))
FROM t;
SELECT count(*) FROM t WHERE id > snowflake_min_id(now() - interval '1 day');
SELECT bool_and(snowflake_timestamp(id) = created_at
	AND snowflake_node(id) IS NOT DISTINCT FROM node_id
	AND snowflake_shard(id) IS NOT DISTINCT FROM shard_id
	AND snowflake_sequence(id) = sequence)
FROM t, snowflake_decode(id);

-- after a rollback IDs go on above those that were rolled back
BEGIN;
SELECT snowflake_nextval() AS lost \gset
ROLLBACK;
SELECT snowflake_nextval() > :lost AS above;
BEGIN;
SAVEPOINT s;
SELECT snowflake_nextval() AS lost \gset
ROLLBACK TO s;
SELECT snowflake_nextval() > :lost AS above;
COMMIT;

-- in functions, triggers, generated plans, COPY
CREATE FUNCTION pg_temp.two() RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
	a bigint := snowflake_nextval();
	b bigint;
BEGIN
	BEGIN
		b := snowflake_nextval();
		RAISE EXCEPTION 'no';
	EXCEPTION WHEN OTHERS THEN
		b := snowflake_nextval();
	END;
	RETURN ARRAY[a, b];
END $$;
SELECT a[1] < a[2] AS ascending FROM pg_temp.two() a;
COPY t (n) FROM stdin;
4
5
\.
SELECT n FROM t ORDER BY id;
ALTER TABLE t ADD COLUMN other bigint NOT NULL DEFAULT snowflake_nextval();
SELECT count(*) = count(DISTINCT other) AS distinct FROM t;
DROP TABLE t;

-- the settings, with units and descriptions
SELECT name, unit, context, vartype, min_val, max_val, boot_val, short_desc <> '' AS described
FROM pg_settings WHERE name LIKE 'snowflake.%' ORDER BY name;

-- the mark is above everything
SELECT snowflake_nextval() AS id \gset
SELECT last_value > extract(epoch FROM snowflake_timestamp(:id)) * 1000 AS above
FROM snowflake_state.snowflake_mark;

-- compiled calls, inlined if the server can, share the state of the session
SET jit = on;
SET jit_above_cost = 0;
SET jit_inline_above_cost = 0;
SET jit_optimize_above_cost = 0;
SELECT count(DISTINCT id) AS ids, max(id) = snowflake_currval() AS last
FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000)) s;
RESET jit;
RESET jit_above_cost;
RESET jit_inline_above_cost;
RESET jit_optimize_above_cost;
