# Feeds over several servers: the table snowflake_feed in a dump, on a standby, after a
# promotion, after a crash and under another clock; and the worker that publishes.
#
# takes: 50 s
use SnowflakeTest;

my $layout = 'timestamp:41 node:10 sequence:12 epoch:2024-01-01';
my $node = new_server('main', "snowflake.feed_databases = 'postgres, \"No such\", postgres'", "snowflake.feed_interval = 20ms",
	'wal_level = logical', 'max_prepared_transactions = 5', 'autovacuum = off');
start_with_clock($node, '+0');

sub horizon
{
	my ($in) = @_;

	return query($in // $node, 'SELECT snowflake_feed_horizon()');
}

# Wait until the worker has published once more, beyond what there is.
sub published
{
	my ($in, $name) = @_;
	my $before = horizon($in);

	wait_until { horizon($in) > $before } "$name: the horizon grows";
	pass($name);
	return;
}

sub feed_row
{
	my ($in) = @_;

	return query($in, q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'feed'});
}

# Return true if a client waits to publish.
sub is_waiting
{
	return query($node, q{SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND backend_type = 'client backend' AND query ~ 'snowflake_(publish_horizon|leave_feed)'}) > 0;
}

# ---- the worker ----

my $start;
query($node, 'CREATE EXTENSION snowflake; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int)');
query($node, 'CREATE ROLE feed_owner; GRANT CREATE ON SCHEMA public TO feed_owner; SET ROLE feed_owner; SELECT snowflake_create_feed()');
is(feed_row($node), q{warning|snowflake.feed_databases names databases that do not exist: "No such"|Create it, and its worker begins within a minute. Or write its new name, or leave it out, and restart the server: snowflake.feed_databases = 'postgres'},
	'the status says which database is missing');
query($node, 'CREATE DATABASE "No such"');
is(query($node, q{BEGIN; DROP TABLE snowflake_feed; SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'feed'; ROLLBACK}),
	'warning|there is no table "snowflake_feed", although snowflake.feed_databases has this database|Create it, and publish: SELECT public.snowflake_create_feed(); SELECT public.snowflake_publish_horizon(); If publications had it, add it to them, and refresh the subscriptions.',
	'the status says that a worker has no table');
is(feed_row($node), 'warning|this server has no row in the feed, although snowflake.feed_databases has this database|Publish, or see why that fails: SELECT public.snowflake_publish_horizon(); If it has left the feed, take this database out of that setting.',
	'the status says that a server has not joined');
