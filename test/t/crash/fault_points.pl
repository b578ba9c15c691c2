# A process is killed, frozen or fails at each step of the protocol. This needs a
# library built with fault points (test/needs.sh builds it).
#
# takes: 45 s
# needs: fault_points
use SnowflakeTest;
use Time::HiRes qw(time);
use FaultPoints;
use IdChecker;
use Load;

my @steps = qw(mark-inserted mark-flushed mark-published before-swap swapped);

# how long a process is frozen, in seconds
my $freeze = $ENV{SNOWFLAKE_FREEZE} || 2;

# The smallest reserve, so that the mark moves often. WAL is written late, unless a
# process flushes it. A call waits for a clock that is behind by less than a minute,
# the length of a life here.
my $node = new_server('main', "snowflake.shards = '3-4'",
	'snowflake.reserve = 100ms', 'restart_after_crash = off',
	'wal_writer_delay = 10s', 'snowflake.max_clock_wait = 60s', 'autovacuum = off');
my $checker = IdChecker->new($node->basedir . '/ids');
my $offset = 0;
my $insert = 'INSERT INTO t DEFAULT VALUES RETURNING id';
my $script = $node->basedir . '/victim.sql';

append_to_file($script,
	"SELECT snowflake_nextval() FROM generate_series(1, 5);\n" x 200000);

start_with_clock($node, '+0');
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

# Wait until the server has ended.
sub wait_for_the_end
{
	wait_until { !-e $node->data_dir . '/postmaster.pid' } 'the server does not end';
	$node->stop('immediate', fail_ok => 1);
	return;
}

# Start a session with a fault, which asks for IDs until it reaches the fault.
sub start_victim
{
	my ($fault, $out) = @_;

	return IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			"SET snowflake.fault = '$fault'", '-f', '-'
		],
		'<', $script,
		'>', $out, '2>', "$out.err");
}

# Start a crashed server with its clock one hour behind, and then at the time at which
# the last life began. No client gets an ID that exists already. If an ID of that life
# is given, the mark on disk must be above it.
sub start_again
{
	my ($step, $begun, $id) = @_;
	my $crashed = (time() + $offset) * 1000;

	start_with_clock($node, $offset - 3600);
	refused_behind($node, $next, "$step: a clock an hour behind is refused");
	cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>',
		epoch_ms($id), "$step: the mark on disk is above what was issued")
	  if $id;
	$offset = $begun - time();
	set_clock($node, $offset);
	is_deeply(live_again($checker, 'killed', $node, 4, $crashed),
		{}, "$step: it lives through the same instants again");
	return;
}

# A process is killed at a step, and the server with it. Either this happens at once,
# under load; or the process is frozen first, until the others have used up the mark.
# The others write nothing, so WAL is flushed only for the mark.
foreach my $step (@steps)
{
	my $begun = time() + $offset;
	my $load = start_load($checker, 'killed', $node->connstr('postgres'), 4);
	$load->more(200);
	my $out = $checker->session('killed, node');
	my $victim = start_victim("$step kill", $out);
	wait_for_the_end();
	eval { $victim->finish };
	$load->finish;
	start_again($step, $begun);

	$begun = time() + $offset;
	my @others = map {
		start_trickle($checker, 'killed', $node->connstr('postgres'),
			"SELECT snowflake_$_->[1] FROM generate_series(1, 3), pg_sleep(0.001);",
			$_->[0])
	} ([ 'node', 'nextval()' ], [ 'shards', 'shard_nextval(3)' ]);
	$_->more(20) foreach @others;
	$out = $checker->session('killed, node');
	$victim = start_victim("$step stop", $out);
	my $pid = wait_for_stopped($node, '(1, 5)', $victim);
	wait_for_clock($node, query($node, 'SELECT last_value + 200 FROM snowflake_state.snowflake_mark'));
	kill 'KILL', $pid;
	wait_for_the_end();
	eval { $victim->finish };
	$_->finish foreach @others;
	start_again("$step, frozen first", $begun);
}

# Nobody has asked for a while. So the mark on disk is over when a session publishes
# the next one and freezes. Another session makes IDs below the new mark, too few to
# extend it, so that nobody flushes WAL any more: the server's own processes, which do
# so now and then, are frozen, too. Then all are killed.
{
	my $begun = time() + $offset;
	my $out = $checker->session('killed, node');
	my $others = $checker->session('killed, node');

	set_conf($node, 'snowflake.reserve = 10s');
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.reserve') = '10s'")
	  or die 'the reserve is not set';
	wait_for_clock($node, query($node, 'SELECT last_value + 200 FROM snowflake_state.snowflake_mark'));
	my @writers = freeze_writers($node);
	my $victim = start_victim('mark-published stop', $out);
	my $pid = wait_for_stopped($node, '(1, 5)', $victim);
	my $issued = query($node, 'SELECT snowflake_nextval() FROM generate_series(1, 2000)');
	append_to_file($others, "$issued\n");
	kill 'KILL', $pid, @writers;
	wait_for_the_end();
	eval { $victim->finish };
	start_again('mark-published, after a pause', $begun, $issued =~ s/.*\n//sr);
	set_conf($node, 'snowflake.reserve = 100ms');
}
$checker->state('killed', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');

# A process freezes while others move the mark ahead by many reserves. Then it goes on
# with what it has read. At the steps of the mark it holds the lock, so the others
# reach the end of the mark, wait, and can be cancelled. At the steps of the swap it
# ends by itself, with an ID.
foreach my $step (@steps)
{
	my $holds = $step =~ /mark/;
	my $out = $checker->session('frozen, node');

	# the mark before may be ahead by the larger reserve, and the victim does not live as
	# long: so its first call must extend the mark
	wait_for_clock($node, query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'));
	my $victim =
		$holds
	  ? start_victim("$step stop", $out)
	  : start_one($node, "$step stop", $out, "$out.err", $next);
	my $pid = wait_for_stopped($node, $next, $victim);
	my $before = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
	my $thawed = clock_ms($node) + $freeze * 1000;
	if ($holds)
	{
		refused($node, qq{
				SET statement_timeout = '${freeze}s';
				SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 100000000)) s},
			'57014', qr/statement timeout/,
			"$step: who waits for a frozen process can be cancelled");
		$victim->signal('TERM');
		kill 'TERM', $pid;
	}
	else
	{
		my $load = start_load($checker, 'frozen', $node->connstr('postgres'), 4, 3, 0.005);
		$load->more(1000);
		wait_for_clock($node, $thawed);
		$node->poll_query_until('postgres',
			"SELECT last_value > $before + 1000 FROM snowflake_state.snowflake_mark")
		  or die 'the mark does not move';
		is_deeply($load->finish, {}, "$step: the others go on");
	}

	go_on($victim, $pid);
	like(slurp_file($out), qr/^\d+\n\z/, "$step: it ends by itself, with an ID")
	  or diag(slurp_file("$out.err"))
	  if !$holds;
	like(query($node, $next), qr/^\d+$/, "$step: afterwards all is well");
}

# An error at a step of the mark leaves nothing behind that others must wait for.
foreach my $step (grep { /mark/ } @steps)
{
	refused($node, qq{
			SET snowflake.fault = '$step fail';
			SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 100000000)) s},
		'XX000', qr/fault at "$step"/, "$step: an error");

	my $load = start_load($checker, 'failed', $node->connstr('postgres'), 4);
	$load->more(1000);
	is_deeply($load->finish, {}, "$step: the others go on after an error");
}

$checker->clients;
$checker->state('all', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');
$checker->states;
note $checker->checked . ' IDs checked';
$node->stop;
done_testing();
