-- What bench/run compares. Run by psql in each of its databases, with
-- "module", the path of bench/module.

\set ON_ERROR_STOP on

CREATE FUNCTION bench_nothing() RETURNS bigint
	AS :'module' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION bench_loop(query text, start float8, ms integer,
		OUT times bigint, OUT ns bigint, OUT cpu_us bigint)
	AS :'module' LANGUAGE C VOLATILE;
CREATE FUNCTION bench_histogram(function regprocedure, argument integer,
		calls integer, start float8, ms integer) RETURNS bigint[]
	AS :'module' LANGUAGE C VOLATILE;
CREATE FUNCTION bench_dump(label text) RETURNS void
	AS :'module' LANGUAGE C VOLATILE;

CREATE SEQUENCE s1;
CREATE SEQUENCE s32 CACHE 32;

-- Instagram, after "Sharding & IDs at Instagram" (2012): 41 bits of
-- milliseconds since an epoch of its own, 13 of the logical shard, and 10 of a
-- sequence of that shard. Beyond 1024 a millisecond it makes duplicates.
CREATE SEQUENCE instagram_seq;
CREATE FUNCTION instagram_id() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	epoch constant bigint := 1314220021721;
	shard constant bigint := 5;
	number bigint;
	ms bigint;
BEGIN
	number := nextval('instagram_seq') % 1024;
	ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
	RETURN ((ms - epoch) << 23) | (shard << 10) | number;
END
$$;

-- The same with the statements of the article, each of which is a query.
CREATE FUNCTION instagram_published() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	epoch bigint := 1314220021721;
	shard integer := 5;
	number bigint;
	ms bigint;
	result bigint;
BEGIN
	SELECT nextval('instagram_seq') % 1024 INTO number;
	SELECT floor(extract(epoch FROM clock_timestamp()) * 1000) INTO ms;
	result := (ms - epoch) << 23;
	result := result | (shard << 10);
	result := result | (number);
	RETURN result;
END
$$;

-- Mastodon's timestamp_id, after the comment at the head of
-- lib/mastodon/snowflake.rb: 48 bits of Unix milliseconds, and 16 of the table's
-- sequence added to a hash of the table, a secret and these milliseconds.
CREATE SEQUENCE statuses_id_seq;
CREATE FUNCTION timestamp_id(table_name text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	ms bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
	digest text := md5(table_name || '5f1d9c0e7a3b4826' || ms);
	base bigint := ('x' || left(digest, 4))::bit(16)::integer;
BEGIN
	RETURN (ms << 16) | ((base + nextval(table_name || '_id_seq')) & 65535);
END
$$;

-- The same IDs as ours in plain SQL.
CREATE SCHEMA portable;
SET search_path = portable;
\ir ../sql/portable.sql
SELECT FROM snowflake_set_node(1);
RESET search_path;

-- a million rows to load from
CREATE TABLE source AS SELECT i AS v FROM generate_series(1, :rows) i;
VACUUM (ANALYZE) source;
