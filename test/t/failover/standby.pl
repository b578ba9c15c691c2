# A standby makes no IDs, but decodes them. It is promoted with another node id, and
# with a clock that is behind.
#
# takes: 12 s
# quick
use SnowflakeTest;

my $primary = start_server('primary', 'wal_consistency_checking = all',
	"snowflake.shards = '3'", 'autovacuum = off');
query($primary, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO t SELECT FROM generate_series(1, 100);
});
$primary->backup('backup');

# Return the answer of snowflake_status() about a server's node id.
sub node_of
{
	my ($node) = @_;

	return query($node, q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'node id'});
}

# the standby has its primary's node id: the status warns before the promotion and
# after it
my $same = PostgreSQL::Test::Cluster->new('same');
$same->init_from_backup($primary, 'backup', has_streaming => 1);
$same->start;
like(node_of($same), qr/^warning\|once this standby is promoted, it issues as 1, which a server that it was copied from has, too\|Choose a number .*:\nsnowflake.node_id = 'NUMBER'\nand run:\nSELECT pg_catalog\.pg_reload_conf\(\);$/,
	'a standby that has its primary\'s number');
like_log($same, qr/WARNING:  snowflake SF504: this standby has node id 1, and so has a server that it was copied from\n/, 0, 'the log says so, too');
$same->restart;
like(node_of($same), qr/^warning\|once .* as 1, which a server/, 'again at each start');
$same->promote;
like(node_of($same), qr/^error\|1 is configured, and a server that this one was copied from, which was seen running, has it, too\|/,
	'after the promotion it is still said, and is an error while that primary runs');
$same->restart;
like(node_of($same), qr/^error\|1 is configured, and a server that this one was copied from, which was seen running/, 'nor does a restart before the first ID forget it');
my $has_same = qr/another server with these data has the node id or shards of this one\n/;
foreach my $restart ('a restart', 'another restart')
{
	$same->restart;
	refused($same, $_, '55000', $has_same, "it makes none of the IDs that its primary makes: $_") foreach $next, 'SELECT snowflake_shard_nextval(3)';
	like(node_of($same), qr/^error\|1 is configured, and a server that this one was copied from, which was seen running, has it, too\|Choose a number that no other server has, and add/,
		"$restart does not forget it");
}
refused($same, q{SELECT snowflake_accept('copy')}, '55000', qr/cannot accept this copy while another server with these data runs/,
	'nobody may accept it while that primary runs');
$primary->stop;
refused($same, $next, '55000', qr/has taken node id 1: it keeps that until it is stopped/, 'since it was refused at its start, it takes nothing by itself when that primary stops');
$same->restart;
query($same, $_) foreach $next, 'SELECT snowflake_shard_nextval(3)';
like(node_of($same), qr/^warning\|1 is configured, and a server that this one was copied from had it, too\|Choose a number that no other server has, and add.*\nOnly if that server never runs again, run instead as a superuser: SELECT public\.snowflake_accept\('copy'::pg_catalog\.text\);$/s,
	'a warning after another start');
like_log($same, qr/WARNING:  snowflake SF506: this server makes IDs with node id 1, which a server that it was copied from had, too\n/, 0, 'the log says so at the first ID');
my $second_life = -s $same->logfile;
$same->restart;
query($same, $next);
like_log($same, qr/SF506/, $second_life, '... and at the first ID after a restart');
my (undef, undef, $err) = $same->psql('postgres', q{SELECT snowflake_accept('copy')});
like($err, qr/WARNING:  this server now counts as the only one/, 'accepted when that primary has gone');
foreach (1, 2)
{
	like(node_of($same), qr/^ok\|1 is configured\|$/, 'which ends the warning');
	$same->restart;
	query($same, 'SELECT snowflake_nextval()');
}
$primary->start;
refused($primary, $_, '55000', qr/another server with these data has the node id or shards of this one\n/, "its primary is refused, while it runs: $_")
  foreach $next, 'SELECT snowflake_shard_nextval(3)';
$same->stop;
$primary->restart;

