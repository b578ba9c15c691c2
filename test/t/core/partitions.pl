# Partitions: two sessions at a time, servers that do not preload the library, and
# names in UTF-8.
#
# takes: 10 s
use SnowflakeTest;

my $node = new_server('main');
my $create = q{SELECT snowflake_create_partitions('orders', '1 month',
	'2026-11-01+00', %s)};
my $november = sprintf($create, q{'2026-12-01+00'});
my $december = sprintf($create, q{'2027-01-01+00'});
my $january = sprintf($create, q{'2027-02-01+00'});

$node->start;
query($node, q{CREATE EXTENSION snowflake;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())
	PARTITION BY RANGE (id)});

# Wait until this many sessions wait for the table's lock.
sub wait_for_waiting
{
	my ($count) = @_;

	$node->poll_query_until('postgres', qq{SELECT count(*) = $count
		FROM pg_locks WHERE relation = 'orders'::regclass AND NOT granted})
	  or die "there are not $count sessions that wait";
	return;
}

sub send_statement
{
	my ($session, $statement) = @_;

	$session->query_until(qr/sent/, "\\echo sent\n$statement;\n\\echo done\n");
	return;
}

# Return the partitions that a session has made, after it was sent a statement.
sub made
{
	my ($session) = @_;
	my $made = $session->query_until(qr/done/, '');

	$session->quit;
	# an error ends psql
	return 'failed' unless $made =~ /done/;
	return join ' ', $made =~ /(orders_\w+)/g;
}

# Let a second session wait for the first one, which then ends in this way.
sub race
{
	my ($statement, $end) = @_;
	my $first = $node->background_psql('postgres');
	my $second = $node->background_psql('postgres');

	$first->query_safe("BEGIN; $statement");
	send_statement($second, $statement);
	wait_for_waiting(1);
	$first->query_safe($end);
	$first->quit;
	return made($second);
}

# Let a second session wait for the first one, which drops a partition that both want
# to drop.
sub race_to_drop
{
	my ($statement) = @_;
	my $first = $node->background_psql('postgres');
	my $second = $node->background_psql('postgres');

	is($first->query_safe("BEGIN; $statement"), 'public.orders_p2024_03', 'the first drops it');
	send_statement($second, $statement);
	wait_for_waiting(1);
	$first->query_safe('COMMIT');
	$first->quit;
	return made($second);
}

is(race($november, 'ROLLBACK'), 'orders_p2026_11',
	'the first session rolls back: the second makes the partition');
is(race($december, 'COMMIT'), '',
	'the first session commits: the second finds its partition');

# Many sessions find at the same moment that the same partitions are missing.
query($node, 'CREATE TABLE busy (id bigint) PARTITION BY RANGE (id)');
$node->pgbench(
	'--no-vacuum --client=8 --transactions=50',
	0, [qr/processed: 400\/400/], [qr/^$/],
	'of sessions that miss the same partition none fails',
	{
		partitions => q{\set day random(0, 49)
SELECT count(*) FROM snowflake_create_partitions('busy', '1 day',
	timestamptz '2027-01-01+00' + :day * interval '24 hours',
	timestamptz '2027-01-03+00' + :day * interval '24 hours');
}
	});
cmp_ok(query($node, q{SELECT count(*) FROM snowflake_partitions('busy')}),
	'>', 40, 'there are many partitions then');

# Sessions that read and write are disturbed only if a partition is missing.
my $writer = begin_session($node,
	q{BEGIN; INSERT INTO orders VALUES (snowflake_min_id('2026-11-11'))});
is(query($node, "SET lock_timeout = '1ms'; $december"), '',
	'with nothing to do, it waits for no session that writes');
refused($node, "SET lock_timeout = '1ms'; $january",
	'55P03', qr/canceling statement due to lock timeout/,
	'what is missing needs the lock of CREATE TABLE ... PARTITION OF');

# the same for dropping partitions
my $drop = q{SELECT snowflake_drop_partitions('orders', '2024-04-01+00', 'snowflake')};
is(query($node, "SET lock_timeout = '1ms'; $drop"), '',
	'with nothing to drop, it waits for no session that writes');
