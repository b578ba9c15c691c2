# The history of a registry: who held a slot or shards before, and why it holds them no
# more. It is written by whoever replaces a record, never twice, and a lease neither
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
use HistoryTest;
use LeaseTest;
use SnowflakeTest;

my ($registry, $checker) = new_registry('timestamp:41 node:1 sequence:12 epoch:2024-01-01');

grant_registry();
query($registry, 'GRANT EXECUTE ON FUNCTION snowflake_registry.history TO worker');
query($registry, q{SELECT snowflake_registry.init('timestamp:41 node:1 sequence:12 epoch:2024-01-01')});
my $a = start_holder('a');
wait_for_lease($a, q{state = 'held'});
my $slot = lease_of($a, 'node_id');
my ($a_pid) = split /\n/, slurp_file($a->data_dir . '/postmaster.pid');
chomp(my $host = `hostname`);
my ($a_host, $a_shards) = ("$host:" . $a->port, "$a->{shard}-" . ($a->{shard} + 1));
my $b = new_holder('b');
my ($b_host, $b_shards) = ("$host:" . $b->port, "$b->{shard}-" . ($b->{shard} + 1));

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

wait_until("count(*) = 1 FROM snowflake_registry.history() WHERE shards = '$a_shards'");
is(query($registry, "SELECT until < now() + interval '1 day' FROM snowflake_registry.history() WHERE shards = '$a_shards'"),
	't', 'the until of shards is in ticks of their own layout');
my $before_b = now();
is(holders_at($before_b), "$a_host|", 'it holds the slot');
is(query($registry, "SELECT count(*) FROM snowflake_registry.history($slot, '2024-01-02')"), '0', 'and nobody did long ago');

# ---- released ----

