# What snowflake.audit costs: transactions that insert one row, and transactions that make
# one ID and write nothing. The rival is a line of the server's own for each statement, by
# log_statement, into the same csvlog; the third server writes no lines.

use strict;
use warnings;
use Bench;

my @names = ('ours, default', 'ours, audited');
my @inserts = (@names, 'ours, statements logged');

sql($contestant{$_}{cluster}, 'CREATE TABLE audit (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v integer)')
	for @inserts;

# Return the size of a server's csvlog, if it has one, once all of it is written, and
# empty it.
sub take_log
{
	my ($cluster) = @_;
	my $file = "$dir/$cluster/data/log/audit.csv";

	return 0 unless -e $file;
	my ($size, $before) = (-s $file, -1);

	while ($size != $before)
	{
		sleep 0.1;
		($before, $size) = ($size, -s $file);
	}
	truncate $file, 0 or die "$file: $!";
	return $size;
}

# ---- one row in a transaction, including the client and the protocol ----

my %bytes;

for my $clients (1, 8)
{
	my $each = ($quick ? 4000 : 40000) / $clients;
	my $script = "$dir/audit.sql";

	say_step("INSERT of single rows with an audit, $clients clients of pgbench");
	open my $out, '>', $script or die "$script: $!";
	print $out "INSERT INTO audit (v) VALUES (1);\n";
	close $out or die;
	my $v = rounds(15, map {
		my $name = $_;
		my $cluster = $contestant{$name}{cluster};
		[ $name, sub {
			sql($cluster, 'TRUNCATE audit');
			sql($cluster, 'CHECKPOINT');
			take_log($cluster);
			my $log = `$bindir/pgbench -h $dir/$cluster -U postgres -n -M prepared -c $clients -j 2 -t $each -f $script postgres 2>&1`;
			my ($rate) = $log =~ /^tps = ([0-9.]+)/m or die $log;

			push @{ $bytes{$name} }, take_log($cluster) / ($each * $clients);
			return { rate => $rate };
		} ];
	} @inserts);
	record(work => 'audit', figure => "INSERT of single rows, $clients clients", names => \@inserts,
		unit => 'rows/s', better => 'more', ours => 'ours, audited', values => $v->{rate});
}
record(work => 'audit', figure => 'csvlog of a transaction', names => [ @inserts[ 1, 2 ] ],
	unit => 'bytes', values => \%bytes);

# ---- the end of a transaction alone ----

# Return the time for which a process had a processor, in ns.
sub processor_ns
{
	my ($pid) = @_;

	open my $in, '<', "/proc/$pid/schedstat" or die "/proc/$pid/schedstat: $!";
	return (split ' ', <$in>)[0];
}

my $transactions = $quick ? 6000 : 60000;

say_step('a transaction of one ID, with an audit');
my $v = rounds(25, map {
	my $cluster = $contestant{$_}{cluster};
	[ $_, sub {
		my $pid = sql($cluster, 'SELECT pg_backend_pid()');
		my $begun = processor_ns($pid);

		sql($cluster, "DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP PERFORM snowflake_nextval(); COMMIT; END LOOP; END \$\$");
		my $took = (processor_ns($pid) - $begun) / $transactions;

		take_log($cluster);
		return { cpu => $took };
	} ];
} @names);
record(work => 'audit', figure => 'transaction of one ID, CPU of the session', names => \@names, unit => 'ns',
	ours => 'ours, audited', values => $v->{cpu});

1;
