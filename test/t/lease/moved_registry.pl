# Servers that have leased from one registry find another one, which is initialized: a
# second registry, or a copy of theirs. They are restarted one by one, and lease nothing
# there until an administrator has made the call of doc/leases.md with the arguments that they
# print; the others go on. Then all lease from the other one, and do not go back.
#
# takes: 200 s
# part etcd: etcd-server etcd-client libcurl4-openssl-dev
# part zookeeper: libzookeeper-java default-jre-headless libzookeeper-st-dev
use SnowflakeTest;
use IdChecker;
use Load;
use RegistryCopy;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");
my $another = 'The registry is another one than that from which this server has leased';

sub new_holder
{
	my ($name, $registry) = @_;

	return start_holder_of($registry, $name, 0, "snowflake.layout = '$layout'");
}

# Two registries that were made on their own.
sub second
{
	my ($kind, $name) = @_;
	my $other = new_registry_of($kind, "other_$name");
	my $first = new_holder("${name}_first", $other);

	initialize($first, "$name, the other registry");
	$first->stop;
	return ($other, $first);
}

# Another database, or another prefix.
sub at
{
	my ($registry, $from, $to) = @_;

	return { %$registry, url => $registry->{url} =~ s/\Q$from\E/$to/r };
}

# What makes the other registry, and the problem that servers report there.
my @rows = (
	[ 'postgresql', 'second', \&second, $another ],
	[
		'postgresql', 'template',
		sub {
			my ($kind, $name, $registry) = @_;
			my $server = $registry->{server};

			query($server, 'ALTER DATABASE postgres ALLOW_CONNECTIONS false', database => 'template1');
			query($server, q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = 'postgres'},
				database => 'template1');
			query($server, 'CREATE DATABASE copy TEMPLATE postgres', database => 'template1');
			query($server, "ALTER DATABASE $_ ALLOW_CONNECTIONS true", database => 'template1') foreach 'postgres', 'copy';
			return at($registry, '/postgres', '/copy');
		},
		'in another directory or database'
	],
	[ 'etcd', 'second', \&second, $another ],
	[
		'etcd', 'prefix',
		sub {
			my ($kind, $name, $registry) = @_;
			my $etcd = $registry->{server};

			foreach ('registry', map { "slots/$_" } 0 .. 3)
			{
				my $key = $etcd->get("reg/$_");
				$etcd->put("copy/$_", $key->{value}) if $key;
			}
			return at($registry, '/reg', '/copy');
		},
		'or not the prefix'
	],
	[ 'zookeeper', 'second', \&second, $another ]);

foreach my $row (grep { $_->[0] eq 'postgresql' || part($_->[0]) } @rows)
{
	my ($kind, $way, $make_other, $problem) = @$row;
	my $name = "${kind}_$way";
	my $registry = new_registry_of($kind, "registry_$name");
	my $a = new_holder("${name}_a", $registry);
	my (%load, $b, $other, $first);

	# Start clients of these servers.
	my $load = sub {
		$load{ $_->name } = start_load($checker, $name, $_->connstr('postgres'), 2, $_->{shard}, 0.02) foreach @_;
		$load{ $_->name }->more(300) foreach @_;
	};

	# Restart a server, which leases from this registry.
	my $move = sub {
		my ($node, $to) = @_;

		$load{ $node->name }->finish;
		set_conf($node, "snowflake.registry = '$to->{url}'");
		$node->restart;
	};

	initialize($a, $name);
	$b = new_holder("${name}_b", $registry);
	wait_until_held($a, $b);
	($other, $first) = $make_other->($kind, $name, $registry);
	$load->($a, $b);

	# One by one: the first one gets nothing, and the other one goes on.
	$move->($b, $other);
	wait_for_lease($b, "problem ~ '$problem' OR state = 'held'");
	is(lease_of($b, 'node_id'), '', 'a server that has leased elsewhere gets no node id');
	refused($b, $next, '55000', qr/no lease of a node id.*\Q$problem\E.*HINT:.*no server leases from.*interval '90 s'/s,
		'the error says what it needs');
	like(lease_of($b, 'remedy'), qr/^Set snowflake\.registry to (?!.*recover\()/, '... no call, which could be pasted');
	wait_until_extended($a);
	is(query($a, 'SELECT count(*) FROM snowflake_nextval_batch(100)'), 100, 'a server that leases from the former one goes on');
	$load{ $a->name }->more(300);
	$move->($a, $other);
	wait_for_lease($a, "problem ~ '$problem' OR state = 'held'");
	is(lease_of($a, 'node_id'), '', 'the last one gets no node id either');

	# The call.
	my $call = recovery_of($b, 6);
	my $floor = ask_again { query($b, $call) };
	like($floor, qr/^\d/, 'the call is made');
	wait_until_held($a, $b);
	$load->($a, $b);
	isnt(lease_of($a, 'node_id'), lease_of($b, 'node_id'), 'then each has a node id');
	is(query($_, "SELECT snowflake_timestamp(snowflake_nextval()) >= '$floor'"), 't', 'and its IDs begin at the floor') foreach $a, $b;
	if ($first)
	{
		$first->start;
		wait_until_held($first);
		$first->stop;
	}

	# The way back needs a call, too.
	$move->($b, $registry);
	wait_for_lease($b, "problem ~ '$another' OR state = 'held'");
	is(lease_of($b, 'node_id'), '', 'nor does it go back');
	set_conf($b, "snowflake.registry = '$other->{url}'");
	$b->restart;
	wait_until_held($b);
	$load->($b);
	$load{$_}->finish foreach keys %load;
	$_->stop foreach $a, $b;
	$registry->{stop}->();
	$other->{stop}->() if $other->{server} != $registry->{server};
}
$checker->clients;
done_testing();
