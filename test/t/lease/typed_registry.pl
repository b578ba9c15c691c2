# Remedies of leases, as a robot types them (Robot.pm): the registry is a database with a
# user and a password, snowflake.lease_reserve is an hour, and one server's number is pinned.
# Afterwards both servers make IDs again, none twice.
#
# takes: 60 s
use SnowflakeTest;
use LeaseTest;
use Robot;

my ($registry, $checker) = bare_registry('timestamp:41 node:6 sequence:12 epoch:2024-01-01');
my $hba = $registry->data_dir . '/pg_hba.conf';
my $trusted = slurp_file($hba);

# Let the registry ask the role of servers for its password.
sub write_hba
{
	my ($text) = @_;

	open(my $out, '>', $hba) or die "$hba: $!";
	print $out $text;
	close $out;
	$registry->reload;
	return;
}

query($registry, q{SET password_encryption = 'scram-sha-256'; ALTER ROLE worker PASSWORD 'secret'});
write_hba("local postgres worker scram-sha-256\n$trusted");

# A registry that is only slow has another remedy.
my @hour = ("snowflake.lease_reserve = '1h'", 'snowflake.lease_wait = 0', "snowflake.lease_presence = '30s'",
	"snowflake.lease_timeout = '10s'");
my $any = new_holder('any', @hour);
my $pinned = new_holder('pinned', @hour, "snowflake.node_id = '7'");
foreach ($any, $pinned)
{
	$_->start;
	query($_, 'CREATE EXTENSION snowflake');
}

# Put right what a test has left that failed.
my $mend = sub {
	query($registry, q{ALTER ROLE worker PASSWORD 'secret'});
	grant_registry();
	wait_until_held($any, $pinned);
};

# Return the remedy of a server's lease, or an empty text if all is well. If it is the
# remedy that this function has returned before, give the worker time to ask again.
my $before = '';

sub lease_remedy
{
	my ($node) = @_;
	my $end = time() + 8;
	my $row;

	while (1)
	{
		$row = query($node, q{SELECT status, coalesce(remedy, '') FROM snowflake_status() WHERE check_name = 'lease'});
		if ($row =~ /^ok/) { $before = ''; return '' }
		$row =~ s/^\w+\|//;
		last if $row ne $before || time() > $end;
		Time::HiRes::usleep(100_000);
	}
	$before = $row;
	return $row;
}

# Let the robot type, and make IDs on all servers.
sub situation
{
	my ($name, $node, %how) = @_;
	my @typed = follow_remedies($how{try} // sub { lease_remedy($node) }, node => $node, name => $name,
		registry => $registry, %how);

	# each asks again in its own time
	eval { wait_until_held($any, $pinned) };
	foreach my $server ($any, $pinned)
	{
		is(lease_remedy($server), '', "$name: " . $server->name . ' leases');
		my ($status, $out, $err) = $server->psql('postgres', "$next FROM generate_series(1, 100)");
		ok($status == 0, "$name: " . $server->name . ' makes IDs') or diag($err);
		$checker->saw('all servers, node', split /\n/, $out) if $status == 0;
	}
	if (grep { !$_ } Test::More->builder->summary) { $mend->() }
	return @typed;
}

wait_for_lease($any, q{problem ~ 'permission denied'});
situation('a role without rights, and a registry that was never initialized', $any,
	types => [ 'With true in place of false, this server', 'If the registry is new, have an administrator' ]);
wait_until_held($any, $pinned);
is(lease_of($pinned, 'node_id'), '7', 'a pinned number');

# ---- a file that root has restored ----

$any->stop;
chmod 0000, $any->data_dir . '/snowflake.age' or die;
$any->start;
wait_for_lease($any, q{problem ~ 'cannot be opened'});
situation('a file that root has restored', $any, types => 'lease_worker.c: In the data directory');

# ---- a registry whose sessions are read-only ----

$registry->append_conf('postgresql.conf', 'default_transaction_read_only = on');
$registry->reload;
$any->restart;
wait_for_lease($any, q{problem ~ 'read-only'});
follow_remedies(sub { lease_remedy($any) }, node => $any, registry => $registry,
	name => 'a registry whose sessions are read-only', types => 'SET TRANSACTION READ WRITE');
wait_until_held($any, $pinned);
$registry->append_conf('postgresql.conf', 'default_transaction_read_only = off');
$registry->reload;

# ---- the password ----

