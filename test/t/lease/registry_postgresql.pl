# A registry in PostgreSQL: how its library handles requests, answers and errors,
# called without the worker; and the calls of administrators on a server.
# Needs the library that test/helpers/registry_driver builds.
#
# takes: 36 s
# needs: registry_driver openssl locales
use SnowflakeTest;
use IO::Socket::INET;
use IPC::Run;
use Socket qw(:DEFAULT pack_sockaddr_in unpack_sockaddr_in);
use RegistryDriver;
use RegistryLife;
use Time::HiRes qw(usleep);

my $driver = start_driver('postgresql');
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init(allows_streaming => 1);
$registry->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nmax_connections = 50");
$registry->start;

# The commands of doc/leases.md that give a worker its rights.
query($registry, q{
	CREATE EXTENSION snowflake_registry;
	CREATE ROLE worker LOGIN;
	SELECT snowflake_registry.grant('worker')});
my $url = sprintf('postgresql://worker@127.0.0.1:%d/postgres', $registry->port);
my $set = 'SET search_path = snowflake_registry, snowflake_servers, public;';

# ---- kinds of failure: each has a remedy of its own ----

query($registry, 'CREATE ROLE nobody; CREATE ROLE somebody LOGIN');
query($registry, 'CREATE DATABASE bare');
(my $nowhere = $url) =~ s/:\d+/:1/;
fails($nowhere, 'UNREACHABLE', 'read');
my $said = fails($url =~ s/worker/nobody/r, 'LOGIN', 'read');
like($said, qr/FATAL:  role "nobody" is not permitted to log in$/, 'the message has no SQLSTATE');
fails($url =~ s/postgres$/no_such/r, 'DATABASE', 'read');
fails($url =~ s/postgres$/bare/r, 'EXTENSION', 'read');
query($registry, q{CREATE SEQUENCE ran; CREATE SCHEMA snowflake_servers;
	CREATE FUNCTION snowflake_servers.read() RETURNS bigint LANGUAGE sql AS $$SELECT nextval('public.ran')$$;
	GRANT ALL ON SCHEMA snowflake_servers TO PUBLIC; GRANT ALL ON SEQUENCE ran TO PUBLIC}, database => 'bare');
fails($url =~ s/postgres$/bare/r, 'EXTENSION', 'read');
is(query($registry, 'SELECT is_called FROM ran', database => 'bare'), 'f', 'no function runs of a schema that is not of the extension');
fails($url =~ s/worker/somebody/r, 'PERMISSION', 'read');
query($registry, 'CREATE DATABASE closed ALLOW_CONNECTIONS false');
like(fails($url =~ s/postgres$/closed/r, 'OTHER', 'read'), qr/not currently accepting connections/, 'a database that lets nobody in');
fails("$url?options=-cdefault_transaction_read_only%3Don", 'READ_ONLY', 'claim');

# a role that is read-only, until somebody types the remedy
query($registry, 'ALTER ROLE worker SET default_transaction_read_only = on');
my $reader = worker($url);
is(ask($reader, 'claim')->{failure}, 'READ_ONLY', 'a role that is read-only');
query($registry, sprintf 'ALTER ROLE %s IN DATABASE %s SET default_transaction_read_only = off', map { part_of($reader, $_) } 'role', 'database');
asked($reader, 'a role that is so no more', 'CONFLICT', qr/^$/, 'claim');
$reader->quit;

# a wrong password, and none
query($registry, q{CREATE ROLE secret LOGIN PASSWORD 'right'});
my $hba = $registry->data_dir . '/pg_hba.conf';
my $open = slurp_file($hba);
unlink $hba;
append_to_file($hba, "host all secret all scram-sha-256\n$open");
$registry->reload;
fails($url =~ s/worker/secret:wrong/r, 'LOGIN', 'read');
fails($url =~ s/worker/secret/r, 'LOGIN', 'read');

# two hosts, of which one does not answer
(my $two_hosts = $url) =~ s/127\.0\.0\.1/127.0.0.1:1,127.0.0.1/;
like(fails($two_hosts =~ s/worker/nobody/r, 'LOGIN', 'read'), qr/role "nobody"/, 'it says what that answers');

