# A registry in PostgreSQL, and servers that lease their node ids from it, with times
# as short as a busy machine allows.
package LeaseTest;

use strict;
use warnings FATAL => 'all';

use IdChecker;
use IPC::Run;
use Load;
use PostgreSQL::Test::Cluster;
use SnowflakeTest;
use Exporter 'import';

our @EXPORT = qw($none new_registry bare_registry grant_registry new_holder
  start_holder configure set_lease make_ids load_on refusals_of call_as
  freeze_worker);

our $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "postgresql:/s;

my ($registry, $url, $layout, $checker);
my $shards = 0;

# Create the registry: a database with the extension, on a server that preloads
# nothing, with a role "worker" that may not read it yet. It is for servers with this
# layout. Return the server, and the checker of all IDs.
sub bare_registry
{
	($layout) = @_;
	$registry = PostgreSQL::Test::Cluster->new('registry');
	$registry->init(allows_streaming => 1);
	$registry->append_conf('postgresql.conf', 'max_connections = 50');
	$registry->start;
	query($registry, 'CREATE EXTENSION snowflake_registry; CREATE ROLE worker LOGIN');
	$url = sprintf('postgresql://worker:secret@/postgres?host=%s&port=%d',
		$registry->host, $registry->port);
	$checker = IdChecker->new($registry->basedir . '/ids');
	return ($registry, $checker);
}

# Grant the role what doc/leases.md says.
sub grant_registry
{
	query($registry, q{
		SELECT snowflake_registry.grant('worker')});
	return;
}

# Do the same, with those rights, and initialize it.
sub new_registry
{
	my @created = bare_registry(@_);

	grant_registry();
	query($registry, "SELECT snowflake_registry.init('$layout')");
	return @created;
}

# Create a server that leases its node id, with short times, and two shards of its
# own.
sub new_holder
{
	my ($name, @settings) = @_;
	my $node = new_server($name);

	configure($node, @settings);
	$node->{shard} = 2 * ++$shards;
	$node->append_conf('postgresql.conf',
		sprintf("snowflake.shards = '%d-%d'\n", $node->{shard}, $node->{shard} + 1));
	return $node;
}

# Do the same, and start it, with the extension and the tables of clients.
sub start_holder
{
	my $node = new_holder(@_);

	$node->start;
	query($node, 'CREATE EXTENSION snowflake;' . load_tables());
	return $node;
}

sub configure
{
	my ($node, @settings) = @_;

	$node->append_conf('postgresql.conf', join("\n",
		"snowflake.node_id = ''", "snowflake.registry = '$url'",
		"snowflake.layout = '$layout'", "snowflake.lease_reserve = '6s'",
		"snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '1s'",
		"snowflake.lease_wait = '60s'", "snowflake.max_clock_wait = '10s'",
		@settings, ''));
	return;
}

# Change a setting of leases, given in ms, and wait until sessions have it.
sub set_lease
{
	my ($node, $setting, $ms) = @_;

	query($node, "ALTER SYSTEM SET snowflake.lease_$setting = $ms");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$ms'
		FROM pg_settings WHERE name = 'snowflake.lease_$setting'") or die 'no reload';
	return;
}

# Make IDs of the node's counter. All servers share one group of the checker, so no ID
# may come twice.
sub make_ids
{
	my ($node, $n) = @_;
	my @ids = split /\n/, query($node,
		"SELECT snowflake_nextval() FROM generate_series(1, $n)");

	$checker->saw('all servers, node', @ids);
	return @ids;
}

# Start clients of a server, which use its own shards. They pause for $pace seconds
# after each statement. The default leaves the machine time for other things.
sub load_on
{
	my ($node, $pace) = @_;

	return start_load($checker, 'all servers', $node->connstr('postgres'), 4,
		$node->{shard}, $pace // 0.02);
}

# Stop the clients, and return the SQLSTATEs of their errors: 55000 is a refusal.
sub refusals_of
{
	my ($load) = @_;

	return join ' ', sort keys %{ $load->finish };
}

# Start a call under a name of its own, and do not wait for it.
sub call_as
{
	my ($node, $name, $out, $err) = @_;

	return IPC::Run::start([ 'psql', '-XAtq', '-d',
		$node->connstr('postgres') . " application_name=$name", '-c', $next ],
		'>', $out, '2>', $err);
}

# Stop the worker's process, so that it does not react.
sub freeze_worker
{
	my ($node) = @_;
	my $pid = lease_of($node, 'pid');

	kill('STOP', $pid) == 1 or die "cannot stop $pid";
	return $pid;
}

1;
