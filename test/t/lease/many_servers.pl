# Several servers lease from one registry: etcd with one member, etcd with three,
# PostgreSQL, and ZooKeeper with three members, all at once. Each registry has one
# server more than slots. All servers are made from one base backup, and clients ask them
# for IDs all the time. Servers and their workers are frozen. The registry loses its
# quorum, its data, the password, or its space. Needs etcd.
#
# takes: 115 s
# needs: etcd-server etcd-client libcurl4-openssl-dev openssl libio-socket-ssl-perl
# part zookeeper: libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use List::Util qw(sum);
use MIME::Base64;
use Time::HiRes qw(usleep time);
use Etcd;
use IdChecker;
use Load;
use RegistryDriver;
use ZooKeeper;

my $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "/s;
my $lost = qr/The lease of node id \d is lost: another server has claimed it/;

# ---- registries ----

my @quota = (args => [ '--quota-backend-bytes', 4 * 1024 * 1024 ]);
my $postgresql = PostgreSQL::Test::Cluster->new('registry');
# Four slots. A datacenter has two of them.
my $layout = 'timestamp:41 datacenter:1 worker:1 sequence:12 epoch:2024-01-01';
my @registries = (
	{ name => 'etcd', slots => [ 0 .. 3 ], members => [ Etcd->new('one', @quota) ] },
	{ name => 'three etcds', slots => [ 2, 3 ], members => [ Etcd->members([ 'm1', 'm2', 'm3' ], @quota) ] },
	{ name => 'PostgreSQL', slots => [ 2, 3 ], server => $postgresql });
my @etcds = @registries[ 0, 1 ];
my @protected = @registries;    # by a password

push @registries, { name => 'ZooKeeper', slots => [ 2, 3 ], members => ZooKeeper->ensemble('z1', 'z2', 'z3') }
  if part('zookeeper');
foreach my $r (@registries)
{
	$r->{url} = $r->{server}
	  ? sprintf('postgresql://worker:secret@127.0.0.1:%d/postgres', $postgresql->port)
	  : join(',', map { $_->host } @{ $r->{members} });
	$r->{url} = "etcd://$r->{url}/reg?credentials=$credentials" if grep { $_ == $r } @etcds;
	$r->{url} = "zookeeper://$r->{url}/reg" if $r->{name} eq 'ZooKeeper';
}

# Start those members of a registry that do not run.
sub begin
{
	my ($r) = @_;

	if ($r->{server})
	{
		$r->{server}->start;
		return;
	}
	my @down = grep { !$_->{pid} } @{ $r->{members} };
	$_->launch foreach @down;
	$_->wait_until_ready foreach @down;
	return;
}

# Kill enough of a registry's members: the leader, and one of the others.
sub cut_off
{
	my ($r) = @_;

	if ($r->{server})
	{
		$r->{server}->stop('immediate');
		return;
	}
	my $leader = leader_of(@{ $r->{members} });
	my ($other) = grep { $_ != $leader } @{ $r->{members} };
	$_->stop('KILL') foreach grep { defined } $leader, $other;
	return;
}

# Initialize a registry in which no server may claim a slot for this many seconds, and
# which succeeds this generation.
sub initialize
{
	my ($r, $seconds, $former) = @_;
	my $arguments = "'$seconds s', '0 s'" . ($former ? ", '$former'" : '');

	if ($r->{server})
	{
		query($postgresql, qq{
			TRUNCATE snowflake_registry.registry, snowflake_registry.slot;
			BEGIN; SELECT snowflake_registry.init('$layout');
			SELECT snowflake_registry.recover($arguments); COMMIT});
		return;
	}
	# a busy registry may not answer in time: then ask again
	$r->{nodes}[0]->poll_query_until('postgres', 'SELECT ' . ($seconds == 0 ? 'snowflake_registry_init()'
		: "snowflake_registry_recover($arguments)") . ' IS NOT NULL') or die 'no registry';
	return;
}

# ---- servers ----

my $checker = IdChecker->new($postgresql->basedir . '/ids');

# Change a setting on all servers.
sub set_everywhere
{
	my ($setting) = @_;

	foreach my $node (map { @{ $_->{nodes} } } @registries)
	{
		set_conf($node, $setting);
	}
	return;
}

sub start_node
{
	my ($r, $node) = @_;

	$node->start;
	start_clients($r, $node);
	return;
}

sub start_clients
{
	my ($r, $node) = @_;

	$node->{load} = start_trickle($checker, $r->{name}, $node->connstr('postgres'),
		'SELECT snowflake_nextval() FROM generate_series(1, 3), pg_sleep(0.01);');
	push @{ $r->{loads} }, $node->{load};
	return;
}

