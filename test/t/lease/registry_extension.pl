# The extension snowflake_registry: its objects, its privileges, objects of other roles
# in its way, dumps, and the extension snowflake in the same database. No library is
# preloaded. copied_registry.pl upgrades such a database by pg_upgrade.
#
# takes: 10 s
use SnowflakeTest;

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->start;
my $create = 'CREATE EXTENSION snowflake_registry';
my $superuser = query($registry, 'SELECT current_user');
is(query($registry, 'SHOW shared_preload_libraries'), '', 'nothing is preloaded');
query($registry, "$create; CREATE ROLE worker; CREATE ROLE keeper; CREATE ROLE mallory");

# ---- the objects ----

# The privileges on its objects of all roles but the owner. %s is a condition on the
# role.
my $privileges = q{
	SELECT string_agg(concat_ws(' ', name, privilege), E'\n' ORDER BY name COLLATE "C", privilege) FROM (
		SELECT nspname AS name, nspowner AS owner, privilege_type AS privilege, grantee
		FROM pg_namespace, aclexplode(nspacl) WHERE nspname IN ('snowflake_registry', 'snowflake_servers')
		UNION ALL
		SELECT relname, relowner, privilege_type, grantee
		FROM pg_class, aclexplode(relacl) WHERE relnamespace = 'snowflake_registry'::regnamespace
		UNION ALL
		SELECT relname || '.' || attname, relowner, a.privilege_type, a.grantee
		FROM pg_class c JOIN pg_attribute t ON attrelid = c.oid, aclexplode(attacl) a
		WHERE relnamespace = 'snowflake_registry'::regnamespace
		UNION ALL
		SELECT proname || '()', proowner, privilege_type, grantee
		FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner)))
		WHERE pronamespace IN ('snowflake_registry'::regnamespace, 'snowflake_servers'::regnamespace)) p
	WHERE grantee <> owner AND %s};
my $of = sub { sprintf $privileges, "grantee = '$_[0]'::regrole" };
my $of_all = sprintf $privileges, 'true';
my @leases = (
	(map { "$_() EXECUTE" } qw(keep read)), 'snowflake_servers USAGE',
	'write() EXECUTE');
my @administers = sort(
	@leases, 'snowflake_registry USAGE',
	map { "$_() EXECUTE" } qw(begin init recover release renew slots));

is( query($registry, q{
	SELECT string_agg(DISTINCT translate(CASE classid WHEN 'pg_proc'::regclass THEN objid::regproc::text
		WHEN 'pg_class'::regclass THEN objid::regclass::text END, '"', ''), ' ')
	FROM pg_depend d JOIN pg_extension e ON refobjid = e.oid
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND extname = 'snowflake_registry'}),
	join(' ', (map { "snowflake_registry.$_" } qw(files grant init layout now_ms place random_number recover registry release slot slots)),
		(map { "snowflake_servers.$_" } qw(begin keep read renew write))),
	'what it consists of, in two schemas');
is( query($registry, q{
	SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = prolang
	WHERE pronamespace IN ('snowflake_registry'::regnamespace, 'snowflake_servers'::regnamespace)
	AND (proleakproof OR obj_description(p.oid, 'pg_proc') IS NULL
		OR NOT (lanname = 'c' AND probin = '$libdir/snowflake_lease'
			OR lanname = 'sql' AND prosqlbody IS NOT NULL
			OR lanname = 'plpgsql' AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)))}),
	'', 'no function follows search_path; each has a comment');
is( query($registry, q{
	SELECT string_agg(proname, ' ' ORDER BY proname COLLATE "C") FROM pg_proc
	WHERE pronamespace IN ('snowflake_registry'::regnamespace, 'snowflake_servers'::regnamespace) AND prosecdef}),
	'begin init keep place read recover release renew slots write',
	'what runs with the rights of the owner: what roles are let to call, and what that calls');
is(query($registry, $of_all), '', 'nothing of it is for anybody but its owner');
is( query($registry, q{SELECT extnamespace::regnamespace, extrelocatable, extconfig IS NULL
	FROM pg_extension WHERE extname = 'snowflake_registry'}), 'snowflake_registry|f|t',
	'the schema is its own, and a dump leaves its rows out');

# ---- roles ----

query($registry, q{
	GRANT ALL ON ALL TABLES IN SCHEMA public TO mallory;
	GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO mallory;
	GRANT ALL ON ALL FUNCTIONS IN SCHEMA public TO mallory;
	GRANT ALL ON SCHEMA public TO mallory});
