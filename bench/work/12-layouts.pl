# A layout that the call names, against the configured one; and clients with a layout
# each, against clients that share one.

use strict;
use warnings;
use Bench;

my $ms = $quick ? 100 : 400;
my $rows = 10000;
my $wide = 'timestamp:41 node:6 sequence:16';

# Run a call in several backends at a time.
sub backends
{
	my ($name, $clients, $call) = @_;

	return [ $name, sub {
		my $r = loop('wide', $clients,
			"SELECT count($call) FROM (SELECT generate_series(1, $rows)) s", $rows, $ms);
		return { rate => $r->{rate}, cpu => $r->{cpu_ns} };
	} ];
}

say_step('layouts that calls name');

# each connection has a function of its own, which the planner replaces by its body
foreach my $i (0 .. 7)
{
	db('wide', $i)->do(sprintf "CREATE OR REPLACE FUNCTION pg_temp.own() RETURNS bigint"
		. " LANGUAGE sql VOLATILE AS \$\$ SELECT snowflake_nextval('%s epoch:2024-01-%02d') \$\$",
		$wide, $i + 1);
}

my $v = rounds(5, backends('named', 1, "snowflake_nextval('$wide')"),
	backends('configured', 1, 'snowflake_nextval()'));
record(work => 'layouts', figure => 'CPU, 1 client', names => [ 'named', 'configured' ],
	unit => 'ns/call', ours => 'named', values => $v->{cpu});

$v = rounds(5, backends('a layout each', 8, 'pg_temp.own()'),
	backends('one layout', 8, 'snowflake_nextval()'));
record(work => 'layouts', figure => '8 clients', names => [ 'a layout each', 'one layout' ],
	unit => 'calls/s', better => 'more', ours => 'a layout each', values => $v->{rate});

1;
