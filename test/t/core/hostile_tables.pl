# Functions that an administrator calls, and tables whose owner lies in wait for
# him: nothing that is the owner's is run with his rights.
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
query($node, q{CREATE EXTENSION snowflake; CREATE ROLE mallory;
	CREATE SCHEMA m AUTHORIZATION mallory;
	SET ROLE mallory;
	CREATE SEQUENCE m.caught;
	CREATE FUNCTION m.evil(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			IF current_user <> 'mallory' THEN
				PERFORM nextval('m.caught');
			END IF;
			RETURN true;
		END $$});

# What is his, in all the places where a planner or a rewrite finds it.
my %traps = (
	'a predicate' => 'CREATE INDEX ON m.t (x) WHERE m.evil(1)',
	'an index on an expression' => 'CREATE INDEX ON m.t ((m.evil(1)))',
	'statistics' => 'CREATE STATISTICS m.s ON (x + m.evil(1)::integer), id FROM m.t',
	'a constraint' => 'ALTER TABLE m.t ADD CHECK (m.evil(1))',
	'a policy' => 'ALTER TABLE m.t ENABLE ROW LEVEL SECURITY; ALTER TABLE m.t FORCE ROW LEVEL SECURITY;'
	  . ' CREATE POLICY p ON m.t USING (m.evil(1))',
	'a partition' => 'DROP TABLE m.t;'
	  . ' CREATE TABLE m.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), x integer) PARTITION BY RANGE (id);'
	  . ' CREATE TABLE m.t1 PARTITION OF m.t DEFAULT; ALTER TABLE m.t1 ADD CHECK (m.evil(1) AND id > 0);'
	  . ' CREATE INDEX ON m.t1 (x) WHERE m.evil(1)',
	'a child' => 'CREATE TABLE m.c (UNIQUE (id), CHECK (m.evil(1))) INHERITS (m.t);'
	  . ' CREATE INDEX ON m.c (x) WHERE m.evil(1)');
my @calls = (
	q{SELECT count(*) FROM snowflake_status()},
	q{SELECT count(*) FROM snowflake_twins('m.t')});

# What was run stays known when the caller fails.
my $before = query($node, 'SELECT last_value, is_called FROM m.caught');

sub caught
{
	my $now = query($node, 'SELECT last_value, is_called FROM m.caught');
	my $is_caught = $now ne $before ? 1 : 0;

	$before = $now;
	return $is_caught;
}

my %springs;

foreach my $trap (sort keys %traps)
{
	query($node, 'SET ROLE mallory;'
		  . ' CREATE TABLE m.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), x integer);'
		  . ' INSERT INTO m.t (x) SELECT generate_series(1, 10);'
		  . $traps{$trap});
	query($node, 'SELECT max(id) FROM m.t WHERE x = 3 AND id > 0');
	$springs{$trap} = caught();
	foreach my $call (@calls)
	{
		query($node, $call);
		is(caught(), 0, "$trap: not run by $call");
	}
	query($node, 'DROP TABLE m.t CASCADE');
}
ok($springs{$_}, "$_: run by a query") foreach ('a predicate', 'a partition', 'a child');

# What is read is there nevertheless.
query($node, q{SET ROLE mallory;
	CREATE TABLE m.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), x integer);
	CREATE INDEX ON m.t (x) WHERE m.evil(1);
	INSERT INTO m.t SELECT snowflake_min_id(now() + interval '1 day') + (1 << 12)});
is(query($node, q{SELECT count(*) FROM snowflake_twins('m.t')}), '1', 'the rows are read');
like(query($node, q{SELECT found FROM snowflake_status() WHERE check_name = 'rows above'}),
	qr/^1 of 1 columns .*m\.t\.id/, 'by the status, too');
is(caught(), 0, 'and nothing else');

# ---- the key of a partitioned table ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.parts (id bigint, x integer) PARTITION BY RANGE ((x + m.evil(1)::integer));
	CREATE TABLE m.rest PARTITION OF m.parts DEFAULT});
query($node, q{SELECT count(*) FROM m.parts});
is(caught(), 1, 'an expression in the key is run by a query');
foreach my $call (q{snowflake_partitions('m.parts')},
	q{snowflake_create_partitions('m.parts', '1 day', now(), now() + interval '1 day')})
{
	refused($node, "SELECT * FROM $call", '42809', qr/not partitioned by range of one bigint column/,
		"refused: $call");
	is(caught(), 0, 'and not run');
}

# ---- a new partition ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.days (id bigint DEFAULT snowflake_nextval(), x integer, y integer DEFAULT m.evil(1)::integer,
		z integer GENERATED ALWAYS AS (x + m.evil(1)::integer) STORED,
		PRIMARY KEY (id), CHECK (m.evil(1) AND x > 0))
		PARTITION BY RANGE (id);
	CREATE TABLE m.other PARTITION OF m.days DEFAULT;
	CREATE INDEX ON m.days (x) WHERE m.evil(1);
	CREATE INDEX ON m.days ((x + m.evil(1)::integer));
	INSERT INTO m.days (id, x) VALUES (1, 1)});
query($node, q{SELECT snowflake_create_partitions('m.days', '1 day', now(), now() + interval '1 day')});
is(caught(), 0, 'nothing is run by a new partition');

# ---- a lock that is held ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.held (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE m.held_1 PARTITION OF m.held DEFAULT});
my $holder = $node->background_psql('postgres');
$holder->query_safe('SET ROLE mallory; BEGIN; LOCK TABLE m.held_1');
like(query($node, q{SET lock_timeout = '1s'; SELECT found FROM snowflake_status() WHERE check_name = 'unique indexes'}),
	qr/m\.held\.id/, 'a locked partition is not waited for');
$holder->quit;
$node->stop;
done_testing();
