-- Conditions on the time of an ID, planned as conditions on the ID.
SET timezone = 'UTC';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE orders (id bigint PRIMARY KEY, v integer);
CREATE TABLE visits (at timestamptz, day date, local timestamp, after bigint);
INSERT INTO orders
	SELECT snowflake_min_id(timestamptz '2025-01-01' + g * interval '1 hour', 'twitter'), g
	FROM generate_series(0, 999) g;
INSERT INTO visits VALUES ('2025-01-02 03:00', '2025-01-03', '2025-01-04 05:00',
	snowflake_min_id('2025-01-05', 'twitter'));
ANALYZE orders, visits;

-- a plan without what only some majors say
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line !~ '^ *(Disabled|Replaces):' THEN
			line := regexp_replace(line, 'InitPlan .*', 'InitPlan');
			RETURN NEXT regexp_replace(line, '\(\(id IS NOT NULL\) AND (.*)\)$', '\1');
		END IF;
	END LOOP;
END $$;

-- each operator, from either side
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') >= '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') < '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') <= '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') = '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE '2025-01-02' <= snowflake_timestamp(id, 'twitter')$$);
SELECT plan($$SELECT * FROM orders WHERE '2025-01-02' < snowflake_timestamp(id, 'twitter')$$);
SELECT plan($$SELECT * FROM orders WHERE '2025-01-02' > snowflake_timestamp(id, 'twitter')$$);
SELECT plan($$SELECT * FROM orders WHERE '2025-01-02' >= snowflake_timestamp(id, 'twitter')$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') BETWEEN '2025-01-02' AND '2025-01-03'$$);
SELECT plan($$SELECT * FROM orders WHERE NOT snowflake_timestamp(id, 'twitter') < '2025-01-02'$$);

-- the configured layout, with what is known when the query begins, and with
-- nothing in the search_path
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id) >= now() - interval '1 hour'$$);
SET search_path = '';
SELECT public.plan($$SELECT * FROM public.orders WHERE public.snowflake_timestamp(id) < CURRENT_DATE$$);
RESET search_path;

-- other types, which depend on the time zone
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') >= date '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE timestamp '2025-01-02' >= snowflake_timestamp(id, 'twitter')$$);

-- parameters: of their own type, in either kind of plan
PREPARE later AS SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > $1;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'later';
SET plan_cache_mode = force_custom_plan;
SELECT plan($$EXECUTE later('2025-01-02')$$);
SET plan_cache_mode = force_generic_plan;
SELECT plan($$EXECUTE later('2025-01-02')$$);
SELECT count(*) FROM (SELECT 1) s CROSS JOIN LATERAL
	(SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 12:00') o;
RESET plan_cache_mode;

-- joins
SELECT plan($$SELECT * FROM visits JOIN orders ON snowflake_timestamp(id, 'twitter') >= at AND snowflake_timestamp(id, 'twitter') < at + interval '1 day'$$);
SELECT plan($$SELECT * FROM visits JOIN orders ON snowflake_timestamp(id, 'twitter') = local$$);
SELECT plan($$SELECT * FROM visits LEFT JOIN orders ON snowflake_timestamp(id, 'twitter') > day AND v > 5$$);
SELECT plan($$SELECT * FROM visits WHERE EXISTS (SELECT FROM orders WHERE snowflake_timestamp(id, 'twitter') > at)$$);
SELECT plan($$SELECT * FROM visits JOIN orders ON snowflake_timestamp(id, 'twitter') >= snowflake_timestamp(after, 'twitter')$$);
SET enable_nestloop = off;
SET enable_mergejoin = off;
SET enable_seqscan = on;
SELECT plan($$SELECT * FROM visits JOIN orders ON snowflake_timestamp(id, 'twitter') = at$$);
RESET enable_nestloop;
RESET enable_mergejoin;
SET enable_seqscan = off;

-- a full join takes no condition that it can neither sort nor hash by
SELECT count(*), count(day), count(id) FROM orders FULL JOIN visits ON snowflake_timestamp(id, 'twitter') = day;
SELECT count(*), count(local), count(id) FROM orders FULL JOIN visits ON snowflake_timestamp(id, 'twitter') = local;

-- views, subqueries, OR
CREATE VIEW orders_at AS SELECT snowflake_timestamp(id, 'twitter') AS created_at, * FROM orders;
SELECT plan($$SELECT * FROM orders_at WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT * FROM orders_at ORDER BY id LIMIT 10) s WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT created_at, v, count(*) FROM orders_at GROUP BY id, created_at, v) s WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) s WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SET enable_bitmapscan = on;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') < '2025-01-02' OR snowflake_timestamp(id, 'twitter') > '2025-02-11' AND v > 5$$);
SET enable_bitmapscan = off;
SELECT plan($$SELECT min(id) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);

