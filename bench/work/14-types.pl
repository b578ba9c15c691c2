# A key of the type snowflake compared with bigint, bigserial and a random uuid: inserts,
# sizes, JSON, look-ups, and the join of two tables whose IDs were made at 1, 100 and 1,000
# in a millisecond.

use strict;
use warnings;
use Bench;

my $rows = $ENV{BENCH_ROWS} * 8;
my @names = ('ours, snowflake', 'ours, bigint', 'bigserial', 'gen_random_uuid()');
my %type = ('ours, snowflake' => 'snowflake', 'ours, bigint' => 'bigint',
	'bigserial' => 'bigint', 'gen_random_uuid()' => 'uuid');
my %key = ('ours, snowflake' => 'snowflake_nextval()', 'ours, bigint' => 'snowflake_nextval()',
	'bigserial' => "nextval('s1')", 'gen_random_uuid()' => 'gen_random_uuid()');
my ($server, $ours) = ('default', 'ours, snowflake');
my ($first) = sql($server, "SELECT snowflake_compose('2026-01-01 00:00Z', 1)");

# Run a query in rounds of all contestants; record how long one of its $n rows took.
sub compare
{
	my ($figure, $unit, $n, $query) = @_;
	my $v = rounds(3, map {
		my $name = $_;
		[ $name, sub {
			my $begun = time;
			sql($server, $query->($name));
			return { $unit => (time - $begun) * ($unit eq 'us' ? 1e6 : 1) / $n };
		} ];
	} @names);

	record(work => 'types', figure => $figure, unit => $unit, names => \@names,
		ours => $ours, values => $v->{$unit});
	return;
}

sub size
{
	my ($figure, $query) = @_;

	record(work => 'types', figure => $figure, unit => 'bytes/row', names => \@names,
		ours => $ours, values => { map { $_ => [ sql($server, $query->($_)) / $rows ] } @names });
	return;
}

# the names of a contestant's tables
sub table
{
	my ($table, $name) = @_;

	return $table . ($name =~ s/\W+/_/gr);
}

sql($server, 'SET max_parallel_workers_per_gather = 0');
for my $rate (1, 100, 1000)
{
	say_step("types: two tables of $rows rows, $rate IDs a millisecond");
	my $id = "$first + (i / $rate * 4194304) + i % $rate";
	my %made = ('ours, snowflake' => $id, 'ours, bigint' => $id, 'bigserial' => 'i',
		'gen_random_uuid()' => 'gen_random_uuid()');

	for my $name (@names)
	{
		my ($a, $b) = (table('a', $name), table('b', $name));

		sql($server, "CREATE TABLE $a (id $type{$name} NOT NULL, v integer)");
		sql($server, "INSERT INTO $a SELECT $made{$name}, i FROM generate_series(0, $rows - 1::bigint) i");
		sql($server, "CREATE TABLE $b AS SELECT id, v AS w FROM $a");
		sql($server, "VACUUM (ANALYZE) $a, $b");
	}
	sql($server, 'SET enable_mergejoin = off');
	compare("hash join, $rate IDs a ms", 's', 1, sub {
		my ($a, $b) = map { table($_, $_[0]) } ('a', 'b');

		return "SELECT count(*), sum(v + w) FROM $a JOIN $b USING (id)";
	});
	sql($server, 'RESET enable_mergejoin');
	if ($rate == 1000)
	{
		sql($server, 'ALTER TABLE ' . table('a', $_) . ' ADD PRIMARY KEY (id)') for @names;
		size('table', sub { "SELECT pg_table_size('" . table('a', $_[0]) . "')" });
		size('primary key', sub { "SELECT pg_relation_size('" . table('a', $_[0]) . "_pkey')" });
		size('JSON', sub { 'SELECT sum(length(row_to_json(t)::text)) FROM ' . table('a', $_[0]) . ' t' });
		compare('look-up by key', 'us', $rows / 10, sub {
			my $a = table('a', $_[0]);

			return "SELECT count(t.v) FROM (SELECT id FROM $a WHERE v % 10 = 0 OFFSET 0) k, "
				. "LATERAL (SELECT v FROM $a WHERE id = k.id OFFSET 0) t";
		});
	}
	sql($server, 'DROP TABLE ' . join(', ', map { table('a', $_), table('b', $_) } @names));
}

say_step('types: inserts');
sql($server, 'CREATE TABLE ' . table('i', $_)
	. " (id $type{$_} PRIMARY KEY DEFAULT $key{$_}, v integer)") for @names;
compare('INSERT ... SELECT', 'us', $ENV{BENCH_ROWS}, sub {
	return 'INSERT INTO ' . table('i', $_[0]) . " (v) SELECT generate_series(1, $ENV{BENCH_ROWS})";
});
sql($server, 'DROP TABLE ' . join(', ', map { table('i', $_) } @names));

1;
