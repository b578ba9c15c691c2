# Faults at random: crashes, restarts, promotions and steps of the clock, one
# after the other under load, for as long as SNOWFLAKE_SOAK says, in seconds.
# SEED repeats a run, as far as the machine's scheduling lets it.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
use FindBin;
use lib $FindBin::RealBin;
use IdChecker;
use Load;
use SnowflakeTest;

my $seconds = $ENV{SNOWFLAKE_SOAK} || 20;
my $seed = $ENV{SEED} || time;
my $end = clock_gettime(CLOCK_MONOTONIC) + $seconds;
my %count = (crashes => 0, promotions => 0, steps => 0, restarts => 0);
my $offset = 0;
my $generation = 1;
my (%highest, $load);

note "SEED=$seed";
srand($seed);

my $node = new_server('node1', "snowflake.shards = '3-4'",
	'max_wal_senders = 10', 'wal_keep_size = 256MB',
	'restart_after_crash = on');
my $checker = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');

# The first server of a new generation has its own node id and shards.
sub shard
{
	return 1 + 2 * $generation;
}

sub start_clients
{
	$load = start_load($checker, 'clients', $node->connstr('postgres'),
		4, shard());
	$load->more(1 + int rand 1000);
	return;
}

# The clients' only errors are refusals for the clock.
sub end_clients
{
	my ($event) = @_;
	my $errors = $load->finish;

	delete $errors->{58000};
	fail("$event: unexpected errors: " . join(', ', %$errors)) if %$errors;
	return;
}

# After a crash, all counters are above what was seen.
sub check
{
	# what was committed asynchronously may be gone: one row there is
	set_clock($node, $offset);
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

# The clock after a crash: right, behind by what a call waits for or by more,
# or somewhat ahead.
sub new_clock
{
	my $kind = int rand 4;

	$offset += rand 3 if $kind == 3;
	return $offset - ($kind == 1 ? rand 3 : $kind == 2 ? rand 7200 : 0);
}

my %events = (
	kill => sub {
		my @pids = split /\n/, query($node, q{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type IN ('client backend', 'walwriter', 'checkpointer')
				AND pid <> pg_backend_pid()});
		my $from = -s $node->logfile;

		kill 'KILL', $pids[ rand @pids ];
		set_clock($node, new_clock());
		wait_for_restart($node, $from);
		end_clients('kill');
		set_clock($node, $offset) if rand 2 > 1;
		$count{crashes}++;
	},
	immediate => sub {
		$node->stop('immediate');
		end_clients('immediate');
		start_with_clock($node, new_clock());
		$count{crashes}++;
	},
	restart => sub {
		$node->stop('fast');
		end_clients('restart');
		start_with_clock($node, $offset);
		$count{restarts}++;
	},
	steps => sub {
		my $size = (0.01, 0.3, 1.4, 7200)[ rand 4 ];

		foreach (1 .. 100)
		{
			my $step = rand(2 * $size) - $size;

			# an hour ahead would be believed, and had to be waited for then
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

		$node->backup("backup$generation");
		$standby->init_from_backup($node, "backup$generation",
			has_streaming => 1);
		$standby->append_conf('postgresql.conf',
				"snowflake.node_id = '$generation'\n"
			  . "snowflake.shards = '" . shard() . '-' . (shard() + 1) . "'\n");
		start_with_clock($standby, $offset);
		$load->more(500);
		$node->stop('immediate');
		end_clients('promote');
		$count{crashes}++;

		# what the old server made last may be above what the new one makes
		$checker->clients;
		$checker->forget;
		%highest = ();
		$node = $standby;
		set_clock($node, new_clock());
		$node->promote;
		$count{promotions}++;
		$old->clean_node;
	});
my @choice = (('kill') x 7, ('immediate') x 5, 'restart', ('steps') x 2,
	('promote') x 2);

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

my $rounds = 0;
do
{
	my $event = $choice[ rand @choice ];

	# all of them in a short run, too
	$event = (qw(kill immediate restart steps promote))[$rounds] if $rounds < 5;
	set_clock($node, $offset);
	start_clients();
	$events{$event}->();
	check() if $event eq 'immediate' && ($rounds < 5 || rand 4 < 1);
	$rounds++;
} while (clock_gettime(CLOCK_MONOTONIC) < $end || $rounds < 5);

set_clock($node, $offset);
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
