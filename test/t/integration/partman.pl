# pg_partman manages a table by ranges of its Snowflake IDs. The test runs all
# statements about it in doc/partitions.md. Needs pg_partman for this server; test/all
# installs it if Debian has it.
#
# takes: 9 s
# needs: partman
use SnowflakeTest;

my $node = start_server('main', "timezone = 'UTC'");
query($node, q{CREATE SCHEMA partman;
	CREATE EXTENSION pg_partman SCHEMA partman});
my $version = query($node,
	q{SELECT extversion FROM pg_extension WHERE extname = 'pg_partman'});
my ($major, $minor) = split /\./, $version;
my $type = $major < 5 ? 'native' : 'range';
note("pg_partman $version");

# The width of a day, as a number of IDs.
my $day = q{(snowflake_min_id('2026-11-22') - snowflake_min_id('2026-11-21'))::text};

sub create_table
{
	my ($table) = @_;

	query($node, qq{CREATE TABLE $table (id bigint PRIMARY KEY
		DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)});
	return;
}

sub create_parent
{
	my ($table, $interval, @rest) = @_;

	return 'SELECT partman.create_parent('
	  . join(', ', "p_parent_table => 'public.$table'", "p_control => 'id'",
		"p_type => '$type'", "p_interval => $interval", @rest) . ')';
}

# Return the days on which the partitions begin, and the default partition.
sub begins
{
	my ($table) = @_;

	return query($node, qq{SELECT string_agg(coalesce(
			to_char(from_time, 'MM-DD HH24:MI'), 'default'), ', ')
		FROM snowflake_partitions('$table')}) =~ s/ 00:00//gr;
}

sub insert
{
	my ($table, @times) = @_;

	query($node, "INSERT INTO $table VALUES (snowflake_min_id('$_'))")
	  foreach @times;
	return;
}

# Partitions of a day, made ahead of the highest ID.
create_table('orders');
query($node, create_parent('orders', $day, 'p_premake => 2',
	q{p_start_partition => snowflake_min_id('2026-11-21')::text}));
is(begins('orders'), '11-21, 11-22, 11-23, default',
	'partitions begin at midnight');
insert('orders', '2026-11-21 12:00', '2026-11-21 23:59:59.999', '2026-11-22');
is( query($node, q{SELECT string_agg(from_time::date || ' ' ||
		(SELECT count(*) FROM orders o WHERE o.tableoid = partition), ', ')
		FROM snowflake_partitions('orders') WHERE NOT is_default}),
	'2026-11-21 2, 2026-11-22 1, 2026-11-23 0', 'and hold the IDs of a day');
query($node, q{SELECT partman.run_maintenance('public.orders')});
is(begins('orders'), '11-21, 11-22, 11-23, 11-24, default',
	'maintenance makes what is ahead of the highest ID');
query($node, q{SELECT partman.run_maintenance('public.orders')});
is(begins('orders'), '11-21, 11-22, 11-23, 11-24, default',
	'and nothing for the time that passes without IDs');

# Rows without a partition stay in the default one until they are moved.
insert('orders', '2026-11-27 12:00');
is(query($node, q{SELECT count FROM partman.check_default()}), 1,
	'an ID further ahead is in the default partition, and is found there');
query($node, q{SELECT partman.partition_data_id('public.orders')});
is(begins('orders'), '11-21, 11-22, 11-23, 11-24, 11-27, default',
	'it is moved into a partition of its day');
is(query($node, q{SELECT count(*) FROM partman.check_default()}), 0,
	'and no longer in the default one');

# Retention keeps a number of IDs below the highest one.
query($node, qq{UPDATE partman.part_config
	SET retention = (3 * $day\::bigint)::text, retention_keep_table = false
	WHERE parent_table = 'public.orders'});
query($node, q{SELECT partman.run_maintenance('public.orders')});
is(begins('orders') =~ s/11-27.*//r, '11-24, ',
	'retention drops what lies three days below the highest ID');

# pg_partman's worker runs the maintenance.
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'snowflake, pg_partman_bgw'
pg_partman_bgw.interval = 1
pg_partman_bgw.dbname = 'postgres'
pg_partman_bgw.role = '} . (getpwuid($<))[0] . "'\n");
$node->restart;
insert('orders', '2026-11-28');
ok( $node->poll_query_until('postgres', q{SELECT count(*) = 1
		FROM snowflake_partitions('orders') WHERE from_time = '2026-11-30'}),
	'its worker makes what is ahead');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'snowflake'");
