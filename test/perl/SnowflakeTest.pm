# Functions that TAP tests share: servers that preload the library, clocks that can be
# moved, and checks of IDs and errors. "use SnowflakeTest" also gives a test what all of
# them need: strict, fatal warnings, Test::More, and the modules of PostgreSQL::Test.
package SnowflakeTest;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Cwd qw(abs_path);
use File::Basename;
use Scalar::Util qw(looks_like_number);
use SqlClient;
use Test::More;
use Time::HiRes qw(time usleep);
use Time::Local qw(timegm);
use Exporter;

our @EXPORT = qw($root $next $marker $record $accept new_server start_server standby_of server_from started set_conf alter_system begin_session part start_with_clock start_by_clock set_clock until_noon new_clock write_clock read_clock query answer refused
  like_log check_ids fails_to_start epoch_ms crash kill_one lose_power wait_for_restart
  lease_of recovery_of wait_for_lease wait_until wait_until_held wait_until_extended leader_of preload waits_for refused_behind clock_ms
  wait_for_clock hostile_server caught catalog_scans);

# The sources that are tested.
our $root = abs_path(dirname(__FILE__) . '/../..');
our $next = 'SELECT snowflake_nextval()';

# What identifies a server: the marker, the list of servers, and the acceptance of a copy.
our $marker = 'global/pgsql_tmp/snowflake_server';
our $record = 'snowflake.servers';
our $accept = q{SELECT snowflake_accept('copy')};

# Whether the time of sessions is that of their statements.
my $times_statements;

sub import
{
	my $test = caller;

	strict->import;
	warnings->import(FATAL => 'all');
	SqlClient::install();
	time_statements();
	Exporter::export($_, $test) foreach qw(Test::More PostgreSQL::Test::Utils SnowflakeTest);
	return;
}

# A session of psql dies when its time is over, which it counts from its start, even if a
# busy machine has done other things meanwhile. Count it anew from each statement, and from
# the end.
sub time_statements
{
	my $begin = PostgreSQL::Test::Cluster->can('background_psql');
	my $end = PostgreSQL::Test::BackgroundPsql->can('quit');

	return if $times_statements++;
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::background_psql = sub {
		my $session = $begin->(@_);

		$session->set_query_timer_restart;
		return $session;
	};
	*PostgreSQL::Test::BackgroundPsql::quit = sub {
		my ($session) = @_;

		$session->{timeout}->start;
		return $end->(@_);
	};
	return;
}

# Create a primary that preloads the library and has node id 1; do not start it. It gets
# these settings, and after them those of SNOWFLAKE_CONF, which test/settings sets. It
# also gets more buffers than init() gives: each of many connections can pin several.
sub new_server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf',
		join("\n", "shared_preload_libraries = 'snowflake'",
			"snowflake.node_id = '1'", "log_min_messages = info",
			"max_connections = 60", "shared_buffers = 4MB",
			"log_statement = none",
			"log_replication_commands = off", @settings,
			$ENV{SNOWFLAKE_CONF} // (), ''));
	return $node;
}

# Do the same, start it, and create the extension.
sub start_server
{
	my $node = new_server(@_);

	$node->start;
	query($node, 'CREATE EXTENSION snowflake');
	return $node;
}

