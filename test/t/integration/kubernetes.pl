# The manifests of examples/kubernetes. Each reference has its target, and the
# manifests conform to Kubernetes' schemas, if these are available. Real servers on
# hosts named like the pods accept the configuration, and the probes give the right
# results. No cluster runs them. Needs YAML::XS. SNOWFLAKE_SCHEMAS is a directory of
# npm with the packages of the schemas (test/all sets it).
#
# takes: 22 s
# needs: libyaml-libyaml-perl nodejs
# part schemas: kubernetes_schemas
use SnowflakeTest;
use JSON::PP ();
use YAML::XS ();

my $examples = "$root/examples/kubernetes";
$YAML::XS::Boolean = 'JSON::PP';

# ---- schemas ----

foreach my $file ($ENV{SNOWFLAKE_SCHEMAS} ? qw(ids.yaml cloudnative-pg.yaml) : ())
{
	my $out = '';
	my $ended = IPC::Run::run([ 'node', "$root/test/helpers/validate_manifests.mjs",
			$ENV{SNOWFLAKE_SCHEMAS} ], '<',
		\JSON::PP->new->canonical->allow_nonref->encode([ YAML::XS::LoadFile("$examples/$file") ]),
		'>', \$out, '2>&1');

	ok($ended && $out =~ /^\d+ valid$/, "$file: as the schemas want it") or diag($out);
}

# ---- references between the manifests ----

my %is = map { $_->{kind} => $_ } YAML::XS::LoadFile("$examples/ids.yaml");
is(join(' ', sort keys %is), 'ConfigMap PodDisruptionBudget Service StatefulSet',
	'a StatefulSet, and what goes with it');
my $set = $is{StatefulSet}{spec};
my $pod = $set->{template}{spec};
my $container = $pod->{containers}[0];
my $labels = $set->{template}{metadata}{labels};
my ($apart) = @{ $pod->{affinity}{podAntiAffinity}{requiredDuringSchedulingIgnoredDuringExecution} };

is_deeply($set->{selector}{matchLabels}, $labels, 'the StatefulSet selects its pods');
is_deeply($is{Service}{spec}{selector}, $labels, 'and so does the service');
is_deeply($is{PodDisruptionBudget}{spec}{selector}{matchLabels}, $labels, 'the budget');
is_deeply($apart->{labelSelector}{matchLabels}, $labels, 'and the anti-affinity');
is($apart->{topologyKey}, 'kubernetes.io/hostname', 'which is of machines');
is($set->{serviceName}, $is{Service}{metadata}{name}, 'pods are named by the service');
is($is{Service}{spec}{clusterIP}, 'None', 'which is a headless one');
is($is{Service}{spec}{ports}[0]{targetPort}, $container->{ports}[0]{name}, 'and finds the port');
cmp_ok($is{PodDisruptionBudget}{spec}{maxUnavailable}, '<', $set->{replicas},
	'the budget leaves one');
ok(!$pod->{hostNetwork}, 'a pod has a host name of its own');

my $map = $is{ConfigMap}{metadata}{name};
my %volume = map { $_->{name} => $_ } @{ $pod->{volumes} };
my %mount = map { $_->{mountPath} => $_ } @{ $container->{volumeMounts} };
my %environment = map { $_->{name} => $_->{value} } @{ $container->{env} };
is($volume{configuration}{configMap}{name}, $map, 'the configuration is that of the ConfigMap');
is_deeply(
	[ sort map { $_->{name} } values %mount ],
	[ qw(configuration configuration data) ],
	'volumes are mounted');
is($set->{volumeClaimTemplates}[0]{metadata}{name}, 'data', 'and claimed');
my ($conf) = grep { /^config_file=/ } @{ $container->{args} };
$conf =~ m{^config_file=(.*)/(.*)$};
is($mount{$1}{name}, 'configuration', 'the server reads it');
my $settings = $is{ConfigMap}{data}{$2};
my ($script) = grep { $_->{mountPath} =~ m{^/docker-entrypoint-initdb\.d/\w+\.sql$} } values %mount;
my $sql = $is{ConfigMap}{data}{ $script->{subPath} };
ok($settings && $sql, 'what is in it is what is named');
like($environment{PGDATA}, qr{^\Q/var/lib/postgresql\E/\w+$}, 'the data are in a directory of the volume');
is($mount{'/var/lib/postgresql'}{name}, 'data', 'which is there');
my @probe = @{ $container->{readinessProbe}{exec}{command} };
my @alive = @{ $container->{livenessProbe}{exec}{command} };
ok(scalar(grep { $_ eq '--host=127.0.0.1' } @probe),
	'readiness is asked over TCP, where the image\'s server for its scripts does not listen');
my ($wait) = $settings =~ /^snowflake\.max_clock_wait = (\d+)s$/m;
cmp_ok($container->{readinessProbe}{timeoutSeconds}, '>', $wait,
	'the probe lasts longer than the server waits for its clock');

# ---- servers like those of the pods ----

