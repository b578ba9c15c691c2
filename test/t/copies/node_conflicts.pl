# snowflake_node_conflicts() finds IDs in a table that have this server's node,
# although this server cannot have issued them.
#
# takes: 12 s
use SnowflakeTest;
use IdChecker;
use Load;

my $node = start_server('main', "snowflake.shards = '3-4'", "snowflake.node_id = '5'");
query($node, 'CREATE ROLE mallory; ' . load_tables());

# Return the number of IDs found, and the reasons.
sub conflicts
{
	my ($args, %options) = @_;

	return query($options{node} || $node,
		"SELECT count(*), string_agg(DISTINCT reason, ', ') FROM snowflake_node_conflicts($args)");
}

# Insert an ID of a node with a time that is this much after now.
sub insert
{
	my ($table, $of_node, $after) = @_;

	return query($node, qq{
		INSERT INTO $table SELECT snowflake_min_id(clock_timestamp() + interval '$after') + ($of_node << 12) + 7
		RETURNING id});
}

# ---- what is found ----

is(query($node, 'INSERT INTO t SELECT FROM generate_series(1, 1000); SELECT count(*) FROM snowflake_node_conflicts(\'t\')'),
	'0', 'nothing of our own');
query($node, 'CREATE TABLE u (id bigint)');
insert('u', 6, '1 day');
insert('u', 5, '-1 day');
query($node, 'INSERT INTO u VALUES (-1), (NULL), (0), (9223372036854775807)');
is(conflicts(q{'u'}), '0|', 'nor of another node, nor what is below the last ID, which may be ours');
my $future = insert('u', 5, '1 day');
is(query($node, q{SELECT id, created_at > now() + interval '23 hours', reason FROM snowflake_node_conflicts('u')}),
	"$future|t|its time has not come yet", 'one of our node, a day ahead');
insert('u', 5, "$_ days") foreach (2 .. 5);
is(conflicts(q{'u'}), '5|its time has not come yet', 'and others');
is(query($node, q{SELECT array_agg(id ORDER BY id) = (SELECT array_agg(id ORDER BY id)
		FROM (SELECT id FROM u WHERE id < 9223372036854775807 AND id IS NOT NULL AND snowflake_node(id) = 5 ORDER BY id DESC LIMIT 2) x)
	FROM snowflake_node_conflicts('u', 'id', 2)}), 't', 'no more than are wanted: the highest');

# an ID of this moment; this server has made no ID since
query($node, 'TRUNCATE u');
my $present = query($node, q{
	INSERT INTO u SELECT snowflake_max_id(snowflake_timestamp(snowflake_nextval())) RETURNING id});
is(query($node, "SELECT snowflake_node($present)"), 1023, 'an ID of the same tick, of another node');
is(conflicts(q{'u'}), '0|', 'is none of ours');
$present = query($node, q{
	INSERT INTO u SELECT (i >> 22 << 22) + (5 << 12) + 4095 FROM snowflake_nextval() i RETURNING id});
is(query($node, q{SELECT id, reason FROM snowflake_node_conflicts('u')}),
	"$present|it is above the last one issued here", 'the same tick, a higher sequence');
query($node, 'SELECT pg_sleep(0.01); SELECT snowflake_nextval()');
is(conflicts(q{'u'}), '0|', 'once we have made later ones, nobody can tell');

