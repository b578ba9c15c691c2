# Statistics. After transactions have ended, in whatever way, the counts are exact.
# Each kind of wait, step and refusal has its own count.
#
# takes: 15 s
use SnowflakeTest;

my $node = new_server('main', "snowflake.shards = '3,7'",
	'max_prepared_transactions = 5', 'snowflake.reserve = 1s');
start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake');

sub stat_of
{
	my (@columns) = @_;

	return query($node, 'SELECT ' . join(', ', @columns) . ' FROM pg_stat_snowflake');
}

# ---- counts are exact, and change when a transaction ends ----

query($node, 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v integer)');
is(stat_of(qw(node_ids shard_ids node_batches shard_batches)), '0|0|0|0',
	'nothing is counted before anything was made');
my $session = begin_session($node, 'BEGIN; INSERT INTO t (v) SELECT generate_series(1, 10)');
is(stat_of('node_ids'), '0', 'a transaction that runs has not been counted');
$session->query_safe('COMMIT');
is(stat_of('node_ids'), '10', 'one that was committed has');
$session->query_safe('BEGIN; SELECT snowflake_nextval(); ROLLBACK');
is(stat_of('node_ids'), '11', 'one that was rolled back, too');
$session->query_safe(q{BEGIN; SELECT snowflake_nextval(); PREPARE TRANSACTION 'p'});
is(stat_of('node_ids'), '12', 'and a prepared one, once');
$session->query_safe(q{COMMIT PREPARED 'p'});
is(stat_of('node_ids'), '12', 'not again where it is committed');
$session->query_safe(q{DO $$ BEGIN
	PERFORM snowflake_nextval();
	BEGIN
		PERFORM snowflake_nextval();
		RAISE EXCEPTION 'x';
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
END $$});
is(stat_of('node_ids'), '14', 'IDs of subtransactions that were rolled back');
$session->query_safe('SELECT count(*) FROM snowflake_nextval_batch(100)');
$session->query_safe('SELECT count(*) FROM snowflake_shard_nextval_batch(3, 50)');
$session->query_safe('SELECT snowflake_shard_nextval(7)');
is(stat_of(qw(node_ids shard_ids node_batches shard_batches)), '114|51|1|1',
	'batches and shards');
$session->quit;

# a session that is killed in a transaction: its counts are not lost
my ($in, $out, $err) = ('', '', '');
my $client = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
	'<', \$in, '>', \$out, '2>', \$err);
