# Of servers that have the same data on one machine, one makes the IDs of a node id and of
# shards, whatever happens to their directories, processes and files. One checker has all
# IDs. src/identity/lock.c says how a server takes a number.
#
# takes: 75 s
use SnowflakeTest;
use Fcntl qw(:flock O_NONBLOCK O_RDWR);
use IO::Handle;
use Load;
use POSIX qw(mkfifo);
use PostgreSQL::Test::Cluster;
use Rivals;
use Robot;
use Time::HiRes qw(time);

my $both = 'SELECT snowflake_nextval(), snowflake_shard_nextval(5)';
my $taken = qr/\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id 1: it keeps that until it is stopped\./;
my $status = q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'};
my $rivals = Rivals->new;
my $tmp = PostgreSQL::Test::Utils::tempdir();
my $singles = 0;

sub makes
{
	my ($node, $name) = @_;

	$rivals->does($node, 'ids', 'ids', $name);
	return;
}

sub is_refused
{
	my ($node, $name) = @_;

	$rivals->does($node, 'refused', 'refused', $name);
	return;
}

# Check that a server gets its numbers, and needs nobody for that.
sub gets
{
	my ($node, $name) = @_;

	ok($node->poll_query_until('postgres', 'SELECT snowflake_nextval() > 0 AND snowflake_shard_nextval(5) > 0'), $name);
	return;
}

# Check that a server that was refused at its start gets its numbers at the next one.
sub gets_again
{
	my ($node, $name) = @_;

	is_refused($node, "$name, it takes nothing by itself");
	$node->restart;
	gets($node, "$name, and at its next start");
	return;
}

# Return the file in memory of a server's family.
sub entries
{
	my ($node) = @_;

	return sprintf '/dev/shm/snowflake.%u.%u.%016x', $>, (stat '/proc/self/ns/ipc')[1],
		unpack 'x16 Q', slurp_file($node->data_dir . "/$record");
}

# Give a running server a value of a setting, and wait until it is there.
sub give
{
	my ($node, $setting, $value) = @_;

	set_conf($node, "$setting = '$value'");
	$node->poll_query_until('postgres', "SELECT current_setting('$setting') = '$value'") or die 'no reload';
	return;
}

sub lay_signal
{
	my ($node) = @_;

	append_to_file($node->data_dir . '/standby.signal', '');
	return;
}

