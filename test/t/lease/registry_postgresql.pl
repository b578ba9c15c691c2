# A registry in PostgreSQL: what its library makes of requests, answers and
# errors, without the worker; and what administrators ask through the worker of
# a server. Needs what test/helpers/registry_driver builds.
#
# takes: 36 s
# needs: registry_driver
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use IO::Socket::INET;
use IPC::Run;
use Socket qw(:DEFAULT pack_sockaddr_in unpack_sockaddr_in);
use lib "$FindBin::RealBin/../../perl";
use RegistryDriver;
use SnowflakeTest;

my $driver = start_driver('postgresql');
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init(allows_streaming => 1);
$registry->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nmax_connections = 50");
$registry->start;

# As doc/leases.md says: what workers need, and what administrators do besides.
query($registry, q{
	CREATE SCHEMA "E x";
	CREATE EXTENSION snowflake SCHEMA "E x";
	SET search_path = "E x";
	CREATE ROLE worker LOGIN;
	GRANT USAGE ON SCHEMA "E x" TO worker;
	GRANT SELECT, UPDATE (id) ON snowflake_registry TO worker;
	GRANT SELECT, INSERT, UPDATE ON snowflake_registry_slot,
		snowflake_registry_shards TO worker;
	GRANT EXECUTE ON FUNCTION snowflake_registry_read, snowflake_registry_keep,
		snowflake_registry_write, snowflake_registry_write_shards TO worker});
my $url = sprintf('postgresql://worker@127.0.0.1:%d/postgres', $registry->port);
my $set = 'SET search_path = "E x";';

# ---- kinds of failure: each has a remedy of its own ----

query($registry, 'CREATE ROLE nobody; CREATE ROLE somebody LOGIN');
query($registry, 'CREATE DATABASE bare');
(my $nowhere = $url) =~ s/:\d+/:1/;
fails($nowhere, 'UNREACHABLE', 'read');
my $said = fails($url =~ s/worker/nobody/r, 'LOGIN', 'read');
like($said, qr/FATAL:  role "nobody" is not permitted to log in$/, 'the message has no SQLSTATE');
fails($url =~ s/postgres$/no_such/r, 'DATABASE', 'read');
fails($url =~ s/postgres$/bare/r, 'EXTENSION', 'read');
fails($url =~ s/worker/somebody/r, 'PERMISSION', 'read');
fails("$url?options=-cdefault_transaction_read_only%3Don", 'READ_ONLY', 'claim');

# ---- texts ----

my $w = $driver->background_psql('postgres');
foreach my $text ('u:pa@secret@h/x', 'u:pa/secret@h/x', 'u:2024/secret@h', 'u@h/secret@x')
{
	my $reason = try_open($w, "postgresql://$text");

	like($reason, qr/"@" is written as %40, and "\/" as %2F/, "postgresql://$text: $reason");
}
is(try_open($w, "postgresql://$_"), 'ok', "postgresql://$_")
  foreach 'u:a?b@h/x', '/x?host=/tmp&user=a@b', 'u:p%40%2f@h,g:1/x';
$w->quit;
$w = worker($url);

# ---- initialize ----

is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
asked($w, 'nothing to write shards in', 'CONFLICT', qr/^$/, 'shards', shards => 'x');
asked($w, 'nothing to recover', 'REFUSED', qr/permission denied for function snowflake_registry_renew/, 'recover');
asked($w, 'initialize', 'REFUSED', qr/permission denied for function snowflake_registry_begin/, 'initialize');
query($registry, "$set GRANT EXECUTE ON FUNCTION snowflake_registry_begin, snowflake_registry_renew TO worker");
asked($w, 'initialize', 'REFUSED', qr/permission denied for table snowflake_registry/, 'initialize');
query($registry, "$set GRANT INSERT, UPDATE ON snowflake_registry TO worker");
asked($w, 'nothing to recover', 'CONFLICT', qr/^$/, 'recover');
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'a registry, empty');
is(query($registry, "$set SELECT epoch_ms, tick_ms, (r.system_identifier, r.timeline) = (p)
	FROM snowflake_registry r, snowflake_registry_place() p"), '1000|10|t',
	'with what the layout says, and its place');
asked($w, 'initialize again', 'CONFLICT', qr/^$/, 'initialize', new_generation => 8);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'which changes nothing');
my $clock = ask($w, 'read')->{clock_ms} / 1000;
ok(abs($clock - time) < 60, 'says what time it is');

