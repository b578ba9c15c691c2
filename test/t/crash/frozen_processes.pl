# A process is frozen at one place, or fails there, while something happens that it has
# just ruled out: the clock moves, a lease ends, a database is made. This needs a
# library built with fault points (test/needs.sh builds it).
#
# takes: 60 s
# needs: fault_points
use SnowflakeTest;
use Time::HiRes qw(usleep);
use FaultPoints;

my $node = new_server('main', 'snowflake.max_clock_wait = 60s');
my $insert = 'INSERT INTO t DEFAULT VALUES RETURNING id';

start_with_clock($node, '+0');
query($node, q{CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval())});
query($node, $insert);

# An error after the mark is written and before it is published. A restore had put a
# mark there, and it must count for the next session, which cannot see it any more.
{
	my $restored = new_server('restored', 'snowflake.reserve = 20s', 'snowflake.max_clock_wait = 30s');

	$restored->start;
	query($restored, "CREATE EXTENSION snowflake; $next");
	my $brought = query($restored, q{
		SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 3000)});
	refused($restored, "SET snowflake.fault = 'mark-inserted fail'; $next", 'XX000',
		qr/fault at "mark-inserted"/, 'a mark that was restored: an error');
	cmp_ok(epoch_ms(query($restored, $next)), '>=', $brought, 'and IDs go on above it');
	$restored->stop;
}

# An early extension of the mark. An error that any statement may meet fails the call,
# and the next call extends the mark. If the mark must not move, the call returns the ID
# that it has.
{
	my $early = new_server('early', 'snowflake.reserve = 60s');
	my $mark = 'SELECT last_value FROM snowflake_state.snowflake_mark';

	start_with_clock($early, '+0');
	query($early, "CREATE EXTENSION snowflake; $next");
	my $session = begin_session($early, $next);
	my $before = query($early, $mark);
	set_clock($early, '+40');
	refused($early, "SET snowflake.fault = 'early-opened fail'; $next", 'XX000',
		qr/fault at "early-opened"/, 'an early extension: an error');
	is(query($early, $mark), $before, 'which has not moved the mark');
	$session->query_safe($next);
	cmp_ok(query($early, $mark), '>', $before, 'the next call does');

	$before = query($early, $mark);
	my $layout = query($early, q{SELECT last_value FROM snowflake_state.snowflake_recorded_layout});
	query($early, q{SELECT setval('snowflake_state.snowflake_recorded_layout', 1)});
	set_clock($early, '+80');
	like($session->query_safe($next), qr/^\d+$/, 'another record: a call that has its ID returns it');
	is(query($early, $mark), $before, 'and does not move the mark');
	refused($early, $next, '55000', qr/differs from what is recorded/, 'a new session is told');
	query($early, "SELECT setval('snowflake_state.snowflake_recorded_layout', $layout)");
	$session->query_safe($next);
	cmp_ok(query($early, $mark), '>', $before, 'put right, the next call does');
	$session->quit;
	$early->stop;
}

# A process that is frozen right after its swap holds the horizon back. So does one
# that has left its pending range, but has not cleared its low-water mark.
foreach my $step (qw(swapped range-left))
{
	my $before = query($node, 'SELECT max(id) FROM t');
	my $victim = start_one($node, "$step stop", \my $out, \my $err, $insert);
	my $pid = wait_for_stopped($node, $insert);
	my $after = query($node, $insert);
	my $horizon = query($node, 'SELECT snowflake_horizon()');

	kill 'CONT', $pid;
	$victim->finish;
	chomp $out;
	ok($out > $before && $out < $after && $horizon <= $out,
		"$step: the horizon is not beyond the ID of a frozen process")
	  or diag("$before $out $after, horizon $horizon, $err");
	cmp_ok(query($node, 'SELECT snowflake_horizon()'), '>', $after, '... until it ends');
}

# A pending range that is half written is not read: a reader waits for it, and can be
# cancelled.
{
	my $victim = start_one($node, 'range-begun stop', \my $out, \my $err, $insert);
	my $pid = wait_for_stopped($node, $insert);

	refused($node, "SET statement_timeout = '100ms'; SELECT snowflake_horizon()",
		'57014', qr/statement timeout/,
		'range-begun: a reader waits until the range is whole');
	kill 'CONT', $pid;
	$victim->finish;
	chomp $out;
	cmp_ok(query($node, 'SELECT snowflake_horizon()'), '>', $out, '... and then goes on');
}

# A process that waits for the clock is frozen after it has read the clock. The time
# that it read is old, but its clock did not stand still.
{
	set_clock($node, -30);
	my $victim = start_one($node, 'clock-read stop', \my $out, \my $err, $next);
	my $stops = 0;

	while ($victim->pumpable)
	{
		my $pid = stopped($node, $next);

		if ($pid)
		{
			usleep(500_000) if ++$stops > 1;	# longer than at first
			set_clock($node, 0) if $stops == 6;	# seen enough: the wait is over
			kill 'CONT', $pid;
		}
		$victim->pump_nb;
		usleep(50_000);
	}
	$victim->finish;
	cmp_ok($stops, '>', 2, 'clock-read: frozen several times');
	is($err, '', '... it takes no clock for one that stands still');
	like($out, qr/^\d+\n\z/, '... and gets its ID');
	set_clock($node, 0);
}

