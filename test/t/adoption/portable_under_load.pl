# The portable functions make no ID twice under load: whatever ends a call, a session or
# the server, with many clients and layouts at a time, and after a promotion.
#
# takes: 45 s
use SnowflakeTest;
use IdChecker;
use Load;

my $install = slurp_file("$root/sql/portable.sql");

my $node = new_server('main', "shared_preload_libraries = ''", 'wal_level = replica');
start_with_clock($node, '+0');
query($node, "BEGIN; CREATE SCHEMA ids; SET LOCAL search_path = ids; $install SELECT snowflake_set_node(5);
	GRANT USAGE ON SCHEMA ids TO PUBLIC; COMMIT");
query($node, 'ALTER DATABASE postgres SET search_path = public, ids');
query($node, "SELECT snowflake_set_shards('3-4')");
query($node, load_tables());

my $checker = IdChecker->new($node->basedir . '/ids');
my $dir = PostgreSQL::Test::Utils::tempdir();

# A client whose statements end by a timeout now and then, and which connects again
# when its session is ended.
append_to_file("$dir/dying.sql", "SET application_name = 'dying';\n"
	  . join '', map { "SET statement_timeout = $_;\n"
		  . "SELECT snowflake_nextval() FROM generate_series(1, 50);\n"
		  . "INSERT INTO t SELECT FROM generate_series(1, 10) RETURNING id;\n"
		  . "SELECT snowflake_nextval_batch(300);\n" } map { 1 + $_ % 7 } 1 .. 500);

sub start_dying
{
	my ($stop) = @_;
	my $out = $checker->session('main, node');

	append_to_file($out, '');
	return IPC::Run::start([ 'bash', '-c',
			"until [ -e $stop ]; do psql -XAtq -f $dir/dying.sql -d '" . $node->connstr('postgres') . "' >>$out; done" ],
		'2>', "$dir/errors");
}

foreach my $round (1, 2)
{
	my $load = start_load($checker, 'main', $node->connstr('postgres'), 8, undef, undef,
		qw(commit rollback select shard batch single pgedge sonyflake));
	my @dying = map { start_dying("$dir/stop$round") } 1, 2;
	my $ended = 0;
	my $tries = 0;

	$load->more(500);
	until ($tries >= 40 && $ended > 0 && slurp_file("$dir/errors") =~ /statement timeout/ &&
		grep { slurp_file("$_.err") =~ /57014/ } $load->files)
	{
		die 'nobody is interrupted' if ++$tries > 5000;
		$ended += query($node, q{
			SELECT count(*) FILTER (WHERE pg_cancel_backend(pid) AND application_name = 'dying'
					AND random() < 0.25 AND pg_terminate_backend(pid))
			FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.4});
	}
	$load->more(2000);
	cmp_ok($ended, '>', 0, "$ended sessions were ended");
	append_to_file("$dir/stop$round", '');
	$node->stop('immediate');
	my $errors = $load->finish;
	$_->finish foreach @dying;
	cmp_ok($errors->{57014} // 0, '>', 0, ($errors->{57014} // 0) . ' statements were cancelled');
	like(slurp_file("$dir/errors"), qr/statement timeout/, '... and others by their timeout');
	start_by_clock($node, SnowflakeTest::clock_file($node));
}
is(query($node, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'ids_portable_state.snowflake_config'::regclass}), 'f',
	'nobody is left with the lock');
$checker->state('main', $node, 'postgres', 'SELECT id FROM t');
$checker->state('main, shards', $node, 'postgres', 'SELECT id FROM s');
$checker->states;
my %highest;
$checker->clients(\%highest);
$checker->forget;

# a million, also where a tick has room for few
query($node, q{CREATE DATABASE few});
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(5, 'javascript')}, database => 'few');
foreach my $many ([ postgres => 1000000 ], [ few => 40000 ])
{
	my ($database, $n) = @$many;
	my $each = $n / 8;
	query($node, 'CREATE TABLE m (id bigint)', database => $database);
	my @clients = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-c', "INSERT INTO m SELECT $_" ]) }
	  ("ids.snowflake_nextval() FROM generate_series(1, $each)") x 6,
	  ("ids.snowflake_nextval_batch(1000) FROM generate_series(1, $each / 1000)") x 2;
	is(scalar(grep { !$_->finish } @clients), 0, "8 clients have $n IDs");
	is(query($node, 'SELECT count(*), count(DISTINCT id) FROM m', database => $database), "$n|$n", '... no ID twice');
}

