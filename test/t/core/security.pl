# What an ordinary user, the owner of a schema and the owner of a database may do, and
# what they may not do by any way. Checks of test/sql/privileges.sql are not repeated
# here.
#
# takes: 30 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

# Check that a role is refused, with this SQLSTATE and message.
sub denied
{
	my ($node, $role, $sql, $sqlstate, $pattern, %options) = @_;

	refused($node, "SET SESSION AUTHORIZATION $role;\n$sql", $sqlstate,
		$pattern, "$role: " . ($options{name} || $sql), %options);
	return;
}

# Connect as a role, with these options for the server, and return what psql prints.
sub connect_as
{
	my ($node, $role, $sql, $pgoptions) = @_;
	my ($out, $err);

	local $ENV{PGOPTIONS} = $pgoptions || '';
	$node->psql('postgres', $sql, stdout => \$out, stderr => \$err,
		extra_params => [ '-U', $role ]);
	return ($out, $err);
}

# ---- settings made before the library is preloaded ----

my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init;
$bare->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pg_stat_statements'");
$bare->start;
query($bare, q{
	CREATE ROLE mallory LOGIN;
	CREATE ROLE auditor LOGIN IN ROLE pg_read_all_settings;
	CREATE EXTENSION snowflake;
});

foreach my $try (
	[ '', q{SET snowflake.node_id = 'x'; SET snowflake.layout = 'nonsense';} ],
	[ '-c snowflake.node_id=7 -c snowflake.shards=0-9', '' ])
{
	my ($out, $err) = connect_as($bare, 'mallory', $try->[1] . q{
		SELECT snowflake_node(1541815603606036480, 'twitter');
		SELECT snowflake_nextval();}, $try->[0]);
	is($out, '378', 'placeholders do not hinder explicit layouts');
	like($err, qr/must be loaded via shared_preload_libraries/,
		'and make nothing work');
	unlike($err, qr/pg_stat_statements/,
		'an ordinary user does not learn what else is preloaded');
}
my (undef, $seen) = connect_as($bare, 'auditor', 'SELECT snowflake_nextval()');
like($seen, qr/'pg_stat_statements, snowflake'/,
	'who may read all settings does');

denied($bare, 'mallory', "LOAD 'snowflake'", '42501', qr/access to library/);
denied($bare, 'mallory', $_, '42501', qr/permission denied/)
  foreach (
	q{ALTER ROLE mallory SET snowflake.node_id = '7'},
	q{SET snowflake.node_id = '7'; ALTER ROLE mallory SET snowflake.node_id = '7'},
	q{ALTER SYSTEM SET snowflake.node_id = '7'});

# A superuser may set them. They stay in the catalog, and must not count when the
# library is loaded.
query($bare, q{
	ALTER ROLE mallory SET snowflake.node_id = '7';
	ALTER ROLE mallory SET snowflake.max_clock_drift = '1000';
	ALTER ROLE mallory SET snowflake.sequence_start = 'nonsense';
	ALTER ROLE ALL SET snowflake.shards = '0-9';
	ALTER DATABASE postgres SET snowflake.layout = 'discord';
	ALTER DATABASE postgres SET snowflake.nonsense = 'x';
	DO $$
	BEGIN
		EXECUTE format('ALTER ROLE mallory SET snowflake.shard_layout = %L', repeat('x', 100000));
	END $$;
});
$bare->append_conf('postgresql.conf',
	"shared_preload_libraries = 'snowflake'\nsnowflake.node_id = '1'");
$bare->restart;
my ($out, $err) = connect_as($bare, 'mallory', q{
	SELECT snowflake_node(snowflake_nextval());
	SELECT string_agg(setting, ',' ORDER BY name) FROM pg_settings
	WHERE name IN ('snowflake.node_id', 'snowflake.max_clock_drift',
		'snowflake.sequence_start', 'snowflake.shards', 'snowflake.layout', 'snowflake.shard_layout');
});
is($out, "1\nsnowflake,5,1,zero,instagram,",
	'what was set for roles and databases before does not count');
like($err, qr/WARNING:  parameter "snowflake\.$_" cannot be changed/,
	"a warning says so of $_")
  foreach (qw(node_id max_clock_drift sequence_start shards layout shard_layout));
foreach my $setting ('snowflake.node_id=7', 'snowflake.layout=discord',
	'snowflake.nonsense=1', 'Snowflake.Max_Clock_Drift=1000')
{
	($out, $err) =
	  connect_as($bare, 'mallory', undef, "-c $setting");
	like($err, qr/FATAL:  (parameter ".*" cannot be changed|invalid configuration parameter name)/i,
		"no connection with $setting");
}
query($bare, 'ALTER ROLE mallory RESET ALL; ALTER ROLE ALL RESET ALL; ALTER DATABASE postgres RESET ALL');

# nor by any other command, whoever tries
query($bare, 'GRANT SET ON PARAMETER snowflake.max_clock_drift TO mallory');
foreach my $role ('mallory', query($bare, 'SELECT current_user'))
{
	denied($bare, $role, $_, '55P02', qr/cannot be changed/)
	  foreach (
		'SET snowflake.max_clock_drift = 1000',
		q{SELECT set_config('snowflake.max_clock_drift', '1000', false)},
		q{UPDATE pg_settings SET setting = '1000' WHERE name = 'snowflake.max_clock_drift'},
		"ALTER ROLE $role SET snowflake.max_clock_drift = 1000",
		'CREATE FUNCTION pg_temp.f() RETURNS bigint LANGUAGE SQL SET snowflake.max_clock_drift = 1000 RETURN public.snowflake_nextval()'
	  );
}
is( query($bare, q{
	SELECT count(*) > 0,
		string_agg(name, ' ') FILTER (WHERE context NOT IN ('postmaster', 'sighup'))
	FROM pg_settings WHERE name LIKE 'snowflake.%'}),
	't|snowflake.audit snowflake.time_ranges',
	'the settings of ours that a session can change: for superusers the audit, and the planner\'s');

# only the server may read the shutdown file
$bare->stop;
my ($file) = glob($bare->data_dir . '/*snowflake*');
ok(defined $file && ((stat $file)[2] & oct('0007')) == 0,
	'the shutdown file is not for other users of the machine');

# ---- all objects of the extension ----

my $node = new_server('main', 'snowflake.reserve = 100ms',
	"snowflake.shards = '0-9'", 'max_prepared_transactions = 1');
$node->start;
my $superuser = query($node, 'SELECT current_user');
query($node, q{
	CREATE ROLE mallory LOGIN;
	CREATE SCHEMA ext;
	GRANT USAGE ON SCHEMA ext TO mallory;
	CREATE EXTENSION snowflake SCHEMA ext;
});

my $members = q{
	FROM pg_depend d, pg_extension e
	WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
	AND d.refobjid = e.oid AND e.extname = 'snowflake'};

# An object of a kind that is not in this list needs checks of its own below. From 18
# on the row type of a table is a member of the extension too.
is(query($node, qq{SELECT DISTINCT classid::regclass $members
		AND NOT (classid = 'pg_type'::regclass AND objid IN (SELECT unnest(ARRAY[reltype,
			(SELECT typarray FROM pg_type WHERE oid = reltype)]) FROM pg_class WHERE relkind IN ('r', 'v')))
	ORDER BY 1}),
	join("\n", map { "pg_$_" } qw(type proc class cast namespace opclass operator opfamily)),
	'the extension has functions, relations, schemas, and what belongs to the type, and nothing else');
is(query($node, qq{SELECT objid::regtype $members AND classid = 'pg_type'::regclass
		AND (SELECT typrelid = 0 AND typelem = 0 FROM pg_type WHERE oid = objid)}),
	'ext.snowflake', 'one type');

# Operators, comparisons and I/O of the type are the server's functions.
is( query($node, qq{
	SELECT count(*), count(*) FILTER (WHERE pronamespace = 'snowflake_internal'::regnamespace
		AND has_function_privilege('public', p.oid, 'EXECUTE') AND EXISTS (SELECT FROM pg_proc s
			WHERE s.pronamespace = 'pg_catalog'::regnamespace AND s.prosrc = p.prosrc
			AND (s.provolatile, s.proparallel, s.proisstrict, s.proleakproof)
				= (p.provolatile, p.proparallel, p.proisstrict, p.proleakproof)))
	FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE lanname = 'internal' AND prokind = 'f'
	AND p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)}),
	'69|69', 'functions of the server for the type have its labels');

