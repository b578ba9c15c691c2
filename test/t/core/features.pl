# IDs in combination with features of the server. The checker gets every ID that was
# seen, and at the end every table.
#
# takes: 40 s
# part foreign_table: postgres_fdw
use SnowflakeTest;
use IdChecker;
use Load;

my $ids = IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids');
my $noon = '@2026-01-01 12:00:00';
my $eleven = '@2026-01-01 11:00:00';
# The server has slots for this many databases.
my $room = 24;

my $node = new_server('main', "snowflake.shards = '0-8191'",
	"snowflake.max_databases = $room", 'max_prepared_transactions = 10',
	'max_connections = 250', 'shared_buffers = 16MB', 'wal_level = logical',
	'max_worker_processes = 16',
	'snowflake.max_clock_wait = 30s', 'snowflake.max_clock_jump = 1d',
	'wal_writer_delay = 10s', 'autovacuum = off', 'log_statement = none');

# No two databases share an ID while the shared memory lives. So the checker has a
# group for each database and one for each life.
my $life = 'first life';

sub groups
{
	my ($counter, $database) = @_;

	return [ map { "$_, $counter" } ($database || 'postgres', $life) ];
}

# Run this in one session. It returns IDs of the node only.
sub node_ids
{
	my ($name, $n, $sql, %options) = @_;
	my @made = split /\n/, query($node, $sql, %options);

	$ids->saw(groups('node', $options{database}), @made);
	is(scalar(@made), $n, $name);
	return @made;
}