my $rounds = query($node, q{SELECT query_start FROM pg_stat_activity WHERE backend_type = 'snowflake feed' AND datname = 'postgres'});
wait_until { query($node, qq{SELECT query_start > '$rounds' FROM pg_stat_activity WHERE backend_type = 'snowflake feed' AND datname = 'postgres'}) eq 't' } 'the worker runs';
is(query($node, 'SELECT count(*) FROM snowflake_feed'), 0, '... and the worker does not join by itself');
is(query($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake feed' AND datname = 'postgres'}), 1, 'a database that is named twice has one worker');
query($node, 'SELECT snowflake_publish_horizon()');
published($node, 'then it goes on');
# nobody makes an ID
$node->stop;
start_with_clock($node, 0);
published($node, '... also after a restart, without any client');
query($node, 'INSERT INTO t (c) VALUES (1)');
wait_until { query($node, 'SELECT count(*) FROM t WHERE id < snowflake_feed_horizon()') == 1 } 'the last row of an idle server';
like(feed_row($node), qr/^ok\|horizons published within a minute: 1\|$/, 'the status');

# layouts in which this server has made no ID since it began
my $other = 'timestamp:41 node:10 sequence:12 epoch:2020-01-01';
my $of_other = "SELECT string_agg(coalesce(name, ''), ' ') FROM snowflake_feed WHERE layout = '$other'";
query($node, "INSERT INTO snowflake_feed VALUES (777, '$other', 1, 9, 'dead:1', now())");
published($node, "$_: beside another server's layout") foreach 1, 2;
is(query($node, $of_other), 'dead:1', '... in which it takes no place because of that');
query($node, 'SELECT snowflake_leave_feed(777)');
like(query($node, $of_other), qr/^(?!dead)\S+:\d+$/, 'who takes a server out stands in for all of its layouts');
# one in which there is no room for the node id does not prevent the others
query($node, "INSERT INTO snowflake_feed SELECT server, 'timestamp:38 sequence:12 epoch:2024-01-01', 1, NULL, name, now() FROM snowflake_feed WHERE layout = '$other'");
$node->stop;
start_with_clock($node, 0);
$start = query($node, "SELECT snowflake_feed_horizon('$other')");
ok($node->poll_query_until('postgres', "SELECT snowflake_feed_horizon('$other') > $start"), 'the worker goes on with each of its layouts after a restart');
$node->append_conf('postgresql.conf', 'snowflake.max_layouts = 1');
$node->stop;
$start = -s $node->logfile;
start_with_clock($node, 0);
like_log($node, qr/ERROR:  too many layouts are in use on this server/, $start, 'a layout for which there is no place');
published($node, "... $_, holds the others of this server not up") foreach 1, 2;
is(() = slurp_file($node->logfile, $start) =~ /too many layouts/g, 1, '... and is logged once');
refused($node, 'SELECT snowflake_publish_horizon()', '53400', qr/too many layouts are in use on this server/, '... and refused, if a person publishes');
query($node, "DELETE FROM snowflake_feed WHERE layout <> '$layout'");
$node->append_conf('postgresql.conf', 'snowflake.max_layouts = 16');
$node->stop;
start_with_clock($node, 0);

# its owner's code does not run; nor that of another table, whose schema gets the name
query($node, q{GRANT CREATE ON DATABASE postgres TO feed_owner; ALTER SCHEMA public OWNER TO feed_owner;
	SET ROLE feed_owner;
	CREATE SCHEMA evil;
	CREATE TABLE evil.snowflake_feed (LIKE snowflake_feed INCLUDING ALL);
	CREATE FUNCTION evil.trap() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		RAISE 'the trap ran as %', current_user;
	END $$;
	CREATE TRIGGER trap BEFORE INSERT ON evil.snowflake_feed FOR EACH ROW EXECUTE FUNCTION evil.trap()});
my $swaps = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{DO $$
	BEGIN
		SET ROLE feed_owner;
		LOOP
			ALTER SCHEMA public RENAME TO good;
			ALTER SCHEMA evil RENAME TO public;
			COMMIT;
			ALTER SCHEMA public RENAME TO evil;
			ALTER SCHEMA good RENAME TO public;
			COMMIT;
			EXIT WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = 'enough');
		END LOOP;
	END $$} ]);
wait_until { query($node, q{SELECT count(*) FROM pg_namespace WHERE nspname = 'good'}) == 1 } 'the schemas are renamed';
is(answer($node, q{SET search_path = good, public; DO $$
	BEGIN
		FOR i IN 1 .. 1000 LOOP
			BEGIN
				PERFORM snowflake_publish_horizon();
			EXCEPTION WHEN undefined_function THEN
			END;
		END LOOP;
	END $$}), '', 'while schemas are renamed, the right table is written');
query($node, 'CREATE SCHEMA enough');
ok($swaps->finish, '... all the time');
query($node, 'DROP SCHEMA enough; DROP SCHEMA evil CASCADE');
unlike(slurp_file($node->logfile), qr/the trap ran/, '... by the worker too');

# an error is logged once, until it is over
foreach my $round (1, 2)
{
	my $from = -s $node->logfile;

	query($node, 'ALTER TABLE snowflake_feed RENAME name TO host');
	like_log($node, qr/ERROR:  "snowflake_feed" is not a table as snowflake_create_feed\(\) makes it/, $from, "an error is logged ($round)");
	query($node, 'SELECT pg_sleep(0.2)');
	is(() = slurp_file($node->logfile, $from) =~ /is not a table as/g, 1, '... once');
	query($node, 'ALTER TABLE snowflake_feed RENAME host TO name');
	published($node, '... and the worker goes on');
}

# two sessions publish at once, and another one changes the row: they wait for each other
query($node, 'DELETE FROM snowflake_feed');
my $first = begin_session($node, q{BEGIN; SELECT snowflake_publish_horizon()});
my $second = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT snowflake_publish_horizon() > 0' ], '>', \my $second_out, '2>&1');
wait_until { is_waiting() } 'a session waits';
$first->query_safe('COMMIT');
$second->finish;
is($second_out, "t\n", 'the second session of the first publish waits');
$first->query_safe('BEGIN; UPDATE snowflake_feed SET name = NULL');
$second = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT snowflake_publish_horizon() > 0' ], '>', \$second_out, '2>&1');
wait_until { is_waiting() } 'a session waits';
$first->query_safe('COMMIT');
$second->finish;
is($second_out, "t\n", '... also for a change of the row');
is(query($node, 'SELECT count(*) FROM snowflake_feed'), 1, '... and there is one row');

