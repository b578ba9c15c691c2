# What snowflake_audit costs: transactions that insert one row, and transactions that
# make one ID and write nothing. The two servers differ in nothing else. The ring has
# room for all records of a round, so none is dropped.

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
		|| sql('audited', 'SELECT waiting = 0 FROM snowflake_audit.status()');
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

# Return the time for which a process had a processor, in ns.
sub processor_ns
{
	my ($pid) = @_;

	open my $in, '<', "/proc/$pid/schedstat" or die "/proc/$pid/schedstat: $!";
	return (split ' ', <$in>)[0];
}

# Run so many transactions of one statement, and return what each of them takes of a
# processor: in the session, and in the worker until it has written their records.
sub cost
{
	my ($cluster, $statement, $transactions) = @_;
	my $pid = sql($cluster, 'SELECT pg_backend_pid()');
	my $worker = $cluster eq 'audited' && sql($cluster, 'SELECT pid FROM snowflake_audit.status()');
	my $begun = processor_ns($pid);
	my $worker_begun = $worker && processor_ns($worker);

	sql($cluster, "DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP $statement; COMMIT; END LOOP; END \$\$");
	my $took = processor_ns($pid) - $begun;

	settle($cluster);
	return { session => $took / $transactions,
		worker => $worker ? (processor_ns($worker) - $worker_begun) / $transactions : 0 };
}

foreach ([ 'transaction of one ID', 'PERFORM snowflake_nextval()', 60000 ],
	[ 'transaction of one row', 'INSERT INTO audit (v) VALUES (1)', 20000 ])
{
	my ($what, $statement, $transactions) = @$_;

	say_step("a $what, with an audit");
	$transactions /= 10 if $quick;
	my $v = rounds(25, map {
		my $cluster = $contestant{$_}{cluster};
		[ $_, sub {
			sql($cluster, 'TRUNCATE audit');
			return cost($cluster, $statement, $transactions);
		} ];
	} @names);
	record(work => 'audit', figure => "$what, CPU of the session", names => \@names, unit => 'ns',
		ours => 'ours, audited', values => $v->{session});
	record(work => 'audit', figure => "$what, CPU of the worker", names => ['ours, audited'], unit => 'ns',
		ours => 'ours, audited', values => $v->{worker});
}

1;
