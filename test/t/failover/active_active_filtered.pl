# Two servers, and later three, write one table with the logical replication of
# PostgreSQL 15, which does not have "origin = none". A row filter on the node's bits
# lets each server send only its own rows, as doc/active-active.md says. In the end all
# servers have the same rows, and no row was sent twice. A server whose number the filter
# does not name sends nothing, and says nothing.
#
# takes: 30 s
use SnowflakeTest;
use IdChecker;
use Load;

my ($section) = slurp_file("$root/doc/active-active.md")
  =~ /^## On PostgreSQL 15\n(.*)/ms;
my ($both_numbers) = $section =~ /`(ALTER PUBLICATION .*?)`/s;
my ($publication) = $section =~ /^(CREATE PUBLICATION .*?;)$/ms;
my ($subscription) = $section =~ /^(CREATE SUBSCRIPTION .*?;)$/ms;
my $table = 'CREATE TABLE orders (
	id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text NOT NULL, made_on text NOT NULL)';
my %node_id = (a => 1, b => 2, c => 3);
my ($checker, %loads);

# Return the page's statement with some of its words replaced.
sub changed
{
	my ($statement, %words) = @_;

	foreach my $word (keys %words)
	{
		$statement =~ s/$word/$words{$word}/g or die "\"$word\" is not in: $statement";
	}
	return $statement;
}

sub new_writer
{
	my ($name) = @_;
	my $node = new_server($name, "snowflake.node_id = '$node_id{$name}'",
		'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10',
		'max_logical_replication_workers = 10', 'wal_retrieve_retry_interval = 100ms');

	$node->start;
	query($node, "CREATE EXTENSION snowflake; $table");
	query($node, changed($publication, '= 1\)' => "= $node_id{$name})"));
	return $node;
}

sub subscribe
{
	my ($to, $from) = @_;
	my $name = $to->name . '_from_' . $from->name;

	query($to, changed($subscription, 'a_from_b' => $name,
			'host=b dbname=postgres' => $from->connstr . ' dbname=postgres'));
	$to->wait_for_subscription_sync($from, $name);
	return;
}

sub begin_writing
{
	my ($node) = @_;
	my $name = $node->name;

	$checker ||= IdChecker->new($node->basedir . '/ids');
	push @{ $loads{$name} }, map { start_trickle($checker, 'all servers', $node->connstr('postgres'), $_) }
	  "INSERT INTO orders (item, made_on) SELECT md5(n::text), '$name'"
	  . ' FROM generate_series(1, 5) n, pg_sleep(0.002) RETURNING id;',
	  "INSERT INTO orders (item, made_on) VALUES ('one', '$name') RETURNING id;";
	return;
}

# Stop the clients, wait until each server has everything, and compare the servers.
sub compare
{
	my ($name, @nodes) = @_;
	my $seen = 0;

	foreach my $load (map { @{ $loads{ $_->name } } } @nodes)
	{
		is(join(' ', keys %{ $load->finish }), '', "$name: no call has failed")
		  unless $load->{finished}++;
		$seen += $load->count;
	}
	foreach my $from (@nodes)
	{
		$from->wait_for_catchup($_->name . '_from_' . $from->name)
		  foreach grep { $_ != $from } @nodes;
	}
	my @rows = map { query($_, q{SELECT count(*) || ' ' || count(DISTINCT snowflake_node(id)) || ' '
		|| md5(string_agg(o::text, ',' ORDER BY id)) FROM orders o}) } @nodes;
	is($rows[$_], $rows[0], "$name: " . $nodes[$_]->name . " has the rows of the first: $rows[0]")
	  foreach 1 .. $#rows;
	cmp_ok((split / /, $rows[0])[0], '>=', $seen - 2 * @nodes, "$name: and those that clients have seen");
	is((split / /, $rows[0])[1], scalar @nodes, "$name: of each server");
	is(query($_, q{SELECT count(*) FROM orders WHERE made_on <> chr(96 + snowflake_node(id))}), '0',
		"$name: each row is of the node that made it") foreach @nodes;
	# all kinds of errors that this major counts
	is(query($_, q{SELECT coalesce(sum(value::bigint), 0) FROM pg_stat_subscription_stats s,
		jsonb_each_text(to_jsonb(s)) WHERE key LIKE '%error_count'}), '0',
		"$name: " . $_->name . ' has met no conflict') foreach @nodes;
	unlike(slurp_file($_->logfile), qr/duplicate key/, "$name: nor does its log know of one") foreach @nodes;
	return;
}

