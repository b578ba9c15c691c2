# Upgrades: each older SQL version of the two extensions, with the newest library, becomes
# equal to a fresh installation. Its script is the one that was released. Two things do not
# exist yet, and have stand-ins: a future version, whose scripts forget something that the
# comparison must find, and an older library.
#
# takes: 20 s
use SnowflakeTest;
use ServerCopy;
use Digest::SHA qw(sha256_hex);

my $server = copy_server();
my $dir = extension_dir($server);
my $control = slurp_file("$dir/snowflake.control");
my ($newest) = $control =~ /^default_version = '(.*)'$/m;
my $sql = "$root/sql";
my $script = slurp_file("$sql/snowflake--1.0.sql");
my @extensions = qw(snowflake snowflake_registry);
my $library = slurp_file(library($server));

my $node = new_server('main');
$node->{_install_path} = install_path($server);
$node->start;

# List an extension's objects in a database, one line for each object and property.
# Objects have their names and arguments here, so their order and OIDs do not matter;
# nor does the mark's value.
my $catalog = q{
WITH member AS (
	SELECT d.classid, d.objid,
		(pg_identify_object(d.classid, d.objid, 0)).identity AS name
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND e.extname = 'snowflake'
), said AS (
	SELECT name, 'is ' || (pg_identify_object(classid, objid, 0)).type AS what FROM member
	UNION ALL
	SELECT name, 'comment ' || coalesce(obj_description(objid, classid::regclass::name), '-') FROM member
	UNION ALL
	SELECT name, 'definition ' || CASE prokind WHEN 'a' THEN (
			SELECT concat_ws(' ', aggtransfn, aggfinalfn, aggcombinefn, aggsortop::regoperator,
				aggtranstype::regtype, coalesce(agginitval, '-'))
			FROM pg_aggregate a WHERE a.aggfnoid = p.oid)
		ELSE pg_get_functiondef(p.oid) END
	FROM member JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
	UNION ALL
	SELECT name, concat_ws(' ', 'type', typlen, typbyval, typtype, typcategory, typispreferred,
		typinput, typoutput, typreceive, typsend, typalign, typstorage)
	FROM member JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
	WHERE typtype <> 'c' AND typelem = 0
	UNION ALL
	SELECT name, concat_ws(' ', 'operator', oprcode, oprrest, oprjoin, oprcom::regoperator,
		oprnegate::regoperator, oprcanmerge, oprcanhash)
	FROM member JOIN pg_operator o ON o.oid = objid AND classid = 'pg_operator'::regclass
	UNION ALL
	SELECT name, concat_ws(' ', 'cast by', castfunc::regproc, castcontext, castmethod)
	FROM member JOIN pg_cast c ON c.oid = objid AND classid = 'pg_cast'::regclass
	UNION ALL
	SELECT name, concat_ws(' ', 'operator class', opcdefault, opckeytype::regtype)
	FROM member JOIN pg_opclass o ON o.oid = objid AND classid = 'pg_opclass'::regclass
	UNION ALL
	SELECT f.opfname, concat_ws(' ', opfmethod, 'operator', amopstrategy, amoppurpose, amopopr::regoperator)
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = amopfamily
	WHERE EXISTS (SELECT FROM member WHERE (classid, objid) IN (('pg_opfamily'::regclass, f.oid),
		('pg_type'::regclass, amoplefttype), ('pg_type'::regclass, amoprighttype)))
	UNION ALL
	SELECT f.opfname, concat_ws(' ', opfmethod, 'function', amproclefttype::regtype, amprocrighttype::regtype, amprocnum, amproc::regprocedure)
	FROM pg_amproc o JOIN pg_opfamily f ON f.oid = amprocfamily
	WHERE EXISTS (SELECT FROM member WHERE (classid, objid) IN (('pg_opfamily'::regclass, f.oid),
		('pg_type'::regclass, amproclefttype), ('pg_type'::regclass, amprocrighttype)))
	UNION ALL
	SELECT name, 'privileges ' || coalesce(acl::text, '-')
	FROM member JOIN LATERAL (SELECT array_agg(a::text ORDER BY a::text) AS acl
		FROM pg_proc p, unnest(p.proacl) a WHERE p.oid = objid) p ON true
	WHERE classid = 'pg_proc'::regclass
	UNION ALL
	SELECT name, concat_ws(' ', 'relation', relkind, relpersistence, reloptions, coalesce(acl::text, '-'))
	FROM member JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass,
		LATERAL (SELECT array_agg(a::text ORDER BY a::text) AS acl FROM unnest(relacl) a) a
	UNION ALL
	SELECT name, 'privileges ' || coalesce(acl::text, '-')
	FROM member JOIN LATERAL (SELECT array_agg(a::text ORDER BY a::text) AS acl
		FROM pg_namespace n, unnest(n.nspacl) a WHERE n.oid = objid) n ON true
	WHERE classid = 'pg_namespace'::regclass
	UNION ALL
	SELECT name, 'view ' || pg_get_viewdef(objid)
	FROM member JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
	WHERE relkind = 'v'
	UNION ALL
	SELECT name, concat_ws(' ', 'sequence', seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle)
	FROM member JOIN pg_sequence s ON s.seqrelid = objid AND classid = 'pg_class'::regclass
	UNION ALL
	SELECT name, concat_ws(' ', 'column', attname, format_type(atttypid, atttypmod), attnotnull,
		coalesce(pg_get_expr(adbin, adrelid), '-'), coalesce(attacl::text, '-'), coalesce(col_description(attrelid, attnum), '-'))
	FROM member JOIN pg_attribute a ON a.attrelid = objid AND classid = 'pg_class'::regclass
		AND attnum > 0 AND NOT attisdropped
	LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
	UNION ALL
	SELECT name, 'constraint ' || pg_get_constraintdef(c.oid)
	FROM member JOIN pg_constraint c ON c.conrelid = objid AND classid = 'pg_class'::regclass
	UNION ALL
	SELECT name, 'index ' || pg_get_indexdef(i.indexrelid)
	FROM member JOIN pg_index i ON i.indrelid = objid AND classid = 'pg_class'::regclass
	UNION ALL
	SELECT oid::regclass::text, 'is dumped' FROM (
		SELECT unnest(extconfig) AS oid FROM pg_extension WHERE extname = 'snowflake') c
	UNION ALL
	SELECT 'extension', concat_ws(' ', extversion, extrelocatable) FROM pg_extension
	WHERE extname = 'snowflake')
SELECT name || ': ' || what FROM said ORDER BY 1};

