# The portable functions compared with Instagram's PL/pgSQL function, which is the usual
# choice where no library can be loaded. The latter is measured as Instagram published
# it, and in a faster form.

use strict;
use warnings;
use Bench;

my $portable = 'portable';
my @usual = (
	[ 'Instagram, as published', 'instagram_published()' ],
	[ 'Instagram, PL/pgSQL', 'instagram_id()' ]);
my $batch = 'portable, batches of 1000';
my $rows = 1000;

for my $clients (1, 8)
{
	my $of = $clients == 1 ? '1 client' : "$clients clients";

	say_step("portable functions, $of");
	my $v = rounds(7, map {
		my ($name, $query) = @$_;
		[ $name, sub {
			my $r = loop('default', $clients, $query, $rows, $quick ? 200 : 600);
			return { rate => $r->{rate} };
		} ];
	} [ $batch, "SELECT count(b) FROM (SELECT portable.snowflake_nextval_batch($rows) AS b) s" ],
	map { [ $_->[0], "SELECT count($_->[1]) FROM (SELECT generate_series(1, $rows)) s" ] }
		[ $portable, 'portable.snowflake_nextval()' ], @usual);
	record(work => 'portable', figure => $of, unit => 'IDs/s', better => 'more',
		ours => $portable, names => [ $portable, (map { $_->[0] } @usual), $batch ],
		values => $v->{rate});
}

1;
