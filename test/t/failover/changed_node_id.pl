# A configured node id changes by a reload, while clients make IDs: no call fails, the IDs
# of each session ascend, no ID is there twice, and a feed sees each row. A promoted
# standby with its primary's number gets another one without a restart.
#
# takes: 20 s
use SnowflakeTest;
use IPC::Run;
use Time::HiRes qw(usleep);

# With ticks of 100 ms many IDs share a tick, and there the node decides the order.
my $layout = 'timestamp:38 node:10 sequence:15 tick:100ms epoch:2024-01-01';
my $primary = new_server('primary', "snowflake.layout = '$layout'", "snowflake.node_id = '500'", 'autovacuum = off');

sub change_node
{
	my ($node, $id) = @_;

	alter_system($node, "SET snowflake.node_id = '$id'");
	$node->poll_query_until('postgres', "SELECT node_id = $id FROM snowflake_lease()")
	  or die "the node id does not become $id";
	return;
}

$primary->start;
query($primary, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), client int, n serial);
	CREATE TABLE j (id bigint PRIMARY KEY DEFAULT snowflake_nextval('snowflake'), client int, n serial);
});

# ---- under load ----

my $script = PostgreSQL::Test::Utils::tempdir() . '/insert.sql';
append_to_file($script, q{
	\set us random(0, 3000)
	BEGIN;
	INSERT INTO t (client) VALUES (:client_id), (:client_id);
	\sleep :us us
	INSERT INTO t (client) VALUES (:client_id);
	INSERT INTO j (client) VALUES (:client_id);
	COMMIT;
});
my ($out, $err) = ('', '');
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', '6', '-j', '2', '-T', '600', '-f', $script,
		'-h', $primary->host, '-p', $primary->port, 'postgres' ], '>', \$out, '2>', \$err);
my $reader = $primary->background_psql('postgres');
$reader->set_query_timer_restart;
my ($last, $read) = (0, 0);

# Read on. Return how many of the rows are those of this node id.
my $read_on = sub {
	my ($node) = @_;
	my ($n, $to, $of_node) = split /\|/, $reader->query_safe(
		"SELECT count(*), coalesce(max(id), $last), count(*) FILTER (WHERE snowflake_node(id) = $node) "
		  . "FROM t WHERE id > $last AND id < snowflake_horizon()");

	$last = $to;
	$read += $n;
	return $of_node;
};

# each round lasts until some rows have been read under the new node id
my @numbers = (7, 900, 3, 1023, 0, 501, 500, 8);
my $stuck = '';
foreach my $id (@numbers)
{
	my $new = 0;
	my $last_try = time + $PostgreSQL::Test::Utils::timeout_default;

	change_node($primary, $id);
	while ($new < 200 && time < $last_try)
	{
		$new += $read_on->($id);
		usleep(10_000);
	}
	$stuck = $id if $new < 200;
	last if $stuck ne '';
}
is($stuck, '', 'a feed goes on after each change');
$load->signal('TERM');		# INT may be ignored
$load->finish;
unlike($err, qr/ERROR|aborted/, 'no call fails while the node id changes');
my $last_try = time + $PostgreSQL::Test::Utils::timeout_default;
while ($read < query($primary, 'SELECT count(*) FROM t') && time < $last_try)
{
	$read_on->(8);
	usleep(10_000);
}
is($read, query($primary, 'SELECT count(*) FROM t'), 'a feed has seen each row');
$reader->quit;
is( query($primary, q{SELECT string_agg(DISTINCT snowflake_node(id)::text, ' ') FROM t}),
	join(' ', sort { $a cmp $b } @numbers), 'under all node ids');
foreach my $table ('t', 'j')
{
	is(query($primary, "SELECT count(*) FROM (SELECT id <= lag(id) OVER (PARTITION BY client ORDER BY n) AS descends FROM $table) s WHERE descends"),
		'0', "$table: the IDs of each session ascend");
	is(query($primary, "SELECT count(*) - count(DISTINCT id) FROM $table"), '0', "$table: no ID is there twice");
}
is(query($primary, q{SELECT status FROM snowflake_status() WHERE check_name = 'node id'}), 'ok', 'all is well');

# ---- in one tick ----

# most of these changes are over before the tick of a second is
my $slow = start_server('slow', "snowflake.layout = 'timestamp:36 node:10 sequence:16 tick:1s epoch:2024-01-01'",
	"snowflake.node_id = '1000'");