is(query($registry, $of->('mallory')), '', 'what is granted on everything in public reaches nothing of it');
refused($registry, "SET ROLE mallory; SELECT * FROM $_", '42501', qr/permission denied for schema/,
	"a role that was granted nothing: $_")
  foreach 'snowflake_registry.slots()', 'snowflake_registry.slot', q{snowflake_registry.grant('mallory')};
query($registry, q{SELECT snowflake_registry.grant('worker')});
is(query($registry, $of->('worker')), join("\n", @leases), 'grant(): what a server needs that leases');
query($registry, q{SELECT snowflake_registry.grant('worker')});
is(query($registry, $of->('worker')), join("\n", @leases), 'once more: nothing more');
query($registry, q{SELECT snowflake_registry.grant('keeper', administer => true)});
is( query($registry, $of->('keeper')), join("\n", @administers),
	'to administer: what the servers that lease need, and those who look after it');
is(query($registry, $of_all =~ s/grantee <> owner AND true/grantee NOT IN (owner, 'worker'::regrole, 'keeper'::regrole)/r),
	'', 'nobody else got anything');
foreach (
	[ q{'no such'}, '42704', qr/role "no such" does not exist|role "no" does not exist|invalid name syntax/ ],
	[ q{'public'}, '42704', qr/role "public" does not exist/ ])
{
	refused($registry, "SELECT snowflake_registry.grant($_->[0])", $_->[1] =~ s/42704/42(704|602)/r, $_->[2], "grant($_->[0])");
}
query($registry, q{CREATE ROLE "mixed ""case"; SELECT snowflake_registry.grant('"mixed ""case"')});
is(query($registry, $of->('"mixed ""case"')), join("\n", @leases), 'whatever the name of a role');
query($registry, q{DROP OWNED BY "mixed ""case"; DROP ROLE "mixed ""case"});

# each of these rights is needed: without it something fails
is(query($registry, q{SELECT snowflake_registry.init()}), 't', 'it is made a registry');
my $generation = query($registry, 'SELECT generation FROM snowflake_registry.registry');
my $write = "SELECT written > 0 FROM snowflake_servers.write($generation, 1, %s, 1, 1, 1, 1, 1, 0, false, 'host', 1, 1, 0, 1000, 9000)";
my $all = join '; ', 'SELECT count(*) FROM snowflake_servers.read()', sprintf($write, 0),
  sprintf($write, '(SELECT version FROM snowflake_servers.read() WHERE node = 1)'),
  'SELECT kept FROM snowflake_servers.keep(1, 1, 1000)';
is( query($registry, "BEGIN; SET ROLE worker; $all; ROLLBACK"), join("\n", 1, ('t') x 3),
	'with all of it a server leases');
foreach my $privilege (@leases)
{
	my ($name, $kind) = split ' ', $privilege;
	my $what =
		$name eq 'snowflake_servers' ? "SCHEMA $name" : "FUNCTION snowflake_servers.$name" =~ s/\(\)//r;

	refused($registry, "BEGIN; REVOKE $kind ON $what FROM worker; SET ROLE worker; $all",
		'42501', qr/permission denied/, "not without $privilege");
}
refused($registry, "SET ROLE worker; $_", '42501', qr/permission denied for (?:schema snowflake_registry|function (?:begin|renew))/, "a role that leases cannot: $_")
  foreach map({
		my $table = "snowflake_registry.$_";
		("SELECT * FROM $table", "INSERT INTO $table (version) VALUES (1)", "UPDATE $table SET version = 1",
			"DELETE FROM $table", "PREPARE p AS DELETE FROM $table", "CREATE RULE r AS ON INSERT TO $table DO INSTEAD NOTHING", "TRUNCATE $table", "BEGIN; LOCK TABLE $table IN ACCESS SHARE MODE", "SELECT 1 FROM $table FOR KEY SHARE")
	} qw(slot)),
  'PREPARE p AS DELETE FROM snowflake_registry.registry', 'UPDATE snowflake_registry.registry SET generation = 1', 'SELECT 1 FROM snowflake_registry.registry FOR KEY SHARE',
  'UPDATE snowflake_registry.registry SET id = 1',
  'INSERT INTO snowflake_registry.registry (id) VALUES (1)', 'DELETE FROM snowflake_registry.registry',
  'SELECT snowflake_registry.files(true)',
  'SELECT snowflake_registry.init()', 'SELECT snowflake_registry.recover(NULL)', 'SELECT snowflake_registry.slots()',
  'SELECT snowflake_registry.release(1)', 'SELECT snowflake_servers.begin(1, $$$$, 1, $$$$, 1, 1)',
  'SELECT snowflake_servers.renew(1, 1, $$$$, 1)', q{SELECT snowflake_registry.grant('mallory')},
  'CREATE TABLE snowflake_registry.t ()';
