# Servers that follow another one: promoted standbys, an old primary that is rewound
# and promoted again, recoveries to the past, and a copy that runs beside its original.
# Their clocks are behind.
#
# takes: 50 s
use SnowflakeTest;
use Time::HiRes qw(time);
use File::Copy;
use IdChecker;
use Load;

my $all = 'SELECT id FROM t UNION ALL SELECT id FROM s';
my $behind = qr/wall clock is [\w ]+ behind the mark of this database/;

# With the first lag, the clock of the new server goes through the same times as that
# of the old one. The second lag is longer than a call waits.
my @lags = (1, 3600);

# Clients pause for this long, where they run for many seconds until a backup is taken
# or a mark is passed. There the times matter, and not the number of IDs.
my $pace = 0.02;

sub new_primary
{
	my ($name, @settings) = @_;
	my $node = new_server($name, "snowflake.shards = '3-4'",
		'wal_log_hints = on', 'wal_keep_size = 1GB', 'max_wal_senders = 10', @settings);

	start_with_clock($node, 0);
	query($node, 'CREATE EXTENSION snowflake; ' . load_tables());
	return $node;
}

# Make a streaming standby. These settings come last, so they win.
sub new_standby
{
	my ($primary, $name, @settings) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);

	$primary->backup($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	$standby->append_conf('postgresql.conf', join("\n", @settings, ''));
	start_with_clock($standby, 0);
	return $standby;
}

# Run clients on a server whose clock lags. Their calls wait, or are refused until the
# clock is right.
sub load_behind
{
	my ($node, $checker, $group, $lag, $name, $shard) = @_;

	if ($lag > 3)
	{
		refused($node, $next, '58000', $behind,
			"$name: refused while the clock is $lag s behind");
		set_clock($node, 0);
	}
	my $load = start_load($checker, $group, $node->connstr('postgres'), 8, $shard);
	$load->more(5000);
	is_deeply($load->finish, {}, "$name: then it goes on");
	return;
}

# Commit a row, and return when a crash does not lose it. Half of the load's rows are
# of asynchronous commits.
sub keep_row
{
	my ($node, $checker, $group) = @_;

	$checker->saw("$group, node", query($node, 'INSERT INTO t DEFAULT VALUES RETURNING id'));
	return;
}

# Check the tables of the old primary. It is started alone, and stays up.
sub alone
{
	my ($node, $checker, $name) = @_;

	start_with_clock($node, 0);
	$checker->state($name, $node, 'postgres', $all);
	return;
}

# The primary ends under load, and its standby takes over. If the standby is
# synchronous or has its own node id, no client sees an ID twice. If it is asynchronous
# and has the same node id, only the database never has an ID twice.
foreach my $sync (1, 0)
{
	foreach my $lag (@lags)
	{
		my $name = ($sync ? 'synchronous' : 'asynchronous') . ", $lag s behind";
		my $word = $sync ? 'sync' : 'async';
		my $primary = new_primary("primary_$word$lag");
		my $standby = new_standby($primary, "standby_$word$lag");
		my $checker = IdChecker->new($standby->basedir . '/ids');

		if ($sync)
		{
			alter_system($primary, "SET synchronous_standby_names = '*'");
			$primary->poll_query_until('postgres', q{
				SELECT count(*) = 1 FROM pg_stat_replication
				WHERE sync_state = 'sync'}) or die 'not synchronous';
		}
		my $load =
		  start_load($checker, $name, $primary->connstr('postgres'), 8);
		$load->more(5000);
		keep_row($primary, $checker, $name);
		$primary->stop('immediate');
		$load->finish;
		set_clock($standby, -$lag);
		$standby->promote;
		load_behind($standby, $checker,
			$sync ? $name : "$name, after it", $lag, $name);
		$checker->state("$name, tables", $standby, 'postgres', $all);
		alone($primary, $checker, "$name, tables of the old primary");
		$primary->stop('immediate');
		$checker->clients;
		$checker->states;
		$checker->forget;

		# the old primary follows the new one, and takes over again
		next if $sync;
		query($standby, 'CHECKPOINT');
		my $conf = slurp_file($primary->data_dir . '/postgresql.conf');
		my ($out, $err) = run_command(
			[
				'pg_rewind', '--target-pgdata', $primary->data_dir,
				'--source-server', $standby->connstr('postgres')
			]);
		like($err, qr/Done!/, 'the old primary is rewound');
		unlink $primary->data_dir . '/postgresql.conf';
		append_to_file($primary->data_dir . '/postgresql.conf', $conf);
		$primary->enable_streaming($standby);
		start_with_clock($primary, 0);
		my $again =
		  start_load($checker, 'back', $standby->connstr('postgres'), 8);
		$again->more(5000);
		$standby->stop('fast');
		$again->finish;
		set_clock($primary, -$lag);
		$primary->promote;
		load_behind($primary, $checker, 'back', $lag, "promoted back, $lag s behind");
		$checker->state("promoted back, $lag s behind, tables", $primary, 'postgres', $all);
		$checker->clients;
		$checker->states;
		$primary->stop;
	}
}

