# The portable functions give the same answers as the library. Single cases: layouts, the
# clock, a crash and a dump.
#
# takes: 45 s
use SnowflakeTest;
use JSON::PP qw(decode_json);
use List::Util qw(shuffle sum0);

my $install = slurp_file("$root/sql/portable.sql");
my $random = $ENV{SNOWFLAKE_RANDOM_IDS} // 20000;

# ---- the same answers, with the library in another schema ----

my $both = new_server('both', "snowflake.shards = '3'");
$both->start;
query($both, q{CREATE SCHEMA lib; CREATE SCHEMA "The portable";
	CREATE EXTENSION snowflake SCHEMA lib});
query($both, qq{SET search_path = "The portable"; $install
	SELECT snowflake_set_node(1), snowflake_set_shards('3')});

# Check that the functions of both schemas give the same answers. Errors count as their
# SQLSTATE and message. In this time zone the name UTC is UTC-3, since 18.
sub both_say
{
	my ($name, $code, @calls) = @_;
	my @said;

	foreach my $schema ('lib', '"The portable"')
	{
		my $list = join ', ', map { '$call$' . $_ . '$call$' } @calls;
		push @said, [ split /\n/, query($both, qq{
			SET timezone = 'UTC+3'; SET search_path = $schema;
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

my $json = decode_json(slurp_file("$root/examples/vectors.json"));
my %layout = map { $_->{name} => $_->{layout} } @{ $json->{layouts} };
both_say('published IDs and vectors', qr/2016-04-30 08:18:25.796-03/, map {
	my $args = "$_->{id}, '$layout{ $_->{layout} }'";
	my $time = "'$_->{time}', '$layout{ $_->{layout} }'";
	map { "snowflake_$_" } "decode($args)", "timestamp($args)", "node($args)", "shard($args)",
	  "sequence($args)", "min_id($time)", "max_id($time)"
} @{ $json->{vectors} });

# each text of a layout in the regression tests, and each refusal
my $tests = join '', map { slurp_file("$root/test/sql/$_.sql") } qw(layouts decode compose text);
my %calls = map { $_ => 1 } $tests =~ /^SELECT (snowflake_(?:timestamp|decode|min_id|max_id|compose|encode|parse)\((?:[^()]|\([^()]*\))*\));$/mg;
cmp_ok(scalar(keys %calls), '>', 40, 'calls of the regression tests');
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
	'snowflake_advance(9223372036854775807, NULL, true)', q{snowflake_advance(snowflake_min_id(now() + interval '2 days'))},
	q{snowflake_advance(snowflake_min_id(now(), 'twitter'), layout => 'twitter')},
	(map { ("snowflake_nextval($_)", "snowflake_nextval_batch(2, $_)") } 'NULL', q{''}, q{'nonsense'}, q{'instagram'},
		q{'timestamp:41 node:10'}, q{'mastodon'}, q{'timestamp:30 node:10 sequence:12'},
		q{'timestamp:41 node:10 sequence:12 epoch:2199-01-01'}),
	q{snowflake_nextval_batch(0, 'javascript')}, q{snowflake_nextval_batch(NULL, 'javascript')},
	q{snowflake_min_id('1900-01-01')}, q{snowflake_parse('', 'base32')}, q{snowflake_decode(9007199254740992, 'javascript')});

# The layouts of the vectors, and random ones: fields in any order and of any width.
sub random_layout
{
	my @node = ([], ['node'], ['datacenter', 'worker'], ['worker', 'process'], ['process', 'datacenter', 'worker'])[ int rand 5 ]->@*;
	my @fields = shuffle(@node, 'sequence', rand() < 0.4 ? 'shard' : ());
	my $tick = (1, 3, 7, 10, 1000)[ int rand 5 ];
	my $left = 63 - (my $bits = 28 + int rand 14);
	my $text = "timestamp:$bits";

	foreach my $field (@fields)
	{
		$left -= $bits = 1 + int rand($left / @fields < 9 ? $left / @fields : 9);
		$text .= " $field:$bits";
	}
	return "$text tick:${tick}ms epoch:" . (0, 1704066000000)[ int rand 2 ];
}

# Fields that are zero, the largest, in between, and one too large, each in a tick of the
# layout's life; the ID that they make, and what is read from it.
sub calls_of_layout
{
	my ($text) = @_;
	my %bits = $text =~ /(\w+):(\d+)(?= |$)/g;
	my $node = sum0(@bits{ grep { $bits{$_} } qw(node datacenter worker process) });
	my $shard = $bits{shard} // 0;
	my $low = $node + $shard + $bits{sequence};
	my $life = $bits{timestamp} - ($bits{timestamp} + $low > 63);
	my @widths = ($node || $shard, $bits{sequence}, $node ? $shard : 0);
	my @values = ([ 0, 0, 0 ], [ map { 2**$_ - 1 } @widths ], map { [ map { int rand 2**$_ } @widths ] } 1 .. 3);

	push @values, map { my $n = $_; [ map { $_ == $n ? 2**$widths[$_] : 0 } 0 .. 2 ] } 0 .. 2;
	return map {
		my ($node_id, $sequence, $shard_id) = map { sprintf '%d', $_ } @$_;
		my $tick = sprintf '%d', rand 2**($life > 45 ? 45 : $life);
		my $id = "snowflake_compose(snowflake_timestamp(${tick}::bigint << $low, '$text'), '$node_id'::integer, $sequence, '$text', '$shard_id'::integer)";

		($id, map { "snowflake_$_($id, '$text')" } qw(decode timestamp node shard sequence))
	} @values;
}
my @layouts = split /\n/, query($both, q{SELECT layout FROM lib.snowflake_layouts() WHERE NOT configured});
cmp_ok(scalar(@layouts), '>=', 8, 'all presets are tried');
push @layouts, grep { /:/ } map { $_->{layout} } @{ $json->{layouts} };
push @layouts, map { random_layout() } 1 .. 40;
both_say('composed, and read', qr/22003: .*out of range/, map { calls_of_layout($_) } @layouts);
both_say('one ID of them', qr/^3536267851839050755$/, q{snowflake_compose('2025-01-02Z', 5, 3, 'instagram', 0)});

# long texts, as a URL may be: what reads them in quadratic time does not end
my @long = map { "repeat('$_', 200000 / length('$_'))" } 'a', 'Z', '0', ' ', 'epoch:0 ', 'timestamp:41 ', ':';
both_say('long texts', qr/22P02.*22003/s, map {
	my $text = $_;
	((map { ("snowflake_parse($text, '$_')", "snowflake_parse($text || '!', '$_')") } qw(base32 base58 base62)),
		(map { "snowflake_timestamp(1, '$_' || $text)" } '', 'timestamp:41 sequence:12 epoch:', 'timestamp:41 sequence:12 tick:'),
		"snowflake_encode(1, $text)")
} @long);

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

$both->stop;

# ---- without the library ----

my $node = new_server('main', "shared_preload_libraries = ''", 'max_prepared_transactions = 2');
start_with_clock($node, '+0');
query($node, "CREATE SCHEMA ids; SET search_path = ids; $install");
refused($node, 'SELECT ids.snowflake_nextval()', '55000',
	qr/node id is not set.*HINT:  As the owner of the functions: SELECT \w+\.snowflake_set_node\(1\); with another number on each server\./s, 'without a node id, the remedy');
refused($node, 'SELECT * FROM ids.snowflake_shard_nextval_batch(3, 1)', '55000',
	qr/shards are not set.*HINT:  As the owner of the functions: SELECT \w+\.snowflake_set_shards\('0-4095'\); with other shards on each server\./s, '... and for shards');
query($node, "CREATE FUNCTION begun() RETURNS bigint LANGUAGE plpgsql AS \$\$@{[query($node, q{SELECT prosrc FROM pg_proc WHERE oid = 'ids.snowflake_shard_nextval'::regproc})]}\$\$");
like(query($node, q{SET search_path = ids; SELECT snowflake_set_shards('0-4095'); SELECT snowflake_shard_nextval(3)}), qr/^\d+$/m, '... which help');
refused($node, 'SELECT begun()', '55000', qr/layout was changed meanwhile\n.*HINT:  Call again\./s, '... except for a call that has begun before');
query($node, 'DROP SCHEMA ids, ids_portable_state CASCADE');
query($node, qq{CREATE SCHEMA ids; ALTER DATABASE postgres SET search_path = public, ids;
	SET search_path = ids; $install SELECT snowflake_set_node(5), snowflake_set_shards('3-4')});
query($node, 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO t DEFAULT VALUES');
my @named = qw(pgedge sonyflake);
query($node, "CREATE TABLE $_ (id bigint PRIMARY KEY DEFAULT snowflake_nextval('$_')); INSERT INTO $_ DEFAULT VALUES") foreach @named;

# ticks of which neither is a multiple of the other
my $odd = 'timestamp:40 node:3 sequence:5 tick:7ms epoch:0';
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
		"1000\n999", "where ticks last longer, IDs ascend, none twice: $layout");
}

# layouts that cannot be had
my %layouts = (database => 'layouts');
query($node, 'CREATE DATABASE layouts');
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5), snowflake_set_shards('3-4')}, %layouts);
like(query($node, q{EXPLAIN (VERBOSE) SELECT ids.snowflake_nextval('javascript')}, %layouts),
	qr/Output: ids\.snowflake_portable_next\('\(.*\)'::.*, '160'::bigint\)/, 'a layout is parsed once for a plan');
