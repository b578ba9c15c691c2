# A registry in ZooKeeper: how its library handles requests, answers and errors, called
# without the worker; and servers that lease from it. Needs ZooKeeper, and the library
# that test/helpers/registry_driver builds.
#
# takes: 76 s
# needs: libzookeeper-java default-jre-headless libzookeeper-st-dev registry_driver
use SnowflakeTest;
use IdChecker;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use List::Util qw(sum);
use Load;
use POSIX ();
use RegistryDriver;
use Time::HiRes qw(usleep);
use ZooKeeper;

my $node = start_driver('zookeeper');

# All members start now, so that they are ready later.
my $zk = ZooKeeper->new('one');
$zk->{config} = "enforceQuota=true\n";
$zk->launch;
my $identity = '{"layout":"timestamp:41 sequence:22","floor":100}';

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
foreach (
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
	[ 'zookeeper://' . join(',', ('h') x 17), qr/more than 16 hosts/ ])
{
	my ($url, $pattern) = @$_;
	my $reason = try_open($w, $url);

	like($reason, $pattern, "$url: $reason");
	unlike($reason, qr/sec/, 'which tells no secret');
}
is(try_open($w, $_), 'ok', $_)
  foreach 'zookeeper://h', 'zookeeper://[::1],10.0.0.1:1/a/b/', 'zookeeper://u:p%40%2f@h-1.x_y';
$w->quit;

# ---- the life of a lease ----

$zk->wait_until_ready;
my $url = 'zookeeper://' . $zk->host . '/top/reg';
my $v;
my $other;

$w = worker($url);
is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
make_registry('/top/reg2', '0000000000000007');
is(reading($w), 'uninitialized 0 0 ', 'other prefixes are not ours');
make_registry('/top/reg', '0000000000000007');
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'a registry, empty');
my $clock = ask($w, 'read')->{clock_ms} / 1000;
ok(abs($clock - time) < 60, 'says what time it is');

# Claim.
claim($w, 'of another generation', 'CONFLICT', generation => 8);
claim($w, 'of a record that is not there', 'CONFLICT', version => 3);
is($zk->get('/top/reg/slots/5'), undef, 'nothing was written');
$v = claim($w, 'claim', 'DONE');
my $record = $zk->get('/top/reg/slots/5');
my $presence = $zk->get('/top/reg/present/5');
is($record->{version} + 1, $v, 'the version is that of the node, and one');
is_deeply(decode_json($record->{value}),
	{ epoch => 3, owner => '000000000000000b', server => '0000000000000004',
		write_id => '0000000000000015', until => 1000, offset_ms => -5, reserve_ms => 0,
		released => JSON::PP::false, host => 'here', process => 6, since_ms => 7,
		address => '127.0.0.1' }, 'all of the record is written');
is($presence->{value}, '000000000000000b', 'and the presence');
isnt($presence->{session}, 0, 'for as long as a session');
my $line = "initialized 7 100 timestamp:41 sequence:22\n5: written epoch 3 owner 11 server 4 "
  . "write 21 until 1000 offset -5 held host 'here' process 6 since 7 address '127.0.0.1' present 11";
is(reading($w), $line, 'read as it was written');
$other = worker($url);
reading($other);
claim($other, 'never written, but it was', 'CONFLICT', owner => 12, displaced => 11);
claim($other, 'of a younger version', 'CONFLICT', owner => 12, displaced => 11, version => $v + 1);
claim($other, 'somebody is present', 'CONFLICT', owner => 12, version => $v);
claim($other, 'somebody else is present', 'CONFLICT', owner => 12, version => $v, displaced => 13);
is(reading($w), $line, 'nothing was written');