# ---- a slot ----

claim($w, 'of another generation', 'CONFLICT', generation => 8);
claim($w, 'of a record that is not there', 'CONFLICT', version => 3);
my $v = claim($w, 'claim', 'DONE');
my $line = "initialized 7 100 timestamp:41 sequence:22\n5: written epoch 3 owner 11 server 4 "
  . "write 21 until 1000 offset -5 held host 'here' process 6 since 7 address '127.0.0.1' present 11";
is(reading($w), $line, 'read as it was written');
claim($w, 'never written, but it was', 'CONFLICT', owner => 12, displaced => 11);
claim($w, 'of an older version', 'CONFLICT', owner => 12, displaced => 11, version => $v - 1);
claim($w, 'somebody else is present', 'CONFLICT', owner => 12, version => $v, displaced => 13);
asked($w, 'released, but somebody else is there', 'CONFLICT', qr/^$/, 'release', owner => 0,
	displaced => 13, version => $v);
is(reading($w), $line, 'nothing was written');
asked($w, 'released for who is there', 'DONE', qr/^$/, 'release', owner => 0, displaced => 11,
	version => $v, until => 1700);
like(reading($w), qr/^5: .* owner 0 .* until 1700 .* released .* address '127.0.0.1' present 0$/m,
	'nobody has it; the address stays');
