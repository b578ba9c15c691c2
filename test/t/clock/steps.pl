# Steps of the clock while the server runs. Steps within the drift change nothing.
# After a step within max_clock_wait a call sleeps. After larger steps IDs are refused
# until the clock is right again.
#
# takes: 9 s
use SnowflakeTest;
use Robot;
use Time::HiRes qw(time);

my $node = new_server('main', 'snowflake.max_clock_drift = 100ms',
	"snowflake.shards = '3'");
start_with_clock($node, '+0');
query($node, 'CREATE EXTENSION snowflake');

my @seen;

sub get
{
	my ($sql) = @_;
	my $id = query($node, $sql || 'SELECT snowflake_nextval()');

	push @seen, $id;
	return $id;
}

get();

# within the drift: no call waits
my $from = -s $node->logfile;
set_clock($node, '-0.050');
get();
unlike(substr(slurp_file($node->logfile), $from), qr/wall clock/,
	'50 ms back, with 100 ms allowed, is not worth a line');

# within max_clock_wait: the call sleeps, and logs one line
set_clock($node, '-2.9');
my $slept = get();
cmp_ok(epoch_ms($slept) - 100, '<=',
	query($node, 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)'),
	'2.9 s back is slept for, until the drift allows the ID');
like_log($node, qr/LOG:  snowflake SF101: waiting for the wall clock, which is \d+ ms behind the next ID's timestamp, until \d{4}-\S+ \S+/,
	$from, 'the log says so');

# further: every function refuses, and so does the probe
set_clock($node, '-3600');
my $behind = qr/wall clock is 1 h behind the next ID's timestamp.*DETAIL:  snowflake.max_clock_drift allows 100 ms, and snowflake.max_clock_wait 3000 ms.*HINT:  Correct the server's clock\. IDs resume when the clock reaches/s;
refused($node, 'SELECT snowflake_nextval()', '58000', $behind,
	'an hour back is refused');
refused($node, 'SELECT snowflake_nextval_batch(10)', '58000', $behind,
	'a batch as well');
refused($node, 'SELECT snowflake_ready()', '58000', $behind,
	'the probe says the same');
set_clock($node, '+0');
get();
is(query($node, 'SELECT snowflake_ready()'), 't',
	'with the clock right again, it goes on');

# a shard that has issued nothing yet is bound by the mark too
query($node, 'SELECT snowflake_shard_nextval(3)');

# max_clock_wait = 0 refuses at once, as Twitter's original did
set_conf($node, 'snowflake.max_clock_wait = 0');
$node->poll_query_until('postgres',
	"SELECT current_setting('snowflake.max_clock_wait') = '0'") or die;
get();
set_clock($node, '-30');
refused($node, 'SELECT snowflake_nextval()', '58000',
	qr/wall clock is \d+ m?s behind/, 'no waiting: refused at once');
set_clock($node, '+0');
set_conf($node, 'snowflake.max_clock_wait = 60s');
$node->poll_query_until('postgres',
	"SELECT current_setting('snowflake.max_clock_wait') = '1min'") or die;

# a waiting call ends at once when it is cancelled
get();
set_clock($node, '-30');
refused($node, "SET statement_timeout = '200ms'; SELECT snowflake_nextval()",
	'57014', qr/statement timeout/, 'statement_timeout ends a wait');
my ($out, $err) = ('', '');
my $client = IPC::Run::start(
	[
		'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
		'SELECT snowflake_nextval() /* waits */'
	],
	'>', \$out, '2>', \$err);
$node->poll_query_until('postgres', q{
	SELECT count(*) = 1 FROM pg_stat_activity
	WHERE query LIKE '%/* waits */' AND pid <> pg_backend_pid()
		AND wait_event_type = 'Extension'}) or die 'nobody waits';
pass('pg_stat_activity shows the wait');
query($node, q{
	SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE query LIKE '%/* waits */' AND pid <> pg_backend_pid()});
$client->finish;
like($err, qr/canceling statement due to user request/,
	'pg_cancel_backend() ends a wait');
set_clock($node, '+0');
get();

$node->stop('immediate');

