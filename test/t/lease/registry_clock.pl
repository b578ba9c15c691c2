# A registry's clock is wrong: PostgreSQL's, that of the first of three members of
# etcd, or that of ZooKeeper's leader. It is moved by 10 s, and the servers go on.
# Those with a lease extend it, and another server gets one. Then all clocks are 20 h
# ahead for a moment, and the registry is recovered later.
#
# takes: 80 s
# needs: etcd-server libcurl4-openssl-dev libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use IO::Select;
use IO::Socket::INET;
use POSIX qw(strftime);
use Time::Local;
use Etcd;
use IdChecker;
use Load;
use ZooKeeper;

my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");
my $layout = 'timestamp:41 node:10 sequence:12 epoch:2024-01-01';

# ---- clocks ----

my @months = qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec);
my %month = map { $months[$_] => $_ } 0 .. $#months;

# Move the time in the HTTP header by this many ms.
sub move_date
{
	my ($bytes, $ms) = @_;

	return $bytes =~ s{^Date: \w+, (\d+) (\w+) (\d+) (\d+):(\d+):(\d+) GMT}{
		strftime('Date: %a, %d %b %Y %H:%M:%S GMT',
			gmtime(timegm($6, $5, $4, $1, $month{$2}, $3) + $ms / 1000))}mer;
}

# Start a proxy before a member of etcd, for one server, which changes the time in the
# member's answers. The shim cannot move etcd's clock, since etcd does not use libc.
# The proxy makes the file when it has passed on an answer with a wrong time. It ends
# with this script.
my @proxies;

sub start_proxy
{
	my ($host, $clock, $file) = @_;
	my $listen = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1') or die;
	my $pid = fork // die "fork: $!";

	if ($pid)
	{
		push @proxies, $pid;
		return '127.0.0.1:' . $listen->sockport;
	}
	my $select = IO::Select->new($listen);
	my (%other, %from_etcd);

	while (my @ready = $select->can_read)
	{
		foreach my $socket (@ready)
		{
			if ($socket == $listen)
			{
				my $client = $listen->accept or next;
				my $etcd = IO::Socket::INET->new(PeerAddr => $host) or next;

				@other{ $client, $etcd } = ($etcd, $client);
				$from_etcd{$etcd} = 1;
				$select->add($client, $etcd);
				next;
			}
			my $other = $other{$socket} or next;
			if (!sysread($socket, my $bytes, 65536))
			{
				$select->remove($socket, $other);
				delete @other{ $socket, $other };
				close $_ foreach $socket, $other;
			}
			else
			{
				my $ms = read_clock($clock, 'set_ms');

				append_to_file($file, 'moved') if $ms && $from_etcd{$socket};
				print $other $from_etcd{$socket} ? move_date($bytes, $ms) : $bytes;
				$other->flush;
			}
		}
	}
	POSIX::_exit(0);
}

END
{
	my $status = $?;

	kill 'KILL', @proxies;
	waitpid $_, 0 foreach @proxies;
	$? = $status;
}

# ---- servers ----

sub start_holder
{
	my ($name, $url) = @_;
	my $node = start_server($name, "snowflake.node_id = ''", "snowflake.layout = '$layout'",
		"snowflake.registry = '$url'", "snowflake.lease_reserve = '6s'",
		"snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '2s'",
		"snowflake.lease_wait = '60s'", "snowflake.max_clock_wait = '10s'");
	return $node;
}

sub clock_row
{
	my ($node) = @_;

	return query($node, q{SELECT concat_ws('|', status, found, remedy)
		FROM snowflake_status() WHERE check_name = 'clock offset'});
}

my $held = q{state = 'held' AND problem IS NULL};

# Move the registry's clock by this many ms while two servers hold a lease. Each server
# has a URL of its own. If the registry has other clocks to ask, a file for each server
# shows whether the server has got the wrong time.
sub move_clock
{
	my ($kind, $urls, $clock, $ms, @heard) = @_;
	my $id = $kind =~ s/\W.*//r;
	my $has_others = @heard > 0;
	my @nodes = (start_holder("${id}_first", $urls->[0]), start_holder("${id}_second", $urls->[1]));
	my @trickles;

	# a busy registry may not answer in time: then ask again
	$kind eq 'PostgreSQL'
	  or $nodes[0]->poll_query_until('postgres', 'SELECT snowflake_registry_init() IS NOT NULL')
	  or die "no registry in $kind";
	wait_for_lease($_, $held) foreach @nodes;
	@trickles = map { start_trickle($checker, $kind, $_->connstr('postgres')) } @nodes;
	$_->more(20) foreach @trickles;

	# The new until is above the old one by more than the reserve. Only a server that
	# may extend its lease gets there.
	my @logs = map { -s $_->logfile } @nodes;
	my @untils = map { lease_of($_, 'until') } @nodes;
	write_clock($clock, 'set_ms', $ms);
	wait_for_lease($nodes[$_], "until > timestamptz '$untils[$_]' + interval '7 s'") foreach 0, 1;
	pass("$kind: who holds a lease extends it");
	$_->more(20) foreach @trickles;
	is(join(' ', map { keys %{ $_->finish } } @trickles), '', "$kind: no call was refused");

	my $where = $ms > 0 ? 'behind' : 'ahead of';
	my $said = qr/WARNING:  snowflake SF105: .*The wall clock is (?:9|10|11)\d* m?s $where that of (?:endpoint 1 of )?the registry, which has moved against the time since boot: this server's has not\./;
	if ($has_others)
	{
		# a server that waited for an answer may have gone to another endpoint
		ok((grep { slurp_file($nodes[$_]->logfile, $logs[$_]) =~ $said } 0, 1) >= (grep { -e } @heard) / 2,
			"$kind: a log says whose clock it is");
	}
	else
	{
		like_log($nodes[$_], $said, $logs[$_], "$kind: the log says whose clock it is") foreach 0, 1;
	}
	unlike(slurp_file($nodes[$_]->logfile, $logs[$_]), qr/SF203/, "$kind: and no other problem")
	  foreach 0, 1;
	like(clock_row($nodes[0]), $has_others ? qr/^ok\|/ :
		qr/^warning\|(?:9|10|11)\d* m?s $where the registry's, which has moved: this server's has not\|Set the registry's clock right/,
		"$kind: snowflake_status() likewise");

	my $third = start_holder("${id}_third", $urls->[0]);
	wait_for_lease($third, $held);
	pass("$kind: a server that has just started gets a lease");
	unlike(slurp_file($third->logfile), qr/SF203/, "$kind: at once") if $has_others;
	$third->stop;

	write_clock($clock, 'set_ms', 0);
	foreach my $node (@nodes)
	{
		$node->poll_query_until('postgres', q{SELECT status = 'ok'
			FROM snowflake_status() WHERE check_name = 'clock offset'}) or die 'the offset stays';
		wait_for_lease($node, $held);
	}
	pass("$kind: the clock is right again");
	$_->stop foreach @nodes;
	return;
}

