# The exchange of the portable functions for the library, and back.
#
# takes: 15 s
use strict;
use warnings FATAL => 'all';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $top = "$FindBin::RealBin/../../..";
my $install = slurp_file("$top/sql/portable.sql");

my $node = new_server('main', "snowflake.shards = '3'");
$node->start;

my %swap = (database => 'swap');
my $there = slurp_file("$top/sql/portable-to-extension.sql");
query($node, 'CREATE DATABASE swap; CREATE ROLE reader');
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(1), snowflake_set_shards('3')}, %swap);
query($node, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), "the Shard's" bigint DEFAULT ids.snowflake_shard_nextval(3));
	CREATE TABLE l (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval('sonyflake'));
	CREATE TABLE p (id bigint DEFAULT ids.snowflake_nextval(), n integer) PARTITION BY LIST (n);
	CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
	CREATE TABLE p2 (id bigint, n integer);
	ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
	CREATE VIEW v WITH (security_barrier) AS SELECT id, ids.snowflake_timestamp(id) AS at FROM t;
	CREATE VIEW w AS SELECT id, at, ids.snowflake_node(id) AS node FROM v WHERE id >= ids.snowflake_min_id('2025-01-02');
	COMMENT ON VIEW v IS 'it''s mine';
	GRANT SELECT ON w TO reader WITH GRANT OPTION;
	ALTER VIEW w OWNER TO reader; GRANT SELECT ON v TO reader;
	INSERT INTO t SELECT FROM generate_series(1, 1000);
	INSERT INTO l SELECT FROM generate_series(1, 100);
	INSERT INTO p (n) VALUES (1)}, %swap);

# Return defaults and views with their properties, the rows, and one more ID of each
# layout.
sub swapped
{
	return query($node, q{
		SELECT adrelid::regclass, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef f JOIN pg_class c ON c.oid = adrelid
		WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2;
		SELECT relname, pg_get_viewdef(oid), relacl, reloptions, relowner::regrole, obj_description(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace ORDER BY 1;
		SELECT sum(hashtext(w::text)), count(*) FROM w WHERE id <= (SELECT id FROM t ORDER BY id OFFSET 999 LIMIT 1);
		WITH n AS (INSERT INTO t DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM t), "the Shard's" > (SELECT max("the Shard's") FROM t), ids.snowflake_node(id) FROM n;
		WITH n AS (INSERT INTO l DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM l), ids.snowflake_node(id, 'sonyflake') FROM n}, %swap);
}
my $was = swapped();
like($was, qr/t\|t\|1\nt\|1\z/, 'portable, before the swap');
query($node, 'CREATE INDEX at ON t (ids.snowflake_timestamp(id, $$twitter$$))', %swap);
refused($node, "SET search_path = ids; $there", '2BP01', qr/cannot keep all objects.*These are neither: index public\.at\./s, 'an index is named', %swap);
query($node, 'DROP INDEX at', %swap);
refused($node, "SET search_path = public; $there", 'P0001', qr/does not begin with the schema/, 'not there', %swap);
# a transaction that has made an ID makes another while the script waits for it
my $open = $node->background_psql('swap');
$open->query_safe('BEGIN; INSERT INTO p (n) VALUES (1)');
my $script = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('swap'),
		'-c', 'SET search_path = ids', '-f', "$top/sql/portable-to-extension.sql" ], '2>', \my $notices);
$node->poll_query_until('swap', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
$open->query_safe('INSERT INTO p (n) VALUES (1); INSERT INTO p (n) VALUES (2); COMMIT');
$open->quit;
ok($script->finish, 'the script waits for a transaction, and that not for it') or diag($notices);
like($notices, qr/ALTER TABLE ONLY public\.t ALTER id SET DEFAULT ids\.snowflake_nextval\(\)/, 'it prints what it changes');
is(query($node, 'SELECT extname, extnamespace::regnamespace FROM pg_extension WHERE extname = $$snowflake$$', %swap), 'snowflake|ids', 'the extension is there');
is(query($node, q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND proname ~ 'portable'}, %swap), '0', '... and nothing of the functions');
is(swapped(), $was, 'defaults and views are as they were, and IDs go on above');

