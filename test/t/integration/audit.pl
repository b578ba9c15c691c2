# snowflake_audit: which transaction made which IDs, on good days and on bad ones.
#
# takes: 65 s
# needs: fault_points
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use FaultPoints;
use SnowflakeTest;

my $node = new_server('main', "shared_preload_libraries = 'snowflake_audit, snowflake'",
	"snowflake_audit.databases = 'postgres, other, postgres'", 'snowflake_audit.ring_size = 256',
	"snowflake.shards = '0-49'", 'max_prepared_transactions = 5', 'autovacuum = off', 'restart_after_crash = on');
# no day may end before the test of days
my $noon = until_noon();

start_with_clock($node, $noon);
query($node, $_) for 'CREATE DATABASE other', q{
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO PUBLIC;
	CREATE ROLE reader;
	ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader;
	ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO reader}, q{
	CREATE EXTENSION snowflake_audit CASCADE;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c text);
	CREATE ROLE alice LOGIN; GRANT INSERT ON t TO alice;
	CREATE ROLE monitor LOGIN IN ROLE pg_read_all_stats;
	CREATE ROLE nobody LOGIN IN ROLE reader};

# Wait until the log has all records that are complete.
sub wait_for_log
{
	my ($database) = @_;

	$database //= 'postgres';
	$node->poll_query_until('postgres', "SELECT waiting = 0 FROM snowflake_audit.status()
		WHERE database = '$database'") or die 'the log is not written';
	return;
}

# Return columns of what is said of an ID.
sub who
{
	my ($id, $columns, %options) = @_;

	return query($node, "SELECT $columns FROM snowflake_audit.who($id)", %options);
}

# Wait until a worker with another pid has begun, and return its pid.
sub worker
{
	my ($before) = @_;
	my $pid;

	$before //= 0;
	$node->poll_query_until('postgres', "SELECT coalesce(pid, 0) NOT IN (0, $before)
		FROM snowflake_audit.status() WHERE database = 'postgres'") or die 'no worker';
	return query($node, q{SELECT pid FROM snowflake_audit.status() WHERE database = 'postgres'});
}

# No number is in the log twice, and numbers grow with time.
sub check_log
{
	my ($name) = @_;

	is(query($node, 'SELECT count(*) - count(DISTINCT number),
		count(*) - count(DISTINCT (first_id, shard, layout)) FROM snowflake_audit.log'),
		'0|0', "$name: no record is there twice");
	return;
}

my $made = q{SELECT role, application_name, committed, xid IS NOT NULL, ids, first_id = %s, last_id = %s
	FROM snowflake_audit.log WHERE first_id = %1$s};

# ---- records ----

is(query($node, 'SELECT count(*) FROM snowflake_audit.status()'), 2, 'a database that is named twice has one worker');

{
	my $id = query($node, q{SET SESSION AUTHORIZATION alice; SET application_name = 'shop';
		INSERT INTO t (c) VALUES ('a'); SELECT snowflake_currval()});

	is(who($id, 'recorded, exact, role, application_name, committed, ids, node_id'),
		't|t|alice|shop|t|1|1', 'a transaction is known before it is in the log');
	wait_for_log();
	is(who($id, 'recorded, exact, role, application_name, committed, ids, node_id'),
		't|t|alice|shop|t|1|1', 'and there');
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id AND last_id = $id
		AND client_addr IS NULL AND xid IS NOT NULL AND shard IS NULL AND layout IS NULL"), 1,
		'the log has one row of it');
	is(who($id, 'pg_xact_status(xid), created_at <= ended_at'), 'committed|t', 'with its transaction');

	my $rolled_back = query($node, q{BEGIN; INSERT INTO t (c) VALUES ('b'); SELECT snowflake_currval(); ROLLBACK});

	is(who($rolled_back, 'recorded, committed'), 't|f', 'one that was rolled back');
	my $failed = query($node, q{SELECT snowflake_nextval() AS id \gset
		\echo :id
		SELECT snowflake_nextval() AS id \gset
		\echo :id});
	my ($first, $second) = split /\n/, $failed;

	isnt(who($first, 'ended_at'), who($second, 'ended_at'), 'each transaction has its record');

	my $ids = query($node, q{SELECT id FROM snowflake_nextval_batch(1000) AS id});
	my @ids = split /\n/, $ids;

	is(who($ids[0], 'ids, exact, last_id'), "1000|t|$ids[-1]", 'a batch: the first ID');
	is(who($ids[500], 'ids, exact, first_id, last_id'), "1000|f|$ids[0]|$ids[-1]", 'and one in the middle');

	my $rows = query($node, q{INSERT INTO t SELECT FROM generate_series(1, 3000) RETURNING id});

	@ids = split /\n/, $rows;
	is(who($ids[-1], 'ids, exact, first_id'), "3000|t|$ids[0]", 'one row by another: first, last and count');
	is(query($node, "COPY t (c) FROM PROGRAM 'seq 1 500'; SELECT snowflake_currval()") =~ /^\d+$/, 1, 'COPY');
	is(who(query($node, 'SELECT max(id) FROM t'), 'ids, exact, first_id = (SELECT min(id) FROM t WHERE c = \'1\')'),
		'500|t|t', 'COPY has its record');
}

# The commands of doc/audit.md.
{
	my $id = query($node, q{SET SESSION AUTHORIZATION alice; SET application_name = 'page';
		INSERT INTO t (c) VALUES ('a'); SELECT snowflake_currval()});
	my ($create, @queries) = slurp_file("$FindBin::RealBin/../../../doc/audit.md") =~ /```sql\n(.*?)```/gs;

	wait_for_log();
	like($create, qr/^CREATE EXTENSION snowflake_audit CASCADE;$/, 'the page creates the extension');
	s/\b383267329925976064\b/$id/ for @queries;
	like(query($node, $queries[0]), qr/^t\|t\|\|.*\|1\|alice\|page\|\|\d+\|t\|/, 'which server, role and application');
	like(query($node, $queries[1]), qr/^alice\|page\|\|1$/m, 'who made most IDs');
}

# Several sources in one transaction; the node's IDs of the usual path come before,
# between and after others.
{
	my $all = query($node, q{BEGIN;
		SELECT snowflake_nextval(); SELECT snowflake_nextval();
		SELECT snowflake_shard_nextval(7);
		SELECT snowflake_nextval(); SELECT snowflake_nextval();
		SELECT snowflake_nextval('javascript'); SELECT snowflake_nextval('javascript');
		SELECT snowflake_nextval(); SELECT snowflake_nextval();
		SAVEPOINT s; SELECT snowflake_shard_nextval(8); SELECT snowflake_nextval(); ROLLBACK TO s;
		SELECT * FROM snowflake_shard_nextval_batch(7, 3);
		COMMIT});
	my @id = split /\n/, $all;

	is(who($id[0], 'ids, first_id, last_id, shard IS NULL, layout IS NULL, committed'), "7|$id[0]|$id[10]|t|t|t",
		'the node\'s IDs of a mixed transaction');
	is(who($id[4], 'ids, first_id, last_id, exact'), "7|$id[0]|$id[10]|f", 'one between them');
	is(who($id[2], 'ids, first_id, last_id, shard'), "4|$id[2]|$id[13]|7", 'of a shard');
	is(who($id[9], 'ids, first_id, last_id, shard'), "1|$id[9]|$id[9]|8", 'of a shard whose subtransaction was rolled back');
	like(who($id[5], 'ids, last_id, layout'), qr/^2\|$id[6]\|timestamp:/, 'of a layout');
	is(query($node, "SELECT count(DISTINCT pid), count(*) FROM snowflake_audit.log JOIN
		(VALUES ($id[0]), ($id[2]), ($id[9]), ($id[5])) v (id) ON id = first_id") =~ /^[01]\|/, 1, 'by one process');

	query($node, 'BEGIN; SELECT snowflake_shard_nextval(s) FROM generate_series(0, 19) s; COMMIT');
	wait_for_log();
	is(query($node, 'SELECT count(*) FROM snowflake_audit.log WHERE shard BETWEEN 10 AND 19'), 6,
		'a transaction with 20 sources has 16 records');
	query($node, 'SELECT snowflake_nextval()');
	wait_for_log();
	is(query($node, 'SELECT dropped FROM snowflake_audit.log ORDER BY number DESC LIMIT 1'), 1,
		'and the others count as one that was dropped');
}

{
	my $id = query($node, q{BEGIN; INSERT INTO t (c) VALUES ('p'); SELECT snowflake_currval(); PREPARE TRANSACTION 'p'});

	is(who($id, 'committed IS NULL'), 't', 'a prepared transaction');
	query($node, q{COMMIT PREPARED 'p'});
	refused($node, 'SET default_transaction_read_only = on; SELECT snowflake_nextval()', '25006', qr/read-only/,
		'a read-only transaction makes nothing');
	wait_for_log();
	check_log('good days');
}

# ---- who may see it ----

foreach my $statement ('SELECT snowflake_audit.who(1)', 'SELECT * FROM snowflake_audit.log',
	'SELECT * FROM snowflake_audit.state', 'SELECT snowflake_audit.ring(0, 1)', 'SELECT snowflake_audit.status()',
	'SELECT * FROM snowflake_audit.log_p' . query($node, q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM_DD')}))
{
	refused($node, "SET SESSION AUTHORIZATION nobody; $statement", '42501', qr/permission denied/, "nobody: $statement");
}
is(query($node, 'SET SESSION AUTHORIZATION monitor; SELECT count(*) > 0 FROM snowflake_audit.log;
	SELECT recorded FROM snowflake_audit.who((SELECT min(first_id) FROM snowflake_audit.log))'), "t\nt",
	'a member of pg_read_all_stats sees it');
refused($node, 'SET SESSION AUTHORIZATION monitor; DELETE FROM snowflake_audit.log', '42501', qr/permission denied/,
	'and changes nothing');

# ---- an enemy who may create functions beside ours ----

{
	my $partitions = q{SELECT count(*) FROM snowflake_partitions('snowflake_audit.log', 'snowflake')};

	query($node, q{
		CREATE ROLE mallory LOGIN;
		GRANT CREATE ON SCHEMA public TO mallory;
		SET SESSION AUTHORIZATION mallory;
		CREATE FUNCTION snowflake_create_partitions(regclass, text, timestamptz, timestamptz, text)
		RETURNS SETOF regclass LANGUAGE plpgsql AS $$
		BEGIN
			ALTER ROLE mallory SUPERUSER;
			RETURN;
		END $$});
	# the worker makes tomorrow's partition again
	query($node, q{SELECT max(partition::text) AS last FROM snowflake_partitions('snowflake_audit.log', 'snowflake') \gset
		ALTER EXTENSION snowflake_audit DROP TABLE :last;
		DROP TABLE :last;
		SELECT pg_reload_conf()});
	$node->poll_query_until('postgres', "SELECT ($partitions) = 2 OR rolsuper FROM pg_roles WHERE rolname = 'mallory'")
	  or fail('tomorrow has no partition');
	is(query($node, q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f',
		'the worker calls no function but ours');
	query($node, q{ALTER ROLE mallory NOSUPERUSER;
		DROP FUNCTION snowflake_create_partitions(regclass, text, timestamptz, timestamptz, text)});
}

# ---- an enemy who owns the schemas ----

{
	query($node, 'CREATE DATABASE trap; GRANT CREATE ON DATABASE trap TO mallory');
	query($node, 'CREATE EXTENSION snowflake; CREATE SCHEMA snowflake_audit AUTHORIZATION mallory', database => 'trap');
	refused($node, 'CREATE EXTENSION snowflake_audit', '55000', qr/exists, and is not an empty one where only its owner, a superuser, may create/,
		'a schema of somebody else', database => 'trap');
	query($node, 'ALTER SCHEMA snowflake_audit OWNER TO CURRENT_USER; GRANT CREATE ON SCHEMA snowflake_audit TO mallory', database => 'trap');
	refused($node, 'CREATE EXTENSION snowflake_audit', '55000', qr/where only its owner, a superuser, may create/,
		'one in which somebody may create', database => 'trap');
	query($node, 'REVOKE CREATE ON SCHEMA snowflake_audit FROM mallory', database => 'trap');
	query($node, 'CREATE EXTENSION snowflake_audit', database => 'trap');
	is(query($node, 'SELECT recorded FROM snowflake_audit.who(1)', database => 'trap'), 'f', 'an empty one will do');
	query($node, 'DROP DATABASE trap');

	# since 15 the schema public belongs to the owner of the database
	query($node, q{GRANT CREATE ON DATABASE postgres TO mallory; ALTER SCHEMA public OWNER TO mallory;
		SET SESSION AUTHORIZATION mallory;
		ALTER SCHEMA public RENAME TO moved;
		CREATE SCHEMA public;
		CREATE FUNCTION public.snowflake_min_id(timestamptz, text) RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
			ALTER ROLE mallory SUPERUSER;
			RETURN 1;
		END $$;
		CREATE FUNCTION public.snowflake_create_partitions(regclass, interval, timestamptz, timestamptz, text)
		RETURNS SETOF regclass LANGUAGE plpgsql AS $$
		BEGIN
			ALTER ROLE mallory SUPERUSER;
			RETURN;
		END $$});
	my $id = query($node, 'SELECT moved.snowflake_nextval()');

	wait_for_log();
	query($node, 'SELECT pg_reload_conf()');
	is(who($id, 'exact'), 't', 'the worker finds its functions where the owner of their schema has put them');
	is(query($node, q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'and runs no others');
	query($node, q{ALTER ROLE mallory NOSUPERUSER; DROP SCHEMA public CASCADE; ALTER SCHEMA moved RENAME TO public});
	refused($node, 'SET SESSION AUTHORIZATION mallory; CREATE RULE r AS ON INSERT TO snowflake_audit.log DO ALSO SELECT 1',
		'42501', qr/permission denied for schema snowflake_audit/, 'nobody else reaches the log');
}

# ---- not recorded ----

{
	my $old = query($node, q{SELECT snowflake_compose(now() - interval '1 day', 1, 0)});
	my $foreign = query($node, q{SELECT snowflake_compose(max(ended_at), 77, 0) FROM snowflake_audit.log});

	like(who($old, 'reason'), qr/^read in the configured layout, it is older than the log, which begins at/, 'older than the log');
	like(who($foreign, 'reason'), qr/^node 77 has no record within an hour of it: another server made it/, 'of another server');
	like(who(query($node, q{SELECT snowflake_compose(now() + interval '1 min', 1, 0)}), 'reason'),
		qr/^the newest record is of/, 'not made yet');
	is(who($_, 'recorded, exact'), 'f|f', "of $_") for -1, 0, 9223372036854775807;

	my $session = $node->background_psql('postgres');
	my $id = $session->query_safe('BEGIN; SELECT snowflake_nextval()');

	query($node, 'SELECT snowflake_nextval()');
	wait_for_log();
	like(who($id, 'reason'), qr/^no record holds it: its transaction still runs/, 'of a running transaction');
	$session->query_safe('COMMIT');
	is(who($id, 'exact'), 't', 'until it ends');
	$session->quit;
}

# ---- a locked log, and a full ring ----

{
	my $locker = $node->background_psql('postgres');

	wait_for_log();
	my $numbers = query($node, 'SELECT max(number) FROM snowflake_audit.log');

	$locker->query_safe('BEGIN; LOCK TABLE snowflake_audit.log');
	$node->pgbench('-n -t 100 -c 4', 0, [qr/processed: 400\/400/], [qr/^$/], 'calls while the log is locked',
		{ 'audit.sql' => 'SELECT snowflake_nextval()' });
	is(query($node, q{SELECT waiting, ring_size FROM snowflake_audit.status() WHERE database = 'postgres'}), '256|256',
		'the ring is full');
	my $lost = query($node, 'SELECT snowflake_nextval()');

	$locker->query_safe('ROLLBACK');
	$locker->quit;
	wait_for_log();
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE number > $numbers"), 256, 'what was in it is written');
	like(who($lost, 'reason'), qr/^the newest record is of/, 'a dropped record');
	query($node, 'SELECT snowflake_nextval()');
	wait_for_log();
	# a session that has taken one of the last positions may count what others drop meanwhile
	is(query($node, "SELECT sum(dropped) FROM snowflake_audit.log WHERE number > $numbers"), 145, 'the log counts what was dropped');
	like(who($lost, 'reason'), qr/^its record may be one of the 14[2-5] that were dropped before/, 'and who() says it');
	check_log('a full ring');
}

# Many sessions, while the worker runs and while it stands still: what has no record
# is counted as dropped.
foreach my $still (0, 1)
{
	my $number = query($node, 'TRUNCATE t; SELECT max(number) FROM snowflake_audit.log');
	my $pid = worker();

	kill 'STOP', $pid if $still;
	$node->pgbench('-n -t 150 -c 8', 0, [qr/processed: 1200\/1200/], [qr/^$/],
		$still ? 'calls while the worker stands still' : 'calls of many sessions',
		{ "insert$still.sql" => 'INSERT INTO t DEFAULT VALUES' });
	kill 'CONT', $pid if $still;
	wait_for_log();
	query($node, 'SELECT snowflake_nextval()');
	wait_for_log();
	my ($missing, $dropped) = split /\|/, query($node, "SELECT count(*) FILTER (WHERE number IS NULL),
		(SELECT coalesce(sum(dropped), 0) FROM snowflake_audit.log WHERE number > $number)
		FROM t LEFT JOIN snowflake_audit.log ON first_id = id AND last_id = id AND ids = 1 AND role = current_user");

	is($missing, $dropped, 'what has no record is counted');
	is($missing, 1200 - 256, 'a full ring') if $still;
	check_log('many sessions');
}

# ---- the worker ends between write and release ----

{
	my $pid = worker();

	query($node, q{ALTER SYSTEM SET snowflake.fault = 'audit-written exit'});
	query($node, 'SELECT pg_reload_conf()');
	my $ids = query($node, 'SELECT snowflake_nextval()');

	$node->poll_query_until('postgres', q{SELECT pid IS NULL FROM snowflake_audit.status() WHERE database = 'postgres'})
	  or die 'the worker goes on';
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $ids"), 1, 'it is written');
	is(query($node, q{SELECT waiting > 0 FROM snowflake_audit.status() WHERE database = 'postgres'}), 't', 'and not released');
	is(who($ids, 'exact'), 't', 'and known once');
	query($node, 'ALTER SYSTEM RESET snowflake.fault');
	query($node, 'SELECT pg_reload_conf()');
	my $next = query($node, 'SELECT snowflake_nextval()');

	worker($pid);
	wait_for_log();
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id IN ($ids, $next)"), 2, 'nothing is lost');
	check_log('a worker that ended');

	# a session that is frozen while it writes its record
	my $frozen = start_one($node, 'audit-taken stop', \my $out, \my $err, 'SELECT snowflake_nextval()');
	my $frozen_pid = wait_for_stopped($node, 'SELECT snowflake_nextval()');

	query($node, 'SELECT snowflake_nextval()');
	$node->poll_query_until('postgres', q{SELECT problem = 'a session stands still while it writes its record'
		FROM snowflake_audit.status() WHERE database = 'postgres'}) or die 'the status says nothing';
	go_on($frozen, $frozen_pid);
	wait_for_log();
	is(who($out, 'exact'), 't', 'a session that stood still has its record');

	$pid = worker();
	query($node, "SELECT pg_terminate_backend($pid)");
	$next = query($node, 'SELECT snowflake_nextval()');
	worker($pid);
	wait_for_log();
	is(who($next, 'exact'), 't', 'a worker that was terminated');
	check_log('a worker that was terminated');
}

# ---- crashes and restarts ----

{
	my $number = query($node, 'SELECT max(number) FROM snowflake_audit.log');
	my $id = query($node, 'SELECT snowflake_nextval()');

	wait_for_log();
	crash($node, 'background writer');
	my $next = query($node, 'SELECT snowflake_nextval()');

	worker();
	wait_for_log();
	is(query($node, "SELECT number - $number, dropped IS NULL, first_id FROM snowflake_audit.log WHERE number > $number ORDER BY 1"),
		"1|f|$id\n2|t|$next", 'after a crash the numbers go on, and the log says that it does not know');
	my $between = query($node, "SELECT snowflake_compose(ended_at, 1, 4000) FROM snowflake_audit.log WHERE first_id = $id");

	like(who($between, 'reason'), qr/^its record may have been lost: the server was started, or the database renamed or copied, before/, 'and so does who()');
	like(who(query($node, "SELECT snowflake_compose(ended_at, 77, 0) FROM snowflake_audit.log WHERE first_id = $id"), 'reason'),
		qr/^node 77 has no record within an hour of it: another server made it/, 'but not of an ID of another server');

	$node->stop('immediate');
	start_by_clock($node, SnowflakeTest::clock_file($node));
	$id = query($node, 'SELECT snowflake_nextval()');
	worker();
	wait_for_log();
	is(who($id, 'exact'), 't', 'after an immediate stop');

	$id = query($node, 'SELECT snowflake_nextval()');
	$node->stop;
	start_by_clock($node, SnowflakeTest::clock_file($node));
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id"), 1, 'a clean stop writes what there is');
	check_log('restarts');
}

# ---- days ----

{
	my $partitions = q{SELECT count(*) FROM snowflake_partitions('snowflake_audit.log', 'snowflake')};
	my $id = query($node, 'SELECT snowflake_nextval()');

	worker();
	wait_for_log();
	is(query($node, $partitions), 2, 'there are the partitions of today and tomorrow');
	$node->stop;
	set_clock($node, $noon + 6 * 86400);
	start_by_clock($node, SnowflakeTest::clock_file($node));
	query($node, 'SELECT snowflake_nextval()');
	worker();
	$node->poll_query_until('postgres', "SELECT ($partitions) = 4") or fail('partitions');
	is(who($id, 'exact'), 't', 'after 6 days it is known');
	$node->stop;
	set_clock($node, $noon + 9 * 86400);
	start_by_clock($node, SnowflakeTest::clock_file($node));
	query($node, 'SELECT snowflake_nextval()');
	worker();
	wait_for_log();
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id"), 1, 'one look at the clock drops no day');
	query($node, 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM snowflake_audit.log WHERE first_id = $id")
	  or fail('the day is not dropped');
	like(who($id, 'reason'), qr/^read in the configured layout, it is older than the log/, 'after 9 days it is not');
}

# ---- another database, which is dropped while it is audited ----

{
	my $id = query($node, 'CREATE EXTENSION snowflake_audit CASCADE; SELECT snowflake_nextval()', database => 'other');

	wait_for_log('other');
	is(who($id, 'exact', database => 'other'), 't', 'another database has a log of its own');
	like(who($id, 'recorded'), qr/^f/, 'which is not in this one');
	query($node, 'DROP DATABASE other WITH (FORCE)');
	my $mine = query($node, 'SELECT snowflake_nextval()');

	is(who($mine, 'exact'), 't', 'when it is dropped, others are audited');
}

# ---- an enemy who owns the log ----

{
	my $offset = -s $node->logfile;

	query($node, 'ALTER TABLE snowflake_audit.state OWNER TO alice');
	my $id = query($node, 'SELECT snowflake_nextval()');

	$node->poll_query_until('postgres', "SELECT pg_read_file('@{[ $node->logfile ]}', $offset, 10000000)
		~ 'a role that is no superuser owns a part of extension snowflake_audit'") or fail('not refused');
	query($node, 'ALTER TABLE snowflake_audit.state OWNER TO CURRENT_USER');
	wait_for_log();
	is(who($id, 'exact'), 't', 'what others own is not used; given back, the log goes on');

	$offset = -s $node->logfile;
	query($node, 'DELETE FROM snowflake_audit.state');
	$id = query($node, 'SELECT snowflake_nextval()');
	$node->poll_query_until('postgres', "SELECT pg_read_file('@{[ $node->logfile ]}', $offset, 10000000)
		~ 'snowflake_audit.state of database \"postgres\" has no row'") or fail('no message');
	my ($remedy) = slurp_file($node->logfile, $offset) =~ /Run there: (INSERT INTO snowflake_audit\.state [^;]*;)/ or fail('no remedy');

	query($node, $remedy);
	wait_for_log();
	is(who($id, 'exact'), 't', 'likewise after the remedy for a lost state');
	check_log('a lost state');
}

# ---- publications, triggers, and clocks ----

{
	query($node, q{CREATE PUBLICATION everything FOR ALL TABLES});
	my $id = query($node, 'SELECT snowflake_nextval()');

	wait_for_log();
	is(who($id, 'exact'), 't', 'all tables are published');
	query($node, q{DROP PUBLICATION everything;
		CREATE TABLE copy (id bigint DEFAULT snowflake_nextval(), first_id bigint);
		CREATE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN INSERT INTO public.copy (first_id) VALUES (NEW.first_id); RETURN NULL; END $$;
		CREATE TRIGGER copy AFTER INSERT ON snowflake_audit.log FOR EACH ROW EXECUTE FUNCTION copy()});
	$id = query($node, 'SELECT snowflake_nextval()');
	wait_for_log();
	is(query($node, "SELECT count(*) FILTER (WHERE first_id = $id), count(*) FROM copy"), '1|1', 'IDs of the log\'s own triggers are not recorded');
	query($node, 'DROP TRIGGER copy ON snowflake_audit.log; DROP FUNCTION copy; DROP TABLE copy');

	# Since the test of days the clock is 9 days ahead. A transaction ends under a clock
	# that is years behind, and another one under a clock that is years ahead.
	foreach my $offset ('-1500d', '+36500d')
	{
		my $session = $node->background_psql('postgres');

		$id = $session->query_safe('BEGIN; SELECT snowflake_nextval()');
		set_clock($node, $offset);
		$session->query_safe('COMMIT');
		set_clock($node, $noon + 9 * 86400);
		$session->quit;
		wait_for_log();
		is(who($id, 'exact'), 't', "a transaction that ended at $offset");
	}

	# the first call of a transaction fails, the next one does not
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query('SELECT snowflake_nextval()');
	$session->query('BEGIN; SAVEPOINT s');
	set_clock($node, $noon + 9 * 86400 - 20);
	$session->query('SELECT snowflake_nextval()');
	set_clock($node, $noon + 9 * 86400);
	$id = $session->query('ROLLBACK TO s; SELECT snowflake_nextval()');
	$session->query('COMMIT');
	$session->quit;
	is(who($id, 'exact'), 't', 'a transaction whose first call failed');

	# a layout without a node
	$node->append_conf('postgresql.conf', "snowflake.node_id = '0'");
	$node->stop;
	start_by_clock($node, SnowflakeTest::clock_file($node));
	$id = query($node, q{SELECT snowflake_nextval('mastodon')});
	is(who($id, 'exact, node_id IS NULL'), 't|t', 'of a layout without a node');
	worker();
	wait_for_log();
	is(who($id, 'exact, node_id IS NULL'), 't|t', 'also when it is written');
	$node->append_conf('postgresql.conf', "snowflake.node_id = '1'");
	$node->stop;
	start_by_clock($node, SnowflakeTest::clock_file($node));
	worker();
}

# ---- promotion ----

{
	$node->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new('standby');

	$standby->init_from_backup($node, 'copy', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "snowflake.node_id = '2'");
	start_by_clock($standby, SnowflakeTest::clock_file($node));
	my $before = query($node, 'SELECT snowflake_nextval()');

	wait_for_log();
	$node->wait_for_catchup($standby);
	is(query($standby, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake audit'}), 0,
		'a standby has no worker');
	is(query($standby, "SELECT exact FROM snowflake_audit.who($before)"), 't', 'but the log');
	$node->stop('immediate');
	$standby->promote;
	my $after = query($standby, 'SELECT snowflake_nextval()');

	$standby->poll_query_until('postgres', "SELECT count(*) = 1 FROM snowflake_audit.log WHERE first_id = $after")
	  or fail('the promoted standby writes no log');
	is(query($standby, "SELECT dropped IS NULL FROM snowflake_audit.log WHERE first_id = $after"), 't',
		'after a promotion the log goes on, and does not know what was lost');
	is(query($standby, "SELECT node_id FROM snowflake_audit.who($before) UNION ALL SELECT node_id FROM snowflake_audit.who($after)"),
		"1\n2", 'which server made an ID');
	is(query($standby, 'SELECT count(*) - count(DISTINCT number) FROM snowflake_audit.log'), 0, 'with one number each');
	$standby->stop;
	start_by_clock($node, SnowflakeTest::clock_file($node));
}

# ---- a dump, restored into a database that is audited ----

{
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
	query($node, 'CREATE DATABASE other');
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('other') ],
		'its restore');
	my $id = query($node, 'SELECT snowflake_nextval()', database => 'other');

	wait_for_log('other');
	is(query($node, 'SELECT count(*), min(first_id), min(number) FROM snowflake_audit.log', database => 'other'), "1|$id|1",
		'begins a log of its own');
}

# ---- without the extension, or the library ----

{
	query($node, 'DROP EXTENSION snowflake_audit');
	is(query($node, q{SELECT count(*) FROM pg_class WHERE relnamespace = 'snowflake_audit'::regnamespace}), 0, 'DROP EXTENSION drops the log');
	$node->pgbench('-n -t 300 -c 2', 0, [qr/processed: 600\/600/], [qr/^$/], 'calls without the extension',
		{ 'audit2.sql' => 'SELECT snowflake_nextval()' });
	query($node, 'CREATE EXTENSION snowflake_audit');
	wait_for_log();
	is(query($node, 'SELECT count(*) FROM snowflake_audit.log'), 256, 'the ring is written when it is there again');
	my $pid = worker();

	query($node, 'DROP EXTENSION snowflake_audit; CREATE EXTENSION snowflake_audit; SELECT snowflake_nextval()');
	wait_for_log();
	is(worker(), $pid, 'and by the same worker if that is made anew');
	$node->stop;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'");
	start_by_clock($node, SnowflakeTest::clock_file($node));
	my $id = query($node, 'SELECT snowflake_nextval()');

	is(query($node, 'SELECT count(*) FROM snowflake_audit.status()'), 0, 'without the library nothing is audited');
	is(who($id, 'recorded'), 'f', 'and who() finds nothing');
}
$node->stop;
done_testing();
