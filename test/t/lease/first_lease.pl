# The life of one lease of a node id: claimed, extended, released, and claimed again.
#
# takes: 5 s
# quick
use strict;
use warnings FATAL => 'all';
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use LeaseTest;
use SnowflakeTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);

grant_registry();
query($registry, "SELECT snowflake_registry.init('$layout')");

# It extends its lease soon, and stays present also on a busy machine.
my $a = start_holder('a', "snowflake.lease_reserve = '5s'",
	"snowflake.lease_presence = '30s'", "snowflake.lease_timeout = '10s'");
wait_for_lease($a, q{state = 'held'});
my $slot = lease_of($a, 'node_id');
my @ids = make_ids($a, 100);
is(query($a, "SELECT DISTINCT snowflake_node(id) FROM unnest('{"
	  . join(',', @ids) . "}'::bigint[]) id"), $slot, 'IDs carry the leased node');
my $until = lease_of($a, 'until');
wait_for_lease($a, "until > '$until'");
pass('it is extended');
make_ids($a, 100);
is(query($registry, "SELECT slot, present, released FROM snowflake_registry.slots()"),
	"$slot|t|f", 'the registry lists it');
$a->stop;
is(query($registry, 'SELECT present, released FROM snowflake_registry.slots()'),
	'f|t', 'a clean stop gives it back');
is(query($registry, 'SELECT until <= clock_timestamp() FROM snowflake_registry.slots()'),
	't', 'up to what was issued');
$a->start;
wait_for_lease($a, q{state = 'held'});
is(lease_of($a, 'node_id'), $slot, 'and it is claimed again');
make_ids($a, 100);
$a->stop;
$checker->clients;
done_testing();
