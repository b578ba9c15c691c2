# Is a data directory a copy? Servers that go on, are promoted, rewound or moved are no
# copies. A copy that starts as a server of its own would use the original's node id.
# The table is in src/invariants.md, "Copies of a data directory".
#
# takes: 35 s
use SnowflakeTest;
use Cwd;
use PostgreSQL::Test::RecursiveCopy;

my $shard = 'SELECT snowflake_shard_nextval(3)';
my $warning = 'WARNING:  snowflake SF401: this data directory is a copy of another server\'s\n.*DETAIL:  ';
my $hint = qr/HINT:  To keep both servers, choose [^:]* that no other server has, and add [^:]*:\n.*and restart this server\. Only if all other servers with these data are gone for good, run as a superuser: SELECT public\.snowflake_accept\('copy'::pg_catalog\.text\);/s;
my $runs = qr/cannot accept this copy while another server with these data runs\n.*DETAIL:  That server runs on this machine, and has taken node id 1:.*HINT:  To keep both servers, choose .*Only if all other servers with these data are gone for good, run as a superuser: SELECT public\.snowflake_accept\('copy'::pg_catalog\.text\);/s;
my $refused = qr/this data directory is a copy of another server's\n.*DETAIL:  Another server (?:may have|with these data was seen running on this machine, and has taken) node id 1.*$hint/s;

# Start a server, which logs this warning.
sub warned
{
	my ($node, $detail, $name) = @_;

	like(started($node), qr/$warning$detail/, $name);
	return;
}

sub passes
{
	my ($node, $name) = @_;

	unlike(started($node), qr/is a copy/, "$name: no warning");
	like(query($node, $next), qr/^\d+$/, "$name: it makes IDs");
	return;
}

sub refuses
{
	my ($node, $name) = @_;

	refused($node, $next, '55000', $refused, "$name: it is refused");
	return;
}

# Replace a directory by its copy. init_from_backup() would use another path.
sub replace_by_copy
{
	my ($node) = @_;
	my $dir = $node->data_dir;

	rename($dir, "$dir.original") or die "$dir: $!";
	PostgreSQL::Test::RecursiveCopy::copypath("$dir.original", $dir);
	chmod(oct('0700'), $dir) or die "$dir: $!";
	return;
}

# Start the server for one query.
sub query_started
{
	my ($node, $query) = @_;

	$node->start;
	query($node, $query);
	$node->stop;
	return;
}

# ---- a server that is no copy ----

my $primary = new_server('primary', 'wal_log_hints = on', 'max_wal_senders = 10',
	'wal_keep_size = 1GB', "snowflake.copy_check = 'error'", 'restart_after_crash = on');
unlike(started($primary), qr/is a copy/, 'the first start');
query($primary, 'CREATE EXTENSION snowflake; CREATE ROLE mallory; ' . $next);
ok(-e $primary->data_dir . "/$_", "there is $_") foreach ($marker, $record);
$primary->stop;
passes($primary, 'a clean restart');
$primary->stop('immediate');
passes($primary, 'after an immediate stop');
my $from = -s $primary->logfile;
crash($primary, 'checkpointer');
unlike(substr(slurp_file($primary->logfile), $from), qr/is a copy/,
	'after a crash: no warning');
like(query($primary, $next), qr/^\d+$/, 'after a crash: it makes IDs');

# ---- a base backup that starts as a server of its own ----

$primary->backup('backup');
ok(!-e $primary->backup_dir . "/backup/$marker", 'a base backup leaves the marker out');
ok(-e $primary->backup_dir . "/backup/$record", 'and takes the record along');

my $copy = server_from('copy', $primary, 'backup');
warned($copy, 'It comes from a backup, or was rewound, .* No IDs are made that', 'a base backup');
refuses($copy, 'a base backup');
my $session = $copy->background_psql('postgres', on_error_stop => 0);
$session->query($next);
refused($copy, 'SELECT snowflake_ready()', '55000', $refused, 'and is not ready');
refused($copy, 'SELECT * FROM snowflake_nextval_batch(10)', '55000', $refused, 'nor for batches');
is(query($copy, 'SELECT 1'), '1', 'the server is up');
refused($copy, q{SET ROLE mallory; SELECT snowflake_accept('copy')}, '42501',
	qr/permission denied for function/, 'not everybody may accept it');
refused($copy, q{SET default_transaction_read_only = on; SELECT snowflake_accept('copy')}, '25006',
	qr/read-only transaction/, 'nor in a read-only transaction');
