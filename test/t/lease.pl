# Node ids leased from a registry in PostgreSQL: claimed, extended, given back;
# taken, lost, unreachable; frozen and crashed holders; copies.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib $FindBin::RealBin;
use IdChecker;
use Load;
use SnowflakeTest;

my $next = 'SELECT snowflake_nextval()';
my $none = qr/this server has no lease of a node id.*DETAIL:  The registry is "postgresql:/s;

# Four slots, so that they run out.
my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';

# ---- the registry: a database with the extension, and nothing preloaded ----

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->start;
query($registry, 'CREATE EXTENSION snowflake; CREATE ROLE worker LOGIN');
my $url = sprintf('postgresql://worker:secret@/postgres?host=%s&port=%d',
	$registry->host, $registry->port);

# ---- servers ----

# A server that leases its node id; short times, and no patience.
sub new_holder
{
	my ($name, @settings) = @_;
	my $node = new_server($name);

	configure($node, @settings);
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

sub lease
{
	my ($node, $column) = @_;

	return query($node, "SELECT $column FROM snowflake_lease()");
}

sub wait_for_lease
{
	my ($node, $condition) = @_;

	$node->poll_query_until('postgres', "SELECT $condition FROM snowflake_lease()")
	  or die 'snowflake_lease() is ' . query($node, 'SELECT snowflake_lease()');
	return;
}

my $checker = IdChecker->new($registry->basedir . '/ids');

# IDs of one node's counter, on all servers: none may be there twice.
sub make_ids
{
	my ($node, $n) = @_;
	my @ids = split /\n/, query($node,
		"SELECT snowflake_nextval() FROM generate_series(1, $n)");

	$checker->saw('all servers', @ids);
	return @ids;
}

# ---- a registry that is not one yet ----

my $a = new_holder('a', "snowflake.lease_wait = '0'");
$a->start;
query($a, 'CREATE EXTENSION snowflake');
wait_for_lease($a, 'problem IS NOT NULL');
refused($a, $next, '55000',
	qr/$none.*permission denied for function snowflake_registry_read/s,
	'a role that may not read it');
query($registry, q{
	GRANT SELECT, UPDATE (id) ON snowflake_registry TO worker;
	GRANT SELECT, INSERT, UPDATE ON snowflake_registry_slot TO worker;
	GRANT EXECUTE ON FUNCTION snowflake_registry_read(),
		snowflake_registry_write(bigint, bigint, bigint, bigint, bigint, bigint,
			bigint, bigint, bigint, boolean, text, bigint, bigint),
		snowflake_registry_keep(bigint, bigint, bigint) TO worker});
wait_for_lease($a, q{problem ~ 'never initialized'});
refused($a, $next, '55000',
	qr/$none.*never initialized.*HINT:.*snowflake_registry_init/s,
	'a registry that was never initialized');
unlike(lease($a, 'registry'), qr/secret|worker/, 'its name tells no secret');
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
my $slot = lease($a, 'node_id');
my @ids = make_ids($a, 100);
is(query($a, "SELECT DISTINCT snowflake_node(id) FROM unnest('{"
	  . join(',', @ids) . "}'::bigint[]) id"), $slot, 'IDs carry the leased node');
my $until = lease($a, 'until');
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
is(lease($a, 'node_id'), $slot, 'and it is claimed again');
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
is(join(' ', sort map { lease($_, 'node_id') } values %holders), '0 1 2 3',
	'four servers have four nodes');
my $e = new_holder('e', "snowflake.lease_wait = '0'");
$e->start;
query($e, 'CREATE EXTENSION snowflake');
wait_for_lease($e, 'problem IS NOT NULL');
refused($e, $next, '55000', qr/$none.*All slots from 0 to 3 are taken\..*HINT:  Stop a server/s,
	'a fifth is told so');
$holders{d}->stop;
wait_for_lease($e, q{state = 'held'});
make_ids($e, 100);
pass('until one is free');
$e->stop;

$checker->clients;
done_testing();
