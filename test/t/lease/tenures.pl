# Who had a node id: the table of a registry in PostgreSQL, which has a row for each
# tenure, and the servers' logs. The newest row of a slot is the slot's record, so no
# claim is made without it.
#
# takes: 30 s
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

# Return the only match of a pattern in a page.
sub page_says
{
	my ($page, $pattern) = @_;
	my @found = slurp_file("$FindBin::RealBin/../../../doc/$page") =~ /$pattern/g;

	die "doc/$page says @found" if @found != 1;
	return $found[0];
}

sub now { return query($registry, 'SELECT clock_timestamp()') }

# Return who held the slot at that time, by the query of doc/leases.md.
sub holders_at
{
	my ($at) = @_;
	my $sql = page_says('leases.md', qr/^(SELECT host, address, .*\nFROM snowflake_registry\.tenure\n[^;]*);/m);

	$sql =~ s/slot = 7/slot = $slot/;
	$sql =~ s/today 14:03/$at/g;
	return query($registry, "SELECT string_agg(host || ' ' || status, ', ') FROM ($sql) AS held");
}

sub pin
{
	my ($node) = @_;

	$node->append_conf('postgresql.conf', "snowflake.node_id = '$slot'\n");
	return;
}

my $before_b = now();
is(holders_at($before_b), "$a_host active", 'it holds the slot');
is(holders_at('2024-01-02'), '', 'and nobody did long ago');
my $beats = query($registry, 'SELECT last_heartbeat FROM snowflake_registry.tenure');
$registry->poll_query_until('postgres', "SELECT last_heartbeat > '$beats' FROM snowflake_registry.tenure") or die 'no heartbeat';
is( query($registry, "SELECT slot, host, address IS NULL, process, allocated_at <= '$before_b', released_at IS NULL, status
	FROM snowflake_registry.tenure"), "$slot|$a_host|t|$a_pid|t|t|active", 'its row, with its last heartbeat');

# ---- released ----

$a->stop;
is( query($registry, "SELECT host, status, released_at BETWEEN '$before_b' AND clock_timestamp(), last_heartbeat <= released_at
	FROM snowflake_registry.tenure"), "$a_host|released|t|t", 'given back, and not claimed since');
pin($b);
$b->start;
query($b, 'CREATE EXTENSION snowflake');
wait_for_lease($b, q{state = 'held'});
is( query($registry, "SELECT process, address IS NULL, status, allocated_at <= '$before_b', released_at BETWEEN '$before_b' AND clock_timestamp()
	FROM snowflake_registry.tenure WHERE host = '$a_host'"), "$a_pid|t|released|t|t", 'claimed by another: its row stays');
my $with_b = now();
is(holders_at($before_b), "$a_host released", 'who had it then');
is(holders_at($with_b), "$b_host active", 'and who has it now');

# ---- expired ----

$b->stop('immediate');
pin($a);
$a->start;
wait_for_lease($a, q{state = 'held'});
is(holders_at($with_b), "$b_host expired", 'a holder that has crashed, when another claims its slot');
is( query($registry, "SELECT last_heartbeat < released_at, released_at = (SELECT allocated_at FROM snowflake_registry.tenure WHERE newest)
	FROM snowflake_registry.tenure WHERE status = 'expired'"), 't|t', 'until that claim');

# ---- freed by an administrator ----

my $with_a = now();
$a->stop('immediate');
query($registry, "SELECT snowflake_registry.release($slot)");
is( query($registry, "SELECT host, status, released_at > '$with_a', last_heartbeat < released_at FROM snowflake_registry.tenure WHERE newest"),
	"$a_host|released|t|t", 'an administrator has freed its slot');
$b->start;
wait_for_lease($b, q{state = 'held'});
is(holders_at($with_a), "$a_host released", 'another claims it');
is(query($registry, "SELECT string_agg(host || ' ' || status, ', ' ORDER BY allocated_at) FROM snowflake_registry.tenure"),
	"$a_host released, $b_host expired, $a_host released, $b_host active", 'all of them, once each');

# ---- by the servers' logs ----

my $command = page_says('incident.md', qr/^(grep .*SF20.*)$/m);
my $logs = join ' ', map { $_->logfile } $a, $b;
$command =~ s/node id 7 /node id $slot /;
$command =~ s{\S+\*\.log}{$logs};
is(join(', ', map { /SF(20\d): node id from registry "[^"]+": (.*)/ ? "$1 $2" : $_ } split /\n/, qx($command)),
	join(', ', map { "$_->[0] Node id $slot is $_->[1]." } [ 201, 'leased' ], [ 209, 'given back' ], ([ 201, 'leased' ]) x 3),
	'the logs of the servers say who leased it, and who gave it back');
$b->stop;

# ---- a claim and its row are one ----

my $generation = query($registry, 'SELECT generation FROM snowflake_registry.registry');

# Return the call that claims a slot as a worker, with this host. %own overrides
# arguments.
sub claim_of
{
	my ($id, $name, %own) = @_;
	my $of = "FROM snowflake_registry.tenure WHERE slot = $id AND newest";
	my %v = (version => "coalesce((SELECT version $of), 0)", epoch => "coalesce((SELECT epoch $of), 0) + 1",
		holder => 1, displaced => 1, %own);

	return qq{SELECT written > 0 FROM snowflake_servers.write($generation, $id, $v{version}, $v{epoch},
		$v{holder}, 1, 1, 1, 0, false, '$name', 1, 1000, $v{displaced}, 60000, 9000)};
}

# Return the rows of a slot.
sub rows_of
{
	my ($id) = @_;

	return query($registry, qq{SELECT string_agg(host || ' ' || status || CASE WHEN newest THEN '!' ELSE '' END, ', ' ORDER BY epoch, host)
		FROM snowflake_registry.tenure WHERE slot = $id});
}

# The statements here look for the versions themselves; a server calls read().
query($registry, 'GRANT USAGE ON SCHEMA snowflake_registry TO worker; GRANT SELECT ON snowflake_registry.tenure TO worker');
query($registry, 'SET ROLE worker; ' . claim_of(9, 'first'));
my $next = 'SET ROLE worker; ' . claim_of(9, 'next');
is(query($registry, $next), 't', 'a claim');
is(rows_of(9), 'first expired, next active!', 'and the tenure that it ends');
my $version = query($registry, 'SELECT version FROM snowflake_registry.tenure WHERE slot = 9 AND newest');
my $digest = 'SELECT md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM snowflake_registry.tenure t';
my $kept = query($registry, $digest);
foreach my $case (
	[ 'of an older version', version => $version - 1 ],
	[ 'as if there were none', version => 0 ],
	[ 'of no version', version => 'NULL' ],
	[ 'while the owner is present', holder => 2, displaced => 3 ],
	[ 'the same, for nobody', holder => 2, displaced => 'NULL' ])
{
	my ($name, %own) = @$case;

	is(query($registry, 'SET ROLE worker; ' . claim_of(9, 'late', %own)), '', "a claim that is not made: $name");
}
is(query($registry, $digest), $kept, 'and all rows are as they were');
my $locker = $registry->background_psql('postgres', on_error_stop => 0);
$locker->query_safe('BEGIN; LOCK TABLE snowflake_registry.tenure IN SHARE MODE');
refused($registry, "SET lock_timeout = '10ms'; $next", '55P03', qr/lock timeout/, 'the table is locked: no claim');
$locker->query_safe('ROLLBACK; BEGIN; UPDATE snowflake_registry.registry SET keep_days = 30');
is(query($registry, "SET lock_timeout = '1min'; BEGIN; $next; ROLLBACK"), 't',
	'somebody changes the days, and has not committed: it does not wait');
$locker->query_safe('ROLLBACK; BEGIN; SELECT snowflake_registry.recover()');
refused($registry, "SET lock_timeout = '10ms'; $next", '55P03', qr/lock timeout/, 'a recovery goes on: it waits');
$locker->query_safe('ROLLBACK');

# Two claims at once, of a slot that nobody had, and of one that somebody has.
foreach my $case ([ 20, '' ], [ 9, 'first expired, next expired, ' ])
{
	my ($id, $before) = @$case;
	my $of = "FROM snowflake_registry.tenure WHERE slot = $id AND newest";
	my %seen = (version => query($registry, "SELECT coalesce(max(version), 0) $of"), epoch => query($registry, "SELECT coalesce(max(epoch), 0) + 1 $of"));
	my $second = $registry->background_psql('postgres');

	$locker->query_safe('BEGIN; SET LOCAL ROLE worker; ' . claim_of($id, 'one', %seen));
	$second->query_until(qr/begun/, "SET ROLE worker; \\echo begun\n" . claim_of($id, 'two', %seen) . ";\n");
	$registry->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query ~ 'snowflake_servers.write' AND pid <> pg_backend_pid()}) or die 'nobody waits';
	$locker->query_safe('COMMIT');
	is($second->query_safe('SELECT 1'), "\n1", "slot $id: the second of two claims at once is not made");
	is(rows_of($id), "${before}one active!", 'one row for each claim that was made');
	$second->quit;
}
$locker->quit;

# Claims at once, of three slots, in two transactions that are SERIALIZABLE. A sequential
# scan would read the slot of the other.
query($registry, 'SET ROLE worker; ' . join ';', map { claim_of($_, 'first') } 10, 11, 12);
my @claimers = map { $registry->background_psql('postgres', on_error_stop => 0) } 1, 2;
$_->query('BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL ROLE worker; SET LOCAL enable_seqscan = off') foreach @claimers;
is(join('', map { scalar $claimers[$_ % 2]->query(claim_of($_, 'next')) } 10, 11, 12), 'ttt', 'claims at once');
$_->query('COMMIT') foreach @claimers;
is(join('; ', map { rows_of($_) } 10, 11, 12), join('; ', ('first expired, next active!') x 3), 'all are done, at the isolation level SERIALIZABLE');
$_->quit foreach @claimers;

# ---- who may see and change it ----

refused($registry, "SET ROLE worker; UPDATE snowflake_registry.tenure SET host = 'y'", '42501', qr/permission denied/,
	'a worker cannot change it');
query($registry, 'CREATE ROLE mallory');
refused($registry, 'SET ROLE mallory; SELECT * FROM snowflake_registry.tenure', '42501', qr/permission denied/, 'nobody else reads it');
refused($registry, "UPDATE snowflake_registry.tenure SET newest = $_->[0], status = '$_->[1]', released_at = $_->[2] WHERE slot = 20",
	'23514', qr/violates check constraint/, "no row has these together: " . join ' ', @$_)
  foreach [ 'false', 'active', 'NULL' ], [ 'true', 'active', 'now()' ], [ 'true', 'released', 'NULL' ], [ 'true', 'gone', 'now()' ];

# ---- an end ----

# Make the rows of slot 0, which end a day after each other, the newest a minute ago.
sub old_rows
{
	my ($n, $step) = @_;

	return qq{DELETE FROM snowflake_registry.tenure WHERE NOT newest; INSERT INTO snowflake_registry.tenure
		SELECT r.* FROM snowflake_registry.tenure t, generate_series(1, $n) i, jsonb_populate_record(t, jsonb_build_object(
			'slot', 0, 'newest', false, 'status', 'expired', 'released_at', now() - i * interval '$step' - interval '1 min')) r
		WHERE t.slot = 9 AND t.newest};
}

my $days = q{SELECT count(*) FROM snowflake_registry.tenure WHERE slot = 0 AND NOT newest};
my $forget = sub { my ($keep) = @_; return old_rows(20, '24 h') . "; UPDATE snowflake_registry.registry SET keep_days = $keep; $next; RESET ROLE; $days" };
is(query($registry, $forget->(7)), "t\n6", 'what is older than seven days is dropped');
is(query($registry, $forget->(15)), "t\n14", 'or than as many days as it is told');

# The record of a slot stays, however long ago it was given back: the next holder
# begins at its until.
query($registry, q{SELECT snowflake_registry.release(12);
	UPDATE snowflake_registry.tenure SET released_at = now() - interval '400 days' WHERE slot = 12 AND newest});
is(query($registry, "$next; RESET ROLE; SELECT count(*) FROM snowflake_registry.tenure WHERE slot = 12 AND newest"), "t\n1",
	'the record of a slot is never dropped');

is(query($registry, "BEGIN ISOLATION LEVEL REPEATABLE READ; " . $forget->(7) . '; ROLLBACK'), "t\n20", 'but not above READ COMMITTED');
query($registry, old_rows(250, '240 h'));
is(query($registry, "$next; RESET ROLE; $days"), "t\n150", 'no claim drops many');
query($registry, old_rows(20000, '1 ms') . '; ANALYZE snowflake_registry.tenure');
is( query($registry, qq{BEGIN; $next; RESET ROLE; SELECT seq_tup_read + idx_tup_fetch < 1000 FROM pg_stat_xact_all_tables
		WHERE relid = 'snowflake_registry.tenure'::regclass; ROLLBACK}),
	"t\nt", 'a claim reads little of a long table');

# Two claims drop the same rows: neither waits.
query($registry, old_rows(20, '240 h'));
$locker = $registry->background_psql('postgres');
$locker->query_safe("BEGIN; $next");
is(query($registry, "SET lock_timeout = '1min'; SET ROLE worker; " . claim_of(10, 'third')), 't', 'two claims at once drop old rows');
$locker->query_safe('ROLLBACK');
$locker->quit;

is(query($registry, "UPDATE snowflake_registry.registry SET keep_days = 0; $next; RESET ROLE;"
	. 'SELECT count(*) FROM snowflake_registry.tenure WHERE NOT newest'), "t\n0", 'none: only the records are kept');
refused($registry, "UPDATE snowflake_registry.registry SET keep_days = $_", '23514', qr/violates check constraint/, "not for $_ days") foreach -1, 36501;

$registry->stop;
done_testing();
