# snowflake_audit in trouble: what its worker says, and what does not disturb it.
#
# takes: 75 s
# needs: small_disk
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use AuditTest;
use SnowflakeTest;

my $disk = $ENV{SNOWFLAKE_SMALL_DISK}
  or die 'SNOWFLAKE_SMALL_DISK is not set: run test/all t/integration/audit_trouble.pl';
my $node = audited_server('postgres, small', 'max_prepared_transactions = 5');

mkdir "$disk/tablespace" or die "$disk/tablespace: $!";
query($node, $_) for "CREATE TABLESPACE small LOCATION '$disk/tablespace'", 'CREATE DATABASE small TABLESPACE small', q{
	CREATE EXTENSION snowflake_audit CASCADE;
	CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats};

# ---- records that are dropped ----

{
	my $from = -s $node->logfile;
	my $locker = $node->background_psql('postgres');

	# Make 300 calls while the log is locked, and the worker does not count what is
	# dropped.
	my $drop = sub {
		my ($name) = @_;
		my $pid = query($node, q{SELECT pid FROM snowflake_audit.status() WHERE database = 'postgres'});

		kill 'STOP', $pid;
		$node->pgbench('-n -t 150 -c 2', 0, [qr/processed: 300\/300/], [qr/^$/], 'calls while the log is locked',
			{ "$name.sql" => $next });
		kill 'CONT', $pid;
	};

	wait_until('pid IS NOT NULL');
	$locker->query_safe('BEGIN; LOCK TABLE snowflake_audit.log');
	$drop->('dropped');
	like_log($node, qr/WARNING:  snowflake_audit has dropped 44 records of database "postgres"\n.*HINT:.*ring_size, which is 256/s, $from,
		'the log says how many records were dropped');
	$drop->('more');
	$node->stop;
	eval { $locker->quit };
	like(slurp_file($node->logfile, $from), qr/has dropped 300 records of database "postgres"/, 'and at a stop those of the last minute');
	unlike(slurp_file($node->logfile, $from), qr/are not written/, 'where nothing else is lost');
	start_again();

	# a stop while the worker cannot write
	$from = -s $node->logfile;
	query($node, q{BEGIN; LOCK TABLE snowflake_audit.log; PREPARE TRANSACTION 'locker'});
	query($node, $next);
	wait_until(q{problem LIKE 'somebody has locked%'});
	$node->stop;
	like(slurp_file($node->logfile, $from), qr/WARNING:  snowflake_audit ends, and records of database "postgres" are not written: 1\n/,
		'what a stop loses');
	start_again();
	query($node, q{ROLLBACK PREPARED 'locker'});
}

# ---- why records wait ----

{
	my $from = -s $node->logfile;
	my $warning = qr/WARNING:  snowflake_audit writes no records of database "postgres": somebody has locked/;
	my $locker = $node->background_psql('postgres');

	wait_for_log();
	$locker->query_safe('BEGIN; LOCK TABLE snowflake_audit.log');
	query($node, $next);
	wait_until(q{problem = 'somebody has locked table snowflake_audit.log, or drops the extension'});
	is(query($node, q{SET SESSION AUTHORIZATION monitor;
		SELECT problem IS NOT NULL FROM snowflake_audit.status() WHERE database = 'postgres'}), 't', 'who may see status() sees the problem');
	wait_for_rounds(3);
	is(() = slurp_file($node->logfile, $from) =~ /$warning/g, 1, 'the log is not filled with it');
	later(61);
	like_log($node, qr/$warning.*$warning/s, $from, 'a minute later it says so again');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	wait_for_log();
	pass('the problem is over');
}

# ---- who() while a batch is written ----

