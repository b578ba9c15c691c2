# Databases are created, dropped, copied, dumped and restored, and the extension is
# dropped and created while sessions use it. The server has slots for four databases,
# so a slot that is never released shows after a few rounds. SNOWFLAKE_ROUNDS is their
# number: more rounds find slow leaks.
#
# takes: 30 s
use SnowflakeTest;
use IdChecker;
use Load;

my $rounds = $ENV{SNOWFLAKE_ROUNDS} || 20;
my $node = new_server('main', 'snowflake.max_databases = 4',
	'log_statement = none', 'log_connections = off', 'log_disconnections = off',
	'autovacuum = off');
start_with_clock($node, '+0');

# ---- CREATE EXTENSION, a call and ROLLBACK, many times ----

my $aborted = join('', map { qq{
	BEGIN;
	CREATE EXTENSION snowflake;
	SELECT snowflake_nextval();
	ROLLBACK;
} } 1 .. $rounds);
my @ids = split /\n/, query($node, $aborted);
is(scalar(@ids), $rounds, "CREATE EXTENSION was rolled back $rounds times");
check_ids('what those transactions saw', \@ids);
is(query($node, "SELECT count(*) FROM pg_class WHERE relname LIKE 'snowflake%'"),
	'0', 'and left nothing behind');

# ---- databases created and dropped, many times, with slots for four ----

query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE DATABASE pattern');
query($node, 'CREATE EXTENSION snowflake', database => 'pattern');
query($node, 'SELECT snowflake_nextval()', database => 'pattern');
my @from_databases = split /\n/, query($node, join('', map { qq{
	CREATE DATABASE d$_ TEMPLATE pattern;
	\\connect d$_
	SELECT snowflake_nextval();
	\\connect postgres
	DROP DATABASE d$_;
} } 1 .. $rounds));
is(scalar(@from_databases), $rounds, "$rounds databases came and went");
check_ids("$rounds databases, one after the other", \@from_databases);

# one more database than there are slots
foreach my $i (1 .. 3)
{
	query($node, "CREATE DATABASE more$i TEMPLATE pattern");
}
query($node, 'SELECT snowflake_nextval()', database => $_)
  foreach (qw(postgres pattern more1 more2));
refused($node, 'SELECT snowflake_nextval()', '53400',
	qr/too many databases generate IDs on this server.*DETAIL:  snowflake.max_databases is 4.*HINT:  For more, add this line to .*:\nsnowflake.max_databases = '8'\nand restart this server.\nOr, without a restart, drop a database that a test has left, .* at once: DROP DATABASE "NAME";/s,
	'one database too many is refused', database => 'more3');
like(query($node, 'SELECT snowflake_nextval()', database => 'more2'), qr/^\d+$/,
	'and takes no place from another');
query($node, 'DROP DATABASE more1');
like(query($node, 'SELECT snowflake_nextval()', database => 'more3'), qr/^\d+$/,
	'until one of them is dropped, which frees its place at once, as the hint says');
query($node, "DROP DATABASE more$_") foreach (2, 3);

# ---- a copy of a database has its mark ----

query($node, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO t SELECT FROM generate_series(1, 100)}, database => 'pattern');
query($node, 'CREATE DATABASE copy TEMPLATE pattern');
is( query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'copy'),
	query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'pattern'),
	'a copy of a database has its mark');

# ---- two sessions in CREATE EXTENSION at once ----

query($node, 'DROP EXTENSION snowflake CASCADE; DROP TABLE IF EXISTS t');
my @clients;
my $first = begin_session($node, 'BEGIN; CREATE EXTENSION snowflake; SELECT snowflake_nextval();');
my ($out, $err) = ('', '');
my $second = IPC::Run::start(
	[
		'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
		'CREATE EXTENSION IF NOT EXISTS snowflake', '-c',
		'SELECT snowflake_nextval()'
	],
	'>', \$out, '2>', \$err);
$node->poll_query_until('postgres', q{
	SELECT count(*) = 1 FROM pg_stat_activity
	WHERE query LIKE 'CREATE EXTENSION IF%' AND wait_event_type = 'Lock'})
  or die 'the second does not wait';
$first->query_safe('COMMIT');
$second->finish;
like($err, qr/duplicate key|already exists/, 'the second of two is told');
like(query($node, 'SELECT snowflake_nextval()'), qr/^\d+$/,
	'after two sessions in CREATE EXTENSION at once, it works');

# ---- the extension is dropped and created while another session has used it ----

