# doc/audit.md and examples/audit.sql: who made which IDs, from files of the log that the
# server has rotated, one for each day of the week.
#
# takes: 20 s
# needs: jq
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $root = "$FindBin::RealBin/../../..";
my $page = slurp_file("$root/doc/audit.md");
my ($conf) = $page =~ /```conf\n(.*?)```/s;
my ($jq, $psql) = $page =~ /```sh\n(.*?)```/gs;
my ($who, $ids) = $page =~ /```sql\n(.*?)```/gs;

# The days of the log are those of log_timezone, 9 h ahead of UTC.
my $node = new_server('main', $conf, q{log_destination = 'csvlog, jsonlog'}, q{log_timezone = 'Asia/Tokyo'},
	q{timezone = 'Asia/Tokyo'}, q{snowflake.shards = '0-49'}, q{snowflake.max_clock_jump = '366d'}, 'autovacuum = off');
my $log = $node->data_dir . '/log';

# Go to noon in Tokyo, on a day of January 2026 whose 5th is a Monday. Wait until the
# server has begun the file of that day.
sub go_to
{
	my ($day) = @_;
	my $file = "$log/postgresql-" . (qw(Sun Mon Tue Wed Thu Fri Sat))[ ($day - 4) % 7 ] . '.csv';

	set_clock($node, sprintf '@2026-01-%02d 03:00:00', $day);
	for (1 .. 6000)
	{
		query($node, q{DO $$ BEGIN RAISE LOG 'wake the logger'; END $$});
		return if -e $file && slurp_file($file) =~ sprintf '(?m)^2026-01-%02d .*wake the logger', $day;
		usleep(30_000);
	}
	die "no $file";
}

# Run statements, and return the lines that they print.
sub run
{
	my ($sql, %options) = @_;

	return split /\n/, query($node, $sql, %options);
}

# Return columns of what is said of an ID, once the log has it.
sub who
{
	my ($id, $columns, $since) = @_;
	my $call = "audit.who($id" . ($since ? ", '$since'" : '') . ')';

	$node->poll_query_until('app', "SELECT count(*) > 0 FROM $call") or return 'nobody';
	return query($node, "SELECT $columns FROM $call", database => 'app');
}

SnowflakeTest::set_clock($node, '@2026-01-04 03:00:00');
start_by_clock($node, SnowflakeTest::clock_file($node));
query($node, $_) for 'CREATE DATABASE app', 'CREATE ROLE alice LOGIN', 'CREATE ROLE auditor LOGIN';
query($node, 'CREATE EXTENSION snowflake; GRANT CREATE ON SCHEMA public TO alice;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c text); GRANT INSERT, SELECT ON t TO alice', database => 'app');
go_to(5);
{
	local @ENV{qw(PGHOST PGPORT)} = ($node->host, $node->port);

	$psql =~ s{examples/}{$root/examples/};
	is(system(qq{sh -c '$psql' >/dev/null}), 0, 'the example runs, while most files are not there');
}
query($node, 'GRANT USAGE ON SCHEMA audit TO auditor; GRANT SELECT ON ALL TABLES IN SCHEMA audit TO auditor', database => 'app');

# ---- one day ----

my $snowflake = 'timestamp:41 node:10 sequence:12 epoch:2024-01-01';
my $as_alice = q{SET SESSION AUTHORIZATION alice; SET application_name = 'shop';};
my ($one) = run("$as_alice INSERT INTO t (c) VALUES ('a'); SELECT snowflake_currval()", database => 'app');

like(who($one, '*'), qr{^t\|2026-01-05 12:0.*\|1\|alice\|app\|shop\|\[local\]\|\d+\|\d+\|commit\|.*\|$snowflake\|\|$one\|$one\|1$},
	'who made an ID');
$who =~ s/\b383267329925976064\b/$one/;
like(query($node, $who, database => 'app'), qr/^t\|2026-01-05 .*\|1\|alice\|shop\|\[local\]\|commit$/, 'as on the page');
like(query($node, $ids, database => 'app'), qr/^$one\|\|\|\d+\|2026-01-05 .*\|alice$/, 'and the IDs of a day');
is(query($node, "SET SESSION AUTHORIZATION auditor; SELECT caller FROM audit.ids WHERE id = $one", database => 'app'),
	'alice', 'a role that may ask');
refused($node, 'SET SESSION AUTHORIZATION alice; SELECT * FROM audit.ids', '42501', qr/permission denied/, 'one that may not',
	database => 'app');

# Batches, with IDs of more than one tick, and layouts of all kinds. The sequence of
# "sonyflake" is not in the lowest bits, and "twitter" has a datacenter and a worker.
foreach ([ 'snowflake_nextval_batch(10000)', $snowflake, '\N' ],
	[ q{snowflake_nextval_batch(700, 'sonyflake')}, 'timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01', '\N' ],
	[ q{snowflake_nextval_batch(5, 'twitter')}, 'timestamp:41 datacenter:5 worker:5 sequence:12 epoch:2010-11-04T01:42:54.657Z', '\N' ],
	[ q{snowflake_nextval_batch(40, 'javascript')}, 'timestamp:41 node:7 sequence:5 epoch:2024-01-01', '\N' ],
	[ 'snowflake_shard_nextval_batch(7, 3000)', 'timestamp:41 shard:13 sequence:10 epoch:2011-08-24T21:07:01.721Z', 7 ])
{
	my ($call, $layout, $shard) = @$_;
	my @made = run("$as_alice SELECT * FROM $call", database => 'app');
	my $middle = $made[ @made / 2 ];

	is(who($middle, q{exact, caller, layout, coalesce(shard::text, '\N'), first_id, last_id, ids}),
		join('|', 't', 'alice', $layout, $shard, $made[0], $made[-1], scalar @made), "$call: who made one in the middle");
	is_deeply([ run("SELECT id FROM audit.ids WHERE layout = '$layout' AND day = '2026-01-05' AND ids = "
		. @made . ' ORDER BY id', database => 'app') ], \@made, "$call: a row for each ID");
}
is(query($node, q{SELECT DISTINCT datacenter_id, worker_id, node_id FROM audit.ids WHERE layout ~ 'datacenter'}, database => 'app'),
	'0|1|1', 'the datacenter and the worker');

