# A registry in etcd: how its library handles requests, answers and errors, called
# without the worker; and servers that lease from it. Needs etcd, openssl, and the
# library that test/helpers/registry_driver builds.
#
# takes: 60 s
# needs: etcd-server etcd-client libcurl4-openssl-dev openssl libio-socket-ssl-perl registry_driver
use SnowflakeTest;
use Etcd;
use IdChecker;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use RegistryDriver;
use RegistryLife;

my $node = start_driver('etcd');

my $identity = '{"generation":"0000000000000007","layout":"timestamp:41 sequence:22","floor":100,"former":""}';

# ---- URLs ----

my $w = $node->background_psql('postgres');
check_urls($w, [
	[ 'etcd://', qr/"" is neither a host/ ],
	[ 'postgresql://h/db', qr/does not begin with etcd/ ],
	[ 'etcd://h:x/p', qr/"h:x" is neither a host/ ],
	[ 'etcd://h/x?a=/b', qr/no option "a"/ ],
	[ 'etcd://h,,g/x', qr/"" is neither a host/ ],
	[ 'etcd://[::1/x', qr/is neither a host/ ],
	[ 'etcd://h/x?cert=/c', qr/go together/ ],
	[ 'etcd://h/x?credentials=relative', qr/full path/ ],
	[ 'etcd://u:secret@h/x', qr/into a file/ ],
	[ 'etcd://u:2024?secret@h/x', qr/"\?" as %3F/ ],
	[ 'etcd://u:2024?secret&x@h/x?cert=/c', qr/"\?" as %3F/ ],
	[ 'etcd://h/x?cert=/c@d', qr/go together/ ],
	[ 'etcd://' . join(',', ('h') x 17), qr/more than 16 hosts/ ] ],
	'etcd://h', 'etcd://[::1],10.0.0.1:1/a/b/', 'etcds://h-1.x_y:2379/?cacert=/ca');
$w->quit;

# ---- the life of a lease ----

my $etcd = Etcd->new('one')->start;
my $url = 'etcd://' . $etcd->host . '/reg';
my ($v, $other);
my %registry = (
	kept => sub { return defined $etcd->get("reg/slots/$_[0]") },
	present => sub { my $presence = $etcd->get("reg/present/$_[0]"); return $presence && hex $presence->{value} },
	lose_presence => sub { $etcd->call('lease/revoke', { ID => $etcd->get("reg/present/$_[0]")->{lease} }) },
	forget => sub { $etcd->delete("reg/$_/$_[0]") foreach qw(slots present) },
	released_at => '10.0.0.1');

$w = worker($url);
is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
$etcd->put('registry', $identity);
$etcd->put('reg2/registry', $identity);
is(reading($w), 'uninitialized 0 0 ', 'other prefixes are not ours');
$etcd->put('reg/registry', $identity);
check_clock($w);

# What is stored. The presence is under a lease of etcd.
$v = claim($w, 'claim', 'DONE', node => 6);
my $record = $etcd->get('reg/slots/6');
my $presence = $etcd->get('reg/present/6');
is($record->{mod_revision}, $v, 'the version is the revision');
is_deeply(decode_json($record->{value}), record_stored(), 'all of the record is written');
is($presence->{value}, '000000000000000b', 'and the presence');
is($etcd->call('lease/timetolive', { ID => $presence->{lease} })->{grantedTTL}, 60,
	'under a lease with its TTL');
$v = asked($w, 'extend', 'DONE', qr/^$/, 'extend', node => 6, version => $v);
is($etcd->get('reg/present/6')->{lease}, $presence->{lease}, 'extending leaves the presence alone');

# Another process learns from a reading which presence to keep alive.
$other = worker($url);
asked($other, 'keep alive what was not read', 'ABSENT', qr/^$/, 'keepalive', node => 6);
asked($other, 'extend what was not read', 'CONFLICT', qr/^$/, 'extend', node => 6, version => $v);
like(reading($other), qr/present 11$/, 'somebody is there');
asked($other, 'keep alive what was read', 'DONE', qr/^$/, 'keepalive', node => 6);
$other->quit;
$registry{forget}->(6);

check_lease($url, %registry);
check_largest($w, $url, %registry);

# A presence without a record, and a record that cannot be parsed.
$etcd->put('reg/present/3', '00000000000000ff');
like(reading($w), qr/^3: unwritten .* present 255$/m, 'a presence without a record');
$etcd->put('reg/slots/4x', 'no slot');
unlike(reading($w), qr/REFUSED/, 'what else there is is left alone');
$etcd->put('reg/slots/4', '{"epoch":1}');
like(reading($w), qr{^REFUSED .*"reg/slots/4" is not readable}, 'half of a record');
$etcd->put('reg/slots/4', '{"epoch":');
like(reading($w), qr{^REFUSED .*not understood: invalid input syntax}, 'none at all');

