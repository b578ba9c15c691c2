# Sessions that reach a fault point: they are frozen there, killed, or get an error.
# The library must be built with fault points (test/needs.sh).
package FaultPoints;

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);
use Exporter 'import';
use SnowflakeTest;

our @EXPORT = qw(start_one wait_for_stopped stopped is_frozen go_on freeze_writers);

# Start one statement on a server, in a session with a fault.
sub start_one
{
	my ($node, $fault, $out, $err, $statement, $database) = @_;

	return IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr($database // 'postgres'), '-c',
			"SET snowflake.fault = '$fault'", '-c', $statement
		],
		'>', $out, '2>', $err);
}

# Return true if a process is frozen.
sub is_frozen
{
	my ($pid) = @_;

	return (eval { slurp_file("/proc/$pid/stat") } // '') =~ /\) T /;
}

# Freeze the server's own processes that flush WAL now and then; return their IDs. They
# are frozen while they wait for work, so that they hold no lock.
sub freeze_writers
{
	my ($node) = @_;
	my $writers = q{backend_type IN ('walwriter', 'background writer', 'checkpointer')};

	foreach (1 .. 1000)
	{
		my @pids = split /\n/, query($node, "SELECT pid FROM pg_stat_activity WHERE $writers");

		kill 'STOP', @pids;
		usleep(10_000);
		return @pids
		  if @pids == grep({ is_frozen($_) } @pids)
		  && query($node, qq{SELECT bool_and(wait_event_type = 'Activity') AND count(*) = 3
			FROM pg_stat_activity WHERE $writers}) eq 't';
		kill 'CONT', @pids;
	}
	die 'they have work all the time';
}

# Return the process ID of the frozen process that runs a statement with this text.
sub stopped
{
	my ($node, $text) = @_;

	foreach my $pid (split /\n/, query($node, qq{
		SELECT pid FROM pg_stat_activity WHERE query LIKE '%$text%'
			AND pid <> pg_backend_pid()}))
	{
		return $pid if is_frozen($pid);
	}
	return;
}

# Wait for such a process. If a session is given, do not wait any longer than it lives: it
# may end, by an error or with its last statement, before it reaches the fault.
sub wait_for_stopped
{
	my ($node, $text, $session) = @_;

	foreach (1 .. 1000)
	{
		my $pid = stopped($node, $text);
		return $pid if $pid;
		$session->pump_nb if $session;
		last if $session && !$session->pumpable;
		usleep(50_000);
	}
	die 'nobody stops';
}

# Let a frozen session go on to its end. It may reach the fault more than once.
sub go_on
{
	my ($victim, $pid) = @_;
	my $tries = 0;

	while (-e "/proc/$pid")
	{
		kill 'CONT', $pid;
		die 'it does not end' if ++$tries > 18000;
		usleep(10_000);
	}
	eval { $victim->finish };
	return;
}

1;