$copy->stop;
warned($copy, 'It comes from a backup', 'it is found out again');
refused($copy, $accept, '55000', $runs, 'it cannot be accepted while the original runs');
refuses($copy, 'which changes nothing');
$primary->stop;
my ($status, undef, $err) = $copy->psql('postgres', $accept);
like($err, qr/WARNING:  this server now counts as the only one .*DETAIL:  No other one is seen on this machine now.*HINT:  If one of them may run, choose/s,
	'accepted when the original has gone, it says what follows');
like(query($copy, $next), qr/^\d+$/, 'accepted, it makes IDs');
($status, undef, $err) = $copy->psql('postgres', $accept);
like($err, qr/NOTICE:  nothing to accept/, 'that is done once');
$copy->stop;
passes($copy, 'a copy that was accepted');
$session->quit;
$copy->stop;
$primary->start;

# By default a copy is refused if its original is seen to run with the copy's node id.
$copy = server_from('warned', $primary, 'backup', ["snowflake.copy_check = 'warn'"]);
warned($copy, 'It comes from a backup, .* The server of process \d+ runs now, and has taken node id 1: no IDs',
	'copy_check = warn, beside the original');
my $twin = qr/a copy of another server's\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id 1.*$hint/s;
refused($copy, $next, '55000', $twin, 'beside the original: it is refused');
is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}),
	'error', 'which is an error');
my $reset = qr/(ALTER SYSTEM RESET \S+;)/;
unlike(refused($copy, $accept, '55000', $runs, 'nor may an administrator accept it'), $reset, 'where a line in the file is enough');
query($copy, q{ALTER SYSTEM SET snowflake.node_id = '1'});
$copy->append_conf('postgresql.conf', "snowflake.node_id = '2'");
$copy->restart;
query($copy, refused($copy, $next, '55000', $twin, 'what ALTER SYSTEM has set rules') =~ $reset);
$copy->restart;
like(query($copy, $next), qr/^\d+$/, 'with another node id, as the remedy says, it makes IDs');
$copy->stop;

# a copy that was refused takes nothing while its original is down for a restart
$copy = server_from('patient', $primary, 'backup', ["snowflake.copy_check = 'warn'"]);
$copy->start;
$primary->stop;
refused($copy, $next, '55000', $twin, 'the original stops: its copy is refused all the same');
$primary->start;
like(query($primary, $next), qr/^\d+$/, 'so the original has its number when it starts again');
$copy->stop;

# In all other cases there is only a warning. The server does not know whether the
# original lives, or has seen that it does not run.
$copy = server_from('alone', $primary, 'backup', ["snowflake.copy_check = 'warn'"]);
sub is_only_warned_of
{
	my ($detail, $name) = @_;

	warned($copy, "$detail\\.\n", $name);
	like(query($copy, $next), qr/^\d+$/, "$name: it makes IDs");
	is(query($copy, q{SELECT status FROM snowflake_status() WHERE check_name = 'copied data directory'}),
		'warning', "$name: a warning");
	$copy->stop;
	return;
}
my $backup = 'It comes from a backup, or was rewound, and starts as a server of its own';
$primary->stop;
is_only_warned_of($backup, 'the original is stopped');
is_only_warned_of($backup, 'that is said at each start');
$primary->append_conf('postgresql.conf', "snowflake.node_id = ''");
$primary->start;
is_only_warned_of($backup, 'the original has no node id now');
$primary->append_conf('postgresql.conf', "snowflake.node_id = '9'");
$primary->restart;
is_only_warned_of($backup, 'the original has another one now');
$primary->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$primary->restart;
$primary->stop;
my $here = getcwd;
chdir $primary->data_dir or die $!;
is_only_warned_of($backup, 'another process works in the directory of the original');
chdir $here or die $!;

# The directory was moved, and a link leads there from its old place.
my $home = $copy->data_dir;
query_started($copy, $accept);
rename($home, "$home.moved") && symlink("$home.moved", $home) or die $!;
is_only_warned_of('Before, it was in ".*alone.*pgdata"', 'a directory that was moved');
unlink($home) && rename("$home.moved", $home) or die $!;
$primary->start;
$copy = server_from('off', $primary, 'backup', ["snowflake.copy_check = 'off'"]);
passes($copy, 'copy_check = off, beside the original');
$copy->stop;