$node->restart;

# Partitions of a week. The epoch of the default layout is a Monday.
create_table('weekly');
query($node, create_parent('weekly', "(7 * $day\::bigint)::text", 'p_premake => 2',
	q{p_start_partition => snowflake_min_id('2026-11-16')::text}));
is(begins('weekly'), '11-16, 11-23, 11-30, default', 'weeks begin on Mondays');

# Months have different lengths, so a number of IDs cannot express them ...
create_table('monthly');
refused($node, create_parent('monthly', q{'1 month'}), 'P0001',
	qr/invalid input syntax for type bigint: "1 month"/, 'months: not by IDs');
# ... p_epoch does not work, because the upper bits of an ID are no time in such a unit
# ...
query($node, create_parent('monthly', q{'1 month'}, q{p_epoch => 'milliseconds'}));
query($node, 'INSERT INTO monthly DEFAULT VALUES');
is(query($node, 'SELECT tableoid::regclass FROM monthly'), 'monthly_default',
	'months: with p_epoch each row goes to the default partition');
# ... and encoders, from 5.2 on, do not work for columns of type bigint.
query($node, q{CREATE FUNCTION encode_id(timestamptz) RETURNS text LANGUAGE sql
	AS 'SELECT snowflake_min_id($1)::text';
	CREATE FUNCTION decode_id(text) RETURNS timestamptz LANGUAGE sql
	AS 'SELECT snowflake_timestamp($1::bigint)'});
create_table('encoded');
my $encoded = create_parent('encoded', q{'1 month'},
	q{p_time_encoder => 'public.encode_id'}, q{p_time_decoder => 'public.decode_id'});
if ($major < 5 || $major == 5 && $minor < 2)
{
	refused($node, $encoded, '42883', qr/function partman\.create_parent.*does not exist/,
		'months: there are no encoders');
}
else
{
	refused($node, $encoded, 'P0001',
		qr/p_time_encoder and p_time_decoder can only be used with text\/uuid type control column/,
		'months: encoders are not for bigint');
}

# The partitions of snowflake_create_partitions() stay as they are.
create_table('mixed');
query($node, q{SELECT snowflake_create_partitions('mixed', '1 day', '2026-11-18', '2026-11-22')});
refused($node, create_parent('mixed', $day,
		q{p_start_partition => snowflake_min_id('2026-11-21')::text}),
	'P0001', qr/partition "mixed_p\d+" would overlap partition "mixed_p2026_11_21"/,
	'pg_partman goes by the names of its own partitions');
query($node, create_parent('mixed', $day, 'p_premake => 1',
	q{p_start_partition => snowflake_min_id('2026-11-22')::text}));
is(begins('mixed'), '11-18, 11-19, 11-20, 11-21, 11-22, 11-23, default',
	'it can go on after them');
insert('mixed', '2026-11-21 12:00');
query($node, qq{UPDATE partman.part_config
	SET retention = $day, retention_keep_table = false
	WHERE parent_table = 'public.mixed'});
if ($major >= 5)
{
	query($node, q{SELECT partman.run_maintenance('public.mixed')});
	is(begins('mixed'), '11-20, 11-21, 11-22, 11-23, default',
		'and retention drops those whose time has come');
}
elsif (query($node, 'SHOW server_version_num') < 160000)
{
	refused($node, q{SELECT partman.run_maintenance('public.mixed')}, 'P0001',
		qr/invalid input syntax for type bigint: "2026_11_/,
		'but it reads IDs from names, and maintenance fails');
}
else
{
	# since 16, 2026_11_21 can be read as a number
	query($node, q{SELECT partman.run_maintenance('public.mixed')});
	is(begins('mixed'), '11-22, 11-23, default',
		'but it reads IDs from names, and retention drops the newest rows');
}

# Months without pg_partman: both statements may run as often as one likes.
create_table('calendar');
query($node, q{SELECT snowflake_create_partitions('calendar', '1 month', '2026-09-01', '2027-01-01')});
query($node, query($node, q{SELECT string_agg(format('DROP TABLE %s', partition), ';')
	FROM snowflake_partitions('calendar')
	WHERE until_time <= timestamptz '2026-11-21' - interval '15 days'}));
is(begins('calendar'), '11-01, 12-01', 'partitions that are old are found by their times');
$node->stop;
done_testing();