# a clock that stands still gives an error of its own, and no endless wait
my $frozen = new_server('frozen');
start_with_clock($frozen, '+0');
query($frozen, 'CREATE EXTENSION snowflake');
query($frozen, 'SELECT snowflake_nextval()');
sub set_drift
{
	my ($drift) = @_;

	alter_system($frozen, "SET snowflake.max_clock_drift = '$drift'");
	$frozen->poll_query_until('postgres', 'SHOW snowflake.max_clock_drift', $drift) or die;
	return;
}
my $stamp = query($frozen,
	q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '1 s', 'YYYY-MM-DD HH24:MI:SS')});
{
	# without "@" the time is absolute and does not move on
	set_clock($frozen, $stamp);
	refused($frozen, 'SELECT count(*) FROM snowflake_nextval_batch(1000000)',
		'58000',
		qr/wall clock stands still.*DETAIL:  It advanced by \d+ ms while the monotonic clock advanced by \d+ ms.*HINT:  Check the clock/s,
		'a frozen clock is found out');
	# 50 us before the next tick, and no drift for which a call could sleep longer: each
	# sleep is shorter than a tick of the clocks that are compared
	set_drift('0');
	set_clock($frozen, "$stamp.999950");
	# statement_timeout would never end the call: it uses the clock that stands still
	my ($error, $timed_out) = ('', 0);
	$frozen->psql('postgres', 'SELECT count(*) FROM snowflake_nextval_batch(1000000)',
		stderr => \$error, timeout => $PostgreSQL::Test::Utils::timeout_default, timed_out => \$timed_out);
	like($error, qr/wall clock stands still/, 'also one that is about to reach the next tick');
	set_clock($frozen, '+2');
	like(query($frozen, 'SELECT snowflake_nextval()'), qr/^\d+$/,
		'when it moves again, it goes on');
}
$frozen->stop('immediate');

# jumps ahead are believed up to max_clock_jump
my $jump = new_server('jump');
start_with_clock($jump, '+0');
query($jump, 'CREATE EXTENSION snowflake');
push my @jumped, query($jump, 'SELECT snowflake_nextval()');
set_clock($jump, '+1800');
push @jumped, query($jump, 'SELECT snowflake_nextval()');
my $mark = query($jump, 'SELECT last_value FROM snowflake_state.snowflake_mark');
set_clock($jump, '+2d');
my $jumped = qr/wall clock jumped forward by [\w ]*(?:h|days?)\n.*HINT:  If the clock is wrong, correct it.*SELECT public\.snowflake_accept\('clock'::pg_catalog\.text\)/s;
refused($jump, 'SELECT snowflake_nextval()', '58000', $jumped,
	'two days ahead are not believed');
refused($jump, 'SELECT snowflake_ready()', '58000', $jumped,
	'the probe says the same');
refused($jump, q{SELECT snowflake_advance(snowflake_min_id(now()), NULL, force => true)}, '58000', $jumped,
	'nor to advance a database');
is(query($jump, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $mark,
	'and nothing was moved');

# nor when another database makes its first call, which would count for all databases
query($jump, 'CREATE DATABASE other');
query($jump, 'CREATE EXTENSION snowflake', database => 'other');
refused($jump, "SELECT $_", '58000', $jumped, "another database: $_",
	database => 'other')
  foreach 'snowflake_nextval()', 'snowflake_horizon()';
refused($jump, 'SELECT snowflake_nextval()', '58000', $jumped,
	'and still they are not believed');
set_clock($jump, '+1800');
push @jumped, query($jump, 'SELECT snowflake_nextval()');
set_clock($jump, '+2d');
query($jump, q{SELECT snowflake_accept('clock')});
push @jumped, query($jump, 'SELECT snowflake_nextval()');
cmp_ok(epoch_ms($jumped[-1]), '>', epoch_ms($jumped[-2]) + 86400000,
	'unless an administrator says so');
check_ids('jumps', \@jumped);

# nor when a database loads a mark that a restore has put near the jumped clock
query($jump, 'SELECT snowflake_nextval()', database => 'other');
set_clock($jump, '+4d');
query($jump, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 86400000)}, database => 'other');
refused($jump, 'SELECT snowflake_nextval()', '58000', $jumped, 'a mark from a restore, and a clock that has jumped', database => 'other');
set_clock($jump, '+2d');
like(answer($jump, 'SELECT snowflake_nextval()'), qr/^\d+$/, '... which raises no counter of other databases');
query($jump, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint)}, database => 'other');

