# IDs as a service. Sixteen clients take batches from two servers, each behind a
# pgbouncer in transaction mode. One server dies, then the other's pgbouncer, and then
# a clock is set back. All clients go on with the other server, and no ID comes twice.
# The clients are those of examples/with_service.py, and pgbouncer's configuration is
# examples/pgbouncer.ini. Needs pgbouncer and psycopg.
#
# takes: 13 s
# needs: pgbouncer python3 python3-psycopg
use SnowflakeTest;
use IdChecker;
use PgBouncer;
use Time::HiRes qw(time usleep);

my $CLIENTS = 16;

# Calls do not wait for the clock, so a server with a wrong clock refuses at once.
my @node = map {
	new_server("ids$_", "snowflake.node_id = '$_'",
		'snowflake.max_clock_wait = 0')
} 1, 2;
start_with_clock($node[0], 0);
$node[1]->start;
query($_, 'CREATE EXTENSION snowflake') foreach @node;
my @bouncer = map { PgBouncer->new($_)->start } @node;

# ---- state of a session in transaction mode ----

foreach my $i (0, 1)
{
	is( $bouncer[$i]->query('SELECT count(DISTINCT id) || \' of \' || min(snowflake_node(id))
			|| \' to \' || max(snowflake_node(id)) FROM snowflake_nextval_batch(100) id'),
		'100 of ' . ($i + 1) . ' to ' . ($i + 1),
		'a batch through pgbouncer ' . ($i + 1) . ', no ID twice');
}

# one connection to the server, which two clients share
my $narrow = PgBouncer->new($node[0], default_pool_size => 1,
	PgBouncer::version() >= 1.21 ? (max_prepared_statements => 100) : ())->start;
my $id = $narrow->query('SELECT snowflake_nextval()');
is($narrow->query('SELECT snowflake_currval()'), $id,
	'snowflake_currval() is of a connection of pgbouncer\'s: another client\'s ID');

sub pgbench
{
	my ($mode) = @_;
	my $script = "$PostgreSQL::Test::Utils::tmp_check/batch.sql";
	my ($out, $err) = ('', '');

	append_to_file($script, "SELECT snowflake_nextval_batch(100);\n") if !-e $script;
	my $ended = IPC::Run::run([ 'pgbench', '-n', '-c', 4, '-t', 50, '-M', $mode,
			'-f', $script, $narrow->connstr ], '>', \$out, '2>', \$err);
	return $ended && $err !~ /ERROR/ && $out =~ m{actually processed: 200/200} ? 'all' : $err;
}

is(pgbench('simple'), 'all', 'statements as they are');
is(pgbench('extended'), 'all', 'statements with parameters, prepared without a name');
if (PgBouncer::version() >= 1.21)
{
	is(pgbench('prepared'), 'all', 'prepared statements, with max_prepared_statements');
}
else
{
	like(pgbench('prepared'), qr/prepared statement "\w+" (already exists|does not exist)/,
		'prepared statements: not before pgbouncer 1.21');
}

# ---- one of the two servers dies ----

my $dir = "$PostgreSQL::Test::Utils::tmp_check/ids";
my $log = "$PostgreSQL::Test::Utils::log_path/clients.log";
mkdir $dir or die "$dir: $!";
my @file = map { "$dir/$_" } 1 .. $CLIENTS;
my $conninfo = 'postgresql://' . join(',', map { '127.0.0.1:' . $_->port } @bouncer)
  . '/ids?connect_timeout=2&tcp_user_timeout=3000';
my $clients = IPC::Run::start(
	[ '/usr/bin/python3', "$root/test/helpers/service_clients.py", $conninfo, @file ],
	'>', $log, '2>&1');

# Return the nodes of a client's IDs after this many bytes of its file.
sub nodes_behind
{
	my ($file, $bytes) = @_;

	return map { ($_ >> 12) & 1023 } split /\n/,
	  substr(slurp_file($file), $bytes) =~ s/[^\n]*\z//r;
}

# Wait until each client has made ten more batches since the event named $what. Print
# how long it took until each had its first one. Return the nodes in each client's last
# batch.
sub more
{
	my ($what) = @_;
	my $start = time;
	my @size = map { -s $_ // 0 } @file;
	my ($first, @waiting);

	while (@waiting = grep { (-s $file[$_] // 0) < $size[$_] + 20 * 1000 } 0 .. $#file)
	{
		$first //= time - $start
		  if !grep { (-s $file[$_] // 0) <= $size[$_] + 20 * 100 } 0 .. $#file;
		if (time > $start + $PostgreSQL::Test::Utils::timeout_default || !$clients->pumpable)
		{
			fail("$what: all clients get IDs");
			die 'clients ' . join(', ', map { $_ + 1 } @waiting) . " get none:\n" . slurp_file($log);
		}
		usleep(20_000);
	}
	note sprintf('%s: all %d clients have IDs again after %.1f s', $what, $CLIENTS,
		$first // time - $start);
	my %node = map { (nodes_behind($_, -20 * 100))[-1] => 1 } @file;
	return join ' ', sort keys %node;
}

is(more('at first'), '1 2', 'sixteen clients are at both servers');
$node[0]->stop('immediate');
is(more('a server is dead'), '2', 'a server is dead, not its pgbouncer: all are at the other');
start_with_clock($node[0], 0);
$bouncer[1]->kill9;
is(more('a pgbouncer is dead'), '1', 'then the other\'s pgbouncer: all are at the first');
$bouncer[1]->start;
set_clock($node[0], -3600);
is(more('a clock is wrong'), '2', 'a clock is set back: all are at the other');
set_clock($node[0], 0);
$bouncer[1]->kill9;
is(more('it is right again'), '1', 'it is right again, and the other\'s pgbouncer is dead');
$clients->signal('TERM');
eval { $clients->finish };
unlike(slurp_file($log), qr/Traceback/, 'no client was told of an error');

my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/checker");
foreach my $file (@file)
{
	my %ids;

	# the IDs of one node ascend; those of two nodes need not, since the clocks differ
	push @{ $ids{ ($_ >> 12) & 1023 } }, $_
	  foreach split /\n/, slurp_file($file) =~ s/[^\n]*\z//r;
	$checker->saw('the clients of the service', @$_) foreach values %ids;
}
$checker->clients;
$_->stop foreach @node;

done_testing();
