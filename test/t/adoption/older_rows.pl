# IDs for rows that are older than the extension, by the recipes of doc/migration.md. A
# million rows get IDs that are distinct, have the order of the rows' times, and equal
# none of the server's IDs.
#
# takes: 15 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my ($section) = slurp_file("$FindBin::RealBin/../../../doc/migration.md")
  =~ /^## IDs for older rows\n(.*?)^## /ms;
my ($plain, $crowded) = $section =~ /^```sql\n(.*?)^```$/msg;
my ($create, $insert) = $plain =~ /^(CREATE TABLE .*?;)\n(INSERT .*;)$/s;

# The time in each ID is its row's time, to the millisecond.
my $same_time = q{date_trunc('milliseconds', created_at) = snowflake_timestamp(id)};

my $node = new_server('main', 'shared_buffers = 128MB');

$node->start;
query($node, 'CREATE EXTENSION snowflake');

# 1,300 of the 1,000,000 rows have the same millisecond. The last rows are from the
# last minutes before now. The order of the times differs from that of the old numbers.
query($node, q{CREATE UNLOGGED TABLE old_orders (number bigint, created_at timestamptz);
	INSERT INTO old_orders SELECT n, now() - (n * 7919::bigint % 999983) * interval '777 us'
	FROM generate_series(1, 998700) n;
	INSERT INTO old_orders SELECT n, '2025-03-30 01:00:00.000+00' FROM generate_series(998701, 1000000) n});
query($node, $create);
query($node, 'INSERT INTO orders (number) SELECT NULL FROM generate_series(1, 50000)');
query($node, $insert);
query($node, 'INSERT INTO orders (number) SELECT NULL FROM generate_series(1, 50000)');

is(query($node, 'SELECT count(*), count(number), count(DISTINCT id) FROM orders'),
	'1100000|1000000|1100000', 'a million rows, and those of the server: no ID twice');
is(query($node, 'SELECT DISTINCT number IS NULL, snowflake_node(id) FROM orders ORDER BY 1'),
	"f|1023\nt|1", 'each of its node');
is(query($node, "SELECT count(*) FROM orders WHERE number IS NOT NULL AND NOT $same_time"),
	'0', 'the IDs say the times of the rows');
my $disorder = q{SELECT count(*) FROM (SELECT (created_at, number) < lag((created_at, number)) OVER (ORDER BY id) AS back
	FROM orders WHERE number IS NOT NULL) o WHERE back};
is(query($node, $disorder), '0', 'their order is that of the times');
is(query($node, q{SELECT max(snowflake_sequence(id)) FROM orders WHERE snowflake_timestamp(id) = '2025-03-30 01:00:00+00'}),
	'1299', 'a crowded millisecond is counted through');

# more rows in one millisecond than it has sequence numbers
query($node, q{TRUNCATE orders, old_orders;
	INSERT INTO old_orders SELECT n, '2025-03-30 01:00:00.000+00'::timestamptz + greatest(0, n - 10000) * interval '10 us'
	FROM generate_series(1, 10300) n;
	INSERT INTO old_orders VALUES (0, '2025-03-30 00:59:59.9999+00'), (10301, '2025-03-30 02:00:00+00')});
refused($node, $insert, '22003', qr/sequence 4096 is out of range 0 to 4095/, 'too many for one tick');
is(query($node, 'SELECT count(*) FROM orders'), '0', 'which inserts nothing');
query($node, $crowded);
is(query($node, 'SELECT count(*), count(DISTINCT id) FROM orders'), '10302|10302',
	'the other form finds room for all, no ID twice');
is(query($node, $disorder), '0', 'in the order of the times');
is(query($node, 'SELECT max(snowflake_timestamp(id) - created_at) FROM orders'),
	'00:00:00.002', 'some of them milliseconds later');
is(query($node, "SELECT count(*) FROM orders WHERE number IN (0, 10301) AND $same_time"), '2',
	'and none that had room');
$node->stop;
done_testing();
