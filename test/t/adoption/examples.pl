# The programs of examples/, each against a real server, run as examples/README.md
# describes. The IDs that they print must be those in the tables. The decoders of three
# languages and the extension must decode all test vectors alike.
#
# Each program is a part: it runs if its packages are there.
#
# takes: 90 s
# part python: python3
# part java: default-jdk-headless
# part javascript: nodejs
# part psycopg: python3-psycopg
# part service: python3-psycopg
# part sqlalchemy: python3-sqlalchemy python3-psycopg2
# part django: python3-django python3-psycopg2
# part django5: django5
# part laravel: php-cli php-pgsql php-illuminate-database
# part pdo: php-cli php-pgsql
# part doctrine: php-cli php-pgsql php-doctrine-orm php-symfony-cache
# part rails: ruby ruby-activerecord ruby-pg
# part pg: nodejs pg_driver
# part jdbc: default-jdk-headless libpostgresql-jdbc-java
# part hibernate: default-jdk-headless libpostgresql-jdbc-java libhibernate3-java libjavassist-java
# part prisma: nodejs pg_driver orm_packages
# part drizzle: nodejs pg_driver orm_packages
# part sequelize: nodejs pg_driver orm_packages
# part typeorm: nodejs pg_driver orm_packages
# part pgx: golang-go golang-github-jackc-pgx-v4-dev
# part sqlx: golang-go golang-github-jmoiron-sqlx-dev golang-github-lib-pq-dev
use SnowflakeTest;
use JSON::PP qw(decode_json);

my $examples = "$root/examples";

# Use Debian's PHP, Python and Ruby, which see Debian's packages, and not others in PATH.
my $python = '/usr/bin/python3';

my @jars = map { "/usr/share/java/$_.jar" } qw(hibernate-core
  hibernate-commons-annotations geronimo-jpa_2.0_spec geronimo-jta-1.2-spec
  dom4j slf4j-api commons-collections3 antlr javassist postgresql);
my $jars = join ':', @jars;

# Java names its files of statistics by process ID. Two tests in namespaces of their
# own can have equal process IDs, so switch these files off.
my @java = ('java', '-XX:-UsePerfData');
my $classes = PostgreSQL::Test::Utils::tempdir;

# Debian's packages of Go are sources, which are compiled here.
my @go = ('env', 'GO111MODULE=off', 'GOFLAGS=', 'GOPATH=/usr/share/gocode',
	'GOCACHE=' . PostgreSQL::Test::Utils::tempdir, '/usr/bin/go', 'run');

# The commands of Prisma set timers of 10 s and 60 s and would not end before these do,
# although nothing needs the timers any more. Let no such timer keep a program alive.
my $no_timer = PostgreSQL::Test::Utils::tempdir . '/no_timer.js';
append_to_file($no_timer, q{
	const set = setTimeout;

	globalThis.setTimeout = Object.assign((f, ms, ...args) => {
		const timer = set(f, ms, ...args);

		return ms < 10000 ? timer : timer.unref();
	}, set);
});

my %decoder = (
	python => [ $python, "$examples/decode/decode.py" ],
	javascript => [ 'node', "$examples/decode/decode.js" ],
	java => [ @java, "$examples/decode/Decode.java" ]);
