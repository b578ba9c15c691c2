# The history of a registry in ZooKeeper: who held a slot or shards before, and why it
# holds them no more. The server that replaces the record writes it afterwards. Needs
# ZooKeeper.
#
# takes: 55 s
# needs: libzookeeper-java default-jre-headless libzookeeper-st-dev
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use JSON::PP;
use Time::HiRes qw(usleep);
use lib "$FindBin::RealBin/../../perl";
use HistoryTest;
use SnowflakeTest;
use ZooKeeper;

my $zk = ZooKeeper->new('one')->start;

sub new_holder
{
	my ($name) = @_;

	return new_server($name, "snowflake.node_id = '3'", "snowflake.registry = 'zookeeper://@{[ $zk->host ]}/reg'",
		"snowflake.lease_reserve = '12s'", "snowflake.lease_presence = '6s'", "snowflake.lease_timeout = '4s'");
}

# Return the names of the nodes.
sub names
{
	my @names = $zk->get('/reg/history') ? $zk->children('/reg/history') : ();

	return @names = sort @names;
}

# Check that the history becomes these tenures, by their ends.
sub becomes
{
	my ($expected, $what) = @_;
	my $text;

	foreach (1 .. 3000)
	{
		# a node may be deleted meanwhile
		my @rows = map { decode_json($_->{value}) } grep { defined } map { $zk->get("/reg/history/$_") } names();

		$text = join ', ', map { "$_->{host} $_->{ended}" } @rows;
		last if $text eq $expected;
		usleep(10_000);
	}
	is($text, $expected, $what);
	return;
}

my ($a, $b) = map { new_holder($_) } 'a', 'b';
chomp(my $host = `hostname`);
my ($a_host, $b_host) = map { "$host:" . $_->port } $a, $b;
hold($a);
is(scalar(names()), 0, 'nobody held the slot before');
my $with_a = time_before($a, 0);
$a->stop;
hold($b);
becomes("$a_host released", 'a clean stop: released');
my ($name) = names();
my $row = decode_json($zk->get("/reg/history/$name")->{value});
like($name, qr/^\Q$row->{ended_at}\E-3-\d+$/, 'its name begins with its end');
ok($row->{since} le $with_a && $row->{ended_at} ge $with_a && $row->{slot} == 3 && $row->{process} > 0
	  && $row->{address} eq '127.0.0.1', 'when, where and which process');
$b->stop('immediate');
hold($a);
becomes("$a_host released, $b_host expired", 'a crash: expired');
is(tenures($a, 3), "$a_host released, $b_host expired, $a_host -", 'a server says it, too');
is(tenures($a, 3, $with_a), "$a_host released", 'and who had it then');
my $with_b;
is(query($a, qq{SELECT slot, address, process > 0, since <= '$with_a', ended_at >= '$with_a', until IS NOT NULL
	FROM snowflake_registry_history(3, '$with_a')}), '3|127.0.0.1|t|t|t|t', 'all of it');
$zk->put("/reg/history/$_", $_) foreach 'x', '{"slot":9}';
is(query($a, 'SELECT slot FROM snowflake_registry_history() WHERE slot <> 3'), '9', 'what is broken is left out');
$zk->delete("/reg/history/$_") foreach 'x', '{"slot":9}';

# A tenure older than the history is deleted, and one that is not stays.
my ($six, $eight) = map { time_before($a, $_) . '-9-1' } 6, 8;
$zk->put("/reg/history/$_", '{"host":"x","ended":"x"}') foreach $six, $eight;
query($a, 'SELECT snowflake_registry_release(3)');
becomes("x x, $a_host released, $b_host expired, $a_host displaced",
	'an administrator freed it: displaced; and what is eight days old goes');
is(tenures($a, 3), "$a_host released, $b_host expired, $a_host displaced, $a_host -", 'by the function');
$zk->put('/reg/keep_days', '5');
$a->stop;
hold($b);
becomes("$a_host released, $b_host expired, $a_host displaced, $a_host released",
	'likewise after as many days as it is told');

