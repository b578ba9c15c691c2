# promtool runs the tests of the alert rules in examples/prometheus. postgres_exporter
# runs their queries on a server: each metric that a rule or the dashboard in
# examples/grafana names must exist and have the server's value. sql_exporter runs the same
# queries, and Prometheus gives its metrics the same names. No Grafana loads the dashboard.
#
# takes: 30 s
# needs: prometheus prometheus-postgres-exporter
# part sql_exporter: prometheus-sql-exporter
use SnowflakeTest;
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(time usleep);

my $examples = "$root/examples/prometheus";
my $dashboard = decode_json(slurp_file("$examples/../grafana/snowflake.json"));

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

# ---- the dashboard ----

my @panels = @{ $dashboard->{panels} };
my %expressions = map { my $panel = $_; map { ("$panel->{title}, $_->{refId}" => $_->{expr}) } @{ $panel->{targets} } } @panels;
my @variables = @{ $dashboard->{templating}{list} };

is_deeply([ grep { !exists $dashboard->{$_} } qw(title uid schemaVersion time templating panels) ],
	[], 'the dashboard has the fields that Grafana asks for');
is_deeply(
	[ map { my $panel = $_; map { "$panel->{title}: $_" } grep { !exists $panel->{$_} } qw(id type title datasource gridPos targets fieldConfig) } @panels ],
	[], @panels . ' panels have them, too');
is_deeply([ grep { $_->{datasource}{uid} ne "\${$variables[0]{name}}" } @panels, $variables[1] ],
	[], 'all ask the data source that the user chooses');
is(scalar(keys %{ { map { $_->{id} => 1 } @panels } }), @panels, 'each panel has an id of its own');

# the panels fill the 24 columns of Grafana's grid, each row once
my %covered;
foreach my $at (map { $_->{gridPos} } @panels)
{
	foreach my $row ($at->{y} .. $at->{y} + $at->{h} - 1)
	{
		$covered{$row}[$_]++ foreach $at->{x} .. $at->{x} + $at->{w} - 1;
	}
}
is_deeply([ @covered{ 0 .. keys(%covered) - 1 } ], [ map { [ (1) x 24 ] } keys %covered ],
	'the panels leave no gap, and none covers another');

# Grafana sets its variables before Prometheus sees an expression
my ($count, $parsed) = (0, '');
foreach (values %expressions)
{
	my $text = s/\$__rate_interval/5m/gr =~ s/\$__range/3h/gr =~ s/\$instance/.*/gr;

	$parsed .= '    - {record: x' . ++$count . ', expr: ' . JSON::PP->new->allow_nonref->encode($text) . "}\n";
}
my $file = PostgreSQL::Test::Utils::tempdir . '/dashboard.rules.yml';
append_to_file($file, "groups:\n- name: dashboard\n  rules:\n$parsed");
like(promtool('check', 'rules', $file), qr/SUCCESS: $count rules found/,
	"$count expressions of the dashboard are well formed");
unlike($parsed, qr/\$/, '... and have no other variables');

# ---- the exporter's metrics of a server ----

my $node = new_server('monitored', "snowflake.shards = '3'",
	'snowflake.max_clock_wait = 0');
start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE ROLE monitor LOGIN');

my %serving;

END
{
	local $?;
	kill 'KILL', keys %serving;
}

# Start a program that serves pages on a port of its own. Return its process, and wait
# until this page is there.
sub start_serving
{
	my ($log, $page, @command) = @_;
	my $flag = $log eq 'sql_exporter' ? '-web.listen-address ' : '--web.listen-address=';
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $last = time + $PostgreSQL::Test::Utils::timeout_default;
	my $http = HTTP::Tiny->new(timeout => 30);
	my $pid = fork // die "fork: $!";

	$log = "$PostgreSQL::Test::Utils::log_path/$log.log";
	if ($pid == 0)
	{
		open STDOUT, '>>', $log or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec @command, split / /, "${flag}127.0.0.1:$port" or POSIX::_exit(1);
	}
	until ($http->get("http://127.0.0.1:$port$page")->{success})
	{
		die "$command[0] does not answer:\n" . slurp_file($log)
		  if time > $last || waitpid($pid, POSIX::WNOHANG) != 0;
		usleep(50_000);
	}
	$serving{$pid} = 1;
	return { pid => $pid, port => $port };
}

