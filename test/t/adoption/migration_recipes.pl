# The recipes of doc/migration.md, as they are written there, on stand-ins for
# what others have made.
#
# takes: 20 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;
use ServerCopy;

my $page = slurp_file("$FindBin::RealBin/../../../doc/migration.md");

# The blocks of SQL under a heading.
sub recipes
{
	my ($heading) = @_;
	my ($section) = $page =~ /^#+ \Q$heading\E\n(.*?)(?:^#+ |\z)/ms
	  or die "the page has no \"$heading\"";
	my @blocks = $section =~ /^```sql\n(.*?)^```$/msg;

	return @blocks;
}

my $ahead = 1500;	# ms that the clock of the old generator is ahead of ours

# An expression for its ID at such a time; "low" are the bits below the time.
sub old_id
{
	my ($epoch, $shift, $low, $offset) = @_;

	return "(((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	  . " + $offset - $epoch) << $shift) | ($low))";
}

# A table with the IDs of an old generator, the last of them ahead of the clock.
# Without the recipe a new ID would be below.
sub fill
{
	my ($node, $table, $with, @old) = @_;

	query($node, "CREATE TABLE $table (id bigint PRIMARY KEY, item text)");
	query($node, "INSERT INTO $table VALUES (" . old_id(@old, -3_600_000) . ", 'old')");
	is( query($node, "INSERT INTO $table VALUES (" . old_id(@old, $ahead) . ", 'old');
			SELECT $with < max(id) FROM $table"), 't',
		"$table: without the recipe, new IDs are below the last one");
	return;
}

sub continues
{
	my ($node, $table, $name) = @_;

	query($node, "INSERT INTO $table (item) SELECT 'new' FROM generate_series(1, 100)");
	is(query($node, "SELECT count(*), min(id) FILTER (WHERE item = 'new') > max(id) FILTER (WHERE item = 'old') FROM $table"),
		'102|t', $name);
	return;
}

# ---- Twitter ----

my ($twitter) = recipes("From Twitter's layout");
my $node = new_server('twitter', "snowflake.layout = 'twitter'",
	"snowflake.shards = '5'");
$node->append_conf('postgresql.conf', "snowflake.node_id = '75'");
$node->start;
query($node, 'CREATE EXTENSION snowflake');
# datacenter 2, worker 11
fill($node, 'orders', 'snowflake_nextval()', '1288834974657', 22,
	'(2 << 17) | (11 << 12) | 4000');
query($node, $twitter);
continues($node, 'orders', 'Twitter: goes on above');
is(query($node, 'SELECT DISTINCT datacenter_id, worker_id, node_id FROM orders, snowflake_decode(id)'),
	'2|11|75', 'Twitter: old and new say the same of their node');
is(query($node, q{SELECT count(*) FROM orders WHERE item = 'old' AND snowflake_timestamp(id) NOT BETWEEN now() - interval '61 min' AND now() + interval '2 s'}),
	'0', 'Twitter: and old ones when they were made');

# ---- Instagram ----

my ($instagram) = recipes("From Instagram's function");
query($node, 'CREATE SCHEMA shard5; CREATE SEQUENCE shard5.table_id_seq');
query($node, q{CREATE FUNCTION shard5.next_id() RETURNS bigint LANGUAGE sql AS $$
	SELECT } . old_id('1314220021721', 23, "(5 << 10) | nextval('shard5.table_id_seq') % 1024", 0) . q{ $$});
fill($node, 'shard5.photos', 'snowflake_shard_nextval(5)', '1314220021721', 23,
	'(5 << 10) | 7');
query($node, 'ALTER TABLE shard5.photos ALTER COLUMN id SET DEFAULT shard5.next_id()');
query($node, $instagram);
continues($node, 'shard5.photos', 'Instagram: goes on above');
is(query($node, q{SELECT DISTINCT snowflake_shard(id, 'instagram') FROM shard5.photos}),
	'5', 'Instagram: old and new say the same of their shard');

# ---- rows without their mark ----

my ($arrived) = recipes('Rows that arrive without their mark');
query($node, 'ALTER TABLE orders RENAME TO sold');
fill($node, 'orders', 'snowflake_nextval()', '1288834974657', 22,
	'(2 << 17) | (11 << 12) | 4000');
query($node, 'ALTER TABLE orders ALTER COLUMN id SET DEFAULT snowflake_nextval()');
query($node, $arrived);
continues($node, 'orders', 'rows of another server: goes on above');
query($node, 'TRUNCATE orders');
refused($node, $arrived, '22004', qr/largest ID of an empty table/,
	'an empty table has no largest ID, and that is said');
$node->stop;

# ---- Mastodon ----

my ($mastodon) = recipes("From Mastodon's function");
$node = new_server('mastodon', "snowflake.layout = 'mastodon'");
$node->append_conf('postgresql.conf', "snowflake.node_id = '0'");
$node->start;
query($node, 'CREATE EXTENSION snowflake; CREATE SEQUENCE statuses_id_seq');
query($node, q{CREATE FUNCTION timestamp_id(table_name text) RETURNS bigint LANGUAGE sql AS $$
	SELECT } . old_id(0, 16, q{(('x' || substr(md5(table_name || 'salt'), 1, 4))::bit(16)::bigint + nextval(table_name || '_id_seq')) & 65535}, 0) . q{ $$});
fill($node, 'statuses', 'snowflake_nextval()', 0, 16, '65000');
query($node, q{ALTER TABLE statuses ALTER COLUMN id SET DEFAULT timestamp_id('statuses')});
query($node, $mastodon);
continues($node, 'statuses', 'Mastodon: goes on above');
is(query($node, q{SELECT count(*) FROM statuses WHERE abs(extract(epoch FROM snowflake_timestamp(id) - now())) < 60}),
	'101', 'Mastodon: IDs say when they were made');
$node->stop;

# ---- pgEdge's extension, with its name, and files of its shape ----

my $server = copy_server();
my $dir = extension_dir($server);
my $our_control = slurp_file("$dir/snowflake.control");
my $our_library = slurp_file(library($server));
my ($before, $after) = recipes("From pgEdge's extension");
my ($which, @more) = recipes('Other extensions called snowflake');
is(@more, 0, 'the page has one query that tells them apart');
my ($which_database, $which_files) = split /(?=-- what is installed)/, $which;

# what our library would be asked for by it
my $pgedge_functions = q{
CREATE FUNCTION snowflake.nextval(regclass) RETURNS bigint
AS '$libdir/snowflake', 'snowflake_nextval' LANGUAGE C;
CREATE FUNCTION snowflake.get_epoch(bigint) RETURNS numeric
AS '$libdir/snowflake', 'snowflake_get_epoch' LANGUAGE C;
};
my $pgedge_control = "comment = 'Snowflake style IDs for PostgreSQL'\n"
  . "default_version = '2.6.0'\nmodule_pathname = '\$libdir/snowflake'\n"
  . "relocatable = false\nschema = snowflake\n";
my $pgedge_id = old_id(1672531200000, 22, q{(7 << 12) | pg_catalog.nextval($1) % 4096}, 0);

write_file("$dir/snowflake.control", $pgedge_control);
write_file("$dir/snowflake--2.6.0.sql",
	"CREATE FUNCTION snowflake.nextval(regclass) RETURNS bigint\n"
	. "LANGUAGE sql AS \$\$ SELECT $pgedge_id \$\$;\n");
$node = new_server('pgedge', "snowflake.layout = 'pgedge'");
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = ''\nsnowflake.node = 7");
$node->{_install_path} = install_path($server);
$node->start;
query($node, q{CREATE EXTENSION snowflake; CREATE SEQUENCE orders_id_seq;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake.nextval('orders_id_seq'), item text);
	INSERT INTO orders (item) VALUES ('old');
	INSERT INTO orders VALUES (} . old_id(1672531200000, 22, '(7 << 12) | 9', $ahead) . q{, 'old')});