my %program = (
	psycopg => [ $python, "$examples/with_psycopg.py" ],
	service => [ $python, "$examples/with_service.py" ],
	sqlalchemy => [ $python, "$examples/with_sqlalchemy.py" ],
	django => [ $python, "$examples/with_django.py" ],
	django5 => [
		'env', 'PYTHONPATH=' . ($ENV{SNOWFLAKE_DJANGO5} // ''),
		$python, "$examples/with_django.py" ],
	laravel => [ '/usr/bin/php', "$examples/with_laravel.php" ],
	pdo => [ '/usr/bin/php', "$examples/with_pdo.php" ],
	doctrine => [ '/usr/bin/php', "$examples/with_doctrine.php" ],
	rails => [ '/usr/bin/ruby', "$examples/with_rails.rb" ],
	pg => [ 'node', "$examples/with_pg.js" ],
	jdbc => [
		@java, '-cp', '/usr/share/java/postgresql.jar',
		"$examples/WithJdbc.java" ],
	hibernate => [
		'sh', '-c',
		"javac -d '$classes' -cp '$jars' '$examples'/hibernate/*.java &&
		@java -cp '$classes:$jars' WithHibernate" ],
	prisma => [
		'env', "NODE_OPTIONS=--require=$no_timer", 'node',
		"$examples/orm/with_prisma.js" ],
	drizzle => [ 'node', "$examples/orm/with_drizzle.js" ],
	sequelize => [ 'node', "$examples/orm/with_sequelize.js" ],
	typeorm => [ 'node', "$examples/orm/with_typeorm.js" ],
	pgx => [ @go, "$examples/with_pgx.go" ],
	sqlx => [ @go, "$examples/with_sqlx.go" ]);

# For these, test/helpers/orm.js tries what else the documentation says that they can
# and cannot do.
my %tried = map { $_ => 1 } qw(prisma drizzle);

my @wanted = grep { part($_) }
  qw(python javascript java psycopg service sqlalchemy django django5 laravel pdo doctrine rails pg jdbc hibernate prisma drizzle sequelize typeorm pgx sqlx);
my $node = start_server('examples', "listen_addresses = '127.0.0.1'",
	"timezone = 'Asia/Kathmandu'");

# Return the lines that a program prints, or nothing if it fails. A program that reads
# wrong keys may ask for the same page for ever, so there is a time limit.
sub lines_of
{
	my ($name, $command, $input) = @_;
	my ($out, $err) = ('', '');
	my $ended = IPC::Run::run($command, '<', \($input // ''), '>', \$out,
		'2>', \$err,
		IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));

	ok($ended, "$name: it ends well") or diag($err) or return;
	return [ split /\n/, $out ];
}

# ---- the vectors ----

my $json = decode_json(slurp_file("$examples/vectors.json"));
my %layout = map { $_->{name} => $_ } @{ $json->{layouts} };
my @vectors = @{ $json->{vectors} };

# Return a vector's fields as the decoders print them.
sub text_of
{
	my ($says) = @_;

	return join ' ', map { "$_=$says->{$_}" } sort keys %$says;
}

# Return the fields that the extension decodes, for each vector.
sub decoded_by_extension
{
	return [
		split /\n/,
		query(
			$node, "SELECT concat_ws(' ', 'datacenter=' || datacenter_id,
					'node=' || node_id, 'process=' || process_id,
					'sequence=' || sequence, 'shard=' || shard_id,
					'unix_ms=' || (extract(epoch FROM created_at) * 1000)::bigint,
					'worker=' || worker_id)
				|| to_char(created_at AT TIME ZONE 'UTC',
					' YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')
			FROM unnest(ARRAY["
			  . join(',', map { "'$_->{id}'" } @vectors)
			  . ']::bigint[], ARRAY['
			  . join(',', map { "'$layout{$_->{layout}}{layout}'" } @vectors)
			  . ']) WITH ORDINALITY v(id, layout, n), snowflake_decode(v.id, layout)
			ORDER BY n') ];
}

my @expected = map { text_of($_->{says}) } @vectors;
is_deeply(
	decoded_by_extension(),
	[ map { "$expected[$_] $vectors[$_]{time}" } 0 .. $#vectors ],
	@vectors . ' vectors: snowflake_decode() says the same');

# The vectors contain all presets of the extension, from their first to their last
# time.
my @presets = map { [ split /\|/ ] } split /\n/, query($node,
	"SELECT name, substring(layout FROM '^(.*?)( tick:.*)? epoch:'),
		(extract(epoch FROM epoch) * 1000)::bigint, tick_ms,
		(extract(epoch FROM lasts_until) * 1000)::bigint - tick_ms
	FROM snowflake_layouts() WHERE NOT configured");
foreach my $preset (@presets)
{
	my ($name, $fields, $epoch_ms, $tick_ms, $last) = @$preset;
	my %times =
	  map { $_->{says}{unix_ms} => 1 } grep { $_->{layout} eq $name } @vectors;

	is_deeply(
		$layout{$name},
		{
			name => $name,
			layout => $name,
			fields => $fields,
			epoch_ms => $epoch_ms,
			tick_ms => $tick_ms
		},
		"$name: the vectors have the preset's fields");
	ok($times{$epoch_ms} && $times{$last},
		"$name: there are vectors of its first tick and of its last");
}

my $input = join '', map {
	my $l = $layout{ $_->{layout} };
	"$_->{id} $l->{epoch_ms} $l->{tick_ms} $l->{fields}\n"
} @vectors;
foreach my $name (grep { $decoder{$_} } @wanted)
{
	my @command = @{ $decoder{$name} };

	is_deeply(lines_of("decoder, $name", [ @command, '-' ], $input),
		\@expected, "decoder, $name: it says the same");

	# as programs: an ID of the extension's own layout, and one of another layout
	is_deeply(lines_of("decoder, $name, an ID", [ @command, '382903724013522944' ]),
		[qw(node=1 sequence=0 unix_ms=1795358561812 time=2026-11-22T14:42:41.812Z)],
		"decoder, $name: an ID of the extension's own layout");
	is_deeply(
		lines_of("decoder, $name, an ID of Sonyflake's",
			[ @command, '612022676378137381', 'timestamp:39 sequence:8 node:16', '1409529600000', '10' ]),
		[ split /\n/, query($node, q{SELECT concat_ws(E'\n', 'node=' || node_id, 'sequence=' || sequence,
				'unix_ms=' || (extract(epoch FROM created_at) * 1000)::bigint,
				'time=' || to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
			FROM snowflake_decode(612022676378137381, 'sonyflake')}) ],
		"decoder, $name: an ID of another layout");

	# with a wrong argument, or without any, they print how to use them
	foreach my $words ([], ['book'], ['-1'], ['9223372036854775808'], [ '1', 'timestamp:41' ])
	{
		my ($out, $err) = ('', '');
		my $ended = IPC::Run::run([ @command, @$words ], '<', \'', '>', \$out, '2>', \$err,
			IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default));

		ok(!$ended && $out eq '' && $err =~ /^usage: .*ID \[FIELDS EPOCH_MS \[TICK_MS\]\]$/m,
			"decoder, $name: without an ID, but \"@$words\", it says how it is used") or diag("$out$err");
	}
}

# ---- the programs ----

# Return the words of the lines that begin with this word.
sub said
{
	my ($lines, $what) = @_;

	return map { [ split / / ] } map { /^$what (.*)/ ? $1 : () } @$lines;
}

sub column
{
	my ($name, $sql) = @_;

	return [ split /\n/, query($node, $sql, database => $name) ];
}

# Check that a tool cannot do what the documentation says it cannot.
sub cannot
{
	my ($name) = @_;
	my $lines = lines_of("$name, what it cannot do",
		[ 'node', "$root/test/helpers/orm.js", $name ]) or return;

	foreach my $line (@$lines)
	{
		ok($1 eq 'ok', "$name: $2") if $line =~ /^(ok|not ok) - (.*)/;
	}
	ok(grep({ $_ eq 'done' } @$lines), "$name: the script came to its end");
}

foreach my $name (grep { $program{$_} } @wanted)
{
	query($node, "CREATE DATABASE $name");
	query($node, 'CREATE EXTENSION snowflake', database => $name);
	my $batches = query($node, 'SELECT node_batches FROM pg_stat_snowflake');
	local $ENV{PGHOST} = '127.0.0.1';
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $name;
	local $ENV{PGUSER} = query($node, 'SELECT current_user');

	my $lines = lines_of($name, $program{$name}) or next;
	my $ids = column($name, 'SELECT id FROM orders ORDER BY id');
	my @inserted = map { $_->[0] } said($lines, 'inserted');
	my @bulk = map { @$_ } said($lines, 'bulk');
	my @pages = said($lines, 'page');

	is(scalar @inserted, 1, "$name: a row was inserted");
	is(scalar @bulk, 1000, "$name: many rows were");
	is_deeply([ sort { $a <=> $b } @inserted, @bulk ],
		$ids, "$name: the keys that came back are those of the table");
	is(query($node, "SELECT count(*) FROM orders WHERE id = $inserted[0] AND item = 'book'",
			database => $name), 1, "$name: each is its row's");
	is_deeply(
		column($name, "SELECT item FROM orders JOIN unnest('{"
			  . join(',', @bulk) . "}'::bigint[]) WITH ORDINALITY b(id, n) USING (id) ORDER BY n"),
		[ map { "item $_" } 0 .. 999 ],
		"$name: also of the many");
	ok(@pages == 4 && !grep({ @$_ > 300 } @pages), "$name: there are four pages");
	is_deeply([ map { @$_ } @pages ],
		$ids, "$name: the pages hold each row once, in order");
	is(query($node, "SELECT DISTINCT concat_ws(' ', column_name, data_type, column_default)
			FROM information_schema.columns
			WHERE table_name IN ('orders', 'order_lines')
				AND (column_name = 'id' OR column_default IS NOT NULL)",
			database => $name), $name =~ /^(rails|sqlalchemy|django5?|laravel|prisma|drizzle|sequelize|typeorm)$/ ? 'id bigint snowflake_generate()' : 'id bigint snowflake_nextval()',
		"$name: the database fills in the keys of others, and nothing else");

	if ($name eq 'hibernate')
	{
		is(query($node, 'SELECT node_batches FROM pg_stat_snowflake') - $batches,
			22, "$name: 20 batches of 50 keys, and those of two transactions");
		cmp_ok(query($node, 'SELECT count(DISTINCT (xmin::text, cmin::text)) FROM orders',
				database => $name), '<', 100,
			"$name: the rows were inserted in batches");
	}
	if ($name =~ /^(pdo|doctrine|pg|prisma|drizzle|sequelize|typeorm|pgx|sqlx)$/)
	{
		my ($text) = map { /^json (.*)/ } @$lines;
		my $lines_of = column($name, 'SELECT id FROM order_lines ORDER BY id');

		is_deeply(
			[ $text =~ /"(?:id|orderId)":("\d+")/g ],
			[ map { qq("$_") } $inserted[0], map { $_, $inserted[0] } @$lines_of ],
			"$name: in JSON the keys are strings, exact");
	}

	is_deeply([ map { join ' ', @$_ } said($lines, 'line') ],
		column($name, "SELECT id || ' of ' || order_id FROM order_lines ORDER BY id"),
		"$name: related rows have their keys, and refer to the other's");
	is(query($node, 'SELECT count(*) FROM order_lines', database => $name),
		2, "$name: there are two of these");
	cannot($name) if $tried{$name};

	# no tool has dropped an object of the extension, or taken one into its schema
	is(query($node, q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class
			WHERE relname ~ 'snowflake' AND relnamespace = 'public'::regnamespace}, database => $name),
		'pg_stat_snowflake pg_stat_snowflake_layouts snowflake_feed_servers snowflake_horizon_holders', "$name: the extension's views are there");
	is(join("\n", map { /^fixture (.*)/ } @$lines), 'from a fixture', "$name: it loads fixtures") if $name eq 'rails';
	is(join("\n", sort map { /^reflected CREATE TABLE (\w+) .*?( DEFAULT .*?) NOT NULL/ ? "$1$2" : () } @$lines),
		"notes DEFAULT snowflake_generate('javascript'::text)\norder_lines DEFAULT snowflake_generate()\norders DEFAULT snowflake_generate()",
		"$name: a table that is reflected has its default") if $name eq 'sqlalchemy';
	ok(!grep({ /snowflake(?!_nextval|_generate|::|\.)|pg_stat/ } map { /^schema (.*)/ } @$lines),
		"$name: its schema has nothing of the extension's") if $name eq 'rails';
}

done_testing();
