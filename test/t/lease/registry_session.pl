# An administrator's call asks the registry itself: a call to a registry that does not
# answer can be cancelled, ends by itself, holds up no lease, and leaves nothing behind
# in its session. A recovery does not go below what the registry has promised.
#
# takes: 40 s
# needs: etcd-server libcurl4-openssl-dev libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use Cwd qw(realpath);
use IO::Socket::INET;
use POSIX ();
use Etcd;
use FaultyProxy;
use Time::HiRes qw(usleep);
use ZooKeeper;

my $slots = 'SELECT count(*) FROM snowflake_registry_slots()';
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$registry->start;
query($registry, q{CREATE EXTENSION snowflake_registry; CREATE ROLE worker LOGIN;
	SELECT snowflake_registry.grant('worker', administer => true)});
my $zk = ZooKeeper->new('zk')->start;
my $etcd = Etcd->new('etcd')->start;
my $proxy = FaultyProxy->new;

# A name, and no address, lets libcurl make a thread.
my @kinds = (
	{ name => 'postgresql', url => 'postgresql://worker@127.0.0.1:%d/postgres', port => $registry->port },
	{ name => 'etcd', url => 'etcd://localhost:%d/reg', port => $etcd->{port} },
	{ name => 'zookeeper', url => 'zookeeper://localhost:%d/reg', port => $zk->{port} });
foreach my $kind (@kinds)
{
	($kind->{route}, my $port) = $proxy->add($kind->{port});
	$kind->{url} = sprintf $kind->{url}, $port;
}
$proxy->start;

# Begin a call in the background, and wait until it waits for the registry.
sub begin_call
{
	my ($server, $session, $call) = @_;

	$session->query_until(qr/begun/, "\\echo begun\n$call;\n\\echo ended :SQLSTATE\n");
	$server->poll_query_until('postgres', qq{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE pid = $session->{pid} AND state = 'active' AND } . waits_for($server, 'SnowflakeRegistry'))
	  or die 'nobody waits';
	return;
}

# Return the SQLSTATE with which the call has ended, and for what it waited.
sub end_call
{
	my ($session) = @_;

	my ($sqlstate) = $session->query_until(qr/ended \w{5}/, '') =~ /ended (\w{5})/;
	my ($wait) = $session->{stderr} =~ /^CONTEXT:  waiting for the registry to (\w+)/m;

	$session->{stderr} = '';
	return join ' ', $sqlstate, $wait // ();
}

