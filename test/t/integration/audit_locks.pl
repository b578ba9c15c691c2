# snowflake_audit, and roles that lock what its worker needs.
#
# takes: 45 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use AuditTest;
use SnowflakeTest;

my $node = audited_server('postgres');
my $today = q{SELECT partition FROM snowflake_partitions('snowflake_audit.log', 'snowflake') WHERE now() >= from_time AND now() < until_time};
my $tomorrow = q{SELECT partition FROM snowflake_partitions('snowflake_audit.log', 'snowflake') WHERE from_time > now()};

query($node, q{
	CREATE EXTENSION snowflake_audit CASCADE;
	CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats});
query($node, $next);
wait_for_log();
is(query($node, 'SELECT count(*) FROM snowflake_audit.log'), 1, 'the log is written');

# Make the partition of a day that is over, as a part of the extension; return its name.
sub make_old_day
{
	return query($node, q{SELECT count(*) AS n FROM snowflake_create_partitions('snowflake_audit.log', '1 day',
			now() - interval '40 days', now() - interval '959 hours', 'snowflake') \gset
		SELECT min(partition::text) AS day FROM snowflake_partitions('snowflake_audit.log', 'snowflake') \gset
		ALTER EXTENSION snowflake_audit ADD TABLE :day;
		SELECT :'day'});
}

# Let the worker look after the days. Where nothing else changes, wait for that.
sub look_at_days
{
	query($node, 'SELECT pg_reload_conf()');
	return;
}

sub look_and_wait
{
	my $seen = q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'snowflake audit'};
	my $change;

	wait_for_log();
	$change = query($node, $seen);
	look_at_days();
	$node->poll_query_until('postgres', "SELECT ($seen AND state = 'idle') <> '$change'") or die 'the worker does not look';
	return;
}

# ---- an ordinary role ----

{
	my $other = $node->background_psql('postgres');

	query($node, 'CREATE ROLE other LOGIN');
	my $old = make_old_day();
	drop_partitions('from_time > now()');
	$other->query_safe('SET SESSION AUTHORIZATION other');
	$other->query_safe(q{CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE sql AS ''});
	$other->query_safe('BEGIN; ALTER FUNCTION pg_temp.f() DEPENDS ON EXTENSION snowflake_audit');
	query($node, $next);
	wait_for_log();
	pass('a role locks the extension: the log is written');
	look_at_days();
	$node->poll_query_until('postgres', "SELECT to_regclass('$old') IS NULL AND ($tomorrow) IS NOT NULL")
	  or die 'no day is made: ' . query($node, 'SELECT snowflake_audit.status()');
	pass('days are made and dropped');
	$other->query_safe('COMMIT');
	query($node, $next);
	wait_for_log();
	pass('a function of a role depends on the extension: the log is written');
	look_at_days();
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = ($tomorrow)
		AND refclassid = 'pg_extension'::regclass AND deptype = 'e'") or die 'the day is no part of the extension';
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

	# a day that is no part of the extension
	my $day = query($node, $today);
	query($node, "ALTER EXTENSION snowflake_audit DROP TABLE $day; ALTER TABLE $day OWNER TO another");
	query($node, $next);
	my $from = -s $node->logfile;

	wait_until(q{problem LIKE 'a role that is no superuser owns partition%'});
	like_log($node, qr/HINT:.*OWNER TO CURRENT_USER/, $from, 'a day that another role owns');
	my ($remedy) = slurp_file($node->logfile, $from) =~ /run there: (ALTER TABLE snowflake_audit\.log_.*?;)/ or die 'no remedy';
	query($node, $remedy);
	wait_for_log();
	pass('nothing is written until the remedy is typed');
	look_at_days();
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = '$day'::regclass
		AND refclassid = 'pg_extension'::regclass AND deptype = 'e'") or die 'the day is no part of the extension';
}

# ---- somebody uses a day that is to be dropped ----

