# Remedies of leases that make a registry, release a slot, or move servers to another registry,
# as a robot types them (Robot.pm). Each server makes IDs before and afterwards; over both
# registries none is there twice.
#
# takes: 60 s
# part etcd: etcd-server etcd-client libcurl4-openssl-dev
use SnowflakeTest;
use IdChecker;
use Load;
use RegistryCopy;
use Robot;
use Time::HiRes;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");
my $database = 'The Leases';

# Start a server for registries, and return the setting that names one there.
sub new_registry
{
	my ($name) = @_;
	my $registry = PostgreSQL::Test::Cluster->new($name);

	$registry->init(allows_streaming => 1);
	$registry->start;
	query($registry, 'CREATE ROLE worker LOGIN');
	return $registry;
}

sub set_registry
{
	my ($registry, $of) = @_;

	return sprintf(q{snowflake.registry = 'postgresql://worker@/%s?host=%s&port=%d'},
		($of // $database) =~ s/ /%20/r, $registry->host, $registry->port);
}

sub new_holder
{
	my ($name, $registry, @settings) = @_;
	my $node = new_server($name, "snowflake.node_id = ''", set_registry($registry), "snowflake.layout = '$layout'",
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '2s'",
		'snowflake.lease_wait = 0', "snowflake.max_clock_wait = '10s'", @settings);

	$node->start;
	query($node, 'CREATE EXTENSION snowflake');
	return $node;
}

sub make_ids
{
	foreach my $node (@_)
	{
		$checker->saw('all servers, node', split /\n/, query($node, 'SELECT snowflake_nextval() FROM generate_series(1, 100)'));
	}
	return;
}

# Let the robot type until the servers lease, and make IDs. Once something is typed, give
# the worker time to see it.
sub situation
{
	my ($name, $nodes, $registry, %how) = @_;
	my ($node) = @$nodes;
	my $problem = q{coalesce(problem || E'\n' || coalesce(remedy, ''), '')};
	my $told = '';

	# a registry that is only slow has another remedy
	wait_for_lease($node, q{problem !~ 'did not answer'});
	my @typed = follow_remedies(sub {
		my $end = time() + 15;
		my $before = $told;

		while (1)
		{
			$told = lease_of($node, $problem);
			last if $told eq '' || $told ne $before && $told !~ /did not answer/ || time() > $end;
			Time::HiRes::usleep(100_000);
		}
		return $told eq '' ? '' : (split /\n/, $told, 2)[1];
	}, name => $name, node => $node, registry => $registry, registry_database => $database, as => 'super',
		# what that prints, people compare
		only => qr/^(?!SHOW )/, %how,
		hands => [ qr/This server will claim one then|It leases a node id again at/ => sub { wait_until_held(@$nodes) }, @{ $how{hands} // [] } ],
		# no server here reserves so much, and so the test does not wait so long
		given => { '90 s' => '6 s', %{ $how{given} // {} } });
	wait_until_held(@$nodes);
	make_ids(@$nodes);
	return @typed;
}

# No remedy of a registry that has lost data, is empty, or another one has a call that can be
# typed. Return the hand of a person who has read doc/leases.md, and knows that no server leases
# elsewhere. The call is made in the registry, or on a server.
sub by_the_page
{
	my ($node, $database, $function) = @_;

	return (qr/see "[^"]+" in doc\/leases\.md; arguments: .*/ => sub {
		my $arguments = $_[0] =~ s/.*arguments: //r =~ s/'90 s'/'6 s'/r;
		my ($status, $out, $err) = $node->psql($database, 'SELECT ' . ($function // 'snowflake_registry.recover') . "($arguments)");

		$node->safe_psql($database, hint_of($err) =~ s/.*(BEGIN;)/$1/r =~ s/'LAYOUT'/'$layout'/r) if $status;
	});
}

# Set one server to an old copy of the registry, while the others lease from the original, where
# another server has its number now. What is typed does not let it lease there. Once the setting
# is right, it makes IDs.
sub set_to_old_copy
{
	my ($name, $node, $copy, $successor, $others, %how) = @_;
	my $right = query($node, 'SHOW snowflake.registry');
	my $load = sub { map { start_trickle($checker, 'all servers', $_->connstr('postgres')) } @_ };

	$node->stop;
	$successor->start;
	wait_until_held($successor);
	$node->append_conf('postgresql.conf', "snowflake.registry = '$copy'");
	$node->start;
	my @loads = $load->($node, $successor, @$others);
	situation($name, [ $node, @$others ], $how{registry}, %how, types => 'see "A registry that goes back" in doc/leases.md; arguments',
		hands => [ qr/Set snowflake\.registry to what/ => sub {
			$_->finish foreach splice @loads;
			$successor->stop;
			$node->append_conf('postgresql.conf', "snowflake.registry = '$right'");
			$node->restart;
			$how{then}->() if $how{then};
			wait_until_held($node);
		} ]);
	@loads = $load->($node, @$others) if !@loads;
	$_->more(300) foreach @loads;
	$_->finish foreach @loads;
	$successor->stop;
	return;
}

# ---- a new registry ----

my $registry = new_registry('registry');
my $a = new_holder('a', $registry);
situation('a database that is not there', [$a], $registry, types => [
	'Set snowflake.registry to what the other', 'If the registry is new, have an administrator' ]);
my $b = new_holder('b', $registry);
wait_until_held($b);
make_ids($b);
query($registry, 'ALTER ROLE worker NOLOGIN');
$b->restart;
situation('a role that may not log in', [ $b, $a ], $registry, types => q{Put the role's password into});

# ---- settings that are not those of the others ----

my $c = new_holder('c', $registry, "snowflake.layout = 'timestamp:41 node:3 sequence:12 epoch:2024-01-01'");
situation('another layout than that of the registry', [$c], $registry, types => 'If the other servers have that layout, set');

# ---- no slot is free ----

# One server has gone, and the registry takes it for present for long.
my $gone = new_holder('gone', $registry, "snowflake.lease_presence = '10min'");
wait_until_held($gone);
make_ids($gone);
my $slot = lease_of($gone, 'node_id');
$gone->stop('immediate');
my $d = new_holder('d', $registry);
situation('no free slot', [$d], $registry, types => 'Stop a server that is not needed', only => qr/release/,
	given => { SLOT => $slot }, hands => [ qr/Its slot is free at the time in the column "until"/ => sub {
		wait_until_held($d);
	} ]);
is(lease_of($d, 'node_id'), $slot, 'no free slot: it has the slot of the server that has gone');
my $runs = 0;
follow_remedies(sub { $runs++ ? '' : hint_of(($a->psql('postgres', 'SELECT snowflake_registry_release(NULL)'))[2]) },
	name => 'no slot to release', node => $a, types => 'registryfuncs.c: See the slots: SELECT');

# ---- the data is gone ----

query($registry, 'DROP EXTENSION snowflake_registry CASCADE; DROP SCHEMA IF EXISTS snowflake_servers CASCADE', database => $database);
situation('an extension that is gone, with its data', [ $a, $b, $c, $d ], $registry,
	types => [ 'If other servers lease, compare their', 'see "Another registry" in doc/leases.md; arguments' ],
	hands => [ by_the_page($registry, $database) ]);

# ---- a server that was forgotten in a move ----

# The others have moved, and the former registry was dropped. What d prints does not let it lease
# there, by whatever is typed: these numbers are those of the others.
my $moved = new_registry('moved');
my ($old) = query($registry, q{SELECT to_hex(generation) FROM snowflake_registry.registry}, database => $database);

$_->stop foreach $a, $b, $c;
query($moved, qq{CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.grant('worker');
	SELECT snowflake_registry.init('$layout'); SELECT snowflake_registry.recover('6 s', '1 s', lpad('$old', 16, '0'))});
query($registry, 'DROP EXTENSION snowflake_registry CASCADE', database => $database);
foreach ($a, $b, $c)
{
	$_->append_conf('postgresql.conf', set_registry($moved, 'postgres'));
	$_->start;
}
wait_until_held($a, $b, $c);
situation('a server that was forgotten', [ $d, $a, $b, $c ], $registry, types => 'see "Another registry" in doc/leases.md; arguments',
	hands => [ qr/Set snowflake\.registry to what/ => sub {
		$d->append_conf('postgresql.conf', set_registry($moved, 'postgres'));
		$d->restart;
		wait_until_held($d);
	} ]);
is(query($registry, 'SELECT count(*) FROM snowflake_registry.slots()', database => $database), 0,
	'a server that was forgotten: nothing that it prints has let it lease where the others do not');

# ---- statements in the registry ----

# Run a statement there, and type what its HINT says.
sub statement
{
	my ($name, $node, $sql, %how) = @_;

	follow_remedies(sub { my ($status, $out, $err) = $node->psql('postgres', $sql); $status == 0 ? '' : hint_of($err) || $err },
		name => $name, node => $node, as => 'super', %how);
	return;
}

my $other = new_registry('other');
query($other, 'CREATE SCHEMA snowflake_registry; CREATE TABLE snowflake_registry.t ()');
statement('a schema with the name of the registry', $other, 'CREATE EXTENSION IF NOT EXISTS snowflake_registry',
	types => 'Run: ALTER SCHEMA snowflake_registry RENAME TO');
statement('a recovery without data', $other, q{SELECT snowflake_registry.recover(interval '6 s', interval '0')},
	types => 'With the snowflake.layout of the servers, run: BEGIN;', given => { LAYOUT => $layout });

# ---- another registry ----

# A server leases there, from the lowest slot, as the others do here.
query($other, q{SELECT snowflake_registry.grant('worker', false)});
my $first = new_holder('first', $other);
$first->append_conf('postgresql.conf', set_registry($other, 'postgres'));
$first->restart;
wait_until_held($first);
make_ids($first);
make_ids($a, $b);
$_->stop foreach $c, $d, $a;
$b->append_conf('postgresql.conf', set_registry($other, 'postgres'));
$b->restart;
situation('another registry', [ $b, $first ], $other, types => 'see "Another registry" in doc/leases.md; arguments', registry_database => 'postgres',
	hands => [ by_the_page($other, 'postgres') ]);
foreach ($a, $c, $d)
{
	$_->append_conf('postgresql.conf', set_registry($other, 'postgres'));
	$_->start;
}
$first->stop;
wait_until_held($a, $c, $d);
make_ids($a, $b, $c, $d);

# ---- one server is set to an old copy of the registry ----

my $old_copy = PostgreSQL::Test::Cluster->new('old_copy');
$other->backup('old_copy');
$old_copy->init_from_backup($other, 'old_copy');
$old_copy->start;
set_to_old_copy('one server is set to an old copy', $d, query($d, 'SHOW snowflake.registry') =~ s/port=\d+/'port=' . $old_copy->port/er,
	$first, [ $a, $b, $c ], registry => $old_copy, registry_database => 'postgres');
is(query($old_copy, 'SELECT generation FROM snowflake_registry.registry'), query($other, 'SELECT generation FROM snowflake_registry.registry'),
	'one server is set to an old copy: nothing that it prints has recovered the copy');
$old_copy->stop;

# ---- a copy of the registry's database ----

query($other, q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = 'worker'}, database => 'template1');
$_->stop foreach $a, $b, $c, $d;
query($other, 'CREATE DATABASE copy TEMPLATE postgres', database => 'template1');
$a->start;
wait_until_held($a);
make_ids($a);
$a->stop;
foreach ($a, $b, $c, $d)
{
	$_->append_conf('postgresql.conf', set_registry($other, 'copy'));
	$_->start;
}
situation('a copy of the registry', [ $a, $b, $c, $d ], $other, types => 'see "A registry that goes back" in doc/leases.md; arguments',
	hands => [ by_the_page($other, 'copy') ]);

# ---- a registry that is a standby ----

my $standby = standby_of($other, 'standby');
$standby->start;
$other->wait_for_catchup($standby);
make_ids($a);
$other->wait_for_catchup($standby);
$other->stop;
$a->append_conf('postgresql.conf', set_registry($standby, 'copy'));
$a->restart;
situation('a registry that is a standby', [$a], $standby, registry_database => 'copy',
	types => [ 'Name the primary in snowflake.registry, or all hosts', 'see "A registry that goes back" in doc/leases.md; arguments' ],
	hands => [ by_the_page($standby, 'copy') ]);

# ---- the configuration loses the registry, or has a number ----

# The robot types this while the server leases.
sub checked
{
	my ($name, $change, %how) = @_;

	$change->();
	$a->reload;
	$a->poll_query_until('postgres', q{SELECT status <> 'ok' FROM snowflake_status() WHERE check_name = 'node id'}) or die $name;
	follow_remedies(sub {
		$a->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'node id'}) if $how{typed}++;
		return remedy_of($a, 'node id');
	}, name => $name, node => $a, as => 'super', %how);
	wait_until_held($a);
	make_ids($a);
	return;
}

my $kept = lease_of($a, 'node_id');
checked('a registry that is gone from the files', sub { $a->adjust_conf('postgresql.conf', 'snowflake.registry', undef) },
	types => 'Put snowflake.registry back into %s, and',
	hands => [ qr/Put snowflake\.registry back into/ => sub { $a->append_conf('postgresql.conf', set_registry($standby, 'copy')) } ]);
checked('another registry by ALTER SYSTEM', sub { query($a, q{ALTER SYSTEM SET snowflake.registry = 'postgresql://elsewhere/x'}) },
	types => 'ALTER SYSTEM RESET snowflake.registry;');
checked('a number for a server that leases', sub { $a->append_conf('postgresql.conf', "snowflake.node_id = '" . ($kept + 1) % 4 . "'") },
	types => 'To take the number %s, leave it in the files, and restart the server.');
is(lease_of($a, 'node_id'), $kept, 'a number for a server that leases: the old one is kept');
$a->stop;

# ---- a copy of a registry in etcd ----

if (part('etcd'))
{
	my $kv = new_registry_of('etcd', 'etcd');
	my $etcd = $kv->{server};
	my ($e, $f, $g) = map { new_holder($_, $registry, "snowflake.registry = '$kv->{url}'",
		"snowflake.layout = 'timestamp:41 node:1 sequence:12 epoch:2024-01-01'") } 'e', 'f', 'g';

	$g->stop;
	situation('a new registry in etcd', [ $e, $f ], undef);
	make_ids($e, $f);

	# one server is set to an old copy of all files, which is the same cluster for it
	my $copy = Etcd->new('old_copy');
	$kv->{stop}->();
	replace($kv->{dir}, $copy->{dir});
	$kv->{start}->();
	$copy->start;
	wait_until_extended($e, $f);
	set_to_old_copy('one server is set to an old copy of etcd', $e, $kv->{url} =~ s/127[^\/]+/$copy->host/er, $g, [$f],
		# that the registry was older is forgotten at its recovery only
		then => sub {
			wait_for_lease($e, q{problem ~ 'lost data'});
			query($e, recovery_of($e, 6));
		});
	$copy->stop;

	foreach ('registry', map { "slots/$_" } 0 .. 3)
	{
		my $key = $etcd->get("reg/$_");
		$etcd->put("copy/$_", $key->{value}) if $key;
	}
	make_ids($e, $f);
	foreach ($e, $f)
	{
		$_->append_conf('postgresql.conf', "snowflake.registry = '" . $kv->{url} =~ s/reg$/copy/r . "'");
		$_->restart;
	}
	situation('a copy of a registry in etcd', [ $e, $f ], undef, types => 'see "A registry that goes back" in doc/leases.md; arguments',
		hands => [ by_the_page($e, 'postgres', 'snowflake_registry_recover') ]);
	$f->stop;

	# a user with another password, and without a role
	my $credentials = "$PostgreSQL::Test::Utils::tmp_check/credentials";
	my $write = sub {
		open(my $out, '>', $credentials) or die "$credentials: $!";
		chmod 0600, $credentials;
		print $out "worker\n$_[0]\n";
		close $out;
	};

	$etcd->call('auth/role/add', { name => 'root' });
	$etcd->call('auth/user/add', { name => $_, password => 'secret' }) foreach 'root', 'worker';
	$etcd->call('auth/user/grant', { user => 'root', role => 'root' });
	$etcd->call('auth/enable', {});
	my $token = $etcd->call('auth/authenticate', { name => 'root', password => 'secret' })->{token};
	$etcd->call('auth/user/changepw', { name => 'worker', password => 'lost' }, $token);
	$write->('typo');
	$e->append_conf('postgresql.conf', "snowflake.registry = '" . $kv->{url} =~ s/reg$/copy/r . "?credentials=$credentials'");
	$e->restart;
	situation('a user of etcd with another password, and without a role', [$e], undef, given => { PASSWORD => 'secret' },
		types => [ 'This sets the password: ', 'etcdctl user grant-role' ],
		hands => [ qr/Put user and password into the two lines/ => sub { $write->('secret') } ]);
	$e->stop;
	$kv->{stop}->();
}

$checker->clients;
done_testing();
