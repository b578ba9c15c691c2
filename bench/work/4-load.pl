# Load rows into a table whose key a contestant makes: rows per second, and the sizes of
# WAL and index. The table is empty at first, except for the second million. Each
# measurement begins with a checkpoint.

use strict;
use warnings;
use Bench;

my @names = grep { $contestant{$_} } ('ours, default', 'ours, wide',
	'nextval, CACHE 1', 'nextval, CACHE 32', 'pgEdge', 'identity', 'gen_random_uuid()',
	'uuidv7()', 'ours, Instagram', 'Instagram, PL/pgSQL',
	'Mastodon, PL/pgSQL');
my $rows = $ENV{BENCH_ROWS};
my $ours = 'ours, default';
my $csv = "$dir/rows";
my %table;

for my $i (0 .. $#names)
{
	my $c = $contestant{ $names[$i] };

	$table{ $names[$i] } = "t$i";
	sql($c->{cluster}, "CREATE TABLE t$i (id $c->{key}, v integer)");
}
sql('wide', "COPY source TO '$csv'");

sub lsn
{
	return sql($_[0], "SELECT pg_current_wal_insert_lsn() - '0/0'");
}

# Empty the table if one is named, run the queries, and return rows per second and bytes
# of WAL per row.
sub measure
{
	my ($cluster, $table, @queries) = @_;

	sql($cluster, "TRUNCATE $table") if $table;
	sql($cluster, 'CHECKPOINT');
	my $wal = lsn($cluster);
	my $begun = time;
	sql($cluster, $_) for @queries;
	my $rate = $rows / (time - $begun);
	return { rate => $rate, wal => (lsn($cluster) - $wal) / $rows };
}

sub record_load
{
	my ($figure, $v, @in) = @_;

	record(work => 'load', figure => $figure, names => \@in, unit => 'rows/s',
		better => 'more', ours => $ours, values => $v->{rate});
	record(work => 'load', figure => "WAL, $figure", names => \@in,
		unit => 'bytes/row', ours => $ours, values => $v->{wal}) if $v->{wal};
	record(work => 'load', figure => "index, $figure", names => \@in,
		unit => 'bytes/row', ours => $ours, values => $v->{index})
		if $v->{index};
}

# ---- one row in a transaction, including the client and the protocol ----

say_step('INSERT of single rows, 8 clients of pgbench');
my $each = $quick ? 500 : 5000;
my $v = rounds(9, map {
	my $name = $_;
	my $cluster = $contestant{$name}{cluster};
	my $script = "$dir/insert.$table{$name}.sql";

	open my $out, '>', $script or die;
	print $out "INSERT INTO $table{$name} (v) VALUES (1);\n";
	close $out;
	[ $name, sub {
		sql($cluster, "TRUNCATE $table{$name}");
		sql($cluster, 'CHECKPOINT');
		my $wal = lsn($cluster);
		my $log = `$bindir/pgbench -h $dir/$cluster -U postgres -n -M prepared -c 8 -j 2 -t $each -f $script postgres 2>&1`;
		$log =~ /^tps = ([0-9.]+)/m or die $log;
		return { rate => $1, wal => (lsn($cluster) - $wal) / $each / 8 };
	} ];
} @names);
record_load('INSERT of single rows, 8 clients', $v, @names);

# ---- a million ----

say_step("INSERT ... SELECT of $rows rows");
$v = rounds(5, map {
	my ($name, $table) = ($_, $table{$_});
	my $cluster = $contestant{$name}{cluster};
	[ $name, sub {
		my $r = measure($cluster, $table,
			"INSERT INTO $table (v) SELECT v FROM source");
		$r->{index} = sql($cluster, "SELECT pg_indexes_size('$table')") / $rows;
		return $r;
	} ];
} @names);
record_load('INSERT ... SELECT', $v, @names);

say_step("COPY of $rows rows");
my @copied = grep { !/PL/ } @names;
$v = rounds(5, map {
	my ($name, $table) = ($_, $table{$_});
	[ $name, sub {
		return measure($contestant{$name}{cluster}, $table,
			"COPY $table (v) FROM '$csv'");
	} ];
} @copied);
record_load('COPY', $v, @copied);

say_step("COPY of $rows rows into four partitions");
my @parted = ($ours, 'nextval, CACHE 1');
for my $name (@parted)
{
	my ($c, $table) = ($contestant{$name}, "parted$table{$name}");
	(my $key = $c->{key}) =~ s/ PRIMARY KEY//;

	sql($c->{cluster}, $_) for
		"CREATE TABLE $table (id $key, v integer, PRIMARY KEY (id, v)) PARTITION BY HASH (v)",
		map { "CREATE TABLE ${table}_$_ PARTITION OF $table FOR VALUES WITH (MODULUS 4, REMAINDER $_)" } 0 .. 3;
}
$v = rounds(5, map {
	my ($cluster, $table) = ($contestant{$_}{cluster}, "parted$table{$_}");
	[ $_, sub {
		return measure($cluster, $table, "COPY $table (v) FROM '$csv'");
	} ];
} @parted);
record_load('COPY into partitions', $v, @parted);

say_step('CREATE TABLE AS with parallel workers');
my @calls = grep { $contestant{$_}{call} } @names;
my %made = map { $contestant{$_}{cluster} => 1 } @calls;
for my $cluster (keys %made)
{
	sql($cluster, "SET $_") for 'client_min_messages = warning',
		'parallel_setup_cost = 0',
		'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0',
		'max_parallel_workers_per_gather = 2';
}
$v = rounds(5, map {
	my ($name, $c) = ($_, $contestant{$_});
	[ $name, sub {
		sql($c->{cluster}, 'DROP TABLE IF EXISTS made');
		return measure($c->{cluster}, '',
			"CREATE TABLE made AS SELECT $c->{call} AS id, v FROM source WHERE v % 1000 < 1000");
	} ];
} @calls);
record_load('CREATE TABLE AS', $v, @calls);
sql($_, 'DROP TABLE IF EXISTS made') for keys %made;

# ---- into a table larger than shared_buffers ----

say_step('a second million into a table larger than shared_buffers');
my @big = grep { $contestant{$_} } ($ours, 'nextval, CACHE 1',
	'gen_random_uuid()', 'uuidv7()');
my $filler = "repeat('x', 100)";
for my $name (@big)
{
	my $c = $contestant{$name};
	sql($c->{cluster},
		"CREATE TABLE big$table{$name} (id $c->{key}, v integer, filler text)");
}
$v = rounds(3, map {
	my $name = $_;
	my ($cluster, $table) = ($contestant{$name}{cluster}, "big$table{$name}");
	my $insert = "INSERT INTO $table (v, filler) SELECT v, $filler FROM source";
	[ $name, sub {
		sql($cluster, "TRUNCATE $table");
		sql($cluster, $insert);
		my $r = measure($cluster, '', $insert);
		$r->{index} = sql($cluster,
			"SELECT pg_indexes_size('$table')") / $rows / 2;
		sql($cluster, "TRUNCATE $table");
		return $r;
	} ];
} @big);
record_load('second million', $v, @big);

1;