# Check IDs of shards in the order in which a session got them: those of each shard
# ascend.
sub shard_ids
{
	my ($name, @made) = @_;
	my %last;
	my $descend = 0;

	foreach my $id (@made)
	{
		my $shard = $id >> 10 & 8191;

		$descend++ if $id <= ($last{$shard} // -1);
		$last{$shard} = $id;
	}
	is($descend, 0, "$name: the IDs of each shard ascend");
	$ids->saw(groups('shards'), sort { $a <=> $b } @made);
	return;
}

# ---- across a crash: prepared transactions, unlogged tables, the extension ----

start_with_clock($node, $noon);
query($node, 'CREATE EXTENSION snowflake');
foreach my $sync ('on', 'off')
{
	query($node, qq{
		CREATE TABLE prepared_$sync (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
		CREATE UNLOGGED TABLE unlogged_$sync (id bigint PRIMARY KEY DEFAULT snowflake_nextval())});
	foreach my $end ('commit', 'rollback')
	{
		node_ids("a transaction is prepared, for $end, synchronous_commit = $sync", 50, qq{
			SET synchronous_commit = $sync;
			BEGIN;
			INSERT INTO prepared_$sync SELECT FROM generate_series(1, 10) RETURNING id;
			SAVEPOINT s;
			INSERT INTO prepared_$sync SELECT FROM generate_series(1, 10) RETURNING id;
			ROLLBACK TO s;
			INSERT INTO unlogged_$sync SELECT FROM generate_series(1, 10) RETURNING id;
			INSERT INTO prepared_$sync SELECT FROM generate_series(1, 10) RETURNING id;
			SELECT snowflake_nextval() FROM generate_series(1, 10);
			PREPARE TRANSACTION '${end}_$sync'});
	}
	node_ids('an unlogged table', 20,
		"SET synchronous_commit = $sync; INSERT INTO unlogged_$sync SELECT FROM generate_series(1, 20) RETURNING id");
	query($node, "CREATE DATABASE own_$sync");
	node_ids('an extension is created in a transaction that is prepared', 20, qq{
		SET synchronous_commit = $sync;
		BEGIN;
		CREATE EXTENSION snowflake;
		CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
		INSERT INTO t SELECT FROM generate_series(1, 20) RETURNING id;
		PREPARE TRANSACTION 'own_$sync'}, database => "own_$sync");
}
lose_power($node);
start_with_clock($node, $eleven);
$life = 'second life';
query($node, "COMMIT PREPARED 'own_$_'", database => "own_$_") foreach ('on', 'off');
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark of this database/,
	"$_: refused while the clock is an hour back", database => $_)
  foreach ('postgres', 'own_on', 'own_off');
set_clock($node, $noon);
foreach my $sync ('on', 'off')
{
	is(query($node, "SELECT count(*) FROM unlogged_$sync"), 0, 'an unlogged table is empty');
	query($node, "COMMIT PREPARED 'commit_$sync'; ROLLBACK PREPARED 'rollback_$sync'");
	node_ids('it goes on after the crash', 40, qq{
		INSERT INTO prepared_$sync SELECT FROM generate_series(1, 20) RETURNING id;
		INSERT INTO unlogged_$sync SELECT FROM generate_series(1, 20) RETURNING id});
	is(query($node, "SELECT count(*) FROM prepared_$sync"), 40,
		'with the rows of the transaction that was committed');
	node_ids('the extension, too', 20,
		'INSERT INTO t SELECT FROM generate_series(1, 20) RETURNING id',
		database => "own_$sync");
}

# From here on the server has the real clock.
$node->stop;
$node->start;
$life = 'third life';

# ---- within transactions ----

query($node, q{
	CREATE TABLE sub (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE FUNCTION aborts() RETURNS SETOF bigint LANGUAGE plpgsql AS $$
	DECLARE
		v bigint;
	BEGIN
		FOR i IN 1..50 LOOP
			BEGIN
				INSERT INTO sub DEFAULT VALUES RETURNING id INTO v;
				RETURN NEXT v;
				IF i % 2 = 0 THEN
					RAISE 'no';
				END IF;
			EXCEPTION WHEN raise_exception THEN
				RETURN NEXT snowflake_nextval();
			END;
		END LOOP;
	END $$});
node_ids('subtransactions', 79, q{
	BEGIN;
	SELECT aborts();
	SAVEPOINT a;
	INSERT INTO sub DEFAULT VALUES RETURNING id;
	SAVEPOINT b;
	INSERT INTO sub DEFAULT VALUES RETURNING id;
	ROLLBACK TO a;
	INSERT INTO sub DEFAULT VALUES RETURNING id;
	RELEASE a;
	COMMIT;
	SELECT snowflake_nextval()});
is(query($node, 'SELECT count(*) FROM sub'), 26, 'half of them are rolled back');

node_ids('DO with COMMIT and ROLLBACK', 100, q{
	DO $$
	DECLARE
		v bigint;
		made bigint[];
	BEGIN
		FOR i IN 1..100 LOOP
			INSERT INTO sub DEFAULT VALUES RETURNING id INTO v;
			made := made || v;
			IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
		PERFORM set_config('test.made', array_to_string(made, E'\n'), false);
	END $$;
	SELECT current_setting('test.made')});

node_ids('cursors', 61, q{
	BEGIN;
	DECLARE c CURSOR FOR SELECT snowflake_nextval() FROM generate_series(1, 1000);
	FETCH 10 FROM c;
	SELECT snowflake_nextval();
	FETCH 10 FROM c;
	DECLARE h CURSOR WITH HOLD FOR SELECT snowflake_nextval() FROM generate_series(1, 40);
	COMMIT;
	FETCH ALL FROM h});

# ---- parallel plans ----

my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $parallel = qq{
	SET $force = on;
	SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;
	SET parallel_leader_participation = off;
};
query($node, q{
	CREATE TABLE rows AS SELECT n FROM generate_series(1, 20000) n;
	ALTER TABLE rows SET (parallel_workers = 3);
	ANALYZE rows;
	CREATE TABLE par (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
	CREATE FUNCTION mislabelled() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
		'BEGIN RETURN snowflake_nextval(); END'});
node_ids('INSERT ... SELECT with a parallel plan', 20000,
	"$parallel INSERT INTO par (n) SELECT n FROM rows WHERE n > 0 RETURNING id");
query($node, "$parallel CREATE TABLE par_as AS SELECT snowflake_nextval() AS id, n FROM rows");
node_ids('CREATE TABLE AS with a parallel plan', 20000, 'SELECT id FROM par_as ORDER BY id');
like(query($node, "$parallel EXPLAIN CREATE TABLE x AS SELECT snowflake_nextval() AS id, n FROM rows"),
	qr/Gather/, 'it is parallel');

# a function that is wrongly marked as safe would make IDs in a worker, without the
# low-water mark of the leader's transaction
refused($node, "$parallel CREATE TABLE par_workers AS SELECT mislabelled() AS id FROM rows",
	'25000', qr/cannot make IDs in a parallel worker.*HINT:  Mark the function/s,
	'a mislabelled function is refused in workers');
my $odd = 'timestamp:41 node:10 sequence:11 epoch:2024-01-01';
query($node, qq{CREATE FUNCTION mislabelled_layout() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
	\$\$BEGIN RETURN snowflake_nextval('$odd'); END\$\$});
refused($node, "$parallel CREATE TABLE par_workers AS SELECT mislabelled_layout() AS id FROM rows",
	'25000', qr/cannot make IDs in a parallel worker/, '... also with a layout');
is(query($node, "SELECT count(*) FROM pg_stat_snowflake_layouts WHERE layout = '$odd'"), '0',
	'and takes no slot for it');

# ---- tables and statements ----

query($node, q{
	CREATE TABLE trig (id bigint PRIMARY KEY, n integer);
	CREATE FUNCTION set_id() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN NEW.id := snowflake_nextval(); RETURN NEW; END';
	CREATE TRIGGER set_id BEFORE INSERT ON trig FOR EACH ROW EXECUTE FUNCTION set_id();

	CREATE TABLE shard_trig (id bigint PRIMARY KEY, user_id bigint);
	CREATE FUNCTION set_shard_id() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		NEW.id := snowflake_shard_nextval(mod(abs(NEW.user_id), 4096)::integer);
		RETURN NEW;
	END $$;
	CREATE TRIGGER set_id BEFORE INSERT ON shard_trig
		FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION set_shard_id();

	CREATE TABLE gen (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
		made timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'snowflake')) STORED);

	CREATE TABLE part (id bigint DEFAULT snowflake_nextval(), n integer) PARTITION BY HASH (id);
	CREATE TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);

	CREATE TABLE merged (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer UNIQUE);
	CREATE TABLE added (n integer);
	INSERT INTO added SELECT generate_series(1, 1000)});
