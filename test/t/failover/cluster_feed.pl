# One feed over several servers: on standbys, on a collector that subscribes to three
# writers, and on three servers that write one table. There are crashes, restarts, frozen
# processes, steps of clocks, long and prepared transactions. Meanwhile a standby is promoted,
# and servers join and leave. Each reader has one cursor, also if it goes from server to
# server, and gets each committed row once and in order. A reader without the horizon loses
# rows.
#
# Each of these three cases makes each of its faults once. Then it makes faults at random,
# until it has SNOWFLAKE_ROWS rows and has lasted for SNOWFLAKE_SOAK seconds. SNOWFLAKE_CASES
# names some of the cases. SEED repeats the choice of faults.
#
# takes: 45 s
# part active_active: server_16
use SnowflakeTest;
use IPC::Run;
use Load;
use List::Util qw(shuffle);
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);

my $rows = $ENV{SNOWFLAKE_ROWS} || 10_000;
my $seconds = $ENV{SNOWFLAKE_SOAK} || 5;
my $cases = $ENV{SNOWFLAKE_CASES} // 'standby collector active_active';
my $seed = $ENV{SEED} || time;
note "SEED=$seed";
srand($seed);

my $dir = PostgreSQL::Test::Utils::tempdir();
# what runs now: servers and readers
my (@servers, @readers);
# faults and events of all cases, and the rows that were committed
my (%count, $checked);

sub now { return clock_gettime(CLOCK_MONOTONIC) }

# Return one of these at random.
sub any { return $_[ rand @_ ] }

# ---- clients ----

# Transactions of writers. The last one is streamed before it commits.
my %scripts = (
	writer_scripts(commit => 20, single => 10, batch => 8, subtransactions => 5, rollback => 4, prepare => 5, unprepare => 2),
	'long@1' => q{
		\set ms random(300, 1500)
		BEGIN;
		INSERT INTO t (c) VALUES (1);
		\sleep :ms ms
		INSERT INTO t (c) SELECT generate_series(1, 1000);
		COMMIT;
	});
# in the suite other tests need the processors, too
my @pgbench = (qw(pgbench -n -j 1 -T 36000 -c), $rows > 100_000 ? 8 : (4, '-R', 100));
foreach my $script (sort keys %scripts)
{
	my ($name, $weight) = split /@/, $script;

	append_to_file("$dir/$name.sql", $scripts{$script});
	push @pgbench, '-f', "$dir/$name.sql\@$weight";
}

# A reader asks for pages of random length, in a statement and transaction each. It keeps
# its cursor in :c, and in the last line of its output.
my %reads;
foreach my $how (qw(feed naive))
{
	my $below = $how eq 'feed' ? 'AND id < snowflake_feed_horizon()' : '';

	$reads{$how} = "$dir/$how.sql";
	append_to_file($reads{$how}, qq{
		SELECT coalesce(string_agg(id::text, E'\\n'), '') AS ids, coalesce(max(id), :c) AS c, count(*) > 0 AS any
		FROM (SELECT id FROM t WHERE id > :c $below ORDER BY id LIMIT (1 + random() ^ 4 * 5000)::int) page \\gset
		\\if :any
			\\echo :ids
		\\endif
		SELECT pg_sleep(0.02 * random()) AS slept \\gset
	} x 300);
}