sub begin_accept
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres');
	my $pid = $session->query('SELECT pg_backend_pid()');
	my $name = $node->data_dir . "/$record.$pid.tmp";

	# the session writes the list into a full pipe, and waits
	mkfifo($name, 0600) or die "$name: $!";
	sysopen(my $pipe, $name, O_RDWR | O_NONBLOCK) or die "$name: $!";
	my $filled = 0;
	while (my $n = syswrite($pipe, '-' x 4096)) { $filled += $n }
	$session->query_until(qr//, "$accept;\n");
	wait_until { grep { (readlink // '') eq $name } glob "/proc/$pid/fd/*" } 'nobody writes the list';
	return ($session, $name, $pipe, $filled);
}

# Let it go on, and put what it has written into the file.
sub end_accept
{
	my ($session, $name, $pipe, $filled) = @_;

	unlink $name;
	open(my $file, '>', $name) or die "$name: $!";
	$filled -= sysread($pipe, my $rest, $filled) while $filled > 0;
	$session->query('SELECT 1');
	sysread($pipe, my $list, 1 << 20) or die 'nothing was written';
	print $file $list;
	close $file or die $!;
	$session->quit;
	return;
}

# Start a single-user server. Return it, and what runs a query there and returns all output.
sub begin_single
{
	my ($node) = @_;
	my $out = "$tmp/single" . ++$singles;
	my $end = 0;

	append_to_file($out, '');
	open(my $single, '|-', "exec postgres --single -D '" . $node->data_dir . "' postgres >'$out' 2>&1") or die $!;
	$single->autoflush;
	return ($single, sub {
		my ($query) = @_;

		$end++;
		print $single "$query\nSELECT $end AS the_end\n";
		wait_until { slurp_file($out) =~ /the_end = "$end"/ } 'no answer';
		return slurp_file($out);
	});
}

# Return the processes that work in a directory.
sub working_in
{
	my ($dir) = @_;

	return grep { (readlink("/proc/$_/cwd") // '') eq $dir } map { /(\d+)/ } glob '/proc/[0-9]*';
}

my $original = start_server('original', 'max_wal_senders = 20', "snowflake.shards = '5-6'");
my $dir = $original->data_dir;
query($original, load_tables());
$original->backup('base');
my $copy = server_from('copy', $original, 'base', ["snowflake.copy_check = 'warn'"]);
ok(-f entries($original), 'the family has its file');

# ---- a copy that was refused at its start ----

$rivals->begin($original);
$copy->start;
is_refused($copy, 'beside the original');
$rivals->end($original, 'the original restarts');
$original->stop;
is(query($copy, $status), 'error', 'the status of the copy does not take a number either');
is_refused($copy, 'while its original restarts');
$original->start;
makes($original, 'which has its numbers again');
$original->stop;
give($copy, 'snowflake.shards', '5-7');
is_refused($copy, 'after a reload');
is(query($copy, 'SELECT snowflake_shard_nextval(7) > 0'), 't', '... which brings another shard');
$copy->restart;
makes($copy, 'a restart decides anew');
$copy->append_conf('postgresql.conf', 'snowflake.max_clock_wait = 5ms');
$copy->restart;
like(query($copy, $both), qr/^\d+\|\d+$/, '... and does not wait for what it made before');
$copy->append_conf('postgresql.conf', 'snowflake.max_clock_wait = 5s');
$copy->restart;
$rivals->begin($copy);
$original->start;
is_refused($original, 'the original, beside this copy');
$rivals->end($copy, 'the copy ends');
$copy->stop;
gets_again($original, 'when that has ended');

# ---- snowflake.copy_check, on a copy whose original has stopped ----

$original->stop;
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'error'");
$copy->start;
is_refused($copy, 'copy_check = error, though the original has stopped');
set_conf($copy, "snowflake.copy_check = 'warn'");
ok($copy->poll_query_until('postgres', q{SELECT pending_restart FROM pg_settings WHERE name = 'snowflake.copy_check'}), 'a reload does not change that');
is_refused($copy, 'copy_check = error, though the file says warn');
$copy->restart;
$rivals->begin($copy);
$original->start;
is_refused($original, 'beside its copy, with copy_check = warn');
$rivals->end($copy, 'the copy restarts with copy_check = error');
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'error'");
$copy->restart;
$original->restart;
makes($original, '... which takes nothing: the original, when it has restarted');
is_refused($copy, 'the copy');
$copy->stop;
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'off'");
unlike(started($copy), qr/SF401/, 'copy_check = off says nothing');
like(query($copy, $both), qr/^\d+\|\d+$/, '... and refuses nothing');
$_->stop foreach $copy, $original;
$copy->start;
$original->start;
is_refused($original, 'the original, beside a copy with copy_check = off');
$copy->stop;
gets_again($original, 'when that has ended');
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'warn'");

# ---- an accept, a reload of the same server, and the start of the original ----

my @accepted;
foreach my $order ('reload', 'start')
{
	my $node = server_from("accepted_$order", $original, 'base');
	my $reload = sub { give($node, 'snowflake.shards', '5-7') };

	push @accepted, $node;
	$node->start;
	refused($node, $accept, '55000', qr/That server runs on this machine, and has taken node id 1:/, "$order: the original runs");
	$original->stop;
	my @accept = begin_accept($node);
	$reload->() if $order eq 'reload';
	$original->start;
	$reload->() if $order eq 'start';
	is_refused($original, "$order first: the original, while it is accepted");
	end_accept(@accept);
	$rivals->begin($node);
	is_refused($original, "$order first: the original");
	$rivals->end($node, 'the accepted server ends');
	$node->stop;
	gets_again($original, "$order first: the original, after that");
}

# ---- standby.signal in the directory of a primary ----

$rivals->begin($original);
lay_signal($original);
$copy->start;
is_refused($copy, 'beside a primary with standby.signal');
$copy->stop;
give($original, 'snowflake.shards', '5-6,8');
like(query($original, 'SELECT snowflake_shard_nextval(8)'), qr/^\d+$/, 'which a reload gives shards');
foreach my $node ($copy, @accepted)
{
	$node->start;
	is_refused($node, $node->name . ', after that');
	$node->stop;
}
$rivals->end($original, 'the signal is removed');
unlink "$dir/standby.signal" or die $!;

# ... and of servers that were promoted, before their first ID
my @heirs = map {
	my $heir = server_from("heir$_", $original, 'base', ["snowflake.copy_check = 'warn'"], has_streaming => 1);
	$heir->start;
	$heir;
} 1 .. 4;
$original->wait_for_catchup($_, 'replay') foreach @heirs;
$heirs[0]->backup('of_heir');
my $of_heir = server_from('of_heir', $heirs[0], 'of_heir', ["snowflake.copy_check = 'warn'"]);
$original->stop;
foreach my $heir (@heirs)
{
	$heir->promote;
	lay_signal($heir);
	give($heir, 'snowflake.shards', '5-6,8');
}
$of_heir->start;
is_refused($of_heir, 'the copy of one, beside promoted servers with standby.signal that have made no ID');
$original->start;
$rivals->begin($original);
my $last = pop @heirs;
is_refused($last, 'a promoted server beside its primary, whose first ID was earlier');
$rivals->end($original, 'the primary ends');
$original->stop;
my $heir = $rivals->compete('of promoted servers', @heirs);
$rivals->begin($heir);
$original->start;
is_refused($_, $_->name . ', beside the promoted server that was first') foreach $original, $last, $of_heir;
$_->stop foreach grep { $_ != $heir } @heirs, $last;
$rivals->end($heir, 'the promoted server ends');
$heir->stop;
gets_again($original, 'its primary, after that');
makes($original, 'the primary');
is_refused($of_heir, 'the copy, all the time');
$_->stop foreach $of_heir, $original;

# ---- postgres --single ----

my ($single, $run) = begin_single($original);
my $make = "$both FROM generate_series(1, 100), generate_series(1, 10)";
$run->($make);
$copy->start;
is_refused($copy, 'beside postgres --single');
my $made = $run->($make);
close $single;
$rivals->saw('node', $made =~ /snowflake_nextval = "(\d+)"/g);
$rivals->saw('shards', $made =~ /snowflake_shard_nextval = "(\d+)"/g);
$copy->restart;
$rivals->begin($copy);
($single, $run) = begin_single($original);
like($run->($both), qr/ERROR:  another server with these data has the node id or shards of this one$taken/, 'postgres --single beside a copy');
close $single;
$rivals->end($copy, 'the copy ends');
$copy->stop;

# ---- the postmaster was killed, and a session lives ----

my $fifo = "$tmp/fifo";
my $killed = $accepted[0];
mkfifo($fifo, 0600) or die "$fifo: $!";
$killed->append_conf('postgresql.conf', 'snowflake.reserve = 60s');
$killed->start;
my $session = $killed->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query('SELECT pg_backend_pid()');
$session->query_safe($both);
$session->query_until(qr//, "SELECT snowflake_nextval() FROM generate_series(1, 1000), pg_read_file('$fifo');\n");
$killed->poll_query_until('postgres', "SELECT state = 'active' AND query ~ 'fifo' FROM pg_stat_activity WHERE pid = $pid") or die 'it does not wait';
$killed->kill9;
wait_until { join(' ', working_in($killed->data_dir)) eq $pid } 'other processes live, too';
$copy->start;
is_refused($copy, 'beside a session of a server whose postmaster was killed');

# it makes IDs up to its mark, and ends
open(my $end, '>', $fifo) or die "$fifo: $!";
close $end;
$session->quit;
$rivals->saw('node', $session->{stdout} =~ /^(\d+)$/mg);
wait_until { !working_in($killed->data_dir) } 'the session lives';
is_refused($copy, 'the copy, after that');
$copy->restart;
makes($copy, 'a restart of the copy, after that');
$copy->stop;

# the logger outlives its server, since a program has the log's pipe
$original->append_conf('postgresql.conf', 'logging_collector = on');
$original->start;
my ($logger) = grep { slurp_file("/proc/$_/cmdline") =~ /logger/ } working_in($dir);
$session = $original->background_psql('postgres', on_error_stop => 0);
$session->query_until(qr//, "COPY (SELECT 1) TO PROGRAM 'setsid sh -c \"echo \\\$\\\$ >$tmp/sleep && exec sleep 3600\"';\n");
wait_until { -s "$tmp/sleep" } 'no program runs';
chomp(my $sleep = slurp_file("$tmp/sleep"));
$rivals->begin($original);
$original->stop('immediate');
$rivals->end($original, 'an immediate stop');
ok(kill(0, $logger) && kill(0, $sleep), 'the logger of a server that was stopped lives');
$original->start;
makes($original, 'the server starts again beside its former logger');
kill 'TERM', $sleep;
eval { $session->{run}->finish };
wait_until { !kill 0, $logger } 'the logger lives';
$original->append_conf('postgresql.conf', 'logging_collector = off');
$original->restart;

# ---- somebody removes the file in memory ----

my $file = entries($original);
unlink $file or die "$file: $!";
is(query($original, $status), 'ok', 'the file was removed: the status puts it back');
ok(-f $file, '... into its place');
$rivals->begin($original);
$copy->start;
is_refused($copy, '... so a copy that starts');
$copy->stop;
$rivals->end($original, 'the file is emptied');
truncate $file, 0 or die "$file: $!";
is(query($original, $status), 'ok', 'the file was emptied: the status writes it anew');
$rivals->begin($original);
$copy->start;
is_refused($copy, '... so a copy that starts');
$copy->stop;
$rivals->end($original, 'the file is removed again');
# this session goes on meanwhile, and moves the mark itself
my $busy = IPC::Run::start([ 'psql', '-XAtq', '-d', $original->connstr('postgres') ],
	'<', \"$next \\watch 0.1\n\\q\n", '>', \my $its_ids, '2>', \my $refusal);
wait_until { $busy->pump_nb; $its_ids =~ /\d\n/ } 'no IDs';
unlink $file or die "$file: $!";
$copy->start;
my $from = -s $original->logfile;
is(query($original, q{SELECT string_agg(check_name, ', ' ORDER BY check_name) FROM snowflake_status() WHERE status = 'error'}),
	'copied data directory, node id, shards, summary', 'a copy that started in between: the first status of the original says so, in each row');
$rivals->begin($copy);
is_refused($original, '... which makes none any more');
wait_until { $busy->pump_nb; $refusal ne '' } 'a session that has made some goes on';
$busy->finish;
like($refusal, qr/another server with these data has the node id/, '... not even in a session that has made some');
like(substr(slurp_file($original->logfile), $from), qr/SF401: another server with these data has the node id or shards of this one\n/, '... and the log says so');
$rivals->end($copy, 'the copy ends');
$copy->stop;
gets_again($original, 'when the copy has ended');

# ---- something else is in the place of the file, or it may not be opened ----

foreach my $row (
	[ 'a link', sub { symlink "$tmp/target", $file } ],
	[ 'a directory', sub { mkdir $file }, sub { rmdir $file } ],
	[ 'a fifo', sub { mkfifo($file, 0600) } ],
	[ 'a file of mode 0', sub { append_to_file($file, ''), chmod 0, $file } ])
{
	my ($what, $put, $remove) = @$row;

	$original->stop;
	unlink $file;
	$put->() or die "$file: $!";
	like(started($original), qr/SF403: could not write file "\Q$file\E"\n.*DETAIL:  Until snowflake_status\(\) or a restart succeeds in it, copies of this data directory/,
		"$what in place of the file: the log says what follows");
	makes($original, "$what in place of the file");
	my $row = query($original, q{SELECT status, found, remedy FROM snowflake_status() WHERE check_name = 'copied data directory'});
	like($row, qr{^warning\|file "\Q$file\E" cannot be used: }, '... and the status warns');
	follow_remedies(sub { query($original, $status) eq 'ok' ? '' : remedy_of($original, 'copied data directory') },
		node => $original, name => $what, says => qr{ls -ld \Q$file\E; df /dev/shm},
		types => 'do what the HINT of SF403',
		hands => [ qr/do what the HINT of SF403/ => sub { $remove ? $remove->() : unlink $file or die "$file: $!" } ]);
	is(query($original, $status), 'ok', "$what is removed: the status");
	ok(-f $file && -s $file, '... makes the file');
}
ok(!-e "$tmp/target", 'nothing was made where the link leads');
$copy->start;
is_refused($copy, 'a copy that starts now');
$copy->stop;

# ---- the kernel has given the number of a server's memory to another one's ----

$original->stop;
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->start;
my ($segment) = (split /\n/, slurp_file($other->data_dir . '/postmaster.pid'))[6] =~ /(\d+)\s*$/;

# in the entry of node id 1, whose number is 2: see src/identity/lock.c
open(my $entry, '+<', $file) or die "$file: $!";
seek $entry, (65536 + 2 + 1) * 264 + 24, 0;
print $entry pack('l', $segment + 1);
close $entry or die $!;
$original->start;
makes($original, 'beside a server that has nothing to do with it');
$other->stop;

# ---- another process has the file locked ----

sub lock_file
{
	open(my $fh, '+<', $file) or die "$file: $!";
	flock($fh, LOCK_EX) or die "$file: $!";
	return $fh;
}

$original->stop;
$original->append_conf('postgresql.conf', "snowflake.shards = '0-999'");
my $lock = lock_file();
my $begun = time;
unlike(started($original), qr/SF401/, 'another process has the file locked: nobody was seen');
my $took = time - $begun;
ok($took < 60, "a start with 1,000 shards ends all the same, in $took s");
refused($original, "SET statement_timeout = '1s'; $_", '57014',
	qr/canceling statement.*CONTEXT:  waiting for file "\Q$file\E", which another process has locked\n/s, "a call waits, and may be cancelled: $_")
  foreach $next, 'SELECT snowflake_shard_nextval(999)';
my $waiting = $original->background_psql('postgres');
$waiting->query_until(qr//, "$next;\n");
ok($original->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND wait_event IN ('Extension', 'SnowflakeNodeId')}), '... as pg_stat_activity does');
my $locked = query($original, q{SELECT string_agg(status || ': ' || remedy, E'\n') FROM snowflake_status() WHERE check_name IN ('copied data directory', 'node id', 'shards') AND status <> 'ok'});
like($locked, qr/^error: See which process that is/, '... and the status, in one row');
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'off'");
$copy->start;
like(query($copy, $both), qr/^\d+\|\d+$/, '... but with copy_check = off it does not wait');
$copy->stop;
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'warn'");
follow_remedies(sub { query($original, $status) eq 'ok' ? '' : remedy_of($original, 'copied data directory') },
	node => $original, name => 'the file is locked', says => qr/\b$$ +FLOCK\b/, types => 'and end it, or let it go on.',
	hands => [ qr/let it go on/ => sub { close $lock } ]);
$waiting->query('SELECT 1');
$waiting->quit;
gets($original, 'once the file is free, the server gets its numbers');
give($original, 'snowflake.shards', '5-6');
$rivals->begin($original);
$lock = lock_file();
is(query($original, $status), 'ok', 'a server that has its numbers keeps them while the file is locked');
close $lock;
$rivals->end($original, 'the file was locked');

# ---- a directory that was moved aside, and a clone in its place ----

my $second = standby_of($original, 'second', "snowflake.node_id = '2'");
$second->start;
$original->wait_for_catchup($second, 'replay');
$original->stop;
$second->promote;
makes($second, 'a standby is promoted, with a node id of its own');
my $old = PostgreSQL::Test::Cluster->new('old');
rename($dir, $old->data_dir) or die "$dir: $!";
$old->append_conf('postgresql.conf', 'port = ' . $old->port);
$second->backup('clone');
$original->init_from_backup($second, 'clone', has_streaming => 1);
$original->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$original->start;
$second->wait_for_catchup($original, 'replay');
$second->stop;
$original->promote;
makes($original, 'the clone in the place of the former primary is promoted');
$original->restart;
$rivals->begin($original);
$old->start;
is_refused($old, 'the directory that was moved aside');
$rivals->end($original, 'the clone restarts');
$original->restart;
makes($original, 'the clone, after that');
is_refused($old, 'the directory that was moved aside, after that');
$_->stop foreach $old, $original;

# ---- there is no room for the entries ----

# With this node id its entry is beyond the limit of the size of a file; WAL is below it.
my $big = new_server('big', 'max_wal_senders = 5', "snowflake.layout = 'timestamp:41 node:21 sequence:1'", "snowflake.node_id = '2000000'");
my $limit = 40 << 20;
system_or_bail('prlimit', '--pid', $$, "--fsize=$limit:");
like(started($big), qr/SF403: could not write file "\Q@{[entries($big)]}\E"\n/, 'there is no room for the entry of a node id: the log says so');
system_or_bail('prlimit', '--pid', $$, '--fsize=unlimited:');
query($big, 'CREATE EXTENSION snowflake');
like(query($big, $next), qr/^\d+$/, '... and IDs are made');
$big->backup('big');
system_or_bail('prlimit', '--pid', (split /\n/, slurp_file($big->data_dir . '/postmaster.pid'))[0], '--fsize=unlimited:');
is(query($big, $status), 'ok', 'there is room again: the status takes the number');
my $of_big = server_from('of_big', $big, 'big', ["snowflake.copy_check = 'warn'"]);
$of_big->start;
refused($of_big, $next, '55000', qr/has taken node id 2000000:/, '... so a copy is refused');
like(query($big, $next), qr/^\d+$/, '... and its original is not');
$of_big->stop;

# ... and of one that a reload brings
my $postmaster = (split /\n/, slurp_file($big->data_dir . '/postmaster.pid'))[0];
system_or_bail('prlimit', '--pid', $postmaster, "--fsize=$limit:");
give($big, 'snowflake.node_id', 2000001);
system_or_bail('prlimit', '--pid', $postmaster, '--fsize=unlimited:');
is(query($big, $status), 'ok', 'a reload brought a node id while there was no room: the status takes it');
$of_big->append_conf('postgresql.conf', "snowflake.node_id = '2000001'");
$of_big->start;
refused($of_big, $next, '55000', qr/has taken node id 2000001:/, '... so a copy is refused');
$_->stop foreach $of_big, $big;

# ---- shards ----

# a reload opens one while the file is locked, after another one was refused
my $asks = start_server('asks', 'max_wal_senders = 5', "snowflake.shards = '3'");
$asks->backup('asks');
my $has = server_from('has', $asks, 'asks', ["snowflake.copy_check = 'warn'"]);
$asks->stop;
$_->start foreach $has, $asks;
my $of = 'SELECT snowflake_shard_nextval';
refused($asks, "$of(3)", '55000', qr/has taken node id 1|has taken shard 3/, 'a shard that a copy has');
open($lock, '+<', entries($asks)) or die $!;
flock($lock, LOCK_EX) or die $!;
give($asks, 'snowflake.shards', '3,7');
close $lock;
like(query($asks, "$of(7)"), qr/^\d+$/, '... a reload has opened another while the file was locked: that one is taken');
$_->stop foreach $has, $asks;

# an accept that fails since one of them is taken
$has->append_conf('postgresql.conf', "snowflake.node_id = '8'");
$has->start;
my $strict = server_from('strict', $asks, 'asks', ["snowflake.copy_check = 'error'"]);
$strict->start;
refused($strict, $accept, '55000', qr/That server runs on this machine, and has taken shard 3:/, 'an accept fails, since a shard is taken');
$asks->start;
like(query($asks, $next), qr/^\d+$/, '... and has not taken the node id');
$_->stop foreach $strict, $has, $asks;

# servers whose layout has no node
my $nodeless = start_server('nodeless', 'max_wal_senders = 5', "snowflake.layout = 'mastodon'", "snowflake.node_id = ''", "snowflake.shards = '1'");
$nodeless->backup('nodeless');
my $disjoint = server_from('disjoint', $nodeless, 'nodeless', [ "snowflake.shards = '2'", "snowflake.copy_check = 'warn'" ]);
$disjoint->start;
like(query($disjoint, "$of(2)"), qr/^\d+$/, 'a layout without a node: a copy with other shards');
refused($disjoint, $next, '55000', qr/has taken node id 0:/, '... makes no others');
(undef, undef, my $warned) = $disjoint->psql('postgres', $accept);
like($warned, qr/^\S+ WARNING:  this server now counts as the only one/, '... is accepted');
is(query($disjoint, $status), 'ok', '... and the status is ok');
$_->stop foreach $disjoint, $nodeless;

# ---- IDs that are ahead of the clock ----

my $ahead = start_server('ahead', 'max_wal_senders = 5', "snowflake.layout = 'timestamp:41 node:16 sequence:6'", 'snowflake.max_clock_drift = 1000');
query($ahead, load_tables());
$ahead->backup('ahead');
my $waits = server_from('waits', $ahead, 'ahead', [], has_streaming => 1);
$waits->start;
$ahead->wait_for_catchup($waits, 'replay');
$waits->promote;
refused($waits, $next, '55000', $taken, 'a promoted standby beside its primary');
$ahead->stop;
isnt(query($waits, $status), 'error', 'the primary has ended, as the status sees');
$ahead->start;
like(query($ahead, $next), qr/^\d+$/, '... which takes nothing: the primary has its number again');
my $highest = query($ahead, 'SELECT max(snowflake_nextval()) FROM generate_series(1, 60000)');
$ahead->stop('immediate');
my $lowest;
wait_until { (undef, $lowest) = $waits->psql('postgres', $next); $lowest =~ /^\d+$/ } 'its primary has ended, and it makes no ID';
cmp_ok($lowest, '>', $highest, 'when that ends, it begins above the IDs that were ahead of the clock');
$waits->stop;
$ahead->start;
$highest = query($ahead, 'SELECT max(snowflake_nextval()) FROM generate_series(1, 60000)');
$ahead->stop('immediate');
$waits->start;
$waits->restart;
cmp_ok(query($waits, $next), '>', $highest, '... also after a restart before its first ID');
$waits->stop;

# A server that takes a number over by a wrong clock: what another one has made is not known.
my $wrong = server_from('wrong', $ahead, 'ahead', ["snowflake.copy_check = 'warn'"]);
start_with_clock($wrong, 86400);
$wrong->restart;
refused($wrong, $next, '58000', qr/wall clock is .* behind the next ID's timestamp/, 'a number that was taken over by a wrong clock');
refused($wrong, 'SELECT snowflake_reset_mark(now())', '55000', qr/once more\. If that says the same, set another snowflake\.node_id first\.$/m, '... which no restart mends');
$wrong->append_conf('postgresql.conf', 'snowflake.node_id = 9');
$wrong->restart;
like(answer($wrong, $next), qr/^\d+$/, '... but another number');
$wrong->stop;

$rivals->check;
done_testing();
