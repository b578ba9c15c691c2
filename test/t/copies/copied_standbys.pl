# Copies of standbys, and servers that are rewound: each is refused, or was warned of
# before. No promotion, restart or change of roles is refused while no other server has
# the number.
# The table is in src/invariants.md, "Copies of a data directory".
#
# takes: 30 s
use SnowflakeTest;

my $shard = 'SELECT snowflake_shard_nextval(3)';
my $may_have = qr/is a copy of another server's\n.*DETAIL:  Another server may have node id 2, too, and snowflake.copy_check is "error"/s;
my $seen = qr/is a copy of another server's\n.*DETAIL:  Another server with these data was seen running on this machine, and has taken node id 2/s;
my $is_copy = qr/SF401: this data directory is a copy of another server's/;
my $same_standby = qr/WARNING:  snowflake SF504: this standby has node id 2, and so has /;
my $same_promoted = qr/WARNING:  snowflake SF506: this server makes IDs with node id 2, which a server that it was copied from had, too/;
my $n = 'INSERT INTO t SELECT FROM generate_series(1, 50) RETURNING id';
my @ids;

sub refuses
{
	my ($node, $why, $name) = @_;

	like(started($node), $is_copy, "$name: the log says so");
	refused($node, 'SELECT snowflake_nextval()', '55000', $why, "$name: it is refused");
	$node->stop;
	return;
}

# The IDs that servers have made that may run beside each other.
sub make
{
	my ($node, $name) = @_;

	push @ids, [ split /\n/, query($node, $n) ];
	is(scalar(@{ $ids[-1] }), 50, "$name: it makes IDs");
	return;
}

# Let a server take the files of another one that runs, and keep only its place.
sub rewind_from
{
	my ($node, $source, @settings) = @_;

	query($source, 'CHECKPOINT');
	command_ok([ 'pg_rewind', '--target-pgdata', $node->data_dir, '--source-server', $source->connstr('postgres') ],
		$node->name . ' is rewound');
	ok(!-e $node->data_dir . "/$marker", 'which removes the marker');
	$node->append_conf('postgresql.conf', join("\n", 'port = ' . $node->port, @settings, ''));
	$node->enable_streaming($source);
	return;
}

my $primary = start_server('primary', 'wal_log_hints = on', 'max_wal_senders = 10', 'wal_keep_size = 1GB',
	"snowflake.shards = '3'", "snowflake.copy_check = 'error'");
query($primary, 'CREATE TABLE t (id bigint DEFAULT snowflake_nextval())');
make($primary, 'the primary');
my $standby = standby_of($primary, 'standby', "snowflake.node_id = '2'");
like(started($standby), qr/SF503: once it is promoted, this standby issues as node id 2/, 'a standby with a number of its own');
$primary->wait_for_catchup($standby, 'replay');

# ---- a backup of a standby ----

