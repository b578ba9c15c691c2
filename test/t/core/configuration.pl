# Configuration: values that stop the start, settings that are taken once, and settings
# that are recorded.
#
# takes: 31 s
use SnowflakeTest;
use Time::HiRes;

# ---- without the library preloaded ----

my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init;
$bare->start;
query($bare, 'CREATE EXTENSION snowflake');
is(query($bare, q{SELECT snowflake_node(1541815603606036480, 'twitter')}),
	'378', 'functions with an explicit layout work without preload');
is(query($bare, 'SELECT count(*) FROM snowflake_layouts()'), '8',
	'so do the presets');
is(query($bare, 'SELECT count(*) FROM snowflake_inspect(1541815603606036480) WHERE plausible'),
	'4', 'and inspection');
foreach my $call ('snowflake_nextval()', 'snowflake_nextval_batch(1)',
	'snowflake_shard_nextval(1)', 'snowflake_decode(1)',
	'snowflake_timestamp(1)', 'snowflake_min_id(now())', 'snowflake_ready()',
	'snowflake_advance(1)', 'snowflake_recover()', 'snowflake_reset_mark(now())', q{snowflake_accept('clock')},
	q{snowflake_accept('configuration')})
{
	refused($bare, "SELECT $call", '55000',
		qr/must be loaded via shared_preload_libraries.*HINT:.*\nshared_preload_libraries = 'snowflake'\n/s,
		"$call says which line to paste");
}
refused($bare, 'SELECT FROM generate_series(1::bigint, 2) AS id WHERE snowflake_timestamp(id) > now()',
	'55000', qr/must be loaded via/, 'nor is a condition on the time planned');
