# IDs for rows that are older than the extension, by the recipes of doc/migration.md. A
# million rows get IDs that are distinct, have the order of the rows' times, and equal
# none of the server's IDs. Rows with UUID keys, Baidu's IDs or TiDB's keys get new keys,
# and the rows that refer to them follow.
#
# takes: 25 s
use SnowflakeTest;

my ($section) = slurp_file("$root/doc/migration.md")
  =~ /^## IDs for older rows\n(.*?)^## /ms;
my ($plain, $crowded, $uuid, $baidu, $tidb) = $section =~ /^```sql\n(.*?)^```$/msg;
my ($create, $insert) = $plain =~ /^(CREATE TABLE .*?;)\n(INSERT .*;)$/s;

# The time in each ID is its row's time, to the millisecond.
my $same_time = q{date_trunc('milliseconds', created_at) = snowflake_timestamp(id)};

my $node = start_server('main', 'shared_buffers = 128MB');

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
refused($node, q{SELECT snowflake_compose('2023-12-31 23:59:59Z', 1023, 0)}, '22008', qr/2024-01-01/, 'nor a row from before the layout');
query($node, $crowded);
is(query($node, 'SELECT count(*), count(DISTINCT id) FROM orders'), '10302|10302',
	'the other form finds room for all, no ID twice');
is(query($node, $disorder), '0', 'in the order of the times');
is(query($node, 'SELECT max(snowflake_timestamp(id) - created_at) FROM orders'),
	'00:00:00.002', 'some of them milliseconds later');
is(query($node, "SELECT count(*) FROM orders WHERE number IN (0, 10301) AND $same_time"), '2',
	'and none that had room');

# ---- UUID keys ----

# Create a table, one that refers to it, and one that does so without a foreign key, in a
# new database. Each item says when its row was made.
sub create_tables
{
	my ($database, $type, $rows) = @_;

	query($node, "CREATE DATABASE $database");
	query($node, qq{CREATE EXTENSION snowflake;
		CREATE TABLE orders (id $type PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(), item integer);
		CREATE INDEX ON orders (item);
		GRANT SELECT ON orders TO PUBLIC;
		CREATE TABLE lines (order_id $type CONSTRAINT lines_order_id_fkey REFERENCES orders ON DELETE CASCADE,
			n integer, item integer, PRIMARY KEY (order_id, n), UNIQUE (item, order_id), CHECK (order_id IS NOT NULL));
		CREATE TABLE refunds (order_id $type, item integer);
		INSERT INTO orders (id, created_at, item) $rows;
		INSERT INTO lines SELECT id, 1, item FROM orders;
		INSERT INTO refunds SELECT id, item FROM orders WHERE item % 100 = 0}, database => $database);
	return;
}

# Return the indexes, constraints and grants of the tables, in which "bigint" stands for
# the type of the keys, and no ON UPDATE of the foreign key.
sub properties
{
	my ($database) = @_;
	my $properties = query($node, q{SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname !~ 'uuid|baidu'
		UNION SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
			WHERE conrelid::regclass::text IN ('orders', 'lines') AND contype <> 'n' AND conname !~ 'uuid|baidu'
		UNION SELECT relname || ' ' || relacl::text FROM pg_class WHERE relname = 'orders' ORDER BY 1}, database => $database);

	return $properties =~ s/ ON UPDATE CASCADE//r;
}

# Run a recipe. Check that the tables keep their indexes and constraints, that older rows
# have their order, that each line refers to its order, and that a new row is above all.
sub follows
{
	my ($database, $recipe, $name) = @_;
	my $before = properties($database);

	query($node, $recipe, database => $database);
	is(properties($database), $before, "$name: indexes, constraints and grants stay");
	is(query($node, 'SELECT count(*) FROM (SELECT item < lag(item) OVER (ORDER BY id) AS back FROM orders) o WHERE back', database => $database),
		'0', "$name: the order of the keys is that of the rows");
	is(query($node, q{SELECT count(*), count(*) FILTER (WHERE o.item = l.item) FROM orders o LEFT JOIN lines l ON o.id = order_id}, database => $database),
		'55000|55000', "$name: the rows that refer to them follow");
	is(query($node, q{SELECT count(*) FROM orders o JOIN refunds r ON o.id = order_id AND o.item = r.item}, database => $database),
		'550', "$name: those without a foreign key, too");
	refused($node, 'INSERT INTO lines (order_id, n) VALUES (1234567, 1)', '23503', qr/violates foreign key constraint "lines_order_id_fkey"/,
		"$name: there is a foreign key again", database => $database);
	is(query($node, 'INSERT INTO orders DEFAULT VALUES RETURNING id > (SELECT max(id) FROM orders)', database => $database),
		't', "$name: new rows are above");
	return;
}