# The process is frozen while the clock is set back by less than the length of the
# freeze, and by more than half of it. Then it is frozen for longer than a call may wait.
# During that time the clock is right and others go on, and then the clock is set back
# once more.
{
	my $behind = new_server('behind', "snowflake.max_clock_wait = '18s'");
	start_with_clock($behind, 0);
	query($behind, "CREATE EXTENSION snowflake; $next");
	set_clock($behind, -12);
	my $victim = start_one($behind, 'clock-read stop', \my $out, \my $err, $next);
	my $pid;
	my $freezes = 0;
	foreach my $pause ([ 0, -12 ], [ 5, -16 ], [ 0, -16 ], [ 20, 0 ])
	{
		my ($length, $offset_now) = @$pause;

		# after an error no process stops, and the checks below show the error
		$pid = eval { wait_for_stopped($behind, $next, $victim) } or last;

		$freezes++;
		usleep($length * 1_000_000);	# what it is frozen for
		set_clock($behind, $offset_now);
		if ($length > 5)
		{
			query($behind, $next);
			set_clock($behind, -12);
		}
		kill 'CONT', $pid;
	}
	$pid &&= eval { wait_for_stopped($behind, $next, $victim) };
	set_clock($behind, 0);
	go_on($victim, $pid // 0);
	is($freezes, 4, 'clock-read: frozen while it waits, each time');
	is($err, '', 'clock-read: neither a clock that stands still, nor a wait that is too long');
	like($out, qr/^\d+\n\z/, '... and it gets its ID');
	$behind->stop;
}

# A process is frozen before its first look at the clock in a life of the server, or
# right after it has published a mark. Then the clock jumps further than is believed,
# also for another database.
{
	my $jump = new_server('jump', "snowflake.reserve = '60s'");
	my $ids = 'SELECT count(*) FROM snowflake_nextval_batch(10)';

	start_with_clock($jump, 0);
	query($jump, "CREATE DATABASE other");
	query($jump, "CREATE EXTENSION snowflake; $ids", database => $_) foreach 'postgres', 'other';
	foreach my $case ([ 'clock-look', 'other', 'postgres' ], [ 'mark-published', 'postgres', 'other' ])
	{
		my ($place, $victims, $others) = @$case;

		$jump->stop;
		start_with_clock($jump, 0);
		my $victim = start_one($jump, "$place stop", \my $out, \my $err, $next, $victims);
		my $pid = wait_for_stopped($jump, $next);
		is(query($jump, $ids), 10, "$place: others make IDs");
		set_clock($jump, 2 * 86400);
		refused($jump, $next, '58000', qr/wall clock jumped forward by 2 days/,
			"$place: a jump of two days is refused in the database \"$others\"", database => $others);
		go_on($victim, $pid);
		set_clock($jump, 0);
		like(answer($jump, $next, database => $_), qr/^\d+$/,
			"$place: nobody has believed it: $_") foreach 'postgres', 'other';
	}
	$jump->stop;
}

# A database is made, and the process that makes it is frozen when others see it, and
# before they are told to look at the catalogs again. A call that began before does not
# know the new database. It must not take its slot for that of a dropped one.
{
	my $few = new_server('few', 'snowflake.max_databases = 1', 'autovacuum = off');

	start_with_clock($few, 0);
	query($few, 'CREATE DATABASE pattern');
	query($few, 'CREATE EXTENSION snowflake', database => 'pattern');
	query($few, "CREATE DATABASE $_ TEMPLATE pattern") foreach 'gone', 'other';
	query($few, $next, database => 'gone');
	query($few, 'DROP DATABASE gone');

	my $holder = $few->background_psql('other');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my ($got, $told) = ('', '');
	my $call = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $few->connstr('other'), '-c',
			"SELECT to_regclass('nothing'), pg_advisory_xact_lock(1), snowflake_nextval()"
		],
		'>', \$got, '2>', \$told);
	$few->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'")
	  or die 'the call does not wait';

	my $maker = start_one($few, 'committed stop', \my $out, \my $err,
		'CREATE DATABASE new TEMPLATE pattern');
	kill 'CONT', wait_for_stopped($few, 'SET snowflake.fault');
	my $pid = wait_for_stopped($few, 'CREATE DATABASE new');
	my $user = $few->background_psql('new');
	like($user->query_safe($next), qr/^\d+$/, 'committed: a new database takes the free slot');
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	$call->finish;
	like($told, qr/too many databases generate IDs on this server/,
		'... and a call that does not see it yet leaves it the slot')
	  or diag($got);
	set_clock($few, 10);
	answer($few, $next, database => 'other');
	cmp_ok(epoch_ms($user->query_safe($next)), '<',
		$user->query_safe('SELECT last_value FROM snowflake_state.snowflake_mark'),
		'... so that its IDs are below its mark');
	go_on($maker, $pid);
	$_->quit foreach $holder, $user;
	$few->stop;
}