# each function's volatility, parallel safety, and "public" if PUBLIC may execute it
my @functions = split /\n/, <<'END';
snowflake_accept(text) v u -
snowflake_advance(bigint) v u -
snowflake_advance(bigint,text) v u -
snowflake_advance(bigint,text,boolean) v u -
snowflake_clock() v r public
snowflake_compose(timestamp with time zone,integer,integer) s s public
snowflake_compose(timestamp with time zone,integer,integer,text,integer) i s public
snowflake_convert(regclass,name,integer,boolean,text,text,text) v u public
snowflake_create_feed() v u public
snowflake_create_partitions(regclass,interval,timestamp with time zone,timestamp with time zone,text) v u public
snowflake_currval() v r public
snowflake_decode(bigint) s s public
snowflake_decode(bigint,text) i s public
snowflake_drop_partitions(regclass,timestamp with time zone,text) v u public
snowflake_encode(bigint,text) i s public
snowflake_feed_horizon() s s public
snowflake_feed_horizon(text) s s public
snowflake_feed_shard_horizon() s s public
snowflake_generate() v r public
snowflake_generate(text) v r public
snowflake_horizon() s r public
snowflake_horizon(text) s r public
snowflake_inspect(bigint) s s public
snowflake_layouts() s s public
snowflake_lease() v r public
snowflake_leave_feed() v u public
snowflake_leave_feed(bigint) v u public
snowflake_max_id(timestamp with time zone) s s public
snowflake_max_id(timestamp with time zone,text) i s public
snowflake_min_id(timestamp with time zone) s s public
snowflake_min_id(timestamp with time zone,text) i s public
snowflake_nextval() v r public
snowflake_nextval(text) v r public
snowflake_nextval_batch(integer) v r public
snowflake_nextval_batch(integer,text) v r public
snowflake_node(bigint) s s public
snowflake_node(bigint,text) i s public
snowflake_node_conflicts(regclass,name,integer) v r public
snowflake_parse(text,text) i s public
snowflake_partitions(regclass,text) s s public
snowflake_publish_horizon() v u public
snowflake_publish_horizon(text) v u public
snowflake_publish_shard_horizon() v u public
snowflake_ready() v r public
snowflake_ready(text) v r public
snowflake_recover() v u -
snowflake_registry_init() v u -
snowflake_registry_init(text) v u -
snowflake_registry_recover() v u -
snowflake_registry_recover(interval) v u -
snowflake_registry_recover(interval,interval) v u -
snowflake_registry_recover(interval,interval,text) v u -
snowflake_registry_release(bigint) v u -
snowflake_registry_slots() v u -
snowflake_renumber(regclass,name,bigint,bigint,boolean) v u public
snowflake_reset_mark(timestamp with time zone) v u -
snowflake_revert(regclass,name,text,bigint,boolean) v u public
snowflake_sequence(bigint) s s public
snowflake_sequence(bigint,text) i s public
snowflake_shard(bigint) s s public
snowflake_shard(bigint,text) i s public
snowflake_shard_horizon(bigint) s r public
snowflake_shard_nextval(bigint) v r public
snowflake_shard_nextval_batch(bigint,integer) v r public
snowflake_stat_reset() v r -
snowflake_status() v u public
snowflake_timestamp(bigint) s s public
snowflake_timestamp(bigint,text) i s public
max(snowflake) i s public
min(snowflake) i s public
snowflake_internal.bound(text,"any") s s public
snowflake_internal.bound(text,"any",text) s s public
snowflake_internal.compare_support(internal) i s public
snowflake_internal.copy_nextval(internal) s r public
snowflake_internal.copy_nextval(text,internal) s r public
snowflake_internal.copy_shard_nextval(bigint,internal) s r public
snowflake_internal.copy_support(internal) i s public
snowflake_internal.feed_servers() s r public
snowflake_internal.hash(bigint) i s public
snowflake_internal.hash(bigint,bigint) i s public
snowflake_internal.hash(snowflake) i s public
snowflake_internal.hash(snowflake,bigint) i s public
snowflake_internal.hash(integer) i s public
snowflake_internal.hash(integer,bigint) i s public
snowflake_internal.hash(smallint) i s public
snowflake_internal.hash(smallint,bigint) i s public
snowflake_internal.horizon_holders() v r public
snowflake_internal.is_at(bigint,"any") s s public
snowflake_internal.is_at(bigint,"any",text) s s public
snowflake_internal.is_at_support(internal) i s public
snowflake_internal.layout(text) s s public
snowflake_internal.layout_support(internal) i s public
snowflake_internal.stat_get() v r public
snowflake_internal.stat_layouts() v r public
END
my $functions = qq{
	SELECT concat_ws(' ', replace(p.oid::regprocedure::text, 'ext.', ''), provolatile,
		proparallel, CASE WHEN has_function_privilege('public', p.oid, 'EXECUTE') THEN 'public' ELSE '-' END)
	FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)
		AND (lanname <> 'internal' OR prokind = 'a')
	ORDER BY p.oid::regprocedure::text COLLATE "C"};
is(query($node, $functions), join("\n", @functions),
	'each function, its labels, and whether PUBLIC may execute it');
is(query($node, qq{
	SELECT string_agg(DISTINCT replace(proname, 'snowflake_', ''), ' ') FROM pg_proc WHERE NOT proisstrict AND prokind = 'f' AND oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)}),
	'accept advance convert copy_nextval copy_shard_nextval create_partitions drop_partitions feed_horizon generate horizon nextval '
	  . 'nextval_batch node_conflicts partitions publish_horizon registry_init registry_recover registry_release renumber reset_mark revert '
	  . 'shard_horizon shard_nextval shard_nextval_batch', 'these functions are called with NULL, the others return it');

# A function in SQL must have a parsed body, and one in another language must set its
# own search_path.
is( query($node, qq{
	SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = prolang
	WHERE p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)
	AND lanname <> 'internal' AND (prosecdef OR proleakproof OR prosupport NOT IN (0, 'snowflake_internal.copy_support'::regproc, 'snowflake_internal.is_at_support'::regproc, 'snowflake_internal.layout_support'::regproc)
		OR pronamespace NOT IN ('ext'::regnamespace, 'snowflake_internal'::regnamespace) OR proowner <> '$superuser'::regrole
		OR NOT (lanname = 'c' AND probin IN ('\$libdir/snowflake', '\$libdir/snowflake_lease')
			OR lanname = 'sql' AND prosqlbody IS NOT NULL
			OR EXISTS (SELECT FROM unnest(proconfig) c WHERE c LIKE 'search_path=%')))}),
	'',
	'no function is SECURITY DEFINER, LEAKPROOF, or follows search_path');

# all rights on a sequence but UPDATE and USAGE, which let a role write it
is( query($node, qq{
	SELECT relname, relkind, relpersistence, relowner = '$superuser'::regrole,
		(SELECT string_agg(grantee::regrole || ' ' || privilege_type, ',') FROM aclexplode(relacl)
			WHERE grantee <> relowner)
	FROM pg_class WHERE oid IN (SELECT objid $members AND classid = 'pg_class'::regclass)
	ORDER BY relname COLLATE "C"}),
	join("\n", 'pg_stat_snowflake|v|p|t|- SELECT',
		'pg_stat_snowflake_layouts|v|p|t|- SELECT',
		'snowflake_feed_servers|v|p|t|- SELECT',
		'snowflake_horizon_holders|v|p|t|- SELECT',
		map { "snowflake_$_|S|p|t|- SELECT" }
		  qw(mark recorded_epoch recorded_layout recorded_shard_epoch recorded_shard_layout)),
	'each relation; others may only read sequences');
is( query($node, qq{
	SELECT count(*) FROM pg_extension e, unnest(extconfig) c
	WHERE extname = 'snowflake' AND c IN (SELECT objid $members AND classid = 'pg_class'::regclass)}),
	'5', 'sequences are dumped with their content');