{
	my $old = make_old_day();
	my $reader = $node->background_psql('postgres');
	my $from = -s $node->logfile;

	$reader->query_safe("BEGIN; SELECT count(*) FROM $old");
	# one look may have found a vacuum
	look_and_wait();
	look_at_days();
	like_log($node, qr/WARNING:  snowflake_audit has not dropped old days of the log of database "postgres".*HINT:.*pg_terminate_backend/s,
		$from, 'the worker says so');
	my ($remedy) = slurp_file($node->logfile, $from) =~ /Run there: (SELECT pid, .*?;)/ or die 'no remedy';
	like(query($node, $remedy), qr/^\d+\|\Q$old\E\|AccessShareLock$/m, 'and how to find who it is');
	like($reader->query_safe('SELECT count(*) FROM snowflake_audit.log'), qr/^\d+$/, 'and nobody waits for it');
	$reader->query_safe('COMMIT');
	$reader->quit;
	look_at_days();
	$node->poll_query_until('postgres', "SELECT to_regclass('$old') IS NULL") or die 'the day is not dropped';

	# somebody has locked a view on it
	$old = make_old_day();
	$reader = $node->background_psql('postgres');
	query($node, "CREATE VIEW public.old AS SELECT * FROM $old");
	$reader->query_safe(q{BEGIN; COMMENT ON VIEW public.old IS 'locked'});
	my $pid = query($node, 'SELECT pid FROM snowflake_audit.status()');
	look_and_wait();
	is(query($node, "SELECT pid, to_regclass('$old') IS NULL FROM snowflake_audit.status()"), "$pid|f", 'a view on it is locked: it stays');
	my ($remedy_of_view) = slurp_file($node->logfile, $from) =~ /Run there: (SELECT pid, .*?;)/ or die 'no remedy';
	like(query($node, $remedy_of_view), qr/^\d+\|old\|/m, 'and the query of the log finds who it is');
	$reader->query_safe('COMMIT');
	$reader->quit;
	look_at_days();
	$node->poll_query_until('postgres', "SELECT to_regclass('$old') IS NULL") or die 'the day is not dropped';

	# a day that could not be made a part of the extension at once, and is used then
	drop_partitions('from_time > now()');
	query($node, q{SELECT count(*) FROM snowflake_create_partitions('snowflake_audit.log', '1 day', now(), now() + interval '1 day', 'snowflake')});
	my $day = query($node, $tomorrow);
	my $analyze = $node->background_psql('postgres');
	$analyze->query_safe("BEGIN; ANALYZE $day");
	# the last part of a look, too
	look_and_wait() for 1, 2;
	is(query($node, "SET statement_timeout = '5s'; SELECT count(*) > 0 FROM snowflake_audit.log; SELECT pid FROM snowflake_audit.status()"),
		"t\n$pid", 'a day that is used is no part of the extension yet, and nobody waits for that');
	$analyze->query_safe('COMMIT');
	$analyze->quit;
	later(61);
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = '$day'::regclass
		AND refclassid = 'pg_extension'::regclass AND deptype = 'e'") or die 'the day is no part of the extension';
}

# ---- a reader keeps the worker from making a day ----

{
	my $reader = $node->background_psql('postgres');

	wait_until('pid IS NOT NULL');
	drop_partitions();
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
	drop_partitions('from_time > now()');
	query($node, q{CREATE FUNCTION public.no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no DDL here'; END $$;
		CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION public.no_ddl()});
	look_at_days();
	wait_until(q{problem = 'no DDL here'});
	query($node, $next);
	wait_until('waiting = 0');
	pass('tomorrow cannot be made: the log of today is written');
	query($node, 'ALTER EVENT TRIGGER no_ddl DISABLE');
	later(122);
	$node->poll_query_until('postgres', "SELECT ($tomorrow) IS NOT NULL") or die 'tomorrow is not made';
	pass('and a minute later the worker tries again');
	drop_partitions();
	query($node, 'ALTER EVENT TRIGGER no_ddl ENABLE');
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

# ---- a day that cannot be dropped ----

{
	my $old = make_old_day();
	my $from = -s $node->logfile;

	drop_partitions('from_time > now()');
	query($node, 'CREATE EVENT TRIGGER no_drop ON sql_drop EXECUTE FUNCTION public.no_ddl()');
	look_at_days();
	$node->poll_query_until('postgres', "SELECT ($tomorrow) IS NOT NULL") or die 'tomorrow is not made';
	like_log($node, qr/WARNING:  snowflake_audit cannot drop \Q$old\E in database "postgres": no DDL here/, $from,
		'a day that cannot be dropped keeps no other day from being made');
	query($node, 'DROP EVENT TRIGGER no_drop');
	look_at_days();
	$node->poll_query_until('postgres', "SELECT to_regclass('$old') IS NULL") or die 'the day is not dropped';
}

# ---- a DROP EXTENSION that waits for a reader ----

# It has locked the extension and today's day, and not yet the log.
{
	my $from = -s $node->logfile;
	my $reader = $node->background_psql('postgres');
	my $drop = $node->background_psql('postgres');

	foreach my $table ('log', 'state')
	{
		query($node, "ALTER EXTENSION snowflake_audit $_ TABLE snowflake_audit.$table") for 'DROP', 'ADD';
	}
	$reader->query_safe('BEGIN; SELECT count(*) FROM ' . query($node, $tomorrow));
	$drop->query_until(qr/dropping/, "\\echo dropping\nDROP EXTENSION snowflake_audit;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted})
	  or die 'DROP EXTENSION does not wait';
	query($node, $next);
	like_log($node, qr/ERROR:  canceling statement due to lock timeout/, $from, 'the worker gives way to a DROP EXTENSION');
	$reader->query_safe('COMMIT');
	is($drop->query('SELECT count(*) FROM pg_extension WHERE extname = \'snowflake_audit\''), '0', 'which succeeds');
	$_->quit for $reader, $drop;
}
$node->stop;
done_testing();
