# What snowflake_audit costs: transactions that insert one row, and transactions that
# make one ID and write nothing. The two servers differ in nothing else.

use strict;
use warnings;
use Bench;

my @names = ('ours, default', 'ours, audited');

sql($contestant{$_}{cluster}, 'CREATE TABLE audit (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v integer)')
	for @names;

# Wait for the worker, so that it does not run beside the next measurement.
sub settle
{
	sleep 0.1 until $_[0] ne 'audited'
		|| sql('audited', 'SELECT waiting = 0 FROM snowflake_audit_status()');
	return;
}

# ---- one row in a transaction, including the client and the protocol ----

for my $clients (1, 8)
{
	my $each = ($quick ? 4000 : 40000) / $clients;
	my $script = "$dir/audit.sql";

	say_step("INSERT of single rows with an audit, $clients clients of pgbench");
	open my $out, '>', $script or die "$script: $!";
	print $out "INSERT INTO audit (v) VALUES (1);\n";
	close $out or die;
	my $v = rounds(15, map {
		my $cluster = $contestant{$_}{cluster};
		[ $_, sub {
			sql($cluster, 'TRUNCATE audit');
			sql($cluster, 'CHECKPOINT');
			my $log = `$bindir/pgbench -h $dir/$cluster -U postgres -n -M prepared -c $clients -j 2 -t $each -f $script postgres 2>&1`;
			my ($rate) = $log =~ /^tps = ([0-9.]+)/m or die $log;

			settle($cluster);
			return { rate => $rate };
		} ];
	} @names);
	record(work => 'audit', figure => "INSERT of single rows, $clients clients", names => \@names,
		unit => 'rows/s', better => 'more', ours => 'ours, audited', values => $v->{rate});
}

# ---- the end of a transaction alone ----

say_step('transactions of one ID, with an audit');
my $transactions = $quick ? 20000 : 200000;
my $v = rounds(15, map {
	my $cluster = $contestant{$_}{cluster};
	[ $_, sub {
		my $begun = time;

		sql($cluster, "DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP PERFORM snowflake_nextval(); COMMIT; END LOOP; END \$\$");
		my $took = 1e9 * (time - $begun) / $transactions;

		settle($cluster);
		return { time => $took };
	} ];
} @names);
record(work => 'audit', figure => 'transaction of one ID', names => \@names, unit => 'ns',
	ours => 'ours, audited', values => $v->{time});

1;