-- changes
SELECT plan($$UPDATE orders SET v = 0 WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$DELETE FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$MERGE INTO orders o USING visits ON snowflake_timestamp(o.id, 'twitter') > at WHEN MATCHED THEN DELETE$$);

-- beyond the layout, which no snowflake_min_id() takes
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > 'infinity'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '9999-01-01' OR v = 5$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '9999-01-01' OR snowflake_timestamp(id, 'twitter') < '-infinity'$$);
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') < '9999-01-01';
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '-infinity';

-- left as it is: no layout, what changes from row to row, what is no range,
-- NULL that counts, and what the user has an index on
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'no layout') > '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > clock_timestamp()$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > timestamptz '2025-01-02' + v * interval '1 day'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') <> '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE (snowflake_timestamp(id, 'twitter') > '9999-01-01') IS NOT TRUE$$);
SELECT plan($$SELECT * FROM orders WHERE (snowflake_timestamp(id, 'twitter'), id) > ('2025-01-02', 5)$$);
CREATE TABLE indexed (id bigint);
CREATE INDEX indexed_at ON indexed (snowflake_timestamp(id, 'twitter'));
SELECT plan($$SELECT * FROM indexed WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);

-- a partial index is still found, and BRIN
DROP INDEX indexed_at;
CREATE INDEX indexed_part ON indexed (id) WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02Z'::timestamptz;
SELECT plan($$SELECT * FROM indexed WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);
DROP INDEX indexed_part;
CREATE INDEX indexed_brin ON indexed USING brin (id);
SET enable_bitmapscan = on;
SELECT plan($$SELECT * FROM indexed WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);
SET enable_bitmapscan = off;

-- the configured form is refused where it would have to be immutable
\set VERBOSITY sqlstate
CREATE INDEX ON orders (snowflake_timestamp(id));
CREATE INDEX ON orders (v) WHERE snowflake_timestamp(id) > '2025-01-02Z';
ALTER TABLE orders ADD COLUMN created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id)) STORED;
\set VERBOSITY default
CREATE TABLE generated (id bigint PRIMARY KEY,
	created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED);
INSERT INTO generated VALUES (0);
SELECT * FROM generated;

-- partitions are pruned, by the planner and by the executor
CREATE TABLE events (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (MINVALUE) TO (1874372000000000000);
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM (1874372000000000000) TO (1874772000000000000);
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM (1874772000000000000) TO (MAXVALUE);
SELECT plan($$SELECT * FROM events WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);
SELECT plan($$SELECT * FROM events WHERE snowflake_timestamp(id, 'twitter') < date '2025-01-01'$$);
SELECT plan($$SELECT * FROM events WHERE id < snowflake_min_id('2025-01-01', 'twitter')$$);
CREATE TABLE by_time (id bigint) PARTITION BY RANGE (snowflake_timestamp(id, 'twitter'));
CREATE TABLE by_time_1 PARTITION OF by_time FOR VALUES FROM (MINVALUE) TO ('2025-01-01');
CREATE TABLE by_time_2 PARTITION OF by_time FOR VALUES FROM ('2025-01-01') TO (MAXVALUE);
SET enable_seqscan = on;
SELECT plan($$SELECT * FROM by_time WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);

-- a policy's condition, and one beside it that may run first
CREATE ROLE snowflake_reader;
GRANT SELECT ON orders TO snowflake_reader;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY recent ON orders USING (snowflake_timestamp(id, 'twitter') > '2025-02-11');
SET enable_seqscan = off;
SET ROLE snowflake_reader;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00'$$);
RESET ROLE;
-- who may not call the bounds gets the rows all the same
REVOKE EXECUTE ON FUNCTION snowflake_id_after("any", text) FROM PUBLIC;
SET ROLE snowflake_reader;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00'$$);
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00';
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_id_after("any", text) TO PUBLIC;
-- ... and who may not call the function itself gets none
REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) FROM PUBLIC;
SET ROLE snowflake_reader;
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00';
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) TO PUBLIC;
DROP POLICY recent ON orders;
ALTER TABLE orders DISABLE ROW LEVEL SECURITY;

-- The same rows as the filter finds, for IDs and times around every edge: of
-- ticks, of the layouts, of what a timestamp can be.  OFFSET 0 keeps the
-- planner from seeing the function.
CREATE TABLE edges (id bigint);
INSERT INTO edges
	SELECT DISTINCT base + d FROM (VALUES (0), (-9223372036854775808 + 3), (9223372036854775807 - 3),
		(1::bigint << 41), (1::bigint << 53), (1::bigint << 62), (-1::bigint << 62),
		(snowflake_min_id('2025-01-01', 'twitter')), (snowflake_min_id('2025-01-01', 'sonyflake')),
		(snowflake_max_id('2025-01-01', 'snowflake'))) b(base),
		(VALUES (-3), (-1), (0), (1), (3)) d(d)
	WHERE base > 0 OR base + d < 0 OR base = 0;