# a primary that became a standby without being copied has its own node id
$same->set_standby_mode;
foreach my $i (1, 2)
{
	$same->start;
	like(node_of($same), qr/^ok\|a standby makes no IDs; once it is promoted, it issues as 1\|$/,
		'the number of a former primary is its own');
	$same->stop;
}
$same->append_conf('postgresql.conf', "snowflake.node_id = ''");
my $unset_from = -s $same->logfile;
$same->start;
like(node_of($same), qr/^ok\|.* makes those of shards only/, 'one without a number, and with shards');
like_log($same, qr/LOG:  snowflake SF503: this standby has no node id: once/, $unset_from, 'in the log as well');
$same->stop;
$same->append_conf('postgresql.conf', "snowflake.shards = ''");
$same->start;
like(node_of($same), qr/^warning\|once this standby is promoted, calls are refused: snowflake.node_id is not set\|If the other servers have/,
	'one without either');
$same->stop('immediate');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "snowflake.node_id = '2'");
$standby->append_conf('postgresql.auto.conf', "snowflake.node_id = '1'");
start_with_clock($standby, '+0');
my $reset = qr/\nand run:\n(ALTER SYSTEM RESET \S+;)\nSELECT pg_catalog\.pg_reload_conf/;
query($standby, node_of($standby) =~ /^warning\|once .* as 1, which a server(?s:.*)$reset/);
$standby->stop;
start_with_clock($standby, '+0');
like(node_of($standby), qr/^ok\|a standby makes no IDs; once it is promoted, it issues as 2\|$/, 'one with a number of its own');
like_log($standby, qr/LOG:  snowflake SF503: once it is promoted, this standby issues as node id 2\n/, 0, 'in the log, too');

query($primary, 'INSERT INTO t SELECT FROM generate_series(1, 100)');
$primary->wait_for_catchup($standby, 'replay');

# on the standby
my $recovery = qr/cannot execute snowflake_\w+\(\) during recovery.*HINT:  Connect to the primary\. Promote this server only if the primary is gone for good\./s;
refused($standby, 'SELECT snowflake_nextval()', '25006', $recovery,
	'a standby generates nothing');
refused($standby, 'SELECT snowflake_shard_nextval_batch(3, 10)', '25006',
	$recovery, 'nor for shards, in batches');
refused($standby, 'SELECT snowflake_ready()', '25006', $recovery,
	'the probe knows a standby');
refused($standby, "SELECT snowflake_$_", '25006', $recovery, "nor does $_")
  foreach 'recover()', 'reset_mark(now())';
refused($standby, 'SELECT snowflake_advance(1)', '25006', $recovery,
	'nor does it advance');
is(query($standby, 'SELECT count(*) FROM t, snowflake_decode(id) WHERE node_id = 1'),
	'200', 'a standby decodes');
is( query($standby, 'SELECT last_value FROM snowflake_state.snowflake_mark'),
	query($primary, 'SELECT last_value FROM snowflake_state.snowflake_mark'),
	'and has the mark');
like(query($standby, 'SELECT snowflake_min_id(now()) > 0'), qr/t/,
	'and computes bounds');

