# Servers that lease their node ids, and their clocks. Each server has its own clock,
# up to 20 s wrong, while slots change hands. The registry is away for 30 minutes,
# which take seconds by the real clock.
#
# takes: 37 s
use SnowflakeTest;
use Time::HiRes qw(usleep time);
use IdChecker;
use Load;

my $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "/s;

# ---- servers ----

# Two slots. Together they have 2**13 IDs in a millisecond.
my $layout = 'timestamp:41 node:1 sequence:12 epoch:2024-01-01';
my $shift = 13;

my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");

sub new_registry
{
	my ($name) = @_;
	my $registry = PostgreSQL::Test::Cluster->new($name);

	$registry->init;
	return $registry;
}

sub initialize
{
	my ($registry) = @_;

	query($registry, "CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.init('$layout')");
	return;
}

# Make a server for this registry. Its data directory is copied from one that is made
# once.
my $origin;

sub new_holder
{
	my ($registry, $name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	if (!$origin)
	{
		$origin = start_server('origin', "snowflake.layout = '$layout'");
		$origin->backup('backup');
		$origin->stop;
	}
	$node->init_from_backup($origin, 'backup');
	$node->append_conf('postgresql.conf', join("\n", "snowflake.node_id = ''",
		sprintf("snowflake.registry = 'postgresql:///postgres?host=%s&port=%d'",
			$registry->host, $registry->port),
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'",
		"snowflake.lease_timeout = '1s'", 'snowflake.lease_wait = 0',
		"snowflake.max_clock_wait = '20s'", @settings, ''));
	return $node;
}

# ---- each server has a clock of its own ----

my $registry = new_registry('registry');
$registry->start;
initialize($registry);
my %node = map { $_ => new_holder($registry, $_) } qw(far_behind behind right ahead far_ahead);
my %offset = (far_behind => -20, behind => -3, right => 0, ahead => 3, far_ahead => 20);
my %clock = map { $_ => new_clock("$PostgreSQL::Test::Utils::tmp_check/clock_$_") } keys %node;
my (%load, %errors);

# Set a server's clock to this many seconds from the real time.
sub set_clock_of
{
	my ($name, $seconds) = @_;

	write_clock($clock{$name}, 'set_ms', 1000 * $seconds);
	return;
}

sub start_node
{
	my ($name) = @_;

	set_clock_of($name, $offset{$name});
	start_by_clock($node{$name}, $clock{$name});
	$load{$name} = start_trickle($checker, 'clocks', $node{$name}->connstr('postgres'));
	return;
}

sub finish_load
{
	my ($name) = @_;

	%errors = (%errors, %{ $load{$name}->finish });
	return;
}

# Beyond 5 s no server gets a slot, although all are free.
foreach (
	[ 'far_behind', qr/$none.*The wall clock is (?:19|20|21) s behind that of the registry\..*HINT:  Set the server's clock right/s ],
	[ 'far_ahead', qr/$none.*The wall clock is (?:19|20|21) s ahead of that of the registry\./s ])
{
	my ($name, $pattern) = @$_;

	start_node($name);
	wait_for_lease($node{$name}, q{problem ~ 'wall clock'});
	refused($node{$name}, $next, '55000', $pattern, "$name: no slot, and it is said why");
}
is(query($registry, 'SELECT count(*) FROM snowflake_registry.slots()'), '0', 'none was claimed');

# Below 5 s there is a warning from 200 ms on.
start_node('ahead');
wait_for_lease($node{ahead}, q{state = 'held'});
start_node('right');
wait_for_lease($node{right}, q{state = 'held'});
start_node('behind');
wait_for_lease($node{behind}, q{problem ~ 'are taken'});
like_log($node{ahead}, qr/WARNING:  .*The wall clock is [23]\d\d\d ms ahead of that of the registry\.\n/, 0, 'ahead: a warning');
like_log($node{behind}, qr/WARNING:  .*The wall clock is [23]\d\d\d ms behind that of the registry\.\n/, 0, 'behind: a warning');
unlike(slurp_file($node{right}->logfile), qr/ms (?:ahead of|behind) that of the registry/, 'right: none');

# One server stops, and the waiting server takes its slot. Whatever its clock says, it
# begins above the IDs issued and, after a crash, above the reserved time.
sub hand_over
{
	my ($from, $to, $how) = @_;
	my $slot = lease_of($node{$from}, 'node_id');
	my $what = "$from to $to, $how";

	$load{$from}->more(100);
	my $until = query($registry, "SELECT until FROM snowflake_registry.slot WHERE slot = $slot");
	$node{$from}->stop($how);
	finish_load($from);
	my ($last) = grep { /^\d{15}/ } reverse $load{$from}->ids;
	wait_for_lease($node{$to}, q{state = 'held'});
	is(lease_of($node{$to}, 'node_id'), $slot, "$what: it has the slot");
	my $first = query($node{$to}, $next);
	cmp_ok($first, '>', $last, "$what: it begins above what was issued");
	cmp_ok($first >> $shift, '>=', $until, "$what: and above what was reserved") if $how eq 'immediate';
	$checker->saw('clocks, node', $first);
	$load{$to}->more(100);
	start_node($from);
	wait_for_lease($node{$from}, q{problem ~ 'are taken'});
	return;
}

hand_over('ahead', 'behind', 'fast');
hand_over('right', 'ahead', 'fast');
hand_over('behind', 'right', 'fast');
hand_over('ahead', 'behind', 'immediate');

# The clock of a server that has a slot is set.
{
	my $from = -s $node{behind}->logfile;

	set_clock_of('behind', 20);
	wait_for_lease($node{behind}, q{state = 'halted' AND problem ~ 'ahead of that of the registry; most other servers agreed with that clock'});
	refused($node{behind}, $next, '55000', $none, 'a clock that is set far ahead: it issues nothing');
	like_log($node{behind}, qr/The process was frozen, or the wall clock was set/, $from, 'the log says so');
	set_clock_of('behind', -3);
	wait_for_lease($node{behind}, q{state = 'held' AND problem IS NULL});
	$load{behind}->more(100);
	pass('and goes on when it is right again');
}
is(query($node{$_}, q{SELECT state <> 'held' FROM snowflake_lease()}), 't', "$_ has had none")
  foreach 'far_behind', 'far_ahead';
finish_load($_) foreach sort keys %load;
is(join(' ', sort keys %errors), '55000', 'clients have met nothing but refusals');
$node{$_}->stop foreach sort keys %node;
$registry->stop;

# ---- an outage of 30 minutes ----

# The registry and the servers share one clock, which the test moves on. A worker that
# does not see the clock for 3 s takes itself for frozen. So the clock waits for the
# worker at each step, and once a minute until clients have made IDs.
my $clock = new_clock("$PostgreSQL::Test::Utils::tmp_check/clock_moved");
my ($ahead_ms, $step_ms) = (0, 1000);

sub move_on
{
	my ($minutes, $pid, $load) = @_;
	my $end = $ahead_ms + $minutes * 60000;

	write_clock($clock, 'nap_ms', 1);
	write_clock($clock, 'watched', $pid);
	while ($ahead_ms < $end)
	{
		my $last = time() + $PostgreSQL::Test::Utils::timeout_default;

		write_clock($clock, 'ahead_ms', $ahead_ms += $step_ms);
		until (read_clock($clock, 'seen_ms') == $ahead_ms)
		{
			die 'the worker does not look at the clock' if time() > $last;
			usleep(200);
		}
		# of six calls, up to three may have begun before
		$load->more(6) if $ahead_ms % 60000 == 0;
	}
	write_clock($clock, 'nap_ms', 0);
	return;
}

# Return the minute in which an ID was made.
sub minute_of { my ($id) = @_; return int(($id >> $shift) / 60000) }

$registry = new_registry('outage');
start_by_clock($registry, $clock);
initialize($registry);

# The second server wants the slot that the first one has, and no other.
my ($holder, $heir) = map { new_holder($registry, $_, "snowflake.lease_reserve = '1h'") } qw(holder heir);
start_by_clock($holder, $clock);
wait_for_lease($holder, q{state = 'held'});
my $slot = lease_of($holder, 'node_id');
$heir->append_conf('postgresql.conf', "snowflake.node_id = '$slot'");
start_by_clock($heir, $clock);
wait_for_lease($heir, q{problem ~ 'is held by'});
my $load = start_trickle($checker, 'outage', $holder->connstr('postgres'));
$load->more(100);

my $until = lease_of($holder, 'until');
my $from = query($holder, $next);
my $before = $load->count;
my $log = -s $holder->logfile;
$registry->stop('immediate');
move_on(30, lease_of($holder, 'pid'), $load);
my $last = answer($holder, $next);
like($last, qr/^\d+$/, 'an outage of 30 minutes: it goes on') or die;
$checker->saw('outage, node', $from, $last);
cmp_ok(minute_of($last) - minute_of($from), '>=', 30, 'the registry is gone for 30 minutes');
is(lease_of($holder, "state || ' ' || (until = '$until')"), 'held true', 'the lease is what it was');
isnt(lease_of($holder, 'problem'), '', 'it knows of the outage');
my @warnings = slurp_file($holder->logfile, $log) =~ /WARNING:  snowflake SF203: node id from registry/g;
cmp_ok(@warnings, '>=', 25, 'and says so every minute');
cmp_ok($load->count - $before, '>', 0, 'an outage of 30 minutes: ' . ($load->count - $before) . ' IDs meanwhile');
my %minutes = map { minute_of($_) => 1 } $load->ids;
is(join(' ', grep { !$minutes{$_} } minute_of($from) .. minute_of($last)), '', 'some in each minute');

start_by_clock($registry, $clock);
wait_for_lease($holder, "problem IS NULL AND until > '$until'");
is(lease_of($holder, 'node_id'), $slot, 'it is back: the lease goes on');
wait_for_lease($heir, q{problem ~ 'is (?:held|reserved until .*) by'});
is(lease_of($heir, 'state'), 'searching', 'who waits for its slot has not got it');
$load->more(100);
is(join(' ', keys %{ $load->finish }), '', 'no call was refused');
$holder->stop;
wait_for_lease($heir, q{state = 'held'});
$load = start_trickle($checker, 'outage', $heir->connstr('postgres'));
$load->more(100);
$load->finish;
$heir->stop;
$checker->clients;
done_testing();