# Start a client that has not begun or has ended. Its errors do not count: a server that
# crashes ends its clients.
sub keep_running
{
	my ($client, @command) = @_;

	return if $client->{handle} && $client->{handle}->pumpable;
	eval { $client->{handle}->finish } if $client->{handle};
	local @ENV{ 'PGOPTIONS', 'PGAPPNAME' } = ('-c enable_seqscan=off -c jit=off', $client->{name});
	$client->{handle} = IPC::Run::start(\@command, '>>', $client->{out} // '/dev/null', '2>', "$dir/errors.$client->{name}");
	return;
}

sub end_client
{
	my ($client, $signal) = @_;
	my $handle = delete $client->{handle} or return;

	$handle->signal($signal // 'TERM');
	eval { $handle->finish };
	return;
}

# Return the last ID that a reader has written, and where in its output the next one
# begins. What follows there was cut off when the reader ended, or is not written yet.
sub cursor_of
{
	my ($reader) = @_;
	my $size = -s $reader->{out};
	my $from = $size > 100 ? $size - 100 : 0;

	return (0, 0) if $size == 0;
	open(my $fh, '<', $reader->{out}) or die "$reader->{out}: $!";
	seek($fh, $from, 0);
	read($fh, my $end, $size - $from);
	$end =~ /^(\d+)\n\d*\z/m or die "$reader->{out} ends in $end";
	return ($1, $from + $+[1] + 1);
}

# Start the clients of writers and the readers that have ended.
sub keep_all_running
{
	foreach my $reader (@readers)
	{
		next if $reader->{handle} && $reader->{handle}->pumpable;
		my ($cursor, $size) = cursor_of($reader);

		truncate($reader->{out}, $size) or die "$reader->{out}: $!";
		# psql alone keeps its last lines for itself
		keep_running($reader, 'stdbuf', '-oL', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', "c=$cursor",
			'-d', any(@{ $reader->{servers} })->{node}->connstr('postgres'), '-f', $reads{ $reader->{how} });
	}
	foreach my $server (@servers)
	{
		my $node = $server->{node};

		keep_running($server->{load}, @pgbench, '-h', $node->host, '-p', $node->port, 'postgres') if $server->{writes};
	}
	return;
}

sub add_server
{
	my ($node, %more) = @_;
	my $name = $node->name;

	push @servers, { node => $node, load => { name => "load.$name" }, %more };
	return $servers[-1];
}

# Add a reader that goes from one of these servers to another one, with its cursor.
sub add_reader
{
	my ($how, @on) = @_;
	my $name = join '.', $how, map { $_->{node}->name } @on;

	push @readers, { name => $name, out => "$dir/seen.$name", how => $how, servers => \@on };
	append_to_file($readers[-1]{out}, '');
	return;
}

# Wait until something holds, with all clients running.
sub wait_for(&$)
{
	my ($holds, $what) = @_;

	eval { wait_until { keep_all_running(); usleep(50_000); $holds->() } $what; 1 } and return;
	my $why = $@;
	foreach my $server (@servers)
	{
		diag(map { $server->{node}->name . ": $_\n" } split /\n/, answer_of($server, q{
			SELECT concat_ws(' ', 'feed:', node, server, horizon, snowflake_timestamp(horizon), published) FROM snowflake_feed_servers
			UNION ALL SELECT concat_ws(' ', 'subscription:', subname, pid, received_lsn, latest_end_lsn) FROM pg_stat_subscription
			UNION ALL SELECT concat_ws(' ', 'sender:', application_name, pid, state, sent_lsn, replay_lsn) FROM pg_stat_replication
			UNION ALL SELECT concat_ws(' ', 'prepared:', gid, prepared) FROM pg_prepared_xacts
			UNION ALL SELECT concat_ws(' ', 'activity:', application_name, pid, state, wait_event, xact_start, query) FROM pg_stat_activity WHERE state <> ''}));
	}
	die $why;
}

# ---- servers ----

my @settings = ('wal_level = logical', 'max_wal_senders = 12', 'max_replication_slots = 12', 'max_worker_processes = 24',
	'max_logical_replication_workers = 12', 'wal_retrieve_retry_interval = 100ms', 'max_prepared_transactions = 40',
	'logical_decoding_work_mem = 64kB', 'wal_keep_size = 1GB', 'max_wal_size = 4GB', 'shared_buffers = 32MB', 'autovacuum = off', 'restart_after_crash = on',
	"snowflake.feed_databases = 'postgres'", "snowflake.feed_interval = '100ms'", "snowflake.max_clock_wait = '10s'", "snowflake.reserve = '3s'");

# Return a difference of clocks.
sub a_second { return rand(1) - 0.5 }

# Start a server with the tables, whose clock differs from the others'.
sub new_member
{
	my ($name, $number, $offset) = @_;
	my $node = new_server($name, @settings, "snowflake.node_id = '$number'");

	start_with_clock($node, $offset);
	query($node, "CREATE EXTENSION snowflake; SELECT snowflake_create_feed();
		CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
		CREATE PUBLICATION p FOR TABLE t, snowflake_feed");
	return add_server($node);
}

sub subscribe
{
	my ($to, $from, $options) = @_;

	query($to->{node}, sprintf(q{CREATE SUBSCRIPTION %s_from_%s CONNECTION '%s dbname=postgres' PUBLICATION p WITH (%s)},
			$to->{node}->name, $from->{node}->name, $from->{node}->connstr, $options));
	return;
}

sub wait_for_copies
{
	my ($node) = @_;

	$node->poll_query_until('postgres', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel}) or die 'no copy';
	return;
}

# Return the processes of a server whose titles match; without a pattern all of them, the
# postmaster first.
sub pids_of
{
	my ($server, $title) = @_;
	my $postmaster = slurp_file($server->{node}->data_dir . '/postmaster.pid') =~ /^(\d+)/ ? $1 : die;
	my %title = map { /^\s*(\d+) (.*)/ ? ($1 => $2) : () } split /\n/, `ps -o pid=,args= --ppid $postmaster`;

	return ($postmaster, sort keys %title) if !$title;
	return grep { $title{$_} =~ $title } sort keys %title;
}

my $apply = qr/logical replication (?:apply |parallel apply )?worker for/;

# Return what a server answers, or nothing if the statement fails.
sub answer_of
{
	my ($server, $sql) = @_;
	my ($status, $out) = $server->{node}->psql('postgres', $sql);

	return $status == 0 ? $out : '';
}

sub start_again
{
	my ($server) = @_;

	start_by_clock($server->{node}, $server->{node}->basedir . '/clock');
	return;
}

# End the prepared transactions of earlier lives, and of clients that were ended.
sub end_prepared
{
	my ($server, $all) = @_;
	my $old = $all ? 'true' : q{(prepared < pg_postmaster_start_time() OR prepared < clock_timestamp() - interval '3 s')};

	answer_of($server, any('COMMIT', 'ROLLBACK') . " PREPARED '$_'")
	  foreach split /\n/, answer_of($server, "SELECT gid FROM pg_prepared_xacts WHERE gid !~ 'pg_gid' AND $old");
	return;
}

# ---- faults ----

# Freeze processes. Another process ends that, whatever the test waits for meanwhile.
sub freeze
{
	my ($longest, @pids) = @_;

	@pids = grep { kill 'STOP', $_ } @pids or return 0;
	system(sprintf('(sleep %.2f; kill -CONT %s) >/dev/null 2>&1 &', 0.1 + rand $longest, "@pids"));
	return 1;
}

# Kill one of these processes of a server, which then starts all of them anew.
sub kill_process
{
	my ($server, @pids) = @_;
	my $from = -s $server->{node}->logfile;

	kill('KILL', any(@pids) // return 0) or return 0;
	foreach (1 .. 50)
	{
		usleep(50_000);
		next if substr(slurp_file($server->{node}->logfile), $from) !~ /was terminated by signal 9/;
		wait_for_restart($server->{node}, $from);
		return 1;
	}
	# it had just ended by itself
	return 0;
}

sub clients_of
{
	my ($server) = @_;

	return split /\n/, answer_of($server, q{SELECT pid FROM pg_stat_activity WHERE application_name ~ '^load'});
}

# Stop a server and start it. A transaction that was prepared before a crash is committed
# some time after it.
my $prepared = 0;

sub stop_and_start
{
	my ($server, $mode) = @_;
	my $node = $server->{node};
	my $gid = 'kept' . ++$prepared;
	my $kept = $server->{writes} && $mode eq 'immediate'
	  && $node->psql('postgres', "BEGIN; INSERT INTO t (c) VALUES (2); PREPARE TRANSACTION '$gid'") == 0;

	$node->stop($mode);
	usleep(rand 300_000);
	start_again($server);
	return 1 if !$kept;
	my $until = now() + rand 1;
	wait_for { now() > $until } 'time does not pass';
	# it may have been ended already
	answer_of($server, "COMMIT PREPARED '$gid'");
	return 1;
}

# Each fault gets a server, and returns false if it finds nothing to do.
my %faults_of = (
	writers => {
		'crashes of writers' => sub { stop_and_start($_[0], 'immediate') },
		'restarts of writers' => sub { stop_and_start($_[0], 'fast') },
		'killed sessions' => sub { kill_process($_[0], clients_of($_[0])) },
		'frozen sessions' => sub { freeze(1.5, any(clients_of($_[0])) // ()) },
		'frozen walsenders' => sub { freeze(1.5, any(pids_of($_[0], qr/walsender/)) // ()) },
		'killed feed workers' => sub { kill_process($_[0], pids_of($_[0], qr/snowflake feed/)) },
		'frozen feed workers' => sub { freeze(1.5, pids_of($_[0], qr/snowflake feed/)) },
		'frozen writers' => sub { freeze(1, pids_of($_[0])) },
		'steps of a clock' => sub { set_clock($_[0]{node}, sprintf '%.3f', (rand(2) - 1) * any(0.05, 1, 2)); 1 },
	},
	subscribers => {
		'crashes of subscribers' => sub { stop_and_start($_[0], 'immediate') },
		'restarts of subscribers' => sub { stop_and_start($_[0], 'fast') },
		'killed apply workers' => sub { kill_process($_[0], pids_of($_[0], $apply)) },
		'ended apply workers' => sub { kill 'TERM', any(pids_of($_[0], $apply)) // return 0 },
		'frozen apply workers' => sub { freeze(1.5, any(pids_of($_[0], $apply)) // ()) },
	},
	standbys => {
		'crashes of standbys' => sub { stop_and_start($_[0], 'immediate') },
		'restarts of standbys' => sub { stop_and_start($_[0], 'fast') },
		'ended walreceivers' => sub { kill 'TERM', any(pids_of($_[0], qr/walreceiver/)) // return 0 },
		'frozen walreceivers' => sub { freeze(1.5, any(pids_of($_[0], qr/walreceiver/)) // ()) },
		'frozen recoveries' => sub { freeze(1.5, any(pids_of($_[0], qr/startup/)) // ()) },
	});

# Kill a reader, which goes on from its cursor.
sub kill_reader
{
	end_client(any(@readers), 'KILL');
	return 1;
}

# Run all clients, with faults of these kinds of servers, and events that happen once. Then
# end the clients of writers, wait until the readers have read all, and check what they read.
sub run_case
{
	my ($case, $kinds, $events, $committed) = @_;
	my %faults = ('crashes of readers' => \&kill_reader);
	my $tries = 0;
	my $longer = 0;

	while (my ($kind, $servers) = each %$kinds)
	{
		foreach my $name (keys %{ $faults_of{$kind} })
		{
			$faults{$name} = sub {
				my $server = any($servers->());

				note sprintf('%.1f %s', now(), "$name: " . $server->{node}->name);
				return $faults_of{$kind}{$name}->($server);
			};
		}
	}
	my $begin = now();
	my @next = shuffle(sort keys %faults);
	my @events = @$events;
	while (1)
	{
		my $pause = now() + rand($longer ? 2 : 0.3);

		wait_for { now() > $pause } 'time does not pass';
		end_prepared($_) foreach grep { $_->{writes} } @servers;
		if (@next)
		{
			my $name = shift @next;

			if ($faults{$name}->()) { $count{$name}++ }
			else
			{
				push @next, $name;
				die "$case: nothing to do for $name" if ++$tries > 1000;
			}
		}
		elsif (@events)
		{
			(shift @events)->();
			@next = map { any(sort keys %faults) } 1, 2;
		}
		elsif (now() > $begin + $seconds && $committed->() >= $rows)
		{
			last;
		}
		else
		{
			@next = any(sort keys %faults);
			$longer = 1;
		}
	}
	foreach my $server (@servers)
	{
		set_clock($server->{node}, 0);
		$server->{node}->poll_query_until('postgres', undef, '') or die 'no connection';
		next if !delete $server->{writes};
		end_client($server->{load});
		$server->{node}->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name ~ $$^load$$') or die 'clients go on';
		end_prepared($server, 1);
	}
	return;
}

# Wait until each reader has the last row, and check that those that use the horizon have
# read exactly these rows, in order.
sub check_readers
{
	my ($case, @committed) = @_;

	@committed = sort { $a <=> $b } @committed;
	$checked += @committed;
	foreach my $reader (@readers)
	{
		wait_for { (cursor_of($reader))[0] >= $committed[-1] } "$case: $reader->{name} does not come to the end";
		end_client($reader);
	}
	foreach my $reader (@readers)
	{
		my @seen = split /\n/, slurp_file($reader->{out});
		my (@lost, @more, @unordered);
		my $i = 0;

		foreach my $n (1 .. $#seen)
		{
			push @unordered, "$seen[$n] after $seen[$n - 1]" if $seen[$n] <= $seen[ $n - 1 ];
		}
		foreach my $id (sort { $a <=> $b } @seen)
		{
			push @lost, $committed[ $i++ ] while $i < @committed && $committed[$i] < $id;
			if ($i < @committed && $committed[$i] == $id) { $i++ }
			else { push @more, $id }
		}
		push @lost, @committed[ $i .. $#committed ];
		if ($reader->{how} eq 'naive')
		{
			cmp_ok(scalar @lost, '>', 0, "$case: $reader->{name}: without the horizon it loses " . @lost . ' of ' . @committed . ' rows');
			next;
		}
		is(join(' ', map { scalar @$_ } \@lost, \@more, \@unordered), '0 0 0',
			"$case: $reader->{name}: none of " . @committed . ' rows is lost or read twice, and all are in order')
		  or diag(map { sprintf "%s: %s\n", $_->[0], join ', ', @{ $_->[1] } > 10 ? @{ $_->[1] }[ 0 .. 9 ] : @{ $_->[1] } }
			  [ lost => \@lost ], [ 'not committed, or twice' => \@more ], [ unordered => \@unordered ]);
	}
	foreach my $server (@servers)
	{
		note $server->{node}->name . ' has streamed transactions: ' . query($server->{node}, 'SELECT coalesce(sum(stream_txns), 0) FROM pg_stat_replication_slots');
		$server->{node}->stop('immediate');
	}
	@servers = @readers = ();
	return;
}

# Return the rows that were made on a server.
sub rows_of
{
	my ($server) = @_;

	return split /\n/, query($server->{node}, q{SELECT id FROM t WHERE snowflake_node(id) = current_setting('snowflake.node_id')::int});
}

# Return about how many rows a server has.
sub count_of
{
	my ($server) = @_;

	return answer_of($server, 'SELECT count(*) FROM t') || 0;
}

# ---- joining and leaving ----

# Let a server publish for the first time, and wait until each server that is read has its
# row. After this its IDs are above all that was read there without that row.
sub join_feed
{
	my ($server, @read) = @_;
	my $number = query($server->{node}, 'SHOW snowflake.node_id');

	$count{'servers that join'}++;
	wait_for { answer_of($server, 'SELECT snowflake_publish_horizon()') ne '' } 'a server does not join';
	foreach my $reading (@read)
	{
		wait_for { answer_of($reading, "SELECT horizon FROM snowflake_feed_servers WHERE node = $number") ne '' }
			'the row of a server that joins does not arrive';
		query($server->{node}, 'SELECT snowflake_advance(' . query($reading->{node}, 'SELECT max(horizon) FROM snowflake_feed_servers') . ')');
	}
	return;
}

# End the clients of a server, take it out, and wait until each server that is read knows.
sub leave_feed
{
	my ($server, @read) = @_;
	my $node = $server->{node};
	my $number = query($node, 'SHOW snowflake.node_id');

	$count{'servers that leave'}++;
	delete $server->{writes};
	end_client($server->{load});
	end_prepared($server, 1);
	my $late = begin_session($node, 'BEGIN; INSERT INTO t (c) VALUES (3)');
	refused($node, 'SELECT snowflake_leave_feed()', '55006', qr/may still bring in IDs/, 'a server does not leave while a transaction has made IDs');
	$late->query_safe(q{PREPARE TRANSACTION 'late'});
	$late->quit;
	refused($node, 'SELECT snowflake_leave_feed()', '55006', qr/may still bring in IDs/, '... or is prepared');
	query($node, q{COMMIT PREPARED 'late'});
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM snowflake_horizon_holders') or die 'a client goes on';
	query($node, 'SELECT snowflake_leave_feed()');
	foreach my $reading (@read)
	{
		wait_for { answer_of($reading, "SELECT count(*) = 0 FROM snowflake_feed_servers WHERE node = $number AND horizon IS NOT NULL") eq 't' }
			'no server is told of one that has left';
	}
	return;
}

sub writers { return grep { $_->{writes} } @servers }

# ---- two standbys, one behind the other; the first one is promoted ----

sub run_standby
{
	my $primary = new_member('primary', 1, a_second());
	my @standby;

	foreach my $n (0, 1)
	{
		my $node = standby_of($primary->{node}, "standby$n", "snowflake.node_id = '" . (11 + $n) . "'");

		$node->enable_streaming($standby[0]{node}) if $n == 1;
		start_with_clock($node, a_second());
		push @standby, add_server($node, standby => 1);
	}
	join_feed($primary, @standby);
	$primary->{writes} = 1;
	add_reader('feed', $_) foreach @standby;
	add_reader($_, @standby) foreach 'feed', 'naive';

	my $promote = sub {
		my $server = $standby[0];

		note 'promotion';
		$count{promotions}++;
		$primary->{node}->stop(any('fast', 'immediate'));
		end_client($primary->{load});
		@servers = grep { $_ != $primary } @servers;
		$server->{node}->promote;
		delete $server->{standby};
		# their horizon is not known here
		end_prepared($server, 1);
		$server->{writes} = 1;
		# takes its own place, too
		my $number = query($server->{node}, 'SELECT server FROM snowflake_feed_servers WHERE node = 1');
		wait_for { $server->{node}->psql('postgres', "SELECT snowflake_leave_feed($number)") == 0 } 'the promoted server does not take over';
		return;
	};
	run_case('standby', { writers => \&writers, standbys => sub { grep { $_->{standby} } @servers } },
		[$promote], sub { count_of((writers())[0]) });
	check_readers('standby', split /\n/, query($standby[0]{node}, 'SELECT id FROM t'));
	return;
}

# ---- a collector of three writers; a fourth one joins, and the first one leaves ----

sub run_collector
{
	my @writers = map { new_member("writer$_", $_, a_second()) } 1 .. 3;
	my $joiner = new_member('joiner', 4, -60);
	my $collector = new_member('collector', 9, a_second());
	my $streaming = $collector->{node}->pg_version < 16 ? 'on' : 'parallel';
	my @left;

	subscribe($collector, $_, "streaming = $streaming, two_phase = " . any('on', 'off')) foreach @writers, $joiner;
	wait_for_copies($collector->{node});
	join_feed($_, $collector) foreach @writers;
	$_->{writes} = 1 foreach @writers;
	add_reader($_, $collector) foreach 'feed', 'naive';

	# A writer does not see the rows of others. So its publish is accepted, and it makes IDs
	# when its clock has reached what was read before.
	my $join = sub {
		note 'a server joins';
		join_feed($joiner, $collector);
		refused($joiner->{node}, 'INSERT INTO t (c) VALUES (4)', '58000', qr/behind the mark/,
			'collector: a server with a clock a minute behind makes no ID');
		set_clock($joiner->{node}, 0);
		$joiner->{writes} = 1;
		return;
	};
	my $leave = sub {
		my $server = shift @writers;

		note 'a server leaves';
		leave_feed($server, $collector);
		@left = rows_of($server);
		query($collector->{node}, 'ALTER SUBSCRIPTION collector_from_writer1 DISABLE');
		$server->{node}->stop;
		@servers = grep { $_ != $server } @servers;
		return;
	};
	run_case('collector', { writers => \&writers, subscribers => sub { $collector } },
		[ shuffle($join, $leave) ], sub { count_of($collector) });
	check_readers('collector', @left, map { rows_of($_) } @writers, $joiner);
	return;
}

# ---- three servers that write one table; the third one joins, one leaves and comes back ----

sub run_active_active
{
	my @members = (new_member('first', 1, 0), new_member('second', 2, 0), new_member('third', 3, -60));
	my ($first, $second, $third) = @members;
	# a server that is behind one that publishes cannot join
	my $right_clocks = sub { set_clock($_->{node}, 0) foreach @members };

	# its row is there before others subscribe
	join_feed($first);
	foreach my $to (@members)
	{
		subscribe($to, $_, 'origin = none, copy_data = false, streaming = parallel') foreach grep { $_ != $to } @members;
	}
	wait_for_copies($_->{node}) foreach @members;
	join_feed($second, @members);
	wait_for { answer_of($_, 'SELECT count(*) FROM snowflake_feed') eq '2' } 'a row from before the subscriptions is not there'
	  foreach @members;
	$_->{writes} = 1 foreach $first, $second;
	add_reader('feed', $_) foreach @members;
	add_reader($_, @members) foreach 'feed', 'naive';

	my $join = sub {
		note 'a server joins';
		refused($third->{node}, 'SELECT snowflake_publish_horizon()', '55000', qr/behind the feed, and cannot join yet/,
			'active_active: a server with a clock a minute behind cannot join');
		$right_clocks->();
		join_feed($third, @members);
		$third->{writes} = 1;
		return;
	};
	my $leave = sub {
		note 'a server leaves';
		leave_feed($second, @members);
		return;
	};
	my $return = sub {
		note 'it comes back';
		$right_clocks->();
		join_feed($second, @members);
		$second->{writes} = 1;
		return;
	};
	run_case('active_active', { writers => \&writers, subscribers => sub { @members } },
		[ $join, $leave, $return ], sub { count_of(any(@members)) });
	my @committed = map { rows_of($_) } @members;
	foreach my $server (@members)
	{
		wait_for { count_of($server) == @committed } 'active_active: ' . $server->{node}->name . ' does not get all rows';
	}
	check_readers('active_active', @committed);
	return;
}

my %cases = (standby => \&run_standby, collector => \&run_collector, active_active => \&run_active_active);
foreach my $case (split ' ', $cases)
{
	next if $case eq 'active_active' && !part('active_active');
	$cases{$case}->();
}
note "feed: $checked IDs; ", join ', ', map { "$count{$_} $_" } sort keys %count;
done_testing();
