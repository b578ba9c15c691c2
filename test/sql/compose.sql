-- IDs from given fields: the inverse of snowflake_decode().
SET timezone = 'UTC';
\pset null '-'
\pset format unaligned
\pset tuples_only

SELECT snowflake_compose('2025-06-01 12:34:56.789', 7) AS id,
	snowflake_compose('2025-06-01 12:34:56.789', 7, 4095) AS last_of_tick,
	snowflake_compose('2025-06-01 12:34:56.7899', 7, sequence => 0) AS same_tick;
SELECT created_at, node_id, sequence
FROM snowflake_decode(snowflake_compose('2025-06-01 12:34:56.789', 7, 4095));
-- published IDs: see decode.sql
SELECT snowflake_compose('2022-06-28 16:07:40.105', 378, 0, 'twitter') = 1541815603606036480 AS twitter,
	snowflake_compose('2016-04-30 11:18:25.796', 32, 7, 'discord') = 175928847299117063 AS discord,
	snowflake_compose('2011-08-24 21:07:01.721+00', 1341, 905, 'instagram') >> 10 & 8191 AS shard;

-- Compose and decode: the first and the last ID of each preset, and of layouts
-- with both a node and a shard, with neither, or with long ticks; each single
-- bit, each missing bit, and a thousand ticks between
CREATE TEMP TABLE known AS
	SELECT name AS layout, bits FROM snowflake_layouts() WHERE NOT configured
	UNION ALL VALUES ('timestamp:40 sequence:4 datacenter:3 shard:5 worker:6 epoch:1970-01-01', 58),
		('timestamp:36 node:17 sequence:10 epoch:2020-02-29T12:34:56.789Z', 63),
		('timestamp:17 node:31 sequence:16', 64),
		('timestamp:30 sequence:16 shard:16 tick:1s', 62);
WITH largest AS (
	SELECT layout, CASE WHEN bits >= 63 THEN 9223372036854775807 ELSE (1::bigint << bits) - 1 END AS largest
	FROM known
), id AS (
	SELECT layout, id FROM largest, LATERAL (
		VALUES (0), (largest)
		UNION SELECT (1::bigint << n) & largest FROM generate_series(0, 62) n
		UNION SELECT largest & ~(1::bigint << n) FROM generate_series(0, 62) n
		UNION SELECT (n * 6364136223846793005::numeric % 9223372036854775807)::bigint & largest
			FROM generate_series(1, 1000) n) i (id)
)
SELECT layout, count(*) > 1000 AS many, bool_and(snowflake_compose(created_at,
	coalesce(node_id, shard_id, 0), sequence, layout,
	CASE WHEN node_id IS NULL THEN 0 ELSE coalesce(shard_id, 0) END) = id) AS same
FROM id, snowflake_decode(id, layout) GROUP BY layout ORDER BY layout;
-- and with the configured layout
SELECT bool_and(snowflake_compose(created_at, node_id, sequence) = id) AS same
FROM (VALUES (0), (9223372036854775807), (382903724013522944)) v(id), snowflake_decode(id);

-- the digits of a timestamp below a tick do not change the ID
SELECT bool_and(snowflake_compose(t + n * interval '1 us', 3, 7, 'sonyflake') =
	snowflake_compose(t, 3, 7, 'sonyflake')) AS same
FROM (VALUES (timestamptz '2025-06-01 12:34:56.78')) v(t), generate_series(0, 9999) n;

-- a number that does not fit its field
SELECT snowflake_compose('2025-06-01', 1024);
\set VERBOSITY terse
SELECT snowflake_compose('2025-06-01', -1);
SELECT snowflake_compose('2025-06-01', 1023, 4096);
SELECT snowflake_compose('2025-06-01', 1023, -1);
SELECT snowflake_compose('2025-06-01', 8192, 0, 'instagram');
SELECT snowflake_compose('2025-06-01', -1, 0, 'instagram');
SELECT snowflake_compose('2025-06-01', 8191, 1024, 'instagram');
\set VERBOSITY default
SELECT snowflake_compose('2025-06-01', 8191, 1023, 'instagram', 1);
\set VERBOSITY terse
SELECT snowflake_compose('2025-06-01', 1, 65535, 'mastodon');
SELECT snowflake_compose('2025-06-01', 0, 0, 'twitter', 1);
SELECT snowflake_compose('2025-06-01', 0, 0, 'timestamp:40 node:6 shard:5 sequence:4', 32);
\set VERBOSITY default
SELECT snowflake_compose('2025-06-01', 2147483647, 65535, 'timestamp:17 node:31 sequence:16');

-- a time before the epoch, or at the end or later
\set VERBOSITY terse
SELECT snowflake_compose('2023-12-31 23:59:59.999999', 1);
SELECT snowflake_compose('2024-01-01', 0) AS first;
SELECT snowflake_compose('2010-11-04 01:42:54.656999', 1, 0, 'twitter');
SELECT snowflake_compose('2010-11-04 01:42:54.657', 0, 0, 'twitter') AS first;
SELECT snowflake_compose('2080-07-10 17:30:30.208999', 1023, 4095, 'twitter') AS last;
SELECT snowflake_compose('2080-07-10 17:30:30.209', 1, 0, 'twitter');
SELECT snowflake_compose('infinity', 1);
SELECT snowflake_compose('-infinity', 1, 0, 'twitter');

-- no such layout; and NULL gives NULL
\set VERBOSITY default
SELECT snowflake_compose('2025-06-01', 1, 0, 'nonsense');
SELECT snowflake_compose(NULL, 1), snowflake_compose('2025-06-01', NULL),
	snowflake_compose('2025-06-01', 1, NULL), snowflake_compose('2025-06-01', 1, 0, NULL);

-- with a layout it is immutable, and without one it is not
CREATE TEMP TABLE old (made timestamptz, n integer);
CREATE INDEX ON old (snowflake_compose(made, 1023, n, 'snowflake'));
\set VERBOSITY sqlstate
CREATE INDEX ON old (snowflake_compose(made, 1023, n));
\set VERBOSITY default
