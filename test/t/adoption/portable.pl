# The portable functions give the same answers as the library. They make no ID twice,
# whatever ends a call or the server, and other roles cannot break them. The exchange
# for the library works in both directions.
#
# takes: 70 s
use strict;
use warnings FATAL => 'all';
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use IdChecker;
use Load;
use SnowflakeTest;

my $top = "$FindBin::RealBin/../../..";
my $install = slurp_file("$top/sql/portable.sql");
my $random = $ENV{SNOWFLAKE_RANDOM_IDS} // 20000;

# Return a server that does not load the library.
sub plain_server
{
	my ($name, @settings) = @_;

	return new_server($name, "shared_preload_libraries = ''", @settings);
}

# Install the functions in a schema of their own, which is in every session's path.
sub install_portable
{
	my ($node) = @_;

	query($node, 'CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC; ALTER DATABASE postgres SET search_path = public, ids');
	query($node, "SET search_path = ids; $install");
	query($node, "SELECT snowflake_set_node(5), snowflake_set_shards('3-4')");
	return;
}

# ---- the same answers, with the library in another schema ----

my $both = new_server('both', "snowflake.shards = '3'");
$both->start;
query($both, q{CREATE SCHEMA lib; CREATE SCHEMA "The portable";
	CREATE EXTENSION snowflake SCHEMA lib});
query($both, qq{SET search_path = "The portable"; $install
	SELECT snowflake_set_node(1), snowflake_set_shards('3')});

# Check that the functions of both schemas give the same answers. Errors count as their
# SQLSTATE and message.
sub both_say
{
	my ($name, $code, @calls) = @_;
	my @said;

	foreach my $schema ('lib', '"The portable"')
	{
		my $list = join ', ', map { '$call$' . $_ . '$call$' } @calls;
		push @said, [ split /\n/, query($both, qq{
			SET timezone = 'UTC'; SET search_path = $schema;
			CREATE TEMP TABLE said (n serial, what text);
			DO \$do\$
			DECLARE c text; r text;
			BEGIN
				FOREACH c IN ARRAY ARRAY[$list]::text[] LOOP
					BEGIN
						EXECUTE 'SELECT (' || c || ')::text' INTO r;
					EXCEPTION WHEN OTHERS THEN
						r := SQLSTATE || ': ' || SQLERRM;
					END;
					INSERT INTO said (what) VALUES (replace(coalesce(r, 'NULL'), E'\\n', '; '));
				END LOOP;
			END \$do\$;
			SELECT what FROM said ORDER BY n}) ];
	}
	my @differ = map { "$calls[$_]\n\tlibrary: $said[0][$_]\n\tportable: $said[1][$_]" }
	  grep { $said[0][$_] ne $said[1][$_] } 0 .. $#calls;
	is(join("\n", @differ), '', "$name: the same as the library (" . @calls . ' calls)');
	like(join("\n", @{ $said[0] }), $code, '... as it should be');
	return;
}

my $json = decode_json(slurp_file("$top/examples/vectors.json"));
my %layout = map { $_->{name} => $_->{layout} } @{ $json->{layouts} };
both_say('published IDs and vectors', qr/2016-04-30 11:18:25.796/, map {
	my $args = "$_->{id}, '$layout{ $_->{layout} }'";
	my $time = "'$_->{time}', '$layout{ $_->{layout} }'";
	map { "snowflake_$_" } "decode($args)", "timestamp($args)", "node($args)", "shard($args)",
	  "sequence($args)", "min_id($time)", "max_id($time)"
} @{ $json->{vectors} });

# each text of a layout in the regression tests, and each refusal
my $tests = join '', map { slurp_file("$top/test/sql/$_.sql") } qw(layouts decode compose text);
my %calls = map { $_ => 1 } $tests =~ /^SELECT (snowflake_(?:timestamp|decode|min_id|max_id|compose|encode|parse)\((?:[^()]|\([^()]*\))*\));$/mg;
cmp_ok(scalar(keys %calls), '>', 50, 'calls of the regression tests');
both_say('the regression tests', qr/22023: invalid layout/, sort keys %calls);
both_say('layouts', qr/twitter.*mastodon.*javascript/s,
	q{SELECT string_agg(l::text, E'\n') FROM snowflake_layouts() l WHERE name NOT IN ('node', 'shard')},
	q{SELECT string_agg(l.layout, E'\n') FROM snowflake_layouts() l WHERE configured});
