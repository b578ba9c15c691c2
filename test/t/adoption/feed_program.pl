# examples/feed.py: one cursor over the rows of two servers. The program reads on a standby
# of the server that collects the rows. It is killed again and again, while clients
# insert, and in the end it has counted each row once, also one that commits late.
#
# takes: 20 s
# needs: python3-psycopg
use SnowflakeTest;
use IPC::Run;
use List::Util qw(max);
use Time::HiRes qw(usleep);

my $orders = 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL)';
my @program = ('/usr/bin/python3', "$root/examples/feed.py");

# ---- two servers that make rows, one that collects them, and its standby ----

my ($a, $b) = map {
	start_server($_, 'wal_level = logical', "snowflake.node_id = '" . ($_ eq 'a' ? 1 : 2) . "'",
		"snowflake.feed_databases = 'postgres'", "snowflake.feed_interval = '50ms'")
} qw(a b);
my $collector = start_server('collector', "snowflake.node_id = '3'");
query($_, "$orders; SELECT snowflake_create_feed()") foreach $a, $b, $collector;
foreach my $node ($a, $b)
{
	my $name = $node->name;

	query($node, 'CREATE PUBLICATION orders FOR TABLE orders, snowflake_feed');
	query($collector, sprintf("CREATE SUBSCRIPTION from_%s CONNECTION '%s dbname=postgres' PUBLICATION orders",
			$name, $node->connstr));
	$collector->wait_for_subscription_sync($node, "from_$name");
	query($node, 'SELECT snowflake_publish_horizon()');
}
my $standby = standby_of($collector, 'standby');
$standby->start;
wait_until { query($standby, 'SELECT count(horizon) FROM snowflake_feed_servers') eq '2' }
  'a server has not joined';

# ---- clients, and the program ----

my $script = PostgreSQL::Test::Utils::tempdir . '/script';
append_to_file($script, q{
	\set n random(1, 5)
	\set us random(0, 20000)
	BEGIN;
	INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, :n) n;
	\sleep :us us
	COMMIT;
});
# Let clients insert rows on both servers.
sub start_clients
{
	return map {
		IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-t', 20, '-f', $script, $_->connstr('postgres') ],
			'>', \my $out, '2>', \my $err,
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default))
	} $a, $b;
}

sub start_program
{
	local $ENV{SNOWFLAKE_FEED} = $standby->connstr('postgres');
	local $ENV{PGHOST} = $collector->host;
	local $ENV{PGPORT} = $collector->port;
	local $ENV{PGDATABASE} = 'postgres';

	return IPC::Run::start(\@program, '<', \'', '>', \my $out, '2>', \my $err);
}

# Kill the program, and return true if it ran until then.
sub kill_program
{
	my ($program) = @_;

	$program->signal('KILL');
	$program->finish;
	return ($program->full_results)[0] == 9;
}

sub cursor
{
	return query($collector, 'SELECT last_id FROM cursors');
}

my $program = start_program();
wait_until { query($collector, q{SELECT to_regclass('cursors')}) ne '' } 'the program makes no tables';
my $killed = kill_program($program);
my $inserted = 0;
foreach (1 .. 10)
{
	my $before = cursor();
	my @clients = start_clients();

	$program = start_program();
	wait_until { cursor() > $before } 'the program reads nothing';
	usleep(rand(50_000));
	$killed += kill_program($program);
	$inserted += IPC::Run::finish($_) foreach @clients;
}
is($killed, 11, 'the program was killed 11 times');
is($inserted, 20, 'all clients have inserted their rows');

# ---- a row that commits late ----

sub wait_for_last
{
	my $last = max(map { query($_, 'SELECT max(id) FROM orders') } $a, $b);

	wait_until { cursor() == $last } 'the program does not come to the last row';
	return;
}

# Return when the program has looked for rows.
sub looked
{
	return query($standby, q{SELECT max(query_start) FROM pg_stat_activity
		WHERE query LIKE '%FROM orders%' AND pid <> pg_backend_pid()});
}

$program = start_program();
wait_for_last();
my $insert = "INSERT INTO orders (item) VALUES ('late') RETURNING id";
my $late = begin_session($b, 'BEGIN');
my $low = $late->query_safe($insert);
my $high = query($a, $insert);
cmp_ok($low, '<', $high, 'a row commits after one with a later ID');
wait_until { query($standby, "SELECT count(*) FROM orders WHERE id = $high") eq '1' } 'the row does not arrive';
foreach (1 .. 2)
{
	my $seen = looked();
	wait_until { looked() ne $seen } 'the program does not look';
}
$late->query_safe('COMMIT');
$late->quit;

wait_for_last();
kill_program($program);
my $rows = query($collector, 'SELECT count(*) FROM orders');
is($rows, query($a, 'SELECT count(*) FROM orders') + query($b, 'SELECT count(*) FROM orders'),
	"$rows rows have arrived");
is(query($collector, 'SELECT sum(orders) FROM items'), $rows, 'the program has counted as many');
is(query($collector, q{SELECT count(*) FROM (SELECT item, count(*) AS orders FROM orders GROUP BY item) o
	FULL JOIN items i USING (item) WHERE o.orders IS DISTINCT FROM i.orders}),
	'0', 'of each item, too');

done_testing();
