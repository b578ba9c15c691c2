# Crashes under load: immediate shutdowns, and backends that are killed. Then the
# clock is an hour behind, or where it was when the previous life began.
#
# takes: 25 s
use SnowflakeTest;
use Time::HiRes qw(time);
use IdChecker;
use Load;

my $rounds = $ENV{SNOWFLAKE_CRASHES} || 8;
my $node = new_server('main', "snowflake.shards = '3-4'",
	'restart_after_crash = on', 'snowflake.reserve = 100ms', 'snowflake.max_clock_wait = 5s',
	'wal_writer_delay = 10s');
my $checker = IdChecker->new($node->basedir . '/ids');
my $connstr = $node->connstr('postgres');
my $offset = 0;

# IDs that were made after the last crash are above all that were seen before.
my %highest;

sub check_round
{
	my ($name) = @_;

	$checker->state("$name, tables", $node, 'postgres',
		'SELECT id FROM t UNION ALL SELECT id FROM s');
	$checker->states;
	$checker->clients(\%highest);
	$checker->forget;
	return;
}

# Every second pair of rounds nobody writes, so that no WAL is flushed but by us.
sub start_clients
{
	my ($round) = @_;

	return start_load($checker, 'main', $connstr, 8, undef, undef,
		$round % 4 < 2 ? () : qw(select single batch_select shard_batch));
}

# With the clock an hour behind nothing is issued, and it ends by itself.
sub behind_and_right_again
{
	my ($name) = @_;

	refused_behind($node, 'SELECT snowflake_nextval()',
		"$name: refused with the clock an hour behind");
	refused_behind($node, 'SELECT snowflake_shard_nextval(3)',
		"$name: for shards, too");
	set_clock($node, $offset);
	$checker->saw('main, node', query($node, 'SELECT snowflake_nextval()'));
	return;
}

# With the clock where it was when the life before began, clients wait, or are
# refused until it has come nearer to the mark, and get what is not there yet.
sub live_through
{
	my ($name, $begun, $crashed) = @_;

	$offset = $begun - time();
	set_clock($node, $offset);
	my $errors = live_again($checker, 'main', $node, 8, $crashed);
	delete $errors->{58000};
	is_deeply($errors, {}, "$name: lives through the same instants again");
	return;
}

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

foreach my $round (1 .. $rounds)
{
	my $begun = time() + $offset;
	my $load = start_clients($round);

	$load->more(2000);
	if ($round % 4 < 2) { lose_power($node) }
	else { $node->stop('immediate') }
	my $crashed = (time() + $offset) * 1000;
	is_deeply($load->finish, {}, "immediate $round: no errors but of the crash");
	start_with_clock($node, $offset - 3600);
	if ($round % 2)
	{
		behind_and_right_again("immediate $round");
	}
	else
	{
		live_through("immediate $round", $begun, $crashed);
	}
	check_round("immediate $round") if $round % 10 == 0 || $round == $rounds;
}

foreach my $round (1 .. $rounds)
{
	my $begun = time() + $offset;
	my $load = start_clients($round);

	$load->more(2000);
	my $from = -s $node->logfile;
	kill_one($node, 'client backend');
	set_clock($node, $offset - 3600);

	wait_for_restart($node, $from);
	my $crashed = (time() + $offset) * 1000;
	my $errors = $load->finish;
	delete $errors->{58000};
	is_deeply($errors, {}, "kill $round: no errors but of the crash");
	if ($round % 2)
	{
		behind_and_right_again("kill $round");
	}
	else
	{
		live_through("kill $round", $begun, $crashed);
	}
	check_round("kill $round") if $round % 10 == 0 || $round == $rounds;
}

note sprintf 'crashes: %d IDs; %d immediate stops, %d killed backends', $checker->checked, $rounds, $rounds;
$node->stop;
done_testing();
