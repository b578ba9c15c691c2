# The life of one lease of a node id: claimed, extended, released, and claimed again.
#
# takes: 15 s
# quick
use SnowflakeTest;
use LeaseTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);

# It extends its lease soon, and stays present also on a busy machine.
my $a = start_holder('a', 'restart_after_crash = on', "snowflake.lease_reserve = '5s'",
	"snowflake.lease_presence = '30s'", "snowflake.lease_timeout = '10s'");
wait_for_lease($a, q{state = 'held'});
my $slot = lease_of($a, 'node_id');
my @ids = make_ids($a, 100);
is(query($a, "SELECT DISTINCT snowflake_node(id) FROM unnest('{"
	  . join(',', @ids) . "}'::bigint[]) id"), $slot, 'IDs carry the leased node');
wait_until_extended($a);
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

# ---- the configuration loses the registry ----

sub status_of
{
	return query($a, q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'node id'});
}

# Configure a registry, or none, and this node id.
sub set_registry
{
	my ($registry, $node_id) = @_;

	$a->adjust_conf('postgresql.conf', $_, undef) foreach ('snowflake.registry', 'snowflake.node_id');
	$a->append_conf('postgresql.conf', "snowflake.registry = '$registry'") if $registry;
	$a->append_conf('postgresql.conf', "snowflake.node_id = '$node_id'") if $node_id ne '';
	return;
}

sub reload_with
{
	my ($pattern, $registry, $name, $node_id) = @_;

	set_registry($registry, $node_id // '');
	$a->reload;
	$a->poll_query_until('postgres', qq{SELECT found ~ '$pattern' FROM snowflake_status() WHERE check_name = 'node id'})
	  or die "$name: " . status_of();
	pass($name);
	return;
}

my $url = query($a, 'SHOW snowflake.registry');
reload_with('registry is gone from the configuration files: after a restart, calls are refused', undef,
	'a reload without the registry shows');
like(status_of(), qr/^warning\|$slot is leased; .*\|Put snowflake.registry back into \S*postgresql.conf, and run: SELECT pg_catalog\.pg_reload_conf/,
	'with what to do');
reload_with('^\d+ is leased from', $url, 'which the remedy mends');
reload_with('name another registry', 'postgresql://elsewhere/x', 'another registry shows, too');
like(status_of(), qr/\|Put snowflake\.registry back into \S*postgresql\.conf, and run: ALTER SYSTEM RESET snowflake\.registry; SELECT pg_catalog\.pg_reload_conf\(\); If the other one is another registry, this server makes no IDs after a restart, before you do what the check "lease" then says\.$/,
	'and what comes after a restart');
reload_with('^\d+ is leased from', $url, 'until the old one is put back');
query($a, q{ALTER SYSTEM SET snowflake.registry = ''});
reload_with('registry is empty in the configuration files: after a restart, calls are refused', $url, 'one that ALTER SYSTEM makes empty');
query($a, $_) foreach status_of() =~ /([A-Z]+ SYSTEM [^;]*;|SELECT [^;]*;)/g;
reload_with('^\d+ is leased from', $url, 'until the remedy is typed');

# a number in the configuration, which a server that leases takes at its next start
my $wanted = ($slot + 1) % 4;
my $waits = qr/^warning\|$slot; in the configuration files snowflake\.node_id is $wanted, which waits for a restart\|To take the number $wanted, leave it in the files, and restart the server\. To keep the old one, add this line to \S+postgresql\.conf:\n(.*)\nand run:\n(.*)$/s;
reload_with('waits for a restart', $url, 'a number waits for a restart', $wanted);
like(status_of(), $waits, 'with what to do');
my ($line, $run) = status_of() =~ $waits;
$a->append_conf('postgresql.conf', $line);
query($a, $run);
$a->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'node id'})
  or die status_of();
