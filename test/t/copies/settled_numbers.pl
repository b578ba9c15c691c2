# What settles a number: the last pair of the list, and no earlier one. Standbys that die,
# lose their signal file, change their number or cannot write, and what an administrator
# does on them. The table is in src/invariants.md, "Copies of a data directory".
#
# takes: 35 s
use SnowflakeTest;
use Fcntl;
use Load;
use POSIX qw(mkfifo);
use Rivals;

my $shard = 'SELECT snowflake_shard_nextval(3)';
my $claim = 'global/pgsql_tmp/snowflake_claim';
my %held;
my $is_copy = qr/SF401: this data directory is a copy of another server's/;
my $runs = qr/is a copy of another server's\n.*DETAIL:  Another server with these data was seen running on this machine, and has node id \d+, too/s;
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

# Let a process stop where it has opened a file of a server to write it. Return what waits
# until it is there, and what lets it go on: then it fails, or has written the content that
# is given.
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
			my ($content) = @_;

			unlink $name;
			append_to_file($name, $content) if defined $content;
			sysread($pipe, my $rest, 1 << 20);
			$held{$name} = $pipe;
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

# Return the node id in a server's claim, or '' if there is none.
sub claimed
{
	my ($node) = @_;
	my $number = unpack 'x16 L', slurp_file($node->data_dir . "/$claim");
	return $number == 0 ? '' : $number - 1;
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
	ok($standby->poll_query_until('postgres', q{SELECT found ~ 'refused: Another server with these data runs now, and has node id 1'
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
query($full, $next);
$primary->stop;
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

# ---- a claim that cannot be written at first ----

my $copy_alone = server_from('unclaimed', $primary, 'backup', ["snowflake.copy_check = 'warn'"]);
mkdir $copy_alone->data_dir . '/global/pgsql_tmp' or die $!;
$make_room = fill_disk($copy_alone, $claim);
like(started($copy_alone), $is_copy, 'a copy beside no server');
$make_room->();
query($copy_alone, $next);
ok(-e $copy_alone->data_dir . "/$claim", 'lets others see that it makes IDs, once it can');
$copy_alone->stop;

# ---- a claim that cannot be written later, or is written late ----

my $owner = start_server('owner', 'max_wal_senders = 10', "snowflake.node_id = '11'");
query($owner, load_tables());
$owner->backup('owner');
my $postmaster = (split /\n/, slurp_file($owner->data_dir . '/postmaster.pid'))[0];
query($owner, $next);
my $in_the_way = $owner->data_dir . "/$claim.$postmaster.tmp";
mkdir $in_the_way or die $!;
give($owner, 12);
rmdir $in_the_way or die $!;
wait_until(sub { query($owner, $next); claimed($owner) eq 12 }, 'the claim');
pass('calls for a node id whose claim a reload could not write do so');
$owner->append_conf('postgresql.conf', "snowflake.node_id = '13'");
mkdir $in_the_way or die $!;
give_shards($owner, 5);
is(claimed($owner), 12, 'nor could a reload of shards');
rmdir $in_the_way or die $!;
wait_until(sub { query($owner, 'SELECT snowflake_shard_nextval(5)'); claimed($owner) eq 13 }, 'the claim of shards');
pass('... which calls for shards do');

# a session that writes what the postmaster has changed since
mkdir $in_the_way or die $!;
give($owner, 14);
rmdir $in_the_way or die $!;
my $late = $owner->background_psql('postgres');
my $pid = $late->query('SELECT pg_backend_pid()');
my ($wait, $go_on) = hold_write($owner, $pid, $claim);
$late->query_until(qr//, "$next;\n");
$wait->();
give($owner, 15);
is(claimed($owner), 15, 'a reload brings a node id while a session writes the last one');
my $written = slurp_file($owner->data_dir . "/$claim");
substr($written, 16, 4) = pack 'L', 14 + 1;
substr($written, -4) = crc32c(substr($written, 0, -4));
$go_on->($written);
$late->query('SELECT 1');
is(claimed($owner), 15, '... which writes again');
$late->quit;

# an accept that fails
my $failing = server_from('failing', $primary, 'backup', [ "snowflake.node_id = '1'", "snowflake.copy_check = 'error'" ]);
$failing->start;
is(claimed($failing), '', 'a copy claims nothing that it refuses');
$make_room = fill_disk($failing, $record);
(undef, undef, $err) = $failing->psql('postgres', $accept);
like($err, qr/ERROR:  could not create file "$record/, 'nor');
is(claimed($failing), '', '... after an accept that failed');
$make_room->();
$failing->stop;

# ---- a first call that takes the node while a reload decides ----

my $other = server_from('other', $owner, 'owner', ["snowflake.node_id = ''"]);
$other->start;
give($other, 16);
($wait, $go_on) = hold_write($other, (split /\n/, slurp_file($other->data_dir . '/postmaster.pid'))[0], $claim);
my $first = $other->background_psql('postgres');
$first->query('SELECT 1');
set_conf($other, "snowflake.node_id = '15'");
$wait->();
is($first->query('SELECT snowflake_node(snowflake_nextval())'), '16', 'a first call takes the last node id');
$go_on->();
$first->quit;
$other->poll_query_until('postgres', q{SELECT current_setting('snowflake.node_id') = '15'}) or die 'no reload';
refused($other, "SET statement_timeout = '60s'; $next", '55000', qr/and has node id 15, too/, 'calls after that do not hang, but are refused');
$other->stop;

# ---- shards that a copy has, for its original ----

my $of_6 = 'SELECT snowflake_shard_nextval(6)';
my $rivals = Rivals->new;
my $of_owner = server_from('of_owner', $owner, 'owner', [ "snowflake.node_id = '17'", "snowflake.shards = '6-7'", "snowflake.copy_check = 'warn'" ]);
$of_owner->start;
query($of_owner, $accept);
$rivals->begin($of_owner);
give_shards($owner, '6-7,5');
refused($owner, $of_6, '55000',
	qr/another server with these data has the node id or shards of this one\n.*DETAIL:  Another server with these data was seen running on this machine, and has shard 6, too\./s,
	'a reload that brings it to the original is refused it');
like_log($owner, qr/SF401: another server with these data has the node id or shards of this one\n/, 0, 'the log says so');
like(query($owner, 'SELECT snowflake_shard_nextval(5)'), qr/^\d+$/, '... but not what it has had');
is(query($owner, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'error', '... and a check');
refused($owner, $accept, '55000', qr/and has shard 6, too:/, '... nor can it be accepted');
$owner->restart;
$rivals->does($owner, 'ids', 'refused', 'a restart does not bring it');
give_shards($owner, '5');
is(query($owner, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'ok', 'a reload takes it away');
give_shards($owner, '6-7,5');
$rivals->end($of_owner, 'the copy ends');
$of_owner->stop;
refused($owner, $of_6, '55000', qr/and has shard 6, too\./, 'it is refused while nobody decides anew');
query($owner, $accept);
like(query($owner, $of_6), qr/^\d+$/, 'until it is accepted');
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
like(started($owner), qr/SF401: another server with these data has the node id or shards of this one\n.*DETAIL:  It was seen running on this machine: .* The server in ".*of_owner.*" runs now, and has node id 15: no IDs/,
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
foreach my $when ('it has them', 'also after a restart')
{
	like(query($heir, $of_6), qr/^\d+$/, "a promoted standby: $when");
	$heir->restart;
}
$owner->restart;
refused($owner, $of_6, '55000', qr/and has shard 6, too\./, 'which its primary does not have after a restart');
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
my $has_shard = qr/DETAIL:  Another server with these data was seen running on this machine, and has shard 7, too\.\n/;
refused($copy, $of_7, '55000', $has_shard, 'its shards are refused');
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'error', 'which is an error');
refused($copy, $accept, '55000', qr/another server with these data runs\n.*DETAIL:  That server runs on this machine, and has shard 7, too:/s,
	'and cannot be accepted');
like(query($copy, "SELECT $_"), qr/^\d+$/, "but not $_") foreach 'snowflake_nextval()', 'snowflake_shard_nextval(8)';
$copy->stop;
give_shards($primary, '8');
$copy->start;
like(query($copy, $of_7), qr/^\d+$/, 'a reload has brought the other server other ones');
my $hint = refused($copy, 'SELECT snowflake_shard_nextval(8)', '55000', qr/and has shard 8, too/, 'which it has now');
like($hint, qr/HINT:  If another server may have one of the shards in snowflake\.shards, choose shards that no other server has, and add .*\n.*\nand restart this server\. Once no other server has any of them, run as a superuser: SELECT public\.snowflake_accept\('copy'\);/,
	'the HINT speaks of shards');
refused($copy, 'SELECT snowflake_shard_nextval(9)', '55000', qr/may not issue IDs for shard 9\n/, 'one that it does not have is no matter of copies');
set_conf($copy, "snowflake.shards = '7'");
$copy->restart;
query($copy, $accept);
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}), 'ok', 'typed, it ends that');
$copy->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$copy->stop;
like(started($copy), qr/$is_copy\n/, 'who accepts numbers of its own has not accepted those of its original');
refused($copy, $next, '55000', qr/was seen running on this machine, and has node id 1, too/, '... which are refused');
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
query($subscriber, $next);
like(query($subscriber, $says), qr/^error 1 is configured, and .* which runs now/, 'it still sees the server that it was copied from');
refused($subscriber, $accept, '55000', qr/cannot accept this copy while another server with these data runs/, 'and cannot be accepted while that runs');
$_->stop foreach $subscriber, $standby, $primary;
done_testing();
