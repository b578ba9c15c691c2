# Node ids leased from a registry in PostgreSQL: claimed, extended, given back;
# taken, lost, unreachable; frozen and crashed holders; copies.
#
# takes: 176 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use File::Basename;
use File::Copy;
use File::Path qw(make_path);
use FindBin;
use IPC::Run;
use lib "$FindBin::RealBin/../../perl";
use IdChecker;
use Load;
use SnowflakeTest;

my $next = 'SELECT snowflake_nextval()';
my $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "postgresql:/s;

# Four slots, so that they run out.
my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';

# ---- the registry: a database with the extension, and nothing preloaded ----

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init(allows_streaming => 1);
$registry->append_conf('postgresql.conf', 'max_connections = 50');
$registry->start;
query($registry, 'CREATE EXTENSION snowflake; CREATE ROLE worker LOGIN');
my $url = sprintf('postgresql://worker:secret@/postgres?host=%s&port=%d',
	$registry->host, $registry->port);

# ---- servers ----

# A server that leases its node id, with short times, and two shards of its own.
my $shards = 0;

sub new_holder
{
	my ($name, @settings) = @_;
	my $node = new_server($name);

	configure($node, @settings);
	$node->{shard} = 2 * $shards++;
	$node->append_conf('postgresql.conf',
		sprintf("snowflake.shards = '%d-%d'\n", $node->{shard}, $node->{shard} + 1));
	return $node;
}

sub configure
{
	my ($node, @settings) = @_;

	$node->append_conf('postgresql.conf', join("\n",
		"snowflake.node_id = ''", "snowflake.registry = '$url'",
		"snowflake.layout = '$layout'", "snowflake.lease_reserve = '6s'",
		"snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '1s'",
		"snowflake.lease_wait = '60s'", "snowflake.max_clock_wait = '10s'",
		@settings, ''));
	return;
}

my $checker = IdChecker->new($registry->basedir . '/ids');

# IDs of one node's counter, on all servers: none may be there twice.
sub make_ids
{
	my ($node, $n) = @_;
	my @ids = split /\n/, query($node,
		"SELECT snowflake_nextval() FROM generate_series(1, $n)");

	$checker->saw('all servers, node', @ids);
	return @ids;
}

# Load on a server, with shards of its own.
sub load_on
{
	my ($node) = @_;

	return start_load($checker, 'all servers', $node->connstr('postgres'), 8,
		$node->{shard});
}

# Whether there is anything but refusals.
sub refusals_of
{
	my ($load) = @_;

	return join ' ', sort keys %{ $load->finish };
}

# A call under a name of its own, which is not waited for.
sub call_as
{
	my ($node, $name, $out, $err) = @_;

	return IPC::Run::start([ 'psql', '-XAtq', '-d',
		$node->connstr('postgres') . " application_name=$name", '-c', $next ],
		'>', $out, '2>', $err);
}

# A process of the server that answers to nothing.
sub freeze_worker
{
	my ($node) = @_;
	my $pid = lease_of($node, 'pid');

	kill('STOP', $pid) == 1 or die "cannot stop $pid";
	return $pid;
}

# ---- a registry that is not one yet ----

my $a = new_holder('a', "snowflake.lease_wait = '0'");
foreach my $bad (
	[ "snowflake.registry = 'mysql://me:secret\@host'", qr/FATAL:  invalid value for parameter "snowflake.registry"\n.*DETAIL:  It must begin with/ ],
	[ "snowflake.registry = 'consul://host'", qr/FATAL:  invalid value for parameter "snowflake.registry"\n.*DETAIL:  It must begin with/ ],
	[ "snowflake.layout = 'mastodon'", qr/FATAL:  node id does not fit the layout\n.*DETAIL:  snowflake.registry is set, and the layout has no field for a node/ ],
	[ "snowflake.layout = 'timestamp:41 worker:5 datacenter:5 sequence:12'\nsnowflake.datacenter_id = '1'",
		qr/FATAL:  .*\n.*DETAIL:  The nodes of a datacenter are not neighbours/ ],
	[ "snowflake.node_id = '4'", qr/FATAL:  .*\n.*DETAIL:  snowflake.node_id is 4, and the layout has room for 0 to 3/ ])
{
	fails_to_start($a, "$bad->[0]\n", $bad->[1], $bad->[0] =~ s/\n.*//sr);
}
unlike(slurp_file($a->logfile), qr/secret/, 'no password is in the log');

# A binary upgrade has no worker.
foreach my $mode ('', '-b')
{
	my $from = -s $a->logfile;
	my @pg_ctl = ('pg_ctl', '-w', '-D', $a->data_dir, '-l', $a->logfile);

	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, '-o', "$mode -c log_min_messages=debug1", 'start');
	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, 'stop');
	is(substr(slurp_file($a->logfile), $from) =~ /registering background worker "snowflake lease"/ ? 1 : 0,
		$mode eq '' ? 1 : 0, "a worker with postgres $mode");
}

