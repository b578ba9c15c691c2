# The exchange of the portable functions for the library, and back: the functions stay the
# same objects, with all that depends on them; no statement of a superuser runs their
# owner's code; and IDs ascend, also under load and if the clock is set back.
#
# takes: 45 s
use SnowflakeTest;
use IdChecker;
use Load;

my $sql = "$root/sql";
my $install = slurp_file("$sql/portable.sql");
my $bodies = slurp_file("$sql/portable-to-extension.sql");

my $node = new_server('main', "snowflake.shards = '3-4'");
start_with_clock($node, '+0');
query($node, 'CREATE ROLE tenant LOGIN; CREATE ROLE reader');

# Run SQL as the owner of the functions. Return what it prints.
sub by_owner
{
	my ($database, $statements) = @_;

	return query($node, "SET SESSION AUTHORIZATION tenant; SET search_path = ids; $statements", database => $database) =~ s/\A\n+//r;
}

sub not_by_owner
{
	my ($database, $statements, @args) = @_;

	return refused($node, "SET SESSION AUTHORIZATION tenant; SET search_path = ids; $statements", @args, database => $database);
}

# Create the extension as a superuser, above this number. Return the owner's statements
# that give the functions their other bodies.
sub create_library
{
	my ($database, $last) = @_;
	my ($above, $err) = run_command([ 'psql', '-XAtq', '-v', "last=$last", '-f', "$sql/portable-library.sql", '-d', $node->connstr($database) ]);

	is("$above$err", $last, "$database: the library begins above $last");
	return "SET portable.above = $above; $bodies";
}

sub exchange
{
	my ($database) = @_;

	by_owner($database, create_library($database, by_owner($database, 'SELECT snowflake_close()')));
	return;
}

sub exchange_back
{
	my ($database) = @_;
	my $mark = query($node, q{
		BEGIN;
		ALTER SEQUENCE snowflake_state.snowflake_mark OWNED BY NONE;
		SELECT last_value FROM snowflake_state.snowflake_mark;
		DROP EXTENSION snowflake;
		COMMIT;}, database => $database);

	by_owner($database, qq{
		SELECT snowflake_open($mark);
		$install
		SELECT snowflake_set_node(1);
		SELECT snowflake_set_shards('3-4');});
	return;
}

# Create a database with the functions, which belong to the role tenant.
sub database_of_tenant
{
	my ($name) = @_;

	query($node, "CREATE DATABASE $name");
	query($node, qq{CREATE SCHEMA ids AUTHORIZATION tenant; CREATE SCHEMA ids_portable_state AUTHORIZATION tenant; GRANT USAGE ON SCHEMA ids TO PUBLIC; GRANT CREATE ON SCHEMA public TO tenant;
		ALTER DATABASE $name SET search_path = public, ids}, database => $name);
	by_owner($name, "$install SELECT snowflake_set_node(1), snowflake_set_shards('3-4')");
	return;
}

# ---- what depends on the functions ----

database_of_tenant('swap');
my %swap = (database => 'swap');
by_owner('swap', q{
	SET search_path = public;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), "the Shard's" bigint DEFAULT ids.snowflake_shard_nextval(3),
		node integer GENERATED ALWAYS AS (ids.snowflake_node(id, 'snowflake')) STORED);
	CREATE TABLE l (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval('sonyflake'));
	CREATE TABLE p (id bigint DEFAULT ids.snowflake_nextval(), n integer) PARTITION BY RANGE (ids.snowflake_timestamp(id, 'snowflake'));
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO ('2025-01-01 UTC');
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM ('2025-01-01 UTC') TO (MAXVALUE);
	CREATE INDEX at ON t (ids.snowflake_timestamp(id, 'twitter'));
	CREATE POLICY mine ON t USING (ids.snowflake_node(id) >= 0);
	CREATE VIEW v WITH (security_barrier) AS SELECT id, ids.snowflake_timestamp(id) AS at FROM t;
	CREATE VIEW w AS SELECT id, at, ids.snowflake_node(id) AS node FROM v WHERE id >= ids.snowflake_min_id('2025-01-02');
	CREATE MATERIALIZED VIEW m AS SELECT count(ids.snowflake_sequence(id)) FROM t;
	CREATE RULE keep AS ON DELETE TO v DO INSTEAD NOTHING;
	CREATE RULE one AS ON INSERT TO v DO INSTEAD SELECT ids.snowflake_node(id) FROM w;
	CREATE RULE other AS ON INSERT TO w DO INSTEAD SELECT ids.snowflake_node(id) FROM v;
	GRANT SELECT (id) ON w TO reader WITH GRANT OPTION;
	COMMENT ON VIEW v IS 'it''s mine'; COMMENT ON COLUMN v.at IS 'when'; COMMENT ON RULE keep ON v IS 'kept';
	COMMENT ON FUNCTION ids.snowflake_nextval() IS 'my own'; GRANT EXECUTE ON FUNCTION ids.snowflake_advance(bigint) TO reader;
	REVOKE EXECUTE ON FUNCTION ids.snowflake_nextval_batch(integer) FROM PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO PUBLIC;
	INSERT INTO t SELECT FROM generate_series(1, 1000);
	INSERT INTO l SELECT FROM generate_series(1, 100);
	INSERT INTO p (n) VALUES (1)});

