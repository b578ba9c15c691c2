-- Layouts as values: presets, layouts as lists of fields, and refused texts.
CREATE EXTENSION IF NOT EXISTS snowflake;
SET timezone = 'UTC';
\set VERBOSITY verbose
\set SHOW_CONTEXT never
\pset null '-'

SELECT name, layout, bits, epoch, tick_ms, ids_per_tick, nodes, shards,
	lasts_until
FROM snowflake_layouts() WHERE NOT configured AND name <> layout;

-- every preset is its own canonical text, and a text of its fields
SELECT count(*) AS presets,
	bool_and(snowflake_decode(123456789012345, name) =
		snowflake_decode(123456789012345, layout)) AS same
FROM snowflake_layouts() WHERE NOT configured AND name <> layout;

-- fields in any order after the timestamp; unusual widths; ticks; epochs
SELECT * FROM snowflake_decode(1 << 20, 'timestamp:41 datacenter:5 worker:5 sequence:12');
SELECT * FROM snowflake_decode(((5::bigint << 17 | 99) << 10) | 7,
	'timestamp:36 node:17 sequence:10 epoch:2020-02-29T12:34:56.789Z');
SELECT * FROM snowflake_decode((5::bigint << 24) | (7 << 16) | 99,
	'timestamp:39 sequence:8 node:16 tick:10ms epoch:1409529600000');
SELECT * FROM snowflake_decode(((((5::bigint << 4 | 3) << 3 | 6) << 5 | 17) << 6 | 41),
	'timestamp:40 sequence:4 datacenter:3 shard:5 worker:6 epoch:1970-01-01');
SELECT * FROM snowflake_decode(0, 'twitter epoch:2024-01-01T00:00Z');
SELECT snowflake_timestamp(1::bigint << 16, 'mastodon tick:1s');

-- without an epoch, a layout counts from 2024-01-01, whatever the setting is
SELECT snowflake_timestamp(0, 'timestamp:41 node:10 sequence:12');

-- refused: test/unit/test_layout.c has the other reasons
\set VERBOSITY default
SELECT snowflake_timestamp(0, '');
SELECT snowflake_timestamp(0, 'timestamp:41 colour:3 sequence:12');
SELECT snowflake_timestamp(0, 'timestamp:41 node:10 sequence:12 epoch:2024');
SELECT snowflake_timestamp(0, repeat('x', 5000));