$etcd->put('reg/slots/4', q({"epoch":1,"owner":"0000000000000000","server":"0000000000000007","write_id":"0000000000000009","until":-1,"offset_ms":0}));
like(reading($w), qr{^REFUSED The end of the reservation of slot 4 is negative}, 'a reservation until before the epoch');
$etcd->delete('reg/slots/4');
like(reading($w), qr/^initialized/, 'it can be read again');

# ---- initialize and recover ----

check_recovery($w, %registry);
check_initialize('etcd://' . $etcd->host . '/new');

# ---- the registry is lost ----

# The same revisions come again. A record from before must not be extended.
$etcd->wipe;
$etcd->put('reg/registry', $identity);
like(reading($w), qr/^initialized 7/, 'a registry');
$v = claim($w, 'claim', 'DONE');
$etcd->wipe;
asked($w, 'wiped: keep alive', 'ABSENT', qr/^$/, 'keepalive');
asked($w, 'wiped: extend', 'CONFLICT', qr/^$/, 'extend', version => $v);
$etcd->put('reg/registry', $identity =~ s/7/8/r);
$etcd->put('reg/slots/5', '{}');
is($etcd->get('reg/slots/5')->{mod_revision}, $v, 'made again, with the version of before');
asked($w, 'made again: extend', 'CONFLICT', qr/^$/, 'extend', version => $v);
is($etcd->get('reg/slots/5')->{value}, '{}', 'nothing was written');
$w->quit;
$etcd->wipe;

# ---- endpoints ----

my $closed = PostgreSQL::Test::Cluster::get_free_port();
my $deaf = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die;
my $deaf_host = '127.0.0.1:' . $deaf->sockport;

$etcd->put('reg/registry', $identity);
$w = worker("etcd://127.0.0.1:$closed," . $etcd->host . '/reg');
like(reading($w), qr/^initialized/, 'the first endpoint is down: the second is asked');
claim($w, 'and that first, from then on', 'DONE', node => 20);
$w->quit;
$w = worker("etcd://127.0.0.1:$closed,127.0.0.1:$closed/reg");
asked($w, 'all are down', 'REFUSED', qr/127\.0\.0\.1:$closed: .*connect.*\.$/i, 'read');
$w->quit;

# An endpoint that is silent. A reading goes on with the next one, but a write may
# still arrive.
$w = worker("etcd://$deaf_host," . $etcd->host . '/reg', timeout => 2000);
like(reading($w), qr/^initialized/, 'the first endpoint is silent: the second is asked');
$w->quit;
$w = worker('etcd://' . $etcd->host . ",$deaf_host/reg", timeout => 2000);
like(reading($w), qr/^initialized/, 'the second would be silent');
$v = claim($w, 'claim', 'DONE', node => 21);
$etcd->stop;
asked($w, 'a write to who is silent', 'UNKNOWN', qr/timed out.*\.$/i, 'extend', node => 21, version => $v);
$etcd->start;
asked($w, 'the other is next', 'DONE', qr/^$/, 'extend', node => 21, version => $v);
$w->quit;
$w = worker("etcd://$deaf_host/reg", timeout => 500);
asked($w, 'all are silent', 'REFUSED', qr/timed out/i, 'read');
is(ask($w, 'read')->{failure}, 'TIMEOUT', 'which has a remedy of its own');
$w->quit;

# Type what a remedy says in a shell. Return what it prints.
sub typed_in_shell
{
	my ($command) = @_;
	my $said = '';
	local $ENV{ETCDCTL_API} = 3;

	IPC::Run::run([ 'bash', '-c', $command ], '<', \undef, '>&', \$said);
	return $said;
}

# ---- answers with few words ----

# Read a request of HTTP. Return its path.
sub take_request
{
	my ($client) = @_;
	my ($path, $len) = ('', 0);

	while (defined(my $header = <$client>))
	{
		$path = $1 if $header =~ /^POST (\S+)/;
		$len = $1 if $header =~ /^Content-Length: (\d+)/i;
		last if $header =~ /^\r?\n$/;
	}
	read($client, my $body, $len);
	return $path;
}

sub answer_with
{
	my ($client, $status, $text) = @_;

	print $client "HTTP/1.1 $status X\r\nContent-Length: " . length($text) . "\r\n\r\n$text";
	return;
}

# Start a stand-in for etcd. It answers readings and grants. To a write it gives this
# answer, or none. It counts the writes in a file.
my $seen_file = "$PostgreSQL::Test::Utils::tmp_check/writes";

