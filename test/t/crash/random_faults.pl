# Random faults under load: crashes, restarts, promotions, copies of servers, rewound
# servers, changed node ids, frozen processes and steps of the clock, one after the
# other, for SNOWFLAKE_SOAK seconds. SEED repeats a run, as far as the machine's
# scheduling allows.
#
# After a crash, clients call while the clock is wrong. Mostly it shows a time shortly
# before the crash. A server that had forgotten its IDs would make them again.
#
# takes: 40 s
use SnowflakeTest;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
use IdChecker;
use Load;

my $seconds = $ENV{SNOWFLAKE_SOAK} || 20;
my $seed = $ENV{SEED} || time;
my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds;
my %count = map { $_ => 0 } 'crashes', 'promotions', 'steps of a clock', 'restarts', 'freezes',
  'refused calls', 'rewinds', 'copies', 'changes of a node id';
my $offset = 0;
my $lag = 0;
my $generation = 1;
my $node_ids = 1;
my $node_id = new_node_id();
my (%highest, $load, $ended);

note "SEED=$seed";
srand($seed);

my $node = new_server('node1', settings_of($node_id),
	'max_wal_senders = 10', 'wal_keep_size = 256MB', 'wal_writer_delay = 10s', 'wal_log_hints = on',
	'restart_after_crash = on');
my $checker = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');
my $refused = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');

