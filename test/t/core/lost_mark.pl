# The durable numbers are damaged, dropped or locked, and the remedies are typed as they
# are printed. No ID is made twice, also with a clock that is behind, and nobody drops
# the extension.
#
# takes: 40 s
use SnowflakeTest;

# What an administrator types, and what every role gets.
my $recover = 'SELECT * FROM public.snowflake_recover();';
my $remedy = qr/HINT:  Run on the primary, as a superuser: \Q$recover\E/;
my @numbers = qw(snowflake_mark snowflake_recorded_layout snowflake_recorded_epoch
  snowflake_recorded_shard_layout snowflake_recorded_shard_epoch);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, extra => ['--data-checksums']);
$node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'snowflake'",
		"snowflake.node_id = '1'", 'shared_buffers = 1MB', 'max_prepared_transactions = 2',
		'autovacuum = off', 'max_connections = 20', 'max_wal_senders = 3',
		"snowflake.shards = '5'", "snowflake.reserve = '100ms'", ''));
start_with_clock($node, '+0');
query($node, q{CREATE EXTENSION snowflake;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE "Odd ""name" (id bigint DEFAULT snowflake_nextval('javascript'));
	CREATE TABLE typed (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE shards (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(5));
	CREATE TABLE texts (id text DEFAULT snowflake_nextval());
	CREATE TABLE parted (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE part PARTITION OF parted DEFAULT;
	CREATE VIEW all_ids AS SELECT id FROM orders UNION ALL SELECT id::bigint FROM typed UNION ALL SELECT id FROM parted});
my $insert = q{INSERT INTO orders SELECT FROM generate_series(1, 10);
	INSERT INTO "Odd ""name" SELECT FROM generate_series(1, 10);
	INSERT INTO typed SELECT FROM generate_series(1, 10);
	INSERT INTO shards SELECT FROM generate_series(1, 10);
	INSERT INTO parted SELECT FROM generate_series(1, 10)};
query($node, $insert);

sub file_of
{
	my ($name) = @_;

	return $node->data_dir . '/' . query($node, "SELECT pg_relation_filepath('snowflake_state.$name')");
}

# Overwrite bytes of a file, or cut it.
sub write_bytes
{
	my ($file, $offset, $bytes) = @_;

	open(my $fh, '+<', $file) or die "$file: $!";
	sysseek($fh, $offset, 0);
	syswrite($fh, $bytes) == length $bytes or die "$file: $!";
	close $fh;
	return;
}

my %damages = (
	'zeros' => sub { write_bytes($_[0], 0, "\0" x 8192) },
	'a wrong checksum' => sub { write_bytes($_[0], 8100, 'damaged') },
	'no header' => sub { write_bytes($_[0], 0, "\xff" x 100) },
	'an empty file' => sub { truncate($_[0], 0) or die $! },
	'half a page' => sub { truncate($_[0], 4000) or die $! },
	'no file' => sub { unlink($_[0]) or die $! });

# Return the highest ID in the layout of the server.
sub highest { return query($node, 'SELECT max(id) FROM all_ids') }

# Check that IDs are made again, above those that are there.
sub goes_on
{
	my ($name) = @_;
	my $before = highest();

	query($node, $insert);
	cmp_ok(query($node, "SELECT min(id) FROM all_ids WHERE id > $before"), '>', $before, "$name: new IDs are above");
	is(query($node, q{SELECT count(*) - count(DISTINCT id) FROM "Odd ""name"}), '0', "$name: no ID is there twice");
	return;
}

# ---- a page that cannot be read ----

foreach my $damage (sort keys %damages)
{
	my $file = file_of('snowflake_mark');

	$node->stop;
	$damages{$damage}->($file);
	start_with_clock($node, '+0');
	refused($node, 'SELECT snowflake_nextval()', $damage eq 'no file' ? '58P01' : 'XX001', $remedy, "$damage: the call is refused");
	like(query($node, q{SELECT status, remedy FROM snowflake_status() WHERE check_name = 'mark'}),
		qr/^error\|Run on the primary, as a superuser: \Q$recover\E$/, "$damage: the status has the remedy");
	my $out = query($node, "SELECT 2000 + extract(epoch FROM clock_timestamp()) * 1000 AS farthest \\gset
		$recover
		SELECT last_value > :farthest FROM snowflake_state.snowflake_mark");
	like($out, qr/^t$/m, "$damage: the mark is as far ahead as an ID may be");
	like($out, qr/^mark\|it was missing or damaged, and was made anew\|$/m, "$damage: there is a new page");
	like($out, qr/^public\.orders\.id\|its highest ID is \d+, of /m, '... the columns were read');
	like($out, qr/^mark\|it is at .*, above all IDs found\|$/m, '... and the mark is above them');
	goes_on($damage);
	is(query($node, q{SELECT status FROM snowflake_status() WHERE check_name IN ('mark', 'recorded configuration', 'privileges') ORDER BY 1}),
		"ok\nok\nok", '... all is well');
}

# with a clock that is half an hour behind, only the tables tell what the lost mark covered
my $file = file_of('snowflake_mark');
my $last = highest();
$node->stop;
write_bytes($file, 0, "\0" x 8192);
start_with_clock($node, -1800);
my $out = query($node, $recover);
like($out, qr/^mark\|not loaded: wall clock is .* behind the mark of this database\|.*snowflake_reset_mark\(timestamp with time zone 'TIME'\);$/m, 'a clock that is behind: the mark is above the rows');
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/, '... so the database waits');
set_clock($node, '+0');
goes_on('when the clock is right');

# so does snowflake_advance(), and a crash right after it loses nothing
$file = file_of('snowflake_mark');
$last = highest();
$node->stop;
unlink $file or die $!;
start_with_clock($node, -1800);
my (undef, undef, $mended) = $node->psql('postgres', "SELECT snowflake_advance($last)");
like($mended, qr/NOTICE:  the mark .* was made anew\n.*HINT:  Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);$/m,
	'snowflake_advance() says what it has made');
my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
cmp_ok($mark, '>', epoch_ms($last), 'snowflake_advance() makes a lost page anew');
$node->stop('immediate');
start_with_clock($node, -1800);
is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $mark, '... and a crash does not lose it');
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/, '... nor what it means');
set_clock($node, '+0');
goes_on('after the crash');