# Extend and keep alive.
my $v2 = asked($w, 'extend', 'DONE', qr/^$/, 'extend', version => $v, until => 2000, write_id => 22);
is($v2, $v + 1, 'the version has grown');
asked($w, 'extend what was extended', 'CONFLICT', qr/^$/, 'extend', version => $v);
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
asked($w, 'another owner\'s', 'ABSENT', qr/^$/, 'keepalive', owner => 12);
is($zk->get('/top/reg/present/5')->{czxid}, $presence->{czxid}, 'extending leaves the presence alone');
asked($other, 'keep alive what is of another session', 'ABSENT', qr/^$/, 'keepalive');

# The presence is deleted, and made again.
$zk->delete('/top/reg/present/5');
asked($w, 'keep alive what is deleted', 'ABSENT', qr/^$/, 'keepalive');
like(reading($w), qr/until 2000 .* present 0$/m, 'nobody is there');
$v = asked($w, 'extend without presence', 'DONE', qr/^$/, 'extend', version => $v2);
is($zk->get('/top/reg/present/5'), undef, 'which makes none');
$v = asked($w, 'extend with presence', 'DONE', qr/^$/, 'extend', version => $v, presence => 1);
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
$presence = $zk->get('/top/reg/present/5');
$v = asked($w, 'extend with a presence that is there', 'DONE', qr/^$/, 'extend', version => $v, presence => 1);
is($zk->get('/top/reg/present/5')->{czxid}, $presence->{czxid}, 'which leaves it alone');

# The same owner has a new session, as after a long freeze of its process.
$v = asked($other, 'extend in another session', 'DONE', qr/^$/, 'extend', version => $v, presence => 1);
asked($w, 'the first has it no more', 'ABSENT', qr/^$/, 'keepalive');
asked($other, 'the second has', 'DONE', qr/^$/, 'keepalive');

# Displace, and be displaced.
$v2 = claim($w, 'displace', 'DONE', owner => 12, displaced => 11, version => $v);
asked($other, 'extend what is lost', 'CONFLICT', qr/^$/, 'extend', version => $v);
asked($other, 'somebody else is present', 'CONFLICT', qr/^$/, 'extend', version => $v2);
asked($other, 'release what is lost', 'CONFLICT', qr/^$/, 'release', version => $v2);
asked($other, 'nor be kept alive', 'ABSENT', qr/^$/, 'keepalive');
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive', owner => 12);

# Release.
$v = asked($w, 'release', 'DONE', qr/^$/, 'release', owner => 12, version => $v2, until => 1500);
like(reading($w), qr/^5: .* until 1500 .* released .* present 0$/m, 'released, and nobody there');
is($zk->get('/top/reg/present/5'), undef, 'the presence is deleted');
asked($w, 'keep alive', 'ABSENT', qr/^$/, 'keepalive', owner => 12);

# An administrator's release displaces the server that is present.
$v = claim($w, 'claim', 'DONE', version => $v, owner => 12);
asked($other, 'released, but somebody else is there', 'CONFLICT', qr/^$/, 'release', owner => 0,
	displaced => 13, version => $v);
asked($other, 'released for who is there', 'DONE', qr/^$/, 'release', owner => 0, displaced => 12,
	version => $v, address => '10.0.0.1', until => 1700);
like(reading($w), qr/^5: .* owner 0 .* until 1700 .* released .* address '10.0.0.1' present 0$/m,
	'nobody has it; the address stays');
asked($w, 'keep alive', 'ABSENT', qr/^$/, 'keepalive', owner => 12);

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

