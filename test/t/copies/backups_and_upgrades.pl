# Copies of databases and clusters, and what administrators do with them. The mark is
# copied too, or a call says what is missing.
#
# After each crash the server starts with its clock one hour back, where every call is
# refused. Then the clock is set to the time at which the crashed life began. Without
# the mark, IDs would repeat there.
#
# pg_upgrade starts from the installation of OLD_PG_CONFIG, an earlier major that has
# the extension too. If this variable is not set, the test upgrades PG_CONFIG to
# itself, and says so.
#
# takes: 44 s
# part older_major: older_server
use SnowflakeTest;
use IdChecker;

my $ids = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');
my $behind = qr/wall clock is .* behind the mark of this database/;
my @settings = ("snowflake.shards = '3'", 'snowflake.reserve = 500ms',
	'snowflake.max_clock_wait = 10min', 'snowflake.max_clock_jump = 1d',
	'wal_writer_delay = 10s', 'autovacuum = off', 'log_statement = none');
my %counters = (t => 'snowflake_nextval()', shard => 'snowflake_shard_nextval(3)');

# The IDs made in each database and in those that it was copied from, by session.
my %past;

# Return the time at which the clock of a server begins: this hour in 2026.
sub at
{
	my ($hour) = @_;

	return sprintf('@2026-01-01 %02d:00:00', $hour);
}

# Make IDs that are committed, IDs that are rolled back, and IDs that are only
# selected.
sub make
{
	my ($node, $database, $synchronous_commit) = @_;
	my $n = 0;

	foreach my $table (sort keys %counters)
	{
		my @made = split /\n/, query($node, qq{
			SET synchronous_commit = @{[ $synchronous_commit || 'on' ]};
			INSERT INTO $table SELECT FROM generate_series(1, 20) RETURNING id;
			BEGIN;
			INSERT INTO $table SELECT FROM generate_series(1, 20) RETURNING id;
			ROLLBACK;
			SELECT $counters{$table} FROM generate_series(1, 20);
			INSERT INTO $table DEFAULT VALUES RETURNING id;
		}, database => $database);

		push @{ $past{$database} }, [ $table, @made ];
		$ids->saw("$database: $table", @made);
		$n += @made;
	}
	is($n, 122, "$database makes IDs");
	return;
}

# Note that a database is a copy: the IDs of the source count for it too.
sub inherit
{
	my ($copy, $source) = @_;

	$past{$copy} = [ @{ $past{$source} } ];
	foreach my $session (@{ $past{$copy} })
	{
		my ($table, @made) = @$session;

		$ids->saw("$copy: $table", @made);
	}
	return;
}

# Crash the server, start it with the clock one hour back, and set the clock to this
# hour.
sub crash_an_hour_back
{
	my ($node, $hour, @databases) = @_;

	$node->stop('immediate');
	start_with_clock($node, at($hour - 1));
	foreach my $database (@databases)
	{
		foreach my $call (values %counters)
		{
			refused($node, "SELECT $call", '58000', $behind,
				"$database, the clock an hour back: $call is refused",
				database => $database);
		}
	}
	set_clock($node, at($hour));
	return;
}

sub mark
{
	my ($node, $database) = @_;

	return query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark',
		database => $database);
}

# Do what an administrator does if the mark was not copied. The mark is a time, so one
# call with the latest ID covers both counters.
sub advance
{
	my ($node, $database) = @_;

	query($node, q{
		SELECT CASE WHEN time > shard_time THEN snowflake_advance(id)
			ELSE snowflake_advance(shard_id, layout => 'instagram') END
		FROM (SELECT max(id), snowflake_timestamp(max(id)) FROM t) t (id, time),
			(SELECT max(id), snowflake_timestamp(max(id), 'instagram') FROM shard) s (shard_id, shard_time)
	}, database => $database);
	return;
}

my $tables = join("\n",
	map { "CREATE TABLE $_ (id bigint PRIMARY KEY DEFAULT $counters{$_});" }
	  sort keys %counters);

my $node = new_server('main', @settings);
start_with_clock($node, at(1));
query($node, 'CREATE ROLE admin SUPERUSER; CREATE DATABASE source');
query($node, "SET ROLE admin; CREATE EXTENSION snowflake; $tables",
	database => 'source');

