# The shutdown file: after a shutdown, also an immediate one, the next start does not
# wait for the mark. The file is believed only if that is safe.
#
# takes: 25 s
use SnowflakeTest;
use File::Copy;
use Time::HiRes qw(usleep);

# The mark is one minute ahead, and no call waits. So if a start does not believe the
# file, calls are refused until the clock is moved ahead.
my $node = new_server('main', "snowflake.shards = '3'",
	'snowflake.reserve = 60s', 'snowflake.max_clock_wait = 0',
	'restart_after_crash = on', 'checkpoint_timeout = 1h', 'autovacuum = off');
my $file = $node->data_dir . '/snowflake.shutdown';
my $kept = $node->basedir . '/kept';
my $behind = qr/wall clock is .* behind the mark of this database/;
my $shard = 'SELECT snowflake_shard_nextval(3)';
my ($last, $last_shard) = (0, 0);
my $offset = 0;

sub goes_on
{
	my ($name, %options) = @_;
	my ($id, $shard_id) = split /\n/, query($node, "$next; $shard", %options);

	cmp_ok($id, '>', $last, "$name: IDs go on");
	cmp_ok($shard_id, '>', $last_shard, "$name: for a shard, too");
	($last, $last_shard) = ($id, $shard_id);
	return;
}

# Move the clock ahead by two minutes, behind which any mark lies.
sub later
{
	$offset += 120;
	set_clock($node, "+$offset");
	return;
}

sub start
{
	start_with_clock($node, "+$offset");
	return;
}

# Kill the postmaster alone, and wait until all its children have ended. No client is
# connected.
sub kill_postmaster
{
	my ($group) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @children = split ' ', slurp_file("/proc/$group/task/$group/children");

	$node->kill9;
	foreach my $pid ($group, @children)
	{
		usleep(10_000) while kill 0, $pid;
	}
	return;
}

start();
query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE DATABASE other TEMPLATE postgres');
goes_on('at first');
ok(!-e $file, 'a running server has no shutdown file');

# Each life goes on under the mark that it found, and only the stamp on that mark shows
# which life this was. So a file that was kept from the life before does not count. A
# postmaster that is killed leaves no file.
foreach my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	copy($file, $kept) or die;
	start();
	goes_on("after a $mode shutdown");
	kill_postmaster();
	ok(!-e $file, 'a postmaster that is killed leaves no file');
	copy($kept, $file) or die;
	start();
	refused($node, $next, '58000', $behind, 'and an older one is not believed');
	later();
	goes_on('when the clock has reached the mark');

	$node->stop($mode);
	copy($file, $kept) or die;
	start();
	goes_on('under the same mark');
	$node->stop($mode);
	copy($kept, $file) or die;
	start();
	refused($node, $next, '58000', $behind, 'nor is it after another shutdown');
	later();
	goes_on('later');
}

# the file is used once
foreach my $mode ('fast', 'smart', 'immediate')
{
	$node->stop($mode);
	ok(-e $file, "a $mode shutdown leaves a shutdown file");
	start();
	ok(!-e $file, 'which is gone once the server has started');
	goes_on("after a $mode shutdown");
}

my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
cmp_ok(epoch_ms($last), '<', $mark, 'under the old mark');

# After a crash of any process, the postmaster does not trust the counters.
crash($node, 'checkpointer');
ok(!-e $file, 'a crash leaves no file');
refused($node, $next, '58000', $behind, 'and IDs begin at the mark');
later();
goes_on('later');

