-- Values that the settings accept and refuse. TAP tests start servers with
-- them.
ALTER SYSTEM SET snowflake.node_id = 'seven';
-- a value for the next start may be prepared
ALTER SYSTEM SET snowflake.node_id = '8';
ALTER SYSTEM RESET snowflake.node_id;
ALTER SYSTEM SET snowflake.node_id = '0/7';
ALTER SYSTEM SET snowflake.sequence_start = 'one';
ALTER SYSTEM SET snowflake.shards = '0-8192';
ALTER SYSTEM SET snowflake.shards = 'all';
ALTER SYSTEM SET snowflake.layout = 'instagram';
ALTER SYSTEM SET snowflake.layout = '';
ALTER SYSTEM SET snowflake.shard_layout = 'twitter';
ALTER SYSTEM SET snowflake.layouts = 'javascript, instagram';
ALTER SYSTEM SET snowflake.max_databases = 0;
SET snowflake.nonsense = 1;
