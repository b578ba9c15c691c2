# snowflake.audit: the line that a transaction which made IDs writes at its end, on good
# days and on bad ones.
#
# takes: 20 s
# needs: fault_points
use SnowflakeTest;
use IPC::Run;
use JSON::PP;
use FaultPoints;

my $node = start_server('main', 'snowflake.audit = on', "snowflake.log_interval = '1h'", "log_line_prefix = '%m [%p] %v %e '",
	"snowflake.shards = '0-49'", 'max_prepared_transactions = 5', 'autovacuum = off', 'wal_level = logical', 'max_wal_senders = 5');
query($node, q{CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c text);
	CREATE ROLE alice LOGIN;
	GRANT INSERT ON t TO alice});

my $at = -s $node->logfile;

# Return the records of the lines since the last call, each with its "line". A line that
# was written in a transaction (%v) is none: a client could have written it.
sub records
{
	my $text = substr(slurp_file($node->logfile), $at);

	$at += length $text;
	return map {
		m{ \d+/0 SF601 LOG:  snowflake SF601: (\{.*\})$} ? { %{ decode_json($1) }, line => $_ } : ()
	} split /\n/, $text;
}

# Run statements in a session, and return the lines that they print.
sub run
{
	my ($sql, %options) = @_;

	records();
	return split /\n/, query($node, $sql, %options);
}