# Return all of the schema public, and each function with its OID and properties.
sub objects
{
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/objects.sql';

	system_or_bail('pg_dump', '--schema=public', '--exclude-table-data=*', '-d', $node->connstr('swap'), '-f', $dump);
	return slurp_file($dump) =~ s/^\\(?:un)?restrict .*\n//gmr
	  . query($node, q{SELECT oid, proname, proacl, proowner::regrole, obj_description(oid, 'pg_proc'), pg_get_function_arguments(oid), pg_get_function_result(oid)
		FROM pg_proc WHERE pronamespace = 'ids'::regnamespace ORDER BY oid}, %swap);
}

# Return what the objects do: one more ID of each layout, the rows that views and indexes
# find, and what the rules do.
sub behaviour
{
	return by_owner('swap', q{
		SET search_path = public; SET timezone = 'UTC';
		SELECT sum(hashtext(w::text)), count(*) FROM w WHERE id <= (SELECT id FROM t ORDER BY id OFFSET 999 LIMIT 1);
		WITH n AS (INSERT INTO t DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM t), "the Shard's" > (SELECT max("the Shard's") FROM t), node FROM n;
		WITH n AS (INSERT INTO l DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM l), ids.snowflake_node(id, 'sonyflake') FROM n;
		DELETE FROM v;
		SELECT count(*) >= 1000 FROM t;
		SET enable_seqscan = off;
		SELECT count(*) FROM t WHERE ids.snowflake_timestamp(id, 'twitter') = (SELECT ids.snowflake_timestamp(min(id), 'twitter') FROM t) AND id = (SELECT min(id) FROM t)});
}
my ($were, $did) = (objects(), behaviour());
like($did, qr/^-?\d+\|1000\nt\|t\|1\nt\|1\nt\n1\z/, 'portable, before the exchange');

# ---- refusals, after which all is as it was ----

not_by_owner('swap', $bodies, '55000', qr/does not have the extension.*sql\/portable-library\.sql/s, 'without the library');
query($node, 'CREATE EXTENSION snowflake', %swap);
not_by_owner('swap', $bodies, '55000', qr/the portable functions are not closed/, 'the functions make IDs');
my $number = by_owner('swap', 'SELECT snowflake_close()');
is(by_owner('swap', 'SELECT snowflake_close()'), $number, 'closed functions have one number');
not_by_owner('swap', 'SELECT snowflake_advance(1)', '55000', qr/the portable functions are closed.*HINT:  Call this after snowflake_open\(\)\./s,
	'closed functions do not advance');
my $low = qr/does not begin above the IDs.*psql -v last=$number /s;
not_by_owner('swap', $_, '55000', $low, 'the library was not raised') foreach $bodies, "SET portable.above = ''; $bodies", "SET portable.above = $number; $bodies";
my ($needed) = not_by_owner('swap', create_library('swap', $number - 1000), '55000', $low, 'the library was raised by too little')
  =~ /HINT:  Have a superuser run: psql -v last=(\d+) -f sql\/portable-library\.sql\./;