# Count the files that the session's process has open, without those of tables: the server
# closes them when another process, such as autovacuum, has changed the table.
sub open_files
{
	my ($session) = @_;

	return scalar grep { !/^\Q$session->{data_dir}\E/ } map { readlink // () } glob "/proc/$session->{pid}/fd/*";
}

# Wait until the process has so many, and no thread but its own, which may take a moment.
sub wait_until_closed
{
	my ($session, $before) = @_;
	my @left;

	foreach my $try (1 .. 3000)
	{
		@left = (open_files($session), scalar(() = glob "/proc/$session->{pid}/task/*"));
		return 1 if "@left" eq "$before 1";
		usleep(20_000);
	}
	diag "files and threads: @left; there were $before files";
	return 0;
}

foreach my $kind (@kinds)
{
	my ($name, $route) = @$kind{qw(name route)};
	my $server = start_server($name, "snowflake.node_id = ''", "snowflake.registry = '$kind->{url}'",
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '30s'",
		"snowflake.lease_timeout = '60s'", "snowflake.lease_wait = '60s'");
	is(query($server, 'SELECT snowflake_registry_init()'), 't', "$name: init");
	wait_for_lease($server, q{state = 'held'});
	my $session = $server->background_psql('postgres', on_error_stop => 0);
	$session->{pid} = $session->query_safe('SELECT pg_backend_pid()');
	$session->{data_dir} = realpath($server->data_dir);
	is($session->query_safe($slots), '1', "$name: a call");
	my $before = open_files($session);
	# which closes the files of a table in the session
	query($server, 'VACUUM FULL pg_proc');
	is($session->query_safe($slots), '1', "$name: the call once more") foreach 1 .. 5;
	ok(wait_until_closed($session, $before), "$name: calls leave nothing open");

	$proxy->set($route, 'silent');
	begin_call($server, $session, $slots);
	query($server, "SELECT pg_cancel_backend($session->{pid})");
	is(end_call($session), '57014 answer', "$name: a call is cancelled, and says in what wait");
	ok(wait_until_closed($session, $before), "$name: it leaves nothing open");
	$session->query_safe(q{SET statement_timeout = '300ms'});
	$session->query_until(qr/begun/, "\\echo begun\nSELECT snowflake_registry_recover();\n\\echo ended :SQLSTATE\n");
	is(end_call($session), '57014 answer', "$name: a change meets statement_timeout");
	$session->query_safe('RESET statement_timeout');
	begin_call($server, $session, q{
		DO $$ BEGIN
			PERFORM snowflake_registry_release(1);
		EXCEPTION WHEN query_canceled THEN
			RAISE division_by_zero;
		END $$});
	query($server, "SELECT pg_cancel_backend($session->{pid})");
	is(end_call($session), '22012', "$name: in a subtransaction");
	my $other = $server->background_psql('postgres', on_error_stop => 0);
	$other->{pid} = $other->query_safe('SELECT pg_backend_pid()');
	begin_call($server, $other, $slots);
	query($server, "SELECT pg_terminate_backend($other->{pid})");
	$server->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $other->{pid}") or die;
	pass("$name: a session is terminated");
	eval { $other->quit };

	# it is the time-out that ends these
	alter_system($server, q{SET snowflake.lease_timeout = '500ms'});
	$server->poll_query_until('postgres', 'SHOW snowflake.lease_timeout', '500ms') or die;
	foreach my $call ($slots, 'SELECT snowflake_registry_release(1)')
	{
		$session->query_until(qr/begun/, "\\echo begun\n$call;\n\\echo ended :SQLSTATE\n");
		is(end_call($session), '58000', "$name: it ends without an answer: $call");
		ok(wait_until_closed($session, $before), "$name: and leaves nothing open");
	}
	alter_system($server, 'RESET snowflake.lease_timeout');
	$server->poll_query_until('postgres', 'SHOW snowflake.lease_timeout', '1min') or die;
	$proxy->set($route, 'pass');
	is($session->query_safe($slots), '1', "$name: the same session asks again");
	wait_for_lease($server, q{state = 'held' AND problem IS NULL});
	$kind->{server} = $server;
	$session->quit if $name ne 'postgresql';
	$kind->{session} = $session;
}

# While a call hangs, the worker extends the lease over its own connection.
my ($kind) = @kinds;
my ($a, $session) = @$kind{qw(server session)};
$registry->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE usename = 'worker'}) or die;
pass('only the connection of the worker is left');
$proxy->set($kind->{route}, 'hold');
begin_call($a, $session, $slots);
wait_until_extended($a);
wait_until_extended($a);
is( query($a, "SELECT count(*) FROM pg_stat_activity WHERE pid = $session->{pid} AND state = 'active'"), '1',
	'a call that hangs holds up no renewal');
$proxy->set($kind->{route}, 'pass');
is(end_call($session), '00000', 'and is done when it gets an answer');
$session->quit;

