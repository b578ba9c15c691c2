# A registry in PostgreSQL: what its library makes of requests, answers and
# errors, without the worker. Needs what test/registry builds.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib $FindBin::RealBin;
use RegistryDriver;
use SnowflakeTest;

start_driver('postgresql');
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$registry->start;

# As the README says: what workers need, and what administrators do besides.
query($registry, q{
	CREATE SCHEMA "E x";
	CREATE EXTENSION snowflake SCHEMA "E x";
	SET search_path = "E x";
	CREATE ROLE worker LOGIN;
	GRANT USAGE ON SCHEMA "E x" TO worker;
	GRANT SELECT, UPDATE (id) ON snowflake_registry TO worker;
	GRANT SELECT, INSERT, UPDATE ON snowflake_registry_slot,
		snowflake_registry_shards TO worker;
	GRANT EXECUTE ON FUNCTION snowflake_registry_read, snowflake_registry_keep,
		snowflake_registry_write, snowflake_registry_write_shards TO worker});
my $url = sprintf('postgresql://worker@127.0.0.1:%d/postgres', $registry->port);
my $set = 'SET search_path = "E x";';
my $w = worker($url);

# ---- initialize ----

is(reading($w), 'uninitialized 0 0 ', 'there is no registry yet');
claim($w, 'nothing to claim in', 'CONFLICT');
asked($w, 'nothing to write shards in', 'CONFLICT', qr/^$/, 'shards', shards => 'x');
asked($w, 'nothing to recover', 'REFUSED', qr/permission denied for function snowflake_registry_renew/, 'recover');
asked($w, 'initialize', 'REFUSED', qr/permission denied for function snowflake_registry_begin/, 'initialize');
query($registry, "$set GRANT EXECUTE ON FUNCTION snowflake_registry_begin, snowflake_registry_renew TO worker");
asked($w, 'initialize', 'REFUSED', qr/permission denied for table snowflake_registry/, 'initialize');
query($registry, "$set GRANT INSERT, UPDATE ON snowflake_registry TO worker");
asked($w, 'nothing to recover', 'CONFLICT', qr/^$/, 'recover');
asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => 7);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'a registry, empty');
is(query($registry, "$set SELECT epoch_ms, tick_ms, (r.system_identifier, r.timeline) = (p)
	FROM snowflake_registry r, snowflake_registry_place() p"), '1000|10|t',
	'with what the layout says, and its place');
asked($w, 'initialize again', 'CONFLICT', qr/^$/, 'initialize', new_generation => 8);
is(reading($w), 'initialized 7 100 timestamp:41 sequence:22', 'which changes nothing');
my $clock = ask($w, 'read')->{clock_ms} / 1000;
ok(abs($clock - time) < 60, 'says what time it is');

# ---- a slot ----

claim($w, 'of another generation', 'CONFLICT', generation => 8);
claim($w, 'of a record that is not there', 'CONFLICT', version => 3);
my $v = claim($w, 'claim', 'DONE');
my $line = "initialized 7 100 timestamp:41 sequence:22\n5: written epoch 3 owner 11 server 4 "
  . "write 21 until 1000 offset -5 held host 'here' process 6 since 7 address '127.0.0.1' present 11";
is(reading($w), $line, 'read as it was written');
claim($w, 'never written, but it was', 'CONFLICT', owner => 12, displaced => 11);
claim($w, 'of an older version', 'CONFLICT', owner => 12, displaced => 11, version => $v - 1);
claim($w, 'somebody else is present', 'CONFLICT', owner => 12, version => $v, displaced => 13);
asked($w, 'released, but somebody else is there', 'CONFLICT', qr/^$/, 'release', owner => 0,
	displaced => 13, version => $v);
is(reading($w), $line, 'nothing was written');
asked($w, 'released for who is there', 'DONE', qr/^$/, 'release', owner => 0, displaced => 11,
	version => $v, until => 1700);
like(reading($w), qr/^5: .* owner 0 .* until 1700 .* released .* address '127.0.0.1' present 0$/m,
	'nobody has it; the address stays');
asked($w, 'keep alive', 'ABSENT', qr/^$/, 'keepalive');
my $local = worker(sprintf('postgresql://worker@/postgres?host=%s&port=%d', $registry->host, $registry->port));
claim($local, "node $_", 'DONE', node => $_, owner => -1, write_id => -2, host => q{a"b\\c'd/<&>})
  foreach 10, 9, 0;
like(reading($w), qr/^10: .* owner -1 server 4 write -2 .* host 'a"b\\c'd\/<&>' .* address '' present -1$/m,
	'numbers and texts as they were written; no address on a local socket');
is(join(' ', reading($w) =~ /^(\d+):/mg), '0 5 9 10', 'by node');

# ---- shards ----

my $text = q{a"b\\c'd/<&>};
$v = asked($w, 'shards', 'DONE', qr/^$/, 'shards', shards => $text);
like(reading($w), qr/^initialized .*\nshards '\Q$text\E' version $v\n0: /, 'read as it was written');
asked($w, 'shards as if there were none', 'CONFLICT', qr/^$/, 'shards', shards => 'x');
asked($w, 'shards of an older version', 'CONFLICT', qr/^$/, 'shards', shards => 'x', version => $v - 1);
asked($w, 'shards of another generation', 'CONFLICT', qr/^$/, 'shards', shards => 'x',
	version => $v, generation => 8);
like(reading($w), qr/^shards '\Q$text\E' version $v$/m, 'nothing was written');
my $v2 = asked($w, 'shards again', 'DONE', qr/^$/, 'shards', shards => 'y' x 60000, version => $v);
isnt($v2, $v, 'another version');
like(reading($w), qr/^shards 'y{60000}' version $v2$/m, 'a long text');

# ---- recover ----

asked($w, 'recover another one', 'CONFLICT', qr/^$/, 'recover', generation => 6);
like(reading($w), qr/^initialized 7 100 /, 'nothing was written');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
like(reading($w), qr/^initialized 9 1700 timestamp:41 sequence:22$/m,
	'the floor is not below what slots have');
asked($w, 'recover once more', 'DONE', qr/^$/, 'recover', generation => 9, new_generation => -2,
	new_floor => 2000);
like(reading($w), qr/^initialized -2 2000 /, 'nor above what was asked for');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', generation => -2, new_generation => 7, new_floor => 5);
like(reading($w), qr/^initialized 7 2000 /, 'nor lower than before');

# In another place it says what it is, and that it is not to be used.
query($registry, "$set UPDATE snowflake_registry SET timeline = '0000000F'");
my $answer = ask($w, 'read');
is($answer->{result}, 'REFUSED', 'another timeline: refused');
like($answer->{message}, qr/another server or timeline/, 'it says why');
like($answer->{registry}, qr/^initialized 7 2000 /, 'and what it is');
asked($w, 'claim there', 'CONFLICT', qr/^$/, 'claim', node => 20);
asked($w, 'shards there', 'CONFLICT', qr/^$/, 'shards', version => $v2, shards => 'z');
asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 8);
like(reading($w), qr/^initialized 8 2000 /, 'recovered');

# ---- errors, and answers that do not come ----

query($registry, qq{$set
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$
	BEGIN
		IF TG_ARGV[0] = 'end' THEN
			PERFORM pg_terminate_backend(pg_backend_pid());
		END IF;
		RAISE 'it fails';
	END \$\$});
foreach (
	[ 'error', 'REFUSED', qr/^it fails$/ ],
	[ 'end', 'UNKNOWN', qr/terminating connection/ ])
{
	my ($how, $result, $pattern) = @$_;

	query($registry, qq{$set
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry_shards
			FOR EACH ROW EXECUTE FUNCTION fail('$how');
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry_slot
			FOR EACH ROW EXECUTE FUNCTION fail('$how');
		CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON snowflake_registry
			FOR EACH ROW EXECUTE FUNCTION fail('$how')});
	asked($w, "$how: shards", $result, $pattern, 'shards', generation => 8, version => $v2, shards => 'z');
	asked($w, "$how: recover", $result, $pattern, 'recover', generation => 8, new_generation => 9);
	asked($w, "$how: claim", $result, $pattern, 'claim', generation => 8, node => 20);
	asked($w, "$how: initialize", $result, $pattern, 'initialize');
	query($registry, "$set DROP TRIGGER fails ON $_")
	  foreach qw(snowflake_registry_shards snowflake_registry_slot snowflake_registry);
}
like(reading($w), qr/^initialized 8 2000 .*\nshards 'y+' version $v2\n/, 'nothing of it was done');
$registry->stop;
asked($w, 'the server stops', 'UNKNOWN', qr/./, 'shards', generation => 8, version => $v2, shards => 'z');
asked($w, "it is gone: $_", 'REFUSED', qr/refused/, $_, generation => 8)
  foreach 'read', 'shards', 'recover', 'initialize';
$registry->start;
asked($w, 'it is back', 'DONE', qr/^$/, 'shards', generation => 8, version => $v2, shards => 'z');
$w->quit;
$local->quit;
done_testing();
