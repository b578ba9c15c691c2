# A server loses its leased shards and gets them back. Its worker is frozen or ends.
# The registry is unreachable, has a damaged shard record, or has lost its data.
#
# takes: 65 s
use strict;
use warnings FATAL => 'all';
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use Load;
use ShardLeaseTest;
use SnowflakeTest;

my ($registry, $checker) = new_registry();

my $a = new_holder('a', '0-4');
my $b = new_holder('b', '5-14');
foreach my $node ($a, $b)
{
	$node->start;
	query($node, 'CREATE EXTENSION snowflake;' . load_tables());
}
wait_for_all($a, '0-4');
wait_for_all($b, '5-14');

# ---- a worker that is frozen for longer than the reserve ----

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
	like_log($b, qr/WARNING:  snowflake SF302: shards from registry .*: The lease of some of this server's shards is lost: another server has claimed them\./,
		$from, 'when it goes on it finds that they are lost');
	make_ids($a, 8, 1000);
	set_shards($a, '0-4');
	wait_for_all($b, '5-14');
	$load->more(1000);
	check_load($load, 1, 'and gets them back when they are free');
}

# ---- a worker ends; meanwhile the layout of shards changes ----

{
	my $load = load_on($b, 8);
	my $pid = shards_of($b, 'pid');

	$load->more(1000);
	kill 'TERM', $pid;
	my $c = new_holder('c', '20-29',
		"snowflake.shard_layout = 'timestamp:41 shard:12 sequence:10 epoch:2024-01-01'");
	$c->start;
	query($c, 'CREATE EXTENSION snowflake');
	wait_for_shards($c, q{problem ~ 'shards have the layout "timestamp:41 shard:13 '});
	refused_shard($c, 20, qr/HINT:  Set snowflake.shard_layout/, 'another layout of shards');
	$c->stop;
	wait_for_all($b, '5-14');
	wait_for_shards($b, "pid <> $pid AND until > clock_timestamp()");
	make_ids($b, 8, 100);
	$load->finish;
	pass('a worker that is ended alone is followed by another');
}

# ---- the registry is away; then its shard record is damaged ----

{
	my $load = load_on($a, 2);

	set_reserve($a, '5s');
	$load->more(1000);
	$registry->stop('immediate');
	wait_for_shards($a, 'until < clock_timestamp()');
	refused_shard($a, 2, qr/The registry (?:answered|did not answer)/, 'no registry');
	$registry->start;
	wait_for_shards($a, q{state = 'held' AND until > clock_timestamp() AND problem IS NULL});
	$load->more(1000);
	check_load($load, 1, 'it goes on when the registry is back');

	query($registry, q{UPDATE snowflake_registry.shards SET version = version + 1, shards = 'nonsense'});
	wait_for_shards($a, q{problem ~ 'record of shards cannot be read. It does not begin with'});
	wait_for_shards($a, 'until < clock_timestamp()');
	refused_shard($a, 2, qr/cannot be read.*HINT:  .*recover the registry first, and then remove it/s, 'a record that makes no sense is not taken for an empty one');
	query($registry, q{SELECT snowflake_registry.recover('8 s', '1 s')});
	wait_for_shards($a, q{problem ~ 'cannot be read'});
	query($registry, 'DELETE FROM snowflake_registry.shards');
	wait_for_all($a, '0-4');
	wait_for_all($b, '5-14');
	make_ids($a, 2, 100);
	make_ids($b, 8, 100);
	pass('after a recovery it is removed, and shards are leased again');
	set_reserve($a, '8s');
}

# ---- the registry has lost data ----

{
	# long enough that the wait is seen, however late the server reads the registry
	query($registry, q{
		TRUNCATE snowflake_registry.registry, snowflake_registry.tenure, snowflake_registry.shards;
		BEGIN; SELECT snowflake_registry.init();
		SELECT snowflake_registry.recover('20 s', '4 s'); COMMIT});
	wait_for_shards($a, q{problem ~ 'After its recovery the registry lets no server claim a shard'});
	my $from = shards_of($a, 'problem') =~ /before (\S+)\./ ? $1 : die 'no time';
	wait_for_all($a, '0-4');
	wait_for_all($b, '5-14');
	my ($first) = make_ids($a, 2, 100);
	is(query($a, "SELECT snowflake_timestamp($first, 'instagram') >= '$from'"), 't',
		'after its recovery nothing is made before the floor');
	make_ids($b, 8, 100);
}

$_->stop foreach ($a, $b);
is(query($registry, q{SELECT shards ~ '\nheld' FROM snowflake_registry.shards}), 'f',
	'in the end all is given back');
$checker->clients;
note $checker->checked . ' IDs checked';
done_testing();