both_say('refusals', qr/22004.*22023.*55000.*22P02/s,
	'snowflake_nextval_batch(0)', 'snowflake_nextval_batch(-1)', 'snowflake_nextval_batch(10000001)',
	'snowflake_nextval_batch(NULL)', 'snowflake_shard_nextval(-1)', 'snowflake_shard_nextval(8192)',
	'snowflake_shard_nextval(NULL)', 'snowflake_shard_nextval(5)', 'snowflake_shard_nextval_batch(5, 1)',
	'snowflake_shard_nextval_batch(3, 0)', 'snowflake_advance(NULL)', 'snowflake_advance(-1)',
	q{snowflake_advance(1, layout => 'nonsense')}, 'snowflake_advance(9223372036854775807)',
	'snowflake_advance(9223372036854775807, true)', q{snowflake_advance(snowflake_min_id(now() + interval '2 days'))},
	q{snowflake_advance(snowflake_min_id(now(), 'twitter'), layout => 'twitter')},
	(map { ("snowflake_nextval($_)", "snowflake_nextval_batch(2, $_)") } 'NULL', q{''}, q{'nonsense'}, q{'instagram'},
		q{'timestamp:41 node:10'}, q{'mastodon'}, q{'timestamp:30 node:10 sequence:12'},
		q{'timestamp:41 node:10 sequence:12 epoch:2199-01-01'}),
	q{snowflake_nextval_batch(0, 'javascript')}, q{snowflake_nextval_batch(NULL, 'javascript')},
	(map { ("snowflake_shard_nextval(3, $_)", "snowflake_shard_nextval_batch(3, 2, $_)") } 'NULL', q{'nonsense'}, q{'twitter'},
		q{'timestamp:41 shard:1 sequence:9'}, q{'timestamp:30 shard:8 sequence:4 tick:1000ms'}, q{'timestamp:30 shard:8 sequence:9'},
		q{'timestamp:41 shard:8 sequence:9 epoch:2199-01-01'}),
	q{snowflake_shard_nextval(5, 'instagram')}, q{snowflake_shard_nextval(NULL, 'instagram')}, q{snowflake_shard_nextval_batch(3, 0, 'instagram')},
	q{snowflake_min_id('1900-01-01')}, q{snowflake_parse('', 'base32')}, q{snowflake_decode(9007199254740992, 'javascript')});

my $seed = rand;
foreach my $name (map { $_->{layout} } @{ $json->{layouts} })
{
	# with a constant layout, the server inlines the reading functions
	my $n = int($random / @{ $json->{layouts} }) + 1;
	is(query($both, qq{
			SET timezone = 'Europe/Berlin';
			SELECT setseed($seed);
			SELECT count(*) FILTER (WHERE l IS DISTINCT FROM p)
			FROM (SELECT ((random() * 2 - 1) * 9223372036854774784)::bigint >> (random() * 63)::integer
					FROM generate_series(1, $n)) r (id),
				LATERAL (SELECT ROW(lib.snowflake_timestamp(id, '$name'), lib.snowflake_node(id, '$name'),
					lib.snowflake_shard(id, '$name'), lib.snowflake_sequence(id, '$name')),
					ROW("The portable".snowflake_timestamp(id, '$name'), "The portable".snowflake_node(id, '$name'),
					"The portable".snowflake_shard(id, '$name'), "The portable".snowflake_sequence(id, '$name'))) f (l, p)}) =~ s/^\n//r,
		'0', "$n random IDs as $name");
}
is(query($both, qq{
		SELECT count(*) FILTER (WHERE lib.snowflake_encode(id, f) IS DISTINCT FROM "The portable".snowflake_encode(id, f)
			OR "The portable".snowflake_parse("The portable".snowflake_encode(id, f), f) <> id)
		FROM (SELECT (random() * 9223372036854774784)::bigint >> (random() * 63)::integer
				FROM generate_series(1, $random / 10)) r (id), unnest('{base32,base58,base62}'::text[]) f}), '0',
	"random IDs as texts");
is(query($both, qq{
		SELECT count(*) FILTER (WHERE lib.snowflake_compose(created_at, node_id, sequence) <> id
			OR "The portable".snowflake_compose(created_at, node_id, sequence) <> id)
		FROM (SELECT (random() * 9223372036854774784)::bigint FROM generate_series(1, $random / 10)) r (id),
			"The portable".snowflake_decode(id)}), '0',
	'... and composed of their fields');
like(query($both, q{SET search_path = "The portable"; EXPLAIN SELECT FROM generate_series(1, 2::bigint) id
		WHERE id >= snowflake_min_id('2025-01-02', 'twitter')}), qr/>= '?\d+/,
	'a bound is a constant to the planner');

