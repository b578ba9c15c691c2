# Servers that lease the node id 3 in turn, for tests of a registry's history.
package HistoryTest;

use strict;
use warnings FATAL => 'all';

use SnowflakeTest;
use Exporter 'import';

our @EXPORT = qw(hold hold_shards time_before tenures);

# Start a server, and wait until it holds the node id.
sub hold
{
	my ($node) = @_;

	$node->start;
	query($node, 'CREATE EXTENSION IF NOT EXISTS snowflake');
	query($node, 'SELECT snowflake_registry_init()');
	wait_for_lease($node, q{state = 'held'});
	return;
}

# Start a server with these shards, and wait until it holds them.
sub hold_shards
{
	my ($node, $shards) = @_;

	$node->append_conf('postgresql.conf', "snowflake.shards = '$shards'");
	hold($node);
	wait_for_shards($node, "shards = '$shards' AND state = 'held'");
	return;
}

# Return a time so many days ago, as the history writes it.
sub time_before
{
	my ($node, $days) = @_;

	return query($node, qq{SELECT to_char((clock_timestamp() - interval '$days days') AT TIME ZONE 'UTC',
		'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')});
}

# Return what a server says of who held this slot, or shards, by time. If a time is
# given: who did so then.
sub tenures
{
	my ($node, $slot, $at) = @_;
	my $arguments = join ', ', $slot // 'NULL', defined $at ? "'$at'" : ();

	return query($node, qq{SELECT string_agg(concat_ws(' ', shards, host, coalesce(ended, '-')), ', ' ORDER BY since)
		FROM snowflake_registry_history($arguments) WHERE } . (defined $slot ? "slot = $slot" : q{shards <> '0-4'}));
}

1;
