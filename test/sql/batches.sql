-- Many IDs at once.
\pset format unaligned
\pset tuples_only
SELECT count(*), count(DISTINCT id), min(id) > 0 AS positive FROM snowflake_nextval_batch(1) id;
SELECT count(*), count(DISTINCT id) FROM snowflake_nextval_batch(1000000) id;
-- the IDs of a batch ascend, and later IDs are above them
SELECT bool_and(id > before) AS ascending
FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before
	FROM snowflake_nextval_batch(20000) WITH ORDINALITY b(id, n)) s;
SELECT max(id) = snowflake_currval() AS current, max(id) < snowflake_nextval() AS above
FROM snowflake_nextval_batch(100) id;
-- a batch beside single calls in one select list: each gets its own IDs
SELECT count(DISTINCT id) FROM
	(SELECT unnest(ARRAY[snowflake_nextval_batch(1000), snowflake_nextval()]) AS id) s;
-- the IDs beyond a LIMIT are lost
SELECT count(*) FROM (SELECT * FROM snowflake_nextval_batch(5000) LIMIT 10) s;
-- batches for the rows of a sorted query
CREATE TEMP TABLE t (id bigint PRIMARY KEY, n bigint);
INSERT INTO t SELECT * FROM snowflake_nextval_batch(5000) WITH ORDINALITY;
SELECT count(*) FROM t;
-- cancelled while it runs, and the session goes on; the call takes seconds in
-- any layout with up to 13 bits of sequence
BEGIN;
-- in most runs a wait is cancelled, which the context says
\set SHOW_CONTEXT never
SET LOCAL statement_timeout = '20ms';
SELECT count(*) FROM snowflake_nextval_batch(10000000);
ROLLBACK;
\set SHOW_CONTEXT errors
SELECT snowflake_nextval() > 0 AS alive;
-- refused
SELECT snowflake_nextval_batch(0);
SELECT snowflake_nextval_batch(-1);
SELECT snowflake_nextval_batch(10000001);
SELECT snowflake_nextval_batch(NULL);