node_ids('a trigger', 100, 'INSERT INTO trig (n) SELECT generate_series(1, 100) RETURNING id');
my @sharded = split /\n/, query($node,
	'INSERT INTO shard_trig (user_id) SELECT generate_series(1, 5000) RETURNING id');
shard_ids('a trigger', @sharded);
is(query($node, q{SELECT count(*) FROM shard_trig
	WHERE snowflake_shard(id, 'instagram') <> user_id % 4096}), 0,
	'a trigger that chooses the shard of each row');
refused($node, q{CREATE TABLE wrong (id bigint GENERATED ALWAYS AS (snowflake_nextval()) STORED)},
	'42P17', qr/generation expression is not immutable/, 'a generated column takes no new IDs');
node_ids('a column that is generated from the ID', 100,
	'INSERT INTO gen SELECT FROM generate_series(1, 100) RETURNING id');
is(query($node, 'SELECT count(*) FROM gen WHERE made = snowflake_timestamp(id)'), 100,
	'it has the time');
node_ids('partitions', 100, 'INSERT INTO part (n) SELECT generate_series(1, 100) RETURNING id');
is(query($node, 'SELECT count(*) FROM (SELECT FROM part_0 LIMIT 1) a, (SELECT FROM part_1 LIMIT 1) b'),
	1, 'each has some');

# the row that is skipped, and the first version of an updated row, have IDs that
# nobody gets
node_ids('INSERT ... ON CONFLICT', 150, q{
	INSERT INTO merged (n) SELECT generate_series(1, 100) RETURNING id;
	INSERT INTO merged (n) SELECT generate_series(1, 100) ON CONFLICT (n) DO NOTHING RETURNING id;
	INSERT INTO merged (n) SELECT generate_series(1, 50) ON CONFLICT (n) DO UPDATE SET id = EXCLUDED.id RETURNING id});
query($node, q{
	MERGE INTO merged USING generate_series(76, 150) AS s (n) ON merged.n = s.n
	WHEN MATCHED THEN UPDATE SET id = snowflake_nextval()
	WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)});
node_ids('MERGE', 75, 'SELECT id FROM merged WHERE n > 75 ORDER BY id');

node_ids('ALTER TABLE ... ADD COLUMN', 1000, q{
	ALTER TABLE added ADD COLUMN id bigint NOT NULL DEFAULT snowflake_nextval();
	SELECT id FROM added ORDER BY id});
