# Many backends at once, for the node, for shards and in batches. No ID comes twice,
# and no backend mistakes the progress of other backends for a step of the clock.
# SNOWFLAKE_BUSY is the number of seconds.
#
# takes: 12 s
use SnowflakeTest;

my $seconds = $ENV{SNOWFLAKE_BUSY} || 8;

# A clock that seems to step back is an error at once. A millisecond has so few IDs that a
# slow server fills the sequence, too.
my $node = start_server('main', "snowflake.shards = '0-9'", 'snowflake.max_clock_wait = 0',
	"snowflake.layout = 'timestamp:41 node:14 sequence:8 epoch:2024-01-01'");
query($node, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
	CREATE TABLE s (id bigint PRIMARY KEY, shard int);
});

my $from = -s $node->logfile;

# Most scripts make many IDs and few rows. The progress of other backends can look like
# a step of the clock only if the sequence is full and more processes can run than
# there are processors.
$node->pgbench(
	"--no-vacuum --client=16 --jobs=2 --time=$seconds",
	0,
	[qr{processed: [1-9]}],
	[qr{^$}],
	"16 clients insert by default, in batches, and for shards, for $seconds s",
	{
		'insert@2' => q{INSERT INTO t (c) SELECT generate_series(1, 200);},
		'batch@1' =>
		  q{INSERT INTO t SELECT id, 0 FROM snowflake_nextval_batch(1000) id;},
		'shard@1' => q{
			\set shard random(0, 9)
			INSERT INTO s SELECT snowflake_shard_nextval(:shard), :shard
				FROM generate_series(1, 100);
			INSERT INTO s SELECT id, :shard
				FROM snowflake_shard_nextval_batch(:shard, 500) id;
		},
		'select@16' =>
		  q{SELECT count(snowflake_nextval()) FROM generate_series(1, 20000);},
	});

my ($calls, $waits) = split /\|/,
  query($node, 'SELECT node_ids + shard_ids, sequence_waits FROM pg_stat_snowflake');
note("in $seconds s there were $calls IDs, and $waits waits for a full sequence");
cmp_ok($waits, '>', 0, 'the sequence was full at times');
is(query($node, 'SELECT count(*) > 1000 FROM t'), 't', 'there are many IDs');
is(query($node, 'SELECT count(*) FROM s, snowflake_decode(id, \'instagram\')
	WHERE shard <> shard_id'), '0', 'the IDs of shards name their shard');
is(query($node, 'SELECT count(*) FROM t WHERE snowflake_node(id) <> 1'), '0',
	'the others name the node');
is(query($node, q{SELECT max(snowflake_timestamp(id)) <= clock_timestamp() + interval '6 ms' FROM t}),
	't', 'no ID is further ahead than the drift');

my $log = substr(slurp_file($node->logfile), $from);
unlike($log, qr/wall clock/, 'nobody thought that the clock had stepped');
unlike($log, qr/ERROR/, 'there was no error');

# the IDs that clients see, in the order in which they see them
my @sessions;
my @handles;
foreach my $i (1 .. 8)
{
	my ($out, $err) = ('', '');
	my $h = IPC::Run::start(
		[
			'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
			'SELECT snowflake_nextval() FROM generate_series(1, 20000)'
		],
		'>', \$out, '2>', \$err);
	push @handles, [ $h, \$out, \$err ];
}
foreach my $h (@handles)
{
	$h->[0]->finish;
	is(${ $h->[2] }, '', 'a client had no error');
	push @sessions, [ split /\n/, ${ $h->[1] } ];
}
check_ids('8 clients at once', @sessions);

# the order of rows, in a layout where one millisecond has only 32 IDs
$node->append_conf('postgresql.conf', q{
snowflake.layout = 'javascript'
snowflake.max_clock_wait = 3s
});
$node->restart;
query($node, 'CREATE DATABASE narrow');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int);
	INSERT INTO t (n) SELECT n FROM generate_series(1, 3000) n ORDER BY n DESC;
}, database => 'narrow');
is(query($node, q{
	SELECT count(*) FROM (SELECT n, lag(n) OVER (ORDER BY id) AS before FROM t) s
	WHERE n <> before - 1}, database => 'narrow'),
	'0', 'the order of IDs is the order of rows, over many full ticks');
is(query($node, 'SELECT max(id) < 2::numeric ^ 53 FROM t', database => 'narrow'),
	't', 'they are exact in JavaScript');

$node->stop;
done_testing();
