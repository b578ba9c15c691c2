# An administrator calls functions on tables whose owner is hostile. None of the
# owner's code runs with the administrator's rights.
#
# takes: 10 s
use SnowflakeTest;

my $node = hostile_server();

# The owner's functions, in all the places where the planner or a rewrite of the table
# runs them.
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
	q{SELECT count(*) FROM snowflake_recover()},
	q{SELECT count(*) FROM snowflake_node_conflicts('m.t')});

my %springs;

foreach my $trap (sort keys %traps)
{
	query($node, 'SET ROLE mallory;'
		  . ' CREATE TABLE m.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), x integer);'
		  . ' INSERT INTO m.t (x) SELECT generate_series(1, 10);'
		  . $traps{$trap});
	query($node, 'SELECT max(id) FROM m.t WHERE x = 3 AND id > 0');
	$springs{$trap} = caught($node);
	foreach my $call (@calls)
	{
		query($node, $call);
		is(caught($node), 0, "$trap: not run by $call");
	}
	query($node, 'DROP TABLE m.t CASCADE');
}
ok($springs{$_}, "$_: run by a query") foreach ('a predicate', 'a partition', 'a child');

# The rows are read all the same.
query($node, q{SET ROLE mallory;
	CREATE TABLE m.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), x integer);
	CREATE INDEX ON m.t (x) WHERE m.evil(1);
	INSERT INTO m.t SELECT snowflake_min_id(now() + interval '1 day') + (1 << 12)});
is(query($node, q{SELECT count(*) FROM snowflake_node_conflicts('m.t')}), '1', 'the rows are read');
like(query($node, q{SELECT found FROM snowflake_status() WHERE check_name = 'rows above'}),
	qr/^1 of 1 columns .*m\.t\.id/, 'by the status, too');
is(caught($node), 0, 'and nothing else');

# ---- the key of a partitioned table ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.parts (id bigint, x integer) PARTITION BY RANGE ((x + m.evil(1)::integer));
	CREATE TABLE m.rest PARTITION OF m.parts DEFAULT});
