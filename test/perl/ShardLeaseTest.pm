# Servers that lease shards from a registry in PostgreSQL, with times as short as
# a busy machine bears.
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

our @EXPORT = qw(new_registry new_holder shards_of wait_for_shards wait_for_all
  set_shards set_reserve next_of make_ids load_on check_load refused_shard);

my ($registry, $url, $checker);

# The server that is the registry, and the checker of all IDs.
sub new_registry
{
	$registry = PostgreSQL::Test::Cluster->new('registry');
	$registry->init;
	$registry->start;
	query($registry, 'CREATE EXTENSION snowflake; SELECT snowflake_registry_init()');
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

# A column of what a server says of its shards.
sub shards_of
{
	my ($node, $column) = @_;

	return query($node, "SELECT $column FROM snowflake_shard_lease()");
}

sub wait_for_shards
{
	my ($node, $condition) = @_;

	$node->poll_query_until('postgres', "SELECT $condition FROM snowflake_shard_lease()")
	  or die 'snowflake_shard_lease() is ' . query($node, 'SELECT snowflake_shard_lease()');
	return;
}

# It has these, and is content.
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

# The statement that makes one.
sub next_of
{
	my ($shard) = @_;

	return "SELECT snowflake_shard_nextval($shard)";
}

# On a machine that is busy an extension may come late, and the call be refused
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

# Clients that use the node's counter, this shard and the next one, each time the
# same, so that what one server had is what the other one uses. They pause for
# so many seconds, by default for as long as is good for a test that waits for
# leases, and has other things to do with the machine.
sub load_on
{
	my ($node, $shard, $pace) = @_;

	return start_load($checker, 'all servers', $node->connstr('postgres'), 4,
		$shard, $pace // 0.02, qw(commit shard batch shard_batch));
}

# Nothing but refusals; and some, if the shards were taken away.
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