sub catalog
{
	my ($database, $extension) = @_;

	return query($node, $catalog =~ s/'snowflake'/'$extension'/gr, database => $database);
}

# Make a database with this version, upgraded if $to is given. Return its list of
# objects, and its name.
my $databases = 0;

sub install
{
	my ($version, $to) = @_;
	my $database = 'upgrade' . $databases++;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	query($node, "CREATE EXTENSION snowflake VERSION '$version'",
		database => $database);
	if (defined $to)
	{
		query($node, q{CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
			INSERT INTO t SELECT FROM generate_series(1, 1000)}, database => $database);
		my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => $database);

		query($node, "ALTER EXTENSION snowflake UPDATE TO '$to'",
			database => $database);
		query($node, 'INSERT INTO t SELECT FROM generate_series(1, 1000)',
			database => $database);
		is(query($node, "SELECT count(*), (SELECT last_value >= $mark FROM snowflake_state.snowflake_mark) FROM t",
				database => $database),
			'2000|t', "$version to $to: IDs go on, and so does the mark");
	}
	return (catalog($database, 'snowflake'), $database);
}

# Do the same with the other extension, which has no IDs to make.
sub install_other
{
	my ($extension, $version, $to) = @_;
	my $database = 'upgrade' . $databases++;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	query($node, "CREATE EXTENSION $extension VERSION '$version' CASCADE", database => $database);
	query($node, "ALTER EXTENSION $extension UPDATE TO '$to'", database => $database) if defined $to;
	return catalog($database, $extension);
}

