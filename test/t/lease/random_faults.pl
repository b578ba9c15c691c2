# Random faults for servers that lease node ids from one registry, several at a time,
# for SNOWFLAKE_SOAK seconds. Processes are frozen, killed and copied. Clocks are set.
# Members of the registry are killed or frozen, and the ways to them are cut, slow,
# deaf, tear or repeat what was sent. An older copy of the registry is restored, and
# all servers move to another registry, one by one, as doc/leases.md says. Servers are
# set to a registry that nobody moves to, which gives them nothing. Clients ask all
# servers for IDs all the time. SEED repeats a run, as far as the machine's scheduling
# allows. SNOWFLAKE_REGISTRY is the kind of registry.
#
# takes: 80 s
# needs: etcd-server etcd-client libcurl4-openssl-dev libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
use Etcd;
use FaultyProxy;
use IdChecker;
use Load;
use RegistryCopy;
use ZooKeeper;

my $seconds = $ENV{SNOWFLAKE_SOAK} || 30;
my $seed = $ENV{SEED} || time;
note "SEED=$seed";
srand($seed);

my @kinds = qw(etcd zookeeper postgresql);
my $kind = $ENV{SNOWFLAKE_REGISTRY} || $kinds[ rand @kinds ];
# Four slots. A server that is frozen, killed or cut off loses its slot to another one.
# In a tick of 10 ms two servers with one slot are seen even if the machine is slow.
my $layout = 'timestamp:41 node:2 sequence:15 tick:10ms epoch:2024-01-01';
my $nslots = 4;
my $nservers = 5;
# With more, servers that have lost their registry go on for longer.
my $reserve = (6, 15)[ rand 2 ];
my $max_copies = 2;
my $proxy = FaultyProxy->new;
my (@members, @servers, %count, $checker);

# Servers lease from this registry. While they move to it, $move has the name of the
# former one.
my $current = 'first';
my $move;

sub now { return clock_gettime(CLOCK_MONOTONIC) }

# Return one of these at random.
sub any { return $_[ rand @_ ] }

# ---- the registry ----

# The registry's members, each with its port, and how to start, end and freeze it.
my ($postgresql, $admin);
if ($kind eq 'etcd')
{
	@members = Etcd->members([ 'm1', 'm2', 'm3' ], args => [qw(--heartbeat-interval 100 --election-timeout 1000)]);
}
elsif ($kind eq 'zookeeper')
{
	@members = @{ ZooKeeper->ensemble('m1', 'm2', 'm3') };
}
else
{
	$postgresql = PostgreSQL::Test::Cluster->new('registry');
	$postgresql->init(allows_streaming => 1);
	$postgresql->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'\nmax_connections = 60");
	$postgresql->start;
	query($postgresql, "CREATE DATABASE $_") foreach qw(first second other);
}

sub start_members
{
	my @down = grep { !$_->{pid} } @members;

	$_->launch foreach @down;
	$_->wait_until_ready foreach @down;
	return;
}

# Return the registry's URL for one server, whose connections to the members go through
# proxies of its own.
sub ways_to_registry
{
	my ($server) = @_;
	my @ports;

	foreach my $port ($postgresql ? $postgresql->port : map { $_->{port} } @members)
	{
		my ($number, $own) = $proxy->add($port);

		push @{ $server->{ways} }, $number;
		push @ports, $own;
	}
	return url_of(@ports);
}

sub url_of
{
	my (@ports) = @_;

	return "postgresql://postgres\@127.0.0.1:$ports[0]/first" if $postgresql;
	return "$kind://" . join(',', map { "127.0.0.1:$_" } @ports) . '/first';
}

# Make the registry of this name. In etcd and ZooKeeper a server does that, which has
# leased from none. If it is to be empty, a recovery makes it later.
sub make_registry
{
	my ($name, $empty) = @_;

	if ($postgresql)
	{
		query($postgresql, 'CREATE EXTENSION snowflake_registry', database => $name);
		query($postgresql, "SELECT snowflake_registry.init('$layout')", database => $name) if !$empty;
	}
	elsif (!$empty)
	{
		set_registry($admin, $name);
		$admin->{node}->start;
		# a busy registry may not answer in time: then ask again
		$admin->{node}->poll_query_until('postgres', 'SELECT snowflake_registry_init() IS NOT NULL') or die "no registry $name";
		$admin->{node}->stop;
		unlink $admin->{node}->data_dir . '/snowflake.age';
	}
	return;
}

