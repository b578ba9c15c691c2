# The disk of the WAL is full: the server's own PANIC, and after there is room
# again no ID comes twice. Needs a small file system that SNOWFLAKE_SMALL_DISK
# names: test/all makes one.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use lib $FindBin::RealBin;
use IdChecker;
use Load;
use SnowflakeTest;

my $disk = $ENV{SNOWFLAKE_SMALL_DISK}
  or die 'SNOWFLAKE_SMALL_DISK is not set: run test/all t/disk.pl';
my $node = PostgreSQL::Test::Cluster->new('main');
my $next = 'SELECT snowflake_nextval()';

$node->init(extra => [ '--wal-segsize=1', "--waldir=$disk/wal" ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'snowflake'
snowflake.node_id = '1'
snowflake.shards = '3-4'
snowflake.reserve = 100ms
wal_keep_size = 1GB
max_wal_size = 1GB
log_statement = none
restart_after_crash = on
});
my $checker = IdChecker->new($node->basedir . '/ids');

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

# Room that can be given back: all but what some seconds of load fill.
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
	my $load =
	  start_load($checker, 'full disk', $node->connstr('postgres'), 8);
	my $tries = 0;
	while (substr(slurp_file($node->logfile), $from) !~ /PANIC|ENOSPC|No space left/)
	{
		die 'the disk does not get full' if ++$tries > 6000;
		usleep(10_000);
	}
	$tries = 0;

	# it may come back and fall again, or stay down; either way it ends here
	$node->stop('immediate', fail_ok => 1);
	$load->finish;
	like_log($node, qr/No space left on device/, $from,
		"round $round: the disk was full");
	unlink "$disk/filler" or die "$disk/filler: $!";
	start_with_clock($node, $round == 2 ? -3600 : 0);
	if ($round == 2)
	{
		refused($node, $next, '58000',
			qr/wall clock is 3[56]\d\d s behind the mark of this database/,
			'afterwards, with the clock an hour behind, it refuses');
		set_clock($node, 0);
	}
	like(query($node, $next), qr/^\d+$/, "round $round: it goes on");
}
$checker->state('tables', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');
$checker->clients;
$checker->states;
$node->stop;
done_testing();