$writer->query_safe('COMMIT');
query($node, q{SELECT snowflake_create_partitions('orders', '1 month', '2024-03-01+00', '2024-04-01+00');
	CREATE TABLE orders_now PARTITION OF orders FOR VALUES FROM (900000000000000000) TO (MAXVALUE)});
$writer->query_safe('BEGIN; SELECT count(*) FROM orders');
refused($node, "SET lock_timeout = '1ms'; $drop",
	'55P03', qr/canceling statement due to lock timeout/,
	'what is to be dropped needs a lock that waits for those who read');
$writer->query_safe('COMMIT');
$writer->quit;
is(race_to_drop($drop), '', 'of two sessions that drop the same partition, one drops it');
query($node, 'DROP TABLE orders_now');
is(query($node, $january), 'orders_p2027_01', 'and is made when it has that');

# A call that waits for a transaction which sets another layout reads in that layout. In the old
# one, the new rows look old.
query($node, q{CREATE TABLE changed (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	DO $$ BEGIN EXECUTE format('CREATE TABLE changed_rest PARTITION OF changed FOR VALUES FROM (%s) TO (MAXVALUE)', snowflake_min_id(date_trunc('month', now()))); END $$});
foreach my $call ([ q{SELECT count(*) FROM snowflake_drop_partitions('changed', now() - interval '90 days')}, 0 ],
	[ q{SELECT count(*) FROM snowflake_create_partitions('changed', '1 month', now(), now() + interval '2 months')}, 1 ])
{
	my ($statement, $count) = @$call;
	my $first = begin_session($node, q{BEGIN; ALTER TABLE changed ALTER id SET DEFAULT snowflake_nextval('javascript');
		SELECT snowflake_create_partitions('changed', '1 month', now(), now() + interval '1 month');
		INSERT INTO changed SELECT FROM generate_series(1, 1000)});
	my $second = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $statement ], '>', \my $out, '2>&1');

	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'changed'::regclass AND NOT granted}) or die 'it does not wait';
	$first->query_safe('COMMIT');
	$first->quit;
	$second->finish;
	is($out, "$count\n", "a call that waits for another layout: $statement");
	is(query($node, 'SELECT count(*) FROM changed'), 1000, '... loses no row');
	query($node, q{ALTER TABLE changed ALTER id SET DEFAULT snowflake_nextval(); TRUNCATE changed;
		DO $$ DECLARE part text; BEGIN FOR part IN SELECT partition FROM snowflake_partitions('changed') WHERE partition <> 'changed_rest'::regclass LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$});
}

# A name that is too long is cut at the end of a character.
query($node, q{CREATE DATABASE utf8 ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0});
my $name = "\xC3\xA4" x 31;
query($node, qq{SET client_encoding = 'UTF8'; CREATE EXTENSION snowflake;
	CREATE TABLE "$name" (id bigint) PARTITION BY RANGE (id)}, database => 'utf8');
is( query($node, qq{SET client_encoding = 'UTF8';
		SELECT snowflake_create_partitions('"$name"', '1 day', '2026-11-21+00', '2026-11-23+00')},
		database => 'utf8'),
	join("\n", map { '"' . "\xC3\xA4" x 25 . "_p2026_11_$_\"" } 21, 22),
	'a long name is cut between two characters');

# If the library is not preloaded, the call must name a layout.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
refused($node, $january, '55000', qr/must be loaded via shared_preload_libraries/,
	'not preloaded: the configured layout cannot be used');
refused($node, q{SELECT snowflake_partitions('orders')}, '55000',
	qr/must be loaded via shared_preload_libraries/, 'nor for a list');
is( query($node, q{SELECT snowflake_create_partitions('orders', '1 month',
		'2027-01-01+00', '2027-03-01+00', layout => 'snowflake')}),
	'orders_p2027_02', 'but one that is named');
is(query($node, q{SELECT count(*) FROM snowflake_partitions('orders', 'snowflake')}),
	4, 'and for a list');
$node->stop;
done_testing();