# ---- the released versions ----

my %sum = reverse slurp_file("$sql/released.sha256") =~ m{^(\w{64})  sql/(\S+)$}mg;
is(sha256_hex(slurp_file("$dir/$_")), $sum{$_}, "$_ is as it was released") foreach sort keys %sum;

my ($fresh) = install($newest);
cmp_ok(scalar(split /\n/, $fresh), '>', 200, "$newest has a catalogue that can be compared");
foreach my $name (query($node, 'SELECT string_agg(DISTINCT proname, $$ $$) FROM pg_depend d JOIN pg_proc p ON p.oid = objid JOIN pg_extension e ON e.oid = refobjid AND refclassid = $$pg_extension$$::regclass WHERE classid = $$pg_proc$$::regclass AND extname = $$snowflake$$',
		database => 'upgrade0') =~ /\S+/g)
{
	like($fresh, qr/^[\w.]*\b$name\(.*: definition/m, "$name is in it");
}

foreach my $extension (@extensions)
{
	my @older = split /\n/, query($node, "SELECT version FROM pg_available_extension_versions WHERE name = '$extension' AND version <> '$newest' ORDER BY 1");
	my %scripts = map { /--([^-]+)(?:--([^-]+))?\.sql$/ ? ($1 => 1, $2 // $1 => 1) : () }
	  glob "$sql/$extension--*.sql";

	is(join(' ', @older), join(' ', grep { $_ ne $newest } sort keys %scripts),
		"$extension: each version of which there is a script can be installed");
	foreach my $version (@older)
	{
		my ($upgraded, $wanted) = $extension eq 'snowflake' ? ((install($version, $newest))[0], $fresh)
		  : (install_other($extension, $version, $newest), install_other($extension, $newest));

		is($upgraded, $wanted, "$extension $version upgraded is as $newest installed");
	}
}

# ---- a future version, with a complete upgrade script and with incomplete ones ----

my $new = q{
CREATE FUNCTION snowflake_new(id bigint) RETURNS integer
AS 'MODULE_PATHNAME', 'snowflake_node' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION snowflake_new(bigint) IS 'something new';
REVOKE EXECUTE ON FUNCTION snowflake_new(bigint) FROM PUBLIC;
CREATE SEQUENCE snowflake_added;
SELECT pg_catalog.pg_extension_config_dump('snowflake_added', '');
CREATE VIEW snowflake_seen AS SELECT 1 AS one;
CREATE OPERATOR <+> (FUNCTION = int8pl, LEFTARG = bigint, RIGHTARG = bigint);
CREATE AGGREGATE snowflake_sum(bigint) (SFUNC = int8pl, STYPE = bigint, INITCOND = '0');
CREATE OPERATOR FAMILY snowflake_family USING hash;
ALTER OPERATOR FAMILY snowflake_family USING hash ADD OPERATOR 1 pg_catalog.= (bigint, bigint);
};
write_file("$dir/snowflake--99.sql", $script . $new);
my ($future) = install('99');
isnt($future, $fresh, 'the version to come is another');

sub upgrade
{
	my ($delta) = @_;

	write_file("$dir/snowflake--1.0--99.sql", $delta);
	return (install('1.0', '99'))[0];
}

is(upgrade($new), $future, 'what adds the same is the same');
foreach my $bad (
	[ qr/^COMMENT.*\n/m, '', 'a comment' ],
	[ qr/^REVOKE.*\n/m, '', 'a privilege' ],
	[ qr/STABLE STRICT/, 'VOLATILE STRICT', 'a label' ],
	[ qr/RETURNS integer/, 'RETURNS bigint', 'a result' ],
	[ qr/'snowflake_node'/, "'snowflake_shard'", 'a function in C' ],
	[ qr/^SELECT.*dump.*\n/m, '', 'what is to be dumped' ],
	[ qr/SEQUENCE snowflake_added/, 'SEQUENCE snowflake_added START 7', "a sequence's start" ],
	[ qr/SELECT 1 AS/, 'SELECT 2 AS', 'a view' ],
	[ qr/FUNCTION = int8pl/, 'FUNCTION = int8mi', 'an operator' ],
	[ qr/INITCOND = '0'/, "INITCOND = '1'", 'an aggregate' ],
	[ qr/^ALTER OPERATOR FAMILY.*\n/m, '', 'a member of an operator family' ],
	[ qr/^CREATE VIEW.*\n/m, '', 'a whole object' ])
{
	my ($from, $to, $what) = @$bad;

	isnt(upgrade($new =~ s/$from/$to/r), $future,
		"an upgrade that differs in $what is found");
}

# The same, in short, for the other one.
my $delta = q{ALTER TABLE snowflake_registry.registry ADD COLUMN added integer;
COMMENT ON COLUMN snowflake_registry.registry.added IS 'something new';
};
write_file("$dir/snowflake_registry--99.sql", slurp_file("$sql/snowflake_registry--1.0.sql") . $delta);
my $wanted = install_other('snowflake_registry', '99');
cmp_ok(scalar(split /\n/, $wanted), '>', 20, 'snowflake_registry has a catalogue that can be compared');
write_file("$dir/snowflake_registry--1.0--99.sql", $delta);
is(install_other('snowflake_registry', '1.0', '99'), $wanted, 'snowflake_registry: what adds the same is the same');
write_file("$dir/snowflake_registry--1.0--99.sql", $delta =~ s/^COMMENT.*\n//mr);
isnt(install_other('snowflake_registry', '1.0', '99'), $wanted, 'snowflake_registry: a comment that is missing is found');

# ---- the library is older than the SQL, and the other way round ----

# Make a library without one function, as if from a release before that function.
sub older_library
{
	my ($without) = @_;

	die "no $without" unless $library =~ /\Q$without\E/;
	write_file(library($server),
		$library =~ s/\Q$without\E/'x' x length($without)/ger);
	$node->restart;
	return;
}

my (undef, $old) = install('1.0');
my (undef, $made) = install('99');
older_library('snowflake_stat_reset');
is(query($node, 'SELECT snowflake_node(snowflake_nextval())', database => $made),
	'1', 'an older library makes IDs for newer SQL');
refused($node, 'SELECT snowflake_stat_reset()', '42883',
	qr/could not find function "snowflake_stat_reset" in file/,
	'what it does not have is an error that names it', database => $made);
write_file("$dir/snowflake--1.0--99.sql", $new =~ s/'snowflake_node'/'snowflake_stat_reset'/r);
refused($node, "ALTER EXTENSION snowflake UPDATE TO '99'", '42883',
	qr/could not find function "snowflake_stat_reset" in file/,
	'nor can SQL that needs it be upgraded to', database => $old);
is(query($node, q{SELECT extversion, to_regproc('snowflake_new') IS NULL,
		to_regclass('snowflake_added') IS NULL, snowflake_nextval() > 0
		FROM pg_extension WHERE extname = 'snowflake'}, database => $old),
	'1.0|t|t|t', 'which leaves all as it was, and at work');

write_file(library($server), $library);
is(query($node, 'SELECT snowflake_nextval() > 0', database => $old), 't',
	'files that are newer than the server that runs change nothing');
# with EXEC_BACKEND each process loads the library anew
refused($node, "ALTER EXTENSION snowflake UPDATE TO '99'", '42883',
	qr/could not find function "snowflake_stat_reset" in file/,
	'it goes on with the library that it was started with', database => $old)
  unless `$ENV{PG_CONFIG} --cppflags` =~ /EXEC_BACKEND/;
$node->restart;
query($node, "ALTER EXTENSION snowflake UPDATE TO '99'", database => $old);
is(query($node, 'SELECT extversion FROM pg_extension WHERE extname = $$snowflake$$', database => $old),
	'99', 'until it is restarted');
$node->stop;

done_testing();
