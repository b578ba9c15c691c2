# COPY inserts many rows at a time if a default makes IDs. test/sql/copy.sql shows
# when it does so; this test needs many rows. So does what doc/queries.md says of the
# order of time, and doc/performance.md of joins.
#
# takes: 15 s
use SnowflakeTest;
use POSIX qw(mkfifo);

my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = start_server('main', "snowflake.shards = '0-8'", 'autovacuum = off',
	'wal_level = logical', 'wal_retrieve_retry_interval = 100ms',
	'max_wal_size = 4GB', 'bgwriter_lru_maxpages = 0', 'full_page_writes = off');

# Copy these rows into a table, from a file.
sub copy
{
	my ($table, @rows) = @_;
	my $file = "$dir/rows";

	unlink $file;
	append_to_file($file, join("\n", @rows, ''));
	return $node->psql('postgres', "COPY $table (n) FROM '$file'");
}

# ---- WAL ----

sub wal_of_copy
{
	my ($table, @rows) = @_;

	copy($table, 0);
	my $lsn = query($node, 'SELECT pg_current_wal_insert_lsn()');
	copy($table, @rows);
	return query($node, "SELECT pg_current_wal_insert_lsn() - '$lsn'");
}

my %key = (
	nextval => 'bigserial',
	node => 'bigint DEFAULT snowflake_nextval()',
	shard => 'bigint DEFAULT snowflake_shard_nextval(5)');
