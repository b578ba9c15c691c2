-- Conditions on the time of an ID, planned as conditions on the ID.
\pset format unaligned
\pset tuples_only
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

-- a plan without the lines that differ between majors
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line !~ '^ *(Disabled|Replaces):' THEN
			line := regexp_replace(line, 'InitPlan .*', 'InitPlan');
			-- from 20 on, the name of an index has the arguments of a function
			line := regexp_replace(line, '_id_twitter_idx', '_idx');
			RETURN NEXT regexp_replace(line, '\(\(id IS NOT NULL\) AND (.*)\)$', '\1');
		END IF;
	END LOOP;
END $$;

-- each operator, with the time on either side
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

-- the configured layout, with a time that is known when the query begins, and
-- with an empty search_path
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id) >= now() - interval '1 hour'$$);
SET search_path = '';
SELECT public.plan($$SELECT * FROM public.orders WHERE public.snowflake_timestamp(id) < CURRENT_DATE$$);
RESET search_path;

-- a key whose type is a domain, as for PostgREST
CREATE DOMAIN order_id AS bigint;
CREATE TABLE by_domain (id order_id PRIMARY KEY, v integer);
SELECT plan($$SELECT * FROM by_domain WHERE snowflake_timestamp(id, 'twitter') >= '2025-01-02'$$);
DROP TABLE by_domain;
DROP DOMAIN order_id;

-- other types of time, which depend on the time zone
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') >= date '2025-01-02'$$);
SELECT plan($$SELECT * FROM orders WHERE timestamp '2025-01-02' >= snowflake_timestamp(id, 'twitter')$$);

-- parameters of these types, in both kinds of plan
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

-- a full join takes only conditions that it can sort or hash by
SELECT count(*), count(day), count(id) FROM orders FULL JOIN visits ON snowflake_timestamp(id, 'twitter') = day;
SELECT count(*), count(local), count(id) FROM orders FULL JOIN visits ON snowflake_timestamp(id, 'twitter') = local;

-- an operator class that sorts the other way round
CREATE FUNCTION falling(bigint, bigint) RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint8cmp($2, $1)';
CREATE OPERATOR CLASS int8_falling_ops FOR TYPE bigint USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 falling(bigint, bigint);
CREATE TABLE falling AS SELECT id FROM orders ORDER BY id DESC;
CREATE INDEX ON falling (id int8_falling_ops);
ANALYZE falling;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT plan($$SELECT count(*) FROM visits JOIN falling ON snowflake_timestamp(id, 'twitter') = at$$);
SELECT count(*) FROM visits JOIN falling ON snowflake_timestamp(id, 'twitter') = at;
RESET enable_hashjoin;
RESET enable_mergejoin;
DROP TABLE falling;

-- views, subqueries, OR
CREATE VIEW orders_at AS SELECT snowflake_timestamp(id, 'twitter') AS created_at, * FROM orders;
SELECT plan($$SELECT * FROM orders_at WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT * FROM orders_at ORDER BY id LIMIT 10) s WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT created_at, v, count(*) FROM orders_at GROUP BY id, created_at, v) s WHERE created_at > '2025-01-02'$$);
SELECT plan($$SELECT * FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) s WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SELECT plan($$SELECT * FROM visits JOIN (SELECT * FROM orders UNION ALL SELECT * FROM orders) s ON snowflake_timestamp(id, 'twitter') >= at$$);
SET enable_bitmapscan = on;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') < '2025-01-02' OR snowflake_timestamp(id, 'twitter') > '2025-02-11' AND v > 5$$);
SET enable_bitmapscan = off;
SELECT plan($$SELECT min(id) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);

-- changes
SELECT plan($$UPDATE orders SET v = 0 WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$DELETE FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$MERGE INTO orders o USING visits ON snowflake_timestamp(o.id, 'twitter') > at WHEN MATCHED THEN DELETE$$);

-- times outside the layout, which snowflake_min_id() refuses
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > 'infinity'$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '9999-01-01' OR v = 5$$);
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '9999-01-01' OR snowflake_timestamp(id, 'twitter') < '-infinity'$$);
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') < '9999-01-01';
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '-infinity';

