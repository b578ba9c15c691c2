# A nasty database, in which each situation that prints a remedy is made, and a robot types
# what the remedy says (Robot.pm). The database has tables with IDs of shards, of a second
# layout and of the type snowflake, foreign keys, a domain, partitions, a table that refers
# to itself, and names with blanks, quotes and capitals. Afterwards no row is lost, no key
# has changed that was not meant to, and no ID comes twice.
#
# takes: 60 s
use SnowflakeTest;
use Robot;

my $shards = "snowflake.shards = '3'";
my $node = new_server('main', $shards, 'snowflake.reserve = 1s', 'snowflake.max_clock_wait = 10s',
	'max_prepared_transactions = 2', 'wal_level = logical');
start_with_clock($node, 0);
query($node, q{CREATE ROLE "The Owner" LOGIN; CREATE EXTENSION snowflake;
	CREATE SCHEMA "My Schema" AUTHORIZATION "The Owner";
	ALTER ROLE "The Owner" SET search_path = "My Schema", public;
	ALTER ROLE "The Owner" SET statement_timeout = '5s'});

# ---- the database ----

# Run something as the owner of the tables.
sub as_owner
{
	my ($sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-U', 'The Owner' ], on_error_stop => 1);

	return ($status, $out, $err);
}

my ($made, undef, $make_error) = as_owner(q{
	CREATE TABLE "Order's" (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'order');
	CREATE TABLE "Line Items" (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
		"order" snowflake REFERENCES "Order's", v text DEFAULT 'line');
	CREATE TABLE tree (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), parent bigint REFERENCES tree, v text DEFAULT 'leaf');
	CREATE TABLE js (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'), v text DEFAULT 'js');
	CREATE TABLE sharded (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(3), v text DEFAULT 'shard');
	CREATE DOMAIN "Key" AS bigint;
	CREATE TABLE domained ("ID" "Key" PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'domain');
	CREATE TABLE "of domained" (id "Key" PRIMARY KEY DEFAULT snowflake_nextval(), domained "Key" REFERENCES domained, v text DEFAULT 'of');
	CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'part') PARTITION BY RANGE (id);
	CREATE TABLE parts_rest PARTITION OF parts DEFAULT});
is($made, 0, 'the database is made') or BAIL_OUT($make_error);

# Rows for each table, in statements of the owner's.
my @inserts = (
	q{INSERT INTO "Order's" DEFAULT VALUES RETURNING id},
	q{INSERT INTO "Line Items" ("order") SELECT id FROM "Order's" ORDER BY id DESC LIMIT 1 RETURNING id},
	q{INSERT INTO tree (parent) VALUES ((SELECT max(id) FROM tree)) RETURNING id},
	q{INSERT INTO js DEFAULT VALUES RETURNING id},
	q{INSERT INTO sharded DEFAULT VALUES RETURNING id},
	q{INSERT INTO domained DEFAULT VALUES RETURNING "ID"},
	q{INSERT INTO "of domained" (domained) SELECT "ID" FROM domained ORDER BY 1 DESC LIMIT 1 RETURNING id},
	q{INSERT INTO parts DEFAULT VALUES RETURNING id});