foreach my $bad ([ NULL => '22004', qr/layout must not be null/ ], [ q{'nonsense'} => '22023', qr/invalid layout/ ],
	[ q{'timestamp:41 node:10'} => '22023', qr/must have the field "sequence"/ ],
	[ q{'instagram'} => '22023', qr/with the field "shard" makes no IDs.*HINT:  Set it by snowflake_set_shards\(\), and call snowflake_shard_nextval\(\)\./s ],
	[ q{'mastodon'} => '55000', qr/node id 5 does not fit the layout "timestamp:48 sequence:16 .* no field for a node/s ],
	[ q{'timestamp:41 node:2 sequence:12'} => '55000', qr/node id 5 does not fit the layout "timestamp:41 node:2 .* room for node ids 0 to 3\..*HINT:  Name a layout with room for it, or give this server a smaller node id\./s ],
	[ q{'timestamp:30 node:10 sequence:12'} => '2200H', qr/reached its last timestamp.*timestamp:30 node:10.*HINT:  Check the server's clock\./s ],
	[ q{'timestamp:41 node:10 sequence:12 epoch:2199-01-01'} => '58000', qr/before the layout's epoch.*epoch:2199/s ],
	[ q{'timestamp:41 node:10 sequence:3 tick:10ms'} => '22023', qr/too few IDs in a tick.*has 8 IDs in 10 ms/s ])
{
	refused($node, "SELECT $_", @$bad[1, 2], "refused: $_", %layouts)
	  foreach "ids.snowflake_nextval($bad->[0])", "ids.snowflake_nextval_batch(3, $bad->[0])";
}
refused($node, 'SELECT ids.snowflake_shard_nextval(9)', '55000',
	qr/may not issue IDs for shard 9\n.*HINT:  If no other server has the shard, have the owner of the functions add it by snowflake_set_shards\(\)\./s,
	'a shard of another server', %layouts);
refused($node, q{SELECT ids.snowflake_advance(1::bigint << 60, 'javascript')}, '22003',
	qr/does not fit the layout.*HINT:  Name the layout that the ID was made with: SELECT \* FROM \w+\.snowflake_layouts\(\);/s,
	'an ID of another layout', %layouts);
refused($node, 'SELECT ids.snowflake_advance(9223372036854775807)', '22003',
	qr/no ID would be left to issue.*HINT:  Check the ID\. If it is one of another layout, name that: snowflake_advance\(id, layout => \.\.\.\)\./s,
	'the last ID', %layouts);
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
	query($node, q{CREATE TABLE ids.k (id bigint DEFAULT ids.snowflake_nextval(layout => '} . $name =~ tr/_/ /r . q{'))}, %layouts);
	is(query($node, "SET quote_all_identifiers = $_; $advance", %layouts) =~ s/^\n//r, 't', "... that a column has, names quoted: $_: $name") foreach 'on', 'off';
	query($node, 'DROP TABLE ids.k', %layouts);
}
refused($node, $advance =~ s/twitter/timestamp:41 shard:13 sequence:10 epoch:2010-01-01/gr, '22023',
	qr/would not be above this ID/, 'an ID of a shard, of another layout', %layouts);
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
	SELECT count(*) FROM pg_locks WHERE relation = 'ids_portable_state.snowflake_config'::regclass AND mode = 'ExclusiveLock'}), '0',
	'the lock is free before the transaction ends');

# ---- the clock ----

query($node, 'SELECT snowflake_shard_nextval(3)');
set_clock($node, '-3600');
my @refused = map { refused($node, "SELECT $_", '58000',
		qr/wall clock is 00:5\d:.* behind the next ID's timestamp.*HINT:  Correct the server's clock\. IDs resume when the clock reaches/s,
		"an hour back: $_ is refused") } 'snowflake_nextval()', q{snowflake_nextval('javascript')}, 'snowflake_nextval_batch(10)', 'snowflake_shard_nextval(3)';
like(query($node, "SELECT status, remedy FROM snowflake_status() WHERE check_name = 'drift'"),
	qr/^error\|Correct the server's clock/, 'the status says so');
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

# ---- a dump ----

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
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

$node->stop;
done_testing();