# Move all clocks, the registry's and one server's, by 20 h, and back. Then recover the
# registry: nobody has to wait for what was reserved meanwhile, but its node id stays
# reserved.
sub mislead
{
	my ($kind, $url, @clocks) = @_;
	my $id = lc $kind;
	my $own = new_clock("$PostgreSQL::Test::Utils::tmp_check/clock_of_$id");
	my $move = sub { my ($ms) = @_; write_clock($_, 'set_ms', $ms) foreach $own, @clocks };
	my $first = start_holder("${id}_misled", $url);

	$first->stop;
	start_by_clock($first, $own);
	wait_for_lease($first, $held);
	$move->(72_000_000);
	wait_for_lease($first, "state = 'held' AND extract(epoch FROM until) > " . (time + 71_000));
	$checker->saw($kind, query($first, 'SELECT snowflake_nextval()'));
	$move->(0);
	wait_for_lease($first, $held);

	my $second = start_holder("${id}_other", $url);
	wait_for_lease($second, $held);
	is(query($second, q{SELECT snowflake_registry_recover('6 s', '1 s') < now() + interval '10 min'}), 't',
		"$kind: all clocks were 20 h ahead: a recovery waits for no record's until");
	$second->restart;
	wait_for_lease($_, $held) foreach $first, $second;
	isnt(lease_of($_, 'node_id'), '', "$kind: " . $_->name . ' leases again') foreach $first, $second;
	$checker->saw($kind, split /\n/, query($second, 'SELECT snowflake_nextval() FROM generate_series(1, 100)'));

	my $node_id = lease_of($first, 'node_id');
	$first->stop;
	alter_system($second, "SET snowflake.node_id = '$node_id'");
	$second->restart;
	wait_for_lease($second, "problem ~ '^Slot $node_id is reserved until .* by a server that has gone'");
	is(query($second, "SELECT until > now() + interval '19 h' FROM snowflake_registry_slots() WHERE slot = $node_id"),
		't', "$kind: the node id with IDs of that time stays reserved up to them");
	$second->stop;
	return;
}

# ---- PostgreSQL: one clock, the primary's ----

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
start_with_clock($registry, 0);
query($registry, "CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.init('$layout')");
move_clock('PostgreSQL',
	[ (sprintf('postgresql:///postgres?host=%s&port=%d', $registry->host, $registry->port)) x 2 ],
	$registry->basedir . '/clock', 10_000);
mislead('PostgreSQL', sprintf('postgresql:///postgres?host=%s&port=%d', $registry->host, $registry->port),
	$registry->basedir . '/clock');
$registry->stop;

# ---- etcd: each member has a clock ----

my @members = Etcd->cluster('m1', 'm2', 'm3');
my $clock = new_clock("$PostgreSQL::Test::Utils::tmp_check/clock_etcd");
my @heard = map { "$PostgreSQL::Test::Utils::tmp_check/heard_$_" } 1, 2;
my @urls = map {
	'etcd://' . join(',', start_proxy($members[0]->host, $clock, $_), map { $_->host } @members[ 1, 2 ]) . '/reg'
} @heard;
move_clock('etcd', \@urls, $clock, -10_000, @heard);
$_->stop foreach @members;

# ---- ZooKeeper: one clock, the leader's; the servers ask a follower ----

my $ensemble = ZooKeeper->ensemble('z1', 'z2', 'z3');
my %clocks = map { $_ => $_->use_clock } @$ensemble;
$_->launch foreach @$ensemble;
$_->wait_until_ready foreach @$ensemble;
my $leader = leader_of(@$ensemble);
my @followers = grep { $_ != $leader } @$ensemble;
move_clock('ZooKeeper', [ ('zookeeper://' . join(',', map { $_->host } @followers, $leader) . '/reg') x 2 ],
	$clocks{$leader}, 10_000);
mislead('ZooKeeper', 'zookeeper://' . join(',', map { $_->host } @followers, $leader) . '/reg', values %clocks);
$_->stop foreach @$ensemble;

$checker->clients;
done_testing();
