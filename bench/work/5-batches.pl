# Batches compared with one call for each ID; and a hundred shards in use at once.

use strict;
use warnings;
use Bench;

my $ms = $quick ? 150 : 600;
my @cases = map {
	my $n = $_;
	(
		[ "batch of $n", $n,
			"SELECT count(b) FROM (SELECT snowflake_nextval_batch($n) AS b) s" ],
		[ "$n rows without a call", $n,
			"SELECT count(i) FROM (SELECT generate_series(1, $n) AS i) s" ],
		[ "$n calls", $n,
			"SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, $n)) s" ],
	)
} 10, 1000, 100_000;

say_step('batches');
my $v = rounds(7, map {
	my ($name, $n, $query) = @$_;
	[ $name, sub {
		my $r = loop('wide', 1, $query, $n, $ms);
		return { ns => 1e9 / $r->{rate} };
	} ];
} @cases);
for my $n (10, 1000, 100_000)
{
	record(work => 'batches', figure => "$n IDs", unit => 'ns/ID',
		ours => "batch of $n", names => [ "batch of $n", "$n calls", "$n rows without a call" ],
		values => $v->{ns});
}

say_step('batches over a connection');
my $single = db('wide')->prepare('SELECT snowflake_nextval()');
for my $n (10, 1000)
{
	my $many = db('wide')->prepare("SELECT snowflake_nextval_batch($n)");
	my $per_id = sub {
		my ($times, $sth, $rows) = @_;
		my $begun = time;
		for (1 .. $times)
		{
			$sth->execute;
			$sth->fetchall_arrayref;
		}
		return { ns => (time - $begun) * 1e9 / $times / $rows };
	};
	$v = rounds(5, [ "batch of $n", sub { $per_id->(100, $many, $n) } ],
		[ "$n statements", sub { $per_id->(2000, $single, 1) } ]);
	record(work => 'batches', figure => "$n IDs over a connection",
		unit => 'ns/ID', ours => "batch of $n",
		names => [ "batch of $n", "$n statements" ], values => $v->{ns});
}

say_step('one hundred shards at once, 8 clients');
my @shards = (
	[ 'one call each', 10000,
		'SELECT count(snowflake_shard_nextval(i % 100)) FROM (SELECT generate_series(1, 10000) AS i) s' ],
	[ 'batches of 100', 10000,
		'SELECT count(b) FROM (SELECT snowflake_shard_nextval_batch(i, 100) AS b FROM generate_series(0, 99) i) s' ],
	[ 'one shard', 1000,
		'SELECT count(snowflake_shard_nextval(5)) FROM (SELECT generate_series(1, 1000) AS i) s' ],
);
$v = rounds(5, map {
	my ($name, $n, $query) = @$_;
	[ $name, sub { loop('wide', 8, $query, $n, $ms) } ];
} @shards);
record(work => 'batches', figure => 'a hundred shards, 8 clients',
	names => [ map { $_->[0] } @shards ], unit => 'IDs/s', better => 'more',
	ours => 'one call each', values => $v->{rate});

1;
