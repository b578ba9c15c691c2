# The postmaster is killed, and sessions that are busy with one statement do not notice.
# They end when they need a later mark: a copy of the data directory that starts then, and
# does not see them, makes none of their IDs. This needs a library with fault points
# (test/needs.sh builds it).
#
# takes: 20 s
# needs: fault_points
use SnowflakeTest;
use Time::HiRes qw(usleep);
use FaultPoints;

my %call = (node => 'snowflake_nextval()', shard => 'snowflake_shard_nextval(3)',
	layout => q{snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:2020-01-01')});
my $copies = 0;
my $mark = 'SELECT last_value FROM snowflake_state.snowflake_mark';

# Return a statement that writes IDs into a file. If it sent them to a client, it would wait
# for that now and then, and so see that the postmaster is gone.
sub endless
{
	my ($call, $file) = @_;

	return qq{COPY (SELECT $call, md5(repeat(n::text, 5000)) FROM (SELECT generate_series(1, 1000000000) AS n) s) TO '$file'};
}

sub ids
{
	my ($file) = @_;

	return slurp_file($file) =~ /^(\d+)\t\w{32}$/mg;
}

# Kill the postmaster, and wait until its other children have ended. Return a copy of its data
# directory, which was started by nobody yet.
sub copy_of_killed
{
	my ($node, @orphans) = @_;
	my ($group) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @children = split ' ', slurp_file("/proc/$group/task/$group/children");
	my $backup = 'killed' . ++$copies;

	$node->kill9;
	foreach my $pid ($group, @children)
	{
		wait_until { !kill 0, $pid } "$pid goes on" if !grep { $_ == $pid } @orphans;
	}
	mkdir $node->backup_dir;
	system_or_bail('cp', '-a', $node->data_dir, $node->backup_dir . "/$backup");
	return server_from($backup, $node, $backup, [ q{snowflake.copy_check = 'warn'} ]);
}

# Return all that is in the WAL of a server.
sub wal
{
	my ($dir) = @_;

	return join "\n", map { slurp_file($_) } sort glob "$dir/pg_wal/0*";
}

# ---- busy sessions ----

my $node = start_server('main', "snowflake.shards = '3'");
my (%file, %session, %pid);
foreach my $kind (sort keys %call)
{
	my $file = $file{$kind} = $node->basedir . "/$kind";

	$session{$kind} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', endless($call{$kind}, $file) ],
		'>', \my $out, '2>', "$file.err");
	wait_until { -s $file } "no IDs of $kind";
	$pid{$kind} = query($node, "SELECT pid FROM pg_stat_activity WHERE query LIKE '%$file'''");
}
my $copy = copy_of_killed($node, values %pid);
my $wal = wal($node->backup_dir . '/killed1');
unlink glob '/dev/shm/snowflake.*' or die "no entries: $!";	# as on another machine
$copy->start;
my $found = query($copy, $mark);
wait_for_clock($copy, $found);
foreach my $kind (sort keys %call)
{
	my %of_copy = map { $_ => 1 } split /\n/, query($copy, "SELECT $call{$kind} FROM generate_series(1, 100000)");
	my @ids = ids($file{$kind});

	cmp_ok(scalar(grep { $of_copy{$_} } @ids), '==', 0, "$kind: none of " . @ids . ' IDs is there twice');
	wait_until { !kill 0, $pid{$kind} } 'it goes on';
	eval { $session{$kind}->finish };
	# a session that sleeps ends without a word
	like(slurp_file("$file{$kind}.err"), qr/FATAL:  terminating connection due to unexpected postmaster exit|server closed the connection/, '... and it ends');
}
cmp_ok(epoch_ms((ids($file{node}))[-1]), '<', $found, 'their IDs are below the mark that the copy has found');
ok($wal eq wal($node->data_dir), 'and they have written no WAL since');
$copy->stop;

# ---- one that has written a mark, and not published it ----

$node = start_server('frozen');
query($node, $next);
wait_for_clock($node, query($node, $mark));
my $file = $node->basedir . '/ids';
my $victim = start_one($node, 'mark-inserted stop', \my $out, \my $err, endless($call{node}, $file));
my $pid = wait_for_stopped($node, 'COPY', $victim);
$copy = copy_of_killed($node, $pid);
$copy->start;
refused($copy, $next, '55000', qr/and has taken node id 1: it keeps that until it is stopped/,
	'a copy on the same machine sees a session that has outlived its postmaster');
$copy->stop;
go_on($victim, $pid);
like($err, qr/FATAL:  terminating connection due to unexpected postmaster exit/, 'a session that has written a mark ends');
is(-s $file, 0, '... and publishes none that no copy has');
done_testing();