# An installation without a registry's library: a copy of the server, which
# finds its directories by where it is itself.
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
	IPC::Run::run([ "$root$dir{bindir}/postgres", '-D', $a->data_dir, '-c', 'snowflake.registry=etcd://127.0.0.1/x' ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(60));
	like($err, qr{FATAL:  there is no library for the registry that snowflake.registry names
.*DETAIL:  File ".*/snowflake_etcd\.so" cannot be read\.
.*HINT:  .*libcurl \(Debian: libcurl4-openssl-dev\) are installed: install them, and build}, 'a registry whose library was not built');
}

# The library is looked for as the extension's own is, which may be elsewhere.
my $elsewhere = "$PostgreSQL::Test::Utils::tmp_check/elsewhere";
chomp(my $pkglibdir = `$ENV{PG_CONFIG} --pkglibdir`);
make_path($elsewhere);
copy("$pkglibdir/snowflake_postgresql.so", $elsewhere) or die;
$a->append_conf('postgresql.conf', "dynamic_library_path = '$elsewhere:\$libdir'");
$a->start;
query($a, 'CREATE EXTENSION snowflake');
wait_for_lease($a, q{problem ~ 'permission denied'});
like(slurp_file('/proc/' . lease_of($a, 'pid') . '/maps'),
	qr{ \Q$elsewhere\E/snowflake_postgresql\.so$}m,
	'the library is found by dynamic_library_path');
refused($a, $next, '55000',
	qr/$none.*permission denied for function snowflake_registry_read/s,
	'a role that may not read it');
query($registry, q{
	GRANT SELECT, UPDATE (id) ON snowflake_registry TO worker;
	GRANT SELECT, INSERT, UPDATE ON snowflake_registry_slot,
		snowflake_registry_shards TO worker;
	GRANT EXECUTE ON FUNCTION snowflake_registry_read, snowflake_registry_keep,
		snowflake_registry_write, snowflake_registry_write_shards TO worker});
wait_for_lease($a, q{problem ~ 'never initialized'});
refused($a, $next, '55000',
	qr/$none.*never initialized.*HINT:.*snowflake_registry_init/s,
	'a registry that was never initialized');
unlike(lease_of($a, 'registry'), qr/secret|worker/, 'its name tells no secret');
query($a, 'CREATE ROLE mallory LOGIN');
is(query($a, q{SET ROLE mallory; SELECT count(*) FROM pg_settings
	WHERE name = 'snowflake.registry'}), '0', 'nor does the setting');
is(query($registry, 'SELECT snowflake_registry_init()'), 't', 'init');
wait_for_lease($a, q{problem ~ 'is for the layout'});
query($registry, "TRUNCATE snowflake_registry; SELECT snowflake_registry_init('$layout')");
is(query($registry, "SELECT snowflake_registry_init('$layout')"), 'f',
	'init again changes nothing');

# ---- claim, extend, give back, claim again ----

wait_for_lease($a, q{state = 'held'});
my $slot = lease_of($a, 'node_id');
my @ids = make_ids($a, 100);
is(query($a, "SELECT DISTINCT snowflake_node(id) FROM unnest('{"
	  . join(',', @ids) . "}'::bigint[]) id"), $slot, 'IDs carry the leased node');
my $until = lease_of($a, 'until');
wait_for_lease($a, "until > '$until'");
pass('it is extended');
make_ids($a, 100);
is(query($registry, "SELECT slot, present, released FROM snowflake_registry_slots()"),
	"$slot|t|f", 'the registry lists it');
$a->stop;
is(query($registry, 'SELECT present, released FROM snowflake_registry_slots()'),
	'f|t', 'a clean stop gives it back');
is(query($registry, 'SELECT until <= clock_timestamp() FROM snowflake_registry_slots()'),
	't', 'up to what was issued');
$a->start;
wait_for_lease($a, q{state = 'held'});
is(lease_of($a, 'node_id'), $slot, 'and it is claimed again');
make_ids($a, 100);

