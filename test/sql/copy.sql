-- COPY inserts many rows at a time, as it does with nextval().
-- The CHECK counts the rows of the statement that are in the table already. The
-- count is zero if COPY collects its rows first.
\pset format unaligned
\pset tuples_only
CREATE SCHEMA bulk;
SET search_path = bulk, public;
CREATE FUNCTION seen(relation regclass) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s', relation) INTO n;
	RAISE NOTICE '% rows are in', n;
	RETURN true;
END $$;
CREATE FUNCTION wrapped() RETURNS bigint LANGUAGE sql AS 'SELECT snowflake_nextval()';
CREATE FUNCTION opaque() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN snowflake_nextval(); END';
CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int CHECK (seen('t')));
COPY t (n) FROM stdin;
1
2
3
\.
-- an ID for each row, in their order
SELECT count(DISTINCT id), bool_and(id > before) AS ascends
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before FROM t) s;
SELECT max(id) = snowflake_currval() AS known FROM t;
SELECT max(id) < snowflake_nextval() AS beyond FROM t;
-- within an expression, and in a function that is inlined
ALTER TABLE t ALTER id SET DEFAULT snowflake_nextval() + 0, ALTER id TYPE numeric;
COPY t (n) FROM stdin;
4
5
\.
ALTER TABLE t ALTER id SET DEFAULT wrapped();
COPY t (n) FROM stdin;
6
7
\.
-- and by its other name
ALTER TABLE t ALTER id SET DEFAULT snowflake_generate();
COPY t (n) FROM stdin;
61
71
\.
ALTER TABLE t ALTER id SET DEFAULT snowflake_generate('node');
COPY t (n) FROM stdin;
62
72
\.
SELECT max(id) = snowflake_currval() AS known FROM t;
-- with other functions in the default, COPY does not collect rows
ALTER TABLE t ALTER id SET DEFAULT opaque();
COPY t (n) FROM stdin;
8
9
\.
ALTER TABLE t ALTER id SET DEFAULT snowflake_nextval(), ADD r float8 DEFAULT random();
COPY t (n) FROM stdin;
10
11
\.
ALTER TABLE t DROP r;
-- a WHERE clause that makes IDs is computed for each row
COPY t (n) FROM stdin WHERE snowflake_nextval() > n;
12
13
\.
-- so is a trigger before each row; a trigger after each row changes nothing
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % has an ID: %', TG_WHEN, NEW.n, NEW.id > 0;
	RETURN NEW;