# The requests of a lease come behind the deletes: so these are few.
my $nine = time_before($b, 9) . '-9-1';
$zk->put("/reg/history/$nine$_", '{"slot":9}') foreach 1 .. 150;
is(query($b, 'SELECT count(*) FROM snowflake_registry_history(9)'), '150', 'a server says all of them');
$b->stop;
hold($a);
my $version = $zk->get('/reg/slots/3')->{version};
foreach (1 .. 3000)
{
	last if $zk->get('/reg/slots/3')->{version} > $version;
	usleep(10_000);
}
is(scalar(grep { /^\Q$nine\E/ } names()), 50, 'a claim deletes a hundred');

# Return the host of the last tenure of the slot that a server gives back.
sub last_released
{
	my ($arguments) = @_;

	return query($a, qq{SELECT host FROM snowflake_registry_history($arguments)
		WHERE slot = 3 AND ended = 'released' ORDER BY since DESC LIMIT 1});
}

# More than is read, before or after that time, does not hide who held the slot then.
$zk->put('/reg/keep_days', '36500');
$a->stop;
hold($b);
$with_b = time_before($b, 0);
$b->stop;
hold($a);
foreach (1 .. 3000)
{
	last if last_released(3) eq $b_host;
	usleep(10_000);
}
foreach my $year (2001, 2998)
{
	$zk->put("/reg/history/$year-01-01T00:00:00.000Z-9-$_", 'x' x 1_000_000) foreach 1 .. 9;
}
is(last_released(''), '', 'entries that are newer hide it');
is(last_released($_), $b_host, "but not of the slot, or at the time: $_") foreach 3, "at => '$with_b'", "3, '$with_b'";
is(tenures($a, 9, '2998-06-01'), '', 'a time after all of them');
my $foreign = pack('l> l> a* a*', 1, 31, ZooKeeper::text('digest'), ZooKeeper::text('other:AAAAAAAAAAAAAAAAAAAAAAAAAAA='));
$zk->call('create', ZooKeeper::text('/reg/history/2999-01-01T00:00:00.000Z-3-1') . ZooKeeper::text('{"slot":3}') . $foreign . pack('l>', 0));
is(last_released(3), $b_host, 'an entry that may not be read is left out');
$zk->delete("/reg/history/$_") foreach grep { /^(2001|2998)/ } names();
$zk->put('/reg/keep_days', '0');
$a->stop;
hold($b);
becomes('', 'none: no history is kept');
is(query($b, 'SELECT count(*) FROM snowflake_registry_slots()'), '1', 'and no slot is made of it');
# ---- shards ----

# Check that the history of shards becomes this.
sub shards_become
{
	my ($expected, $what) = @_;
	my $text;

	foreach (1 .. 3000)
	{
		my @rows = map { decode_json($_) } map { split /\n/, $_->{value} } grep { defined }
		  map { $zk->get("/reg/history/$_") } grep { /-shards-\d+$/ } names();

		$text = join ', ', map { "$_->{shards} $_->{host} $_->{ended}" } grep { $_->{shards} ne '0-4' } @rows;
		last if $text eq $expected;
		usleep(10_000);
	}
	is($text, $expected, $what);
	return;
}

$zk->put('/reg/keep_days', '7');
$b->stop;
hold_shards($a, '0-9');
shards_become('', 'shards that nobody had before');
$a->stop;
hold_shards($b, '5-14');
shards_become("0-9 $a_host released", 'shards that were given back');
$b->stop('immediate');
hold_shards($a, '0-14');
shards_become("0-9 $a_host released, 5-14 $b_host expired", 'and those of a server that has crashed');
like(tenures($a), qr/0-9 $a_host released, 5-14 $b_host expired, 0-14 $a_host -$/, 'a server says it, too');
$a->stop;
$zk->stop;
done_testing();
