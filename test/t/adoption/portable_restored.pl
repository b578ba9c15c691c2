# The portable functions after a restore of a dump without their state, and as an
# extension, as pg_tle makes one from them.
#
# takes: 10 s
use SnowflakeTest;
use ServerCopy;

my $sql = "$root/sql";
my $install = slurp_file("$sql/portable.sql");
my $copy = copy_server();
my $node = PostgreSQL::Test::Cluster->new('main', install_path => install_path($copy));
my $next = 'SELECT ids.snowflake_nextval()';
my $named_next = q{SELECT ids.snowflake_nextval('javascript')};
my $shard_next = 'SELECT ids.snowflake_shard_nextval(3)';
my $unset = qr/the node id is not set.*SELECT \w+\.snowflake_set_node\(1\)/s;
my $unset_shards = qr/the shards are not set.*SELECT \w+\.snowflake_set_shards/s;

# Dump a database with these options, and restore it under another name.
sub dump_and_restore
{
	my ($from, $to, @options) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$to.sql";

	query($node, "CREATE DATABASE $to");
	command_ok([ 'pg_dump', @options, '-d', $node->connstr($from), '-f', $file ], "$to: dumped");
	command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($to), '-f', $file ],
		"$to: restored without an error");
	return (database => $to);
}

# Check that no ID is made before the owner has configured this database.
sub must_be_set
{
	my ($name, %there) = @_;

	refused($node, $_, '55000', $unset, "$name: no ID without a node id: $_", %there) foreach $next, $named_next;
	refused($node, $shard_next, '55000', $unset_shards, "$name: ... nor for a shard", %there);
	refused($node, q{SELECT ids.snowflake_advance(1, layout => 'snowflake')}, '55000', $unset,
		"$name: there is no position to advance", %there);
	like(query($node, q{SELECT string_agg(check_name || ' ' || status, ', ') FROM ids.snowflake_status()}, %there),
		qr/^summary error, node id error/, "$name: the status says so");
	# what is rolled back configures nothing
	query($node, q{BEGIN; SELECT ids.snowflake_set_node(6), ids.snowflake_set_shards('3'); ROLLBACK}, %there);
	refused($node, $next, '55000', $unset, "$name: nor after a rollback", %there);
	refused($node, $shard_next, '55000', $unset_shards, "$name: nor for a shard", %there);
	query($node, q{SELECT ids.snowflake_set_node(6), ids.snowflake_set_shards('3')}, %there);
	is(query($node, "SELECT ids.snowflake_node(i) FROM ($next) n (i); SELECT count(*) FROM ($shard_next) s", %there),
		"6\n1", "$name: then it goes on");
	return;
}

$node->init;
$node->append_conf('postgresql.conf', "max_connections = 20\nshared_buffers = 4MB\n");
write_file(extension_dir($copy) . '/snowflake_portable.control', "default_version = '1.0'\n");
my ($tle) = `'$sql/portable-make' --tle` =~ /^SELECT pgtle\.install_extension\(.*, \$tle\$\n(.*)^\$tle\$\);$/ms;
write_file(extension_dir($copy) . '/snowflake_portable--1.0.sql', $tle);
$node->start;

# ---- a dump of the schema alone ----

query($node, 'CREATE DATABASE plain');
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5), snowflake_set_shards('3'); $next; $shard_next}, database => 'plain');
must_be_set('the schema alone', dump_and_restore('plain', 'schema', '--schema-only'));

# ---- an extension ----

my %tle = (database => 'tle');
query($node, 'CREATE DATABASE tle');
# an operator in that schema fits what the text compares better than the server's
query($node, q{CREATE SCHEMA ids; CREATE FUNCTION ids.eq(oid, regnamespace) RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN RAISE 'trapped'; END $$;
	CREATE OPERATOR ids.= (FUNCTION = ids.eq, LEFTARG = oid, RIGHTARG = regnamespace)}, %tle);
query($node, 'CREATE EXTENSION snowflake_portable SCHEMA ids', %tle);
query($node, 'DROP OPERATOR ids.= (oid, regnamespace); DROP FUNCTION ids.eq', %tle);
must_be_set('an extension', %tle);
query($node, q{CREATE TABLE t (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval());
	INSERT INTO t DEFAULT VALUES;
	SELECT ids.snowflake_advance(ids.snowflake_max_id(now() + interval '1 h'), NULL, true)}, %tle);
my %restored = dump_and_restore('tle', 'restored');
refused($node, $next, '55000', $unset, 'a restored extension: no ID without a node id', %restored);
refused($node, q{SELECT ids.snowflake_set_node(6, 'discord')}, '55000', qr/the layout cannot be changed/,
	'... another layout is refused', %restored);
query($node, q{SELECT ids.snowflake_set_node(7), ids.snowflake_set_shards('3')}, %restored);
refused($node, $_, '58000', qr/behind the next ID/, "... and the position came along: $_", %restored)
  foreach $next, $named_next, $shard_next;
query($node, 'DROP TABLE t; DROP EXTENSION snowflake_portable', %tle);
is(query($node, q{SELECT count(*) FROM pg_class WHERE relnamespace = 'ids'::regnamespace}, %tle), '0',
	'DROP EXTENSION leaves nothing');

# ---- ... is replaced by the library ----

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.node_id = '7'\nsnowflake.shards = '3'\n");
$node->restart;
my $last = query($node, 'SELECT ids.snowflake_close()', %restored);
command_ok([ 'psql', '-XAtq', '-v', "last=$last", '-f', "$sql/portable-library.sql", '-d', $node->connstr('restored') ], 'the library begins above');
query($node, "SET search_path = ids; SET portable.above = $last; " . slurp_file("$sql/portable-to-extension.sql"), %restored);
is(query($node, q{SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension}, %restored), 'plpgsql snowflake',
	'the library takes the place of the extension');
refused($node, $_, '58000', qr/behind the mark/, "... and the position came along: $_", %restored)
  foreach 'INSERT INTO t DEFAULT VALUES', $shard_next;

$node->stop;
done_testing();