END $$;
CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fired();
COPY t (n) FROM stdin;
14
15
\.
DROP TRIGGER b ON t;
CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION fired();
COPY t (n) FROM stdin;
16
17
\.
DROP TRIGGER a ON t;
-- INSERT, COPY with IDs, FREEZE, an error
INSERT INTO t (n) VALUES (18) RETURNING id = snowflake_currval() AS returned;
COPY t FROM stdin;
5	19
6	20
\.
BEGIN;
CREATE TABLE frozen (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int CHECK (seen('frozen')));
COPY frozen (n) FROM stdin (FREEZE);
1
2
\.
COMMIT;
COPY t (n) FROM stdin;
21
not a number
\.
SELECT count(*), count(DISTINCT id) FROM t;
-- IDs of shards, with a constant shard and without
CREATE TABLE s (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(0), n int CHECK (seen('s')));
COPY s (n) FROM stdin;
1
2
\.
ALTER TABLE s ALTER id SET DEFAULT snowflake_shard_nextval(current_setting('bulk.shard')::int);
SET bulk.shard = '0';
COPY s (n) FROM stdin;
3
4
\.
ALTER TABLE s ALTER id SET DEFAULT snowflake_shard_nextval(least(random(), 0)::int);
COPY s (n) FROM stdin;
5
6
\.
ALTER TABLE s ALTER id SET DEFAULT snowflake_shard_nextval(NULL);
COPY s (n) FROM stdin;
7
\.
SET bulk.shard = '100000';
ALTER TABLE s ALTER id SET DEFAULT snowflake_shard_nextval(current_setting('bulk.shard')::int);
COPY s (n) FROM stdin;
7
\.
SELECT count(*), count(DISTINCT id), bool_and(id > before) AS ascends
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before FROM s) q;
-- partitions, inheritance, a typed table
CREATE TABLE part (id bigint DEFAULT snowflake_nextval(), n int CHECK (seen('part'))) PARTITION BY LIST (n);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part DEFAULT;
COPY part (n) FROM stdin;
1
2
1
\.
CREATE TYPE shape AS (id bigint, n int);
CREATE TABLE typed OF shape (id DEFAULT snowflake_nextval(), CHECK (seen('typed')));
COPY typed (n) FROM stdin;
1
2
\.
-- a condition that makes no IDs changes nothing
COPY typed (n) FROM stdin WHERE n <> 4;
3
4
5
\.
SELECT count(*), count(DISTINCT id) FROM typed;
CREATE TABLE parent (n int);
CREATE TABLE child (m int) INHERITS (parent);
INSERT INTO parent SELECT generate_series(1, 3);
INSERT INTO child SELECT generate_series(4, 6);
-- elsewhere each call makes an ID of its own: a new column
CREATE TABLE none ();
ALTER TABLE parent ADD id bigint DEFAULT snowflake_nextval();
ALTER TABLE part ADD other bigint DEFAULT snowflake_nextval();
ALTER TABLE t ADD other bigint DEFAULT snowflake_nextval(), ADD third bigint DEFAULT wrapped();
ALTER TABLE s ADD other bigint DEFAULT snowflake_shard_nextval(0);
ALTER TABLE none ADD id bigint DEFAULT snowflake_nextval();
INSERT INTO none SELECT FROM generate_series(1, 3);
SELECT count(*) = count(DISTINCT id) AS each, count(*) FROM parent;
SELECT count(*) = count(DISTINCT other) AS each, count(*) FROM part;
SELECT count(*) = count(DISTINCT other) AS each, count(*) = count(DISTINCT third) AS each, count(*) FROM t;
SELECT count(*) = count(DISTINCT other) AS each, count(*) FROM s;
SELECT count(*) = count(DISTINCT id) AS each, count(*) FROM none;
-- a rewrite
ALTER TABLE parent ALTER id TYPE bigint USING snowflake_nextval();
SELECT count(*) = count(DISTINCT id) AS each, count(*) FROM parent;
-- queries, arguments, domains
SELECT count(DISTINCT snowflake_nextval()), count(DISTINCT wrapped()) FROM generate_series(1, 3);
PREPARE given(bigint, bigint) AS SELECT $1 < $2 AS two;
EXECUTE given(snowflake_nextval(), snowflake_nextval());
CREATE DOMAIN fresh AS bigint DEFAULT snowflake_nextval() CHECK (VALUE < snowflake_nextval());
CREATE TABLE d (id fresh PRIMARY KEY, n int CHECK (seen('d')));
COPY d (n) FROM stdin;
1
2
\.
-- an expression that must be immutable does not accept it
CREATE TABLE wrong (n int, id bigint GENERATED ALWAYS AS (snowflake_nextval()) STORED);
\set VERBOSITY sqlstate
CREATE INDEX ON parent ((id + snowflake_nextval()));
\set VERBOSITY default
CREATE INDEX ON parent (id) WHERE id < snowflake_nextval();
CREATE TABLE wrong (n int) PARTITION BY RANGE ((n + snowflake_nextval()));
-- the stored and the shown default is the written one
CREATE TABLE liked (LIKE t INCLUDING DEFAULTS);
CREATE VIEW shown AS SELECT snowflake_nextval() AS id;
CREATE RULE instead AS ON INSERT TO none DO INSTEAD INSERT INTO parent (id) VALUES (snowflake_nextval());
SELECT adrelid::regclass, pg_get_expr(adbin, adrelid) FROM pg_attrdef
WHERE adrelid = ANY ('{t,s,liked,part}'::regclass[]) ORDER BY adrelid, adnum;
SELECT trim(definition) FROM pg_views WHERE viewname = 'shown';
SELECT definition LIKE '%(snowflake_nextval())%' AS written FROM pg_rules WHERE rulename = 'instead';
EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO typed (n) VALUES (1);
SELECT DISTINCT classid::regclass, deptype FROM pg_depend
WHERE refobjid IN (SELECT oid FROM pg_proc WHERE proname LIKE 'snowflake\_copy\_%nextval');
-- no role may call the functions that COPY calls; older minor versions of the server
-- find the function, and refuse the argument
\set VERBOSITY terse
DO $$ BEGIN
	PERFORM snowflake_internal.copy_nextval(NULL);
EXCEPTION WHEN undefined_function OR feature_not_supported THEN
	RAISE NOTICE 'refused';
END $$;
SELECT snowflake_internal.copy_nextval();
DO $$ BEGIN
	PERFORM snowflake_internal.copy_shard_nextval(0, NULL);
EXCEPTION WHEN undefined_function OR feature_not_supported THEN
	RAISE NOTICE 'refused';
END $$;
\set VERBOSITY default
-- a role that may not execute the function, and one that may not execute the
-- other one
CREATE ROLE snowflake_loader IN ROLE pg_read_server_files;
GRANT USAGE ON SCHEMA bulk TO snowflake_loader;
GRANT SELECT, INSERT ON t, s TO snowflake_loader;
ALTER TABLE s ALTER id SET DEFAULT snowflake_shard_nextval(0);
REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_shard_nextval(bigint) FROM PUBLIC;
SET ROLE snowflake_loader;
COPY t (n) FROM '/dev/null';
COPY s (n) FROM '/dev/null';
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_nextval(), snowflake_shard_nextval(bigint) TO PUBLIC;
REVOKE EXECUTE ON FUNCTION snowflake_internal.copy_nextval(internal) FROM PUBLIC;
SET ROLE snowflake_loader;
COPY t (n) FROM stdin;
22
23
\.
RESET ROLE;
GRANT EXECUTE ON FUNCTION snowflake_internal.copy_nextval(internal) TO PUBLIC;
-- a temporary table, in a transaction that may write no other table
CREATE TEMP TABLE temp (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
BEGIN READ ONLY;
COPY temp (n) FROM stdin;
1
\.
ROLLBACK;
SET client_min_messages = warning;
DROP SCHEMA bulk CASCADE;
DROP ROLE snowflake_loader;
