# Lines in the log. Each event has a code, which is its SQLSTATE and stands before its
# message. No kind of event fills the log.
#
# takes: 15 s
use SnowflakeTest;
use POSIX qw(strftime);

my $node = new_server('main', "snowflake.log_interval = '1h'",
	"log_line_prefix = '%m [%p] %e '", 'snowflake.max_clock_wait = 10s');

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake');
query($node, $next);

sub set_interval
{
	my ($value) = @_;

	set_conf($node, "snowflake.log_interval = '$value'");
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.log_interval') = '$value'")
	  or die 'no reload';
	return;
}

# Return the lines of an event after a place in the log, each with its DETAIL and HINT.
sub lines_of
{
	my ($code, $from) = @_;

	return substr(slurp_file($node->logfile), $from) =~
	  /^(\S+ \S+ \S+ \[\d+\] \w+ \w+:  snowflake $code: .*\n(?:\S+ \S+ \S+ \[\d+\] \w+ (?:DETAIL|HINT):.*\n)*)/mg;
}

sub left_out
{
	my ($line) = @_;

	return $line =~ /DETAIL:  (?:.* )?(\d+) lines of this kind were left out before\./ ? $1 : 0;
}

# ---- many events at once ----

my $from = -s $node->logfile;
set_clock($node, -5);
$node->pgbench('--no-vacuum --client=8 --transactions=2', 0, [qr{processed: 16/16}],
	[qr{^}], 'eight sessions call, with a clock set back by 5 s',
	{ '001_events' => $next });
my @lines = lines_of('SF101', $from);
is(@lines, 1, 'the log tells of it once');
like($lines[0], qr/ SF101 LOG:  snowflake SF101: waiting for the wall clock, which is \d+ ms behind the next ID's timestamp, until \S+ \S+\n$/,
	'with its code as SQLSTATE, and nothing left out before');
my $waits = query($node, 'SELECT clock_waits FROM pg_stat_snowflake');
cmp_ok($waits, '>', 1, "while $waits calls waited");
$node->poll_query_until('postgres', q{SELECT snowflake_nextval() > 0
	AND clock_steps_back > 0 FROM pg_stat_snowflake}) or die 'no step';
@lines = lines_of('SF102', $from);
is(@lines, 1, 'of the step it tells once, too');
# another session may count its event between the two steps of the one that logs
like($lines[0], qr/ SF102 LOG:  snowflake SF102: wall clock was set back by [45]\d\d\d ms\n(?:.*left out before\.\n)?$/, 'and says how far');
@lines = lines_of('SF103', $from);
is(@lines, 0, 'no step forward');

# ---- the next line counts the suppressed events ----

set_interval('0');
$from = -s $node->logfile;
foreach (1 .. 3)
{
	set_clock($node, -5 - 4 * $_);
	query($node, $next);
}
@lines = lines_of('SF101', $from);
is(@lines, 3, 'log_interval = 0: each is told');
is(left_out($lines[0]), $waits - 1, 'the first says how many were left out');
is(left_out($_), 0, 'the others left out none') foreach @lines[ 1, 2 ];
set_clock($node, 60);
query($node, $next);
@lines = lines_of('SF103', $from);
is(@lines, 1, 'a step forward');
like($lines[0], qr/ SF103 LOG:  snowflake SF103: wall clock was set forward by (?:1 min(?: \d+ s)?|[67]\d s)\n$/, 'and how far');

# ---- an event with an interval of its own: once a day ----

set_interval('1min');
$node->stop;
$node->append_conf('postgresql.conf', 'snowflake.layout = \'timestamp:40 node:10 sequence:12 epoch:'
	  . strftime('%Y-%m-%d', gmtime(time() - 2**40 / 1000 + 100.5 * 86400)) . "'\nsnowflake.shards = '7'\n"
	  . "snowflake.shard_layout = 'timestamp:40 shard:13 sequence:10 epoch:"
	  . strftime('%Y-%m-%d', gmtime(time() - 2**40 / 1000 + 200.5 * 86400)) . "'");
$from = -s $node->logfile;
start_with_clock($node, 0);
query($node, 'CREATE DATABASE other');
query($node, 'CREATE EXTENSION snowflake', database => 'other');
query($node, $next, database => 'other');
$node->poll_query_until('other', q{SELECT last_value < extract(epoch FROM clock_timestamp()) * 1000 FROM snowflake_state.snowflake_mark}) or die;
query($node, $next, database => 'other');
@lines = lines_of('SF501', $from);
is(@lines, 1, 'the end of a layout: once a day');
like($lines[0], qr/ SF501 WARNING:  snowflake SF501: layout reaches its last timestamp in (?:99|100|101) days\n.* SF501 HINT:  Choose/, 'with a hint');

# a layout that a call names has its own limit
my $named = 'timestamp:40 node:10 sequence:12 epoch:' . strftime('%Y-%m-%d', gmtime(time() - 2**40 / 1000 + 50.5 * 86400));
query($node, "SELECT snowflake_nextval('$named')", database => 'other') foreach 1 .. 2;
@lines = lines_of('SF501', $from);
is(@lines, 2, 'the end of another layout: once a day, too');
like($lines[1], qr/ SF501 WARNING:  snowflake SF501: layout reaches its last timestamp in (?:49|50|51) days\n.* SF501 DETAIL:  The layout is "\Q$named\E"/, 'and which it is');

# nor do they hide the end of the layout for shards
query($node, 'SELECT snowflake_shard_nextval(7)', database => 'other');
$node->poll_query_until('other', q{SELECT last_value < extract(epoch FROM clock_timestamp()) * 1000 FROM snowflake_state.snowflake_mark}) or die;
query($node, 'SELECT snowflake_shard_nextval(7)', database => 'other');
@lines = lines_of('SF501', $from);
is(scalar(grep { /in (?:199|200|201) days\n.* HINT:  Choose/ } @lines), 1, 'the end of the layout for shards: once a day, too');
$node->stop;

# ---- the server's log collector reads each reload, and has no shared memory ----

my $collected = new_server('collected', 'logging_collector = on', q{log_filename = 'a.log'});
sub collector
{
	my ($postmaster) = slurp_file($collected->data_dir . '/postmaster.pid') =~ /^(\d+)/;

	return join ' ', `ps -o pid=,args= --ppid $postmaster` =~ /^ *(\d+) .*logger/mg;
}
$collected->start;
query($collected, 'CREATE EXTENSION snowflake');
query($collected, $next);
my $collector = collector();
ok($collector, 'there is a log collector');
foreach my $file ('b', 'c')
{
	set_conf($collected, "snowflake.node_id = '2'\nlog_filename = '$file.log'");
	# the collector opens the new file when it has read the reload
	wait_until { -e $collected->data_dir . "/log/$file.log" } 'no reload';
	pass('the log collector has read a reload');
}
is(collector(), $collector, 'and lives');
$collected->stop;

done_testing();