node_ids('COPY FROM', 3, "COPY part (n) FROM stdin;\n1\n2\n3\n\\.\nSELECT id FROM part ORDER BY id OFFSET 100");
node_ids('a temporary table', 200, q{
	CREATE TEMP TABLE temp (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO temp SELECT FROM generate_series(1, 100) RETURNING id;
	BEGIN;
	INSERT INTO temp SELECT FROM generate_series(1, 100) RETURNING id;
	ROLLBACK});

# a foreign table takes its default from this server, and the other server has none
SKIP:
{
	skip 'the contrib module postgres_fdw is not installed', 5
	  if query($node, "SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'") == 0;

	my ($host, $port) = ($node->host, $node->port);
	query($node, 'CREATE DATABASE remote');
	query($node, 'CREATE TABLE t (id bigint PRIMARY KEY, n integer)', database => 'remote');
	query($node, qq{
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'remote', batch_size '10');
		CREATE USER MAPPING FOR CURRENT_USER SERVER remote;
		CREATE FOREIGN TABLE far (id bigint DEFAULT snowflake_nextval(), n integer)
			SERVER remote OPTIONS (table_name 't')});
	node_ids('a foreign table', 200, q{
		INSERT INTO far (n) SELECT generate_series(1, 100) RETURNING id;
		BEGIN;
		INSERT INTO far (n) SELECT generate_series(1, 100) RETURNING id;
		ROLLBACK});
	is(query($node, 'SELECT count(*) FROM t', database => 'remote'), 100,
		'its rows are on the other side');
	query($node, "COPY far (n) FROM stdin;\n101\n102\n\\.\n");
	node_ids('COPY into it', 2, 'SELECT id FROM far WHERE n > 100 ORDER BY id');

	# a condition on a key of the type goes there only if the server's option says so
	query($node, 'CREATE EXTENSION snowflake; CREATE TABLE typed (id snowflake PRIMARY KEY)', database => 'remote');
	query($node, 'CREATE FOREIGN TABLE typed (id snowflake) SERVER remote');
	foreach my $there ('', ' WHERE ((id = 5))')
	{
		like(query($node, 'EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM typed WHERE id = 5 FOR UPDATE'),
			qr/Remote SQL: SELECT id FROM public\.typed\Q$there\E FOR UPDATE$/m,
			$there ? 'with the option, the other server looks the key up' : 'without it, it locks all rows');
		query($node, "ALTER SERVER remote OPTIONS (ADD extensions 'snowflake')") if !$there;
	}
}

# ---- cached plans, while the extension is dropped and created ----

query($node, 'CREATE DATABASE plans');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE FUNCTION kept() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN snowflake_nextval(); END';
}, database => 'plans');
my $session = $node->background_psql('plans', on_error_stop => 0);
my @kept;
$session->query_safe(q{
	SET plan_cache_mode = force_generic_plan;
	PREPARE p AS SELECT snowflake_nextval()});
foreach my $round (1 .. 3)
{
	push @kept, $session->query_safe($_) foreach ('EXECUTE p', 'SELECT kept()', 'EXECUTE p');
	$session->query_safe('BEGIN; DECLARE open CURSOR FOR SELECT snowflake_nextval() FROM generate_series(1, 10)');
	push @kept, $session->query_safe('FETCH open');

	# when the clock has passed the mark, the next call must move the mark
	my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'plans');
	query($node, 'DROP EXTENSION snowflake', database => 'plans');
	$node->poll_query_until('postgres',
		"SELECT extract(epoch FROM clock_timestamp()) * 1000 > $mark") or die;
	$session->query('FETCH open');
	like($session->{stderr}, qr/sequence "snowflake_mark" of the extension "snowflake" (has been replaced|does not exist)/,
		'an open cursor is told that the extension is gone');
	$session->{stderr} = '';
	$session->query_safe('ROLLBACK');
	foreach my $call ('EXECUTE p', 'SELECT kept()')
	{
		$session->query($call);
		like($session->{stderr}, qr/function snowflake_nextval\(\) does not exist/,
			"$call: without the extension there is no function");
		$session->{stderr} = '';
	}
	query($node, 'CREATE EXTENSION snowflake', database => 'plans');
}
push @kept, $session->query_safe('EXECUTE p'), $session->query_safe('SELECT kept()');
$session->quit;
$ids->saw(groups('node', 'plans'), @kept);
like($kept[-1], qr/^\d+$/, 'kept plans work again when it is back');

# ---- every shard, in one session and then in several ----