# ---- CREATE DATABASE ... TEMPLATE ----

my $hour = 1;
foreach my $sync ('on', 'off')
{
	my @copies;

	set_clock($node, at($hour));
	foreach my $strategy ('wal_log', 'file_copy')
	{
		my $copy = "${strategy}_$sync";

		make($node, 'source', $sync);
		query($node, "CREATE DATABASE $copy TEMPLATE source STRATEGY $strategy");
		inherit($copy, 'source');
		push @copies, $copy;
	}
	make($node, $_, $sync) foreach (@copies, 'source');
	crash_an_hour_back($node, $hour, @copies, 'source');
	make($node, $_, $sync) foreach (@copies, 'source');
	$ids->database("$_ after the crash ($sync)", $node, $_) foreach (@copies, 'source');
	$hour++;
}

# ---- a dropped database comes back with the same name, and with the same OID ----

set_clock($node, at($hour));
my $oid = query($node, "SELECT oid FROM pg_database WHERE datname = 'wal_log_on'");
make($node, 'source');
query($node, 'DROP DATABASE wal_log_on');
query($node, "CREATE DATABASE wal_log_on OID $oid TEMPLATE source");
inherit('again', 'source');
query($node, 'ALTER DATABASE wal_log_on RENAME TO again');
make($node, $_) foreach ('again', 'source');
crash_an_hour_back($node, $hour, 'again', 'source');
make($node, $_) foreach ('again', 'source');
$hour++;

# ---- rewritten tables and new owners, under load ----

set_clock($node, at($hour));
my $load = $ids->session('source: t');
append_to_file("$load.sql", "INSERT INTO t DEFAULT VALUES RETURNING id;\n" x 200000);
my $errors = '';
my $client = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('source') ],
	'<', "$load.sql", '>', $load, '2>', \$errors);
my $session = $node->background_psql('source');
$session->query_safe('PREPARE p AS INSERT INTO t DEFAULT VALUES RETURNING id');
my @prepared = $session->query_safe('EXECUTE p');
query($node, 'CREATE ROLE plain; CLUSTER t USING t_pkey',
	database => 'source');
my $mark_owner = 'ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO';
foreach my $sql ("$mark_owner plain",
	'VACUUM FULL', 'REINDEX DATABASE source', 'CLUSTER', 'VACUUM FULL t',
	'REINDEX TABLE t', "$mark_owner admin",
	'REASSIGN OWNED BY admin TO plain',
	("$mark_owner admin", "$mark_owner plain") x 10)
{
	$node->safe_psql('source', $sql);
	push @prepared, $session->query_safe('EXECUTE p');
}
is(query($node, q{SELECT DISTINCT relowner::regrole FROM pg_class
	WHERE relname LIKE 'snowflake%'}, database => 'source'), 'plain',
	'the mark has another owner');
$node->poll_query_until('source', 'SELECT count(*) > 1000 FROM t') or die;
$client->kill_kill;
push @{ $past{source} }, [ 't', slurp_file($load) =~ /^(\d+)\n/mg ];
is($errors =~ s/.*(terminating|server closed|connection to server).*\n//gr, '',
	'who inserts meanwhile sees no error');
is(scalar(@prepared), 29, 'nor does a prepared statement');
$ids->saw('source: t', @prepared);
$session->quit;
$ids->database('source after the load', $node, 'source');
query($node, 'TRUNCATE t RESTART IDENTITY', database => 'source');
make($node, 'source');
crash_an_hour_back($node, $hour, 'source');
make($node, 'source');
$ids->database('source after TRUNCATE', $node, 'source');
$hour++;

# ---- setval on the mark ----

# the mark is set down; the next session notices it, or one that moves the mark
set_clock($node, at($hour));
make($node, 'source');
query($node, "SELECT setval('snowflake_state.snowflake_mark', 1)", database => 'source');
make($node, 'source');
crash_an_hour_back($node, $hour, 'source');
make($node, 'source');
$hour++;

set_clock($node, at($hour));
$session = $node->background_psql('source');
my @attached = $session->query_safe($next);
query($node, "SELECT setval('snowflake_state.snowflake_mark', 1)", database => 'source');
do
{
	push @attached, $session->query_safe($next);
} until mark($node, 'source') > 1;
push @attached, $session->query_safe($next);
$ids->saw('source: t', @attached);
crash_an_hour_back($node, $hour, 'source');
eval { $session->quit };
make($node, 'source');
$hour++;

