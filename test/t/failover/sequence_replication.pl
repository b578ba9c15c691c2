# Logical replication of sequences, from PostgreSQL 19 on. FOR ALL SEQUENCES includes
# the mark and the config record, and cannot leave them out. A subscriber keeps its own
# mark and record. If it has none, it takes the publisher's.
#
# takes: 20 s
# needs: server_19
use SnowflakeTest;

my $create = q{CREATE EXTENSION snowflake;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())};
my @logical = ('wal_level = logical', 'wal_retrieve_retry_interval = 100ms');

sub registers
{
	my ($node, $database) = @_;

	return query($node, q{SELECT string_agg(coalesce(last_value, 0)::text, ' ' ORDER BY sequencename)
		FROM pg_sequences WHERE sequencename LIKE 'snowflake\_}
		  . ($_[2] // 'recorded') . q{%'}, database => $database);
}

sub mark
{
	return registers(@_, 'mark');
}

# Wait until all sequences have been copied.
sub wait_for_sequences
{
	my ($node, $database) = @_;

	$node->poll_query_until($database, q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel r
		JOIN pg_class c ON c.oid = srrelid WHERE relkind = 'S'})
	  or die 'the sequences are not copied';
	return;
}

sub subscribe
{
	my ($node, $database, $publisher) = @_;

	query($node, sprintf(q{CREATE SUBSCRIPTION %s CONNECTION '%s dbname=postgres' PUBLICATION everything},
			$node->name . "_$database", $publisher->connstr), database => $database);
	wait_for_sequences($node, $database);
	return;
}

sub refresh
{
	my ($node, $database) = @_;

	query($node, sprintf('ALTER SUBSCRIPTION %s REFRESH SEQUENCES',
			$node->name . "_$database"), database => $database);
	wait_for_sequences($node, $database);
	return;
}

my $blue = new_server('blue', @logical);
$blue->start;
query($blue, "$create; CREATE PUBLICATION everything FOR ALL TABLES, ALL SEQUENCES");
query($blue, 'INSERT INTO orders DEFAULT VALUES');

# ---- the same layout ----

my $green = new_server('green', @logical, "snowflake.node_id = '2'");
$green->start;
query($green, 'CREATE DATABASE bare');
query($green, 'CREATE TABLE orders (id bigint PRIMARY KEY)', database => 'bare');
refused($green, sprintf(q{CREATE SUBSCRIPTION bare CONNECTION '%s dbname=postgres' PUBLICATION everything},
		$blue->connstr), '3F000', qr/schema "snowflake_state" does not exist/,
	'the subscriber has to have the extension', database => 'bare');

query($green, $create);
subscribe($green, 'postgres', $blue);
is(registers($green, 'postgres'), registers($blue, 'postgres'),
	'a database without a record takes that of the publisher');
is(mark($green, 'postgres'), mark($blue, 'postgres'), 'and its mark');

# the last IDs of the old server are below the first ones of the new server
query($blue, q{SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + interval '2 s'))});
refresh($green, 'postgres');
is(mark($green, 'postgres'), mark($blue, 'postgres'), 'a later mark is taken');
cmp_ok(epoch_ms(query($green, 'INSERT INTO orders DEFAULT VALUES RETURNING id')),
	'>=', mark($blue, 'postgres'), 'the first ID of the new server is not below it');

# now the new server's mark is the later one
my $mark = mark($green, 'postgres');
cmp_ok($mark, '>', mark($blue, 'postgres'), 'the mark of the new server is the later one');
refresh($green, 'postgres');
is(mark($green, 'postgres'), $mark, 'an earlier mark does not put it back');
$green->stop('immediate');
$green->start;
refresh($green, 'postgres');
cmp_ok(mark($green, 'postgres'), '>=', $mark,
	'nor where nobody has asked for an ID since the server started');
query($green, 'INSERT INTO orders DEFAULT VALUES');

# The worker is stopped after it has written the mark. It waits for a sequence that it
# reaches later.
my $worker = q{SELECT max(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
	WHERE backend_type LIKE '%sequencesync%' AND locktype = 'relation' AND NOT granted};

# Stop a worker of the database "postgres" when it has written something, as the given
# function says. Return false if it never has.
sub stop_worker
{
	my ($node, $has_written) = @_;
	my $stopped;

	foreach my $sequence (split /\n/, query($node, q{SELECT c.oid::regclass FROM pg_class c
		WHERE relkind = 'S' AND relname <> 'snowflake_mark'}))
	{
		my $session = $node->background_psql('postgres');
		my $from = -s $node->logfile;

		$session->query_safe("BEGIN; ALTER SEQUENCE $sequence START 1");
		query($node, sprintf('ALTER SUBSCRIPTION %s_postgres REFRESH SEQUENCES', $node->name));
		$node->poll_query_until('postgres', "SELECT ($worker) IS NOT NULL") or die;
		$stopped = $has_written->() ? query($node, $worker) : 0;
		if ($stopped)
		{
			# at its end, too, the worker may wait for the lock
			query($node, "SELECT pg_terminate_backend($stopped)");
			like_log($node, qr/\[$stopped\] FATAL:  terminating logical replication worker/, $from,
				'a worker is stopped');
		}
		$session->query_safe('ROLLBACK');
		$session->quit;
		last if $stopped;
		wait_for_sequences($node, 'postgres');
	}
	$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $stopped)") or die;
	return $stopped;
}