# Run a statement that waits for what a session does, and something else meanwhile. Return
# what it prints.
sub behind
{
	my ($locks, $statement, $meanwhile, $database) = @_;
	my $session = $node->background_psql($database //= 'postgres');
	my $waiting;

	$session->query_safe("BEGIN; $locks");
	$waiting = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database), '-c', $statement ], '>', \my $out, '2>&1');

	wait_until { is_waiting() } 'a session waits';
	query($node, $meanwhile) if defined $meanwhile;
	$session->query_safe('COMMIT');
	$session->quit;
	$waiting->finish;
	return $out;
}

# who waits sees the rows that are there in the end
my $lock = 'LOCK TABLE snowflake_feed IN SHARE UPDATE EXCLUSIVE MODE';
my $far = "UPDATE snowflake_feed SET horizon = snowflake_min_id(now() + interval '30 s') WHERE server = 42";
is(behind('SELECT snowflake_leave_feed()', 'SELECT snowflake_publish_horizon() > 0'), "t\n", 'a session that waits for a server to leave joins anew');
query($node, 'SELECT snowflake_leave_feed()');
query($node, "INSERT INTO snowflake_feed VALUES (42, '$layout', snowflake_min_id(now() - interval '1 s'), 8, 'other', now())");
like(behind($lock, 'SELECT snowflake_publish_horizon()', $far), qr/^ERROR:  this server is behind the feed, and cannot join yet$/m,
	'a server that is overtaken while it waits does not join');
query($node, 'UPDATE snowflake_feed SET horizon = 1');
my $old_snapshot = $node->background_psql('postgres', on_error_stop => 0);
$old_snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
query($node, $far);
$old_snapshot->query('SELECT snowflake_publish_horizon()');
like($old_snapshot->{stderr}, qr/this server is behind the feed, and cannot join yet/, '... nor while its transaction has an old snapshot');
$old_snapshot->quit;
query($node, 'UPDATE snowflake_feed SET horizon = 1; SELECT snowflake_publish_horizon()');
my $sonyflake = 'timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01';
behind($lock, 'SELECT snowflake_leave_feed(42)', "INSERT INTO snowflake_feed SELECT n, '$sonyflake', 1, n, 'other', now() FROM generate_series(42, 43) n");
is(query($node, "SELECT count(*), count(*) FILTER (WHERE server NOT IN (42, 43)) FROM snowflake_feed WHERE layout = '$sonyflake'"), '2|1',
	'who takes a server out stands in for a layout that has come meanwhile');
query($node, 'DELETE FROM snowflake_feed; SELECT snowflake_publish_horizon()');

# another table gets the name
query($node, 'CREATE ROLE stranger');
foreach my $change ('ALTER TABLE snowflake_feed RENAME TO snowflake_feed_old', 'DROP TABLE snowflake_feed')
{
	is(behind("SET LOCAL ROLE feed_owner; $change; SELECT snowflake_create_feed()", 'SELECT snowflake_publish_horizon() > 0'), "t\n", "who waits for: $change");
	is(query($node, 'SELECT count(*) FROM snowflake_feed'), 1, '... publishes in the new table');
}
query($node, 'DROP TABLE snowflake_feed_old');

# who must not write does not wait
$first->query_safe("BEGIN; $lock");
refused($node, "SET lock_timeout = '5s'; SET ROLE stranger; SELECT snowflake_publish_horizon()", '42501', qr/permission denied for table snowflake_feed/,
	'a role without rights waits for no lock');
$first->query_safe('COMMIT');

