# Two servers under Patroni. In one case the leader dies under load. In the other one
# the leader goes on beside its successor, because its Patroni is frozen. The roles are
# changed by a switchover and by a failover, members are rewound, and one is copied
# anew. etcd ends, with failsafe_mode and without. Node ids are leased, or configured for
# each member. No ID is made twice. Needs patroni and etcd.
#
# takes: 120 s
# needs: patroni python3-etcd etcd-server etcd-client libcurl4-openssl-dev
use SnowflakeTest;
use Etcd;
use IdChecker;
use Load;
use Patroni;

my $etcd = Etcd->new('dcs')->start;

# The value of a key in etcd that makes the prefix a registry.
my $registry = q{SELECT json_build_object(
	'generation', right(replace(gen_random_uuid()::text, '-', ''), 16),
	'layout', text,
	'former', '',
	'floor', ceil((extract(epoch FROM now()) * 1000 - epoch_ms) / tick_ms))
	FROM snowflake_registry.layout('snowflake')};

# Each member has two shards of its own.
sub new_member
{
	my ($cluster, $number, %options) = @_;
	my $shard = 2 * $number;

	return Patroni->new("$cluster$number", cluster => $cluster, etcd => $etcd,
		shared => {
			shared_preload_libraries => 'snowflake',
			max_connections => 60,
			%{ $options{shared} // {} }
		},
		own => {
			'snowflake.shards' => sprintf('%d-%d', $shard, $shard + 1),
			%{ $options{own} // {} }
		});
}

# Start a leader, make the tables, and start a member that follows it.
sub new_cluster
{
	my ($leader, $follower) = @_;

	$leader->start->wait_for('leader');
	query($leader->node, 'CREATE EXTENSION snowflake; ' . load_tables());
	$follower->start;
	Patroni::settle($leader, $follower);
	return;
}

# Run clients. Without their pauses they would keep Patroni from renewing its lock in
# etcd, and the follower would fall behind.
sub load_on
{
	my ($checker, $member) = @_;
	my ($shard) = query($member->node, 'SHOW snowflake.shards') =~ /^(\d+)/;

	return start_load($checker, 'all members', $member->node->connstr('postgres'), 4, $shard, 0.02);
}

sub is_primary
{
	my ($member) = @_;

	return query($member->node, 'SELECT NOT pg_is_in_recovery()') eq 't';
}

# Check the tables as one state of the database.
sub look_at
{
	my ($checker, $name, $member) = @_;

	$checker->state("$name, tables", $member->node, 'postgres',
		'SELECT id FROM t UNION ALL SELECT id FROM s');
	return;
}

# The leader dies under load: first its server, without a shutdown.
sub die_under_load
{
	my ($checker, $leader, $follower) = @_;
	my $load = load_on($checker, $leader);
	my $node_id = lease_of($leader->node, 'node_id');

	$load->more(5000);
	$leader->signal('KILL');
	$leader->kill_server;
	$leader->expire;
	$load->finish;
	my $before = $load->count;
	my $seconds = $follower->wait_for('leader');
	ok(is_primary($follower), sprintf('the leader dies: the follower leads after %.0f s', $seconds));
	$load = load_on($checker, $follower);
	$load->more(5000);
	is_deeply($load->finish, {}, "and goes on: $before IDs before, " . $load->count . ' after');
	isnt(lease_of($follower->node, 'node_id'), $node_id, 'with another node id');
	look_at($checker, 'after the death', $follower);
	my ($now) = Patroni::settle($leader->start, $follower);
	is($now, $follower, 'who led before follows');
	return;
}

# Change the roles under load.
sub change_roles
{
	my ($checker, $change, $up, $down) = @_;
	my $load = load_on($checker, $up);

	$load->more(2000);
	$up->ask($change, qr/demoted|following/, $change eq 'switchover' ? (leader => $up->node->name) : (), candidate => $down->node->name);
	$down->wait_for('leader');
	ended($load, "a $change");
	my ($now) = Patroni::settle($down, $up);
	is($now, $down, 'the other member leads');
	return;
}

# Stop the clients of a leader that has ended.
sub ended
{
	my ($load, $event) = @_;
	my $errors = $load->finish;

	delete @$errors{ '57P01', '57P02' };
	is_deeply($errors, {}, "$event: the old leader's clients see no error but its end");
	return;
}

# A switchover with leases.
sub switch_leases
{
	my ($checker, $leader, $follower) = @_;

	change_roles($checker, 'switchover', $leader, $follower);
	wait_for_lease($follower->node, q{state = 'held'});
	is(query($follower->node, 'SELECT count(*) FROM snowflake_registry_slots() WHERE until > clock_timestamp()'), 1,
		'the old leader has given its node id back');
	isnt(lease_of($leader->node, 'state'), 'held', 'and holds none');
	return;
}

# etcd ends. Patroni demotes the leader, or with failsafe_mode it goes on making IDs
# until its reservation ends.
sub lose_etcd
{
	my ($checker, @members) = @_;
	my ($leader, $follower) = Patroni::settle(@members);
	my $load = load_on($checker, $leader);

	$load->more(2000);
	$etcd->stop;
	wait_until { $leader->answer('SELECT pg_is_in_recovery()') eq 't' } 'it still leads';
	ended($load, 'etcd is down: the leader is demoted');
	$etcd->start;

	($leader, $follower) = Patroni::settle(@members);
	$leader->use_failsafe_mode($follower);
	wait_for_lease($leader->node, q{state = 'held' AND problem IS NULL});
	$load = load_on($checker, $leader);
	$load->more(2000);
	$etcd->stop;
	wait_for_lease($leader->node, 'node_id IS NULL OR until < clock_timestamp()');
	is_deeply([ keys %{ $load->finish } ], [], 'failsafe_mode: it has made IDs until its reservation ends');
	alter_system($leader->node, 'SET snowflake.lease_wait = 0');
	$leader->node->poll_query_until('postgres', q{SELECT current_setting('snowflake.lease_wait') = '0'}) or die 'no reload';
	refused($leader->node, $next, '55000', qr/no lease of a node id/, 'and then none');
	ok(is_primary($leader), 'but it still leads');
	$etcd->start;
	wait_for_lease($leader->node, q{state = 'held' AND problem IS NULL});
	$load = load_on($checker, $leader);
	$load->more(2000);
	is_deeply($load->finish, {}, 'etcd is back: it goes on');
	return;
}

# The follower is copied from the leader again.
sub reinitialize
{
	my ($checker, $up, $down) = @_;
	my $load = load_on($checker, $up);
	$load->more(2000);
	$down->ask('reinitialize', qr/replica has been created using basebackup/);
	my ($now) = Patroni::settle($up, $down);
	is($now, $up, 'the follower is copied anew, and follows');
	$load->more(2000);
	is_deeply($load->finish, {}, "the leader's clients do not notice it");
	foreach my $member ($up, $down)
	{
		my $log = $member->log;

		like($log, qr/SF503: once it is promoted/, $member->node->name . ': a standby has a node id of its own');
		unlike($log, qr/SF40[1-9]|SF50[46]/, $member->node->name . ': no warning of a copy');
	}
	look_at($checker, 'after the changes of roles', $up);
	return;
}

# The leader's Patroni is frozen, and so cannot stop its server.
sub split_brain
{
	my ($checker, $leader, $follower) = @_;
	my $old = load_on($checker, $leader);

	$old->more(5000);
	$leader->signal('STOP');
	$leader->expire;
	my $seconds = $follower->wait_for('leader');
	ok(is_primary($leader) && is_primary($follower),
		sprintf('a split brain: two primaries after %.0f s', $seconds));
	isnt(lease_of($leader->node, 'node_id'), lease_of($follower->node, 'node_id'),
		'with two node ids');
	my $before = $old->count;
	my $new = load_on($checker, $follower);
	$new->more(20000);
	$old->more(20000);
	my ($of_old, $of_new) = ($old->count - $before, $new->count);
	ok(is_primary($leader) && is_primary($follower) && $of_old > 0 && $of_new > 0,
		"both make IDs: $of_old and $of_new");
	is_deeply($new->finish, {}, 'the new leader without an error');
	look_at($checker, 'the old side', $leader);
	look_at($checker, 'the new side', $follower);

	# Patroni goes on, and there is one leader again. It may be the old one: with etcd,
	# Patroni 3.0 takes a lock for its own and writes its name into it.
	$leader->signal('CONT');
	my ($now) = Patroni::settle($leader, $follower);
	pass('one follows the other again: ' . $now->node->name . ' leads');
	like(join('', map { $_->log } $leader, $follower), qr/running pg_rewind/, 'after pg_rewind');
	ended($old, 'the end of the split brain');
	$new = load_on($checker, $now);
	$new->more(1000);
	is_deeply($new->finish, {}, 'who leads goes on');
	look_at($checker, 'who leads', $now);
	return;
}

# ---- leased node ids, in the same etcd ----

{
	# a server that leads again begins its shards above everything that it had reserved
	my %shared = ('snowflake.registry' => 'etcd://' . $etcd->host . '/registry',
		'snowflake.lease_reserve' => '20s');
	my @members = map { new_member('leased', $_, shared => \%shared) } 1, 2;
	my $checker = IdChecker->new($members[0]->node->basedir . '/ids');

	new_cluster(@members);
	$etcd->put('registry/registry', query($members[0]->node, "CREATE EXTENSION snowflake_registry; $registry"));
	wait_for_lease($members[0]->node, q{state = 'held'});
	isnt(lease_of($members[1]->node, 'state'), 'held', 'who follows has no lease');
	switch_leases($checker, @members);
	die_under_load($checker, reverse @members);
	split_brain($checker, @members);
	lose_etcd($checker, @members);
	$checker->clients;
	$checker->states;
	$_->end foreach @members;
}

# ---- one node id for each member ----

{
	my @members = map { new_member('fixed', $_, own => { 'snowflake.node_id' => $_ }) } 1, 2;
	my $checker = IdChecker->new($members[0]->node->basedir . '/ids');

	new_cluster(@members);
	change_roles($checker, 'switchover', @members);
	change_roles($checker, 'failover', reverse @members);
	reinitialize($checker, @members);
	split_brain($checker, @members);
	$checker->clients;
	$checker->states;
	$_->end foreach @members;
}

done_testing();