sub get_page
{
	my ($server, $page) = @_;

	return HTTP::Tiny->new(timeout => 30)->get("http://127.0.0.1:$server->{port}$page")->{content};
}

sub stop_serving
{
	my ($server) = @_;

	kill 'KILL', $server->{pid};
	waitpid $server->{pid}, 0;
	delete $serving{$server->{pid}};
	return;
}

sub start_exporter
{
	my ($node, $queries, $database) = @_;

	local $ENV{DATA_SOURCE_NAME} = 'user=monitor sslmode=disable host=' . $node->host
	  . ' port=' . $node->port . ' dbname=' . ($database // 'postgres');
	return start_serving('exporter', '/metrics', 'prometheus-postgres-exporter',
		'--disable-default-metrics', '--disable-settings-metrics', "--extend.query-path=$queries");
}

# Return the exporter's page, as a hash from the name of a metric to its value, and from
# the name of a check to its level.
sub metrics
{
	my ($node, $database) = @_;
	my $exporter = start_exporter($node, "$examples/queries.yml", $database);
	my $page = get_page($exporter, '/metrics');

	stop_serving($exporter);
	return { map { /^(snowflake_\w+)\{(?:check="(.*?)")?.*?\} (\S+)$/ ? ($1 => $3, $2 ? ($2 => $3) : ()) : () }
		  split /\n/, $page };
}

my $has = metrics($node);
my (%declared, $namespace);
foreach (split /\n/, slurp_file("$examples/queries.yml"))
{
	$namespace = $1 if /^(\w+):$/;
	$declared{"${namespace}_$1"} = 1 if /^\s*- (\w+): \{usage: (?!LABEL)/;
}
my %used = map { $_ => 1 } join(' ', $rules =~ /expr: (.*?)\n\s*(?:for|labels):/sg) =~ /\bsnowflake_\w+/g;
my %drawn = map { $_ => 1 } join(' ', values %expressions, $variables[1]{query}{query}) =~ /\bsnowflake_\w+/g;

is_deeply([ grep { /^snowflake_/ } sort keys %$has ], [ sort keys %declared ],
	scalar(keys %declared) . ' metrics are there, as they are declared');
is_deeply([ grep { !defined $has->{$_} } sort keys %used ],
	[], scalar(keys %used) . ' are used in rules, and are there');
ok(keys %used >= 15, 'the rules were read');
is_deeply([ grep { !$declared{$_} } sort keys %drawn ],
	[], scalar(keys %drawn) . ' are in the dashboard, and are there');
is_deeply([ grep { !$drawn{$_} } sort keys %declared ],
	[qw(snowflake_max_drift_seconds snowflake_sequence_waits_total)], 'those that are not say what others say');
my %checks = map { $_ => 1 } split /\n/, query($node, 'SELECT check_name FROM snowflake_status()');
is_deeply([ grep { !/^snowflake_/ } sort keys %$has ], [ sort keys %checks ],
	'each check has a level');
my ($left_out) = $rules =~ /check!~"(.*?)"/;
is_deeply([ grep { my $alternative = $_; !grep { /^$alternative$/ } keys %checks } split /\|/, $left_out ],
	[], 'the rules leave out checks that exist');

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

# ---- checks of tables, and a transaction that holds the horizon back ----

query($node, 'CREATE TABLE unguarded (id bigint DEFAULT snowflake_nextval())');
set_clock($node, 0);
my $holder = $node->background_psql('postgres', on_error_stop => 1);
$holder->query_safe('BEGIN; SELECT snowflake_nextval();');
$has = metrics($node);
is("@$has{'unique indexes', 'snowflake_horizon_held_seconds'}", '0 NaN',
	'a role without rights does not see problems of tables, nor the horizon');
query($node, 'GRANT pg_read_all_stats TO monitor; GRANT SELECT (id) ON unguarded TO monitor');
$has = metrics($node);
is($has->{'unique indexes'}, 1, 'with the rights that queries.yml names, it sees those of tables');
cmp_ok($has->{snowflake_horizon_held_seconds}, '>', 0, '... and the horizon');
$holder->quit;
query($node, 'ALTER TABLE unguarded ADD PRIMARY KEY (id)');
$has = metrics($node);
is("@$has{'unique indexes', 'snowflake_horizon_held_seconds'}", '0 0', 'both problems are over');

# ---- a database whose owner sets a trap ----

# In the owner's path, functions and operators of his own come before those of the server.
query($node, 'CREATE DATABASE trap');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE SCHEMA evil;
	CREATE SEQUENCE evil.caught;
	GRANT USAGE ON SCHEMA evil TO PUBLIC;
	GRANT ALL ON SEQUENCE evil.caught TO PUBLIC;
	DO $$
	DECLARE
		bait record;
	BEGIN
		FOR bait IN SELECT 'f' || row_number() OVER () AS name, o.*
			FROM (SELECT oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS t
				FROM pg_operator
				WHERE oprname IN ('+', '-', '/', '=') AND oprcode <> 0
				AND oprleft IN (SELECT oid FROM pg_type WHERE typtype = 'b')
				UNION SELECT '/', 'float8', 'int4', 'float8') o
		LOOP
			EXECUTE format('CREATE FUNCTION evil.%s(a %s, b %s) RETURNS %s LANGUAGE plpgsql AS
				''BEGIN PERFORM pg_catalog.nextval(''''evil.caught''''); RETURN a OPERATOR(pg_catalog.%s) b; END''',
				bait.name, bait.l, bait.r, bait.t, bait.oprname);
			EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%s)',
				bait.oprname, bait.l, bait.r, bait.name);
		END LOOP;
		FOR bait IN SELECT oid::regprocedure::text AS name, prorettype::regtype AS t FROM pg_proc
			WHERE proname IN ('now', 'clock_timestamp', 'pg_is_in_recovery', 'current_database') AND pronargs = 0
		LOOP
			EXECUTE format('CREATE FUNCTION evil.%s RETURNS %s LANGUAGE plpgsql AS
				''BEGIN PERFORM pg_catalog.nextval(''''evil.caught''''); RETURN pg_catalog.%s; END''',
				bait.name, bait.t, bait.name);
		END LOOP;
	END $$;
	CREATE FUNCTION evil.array_position(text[], text) RETURNS integer LANGUAGE sql
		AS $$ SELECT pg_catalog.nextval('evil.caught')::integer $$;
	CREATE FUNCTION evil.snowflake_status() RETURNS TABLE (check_name text, status text) LANGUAGE sql
		AS $$ SELECT pg_catalog.nextval('evil.caught')::text, 'ok' $$;
	ALTER DATABASE trap SET search_path = evil, public, pg_catalog}, database => 'trap');