asked($w, 'keep alive', 'ABSENT', qr/^$/, 'keepalive');
my $local = worker(sprintf('postgresql://worker@/postgres?host=%s&port=%d', $registry->host, $registry->port));
claim($local, "node $_", 'DONE', node => $_, owner => -1, write_id => -2, host => q{a"b\\c'd/<&>})
  foreach 10, 9, 0;
like(reading($w), qr/^10: .* owner -1 server 4 write -2 .* host 'a"b\\c'd\/<&>' .* address '' present -1$/m,
	'numbers and texts as they were written; no address on a local socket');
is(join(' ', reading($w) =~ /^(\d+):/mg), '0 5 9 10', 'by node');

# ---- a search_path of somebody else ----

# The database's owner may choose one, and what is in it.
query($registry, q{
	CREATE SCHEMA trap;
	GRANT USAGE ON SCHEMA trap TO worker;
	CREATE FUNCTION trap.trap(oid, oid) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE OPERATOR trap.= (FUNCTION = trap.trap, LEFTARG = oid, RIGHTARG = oid);
	ALTER DATABASE postgres SET search_path = trap, pg_catalog});
refused($registry, 'SELECT 1::oid = 1::oid', 'P0001', qr/trapped/, 'a trap works');
my $trapped = worker($url);
like(reading($trapped), qr/^initialized /, 'a worker uses nothing of it');
$trapped->quit;
query($registry, 'ALTER DATABASE postgres RESET search_path; DROP SCHEMA trap CASCADE');

# ---- shards ----

my $text = q{a"b\\c'd/<&>};
$v = asked($w, 'shards', 'DONE', qr/^$/, 'shards', shards => $text);
like(reading($w), qr/^initialized .*\nshards '\Q$text\E' version $v\n0: /, 'read as it was written');
asked($w, 'shards as if there were none', 'CONFLICT', qr/^$/, 'shards', shards => 'x');
asked($w, 'shards of another version', 'CONFLICT', qr/^$/, 'shards', shards => 'x', version => $v + 1);
asked($w, 'shards of another generation', 'CONFLICT', qr/^$/, 'shards', shards => 'x',
	version => $v, generation => 8);
like(reading($w), qr/^shards '\Q$text\E' version $v$/m, 'nothing was written');
my $v2 = asked($w, 'shards again', 'DONE', qr/^$/, 'shards', shards => 'y' x 60000, version => $v);
isnt($v2, $v, 'another version');
asked($w, 'shards of the version before', 'CONFLICT', qr/^$/, 'shards', shards => 'x', version => $v);
like(reading($w), qr/^shards 'y{60000}' version $v2$/m, 'a long text');

# ---- recover ----

asked($w, 'recover another one', 'CONFLICT', qr/^$/, 'recover', generation => 6);
like(reading($w), qr/^initialized 7 100 /, 'nothing was written');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
like(reading($w), qr/^initialized 9 1700 timestamp:41 sequence:22$/m,
	'the floor is not below what slots have');
asked($w, 'recover once more', 'DONE', qr/^$/, 'recover', generation => 9, new_generation => -2,
	new_floor => 2000);
like(reading($w), qr/^initialized -2 2000 /, 'nor above what was asked for');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', generation => -2, new_generation => 7, new_floor => 5);
like(reading($w), qr/^initialized 7 2000 /, 'nor lower than before');

# In another place it says what it is, and that it is not to be used.
query($registry, "$set UPDATE snowflake_registry SET timeline = '0000000F'");
my $answer = ask($w, 'read');
is($answer->{result}, 'REFUSED', 'another timeline: refused');
is($answer->{failure}, 'LOST', 'it may have lost data');
like($answer->{message}, qr/another server or timeline/, 'it says why');
like($answer->{registry}, qr/^initialized 7 2000 /, 'and what it is');
asked($w, 'claim there', 'CONFLICT', qr/^$/, 'claim', node => 20);
asked($w, 'shards there', 'CONFLICT', qr/^$/, 'shards', version => $v2, shards => 'z');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 8);
like(reading($w), qr/^initialized 8 2000 /, 'recovered');

# ---- errors, and answers that do not come ----

query($registry, qq{$set
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$
	BEGIN
		IF TG_ARGV[0] = 'end' THEN
			PERFORM pg_terminate_backend(pg_backend_pid());
		END IF;
		RAISE 'it fails';
	END \$\$});
foreach (
	[ 'error', 'REFUSED', qr/^it fails$/ ],
	[ 'end', 'UNKNOWN', qr/terminating connection/ ])
{
	my ($how, $result, $pattern) = @$_;

	query($registry, qq{$set
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry_shards
			FOR EACH ROW EXECUTE FUNCTION fail('$how');
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry_slot
			FOR EACH ROW EXECUTE FUNCTION fail('$how');
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry
			FOR EACH ROW EXECUTE FUNCTION fail('$how')});
	asked($w, "$how: shards", $result, $pattern, 'shards', generation => 8, version => $v2, shards => 'z');
	asked($w, "$how: recover", $result, $pattern, 'recover', generation => 8, new_generation => 9);
	asked($w, "$how: claim", $result, $pattern, 'claim', generation => 8, node => 20);
	asked($w, "$how: initialize", $result, $pattern, 'initialize');
	query($registry, "$set DROP TRIGGER fails ON $_")
	  foreach qw(snowflake_registry_shards snowflake_registry_slot snowflake_registry);
}
like(reading($w), qr/^initialized 8 2000 .*\nshards 'y+' version $v2\n/, 'nothing of it was done');
$registry->stop;
asked($w, 'the server stops', 'UNKNOWN', qr/./, 'shards', generation => 8, version => $v2, shards => 'z');
asked($w, "it is gone: $_", 'REFUSED', qr/refused/, $_, generation => 8)
  foreach 'read', 'shards', 'recover', 'initialize';
$registry->start;
asked($w, 'it is back', 'DONE', qr/^$/, 'shards', generation => 8, version => $v2, shards => 'z');

# A host that answers nothing: its queue of connections is full, and more are
# dropped. The next one is tried.
socket(my $hole, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
bind($hole, pack_sockaddr_in(0, INADDR_LOOPBACK)) && listen($hole, 0) or die "listen: $!";
my ($hole_port) = unpack_sockaddr_in(getsockname($hole));
my @queue = map {
	IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $hole_port, Blocking => 0)
} 1 .. 8;
my $two = worker(sprintf('postgresql://worker@127.0.0.1:%d,127.0.0.1:%d/postgres',
		$hole_port, $registry->port), timeout => 2000);
like(reading($two), qr/^initialized 8 2000 /, 'a silent host: the next one is tried');
$two->quit;
close $_ foreach @queue, $hole;

# Functions that are not what is asked for: others of the name, and those of
# another version.
query($registry, qq{$set CREATE FUNCTION snowflake_registry_keep(text, text, text)
	RETURNS integer LANGUAGE sql AS 'SELECT 1'});
asked($w, 'keep alive, beside a function of that name', 'ABSENT', qr/^$/, 'keepalive');
query($registry, "$set DROP FUNCTION snowflake_registry_keep(text, text, text)");
foreach my $other (
	[ 'keep(bigint, bigint, bigint)', 'integer', 'SELECT 1', 'keepalive' ],
	[ 'keep(bigint, bigint, bigint)', 'TABLE (kept boolean, clock_ms bigint)',
		'SELECT true, 1::bigint WHERE false', 'keepalive' ],
	[ 'read()', 'TABLE (a bigint, b bigint)', 'SELECT 1::bigint, 1::bigint', 'read' ],
	[ 'read()', 'SETOF snowflake_registry_slot', 'SELECT * FROM "E x".snowflake_registry_slot', 'read' ])
{
	my ($function, $result, $body, $kind) = @$other;

	query($registry, qq{$set ALTER FUNCTION snowflake_registry_$function RENAME TO the_real_one;
		CREATE FUNCTION snowflake_registry_$function RETURNS $result LANGUAGE sql
		SECURITY DEFINER AS '$body'});
	asked($w, "$kind, of another version: $result", 'UNKNOWN',
		qr/^Its extension "snowflake" has another version than this server's\.$/, $kind);
	query($registry, qq{$set DROP FUNCTION snowflake_registry_$function;
		ALTER FUNCTION the_real_one RENAME TO snowflake_registry_@{[ $function =~ /(\w+)/ ]}});
}
like(reading($w), qr/^initialized 8 2000 /, 'it is read again');
$w->quit;
$local->quit;

# ---- through the worker of a server ----

# It claims its node id, and then asks nothing for minutes; a read would wait
# for a lock for a minute.
query($registry, "$set TRUNCATE snowflake_registry, snowflake_registry_slot, snowflake_registry_shards");
my $node = new_server('holder', "snowflake.node_id = ''", "snowflake.registry = '$url'",
	"snowflake.lease_reserve = '1h'", "snowflake.lease_presence = '1h'",
	"snowflake.lease_timeout = '60s'", "snowflake.lease_wait = '60s'");
$node->start;
query($node, 'CREATE EXTENSION snowflake; CREATE ROLE mallory; CREATE ROLE keeper');
my $slots = 'SELECT * FROM snowflake_registry_slots()';

# A call that is not waited for: psql, its output and its errors.
sub call
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d',
			$node->connstr('postgres'), '-c', $sql ], '>', \$out, '2>', \$err);

	return { run => $run, out => \$out, err => \$err };
}

