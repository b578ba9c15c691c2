# snowflake_audit, and databases and schemas that get other names.
#
# takes: 35 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use AuditTest;
use SnowflakeTest;

my $node = audited_server('postgres, small, second, gone');

query($node, $_) for 'CREATE DATABASE small', 'CREATE DATABASE second', 'CREATE EXTENSION snowflake_audit CASCADE';

wait_until(q{problem = 'database "gone" does not exist'}, 'gone');
pass('a database that does not exist');

# ---- another schema of this name ----

{
	my $locker = $node->background_psql('postgres');
	my $written = query($node, 'SELECT count(*) FROM snowflake_audit.log');
	my $seen = q{(SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'), count(*) > } . $written . ' FROM moved.log';

	$locker->query_safe('BEGIN; SELECT FROM snowflake_audit.state FOR UPDATE');
	query($node, $next);
	worker_waits();
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
	query($node, 'DROP SCHEMA snowflake_audit CASCADE');
	query($node, $next);
	wait_until(q{problem LIKE 'the schema of extension snowflake_audit, or its table log, was renamed'}, undef, 'moved');
	query($node, 'ALTER SCHEMA moved RENAME TO snowflake_audit');
	wait_for_log();
	pass('then the status says that it was renamed');
}

# ---- a database that is made anew ----

{
	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	query($node, $next, database => 'small');
	wait_for_log('small');
	query($node, 'DROP DATABASE small WITH (FORCE)');
	query($node, 'CREATE DATABASE small');
	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	my $id = query($node, $next, database => 'small');

	wait_for_log('small');
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id = $id", database => 'small'), 1,
		'its first record, before there is a worker');
}

# ---- a database that gets the name of another one ----

# Run a command that needs a database without sessions: its worker is one.
sub without_sessions
{
	my ($database, $command) = @_;

	foreach (1 .. 1000)
	{
		my ($status) = $node->psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '$database'");

		($status) = $node->psql('postgres', $command);
		return if $status == 0;
	}
	die "no success: $command";
}

sub rename_database
{
	my ($from, $to) = @_;

	without_sessions($from, "ALTER DATABASE $from RENAME TO $to");
	return;
}

{
	query($node, 'DROP DATABASE second WITH (FORCE)');
	rename_database('small', 'second');
	my $before = query($node, $next, database => 'second');

	wait_until('pid IS NOT NULL', 'second');
	my $after = query($node, $next, database => 'second');

	wait_for_log('second');
	is(query($node, "SELECT count(*) FROM snowflake_audit.log WHERE first_id IN ($before, $after)", database => 'second'),
		2, 'its records are those of its new name');
	is(query($node, q{SELECT waiting FROM snowflake_audit.status() WHERE database = 'small'}), '0', 'and not of its old one, too');
	rename_database('second', 'small');
	wait_until('pid IS NOT NULL', 'small');
}

# ---- a copy that takes the place of a database ----

{
	query($node, $next, database => 'small');
	wait_for_log('small');
	without_sessions('small', 'CREATE DATABASE backup TEMPLATE small');
	my $lost = query($node, $next, database => 'small');

	wait_for_log('small');
	query($node, 'DROP DATABASE small WITH (FORCE)');
	query($node, 'ALTER DATABASE backup RENAME TO small');
	my $id = query($node, $next, database => 'small');

	wait_for_log('small');
	is(query($node, "SELECT dropped IS NULL FROM snowflake_audit.log WHERE first_id = $id", database => 'small'), 't',
		'its log does not know what is missing');
	like(query($node, "SELECT reason FROM snowflake_audit.who($lost)", database => 'small'),
		qr/^its record may have been lost: the server was started, or the database renamed or copied, before /, 'and says so');
}

# ---- records of a database that has another name now ----

{
	my $from = -s $node->logfile;
	my $written = query($node, q{SELECT written FROM snowflake_audit.status() WHERE database = 'small'});

	query($node, 'CREATE ROLE owner; ALTER TABLE snowflake_audit.state OWNER TO owner', database => 'small');
	query($node, "$next; $next", database => 'small');
	wait_until(q{problem LIKE 'a role that is no superuser owns%'}, 'small');
	rename_database('small', 'before');
	query($node, 'CREATE DATABASE small');
	query($node, 'CREATE EXTENSION snowflake_audit CASCADE', database => 'small');
	wait_for_log('small');
	is(query($node, q{SELECT written, dropped FROM snowflake_audit.status() WHERE database = 'small'}), "$written|2",
		'they count as dropped, not as written');
	like_log($node, qr/WARNING:  snowflake_audit has dropped 2 records of database "small"/, $from, 'and the log says so');
	my $id = query($node, $next, database => 'small');

	wait_for_log('small');
	is(query($node, 'SELECT first_id, dropped IS NULL FROM snowflake_audit.log', database => 'small'), "$id|t",
		'the new database has its own record alone');
}

# ---- lists of databases that cannot be meant ----

$node->stop;
foreach my $list ('app, my db', 'x' x 64)
{
	fails_to_start($node, "snowflake_audit.databases = '$list'",
		qr/FATAL:  invalid value for parameter "snowflake_audit.databases".*HINT:  Example/s, "a list of databases: $list");
}
$node->append_conf('postgresql.conf', qq{snowflake_audit.databases = 'postgres, "my db"'});
start_again();
is(query($node, 'SELECT database FROM snowflake_audit.status()'), "postgres\nmy db", 'a name with a blank');
$node->stop;
done_testing();