# Every second session commits asynchronously.
my $every = q{
	SELECT snowflake_shard_nextval(s) FROM generate_series(0, 8191) s;
	BEGIN;
	INSERT INTO shard_every SELECT snowflake_shard_nextval(s) FROM generate_series(0, 8191) s RETURNING id;
	ROLLBACK;
	INSERT INTO shard_every SELECT snowflake_shard_nextval(s) FROM generate_series(0, 8191) s RETURNING id;
};
query($node, 'CREATE TABLE shard_every (id bigint PRIMARY KEY)');

# Start a client in the background, which writes its IDs into this file.
sub client
{
	my ($sql, $file) = @_;
	my $client = { file => $file, err => '' };

	append_to_file("$file.sql", $sql);
	$client->{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
		'<', "$file.sql", '>', $file, '2>', \$client->{err});
	return $client;
}

# Wait for clients, check that none had an error, and return the number of their IDs.
sub finish
{
	my (@clients) = @_;

	$_->{handle}->finish foreach @clients;
	is(join('', map { $_->{err} } @clients), '', scalar(@clients) . ' clients see no error');
	return map { slurp_file($_->{file}) =~ tr/\n// } @clients;
}

my $dir = PostgreSQL::Test::Utils::tempdir();
foreach my $n (1, 4)
{
	my @files = map { "$dir/every.$n.$_" } 1 .. $n;

	is(join(' ', finish(map {
			client('SET synchronous_commit = ' . (/[24]$/ ? 'off' : 'on') . ";$every", $_) } @files)),
		join(' ', (3 * 8192) x $n), "every shard three times, $n at once");
	shard_ids("every shard, $n at once", split /\n/, slurp_file($_)) foreach @files;
}
is(query($node, q{SELECT count(*) FROM (SELECT snowflake_shard(id, 'instagram') FROM shard_every
	GROUP BY 1 HAVING count(*) = 5) s}), 8192, 'each has its IDs');

# ---- a million IDs at a time, beside single calls ----

query($node, 'CREATE TABLE batch (id bigint DEFAULT snowflake_nextval())');
my $big = 'SELECT snowflake_nextval_batch(1000000)';
my $off = 'SET synchronous_commit = off;';
my $back = "$off BEGIN; INSERT INTO batch SELECT * FROM snowflake_nextval_batch(1000000)
	RETURNING id; ROLLBACK;";
my $single = "INSERT INTO batch DEFAULT VALUES RETURNING id;\n" x 2000 .
  "SELECT snowflake_nextval() FROM generate_series(1, 20000);";
is( join(' ', finish(map { client($_, $ids->session(groups('node'))) }
		($big, $back, $single, "$off $single"))),
	'1000000 1000000 22000 22000', 'a million, and a million rolled back, beside single calls');

# ---- 200 connections, all of them at once ----

my $gate = begin_session($node, 'SELECT pg_advisory_lock(1)');
my @clients = map {
	client('SET synchronous_commit = ' . ($_ % 2 ? 'on' : 'off') . q{;
		SET client_min_messages = error;
		DO 'BEGIN PERFORM pg_advisory_lock_shared(1); END';
		INSERT INTO batch SELECT FROM generate_series(1, 20) RETURNING id;
		BEGIN;
		INSERT INTO batch SELECT FROM generate_series(1, 20) RETURNING id;
		ROLLBACK;
		SELECT snowflake_nextval() FROM generate_series(1, 200);
	}, $ids->session(groups('node')))
} 1 .. 200;
$node->poll_query_until('postgres',
	"SELECT count(*) = 200 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
  or die 'there are no 200 clients';
$gate->quit;
is(scalar(grep { $_ == 240 } finish(@clients)), 200, '200 connections at once');

# ---- logical replication, the function as a default on either side ----

my $subscriber = new_server('subscriber', "snowflake.node_id = '2'", 'log_statement = none');
$subscriber->start;
foreach my $server ($node, $subscriber)
{
	query($server, q{
		CREATE EXTENSION IF NOT EXISTS snowflake;
		CREATE TABLE common (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)});
}
query($node, 'CREATE TABLE plain (n integer PRIMARY KEY); INSERT INTO plain SELECT generate_series(1, 100)');
query($subscriber, 'CREATE TABLE plain (n integer PRIMARY KEY, id bigint NOT NULL DEFAULT snowflake_nextval())');
node_ids('rows of the publisher', 100, 'INSERT INTO common (n) SELECT generate_series(1, 100) RETURNING id');
query($node, 'CREATE PUBLICATION p FOR TABLE common, plain');
query($subscriber, q{CREATE SUBSCRIPTION s CONNECTION '} . $node->connstr . q{ dbname=postgres' PUBLICATION p});
$subscriber->wait_for_subscription_sync($node, 's');
my @subscribed = split /\n/, query($subscriber,
	'INSERT INTO common (n) SELECT generate_series(1, 1000) RETURNING id');
node_ids('while the subscriber makes its own', 1000,
	'INSERT INTO common (n) SELECT generate_series(1, 1000) RETURNING id');
query($node, 'INSERT INTO plain SELECT generate_series(101, 200)');
$node->wait_for_catchup('s');
is(query($subscriber, 'SELECT snowflake_node(id), count(*) FROM common GROUP BY 1 ORDER BY 1'),
	"1|1100\n2|1000", 'rows of both nodes are in one table');
is(query($subscriber, 'SELECT snowflake_node(id), count(DISTINCT id) FROM plain GROUP BY 1'), '2|200',
	'rows that come without an ID get one of the subscriber, no ID twice');
$ids->saw('postgres, node', @subscribed);
$ids->saw('postgres, node', split /\n/, query($subscriber, 'SELECT id FROM plain ORDER BY id'));
$ids->database('subscriber', $subscriber, 'postgres');
query($subscriber, 'DROP SUBSCRIPTION s');
$subscriber->stop;

# ---- as many databases as there are slots, and one more ----

query($node, 'CREATE DATABASE pattern');
query($node, 'CREATE EXTENSION snowflake; ' . load_tables(), database => 'pattern');
my $used = query($node, "SELECT count(*) FROM pg_database WHERE datname IN ('postgres', 'own_on', 'own_off', 'plans')");
is($used, 4, 'four databases make IDs');
node_ids("$_ makes IDs", 1, 'SELECT snowflake_nextval()', database => $_)
  foreach ('own_on', 'own_off');
my @databases = map { "d$_" } $used + 1 .. $room;
foreach my $database (@databases, 'more')
{
	query($node, "CREATE DATABASE $database TEMPLATE pattern");
}

# Run a client in each database, all at once, until each has made some IDs. Then insert
# a row in each.
sub all_databases
{
	my @loads = map { start_load($ids, [ $_, $life ], $node->connstr($_), 1, undef, 0.1) } @databases;

	$_->more(5) foreach @loads;
	my @made = split /\n/, query($node, join('', map {
		"\\connect $_\nINSERT INTO t DEFAULT VALUES RETURNING id;\n" } @databases));
	is(scalar(@made), scalar(@databases), "a row in each database, $life");
	$ids->saw(groups('node', $databases[$_]), $made[$_]) foreach 0 .. $#made;
	return @loads;
}

# Return the errors of these clients.
sub errors
{
	my (@loads) = @_;

	return [ map { %{ $_->finish } } @loads ];
}

my @loads = all_databases();
refused($node, 'SELECT snowflake_nextval()', '53400',
	qr/too many databases generate IDs on this server.*snowflake.max_databases is $room/s,
	"one more than $room is refused", database => 'more');

# ---- the server crashes, and the clock is one hour back ----

lose_power($node);
is_deeply(errors(@loads), [], 'as many databases as there is room for, at once');
$life = 'fourth life';
start_with_clock($node, -3600);
my ($status, $out, $err) = $node->psql('postgres',
	join('', map { "\\connect $_\nSELECT snowflake_nextval();\n" } ('postgres', 'own_on', @databases)),
	on_error_stop => 0);
is(scalar(() = $err =~ /ERROR:  wall clock is [\w ]+ behind the mark of this database/g), 2 + @databases,
	'each of them is refused while the clock is an hour back');
is($out, '', 'none has made an ID');
set_clock($node, 0);
is_deeply(errors(all_databases()), [], 'then each goes on');
node_ids("$_ goes on", 1, 'SELECT snowflake_nextval()', database => $_) foreach ('postgres', 'own_on');

$ids->clients;
$ids->database('postgres', $node, 'postgres');
$ids->state("$_: node", $node, $_, 'SELECT id FROM t') foreach ('own_on', 'own_off');
$ids->state("$_: node and shards", $node, $_, 'SELECT id FROM t UNION ALL SELECT id FROM s')
  foreach @databases;
$ids->states;
$node->stop;
done_testing();