my $snapshot = begin_session($slow, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT snowflake_horizon()');
my $horizon = $snapshot->query_safe('SELECT snowflake_horizon()');
foreach my $id (900, 800, 700, 600, 500, 400, 300, 200)
{
	my $last_id = query($slow, 'SELECT snowflake_nextval()');

	change_node($slow, $id);
	cmp_ok(query($slow, 'SELECT snowflake_nextval()'), '>', $last_id, "a lower node id, $id, and a higher ID");
}
is($snapshot->query_safe('SELECT snowflake_horizon()'), $horizon, 'one snapshot has one horizon meanwhile');
$snapshot->quit;
$slow->stop;

# ---- after a promotion ----

my $same = standby_of($primary, 'same');
$same->start;
$same->promote;
my $session = $same->background_psql('postgres', on_error_stop => 0);
my $before = query($primary, 'SELECT snowflake_nextval()');
$session->query('SELECT snowflake_nextval()');
my $says = q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'node id'};
my ($line, $reset, $reload) = query($same, $says)
  =~ /^error\|8 is configured, and a server that this one was copied from, which was seen running, has it, too\|Choose a number .*:\n(snowflake.node_id = 'NUMBER')\nand run:\n(ALTER SYSTEM RESET snowflake.node_id;)\n(SELECT pg_catalog\.pg_reload_conf\(\);)\nOnly if/;
ok($line && $reload, "it has its primary's number") or die query($same, $says);
$same->append_conf('postgresql.conf', $line =~ s/NUMBER/9/r);
query($same, $reset);
query($same, $reload);
$same->poll_query_until('postgres', "SELECT found ~ '^9 is configured' AND status = 'ok'
	FROM snowflake_status() WHERE check_name = 'node id'") or die query($same, $says);
is($session->query("SELECT snowflake_node(snowflake_nextval()), snowflake_nextval() > $before"), '9|t',
	'the remedy gives a promoted standby its own number, in sessions that go on');
$session->quit;
foreach (1, 2)
{
	$same->restart;
	is(query($same, q{SELECT snowflake_node(snowflake_nextval()) || ' ' || status FROM snowflake_status() WHERE check_name = 'node id'}),
		'9 ok', 'which a restart does not forget');
}
is(query($primary, 'SELECT snowflake_node(snowflake_nextval())'), '8', 'the primary has kept its own');
$same->stop;

# ---- copies: a reload does what a start would have done ----

my $runs = qr/this data directory is a copy of another server's\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id \d+/;

# A base backup is made after the reload, and before the next ID; and after two reloads in
# a row. It has the node id of its original in its configuration, and in its record.
foreach my $ids ([11], [ 12, 13 ], [ 14, 15, 14 ])
{
	my $name = join '_', 'copy', @$ids;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	foreach my $id (@$ids)
	{
		change_node($primary, $id);
		query($primary, 'SELECT snowflake_nextval()') if @$ids > 1 && $id != $ids->[-1];
	}
	$primary->backup($name);
	$copy->init_from_backup($primary, $name);
	$copy->start;
	refused($copy, 'SELECT snowflake_nextval()', '55000', $runs, "a copy that was made after changes to @$ids");
	like(query($primary, 'SELECT snowflake_node(snowflake_nextval())'), qr/^$ids->[-1]$/, 'while its original goes on');

	# a reload gives the copy a number of its own: then it is a server of its own
	query($copy, 'ALTER SYSTEM RESET snowflake.node_id');
	set_conf($copy, "snowflake.node_id = '99'");
	$copy->poll_query_until('postgres', q{SELECT node_id = 99 FROM snowflake_lease()}) or die;
	is(query($copy, 'SELECT snowflake_node(snowflake_nextval())'), '99', 'a reload gives it a number of its own');
	like(query($copy, q{SELECT found FROM snowflake_status() WHERE check_name = 'copied data directory'}), qr/no copy/,
		'and it is a copy no more');
	$copy->backup("of_$name");
	my $second = PostgreSQL::Test::Cluster->new("second_$name");
	$second->init_from_backup($copy, "of_$name");
	$second->start;
	refused($second, 'SELECT snowflake_nextval()', '55000', $runs, 'so a copy of it is one');
	$_->stop foreach $second, $copy;
}
$primary->stop;
done_testing();
