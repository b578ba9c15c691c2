# What two features cost in each call: a leased node id, with a healthy lease and the
# registry in another server's database; and the counts of IDs.

use strict;
use warnings;
use Bench;

my $rows = 10000;

left_out('a leased node id: there is no libpq to build the registry with')
	unless $contestant{'ours, leased'};

for my $clients (1, 8)
{
	my $of = $clients == 1 ? '1 client' : "$clients clients";
	my @names = grep { $contestant{$_} } 'ours, leased', 'ours, wide',
		'ours, not counted';

	say_step("what is ours alone, $of");
	my $v = rounds(9, map {
		my $c = $contestant{$_};
		[ $_, sub {
			my $r = loop($c->{cluster}, $clients,
				"SELECT count($c->{call}) FROM (SELECT generate_series(1, $rows) AS i) s",
				$rows, $quick ? 200 : 1000);
			return { rate => $r->{rate}, cpu => $r->{cpu_ns} };
		} ];
	} @names);
	for my $pair ([ lease => 'ours, leased', 'ours, wide' ],
		[ counting => 'ours, wide', 'ours, not counted' ])
	{
		my ($work, @of_them) = @$pair;

		next if grep { !$contestant{$_} } @of_them;
		record(work => $work, figure => $of, names => \@of_them,
			unit => 'calls/s', better => 'more', ours => $of_them[0],
			values => { map { $_ => $v->{rate}{$_} } @of_them });
		record(work => $work, figure => "CPU, $of", names => \@of_them,
			unit => 'ns/call', ours => $of_them[0],
			values => { map { $_ => $v->{cpu}{$_} } @of_them });
	}
}

1;
