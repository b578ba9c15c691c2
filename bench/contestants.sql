-- The functions and sequences that bench/run compares. psql runs this on each server,
-- with the variables "module" (the path of bench.so) and "rows".

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

-- Instagram's function, after "Sharding & IDs at Instagram" (2012). An ID has 41 bits
-- for the milliseconds since Instagram's epoch, 13 for the logical shard, and 10 for
-- the sequence of that shard. With more than 1,024 calls in 1 ms, IDs repeat.
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

-- The same function as the article has it, where SELECT ... INTO runs a query for each
-- value.
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
-- lib/mastodon/snowflake.rb. An ID has 48 bits for the Unix time in ms, and 16 for a sum:
-- the table's sequence, plus a hash of the table's name, a secret and this time.
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

-- The portable functions, which make IDs like ours in plain SQL.
CREATE SCHEMA portable;
SET search_path = portable;
\ir ../sql/portable.sql
SELECT FROM snowflake_set_node(1);
RESET search_path;

-- the rows to load
CREATE TABLE source AS SELECT i AS v FROM generate_series(1, :rows) i;
VACUUM (ANALYZE) source;
