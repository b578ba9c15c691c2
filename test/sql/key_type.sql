-- The type snowflake.
\pset format unaligned
\pset tuples_only
CREATE TABLE post (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO post (n) SELECT g FROM generate_series(1, 1000) g;
INSERT INTO post VALUES (5, 0), ('384308787294507008', 0), (6::smallint, 0), (7::bigint, 0);
INSERT INTO post VALUES ('1.5', 0);
INSERT INTO post VALUES (1.5, 0);
-- JSON has a string, and takes both
SELECT to_json(p), to_jsonb(p), row_to_json(p), json_build_object('id', id), json_agg(id)
FROM post p WHERE id = 384308787294507008 GROUP BY p, id;
SELECT id FROM json_populate_recordset(NULL::post, '[{"id": 384308787294507008}, {"id": "384308787294507009"}]');
SELECT id FROM jsonb_to_recordset('[{"id": 384308787294507008}, {"id": "5"}]') r (id snowflake);
-- the server's functions take it as a bigint; nothing becomes one by itself
SELECT pg_typeof(id + 1), pg_typeof(coalesce(id, 0::bigint)), pg_typeof(max(id)), pg_typeof(array_agg(id)),
	pg_typeof(snowflake_node(id)), pg_typeof(id::text), pg_typeof(id::text::snowflake), pg_typeof(id::bigint::numeric)
FROM post GROUP BY id LIMIT 1;
SELECT pg_typeof(a) FROM (SELECT id FROM post UNION ALL SELECT 1::bigint LIMIT 1) s (a);
SELECT coalesce(id, 0) FROM post;
SELECT coalesce(id, '0') = 5 AS is_five, id IN (5, 384308787294507008) AS is_in, 5 <= id AS is_least
FROM post ORDER BY id LIMIT 1;
SELECT max(id) = 384308787294507008 OR max(id) = snowflake_currval() AS newest, min(id) FROM post;
SELECT n, sum(n) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) > n FROM post WHERE id < 10;
-- every operator, in both directions
CREATE FUNCTION holds(condition text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	result boolean;
BEGIN
	EXECUTE 'SELECT ' || condition INTO result;
	RETURN result;
END $$;
SELECT l || r AS types, string_agg(op || a || b, ' ' ORDER BY op, a, b) FILTER (WHERE result)
FROM (VALUES ('snowflake', 'snowflake'), ('snowflake', 'bigint'), ('bigint', 'snowflake'), ('snowflake', 'integer'),
		('integer', 'snowflake'), ('snowflake', 'smallint'), ('smallint', 'snowflake')) t (l, r),
	unnest('{<,<=,=,>=,>,<>}'::text[]) op, generate_series(-1, 0) a, generate_series(-1, 0) b,
	holds(format('%L::%s %s %L::%s', a, l, op, b, r)) result
GROUP BY l, r ORDER BY l, r;
-- indexes and partitions are used, whatever type the other side has
\pset tuples_only off
\pset format aligned
ANALYZE post;
CREATE FUNCTION scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		RETURN NEXT substring(line FROM '-> +(.* Scan.*) using');
	END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE id = 5;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE id > 5::smallint AND id <= '7';
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE id = ANY ('{5,6}'::bigint[]);
SELECT * FROM post WHERE id = ANY ('{5,6}'::bigint[]);
PREPARE by_id(bigint) AS SELECT * FROM post WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_id(5);
RESET plan_cache_mode;
SELECT * FROM scans('SELECT max(id), min(id) FROM post') scan WHERE scan IS NOT NULL;
EXPLAIN (COSTS OFF) SELECT * FROM post WHERE snowflake_timestamp(id, 'snowflake') < timestamptz '2024-01-01 00:00:01+00';
SELECT * FROM post WHERE snowflake_timestamp(id, 'snowflake') < timestamptz '2024-01-01 00:00:01+00' ORDER BY id;
CREATE TABLE times (at timestamptz);
INSERT INTO times VALUES ('2024-01-01 00:00:00+00');
SELECT id FROM post JOIN times ON snowflake_timestamp(id, 'snowflake') = at ORDER BY id;
-- where the operators are not found, those of bigint use the index
SET search_path = pg_catalog;
EXPLAIN (COSTS OFF) SELECT * FROM public.post WHERE id IN (6, 7::bigint);
SELECT * FROM public.post WHERE id = 5::smallint;
SELECT * FROM public.post WHERE id > 5 AND id < 8::bigint ORDER BY id;
RESET search_path;
RESET enable_bitmapscan;
CREATE TABLE brin (id snowflake);
INSERT INTO brin SELECT id FROM post;
CREATE INDEX ON brin USING brin (id);
EXPLAIN (COSTS OFF) SELECT * FROM brin WHERE id < 7;
EXPLAIN (COSTS OFF)
SELECT * FROM brin WHERE snowflake_timestamp(id, 'snowflake') <= timestamptz '2024-01-01 00:00:00+00';
SELECT count(*) FROM brin WHERE id < 7;
SELECT count(*) FROM brin WHERE id::bigint < 7::smallint;
RESET enable_seqscan;
-- keys of either type refer to it, and it to a bigint
CREATE TABLE reply (id bigint PRIMARY KEY, post bigint REFERENCES post ON UPDATE CASCADE, i integer REFERENCES post,
	s smallint REFERENCES post, same snowflake REFERENCES post);
CREATE TABLE thanks (reply snowflake REFERENCES reply);
INSERT INTO reply VALUES (1, 7, 5, 6, 5);
INSERT INTO thanks VALUES (1);
INSERT INTO reply VALUES (2, 8, 5, 6, 5);
DELETE FROM post WHERE id = 7;
UPDATE post SET id = 8 WHERE id = 7;
SELECT * FROM reply;
-- joins, by hash and by merge, with each type
SET enable_nestloop = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT * FROM post p JOIN reply r ON p.id = r.post;
SELECT count(*) FROM post p JOIN reply r ON p.id = r.post;
SELECT count(*) FROM post p JOIN reply r ON p.id = r.i;
SELECT count(*) FROM post p JOIN reply r ON p.id = r.s;
SELECT count(*) FROM post p JOIN reply r ON p.id = r.same JOIN post q ON q.id = p.id;
-- hash tables of one side
SELECT t, count(*) FILTER (WHERE p.id IN (SELECT post FROM reply)) AS post, count(*) FILTER (WHERE p.id IN (SELECT i FROM reply)) AS i,
	count(*) FILTER (WHERE p.id NOT IN (SELECT s FROM reply)) AS others FROM post p, (VALUES (1)) v (t) GROUP BY t;
SELECT id FROM reply WHERE post IN (SELECT id FROM post) AND i NOT IN (SELECT id FROM post WHERE id > 5);
SET enable_hashjoin = off;
SET enable_mergejoin = on;
EXPLAIN (COSTS OFF) SELECT * FROM post p JOIN reply r ON p.id = r.post;
SELECT count(*) FROM post p JOIN reply r ON r.post = p.id;
RESET enable_hashjoin;
RESET enable_nestloop;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT id, count(*) FROM brin GROUP BY id;
SELECT count(*) FROM (SELECT id, count(*) FROM brin GROUP BY id HAVING count(*) = 1) s;
RESET enable_sort;
-- hashes are kept in indexes and by partitions: they never change
SELECT v, snowflake_internal.hash(v::snowflake), snowflake_internal.hash(v::snowflake, 1),
	snowflake_internal.hash(v::snowflake) = snowflake_internal.hash(v) AS same,
	snowflake_internal.hash(v::snowflake, 1) = snowflake_internal.hash(v, 1) AS same_extended,
	snowflake_internal.hash(v)::bit(32) = snowflake_internal.hash(v, 0)::bit(32) AS short
FROM unnest('{0,1,-1,384308787294507008,9223372036854775807,-9223372036854775808}'::bigint[]) v;
SELECT v, snowflake_internal.hash(v) = snowflake_internal.hash(v::bigint) AS same,
	snowflake_internal.hash(v::smallint) = snowflake_internal.hash(v) AS short,
	snowflake_internal.hash(v, 1) = snowflake_internal.hash(v::bigint, 1) AS same_extended,
	snowflake_internal.hash(v::smallint, 1) = snowflake_internal.hash(v, 1) AS short_extended
FROM unnest('{1,-1,-32768}'::integer[]) v;
-- 10 IDs a millisecond, of one node: their hashes are as good as random ones
SELECT count(DISTINCT snowflake_internal.hash(id)) > 99990 AS mixed, count(DISTINCT hashint8(id)) AS folded,
	count(DISTINCT snowflake_internal.hash(id) & 1023) AS buckets
FROM generate_series(0, 9999) ms, generate_series(0, 9) n,
	LATERAL (SELECT snowflake_compose(timestamptz '2026-01-01 00:00:00+00' + ms * interval '1 ms', 7, n, 'snowflake') AS id) i;
CREATE TABLE hashed (id snowflake PRIMARY KEY, n int) PARTITION BY HASH (id);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT g FROM generate_series(1, 10) g;
SELECT tableoid::regclass, array_agg(id ORDER BY id) FROM hashed GROUP BY tableoid ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM hashed WHERE id = 5::bigint;
CREATE INDEX ON brin USING hash (id);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM brin WHERE id = 5;
SELECT id FROM brin WHERE id = 5 OR id = 6::smallint ORDER BY id;
RESET enable_seqscan;
-- partitions by time
CREATE TABLE daily (id snowflake PRIMARY KEY DEFAULT snowflake_nextval('snowflake')) PARTITION BY RANGE (id);
SELECT * FROM snowflake_create_partitions('daily', '1 day', '2026-01-01 UTC', '2026-01-03 UTC');
CREATE TABLE daily_rest PARTITION OF daily DEFAULT;
SELECT partition, from_id FROM snowflake_partitions('daily') ORDER BY from_id;
EXPLAIN (COSTS OFF) SELECT * FROM daily WHERE snowflake_timestamp(id, 'snowflake') >= timestamptz '2026-01-02 00:00:00+00';
INSERT INTO daily VALUES (snowflake_min_id('2026-01-02 12:00 UTC', 'snowflake'));
SELECT snowflake_node(id, 'snowflake'), tableoid::regclass FROM daily;
-- what else of ours reads a column: status, conflicts, feeds, COPY
SELECT * FROM snowflake_status() WHERE check_name IN ('column types', 'unique indexes') AND status <> 'ok';
INSERT INTO post VALUES (snowflake_compose(now() + interval '1 hour', snowflake_node(snowflake_nextval())));
SELECT count(*), min(reason) FROM snowflake_node_conflicts('post');
SELECT check_name, status FROM snowflake_status() WHERE found LIKE '%public.post.id%';
DELETE FROM post WHERE snowflake_timestamp(id) > now() + interval '30 minutes';
SELECT count(*) FROM post WHERE id < snowflake_horizon();
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM post WHERE n > 1000';
ALTER TABLE post ADD CHECK (n < 1000 OR seen() = 0);
COPY post (n) FROM stdin;
1001
1002
\.
SELECT count(DISTINCT id) FROM post WHERE n > 1000 AND id > 7;
SELECT snowflake_parse(snowflake_encode(id, 'base58'), 'base58') = id AS same FROM post WHERE id = 5;
-- a column changes its type without a rewrite; its indexes are built again
CREATE TABLE change (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO change DEFAULT VALUES;
SELECT pg_relation_filenode('change') AS before, pg_relation_filenode('change_pkey') AS index_before \gset
ALTER TABLE change ALTER id TYPE snowflake;
SELECT pg_relation_filenode('change') = :before AS kept, pg_relation_filenode('change_pkey') = :index_before AS index_kept, json_typeof(to_json(id)) FROM change;
ALTER TABLE change ALTER id TYPE bigint;
SELECT pg_relation_filenode('change') = :before AS kept, pg_typeof(id) FROM change;
-- the operator classes are whole, and pg_upgrade finds each member at its class
SELECT opcname, amname, amvalidate(o.oid) FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE opcintype = 'snowflake'::regtype ORDER BY 2;
SELECT count(*), count(DISTINCT d.objid) FROM pg_amop m LEFT JOIN pg_depend d ON d.objid = m.oid AND refclassid = 'pg_opclass'::regclass
WHERE 'snowflake'::regtype IN (amoplefttype, amoprighttype) AND amopfamily < 16384;
SELECT count(*), count(DISTINCT d.objid) FROM pg_amproc m LEFT JOIN pg_depend d ON d.objid = m.oid AND refclassid = 'pg_opclass'::regclass
WHERE 'snowflake'::regtype IN (amproclefttype, amprocrighttype) AND amprocfamily < 16384;
DROP TABLE thanks, reply, post, brin, hashed, daily, change, times;
DROP FUNCTION seen, scans, holds;