# ---- two servers, in both directions ----

my ($a, $b) = map { new_writer($_) } qw(a b);
subscribe($a, $b);
subscribe($b, $a);
begin_writing($_) foreach $a, $b;
$_->more(1000) foreach map { @$_ } values %loads;
compare('two', $a, $b);

# ---- only the server that made a row sends its changes ----

my ($of_a) = query($a, 'SELECT min(id) FROM orders WHERE snowflake_node(id) = 1');
query($a, "UPDATE orders SET item = 'changed on a' WHERE id = $of_a");
$a->wait_for_catchup('b_from_a');
is(query($b, "SELECT item FROM orders WHERE id = $of_a"), 'changed on a', 'a change on its own server is sent');
query($b, "UPDATE orders SET item = 'changed on b' WHERE id = $of_a");
$b->wait_for_catchup('a_from_b');
is(query($a, "SELECT item FROM orders WHERE id = $of_a"), 'changed on a', 'a change on another one is not');
query($a, "DELETE FROM orders WHERE id = $of_a");
$a->wait_for_catchup('b_from_a');
is(query($b, "SELECT count(*) FROM orders WHERE id = $of_a"), '0', 'a deletion is sent, too');

# ---- a third server joins, while the others write: each sends it its own rows ----

begin_writing($_) foreach $a, $b;
my $c = new_writer('c');
subscribe($c, $_) foreach $a, $b;
subscribe($_, $c) foreach $a, $b;
begin_writing($c);
$_->more(1000) foreach grep { !$_->{finished} } map { @$_ } values %loads;
compare('three', $a, $b, $c);

# ---- a number that the filter does not name, as a lease can give it ----

$a->append_conf('postgresql.conf', "snowflake.node_id = '4'");
$a->restart;
# b has found its publisher again
$a->wait_for_catchup('b_from_a');
my @from = map { -s $_->logfile } $a, $b;
query($a, q{INSERT INTO orders (item, made_on) VALUES ('lost', 'a')});
$a->wait_for_catchup('b_from_a');
is(query($b, q{SELECT count(*) FROM orders WHERE item = 'lost'}), '0', 'another number: the row is not sent');
unlike(join('', map { substr(slurp_file(($a, $b)[$_]->logfile), $from[$_]) } 0, 1), qr/ (?:WARNING|ERROR|FATAL):  /,
	'and no log says so');
query($a, $both_numbers);
query($a, q{INSERT INTO orders (item, made_on) VALUES ('sent', 'a')});
$a->wait_for_catchup('b_from_a');
is(query($b, q{SELECT string_agg(item, ' ') FROM orders WHERE item IN ('lost', 'sent')}), 'sent',
	'with a filter that names both, rows are sent, but not those of before');

# ---- without wal_level = logical; from 19 on the server raises it by itself ----

if ($a->pg_version->major < 19)
{
	$a->append_conf('postgresql.conf', 'wal_level = replica');
	query($b, 'DROP SUBSCRIPTION b_from_a');
	query($c, 'DROP SUBSCRIPTION c_from_a');
	$a->restart;
	my ($status, $out, $err) = $a->psql('postgres', 'CREATE PUBLICATION other FOR TABLE orders');
	ok($status == 0 && $err =~ /WARNING:  "?wal_level"? is insufficient/, 'without wal_level = logical, CREATE PUBLICATION only warns');
	refused($b, changed($subscription, 'a_from_b' => 'b_from_a', 'host=b dbname=postgres' => $a->connstr . ' dbname=postgres'),
		'\w{5}', qr/could not create replication slot.* "?wal_level/s, 'and CREATE SUBSCRIPTION fails');
}

$checker->clients;
$_->stop foreach $a, $b, $c;
done_testing();