# with a clock that is behind, nothing between the damage and the end makes IDs below rows:
# not a session beside the call, not a call that is cancelled, nor a transaction that was
# prepared before. The clock may be behind by days. snowflake_advance() looks at all rows, too.
sub lose
{
	my ($clock) = @_;
	my $lost = file_of('snowflake_mark');

	$node->stop;
	write_bytes($lost, 0, "\0" x 8192);
	start_with_clock($node, $clock);
	return;
}
lose(-1800);
my $locker = begin_session($node, 'BEGIN; LOCK TABLE orders');
refused($node, "SET statement_timeout = '1s'; $recover", '57014', qr/statement timeout/, 'a call that is cancelled before it has looked');
refused($node, 'SELECT snowflake_nextval()', 'XX001', $remedy, '... has made no mark');
my $looking = $node->background_psql('postgres', on_error_stop => 0);
$looking->{stdin} .= "$recover\n";
$looking->{run}->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'orders'::regclass AND NOT granted}), 'a call that is looking');
refused($node, 'SELECT snowflake_nextval()', 'XX001', $remedy, '... has made none yet');
$locker->quit;
$looking->quit;
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/, '... and then makes it above the rows');
set_clock($node, '+0');
goes_on('after a call that waited');
foreach my $call ($recover, 'SELECT snowflake_advance(1)')
{
	lose(-200000);
	query($node, $call);
	refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/, "$call with a clock that is days behind");
	set_clock($node, '+0');
	goes_on('when that clock is right');
}
query($node, "CREATE TABLE kept (LIKE orders INCLUDING ALL); BEGIN; INSERT INTO kept SELECT FROM generate_series(1, 10); PREPARE TRANSACTION 'kept'");
lose(-1800);
query($node, "TRUNCATE orders, typed, shards, parted, \"Odd \"\"name\"; $recover COMMIT PREPARED 'kept'");
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/, 'rows of a prepared transaction count');
set_clock($node, '+0');
cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', query($node, 'SELECT max(id) FROM kept'), '... and new IDs are above');
query($node, "DROP TABLE kept; $insert");

# in another layout the rows say nothing, so the record comes first
lose('+0');
$node->append_conf('postgresql.conf', "snowflake.layout = 'sonyflake'");
$node->stop;
start_with_clock($node, '+0');
refused($node, $recover, '55000', qr/differs from what is recorded/, 'a damaged mark, with another layout');
refused($node, 'SELECT snowflake_nextval()', 'XX001', $remedy, '... is not mended');
query($node, "SET client_min_messages = error; SELECT snowflake_accept('configuration')");
like(query($node, $recover), qr/^mark\|it was missing or damaged, and was made anew\|$/m, '... before that is accepted');
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
$node->stop;
start_with_clock($node, '+0');
query($node, "SET client_min_messages = error; SELECT snowflake_accept('configuration')");