# Do the same as the commands in doc/leases.md. Return true if it is gone.
sub remove_registry
{
	my ($name) = @_;
	local $ENV{ETCDCTL_API} = 3;

	return eval {
		# a worker that is frozen may hold a lock
		if ($postgresql) { $postgresql->safe_psql($name, "SET lock_timeout = '1s'; DROP EXTENSION snowflake_registry") }
		elsif ($kind eq 'etcd') { run_or_die("etcdctl --endpoints=@{[ $members[0]->host ]} del --prefix $name/ >/dev/null 2>&1") }
		else { $members[0]->delete("/$name") }
		1;
	};
}

# ---- the servers ----

# Return what is known of a server. Its clock is wrong by up to 2 s, so a server that
# gets a slot of another one goes through the same times.
sub described
{
	my ($name, $node) = @_;
	my $offset = rand(4) - 2;

	return { name => $name, node => $node, usual => $offset, offset => $offset };
}

# Start a server: its node, its clock, its clients, and the time until which it is left
# alone.
sub begin_server
{
	my ($server) = @_;

	start_with_clock($server->{node}, $server->{offset});
	begin_clients($server);
	return;
}

sub begin_clients
{
	my ($server) = @_;
	my $connstr = $server->{node}->connstr('postgres');

	$server->{load} = start_trickle($checker, 'all', $connstr,
		'SELECT snowflake_nextval() FROM generate_series(1, 3), pg_sleep(0.01);');
	$checker->held_by('node', $server->{name}, $server->{load}->files);
	return;
}

sub end_clients
{
	my ($server) = @_;

	$server->{load}->finish;
	return;
}

# Stop a server, or kill its processes.
sub end_server
{
	my ($server, $mode) = @_;

	if ($mode eq 'KILL')
	{
		my @pids = pids_of($server);

		$server->{node}->kill9;
		kill 'KILL', @pids;
		wait_until { !kill 0, @pids } 'a killed process is there';
	}
	else
	{
		$server->{node}->stop($mode, fail_ok => 1);
	}
	end_clients($server);
	return;
}

sub pids_of
{
	my ($server) = @_;
	my $postmaster = slurp_file($server->{node}->data_dir . '/postmaster.pid') =~ /^(\d+)/ ? $1 : die;

	return ($postmaster, split ' ', `ps -o pid= --ppid $postmaster`);
}

# ---- faults ----

# Each fault schedules its own end. A server has one fault at a time, besides those of
# its proxies and of the registry.
my @later;    # [when, what to do then]

# Set a server to the registry of this name.
sub set_registry
{
	my ($server, $name) = @_;

	$server->{url} =~ s{[^/]*$}{$name};
	$server->{node}->append_conf('postgresql.conf', "snowflake.registry = '$server->{url}'\n");
	return;
}

sub for_a_while
{
	my ($server, $longest, $end) = @_;

	push @later, [ now() + rand $longest, sub { $end->(); $server->{busy} = 0 if $server } ];
	return;
}

sub freeze
{
	my ($server, @pids) = @_;

	@pids = grep { kill 'STOP', $_ } @pids;
	# the postmaster is the first of them, so it starts no process meanwhile
	for_a_while($server, 8, sub { kill 'CONT', @pids });
	return;
}

