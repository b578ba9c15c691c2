# The portable functions beside a hostile role. The role that makes the first ID keeps
# no lock, nor does a client that does not read. A role that may create functions in the
# same schema gets no right of the owner. Settings of a session change no answer. The
# status names roles that have too many rights.
#
# takes: 20 s
use SnowflakeTest;
use IO::Socket::UNIX;

my $install = slurp_file("$root/sql/portable.sql");
my $node = new_server('plain', "shared_preload_libraries = ''");
$node->start;
query($node, qq{CREATE ROLE mallory; CREATE SCHEMA ids;
	GRANT USAGE ON SCHEMA ids TO PUBLIC;
	SET search_path = ids; $install});

# Return the status of the check for privileges.
sub privileges
{
	return query($node, q{SELECT status, found FROM ids.snowflake_status() WHERE check_name = 'privileges'});
}

# ---- the first ID ----

# A call that began before the layout was changed waits for the change.
foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
{
	query($node, q{SELECT ids.snowflake_set_node(1, 'snowflake')});
	my $owner = $node->background_psql('postgres');
	my $caller = $node->background_psql('postgres', on_error_stop => 0);
	$owner->query_safe(q{BEGIN; SELECT ids.snowflake_set_node(2, 'discord')});
	$caller->query_safe("BEGIN ISOLATION LEVEL $level; SELECT 1");
	$caller->query_until(qr/calling/, "\\echo calling\nSELECT 'first ' || ids.snowflake_nextval();\n");
	$node->poll_query_until('postgres', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
	$owner->query_safe('COMMIT');
	$owner->quit;
	$caller->query('SELECT 1');
	like($caller->{stderr}, qr/the layout was changed meanwhile/, "$level: nobody makes the first ID in a layout that is no more");
	$caller->quit;
}

# ... nor any other one, if the owner has made the first in the same transaction
{
	my $owner = $node->background_psql('postgres');
	my $caller = $node->background_psql('postgres', on_error_stop => 0);
	$owner->query_safe(q{BEGIN; SELECT ids.snowflake_set_node(2, 'snowflake'); SELECT ids.snowflake_nextval()});
	$caller->query_until(qr/calling/, "\\echo calling\nSELECT 'other ' || ids.snowflake_nextval();\n");
	$node->poll_query_until('postgres', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
	$owner->query_safe('COMMIT');
	$owner->quit;
	$caller->query('SELECT 1');
	like($caller->{stderr}, qr/the layout was changed meanwhile/, 'nobody makes another ID in a layout that is no more');
	$caller->quit;
	like(answer($node, 'SELECT ids.snowflake_nextval()'), qr/^\d+$/, '... and the position stays in reach');
}

query($node, q{SELECT ids.snowflake_set_shards('0-3')});
my $first = begin_session($node, 'SET ROLE mallory; BEGIN; SELECT ids.snowflake_shard_nextval(1)');
like(answer($node, q{SET lock_timeout = '1s'; SELECT ids.snowflake_shard_nextval(2)}), qr/^\d+$/,
	'a transaction that has made the first ID stops nobody');
$first->query_safe('ROLLBACK');
$first->quit;

# ---- a client that does not read ----

# Send a statement to the server, and read nothing of the answer.
sub deaf_client
{
	my ($sql) = @_;
	my $user = query($node, 'SELECT session_user');
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "no connection: $!";
	my $start = pack('N', 196608) . "user\0$user\0database\0postgres\0\0";
	my ($type, $length, $rest);

	syswrite($socket, pack('N', 4 + length $start) . $start);
	do
	{
		read($socket, my $head, 5) == 5 or die 'no answer';
		($type, $length) = unpack('aN', $head);
		read($socket, $rest, $length - 4) if $length > 4;
	} until $type eq 'Z';
	syswrite($socket, 'Q' . pack('N', 5 + length $sql) . "$sql\0");
	return $socket;
}

# The server sends it messages until it waits for that client, each time with another
# one of the six that opening a tick has: not with the lock.
my @deaf;
foreach my $n (1 .. 8)
{
	push @deaf, deaf_client("DO 'BEGIN FOR i IN 1..$n LOOP RAISE NOTICE \$\$\$\$; END LOOP; END';
		SET ROLE mallory; SET client_min_messages = debug5;
		SELECT count(ids.snowflake_shard_nextval(1)) FROM generate_series(1, 10000000)");
	$node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_stat_activity WHERE wait_event = 'ClientWrite'")
	  or die 'a client hears everything';
	last if query($node, q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'ids_portable_state.snowflake_config'::regclass AND mode = 'ExclusiveLock')}) eq 't';
}
is(scalar @deaf, 8, 'a client that does not read keeps no lock');
like(answer($node, q{SET lock_timeout = '10s'; SELECT ids.snowflake_shard_nextval(2)}), qr/^\d+$/, '... and stops nobody');
close $_ foreach @deaf;

# ---- settings of a session ----

my $read = q{SELECT ids.snowflake_min_id('2025-01-02 UTC', 'timestamp:41 node:10 sequence:12 epoch:2024-02-01T00:00:00.5+00:00'),
	ids.snowflake_timestamp(383124667101089792, 'snowflake') = '2026-11-23 05:20:38.748 UTC',
	ids.snowflake_parse(ids.snowflake_encode(383124667101089792, 'base58'), 'base58'),
	(SELECT layout FROM ids.snowflake_layouts() WHERE name = 'sonyflake'),
	ids.snowflake_compose('2025-01-02 UTC', 1, 2, 'twitter')};
my $usual = query($node, $read);
# 19 does not know such strings any more
my @strings = query($node, q{SELECT count(*) FROM pg_settings WHERE name = 'escape_string_warning'})
  ? 'escape_string_warning = off; SET standard_conforming_strings = off' : ();
foreach my $setting (@strings, 'quote_all_identifiers = on', 'array_nulls = off',
	'extra_float_digits = -15', q{DateStyle = 'SQL, DMY'}, q{IntervalStyle = 'sql_standard'},
	q{TimeZone = 'Pacific/Kiritimati'}, q{timezone_abbreviations = 'India'}, q{plpgsql.extra_errors = 'all'},
	'transform_null_equals = on', 'plan_cache_mode = force_generic_plan')
{
	is(answer($node, "SET $setting; $read"), $usual, "read with $setting");
	like(answer($node, "SET $setting; SELECT ids.snowflake_nextval() > 0, ids.snowflake_shard_nextval(1) > 0, ids.snowflake_nextval('sonyflake') > 0,
			(SELECT count(*) FROM ids.snowflake_nextval_batch(9000)) FROM (SELECT ids.snowflake_set_node(2), ids.snowflake_set_shards('0-3')) s"),
		qr/^t\|t\|t\|9000$/, "made with $setting");
}

# ---- rights ----

like(privileges(), qr/^ok/, 'nobody has too many rights');
foreach my $grant ('UPDATE ON SEQUENCE ids_portable_state.snowflake_position', 'ALL ON SEQUENCE ids_portable_state.snowflake_shard_position',
	'UPDATE ON SEQUENCE ids_portable_state.snowflake_limit', 'USAGE ON SEQUENCE ids_portable_state.snowflake_shard_limit', 'UPDATE ON SEQUENCE ids_portable_state.snowflake_flush',
	'UPDATE ON ids_portable_state.snowflake_config', 'CREATE ON SCHEMA ids', 'CREATE ON SCHEMA ids_portable_state', 'USAGE ON SCHEMA ids_portable_state')
{
	query($node, "GRANT $grant TO mallory");
	like(privileges(), qr/^warning\|mallory may /, "the status tells: $grant");
	query($node, "REVOKE $grant FROM mallory");
}
query($node, 'GRANT CREATE ON SCHEMA ids TO PUBLIC');
like(privileges(), qr/^warning\|PUBLIC may CREATE on SCHEMA ids$/, 'the status tells what is PUBLIC\'s');

# For each call that does not name the exact types of its arguments, mallory makes a
# function in the same schema that fits better.
query($node, q{SET ROLE mallory; CREATE SEQUENCE ids.caught;
	CREATE FUNCTION ids.evil(answer anyelement) RETURNS anyelement LANGUAGE plpgsql AS $$
		BEGIN
			IF current_user <> 'mallory' THEN PERFORM nextval('ids.caught'); END IF;
			RETURN answer;
		END $$});
my $types = query($node, q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND prokind = 'f'});
my $traps = query($node, q{
	SET ROLE mallory;
	DO $do$
	DECLARE
		f record;
		other text;
	BEGIN
		FOR f IN SELECT p.proname, p.proretset, p.prorettype::regtype AS result, a.n, p.proargtypes::oid[]::regtype[] AS types
			FROM pg_proc p, generate_series(0, pronargs - 1) a (n)
			WHERE pronamespace = 'ids'::regnamespace AND proname LIKE 'snowflake_portable_%' AND NOT proretset AND prorettype <> 'void'::regtype
		LOOP
			FOREACH other IN ARRAY ARRAY['integer', 'bigint', 'text', 'numeric', 'regclass', 'double precision', 'name'] LOOP
				CONTINUE WHEN f.types[f.n] = other::regtype;
				f.types[f.n] := other;
				BEGIN
					EXECUTE format('CREATE FUNCTION ids.%s(%s) RETURNS %s LANGUAGE sql AS %L', f.proname,
						array_to_string(f.types, ', '), f.result, format('SELECT ids.evil(NULL::%s)', f.result));
				EXCEPTION WHEN duplicate_function OR invalid_function_definition THEN NULL;
				END;
			END LOOP;
		END LOOP;
		EXECUTE 'CREATE FUNCTION ids.snowflake_portable_raise(numeric) RETURNS void LANGUAGE sql AS $$SELECT ids.evil(1)$$';
		EXECUTE 'CREATE FUNCTION ids.snowflake_portable_require_fit(numeric, ids.snowflake_portable_fields) RETURNS void LANGUAGE sql AS $$SELECT ids.evil(1)$$';
	END $do$;
	SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND prokind = 'f'});
cmp_ok($traps, '>', $types + 50, 'there are traps');
foreach my $call ('ids.snowflake_set_node(3, NULL)', q{ids.snowflake_set_shards('0-5', NULL)}, 'ids.snowflake_nextval()',
	q{ids.snowflake_nextval('sonyflake')}, q{count(*) FROM ids.snowflake_nextval_batch(10, 'sonyflake')},
	q{ids.snowflake_nextval('timestamp:30 node:10 sequence:12')},
	'ids.snowflake_shard_nextval(2)', 'count(*) FROM ids.snowflake_shard_nextval_batch(2, 10)',
	'count(*) FROM ids.snowflake_nextval_batch(10)',
	'ids.snowflake_advance(ids.snowflake_nextval(), NULL, false)', q{ids.snowflake_min_id('1990-01-01', 'snowflake')},
	q{ids.snowflake_max_id(now())}, q{ids.snowflake_compose(now(), 1, 2)}, q{ids.snowflake_compose(now(), 1, 2, 'instagram')},
	q{ids.snowflake_compose('1990-01-01', 1, 2, 'twitter')}, '* FROM ids.snowflake_decode(383124667101089792)',
	'ids.snowflake_timestamp(1), ids.snowflake_node(1), ids.snowflake_shard(1), ids.snowflake_sequence(1)',
	q{ids.snowflake_parse('zzzzzzzzzzz', 'base62')}, q{ids.snowflake_encode(1, 'base58')},
	'count(*) FROM ids.snowflake_layouts()', 'count(*) FROM ids.snowflake_status()', 'ids.snowflake_open(ids.snowflake_close())')
{
	my $out = answer($node, "SELECT $call");

	is(query($node, 'SELECT is_called FROM ids.caught'), 'f', "not caught: $call")
	  or query($node, q{SELECT setval('ids.caught', 1, false)});
	unlike($out, qr/not unique|does not exist/, '... and it finds its functions');
}
query($node, 'SELECT ids.evil(1)');
is(query($node, 'SELECT is_called FROM ids.caught'), 't', 'a trap springs');

# ---- roles with few rights ----

# a role that has everything default privileges can give, and nothing else
query($node, q{
	CREATE ROLE app;
	CREATE DATABASE guarded;});
my %guarded = (database => 'guarded');
query($node, qq{
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO app;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO app;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO app;
	CREATE SCHEMA ids; REVOKE CREATE ON SCHEMA ids FROM app; GRANT USAGE ON SCHEMA ids TO app;
	SET search_path = ids; $install
	SELECT snowflake_set_node(7), snowflake_set_shards('3')}, %guarded);
is(query($node, q{SET ROLE app; SET search_path = ids;
	SELECT (SELECT node_id FROM snowflake_decode(snowflake_nextval())), snowflake_shard(snowflake_shard_nextval(3), 'instagram'),
		(SELECT count(*) FROM snowflake_nextval_batch(10)), (SELECT status FROM snowflake_status() LIMIT 1),
		snowflake_compose('2025-01-02', 7, 5) > 0, snowflake_node(snowflake_nextval('javascript'), 'javascript'),
		(SELECT count(*) FROM snowflake_nextval_batch(40, 'javascript'))}, %guarded), '7|3|10|ok|t|7|40',
	'a role with USAGE on the schema makes and reads IDs');
refused($node, "SET ROLE app; $_", '42501', qr/permission denied for (?:schema ids_portable_state|function)/, "... and may not: $_", %guarded)
  foreach q{SELECT setval('ids_portable_state.snowflake_position', 0)}, q{SELECT nextval('ids_portable_state.snowflake_position')},
	map({ ("PREPARE p AS DELETE FROM ids_portable_state.snowflake_$_", "CREATE RULE r AS ON INSERT TO ids_portable_state.snowflake_$_ DO INSTEAD NOTHING",
			"SELECT FROM ids_portable_state.snowflake_$_") } qw(config flush position limit shard_position shard_limit)),
	'BEGIN; LOCK TABLE ids_portable_state.snowflake_config IN ACCESS EXCLUSIVE MODE', 'BEGIN; LOCK TABLE ids_portable_state.snowflake_config IN SHARE MODE',
	'UPDATE ids_portable_state.snowflake_config SET node = 8', 'SELECT ids.snowflake_set_node(8)', q{SELECT ids.snowflake_set_shards('4')},
	'SELECT ids.snowflake_advance(ids.snowflake_nextval())',
	q{SELECT setval('ids_portable_state.snowflake_limit', 0)}, q{SELECT setval('ids_portable_state.snowflake_shard_limit', 0)}, q{SELECT setval('ids_portable_state.snowflake_flush', 0)},
	q{SELECT ids.snowflake_portable_wait('ids_portable_state.snowflake_limit', ids.snowflake_portable_node_layout(), 1, 1, 1)},
	q{SELECT ids.snowflake_portable_raise(1)}, 'SELECT ids.snowflake_close()', 'SELECT ids.snowflake_open(0)';
refused($node, q{SELECT nextval('ids_portable_state.snowflake_shard_limit')}, '2200H', qr/reached minimum/, 'nextval() on a limit fails for everybody', %guarded);
refused($node, q{SELECT ids.snowflake_set_node(7, 'javascript')}, '55000', qr/the layout cannot be changed/, 'another layout is refused', %guarded);
refused($node, q{SELECT ids.snowflake_set_shards('3', 'timestamp:41 shard:12 sequence:11')}, '55000', qr/the layout cannot be changed/, '... for shards, too', %guarded);
refused($node, q{SELECT ids.snowflake_set_node(1024)}, '22023', qr/room for 0 to 1023/, 'a node id that the layout has no room for', %guarded);

# the owner of the database dumps it with the state
if ($node->pg_version->major >= 14)
{
	query($node, 'CREATE ROLE keeper LOGIN; ALTER DATABASE guarded OWNER TO keeper');
	my $dump = PostgreSQL::Test::Utils::tempdir() . '/guarded.sql';
	command_ok([ 'pg_dump', '-U', 'keeper', '-f', $dump, $node->connstr('guarded') ], 'the owner of the database dumps it');
	like(slurp_file($dump), qr/setval\('ids_portable_state\.snowflake_position', \d{10}/, 'with the position');
	refused($node, "SET ROLE keeper; $_", '42501', qr/permission denied/, "but does not write: $_", %guarded)
	  foreach q{SELECT setval('ids_portable_state.snowflake_position', 0)}, 'UPDATE ids_portable_state.snowflake_config SET node = 8';
}

# an enemy's operators, functions and types, first in the path
query($node, q{CREATE SCHEMA m; GRANT USAGE ON SCHEMA m TO PUBLIC}, %guarded);
my @traps;
foreach my $op ('+', '-', '*', '/', '%', '&', '|', '<<', '>>', '=', '<>', '<', '>', '<=', '>=', '||', '~')
{
	foreach my $types ([qw(bigint bigint)], [qw(bigint integer)], [qw(integer bigint)], [qw(integer integer)],
		['double precision', 'double precision'], [qw(text text)], [qw(date integer)], ['interval', 'double precision'], [qw(date interval)])
	{
		my $result = $op =~ /^[=<>~]+$/ && $op !~ /<<|>>/ ? 'boolean' : $types->[0];
		my $f = 'm.trap' . @traps;
		push @traps, "CREATE FUNCTION $f($types->[0], $types->[1]) RETURNS $result LANGUAGE plpgsql AS \$\$ BEGIN RAISE 'trapped'; END \$\$;
			CREATE OPERATOR m.$op (FUNCTION = $f, LEFTARG = $types->[0], RIGHTARG = $types->[1]);";
	}
}
foreach my $function ('date_part(text, timestamptz)', 'clock_timestamp()', 'setval(regclass, bigint)', 'pg_sequence_last_value(regclass)',
	'timezone(text, timestamp)', 'generate_series(bigint, bigint)', 'floor(double precision)', 'format(text, bigint)', 'left(text, integer)',
	'nextval(regclass)', 'pg_current_xact_id_if_assigned()', 'setval(regclass, integer)',
	'concat(text, integer, text)', 'quote_ident(text)', 'replace(text, text, text)', 'set_config(text, text, boolean)', 'current_setting(text)')
{
	push @traps, "CREATE FUNCTION m.$function RETURNS integer LANGUAGE plpgsql AS \$\$ BEGIN RAISE 'trapped'; END \$\$;";
}
query($node, join('', @traps) . join('', map { "CREATE DOMAIN m.$_ AS boolean CHECK (false);" }
	  qw(int4 int8 text regclass float8 date interval timestamptz snowflake_portable_fields snowflake_config)), %guarded);
my $path = 'SET search_path = m, ids, pg_catalog';
refused($node, "$path; SELECT 1::bigint + 1::bigint", 'P0001', qr/trapped/, 'the traps work', %guarded);
is(answer($node, qq{$path;
	SELECT count(v) FROM (VALUES (snowflake_decode(snowflake_nextval())::pg_catalog.text), (snowflake_shard_nextval(3)::pg_catalog.text),
		(snowflake_timestamp(1)::pg_catalog.text), (snowflake_timestamp(1, 'twitter')::pg_catalog.text),
		(snowflake_node(1)::pg_catalog.text), (snowflake_node(1, 'twitter')::pg_catalog.text),
		(snowflake_shard(1, 'instagram')::pg_catalog.text), (snowflake_sequence(1)::pg_catalog.text),
		(snowflake_sequence(1, 'twitter')::pg_catalog.text), (snowflake_decode(1, 'twitter')::pg_catalog.text),
		(snowflake_min_id('2025-01-02')::pg_catalog.text), (snowflake_max_id('2025-01-02', 'twitter')::pg_catalog.text),
		(snowflake_compose('2025-01-02', 7)::pg_catalog.text), (snowflake_compose('2025-01-02', 7, 0, 'twitter')::pg_catalog.text),
		(snowflake_encode(1, 'base58')::pg_catalog.text), (snowflake_parse('2', 'base58')::pg_catalog.text),
		(snowflake_advance(1)::pg_catalog.text), (snowflake_nextval('sonyflake')::pg_catalog.text)) v (v);
	SELECT FROM snowflake_set_node(7), snowflake_set_shards('3');
	SELECT (SELECT count(*) FROM snowflake_nextval_batch(3)), (SELECT count(*) FROM snowflake_shard_nextval_batch(3, 3)),
		(SELECT count(*) FROM snowflake_layouts()), (SELECT count(*) FROM snowflake_status()),
		(SELECT count(*) FROM snowflake_nextval_batch(300, 'sonyflake'))}, %guarded), "18\n3|3|10|6|300",
	'no call falls into one');
query($node, 'CREATE DATABASE trapped', %guarded);
query($node, join('', 'CREATE SCHEMA m; CREATE SCHEMA ids;', @traps), database => 'trapped');
is(answer($node, qq{SET search_path = ids, m, pg_catalog; $install SELECT snowflake_set_node(7);
	SELECT pg_catalog.current_setting('search_path')}, database => 'trapped'), "\nids, m, pg_catalog",
	'nor does the script, which leaves the path as it was');
query($node, 'CREATE SCHEMA other; CREATE SCHEMA other_portable_state AUTHORIZATION mallory');
refused($node, "SET search_path = other; $install", '42501', qr/another role owns the schema other_portable_state.*HINT:  Connect as the owner of the functions\. If there are none, install them in a schema of another name\./s, 'the script beside a schema of somebody else');
# a role that may not make the second schema; the remedy, typed as it is printed
query($node, 'CREATE ROLE tenant; CREATE SCHEMA rented AUTHORIZATION tenant');
$_ = refused($node, "SET ROLE tenant; SET search_path = rented; $install", '42501', qr/permission denied to create the schema/, 'the script of a role without CREATE');
my ($grant) = /HINT:  As the owner of the database: (GRANT .*;)$/m;
query($node, $grant);
is(answer($node, "SET ROLE tenant; SET search_path = rented; $install SELECT snowflake_set_node(7); SELECT snowflake_node(snowflake_nextval())"), "\n7",
	'with what the hint says it makes IDs');
query($node, q{CREATE SCHEMA shared; GRANT CREATE, USAGE ON SCHEMA shared TO mallory; SET ROLE mallory;
	CREATE TYPE shared.fields AS (layout text); CREATE DOMAIN shared.snowflake_portable_fields AS shared.fields});
refused($node, "SET search_path = shared; $install", '42501', qr/another role owns the type shared.snowflake_portable_fields.*HINT:  Use a schema in which no other role may create anything\./s,
	'the script beside a type of somebody else');
query($node, q{CREATE SCHEMA taken; GRANT CREATE, USAGE ON SCHEMA taken TO mallory; SET ROLE mallory;
	CREATE FUNCTION taken.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'});
refused($node, "SET search_path = taken; $install", '42501',
	qr/another role owns objects of the schema taken.*HINT:  Connect as the owner of the functions, or use a schema in which no other role may create anything\./s,
	'the script beside a function of somebody else');
refused($node, "SET search_path = nowhere; $install", 'P0001', qr/search_path begins with no schema/, 'the script without a schema');

done_testing();
