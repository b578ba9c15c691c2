# The clock is 8,000 s ahead when a call reads it, and right when the call moves the
# mark: the mark does not follow the wrong reading, and a crash has no consequences.
#
# takes: 10 s
# needs: fault_points
use SnowflakeTest;
use FaultPoints;

my $node = new_server('jump');

start_with_clock($node, 0);
query($node, "CREATE EXTENSION snowflake; $next");
set_clock($node, 8000);
refused($node, $next, '58000', qr/wall clock jumped forward/, 'a jump of 2 h 13 min is refused');
my $victim = start_one($node, 'clock-look stop', \my $out, \my $err, $next);
my $pid = wait_for_stopped($node, $next);
set_clock($node, 0);
go_on($victim, $pid);
like($out, qr/^\d+$/, 'the call goes on with the right clock');
is(query($node, q{SELECT to_timestamp(last_value / 1000.0) - now() < interval '1 min' FROM snowflake_state.snowflake_mark}),
	't', 'the mark is not moved to the wrong time');
$node->kill9;
start_with_clock($node, 0);
like(query($node, $next), qr/^\d+$/, 'after a crash the server makes IDs');
$node->stop;
done_testing();