query($both, 'CREATE TABLE k (id bigint PRIMARY KEY)');
foreach my $layout ('', ", 'twitter'")
{
	like(query($both, qq{SET search_path = public, "The portable"; SET enable_seqscan = off; SET enable_bitmapscan = off;
		EXPLAIN SELECT FROM k WHERE id >= snowflake_min_id(now()$layout) AND id <= snowflake_max_id('2030-01-02'$layout)}),
		qr/Index Cond: \(\(id >= .*AND \(id <= /, "bounds are a range of the key$layout");
}

# ---- the exchange for the library, and back ----

my %swap = (database => 'swap');
my $there = slurp_file("$top/sql/portable-to-extension.sql");
query($both, 'CREATE DATABASE swap; CREATE ROLE reader');
query($both, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(1), snowflake_set_shards('3')}, %swap);
query($both, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), "the Shard's" bigint DEFAULT ids.snowflake_shard_nextval(3));
	CREATE TABLE l (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval('sonyflake'));
	CREATE TABLE p (id bigint DEFAULT ids.snowflake_nextval(), n integer) PARTITION BY LIST (n);
	CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
	CREATE TABLE p2 (id bigint, n integer);
	ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
	CREATE VIEW v WITH (security_barrier) AS SELECT id, ids.snowflake_timestamp(id) AS at FROM t;
	CREATE VIEW w AS SELECT id, at, ids.snowflake_node(id) AS node FROM v WHERE id >= ids.snowflake_min_id('2025-01-02');
	COMMENT ON VIEW v IS 'it''s mine';
	GRANT SELECT ON w TO reader WITH GRANT OPTION;
	ALTER VIEW w OWNER TO reader; GRANT SELECT ON v TO reader;
	INSERT INTO t SELECT FROM generate_series(1, 1000);
	INSERT INTO l SELECT FROM generate_series(1, 100);
	INSERT INTO p (n) VALUES (1)}, %swap);

# Return defaults and views with their properties, the rows, and one more ID of each
# layout.
sub swapped
{
	return query($both, q{
		SELECT adrelid::regclass, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef f JOIN pg_class c ON c.oid = adrelid
		WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2;
		SELECT relname, pg_get_viewdef(oid), relacl, reloptions, relowner::regrole, obj_description(oid) FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace ORDER BY 1;
		SELECT sum(hashtext(w::text)), count(*) FROM w WHERE id <= (SELECT id FROM t ORDER BY id OFFSET 999 LIMIT 1);
		WITH n AS (INSERT INTO t DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM t), "the Shard's" > (SELECT max("the Shard's") FROM t), ids.snowflake_node(id) FROM n;
		WITH n AS (INSERT INTO l DEFAULT VALUES RETURNING *)
		SELECT id > (SELECT max(id) FROM l), ids.snowflake_node(id, 'sonyflake') FROM n}, %swap);
}
my $was = swapped();
like($was, qr/t\|t\|1\nt\|1\z/, 'portable, before the swap');
query($both, 'CREATE INDEX at ON t (ids.snowflake_timestamp(id, $$twitter$$))', %swap);
refused($both, "SET search_path = ids; $there", '2BP01', qr/cannot keep all objects.*These are neither: index public\.at\./s, 'an index is named', %swap);
query($both, 'DROP INDEX at', %swap);
refused($both, "SET search_path = public; $there", 'P0001', qr/does not begin with the schema/, 'not there', %swap);
# a transaction that has made an ID makes another while the script waits for it
my $open = $both->background_psql('swap');
$open->query_safe('BEGIN; INSERT INTO p (n) VALUES (1)');
my $script = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $both->connstr('swap'),
		'-c', 'SET search_path = ids', '-f', "$top/sql/portable-to-extension.sql" ], '2>', \my $notices);
$both->poll_query_until('swap', 'SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)') or die;
$open->query_safe('INSERT INTO p (n) VALUES (1); INSERT INTO p (n) VALUES (2); COMMIT');
$open->quit;
ok($script->finish, 'the script waits for a transaction, and that not for it') or diag($notices);
like($notices, qr/ALTER TABLE ONLY public\.t ALTER id SET DEFAULT ids\.snowflake_nextval\(\)/, 'it prints what it changes');
is(query($both, 'SELECT extname, extnamespace::regnamespace FROM pg_extension WHERE extname = $$snowflake$$', %swap), 'snowflake|ids', 'the extension is there');
is(query($both, q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace AND proname ~ 'portable'}, %swap), '0', '... and nothing of the functions');
is(swapped(), $was, 'defaults and views are as they were, and IDs go on above');