# The largest and smallest numbers, odd texts, and slots sorted by number.
my $host = q{a"b\\c'd/<&>};
my @others;
foreach my $slot (1000000, 10, 9, 0)
{
	push @others, worker($url);
	reading($others[-1]);
	claim($others[-1], "node $slot", 'DONE', node => $slot, owner => -1, write_id => -2,
		until => 9223372036854775807, host => $host);
}
like(reading($w), qr/owner -1 server 4 write -2 until 9223372036854775807 .*\Q$host\E.* present -1$/m,
	'as it was written');
is(join(' ', reading($w) =~ /^(\d+):/mg), '0 5 9 10 1000000', 'by node');
$_->quit foreach @others;
asked($w, 'abandon', 'DONE', qr/^$/, 'read', twice => 1);

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
$zk->delete('/top/reg/slots/4');
$zk->put('/top/reg/registry/000000000000000a', $identity);
like(reading($w), qr{^REFUSED "/top/reg/registry": there is more than one generation}, 'two generations');
$zk->delete('/top/reg/registry/000000000000000a');
like(reading($w), qr/^initialized/, 'it can be read again');

# ---- initialize and recover ----

asked($w, 'initialize what there is', 'CONFLICT', qr/^$/, 'initialize', new_generation => 9);
asked($w, 'recover another one', 'CONFLICT', qr/^$/, 'recover', generation => 6);
is(join(' ', $zk->children('/top/reg/registry')), '0000000000000007', 'nothing was written');
$zk->delete("/top/reg/slots/$_") foreach 0, 9, 10, 1000000;
like(reading($w), qr/^initialized 7 100 /, 'a registry whose slots reach up to 1700');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
asked($w, 'recover it twice', 'CONFLICT', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
like(reading($w), qr/^initialized 9 1600 timestamp:41 sequence:22$/m, 'with the floor that was asked for');
asked($w, 'recover once more', 'DONE', qr/^$/, 'recover', generation => 9, new_generation => -2,
	new_floor => 2000);
like(reading($w), qr/^initialized -2 2000 timestamp:41 sequence:22$/m, 'and another one');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', generation => -2, new_generation => 10,
	new_floor => 5);
like(reading($w), qr/^initialized 10 2000 /, 'nor lower than before');
claim($w, 'how far is reserved', 'DONE', generation => 10, node => 11, reserve => 3600000);
like(reading($w), qr/^11: .* present 11 reserve 3600000$/m, 'is read as it was written');
$other->quit;
$other = worker('zookeeper://' . $zk->host . '/far/away/new');
is(reading($other), 'uninitialized 0 0 ', 'a registry that is none');
asked($other, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => -3, new_floor => 400,
	layout => 'timestamp:40 sequence:22');
is(reading($other), 'initialized -3 400 timestamp:40 sequence:22', 'is one');
asked($other, 'initialize again', 'CONFLICT', qr/^$/, 'initialize');
is(reading($other), 'initialized -3 400 timestamp:40 sequence:22', 'which changes nothing');
claim($other, 'claim', 'DONE', generation => -3);
$other->quit;
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
	my $socket = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die;
	my $pid = fork // die "fork: $!";
	my $slots = 0;

	return ($pid, '127.0.0.1:' . $socket->sockport) if $pid;
	while (my $client = $socket->accept)
	{
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
		close $_ foreach $client, $server;
	}
	POSIX::_exit(0);
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
	$w = worker("zookeeper://$relay," . $zk->host . '/top/reg', timeout => 1500);
	like(reading($w), qr/^initialized/, "$how: read");
	asked($w, "$how: claim", 'UNKNOWN', $pattern, 'claim', node => $slot, presence => 1);
	is(-s $seen_file, 1, 'sent once');
	is(defined $zk->get("/top/reg/slots/$slot") ? 1 : 0, $made, $made ? 'it was made' : 'it was not made');
	like(reading($w), $made ? qr/^$slot: .* present 11$/m : qr/^(?!.*^$slot:)/ms, 'read, by the other host');
	asked($w, 'keep alive', $made ? 'DONE' : 'ABSENT', qr/^$/, 'keepalive', node => $slot);
	$w->quit;
	kill 'KILL', $pid;
	waitpid $pid, 0;
}

# ---- answers that end too early ----

