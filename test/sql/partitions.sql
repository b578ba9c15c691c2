-- Tables that are partitioned by ranges of IDs.
SET timezone = 'UTC';
SET client_min_messages = warning;
\pset null '-'
\pset format unaligned
\pset tuples_only
CREATE SCHEMA parts;
SET search_path = parts, public;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)
	PARTITION BY RANGE (id);

-- months of UTC, whatever the time zone; only missing ones are made
SET timezone = 'Pacific/Auckland';
SELECT snowflake_create_partitions('orders', '1 month', '2026-10-15', '2026-12-02 00:00:00+00');
SET timezone = 'UTC';
SELECT * FROM snowflake_create_partitions('orders', '1 month', '2026-10-31 23:59:59.999', '2026-12-01');
SELECT * FROM snowflake_create_partitions('orders', '1 month',
	start => '2026-12-31', until => '2027-01-01 00:00:00.000001');
SELECT partition, from_time, until_time, is_default FROM snowflake_partitions('orders');
-- the bounds are the first IDs of their ticks, without gaps
SELECT bool_and(from_id = snowflake_min_id(from_time)) AS from_exact,
	bool_and(until_id = snowflake_min_id(until_time)) AS until_exact,
	count(*) FILTER (WHERE from_id = before) AS touching
FROM (SELECT *, lag(until_id) OVER (ORDER BY from_id) AS before FROM snowflake_partitions('orders')) p;
INSERT INTO orders SELECT id, 'at a bound' FROM (VALUES
	(snowflake_min_id('2026-11-01')), (snowflake_max_id('2026-11-30 23:59:59.999')),
	(snowflake_min_id('2026-12-01')), (snowflake_max_id('2026-10-31 23:59:59.999'))) v(id);
SELECT tableoid::regclass, snowflake_timestamp(id) FROM orders ORDER BY id;

-- row estimates: unknown before the first ANALYZE
SELECT partition, estimated_rows FROM snowflake_partitions('orders');
ANALYZE orders;
SELECT partition, estimated_rows FROM snowflake_partitions('orders');

-- partitions are pruned in the planner if the call names a layout ...
SET enable_bitmapscan = off;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM orders
WHERE id >= snowflake_min_id('2026-11-01+00', 'snowflake') AND id < snowflake_min_id('2026-12-01+00', 'snowflake');
-- ... and otherwise in the executor
EXPLAIN (COSTS OFF) SELECT * FROM orders
WHERE id >= snowflake_min_id('2026-11-01+00') AND id < snowflake_min_id('2026-12-01+00');
RESET enable_bitmapscan;
RESET enable_indexscan;

