# Layouts that calls name: their counters in crashes, in races, and with leases. This
# needs a library built with fault points.
#
# takes: 40 s
# needs: fault_points
use SnowflakeTest;
use Time::HiRes qw(usleep);
use LeaseTest;

my $next = q{SELECT snowflake_nextval('javascript')};
my $node = new_server('main', 'snowflake.max_layouts = 2', 'snowflake.reserve = 2s',
	'snowflake.max_clock_wait = 60s', 'snowflake.max_clock_drift = 1s', 'restart_after_crash = off',
	'autovacuum = off');
my $offset = 0;

start_with_clock($node, '+0');
query($node, 'CREATE EXTENSION snowflake');

# Make so many IDs at once that the counter of this layout is a second ahead of the
# clock, and those of the others are not. Return the last.
sub run_ahead
{
	my ($server) = @_;

	return query($server, q{SELECT max(id) FROM snowflake_nextval_batch(31000, 'javascript') AS id});
}

# Start again with a clock that is earlier by a second.
sub start_earlier
{
	$offset -= 1;
	start_with_clock($node, $offset);
	return;
}

# Start a statement in a session with a fault, and wait until the session is frozen.
sub freeze
{
	my ($fault, $statement) = @_;
	my $name = $fault =~ tr/a-z//cdr . int rand 1e9;
	my $frozen = { out => '', err => '' };

	$frozen->{handle} = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres') . " application_name=$name",
			'-c', "SET snowflake.fault = '$fault stop'", '-c', $statement
		],
		'>', \$frozen->{out}, '2>', \$frozen->{err});
	foreach (1 .. 1000)
	{
		my $pid = query($node, "SELECT pid FROM pg_stat_activity WHERE application_name = '$name'");

		if ($pid && slurp_file("/proc/$pid/stat") =~ /\) T /)
		{
			$frozen->{pid} = $pid;
			return $frozen;
		}
		usleep(20_000);
	}
	die "nobody stops at $fault";
}

# Let it go on to its end, and return what it printed.
sub thaw
{
	my ($frozen) = @_;

	kill 'CONT', $frozen->{pid};
	$frozen->{handle}->finish;
	die $frozen->{err} if $frozen->{err} ne '';
	chomp $frozen->{out};
	return $frozen->{out};
}

# ---- one life after another ----

# snowflake_ready() loads the mark, and does not wait for the clock to reach it.

my $last = run_ahead($node);
lose_power($node);
start_earlier();
query($node, 'SELECT snowflake_ready()');
my $id = query($node, $next);
cmp_ok($id, '>', $last, 'power lost, the mark loaded before the layout is named: above all before');

$last = run_ahead($node);
$node->stop('immediate');
start_earlier();
$id = query($node, $next);
cmp_ok($id, '>', $last, 'an immediate stop, by the shutdown file: above all before');

# ---- a slot is taken while the mark is loaded ----

# another session finds the slot of one that has not raised the counter yet
$last = run_ahead($node);
lose_power($node);
start_earlier();
query($node, 'SELECT snowflake_ready()');
my $frozen = freeze('layout-taken', $next);
$id = query($node, $next);
cmp_ok($id, '>', $last, 'a slot that another session has just taken: above all before');
cmp_ok(thaw($frozen), '>', $id, '... and that session goes on above');

# a mark that is loaded raises the counters in use
query($node, 'CREATE DATABASE two');
query($node, 'CREATE EXTENSION snowflake', database => 'two');
my $mark = query($node, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 4000)},
	database => 'two');
my $least = query($node, "SELECT snowflake_min_id(to_timestamp($mark / 1000.0), 'javascript')");
cmp_ok(query($node, $next, database => 'two'), '>=', $least, 'a mark that is loaded raises a counter in use');

# ---- two sessions name a new layout at once ----

