-- One feed over several servers: the table of horizons.
\pset format unaligned
\pset tuples_only
\pset null NULL
-- what a statement answers, with X for long numbers, times and processes
CREATE FUNCTION feed_answer(statement text, OUT answer text) LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO answer;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	answer := regexp_replace(concat_ws(E'\n', sqlstate || ' ' || sqlerrm, detail, hint), '\d{12,}|\d{4}-\S+ [0-9:.+-]+|(?<=backend\()\d+', 'X', 'g');
END $$;
-- without the table
SELECT snowflake_feed_horizon();
SELECT snowflake_publish_horizon();
SELECT snowflake_leave_feed();
SELECT count(*) FROM snowflake_feed_servers;
SELECT count(*) FROM snowflake_status() WHERE check_name = 'feed';
-- whoever may make tables here makes it, and owns it; the extension does not
CREATE ROLE feed_owner;
CREATE ROLE feed_reader;
SET ROLE feed_owner;
SELECT feed_answer('SELECT snowflake_create_feed()');
RESET ROLE;
GRANT CREATE ON SCHEMA public TO feed_owner;
SET ROLE feed_owner;
SET search_path = '';
SELECT public.snowflake_create_feed();
RESET search_path;
SELECT snowflake_create_feed();
RESET ROLE;
SELECT relowner::regrole, reloptions, pg_get_constraintdef(k.oid),
	(SELECT count(*) FROM pg_depend WHERE objid = c.oid AND deptype = 'e') AS member