$a->stop;
is(query($registry, "SELECT host, ended, ended_at BETWEEN '$before_b' AND clock_timestamp()
	FROM snowflake_registry.history($slot)"), "$a_host|released|t", 'given back, and not claimed since: it is in the record');
is( query($registry, "SELECT host, ended, since < '$before_b', ended_at >= '$before_b', version > 0
	FROM snowflake_registry.history JOIN snowflake_registry.history() f USING (shards, host, ended) WHERE shards = '$a_shards'"),
	"$a_host|released|t|t|t", 'shards that were given back are in the history');
pin($b);
$b->start;
query($b, 'CREATE EXTENSION snowflake');
wait_for_lease($b, q{state = 'held' AND kind = 'node'});
wait_until("count(*) = 1 FROM snowflake_registry.history() WHERE shards = '$b_shards'");
is( query($registry, "SELECT host, process, address IS NULL, ended, since < '$before_b', ended_at BETWEEN '$before_b' AND clock_timestamp()
	FROM snowflake_registry.history($slot) WHERE ended IS NOT NULL"),
	"$a_host|$a_pid|t|released|t|t", 'claimed by another: the history has it');
my $with_b = now();
is(holders_at($before_b), "$a_host|released", 'who had it then');
is(holders_at($with_b), "$b_host|", 'and who has it now');

# ---- expired ----

$b->stop('immediate');
pin($a, "snowflake.shards = '$a_shards,$b_shards'");
$a->start;
wait_for_lease($a, q{state = 'held' AND kind = 'node'});
wait_until("count(*) = 1 FROM snowflake_registry.history() WHERE shards ~ ',|$a->{shard}-$b->{shard}|$a->{shard}-' AND ended IS NULL");
wait_until("count(*) = 1 FROM snowflake_registry.history() WHERE shards = '$b_shards' AND ended IS NOT NULL");
is(query($registry, "SELECT host, ended, ended_at <= until AND ended_at > since FROM snowflake_registry.history($slot, '$with_b')"),
	"$b_host|expired|t", 'a holder that has crashed');
is(query($registry, "SELECT host, ended, ended_at <= until AND ended_at > since FROM snowflake_registry.history() WHERE shards = '$b_shards'"),
	"$b_host|expired|t", 'likewise its shards');

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

# ---- from a server that leases ----

is(tenures($b, $slot), "$a_host released, $b_host expired, $a_host displaced, $b_host -", 'a server says the same');
is(tenures($b, $slot, $with_b), "$b_host expired", 'and who had it then');
is(tenures($b, $slot, $_), '', "or nobody: $_") foreach '2024-01-02', 'infinity', '-infinity', '4713-01-01 BC', '1969-12-31', '294276-12-31 23:59:59.999999';
is(tenures($b, $_), '', "nor has anybody the slot $_") foreach -1, '1 << 40';
my $rows = sub
{
	my ($node, $function) = @_;

	return query($node, qq{SET timezone = 'UTC'; SELECT slot, shards, host, address, process, since,
		CASE WHEN ended IS NOT NULL THEN until END, ended_at, ended FROM $function ORDER BY slot, shards, since, ended_at});
};
my ($before, $said, $after);
do
{
	$before = $rows->($registry, 'snowflake_registry.history()');
	$said = $rows->($b, 'snowflake_registry_history()');
	$after = $rows->($registry, 'snowflake_registry.history()');
} until $before eq $after;    # a lease may expire meanwhile
is($said, $before, 'all columns of all');
query($registry, 'REVOKE EXECUTE ON FUNCTION snowflake_registry.history FROM worker');
refused($b, 'SELECT * FROM snowflake_registry_history()', '58000', qr/permission denied for function history/,
	'the registry lets the role not read it');
query($registry, 'GRANT EXECUTE ON FUNCTION snowflake_registry.history TO worker');

# an entry that makes no sense is left out, and many are cut
query($registry, q{INSERT INTO snowflake_registry.history (node, version, owner, server, host, until_ms, ended_ms, ended, written_ms)
	SELECT 9, i, 0, 0, CASE WHEN i % 2 = 0 THEN 'h"\' ELSE E'\x01' END, 0, i, 'expired', i FROM generate_series(1, 10010) i});
is( query($b, q{SET client_min_messages = error; SELECT count(*), count(DISTINCT host), min(ended_at) > '1970-01-01 00:00:00.001Z'
	FROM snowflake_registry_history(9)}), '10000|2|t', 'of many the newest');
like((run_command([ 'psql', '-XAt', '-c', 'SELECT count(*) FROM snowflake_registry_history(9)', $b->connstr('postgres') ]))[1],
	qr/WARNING:  the registry's history is too long.*At most 10000.*and at most 8 MB.*Give a time, and the slot/s, 'with a warning');
my $is_cut = sub { return (run_command([ 'psql', '-XAt', '-c', 'SELECT count(*) FROM snowflake_registry_history()', $b->connstr('postgres') ]))[1] ne '' };
query($registry, q{DELETE FROM snowflake_registry.history WHERE node = 9 AND ended_ms <= (SELECT count(*) - 10000 FROM snowflake_registry.history())});
ok(!$is_cut->(), 'as many as are read: without one');
query($registry, 'DELETE FROM snowflake_registry.history WHERE node = 9');
query($registry, q{INSERT INTO snowflake_registry.history (node, shards, version, owner, server, host, until_ms, ended_ms, ended, written_ms)
	SELECT 9, repeat('1', 100000), i, 0, 0, '', 0, i, 'expired', i FROM generate_series(1, 100) i});
is(query($b, q{SET client_min_messages = error; SELECT count(*) BETWEEN 75 AND 85, max(ended_at) > '1970-01-01 00:00:00.099Z' FROM snowflake_registry_history(9)}),
	't|t', 'no more than 8 MB are read: the newest');
ok($is_cut->(), 'with a warning, too');
query($registry, q{UPDATE snowflake_registry.history SET shards = NULL, host = repeat(E'\x01', 50000) WHERE node = 9});
is(query($b, q{SET client_min_messages = error; SELECT count(*) BETWEEN 22 AND 28 FROM snowflake_registry_history(9)}),
	't', 'as JSON, in which some characters are longer');
query($registry, 'DELETE FROM snowflake_registry.history WHERE node = 9');

# A statement that nobody waits for any more ends.
my $definition = query($registry, q{SELECT pg_get_functiondef('snowflake_registry.history(bigint, timestamptz)'::regprocedure)});
query($registry, $definition =~ s/BEGIN ATOMIC.*//sr . q{AS $$ SELECT 1::bigint, ''::text, ''::text, NULL::inet, 1, now(), now(), now(), ''::text
	FROM pg_sleep(86400) $$});
refused($b, 'SELECT * FROM snowflake_registry_history()', '58000', qr/did not answer in time/, 'a slow registry');
$registry->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity
	WHERE state = 'active' AND usename = 'worker' AND query ~ 'snowflake_registry.history'}) or die 'the statement goes on';
pass('its statement ends');
query($registry, $definition);

# A role that leases can make many newer entries: they do not hide those that are asked for.
my $newer = q{INSERT INTO snowflake_registry.history (node, version, owner, server, host, since_ms, until_ms, ended_ms, ended, written_ms)
	SELECT 9, i, 0, 0, '', 4102444800000 + i, 4102444800000 + i, 4102444800000 + i, 'expired', i FROM generate_series(1, 10010) i};
my $held_at = sub
{
	my ($arguments) = @_;
	my ($out, $warning) = run_command([ 'psql', '-XAt', '-c', qq{SELECT string_agg(host, ',' ORDER BY since)
		FROM snowflake_registry_history($arguments) WHERE slot = $slot}, $b->connstr('postgres') ]);

	return "$out$warning";
};
query($registry, $newer);
like($held_at->(''), qr/WARNING/, 'many newer entries of another slot');
is($held_at->($slot), "$a_host,$b_host,$a_host,$b_host", 'those of this slot are read');
is($held_at->("at => '$with_b'"), $b_host, 'those of that time');
is($held_at->("$slot, '$with_b'"), $b_host, 'and those of both');
query($registry, 'DELETE FROM snowflake_registry.history WHERE node = 9');

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

# Return the call that writes the record of shards, with one line of this host.
sub shards_of
{
	my ($name) = @_;

	return qq{SELECT written > 0 FROM snowflake_registry.write_shards($generation,
		(SELECT version FROM snowflake_registry.shards), E'snowflake shards 1\\n'
		'held 77 until 9 since ' || length('$name') || E' write 00000000000000ab server 00000000000000cd host $name\\n')};
}

sub rows
{
	return query($registry, q{SELECT concat_ws(' ', node, shards, host) FROM snowflake_registry.history
		WHERE node = 9 OR shards = '77' ORDER BY 1});
}

# The statements here look for the versions themselves; a server calls read().
query($registry, 'GRANT SELECT ON snowflake_registry.slot, snowflake_registry.shards TO worker');
$b->stop;
query($registry, "SET ROLE worker; " . claim_as('first') . ';' . shards_of('first'));
query($registry, 'UPDATE snowflake_registry.registry SET keep_days = 100000');
my $both = 'SET ROLE worker; ' . claim_as('next') . ';' . shards_of('next');
is(query($registry, "BEGIN; $both; RESET ROLE; SELECT count(*) FROM snowflake_registry.history WHERE node = 9 OR shards = '77'; ROLLBACK"),
	"t\nt\n2", 'a claim and a change of shards are kept');
my $locker = $registry->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE snowflake_registry.history');
is(query($registry, "BEGIN; $both; COMMIT"), "t\nt", 'the table is locked: both are done all the same');
$locker->query_safe('ROLLBACK');
is(rows(), '', 'and not kept');
$locker->query_safe('BEGIN; UPDATE snowflake_registry.registry SET keep_days = 30');
is(query($registry, "SET lock_timeout = '1min'; BEGIN; $both; ROLLBACK"), "t\nt",
	'somebody changes the days, and has not committed: neither waits');
$locker->query_safe('ROLLBACK; BEGIN; SELECT snowflake_registry.recover()');
refused($registry, "SET lock_timeout = '10ms'; SET ROLE worker; $_", '55P03', qr/lock timeout/, 'a recovery goes on: it waits')
  foreach claim_as('next'), shards_of('next');
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

	is(query($registry, "BEGIN; $sql; $both; ROLLBACK"), "t\nt", "$name: both are done all the same");
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

# as long as a list of shards can be: the row is kept
my $many = join ',', map { 2 * $_ + ($_ * 7919 >> 5) % 2 } 100 .. 20_000;
is(query($registry, q{BEGIN; SET ROLE worker; } . (shards_of('many') =~ s/held 77/held $many/r) . '; ' . shards_of('next')
		. qq{; RESET ROLE; SELECT count(*) FROM snowflake_registry.history WHERE shards = '$many'; ROLLBACK}),
	"t\nt\n1", 'a long list of shards is kept');

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

# Others take some shards of a server that is gone: the rest goes on.
sub shards_are
{
	my @lines = map { sprintf 'held %s until 9 since %d write %016x server %016x host %s\\n', @$_ } @_;

	return qq{SELECT written > 0 FROM snowflake_registry.write_shards($generation,
		(SELECT version FROM snowflake_registry.shards), E'snowflake shards 1\\n@{[ join '', @lines ]}')};
}

like(query($registry, 'BEGIN; SET ROLE worker; ' . join(';', map { shards_are(@$_) }
	[ [ '100-109,200', 5, 1, 1, 'robbed' ] ],
	[ [ '100-104,106-109', 5, 1, 1, 'robbed' ], [ '105,200', 6, 2, 2, 'robber' ] ],
	[ [ '101-104,106-109', 5, 1, 1, 'robbed' ], [ '105,200', 6, 2, 2, 'robber' ], [ '100', 7, 3, 3, 'another' ] ],
	[ [ '101-102', 8, 4, 1, 'robbed' ], [ '105,200', 6, 2, 2, 'robber' ], [ '100', 7, 3, 3, 'another' ] ]) . q{; RESET ROLE;
		SELECT string_agg(concat_ws(' ', shards, host, ended), ', ' ORDER BY version)
		FROM snowflake_registry.history WHERE host IN ('robbed', 'robber', 'another'); ROLLBACK}),
	qr/\n105,200 robbed expired, 100 robbed expired, 101-104,106-109 robbed released$/, 'some shards are taken: only these have ended');
like(query($registry, ('BEGIN; SET ROLE worker; ' . join(';', map { shards_are(@$_) }
	[ [ '20-29', 5, 1, 1, 'again' ] ], [ [ '20-24', 5, 1, 1, 'again' ], [ '25-34', 6, 2, 1, 'again' ] ])
		. q{; RESET ROLE; SELECT string_agg(concat_ws(' ', shards, ended), ', ' ORDER BY version)
		FROM snowflake_registry.history WHERE host = 'again' AND shards IS NOT NULL; ROLLBACK}) =~ s/until 9 /until 90071992547409 /gr),
	qr/\n25-29 displaced$/, 'a server that takes its own shards again before their until has displaced itself');
refused($registry, 'SET ROLE worker; ' . shards_are(map { [ $_, 5, $_, 1, 'many' ] } 1 .. 1026), '23514', qr/check constraint/,
	'more lines than a server reads are refused');

# ---- late and repeated writes ----

my $kept = query($registry, 'SELECT md5(string_agg(h::text, chr(10) ORDER BY h::text)) FROM snowflake_registry.history h');
my $claim = claim_as('late') =~ s/coalesce\(\(SELECT version.*?\), 0\),/1,/sr;
is(query($registry, "SET ROLE worker; $claim"), '', 'a claim that comes late is not made');
is(query($registry, "$claim") . query($registry, 'SELECT md5(string_agg(h::text, chr(10) ORDER BY h::text)) FROM snowflake_registry.history h'),
	$kept, 'and the history is as it was');
my $anew = sub { my ($name) = @_; return shards_of($name) =~ s/\(SELECT version FROM [a-z_.]+\)/0/r };
query($registry, "DELETE FROM snowflake_registry.shards; SET ROLE worker; $_") foreach map { join ';', $anew->("$_ first"), shards_of("$_ next") } 'one', 'two';
is(rows(), "77 one first\n77 two first", 'a record of shards that was removed begins with version 1 again: its holders are kept, too');
is( query($registry, q{BEGIN; SET ROLE worker; } . (shards_of('many') =~ s{(held 77[^\\]*)}{$1\\n$1 y}r) . '; ' . (shards_of('next') =~ s/held 77/held 7-99,77/r)
		. q{; RESET ROLE; SELECT string_agg(host, ' ' ORDER BY host) FROM snowflake_registry.history WHERE host ~ 'many'; ROLLBACK}),
	"t\nt\nmany many y", 'one row for each line, whatever the lines are');
refused($registry, "SET ROLE worker; UPDATE snowflake_registry.history SET host = 'y'", '42501', qr/permission denied/,
	'nor can a worker change it');
query($registry, 'CREATE ROLE mallory');
refused($registry, "SET ROLE mallory; SELECT * FROM snowflake_registry.$_", '42501', qr/permission denied/, "nobody else reads it: $_")
  foreach 'history', 'history()';

# ---- an end ----

my $days = q{SELECT count(*) FROM snowflake_registry.history WHERE node = 0 OR shards = '1'};
my $old = q{DELETE FROM snowflake_registry.history; INSERT INTO snowflake_registry.history
	(node, shards, version, owner, server, host, until_ms, ended_ms, ended, written_ms) SELECT 0, NULL, i, 0, 0, 'old', 0, 0, 'expired',
		(extract(epoch FROM now()) * 1000)::bigint - i * 24 * 3600000::bigint - 60000 FROM generate_series(1, 20) i};
my $forget = sub { my ($keep) = @_; return qq{$old; UPDATE snowflake_registry.registry SET keep_days = $keep; $both; RESET ROLE; $days} };
is(query($registry, $forget->(7)), "t\nt\n6", 'what is older than seven days is dropped');
is(query($registry, $forget->(15)), "t\nt\n14", 'or than as many days as it is told');
query($registry, q{DELETE FROM snowflake_registry.history; INSERT INTO snowflake_registry.history
	(node, shards, version, owner, server, host, until_ms, ended_ms, ended, written_ms) SELECT 0, NULL, i, 0, 0, 'new', 0, 0, 'expired',
		(extract(epoch FROM now()) * 1000)::bigint - i FROM generate_series(1, 20000) i;
	ANALYZE snowflake_registry.history});
is( query($registry, qq{BEGIN; $both; RESET ROLE; SELECT seq_tup_read + idx_tup_fetch < 1000 FROM pg_stat_xact_all_tables
		WHERE relid = 'snowflake_registry.history'::regclass; ROLLBACK}),
	"t\nt\nt", 'a claim reads little of a long history');
is(query($registry, $forget->(0) . '; SELECT count(*) FROM snowflake_registry.history'), "t\nt\n0\n0", 'none: no history is kept');
is(query($registry, q{SELECT keep_days FROM snowflake_registry.registry}), '0', 'as it is told');

$a->stop;
$registry->stop;
done_testing();
