# A registry is restored as doc/leases.md says, while its servers run. A new server,
# which does not know the registry and whose clock is behind, reaches it first. It gets
# nothing before the recovery.
#
# takes: 200 s
# part etcd: etcd-server etcd-client libcurl4-openssl-dev
# part zookeeper: libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use IdChecker;
use Load;
use RegistryCopy;
use ZooKeeper;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");

sub start_holder
{
	my ($name, $registry, $offset) = @_;

	return start_holder_of($registry, $name, $offset, "snowflake.layout = '$layout'");
}

# After the copy was saved, b leases a node id, and a extends its lease.
# Then the copy takes the registry's place. Either it was recovered where no server
# reaches it, or the servers report this problem.
sub go_through
{
	my ($kind, $way, %how) = @_;
	my $name = "${kind}_$way";
	my $registry = new_registry_of($kind, "registry_$name");
	my $save = "$registry->{dir}.saved";
	my $a = start_holder("${name}_a", $registry, 0);
	my (@loads, $b, $c);

	initialize($a, "$kind, $way");
	wait_until_held($a);
	($how{save} // $registry->{save})->($save, $registry);
	wait_until_held($a);
	$b = start_holder("${name}_b", $registry, 0);
	wait_until_held($b);
	wait_until_extended($a);
	@loads = map { start_load($checker, $name, $_->connstr('postgres'), 3, $_->{shard}, 0.02) } $a, $b;
	$_->more(500) foreach @loads;

	$registry->{stop}->();
	$how{restore}->($registry, $save);
	$c = start_holder("${name}_c", $registry, -4.5);
	if (my $problem = $how{problem})
	{
		wait_for_lease($c, "problem ~ '$problem' OR state = 'held'");
		is(lease_of($c, 'node_id'), '', 'a new server gets no node id');
		like(lease_of($c, 'remedy'), qr/see "A registry that goes back" in doc/, 'and is told what helps');
		wait_for_lease($a, q{remedy ~ 'interval '});
		my $call = recovery_of($a, 6);
		like(ask_again { query($a, $call) }, qr/^\d/, 'before the recovery');
	}
	wait_for_lease($_, q{state = 'held' AND problem IS NULL}) foreach $a, $b, $c;
	push @loads, start_trickle($checker, $name, $c->connstr('postgres'));
	$_->more(500) foreach @loads;
	is(keys %{ { map { lease_of($_, 'node_id') => 1 } $a, $b, $c } }, 3, 'then each server has one of its own');
	like(join(' ', sort keys %{ $_->finish }), qr/^(55000)?$/, 'clients have met refusals only') foreach @loads;
	$_->stop foreach $a, $b, $c;
	$registry->{stop}->();
	return;
}

# PostgreSQL: a base backup is in another place, and the servers notice it.
go_through('postgresql', 'backup',
	save => sub {
		my ($save, $registry) = @_;

		$registry->{server}->backup('saved');
		rename $registry->{server}->backup_dir . '/saved', $save or die;
	},
	restore => sub {
		my ($registry, $save) = @_;

		$registry->{restore}->($save);
		$registry->{start}->();
	},
	problem => 'on another server or timeline');

# A copy of all files that was put back in the same place is not noticed. So it is
# recovered on another port.
go_through('postgresql', 'files',
	restore => sub {
		my ($registry, $save) = @_;
		my $server = $registry->{server};
		my @pg_ctl = ($server->installed_command('pg_ctl'), '-w', '-s', '-D', $server->data_dir);
		my $port = PostgreSQL::Test::Cluster::get_free_port();

		$registry->{restore}->($save);
		system_or_bail(@pg_ctl, '-o', "-p $port", '-l', $server->logfile, 'start');
		like(qx(psql -XAtq -h @{[ $server->host ]} -p $port -d postgres -c "SELECT snowflake_registry.recover('6 s')"),
			qr/^\d/, 'recovered on another port');
		system_or_bail(@pg_ctl, 'stop');
		$registry->{start}->();
	});

# etcd: a snapshot restored with another token begins another cluster, and is noticed.
go_through('etcd', 'token',
	restore => sub {
		my ($registry, $save) = @_;

		$registry->{restore}->($save, '--initial-cluster-token', 'restored');
		$registry->{start}->();
	},
	problem => 'not the etcd cluster in which')
  if part('etcd');

# etcd: all data is lost.
go_through('etcd', 'lost',
	restore => sub {
		my ($registry) = @_;

		$registry->{server}->forget;
		$registry->{start}->();
	},
	problem => 'never initialized')
  if part('etcd');

# ZooKeeper: the registry is removed from the copy on another port.
go_through('zookeeper', 'removed',
	restore => sub {
		my ($registry, $save) = @_;
		my $server = $registry->{server};
		my $port = $server->{port};

		$registry->{restore}->($save);
		$server->{port} = PostgreSQL::Test::Cluster::get_free_port();
		$registry->{start}->();
		$server->delete('/reg');
		$registry->{stop}->();
		$server->{port} = $port;
		$registry->{start}->();
	},
	problem => 'never initialized')
  if part('zookeeper');

# A member of ZooKeeper that has lost its disk joins when the others have a quorum. It
# gets their data, and then another member may stop. If it joins before, what the others
# have acknowledged is lost, and the servers notice that.
if (part('zookeeper'))
{
	my @members = @{ ZooKeeper->ensemble('m1', 'm2', 'm3') };
	my $a;

	$_->launch foreach @members;
	$_->wait_until_ready foreach @members;
	$a = start_holder('members_a', { url => 'zookeeper://' . join(',', map { $_->host } @members) . '/reg' }, 0);
	initialize($a, 'members');
	wait_until_held($a);
	$members[2]->stop;
	wait_until_extended($a);
	$members[1]->stop;
	$members[1]->forget;
	$members[2]->start;
	$members[1]->start;
	$members[0]->stop;
	wait_until_extended($a);
	is(lease_of($a, 'problem'), '', 'an empty member has joined a quorum: nothing is lost');

	# the first member was down meanwhile
	$_->stop foreach @members[ 1, 2 ];
	$members[1]->forget;
	$_->launch foreach @members[ 0, 1 ];
	$_->wait_until_ready foreach @members[ 0, 1 ];
	wait_for_lease($a, q{problem ~ 'lost data: it is older'});
	pass('an empty member and one that was down are a quorum: the loss is noticed');
	my $call = recovery_of($a, 6);
	like(ask_again { query($a, $call) }, qr/^\d/, 'and recovered');
	wait_until_held($a);
	$a->stop;
}

$checker->clients;
done_testing();