query($bare, 'SELECT snowflake_create_feed()');
refused($bare, q{SELECT snowflake_feed_horizon('twitter')}, '55000', qr/HINT:.*SELECT public\.snowflake_publish_horizon\('timestamp:41 /s, 'nor has a feed a horizon');
$bare->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pg_stat_statements'");
$bare->restart;
refused($bare, 'SELECT snowflake_nextval()', '55000',
	qr/shared_preload_libraries = 'pg_stat_statements, snowflake'/,
	'and keeps the libraries that are there');
refused($bare, q{LOAD 'snowflake'; SET snowflake.node_id = 'x'; SELECT snowflake_nextval()},
	'55000', qr/must be loaded via/, 'loading it later does not help');
$bare->stop;

# ---- values that stop the start ----

my $node = new_server('main', 'restart_after_crash = on');
foreach my $bad (
	[ "snowflake.node_id = 'seven'", qr/FATAL:  invalid value for parameter "snowflake.node_id": "seven"\n.*DETAIL:  It must be a number/ ],
	[ "snowflake.node_id = '1024'", qr/FATAL:  node id does not fit the layout\n.*DETAIL:  snowflake.node_id is 1024, and the layout has room for 0 to 1023.*HINT:  Change or unset the number, or choose a layout that has room for it\.$/ms ],
	[ "snowflake.node_id = 'env:SF_TEST_NODE'", qr/FATAL:  invalid value for parameter "snowflake.node_id": "env:SF_TEST_NODE"\n.*DETAIL:  The environment variable "SF_TEST_NODE" of the server is not set\.\n.*HINT:  Give the host's name or the variable this server's number again\. Or set snowflake.node_id = 'NUMBER'/ ],
	[ "snowflake.node_id = 'env:PATH'", qr/FATAL:  .*\n.*DETAIL:  The environment variable "PATH" of the server holds no number\.\n/ ],
	[ "snowflake.layout = 'timestamp:41 node:10 sequence:20'", qr/FATAL:  .*\n.*DETAIL:  The width of "sequence" must be between 1 and 16 bits/ ],
	[ "snowflake.layout = 'instagram'", qr/FATAL:  .*\n.*DETAIL:  The layout of the node's IDs cannot have the field "shard"/ ],
	[ "snowflake.shard_layout = 'twitter'", qr/FATAL:  .*\n.*DETAIL:  The layout of the shards' IDs must have the field "shard"/ ],
	[ "snowflake.layouts = 'twitter, javascript sequence:12'", qr/FATAL:  .*\n.*DETAIL:  The field "sequence" is there twice/ ],
	[ q{snowflake.layouts = '} . join(',', ('twitter') x 65) . q{'}, qr/FATAL:  .*\n.*DETAIL:  It must not list more than 64 layouts/ ],
	[ "snowflake.epoch = 'soon'", qr/FATAL:  invalid value for parameter "snowflake.epoch": "soon"\n.*DETAIL:  "soon" is neither an ISO 8601 time/ ],
	[ "snowflake.shards = '8192'", qr/FATAL:  .*\n.*DETAIL:  The numbers must be between 0 and 8191/ ],
	[ "snowflake.max_clock_drift = '2s'", qr/FATAL:  2000 ms is outside the valid range for parameter "snowflake.max_clock_drift" \(0( ms)? \.\. 1000( ms)?\)/ ],
	[ "snowflake.max_clock_wait = 'long'", qr/FATAL:  invalid value for parameter "snowflake.max_clock_wait": "long"/ ],
	[ "snowflake.reserve = '1ms'", qr/FATAL:  1 ms is outside the valid range for parameter "snowflake.reserve"/ ],
	[ "snowflake.max_clock_jump = '0'", qr/FATAL:  .*snowflake.max_clock_jump/ ],
	[ "snowflake.layout = 'twitter'\nsnowflake.node_id = '32/1'", qr/FATAL:  node id does not fit the layout\n.*DETAIL:  The datacenter in snowflake.node_id is 32, and the layout has room for 0 to 31/ ])
{
	(my $name = $bad->[0]) =~ s/\n/, /g;
	fails_to_start($node, "$bad->[0]\n", $bad->[1], $name);
}

# ---- an epoch of its own: the lines that are printed are those to write ----

sub started_with
{
	my ($node_id) = @_;
	my $line = qr/LOG:  snowflake SF507: IDs of this server have $node_id and the layout "([^"]*)", up to (\d+) IDs a second\n/;
	my @lines = slurp_file($node->logfile) =~ /$line/g;

	return join ': ', @lines[ -2, -1 ];
}

foreach my $case (
	[ "snowflake.layout = 'twitter epoch:2020-01-01'\nsnowflake.epoch = '2021-02-03'",
		qr/snowflake.layout has another epoch: "twitter epoch:2020-01-01"/,
		'timestamp:41 datacenter:5 worker:5 sequence:12 epoch:2021-02-03: 4096000' ],
	[ "snowflake.layout = 'sonyflake'\nsnowflake.epoch = '1409529600001'",
		qr/It must be a multiple of the tick/,
		'timestamp:39 sequence:8 node:16 tick:10ms epoch:2014-09-01: 25600', "snowflake.layout = 'sonyflake'\n" ],
	[ "snowflake.epoch = '2150-01-01'", qr/It must not be in the future/,
		'timestamp:41 node:10 sequence:12 epoch:2024-01-01: 4096000' ])
{
	my ($bad, $detail, $shows, $kept) = @$case;
	my $conf = $node->data_dir . '/postgresql.conf';
	my $before = slurp_file($conf);
	my $logged = -s $node->logfile // 0;

	fails_to_start($node, "$bad\n",
		qr/FATAL:  invalid value for parameter "snowflake.epoch": "[^"]*"\n.*DETAIL:  $detail/, $bad =~ s/\n/, /r);
	my ($line) = substr(slurp_file($node->logfile), $logged)
	  =~ /HINT:  Take snowflake.epoch out .* and write into \Q$conf\E:\n\s*(snowflake\.\w+ = '[^']*')/;
	$node->append_conf('postgresql.conf', ($kept // '') . "$line\nsnowflake.node_id = '4'");
	$node->start;
	is(started_with('node id 4'), $shows, "... and with $line it starts");
	$node->stop;
	PostgreSQL::Test::Utils::append_to_file("$conf.new", $before);
	rename "$conf.new", $conf or die $!;
}

$node->append_conf('postgresql.conf', "snowflake.node_id = ''\nsnowflake.epoch = '2020-01-01'\nsnowflake.max_clock_drft = '1'");
$node->start;
like_log($node, qr/WARNING:  invalid configuration parameter name "snowflake\.max_clock_drft", removing it\n/, 0,
	'the server names a misspelt setting');
is(started_with('no node id yet'), 'timestamp:41 node:10 sequence:12 epoch:2020-01-01: 4096000',
	'snowflake.epoch alone is the epoch of the layout');
query($node, 'CREATE EXTENSION snowflake');
alter_system($node, q{SET snowflake.node_id = '4'});
$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '4'") or die;
is(query($node, q{SELECT epoch, snowflake_timestamp(snowflake_nextval(), 'snowflake epoch:2020-01-01') > now() - interval '1 h'
	FROM snowflake_layouts() WHERE name = 'node'}), '2020-01-01 00:00:00+00|t', '... in which IDs are made');
$node->append_conf('postgresql.conf', "snowflake.epoch = ''");
$node->restart;
refused($node, 'SELECT snowflake_nextval()', '55000',
	qr/differs from what is recorded.*epoch:2024-01-01.*was filled with "[^"]*epoch:2020-01-01"/s, '... and another one is refused');
query($node, 'DROP EXTENSION snowflake; ALTER SYSTEM RESET snowflake.node_id');
$node->stop;

# ---- the node id: unset, set by a reload, and taken once ----

$node->append_conf('postgresql.conf', "snowflake.node_id = ''\nsnowflake.lease_wait = '7s'");
$node->start;
query($node, 'CREATE EXTENSION snowflake');
my $loaded = slurp_file("/proc/$node->{_pid}/maps");
like($loaded, qr{/snowflake\.so$}m, 'the server has the library');
unlike($loaded, qr/snowflake_/, 'and none of what leases node ids, without a registry');
is(query($node, q{SELECT setting, vartype, short_desc <> '' FROM pg_settings WHERE name = 'snowflake.lease_wait'}),
	'7000|integer|t', 'whose settings it knows');
my $unset = qr/snowflake.node_id is not set.*DETAIL:  Each server needs a number of its own from 0 to 1023.*HINT:  If the other servers have a snowflake.registry, set the same one here, and restart this server\. Otherwise choose a number that no other server has, and add this line to \/\S*\/postgresql.conf:\nsnowflake.node_id = 'NUMBER'\nand run:\nSELECT pg_catalog\.pg_reload_conf\(\);/s;
refused($node, 'SELECT snowflake_nextval()', '55000', $unset,
	'without a node id nothing is generated');
refused($node, 'SELECT snowflake_ready()', '55000', $unset,
	'and the probe says so');
refused($node, q{CREATE TABLE t (id bigint); SELECT snowflake_node_conflicts('t')}, '55000', $unset,
	'nor looked for');
like(query($node, 'SELECT snowflake_decode(1)'), qr/2024/, 'but decoded');

sub set_and_reload
{
	my ($setting, $value) = @_;

	alter_system($node, "SET $setting = '$value'");
	return;
}

refused($node, "ALTER SYSTEM SET snowflake.node_id = '5000'", '22023',
	qr/invalid value for parameter "snowflake.node_id": "5000".*DETAIL:  snowflake.node_id is 5000, and the layout has room for 0 to 1023/s,
	'one that does not fit is refused');
refused($node, "ALTER SYSTEM SET snowflake.node_id = '1/7'", '22023',
	qr/DETAIL:  snowflake.node_id names a datacenter, and the layout has no field for it/,
	'so is a datacenter that the layout has no room for');
set_and_reload('snowflake.node_id', '5');
$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '5'") or die;
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '5',
	'unset may become set by a reload');
# another number, too: calls under way and sessions within a transaction go on with it
my $from = -s $node->logfile;
my $idle = $node->background_psql('postgres');
my $node_of_next = q{SELECT snowflake_node(snowflake_nextval()) || ' ' || (snowflake_nextval() > last) FROM (SELECT snowflake_currval() AS last) s};
$idle->query_safe('BEGIN; SELECT snowflake_nextval()');
set_and_reload('snowflake.node_id', '6');
$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '6'") or die;
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '6', 'a reload may bring another');
is($idle->query_safe($node_of_next), '6 true', 'also within a transaction, whose IDs ascend');
$idle->quit;
like_log($node, qr/LOG:  snowflake SF509: a reload has changed the node id from 5 to 6: from \d{4}-\S+ \S+ on, this server makes no ID of node 5\n/,
	$from, 'and the log says until when the old one counts');
my $says = q{SELECT status, found FROM snowflake_status() WHERE check_name = 'node id'};
like(query($node, $says), qr/^ok\|6 is configured/, 'and the status, that all is well');
$from = -s $node->logfile;
query($node, 'ALTER SYSTEM RESET snowflake.node_id');
set_conf($node, "snowflake.node_id = '5000'");
$node->poll_query_until('postgres', "SELECT found ~ '^6; in the configuration files snowflake.node_id is \"5000\", which is refused'
	FROM snowflake_status() WHERE check_name = 'node id'") or die query($node, $says);
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '6', 'one that does not fit changes nothing');

# a line that is lost changes nothing before a restart
my $waits = qr/^warning\|6; in the configuration files snowflake\.node_id is unset, which waits for a restart$/;
$node->adjust_conf('postgresql.conf', 'snowflake.node_id', undef);
$node->reload;
$node->poll_query_until('postgres', "SELECT found ~ 'unset, which waits' FROM snowflake_status() WHERE check_name = 'node id'")
  or die query($node, $says);
like_log($node, qr/LOG:  parameter "snowflake.node_id" cannot be changed from "6" to "" without restarting the server/,
	$from, 'a number that is gone stays, and the log says so');
# a crash of a process makes the shared memory new, but the node id stays
crash($node, 'background writer');
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '6', 'also over a crash of a process');
like(query($node, $says), $waits, 'while it waits');
my ($line, $run) = query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'node id'})
  =~ /^After a restart this server makes no IDs\. To keep the old one, add this line to \S+postgresql\.conf:\n(.*)\nand run:\n(.*)$/s;