# a server that runs knows its mark, and goes on at once
my $session = begin_session($node, 'SELECT snowflake_nextval()');
query($node, 'CHECKPOINT');
$file = file_of('snowflake_mark');
write_bytes($file, 0, "\0" x 8192);
query($node, 'CREATE TABLE big AS SELECT i, repeat($$x$$, 500) FROM generate_series(1, 40000) i; CREATE INDEX ON big (i); DROP TABLE big');
my $damaged = refused($node, 'SELECT snowflake_ready()', 'XX001', $remedy, 'a page is damaged while the server runs');
like(query($node, $recover), qr/made anew/, '... and made anew');
goes_on('while the server runs');
$session->query_safe('SELECT snowflake_nextval()');
$session->quit;

# the record
foreach my $name (@numbers[1 .. 4])
{
	$file = file_of($name);
	my $value = query($node, "SELECT last_value FROM snowflake_state.$name");
	$node->stop;
	unlink $file or die $!;
	start_with_clock($node, '+0');
	refused($node, 'SELECT snowflake_nextval()', '58P01', $remedy, "$name is damaged");
	$out = query($node, $recover);
	like($out, qr/^recorded configuration\|.*snowflake\.layout is "timestamp:41 node:10 sequence:12 epoch:2024-01-01".*\|If the IDs .*SELECT public\.snowflake_accept\('configuration'::pg_catalog\.text\);$/m,
		'... what is recorded instead is said');
	unlike($out, qr/^mark\|it was missing/m, '... and the mark stays as it is');
	is(query($node, "SELECT last_value FROM snowflake_state.$name"), $value, '... which is what it was');
	goes_on($name);
}

# ---- a standby replays it ----

my $standby = standby_of($node, 'standby', 'wal_consistency_checking = all');
$standby->start;
$file = file_of('snowflake_mark');
$node->stop;
unlink $file or die $!;
start_with_clock($node, '+0');
query($node, $recover);
$node->wait_for_catchup($standby);
is(query($standby, 'SELECT last_value, is_called FROM snowflake_state.snowflake_mark'),
	query($node, 'SELECT last_value, is_called FROM snowflake_state.snowflake_mark'), 'a standby has the new page');
$standby->stop;

# ---- a sequence that is gone ----

my $shape = q{SELECT c.relacl, c.relowner::regrole, s.seqmin, s.seqmax, s.seqincrement, s.seqstart, c.oid = ANY (x.extconfig),
		(SELECT initprivs FROM pg_init_privs WHERE objoid = c.oid)
	FROM pg_class c JOIN pg_sequence s ON s.seqrelid = c.oid, pg_extension x
	WHERE x.extname = 'snowflake' AND relnamespace = 'snowflake_state'::regnamespace ORDER BY relname};
my $shapes = query($node, $shape);