is(query($node, $which_database), 'snowflake|2.6.0|snowflake|f|t',
	"a database with pgEdge's is told");
is(query($node, $which_files), 'snowflake|2.6.0|Snowflake style IDs for PostgreSQL',
	'and that its files are installed');

# each version that pgEdge has released, and one that is newer
my ($versions) = slurp_file("$FindBin::RealBin/../../../Makefile") =~ /^PGEDGE = (.*)$/m;
my @versions = split ' ', $versions;
cmp_ok(scalar(@versions), '>=', 8, "versions of pgEdge's");
foreach my $version (@versions, '9.9')
{
	write_file("$dir/snowflake--$version.sql", '') unless $version eq '2.6.0';
	query($node, qq{CREATE DATABASE "pgedge_$version"});
	query($node, "CREATE EXTENSION snowflake VERSION '$version'", database => "pgedge_$version");
}

# ours is installed over it
write_file("$dir/snowflake.control", $our_control);
is(query($node, $which_files),
	'snowflake|1.0|bigint keys that are unique across servers and sort by time',
	'and that ours are');
refused($node, 'CREATE EXTENSION snowflake', '42710',
	qr/extension "snowflake" already exists/, "it is not created beside pgEdge's");
my $is_pgedges = qr/extension "snowflake" of this database is pgEdge's.*HINT:  .*"From pgEdge's extension"/s;
refused($node, 'ALTER EXTENSION snowflake UPDATE', '55000', $is_pgedges, 'nor made of it');
foreach my $version (@versions)
{
	refused($node, 'ALTER EXTENSION snowflake UPDATE', '55000', $is_pgedges,
		"nor of its version $version", database => "pgedge_$version");
	is(query($node, q{SELECT extversion FROM pg_extension WHERE extname = 'snowflake'}, database => "pgedge_$version"),
		$version, 'and stays what it is');
}
refused($node, 'ALTER EXTENSION snowflake UPDATE', '22023',
	qr/extension "snowflake" has no update path from version "9\.9" to version "1\.0"/,
	'nor of one that is not known', database => 'pgedge_9.9');