command_ok([ 'psql', '-XAtq', '-d', $both->connstr('swap'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
is(query($both, 'SELECT count(*) FROM pg_extension WHERE extname = $$snowflake$$', %swap), '0', 'the extension is gone');
is(swapped(), $was, 'defaults and views are as they were, and IDs go on above');

# the position, far ahead of the clock, is carried over in both directions
query($both, q{SELECT ids.snowflake_advance(ids.snowflake_max_id(now() + interval '1 h'), force => true)}, %swap);
query($both, "SET search_path = ids; $there", %swap);
refused($both, "SELECT $_", '58000', qr/behind/, "$_ is refused until the clock is there", %swap)
  foreach 'ids.snowflake_nextval()', 'ids.snowflake_shard_nextval(3)', q{ids.snowflake_nextval('sonyflake')};
command_ok([ 'psql', '-XAtq', '-d', $both->connstr('swap'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
refused($both, "SELECT $_", '58000', qr/behind/, "$_ is refused until the clock is there", %swap)
  foreach 'ids.snowflake_nextval()', 'ids.snowflake_shard_nextval(3)', q{ids.snowflake_nextval('sonyflake')};

# the functions are another role's: none of them runs as who swaps
my %tenant = (database => 'tenant');
query($both, 'CREATE ROLE tenant; CREATE DATABASE tenant');
query($both, qq{CREATE SCHEMA ids AUTHORIZATION tenant; SET ROLE tenant; SET search_path = ids; $install
	SELECT snowflake_set_node(1), snowflake_set_shards('3'); SELECT snowflake_nextval(), snowflake_shard_nextval(3);
	CREATE SEQUENCE caught;
	CREATE OR REPLACE FUNCTION snowflake_portable_layout(layout text) RETURNS snowflake_portable_fields LANGUAGE plpgsql AS \$\$
		BEGIN
			IF current_user <> 'tenant' THEN PERFORM nextval('ids.caught'); END IF;
			RETURN ids.snowflake_portable_node_layout();
		END \$\$;
	ALTER TABLE snowflake_config RENAME TO c;
	CREATE VIEW snowflake_config AS SELECT c.* FROM c, snowflake_portable_layout('twitter')}, %tenant);
refused($both, "SET search_path = ids; $there", 'P0001', qr/is not that of the portable functions/, 'a view in place of the table', %tenant);
query($both, 'DROP VIEW ids.snowflake_config; ALTER TABLE ids.c RENAME TO snowflake_config', %tenant);
my $least = query($both, 'SELECT ids.snowflake_nextval()', %tenant);
query($both, "SET search_path = ids; $there", %tenant);
is(query($both, 'SELECT is_called FROM ids.caught', %tenant), 'f', 'no function of another role runs as who swaps');
cmp_ok(query($both, 'SELECT ids.snowflake_nextval()', %tenant), '>', $least, '... and the position came along');
command_ok([ 'psql', '-XAtq', '-d', $both->connstr('tenant'), '-f', "$top/sql/extension-to-portable.sql" ], 'back');
is(query($both, q{SELECT DISTINCT proowner::regrole FROM pg_proc WHERE pronamespace = 'ids'::regnamespace
	UNION SELECT relowner::regrole FROM pg_class WHERE relnamespace = 'ids'::regnamespace}, %tenant), 'tenant', '... to the owner of the schema');
cmp_ok(query($both, 'SET ROLE tenant; SELECT ids.snowflake_nextval() FROM ids.snowflake_set_node(2)', %tenant), '>', $least, '... who can use them');

# a server with another layout
query($both, 'CREATE DATABASE other');
query($both, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(1, 'javascript')}, database => 'other');
refused($both, "SET search_path = ids; $there", '55000',
	qr/the layout of the node's IDs is another one.*ALTER SYSTEM SET snowflake.layout = 'timestamp:41 node:7 sequence:5 epoch:2024-01-01'/s,
	'another layout is refused', database => 'other');
cmp_ok(query($both, 'SELECT ids.snowflake_nextval()', database => 'other'), '>', 0, '... and nothing has changed');
query($both, "SET search_path = ids; $there SELECT ids.snowflake_nextval()", %tenant);
$both->append_conf('postgresql.conf', q{snowflake.layout = 'timestamp:41 node:9 sequence:13 epoch:2023-01-01'});
$both->restart;
command_fails_like([ 'psql', '-XAtq', '-d', $both->connstr('tenant'), '-f', "$top/sql/extension-to-portable.sql" ],
	qr/ERROR:  \S.*layout.*HINT:  \S.*layout/s, '... and back, too');
is(query($both, 'SELECT extname FROM pg_extension WHERE extname = $$snowflake$$', %tenant), 'snowflake', '... where nothing has changed, either');
$both->stop('immediate');

# ---- no ID twice ----

my $node = plain_server('main', 'wal_level = replica', 'max_prepared_transactions = 2');
start_with_clock($node, '+0');
query($node, "CREATE SCHEMA ids; SET search_path = ids; $install");
refused($node, 'SELECT ids.snowflake_nextval()', '55000',
	qr/node id is not set.*SELECT snowflake_set_node\(1\)/s, 'without a node id, the remedy');
refused($node, 'SELECT * FROM ids.snowflake_shard_nextval_batch(3, 1)', '55000',
	qr/shards are not set.*SELECT snowflake_set_shards/s, '... and for shards');
query($node, 'DROP SCHEMA ids CASCADE');
install_portable($node);
query($node, load_tables());
my @named = qw(pgedge sonyflake);
query($node, "CREATE TABLE $_ (id bigint PRIMARY KEY DEFAULT snowflake_nextval('$_'))") foreach @named;

my $checker = IdChecker->new($node->basedir . '/ids');
my $dir = PostgreSQL::Test::Utils::tempdir();

# A client whose statements end by a timeout now and then, and which connects again
# when its session is ended.
append_to_file("$dir/dying.sql", "SET application_name = 'dying';\n"
	  . join '', map { "SET statement_timeout = $_;\n"
		  . "SELECT snowflake_nextval() FROM generate_series(1, 50);\n"
		  . "INSERT INTO t SELECT FROM generate_series(1, 10) RETURNING id;\n"
		  . "SELECT snowflake_nextval_batch(300);\n" } map { 1 + $_ % 7 } 1 .. 500);

sub start_dying
{
	my ($stop) = @_;
	my $out = $checker->session('main, node');

	append_to_file($out, '');
	return IPC::Run::start([ 'bash', '-c',
			"until [ -e $stop ]; do psql -XAtq -f $dir/dying.sql -d '" . $node->connstr('postgres') . "' >>$out; done" ],
		'2>', "$dir/errors");
}

foreach my $round (1, 2)
{
	my $load = start_load($checker, 'main', $node->connstr('postgres'), 8, undef, undef,
		qw(commit rollback select shard batch single pgedge sonyflake));
	my @dying = map { start_dying("$dir/stop$round") } 1, 2;
	my $ended = 0;
	my $tries = 0;

	$load->more(500);
	until ($tries >= 40 && $ended > 0 && slurp_file("$dir/errors") =~ /statement timeout/ &&
		grep { slurp_file("$_.err") =~ /57014/ } $load->files)
	{
		die 'nobody is interrupted' if ++$tries > 5000;
		query($node, q{
			SELECT pg_cancel_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.4});
		$ended += query($node, q{
			SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'dying' AND random() < 0.1});
	}
	$load->more(2000);
	cmp_ok($ended, '>', 0, "$ended sessions were ended");
	append_to_file("$dir/stop$round", '');
	$node->stop('immediate');
	my $errors = $load->finish;
	$_->finish foreach @dying;
	cmp_ok($errors->{57014} // 0, '>', 0, ($errors->{57014} // 0) . ' statements were cancelled');
	like(slurp_file("$dir/errors"), qr/statement timeout/, '... and others by their timeout');
	start_by_clock($node, SnowflakeTest::clock_file($node));
}
is(query($node, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'ids.snowflake_config'::regclass}), 'f',
	'nobody is left with the lock');
$checker->state('main', $node, 'postgres', 'SELECT id FROM t');
$checker->state('main, shards', $node, 'postgres', 'SELECT id FROM s');
$checker->states;
my %highest;
$checker->clients(\%highest);
$checker->forget;

# a million, also where a tick has room for few
query($node, q{CREATE DATABASE few});
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(5, 'javascript')}, database => 'few');
foreach my $many ([ postgres => 1000000 ], [ few => 40000 ])
{
	my ($database, $n) = @$many;
	my $each = $n / 8;
	query($node, 'CREATE TABLE m (id bigint)', database => $database);
	my @clients = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-c', "INSERT INTO m SELECT $_" ]) }
	  ("ids.snowflake_nextval() FROM generate_series(1, $each)") x 6,
	  ("ids.snowflake_nextval_batch(1000) FROM generate_series(1, $each / 1000)") x 2;
	is(scalar(grep { !$_->finish } @clients), 0, "8 clients have $n IDs");
	is(query($node, 'SELECT count(*), count(DISTINCT id) FROM m', database => $database), "$n|$n", '... no ID twice');
}

# several layouts at a time, in one of them by both functions
query($node, q{CREATE DATABASE layouts});
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5), snowflake_set_shards('3-4');
	CREATE TABLE m (layout text, id bigint)}, database => 'layouts');