# what the caller's search_path finds first does not run
query($node, 'CREATE SCHEMA trap');
foreach my $types (qw(name oid text "char" aclitem xid))
{
	query($node, qq{CREATE FUNCTION trap.boom($types, $types) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END';
		CREATE OPERATOR trap.= (FUNCTION = trap.boom, LEFTARG = $types, RIGHTARG = $types);
		CREATE OPERATOR trap.<> (FUNCTION = trap.boom, LEFTARG = $types, RIGHTARG = $types)});
}
query($node, qq{CREATE FUNCTION trap.$_ RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''trapped''; END'})
  foreach 'concat(text, text)', 'aclexplode(aclitem[])', 'pg_extension_config_dump(regclass, text)', 'current_database()', 'pg_backend_pid()';
my $trapped = 'SET search_path = trap, pg_catalog, public;';
query($node, 'CREATE ROLE other SUPERUSER; CREATE ROLE app; ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO app');
foreach my $name (@numbers)
{
	my $value = query($node, "SELECT last_value FROM snowflake_state.$name");
	query($node, "ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.$name; DROP SEQUENCE snowflake_state.$name");
	refused($node, 'SELECT snowflake_nextval()', '42704', $remedy, "$name is gone");
	query($node, "BEGIN; $recover ROLLBACK");
	refused($node, 'SELECT snowflake_nextval()', '42704', $remedy, '... also after a rollback');
	query($node, "SET ROLE other; $trapped $recover");
	is(query($node, $shape), $shapes, '... and comes again as the script has made it');
	cmp_ok(query($node, "SELECT last_value FROM snowflake_state.$name"), '>=', $value, '... with its value');
	goes_on($name);
}
query($node, 'DROP OWNED BY app; DROP ROLE app, other');
query($node, "ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.$_") foreach @numbers;
query($node, q{CREATE ROLE app; CREATE ROLE other; GRANT USAGE, CREATE ON SCHEMA snowflake_state TO app, other;
	ALTER SEQUENCE snowflake_state.snowflake_recorded_epoch OWNER TO other;
	GRANT SELECT ON snowflake_state.snowflake_mark TO other WITH GRANT OPTION; SET ROLE other; GRANT SELECT ON snowflake_state.snowflake_mark TO app});
query($node, q{SELECT setval('snowflake_state.snowflake_mark', last_value + 3600000) FROM snowflake_state.snowflake_mark});
query($node, q{SELECT setval('snowflake_state.snowflake_recorded_layout', last_value - 1) FROM snowflake_state.snowflake_recorded_layout});
my $value = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
like(query($node, $recover), qr/^snowflake_mark\|it had left the extension, and is back, with its value\|$/m, 'one that has only left the extension');
refused($node, 'SELECT snowflake_nextval()', '55000', qr/differs from what is recorded/, '... and so does a record');
query($node, q{SELECT setval('snowflake_state.snowflake_recorded_layout', last_value + 1) FROM snowflake_state.snowflake_recorded_layout});
query($node, $recover);
is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $value, '... comes back with its value');
query($node, q{SELECT setval('snowflake_state.snowflake_mark', last_value - 3600000) FROM snowflake_state.snowflake_mark});
is(query($node, $shape), $shapes, '... and all come back');
query($node, 'DROP OWNED BY app, other; DROP ROLE app, other');
goes_on('after that');
my $dump = $node->basedir . '/dump.sql';
command_ok([ 'pg_dump', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
like(slurp_file($dump), qr/setval\('snowflake_state.$_', \d+, true\)/, "... dumps $_") foreach @numbers;

# one of another kind
query($node, 'ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED');
my ($set_logged) = refused($node, 'SELECT snowflake_nextval()', '42809', qr/not a logged sequence/, 'an unlogged one') =~ /(ALTER SEQUENCE .*;)$/m;
query($node, $set_logged);
goes_on('logged again');
query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark;
	CREATE TABLE snowflake_state.snowflake_mark (); ALTER EXTENSION snowflake ADD TABLE snowflake_state.snowflake_mark});
my ($all) = refused($node, 'SELECT snowflake_nextval()', '42809', qr/not a logged sequence/, 'a table in its place') =~ /superuser: (.*;)$/m;
query($node, $all);
goes_on('without the table');
query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark;
	CREATE VIEW snowflake_state.snowflake_mark AS SELECT 1; DROP TABLE snowflake_state.snowflake_mark_old});
($all) = refused($node, $recover, '42809', qr/is not a sequence.*HINT:  Run as a superuser, and call again: ALTER TABLE snowflake_state\.snowflake_mark RENAME TO snowflake_mark_old;$/ms, 'a view in its place') =~ /call again: (.*;)$/m;
query($node, "$all $recover");
goes_on('without the view');

# a mark that is lost, with a column whose owner keeps its table locked
$last = highest();
my $owner = begin_session($node, 'BEGIN; LOCK TABLE orders');
query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)});
$out = query($node, $recover);
like($out, qr/^public\.orders\.id\|not looked at: canceling statement due to lock timeout\|Run as a superuser, with its highest ID and the layout that it was made with: SELECT public\.snowflake_advance\('ID'::bigint, 'LAYOUT'\);$/m,
	'a table that is locked is named');
like($out, qr/^public\.texts\.id\|not looked at: it holds no integers\|/m, '... and a column of text');
$owner->quit;