# meanwhile the table gets no index, whose expression runs when the server opens it
query($node, q{SET ROLE feed_owner; CREATE FUNCTION trap(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		RAISE WARNING 'the trap ran as %', current_user;
		RETURN $1;
	END $$});
$first->query_safe('BEGIN; SELECT snowflake_publish_horizon()');
$second = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT snowflake_publish_horizon() > 0' ], '>', \$second_out, '2>&1');
wait_until { is_waiting() } 'a session waits';
my $index = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SET ROLE feed_owner', '-c', 'CREATE INDEX CONCURRENTLY trap ON snowflake_feed ((server + trap(1)))' ], '>', \my $index_out, '2>&1');
wait_until { query($node, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX%'}) > 0 } 'the index waits';
$first->query_safe('COMMIT');
$second->finish;
is($second_out, "t\n", 'an index waits for those that publish');
$index->finish;
query($node, 'DROP INDEX trap');
$first->quit;

# a row that a subscriber lacks: it comes with the next publish
is(query($node, q{SELECT pg_create_logical_replication_slot('s', 'test_decoding') IS NOT NULL}), 't', 'a slot');
published($node, 'one more');
like(query($node, q{SELECT string_agg(data, E'\n') FROM pg_logical_slot_get_changes('s', NULL, NULL)}),
	qr/table public\.snowflake_feed: DELETE: .*\ntable public\.snowflake_feed: INSERT: /, 'each publish is a new row for subscribers');
query($node, q{SELECT pg_drop_replication_slot('s')});

# it leaves, and does not come back by itself
query($node, 'SELECT snowflake_leave_feed()');
refused($node, 'SELECT snowflake_feed_horizon()', '55000', qr/no server has published/, 'a server has left');
query($node, 'SELECT pg_sleep(0.2)');
is(query($node, 'SELECT count(*) FROM snowflake_feed'), 0, '... and the worker does not come back');
query($node, 'SELECT snowflake_publish_horizon()');
published($node, '... before it is told to');

# a database in which transactions begin read-only, and wait until that is safe
{
	my @settings = ('isolation = serializable', 'deferrable = on', 'read_only = on');

	query($node, "ALTER DATABASE postgres SET default_transaction_$_") foreach @settings;
	$node->stop;
	local $ENV{PGOPTIONS} = '-c default_transaction_deferrable=off -c default_transaction_read_only=off';
	start_with_clock($node, 0);
	my $writer = begin_session($node, 'BEGIN; CREATE TABLE of_writer ()');
	published($node, "where transactions are read-only by default, the worker publishes ($_)") foreach 1, 2;
	$writer->quit;
	query($node, "ALTER DATABASE postgres RESET default_transaction_$_") foreach map { /(\w+)/ } @settings;
}

# settings
set_conf($node, 'snowflake.feed_interval = 60s');
$node->poll_query_until('postgres', q{SELECT current_setting('snowflake.feed_interval') = '1min'}) or die 'no reload';
foreach my $late ([ '90 s', 'ok' ], [ '150 s', 'warning' ])
{
	is(query($node, "BEGIN; UPDATE snowflake_feed SET published = now() - interval '$late->[0]';
			SELECT status FROM snowflake_status() WHERE check_name = 'feed'; ROLLBACK"),
		$late->[1], "a server that publishes each minute, $late->[0] ago");
}
set_conf($node, 'snowflake.feed_interval = 20ms');
published($node, 'a reload');

# ---- a crash, and clocks ----

my $before = query($node, 'SELECT snowflake_publish_horizon()');
$node->stop('immediate');
start_with_clock($node, -1);
wait_until { answer($node, 'SELECT snowflake_nextval()') =~ /^\d+$/ } 'the clock';
cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', $before, 'after a crash, no ID is below what was published');
published($node, '... and the worker publishes');

# another database moves the counter beyond the mark of this one, and a life ends
query($node, "CREATE DATABASE $_") foreach qw(quiet busy);
my $quiet = sub { return $node->safe_psql('quiet', $_[0]) };
$node->safe_psql('busy', 'CREATE EXTENSION snowflake');
$quiet->('CREATE EXTENSION snowflake; SELECT snowflake_create_feed()');
$before = $quiet->('SELECT snowflake_publish_horizon()');
# no worker has this database
is(behind('DELETE FROM snowflake_feed', 'SELECT snowflake_publish_horizon()', undef, 'quiet'), "ERROR:  this server has been taken out of the feed meanwhile\nHINT:  To join again, run: SELECT public.snowflake_publish_horizon();\n",
	'a session that waits for its row, which is deleted');
is($quiet->('SELECT count(*) FROM snowflake_feed'), 0, '... and that stays out');
$before = $quiet->('SELECT snowflake_publish_horizon()');
set_clock($node, 30);
$node->safe_psql('busy', 'SELECT snowflake_nextval()');
set_clock($node, 0);
$before = $quiet->('SELECT snowflake_publish_horizon()');
$node->stop('immediate');
start_with_clock($node, 0);
wait_until { ($node->psql('quiet', 'SELECT snowflake_nextval()'))[0] == 0 } 'the clock';
cmp_ok($quiet->('SELECT snowflake_nextval()'), '>', $before, 'no horizon is above the mark of its database');
query($node, 'DROP DATABASE busy');
wait_until { answer($node, 'SELECT snowflake_nextval()') =~ /^\d+$/ } 'the clock';

# ---- prepared transactions ----

query($node, q{BEGIN; INSERT INTO t (c) VALUES (2); PREPARE TRANSACTION 'p'});
my $prepared = query($node, 'SELECT lowest_id FROM snowflake_horizon_holders');
query($node, 'SELECT pg_sleep(0.1)');
cmp_ok(horizon(), '<=', $prepared, 'a prepared transaction holds the feed back');
refused($node, 'SELECT snowflake_leave_feed()', '55006', qr/may still bring in IDs.*Stop the application, and end its last transactions: COMMIT PREPARED 'p'; or ROLLBACK PREPARED 'p';/s, 'and nobody leaves');
refused($node, 'BEGIN; INSERT INTO t (c) VALUES (2); SELECT snowflake_leave_feed()', '55006', qr/end its last transactions: COMMIT; or ROLLBACK; COMMIT PREPARED/,
	'... by name, and the own one does not end itself');
query($node, q{COMMIT PREPARED 'p'});
wait_until { query($node, 'SELECT count(*) FROM t WHERE id < snowflake_feed_horizon()') == 2 } 'its row';
published($node, '... until it ends');

# ---- a dump ----

query($node, 'CREATE PUBLICATION p FOR TABLE t, snowflake_feed');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump');
query($node, 'CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $dump ], '... is restored');
my $restored = sub { return $node->safe_psql('restored', $_[0]) };
is($restored->(q{SELECT string_agg(prrelid::regclass::text, ' ' ORDER BY 1) FROM pg_publication_rel}), 'snowflake_feed t', '... with its publication');
is($restored->('SELECT count(*) FROM snowflake_feed_servers WHERE holds_back'), 1, '... and rows');
like($restored->('SELECT snowflake_publish_horizon()'), qr/^\d+$/, '... and can be used');
is($restored->('SELECT count(*), count(DISTINCT server) FROM snowflake_feed'), '2|2', '... as another server');
$restored->('DROP EXTENSION snowflake CASCADE');
is($restored->('SELECT count(*) FROM snowflake_feed'), 2, 'the table is not the extension\'s');

# ---- a standby ----

my $standby = standby_of($node, 'standby', "snowflake.node_id = '2'");
start_with_clock($standby, 0);
$node->wait_for_catchup($standby);
published($standby, 'a standby reads the horizon');
query($node, 'INSERT INTO t (c) VALUES (3)');
wait_until { query($standby, 'SELECT count(*) FROM t WHERE id < snowflake_feed_horizon()') == 3 } 'the row on the standby';
pass('... and delivers all rows');
foreach my $call ('snowflake_publish_horizon()', 'snowflake_publish_shard_horizon()', 'snowflake_leave_feed()', 'snowflake_leave_feed(5)')
{
	refused($standby, "SELECT $call", '25006', qr/cannot execute .* during recovery/, "$call on a standby");
}
like(feed_row($standby), qr/^ok\|/, 'the status of a standby');

# the primary dies: its row stays, and holds the feed back
my $old = query($node, 'SELECT server FROM snowflake_feed_servers');
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
is(query($standby, 'SELECT server FROM snowflake_feed_servers WHERE holds_back'), $old, 'the old primary holds the feed back');
query($standby, "UPDATE snowflake_feed SET published = now() - interval '2 minutes' WHERE server = $old");
like(feed_row($standby), qr/^warning\|this server has no row in the feed/, 'the status says that it has not joined');
my (undef, $call) = split /\n/, query($standby, q{BEGIN; SELECT snowflake_publish_horizon();
	SELECT substring(remedy FROM 'run: (.*)$') FROM snowflake_status() WHERE check_name = 'feed'; ROLLBACK});
is($call, "SELECT public.snowflake_leave_feed('$old'::bigint);", 'the status names the call');
my (undef, undef, $err) = $standby->psql('postgres', $call);
like($err, qr/NOTICE:  server $old no longer holds the feed back\nDETAIL:  Feeds can pass over its rows with IDs from \d+ on that have not arrived here \(layout "\Q$layout\E"\)\.$/m, '... which says what can be lost');
like($err, qr/NOTICE:  this server has published its horizon, since it can make IDs\nHINT:  If it makes no IDs for this feed, run here: SELECT public\.snowflake_leave_feed\(\);/, '... and this server stands in for it');
published($standby, '... and then the feed goes on');
like(feed_row($standby), qr/^ok\|horizons published within a minute: 1\|$/, 'the status is well');

# a successor with shards only
$standby->append_conf('postgresql.conf', "snowflake.node_id = ''\nsnowflake.shards = '5'");
$standby->stop;
start_with_clock($standby, 0);
published($standby, 'a server that no longer has a node id goes on');
wait_until { query($standby, q{SELECT count(*) FROM snowflake_feed_servers WHERE horizon_time > clock_timestamp() - interval '1 s'}) > 0 } 'the horizon of a server without a node id';
like(feed_row($standby), qr/^ok\|/, '... so that it holds nobody back');
query($standby, "INSERT INTO snowflake_feed SELECT n, '$layout', n, 9, 'dead', now() - interval '2 minutes' FROM generate_series(98, 99) n");
like(feed_row($standby), qr/^warning\|server 98 \(dead\) holds the feed back: .*; [2-9] horizons are old\|/, 'the status counts the horizons that are old');
query($standby, 'SELECT snowflake_leave_feed(98)');
(undef, undef, $err) = $standby->psql('postgres', 'SELECT snowflake_leave_feed(99)');
like($err, qr/NOTICE:  this server has published its horizon, since it can make IDs/, 'a server with shards stands in');
is(query($standby, q{SELECT count(*) FROM snowflake_feed_servers WHERE layout LIKE '%shard%' AND horizon_time > now() - interval '1 minute'}), 1, '... with the horizon of its shards');

# the horizon of an idle server follows a clock that is ahead, as IDs do
query($standby, 'SELECT snowflake_leave_feed()');
like(feed_row($standby), qr/^warning\|this server has no row in the feed.*: SELECT public\.snowflake_publish_shard_horizon\(\);/, 'the status names the call for shards');
query($standby, 'SELECT snowflake_publish_shard_horizon()');
set_clock($standby, 600);
wait_until { query($standby, q{SELECT max(horizon_time) > clock_timestamp() - interval '1 minute' FROM snowflake_feed_servers}) eq 't' } 'the horizon follows the clock';
set_clock($standby, 0);
refused($standby, 'SELECT snowflake_shard_nextval(5)', '58000', qr/behind/, 'a clock that was ahead: the server waits, and makes no ID below its horizon');

# ---- a clock that is behind by more than snowflake.max_clock_jump ----

my $late = new_server('late', "snowflake.node_id = '3'");
start_with_clock($late, -7200);
query($late, 'CREATE EXTENSION snowflake; SELECT snowflake_create_feed()');
query($late, "INSERT INTO snowflake_feed SELECT 5, '$layout', snowflake_min_id(clock_timestamp() + interval '2 hours'), 8, 'other:1', clock_timestamp()");
refused($late, 'SELECT snowflake_publish_horizon()', '55000',
	qr/behind the feed, and cannot join yet.*If this server's clock is behind, correct it.* SELECT public\.snowflake_leave_feed\('5'::bigint\);/s,
	'a server whose clock is far behind does not join');
is(query($late, 'SELECT count(*) FROM snowflake_feed WHERE server <> 5'), 0, '... and has no row');
query($late, "INSERT INTO snowflake_feed VALUES (6, '$layout', 1, 8, 'other:1', clock_timestamp())");
refused($late, 'SELECT snowflake_leave_feed(6)', '55000', qr/behind the feed, and cannot join yet/, '... neither in place of another server');
$late->stop;
start_with_clock($late, 0);
like(query($late, 'SELECT snowflake_publish_horizon()'), qr/^\d+$/, '... before its clock is right');
$late->stop;

$standby->stop;
done_testing();