my $odd = 'timestamp:40 node:3 sequence:5 tick:7ms epoch:0';
my $shards = 'timestamp:39 sequence:8 shard:4 tick:10ms epoch:2014-09-01';
my @clients = map { IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('layouts'), '-c', $_ ]) }
  (map { "INSERT INTO ids.m SELECT '$_->[0]', $_->[1] FROM generate_series(1, $_->[2])" }
	[ snowflake => 'ids.snowflake_nextval()', 20000 ], [ snowflake => 'ids.snowflake_nextval_batch(1000)', 20 ],
	[ snowflake => q{ids.snowflake_nextval('snowflake')}, 5000 ], [ javascript => q{ids.snowflake_nextval('javascript')}, 5000 ],
	[ javascript => q{ids.snowflake_nextval_batch(100, 'javascript')}, 50 ], [ sonyflake => q{ids.snowflake_nextval('sonyflake')}, 5000 ],
	[ sonyflake => q{ids.snowflake_nextval_batch(500, 'sonyflake')}, 10 ], [ $odd => qq{ids.snowflake_nextval('$odd')}, 2000 ],
	[ instagram => 'ids.snowflake_shard_nextval(3)', 5000 ], [ instagram => q{ids.snowflake_shard_nextval(3, 'instagram')}, 500 ],
	[ $shards => qq{ids.snowflake_shard_nextval(3, '$shards')}, 2000 ], [ $shards => qq{ids.snowflake_shard_nextval_batch(3, 100, '$shards')}, 10 ]);