# Create a standby of a server from a new backup, with these settings; do not start it.
sub standby_of
{
	my ($primary, $name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$primary->backup($name);
	$node->init_from_backup($primary, $name, has_streaming => 1);
	$node->append_conf('postgresql.conf', join("\n", @settings, ''));
	return $node;
}

# Create a server from a backup, with these settings last; do not start it. It refuses IDs
# if it is a copy. Without options for init_from_backup() it follows nobody.
sub server_from
{
	my ($name, $source, $backup, $settings, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init_from_backup($source, $backup, %options);
	unlink $node->data_dir . '/standby.signal' if !%options;
	$node->append_conf('postgresql.conf', join("\n", "snowflake.copy_check = 'error'", @{ $settings // [] }, ''));
	return $node;
}

# Start a server, and return what it logs.
sub started
{
	my ($node) = @_;
	my $from = -s $node->logfile || 0;

	$node->start;
	return substr(slurp_file($node->logfile), $from);
}

# Change settings of a server that runs. Its sessions have them a moment later.
sub set_conf
{
	my ($node, @settings) = @_;

	$node->append_conf('postgresql.conf', join("\n", @settings));
	$node->reload;
	return;
}

# Do so by ALTER SYSTEM, with "SET setting = value" or "RESET setting".
sub alter_system
{
	my ($node, $change) = @_;

	query($node, "ALTER SYSTEM $change");
	$node->reload;
	return;
}

# Return a session that has run this statement.
sub begin_session
{
	my ($node, $sql) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe($sql);
	return $session;
}

# Return true if the needs of a part of this test are there. A line "# part NAME:" of its
# head has them; test/all sets SNOWFLAKE_PARTS, and without that all are there.
sub part
{
	my ($name) = @_;
	my ($head) = slurp_file($0) =~ /\A((?:#.*\n)+)/ or die "$0 has no head";

	$head =~ /^# part \Q$name\E: /m or die "the head of $0 does not have \"# part $name: \" with its needs";
	return !defined $ENV{SNOWFLAKE_PARTS} || $ENV{SNOWFLAKE_PARTS} =~ /(?<!\S)\Q$name\E(?!\S)/;
}

sub clock_file
{
	my ($node) = @_;

	return $node->basedir . '/clock';
}

# The fields of a clock's file: see test/helpers/shim.c.
my %field = (ahead_ms => 0, set_ms => 1, frozen_us => 2, nap_ms => 3, watched => 4, seen_ms => 5);

sub new_clock
{
	my ($clock) = @_;

	append_to_file($clock, "\0" x (8 * keys %field));
	return $clock;
}

sub write_clock
{
	my ($clock, $field, $value) = @_;

	open(my $fh, '+<', $clock) or die "$clock: $!";
	sysseek($fh, 8 * $field{$field}, 0);
	syswrite($fh, pack('q', $value)) == 8 or die "$clock: $!";
	close $fh;
	return;
}

sub read_clock
{
	my ($clock, $field) = @_;

	open(my $fh, '<', $clock) or die "$clock: $!";
	sysseek($fh, 8 * $field{$field}, 0);
	sysread($fh, my $value, 8) == 8 or die "$clock: $!";
	return unpack('q', $value);
}

# Move the wall clock of a server that was started with one, by seconds or days from
# the real time (-0.05, '+2d'), or to a time in UTC ('@2026-01-01 12:00:00'); without
# the @ it stands still there.
sub set_clock
{
	my ($node, $offset) = @_;
	my $file = clock_file($node);

	my ($goes, @time) = $offset =~ /^(@?)(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)(\.\d+)?$/;
	my $time = @time ? timegm(reverse(@time[2 .. 5]), $time[1] - 1, $time[0]) + ($time[6] // 0) : undef;

	if (@time) { $offset = $time - time() }
	elsif ($offset =~ /^([-+][\d.]+)d$/) { $offset = $1 * 86400 }
	looks_like_number($offset) or die "no offset: $offset";
	new_clock($file) if !-e $file;
	write_clock($file, 'set_ms', sprintf('%.0f', 1000 * $offset));
	write_clock($file, 'frozen_us', @time && !$goes ? sprintf('%.0f', 1e6 * $time) : 0);
	return;
}

# Return how many seconds it is until noon in UTC: for a server that must see no day
# end.
sub until_noon
{
	return 43200 - time() % 86400;
}

# Return the libraries to preload for a server: the sanitizer's, which must be the
# first, if there is one, and ours (test/helpers/shim.c).
my $shim;

sub preload
{
	if (!defined $shim)
	{
		$shim = PostgreSQL::Test::Utils::tempdir() . '/shim.so';
		system_or_bail(split(' ', $ENV{CC} // 'cc'), '-shared', '-fPIC', '-o',
			$shim, dirname(__FILE__) . "/../helpers/shim.c", '-ldl');
	}
	return join ' ', $ENV{SNOWFLAKE_PRELOAD} // (), $shim;
}

# Start a server with the clock in this file.
sub start_by_clock
{
	my ($node, $clock) = @_;

	local $ENV{LD_PRELOAD} = preload();
	local $ENV{SHIM_CLOCK} = $clock;
	$node->start;
	# pg_ctl accepts a standby that takes no connections yet; the empty query is for
	# psql, which may have ended before it could read another
	$node->poll_query_until('postgres', undef, '') or die 'no connection';
	return;
}

# Start a server with a clock of its own. The monotonic clock stays real.
sub start_with_clock
{
	my ($node, $offset) = @_;

	set_clock($node, $offset);
	start_by_clock($node, clock_file($node));
	return;
}

# Return how often a query scans a catalogue when it is run again, so that the caches
# are filled.
sub catalog_scans
{
	my ($node, $query, %options) = @_;
	my $sum = 'sum(seq_scan + coalesce(idx_scan, 0))';
	my $out = query($node, qq{$query;
		BEGIN;
		SELECT $sum AS before FROM pg_stat_xact_sys_tables \\gset
		$query;
		SELECT $sum - :before FROM pg_stat_xact_sys_tables;
		COMMIT}, %options);

	return (split /\n/, $out)[-1];
}

# Return one value, or the rows as lines.
sub query
{
	my ($node, $sql, %options) = @_;

	return $node->safe_psql($options{database} || 'postgres', $sql);
}

# Return the same, or the error message. Then one check fails, and not the whole test.
sub answer
{
	my ($node, $sql, %options) = @_;
	my ($status, $out, $err) = $node->psql($options{database} || 'postgres', $sql);

	return $status == 0 ? $out : $err;
}

# Check that a statement fails with this SQLSTATE, and matches the pattern. Return
# its message.
sub refused
{
	my ($node, $sql, $sqlstate, $pattern, $name, %options) = @_;
	my ($status, $out, $err) =
	  $node->psql($options{database} || 'postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=verbose' ]);

	ok($status != 0 && $err =~ /ERROR:  $sqlstate: / && $err =~ $pattern,
		$name)
	  or diag("status $status, stdout \"$out\", stderr:\n$err");
	return $err;
}

# Create a server with the extension, and a role mallory with a schema m. Mallory's
# code records that another role runs it: m.evil() by a sequence, which no rollback
# undoes.
my %caught;

sub hostile_server
{
	my $node = new_server('main');

	$node->start;
	query($node, q{CREATE EXTENSION snowflake; CREATE ROLE mallory;
		CREATE SCHEMA m AUTHORIZATION mallory;
		SET ROLE mallory;
		CREATE SEQUENCE m.caught;
		CREATE FUNCTION m.evil(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
			BEGIN
				IF current_user <> 'mallory' THEN PERFORM nextval('m.caught'); END IF;
				RETURN true;
			END $$});
	caught($node);
	return $node;
}

# Return true if another role has run mallory's code since the last call.
sub caught
{
	my ($node) = @_;
	my $now = query($node, 'SELECT last_value, is_called FROM m.caught');
	my $before = $caught{ $node->name } // $now;

	$caught{ $node->name } = $now;
	return $now ne $before ? 1 : 0;
}

# Return the clock of a server, in Unix milliseconds.
sub clock_ms
{
	my ($node) = @_;

	return query($node, 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint');
}

# Wait until a server's clock is beyond a time in Unix milliseconds.
sub wait_for_clock
{
	my ($node, $ms) = @_;

	$node->poll_query_until('postgres',
		"SELECT extract(epoch FROM clock_timestamp()) * 1000 > $ms")
	  or die 'the clock does not get there';
	return;
}

# Check that a statement is refused because the clock is behind the mark. The
# difference in the message must be at most that before the call, and at least that
# after it. The message names the remedy.
sub refused_behind
{
	my ($node, $sql, $name, %options) = @_;
	my $behind = 'SELECT last_value - extract(epoch FROM clock_timestamp()) * 1000 FROM snowflake_state.snowflake_mark';
	my $most = query($node, $behind, %options);
	# a crash leaves the mark ahead of a clock that is right, but not by so much
	my $remedy = $most > 60_000 ? qr/Correct the server's clock\. IDs resume when the clock/ : qr/If the clock is right, wait until it/;
	my $err = refused($node, $sql, '58000',
		qr/wall clock is [\w ]+ behind the mark of this database.*HINT:  $remedy reaches \d{4}-.*/s,
		$name, %options);
	my $least = query($node, $behind, %options);
	my ($said) = $err =~ /wall clock is ([\w ]+) behind/;
	my %ms = (ms => 1, s => 1000, min => 60000, h => 3600000, day => 86400000, days => 86400000);
	my ($sum, $unit) = (0, 0);

	# rounded to its last unit
	while ($said =~ /(\d+) (\w+)/g) { $unit = $ms{$2}; $sum += $1 * $unit; }
	ok($unit > 0 && $sum <= $most + 1 + $unit / 2 && $sum >= $least - 1 - $unit / 2,
		'... by as much as it says')
	  or diag("from $most to $least ms behind, stderr:\n$err");
	return;
}

# Check that the server's log matches, after a place in it. Wait for the line, since a
# process may log a change of a setting after other processes have it.
sub like_log
{
	my ($node, $pattern, $from, $name) = @_;
	my $last = time() + $PostgreSQL::Test::Utils::timeout_default;
	my $log;

	until (($log = substr(slurp_file($node->logfile), $from)) =~ $pattern ||
		time() > $last)
	{
		usleep(50_000);
	}
	like($log, $pattern, $name);
	return;
}

# Wait until something holds, and die with the reason if it does not for long.
sub wait_until(&$)
{
	my ($holds, $reason) = @_;
	my $last = time() + $PostgreSQL::Test::Utils::timeout_default;

	until ($holds->())
	{
		die $reason if time() > $last;
		usleep(10_000);
	}
	return;
}

# Return a column of a server's status of its lease.
sub lease_of
{
	my ($node, $column) = @_;

	return query($node, "SELECT $column FROM snowflake_lease()");
}

# Return a recovery for a server, with the arguments that its lease names, and these seconds
# in place of its reserve.
sub recovery_of
{
	my ($node, $seconds) = @_;
	my $remedy = lease_of($node, 'remedy');
	my ($former) = $remedy =~ /interval '\d+ s', (interval '5 s', '[0-9a-f]{16}')/ or die $remedy;

	return "SELECT snowflake_registry_recover(interval '$seconds s', $former)";
}

sub wait_for_lease
{
	my ($node, $condition) = @_;

	return if $node->poll_query_until('postgres', "SELECT $condition FROM snowflake_lease()");
	fail($node->name . ": a lease of which is said: $condition");
	die 'the lease is ' . query($node, 'SELECT snowflake_lease()');
}

# Wait until each server has its node id, and no problem.
sub wait_until_held
{
	wait_for_lease($_, q{state = 'held' AND problem IS NULL}) foreach @_;
	return;
}

# Wait until each server has extended its lease.
sub wait_until_extended
{
	my (@nodes) = @_;
	my %until = map { $_->name => lease_of($_, 'until') } @nodes;

	wait_for_lease($_, "until > '$until{$_->name}'") foreach @nodes;
	return;
}

# Return the leader of these members of a registry, once there is one.
sub leader_of
{
	my (@members) = @_;

	foreach (1 .. 1800)
	{
		my ($leader) = grep { $_->leads } @members;
		return $leader if $leader;
		usleep(100_000);
	}
	die 'nobody leads';
}

# Return a condition on a row of pg_stat_activity: the session waits for one of these
# events. Before 17 such events have no names, so any event of an extension counts.
sub waits_for
{
	my ($node, @events) = @_;

	return "wait_event_type = 'Extension'" . ($node->pg_version < 17 ? ''
		: ' AND wait_event IN (' . join(', ', map { "'$_'" } @events) . ')');
}

# Wait until a server has crashed since the given place in its log, and is up again.
sub wait_for_restart
{
	my ($node, $from) = @_;

	wait_until { substr(slurp_file($node->logfile), $from) =~ /reinitializing.*ready to accept connections/s }
		'the server does not come back';
	return;
}

# Kill a process of one of these types. A session of an earlier client may be about
# to end by itself, which would be no crash.
sub kill_one
{
	my ($node, @types) = @_;
	my $types = join ', ', map { "'$_'" } @types;

	while (1)
	{
		my @pids = split /\n/, query($node, qq{
			SELECT pid FROM pg_stat_activity
			WHERE backend_type IN ($types) AND pid <> pg_backend_pid()});
		my $pid = $pids[ rand @pids ];

		return if $pid && kill('KILL', $pid);
	}
}

# Kill a process of the server, and wait until the others have started again.
sub crash
{
	my ($node, $type) = @_;
	my $from = -s $node->logfile;

	kill 'KILL', query($node,
		"SELECT pid FROM pg_stat_activity WHERE backend_type = '$type'");
	wait_for_restart($node, $from);
	return;
}

# Stop the server as if the machine had lost its power: what was not flushed is lost,
# and there is no shutdown file.
sub lose_power
{
	my ($node) = @_;

	$node->stop('immediate');
	unlink $node->data_dir . '/snowflake.shutdown';
	return;
}

# Check that the start fails, and that the log says why.
sub fails_to_start
{
	my ($node, $setting, $pattern, $name) = @_;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $before = slurp_file($conf);
	my $from = -s $node->logfile || 0;

	$node->append_conf('postgresql.conf', $setting);
	my $started = $node->start(fail_ok => 1);
	ok(!$started, "$name: no start");
	$node->stop if $started;
	like_log($node, $pattern, $from, $name);
	open(my $fh, '>', $conf) or die "$conf: $!";
	print $fh $before;
	close $fh;
	return;
}

# Check that no ID comes twice, and return the largest. Each list belongs to one
# session, and must ascend.
sub check_ids
{
	my ($name, @sessions) = @_;
	my (%seen, $max, @wrong);
	my $n = 0;

	foreach my $ids (@sessions)
	{
		my $last = -1;
		foreach my $id (@$ids)
		{
			$n++;
			push @wrong, "$id is there twice" if $seen{$id}++;
			push @wrong, "$id follows $last" if $id <= $last;
			$last = $id;
			$max = $id if !defined $max || $id > $max;
		}
	}
	ok($n > 0 && !@wrong, "$name: $n IDs, no duplicate, ascending")
	  or diag(join("\n", @wrong > 5 ? @wrong[ 0 .. 4 ] : @wrong));
	return $max;
}

# Return the timestamp of an ID of the default layout, in Unix milliseconds.
sub epoch_ms
{
	my ($id) = @_;

	return ($id >> 22) + 1704067200000;
}

1;
