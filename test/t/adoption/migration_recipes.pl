# The recipes of doc/migration.md, run as they stand there, on stand-ins for the
# functions of other projects.
#
# takes: 26 s
use SnowflakeTest;
use ServerCopy;

my $page = slurp_file("$root/doc/migration.md");

# Return the blocks of SQL under a heading.
sub recipes
{
	my ($heading) = @_;
	my ($section) = $page =~ /^#+ \Q$heading\E\n(.*?)(?:^#+ |\z)/ms
	  or die "the page has no \"$heading\"";
	my @blocks = $section =~ /^```sql\n(.*?)^```$/msg;

	return @blocks;
}

my $ahead = 1500;	# ms that the clock of the old generator is ahead of ours

# Return an expression for an old generator's ID at a time. "low" are the bits below
# the time.
sub old_id
{
	my ($epoch, $shift, $low, $offset) = @_;

	return "(((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	  . " + $offset - $epoch) << $shift) | ($low))";
}

# Make a table with IDs of an old generator. The last of them is ahead of the clock, so
# that a new ID would be lower without the recipe.
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
my $node = new_server('twitter', "snowflake.shards = '5'");
$node->append_conf('postgresql.conf', "snowflake.node_id = '75'");
$node->start;
query($node, 'CREATE EXTENSION snowflake');
# datacenter 2, worker 11
fill($node, 'orders', q{snowflake_nextval('twitter')}, '1288834974657', 22,
	'(2 << 17) | (11 << 12) | 4000');
query($node, $twitter);
continues($node, 'orders', 'Twitter: goes on above');
is(query($node, q{SELECT DISTINCT datacenter_id, worker_id, node_id FROM orders, snowflake_decode(id, 'twitter')}),
	'2|11|75', 'Twitter: old and new say the same of their node');
