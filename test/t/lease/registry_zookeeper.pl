# A registry in ZooKeeper: how its library handles requests, answers and errors, called
# without the worker; and servers that lease from it. Needs ZooKeeper, and the library
# that test/helpers/registry_driver builds.
#
# takes: 25 s
# needs: libzookeeper-java default-jre-headless libzookeeper-st-dev registry_driver
use SnowflakeTest;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use RegistryDriver;
use RegistryLife;
use Time::HiRes qw(usleep);
use ZooKeeper;

my $node = start_driver('zookeeper');

# All members start now, so that they are ready later.
my $zk = ZooKeeper->new('one');
$zk->{config} = "enforceQuota=true\n";
$zk->launch;
my $identity = '{"layout":"timestamp:41 sequence:22","floor":100,"former":""}';

# Make a registry of this generation, with the nodes that the library would make.
sub make_registry
{
	my ($prefix, $generation, $digest) = @_;

	$zk->put("$prefix/registry/$generation", $identity, $digest);
	$zk->put("$prefix/slots", '', $digest);
	$zk->put("$prefix/present", '', $digest);
	return;
}

# ---- URLs ----

my $w = $node->background_psql('postgres');
check_urls($w, [
	[ 'zookeeper://', qr/"" is neither a host/ ],
	[ 'etcd://h', qr/does not begin with zookeeper/ ],
	[ 'zookeeper://h:x/p', qr/"h:x" is neither a host/ ],
	[ 'zookeeper://h/x?a=/b', qr/no option "a"/ ],
	[ 'zookeeper://h,,g/x', qr/"" is neither a host/ ],
	[ 'zookeeper://[::1/x', qr/is neither a host/ ],
	[ 'zookeeper://h//x', qr{"//x" is not the path} ],
	[ 'zookeeper://h/a/../b', qr{is not the path} ],
	[ 'zookeeper://h/x?credentials=relative', qr/full path/ ],
	[ 'zookeeper://u:secret@h/x?credentials=/f', qr/or in a file, not both/ ],
	[ 'zookeeper://secret@h/x', qr/there must be a user and a password/ ],
	[ 'zookeeper://u:sec%ret@h/x', qr/is not readable/ ],
	[ 'zookeeper://u:secret/t@h/x', qr/is written as %2F/ ],
	[ 'zookeeper://u:secret?t@h/x', qr/"\?" as %3F/ ],
	[ 'zookeeper://u:2024?secret@h/x', qr/"\?" as %3F/ ],
	[ 'zookeeper://' . join(',', ('h') x 17), qr/more than 16 hosts/ ] ],
	'zookeeper://h', 'zookeeper://[::1],10.0.0.1:1/a/b/', 'zookeeper://u:p%40%2f@h-1.x_y');
$w->quit;

# ---- the life of a lease ----

$zk->wait_until_ready;
my $url = 'zookeeper://' . $zk->host . '/top/reg';
my ($v, $other);
my %registry = (
	kept => sub { return defined $zk->get("/top/reg/slots/$_[0]") },
	present => sub { my $presence = $zk->get("/top/reg/present/$_[0]"); return $presence && hex $presence->{value} },
	lose_presence => sub { $zk->delete("/top/reg/present/$_[0]") },
	forget => sub { $zk->delete("/top/reg/$_/$_[0]") foreach qw(slots present) },
	released_at => '10.0.0.1');

$w = worker($url);
is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
make_registry('/top/reg2', '0000000000000007');
is(reading($w), 'uninitialized 0 0 ', 'other prefixes are not ours');
make_registry('/top/reg', '0000000000000007');
reading($w);
check_clock($w);

# What is stored. The presence lasts as long as a session.
$v = claim($w, 'claim', 'DONE', node => 6);
my $record = $zk->get('/top/reg/slots/6');
my $presence = $zk->get('/top/reg/present/6');
is($record->{version} + 1, $v, 'the version is that of the node, and one');
is_deeply(decode_json($record->{value}), record_stored(), 'all of the record is written');
is($presence->{value}, '000000000000000b', 'and the presence');
isnt($presence->{session}, 0, 'for as long as a session');
is(asked($w, 'extend', 'DONE', qr/^$/, 'extend', node => 6, version => $v++), $v, 'the version has grown by one');
is($zk->get('/top/reg/present/6')->{czxid}, $presence->{czxid}, 'extending leaves the presence alone');
$v = asked($w, 'extend with a presence that is there', 'DONE', qr/^$/, 'extend', node => 6, version => $v, presence => 1);
is($zk->get('/top/reg/present/6')->{czxid}, $presence->{czxid}, 'which leaves it alone');

