# Node ids leased from a registry in PostgreSQL: obstacles to a lease; several servers,
# their clocks, stops under load, and copies.
#
# takes: 30 s
use SnowflakeTest;
use File::Basename;
use File::Copy;
use File::Path qw(make_path);
use IPC::Run;
use LeaseTest;
use Load;

# Four slots, fewer than servers.
my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';

# The registry preloads no library. Its database has the extension.
my ($registry, $checker) = bare_registry($layout);

# All servers stop cleanly and give their leases back, so no server waits for the end
# of a lease. The long times keep the leases alive on a busy machine.
my @times = ("snowflake.lease_reserve = '60s'", "snowflake.lease_presence = '30s'",
	"snowflake.lease_timeout = '5s'");

# ---- no registry yet ----

my $a = new_holder('a', @times, "snowflake.lease_wait = '0'");
foreach my $bad (
	[ "snowflake.registry = 'mysql://me:secret\@host'", qr/FATAL:  invalid value for parameter "snowflake.registry"\n.*DETAIL:  It must begin with/ ],
	[ "snowflake.registry = 'consul://host'", qr/FATAL:  invalid value for parameter "snowflake.registry"\n.*DETAIL:  It must begin with/ ],
	[ "snowflake.layout = 'mastodon'", qr/FATAL:  node id does not fit the layout\n.*DETAIL:  snowflake.registry is set, and the layout has no field for a node/ ],
	[ "snowflake.layout = 'timestamp:41 worker:5 datacenter:5 sequence:12'\nsnowflake.node_id = '1/'",
		qr/FATAL:  .*\n.*DETAIL:  The nodes of a datacenter are not neighbours/ ],
	[ "snowflake.node_id = '4'", qr/FATAL:  .*\n.*DETAIL:  snowflake.node_id is 4, and the layout has room for 0 to 3/ ])
{
	fails_to_start($a, "$bad->[0]\n", $bad->[1], $bad->[0] =~ s/\n.*//sr);
}
unlike(slurp_file($a->logfile), qr/secret/, 'no password is in the log');

# In binary upgrade mode there is no worker.
foreach my $mode ('', '-b')
{
	my $from = -s $a->logfile;
	my @pg_ctl = ('pg_ctl', '-w', '-D', $a->data_dir, '-l', $a->logfile);

	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, '-o', "$mode -c log_min_messages=debug1", 'start');
	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, 'stop');
	is(substr(slurp_file($a->logfile), $from) =~ /registering background worker "snowflake lease"/ ? 1 : 0,
		$mode eq '' ? 1 : 0, "a worker with postgres $mode");
}

