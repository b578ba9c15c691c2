# Feeds: what the horizon is after each step of a few transactions. A reader that uses
# it sees each committed row once and in order.
#
# takes: 30 s
use SnowflakeTest;

my $node = new_server('main', "snowflake.shards = '0-49'",
	'max_prepared_transactions = 40', 'synchronous_commit = off',
	'wal_level = logical', 'autovacuum = off',
	# who sets synchronous_commit waits for ever
	"synchronous_standby_names = 'nobody'");
start_with_clock($node, '+0');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
	CREATE TABLE s (id bigint PRIMARY KEY, c int);
	-- other layouts: one with ticks of 1 ms, and one with ticks of 10 ms
	CREATE TABLE j (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'), c int);
	CREATE TABLE y (id bigint PRIMARY KEY DEFAULT snowflake_nextval('sonyflake'), c int);
	CREATE TABLE other (c int);
});

# The rows of t that a feed delivers now, by their column c.
my $feed = 'SELECT string_agg(c::text, \' \' ORDER BY id) FROM t WHERE id < snowflake_horizon()';
# Take a snapshot, before the feed is read.
my $look = 'SELECT count(*) >= 0 FROM t';

sub session
{
	return $node->background_psql($_[0] || 'postgres');
}

sub insert
{
	my ($c) = @_;

	return "INSERT INTO t (c) VALUES ($c)";
}

# Begin with an empty table.
sub anew
{
	query($node, 'TRUNCATE t, s, j, y');
	return;
}

# Check which rows a feed delivers in this session, or in a new one.
sub delivers
{
	my ($in, $expected, $name) = @_;
	my $got = ref $in ? $in->query_safe($feed) : query($node, $feed);

	is($got // '', $expected, $name);
	return;
}

my ($a, $b, $c) = map { session() } 1 .. 3;

anew();
query($node, insert(1));
delivers(undef, '1', 'an idle system delivers its last row');

$a->query_safe('BEGIN; ' . insert(2));
query($node, insert(3));
delivers(undef, '1', 'who is idle in transaction holds back what is later');
delivers($a, '1', '... for himself as well');
$a->query_safe('COMMIT');
delivers(undef, '1 2 3', '... until he ends');
$a->query_safe('BEGIN; ' . insert(4) . '; ROLLBACK');
delivers(undef, '1 2 3', 'a transaction that was rolled back holds nothing');

anew();
$a->query_safe('BEGIN; SELECT snowflake_nextval()');
query($node, insert(1));
delivers(undef, '', 'the transaction ID may come after the ID');
$a->query_safe('INSERT INTO t VALUES (snowflake_currval(), 0); COMMIT');
delivers(undef, '0 1', '... and then the row is delivered');

anew();
$a->query_safe('BEGIN; SAVEPOINT a; ' . insert(0)
	  . '; ROLLBACK TO a; SAVEPOINT b; ' . insert(1) . '; RELEASE b');
query($node, insert(2));
delivers(undef, '', 'subtransactions end with their transaction');
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
$a->query_safe('COMMIT');
delivers($b, '', '... also for a snapshot taken before');
$b->query_safe('COMMIT');
delivers($b, '1 2', '... and not after');

# snapshots that were taken before a transaction ended
foreach my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	anew();
	query($node, insert(1));
	$a->query_safe('BEGIN; ' . insert(2));
	$b->query_safe("BEGIN ISOLATION LEVEL $level; $look");
	query($node, insert(3));
	$a->query_safe('COMMIT');
	query($node, insert(4));
	delivers($b, '1', "$level: the horizon is the snapshot's");
	my $exported = $b->query_safe('SELECT pg_export_snapshot()');
	$c->query_safe("BEGIN ISOLATION LEVEL $level READ ONLY; SET TRANSACTION SNAPSHOT '$exported'");
	delivers($c, '1', '... also where it was exported to');
	$c->query_safe('COMMIT');
	delivers(undef, '1 2 3 4', '... and others have theirs');
	$b->query_safe('COMMIT');
	delivers($b, '1 2 3 4', '... as it has in its next transaction');
}