my $trapped = metrics($node, 'trap');
is_deeply([ grep { /^snowflake_/ } sort keys %$trapped ], [ sort keys %declared ],
	'where the owner of the database sets a trap, the metrics are there');
is(query($node, 'SELECT is_called FROM evil.caught', database => 'trap'), 'f', 'and nothing of the owner runs');
query($node, 'SELECT 1 / 1.0::float8 = 1', database => 'trap');
is(query($node, 'SELECT is_called FROM evil.caught', database => 'trap'), 't', 'which a query that is not qualified would');

# ---- a server without a node id, and a standby ----

my $standby = standby_of($node, 'standby', "snowflake.node_id = '2'");
$standby->start;
$has = metrics($standby);
is("@$has{qw(snowflake_in_recovery snowflake_horizon_held_seconds partitions)}", '1 NaN 0',
	'a standby says that it is one, and has no horizon');
$standby->stop;
$node->adjust_conf('postgresql.conf', 'snowflake.node_id', "''");
$node->stop;
$node->start;
$has = metrics($node);
is("$has->{snowflake_node_held} $has->{snowflake_node_id}", '0 NaN',
	'a primary without a node id');
$node->stop;

# ---- what the dashboard shows of a server in trouble ----

# Prometheus asks the exporter each second; the exporter asks for the status each time.
my $drawn = new_server('drawn', "snowflake.shards = '3'", "snowflake.max_clock_wait = '20s'");
my $dir = PostgreSQL::Test::Utils::tempdir;
my $began = int time;

