# What the planner estimates for a key of the type snowflake, for a bigint key, and for a
# column created_at: rows by time, and the join with a tenth of the rows. Each figure is the
# rows estimated for each row found: 1 is right.

use strict;
use warnings;
use Bench;
use JSON::PP ();

my $rows = $ENV{BENCH_ROWS};
my $server = 'default';
my $day = "timestamptz '2026-01-01 00:00Z'";
my @names = ('ours, snowflake', 'ours, bigint', 'created_at');
my %column = ('ours, snowflake' => 's', 'ours, bigint' => 'b', 'created_at' => 'at');
my %time = ('ours, snowflake' => 'snowflake_timestamp(s)', 'ours, bigint' => 'snowflake_timestamp(b)',
	'created_at' => 'at');

my %found;

# Return the rows that a query is estimated to have, for each one that it has.
sub estimate
{
	my ($from) = @_;
	my ($plan) = sql($server, "EXPLAIN (FORMAT JSON) SELECT 1 $from");

	($found{$from}) = sql($server, "SELECT count(*) $from") if !$found{$from};
	return JSON::PP::decode_json($plan)->[0]{Plan}{'Plan Rows'} / $found{$from};
}

say_step("estimates: $rows rows");
sql($server, 'SET max_parallel_workers_per_gather = 0');
sql($server, "CREATE TABLE e AS SELECT snowflake_min_id(at)::snowflake AS s, snowflake_min_id(at) AS b, at
	FROM (SELECT $day + i * interval '1 second' * 86400 / $rows AS at FROM generate_series(0, $rows - 1) i) t");
sql($server, 'CREATE TABLE tenth AS SELECT * FROM (SELECT e.*, row_number() OVER () AS n FROM e) t WHERE n % 10 = 0');
for my $case (
	[ 'the last hour of a day', sub { "FROM e WHERE $time{$_[0]} >= $day + interval '23 hours'" } ],
	[ 'a minute at noon', sub {
		my $at = $time{ $_[0] };

		return "FROM e WHERE $at >= $day + interval '12 hours' AND $at < $day + interval '12 hours 1 minute'";
	} ],
	[ 'a join with a tenth', sub { "FROM e JOIN tenth USING ($column{$_[0]})" } ])
{
	my ($figure, $from) = @$case;
	my $v = rounds(5, [ 'all', sub {
		# another sample
		sql($server, 'ANALYZE e, tenth');
		return { map { $_ => estimate($from->($_)) } @names };
	} ]);

	record(work => 'estimates', figure => $figure, unit => 'estimated/found', names => \@names,
		ours => 'ours, snowflake', values => { map { $_ => $v->{$_}{all} } @names });
}
sql($server, 'DROP TABLE e, tenth');

1;