refused($registry, "SET ROLE keeper; $_", '42501', qr/permission denied/, "nor one that administers: $_")
  foreach map({ my $table = "snowflake_registry.$_"; map { "$_ $table" } 'SELECT * FROM', 'DELETE FROM', 'TRUNCATE' } qw(registry slot)),
  q{SELECT snowflake_registry.grant('mallory')}, 'CREATE TABLE snowflake_registry.t ()';
is( query($registry, qq{SET ROLE keeper; SELECT snowflake_registry.init(); SELECT snowflake_registry.recover('90 s') >= now() + interval '95 s';
	SELECT count(*) FROM snowflake_registry.slots(); SELECT snowflake_registry.release(1)}), "f\nt\n0\nf",
	'which can look after it');

# ---- what a role that leases writes about itself ----

$generation = query($registry, 'SELECT generation FROM snowflake_registry.registry');
my %value = (epoch => 1, owner => 1, server => 1, until => 1, ahead => 0, host => 'host', since => 1, reserve => 9000);

# Return the call that writes a slot, as a worker does, with some values of its own.
sub written
{
	my ($node, %own) = @_;
	my %v = (%value, %own);
	my $version = query($registry, "SELECT coalesce(max(version), 0) FROM snowflake_registry.slot WHERE slot = $node");

	return "SET ROLE worker; SELECT written > 0 FROM snowflake_servers.write($generation, $node, $version, $v{epoch}, $v{owner},"
	  . " $v{server}, 1, $v{until}, $v{ahead}, false, '$v{host}', 1, $v{since}, $v{owner}, 1000, $v{reserve})";
}

my $end_of_ticks = 2**47;
refused($registry, written(2, %$_), '23514', qr/violates check constraint/, join(' ', %$_))
  foreach { until => -1 }, { host => "a\nb" }, { until => $end_of_ticks + 1 }, { ahead => -$end_of_ticks - 1 }, { host => 'x' x 64 };
my $far = '9223372036854775807';
refused($registry, written($_), '23514', qr/violates check constraint/, "slot $_") foreach -1, 2**31;
is(query($registry, written(2, until => $end_of_ticks, ahead => $end_of_ticks, since => $far, reserve => $far, host => 'x' x 63)),
	't', 'the largest values');