# A kept plan with a constant bound reads the record whenever it runs. Only EXPLAIN
# does not, nor does a plan with an explicit layout.
my @kept = map { $_->background_psql('postgres', on_error_stop => 0) } $primary, $standby;
my $rows = "SELECT count(*) FROM t WHERE snowflake_timestamp(id%s) > '2025-01-01 00:00+00'";
my $change_record = sub {
	query($primary, "SELECT setval('snowflake_state.snowflake_recorded_epoch', last_value + $_[0])
		FROM snowflake_state.snowflake_recorded_epoch");
	$primary->wait_for_catchup($standby, 'replay');
};
foreach my $session (@kept)
{
	$session->query_safe('PREPARE kept AS ' . sprintf($rows, ''));
	$session->query_safe('PREPARE named AS ' . sprintf($rows, ", 'node'"));
	$session->query_safe('PREPARE spelled AS ' . sprintf($rows, ", 'snowflake'"));
	is($session->query("EXECUTE $_"), '200', "$_: a plan is kept") foreach qw(kept named spelled);
}
$change_record->(1);
foreach my $session (@kept)
{
	foreach my $plan (qw(kept named))
	{
		is($session->query("EXECUTE $plan"), '', "$plan: the record differs, and no row is read");
		like($session->{stderr}, qr/ERROR:  epoch or layout of this server differs from what is recorded/, 'it says so');
		$session->{stderr} = '';
	}
	is($session->query('EXECUTE spelled'), '200', 'an explicit layout does not depend on the record');
	like($session->query('EXPLAIN EXECUTE kept'), qr/id >= '\d+'::bigint/, 'EXPLAIN shows the bound');
}
$change_record->(-1);
foreach my $session (@kept)
{
	is($session->query('EXECUTE kept'), '200', 'the record is right again');
	$session->quit;
}

# with another configuration it says so, and decodes only with an explicit layout
$standby->stop;
$standby->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2025-01-01'");
start_with_clock($standby, '+0');
refused($standby, 'SELECT snowflake_decode(1)', '55000',
	qr/snowflake.layout is "timestamp:41 node:10 sequence:12 epoch:2025-01-01", and this database was filled with "timestamp:41 node:10 sequence:12 epoch:2024-01-01"/,
	'a replica with another epoch refuses to decode, and names both');
is(query($standby, q{SELECT count(*) FROM t WHERE snowflake_node(id, 'snowflake') = 1}),
	'200', 'with an explicit layout it decodes');
$standby->stop;
$standby->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
start_with_clock($standby, '+0');

# the last IDs of the primary, committed or not
alter_system($primary, "SET synchronous_commit = off");
my @seen = split /\n/, query($primary, q{
	INSERT INTO t SELECT FROM generate_series(1, 100) RETURNING id;
	SELECT snowflake_nextval() FROM generate_series(1, 100);
});
my @shard = split /\n/,
  query($primary, 'SELECT snowflake_shard_nextval(3) FROM generate_series(1, 100)');
query($primary, 'CREATE TABLE done ()');
$primary->wait_for_catchup($standby, 'replay');
$primary->stop('immediate');

# promoted with another node id, and with the clock one hour behind
set_clock($standby, '-3600');
$standby->promote;
is(query($standby, 'SHOW snowflake.node_id'), '2', 'it has its own node id');
like(node_of($standby), qr/^ok\|2 is configured\|$/, 'and the primary\'s was not its own');
refused_behind($standby, 'SELECT snowflake_nextval()', 'promoted an hour behind, it refuses');
is(query($standby, 'SELECT count(*) FROM t'), '300', 'and serves what it has');
is(query($standby, 'SELECT count(*) FROM t, snowflake_decode(id)'), '300',
	'and decodes it');
set_clock($standby, '+0');
push @seen, split /\n/, query($standby, q{
	INSERT INTO t SELECT FROM generate_series(1, 100) RETURNING id;
	SELECT snowflake_nextval() FROM generate_series(1, 100);
});
push @shard, split /\n/,
  query($standby, 'SELECT snowflake_shard_nextval(3) FROM generate_series(1, 100)');
check_ids('before and after the promotion', \@seen);
check_ids('the same for a shard', \@shard);
is(query($standby, 'SELECT count(*), min(snowflake_node(id)), max(snowflake_node(id)) FROM t'),
	'400|1|2', 'the new IDs have the new node');

# A second promotion, of a standby with the same node id and the same past. No ID in
# the database is issued again.
my $third = standby_of($standby, 'third');
start_with_clock($third, '+0');
$standby->wait_for_catchup($third, 'replay');
my $last = query($standby, 'INSERT INTO t DEFAULT VALUES RETURNING id');
$standby->wait_for_catchup($third, 'replay');
$standby->stop('immediate');
set_clock($third, '-0.5');
$third->promote;
cmp_ok(query($third, 'INSERT INTO t DEFAULT VALUES RETURNING id'), '>', $last,
	'with the same node id and a clock behind, it goes on above');
query($third, q{ALTER SYSTEM SET snowflake.node_id = '2'});
$third->restart;
$third->append_conf('postgresql.conf', "snowflake.node_id = '3'");
query($third, node_of($third) =~ /^warning\|2 is configured, and a server that this one was copied from(?s:.*)$reset/);
$third->restart;
is(query($third, 'INSERT INTO t DEFAULT VALUES RETURNING snowflake_node(id)'), '3', 'with a number of its own, as the remedy says');
like(node_of($third), qr/^ok\|/, 'the warning is over');
is(query($third, 'SELECT count(*) = count(DISTINCT id) FROM t'), 't',
	'no duplicate in the table');
$third->stop('immediate');

done_testing();