is( query($node, q{
	SELECT count(*) FROM (
		SELECT 'pg_proc'::regclass AS classid, oid FROM pg_proc WHERE pronamespace = 'ext'::regnamespace
		UNION ALL SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace = 'ext'::regnamespace
		UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typnamespace = 'ext'::regnamespace) o
	WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.classid AND objid = oid AND deptype IN ('e', 'i'))}),
	'0', 'the script leaves nothing that is not part of the extension');

# ---- a search_path full of traps ----

# Each trap has the name of something that code could use without naming its schema.
my $traps = q{
	CREATE FUNCTION %1$s.now() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.to_timestamp(float8) RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.setval(regclass, bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.nextval(regclass) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.pg_extension_config_dump(text, text) RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.snowflake_initialize(VARIADIC text[]) RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.trap(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.trap(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE OPERATOR %1$s.= (FUNCTION = %1$s.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR %1$s.> (FUNCTION = %1$s.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR %1$s.= (FUNCTION = %1$s.trap, LEFTARG = text, RIGHTARG = text);
	CREATE OPERATOR %1$s.|| (FUNCTION = %1$s.trap, LEFTARG = text, RIGHTARG = text);
	CREATE DOMAIN %1$s."bigint" AS pg_catalog.int8 CHECK (false);
	CREATE DOMAIN %1$s."integer" AS pg_catalog.int4 CHECK (false);
	CREATE DOMAIN %1$s.text AS pg_catalog.text CHECK (false);
	CREATE DOMAIN %1$s.timestamptz AS pg_catalog.timestamptz CHECK (false);
	CREATE DOMAIN %1$s.regclass AS pg_catalog.regclass CHECK (false);
	CREATE DOMAIN %1$s.void AS pg_catalog.int4 CHECK (false);
};
my $registers = join("\n",
	map { "CREATE TABLE %1\$s.snowflake_$_ (last_value bigint, log_cnt bigint, is_called boolean);" }
	  qw(mark recorded_layout recorded_epoch recorded_shard_layout recorded_shard_epoch));
query($node, 'CREATE SCHEMA trap AUTHORIZATION mallory; SET ROLE mallory; '
	  . sprintf($traps . $registers, 'trap'));
my $into_trap = q{SET search_path = pg_temp, trap, pg_catalog, ext; }
  . sprintf($registers, 'pg_temp');

refused($node, "SET search_path = trap, pg_catalog; $_", 'P0001', qr/trapped/,
	"a trap works: $_")
  foreach ('SELECT now()', 'SELECT 1::pg_catalog.int8 = 2::pg_catalog.int8');
my @calls = (
	'snowflake_nextval()', 'snowflake_nextval_batch(1)',
	q{snowflake_nextval('twitter')}, q{snowflake_nextval_batch(1, 'twitter')},
	'snowflake_generate()', q{snowflake_generate('twitter')},
	'snowflake_shard_nextval(1)', 'snowflake_shard_nextval_batch(1, 1)',
	'snowflake_currval()', 'snowflake_ready()', q{snowflake_ready('twitter')},
	map({ ("snowflake_$_(1)", "snowflake_$_(1, 'twitter')") }
		qw(decode timestamp node shard sequence)),
	map({ ("snowflake_$_('2025-01-01')", "snowflake_$_('2025-01-01', 'twitter')") }
		qw(min_id max_id)),
	q{snowflake_compose('2025-01-01', 1)}, q{snowflake_compose('2025-01-01', 1, 0, 'twitter')},
	'snowflake_layouts()', 'snowflake_inspect(1)', 'snowflake_horizon()', q{snowflake_horizon('twitter')},
	'snowflake_shard_horizon(1)', 'snowflake_internal.horizon_holders()', 'snowflake_lease()', 'snowflake_clock()',
	'snowflake_internal.stat_get()', 'snowflake_internal.stat_layouts()', q{snowflake_internal.layout('shard')}, 'snowflake_status()', q{snowflake_node_conflicts('pg_catalog.pg_sequence', 'seqstart')},
	'snowflake_create_feed()', 'snowflake_publish_horizon()', q{snowflake_publish_horizon('twitter')},
	'snowflake_publish_shard_horizon()', 'snowflake_feed_horizon()', q{snowflake_feed_horizon('twitter')},
	'snowflake_feed_shard_horizon()', 'snowflake_internal.feed_servers()', 'snowflake_leave_feed(1)', 'snowflake_leave_feed()');
query($node, q{
	SELECT ext.snowflake_create_feed();
	GRANT SELECT, INSERT, DELETE ON ext.snowflake_feed TO mallory});
my @admin_calls = ('snowflake_advance(1)', "snowflake_advance(1, 'twitter')", "snowflake_advance(1, 'twitter', false)",
	q{snowflake_accept('clock')}, 'snowflake_recover()', 'snowflake_reset_mark(pg_catalog.clock_timestamp())',
	'snowflake_stat_reset()');
# functions that only compute have regression tests; partitions follow below;
# conversions are in t/adoption/convert.pl; and without a registry nothing asks one
is(scalar(@calls) + scalar(@admin_calls), scalar(grep { !/^m|_(internal\.(?:bound|compare_support|copy_\w+|hash|is_at\w*|layout_support)|encode|parse|\w*partitions|convert|renumber|revert|registry_\w+)\(/ } @functions),
	'no function is left out of the calls');

# each call as the first one of a session, and after the mark is loaded
foreach my $role ('mallory', $superuser)
{
	query($node, q{INSERT INTO ext.snowflake_feed VALUES (1, 'none', 1, NULL, NULL, now())});
	foreach my $call (@calls, $role eq $superuser ? @admin_calls : ())
	{
		my $schema = $call =~ /^snowflake_internal\./ ? '' : 'ext.';
		my ($status, undef, $stderr) = $node->psql('postgres', qq{
			SET SESSION AUTHORIZATION $role; $into_trap
			SELECT ext.snowflake_nextval();
			SELECT $schema$call;});
		is($status, 0, "$role, with traps in search_path: $call")
		  or diag($stderr);
	}
	# the first call of a session looks up the durable numbers
	my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
		SET SESSION AUTHORIZATION $role; $into_trap
		SELECT ext.snowflake_decode(1) IS NULL;
		SELECT ext.snowflake_ready();
		SELECT pg_catalog.count(*) FROM pg_temp.snowflake_mark;
		SELECT pg_catalog.count(*) FROM trap.snowflake_mark;});
	is("$status $stdout", "0 f\nt\n0\n0",
		"$role: the extension uses its own registers") or diag($stderr);
}

# Partitions: search_path, in which every name is also a trap or another relation, does
# not matter between the parent's name and the partitions.
query($node, q{
	CREATE SCHEMA cut AUTHORIZATION mallory;
	SET ROLE mallory;
	CREATE TABLE cut.orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE trap.orders (id bigint) PARTITION BY RANGE (id);
	} . join("\n", map { "CREATE TABLE trap.orders_p2026_11_$_ (id bigint);" } 21 .. 24)
	  . sprintf(q{
	CREATE FUNCTION %1$s.date_trunc(text, timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.to_char(timestamptz, text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.format(text, text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.quote_ident(text) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.pg_get_expr(pg_node_tree, oid) RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.trap(timestamptz, interval) RETURNS timestamptz LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.trap(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION %1$s.trap(oid, oid) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE OPERATOR %1$s.+ (FUNCTION = %1$s.trap, LEFTARG = timestamptz, RIGHTARG = interval);
	CREATE OPERATOR %1$s.< (FUNCTION = %1$s.trap, LEFTARG = timestamptz, RIGHTARG = timestamptz);
	CREATE OPERATOR %1$s.< (FUNCTION = %1$s.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR %1$s.>= (FUNCTION = %1$s.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR %1$s.= (FUNCTION = %1$s.trap, LEFTARG = oid, RIGHTARG = oid);
	CREATE DOMAIN %1$s.int8 AS pg_catalog.int8 CHECK (false);
	CREATE DOMAIN %1$s."interval" AS pg_catalog.interval CHECK (false);
	CREATE DOMAIN %1$s.oid AS pg_catalog.oid CHECK (false);
	}, 'trap'));
foreach my $try ([ 'mallory', 21, 22 ], [ $superuser, 23, 24 ])
{
	my ($role, $first, $last) = @$try;
	my $days = "'2026-11-$first 00:00+00', '2026-11-$last 12:00+00'";
	my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
		SET SESSION AUTHORIZATION $role; $into_trap
		CREATE TABLE pg_temp.orders (id pg_catalog.int8) PARTITION BY RANGE (id);
		CREATE TABLE pg_temp.orders_p2026_11_$first (id pg_catalog.int8);
		SELECT ext.snowflake_create_partitions('cut.orders', '1 day', $days);
		SELECT ext.snowflake_create_partitions('cut.orders', '1 day', $days, NULL);
		SELECT partition, is_default FROM ext.snowflake_partitions('cut.orders')});

	is($stdout, join("\n",
			(map { "cut.orders_p2026_11_$_" } $first .. $last),
			map { "cut.orders_p2026_11_$_|f" } 21 .. $last),
		"$role, with traps in search_path: partitions")
	  or diag($stderr);
}
is( query($node, q{
	SELECT relnamespace::regnamespace, relowner::regrole, count(*) FROM pg_class
	WHERE relispartition AND relkind = 'r' GROUP BY 1, 2}),
	'cut|mallory|4', "all partitions are beside their parent, and its owner's");

# ---- the durable numbers are out of the application's way ----

query($node, q{
	CREATE SCHEMA other;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT ext.snowflake_nextval());
	GRANT INSERT, SELECT ON t TO mallory;
	GRANT CREATE ON SCHEMA ext TO mallory;
});
my @registers = map { "snowflake_state.snowflake_$_" }
  qw(mark recorded_layout recorded_epoch recorded_shard_layout recorded_shard_epoch);
my $session = $node->background_psql('postgres');
my @ids = ($session->query_safe('INSERT INTO t DEFAULT VALUES RETURNING id'));
query($node, qq{
	GRANT ALL ON ALL SEQUENCES IN SCHEMA ext, public TO mallory;
	GRANT ALL ON SCHEMA ext TO mallory});
foreach my $register (@registers)
{
	my $oid = query($node, "SELECT '$register'::regclass::oid");

	denied($node, 'mallory', "SELECT $_", '42501', qr/permission denied for sequence/,
		name => "$_ on $register")
	  foreach ("setval($oid, 1)", "nextval($oid)");
}

# Who could name one could lock it: the parser does so before it checks any right.
foreach my $register (@registers)
{
	denied($node, 'mallory', $_, '42501', qr/permission denied for schema snowflake_state/)
	  foreach ("PREPARE p AS DELETE FROM $register",
		"CREATE RULE r AS ON INSERT TO $register DO INSTEAD NOTHING",
		"BEGIN; LOCK TABLE $register", "SELECT last_value FROM $register", "SELECT '$register'::regclass");
}
is(query($node, q{
	SELECT n.oid::regnamespace, a.grantee::regrole, privilege_type
	FROM pg_namespace n, aclexplode(nspacl) a
	WHERE nspname ~ '^snowflake_' AND a.grantee <> nspowner ORDER BY 1}),
	"snowflake_state|pg_database_owner|USAGE\nsnowflake_internal|-|USAGE", 'rights on the schemas');
# What they need, they have all the same.
like(query($node, q{SET ROLE mallory; SET search_path = ext; SET enable_seqscan = off;
	PREPARE p AS SELECT count(*) FROM public.t WHERE snowflake_timestamp(id) >= now() - interval '1 hour';
	EXPLAIN (COSTS off) EXECUTE p; EXECUTE p}),
	qr/Index Cond: \(id >= snowflake_internal\.bound\(.*^1$/ms, 'a condition on the time uses the index');
is(query($node, q{SET ROLE mallory; SELECT count(*) FROM ext.pg_stat_snowflake}), '1', 'the view is read');

# USAGE moves none of them, also while they have no value yet.
query($node, 'CREATE DATABASE fresh TEMPLATE template0');
query($node, 'CREATE EXTENSION snowflake', database => 'fresh');
foreach my $database ('postgres', 'fresh')
{
	foreach my $register (@registers)
	{
		query($node, "GRANT USAGE ON SCHEMA snowflake_state TO mallory; GRANT USAGE ON SEQUENCE $register TO mallory", database => $database);
		my $held = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM $register";
		my $before = query($node, $held, database => $database);
		my $called = query($node, "SELECT is_called FROM $register", database => $database);

		denied($node, 'mallory',
			($called eq 't' ? '' : "SELECT nextval('$register');") . "SELECT nextval('$register')",
			'2200H', qr/reached minimum value/, database => $database,
			name => "$database: nextval on $register");
		is(query($node, $held, database => $database), $before, 'and it holds what it held');
		query($node, "REVOKE USAGE ON SEQUENCE $register FROM mallory; REVOKE USAGE ON SCHEMA snowflake_state FROM mallory", database => $database);
	}
}
is(query($node, 'SELECT ext.snowflake_nextval() > 0'), 't', 'IDs go on');
query($node, 'DROP DATABASE fresh');

refused($node, 'ALTER EXTENSION snowflake SET SCHEMA other', '0A000',
	qr/does not support SET SCHEMA/, 'the extension stays where it was created');
push @ids, $session->query_safe('INSERT INTO t DEFAULT VALUES RETURNING id');
query($node, 'SET ROLE mallory; CREATE SEQUENCE ext.snowflake_mark MINVALUE 0');
push @ids, $session->query_safe('INSERT INTO t DEFAULT VALUES RETURNING id');
push @ids, query($node, 'SELECT ext.snowflake_nextval()');
check_ids('with a sequence of that name beside the functions', \@ids);
is(query($node, 'SELECT last_value, is_called FROM ext.snowflake_mark'), '0|f',
	'which is left alone');
query($node, q{
	DROP SEQUENCE ext.snowflake_mark;
	REVOKE ALL ON SCHEMA ext FROM mallory;
	GRANT USAGE ON SCHEMA ext TO mallory});
$session->quit;

# ---- a user who has almost no rights ----

query($node, 'REVOKE USAGE ON SCHEMA ext FROM mallory');
denied($node, 'mallory', 'SELECT ext.snowflake_nextval()', '42501',
	qr/permission denied for schema ext/);
like(query($node, 'SET ROLE mallory; INSERT INTO t DEFAULT VALUES RETURNING id'),
	qr/^\d+$/, 'mallory: a default needs no right to the schema');
query($node, 'REVOKE EXECUTE ON FUNCTION ext.snowflake_nextval() FROM PUBLIC');
denied($node, 'mallory', 'INSERT INTO t DEFAULT VALUES', '42501',
	qr/permission denied for function snowflake_nextval/);
query($node, q{
	GRANT EXECUTE ON FUNCTION ext.snowflake_nextval() TO PUBLIC;
	GRANT USAGE ON SCHEMA ext TO mallory;
	SET SESSION AUTHORIZATION mallory;
	SELECT ext.snowflake_nextval()});

# ---- what every role may do does not harm others ----

# a role that reads the mark by its OID can hold a weak lock for any time
my $holder = $node->background_psql('postgres',
	extra_params => [ '-U', 'mallory' ]);
$holder->query_safe('BEGIN; SELECT ' . join(', ', map { 'pg_sequence_last_value(' . query($node, "SELECT '$_'::regclass::oid") . ')' } @registers[0, 1]));
my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$node->poll_query_until('postgres',
	"SELECT extract(epoch FROM clock_timestamp()) * 1000 > $mark") or die;
cmp_ok(epoch_ms(query($node, "SET lock_timeout = '10s'; SELECT ext.snowflake_nextval()")), '>=', $mark,
	'the mark moves on while somebody reads it');
$holder->query_safe('COMMIT');
$holder->quit;

# sessions that make as many IDs as they can
my @greedy = map {
	my ($greedy_out, $greedy_err) = ('', '');
	IPC::Run::start(
		[
			'psql', '-XAtq', '-U', 'mallory', '-d', $node->connstr('postgres'),
			'-c', 'SELECT count(*) FROM generate_series(1, 1000) g, ext.snowflake_nextval_batch(1000000 + 0 * g)'
		],
		'<', \'', '>', \$greedy_out, '2>', \$greedy_err)
} 1 .. 2;
my $at_it = q{
	FROM pg_stat_activity
	WHERE query LIKE '%_batch(1000000 +%' AND state = 'active' AND usename = 'mallory'};
$node->poll_query_until('postgres', "SELECT count(*) = 2 $at_it") or die;
my @modest = split /\n/,
  query($node, 'SELECT ext.snowflake_nextval() FROM generate_series(1, 100)');
check_ids('while two sessions take all they can', \@modest);
is(query($node, "SELECT count(pg_cancel_backend(pid)) $at_it"), '2',
	'they were still at it');
$_->finish foreach @greedy;
denied($node, 'mallory',
	"SET statement_timeout = '100ms'; SELECT count(*) FROM ext.snowflake_nextval_batch(10000000)",
	'57014', qr/statement timeout/);
query($node, q{ALTER ROLE mallory SET temp_file_limit = '1MB'});
(undef, $err) = connect_as($node, 'mallory',
	"SET work_mem = '64kB'; SELECT count(*) FROM ext.snowflake_nextval_batch(10000000)");
like($err, qr/temporary file size exceeds "?temp_file_limit/,
	'a batch is held to temp_file_limit');
query($node, 'ALTER ROLE mallory RESET ALL');

# layouts meant to do harm: the answer is short, complete, and an error
query($node, q{CREATE DATABASE japan ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
query($node, 'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext', database => 'japan');
foreach my $database ('postgres', 'japan')
{
	is( query($node, q{
		SET client_encoding = 'UTF8';
		CREATE FUNCTION pg_temp.attempt(layout text, OUT state text, OUT short boolean)
		LANGUAGE plpgsql AS $$
		DECLARE
			message text;
			detail text;
		BEGIN
			PERFORM ext.snowflake_node(1, layout);
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
			-- what no encoding of the server could hold is an error here
			PERFORM convert_to(message || detail, 'UTF8');
			short := octet_length(message) < 300 AND octet_length(detail) < 300;
		END $$;
		SELECT a.*, count(*) FROM (VALUES
			(repeat('x', 1000000)), (repeat(' ', 1000000)), (repeat('tick:1ms ', 100000)),
			(repeat('timestamp:41 ', 100000)), ('timestamp:' || repeat('9', 1000000)),
			('epoch:' || repeat('9', 1000000)), ('%s%s%n%n%1$s'), ('tick:%s%n'),
			('twitter' || repeat(' twitter', 1000)), (repeat(':', 1000000)),
			(repeat('日', 300000)), ('x' || repeat('日', 300000)), ('xx' || repeat('日', 300000)),
			('epoch:' || repeat('日', 50)), ('epoch:x' || repeat('日', 50)),
			('tick:x' || repeat('日', 50)), ('tick:xx' || repeat('日', 50)),
			('timestamp:' || repeat('日', 50)), ('timestamp:x' || repeat('日', 50))) v (layout),
			pg_temp.attempt(v.layout) a
		GROUP BY 1, 2}, database => $database),
		'22023|t|19', "$database: hostile layouts are refused in a few words");
	refused($node, "SET client_encoding = 'UTF8'; SELECT ext.snowflake_node(1, 'x' || repeat('日', 50))",
		'22023', qr/invalid layout: "x/, "$database: and the client can read it",
		database => $database);
}
query($node, 'DROP DATABASE japan');

# ---- one database and another ----

query($node, 'CREATE DATABASE neighbour');
query($node, 'CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext; GRANT USAGE ON SCHEMA ext TO mallory',
	database => 'neighbour');
my $mine = query($node, 'SET ROLE mallory; SELECT ext.snowflake_nextval()', database => 'neighbour');
my $theirs = query($node, 'SELECT ext.snowflake_nextval()');
cmp_ok($theirs, '>', $mine, 'databases share the counter, as documented');
query($node, q{SELECT ext.snowflake_advance(ext.snowflake_min_id(now() + interval '20 hours'))});
is( query($node, q{
	SET SESSION AUTHORIZATION mallory;
	SELECT ext.snowflake_ready(),
		ext.snowflake_timestamp(ext.snowflake_nextval()) < clock_timestamp() + interval '1 hour';
	RESET SESSION AUTHORIZATION;
	SELECT to_timestamp(last_value / 1000.0) < clock_timestamp() + interval '1 hour' FROM snowflake_state.snowflake_mark;
}, database => 'neighbour'), "t|t\nt",
	'but nothing of the mark of one shows in another');
query($node, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint)});
like(query($node, 'SELECT ext.snowflake_nextval()'), qr/^\d+$/, 'and back');

# ---- what a user of one database sees of another database, as documented ----

# In "treasury" all names contain a word that would show.
my %treasury = (database => 'treasury');
my @see_nothing = (
	q{SELECT array_agg(s::text) FROM ext.snowflake_status() s
		WHERE check_name IN ('recorded configuration', 'column types', 'unique indexes', 'rows above')},
	q{SELECT array_agg(l::text) FROM ext.snowflake_lease() l},
	q{SELECT to_jsonb(c) - '{wall_clock,max_error,estimated_error}'::text[] FROM ext.snowflake_clock() c});
my $see_all = q{
	SELECT string_agg(x, ' ') FROM (
		SELECT s::text FROM ext.pg_stat_snowflake s
		UNION ALL SELECT s::text FROM ext.snowflake_status() s
		UNION ALL SELECT c::text FROM ext.snowflake_clock() c
		UNION ALL SELECT l::text FROM ext.snowflake_lease() l
		UNION ALL SELECT h::text FROM ext.snowflake_horizon_holders h) v (x)};
my $see_sums = q{
	SELECT node_ids, node_batches, shard_ids, refused_read_only,
		(SELECT substring(found, '^\d+') FROM ext.snowflake_status() WHERE check_name = 'databases')
	FROM ext.pg_stat_snowflake};
my $see_mark = q{
	SELECT s.mark < clock_timestamp() + interval '1 hour', c.status
	FROM ext.pg_stat_snowflake s, ext.snowflake_status() c WHERE c.check_name = 'mark'};

# Run a query as mallory in the other database.
sub mallory_sees
{
	return query($node, "SET SESSION AUTHORIZATION mallory; $_[0]",
		database => 'neighbour');
}

query($node, 'CREATE ROLE treasurer; CREATE DATABASE treasury');
query($node, q{
	CREATE SCHEMA ext; CREATE EXTENSION snowflake SCHEMA ext;
	GRANT USAGE ON SCHEMA ext TO PUBLIC;
	CREATE SCHEMA ledgers AUTHORIZATION treasurer}, %treasury);
is(query($node, 'SELECT mark IS NULL FROM ext.pg_stat_snowflake', %treasury),
	't', 'a database that has made no IDs shows no mark of others');
my @nothing_before = map { mallory_sees($_) } @see_nothing;
my @sums_before = split /\|/, mallory_sees($see_sums);

my $last = query($node, q{
	SET ROLE treasurer;
	CREATE TABLE ledgers.ledger (id integer DEFAULT ext.snowflake_nextval());
	CREATE TABLE ledgers.entries (id bigint DEFAULT ext.snowflake_nextval() PRIMARY KEY);
	INSERT INTO ledgers.entries SELECT ext.snowflake_nextval() + (86400000::bigint << 22);
	DO 'BEGIN PERFORM ext.snowflake_shard_nextval(3), count(*) FROM ext.snowflake_nextval_batch(5); END';
	INSERT INTO ledgers.entries DEFAULT VALUES RETURNING id}, %treasury);
refused($node, 'BEGIN READ ONLY; SELECT ext.snowflake_nextval()', '25006',
	qr/read-only/, 'a call is refused in another database', %treasury);
like(query($node, $see_all, %treasury), qr/ledgers\.ledger\.id.*ledgers\.entries\.id/s,
	'there are names to be seen in another database');
my @sums = split /\|/, mallory_sees($see_sums);
is( join(' ', map { $sums[$_] - $sums_before[$_] } 0 .. $#sums), '7 1 1 1 1',
	"sums are the server's: what is made and refused in another database is counted");
is(mallory_sees("SELECT last_timestamp = ext.snowflake_timestamp($last) FROM ext.pg_stat_snowflake"),
	't', 'so is the last timestamp');

# a transaction that makes IDs, a prepared one, and a mark in the far future
my $treasurer = $node->background_psql('treasury');
$treasurer->query_safe('BEGIN; SELECT ext.snowflake_nextval()');
query($node, q{BEGIN; SELECT ext.snowflake_nextval(); PREPARE TRANSACTION 'audit'}, %treasury);
is( mallory_sees(q{
	SELECT h.gid, d.datname, h.pid IS NOT NULL, h.since IS NOT NULL, h.lowest_id IS NOT NULL
	FROM ext.snowflake_horizon_holders h JOIN pg_database d ON d.oid = h.database
	ORDER BY h.gid}), "audit|treasury|f|t|t\n|treasury|t|f|f",
	'who holds horizons back shows, as far as for others of his own database');
query($node, q{SELECT ext.snowflake_advance(ext.snowflake_min_id(now() + interval '20 hours'))},
	%treasury);
is(mallory_sees($see_mark), 't|ok', 'the mark is that of his own database');
is( query($node, q{
	SELECT to_timestamp(last_value / 1000.0) > clock_timestamp() + interval '19 hours', status
	FROM snowflake_state.snowflake_mark, ext.snowflake_status() WHERE check_name = 'mark'}, %treasury),
	't|error', '... wherever the other one is');
foreach my $i (0 .. $#see_nothing)
{
	is(mallory_sees($see_nothing[$i]), $nothing_before[$i],
		'nothing of another database shows in: ' . $see_nothing[$i] =~ s/\s+/ /gr);
}
unlike(mallory_sees($see_all), qr/treasur|ledger/, 'none of its names shows');
$treasurer->query_safe('COMMIT');
$treasurer->quit;
query($node, q{ROLLBACK PREPARED 'audit'}, %treasury);
query($node, 'DROP DATABASE treasury');
query($node, 'DROP DATABASE neighbour');

# ---- the extension in a schema of another role ----

query($node, q{
	DROP EXTENSION snowflake CASCADE;
	DROP TABLE ext.snowflake_feed;
	DROP SCHEMA ext;
	CREATE ROLE owner LOGIN;
	CREATE DATABASE app OWNER owner;
});
my %app = (database => 'app');
query($node, 'CREATE SCHEMA hostile AUTHORIZATION owner', %app);

# if an object of the same name exists there, the extension is not created
foreach my $object (
	[ 'TABLE', 'snowflake_horizon_holders', '(id bigint)' ],
	[ 'SEQUENCE', 'pg_stat_snowflake', '' ],
	[ 'VIEW', 'snowflake_horizon_holders', 'AS SELECT 1' ],
	[ 'TYPE', 'pg_stat_snowflake', 'AS ENUM ()' ],
	[ 'FUNCTION', 'snowflake_nextval()', 'RETURNS bigint LANGUAGE SQL RETURN 1' ],
	[ 'PROCEDURE', 'snowflake_accept(text)', 'LANGUAGE SQL AS $$$$' ],
	[ 'AGGREGATE', 'snowflake_node(bigint)', '(SFUNC = int8pl, STYPE = bigint)' ],
	[ 'FUNCTION', 'snowflake_advance(bigint, text, boolean)', 'RETURNS timestamptz LANGUAGE SQL RETURN now()' ])
{
	my ($kind, $name, $definition) = @$object;

	query($node, "SET ROLE owner; CREATE $kind hostile.$name $definition", %app);
	refused($node, 'CREATE EXTENSION snowflake SCHEMA hostile', '42(710|P07|723|725)',
		qr/already exists|associated type of the same name|is not unique/,
		"no extension where there is a $kind $name", %app);
	is( query($node, q{
		SELECT count(*) FROM pg_extension WHERE extname = 'snowflake'
		UNION ALL SELECT count(*) FROM pg_class
		WHERE relname ~ 'snowflake' AND relowner <> 'owner'::regrole}, %app),
		"0\n0", 'and nothing of it is left');
	$name =~ s/ DEFAULT [^)]+//;
	query($node, "SET ROLE owner; DROP $kind hostile.$name", %app);
}

# nor if a schema of its own exists already
foreach my $schema ('snowflake_state', 'snowflake_internal')
{
	query($node, "SET ROLE owner; CREATE SCHEMA $schema", %app);
	refused($node, 'CREATE EXTENSION snowflake SCHEMA hostile', '42P06',
		qr/schema "$schema" already exists/, 'no extension beside a schema of its name', %app);
	query($node, "SET ROLE owner; DROP SCHEMA $schema", %app);
}

# With no such object: traps, and default privileges, also of the superuser, that grant
# all rights to all roles.
denied($node, 'owner', "ALTER DEFAULT PRIVILEGES FOR ROLE $superuser GRANT ALL ON SEQUENCES TO owner",
	'42501', qr/permission denied|must be member of role/, %app);
query($node, 'SET ROLE owner; ' . sprintf($traps, 'hostile') . q{
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO owner, PUBLIC;
	ALTER DEFAULT PRIVILEGES IN SCHEMA hostile GRANT ALL ON FUNCTIONS TO owner, PUBLIC;
	ALTER DEFAULT PRIVILEGES IN SCHEMA hostile GRANT ALL ON SEQUENCES TO mallory;
	RESET ROLE;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC;
	ALTER DEFAULT PRIVILEGES IN SCHEMA hostile GRANT ALL ON SEQUENCES TO PUBLIC;
	ALTER DEFAULT PRIVILEGES IN SCHEMA hostile GRANT ALL ON FUNCTIONS TO PUBLIC;
	SET search_path = hostile, pg_catalog;
	CREATE EXTENSION snowflake SCHEMA hostile;}, %app);
my $privileges = qq{
	SELECT concat_ws(' ', type, identity, owner, acl) FROM (
		SELECT 'function' AS type, p.oid::regprocedure::text AS identity, proowner::regrole AS owner,
			(SELECT array_agg(a ORDER BY a::text) FROM unnest(coalesce(proacl, acldefault('f', proowner))) a)::text AS acl
		FROM pg_proc p WHERE p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)
		UNION ALL
		SELECT 'sequence', c.oid::regclass::text, relowner::regrole,
			(SELECT array_agg(a ORDER BY a::text) FROM unnest(relacl) a)::text
		FROM pg_class c WHERE c.oid IN (SELECT objid $members AND classid = 'pg_class'::regclass)) o
	ORDER BY identity COLLATE "C"};
(my $hostile_functions = $functions) =~ s/'ext\.'/'hostile.'/;
is(query($node, $hostile_functions, %app), join("\n", @functions),
	'into a hostile schema: each function takes and may be executed as elsewhere');
is( query($node, qq{
	SELECT DISTINCT grantee::regrole, privilege_type, relowner::regrole
	FROM pg_class, aclexplode(relacl)
	WHERE pg_class.oid IN (SELECT objid $members AND classid = 'pg_class'::regclass)
	AND grantee <> relowner}, %app),
	"-|SELECT|$superuser", 'all but the superuser may only read the registers');
my $before = query($node, $privileges, %app);

# attacks of the owner of the schema and of the database
foreach my $attack (
	(map { [ $_, '42501' ] }
		q{SELECT setval('snowflake_state.snowflake_mark', 1)},
		q{SELECT nextval('snowflake_state.snowflake_recorded_layout')},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark RESTART},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark MAXVALUE 1000},
		q{CREATE TABLE hostile.mine (id bigint); ALTER SEQUENCE snowflake_state.snowflake_mark OWNED BY hostile.mine.id},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO owner},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark RENAME TO mine},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark SET SCHEMA public},
		q{ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED},
		q{COMMENT ON SEQUENCE snowflake_state.snowflake_mark IS 'mine'},
		q{CREATE OR REPLACE FUNCTION hostile.snowflake_nextval() RETURNS bigint LANGUAGE SQL RETURN 1},
		q{ALTER FUNCTION hostile.snowflake_nextval() RENAME TO mine},
		q{ALTER FUNCTION hostile.snowflake_nextval() SECURITY DEFINER},
		q{ALTER FUNCTION hostile.snowflake_decode(bigint) SET search_path = hostile},
		q{ALTER FUNCTION hostile.snowflake_decode(bigint) IMMUTABLE},
		q{ALTER FUNCTION hostile.snowflake_nextval() OWNER TO owner},
		q{CREATE FUNCTION snowflake_internal.initialize() RETURNS void LANGUAGE C AS '$libdir/snowflake'},
		q{GRANT EXECUTE ON FUNCTION hostile.snowflake_advance(bigint, text, boolean) TO owner},
		q{ALTER EXTENSION snowflake SET SCHEMA public},
		q{ALTER SCHEMA snowflake_state RENAME TO mine},
		q{ALTER SCHEMA snowflake_state OWNER TO owner},
		q{CREATE TABLE snowflake_state.mine (id bigint)},
		q{ALTER EXTENSION snowflake UPDATE},
		q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark},
		q{ALTER EXTENSION snowflake ADD FUNCTION hostile.now()},
		q{DROP EXTENSION snowflake},
		q{CREATE EXTENSION snowflake SCHEMA public VERSION '1.0'},
		qq{REASSIGN OWNED BY $superuser TO owner},
		qq{SET ROLE $superuser},
		q{SELECT hostile.snowflake_advance(1::bigint)},
		q{SELECT hostile.snowflake_accept('clock')},
		q{SELECT hostile.snowflake_accept('configuration')}),
	[ q{UPDATE snowflake_state.snowflake_mark SET last_value = 1}, '(42809|42501|55000)' ],
	[ q{CREATE FUNCTION hostile.snowflake_nextval() RETURNS bigint LANGUAGE SQL RETURN 1}, '42723' ],
	[ q{DROP SEQUENCE snowflake_state.snowflake_mark CASCADE}, '42501' ],
	[ q{DROP SCHEMA snowflake_state CASCADE}, '42501' ],
	# the owner of a schema may drop the objects in it, but no member of an extension
	[ q{DROP FUNCTION hostile.snowflake_nextval() CASCADE}, '2BP01' ],
	[ q{ALTER DATABASE app SET snowflake.layout = 'discord'}, '55P02' ],
	[ q{ALTER ROLE owner IN DATABASE app SET snowflake.node_id = '2'}, '(55P02|42501)' ])
{
	my ($sql, $sqlstate) = @$attack;

	if ($sql =~ /^CREATE EXTENSION/)
	{
		query($node, 'CREATE DATABASE empty OWNER owner');
		denied($node, 'owner', $sql, $sqlstate,
			qr/permission denied to create extension/, database => 'empty');
		query($node, 'DROP DATABASE empty');
		next;
	}
	denied($node, 'owner', "BEGIN; $sql", $sqlstate,
		qr/must be |permission denied|requires it|already exists|cannot/, %app);
}
query($node, q{
	SET SESSION AUTHORIZATION owner;
	SET client_min_messages = error;
	GRANT ALL ON ALL SEQUENCES IN SCHEMA hostile TO owner;
	GRANT ALL ON SCHEMA snowflake_state TO owner;
	GRANT ALL ON ALL SEQUENCES IN SCHEMA snowflake_state TO owner;
	GRANT ALL ON FUNCTION hostile.snowflake_nextval() TO owner WITH GRANT OPTION}, %app);
is(query($node, $privileges, %app), $before,
	'after all that, owners and privileges are what they were');
is( query($node, 'SELECT hostile.snowflake_node(hostile.snowflake_nextval())', %app),
	'1', 'and the functions are ours');

# What the owner may do: add a function that is called in place of ours, rename the
# schema, and drop the extension.
is( query($node, q{
	BEGIN;
	SET LOCAL ROLE owner;
	CREATE FUNCTION hostile.snowflake_advance(integer) RETURNS text LANGUAGE SQL RETURN 'trapped';
	RESET ROLE;
	SELECT hostile.snowflake_advance(1);
	ROLLBACK}, %app), 'trapped',
	'who may create functions beside ours can overload them, as documented');
$session = $node->background_psql('app');
@ids = ($session->query_safe('SELECT hostile.snowflake_nextval()'));
query($node, 'SET ROLE owner; ALTER SCHEMA hostile RENAME TO renamed', %app);
push @ids, $session->query_safe('SELECT renamed.snowflake_nextval()');
query($node, 'SET ROLE owner; ALTER SCHEMA renamed RENAME TO hostile', %app);
is( query($node, q{
	BEGIN;
	SET SESSION AUTHORIZATION owner;
	SET client_min_messages = error;
	DROP SCHEMA hostile CASCADE;
	SELECT count(*) FROM pg_extension WHERE extname = 'snowflake';
	ROLLBACK}, %app), '0',
	'the owner of a schema can drop it with the extension in it, as documented');
push @ids, $session->query_safe('SELECT hostile.snowflake_nextval()');
check_ids('before and after', \@ids);
$session->quit;

# ---- traps for calls of the install scripts ----

# The scripts' search_path begins with pg_catalog, so no operator or function can
# replace one there whose arguments are exactly those of the call. But if the call
# needs a cast, PostgreSQL prefers a better match in any schema of the path. So the
# database's owner makes, for each type in the registry's script, the usual operators,
# and functions with the names that the script calls. They are in the schema of one
# extension; the other one has a schema of its own.
my $called = query($node, q{
	CREATE EXTENSION snowflake_registry;
	SELECT string_agg(DISTINCT quote_literal(call[1]), ', ')
	FROM pg_proc p, regexp_matches(pg_get_functiondef(p.oid), '(\w+)\(', 'g') call
	WHERE p.pronamespace = 'snowflake_registry'::regnamespace;
	DROP EXTENSION snowflake_registry});
like($called, qr/'to_timestamp'/, 'the names that the script calls are found');

my $plant = q{
	SET check_function_bodies = off;
	CREATE FUNCTION pg_extension_config_dump(text, text) RETURNS void LANGUAGE SQL AS 'trapped';
	DO $$
	DECLARE
		-- of two types, the result of an operator is the one that comes later
		types text[] := '{integer,bigint,numeric,inet,text,interval,timestamptz}';
		trap record;
	BEGIN
		FOR trap IN
			SELECT types[a] AS l, types[b] AS r, operators, result
			FROM generate_subscripts(types, 1) a, generate_subscripts(types, 1) b,
				(VALUES ('{+,-,*,/,%,||}'::text[], NULL),
					('{=,<>,<,<=,>,>=}', 'boolean')) o(operators, result)
		LOOP
			trap.result := coalesce(trap.result, types[greatest(
				array_position(types, trap.l), array_position(types, trap.r))]);
			EXECUTE format('CREATE FUNCTION %I(%s, %s) RETURNS %s LANGUAGE SQL AS %L',
				'trap' || trap.operators[1], trap.l, trap.r, trap.result, 'trapped');
			FOR i IN 1 .. cardinality(trap.operators) LOOP
				EXECUTE format('CREATE OPERATOR %s (FUNCTION = %I, LEFTARG = %s, RIGHTARG = %s)',
					trap.operators[i], 'trap' || trap.operators[1], trap.l, trap.r);
			END LOOP;
		END LOOP;
		FOR trap IN
			SELECT DISTINCT ON (p.proname, args) p.proname, args,
				CASE WHEN p.prorettype = ANY ('{anyelement,anyrange,anymultirange}'::regtype[])
						THEN 'bigint'::regtype
					ELSE p.prorettype::regtype END AS result
			FROM pg_proc p, unnest(types) a, unnest(types) b, unnest(types) c,
				concat_ws(', ', a, CASE WHEN p.pronargs > 1 THEN b END,
					CASE WHEN p.pronargs > 2 THEN c END) args
			WHERE p.pronamespace = 'pg_catalog'::regnamespace
			AND p.pronargs BETWEEN 1 AND 3 AND p.proname IN (} . $called . q{)
			ORDER BY p.proname, args, p.prorettype <> ALL ('{bigint,numeric}'::regtype[])
		LOOP
			EXECUTE format('CREATE FUNCTION %I(%s) RETURNS %s LANGUAGE SQL AS %L',
				trap.proname, trap.args, trap.result, 'trapped');
		END LOOP;
	END $$};

# objects that members of the extension need, but which are neither members nor built
# in
my $strangers = q{
	WITH RECURSIVE ours(classid, objid) AS (
		SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
		WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname LIKE 'snowflake%'
		UNION
		SELECT d.classid, d.objid FROM pg_depend d
			JOIN ours o ON (d.refclassid, d.refobjid) = (o.classid, o.objid)
		WHERE d.deptype IN ('i', 'a'))
	SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0) || ': '
		|| pg_describe_object(d.refclassid, d.refobjid, 0)
	FROM pg_depend d JOIN ours USING (classid, objid)
	WHERE (d.refclassid, d.refobjid) NOT IN (SELECT * FROM ours)
	AND d.refclassid NOT IN ('pg_extension'::regclass, 'pg_namespace'::regclass, 'pg_language'::regclass)
	ORDER BY 1};
my %planted = (database => 'planted');

query($node, 'CREATE DATABASE planted OWNER owner');
query($node, 'SET ROLE owner; ' . $plant, %planted);
is(query($node, q{SELECT count(*) > 1000 FROM pg_depend
	WHERE refclassid = 'pg_proc'::regclass OR classid = 'pg_proc'::regclass}, %planted),
	't', 'traps are planted');
query($node, 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry', %planted);
is(query($node, $strangers, %planted), '',
	'what the extensions are made of does not depend on any of them');
query($node, q{CREATE VIEW trap AS SELECT to_timestamp(1.5 * 2::integer);
	ALTER EXTENSION snowflake ADD VIEW trap}, %planted);
is( query($node, $strangers, %planted),
	"rule _RETURN on view trap: function to_timestamp(numeric)\n"
	  . 'rule _RETURN on view trap: operator *(numeric,integer)',
	'as it would without pg_catalog in front of a name');
query($node, 'DROP DATABASE planted');

# ---- roles that may write the mark, as documented ----

query($node, q{
	CREATE ROLE dba SUPERUSER;
	CREATE ROLE colleague IN ROLE dba;
	CREATE ROLE writer IN ROLE pg_write_all_data;
	CREATE ROLE chosen;
	CREATE ROLE reader IN ROLE pg_read_all_data;
	CREATE DATABASE roles TEMPLATE template0;
});
my %roles = (database => 'roles');
query($node, q{
	SET SESSION AUTHORIZATION dba;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO chosen;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO chosen;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO chosen;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO chosen WITH GRANT OPTION;
	CREATE SCHEMA ext;
	GRANT USAGE ON SCHEMA ext TO PUBLIC;
	CREATE EXTENSION snowflake SCHEMA ext;
	SELECT ext.snowflake_nextval();
	RESET SESSION AUTHORIZATION;
	ALTER ROLE dba NOSUPERUSER;
}, %roles);
foreach my $role ('dba', 'colleague', 'writer', 'chosen', 'reader', 'mallory')
{
	my ($status) = $node->psql('roles', qq{
		SET SESSION AUTHORIZATION $role;
		SELECT setval('snowflake_state.snowflake_mark', 1 + last_value) FROM snowflake_state.snowflake_mark});
	is($status == 0 ? 'may' : 'may not',
		$role =~ /reader|mallory|chosen/ ? 'may not' : 'may', "$role: setval on the mark");
	($status) = $node->psql('roles',
		"SET SESSION AUTHORIZATION $role; SELECT ext.snowflake_advance(1)");
	is($status == 0 ? 'may' : 'may not',
		$role =~ /reader|mallory|writer|chosen/ ? 'may not' : 'may', "$role: snowflake_advance()");
}

is( query($node, qq{
	SELECT p.oid::regprocedure::text FROM pg_proc p
	WHERE p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)
	AND has_function_privilege('chosen', p.oid, 'EXECUTE')
	AND NOT has_function_privilege('mallory', p.oid, 'EXECUTE')
	UNION ALL
	SELECT c.oid::regclass::text FROM pg_class c
	WHERE c.oid IN (SELECT objid $members AND classid = 'pg_class'::regclass) AND relkind <> 'v'
	AND (has_table_privilege('chosen', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
		OR relkind = 'S' AND has_sequence_privilege('chosen', c.oid, 'USAGE'))
	UNION ALL
	SELECT 'snowflake_state' WHERE has_schema_privilege('chosen', 'snowflake_state', 'CREATE, USAGE')}, %roles),
	'', 'default privileges give no right to what guards the IDs');

# ---- default privileges that leave PUBLIC no function ----

my %hardened = (database => 'hardened');
query($node, 'CREATE DATABASE hardened TEMPLATE template0');
query($node, $_, %hardened) foreach (
	'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC',
	'CREATE EXTENSION snowflake',
	q{GRANT EXECUTE ON FUNCTION snowflake_timestamp(bigint), snowflake_timestamp(bigint, text) TO mallory;
	CREATE TABLE orders (id bigint PRIMARY KEY);
	GRANT SELECT ON orders TO mallory});
denied($node, 'mallory', 'SELECT snowflake_horizon()', '42501', qr/permission denied/, %hardened);
foreach my $key ('id', q{id, 'node'}, q{id, 'twitter'})
{
	foreach my $operator ('=', '>')
	{
		like(query($node, "SET ROLE mallory; SET enable_seqscan = off; EXPLAIN SELECT FROM orders WHERE snowflake_timestamp($key) $operator now()", %hardened),
			qr/Index Cond: .*snowflake_internal\.bound/, "a condition on the time has the index: $key $operator");
	}
}
is(answer($node, "SET ROLE mallory; SELECT count(*) >= 0 FROM $_", %hardened), 't', "every role reads $_")
  foreach ('pg_stat_snowflake', 'pg_stat_snowflake_layouts', 'snowflake_horizon_holders', 'snowflake_lease()');
is( query($node, q{SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p
	WHERE pronamespace = 'snowflake_internal'::regnamespace AND NOT has_function_privilege('mallory', p.oid, 'EXECUTE')}, %hardened),
	'', 'whatever nobody calls by hand is everybody\'s');
query($node, 'DROP EXTENSION snowflake CASCADE', %hardened);
is(query($node, q{SELECT count(*) FROM pg_proc WHERE proname ~ '^snowflake'}, %hardened), '0',
	'nothing of the extension is left');
query($node, 'DROP DATABASE hardened');

# ---- who may dump ----

query($node, 'ALTER ROLE reader LOGIN; CREATE ROLE plain LOGIN');
# From 18 on, pg_dump reads sequences by their OIDs, for which SELECT suffices.
foreach my $dumps ([ 'owner', 1 ], [ 'reader', 1 ], [ 'plain', $node->pg_version >= 18 ? 1 : 0 ])
{
	my ($role, $may) = @$dumps;
	my $result = run_log([ 'pg_dump', '-U', $role, '-f', $node->basedir . "/$role.sql",
			'-T', 'hostile.*', $node->connstr('app') ]);

	is($result ? 1 : 0, $may, "$role: " . ($may ? 'may' : 'may not') . ' dump the whole database');
}
like(slurp_file($node->basedir . '/owner.sql'), qr/^SELECT pg_catalog\.setval\('snowflake_state\.snowflake_mark', \d{13}, true\);$/m,
	'and the mark is in the dump');

# ---- a dump carries grants and revoked rights ----

query($node, q{
	REVOKE EXECUTE ON FUNCTION ext.snowflake_nextval(), ext.snowflake_nextval_batch(integer) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION ext.snowflake_accept(text) TO mallory;
	GRANT UPDATE ON SEQUENCE snowflake_state.snowflake_mark TO chosen;
	REVOKE SELECT ON SEQUENCE snowflake_state.snowflake_recorded_layout FROM PUBLIC;
	ALTER ROLE dba SUPERUSER}, %roles);
my $dump = $node->basedir . '/roles.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('roles') ],
	'a database with privileges of its own is dumped');
query($node, 'CREATE DATABASE restored TEMPLATE template0');
$node->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ],
	'and restored');
my $public = qq{
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.oid IN (SELECT objid $members AND classid = 'pg_proc'::regclass)
	AND has_function_privilege('mallory', p.oid, 'EXECUTE') ORDER BY 1
};
is(query($node, $public, database => 'restored'), query($node, $public, %roles),
	'an ordinary user may execute there what he may here');
denied($node, 'mallory', 'SELECT ext.snowflake_nextval()', '42501',
	qr/permission denied for function/, database => 'restored');
is( query($node, q{
	SELECT string_agg(has_sequence_privilege('mallory', 'snowflake_state.' || s, p)::text, ' ' ORDER BY s, p)
	FROM unnest('{snowflake_mark,snowflake_recorded_layout}'::text[]) s,
		unnest('{SELECT,UPDATE}'::text[]) p}, database => $_),
	'true false false false', "$_: what he may read and write of the registers")
  foreach ('roles', 'restored');

$node->stop;
done_testing();