my $all = create_library('swap', $needed);
refused($node, "SET search_path = ids; $all", '42501', qr/does not own portable functions.*Connect as their owner/s, 'by a superuser', %swap);
not_by_owner('swap', "SET search_path = public; $all", '42501', qr/does not own portable functions in the schema public/, 'in another schema');
not_by_owner('swap', "SELECT $_", '55000', qr/the portable functions are closed.*Call again\. If their owner has given up/s, "closed: $_")
  foreach 'snowflake_nextval()', q{snowflake_nextval('sonyflake')}, 'snowflake_shard_nextval(3)', 'snowflake_nextval_batch(3)', 'snowflake_shard_nextval_batch(3, 1)';
not_by_owner('swap', 'SELECT snowflake_advance(1)', '55000', qr/closed.*snowflake_open/s, 'closed: snowflake_advance()');
my ($open) = by_owner('swap', 'SELECT status, remedy FROM snowflake_status() WHERE check_name = $$library$$')
  =~ m{^error\|Go on with the exchange. Or give it up, .*(SELECT \w+\.snowflake_open\(\w+\.snowflake_close\(\)\);)};
ok($open, 'the status says that they are closed');
not_by_owner('swap', "SELECT snowflake_open($_)", '22023', qr/not a time in Unix milliseconds/, "open: $_") foreach 'NULL', '-1', '10000000000000';
by_owner('swap', $open);
is(behaviour(), $did, 'opened again, they go on above their IDs');

# ---- there and back, twice ----

foreach my $time (1, 2)
{
	query($node, 'DROP EXTENSION snowflake', %swap) if $time == 1;
	my ($close) = not_by_owner('swap', $bodies, '55000', qr/does not have the extension/, "$time: without the extension")
	  =~ /HINT:  (SELECT \w+\.snowflake_close\(\);) and have a superuser run sql\/portable-library\.sql with the number that it returns/;
	by_owner('swap', ($time == 2 ? 'SET quote_all_identifiers = on; ' : '') . create_library('swap', by_owner('swap', $close)));
	is(objects(), $were, "$time: all objects are the same");
	is(behaviour(), $did, '... and do the same, above the IDs of before');
	is(query($node, q{
			SELECT p.oid::regprocedure, l.proname FROM pg_proc p LEFT JOIN pg_proc l ON l.pronamespace = 'public'::regnamespace AND l.proname = p.proname
				AND l.proargtypes = p.proargtypes AND (l.provolatile, l.proparallel, l.proisstrict, l.proretset, l.prorows) = (p.provolatile, p.proparallel, p.proisstrict, p.proretset, p.prorows)
			WHERE p.pronamespace = 'ids'::regnamespace AND p.proname !~ '^snowflake_(portable_|set_|close|open)' AND (l.oid IS NULL OR p.prosecdef OR p.proconfig IS NOT NULL)}, %swap),
		'', '... all functions have the labels of the library');
	like(by_owner('swap', "EXPLAIN (VERBOSE, COSTS off) SELECT ids.$_"), qr/Output: public\.\Q$_\E/, "... inlined: $_")
	  foreach 'snowflake_nextval()', q{snowflake_shard_nextval('3'::bigint)};
	like(by_owner('swap', 'SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN SELECT FROM public.t WHERE snowflake_timestamp(id, $$twitter$$) = now()'),
		qr/Index (?:Only )?Scan using at on t/, '... an index on a function is used');
	unlike(by_owner('swap', q{EXPLAIN SELECT FROM public.p WHERE snowflake_timestamp(id, 'snowflake') >= '2025-02-01'}), qr/\bp1\b/, '... a partition is pruned');
	is(by_owner('swap', q{SET timezone = 'UTC'; SELECT count(*), count(DISTINCT b) FROM snowflake_nextval_batch(100) b; SELECT count(*) FROM snowflake_shard_nextval_batch(3, 7);
			SELECT d FROM snowflake_decode(383124667101089792) d; SELECT snowflake_decode(NULL) IS NULL; SELECT count(*) > 5 FROM snowflake_layouts() WHERE nodes > 0}),
		qq{100|100\n7\n("2026-11-23 05:20:38.749+00",,,,1,,0)\nt\nt}, '... sets and records');
	is(query($node, qq{SET quote_all_identifiers = $_; SELECT found FROM public.snowflake_status() WHERE check_name = 'column types'}, %swap) =~ s/ are .*//r, '0 of 4 columns',
		"... the status counts their columns, names quoted: $_") foreach 'on', 'off';
	not_by_owner('swap', "SELECT $_", '55000', qr/library has the node id/, "... refused: $_") foreach 'snowflake_set_node(2)', q{snowflake_set_shards('4')};
	not_by_owner('swap', 'SELECT snowflake_advance(1)', '42501', qr/permission denied/, '... the mark is an administrator\'s');
	if ($time == 1)
	{
		my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';

		command_ok([ 'pg_dump', '-d', $node->connstr('swap'), '-f', $dump ], '... dumped');
		query($node, 'CREATE DATABASE restored');
		command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], '... and restored');
		is(query($node, q{INSERT INTO t DEFAULT VALUES RETURNING id > (SELECT max(id) FROM t), node; SELECT snowflake_currval() IN (id, "the Shard's") FROM t ORDER BY id DESC LIMIT 1}, database => 'restored'),
			"t|1\nt", '... where the functions call the library');
	}
	exchange_back('swap');
	is(query($node, 'SELECT count(*) FROM pg_extension WHERE extname = $$snowflake$$', %swap), '0', "$time: back, without the extension");
	is(objects(), $were, '... all objects are the same');
	is(behaviour(), $did, '... and do the same, above the IDs of before');
}