# A server with a leased node id is stopped while a session is between its look at the
# lease and its swap. The slot is given back, and the next holder may issue. So the
# session must not get its ID when it goes on.
{
	my $registry = PostgreSQL::Test::Cluster->new('registry');
	my $url = 'postgresql:///postgres?host=' . $registry->host . '&port=' . $registry->port;
	my @holders = map {
		new_server($_, "snowflake.registry = '$url'", "snowflake.node_id = '5'")
	} qw(first second);

	$registry->init;
	$registry->start;
	query($registry, 'CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.init()');
	$holders[0]->start;
	my $first = query($holders[0], "CREATE EXTENSION snowflake; $next");
	$holders[1]->start;
	query($holders[1], 'CREATE EXTENSION snowflake');

	my $victim = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $holders[0]->connstr('postgres'), '-c',
			"SET snowflake.fault = 'before-swap stop'", '-c',
			q{DO $$BEGIN RAISE NOTICE 'ID %', snowflake_nextval(); END$$}
		],
		'>', \my $out, '2>', \my $err);
	my $pid = wait_for_stopped($holders[0], 'DO %');
	system('pg_ctl', '-s', '-D', $holders[0]->data_dir, '-m', 'fast', '-W', 'stop') == 0
	  or die 'pg_ctl failed';
	wait_for_lease($holders[1], q{state = 'held'});
	my $last = query($holders[1], $next);
	kill 'CONT', $pid;
	eval { $victim->finish };
	unlike($err, qr/ID \d/, 'no ID for a session that goes on after its node id was given back');
	cmp_ok($last, '>', $first, 'the next holder goes on');
	$holders[0]->{_pid} = undef;
	$_->stop foreach ($holders[1], $registry);
}

# The same with a shard: a reload takes it away from a server that lives on, and another
# server gets it.
{
	my ($from, $to) = map { new_server($_, "snowflake.shards = '@{[ $_ eq 'from' ? '3-4' : 7 ]}'") } qw(from to);
	my $next_of_3 = 'SELECT snowflake_shard_nextval(3)';

	foreach ($from, $to)
	{
		$_->start;
		query($_, 'CREATE EXTENSION snowflake');
	}
	my $first = query($from, $next_of_3);
	my $victim = start_one($from, 'before-swap stop', \my $out, \my $err, $next_of_3);
	my $pid = wait_for_stopped($from, $next_of_3);
	set_conf($from, "snowflake.shards = '4'");
	$from->poll_query_until('postgres', q{SELECT found ~ 'no longer of 3: ' FROM snowflake_status() WHERE check_name = 'shards'})
	  or die 'the shard is not removed';
	query($to, query($from, q{SELECT 'SELECT snowflake_advance(' || substring(found FROM 'above (\d+)') || $$, layout => 'shard')$$
		FROM snowflake_status() WHERE check_name = 'shards'}));
	set_conf($to, "snowflake.shards = '3,7'");
	$to->poll_query_until('postgres', q{SELECT found ~ 'makes IDs of 3,7' FROM snowflake_status() WHERE check_name = 'shards'})
	  or die 'the shard is not there';
	cmp_ok(query($to, $next_of_3), '>', $first, 'another server has the shard');
	kill 'CONT', $pid;
	$victim->finish;
	is($out, '', 'no ID for a session that goes on after its shard was removed');
	like($err, qr/may not issue IDs for shard 3/, 'but an error');
	$_->stop foreach $from, $to;
}

# A process has read the configured node id, and freezes before it takes it. No ID was
# made yet, so meanwhile the node id changes.
{
	my $unset = new_server('unset', "snowflake.node_id = ''");
	my $configure = sub {
		my ($id) = @_;

		alter_system($unset, "SET snowflake.node_id = '$id'");
		$unset->poll_query_until('postgres',
			"SELECT current_setting('snowflake.node_id') = '$id'")
		  or die "node id $id is not taken over";
	};

	$unset->start;
	query($unset, 'CREATE EXTENSION snowflake');
	$configure->(5);
	my $timeout = $PostgreSQL::Test::Utils::timeout_default;
	my $victim = start_one($unset, 'node-found stop', \my $out, \my $err, "SET statement_timeout = '${timeout}s'; $next");
	my $pid = wait_for_stopped($unset, $next);
	$configure->(6);
	kill 'CONT', $pid;
	my $last = time + 10 * $timeout;
	while ($victim->pumpable)	# it finds the new one, and freezes again
	{
		die 'the session does not end' if time > $last;
		kill 'CONT', $pid if is_frozen($pid);
		$victim->pump_nb;
		usleep(10_000);
	}
	$victim->finish;
	is($err, '', 'a session that goes on after the node id was changed gets an ID');
	is(query($unset, "SELECT snowflake_node($out), snowflake_node(snowflake_nextval())"), '6|6',
		'of the new one, as the server has');
	$unset->stop;
}

$node->stop;
done_testing();
