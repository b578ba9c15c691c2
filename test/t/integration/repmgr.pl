# Three servers under repmgr: a clone of a standby, switchovers, a failover by repmgrd, a
# split brain, servers that rejoin after pg_rewind, and one that follows another primary.
# Clients run all the time. No ID is made twice, and no server of these is refused.
#
# repmgr calls ssh for a switchover. All servers are on this machine, so a script stands
# in for ssh, and runs the command.
#
# takes: 60 s
# needs: repmgr
use SnowflakeTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use Rivals;

my $user = getpwuid($>);
my $dir = PostgreSQL::Test::Utils::tempdir();
my ($bindir) = map { chomp; $_ } `"$ENV{PG_CONFIG}" --bindir`;

mkdir "$dir/bin" or die $!;
append_to_file("$dir/bin/ssh", "#!/bin/sh\nwhile [ \"\${1#-}\" != \"\$1\" ]; do [ \"\$1\" != -o ] || shift; shift; done\nshift\nexec sh -c \"\$*\"\n");
chmod 0755, "$dir/bin/ssh" or die $!;
$ENV{PATH} = "$dir/bin:$ENV{PATH}";

# Return the settings that only this server has.
sub settings
{
	my ($node, $number, $shards) = @_;

	return join("\n", 'port = ' . $node->port, "unix_socket_directories = '" . $node->host . "'",
		"snowflake.node_id = '$number'", "snowflake.shards = '" . $shards->($number) . "'", '');
}

sub conninfo
{
	my ($node) = @_;

	return 'host=127.0.0.1 port=' . $node->port . " user=$user dbname=postgres connect_timeout=5";
}

# Write repmgr's configuration for a server.
sub configure
{
	my ($node, $number) = @_;
	my $file = $node->basedir . '/repmgr.conf';
	my $repmgr = "$bindir/repmgr -f $file";

	append_to_file($file, join("\n", "node_id=$number", "node_name='" . $node->name . "'",
		"conninfo='" . conninfo($node) . "'", "data_directory='" . $node->data_dir . "'",
		"pg_bindir='$bindir'", "pg_ctl_options='-l " . $node->logfile . "'", 'failover=automatic',
		"promote_command='$repmgr standby promote'", "follow_command='$repmgr standby follow --upstream-node-id=%n'",
		'reconnect_attempts=1', 'reconnect_interval=1', 'monitor_interval_secs=1', ''));
	return;
}

# Run repmgr for a server. Its output may be that of a server which it starts.
sub repmgr
{
	my ($node, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/repmgr.log";
	my $line = join ' ', map { "'$_'" } "$bindir/repmgr", '-f', $node->basedir . '/repmgr.conf', @command;

	is(system("$line >>'$log' 2>&1 </dev/null"), 0, $node->name . ": repmgr @command[0, 1]")
	  or die slurp_file($log);
	$node->_update_pid(-1);
	return;
}

# Start repmgrd for a server, and wait until it watches the primary.
sub watch_from
{
	my ($node) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/repmgrd-" . $node->name . '.log';
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>>', $log or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec "$bindir/repmgrd", '-f', $node->basedir . '/repmgr.conf', '--daemonize=false', '--no-pid-file'
		  or POSIX::_exit(1);
	}
	wait_until { -e $log && slurp_file($log) =~ /monitoring connection to upstream/ } "see $log";
	return $pid;
}

# Rewind a server, and let it follow.
sub rejoin
{
	my ($node, $primary) = @_;

	repmgr($node, 'node', 'rejoin', '-d', conninfo($primary), '--force-rewind', '--config-files=postgresql.conf',
		'--config-archive-dir=' . $node->basedir);
	ok(!is_primary($node), 'it is rewound, and follows');
	return;
}

sub is_primary
{
	my ($node) = @_;

	return query($node, 'SELECT NOT pg_is_in_recovery()') eq 't';
}

sub play
{
	my ($name, $own_shards, $shards) = @_;
	my $rivals = Rivals->new;
	my @nodes = map { PostgreSQL::Test::Cluster->new("$name$_") } 1 .. 3;
	my ($one, $two, $three) = @nodes;

	configure($nodes[ $_ - 1 ], $_) foreach 1 .. 3;
	$one->init(allows_streaming => 1);
	$one->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'snowflake, repmgr'",
		"listen_addresses = '127.0.0.1'", 'wal_log_hints = on', 'wal_keep_size = 1GB', 'max_connections = 60',
		settings($one, 1, $shards)));
	$one->start;
	query($one, 'CREATE EXTENSION snowflake; ' . Load::load_tables());
	repmgr($one, 'primary', 'register');
	$rivals->begin($one);

	# the second one is a clone of the primary, the third one of that standby
	foreach my $number (2, 3)
	{
		my ($from, $node) = @nodes[ $number - 2, $number - 1 ];

		repmgr($node, 'standby', 'clone', '-h', '127.0.0.1', '-p', $from->port, '-U', $user, '-d', 'postgres',
			'--fast-checkpoint', '--upstream-node-id=' . ($number - 1));
		$node->append_conf('postgresql.conf', settings($node, $number, $shards));
		$node->start;
		repmgr($node, 'standby', 'register', '--upstream-node-id=' . ($number - 1));
	}

	# a switchover, and one back; the third one stays below the second, so it never has a
	# record that the second one lacks, which repmgr refuses to let follow
	foreach my $to ($two, $one)
	{
		my ($from) = grep { $_ != $to } $one, $two;

		repmgr($to, 'standby', 'switchover');
		$_->_update_pid(1) foreach @nodes;
		$rivals->end($from, 'a switchover');
		ok(is_primary($to) && !is_primary($from), 'they have changed roles');
		$rivals->begin($to);
	}

	# a failover
	my @daemons = map { watch_from($_) } $two, $three;
	$one->kill9;
	$two->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'nobody is promoted';
	$rivals->end($one, 'a failover');
	$rivals->begin($two);
	$two->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'}) or die 'no standby follows';
	foreach my $pid (@daemons)
	{
		kill 'TERM', $pid;
		waitpid $pid, 0;
	}

	# the old primary is started by mistake: shards that the new one makes are refused
	$one->start;
	ok(is_primary($one) && is_primary($two), 'two primaries');
	$rivals->does($one, 'ids', $own_shards ? 'ids' : 'refused', 'who was primary before');

	# it rejoins, and leads again
	$one->stop;
	rejoin($one, $two);
	$rivals->end($two, 'a rejoin');
	$two->stop;
	repmgr($three, 'standby', 'promote');
	$rivals->begin($three);
	repmgr($one, 'standby', 'follow');
	rejoin($two, $three);
	$three->wait_for_catchup($one, 'replay');
	repmgr($one, 'standby', 'switchover', '--siblings-follow');
	$rivals->end($three, 'the last switchover');
	$rivals->does($one, 'ids', 'ids', 'the first primary, which was rewound');
	foreach my $node (@nodes)
	{
		my @warnings = slurp_file($node->logfile) =~ /(SF40[1-9]|SF50[46])/g;

		is("@warnings", $node == $one && !$own_shards ? 'SF401' : '', $node->name . ': no other warning of a copy');
	}
	$rivals->check;
	return;
}

play('own', 1, sub { my ($n) = @_; 2 * $n . '-' . (2 * $n + 1) });
play('shared', 0, sub { '3-4' });
done_testing();