my @tables = map { /INTO ("[^"]*"|\w+)/ } @inserts;
my %key = map { $_ => $_ eq 'domained' ? '"ID"' : 'id' } @tables;
my %highest;
my %now = (TIME => sub { query($node, 'SELECT clock_timestamp()') });

# Insert a row into each table, and return the remedy of the first error. IDs go to the
# checker, each table's under its own name.
sub insert_rows
{
	foreach my $i (0 .. $#inserts)
	{
		my ($status, $id, $err) = as_owner($inserts[$i]);

		return hint_of($err) || "no remedy: $err" if $status != 0;
		push @{ $highest{ $tables[$i] } }, $id;
	}
	return '';
}

# The same for a superuser, who may see more than the owner of tables.
sub next_as_superuser
{
	my ($status, undef, $err) = $node->psql('postgres', $next);

	return $status == 0 ? '' : hint_of($err);
}

# Return the rows of each table with keys up to an ID that was there, as a checksum.
sub rows
{
	my (%until) = @_;

	return join "\n", map {
		"$_: " . (as_owner(qq{SELECT count(*), md5(string_agg(t::text, ',' ORDER BY $key{$_})) FROM $_ t WHERE $key{$_}::bigint <= $until{$_}}))[1]
	} @tables;
}

# Return the foreign keys, and how many references lead nowhere.
sub references
{
	return join "\n", map { (as_owner($_))[1] } (
		q{SELECT conrelid::regclass, pg_get_constraintdef(oid), convalidated FROM pg_constraint
			WHERE contype = 'f' ORDER BY conrelid::regclass::text COLLATE "C"},
		q{SELECT count(*) FROM "Line Items" l WHERE NOT EXISTS (SELECT FROM "Order's" o WHERE o.id = l."order")},
		q{SELECT count(*) FROM tree t WHERE parent IS NOT NULL AND NOT EXISTS (SELECT FROM tree p WHERE p.id = t.parent)},
		q{SELECT count(*) FROM "of domained" o WHERE NOT EXISTS (SELECT FROM domained d WHERE d."ID" = o.domained)});
}

# Return how many rows of each table lie more than a day ahead.
sub of_the_future
{
	my %layout = (js => ", 'javascript'", sharded => ", 'shard'");

	return join ' ', map {
		my $layout = $layout{$_} // '';
		my ($n) = (as_owner("SELECT count(*) FROM $_ WHERE $key{$_}::bigint > snowflake_max_id(now() + interval '1 day'$layout)"))[1];
		$n > 0 ? "$_: $n" : ()
	} @tables;
}

sub count_rows
{
	return map { $_ => (as_owner("SELECT count(*) FROM $_"))[1] } @tables;
}

# The highest ID of each table.
sub last_ids
{
	return map { $_ => $highest{$_}[-1] } @tables;
}

# Make a situation, let the robot type, and look at the rows. What is tried is an
# insert into each table, or the remedy of a check. Where rows are to be renumbered, the test
# says how to look at them.
sub situation
{
	my ($name, $make, %how) = @_;
	my %last = last_ids();
	my $before = rows(%last);
	my $wrong = wrong_checks();
	my $references = references();
	my $try = $how{as} ? \&next_as_superuser : !$how{check} ? \&insert_rows : sub { remedy_of($node, $how{check}) };

	$make->();
	my @typed = follow_remedies($try, node => $node, name => $name, owner => 'The Owner',
		as => $how{check} || $how{as} ? 'super' : 'owner', given => $how{given}, restart => $how{restart}, says => $how{says});
	is(rows(%last), $before, "$name: no row is lost, and no key has changed");
	$how{renumbers}->() if $how{renumbers};
	is(insert_rows(), '', "$name: each table gets rows");
	is(join(' ', grep { !$how{renumbers} && $highest{$_}[-1] <= $last{$_} } @tables), '',
		"$name: the new IDs are above those before, so that none is there twice");
	is(references(), $references, "$name: the foreign keys are there, and no reference leads nowhere");
	go_back() if wrong_checks() > $wrong;
	return @typed;
}

# ---- a copy of the server, to which a test goes back that has failed ----

my $copy = $node->basedir . '/before';

sub wrong_checks
{
	return scalar grep { !$_ } Test::More->builder->summary;
}

sub keep
{
	$node->stop;
	system_or_bail('rm', '-rf', $copy);
	system_or_bail('cp', '-a', $node->data_dir, $copy);
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

sub go_back
{
	set_clock($node, 0);
	$node->stop('immediate');
	system_or_bail('rm', '-rf', $node->data_dir);
	system_or_bail('cp', '-a', $copy, $node->data_dir);
	start_by_clock($node, $node->basedir . '/clock');
	$highest{$_} = [ (as_owner("SELECT max($key{$_}) FROM $_"))[1] ] foreach @tables;
	return;
}

# Restart the server as one is that nobody has told of a clock.
sub restart
{
	$node->stop;
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

insert_rows() eq '' or BAIL_OUT('no rows') for 1 .. 3;

# ---- the mark ----

keep();

# Overwrite the magic number in the mark's page, which is that of a sequence.
sub damage_mark
{
	my $file = query($node, q{SELECT pg_relation_filepath('snowflake_state.snowflake_mark')});

	$node->stop;
	open(my $page, '+<:raw', $node->data_dir . "/$file") or die "$file: $!";
	seek($page, 8184, 0);
	print $page "\1\2\3\4";
	close $page or die "$file: $!";
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

situation('a damaged mark', \&damage_mark, restart => \&restart,
	says => qr/If there is one, run as a superuser, with its highest ID and the layout/);
situation('a lost mark', sub {
	query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark});
	restart();
}, restart => \&restart);
situation('a lost record', sub {
	query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_recorded_layout; DROP SEQUENCE snowflake_state.snowflake_recorded_layout});
	restart();
}, restart => \&restart);
situation('a mark that was set back', sub {
	query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)});
	restart();
}, check => 'mark', restart => \&restart, says => qr/Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);/);
situation('a mark of the future', sub {
	query($node, q{SELECT setval('snowflake_state.snowflake_mark', last_value + 400 * 86400000::bigint) FROM snowflake_state.snowflake_mark});
	restart();
}, restart => \&restart, given => \%now);
situation('a mark on which nothing is logged', sub {
	query($node, q{ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED});
}) if $node->pg_version >= 15;

my $locker;