# a standby
my $following = standby_of($registry, 'follower');
$following->start;
$registry->wait_for_catchup($following);
(my $follower = $url) =~ s/:\d+/':' . $following->port/e;
fails($follower, 'STANDBY', 'read');
my $writable = ($two_hosts =~ s/:\d+\//':' . $following->port . '\/'/er) . '?target_session_attrs=read-write';
fails($writable, 'READ_ONLY', 'read');

# libpq's own messages would be in this server's language, such as "Sitzung ist read-only"
{
	my $locales = "$PostgreSQL::Test::Utils::tmp_check/locales";
	mkdir $locales or die "$locales: $!";
	system_or_bail('localedef', '-i', 'de_DE', '-f', 'UTF-8', "$locales/de_DE.UTF-8");
	local $ENV{LOCPATH} = $locales;
	$driver->restart;
	alter_system($driver, q{SET lc_messages = 'de_DE.UTF-8'});
	like(fails($writable, 'READ_ONLY', 'read'), qr/read-only/, 'in a server that speaks German');
	fails("$url?options=-cdefault_transaction_read_only%3Don&target_session_attrs=read-write", 'READ_ONLY', 'read');
	alter_system($driver, 'RESET lc_messages');
}
$driver->restart;
$following->stop;

# certificates: of another authority, expired, and one that the registry refuses
SKIP:
{
	skip 'certificates: the server was built without TLS', 6
	  if query($registry, 'SHOW ssl_library') eq '';
	my $tls = "$PostgreSQL::Test::Utils::tmp_check/tls";
	mkdir $tls or die "$tls: $!";
	system_or_bail('bash', '-euc', q{
		cd "$1"
		new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
		for name in ca other; do
			$new -x509 -days 2 -subj /CN=$name -keyout $name.key -out $name.crt
		done
		$new -subj /CN=server -keyout server.key -out server.csr
		sign="openssl x509 -req -CAcreateserial -in server.csr"
		$sign -days 2 -CA ca.crt -CAkey ca.key -out server.crt
		# newer versions refuse negative days, and older ones have no -not_before
		$sign -days -1 -CA ca.crt -CAkey ca.key -out expired.crt ||
			$sign -not_before 20200101000000Z -not_after 20200102000000Z \
				-CA ca.crt -CAkey ca.key -out expired.crt
		$sign -days 2 -CA other.crt -CAkey other.key -out stranger.crt
		cp server.crt in_use.crt}, 'bash', $tls);
	chmod 0600, "$tls/server.key";
	set_conf($registry, "ssl = on\nssl_cert_file = '$tls/in_use.crt'\n"
		  . "ssl_key_file = '$tls/server.key'\nssl_ca_file = '$tls/ca.crt'");
	my $trusted = "$url?sslmode=verify-ca&sslrootcert=$tls/ca.crt";
	my $session = worker($trusted);
	asked($session, 'a certificate that is trusted', 'REFUSED', qr/./, 'initialize');
	is(ask($session, 'initialize')->{failure}, 'PERMISSION', 'it is let in');
	$session->quit;
	fails("$url?sslmode=verify-ca&sslrootcert=$tls/other.crt", 'CERTIFICATE', 'read');
	fails("$trusted&sslcert=$tls/stranger.crt&sslkey=$tls/server.key", 'CERTIFICATE', 'read');
	system_or_bail('cp', "$tls/expired.crt", "$tls/in_use.crt");
	$registry->reload;
	like(fails($trusted, 'CERTIFICATE', 'read'), qr/expired|verify failed/, 'it says so');

	# what the remedy says to run
	$session = worker($trusted);
	my $address = part_of($session, 'address');
	$session->quit;
	like(scalar(qx(openssl s_client -starttls postgres -connect $address </dev/null 2>/dev/null | openssl x509 -noout -issuer -dates)),
		qr/^issuer=.*^notAfter=/ms, 'and the remedy shows until when the certificate was valid');
	set_conf($registry, 'ssl = off');
}

# the registry's disk is full
query($registry, q{CREATE FUNCTION snowflake_registry.no_room() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
		$$BEGIN RAISE 'No space left' USING ERRCODE = 'disk_full'; END$$;
	CREATE TRIGGER no_room BEFORE UPDATE ON snowflake_registry.slot FOR EACH STATEMENT EXECUTE FUNCTION snowflake_registry.no_room()});
fails($url, 'FULL', 'keepalive');
query($registry, 'DROP FUNCTION snowflake_registry.no_room() CASCADE');

# ---- URLs ----

my $w = $driver->background_psql('postgres');
foreach my $text ('u:pa@secret@h/x', 'u:pa/secret@h/x', 'u:2024/secret@h', 'u@h/secret@x')
{
	my $reason = try_open($w, "postgresql://$text");

	like($reason, qr/"@" is written as %40, and "\/" as %2F/, "postgresql://$text: $reason");
}
is(try_open($w, "postgresql://$_"), 'ok', "postgresql://$_")
  foreach 'u:a?b@h/x', '/x?host=/tmp&user=a@b', 'u:p%40%2f@h,g:1/x';

# what a remedy says of them: no password, and names with their quotes
foreach my $case (
	[ 'u:p%40a?s@h:1,g:2/d?a%70plication_name=x&sslmode=require&p%61ssword=pw&host=g' => psql => q{psql 'postgresql://u@h:1,g:2/d?sslmode=require&host=g'} ],
	[ 'u@h/d?password=pw&sslpassword=pw' => psql => q{psql 'postgresql://u@h/d'} ],
	[ 'u@h:1,g:2/d' => address => q{'h:1'} ],
	[ 'u@h/d' => address => q{'h:5432'} ],
	[ 'u@[::1],g/d' => address => q{'[::1]:5432'} ],
	[ '%27u%22@h/d' => role => q{"'u"""} ],
	[ '%27u%22@h/d' => regrole => q{'"''u"""'} ],
	[ 'u@h/D' => database => '"D"' ],
	[ 'u:p@h' => keeper => 'snowflake.registry, and restart' ],
	[ 'u@h?passfile=/f' => keeper => '/f' ],
	[ 'u@h' => keeper => q{~/.pgpass of this server's account} ],
	[ 'u@h?service=s' => keeper => 'the entry of its service' ],
	# what libpq fills in
	[ 'u@h' => database => qq{"$ENV{PGDATABASE}"} ],
	[ 'h/d' => role => '"' . getpwuid($<) . '"' ],
	[ 'h?service=s' => role => '' ])
{
	my ($text, $part, $expected) = @$case;

	is(try_open($w, "postgresql://$text"), 'ok', "postgresql://$text");
	is(part_of($w, $part), $expected, "its $part");
}
$w->quit;
{
	local $ENV{PGPASSWORD} = 'pw';

	$driver->restart;
	$w = $driver->background_psql('postgres');
	is(try_open($w, 'postgresql://u@h'), 'ok', 'a password of the environment');
	is(part_of($w, 'keeper'), "PGPASSWORD of this server's environment, and restart", '... is named');
	$w->quit;
}
$driver->restart;
$w = worker($url);

# ---- initialize ----

is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
asked($w, 'nothing to recover', 'REFUSED', qr/permission denied for function renew/, 'recover');
asked($w, 'initialize', 'REFUSED', qr/permission denied for function begin/, 'initialize');
query($registry, q{SELECT snowflake_registry.grant('worker', administer => true)});
asked($w, 'nothing to recover', 'CONFLICT', qr/^$/, 'recover');
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'a registry, empty');
is(query($registry, "$set SELECT epoch_ms, tick_ms, (r.system_identifier, r.timeline, r.files) = (p)
	FROM snowflake_registry.registry r, snowflake_registry.place(false) p"), '1000|10|t',
	'with what the layout says, and its place');
asked($w, 'initialize again', 'CONFLICT', qr/^$/, 'initialize', new_generation => 8);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'which changes nothing');
check_clock($w);

# ---- a slot ----

my %registry = (
	kept => sub { return query($registry, "$set SELECT count(*) FROM slot WHERE slot = $_[0]") },
	present => sub { return query($registry, "$set SELECT present FROM slot WHERE slot = $_[0] AND present <> 0 AND present_until > clock_timestamp()") || undef },
	lose_presence => sub { query($registry, "$set UPDATE slot SET present_until = now() WHERE slot = $_[0]") },
	forget => sub { query($registry, "$set DELETE FROM slot WHERE slot = $_[0]") },
	released_at => '127.0.0.1', latest => 140737488355328);
check_lease($url, %registry);
check_largest($w, $url, %registry);
my $local = worker(sprintf('postgresql://worker@/postgres?host=%s&port=%d', $registry->host, $registry->port));
claim($local, 'by a local socket', 'DONE', node => 10);
like(reading($w), qr/^10: .* address '' present 11$/m, 'without an address');
my $v = claim($w, 'how far is reserved', 'DONE', node => 11, reserve => 3600000);
asked($w, 'by another write', 'DONE', qr/^$/, 'extend', node => 11, version => $v, reserve => 60000);
like(reading($w), qr/^11: .* present 11 reserve 60000$/m, 'is read as it was written');
$registry{forget}->($_) foreach 10, 11;

# ---- a hostile search_path ----

# The database's owner chooses the path, and makes objects in it.
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

# ---- recover ----

# The floor is not below what slots have.
check_recovery($w, %registry);

# An older snapshot would not show what was written while it waited.
query($registry, q{ALTER ROLE worker SET default_transaction_isolation = 'repeatable read'});
my $repeating = worker($url);
asked($repeating, 'recover by an older snapshot', 'REFUSED', qr/recover a registry at this isolation level/, 'recover');
$repeating->quit;
query($registry, 'ALTER ROLE worker RESET default_transaction_isolation');
refused($registry, "BEGIN ISOLATION LEVEL $_; SELECT snowflake_registry.recover('90 s')", '25000',
	qr/cannot begin or recover a registry at this isolation level\n.*HINT:  Use READ COMMITTED/s, "recover: $_")
  foreach 'REPEATABLE READ', 'SERIALIZABLE';
like(reading($w), qr/^initialized 10 2000 /, 'nothing was written');

# In another place the registry names itself, but must not be used.
query($registry, "$set UPDATE snowflake_registry.registry SET timeline = '0000000F'");
my $answer = ask($w, 'read');
is($answer->{result}, 'REFUSED', 'another timeline: refused');
is($answer->{failure}, 'LOST', 'it may have lost data');
like($answer->{message}, qr/another server or timeline/, 'it says why');
like($answer->{registry}, qr/^initialized 10 2000 /, 'and what it is');
asked($w, 'claim there', 'CONFLICT', qr/^$/, 'claim', generation => 10, node => 20);
asked($w, 'recover', 'DONE', qr/^$/, 'recover', generation => 10, new_generation => 8);
like(reading($w), qr/^initialized 8 2000 /, 'recovered');

# ---- a server that is none ----

# It admits everybody, and answers the first statement by asking for the rows of a COPY.
# libpq gives these answers without end.
foreach my $answer ('G', 'H', 'W')
{
	my ($pid, $host) = stand_in(sub {
		my ($client) = @_;

		# the length of the begin comes first; it has no request for encryption before it
		sysread($client, my $begin, 65536);
		syswrite($client, "R\0\0\0\x08\0\0\0\0" . join('', map { my $text = "$_\0"; 'S' . pack('N', 4 + length $text) . $text }
				"server_version\x0015.0", "client_encoding\0UTF8", "standard_conforming_strings\0on") . "Z\0\0\0\x05I");
		while (sysread($client, my $statement, 65536)) { syswrite($client, "$answer\0\0\0\x07\0\0\0") }
	});

	like(fails("postgresql://worker\@$host/postgres?sslmode=disable&gssencmode=disable", 'OTHER', 'read'), qr/is not one to the statement/, "a COPY that nobody asked for: $answer");
	end_stand_in($pid);
}

# ---- errors, and missing answers ----

query($registry, qq{$set
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$
	BEGIN
		IF TG_ARGV[0] = 'end' THEN
			PERFORM pg_terminate_backend(pg_backend_pid());
		ELSIF TG_ARGV[0] = 'control' THEN
			RAISE E'it \\x1b[1m\\u009b fails';
		END IF;
		RAISE 'it fails';
	END \$\$});
my $recovered = reading($w);
foreach (
	[ 'error', 'REFUSED', qr/^it fails$/ ],
	[ 'end', 'UNKNOWN', qr/terminating connection/ ])
{
	my ($how, $result, $pattern) = @$_;

	query($registry, qq{$set
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry.slot
			FOR EACH ROW EXECUTE FUNCTION fail('$how');
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry.registry
			FOR EACH ROW EXECUTE FUNCTION fail('$how')});
	asked($w, "$how: recover", $result, $pattern, 'recover', generation => 8, new_generation => 9);
	asked($w, "$how: claim", $result, $pattern, 'claim', generation => 8, node => 20);
	asked($w, "$how: initialize", $result, $pattern, 'initialize');
	query($registry, "$set DROP TRIGGER fails ON $_")
	  foreach qw(snowflake_registry.slot snowflake_registry.registry);
}
is(reading($w), $recovered, 'nothing of it was done');
$registry->stop;
asked($w, 'the server stops', 'UNKNOWN', qr/./, 'claim', generation => 8, node => 20);
asked($w, "it is gone: $_", 'REFUSED', qr/refused/, $_, generation => 8)
  foreach 'read', 'claim', 'recover', 'initialize';
$registry->start;
asked($w, 'it is back', 'DONE', qr/^$/, 'claim', generation => 8, node => 20);

# A host that never answers: its queue of connections is full, so new ones are dropped.
# The next host is tried.
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

# Functions that the library must not call: others of the same name, and those of
# another version.
query($registry, qq{$set CREATE FUNCTION snowflake_servers.keep(text, text, text)
	RETURNS integer LANGUAGE sql AS 'SELECT 1'});
asked($w, 'keep alive, beside a function of that name', 'ABSENT', qr/^$/, 'keepalive');
query($registry, "$set DROP FUNCTION snowflake_servers.keep(text, text, text)");
foreach my $other (
	[ 'keep(bigint, bigint, bigint)', 'integer', 'SELECT 1', 'keepalive' ],
	[ 'keep(bigint, bigint, bigint)', 'TABLE (kept boolean, clock_ms bigint)',
		'SELECT true, 1::bigint WHERE false', 'keepalive' ],
	[ 'read()', 'TABLE (a bigint, b bigint)', 'SELECT 1::bigint, 1::bigint', 'read' ],
	[ 'read()', 'SETOF snowflake_registry.registry', 'SELECT * FROM snowflake_registry.registry', 'read' ])
{
	my ($function, $result, $body, $kind) = @$other;

	query($registry, qq{$set ALTER FUNCTION snowflake_servers.$function RENAME TO the_real_one;
		CREATE FUNCTION snowflake_servers.$function RETURNS $result LANGUAGE sql
		SECURITY DEFINER AS '$body'});
	asked($w, "$kind, of another version: $result", 'UNKNOWN',
		qr/^The extension "snowflake_registry" there is not of the version that this server needs\.$/, $kind);
	query($registry, qq{$set DROP FUNCTION snowflake_servers.$function;
		ALTER FUNCTION the_real_one RENAME TO @{[ $function =~ /(\w+)/ ]}});
}
like(reading($w), qr/^initialized 8 2000 /, 'it is read again');

# A statement that nobody waits for any more ends: the worker has given up its answer.
query($registry, qq{$set ALTER FUNCTION read() RENAME TO the_real_one;
	CREATE FUNCTION snowflake_servers.read() RETURNS TABLE (a bigint) LANGUAGE sql SECURITY DEFINER AS 'SELECT 1::bigint FROM pg_sleep(30)'});
my $hasty = worker($url, timeout => 500);
asked($hasty, 'a slow statement', 'REFUSED', qr/^canceling statement due to statement timeout$/, 'read');
$hasty->quit;
query($registry, "$set DROP FUNCTION read(); ALTER FUNCTION the_real_one RENAME TO read");
$w->quit;
$local->quit;

# ---- calls on a server ----

# The server claims its node id, and then asks nothing for minutes. A reading would
# wait one minute for a lock.
query($registry, "$set TRUNCATE snowflake_registry.registry, snowflake_registry.slot");
my $node = start_server('holder', "snowflake.node_id = ''", "snowflake.registry = '$url'",
	"snowflake.lease_reserve = '1h'", "snowflake.lease_presence = '1h'",
	"snowflake.lease_timeout = '60s'", "snowflake.lease_wait = '60s'");
query($node, 'CREATE ROLE mallory; CREATE ROLE keeper');
my $slots = 'SELECT * FROM snowflake_registry_slots()';

# Start a call in the background. Return psql, its output and its errors.
sub call
{
	my ($sql, $server) = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d',
			($server // $node)->connstr('postgres'), '-c', $sql ], '>', \$out, '2>', \$err);

	return { run => $run, out => \$out, err => \$err };
}

# Return the start of a statement that inserts a slot's record; owner 5 is present.
sub record_of
{
	my ($id, %own) = @_;
	my %v = (slot => $id, host => "'there'", process => 1, version => 1,
		epoch => 1, owner => 5, server => 1, write_id => 1, until => 99, offset_ms => 0, since_ms => 1, present => 5,
		present_until => "now() + interval '1 hour'", %own);
	my @columns = sort keys %v;

	return 'INSERT INTO snowflake_registry.slot (' . join(', ', @columns) . ') SELECT ' . join ', ', @v{@columns};
}

sub result_of
{
	my ($call) = @_;

	$call->{run}->finish;
	return ${ $call->{out} } . ${ $call->{err} };
}

sub is_over
{
	my ($call) = @_;

	$call->{run}->pump_nb if $call->{run}->pumpable;
	return !$call->{run}->pumpable;
}

# Return what the text of an error says to type.
sub type_of
{
	my ($said, $pattern) = @_;

	return $said =~ /($pattern)/ ? $1 : die "nothing to type in: $said";
}

# Type it in a shell of this server. Return true if that worked.
sub shell_says
{
	my ($command) = @_;

	return IPC::Run::run([ 'bash', '-c', $command ], '<', \undef, '>', '/dev/null') ? 1 : 0;
}

# Wait until this many sessions wait for the registry.
sub wait_until_waiting
{
	my ($n) = @_;

	$node->poll_query_until('postgres', qq{SELECT count(*) = $n FROM pg_stat_activity
		WHERE query LIKE '%snowflake_registry_%' AND pid <> pg_backend_pid() AND }
		  . waits_for($node, 'SnowflakeRegistry'))
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
  foreach [ 'NULL', '22004', qr/must not be null.*HINT:  Leave an argument out to get its default\./s ], [ q{'-1 s'}, '22023', qr/from 0 to 31 days/ ],
  [ q{'5 s', '1 month 5 days'}, '22023', qr/from 0 to 31 days/ ],
  map { [ "'6 s', '5 s', $_", '22023', qr/former must have 16 hexadecimal digits.*HINT:  On a server that has leased from the former registry, the column "remedy" of snowflake_lease\(\) has the arguments\./s ] }
  'NULL', q{''}, q{'123456789abcdefg'}, q{'0123456789abcdef0'};
refused($registry, q{SELECT snowflake_registry.recover('90 s', former => '123456789ABCDEF0')}, '22023',
	qr/former must have 16 hexadecimal digits.*HINT:  On a server that has leased/s, 'the same in the registry');
refused($node, 'SELECT snowflake_registry_release(NULL)', '22004',
	qr/must not be null.*HINT:  See the slots: SELECT \* FROM public\.snowflake_registry_slots\(\);/s, 'release(NULL)');
refused($registry, 'SELECT snowflake_registry.init(NULL)', '22004',
	qr/must not be null.*HINT:  Give the snowflake\.layout of the servers, or leave it out for the default\./s, 'init(NULL), in the registry');
my $own_layout = q{SELECT layout FROM snowflake_layouts() WHERE name = 'node'};
refused($node, q{SELECT snowflake_registry_init('x')}, '22023',
	qr/invalid layout.*HINT:  Give the layout "node" of snowflake_layouts\(\) on a server that leases\./s, 'init by no layout');
refused($node, q{SELECT snowflake_registry_init('instagram')}, '22023',
	qr/no server can lease a node id of this layout/, 'init by a layout without a node');
is(query($node, $slots), '', 'no registry has no slots');
is(query($node, 'SELECT snowflake_registry_release(0)'), 'f', 'and nothing to release');
query($node, 'GRANT EXECUTE ON FUNCTION snowflake_registry_init(), snowflake_registry_slots() TO keeper');
is(query($node, 'SET ROLE keeper; SELECT snowflake_registry_init()'), 't', 'init, by who was granted it');
is(query($node, 'SELECT snowflake_registry_init()'), 'f', 'init again');
is(query($node, sprintf q{SELECT snowflake_registry_init('%s')}, query($node, $own_layout)), 'f', 'by the layout of this server, as the remedy says');
wait_for_lease($node, q{state = 'held'});
my $slot = lease_of($node, 'node_id');
my $mine = q{SELECT slot, host, address, process, since > now() - interval '10 minutes' AND since <= clock_timestamp(),
	until = (SELECT until FROM snowflake_lease()), present, released, holder ~ '^[0-9a-f]+$',
	abs(extract(epoch FROM clock_offset)) < 60 FROM snowflake_registry_slots()};
my ($pid) = split /\n/, slurp_file($node->data_dir . '/postmaster.pid');
chomp(my $host = `hostname`);
$host .= ':' . $node->port;
is(query($node, $mine), "$slot|$host|127.0.0.1|$pid|t|t|t|f|t|t", 'who has it');
is(query($node, 'SET ROLE keeper; SELECT count(*) FROM snowflake_registry_slots()'), '1', 'for who was granted it');
is(query($registry, "$set SELECT slot, host, address, process, present, released FROM snowflake_registry.slots()"),
	"$slot|$host|127.0.0.1|$pid|t|f", 'the registry itself says the same');
is(query($node, "SELECT snowflake_registry_release($_)"), 'f', "nobody has $_")
  foreach $slot + 1, -1, 1 << 40;

# Many slots.
query($registry, "$set " . record_of('i + 5000', host => "'host ' || i") . ' FROM generate_series(0, 60535) i');
is(query($node, q{SELECT count(*), sum(slot), max(host), count(address) FROM snowflake_registry_slots()
	WHERE slot >= 5000}), '60536|' . (60536 * 5000 + 60535 * 60536 / 2) . '|host 9999|0', 'many slots');
query($registry, "$set DELETE FROM snowflake_registry.slot WHERE slot >= 5000");

# Calls that are cancelled. A call whose worker ends.
my $locker = begin_session($registry, 'BEGIN; LOCK TABLE snowflake_registry.slot');
my @calls = map { call($slots) } 1 .. 4;
wait_until_waiting(4);
query($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE query LIKE '%registry_slots%' AND pid <> pg_backend_pid()});
like(result_of($_), qr/57014: canceling statement due to user request/, 'a call is cancelled') foreach @calls;
my $call = call('SELECT snowflake_registry_release(0)');
wait_until_waiting(1);
my $worker = lease_of($node, 'pid');
kill 'TERM', $worker;
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $worker") or die;
$locker->query_safe('COMMIT');
$locker->quit;
is(result_of($call), $slot == 0 ? "t\n" : "f\n", 'the worker has ended: the next call is done');
wait_for_lease($node, "state = 'held' AND pid <> $worker");
$slot = lease_of($node, 'node_id');

# A write whose answer is lost, but which was made: a reading finds it. Another write
# on top of it is acknowledged.
my $free = ($slot + 512) % 1024;
query($registry, qq{$set CREATE TABLE written (version bigint);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$
		BEGIN INSERT INTO snowflake_registry.written VALUES (new.version); RETURN NULL; END \$\$;
	CREATE TRIGGER notes AFTER UPDATE ON snowflake_registry.slot FOR EACH ROW
		WHEN (new.slot = $free) EXECUTE FUNCTION note()});
query($registry, "$set " . record_of($free, address => "'10.1.2.3'") . q{; ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
$registry->reload;
$registry->poll_query_until('postgres', q{SHOW synchronous_standby_names}, 'nobody') or die;
$call = call("SELECT snowflake_registry_release($free)");
my $waits = q{FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
$registry->poll_query_until('postgres', "SELECT count(*) = 1 $waits") or die 'nothing is written';
my $first = query($registry, "SELECT pid $waits");
query($registry, "SELECT pg_terminate_backend($first)");
usleep(50_000) until is_over($call)
  || query($registry, "SELECT count(*) = 1 $waits AND pid <> $first") eq 't';
ok(!is_over($call), 'a write that was only read is no success');
alter_system($registry, 'RESET synchronous_standby_names');
is(result_of($call), "t\n", 'a write whose answer was lost was made');
is(query($registry, "$set SELECT released, present, owner, until, address,
	version > 1 AND version = (SELECT max(version) FROM written), (SELECT count(*) FROM written) FROM snowflake_registry.slot WHERE slot = $free"),
	't|0|0|99|10.1.2.3|t|2', 'and confirmed by another, and until stays');
is(query($node, "SELECT snowflake_registry_release($free)"), 'f', 'it is free');

# While a call waits to free a slot, its holder writes it; or another server claims it.
$locker = $registry->background_psql('postgres');
foreach my $case (
	[ 'snowflake_registry_release', 0, "t\n", 'a slot that its holder writes meanwhile is freed' ],
	[ 'snowflake_registry_release', 1, "f\n", 'who has just claimed it keeps it' ],
	[ 'snowflake_registry.release', 1, "f\n", 'also if the registry itself is called' ])
{
	my ($function, $claims, $result, $name) = @$case;

	query($registry, "$set UPDATE slot SET released = false, owner = 5, present = 5 WHERE slot = $free");
	$locker->query_safe("$set BEGIN; UPDATE slot SET version = version + 10, epoch = epoch + $claims, owner = owner + 1
		WHERE slot = $free");
	$call = call("SELECT $function($free)", $function =~ /\./ ? $registry : $node);
	$registry->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'})
	  or die 'nobody waits';
	$locker->query_safe('COMMIT');
	is(result_of($call), $result, $name);
}
$locker->quit;
query($registry, "$set DELETE FROM slot WHERE slot = $free");

# A write that is never made, and one that is refused.
foreach (
	[ 'end', qr/58000: it is not known whether the registry was changed\nDETAIL:  The registry is "postgresql:.*terminating connection.*HINT:  When it answers again, look at snowflake_registry_slots\(\), or repeat the call\./s ],
	[ 'error', qr/58000: the registry has not done what it was asked\nDETAIL:  The registry is "postgresql:.*it fails/ ],
	[ 'control', qr/it \?\[1m\?\? fails/ ])
{
	my ($how, $pattern) = @$_;

	query($registry, qq{$set CREATE TRIGGER fails BEFORE UPDATE ON snowflake_registry.registry
		FOR EACH ROW EXECUTE FUNCTION fail('$how')});
	like(result_of(call('SELECT snowflake_registry_recover()')), $pattern, "a write meets: $how");
	query($registry, "$set DROP TRIGGER fails ON snowflake_registry.registry");
}
my $floor = query($registry, "$set SELECT floor FROM snowflake_registry.registry");

# Recover. Claims are allowed from the given time on.
my $after = query($node, q{SELECT extract(epoch FROM snowflake_registry_recover('20 s', '10 s') - now()) BETWEEN 29 AND 4000});
is($after, 't', 'recover');
cmp_ok(query($registry, "$set SELECT floor FROM snowflake_registry.registry"), '>', $floor, 'the floor is raised');
query($registry, "$set UPDATE snowflake_registry.registry SET timeline = '0000000F'");
my $moved = result_of(call($slots));
like($moved, qr/58000: .*another server or timeline.*HINT:  Nothing was changed\. Set snowflake\.registry to what SHOW snowflake\.registry; says on a server that makes IDs, and restart if that differs\. Only if no server leases from another, see "A registry that goes back" in doc\/leases\.md; arguments: interval/s,
	'in another place: not to be read');
$after = query($registry, 'SELECT snowflake_registry.recover(' . type_of($moved, qr/interval '3[56]\d\d s', interval '5 s', '[0-9a-f]{16}'$/m) . ')');
is(query($registry, "$set SELECT to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) = '$after'
	FROM snowflake_registry.registry"), 't', 'recovered, up to where it says');
is(query($node, 'SELECT count(*) > 0 FROM snowflake_registry_slots()'), 't', 'and to be read');

# A recovery that waits for a worker's write sees what this write has reserved.
$locker = begin_session($registry, qq{BEGIN; SELECT snowflake_servers.write(
	(SELECT generation FROM snowflake_registry.registry), 5779, 0, 1, 5, 1, 1, 99, 0, false, 'late', 1, 1, 0, 0, 7200000)});
my $waiting = $registry->background_psql('postgres');
$waiting->query_until(qr/begun/, qq{\\echo begun
	$set SELECT 'after ' || extract(epoch FROM snowflake_registry.recover('6 s', '1 s') - now()) / 3600;\n});
$registry->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND query ~ 'registry.recover' AND pid <> pg_backend_pid()}) or die 'nobody waits';
$locker->query_safe('COMMIT');
$locker->quit;
like($waiting->query_until(qr/after \S+/, ''), qr/after 2\.0/, 'a recovery sees what was reserved while it waited');
$waiting->quit;
query($registry, "$set DELETE FROM snowflake_registry.slot WHERE slot = 5779; UPDATE snowflake_registry.registry SET floor = 1");

# The longest reserve in the registry's records, or this server's own hour, counts for
# more than the argument.
is(query($registry, qq{$set BEGIN; DELETE FROM snowflake_registry.slot;
	UPDATE snowflake_registry.registry SET floor = 1;
	SELECT extract(epoch FROM snowflake_registry.recover('6 s', '1 s') - now()) BETWEEN 6.9 AND 600;
	ROLLBACK}), 't', 'what nobody knows is given');
foreach my $known (
	[ 'this server', '', '3600' ],
	[ 'a slot', record_of(5778, reserve_ms => 7200000), '7200' ],
	[ 'nonsense', 'UPDATE snowflake_registry.slot SET reserve_ms = 99999999999 WHERE slot = 5778', 86400 ],
	[ 'an until, reserved while all clocks were ahead', q{UPDATE snowflake_registry.slot SET reserve_ms = 0,
		until = ((extract(epoch FROM now()) + 72000) * 1000 - (SELECT epoch_ms FROM snowflake_registry.registry))
		/ (SELECT tick_ms FROM snowflake_registry.registry) WHERE slot = 5778}, 3600 ])
{
	my ($name, $sql, $seconds) = @$known;

	query($registry, "$set UPDATE snowflake_registry.registry SET floor = 1; $sql");
	is(query($node, qq{SELECT extract(epoch FROM snowflake_registry_recover('6 s', '1 s') - now())
		BETWEEN $seconds + 1 AND $seconds + 600}), 't', "$name: recovered up to what was reserved");
	next if $sql eq '';
	query($registry, "$set UPDATE snowflake_registry.registry SET floor = 1");
	is(query($registry, qq{$set SELECT extract(epoch FROM snowflake_registry.recover('6 s', '1 s') - now())
		BETWEEN $seconds + 1 AND $seconds + 600}), 't', "$name: in the registry itself, too");
}
query($registry, "$set TRUNCATE snowflake_registry.registry, snowflake_registry.slot");
# a server that holds a lease asks again only when a third of it is over
$node->restart;
wait_for_lease($node, q{problem ~ 'The registry is empty'});
$after = query($node, recovery_of($node, 3600));
is(query($registry, "$set SELECT to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) = '$after'
	FROM snowflake_registry.registry"), 't', 'all is lost: one step makes it a registry from then on');
wait_for_lease($node, q{problem ~ 'After its recovery the registry lets no server claim' AND remedy ~ 'This server will claim one then'});

# no room on the disk of the registry
query($registry, qq{$set CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
		\$\$BEGIN RAISE 'No space left' USING ERRCODE = 'disk_full'; END\$\$;
	CREATE TRIGGER no_room BEFORE UPDATE ON snowflake_registry.registry FOR EACH STATEMENT EXECUTE FUNCTION no_room()});
my $no_room = result_of(call('SELECT snowflake_registry_recover()'));
like($no_room, qr/No space left.*HINT:  Nothing was changed\. Make room on the disk of the registry's server\. Its log says which disk is full, and this shows its databases: /s,
	'no room on the registry\'s disk');
is(shell_says(type_of($no_room, qr/psql '[^']*' -c '\\l\+'/)), 1, 'its databases are shown');
query($registry, "$set DROP FUNCTION no_room() CASCADE");

unlike(scalar(qx(pg_dump -d "@{[ $registry->connstr('postgres') ]}")), qr/^COPY snowflake_registry\.(?:registry|slot) /m,
	'a dump has nothing of what the registry holds');

# A registry that is silent for longer than the time-out. Nothing is lost.
my $layout = query($registry, "$set SELECT layout FROM snowflake_registry.registry");
query($registry, "$set TRUNCATE snowflake_registry.registry, snowflake_registry.slot");
refused($node, 'SELECT snowflake_registry_init()', '58000',
	qr/It is empty, and this server has leased from one: it has lost its data, or is another one\.\nHINT:  Nothing was changed\. Set snowflake\.registry to what SHOW snowflake\.registry; says on a server that makes IDs, and restart if that differs\. Only if no server leases from another, see "Another registry" in doc\/leases\.md; arguments: interval '3[56]\d\d s', interval '5 s', '[0-9a-f]{16}'$/m,
	'no registry for new servers is made of one that has lost its data');
query($registry, "$set SELECT snowflake_registry.init('$layout')");
$node->append_conf('postgresql.conf', "snowflake.lease_timeout = '1s'");
$node->restart;
wait_for_lease($node, q{problem ~ 'is another one'});
like(lease_of($node, 'remedy'), qr/Set snowflake\.registry to .* arguments: interval '\d+ s', interval '5 s', '[0-9a-f]{16}'$/,
	'what was made anew without a recovery is refused by who has leased there');
alter_system($node, q{SET snowflake.lease_reserve = '6s'});
$node->poll_query_until('postgres', 'SHOW snowflake.lease_reserve', '6s') or die;
is(query($node, recovery_of($node, 6) . " >= '$after'"), 't',
	'a recovery on a server does not go below what was confirmed to it');
query($node, 'ALTER SYSTEM RESET snowflake.lease_reserve');
$node->stop;
query($registry, "$set TRUNCATE snowflake_registry.registry; SELECT snowflake_registry.init('$layout')");
unlink $node->data_dir . '/snowflake.age' or die "snowflake.age: $!";
$node->start;
wait_for_lease($node, q{state = 'held'});
$locker = begin_session($registry, 'BEGIN; LOCK TABLE snowflake_registry.slot');
my $silent = result_of(call($slots));
like($silent, qr/58000: the registry has not done what it was asked\nDETAIL:  .*(?:did not answer in time|lock timeout).*HINT:  .*If not, start its synchronous standby; or raise snowflake\.lease_timeout here, and reload\./s,
	'a registry that is silent');
is(shell_says(type_of($silent, qr/psql '[^']*' -c 'SELECT 1';/)), 1, 'what it says to run is not silent');
$locker->query_safe('COMMIT');
$locker->quit;
wait_for_lease($node, q{state = 'held' AND problem IS NULL});
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM snowflake_registry_slots()') or die;
pass('it answers again');

# The time from which on claims are allowed is as right as the clocks are.
foreach my $case ([ -3600, 'behind' ], [ 3600, 'ahead of' ])
{
	my ($offset, $where) = @$case;

	$node->stop;
	start_with_clock($node, $offset);
	$node->poll_query_until('postgres', q{SELECT problem ~ 'wall clock' FROM snowflake_lease()}) or die;
	refused($node, 'SELECT snowflake_registry_recover()', '58000',
		qr/the registry has not done what it was asked\nDETAIL:  .*The wall clock is \d+ ms $where that of the registry: correct the one that is wrong\.\nHINT:  Nothing was changed\. Call the function again when the problem is over\./,
		"no recovery with a clock that is $where the registry's");
}
$node->stop;
$node->start;
wait_for_lease($node, q{state = 'held' AND problem IS NULL});

# A URL that the library refuses.
my $misspelt = new_server('misspelt',
	"snowflake.registry = 'postgresql://me:secret?2\@/postgres?no_such=1'",
	"snowflake.node_id = ''", "snowflake.lease_wait = '0'");
$misspelt->start;
like_log($misspelt, qr/ERROR:  snowflake.registry cannot be used\n.*DETAIL:  It is not a URI that libpq can read.*\n.*HINT:  Correct snowflake.registry, and restart the server\./,
	0, 'a URL that the library does not take');
query($misspelt, 'CREATE EXTENSION snowflake');
refused($misspelt, 'SELECT snowflake_nextval()', '55000', qr/not a URI that libpq can read.*HINT:  Correct snowflake.registry/s,
	'and who wants an ID is told');
refused($misspelt, $slots, '58000', qr/not a URI that libpq can read.*Correct snowflake.registry/s, 'a call tells it, too');
query($misspelt, 'CREATE ROLE lister; GRANT EXECUTE ON FUNCTION snowflake_registry_slots() TO lister');
refused($misspelt, "SET ROLE lister; $slots", '58000',
	qr/"postgresql:\/\/\.\.\."\. The value of snowflake.registry is not valid\./, 'and to other roles less');
is(lease_of($misspelt, 'registry'), 'postgresql://...', 'its name tells no secret');
unlike(slurp_file($misspelt->logfile), qr/secret/, 'nor does the log');
$misspelt->stop;

# The registry is unreachable; then it is in recovery.
query($node, 'CREATE ROLE lister; GRANT EXECUTE ON FUNCTION snowflake_registry_slots() TO lister');
$registry->stop;
refused($node, "SET ROLE lister; $slots", '58000',
	qr{DETAIL:  The registry is "postgresql://\.\.\."\. The registry cannot be reached\.\nHINT:  Nothing was changed\. Repeat the call as a member of pg_read_all_settings},
	'who may not see the setting is told the kind of problem');
like(result_of(call($slots)), qr/58000: the registry has not done what it was asked\nDETAIL:  .*refused/, 'the registry is gone');
$registry->start;
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM snowflake_registry_slots()') or die;
pass('it is back');
my $standby = standby_of($node, 'standby');
$standby->start;
is(query($standby, 'SELECT count(*) > 0 FROM snowflake_registry_slots()'), 't', 'a standby asks it, too');
refused($standby, "SELECT $_", '25006', qr/during recovery/, "a standby cannot: $_")
  foreach 'snowflake_registry_init()', 'snowflake_registry_recover()', 'snowflake_registry_release(1)';
$standby->stop;
$node->stop;
$registry->stop;
done_testing();
