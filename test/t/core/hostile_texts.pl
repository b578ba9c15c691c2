# No text of ours makes an administrator run what the owner of a database has written. In
# "public", beside the extension, the owner has a function, an operator or a type for each
# name that a text uses, with all types for which PostgreSQL has none: a better match for
# each call whose types are not exactly those of a function of pg_catalog or of ours. The
# texts are all statements in messages and remedies of the C code, in the expected outputs,
# in the pages, and in the files that are shipped. Their names are found in them.
#
# A superuser types each text there, and so does a role that owns tables. The search_path
# that the owner has set has a schema with the name of each of them first, in which he has
# a copy of each function of ours, and pg_catalog last. So the texts of the code have the
# schema of each name. Who types a text of the pages has run what doc/reference.md says of
# such a database. The server prints what each statement resolves to (debug_print_parse),
# also if it fails for another reason. Nothing of that is the owner's, and nothing of his
# runs.
#
# takes: 30 s
use SnowflakeTest;

# ---- statements ----

# Split a text into statements, as psql does: at semicolons outside of quotes, comments,
# dollar quotes and parentheses. A command of psql ends a statement, too.
sub statements
{
	my ($text) = @_;
	my ($statement, $depth, $body) = ('', 0, 0);
	my @found;

	pos($text) = 0;
	while (pos($text) < length $text)
	{
		if ($text =~ /\G--[^\n]*/gc || $text =~ m{\G/\*.*?\*/}gcs) { $statement .= ' ' }
		elsif ($text =~ /\G((?:[eE])'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$\w*\$).*?\g2)/gcs)
		{
			$statement .= $1;
		}
		elsif ($text =~ /\G\\(g(?:set|exec|x)?)\b[^\n]*/gc || $text =~ /\G;/gc && $depth == 0)
		{
			push @found, $statement;
			$statement = '';
		}
		elsif ($text =~ /\G\\[^\n]*/gc) { $statement .= ' ' }
		elsif ($text =~ /\G([\w.]+|\s+|.)/gcs)
		{
			$depth++ if $1 eq '(';
			$depth-- if $1 eq ')' && $depth > 0;
			$statement .= $1;
		}
	}
	push @found, $statement;
	s/^\s+|\s+$//g foreach @found;
	return grep { /\S/ } @found;
}

my $VERB = qr/SELECT|WITH|UPDATE|DELETE|INSERT|CREATE|ALTER|DROP|GRANT|REVOKE|DO|LOCK|SET|RESET|SHOW|EXPLAIN|REINDEX|VACUUM|ROLLBACK|COMMIT|BEGIN|COMMENT|PREPARE|TRUNCATE|CALL|REASSIGN|ANALYZE|COPY|TABLE|SAVEPOINT|START|RELEASE/;
my @texts;		# each with where, statements

sub add
{
	my ($where, $text) = @_;

	# with "..." in place of something, it cannot be typed; and some are mere names of
	# commands; where a number is asked for, a person types one
	my @statements = grep { !/^[A-Z\s]+$|SET SCHEMA$|\.\.\.(?!')|…/ } statements($text =~ s/\b(?:ID|N)\b(?=['),:])/5/gr);

	push @texts, { where => $where, statements => \@statements } if @statements;
	return;
}