create_tables('uuid', 'uuid', q{SELECT gen_random_uuid(), now() - (55000 - n) * interval '777 us', n FROM generate_series(1, 55000) n});
query($node, q{ALTER TABLE orders ALTER COLUMN id SET DEFAULT gen_random_uuid();
	CREATE TABLE kept AS SELECT id AS uuid, item FROM orders; CREATE VIEW lines_of AS SELECT order_id FROM lines}, database => 'uuid');
refused($node, $uuid, '0A000', qr/cannot alter type of a column used by a view or rule/, 'a view that reads the column', database => 'uuid');
is(query($node, 'DROP VIEW lines_of; SELECT pg_typeof(id) FROM orders LIMIT 1', database => 'uuid'), 'uuid', 'stops it, and nothing has changed');
query($node, q{UPDATE orders SET created_at = now() + interval '1 hour' WHERE item = 55000}, database => 'uuid');
refused($node, $uuid, '55000', qr/an ID in column id of public\.orders is not below the next one/, 'a time in the future', database => 'uuid');
is(query($node, q{UPDATE orders SET created_at = now() WHERE item = 55000; SELECT pg_typeof(id) FROM orders LIMIT 1}, database => 'uuid'),
	'uuid', 'stops it, too');
query($node, 'INSERT INTO refunds VALUES (gen_random_uuid(), 0)', database => 'uuid');
follows('uuid', $uuid, 'UUIDs');
is(query($node, 'SELECT count(*) FROM refunds WHERE order_id IS NULL AND item = 0', database => 'uuid'), '1', 'UUIDs: one that no order has');
is(query($node, q{SELECT count(*) FROM orders JOIN kept USING (uuid, item)
		WHERE date_trunc('milliseconds', created_at) = snowflake_timestamp(id) AND snowflake_node(id) = 1023}, database => 'uuid'),
	'55000', 'UUIDs: they are kept, and the keys have the times of the rows');

# ---- Baidu's IDs, up to their last second ----

my $baidus_last = (1 << 28) - 1;
create_tables('baidu', 'bigint', qq{SELECT (($baidus_last - (54999 - n) / 5000)::bigint << 35) | (n % 5000), now(), n FROM generate_series(0, 54999) n});
query($node, 'CREATE TABLE kept AS SELECT id AS baidu_id, item FROM orders', database => 'baidu');
refused($node, "SELECT * FROM snowflake_convert('orders')", '55000', qr/HINT:  No layout that lasts has IDs above such keys/,
	'Baidu: no layout lies above', database => 'baidu');
follows('baidu', $baidu, 'Baidu');
my ($layout) = $baidu =~ /('timestamp:28.*?')/;
is(query($node, qq{SELECT max(snowflake_timestamp(baidu_id, $layout)) FROM orders}, database => 'baidu'),
	'2024-11-20 13:24:15+00', 'Baidu: when the IDs ran out');
is(query($node, qq{SELECT count(*) FROM orders JOIN kept USING (baidu_id, item)
		WHERE snowflake_timestamp(id) - snowflake_timestamp(baidu_id, $layout) BETWEEN '0 ms' AND '2 ms'}, database => 'baidu'),
	'55000', 'Baidu: the old IDs are kept, and the new ones have their times');

# ---- TiDB's keys ----

create_tables('tidb', 'bigint', 'SELECT (hashint4(n) & 31)::bigint << 58 | n, now(), n FROM generate_series(1, 55000) n');
refused($node, "SELECT * FROM snowflake_convert('orders')", '55000', qr/HINT:  No layout that lasts has IDs above such keys/,
	'TiDB: as they are, no layout lies above', database => 'tidb');
follows('tidb', $tidb, 'TiDB');
$node->stop;
done_testing();
