# Statements that run as a table's owner name objects of others: their schemas, and what
# definitions call. While such a statement could still run, no other role may rename, move
# or drop these, and put a trap with the old name in their place.
#
# takes: 8 s
use SnowflakeTest;

my $node = new_server('main');

$node->start;
query($node, q{CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
	CREATE SCHEMA ours AUTHORIZATION mallory; CREATE EXTENSION snowflake SCHEMA ours;
	CREATE SCHEMA m AUTHORIZATION mallory;
	SET ROLE mallory;
	CREATE SCHEMA elsewhere; CREATE SCHEMA e; CREATE SCHEMA called; GRANT ALL ON SCHEMA called TO PUBLIC;
	CREATE SEQUENCE e.caught;
	CREATE FUNCTION e.evil(v bigint) RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
			IF current_user <> 'mallory' THEN PERFORM nextval('e.caught'); END IF;
			RETURN v;
		END $$;
	CREATE SCHEMA trap;
	CREATE VIEW trap.t AS SELECT e.evil(1) AS id, ''::text AS x;
	CREATE SEQUENCE trap.t_id_seq;
	CREATE SCHEMA trap_ours;
	CREATE FUNCTION trap_ours.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT e.evil(9000000000000000000)';
	CREATE DOMAIN called.d AS bigint;
	CREATE COLLATION called.c FROM "C";
	CREATE FUNCTION called.f(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1';
	CREATE OPERATOR called.=== (LEFTARG = integer, RIGHTARG = integer, FUNCTION = pg_catalog.int4eq);
	CREATE TABLE called.other (id bigint);
	RESET ROLE;
	CREATE SCHEMA safe; GRANT USAGE ON SCHEMA safe TO PUBLIC;
	ALTER FUNCTION called.f SET SCHEMA safe; ALTER OPERATOR called.=== (integer, integer) SET SCHEMA safe;
	CREATE COLLATION called.g FROM "C";
	CREATE TABLE m.t (id serial PRIMARY KEY, x text);
	CREATE FUNCTION m.body() RETURNS bigint BEGIN ATOMIC SELECT max(safe.f(id)) FROM m.t; END;
	CREATE MATERIALIZED VIEW m.mv AS SELECT t.id, safe.f(t.id), 1 OPERATOR(safe.===) 1 AS same,
		t.x COLLATE called.c AS x, t.x COLLATE called.g AS y FROM m.t;
	CREATE VIEW m.v AS SELECT t.id, o.id AS other FROM m.t LEFT JOIN called.other o ON o.id = t.id;
	CREATE TABLE m.back (id bigserial PRIMARY KEY);
	SELECT count(*) FROM ours.snowflake_convert('m.back', dry_run => false);
	CREATE TABLE m.rows (id called.d PRIMARY KEY DEFAULT ours.snowflake_nextval());
	INSERT INTO m.rows VALUES (1);
	CREATE TABLE m.parts (id bigint PRIMARY KEY DEFAULT ours.snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE SCHEMA lies AUTHORIZATION mallory; GRANT USAGE ON SCHEMA lies TO PUBLIC;
	SELECT ours.snowflake_create_partitions('m.parts', '1 month', '2025-01-01', '2025-02-01');
	SELECT ours.snowflake_create_partitions('m.parts', '1 month', now(), now() + '1 minute');
	ALTER TABLE m.parts_p2025_01 SET SCHEMA lies});

# What mallory may do at other times.
my %renamed = map { $_ => "ALTER SCHEMA $_ RENAME TO renamed" } qw(m ours called lies);
my %changed = (%renamed,
	'a function' => 'DROP FUNCTION safe.f CASCADE',
	'a function that moves' => 'ALTER FUNCTION safe.f SET SCHEMA elsewhere',
	'a type' => 'ALTER DOMAIN called.d RENAME TO renamed',
	'a collation' => 'ALTER COLLATION called.c RENAME TO renamed',
	'an operator' => 'ALTER OPERATOR safe.=== (integer, integer) SET SCHEMA elsewhere',
	'a table' => 'ALTER TABLE called.other RENAME TO renamed',
	'a collation of the caller' => 'DROP COLLATION called.g CASCADE',
	'a function with a body' => 'DROP FUNCTION m.body',
	'a view' => 'DROP MATERIALIZED VIEW m.mv',
	'a sequence that was kept' => 'DROP SEQUENCE m.back_id_seq');
my %calls = (
	q{snowflake_convert('m.t', dry_run => false)} => [ qw(m ours called), grep { /^a/ && !/kept|type/ } sort keys %changed ],
	q{snowflake_convert('m.t', type => 'snowflake', dry_run => false)} => [ qw(m ours called) ],
	q{snowflake_revert('m.back', dry_run => false)} => [ qw(m ours), 'a sequence that was kept' ],
	q{snowflake_renumber('m.rows', 'id', 1, 1, false)} => [ qw(m ours called), 'a type' ],
	q{snowflake_create_partitions('m.parts', '1 month', '2025-03-01', '2025-04-01')} => [qw(m)],
	q{snowflake_drop_partitions('m.parts', '2025-02-01', 'snowflake')} => [qw(m lies)]);

foreach my $call (sort keys %calls)
{
	my $session = begin_session($node, "BEGIN; SELECT count(*) FROM ours.$call");

	refused($node, "SET ROLE mallory; BEGIN; SET LOCAL lock_timeout = '1ms'; $changed{$_}; ROLLBACK", '55P03', qr/lock timeout/, "$call keeps: $_")
	  foreach @{ $calls{$call} };
	like(answer($node, "SET ROLE mallory; BEGIN; SET LOCAL lock_timeout = '1ms'; GRANT USAGE ON SCHEMA m TO PUBLIC; ALTER SCHEMA e RENAME TO renamed; ROLLBACK"),
		qr/^$/, '... but neither grants, nor other schemas');
	$session->query_safe('ROLLBACK');
	$session->quit;
}
like(answer($node, "SET ROLE mallory; BEGIN; $changed{$_}; ROLLBACK"), qr/^(NOTICE.*)?$/s, "afterwards mallory may: $_")
  foreach sort keys %changed;

# ---- a trap with the name of the schema ----

# Let mallory exchange a schema for the trap while a session waits, or let mallory wait.
sub exchange { return "BEGIN; ALTER SCHEMA $_[0] RENAME TO renamed; ALTER SCHEMA $_[1] RENAME TO $_[0]; COMMIT" }

sub start
{
	my ($session, $statement) = @_;

	$session->query_until(qr/started/, "\\echo started\n$statement;\n");
	return;
}

# Wait until a session of these waits for a lock.
sub wait_for
{
	my ($pattern) = @_;

	$node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%$pattern%' AND pid <> pg_backend_pid()})
	  or die "nobody waits: $pattern";
	return;
}

sub is_caught { return query($node, 'SELECT is_called FROM e.caught') }

my $holder = begin_session($node, q{BEGIN; SELECT nextval('m.t_id_seq')});
my $caller = $node->background_psql('postgres');
my $mallory = begin_session($node, 'SET SESSION AUTHORIZATION mallory');

# the conversion waits for the sequence, before it makes the view again
start($caller, q{SELECT count(*) FROM ours.snowflake_convert('m.t', dry_run => false)});
wait_for('snowflake_convert');
start($mallory, exchange('m', 'trap'));
wait_until { query($node, q{SELECT to_regnamespace('renamed') IS NOT NULL OR EXISTS (SELECT FROM pg_stat_activity
	WHERE wait_event_type = 'Lock' AND query LIKE '%RENAME TO renamed%' AND pid <> pg_backend_pid())}) eq 't' } 'mallory does nothing';
$holder->query_safe('COMMIT');
$caller->query_safe('SELECT 0');
$mallory->query_safe('SELECT 0');
is(is_caught(), 'f', 'a conversion runs no trap with the name of the schema');
is(query($node, q{SELECT attrelid::regclass, atttypid::regtype FROM pg_attribute WHERE attname = 'id'
	AND attrelid IN ('renamed.t'::regclass, 'renamed.mv'::regclass) ORDER BY 1}),
	"renamed.t|bigint\nrenamed.mv|bigint", 'it converts the table, and the schema is renamed then');
query($node, 'ALTER SCHEMA m RENAME TO trap; ALTER SCHEMA renamed RENAME TO m');

# a dry run waits for a catalogue, after it has read the name of the extension's schema
query($node, 'CREATE TABLE m.dry (id bigserial PRIMARY KEY)');
$holder->query_safe('BEGIN; LOCK TABLE pg_catalog.pg_event_trigger');
start($caller, q{SELECT count(*) FROM ours.snowflake_convert('m.dry')});
wait_for('snowflake_convert');
$holder->query_safe(exchange('ours', 'trap_ours') =~ s/BEGIN;/SET ROLE mallory;/r);
$caller->query_safe('SELECT 0');
is(is_caught(), 'f', 'nor does a dry run, whose caller has a schema of mallory in which the extension lies');
$_->quit foreach $holder, $caller, $mallory;

$node->stop;
done_testing();