# after a clean restart the mark is not moved at first, and jumps are noticed all the
# same
$jump->stop('fast');
start_with_clock($jump, '+2d');
query($jump, 'SELECT snowflake_ready()');
set_clock($jump, '+4d');
refused($jump, 'SELECT snowflake_nextval()', '58000', $jumped,
	'a jump after a clean restart is not believed either');

# the way back from a mark in the far future: each remedy is typed where it is printed
set_clock($jump, '+2d');
query($jump, q{CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE TABLE items (order_id bigint REFERENCES orders ON UPDATE CASCADE);
	CREATE TABLE "Notes" (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'));
	WITH o AS (INSERT INTO orders SELECT FROM generate_series(1, 100) RETURNING id) INSERT INTO items SELECT id FROM o;
	INSERT INTO "Notes" SELECT FROM generate_series(1, 100)});
my $feed = 'SELECT id FROM orders WHERE id > %s AND id < snowflake_horizon() ORDER BY id';
my $cursor = (split /\n/, query($jump, sprintf($feed, 0)))[-1];
# feeds of a layout of its own, of what an application fills, and of a layout that is hidden
query($jump, q{CREATE TABLE filled (id bigint); INSERT INTO filled SELECT snowflake_nextval_batch(100);
	CREATE TABLE hidden (id bigint DEFAULT snowflake_nextval('java' || 'script')); INSERT INTO hidden SELECT FROM generate_series(1, 100)});
my %feed = ('"Notes"' => q{SELECT id FROM "Notes" WHERE id > %s AND id < snowflake_horizon('javascript') ORDER BY id},
	filled => 'SELECT id FROM filled WHERE id > %s AND id < snowflake_horizon() ORDER BY id',
	hidden => q{SELECT id FROM hidden WHERE id > %s AND id < snowflake_horizon('javascript') ORDER BY id});
my %cursor = map { $_ => (split /\n/, query($jump, sprintf($feed{$_}, 0)))[-1] } keys %feed;
set_clock($jump, '+0');
my $restart = qr/If the clock is right now, and was wrong before, stop all clients, restart this server, and see the remedy of the check "mark": SELECT \* FROM public\.snowflake_status\(\);/;
like(my $err_step = refused($jump, 'SELECT snowflake_nextval()', '58000', qr/wall clock is 2 days behind the next ID's/,
	'back again it is two days behind'), $restart, 'what to do if it was wrong before');
query($jump, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 864000000)},
	database => 'other');
like(my $err_mark = refused($jump, 'SELECT snowflake_nextval()', '58000', qr/wall clock is 10 days behind the mark/,
	'another database, by its mark', database => 'other'), $restart, 'the same');
my $remedies = q{SELECT string_agg(remedy, ' ') FROM snowflake_status()};
my @said = ($err_step, $err_mark, query($jump, $remedies), query($jump, $remedies, database => 'other'));
like($_, $restart, 'the status says it, too') foreach @said[2, 3];
unlike($_, qr/reset_mark|snowflake_advance/, 'while the clock may be wrong, no remedy lowers or raises a mark') foreach @said;
refused($jump, 'SELECT * FROM snowflake_reset_mark(clock_timestamp())', '55000',
	qr/can still make IDs of the future.*HINT:  Stop all clients, restart this server, and before you start them again, call snowflake_reset_mark\(\) once more\./s, "$_: nor is it lowered before a restart", database => $_)
  foreach 'postgres', 'other';
$jump->restart;
my $remedy = query($jump, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'mark'});
my $err_back = refused($jump, 'SELECT snowflake_ready()', '58000', qr/behind the mark of this database/, 'after a restart as well');
my ($reset) = $remedy =~ /stop all clients, and run as a superuser, with the time that date -u prints on another machine: (SELECT .*?;)/;
like($err_back, qr/\Q$reset\E/, 'the error and the status have the same remedy');
my (undef, undef, $notice) = $jump->psql('postgres', q{SELECT snowflake_accept('clock')});
like($notice, qr/NOTICE:  nothing to accept.*HINT:  .*SELECT \* FROM public\.snowflake_status\(\);$/s, 'snowflake_accept() says where it is');

