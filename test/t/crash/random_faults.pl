# Random faults under load: crashes, restarts, promotions, frozen processes and steps
# of the clock, one after the other, for SNOWFLAKE_SOAK seconds. SEED repeats a run, as
# far as the machine's scheduling allows.
#
# After a crash, clients call while the clock is wrong. Mostly it shows a time shortly
# before the crash. A server that had forgotten its IDs would make them again.
#
# takes: 27 s
use SnowflakeTest;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
use IdChecker;
use Load;

my $seconds = $ENV{SNOWFLAKE_SOAK} || 20;
my $seed = $ENV{SEED} || time;
my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds;
my %count = (crashes => 0, promotions => 0, steps => 0, restarts => 0,
	freezes => 0, refused => 0);
my $offset = 0;
my $lag = 0;
my $generation = 1;
my $node_id = 1;
my (%highest, $load, $ended);

note "SEED=$seed";
srand($seed);

my $node = new_server('node1', "snowflake.shards = '3-4'",
	'max_wal_senders = 10', 'wal_keep_size = 256MB', 'wal_writer_delay = 10s',
	'restart_after_crash = on');
my $checker = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');

# Each node id has shards of its own.
sub shard
{
	return 1 + 2 * $node_id;
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

	$count{refused} += delete $errors->{58000} // 0;
	fail("$event: unexpected errors: " . join(', ', %$errors)) if %$errors;
	return;
}

# Check the IDs. After a crash all counters are above the IDs that were seen.
sub check
{
	start_clients();
	end_clients('before the check');

	# rows of asynchronous commits may be lost, so insert one row that is there
	$checker->saw('clients, node',
		query($node, 'INSERT INTO t DEFAULT VALUES RETURNING id'));
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

my %events = (
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
			$count{steps}++;
		}
		set_clock($node, $offset);
		end_clients('steps');
	},
	promote => sub {
		my $standby = PostgreSQL::Test::Cluster->new('node' . ++$generation);
		my $old = $node;

		# with another node id no ID repeats; with the same node id no ID that the new
		# server has
		my $same = rand 2 < 1;

		$node_id++ if !$same;
		$node->backup("backup$generation");
		$standby->init_from_backup($node, "backup$generation",
			has_streaming => 1);
		$standby->append_conf('postgresql.conf',
				"snowflake.node_id = '$node_id'\n"
			  . "snowflake.shards = '" . shard() . '-' . (shard() + 1) . "'\n");
		start_with_clock($standby, $offset);
		$load->more(500);
		remember_end();
		$node->stop('immediate');
		end_clients('promote');
		if ($same)
		{
			$checker->clients;
			$checker->forget;
		}
		$node = $standby;
		$node->promote;
		wrong_clock();
		start_clients();
		end_clients('promoted');

		# the last IDs of the old server may be above the next IDs of the new one
		$checker->clients;
		$checker->forget;
		%highest = ();
		$count{crashes}++;
		$count{promotions}++;
		$old->clean_node;
	});
my @choice = (('kill') x 7, ('immediate') x 5, 'restart', ('steps') x 2,
	('promote') x 2, 'freeze');
my @first = qw(kill immediate restart steps freeze promote);

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
	check() if $event eq 'immediate' && ($rounds < @first || rand 4 < 1);
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
note sprintf 'SEED=%d: %d IDs, %s', $seed, $checker->checked,
  join ', ', map { "$count{$_} $_" } sort keys %count;
$node->stop;
done_testing();