sub result_of
{
	my ($call) = @_;

	$call->{run}->finish;
	return ${ $call->{out} } . ${ $call->{err} };
}

# So many sessions wait for the registry.
sub wait_until_waiting
{
	my ($n) = @_;

	$node->poll_query_until('postgres', qq{SELECT count(*) = $n FROM pg_stat_activity
		WHERE query LIKE '%snowflake_registry_%' AND pid <> pg_backend_pid() AND }
		  . waits_for($node, 'SnowflakeErrand', 'SnowflakeDesk'))
	  or die 'nobody waits';
	return;
}

foreach my $call ('snowflake_registry_init()', 'snowflake_registry_recover()',
	'snowflake_registry_slots()', 'snowflake_registry_release(1)')
{
	refused($node, "SET ROLE mallory; SELECT $call", '42501', qr/permission denied for function/,
		"not for everybody: $call");
	refused($node, "BEGIN READ ONLY; SELECT $call", '25006', qr/in a read-only transaction/,
		"nor in a read-only transaction: $call") unless $call =~ /slots/;
}
refused($node, "SELECT snowflake_registry_recover($_->[0])", $_->[1], $_->[2], "recover($_->[0])")
  foreach [ 'NULL', '22004', qr/must not be null/ ], [ q{'-1 s'}, '22023', qr/from 0 to 31 days/ ],
  [ q{'5 s', '1 month 5 days'}, '22023', qr/from 0 to 31 days/ ];