# The same owner has a new session, as after a long freeze of its process.
$other = worker($url);
reading($other);
asked($other, 'keep alive what is of another session', 'ABSENT', qr/^$/, 'keepalive', node => 6);
$v = asked($other, 'extend in another session', 'DONE', qr/^$/, 'extend', node => 6, version => $v, presence => 1);
asked($w, 'the first has it no more', 'ABSENT', qr/^$/, 'keepalive', node => 6);
asked($other, 'the second has', 'DONE', qr/^$/, 'keepalive', node => 6);
$other->quit;
$registry{forget}->(6);

check_lease($url, %registry);

# Each claim has a session of its own, so the presence of an earlier claim ends.
claim($w, "node 1 and $_", 'DONE', node => $_, owner => $_) foreach 1, 2;
is($zk->get('/top/reg/present/1'), undef, 'the presence of the first has gone at once');
ok($zk->get('/top/reg/present/2'), 'that of the second is there');
$w->query_safe('SELECT registry_close()');
is($zk->get('/top/reg/present/2'), undef, 'and has gone when all is closed');
is(try_open($w, $url), 'ok', 'open again');
claim($w, 'it has to be read first', 'CONFLICT', node => 3);
reading($w);
$zk->delete("/top/reg/slots/$_") foreach 1, 2;

check_largest($w, $url, %registry);

# A presence without a record, and a record that cannot be parsed.
$zk->put('/top/reg/present/3', '00000000000000ff');
like(reading($w), qr/^3: unwritten .* present 255$/m, 'a presence without a record');
claim($w, 'is in the way', 'CONFLICT', node => 3);
claim($w, 'and can be displaced', 'DONE', node => 3, displaced => 255);
$zk->put('/top/reg/slots/4x', 'no slot');
unlike(reading($w), qr/REFUSED/, 'what else there is is left alone');
$zk->put('/top/reg/slots/4', '{"epoch":1}');
like(reading($w), qr{^REFUSED "/top/reg/slots/4": it is not readable}, 'half of a record');
$zk->put('/top/reg/slots/4', '{"epoch":');
like(reading($w), qr{^REFUSED .*not understood: invalid input syntax}, 'none at all');

$zk->put('/top/reg/slots/4', q({"epoch":1,"owner":"0000000000000000","server":"0000000000000007","write_id":"0000000000000009","until":-1,"offset_ms":0}));
like(reading($w), qr{^REFUSED The end of the reservation of slot 4 is negative}, 'a reservation until before the epoch');
$zk->delete('/top/reg/slots/4');
$zk->put('/top/reg/registry/000000000000000a', $identity);
like(reading($w), qr{^REFUSED "/top/reg/registry": there is more than one generation}, 'two generations');
$zk->delete('/top/reg/registry/000000000000000a');
like(reading($w), qr/^initialized/, 'it can be read again');

# ---- initialize and recover ----

check_recovery($w, %registry);
check_initialize('zookeeper://' . $zk->host . '/far/away/new');
$w->quit;

# ---- the registry is lost ----

# The same versions come again. A record from before must not be extended.
$zk->delete('/top');
make_registry('/top/reg', '0000000000000007');
$w = worker($url);
like(reading($w), qr/^initialized 7/, 'a registry');
$v = claim($w, 'claim', 'DONE');
$zk->delete('/top');
asked($w, 'deleted: keep alive', 'ABSENT', qr/^$/, 'keepalive');
asked($w, 'deleted: extend', 'CONFLICT', qr/^$/, 'extend', version => $v);
make_registry('/top/reg', '0000000000000008');
$zk->put('/top/reg/slots/5', '{}');
is($zk->get('/top/reg/slots/5')->{version} + 1, $v, 'made again, with the version of before');
asked($w, "made again: $_", 'CONFLICT', qr/^$/, $_, version => $v) foreach 'extend', 'release';
is($zk->get('/top/reg/slots/5')->{value}, '{}', 'nothing was written');
$zk->delete('/top/reg/slots/5');
like(reading($w), qr/^initialized 8 100 timestamp:41 sequence:22$/, 'it is read as what it is');
$v = claim($w, 'claim', 'DONE', generation => 8);

