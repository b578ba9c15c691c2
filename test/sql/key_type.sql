-- The type snowflake.
\pset format unaligned
\pset tuples_only
CREATE TABLE post (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO post (n) SELECT g FROM generate_series(1, 1000) g;
INSERT INTO post VALUES (5, 0), ('384308787294507008', 0), (6::smallint, 0), (7::bigint, 0);
INSERT INTO post VALUES ('1.5', 0);
-- a number is assigned as to a bigint
BEGIN;
INSERT INTO post VALUES (1.5, 0), (3.5::float8, 0) RETURNING id;
ROLLBACK;
-- JSON has a string, and takes both
SELECT to_json(p), to_jsonb(p), row_to_json(p), json_build_object('id', id), json_agg(id)
FROM post p WHERE id = 384308787294507008 GROUP BY p, id;
SELECT id FROM json_populate_recordset(NULL::post, '[{"id": 384308787294507008}, {"id": "384308787294507009"}]');
SELECT id FROM jsonb_to_recordset('[{"id": 384308787294507008}, {"id": "5"}]') r (id snowflake);
-- the server's functions take it as a bigint; beside one, a smaller integer becomes one
SELECT pg_typeof(id + 1), pg_typeof(coalesce(id, 0::bigint)), pg_typeof(max(id)), pg_typeof(array_agg(id)),
	pg_typeof(snowflake_node(id)), pg_typeof(id::text), pg_typeof(id::text::snowflake), pg_typeof(id::numeric)
FROM post GROUP BY id LIMIT 1;
SELECT pg_typeof(a) FROM (SELECT id FROM post UNION ALL SELECT 1::bigint LIMIT 1) s (a);
SELECT pg_typeof(coalesce(id, 0)), pg_typeof(nullif(id, 0)), pg_typeof(greatest(id, 5)), pg_typeof(sum(id)), pg_typeof(avg(id)),
	pg_typeof(abs(id)), pg_typeof(-id), pg_typeof(id - id), pg_typeof(mod(id, 2)), to_char(id - id, '9')
FROM post GROUP BY id LIMIT 1;
SELECT pg_typeof(a) FROM (SELECT id FROM post UNION ALL SELECT 1 LIMIT 1) s (a);
SELECT * FROM post JOIN (VALUES (5), (9)) v (id) USING (id);
SELECT id, n FROM post NATURAL JOIN generate_series(5, 6) g (id) ORDER BY id;
SELECT rank(6) WITHIN GROUP (ORDER BY id) FROM post WHERE id < 8;
-- the casts of bigint, but for those of OIDs, money and, in 18, bytea; what is implicit there is an assignment here
SELECT castsource::regtype, casttarget::regtype, castcontext AS as_bigint, (SELECT castcontext FROM pg_cast k
	WHERE k.castsource = CASE c.castsource WHEN 'int8'::regtype THEN 'snowflake'::regtype ELSE c.castsource END
		AND k.casttarget = CASE c.casttarget WHEN 'int8'::regtype THEN 'snowflake'::regtype ELSE c.casttarget END) AS as_snowflake
FROM pg_cast c WHERE 'int8'::regtype IN (castsource, casttarget) AND 'snowflake'::regtype NOT IN (castsource, casttarget)
	AND NOT EXISTS (SELECT FROM pg_type t WHERE typname ~ '^(reg.*|oid.*|money|bytea)$' AND t.oid IN (castsource, casttarget)) ORDER BY 1, 2;
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
-- the operators are found with any search path
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
-- estimates are those of a bigint
CREATE DOMAIN key_domain AS snowflake;
CREATE TABLE near (s snowflake, b bigint, d key_domain);
INSERT INTO near SELECT v, v, v FROM (SELECT 384308787294507008 + g::bigint * g FROM generate_series(1, 30000) g) t (v);
ANALYZE near;
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT shape, count(*) AS ranges, count(DISTINCT estimate(replace(query, '?', 'b'))) > 1 AS differ,
	count(*) FILTER (WHERE estimate(replace(query, '?', 's')) = estimate(replace(query, '?', 'b'))) AS same,
	count(*) FILTER (WHERE estimate(replace(query, '?', 'd')) = estimate(replace(query, '?', 'b'))) AS of_domain
FROM (VALUES ('? < %s'), ('? >= %s'), ('%s > ?'), ('? <= ''%s'''), ('? > %s AND ? < %s'), ('? BETWEEN %s AND %s'),
		('? > ''%s'' AND ? <= ''%s'''), ('? = %s'), ('? <> %s'), ('? > %s - 1000'), ('? IN (%s, %s)'), ('NOT ? < %s'),
		('? < %s OR ? > %s'), ('(?, 1) > (%s, 0)'), ('? > %s AND ? < snowflake_min_id(''2027-01-01 UTC'', ''snowflake'')'),
		('? > %s AND ? < snowflake_horizon()')) s (shape),
	LATERAL (SELECT 384308787294507008 + i::bigint * i * 900, 384308787294507008 + (i + i % 7 + 1)::bigint ^ 2 * 900
		FROM generate_series(0, 999, 13) i) r (low, high),
	LATERAL (SELECT format('SELECT FROM near WHERE ' || shape, low, high::bigint)) f (query)
GROUP BY shape ORDER BY shape;
PREPARE of_type AS SELECT FROM near WHERE s > $1 AND s < $2;
PREPARE of_bigint AS SELECT FROM near WHERE b > $1 AND b < $2;
SELECT estimate(format('EXECUTE of_type(%s, %1$s + 90000)', low)) = estimate(format('EXECUTE of_bigint(%s, %1$s + 90000)', low)) AS same
FROM (VALUES (384308787294507008 + 100000000)) r (low);
SET plan_cache_mode = force_generic_plan;
SELECT estimate('EXECUTE of_type(1, 2)') = estimate('EXECUTE of_bigint(1, 2)') AS same;
RESET plan_cache_mode;
SELECT estimate(replace(query, '?', 's')) = estimate(replace(query, '?', 'b')) AS same
FROM (VALUES ('SELECT FROM near l JOIN near r ON l.? = r.? WHERE l.? < 384308787304507008 AND r.? < 384308787304507008'),
	('SELECT FROM near l JOIN near r ON l.? < r.?'), ('SELECT ? FROM near GROUP BY ?')) q (query);
DEALLOCATE ALL;
-- an index on a bigint serves conditions with the type, and one of the type such with a bigint
CREATE INDEX ON near (b);
CREATE INDEX ON near (s);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT FROM thanks t JOIN near n ON n.b = t.reply;
RESET enable_hashjoin;
RESET enable_mergejoin;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT FROM post p JOIN near n ON n.b = p.id WHERE n.b = 5;
EXPLAIN (COSTS OFF) SELECT FROM post p JOIN near n ON n.b < p.id WHERE p.id = 5;
EXPLAIN (COSTS OFF) SELECT FROM post p JOIN near n ON n.b = p.id WHERE p.id = 5;
EXPLAIN (COSTS OFF) SELECT FROM near WHERE b = '5'::snowflake AND s > 6::bigint;
EXPLAIN (COSTS OFF) SELECT FROM near WHERE '5'::snowflake >= b;
EXPLAIN (COSTS OFF) SELECT FROM near n JOIN near m ON n.b = m.s WHERE n.s = 5;
RESET enable_seqscan;
-- what is known of a key proves predicates, constraints and partitions
CREATE TABLE known (id snowflake CHECK (id > 100), n int);
CREATE INDEX known_high ON known (id) WHERE id > 99000;
CREATE UNIQUE INDEX ON known (n) WHERE id > 500;
INSERT INTO known VALUES (600, 1) ON CONFLICT (n) WHERE id = 600 DO NOTHING;
SET constraint_exclusion = on;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT FROM known WHERE id = 99500;
EXPLAIN (COSTS OFF) SELECT FROM known WHERE id IN (99500, 99600);
SELECT estimate('SELECT FROM known WHERE id = 5::bigint'), estimate('SELECT FROM known WHERE id = ''150'' AND id > 700');
RESET enable_seqscan;
RESET constraint_exclusion;
CREATE TABLE ranged (id bigint) PARTITION BY RANGE (id);
CREATE TABLE ranged_low PARTITION OF ranged FOR VALUES FROM (0) TO (10);
CREATE TABLE ranged_high PARTITION OF ranged FOR VALUES FROM (10) TO (20);
EXPLAIN (COSTS OFF) SELECT FROM ranged WHERE id = '5'::snowflake;
EXPLAIN (COSTS OFF) SELECT FROM ranged WHERE id >= '15'::snowflake;
-- a domain over another integer stays what it is
CREATE DOMAIN small_number AS integer;
CREATE TABLE numbers (n small_number, i integer);
INSERT INTO numbers SELECT g, g FROM generate_series(-500, 500) g;
ANALYZE numbers;
SELECT estimate('SELECT FROM numbers WHERE n < 5') = estimate('SELECT FROM numbers WHERE i < 5') AS same;
-- BRIN on a domain, and a cascade into a smaller column
CREATE TABLE brin_domain (id key_domain);
CREATE INDEX ON brin_domain USING brin (id);
INSERT INTO brin_domain SELECT g FROM generate_series(1, 10) g;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM brin_domain WHERE id < 3;
SELECT * FROM brin_domain WHERE id < 3;
RESET enable_seqscan;
CREATE TABLE small (post integer REFERENCES post ON UPDATE CASCADE);
INSERT INTO post VALUES (10, 0);
INSERT INTO small VALUES (10);
UPDATE post SET id = 9 WHERE id = 10;
SELECT * FROM small;
UPDATE post SET id = 3000000000 WHERE id = 9;
-- the operator classes are whole, and no family of the server's has more members: pg_upgrade would lose these
SELECT opcname, amname, amvalidate(o.oid) FROM pg_opclass o JOIN pg_am a ON a.oid = opcmethod
WHERE opcintype = 'snowflake'::regtype ORDER BY 2;
SELECT (SELECT count(*) FROM pg_amop WHERE 'snowflake'::regtype IN (amoplefttype, amoprighttype) AND amopfamily < 16384) AS operators,
	(SELECT count(*) FROM pg_amproc WHERE 'snowflake'::regtype IN (amproclefttype, amprocrighttype) AND amprocfamily < 16384) AS functions;
DROP TABLE numbers, known, ranged, small, thanks, reply, post, brin, brin_domain, near, hashed, daily, change, times;
DROP FUNCTION seen, scans, holds, estimate;
DROP DOMAIN key_domain, small_number;