is(query($node, q{SELECT count(*) FROM orders WHERE item = 'old' AND snowflake_timestamp(id, 'twitter') NOT BETWEEN now() - interval '61 min' AND now() + interval '2 s'}),
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

# ---- rows that arrive without their mark ----

my ($recover) = recipes('Rows that arrive without their mark');
query($node, 'ALTER TABLE orders RENAME TO sold');
fill($node, 'orders', 'snowflake_nextval()', '1704067200000', 22, '(75 << 12) | 4000');
query($node, 'ALTER TABLE orders ALTER COLUMN id SET DEFAULT snowflake_nextval()');
query($node, $recover);
continues($node, 'orders', 'rows of another server: goes on above');
query($node, 'TRUNCATE orders');
refused($node, 'SELECT snowflake_advance((SELECT max(id) FROM orders))', '22004', qr/largest ID of an empty table/,
	'an empty table has no largest ID, and that is said');
$node->stop;

# ---- Discord ----

my ($discord, $discord_text) = recipes("From Discord's layout");
$node->append_conf('postgresql.conf', "snowflake.node_id = '32'");
$node->start;
# worker 1, process 0
fill($node, 'messages', q{snowflake_nextval('discord')}, '1420070400000', 22,
	'(1 << 17) | (0 << 12) | 4000');
# the example of Discord's documentation
query($node, q{UPDATE messages SET id = 175928847299117063 WHERE id = (SELECT min(id) FROM messages)});
my ($first) = query($node, "SET timezone = 'UTC'; $discord") =~ /^(175928847299117063\|.*)$/m;
is($first, '175928847299117063|2016-04-30 11:18:25.796+00', 'Discord: an ID says when it was made');
continues($node, 'messages', 'Discord: goes on above');
is(query($node, q{SELECT DISTINCT worker_id, process_id, node_id FROM messages, snowflake_decode(id, 'discord')}),
	'1|0|32', 'Discord: old and new say the same of their node');
is(query($node, q{SELECT count(*) FROM messages WHERE item = 'new' AND abs(extract(epoch FROM snowflake_timestamp(id, 'discord') - now())) < 60}),
	'100', 'Discord: and new ones when they were made');

# IDs in text columns, one of which has fewer digits than the others
query($node, q{DROP TABLE messages;
	CREATE TABLE messages (id text PRIMARY KEY, item text);
	CREATE TABLE attachments (message_id text REFERENCES messages);
	INSERT INTO messages VALUES ('175928847299117063', 'old'), ('81384788765712384', 'older'), ('no number', '');
	INSERT INTO attachments SELECT id FROM messages WHERE item <> ''});
is(query($node, q{SELECT string_agg(item, ' ' ORDER BY id) FROM messages WHERE item <> ''}), 'old older',
	'Discord: as text, IDs have another order');
refused($node, $discord_text, '22P02', qr/invalid input syntax for type bigint: "no number"/, 'Discord: a value that is no number');
is(query($node, q{DELETE FROM messages WHERE item = '' RETURNING pg_typeof(id)}), 'text', 'Discord: changes nothing');
query($node, $discord_text);
query($node, $discord);
query($node, q{INSERT INTO messages (item) VALUES ('new')});
is(query($node, q{SELECT string_agg(item, ' ' ORDER BY id) FROM messages}), 'older old new',
	'Discord: as bigint, they sort by time, and go on above');
is(query($node, q{SELECT count(*) FROM attachments JOIN messages ON id = message_id}), '2',
	'Discord: what referred to them, refers to them');
query($node, q{CREATE TABLE channels (id bigint PRIMARY KEY DEFAULT snowflake_nextval('discord'), item text);
	INSERT INTO channels VALUES (175928847299117063, 'old')});
query($node, q{INSERT INTO channels (item) VALUES ('new')});
is(query($node, q{SELECT string_agg(item, ' ' ORDER BY id) FROM channels}), 'old new',
	'Discord: where the clocks agree, the default alone is enough');
$node->stop;

# ---- Mastodon ----

my ($mastodon) = recipes("From Mastodon's function");
$node = new_server('mastodon');
$node->append_conf('postgresql.conf', "snowflake.node_id = '0'");
$node->start;
query($node, 'CREATE EXTENSION snowflake; CREATE SEQUENCE statuses_id_seq');
query($node, q{CREATE FUNCTION timestamp_id(table_name text) RETURNS bigint LANGUAGE sql AS $$
	SELECT } . old_id(0, 16, q{(('x' || substr(md5(table_name || 'salt'), 1, 4))::bit(16)::bigint + nextval(table_name || '_id_seq')) & 65535}, 0) . q{ $$});
fill($node, 'statuses', q{snowflake_nextval('mastodon')}, 0, 16, '65000');
query($node, q{ALTER TABLE statuses ALTER COLUMN id SET DEFAULT timestamp_id('statuses')});
query($node, $mastodon);
continues($node, 'statuses', 'Mastodon: goes on above');
is(query($node, q{SELECT count(*) FROM statuses WHERE abs(extract(epoch FROM snowflake_timestamp(id, 'mastodon') - now())) < 60}),
	'101', 'Mastodon: IDs say when they were made');
$node->stop;

# ---- pgEdge's extension, which has the same name and the same files ----

my $server = copy_server();
my $dir = extension_dir($server);
my $our_control = slurp_file("$dir/snowflake.control");
my $our_library = slurp_file(library($server));
my ($find, $before, $after, @clean_up) = recipes("From pgEdge's extension");
my ($which, @more) = recipes('Other extensions called snowflake');
is(@more, 0, 'the page has one query that tells them apart');
my ($which_database, $which_files) = split /(?=-- what is installed)/, $which;

# functions as pgEdge's SQL declares them, which would call our library
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
$node = new_server('pgedge');
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = ''\nsnowflake.node = 7");
$node->{_install_path} = install_path($server);
$node->start;
query($node, q{CREATE EXTENSION snowflake; ALTER SYSTEM SET snowflake.node = 7;
	CREATE TABLE orders (id serial PRIMARY KEY, item text);
	ALTER TABLE orders ALTER COLUMN id TYPE bigint,
		ALTER COLUMN id SET DEFAULT snowflake.nextval('orders_id_seq');
	INSERT INTO orders (item) VALUES ('old');
	INSERT INTO orders VALUES (} . old_id(1672531200000, 22, '(7 << 12) | 9', $ahead) . q{, 'old')});

# Return what pgEdge's convert_sequence_to_snowflake() leaves behind: versions 2.0 to
# 2.4 leave a MAXVALUE that snowflake.nextval() ignores, and versions from 2.3 on leave
# half an identity column.
sub low_maxvalue
{
	my ($sequence) = @_;

	return "ALTER SEQUENCE $sequence AS bigint;"
	  . "SELECT setval('$sequence', 515267480273317889);"
	  . "UPDATE pg_sequence SET seqmax = 4 WHERE seqrelid = '$sequence'::regclass;";
}

sub half_identity
{
	my ($table, $sequence) = @_;

	return "UPDATE pg_attribute SET attidentity = '' WHERE attrelid = '$table'::regclass AND attname = 'id';"
	  . "ALTER TABLE $table ALTER COLUMN id SET DEFAULT snowflake.nextval('$sequence');";
}

query($node, q{CREATE SEQUENCE numbers;
	CREATE TABLE bills (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
	CREATE TABLE "Letters" (id bigint GENERATED BY DEFAULT AS IDENTITY);
	CREATE TABLE untouched (id bigint GENERATED ALWAYS AS IDENTITY);
	CREATE DOMAIN number AS bigint DEFAULT snowflake.nextval('numbers');
	CREATE FUNCTION next_number() RETURNS bigint LANGUAGE plpgsql AS
		$$ BEGIN RETURN snowflake.nextval('numbers'); END $$;}
	. low_maxvalue('orders_id_seq') . low_maxvalue('numbers')
	. low_maxvalue('bills_id_seq') . half_identity('bills', 'bills_id_seq')
	. half_identity('"Letters"', '"Letters_id_seq"'));
is(query($node, $which_database), 'snowflake|2.6.0|snowflake|f|t',
	"a database with pgEdge's is told");
is(query($node, $which_files), 'snowflake|2.6.0|Snowflake style IDs for PostgreSQL',
	'and that its files are installed');

# each version that pgEdge has released, and a newer one
my ($versions) = slurp_file("$root/Makefile") =~ /^PGEDGE = (.*)$/m;
my @versions = split ' ', $versions;
cmp_ok(scalar(@versions), '>=', 8, "versions of pgEdge's");
foreach my $version (@versions, '9.9')
{
	write_file("$dir/snowflake--$version.sql", '') unless $version eq '2.6.0';
	query($node, qq{CREATE DATABASE "pgedge_$version"});
	query($node, "CREATE EXTENSION snowflake VERSION '$version'", database => "pgedge_$version");
}

# install our files over pgEdge's
write_file("$dir/snowflake.control", $our_control);
is(query($node, $which_files),
	'snowflake|1.0|bigint keys that are unique across servers and sort by time',
	'and that ours are');
refused($node, 'CREATE EXTENSION snowflake', '42710',
	qr/extension "snowflake" already exists/, "it is not created beside pgEdge's");
my $is_pgedges = qr/extension "snowflake" of this database is pgEdge's.*HINT:  To keep pgEdge's, install it again\. To migrate, see "From pgEdge's extension" in doc\/migration\.md\./s;
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

# Check that pgEdge's functions, called with our library, give an error that says so.
sub theirs_lead_to_ours
{
	my ($when) = @_;

	refused($node, q{SELECT theirs.nextval('numbers')}, '55000',
		qr/function "snowflake_nextval" is one of pgEdge's extension "snowflake".*HINT:  To go on with pgEdge's, install it again\. To migrate, drop the defaults that call snowflake\.nextval\(\), and the extension; then run: CREATE EXTENSION snowflake;/s,
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

# create pgEdge's functions as if its own library were there
query($node, 'CREATE SCHEMA theirs; ' . $pgedge_functions =~ s/snowflake\./theirs./gr
	=~ s/'snowflake_(?:nextval|get_epoch)'/'snowflake_node'/gr);
query($node, q{UPDATE pg_proc SET prosrc = 'snowflake_nextval' WHERE oid = 'theirs.nextval'::regproc});
theirs_lead_to_ours('not preloaded');

# the recipe, up to the exchange of the files
is( join("\n", sort split /\n/, query($node, $find)),
	join("\n", 'default value for column id of table "Letters"',
		'default value for column id of table bills',
		'default value for column id of table orders',
		'text of function next_number()', 'type number'),
	"pgEdge: all that calls it is found");
query($node, q{ALTER DOMAIN number DROP DEFAULT;
	ALTER TABLE bills ALTER COLUMN id DROP DEFAULT;
	ALTER TABLE "Letters" ALTER COLUMN id DROP DEFAULT;
	CREATE OR REPLACE FUNCTION next_number() RETURNS bigint LANGUAGE plpgsql AS
		$$ BEGIN RETURN snowflake_nextval(); END $$;});
query($node, $before);
my $conf = slurp_file($node->data_dir . '/postgresql.conf');
write_file($node->data_dir . '/postgresql.conf', $conf =~ s/^snowflake\.node = .*\n//mr);
my $from = -s $node->logfile;
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'snowflake'\nsnowflake.node_id = '7'");
$node->restart;
unlike(substr(slurp_file($node->logfile), $from), qr/snowflake\.node/,
	'pgEdge: its setting is gone before our library is loaded');
theirs_lead_to_ours('preloaded');
query($node, 'DROP SCHEMA theirs CASCADE');

# the rest of the recipe
query($node, 'CREATE TABLE probe AS SELECT max(id) FROM orders');
query($node, $after);
is(query($node, $which_database), 'snowflake|1.0|public|t|f', 'now it is ours');
query($node, q{INSERT INTO orders (item) SELECT 'new' FROM generate_series(1, 100)});
is(query($node, q{SELECT min(id) > (SELECT max FROM probe) FROM orders WHERE item = 'new'}),
	't', 'pgEdge: goes on above');
is(query($node, q{SELECT DISTINCT snowflake_node(id, 'pgedge') FROM orders}), '7',
	'pgEdge: old and new say the same of their node');

# the layout of pgEdge's tags 1.0 and 1.1: ID 9 of a millisecond of node 7
my ($oldest) = $page =~ /The tags 1\.0 and 1\.1 .*?`('timestamp:.*?')`/s;
is(query($node, "SELECT created_at = '2023-01-01 00:00:01Z', node_id, sequence FROM snowflake_decode((1000::bigint << 22) | (9 << 10) | 7, $oldest)"),
	't|7|9', 'pgEdge: the layout of its first tags');
query($node, q{ALTER TABLE bills ALTER COLUMN id SET DEFAULT snowflake_nextval();
	ALTER TABLE "Letters" ALTER COLUMN id SET DEFAULT snowflake_nextval();});

# Dump a database, and restore it as another one.
my $bin = install_path($server) . '/bin';

sub restore
{
	my ($to) = @_;
	my $dump = PostgreSQL::Test::Utils::tempdir() . "/$to.sql";

	system_or_bail("$bin/pg_dump", '-f', $dump, $node->connstr('postgres'));
	query($node, "CREATE DATABASE $to");
	return $node->psql($to, slurp_file($dump), on_error_die => 0);
}

my ($status, undef, $err) = restore('broken');
like($err, qr/syntax error at or near "AS"|setval: value \d+ is out of bounds/,
	'pgEdge: without the last step a dump cannot be restored');

# the last step of the recipe makes a dump restorable
my ($repair, $drop) = @clean_up;
query($node, $repair);
is( query($node, q{SELECT attrelid::regclass, attidentity, atthasdef, pg_get_serial_sequence(attrelid::regclass::text, 'id')
		FROM pg_attribute WHERE attname = 'id' AND attrelid IN ('bills'::regclass, '"Letters"'::regclass, 'untouched'::regclass)
		ORDER BY attrelid}),
	qq{bills||t|\n"Letters"||t|\nuntouched|a|f|public.untouched_id_seq},
	'pgEdge: half identities are none, with our default, and a whole one stays');
query($node, query($node, $drop));
is(query($node, 'SELECT string_agg(relname, $$ $$) FROM pg_class WHERE relkind = $$S$$ AND relname !~ $$^snowflake_$$'),
	'untouched_id_seq', "pgEdge: no sequence is left that was its own");
($status, undef, $err) = restore('restored');
is($status, 0, 'pgEdge: then a dump can be restored') or diag($err);
is(query($node, 'SELECT count(*) FROM orders', database => 'restored'), '102',
	'pgEdge: all rows are there');
query($node, 'DROP DATABASE broken');
foreach my $version (@versions, '9.9')
{
	query($node, qq{DROP DATABASE "pgedge_$version"});
}
$node->stop;

my $upgraded = new_server('upgraded');
$upgraded->append_conf('postgresql.conf', "snowflake.node_id = '7'");
$upgraded->{_install_path} = install_path($server);
chdir $upgraded->basedir or die;
command_ok(
	[
		"$bin/pg_upgrade", '-b', $bin, '-B', $bin,
		'-d', $node->data_dir, '-D', $upgraded->data_dir, '-s', $upgraded->host,
		'-p', $node->port, '-P', $upgraded->port
	],
	'pgEdge: then pg_upgrade upgrades')
  or diag(map { slurp_file($_) } glob($upgraded->data_dir . '/pg_upgrade_output.d/*/log/*_dump_*.log'));
$upgraded->start;
is(query($upgraded, 'INSERT INTO orders (id) VALUES (DEFAULT) RETURNING id > (SELECT max(id) FROM orders)'),
	't', 'pgEdge: and the new server goes on above');
$upgraded->stop;
$node->start;

# pgEdge's scripts, which were not removed, lie beside ours
write_file("$dir/snowflake--1.0--1.1.sql", '');
write_file("$dir/snowflake--1.1--1.2.sql", '');
query($node, q{ALTER EXTENSION snowflake UPDATE TO '1.2'; ALTER EXTENSION snowflake UPDATE});
is(query($node, $which_database), 'snowflake|1.0|public|t|f',
	"an update of ours to a version of pgEdge's is taken back");
unlink("$dir/snowflake--1.0--1.1.sql", "$dir/snowflake--1.1--1.2.sql");

# our SQL files with pgEdge's library, and pgEdge's with ours
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
