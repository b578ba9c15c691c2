-- IDs for shards. Needs snowflake.shards = '0-4095,5000'.
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
	NEW.id := snowflake_shard_nextval((NEW.user_id % 2000)::integer);
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
SELECT snowflake_shard_nextval(4096);
SELECT snowflake_shard_nextval(NULL);
SELECT snowflake_shard_nextval_batch(4096, 10);
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
SELECT snowflake_shard_horizon(4096);
SELECT snowflake_shard_horizon(8192);
SELECT snowflake_shard_horizon(NULL);
SET application_name = 'citus_internal gpid=10000000123';
SELECT snowflake_shard_horizon(5000);
RESET application_name;

-- a key that becomes a key of a shard
CREATE TABLE keys (id bigint PRIMARY KEY);
SELECT statement FROM snowflake_convert('keys', shard => 5000) WHERE step = 4;
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
SELECT snowflake_state.layout('shards');
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

-- in a layout that the call names: what the IDs say
\set a 'timestamp:41 shard:13 sequence:9 epoch:2024-01-01'
\set b 'timestamp:39 sequence:8 shard:16 tick:10ms epoch:2014-09-01'
\set c 'timestamp:31 shard:14 sequence:16 tick:1000ms epoch:2020-01-01'
SELECT layout, shard_id, node_id, created_at BETWEEN now() - interval '2 s' AND clock_timestamp() + interval '2 s' AS is_new
FROM (VALUES ('instagram'), (:'a'), (:'b'), (:'c'), ('timestamp:40 sequence:11 shard:13 epoch:2024-01-01')) AS l (layout),
	snowflake_decode(snowflake_shard_nextval(5000, layout), layout);
-- one position for all layouts of a shard: in each, no two IDs are equal, and they ascend
CREATE TEMPORARY TABLE made (n serial, which int, id bigint);
SELECT shard_ids AS before FROM pg_stat_snowflake \gset
INSERT INTO made (which, id) SELECT g % 5, CASE g % 5
	WHEN 0 THEN snowflake_shard_nextval(7)
	WHEN 1 THEN snowflake_shard_nextval(7, 'shard')
	WHEN 2 THEN snowflake_shard_nextval(7, :'a')
	WHEN 3 THEN snowflake_shard_nextval(7, :'b')
	ELSE snowflake_shard_nextval(7, :'c') END
FROM generate_series(1, 4000) AS g;
SELECT greatest(which, 1) AS which, count(DISTINCT id), bool_and(id > before) AS ascends
FROM (SELECT n, which, id, lag(id, 1, 0::bigint) OVER (PARTITION BY greatest(which, 1) ORDER BY n) AS before FROM made) AS m
GROUP BY 1 ORDER BY 1;
-- batches
INSERT INTO made (which, id) SELECT 2, id FROM snowflake_shard_nextval_batch(7, 3000, :'a') AS id;
SELECT max(id) = snowflake_currval() AS current, count(DISTINCT id) FROM made WHERE which = 2;
SELECT count(DISTINCT id), min(snowflake_shard(id, :'b')), max(snowflake_shard(id, :'b')) FROM snowflake_shard_nextval_batch(8, 300, :'b') AS id;
SELECT count(DISTINCT id) FROM snowflake_shard_nextval_batch(8, 100, 'instagram') AS id;
SELECT shard_ids - :before AS counted FROM pg_stat_snowflake;
-- a default says what the keys are; COPY inserts many rows at a time
CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(7, 'timestamp:41 shard:13 sequence:9 epoch:2024-01-01'), name text);
INSERT INTO photos (name) VALUES ('a'), ('b');
COPY photos (name) FROM stdin;
c
d
\.
ALTER TABLE photos ADD COLUMN other bigint DEFAULT snowflake_shard_nextval(layout => 'timestamp:39 sequence:8 shard:16 tick:10ms epoch:2014-09-01', shard => 7);
SELECT count(DISTINCT id), count(DISTINCT other), bool_and(snowflake_shard(id, :'a') = 7), bool_and(snowflake_shard(other, :'b') = 7) FROM photos;
DROP TABLE photos;
CREATE TABLE by_time (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(layout => 'timestamp:41 shard:13 sequence:9 epoch:2024-01-01', shard => 7)) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('by_time', '1 year', '2027-01-01', '2028-01-01');
SELECT from_time, from_id = snowflake_min_id(from_time, :'a') AS as_named FROM snowflake_partitions('by_time');
-- two layouts are none that could be told
ALTER TABLE by_time ALTER id SET DEFAULT CASE WHEN random() < 2 THEN snowflake_shard_nextval(7, 'instagram') ELSE snowflake_shard_nextval(7, 'timestamp:41 shard:13 sequence:9 epoch:2024-01-01') END;
SELECT * FROM snowflake_partitions('by_time');
DROP TABLE by_time;
-- feeds
BEGIN;
SELECT snowflake_shard_nextval(5000, :'c') >= snowflake_shard_horizon(5000, :'c') AS held;
SELECT lowest_time <= snowflake_timestamp(snowflake_currval(), :'c') AS shard
FROM snowflake_horizon_holders WHERE pid = pg_backend_pid();
COMMIT;
SELECT snowflake_currval() < snowflake_shard_horizon(5000, :'c') AS delivered;
SELECT snowflake_shard_horizon(5000, 'shard') = snowflake_shard_horizon(5000) AS same;
-- what cannot be
SELECT snowflake_shard_nextval(7, NULL);
SELECT snowflake_shard_nextval(NULL, 'instagram');
SELECT snowflake_shard_nextval(7, '');
SELECT snowflake_shard_nextval(7, 'wordpress');
SELECT snowflake_shard_nextval(7, 'snowflake');
SELECT snowflake_shard_nextval(7, 'node');
SELECT snowflake_shard_nextval(7, 'timestamp:41 node:5 shard:8 sequence:9');
SELECT snowflake_shard_nextval(4096, :'a');
SELECT snowflake_shard_nextval(8192, 'timestamp:40 shard:14 sequence:9');
SELECT snowflake_shard_nextval(5000, 'timestamp:41 shard:12 sequence:9');
SELECT snowflake_shard_nextval(7, 'timestamp:41 shard:12');
SELECT snowflake_shard_nextval(7, 'timestamp:30 shard:13 sequence:4 tick:1000ms');
SELECT snowflake_shard_nextval(7, 'timestamp:31 shard:13 sequence:10 epoch:1990-01-01');
SELECT snowflake_shard_nextval(7, 'timestamp:41 shard:13 sequence:10 epoch:2190-01-01');
SELECT snowflake_shard_nextval_batch(7, 10, NULL);
SELECT snowflake_shard_nextval_batch(7, 10, 'discord');
SELECT snowflake_shard_nextval_batch(7, 0, :'a');
SELECT snowflake_shard_nextval_batch(7, NULL, :'a');
SELECT snowflake_shard_horizon(7, NULL);
SELECT snowflake_shard_horizon(7, 'javascript');
SELECT snowflake_shard_horizon(5000, 'timestamp:41 shard:12 sequence:9');
SELECT count(DISTINCT snowflake_shard_nextval(7, layout)) FROM (SELECT format('timestamp:41 shard:13 sequence:9 epoch:%s-01-01', g) AS layout FROM generate_series(2000, 2023) g) l;
BEGIN READ ONLY;
SELECT snowflake_shard_nextval(7, :'a');
ROLLBACK;