# ---- several servers ----

my %holders = (a => $a);
foreach my $name ('b', 'c', 'd')
{
	$holders{$name} = new_holder($name);
	$holders{$name}->start;
	query($holders{$name}, 'CREATE EXTENSION snowflake; ' . $next);
	make_ids($holders{$name}, 100);
}
is(join(' ', sort map { lease_of($_, 'node_id') } values %holders), '0 1 2 3',
	'four servers have four nodes');
my $e = new_holder('e', "snowflake.lease_wait = '0'");
$e->start;
query($e, 'CREATE EXTENSION snowflake');
wait_for_lease($e, q{problem ~ 'are taken'});
refused($e, $next, '55000', qr/$none.*All slots from 0 to 3 are taken\..*HINT:  Stop a server/s,
	'a fifth is told so');
$holders{d}->stop;
wait_for_lease($e, q{state = 'held'});
make_ids($e, 100);
pass('until one is free');

# ---- clocks that are off, but not by much ----

{
	my $offset = q{SELECT registry_offset FROM snowflake_clock()};
	my $from;

	is(query($holders{a}, "SELECT abs(extract(epoch FROM ($offset))) < 0.2"), 't',
		'the offset of a clock that is right');
	$e->stop;
	$from = -s $e->logfile;
	# more than an answer may take, which does not count
	start_with_clock($e, 4);
	wait_for_lease($e, q{state = 'held'});
	is(query($e, "SELECT extract(epoch FROM ($offset)) BETWEEN 1 AND 4.5"), 't',
		'and of one that is four seconds ahead');
	like_log($e, qr/WARNING:  .*: The wall clock is \d+ ms ahead of that of the registry\./,
		$from, 'which is warned of');
	like_log($e, qr/WARNING:  .*: The wall clock is more than 200 ms ahead of those of most other servers\./,
		$from, 'for those of the others as well');
	$e->stop;
	$e->start;
	wait_for_lease($e, q{state = 'held'});
}

# ---- a server that stops under load, and another that takes its slot ----

# The clock of the other one is behind: it goes through the very times in which
# the first one has made IDs.
query($_, load_tables()) foreach (@holders{ 'a', 'b' }, $e);
foreach my $pair ([ $e, $holders{d} ], [ $holders{d}, $e ])
{
	my ($from, $to) = @$pair;
	my $node_id = lease_of($from, 'node_id');
	my $load = load_on($from);

	$load->more(2000);
	start_with_clock($to, -1);
	query($to, load_tables()) if query($to, q{SELECT to_regclass('t') IS NULL}) eq 't';
	wait_for_lease($to, q{problem ~ 'are taken'});
	$from->stop('fast');
	$load->finish;
	wait_for_lease($to, q{state = 'held'});
	is(lease_of($to, 'node_id'), $node_id, 'a fast stop under load: another one has the slot');
	$load = load_on($to);
	$load->more(2000);
	is(refusals_of($load), '', 'and goes on with it');
}
$e->stop;
$holders{d}->start;
wait_for_lease($holders{d}, q{state = 'held'});

# ---- the registry is gone, for shorter and for longer than the reserve ----