FROM pg_class c JOIN pg_constraint k ON conrelid = c.oid AND contype = 'p'
WHERE c.oid = 'snowflake_feed'::regclass;
-- nothing is published yet
SELECT snowflake_feed_horizon();
SELECT snowflake_feed_horizon('javascript');
SELECT snowflake_feed_horizon(NULL);
SELECT snowflake_feed_horizon('instagram');
SELECT snowflake_feed_shard_horizon();
SELECT feed_answer('SELECT snowflake_leave_feed()');
-- rows below the horizon: those of earlier ticks
CREATE TABLE feed_rows (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
INSERT INTO feed_rows (n) VALUES (1), (2);
SELECT FROM pg_sleep(0.01);
SELECT snowflake_publish_horizon() AS h \gset
SELECT snowflake_feed_horizon() = :h AS same, snowflake_horizon() >= :h AS own, snowflake_node(:h) AS node;
SELECT n FROM feed_rows WHERE id < snowflake_feed_horizon() ORDER BY id;
SELECT abs(extract(epoch FROM snowflake_timestamp(:h) - clock_timestamp())) < 60 AS now;
-- it does not stand still on an idle server, and makes no ID
SELECT node_ids AS made FROM pg_stat_snowflake \gset
SELECT FROM pg_sleep(0.01);
SELECT snowflake_publish_horizon() > :h AS grows;
SELECT node_ids = :made AS made FROM pg_stat_snowflake;
-- a transaction that has made IDs holds it back, also its own
BEGIN;
INSERT INTO feed_rows (n) VALUES (3) RETURNING id \gset
SELECT FROM pg_sleep(0.01);
SELECT snowflake_publish_horizon() <= :id AS held;
SELECT feed_answer('SELECT snowflake_leave_feed()');
ROLLBACK;
-- the horizon does not go back
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT FROM pg_sleep(0.01);
SELECT snowflake_publish_horizon() AS h \gset
UPDATE snowflake_feed SET horizon = horizon + 1;
SELECT snowflake_publish_horizon() = :h AS same, horizon = :h + 1 AS kept FROM snowflake_feed;
ROLLBACK;
-- each statement sees what is there, also after a part of the transaction was taken back
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE snowflake_feed SET horizon = 4;
SAVEPOINT s;
UPDATE snowflake_feed SET horizon = 5;
SELECT snowflake_feed_horizon();
ROLLBACK TO s;
SELECT snowflake_feed_horizon();
ROLLBACK;
BEGIN;
SELECT snowflake_feed_horizon() > 5 AS read;
UPDATE snowflake_feed SET horizon = 5;
SELECT snowflake_feed_horizon(), count(*) FROM generate_series(1, 3) WHERE snowflake_feed_horizon() = 5 * (1 + generate_series / 9);
ROLLBACK;
SELECT snowflake_feed_horizon() > 5 AS read;
-- layouts and shards: those that any server has published
SELECT count(*) FROM snowflake_feed;
SELECT snowflake_publish_horizon('javascript') AS j \gset
SELECT snowflake_feed_horizon('javascript') = :j AS same, snowflake_horizon('javascript') >= :j AS own;
SELECT snowflake_publish_shard_horizon() AS s \gset
SELECT snowflake_feed_shard_horizon() = :s AS same, snowflake_shard_horizon(5000) >= :s AS own, snowflake_shard(:s, 'shard') AS shard;
SELECT FROM pg_sleep(0.01);
SELECT snowflake_publish_horizon() > :h AS node;
SELECT snowflake_feed_horizon('javascript') > :j AS javascript, snowflake_feed_shard_horizon() > :s AS shards;
SELECT name LIKE '%:%' AS name, node, layout, horizon_time > now() - interval '1 minute' AS time, published > now() - interval '1 minute' AS published, holds_back
FROM snowflake_feed_servers ORDER BY layout;
SELECT found FROM snowflake_status() WHERE check_name = 'feed';
BEGIN;
SELECT snowflake_shard_nextval(5) AS id \gset
SELECT FROM pg_sleep(0.01);
SELECT FROM snowflake_publish_horizon();
SELECT snowflake_feed_shard_horizon() <= :id AS held, snowflake_feed_horizon() > :h AS node;
COMMIT;
SELECT snowflake_publish_horizon(NULL);
SELECT snowflake_publish_horizon('instagram');
SELECT snowflake_publish_horizon('wordpress');
-- this server is late
UPDATE snowflake_feed SET published = now() - interval '2 minutes';
SELECT status, remedy FROM snowflake_status() WHERE check_name = 'feed';
SELECT snowflake_publish_horizon() > :h AS published;
SELECT status FROM snowflake_status() WHERE check_name = 'feed';
-- another server: the least horizon counts, and those that have left do not
INSERT INTO snowflake_feed SELECT 5, layout, :h, 8, E'other\r:1', now() - interval '2 minutes' FROM snowflake_feed WHERE node = 7 AND horizon > 0 AND layout LIKE '%sequence:12%';
SELECT snowflake_feed_horizon() = :h AS least;
SELECT server = 5 AS other, holds_back FROM snowflake_feed_servers WHERE layout LIKE '%sequence:12%' ORDER BY 1;
SELECT status, regexp_replace(found, ' since .*', ''), remedy FROM snowflake_status() WHERE check_name = 'feed';
SELECT snowflake_leave_feed(6);
UPDATE snowflake_feed SET horizon = 1 WHERE server = 5;
SELECT horizon AS before FROM snowflake_feed_servers WHERE node = 7 AND layout LIKE '%sequence:12%' \gset
SELECT FROM pg_sleep(0.01);
SELECT snowflake_leave_feed(5);
SELECT horizon > :before AS successor FROM snowflake_feed_servers WHERE node = 7 AND layout LIKE '%sequence:12%';
SELECT snowflake_feed_horizon() > :h AS least;
SELECT count(*) FROM snowflake_feed_servers WHERE server = 5;
SELECT status FROM snowflake_status() WHERE check_name = 'feed';
-- rows that nobody can use
INSERT INTO snowflake_feed VALUES (1, 'no layout', 1, NULL, NULL, now()), (2, 'node:10 sequence:12 timestamp:41', 1, NULL, NULL, now()),
	(3, 'timestamp:41 node:10 sequence:12 epoch:2190-01-01', 1, NULL, NULL, now()), (4, 'timestamp:41 shard:10 sequence:12 epoch:2024-01-01', 1, NULL, NULL, now()),
	(5, 'timestamp:41 node:1 sequence:12 epoch:2024-01-01', 1, NULL, NULL, '-infinity');
SELECT snowflake_publish_horizon() > :h AS published;
SELECT layout, horizon_time, published = '-infinity' AS never FROM snowflake_feed_servers WHERE server < 6 ORDER BY server;
SELECT status FROM snowflake_status() WHERE check_name = 'feed';
SELECT count(*) FROM snowflake_feed;
DELETE FROM snowflake_feed WHERE server < 6;
-- leaving, and joining again: not behind the others
SELECT layout FROM snowflake_feed WHERE layout LIKE '%sequence:12%' \gset
SELECT snowflake_leave_feed();
SELECT count(*) FROM snowflake_feed;
SELECT snowflake_feed_horizon();
SELECT feed_answer('SELECT snowflake_leave_feed()');
INSERT INTO snowflake_feed SELECT 5, :'layout', snowflake_min_id(now() + interval '1 hour'), 8, 'other:1', now();
SELECT feed_answer('SELECT snowflake_publish_horizon()');
DELETE FROM snowflake_feed WHERE server = 5;
-- also behind what no clock that is right can have published: whoever takes that out says so
INSERT INTO snowflake_feed SELECT n, :'layout', n, 8, 'other:1', now() FROM generate_series(9223372036854775806, 9223372036854775807) n;
SELECT feed_answer('SELECT snowflake_publish_horizon()');
SELECT snowflake_leave_feed(9223372036854775806);
SELECT snowflake_leave_feed(9223372036854775807);
-- a text of no server is not read
INSERT INTO snowflake_feed VALUES (99, repeat('x', 1000), 1, 8, 'other:1', now());
SELECT snowflake_publish_horizon() > :h AS joined;
SELECT count(*) FROM snowflake_feed_servers WHERE server = 99;
DELETE FROM snowflake_feed WHERE server = 99;
SELECT count(*) FROM snowflake_feed;
-- the statement itself has changed the row, or deleted it
WITH changed AS (UPDATE snowflake_feed SET name = NULL RETURNING 1) SELECT snowflake_publish_horizon() > :h AS published FROM changed;
SELECT name LIKE '%:%' AS name FROM snowflake_feed;
SELECT feed_answer('WITH gone AS (DELETE FROM snowflake_feed RETURNING 1) SELECT snowflake_publish_horizon() FROM gone');
SELECT count(*) FROM snowflake_feed;
-- a server that publishes, and whose horizon stays where it is
UPDATE snowflake_feed SET horizon = snowflake_min_id(now() - interval '30 s');
SELECT status FROM snowflake_status() WHERE check_name = 'feed';
UPDATE snowflake_feed SET horizon = snowflake_min_id(now() - interval '2 minutes');
SELECT status, regexp_replace(found, ' at .*|\d{6,} \S+', '', 'g'), remedy FROM snowflake_status() WHERE check_name = 'feed';
SELECT snowflake_publish_horizon() > :h AS published;
INSERT INTO snowflake_feed SELECT 5, layout, horizon, 8, 'other:1', now() FROM snowflake_feed;
UPDATE snowflake_feed SET horizon = 1 WHERE server = 5;
SELECT status, regexp_replace(found, ' at .*', ''), remedy FROM snowflake_status() WHERE check_name = 'feed';
DELETE FROM snowflake_feed WHERE server = 5;
-- two servers with one node id; two databases of a server have one name
INSERT INTO snowflake_feed SELECT 5, layout, horizon, node, name, now() FROM snowflake_feed;
SELECT status, found FROM snowflake_status() WHERE check_name = 'feed';
UPDATE snowflake_feed SET name = E'!\r:1' WHERE server = 5;
SELECT status, regexp_replace(found, '(and|servers) \d{6,} \([^)]*\)', '\1 X'), remedy LIKE 'Choose a number that no other server has, and %' AS remedy FROM snowflake_status() WHERE check_name = 'feed';
INSERT INTO snowflake_feed SELECT 6, layout, horizon, 8, 'third:1', now() FROM snowflake_feed WHERE server = 5;
UPDATE snowflake_feed SET node = 8 WHERE server = 5;
SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'feed';
UPDATE snowflake_feed SET published = now() - interval '2 minutes' WHERE server = 5;
SELECT status, regexp_replace(found, ' since .*', '') FROM snowflake_status() WHERE check_name = 'feed';
DELETE FROM snowflake_feed WHERE server IN (5, 6);
-- the mark was lowered below what is published
UPDATE snowflake_feed SET horizon = snowflake_min_id(now() + interval '1 hour') WHERE node = 7;
SELECT feed_answer('SELECT snowflake_publish_horizon()');
DELETE FROM snowflake_feed;
-- rights: those of the caller, on the table
SET ROLE feed_owner;
SELECT snowflake_publish_horizon() > :h AS published;
SELECT snowflake_leave_feed();
SELECT snowflake_publish_horizon() > :h AS published;
SET ROLE feed_reader;
SELECT snowflake_feed_horizon();
SELECT * FROM snowflake_feed_servers;
SELECT status, found FROM snowflake_status() WHERE check_name = 'feed';
SELECT snowflake_publish_horizon();
SELECT snowflake_leave_feed();
SELECT snowflake_leave_feed(5);
RESET ROLE;
GRANT SELECT ON snowflake_feed TO feed_reader;
SET ROLE feed_reader;
BEGIN READ ONLY;
SELECT snowflake_feed_horizon() > :h AS read;
SELECT count(*) FROM snowflake_feed_servers;
SELECT snowflake_publish_horizon();
ROLLBACK;
SELECT snowflake_publish_horizon();
SELECT snowflake_leave_feed();
RESET ROLE;
GRANT INSERT ON snowflake_feed TO feed_reader;
SET ROLE feed_reader;
SELECT snowflake_publish_horizon();
RESET ROLE;
GRANT DELETE ON snowflake_feed TO feed_reader;
SET ROLE feed_reader;
SELECT snowflake_publish_horizon() > :h AS published;
RESET ROLE;
-- no code of the owner's runs: such a table is refused
SET ROLE feed_owner;
CREATE FUNCTION feed_code(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'ran as %', current_user;
	RETURN $1;
END $$;
CREATE FUNCTION feed_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'ran as %', current_user;
	RETURN new;
END $$;
CREATE TRIGGER feed_trigger BEFORE INSERT ON snowflake_feed FOR EACH ROW EXECUTE FUNCTION feed_trigger();
RESET ROLE;
SELECT feed_answer('SELECT snowflake_publish_horizon()');
SELECT feed_answer('SELECT snowflake_leave_feed()');
SELECT feed_answer('SELECT snowflake_feed_horizon()');
DROP TRIGGER feed_trigger ON snowflake_feed;
SELECT snowflake_publish_horizon() > :h AS published;
CREATE TRIGGER feed_trigger AFTER UPDATE ON snowflake_feed EXECUTE FUNCTION feed_trigger();
SELECT snowflake_publish_horizon();
DROP TRIGGER feed_trigger ON snowflake_feed;
CREATE TRIGGER feed_trigger AFTER DELETE ON snowflake_feed EXECUTE FUNCTION feed_trigger();
SELECT snowflake_publish_horizon();
DROP TRIGGER feed_trigger ON snowflake_feed;
CREATE TRIGGER feed_trigger BEFORE TRUNCATE ON snowflake_feed EXECUTE FUNCTION feed_trigger();
SELECT snowflake_publish_horizon() > :h AS published;
DROP TRIGGER feed_trigger ON snowflake_feed;
ALTER TABLE snowflake_feed ADD CONSTRAINT feed_check CHECK (feed_code(server) <> 0) NOT VALID;
SELECT snowflake_publish_horizon();
ALTER TABLE snowflake_feed DROP CONSTRAINT feed_check;
ALTER TABLE snowflake_feed ADD CONSTRAINT feed_later UNIQUE (published) DEFERRABLE;
SELECT snowflake_publish_horizon();
ALTER TABLE snowflake_feed DROP CONSTRAINT feed_later;
ALTER TABLE snowflake_feed ADD CONSTRAINT feed_excludes EXCLUDE (layout WITH =);
SELECT snowflake_publish_horizon();
ALTER TABLE snowflake_feed DROP CONSTRAINT feed_excludes;
CREATE INDEX feed_index ON snowflake_feed ((server + 1));
SELECT snowflake_publish_horizon();
DROP INDEX feed_index;
CREATE INDEX feed_index ON snowflake_feed (server) WHERE server > 1;
SELECT snowflake_publish_horizon();
DROP INDEX feed_index;
ALTER TABLE snowflake_feed ALTER node SET NOT NULL;
SELECT snowflake_publish_horizon();
ALTER TABLE snowflake_feed ALTER node DROP NOT NULL;
DROP TABLE snowflake_feed;
CREATE TABLE snowflake_feed (server bigint, layout text, horizon bigint, node bigint GENERATED ALWAYS AS (1) STORED, name text, published timestamptz);
SELECT snowflake_publish_horizon();
DROP TABLE snowflake_feed;
SET ROLE feed_owner;
SELECT snowflake_create_feed();
RESET ROLE;
-- other indexes are kept up
CREATE INDEX feed_index ON snowflake_feed (horizon);
SELECT snowflake_publish_horizon() > :h AS published;
SELECT snowflake_publish_horizon() AS p \gset
SET enable_seqscan = off;
SELECT horizon >= :p AS found FROM snowflake_feed WHERE horizon > :h;
SELECT horizon >= :p AS found FROM snowflake_feed WHERE server > 0;
RESET enable_seqscan;
-- a published table needs a replica identity, as for any DELETE
ALTER TABLE snowflake_feed REPLICA IDENTITY NOTHING;
SET client_min_messages = error;
CREATE PUBLICATION feed_publication FOR TABLE snowflake_feed;
RESET client_min_messages;
SELECT snowflake_publish_horizon();
SELECT snowflake_leave_feed();
DROP PUBLICATION feed_publication;
ALTER TABLE snowflake_feed REPLICA IDENTITY DEFAULT;
-- functions and operators that search_path finds do not count
CREATE SCHEMA feed_hostile;
CREATE FUNCTION feed_hostile.never(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR feed_hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = feed_hostile.never);
SET search_path = feed_hostile, pg_catalog, public;
SELECT snowflake_publish_horizon() > :h AS published;
SELECT count(*) FROM snowflake_feed;
RESET search_path;
DROP SCHEMA feed_hostile CASCADE;
-- an inheritance child brings no rows
CREATE TABLE feed_child () INHERITS (snowflake_feed);
INSERT INTO feed_child SELECT 5, layout, 1, 8, 'other:1', now() FROM snowflake_feed;
SELECT snowflake_feed_horizon() > :h AS read;
SELECT snowflake_publish_horizon() > :h AS published;
DROP TABLE feed_child;
-- a table that the owner has changed, and other kinds of tables, are refused
CREATE RULE feed_rule AS ON UPDATE TO snowflake_feed DO INSTEAD NOTHING;
SELECT snowflake_publish_horizon();
DROP RULE feed_rule ON snowflake_feed;
ALTER TABLE snowflake_feed ENABLE ROW LEVEL SECURITY;
SELECT snowflake_feed_horizon();
ALTER TABLE snowflake_feed DISABLE ROW LEVEL SECURITY;
ALTER TABLE snowflake_feed ALTER horizon TYPE numeric;
SELECT snowflake_feed_horizon();
ALTER TABLE snowflake_feed ALTER horizon TYPE bigint;
ALTER TABLE snowflake_feed RENAME name TO host;
SELECT snowflake_leave_feed(5);
ALTER TABLE snowflake_feed RENAME host TO name;
ALTER TABLE snowflake_feed ADD extra int;
SELECT * FROM snowflake_feed_servers;
ALTER TABLE snowflake_feed DROP extra;
SELECT snowflake_create_feed();
DROP TABLE snowflake_feed;
CREATE VIEW snowflake_feed AS SELECT 1::bigint AS server, ''::text AS layout, 1::bigint AS horizon, 1::bigint AS node, ''::text AS name, now() AS published;
SELECT snowflake_feed_horizon();
SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'feed';
ALTER TABLE public.snowflake_feed RENAME TO snowflake_feed_old; SELECT public.snowflake_create_feed();
DROP VIEW snowflake_feed_old;
DROP TABLE snowflake_feed;
CREATE TABLE snowflake_feed (server bigint NOT NULL, layout text NOT NULL, horizon bigint, node bigint, name text, published timestamptz NOT NULL) PARTITION BY LIST (server);
SELECT snowflake_feed_horizon();
DROP TABLE snowflake_feed;
CREATE UNLOGGED TABLE snowflake_feed (server bigint NOT NULL, layout text NOT NULL, horizon bigint, node bigint, name text, published timestamptz NOT NULL);
SELECT snowflake_feed_horizon();
DROP TABLE snowflake_feed;
-- without NOT NULL, and without the index
CREATE TABLE snowflake_feed (server bigint, layout text, horizon bigint, node bigint, name text, published timestamptz);
INSERT INTO snowflake_feed DEFAULT VALUES;
SELECT snowflake_publish_horizon() > :h AS published;
INSERT INTO snowflake_feed SELECT * FROM snowflake_feed;
SELECT snowflake_publish_horizon() > :h AS published;
SELECT snowflake_feed_horizon() > :h AS read, count(*) FROM snowflake_feed;
INSERT INTO snowflake_feed SELECT * FROM snowflake_feed;
SELECT snowflake_leave_feed();
SELECT count(*), count(horizon) FROM snowflake_feed;
DROP TABLE snowflake_feed;
DROP TABLE feed_rows;
DROP FUNCTION feed_answer, feed_code, feed_trigger;
REVOKE CREATE ON SCHEMA public FROM feed_owner;
DROP ROLE feed_owner;
DROP ROLE feed_reader;
