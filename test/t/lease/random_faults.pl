# Random faults for servers that lease node ids from one registry, several at a time,
# for SNOWFLAKE_SOAK seconds. Processes are frozen, killed and copied. Clocks are set.
# Members of the registry are killed or frozen, and the ways to them are cut, slow,
# deaf, tear or repeat what was sent. An older copy of the registry is restored, as
# doc/leases.md says. Servers are set to another registry, which gives them nothing. Clients ask all servers for IDs all the time. SEED repeats a run,
# as far as the machine's scheduling allows. SNOWFLAKE_REGISTRY is the kind of
# registry.
#
# takes: 70 s
# needs: etcd-server etcd-client libcurl4-openssl-dev libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use Time::HiRes qw(usleep clock_gettime CLOCK_MONOTONIC);
use Etcd;
use FaultyProxy;
use IdChecker;
use Load;
use RegistryCopy;
use ZooKeeper;

my $seconds = $ENV{SNOWFLAKE_SOAK} || 20;
my $seed = $ENV{SEED} || time;
note "SEED=$seed";
srand($seed);

my @kinds = qw(etcd zookeeper postgresql);
my $kind = $ENV{SNOWFLAKE_REGISTRY} || $kinds[ rand @kinds ];
# Four slots. A server that is frozen, killed or cut off loses its slot to another one.
my $layout = 'timestamp:41 node:2 sequence:15 epoch:2024-01-01';
my $nslots = 4;
my $nservers = 5;
my $max_copies = 2;
my $proxy = FaultyProxy->new;
my (@members, @servers, %count, $checker);

sub now { return clock_gettime(CLOCK_MONOTONIC) }

# Return one of these at random.
sub any { return $_[ rand @_ ] }

# ---- the registry ----

# The registry's members, each with its port, and how to start, end and freeze it.
my $postgresql;
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
	query($postgresql, 'CREATE DATABASE other');
	query($postgresql, 'CREATE EXTENSION snowflake_registry', database => $_) foreach 'postgres', 'other';
	query($postgresql, "SELECT snowflake_registry.init('$layout')", database => 'other');
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
	return "postgresql://postgres\@127.0.0.1:$ports[0]/postgres" if $postgresql;
	return "$kind://" . join(',', map { "127.0.0.1:$_" } @ports) . '/snowflake';
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

sub end_server
{
	my ($server, $mode) = @_;

	$server->{node}->stop($mode, fail_ok => 1);
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
			set_registry($server, $postgresql ? 'postgres' : 'snowflake');
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
	@{ $servers[-1] }{ 'ways', 'url' } = @{$server}{ 'ways', 'url' };
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
		my $backup = 'saved' . ($count{restores} // 0);

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
	my $token = 'restored' . ++$count{restores};
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
		last if eval { $members[0]->delete('/snowflake'); 1 };
		die $@ if $try == 600;
		usleep(100_000);
	}
	$_->stop foreach @members;
	$_->{port} = $port{ $_->{name} } foreach @members;
	start_members();
	return;
}

# Make the call that a server's lease asks for: in PostgreSQL on the registry itself.
sub recover_for
{
	my ($server) = @_;
	my $call = eval { $server->{node}->safe_psql('postgres', q{SELECT substring(remedy
		FROM 'SELECT (?:public\.)?snowflake_registry[._]recover[^;]*;') FROM snowflake_lease()}, timeout => 20) } || return;

	return eval { ($postgresql // $server->{node})->safe_psql('postgres', $call =~ s/'\d+ s'/'6 s'/r, timeout => 20) };
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

# Meanwhile the members run without faults.
my $save_at;
my $restore_at;

sub restore_when_due
{
	return if $registry_busy;
	if (defined $save_at && now() >= $save_at)
	{
		save_registry();
		undef $save_at;
	}
	return if now() < $restore_at || defined $save_at;
	restore_registry();
	recover_registry();
	$save_at = now() + 5 + rand 20;
	$restore_at = $save_at + 5 + rand 30;
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
	"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '1s'",
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
	set_registry($server, $postgresql ? 'postgres' : 'snowflake');
	push @servers, $server;
}
$first->stop;
$proxy->start;
if (!$postgresql)
{
	set_registry($servers[0], 'other');
	$first->start;
	$first->poll_query_until('postgres', 'SELECT snowflake_registry_init() IS NOT NULL') or die 'no other registry';
	$first->stop;
	unlink $first->data_dir . '/snowflake.age';
	set_registry($servers[0], 'snowflake');
}
begin_server($servers[0]);
# a busy registry may not answer in time: then ask again
($postgresql // $servers[0]{node})->poll_query_until('postgres', 'SELECT '
	  . ($postgresql ? "snowflake_registry.init('$layout')" : 'snowflake_registry_init()') . ' IS NOT NULL')
  or die 'no registry';
begin_server($_) foreach @servers[ 1 .. $#servers ];

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

$save_at = now() + rand 5;
$restore_at = $save_at + 4 + rand 5;
my $end = now() + $seconds;
my $admit_at = now();
my @names = sort keys %faults;
while (now() < $end)
{
	my $server = any(@servers);

	end_faults();
	fault_of_registry() if rand 25 < 1;
	restore_when_due();
	# a server that knew what was not restored
	if (now() > $admit_at && !$server->{busy} && !$registry_busy)
	{
		recover_for($server) if eval { lease_of($server->{node}, 'problem') =~ /another one/ };
		$admit_at = now() + 2;
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

foreach my $server (@servers)
{
	wait_for_lease($server->{node}, 'problem IS NULL OR node_id IS NULL');
	recover_for($server) if lease_of($server->{node}, 'problem') =~ /another one/;
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
note sprintf('%s: %d IDs of %d servers; %s', $kind, $checker->checked, scalar @servers,
	join ', ', map { "$count{$_} $_" } sort keys %count);
done_testing();
