# The history of a registry: who held a slot before, and why it holds it no more. It is written by whoever replaces a record, never twice, and a lease neither
# waits for it nor fails with it.
#
# takes: 40 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use LeaseTest;
use SnowflakeTest;

my ($registry, $checker) = new_registry('timestamp:41 node:1 sequence:12 epoch:2024-01-01');

grant_registry();
query($registry, q{SELECT snowflake_registry.init('timestamp:41 node:1 sequence:12 epoch:2024-01-01')});
my $a = start_holder('a');
wait_for_lease($a, q{state = 'held'});
my $slot = lease_of($a, 'node_id');
my ($a_pid) = split /\n/, slurp_file($a->data_dir . '/postmaster.pid');
chomp(my $host = `hostname`);
my $a_host = "$host:" . $a->port;
my $b = new_holder('b');
my $b_host = "$host:" . $b->port;

sub wait_until
{
	my ($condition) = @_;

	$registry->poll_query_until('postgres', "SELECT $condition") or die "never: $condition";
	return;
}

sub now { return query($registry, 'SELECT clock_timestamp()') }

# Return who held the slot at that time.
sub holders_at
{
	my ($at) = @_;

	return query($registry, "SELECT host, ended FROM snowflake_registry.history($slot, '$at')");
}

sub pin
{
	my ($node, @settings) = @_;

	$node->append_conf('postgresql.conf', join("\n", "snowflake.node_id = '$slot'", @settings, ''));
	return;
}

my $before_b = now();
is(holders_at($before_b), "$a_host|", 'it holds the slot');
is(query($registry, "SELECT count(*) FROM snowflake_registry.history($slot, '2024-01-02')"), '0', 'and nobody did long ago');

# ---- released ----

