# Shards leased from a registry in PostgreSQL: ranges of two servers that
# overlap, moved by reloads, by stops and crashes, under load.
#
# takes: 169 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use IPC::Run;
use lib "$FindBin::RealBin/../../perl";
use IdChecker;
use Load;
use SnowflakeTest;

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->start;
query($registry, 'CREATE EXTENSION snowflake; SELECT snowflake_registry_init()');
my $url = sprintf('postgresql:///postgres?host=%s&port=%d',
	$registry->host, $registry->port);

my $checker = IdChecker->new($registry->basedir . '/ids');

sub new_holder
{
	my ($name, $shards, @settings) = @_;

	return new_server($name, "snowflake.node_id = ''",
		"snowflake.registry = '$url'", "snowflake.shards = '$shards'",
		"snowflake.lease_reserve = '8s'", "snowflake.lease_wait = '0'",
		"snowflake.max_clock_wait = '10s'", @settings);
}

# A column of what a server says of its shards.
sub shards_of
{
	my ($node, $column) = @_;

	return query($node, "SELECT $column FROM snowflake_shard_lease()");
}

sub wait_for_shards
{
	my ($node, $condition) = @_;

	$node->poll_query_until('postgres', "SELECT $condition FROM snowflake_shard_lease()")
	  or die 'snowflake_shard_lease() is ' . query($node, 'SELECT snowflake_shard_lease()');
	return;
}

# It has these, and is content.
sub wait_for_all
{
	my ($node, $shards) = @_;

	wait_for_shards($node, "state = 'held' AND shards = '$shards'");
	return;
}