is(scalar(grep { !$_->finish } @clients), 0, 'clients of several layouts have their IDs');
foreach my $made ([ snowflake => 45000, 5 ], [ javascript => 10000, 5 ], [ sonyflake => 10000, 5 ], [ $odd => 2000, 5 ],
	[ instagram => 5500, 3 ], [ $shards => 3000, 3 ])
{
	my ($layout, $n, $maker) = @$made;
	is(query($node, qq{SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE coalesce(ids.snowflake_shard(id, '$layout'), ids.snowflake_node(id, '$layout')) = $maker
				AND ids.snowflake_timestamp(id, '$layout') BETWEEN now() - interval '10 min' AND now())
			FROM ids.m WHERE layout = '$layout'}, database => 'layouts'), "$n|$n|$n", "... no ID of $layout twice, each with its fields");
}
like(query($node, q{EXPLAIN (VERBOSE) SELECT ids.snowflake_nextval('javascript')}, database => 'layouts'),
	qr/Output: ids\.snowflake_portable_next\('\(.*\)'::.*, '160'::bigint\)/, 'a layout is parsed once for a plan');

# ticks of which neither is a multiple of the other
query($node, q{CREATE DATABASE odd});
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5, 'timestamp:41 node:3 sequence:4 tick:3ms epoch:0')}, database => 'odd');
foreach my $layout ('snowflake', 'sonyflake', 'timestamp:41 node:3 sequence:4 tick:3ms epoch:0', $odd,
	'timestamp:44 node:3 sequence:4 tick:2ms epoch:0', 'timestamp:30 node:3 sequence:16 tick:1000ms epoch:2020-01-01')
{
	is(query($node, qq{CREATE TEMP TABLE o (n serial, id bigint);
			INSERT INTO o (id) SELECT ids.snowflake_nextval('$layout') FROM generate_series(1, 500);
			INSERT INTO o (id) SELECT ids.snowflake_nextval_batch(500, '$layout');
			SELECT count(DISTINCT id) FROM o;
			SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY n) FROM o) s (ascends) WHERE ascends}, database => 'odd'),
		"1000\n999", "IDs ascend where ticks last 3 ms: $layout");
}