$mark = mark($green, 'postgres');
ok(stop_worker($green, sub { mark($green, 'postgres') < $mark }), 'a worker was stopped between two sequences');
wait_for_sequences($green, 'postgres');
is(mark($green, 'postgres'), $mark, 'the mark is what it was before, and the next worker keeps it');

# ---- sessions make IDs meanwhile ----

# The mark moves while the worker waits for the publisher.
my $holder = begin_session($blue, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_recorded_layout OWNER TO CURRENT_USER');
query($green, 'ALTER SUBSCRIPTION green_postgres REFRESH SEQUENCES');
$blue->poll_query_until('postgres', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
query($green, q{SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + interval '2 s'));
	SELECT snowflake_nextval()});
$mark = mark($green, 'postgres');
$holder->query_safe('ROLLBACK');
$holder->quit;
wait_for_sequences($green, 'postgres');
cmp_ok(mark($green, 'postgres'), '>=', $mark, 'what has moved meanwhile is not put back');

# The worker has written the mark and waits for another sequence. Meanwhile the first
# session of the server's life makes an ID.
my $early = 0;
foreach my $sequence (split /\n/, query($green, q{SELECT c.oid::regclass FROM pg_class c
	WHERE relkind = 'S' AND relname <> 'snowflake_mark'}))
{
	$green->stop('immediate');
	$green->start;
	$mark = mark($green, 'postgres');
	$holder = begin_session($green, "BEGIN; ALTER SEQUENCE $sequence START 1");
	query($green, 'ALTER SUBSCRIPTION green_postgres REFRESH SEQUENCES');
	$green->poll_query_until('postgres', "SELECT ($worker) IS NOT NULL") or die;
	if (mark($green, 'postgres') < $mark)
	{
		$early = epoch_ms(query($green, 'SELECT snowflake_nextval()'));
	}
	$holder->query_safe('ROLLBACK');
	$holder->quit;
	wait_for_sequences($green, 'postgres');
	last if $early;
}
cmp_ok($early, '>=', $mark, 'and no ID is made below what was there before');

# ---- another layout ----

my $other = new_server('other', @logical, "snowflake.node_id = '2'",
	"snowflake.layout = 'discord'");
$other->start;
query($other, "$create; INSERT INTO orders DEFAULT VALUES");
my $record = registers($other, 'postgres');
isnt($record, registers($blue, 'postgres'), 'layouts that differ');
subscribe($other, 'postgres', $blue);
is(registers($other, 'postgres'), $record,
	'a database with a record keeps it where that of the publisher differs');
query($other, 'INSERT INTO orders DEFAULT VALUES');
$other->restart;
refresh($other, 'postgres');
query($other, 'INSERT INTO orders DEFAULT VALUES');
is(registers($other, 'postgres'), $record, 'and goes on, after a restart as well');

my $layout = 'SELECT last_value FROM snowflake_state.snowflake_recorded_layout';
my $own = query($other, $layout);
ok(stop_worker($other, sub { query($other, $layout) ne $own }),
	'a worker was stopped after it has written the record');
ok(eval { wait_for_sequences($other, 'postgres'); 1 }, 'the next worker goes on');
is(registers($other, 'postgres'), $record, 'and the record is what it was');

query($other, 'CREATE DATABASE fresh');
query($other, $create, database => 'fresh');
subscribe($other, 'fresh', $blue);
is(registers($other, 'fresh'), registers($blue, 'postgres'),
	'one without a record takes it');
refused($other, 'INSERT INTO orders DEFAULT VALUES', '55000',
	qr/differs from what is recorded.*was filled with.*snowflake_accept\('configuration'::pg_catalog\.text\)/s,
	'and the first ID is refused with what can be done', database => 'fresh');
query($other, q{SELECT snowflake_accept('configuration'); INSERT INTO orders DEFAULT VALUES},
	database => 'fresh');
refresh($other, 'fresh');
query($other, 'INSERT INTO orders DEFAULT VALUES', database => 'fresh');
is(registers($other, 'fresh'), $record, 'what was accepted stays accepted');

$_->stop foreach $blue, $green, $other;
done_testing();
