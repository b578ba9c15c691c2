# Reading by time and by page, in ten million rows of one day. By time, our key is
# compared with a separate index on created_at and, from 18 on, with UUIDv7; by page, with
# OFFSET.

use strict;
use warnings;
use Bench;

my $rows = $ENV{BENCH_ROWS} * 10;
my $step = 86400 / $rows;
my $times = "SELECT timestamptz '2026-01-01 00:00Z' + i * interval '1 second' * $step AS at, i FROM generate_series(0, $rows - 1) i";
my $from = "timestamptz '2026-01-01 23:00Z'";
my $uuid = "(lpad(to_hex((extract(epoch FROM %s) * 1000)::bigint), 12, '0') || '%s')::uuid";

say_step("reading: $rows rows");
sql('default', 'CREATE TABLE r (id bigint PRIMARY KEY, created_at timestamptz, v integer)');
sql('default', "INSERT INTO r SELECT snowflake_min_id(at) | i % 4096, at, i FROM ($times) t");
sql('default', 'CREATE INDEX r_created ON r (created_at)');
sql('default', 'VACUUM (ANALYZE) r');
my @cases = (
	[ 'ours: primary key', "SELECT count(v) FROM r WHERE snowflake_timestamp(id) >= $from" ],
	[ 'created_at: its index', "SELECT count(v) FROM r WHERE created_at >= $from" ],
);
if ($major >= 18)
{
	sql('default', 'CREATE TABLE ru (id uuid PRIMARY KEY, v integer)');
	sql('default', 'INSERT INTO ru SELECT '
		. sprintf($uuid, 'at', "7' || lpad(to_hex(i % 4096), 3, '0') || '8000000000000000")
		. ", i FROM ($times) t");
	sql('default', 'VACUUM (ANALYZE) ru');
	push @cases, [ 'UUIDv7: primary key', 'SELECT count(v) FROM ru WHERE id >= '
		. sprintf($uuid, $from, '70008000000000000000') ];
}
else
{
	left_out('reading by UUIDv7: uuidv7() is in 18 and newer');
}
sql('default', 'SET max_parallel_workers_per_gather = 0');
my %expected;
my $v = rounds(7, map {
	my ($name, $query) = @$_;
	[ $name, sub {
		my $begun = time;
		my ($n) = sql('default', $query);
		die "$name found $n rows" if $n != $rows / 24 && abs($n - $rows / 24) > 1;
		return { ms => (time - $begun) * 1000 };
	} ];
} @cases);
record(work => 'reading', figure => 'the last hour of a day',
	names => [ map { $_->[0] } @cases ], unit => 'ms',
	ours => 'ours: primary key', values => $v->{ms});
my %size = ('ours: primary key' => 'r_pkey', 'created_at: its index' => 'r_created',
	'UUIDv7: primary key' => 'ru_pkey');
record(work => 'reading', figure => 'that index',
	names => [ map { $_->[0] } @cases ], unit => 'bytes/row',
	ours => 'ours: primary key', values => { map {
		$_->[0] => [ sql('default', "SELECT pg_relation_size('$size{$_->[0]}')") / $rows ]
	} @cases });

say_step('page 10,000');
my $skip = min(200_000, $rows / 2);
my ($cursor) = sql('default', "SELECT id FROM r ORDER BY id DESC OFFSET $skip - 1 LIMIT 1");
$v = rounds(9, [ 'ours: cursor', sub {
	my $begun = time;
	sql('default', "SELECT * FROM r WHERE id < $cursor ORDER BY id DESC LIMIT 20");
	return { ms => (time - $begun) * 1000 };
} ], [ 'OFFSET', sub {
	my $begun = time;
	sql('default', "SELECT * FROM r ORDER BY id DESC LIMIT 20 OFFSET $skip");
	return { ms => (time - $begun) * 1000 };
} ]);
record(work => 'reading', figure => 'page 10,000 of 20 rows', unit => 'ms',
	names => [ 'ours: cursor', 'OFFSET' ], ours => 'ours: cursor',
	values => $v->{ms});
sql('default', 'DROP TABLE r');
sql('default', 'DROP TABLE ru') if $major >= 18;

1;