# layouts that cannot be had
my %layouts = (database => 'layouts');
foreach my $bad ([ NULL => '22004', qr/layout must not be null/ ], [ q{'nonsense'} => '22023', qr/invalid layout/ ],
	[ q{'timestamp:41 node:10'} => '22023', qr/must have the field "sequence"/ ],
	[ q{'instagram'} => '22023', qr/with the field "shard" makes no IDs/ ],
	[ q{'mastodon'} => '55000', qr/node id 5 does not fit the layout "timestamp:48 sequence:16 .* no field for a node/s ],
	[ q{'timestamp:41 node:2 sequence:12'} => '55000', qr/node id 5 does not fit the layout "timestamp:41 node:2 .* room for node ids 0 to 3\./s ],
	[ q{'timestamp:30 node:10 sequence:12'} => '2200H', qr/reached its last timestamp.*timestamp:30 node:10/s ],
	[ q{'timestamp:41 node:10 sequence:12 epoch:2199-01-01'} => '58000', qr/before the layout's epoch.*epoch:2199/s ],
	[ q{'timestamp:41 node:10 sequence:3 tick:10ms'} => '22023', qr/too few IDs in a tick.*has 8 IDs in 10 ms/s ])
{
	refused($node, "SELECT $_", @$bad[1, 2], "refused: $_", %layouts)
	  foreach "ids.snowflake_nextval($bad->[0])", "ids.snowflake_nextval_batch(3, $bad->[0])";
}
# a layout for each row, and a plan that is older than the node id
is(query($node, q{SELECT count(DISTINCT snowflake_node(snowflake_nextval(name), name)) FROM ids.snowflake_layouts()
		WHERE name IN ('snowflake', 'javascript', 'discord', 'sonyflake')} =~ s/(snowflake_n)/ids.$1/gr, %layouts), '1',
	'a layout from each row');
is(query($node, q{PREPARE next AS SELECT ids.snowflake_node(ids.snowflake_nextval('javascript'), 'javascript');
	EXECUTE next; SELECT FROM ids.snowflake_set_node(6); EXECUTE next}, %layouts) =~ s/\n+/ /gr, '5 6',
	'a plan gets the new node id');
# a column that goes on in the layout of its IDs
my $advance = q{SELECT ids.snowflake_advance(ids.snowflake_max_id(now() + interval '200 ms', 'twitter'), layout => 'twitter') IS NOT NULL};
refused($node, $advance, '22023', qr/would not be above this ID/, 'an ID of a layout that no column has', %layouts);
foreach my $name (qw(twitter timestamp:41_datacenter:5_worker:5_sequence:12_epoch:2010-11-04T01:42:54.657Z))
{
	query($node, q{CREATE TABLE ids.k (id bigint DEFAULT ids.snowflake_nextval('} . $name =~ tr/_/ /r . q{'))}, %layouts);
	is(query($node, $advance, %layouts), 't', "... that a column has: $name");
	query($node, 'DROP TABLE ids.k', %layouts);
}
my $of_shard = 'timestamp:41 shard:13 sequence:10 epoch:2010-01-01';
my $advance_shard = $advance =~ s/twitter/$of_shard/gr;
refused($node, $advance_shard, '22023', qr/would not be above this ID/, 'an ID of a shard, of a layout that no column has', %layouts);
foreach my $call ("3, '$of_shard'", "layout => '$of_shard', shard => 3")
{
	query($node, "CREATE TABLE ids.k (id bigint DEFAULT ids.snowflake_shard_nextval($call))", %layouts);
	is(query($node, $advance_shard, %layouts), 't', "... that a column has: $call");
	query($node, 'DROP TABLE ids.k', %layouts);
}
my $ahead = query($node, q{CREATE TABLE ids.k (id bigint DEFAULT ids.snowflake_nextval('twitter')); SELECT ids.snowflake_max_id(now() + interval '500 ms', 'twitter')}, %layouts);
query($node, "SELECT ids.snowflake_advance($ahead, layout => 'twitter')", %layouts);
cmp_ok(query($node, 'INSERT INTO ids.k DEFAULT VALUES RETURNING id', %layouts), '>', $ahead, '... which then goes on above it');

# a rollback does not return an ID, and no lock is held until it
my $before = query($node, "BEGIN; SELECT snowflake_nextval(); ROLLBACK");
cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', $before, 'a rollback gives nothing back');
check_ids('savepoints, and a prepared transaction', [ split /\n/, query($node, q{BEGIN; SELECT snowflake_nextval();
	SAVEPOINT s; SELECT snowflake_nextval(); SELECT snowflake_nextval_batch(3); ROLLBACK TO s; SELECT snowflake_nextval();
	PREPARE TRANSACTION 'p'; SELECT snowflake_nextval(); ROLLBACK PREPARED 'p'; SELECT snowflake_nextval_batch(3)}) ]);
is(query($node, q{BEGIN; DO 'BEGIN PERFORM ids.snowflake_nextval(); END';
	SELECT count(*) FROM pg_locks WHERE relation = 'ids.snowflake_config'::regclass AND mode = 'ExclusiveLock'}), '0',
	'the lock is free before the transaction ends');

# ---- the clock ----

set_clock($node, '-3600');
my @refused = map { refused($node, "SELECT $_", '58000',
		qr/wall clock is 00:5\d:.* behind the next ID's timestamp.*HINT:  Correct the server's clock\. IDs resume when the clock reaches/s,
		"an hour back: $_ is refused") } 'snowflake_nextval()', q{snowflake_nextval('javascript')}, 'snowflake_nextval_batch(10)', 'snowflake_shard_nextval(3)';
like(query($node, "SELECT status, remedy FROM snowflake_status() WHERE check_name = 'drift'"),
	qr/^error\|Correct the server's clock/, 'the status says so');
set_clock($node, '-1.5');
my $load = start_load($checker, 'main', $node->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
set_clock($node, '+0');
query($node, 'INSERT INTO t DEFAULT VALUES');
$checker->clients(\%highest);
$checker->forget;

# an ID that its client has seen outlives a crash also if another transaction, which is
# lost, has written the position
query($node, 'CREATE DATABASE frozen');
my %frozen = (database => 'frozen');
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install SELECT snowflake_set_node(5)}, %frozen);
query($node, $_) foreach q{ALTER SYSTEM SET wal_writer_delay = '10s'}, 'SELECT pg_reload_conf()';
set_clock($node, '2031-01-02 03:04:05');
query($node, 'SELECT ids.snowflake_nextval()', %frozen);
my $lost = $node->background_psql('frozen');
$lost->query_safe('BEGIN; SELECT ids.snowflake_nextval()');
my $seen = query($node, 'SELECT ids.snowflake_nextval()', %frozen);
is(query($node, "SELECT created_at AT TIME ZONE 'UTC', sequence FROM ids.snowflake_decode($seen)", %frozen), '2031-01-02 03:04:05|2',
	'a third ID of one tick');
$node->stop('immediate');
eval { $lost->quit };
start_by_clock($node, SnowflakeTest::clock_file($node));
cmp_ok(query($node, 'SELECT ids.snowflake_nextval()', %frozen), '>', $seen, '... after a crash, the next one is above it');
query($node, 'ALTER SYSTEM RESET wal_writer_delay');
set_clock($node, '+0');
refused($node, 'SELECT ids.snowflake_nextval()', '58000', qr/behind the next ID/, 'back from there: refused', %frozen);
query($node, 'DROP DATABASE frozen');

# ---- a standby ----

$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
start_with_clock($standby, '+0');
$load = start_load($checker, 'main', $node->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
refused($standby, 'SELECT snowflake_nextval()', '25006', qr/during recovery|read-only transaction/, 'a standby makes no IDs');
is(query($standby, 'SELECT count(snowflake_node(id)) = count(*) FROM t'), 't', 'it reads them');
# a commit flushes what went before; where WAL is inserted next may be behind a page's
# header, which a standby reaches only with the next record
query($node, 'CREATE TABLE committed ()');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
$node->stop('immediate');
set_clock($standby, '-3600');
$standby->promote;
refused($standby, "SELECT $_", '58000', qr/behind the next ID/, "promoted with a clock an hour behind: $_ is refused")
  foreach 'snowflake_nextval()', q{snowflake_nextval('sonyflake')};
set_clock($standby, '+0');
$load = start_load($checker, 'main', $standby->connstr('postgres'), 4, undef, undef,
	qw(commit rollback select shard));
$load->more(500);
$load->finish;
$checker->clients(\%highest);
$checker->state('standby', $standby, 'postgres', 'SELECT id FROM t');
query($standby, "INSERT INTO $_ DEFAULT VALUES") foreach @named;
$checker->states;
$node = $standby;

# ---- a dump ----

my $dump = "$dir/dump.sql";
command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump');
query($node, 'CREATE DATABASE restored');
command_ok([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restored');
is(query($node, q{INSERT INTO t DEFAULT VALUES RETURNING id > (SELECT max(id) FROM t) AND ids.snowflake_node(id) = 5}, database => 'restored'), 't',
	'the copy goes on above, with its node id');
is(query($node, "INSERT INTO $_ DEFAULT VALUES RETURNING id > (SELECT max(id) FROM $_) AND ids.snowflake_node(id, '$_') = 5", database => 'restored'), 't',
	"... also in another layout: $_") foreach @named;
set_clock($node, '-3600');
refused($node, "SELECT $_", '58000', qr/behind/, "the position came along: $_", database => 'restored')
  foreach 'ids.snowflake_nextval()', q{ids.snowflake_nextval('javascript')};
set_clock($node, '+0');

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
	CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO app;
	SET search_path = ids; $install
	SELECT snowflake_set_node(7), snowflake_set_shards('3')}, %guarded);
is(query($node, q{SET ROLE app; SET search_path = ids;
	SELECT (SELECT node_id FROM snowflake_decode(snowflake_nextval())), snowflake_shard(snowflake_shard_nextval(3), 'instagram'),
		(SELECT count(*) FROM snowflake_nextval_batch(10)), (SELECT status FROM snowflake_status() LIMIT 1),
		snowflake_compose('2025-01-02', 7, 5) > 0, snowflake_node(snowflake_nextval('javascript'), 'javascript'),
		(SELECT count(*) FROM snowflake_nextval_batch(40, 'javascript'))}, %guarded), '7|3|10|ok|t|7|40',
	'a role with USAGE on the schema makes and reads IDs');
refused($node, "SET ROLE app; $_", '42501', qr/permission denied/, "... and may not: $_", %guarded)
  foreach q{SELECT setval('ids.snowflake_position', 0)}, q{SELECT nextval('ids.snowflake_position')},
	'BEGIN; LOCK TABLE ids.snowflake_config IN ACCESS EXCLUSIVE MODE', 'BEGIN; LOCK TABLE ids.snowflake_config IN SHARE MODE',
	'UPDATE ids.snowflake_config SET node = 8', 'SELECT ids.snowflake_set_node(8)', q{SELECT ids.snowflake_set_shards('4')},
	'SELECT ids.snowflake_advance(ids.snowflake_nextval())',
	q{SELECT setval('ids.snowflake_limit', 0)}, q{SELECT setval('ids.snowflake_shard_limit', 0)}, q{SELECT setval('ids.snowflake_flush', 0)},
	q{SELECT ids.snowflake_portable_wait('ids.snowflake_limit', ids.snowflake_portable_node_layout(), 1, 1, 1)},
	q{SELECT ids.snowflake_portable_raise('ids.snowflake_position', 'ids.snowflake_limit', ids.snowflake_portable_node_layout(), 1)};
refused($node, q{SELECT nextval('ids.snowflake_shard_limit')}, '2200H', qr/reached maximum/, 'nextval() on a limit fails for everybody', %guarded);
refused($node, q{SELECT ids.snowflake_set_node(7, 'javascript')}, '55000', qr/the layout cannot be changed/, 'another layout is refused', %guarded);
refused($node, q{SELECT ids.snowflake_set_shards('3', 'timestamp:41 shard:12 sequence:11')}, '55000', qr/the layout cannot be changed/, '... for shards, too', %guarded);
refused($node, q{SELECT ids.snowflake_set_node(1024)}, '22023', qr/room for 0 to 1023/, 'a node id that the layout has no room for', %guarded);

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
refused($node, "SET search_path = nowhere; $install", 'P0001', qr/search_path begins with no schema/, 'the script without a schema');

done_testing();
