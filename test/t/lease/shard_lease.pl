# Shards leased from a registry in PostgreSQL. The ranges of two servers overlap, and
# move by reloads, stops and crashes, under load.
#
# takes: 50 s
use strict;
use warnings FATAL => 'all';
use Test::More;
use FindBin;
use IPC::Run;
use lib "$FindBin::RealBin/../../perl";
use Load;
use ShardLeaseTest;
use SnowflakeTest;

my ($registry, $checker) = new_registry();

# ---- overlapping ranges ----

my $a = new_holder('a', '0-9');
# as b's clock is behind below, its reservation must be longer to be seen by a
my $b = new_holder('b', '5-14', "snowflake.lease_reserve = '16s'");
$a->start;
query($a, 'CREATE EXTENSION snowflake;' . load_tables());
wait_for_all($a, '0-9');
make_ids($a, $_, 100) foreach (0, 5, 9);
my $until = shards_of($a, 'until');
wait_for_shards($a, "until > '$until'");
pass('they are extended');

# b's clock is behind by more than it takes to get shards, so it goes through the same
# times as a
start_with_clock($b, -4);
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
like(query($registry, 'SELECT shards FROM snowflake_registry.shards'),
	qr/^snowflake shards 1\nlayout timestamp:41 .*\nheld 0-9 until \d+ reserve \d+ since \d+ write \w+ server \w+ host .*\nheld 10-14 until /,
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

# ---- shards move by reloads, under load ----

# Clients do not pause, so every millisecond has IDs of the shards that move.
foreach my $pair ([ $b, $a ], [ $a, $b ])
{
	my ($from, $to) = @$pair;
	my %rest = ($a => '0-4', $b => '10-14');
	my %all = ($a => '0-9', $b => '5-14');
	my $load = load_on($from, 8, 0);

	$load->more(2000);
	set_shards($to, $all{$to});
	wait_for_shards($to, q{problem ~ 'Shards 5-9 are reserved'});
	# these clients call from the first moment on
	my $loads = [ $load, load_on($to, 8, 0) ];
	$loads->[1]->heard;
	my ($last) = make_ids($from, 7, 1);
	set_shards($from, $rest{$from});
	wait_for_all($to, $all{$to});
	my ($first) = make_ids($to, 7, 1);
	cmp_ok($first, '>', $last, 'another server begins where the first one ended');
	$loads->[1]->more(2000);
	check_load($loads->[0], 1, 'a reload takes shards away under load');
	check_load($loads->[1], 0, 'and another server has them');
	is(shards_of($from, 'shards'), $rest{$from}, 'the first keeps the rest');
	make_ids($from, $from == $a ? 0 : 14, 100);
}

# ---- a server stops, and crashes ----

{
	my $load = load_on($b, 8, 0);

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
	set_reserve($a, '16s');
	wait_for_shards($a, q{until > now() + interval '12 s'});
	$a->stop('immediate');
	unlink $a->data_dir . '/global/pgsql_tmp/snowflake_lease' or die $!;
	$a->start;
	wait_for_shards($a, q{problem ~ 'which was this server before its last start'});
	refused_shard($a, 3, qr/Shards 0-4 are reserved until .* which was this server before its last start\..*HINT:  Wait until then\./s,
		'after a crash the server itself waits, too, if it does not know that the shards are its own');
	wait_for_all($a, '0-4');
	make_ids($a, 3, 100);

	# nobody gets anywhere by waiting for an hour
	set_reserve($a, '1h');
	wait_for_shards($a, q{until > now() + interval '50 min'});
	make_ids($a, $_, 100) foreach 0, 3;
	$a->stop('immediate');
	$a->start;
	wait_for_all($a, '0-4');
	make_ids($a, $_, 100) foreach 0, 3;
	pass('else it goes on at once');
	query($a, 'ALTER SYSTEM RESET snowflake.lease_reserve');
	$a->reload;
	wait_for_all($a, '0-4');
	make_ids($a, 3, 100);
}

$_->stop foreach ($a, $b);
is(query($registry, q{SELECT shards ~ '\nheld' FROM snowflake_registry.shards}), 'f',
	'in the end all is given back');
$checker->clients;
note $checker->checked . ' IDs checked';
done_testing();