# Each node id has shards of its own.
sub shard
{
	my ($number) = @_;

	return 1 + 2 * ($number // $node_id);
}

# Return a node id, which no server of now has. It may be lower than those before.
sub new_node_id
{
	$node_ids++;
	return 1 + $node_ids * 387 % 1000;
}

# Return the settings of a node id, with its shards and those of others.
sub settings_of
{
	my ($number, @others) = @_;
	my $shards = join ',', map { shard($_) . '-' . (shard($_) + 1) } $number, @others;

	return "snowflake.node_id = '$number'\nsnowflake.shards = '$shards'\n";
}

# Return a server from a backup of another one.
sub from_backup
{
	my ($source, $settings, %options) = @_;
	my $new = PostgreSQL::Test::Cluster->new('node' . ++$generation);

	$source->backup("backup$generation");
	$new->init_from_backup($source, "backup$generation", %options);
	$new->append_conf('postgresql.conf', $settings);
	return $new;
}

# Start a standby with this node id.
sub start_standby
{
	my ($number) = @_;
	my $standby = from_backup($node, settings_of($number), has_streaming => 1);

	start_with_clock($standby, $offset);
	return $standby;
}

# The server ends, and this one takes its place.
sub fail_over
{
	my ($successor, $number) = @_;

	remember_end();
	$node->stop('immediate');
	end_clients('the primary ends');
	$node = $successor;
	$node_id = $number;
	$node->promote;
	$count{crashes}++;
	$count{promotions}++;
	return;
}

# Forget the IDs so far: the last ones of the old server may be above the next ones of
# the new server.
sub begin_anew
{
	$checker->clients;
	$checker->forget;
	%highest = ();
	return;
}

# Start clients. If the clock is behind, they call until they have an ID or a refusal,
# and then the clock is set right. Half of the runs do not write, so that only the
# extension flushes WAL.
sub start_clients
{
	$load = start_load($checker, 'clients', $node->connstr('postgres'),
		4, shard(), undef,
		rand 2 < 1 ? qw(many single batch_select shard_batch) : ());
	if ($lag)
	{
		$load->heard;
		usleep(rand 300_000);
		set_clock($node, $offset);
		$lag = 0;
	}
	$load->more(1 + int rand 1000);
	return;
}

# Stop the clients. Their only errors are refusals because of the clock.
sub end_clients
{
	my ($event) = @_;
	my $errors = $load->finish;

	$count{'refused calls'} += delete $errors->{58000} // 0;
	fail("$event: unexpected errors: " . join(', ', %$errors)) if %$errors;
	return;
}

# Check the IDs. After a crash all counters are above the IDs that were seen.
sub check
{
	start_clients();
	end_clients('before the check');

	# rows of asynchronous commits may be lost, so insert one row that is there
	my ($id, $number) = split /\|/, query($node, 'INSERT INTO t DEFAULT VALUES RETURNING id, snowflake_node(id)');
	is($number, $node_id, 'the last change of the node id holds');
	$checker->saw('clients, node', $id);
	$checker->state('tables', $node, 'postgres',
		'SELECT id FROM t UNION ALL SELECT id FROM s');
	$checker->states;
	$checker->clients(\%highest);
	$checker->forget;
	query($node, 'TRUNCATE t, s');
	return;
}

# Note when the server ends.
sub remember_end
{
	$ended = clock_gettime(CLOCK_MONOTONIC);
	return;
}

# Choose the clock of the next start: shortly before the end of the last life, hours
# before it, right, or a little ahead. It stays so for the next clients.
sub wrong_clock
{
	my $kind = int rand 6;

	$offset += rand 3 if $kind == 5;
	$lag = $kind < 3 ? clock_gettime(CLOCK_MONOTONIC) - $ended + rand 1.5
	  : $kind == 3 ? rand 7200
	  : 0;
	set_clock($node, $offset - $lag);
	return;
}

my %events;
%events = (
	kill => sub {
		my $from = -s $node->logfile;

		remember_end();
		kill_one($node, 'client backend', 'walwriter', 'checkpointer');
		set_clock($node, $offset - rand 7200) if rand 2 < 1;
		wait_for_restart($node, $from);
		end_clients('kill');
		wrong_clock();
		$count{crashes}++;
	},
	immediate => sub {
		remember_end();
		if (rand 2 < 1) { lose_power($node) }
		else { $node->stop('immediate') }
		end_clients('immediate');
		start_with_clock($node, $offset - (rand 2 < 1 ? rand 7200 : 0));
		wrong_clock();
		$count{crashes}++;
	},
	freeze => sub {
		my @pids = split /\n/, query($node, q{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
		my $pid = $pids[ rand @pids ];

		# only one run in ten can spend a minute on this
		kill 'STOP', $pid;
		usleep(1_000_000 * ($seconds < 600 || rand 8 > 1 ? rand 2 : 60));
		kill 'CONT', $pid;
		$load->more(500);
		end_clients('freeze');
		$count{freezes}++;
	},
	restart => sub {
		remember_end();
		$node->stop('fast');
		end_clients('restart');
		start_with_clock($node, $offset);
		wrong_clock();
		$count{restarts}++;
	},
	steps => sub {
		my $size = (0.01, 0.3, 1.4, 7200)[ rand 4 ];

		foreach (1 .. 100)
		{
			my $step = rand(2 * $size) - $size;

			# a step ahead by an hour would be believed, and the test would have to
			# wait for it
			$step += 4000 if $size > 3 && $step > 0;
			set_clock($node, $offset + $step);
			usleep(10_000);
			$count{'steps of a clock'}++;
		}
		set_clock($node, $offset);
		end_clients('steps');
	},
	# Reloads change the node id, and a crash may follow at once. The clients go on with the
	# shards that the server still has.
	reload => sub {
		my $crash = rand 3 < 1;
		my $number;

		foreach (1 .. 10)
		{
			$number = new_node_id();
			$node->append_conf('postgresql.conf', settings_of($number, $node_id));
			$node->reload;
			$count{'changes of a node id'}++;
			last if $crash;
			$node->poll_query_until('postgres', "SELECT node_id = $number FROM snowflake_lease()") or die 'the node id does not change';
		}
		if ($crash) { $events{ rand 2 < 1 ? 'kill' : 'immediate' }->() }
		else
		{
			$load->more(500);
			end_clients('reload');
		}
		$node_id = $number;
	},
	promote => sub {
		my $old = $node;

		# with another node id no ID repeats; with the same node id no ID that the new
		# server has
		my $same = rand 2 < 1;
		my $number = $same ? $node_id : new_node_id();
		my $standby = start_standby($number);

		$load->more(500);
		fail_over($standby, $number);
		begin_anew() if $same;
		wrong_clock();
		start_clients();
		end_clients('promoted');
		begin_anew();
		$old->clean_node;
	},

	# the old primary is rewound, follows, and leads again
	rewind => sub {
		my ($old, $old_id, $number) = ($node, $node_id, new_node_id());
		my $new = start_standby($number);

		$load->more(500);
		fail_over($new, $number);
		start_clients();
		query($new, 'CHECKPOINT');
		command_ok([ 'pg_rewind', '--target-pgdata', $old->data_dir, '--source-server', $new->connstr('postgres') ],
			'pg_rewind');
		$old->append_conf('postgresql.conf', 'port = ' . $old->port . "\n" . settings_of($old_id));
		$old->enable_streaming($new);
		start_with_clock($old, $offset);
		$load->more(500);
		fail_over($old, $old_id);
		start_clients();
		end_clients('rewound');
		begin_anew();
		$count{rewinds}++;
		$new->clean_node;
	},

	# a backup of a standby, or of the primary, starts as another server; the standby may
	# be promoted meanwhile
	copy => sub {
		my ($old, $old_id, $number) = ($node, $node_id, new_node_id());
		my $standby = start_standby($number);
		my $of_standby = rand 3 < 2;
		my $check = rand 2 < 1 ? 'warn' : 'error';
		my $copy = from_backup($of_standby ? $standby : $old, "snowflake.copy_check = '$check'\n");

		unlink $copy->data_dir . '/standby.signal';
		start_with_clock($copy, $offset);
		my $rival = start_load($refused, 'refused', $copy->connstr('postgres'), 4, shard($of_standby ? $number : $old_id), undef,
			qw(commit batch_select pgedge shard));
		$rival->heard;
		$load->more(500);
		my $promoted = rand 3 < 2;
		if ($promoted)
		{
			fail_over($standby, $number);
			start_clients();
			$load->more(500);
		}
		end_clients('copy');
		my $errors = join ' ', sort keys %{ $rival->finish };
		is($rival->count . " $errors", '0 55000', "copy_check = $check: a copy " . ($of_standby ? 'of a standby' : 'of the primary') . ' refuses');
		begin_anew() if $promoted;
		$count{copies}++;
		$_->stop('immediate'), $_->clean_node foreach $copy, $node == $old ? $standby : $old;
	});
my @choice = (('kill') x 7, ('immediate') x 5, 'restart', ('steps') x 2,
	('promote') x 2, 'rewind', ('copy') x 2, 'freeze', ('reload') x 2);
my @first = qw(kill immediate restart steps freeze reload promote rewind copy);

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

my $rounds = 0;
do
{
	my $event = $choice[ rand @choice ];

	# a short run has all of them too
	$event = $first[$rounds] if $rounds < @first;
	start_clients();
	$events{$event}->();
	check() if $event =~ /immediate|reload/ && ($rounds < @first || rand 4 < 1);
	$rounds++;
} while (clock_gettime(CLOCK_MONOTONIC) < $end || $rounds < @first);

start_clients();
end_clients('end');
$checker->saw('clients, node',
	query($node, 'INSERT INTO t DEFAULT VALUES RETURNING id'));
$checker->clients;
$checker->state('tables', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');
$checker->states;
note sprintf 'nodes: %d IDs; %s', $checker->checked,
  join ', ', map { "$count{$_} $_" } sort keys %count;
$node->stop;
done_testing();
