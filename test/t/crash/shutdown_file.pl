# The note of a clean shutdown: the next start does not wait for the mark, and
# believes the note only where it is sure.
#
# takes: 10 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use File::Copy;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

# The mark is a minute ahead, and no call waits for it: so a start that does
# not believe the note refuses, until the clock is moved ahead.
my $node = new_server('main', "snowflake.shards = '3'",
	'snowflake.reserve = 60s', 'snowflake.max_clock_wait = 0',
	'checkpoint_timeout = 1h', 'autovacuum = off');
my $note = $node->data_dir . '/snowflake.note';
my $kept = $node->basedir . '/kept';
my $behind = qr/wall clock is .* behind the mark of this database/;
my $next = 'SELECT snowflake_nextval()';
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

# Two minutes later any mark is behind the clock.
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

start();
query($node, 'CREATE EXTENSION snowflake');
query($node, 'CREATE DATABASE other TEMPLATE postgres');
goes_on('at first');
ok(!-e $note, 'a running server has no note');

# it is of use, and once
foreach my $mode ('fast', 'smart')
{
	$node->stop($mode);
	ok(-e $note, "a $mode shutdown leaves a note");
	start();
	ok(!-e $note, 'which is gone once the server has started');
	goes_on("after a $mode shutdown");
}

# IDs that follow a note lie under the old mark, and leave no trace: so after a
# crash no note may be believed, not even one that somebody has kept. There was
# no checkpoint since, so only the state in pg_control tells.
$node->stop;
copy($note, $kept) or die;
start();
goes_on('after a clean shutdown');
my $mark = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
cmp_ok(epoch_ms($last), '<', $mark, 'under the old mark');
$node->stop('immediate');
ok(!-e $note, 'a crash leaves no note');
copy($kept, $note) or die;
start();
refused($node, $next, '58000', $behind, 'after a crash, a note is not believed');
later();
goes_on('after a crash, when the clock has reached the mark');

# Nor that of an older shutdown, after which IDs were made under the same mark.
$node->stop;
copy($note, $kept) or die;
start();
goes_on('under the same mark');
$node->stop;
copy($kept, $note) or die;
start();
refused($node, $next, '58000', $behind, 'nor that of another shutdown');
later();
goes_on('later');

# a server that is killed while it starts again leaves none either
$node->stop;
start();
$node->stop('immediate');
start();
refused($node, $next, '58000', $behind, 'a note serves one start');
later();
goes_on('later');

# a mark that is not what it was
query($node, "SELECT setval('snowflake_state.snowflake_mark', $mark + 600000)");
my $setval = query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark');
cmp_ok($setval, '>', $mark, 'somebody has moved the mark');
$node->stop;
start();
refused($node, $next, '58000', $behind, 'nor for a mark that was changed since');
$offset += 600;
later();
goes_on('later');

# A database that was not loaded in the life that ended: the counters knew
# nothing of it.
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

# a damaged one
foreach my $damage ('x', 'cut')
{
	goes_on('before');
	$node->stop;
	if ($damage eq 'cut')
	{
		truncate($note, (-s $note) - 8) or die;
	}
	else
	{
		open(my $fh, '+<', $note) or die;
		seek($fh, 60, 0);
		print $fh $damage;
		close $fh;
	}
	my $from = -s $node->logfile;
	start();
	like_log($node, qr/ignoring file "snowflake.note", which is damaged/, $from,
		'the log tells of a damaged note');
	ok(!-e $note, 'which is gone');
	refused($node, $next, '58000', $behind, 'and is not believed');
	later();
	goes_on('later');
}

# Another configuration: other IDs may lie below the mark.
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.epoch = '2023-01-01'");
start();
query($node, 'SELECT snowflake_accept_configuration()');
refused($node, $next, '58000', $behind, 'nor under another configuration');
later();
like(query($node, $next), qr/^\d+$/, 'later, it goes on');
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.epoch = ''");
start();
query($node, 'SELECT snowflake_accept_configuration()');
later();
like(query($node, $next), qr/^\d+$/, 'and back');

# A copy of the stopped server becomes a standby: the primary goes on under the
# old mark, so what the note says is not true of what the standby will be.
query($node, 'CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
$node->stop;
$node->backup_fs_cold('cold');
ok(-e $node->backup_dir . '/cold/snowflake.note', 'the copy has the note');
start();
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'cold', has_streaming => 1);
start_with_clock($standby, "+$offset");
ok(!-e $standby->data_dir . '/snowflake.note', 'a standby takes the note away');
$last = query($node, 'INSERT INTO t SELECT FROM generate_series(1, 100) RETURNING id')
  =~ s/.*\n//sr;
$node->wait_for_catchup($standby, 'replay');
$node->stop('immediate');
$standby->promote;
refused($standby, $next, '58000', $behind, 'and does not believe it');
$offset += 120;
set_clock($standby, "+$offset");
cmp_ok(query($standby, $next), '>', $last, 'when it is promoted, IDs go on');
$standby->stop;

# The same for a recovery from an archive. Its WAL is all there.
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
