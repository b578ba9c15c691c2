# A registry in PostgreSQL whose synchronous standby does not answer, also while that
# standby is promoted; and a registry that was copied.
#
# takes: 80 s
use SnowflakeTest;
use LeaseTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);
my $a = start_holder('a');
wait_for_lease($a, q{state = 'held'});

# Return the server's right: the until of its node id.
sub has { return lease_of($a, 'until') }

# ---- a reading shows a write that was not acknowledged ----

{
	my $waiting = q{FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
	my ($has, $slot);

	alter_system($registry, q{SET synchronous_standby_names = 'nobody'});
	$registry->poll_query_until('postgres', "SELECT count(*) > 0 $waiting") or die 'nobody waits';
	$has = has();
	$slot = query($registry, 'SELECT max(version) FROM snowflake_registry.slot');

	# The second write builds on the first one, which the server has read.
	$registry->poll_query_until('postgres', qq{SELECT (SELECT count(pg_terminate_backend(pid)) $waiting) >= 0
		AND max(version) > $slot + 1 FROM snowflake_registry.slot}) or die 'nothing is shown';
	is(has(), $has, 'what a reading shows, and no write has acknowledged, is not used');
	wait_for_lease($a, q{state = 'expired'});
	is(has(), $has, 'also when that has run out');
	alter_system($registry, 'RESET synchronous_standby_names');
	wait_for_lease($a, q{state = 'held'});
	make_ids($a, 100);
}
# ---- a copied directory, and changes that make no copy ----

# Return true if this database is the registry that its record names.
sub in_place
{
	my ($node) = @_;

	return query($node, 'SELECT bool_and(in_place) FROM snowflake_servers.read()');
}

# Check that a server with this directory is refused as the registry, and that a
# recovery makes it one.
sub is_noticed
{
	my ($node, $name) = @_;

	$node->start;
	is(in_place($node), 'f', "$name is noticed");
	is(query($node, q{SELECT written FROM snowflake_servers.write(
		(SELECT generation FROM snowflake_registry.registry), 9, 0, 1, 1, 1, 1, 1, 0, false, 'host', 1, 1, 0, 1000, 9000)}),
		'', 'and written to by nobody');
	query($node, q{SELECT snowflake_registry.recover('0 s')});
	is(in_place($node), 't', 'before it is recovered');
	$node->stop;
	return;
}

$registry->restart;
is(in_place($registry), 't', 'a restart changes nothing');
$registry->stop('immediate');
$registry->start;
is(in_place($registry), 't', 'nor does a crash');

# A damaged mark is not replaced: that would make this registry look like a copy.
my $mark = $registry->data_dir . '/global/pgsql_tmp/snowflake_registry';
rename $mark, "$mark.kept" or die "$mark: $!";
append_to_file($mark, 'damaged');
refused($registry, "SELECT snowflake_registry.files($_)", 'XX001', qr/could not read file.*HINT:  Make it readable for the server\. If it is damaged, remove it/s,
	"a damaged mark, make => $_") foreach 'false', 'true';
unlink $mark or die "$mark: $!";
is(in_place($registry), 'f', 'removed, as the remedy says, it is missed');
wait_for_lease($a, q{problem LIKE '%in another directory or database, and may have lost data%'});
rename "$mark.kept", $mark or die "$mark: $!";
is(in_place($registry), 't', 'it is as it was');
wait_for_lease($a, q{problem IS NULL});

# A copy by pg_basebackup, with its WAL. Without a signal file it starts with the same
# system identifier and timeline.
$registry->backup('backup');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($registry, 'backup');
$copy->start;
is(query($copy, 'SELECT system_identifier, timeline FROM snowflake_registry.place(false)'),
	query($registry, 'SELECT system_identifier, timeline FROM snowflake_registry.place(false)'),
	'a base backup that runs looks like the original');
is(in_place($copy), 'f', 'and is not taken for it');
my $b = new_holder('b', sprintf("snowflake.registry = '%s'", sprintf(
	'postgresql://worker:secret@/postgres?host=%s&port=%d', $copy->host, $copy->port)));
$b->start;
query($b, 'CREATE EXTENSION snowflake');
wait_for_lease($b, q{problem ~ 'on another server or timeline'});
is(lease_of($b, 'state'), 'searching', 'no server leases from it');
$b->stop;
$copy->stop;
is_noticed($copy, 'a base backup');
is(in_place($registry), 't', 'the original is what it was');

# A copy of all files, also of those that base backups leave out.
$a->stop;
$registry->stop;
my $files = PostgreSQL::Test::Cluster->new('files');
$files->init;
system_or_bail('rm', '-rf', $files->data_dir);
system_or_bail('cp', '-a', $registry->data_dir, $files->data_dir);
$files->append_conf('postgresql.conf', 'port = ' . $files->port);
is_noticed($files, 'a copy of all files');

# pg_upgrade copies the tables.
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded');
my $bindir = $registry->config_data('--bindir');
# its system identifier is not that of all tests' servers
$upgraded->init(extra => [ '--no-sync' ]);
chdir $upgraded->basedir or die;
command_ok(
	[
		"$bindir/pg_upgrade", '-b', $bindir, '-B', $bindir,
		'-d', $registry->data_dir, '-D', $upgraded->data_dir, '-s', $upgraded->host,
		'-p', $registry->port, '-P', $upgraded->port
	],
	'the registry is upgraded')
  or diag(map { slurp_file($_) } glob($upgraded->data_dir . '/pg_upgrade_output.d/*/log/*_dump_*.log'));
is_noticed($upgraded, 'a registry that was upgraded');

# ---- the old primary goes on beside a promoted standby ----

$registry->start;
is(in_place($registry), 't', 'the original is what it was');
my $second = standby_of($registry, 'second', "synchronous_standby_names = ''");
$second->start;
query($registry, q{ALTER SYSTEM SET synchronous_standby_names = 'second'});
$registry->restart;
$registry->poll_query_until('postgres', q{SELECT sync_state = 'sync' FROM pg_stat_replication}) or die;

my $both = sprintf("snowflake.registry = 'postgresql://worker:secret@/postgres?host=%s,%s&port=%d,%d"
	  . "&target_session_attrs=read-write'", $registry->host, $second->host, $registry->port, $second->port);
my $c = start_holder('c', $both);
my $d = new_holder('d', $both =~ s/host=[^,]*,/host=/r =~ s/port=[^,]*,/port=/r);
wait_for_lease($c, q{state = 'held'});
make_ids($c, 100);
refused($second, "SELECT snowflake_registry.$_", '25006', qr/in a read-only transaction/, "a standby cannot: $_")
  foreach 'init()', q{recover('90 s')}, 'release(1)';
$second->promote;
query($registry, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'");
$d->start;
query($d, 'CREATE EXTENSION snowflake');
wait_for_lease($d, q{problem ~ 'on another server or timeline'});
is(query($second, q{SELECT extract(epoch FROM snowflake_registry.recover('0 s', '1 s') - now()) >= 7}), 't',
	'a recovery waits for what the registry knows to be reserved');
wait_for_lease($d, q{state = 'held'});
make_ids($d, 100);
isnt(lease_of($c, 'state'), 'held', 'the old primary, which is writable, has extended nothing');
$registry->stop('immediate');
wait_for_lease($c, q{state = 'held'});
make_ids($_, 100) foreach $c, $d;
isnt(lease_of($c, 'node_id'), lease_of($d, 'node_id'), 'when it is gone, all are with the new one');
$_->stop foreach $c, $d, $second;
$checker->clients;
done_testing();