# several layouts at a time, in one of them by both functions
query($node, q{CREATE DATABASE layouts});
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5), snowflake_set_shards('3-4');
	CREATE TABLE m (layout text, id bigint)}, database => 'layouts');
my $odd = 'timestamp:40 node:3 sequence:5 tick:7ms epoch:0';
my @clients = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('layouts'), '-c', $_ ]) }
  (map { "INSERT INTO ids.m SELECT '$_->[0]', $_->[1] FROM generate_series(1, $_->[2])" }
	[ snowflake => 'ids.snowflake_nextval()', 20000 ], [ snowflake => 'ids.snowflake_nextval_batch(1000)', 20 ],
	[ snowflake => q{ids.snowflake_nextval('snowflake')}, 5000 ], [ javascript => q{ids.snowflake_nextval('javascript')}, 5000 ],
	[ javascript => q{ids.snowflake_nextval_batch(100, 'javascript')}, 50 ], [ sonyflake => q{ids.snowflake_nextval('sonyflake')}, 5000 ],
	[ sonyflake => q{ids.snowflake_nextval_batch(500, 'sonyflake')}, 10 ], [ $odd => qq{ids.snowflake_nextval('$odd')}, 2000 ],
	[ instagram => 'ids.snowflake_shard_nextval(3)', 5000 ], [ instagram => 'ids.snowflake_shard_nextval_batch(3, 100)', 10 ]);
is(scalar(grep { !$_->finish } @clients), 0, 'clients of several layouts have their IDs');
foreach my $made ([ snowflake => 45000, 5 ], [ javascript => 10000, 5 ], [ sonyflake => 10000, 5 ], [ $odd => 2000, 5 ],
	[ instagram => 6000, 3 ])
{
	my ($layout, $n, $maker) = @$made;
	is(query($node, qq{SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE coalesce(ids.snowflake_shard(id, '$layout'), ids.snowflake_node(id, '$layout')) = $maker
				AND ids.snowflake_timestamp(id, '$layout') BETWEEN now() - interval '10 min' AND now())
			FROM ids.m WHERE layout = '$layout'}, database => 'layouts'), "$n|$n|$n", "... no ID of $layout twice, each with its fields");
}

# ---- a clock that is behind ----

query($node, 'SELECT snowflake_nextval(), snowflake_shard_nextval(3)');
set_clock($node, '-1.5');
my $load = start_load($checker, 'main', $node->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
set_clock($node, '+0');
query($node, 'INSERT INTO t DEFAULT VALUES');
$checker->clients(\%highest);
$checker->forget;

# ---- a standby ----

my $standby = standby_of($node, 'standby');
start_with_clock($standby, '+0');
$load = start_load($checker, 'main', $node->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
refused($standby, 'SELECT snowflake_nextval()', '25006', qr/during recovery|read-only transaction/, 'a standby makes no IDs');
is(query($standby, 'SELECT count(snowflake_node(id)) = count(*) FROM t'), 't', 'it reads them');
# a commit flushes what went before; where WAL is inserted next may be behind a page's
# header, which a standby reaches only with the next record
query($node, 'CREATE TABLE committed ()');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
$node->stop('immediate');
set_clock($standby, '-3600');
$standby->promote;
refused($standby, "SELECT $_", '58000', qr/behind the next ID/, "promoted with a clock an hour behind: $_ is refused")
  foreach 'snowflake_nextval()', q{snowflake_nextval('sonyflake')};
set_clock($standby, '+0');
$load = start_load($checker, 'main', $standby->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
$checker->clients(\%highest);
$checker->state('standby', $standby, 'postgres', 'SELECT id FROM t');
like(query($standby, "SELECT snowflake_nextval('$_')"), qr/^\d+$/, "promoted: an ID of $_") foreach qw(pgedge sonyflake);
$checker->states;
$standby->stop;
done_testing();