# All data is lost, and the session with it.
$zk->wipe;
asked($w, 'wiped: keep alive', 'ABSENT', qr/^$/, 'keepalive');
asked($w, 'wiped: extend', 'CONFLICT', qr/^$/, 'extend', version => $v, generation => 8);
is(reading($w), 'uninitialized 0 0 ', 'there is no registry any more');
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 9, new_floor => 50);
is(reading($w), 'initialized 9 50 timestamp:41 sequence:22', 'the new one has its own floor');
$zk->delete('/top');
make_registry('/top/reg', '0000000000000007');
reading($w);
$v = claim($w, 'claim', 'DONE');

# ---- sessions ----

# A restarted server knows the session.
my $session = $zk->get('/top/reg/present/5')->{session};
$zk->stop('KILL');
asked($w, 'the server is killed', 'REFUSED', qr/127\.0\.0\.1:\d+: (Connection refused|the server has closed the connection)\.$/, 'keepalive');
$zk->start;
asked($w, 'and is back: the session goes on', 'DONE', qr/^$/, 'keepalive');
is($zk->get('/top/reg/present/5')->{session}, $session, 'with its presence');
$w->quit;

# A session that is silent ends, and its presence with it.
$w = worker($url, presence => 4000);
reading($w);
$v = claim($w, 'claim', 'DONE', node => 6);
$session = $zk->get('/top/reg/present/6')->{session};
usleep(20_000) while $zk->get('/top/reg/present/6');
asked($w, 'silent for too long: keep alive', 'ABSENT', qr/^$/, 'keepalive');
$v = asked($w, 'extend with presence', 'DONE', qr/^$/, 'extend', node => 6, version => $v, presence => 1);
isnt($zk->get('/top/reg/present/6')->{session}, $session, 'in another session');
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive', node => 6);
$w->quit;

# ---- hosts ----

my $closed = PostgreSQL::Test::Cluster::get_free_port();
my $deaf = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die;
my $deaf_host = '127.0.0.1:' . $deaf->sockport;