{
	my $b = $holders{b};
	my $from = -s $b->logfile;
	my $node_id = lease_of($b, 'node_id');

	query($b, q{ALTER SYSTEM SET snowflake.lease_reserve = '12s'});
	$b->reload;
	wait_for_lease($b, q{until > now() + interval '9 s'});
	$registry->stop('fast');
	wait_for_lease($b, 'problem IS NOT NULL');
	like_log($b, qr/WARNING:  snowflake SF203: node id from registry .*: The registry (?:answered|did not answer)/,
		$from, 'the log says at once that the registry is gone');
	make_ids($b, 1000);
	is(lease_of($b, 'state'), 'held', 'it goes on without');
	$registry->start;
	my $load = load_on($b);
	wait_for_lease($b, 'problem IS NULL');
	$load->more(2000);
	is(refusals_of($load), '', 'and with it again');

	$registry->stop('immediate');
	query($b, 'ALTER SYSTEM RESET snowflake.lease_reserve');
	query($b, q{ALTER SYSTEM SET snowflake.lease_wait = '0'});
	$b->reload;
	$load = load_on($b);
	wait_for_lease($b, 'until < clock_timestamp()');
	$b->poll_query_until('postgres', q{SELECT setting = '0' FROM pg_settings
		WHERE name = 'snowflake.lease_wait'}) or die 'no reload';
	refused($b, $next, '55000', qr/$none.*The registry (?:answered|did not answer).*HINT:/s,
		'when the reserve is used up it is refused');
	refused($b, 'SELECT snowflake_ready()', '55000', $none, 'and not ready');
	query($b, q{ALTER SYSTEM SET snowflake.lease_wait = '1h'});
	$b->reload;
	$b->poll_query_until('postgres', q{SELECT setting = '3600000' FROM pg_settings
		WHERE name = 'snowflake.lease_wait'}) or die 'no reload';
	my ($id, $error) = ('', '');
	my $call = call_as($b, 'waiter', \$id, \$error);
	my $waits = q{FROM pg_stat_activity WHERE application_name = 'waiter' AND }
	  . waits_for($b, 'SnowflakeLease');
	$b->poll_query_until('postgres', "SELECT count(*) = 1 $waits")
	  or die 'nobody waits';
	is(query($b, "SELECT pg_cancel_backend(pid) $waits"), 't', 'a call waits');
	$call->finish;
	like($error, qr/canceling statement due to user request/, 'and can be cancelled');
	$call = call_as($b, 'waiter', \$id, \$error);
	$b->poll_query_until('postgres', "SELECT count(*) = 1 $waits")
	  or die 'nobody waits';
	$registry->start;
	$call->finish;
	like($id, qr/^\d+$/, 'and is over when the registry is back') or diag($error);
	$checker->saw('all servers, node', $id =~ /(\d+)/);
	$load->more(2000);
	is(refusals_of($load), '55000', 'load over all that met refusals only');
	is(lease_of($b, 'node_id'), $node_id, 'with the node that it had');
	query($b, 'ALTER SYSTEM RESET ALL');
	$b->reload;
}

# ---- a worker that is frozen for longer than the reserve ----

{
	my $b = $holders{b};

	query($b, q{ALTER SYSTEM SET snowflake.lease_wait = '0'});
	$b->reload;
	my $load = load_on($b);
	$load->more(1000);
	my $from = -s $b->logfile;
	my $pid = freeze_worker($b);
	wait_for_lease($b, 'until < clock_timestamp()');
	refused($b, $next, '55000', $none, 'a frozen worker: refused when the reserve is used up');

	# its slot goes to another one meanwhile
	$registry->poll_query_until('postgres', 'SELECT count(*) = 1 FROM snowflake_registry_slots() WHERE NOT present')
	  or die 'still present';
	$e->start;
	wait_for_lease($e, q{state = 'held'});
	is(lease_of($e, 'node_id'), lease_of($b, 'node_id'), 'another server has its slot');
	make_ids($e, 1000);
	kill 'CONT', $pid;
	wait_for_lease($b, q{problem ~ 'are taken'});
	like_log($b, qr/The process was frozen.*The lease of node id \d is lost: somebody else has claimed it/s,
		$from, 'when it goes on it finds that the lease is lost');
	make_ids($e, 1000);
	$e->stop;
	wait_for_lease($b, q{state = 'held'});
	$load->more(1000);
	is(refusals_of($load), '55000', 'and gets it back when that is free');
	query($b, 'ALTER SYSTEM RESET ALL');
	$b->reload;
}

# ---- an administrator frees a slot, of a holder that lives ----

{
	my $b = $holders{b};
	my $from = -s $b->logfile;
	my $node_id = lease_of($b, 'node_id');
	my $load = load_on($b);

	# reserved for so long that no other delay makes it claim the same one
	query($b, q{ALTER SYSTEM SET snowflake.lease_reserve = '15s'});
	$b->reload;
	wait_for_lease($b, q{until > now() + interval '12 s'});
	$holders{c}->stop;
	$load->more(1000);
	is(query($registry, "SELECT snowflake_registry_release($node_id)"), 't', 'release');
	my $tries = 0;
	until (slurp_file($b->logfile, $from) =~ /The lease of node id $node_id is lost/)
	{
		die 'the holder does not notice' if ++$tries > 1800;
		usleep(100_000);
	}
	wait_for_lease($b, q{state = 'held'});
	$load->more(1000);
	is(refusals_of($load), '', 'the holder claims another, and nobody notices');
	isnt(lease_of($b, 'node_id'), $node_id, 'with another node');
	my $running = $b->background_psql('postgres');
	my $before = $running->query('BEGIN; INSERT INTO t DEFAULT VALUES RETURNING id');
	cmp_ok(query($b, 'SELECT snowflake_horizon()'), '<=', $before,
		'the horizon is not beyond a transaction that runs');
	$running->query('COMMIT');
	$running->quit;
	cmp_ok(query($b, 'SELECT snowflake_horizon()'), '>', $before,
		'and goes on when it has ended, with nobody else there');
	query($b, 'ALTER SYSTEM RESET ALL');
	$b->reload;
}