# Stop a server's clients. Their only errors are refusals for want of a lease, if any
# are allowed here.
sub finish_clients
{
	my ($r, $node, $name) = @_;
	my $errors = join ' ', sort keys %{ $node->{load}->finish };

	if ($name)
	{
		is($errors, '', $name);
	}
	elsif ($errors !~ /^(?:55000)?$/)
	{
		fail("$r->{name}: clients have met $errors");
	}
	delete $node->{load};
	return;
}

# Wait until one server waits for a slot and all others have one.
sub settle
{
	my ($r) = @_;
	my $last = time() + $PostgreSQL::Test::Utils::timeout_default;
	my @nodes = @{ $r->{nodes} };

	while (1)
	{
		my @states = map { lease_of($_, q{CASE
			WHEN state = 'held' AND problem IS NULL AND until > clock_timestamp() THEN 'held'
			WHEN problem ~ 'are taken' THEN 'waits' ELSE 'not yet' END}) } @nodes;

		$r->{holders} = [ map { $nodes[$_] } grep { $states[$_] eq 'held' } 0 .. $#nodes ];
		($r->{waiter}) = map { $nodes[$_] } grep { $states[$_] eq 'waits' } 0 .. $#nodes;
		last if @{ $r->{holders} } == $#nodes && $r->{waiter};
		die "$r->{name}: " . join("\n", map { lease_of($_, 'state, problem') } @nodes)
		  if time() > $last;
		usleep(50_000);
	}
	is(join(' ', sort map { lease_of($_, 'node_id') } @{ $r->{holders} }), "@{ $r->{slots} }",
		"$r->{name}: each slot has one holder");
	return;
}

# Count the IDs before and after, so that the IDs made meanwhile are known.
sub begin_fault { my ($r) = @_; $r->{before} = sum(map { $_->count } @{ $r->{loads} }); return }

sub end_fault
{
	my ($r, $fault) = @_;
	my $n = sum(map { $_->count } @{ $r->{loads} }) - $r->{before};

	cmp_ok($n, '>', 0, "$r->{name}: $fault: $n IDs meanwhile");
	return;
}

# The holder is out of action. Wait until the waiting server takes its slot.
sub wait_for_heir
{
	my ($r, $node_id, $fault) = @_;

	wait_for_lease($r->{waiter}, q{state = 'held'});
	is(lease_of($r->{waiter}, 'node_id'), $node_id, "$r->{name}: $fault: another server has its slot");
	$r->{waiter}{load}->more(100);
	return;
}

# Check that the holder notices this when it is back.
sub expect_fence
{
	my ($r, $node, $from, $fault) = @_;

	wait_for_lease($node, q{problem ~ 'are taken'});
	like_log($node, $lost, $from, "$r->{name}: $fault: it finds that its lease is lost");
	end_fault($r, $fault);
	settle($r);
	return;
}

# ---- one base backup for all servers ----

write_credentials("snow\np \"w\n");
$postgresql->init;
$postgresql->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
unlink $postgresql->data_dir . '/pg_hba.conf';
$postgresql->append_conf('pg_hba.conf', "local all all trust\nhost all worker 127.0.0.1/32 scram-sha-256\n");
begin($registries[2]);
query($postgresql, q{
	SET password_encryption = 'scram-sha-256';
	CREATE EXTENSION snowflake_registry;
	CREATE ROLE worker LOGIN PASSWORD 'secret';
	SELECT snowflake_registry.grant('worker')});
initialize($registries[2], 0);

my $origin = start_server('origin', "snowflake.node_id = ''",
	"snowflake.registry = '$registries[2]{url}'", "snowflake.layout = '$layout'",
	"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'",
	"snowflake.lease_timeout = '1s'", "snowflake.max_clock_wait = '10s'");
query($origin, 'CREATE EXTENSION snowflake_registry');
$origin->{load} = start_trickle($checker, 'PostgreSQL', $origin->connstr('postgres'));
$origin->{load}->more(100);
$origin->backup('backup');
$origin->{load}->finish;
$origin->stop;

# before any server can lease from it again. The copies remember what was confirmed to
# the origin, and refuse a registry that would give away a part of it.
initialize($registries[2], 6, query($postgresql, q{SELECT lpad(to_hex(generation), 16, '0') FROM snowflake_registry.registry}));
$postgresql->stop;

foreach my $r (@registries)
{
	foreach my $i (0 .. @{ $r->{slots} })
	{
		my $node = PostgreSQL::Test::Cluster->new("$r->{name} $i" =~ s/ /_/gr);

		$node->init_from_backup($origin, 'backup');
		unlink $node->data_dir . '/snowflake.age' if !$r->{server};
		$node->append_conf('postgresql.conf', "snowflake.registry = '$r->{url}'\n"
			  . "snowflake.lease_wait = 0\n"
			  . ($r->{name} eq 'ZooKeeper' ? "snowflake.lease_timeout = '3s'\n" : '')
			  . ($r->{slots}[0] > 0 ? "snowflake.node_id = '1/'\n" : ''));
		push @{ $r->{nodes} }, $node;
	}
}

# ---- there is no registry yet ----

$_->{nodes}[0]->start foreach @registries;
foreach my $r (@registries)
{
	wait_for_lease($r->{nodes}[0], 'problem IS NOT NULL');
	refused($r->{nodes}[0], $next, '55000', qr/$none.*The registry answered: .*(?:connect|refused)/s,
		"$r->{name}: not to be reached at the start");
	begin($r);
	next if $r->{server};
	wait_for_lease($r->{nodes}[0], q{problem ~ 'never initialized'});
	initialize($r, 0);
}
foreach my $r (@registries)
{
	wait_for_lease($r->{nodes}[0], q{state = 'held' AND problem IS NULL});
	start_clients($r, $r->{nodes}[0]);
	$r->{nodes}[0]{load}->more(100);
	pass("$r->{name}: until it is");
}

# ---- one server more than slots ----

foreach my $r (@registries)
{
	my @nodes = @{ $r->{nodes} };

	foreach my $node (@nodes[ 1 .. $#nodes ])
	{
		start_node($r, $node);
		wait_for_lease($node, $node == $nodes[-1] ? q{problem ~ 'are taken'} : q{state = 'held'});
	}
	settle($r);
	is($r->{waiter}, $nodes[-1], "$r->{name}: the last one has to wait");
	refused($r->{waiter}, $next, '55000',
		qr/$none.*All slots from $r->{slots}[0] to 3 are taken.*HINT:  Stop a server.*SELECT \* FROM public\.snowflake_registry_slots\(\); lists/s,
		"$r->{name}: which says how to find who holds the slots");
}
foreach my $r (@registries)
{
	my $leaver = $r->{leaver} = $r->{holders}[-1];

	$r->{left} = lease_of($leaver, 'node_id');
	begin_fault($r);
	$_->{load}->more(100) foreach @{ $r->{holders} };
	$leaver->stop('fast');
	finish_clients($r, $leaver);
}
foreach my $r (@registries)
{
	wait_for_heir($r, $r->{left}, 'a clean stop under load');
	end_fault($r, 'a clean stop under load');
	start_node($r, $r->{leaver});
}
settle($_) foreach @registries;

# ---- a worker is frozen, and then a whole server ----

foreach my $fault ('a frozen worker', 'a frozen server')
{
	my %frozen;

	foreach my $r (@registries)
	{
		my $node = $r->{holders}[0];
		my $postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/ ? $1 : die;
		my @pids = lease_of($node, 'pid');

		$frozen{ $r->{name} } = { node => $node, from => -s $node->logfile,
			node_id => lease_of($node, 'node_id'), pids => \@pids };
		begin_fault($r);
		$node->{load}->more(100);
		unshift @pids, $postmaster if $fault =~ /server/;
		is(kill('STOP', @pids), scalar @pids, "$r->{name}: $fault");
		next if $fault !~ /server/;

		# the stopped postmaster starts no more processes, and some of these may be
		# ending
		push @pids, split ' ', `ps -o pid= --ppid $postmaster`;
		kill 'STOP', @pids;
	}
	foreach my $r (@registries)
	{
		my $f = $frozen{ $r->{name} };

		wait_for_heir($r, $f->{node_id}, $fault);
		kill 'CONT', @{ $f->{pids} };
	}
	expect_fence($_, @{ $frozen{ $_->{name} } }{ 'node', 'from' }, $fault) foreach @registries;
}

# ---- the registry is away for longer than the reserve ----

foreach my $r (@registries)
{
	begin_fault($r);
	cut_off($r);
}
foreach my $r (@registries)
{
	wait_for_lease($_, 'until < clock_timestamp()') foreach @{ $r->{holders} };
	refused($_, $next, '55000', qr/$none.*HINT:/s, "$r->{name}: what is reserved is used up")
	  foreach @{ $r->{holders} };
	end_fault($r, 'gone for longer than the reservation');
	begin($r);
}
settle($_) foreach @registries;

# ---- the registry has lost its data ----

foreach my $r (@registries)
{
	begin_fault($r);
	if ($r->{members})
	{
		$_->stop('KILL') foreach @{ $r->{members} };
		$_->forget foreach @{ $r->{members} };
		begin($r);
	}
	else
	{
		query($postgresql, 'TRUNCATE snowflake_registry.registry, snowflake_registry.slot');
	}
}
foreach my $r (@registries)
{
	wait_for_lease($_, q{problem ~ 'The registry is empty'}) foreach @{ $r->{nodes} };
	end_fault($r, 'its data is lost');
	initialize($r, 7, lease_of($r->{nodes}[0], 'remedy') =~ /'([0-9a-f]{16})'/);
}
settle($_) foreach @registries;

# ---- the registry is away for less than the reserve ----

# From here on no call is refused: the reserve lasts longer than the test, however slow
# the machine is.
set_everywhere("snowflake.lease_reserve = '20min'");
foreach my $r (@registries)
{
	wait_for_lease($_, q{until > clock_timestamp() + interval '13 min'}) foreach @{ $r->{holders} };
	finish_clients($r, $_) foreach @{ $r->{nodes} };
	start_clients($r, $_) foreach @{ $r->{holders} };
	$r->{had} = join ' ', map { lease_of($_, 'node_id') } @{ $r->{holders} };
	begin_fault($r);
	cut_off($r);
}
foreach my $r (@registries)
{
	foreach my $node (@{ $r->{holders} })
	{
		wait_for_lease($node, 'problem IS NOT NULL');
		$node->{load}->more(200);
		is(lease_of($node, 'state'), 'held', "$r->{name}: gone for a while");
	}
	end_fault($r, 'gone for a while');
	begin($r);
}
foreach my $r (@registries)
{
	settle($r);
	is(join(' ', map { lease_of($_, 'node_id') } @{ $r->{holders} }), $r->{had}, "$r->{name}: all have what they had");
}

# ---- the password is changed ----

# etcd takes long to check a password, on purpose; on a busy machine, much longer.
set_everywhere("snowflake.lease_timeout = '60s'");

# A user with all rights, and one for the prefix.
foreach my $r (@etcds)
{
	my $etcd = $r->{members}[0];

	foreach my $user ('root', 'snow')
	{
		$etcd->call('auth/user/add', { name => $user, password => 'p "w' });
		$etcd->call('auth/role/add', { name => $user });
		$etcd->call('auth/user/grant', { user => $user, role => $user });
	}
	$etcd->call('auth/role/grant', { name => 'snow', perm => { permType => 2,
		key => encode_base64('reg/', ''), range_end => encode_base64('reg0', '') } });
	$etcd->call('auth/enable', {});
	$r->{root} = $etcd->call('auth/authenticate', { name => 'root', password => 'p "w' })->{token};
}

sub set_password
{
	my ($r, $password) = @_;

	if ($r->{server})
	{
		query($postgresql, "ALTER ROLE worker PASSWORD '$password';
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'");
		return;
	}
	$r->{members}[0]->call('auth/user/changepw', { name => 'snow', password => $password }, $r->{root});
	return;
}

settle($_) foreach @registries;
foreach my $r (@protected)
{
	begin_fault($r);
	set_password($r, 'new');
}
# the new reserve must be written at once
set_everywhere("snowflake.lease_reserve = '1h'");
foreach my $r (@protected)
{
	wait_for_lease($_, q{problem ~ 'authentication failed'}) foreach @{ $r->{holders} };
	end_fault($r, 'the password is wrong');
}
write_credentials("snow\nnew\n");
set_password($registries[2], 'secret');
foreach my $r (@protected)
{
	settle($r);
	$r->{members}[0]->call('auth/disable', {}, $r->{members}[0]->call('auth/authenticate',
		{ name => 'root', password => 'p "w' })->{token}) if $r->{members};
}

# ---- etcd's quota is used up ----

foreach my $r (@etcds)
{
	my $status = 200;

	begin_fault($r);
	($status) = $r->{members}[0]->post('kv/put', { key => encode_base64('fill', ''), value => 'A' x 1000000 })
	  while $status == 200;
}
set_everywhere("snowflake.lease_reserve = '3h'");
foreach my $r (@etcds)
{
	my $etcd = $r->{members}[0];

	wait_for_lease($_, q{problem ~ 'quota of etcd is used up'}) foreach @{ $r->{holders} };
	end_fault($r, 'the quota is used up');
	$etcd->delete('fill');
	my $revision = $etcd->call('kv/range', { key => encode_base64('fill', '') })->{header}{revision};
	$etcd->call('kv/compaction', { revision => $revision, physical => \1 });
	foreach my $member (@{ $r->{members} })
	{
		$member->call('maintenance/defragment', {});
		$etcd->call('maintenance/alarm', { action => 'DEACTIVATE', alarm => 'NOSPACE',
			memberID => $member->call('maintenance/status', {})->{header}{member_id} });
	}
	settle($r);
}
foreach my $r (@registries)
{
	finish_clients($r, $_, "$r->{name}: no call was refused")
	  foreach grep { $_->{load} } @{ $r->{nodes} };
}
$_->stop foreach map { @{ $_->{nodes} } } @registries;
$checker->clients;
done_testing();
