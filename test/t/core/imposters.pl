# Which functions of SQL are taken for those of the extension: those that run a C
# function of this library, and portable functions whose body is a call of one. Neither
# a name, nor the text of a definition, nor a C function of the same name in another
# library is enough.
#
# takes: 6 s
use SnowflakeTest;

my $node = new_server('main');
my $dir = PostgreSQL::Test::Utils::tempdir();

append_to_file("$dir/imposter.c", <<'END');
#include "postgres.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

extern PGDLLEXPORT Datum snowflake_next_id(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum snowflake_timestamp(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(snowflake_next_id);
PG_FUNCTION_INFO_V1(snowflake_timestamp);

Datum
snowflake_next_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(1);
}

Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(-PG_GETARG_INT64(0));
}
END
system_or_bail(split(' ', $ENV{CC} // 'cc'), '-shared', '-fPIC', '-I', capture_of('pg_config', '--includedir-server'),
	'-o', "$dir/imposter.so", "$dir/imposter.c");
chmod 0755, $dir;
$node->start;
query($node, 'CREATE SCHEMA ours; CREATE EXTENSION snowflake SCHEMA ours; CREATE SCHEMA imposter; CREATE SCHEMA ids');

sub capture_of
{
	my $output = `@_`;

	chomp $output;
	return $output;
}

# Return how many columns snowflake_status() takes for such that make IDs, after a
# table has one with this default.
sub counted
{
	my ($default) = @_;

	query($node, "DROP TABLE IF EXISTS t; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT $default)");
	return query($node, q{SELECT substring(found FROM 'of (\d+) columns') FROM ours.snowflake_status() WHERE check_name = 'column types'});
}

# Return the condition of a scan.
sub condition_of
{
	my ($function) = @_;

	return query($node, "EXPLAIN (COSTS OFF, VERBOSE) SELECT FROM t WHERE $function(id) >= '2026-01-01Z'");
}

# ---- imposters ----

query($node, qq{SET check_function_bodies = off;
	CREATE FUNCTION imposter.snowflake_nextval() RETURNS bigint LANGUAGE plpgsql AS 'snowflake_next_id';
	CREATE FUNCTION imposter.snowflake_nextval(text) RETURNS bigint LANGUAGE sql AS 'SELECT ids.snowflake_nextval(\$1)';
	CREATE FUNCTION imposter.snowflake_shard_nextval(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT ours.snowflake_shard_nextval(\$1) -- and more';
	CREATE FUNCTION imposter.c_nextval() RETURNS bigint LANGUAGE c AS '$dir/imposter.so', 'snowflake_next_id';
	CREATE FUNCTION imposter.snowflake_nextval(integer) RETURNS bigint LANGUAGE c AS '$dir/imposter.so', 'snowflake_next_id';
	CREATE FUNCTION imposter.snowflake_timestamp(bigint) RETURNS timestamptz IMMUTABLE LANGUAGE c AS '$dir/imposter.so';
	CREATE FUNCTION imposter.snowflake_timestamp(bigint, text) RETURNS timestamptz IMMUTABLE LANGUAGE plpgsql
		AS 'BEGIN RETURN to_timestamp(-\$1); END'});
is(counted('imposter.snowflake_nextval()'), '0', 'the name, and the text of the definition');
is(counted(q{imposter.snowflake_nextval('javascript')}), '0', 'a body that calls another one');
is(counted('imposter.snowflake_shard_nextval(1)'), '0', 'a body that is more than a call');
is(counted('imposter.snowflake_nextval(1)'), '0', 'a C function of that name in another library');
is(counted('imposter.c_nextval()'), '0', 'likewise, under another name');
refused($node, q{SELECT ours.snowflake_revert('t', 'id')}, '55000', qr/makes no Snowflake IDs/, 'nor does it convert back');
query($node, q{CREATE OR REPLACE FUNCTION imposter.snowflake_nextval(text) RETURNS bigint LANGUAGE sql AS 'SELECT ours.snowflake_nextval()'});
is(counted(q{imposter.snowflake_nextval('javascript')}), '0', 'a body that calls ours with other arguments');
query($node, q{CREATE FUNCTION imposter.snowflake_nextval(bigint) RETURNS bigint
	LANGUAGE c AS '$libdir/snowflake', 'snowflake_next_id'});
like(condition_of('imposter.snowflake_timestamp'), qr/Filter: .*imposter.snowflake_timestamp/, 'a condition on its time stays');

# ---- those of the extension ----

# A superuser may make a function of our C code beside the extension: its IDs are those
# of the extension, below the same mark, and there are none without the extension.
is(counted('imposter.snowflake_nextval(1::bigint)'), '1', 'our C function, outside the extension');
query($node, 'INSERT INTO t DEFAULT VALUES; INSERT INTO t VALUES (ours.snowflake_nextval())');
cmp_ok(query($node, q{SELECT max(id) < ours.snowflake_min_id(to_timestamp(last_value / 1000.0)) FROM t, snowflake_state.snowflake_mark GROUP BY last_value}),
	'eq', 't', 'its IDs are below the mark');
query($node, 'DROP TABLE t; DROP EXTENSION snowflake; CREATE SCHEMA snowflake_state; CREATE SEQUENCE snowflake_state.snowflake_mark');
refused($node, 'SELECT imposter.snowflake_nextval(1::bigint)', '42704',
	qr/sequence "snowflake_mark" of the extension "snowflake" does not exist/, 'without the extension, whatever sequence is there');
query($node, 'DROP SCHEMA snowflake_state CASCADE; CREATE EXTENSION snowflake SCHEMA ours');
query($node, 'ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark');
refused($node, 'SELECT ours.snowflake_nextval()', '42704',
	qr/sequence "snowflake_mark" of the extension "snowflake" does not exist/, 'a sequence that is no member');
query($node, 'ALTER EXTENSION snowflake ADD SEQUENCE snowflake_state.snowflake_mark');

is(counted('ours.snowflake_nextval()'), '1', 'a function of the extension');
like(condition_of('ours.snowflake_timestamp'), qr/Cond: .*id >= '?\d+/, 'a condition');
query($node, 'ALTER FUNCTION ours.snowflake_nextval(text) SET search_path = pg_catalog');
is(counted(q{ours.snowflake_nextval('javascript')}), '1', 'one with a setting of its own');
query($node, 'ALTER FUNCTION ours.snowflake_nextval(text) RESET ALL; ALTER SCHEMA ours RENAME TO "Its Own"');
is(query($node, q{SELECT substring(found FROM 'of (\d+) columns') FROM "Its Own".snowflake_status() WHERE check_name = 'column types'}),
	'1', 'in a schema that was renamed');
query($node, 'ALTER SCHEMA "Its Own" RENAME TO ours');

# ---- portable functions that call them ----

query($node, q{CREATE FUNCTION ids.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT ours.snowflake_nextval()';
	CREATE FUNCTION ids.snowflake_nextval(layout text) RETURNS bigint LANGUAGE sql AS 'SELECT ours.snowflake_nextval($1)';
	CREATE FUNCTION ids.snowflake_shard_nextval(shard bigint) RETURNS bigint LANGUAGE sql
		AS 'SELECT ours.snowflake_shard_nextval($1)'});
is(counted('ids.snowflake_nextval()'), '1', 'a portable function whose body calls the extension');
is(counted('ids.snowflake_shard_nextval(1)'), '1', 'for a shard');
is(counted(q{ids.snowflake_nextval('javascript')}), '1', 'in another layout');
query($node, q{INSERT INTO t DEFAULT VALUES});
is(query($node, q{SELECT ours.snowflake_advance(max(id), layout => 'javascript') > now() - interval '1 minute' FROM t}),
	't', 'whose layout is known');

# An index on a function that the planner does not inline serves no condition on ours.
query($node, q{CREATE FUNCTION ids.snowflake_timestamp(id bigint, layout text) RETURNS timestamptz IMMUTABLE LANGUAGE sql
		SET search_path = '' AS 'SELECT ours.snowflake_timestamp($1, $2)';
	DROP TABLE t; CREATE TABLE t (id bigint PRIMARY KEY);
	CREATE INDEX ON t (ids.snowflake_timestamp(id, 'snowflake'))});
like(query($node, q{SET enable_seqscan = off; EXPLAIN SELECT FROM t WHERE ours.snowflake_timestamp(id, 'snowflake') < '2026-01-01Z'}),
	qr/Cond: \(id </, 'a function with a setting of its own');

$node->stop;
done_testing();