$a->stop;
is(query($registry, "SELECT host, ended, ended_at BETWEEN '$before_b' AND clock_timestamp()
	FROM snowflake_registry.history($slot)"), "$a_host|released|t", 'given back, and not claimed since: it is in the record');
pin($b);
$b->start;
query($b, 'CREATE EXTENSION snowflake');
wait_for_lease($b, q{state = 'held' AND kind = 'node'});
is( query($registry, "SELECT host, process, address IS NULL, ended, since < '$before_b', ended_at BETWEEN '$before_b' AND clock_timestamp()
	FROM snowflake_registry.history($slot) WHERE ended IS NOT NULL"),
	"$a_host|$a_pid|t|released|t|t", 'claimed by another: the history has it');
my $with_b = now();
is(holders_at($before_b), "$a_host|released", 'who had it then');
is(holders_at($with_b), "$b_host|", 'and who has it now');

# ---- expired ----

$b->stop('immediate');
pin($a);
$a->start;
wait_for_lease($a, q{state = 'held' AND kind = 'node'});
is(query($registry, "SELECT host, ended, ended_at <= until AND ended_at > since FROM snowflake_registry.history($slot, '$with_b')"),
	"$b_host|expired|t", 'a holder that has crashed');

# ---- displaced ----

my $with_a = now();
$a->stop('immediate');
query($registry, "SELECT snowflake_registry.release($slot)");
is(query($registry, "SELECT host, ended, ended_at > '$with_a' FROM snowflake_registry.history($slot, '$with_a')"),
	"$a_host|displaced|t", 'an administrator has freed its slot');
$b->start;
wait_for_lease($b, q{state = 'held' AND kind = 'node'});
is(query($registry, "SELECT host, ended, ended_at BETWEEN '$with_a' AND clock_timestamp() FROM snowflake_registry.history($slot, '$with_a')"),
	"$a_host|displaced|t", 'another claims it: the history says so too');
is(query($registry, "SELECT string_agg(host || ' ' || coalesce(ended, '-'), ', ' ORDER BY since)
	FROM snowflake_registry.history($slot)"),
	"$a_host released, $b_host expired, $a_host displaced, $b_host -", 'all of them, once each');

# ---- by the servers' logs ----

# The command of doc/incident.md, for these servers.
my ($command) = slurp_file("$FindBin::RealBin/../../../doc/incident.md") =~ /^(grep .*SF20.*)$/m or die 'no command';
$command =~ s/node id 7 /node id $slot /;
my $logs = join ' ', map { $_->logfile } $a, $b;
$command =~ s{\S+\*\.log}{$logs};
is(join(', ', map { /SF(20\d): node id from registry "[^"]+": (.*)/ ? "$1 $2" : $_ } split /\n/, qx($command)),
	join(', ', map { "$_->[0] Node id $slot is $_->[1]." } [ 201, 'leased' ], [ 209, 'given back' ], ([ 201, 'leased' ]) x 3),
	'the logs of the servers say who leased it, and who gave it back');

# ---- what cannot be written ----

my $generation = query($registry, 'SELECT generation FROM snowflake_registry.registry');

# Return the calls that claim slot 9 by itself, as a worker, with this host.
sub claim_as
{
	my ($name) = @_;

	return qq{SELECT written > 0 FROM snowflake_registry.write($generation, 9,
		coalesce((SELECT version FROM snowflake_registry.slot WHERE node = 9), 0),
		coalesce((SELECT epoch FROM snowflake_registry.slot WHERE node = 9), 0) + 1,
		1, 1, 1, 1, 0, false, '$name', 1, 1000, 1, 60000, 9000)};
}

sub rows
{
	return query($registry, q{SELECT concat_ws(' ', node, host) FROM snowflake_registry.history
		WHERE node = 9 ORDER BY 1});
}

# The statements here look for the versions themselves; a server calls read().
query($registry, 'GRANT SELECT ON snowflake_registry.slot TO worker');
$b->stop;
query($registry, "SET ROLE worker; " . claim_as('first'));
query($registry, 'UPDATE snowflake_registry.registry SET keep_days = 100000');
my $claims = 'SET ROLE worker; ' . claim_as('next');
is(query($registry, "BEGIN; $claims; RESET ROLE; SELECT count(*) FROM snowflake_registry.history WHERE node = 9; ROLLBACK"),
	"t\n1", 'a claim is kept');
my $locker = $registry->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE snowflake_registry.history');
is(query($registry, "BEGIN; $claims; COMMIT"), 't', 'the table is locked: it is done all the same');
$locker->query_safe('ROLLBACK');
is(rows(), '', 'and not kept');
$locker->query_safe('BEGIN; UPDATE snowflake_registry.registry SET keep_days = 30');
is(query($registry, "SET lock_timeout = '1min'; BEGIN; $claims; ROLLBACK"), 't',
	'somebody changes the days, and has not committed: it does not wait');
$locker->query_safe('ROLLBACK; BEGIN; SELECT snowflake_registry.recover()');
refused($registry, "SET lock_timeout = '10ms'; $claims", '55P03', qr/lock timeout/, 'a recovery goes on: it waits');
$locker->query_safe('ROLLBACK');
$locker->quit;
foreach (
	[ 'the table is gone', 'ALTER EXTENSION snowflake_registry DROP TABLE snowflake_registry.history;
		ALTER TABLE snowflake_registry.history RENAME TO another' ],
	[ 'no room', q{CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no space left' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON snowflake_registry.history EXECUTE FUNCTION full_disk()} ],
	[ 'nobody knows how long', 'ALTER TABLE snowflake_registry.registry DROP CONSTRAINT registry_keep_days_check;
		UPDATE snowflake_registry.registry SET keep_days = -2147483648' ])
{
	my ($name, $sql) = @$_;

	is(query($registry, "BEGIN; $sql; $claims; ROLLBACK"), 't', "$name: it is done all the same");
}

# A role that leaves hardly any stack to its claim cannot hide whom it displaces.
is( query($registry, qq{SET max_stack_depth = '300kB'; SET ROLE worker;
	CREATE FUNCTION pg_temp.deep(n int) RETURNS bigint LANGUAGE plpgsql AS \$\$
	DECLARE
		v bigint;
	BEGIN
		IF n > 0 THEN
			v := pg_temp.deep(n - 1);
			RETURN v;
		END IF;
		SELECT w.written INTO v
		FROM snowflake_registry.read() r, snowflake_registry.write($generation, 9, r.version, r.epoch + 1,
			2, 2, 2, 2, 0, false, 'deep', 1, 1, r.present, 1000, 9000) w
		WHERE r.node = 9;
		RETURN v;
	END \$\$;
	CREATE FUNCTION pg_temp.claim() RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE
		n int DEFAULT 300;
		before int DEFAULT count(*) FROM snowflake_registry.history(9);
	BEGIN
		LOOP
			BEGIN
				RETURN concat_ws(' ', pg_temp.deep(n) > 0, n < 300, (SELECT count(*) FROM snowflake_registry.history(9)) - before);
			EXCEPTION WHEN statement_too_complex THEN
				n := n - 1;
			END;
		END LOOP;
	END \$\$;
	BEGIN; SELECT pg_temp.claim(); ROLLBACK}), 't t 1', 'a claim that has hardly any stack');

# a server, too
query($registry, 'ALTER TABLE snowflake_registry.history RENAME TO another');
$a->start;
wait_for_lease($a, q{state = 'held' AND kind = 'node'});
pass('without the table a server leases');
query($registry, 'ALTER TABLE snowflake_registry.another RENAME TO history');

# Claims at once, of three slots, in two transactions that are SERIALIZABLE: the history
# makes none of them fail. A sequential scan would read the slot of the other.
sub claim_of { my ($slot_id, $name) = @_; return claim_as($name) =~ s/\b9\b/$slot_id/gr }
query($registry, 'SET ROLE worker; ' . join ';', map { claim_of($_, 'first') } 10, 11, 12);
my @claimers = map { $registry->background_psql('postgres', on_error_stop => 0) } 1, 2;
$_->query('BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL ROLE worker; SET LOCAL enable_seqscan = off') foreach @claimers;
is(join('', map { scalar $claimers[$_ % 2]->query(claim_of($_, 'next')) } 10, 11, 12), 'ttt', 'claims at once');
$_->query('COMMIT') foreach @claimers;
is(query($registry, q{SELECT count(*) FROM snowflake_registry.slot WHERE node IN (10, 11, 12) AND host = 'next'}),
	'3', 'all are done, at the isolation level SERIALIZABLE');
$_->quit foreach @claimers;

# ---- why a tenure ended ----

# Return the call that claims slot 8 for a server, until this tick.
sub claim_until
{
	my ($server, $until) = @_;

	return qq{SELECT written > 0 FROM snowflake_registry.write($generation, 8,
		coalesce((SELECT version FROM snowflake_registry.slot WHERE node = 8), 0),
		coalesce((SELECT epoch FROM snowflake_registry.slot WHERE node = 8), 0) + 1,
		1, $server, 1, $until, 0, false, 'again', 1, 1000, 1, 0, 9000)};
}

query($registry, "SET ROLE worker; $_") foreach claim_until(5, 2**40), claim_until(5, 9), claim_until(5, 9), claim_until(6, 9);
is(query($registry, q{SELECT string_agg(ended, ' ' ORDER BY version) FROM snowflake_registry.history WHERE node = 8}),
	'displaced expired expired', 'a server that claims its own slot again before its until has displaced itself');

# ---- late and repeated writes ----

my $kept = query($registry, 'SELECT md5(string_agg(h::text, chr(10) ORDER BY h::text)) FROM snowflake_registry.history h');
my $claim = claim_as('late') =~ s/coalesce\(\(SELECT version.*?\), 0\),/1,/sr;
is(query($registry, "SET ROLE worker; $claim"), '', 'a claim that comes late is not made');
is(query($registry, "$claim") . query($registry, 'SELECT md5(string_agg(h::text, chr(10) ORDER BY h::text)) FROM snowflake_registry.history h'),
	$kept, 'and the history is as it was');
refused($registry, "SET ROLE worker; UPDATE snowflake_registry.history SET host = 'y'", '42501', qr/permission denied/,
	'nor can a worker change it');
query($registry, 'CREATE ROLE mallory');
refused($registry, "SET ROLE mallory; SELECT * FROM snowflake_registry.$_", '42501', qr/permission denied/, "nobody else reads it: $_")
  foreach 'history', 'history()';

# ---- an end ----

my $days = q{SELECT count(*) FROM snowflake_registry.history WHERE node = 0};
my $old = q{DELETE FROM snowflake_registry.history; INSERT INTO snowflake_registry.history
	(node, version, owner, server, host, until_ms, ended_ms, ended, written_ms) SELECT 0, i, 0, 0, 'old', 0, 0, 'expired',
		(extract(epoch FROM now()) * 1000)::bigint - i * 24 * 3600000::bigint - 60000 FROM generate_series(1, 20) i};
my $forget = sub { my ($keep) = @_; return qq{$old; UPDATE snowflake_registry.registry SET keep_days = $keep; $claims; RESET ROLE; $days} };
is(query($registry, $forget->(7)), "t\n6", 'what is older than seven days is dropped');
is(query($registry, $forget->(15)), "t\n14", 'or than as many days as it is told');
query($registry, q{DELETE FROM snowflake_registry.history; INSERT INTO snowflake_registry.history
	(node, version, owner, server, host, until_ms, ended_ms, ended, written_ms) SELECT 0, i, 0, 0, 'new', 0, 0, 'expired',
		(extract(epoch FROM now()) * 1000)::bigint - i FROM generate_series(1, 20000) i;
	ANALYZE snowflake_registry.history});
is( query($registry, qq{BEGIN; $claims; RESET ROLE; SELECT seq_tup_read + idx_tup_fetch < 1000 FROM pg_stat_xact_all_tables
		WHERE relid = 'snowflake_registry.history'::regclass; ROLLBACK}),
	"t\nt", 'a claim reads little of a long history');
is(query($registry, $forget->(0) . '; SELECT count(*) FROM snowflake_registry.history'), "t\n0\n0", 'none: no history is kept');
is(query($registry, q{SELECT keep_days FROM snowflake_registry.registry}), '0', 'as it is told');

$a->stop;
$registry->stop;
done_testing();