# Installations without one of the libraries, and with one of another version. The server
# is copied, since it finds its directories by its own place.
{
	my $root = "$PostgreSQL::Test::Utils::tmp_check/installation";
	my %dir = map { chomp(my $d = `$ENV{PG_CONFIG} --$_`); $_ => $d } qw(bindir pkglibdir sharedir);
	my ($out, $err) = ('', '');

	make_path("$root$dir{bindir}", "$root$dir{pkglibdir}", dirname("$root$dir{sharedir}"));
	symlink $dir{sharedir}, "$root$dir{sharedir}" or die;
	foreach my $file (grep { !/snowflake_etcd\.so$/ } glob "$dir{pkglibdir}/*")
	{
		symlink $file, "$root$dir{pkglibdir}/" . basename($file) or die;
	}
	copy("$dir{bindir}/postgres", "$root$dir{bindir}/postgres") or die;
	chmod 0755, "$root$dir{bindir}/postgres";
	my $lease = "$root$dir{pkglibdir}/snowflake_lease.so";
	my $other = slurp_file($lease);
	cmp_ok($other =~ s/snowflake 1\.0\0/snowflake 0.9\0/g, '>=', 1, 'the library that leases has a version');
	foreach my $case (
		[ 'no library that leases', sub { unlink $lease or die },
			qr{FATAL:  there is no library "snowflake_lease", which snowflake.registry needs
.*DETAIL:  File ".*/snowflake_lease\.so" cannot be read\.
.*HINT:  Run make install where snowflake was built, or install its package again} ],
		[ 'one of another version', sub { PostgreSQL::Test::Utils::append_to_file($lease, $other) },
			qr{FATAL:  libraries "snowflake" and "snowflake_lease" are not of one build
.*DETAIL:  The first one is of snowflake 1\.0, the second one of snowflake 0\.9\.
.*HINT:  Install the extension again, all of it from one package or build} ],
		[ 'a registry whose library was not built', sub { unlink $lease; symlink "$dir{pkglibdir}/snowflake_lease.so", $lease or die },
			qr{FATAL:  there is no library "snowflake_etcd", which snowflake.registry needs
.*DETAIL:  File ".*/snowflake_etcd\.so" cannot be read\.
.*HINT:  .*libcurl \(Debian: libcurl4-openssl-dev\) are installed: install them, and build} ])
	{
		my ($what, $arrange, $message) = @$case;

		$arrange->();
		IPC::Run::run([ "$root$dir{bindir}/postgres", '-D', $a->data_dir, '-c', 'snowflake.registry=etcd://127.0.0.1/x' ],
			'>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		like($err, $message, $what);
		next if -e $lease;

		# a server without a registry starts, but the extension needs the library
		my $create = "CREATE EXTENSION snowflake\nSELECT count(*) FROM pg_extension WHERE extname = 'snowflake'\n";
		IPC::Run::run([ "$root$dir{bindir}/postgres", '--single', '-D', $a->data_dir, '-c', 'snowflake.registry=', 'postgres' ],
			'<', \$create, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		like($err, qr{ERROR:  could not access file "(?:\$libdir/)?snowflake_lease"}, "$what: the extension is not created");
		like($out, qr/count = "0"/, "$what: and nothing of it is left");
	}
}

# The registry's library is looked up in dynamic_library_path, as the extension's is.
my $elsewhere = "$PostgreSQL::Test::Utils::tmp_check/elsewhere";
chomp(my $pkglibdir = `$ENV{PG_CONFIG} --pkglibdir`);
make_path($elsewhere);
my $client = "$elsewhere/snowflake_postgresql.so";
my $later = slurp_file("$pkglibdir/snowflake_postgresql.so");
is($later =~ s/snowflake 1\.0\0/snowflake 1.9\0/, 1, 'the library of a registry has a version');
PostgreSQL::Test::Utils::append_to_file($client, $later);
$a->append_conf('postgresql.conf', "dynamic_library_path = '$elsewhere:\$libdir'");
query($registry, 'ALTER ROLE worker NOLOGIN');
$a->start;
query($a, 'CREATE EXTENSION snowflake; CREATE ROLE mallory LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor');

# As if a package had been installed while the server runs, which loads this library late.
my $of_another = qr/library "snowflake_postgresql" is not of the build that runs
.*DETAIL:  The library is of snowflake 1\.9, and the server runs snowflake 1\.0\.
.*HINT:  Install the extension again, all of it from one package or build\. Then restart the server\./;
like_log($a, qr/ERROR:  $of_another/, 0, 'one of another version is refused');
refused($a, 'SELECT * FROM snowflake_registry_slots()', 'F0000', $of_another, 'by a session, too');
wait_for_lease($a, q{problem ~ 'The registry.s library cannot be used: library "snowflake_postgresql" is not of the build that runs'});
refused($a, $next, '55000', qr/library cannot be used.*HINT:  Install the extension again, .* Then restart the server\./s, 'calls say so');
like(query($a, q{SELECT found || remedy FROM snowflake_status() WHERE check_name = 'lease'}),
	qr/library cannot be used.*Install the extension again/s, 'and so does the status');
unlink $client or die;
copy("$pkglibdir/snowflake_postgresql.so", $client) or die;
$a->restart;

# Only roles that may see the setting (members of pg_read_all_settings) see the
# registry's role and address. All others see which kind of problem it is.
my $told = q{SELECT l.registry, l.problem, l.remedy, v.lease_problem FROM snowflake_lease() l, pg_stat_snowflake v
	UNION ALL SELECT check_name, found, remedy, NULL FROM snowflake_status()
	WHERE check_name IN ('node id', 'lease')};
my $secret = qr/"worker"|\Q${\$registry->host}\E/;
wait_for_lease($a, q{problem ~ 'role "worker"'});
my $all = query($a, "SET ROLE watcher; $told");
is(() = $all =~ /The registry answered: [^|\n]*?role "worker"/g, 3,
	'members of pg_monitor are told all of it') or diag $all;
my $public = query($a, "SET ROLE mallory; $told");
my $login = 'The registry does not let this server log in.';
my $ask = q{Have an administrator see the remedy of the check "lease": SELECT * FROM public.snowflake_status();};
like($public, qr{^postgresql://\.\.\.\|$login\|\Q$ask\E\|$login$}m,
	'others are told what kind of problem it is, and who can do something');
unlike($public, $secret, 'and neither role nor address');
refused($a, "SET ROLE mallory; $next", '55000',
	qr{DETAIL:  The registry is "postgresql://\.\.\."\. $login\nHINT:  \Q$ask\E}s,
	'nor does the error say it');
refused($a, "SET ROLE watcher; $next", '55000', qr/DETAIL:  The registry is "postgresql:.*$secret/,
	'which members of pg_monitor are told');
my ($remedy) = $all =~ /(Put the role's password [^|\n]*)/;
like($remedy, qr/^Put the role's password into snowflake\.registry, and restart\. .*CREATE ROLE "worker" LOGIN;/, 'the remedy names the role');
($remedy) = $remedy =~ /(ALTER ROLE [^;]*;)/;
query($registry, "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC; $remedy");
wait_for_lease($a, q{problem ~ 'permission denied for database' AND remedy ~ 'In database "postgres"'});
($remedy) = lease_of($a, 'remedy') =~ /(GRANT CONNECT [^;]*;)/;
query($registry, $remedy);
wait_for_lease($a, q{problem ~ 'permission denied for schema' AND remedy ~ 'In database "postgres"'});
refused($a, $next, '55000',
	qr/$none.*permission denied for schema snowflake_servers/s,
	'a role that may not read it');
($remedy) = lease_of($a, 'remedy') =~ /(SELECT snowflake_registry\.grant\([^;]*;)/;
query($registry, $remedy);
wait_for_lease($a, q{problem ~ 'never initialized'});
like(slurp_file('/proc/' . lease_of($a, 'pid') . '/maps'),
	qr{ \Q$elsewhere\E/snowflake_postgresql\.so$}m,
	'the library is found by dynamic_library_path');
like(slurp_file("/proc/$a->{_pid}/maps"), qr{/snowflake_lease\.so$}m, 'the one that leases is loaded at the start');
grant_registry();
refused($a, $next, '55000',
	qr/$none.*never initialized.*HINT:.*snowflake_registry\.init/s,
	'a registry that was never initialized');
unlike(lease_of($a, 'registry'), qr/secret|worker/, 'its name tells no secret');
is(query($a, q{SET ROLE mallory; SELECT count(*) FROM pg_settings
	WHERE name = 'snowflake.registry'}), '0', 'nor does the setting');
is(query($registry, 'SELECT snowflake_registry.init()'), 't', 'init');
wait_for_lease($a, q{problem ~ 'is for (the|a) layout'});
query($registry, 'TRUNCATE snowflake_registry.registry');
wait_for_lease($a, q{problem ~ 'never initialized'});
is(query($registry, query($a, q{SELECT substring(remedy FROM '(SELECT [^;]*;)') FROM snowflake_lease()})),
	't', 'what the remedy says makes one for the layout of this server');
is(query($registry, "SELECT snowflake_registry.init('$layout')"), 'f',
	'init again changes nothing');

# ---- several servers ----

wait_for_lease($a, q{state = 'held'});
is(query($a, q{SET ROLE mallory; SELECT state, problem, remedy FROM snowflake_lease()}), 'held||',
	'what is over is told to nobody');
make_ids($a, 100);

my %holders = (a => $a);
foreach my $name ('b', 'c', 'd')
{
	$holders{$name} = new_holder($name, @times);
	$holders{$name}->start;
	query($holders{$name}, 'CREATE EXTENSION snowflake; ' . $next);
	make_ids($holders{$name}, 100);
}
is(join(' ', sort map { lease_of($_, 'node_id') } values %holders), '0 1 2 3',
	'four servers have four nodes');
my $e = new_holder('e', @times, "snowflake.lease_wait = '0'");
$e->start;
query($e, 'CREATE EXTENSION snowflake');
wait_for_lease($e, q{problem ~ 'are taken'});
refused($e, $next, '55000', qr/$none.*All slots from 0 to 3 are taken\..*HINT:  Stop a server/s,
	'a fifth is told so');
$holders{d}->stop;
wait_for_lease($e, q{state = 'held'});
make_ids($e, 100);
pass('until one is free');

# ---- clocks that are a little wrong ----

{
	my $offset = q{SELECT registry_offset FROM snowflake_clock()};
	my $from;

	is(query($holders{a}, "SELECT abs(extract(epoch FROM ($offset))) < 0.2"), 't',
		'the offset of a clock that is right');
	$e->stop;
	$from = -s $e->logfile;
	# the offset is larger than the time of an answer, which is not counted
	start_with_clock($e, 4);
	wait_for_lease($e, q{state = 'held'});
	is(query($e, "SELECT extract(epoch FROM ($offset)) BETWEEN 1 AND 4.5"), 't',
		'and of one that is four seconds ahead');
	like_log($e, qr/WARNING:  .*: The wall clock is \d+ ms ahead of that of the registry\./,
		$from, 'which is warned of');
	$e->stop;
	$e->append_conf('postgresql.conf', "snowflake.lease_wait = '60s'");
	$e->start;
	wait_for_lease($e, q{state = 'held'});
}

# ---- a server stops under load, and another one takes its slot ----

# The clock of the second server is behind by more than it takes to get the slot, so it
# goes through the same times as the first one. Clients do not pause, so every millisecond has IDs.
query($_, load_tables()) foreach (@holders{ 'a', 'b' }, $e);
foreach my $pair ([ $e, $holders{d} ], [ $holders{d}, $e ])
{
	my ($from, $to) = @$pair;
	my $node_id = lease_of($from, 'node_id');
	my $load = load_on($from, 0);

	$load->more(2000);
	start_with_clock($to, -4);
	query($to, load_tables()) if query($to, q{SELECT to_regclass('t') IS NULL}) eq 't';
	wait_for_lease($to, q{problem ~ 'are taken'});
	my ($last) = make_ids($from, 1);
	$from->stop('fast');
	$load->finish;
	wait_for_lease($to, q{state = 'held'});
	is(lease_of($to, 'node_id'), $node_id, 'a fast stop under load: another one has the slot');
	my ($first) = make_ids($to, 1);
	cmp_ok($first, '>', $last, 'and begins where the first one ended');
	$load = load_on($to, 0);
	$load->more(2000);
	is(refusals_of($load), '', 'and goes on with it');
}
$e->stop;
$holders{d}->start;
wait_for_lease($holders{d}, q{state = 'held'});

# ---- a base backup that is started as a second server ----

{
	my $b = $holders{b};

	$holders{c}->stop;
	$b->backup('copy');
	my $copy = PostgreSQL::Test::Cluster->new('copy');
	$copy->init_from_backup($b, 'copy');
	$copy->append_conf('postgresql.conf',
		"snowflake.shards = '100-101'\nsnowflake.copy_check = 'error'\n");
	$copy->{shard} = 100;
	$copy->start;
	wait_for_lease($copy, q{state = 'held'});
	isnt(lease_of($copy, 'node_id'), lease_of($b, 'node_id'), 'a copy gets another node');
	is(query($copy, "$next IS NOT NULL"), 't', 'and issues as that');
	refused($copy, 'SELECT snowflake_shard_nextval(100)', '55000',
		qr/this data directory is a copy of another server's.*Another server may have shard 100, too/s,
		'but nobody leases shards: it may have those of its original');
	query($copy, q{SELECT snowflake_accept('copy')});
	my @loads = map { load_on($_) } ($b, $copy);
	$_->more(1000) foreach @loads;
	is(refusals_of($_), '', 'both go on') foreach @loads;
	$copy->stop;
}

# ---- a pinned node id ----

{
	my $b = $holders{b};
	my $taken = lease_of($holders{a}, 'node_id');

	$b->stop;
	$b->append_conf('postgresql.conf', "snowflake.node_id = '$taken'\nsnowflake.lease_wait = '0'\n");
	$b->start;
	wait_for_lease($b, q{problem ~ 'is held by'});
	refused($b, $next, '55000', qr/$none.*Slot $taken is held by another server, "\S+:\d+"\..*HINT:  Leave that one running\./s,
		'a pinned node that is taken');
	$holders{a}->stop;
	wait_for_lease($b, q{state = 'held'});
	is(lease_of($b, 'node_id'), $taken, 'and claimed when it is free');
	make_ids($b, 100);

	# who had it, by the command of doc/incident.md
	my ($command) = slurp_file("$root/doc/incident.md") =~ /^(grep .*SF20.*)$/m;
	my $logs = join ' ', map { $_->logfile } values %holders;

	$command =~ s/node id 7 /node id $taken /;
	$command =~ s{\S+\*\.log}{$logs};
	is(join(', ', (map { /SF(20\d): node id from registry "[^"]+": (.*)/ ? "$1 $2" : $_ } split /\n/, qx($command))[-3 .. -1]),
		"201 Node id $taken is leased., 209 Node id $taken is given back., 201 Node id $taken is leased.",
		'the logs of the servers say who leased it, and who gave it back');
}

$holders{b}->stop;
$holders{d}->stop;
$registry->stop;
$checker->clients;
done_testing();