is($line, "snowflake.node_id = '6'", 'how to keep it');
$node->append_conf('postgresql.conf', $line);
query($node, $run);
$node->poll_query_until('postgres', "SELECT status = 'ok'
	FROM snowflake_status() WHERE check_name = 'node id'") or die query($node, $says);
query($node, 'ALTER SYSTEM RESET ALL');

# ---- the node id from a name ----

{
	local $ENV{SF_TEST_NODE} = '8';

	$node->append_conf('postgresql.conf', "snowflake.node_id = 'env:SF_TEST_NODE+100'");
	$node->restart;
	is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '108',
		'a number of the environment, and an offset');
	is(query($node, 'SHOW snowflake.node_id'), 'env:SF_TEST_NODE+100',
		'shown as it was set');
	set_and_reload('snowflake.node_id', '108');
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '108'") or die;
	is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '108',
		'a reload may write the same number in another way');
	set_and_reload('snowflake.node_id', 'env:SF_TEST_NODE');
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = 'env:SF_TEST_NODE'") or die;
	is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '8', 'or bring another');
	query($node, 'ALTER SYSTEM RESET ALL');
	$node->stop;
	$ENV{SF_TEST_NODE} = '924';
	fails_to_start($node, '', qr/FATAL:  node id does not fit the layout\n.*DETAIL:  snowflake.node_id is 1024, and/,
		'one that does not fit');
}
# the test takes one of two paths, by this host's name; test/unit tries other names
chomp(my $hostname = `uname -n`);
if ($hostname =~ /^[^.]+-([0-9]{1,9})(\.|$)/)
{
	$node->append_conf('postgresql.conf', "snowflake.layout = 'timestamp:32 node:30 sequence:1 tick:1s'\nsnowflake.node_id = 'hostname:ordinal'");
	$node->start;
	query($node, 'CREATE DATABASE named');
	is(query($node, 'CREATE EXTENSION snowflake; SELECT snowflake_node(snowflake_nextval())',
		database => 'named'), $1 + 0, "a host named $hostname");
	query($node, 'DROP DATABASE named');
	$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
}
else
{
	fails_to_start($node, "snowflake.node_id = 'hostname:ordinal'\n",
		qr/FATAL:  .*\n.*DETAIL:  The host's name "\Q$hostname\E" does not end in a hyphen and this server's number\.\n.*HINT:  Give the host's name or the variable this server's number again\. Or set snowflake.node_id = 'NUMBER', with the number that this server had:/,
		"a host named $hostname");
}
$node->append_conf('postgresql.conf', "snowflake.node_id = '6'");
$node->restart;

