# Backends that ask for more IDs than the layout has, such as 4,096 per ms: which share
# of that capacity they get, how much CPU time an ID takes, and whether all backends
# get equally many.

use strict;
use warnings;
use Bench;

my %capacity = ('ours, default' => 4_096_000, 'ours, Instagram' => 1_024_000,
	'ours, JavaScript' => 32_000);

for my $clients (1, 8)
{
	my $of = $clients == 1 ? '1 client' : "$clients clients";
	my @names = ('ours, wide', sort keys %capacity);

	say_step("capacity, $of");
	my $v = rounds(5, map {
		my ($name, $c) = ($_, $contestant{$_});
		my $rows = $c->{slow} ? 100 : 2000;
		[ $name, sub {
			my $r = loop($c->{cluster}, $clients,
				"SELECT count($c->{call}) FROM (SELECT generate_series(1, $rows) AS i) s",
				$rows, $quick ? 200 : 2000);
			return {
				cpu => $r->{cpu_ns}, fairness => $r->{fairness},
				share => $r->{rate} * 100 / ($capacity{$name} // 65_536_000) };
		} ];
	} @names);
	record(work => 'capacity', figure => "share, $of",
		names => \@names, unit => '% of the capacity', better => 'more',
		values => $v->{share});
	record(work => 'capacity', figure => "CPU, $of",
		names => \@names, unit => 'ns/ID', ours => 'ours, wide',
		values => $v->{cpu});
	record(work => 'capacity', figure => "slowest of fastest, $of",
		names => \@names, unit => 'of 1', better => 'more',
		values => $v->{fairness}) if $clients > 1;
}

1;
