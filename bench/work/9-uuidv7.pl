# Our key compared with uuidv7(): two tables of ten million rows each, and their join on
# the key.

use strict;
use warnings;
use Bench;

if ($major < 18)
{
	left_out('the join with UUIDv7: uuidv7() is in 18 and newer');
	return 1;
}

my $rows = $ENV{BENCH_ROWS} * 10;
my @names = ('ours, default', 'uuidv7()');
my %v;

say_step("uuidv7: two tables of $rows rows");
for my $name (@names)
{
	my $c = $contestant{$name};
	my $type = $c->{key} =~ s/ .*//r;
	my $wal = sql($c->{cluster}, "SELECT pg_current_wal_insert_lsn() - '0/0'");

	sql($c->{cluster}, "CREATE TABLE a (id $c->{key}, v integer)");
	sql($c->{cluster}, "INSERT INTO a (v) SELECT generate_series(1, $rows)");
	sql($c->{cluster}, "CREATE TABLE b (id $type PRIMARY KEY, w integer)");
	sql($c->{cluster}, 'INSERT INTO b SELECT id, v FROM a');
	$v{wal}{$name} = [ (sql($c->{cluster},
		"SELECT pg_current_wal_insert_lsn() - '0/0'") - $wal) / $rows / 2 ];
	$v{table}{$name} = [ sql($c->{cluster}, "SELECT pg_table_size('a')") / $rows ];
	$v{index}{$name} = [ sql($c->{cluster}, "SELECT pg_indexes_size('a')") / $rows ];
	sql($c->{cluster}, 'VACUUM (ANALYZE) a, b');
}
my $joined = rounds(3, map {
	my $name = $_;
	[ $name, sub {
		my $begun = time;
		sql($contestant{$name}{cluster},
			'SELECT count(*), sum(v + w) FROM a JOIN b USING (id)');
		return { s => time - $begun };
	} ];
} @names);
for ([ 'table', 'table', 'bytes/row' ], [ 'index', 'index', 'bytes/row' ],
	[ 'wal', 'WAL', 'bytes/row' ])
{
	record(work => 'uuidv7', figure => $_->[1], unit => $_->[2],
		names => \@names, ours => 'ours, default', values => $v{ $_->[0] });
}
record(work => 'uuidv7', figure => 'join', unit => 's', names => \@names,
	ours => 'ours, default', values => $joined->{s});
sql($contestant{$_}{cluster}, 'DROP TABLE a, b') for @names;

1;