refused($node, 'SELECT snowflake_registry_release(NULL)', '22004', qr/must not be null/, 'release(NULL)');
refused($node, q{SELECT snowflake_registry_init('x')}, '22023', qr/invalid layout/, 'init by no layout');
is(query($node, $slots), '', 'no registry has no slots');
is(query($node, 'SELECT snowflake_registry_release(0)'), 'f', 'and nothing to release');
query($node, 'GRANT EXECUTE ON FUNCTION snowflake_registry_init, snowflake_registry_slots TO keeper');
is(query($node, 'SET ROLE keeper; SELECT snowflake_registry_init()'), 't', 'init, by who was granted it');
is(query($node, 'SELECT snowflake_registry_init()'), 'f', 'init again');
wait_for_lease($node, q{state = 'held'});
my $slot = lease_of($node, 'node_id');
my $mine = q{SELECT slot, host, address, process, since > now() - interval '10 minutes' AND since <= clock_timestamp(),
	until = (SELECT until FROM snowflake_lease()), present, released, holder ~ '^[0-9a-f]+$',
	abs(extract(epoch FROM clock_offset)) < 60 FROM snowflake_registry_slots()};
my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
chomp(my $host = `hostname`);
is(query($node, $mine), "$slot|$host|127.0.0.1|$pid|t|t|t|f|t|t", 'who has it');
is(query($node, 'SET ROLE keeper; SELECT count(*) FROM snowflake_registry_slots()'), '1', 'for who was granted it');
is(query($registry, "$set SELECT slot, host, address, process, present, released FROM snowflake_registry_slots()"),
	"$slot|$host|127.0.0.1|$pid|t|f", 'the registry itself says the same');
is(query($node, "SELECT snowflake_registry_release($_)"), 'f', "nobody has $_")
  foreach $slot + 1, -1, 1 << 40;

# Many slots: more than the queue holds at a time.
query($registry, qq{$set INSERT INTO snowflake_registry_slot SELECT i + 5000, 1, 1, i, 1, 1, i, 0, false,
	'host ' || i, i, 1, NULL, 0, now() FROM generate_series(0, 60535) i});
is(query($node, q{SELECT count(*), sum(slot), max(host), count(address) FROM snowflake_registry_slots()
	WHERE slot >= 5000}), '60536|' . (60536 * 5000 + 60535 * 60536 / 2) . '|host 9999|0', 'many slots');
query($registry, "$set DELETE FROM snowflake_registry_slot WHERE node >= 5000");