unlink("$dir/snowflake--2.2.sql") or die "snowflake--2.2.sql: $!";
is(query($node, q{SELECT string_agg(version, ' ') FROM pg_available_extension_versions
		WHERE name = 'snowflake' AND version IN ('1.0', '2.2')}),
	'1.0', "without pgEdge's scripts its versions are not on offer");
refused($node, 'DROP EXTENSION snowflake', '2BP01', qr/other objects depend on it/,
	'nor dropped while a default needs it');

# its functions, with our library
sub theirs_lead_to_ours
{
	my ($when) = @_;

	refused($node, q{SELECT theirs.nextval('orders_id_seq')}, '55000',
		qr/function "snowflake_nextval" is one of pgEdge's extension "snowflake".*HINT:  .*To migrate, see/s,
		"$when: its function makes no IDs with our library");
	foreach my $function (qw(currval get_epoch get_count get_node))
	{
		query($node, "UPDATE pg_proc SET prosrc = 'snowflake_$function' WHERE oid = 'theirs.get_epoch'::regproc");
		refused($node, 'SELECT theirs.get_epoch(1)', '55000',
			qr/function "snowflake_$function" is one of pgEdge's extension "snowflake"/,
			"$when: nor is there a $function");
	}
	return;
}

# as its library, which has them, has let them be created
query($node, 'CREATE SCHEMA theirs; ' . $pgedge_functions =~ s/snowflake\./theirs./gr
	=~ s/'snowflake_(?:nextval|get_epoch)'/'snowflake_node'/gr);
query($node, q{UPDATE pg_proc SET prosrc = 'snowflake_nextval' WHERE oid = 'theirs.nextval'::regproc});
theirs_lead_to_ours('not preloaded');
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'snowflake'\nsnowflake.node_id = '7'");
$node->restart;
theirs_lead_to_ours('preloaded');
query($node, 'DROP SCHEMA theirs CASCADE');

# the recipe
query($node, $before);
$node->restart;
query($node, 'CREATE TABLE probe AS SELECT max(id) FROM orders');
query($node, $after);
continues_pgedge();

sub continues_pgedge
{
	is(query($node, $which_database), 'snowflake|1.0|public|t|f', 'now it is ours');
	query($node, q{INSERT INTO orders (item) SELECT 'new' FROM generate_series(1, 100)});
	is(query($node, q{SELECT min(id) > (SELECT max FROM probe) FROM orders WHERE item = 'new'}),
		't', 'pgEdge: goes on above');
	is(query($node, 'SELECT DISTINCT snowflake_node(id) FROM orders'), '7',
		'pgEdge: old and new say the same of their node');
	return;
}

# files of the one with the library of the other
write_file(library($server), $our_library
	=~ s/snowflake_nextval_batch/snowflake_nextval_botch/gr =~ s/snowflake_next_id/snowflake_nxet_id/gr);
$node->restart;
refused($node, 'SELECT snowflake_nextval()', '42883',
	qr/could not find function "snowflake_next_id" in file/,
	'our functions ask a library that is not ours for nothing that it has');
query($node, 'DROP EXTENSION snowflake CASCADE');
refused($node, 'CREATE EXTENSION snowflake', '55000',
	qr/library "snowflake" is not that of this extension.*DETAIL:  .*pgEdge's.* could not find function "snowflake_nextval_batch" in file.*HINT:  Remove pgEdge's files/s,
	'our files with a library that is not ours: an error that names it');
write_file(library($server), $our_library);
write_file("$dir/snowflake.control", $pgedge_control);
write_file("$dir/snowflake--2.6.0.sql", $pgedge_functions);
$node->restart;
refused($node, 'CREATE EXTENSION snowflake', '55000',
	qr/function "snowflake_nextval" is one of pgEdge's extension "snowflake"/,
	"pgEdge's files with our library: likewise");
is(query($node, q{SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'}),
	'0', 'nothing is created');
$node->stop;

done_testing();