# Start a stand-in for ZooKeeper: it answers each list of children with this, and all
# other requests with nothing but the header.
sub fake
{
	my ($children) = @_;
	my $socket = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die;
	my $pid = fork // die "fork: $!";

	return ($pid, '127.0.0.1:' . $socket->sockport) if $pid;
	while (my $client = $socket->accept)
	{
		take_message($client);
		print $client ZooKeeper::text(pack('l> l> q> a*', 0, 30000, 7, ZooKeeper::text('p' x 16)));
		while ((my $message = take_message($client)) ne '')
		{
			my ($xid, $kind) = unpack('x4 l> l>', $message);

			print $client ZooKeeper::text(pack('l> q> l> a*', $xid, 1, 0, $kind == 12 ? $children : ''));
		}
	}
	POSIX::_exit(0);
}

foreach (
	[ 'two names of a thousand', pack('l> a*', 1000, ZooKeeper::text('7') x 2) ],
	[ 'fewer than none', pack('l>', -1) ],
	[ 'a name of no length', pack('l> l>', 1, -1) ])
{
	my ($name, $children) = @$_;
	my ($pid, $host) = fake($children);

	$w = worker("zookeeper://$host/top/reg");
	asked($w, $name, 'REFUSED', qr{^"/top/reg/registry": the answer is not readable\.$}, 'read');
	$w->quit;
	kill 'KILL', $pid;
	waitpid $pid, 0;
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
kill 'KILL', $pid;
waitpid $pid, 0;

# ---- rights ----

my $credentials = "$PostgreSQL::Test::Utils::tmp_check/credentials";

sub write_credentials
{
	my ($text, $mode) = @_;

	unlink $credentials;
	append_to_file($credentials, $text);
	chmod $mode // 0600, $credentials;
	return;
}

my $base = $zk->host . '/secret/reg';
write_credentials("snow\np@ \"w\n");
$w = worker("zookeeper://$base?credentials=$credentials");
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
like(reading($w), qr/^initialized 7/, 'with the credentials of a file');
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

# Two slots, those of the second datacenter.
my $layout = 'timestamp:41 datacenter:1 worker:1 sequence:12 epoch:2024-01-01';
my $next = 'SELECT snowflake_nextval()';
my $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "zookeeper:/s;
my $checker = IdChecker->new($node->basedir . '/ids');
my $ensemble = ZooKeeper->ensemble('m1', 'm2', 'm3');
my %loads;

sub new_holder
{
	my ($name, $where, @settings) = @_;
	my $server = new_server($name, "snowflake.node_id = '1/'",
		"snowflake.layout = '$layout'",
		"snowflake.registry = 'zookeeper://$where'",
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'",
		"snowflake.lease_timeout = '3s'", "snowflake.lease_wait = 0",
		"snowflake.max_clock_wait = '10s'", "restart_after_crash = on", @settings);

	$server->start;
	return $server;
}

# Start clients of a server, which run as long as it does.
sub start_clients
{
	my ($server, $group) = @_;
	my $load = start_trickle($checker, $group, $server->connstr('postgres'));

	push @{ $loads{$group} }, $load;
	$server->{load} = $load;
	$load->more(50);
	return;
}

sub finish_clients
{
	my ($server) = @_;
	my $errors = join ' ', sort keys %{ $server->{load}->finish };

	like($errors, qr/^(?:55000)?$/, $server->name . ': clients are refused for want of a lease, or not at all');
	return;
}

# Count the IDs before and after, and print how many were made meanwhile.
sub begin_fault { my ($group) = @_; return sum(map { $_->count } @{ $loads{$group} }) }

sub end_fault
{
	my ($group, $before, $fault) = @_;
	my $n = begin_fault($group) - $before;

	cmp_ok($n, '>', 0, "$fault: $n IDs meanwhile");
	return;
}

sub holds
{
	my ($server) = @_;

	wait_for_lease($server, q{state = 'held' AND problem IS NULL AND until > clock_timestamp()});
	return lease_of($server, 'node_id');
}

# ZooKeeper cannot be reached at the start.
$zk->stop('KILL');
my $a = new_holder('a', "127.0.0.1:$closed," . $zk->host . '/reg');
query($a, 'CREATE EXTENSION snowflake');
wait_for_lease($a, 'problem IS NOT NULL');
refused($a, $next, '55000', qr/$none.*The registry answered: 127\.0\.0\.1:\d+: Connection refused; 127\.0\.0\.1:\d+: Connection refused\./s,
	'not to be reached at the start');
$zk->start;
wait_for_lease($a, q{problem ~ 'never initialized' AND remedy ~ 'run here: SELECT snowflake_registry_init'});
is(query($a, 'SELECT snowflake_registry_init()'), 't', 'made a registry from here');
is(query($a, 'SELECT snowflake_registry_init()'), 'f', 'once');
holds($a);
pass('until it is');
start_clients($a, 'ZooKeeper');
my $b = new_holder('b', $zk->host . '/reg');
query($b, 'CREATE EXTENSION snowflake');
isnt(holds($a), holds($b), 'another server has another');
start_clients($b, 'ZooKeeper');
my $until = lease_of($a, 'until');
wait_for_lease($a, "until > '$until'");
pass('and extends it');
is(decode_json($zk->get('/reg/slots/' . holds($a))->{value})->{released}, JSON::PP::false, 'a server holds a slot');
my $c = new_holder('c', $zk->host . '/reg');
query($c, 'CREATE EXTENSION snowflake');
wait_for_lease($c, q{problem ~ 'All slots from 2 to 3 are taken'});
pass('all slots are taken');
is(query($a, q{SELECT string_agg(concat_ws(' ', slot, address, process IS NOT NULL, present), ', ' ORDER BY slot)
	FROM snowflake_registry_slots()}), '2 127.0.0.1 t t, 3 127.0.0.1 t t', 'and it is known by whom');

# A server that may not read the registry reports this, without the password.
my $e = new_holder('e', 'snow:wrong@' . $zk->host . '/secret/reg');
query($e, 'CREATE EXTENSION snowflake');
wait_for_lease($e, q{problem ~ 'The registry answered: "/secret/reg/\w+": not authenticated'});
refused($e, $next, '55000', qr{DETAIL:  The registry is "zookeeper://127\.0\.0\.1:\d+/secret/reg"}, 'a wrong password');
$e->stop;
unlike(slurp_file($e->logfile), qr/wrong/, 'which is told nobody');

# The worker is frozen for longer than its presence and its reserve.
$_->launch foreach @$ensemble;    # ready when it is wanted
my $frozen = lease_of($a, 'pid');
my $from = -s $a->logfile;
my $before = begin_fault('ZooKeeper');
my $node_id = holds($a);
is(kill('STOP', $frozen), 1, 'a worker is frozen');
is(holds($c), $node_id, 'another server has its slot');
start_clients($c, 'ZooKeeper');
kill 'CONT', $frozen;
wait_for_lease($a, q{problem ~ 'are taken'});
like_log($a, qr/The lease of node id $node_id is lost: another server has claimed it/, $from,
	'it finds that its lease is lost');
end_fault('ZooKeeper', $before, 'a frozen worker');

# A clean stop gives the slot back, and the waiting server takes it.
$before = begin_fault('ZooKeeper');
finish_clients($c);
$c->stop;
is(holds($a), $node_id, 'a clean stop: the slot is free at once');
end_fault('ZooKeeper', $before, 'a clean stop');

# One server is killed, and so is another one's worker, with which that server crashes.
# The old session's presence is in the way until it times out.
my %sessions = map { $zk->get("/reg/present/$_")->{session} => 1 } 2, 3;
$before = begin_fault('ZooKeeper');
my %from = map { $_->name => -s $_->logfile } $a, $b;
$a->{load}->finish;
$a->stop('immediate');
$a->start;
kill 'KILL', lease_of($b, 'pid');
wait_for_restart($b, $from{b});
$b->{load}->finish;
like_log($_, qr/All slots from 2 to 3 are taken/, $from{ $_->name }, 'who was there before is in the way') foreach $a, $b;
my @had = map { holds($_) } $a, $b;
is(join(' ', sort @had), '2 3', 'servers are killed: they have the two slots again');
is(scalar(grep { $sessions{ $zk->get("/reg/present/$_")->{session} } } 2, 3), 0, 'in other sessions');
start_clients($_, 'ZooKeeper') foreach $a, $b;
end_fault('ZooKeeper', $before, 'servers are killed');

# ZooKeeper is killed.
$before = begin_fault('ZooKeeper');
$zk->stop('KILL');
wait_for_lease($_, 'problem IS NOT NULL') foreach $a, $b;
$zk->start;
is(join(' ', map { holds($_) } $a, $b), "@had", 'ZooKeeper is killed: node ids are as before');
end_fault('ZooKeeper', $before, 'ZooKeeper is killed');

# An administrator frees the slot of a live server.
$from = -s $a->logfile;
$node_id = holds($a);
is(query($b, "SELECT snowflake_registry_release($node_id)"), 't', 'a slot is freed');
like_log($a, qr/The lease of node id $node_id is lost/, $from, 'its holder finds out');
is(holds($a), $node_id, 'and claims it again');

# A deleted presence is made again.
$zk->delete("/reg/present/$node_id");
foreach my $try (1 .. 3000)
{
	last if $zk->get("/reg/present/$node_id");
	usleep(20_000);
}
ok($zk->get("/reg/present/$node_id"), 'a presence that was lost is made again');

# Three members: the leader is killed; then two members are, and come back.
$_->wait_until_ready foreach @$ensemble;
my $leader = leader_of(@$ensemble);
my @rest = grep { $_ != $leader } @$ensemble;
my $d = new_holder('d', join(',', map { $_->host } $leader, @rest) . '/reg');
query($d, 'CREATE EXTENSION snowflake; SELECT snowflake_registry_init()');
$node_id = holds($d);
start_clients($d, 'three members');
$before = begin_fault('three members');
$leader->stop('KILL');
$until = lease_of($d, 'until');
wait_for_lease($d, "until > timestamptz '$until' + interval '5 s' AND problem IS NULL");
is(lease_of($d, 'node_id'), $node_id, 'the leader is killed: extended by the others');
end_fault('three members', $before, 'the leader is killed');
$before = begin_fault('three members');
$rest[0]->stop('KILL');

# Meanwhile the single ZooKeeper has lost all of its data.
my $lost = begin_fault('ZooKeeper');
$zk->wipe;
wait_for_lease($_, q{problem ~ 'has lost its data'}) foreach $a, $b;
end_fault('ZooKeeper', $lost, 'all data is lost');
# long enough that the wait is seen, however late the servers read the registry
is(query($a, q{SELECT snowflake_registry_recover('20 s', '1 s') > now() + interval '20 s'}), 't', 'it is recovered');
wait_for_lease($a, q{problem ~ 'lets no server claim a slot before'});
isnt(holds($a), holds($b), 'after a recovery both have one again');
$_->{load}->more(50) foreach $a, $b;
end_fault('ZooKeeper', $lost, 'all data is lost, and it is recovered');

wait_for_lease($d, 'until < clock_timestamp()');
refused($d, $next, '55000', qr/$none/, 'no quorum until the reservation has ended: no IDs');
end_fault('three members', $before, 'no quorum');
$_->launch foreach $leader, $rest[0];
$_->wait_until_ready foreach $leader, $rest[0];
is(holds($d), $node_id, 'and it goes on when it is back');
$d->{load}->more(50);
end_fault('three members', $before, 'no quorum, and it is back');

# ---- the end ----

my @slots = map { holds($_) } $a, $b;
foreach my $server ($a, $b, $d)
{
	finish_clients($server);
	$server->stop;
}
is($zk->get("/reg/present/$_"), undef, 'a clean stop: nobody is there') foreach @slots;
is(decode_json($zk->get("/reg/slots/$_")->{value})->{released}, JSON::PP::true, 'and it is given back')
  foreach @slots;
$checker->clients;
$node->stop;
done_testing();
