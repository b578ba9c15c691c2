# Conversions, and partitions made, by a superuser, of tables whose owner lies in
# wait for him: nothing that is the owner's is run with his rights, and nothing
# becomes somebody else again. The other functions are in core/hostile_tables.pl.
#
# takes: 10 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $node = new_server('main');
$node->start;
query($node, q{CREATE EXTENSION snowflake;
	CREATE ROLE mallory; CREATE ROLE carol; CREATE ROLE bob;
	CREATE SCHEMA m AUTHORIZATION mallory; GRANT USAGE ON SCHEMA m TO carol, bob});

# What is his says so by a sequence, which no rollback takes back.
query($node, q{SET ROLE mallory;
	CREATE SEQUENCE m.caught;
	CREATE FUNCTION m.evil(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			IF current_user <> 'mallory' THEN PERFORM nextval('m.caught'); END IF;
			RETURN true;
		END $$;
	CREATE FUNCTION m.reset(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			PERFORM set_config('role', 'none', false);
			RETURN m.evil(v);
		EXCEPTION WHEN insufficient_privilege THEN
			RETURN m.evil(v);
		END $$;
	CREATE DOMAIN m.number AS integer CHECK (m.evil(VALUE))});

my $before = query($node, 'SELECT last_value, is_called FROM m.caught');

sub caught
{
	my $now = query($node, 'SELECT last_value, is_called FROM m.caught');
	my $is_caught = $now ne $before ? 1 : 0;

	$before = $now;
	return $is_caught;
}

# Most are seen to spring where a superuser asks for the largest ID, or alters the
# table, by hand: traps that are none would catch nobody.
my %traps = (
	'a predicate' => 'CREATE INDEX ON m.t (x) WHERE m.evil(1)',
	'an expression' => 'CREATE INDEX ON m.t ((id + m.evil(1)::integer))',
	'statistics' => 'CREATE STATISTICS m.s ON (x + m.evil(1)::integer), id FROM m.t',
	'a constraint' => 'ALTER TABLE m.t ADD CHECK (m.evil(x) AND id > 0)',
	'a role reset' => 'ALTER TABLE m.t ADD CHECK (m.reset(x) AND id > 0)',
	'a generated column' => 'ALTER TABLE m.t ADD g integer GENERATED ALWAYS AS (id + m.evil(x)::integer) STORED',
	'what refers to it' => 'CREATE TABLE m.r (t integer REFERENCES m.t, CHECK (m.evil(1))); INSERT INTO m.r VALUES (1)',
	'a constant in a view' => q(CREATE VIEW m.v AS SELECT id, '{1}'::m.number[] FROM m.t),
	'a materialized view' => 'CREATE MATERIALIZED VIEW m.mv AS SELECT id, m.evil(1) FROM m.t; CREATE INDEX ON m.mv (id) WHERE m.evil(1)',
	'a partition' => 'DROP TABLE m.t; CREATE TABLE m.t (id serial, x integer, PRIMARY KEY (id, x), CHECK (m.evil(x))) PARTITION BY LIST (x);'
	  . ' CREATE TABLE m.t1 PARTITION OF m.t DEFAULT; CREATE INDEX ON m.t (x) WHERE m.evil(1); INSERT INTO m.t (x) VALUES (1)');
my $springs = 0;

foreach my $trap (sort keys %traps)
{
	query($node, qq{SET ROLE mallory; CREATE TABLE m.t (id serial PRIMARY KEY, x integer);
		INSERT INTO m.t (x) VALUES (1); $traps{$trap}});
	$node->psql('postgres', 'SELECT max(id) FROM m.t WHERE x > 0');
	$node->psql('postgres', 'BEGIN; ALTER TABLE m.t ALTER id TYPE bigint; ROLLBACK');
	$springs += caught();
	foreach my $call (q{snowflake_convert('m.t')},
		q{snowflake_convert('m.t', dry_run => false)},
		q{snowflake_revert('m.t')},
		q{snowflake_revert('m.t', dry_run => false)},
		q{snowflake_convert('m.t', dry_run => false)},
		q{snowflake_revert('m.t', identity => 'always', dry_run => false)})
	{
		query($node, "SELECT count(*) FROM $call");
		is(caught(), 0, "$trap: $call");
	}
	# who is mallory by SET ROLE could be made himself again
	query($node, "SET ROLE mallory; SELECT count(*) FROM snowflake_convert('m.t', dry_run => false)");
	is(caught(), 0, "$trap: by SET ROLE");
	is(query($node, 'SELECT DISTINCT current_user, pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = $$m$$::regnamespace'),
		'postgres|mallory', "$trap: all of it is mallory's, and the caller is who he was");
	query($node, 'DROP TABLE m.t CASCADE; DROP TABLE IF EXISTS m.r');
}
cmp_ok($springs, '>=', 4, 'traps spring where that is done by hand');

# ---- who owns what ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.t (id serial PRIMARY KEY);
	CREATE VIEW m.v AS SELECT id FROM m.t;
	GRANT SELECT ON m.v TO carol WITH GRANT OPTION;
	RESET ROLE; SET ROLE carol; GRANT SELECT ON m.v TO bob});
my $grants = query($node, q{SELECT relacl FROM pg_class WHERE oid = 'm.v'::regclass});
query($node, q{CREATE FUNCTION by_definer() RETURNS bigint SECURITY DEFINER LANGUAGE sql
	AS $$ SELECT count(*) FROM snowflake_convert('m.t', dry_run => false) $$;
	GRANT EXECUTE ON FUNCTION by_definer TO bob});