# a session that fills its ring while no snapshot is old
anew();
$a->query_safe(insert($_)) foreach 1 .. 40;
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
$a->query_safe(insert(41));
$a->query_safe(insert(42));
is($b->query_safe('SELECT snowflake_horizon()') <=
	  query($node, 'SELECT id FROM t WHERE c = 41'),
	1, 'each transaction since the snapshot holds it back, not only the last');
$b->query_safe('COMMIT');

# one statement has one horizon, and so has one snapshot
$a->query_safe('BEGIN; SELECT snowflake_nextval()');
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
my $held = $b->query_safe('SELECT snowflake_horizon()');
$a->query_safe('ROLLBACK');
is($b->query_safe('SELECT snowflake_horizon()'), $held,
	'a snapshot that asks again gets the same answer');
$b->query_safe('COMMIT');
cmp_ok(query($node, 'SELECT snowflake_horizon()'), '>', $held,
	'... and another one a later');

# a horizon that a cursor holds stays, however many others are computed
$a->query_safe('BEGIN; SELECT snowflake_nextval(), snowflake_shard_nextval(5)');
$b->query_safe('BEGIN; DECLARE held CURSOR FOR
	SELECT snowflake_horizon(), snowflake_shard_horizon(5)
	FROM generate_series(1, 2)');
$held = $b->query_safe('FETCH held');
$a->query_safe('ROLLBACK');
foreach (1 .. 40)
{
	$c->query_safe('INSERT INTO other VALUES (1)');
	$b->query_safe('SELECT snowflake_horizon(), snowflake_shard_horizon(5)');
}
my ($node_horizon, $shard_horizon) = split /\|/, $held;
is($b->query_safe("SELECT snowflake_horizon() > $node_horizon,
		snowflake_shard_horizon(5) > $shard_horizon"),
	't|t', 'snapshots later in a transaction get later answers');
is($b->query_safe('FETCH held'), $held, '... and a cursor the one it had');
$b->query_safe('COMMIT');

my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
is(query($node, qq{
		SET $force = on;
		SELECT count(*) FROM t WHERE id < snowflake_horizon()}),
	query($node, 'SELECT count(*) FROM t'), 'in a parallel query');
query($node, q{CREATE FUNCTION wrong() RETURNS bigint LANGUAGE sql PARALLEL SAFE
	AS 'SELECT snowflake_nextval()'});
refused($node, qq{
		SET $force = on; SET max_parallel_workers_per_gather = 2;
		SELECT wrong()},
	'25000', qr/cannot make IDs in a parallel worker.*PARALLEL RESTRICTED/s,
	'a worker makes no IDs behind the back of its leader');

# a backend that is terminated in the middle of its transaction
anew();
$c->query_safe('BEGIN; ' . insert(1));
query($node, insert(2));
delivers(undef, '', 'a transaction in a session');
my $pid = $c->query_safe('SELECT pg_backend_pid()');
query($node, "SELECT pg_terminate_backend($pid, 60000)");
delivers(undef, '2', '... that is terminated');
eval { $c->quit };
$c = session();

# other databases
query($node, 'CREATE DATABASE other');
query($node, 'CREATE EXTENSION snowflake', database => 'other');
my $elsewhere = session('other');
$elsewhere->query_safe('BEGIN; SELECT snowflake_nextval()');
query($node, insert(3));
delivers(undef, '2 3', 'other databases do not matter');
is(query($node, 'SELECT count(*), max(datname) FROM snowflake_horizon_holders
		JOIN pg_database d ON d.oid = database'),
	'1|other', '... but show');
$elsewhere->quit;

# ---- the view of what holds the horizon back ----

query($node, 'CREATE ROLE somebody; CREATE ROLE watcher IN ROLE pg_read_all_stats');
$a->query_safe('BEGIN; ' . insert(1));
my $id = $a->query_safe('SELECT snowflake_currval()');
$pid = $a->query_safe('SELECT pg_backend_pid()');
my $holders = "SELECT pid = $pid, gid IS NULL, database = (SELECT oid FROM pg_database
	WHERE datname = 'postgres'), since <= now(), lowest_id <= $id,
	lowest_id > (SELECT max(id) FROM t), lowest_time FROM snowflake_horizon_holders";
is(query($node, $holders), 't|t|t|t|t|t|', 'who holds the horizon');
my $seen = "SELECT pid = $pid, database IS NOT NULL, since IS NOT NULL,
	lowest_id IS NOT NULL FROM snowflake_horizon_holders";
is(query($node, "SET ROLE somebody; $seen"), 't|t|f|f', '... as others see it');
is(query($node, "SET ROLE watcher; $seen"), 't|t|t|t', '... and who may see all');
$id = $a->query_safe('SELECT snowflake_shard_nextval(5)');
is(query($node, "SELECT lowest_time <= snowflake_timestamp($id, 'instagram'),
		lowest_time > snowflake_timestamp($id, 'instagram') - interval '1 min'
		FROM snowflake_horizon_holders"),
	't|t', '... with the time of the IDs of shards');
$a->query_safe('COMMIT');
is(query($node, 'SELECT count(*) FROM snowflake_horizon_holders'), '0',
	'nobody holds it');

# ---- prepared transactions ----

anew();
$a->query_safe('BEGIN; ' . insert(1) . q{; PREPARE TRANSACTION 'one'});
query($node, insert(2));
delivers(undef, '', 'a prepared transaction holds it back');
# many later transactions, which fill the rings
$a->query_safe(join("", map { insert(3) . ";\n" } 1 .. 100));
delivers(undef, '', '... also after many others of its session');
is(query($node, q{SELECT gid, pid IS NULL, since < now(),
		lowest_id <= (SELECT min(id) FROM t) FROM snowflake_horizon_holders}),
	'one|t|t|t', '... and shows');
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
query($node, q{COMMIT PREPARED 'one'});
delivers($b, '', '... for an older snapshot until that ends');
$b->query_safe('COMMIT');
delivers(undef, '1 2' . ' 3' x 100, '... and for others until it ends');

# The one that is being prepared waits for its standby, and a snapshot has its transaction ID
# twice: as many as before, when another has ended. Here that one lowers the feed, too.
query($node, 'SELECT snowflake_create_feed(); SELECT snowflake_publish_horizon()');
anew();
$a->query_safe('BEGIN; SET LOCAL client_min_messages = error;
	SET LOCAL synchronous_commit = on; INSERT INTO other VALUES (1)');
$b->query_safe('BEGIN; ' . insert(1) . '; UPDATE snowflake_feed SET horizon = horizon - 1000');
query($node, insert(2));
# the planner does not ask
$c->query_safe(q{BEGIN; DECLARE held CURSOR FOR
	SELECT string_agg(c::text, ' ' ORDER BY id) FILTER (WHERE id < snowflake_horizon()) FROM t});
my $published = $c->query_safe('SELECT snowflake_feed_horizon()');
$a->query_until(qr/begun/, "\\echo begun\nPREPARE TRANSACTION 'waits';\n");
wait_until { query($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'}) }
  'nobody waits for a synchronous standby';
$b->query_safe('COMMIT');
$c->query_safe('SELECT snowflake_horizon()');
is($c->query_safe('FETCH held'), '',
	'a cursor does not get the answer of a later snapshot with as many transaction IDs');
is($c->query_safe('SELECT snowflake_feed_horizon()'), $published - 1000, '... nor does a statement get the feed of an older one');
$c->query_safe('COMMIT');
query($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'});
$a->query(q{ROLLBACK PREPARED 'waits'});
delivers(undef, '1 2', '... and both rows are delivered');

# one session prepares more transactions than its ring can hold
anew();
$a->query_safe('BEGIN; ' . insert($_) . "; PREPARE TRANSACTION '$_'")
  foreach 1 .. 30;
query($node, insert(31));
my $until = 30;
is(query($node, 'SELECT count(*) FROM snowflake_horizon_holders'), $until,
	'thirty that are prepared show');
delivers(undef, '', '... and hold it back');
query($node, "COMMIT PREPARED '$_'") foreach reverse 2 .. 30;
delivers(undef, '', '... to the last');
query($node, q{COMMIT PREPARED '1'});
delivers(undef, join(' ', 1 .. 31), '... and then no more');

# ---- a snapshot that is held ----

# Each snapshot is taken before the one before it ends, so there is always an old one.
# Yet the horizons must rise.
anew();
my @old = ($a, $b);
my @told;
foreach my $round (0 .. 9)
{
	my $s = $old[ $round % 2 ];
	$s->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
	$old[ ($round + 1) % 2 ]->query_safe('COMMIT') if $round > 0;
	$c->query_safe(join('', map { insert(100 * $round + $_) . ";\n" } 1 .. 60));
	push @told, $s->query_safe('SELECT snowflake_horizon()');
}
$old[1]->query_safe('COMMIT');
my $middle = query($node, 'SELECT id FROM t WHERE c = 501');
cmp_ok($told[0], '<=', query($node, 'SELECT min(id) FROM t'),
	'under load the horizon of an old snapshot stays behind');
cmp_ok($told[9], '>', $middle, '... but not for ever, while there is always one');
my @fallen = grep { $told[$_] < $told[ $_ - 1 ] } 1 .. 9;
is("@fallen", '', '... and it does not fall');

# long transactions that made no ID do not hold the horizon back
anew();
$a->query_safe('BEGIN; INSERT INTO other VALUES (1)');
$c->query_safe(join('', map { insert($_) . ";\n" } 1 .. 40));
$b->query_safe('BEGIN; INSERT INTO other VALUES (1)');
$c->query_safe(join('', map { insert($_) . ";\n" } 41 .. 80));
delivers(undef, join(' ', 1 .. 80),
	'who writes for long without making IDs does not hold it back');
$_->query_safe('COMMIT') foreach $a, $b;

# ---- shards ----

# Check which rows a feed of a shard delivers.
sub shard_delivers
{
	my ($in, $shard, $expected, $name) = @_;
	my $sql = "SELECT string_agg(c::text, ' ' ORDER BY id) FROM s
		WHERE snowflake_shard(id, 'instagram') = $shard
			AND id < snowflake_shard_horizon($shard)";

	is((ref $in ? $in->query_safe($sql) : query($node, $sql)), $expected, $name);
	return;
}

sub shard_insert
{
	my ($shard, $c) = @_;

	return "INSERT INTO s VALUES (snowflake_shard_nextval($shard), $c)";
}

query($node, shard_insert(3, 1));
shard_delivers(undef, 3, '1', 'the last row of an idle shard');
$a->query_safe('BEGIN; ' . shard_insert(3, 2));
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
query($node, shard_insert(3, 3));
shard_delivers(undef, 3, '1', 'a transaction holds its shard back');
delivers(undef, join(' ', 1 .. 80), '... and not the node');
$a->query_safe('COMMIT');
shard_delivers($b, 3, '1', '... for an older snapshot until that ends');
$b->query_safe('COMMIT');
shard_delivers($b, 3, '1 2 3', '... and no longer');

# a filter calls the function for each row, and each row may have another shard
my $all = 'SELECT array_agg(snowflake_shard_horizon(g) ORDER BY g) FROM generate_series(0, 49) g';
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
$held = $b->query_safe($all);
query($node, 'SELECT snowflake_shard_nextval(g) FROM generate_series(0, 49) g');
is($b->query_safe($all), $held,
	'a snapshot gets the same answers for all shards, if it asks again');
$b->query_safe('COMMIT');
isnt($b->query_safe($all), $held, '... and another one others');

# Another shard's counter is lower. After the clock steps back, that shard gets IDs of
# an earlier tick.
anew();
set_clock($node, 30);
$a->query_safe('BEGIN; ' . shard_insert(3, 1));
set_clock($node, 10);
$a->query_safe(shard_insert(4, 1));
set_clock($node, 20);
query($node, shard_insert(4, 2));
shard_delivers(undef, 4, '', 'a clock that steps back between two shards');
$a->query_safe('COMMIT');
shard_delivers(undef, 4, '1 2', '... delays, and loses nothing');
set_clock($node, 40);

refused($node, 'SELECT snowflake_shard_horizon(50)', '55000',
	qr/this server may not issue IDs for shard 50/, 'a shard of another server');

# ---- other layouts ----

# Check which rows a feed of the table j or y delivers.
sub layout_delivers
{
	my ($in, $table, $expected, $name) = @_;
	my $layout = { j => 'javascript', y => 'sonyflake' }->{$table};
	my $sql = "SELECT string_agg(c::text, ' ' ORDER BY id) FROM $table
		WHERE id < snowflake_horizon('$layout')";

	is((ref $in ? $in->query_safe($sql) : query($node, $sql)), $expected, $name);
	return;
}

anew();
query($node, "INSERT INTO $_ (c) VALUES (1)") foreach 't', 'j', 'y';
layout_delivers(undef, $_, '1', "the last row of an idle layout, $_") foreach 'j', 'y';
my $ahead = 40;
foreach my $table ('j', 'y')
{
	set_clock($node, ++$ahead);		# a later tick of either
	$a->query_safe("BEGIN; INSERT INTO $table (c) VALUES (2)");
	$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
	query($node, "INSERT INTO $table (c) VALUES (3)");
	layout_delivers(undef, $table, '1', "a transaction holds its layout back, $table");
	delivers(undef, '1', '... and not the configured one');
	$a->query_safe('COMMIT');
	layout_delivers($b, $table, '1', '... for an older snapshot until that ends');
	$b->query_safe('COMMIT');
	layout_delivers($b, $table, '1 2 3', '... and no longer');
}

# one low-water mark for layouts of different ticks
set_clock($node, ++$ahead);
$a->query_safe('BEGIN; INSERT INTO j (c) VALUES (4)');
set_clock($node, ++$ahead);
$a->query_safe('INSERT INTO y (c) VALUES (4)');
query($node, "INSERT INTO $_ (c) VALUES (5)") foreach 'j', 'y';
layout_delivers(undef, 'j', '1 2 3', 'who makes IDs of two layouts holds back the one');
layout_delivers(undef, 'y', '1 2 3', '... and the other');
is(query($node, q{SELECT lowest_id FROM snowflake_horizon_holders}), '',
	'... and not the configured one');
$a->query_safe('COMMIT');
layout_delivers(undef, 'j', '1 2 3 4 5', '... until he ends');
layout_delivers(undef, 'y', '1 2 3 4 5', '... for both');

# one snapshot gets an answer for each layout
$all = q{SELECT snowflake_horizon(), snowflake_horizon('snowflake'),
	snowflake_horizon('javascript'), snowflake_horizon('sonyflake')};
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
$held = $b->query_safe($all);
query($node, "INSERT INTO $_ (c) VALUES (6)") foreach 't', 'j', 'y';
is($b->query_safe($all), $held, 'a snapshot gets the same answers for all layouts');
$b->query_safe('COMMIT');
my @held = split /\|/, $held;
is($held[0], $held[1], 'the configured layout has one horizon, however it is named');
is(query($node, "SELECT
		(SELECT max(id) FROM j WHERE c = 5) < $held[2] AND $held[2] <= (SELECT id FROM j WHERE c = 6),
		(SELECT max(id) FROM y WHERE c = 5) < $held[3] AND $held[3] <= (SELECT id FROM y WHERE c = 6)"),
	't|t', '... and each other layout its own');

refused($node, 'SELECT snowflake_horizon(NULL)', '22004',
	qr/layout must not be null/, 'no layout');
refused($node, q{SELECT snowflake_horizon('nothing')}, '22023',
	qr/invalid layout: "nothing"/, 'what is no layout');
refused($node, q{SELECT snowflake_horizon('instagram')}, '22023',
	qr/a layout with the field "shard" makes no IDs of the node/, 'the layout of shards');
refused($node, q{SELECT snowflake_horizon('timestamp:41 sequence:12')}, '55000',
	qr/node id 1 does not fit the layout/, 'a layout without room for the node');

# ---- what the horizon cannot cover ----

anew();
$a->query_safe('BEGIN');
$id = query($node, 'SELECT snowflake_nextval()');
$a->query_safe("INSERT INTO t VALUES ($id, 1)");
query($node, insert(2));
delivers(undef, '2', 'an ID of another transaction: the horizon has passed it');
$a->query_safe('COMMIT');
delivers(undef, '1 2', '... and its row comes later');
query($node, "INSERT INTO t VALUES ($id + 1, 3)");
delivers(undef, '1 3 2', 'so does that of an ID written by hand');

# ---- after restarts ----

anew();
query($node, insert(1));
query($node, "INSERT INTO $_ (c) VALUES (1)") foreach 'j', 'y';
foreach my $how ('fast', 'immediate')
{
	$_->quit foreach $how eq 'fast' ? ($a, $b, $c) : ();
	$node->stop($how);
	start_with_clock($node, 45);
	delivers(undef, '1', "an idle server after a stop, $how");
	layout_delivers(undef, $_, '1', "... also the layout of $_, not used since")
	  foreach 'j', 'y';
	is(query($node, "SET default_transaction_read_only = on; $feed"), '1',
		'... to who may only read');
}

# transactions that were prepared in an earlier life
$a = session();
$a->query_safe('BEGIN; ' . insert(2) . q{; PREPARE TRANSACTION 'with'});
query($node, insert(3));
$a->query_safe(q{BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION 'without'});
$node->stop('immediate');
start_with_clock($node, 50);
($a, $b) = map { session() } 1 .. 2;
query($node, insert(4));
# a transaction that got its transaction ID before the first call of the horizon
$a->query_safe('BEGIN; INSERT INTO other VALUES (1)');
$b->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $look");
refused($node, $feed, '55000',
	qr/prepared before the server started.*DETAIL:  Prepared transactions: 'with(out)?', 'with(out)?'\..*HINT:  End each with COMMIT PREPARED or ROLLBACK PREPARED\./s,
	'what was prepared in another life may bring in anything');
$a->query_safe(q{PREPARE TRANSACTION 'ours'});
is(query($node, q{SELECT string_agg(gid, ' ' ORDER BY gid), count(lowest_id)
		FROM snowflake_horizon_holders}), 'with without|0', '... and shows');
query($node, q{ROLLBACK PREPARED 'without'});
refused($node, $feed, '55000', qr/Prepared transactions: 'with'\./, '... each of them');
query($node, q{COMMIT PREPARED 'with'});
delivers(undef, '1 2 3 4', '... until it ends; one of this life is known');
delivers($b, '', '... and one that has ended since is not forgotten');
$b->query_safe('COMMIT');
query($node, q{ROLLBACK PREPARED 'ours'});
delivers($b, '1 2 3 4', 'it is as ever');

# ---- a standby ----

my $standby = standby_of($node, 'standby');
start_with_clock($standby, 50);
$c = $standby->background_psql('postgres', on_error_stop => 0);
$c->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
foreach my $call ('snowflake_horizon()', q{snowflake_horizon('sonyflake')}, 'snowflake_shard_horizon(3)')
{
	refused($standby, "SELECT $call", '55000',
		qr/recovery is in progress.*DETAIL: .*Only the primary.*HINT:  Connect to the primary; after a promotion, begin a new transaction\. Or, if the primary publishes its horizon, call: SELECT public\.snowflake_feed_horizon\(\);/s,
		"no $call on a standby");
}
$standby->promote;
is(query($standby, 'SELECT max(id) < snowflake_horizon() FROM t'), 't',
	'a standby that was promoted');
$c->query('SELECT snowflake_horizon()');
like($c->{stderr}, qr/recovery is in progress/,
	'... refuses a snapshot from before');
$c->query('ROLLBACK');
$c->{stderr} = '';
like($c->query_safe('BEGIN; SELECT snowflake_horizon()'), qr/^\d+$/, '... but not one of a new transaction, as it says');
$c->quit;
$standby->stop;

# ---- rows that come from another server ----

my $publisher = new_server('publisher', 'wal_level = logical');
$publisher->append_conf('postgresql.conf', "snowflake.node_id = '0'");
start_with_clock($publisher, 50);
query($publisher, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
	CREATE PUBLICATION p FOR TABLE t;
});
anew();
query($node, "CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr
	  . q{ dbname=postgres' PUBLICATION p});
$node->wait_for_subscription_sync($publisher, 's');
$a = begin_session($publisher, 'BEGIN; ' . insert(1));
query($node, insert(2));
$ahead = query($node, 'SELECT snowflake_horizon()');
cmp_ok($a->query_safe('SELECT snowflake_currval()'), '<', $ahead,
	'the horizon passes what another server has not sent yet');
$a->query_safe('COMMIT');
$publisher->wait_for_catchup('s');
is(query($node, "SELECT string_agg(c::text, ' ' ORDER BY id) FROM t WHERE id < $ahead"),
	'1 2', '... and its row comes later');

# what a subscription has prepared ends with its transaction on the publisher
my $of_s = query($node, 'SELECT oid FROM pg_subscription');
query($node, "SELECT snowflake_create_feed(); SELECT snowflake_publish_horizon()");
query($node, "BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION '$_'") foreach "pg_gid_${of_s}_745", 'pg_gid_1_746', "pg_gid_${of_s}_747 ";
query($node, 'CREATE ROLE stranger; GRANT INSERT ON other TO stranger');
query($node, "SET ROLE stranger; BEGIN; INSERT INTO other VALUES (1); PREPARE TRANSACTION E'$_'")
  foreach "pg_gid_${of_s}_748", '\n\x1b';
$node->stop;
start_with_clock($node, 50);
refused($node, $feed, '55000',
	qr/HINT:  End each with COMMIT PREPARED or ROLLBACK PREPARED; but these on the publisher, or the replication fails for good: 745 of the subscription s\.$/m,
	'what a subscription has prepared ends on the publisher');
refused($node, 'SELECT snowflake_leave_feed()', '55006',
	qr/end its last transactions:(?=.* on the publisher of the subscription s, the prepared transaction 745;)(?=.* COMMIT PREPARED 'pg_gid_1_746'; or)(?!.*PREPARED 'pg_gid_${of_s}_745')/,
	'... also before this server leaves');
refused($node, 'SELECT snowflake_leave_feed()', '55006', qr/(?=.* COMMIT PREPARED 'pg_gid_${of_s}_748'; or)(?=.* COMMIT PREPARED E'\\x0a\\x1b'; or)/,
	'... but not what another role has prepared');
query($node, "ROLLBACK PREPARED E'$_'") foreach "pg_gid_${of_s}_748", '\n\x1b';
query($node, "ROLLBACK PREPARED '$_'") foreach "pg_gid_${of_s}_745", 'pg_gid_1_746', "pg_gid_${of_s}_747 ";
query($node, 'DROP SUBSCRIPTION s');

$publisher->stop;
$node->stop;
done_testing();