-- how steps are cut and named; the range may begin within a step
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE FUNCTION cut(step interval, start timestamptz, until timestamptz, layout text DEFAULT NULL)
RETURNS TABLE (name text, from_time timestamptz, until_time timestamptz, again bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM snowflake_create_partitions('t', $1, $2, $3, $4);
	RETURN QUERY SELECT p.partition::text, p.from_time, p.until_time,
		(SELECT count(*) FROM snowflake_create_partitions('t', $1, $2, $3, $4))
		FROM snowflake_partitions('t', $4) p;
	DROP TABLE t;
	CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
END $$;
SELECT step, c.* FROM (VALUES
	('1 year', '2026-11-21', '2028-01-01'),
	('10 years', '2026-11-21', '2026-11-22'),
	('3 months', '2026-11-21', '2027-01-02'),
	('5 months', '2026-11-21', '2027-01-02'),
	('1 week', '2026-12-21', '2027-01-11'),
	('2 weeks', '2026-11-21', '2026-11-22'),
	('1 day', '2028-02-28 12:00', '2028-03-01'),
	('24 hours', '2026-11-21', '2026-11-22'),
	('10 days', '2026-11-21', '2026-11-22'),
	('1 hour', '2026-11-21 22:30', '2026-11-22 00:30'),
	('6 hours', '2026-11-21 13:00', '2026-11-21 13:00:01'),
	('15 minutes', '2026-11-21 13:05', '2026-11-21 13:16'),
	('1 day 12 hours', '2026-11-21', '2026-11-21 00:00:01')) v (step, start, until),
	cut(step::interval, start::timestamptz, until::timestamptz) c;

-- another layout: if it is named, nothing must be preloaded. There are no
-- partitions before the epoch, and the last step of the layout has no end
SELECT step, c.* FROM (VALUES
	('1 month', '2010-11-04 01:42:55', '2010-12-02', 'twitter'),
	('1 year', '2079-01-01', '2080-07-10', 'twitter'),
	('1 year', '2092-01-01', '2093-09-01', 'javascript'),
	('1 minute', '294276-12-31 23:59', '294276-12-31 23:59:01', 'timestamp:48 sequence:12 tick:1s'),
	('1000 years', '294276-12-31', '294276-12-31 00:00:01', 'timestamp:48 sequence:12 tick:1s'),
	('366000 days', '294276-12-31', '294276-12-31 00:00:01', 'timestamp:48 sequence:12 tick:1s')) v (step, start, until, layout),
	cut(step::interval, start::timestamptz, until::timestamptz, layout) c;
SELECT count(*) FROM (VALUES (NULL), ('twitter'), (NULL)) v(l), snowflake_partitions('orders', l);

-- texts that are no step
SELECT snowflake_create_partitions('t', '1 month 1 day', '2026-11-21', '2026-11-22');
\set VERBOSITY terse
SELECT snowflake_create_partitions('t', '0', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '-1 month', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '-1 hour', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '90 seconds', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '1001 years', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '366001 days', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '-2147483648 days', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('t', '2147483647 days', '2026-11-21', '2026-11-22');
\set VERBOSITY sqlstate
SELECT snowflake_create_partitions('t', '2147483647 months 2147483647 days 2562047788:00:54.775807', '2026-11-21', '2026-11-22');
-- values that are no range
\set VERBOSITY default
SELECT snowflake_create_partitions('t', '1 day', '2026-11-21', '2026-11-21');
SELECT snowflake_create_partitions('t', '1 day', '2026-11-21', '2026-11-20');
SELECT snowflake_create_partitions('t', '1 day', '-infinity', '2026-11-20');
\set VERBOSITY terse
SELECT snowflake_create_partitions('t', '1 day', '2026-11-21', 'infinity');
SELECT snowflake_create_partitions('t', '1 day', '2010-11-04 01:42:54', '2011-01-01', 'twitter');
SELECT snowflake_create_partitions('t', '1 day', '2080-07-10', '2080-07-11', 'twitter');
\set VERBOSITY default
SELECT snowflake_create_partitions('t', '1 minute', '2026-01-01', '2027-01-01');
SELECT snowflake_create_partitions('t', NULL, '2026-01-01', '2027-01-01');
SELECT snowflake_create_partitions('t', '1 day', '2026-01-01', '2026-01-02', 'no layout');
SELECT count(*) FROM snowflake_partitions('t');
SELECT count(*) FROM snowflake_partitions(NULL);

-- tables that are not partitioned by IDs
CREATE TABLE plain (id bigint PRIMARY KEY);
CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
CREATE TABLE by_integer (id integer) PARTITION BY RANGE (id);
CREATE TABLE by_two (id bigint, region text) PARTITION BY RANGE (id, region);
CREATE TABLE by_expression (id bigint) PARTITION BY RANGE ((id / 2));
SELECT snowflake_create_partitions('plain', '1 day', '2026-11-21', '2026-11-22');
\set VERBOSITY terse
SELECT snowflake_create_partitions('plain_pkey', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('by_list', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('by_integer', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('by_two', '1 day', '2026-11-21', '2026-11-22');
SELECT snowflake_create_partitions('by_expression', '1 day', '2026-11-21', '2026-11-22');
SELECT * FROM snowflake_partitions('plain');
SELECT snowflake_create_partitions(4294967295::regclass, '1 day', '2026-11-21', '2026-11-22');
\set VERBOSITY default
CREATE DOMAIN key AS bigint CHECK (VALUE > 0);
CREATE TABLE by_domain (id key) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('by_domain', '1 day', '2026-11-21', '2026-11-22');

-- an existing partition counts, whatever its name; one that overlaps is named
DO $$
BEGIN
	EXECUTE format('CREATE TABLE mine PARTITION OF t FOR VALUES FROM (%s) TO (%s)',
		snowflake_min_id('2026-11-01'), snowflake_min_id('2026-12-01'));
	EXECUTE format('CREATE TABLE below PARTITION OF t FOR VALUES FROM (MINVALUE) TO (%s)',
		snowflake_min_id('2026-09-15'));
	EXECUTE format('CREATE TABLE above PARTITION OF t FOR VALUES FROM (%s) TO (MAXVALUE)',
		snowflake_min_id('2027-02-01'));
END $$;
SELECT snowflake_create_partitions('t', '1 month', '2026-10-01', '2027-01-01');
SELECT snowflake_create_partitions('t', '1 month', '2026-09-01', '2026-10-01');
SELECT snowflake_create_partitions('t', '1 month', '2026-10-31 23:59:59.999999', '2027-01-01 00:00:00.000001');
SELECT snowflake_create_partitions('t', '1 month', '2027-01-01', '2027-03-01');
SELECT snowflake_create_partitions('t', '3 months', '2026-11-01', '2026-12-01');
SELECT snowflake_create_partitions('t', '1 day', '2026-11-01', '2026-11-02');
SELECT partition, from_time, until_time, from_id IS NULL AS open, until_id IS NULL AS open FROM snowflake_partitions('t');

-- a default partition
CREATE TABLE rest PARTITION OF t DEFAULT;
SELECT partition, from_time, is_default FROM snowflake_partitions('t') WHERE is_default;
SELECT snowflake_create_partitions('t', '1 day', '2026-09-16', '2026-09-17');
INSERT INTO t VALUES (snowflake_min_id('2026-09-18'));
SELECT snowflake_create_partitions('t', '1 day', '2026-09-17', '2026-09-19');
SELECT count(*) FROM snowflake_partitions('t');
DROP TABLE t;

-- another relation has the name
CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
CREATE VIEW t_p2026_11_21 AS SELECT 1;
SELECT snowflake_create_partitions('t', '1 day', '2026-11-20', '2026-11-22');
DROP VIEW t_p2026_11_21;
SELECT count(*) FROM snowflake_partitions('t');

-- a long name is cut at the end of a character, and keeps what distinguishes it
CREATE TABLE "a long name of a table, with a quote "" and what else is to be" (id bigint) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('"a long name of a table, with a quote "" and what else is to be"',
	'1 minute', '2026-11-21 13:05', '2026-11-21 13:07');
DROP TABLE "a long name of a table, with a quote "" and what else is to be";

-- partitions of partitions
DO $$
BEGIN
	EXECUTE format('CREATE TABLE t_big PARTITION OF t FOR VALUES FROM (%s) TO (%s) PARTITION BY RANGE (id)',
		snowflake_min_id('2026-11-01'), snowflake_min_id('2026-12-01'));
END $$;
SELECT snowflake_create_partitions('t', '1 month', '2026-11-01', '2026-12-01');
SELECT snowflake_create_partitions('t_big', '1 day', '2026-11-21', '2026-11-23');
SELECT partition, estimated_rows FROM snowflake_partitions('t');
INSERT INTO t SELECT snowflake_min_id('2026-11-21') + i FROM generate_series(1, 10) i;
INSERT INTO t SELECT snowflake_min_id('2026-11-22') + i FROM generate_series(1, 20) i;
ANALYZE t;
SELECT partition, estimated_rows FROM snowflake_partitions('t');
SELECT partition, estimated_rows FROM snowflake_partitions('t_big');

-- nothing depends on search_path, and no object there is used by mistake
CREATE SCHEMA evil;
CREATE FUNCTION evil.less(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil'; END $$;
CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.less);
CREATE OPERATOR evil.>= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.less);
CREATE TABLE evil.orders (id bigint) PARTITION BY RANGE (id);
CREATE TABLE evil.orders_p2027_01 ();
SET search_path = evil, pg_catalog, public;
SELECT snowflake_create_partitions('parts.orders', '1 month', '2027-01-01', '2027-02-01');
SET search_path = '';
SELECT public.snowflake_create_partitions('parts.orders', '1 month', '2027-02-01', '2027-03-01');
SET search_path = parts, public;
DROP SCHEMA evil CASCADE;

-- temporary tables
CREATE TEMP TABLE passing (id bigint) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('passing', '1 day', '2026-11-21', '2026-11-22');
SELECT relpersistence FROM pg_class WHERE relname = 'passing_p2026_11_21';

-- allowed: the owner of the parent, if the role may create tables in its schema
CREATE ROLE snowflake_owner;
CREATE ROLE snowflake_member IN ROLE snowflake_owner;
CREATE ROLE snowflake_other;
GRANT USAGE ON SCHEMA parts TO snowflake_owner, snowflake_other;
GRANT ALL ON t TO snowflake_other;
ALTER TABLE t OWNER TO snowflake_owner;
ALTER TABLE t_big OWNER TO snowflake_owner;
SET ROLE snowflake_other;
SELECT snowflake_create_partitions('t', '1 month', '2026-12-01', '2027-01-01');
SELECT count(*) FROM snowflake_partitions('t');
SET ROLE snowflake_owner;
\set VERBOSITY terse
SELECT snowflake_create_partitions('t', '1 month', '2026-12-01', '2027-01-01');
\set VERBOSITY default
RESET ROLE;
GRANT CREATE ON SCHEMA parts TO snowflake_owner;
SET ROLE snowflake_owner;
SELECT snowflake_create_partitions('t', '1 month', '2026-12-01', '2027-01-01');
SET ROLE snowflake_member;
SELECT snowflake_create_partitions('t', '1 month', '2027-01-01', '2027-02-01');
RESET ROLE;
REVOKE CREATE ON SCHEMA parts FROM snowflake_owner;
-- a superuser makes them with the rights of the owner
SELECT snowflake_create_partitions('t', '1 month', '2027-02-01', '2027-03-01');
GRANT CREATE ON SCHEMA parts TO snowflake_owner;
SELECT snowflake_create_partitions('t', '1 month', '2027-02-01', '2027-03-01');
-- all of them belong to the owner
SELECT p.partition, c.relowner::regrole FROM snowflake_partitions('t') p JOIN pg_class c ON c.oid = p.partition ORDER BY from_id;

-- a read-only transaction, and one that is rolled back
BEGIN READ ONLY;
SELECT snowflake_create_partitions('t', '1 month', '2027-03-01', '2027-04-01');
ROLLBACK;
BEGIN;
SELECT snowflake_create_partitions('t', '1 month', '2027-03-01', '2027-04-01');
ROLLBACK;
SELECT count(*) FROM snowflake_partitions('t');

-- partitions get the same from their parent as with CREATE TABLE ... PARTITION
-- OF
CREATE TABLE users (id bigint PRIMARY KEY);
CREATE TABLE rich (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
	user_id bigint REFERENCES users, n integer CHECK (n > 0), twice integer GENERATED ALWAYS AS (n * 2) STORED)
	PARTITION BY RANGE (id);
CREATE INDEX ON rich (user_id) WHERE n > 1;
SELECT snowflake_create_partitions('rich', '1 day', '2026-11-21', '2026-11-22');
SELECT contype, count(*) FROM pg_constraint
WHERE conrelid = 'rich_p2026_11_21'::regclass AND contype <> 'n' GROUP BY 1 ORDER BY 1;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'rich_p2026_11_21'::regclass ORDER BY 1;
SELECT attname, attgenerated, pg_get_expr(adbin, adrelid) FROM pg_attribute
JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = 'rich_p2026_11_21'::regclass ORDER BY 1;

-- locks: if no partition is missing, none that other sessions would notice
BEGIN;
SELECT snowflake_create_partitions('rich', '1 day', '2026-11-21', '2026-11-22');
SELECT mode FROM pg_locks WHERE relation = 'rich'::regclass AND pid = pg_backend_pid();
SELECT count(*) FROM snowflake_create_partitions('rich', '1 day', '2026-11-22', '2026-11-23');
SELECT mode FROM pg_locks WHERE relation = 'rich'::regclass AND pid = pg_backend_pid() ORDER BY 1;
ROLLBACK;

-- dropping old partitions: those that lie wholly before a time, and no others
CREATE TABLE log (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text) PARTITION BY RANGE (id);
CREATE TABLE log_rest PARTITION OF log DEFAULT;
CREATE TABLE log_before PARTITION OF log FOR VALUES FROM (MINVALUE) TO (-100);
CREATE TABLE log_below PARTITION OF log FOR VALUES FROM (-100) TO (100);
SELECT snowflake_create_partitions('log', '1 month', '2024-03-01', '2024-07-01');
INSERT INTO log VALUES (-1000), (1), (snowflake_min_id('2024-02-01')),
	(snowflake_max_id('2024-03-31 23:59:59.999')), (snowflake_min_id('2024-04-01'));
-- unless no partition is of the present: the layout may be another one
SELECT snowflake_drop_partitions('log', '2024-06-01');
SELECT count(*) FROM snowflake_drop_partitions('log', '2024-03-31 23:59:59.999');
DO $$
BEGIN
	EXECUTE format('CREATE TABLE log_now PARTITION OF log FOR VALUES FROM (%s) TO (MAXVALUE)',
		snowflake_min_id('2024-07-01'));
END $$;
SELECT count(*) FROM snowflake_drop_partitions('log', '2024-03-31 23:59:59.999');
SELECT snowflake_drop_partitions('log', '2024-04-01');
SELECT snowflake_drop_partitions('log', '2024-05-31 23:59:59.999999');
SELECT count(*) FROM snowflake_drop_partitions('log', '2024-05-31 23:59:59.999999');
SELECT count(*) FROM snowflake_drop_partitions('log', '-infinity');
SELECT partition FROM snowflake_partitions('log');
SELECT tableoid::regclass, count(*) FROM log GROUP BY tableoid ORDER BY 1;
-- prepared plans: of the call, and of a query that reads a dropped partition
PREPARE over(timestamptz) AS SELECT * FROM snowflake_drop_partitions('log', $1, 'snowflake');
PREPARE reads AS SELECT count(*) FROM log;
EXECUTE reads;
EXECUTE over('2024-06-30');
EXECUTE over('2024-07-01');
EXECUTE reads;
SELECT snowflake_create_partitions('log', '1 month', '2024-03-01', '2024-04-01');
INSERT INTO log VALUES (snowflake_min_id('2024-03-05'));
EXECUTE reads;
EXECUTE over('2024-07-01');
EXECUTE reads;
DEALLOCATE ALL;
SELECT snowflake_create_partitions('log', '1 month', '2024-06-01', '2024-07-01');
BEGIN;
SELECT snowflake_drop_partitions('log', now(), 'snowflake');
ROLLBACK;
BEGIN READ ONLY;
SELECT snowflake_drop_partitions('log', '2024-06-01');
ROLLBACK;
-- a time in the future is refused as a typing error
SELECT snowflake_drop_partitions('log', clock_timestamp() + interval '1 minute');
SELECT snowflake_drop_partitions('log', 'infinity');
SELECT snowflake_drop_partitions('log', NULL);
SELECT snowflake_drop_partitions(NULL, '2024-06-01');
SELECT snowflake_drop_partitions('log', '2024-06-01', 'no layout');
SELECT snowflake_drop_partitions('plain', '2024-06-01');
-- another layout: an earlier epoch would make the rows look older than they are
CREATE TABLE recent (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT count(*) > 1 AS made FROM snowflake_create_partitions('recent', '1 month', now() - interval '3 months', now() + interval '3 months');
SELECT count(*) FROM snowflake_drop_partitions('recent', now() - interval '1 year');
\set VERBOSITY sqlstate
SELECT snowflake_drop_partitions('recent', now() - interval '6 months', 'pgedge');
SELECT snowflake_drop_partitions('recent', now() - interval '6 months', 'twitter');
-- a partition without an end does not make the rows look younger
BEGIN;
DO $$
BEGIN
	EXECUTE format('CREATE TABLE recent_rest PARTITION OF recent FOR VALUES FROM (%s) TO (MAXVALUE)',
		(SELECT max(until_id) FROM snowflake_partitions('recent')));
END $$;
SELECT snowflake_drop_partitions('recent', now() - interval '6 months', 'twitter');
ROLLBACK;
\set VERBOSITY default
SELECT count(*) BETWEEN 2 AND 4 AS dropped FROM snowflake_drop_partitions('recent', now(), 'snowflake');
SELECT count(*) FROM snowflake_drop_partitions('recent', now());

-- partitions that are partitioned, lie in another schema, or have a strange
-- name
CREATE TABLE tree (id bigint DEFAULT snowflake_nextval(), region text) PARTITION BY RANGE (id);
CREATE TABLE tree_now PARTITION OF tree FOR VALUES FROM (400000000000000000) TO (MAXVALUE);
CREATE TABLE tree_old PARTITION OF tree FOR VALUES FROM (370000000000000) TO (400000000000000) PARTITION BY LIST (region);
CREATE TABLE tree_old_eu PARTITION OF tree_old FOR VALUES IN ('eu');
CREATE TABLE tree_old_us PARTITION OF tree_old FOR VALUES IN ('us') PARTITION BY RANGE (id);
CREATE TABLE tree_old_us_1 PARTITION OF tree_old_us FOR VALUES FROM (370000000000000) TO (380000000000000);
CREATE SCHEMA "Old, ""parts""";
CREATE TABLE "Old, ""parts"""."Tree; 2" PARTITION OF tree FOR VALUES FROM (400000000000000) TO (800000000000000);
SELECT snowflake_drop_partitions('tree', '2024-02-01', 'snowflake');
SELECT count(*) FROM pg_class WHERE relname ~ '^tree_old' OR relname = 'Tree; 2';
DROP SCHEMA "Old, ""parts""";

-- keys of a sequence, from before a conversion, have no time
CREATE TABLE serials (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE serials_1 PARTITION OF serials FOR VALUES FROM (0) TO (1000000);
CREATE TABLE serials_2 PARTITION OF serials FOR VALUES FROM (1000000) TO (362387865600000);
CREATE TABLE serials_3 PARTITION OF serials FOR VALUES FROM (362387865600000) TO (362387865600001);
CREATE TABLE serials_now PARTITION OF serials FOR VALUES FROM (400000000000000000) TO (MAXVALUE);
SELECT snowflake_min_id('2024-01-02+00') AS second_day;
SELECT snowflake_drop_partitions('serials', now() - interval '1 year', 'snowflake');
SELECT partition FROM snowflake_partitions('serials');
-- they may lie in the first partition of the calendar, too
CREATE TABLE mixed (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
SELECT count(*) > 12 AS made FROM snowflake_create_partitions('mixed', '1 month', '2024-01-01', now() + interval '1 second');
INSERT INTO mixed SELECT generate_series(1, 1000);
SELECT snowflake_drop_partitions('mixed', '2024-03-01');
SELECT count(*) FROM mixed;
-- rows of an earlier layout look older than they are: that of the default is not theirs
CREATE TABLE earlier (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text) PARTITION BY RANGE (id);
SELECT count(*) > 0 AS made FROM snowflake_create_partitions('earlier', '1 week', now(), now() + interval '1 second');
INSERT INTO earlier (item) VALUES ('made just now');
SELECT substring(note FROM 'existing.*') FROM snowflake_convert('earlier', dry_run => false, layout => 'pgedge') WHERE statement ~ 'SET DEFAULT';
SELECT count(*) > 0 AS made FROM snowflake_create_partitions('earlier', '1 day', now(), now() + interval '1 second');
DO $$
DECLARE
	hint text;
BEGIN
	PERFORM snowflake_drop_partitions('earlier', now() - interval '100 days');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RAISE WARNING '%', regexp_replace(hint, '''2.*?''', '''TIME''');
	PERFORM snowflake_drop_partitions('earlier', now() - interval '100 days', 'snowflake');
END $$;
SELECT item FROM earlier;

-- foreign tables: only the local table is dropped
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE tree_far PARTITION OF tree FOR VALUES FROM (370000000000000) TO (400000000000000) SERVER nowhere;
SELECT snowflake_drop_partitions('tree', '2024-02-01', 'snowflake');
SELECT count(*) FROM pg_class WHERE relname = 'tree_far';
DROP FOREIGN DATA WRAPPER nowhere CASCADE;

-- rows that other tables refer to, and objects that depend on a partition
CREATE TABLE paid (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE paid_1 PARTITION OF paid FOR VALUES FROM (370000000000000) TO (400000000000000);
CREATE TABLE paid_2 PARTITION OF paid FOR VALUES FROM (400000000000000) TO (800000000000000);
CREATE TABLE paid_now PARTITION OF paid FOR VALUES FROM (400000000000000000) TO (MAXVALUE);
CREATE TABLE receipt (paid bigint REFERENCES paid);
INSERT INTO paid VALUES (370000000000001), (400000000000001);
INSERT INTO receipt VALUES (400000000000001);
\set VERBOSITY sqlstate
SELECT snowflake_drop_partitions('paid', '2024-02-01', 'snowflake');
\set VERBOSITY default
SELECT count(*) FROM snowflake_partitions('paid');
DELETE FROM receipt;
CREATE VIEW of_paid AS SELECT * FROM paid_2;
SELECT snowflake_drop_partitions('paid', '2024-02-01', 'snowflake');
DROP VIEW of_paid;
SELECT snowflake_drop_partitions('paid', '2024-02-01', 'snowflake');
INSERT INTO receipt VALUES (1);
DROP TABLE receipt;

-- allowed: the owner of the parent, with no other rights than the owner's
CREATE SCHEMA theirs;
GRANT USAGE ON SCHEMA theirs TO snowflake_owner, snowflake_other;
CREATE TABLE theirs.days (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE theirs.days_1 PARTITION OF theirs.days FOR VALUES FROM (370000000000000) TO (400000000000000);
CREATE TABLE theirs.days_2 PARTITION OF theirs.days FOR VALUES FROM (400000000000000) TO (800000000000000);
CREATE TABLE theirs.days_now PARTITION OF theirs.days FOR VALUES FROM (400000000000000000) TO (MAXVALUE);
GRANT ALL ON theirs.days TO snowflake_other;
ALTER TABLE theirs.days OWNER TO snowflake_owner;
ALTER TABLE theirs.days_1 OWNER TO snowflake_owner;
SET ROLE snowflake_other;
SELECT snowflake_drop_partitions('theirs.days', '2024-02-01', 'snowflake');
SET ROLE snowflake_owner;
SELECT snowflake_drop_partitions('theirs.days', '2024-02-01', 'snowflake');
RESET ROLE;
-- a superuser drops with the rights of the parent's owner too
SELECT snowflake_drop_partitions('theirs.days', '2024-02-01', 'snowflake');
SELECT count(*) FROM snowflake_partitions('theirs.days');
ALTER TABLE theirs.days_2 OWNER TO snowflake_owner;
SET ROLE snowflake_member;
SELECT snowflake_drop_partitions('theirs.days', '2024-02-01', 'snowflake');
RESET ROLE;
DROP SCHEMA theirs CASCADE;

-- without a layout, the one of the key's default
CREATE TABLE keys (v integer, id bigint DEFAULT snowflake_nextval('javascript')) PARTITION BY RANGE (id);
SELECT count(*) FROM snowflake_create_partitions('keys', '1 month', now() - interval '5 months', now() - interval '3 months');
SELECT bool_and(from_id = snowflake_min_id(from_time, 'javascript')) FROM snowflake_partitions('keys');
-- a partition without an end counts for it
DO $$
BEGIN
	EXECUTE format('CREATE TABLE keys_rest PARTITION OF keys FOR VALUES FROM (%s) TO (MAXVALUE)',
		(SELECT max(until_id) FROM snowflake_partitions('keys')));
END $$;
INSERT INTO keys DEFAULT VALUES;
SELECT tableoid::regclass FROM keys;
SELECT count(*) FROM snowflake_drop_partitions('keys', now() - interval '4 months');
SELECT count(*) FROM snowflake_drop_partitions('keys', now() - interval '3 months', 'javascript');
SELECT count(*) FROM snowflake_create_partitions('keys', '1 month', now() - interval '5 months', now() - interval '3 months');
\set VERBOSITY sqlstate
SELECT count(*) FROM snowflake_drop_partitions('keys', now() - interval '3 months', 'twitter');
\set VERBOSITY default
CREATE TABLE of_shard (id bigint DEFAULT coalesce(NULL, snowflake_shard_nextval(5))) PARTITION BY RANGE (id);
CREATE TABLE of_node (id bigint DEFAULT snowflake_nextval('node')) PARTITION BY RANGE (id);
CREATE TABLE of_named (id bigint DEFAULT snowflake_nextval(layout => 'javascript')) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions(t, '1 year', '2027-01-01', '2028-01-01')
FROM unnest(ARRAY['of_shard', 'of_node', 'of_named']::regclass[]) t;
SELECT (SELECT from_id FROM snowflake_partitions('of_shard')) = snowflake_min_id('2027-01-01', 'shard') AS shard,
	(SELECT from_id FROM snowflake_partitions('of_node')) = snowflake_min_id('2027-01-01') AS node,
	(SELECT from_id FROM snowflake_partitions('of_named')) = snowflake_min_id('2027-01-01', 'javascript') AS named;
-- nothing is dropped by a guess: what makes the IDs is unknown here, and new rows would
-- look old in the configured layout
CREATE FUNCTION js_id() RETURNS bigint LANGUAGE sql AS $$ SELECT snowflake_nextval('javascript') $$;
CREATE TABLE guessed (id bigint DEFAULT js_id()) PARTITION BY RANGE (id);
SELECT count(*) > 2 AS made FROM snowflake_create_partitions('guessed', '1 month', now() - interval '2 months', now() + interval '1 second', 'javascript');
DO $$
BEGIN
	EXECUTE format('CREATE TABLE guessed_rest PARTITION OF guessed FOR VALUES FROM (%s) TO (MAXVALUE)',
		(SELECT max(until_id) FROM snowflake_partitions('guessed', 'javascript')));
END $$;
INSERT INTO guessed DEFAULT VALUES;
SELECT snowflake_drop_partitions('guessed', '2026-01-01 12:00:00.5');
ALTER TABLE guessed ALTER id DROP DEFAULT;
\set VERBOSITY terse
SELECT snowflake_drop_partitions('guessed', '2026-01-01');
ALTER TABLE guessed ALTER id SET DEFAULT coalesce(NULL, snowflake_nextval());
SELECT snowflake_drop_partitions('guessed', '2026-01-01');
-- nor by a name that is not the default's, if the last partition has no end
ALTER TABLE guessed ALTER id SET DEFAULT snowflake_nextval('javascript');
\set VERBOSITY sqlstate
SELECT snowflake_drop_partitions('guessed', now() - interval '1 day', 'snowflake');
\set VERBOSITY default
SELECT count(*) FROM guessed;
SELECT count(*) >= 1 AS dropped FROM snowflake_drop_partitions('guessed', date_trunc('month', now()), 'javascript');
SELECT count(*) FROM guessed;
-- rows of a partition come through the topmost table, and have its default
CREATE TABLE top (id bigint DEFAULT js_id(), region text) PARTITION BY LIST (region);
CREATE TABLE below (region text, id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
ALTER TABLE top ATTACH PARTITION below FOR VALUES IN ('eu');
CREATE TABLE below_1 PARTITION OF below FOR VALUES FROM (360000000000) TO (400000000000);
CREATE TABLE below_rest PARTITION OF below FOR VALUES FROM (400000000000) TO (MAXVALUE);
\set VERBOSITY terse
SELECT snowflake_drop_partitions('below', '2026-01-01');
ALTER TABLE ONLY top ALTER id SET DEFAULT snowflake_nextval('java' || 'script');
\set VERBOSITY default
SELECT * FROM snowflake_partitions('below');
ALTER TABLE ONLY top ALTER id SET DEFAULT snowflake_nextval('javascript');
SELECT from_id, from_time = snowflake_timestamp(400000000000, 'javascript') AS read FROM snowflake_partitions('below') WHERE from_id > 360000000000;
SELECT snowflake_drop_partitions('below', '2026-01-01');
DROP TABLE top;
-- a layout that cannot be told: the rows could look older than they are
CREATE TABLE of_text (id bigint DEFAULT snowflake_nextval('java' || 'script')) PARTITION BY RANGE (id);
SELECT snowflake_create_partitions('of_text', '1 year', '2027-01-01', '2028-01-01');
\set VERBOSITY terse
SELECT snowflake_drop_partitions('of_text', '2026-01-01');
SELECT * FROM snowflake_partitions('of_text');
SELECT snowflake_create_partitions('of_text', '1 year', '2027-01-01', '2028-01-01', 'javascript');
CREATE TABLE of_text_2 (id bigint DEFAULT snowflake_nextval('java' || 'script'));
SELECT * FROM snowflake_node_conflicts('of_text_2');
-- nor can one of two be told
CREATE TABLE of_two (id bigint DEFAULT CASE WHEN random() < 2 THEN snowflake_nextval('javascript') ELSE snowflake_nextval('twitter') END) PARTITION BY RANGE (id);
SELECT * FROM snowflake_partitions('of_two');
ALTER TABLE of_two ALTER id SET DEFAULT CASE WHEN random() < 2 THEN snowflake_shard_nextval(5) ELSE snowflake_nextval() END;
SELECT * FROM snowflake_partitions('of_two');

DROP SCHEMA parts CASCADE;
DROP ROLE snowflake_member, snowflake_owner, snowflake_other;