# What is typed for one server whose password is wrong must not stop the others, which have
# the role's. Once the right one stands where the remedy says, it leases.
configure($any, @hour, "snowflake.registry = '" . (query($pinned, 'SHOW snowflake.registry') =~ s/:secret@/:typo@/r) . "'");
$any->restart;
wait_for_lease($any, q{remedy ~ 'Put the role.s password into snowflake\.registry, and restart'});
foreach my $thing (things_in(lease_of($any, 'remedy')))
{
	ok($thing->[0] ne 'psql', "a wrong password: $thing->[1]: the role keeps it");
	$registry->psql('postgres', $thing->[1]);
}
$pinned->restart;
wait_until_held($pinned);
configure($any, @hour);
$any->restart;
wait_until_held($any);

# ---- a copy with a pinned number ----

$pinned->backup('copy');
my $twin = PostgreSQL::Test::Cluster->new('twin');
$twin->init_from_backup($pinned, 'copy');
# as if ALTER SYSTEM had set the number: a backup has that, too, and it beats the file
PostgreSQL::Test::Utils::append_to_file($twin->data_dir . '/postgresql.auto.conf', "snowflake.node_id = '7'\n");
$twin->start;
situation('a copy with a pinned number', $twin, types => 'Leave that one running. For any free number, ', given => { NUMBER => 8 },
	try => sub { my ($status, $out, $err) = $twin->psql('postgres', $next); $status == 0 ? '' : lease_remedy($twin) || hint_of($err) });
is(answer($twin, 'SELECT snowflake_node(snowflake_nextval()) <> 7'), 't', 'a copy with a pinned number: it has another one, and the original goes on');
$twin->stop;

# ---- crashes ----

# Each start after a crash leaves a slot reserved for an hour: the server takes another one.
foreach my $n (1 .. 4)
{
	$any->stop('immediate');
	$any->start;
	wait_for_lease($any, q{state = 'held' OR problem IS NOT NULL});
}
is(lease_of($any, 'problem'), '', 'a server that crashes again and again within the reserve: it leases all the same');
make_ids($any, 100);

# ---- the registry ----

my $saved = $registry->basedir . '/saved';
$registry->stop;
system_or_bail('cp', '-a', $registry->data_dir, $saved);
$registry->start;
$any->restart;
wait_until_held($any, $pinned);
make_ids($any, 10);
$registry->stop('immediate');
system_or_bail('rm', '-rf', $registry->data_dir);
system_or_bail('cp', '-a', $saved, $registry->data_dir);
$registry->start;
wait_for_lease($any, q{problem ~ 'lost|older'});
follow_remedies(sub {
		my $remedy = lease_of($any, 'remedy') // '';
		return $remedy =~ /arguments: / ? $remedy : '';
	},
	node => $any, name => 'a registry that was restored', registry => $registry,
	# what that prints, people compare
	only => qr/^(?!SHOW )/,
	types => 'see "A registry that goes back" in doc/leases.md; arguments',
	hands => [ qr/in doc\/leases\.md; arguments: .*/ => sub {
		my ($arguments) = $_[0] =~ /arguments: (.*)/;

		like($arguments, qr/^interval '3\d\d\d s'/, 'a registry that was restored: the largest reserve stands in what is printed');
		query($registry, "SELECT snowflake_registry.recover($arguments)");
		wait_for_lease($any, q{coalesce(remedy, '') !~ 'arguments: '});
	} ]);

# they go on with what they had reserved, none twice
foreach my $server ($any, $pinned)
{
	my ($status, $out, $err) = $server->psql('postgres', "$next FROM generate_series(1, 100)");

	ok($status == 0, 'a registry that was restored: once it is recovered, ' . $server->name . ' makes IDs') or diag($err);
	$checker->saw('all servers, node', split /\n/, $out) if $status == 0;
}

# ---- without the registry ----

# The last server is to have a number of its own.
$pinned->stop;
$registry->stop;
$any->append_conf('postgresql.conf', "snowflake.registry = ''\nsnowflake.node_id = ''");
$any->restart;
follow_remedies(sub { my ($status, $out, $err) = $any->psql('postgres', $next); $status == 0 ? '' : hint_of($err) || $err },
	node => $any, name => 'without the registry', only => qr/accept/,
	hands => [ qr/set a snowflake\.node_id that no other server has/ => sub { set_conf($any, "snowflake.node_id = '60'") } ],
	types => 'Only if no server leases from that registry any more');
make_ids($any, 100);

note('the longest remedy: ' . longest_remedy());
$checker->clients;
done_testing();