# ---- the config record ----

my @ids = (query($node, 'SELECT snowflake_nextval()'));
my $differs = qr/epoch or layout of this server differs from what is recorded.*HINT:  To keep the recorded configuration, which stops IDs in databases of the present one, add th\w+ lines? to .*and restart.*snowflake_accept\('configuration'::pg_catalog\.text\)/s;

# what ALTER SYSTEM has set, a line in the file does not change
query($node, q{ALTER SYSTEM SET snowflake.layout = 'snowflake epoch:2025-06-01'});
$node->restart;
my $altered = refused($node, 'SELECT snowflake_nextval()', '55000',
	qr/filled with "([^"]*)"\..*HINT:  .* add this line to \S+postgresql.conf:\nsnowflake.layout = '\1'\nrun:\nALTER SYSTEM RESET snowflake.layout;\nand restart this server\./s,
	'set by ALTER SYSTEM: it says so');
query($node, $altered =~ /(ALTER SYSTEM RESET \S+;)/);
$node->restart;
is(query($node, 'SELECT snowflake_node(1::bigint << 12)'), '1', 'and what helps');

foreach my $change (
	[ "snowflake.layout = 'snowflake epoch:2025-06-01'", 'epoch:2025-06-01', 'epoch:2024-01-01' ],
	[ "snowflake.layout = 'timestamp:41 node:6 sequence:16'", 'node:6 sequence:16', 'node:10 sequence:12' ],
	[ "snowflake.shard_layout = 'timestamp:41 shard:8 sequence:14'", 'shard:8', 'shard:13' ])
{
	my ($setting, $new, $old) = @$change;

	my $conf = slurp_file($node->data_dir . '/postgresql.conf');
	$node->append_conf('postgresql.conf', "snowflake.node_id = '1'\n$setting");
	$node->restart;
	refused($node, 'SELECT snowflake_nextval()', '55000', $differs,
		"$setting: refuses to generate");
	refused($node, 'SELECT snowflake_decode(1)', '55000',
		qr/"[^"]*\Q$new\E[^"]*", and this database was filled with "[^"]*\Q$old\E[^"]*"/,
		"$setting: refuses to decode, and names both");
	is(query($node, q{SELECT snowflake_node(1::bigint << 12, 'twitter')}), '1',
		'explicit layouts work');
	open(my $fh, '>', $node->data_dir . '/postgresql.conf') or die;
	print $fh $conf;
	close $fh;
}