# The mark is set down, but above rows that a restore has brought. It counts, although
# it is below the published mark.
set_clock($node, at($hour));
set_conf($node, 'snowflake.reserve = 60s');
$node->poll_query_until('source', "SELECT current_setting('snowflake.reserve') = '1min'")
  or die;
make($node, 'source');
$session = $node->background_psql('source');
$session->query_safe($next);
foreach my $found_by ('SELECT', 'SET client_min_messages = warning; SELECT snowflake_advance(1);')
{
	my $restored = query($node, q{
		INSERT INTO t SELECT snowflake_max_id(clock_timestamp() + interval '1 s') RETURNING id;
		SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1500);
	}, database => 'source') =~ s/\n.*//sr;

	my $id = $found_by eq 'SELECT' ? query($node, $next, database => 'source')
	  : $session->query_safe("$found_by $next") =~ s/.*\n//sr;
	cmp_ok($id, '>', $restored, "$found_by: what a restore brings below the published mark is not repeated");
}
$session->quit;
set_conf($node, 'snowflake.reserve = 500ms');
$hour++;

# the mark is set up
set_clock($node, at($hour));
my $up = query($node, q{
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3000)},
	database => 'source');
make($node, 'source');
cmp_ok(epoch_ms($past{source}[-1][1]), '>=', $up, 'IDs begin above a mark that was moved up');
crash_an_hour_back($node, $hour, 'source');
make($node, 'source');
$hour++;

# ---- dumps, into a cluster whose clock is an hour behind ----

set_clock($node, at($hour));
make($node, 'source');
my $dir = PostgreSQL::Test::Utils::tempdir();
my %dumps = (
	whole => ['-Fc'],
	schema => ['--schema-only'],
	data => ['--data-only'],
	rows => [ '--data-only', '-t', 't', '-t', 'shard' ]);
foreach my $dump (sort keys %dumps)
{
	command_ok([ 'pg_dump', @{ $dumps{$dump} }, '-f', "$dir/$dump",
			'-d', $node->connstr('source') ], "pg_dump @{ $dumps{$dump} }");
}
$node->stop;

