# Restarts and crashes. An ID that a client has seen is never issued again, even if the
# clock starts again at the same second.
#
# takes: 32 s
# quick
use SnowflakeTest;

# WAL is written late, unless a process flushes it
my $node = start_server('main', "snowflake.shards = '3'",
	'wal_writer_delay = 10s', 'restart_after_crash = on', 'synchronous_commit = off', 'fsync = on',
	'snowflake.max_clock_wait = 60s');
query($node, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
});
$node->stop;

# Each life begins at the same time, so IDs would repeat without the mark. The server
# is stopped while the transaction that made the IDs is open, so only the extension has
# flushed WAL.
my (@seen, @seen_shard);
my $mark = 0;
foreach my $life (1 .. 4)
{
	start_with_clock($node, '@2026-01-01 00:00:00');
	my $found = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
	if ($life > 1)
	{
		cmp_ok($found, '>', epoch_ms($seen[-1]),
			"life $life: the mark is above what was seen");
		cmp_ok($found, '>', ($seen_shard[-1] >> 23) + 1314220021721,
			"life $life: for the shard, too");
	}
	my $session = begin_session($node, 'BEGIN');
	my @shard = split /\n/, $session->query_safe(
		'SELECT snowflake_shard_nextval(3) FROM generate_series(1, 50)');
	my @node = split /\n/, $session->query_safe(q{
		SELECT snowflake_nextval() FROM generate_series(1, 50);
		SELECT snowflake_nextval_batch(50)});
	if ($life > 1)
	{
		cmp_ok(epoch_ms($node[0]), '>=', $found,
			"life $life: IDs begin at the mark");
		cmp_ok(($shard[0] >> 23) + 1314220021721, '>=', $found,
			"life $life: for the shard, too");
	}
	lose_power($node);
	eval { $session->quit };
	push @seen, @node;
	push @seen_shard, @shard;
}
check_ids('four lives that begin at the same time', \@seen);
check_ids('the same for a shard', \@seen_shard);

# under load, with the real clock
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/load.sql",
	"INSERT INTO t SELECT FROM generate_series(1, 3) RETURNING id;\n" x 200000);
$node->start;
foreach my $round (1 .. 5)
{
	my @clients;
	foreach my $i (1 .. 4)
	{
		my $out = "$dir/out.$round.$i";
		my $h = IPC::Run::start(
			[ 'psql', '-XAtq', '-d', $node->connstr('postgres') ],
			'<', "$dir/load.sql", '>', $out, '2>', "$dir/err");
		push @clients, [ $h, $out ];
	}
	$node->poll_query_until('postgres',
		"SELECT count(*) > $round * 1000 FROM t") or die 'no load';
	if ($round % 2) { lose_power($node) }
	else { $node->stop('immediate') }
	my @sessions;
	foreach my $client (@clients)
	{
		$client->[0]->finish;

		# the last line may be incomplete
		push @sessions, [ slurp_file($client->[1]) =~ /^(\d+)\n/mg ];
	}
	my $max = check_ids("round $round under load", @sessions);
	$node->start;
	cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', $max,
		'after the crash, IDs go on above all that were seen');
	cmp_ok(query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark'), '>=',
		epoch_ms($max), 'the mark is above them');
}

# a killed process takes all others with it, and no ID comes again
my $before = query($node, 'SELECT snowflake_nextval()');
crash($node, 'checkpointer');
cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', $before,
	'after the crash of a process');

# clean restarts
foreach my $mode (qw(fast smart))
{
	$before = query($node, 'SELECT snowflake_nextval()');
	$node->stop($mode);
	$node->start;
	cmp_ok(query($node, 'SELECT snowflake_nextval()'), '>', $before,
		"after a $mode shutdown");
}

is(query($node, 'SELECT count(*) = count(DISTINCT id) FROM t'), 't',
	'no duplicate in the table');

# No ID lies beyond the mark.
set_conf($node, 'snowflake.reserve = 100ms');
$node->poll_query_until('postgres',
	"SELECT current_setting('snowflake.reserve') = '100ms'") or die;
is( query($node, q{
		DO $$
		DECLARE
			id bigint;
			end_ms bigint;
			mark bigint;
			rounds integer := 0;
		BEGIN
			WHILE clock_timestamp() < statement_timestamp() + interval '2 s'
				OR rounds <= 100 LOOP
				id := snowflake_nextval();
				SELECT last_value INTO mark FROM snowflake_state.snowflake_mark;
				end_ms := extract(epoch FROM snowflake_timestamp(id)) * 1000 + 1;
				IF end_ms > mark THEN
					RAISE 'ID % is beyond the mark %', id, mark;
				END IF;
				rounds := rounds + 1;
			END LOOP;
			PERFORM set_config('test.rounds', rounds::text, false);
		END $$;
		SELECT current_setting('test.rounds')::integer > 100}),
	't', 'no ID lies beyond the mark');

# While a session locks the mark's sequence, the mark cannot move. IDs are made up to
# the mark and no further. This also holds in a session that does not try to move the
# mark.
my ($holder, $mover, $other) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
foreach my $session ($mover, $other)
{
	$session->query('SELECT snowflake_nextval()');
	$session->query("SET statement_timeout = '500ms'");
}
$mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
$holder->query('BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
$node->poll_query_until('postgres',
	"SELECT extract(epoch FROM clock_timestamp()) * 1000 > $mark")
  or die 'the clock does not reach the mark';
foreach my $session ($mover, $other)
{
	my ($id) = $session->query('SELECT snowflake_nextval()');
	unlike($id || '', qr/^\d+$/, 'nothing is issued beyond a mark that cannot be moved');
	$session->{stderr} = '';
}
$holder->query('ROLLBACK');
$other->query('RESET statement_timeout');
like($other->query('SELECT snowflake_nextval()'), qr/^\d+$/,
	'when it can be, it goes on');
$_->quit foreach ($holder, $mover, $other);

# A session that may not look up the durable numbers yet finds them later.
{
	my ($looker, $locker) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;

	$looker->query_safe(q{
		SELECT count(*) FROM pg_depend WHERE classid = 1255 AND objid = 1;
		SELECT snowflake_timestamp(1, 'snowflake');
		PREPARE p AS SELECT snowflake_nextval();
		SET lock_timeout = '200ms'});
	$locker->query_safe('BEGIN; LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE');
	$looker->query('EXECUTE p');
	like($looker->{stderr}, qr/canceling statement due to lock timeout/, 'the catalogue is locked');
	$looker->{stderr} = '';
	$locker->query_safe('ROLLBACK');
	like($looker->query('EXECUTE p'), qr/^\d+$/, 'when it is not, a call goes on')
	  or diag($looker->{stderr});
	$looker->{stderr} = '';
	$_->quit foreach $looker, $locker;
}

$node->stop;
done_testing();