{
	my $session = hold_batch();
	my $id = query($node, $next);

	wait_until_stuck();
	is(query($node, "SELECT recorded, exact FROM snowflake_audit.who($id)"), 't|t', 'a record that is being written');
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	wait_for_log();
	is(query($node, "SELECT recorded, exact FROM snowflake_audit.who($id)"), 't|t', 'and that was written');
	$session->query_safe('DROP TRIGGER hold ON snowflake_audit.log');

	# A question begins before a record is in the log, and goes on when it is not in the
	# ring any more: a policy holds it up at a row of the log that holds all IDs.
	$session->query_safe($_) for 'SELECT pg_advisory_lock(1)', q{
		INSERT INTO snowflake_audit.log
		SELECT key, -1, 0, ended_at, committed, role, '', client_addr, pid, xid, NULL, NULL, first_id, 9223372036854775807, 2
		FROM snowflake_audit.log LIMIT 1}, q{
		CREATE FUNCTION public.policy() RETURNS boolean LANGUAGE plpgsql
		AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN true; END $$}, q{
		CREATE POLICY slow ON snowflake_audit.log USING (public.policy());
		ALTER TABLE snowflake_audit.log ENABLE ROW LEVEL SECURITY}, 'BEGIN; LOCK TABLE snowflake_audit.log IN EXCLUSIVE MODE';
	my $monitor = $node->background_psql('postgres');

	$id = query($node, $next);
	$monitor->query_safe('SET SESSION AUTHORIZATION monitor');
	$monitor->query_until(qr/asked/, "\\echo asked\nSELECT 'exact:' || exact FROM snowflake_audit.who($id);\n");
	wait_until_stuck();
	$session->query_safe('COMMIT');
	# as many as the ring has room for, twice
	foreach my $round (1, 2)
	{
		wait_for_log();
		$node->pgbench('-n -t 200', 0, [qr/processed: 200\/200/], [qr/^$/], 'calls meanwhile', { "calls$round.sql" => $next });
	}
	wait_for_log();
	is(query($node, "SELECT count(*) FROM snowflake_audit.ring(0, 9223372036854775807) WHERE first_id = $id"), 0,
		'the ring has another record in that place');
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	like($monitor->query('SELECT'), qr/^exact:true$/m, 'a question that began before finds it');
	$monitor->quit;
	$session->query_safe('ALTER TABLE snowflake_audit.log DISABLE ROW LEVEL SECURITY; DROP POLICY slow ON snowflake_audit.log;
		DELETE FROM snowflake_audit.log WHERE number < 0');
	$session->quit;
}

# ---- equal IDs of two layouts, and what is no ID ----

{
	my $other = 'timestamp:41 sequence:12 node:10 epoch:2024-01-01';
	my $id = query($node, $next);

	wait_for_log();
	# in the other layout the same number is another server's
	query($node, "INSERT INTO snowflake_audit.log
		SELECT key, -1, 0, ended_at, committed, role, 'two', client_addr, pid, xid, '$other', NULL,
			first_id - 1024, first_id + 1024, 3 FROM snowflake_audit.log WHERE first_id = $id");
	is(query($node, "SELECT exact, layout IS NULL FROM snowflake_audit.who($id) ORDER BY 1"), "f|f\nt|t",
		'a record of one layout hides none of another');
	query($node, 'DELETE FROM snowflake_audit.log WHERE number < 0');
	query($node, 'TRUNCATE snowflake_audit.log');
	is(query($node, "SELECT reason FROM snowflake_audit.who(snowflake_compose(now(), 77, 0))"), 'the log is empty', 'an empty log');
}

# ---- DROP EXTENSION while a batch is written ----

foreach my $round (1, 2)
{
	# now DROP EXTENSION finds the day first
	query($node, $next);
	wait_for_log();
	foreach my $table ('log', 'state')
	{
		query($node, "ALTER EXTENSION snowflake_audit $_ TABLE snowflake_audit.$table") for 'DROP', 'ADD';
	}
	my $from = -s $node->logfile;
	my $session = hold_batch();

	query($node, $next);
	wait_until_stuck();
	my $drop = $node->background_psql('postgres');

	$drop->query_until(qr/dropping/, "\\echo dropping\nDROP EXTENSION snowflake_audit;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted})
	  or die 'DROP EXTENSION does not wait';
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	is($drop->query('SELECT count(*) FROM pg_extension WHERE extname = \'snowflake_audit\''), '0', "DROP EXTENSION, round $round");
	$drop->quit;
	$session->quit;
	unlike(slurp_file($node->logfile, $from), qr/deadlock detected/, 'there is no deadlock');
	query($node, 'CREATE EXTENSION snowflake_audit');
	wait_for_log();
}

# ---- settings of the database and of the role ----

{
	my $user = query($node, 'SELECT rolname FROM pg_roles WHERE oid = 10');

	query($node, qq{
		CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler;
		ALTER ROLE $user SET search_path = 'nowhere';
		ALTER ROLE $user SET default_tablespace = 'small';
		ALTER ROLE $user SET role = 'monitor';
		ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
		ALTER DATABASE postgres SET default_transaction_read_only = 'on';
		ALTER DATABASE postgres SET default_table_access_method = 'other';
		ALTER DATABASE postgres SET statement_timeout = '1ms';
		ALTER DATABASE postgres SET lock_timeout = '1ms';
		ALTER DATABASE postgres SET row_security = 'off';
		ALTER DATABASE postgres SET log_min_messages = 'panic';
		ALTER DATABASE postgres SET "DateStyle" = 'SQL, DMY';
		ALTER DATABASE postgres SET "TimeZone" = 'Pacific/Auckland'});
	{
		local $ENV{PGOPTIONS} = '-c search_path=public -c role=none -c default_transaction_read_only=off -c statement_timeout=0';

		renew_worker();
		# the log is new, and has no days yet
		query($node, 'SELECT pg_reload_conf()');
		$node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM snowflake_partitions('snowflake_audit.log', 'snowflake')})
		  or die 'today and tomorrow have no partitions';
		my $id = query($node, $next);

		wait_for_log();
		is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id"), 1, 'with any settings the log is written');
		is(query($node, q{SELECT DISTINCT reltablespace, amname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
			JOIN pg_am a ON a.oid = relam WHERE inhparent = 'snowflake_audit.log'::regclass}), '0|heap',
			'and its days are where the database is');

		my $session = hold_batch();
		my $from = -s $node->logfile;

		query($node, $next);
		wait_until_stuck();
		$session->query_safe('SELECT pg_advisory_unlock(1)');
		wait_for_log();
		unlike(slurp_file($node->logfile, $from), qr/ERROR/, 'the worker waits for a lock');
		$session->query_safe('DROP TRIGGER hold ON snowflake_audit.log');
		$session->quit;
		my $state = query($node, 'DELETE FROM snowflake_audit.state RETURNING life, position, number') =~ s/\|/, /gr;

		query($node, $next);
		wait_until(q{problem LIKE '%has no row'});
		pass('an error is seen, whatever the database logs');
		query($node, "INSERT INTO snowflake_audit.state (life, position, number) VALUES ($state)");
		wait_for_log();
		query($node, "ALTER DATABASE postgres RESET ALL; ALTER ROLE $user RESET ALL");
	}
	renew_worker();
}

# ---- a stop that no synchronous standby confirms ----

{
	query($node, q{ALTER DATABASE postgres SET synchronous_commit = 'remote_apply'});
	renew_worker();
	query($node, q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
	query($node, 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', q{SELECT current_setting('synchronous_standby_names') = 'nobody'})
	  or die 'the setting is not read';
	# the worker writes it now, or at the stop
	my $id = query($node, $next);
	$node->stop;
	pass('a fast stop ends');
	$node->append_conf('postgresql.auto.conf', q{synchronous_standby_names = ''});
	start_again();
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id"), 1, 'and the record is in the log');
	query($node, 'ALTER DATABASE postgres RESET ALL');
}

# ---- a clean stop writes what there is ----

# At the stop a session has locked the log, and others commit what no standby confirms.
# One of these is frozen, until the others have ended.
{
	query($node, 'CREATE TABLE stopped (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE snowflake_audit.log IN SHARE MODE');
	query($node, 'INSERT INTO stopped DEFAULT VALUES');
	query($node, q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
	query($node, 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', q{SELECT current_setting('synchronous_standby_names') = 'nobody'})
	  or die 'the setting is not read';
	my @sessions = map { $node->background_psql('postgres') } 1 .. 4;
	$_->query_until(qr/going/, "\\echo going\nINSERT INTO stopped DEFAULT VALUES;\n") for @sessions;
	my $waits = q{FROM pg_stat_activity WHERE wait_event = 'SyncRep'};
	$node->poll_query_until('postgres', "SELECT count(*) = 4 $waits") or die 'the sessions do not wait';
	my ($frozen, @others) = split /\n/, query($node, "SELECT pid $waits");

	kill 'STOP', $frozen;
	system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', 'fast', '-W', 'stop');
	foreach (1 .. 10_000)
	{
		last if !grep { kill 0, $_ } @others;
		usleep(1000);
	}
	kill 'CONT', $frozen;
	foreach (1 .. 10_000)
	{
		last if !-e $node->data_dir . '/postmaster.pid';
		usleep(10_000);
	}
	$node->{_pid} = undef;
	eval { $_->quit } for $locker, @sessions;
	$node->append_conf('postgresql.auto.conf', q{synchronous_standby_names = ''});
	start_again();
	is(query($node, 'SELECT count(*), count(*) FILTER (WHERE number IS NULL)
		FROM stopped LEFT JOIN snowflake_audit.log ON first_id = id'), '5|0', 'a clean stop writes all that committed');
}

# ---- a full disk ----

# Leave nothing free.
sub fill_disk
{
	open(my $fh, '>>', "$disk/filler") or die "$disk/filler: $!";
	1 while syswrite($fh, "\0" x 65536);
	1 while syswrite($fh, "\0" x 512);
	close $fh;
	return;
}

{
	my $days = q{SELECT count(*) FROM snowflake_partitions('snowflake_audit.log', 'snowflake')};

	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	my $old = query($node, $next, database => 'small');

	wait_for_log('small');
	# an old day that is worth it, and has a view
	query($node, q{INSERT INTO snowflake_audit.log
		SELECT key, -n, 0, ended_at, committed, role, '', client_addr, pid, xid, NULL, NULL, first_id, last_id, 1
		FROM snowflake_audit.log, generate_series(1, 5000) n;
		SELECT min(partition::text) AS first FROM snowflake_partitions('snowflake_audit.log', 'snowflake') \gset
		CREATE VIEW public.day AS SELECT * FROM :first;
		CHECKPOINT}, database => 'small');
	$node->stop;
	later(9 * 86400);
	fill_disk();
	my $from = -s $node->logfile;

	start_again();
	my $new = query($node, $next, database => 'small');

	like_log($node, qr/ERROR:  could not extend file .*No space left on device/, $from, 'the disk is full');
	wait_for_log('small');
	is(query($node, "SELECT count(*) FILTER (WHERE first_id = $old), count(*) FILTER (WHERE first_id = $new) FROM snowflake_audit.log",
		database => 'small'), '0|1', 'old days make room');
	is(query($node, $days, database => 'small'), 2, 'for new ones');
	is(query($node, q{SELECT to_regclass('public.day') IS NULL}, database => 'small'), 't', 'a view on a day is dropped with it');

	# likewise after a start on a day that is there
	unlink "$disk/filler";
	query($node, q{SELECT count(*) FROM snowflake_create_partitions('snowflake_audit.log', '1 day',
			now() - interval '9 days', now() - interval '8 days', 'snowflake');
		SELECT format('ALTER EXTENSION snowflake_audit ADD TABLE %s', partition)
		FROM snowflake_partitions('snowflake_audit.log', 'snowflake') WHERE until_time < now() \gexec
		INSERT INTO snowflake_audit.log
		SELECT snowflake_min_id(now() - interval '9 days', 'snowflake'), -n, 0, ended_at, committed, role, '', client_addr,
			pid, xid, NULL, NULL, first_id, last_id, 1
		FROM (SELECT * FROM snowflake_audit.log LIMIT 1) l, generate_series(1, 5000) n;
		CHECKPOINT}, database => 'small');
	$node->stop;
	fill_disk();
	$from = -s $node->logfile;
	start_again();
	query($node, "DO \$\$ BEGIN FOR i IN 1 .. 200 LOOP PERFORM snowflake_nextval(); COMMIT; END LOOP; END \$\$", database => 'small');
	like_log($node, qr/ERROR:  could not extend file .*No space left on device/, $from, 'the disk is full again');
	wait_for_log('small');
	is(query($node, $days, database => 'small'), 2, 'old days make room after a start');
}
$node->stop;
done_testing();
