# Feeds under load: a reader that uses the horizon sees each committed row once and in
# order, whatever eight writers do. SNOWFLAKE_ROWS is the number of rows.
#
# takes: 30 s
use SnowflakeTest;
use IPC::Run;
use Load;

my $rows = $ENV{SNOWFLAKE_ROWS} || 40_000;

my $node = start_server('main', 'max_prepared_transactions = 40',
	'synchronous_commit = off', 'autovacuum = off');
query($node, q{
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
	-- other layouts: one with ticks of 1 ms, and one with ticks of 10 ms
	CREATE TABLE j (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'), c int);
	CREATE TABLE y (id bigint PRIMARY KEY DEFAULT snowflake_nextval('sonyflake'), c int);
});

# Eight writers, some of which make IDs of several layouts.
my %scripts = (
	writer_scripts(commit => 6, single => 4, batch => 2, subtransactions => 2, rollback => 2, prepare => 2, unprepare => 1),
	'layouts@2' => q{
		\set n random(1, 10)
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO y (c) SELECT generate_series(1, :n);
		INSERT INTO t (c) VALUES (0);
		\sleep :us us
		INSERT INTO j (c) SELECT generate_series(1, :n);
		INSERT INTO y (c) VALUES (0);
		COMMIT;
	},
	'layout@2' => q{
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO j SELECT id, 0 FROM snowflake_nextval_batch(5, 'javascript') id;
		\sleep :us us
		COMMIT;
	},
	'sonyflake@2' => q{
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO y (c) VALUES (0);
		\sleep :us us
		COMMIT;
	},
	'late@2' => q{
		\set us random(0, 20000)
		BEGIN;
		CREATE TEMP TABLE ids ON COMMIT DROP AS
			SELECT snowflake_nextval() AS id FROM generate_series(1, 10);
		\sleep :us us
		INSERT INTO t SELECT id, 0 FROM ids;
		COMMIT;
	});

# A reader of pages of a table, each of random length, and in one statement and a
# transaction of its own. It ends when it finds no row, and all writers have ended.
query($node, q{
	CREATE TABLE seen (n bigserial, reader text, id bigint);
	CREATE TABLE ended ();
	CREATE PROCEDURE read(reader text, rows text, horizon text) LANGUAGE plpgsql AS $$
	DECLARE
		last bigint := 0;
		got bigint;
		no_more boolean;
	BEGIN
		LOOP
			COMMIT;
			SELECT count(*) > 0 FROM ended INTO no_more;
			EXECUTE format('WITH page AS (SELECT id FROM %I
						WHERE id > $2 AND id < %s ORDER BY id LIMIT $3),
					kept AS (INSERT INTO seen (reader, id)
						SELECT $1, id FROM page ORDER BY id RETURNING id)
				SELECT max(id) FROM kept', rows, horizon)
				INTO got USING reader, last, (1 + random() ^ 4 * 5000)::int;
			EXIT WHEN got IS NULL AND no_more;
			last := coalesce(got, last);
			IF got IS NULL THEN
				PERFORM pg_sleep(0.005 * random());
			END IF;
		END LOOP;
	END $$;
});

my %readers = (
	'read committed' => [ 't', 'snowflake_horizon()' ],
	'repeatable read' => [ 't', 'snowflake_horizon()' ],
	'none' => [ 't', '9223372036854775807' ],
	'javascript' => [ 'j', q{snowflake_horizon('javascript')} ],
	'sonyflake' => [ 'y', q{snowflake_horizon('sonyflake')} ]);
my @handles;
foreach my $reader (sort keys %readers)
{
	my ($table, $horizon) = @{ $readers{$reader} };
	local $ENV{PGOPTIONS} = '-c enable_seqscan=off';
	$ENV{PGOPTIONS} .= ' -c default_transaction_isolation=repeatable\\ read'
	  if $reader eq 'repeatable read';
	push @handles, IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
			'-c', "CALL read('$reader', '$table', \$\$$horizon\$\$)" ]);
}
# about 10 rows are committed in a transaction
my $transactions = int($rows / 10 / 8) + 1;
$node->pgbench(
	"--no-vacuum --client=8 --jobs=2 --transactions=$transactions",
	0, [qr{processed: (\d+)/\1}], [qr{^$}], 'eight writers', \%scripts);
query($node, 'INSERT INTO ended DEFAULT VALUES');
foreach my $h (@handles)
{
	ok($h->finish, 'a reader comes to the end');
}
my $written = query($node, 'SELECT (SELECT count(*) FROM t) +
	(SELECT count(*) FROM j) + (SELECT count(*) FROM y)');
cmp_ok($written, '>', $rows * 0.8, "$written rows were committed");
foreach my $reader (sort keys %readers)
{
	my $table = $readers{$reader}[0];
	my ($missed, $twice, $unordered) = split /\|/, query($node, qq{
		SELECT (SELECT count(*) FROM $table t WHERE NOT EXISTS
				(SELECT FROM seen s WHERE s.id = t.id AND reader = '$reader')),
			(SELECT count(*) - count(DISTINCT id) FROM seen
				WHERE reader = '$reader'),
			(SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before
				FROM seen WHERE reader = '$reader') s WHERE id <= before)});
	if ($reader eq 'none')
	{
		cmp_ok($missed, '>', 0, "without the horizon a reader loses $missed rows");
		next;
	}
	is("$missed $twice $unordered", '0 0 0',
		"$reader: no row was missed or seen twice, and all in order");
}
is(query($node, 'SELECT count(*) FROM seen WHERE NOT EXISTS
	(SELECT FROM (TABLE t UNION ALL TABLE j UNION ALL TABLE y) a WHERE a.id = seen.id)'),
	'0', 'nothing else was seen');

$node->stop;
done_testing();
