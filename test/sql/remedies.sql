-- Hints that no other test prints: test/remedies lists what is printed nowhere.
\pset format unaligned
\pset tuples_only
\set SHOW_CONTEXT never
CREATE TABLE hinted (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v text, n integer);

-- batches, other servers' IDs, an ID as it is in no layout
SELECT snowflake_nextval_batch(0);
SELECT * FROM snowflake_node_conflicts('hinted', 'id', 0);
SELECT * FROM snowflake_node_conflicts('hinted', NULL, 1);
SELECT * FROM snowflake_node_conflicts('hinted', 'v', 1);
SELECT * FROM snowflake_node_conflicts(0::oid::regclass, 'id', 1);
SELECT * FROM snowflake_node_conflicts('hinted', 'none', 1);

-- conversions
CREATE TEMPORARY TABLE passing (id integer PRIMARY KEY);
SELECT * FROM snowflake_convert('passing');
SELECT * FROM snowflake_convert('hinted_pkey');
SELECT * FROM snowflake_convert('hinted', 'n', 3, layout => 'javascript');
SELECT * FROM snowflake_revert('hinted', identity => 'sometimes');

-- partitions
SELECT snowflake_create_partitions(0::oid::regclass, '1 day', '2024-05-01', '2024-05-02');

-- no number is left for a sequence
CREATE TABLE ended (id bigserial PRIMARY KEY);
SELECT count(*) > 0 FROM snowflake_convert('ended', dry_run => false);
INSERT INTO ended VALUES (9223372036854775807);
SELECT * FROM snowflake_revert('ended');
SELECT count(*) > 0 FROM snowflake_revert('ended', restart => 5, dry_run => false);
DROP TABLE ended;

DROP TABLE hinted;