is(lease_of($a, 'node_id'), $slot, 'how to keep the old one');
set_registry($url, $wanted);
$a->restart;
wait_for_lease($a, q{state = 'held'});
is(lease_of($a, 'node_id'), $wanted, 'how to take it');
make_ids($a, 100);
$slot = $wanted;

# a new worker knows it, too, if it inherits no memory (EXEC_BACKEND)
reload_with('unset, which waits', $url, 'a number whose line is gone stays');
crash($a, 'background writer');
wait_for_lease($a, q{state = 'held'});
is(lease_of($a, 'node_id'), $slot, 'also over a crash of a process');
make_ids($a, 100);

set_registry(undef, $slot);
my $from = -s $a->logfile;
$a->restart;
my $lost = qr/this server has leased its node id, and snowflake.registry is not set/;
my $remedy = qr/Set snowflake.registry in \S*postgresql.conf again, .*restart this server. Only if no server leases .*accept\('node_id'::pg_catalog\.text\)/;
like_log($a, qr/WARNING:  snowflake SF505: $lost\n.*HINT:  $remedy/, $from, 'a start without it is logged');
refused($a, $next, '55000', qr/$lost\n.*DETAIL:  The registry may lease any node id.*HINT:  $remedy/s,
	'a configured node id alone is refused');
like(status_of(), qr/^error\|$lost\|$remedy/, 'and the status says why');
set_registry($url, '');
$a->restart;
wait_for_lease($a, q{state = 'held'});
make_ids($a, 100);
refused($a, q{SET ROLE pg_monitor; SELECT snowflake_accept('node_id')}, '42501', qr/permission denied/,
	'not everybody gives the registry up');
my (undef, undef, $err) = $a->psql('postgres', q{SELECT snowflake_accept('node_id')});
like($err, qr/NOTICE:  nothing to accept/, 'nobody does while the server leases');

# given up for good, in the order of doc/leases.md: first the registry confirms the number
set_registry($url, $slot);
$a->restart;
wait_for_lease($a, q{state = 'held'});
is(query($a, q{SELECT state, node_id, current_setting('snowflake.node_id') FROM snowflake_lease()}), "held|$slot|$slot",
	'it leases the number that is configured');
make_ids($a, 100);
set_registry(undef, $slot);
$a->restart;
refused($a, $next, '55000', $lost, 'once more');
(undef, undef, $err) = $a->psql('postgres', q{SELECT snowflake_accept('node_id')});
like($err, qr/WARNING:  this server now takes its node id from snowflake.node_id\n.*both servers issue the same IDs.*HINT:  If another server still leases, set/s,
	'an administrator gives the registry up, and is told what follows');
make_ids($a, 100);
like(status_of(), qr/^ok\|$slot is configured/, 'the configured node id is taken');
$a->restart;
make_ids($a, 100);
$a->stop;

# ---- a registry that cannot be used ----

# its worker ends again and again, and the next one starts after 2 s
my $unusable = new_holder('unusable', "snowflake.lease_wait = '60s'");
$unusable->append_conf('postgresql.conf', "snowflake.registry = 'etcd://127.0.0.1/p?unknown=1'");
$unusable->start;
query($unusable, 'CREATE EXTENSION snowflake');

# Wait until the worker has ended so often; then return until when a call waits.
sub waits_until
{
	my ($times) = @_;

	wait_until { (() = slurp_file($unusable->logfile) =~ /snowflake\.registry cannot be used/g) >= $times } "the worker ends $times times";
	my ($until) = refused($unusable, "SET statement_timeout = '500ms'; $next", '57014', qr/waiting until .* for a lease of a node id/,
		"a registry that cannot be used, after $times workers") =~ /waiting until (\S+ \S+) for/;
	return $until;
}

my ($first, $later) = map { waits_until($_) } 1, 3;
is(query($unusable, "SELECT '$later'::timestamptz < '$first'::timestamptz + interval '1 s'"), 't', '... which is no longer than for the first one');
$unusable->stop;
$checker->clients;
done_testing();
