# A leased node id changes to a lower one, and a horizon is computed between the end of
# the old ticks and the first ID of the new node: no ID lies below that horizon.
#
# takes: 15 s
# needs: fault_points libpq-dev
use SnowflakeTest;
use Time::HiRes qw(usleep);
use FaultPoints;
use LeaseTest;

# With long ticks the node decides which of two IDs is lower.
my $layout = 'timestamp:38 node:1 sequence:16 tick:1s epoch:2024-01-01';
my @settings = ("snowflake.lease_reserve = '60s'", "snowflake.lease_presence = '60s'",
	"snowflake.lease_timeout = '10s'", "snowflake.max_clock_drift = '1s'");
my ($registry) = new_registry($layout);
my ($low, $high);

foreach my $name ('a', 'b')
{
	my $node = start_holder($name, @settings);

	wait_for_lease($node, q{state = 'held'});
	(lease_of($node, 'node_id') == 0 ? $low : $high) = $node;
}
set_lease($high, 'wait', 0);
my $session = $high->background_psql('postgres', on_error_stop => 0);

# The worker stops where the ticks have ended, once node id 1 is lost and 0 is free.
alter_system($high, q{SET snowflake.fault = 'ticks-ended stop'});
my $worker = lease_of($high, 'pid');
$low->stop;
query($registry, 'SELECT snowflake_registry.release(1)');
for (my $tries = 0; !is_frozen($worker); $tries++)
{
	die 'the worker does not change its node id' if $tries > 60_000;

	# make IDs of node 1 up to the end: only then is the horizon in the next tick
	$session->query($next);
	usleep(2_000);
}
my $horizon = $session->query('SELECT snowflake_horizon()');
my $id = '';
kill 'CONT', $worker;
$id = $session->query($next) until $id;
cmp_ok($id, '>=', $horizon, 'no ID lies below a horizon that was given');
is(lease_of($high, 'node_id'), 0, 'the node id has changed');
$session->quit;
$_->stop foreach $high, $registry;
done_testing();
