# pgcopydb, which copies a database, and pgpool-II in front of two servers: what goes wrong
# with each, and that doc/applications.md says what to write, under "Others that we tried".
#
# takes: 16 s
# part pgcopydb: pgcopydb
# part pgpool: pgpool2
use SnowflakeTest;
use POSIX ();

my ($page) = slurp_file("$root/doc/applications.md") =~ /^### Others that we tried\n(.*?)^### /ms;
my $orders = 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)';

# Return what the page says to write for a tool.
sub line_of
{
	my ($tool) = @_;
	my ($line) = $page =~ /^\|[^|]*\Q$tool\E[^|]*\|[^|]*\|([^|]*)\|$/m;

	return $line // die "the page has no $tool";
}

# ---- pgcopydb ----

# The target is to take its source's place, with its node id, and its clock is behind.
sub check_pgcopydb
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $source = start_server('source');
	my $target = new_server('target');
	my ($option) = line_of('pgcopydb') =~ /`clone (--[a-z-]+)`.*\[`snowflake_recover\(\)`\]/ or die 'the page has another line';

	# Return a tool's status and what it prints. It ends its group of processes on an error.
	my $clone = sub {
		my ($database, @options) = @_;
		my $out = '';

		IPC::Run::run([ 'pgcopydb', 'clone', @options, '--source', $source->connstr('postgres'),
				'--target', $target->connstr($database), '--dir', "$dir/$database" ],
			'<', \'', '>', \$out, '2>&1', init => sub { POSIX::setpgid(0, 0) },
			IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		return ($? >> 8) . ": $out";
	};

	query($source, "$orders; INSERT INTO orders (item) SELECT 'book' FROM generate_series(1, 1000)");
	my $last = query($source, 'SELECT max(id) FROM orders');
	start_with_clock($target, -600);

	query($target, 'CREATE DATABASE bare; CREATE DATABASE made');
	like($clone->('bare'), qr/^12: .*cannot copy to sequence "snowflake_mark"/s, 'pgcopydb fails at the mark');
	query($target, 'CREATE EXTENSION snowflake', database => 'made');
	like($clone->('made', $option), qr/^0: /, "with $option it does not");
	is(query($target, 'SELECT count(*), max(id) FROM orders', database => 'made'), "1000|$last", '... and copies all rows');

	cmp_ok(query($target, $next, database => 'made'), '<', $last, 'before snowflake_recover() the first ID is below the rows');
	query($target, 'SELECT * FROM snowflake_recover()', database => 'made');
	refused_behind($target, $next, 'after it there is none below them', database => 'made');
	set_clock($target, 0);
	cmp_ok(query($target, $next, database => 'made'), '>', $last, '... and the first one is above them');
	$_->stop foreach $source, $target;
	return;
}

# ---- pgpool-II ----

my $pool;

sub stop_pool
{
	my ($signal) = @_;

	if (defined $pool)
	{
		kill $signal, $pool->{pid};
		waitpid $pool->{pid}, 0;
		undef $pool;
	}
	return;
}

END
{
	local $?;
	stop_pool('KILL');
}

# Start a pgpool-II before these servers, the last of which gets all that is balanced, and
# wait until a query succeeds.
sub start_pool
{
	my ($mode, $nodes, @settings) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $user = query($nodes->[0], 'SELECT current_user');
	my %settings = (
		backend_clustering_mode => $mode, listen_addresses => '127.0.0.1',
		port => PostgreSQL::Test::Cluster::get_free_port(), pcp_port => PostgreSQL::Test::Cluster::get_free_port(),
		(map { $_ => $dir } qw(socket_dir pcp_socket_dir wd_ipc_socket_dir logdir)), pid_file_name => "$dir/pid",
		num_init_children => 4, load_balance_mode => 'on', sr_check_period => 0, sr_check_user => $user,
		sr_check_database => 'postgres', health_check_period => 0);

	foreach my $i (0 .. $#$nodes)
	{
		$settings{"backend_hostname$i"} = $nodes->[$i]->host;
		$settings{"backend_port$i"} = $nodes->[$i]->port;
		$settings{"backend_weight$i"} = $i == $#$nodes ? 1 : 0;
	}
	append_to_file("$dir/conf", join("\n", (map { "$_ = '$settings{$_}'" } sort keys %settings), @settings, ''));
	append_to_file("$dir/pcp.conf", '');

	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>>', "$PostgreSQL::Test::Utils::log_path/pgpool.log" or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec '/usr/sbin/pgpool', '-n', '-f', "$dir/conf", '-F', "$dir/pcp.conf" or POSIX::_exit(1);
	}
	$pool = { pid => $pid, connstr => "host=127.0.0.1 port=$settings{port} dbname=postgres user=$user" };
	wait_until { waitpid($pid, POSIX::WNOHANG) == 0 or die 'pgpool ends'; through('SELECT 1') eq '1' } 'pgpool does not start';
	return;
}

