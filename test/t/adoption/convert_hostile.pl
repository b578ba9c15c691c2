# A superuser converts tables, and makes partitions of tables, whose owner is hostile.
# None of the owner's code may run with the superuser's rights or become another role.
# core/hostile_tables.pl does the same with the other functions.
#
# takes: 17 s
use SnowflakeTest;

my $node = hostile_server();
query($node, q{CREATE ROLE carol; CREATE ROLE bob; GRANT USAGE ON SCHEMA m TO carol, bob;
	SET ROLE mallory;
	CREATE FUNCTION m.reset(v integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			PERFORM set_config('role', 'none', false);
			RETURN m.evil(v);
		EXCEPTION WHEN insufficient_privilege THEN
			RETURN m.evil(v);
		END $$;
	CREATE DOMAIN m.number AS integer CHECK (m.evil(VALUE))});

# Each trap runs the owner's function. First the test shows that most of them work: a
# superuser who runs the usual statements by hand is caught. A trap that never worked
# would prove nothing.
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
	$springs += caught($node);
	foreach my $call (q{snowflake_convert('m.t')},
		q{snowflake_convert('m.t', dry_run => false)},
		q{snowflake_revert('m.t')},
		q{snowflake_revert('m.t', dry_run => false)},
		q{snowflake_convert('m.t', dry_run => false, type => 'snowflake')},
		q{snowflake_revert('m.t', identity => 'always', dry_run => false)})
	{
		query($node, "SELECT count(*) FROM $call");
		is(caught($node), 0, "$trap: $call");
	}
	# a superuser who became mallory by SET ROLE could be changed back by RESET ROLE
	query($node, "SET ROLE mallory; SELECT count(*) FROM snowflake_convert('m.t', dry_run => false)");
	is(caught($node), 0, "$trap: by SET ROLE");
	is(query($node, 'SELECT DISTINCT current_user, pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = $$m$$::regnamespace'),
		'postgres|mallory', "$trap: all of it is mallory's, and the caller is who he was");
	query($node, 'DROP TABLE m.t CASCADE; DROP TABLE IF EXISTS m.r');
}
cmp_ok($springs, '>=', 4, 'traps spring where that is done by hand');

# ---- objects of several owners ----

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
	qr/must be owner of all objects that change/, 'what somebody else has granted, the owner cannot grant again');
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
my $decide = qr/The owners of these schemas, functions and types decide whether to grant that/;
refused($node, q{SELECT snowflake_convert('m.u')}, '42501', qr/mallory cannot create in schema m\.\n.*$decide/s,
	'nor where its owner cannot make anew what he has, already in a dry run');
query($node, q{GRANT CREATE ON SCHEMA m TO mallory;
	CREATE FUNCTION pay(integer) RETURNS boolean SECURITY DEFINER LANGUAGE sql AS 'SELECT true'; REVOKE ALL ON FUNCTION pay FROM PUBLIC;
	SET ROLE mallory; CREATE TABLE m.pays (id serial PRIMARY KEY, CHECK (id < 0 OR public.pay(id)))});
my $error = refused($node, q{SELECT snowflake_convert('m.pays')}, '42501', qr/mallory cannot execute function public\.pay\(integer\)\.\n.*$decide/s,
	'a check may call what its owner may not');
unlike($error, qr/GRANT/, '... and nobody is told to grant it');
query($node, 'DROP TABLE m.pays; DROP FUNCTION pay');
like(query($node, q{SELECT count(*) FROM snowflake_convert('m.u')}), qr/^\d+$/, '... the table of before is converted');

# ---- foreign keys of somebody else ----

# A column that has to be changed first is not changed by who is told so.
query($node, q{CREATE TABLE orders (id serial PRIMARY KEY); GRANT REFERENCES ON orders TO mallory;
	SET ROLE mallory; CREATE TABLE m.trap (ref m.number REFERENCES public.orders)});
$error = refused($node, q{SELECT snowflake_convert('orders', dry_run => false)}, '42804',
	qr/HINT:  The owner of each of these tables must log in, and change the type/, 'a column of somebody else that has another type');
unlike($error, qr/ALTER TABLE/, '... and no statement is printed, which would run the code of its owner');
query($node, 'DROP TABLE m.trap, orders');

# A function that is too long is not searched for integers.
query($node, 'SET ROLE mallory; CREATE TABLE m.t2 (id serial PRIMARY KEY)');
query($node, q{DO $$ DECLARE r record; BEGIN FOR r IN VALUES ('short', 1), ('long', 100000) LOOP
	EXECUTE format('CREATE OR REPLACE FUNCTION m.%s() RETURNS integer LANGUAGE sql AS %L', r.column1, 'SELECT id FROM m.t2' || repeat(' ', r.column2)); END LOOP; END $$});
like(query($node, q{SELECT note FROM snowflake_convert('m.t2')}), qr/look at the integers of m\.short\(\)(?!.*m\.long)/, 'a long function is not searched');
query($node, 'DROP FUNCTION IF EXISTS m.short, m.long; DROP TABLE m.t2');

