# Servers lease their node ids from a registry in PostgreSQL. The registry is
# unreachable, has lost its data, or fails over.
#
# takes: 75 s
use SnowflakeTest;
use LeaseTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);

# One server has a longer reserve than the registry is ever away. The other one has the
# shortest reserve.
my $patient = start_holder('patient', "snowflake.lease_reserve = '10min'", "snowflake.lease_wait = '0'");
my $b = start_holder('b');
wait_for_lease($_, q{state = 'held'}) foreach $patient, $b;

# ---- the registry is away, for less and for more than the reserve ----

{
	my %from = map { $_->name => -s $_->logfile } $patient, $b;
	my %node_id = map { $_->name => lease_of($_, 'node_id') } $patient, $b;
	my $long = load_on($patient);
	my $load;

	$registry->stop('fast');
	wait_for_lease($_, 'problem IS NOT NULL') foreach $patient, $b;
	like_log($_, qr/WARNING:  snowflake SF203: node id from registry .*: The registry (?:answered|did not answer)/,
		$from{ $_->name }, $_->name . ': the log says at once that the registry is gone') foreach $patient, $b;
	my $until = query($patient, q{SELECT to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') FROM snowflake_lease()});
	like_log($patient, qr/HINT:  Do not restart this server before \Q$until\E\S*Z, unless the registry answers: until then it goes on making IDs\. If other servers lease elsewhere \(SHOW snowflake\.registry;\), set that here, and restart\. If not, start the registry's server/,
		$from{patient}, 'and until when IDs are made, unless somebody restarts the server');
	make_ids($patient, 1000);
	$registry->start;
	wait_for_lease($_, 'problem IS NULL') foreach $patient, $b;

	$registry->stop('immediate');
	set_lease($b, 'wait', 0);
	$load = load_on($b);
	wait_for_lease($b, 'until < clock_timestamp()');
	refused($b, $next, '55000', qr/$none.*The registry (?:answered|did not answer).*HINT:/s,
		'when the reserve is used up it is refused');
	refused($b, 'SELECT snowflake_ready()', '55000', $none, 'and not ready');
	like_log($b, qr/SF207: [^\n]*has expired[^\n]*\n[^\n]*HINT:  If other servers lease elsewhere .*, start the registry's server/, $from{b}, 'the log does not say that IDs are made');
	unlike(lease_of($b, 'remedy'), qr/goes on making IDs/, 'nor does the status');
	set_lease($b, 'wait', 3600000);
	my ($id, $error) = ('', '');
	my $call = call_as($b, 'waiter', \$id, \$error);
	my $waits = q{FROM pg_stat_activity WHERE application_name = 'waiter' AND }
	  . waits_for($b, 'SnowflakeLease');
	$b->poll_query_until('postgres', "SELECT count(*) = 1 $waits")
	  or die 'nobody waits';
	is(query($b, "SELECT pg_cancel_backend(pid) $waits"), 't', 'a call waits');
	$call->finish;
	like($error, qr/due to user request\nCONTEXT:  waiting until .* for a lease of a node id: \S/, 'and can be cancelled; the error says for what it waited');
	$call = call_as($b, 'waiter', \$id, \$error);
	$b->poll_query_until('postgres', "SELECT count(*) = 1 $waits")
	  or die 'nobody waits';
	make_ids($patient, 1000);
	is(lease_of($patient, 'state'), 'held', 'with a reserve that is not used up it goes on without');
	$registry->start;
	$call->finish;
	like($id, qr/^\d+$/, 'and is over when the registry is back') or diag($error);
	$checker->saw('all servers, node', $id =~ /(\d+)/);
	$load->more(1000);
	is(refusals_of($load), '55000', 'load over all that met refusals only');
	wait_for_lease($patient, 'problem IS NULL');
	$long->more(1000);
	is(refusals_of($long), '', 'and none with a reserve that is not used up');
	is(lease_of($_, 'node_id'), $node_id{ $_->name }, $_->name . ': with the node that it had') foreach $patient, $b;
	set_lease($b, 'wait', 60000);
	$patient->stop;
}

# ---- the registry has lost data ----

{
	# a server that has held a node id there knows that the empty registry is not new,
	# also if the setting spells it differently now
	query($b, q{ALTER SYSTEM SET snowflake.registry = '} . query($b, 'SHOW snowflake.registry') . q{&connect_timeout=30'});
	$b->restart;
	wait_for_lease($b, q{state = 'held'});
	my $offset = -s $b->logfile;

	query($registry, 'TRUNCATE snowflake_registry.registry, snowflake_registry.slot');
	wait_for_lease($b, q{problem ~ 'The registry is empty'});
	like_log($b, qr/WARNING:  snowflake SF208: .*The registry is empty.*HINT:  [^\n]*see "Another registry" in doc\/leases\.md/s,
		$offset, 'all data is lost: the log says at once what to do');
	my ($former) = lease_of($b, 'remedy') =~ /interval '600 s', interval '5 s', '([0-9a-f]{16})'$/ or die 'not the reserve that another server had not long ago';
	# long enough that the wait is seen, however late the server reads the registry
	query($registry, "BEGIN; SELECT snowflake_registry.init('$layout'); SELECT snowflake_registry.recover('20 s', '2 s', '$former'); COMMIT");
	wait_for_lease($b, q{problem ~ 'After its recovery the registry lets no server claim'});
	my $from = lease_of($b, 'problem') =~ /before (\S+)\./ ? $1 : die 'no time';
	wait_for_lease($b, q{state = 'held'});
	my @late = make_ids($b, 100);
	is(query($b, "SELECT snowflake_timestamp($late[0]) >= '$from'"), 't',
		'after its recovery nothing is made before the floor');
}

# ---- the registry fails over ----

{
	$registry->stop;
	$registry->set_standby_mode;
	$registry->start;
	wait_for_lease($b, q{problem ~ 'recovery is in progress|read-only transaction'});
	$registry->promote;
	wait_for_lease($b, q{problem ~ 'on another server or timeline'});
	query($registry, q{SELECT snowflake_registry.recover('10 s', '2 s')});
	wait_for_lease($b, q{problem ~ 'After its recovery'});
	like_log($b, qr/is lost: the registry is not the one that it was/, 0,
		'a registry that was recovered: the lease is lost');
	wait_for_lease($b, q{state = 'held'});
	make_ids($b, 100);
}

# ---- a registry that has lost nothing is recovered ----

{
	set_lease($b, 'reserve', 18000);
	wait_for_lease($b, q{until > clock_timestamp() + interval '10 s'});
	my ($node_id, $until) = (lease_of($b, 'node_id'), lease_of($b, 'until'));
	my $load = load_on($b);
	my $floor = query($registry, q{SELECT snowflake_registry.recover('18 s', '1 s')});

	wait_for_lease($b, q{problem ~ 'The registry was recovered'});
	make_ids($b, 1000);
	# a renewal may have come between the reading and the recovery
	is(query($b, qq{SELECT state, node_id, until >= '$until', next_renewal IS NULL FROM snowflake_lease()}),
		"held|$node_id|t|t", 'the server uses up what it had reserved');
	wait_for_lease($b, 'problem IS NULL');
	my @late = make_ids($b, 100);
	is(query($b, "SELECT snowflake_timestamp($late[0]) >= '$floor'"), 't', 'and leases again at the floor');
	$load->more(1000);
	is(refusals_of($load), '', 'no call has failed meanwhile');
}

$b->stop;
$registry->stop;
$checker->clients;
done_testing();