sub set_shards
{
	my ($node, $shards) = @_;

	query($node, "ALTER SYSTEM SET snowflake.shards = '$shards'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$shards'
		FROM pg_settings WHERE name = 'snowflake.shards'") or die 'no reload';
	return;
}

# The statement that makes one.
sub next_of
{
	my ($shard) = @_;

	return "SELECT snowflake_shard_nextval($shard)";
}

# On a machine that is busy an extension may come late, and the call be refused
# until then.
sub make_ids
{
	my ($node, $shard, $n) = @_;
	my $tries = 0;
	my ($status, $out, $err);

	while (1)
	{
		($status, $out, $err) = $node->psql('postgres',
			next_of($shard) . " FROM generate_series(1, $n)",
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		last if $status == 0;
		die $err if $err !~ /ERROR:  55000: / || ++$tries > 1800;
		usleep(100_000);
	}
	my @ids = split /\n/, $out;
	$checker->saw('all servers, shards', @ids);
	return @ids;
}

# Clients that use the node's counter, this shard and the next one.
sub load_on
{
	my ($node, $shard) = @_;

	return start_load($checker, 'all servers', $node->connstr('postgres'), 8,
		$shard);
}

# Nothing but refusals; and some, if the shards were taken away.
sub check_load
{
	my ($load, $taken_away, $name) = @_;

	like(join(' ', sort keys %{ $load->finish }),
		$taken_away ? qr/^55000$/ : qr/^(?:55000)?$/, $name);
	return;
}

sub refused_shard
{
	my ($node, $shard, $pattern, $name) = @_;

	refused($node, next_of($shard), '55000',
		qr/this server has no lease of shard $shard\n.*DETAIL:  The registry is "postgresql:\/\/\/postgres"\. .*$pattern/s,
		$name);
	return;
}

# ---- ranges that overlap ----

my $a = new_holder('a', '0-9');
my $b = new_holder('b', '5-14');
$a->start;
query($a, 'CREATE EXTENSION snowflake;' . load_tables());
wait_for_all($a, '0-9');
make_ids($a, $_, 100) foreach (0, 5, 9);
my $until = shards_of($a, 'until');
wait_for_shards($a, "until > '$until'");
pass('they are extended');

# the clock of b is behind: it goes through the very times of a
start_with_clock($b, -1);
query($b, 'CREATE EXTENSION snowflake;' . load_tables());
wait_for_shards($b, "shards = '10-14'");
wait_for_shards($b, q{problem ~ 'Shards 5-9 are reserved until .* by "'});
is(shards_of($b, 'state'), 'searching', 'what another one has is not claimed');
make_ids($b, 12, 100);
pass('the rest is');
refused_shard($b, 7, qr/Shards 5-9 are reserved until 2\S+ by ".+"\..*HINT:  List a shard in snowflake.shards of one server only\./s,
	'the error names the holder');
refused($b, "SELECT snowflake_shard_nextval_batch($_, 10)", '55000', qr/no lease of shard $_\n/,
	"nor is there a batch for $_") foreach (5, 9);
refused($b, next_of(20), '55000', qr/may not issue IDs for shard 20.*snowflake.shards does not list it/s,
	'a shard that is not configured');
is(query($b, 'SELECT count(snowflake_shard_horizon(7))'), '1', 'which has a horizon');
like(query($registry, 'SELECT shards FROM snowflake_registry_shards'),
	qr/^snowflake shards 1\nlayout timestamp:41 .*\nheld 0-9 until \d+ write \w+ server \w+ host .*\nheld 10-14 until /,
	'what the registry has');

# ---- a call waits, and can be cancelled ----

{
	query($b, q{ALTER SYSTEM SET snowflake.lease_wait = '1h'});
	$b->reload;
	$b->poll_query_until('postgres', q{SELECT setting = '3600000' FROM pg_settings
		WHERE name = 'snowflake.lease_wait'}) or die 'no reload';
	my ($id, $error) = ('', '');
	my @psql = ('psql', '-XAtq', '-d', $b->connstr('postgres') . ' application_name=waiter',
		'-c', next_of(7));
	my $waits = q{FROM pg_stat_activity WHERE application_name = 'waiter' AND }
	  . waits_for($b, 'SnowflakeLease');
	foreach my $end (qw(cancel unlist get))
	{
		my $call = IPC::Run::start(\@psql, '>', \$id, '2>', \$error);

		$b->poll_query_until('postgres', "SELECT count(*) = 1 $waits")
		  or die 'nobody waits';
		query($b, "SELECT pg_cancel_backend(pid) $waits") if $end eq 'cancel';
		set_shards($b, '10-14') if $end eq 'unlist';
		set_shards($a, '0-4') if $end eq 'get';
		$call->finish;
		like($error, qr/canceling statement/, 'a call waits, and can be cancelled')
		  if $end eq 'cancel';
		like($error, qr/may not issue IDs for shard 7/, 'nor does it wait for what is not configured any more')
		  if $end eq 'unlist';
		set_shards($b, '5-14') if $end eq 'unlist';
	}
	like($id, qr/^\d+$/, 'and is over when the other one gives it back') or diag($error);
	$checker->saw('all servers, shards', $id =~ /(\d+)/);
	query($b, 'ALTER SYSTEM RESET snowflake.lease_wait');
	$b->reload;
	wait_for_all($b, '5-14');
	is(shards_of($a, 'shards'), '0-4', 'it has no more of it');
}

# ---- moved by reloads, under load ----

foreach my $pair ([ $b, $a ], [ $a, $b ])
{
	my ($from, $to) = @$pair;
	my %rest = ($a => '0-4', $b => '10-14');
	my %all = ($a => '0-9', $b => '5-14');
	my $load = load_on($from, 8);

	$load->more(2000);
	set_shards($to, $all{$to});
	wait_for_shards($to, q{problem ~ 'Shards 5-9 are reserved'});
	set_shards($from, $rest{$from});
	wait_for_all($to, $all{$to});
	my $loads = [ $load, load_on($to, 8) ];
	$loads->[1]->more(2000);
	check_load($loads->[0], 1, 'a reload takes shards away under load');
	check_load($loads->[1], 0, 'and another server has them');
	is(shards_of($from, 'shards'), $rest{$from}, 'the first keeps the rest');
	make_ids($from, $from == $a ? 0 : 14, 100);
}

# ---- stopped, and crashed ----

{
	my $load = load_on($b, 8);

	$load->more(1000);
	set_shards($a, '0-14');
	wait_for_shards($a, q{problem ~ 'Shards 5-14 are reserved'});
	$b->stop('fast');
	$load->finish;
	wait_for_all($a, '0-14');
	make_ids($a, 8, 100);
	pass('a fast stop gives all back');

	$load = load_on($a, 8);
	$load->more(1000);
	start_with_clock($b, -1);
	wait_for_shards($b, q{problem ~ 'Shards 5-14 are reserved'});
	is(shards_of($b, 'shards'), '', 'who had them waits now');
	$a->stop('immediate');
	$load->finish;
	wait_for_all($b, '5-14');
	make_ids($b, 8, 100);
	pass('after a crash another one has them when what was reserved is over');

	query($b, 'SELECT snowflake_shard_nextval(5)');
	$a->start;
	wait_for_all($b, '5-14');
	set_shards($a, '0-4');
	wait_for_all($a, '0-4');
	query($a, q{ALTER SYSTEM SET snowflake.lease_reserve = '16s'});
	$a->reload;
	wait_for_shards($a, q{until > now() + interval '12 s'});
	$a->stop('immediate');
	$a->start;
	wait_for_shards($a, q{problem ~ 'in a life of this server that has ended'});
	refused_shard($a, 3, qr/Shards 0-4 are reserved until .* in a life of this server that has ended\..*HINT:  Wait until then\./s,
		'after a crash the server itself waits, too');
	query($a, 'ALTER SYSTEM RESET snowflake.lease_reserve');
	$a->reload;
	wait_for_all($a, '0-4');
	make_ids($a, 3, 100);
}

# ---- a worker that is frozen for longer than the reserve, and one that ends ----

{
	my $load = load_on($b, 8);
	my $from = -s $b->logfile;
	my $pid = shards_of($b, 'pid');

	$load->more(1000);
	kill('STOP', $pid) == 1 or die "cannot stop $pid";
	wait_for_shards($b, 'until < clock_timestamp()');
	refused($b, next_of(8), '55000', qr/no lease of shard 8/, 'a frozen worker');
	set_shards($a, '0-9');
	wait_for_all($a, '0-9');
	make_ids($a, 8, 1000);
	kill 'CONT', $pid;
	wait_for_shards($b, "shards = '10-14'");
	like_log($b, qr/WARNING:  snowflake SF302: shards from registry .*: The lease of some of this server's shards is lost: somebody else has claimed them\./,
		$from, 'when it goes on it finds that they are lost');
	make_ids($a, 8, 1000);
	set_shards($a, '0-4');
	wait_for_all($b, '5-14');
	$load->more(1000);
	check_load($load, 1, 'and gets them back when they are free');

	$load = load_on($b, 8);
	$load->more(1000);
	kill 'TERM', $pid;
	wait_for_all($b, '5-14');
	wait_for_shards($b, "pid <> $pid AND until > clock_timestamp()");
	make_ids($b, 8, 100);
	$load->finish;
	pass('a worker that is ended alone is followed by another');
}

# ---- the registry is gone; its record is not one ----

{
	my $load = load_on($a, 2);

	$load->more(1000);
	$registry->stop('immediate');
	wait_for_shards($a, 'until < clock_timestamp()');
	refused_shard($a, 2, qr/The registry (?:answered|did not answer)/, 'no registry');
	$registry->start;
	wait_for_shards($a, q{state = 'held' AND until > clock_timestamp() AND problem IS NULL});
	$load->more(1000);
	check_load($load, 1, 'it goes on when the registry is back');

	query($registry, q{CREATE TABLE keep AS SELECT shards FROM snowflake_registry_shards;
		UPDATE snowflake_registry_shards SET version = version + 1, shards = 'nonsense'});
	wait_for_shards($a, q{problem ~ 'record of shards cannot be read. It does not begin with'});
	wait_for_shards($a, 'until < clock_timestamp()');
	refused_shard($a, 2, qr/cannot be read.*HINT:  .*recover the registry first, and then remove it/s, 'a record that makes no sense is not taken for an empty one');
	query($registry, q{UPDATE snowflake_registry_shards SET version = version + 1,
		shards = (SELECT shards FROM keep)});
	wait_for_shards($a, q{state = 'held' AND until > clock_timestamp()});
	make_ids($a, 2, 100);

	my $c = new_holder('c', '20-29',
		"snowflake.shard_layout = 'timestamp:41 shard:12 sequence:10 epoch:2024-01-01'");
	$c->start;
	query($c, 'CREATE EXTENSION snowflake');
	wait_for_shards($c, q{problem ~ 'shards have the layout "timestamp:41 shard:13 '});
	refused_shard($c, 20, qr/HINT:  Set snowflake.shard_layout/, 'another layout of shards');
	$c->stop;
}

# ---- the registry has lost data ----

{
	query($registry, q{
		TRUNCATE snowflake_registry, snowflake_registry_slot, snowflake_registry_shards;
		BEGIN; SELECT snowflake_registry_init();
		SELECT snowflake_registry_recover('20 s'); COMMIT});
	wait_for_shards($a, q{problem ~ 'After its recovery the registry lets nobody claim a shard'});
	my $from = shards_of($a, 'problem') =~ /before (\S+)\./ ? $1 : die 'no time';
	wait_for_all($a, '0-4');
	wait_for_all($b, '5-14');
	my ($first) = make_ids($a, 2, 100);
	is(query($a, "SELECT snowflake_timestamp($first, 'instagram') >= '$from'"), 't',
		'after its recovery nothing is made before the floor');
	make_ids($b, 8, 100);
}

$_->stop foreach ($a, $b);
is(query($registry, q{SELECT shards ~ '\nheld' FROM snowflake_registry_shards}), 'f',
	'in the end all is given back');
$checker->clients;
note $checker->checked . ' IDs checked';
done_testing();