is(query($registry, written(3, since => "-$far", until => 0, reserve => "-$far", owner => $far, epoch => $far)), 't', 'the smallest ones');
foreach my $tick (1, 1000)
{
	is( query($registry, "BEGIN; UPDATE snowflake_registry.registry SET tick_ms = $tick; SELECT count(*) FROM snowflake_registry.slots();
		SELECT snowflake_registry.recover('90 s') > now(); ROLLBACK"),
		"2\nt", "they break nobody's call, with a tick of $tick ms");
}
query($registry, 'DELETE FROM snowflake_registry.slot');

# ---- claims at once ----

# Return the call that claims a slot as a worker. %own overrides arguments.
sub claim_of
{
	my ($slot, $host, %own) = @_;
	my ($version, $epoch) = split /\|/, query($registry, "SELECT coalesce(max(version), 0), coalesce(max(epoch), 0) + 1
		FROM snowflake_registry.slot WHERE slot = $slot");
	my %v = (version => $version, epoch => $epoch, holder => 1, displaced => 1, %own);

	return "SET LOCAL ROLE worker; SELECT written > 0 FROM snowflake_servers.write($generation, $slot, $v{version}, $v{epoch},"
	  . " $v{holder}, 1, 1, 1, 0, false, '$host', 1, 1000, $v{displaced}, 60000, 9000)";
}

my $rows = q{SELECT string_agg(slot || ' ' || host, ', ' ORDER BY slot) FROM snowflake_registry.slot};

query($registry, 'BEGIN; ' . claim_of(9, 'first') . '; COMMIT');
my $version = query($registry, 'SELECT version FROM snowflake_registry.slot');
foreach my $case (
	[ 'of an older version', version => $version - 1 ],
	[ 'as if there were none', version => 0 ],
	[ 'of no version', version => 'NULL' ],
	[ 'while the owner is present', holder => 2, displaced => 3 ],
	[ 'the same, for nobody', holder => 2, displaced => 'NULL' ])
{
	my ($name, %own) = @$case;

	is(query($registry, 'BEGIN; ' . claim_of(9, 'late', %own) . '; COMMIT'), '', "a claim that is not made: $name");
}
is(query($registry, $rows), '9 first', 'and the record is as it was');
my $locker = $registry->background_psql('postgres', on_error_stop => 0);
$locker->query_safe('BEGIN; SELECT snowflake_registry.recover(interval $$90 s$$)');
refused($registry, "BEGIN; SET lock_timeout = '10ms'; " . claim_of(9, 'next'), '55P03', qr/lock timeout/, 'a claim waits for a recovery');
$locker->query_safe('ROLLBACK');

# Two claims at once, of a slot that nobody had, and of one that somebody has.
foreach my $slot (20, 9)
{
	my ($one, $two) = map { claim_of($slot, $_) } 'one', 'two';
	my $second = $registry->background_psql('postgres');

	$locker->query_safe("BEGIN; $one");
	$second->query_until(qr/begun/, "\\echo begun\nBEGIN; $two; COMMIT;\n");
	$registry->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query ~ 'snowflake_servers.write' AND pid <> pg_backend_pid()}) or die 'nobody waits';
	$locker->query_safe('COMMIT');
	is($second->query_safe('SELECT 1'), "\n1", "slot $slot: the second of two claims at once is not made");
	$second->quit;
}
is(query($registry, $rows), '9 one, 20 one', 'the first ones are');
$locker->quit;

# Claims at once, of three slots, in two transactions that are SERIALIZABLE. A sequential
# scan would read the slot of the other.
query($registry, 'DELETE FROM snowflake_registry.slot');
query($registry, 'BEGIN; ' . claim_of($_, 'first') . '; COMMIT') foreach 10, 11, 12;
my @claimers = map { $registry->background_psql('postgres', on_error_stop => 0) } 1, 2;
$_->query('BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_seqscan = off') foreach @claimers;
is(join('', map { scalar $claimers[$_ % 2]->query(claim_of($_, 'next')) } 10, 11, 12), 'ttt', 'claims at once');
$_->query('COMMIT') foreach @claimers;
is(query($registry, $rows), '10 next, 11 next, 12 next', 'all are done, at the isolation level SERIALIZABLE');
$_->quit foreach @claimers;

query($registry, 'DELETE FROM snowflake_registry.slot');
query($registry, 'DROP OWNED BY worker; DROP ROLE worker');
pass('a role that is not needed any more is dropped as any other');

# ---- arguments ----

refused($registry, "SELECT snowflake_registry.$_->[0]", $_->[1], $_->[2], $_->[0])
  foreach [ 'init(NULL)', '22004', qr/layout must not be null/ ],
  [ q{init('nonsense')}, '22023', qr/layout/ ],
  [ q{init('shard')}, '22023', qr/invalid layout: "shard"/ ],
  [ q{init('timestamp:41 shard:13 sequence:10')}, '22023', qr/no server can lease a node id of this layout/ ],
  [ q{init('mastodon')}, '22023', qr/no server can lease a node id of this layout/ ],
  [ 'recover(NULL)', '22023', qr/must be from 0 to 31 days/ ],
  [ q{recover('1 s', NULL)}, '22023', qr/must be from 0 to 31 days/ ],
  [ q{recover('-1 s')}, '22023', qr/must be from 0 to 31 days/ ],
  [ q{recover('1 s', '32 days')}, '22023', qr/must be from 0 to 31 days/ ];
is(query($registry, 'SELECT snowflake_registry.release(NULL) IS NULL'), 't', 'release(NULL)');
refused($registry, 'BEGIN; DELETE FROM snowflake_registry.registry; SELECT snowflake_registry.recover(interval $$90 s$$)', '55000',
	qr/has no data of a registry.*HINT:  .*SELECT snowflake_registry\.init\(/s, 'nothing to recover');

# ---- dumps ----

my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump";
command_ok([ 'pg_dump', '-f', $dump, $registry->connstr('postgres') ], 'it is dumped');
query($registry, 'CREATE DATABASE restored');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $registry->connstr('restored') ], 'and restored');
is(query($registry, $of_all, database => 'restored'), query($registry, $of_all),
	'with all that was granted');
