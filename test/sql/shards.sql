-- IDs for shards. Needs snowflake.shards = '0-4095,5000'.
\pset format unaligned
\pset tuples_only
SHOW snowflake.shards;
SELECT s, count(*), count(DISTINCT id), bool_and(shard_id = s) AS right_shard, bool_and(node_id IS NULL) AS no_node
FROM (VALUES (0), (1341), (4095), (5000)) v(s),
	snowflake_shard_nextval_batch(s, 3000) id,
	snowflake_decode(id, 'shard')
GROUP BY s ORDER BY s;
SELECT snowflake_shard_nextval(1341) < snowflake_shard_nextval(1341) AS ascending;
SELECT snowflake_shard_nextval(1341) = snowflake_currval() AS current;
SELECT count(*), count(DISTINCT id), count(DISTINCT snowflake_shard(id, 'instagram'))
FROM (SELECT snowflake_shard_nextval(s) AS id FROM generate_series(0, 4095) s, generate_series(1, 3)) x;
-- the load on one shard does not move the time of another one
SELECT snowflake_timestamp(snowflake_shard_nextval(7), 'instagram') <= clock_timestamp() + interval '10 ms' AS close
FROM snowflake_shard_nextval_batch(8, 4096) LIMIT 1;
-- a table for a shard
CREATE SCHEMA shard1341;
CREATE TABLE shard1341.t (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(1341), x text);
INSERT INTO shard1341.t (x) VALUES ('a'), ('b') RETURNING snowflake_shard(id, 'instagram');
DROP SCHEMA shard1341 CASCADE;
-- a trigger, where the shard depends on the row
CREATE TABLE t (id bigint PRIMARY KEY, user_id bigint);
CREATE FUNCTION set_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.id := snowflake_shard_nextval(NEW.user_id % 2000);
	RETURN NEW;
END $$;
CREATE TRIGGER set_id BEFORE INSERT ON t FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION set_id();
INSERT INTO t (user_id) VALUES (31341), (1);
SELECT user_id, snowflake_shard(id, 'instagram') FROM t ORDER BY user_id;
DROP TABLE t;
DROP FUNCTION set_id();
-- refused
SELECT snowflake_shard_nextval(-1);
SELECT snowflake_shard_nextval(8192);
SET ROLE pg_signal_backend;	-- to which hints do not show where files are
SELECT snowflake_shard_nextval(4096);
RESET ROLE;
SELECT snowflake_shard_nextval(NULL);
\set VERBOSITY terse
SELECT snowflake_shard_nextval_batch(4096, 10);
SELECT snowflake_shard_horizon(4096);
\set VERBOSITY default
SELECT snowflake_shard_nextval_batch(1, 0);
SELECT snowflake_shard_nextval_batch(1, NULL);
BEGIN READ ONLY;
SELECT snowflake_shard_nextval(1);
ROLLBACK;
-- feeds of a shard
BEGIN;
SELECT snowflake_shard_nextval(5000) >= snowflake_shard_horizon(5000) AS held;
SELECT lowest_id IS NULL AS node,
	lowest_time <= snowflake_timestamp(snowflake_currval(), 'shard') AS shard
FROM snowflake_horizon_holders WHERE pid = pg_backend_pid();
COMMIT;
SELECT snowflake_currval() < snowflake_shard_horizon(5000) AS delivered;
SELECT snowflake_shard_horizon(8192);
SELECT snowflake_shard_horizon(NULL);
SET application_name = 'citus_internal gpid=10000000123';
SELECT snowflake_shard_horizon(5000);
RESET application_name;

-- a key that becomes a key of a shard
CREATE TABLE keys (id bigint PRIMARY KEY);
SELECT statement FROM snowflake_convert('keys', shard => 5000, dry_run => false);
SELECT statement FROM snowflake_convert('keys', shard => 5000);
DROP TABLE keys;

-- the configured layout by its name, wherever a layout is taken
SELECT snowflake_shard_nextval(7) AS id \gset
SELECT snowflake_shard(:id, 'shard') AS shard, d.shard_id, d = e AS as_spelled_out,
	snowflake_timestamp(:id, 'shard') = d.created_at AS at, snowflake_node(:id, 'shard') AS node
FROM snowflake_decode(:id, 'shard') d, snowflake_decode(:id, current_setting('snowflake.shard_layout')) e;
SELECT snowflake_min_id('2025-01-02', 'shard') = snowflake_min_id('2025-01-02', 'instagram') AS shard,
	snowflake_max_id('2025-01-02', 'node') = snowflake_max_id('2025-01-02') AS node;
SELECT snowflake_compose('2025-01-03', 7, 5, 'shard') = snowflake_compose('2025-01-03', 7, 5, 'instagram') AS composed;
SELECT name FROM snowflake_layouts() WHERE configured;
SELECT layout FROM snowflake_inspect(:id) WHERE configured AND plausible;
CREATE TABLE p (id bigint PRIMARY KEY, kind text) PARTITION BY RANGE (id);
SELECT count(*) FROM snowflake_create_partitions('p', '1 month', '2025-01-02', '2025-03-01', 'shard');
SELECT from_time FROM snowflake_partitions('p', layout => 'shard');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM p WHERE snowflake_timestamp(id, 'shard') = '2025-01-03';
EXPLAIN (COSTS OFF) SELECT snowflake_timestamp(id, 'shard') FROM p WHERE id >= snowflake_min_id('2025-02-03', 'shard');
RESET enable_seqscan;
RESET enable_bitmapscan;
SET plan_cache_mode = force_generic_plan;
PREPARE named(text) AS SELECT snowflake_shard(id, $1) AS shard FROM (VALUES (7::bigint << 10)) v (id);
EXECUTE named('shard');
RESET plan_cache_mode;
SELECT name, snowflake_internal.layout(name) FROM (VALUES ('node'), ('shard'), ('node')) v (name);
SELECT snowflake_internal.layout('shards');
-- but not where the server stores the result: the setting may change
\set VERBOSITY sqlstate
CREATE INDEX ON p (snowflake_timestamp(id, 'shard'));
\set VERBOSITY default
CREATE INDEX ON p (id) WHERE snowflake_shard(id, 'shard') = 7;
CREATE TABLE g (id bigint, shard integer GENERATED ALWAYS AS (snowflake_shard(id, 'shard')) STORED);
CREATE TABLE g (id bigint) PARTITION BY RANGE (snowflake_timestamp(id, 'shard'));
CREATE INDEX ON p (snowflake_shard(id, kind));
INSERT INTO p VALUES (snowflake_min_id('2025-01-03', 'shard'), 'shard');
DROP TABLE p;
-- without the layout, the error names it
SELECT created_at > now() + interval '10 years' AS future FROM snowflake_decode(3537234219480645632);
SELECT count(created_at) FROM (SELECT (snowflake_decode(id)).created_at FROM (VALUES (3537234219480645632), (3537234219480645633)) v (id)) d;
-- a key of a shard, and of the type snowflake
CREATE TABLE keyed (id integer PRIMARY KEY);
SELECT count(*) FROM snowflake_convert('keyed', type => 'snowflake', shard => 7, dry_run => false);
INSERT INTO keyed DEFAULT VALUES RETURNING snowflake_shard(id, 'shard'), pg_typeof(id);
DROP TABLE keyed;