sub restore
{
	my ($target, $database, $dump) = @_;
	my @to = ('-d', $target->connstr($database));

	command_ok($dump eq 'whole'
		? [ 'pg_restore', '--single-transaction', @to, "$dir/$dump" ]
		: [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', @to, '-o', "$dir/out", '-f', "$dir/$dump" ],
		"the dump \"$dump\" goes into $database");
	return;
}

my $target = new_server('target', @settings);
start_with_clock($target, at($hour - 1));
my @restored = ('whole', 'twice', 'advanced');
query($target, 'CREATE ROLE plain SUPERUSER; CREATE ROLE admin SUPERUSER');
foreach my $database (@restored)
{
	query($target, "CREATE DATABASE $database");
	inherit($database, 'source');
}
restore($target, 'whole', 'whole');
my $issued_ms = 0;
foreach my $database ('twice', 'advanced')
{
	restore($target, $database, 'schema');
	is(mark($target, $database), $issued_ms,
		"$database: a schema has no mark but that of what its server has issued");
	my $id = query($target, $next, database => $database);
	like($id, qr/^\d+$/, "$database: so the clock rules");
	$issued_ms = epoch_ms($id) + 1;
}
restore($target, 'twice', 'data');
restore($target, 'advanced', 'rows');
like(query($target, $next, database => 'advanced'), qr/^\d+$/,
	'rows alone bring no mark');
advance($target, 'advanced');
crash_an_hour_back($target, $hour, @restored);
foreach my $database (@restored)
{
	$ids->database("$database as restored", $target, $database);
	make($target, $database);
	$ids->database("$database in use", $target, $database);
}
$target->stop;
$hour++;

# ---- pg_upgrade, into a cluster whose clock is an hour behind ----

# Make a cluster, and return it with the directory of its programs. From 18 on new
# clusters have checksums by default. pg_upgrade wants both clusters to agree on them.
sub cluster
{
	my ($name, $pg_config) = @_;
	my $bindir = `"$pg_config" --bindir`;
	my $cluster;

	chomp $bindir;
	$cluster = PostgreSQL::Test::Cluster->new($name,
		install_path => $bindir =~ s{/bin/?\z}{}r);
	$cluster->init(extra => $cluster->pg_version >= 18
		? ['--no-data-checksums'] : []);
	$cluster->append_conf('postgresql.conf',
		join("\n", "shared_preload_libraries = 'snowflake'",
			"snowflake.node_id = '1'", @settings, ''));
	return ($cluster, $bindir);
}

my ($old, $old_bindir) = cluster('old', $ENV{OLD_PG_CONFIG} || $ENV{PG_CONFIG});
my ($new, $new_bindir) = cluster('new', $ENV{PG_CONFIG});
my $upgrade = 'pg_upgrade from ' . $old->pg_version . ' to ' . $new->pg_version;
if ($ENV{OLD_PG_CONFIG})
{
	cmp_ok(int($old->pg_version->major), '<', int($new->pg_version->major),
		'OLD_PG_CONFIG is of an earlier major');
}
else
{
	$upgrade .= ', THE SAME: OLD_PG_CONFIG is not set';
}
start_with_clock($old, at($hour));
query($old, 'CREATE DATABASE upgraded');
query($old, "CREATE EXTENSION snowflake; $tables", database => 'upgraded');
make($old, 'upgraded');
query($old, q{CREATE TABLE typed (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE refers (typed bigint REFERENCES typed);
	INSERT INTO typed SELECT FROM generate_series(1, 50);
	INSERT INTO refers SELECT id FROM typed}, database => 'upgraded');
my $old_mark = mark($old, 'upgraded');
$old->stop;
chdir $new->basedir or die;
command_ok(
	[
		"$new_bindir/pg_upgrade", '-b', $old_bindir, '-B', $new_bindir,
		'-d', $old->data_dir, '-D', $new->data_dir, '-s', $new->host,
		'-p', $old->port, '-P', $new->port
	],
	$upgrade)
  or diag(map { slurp_file($_) } glob($new->data_dir . '/pg_upgrade_output.d/*/log/*_dump_*.log'));
start_with_clock($new, at($hour - 1));
is(mark($new, 'upgraded'), $old_mark, 'pg_upgrade carries the mark');
crash_an_hour_back($new, $hour, 'upgraded');
make($new, 'upgraded');
$ids->database('upgraded', $new, 'upgraded');
my $typed = q{SELECT count(*), min(pg_typeof(id)::text) FROM refers JOIN typed t ON id = typed
	WHERE id <= (SELECT max(typed) FROM refers)};
is(query($new, $typed, database => 'upgraded'), '50|snowflake', 'a column of the type snowflake, and one that refers to it');
like(query($new, 'SET enable_seqscan = off; EXPLAIN SELECT FROM typed WHERE id = 5::bigint', database => 'upgraded'),
	qr/Index (?:Only )?Scan using typed_pkey/, 'whose index serves a bigint');
$new->stop;
$hour++;

# ---- pg_resetwal after a crash ----

# Before a checkpoint the mark's page on disk may be old, while rows on disk are newer.
# If WAL is deleted then, the mark is lost. The test puts back the page of an earlier
# checkpoint.
start_with_clock($node, at($hour));
make($node, 'source');
query($node, 'CHECKPOINT');
my $page = $node->data_dir . '/' . query($node,
	"SELECT pg_relation_filepath('snowflake_state.snowflake_mark')", database => 'source');
my $kept = slurp_file($page);
$hour++;
set_clock($node, at($hour));
make($node, 'source');
my $max = query($node, 'SELECT max(id) FROM t', database => 'source');
query($node, 'CHECKPOINT');
$node->stop('immediate');
open(my $fh, '>:raw', $page) or die "$page: $!";
print $fh $kept;
close $fh or die;
command_ok([ 'pg_resetwal', '-f', '-D', $node->data_dir ], 'pg_resetwal');
start_with_clock($node, at($hour - 1));
cmp_ok(mark($node, 'source'), '<', epoch_ms($max), 'the mark is lost');
advance($node, 'source');
crash_an_hour_back($node, $hour, 'source');
make($node, 'source');
$ids->database('source after pg_resetwal', $node, 'source');
$node->stop;

$ids->clients;
$ids->states;
done_testing();