# Check the records of what was run: each has at least these keys and values.
sub recorded
{
	my ($name, @expected) = @_;
	my @records = records();
	my @seen;

	for my $i (0 .. $#records)
	{
		push @seen, { map { $_ => $records[$i]{$_} } keys %{ $expected[$i] // $records[$i] } };
	}
	is_deeply(\@seen, \@expected, $name);
	return @records;
}

# ---- what a line says ----

my $snowflake = 'timestamp:41 node:10 sequence:12 epoch:2024-01-01';
my $instagram = 'timestamp:41 shard:13 sequence:10 epoch:2011-08-24T21:07:01.721Z';
my %one = (ids => 1, layout => $snowflake, database => 'postgres');
my @id = run(q{SET SESSION AUTHORIZATION alice; SET application_name = 'the "shop"';
	INSERT INTO t (c) VALUES ('a'); SELECT snowflake_currval()});
my ($record) = recorded('an insert', { %one, end => 'commit', first => $id[0], last => $id[0],
	role => 'alice', application => 'the "shop"', client => '[local]' });

unlike($record->{line}, qr/shard/, 'and names no shard');
is(query($node, "SELECT pg_xact_status('$record->{xid}')"), 'committed', 'with the ID of the transaction');
is(query($node, 'SELECT pg_current_xact_id_if_assigned() IS NULL'), 't', 'a query has none');
@id = run('SELECT snowflake_nextval()');
($record) = recorded('a query', { %one, first => $id[0], last => $id[0] });
ok(!exists $record->{xid}, 'which wrote nothing');

run('SELECT 1');
recorded('a transaction that makes no ID');
@id = run(q{BEGIN; INSERT INTO t (c) VALUES ('b'); SELECT snowflake_currval(); ROLLBACK});
recorded('one that is rolled back', { %one, end => 'abort', first => $id[0], last => $id[0] });
run(q{DO $$ BEGIN PERFORM snowflake_nextval(); COMMIT; PERFORM snowflake_nextval(); ROLLBACK; END $$});
recorded('transactions of a procedure', { %one, end => 'commit' }, { %one, end => 'abort' });

@id = run('INSERT INTO t SELECT FROM generate_series(1, 3000) RETURNING id');
recorded('many rows', { %one, ids => 3000, first => $id[0], last => $id[-1] });
@id = run(q{COPY t (c) FROM PROGRAM 'seq 1 500'; SELECT min(id), max(id) FROM t WHERE c ~ '^\d+$'});
recorded('COPY', { %one, ids => 500, first => (split /\|/, $id[0])[0], last => (split /\|/, $id[0])[1] });
@id = run('SELECT * FROM snowflake_nextval_batch(10000)');
recorded('a batch', { %one, ids => 10000, first => $id[0], last => $id[-1] });

# Several sources in one transaction: the node's IDs of the usual path come before,
# between and after others.
@id = run(q{BEGIN;
	SELECT snowflake_nextval(); SELECT snowflake_nextval();
	SELECT snowflake_shard_nextval(7);
	SELECT snowflake_nextval(); SELECT snowflake_nextval();
	SELECT snowflake_nextval('javascript'); SELECT snowflake_nextval('javascript');
	SELECT snowflake_nextval(); SELECT snowflake_nextval();
	SAVEPOINT s; SELECT snowflake_shard_nextval(8); SELECT snowflake_nextval(); ROLLBACK TO s;
	SELECT * FROM snowflake_shard_nextval_batch(7, 3);
	COMMIT});
recorded('several sources',
	{ %one, ids => 7, first => $id[0], last => $id[10] },
	{ ids => 4, layout => $instagram, shard => 7, first => $id[2], last => $id[13] },
	{ ids => 2, layout => 'timestamp:41 node:7 sequence:5 epoch:2024-01-01', first => $id[5], last => $id[6] },
	{ ids => 1, layout => $instagram, shard => 8, first => $id[9], last => $id[9] });
@id = run(q{BEGIN; SELECT snowflake_shard_nextval(s) FROM generate_series(0, 19) s; SELECT snowflake_nextval(); COMMIT});
my @many = recorded('more than 16 sources', (map { { ids => 1, shard => $_, first => $id[$_] } } 0 .. 15),
	{ %one, ids => 1, first => $id[20], last => $id[20] },
	{ ids => 4, role => query($node, 'SELECT current_user'), database => 'postgres' });
ok(!exists $many[-1]{first}, 'the last line only counts the others; the node has a line of its own');

# ---- failed calls ----

{
	my ($status, $out) = $node->psql('postgres', q{
		SELECT snowflake_nextval(1);
		BEGIN;
		SAVEPOINT s;
		SET LOCAL snowflake.fault = 'before-swap fail';
		SELECT snowflake_nextval();
		ROLLBACK TO s;
		SELECT snowflake_nextval();
		SELECT snowflake_nextval();
		COMMIT}, on_error_stop => 0);

	@id = split /\n/, $out;
	recorded('a first call that fails', { %one, ids => 2, first => $id[0], last => $id[1] });
}

# ---- the end of a transaction ----

@id = run(q{BEGIN; INSERT INTO t (c) VALUES ('p'); SELECT snowflake_currval(); PREPARE TRANSACTION 'p'});
($record) = recorded('a prepared transaction', { %one, end => 'prepare', first => $id[0] });
run(q{COMMIT PREPARED 'p'});
recorded('its second part made no ID');
is(query($node, "SELECT pg_xact_status('$record->{xid}')"), 'committed', 'but the server knows its end');

run(q{SELECT 1});
$node->psql('postgres', q{BEGIN; SELECT snowflake_nextval(); SELECT pg_terminate_backend(pg_backend_pid())});
recorded('a session that is terminated', { %one, end => 'abort' });
$node->psql('postgres', q{SET statement_timeout = '100ms'; SELECT snowflake_nextval(), pg_sleep(60)});
recorded('a statement that is cancelled after its first ID', { %one, end => 'abort' });

# The line cannot be written: the transaction has ended as it has, and so does the next.
foreach my $end ('COMMIT', 'ROLLBACK', q{PREPARE TRANSACTION 'q'})
{
	my ($status, $out, $err) = (query($node, 'TRUNCATE t; SELECT 1'), '', '');

	records();
	$status = $node->psql('postgres', qq{SET snowflake.fault = 'audit-line fail';
		BEGIN; INSERT INTO t (c) VALUES ('x'); $end;
		RESET snowflake.fault;
		BEGIN; SELECT 1 FROM snowflake_nextval(); COMMIT;
		SET statement_timeout = '50ms'; SELECT pg_sleep(10)}, stdout => \$out, stderr => \$err);
	like($err, qr/^psql:<stdin>:\d+: ERROR:  canceling statement due to statement timeout$/,
		"$end without a line: no error, and a timeout still works");
	recorded('the next transaction has its line', { %one, end => 'commit' });
	query($node, q{COMMIT PREPARED 'q'}) if $end =~ /PREPARE/;
	is(query($node, q{SELECT count(*) FROM t}), $end eq 'ROLLBACK' ? 0 : 1, 'what was written is there');
}

# In a process that ends, an error in writing the line would leave the locks behind.
$node->psql('postgres', q{SET snowflake.fault = 'audit-line fail';
	BEGIN; LOCK TABLE t; SELECT snowflake_nextval(); SELECT pg_terminate_backend(pg_backend_pid())});
is(query($node, q{BEGIN; SET lock_timeout = '60s'; LOCK TABLE t; SELECT 'free'}), 'free',
	'a session that is terminated, without a line: its locks are released');

# ---- the client, and the log's settings ----

{
	my ($status, $out, $err) = $node->psql('postgres', 'SET client_min_messages = log; SELECT snowflake_nextval()');

	is($err, '', 'no client sees the line');
	recorded('which is in the log', { %one, first => $out });
	foreach (1 .. 3)
	{
		run('SET log_statement = \'all\'; SELECT 1 FROM snowflake_nextval()');
		recorded('no interval limits the lines', { %one });
	}
	@id = run("SET log_min_messages = panic; SELECT snowflake_nextval()");
	recorded('log_min_messages = panic');
	unlike(slurp_file($node->logfile), qr/SF601: .*\n.* (?:STATEMENT|CONTEXT):  /, 'no line has a statement');
}

# Texts from outside stay in their places.
{
	my $name = qq(a"\\},"ids":9\t\x01);
	(my $quoted = $name) =~ s/"/""/g;

	query($node, qq{CREATE ROLE "$quoted"; GRANT INSERT ON t TO "$quoted"});
	run(qq{SET SESSION AUTHORIZATION "$quoted"; INSERT INTO t (c) VALUES ('y')});
	recorded('a role with a name to deceive', { %one, role => $name });
}

# ---- who may set it, and when it counts ----

foreach my $statement ('SET snowflake.audit = off', 'ALTER ROLE alice SET snowflake.audit = off',
	q{SELECT set_config('snowflake.audit', 'off', false)})
{
	refused($node, "SET SESSION AUTHORIZATION alice; $statement", '42501', qr/permission denied/, "alice: $statement");
}
{
	local $ENV{PGOPTIONS} = '-c snowflake.audit=off';
	# no standard input: psql may end before it is written
	IPC::Run::run([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' user=alice', '-c', 'SELECT 1' ],
		'>', \my $out, '2>', \my $err);
	like($err, qr/permission denied to set parameter "snowflake.audit"/, 'alice: PGOPTIONS');
}
@id = run(q{SET snowflake.audit = off; SELECT snowflake_nextval();
	BEGIN; SET LOCAL snowflake.audit = on; SELECT snowflake_nextval(); COMMIT;
	BEGIN; SET LOCAL snowflake.audit = on; SELECT snowflake_nextval(); SET LOCAL snowflake.audit = off; SELECT snowflake_nextval(); COMMIT;
	BEGIN; SELECT snowflake_nextval(); SET LOCAL snowflake.audit = on; SELECT snowflake_nextval(); COMMIT;
	BEGIN; SAVEPOINT s; SET LOCAL snowflake.audit = on; SELECT snowflake_nextval(); ROLLBACK TO s; SELECT snowflake_nextval(); COMMIT});
recorded('what counts is the value at the first ID', { %one, first => $id[1], last => $id[1] },
	{ %one, ids => 2, first => $id[2], last => $id[3] }, { %one, ids => 2, first => $id[6], last => $id[7] });

alter_system($node, q{SET snowflake.audit = off});
$node->poll_query_until('postgres', q{SELECT current_setting('snowflake.audit') = 'off'}) or die 'no reload';
query($node, 'CREATE DATABASE other');
query($node, 'CREATE EXTENSION snowflake', database => 'other');
query($node, 'ALTER ROLE alice SET snowflake.audit = on; ALTER DATABASE other SET snowflake.audit = on');
@id = (run('SELECT snowflake_nextval()'), query($node, 'SELECT snowflake_nextval()', database => 'other'),
	$node->safe_psql('postgres', 'SELECT snowflake_nextval()', extra_params => [ '-U', 'alice' ]));
recorded('a setting of a role and of a database', { ids => 1, database => 'other', first => $id[1] },
	{ %one, role => 'alice' });

# ---- a process without a client ----

query($node, q{CREATE FUNCTION some_id(text) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT public.snowflake_nextval()';
	CREATE TABLE busy (c text);
	INSERT INTO busy VALUES ('a');
	CREATE INDEX ON busy (some_id(c));
	ALTER TABLE busy SET (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0);
	ALTER SYSTEM SET snowflake.audit = on;
	ALTER SYSTEM SET autovacuum = on;
	ALTER SYSTEM SET autovacuum_naptime = '1s'});
$node->reload;
records();
query($node, q{INSERT INTO busy SELECT 'b' FROM generate_series(1, 100)});
$node->wait_for_log(qr/SF601: .*"ids":101,(?!.*"client")/, $at);
my ($analyze) = grep { !exists $_->{client} } records();

is_deeply([ @$analyze{qw(end role database)} ], [ 'commit', query($node, 'SELECT current_user'), 'postgres' ],
	'autovacuum has a line, without a client');

# An apply worker that meets an error throws it again when its transaction is aborted.
query($node, 'CREATE DATABASE subscriber');
query($node, q{CREATE TABLE p (c text PRIMARY KEY); CREATE PUBLICATION p FOR TABLE p});
query($node, q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
query($node, q{CREATE EXTENSION snowflake; CREATE TABLE p (c text PRIMARY KEY);
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'row %', public.snowflake_nextval() > 0; END $$;
	CREATE TRIGGER fail BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION fail();
	ALTER TABLE p ENABLE ALWAYS TRIGGER fail}, database => 'subscriber');
alter_system($node, q{SET snowflake.fault = 'audit-line fail'});
$node->poll_query_until('postgres', q{SHOW snowflake.fault}, 'audit-line fail') or die 'no reload';
$at = -s $node->logfile;
query($node, 'CREATE SUBSCRIPTION s CONNECTION \'' . $node->connstr . q{ dbname=postgres' PUBLICATION p
	WITH (create_slot = false, slot_name = 's', copy_data = false)}, database => 'subscriber');
query($node, q{INSERT INTO p VALUES ('a')});
like_log($node, qr/ERROR:  (?:row|errstart)/, $at, 'an apply worker fails, without a line');
like(substr(slurp_file($node->logfile), $at), qr/ERROR:  row t/, 'and says why');
query($node, 'ALTER SUBSCRIPTION s DISABLE', database => 'subscriber');

$node->stop;
done_testing();