command_ok([ 'psql', '-XAtq', '-d', $node->connstr('swap'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
is(query($node, 'SELECT count(*) FROM pg_extension WHERE extname = $$snowflake$$', %swap), '0', 'the extension is gone');
is(swapped(), $was, 'defaults and views are as they were, and IDs go on above');

# the position, far ahead of the clock, is carried over in both directions
query($node, q{SELECT ids.snowflake_advance(ids.snowflake_max_id(now() + interval '1 h'), force => true)}, %swap);
query($node, "SET search_path = ids; $there", %swap);
refused($node, "SELECT $_", '58000', qr/behind/, "$_ is refused until the clock is there", %swap)
  foreach 'ids.snowflake_nextval()', 'ids.snowflake_shard_nextval(3)', q{ids.snowflake_nextval('sonyflake')};
command_ok([ 'psql', '-XAtq', '-d', $node->connstr('swap'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
refused($node, "SELECT $_", '58000', qr/behind/, "$_ is refused until the clock is there", %swap)
  foreach 'ids.snowflake_nextval()', 'ids.snowflake_shard_nextval(3)', q{ids.snowflake_nextval('sonyflake')};

# the functions are another role's: none of them runs as who swaps
my %tenant = (database => 'tenant');
query($node, 'CREATE ROLE tenant; CREATE DATABASE tenant');
query($node, qq{CREATE SCHEMA ids AUTHORIZATION tenant; SET ROLE tenant; SET search_path = ids; $install
	SELECT snowflake_set_node(1), snowflake_set_shards('3'); SELECT snowflake_nextval(), snowflake_shard_nextval(3);
	CREATE SEQUENCE caught;
	CREATE OR REPLACE FUNCTION snowflake_portable_layout(layout text) RETURNS snowflake_portable_fields LANGUAGE plpgsql AS \$\$
		BEGIN
			IF current_user <> 'tenant' THEN PERFORM nextval('ids.caught'); END IF;
			RETURN ids.snowflake_portable_node_layout();
		END \$\$;
	ALTER TABLE snowflake_config RENAME TO c;
	CREATE VIEW snowflake_config AS SELECT c.* FROM c, snowflake_portable_layout('twitter')}, %tenant);
refused($node, "SET search_path = ids; $there", 'P0001', qr/is not that of the portable functions/, 'a view in place of the table', %tenant);
query($node, 'DROP VIEW ids.snowflake_config; ALTER TABLE ids.c RENAME TO snowflake_config', %tenant);
my $least = query($node, 'SELECT ids.snowflake_nextval()', %tenant);
query($node, "SET search_path = ids; $there", %tenant);
is(query($node, 'SELECT is_called FROM ids.caught', %tenant), 'f', 'no function of another role runs as who swaps');
cmp_ok(query($node, 'SELECT ids.snowflake_nextval()', %tenant), '>', $least, '... and the position came along');
command_ok([ 'psql', '-XAtq', '-d', $node->connstr('tenant'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
is(query($node, q{SELECT DISTINCT proowner::regrole FROM pg_proc WHERE pronamespace = 'ids'::regnamespace
	UNION SELECT relowner::regrole FROM pg_class WHERE relnamespace = 'ids'::regnamespace}, %tenant), 'tenant', '... to the owner of the schema');
cmp_ok(query($node, 'SET ROLE tenant; SELECT ids.snowflake_nextval() FROM ids.snowflake_set_node(2)', %tenant), '>', $least, '... who can use them');

# a server with another layout
query($node, 'CREATE DATABASE other');
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(1, 'javascript')}, database => 'other');
refused($node, "SET search_path = ids; $there", '55000',
	qr/the layout of the node's IDs is another one.*ALTER SYSTEM SET snowflake.layout = 'timestamp:41 node:7 sequence:5 epoch:2024-01-01'/s,
	'another layout is refused', database => 'other');
cmp_ok(query($node, 'SELECT ids.snowflake_nextval()', database => 'other'), '>', 0, '... and nothing has changed');
query($node, "SET search_path = ids; $there SELECT ids.snowflake_nextval()", %tenant);
$node->append_conf('postgresql.conf', q{snowflake.layout = 'timestamp:41 node:9 sequence:13 epoch:2023-01-01'});
$node->restart;
command_fails_like([ 'psql', '-XAtq', '-d', $node->connstr('tenant'), '-f', "$top/sql/extension-to-portable.sql" ],
	qr/ERROR:  \S.*layout.*HINT:  \S.*layout/s, '... and back, too');
is(query($node, 'SELECT extname FROM pg_extension WHERE extname = $$snowflake$$', %tenant), 'snowflake', '... where nothing has changed, either');
$node->stop;
done_testing();