$in .= "BEGIN;\nSELECT 'pid', pg_backend_pid(), snowflake_nextval();\n";
$client->pump until $out =~ /pid\|(\d+)/;
my ($pid) = $out =~ /pid\|(\d+)/;
query($node, "SELECT pg_terminate_backend($pid)");
$node->poll_query_until('postgres',
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") or die;
$client->kill_kill;
is(stat_of('node_ids'), '115', 'a session that was ended has counted');

# eight clients at once
$node->pgbench('-n -c 8 -j 2 -t 200', 0, [qr/processed: 1600\/1600/], [qr/^$/],
	'eight clients',
	{ 'stats' => 'INSERT INTO t (v) SELECT generate_series(1, 5)' });
is(stat_of('node_ids'), 115 + 8 * 200 * 5, 'eight clients are counted exactly');

# ---- the mark ----

cmp_ok(stat_of('mark_extensions'), '>', 0, 'extensions of the mark');
cmp_ok(stat_of('mark_extension_time'), '>', 0, 'and their time');
is(stat_of('mark > last_timestamp', 'layout_end > mark', 'shard_layout_end IS NOT NULL'),
	't|t|t', 'the mark, and the end of the layouts');
is(query($node, q{SELECT last_timestamp = snowflake_timestamp(max(id))
	FROM pg_stat_snowflake, t GROUP BY last_timestamp}), 't',
	'the last timestamp is that of the last ID');
is(stat_of('node_id', 'node_state', 'lease_until'), '1|configured|', 'the node');

# ---- waits ----

is(stat_of(qw(sequence_waits sequence_wait_time)), '0|0', 'no full sequence yet');
query($node, 'SELECT count(*) FROM (SELECT snowflake_nextval_batch(100000)) s');
cmp_ok(stat_of('sequence_waits'), '>', 0, 'a full sequence');
cmp_ok(stat_of('sequence_wait_time'), '>', 0, 'and the time');
# the clock of another processor may be a tick behind
like(stat_of('max_drift'), qr/^[1-6]$/, 'which was drifted up to');

is(stat_of(qw(clock_waits clock_steps_back clock_steps_forward last_clock_step)),
	'0|0|0|', 'no step of the clock yet');
my $waits = begin_session($node, 'SELECT snowflake_nextval()');
set_clock($node, -2.5);
$waits->query_safe('SELECT snowflake_nextval()');
$waits->quit;
is(stat_of('clock_waits', 'clock_wait_time > 0'), '1|t',
	'a clock that was set back is waited for, once');
query($node, 'SELECT pg_sleep(0.1), snowflake_nextval()')
	until stat_of('clock_steps_back') > 0;
is(stat_of('clock_steps_back', 'max_clock_step_back BETWEEN 2400 AND 2600',
	'last_clock_step > mark - interval \'10 s\''), '1|t|t', 'the step is counted');
set_clock($node, 0);
query($node, 'SELECT pg_sleep(0.1), snowflake_nextval()')
	until stat_of('clock_steps_forward') > 0;
is(stat_of('clock_steps_forward', 'max_clock_step_forward BETWEEN 2400 AND 2600'),
	'1|t', 'and the one forward');

# a wait for the mark that is cancelled is counted with its time
is(stat_of('mark_waits > 0'), 't', 'the first call of a server waits for the mark');
my $before = stat_of('mark_waits');
my $time = stat_of('mark_wait_time');
my $waiter = $node->background_psql('postgres', on_error_stop => 0);
$waiter->query_safe(q{SELECT snowflake_nextval(); SET statement_timeout = '4s'});
my $holder = begin_session($node, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
$waiter->query(q{SELECT count(snowflake_nextval())
	FROM (SELECT generate_series(1, 1000000000)) s});
like($waiter->{stderr}, qr/statement timeout\n(?:psql.*)?CONTEXT:  (?:waiting for \w+ on relation .*\n)?waiting until the mark of this database is moved to \d{4}-/, 'a wait for the mark is cancelled, and the error says so');
$holder->query_safe('ROLLBACK');
$holder->quit;
$waiter->quit;
cmp_ok(stat_of('mark_waits'), '>', $before, 'and was counted');
cmp_ok(stat_of('mark_wait_time'), '>', $time, 'with its time');

# ---- refusals ----

my @refused = qw(refused_clock refused_lease refused_configuration
	refused_read_only refused_end refused_wait);

is(stat_of(@refused), '0|0|0|0|0|1', 'nothing was refused; one was cancelled while it waited');
set_clock($node, -3600);
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind/, 'a clock far back');
set_clock($node, 0);
refused($node, 'SELECT snowflake_shard_nextval(4)', '55000', qr/shard 4/, 'another shard');
refused($node, 'BEGIN READ ONLY; SELECT snowflake_nextval()', '25006',
	qr/read-only/, 'read-only');
alter_system($node, q{SET snowflake.max_clock_wait = '1min'});
$node->poll_query_until('postgres', q{SELECT current_setting('snowflake.max_clock_wait') = '1min'}) or die;
query($node, 'SELECT snowflake_nextval()');
set_clock($node, -20);
refused($node, 'SET statement_timeout = 500; SELECT snowflake_nextval()', '57014',
	qr/statement timeout\nCONTEXT:  waiting until \d{4}-\S+ \S+ for the wall clock, which is [\d.]+ s behind the next ID's timestamp/,
	'a wait for the clock is cancelled, and the error says so');
set_clock($node, 0);
is(stat_of(@refused), '1|0|1|1|0|2', 'each by its kind');

# ---- a wait that an error ends, which is caught: what follows is no wait ----

my $catcher = begin_session($node, 'SELECT snowflake_nextval()');
$before = stat_of('mark_waits');
$time = stat_of('mark_wait_time');
set_clock($node, '+2d');
$catcher->query_safe(q{DO $$
DECLARE
	begun timestamptz := clock_timestamp();
BEGIN
	BEGIN
		PERFORM snowflake_nextval();
	EXCEPTION WHEN system_error THEN
		PERFORM set_config('test.took', (extract(epoch FROM clock_timestamp() - begun) * 1000)::text, false);
	END;
	PERFORM pg_sleep(1);
END $$});
is(stat_of("mark_waits - $before"), '1', 'a wait ends in an error, which is caught');
is($catcher->query_safe("SELECT mark_wait_time - $time <= current_setting('test.took')::float8
	FROM pg_stat_snowflake"), 't', 'and only its own time is counted');
$catcher->quit;
set_clock($node, 0);

# ---- rights, and the reset ----

query($node, 'CREATE ROLE nobody LOGIN');
is(query($node, 'SET ROLE nobody; SELECT count(*) FROM pg_stat_snowflake'), '1',
	'everybody may read');
refused($node, 'SET ROLE nobody; SELECT snowflake_stat_reset()', '42501',
	qr/permission denied/, 'not everybody may reset');
query($node, 'CREATE TEMP TABLE old AS SELECT stats_reset FROM pg_stat_snowflake;
	SELECT snowflake_stat_reset()');
is(stat_of(qw(node_ids sequence_waits max_drift last_clock_step), @refused),
	'0|0|0||0|0|0|0|0|0', 'a reset begins anew');
is(stat_of("stats_reset > now() - interval '1 min'"), 't', 'and says when');

# ---- at capacity, each wait is as long as the call needs, and no longer ----

# 4 IDs a tick: beyond the drift, calls wait for 500 ticks
my $full = start_server('full', 'snowflake.max_clock_drift = 1000ms',
	"snowflake.layout = 'timestamp:41 node:10 sequence:2'");
query($full, 'SELECT count(snowflake_nextval()) FROM generate_series(1, 6000)');
cmp_ok(query($full, 'SELECT sequence_waits FROM pg_stat_snowflake'), '>', 20,
	'a call at capacity sleeps for the next tick, not for a part of the drift');
my $stderr = '';
for (my $i = 0; $i < 10 && $stderr !~ /CONTEXT/; $i++)
{
	$full->psql('postgres', q{SET statement_timeout = '3s'; SELECT count(snowflake_nextval()) FROM generate_series(1, 100000)},
		stderr => \$stderr);
}
like($stderr, qr/statement timeout\nCONTEXT:  waiting for the next tick, since all IDs of this one are made/,
	'which the error of a cancelled one says');
$full->stop;

# ---- other layouts; after a restart the counts begin at 0 ----

$node->stop;
$node->append_conf('postgresql.conf', "snowflake.node_id = ''");
$node->start;
is(stat_of('node_ids', 'node_state'), '0|not configured', 'after a start all begins anew');
refused($node, 'SELECT snowflake_nextval()', '55000', qr/node_id is not set/, 'no node');
is(stat_of(@refused), '0|0|1|0|0|0', 'is refused as a matter of configuration');
$node->stop;

done_testing();