# if it is accepted, a WARNING names the danger
$node->append_conf('postgresql.conf',
	"snowflake.node_id = '1'\nsnowflake.layout = 'snowflake epoch:2025-06-01'");
$node->restart;
my ($out, $err);
$node->psql('postgres', q{SELECT snowflake_accept('configuration')},
	stdout => \$out, stderr => \$err);
like($err, qr/WARNING:  IDs made from now on can repeat IDs that are already in this database/,
	'a later epoch endangers what is there');
like(query($node, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'once accepted, it generates');
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2020-01-01'");
$node->restart;
$node->psql('postgres', q{SELECT snowflake_accept('configuration')},
	stdout => \$out, stderr => \$err);
like($err, qr/WARNING:  IDs that are already in this database will decode wrongly/,
	'an earlier one only makes them decode wrongly');
is(query($node, "SELECT snowflake_nextval() > $ids[0]"), 't', 'and new IDs are above');

# A restore writes the config record one durable number after another. A call in
# between keeps the numbers that are there already.
query($node, 'CREATE DATABASE restored');
query($node, q{
	CREATE EXTENSION snowflake;
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM now()) * 1000)::bigint);
	SELECT setval('snowflake_state.snowflake_recorded_epoch', 1704067200000)}, database => 'restored');
my $no_layout = qr/epoch or layout of this server differs from what is recorded.*HINT:  While a restore is running, wait for its end. Otherwise run on the primary, .*snowflake_accept\('configuration'::pg_catalog\.text\)/s;
refused($node, 'SELECT snowflake_ready()', '55000',
	$no_layout, 'while it is restored: refused', database => 'restored');
