# A server with snowflake_audit, whose clock begins at noon, so that no day ends in a
# test; and what its worker does.
package AuditTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use SnowflakeTest;

our @EXPORT = qw($next audited_server start_again later wait_until wait_for_log
  renew_worker wait_for_rounds worker_waits hold_batch wait_until_stuck drop_partitions);

our $next = 'SELECT snowflake_nextval()';

my ($node, $noon);

# Start a server that audits these databases, with more settings.
sub audited_server
{
	my ($databases, @settings) = @_;

	$node = new_server('main', "shared_preload_libraries = 'snowflake_audit, snowflake'",
		"snowflake_audit.databases = '$databases'", 'snowflake_audit.ring_size = 256', 'autovacuum = off', @settings);
	$noon = until_noon();
	start_with_clock($node, $noon);
	return $node;
}

# Start it again, by the same clock.
sub start_again
{
	start_by_clock($node, SnowflakeTest::clock_file($node));
	return;
}

# Set its clock to a number of seconds after noon.
sub later
{
	my ($seconds) = @_;

	set_clock($node, $noon + $seconds);
	return;
}

# Wait until this is true of a row of snowflake_audit.status(), or of that in a schema
# with another name.
sub wait_until
{
	my ($condition, $database, $schema) = @_;

	$database //= 'postgres';
	$schema //= 'snowflake_audit';
	$node->poll_query_until('postgres', "SELECT $condition FROM $schema.status() WHERE database = '$database'")
	  or die "$condition is not true: " . query($node, "SELECT $schema.status()");
	return;
}

# Wait until the log has all records, and nothing is wrong.
sub wait_for_log
{
	wait_until('waiting = 0 AND problem IS NULL', @_);
	return;
}

# End the worker, and wait for the next one.
sub renew_worker
{
	my $pid = query($node, q{SELECT pid FROM snowflake_audit.status() WHERE database = 'postgres'});

	query($node, "SELECT pg_terminate_backend($pid)");
	wait_until("pid <> $pid");
	return;
}

# Wait until the worker has looked at its ring this many times.
sub wait_for_rounds
{
	my ($rounds) = @_;
	my $seen = q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'snowflake audit' AND datname = 'postgres'};

	foreach (1 .. $rounds)
	{
		my $change = query($node, $seen);

		$node->poll_query_until('postgres', "SELECT ($seen) <> '$change'") or die 'the worker stands still';
	}
	return;
}

# Wait until the worker waits for a lock.
sub worker_waits
{
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE backend_type = 'snowflake audit' AND NOT granted}) or die 'the worker does not wait';
	return;
}

# Hold up the worker in the middle of its next batch: the log has a trigger that waits
# for this session.
sub hold_batch
{
	my $session = $node->background_psql('postgres');

	$session->query_safe(q{CREATE OR REPLACE FUNCTION public.hold() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$});
	$session->query_safe('CREATE TRIGGER hold BEFORE INSERT ON snowflake_audit.log EXECUTE FUNCTION public.hold()');
	$session->query_safe('SELECT pg_advisory_lock(1)');
	return $session;
}

sub wait_until_stuck
{
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted})
	  or die 'nobody waits';
	return;
}

# Drop all days of the log, or those that a condition chooses.
sub drop_partitions
{
	my ($which) = @_;

	query($node, sprintf(q{SELECT format('ALTER EXTENSION snowflake_audit DROP TABLE %%1$s; DROP TABLE %%1$s', partition)
		FROM snowflake_partitions('snowflake_audit.log', 'snowflake') WHERE %s \gexec}, $which // 'true'));
	return;
}

1;
