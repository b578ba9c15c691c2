# A registry goes back in time: an older copy replaces the registry of running servers,
# and a generation that a recovery has ended comes back. The servers notice this,
# report it, and make no ID twice. A recovery mends it.
#
# takes: 160 s
# part etcd: etcd-server etcd-client libcurl4-openssl-dev
# part zookeeper: libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use IdChecker;
use Load;
use RegistryCopy;

my $layout = 'timestamp:41 node:3 sequence:12 epoch:2024-01-01';
my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");

# ---- servers ----

sub new_holder
{
	my ($name, $registry) = @_;

	return start_holder_of($registry, $name, 0, "snowflake.layout = '$layout'", "snowflake.lease_reserve = '8s'");
}

# Start clients of each server.
sub load_on
{
	my ($kind, @nodes) = @_;
	my @loads = map { start_load($checker, $kind, $_->connstr('postgres'), 3, $_->{shard}, 0.02) } @nodes;

	$_->more(500) foreach @loads;
	return @loads;
}

# Stop the clients. Their only errors are refusals.
sub finish
{
	my (@loads) = @_;

	is(join(' ', sort keys %{ $_->finish }), '55000', 'clients have met refusals only') foreach @loads;
	return;
}

sub go_through
{
	my ($kind) = @_;
	my $registry = new_registry_of($kind, "registry_$kind");
	my $save = "$registry->{dir}.saved";
	my $a = new_holder("${kind}_a", $registry);
	my (@loads, %from);

	initialize($a, $kind);
	wait_until_held($a);
	$registry->{save}->($save);
	wait_until_held($a);
	my $b = new_holder("${kind}_b", $registry);
	wait_until_held($b);
	wait_until_extended($a, $b);
	@loads = load_on($kind, $a, $b);

	# Only the worker ends: another one goes on with its lease.
	my ($pid, $node_id) = (lease_of($b, 'pid'), lease_of($b, 'node_id'));
	kill 'TERM', $pid;
	wait_for_lease($b, "pid <> $pid AND state = 'held' AND problem IS NULL");
	is(lease_of($b, 'node_id'), $node_id, "$kind: another worker goes on with the lease");
	wait_until_extended($a, $b);

	# The copy has neither b's leases nor the extensions of a's.
	$registry->{stop}->();
	$registry->{restore}->($save);
	%from = map { $_->name => -s $_->logfile } $a, $b;
	$registry->{start}->();
	foreach my $node ($a, $b)
	{
		wait_for_lease($node, q{problem ~ 'lost data'});
		like_log($node, qr/WARNING:  snowflake SF20[38]: node id from registry .*lost data.*\n(?:.*\n)*?.*HINT:.*see "A registry that goes back" in doc\/leases\.md/,
			$from{ $node->name }, $node->name . ': an older registry is noticed');
		# for a moment the registry may be too slow to say so again
		ok($node->poll_query_until('postgres', q{SELECT status IN ('warning', 'error') AND found ~ 'lost data'
			AND remedy ~ '^(Do not restart .*)?Set snowflake.registry to .* arguments: interval ' AND remedy !~ 'recover' FROM snowflake_status() WHERE check_name = 'lease'}),
			'and in snowflake_status()');
		is(query($node, q{SELECT count(*) FROM snowflake_lease() WHERE next_renewal IS NOT NULL}), 0, 'nothing is going to be extended');
	}
	foreach my $node ($a, $b)
	{
		wait_for_lease($node, 'until < clock_timestamp()');
		my $err;
		wait_until { (undef, undef, $err) = $node->psql('postgres', $next, extra_params => [ '-v', 'VERBOSITY=verbose' ]); $err =~ /lost data/ } 'another error';
		like($err, qr/ERROR:  55000: .*no lease of a node id.*lost data.*HINT:.*see "A registry that goes back" in doc\/leases\.md/s,
			'what was reserved is used up: calls are refused, and name the remedy');
	}
	finish(@loads);
	$b->stop('immediate');
	$b->start;
	wait_for_lease($b, q{problem ~ 'lost data'});
	is(lease_of($b, 'node_id'), '', 'a server that was started anew knows it, and claims nothing');
	$a->restart;
	wait_for_lease($a, q{problem ~ 'lost data'});
	is(lease_of($a, 'node_id'), '', 'after a clean stop, too');

	my $begin = ask_again { query($a, q{SELECT snowflake_registry_recover('10 s', '2 s')}) };
	wait_until_held($a, $b);
	foreach my $node ($a, $b)
	{
		my $id = query($node, $next);
		$checker->saw("$kind, node", $id);
		is(query($node, "SELECT snowflake_timestamp($id) >= '$begin'"), 't', 'recovered: all goes on after the floor');
	}
	isnt(lease_of($a, 'node_id'), lease_of($b, 'node_id'), 'with a node id each');
	@loads = load_on($kind, $a, $b);

	# The same old copy again, in place of the recovered registry.
	$registry->{stop}->();
	replace($registry->{dir}, "$save.right");
	$registry->{restore}->($save);
	$registry->{start}->();
	wait_for_lease($_, q{problem ~ 'lost data|another one'}) foreach $a, $b;
	wait_for_lease($_, 'node_id IS NULL') foreach $a, $b;
	$registry->{stop}->();
	replace("$save.right", $registry->{dir});
	$registry->{start}->();
	wait_until_held($a, $b);
	pass('a generation that has ended is refused, and what had followed it goes on by itself');

	$_->more(500) foreach @loads;
	finish(@loads);
	$_->stop foreach $a, $b;
	$registry->{stop}->();
	return;
}

go_through('postgresql');
go_through($_) foreach grep { part($_) } 'etcd', 'zookeeper';
$checker->clients;
done_testing();
