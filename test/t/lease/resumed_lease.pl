# A server with a pinned, leased node id is killed. It resumes the lease at once, and no
# copy of it does.
#
# takes: 15 s
use SnowflakeTest;
use Time::HiRes qw(usleep);
use LeaseTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);

# The reserve is longer than the test, so waiting helps no server.
my @pinned = ("snowflake.node_id = '1'", "snowflake.reserve = '100ms'",
	"snowflake.lease_reserve = '1h'", "snowflake.lease_presence = '1h'");
my $a = start_holder('a', @pinned);
wait_for_lease($a, q{state = 'held'});
is(lease_of($a, 'node_id'), 1, 'the node id that is pinned');
foreach my $database ('other', 'quiet')
{
	query($a, "CREATE DATABASE $database");
	query($a, 'CREATE EXTENSION snowflake; SELECT snowflake_nextval()', database => $database);
}

sub ids_in
{
	my ($database, $n) = @_;
	my @ids = split /\n/, query($a,
		"SELECT snowflake_nextval() FROM generate_series(1, $n)", database => $database);

	$checker->saw('all servers, node', @ids);
	return @ids;
}

# ---- killed: its next life resumes the lease ----

my $until = lease_of($a, 'until');
my $last = (ids_in('postgres', 5000))[-1];
$a->stop('immediate');
$a->start;
wait_for_lease($a, q{state = 'held' AND problem IS NULL});
is(lease_of($a, 'node_id'), 1, 'a server that was killed takes up its lease');
is(query($a, "SELECT until >= '$until' FROM snowflake_lease()"), 't', 'with what is reserved');
cmp_ok((ids_in('other', 5000))[0], '>', $last, 'IDs of another database begin above those of the life before');
cmp_ok((ids_in('postgres', 5000))[0], '>', $last, 'and those of the same one');

# Meanwhile the clock was set back, by less than would be refused. The mark of a quiet
# database does not cover the IDs of the other ones.
$last = (ids_in('postgres', 5000))[-1];
$a->stop('immediate');
start_with_clock($a, -4);
wait_for_lease($a, q{state = 'held'});
cmp_ok((ids_in('quiet', 5000))[0], '>', $last, 'also with a clock that was set back');
$a->stop('immediate');
$a->start;
wait_for_lease($a, q{state = 'held'});

# Only the worker ends; then it crashes, and the whole server with it.
my $pid = lease_of($a, 'pid');
kill 'TERM', $pid;
wait_for_lease($a, "state = 'held' AND pid <> $pid");
ids_in('postgres', 100);
alter_system($a, 'SET restart_after_crash = on');
my $from = -s $a->logfile;
$pid = lease_of($a, 'pid');
kill 'KILL', $pid;
wait_for_restart($a, $from);
wait_for_lease($a, "state = 'held' AND pid <> $pid");
ids_in($_, 100) foreach 'other', 'postgres';
pass('a worker that has crashed');

# ---- copies do not resume it ----

# A backup of the running server. It starts when the original is down, so only its own
# checks keep it from the slot.
$a->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($a, 'copy');
$a->stop('immediate');
$copy->append_conf('postgresql.conf', "snowflake.lease_wait = 0\n");
$copy->start;
wait_for_lease($copy, q{problem ~ 'Slot 1 is held by'});
refused($copy, $next, '55000', qr/$none.*Slot 1 is held by another server, "\S+"\.\nHINT:  Leave that one running\./s, 'a base backup does not take it up');

# A copy of all files, also of those that no backup has.
my $clone = PostgreSQL::Test::Cluster->new('clone');
my $dir = $clone->data_dir;
system_or_bail('mkdir', '-p', $clone->basedir);
system_or_bail('cp', '-a', $a->data_dir, $dir);
ok(-e "$dir/global/pgsql_tmp/snowflake_lease", 'a copy of all files');
unlink "$dir/postmaster.pid";
$clone->append_conf('postgresql.conf', sprintf("port = %d\nsnowflake.lease_wait = 0\n", $clone->port));
$clone->start;
wait_for_lease($clone, q{problem ~ 'Slot 1 is held by'});
refused($clone, $next, '55000', qr/$none.*Slot 1 is held by/s, 'nor does that');

# The original is in its old place.
$a->start;
wait_for_lease($a, q{state = 'held'});
ids_in($_, 100) foreach 'other', 'postgres';
like(lease_of($_, 'problem'), qr/Slot 1 is held by/, $_->name . ' waits on') foreach $copy, $clone;
$_->stop foreach $copy, $clone;

# ---- leases that do not belong to this life any more ----

# An administrator has released it, so another server may have had it since.
$a->stop('immediate');
is(query($registry, 'SELECT snowflake_registry.release(1)'), 't', 'release');
$a->start;
wait_for_lease($a, q{problem ~ 'Slot 1 is reserved until'});
$a->stop('immediate');

# Set the slot as if its holder had gone long ago. A slot that has vanished would be a
# registry that has lost data.
my $free = q{UPDATE snowflake_registry.slot SET released = true, present = 0, until = 0};

# Another history: the server was promoted.
query($registry, $free);
$a->start;
wait_for_lease($a, q{state = 'held'});
$a->stop('immediate');
$a->set_standby_mode;
$a->start;
$a->promote;
wait_for_lease($a, q{problem ~ 'Slot 1 is still held by the last run of this server'});
pass('one that was promoted does not take up what was leased before');

# A clean stop gives the lease back, so there is none to resume.
query($registry, $free);
wait_for_lease($a, q{state = 'held'});
ids_in($_, 100) foreach 'other', 'postgres';
$a->stop;
is(query($registry, 'SELECT released FROM snowflake_registry.slots()'), 't', 'a clean stop gives it back');

# ---- the file that resumes it cannot be written ----

my $file = $a->data_dir . '/global/pgsql_tmp/snowflake_lease';

unlink $file or die "$file: $!";
mkdir $file or die "$file: $!";
$from = -s $a->logfile;
$a->start;
wait_for_lease($a, q{state = 'held'});
ids_in($_, 100) foreach 'other', 'postgres';
like_log($a, qr/SF403: could not write file "global\/pgsql_tmp\/snowflake_lease"\n.*DETAIL:  After a crash, this server gets its node id again only when/,
	$from, 'the log says so, and what follows');
rmdir $file or die "$file: $!";
set_lease($a, 'reserve', 7_200_000);
usleep(100_000) until -f $file;
pass('it is written when that is possible again');
$a->stop;
$registry->stop;
$checker->clients;
done_testing();
