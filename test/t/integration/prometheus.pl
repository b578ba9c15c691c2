# promtool runs the tests of the alert rules in examples/prometheus. postgres_exporter
# runs their queries on a server: each metric that a rule names must exist and have the
# server's value. Needs prometheus and prometheus-postgres-exporter.
#
# takes: 6 s
# needs: prometheus prometheus-postgres-exporter
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;
use HTTP::Tiny;
use POSIX ();
use Time::HiRes qw(time usleep);

my $examples = "$FindBin::RealBin/../../../examples/prometheus";

# ---- Prometheus reads the rules ----

sub promtool
{
	my (@command) = @_;
	my $out = '';
	my $ended = IPC::Run::run([ 'promtool', @command ], '>', \$out, '2>&1');

	ok($ended, "promtool @command[0, 1]") or diag($out);
	return $out;
}

my $rules = slurp_file("$examples/snowflake.rules.yml");
my @alerts = $rules =~ /^\s*- alert: (\w+)$/mg;

like(promtool('check', 'rules', "$examples/snowflake.rules.yml"),
	qr/SUCCESS: ${\scalar @alerts} rules found/, @alerts . ' rules are well formed');
like(promtool('test', 'rules', "$examples/snowflake.rules.test.yml"),
	qr/SUCCESS/, 'they are there when they are to be, and only then');
my %fires = map { $_ => 1 }
  slurp_file("$examples/snowflake.rules.test.yml") =~ /alertname: (\w+)\n\s*exp_alerts:/g;
is_deeply([ sort keys %fires ], [ sort @alerts ], 'each was seen to fire');

# ---- the exporter's metrics of a server ----

my $node = new_server('monitored', "snowflake.shards = '3'",
	'snowflake.max_clock_wait = 0');
start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE ROLE monitor LOGIN');

# Return the exporter's page, as a hash from the name of a metric to its value.
sub metrics
{
	my ($node) = @_;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $log = "$PostgreSQL::Test::Utils::log_path/exporter.log";
	my $last = time + $PostgreSQL::Test::Utils::timeout_default;
	my $http = HTTP::Tiny->new(timeout => 30);
	my ($response, $pid);

	local $ENV{DATA_SOURCE_NAME} = 'user=monitor dbname=postgres sslmode=disable host='
	  . $node->host . ' port=' . $node->port;
	$pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>>', $log or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec 'prometheus-postgres-exporter', '--disable-default-metrics',
		  '--disable-settings-metrics', "--web.listen-address=127.0.0.1:$port",
		  "--extend.query-path=$examples/queries.yml"
		  or POSIX::_exit(1);
	}
	until (($response = $http->get("http://127.0.0.1:$port/metrics"))->{success})
	{
		last if time > $last || waitpid($pid, POSIX::WNOHANG) != 0;
		usleep(50_000);
	}
	kill 'KILL', $pid;
	waitpid $pid, 0;
	die "the exporter does not answer:\n" . slurp_file($log) unless $response->{success};
	return { $response->{content} =~ /^(snowflake_\w+)\{.*?\} (\S+)$/mg };
}

my $has = metrics($node);
my %declared = map { ("snowflake_$_" => 1) }
  slurp_file("$examples/queries.yml") =~ /^\s*- (\w+): \{usage:/mg;
my %used = map { $_ => 1 } join(' ', $rules =~ /expr: (.*?)\n\s*(?:for|labels):/sg) =~ /\bsnowflake_\w+/g;

is_deeply([ sort keys %$has ], [ sort keys %declared ],
	scalar(keys %$has) . ' metrics are there, as they are declared');
is_deeply([ grep { !defined $has->{$_} } sort keys %used ],
	[], scalar(keys %used) . ' are used in rules, and are there');
ok(keys %used >= 15, 'the rules were read');

is_deeply(
	[ map { $has->{"snowflake_$_"} }
		qw(ids_total refused_clock_total node_id node_held in_recovery
		  lease_left_seconds lease_reserve_seconds) ],
	[ 0, 0, 1, 1, 0, 'NaN', 90 ],
	'a server that has made nothing');
query($node, 'SELECT count(*) FROM snowflake_nextval_batch(1000)');
query($node, 'SELECT snowflake_shard_nextval(3)');
$node->psql('postgres', 'BEGIN READ ONLY; SELECT snowflake_nextval()');
set_clock($node, -60);
$node->psql('postgres', 'SELECT snowflake_nextval()');
$has = metrics($node);
is_deeply(
	[ map { $has->{"snowflake_$_"} }
		qw(ids_total refused_clock_total refused_read_only_total refused_lease_total) ],
	[ 1001, 1, 1, 0 ],
	'what it has made and refused');
cmp_ok($has->{snowflake_drift_seconds}, '>', 50, 'the clock is a minute behind, in seconds');
cmp_ok($has->{snowflake_drift_seconds}, '<', 61, 'and not more');
cmp_ok(abs($has->{snowflake_layout_left_seconds}
			- query($node, 'SELECT extract(epoch FROM layout_end - now()) FROM pg_stat_snowflake')),
	'<', 600, 'the layout lasts as long as the server says');

# ---- a server without a node id, and a standby ----

set_clock($node, 0);
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "snowflake.node_id = '2'");
$standby->start;
is(metrics($standby)->{snowflake_in_recovery}, 1, 'a standby says that it is one');
$standby->stop;
$node->adjust_conf('postgresql.conf', 'snowflake.node_id', "''");
$node->stop;
$node->start;
$has = metrics($node);
is("$has->{snowflake_node_held} $has->{snowflake_node_id}", '0 NaN',
	'a primary without a node id');
$node->stop;

done_testing();