like(query($node, q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'recorded configuration'}, database => 'restored'),
	qr/^error\|IDs are refused here: .*only a part of this database's record.*\|While a restore is running/,
	'which the status says, too');
refused($node, 'SELECT snowflake_nextval()', '55000',
	qr/DETAIL:  snowflake.layout is "[^"]*epoch:2020[^"]*", and only a part of this database's record is there, as during a restore\./,
	'and says so', database => 'restored');
my $code = query($node, 'SELECT last_value FROM snowflake_state.snowflake_recorded_layout');
query($node, "SELECT setval('snowflake_state.snowflake_recorded_layout', $code)", database => 'restored');
refused($node, 'SELECT snowflake_nextval()', '55000',
	qr/and this database was filled with "[^"]*epoch:2024-01-01[^"]*"/,
	'the record is what was restored', database => 'restored');

# For a record that no setting can produce, the hint does not tell to set one.
foreach my $garbage (
	"setval('snowflake_state.snowflake_recorded_layout', 1)",
	"setval('snowflake_state.snowflake_recorded_layout', 0), setval('snowflake_state.snowflake_recorded_epoch', 1)",
	"setval('snowflake_state.snowflake_recorded_shard_layout', 0)",
	"setval('snowflake_state.snowflake_recorded_epoch', 9223372036854775806)")
{
	query($node, "SELECT $garbage", database => 'restored');
	refused($node, 'SELECT snowflake_nextval()', '55000', $no_layout,
		"$garbage: refused, with a way out", database => 'restored');
	$node->psql('restored', q{SELECT snowflake_accept('configuration')}, stderr => \$err);
	like($err, qr/WARNING:  IDs/, 'which is taken');
	like(query($node, 'SELECT snowflake_nextval()', database => 'restored'), qr/^\d+$/,
		'and leads out');
}
($out, $err) = ('', '');
$node->psql('restored', q{SELECT snowflake_accept('configuration')}, stderr => \$err);
like($err, qr/NOTICE:  nothing to accept/, 'once');

# ---- datacenters ----

query($node, 'CREATE DATABASE dc');
$node->append_conf('postgresql.conf', q{
snowflake.layout = 'twitter'
snowflake.node_id = '3/7'
});
$node->restart;
is(query($node, q{
	CREATE EXTENSION snowflake;
	SELECT datacenter_id, worker_id, node_id FROM snowflake_decode(snowflake_nextval())},
	database => 'dc'), '3|7|103', 'datacenter and worker');
set_conf($node, "snowflake.node_id = '103'");
$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '103'") or die;
is(query($node, 'SELECT datacenter_id, worker_id, node_id FROM snowflake_decode(snowflake_nextval())',
	database => 'dc'), '3|7|103', 'or the whole number');