situation('a mark that a session has locked', sub {
	$locker = begin_session($node, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
}, check => 'mark');
eval { $locker->quit };
situation('a mark that a prepared transaction has locked', sub {
	query($node, q{BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER; PREPARE TRANSACTION 'it''s "locked"'});
}, check => 'mark');

# ---- the clock ----

situation('a clock that has jumped', sub { insert_rows(); wait_for_clock($node, clock_ms($node) + 1200); set_clock($node, '+2d') }, restart => \&restart);
set_clock($node, 0);
go_back();

# rows of the future, in each table, which nobody wants
my %counted;

situation('a clock that was wrong', sub {
	set_clock($node, '+40d');
	restart();
	is(insert_rows(), '', 'rows of the future');
	%counted = count_rows();
	set_clock($node, 0);
}, restart => \&restart, given => \%now,
	says => qr/If the clock is right now, and was wrong before, stop all clients, restart this server.*As the owner of the table: SELECT \* FROM public\.snowflake_renumber\('"My Schema"."Order''s"'::pg_catalog.regclass/s,
	renumbers => sub {
	is(of_the_future(), '', 'no row of the future is left');
	my %now = count_rows();
	is(join(' ', grep { $now{$_} != $counted{$_} + 1 } @tables), '', 'and none is lost: each table has a row more, that of the last try');
});
go_back();
situation('rows of the future that a restore has brought', sub {
	as_owner(q{INSERT INTO tree SELECT snowflake_max_id(now() + interval '3 days')});
	as_owner(q{INSERT INTO js SELECT snowflake_max_id(now() + interval '3 days', 'javascript')});
}, check => 'rows above', given => \%now, renumbers => sub {
	is(of_the_future(), '', 'none of these is left');
});
go_back();

# ---- settings ----

# Set something that is wrong, and restart the server.
sub wrongly_set
{
	my (@settings) = @_;

	return sub { $node->append_conf('postgresql.conf', join("\n", @settings)); restart() };
}

situation('no node id', wrongly_set(q{snowflake.node_id = ''}), restart => \&restart,
	given => { NUMBER => 1 });
situation('no node id, by ALTER SYSTEM', sub { query($node, q{ALTER SYSTEM SET snowflake.node_id = ''}); restart() },
	as => 'super', restart => \&restart, given => { NUMBER => 1 });
situation('the library is not preloaded', wrongly_set(q{shared_preload_libraries = ''}), restart => \&restart);
situation('another layout', wrongly_set(q{snowflake.layout = 'timestamp:41 node:8 sequence:14 epoch:2024-01-01'}), restart => \&restart);
go_back();
situation('another layout of shards', wrongly_set(q{snowflake.shard_layout = 'timestamp:41 shard:8 sequence:14 epoch:2024-01-01'}), restart => \&restart);
go_back();
situation('a shard that is not listed', wrongly_set(q{snowflake.shards = '4'}), restart => \&restart);
go_back();
situation('too many layouts', wrongly_set('snowflake.max_layouts = 1'), restart => \&restart);
go_back();
situation('too many databases', sub {
	wrongly_set('snowflake.max_databases = 1')->();
	query($node, 'CREATE DATABASE other');
	query($node, q{CREATE EXTENSION snowflake; SELECT snowflake_nextval()}, database => 'other');
}, restart => \&restart);
go_back();

# ---- tables ----

situation('a key that is too narrow', sub {
	as_owner(q{CREATE TABLE narrow ("Id" integer PRIMARY KEY DEFAULT snowflake_nextval())});
}, check => 'column types');
situation('a default partition that gets the rows', sub {
	as_owner(q{SELECT snowflake_create_partitions('parts', '1 day', now() - interval '5 days', now() - interval '4 days')});
}, check => 'partitions');
situation('a role that may write the mark', sub {
	query($node, q{GRANT ALL ON SEQUENCE snowflake_state.snowflake_mark TO "The Owner"});
}, check => 'privileges');
situation('a key without an index', sub {
	as_owner(q{CREATE TABLE bare (id bigint DEFAULT snowflake_nextval())});
}, check => 'unique indexes');

# ---- a copy ----

# A copy of the data directory, in which both servers have the same number.
$node->backup('copy');
my $twin = PostgreSQL::Test::Cluster->new('twin');
$twin->init_from_backup($node, 'copy');
$twin->start;
follow_remedies(sub { my ($status, $out, $err) = $twin->psql('postgres', $next); $status == 0 ? '' : hint_of($err) || $err },
	node => $twin, name => 'a copy', owner => 'The Owner', as => 'owner', given => { NUMBER => 2, SHARDS => '' });
isnt((split /\|/, answer($twin, 'SELECT snowflake_node(snowflake_nextval())'))[0], '1',
	'a copy: it makes IDs with another number than the original, so none twice');
unlike(answer($twin, 'SELECT snowflake_shard_nextval(3)'), qr/^\d/, 'a copy: it makes no IDs of the original\'s shards, so none twice');

# ---- a standby that is promoted while its primary runs ----

my $standby = standby_of($node, 'standby');
$standby->start;
$node->wait_for_catchup($standby);
$standby->promote;
follow_remedies(sub { remedy_of($standby, 'node id') },
	node => $standby, name => 'a promoted standby', as => 'super', given => { NUMBER => 3, SHARDS => '' });
isnt(answer($standby, 'SELECT snowflake_node(snowflake_nextval())'), '1',
	'a promoted standby: it makes IDs with another number than its primary, so none twice');

note('the longest remedy: ' . longest_remedy());
done_testing();