-- left as it is: no layout, a time that changes from row to row, a comparison
-- that is no range, a NULL that counts, and an expression with an index of the
-- user's
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

-- an index on the expression is used in any table that is scanned: a partition,
-- a child, a branch of UNION ALL
CREATE TABLE parts (id bigint, v integer) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (1874772000000000000);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1874772000000000000) TO (MAXVALUE);
CREATE INDEX ON parts_1 (id);
CREATE INDEX ON parts_2 (id);
SELECT plan($$SELECT * FROM parts WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);
CREATE INDEX parts_2_at ON parts_2 (snowflake_timestamp(id, 'twitter'));
SELECT plan($$SELECT * FROM parts WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SELECT plan($$SELECT * FROM parts_1 WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03'$$);
DROP INDEX parts_2_at;
CREATE INDEX parts_at ON parts (snowflake_timestamp(id, 'twitter'));
SELECT plan($$SELECT * FROM parts WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
DROP INDEX parts_at;
CREATE TABLE tree (id bigint, v integer);
CREATE TABLE tree_1 () INHERITS (tree);
CREATE INDEX ON tree (id);
CREATE INDEX tree_1_at ON tree_1 (snowflake_timestamp(id, 'twitter'));
SELECT plan($$SELECT * FROM tree WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SELECT plan($$SELECT * FROM ONLY tree WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SELECT plan($$SELECT * FROM (SELECT * FROM orders UNION ALL SELECT * FROM tree_1) s WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
SELECT plan($$SELECT * FROM (SELECT id, max(v) FROM tree_1 GROUP BY id UNION ALL SELECT id, v FROM orders) s WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11'$$);
-- ... also in a table that a join looks up
SELECT plan($$SELECT * FROM orders JOIN tree_1 ON snowflake_timestamp(orders.id, 'twitter') >= snowflake_timestamp(tree_1.id, 'twitter')$$);
CREATE TABLE times AS SELECT timestamptz '2025-01-02' + n * interval '1 minute' AS at FROM generate_series(0, 999) n;
CREATE INDEX times_at ON times (at);
ANALYZE times;
SELECT plan($$SELECT * FROM (SELECT * FROM orders WHERE v = 5 LIMIT 1) o JOIN times ON snowflake_timestamp(id, 'twitter') >= at$$);
SELECT plan($$SELECT * FROM orders JOIN times ON snowflake_timestamp(id, 'twitter') > at WHERE id = 5$$);
-- ... and a partial index is used for conditions that are left as they are
CREATE INDEX tree_part ON tree (v) WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02Z'::timestamptz;
SELECT plan($$SELECT * FROM ONLY tree WHERE snowflake_timestamp(id, 'twitter') IN ('2025-01-03', '2025-01-04') AND v = 5$$);
SELECT plan($$SELECT * FROM ONLY tree WHERE snowflake_timestamp(id, 'twitter') > '2025-01-03' AND v = 5$$);
DROP TABLE parts, tree, times CASCADE;

-- the setting off: the plan without all this
SET snowflake.time_ranges = off;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-01-02'$$);
SELECT plan($$SELECT * FROM visits JOIN orders ON snowflake_timestamp(id, 'twitter') >= at$$);
RESET snowflake.time_ranges;

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
-- a role that may not call the bounds gets the rows all the same
REVOKE EXECUTE ON FUNCTION snowflake_internal.bound(text, "any", text) FROM PUBLIC;
SET ROLE snowflake_reader;
SELECT plan($$SELECT * FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00'$$);
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00';
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_internal.bound(text, "any", text) TO PUBLIC;
-- ... and a role that may not call the function itself gets none
REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) FROM PUBLIC;
SET ROLE snowflake_reader;
SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00';
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) TO PUBLIC;
-- ... nor by a plan that was made for another role, cached or not
DROP POLICY recent ON orders;
ALTER TABLE orders DISABLE ROW LEVEL SECURITY;
SET plan_cache_mode = force_generic_plan;
REVOKE EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) FROM PUBLIC;
PREPARE kept AS SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > '2025-02-11 01:00';
EXECUTE kept;
SET ROLE snowflake_reader;
EXECUTE kept;
RESET ROLE;
EXECUTE kept;
GRANT EXECUTE ON FUNCTION snowflake_timestamp(bigint, text) TO PUBLIC;
-- ... while a role that may call it gets them, whichever role the plan was made
-- for
REVOKE EXECUTE ON FUNCTION snowflake_internal.bound(text, "any", text), snowflake_internal.is_at(bigint, "any", text) FROM PUBLIC;
PREPARE kept_after AS SELECT count(*) FROM orders WHERE snowflake_timestamp(id, 'twitter') > $1;
PREPARE kept_at AS SELECT count(*) FROM orders JOIN orders o2 ON snowflake_timestamp(orders.id, 'twitter') = snowflake_timestamp(o2.id, 'twitter');
EXECUTE kept_after('2025-02-11 01:00');
EXECUTE kept_at;
SET ROLE snowflake_reader;
EXECUTE kept_after('2025-02-11 01:00');
EXECUTE kept_at;
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_internal.bound(text, "any", text), snowflake_internal.is_at(bigint, "any", text) TO PUBLIC;
RESET plan_cache_mode;
DEALLOCATE ALL;

-- The filter finds the same rows, for IDs and times around every edge: of
-- ticks, of the layouts, and of a timestamp. OFFSET 0 hides the function from
-- the planner.
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
-- not where the server drops its caches all the time: this plans thousands
SET debug_discard_caches = 0;
SELECT layout, zone, comparisons > 1000 AS many, rows > 1000 AS found, wrong
FROM (VALUES ('twitter', 'UTC'), ('sonyflake', 'America/New_York'), ('snowflake', 'Asia/Tokyo'),
	('timestamp:48 sequence:1 tick:1s', 'Australia/Lord_Howe'), ('timestamp:1 node:31 shard:31 sequence:1', 'UTC')) l(layout, zone),
	LATERAL compare(layout, zone) c;

-- the same in tables of other shapes, and in joins where an index takes the
-- bounds
CREATE TABLE edges_falling AS SELECT * FROM edges;
CREATE INDEX ON edges_falling (id int8_falling_ops);
CREATE TABLE edges_parts (id bigint) PARTITION BY RANGE (id);
CREATE TABLE edges_parts_1 PARTITION OF edges_parts FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE edges_parts_2 PARTITION OF edges_parts FOR VALUES FROM (0) TO (1874772000000000000);
CREATE TABLE edges_parts_3 PARTITION OF edges_parts DEFAULT;
CREATE INDEX ON edges_parts (id);
CREATE TABLE edges_mixed (id bigint) PARTITION BY RANGE (id);
CREATE TABLE edges_mixed_1 PARTITION OF edges_mixed FOR VALUES FROM (0) TO (MAXVALUE);
CREATE TABLE edges_mixed_2 PARTITION OF edges_mixed DEFAULT;
CREATE INDEX ON edges_mixed_1 (id);
CREATE INDEX ON edges_mixed_2 (snowflake_timestamp(id, 'twitter'));
CREATE TABLE edges_tree (id bigint);
CREATE TABLE edges_tree_1 (v integer) INHERITS (edges_tree);
CREATE INDEX ON edges_tree (id);
CREATE INDEX ON edges_tree_1 (snowflake_timestamp(id, 'twitter'));
CREATE TABLE edges_partial (id bigint);
CREATE INDEX ON edges_partial (id) WHERE snowflake_timestamp(id, 'twitter') >= '2025-01-01Z'::timestamptz;
CREATE INDEX ON edges_partial (id) WHERE snowflake_timestamp(id, 'twitter') < '2025-01-01Z'::timestamptz;
INSERT INTO edges_parts SELECT * FROM edges;
INSERT INTO edges_mixed SELECT * FROM edges;
INSERT INTO edges_tree SELECT * FROM edges WHERE id % 2 = 0;
INSERT INTO edges_tree_1 SELECT id, 0 FROM edges WHERE id % 2 <> 0 OR id IS NULL;
INSERT INTO edges_partial SELECT * FROM edges;
CREATE VIEW edges_union AS SELECT id FROM edges UNION ALL SELECT id FROM edges_partial;
CREATE INDEX ON moments (t);
ANALYZE edges_falling, edges_parts, edges_mixed, edges_tree, edges_partial, moments;

CREATE FUNCTION compare_shape(shape regclass)
RETURNS TABLE (comparisons bigint, rows bigint, wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
	op text;
	other text;
	fast text[];
	slow text[];
BEGIN
	comparisons := 0; rows := 0; wrong := 0;
	PERFORM set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
		set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);
	FOREACH op IN ARRAY '{<,<=,=,>=,>}'::text[] LOOP
		-- times of another table, and of IDs of the same
		FOREACH other IN ARRAY ARRAY['moments o(t)', '(SELECT d FROM moments) o(t)',
				'(SELECT snowflake_timestamp(id, ''twitter'') FROM edges) o(t)'] LOOP
			EXECUTE format('SELECT array_agg(id || '' '' || t ORDER BY id, t) FROM %1$s
				JOIN %3$s ON snowflake_timestamp(id, ''twitter'') %2$s t', shape, op, other) INTO fast;
			EXECUTE format('SELECT array_agg(id || '' '' || t ORDER BY id, t)
				FROM (SELECT id, snowflake_timestamp(id, ''twitter'') AS at FROM %1$s OFFSET 0) s
				JOIN %3$s ON at %2$s t', shape, op, other) INTO slow;
			comparisons := comparisons + 1;
			rows := rows + coalesce(cardinality(fast), 0);
			wrong := wrong + (fast IS DISTINCT FROM slow)::int;
		END LOOP;
		-- constants
		FOR other IN SELECT DISTINCT t FROM moments WHERE t IS NOT NULL LOOP
			EXECUTE format('SELECT array_agg(id ORDER BY id) FROM %1$s
				WHERE snowflake_timestamp(id, ''twitter'') %2$s %3$L
					OR snowflake_timestamp(id, ''twitter'') = ''2025-01-01''', shape, op, other) INTO fast;
			EXECUTE format('SELECT array_agg(id ORDER BY id)
				FROM (SELECT id, snowflake_timestamp(id, ''twitter'') AS at FROM %1$s OFFSET 0) s
				WHERE at %2$s %3$L OR at = ''2025-01-01''', shape, op, other) INTO slow;
			comparisons := comparisons + 1;
			rows := rows + coalesce(cardinality(fast), 0);
			wrong := wrong + (fast IS DISTINCT FROM slow)::int;
		END LOOP;
	END LOOP;
	RETURN NEXT;
END $$;
SELECT shape, comparisons > 800 AS many, rows > 1000 AS found, wrong
FROM unnest('{edges,edges_falling,edges_parts,edges_mixed,edges_tree,edges_partial,edges_union}'::regclass[]) shape,
	LATERAL compare_shape(shape) c;
RESET debug_discard_caches;
DROP VIEW edges_union;
DROP TABLE edges_falling, edges_parts, edges_mixed, edges_tree, edges_partial CASCADE;
DROP OPERATOR FAMILY int8_falling_ops USING btree;
DROP FUNCTION falling, compare_shape;

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

-- the function in the plans takes only times
SELECT snowflake_internal.bound('>=', 5);
SELECT snowflake_internal.bound('>=', '2025-01-02');
SELECT snowflake_internal.bound('=', timestamptz '2025-01-02');
SELECT snowflake_internal.is_at(snowflake_min_id('2025-01-02', 'twitter') + 5, timestamptz '2025-01-02', 'twitter'),
	snowflake_internal.is_at(-1, date '2025-01-02', 'twitter');

DROP TABLE orders, visits, indexed, generated, events, by_time, edges, moments CASCADE;
DROP FUNCTION plan, compare, estimate;
DROP ROLE snowflake_reader;