start_with_clock($drawn, 0);
query($drawn, 'CREATE EXTENSION snowflake; CREATE ROLE monitor LOGIN;
	GRANT pg_read_all_stats TO monitor');
append_to_file("$dir/queries.yml", slurp_file("$examples/queries.yml") =~ s/cache_seconds: 60/cache_seconds: 0/r);
my $exporter = start_exporter($drawn, "$dir/queries.yml");
append_to_file("$dir/prometheus.yml", "global: {scrape_interval: 1s}\nscrape_configs:\n"
	  . "- {job_name: db, static_configs: [{targets: ['127.0.0.1:$exporter->{port}'], labels: {instance: db1}}]}\n");
my $other;
if (part('sql_exporter'))
{
	my $text = slurp_file("$examples/sql_exporter.yml");
	my ($relabel) = $text =~ /^(#\tmetric_relabel_configs:\n(?:#\t.*\n)+)/m;
	my $url = 'postgres://monitor@/postgres?host=' . $drawn->host . '&port=' . $drawn->port . '&sslmode=disable';

	append_to_file("$dir/sql_exporter.yml", $text =~ s/interval: 60s/interval: 1s/r =~ s{postgres://.*}{$url}r);
	$other = start_serving('sql_exporter', '/metrics', 'prometheus-sql-exporter', '-config.file', "$dir/sql_exporter.yml");
	append_to_file("$dir/prometheus.yml", "- job_name: sql\n"
		  . "  static_configs: [{targets: ['127.0.0.1:$other->{port}'], labels: {instance: sql}}]\n" . $relabel =~ s/^#\t/  /mgr);
}
my $prometheus = start_serving('prometheus', '/-/ready', 'prometheus',
	"--config.file=$dir/prometheus.yml", "--storage.tsdb.path=$dir/data");

# Return the series that an expression has now, or with a step in seconds since the
# beginning.
sub series
{
	my ($expression, $step) = @_;
	my %now = ('$instance' => 'db1', '$__rate_interval' => '10s', '$__range' => '1h');
	my $text = $expression =~ s/(\$\w+)/$now{$1}/gr =~ s{([^A-Za-z0-9])}{sprintf '%%%02X', ord $1}ger;

	return @{ decode_json(get_page($prometheus, $step
			? "/api/v1/query_range?query=$text&start=$began&end=" . time . "&step=$step"
			: "/api/v1/query?query=$text"))->{data}{result} };
}

sub value
{
	my ($series) = series(@_);

	return $series ? $series->{value}[1] : 0;
}

# Wait until Prometheus has asked the server some times more: for a picture, more often.
sub go_on
{
	my $scrapes = value('count_over_time(up[1h])') + ($ENV{SNOWFLAKE_RECORD} ? 20 : 3);

	wait_until { value('count_over_time(up[1h])') >= $scrapes } 'Prometheus does not scrape';
	return;
}

# A session makes some IDs all the time. It sleeps in psql: pg_sleep() would wait for a
# clock that is set back.
my $load = $drawn->background_psql('postgres', on_error_stop => 0);
$load->query_until(qr/begun/, "\\echo begun\n\\o /dev/null\n"
	  . "SELECT count(*) FROM snowflake_nextval_batch(200) \\watch 0.02\n");
go_on();
set_clock($drawn, -5);
go_on();
my $long = $drawn->background_psql('postgres', on_error_stop => 1);
$long->query_safe('BEGIN; SELECT snowflake_nextval();');
query($drawn, 'CREATE TABLE unguarded (id bigint DEFAULT snowflake_nextval());
	GRANT SELECT (id) ON unguarded TO monitor');
go_on();
$long->quit;
query($drawn, 'SELECT count(*) FROM snowflake_nextval_batch(10000000)') foreach 1 .. ($ENV{SNOWFLAKE_RECORD} ? 4 : 1);
go_on();
query($drawn, 'ALTER TABLE unguarded ADD PRIMARY KEY (id)');
$drawn->psql('postgres', 'BEGIN READ ONLY; SELECT snowflake_nextval()') foreach 1 .. 5;
go_on();

# Without a registry, a server has no reserve of a lease.
is_deeply([ grep { !series("last_over_time(($expressions{$_})[1h:1s])") } sort keys %expressions ],
	[ 'Lease, B' ], 'expressions of the dashboard that find nothing');
foreach my $name ('IDs a second, A', 'Drift, A', 'Sessions that wait, on average, A',
	'Sessions that wait, on average, B', 'Refused calls, D', 'Horizon held back, A', 'Clock, B')
{
	cmp_ok(value("max_over_time(($expressions{$name})[1h:1s])"), '>', 0, "the dashboard shows the trouble: $name");
}
if ($other)
{
	my %of_other = map { $_->{metric}{__name__} => $_->{value}[1] } series('last_over_time({instance="sql", __name__=~"snowflake.*"}[1h])');
	my %queries = map { my $text = slurp_file("$examples/$_.yml"); $_ => join '', map { s/^ +//mgr } $text =~ /query: \|\n(.*?)(?=^  [a-z-]|\z)/msg }
	  qw(queries sql_exporter);

	is($queries{sql_exporter}, $queries{queries}, 'sql_exporter has the same queries');
	my $here = metrics($drawn);
	is_deeply([ sort keys %of_other ], [ grep { /^snowflake_/ && $here->{$_} ne 'NaN' } sort keys %$here ],
		'... and its metrics get the same names, apart from those that have no value');
	cmp_ok($of_other{snowflake_ids_total}, '>', 1000, '... and have the values');
	stop_serving($other);
}
my ($timeline) = grep { $_->{type} eq 'state-timeline' } @panels;
my %levels = map { $_->{metric}{check} => join '', map { $_->[1] } @{ $_->{values} } } series($timeline->{targets}[0]{expr}, 1);
like($levels{'unique indexes'}, qr/^0*1+0+$/, '... and the check that was not ok, until it was');
is($levels{partitions}, undef, '... and not those that were');

# SNOWFLAKE_RECORD=FILE: write what the panels show over the time, apart from what is
# always 0, for doc/pictures/dashboard.gp. A line has the second, the value, the number of
# the series in its panel, and its check, if it has one.
if (my $record = $ENV{SNOWFLAKE_RECORD})
{
	my ($stats) = map { qr/^(?:$_),/ } join '|', map { $_->{title} } grep { $_->{type} eq 'stat' } @panels;

	open my $to, '>', $record or die "$record: $!";
	foreach my $name (grep { !/$stats/ } sort keys %expressions)
	{
		my @shown = grep { grep { $_->[1] =~ /[1-9]/ } @{ $_->{values} } } series($expressions{$name}, 1);

		print $to "# $name\n" if @shown;
		foreach my $n (0 .. $#shown)
		{
			printf $to "%d %.4g %d \"%s\"\n", $_->[0] - $began, $_->[1], $n, $shown[$n]{metric}{check} // ''
			  foreach @{ $shown[$n]{values} };
			print $to "\n";
		}
		print $to "\n\n" if @shown;
	}
	close $to or die "$record: $!";
}
stop_serving($_) foreach $prometheus, $exporter;
$drawn->stop('immediate');
$load->{run}->kill_kill;

done_testing();
