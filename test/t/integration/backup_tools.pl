# Recovery to a point in time with pgBackRest and with Barman: beside the server that was
# backed up, on another host, twice, and in place. Clients run on all servers. No ID is
# made twice: a server refuses IDs that another one makes.
#
# takes: 40 s
# part pgbackrest: pgbackrest
# part barman: barman rsync
use SnowflakeTest;
use PostgreSQL::Test::Cluster;
use Load;
use Rivals;
use File::Path qw(remove_tree);

my ($bindir) = map { chomp; $_ } `"$ENV{PG_CONFIG}" --bindir`;
my $log = "$PostgreSQL::Test::Utils::log_path/tools.log";

# Run a command of a tool.
sub run_tool
{
	my (@command) = @_;
	my $line = join ' ', map { "'$_'" } @command;

	system("$line >>'$log' 2>&1 </dev/null") == 0 or die "$line:\n" . slurp_file($log);
	return;
}

# Each tool writes its configuration, and returns its archive_command, how it makes a
# backup, and how it restores one as of a time into a directory.
my %tools = (
	pgbackrest => sub {
		my ($node, $home) = @_;
		my @tool = ('pgbackrest', "--config=$home/conf", '--stanza=main');

		mkdir "$home/$_" or die $! foreach 'repo1', 'log', 'lock', 'spool';
		append_to_file("$home/conf", join("\n", '[global]', (map { "$_-path=$home/$_" } 'repo1', 'log', 'lock', 'spool'),
			'compress-type=none', 'start-fast=y', 'log-level-console=info',
			'[main]', 'pg1-path=' . $node->data_dir, 'pg1-port=' . $node->port, 'pg1-socket-path=' . $node->host, ''));
		return {
			archive => "@tool archive-push %p",
			backup => sub { run_tool(@tool, $_) foreach 'stanza-create', 'backup' },
			restore => sub {
				my ($time, $to, @options) = @_;

				run_tool(@tool, 'restore', "--pg1-path=$to", '--type=time', "--target=$time", '--target-action=promote',
					-e "$to/PG_VERSION" ? '--delta' : ());
			},
		};
	},
	barman => sub {
		my ($node, $home) = @_;
		my @tool = ('barman', '-c', "$home/conf");
		my $conninfo = 'host=' . $node->host . ' port=' . $node->port . ' dbname=postgres';

		append_to_file("$home/conf", join("\n", '[barman]', 'barman_user = ' . getpwuid($>), "barman_home = $home",
			"log_file = $log", '[main]', 'description = main', "conninfo = $conninfo", "streaming_conninfo = $conninfo",
			'backup_method = postgres', 'archiver = on', "path_prefix = $bindir", ''));
		return {
			archive => "cp %p $home/main/incoming/%f",
			backup => sub {
				run_tool(@tool, 'switch-wal', '--force', '--archive', 'main');
				run_tool(@tool, 'backup', '--immediate-checkpoint', 'main');
			},
			restore => sub {
				my ($time, $to) = @_;

				run_tool(@tool, 'archive-wal', 'main');
				# newer ones do not restore into a directory that is not empty
				remove_tree($to, { keep_root => 1 });
				run_tool(@tool, 'recover', '--target-time', $time, '--target-action', 'promote', 'main', 'latest', $to);
			},
		};
	});

foreach my $name (sort keys %tools)
{
	next if !part($name);
	my $home = PostgreSQL::Test::Utils::tempdir();
	my $rivals = Rivals->new;
	my $primary = new_server("${name}_primary", "snowflake.shards = '3-4'");
	my $tool = $tools{$name}->($primary, $home);
	my $restored = 0;

	# Restore the backup, and start the server; these settings come last.
	my $restore = sub {
		my ($node, @settings) = @_;

		$tool->{restore}->($primary->{target}, $node->data_dir);
		$node->append_conf('postgresql.conf', join("\n", 'port = ' . $node->port, "unix_socket_directories = '" . $node->host . "'",
			@settings, ''));
		$node->start;
		$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no end of recovery';
		return $node;
	};
	my $beside = sub { $restore->(PostgreSQL::Test::Cluster->new("${name}_" . ++$restored), 'archive_mode = off', @_) };

	$primary->append_conf('postgresql.conf', "archive_mode = on\narchive_command = '$tool->{archive}'");
	run_tool('mkdir', '-p', "$home/main/incoming");
	$primary->start;
	query($primary, 'CREATE EXTENSION snowflake; ' . load_tables());
	$rivals->begin($primary);
	$tool->{backup}->();
	# pgBackRest knows when a backup ended only to the second
	$primary->{target} = query($primary, q{SELECT date_trunc('second', clock_timestamp()) + interval '1 s'});
	$primary->poll_query_until('postgres', "SELECT now() > '$primary->{target}'") or die 'the clock does not get there';
	$rivals->{running}{ $primary->name }{node}->more(100);
	my $wal = query($primary, 'SELECT pg_walfile_name(pg_switch_wal())');
	$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$wal' FROM pg_stat_archiver") or die 'nothing is archived';

	my $does = sub {
		my ($what, $node, $outcome) = @_;

		$rivals->does($node, (split ', ', $outcome), "$name, $what");
		return $node;
	};
	my $strict = "snowflake.copy_check = 'error'";
	my $copy = $beside->();
	foreach my $row (
		# settings, and the name of the host		node and shards
		[ 'beside', '', '', 'refused, refused' ],
		[ 'another host name', '', 'other', 'refused, refused' ],
		[ 'beside, copy_check = error', $strict, '', 'refused, refused' ],
		[ 'another machine, copy_check = error', '', "$home/machine", 'refused, refused' ],
		[ 'another node id', "snowflake.copy_check = 'warn'\nsnowflake.node_id = '2'", '', 'ids, refused' ],
		[ 'another node id and other shards', "snowflake.shards = '5-6'", '', 'ids, ids' ])
	{
		my ($what, $settings, $host, $outcome) = @$row;

		local $ENV{LD_PRELOAD} = preload() if $host;
		local $ENV{SHIM_HOSTNAME} = $host if $host;
		local $ENV{SHIM_MACHINE} = $host if $host =~ /machine/;
		$copy->append_conf('postgresql.conf', $settings);
		$copy->restart if $what ne 'beside';
		$does->($what, $copy, $outcome);
	}
	query($copy, q{SELECT snowflake_accept('copy')});
	$does->('these accepted', $copy, 'ids, ids')->restart;
	$does->('and after a restart', $copy, 'ids, ids')->stop;
	$rivals->check;

	# The primary is gone: one of two that are restored may be its successor.
	$rivals->end($primary, $name);
	$primary->stop;
	my @twins = map { $beside->() } 1, 2;
	$rivals->begin($twins[0]);
	$does->('the second of two, without the primary', $twins[1], 'refused, refused')->stop;
	$rivals->end($twins[0], $name);
	$twins[0]->stop;

	# in place
	$does->('in place', $restore->($primary, 'archive_mode = off'), 'ids, ids');
	$primary->append_conf('postgresql.conf', $strict);
	$primary->restart;
	$does->('in place, copy_check = error', $primary, 'refused, refused');
	query($primary, q{SELECT snowflake_accept('copy')});
	$does->('accepted', $primary, 'ids, ids')->restart;
	$does->('and after a restart', $primary, 'ids, ids')->stop;
	$rivals->check;
}

done_testing();