# The server validates a foreign key anew by a query on both tables, and planning that
# query runs the code of both owners. Here the columns that refer to the key are bigint
# already, and do not change.
my %referring = (
	'a table' => 'SET ROLE mallory; CREATE TABLE m.refers (order_id bigint REFERENCES orders);'
	  . ' INSERT INTO m.refers VALUES (1); CREATE INDEX ON m.refers ((m.evil(1)))',
	'a partition' => 'CREATE TABLE m.of_many (order_id bigint REFERENCES orders) PARTITION BY LIST (order_id);'
	  . ' CREATE TABLE m.refers PARTITION OF m.of_many DEFAULT; INSERT INTO m.of_many VALUES (1);'
	  . ' ALTER TABLE m.refers OWNER TO mallory; SET ROLE mallory; CREATE INDEX ON m.refers ((m.evil(1)))');

foreach my $name (sort keys %referring)
{
	query($node, "CREATE TABLE orders (id serial PRIMARY KEY); INSERT INTO orders DEFAULT VALUES;
		GRANT REFERENCES ON orders TO mallory; $referring{$name}");
	$node->psql('postgres', 'BEGIN; ALTER TABLE orders ALTER id TYPE bigint; ROLLBACK');
	is(caught($node), 1, "$name that refers to the key: its trap springs where that is done by hand");
	like(query($node, q{SELECT note FROM snowflake_convert('orders') WHERE step = 1}),
		qr/runs code of mallory, .*; dry_run => false is refused: table m\.refers belongs to mallory\./,
		'a dry run says so');
	refused($node, q{SELECT snowflake_convert('orders', dry_run => false)}, '42501',
		qr/table m\.refers belongs to mallory.*would run their code with your rights\.$/ms, 'the conversion is refused');
	is(caught($node), 0, 'and does not spring it');
	query($node, 'ALTER TABLE ' . ($name eq 'a table' ? 'm.refers DROP CONSTRAINT refers' : 'm.of_many DROP CONSTRAINT of_many') . '_order_id_fkey');
	query($node, q{SELECT count(*) FROM snowflake_convert('orders', dry_run => false)});
	is(caught($node), 0, 'the remedy helps');
	query($node, 'DROP TABLE IF EXISTS m.of_many; DROP TABLE IF EXISTS m.refers; DROP TABLE orders');
}

# ---- what a materialized view reads, which is filled again ----

my %ways = (
	'a view' => 'CREATE VIEW read_notes AS SELECT code, note FROM m.notes;'
	  . ' CREATE MATERIALIZED VIEW of_orders AS SELECT o.id, n.note FROM orders o LEFT JOIN read_notes n USING (code)',
	'a function' => 'CREATE FUNCTION note_of(integer) RETURNS text STABLE LANGUAGE sql BEGIN ATOMIC SELECT note FROM m.notes WHERE code = $1; END;'
	  . ' CREATE MATERIALIZED VIEW of_orders AS SELECT id, note_of(code) FROM orders');

foreach my $way (sort keys %ways)
{
	query($node, qq{CREATE TABLE orders (id serial PRIMARY KEY, code integer); INSERT INTO orders (code) VALUES (1);
		SET ROLE mallory; CREATE TABLE m.notes (code integer, note text) PARTITION BY LIST (code); CREATE TABLE m.notes_1 PARTITION OF m.notes DEFAULT;
		RESET ROLE; ALTER TABLE m.notes OWNER TO postgres; $ways{$way};
		SET ROLE mallory; CREATE INDEX ON m.notes_1 (note) WHERE m.evil(1)});
	caught($node);
	query($node, 'REFRESH MATERIALIZED VIEW of_orders');
	cmp_ok(caught($node), '>', 0, "a materialized view that reads what somebody else owns, by $way: the trap springs where that is done by hand");
	like(query($node, q{SELECT note FROM snowflake_convert('orders') WHERE step = 1}),
		qr/runs code of mallory, .*; dry_run => false is refused: table m\.notes_1 belongs to mallory\./, 'a dry run says so');
	refused($node, q{SELECT snowflake_convert('orders', dry_run => false)}, '42501', qr/table m\.notes_1 belongs to mallory/, 'the conversion is refused');
	is(caught($node), 0, 'and does not spring it');
	query($node, q{REFRESH MATERIALIZED VIEW of_orders WITH NO DATA});
	query($node, q{SELECT count(*) FROM snowflake_convert('orders', dry_run => false)});
	is(caught($node), 0, 'an empty one is not filled');
	query($node, 'DROP TABLE orders CASCADE; DROP TABLE m.notes CASCADE');
}

# ---- settings of the database, whose owner is somebody else ----

query($node, q{CREATE TABLE risks (id bigserial PRIMARY KEY, risk float8); SELECT count(*) FROM snowflake_convert('risks', type => 'snowflake', dry_run => false);
	CREATE POLICY p ON risks USING (id > 0 AND risk < '0.45'::float8 AND '{a,NULL}'::text[] <> '{}' AND now() > '2026-01-02 00:00+00')});
my $policy = q{SELECT pg_get_expr(polqual, polrelid) FROM pg_policy};
query($node, q{ALTER DATABASE postgres SET extra_float_digits = -15; ALTER DATABASE postgres SET array_nulls = off;
	ALTER DATABASE postgres SET DateStyle = 'SQL, DMY'; ALTER DATABASE postgres SET TimeZone = 'Asia/Kolkata'});
query($node, q{SELECT count(*) FROM snowflake_revert('risks', dry_run => false)});
query($node, 'ALTER DATABASE postgres RESET ALL');
like(query($node, "SET TimeZone = 'UTC'; $policy"), qr/0\.45.*\{a,NULL\}.*2026-01-02 00:00:00\+00/, 'a policy means what it meant, whatever the database has set');
query($node, 'DROP TABLE risks');

# ---- operators for the type snowflake, and a type of its name ----

query($node, q{CREATE TABLE kept (id bigint PRIMARY KEY, CHECK (id % 10 < 10)); INSERT INTO kept VALUES (1);
	CREATE INDEX ON kept ((id % 10));
	SET ROLE mallory;
	CREATE DOMAIN m.snowflake AS integer CHECK (m.evil(VALUE));
	CREATE FUNCTION m.rest(public.snowflake, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
		AS 'SELECT m.evil(1)::integer::bigint';
	CREATE OPERATOR m.% (LEFTARG = public.snowflake, RIGHTARG = bigint, FUNCTION = m.rest)});
$node->psql('postgres', 'SET search_path = m, pg_catalog, public; BEGIN; ALTER TABLE kept ALTER id TYPE public.snowflake; ROLLBACK');
is(caught($node), 1, 'the operator springs where the type is changed by hand');
foreach my $call (q{snowflake_convert('public.kept', type => 'snowflake')},
	q{snowflake_convert('public.kept', type => 'snowflake', dry_run => false)},
	q{snowflake_revert('public.kept', dry_run => false)})
{
	query($node, "SET search_path = m, pg_catalog; SELECT count(*) FROM public.$call");
	is(caught($node), 0, "an operator named for the type: $call");
}
is(query($node, q{SELECT count(*) FROM snowflake_convert('kept', type => 'snowflake', dry_run => false);
	SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attname = 'id'}) =~ s/^\d+\n//r,
	'snowflake', "and the type is the extension's");

# ---- functions that fit the new type better than those which a definition names ----

query($node, q{CREATE SCHEMA names;
	CREATE FUNCTION names.shown(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
	CREATE OPERATOR names.=%= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8eq)});
my $schema = 'REVOKE CREATE ON SCHEMA names FROM mallory;';
my $overload = "DROP ROUTINE names.shown(public.snowflake); $schema";
my %named = (
	'a materialized view' => [ 'CREATE MATERIALIZED VIEW names.v AS SELECT names.shown(id) FROM names.t', $overload ],
	'an index' => [ 'CREATE INDEX ON names.t (names.shown(id))', $overload ],
	'a generated column' => [ 'ALTER TABLE names.t ADD g boolean GENERATED ALWAYS AS (names.shown(id)) STORED', $overload ],
	'an operator' => [ 'ALTER TABLE names.t ADD CHECK (id OPERATOR(names.=%=) id)', "DROP OPERATOR names.=%=(public.snowflake,public.snowflake); $schema" ],
	'a cast' => [ q{CREATE MATERIALIZED VIEW names.v AS SELECT ('a' || left(id::text, 0))::names.mood FROM names.t;
			SET ROLE mallory; CREATE CAST (text AS names.mood) WITH FUNCTION names.better},
		'ALTER TYPE names.mood OWNER TO postgres; DROP CAST (text AS names.mood);' ],
	'a schema of his' => [ 'ALTER SCHEMA names OWNER TO mallory; CREATE INDEX ON names.t (names.shown(id))',
		'ALTER SCHEMA names OWNER TO postgres; DROP ROUTINE names.shown(public.snowflake);' ]);

foreach my $trap (sort keys %named)
{
	my ($definition, $remedy) = @{ $named{$trap} };

	query($node, qq{CREATE TABLE names.t (id bigserial PRIMARY KEY); INSERT INTO names.t DEFAULT VALUES;
		GRANT CREATE, USAGE ON SCHEMA names TO mallory; SET ROLE mallory;
		CREATE FUNCTION names.shown(snowflake) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT m.evil(1)';
		CREATE FUNCTION names.same(snowflake, snowflake) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT m.evil(1)';
		CREATE OPERATOR names.=%= (LEFTARG = snowflake, RIGHTARG = snowflake, FUNCTION = names.same);
		CREATE TYPE names.mood AS ENUM ('a');
		CREATE FUNCTION names.better(text) RETURNS names.mood IMMUTABLE LANGUAGE sql
			AS \$\$ SELECT 'a'::names.mood WHERE m.evil(1) \$\$;
		RESET ROLE; $definition});
	caught($node);
	query($node, qq{BEGIN;\nSELECT statement FROM snowflake_convert('names.t', type => 'snowflake') WHERE statement NOT IN ('BEGIN', 'COMMIT') \\gexec\nROLLBACK});
	is(caught($node), 1, "$trap: a better overload springs where a superuser runs the script");
	like(query($node, q{SELECT note FROM snowflake_convert('names.t', type => 'snowflake') WHERE step = 1}),
		qr/^dry_run => false is refused: .*mallory/, 'a dry run says that the function does not run it');
	my ($hint) = refused($node, q{SELECT snowflake_convert('names.t', type => 'snowflake', dry_run => false)}, '42501',
		qr/(DETAIL:  Schema names lets mallory create functions that would be called in place of names\.(shown|=%=)\.|Type names\.mood lets mallory create casts that would be called\.)/m,
		'which is refused') =~ /HINT:  Run as a superuser: (.*)$/m;
	is($hint, $remedy, 'with commands');
	is(caught($node), 0, 'and calls nothing');
	(my $one = $hint) =~ s/DROP .*?;//;
	query($node, $one);
	refused($node, q{SELECT snowflake_convert('names.t', type => 'snowflake', dry_run => false)}, '42501',
		qr/mallory could be called/, 'what is there already is refused, too');
	query($node, $hint =~ /(DROP .*?;)/);
	like(query($node, q{SELECT count(*) FROM snowflake_convert('names.t', type => 'snowflake', dry_run => false)}), qr/^\d+$/, 'the remedy helps');
	is(caught($node), 0, 'and nothing of hers is called');
	query($node, q{ALTER SCHEMA names OWNER TO postgres; DROP TABLE names.t CASCADE; DROP TYPE names.mood CASCADE;
		DROP FUNCTION IF EXISTS names.shown(snowflake); DROP FUNCTION names.same CASCADE});
}
# a type with the name of a function: the call becomes a cast, which checks a domain
query($node, q{GRANT CREATE, USAGE ON SCHEMA names TO mallory; SET ROLE mallory; CREATE DOMAIN names.last AS bigint CHECK (m.evil((VALUE % 10)::integer));
	RESET ROLE; REVOKE CREATE ON SCHEMA names FROM mallory;
	CREATE FUNCTION names.last(bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 10';
	CREATE TABLE names.t (id bigserial PRIMARY KEY); INSERT INTO names.t DEFAULT VALUES; CREATE INDEX ON names.t (names.last(id))});
caught($node);
query($node, qq{BEGIN;\nSELECT statement FROM snowflake_convert('names.t', type => 'snowflake') WHERE statement NOT IN ('BEGIN', 'COMMIT') \\gexec\nROLLBACK});
cmp_ok(caught($node), '>', 0, 'a type with the name of a function: its trap springs where a superuser runs the script');
my ($drop) = refused($node, q{SELECT snowflake_convert('names.t', type => 'snowflake', dry_run => false)}, '42501',
	qr/DETAIL:  Type names\.last of mallory could be taken for names\.last\.\n/, '... which is refused') =~ /HINT:  Run as a superuser: (DROP DOMAIN names\.last;)$/m;
query($node, $drop);
like(query($node, q{SELECT count(*) FROM snowflake_convert('names.t', type => 'snowflake', dry_run => false)}), qr/^\d+$/, 'the remedy helps');
is(caught($node), 0, 'and nothing of hers is called');
query($node, 'DROP TABLE names.t; DROP FUNCTION names.last');
# the key of a table above a partition
query($node, q{CREATE TABLE names.above (of bigint, x integer NOT NULL) PARTITION BY RANGE ((x + m.evil(1)::integer));
	CREATE TABLE names.below PARTITION OF names.above FOR VALUES FROM (0) TO (1000);
	CREATE TABLE names.o (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), again bigint UNIQUE);
	CREATE FUNCTION names.again() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.again := NEW.id; RETURN NEW; END';
	CREATE TRIGGER again BEFORE INSERT OR UPDATE ON names.o FOR EACH ROW EXECUTE FUNCTION names.again();
	INSERT INTO names.o VALUES (1); CREATE TABLE names.k (id serial PRIMARY KEY); INSERT INTO names.k DEFAULT VALUES;
	ALTER TABLE names.above ADD k bigint; ALTER TABLE names.below ADD FOREIGN KEY (of) REFERENCES names.o (again) ON UPDATE CASCADE;
	ALTER TABLE names.below ADD FOREIGN KEY (k) REFERENCES names.k;
	INSERT INTO names.below VALUES (1, 5, 1); ALTER TABLE names.above OWNER TO mallory});
caught($node);
query($node, 'BEGIN; UPDATE names.o SET id = 2; ROLLBACK');
cmp_ok(caught($node), '>', 0, 'the key of a table above a partition: its trap springs where the key is changed by hand');
refused($node, q{SELECT snowflake_renumber('names.o', 'id', 1, 1, false)}, '42501', qr/table names\.above belongs to mallory\./, '... but nothing is renumbered');
refused($node, q{SET constraint_exclusion = on; SELECT snowflake_convert('names.k', dry_run => false)}, '42501', qr/names\.above belongs to mallory\./, '... nor converted');
is(caught($node), 0, '... and nothing of hers is called');
query($node, 'DROP TABLE names.above, names.o, names.k; DROP FUNCTION names.again');
# a type that comes with code is taken over by nobody
query($node, q{SET ROLE mallory; CREATE TABLE m.other (id bigint, note text); RESET ROLE;
	CREATE FUNCTION names.notes(bigint) RETURNS SETOF m.other LANGUAGE sql STABLE AS 'SELECT * FROM m.other WHERE id = $1';
	CREATE TABLE names.t (id serial PRIMARY KEY); CREATE VIEW names.tv AS SELECT t.id, n.note FROM names.t, names.notes(t.id) n});
unlike(refused($node, q{SELECT snowflake_convert('names.t', dry_run => false)}, '42501', qr/Type m\.other lets mallory create casts/, 'the row type of a table of somebody else'),
	qr/OWNER TO/, '... which a superuser is not told to own');
query($node, 'DROP TABLE names.t CASCADE; DROP FUNCTION names.notes; DROP TABLE m.other');
query($node, 'GRANT CREATE ON SCHEMA names TO PUBLIC; CREATE TABLE names.t (id bigserial PRIMARY KEY, CHECK (names.shown(id)))');
refused($node, q{SELECT snowflake_convert('names.t', type => 'snowflake', dry_run => false)}, '42501',
	qr/lets PUBLIC create.*HINT:  Run as a superuser: REVOKE CREATE ON SCHEMA names FROM PUBLIC;$/ms, 'nor may everybody create in the schema');
query($node, 'ALTER TABLE names.t OWNER TO mallory; ALTER SCHEMA names OWNER TO bob; GRANT USAGE ON SCHEMA names TO mallory');
unlike(refused($node, q{SELECT snowflake_convert('names.t', type => 'snowflake', dry_run => false)}, '42501',
		qr/Schema names lets bob create/, 'the owner of a table'), qr/HINT/, 'gets no schema of somebody else by a remedy');

# ---- rights are kept ----

my $rights = q{SELECT relname, '', coalesce(relacl, acldefault('r', relowner))::text FROM pg_class
	WHERE relnamespace = 'm'::regnamespace AND relkind IN ('r', 'v', 'm')
	UNION ALL SELECT relname, attname, attacl::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
	WHERE relnamespace = 'm'::regnamespace AND attacl IS NOT NULL AND NOT attisdropped
	UNION ALL SELECT typname, 'type', typacl::text FROM pg_type WHERE typnamespace = 'm'::regnamespace AND typacl IS NOT NULL
	ORDER BY 1, 2};

# After a conversion that was rolled back, all rights in the schema are as before, both
# if psql ran the script as a superuser and if the owner called the function.
sub keeps_rights
{
	my ($table, $name) = @_;
	my $was = query($node, $rights);
	my %run = (
		'by psql' => "SELECT statement FROM snowflake_convert('$table') WHERE statement NOT IN ('BEGIN', 'COMMIT') \\gexec",
		'by the function' => "SELECT count(*) FROM snowflake_convert('$table', dry_run => false);");

	foreach my $way (sort keys %run)
	{
		my $out = query($node, "BEGIN;\n$run{$way}\nRESET search_path;\n\\echo rights\n$rights;\nROLLBACK");

		is($out =~ s/\A.*^rights\n//msr, $was, "$name: $way");
	}
	return;
}

# bob grants to carol, and has the higher OID of the two
query($node, q{CREATE ROLE dave;
	SET ROLE mallory;
	CREATE TABLE m.chain (id serial PRIMARY KEY, x integer, twice integer GENERATED ALWAYS AS (id * 2) STORED);
	CREATE VIEW m.chain_v AS SELECT id, x FROM m.chain;
	CREATE MATERIALIZED VIEW m.chain_m AS SELECT id, x FROM m.chain;
	REVOKE USAGE ON TYPE m.chain_m FROM PUBLIC;
	GRANT USAGE ON TYPE m.chain_m TO bob WITH GRANT OPTION;
	GRANT SELECT ON m.chain, m.chain_v, m.chain_m TO bob WITH GRANT OPTION;
	GRANT SELECT (twice) ON m.chain TO bob WITH GRANT OPTION;
	GRANT UPDATE (x) ON m.chain_v TO bob WITH GRANT OPTION;
	SET ROLE bob;
	GRANT USAGE ON TYPE m.chain_m TO carol WITH GRANT OPTION;
	GRANT SELECT ON m.chain, m.chain_v, m.chain_m TO carol WITH GRANT OPTION;
	GRANT SELECT (twice) ON m.chain TO carol WITH GRANT OPTION;
	GRANT UPDATE (x) ON m.chain_v TO carol WITH GRANT OPTION;
	SET ROLE carol;
	GRANT USAGE ON TYPE m.chain_m TO dave;
	GRANT SELECT ON m.chain, m.chain_v, m.chain_m TO dave;
	GRANT SELECT (twice) ON m.chain TO dave;
	GRANT UPDATE (x), SELECT (id) ON m.chain_v TO dave});
keeps_rights('m.chain', 'what others have granted further');

foreach my $role ('mallory', 'postgres')
{
	query($node, qq{SET ROLE mallory;
		CREATE TABLE m.of_$role (id serial PRIMARY KEY);
		CREATE VIEW m.whole_$role AS SELECT id FROM m.of_$role;
		CREATE VIEW m.given_$role AS SELECT id FROM m.of_$role; GRANT SELECT ON m.given_$role TO bob;
		CREATE VIEW m.less_$role AS SELECT id FROM m.of_$role; REVOKE DELETE ON m.less_$role FROM mallory;
		RESET ROLE; SET ROLE $role;
		ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM $role;
		ALTER DEFAULT PRIVILEGES IN SCHEMA m GRANT DELETE ON TABLES TO mallory WITH GRANT OPTION});
	keeps_rights("m.of_$role", "against default privileges of $role");
	query($node, qq{SET ROLE $role;
		ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO $role;
		ALTER DEFAULT PRIVILEGES IN SCHEMA m REVOKE DELETE ON TABLES FROM mallory});
}

# A generated column of mallory's runs his code in the middle of the script. It gives the
# name of the table, on which bob has granted something, to a table of bob's own.
query($node, q{GRANT CREATE ON DATABASE postgres TO mallory;
	CREATE SCHEMA s1 AUTHORIZATION mallory; CREATE SCHEMA s2 AUTHORIZATION mallory; CREATE SCHEMA s3 AUTHORIZATION mallory;
	CREATE TABLE s2.items (g text); INSERT INTO s2.items VALUES ('secret'); ALTER TABLE s2.items OWNER TO bob;
	SET ROLE mallory;
	GRANT USAGE ON SCHEMA s1, s2, s3 TO bob, carol;
	CREATE FUNCTION s1.swap() RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN
		IF session_user <> 'mallory' AND to_regnamespace('s0') IS NULL THEN
			ALTER SCHEMA s3 RENAME TO s0;
			ALTER SCHEMA s2 RENAME TO s3;
		END IF;
		RETURN 1;
	END $$;
	CREATE FUNCTION s1.f(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT 1';
	CREATE TABLE s1.t (id serial PRIMARY KEY);
	CREATE TABLE s3.items (o integer REFERENCES s1.t, g bigint GENERATED ALWAYS AS (s1.f(o::bigint)) STORED);
	INSERT INTO s1.t DEFAULT VALUES; INSERT INTO s3.items VALUES (1);
	CREATE OR REPLACE FUNCTION s1.f(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN s1.swap(); END';
	GRANT SELECT ON s3.items TO bob WITH GRANT OPTION;
	SET ROLE bob; GRANT SELECT (g) ON s3.items TO carol});
refused($node, q{SELECT snowflake_convert('s1.t', dry_run => false)}, '40001', qr/names of tables and views have changed/,
	'a grant of another role goes to no other table');
is(query($node, q{SELECT relacl FROM pg_class WHERE oid = 's2.items'::regclass}), '', q{... such as bob's own});
query($node, 'DROP SCHEMA s1, s2, s3 CASCADE; REVOKE CREATE ON DATABASE postgres FROM mallory');

# ---- a right that the owner lacks is reported first ----

query($node, q{CREATE SCHEMA f; GRANT USAGE ON SCHEMA f TO mallory;
	CREATE FUNCTION f.same(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1';
	REVOKE USAGE ON TYPE snowflake FROM PUBLIC;
	SET ROLE mallory;
	CREATE TABLE m.calls (id serial PRIMARY KEY, CHECK (f.same(id) > 0));
	CREATE VIEW m.calls_v AS SELECT f.same(id) FROM m.calls;
	GRANT INSERT ON m.calls TO bob;
	RESET ROLE; REVOKE USAGE ON SCHEMA f FROM mallory; REVOKE EXECUTE ON FUNCTION f.same FROM PUBLIC;
	REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM PUBLIC});
foreach my $run ('', ', dry_run => false')
{
	my $name = $run ? 'when it is run' : 'in a dry run';

	query($node, 'REVOKE EXECUTE ON FUNCTION snowflake_nextval() FROM mallory; GRANT USAGE ON SCHEMA f TO mallory; GRANT EXECUTE ON FUNCTION f.same TO mallory');
	refused($node, "SELECT snowflake_convert('m.calls'$run)", '42501',
		qr/GRANT EXECUTE ON FUNCTION public\.snowflake_nextval\(\) TO mallory/, "the default, $name");
	query($node, 'GRANT EXECUTE ON FUNCTION snowflake_nextval() TO mallory; REVOKE USAGE ON SCHEMA f FROM mallory');
	refused($node, "SELECT snowflake_convert('m.calls'$run)", '42501',
		qr/mallory cannot use schema f\./, "a schema, $name");
	query($node, 'GRANT USAGE ON SCHEMA f TO mallory; REVOKE EXECUTE ON FUNCTION f.same FROM mallory');
	refused($node, "SELECT snowflake_convert('m.calls'$run)", '42501',
		qr/mallory cannot execute function f\.same\(bigint\)/, "a function, $name");
	refused($node, "SELECT snowflake_convert('m.calls', type => 'snowflake'$run)", '42501',
		qr/mallory cannot use type public\.snowflake\./s, "the type, $name");
}
query($node, 'GRANT EXECUTE ON FUNCTION f.same TO mallory');
like(query($node, q{SELECT note FROM snowflake_convert('m.calls', dry_run => false) WHERE statement ~ 'SET DEFAULT'}),
	qr/roles that insert need EXECUTE on it: GRANT EXECUTE ON FUNCTION public\.snowflake_nextval\(\) TO bob;/,
	'and what those lack who insert is said');
query($node, 'GRANT EXECUTE ON FUNCTION snowflake_nextval() TO PUBLIC');

query($node, q{SET ROLE mallory; CREATE TABLE m.counted (id serial PRIMARY KEY, x integer);
	CREATE STATISTICS m.counts ON id, x FROM m.counted; ALTER STATISTICS m.counts SET STATISTICS 5;
	RESET ROLE; ALTER STATISTICS m.counts OWNER TO carol});
like(query($node, q{SELECT note FROM snowflake_convert('m.counted') WHERE step = 1}),
	qr/runs code of mallory, .*; dry_run => false is refused: statistics object m\.counts belongs to carol\./,
	'a dry run says why it would not be run, of statistics as well');
refused($node, q{SELECT snowflake_convert('m.counted', dry_run => false)}, '42501',
	qr/have other owners than its table.*statistics object m\.counts belongs to carol/s,
	'and then it is not begun');
$node->psql('postgres', q{SELECT statement FROM snowflake_convert('m.counted') \gexec}, on_error_die => 1);
is(query($node, q{SELECT stxowner::regrole, (SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = stxrelid AND attname = 'id')
	FROM pg_statistic_ext WHERE stxname = 'counts'}), 'carol|bigint', 'a superuser who prints it can run it');

# ---- new IDs for rows ----

query($node, q{SET ROLE mallory;
	CREATE FUNCTION m.fire() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM m.evil(1); RETURN NEW; END $$;
	CREATE FUNCTION m.same(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT m.evil(1) AND $1 = $2';
	CREATE OPERATOR m.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = m.same);
	CREATE FUNCTION m.max(integer) RETURNS integer LANGUAGE sql AS 'SELECT m.evil(1)::integer';
	CREATE DOMAIN m.key AS bigint CHECK (m.evil(1))});
my %of_rows = (
	'a trigger' => 'CREATE TRIGGER fire BEFORE UPDATE ON m.rows FOR EACH ROW EXECUTE FUNCTION m.fire()',
	'a trigger on what refers to it' => 'CREATE TRIGGER fire AFTER UPDATE ON m.of_rows FOR EACH ROW EXECUTE FUNCTION m.fire()',
	'a domain' => 'ALTER TABLE m.of_rows DROP CONSTRAINT of_rows_t_fkey; ALTER TABLE m.rows ALTER id TYPE m.key;'
	  . ' ALTER TABLE m.of_rows ALTER t TYPE m.key, ADD CONSTRAINT of_rows_t_fkey FOREIGN KEY (t) REFERENCES m.rows',
	'an index' => 'CREATE INDEX ON m.rows ((id + m.evil(1)::integer))');

foreach my $trap (sort keys %of_rows)
{
	query($node, qq{SET ROLE mallory;
		CREATE TABLE m.rows (id bigint PRIMARY KEY DEFAULT public.snowflake_nextval(), x integer);
		CREATE TABLE m.of_rows (t bigint REFERENCES m.rows INITIALLY DEFERRED); INSERT INTO m.rows VALUES (1), (2); INSERT INTO m.of_rows VALUES (1);
		$of_rows{$trap}});
	query($node, q{BEGIN; ALTER TABLE m.of_rows DROP CONSTRAINT of_rows_t_fkey; UPDATE m.rows SET id = DEFAULT WHERE id = 1; UPDATE m.of_rows SET t = 3; ROLLBACK});
	is(caught($node), 1, "$trap: springs where rows get IDs by hand");
	foreach my $run ('true', 'false')
	{
		is($node->psql('postgres', "SET search_path = m, pg_catalog; SELECT count(*) FROM public.snowflake_renumber('m.rows'::regclass, 'id'::name, 1::bigint, 1::bigint, $run)"),
			0, "$trap: dry_run => $run succeeds");
		is(caught($node), 0, "$trap: snowflake_renumber(), dry_run => $run");
	}
	is(query($node, 'SELECT count(*) FROM m.rows JOIN m.of_rows ON t = id WHERE id > 2'), '1', "$trap: and the row has a new ID");
	caught($node);
	query($node, 'DROP TABLE m.of_rows, m.rows');
}
query($node, q{CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO orders VALUES (1);
	GRANT REFERENCES ON orders TO mallory; SET ROLE mallory;
	CREATE TABLE m.refers (order_id bigint REFERENCES orders); INSERT INTO m.refers VALUES (1);
	CREATE TRIGGER fire BEFORE UPDATE ON m.refers FOR EACH ROW EXECUTE FUNCTION m.fire()});
refused($node, q{SELECT snowflake_renumber('orders'::regclass, 'id'::name, 1::bigint, 1::bigint, false)}, '42501',
	qr/table m\.refers belongs to mallory/, "a table of somebody else that refers to the key");
is(caught($node), 0, 'its trigger does not run');

# ON UPDATE fires his triggers, too: on what refers to a copy of the key, and on what
# refers to that. From 18 on they run as the role that the foreign key acts as, which is he.
my %copies = (
	'the server keeps' => 'copy bigint GENERATED ALWAYS AS (id) STORED UNIQUE',
	'a trigger keeps' => 'copy bigint UNIQUE');

foreach my $copy (sort keys %copies)
{
	query($node, qq{DROP TABLE m.refers, orders;
		CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), $copies{$copy});
		CREATE OR REPLACE FUNCTION copy() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.copy := NEW.id; RETURN NEW; END'});
	query($node, 'CREATE TRIGGER copy BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION copy()')
	  if $copy =~ /trigger/;
	query($node, q{INSERT INTO orders VALUES (1); GRANT REFERENCES ON orders TO mallory; SET ROLE mallory;
		CREATE TABLE m.refers (copy bigint REFERENCES orders (copy) ON UPDATE CASCADE); INSERT INTO m.refers VALUES (1);
		CREATE TRIGGER fire AFTER UPDATE ON m.refers FOR EACH ROW EXECUTE FUNCTION m.fire()});
	query($node, 'BEGIN; UPDATE orders SET id = 2; ROLLBACK');
	is(caught($node), $node->pg_version->major < 18 ? 1 : 0, "a copy that $copy: springs by hand");
	refused($node, q{SELECT snowflake_renumber('orders'::regclass, 'id'::name, 1::bigint, 1::bigint, false)}, '42501',
		qr/table m\.refers belongs to mallory/, "a table of somebody else that refers to a copy that $copy");
	is(caught($node), 0, 'its trigger does not run');
}
query($node, 'DROP TABLE m.refers, orders; DROP FUNCTION copy; DROP OPERATOR m.= (bigint, bigint)');

# ---- partitions ----

query($node, q{SET ROLE mallory;
	CREATE TABLE m.parts (id bigint, x integer, CHECK (m.evil(x))) PARTITION BY RANGE (id);
	CREATE INDEX ON m.parts (x) WHERE m.evil(1);
	CREATE INDEX ON m.parts ((x + m.evil(1)::integer))});
$node->psql('postgres', q{BEGIN; CREATE TABLE m.by_hand PARTITION OF m.parts DEFAULT; ROLLBACK});
is(caught($node), 1, 'a partition that is made by hand springs the trap');
is(query($node, q{SELECT count(*) FROM snowflake_create_partitions('m.parts', '1 month', '2026-01-01', '2026-04-01')}),
	'3', 'partitions for somebody else');
is(caught($node), 0, 'are made with his rights');
is(query($node, q{SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relispartition AND relkind = 'r'
	AND relname LIKE 'parts%'}), 'mallory', 'and are his');

# ---- the owner's code leaves no setting behind ----

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

# ---- the database has strings in which a backslash escapes ----

if ($node->pg_version->major < 19)
{
	query($node, 'CREATE DATABASE strings OWNER mallory; ALTER DATABASE strings SET standard_conforming_strings = off');
	query($node, 'CREATE EXTENSION snowflake; CREATE TABLE t (id serial PRIMARY KEY)', database => 'strings');
	refused($node, "SELECT * FROM $_('t')", '55000',
		qr/standard_conforming_strings is off.*HINT:  Run: SET standard_conforming_strings = on;/s,
		"$_() does not search for code with a pattern that means something else", database => 'strings')
	  foreach 'snowflake_convert', 'snowflake_revert';
	is(query($node, q{SET standard_conforming_strings = on; SELECT count(*) > 0 FROM snowflake_convert('t', dry_run => false)},
			database => 'strings'), 't', 'the remedy helps');
}

# ---- the table changes while the caller waits for a lock ----

my $mallory = $node->background_psql('postgres');
my $caller = $node->background_psql('postgres', on_error_stop => 0);

$mallory->query_safe('SET SESSION AUTHORIZATION mallory');

# Let the call wait for a lock of mallory's, and meanwhile let mallory make the change.
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
is(caught($node), 0, 'a view in place of the sequence is not run');

query($node, q{SET ROLE mallory; CREATE TABLE m.a (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE m.b () INHERITS (m.a); INSERT INTO m.b VALUES (1)});
unlike(changed_meanwhile('LOCK TABLE m.b',
		q{SELECT note FROM snowflake_revert('m.a', identity => 'always', restart => 1000)},
		q{ALTER TABLE m.b NO INHERIT m.a; ALTER TABLE m.b DROP id; ALTER TABLE m.b ADD id text DEFAULT 'a text'}),
	qr/the next row is at/, 'what is no integer any more is not read as one');

# A table that shares the sequence draws numbers until it is read, and none after that.
query($node, q{SET ROLE mallory; CREATE TABLE m.shares (id bigserial PRIMARY KEY);
	CREATE TABLE m.other (id bigint PRIMARY KEY DEFAULT nextval('m.shares_id_seq'));
	SELECT count(*) FROM snowflake_convert('m.shares', dry_run => false)});
changed_meanwhile('INSERT INTO m.other DEFAULT VALUES',
	q{SELECT count(*) FROM snowflake_revert('m.shares', 'id', NULL, 1000, false)},
	'INSERT INTO m.other SELECT FROM generate_series(1, 2000)');
like($caller->{stderr}, qr/restart is a number that sequence m\.shares_id_seq has passed/, 'a sequence is not put back below a number that another table has drawn');
query($node, 'INSERT INTO m.other DEFAULT VALUES');

# a MAXVALUE that is lower than the restart makes way for the next row
query($node, q{CREATE SEQUENCE few MAXVALUE 1000; CREATE TABLE rows_ahead (id bigint PRIMARY KEY DEFAULT nextval('few'));
	ALTER SEQUENCE few OWNED BY rows_ahead.id;
	SELECT count(*) FROM snowflake_convert('rows_ahead', dry_run => false); INSERT INTO rows_ahead VALUES (5005)});
like(query($node, q{SELECT text || ' ' || note FROM (SELECT * FROM snowflake_revert('rows_ahead', 'id', NULL, 5000, false)) s (n, text, locks, note)}),
	qr/MAXVALUE 5004 RESTART WITH 5000.* the next row is at 5005$/m, 'a sequence ends before the next row, also if its own end was lower');

# a view that mallory makes has grants of a role that she is no member of
query($node, q{CREATE ROLE xena; SET ROLE mallory; CREATE TABLE m.granted (id serial PRIMARY KEY);
	CREATE VIEW m.seen AS SELECT 1 AS id; GRANT SELECT ON m.seen TO xena WITH GRANT OPTION;
	RESET ROLE; GRANT USAGE ON SCHEMA m TO xena; SET ROLE xena; GRANT SELECT ON m.seen TO PUBLIC});
$caller->query('SET SESSION AUTHORIZATION mallory');
changed_meanwhile('LOCK TABLE m.granted IN ACCESS SHARE MODE',
	q{SELECT count(*), 'snowflake_revert(' FROM snowflake_convert('m.granted', dry_run => false)},
	'CREATE OR REPLACE VIEW m.seen AS SELECT id FROM m.granted');
like($caller->{stderr}, qr/owners or grants have changed meanwhile/, 'the conversion fails, since another role would have to give the grants');
is(query($node, q{SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = 'm.granted'::regclass AND attname = 'id'}),
	'integer', 'nobody becomes a role without being a member');
$mallory->quit;
$caller->quit;

$node->stop;
done_testing();