my $user = $node->background_psql('postgres', on_error_stop => 0);
my @seen = ($user->query_safe('SELECT snowflake_nextval()'));
my $old_mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$first->query_safe('DROP EXTENSION snowflake; CREATE EXTENSION snowflake');
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=', $old_mark,
	'the new mark begins above the old one');
push @seen, $user->query_safe('SELECT snowflake_nextval()');
push @seen, $first->query_safe('SELECT snowflake_nextval()');
push @seen, $user->query_safe('SELECT snowflake_nextval()');
check_ids('before and after the extension was created again', \@seen);
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=',
	epoch_ms($seen[-1]), 'the new mark is above what was issued under the old');

# While a transaction creates the extension again, other sessions use the old mark, and
# not that of the transaction, which may roll back.
$old_mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$first->query_safe('BEGIN; DROP EXTENSION snowflake; CREATE EXTENSION snowflake');
$node->poll_query_until('postgres',
	"SELECT extract(epoch FROM clock_timestamp()) * 1000 > $old_mark") or die;
push @seen, $first->query_safe('SELECT snowflake_nextval()');
cmp_ok(epoch_ms($seen[-1]), '>=', $old_mark, 'the one that creates it goes on');
my ($stopped) = $user->query("SET statement_timeout = '500ms'; SELECT snowflake_nextval()");
unlike($stopped || '', qr/^\d+$/, 'others do not go beyond the old mark');
$user->{stderr} = '';
$user->query("RESET statement_timeout");
$first->query_safe('ROLLBACK');
push @seen, $user->query_safe('SELECT snowflake_nextval()');
push @seen, $first->query_safe('SELECT snowflake_nextval()');
check_ids('before and after that was rolled back', \@seen);
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=',
	epoch_ms($seen[-1]), 'and the old mark is above them');

# a mark that was lowered by hand is written up by the next session
foreach my $call ('snowflake_ready()', 'snowflake_nextval()')
{
	query($node, "SELECT setval('snowflake_state.snowflake_mark', 1)");
	query($node, "SELECT $call");
	cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=',
		epoch_ms($seen[-1]), "a mark lowered by hand is written up: $call");
}
push @seen, query($node, 'SELECT snowflake_nextval()');
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=',
	epoch_ms($seen[-1]), 'a mark lowered by hand is written up');

# it is written up also if the published mark is so far ahead of the clock that calls
# are refused
alter_system($node, "SET snowflake.reserve = '60s'");
$node->poll_query_until('postgres', q{
	SELECT snowflake_nextval() > 0 AND last_value > 50000 +
		extract(epoch FROM clock_timestamp()) * 1000 FROM snowflake_state.snowflake_mark}) or die;
push @seen, query($node, 'SELECT snowflake_nextval()');
my $published = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
query($node, "SELECT setval('snowflake_state.snowflake_mark', $published - 20000)");
foreach my $call ('snowflake_nextval()', 'snowflake_ready()')
{
	refused($node, "SELECT $call", '58000',
		qr/behind the mark of this database/, "a mark half a minute ahead: $call");
	is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $published,
		'it is written up');
}
unlike($user->query('SELECT snowflake_nextval()') || '', qr/^\d+$/,
	'the same for a session that was there');
$user->{stderr} = '';
like(query($node, 'SELECT snowflake_nextval()', database => 'pattern'),
	qr/^\d+$/, 'other databases go on');
alter_system($node, 'RESET snowflake.reserve');
set_clock($node, '+60');
push @seen, query($node, 'SELECT snowflake_nextval()');
cmp_ok(epoch_ms($seen[-1]), '>=', $published, 'when the clock is there it goes on');
check_ids('before and after', \@seen);
$user->quit;
$first->quit;

# a mark that was raised by hand or by a restore, and then advanced
my $session = $node->background_psql('postgres');
push @seen, $session->query_safe('SELECT snowflake_nextval()');
my $raised = query($node, q{
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 2500)});
$session->query_safe('SELECT snowflake_advance(snowflake_currval())');
push @seen, $session->query_safe('SELECT snowflake_nextval()');
cmp_ok(epoch_ms($seen[-1]), '>=', $raised, 'what is found above the mark is respected');
$session->query_safe("SELECT snowflake_advance(snowflake_min_id(now() + interval '1 hour'))");
$session->query_safe(q{
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint)});
push @seen, $session->query_safe('SELECT snowflake_nextval()');
check_ids('while the mark was moved by hand', \@seen);
$session->quit;

# ---- one database's bad mark does not stop the others ----

query($node, q{
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM now()) * 1000)::bigint + 86400000)},
	database => 'copy');
refused($node, 'SELECT snowflake_nextval()', '58000',
	qr/wall clock is 1 day behind the mark of this database/,
	'a mark a day ahead stops its database', database => 'copy');