sub fake
{
	my ($grant, $write) = @_;
	my %answer = ('/v3/lease/grant' => $grant, '/v3/lease/keepalive' => $write, '/v3/kv/txn' => $write,
		'/v3/kv/range' => [ 200, encode_json({ header => { revision => '2' },
			kvs => [ { key => encode_base64('reg/registry', ''), value => encode_base64($identity, '') } ] }) ]);

	return stand_in(sub {
		my ($client) = @_;
		my $path = take_request($client);

		append_to_file($seen_file, "x") if $path =~ /txn/;
		answer_with($client, @{ $answer{$path} }) if $answer{$path}[0] != 0;
	});
}

my $granted = [ 200, '{"ID":"9","TTL":"60"}' ];
my $quota = '{"error":"etcdserver: mvcc: database space exceeded","code":8}';
foreach (
	[ 'closed', [ 0, '' ], 'UNKNOWN', qr/^http:.*\.$/ ],
	[ 'no leader', [ 503, '{"message":"etcdserver: no leader","code":14}' ], 'UNKNOWN', qr/no leader/ ],
	[ 'in doubt', [ 500, '{"error":"etcdserver: request timed out"}' ], 'UNKNOWN', qr/timed out/ ],
	[ 'in time?', [ 504, '' ], 'UNKNOWN', qr/HTTP status 504/ ],
	[ 'quota', [ 429, $quota ], 'UNKNOWN', qr/quota of etcd is used up: compact/ ],
	[ 'too many', [ 429, '{"error":"etcdserver: too many requests"}' ], 'UNKNOWN', qr/^etcdserver: too many/ ],
	[ 'a page', [ 502, '<html>' ], 'UNKNOWN', qr/^no answer from etcd \(HTTP status 502/ ],
	[ 'a page that is well', [ 200, '<html>' ], 'UNKNOWN', qr/not understood/ ],
	[ 'half', [ 200, '{"header":{"revision":"3"},"succ' ], 'UNKNOWN', qr/not understood/ ],
	[ 'nothing', [ 200, '{}' ], 'UNKNOWN', qr/not readable/ ],
	[ 'elsewhere', [ 301, '' ], 'UNKNOWN', qr/HTTP status 301/ ],
	[ 'forbidden', [ 403, '{"error":"etcdserver: permission denied","code":7}' ], 'REFUSED', qr/permission denied/ ],
	[ 'lease gone', [ 404, '{"error":"etcdserver: requested lease not found","code":5}' ], 'REFUSED', qr/not found/ ],
	[ 'wrong', [ 400, '{"error":"x"}' ], 'REFUSED', qr/^x \(HTTP status 400/ ],
	[ 'not so', [ 200, '{"header":{"revision":"3"}}' ], 'CONFLICT', qr/^$/ ],
	[ 'deep', [ 200, '{"header":{"revision":"3"}' . ',"responses":[{"response_txn":{"a":0' x 9 . ',"succeeded":true' . '}}]' x 9 . '}' ], 'CONFLICT', qr/^$/ ],
	[ 'so', [ 200, '{"header":{"revision":"3"},"succeeded":true}' ], 'DONE', qr/^$/ ])
{
	my ($name, $write, $result, $pattern) = @$_;
	my ($pid, $host) = fake($granted, $write);

	unlink $seen_file;
	append_to_file($seen_file, '');
	# also with more endpoints, a write that may have arrived is sent once
	$w = worker("etcd://$host,$host,$host/reg");
	like(reading($w), qr/^initialized/, "$name: read");
	asked($w, "$name: extend", $result, $pattern, 'extend');
	is(-s $seen_file, 1, "$name: sent once");
	asked($w, "$name: claim", $result, $pattern, 'claim', presence => 1);
	is(-s $seen_file, 2, "$name: sent once");
	asked($w, "$name: $_", $result, $pattern, $_) foreach 'recover', 'initialize';
	is(-s $seen_file, 4, "$name: each sent once");
	$w->quit;
	end_stand_in($pid);
}
foreach ([ 503, '{}' ], [ 429, $quota ], [ 0, '' ], [ 200, '{}' ])
{
	my ($pid, $host) = fake($_, [ 0, '' ]);

	unlink $seen_file;
	$w = worker("etcd://$host,$host/reg");
	like(reading($w), qr/^initialized/, "$_->[0] to a lease: read");
	asked($w, "$_->[0] to a lease: claim", 'REFUSED', qr/./, 'claim', presence => 1);
	ok(!-e $seen_file, 'the claim was not sent');
	$w->quit;
	end_stand_in($pid);
}

# ---- an answer that is too much ----

# Three megabytes are what the library takes for a thousand slots. A tree of them
# would need half a gigabyte, and several with a sanitizer, which also keeps for a while
# what is freed.
my $most = ($ENV{SNOWFLAKE_PRELOAD} // '') =~ /asan/ ? 500_000 : 100_000;
foreach (
	[ 'a million lists', '{"header":{},"kvs":[' . join(',', ('[]') x 1_000_000) . ']}', 'A key is not readable' ],
	[ 'lists in lists', '[' x 3_000_000, 'not understood: stack depth limit exceeded' ],
	[ 'a million lists in a value', encode_json({ header => {}, kvs => [ { key => encode_base64('reg/slots/1', ''),
		value => encode_base64('[' . join(',', ('[]') x 700_000) . ']', '') } ] }), 'The value of "reg/slots/1" is not readable' ],
	[ 'a million pairs', '{"header":{},"kvs":[' . join(',', ('{"":0}') x 400_000) . ']}', 'A key is not readable' ],
	[ 'too much', '{"header":{},"kvs":[' . (' ' x 3_200_000) . ']}', 'its answer is longer than 3 MB' ])
{
	my ($name, $text, $problem) = @$_;
	my ($pid, $host) = stand_in(sub {
		my ($client) = @_;

		take_request($client);
		answer_with($client, 200, $text);
	});

	$w = worker("etcd://$host/reg");
	my $backend = $w->query_safe('SELECT pg_backend_pid()');
	asked($w, $name, 'REFUSED', qr/\Q$problem\E/, 'read');
	my ($peak) = slurp_file("/proc/$backend/status") =~ /^VmHWM:\s*(\d+) kB/m;
	cmp_ok($peak, '<', $most, "$name: a session of at most $peak kB");
	$w->quit;
	end_stand_in($pid);
}

# ---- authentication ----

# Make a user for the prefix "reg", and one without rights.
sub enable_authentication
{
	my ($on) = @_;

	foreach my $user ('root', 'snow', 'nobody')
	{
		$on->call('auth/user/add', { name => $user, password => 'p "w' });
		$on->call('auth/role/add', { name => $user });
		$on->call('auth/user/grant', { user => $user, role => $user });
	}
	$on->call('auth/role/grant', { name => 'snow', perm => { permType => 2,
		key => encode_base64('reg/', ''), range_end => encode_base64('reg0', '') } });
	$on->call('auth/enable', {});
	return;
}

write_credentials("snow\np \"w\n");
$w = worker("$url?credentials=$credentials");
like(reading($w), qr/^initialized/, 'credentials are not wanted yet');
$v = claim($w, 'claim', 'DONE', node => 30);
enable_authentication($etcd);
like(reading($w), qr/^initialized/, 'they are from now on');
$v = asked($w, 'extend', 'DONE', qr/^$/, 'extend', node => 30, version => $v, presence => 1);
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
$etcd->stop;
$etcd->start;
$v = asked($w, 'the token is gone', 'DONE', qr/^$/, 'extend', node => 30, version => $v, presence => 1);
my $token = $etcd->call('auth/authenticate', { name => 'root', password => 'p "w' })->{token};
$etcd->call('auth/user/changepw', { name => 'snow', password => 'new' }, $token);
asked($w, 'the password is another', 'REFUSED',
	qr/authentication failed.*\. The user and the password are those in "\Q$credentials\E"\.$/, 'extend', node => 30, version => $v);
write_credentials("snow\nnew\n");
$v = asked($w, 'and so in the file', 'DONE', qr/^$/, 'extend', node => 30, version => $v);
$w->quit;

$w = worker($url);
asked($w, 'no credentials', 'REFUSED', qr/user name is empty/, 'read');
fails($url, 'LOGIN', 'read');
fails('etcd://127.0.0.1:1/reg', 'UNREACHABLE', 'read');
$w->quit;
write_credentials("nobody\np \"w\n");
$w = worker("$url?credentials=$credentials");
asked($w, 'no permission', 'REFUSED', qr/permission denied \(HTTP status 403/, 'read');
fails("$url?credentials=$credentials", 'PERMISSION', 'read');
foreach ([ "snow\nwrong\n", 0600, qr/authentication failed/ ],
	[ "snow\nnew\n", 0644, qr/nobody else can read/ ],
	[ "snow\nnew\n", 0640, qr/nobody else can read/ ],
	[ "snow\nnew\n", 0604, qr/nobody else can read/ ],
	[ "snow", 0600, qr/does not have two lines/ ])
{
	my ($text, $mode, $pattern) = @$_;
	my $session = worker("$url?credentials=$credentials");

	write_credentials($text, $mode);
	my $answer = ask($session, 'read');
	my $said = $answer->{message} // '';
	is($answer->{failure}, 'LOGIN', 'it cannot log in');
	ok($answer->{result} eq 'REFUSED' && $said =~ $pattern, "credentials: $said");
	unlike($said, qr/wrong|new/, 'which tells no secret');
	$session->quit;
}
$w->quit;
unlink $credentials;
$w = worker("$url?credentials=$credentials");
asked($w, 'no file', 'REFUSED', qr/Could not open/, 'read');
$w->quit;
$etcd->stop;

# The user that doc/leases.md makes may do all that a worker does, under its prefix
# only.
$etcd = Etcd->new('documented')->start;
$etcd->put("$_/registry", $identity) foreach 'prefix', 'other';
my ($commands) = slurp_file("$root/doc/leases.md") =~
  /^```sh\n(etcdctl .*?)^```$/ms;
{
	my ($in, $said) = ("documented\n" x 2, '');
	local $ENV{ETCDCTL_API} = 3;
	local $ENV{ETCDCTL_ENDPOINTS} = 'http://' . $etcd->host;

	ok(IPC::Run::run([ 'bash', '-euc', $commands ], '<', \$in, '>&', \$said),
		'the commands of the documentation')
	  or diag($said);
}
$etcd->call('auth/user/add', { name => 'root', password => 'root' });
$etcd->call('auth/user/grant', { user => 'root', role => 'root' });
$etcd->call('auth/enable', {});
write_credentials("snowflake\ndocumented\n");
$w = worker('etcd://' . $etcd->host . "/prefix?credentials=$credentials");
like(reading($w), qr/^initialized/, 'the documented user: read');
is(part_of($w, $_->[0]), $_->[1], "what a remedy says: $_->[0]")
  foreach [ export => 'export ETCDCTL_ENDPOINTS=http://' . $etcd->host . q{ ETCDCTL_USER='snowflake';} ],
  [ root => 'export ETCDCTL_ENDPOINTS=http://' . $etcd->host . ' ETCDCTL_USER=root;' ],
  [ user => q{'snowflake'} ], [ prefix => q{'prefix'} ], [ credentials => $credentials ], [ address => $etcd->host ];
claim($w, 'the documented user: claim', 'DONE');
asked($w, 'the documented user: keep alive', 'DONE', qr/^$/, 'keepalive');
$w->quit;
$w = worker('etcd://' . $etcd->host . "/other?credentials=$credentials");
asked($w, 'the documented user: another prefix', 'REFUSED', qr/permission denied/, 'read');
$w->quit;
{
	my ($remove) = slurp_file("$root/doc/leases.md") =~ /`(etcdctl --endpoints=HOST[^`]*)`/ or die 'no command';
	my $at = $etcd->host;

	local $ENV{ETCDCTL_API} = 3;
	$remove =~ s/HOST:2379/$at/;
	$remove =~ s/PREFIX/prefix/;
	my ($without, $with) = ($remove =~ s/ --user=USER//r, $remove =~ s/USER/snowflake:documented/r);
	unlike(qx($without 2>&1), qr/^[1-9]/m, 'without the user, the command that removes a registry fails');
	like(qx($with 2>&1), qr/^[1-9]\d*$/m, 'with it, it says how many keys are gone');
	$w = worker("etcd://$at/prefix?credentials=$credentials");
	like(reading($w), qr/^uninitialized/, 'and so they are');
	$w->quit;
}
$etcd->stop;

# ---- a full disk quota ----

$etcd = Etcd->new('full', args => [ '--quota-backend-bytes', 4 * 1024 * 1024 ])->start;
$etcd->put('reg/registry', $identity);
$w = worker('etcd://' . $etcd->host . '/reg');
like(reading($w), qr/^initialized/, 'a registry with a quota');
$v = claim($w, 'claim', 'DONE');
my ($status, $full) = (200);
($status, $full) = $etcd->post('kv/put', { key => encode_base64("fill", ''), value => 'A' x 1000000 })
  while $status == 200;
is($status, 429, 'the quota is used up');
asked($w, 'extend', 'UNKNOWN', qr/quota of etcd is used up/, 'extend', version => $v);
is(ask($w, 'extend', version => $v)->{failure}, 'FULL', 'it is full');
asked($w, 'claim', 'REFUSED', qr/quota of etcd is used up/, 'claim', node => 6, presence => 1);
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
like(reading($w), qr/^5: .* until 1000 .* present 11$/m, 'it can be read');
{
	my ($make_room) = slurp_file("$root/doc/leases.md") =~
	  /^```sh\n(revision=.*?)^```$/ms;
	my $said = '';
	local $ENV{ETCDCTL_API} = 3;
	local $ENV{ETCDCTL_ENDPOINTS} = 'http://' . $etcd->host;

	ok(IPC::Run::run([ 'bash', '-euc', $make_room ], '>&', \$said), 'the commands of the documentation')
	  or diag($said);
}
asked($w, 'there is room again', 'DONE', qr/^$/, 'extend', version => $v);
$w->quit;
$etcd->stop;

# ---- TLS ----

my $tls = "$PostgreSQL::Test::Utils::tmp_check/tls";
mkdir $tls or die "$tls: $!";
sub certificate
{
	my ($name, $subject, @rest) = @_;

	system_or_bail('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
		'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', $subject,
		'-keyout', "$tls/$name.key", '-out', "$tls/$name.crt", @rest);
	return;
}
certificate('ca', '/CN=ca');
certificate('other', '/CN=other');
my @signed = ('-CA', "$tls/ca.crt", '-CAkey', "$tls/ca.key", '-addext', 'basicConstraints=CA:FALSE');
certificate('server', '/CN=server', @signed, '-addext', 'subjectAltName=IP:127.0.0.1');
certificate('named', '/CN=snow', @signed);
certificate('nameless', '/O=snowflake', @signed);
$etcd = Etcd->new('tls', tls => { SSL_ca_file => "$tls/ca.crt",
		SSL_cert_file => "$tls/nameless.crt", SSL_key_file => "$tls/nameless.key" },
	args => [ '--cert-file', "$tls/server.crt", '--key-file', "$tls/server.key",
		'--trusted-ca-file', "$tls/ca.crt", '--client-cert-auth' ])->start;
my $base = $etcd->host . '/reg';
my $ours = "cert=$tls/named.crt&key=$tls/named.key";
my $nameless = "cert=$tls/nameless.crt&key=$tls/nameless.key";
$etcd->put('reg/registry', $identity);
foreach (
	[ 'with our certificate', "etcds://$base?cacert=$tls/ca.crt&$ours", 'DONE', qr/^$/ ],
	[ 'in any case', "etcd://$base?cacert=$tls/ca.crt&$nameless", 'DONE', qr/^$/ ],
	[ 'an unknown authority', "etcds://$base?$ours", 'REFUSED', qr/certificate/ ],
	[ 'another authority', "etcds://$base?cacert=$tls/other.crt&$ours", 'REFUSED', qr/certificate/ ],
	[ 'another name', 'etcds://localhost:' . ($base =~ s/.*://r) . "?cacert=$tls/ca.crt&$ours",
		'REFUSED', qr/localhost/ ],
	[ 'no certificate', "etcds://$base?cacert=$tls/ca.crt", 'REFUSED', qr/./ ],
	[ 'a certificate of another authority',
		"etcds://$base?cacert=$tls/ca.crt&cert=$tls/other.crt&key=$tls/other.key", 'REFUSED', qr/./ ],
	[ 'no such file', "etcds://$base?cacert=$tls/none.crt", 'REFUSED', qr/none\.crt/ ],
	[ 'without TLS', "etcd://$base", 'REFUSED', qr/./ ])
{
	my ($name, $to, $result, $pattern) = @$_;

	$w = worker($to);
	asked($w, "TLS, $name", $result, $pattern, 'read');
	$w->quit;
}
# Certificates are read for each request, so each file can be replaced.
sub replace
{
	my ($name, $by) = @_;

	foreach my $ending (grep { -e "$tls/$by.$_" } 'crt', 'key')
	{
		system_or_bail('cp', "$tls/$by.$ending", "$tls/$name.$ending");
	}
	return;
}
replace("right-$_", $_) foreach 'server', 'nameless', 'ca';
certificate('stranger', '/O=stranger', '-CA', "$tls/other.crt", '-CAkey', "$tls/other.key",
	'-addext', 'subjectAltName=IP:127.0.0.1');
system_or_bail('bash', '-euc', q{
	cd "$1"
	openssl req -new -subj /CN=expired -key server.key -out expired.csr
	sign="openssl x509 -req -CAcreateserial -in expired.csr -CA ca.crt -CAkey ca.key -extfile names -out expired.crt"
	echo subjectAltName=IP:127.0.0.1 >names
	# newer versions refuse negative days, and older ones have no -not_before
	$sign -days -1 || $sign -not_before 20200101000000Z -not_after 20200102000000Z
	cp server.key expired.key}, 'bash', $tls);
replace('client', 'nameless');
replace('authority', 'ca');
$w = worker("etcds://$base?cacert=$tls/authority.crt&cert=$tls/client.crt&key=$tls/client.key");
foreach ([ 'server', 'stranger' ], [ 'server', 'expired' ], [ 'client', 'stranger' ], [ 'authority', 'other' ])
{
	my ($name, $by) = @$_;

	asked($w, "before it is replaced: $name", 'DONE', qr/^$/, 'read') foreach 1 .. 2;
	replace($name, $by);
	my $answer = ask($w, 'read');
	is($answer->{failure} // $answer->{result}, 'CERTIFICATE', "$name by $by: " . ($answer->{message} // ''));
	replace($name, { server => 'right-server', client => 'right-nameless', authority => 'right-ca' }->{$name});
}
asked($w, 'all of them are right again', 'DONE', qr/^$/, 'read');
$w->quit;

enable_authentication($etcd);
write_credentials("snow\np \"w\n");
foreach ([ 'a name in the certificate', $ours, 'REFUSED', qr/CommonName.*HTTP status 400/ ],
	[ 'no name in the certificate', $nameless, 'DONE', qr/^$/ ])
{
	my ($name, $files, $result, $pattern) = @$_;

	$w = worker("etcds://$base?cacert=$tls/ca.crt&$files&credentials=$credentials");
	asked($w, "TLS and authentication, $name", $result, $pattern, 'read');
	$w->quit;
}

# a server reports it, makes no IDs, and goes on when its files are right
my $wrong = new_holder('wrong', $base, "snowflake.lease_wait = '0'",
	"snowflake.registry = 'etcds://$base?cacert=$tls/other.crt&$nameless&credentials=$credentials'");
wait_for_lease($wrong, q{problem ~ 'certificate'});
refused($wrong, 'SELECT snowflake_nextval()', '55000', qr/DETAIL: .*certificate/,
	'a wrong certificate: no IDs');
my ($look) = lease_of($wrong, 'remedy') =~ /^Run here: (openssl s_client -connect .* openssl x509 -noout -issuer -dates;) Replace an expired certificate in etcd; or set \?cacert= in snowflake\.registry to its issuer's, and restart\. Replace expired files of \?cert= and \?key= here\.$/
  or diag(lease_of($wrong, 'remedy'));
like(typed_in_shell($look), qr/^issuer=.*CN ?= ?ca\n.*^notAfter=/ms, '... and what is typed shows whose certificate it is, and until when');
$wrong->append_conf('postgresql.conf',
	"snowflake.registry = 'etcds://$base?cacert=$tls/ca.crt&$nameless&credentials=$credentials'");
$wrong->restart;
wait_for_lease($wrong, q{problem ~ 'is for (the|a) layout'});
pass('the right one: the registry is read');
$wrong->stop;
$etcd->stop;

# ---- servers ----

$etcd = Etcd->new('servers')->start;
my $checker = IdChecker->new($node->basedir . '/ids');

sub new_holder
{
	my ($name, $hosts, @settings) = @_;
	my $server = start_server($name, "snowflake.node_id = ''",
		"snowflake.registry = 'etcd://$hosts/reg'",
		"snowflake.lease_reserve = '8s'", "snowflake.lease_presence = '3s'",
		"snowflake.lease_timeout = '2s'", "snowflake.lease_wait = '60s'",
		"snowflake.max_clock_wait = '20s'", @settings);
	return $server;
}

sub make_ids
{
	my ($server, $who) = @_;

	$checker->saw($who // 'all servers', split /\n/,
		query($server, 'SELECT snowflake_nextval() FROM generate_series(1, 100)'));
	return;
}

my $a = new_holder('a', "127.0.0.1:$closed," . $etcd->host);
wait_for_lease($a, q{problem ~ 'never initialized' AND remedy ~ 'run here: SELECT public\.snowflake_registry_init\(\)'});
is(query($a, 'SELECT count(*) FROM snowflake_registry_slots()'), '0', 'no registry has no slots');
is(query($a, 'SELECT snowflake_registry_release(0)'), 'f', 'and nothing to release');
is(query($a, 'SELECT snowflake_registry_init()'), 't', 'init');
is(query($a, q{SELECT snowflake_registry_init('twitter')}), 'f', 'init again');
make_ids($a);
my $slot = lease_of($a, 'node_id');
my ($pid) = split /\n/, slurp_file($a->data_dir . '/postmaster.pid');
chomp(my $name = `hostname`);
$name .= ':' . $a->port;
is(query($a, q{SELECT slot, host, address, process, since BETWEEN now() - interval '10 minutes' AND clock_timestamp(),
	until > now(), present, released FROM snowflake_registry_slots()}), "$slot|$name|127.0.0.1|$pid|t|t|t|f",
	'slots say who has one');
is(decode_json($etcd->get("reg/slots/$slot")->{value})->{released}, JSON::PP::false, 'a server holds a slot');
wait_until_extended($a);
pass('and extends it');
my $b = new_holder('b', $etcd->host);
make_ids($b);
isnt(lease_of($b, 'node_id'), $slot, 'another server has another');

# What a hostile client wrote, and no server.
my $written = $etcd->get("reg/slots/$slot")->{value};
foreach my $case ([ 'abc', '' ], [ '12.4', '' ], [ '::1:2:3:4:5:6:7:8', '' ], [ '::1', '::1' ])
{
	my ($address, $shown) = @$case;

	$etcd->put('reg/slots/1023', encode_json({ %{ decode_json($written) }, address => $address, host => "\e[1m\x{9b}db" }));
	is(query($a, 'SELECT host, address FROM snowflake_registry_slots() WHERE slot = 1023'), "?[1m??db|$shown",
		"the slots are shown with the address $address");
}
$etcd->delete('reg/slots/1023');

# An administrator frees the slot of a live server. The until stays.
my $from = -s $a->logfile;
my $before = decode_json($etcd->get("reg/slots/$slot")->{value});
is(query($b, "SELECT snowflake_registry_release($slot)"), 't', 'release');
like_log($a, qr/The lease of node id $slot is lost/, $from, 'its holder finds out');
wait_for_lease($a, q{state = 'held'});
make_ids($a);
my $after = decode_json($etcd->get("reg/slots/$slot")->{value});
cmp_ok($after->{until}, '>=', $before->{until}, 'its until stays');
is(query($b, 'SELECT snowflake_registry_release(' . (lease_of($a, 'node_id') + lease_of($b, 'node_id') + 1) . ')'),
	'f', 'nobody has that slot');
$slot = lease_of($a, 'node_id');

# The presence is lost, and later all data.
$etcd->call('lease/revoke', { ID => $etcd->get("reg/present/$slot")->{lease} });
wait_until { $etcd->get("reg/present/$slot") } 'nobody is there';
pass('a presence that was lost is made again');
$etcd->wipe;
wait_for_lease($_, q{problem ~ 'The registry is empty'}) foreach $a, $b;
like(lease_of($a, 'remedy'), qr/Set snowflake\.registry to what SHOW snowflake\.registry; says .*Only if no server leases from another, see .* arguments: interval '\d+ s', interval '5 s', '[0-9a-f]{16}'$/,
	'all data is lost: no call is printed, but its arguments');
# long enough that the wait is seen, however late the servers read the registry
my $begin = query($a, recovery_of($a, 20));
# it issues IDs under its lease until a reading shows the loss
wait_for_lease($b, q{problem ~ 'lets no server claim a slot before'});
my @late = split /\n/, query($b, 'SELECT snowflake_nextval() FROM generate_series(1, 100)');
$checker->saw('all servers', @late);
is(query($b, "SELECT '$begin' > now() - interval '1 minute' AND snowflake_timestamp($late[0]) >= '$begin'"), 't',
	'all data was lost: after the recovery nothing is made before the time that it has said');
make_ids($_) foreach $a, $b, $a, $b;
isnt(lease_of($a, 'node_id'), lease_of($b, 'node_id'), 'after a recovery both have one again');

# etcd is down for a while, for less than the reserve. Then the lease is given back.
set_conf($a, "snowflake.lease_reserve = '10min'");
wait_for_lease($a, q{until > now() + interval '5 min'});
$etcd->stop;
wait_for_lease($a, q{problem ~ 'connect'});
refused($a, "SELECT $_", '58000',
	qr/the registry has not done what it was asked.*DETAIL:  The registry is "etcd:.*HINT:  Nothing was changed/s, "down: $_")
  foreach 'snowflake_registry_slots()', 'snowflake_registry_release(0)', 'snowflake_registry_recover()';
my ($health) = lease_of($a, 'remedy') =~ /If other servers lease elsewhere \(SHOW snowflake\.registry;\), set that here, and restart\. If not, start etcd\. This says which members answer: (export \S+ etcdctl endpoint health)$/
  or diag(lease_of($a, 'remedy'));
like(typed_in_shell($health), qr/is unhealthy/, 'down: what is typed shows it');
make_ids($a);
$etcd->start;
like(typed_in_shell($health), qr/\Q@{[ $etcd->host ]}\E is healthy/, '... and which member answers');
wait_for_lease($a, q{problem IS NULL AND state = 'held'});
make_ids($a);
$slot = lease_of($a, 'node_id');
$a->stop;
is(decode_json($etcd->get("reg/slots/$slot")->{value})->{released}, JSON::PP::true, 'a clean stop gives it back');
is($etcd->get("reg/present/$slot"), undef, 'and nobody is there');
$b->stop;
$etcd->stop;
$checker->clients;
$node->stop;
done_testing();