# What was promised since the file was written: the worker has extended the lease to
# an hour from now. Then the reserve is lowered, on all servers, and all data is lost.
# Another server may have extended its lease after this one.
sub set_reserve
{
	my ($reserve) = @_;

	alter_system($a, "SET snowflake.lease_reserve = '$reserve'");
	$a->poll_query_until('postgres', 'SHOW snowflake.lease_reserve', $reserve) or die;
	return;
}
$a->restart;
wait_for_lease($a, q{state = 'held'});
set_reserve('1h');
wait_for_lease($a, q{until > now() + interval '50 min'});
my $until = lease_of($a, 'until');
set_reserve('6s');
query($registry, "SET search_path = snowflake_registry; TRUNCATE registry, slot");
is(query($a, "SELECT f >= '$until' AND f >= now() + interval '1 h'
	FROM snowflake_registry_recover('6 s', '1 s') f"), 't',
	'a recovery goes below neither what was promised, nor what another server may have got since');

# A day has 24 hours, also if the next one has 23 in this time zone.
my $spring = q{SELECT set_config('TimeZone', format('AAA0BBB,%s/%s,%s/0', date_part('doy', t) - 1, date_part('hour', t),
		date_part('doy', t + interval '9 days') - 1), false)
	FROM (SELECT now() AT TIME ZONE interval '0' + interval '12 h') AS s(t)} . " \\gset\n";
is(query($a, "$spring SELECT now() + interval '1 day' - now() = interval '23 h'"), 't', 'summer time begins');
is(query($a, "$spring SELECT extract(epoch FROM snowflake_registry_recover('1 day', '0 s') - now()) >= 86400"), 't', 'a day, given by a server');
is(query($registry, "$spring UPDATE snowflake_registry.registry SET floor = 1;
	SELECT extract(epoch FROM snowflake_registry.recover('1 day', '0 s') - now()) >= 86400"), 't', 'and in the registry');

# nor does it depend on what the name UTC means in this time zone
is(query($registry, "SET TimeZone = 'UTC$_'; UPDATE snowflake_registry.registry SET floor = 1;
	SELECT extract(epoch FROM snowflake_registry.recover('1 day', '0 s') - now()) BETWEEN 86400 AND 90000"), 't', "UTC$_")
  foreach '+3', '-3';

$_->{server}->stop foreach @kinds;
$registry->stop;

# A registry that sends commands of a terminal, and then lets libpq hash the password
# 2^31 - 1 times, which takes longer than anybody waits: a call ends, and so do a session
# and the server.
my $hasher = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die "listen: $@";
my $pid = fork // die "fork: $!";
if ($pid == 0)
{
	my @clients;

	while (my $client = $hasher->accept)
	{
		my $get = sub { sysread($client, my $text, $_[0]) // die "read: $!"; $text };

		push @clients, $client;
		$get->(unpack('N', $get->(4)) - 4);
		my $error = "SFATAL\0VFATAL\0C28000\0Mgo \e[1m away\xff\0\0";
		if (@clients == 1)
		{
			syswrite $client, pack('aNa*', 'E', 4 + length $error, $error);
			next;
		}
		syswrite $client, pack('aNNZ*x', 'R', 23, 10, 'SCRAM-SHA-256');
		my ($nonce) = $get->(unpack('xN', $get->(5)) - 4) =~ /r=([^,]+)/;
		my $first = "r=${nonce}0,s=c2FsdA==,i=2147483647";
		syswrite $client, pack('aNNa*', 'R', 8 + length $first, 11, $first);
	}
	POSIX::_exit(0);
}
my $server = start_server('hashing', "snowflake.node_id = ''", "snowflake.lease_timeout = '500ms'",
	'snowflake.registry = \'postgresql://worker:secret@127.0.0.1:' . $hasher->sockport . "/postgres?sslmode=disable'");
like_log($server, qr/snowflake SF\d+: .*FATAL:  go \?\[1m away\?/, 0, 'its message is shown without them');
wait_for_lease($server, q{problem ~ 'did not answer in time'});
pass('the worker does not wait for libpq');
$session = $server->background_psql('postgres', on_error_stop => 0);
$session->{pid} = $session->query_safe('SELECT pg_backend_pid()');
foreach my $try (1, 2)
{
	$session->query_until(qr/begun/, "\\echo begun\n$slots;\n\\echo ended :SQLSTATE\n");
	is(end_call($session), '58000', "nor does a call: $try");
	is(scalar(() = glob "/proc/$session->{pid}/task/*"), 2, 'libpq still hashes, in one thread');
}
query($server, "SELECT pg_terminate_backend($session->{pid})");
$server->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $session->{pid}") or die;
eval { $session->quit };
my $worker = lease_of($server, 'pid');
is(scalar(() = glob "/proc/$worker/task/*"), 2, 'as in the worker');
$server->stop('fast');
unlike(slurp_file($server->logfile), qr/terminated by signal|crash/, 'the session and the server have ended as they should');
kill 'KILL', $pid;
waitpid $pid, 0;
done_testing();