# it is lowered only to the time of two clocks, and to none below what was issued
my $far = query($jump, 'SELECT last_value FROM snowflake_state.snowflake_mark');
refused($jump, $reset, '22007', qr/invalid input syntax/, 'a remedy that is typed without the time does nothing');
refused($jump, "SELECT * FROM snowflake_reset_mark($_)", '22023', qr/HINT:  If the clock is wrong, correct it first/, "another time: $_")
  foreach q{now() + interval '2 days'}, q{now() - interval '2 min'}, q{'infinity'};
refused($jump, 'SELECT * FROM snowflake_reset_mark(NULL)', '22004', qr/date -u/, 'none');
is(query($jump, 'SELECT last_value FROM snowflake_state.snowflake_mark'), $far, 'which moves nothing');
chomp(my $date = `LC_ALL=C date -u`);
my (undef, $rows_after, $warning) = $jump->psql('postgres', $reset =~ s/TIME/$date/r);
like($warning, qr/WARNING:  the mark was lowered from .* to .*HINT:  .*set the cursors of feeds back/s, 'the mark is lowered');
cmp_ok(query($jump, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '<=', (time() + 10) * 1000, '... to the present');
my %back = $rows_after =~ /^public\.("Notes"|orders)\.id\|100 IDs of the future; a feed of this column whose cursor is above (\d+) must go on at that ID\|/mg;
is(join(' ', sort keys %back), '"Notes" orders', '... it names the columns with rows of the future, and where feeds go on');
my @renumber = $rows_after =~ /\|If no subscription brought them, run as the owner of the table: (SELECT \* FROM public\.snowflake_renumber\('public.*;)$/mg;
is(scalar(@renumber), 2, '... and the call that gives these new IDs');
my (undef, $left, $nothing) = $jump->psql('postgres', $reset =~ s/TIME/$date/r);
like($nothing, qr/NOTICE:  nothing to reset/, 'a second time there is nothing to lower');

is(join("\n", $left =~ /(SELECT \* FROM public\.snowflake_renumber\('public.*;)$/mg), join("\n", @renumber), '... but the rows are listed once more');
unlike($left, qr/feed/, '... and no feed is sent past what was made since');

# a feed that had read to the horizon loses no new row if it goes on where it is told
query($jump, 'INSERT INTO orders SELECT FROM generate_series(1, 20)');
is(query($jump, sprintf($feed, $cursor)), '', 'the old cursor would pass over new rows');
is(scalar(split /\n/, query($jump, sprintf($feed, $back{orders}))), 20, 'the new one finds each of them, and no other');
($back{filled}) = $rows_after =~ /^other columns\|.*; a feed of this column whose cursor is above (\d+) must go on at that ID\|/m;
my ($where) = $rows_after =~ /^public\.hidden\.id\|a feed of this column must go on below its IDs of the future\|(.*)$/m;
my $typed = 0;
($back{hidden}) = map { / -> (\d+)$/ } follow_remedies(sub { $typed++ ? '' : $where }, name => 'a feed of a column that is filled by a function',
	node => $jump, given => { LAYOUT => 'javascript' }, types => 'Set the cursor back to: SELECT');
query($jump, q{INSERT INTO "Notes" SELECT FROM generate_series(1, 20); INSERT INTO hidden SELECT FROM generate_series(1, 20); INSERT INTO filled SELECT snowflake_nextval_batch(20)});
foreach my $table (sort keys %feed)
{
	is(query($jump, sprintf($feed{$table}, $cursor{$table})), '', "$table: the old cursor would pass over new rows");
	is(scalar(split /\n/, query($jump, sprintf($feed{$table}, $back{$table}))), 20, '... the new one finds each of them, and no other');
}
query($jump, 'DROP TABLE filled, hidden');
my $rows = q{SELECT found, remedy FROM snowflake_status() WHERE check_name = 'rows above'};
my $last = query($jump, 'SELECT max(id) FROM orders');
my $err_far = refused($jump, "SELECT snowflake_advance($last)", '22008',
	qr/DETAIL:  Its time is .*; this database would make no IDs until then\..*HINT:  .*If a wrong clock made it, run as the owner of its table/s, 'the database does not stop until then');
unlike($err_far, qr/force/, 'nor is it offered');
like($err_far, qr/SELECT \* FROM public\.snowflake_renumber\('TABLE'::pg_catalog\.regclass, 'COLUMN'::pg_catalog\.name, '$last'::bigint, '$last'::bigint, false\);$/m, 'but to give its row another ID');
foreach my $table ('"Notes"', 'orders')
{
	my $found = query($jump, $rows);

	like($found, qr/: .*public\.\Q$table\E\.id \(\d+\).*snowflake_renumber\('public\.\Q$table\E/, "rows of $table");
	unlike($found, qr/snowflake_advance/, 'are not to stop the database');
	query($jump, $found =~ /(SELECT \* FROM public\.snowflake_renumber.*;)$/);
}
(undef, $left) = $jump->psql('postgres', $reset =~ s/TIME/$date/r);
unlike($left, qr/snowflake_renumber\('public/, 'no row of the future is left');
like(query($jump, $rows), qr/^0 of 2 columns/, 'all have new IDs');
is(query($jump, q{SELECT count(*), count(order_id), count(DISTINCT o.id), min(o.id) > (SELECT snowflake_min_id(pg_postmaster_start_time())),
	max(o.id) < snowflake_max_id(now()) FROM items FULL JOIN orders o ON order_id = o.id}), '120|100|120|t|t', 'no ID is there twice, and what refers to them follows');
is(query($jump, q{SELECT count(*) FROM "Notes" WHERE id < snowflake_max_id(now(), 'javascript')}), '120', 'also in a layout of their own');
cmp_ok(epoch_ms(query($jump, 'SELECT snowflake_nextval()')), '<',
	(time() + 60) * 1000, 'IDs are of the present again');
$jump->stop('immediate');

# When the server starts, it can compare the clock only with the mark.
my $logged = -s $jump->logfile;
start_with_clock($jump, '+1800');
query($jump, 'SELECT snowflake_nextval()');
unlike(substr(slurp_file($jump->logfile), $logged), qr/SF106/, 'half an hour past the mark: nothing is said');
$jump->stop;
start_with_clock($jump, '+400d');
$logged = -s $jump->logfile;
query($jump, 'SELECT snowflake_nextval()');
like_log($jump, qr/WARNING:  snowflake SF106: the wall clock is \S+ \w+ past the last mark of this database\n.*DETAIL:  The clock says \S.*HINT:  If the clock is wrong, correct it now.*If the clock is right, and no ID was made for so long, run as a superuser: SELECT public\.snowflake_accept\('clock'::pg_catalog\.text\);/s,
	$logged, '400 days past the mark: a warning');
my $steps = q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'clock steps'};
my $past = qr/^warning\|the clock is \d+ days?(?: \d+ h)? past the newest mark .*\|If the clock is wrong.*SELECT public\.snowflake_accept\('clock'::pg_catalog\.text\);$/;
like(query($jump, $steps), $past, 'the status shows it');
$logged = -s $jump->logfile;
query($jump, 'SELECT snowflake_nextval()');
unlike(substr(slurp_file($jump->logfile), $logged), qr/SF106/, 'once');
like(query($jump, $steps), $past, 'the status goes on to show it');
query($jump, q{CREATE DATABASE idle TEMPLATE template0; SELECT snowflake_accept('clock')});
like(query($jump, $steps), qr/^ok\|/, 'until somebody says that the clock is right');
query($jump, q{CREATE EXTENSION snowflake;
	SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp() - interval '300 days') * 1000)::bigint)},
	database => 'idle');
query($jump, 'SELECT snowflake_nextval()', database => 'idle');
like(query($jump, $steps), qr/^ok\|/, 'also of databases that have made no ID for long');

# A machine without a battery starts long ago. What a new database sees of that is not the
# clock to compare later ones with.
query($jump, 'CREATE DATABASE bare TEMPLATE template0');
$jump->stop;
start_with_clock($jump, '-4000d');
query($jump, 'CREATE EXTENSION snowflake', database => 'bare');
refused($jump, 'SELECT snowflake_nextval()', '58000', qr/wall clock is before the layout's epoch/, 'before the epoch there are no IDs', database => 'bare');
set_clock($jump, '+400d');
like(answer($jump, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'when the clock is corrected, they are made');
like(answer($jump, 'SELECT snowflake_nextval()', database => 'bare'), qr/^\d+$/, '... in each database');
$jump->stop('immediate');

check_ids('all that was issued while the clock moved', \@seen);
done_testing();