# IDs between those of others
{
	my $session = $node->background_psql('app');
	my $first = $session->query_safe('BEGIN; SELECT snowflake_nextval()');
	my @between = run("$as_alice SELECT * FROM snowflake_nextval_batch(3)", database => 'app');
	my @others = split /\n/, $session->query_safe('SELECT snowflake_nextval(); SELECT snowflake_nextval(); COMMIT');

	$session->quit;
	is(who($others[1], q{exact, ids}), 't|3', 'the last ID of a transaction');
	is(who($others[0], q{exact, ids}), 'f|3', 'one that lies between its IDs and those of others');
	is(who($between[1], q{exact, caller}), 't|alice', 'an ID that a gapless line has is no other line\'s');
	is_deeply([ run("SELECT id FROM audit.ids WHERE ids = 3 AND caller <> 'alice' ORDER BY id", database => 'app') ],
		[ $first, $others[1] ], 'of a line with gaps two IDs are certain');
}

# ---- lines that are no lines ----

my $forged = qq{{"end":"commit","ids":1,"first":77,"last":77,"layout":"snowflake","role":"alice","database":"app","application":""}};

query($node, qq{SET SESSION AUTHORIZATION alice; DO \$\$ BEGIN
	RAISE LOG 'snowflake SF601: $forged' USING ERRCODE = 'SF601';
	RAISE LOG 'snowflake SF601: not even JSON' USING ERRCODE = 'SF601';
	RAISE WARNING E'x\\n%', '2026-01-05 12:00:00.000 JST,,,1,,1.1,1,,,1/0,0,LOG,SF601,"snowflake SF601: $forged",,,,,,,,,"","x",,0'; END \$\$},
	database => 'app');
($one) = run('SELECT snowflake_nextval()', database => 'app');
is(who($one, 'exact'), 't', 'lines that a client forges do no harm');
is(query($node, 'SELECT count(*) FROM audit.lines WHERE first_id = 77', database => 'app'), 0, 'and are none');
like(slurp_file("$log/postgresql-Mon.csv"), qr/SF601,"snowflake SF601: \{""end"":""commit"",""ids"":1,""first"":77,/, 'though they are in the log');

# a name that is not UTF-8, in a login that fails
isnt(system('psql', '-XAt', '-U', $_, '-d', $node->connstr('app'), '-c', 'SELECT 1'), 0, 'nobody has this name')
  foreach "\xff", "\xf4\x90\x80\x80", "\xed\xa0\x80", "a\xc3";
($one) = run('SELECT snowflake_nextval()', database => 'app');
is(who($one, 'exact'), 't', 'nor do bytes that are not UTF-8');
like(slurp_file("$log/postgresql-Mon.csv"), qr/\xff.*\xf4\x90\x80\x80/s, 'though they are in the log, too');

# ---- jsonlog ----

{
	$jq =~ s{log/}{$log/};
	my ($out, $err) = run_command([ 'sh', '-c', $jq ]);

	like($out, qr/^snowflake SF601: \{"end":"commit","ids":1,"first":$one,/m, 'jsonlog has the lines, too');
	is($err, '', 'and jq reads them');
}

# ---- a week ----

my %id = (5 => $one);

foreach my $day (6 .. 13)
{
	go_to($day);
	($id{$day}) = run("$as_alice INSERT INTO t (c) VALUES ('$day'); SELECT snowflake_currval()", database => 'app');
	is(who($id{$day}, 'caller, ended_at::date', "2026-01-$day"), sprintf('alice|2026-01-%02d', $day), "day $day");
}
is(query($node, q{SELECT min(day), max(day), count(DISTINCT day) FROM audit.lines}, database => 'app'),
	'2026-01-07|2026-01-13|7', 'the log has seven days');
is(query($node, "SELECT count(*) FROM audit.who($id{6})", database => 'app'), 0, 'the eighth is gone');
is(query($node, "SELECT caller FROM audit.who($id{7})", database => 'app'), 'alice', 'the seventh is there');

sub files_read
{
	my ($condition) = @_;
	my $plan = query($node, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM audit.ids WHERE $condition", database => 'app');

	return scalar(() = $plan =~ /Foreign Scan on \w+ .*\(actual/g);
}

is(files_read('true'), 7, 'without a condition all files are read');
is(files_read(q{day = '2026-01-12'}), 1, 'with a day, one');
is(files_read(q{day >= current_date - 1}), 2, 'since yesterday, two');

# After a stop for days, a file still has the lines of the week before.
$node->stop;
set_clock($node, '@2026-01-20 03:00:00');
start_by_clock($node, SnowflakeTest::clock_file($node));
go_to(20);
is(query($node, q{SELECT count(*) FROM audit.lines WHERE day < '2026-01-20'}, database => 'app'), 0,
	'lines of the week before are not taken for lines of this week');
like(slurp_file("$log/postgresql-Tue.csv"), qr/^2026-01-13 /m, 'though they are in the files');

$node->stop;
done_testing();