$w = worker("zookeeper://127.0.0.1:$closed," . $zk->host . '/top/reg');
like(reading($w), qr/^initialized/, 'the first host is down: the second is asked');
claim($w, 'and that first, from then on', 'DONE', node => 20);
$w->quit;
$w = worker("zookeeper://127.0.0.1:$closed,nobody.invalid,127.0.0.1:$closed/top/reg");
asked($w, 'all are down', 'REFUSED', qr/^127\.0\.0\.1:$closed: Connection refused; nobody\.invalid:2181: [^;]+\.$/, 'read');
$w->quit;
$w = worker('zookeeper://localhost:' . ($zk->host =~ s/.*://r) . '/top/reg');
like(reading($w), qr/^initialized/, 'a name is looked up');
$w->quit;
$w = worker('zookeeper://nobody.invalid,' . $zk->host . '/top/reg');
like(reading($w), qr/^initialized/, 'there is none of this name: the second is asked');
$w->quit;
$w = worker('zookeeper://nobody.invalid/top/reg');
asked($w, 'there is none', 'REFUSED', qr/^nobody\.invalid:2181: .*(not known|resolution)\.$/, 'read');
$w->quit;

# A host that is silent. A reading goes on with the next one, but a write may still
# arrive.
$w = worker("zookeeper://$deaf_host," . $zk->host . '/top/reg', timeout => 8000);
like(reading($w), qr/^initialized/, 'the first host is silent: the second is asked');
$w->quit;
$w = worker("zookeeper://$deaf_host/top/reg", timeout => 500);
asked($w, 'all are silent', 'REFUSED', qr/^$deaf_host: it does not answer\.$/i, 'read');
$w->quit;

# ---- lost answers ----

# A relay between a client and ZooKeeper. It recognises writes, and requests for a
# slot, and counts the writes in a file.
my $seen_file = "$PostgreSQL::Test::Utils::tmp_check/writes";

# Read this many bytes; fewer if the connection ends. Do not buffer any, since select()
# would not see them.
sub take_bytes
{
	my ($socket, $n) = @_;
	my $bytes = '';

	while (length $bytes < $n)
	{
		sysread($socket, $bytes, $n - length $bytes, length $bytes) or last;
	}
	return $bytes;
}

# Read one message with its length; an empty one if the connection ends.
sub take_message
{
	my ($socket) = @_;
	my $length = take_bytes($socket, 4);

	return '' if length $length < 4;
	return $length . take_bytes($socket, unpack('N', $length));
}

# Start a relay. It can run $between after the answer to the first request for a slot
# and before the second request. Or it can spoil a write.
sub relay
{
	my ($how, $between) = @_;
	my $slots = 0;

	return stand_in(sub {
		my ($client) = @_;
		my $server = IO::Socket::INET->new(PeerAddr => $zk->host) or die;
		my $both = IO::Select->new($client, $server);
		my ($mute, $open) = (0, 0);

		RELAY: while (1)
		{
			foreach my $from ($both->can_read)
			{
				my $message = take_message($from);
				my $kind = length $message < 12 ? 0 : unpack('x8 N', $message);

				last RELAY if $message eq '';
				$open += $from == $client ? 1 : -1;
				if ($from == $client && $kind == 14)
				{
					append_to_file($seen_file, 'x');
					last RELAY if $how eq 'closed';
					$mute = 1;
					next if $how eq 'silent';
				}
				elsif ($from == $client && $kind == 4 && $message =~ m{/slots/\d} && ++$slots == 2)
				{
					while ($open > 1)
					{
						print $client take_message($server);
						$open--;
					}
					$between->() if $between;
				}
				elsif ($from == $server && $mute)
				{
					last RELAY if $how eq 'closed after it';
					next if $how eq 'silent after it';
					print $client "HTTP/1.1 400 Bad Request\r\n\r\n" if $how eq 'a page';
					next if $how eq 'a page';
				}
				print { $from == $client ? $server : $client } $message;
			}
		}
		close $server;
	});
}

my $slot = 30;
foreach (
	[ 'closed', 0, qr/^127.*: the server has closed the connection\.$/ ],
	[ 'closed after it', 1, qr/^127.*: the server has closed the connection\.$/ ],
	[ 'silent', 0, qr/^127.*: it does not answer\.$/ ],
	[ 'silent after it', 1, qr/^127.*: it does not answer\.$/ ],
	[ 'a page', 1, qr/^127.*: it does not answer\.$/ ])
{
	my ($how, $made, $pattern) = @$_;
	my ($pid, $relay) = relay($how);

	unlink $seen_file;
	append_to_file($seen_file, '');
	$slot++;
	# also with more hosts, a write that may have arrived is sent once
	$w = worker("zookeeper://$relay," . $zk->host . '/top/reg', timeout => 5000);
	like(reading($w), qr/^initialized/, "$how: read");
	asked($w, "$how: claim", 'UNKNOWN', $pattern, 'claim', node => $slot, presence => 1);
	is(-s $seen_file, 1, 'sent once');
	is(defined $zk->get("/top/reg/slots/$slot") ? 1 : 0, $made, $made ? 'it was made' : 'it was not made');
	like(reading($w), $made ? qr/^$slot: .* present 11$/m : qr/^(?!.*^$slot:)/ms, 'read, by the other host');
	asked($w, 'keep alive', $made ? 'DONE' : 'ABSENT', qr/^$/, 'keepalive', node => $slot);
	$w->quit;
	end_stand_in($pid);
}

# ---- answers that end too early ----

# Start a stand-in for ZooKeeper: it answers each list of children with this, and all
# other requests with nothing but the header.
sub fake
{
	my ($children) = @_;

	return stand_in(sub {
		my ($client) = @_;

		take_message($client);
		print $client ZooKeeper::text(pack('l> l> q> a*', 0, 30000, 7, ZooKeeper::text('p' x 16)));
		while ((my $message = take_message($client)) ne '')
		{
			my ($xid, $kind) = unpack('x4 l> l>', $message);

			print $client ZooKeeper::text(pack('l> q> l> a*', $xid, 1, 0, $kind == 12 ? $children : ''));
		}
	});
}

foreach (
	[ 'two names of a thousand', pack('l> a*', 1000, ZooKeeper::text('7') x 2) ],
	[ 'fewer than none', pack('l>', -1) ],
	[ 'a name of no length', pack('l> l>', 1, -1) ],
	[ 'none of fifty million names', pack('l>', 50_000_000) ])
{
	my ($name, $children) = @$_;
	my ($pid, $host) = fake($children);

	$w = worker("zookeeper://$host/top/reg");
	asked($w, $name, 'REFUSED', qr{^"/top/reg/registry": the answer is not readable\.$}, 'read');
	is($w->query_safe(q{SELECT substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s+(\d+)')::integer < 300000}), 't',
		"$name: takes no memory");
	$w->quit;
	end_stand_in($pid);
}

# ---- a reading is of one moment ----

# Another worker writes two slots during the reading of the first one.
make_registry('/top/one', '0000000000000007');
$url = 'zookeeper://' . $zk->host . '/top/one';
$w = worker($url);
reading($w);
asked($w, "slot $_", 'DONE', qr/^$/, 'extend', node => $_) foreach 40, 41;
my ($pid, $between) = relay('between', sub {
	system('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $node->connstr('postgres'),
		'-c', "SELECT registry_open('snowflake_zookeeper', '$url', 60000, 60000)",
		'-c', q{SELECT registry_ask('read')},
		'-c', q{SELECT registry_ask('extend', node => n, version => 1, until => 2000) FROM generate_series(40, 41) n}) == 0
	  or die 'psql has failed';
});
$other = worker("zookeeper://$between/top/one");
is(join(' ', reading($other) =~ / until (\d+)/g), '2000 2000', 'what was written meanwhile is read again, all of it');
$_->quit foreach $w, $other;
end_stand_in($pid);

# ---- rights ----

my $base = $zk->host . '/secret/reg';
write_credentials("snow\np@ \"w\n");
$w = worker("zookeeper://$base?credentials=$credentials");
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
like(reading($w), qr/^initialized 7/, 'with the credentials of a file');
like(part_of($w, $_->[0]), $_->[1], "what a remedy says: $_->[0]")
  foreach [ zkcli => qr/^zkCli\.sh -server \S+:\d+$/ ], [ path => qr{^/} ], [ user => qr/^'snow'$/ ],
  [ credentials => qr/^\Q$credentials\E$/ ];
$v = claim($w, 'claim', 'DONE');
$w->quit;
foreach my $path ('', '/registry', '/registry/0000000000000007', '/slots', '/slots/5', '/present')
{
	my (undef, $error) = $zk->ask('get', ZooKeeper::text("/secret/reg$path") . "\0");

	is($error, -102, "nobody else reads /secret/reg$path");
}
$w = worker("zookeeper://snow:p%40%20%22w\@$base");
like(reading($w), qr/^initialized 7.*^5: written/ms, 'with those in the text');
asked($w, 'extend', 'DONE', qr/^$/, 'extend', version => $v);
$w->quit;
$w = worker("zookeeper://$base");
asked($w, 'with none', 'REFUSED', qr{^"/secret/reg/\w+": not authenticated\.$}, 'read');
$w->quit;
$w = worker("zookeeper://snow:wrong\@$base");
asked($w, 'with a wrong password', 'REFUSED', qr{^"/secret/reg/\w+": not authenticated\.$}, 'read');
is(ask($w, $_)->{failure}, 'PERMISSION', "no permission: $_") foreach 'read', 'initialize';
fails('zookeeper://127.0.0.1:1/secret/reg', 'UNREACHABLE', 'read');
asked($w, 'initialize', 'REFUSED', qr/not authenticated/, 'initialize');
$w->quit;

# The command of doc/leases.md removes a registry, and says if it does not.
{
	my $bin = "$PostgreSQL::Test::Utils::tmp_check/bin";
	my ($remove) = slurp_file("$root/doc/leases.md") =~ /`(printf '[^`]*zkCli\.sh[^`]*)`/ or die 'no command';

	mkdir $bin or die "$bin: $!";
	append_to_file("$bin/zkCli.sh", q{exec java -Xmx64m -cp /usr/share/java/zookeeper.jar }
		  . qq{org.apache.zookeeper.ZooKeeperMain "\$@" 2>&1\n});
	chmod 0755, "$bin/zkCli.sh";
	local $ENV{PATH} = "$bin:$ENV{PATH}";
	$remove =~ s/\\\|/|/;
	$remove =~ s/HOST:2181/$zk->host/e;
	$remove =~ s{PATH}{/gone/reg}g;
	write_credentials("snow\nmelts\n");
	$w = worker('zookeeper://' . $zk->host . "/gone/reg?credentials=$credentials");
	asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
	my $said = do { my $with = $remove =~ s/USER:PASSWORD/snow:falls/r; qx($with) };
	unlike($said, qr/^Node does not exist/m, 'another user does not remove it');
	like(reading($w), qr/^initialized 7/, 'it is still there');
	$said = do { my $with = $remove =~ s/USER:PASSWORD/snow:melts/r; qx($with) };
	like($said, qr/\bregistry\b.*^Node does not exist/ms, 'its own user does') or diag $said;
	like(reading($w), qr/^uninitialized/, 'it is gone');
	$w->quit;
}

# A quota is used up.
make_registry('/full/reg', '0000000000000007');
$w = worker('zookeeper://' . $zk->host . '/full/reg');
like(reading($w), qr/^initialized 7/, 'a registry without a quota yet');
$zk->put('/zookeeper/quota/full/zookeeper_limits', 'count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=-1');
$zk->put('/zookeeper/quota/full/zookeeper_stats', 'count=8,bytes=100');
my $full = ask($w, 'claim', presence => 1);
like("$full->{result} $full->{failure}", qr/^(?:REFUSED|UNKNOWN) FULL$/, "a quota: $full->{message}");
$w->quit;
foreach ([ "snow\nnew\n", 0644, qr/nobody else can read/ ],
	[ "snow\nnew\n", 0640, qr/nobody else can read/ ],
	[ "snow:x\nnew\n", 0600, qr/has a colon/ ],
	[ "\nnew\n", 0600, qr/is empty/ ],
	[ "snow", 0600, qr/does not have two lines/ ])
{
	my ($text, $mode, $pattern) = @$_;

	$w = worker("zookeeper://$base?credentials=$credentials");
	write_credentials($text, $mode);
	my $said = asked_for($w);
	like($said, $pattern, "credentials: $said");
	unlike($said, qr/new|\.\.$/, 'which tells no secret');
	$w->quit;
}

# Return the message of a refused reading.
sub asked_for
{
	my ($session) = @_;
	my $answer = ask($session, 'read');

	is($answer->{result}, 'REFUSED', 'a reading');
	is($answer->{failure}, 'LOGIN', 'it cannot log in');
	return $answer->{message} // '';
}

# ---- servers ----

# Two slots, those of the second datacenter. test/t/lease/many_servers.pl has the faults.
sub new_holder
{
	my ($name, $where) = @_;
	my $server = start_server($name, "snowflake.node_id = '1/'",
		"snowflake.layout = 'timestamp:41 datacenter:1 worker:1 sequence:12 epoch:2024-01-01'",
		"snowflake.registry = 'zookeeper://$where'",
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'",
		"snowflake.lease_timeout = '3s'", "snowflake.lease_wait = 0", "snowflake.max_clock_wait = '10s'");
	return $server;
}

my ($a, $b) = map { new_holder($_, $zk->host . '/reg') } qw(a b);
wait_for_lease($a, q{problem ~ 'never initialized' AND remedy ~ 'run here: SELECT public\.snowflake_registry_init'});
is(query($a, 'SELECT snowflake_registry_init()'), 't', 'made a registry from here');
is(query($a, 'SELECT snowflake_registry_init()'), 'f', 'once');
wait_until_held($a, $b);
is(query($a, q{SELECT string_agg(concat_ws(' ', slot, address, process IS NOT NULL, present), ', ' ORDER BY slot)
	FROM snowflake_registry_slots()}), '2 127.0.0.1 t t, 3 127.0.0.1 t t', 'it is known who has the slots');

# Type what a remedy says in a shell. Return what it prints.
sub typed_in_shell
{
	my ($command) = @_;
	my $said = '';
	local $ENV{PATH} = "$PostgreSQL::Test::Utils::tmp_check/bin:$ENV{PATH}";

	IPC::Run::run([ 'bash', '-c', $command ], '<', \undef, '>&', \$said);
	return $said;
}

# A server that may not read the registry reports this, without the password.
my $e = new_holder('e', 'snow:wrong@' . $zk->host . '/secret/reg');
wait_for_lease($e, q{problem ~ 'The registry answered: "/secret/reg/\w+": not authenticated'});
refused($e, 'SELECT snowflake_nextval()', '55000', qr{DETAIL:  The registry is "zookeeper://127\.0\.0\.1:\d+/secret/reg"},
	'a wrong password');
like(lease_of($e, 'remedy'), qr{^Another user made the nodes below /secret/reg\. Put that user and its password into the file \S+ \(\?credentials= in snowflake\.registry\)\. Or, in zkCli\.sh -server \S+ as that user \(addauth digest OWNER:PASSWORD\), run: setAcl -R /secret/reg digest:'?snow'?:HASH:cdrwa$},
	'... and what helps');
write_credentials("snow\np@ \"w\n");
$e->append_conf('postgresql.conf', "snowflake.registry = 'zookeeper://$base?credentials=$credentials'");
$e->restart;
wait_for_lease($e, q{problem ~ 'is for (the|a) layout'});
pass('... which is the right password, in a file');
write_credentials("snow");
$e->restart;
wait_for_lease($e, q{problem ~ 'two lines'});
like(lease_of($e, 'remedy'), qr{^Put user and password into the two lines of the file \Q$credentials\E \(\?credentials= in snowflake\.registry\), which only this server's account can read \(chmod 600\)\.$},
	'half of a file: what helps');
write_credentials("snow\np@ \"w\n");
wait_for_lease($e, q{problem ~ 'is for (the|a) layout'});
pass('... and does, at once');
$e->append_conf('postgresql.conf', "snowflake.registry = 'zookeeper://127.0.0.1:$closed/reg'");
$e->restart;
wait_for_lease($e, q{problem ~ 'refused'});
my ($list) = lease_of($e, 'remedy') =~ /^If other servers lease elsewhere \(SHOW snowflake\.registry;\), set that here, and restart\. If not, start ZooKeeper\. This tries its hosts: (zkCli\.sh .* ls \/)$/
  or diag(lease_of($e, 'remedy'));
like(typed_in_shell("timeout 20 $list"), qr/refused|ConnectionLoss/i, 'no ZooKeeper: what is typed tries the host');
$e->append_conf('postgresql.conf', 'snowflake.registry = \'zookeeper://' . $zk->host . "/reg'");
$e->restart;
wait_for_lease($e, q{problem ~ 'All slots|layout' OR state = 'held'});
pass('... and the right one answers');
$e->stop;
unlike(slurp_file($e->logfile), qr/wrong/, 'which is told nobody');

# A server is killed. The old session's presence is in the way until it times out. That may
# be before the server has started again, so the test makes the same presence itself.
my $node_id = lease_of($a, 'node_id');
my $killed = $zk->get("/reg/present/$node_id");
my $from = -s $a->logfile;
$a->stop('immediate');
wait_until { !$zk->get("/reg/present/$node_id") } 'the old session does not time out';
$zk->put("/reg/present/$node_id", $killed->{value});
$a->start;
like_log($a, qr/All slots from 2 to 3 are taken/, $from, 'who was there before is in the way');
$zk->delete("/reg/present/$node_id");
wait_until_held($a);
is(lease_of($a, 'node_id'), $node_id, 'a server is killed: it has its slot again');
isnt($zk->get("/reg/present/$node_id")->{session}, $killed->{session}, 'in another session');

# A deleted presence is made again.
$zk->delete("/reg/present/$node_id");
wait_until { $zk->get("/reg/present/$node_id") } 'nobody is there';
pass('a presence that was lost is made again');
$_->stop foreach $a, $b;
is($zk->get("/reg/present/$node_id"), undef, 'a clean stop: nobody is there');
is(decode_json($zk->get("/reg/slots/$node_id")->{value})->{released}, JSON::PP::true, 'and it is given back');
$node->stop;
done_testing();