# Asynchronous standbys that never got the last WAL. Each is promoted when the old
# primary is gone, with its clock at the times of that primary's IDs. If a standby has
# its own node id and shards, no client gets an old ID from it. If it has the
# primary's, only the database never has an ID twice.
{
	my $primary = new_primary('primary_lost');
	my @standbys = map { {%$_, server => new_standby($primary, "standby_$_->{node}_$_->{lag}",
			"snowflake.node_id = '$_->{node}'",
			"snowflake.shards = '$_->{shard}-" . ($_->{shard} + 1) . "'")} } (
		{ node => 1, shard => 3, lag => 1 },
		{ node => 1, shard => 3, lag => 60 },
		{ node => 2, shard => 5, lag => 1 },
		{ node => 3, shard => 7, lag => 60 });
	my $checker = IdChecker->new($primary->basedir . '/ids');
	my $insert = 'INSERT INTO t DEFAULT VALUES RETURNING id';
	my $load = start_load($checker, 'lost WAL', $primary->connstr('postgres'), 8, undef, $pace);

	$load->more(2000);
	foreach my $standby (map { $_->{server} } @standbys)
	{
		alter_system($standby, "SET primary_conninfo = ''");
		$standby->poll_query_until('postgres',
			'SELECT count(*) = 0 FROM pg_stat_wal_receiver') or die 'still streaming';
	}

	# until the clock has passed the marks that the standbys have
	wait_for_clock($primary, query($primary, 'SELECT last_value + 6000 FROM snowflake_state.snowflake_mark'));
	$load->more(2000);
	my $lost = query($primary, $insert);
	$checker->saw('lost WAL, node', $lost);
	$primary->stop('immediate');
	$load->finish;

	foreach (@standbys)
	{
		my ($standby, $lag) = @$_{qw(server lag)};
		my $name = "lost WAL, node $_->{node}, $lag s behind";
		my $group = $_->{node} == 1 ? "$name, after it" : 'lost WAL';

		$standby->promote;
		my $found = query($standby, 'SELECT last_value FROM snowflake_state.snowflake_mark') / 1000;
		set_clock($standby, $found - $lag - time());
		$load = start_load($checker, $group, $standby->connstr('postgres'), 8, $_->{shard});
		if ($lag > 3)
		{
			refused($standby, $next, '58000', $behind, "$name: refused");
			set_clock($standby, $found - time());
		}
		query($standby, 'INSERT INTO t SELECT FROM generate_series(1, 200)');
		$load->more(5000);
		my $errors = $load->finish;
		delete $errors->{58000} if $lag > 3;
		is_deeply($errors, {}, "$name: then it goes on");
		cmp_ok(query($standby, "SELECT count(*) FROM t WHERE snowflake_node(id) = $_->{node}
				AND snowflake_timestamp(id) >= to_timestamp($found)
				AND snowflake_timestamp(id) < snowflake_timestamp($lost)"),
			'>', 100, "$name: IDs are made at the times of the old life");
		is(query($standby, "SELECT count(*) FROM t WHERE id = $lost"), 0,
			"$name: a row that was committed is lost");
		$checker->state("$name, tables", $standby, 'postgres', $all);
		$standby->stop;
	}
	alone($primary, $checker, 'lost WAL, tables of the old primary');
	is(query($primary, "SELECT count(*) FROM t WHERE id = $lost"), 1,
		'the old primary has the row that was lost');
	$primary->stop;
	$checker->clients;
	$checker->states;
}

# A standby that applies WAL late is promoted, and applies first what it has. A copy
# runs beside its original, with its own node id and shards. A recovery ends in the
# middle of the load; it too has its own.
{
	my $primary = new_primary('primary');
	my $checker = IdChecker->new($primary->basedir . '/ids');

	$primary->backup('past');
	my $load = start_load($checker, 'all', $primary->connstr('postgres'), 8, undef, $pace);
	my $delayed = new_standby($primary, 'delayed',
		"recovery_min_apply_delay = '1h'");
	my $beside = PostgreSQL::Test::Cluster->new('beside');
	$primary->backup('beside');
	$beside->init_from_backup($primary, 'beside');
	$beside->append_conf('postgresql.conf',
		"snowflake.node_id = '2'\nsnowflake.shards = '5-6'\n");
	start_with_clock($beside, -1);
	my $second =
	  start_load($checker, 'all', $beside->connstr('postgres'), 8, 5, $pace);
	$load->more(5000);
	$second->more(5000);
	is_deeply($second->finish, {}, 'a copy beside its original: no errors');
	$checker->state('beside, tables', $beside, 'postgres', $all);
	$beside->stop;

	my $middle = query($primary, 'SELECT pg_current_wal_insert_lsn()');
	$load->more(5000);
	keep_row($primary, $checker, 'all');
	# otherwise the WAL after that point might not be on disk yet
	query($primary, 'CHECKPOINT');
	$primary->stop('immediate');
	$load->finish;

	set_clock($delayed, -3600);
	$delayed->promote;
	load_behind($delayed, $checker, 'all', 3600, 'a standby that applied late');
	$checker->state('delayed, tables', $delayed, 'postgres', $all);
	$delayed->stop('immediate');
	alone($primary, $checker, 'tables of the old primary');
	$primary->stop('immediate');

	my $recovered = PostgreSQL::Test::Cluster->new('recovered');
	$recovered->init_from_backup($primary, 'past', has_restoring => 1,
		standby => 0);
	$recovered->append_conf('postgresql.conf', qq{
recovery_target_lsn = '$middle'
recovery_target_timeline = 'current'
recovery_target_action = 'promote'
snowflake.node_id = '3'
snowflake.shards = '7-8'
# its WAL is all there
restore_command = 'false'
});
	copy($_, $recovered->data_dir . '/pg_wal') or die "$_: $!"
	  foreach glob($primary->data_dir . '/pg_wal/0*');
	start_with_clock($recovered, -3600);
	$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()')
	  or die 'no end of recovery';
	load_behind($recovered, $checker, 'all', 3600, 'a recovery to the past', 7);
	$checker->state('recovered, tables', $recovered, 'postgres', $all);
	$recovered->stop('immediate');

	$checker->clients;
	$checker->states;
}

done_testing();
