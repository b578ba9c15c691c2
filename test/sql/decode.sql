-- Decoding IDs: published ones, boundaries, and IDs that cannot be read.
SET timezone = 'UTC';
\pset null '-'
\pset format unaligned
\pset tuples_only

-- published IDs: Discord's documentation; a post of Twitter's developers;
-- Mastodon's documentation (entities, Status)
SELECT created_at, worker_id, process_id, sequence
FROM snowflake_decode(175928847299117063, 'discord');
SELECT created_at, datacenter_id, worker_id, node_id, sequence
FROM snowflake_decode(1541815603606036480, 'twitter');
SELECT created_at, node_id, sequence
FROM snowflake_decode(103270115826048975, 'mastodon');
-- Sonyflake: an ID that the Rust port made with the original's start time and
-- the private address 179.37, found in a program's comment; and the example of
-- the npm package, which counts milliseconds from 2020-05-18 and decodes it as
-- 1589832189861
SELECT created_at, node_id = 179 * 256 + 37 AS address, sequence
FROM snowflake_decode(612022676378137381, 'sonyflake');
SELECT extract(epoch FROM created_at) AS seconds, node_id, sequence
FROM snowflake_decode(1211144891006978, 'timestamp:39 sequence:8 node:16 epoch:2020-05-18');
-- Instagram's article: shard 1341 (user 31341 of 2000 shards), 1387263000 ms
-- after its epoch, sequence 5001 modulo 1024
SELECT * FROM snowflake_decode(
	(1387263000::bigint << 23) | (1341 << 10) | (5001 % 1024), 'instagram');

-- one field at a time; NULL if the layout does not have it
SELECT snowflake_timestamp(175928847299117063, 'discord'),
	snowflake_node(175928847299117063, 'discord'),
	snowflake_shard(175928847299117063, 'discord'),
	snowflake_sequence(175928847299117063, 'discord');
SELECT snowflake_node(1::bigint << 23, 'instagram'),
	snowflake_shard(1341 << 10, 'instagram');
SELECT snowflake_node(5 << 12, 'timestamp:41 node:10 sequence:12');

-- times outside the layout
SELECT snowflake_min_id('2010-01-01', 'twitter');
SELECT snowflake_max_id('2100-01-01', 'twitter');
SELECT snowflake_min_id('infinity', 'twitter');
SELECT snowflake_min_id('2046-06-27 17:00:49.496', 'instagram') > 0 AS last_tick;
SELECT snowflake_min_id('2046-06-27 17:00:49.497', 'instagram');

-- no layout makes IDs that are negative or have more bits
SELECT snowflake_decode(-1, 'twitter');
SELECT snowflake_decode(9007199254740992, 'javascript');
SELECT snowflake_decode(9007199254740991, 'javascript');

-- but snowflake_timestamp is defined for every bigint
SELECT snowflake_timestamp(-1, 'twitter');
SELECT snowflake_timestamp(9223372036854775807, 'timestamp:10 sequence:1 tick:1s'),
	snowflake_timestamp(-9223372036854775808, 'timestamp:10 sequence:1 tick:1s');

-- a time is rounded down to its tick, also before 2000
SELECT snowflake_timestamp(snowflake_min_id('1999-12-31 23:59:59.9995+00', 'mastodon'), 'mastodon');

-- NULL gives NULL
SELECT snowflake_decode(NULL, 'twitter'), snowflake_timestamp(1, NULL),
	snowflake_node(NULL, 'twitter'), snowflake_min_id(NULL, 'twitter');
SELECT count(*) FROM snowflake_inspect(NULL);

-- the layouts that an ID may have: plausible ones come first
SELECT layout, plausible, created_at
FROM snowflake_inspect(1541815603606036480)
WHERE layout IN ('twitter', 'sonyflake', 'mastodon', 'javascript');
SELECT bool_and(NOT plausible) FROM snowflake_inspect(-1);
-- the epoch of many generators is 1970: by that of Twitter, this ID is of the future
SELECT layout, created_at, node_id FROM snowflake_inspect(7102577116159582209) WHERE plausible AND NOT configured;
SELECT created_at FROM snowflake_decode(7102577116159582209, 'snowflake');
SELECT count(created_at) FROM (VALUES (7102577116159582209), (7102577116159582210)) v (id), snowflake_decode(id, 'snowflake');

-- immutable with a layout: an index and a generated column may use it
CREATE TABLE tweets (id bigint PRIMARY KEY,
	created_at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'twitter')) STORED);
CREATE INDEX ON tweets (snowflake_node(id, 'twitter'));
INSERT INTO tweets VALUES (1541815603606036480);
SELECT * FROM tweets;
-- without a layout it is not
DO $$
BEGIN
	CREATE INDEX ON tweets (snowflake_node(id));
EXCEPTION WHEN invalid_object_definition THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
DROP TABLE tweets;

-- another layout in each row
SELECT l, snowflake_timestamp(175928847299117063, l)
FROM (VALUES ('discord'), ('twitter'), ('discord')) v(l);
