# snowflake_audit in trouble: what its worker says, and what does not disturb it.
#
# takes: 85 s
# needs: small_disk
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $disk = $ENV{SNOWFLAKE_SMALL_DISK}
  or die 'SNOWFLAKE_SMALL_DISK is not set: run test/all t/integration/audit_trouble.pl';
my $node = new_server('main', "shared_preload_libraries = 'snowflake_audit, snowflake'",
	"snowflake_audit.databases = 'postgres, small, second, gone'", 'snowflake_audit.ring_size = 256', 'autovacuum = off');
my $next = 'SELECT snowflake_nextval()';

start_with_clock($node, '+0');
mkdir "$disk/tablespace" or die "$disk/tablespace: $!";
query($node, $_) for "CREATE TABLESPACE small LOCATION '$disk/tablespace'", 'CREATE DATABASE small TABLESPACE small', 'CREATE DATABASE second', q{
	CREATE EXTENSION snowflake_audit CASCADE;
	CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats};

# Wait until this is true of a row of snowflake_audit.status().
sub wait_until
{
	my ($condition, $database) = @_;

	$database //= 'postgres';
	$node->poll_query_until('postgres', "SELECT $condition FROM snowflake_audit.status() WHERE database = '$database'")
	  or die "$condition is not true: " . query($node, 'SELECT snowflake_audit.status()');
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

# ---- another schema of this name ----

{
	my $locker = $node->background_psql('postgres');
	my $written = query($node, 'SELECT count(*) FROM snowflake_audit.log');
	my $seen = q{(SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'), count(*) > } . $written . ' FROM moved.log';

	$locker->query_safe('BEGIN; SELECT FROM snowflake_audit.state FOR UPDATE');
	query($node, $next);
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE backend_type = 'snowflake audit' AND NOT granted}) or die 'the worker does not wait';
	query($node, 'CREATE ROLE mallory; ALTER SCHEMA snowflake_audit RENAME TO moved; CREATE SCHEMA snowflake_audit AUTHORIZATION mallory;
		SET ROLE mallory; CREATE TABLE snowflake_audit.state AS SELECT 1 AS id, 0::bigint AS life, 0::bigint AS position, 0::bigint AS number');
	query($node, "SET ROLE mallory; CREATE FUNCTION snowflake_audit.$_ RETURNS void LANGUAGE plpgsql
		AS 'BEGIN ALTER ROLE mallory SUPERUSER; END'")
	  foreach 'write(bigint, bigint, bigint, bigint)', 'advance(bigint, bigint, bigint)';
	$locker->query_safe('COMMIT');
	$locker->quit;
	$node->poll_query_until('postgres', "SELECT 't' IN (a::text, b::text) FROM (SELECT $seen) AS s (a, b)" =~ s/'t'/'true'/r)
	  or die 'nothing is written';
	is(query($node, "SELECT $seen"), 'f|t', 'the schema is renamed under the worker: it calls nothing in another one of that name');
	query($node, 'DROP SCHEMA snowflake_audit CASCADE; ALTER SCHEMA moved RENAME TO snowflake_audit');
	wait_for_log();
}

# ---- an ordinary role ----

{
	my $other = $node->background_psql('postgres');

	query($node, 'CREATE ROLE other LOGIN');
	$other->query_safe('SET SESSION AUTHORIZATION other');
	$other->query_safe(q{CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql AS ''});
	$other->query_safe('BEGIN; ALTER FUNCTION pg_temp.f() DEPENDS ON EXTENSION snowflake_audit');
	query($node, $next);
	wait_for_log();
	pass('a role locks the extension: the log is written');
	$other->query_safe('COMMIT');
	query($node, $next);
	wait_for_log();
	pass('a function of a role depends on the extension: the log is written');
	$other->quit;

	foreach my $call ('reached()', 'advance(0, 0, 0)', 'write(0, 0, 0, 0)')
	{
		refused($node, "SET SESSION AUTHORIZATION monitor; SELECT snowflake_audit.$call", '42501',
			qr/permission denied for function/, "nobody else calls $call");
	}
	my $id = query($node, "SET SESSION AUTHORIZATION other; $next");

	wait_for_log();
	query($node, 'ALTER ROLE other RENAME TO another');
	is(query($node, "SELECT exact, role FROM snowflake_audit.who($id)"), 't|other', 'a role that got another name');
}

# ---- why records wait ----

wait_until(q{problem = 'database "gone" does not exist'}, 'gone');
pass('a database that does not exist');
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
	set_clock($node, '+61');
	like_log($node, qr/$warning.*$warning/s, $from, 'a minute later it says so again');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	wait_for_log();
	pass('the problem is over');
}

# ---- records that are dropped ----

{
	my $from = -s $node->logfile;
	my $locker = $node->background_psql('postgres');

	$locker->query_safe('BEGIN; LOCK TABLE snowflake_audit.log');
	$node->pgbench('-n -t 150 -c 2', 0, [qr/processed: 300\/300/], [qr/^$/], 'calls while the log is locked',
		{ 'dropped.sql' => $next });
	like_log($node, qr/WARNING:  snowflake_audit has dropped 44 records of database "postgres"\n.*HINT:.*ring_size, which is 256/s, $from,
		'the log says how many records were dropped');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
	wait_for_log();
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
	start_by_clock($node, SnowflakeTest::clock_file($node));
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
	start_by_clock($node, SnowflakeTest::clock_file($node));
	is(query($node, 'SELECT count(*), count(*) FILTER (WHERE number IS NULL)
		FROM stopped LEFT JOIN snowflake_audit.log ON first_id = id'), '5|0', 'a clean stop writes all that committed');
}

# ---- a reader keeps the worker from making a day ----

{
	my $reader = $node->background_psql('postgres');

	wait_until('pid IS NOT NULL');
	query($node, q{SELECT format('ALTER EXTENSION snowflake_audit DROP TABLE %1$s; DROP TABLE %1$s', partition)
		FROM snowflake_partitions('snowflake_audit.log', 'snowflake') \gexec});
	$reader->query_safe('BEGIN; SELECT count(*) FROM snowflake_audit.log');
	renew_worker();
	query($node, $next);
	wait_until(q{problem LIKE 'a transaction that has read%'});
	is(query($node, q{SET statement_timeout = '5s'; SELECT recorded FROM snowflake_audit.who(1)}), 'f', 'others can read the log');
	$reader->query_safe('COMMIT');
	wait_for_log();
	$reader->query_safe('BEGIN; SELECT count(*) FROM snowflake_audit.log');
	renew_worker();
	query($node, $next);
	wait_for_log();
	pass('but not from writing into one that is there');
	$reader->quit;
}

# ---- what keeps the worker from making and dropping days ----

{
	query($node, q{CREATE FUNCTION public.no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no DDL here'; END $$;
		SELECT format('ALTER EXTENSION snowflake_audit DROP TABLE %1$s; DROP TABLE %1$s', partition)
		FROM snowflake_partitions('snowflake_audit.log', 'snowflake') \gexec
		CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION public.no_ddl()});
	renew_worker();
	query($node, $next);
	wait_until(q{problem = 'no DDL here'});
	query($node, 'DROP EVENT TRIGGER no_ddl');
	wait_for_log();
	pass('an event trigger that fails: the log goes on after it');

	# more days than are dropped at a time, one of which is no part of the extension
	query($node, q{SELECT count(*) FROM snowflake_create_partitions('snowflake_audit.log', '1 day',
			now() - interval '60 days', now() - interval '20 days', 'snowflake');
		SELECT format('ALTER EXTENSION snowflake_audit ADD TABLE %s', partition)
		FROM snowflake_partitions('snowflake_audit.log', 'snowflake') WHERE until_time < now() - interval '30 days' \gexec});
	query($node, 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM snowflake_partitions('snowflake_audit.log', 'snowflake')})
	  or die 'old days are not dropped: ' . query($node, 'SELECT snowflake_audit.status()');
	pass('many old days are dropped, and one that is no part of the extension, too');
}

# ---- a database that is made anew ----

{
	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	query($node, $next, database => 'small');
	wait_for_log('small');
	query($node, 'DROP DATABASE small WITH (FORCE)');
	query($node, 'CREATE DATABASE small TABLESPACE small');
	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	my $id = query($node, $next, database => 'small');

	wait_for_log('small');
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id", database => 'small'), 1,
		'its first record, before there is a worker');
}

# ---- a database that gets the name of another one ----

# Rename a database, which its worker keeps from being renamed.
sub rename_database
{
	my ($from, $to) = @_;

	foreach (1 .. 1000)
	{
		my ($status) = $node->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '$from'");

		($status) = $node->psql('postgres', "ALTER DATABASE $from RENAME TO $to");
		return if $status == 0;
	}
	die "$from is not renamed";
}

{
	query($node, 'DROP DATABASE second WITH (FORCE)');
	rename_database('small', 'second');
	my $before = query($node, $next, database => 'second');

	wait_until('pid IS NOT NULL', 'second');
	my $after = query($node, $next, database => 'second');

	wait_for_log('second');
	is(query($node, "SELECT exact FROM snowflake_audit.who($before) UNION ALL SELECT exact FROM snowflake_audit.who($after)", database => 'second'),
		"t\nt", 'its records are those of its new name');
	is(query($node, q{SELECT waiting FROM snowflake_audit.status() WHERE database = 'small'}), '0', 'and not of its old one, too');
	rename_database('second', 'small');
	wait_until('pid IS NOT NULL', 'small');
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
	set_clock($node, '+9d');
	fill_disk();
	my $from = -s $node->logfile;

	start_by_clock($node, SnowflakeTest::clock_file($node));
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
	start_by_clock($node, SnowflakeTest::clock_file($node));
	query($node, "DO \$\$ BEGIN FOR i IN 1 .. 200 LOOP PERFORM snowflake_nextval(); COMMIT; END LOOP; END \$\$", database => 'small');
	like_log($node, qr/ERROR:  could not extend file .*No space left on device/, $from, 'the disk is full again');
	wait_for_log('small');
	is(query($node, $days, database => 'small'), 2, 'old days make room after a start');
}
$node->stop;
done_testing();