my %faults = (
	'frozen servers' => sub { my ($server) = @_; freeze($server, pids_of($server)) },
	'frozen workers' => sub {
		my ($server) = @_;
		my ($worker) = split ' ', `ps -o pid=,args= --ppid @{[ (pids_of($server))[0] ]} | grep 'snowflake lease'` || '';

		freeze($server, $worker // ());
	},
	'steps of a clock' => sub {
		my ($server) = @_;

		$server->{offset} = $server->{usual} + (rand(2) - 1) * any(0.5, 2, 4, 4, 10, 3600);
		set_clock($server->{node}, $server->{offset});
		for_a_while($server, 6, sub {
			$server->{offset} = $server->{usual};
			set_clock($server->{node}, $server->{offset});
		});
	},
	'immediate stops' => sub {
		my ($server) = @_;

		end_server($server, 'immediate');
		for_a_while($server, 3, sub { begin_server($server) });
	},
	'killed servers' => sub {
		my ($server) = @_;

		end_server($server, 'KILL');
		for_a_while($server, 3, sub { begin_server($server) });
	},
	'clean stops' => sub {
		my ($server) = @_;

		end_server($server, 'fast');
		for_a_while($server, 2, sub { begin_server($server) });
	},
	'killed workers' => sub {
		my ($server) = @_;
		my ($worker) = split ' ', `ps -o pid=,args= --ppid @{[ (pids_of($server))[0] ]} | grep 'snowflake lease'` || '';

		kill any('TERM', 'KILL'), $worker if $worker;
		# if the signal was KILL, all sessions end
		for_a_while($server, 3, sub {
			# an empty query, since psql may end before it can read another one
			$server->{node}->poll_query_until('postgres', undef, '') or die 'it does not come back';
			end_clients($server);
			begin_clients($server);
		});
	},
	'other registries' => sub {
		my ($server) = @_;

		end_server($server, any('fast', 'immediate'));
		set_registry($server, 'other');
		begin_server($server);
		for_a_while($server, 8, sub {
			is(lease_of($server->{node}, 'node_id'), '', "$server->{name} leases nothing from another registry");
			end_server($server, any('fast', 'immediate'));
			set_registry($server, $server->{registry});
			begin_server($server);
		});
	},
	'bad ways' => sub {
		my ($server) = @_;
		my @ways = rand 2 < 1 ? @{ $server->{ways} } : any(@{ $server->{ways} });
		my $mode = any('cut', 'silent', 'deaf', 'repeat', 'torn', 'delay ' . int(rand 1500), 'late ' . int(rand 4000));

		$proxy->set($_, $mode) foreach @ways;
		for_a_while($server, 8, sub { $proxy->set($_, 'pass') foreach @ways });
	},
	'copies' => sub {
		my ($server) = @_;

		$server->{busy} = 0;
		return if !copy_server_of($server);
		$count{copies}++;
	});

# Make a base backup and start it as a server beside the original, with the same
# proxies.
sub copy_server_of
{
	my ($server) = @_;
	my $name = "$server->{name}_copy$max_copies";
	my $node = $server->{node};

	return 0 if $max_copies == 0 || !eval { $node->backup($name); 1 };
	$max_copies--;
	my $copy = PostgreSQL::Test::Cluster->new($name);
	$copy->init_from_backup($node, $name);
	push @servers, described($name, $copy);
	@{ $servers[-1] }{ 'ways', 'url', 'registry' } = @{$server}{ 'ways', 'url', 'registry' };
	begin_server($servers[-1]);
	return 1;
}

# Faults of the registry. Apart from the restores below, they never make it lose data.
my $registry_busy = 0;

sub fault_of_registry
{
	my $member = $postgresql || any(@members);

	return if $registry_busy;
	$registry_busy = 1;
	if (rand 2 < 1)
	{
		my @pids = $postgresql ? (slurp_file($postgresql->data_dir . '/postmaster.pid') =~ /^(\d+)/) : $member->{pid};

		push @pids, split ' ', `ps -o pid= --ppid $pids[0]` if $postgresql;
		kill 'STOP', @pids;
		push @later, [ now() + rand 6, sub { kill 'CONT', @pids; $registry_busy = 0 } ];
		$count{'frozen members'}++;
		return;
	}
	$postgresql ? $postgresql->stop('immediate') : $member->stop('KILL');
	push @later, [ now() + rand 4, sub { $postgresql ? $postgresql->start : start_members(); $registry_busy = 0 } ];
	$count{'killed members'}++;
	return;
}

# ---- an older copy of the registry ----

my $saved = "$PostgreSQL::Test::Utils::tmp_check/saved";

# ZooKeeper is stopped while its data is copied.
sub save_registry
{
	local $ENV{ETCDCTL_API} = 3;

	if ($postgresql)
	{
		my $backup = 'saved' . ($count{'restores of a registry'} // 0);

		$postgresql->backup($backup);
		run_or_die('rm', '-rf', $saved);
		rename $postgresql->backup_dir . "/$backup", $saved or die "$saved: $!";
	}
	elsif ($kind eq 'etcd')
	{
		unlink $saved;
		run_or_die("etcdctl --endpoints @{[ $members[0]->host ]} snapshot save $saved >/dev/null 2>&1");
	}
	else
	{
		$_->stop foreach @members;
		replace($_->{dir}, "$saved.$_->{name}") foreach @members;
		start_members();
	}
	return;
}

# Put the copy in the registry's place, such that no server claims from it.
sub restore_registry
{
	my $token = 'restored' . ++$count{'restores of a registry'};
	local $ENV{ETCDCTL_API} = 3;

	if ($postgresql)
	{
		$postgresql->stop('immediate');
		replace($saved, $postgresql->data_dir);
		$postgresql->start;
		return;
	}
	$_->stop('KILL') foreach @members;
	if ($kind eq 'etcd')
	{
		foreach my $member (@members)
		{
			$member->forget;
			run_or_die("etcdctl snapshot restore $saved --name $member->{name} --data-dir $member->{dir}"
				  . " --initial-cluster $member->{cluster} --initial-cluster-token $token"
				  . " --initial-advertise-peer-urls http://127.0.0.1:$member->{peer} >/dev/null 2>&1");
		}
		start_members();
		return;
	}
	my %port = map { $_->{name} => $_->{port} } @members;

	replace("$saved.$_->{name}", $_->{dir}) foreach @members;
	$_->{port} = PostgreSQL::Test::Cluster::get_free_port() foreach @members;
	start_members();
	# a member that is ready may still end a session, while the others find a leader
	foreach my $try (1 .. 600)
	{
		last if eval { $members[0]->delete("/$current"); 1 };
		die $@ if $try == 600;
		usleep(100_000);
	}
	$_->stop foreach @members;
	$_->{port} = $port{ $_->{name} } foreach @members;
	start_members();
	return;
}

# Make the call of doc/leases.md with the arguments that a server's lease names. While
# servers lease from a former registry, nobody makes it.
sub recover_for
{
	my ($server) = @_;

	return if $server->{registry} ne $current || ($move && !$move->{removed});
	return eval { $server->{node}->safe_psql('postgres', recovery_of($server->{node}, $reserve), timeout => 20) };
}

# Make the call for a server that finds another registry, or knew what was not restored.
sub admit
{
	my ($server) = @_;

	return if $server->{busy} || !eval { lease_of($server->{node}, 'problem') =~ /another one|would give away/ };
	$move->{called} = 1 if recover_for($server) && $move;
	return;
}

# Recover the registry while faults go on.
sub recover_registry
{
	foreach (1 .. 600)
	{
		end_faults();
		foreach my $server (grep { !$_->{busy} } @servers)
		{
			my $begin = recover_for($server);

			return $begin if $begin;
		}
		usleep(100_000);
	}
	die 'nobody recovers the registry';
}

# Meanwhile the members run without faults. Then all servers move to another registry,
# and of that one a copy is saved and restored.
my ($move_at, $save_at, $restore_at);

sub restore_when_due
{
	return if $registry_busy;
	if (defined $save_at && now() >= $save_at)
	{
		save_registry();
		undef $save_at;
	}
	return if !defined $restore_at || now() < $restore_at || defined $save_at;
	restore_registry();
	recover_registry();
	undef $restore_at;
	$move_at = now() + 5 + rand 20;
	return;
}

# ---- another registry ----

# Begin to move, or go on: set one server to the other registry, or remove the former
# one, at once, or when all or all but a few servers have left it. The last server is
# forgotten for longer: it still leases from the former one, or does not find it.
sub move_when_due
{
	return if $registry_busy;
	if (!$move)
	{
		return if !defined $move_at || now() < $move_at;
		undef $move_at;
		$move = { former => $current, left => any(0, 1, 2, scalar @servers) };
		$current = $current eq 'first' ? 'second' : 'first';
		make_registry($current, rand 2 < 1);
	}
	my @left = grep { $_->{registry} eq $move->{former} } @servers;
	my $server = any(grep { !$_->{busy} } @left);
	my $moved = any(grep { !$_->{busy} && $_->{registry} eq $current } @servers);

	if (!$move->{removed} && @left <= $move->{left})
	{
		is(lease_of($moved->{node}, 'node_id'), '', "$moved->{name} leases nothing from the other registry before the call") if $moved;
		$move->{removed} = remove_registry($move->{former});
	}
	elsif ($moved && $move->{removed} && !$move->{called} && rand 3 < 1)
	{
		admit($moved);
	}
	elsif ($server && rand(@left == 1 ? 50 : 10) < 1)
	{
		end_server($server, any('fast', 'immediate', 'KILL'));
		$server->{registry} = $current;
		set_registry($server, $current);
		begin_server($server);
		$count{'servers of a removed registry'}++ if $move->{removed};
	}
	elsif (!@left && $move->{called})
	{
		undef $move;
		$save_at = now() + rand 5;
		$restore_at = $save_at + 4 + rand 20;
		$count{'moves to another registry'}++;
	}
	return;
}

# End the faults whose time is over, or all of them.
sub end_faults
{
	my ($all) = @_;
	my @due = grep { $all || $_->[0] <= now() } @later;

	@later = grep { my $l = $_; !grep { $_ == $l } @due } @later;
	$_->[1]->() foreach @due;
	return;
}

# ---- a run ----

start_members();
my $first = new_server('server0', "snowflake.node_id = ''", "snowflake.layout = '$layout'",
	"snowflake.lease_reserve = '${reserve}s'", "snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '1s'",
	'snowflake.lease_wait = 0', "snowflake.max_clock_wait = '1s'");
$first->append_conf('postgresql.conf', "max_wal_senders = 5\nrestart_after_crash = on");
$checker = IdChecker->new($first->basedir . '/ids');
foreach my $i (0 .. $nservers - 1)
{
	my $server = described("server$i", $first);

	if ($i == 0)
	{
		$first->start;
		query($first, 'CREATE EXTENSION snowflake');
		$first->backup('first');
	}
	else
	{
		$server->{node} = PostgreSQL::Test::Cluster->new("server$i");
		$server->{node}->init_from_backup($first, 'first');
	}
	$server->{url} = ways_to_registry($server);
	$server->{registry} = $current;
	set_registry($server, $current);
	push @servers, $server;
}
$first->stop;
if (!$postgresql)
{
	$admin = { node => PostgreSQL::Test::Cluster->new('admin'), url => url_of(map { $_->{port} } @members) };
	$admin->{node}->init_from_backup($first, 'first');
}
make_registry($_) foreach $current, 'other';
$proxy->start;
begin_server($_) foreach @servers;

# Wait until each slot has a holder, and return how many have one. A server that has lost
# its slot to another one may not know it yet.
sub wait_for_holders
{
	my %holds;

	foreach (1 .. 1800)
	{
		%holds = map { lease_of($_->{node}, q{CASE WHEN state = 'held' AND until > clock_timestamp() THEN node_id END}) => 1 } @servers;
		delete $holds{''};
		last if keys %holds == $nslots;
		usleep(100_000);
	}
	return scalar keys %holds;
}
wait_for_holders() == $nslots or die 'the slots have no holders';

$move_at = now() + rand 3;
my $end = now() + $seconds;
my $admit_at = now();
my @names = sort keys %faults;
while (now() < $end)
{
	my $server = any(@servers);

	end_faults();
	fault_of_registry() if rand 25 < 1;
	restore_when_due();
	move_when_due();
	if (now() > $admit_at && !$registry_busy)
	{
		admit($server);
		$admit_at = now() + 1;
	}
	if (!$server->{busy} && rand 4 < 1)
	{
		my $name = any(@names);

		$server->{busy} = 1;
		$count{$name}++ if $name ne 'copies';
		$faults{$name}->($server);
	}
	usleep(50_000);
}
end_faults(1) while @later;

# ---- all is well again ----

while ($move)
{
	move_when_due();
	admit(any(@servers));
	usleep(50_000);
}
foreach my $server (@servers)
{
	wait_for_lease($server->{node}, 'problem IS NULL OR node_id IS NULL');
	admit($server);
}
is(wait_for_holders(), $nslots, 'in the end each slot has a holder');

# New clients, since sessions that ended with their server ask for nothing. After a
# recovery another server may become a holder.
foreach my $server (@servers)
{
	end_clients($server);
	begin_clients($server);
}
my $tries = 0;
while ((grep { $_->{load}->count >= 20 } @servers) < $nslots)
{
	die 'not all slots give IDs' if ++$tries > 1800;
	usleep(100_000);
}
pass('and each slot gives IDs');
foreach my $server (@servers)
{
	end_clients($server);
	$server->{node}->stop;
}
$checker->holders('node', 15);
$checker->clients;
note sprintf('%s: %d IDs; %s', $kind, $checker->checked,
	join ', ', map { "$count{$_} $_" } sort keys %count);
done_testing();