# without the record a base backup is accepted, so an administrator can accept it in
# advance
$copy = server_from('word', $primary, 'backup');
unlink($copy->data_dir . "/$record") or die $!;
passes($copy, 'a base backup without the record');
$copy->stop;
passes($copy, 'and again');
$copy->stop;

# another node id is enough, except for shards
$copy = server_from('other', $primary, 'backup', ["snowflake.node_id = '2'"]);
passes($copy, 'a copy with another node id');
$copy->backup('other');
$copy->stop;
passes($copy, 'and again');
set_conf($copy, "snowflake.node_id = '1'");
$copy->poll_query_until('postgres', q{SELECT found ~ '^2; .*is refused: Another server with these data runs now, and has taken node id 1'
	FROM snowflake_status() WHERE check_name = 'node id'}) or die;
is(query($copy, 'SELECT snowflake_node(snowflake_nextval())'), '2', 'a reload does not give it that of its original, which runs');
$copy->stop;
warned($copy, q{It had another node id, and has the other server's again\. The server of process \d+ runs now, and has taken node id 1: no IDs},
	'it gets the node id of its original, which runs');
refused($copy, $next, '55000', $twin, 'and is refused');
$copy->stop;
$primary->stop;
warned($copy, q{It had another node id, and has the other server's again\. No IDs}, 'or does not run now');
refuses($copy, 'which may start again');
query($copy, $accept);
like(query($copy, $next), qr/^\d+$/, 'until it is accepted');
$copy->stop;
passes($copy, 'then it is a server of its own');
$copy->stop;
$primary->start;

# the same if its disk was full when it first started, and it could not write the record
foreach (
	[ 'soon', sub { query($_[0], $next) } ],
	[ 'next', sub { $_[0]->stop; $_[0]->start } ],
	[ 'never', sub { } ])
{
	my ($name, $then) = @$_;
	my $late = server_from($name, $primary, 'backup', ["snowflake.node_id = '2'"]);
	chomp(my $last = qx(echo \$\$));
	my @in_the_way = map { $late->data_dir . "/$record.$_.tmp" } $last .. $last + 2000;

	mkdir $_ or die "$_: $!" foreach @in_the_way;
	like(started($late), qr/could not create file "$record.*SF403: could not write file "$record"/s, "$name: the record cannot be written");
	rmdir $_ or die "$_: $!" foreach @in_the_way;
	$then->($late);
	$late->stop;
	$late->append_conf('postgresql.conf', "snowflake.node_id = '1'");
	warned($late, q{It had another node id, and has the other server's again},
		"$name: a copy that did not record itself at once knows its original");
	$late->stop;
}
my $second = server_from('second', $copy, 'other');
warned($second, 'It comes from a backup', 'a copy of it has its node id');
refused($second, $next, '55000', qr/may have node id 2, too/, 'and is refused');
$second->stop;
$copy = server_from('shards', $primary, 'backup', [ "snowflake.node_id = '2'", "snowflake.shards = '3'" ]);
warned($copy, 'It comes from a backup', 'a copy with another node id and shards');
like(query($copy, $next), qr/^\d+$/, 'it makes IDs of the node');
foreach my $call ($shard, 'SELECT * FROM snowflake_shard_nextval_batch(3, 10)', 'SELECT snowflake_nextval(), snowflake_shard_nextval(3)')
{
	refused($copy, $call, '55000', qr/DETAIL:  Another server may have shard 3/, "and none of shards: $call");
}
query($copy, $accept);
like(query($copy, $shard), qr/^\d+$/, 'until it is accepted');
$copy->stop;

# the copy gets its node id by a reload
foreach my $check ('error', 'warn')
{
	$copy = server_from("reload_$check", $primary, 'backup', [ "snowflake.copy_check = '$check'", "snowflake.node_id = ''" ]);
	unlike(started($copy), qr/is a copy/, 'a copy without a node id makes nothing that the original makes');
	$from = -s $copy->logfile;
	set_conf($copy, "snowflake.node_id = '1'");
	$copy->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '1'")
	  or die 'no reload';
	like_log($copy, qr/${warning}It comes from a backup/, $from, 'a reload gives it that of the original');
	refused($copy, $next, '55000', $twin, "copy_check = $check: a copy that gets the node id by a reload");
	$copy->stop;
}

# ---- a recovery to a point in time ----

$copy = server_from('recovered', $primary, 'backup', ["restore_command = 'false'"]);
$copy->set_recovery_mode;
warned($copy, 'It comes from a backup', 'a recovery to a point in time');
$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no end of recovery';
refuses($copy, 'though it ends with another timeline');
$copy->stop('immediate');
warned($copy, 'It comes from a backup', 'and is found out again');
$copy->stop;

# ---- files that are copied with the marker ----

$primary->stop;
$primary->backup_fs_cold('cold');
ok(-e $primary->backup_dir . "/cold/$marker", 'a copy of the files has the marker');
$copy = server_from('cold', $primary, 'cold');
warned($copy, 'Before, it was in ".*primary.*"', 'a copy in another directory');
refuses($copy, 'a copy in another directory');
$copy->stop;
replace_by_copy($primary);
warned($primary, 'Its files were copied to where they are now', 'a copy in the place of the original');
refuses($primary, 'a copy in the place of the original');
$primary->stop;
my $dir = $primary->data_dir;
rename($dir, "$dir.copy") && rename("$dir.original", $dir) or die $!;
passes($primary, 'the original, put back');
$primary->stop;

# ---- another machine ----

{
	my $machine = $primary->basedir . '/machine';

	local $ENV{LD_PRELOAD} = preload();
	local $ENV{SHIM_MACHINE} = $machine;

	# if the machine has no name, the directory is accepted
	foreach my $name ('', "uninitialized\n")
	{
		unlink $machine;
		append_to_file($machine, $name) if $name ne '';
		passes($primary, 'a machine without a name');
		$primary->stop;
	}
	unlink $machine;
	append_to_file($machine, "0123456789abcdef0123456789abcdef\n");
	my $marked = slurp_file($primary->data_dir . "/$marker");
	my $has_name = -s '/etc/machine-id';
	note 'this machine has ' . ($has_name ? 'a name' : 'no name');
	unlink $primary->data_dir . "/$record", $primary->data_dir . "/$marker";
	passes($primary, 'a machine with a name');
	$primary->stop;
	passes($primary, 'the same machine');
	$primary->stop;
	unlink $machine;
	append_to_file($machine, "fedcba9876543210fedcba9876543210\n");
	warned($primary, 'Before, it was on another machine, in ".*primary.*"', 'another machine');
	refuses($primary, 'another machine');
	$primary->stop;
	unlink $machine;
	passes($primary, 'a machine that has lost its name');
	query($primary, $accept);
	$primary->stop;
	unlink $primary->data_dir . "/$record";
}
passes($primary, 'back again');

# ---- standbys ----

my $standby = server_from('standby', $primary, 'backup', [], has_streaming => 1);
unlike(started($standby), qr/is a copy/, 'a standby: no warning');
$primary->wait_for_catchup($standby, 'replay');
$standby->stop;

# a standby without its signal file is a copy, also if it was one before
my $unpromoted = PostgreSQL::Test::Cluster->new('unpromoted');
my ($signal) = map { $_->data_dir . '/standby.signal' } $standby;
$standby->backup_fs_cold('follower');
unlink($signal) or die $!;
warned($standby, 'It was a standby, and was not promoted', 'a standby that starts as a server of its own');
refuses($standby, 'a standby that starts as a server of its own');
$standby->stop;
warned($standby, 'It comes from a backup', 'it is found out again');
$standby->stop;

# a promoted standby is accepted: at once, after a crash, and after a restart
$standby = server_from('promoted', $primary, 'backup', [], has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby, 'replay');
$from = -s $standby->logfile;
$standby->promote;
$standby->stop('immediate');
passes($standby, 'a standby that was promoted, and ended at once');
$standby->stop;
passes($standby, 'a standby that was promoted, and has made IDs');
unlike(substr(slurp_file($standby->logfile), $from), qr/is a copy/, 'no warning in all that');

# a standby that makes IDs right after its promotion
my $other = server_from('other_standby', $primary, 'backup',
	["snowflake.node_id = '3'"], has_streaming => 1);
$other->start;
$primary->wait_for_catchup($other, 'replay');
$other->promote;
like(query($other, $next), qr/^\d+$/, 'a standby that is promoted makes IDs at once');
$other->backup('after');
$second = server_from('after', $other, 'after');
$second->start;
refused($second, $next, '55000', qr/was seen running on this machine, and has taken node id 3/,
	'a copy of it, before it is restarted, has its node id');
$second->stop;
$other->stop;

# the record cannot be written at first, as on a full disk
$other->append_conf('postgresql.conf', "snowflake.node_id = ''");
$other->start;
my $file = $other->data_dir . "/$record";
unlink($file) && mkdir($file) or die "$file: $!";
$from = -s $other->logfile;
set_conf($other, "snowflake.node_id = '5'");
$other->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '5'")
  or die 'no reload';
like(query($other, $next), qr/^\d+$/, 'a record that cannot be written stops nobody');
like_log($other, qr/could not (?:open|rename) file "snowflake\.servers/, $from, 'the log says so');
rmdir $file or die "$file: $!";
ok($other->poll_query_until('postgres',
		"SELECT snowflake_nextval() > 0 AND (pg_stat_file('$record', true)).size IS NOT NULL"),
	'a later call writes it');
$other->backup('later');
$second = server_from('later', $other, 'later');
$second->start;
refused($second, $next, '55000', qr/was seen running on this machine, and has taken node id 5/,
	'so a copy of it has its node id');
$second->stop;

# the original has another number since, and so has a copy, or a copy of a copy
set_conf($other, "snowflake.node_id = '6'");
$other->poll_query_until('postgres', 'SELECT snowflake_node(snowflake_nextval()) = 6') or die;
my $runs_now = qr/was seen running on this machine, and has taken node id 6/;
$second = server_from('since', $other, 'later', [ "snowflake.node_id = '6'", "snowflake.copy_check = 'warn'" ]);
$second->start;
refused($second, $next, '55000', $runs_now, 'a copy with the number that the original has got since');
$second->append_conf('postgresql.conf', "snowflake.node_id = '7'");
$second->restart;
like(query($second, $next), qr/^\d+$/, 'and with one of its own it makes IDs');
$second->backup('of_copy');
$second->stop;
my $third = server_from('copy_of_copy', $second, 'of_copy', [ "snowflake.node_id = '6'", "snowflake.copy_check = 'warn'" ]);
$third->start;
refused($third, $next, '55000', $runs_now, 'a copy of a copy with the number of the first original');
refused($third, $accept, '55000', qr/cannot accept this copy while another server with these data runs/, 'which cannot be accepted while that runs');
$third->stop;
$other->stop;

# the old primary is rewound, follows the new one, and is promoted again
query($standby, 'CHECKPOINT');
$primary->stop;
my $conf = slurp_file($primary->data_dir . '/postgresql.conf');
command_ok(
	[
		'pg_rewind', '--target-pgdata', $primary->data_dir,
		'--source-server', $standby->connstr('postgres')
	], 'the old primary is rewound');
ok(!-e $primary->data_dir . "/$marker", 'which removes the marker');
unlink $primary->data_dir . '/postgresql.conf';
append_to_file($primary->data_dir . '/postgresql.conf', $conf);
$primary->enable_streaming($standby);
unlike(started($primary), qr/is a copy/, 'it follows: no warning');
$standby->wait_for_catchup($primary, 'replay');
$copy = server_from('late', $primary, 'backup', ["snowflake.copy_check = 'warn'"]);
$copy->start;
refused($copy, $next, '55000', $twin, 'the original is a standby now, and has the node id for its promotion');
$copy->stop;
$standby->backup('while_primary');
$standby->stop;
$primary->promote;
like(query($primary, $next), qr/^\d+$/, 'promoted back, it makes IDs');
$standby->enable_streaming($primary);
unlike(started($standby), qr/is a copy/, 'the other one follows');
$copy = server_from('of_standby', $standby, 'while_primary', ["snowflake.copy_check = 'warn'"]);
$copy->start;
refused($copy, $next, '55000', qr/is a copy of another server's/, 'the original is a standby now, whose primary has the node id, and runs');
$copy->stop;
$primary->stop;
$copy->start;
refused($copy, $next, '55000', $twin, 'the original runs as a standby, and its primary does not');
$copy->stop;
$standby->stop;
passes($primary, 'promoted back, and restarted');
$primary->stop;

# a marker that cannot be written stops nobody
my $unmarked = new_server('unmarked');
my $tmp = $unmarked->data_dir . '/global/pgsql_tmp';
append_to_file($tmp, '');
like(started($unmarked), qr/SF403: could not write file "$marker"\n.*DETAIL:  Until it is written, a copy of this data directory may not be noticed/,
	'a marker that cannot be written: the log says what follows');
query($unmarked, 'CREATE EXTENSION snowflake');
like(query($unmarked, $next), qr/^\d+$/, 'and IDs are made');
unlink $tmp or die "$tmp: $!";
$unmarked->restart;
ok(-f $unmarked->data_dir . "/$marker", 'the next start writes it');
$unmarked->stop;

done_testing();