# Make a server on a host of this name, with these settings, and do not start it. Its
# superuser has the name that the image uses.
sub server_on
{
	my ($host, $settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($host);

	$node->init(allows_streaming => 1);
	my $own = slurp_file($node->data_dir . '/postgresql.conf');
	my @own = $own =~ /^(?:unix_socket_directories|port) = .*$/mg;
	# the manifest's addresses belong to the pod's network
	$node->append_conf('postgresql.conf',
		join "\n", $settings, @own, "listen_addresses = '127.0.0.1'", '');
	return $node;
}

sub start_on
{
	my ($node, $host) = @_;

	local $ENV{SHIM_HOSTNAME} = $host;
	start_with_clock($node, 0);
	$node->safe_psql('postgres', "SELECT 1 FROM pg_roles WHERE rolname = 'postgres'")
	  or $node->safe_psql('postgres', 'CREATE ROLE postgres SUPERUSER LOGIN');
	return;
}

# Return whether a probe succeeds, and what it prints.
sub probe
{
	my ($node, @command) = @_;
	my $out = '';

	local $ENV{PGPORT} = $node->port;
	local $ENV{PGHOST} = $node->host;
	return (IPC::Run::run(\@command, '>', \$out, '2>&1') ? 'yes' : 'no', $out);
}

sub found
{
	my ($node, $ready, $pattern, $name) = @_;
	my ($well, $out) = probe($node, @probe);

	is($well, $ready, "$name: " . ($ready eq 'yes' ? 'ready' : 'not ready'));
	like($out, $pattern, "$name: it says why") if defined $pattern;
	is((probe($node, @alive))[0], 'yes', "$name: alive");
	return;
}

my %node = map { $_ => server_on("ids-$_", $settings) } 0, 1;
start_on($node{$_}, "ids-$_") foreach 0, 1;
found($node{0}, 'no', qr/database "ids" does not exist/, 'before the image has made the database');
foreach my $n (0, 1)
{
	query($node{$n}, "CREATE DATABASE $environment{POSTGRES_DB}");
	{
		local $ENV{CLIENT_PASSWORD} = "it's";
		query($node{$n}, $sql, database => 'ids');
	}
	is($node{$n}->safe_psql('ids', 'SELECT count(*) FROM snowflake_nextval_batch(3)', extra_params => [ '-U', 'client' ]),
		3, "pod $n: its clients make IDs");
	found($node{$n}, 'yes', undef, "pod $n");
	is(query($node{$n}, 'SELECT snowflake_node(snowflake_nextval())', database => 'ids'),
		$n, "pod $n has the node id $n");
}
set_clock($node{0}, -3600);
found($node{0}, 'no', qr/wall clock is/, 'a wrong clock');
found($node{1}, 'yes', undef, 'the other pod');
set_clock($node{0}, 0);
found($node{0}, 'yes', undef, 'a clock that is right again');
$_->stop foreach values %node;
{
	local $ENV{SHIM_HOSTNAME} = 'machine.example';
	local $ENV{LD_PRELOAD} = preload();
	fails_to_start($node{0}, '', qr/FATAL:  .*\n.*The host's name "machine.example" does not end/,
		'a host with no number, as with hostNetwork');
}

# ---- CloudNativePG ----

my ($cluster) = YAML::XS::LoadFile("$examples/cloudnative-pg.yaml");
my $postgresql = $cluster->{spec}{postgresql};
my $name = $cluster->{metadata}{name};
like($cluster->{spec}{imageName}, qr/:1[5-9]([._-]|$)/, 'the image\'s tag begins with a major version');
cmp_ok($cluster->{spec}{instances}, '>', 1, 'more than one instance');

# the configuration as the operator writes it
my $written = join "\n",
  "shared_preload_libraries = '" . join(',', @{ $postgresql->{shared_preload_libraries} }) . "'",
  map { "$_ = '$postgresql->{parameters}{$_}'" } sort keys %{ $postgresql->{parameters} };
my $instance = server_on("$name-1", $written);
# a job on a host of its own makes the data of the first instance, and runs the SQL
start_on($instance, "$name-1-initdb");
query($instance, $_) foreach @{ $cluster->{spec}{bootstrap}{initdb}{postInitApplicationSQL} };
my $made = query($instance, 'SELECT snowflake_nextval()');
is(query($instance, "SELECT snowflake_node($made)"), 1, "$name-1-initdb has the node id 1");
$instance->stop;
foreach my $serial (1, 2, 17)
{
	start_on($instance, "$name-$serial");
	is(query($instance, 'SELECT snowflake_node(snowflake_nextval())'), $serial,
		"an instance $name-$serial has the node id $serial");
	is(query($instance, "SELECT snowflake_nextval() > $made, (SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory')"),
		't|ok', 'which goes on where that job ended, and is no copy of it')
	  if $serial == 1;
	$instance->stop;
}
{
	# more instances than the layout has nodes
	local $ENV{SHIM_HOSTNAME} = "$name-1024";
	local $ENV{LD_PRELOAD} = preload();
	fails_to_start($instance, '', qr/FATAL: .*node id/, 'an instance beyond the layout\'s nodes');
}

done_testing();