is( query($registry, q{SELECT (SELECT count(*) FROM snowflake_registry.registry)
	+ (SELECT count(*) FROM snowflake_registry.slot)}, database => 'restored'), '0',
	'and without its rows: a copy is no registry');

# ---- objects that other roles have made before ----

my %app = (database => 'app');
query($registry, 'CREATE ROLE owner; CREATE DATABASE app OWNER owner');
foreach (
	[ 'a schema of its name, of somebody else', 'SET ROLE owner; CREATE SCHEMA snowflake_registry' ],
	[ 'an empty one, in which somebody may have made a function without a commit', qq{
		CREATE SCHEMA snowflake_registry; GRANT CREATE ON SCHEMA snowflake_registry TO owner} ],
	[ 'a schema of its name in which somebody has made a function', qq{
		CREATE SCHEMA snowflake_registry; GRANT ALL ON SCHEMA snowflake_registry TO owner;
		SET ROLE owner; CREATE FUNCTION snowflake_registry.recover() RETURNS void LANGUAGE sql AS ''} ])
{
	my ($name, $sql) = @$_;

	query($registry, $sql, %app);
	refused($registry, $create, '55000', qr/schema "snowflake_registry" exists.*HINT:  Run: ALTER SCHEMA/s, $name, %app);
	query($registry, 'ALTER SCHEMA snowflake_registry RENAME TO snowflake_registry_before', %app);
	query($registry, "$create; DROP EXTENSION snowflake_registry; DROP SCHEMA snowflake_registry;
		DROP SCHEMA snowflake_registry_before CASCADE", %app);
	pass('the remedy helps');
}
query($registry, 'SET ROLE owner; CREATE SCHEMA snowflake_servers', %app);
refused($registry, $create, '42P06', qr/schema "snowflake_servers" already exists/, 'nor beside a schema with the name of the other one', %app);
query($registry, 'DROP SCHEMA snowflake_servers', %app);
query($registry, "ALTER DEFAULT PRIVILEGES GRANT ALL ON $_ TO owner, PUBLIC", %app)
  foreach 'SCHEMAS', 'TABLES', 'FUNCTIONS';
query($registry, $create, %app);
is(query($registry, $of_all, %app), '', 'privileges that are given by default are not given');
query($registry, 'SET ROLE owner; DROP SCHEMA public CASCADE', %app);
is(query($registry, q{SELECT count(*) FROM pg_extension WHERE extname = 'snowflake_registry'}, %app), '1',
	'who drops the schema public has not dropped it');
refused($registry, "SET ROLE owner; CREATE FUNCTION snowflake_registry.$_ RETURNS void LANGUAGE sql AS ''",
	'42501', qr/permission denied for schema/, "the database's owner puts none beside those that are typed with defaults: $_", %app)
  foreach 'recover(interval)', 'recover(text)', 'init()', 'grant(text)';
refused($registry, "SET ROLE owner; DROP SCHEMA snowflake_registry CASCADE", '42501', qr/must be owner/, 'it is not his', %app);
query($registry, "DROP EXTENSION snowflake_registry; $create SCHEMA snowflake_registry", %app);
pass('it is dropped and made again, in the schema that is left');
refused($registry, "BEGIN; DROP EXTENSION snowflake_registry; $create SCHEMA pg_catalog", '0A000',
	qr/must be installed in schema "snowflake_registry"/, 'it has no other', %app);
refused($registry, 'ALTER EXTENSION snowflake_registry SET SCHEMA pg_catalog', '0A000', qr/does not support SET SCHEMA/, 'nor is it moved', %app);

# ---- all extensions in one database ----

query($registry, 'CREATE EXTENSION snowflake');
refused($registry, "SELECT snowflake_registry_$_", '55000',
	qr/this server leases from no registry.*HINT:  .*call snowflake_registry\.(\w+)\(\) in place of snowflake_registry_\1\(\)/s,
	"both in one database: snowflake_registry_$_")
  foreach 'init()', 'recover()', 'slots()', 'release(1)';
is(query($registry, 'SELECT count(*) FROM snowflake_registry.slots()'), '0', 'each works');
query($registry, 'DROP EXTENSION snowflake CASCADE');
is(query($registry, q{SELECT snowflake_registry.init()}), 'f', 'one goes on without the other');
$registry->stop;
done_testing();
