# What settles a number: the last pair of the list, and no earlier one. Standbys that die,
# lose their signal file, change their number or cannot write, and what an administrator
# does on them. The table is in src/invariants.md, "Copies of a data directory".
#
# takes: 35 s
use SnowflakeTest;
use Fcntl qw(:DEFAULT :flock);
use Load;
use POSIX qw(mkfifo);
use Rivals;

my $shard = 'SELECT snowflake_shard_nextval(3)';
my $is_copy = qr/SF401: this data directory is a copy of another server's/;
my $runs = qr/is a copy of another server's\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id \d+/s;
my $has_same = qr/another server with these data has the node id or shards of this one\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id 1/s;
my $says = q{SELECT status || ' ' || found FROM snowflake_status() WHERE check_name = 'node id'};

# Let a file of a server not be written, as on a full disk. Return what makes room.
sub fill_disk
{
	my ($node, $file) = @_;
	chomp(my $last = qx(echo \$\$));
	my @in_the_way = map { $node->data_dir . "/$file.$_.tmp" } $last .. $last + 2000;

	mkdir $_ or die "$_: $!" foreach @in_the_way;
	return sub { rmdir $_ or die "$_: $!" foreach @in_the_way };
}

# Let a process stop where it writes a file of a server. Return what waits until it is
# there, and what lets it go on: then it fails.
sub hold_write
{
	my ($node, $pid, $file) = @_;
	my $name = $node->data_dir . "/$file.$pid.tmp";

	mkfifo($name, 0600) or die "$name: $!";
	sysopen(my $pipe, $name, O_RDWR | O_NONBLOCK) or die "$name: $!";
	1 while syswrite($pipe, '-' x 4096);
	return (
		sub {
			wait_until(sub { grep { (readlink // '') eq $name } glob "/proc/$pid/fd/*" }, "process $pid to open $name");
		},
		sub {
			unlink $name;
			sysread($pipe, my $rest, 1 << 20);
		});
}

# Return the checksum of a file's content, which stands behind it.
sub crc32c
{
	my ($bytes) = @_;
	my $crc = 0xffffffff;

	foreach my $byte (unpack 'C*', $bytes)
	{
		$crc ^= $byte;
		$crc = $crc & 1 ? $crc >> 1 ^ 0x82f63b78 : $crc >> 1 foreach 1 .. 8;
	}
	return pack 'L', $crc ^ 0xffffffff;
}

# Give a running server shards, and wait until they are there.
sub give_shards
{
	my ($node, $shards) = @_;

	set_conf($node, "snowflake.shards = '$shards'");
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.shards') = '$shards'") or die 'no reload';
	return;
}

# Give a running server a number, and wait until it is there.
sub give
{
	my ($node, $number) = @_;

	set_conf($node, "snowflake.node_id = '$number'");
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '$number'") or die 'no reload';
	return;
}

my $primary = start_server('primary', 'max_wal_senders = 10', "snowflake.shards = ''");
$primary->backup('backup');

# ---- a standby that dies before its recovery begins ----

my $early = server_from('early', $primary, 'backup', [], has_streaming => 1);
my $wal = $early->data_dir . '/pg_wal';
my $signal = $early->data_dir . '/standby.signal';
foreach my $try (1, 2)
{
	rename($wal, "$wal.away") or die "$wal: $!";
	fails_to_start($early, '', qr/required WAL directory "pg_wal" does not exist/, "it dies, $try");
	rename("$wal.away", $wal) or die "$wal: $!";
}
ok(-e $early->data_dir . "/$marker", 'when it has its marker');
unlink $signal or die "$signal: $!";
foreach my $start ('first', 'second')
{
	like(started($early), $is_copy, "then it loses its signal file: $start start");
	refused($early, $next, '55000', $runs, 'and is refused');
	$early->stop;
}

# ---- the number of a promoted standby ----

my $standby = server_from('standby', $primary, 'backup', ["snowflake.node_id = '1'"], has_streaming => 1);
$standby->start;
give($standby, 3);
$standby->promote;
foreach my $when ('before its first ID', 'after it')
{
	set_conf($standby, "snowflake.node_id = '1'");
	ok($standby->poll_query_until('postgres', q{SELECT found ~ 'refused: Another server with these data runs now, and has taken node id 1'
		FROM snowflake_status() WHERE check_name = 'node id'}), "$when, no reload gives a promoted standby the number of a server that runs");
	is(query($standby, 'SELECT snowflake_node(snowflake_nextval())'), '3', 'it keeps its own');
	give($standby, 3);
}
$standby->restart;
$standby->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$standby->stop;
like(started($standby), $is_copy, 'nor does a restart, though it began with that number');
refused($standby, $next, '55000', $runs, 'which is refused');
$standby->append_conf('postgresql.conf', "snowflake.node_id = '3'");
$standby->stop;
unlike(started($standby), $is_copy, 'with its own number it goes on');
like(query($standby, $next), qr/^\d+$/, 'and makes IDs');

# a reload brings shards, long after the promotion
give($standby, 4);
$standby->restart;
give_shards($standby, '3');
like(query($standby, $shard), qr/^\d+$/, 'shards of a promoted standby are its own');

# a standby of it has the number of the first server
my $second = standby_of($standby, 'second', "snowflake.node_id = '1'");
like(started($second), qr/SF504: this standby has node id 1, and so has a server that it was copied from/,
	'a server that its primary was copied from counts');
$second->stop;

# ---- a list that cannot be written at first ----

my $full = server_from('full', $primary, 'backup', ["snowflake.node_id = '5'"], has_streaming => 1);
my $make_room = fill_disk($full, $record);
like(started($full), qr/SF403: could not write file "$record"/, 'a standby that cannot write its list starts');
$make_room->();
query($full, 'SELECT count(*) FROM snowflake_status()');
$full->backup('full');
my $copy = server_from('of_full', $full, 'full', []);
like(started($copy), $is_copy, 'and writes it later: a copy knows');
refused($copy, $next, '55000', $runs, 'and is refused');
$copy->stop;

# ---- a list that cannot be written when it is accepted ----

$full->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$full->restart;
$full->promote;
refused($full, $next, '55000', $has_same, 'a promoted standby does not make the IDs that its primary makes');
like(query($full, $says), qr/^error 1 is configured, and/, '... as the status says');
$primary->stop;
ok($full->poll_query_until('postgres', 'SELECT snowflake_nextval() > 0'), '... until that ends, and needs nobody for it');
like(query($full, $says), qr/^warning 1 is configured, and/, 'a promoted standby with the number of its primary');
$make_room = fill_disk($full, $record);
my (undef, undef, $err) = $full->psql('postgres', $accept);
like($err, qr/ERROR:  could not create file "$record/, 'which cannot be accepted');
$make_room->();
$full->stop;
unlike(started($full), $is_copy, 'is no copy after that');
like(query($full, $next), qr/^\d+$/, 'and makes IDs');
$full->psql('postgres', $accept);
is(query($full, $says), 'ok 1 is configured', 'until it is accepted');
$full->stop;

# ---- what a server has had stays its own until it ends ----

my $owner = start_server('owner', 'max_wal_senders = 10', "snowflake.node_id = '11'");
query($owner, load_tables());
$owner->backup('owner');
query($owner, $next);
give($owner, 12);
give($owner, 15);
my $after = server_from('after', $owner, 'owner', ["snowflake.node_id = '12'"]);
my @entries = map { open(my $file, '<', $_) or die "$_: $!"; flock($file, LOCK_EX) or die "$_: $!"; $file } glob '/dev/shm/snowflake.*';
$after->start;
refused($after, "SET statement_timeout = '1s'; $next", '57014', qr/statement timeout/, 'nothing is taken while a process has the entries locked');
close $_ foreach @entries;
refused($after, $next, '55000', qr/and has taken node id 12/, 'a node id that a reload took away');
$after->stop;

# an accept that fails
my $failing = server_from('failing', $primary, 'backup', [ "snowflake.node_id = '1'", "snowflake.copy_check = 'error'" ]);
$failing->start;
$make_room = fill_disk($failing, $record);
(undef, undef, $err) = $failing->psql('postgres', $accept);
like($err, qr/ERROR:  could not create file "$record/, 'an accept that fails');
$make_room->();
refused($failing, $next, '55000', qr/may have node id 1, too/, '... changes nothing');
$failing->stop;

# ---- a first call that takes the node while a reload decides ----

my $other = server_from('other', $owner, 'owner', ["snowflake.node_id = ''"]);
$other->start;
give($other, 16);
my ($wait, $go_on) = hold_write($other, (split /\n/, slurp_file($other->data_dir . '/postmaster.pid'))[0], $record);
my ($first, $watch) = map { $other->background_psql('postgres', on_error_stop => 0) } 1, 2;
set_conf($other, "snowflake.node_id = '19'");
$wait->();
$first->query_until(qr//, "$next;\n");
wait_until(sub { $watch->query("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE query = '$next;'") eq 't' },
	'a first call that takes the last node id');
my $taker = server_from('taker', $owner, 'owner', ["snowflake.node_id = '19'"]);
unlink glob '/dev/shm/snowflake.*';
$taker->start;
$go_on->();
refused($other, "SET statement_timeout = '60s'; $next", '55000', qr/and has taken node id 19/,
	'calls after that do not hang, but are refused what another server has taken meanwhile');
query($owner, 'SELECT count(*) FROM snowflake_status()');	# it takes its numbers again
$_->quit foreach $first, $watch;
$_->stop foreach $other, $taker;

# ---- shards that a copy has, for its original ----

my $of_6 = 'SELECT snowflake_shard_nextval(6)';
my $rivals = Rivals->new;
my $of_owner = server_from('of_owner', $owner, 'owner', [ "snowflake.node_id = '17'", "snowflake.shards = '6-7'", "snowflake.copy_check = 'warn'" ]);
$of_owner->start;
query($of_owner, $accept);
$rivals->begin($of_owner);
give_shards($owner, '6-7,5');
refused($owner, $of_6, '55000',
	qr/another server with these data has the node id or shards of this one\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken shard 6: it keeps that until it is stopped\./s,
	'a reload that brings it to the original is refused it');
like_log($owner, qr/SF401: another server with these data has the node id or shards of this one\n/, 0, 'the log says so');
like(query($owner, 'SELECT snowflake_shard_nextval(5)'), qr/^\d+$/, '... but not what it has had');
is(query($owner, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'error', '... and a check');
refused($owner, $accept, '55000', qr/and has taken shard 6:/, '... nor can it be accepted');
$owner->restart;
$rivals->does($owner, 'ids', 'refused', 'a restart does not bring it');
give_shards($owner, '5');
is(query($owner, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'ok', 'a reload takes it away');
give_shards($owner, '6-7,5');
$rivals->end($of_owner, 'the copy ends');
$of_owner->stop;
refused($owner, $of_6, '55000', qr/and has taken shard 6: it keeps that until it is stopped/, 'its original takes nothing by itself');
query($owner, $accept);
like(query($owner, $of_6), qr/^\d+$/, '... until that is accepted');
$rivals->begin($owner);
$of_owner->start;
$rivals->does($of_owner, 'ids', 'refused', 'a copy that had accepted it before');
$of_owner->stop;
$rivals->end($owner, 'the original ends');

# ---- a server that starts when a copy has its numbers ----

$owner->stop;
$of_owner->append_conf('postgresql.conf', "snowflake.node_id = '15'");
$of_owner->start;
$rivals->begin($of_owner);
like(started($owner), qr/SF401: another server with these data has the node id or shards of this one\n.*DETAIL:  It was seen running on this machine: .* The server of process \d+ runs now, and has taken node id 15: no IDs/,
	'an original that starts later');
$rivals->does($owner, 'refused', 'refused', '... is refused what its copy makes');
$rivals->end($of_owner, 'the copy ends');
$of_owner->stop;
$owner->restart;
$rivals->does($owner, 'ids', 'ids', 'a restart without the copy');
$rivals->check;

# ---- a standby gets shards of its primary by a reload, and both run after its promotion ----

my $heir = standby_of($owner, 'heir', "snowflake.node_id = '18'", "snowflake.shards = ''");
$heir->start;
give_shards($heir, '6');
$owner->wait_for_catchup($heir, 'replay');
$heir->promote;
refused($heir, $of_6, '55000', qr/and has taken shard 6:/, 'a promoted standby makes none of a shard that its primary makes');
$owner->stop;
ok($heir->poll_query_until('postgres', 'SELECT snowflake_shard_nextval(6) > 0'), '... until that ends');
$owner->start;
refused($owner, $of_6, '55000', qr/and has taken shard 6:/, 'which its primary does not have after a restart');
like(query($owner, $next), qr/^\d+$/, '... that has another node id');
$_->stop foreach $heir, $owner;

# ---- a reload brings shards to a copy ----

my $of_7 = 'SELECT snowflake_shard_nextval(7)';
$copy = server_from('shards', $primary, 'backup', [ "snowflake.node_id = '7'", "snowflake.copy_check = 'warn'" ]);
unlike(started($copy), $is_copy, 'a copy without shards, and with a number of its own');
give_shards($copy, '7');
query($copy, $of_7);
like_log($copy, qr/$is_copy\n.*DETAIL:  It comes from a backup/, 0, 'the first call for the shards that a reload brings says so');
$copy->stop;

# those that a server that runs has are refused, and no others
$primary->append_conf('postgresql.conf', "snowflake.shards = '7'");
$primary->start;
$copy->append_conf('postgresql.conf', "snowflake.shards = '7,8'");
like(started($copy), qr/$is_copy\n/, 'beside its original');
my $has_shard = qr/DETAIL:  Another server with these data was seen running on this machine, and has taken shard 7: .*\n/;
refused($copy, $of_7, '55000', $has_shard, 'its shards are refused');
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'error', 'which is an error');
refused($copy, $accept, '55000', qr/another server with these data runs\n.*DETAIL:  That server runs on this machine, and has taken shard 7:/s,
	'and cannot be accepted');
like(query($copy, "SELECT $_"), qr/^\d+$/, "but not $_") foreach 'snowflake_nextval()', 'snowflake_shard_nextval(8)';
$primary->stop;
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'error', 'while that is down for a restart');
refused($copy, $of_7, '55000', $has_shard, '... it does not take them');
$copy->stop;
$primary->append_conf('postgresql.conf', "snowflake.shards = ''");
$primary->start;
give_shards($primary, '8');
$copy->start;
like(query($copy, $of_7), qr/^\d+$/, 'the other server has other ones');
my $hint = refused($copy, 'SELECT snowflake_shard_nextval(8)', '55000', qr/and has taken shard 8/, 'which it has by a reload');
like($hint, qr/HINT:  If another server may have one of the shards in snowflake\.shards, choose shards that no other server has, and add .*\n.*\nand restart this server\. Once no other server has any of them, run as a superuser: SELECT public\.snowflake_accept\('copy'::pg_catalog\.text\);/,
	'the HINT speaks of shards');
refused($copy, 'SELECT snowflake_shard_nextval(9)', '55000', qr/may not issue IDs for shard 9\n/, 'one that it does not have is no matter of copies');
set_conf($copy, "snowflake.shards = '7'");
$copy->restart;
query($copy, $accept);
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'ok', 'typed, it ends that');
$copy->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$copy->stop;
like(started($copy), qr/$is_copy\n/, 'who accepts numbers of its own has not accepted those of its original');
refused($copy, $next, '55000', qr/was seen running on this machine, and has taken node id 1/, '... which are refused');
$copy->stop;

# ---- another system identifier, as pg_createsubscriber gives ----

my $subscriber = server_from('subscriber', $primary, 'backup', [], has_streaming => 1);
$subscriber->start;
$subscriber->promote;
$subscriber->stop;
my $control = $subscriber->data_dir . '/global/pg_control';
my $content = slurp_file($control);
my ($length) = grep { crc32c(substr($content, 0, $_)) eq substr($content, $_, 4) } map { 4 * $_ } 50 .. 200;
my $changed = pack('Q', 42) . substr($content, 8, $length - 8);
unlink $control or die "$control: $!";
append_to_file($control, $changed . crc32c($changed) . substr($content, $length + 4));
command_ok([ 'pg_resetwal', $subscriber->data_dir ], 'a promoted standby gets another system identifier');
$subscriber->start;
refused($subscriber, $next, '55000', $has_same, 'it still sees the server that it was copied from');
like(query($subscriber, $says), qr/^error 1 is configured, and .* which was seen running/, '... as the status says');
refused($subscriber, $accept, '55000', qr/cannot accept this copy while another server with these data runs/, 'and cannot be accepted while that runs');
$_->stop foreach $subscriber, $standby, $primary;
done_testing();