# A wait that is cancelled, and one behind it; one whose worker ends; what was
# asked for behind another.
my $locker = $registry->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE "E x".snowflake_registry_shards');
my $call = call($slots);
wait_until_waiting(1);
my @others = map { call($slots) } 1 .. 3;
wait_until_waiting(4);
query($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE query LIKE '%registry_slots%' AND pid <> pg_backend_pid()});
like(result_of($_), qr/57014: canceling statement due to user request/, 'a wait is cancelled') foreach $call, @others;
$call = call('SELECT snowflake_registry_release(0)');
wait_until_waiting(1);
$locker->query_safe('COMMIT');
is(result_of($call), $slot == 0 ? "t\n" : "f\n", 'the next one is done');
$locker->query_safe('BEGIN; LOCK TABLE "E x".snowflake_registry_shards');
$call = call($slots);
wait_until_waiting(1);
my $worker = lease_of($node, 'pid');
kill 'TERM', $worker;
like(result_of($call), qr/58000: the registry has not done what it was asked\nDETAIL:  .*The worker that was asking it has ended\./,
	'the worker ends: the call fails');
$locker->query_safe('COMMIT');
refused($node, $slots, '55000', qr/the registry cannot be asked now.*The worker that asks it is not running/s, 'no worker');
wait_for_lease($node, "state = 'held' AND pid <> $worker");
$slot = lease_of($node, 'node_id');