# ---- another layout of the server ----

query($node, 'CREATE DATABASE other');
query($node, 'CREATE SCHEMA ids AUTHORIZATION tenant; CREATE SCHEMA ids_portable_state AUTHORIZATION tenant', database => 'other');
not_by_owner('other', create_library('other', by_owner('other', "$install SELECT snowflake_set_node(1, 'javascript'); SELECT snowflake_close()")), '55000', qr/the layout of the node's IDs is another one.*ALTER SYSTEM SET snowflake.layout = 'timestamp:41 node:7 sequence:5 epoch:2024-01-01'/s,
	'another layout is refused');
not_by_owner('other', "SELECT snowflake_set_node(1, 'javascript')", '55000', qr/the portable functions are closed.*HINT:  Go on with the exchange/s, 'while they are closed, no call writes their bodies');

# ---- the owner's code ----

database_of_tenant('trap');
my %trap = (database => 'trap');
by_owner('trap', q{
	CREATE SEQUENCE caught;
	CREATE FUNCTION evil(v anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $$
		BEGIN
			IF session_user <> 'tenant' THEN PERFORM nextval('ids.caught'); END IF;
			RETURN v;
		END $$;
	CREATE TABLE public.t (id bigint DEFAULT ids.evil(ids.snowflake_nextval()));
	CREATE VIEW public.v AS SELECT ids.evil(id), ids.snowflake_node(id) FROM public.t;
	INSERT INTO public.t DEFAULT VALUES;
	CREATE INDEX ON ids_portable_state.snowflake_config (ids.evil(only_row)) WHERE ids.evil(only_row);
	CREATE INDEX ON public.t (ids.evil(id), ids.snowflake_timestamp(id, 'twitter'))});
exchange('trap');
by_owner('trap', 'INSERT INTO public.t DEFAULT VALUES');
refused($node, "SET search_path = ids; $_", '42501', qr/another role owns the schema|does not own portable/, 'a superuser has a tenant\'s functions', %trap)
  foreach $install, $bodies;
exchange_back('trap');
is(query($node, 'SELECT is_called FROM ids.caught', %trap), 'f', 'no code of the owner ran as another role');
is(query($node, 'SELECT ids.evil(1), is_called FROM ids.caught', %trap) && query($node, 'SELECT is_called FROM ids.caught', %trap), 't', 'a trap springs');

# who may create functions in the schema cannot have one of them
query($node, 'CREATE DATABASE mallory; CREATE ROLE mallory');
query($node, q{CREATE SCHEMA ids AUTHORIZATION tenant; CREATE SCHEMA ids_portable_state AUTHORIZATION tenant; GRANT CREATE, USAGE ON SCHEMA ids TO mallory; SET ROLE mallory;
	CREATE FUNCTION ids.snowflake_node(id bigint) RETURNS integer LANGUAGE sql AS 'SELECT 1'}, database => 'mallory');
not_by_owner('mallory', $install, '42501', qr/must be owner of function/, 'a function of another role is there');
query($node, 'DROP SCHEMA ids_portable_state', database => 'mallory');
refused($node, "SET search_path = ids; $install", '42501', qr/another role owns objects/, '... also for a superuser', database => 'mallory');

# ---- calls that are under way ----

database_of_tenant('calls');
my %calls = (database => 'calls');
query($node, 'CREATE EXTENSION snowflake; CREATE TABLE made (n serial, id bigint)', %calls);
my $last = query($node, 'SELECT ids.snowflake_nextval()', %calls);
my $owner = $node->background_psql('calls');
$owner->query_safe('SET SESSION AUTHORIZATION tenant; SET search_path = ids; SET client_min_messages = warning; BEGIN');
my $above = $owner->query_safe('SELECT snowflake_close()');
my $caller = $node->background_psql('calls', on_error_stop => 0);
$caller->query_until(qr/calling/, "\\echo calling\nSELECT ids.snowflake_nextval();\n");
$node->poll_query_until('calls', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
$owner->query_safe(create_library('calls', $above));
$owner->query_safe('COMMIT');
$owner->quit;
$caller->query('SELECT 1');
like($caller->{stderr}, qr/the portable functions are closed/, 'a call that waits in an old body makes no ID');
$caller->quit;
cmp_ok(query($node, 'SELECT ids.snowflake_nextval()', %calls), '>', $last, '... the next one is the library\'s, above those before');

# ---- the clock is set back meanwhile ----

my %seen = map { $_ => query($node, "SELECT ids.$_", %calls) } 'snowflake_nextval()', q{snowflake_nextval('sonyflake')}, 'snowflake_shard_nextval(3)';
exchange_back('calls');
set_clock($node, '-3600');
refused($node, "SELECT ids.$_", '58000', qr/behind/, "back, with a clock an hour behind: $_ is refused", %calls) foreach sort keys %seen;
set_clock($node, '+0');
foreach (sort keys %seen)
{
	cmp_ok(my $id = query($node, "SELECT ids.$_", %calls), '>', $seen{$_}, '... and goes on above');
	$seen{$_} = $id;
}
by_owner('calls', 'SELECT snowflake_close()');
set_clock($node, '-3600');
by_owner('calls', 'SELECT snowflake_open(0)');
refused($node, "SELECT ids.$_", '58000', qr/behind/, "opened again, with a clock an hour behind: $_ is refused", %calls) foreach sort keys %seen;
set_clock($node, '+0');
exchange('calls');
set_clock($node, '-3600');
refused($node, "SELECT ids.$_", '58000', qr/behind/, "there, with a clock an hour behind: $_ is refused", %calls) foreach sort keys %seen;
set_clock($node, '+0');
cmp_ok(query($node, "SELECT ids.$_", %calls), '>', $seen{$_}, '... and goes on above') foreach sort keys %seen;

# ---- under load ----

database_of_tenant('busy');
query($node, 'CREATE SCHEMA lib; GRANT USAGE ON SCHEMA lib TO PUBLIC', database => 'busy');
query($node, load_tables(), database => 'busy');
my $checker = IdChecker->new($node->basedir . '/ids');
my $load = start_load($checker, 'busy', $node->connstr('busy'), 8, undef, undef,
	qw(commit rollback select shard batch single pgedge sonyflake));
foreach my $time (1, 2)
{
	$load->more(2000);
	# elsewhere than the functions' callers look for it
	query($node, 'CREATE EXTENSION snowflake SCHEMA lib', database => 'busy');
	exchange('busy');
	$load->more(2000);
	exchange_back('busy');
}
$load->more(2000);
my $errors = $load->finish;
# closed; the extension, or a function of it, does not exist; an old body, which the
# language of the new one cannot read
is(join(' ', grep { !/^(?:55000|42704|42883|42601)$/ } sort keys %$errors), '', 'clients have no other errors: ' . join(' ', map { "$_ ($errors->{$_})" } sort keys %$errors));
$checker->state('busy', $node, 'busy', 'SELECT id FROM t');
$checker->state('busy, shards', $node, 'busy', 'SELECT id FROM s');
$checker->clients;
$checker->states;
$node->stop;
done_testing();