my %wal;
foreach my $name (sort keys %key)
{
	query($node, qq{
		CREATE TABLE $name (id $key{$name} PRIMARY KEY, n integer);
		CREATE TABLE ${name}_part (id $key{$name}, n integer, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
		CREATE TABLE ${name}_part_1 PARTITION OF ${name}_part FOR VALUES FROM (0) TO (25000);
		CREATE TABLE ${name}_part_2 PARTITION OF ${name}_part FOR VALUES FROM (25000) TO (50000)});
	$wal{$name} = wal_of_copy($name, 1 .. 49_999);
	$wal{"${name}_part"} = wal_of_copy("${name}_part", 1 .. 49_999);
	is(query($node, "SELECT count(*), count(DISTINCT id) FROM $_"), '50000|50000', "$_: each row has an ID, no ID twice")
	  foreach ($name, "${name}_part");
	is(query($node, "SELECT count(*) FROM (SELECT id <= lag(id) OVER (ORDER BY n) AS falls FROM $_) t WHERE falls"),
		0, "$_: which ascend with the rows")
	  foreach ($name, "${name}_part");
}
diag(join ', ', map { "$_ $wal{$_}" } sort keys %wal);
cmp_ok($wal{$_}, '<=', $wal{nextval}, "$_: no more WAL than with nextval()") foreach ('node', 'shard');
cmp_ok($wal{$_}, '<=', $wal{nextval_part}, "$_: no more WAL than with nextval()")
  foreach ('node_part', 'shard_part');

# ---- an error in row 500,000 ----

my $before = query($node, 'SELECT max(id) FROM node');
query($node, 'TRUNCATE node');
my ($status, undef, $err) = copy('node', 1 .. 499_999, 'wrong', 500_001);
like($err, qr/invalid input syntax for type integer: "wrong"\n.*line 500000,/, 'a wrong row ends COPY');
is(query($node, 'SELECT count(*) FROM node'), 0, 'and no row is there');
copy('node', 1 .. 3);
is(query($node, "SELECT count(*), min(id) > $before FROM node"), '3|t', 'the next COPY goes on');

# ---- a running COPY holds the horizon ----

my $fifo = "$dir/fifo";
mkfifo($fifo, 0666) or die "$fifo: $!";
query($node, 'TRUNCATE node');
my $session = $node->background_psql('postgres');
$session->query_until(qr/begun/, "\\echo begun\nCOPY node (n) FROM '$fifo';\n\\echo ended\n");
open(my $rows, '>', $fifo) or die "$fifo: $!";
$rows->autoflush(1);
print $rows map { "$_\n" } 1 .. 100_000;
$node->poll_query_until('postgres', 'SELECT tuples_processed > 50000 FROM pg_stat_progress_copy')
  or die 'COPY does not run';
query($node, 'CREATE TABLE later (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO later DEFAULT VALUES');
my $horizon = query($node, 'SELECT snowflake_horizon()');
is(query($node, 'SELECT count(*) FROM snowflake_horizon_holders h JOIN pg_stat_progress_copy c USING (pid)'),
	1, 'a running COPY holds the horizon');
is(query($node, "SELECT id >= $horizon FROM later"), 't', 'before a later row');
close $rows;
$session->query_until(qr/ended/, '');
$session->quit;
is(query($node, "SELECT count(*), bool_and(id >= $horizon) FROM node"), '100000|t', 'and before all of its own');
is(query($node, 'SELECT count(*) FROM node WHERE id < snowflake_horizon()'), 100_000,
	'with its end the horizon passes them');

# ---- the order of time is that of the key ----

query($node, 'ANALYZE node; ANALYZE shard');

# Does the planner use the order of the key, or read the whole table?
sub plan_is
{
	my ($query, $expected) = @_;

	like(query($node, "EXPLAIN (COSTS OFF) $query"), $expected, $query);
	return;
}

plan_is("SELECT * FROM node ORDER BY id $_ LIMIT 10", qr/^Limit\n +->  Index Scan .*using node_pkey on node$/)
  foreach ('', 'DESC');
plan_is("SELECT snowflake_timestamp($_(id)) FROM node", qr/Index Only Scan .*using node_pkey on node/)
  foreach ('min', 'max');
plan_is('SELECT * FROM node ORDER BY snowflake_timestamp(id) LIMIT 10', qr/Sort.* Seq Scan on node/s);
plan_is('SELECT max(snowflake_timestamp(id)) FROM node', qr/^Aggregate\n/);
is( query($node, q{
	SELECT snowflake_timestamp(min(id)) = min(snowflake_timestamp(id)), snowflake_timestamp(max(id)) = max(snowflake_timestamp(id))
	FROM node}), 't|t', 'the first and the last ID have the first and the last time');
is( query($node, q{SELECT count(*) FROM (
	SELECT snowflake_timestamp(id) < lag(snowflake_timestamp(id)) OVER (ORDER BY id) AS falls FROM node) t WHERE falls}),
	0, 'ORDER BY id is by time');

# ---- joins: IDs of four seconds, sixteen in each millisecond ----

sub hash_values
{
	my ($layout) = @_;

	return query($node, qq{
		SELECT count(DISTINCT hashint8(snowflake_compose('2026-01-01Z'::timestamptz + ms * interval '1 ms', 1, n, '$layout')))
		FROM generate_series(0, 4095) ms, generate_series(0, 15) n});
}

cmp_ok(hash_values('timestamp:41 node:10 sequence:12'), '<', 33_000, 'IDs made in bulk share hash values');
cmp_ok(hash_values('timestamp:41 sequence:12 node:10'), '>', 65_000, 'but not with the sequence above the node');
my $join = query($node, 'SET enable_hashjoin = off; EXPLAIN (COSTS OFF) SELECT node.n, shard.n FROM node JOIN shard USING (id)');
like($join, qr/Merge Join.* using (node|shard)_pkey.* using (node|shard)_pkey/s, 'a merge join needs no hash');
unlike($join, qr/Sort/, 'and does not sort');

# ---- logical replication: the rows of the initial copy, and those that come later ----

query($node, "CREATE DATABASE subscriber");
query($node, q{
	CREATE TABLE lines (n integer);
	INSERT INTO lines SELECT generate_series(1, 5000);
	CREATE PUBLICATION lines FOR TABLE lines;
	SELECT pg_create_logical_replication_slot('lines', 'pgoutput')});
query($node, sprintf(q{
	CREATE EXTENSION snowflake;
	CREATE TABLE lines (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
	CREATE SUBSCRIPTION lines CONNECTION '%s dbname=postgres' PUBLICATION lines WITH (create_slot = false)},
	$node->connstr), database => 'subscriber');
$node->poll_query_until('subscriber', q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel})
  or die 'the table is not copied';
query($node, 'INSERT INTO lines SELECT generate_series(5001, 5100)');
$node->poll_query_until('subscriber', 'SELECT count(*) = 5100 FROM lines') or die 'the rows do not come';
is(query($node, 'SELECT count(DISTINCT id) FROM lines', database => 'subscriber'), 5100,
	'a subscriber has an ID for each row, copied or applied, no ID twice');
query($node, 'DROP SUBSCRIPTION lines', database => 'subscriber');

# ---- a dump shows the default as it was written ----

my ($dump) = run_command([ 'pg_dump', '--schema-only', $node->connstr('postgres') ]);
like($dump, qr/DEFAULT public\.snowflake_nextval\(\)/, 'a dump has the default');
unlike($dump, qr/snowflake_copy/, 'and nothing of what COPY calls');

done_testing();