# ---- a crash ----

{
	my $b = $holders{b};
	my $load = load_on($b);

	$load->more(1000);
	$b->stop('immediate');
	$load->finish;
	$b->start;
	$load = load_on($b);
	$load->more(1000);
	is(refusals_of($load), '', 'after an immediate stop it claims a slot');
	$load = load_on($b);
	$load->more(1000);
	my $from = -s $b->logfile;
	query($b, q{ALTER SYSTEM SET restart_after_crash = on});
	$b->reload;
	kill 'KILL', lease_of($b, 'pid');
	wait_for_restart($b, $from);
	$load->finish;
	$load = load_on($b);
	$load->more(1000);
	is(refusals_of($load), '', 'and after its worker was killed');
	my $pid = lease_of($b, 'pid');
	$load = load_on($b);
	kill 'TERM', $pid;
	wait_for_lease($b, "state = 'held' AND pid <> $pid");
	$load->more(1000);
	is(refusals_of($load), '', 'a worker that is ended alone is followed by another');
}

# ---- a base backup that is started as a second server ----

{
	my $b = $holders{b};

	$b->backup('copy');
	my $copy = PostgreSQL::Test::Cluster->new('copy');
	$copy->init_from_backup($b, 'copy');
	$copy->append_conf('postgresql.conf',
		"snowflake.shards = '100-101'\nsnowflake.copy_check = 'error'\n");
	$copy->{shard} = 100;
	$copy->start;
	wait_for_lease($copy, q{state = 'held'});
	isnt(lease_of($copy, 'node_id'), lease_of($b, 'node_id'), 'a copy gets another node');
	my @loads = map { load_on($_) } ($b, $copy);
	$_->more(1000) foreach @loads;
	is(refusals_of($_), '', 'both go on') foreach @loads;
	$copy->stop;
}

# ---- this slot and no other ----

{
	my $b = $holders{b};
	my $taken = lease_of($holders{a}, 'node_id');

	$b->stop;
	$b->append_conf('postgresql.conf', "snowflake.node_id = '$taken'\nsnowflake.lease_wait = '0'\n");
	$b->start;
	wait_for_lease($b, q{problem ~ 'is held by'});
	refused($b, $next, '55000', qr/$none.*Slot $taken is held by ".+"\./s,
		'a pinned node that is taken: the holder is named');
	$holders{a}->stop;
	wait_for_lease($b, q{state = 'held'});
	is(lease_of($b, 'node_id'), $taken, 'and claimed when it is free');
	make_ids($b, 100);
}

# ---- the registry has lost data ----

{
	my $b = $holders{b};

	$holders{d}->stop;
	query($registry, qq{TRUNCATE snowflake_registry, snowflake_registry_slot;
		BEGIN; SELECT snowflake_registry_init('$layout');
		SELECT snowflake_registry_recover('20 s'); COMMIT});
	wait_for_lease($b, q{problem ~ 'After its recovery the registry lets nobody claim'});
	my $from = lease_of($b, 'problem') =~ /before (\S+)\./ ? $1 : die 'no time';
	wait_for_lease($b, q{state = 'held'});
	my @late = make_ids($b, 100);
	is(query($b, "SELECT snowflake_timestamp($late[0]) >= '$from'"), 't',
		'after its recovery nothing is made before the floor');
}

# ---- the registry fails over ----

{
	my $b = $holders{b};

	$registry->stop;
	$registry->set_standby_mode;
	$registry->start;
	wait_for_lease($b, q{problem ~ 'recovery is in progress|read-only transaction'});
	$registry->promote;
	wait_for_lease($b, q{problem ~ 'on another server or timeline'});
	query($registry, q{SELECT snowflake_registry_recover('20 s')});
	wait_for_lease($b, q{problem ~ 'After its recovery'});
	like_log($b, qr/is lost: the registry is not the one that it was/, 0,
		'a registry that was recovered: the lease is lost');
	wait_for_lease($b, q{state = 'held'});
	make_ids($b, 100);
}

$holders{b}->stop;
$checker->clients;
done_testing();
