# What a leased node id costs a call, while the lease is healthy: the same
# layout, and a registry in another server's database.

use strict;
use warnings;
use Bench;

if (!$contestant{'ours, leased'})
{
	left_out('a leased node id: there is no libpq to build the registry with');
	return 1;
}

my $rows = 10000;

for my $clients (1, 8)
{
	my $of = $clients == 1 ? '1 client' : "$clients clients";
	my @names = ('ours, leased', 'ours, wide');

	say_step("a leased node id, $of");
	my $v = rounds(9, map {
		my $c = $contestant{$_};
		[ $_, sub {
			my $r = loop($c->{cluster}, $clients,
				"SELECT count($c->{call}) FROM (SELECT generate_series(1, $rows) AS i) s",
				$rows, $quick ? 200 : 1000);
			return { rate => $r->{rate}, cpu => $r->{cpu_ns} };
		} ];
	} @names);
	record(work => 'lease', figure => $of, names => \@names,
		unit => 'calls/s', better => 'more', ours => 'ours, leased',
		values => $v->{rate});
	record(work => 'lease', figure => "CPU, $of", names => \@names,
		unit => 'ns/call', ours => 'ours, leased', values => $v->{cpu});
}

1;
