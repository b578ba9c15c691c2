-- Runs what doc/citus.md says, on the nodes of three_nodes.sh. Run this script by psql on
-- the coordinator. It fails if something is not as the page says.
\set ON_ERROR_STOP on
\pset null '(none)'

\echo == All nodes have one layout, and each has a node id of its own
SELECT result AS layout, count(*) AS nodes FROM run_command_on_all_nodes(
    'SHOW snowflake.layout') GROUP BY result;
SELECT nodeid, result AS number FROM run_command_on_all_nodes(
    'SHOW snowflake.node_id') ORDER BY nodeid;

\echo == The node that the client is connected to makes the IDs of INSERT and COPY
CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    customer bigint,
    item text
);
SELECT create_distributed_table('orders', 'id');
INSERT INTO orders (customer, item) SELECT n, 'a book' FROM generate_series(1, 1000) n;
SELECT snowflake_node(id) AS number, count(*) FROM orders GROUP BY 1 ORDER BY 1;

\echo == Workers make the IDs of INSERT ... SELECT from a distributed table
CREATE TABLE carts (customer bigint, item text);
SELECT create_distributed_table('carts', 'customer');
INSERT INTO carts SELECT n, 'a pen' FROM generate_series(1, 10000) n;
INSERT INTO orders (customer, item) SELECT customer, item FROM carts;
SELECT snowflake_node(id) AS number, count(*) FROM orders GROUP BY 1 ORDER BY 1;
SELECT count(*) AS rows, count(DISTINCT id) AS ids FROM orders;

\echo == Conditions on the time reach the index of each shard
EXPLAIN (COSTS OFF) SELECT count(*) FROM orders
WHERE snowflake_timestamp(id) >= now() - interval '1 hour';
DELETE FROM orders WHERE snowflake_timestamp(id, 'snowflake') < now() - interval '1 year';
DELETE FROM orders WHERE id < snowflake_min_id(now() - interval '1 year');
-- without the layout Citus refuses the DELETE
\set ON_ERROR_STOP off
DELETE FROM orders WHERE snowflake_timestamp(id) < now() - interval '1 year';
\set refused :ERROR
\set ON_ERROR_STOP on
SELECT 1 / :'refused'::boolean::integer AS refused;

\echo == A feed needs a table that is not distributed
CREATE TABLE outbox (id bigint PRIMARY KEY, item text);
WITH made AS (
    INSERT INTO orders (customer, item) VALUES (1, 'a book') RETURNING id, item
)
INSERT INTO outbox SELECT id, item FROM made;
SELECT * FROM outbox WHERE id > 0 AND id < snowflake_horizon() ORDER BY id LIMIT 100;
-- for a distributed table there is no horizon
\set ON_ERROR_STOP off
SELECT count(*) FROM orders WHERE id < snowflake_horizon();
\set refused :ERROR
\set ON_ERROR_STOP on
SELECT 1 / :'refused'::boolean::integer AS refused;

\echo == The warnings of each node
SELECT nodeid, result AS warnings FROM run_command_on_all_nodes($$
    SELECT string_agg(check_name || ': ' || found, '; ') FROM snowflake_status()
    WHERE status <> 'ok' AND check_name <> 'summary'
$$);
DROP TABLE outbox, carts, orders;