# A write whose answer is lost, and which was made: found out by reading.
query($registry, qq{$set INSERT INTO snowflake_registry_slot VALUES (777, 1, 1, 5, 1, 1, 99, 0, false, 'gone', 1, 1,
	'10.1.2.3', 5, now() + interval '1 hour'); ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
$registry->reload;
$registry->poll_query_until('postgres', q{SHOW synchronous_standby_names}, 'nobody') or die;
$call = call('SELECT snowflake_registry_release(777)');
my $waits = q{FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
$registry->poll_query_until('postgres', "SELECT count(*) = 1 $waits") or die 'nothing is written';
query($registry, "SELECT pg_terminate_backend(pid) $waits");
is(result_of($call), "t\n", 'a write whose answer was lost was made');
query($registry, 'ALTER SYSTEM RESET synchronous_standby_names');
$registry->reload;
is(query($registry, "$set SELECT released, present, owner, version, until, address FROM snowflake_registry_slot WHERE node = 777"),
	't|0|0|2|99|10.1.2.3', 'once, and until stays');
is(query($node, 'SELECT snowflake_registry_release(777)'), 'f', 'it is free');

# One that is never made, and one that is refused.
foreach (
	[ 'end', qr/58000: it is not known whether the registry was changed\nDETAIL:  The registry is "postgresql:.*terminating connection/ ],
	[ 'error', qr/58000: the registry has not done what it was asked\nDETAIL:  The registry is "postgresql:.*it fails/ ])
{
	my ($how, $pattern) = @$_;

	query($registry, qq{$set CREATE TRIGGER fails BEFORE UPDATE ON snowflake_registry
		FOR EACH ROW EXECUTE FUNCTION fail('$how')});
	like(result_of(call('SELECT snowflake_registry_recover()')), $pattern, "a write meets: $how");
	query($registry, "$set DROP TRIGGER fails ON snowflake_registry");
}
my $floor = query($registry, "$set SELECT floor FROM snowflake_registry");

# Recover: from the time that is said on.
my $after = query($node, q{SELECT extract(epoch FROM snowflake_registry_recover('20 s', '10 s') - now()) BETWEEN 29 AND 4000});
is($after, 't', 'recover');
cmp_ok(query($registry, "$set SELECT floor FROM snowflake_registry"), '>', $floor, 'the floor is raised');
query($registry, "$set UPDATE snowflake_registry SET timeline = '0000000F'");
like(result_of(call($slots)), qr/58000: .*another server or timeline/s, 'in another place: not to be read');
$after = query($node, 'SELECT snowflake_registry_recover()');
is(query($registry, "$set SELECT to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) = '$after'
	FROM snowflake_registry"), 't', 'recovered, up to where it says');
is(query($node, 'SELECT count(*) > 0 FROM snowflake_registry_slots()'), 't', 'and to be read');
query($registry, "$set TRUNCATE snowflake_registry, snowflake_registry_slot");
$after = query($node, q{SELECT snowflake_registry_recover('1 h')});
is(query($registry, "$set SELECT to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) = '$after'
	FROM snowflake_registry"), 't', 'all is lost: one step makes it a registry from then on');

# One that is silent for longer than the time-out; nothing is lost by it.
query($registry, "$set TRUNCATE snowflake_registry, snowflake_registry_slot");
query($node, 'SELECT snowflake_registry_init()');
$node->append_conf('postgresql.conf', "snowflake.lease_timeout = '1s'");
$node->restart;
wait_for_lease($node, q{state = 'held'});
$locker->query_safe('BEGIN; LOCK TABLE "E x".snowflake_registry_shards');
like(result_of(call($slots)), qr/58000: the registry has not done what it was asked\nDETAIL:  .*(?:did not answer in time|lock timeout)/,
	'a registry that is silent');
$locker->query_safe('COMMIT');
$locker->quit;
wait_for_lease($node, q{state = 'held' AND problem IS NULL});
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM snowflake_registry_slots()') or die;
pass('it answers again');

# The time from which on there may be claims is as right as the clocks are.
foreach my $case ([ -3600, 'behind' ], [ 3600, 'ahead of' ])
{
	my ($offset, $where) = @$case;

	$node->stop;
	start_with_clock($node, $offset);
	$node->poll_query_until('postgres', q{SELECT problem ~ 'wall clock' FROM snowflake_lease()}) or die;
	refused($node, 'SELECT snowflake_registry_recover()', '58000',
		qr/the registry has not done what it was asked\nDETAIL:  .*The wall clock is \d+ ms $where that of the registry: set right which of them is wrong\./,
		"no recovery with a clock that is $where the registry's");
}
$node->stop;
$node->start;
wait_for_lease($node, q{state = 'held' AND problem IS NULL});

# A URL that the library does not take.
my $misspelt = new_server('misspelt',
	"snowflake.registry = 'postgresql://me:secret?2\@/postgres?no_such=1'",
	"snowflake.node_id = ''", "snowflake.lease_wait = '0'");
$misspelt->start;
like_log($misspelt, qr/ERROR:  snowflake.registry is not to be used\n.*DETAIL:  It is no URI for libpq.*\n.*HINT:  Correct snowflake.registry, and restart the server/,
	0, 'a URL that the library does not take');
query($misspelt, 'CREATE EXTENSION snowflake');
refused($misspelt, 'SELECT snowflake_nextval()', '55000', qr/no URI for libpq.*HINT:  Correct snowflake.registry/s,
	'and who wants an ID is told');
is(lease_of($misspelt, 'registry'), 'postgresql://...', 'its name tells no secret');
unlike(slurp_file($misspelt->logfile), qr/secret/, 'nor does the log');
$misspelt->stop;

# Unreachable; in recovery.
query($node, 'CREATE ROLE lister; GRANT EXECUTE ON FUNCTION snowflake_registry_slots() TO lister');
$registry->stop;
refused($node, "SET ROLE lister; $slots", '58000',
	qr{DETAIL:  The registry is "postgresql://\.\.\."\. The registry cannot be reached, or does not answer in time\.\nHINT:  Nothing was changed\. Start the registry's server},
	'who may not see the setting is told the kind of problem');
like(result_of(call($slots)), qr/58000: the registry has not done what it was asked\nDETAIL:  .*refused/, 'the registry is gone');
$registry->start;
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM snowflake_registry_slots()') or die;
pass('it is back');
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
refused($standby, $slots, '55000', qr/the registry cannot be asked during recovery.*HINT:/s, 'a standby cannot ask it');
refused($standby, "SELECT $_", '25006', qr/during recovery/, "a standby cannot: $_")
  foreach 'snowflake_registry_init()', 'snowflake_registry_recover()', 'snowflake_registry_release(1)';
$standby->stop;
$node->stop;
$registry->stop;
done_testing();