like(query($node, 'SELECT snowflake_nextval()'), qr/^\d+$/,
	'and no other');
query($node, q{
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM now()) * 1000)::bigint)},
	database => 'copy');
like(query($node, 'SELECT snowflake_nextval()', database => 'copy'), qr/^\d+$/,
	'put right, it goes on');

# snowflake_advance() further than a call waits has the same effect
my $ahead = query($node,
	"SELECT snowflake_advance(snowflake_min_id(now() + interval '1 hour'))",
	database => 'copy');
refused_behind($node, 'SELECT snowflake_nextval()',
	'advanced by an hour, a database waits', database => 'copy');
like(query($node, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'and the others go on');
refused($node, 'SELECT snowflake_advance(1)', '58000', qr/behind the mark/,
	'a smaller advance does not undo that', database => 'copy');
set_clock($node, '+3600');
refused($node, 'SELECT snowflake_nextval()', '58000', qr/behind the mark/,
	'until the clock is there', database => 'copy');
set_clock($node, '+3659');
is(query($node, "SELECT snowflake_timestamp(snowflake_nextval()) >= '$ahead'",
	database => 'copy'), 't', 'then it goes on above that time');
# ---- the transaction that made IDs drops the extension and creates it again ----

query($node, 'CREATE DATABASE redone');
my @kept = split /\n/, query($node, q{
	BEGIN;
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY);
	INSERT INTO t SELECT snowflake_nextval_batch(50000) RETURNING id;
	DROP EXTENSION snowflake;
	CREATE EXTENSION snowflake;
	COMMIT}, database => 'redone');
is(scalar(@kept), 50000, 'a transaction makes IDs with an extension that it drops');
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'redone'),
	'>', epoch_ms($kept[-1]), 'and the mark of the new one is above them');

# the same, where a rollback to a savepoint takes back the extension, but the client
# keeps the ID
my $saved = $node->background_psql('redone');
$saved->query_safe('DROP EXTENSION snowflake; BEGIN; SAVEPOINT s; CREATE EXTENSION snowflake');
my $left = $saved->query_safe('SELECT snowflake_nextval()');
$saved->query_safe("ROLLBACK TO s; CREATE EXTENSION snowflake; INSERT INTO t VALUES ($left); COMMIT");
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'redone'),
	'>', epoch_ms($left), 'nor is one forgotten whose extension was rolled back');
$saved->quit;

# ---- an early extension of the mark waits for no lock ----

alter_system($node, "SET snowflake.reserve = '60s'");
$node->poll_query_until('postgres', q{
	SELECT snowflake_nextval() > 0 AND last_value > 50000 +
		extract(epoch FROM clock_timestamp()) * 1000 FROM snowflake_state.snowflake_mark}) or die;
my $caller = $node->background_psql('postgres', on_error_stop => 0);
my $owner = $node->background_psql('postgres');
$caller->query_safe("SELECT snowflake_nextval(); SET statement_timeout = '20s'");
my $far = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$owner->query_safe('BEGIN; ALTER SEQUENCE snowflake_state.snowflake_recorded_epoch OWNER TO CURRENT_USER');
set_clock($node, '+3700');
like($caller->query('SELECT snowflake_nextval()'), qr/^\d+$/,
	'half of a reserve is used up, and a register locked: a call goes on');
$owner->query_safe('ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
is($owner->query_safe('SELECT last_value FROM snowflake_state.snowflake_mark'), $far,
	'and has not moved the mark');
$owner->query_safe('COMMIT');
$caller->query_safe('SELECT snowflake_nextval()');
cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>', $far,
	'the next one does');

$caller->quit;

# ---- nor does it fail because the mark cannot be written ----

$far = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$owner->query_safe('SELECT pg_advisory_lock(1)');
my $waiting = IPC::Run::start(
	[
		'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT snowflake_nextval()', '-c',
		'SELECT pg_advisory_xact_lock(1), snowflake_nextval()', '-c', 'SELECT snowflake_nextval()'
	],
	'>', \$out, '2>', \$err);
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'})
  or die 'the call does not wait';
$owner->query_safe('ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED');
set_clock($node, '+3740');
$owner->query_safe('SELECT pg_advisory_unlock(1)');
$waiting->finish;
like($out, qr/^\|\d+\n/m, 'half of a reserve is used up, and the mark is not logged: a call goes on');
like($err, qr/\A.*"snowflake_mark" is not a logged sequence.*\n.*HINT.*\n\z/, 'the next one is told');
is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $far, 'and nobody has moved the mark');
$owner->query_safe('ALTER SEQUENCE snowflake_state.snowflake_mark SET LOGGED');
query($node, 'SELECT snowflake_nextval()');
$owner->quit;

