# Two servers, and later three, write one table. They lease their node ids and use the
# server's own logical replication, as doc/active-active.md says. In the end all
# servers have the same rows, the feed (doc/feeds.md) comes to the last row on each of
# them, and none has met a conflict. Needs PostgreSQL 17.
#
# takes: 60 s
# needs: server_17
use SnowflakeTest;
use IdChecker;
use Load;

my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->start;
query($registry, 'CREATE EXTENSION snowflake_registry; SELECT snowflake_registry.init()');

my $checker = IdChecker->new($registry->basedir . '/ids');
my $table = 'CREATE TABLE orders (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL, made_on text NOT NULL)';
my %loads;

sub new_writer
{
	my ($name) = @_;
	my $node = new_server($name, "snowflake.node_id = ''",
		sprintf("snowflake.registry = 'postgresql:///postgres?host=%s&port=%d'",
			$registry->host, $registry->port),
		"snowflake.lease_reserve = '60s'", "snowflake.lease_presence = '3s'",
		'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10',
		'max_logical_replication_workers = 10', 'wal_retrieve_retry_interval = 100ms',
		"snowflake.feed_databases = 'postgres'", "snowflake.feed_interval = '100ms'");

	$node->start;
	query($node, "CREATE EXTENSION snowflake; $table; SELECT snowflake_create_feed();
		CREATE PUBLICATION orders FOR TABLE orders, snowflake_feed");
	return $node;
}

# Let $to receive what is written on $from.
sub subscribe
{
	my ($to, $from, $copy) = @_;

	query($to, sprintf(q{CREATE SUBSCRIPTION %s_from_%s CONNECTION '%s dbname=postgres'
		PUBLICATION orders WITH (origin = none, copy_data = %s)},
			$to->name, $from->name, $from->connstr, $copy));
	return;
}

sub begin_writing
{
	my ($node) = @_;
	my $name = $node->name;

	push @{ $loads{$name} }, map { start_trickle($checker, 'all servers', $node->connstr('postgres'), $_) }
	  "INSERT INTO orders (item, made_on) SELECT md5(n::text), '$name'"
	  . ' FROM generate_series(1, 5) n, pg_sleep(0.002) RETURNING id;',
	  "INSERT INTO orders (item, made_on) VALUES ('one', '$name') RETURNING id;";
	return;
}

# Let this server join the feed of these. No client writes on it before.
sub join_feed
{
	my ($node, @readers) = @_;
	my $servers = 'SELECT array_agg(server ORDER BY server) FROM snowflake_feed_servers';

	query($node, 'SELECT snowflake_publish_horizon()');
	foreach my $reader (@readers)
	{
		wait_until { query($reader, $servers) eq query($node, $servers) }
			$node->name . ' does not join';
		query($node, 'SELECT snowflake_advance('
			  . query($reader, 'SELECT max(horizon) FROM snowflake_feed_servers') . ')');
	}
	return;
}

# Wait until each server has everything that the others have written.
sub wait_for_all
{
	my (@nodes) = @_;

	foreach my $from (@nodes)
	{
		$from->wait_for_catchup($_->name . '_from_' . $from->name)
		  foreach grep { $_ != $from } @nodes;
	}
	return;
}

# Stop the clients and compare the servers. The rows must have as many nodes as there
# were servers.
sub compare
{
	my ($name, @nodes) = @_;
	my @loads = map { @{ $loads{ $_->name } } } @nodes;
	my $seen = 0;

	foreach my $load (@loads)
	{
		is(join(' ', keys %{ $load->finish }), '', "$name: no call has failed")
		  unless $load->{finished}++;
		$seen += $load->count;
	}
	wait_for_all(@nodes);
	my @rows = map { query($_, q{SELECT count(*) || ' ' || count(DISTINCT snowflake_node(id)) || ' '
		|| md5(string_agg(o::text, ',' ORDER BY id)) FROM orders o}) } @nodes;
	is($rows[$_], $rows[0], "$name: " . $nodes[$_]->name . " has the rows of the first: $rows[0]")
	  foreach 1 .. $#rows;
	foreach my $node (@nodes)
	{
		is(query($node, 'SELECT count(horizon) FROM snowflake_feed_servers'),
			@nodes, "$name: the feed on " . $node->name . ' has all servers');
		wait_until { query($node, 'SELECT count(*) FROM orders WHERE id >= snowflake_feed_horizon()') eq '0' }
			'the feed does not go on';
	}
	my ($n, $ids) = split / /, $rows[0];
	# the last ID in a client's output may be incomplete
	cmp_ok($n, '>=', $seen - @loads, "$name: $n rows, of which clients have seen $seen");
	cmp_ok($ids, '>=', @nodes, "$name: by as many nodes as there are servers");
	is(query($_, q{SELECT count(*) FROM pg_stat_subscription_stats s, jsonb_each_text(to_jsonb(s))
		WHERE key ~ '^confl_' AND value::bigint > 0}), '0',
		"$name: " . $_->name . ' has met no conflict') foreach @nodes;
	unlike(slurp_file($_->logfile), qr/conflict|duplicate key/, "$name: nor does its log know of one")
	  foreach @nodes;
	return;
}

# ---- two servers ----

my ($a, $b) = map { new_writer($_) } qw(a b);
subscribe($a, $b, 'false');
subscribe($b, $a, 'false');
join_feed($a, $b);
join_feed($b, $a);
begin_writing($_) foreach $a, $b;
$_->more(2000) foreach grep { !$_->{finished} } map { @$_ } values %loads;
compare('two', $a, $b);

# ---- a third server joins, while no client writes ----

my $c = new_writer('c');
subscribe($c, $a, 'true');
$c->wait_for_subscription_sync($a, 'c_from_a');
subscribe($c, $b, 'false');
subscribe($_, $c, 'false') foreach $a, $b;
join_feed($c, $a, $b);
begin_writing($_) foreach $a, $b, $c;
$_->more(2000) foreach grep { !$_->{finished} } map { @$_ } values %loads;

# One server crashes, and goes on with another node id.
my $node_id = lease_of($b, 'node_id');
$b->stop('immediate');
$_->{finished}++ || $_->finish foreach @{ $loads{b} };
$b->start;
wait_for_lease($b, q{state = 'held'});
isnt(lease_of($b, 'node_id'), $node_id, 'a crash: another node id');
begin_writing($b);
$loads{b}[-1]->more(2000);
compare('three', $a, $b, $c);

$checker->clients;
$_->stop foreach $a, $b, $c, $registry;
done_testing();