# Add what is a statement in the middle of prose: from a verb to a semicolon, or a call of
# one of our functions.
sub add_prose
{
	my ($where, $prose) = @_;

	my $typed = '';

	while ($prose =~ /\b((?:SELECT|WITH \w+ AS|UPDATE|DELETE FROM|INSERT INTO|ALTER|CREATE|DROP|GRANT|REVOKE|LOCK TABLE|REINDEX|COMMENT ON|ROLLBACK PREPARED|SET|TRUNCATE)\s(?:[^;']|'[^']*')*);/g)
	{
		# without one that the prose only names
		next if $1 =~ /\. +[A-Z][a-z]/;
		add($where, "$1;");
		$typed .= "$1;";
	}
	# the names of arguments, where a message speaks of a call
	while ($prose =~ /(?<![\w.])((?:\w+\.)?snowflake_\w+\((?:[^()']|'[^']*')+\))/g)
	{
		add("$where (a call)", "SELECT $1 FROM (VALUES (5::bigint, 'shard'::text)) AS v (id, layout);") if index($typed, $1) < 0;
	}
	return;
}

# ---- texts of the C code ----

# Return what the literals and macros of strings that follow each other are together.
my %macro;
my $PIECE = qr/"(?:[^"\\\n]|\\.)*"|\b[A-Z_][A-Z0-9_]*[A-Z_]\b/;

sub joined
{
	my ($pieces, $depth) = @_;
	my $text = '';

	while ($pieces =~ /($PIECE)/g)
	{
		my $piece = $1;

		if ($piece =~ /^"(.*)"$/s) { $text .= $1 =~ s/\\n/\n/gr =~ s/\\t/\t/gr =~ s/\\(.)/$1/gr }
		elsif ($piece =~ /^(?:PRI[diux]64|U?INT64_FORMAT)$/) { $text .= $piece =~ /FORMAT/ ? '%lld' : 'lld' }
		elsif (defined $macro{$piece} && $depth < 5) { $text .= joined($macro{$piece}, $depth + 1) }
	}
	return $text;
}

# Fill the placeholders of printf. A number is a small one, as the owner can choose: it is
# an integer, where a large one would be a bigint.
sub filled
{
	my ($text) = @_;

	$text =~ s/%%/%/g;
	$text =~ s/(?:%s|\@extschema\@)\.(?=snowflake_)/public./g;
	$text =~ s/%[0-9.]*(?:l|ll|z)?[diux]/5/g;
	$text =~ s/interval '%s'/interval '1 day'/g;
	$text =~ s/'%s'/'public.orders'/g;
	$text =~ s/"%s"/"orders"/g;
	$text =~ s/\b(TABLE|FROM|UPDATE|ONLY|JOIN|INTO|ON) %s/$1 public.orders/g;
	$text =~ s/(\b(?:WHERE|SET|AND) |\br\.)%s/$1id/g;
	$text =~ s/%s\.%s/public.orders/g;
	$text =~ s/\bPARTITION %s/PARTITION orders_rest/g;
	$text =~ s/\b(INTO \S+ \(|SELECT )%s/$1id/g;
	$text =~ s/\(%s(?=[,):])/('public.orders'/g;
	$text =~ s/, %s(?=[,):])/, 'id'/g;
	$text =~ s/%[0-9.*]*s//g;
	return $text;
}

my @sources = (glob("$root/src/*.[ch] $root/src/*/*.[ch] $root/lease/*.[ch] $root/lease/*/*.[ch]"));
my %source = map { $_ => slurp_file($_) =~ s/\\\n/ /gr } @sources;

foreach (values %source)
{
	$macro{$1} //= $2 while /^#\s*define\s+([A-Z_][A-Z0-9_]+)[ \t]+((?:$PIECE\s*)+)$/mg;
}
foreach my $path (@sources)
{
	my $short = substr($path, length("$root/"));

	while ($source{$path} =~ /((?:$PIECE\s*)*"(?:[^"\\\n]|\\.)*"(?:\s*$PIECE)*)/g)
	{
		my $line = 1 + (substr($source{$path}, 0, $-[0]) =~ tr/\n//);
		my $text = joined($1, 0);

		add_prose("$short:$line", filled($text)) if $text =~ /;|snowflake_\w+\(/;
	}
}
my $from_c = @texts;

# ---- pages, expected outputs, shipped files ----

my @pages = ("$root/README.md", glob("$root/doc/*.md $root/examples/*.md $root/examples/*/*.md"));
my $setup = '';

foreach my $path (@pages)
{
	my $page = slurp_file($path);
	my $short = substr($path, length("$root/"));

	# what documentation.pl runs before a block
	$setup .= "$1;\n" while $page =~ /<!--\s*(?:first|inline):(.*?)-->/gs;
	while ($page =~ /^( *)```(\w+)\n(.*?)^ *```\s*$/msg)
	{
		my ($language, $block, $line) = ($2, $3, 2 + (substr($page, 0, $-[0]) =~ tr/\n//));

		if ($language eq 'sql') { add("$short:$line", $block) }
		elsif ($language eq 'sh')
		{
			add("$short:$line", $1 // $2)
			  while $block =~ /(?:-\w*c|--command=?)\s*(?:"([^"]+)"|'([^']+)')/g;
		}
	}
	my $prose = $page =~ s/^ *```.*?^ *```\s*$//msgr;
	while ($prose =~ /`((?:$VERB)\s[^`]+)`/g)
	{
		my ($statement, $line) = ($1, 1 + (substr($prose, 0, $-[0]) =~ tr/\n//));

		add("$short:$line, in the text", $statement);
	}
}
foreach my $path (glob("$root/expected/*.out"))
{
	add_prose(substr($path, length("$root/")), $_) foreach slurp_file($path) =~ /^HINT:  (.*)$/mg;
}
foreach my $path (glob("$root/examples/*.sql $root/examples/*/*.sql $root/sql/*.sql"))
{
	next if $path =~ /--/;
	add(substr($path, length("$root/")), slurp_file($path));
}
foreach my $path (glob("$root/examples/*/*.yml $root/examples/*/*.yaml $root/examples/*/*.json $root/docker/*"))
{
	my $text = slurp_file($path);
	my $short = substr($path, length("$root/"));

	add($short, $2) while $text =~ /^( *)query: \|\n((?:\1 +.*\n|\n)+)/mg;
	add($short, $1) while $text =~ /--?c(?:ommand)?[= ]["']?(SELECT [^"'\n]+)/g;
}
cmp_ok($from_c, '>', 60, 'statements of the C code are found');
cmp_ok(@texts - $from_c, '>', 150, 'those of pages and files, too');

# ---- their names ----

my %operators = map { $_ => 1 } qw(= <> < > <= >= ~~);
my (%calls, %casts);

sub collect
{
	my ($sql) = @_;
	my $bare = $sql =~ s/'(?:[^']|'')*'/''/gr;

	$operators{$1} = 1 while $bare =~ m{(?<![-+*/<>=~!@#%^&|])([-+*/<>=~!@#%^&|]+)(?=[\s\w('":\$])}g;
	$casts{ lc $1 } = 1 while $bare =~ /(?:::|\bAS )\s*(?:pg_catalog\.)?"?(\w+)"?/g;
	while ($bare =~ /(?:(\w+|"[^"]+")\.)?(?<![\w"])(\w+)\(((?:[^()]|(\((?:[^()]|(?4))*\)))*)\)/g)
	{
		my ($name, $args) = (lc $2, $3);

		pos($bare) = $-[3];			# and the calls in the arguments
		1 while $args =~ s/\([^()]*\)//g;
		my @args = $args =~ /\S/ ? split(/,/, $args, -1) : ();
		my @names = map { /^\s*(\w+)\s*(?:=>|:=)/ ? $1 : '' } @args;

		$calls{$name}{ scalar @args }{ join ',', @names } = 1 if @args <= 6;
	}
	return;
}
foreach my $text (@texts)
{
	foreach (@{ $text->{statements} })
	{
		collect($_);
		# code in a string: of a DO, of a function, of a call on other nodes
		collect($1) while /(?<!')'((?:[^']|'')*[(=](?:[^']|'')*)'(?!')/g;
	}
}
delete @operators{ grep { /--|\/\*|^(?:=>|:=|\*|-|::)$/ && !/^[-*]$/ } keys %operators };
delete $calls{$_} foreach qw(in values and or not as over filter exists any all from using on by where row array cast coalesce greatest least nullif extract numeric varchar varying char character with when then select key into table if set default check);

# ---- the owner's traps ----

my $node = new_server('main', q{snowflake.shards = '0-9'});
$node->start;
query($node, q{CREATE ROLE enemy; CREATE DATABASE plain; CREATE DATABASE hostile OWNER enemy});

my @pairs = map { my $f = $_; map { my $n = $_; my ($names) = sort { $b cmp $a } keys %{ $calls{$f}{$n} };
	"('$f', $n, '{" . join(',', map { $_ eq '' ? '""' : $_ } split(/,/, $names, -1)) . "}')" } sort keys %{ $calls{$f} } } sort keys %calls;
my $traps = q{
SET check_function_bodies = off; SET search_path = pg_catalog;
CREATE TEMP TABLE kind (name text, wide boolean);
INSERT INTO kind SELECT k, k = ANY ('{integer,bigint,numeric,text,name,timestamptz,interval,regclass,boolean,text[],double precision}')
FROM unnest('{smallint,integer,bigint,numeric,double precision,text,name,varchar,boolean,"\"char\"",oid,regclass,regproc,regnamespace,regrole,regtype,timestamptz,timestamp,date,interval,json,jsonb,bytea,uuid,xid,pg_lsn,text[],name[],bigint[],public.snowflake}'::text[]) k;
DO $do$
DECLARE
	trap record;
	kinds oid[] := ARRAY(SELECT name::regtype::oid FROM kind);
BEGIN
	-- operators: one function for each pair of types and each result
	FOR trap IN
		SELECT l.name AS l, r.name AS r, o.name AS op, CASE WHEN o.name ~ '^[=<>~!@&?|]*[=<>~!@?][=<>~!@&?|*]*$' AND o.name !~ '<<|>>|->' THEN 'boolean'
				WHEN o.name ~ '[|]' THEN 'text'
				ELSE coalesce((SELECT p.oprresult::regtype::text FROM pg_operator p WHERE p.oprname = o.name AND p.oprleft = l.name::regtype AND p.oprright <> 0 LIMIT 1),
					l.name) END AS result
		FROM kind l, kind r, unnest(ARRAY[%1$s]) o (name)
		WHERE NOT EXISTS (SELECT FROM pg_operator p WHERE p.oprnamespace = 'public'::regnamespace AND p.oprname = o.name AND p.oprleft = l.name::regtype AND p.oprright = r.name::regtype)
	LOOP
		IF to_regprocedure(format('public.%%I(%%s, %%s)', 'trap ' || trap.result, trap.l, trap.r)) IS NULL THEN
			EXECUTE format('CREATE FUNCTION public.%%I(%%s, %%s) RETURNS %%s LANGUAGE plpgsql AS %%L', 'trap ' || trap.result, trap.l, trap.r, trap.result,
				'BEGIN IF current_user <> ''enemy'' THEN RAISE LOG ''sprung: an operator''; END IF; RETURN NULL; END');
		END IF;
		EXECUTE format('CREATE OPERATOR public.%%s (FUNCTION = public.%%I, LEFTARG = %%s, RIGHTARG = %%s)', trap.op, 'trap ' || trap.result, trap.l, trap.r);
	END LOOP;
	-- functions: all pairs of types, of the usual ones for three; beyond that, what the
	-- functions of this name have, text, or integer, for each argument
	FOR trap IN
		WITH call AS (SELECT name, n, names::text[] FROM (VALUES %2$s) v (name, n, names)
		), declared AS (
			SELECT c.name, c.n, a.at, t.kind
			FROM call c JOIN pg_proc p ON p.proname = c.name AND p.pronargs >= c.n CROSS JOIN generate_series(1, c.n) a (at),
				LATERAL (VALUES (format_type(p.proargtypes[a.at - 1], NULL)), ('text'), ('integer')) t (kind)
			WHERE c.n BETWEEN 4 AND 5 AND (SELECT bool_and(typtype <> 'p') FROM pg_type WHERE oid = ANY (p.proargtypes::oid[]))
			GROUP BY 1, 2, 3, 4
		), arguments AS (
			SELECT name, n, ARRAY[]::text[] AS types, names FROM call WHERE n = 0
			UNION ALL SELECT name, n, ARRAY[k], names FROM call, kind a (k) WHERE n = 1
			UNION ALL SELECT name, n, ARRAY[a.k, b.k], names FROM call, kind a (k, w), kind b (k, w) WHERE n = 2 AND (a.w OR b.w)
			UNION ALL SELECT name, n, ARRAY[a.k, b.k, c.k], names FROM call, kind a (k, w), kind b (k, w), kind c (k, w) WHERE n = 3 AND a.w AND b.w AND c.w
			UNION ALL SELECT name, n, ARRAY[a.kind, b.kind, c.kind, d.kind], names FROM call JOIN declared a USING (name, n) JOIN declared b USING (name, n) JOIN declared c USING (name, n) JOIN declared d USING (name, n)
				WHERE n = 4 AND (a.at, b.at, c.at, d.at) = (1, 2, 3, 4)
			UNION ALL SELECT name, n, ARRAY[a.kind, b.kind, c.kind, d.kind, e.kind], names FROM call JOIN declared a USING (name, n) JOIN declared b USING (name, n) JOIN declared c USING (name, n) JOIN declared d USING (name, n) JOIN declared e USING (name, n)
				WHERE n = 5 AND (a.at, b.at, c.at, d.at, e.at) = (1, 2, 3, 4, 5)
		)
		SELECT DISTINCT ON (name, types) name, types, names, coalesce(
			(SELECT CASE WHEN proretset THEN 'SETOF ' ELSE '' END || prorettype::regtype FROM pg_proc WHERE proname = arguments.name AND prorettype NOT IN (SELECT oid FROM pg_type WHERE typtype = 'p' AND typname <> 'record') AND prokind <> 'p' ORDER BY pronargs = n DESC, oid LIMIT 1), 'text') AS result
		FROM arguments
		WHERE NOT EXISTS (SELECT FROM pg_proc p WHERE p.proname = arguments.name AND p.pronamespace = 'public'::regnamespace
			AND p.proargtypes::text = array_to_string(types::regtype[]::oid[], ' '))
	LOOP
		EXECUTE format('CREATE FUNCTION public.%%I(%%s) RETURNS %%s LANGUAGE plpgsql AS %%L', trap.name,
			coalesce((SELECT string_agg(concat_ws(' ', CASE WHEN trap.names[n] <> '' THEN quote_ident(trap.names[n]) END, t), ', ' ORDER BY n) FROM unnest(trap.types) WITH ORDINALITY u (t, n)), ''), trap.result,
			format('BEGIN IF current_user <> ''enemy'' THEN RAISE LOG ''sprung: %%s''; END IF; RETURN%%s; END', trap.name,
				CASE WHEN trap.result = 'void' OR trap.result ~ '^SETOF' THEN '' ELSE ' NULL' END));
	END LOOP;
END $do$;
DO $do$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY[%3$s] LOOP
		IF to_regtype('public.' || quote_ident(name)) IS NULL AND to_regtype('pg_catalog.' || quote_ident(name)) IS NOT NULL THEN
			EXECUTE format('CREATE DOMAIN public.%%I AS text', name);
		END IF;
	END LOOP;
END $do$;
-- a call with a literal is a cast to a type of this name, if no function has this very type
CREATE FUNCTION public."trap type"(text) RETURNS boolean LANGUAGE plpgsql AS
	'BEGIN IF current_user <> ''enemy'' THEN RAISE LOG ''sprung: a type with the name of a function''; END IF; RETURN true; END';
DO $do$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY[%4$s] LOOP
		IF to_regtype('public.' || quote_ident(name)) IS NULL THEN
			EXECUTE format('CREATE DOMAIN public.%%I AS text CHECK (public."trap type"(VALUE))', name);
		END IF;
	END LOOP;
END $do$};
sub list { return join ', ', map { "'$_'" } sort @_ }


query($node, 'CREATE EXTENSION snowflake; CREATE EXTENSION snowflake_registry; GRANT CREATE ON SCHEMA public TO enemy', database => $_)
  foreach 'plain', 'hostile';
query($node, 'GRANT CREATE ON DATABASE plain TO enemy');
query($node, 'SET SESSION AUTHORIZATION enemy;' . sprintf($traps, list(keys %operators), join(', ', @pairs), list(keys %casts), list(grep { $calls{$_}{1} } keys %calls)), database => 'hostile');

# Whatever role comes to this database has another search_path, and a schema of its name
# in it, unless it has set its own.
my $superuser = query($node, 'SELECT current_user');
query($node, 'CREATE ROLE keeper LOGIN; ALTER ROLE keeper IN DATABASE hostile SET search_path = keeper, public, pg_catalog; GRANT pg_read_all_settings TO keeper');
query($node, qq{SET SESSION AUTHORIZATION enemy; SET search_path = pg_catalog; SET check_function_bodies = off;
	ALTER DATABASE hostile SET search_path = "\$user", public, pg_catalog;
	CREATE SCHEMA $_; GRANT USAGE ON SCHEMA $_ TO PUBLIC;
	DO \$do\$ DECLARE f record; BEGIN
		FOR f IN SELECT proname, oidvectortypes(proargtypes) AS types FROM pg_proc
			WHERE pronamespace = 'public'::regnamespace AND proowner = '$superuser'::regrole AND proname ~ '^snowflake_' AND prokind = 'f'
				AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid = ANY (proargtypes) AND typtype = 'p')
		LOOP
			EXECUTE format('CREATE FUNCTION $_.%I(%s) RETURNS SETOF text LANGUAGE plpgsql AS %L', f.proname, f.types,
				'BEGIN RAISE LOG ''sprung: the first in the path''; END');
		END LOOP;
	END \$do\$}, database => 'hostile') foreach $superuser, 'keeper';
my %trap = map { split /\t/ } split /\n/, query($node, q{SET search_path = pg_catalog;
	SELECT concat('f', oid, E'\t', oid::regprocedure) FROM pg_proc WHERE proowner = 'enemy'::regrole
	UNION ALL SELECT concat('o', oid, E'\t', oid::regoperator) FROM pg_operator WHERE oprowner = 'enemy'::regrole
	UNION ALL SELECT concat('t', oid, E'\t', oid::regtype) FROM pg_type WHERE typowner = 'enemy'::regrole AND typtype = 'd'}, database => 'hostile');
cmp_ok(scalar(keys %trap), '>', 20000, keys(%trap) . ' traps are set');

# ---- the texts are typed ----

# Return true for a statement of a page or an example that the owner of the table types:
# an administrator's one names the server, or what only he may call or see.
sub is_owners
{
	my ($where, $statement) = @_;

	return $where =~ m{^(?:doc/|README|examples/(?!prometheus|kubernetes|btree_gist))} && $statement !~
	  m{snowflake_(?:advance|accept|registry|status|lease|clock|stat_|node_conflicts|recover|reset_mark|state|horizon_holders)
		|\bpg_(?!temp)|ALTER\ SYSTEM|EXTENSION}x;
}

# Tables of the pages, which are the owner's.
my $objects = q{SET SESSION AUTHORIZATION enemy; SET search_path = public; SET statement_timeout = '1s';
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text, customer integer, number bigint, created_at timestamptz, made_on text);
	CREATE TABLE your_table (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE statuses (id bigint PRIMARY KEY); CREATE TABLE messages (id bigint PRIMARY KEY);
	CREATE SCHEMA shard5; CREATE TABLE shard5.photos (id bigint PRIMARY KEY);
} . join('', map { "$_;\n" } grep { /^CREATE (?:TABLE|SCHEMA|DOMAIN|VIEW)/ } map { @{ $_->{statements} } } @texts) . $setup;

# What doc/reference.md tells a superuser to run first, with the schema of the extension.
my ($first) = slurp_file("$root/doc/reference.md") =~ /`(SET search_path = \w+;)`/;
$first =~ s/= \w+/= public/;

# Return true for what the code prints, or is a query of an exporter or a probe: nobody
# types anything before it.
sub is_bare
{
	my ($where) = @_;

	return $where =~ m{^(?:src|lease|expected)/|^the |\.ya?ml} && $where !~ / \(a call\)$/;
}

# Type the texts from a place on as a superuser; or those of the code as the role "keeper".
# Return what psql prints for each statement of each text.
sub type_all
{
	my ($database, $prints, $from, $role) = @_;
	my $script = "$first\n\\set ON_ERROR_ROLLBACK on\n\\set VERBOSITY verbose\n\\set home public\n\\set last 1795700000123\n";
	my ($out, $err, %said);

	foreach my $t ($from .. $#texts)
	{
		next if $role && !is_bare($texts[$t]{where});
		$script .= "BEGIN;\nSET LOCAL statement_timeout = '5s';\n";
		$script .= "SET LOCAL search_path = DEFAULT;\n" if $database eq 'hostile' && is_bare($texts[$t]{where});
		foreach my $s (0 .. $#{ $texts[$t]{statements} })
		{
			my $statement = $texts[$t]{statements}[$s];

			next if is_owners($texts[$t]{where}, $statement)
			  || $statement =~ /^(?:BEGIN|COMMIT|ROLLBACK|START|END|SAVEPOINT)\b|FROM STDIN|^ALTER SYSTEM/i;
			$statement = "PREPARE typed AS $statement; DEALLOCATE typed" if $statement =~ /\$1/ && $statement =~ /^(?:SELECT|UPDATE|INSERT|DELETE|WITH)/;
			$script .= "\\warn #### $t $s\nSET LOCAL client_min_messages = log; SET LOCAL debug_print_parse = $prints;\n$statement\n;\n";
		}
		$script .= "\\warn #### end\nROLLBACK;\n";
	}
	$script .= "\\warn #### all\n";
	unlink $node->basedir . "/$database.sql";
	append_to_file($node->basedir . "/$database.sql", $script);
	IPC::Run::run([ 'psql', '-XAtq', $role ? ('-U', $role) : (), '-d', $node->connstr($database), '-f', $node->basedir . "/$database.sql" ], '>', \$out, '2>', \$err);
	foreach (split /^#### /m, $err)
	{
		$said{$1} = $2 if /^(\d+ \d+)\n(.*)/s;
	}
	like($err, qr/^#### all$/m, "$database: all texts are typed");
	return \%said;
}

# Return what of the owner's is in the query trees that psql has printed.
sub caught_in
{
	my ($printed) = @_;
	my %found;

	$found{"f$1"} = 1 while $printed =~ /:(?:funcid|aggfnoid|winfnoid|opfuncid) (\d+)/g;
	$found{"o$1"} = 1 while $printed =~ /:(?:opno|eqop|sortop) (\d+)/g;
	$found{"t$1"} = 1 while $printed =~ /:\w*type (\d+)/g;
	return join ', ', sort grep { defined && !/^public\."trap / } @trap{ keys %found }, $printed =~ /(sprung: .*)/g;
}

# These cannot be resolved here.
my $ELSEWHERE = qr/run_command_on_all_nodes|\bpgtle\.|\bpartman\./;
my (@caught, @unresolved);

$node->psql($_, $objects, on_error_stop => 0) foreach 'plain', 'hostile';
my $plain = type_all('plain', 'off', 0);
my $hostile = type_all('hostile', 'on', 0);

# Also what the server prints there of its owner's tables, with their names.
query($node, q{SET SESSION AUTHORIZATION enemy; SET search_path = public;
	CREATE TABLE over (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE rest PARTITION OF over DEFAULT;
	SELECT count(*) FROM snowflake_create_partitions('over'::regclass, interval '1 day', now() - interval '5 days', now() - interval '3 days', NULL::text);
	INSERT INTO over DEFAULT VALUES;
	CREATE TABLE "far Ahead" ("the id" bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO "far Ahead" SELECT snowflake_nextval() + '15099494400000000'::bigint;	-- an hour
	CREATE TABLE narrow (id integer PRIMARY KEY DEFAULT snowflake_nextval())}, database => 'hostile');
query($node, 'GRANT UPDATE ON SEQUENCE snowflake_state.snowflake_mark TO enemy', database => 'hostile');
my $printed = @texts;
my $remedies = query($node, q{SET search_path = pg_catalog; SELECT concat(check_name, E'\t', remedy) FROM public.snowflake_status() WHERE remedy IS NOT NULL}, database => 'hostile');

add_prose("the remedy of $1", $2) while $remedies =~ /^(.*?)\t(.*)$/mg;
foreach my $call ('snowflake_shard_nextval(4000)', q{snowflake_convert('public.narrow'::regclass)},
	'snowflake_advance(max("the id")) FROM public."far Ahead"')
{
	$node->psql('hostile', "SET search_path = pg_catalog; SELECT public.$call", stderr => \my $err);
	add_prose("the hint of $call", $1) if $err =~ /HINT:  (.*)/;
	$remedies .= "\n$err";
}
note($remedies);
cmp_ok(@texts - $printed, '>=', 5, 'the server prints remedies and hints');
my $new = type_all('hostile', 'on', $printed);
$hostile->{$_} = $new->{$_} foreach keys %$new;
$plain->{$_} = 'ERROR:  42: not typed there' foreach keys %$new;

my $keeper = type_all('hostile', 'on', 0, 'keeper');

foreach my $key (sort keys %$plain)
{
	my ($t, $s) = split / /, $key;
	my $statement = $texts[$t]{statements}[$s] =~ s/\s+/ /gr;
	my $text = "$texts[$t]{where}: $statement";
	my ($was, $is) = map { /ERROR:  (42\w*: .*)/ ? $1 : '' } $plain->{$key}, $hostile->{$key};
	my $caught = caught_in($hostile->{$key}) || caught_in($keeper->{$key} // '');

	# what a trap returns does not suit the statement; a new object may have its name
	$caught ||= $is if $was eq '' && $is !~ /^42(?:723|P07|710|P06)/;
	push @caught, "$text\n    $caught" if $caught;
	push @unresolved, "$text\n    $was" unless $caught || $hostile->{$key} =~ /parse tree:/ || $text =~ $ELSEWHERE;
}
is(join("\n", @caught), '', 'nothing that is typed resolves to what is the owner\'s');
is(join("\n", @unresolved), '', 'everything can be resolved');

# ---- the schema's name is quoted ----

query($node, 'CREATE DATABASE quoted');
query($node, 'CREATE SCHEMA "My Schema"; CREATE EXTENSION snowflake SCHEMA "My Schema"', database => 'quoted');
$node->psql('quoted', q{SELECT "My Schema".snowflake_accept('clock')}, stderr => \my $notice);
like($notice, qr/HINT:  .*SELECT \* FROM "My Schema"\.snowflake_status\(\);$/m, 'a name with a blank');

# ---- the traps work ----

foreach my $bait ([ q{SELECT 1::oid = 'public'::regnamespace}, qr/^public\.=\(oid,regnamespace\), sprung/ ],
	[ 'SELECT snowflake_advance(5)', qr/^public\.snowflake_advance\(integer\), sprung/ ],
	[ 'SELECT * FROM snowflake_status()', qr/sprung: the first in the path/, '' ])
{
	my ($sql, $pattern, $path) = (@$bait, $first);

	$node->psql('hostile', "$path SET client_min_messages = log; SET debug_print_parse = on; $sql", stderr => \my $err);
	like(caught_in($err), $pattern, "a trap works: $sql");
}
$node->stop;
done_testing();