set_clock($node, '+0');
$node->stop('immediate');

# ---- dump and restore, by a database owner who is no superuser ----

my $source = new_server('source');
$source->start;
query($source, q{
	CREATE ROLE owner LOGIN;
	CREATE DATABASE app OWNER owner;
});
query($source, 'CREATE EXTENSION snowflake', database => 'app');
query($source, q{
	SET ROLE owner;
	CREATE SCHEMA app AUTHORIZATION owner;
	CREATE TABLE app.t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO app.t SELECT FROM generate_series(1, 100);
}, database => 'app');
my $dump = $source->basedir . '/app.sql';
$source->command_ok(
	[
		'pg_dump', '-U', 'owner', '-h', $source->host, '-p', $source->port,
		'-f', $dump, 'app'
	],
	'the owner of a database, who is no superuser, can dump it');
like(slurp_file($dump), qr/setval\('snowflake_state.snowflake_mark', \d+, true\)/,
	'the dump carries the mark');
my $part = $source->basedir . '/part.sql';
$source->command_ok([ 'pg_dump', '-n', 'app', '-e', 'snowflake', '-f', $part, $source->connstr('app') ],
	'a dump of schemas');
like(slurp_file($part), qr/setval\('snowflake_state.snowflake_mark', \d+, true\)/,
	'carries the mark, where it names the extension');
my $max = query($source, 'SELECT max(id) FROM app.t', database => 'app');
my $mark = query($source, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'app');

# a superuser restores into another cluster. Its clock is behind by an hour, so it
# would repeat IDs without the mark
my $target = new_server('target', 'snowflake.max_clock_wait = 30s');
start_with_clock($target, '-3600');
query($target, 'CREATE ROLE owner LOGIN; CREATE DATABASE app OWNER owner; CREATE DATABASE again OWNER owner');
$target->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('app'), '-f', $dump ],
	'a superuser restores it');
is(query($target, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'app'),
	$mark, 'with the mark');
refused($target, 'INSERT INTO app.t DEFAULT VALUES', '58000',
	qr/behind the mark of this database/,
	'where the clock is an hour behind, nothing is generated', database => 'app');
set_clock($target, '+0');
cmp_ok(query($target, 'INSERT INTO app.t DEFAULT VALUES RETURNING id', database => 'app'),
	'>', $max, 'with the right clock it goes on above');

# the owner restores where the extension exists, and may not set its mark. That is an
# error that the owner sees; the remedy is snowflake_advance()
query($target, 'CREATE EXTENSION snowflake', database => 'again');
my ($status, $stdout, $stderr);
$status = IPC::Run::run(
	[
		'psql', '-XAtq', '-U', 'owner', '-h', $target->host, '-p', $target->port,
		'-d', 'again', '-f', $dump
	],
	'>', \$stdout, '2>', \$stderr);
like($stderr, qr/permission denied for sequence snowflake_mark/,
	'the owner is told that the mark is not restored');
is(query($target, 'SELECT count(*) FROM app.t', database => 'again'), '100',
	'the rows are');
query($target, 'SELECT snowflake_advance(max(id)) FROM app.t', database => 'again');
cmp_ok(query($target, 'INSERT INTO app.t DEFAULT VALUES RETURNING id', database => 'again'),
	'>', $max, 'advanced by an administrator, it goes on above');

# the ways of doc/operations.md, with a dump that has comments
my ($with_mark, $without_mark) = slurp_file("$root/doc/operations.md")
  =~ /^### A dump, as an ordinary role\n.*?^```sh\n(.*?)^```\n.*?^```sh\n(.*?)^```\n/ms
  or die 'the page has no commands';
query($source, q{COMMENT ON TABLE app.t IS 'a comment'}, database => 'app');
$source->command_ok([ 'pg_dump', '-Fc', '-f', $source->basedir . '/app.dump', $source->connstr('app') ], 'a dump for pg_restore');