query($node, q{SELECT count(*) FROM m.parts});
is(caught($node), 1, 'an expression in the key is run by a query');
foreach my $call (q{snowflake_partitions('m.parts')},
	q{snowflake_create_partitions('m.parts', '1 day', now(), now() + interval '1 day')},
	q{snowflake_drop_partitions('m.parts', now())})
{
	refused($node, "SELECT * FROM $call", '42809', qr/not partitioned by range of one bigint or snowflake column/,
		"refused: $call");
	is(caught($node), 0, 'and not run');
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
is(caught($node), 0, 'nothing is run by a new partition');

# ---- a partition that is dropped ----

# The server looks for rows that refer to the partition. Planning that query runs the
# owner's code.
query($node, q{SET ROLE mallory;
	CREATE TABLE m.old PARTITION OF m.days FOR VALUES FROM (370000000000000) TO (400000000000000);
	INSERT INTO m.days (id, x) VALUES (370000000000001, 1);
	CREATE TABLE m.referring (day bigint REFERENCES m.days, x integer, CHECK (m.evil(1) AND x > 0));
	CREATE INDEX ON m.referring (day) WHERE m.evil(1);
	INSERT INTO m.referring SELECT 1, n FROM generate_series(1, 100) n});
query($node, 'BEGIN; ALTER TABLE m.days DETACH PARTITION m.old; ROLLBACK');
is(caught($node), 1, 'a predicate of a table that refers to it is run by DETACH PARTITION');
is(query($node, q{SELECT snowflake_drop_partitions('m.days', now(), 'snowflake')}), 'm.old', 'the partition is dropped');
is(caught($node), 0, 'and nothing is run by that');
is(query($node, q{SELECT current_user = session_user AND current_setting('is_superuser') = 'on'}), 't',
	'the caller is who he was');

# ---- tables of somebody else beside the partitions ----

# Return a superuser's table with an old partition and one of the present.
sub partitioned
{
	query($node, q{CREATE TABLE public.days (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
		CREATE TABLE public.old PARTITION OF days FOR VALUES FROM (370000000000000) TO (400000000000000);
		CREATE TABLE public.other PARTITION OF days FOR VALUES FROM (400000000000000) TO (MAXVALUE);
		GRANT REFERENCES ON days TO mallory; GRANT CREATE ON SCHEMA public TO mallory;
		INSERT INTO days VALUES (370000000000001), (400000000000001)});
}

my %beside = (
	'a table that refers to them' => 'SET ROLE mallory; CREATE TABLE m.refers (day bigint REFERENCES public.days);'
	  . ' INSERT INTO m.refers VALUES (400000000000001); CREATE INDEX ON m.refers ((m.evil(1)))',
	'a partition that refers to them' => 'CREATE TABLE m.of_many (day bigint REFERENCES public.days) PARTITION BY LIST (day);'
	  . ' CREATE TABLE m.refers PARTITION OF m.of_many DEFAULT; INSERT INTO m.of_many VALUES (400000000000001);'
	  . ' ALTER TABLE m.refers OWNER TO mallory; SET ROLE mallory; CREATE INDEX ON m.refers ((m.evil(1)))');

foreach my $name (sort keys %beside)
{
	partitioned();
	query($node, $beside{$name});
	query($node, 'BEGIN; ALTER TABLE days DETACH PARTITION old; ROLLBACK');
	is(caught($node), 1, "$name: its trap springs where that is done by hand");
	refused($node, q{SELECT snowflake_drop_partitions('days', now(), 'snowflake')}, '42501',
		qr/table "m\.refers" has another owner than "days".*HINT:  Drop the foreign keys/s, 'no partition is dropped');
	is(caught($node), 0, 'and the trap does not spring');
	query($node, 'ALTER TABLE ' . ($name =~ /table/ ? 'm.refers DROP CONSTRAINT refers' : 'm.of_many DROP CONSTRAINT of_many') . '_day_fkey');
	is(query($node, q{SELECT snowflake_drop_partitions('days', now(), 'snowflake')}), 'public.old', 'the remedy helps');
	is(caught($node), 0, 'and does not spring it');
	query($node, 'DROP TABLE IF EXISTS m.of_many; DROP TABLE IF EXISTS m.refers; DROP TABLE days');
}

partitioned();
query($node, q{CREATE TABLE refers (day bigint REFERENCES days); INSERT INTO refers VALUES (400000000000001);
	ALTER TABLE old OWNER TO mallory; SET ROLE mallory; CREATE INDEX ON public.old ((m.evil(1)))});
refused($node, q{SELECT snowflake_drop_partitions('days', now(), 'snowflake')}, '42501',
	qr/table "public\.old" has another owner than "days"/, 'nor is one of somebody else dropped that a query reads');
is(caught($node), 0, 'and the trap does not spring');
query($node, 'DROP TABLE refers');
is(query($node, q{SELECT snowflake_drop_partitions('days', now(), 'snowflake')}), 'public.old', 'without a query it is dropped');
is(caught($node), 0, 'and nothing is run by that');

# The partition key of a table above the parent is part of its constraint.
query($node, q{DROP TABLE days; CREATE TABLE above (id bigint DEFAULT snowflake_nextval(), x integer NOT NULL) PARTITION BY RANGE ((x + m.evil(1)::integer));
	CREATE TABLE days PARTITION OF above FOR VALUES FROM (0) TO (1000) PARTITION BY RANGE (id);
	ALTER TABLE days ADD PRIMARY KEY (id), ALTER id SET DEFAULT snowflake_nextval();
	CREATE TABLE public.old PARTITION OF days FOR VALUES FROM (370000000000000) TO (400000000000000);
	CREATE TABLE public.other PARTITION OF days FOR VALUES FROM (400000000000000) TO (MAXVALUE);
	CREATE TABLE refers (day bigint REFERENCES days); ALTER TABLE above OWNER TO mallory});
caught($node);
query($node, 'BEGIN; ALTER TABLE days DETACH PARTITION old; ROLLBACK');
cmp_ok(caught($node), '>', 0, 'the key of a table above: its trap springs where that is done by hand');
refused($node, q{SELECT snowflake_drop_partitions('days', now(), 'snowflake')}, '42501',
	qr/table "public\.above" has another owner than "days"/, 'no partition is dropped');
is(caught($node), 0, 'and the trap does not spring');
query($node, 'DROP TABLE refers, above');
partitioned();
query($node, 'DROP TABLE old');

# The server folds the constraints of the default partition when another one is made.
query($node, q{DROP TABLE other; CREATE TABLE other PARTITION OF days DEFAULT;
	ALTER TABLE other OWNER TO mallory; SET ROLE mallory; ALTER TABLE public.other ADD CHECK (m.evil(1) AND id > 0)});
query($node, 'BEGIN; CREATE TABLE by_hand PARTITION OF days FOR VALUES FROM (3000) TO (4000); ROLLBACK');
is(caught($node), 1, 'a default partition of somebody else: its trap springs where that is done by hand');
refused($node, q{SELECT snowflake_create_partitions('days', '1 day', now(), now() + interval '1 day')}, '42501',
	qr/table "public\.other" has another owner than "days".*HINT:  As the owner of the table, detach the default partition/s, 'no partition is made');
is(caught($node), 0, 'and the trap does not spring');
query($node, 'CREATE TABLE refers (day bigint REFERENCES days)');
refused($node, q{SELECT snowflake_create_partitions('days', '1 day', now(), now() + interval '1 day')}, '42501',
	qr/HINT:  First drop the foreign keys that refer to public\.days: (?!.*ALTER TABLE)/, 'with a foreign key, no DETACH is advised');
query($node, 'DROP TABLE refers');
query($node, 'ALTER TABLE days DETACH PARTITION other');
query($node, q{SELECT snowflake_create_partitions('days', '1 day', now(), now() + interval '1 day')});
is(caught($node), 0, 'the remedy helps');
query($node, 'DROP TABLE days, other');

# A superuser who became mallory by SET SESSION AUTHORIZATION could be changed back.
query($node, q{SET ROLE mallory;
	CREATE FUNCTION m.become(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			PERFORM set_config('session_authorization', 'postgres', false);
			RETURN m.evil(v);
		EXCEPTION WHEN insufficient_privilege THEN
			RETURN m.evil(v);
		END $$;
	CREATE TABLE m.own (id bigint DEFAULT public.snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE m.rest_of_own PARTITION OF m.own (CHECK (m.become(1) AND id > 0)) DEFAULT});
caught($node);
query($node, q{SET SESSION AUTHORIZATION mallory; BEGIN; CREATE TABLE m.by_hand PARTITION OF m.own FOR VALUES FROM (3000) TO (4000); ROLLBACK});
is(caught($node), 1, 'SET SESSION AUTHORIZATION: its trap springs where that is done by hand');
query($node, q{SET SESSION AUTHORIZATION mallory; SELECT public.snowflake_create_partitions('m.own', '1 day', now(), now() + interval '1 day')});
is(caught($node), 0, 'and not where the function does it');
query($node, 'DROP TABLE m.own');

# Who may create in the extension's schema could replace its functions.
query($node, q{REVOKE CREATE ON SCHEMA public FROM mallory, PUBLIC; CREATE TABLE parted (id bigint) PARTITION BY RANGE (id); ALTER TABLE parted OWNER TO mallory});
refused($node, q{SELECT snowflake_create_partitions('parted', '1 day', now(), now() + interval '1 day')}, '42501',
	qr/HINT:  Choose a schema in which the owner may create: ALTER TABLE public\.parted SET SCHEMA NAME;/, 'nobody is told to grant a right on the schema of the extension');
query($node, 'ALTER TABLE public.parted SET SCHEMA m');
is(query($node, q{SELECT count(*) FROM snowflake_create_partitions('m.parted', '1 day', now(), now() + interval '1 day')}), 2, '... and the other way helps');
query($node, 'DROP TABLE m.parted; GRANT CREATE ON SCHEMA public TO PUBLIC');

# ---- a default that takes much stack to read ----

query($node, q{SET ROLE mallory; DO $$ BEGIN EXECUTE 'CREATE TABLE m.deep (id bigint DEFAULT snowflake_nextval()' || repeat('+0', 5000) || ')'; END $$});
is(query($node, q{SET max_stack_depth = '1MB'; SELECT count(*) FROM snowflake_status() WHERE found ~ 'stack'}), 0, 'a deep default does not blind the status');
like(query($node, q{SET max_stack_depth = '1MB'; SELECT count(*) FROM snowflake_recover()}), qr/^\d+$/, '... nor stop a recovery');
query($node, q{SET ROLE mallory; DO $$ BEGIN EXECUTE 'CREATE RULE deep AS ON INSERT TO m.deep WHERE (NEW.id' || repeat('+0', 5000) || ') > 0 DO INSTEAD NOTHING'; END $$});
is(query($node, q{SET max_stack_depth = '1MB'; SELECT count(*) FROM snowflake_status() WHERE found ~ 'stack'}), 0, '... nor does a deep rule');
query($node, 'DROP TABLE m.deep');

# ---- a lock that is held ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.held (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE m.held_1 PARTITION OF m.held DEFAULT});
my $holder = begin_session($node, 'SET ROLE mallory; BEGIN; LOCK TABLE m.held_1');
like(query($node, q{SET lock_timeout = '1s'; SELECT found FROM snowflake_status() WHERE check_name = 'unique indexes'}),
	qr/m\.held\.id/, 'a locked partition is not waited for');
$holder->quit;
$node->stop;
done_testing();