refused($node, q{SET ROLE mallory; SELECT snowflake_convert('m.t')}, '42501',
	qr/must be owner of all that has to change/, 'what somebody else has granted, the owner cannot grant again');
query($node, 'SET ROLE bob; SELECT by_definer()');
is(query($node, q{SELECT relacl FROM pg_class WHERE oid = 'm.v'::regclass}), $grants,
	'grants of others come back, also where SET ROLE is not possible');
query($node, q{CREATE TABLE m.u (id serial PRIMARY KEY); ALTER TABLE m.u OWNER TO mallory;
	CREATE VIEW m.of_u AS SELECT id FROM m.u; ALTER VIEW m.of_u OWNER TO bob});
like(query($node, q{SELECT note FROM snowflake_convert('m.u') WHERE step = 1}),
	qr/runs code of bob, mallory, with the rights of whoever runs it/,
	'a dry run says whose code its script runs');
refused($node, q{SELECT snowflake_convert('m.u', dry_run => false)}, '42501',
	qr/view m\.of_u belongs to bob/, 'which is not run for several owners');
query($node, 'ALTER VIEW m.of_u OWNER TO mallory; REVOKE CREATE ON SCHEMA m FROM mallory');
refused($node, q{SELECT snowflake_convert('m.u')}, '42501',
	qr/mallory cannot create in schema m/, 'nor where its owner cannot make anew what he has, already in a dry run');
query($node, 'GRANT CREATE ON SCHEMA m TO mallory');

# ---- partitions ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.parts (id bigint, x integer, CHECK (m.evil(x))) PARTITION BY RANGE (id);
	CREATE INDEX ON m.parts (x) WHERE m.evil(1);
	CREATE INDEX ON m.parts ((x + m.evil(1)::integer))});
$node->psql('postgres', q{BEGIN; CREATE TABLE m.by_hand PARTITION OF m.parts DEFAULT; ROLLBACK});
is(caught(), 1, 'a partition that is made by hand springs the trap');
is(query($node, q{SELECT count(*) FROM snowflake_create_partitions('m.parts', '1 month', '2026-01-01', '2026-04-01')}),
	'3', 'partitions for somebody else');
is(caught(), 0, 'are made with his rights');
is(query($node, q{SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relispartition AND relkind = 'r'
	AND relname LIKE 'parts%'}), 'mallory', 'and are his');

# ---- what is the owner's leaves no setting behind ----

query($node, q{SET ROLE mallory;
	CREATE FUNCTION m.path(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			PERFORM pg_catalog.set_config('search_path', 'm, pg_catalog', false);
			RETURN true;
		END $$;
	CREATE TABLE m.sets (id serial PRIMARY KEY, x integer, CHECK (m.path(x) AND id > 0));
	INSERT INTO m.sets (x) VALUES (1);
	CREATE TABLE m.in_parts (id bigint) PARTITION BY RANGE (id);
	CREATE TABLE m.rest PARTITION OF m.in_parts (CHECK (m.path(1) AND id > 0)) DEFAULT});
foreach my $call (q{snowflake_convert('m.sets', dry_run => false)},
	q{snowflake_create_partitions('m.in_parts', '1 month', '2026-01-01', '2026-04-01')})
{
	is(query($node, "SET search_path = public; SELECT count(*) > 0 FROM $call; SHOW search_path"),
		"t\npublic", "the path is the caller's after $call");
}

# ---- what changes while the caller waits for a lock ----

my $mallory = $node->background_psql('postgres');
my $caller = $node->background_psql('postgres', on_error_stop => 0);

$mallory->query_safe('SET SESSION AUTHORIZATION mallory');

# The call waits for what mallory has locked, until that is changed.
sub changed_meanwhile
{
	my ($lock, $call, $change) = @_;

	$mallory->query_safe("BEGIN; $lock");
	$caller->query_until(qr/started/, "\\echo started\n$call;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%snowflake_revert(%' AND pid <> pg_backend_pid()});
	$mallory->query_safe("$change; COMMIT");
	return $caller->query('SELECT 0');
}

query($node, q{SET ROLE mallory; CREATE TABLE m.again (id bigserial PRIMARY KEY);
	SELECT count(*) FROM snowflake_convert('m.again', dry_run => false)});
changed_meanwhile(q{DROP SEQUENCE m.again_id_seq;
	CREATE VIEW m.again_id_seq AS SELECT m.evil(1)::integer::bigint AS last_value, true AS is_called},
	q{SELECT count(*) FROM snowflake_revert('m.again')}, 'SELECT 1');
is(caught(), 0, 'a view in place of the sequence is not run');

query($node, q{SET ROLE mallory; CREATE TABLE m.a (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE m.b () INHERITS (m.a); INSERT INTO m.b VALUES (1)});
unlike(changed_meanwhile('LOCK TABLE m.b',
		q{SELECT note FROM snowflake_revert('m.a', identity => 'always', restart => 1000)},
		q{ALTER TABLE m.b NO INHERIT m.a; ALTER TABLE m.b DROP id; ALTER TABLE m.b ADD id text DEFAULT 'a text'}),
	qr/the next row is at/, 'what is no integer any more is not read as one');
$mallory->quit;
$caller->quit;

$node->stop;
done_testing();