# All files are put back to an older state of the database. With the shutdown file of
# that life, IDs begin above the rows. With the file of a later life they begin at the
# mark.
query($node, 'CREATE TABLE own (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
my $own = 'INSERT INTO own DEFAULT VALUES RETURNING id';
query($node, $own);
$node->stop('immediate');
$node->backup_fs_cold('state');
start();
goes_on('after the state that is kept');
$node->stop('immediate');
foreach my $whose ('own', 'later')
{
	my $back = PostgreSQL::Test::Cluster->new("back_$whose");

	$back->init_from_backup($node, 'state');
	copy($file, $back->data_dir . '/snowflake.shutdown') or die if $whose eq 'later';
	start_with_clock($back, "+$offset");
	if ($whose eq 'own')
	{
		# who takes over a number begins a second ahead of the clock
		set_clock($back, '+' . ($offset + 1));
		like(query($back, $own), qr/^\d+$/, 'an older state with its own file goes on');
		is(query($back, 'SELECT count(*) FROM own'), 2, 'with its rows');
	}
	else
	{
		refused($back, $own, '58000', $behind, 'with the file of a later life it does not');
	}
	$back->stop;
}
start();
$offset++;
set_clock($node, "+$offset");
goes_on('the original goes on');

# The clock is set back while the server is down. IDs go on where they ended, all the
# same.
$node->stop('immediate');
start_with_clock($node, '+' . ($offset - 30));
refused($node, $next, '58000', $behind, 'the clock was set back while the server was down');
set_clock($node, "+$offset");
goes_on('when it is right');

# They ended with the last ID of any counter.
set_clock($node, '+' . ($offset + 20));
$last_shard = query($node, $shard);
$node->stop('immediate');
start_with_clock($node, '+' . ($offset + 10));
refused($node, $shard, '58000', $behind, 'the last ID was one of a shard');
$offset += 20;
set_clock($node, "+$offset");
goes_on('for both');

# a server that is stopped while it starts leaves no file
$node->stop;
start();
$node->stop('immediate');
ok(!-e $file, 'a life without an ID leaves no file');
start();
refused($node, $next, '58000', $behind, 'a file serves one start');
later();
goes_on('later');

# A mark that was changed by hand has no stamp. A missing stamp must not match a
# missing shutdown file.
foreach my $end ('stop', 'kill')
{
	$mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
	query($node, "SELECT setval('snowflake_state.snowflake_mark', $mark + 600000)");
	if ($end eq 'stop') { $node->stop }
	else { kill_postmaster() }
	start();
	refused($node, $next, '58000', $behind, "nor for a mark that was changed since: $end");
	$offset += 600;
	later();
	goes_on('later');
}

# A database that was not loaded in the life that ended. The counters of that life were
# not raised above its IDs.
goes_on('in another database', database => 'other');
my $last_other = $last;
$node->stop;
start();
goes_on('only here');
$node->stop;
start();
goes_on('here');
refused($node, $next, '58000', $behind, 'nor for a database that it says nothing of',
	database => 'other');
later();
goes_on('later', database => 'other');

# a damaged file
foreach my $damage ('x', 'cut')
{
	goes_on('before');
	$node->stop;
	if ($damage eq 'cut')
	{
		truncate($file, (-s $file) - 8) or die;
	}
	else
	{
		open(my $fh, '+<', $file) or die;
		seek($fh, 20, 0);
		print $fh $damage;
		close $fh;
	}
	my $from = -s $node->logfile;
	start();
	like_log($node, qr/ignoring file "snowflake.shutdown", which is damaged/, $from,
		'the log tells of a damaged file');
	ok(!-e $file, 'which is gone');
	refused($node, $next, '58000', $behind, 'and is not believed');
	later();
	goes_on('later');
}

# With another configuration, IDs can lie elsewhere below the mark.
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2023-01-01'");
start();
query($node, q{SELECT snowflake_accept('configuration')});
refused($node, $next, '58000', $behind, 'nor under another configuration');
later();
like(query($node, $next), qr/^\d+$/, 'later, it goes on');
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
start();
query($node, q{SELECT snowflake_accept('configuration')});
later();
like(query($node, $next), qr/^\d+$/, 'and back');

# A copy of the stopped server becomes a standby, while the primary goes on under the
# old mark. So the file's statement does not hold for the standby after its promotion.
query($node, 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
$node->stop;
$node->backup_fs_cold('cold');
ok(-e $node->backup_dir . '/cold/snowflake.shutdown', 'the copy has the shutdown file');
start();
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'cold', has_streaming => 1);
start_with_clock($standby, "+$offset");
ok(!-e $standby->data_dir . '/snowflake.shutdown', 'a standby takes the file away');
$last = query($node, 'INSERT INTO t SELECT FROM generate_series(1, 100) RETURNING id')
  =~ s/.*\n//sr;
$node->wait_for_catchup($standby, 'replay');
$node->stop('immediate');
$standby->promote;
refused($standby, $next, '58000', $behind, 'and does not believe it');
$offset += 120;
set_clock($standby, "+$offset");
refused($standby, $next, '58000', qr{wall clock is \d+ ms behind the next ID's timestamp}, 'who takes over a number begins a second ahead of the clock');
$offset++;
set_clock($standby, "+$offset");
cmp_ok(query($standby, $next), '>', $last, 'when it is promoted, IDs go on');
mkdir $standby->data_dir . '/snowflake.shutdown' or die "a directory in the way: $!";
my $from = -s $standby->logfile;
$standby->stop;
like_log($standby, qr/WARNING:  snowflake SF403: could not write file "snowflake\.shutdown"\n.*DETAIL:  After the next start,/,
	$from, 'a file that cannot be written is reported');

# The same for a recovery from an archive that has all the WAL.
my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($node, 'cold');
$recovered->append_conf('postgresql.conf', "restore_command = 'false'");
copy($_, $recovered->data_dir . '/pg_wal') or die "$_: $!"
  foreach glob($node->data_dir . '/pg_wal/0*');
$recovered->set_recovery_mode;
start_with_clock($recovered, '+' . ($offset - 120));
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
  or die 'no end of recovery';
refused($recovered, $next, '58000', $behind,
	'a recovery from an archive does not believe it either');
$recovered->stop;

done_testing();