# Return the result of a script of psql's through pgpool-II, or the error.
sub through
{
	my ($script) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/script.sql';
	my $out = '';

	append_to_file($file, $script);
	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-d', $pool->{connstr}, '-f', $file ],
		'<', \'', '>', \$out, '2>&1');
	return $out =~ s/\n\z//r;
}

sub check_streaming
{
	my $primary = start_server('primary');
	my ($right) = line_of('pgpool-II 4') =~ /`(primary_routing_query_pattern_list = '[^`]*')`/ or die 'the page has another line';
	my ($wrong) = line_of('pgpool-II 4') =~ /`(write_function_list)`/ or die 'the page has another line';
	my $standby_says = qr/ERROR:  55000: recovery is in progress/;
	my $feed = "SELECT current_setting('cluster_name') FROM orders WHERE id > 0 AND id < %s\nORDER BY id LIMIT 100";
	my @feeds = map { sprintf($feed, $_) } qw(snowflake_horizon() public.Snowflake_horizon());
	my $file = PostgreSQL::Test::Utils::tempdir() . '/feed.sql';

	query($primary, qq{$orders; INSERT INTO orders (item) VALUES ('book'); CREATE SEQUENCE numbers;
		CREATE FUNCTION add_order() RETURNS text LANGUAGE sql VOLATILE AS \$\$
			INSERT INTO orders (item) VALUES ('added'); DELETE FROM orders WHERE item = 'added' RETURNING item \$\$});
	my $standby = standby_of($primary, 'standby');
	$standby->start;
	append_to_file($file, $feeds[0] =~ s/\n/ /r . ";\n");

	start_pool('streaming_replication', [ $primary, $standby ]);
	like(through($_), $standby_says, 'pgpool sends a feed to the standby') foreach @feeds, 'SELECT count(*) FROM snowflake_horizon_holders';
	stop_pool('INT');

	start_pool('streaming_replication', [ $primary, $standby ], "$wrong = 'snowflake_.*'");
	is(through($feeds[0]), 'primary', "$wrong: not that of a listed function");
	like(through($feeds[1]), $standby_says, '... but one with a schema');
	like(through($_), qr/ERROR:  25006: /, "... and, which it did not before: $_") foreach 'SELECT add_order()', q{SELECT nextval('numbers')};
	stop_pool('INT');

	start_pool('streaming_replication', [ $primary, $standby ], $right);
	is(through($_), 'primary', "$right: a feed goes to the primary") foreach @feeds, "PREPARE feed AS $feeds[1]; EXECUTE feed";
	is(through('SELECT count(*) FROM snowflake_horizon_holders'), '0', '... and the view');
	foreach my $mode (qw(simple extended prepared))
	{
		my $out = '';

		IPC::Run::run([ 'pgbench', '-n', '-c', 2, '-t', 5, '-M', $mode, '-f', $file, $pool->{connstr} ], '>', \$out, '2>&1');
		like($out, qr{actually processed: 10/10$}m, "... as a query that is $mode");
	}
	is(through(q{SELECT current_setting('cluster_name') FROM orders}), 'standby', '... and other queries to the standby');
	is(through('SELECT add_order()'), 'added', '... but for a function that writes');
	is(through(q{SELECT nextval('numbers')}), '1', '... and for nextval()');
	like(through('SELECT snowflake_nextval()'), qr/^\d+$/, '... and for an ID');
	stop_pool('INT');
	$_->stop foreach $standby, $primary;
	return;
}

# pgpool-II sends each statement to both servers, and returns what the first says.
sub check_native
{
	my @node = map { start_server("native$_", "snowflake.node_id = '$_'", "default_transaction_isolation = 'repeatable read'") } 1, 2;
	my $read = 'SELECT id FROM orders';

	line_of('native replication') =~ /`SELECT snowflake_nextval\(\)`/ or die 'the page has another line';
	query($_, $orders) foreach @node;
	foreach my $mode (qw(native_replication snapshot_isolation))
	{
		start_pool($mode, \@node);
		my $id = through(q{INSERT INTO orders (item) VALUES ('book') RETURNING id});
		like($id, qr/^\d+$/, "$mode: an INSERT succeeds");
		is(query($node[0], $read), $id, '... with this key on one server');
		isnt(query($node[1], $read), $id, '... and silently with another key on the other');
		query($_, 'TRUNCATE orders') foreach @node;

		$id = through(q{SELECT snowflake_nextval() AS id \gset
			INSERT INTO orders VALUES (:id, 'book') RETURNING id;});
		like($id, qr/^\d+$/, '... one with a key that was fetched before it');
		is(query($_, $read), $id, '... has this key on both: ' . $_->name) foreach @node;
		query($_, 'TRUNCATE orders') foreach @node;
		stop_pool('INT');
	}
	$_->stop foreach @node;
	return;
}

check_pgcopydb() if part('pgcopydb');
if (part('pgpool'))
{
	check_streaming();
	check_native();
}
done_testing();