# ---- shards: a reload takes effect for all sessions ----

refused($node, 'SELECT snowflake_shard_nextval(9)', '55000',
	qr/may not issue IDs for shard 9.*snowflake.shards/s, 'no shards by default', database => 'dc');
set_and_reload('snowflake.shards', '5-9');
$node->poll_query_until('dc', "SELECT current_setting('snowflake.shards') = '5-9'") or die;
is(query($node, q{SELECT snowflake_shard(snowflake_shard_nextval(9), 'instagram')}, database => 'dc'),
	'9', 'a reload brings one');
set_and_reload('snowflake.shards', '5');
$node->poll_query_until('dc', "SELECT current_setting('snowflake.shards') = '5'") or die;
refused($node, 'SELECT snowflake_shard_nextval(9)', '55000',
	qr/may not issue IDs for shard 9/, 'and takes it away', database => 'dc');
# a batch that runs ends with the right to its shard
my ($batch_out, $batch_err) = ('', '');
my $batch = IPC::Run::start(
	[
		'psql', '-XAtq', '-d', $node->connstr('dc'), '-c',
		'SELECT count(*) FROM snowflake_shard_nextval_batch(5, 10000000)'
	],
	'>', \$batch_out, '2>', \$batch_err);
$node->poll_query_until('dc', q{
	SELECT count(*) = 1 FROM pg_stat_activity
	WHERE query LIKE '%_batch(5,%' AND state = 'active' AND pid <> pg_backend_pid()})
  or die;
set_and_reload('snowflake.shards', '6');
$batch->finish;
like($batch_err, qr/may not issue IDs for shard 5/,
	'a batch under way ends when its shard is taken away');

# ---- other layouts, each in a database of its own ----

foreach my $layout ('discord', 'mastodon', 'javascript', 'sonyflake', 'pgedge',
	'timestamp:36 node:17 sequence:10 tick:100ms epoch:2020-01-01',
	'timestamp:40 sequence:8 datacenter:5 worker:6')
{
	(my $db = $layout) =~ s/\W+/_/g;
	query($node, qq{CREATE DATABASE "$db"});
	$node->append_conf('postgresql.conf',
		"snowflake.layout = '$layout'\nsnowflake.node_id = '"
		  . ($layout eq 'mastodon' ? 0 : 101) . "'\n"
		  . "snowflake.max_clock_drift = 5ms");
	$node->restart;
	is(query($node, qq{
		CREATE EXTENSION snowflake;
		CREATE TABLE t AS SELECT snowflake_nextval() AS id FROM generate_series(1, 200);
		INSERT INTO t SELECT snowflake_nextval_batch(200);
		SELECT count(DISTINCT id), count(*) FILTER (WHERE id < 0),
			coalesce(min(snowflake_node(id)), 101), coalesce(max(snowflake_node(id)), 101),
			max(abs(extract(epoch FROM snowflake_timestamp(id) - clock_timestamp()))) < 60,
			bool_and(snowflake_decode(id) = snowflake_decode(id, '$layout'))
		FROM t}, database => $db),
		'400|0|101|101|t|t', "$layout: generates what it decodes, no ID twice");
}

# ---- the largest number of a node is one like any other ----

query($node, 'CREATE DATABASE largest');
$node->append_conf('postgresql.conf',
	"snowflake.layout = 'timestamp:32 node:31 sequence:1 tick:1s'\nsnowflake.node_id = '2147483647'");
$node->restart;
is(query($node, 'CREATE EXTENSION snowflake; SELECT snowflake_node(snowflake_nextval())',
	database => 'largest'), '2147483647', 'a node with the largest number');
$from = -s $node->logfile;
set_and_reload('snowflake.node_id', '');
like_log($node, qr/LOG:  parameter "snowflake.node_id" cannot be changed from "2147483647" to "" without restarting/,
	$from, 'stays, as any other, when it is unset');