# keys of another layout, which the default of the column names
query($node, q{CREATE TABLE js (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'));
	INSERT INTO js SELECT FROM generate_series(1, 1000)});
is(conflicts(q{'js'}), '0|', 'another layout: nothing of our own');
my $js = q{INSERT INTO js SELECT snowflake_min_id(clock_timestamp() + interval '1 day', 'javascript') + (%d << 5) RETURNING id};
query($node, sprintf($js, 6));
is(conflicts(q{'js'}), '0|', 'another layout: nor of another node');
$future = query($node, sprintf($js, 5));
is(query($node, q{SELECT id, created_at > now() + interval '23 hours', reason FROM snowflake_node_conflicts('js')}),
	"$future|t|its time has not come yet", 'another layout: one of our node');
query($node, q{INSERT INTO js SELECT snowflake_nextval('javascript') + 1});
is(conflicts(q{'js'}), '2|it is above the last one issued here, its time has not come yet',
	'another layout: the last one that was issued in it counts');
query($node, "DELETE FROM js WHERE id = $future; INSERT INTO js DEFAULT VALUES");

# IDs that are made during the call are not reported
{
	my $checker = IdChecker->new($node->basedir . '/ids');
	my $load = start_load($checker, 'load', $node->connstr('postgres'), 8);

	$load->more(1000);
	my ($status, undef, $err) = $node->psql('postgres', q{
		DO $$
		DECLARE
			found bigint := 0;
		BEGIN
			FOR i IN 1 .. 2000 LOOP
				found := found + (SELECT count(*) FROM snowflake_node_conflicts('t'));
				COMMIT;
			END LOOP;
			IF found > 0 THEN
				RAISE 'found %', found;
			END IF;
		END $$});
	is($status, 0, 'nothing of our own under load') or diag($err);
	$load->finish;
}

# ---- all kinds of relations ----

my @names = ('"Odd ""schema"', q{"Tab ' le"}, '"I;d"');
query($node, qq{
	CREATE SCHEMA $names[0];
	CREATE DOMAIN key AS bigint;
	CREATE TABLE $names[0].$names[1] (id text, dropped bigint, $names[2] key) PARTITION BY RANGE ($names[2]);
	ALTER TABLE $names[0].$names[1] DROP COLUMN dropped;
	CREATE TABLE $names[0].part PARTITION OF $names[0].$names[1] DEFAULT;
	CREATE TABLE w (id bigint);
	CREATE VIEW v AS SELECT * FROM w;
	CREATE MATERIALIZED VIEW m AS SELECT * FROM w WITH NO DATA;
	CREATE MATERIALIZED VIEW unfilled AS SELECT * FROM w WITH NO DATA;
	CREATE INDEX i ON w (id);
});
query($node, qq{INSERT INTO $names[0].$names[1] ($names[2])
	SELECT snowflake_min_id(now() + interval '1 day') + (5 << 12)});
my $relation = q{'"Odd ""schema"."Tab '' le"'};
is(conflicts(qq{$relation, 'I;d'}), '1|its time has not come yet', 'a partitioned table with odd names');
insert('w', 5, '1 day');
query($node, 'REFRESH MATERIALIZED VIEW m');
is(conflicts(q{'m'}), '1|its time has not come yet', 'a materialized view');
query($node, q{CREATE TABLE child () INHERITS (w);
	INSERT INTO child SELECT snowflake_min_id(now() + interval '2 days') + (5 << 12) + n FROM generate_series(0, 199) n});
is(query($node, q{SELECT count(*), array_agg(id) = (SELECT array_agg(id) FROM
	(SELECT id FROM w ORDER BY id DESC LIMIT 150) h) FROM snowflake_node_conflicts('w', 'id', 150)}), '150|t',
	'the highest first, of children without an index, too');
query($node, 'CREATE INDEX ON child (id DESC)');
is(query($node, q{SELECT count(*), array_agg(id) = (SELECT array_agg(id) FROM
	(SELECT id FROM w ORDER BY id DESC LIMIT 150) h) FROM snowflake_node_conflicts('w', 'id', 150)}), '150|t',
	'and with one that sorts the other way');
query($node, 'DROP TABLE child');

# ---- what is refused ----

foreach my $bad (
	[ q{'w', 'no'}, '42703', qr/column "no" of relation "w" does not exist/ ],
	[ q{'w', 'ctid'}, '42703', qr/column "ctid"/ ],
	[ qq{$relation, 'dropped'}, '42703', qr/column "dropped"/ ],
	[ qq{$relation}, '42804', qr/column "id" of relation "Tab ' le" is not of type bigint or snowflake/ ],
	[ q{'i'}, '42809', qr/"i" is not a table/ ],
	[ q{'v'}, '42809', qr/"v" is not a table.*\n.*name the table that it reads/ ],
	[ q{'unfilled'}, '55000', qr/materialized view "unfilled" has not been populated.*HINT:  Use the REFRESH MATERIALIZED VIEW command\./s ],
	[ q{'snowflake_state.snowflake_mark', 'last_value'}, '42809', qr/"snowflake_mark" is not a table/ ],
	[ q{'1'::regclass}, '42P01', qr/relation with OID 1 does not exist/ ],
	[ q{NULL}, '22004', qr/must not be null/ ],
	[ q{'w', NULL}, '22004', qr/must not be null/ ],
	[ q{'w', 'id', NULL}, '22004', qr/must not be null/ ],
	[ q{'w', 'id', 0}, '22023', qr/max_rows must be at least 1/ ])
{
	my ($args, $sqlstate, $pattern) = @$bad;

	refused($node, "SELECT * FROM snowflake_node_conflicts($args)", $sqlstate, $pattern, "($args) is refused");
}
query($node, 'REFRESH MATERIALIZED VIEW unfilled');
is(query($node, q{SELECT count(*) FROM snowflake_node_conflicts('unfilled')}), '1', 'a materialized view, once it has been populated');
refused($node, q{BEGIN READ ONLY; SELECT * FROM snowflake_node_conflicts('w')}, '25006',
	qr/read-only transaction/, 'a read-only transaction');

# ---- with the caller's rights ----

my $mallory = 'SET SESSION AUTHORIZATION mallory;';
refused($node, "$mallory SELECT * FROM snowflake_node_conflicts('w')", '42501',
	qr/permission denied for table w/, 'who may not read the table');
query($node, 'GRANT SELECT (id) ON w TO mallory');
is(query($node, "$mallory SELECT count(*) FROM snowflake_node_conflicts('w')"), '1', 'who may read the column');
query($node, q{
	GRANT SELECT ON w TO mallory;
	ALTER TABLE w ENABLE ROW LEVEL SECURITY;
	CREATE POLICY p ON w USING (id < 0)});
refused($node, "$mallory SELECT count(*) FROM snowflake_node_conflicts('w')", '42501',
	qr/row-level security of table "w" applies/, 'row security counts');
is(conflicts(q{'w'}), '1|its time has not come yet', 'as it does for others');
query($node, 'CREATE SCHEMA closed; CREATE TABLE closed.w (id bigint); GRANT SELECT ON closed.w TO mallory');
my $closed = query($node, q{SELECT 'closed.w'::regclass::oid});
refused($node, "$mallory SELECT * FROM snowflake_node_conflicts($closed)", '42501',
	qr/permission denied for schema closed/, 'a schema that he may not use');
is(query($node, q{
	CREATE SCHEMA trap;
	CREATE FUNCTION trap.trap(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE FUNCTION trap.trap2(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RAISE 'trapped'; END$$;
	CREATE OPERATOR trap.>= (FUNCTION = trap.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR trap.= (FUNCTION = trap.trap, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE OPERATOR trap.& (FUNCTION = trap.trap2, LEFTARG = bigint, RIGHTARG = bigint);
	CREATE TABLE trap.w (id bigint);
	SET search_path = trap, pg_catalog, public;
	SELECT count(*) OPERATOR(pg_catalog.+) 0 FROM snowflake_node_conflicts('public.w')}), '1', 'with traps in search_path');

# ---- other servers ----

# after a restart, IDs below the mark may be ours
my $last = query($node, 'INSERT INTO t DEFAULT VALUES RETURNING id');
$node->stop('immediate');
$node->start;
is(conflicts(q{'t'}), '0|', 'nothing of our own after a crash');
is(conflicts(q{'js'}), '0|', 'nor in a layout that is not in use yet');
query($node, sprintf($js, 5));
is(conflicts(q{'js'}), '1|its time has not come yet', 'where one of our node is found');

my $standby = standby_of($node, 'standby');
$standby->start;
refused($standby, q{SELECT * FROM snowflake_node_conflicts('t')}, '25006', qr/during recovery/,
	'a standby cannot know');
$standby->stop;
$node->stop;

# the node's bits are elsewhere in the ID, or there are none
foreach my $case (
	[ 'sonyflake', 5, 65535 ],
	[ 'timestamp:41 datacenter:3 sequence:12 worker:7', 5, 1023 ],
	[ 'mastodon', 0, 0 ])
{
	my ($layout, $mine, $other) = @$case;
	my $server = start_server($layout =~ s/\W.*//r, "snowflake.layout = '$layout'", "snowflake.node_id = '$mine'");
	query($server, q{
		CREATE TABLE t (id bigint DEFAULT snowflake_nextval());
		INSERT INTO t SELECT FROM generate_series(1, 10);
		INSERT INTO t SELECT id + (snowflake_min_id(now() + interval '1 day') - snowflake_min_id(now())) FROM t;
		INSERT INTO t VALUES (snowflake_max_id(now() + interval '1 day'))});
	is(query($server, q{SELECT count(*) FROM t}), '21', "$layout: IDs");
	is(conflicts(q{'t'}, node => $server), ($other == 0 ? '11' : '10') . '|its time has not come yet',
		"$layout: those of our node are found");
	$server->stop;
}

# ---- two servers that have run with one number ----

# The script of doc/incident.md, here with two databases of one server.
my ($compare) = slurp_file("$root/doc/incident.md") =~ /node_conflicts\.pl -->\n```sh\n(.*?)```/s;
my $dir = PostgreSQL::Test::Utils::tempdir();

$compare =~ s/-h \$host -d app -U owner/'-h ' . $node->host . ' -p ' . $node->port . ' -d $host'/e or die 'another script';
$compare =~ s/2026-11-23 03:00\+00/2024-01-01 00:00+00/;

# Run the script, and return what it prints.
sub compare_rows
{
	return scalar qx(cd $dir && bash <<'END' 2>&1\n$compare\nEND\n);
}

$node->start;
foreach my $database ('a', 'b')
{
	query($node, "CREATE DATABASE $database");
	query($node, q{CREATE EXTENSION snowflake; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
		CREATE TABLE lines (order_id bigint REFERENCES orders); INSERT INTO orders SELECT FROM generate_series(1, 100)},
		database => $database);
}
my @twice = split /\n/, query($node, 'INSERT INTO orders SELECT FROM generate_series(1, 3) RETURNING id', database => 'a');
query($node, 'INSERT INTO orders VALUES (' . join('), (', @twice) . ')', database => 'b');
query($node, "INSERT INTO lines VALUES ($twice[0]), ($twice[2])", database => 'b');
my $answer = compare_rows();
like($answer, qr/^ *103 ids\.a\n *103 ids\.b\n *206 total\n$twice[0]\n$twice[1]\n$twice[2]\n\z/, 'the script prints what was issued twice');
query($node, "SELECT * FROM snowflake_renumber('orders'::regclass, 'id'::name, '$twice[0]'::bigint, '$twice[2]'::bigint, false)", database => 'b');
$answer = compare_rows();
like($answer, qr/206 total\n\z/, 'and nothing after the rows of one have new IDs');
is(query($node, 'SELECT count(*) FROM lines JOIN orders ON id = order_id', database => 'b'), '2', 'which what refers to them has, too');
query($node, 'ALTER TABLE orders RENAME TO gone', database => 'b');
$answer = compare_rows();
isnt($?, 0, 'where a table cannot be read, the script fails');
unlike($answer, qr/total/, 'and compares nothing');

done_testing();
