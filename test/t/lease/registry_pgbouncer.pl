# A registry in PostgreSQL behind a pooler that gives each transaction another session.
# Each request must bring the settings that it needs.
#
# takes: 6 s
# needs: registry_driver pgbouncer
use SnowflakeTest;
use PgBouncer;
use RegistryDriver;

my $driver = start_driver('postgresql');
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$registry->start;
query($registry, q{
	CREATE EXTENSION snowflake_registry;
	SELECT snowflake_registry.init();
	UPDATE snowflake_registry.registry SET generation = 7, floor = 100;
	CREATE ROLE worker LOGIN;
	SELECT snowflake_registry.grant('worker');

	-- what is not asked for with the request is as bad as can be, where it commits
	ALTER ROLE worker SET synchronous_commit = off;
	ALTER ROLE worker SET jit = on;
	CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF current_setting('synchronous_commit') <> 'on' OR current_setting('lock_timeout') = '0'
			OR current_setting('jit') <> 'off' OR current_setting('search_path') <> '' THEN
			RAISE 'synchronous_commit is %, lock_timeout %, jit %, search_path %',
				current_setting('synchronous_commit'), current_setting('lock_timeout'),
				current_setting('jit'), current_setting('search_path');
		END IF;
		RETURN NULL;
	END $$;
	CREATE CONSTRAINT TRIGGER look AFTER INSERT OR UPDATE ON snowflake_registry.slot
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION look()});

# In each transaction the settings of the session are the default ones.
my $pooler = PgBouncer->new($registry, default_pool_size => 2, query_wait_timeout => 60,
	ids => 'host=' . $registry->host . ' port=' . $registry->port . ' dbname=postgres user=worker',
	server_reset_query => 'DISCARD ALL', server_reset_query_always => 1)->start;
my $url = sprintf('postgresql://worker@127.0.0.1:%d/ids', $pooler->port);

# From 19 on, libpq asks for a protocol that older poolers do not know. Versions before
# 18 have no such parameter, and the library may be of another version than psql.
my $probe = $driver->background_psql('postgres');
$url .= '?max_protocol_version=3.0' if try_open($probe, "$url?max_protocol_version=3.0") eq 'ok';
$probe->quit;
my $w = worker($url, timeout => 2000);

like(reading($w), qr/^initialized 7 100 /, 'it is read');
my $v = claim($w, 'claim', 'DONE');
$v = asked($w, 'extend', 'DONE', qr/^$/, 'extend', version => $v);
asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
asked($w, 'a condition that does not hold', 'CONFLICT', qr/^$/, 'extend', version => $v + 1);

# A request does not wait for a lock for ever, and the connection can be used
# afterwards.
my $holder = begin_session($registry, 'BEGIN; SELECT 1 FROM snowflake_registry.registry FOR UPDATE');
asked($w, 'it is locked', 'REFUSED', qr/lock timeout/, 'extend', version => $v);
$holder->query_safe('COMMIT');
$holder->quit;
$v = asked($w, 'it is not any more', 'DONE', qr/^$/, 'extend', version => $v);
is($registry->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'}),
	'0', 'and nobody was left waiting');
asked($w, 'release', 'DONE', qr/^$/, 'release', owner => 0, displaced => 11, version => $v);
$w->quit;

# An error at the commit is an error, although the statement has returned its row.
query($registry, q{CREATE OR REPLACE FUNCTION look() RETURNS trigger LANGUAGE plpgsql
	AS $$BEGIN RAISE 'not committed'; END$$});
foreach my $to ($url, sprintf('postgresql://worker@127.0.0.1:%d/postgres', $registry->port))
{
	$w = worker($to);
	like(reading($w), qr/^initialized 7 100 /, 'it is read');
	asked($w, 'what fails where it commits', 'REFUSED', qr/^not committed$/, 'claim', node => 9, presence => 1);
	unlike(reading($w), qr/^9:/m, 'was not done');
	$w->quit;
}
$registry->stop;
$driver->stop;
done_testing();