# rows of the future are reported, and not followed
query($node, q{INSERT INTO "Odd ""name" VALUES (snowflake_min_id(now() + interval '3 days', 'javascript'))});
$out = query($node, $recover);
like($out, qr/^public\."Odd ""name"\.id\|its highest ID is .* but for 1 that lie more than a day ahead of the clock\|If a wrong clock made these, and no subscription brought them, stop all clients, and run as the owner of the table: SELECT \* FROM public\.snowflake_renumber\('public\."Odd ""name"'::pg_catalog\.regclass, 'id'::pg_catalog\.name, '\d+'::bigint, '9223372036854775807'::bigint, false\);$/m,
	'a row of the future is reported');
my ($renumber) = $out =~ /clients, and run as the owner of the table: (SELECT .*;)$/m;
query($node, $renumber);
is(query($node, q{SELECT count(*) FROM "Odd ""name" WHERE id > snowflake_min_id(now() + interval '1 day', 'javascript')}), '0',
	'... and has a new ID when the remedy has been typed');
goes_on('the database goes on');

# ---- who has locked the mark ----

query($node, q{BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark CACHE 1; PREPARE TRANSACTION 'writers wait'});
refused($node, $_, '55P03', qr/HINT:  The transaction is prepared\. End it as its coordinator has decided: COMMIT PREPARED 'writers wait'; or ROLLBACK PREPARED 'writers wait';$/m, "a lock that writers wait for: $_")
  foreach $recover, 'SELECT * FROM snowflake_reset_mark(clock_timestamp())';
query($node, "ROLLBACK PREPARED 'writers wait'");
my $lock = begin_session($node, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
query($node, "CREATE TABLE bystander (); BEGIN; LOCK TABLE bystander; PREPARE TRANSACTION 'bystander'");
my $see = q{SELECT remedy FROM snowflake_status() WHERE check_name = 'mark'};
my $end = query($node, $see);
is(query($node, "SET search_path = trap, pg_catalog, public; SELECT remedy FROM snowflake_status() WHERE check_name OPERATOR(pg_catalog.=) 'mark'"),
	$end, 'who it is, also with traps in search_path');
like($end, qr/^Wait until process \d+ has .*: SELECT pg_catalog.pg_terminate_backend\(\d+\);$/, 'a process');
refused($node, $recover, '55P03', qr/HINT:  \Q$end\E/, '... for which nobody waits');
refused($node, 'SELECT * FROM snowflake_reset_mark(clock_timestamp())', '55P03', qr/HINT:  \Q$end\E/, '... nor here');
query($node, $end =~ /(SELECT.*;)/);
$lock->{run}->finish;
foreach my $gid ('gone', q{it's \\\\! "id" :x }, "new\nline", "\xc3\xa4;")
{
	my $quoted = $gid =~ s/'/''/gr;

	query($node, "BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER; PREPARE TRANSACTION '$quoted'");
	$end = query($node, $see);
	like($end, qr/^The transaction is prepared\. End it as its coordinator has decided: COMMIT PREPARED ('[\w]+'|E'[ -&(-~]+'); or ROLLBACK PREPARED \g1;$/, 'a prepared transaction, in ASCII');
	query($node, $end =~ /(ROLLBACK PREPARED .*;)/);
	is(query($node, 'SELECT gid FROM pg_prepared_xacts'), 'bystander', '... which the remedy ends, and no other');
}
query($node, "ROLLBACK PREPARED 'bystander'");
goes_on('at the end');

# a mark that is lowered is above what a life before has made with the same clock
query($node, q{SELECT setval('snowflake_state.snowflake_mark', last_value + 360000000) FROM snowflake_state.snowflake_mark});
$node->stop;
start_with_clock($node, q{+0});
like(query($node, q{SELECT 2000 + extract(epoch FROM clock_timestamp()) * 1000 AS farthest \gset
	SELECT FROM snowflake_reset_mark(clock_timestamp());
	SELECT last_value BETWEEN :farthest AND :farthest + 60000 FROM snowflake_state.snowflake_mark}), qr/^t$/m, 'a mark that is lowered');
goes_on('after that');

# without checksums, a line pointer that leads beyond the page
$file = file_of('snowflake_mark');
$node->stop;
command_ok([ 'pg_checksums', '--disable', '-D', $node->data_dir ], 'without checksums');
write_bytes($file, 24, pack('V', 32000 | 1 << 15 | 64 << 17));
start_with_clock($node, '+0');
refused($node, 'SELECT snowflake_nextval()', 'XX001', $remedy, 'a line pointer is damaged');
like(query($node, $recover), qr/^mark\|it was missing or damaged, and was made anew\|$/m, '... and mended');
goes_on('after a line pointer');
done_testing();