# Run commands, on a database of this name. Return their errors.
sub run_commands
{
	my ($database, $commands, $options) = @_;
	my ($out, $err) = ('', '');

	local $ENV{PGHOST} = $target->host;
	local $ENV{PGPORT} = $target->port;
	query($target, "CREATE DATABASE $database OWNER owner");
	my $ended = IPC::Run::run([ 'bash', $options // '-euc', "cd '" . $source->basedir . "'\n" . $commands =~ s/-d app\b/-d $database/gr ],
		'>', \$out, '2>', \$err);
	return ($ended, $err);
}

my ($create) = $without_mark =~ /\A(psql .*\n)/;
my $rights = q{SELECT relname, relacl FROM pg_class WHERE relnamespace = 'snowflake_state'::regnamespace ORDER BY 1};
my ($ended, $errors) = run_commands('plain', $create . "pg_restore -U owner -d app app.dump\n");
is_deeply([ $errors =~ /ERROR:  (.*)/g ],
	[ 'must be owner of extension snowflake', map { "permission denied for sequence snowflake_$_" }
		  qw(mark recorded_epoch recorded_layout recorded_shard_epoch recorded_shard_layout) ],
	'pg_restore, by the owner: six errors');
($ended, $errors) = run_commands('single', $create . "pg_restore -U owner -d app -1 app.dump\n");
like($errors, qr/ERROR:  must be owner of extension snowflake/, 'in one transaction: the first of them');
is(query($target, q{SELECT to_regclass('app.t') IS NULL}, database => 'single'), 't', 'and nothing is restored');
foreach my $way ([ 'granted', $with_mark ], [ 'listed', $without_mark ])
{
	my ($database, $commands) = @$way;

	($ended, $errors) = run_commands($database, $commands);
	ok($ended && $errors eq '', "$database: the page's commands show no error") or diag($errors);
	is(query($target, 'SELECT count(*), max(id), (SELECT relowner::regrole FROM pg_class WHERE oid = $$app.t$$::regclass) FROM app.t',
			database => $database), "100|$max|owner", "$database: the rows are there");
}
is(query($target, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'granted'), $mark, 'granted: the mark, too');
isnt(query($target, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => 'listed'), $mark, 'listed: not the mark');
is(query($target, q{SELECT obj_description('app.t'::regclass)}, database => 'listed'), 'a comment', 'listed: but the comments');

# a restore that fails leaves no right either: the shell goes on to the last command
($ended, $errors) = run_commands('failed', $with_mark =~ s/^(pg_restore .*)$/psql -Xq -U owner -d app -c 'CREATE SCHEMA app'\n$1/mr, '-uc');
is_deeply([ $errors =~ /ERROR:  (.*)/g ], ['schema "app" already exists'], 'failed: the restore ends with an error');
is(query($target, q{SELECT to_regclass('app.t') IS NULL}, database => 'failed'), 't', 'failed: nothing is restored');
foreach my $database ('granted', 'failed')
{
	is(query($target, $rights, database => $database), query($target, $rights, database => 'listed'),
		"$database: the role has no more rights than before");
	is(query($target, q{SELECT status FROM snowflake_status() WHERE check_name = 'privileges'}, database => $database), 'ok',
		"$database: snowflake_status() says so");
}
$target->stop('immediate');
$source->stop;

# ---- two databases under load share no ID, also after a crash ----

my $both = new_server('both', "snowflake.shards = '3-4'");
my $checker = IdChecker->new($both->basedir . '/ids');
$both->start;
foreach my $database ('one', 'two')
{
	query($both, "CREATE DATABASE $database");
	query($both, 'CREATE EXTENSION snowflake; ' . load_tables(), database => $database);
}
foreach my $life ('until the crash', 'after the crash')
{
	my @loads = map { start_load($checker, 'two databases', $both->connstr($_), 4) } ('one', 'two');

	# the first load once more, so that each has run after the other
	$_->more(10000) foreach (@loads, $loads[0]);
	$both->stop('immediate') if $life =~ /until/;
	is_deeply($_->finish, {}, "two databases, $life: no errors") foreach @loads;
	$both->start if $life =~ /until/;
}
$checker->state("database $_", $both, $_, 'SELECT id FROM t UNION ALL SELECT id FROM s')
  foreach ('one', 'two');
$checker->clients;
$checker->states;
$both->stop;

# ---- the first remedy of too many databases, typed ----

my $few = start_server('few', 'snowflake.max_databases = 1');
query($few, 'SELECT snowflake_nextval(); CREATE DATABASE more');
query($few, 'CREATE EXTENSION snowflake', database => 'more');
refused($few, 'SELECT snowflake_nextval()', '53400', qr/HINT:  For more, add this line to .*:\nsnowflake.max_databases = '2'\nand restart/,
	'the only place is taken', database => 'more');
$few->append_conf('postgresql.conf', "snowflake.max_databases = '2'");
$few->restart;
like(query($few, 'SELECT snowflake_nextval()', database => $_), qr/^\d+$/, "with one more place, after a restart: $_")
  foreach ('postgres', 'more');
$few->stop;

done_testing();
