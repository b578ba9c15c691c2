# Crashes under load: immediate shutdowns, and backends that are killed, each
# with the clock right afterwards or an hour behind.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib $FindBin::RealBin;
use IdChecker;
use Load;
use SnowflakeTest;

my $rounds = $ENV{SNOWFLAKE_CRASHES} || 30;
my $node = new_server('main', "snowflake.shards = '3-4'",
	'restart_after_crash = on', 'snowflake.max_clock_wait = 5s');
my $checker = IdChecker->new($node->basedir . '/ids');
my $connstr = $node->connstr('postgres');
my $offset = 0;

# IDs that were made after the last crash are above all that were seen before.
my %highest;

sub check_round
{
	my ($name) = @_;
	my %before = %highest;

	$checker->state("$name, tables", $node, 'postgres',
		'SELECT id FROM t UNION ALL SELECT id FROM s');
	$checker->states;
	$checker->clients(\%highest);
	$checker->forget;
	return;
}

# With the clock an hour behind nothing is issued, and it ends by itself.
sub behind_and_right_again
{
	my ($name) = @_;

	refused($node, 'SELECT snowflake_nextval()', '58000',
		qr/wall clock is 3[56]\d\d s behind the mark of this database/,
		"$name: refused with the clock an hour behind");
	refused($node, 'SELECT snowflake_shard_nextval(3)', '58000',
		qr/wall clock is 3[56]\d\d s behind the mark of this database/,
		"$name: for shards, too");
	set_clock($node, $offset);
	$checker->saw('main, node', query($node, 'SELECT snowflake_nextval()'));
	return;
}

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

foreach my $round (1 .. $rounds)
{
	my $load = start_load($checker, 'main', $connstr, 8);
	my $behind = $round % 2;

	$load->more(2000);
	$node->stop('immediate');
	is_deeply($load->finish, {}, "immediate $round: no errors but of the crash");
	start_with_clock($node, $behind ? $offset - 3600 : $offset);
	behind_and_right_again("immediate $round") if $behind;
	check_round("immediate $round") if $round % 10 == 0 || $round == $rounds;
}

foreach my $round (1 .. $rounds)
{
	my $load = start_load($checker, 'main', $connstr, 8);
	my $behind = $round % 2;

	$load->more(2000);
	my $pids = query($node, q{
		SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
	my @pids = split / /, $pids;
	my $from = -s $node->logfile;
	kill 'KILL', $pids[ rand @pids ];
	set_clock($node, $offset - 3600) if $behind;

	wait_for_restart($node, $from);
	my $errors = $load->finish;
	delete $errors->{58000} if $behind;
	is_deeply($errors, {}, "kill $round: no errors but of the crash");
	behind_and_right_again("kill $round") if $behind;
	check_round("kill $round") if $round % 10 == 0 || $round == $rounds;
}

note $checker->checked . ' IDs checked';
$node->stop;
done_testing();
