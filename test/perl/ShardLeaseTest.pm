# Servers that lease shards from a registry in PostgreSQL, with times as short as a
# busy machine allows.
package ShardLeaseTest;

use strict;
use warnings FATAL => 'all';

use IdChecker;
use Load;
use PostgreSQL::Test::Cluster;
use SnowflakeTest;
use Test::More;
use Time::HiRes qw(usleep);
use Exporter 'import';

our @EXPORT = qw(new_registry new_holder shards_of wait_for_all
  set_shards set_reserve next_of make_ids load_on check_load refused_shard);

my ($registry, $url, $checker);

# Create the registry's server, and the checker of all IDs.
sub new_registry
{
	$registry = PostgreSQL::Test::Cluster->new('registry');
	$registry->init;
	$registry->start;
	query($registry, 'CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.init()');
	$url = sprintf('postgresql:///postgres?host=%s&port=%d',
		$registry->host, $registry->port);
	$checker = IdChecker->new($registry->basedir . '/ids');
	return ($registry, $checker);
}

sub new_holder
{
	my ($name, $shards, @settings) = @_;

	return new_server($name, "snowflake.node_id = ''",
		"snowflake.registry = '$url'", "snowflake.shards = '$shards'",
		"snowflake.lease_reserve = '8s'", "snowflake.lease_wait = '0'",
		"snowflake.max_clock_wait = '10s'", @settings);
}

# Return a column of a server's status of its shards.
sub shards_of
{
	my ($node, $column) = @_;

	return query($node, "SELECT $column FROM snowflake_leases() WHERE kind = 'shards'");
}

# Wait until a server has these shards and no problem.
sub wait_for_all
{
	my ($node, $shards) = @_;

	wait_for_shards($node, "state = 'held' AND shards = '$shards'");
	return;
}

sub set_shards
{
	my ($node, $shards) = @_;

	query($node, "ALTER SYSTEM SET snowflake.shards = '$shards'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '$shards'
		FROM pg_settings WHERE name = 'snowflake.shards'") or die 'no reload';
	return;
}

sub set_reserve
{
	my ($node, $reserve) = @_;

	query($node, "ALTER SYSTEM SET snowflake.lease_reserve = '$reserve'");
	$node->reload;
	return;
}

# Return the statement that makes an ID.
sub next_of
{
	my ($shard) = @_;

	return "SELECT snowflake_shard_nextval($shard)";
}

# Make IDs. On a busy machine an extension may come late, and the call is refused
# until then.
sub make_ids
{
	my ($node, $shard, $n) = @_;
	my $tries = 0;
	my ($status, $out, $err);

	while (1)
	{
		($status, $out, $err) = $node->psql('postgres',
			next_of($shard) . " FROM generate_series(1, $n)",
			extra_params => [ '-v', 'VERBOSITY=verbose' ]);
		last if $status == 0;
		die $err if $err !~ /ERROR:  55000: / || ++$tries > 1800;
		usleep(100_000);
	}
	my @ids = split /\n/, $out;
	$checker->saw('all servers, shards', @ids);
	return @ids;
}

# Start clients that use the node's counter, this shard and the next one, always the
# same ones, so that another server uses the shards after this one. They pause for
# $pace seconds after each statement. The default leaves the machine time for other
# things.
sub load_on
{
	my ($node, $shard, $pace) = @_;

	return start_load($checker, 'all servers', $node->connstr('postgres'), 4,
		$shard, $pace // 0.02, qw(commit shard batch shard_batch));
}

# Stop the clients. Check that all their errors were refusals, and that there were some
# if the shards were taken away.
sub check_load
{
	my ($load, $taken_away, $name) = @_;

	like(join(' ', sort keys %{ $load->finish }),
		$taken_away ? qr/^55000$/ : qr/^(?:55000)?$/, $name);
	return;
}

sub refused_shard
{
	my ($node, $shard, $pattern, $name) = @_;

	refused($node, next_of($shard), '55000',
		qr/this server has no lease of shard $shard\n.*DETAIL:  The registry is "postgresql:\/\/\/postgres"\. .*$pattern/s,
		$name);
	return;
}

1;