$standby->backup('of_standby');
ok(!-e $standby->backup_dir . "/of_standby/$marker", 'a base backup of a standby leaves the marker out');
ok(-e $standby->backup_dir . "/of_standby/$record", 'and takes the list along');
my $copy = server_from('copy', $standby, 'of_standby', []);
refuses($copy, $seen, "beside the standby");
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'warn'");
refuses($copy, $seen, 'beside the standby, copy_check = warn');
$standby->stop;
like(started($copy), qr/$is_copy\n.*DETAIL:  It comes from a backup, or was rewound, and starts as a server of its own\.\n/, 'the standby is stopped');
like(query($copy, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'so there is only a warning');
$copy->stop;
$standby->start;
$copy->append_conf('postgresql.conf', "snowflake.copy_check = 'error'");
refuses($copy, $seen, 'and again');

my $recovered = server_from('recovered', $standby, 'of_standby', ["restore_command = 'false'"]);
$recovered->set_recovery_mode;
like(started($recovered), $is_copy, 'a recovery to a point in time of it');
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no end of recovery';
refused($recovered, 'SELECT snowflake_nextval()', '55000', $seen, 'is refused, too');
$recovered->stop;

# with a number of its own it is a server of its own, but for shards
my $own = server_from('own', $standby, 'of_standby', ["snowflake.node_id = '3'"]);
foreach my $start ('first', 'next')
{
	like(started($own), $is_copy, "$start start: a copy with shards");
	make($own, "$start start, with a number of its own");
	refused($own, $shard, '55000', qr/DETAIL:  Another server may have shard 3, too/, "$start start: none of shards");
	$own->stop;
}
$own->append_conf('postgresql.conf', "snowflake.shards = ''");
unlike(started($own), $is_copy, 'without shards it is no copy');
set_conf($own, "snowflake.shards = '3'");
$own->poll_query_until('postgres', "SELECT current_setting('snowflake.shards') = '3'") or die 'no reload';
refused($own, $shard, '55000', qr/may have shard 3, too/, 'a reload does not give it those');
refused($own, $accept, '55000', qr/That server runs on this machine, and has taken shard 3:/, 'nor can it be accepted');
my $other = 'SELECT snowflake_shard_nextval(4)';
set_conf($own, "snowflake.shards = '4'");
$own->poll_query_until('postgres', "SELECT current_setting('snowflake.shards') = '4'") or die 'no reload';
refused($own, $other, '55000', qr/DETAIL:  Another server may have shard 4, too, and/, 'none of others');
query($own, $accept);
like(query($own, $other), qr/^\d+$/, 'until it is accepted');
$own->restart;
like(query($own, $other), qr/^\d+$/, 'for good');
$own->stop;

# ---- a standby of a standby ----

my $second = server_from('second', $standby, 'of_standby', [], has_streaming => 1);
like(started($second), qr/${same_standby}a server that it was copied from/, 'a standby of a standby has its number: the log says so');
$second->stop;
my $signal = $second->data_dir . '/standby.signal';
unlink $signal or die "$signal: $!";
foreach (1, 2)
{
	refuses($second, $seen, 'it loses its signal file');
}
my $third = server_from('third', $standby, 'of_standby', [], has_streaming => 1);
$third->start;
$third->promote;
like(query($third, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'a promotion is not refused');
like_log($third, $same_promoted, 0, 'but warned of');
unlike(started($third), $is_copy, 'nor is a restart') if $third->stop || 1;
query($third, 'SELECT snowflake_nextval()');
is(query($third, q{SELECT status FROM snowflake_status() WHERE check_name = 'node id'}), 'warning', 'the warning stays');
$third->stop;

# ---- a snapshot of a standby's volume ----

$standby->stop;
$standby->backup_fs_cold('snapshot');
$standby->start;
my $snapshot = server_from('snapshot', $standby, 'snapshot', []);
like(started($snapshot), qr/$is_copy\n.*DETAIL:  Before, it was in ".*standby.*"/, 'a snapshot of the volume of a standby');
refused($snapshot, 'SELECT snowflake_nextval()', '55000', $seen, 'is refused');
$snapshot->stop;
$snapshot->set_standby_mode;
like(started($snapshot), $same_standby, 'with the signal file, the log says that the number is there twice');
$snapshot->stop;

# ---- a reload gives a number, before the first ID ----

my $late = standby_of($primary, 'late', "snowflake.node_id = ''", "snowflake.shards = ''");
$late->start;
set_conf($late, "snowflake.node_id = '2'");
$late->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '2'") or die 'no reload';
$late->backup('late');
$copy = server_from('of_late', $late, 'late', []);
refuses($copy, $seen, 'a backup of a standby that got its number by a reload');
$late->stop;
my $primary_late = start_server('primary_late', "snowflake.node_id = ''");
set_conf($primary_late, "snowflake.node_id = '2'");
$primary_late->poll_query_until('postgres', "SELECT current_setting('snowflake.node_id') = '2'") or die 'no reload';
$primary_late->backup('primary_late');
$copy = server_from('of_primary_late', $primary_late, 'primary_late', []);
refuses($copy, $seen, 'a backup of a primary that has made no ID with its new number');
$primary_late->stop;

# ---- the primary dies; its standby is promoted; the primary is rewound ----

my $conf = slurp_file($primary->data_dir . '/postgresql.conf');
make($primary, 'the primary');
$primary->wait_for_catchup($standby, 'replay');
$standby->promote;
make($primary, 'the primary, which does not know it');
$primary->stop;
rewind_from($primary, $standby);
like(started($primary), $same_standby, 'rewound before the first ID of the new one: the log says that the number is copied');
$copy = server_from('again', $standby, 'of_standby', []);
refuses($copy, $seen, 'the copy beside the promoted standby');
make($standby, 'the promoted standby');
unlike(slurp_file($standby->logfile), qr/SF50[46]|$is_copy/, 'which has a number of its own');
$standby->wait_for_catchup($primary, 'replay');
foreach my $round (1, 2)
{
	$standby->restart;
	make($standby, "round $round");
}
$standby->wait_for_catchup($primary, 'replay');
my $from = -s $primary->logfile;
$primary->promote;
query($standby, 'INSERT INTO t VALUES (1)');
$standby->stop;
like(query($primary, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'the fail-back is not refused');
like_log($primary, $same_promoted, $from, 'but warned of');
unlike(started($primary), $is_copy, 'nor is a restart') if $primary->stop || 1;
is(query($primary, q{SELECT status || ' ' || found FROM snowflake_status() WHERE check_name = 'node id'}),
	q{warning 2 is configured, and a server that this one was copied from had it, too}, 'the status says so');

# With the numbers of their own, they change roles again and again. Nothing is said of them.
$primary->stop;
unlink $primary->data_dir . '/postgresql.conf';
append_to_file($primary->data_dir . '/postgresql.conf', $conf);
$primary->append_conf('postgresql.conf', "snowflake.node_id = '1'");
like(started($primary), $is_copy, 'its old number stands there under a server that it is no more');
query($primary, $accept);
make($primary, 'accepted');
rewind_from($standby, $primary, "snowflake.node_id = '2'");
my ($up, $down) = ($primary, $standby);
my %from = map { $_->name => -s $_->logfile } $up, $down;
$down->start;
foreach my $round (1 .. 4)
{
	$up->wait_for_catchup($down, 'replay');
	$down->promote;
	make($up, "round $round: the old one");
	$up->stop;
	$down->restart if $round % 2;
	make($down, "round $round");
	($up, $down) = ($down, $up);
	rewind_from($down, $up, "snowflake.node_id = '" . ($down == $primary ? 1 : 2) . "'");
	$down->start;
}
unlike(substr(slurp_file($_->logfile), $from{ $_->name }), qr/SF50[46]|$is_copy/, $_->name . ': no warning in all that')
  foreach $primary, $standby;
check_ids('all that were not refused', @ids);

# a primary that follows the one that was copied from it is no primary without its signal
$up->wait_for_catchup($down, 'replay');
$down->promote;
$up->stop;
make($down, 'the last round');
$down->stop;
$down->set_standby_mode;
$down->start;
$down->stop;
$signal = $down->data_dir . '/standby.signal';
unlink $signal or die "$signal: $!";
like(started($down), qr/$is_copy\n.*DETAIL:  It was a standby, and was not promoted/, 'a former primary that loses its signal file');
refused($down, 'SELECT snowflake_nextval()', '55000', qr/may have node id \d, too/, 'and is refused');
$down->stop;

# ---- a list that cannot be read ----

my $file = $up->data_dir . "/$record";
my $whole = slurp_file($file);
foreach my $damaged ('', 'x', substr($whole, 0, 20), $whole =~ s/\A./~/sr, "$whole$whole")
{
	my $name = 'a list of ' . length($damaged) . ' bytes';

	unlink $file or die "$file: $!";
	append_to_file($file, $damaged);
	$up->backup_fs_cold($name =~ s/ /_/gr);
	unlike(started($up), $is_copy, "$name: its own server goes on");
	like(query($up, 'SELECT snowflake_nextval()'), qr/^\d+$/, "$name: and makes IDs");
	$up->stop;
	ok(-s $file > 40, "$name: and writes it again");
	next if $damaged ne 'x' && length($damaged) != length($whole);
	$copy = server_from("damaged_" . length($damaged), $up, $name =~ s/ /_/gr, ["snowflake.node_id = '77'"]);
	refuses($copy, qr/may have node id 77, too/, "$name: a copy may have any number");
	$copy->stop;
}

done_testing();