INSERT INTO edges VALUES (NULL), (-9223372036854775808), (9223372036854775807);
CREATE INDEX ON edges (id);
CREATE TABLE moments (t timestamptz, ts timestamp, d date);
INSERT INTO moments
	SELECT t + m * interval '1 us', (t + m * interval '1 us')::timestamp, t::date
	FROM (SELECT unnest(ARRAY['2025-01-01', '2006-01-01', '1970-01-01', '2024-01-01',
			'2010-11-04 01:42:54.657', '2014-09-01', '4713-01-01 BC', '294276-12-31 23:59:59.999']::timestamptz[])
		UNION SELECT snowflake_timestamp(id, l) FROM edges,
			(VALUES ('twitter'), ('sonyflake'), ('snowflake')) l(l) WHERE id IS NOT NULL) s(t),
		generate_series(-1, 1) m
	WHERE isfinite(t);
INSERT INTO moments VALUES ('infinity', 'infinity', 'infinity'),
	('-infinity', '-infinity', '-infinity'), (NULL, NULL, NULL),
	('294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999', '5874897-12-31'),
	('4714-11-24 00:00:00+00 BC', '4714-11-24 00:00:00 BC', '4714-11-24 BC');

CREATE FUNCTION compare(layout text, zone text)
RETURNS TABLE (comparisons bigint, rows bigint, wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
	m record;
	op text;
	time text;
	call text := format('snowflake_timestamp(id, %L)', layout);
	fast bigint[];
	slow bigint[];
BEGIN
	PERFORM set_config('timezone', zone, true), set_config('datestyle', 'ISO', true);
	comparisons := 0; rows := 0; wrong := 0;
	FOR m IN SELECT * FROM moments LOOP
		FOREACH op IN ARRAY '{<,<=,=,>=,>}'::text[] LOOP
			FOREACH time IN ARRAY ARRAY[quote_nullable(m.t) || '::timestamptz',
				quote_nullable(m.ts) || '::timestamp', quote_nullable(m.d) || '::date',
				'(SELECT ' || quote_nullable(m.t) || '::timestamptz)'] LOOP
				EXECUTE format('SELECT array_agg(id ORDER BY id), (SELECT array_agg(id ORDER BY id)
						FROM (SELECT id, %1$s AS at FROM edges OFFSET 0) s WHERE at %2$s %3$s)
					FROM edges WHERE %1$s %2$s %3$s', call, op, time) INTO fast, slow;
				comparisons := comparisons + 1;
				rows := rows + coalesce(cardinality(fast), 0);
				IF fast IS DISTINCT FROM slow THEN
					wrong := wrong + 1;
					RAISE WARNING '% % %: % but not %', call, op, time, fast, slow;
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN NEXT;
END $$;
-- where the server forgets its caches all the time, not here: it plans thousands
SET debug_discard_caches = 0;
SELECT layout, zone, comparisons > 1000 AS many, rows > 1000 AS found, wrong
FROM (VALUES ('twitter', 'UTC'), ('sonyflake', 'America/New_York'), ('snowflake', 'Asia/Tokyo'),
	('timestamp:48 sequence:1 tick:1s', 'Australia/Lord_Howe'), ('timestamp:1 node:31 shard:31 sequence:1', 'UTC')) l(layout, zone),
	LATERAL compare(layout, zone) c;
RESET debug_discard_caches;

-- estimates come from the column's histogram
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
SELECT estimate($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') >= '2025-01-11 10:00'$$) =
	estimate($$SELECT * FROM orders WHERE id >= snowflake_min_id('2025-01-11 10:00', 'twitter')$$) AS same,
	estimate($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') >= '2025-01-11 10:00'$$) BETWEEN 700 AND 800 AS good;

-- what the plans call takes times only
SELECT snowflake_id_from(5);
SELECT snowflake_id_from('2025-01-02');
SELECT snowflake_id_at(snowflake_min_id('2025-01-02', 'twitter') + 5, timestamptz '2025-01-02', 'twitter'),
	snowflake_id_at(-1, date '2025-01-02', 'twitter');

DROP TABLE orders, visits, indexed, generated, events, by_time, edges, moments CASCADE;
DROP FUNCTION plan, compare, estimate;
DROP ROLE snowflake_reader;