query($node, 'ALTER SYSTEM RESET snowflake.node_id');

# ---- random starts ----

query($node, 'CREATE DATABASE random');
$node->append_conf('postgresql.conf', q{
snowflake.layout = 'snowflake'
snowflake.node_id = '1'
snowflake.sequence_start = random
});
$node->restart;
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (i serial, id bigint);
	DO $$
	BEGIN
		FOR i IN 1 .. 200 LOOP
			INSERT INTO t (id) VALUES (snowflake_nextval());
			PERFORM pg_sleep(0.001);
		END LOOP;
	END $$}, database => 'random');
is(query($node, q{
	SELECT count(DISTINCT s) > 100, max(s) < 2048,
		count(*) FILTER (WHERE s % 2 = 1) BETWEEN 40 AND 160,
		bool_and(id > before)
	FROM (SELECT id, snowflake_sequence(id) AS s, lag(id, 1, 0::bigint) OVER (ORDER BY i) AS before FROM t) x},
	database => 'random'), 't|t|t|t',
	'a tick that a call opens starts at random in the lower half, ascending');
is(query($node, q{
	SELECT count(*) >= 20, count(*) FILTER (WHERE s = 0) >= 10 FROM (
		SELECT snowflake_sequence(id) AS s, snowflake_timestamp(id) AS t,
			lag(snowflake_sequence(id)) OVER (ORDER BY id) AS ps,
			lag(snowflake_timestamp(id)) OVER (ORDER BY id) AS pt
		FROM snowflake_nextval_batch(200000) id) x
	WHERE ps = 4095 AND t = pt + interval '1 ms'}, database => 'random'), 't|t',
	'one that a carry opens starts at zero');

# ---- the first and the last days of a layout ----

sub set_life
{
	my ($db, $epoch) = @_;

	query($node, "CREATE DATABASE $db");
	$node->append_conf('postgresql.conf',
		"snowflake.layout = 'timestamp:36 node:10 sequence:12 epoch:$epoch'");
	$node->stop;
	start_with_clock($node, 0);
	query($node, 'CREATE EXTENSION snowflake', database => $db);
	return;
}

# 36 bits of milliseconds last 795 days and some hours
my $ms = int(time() * 1000);
my $life = 2**36;
$from = -s $node->logfile;
set_life('aging', $ms - $life + 100 * 86400000);
like(query($node, 'SELECT snowflake_nextval()', database => 'aging'), qr/^\d+$/,
	'a layout works until its end');
like_log($node, qr/WARNING:  snowflake SF501: layout reaches its last timestamp in (99|100) days\n.*HINT:  Choose a layout with more bits for the timestamp as snowflake\./,
	$from, 'the log warns a year ahead');
set_life('ended', $ms - $life - 5000);
refused($node, 'SELECT snowflake_nextval()', '2200H',
	qr/layout has reached its last timestamp.*DETAIL:  The layout is "timestamp:36.*past its end.*HINT:  Check the server's clock/s,
	'and not beyond', database => 'ended');
set_life('ending', int(time() * 1000) - $life + 3600000);
my $last = query($node, 'SELECT snowflake_nextval()', database => 'ending');
my $ended = 0;
set_clock($node, 3599);
foreach my $i (1 .. 1200)
{
	my ($status, $id, $why) = $node->psql('ending', 'SELECT snowflake_nextval()');
	if ($status != 0)
	{
		$ended = $why =~ /last timestamp/;
		last;
	}
	$last = $id;
	Time::HiRes::usleep(50000);
}
ok($ended && $last < 2**58,
	'up to its last tick it issues, and no ID is beyond it');
set_life('unborn', int(time() * 1000) + 86400000);
refused($node, 'SELECT snowflake_nextval()', '58000',
	qr/wall clock is before the layout's epoch.*DETAIL:  The epoch is 20.*HINT:  Correct the server's clock. Or set the epoch in snowflake.layout/s,
	'an epoch in the future', database => 'unborn');

$node->stop;
done_testing();
