# The disk of the WAL is full. The server stops with its own PANIC, and no ID comes
# twice when there is space again. The test needs a small file system, which
# SNOWFLAKE_SMALL_DISK names and test/all makes.
#
# takes: 15 s
# needs: small_disk
use SnowflakeTest;
use Time::HiRes qw(time);
use IdChecker;
use Load;

my $disk = $ENV{SNOWFLAKE_SMALL_DISK}
  or die 'SNOWFLAKE_SMALL_DISK is not set: run test/all t/crash/full_disk.pl';
my $node = PostgreSQL::Test::Cluster->new('main');
my $offset = 0;

$node->init(extra => [ '--wal-segsize=1', "--waldir=$disk/wal" ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'snowflake'
snowflake.node_id = '1'
snowflake.shards = '3-4'
snowflake.reserve = 100ms
snowflake.max_clock_wait = 60s
wal_keep_size = 1GB
max_wal_size = 1GB
log_statement = none
restart_after_crash = on
});
my $checker = IdChecker->new($node->basedir . '/ids');

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

# Fill the disk, except for what some seconds of load will write.
sub fill
{
	my $left = 4 * 1024 * 1024;
	my ($free) = (split ' ', `df -B1 --output=avail '$disk' | tail -n 1`);

	open(my $fh, '>', "$disk/filler") or die "$disk/filler: $!";
	print $fh "\0" x ($free - $left);
	close $fh or die "$disk/filler: $!";
	return;
}

foreach my $round (1 .. 3)
{
	my $from = -s $node->logfile;

	fill();
	my $begun = time() + $offset;
	my $load =
	  start_load($checker, 'full disk', $node->connstr('postgres'), 8);
	like_log($node, qr/PANIC: [^\n]*No space left on device/, $from,
		"round $round: the disk is full, and the server panics");

	# the server may come back and fall again, or stay down; now it ends in any case
	$node->stop('immediate', fail_ok => 1);
	my $crashed = (time() + $offset) * 1000;
	$load->finish;
	unlink "$disk/filler" or die "$disk/filler: $!";

	# then the clock is one hour behind, or where it was when the round began
	start_with_clock($node, $offset - 3600);
	if ($round == 2)
	{
		refused_behind($node, $next,
			'afterwards, with the clock an hour behind, it refuses');
	}
	else
	{
		$offset = $begun - time();
	}
	set_clock($node, $offset);
	is_deeply(live_again($checker, 'full disk', $node, 4, $crashed),
		{}, "round $round: it goes on");
}
$checker->state('tables', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');
$checker->clients;
$checker->states;
$node->stop;
done_testing();