my $coarse = 'timestamp:40 node:4 sequence:12 tick:1000ms epoch:2020-01-01';
my @both = map { freeze('layout-missed', "SELECT snowflake_nextval('$coarse')") } 1, 2;
my @ids = map { eval { thaw($_) } // $@ } @both;
like("@ids", qr/^(\d+) (?!\1$)\d+$/, 'two sessions that name a new layout at once get IDs, and none twice');
refused($node, q{SELECT snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:2023-02-02')}, '53400',
	qr/too many layouts are in use on this server.*DETAIL:  snowflake\.max_layouts is 2, and the layout "timestamp:41 node:10 sequence:12 epoch:2023-02-02".*HINT:  To give it a place that no role can take, add this line to \S*postgresql.conf:\nsnowflake\.layouts = 'timestamp:41 node:10 sequence:12 epoch:2023-02-02'\nand restart this server\./s,
	'it takes one slot, and one more is more than there is room for');
like(query($node, "SELECT snowflake_nextval('$_')"), qr/^\d+$/, "a preset has a slot beside those: $_") foreach qw(sonyflake pgedge);
like(query($node, $next), qr/^\d+$/, 'those in use go on');
is(query($node, q{SELECT status, found FROM snowflake_status() WHERE check_name = 'other layouts'}),
	sprintf('warning|2 of 2 (snowflake.max_layouts) are in use: "%s", "%s"', query($node, 'SELECT layout FROM pg_stat_snowflake_layouts LIMIT 1'), $coarse),
	'and the status says that there is no room, and which they are');

# IDs in the tick after the clock's do not extend the mark again and again
query($node, "SELECT count(*) FROM snowflake_nextval_batch(4096, '$coarse')");
my $extensions = query($node, 'SELECT mark_extensions FROM pg_stat_snowflake');
query($node, qq{DO \$\$ BEGIN
	FOR i IN 1..100 LOOP PERFORM snowflake_nextval('$coarse'); PERFORM pg_sleep(0.001); END LOOP;
END \$\$});
cmp_ok(query($node, 'SELECT mark_extensions FROM pg_stat_snowflake') - $extensions, '<', 20,
	'ticks of a second: few extensions of the mark');

# killed with a slot taken
$last = run_ahead($node);
lose_power($node);
start_earlier();
my $killed = freeze('layout-taken', $next);
kill 'KILL', $killed->{pid};
eval { $killed->{handle}->finish };
wait_until { !-e $node->data_dir . '/postmaster.pid' } 'the server does not end';
$node->stop('immediate', fail_ok => 1);
start_earlier();
cmp_ok(query($node, $next), '>', $last, 'killed with a slot taken: above all before');

# ---- a role that takes all slots ----

my $written = "timestamp:41 node:10 sequence:12 epoch:2020-02-02";
query($node, 'CREATE ROLE eve LOGIN');
$node->append_conf('postgresql.conf', "snowflake.layouts = 'sonyflake,$written'");
$node->restart;
refused($node, q{SET ROLE eve; SELECT snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:' || 1500000000000 + i) FROM generate_series(1, 15) i},
	'53400', qr/too many layouts are in use/, 'a role without rights takes all slots');
like(query($node, "CREATE TABLE t (id bigint DEFAULT snowflake_nextval('javascript')); INSERT INTO t DEFAULT VALUES RETURNING id", database => 'two'),
	qr/^\d+$/, 'a column of another database, whose default names a preset, goes on');
like(query($node, "CREATE TABLE w (id bigint DEFAULT snowflake_nextval('$written')); INSERT INTO w DEFAULT VALUES RETURNING id", database => 'two'),
	qr/^\d+$/, '... and so does one that names a layout of snowflake.layouts');
like(query($node, q{SELECT found FROM snowflake_status() WHERE check_name = 'other layouts'}), qr/^2 of 2 [^,]+, "timestamp:41 node:10 sequence:12 epoch:2017-07-14T02:40:00.001Z"$/,
	'which does not count');
my $asks = refused($node, "SELECT snowflake_nextval('$coarse')", '53400', qr/too many layouts are in use/, 'others are refused');
my ($line) = $asks =~ /^(snowflake\.layouts = .*)/m or die $asks;
is($line, "snowflake.layouts = 'timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01, $written, timestamp:40 node:4 sequence:12 tick:1000ms epoch:2020-01-01'",
	'and the HINT adds them to the list');
query($node, $next);
$node->append_conf('postgresql.conf', $line);
$node->restart;

# ---- long ticks ----

# the mark reaches the end of a tick that is longer than the reserve
$node->append_conf('postgresql.conf', "snowflake.reserve = 100ms\nsnowflake.max_clock_drift = 5ms");
$node->restart;
@ids = split /\n/, query($node, "SELECT snowflake_nextval('$coarse') FROM generate_series(1, 5000)");
check_ids('ticks of a second', \@ids);
$mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
cmp_ok(query($node, "SELECT extract(epoch FROM snowflake_timestamp($ids[-1], '$coarse')) * 1000 + 1000"),
	'<=', $mark, 'the mark is at or above the end of their tick');
$node->stop;

# ---- leases ----

my $layout = 'timestamp:41 node:1 sequence:12 epoch:2024-01-01';
my ($registry) = new_registry($layout);
my @settings = ("snowflake.node_id = '1'", 'snowflake.max_clock_drift = 1s', 'snowflake.lease_reserve = 8s');
my $holder = start_holder('holder', @settings);
wait_for_lease($holder, "state = 'held'");

# no ID goes beyond the end of its layout, which is reached while the lease lasts
my $short = 'timestamp:20 node:1 sequence:12 epoch:' . (clock_ms($holder) - 2**20 + 2500);
like(query($holder, qq{
	DO \$\$
	DECLARE
		id bigint;
	BEGIN
		BEGIN
			LOOP
				id := snowflake_nextval('$short');
				PERFORM pg_sleep(0.05);
			END LOOP;
		EXCEPTION WHEN SQLSTATE '2200H' THEN NULL;
		END;
		PERFORM set_config('made.last', id::text, false);
	END \$\$;
	SELECT current_setting('made.last')::bigint < 2::bigint ^ 33}),
	qr/^t$/, 'no ID beyond the end of a layout');

# the heir's clock is behind, so that it does not begin late by itself
my $heir = new_holder('heir', @settings);
start_with_clock($heir, '-3');
query($heir, 'CREATE EXTENSION snowflake');
$last = run_ahead($holder);
$holder->stop;
wait_for_lease($heir, "state = 'held'");
cmp_ok(query($heir, $next), '>', $last,
	'a lease that is given back: the next holder begins above the IDs of every layout');

# no tick goes beyond the end of the lease
alter_system($heir, 'SET snowflake.lease_wait = 0');
# on a slow machine it has ended before the first of the calls below
my $out = query($heir, "SELECT snowflake_nextval('$coarse')");
my $until = query($heir, q{SELECT extract(epoch FROM until) * 1000 FROM snowflake_lease()});
$registry->stop('immediate');
my $calls = 0;
while (++$calls < 2000)
{
	my ($status, $stdout, $stderr) = $heir->psql('postgres', "SELECT snowflake_nextval('$coarse')");

	last if $status != 0 && $stderr =~ /no lease of a node id/;
	die $stderr if $status != 0;
	$out = $stdout;
	$until = query($heir, q{SELECT coalesce(max(extract(epoch FROM until) * 1000), 0) FROM snowflake_lease()}) || $until;
	usleep(10_000);
}
cmp_ok($calls, '<', 2000, 'without the registry, the lease ends');
cmp_ok(query($heir, "SELECT extract(epoch FROM snowflake_timestamp($out, '$coarse')) * 1000 + 1000"), '<=', $until,
	'no tick of a second goes beyond the end of the lease');
$heir->stop;

# ---- advice ----

my $full = new_server('full', "snowflake.node_id = ''", 'snowflake.max_layouts = 1');
$full->start;
query($full, 'CREATE EXTENSION snowflake');
set_conf($full, "snowflake.node_id = '40'");
$full->poll_query_until('postgres', q{SELECT current_setting('snowflake.node_id') = '40'}) or die 'no reload';
refused($full, q{SELECT snowflake_nextval('timestamp:42 node:5 sequence:16')}, '55000', qr/node id 40 does not fit the layout/,
	'before its first call, too, a node id that does not fit is named rather than a setting that would not help');
$full->append_conf('postgresql.conf', 'snowflake.max_layouts = 64');
$full->restart;
query($full, q{SELECT count(snowflake_nextval(format('timestamp:41 node:10 sequence:12 epoch:%s', date '2000-01-01' + i))) FROM generate_series(1, 63) i});
like(query($full, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'other layouts'}),
	qr/^To give it a place that no role can take, .*\nsnowflake\.layouts = 'timestamp:41 node:10 sequence:12 epoch:2000-01-02'\n/,
	'where snowflake.max_layouts is at its most, a check names snowflake.layouts');
$full->stop;

done_testing();
