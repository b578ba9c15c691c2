# Copies that the server's own tools make, and a machine's: pg_upgrade --link,
# pg_createsubscriber, snapshots of a volume, and a container whose host name changes.
# Clients run on all servers that run. No ID is made twice: a server refuses IDs that
# another one makes, and no other server is refused.
#
# takes: 20 s
# part createsubscriber: server_17
use SnowflakeTest;
use Load;
use PostgreSQL::Test::Cluster;
use Rivals;

my ($bindir) = map { chomp; $_ } `"$ENV{PG_CONFIG}" --bindir`;
my @shards = "snowflake.shards = '3-4'";

# Start a server with clients on it.
sub start_with_clients
{
	my ($rivals, $name, @settings) = @_;
	my $node = start_server($name, @shards, @settings);

	query($node, load_tables());
	$rivals->begin($node);
	return $node;
}

# ---- snapshots of a volume, and the name of a host ----

{
	my $rivals = Rivals->new;
	my $machine = PostgreSQL::Test::Utils::tempdir() . '/machine-id';

	local $ENV{LD_PRELOAD} = preload();
	local $ENV{SHIM_MACHINE} = $machine;
	my $volume = start_with_clients($rivals, 'volume');

	$rivals->end($volume, 'a snapshot');
	$volume->stop;
	$volume->backup_fs_cold('snapshot');
	my @copies = map {
		my $node = PostgreSQL::Test::Cluster->new("snapshot$_");

		$node->init_from_backup($volume, 'snapshot');
		$node;
	} 1, 2;

	# its container is made again, under another name, without a machine ID and with one
	foreach my $row (
		[ 'app-1', '' ],
		[ 'app-2', "snowflake.node_id = 'hostname:ordinal'" ],
		[ 'app-3', '' ],
		[ 'app-4', "snowflake.node_id = '1'", '0123456789abcdef0123456789abcdef' ],
		[ 'app-5', "snowflake.copy_check = 'error'" ],
		[ 'app-6', "snowflake.copy_check = 'warn'" ])
	{
		my ($host, $setting, $id) = @$row;

		append_to_file($machine, "$id\n") if $id;
		local $ENV{SHIM_HOSTNAME} = $host;
		$volume->append_conf('postgresql.conf', $setting);
		$volume->start;
		$rivals->does($volume, 'ids', 'ids', "a host named $host, $setting");
		$volume->stop;
	}
	$volume->start;
	$rivals->begin($volume);
	foreach my $copy (@copies)
	{
		$copy->start;
		$rivals->does($copy, 'refused', 'refused', 'beside its original, ' . $copy->name);
	}
	$_->stop foreach $volume, @copies;
	$rivals->end($volume, 'the original ends');
	$copies[0]->start;
	$rivals->begin($copies[0]);
	$copies[1]->start;
	$rivals->does($copies[1], 'refused', 'refused', 'one snapshot, started twice');
	$copies[1]->append_conf('postgresql.conf', "snowflake.copy_check = 'error'");
	$copies[1]->restart;
	$rivals->does($copies[1], 'refused', 'refused', 'the same, copy_check = error');
	$rivals->check;
	$_->stop foreach @copies;
}

# ---- pg_upgrade --link ----

foreach my $number (1, 2)
{
	my $rivals = Rivals->new;
	my ($old, $new) = map { new_server("${_}_$number", @shards) } 'old', 'new';

	$old->start;
	query($old, 'CREATE EXTENSION snowflake; ' . load_tables());
	$rivals->begin($old);
	$rivals->end($old, 'pg_upgrade');
	$old->stop;
	chdir $new->basedir or die;
	command_ok([ "$bindir/pg_upgrade", '--link', '-b', $bindir, '-B', $bindir, '-d', $old->data_dir, '-D', $new->data_dir,
			'-s', $new->host, '-p', $old->port, '-P', $new->port ], 'pg_upgrade --link');
	$new->append_conf('postgresql.conf', "snowflake.node_id = '$number'");
	$new->start;
	$rivals->begin($new);
	ok(!$old->start(fail_ok => 1), 'the old server does not start');
	$rivals->does($new, 'ids', 'ids', "the new one, node id $number");
	$rivals->end($new, 'pg_upgrade');
	$new->restart;
	$rivals->does($new, 'ids', 'ids', 'after a restart');
	$rivals->check;
	$new->stop;
}

# ---- pg_createsubscriber ----

if (part('createsubscriber'))
{
	my $rivals = Rivals->new;
	my $primary = start_with_clients($rivals, 'publisher', 'wal_level = logical', 'max_wal_senders = 10',
		'max_replication_slots = 10', 'max_worker_processes = 10');
	my $standby = standby_of($primary, 'subscriber', "snowflake.node_id = '2'", "snowflake.shards = '5-6'");

	$standby->start;
	$primary->wait_for_catchup($standby, 'replay');
	$standby->stop;
	command_ok([ "$bindir/pg_createsubscriber", '--pgdata', $standby->data_dir, '--publisher-server', $primary->connstr('postgres'),
			'--socketdir', $standby->host, '--subscriber-port', $standby->port, '--database', 'postgres' ],
		'pg_createsubscriber');
	foreach my $start ('first', 'next')
	{
		$standby->start;
		$rivals->does($standby, 'ids', 'ids', "the subscriber, $start start");
		$standby->stop;
	}
	unlike(slurp_file($standby->logfile), qr/SF40[1-9]|SF50[46]/, 'no warning in all that');
	$rivals->end($primary, 'pg_createsubscriber');
	$rivals->check;
}

done_testing();
