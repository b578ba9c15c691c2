# Feeds: with the horizon a reader sees each committed row once and in order,
# whatever the writers do. SNOWFLAKE_ROWS is how many rows the proof has.
use strict;
use warnings FATAL => 'all';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use FindBin;
use lib $FindBin::RealBin;
use SnowflakeTest;

my $rows = $ENV{SNOWFLAKE_ROWS} || 100_000;

my $node = new_server('main', "snowflake.shards = '0-9'",
	'max_prepared_transactions = 40', 'synchronous_commit = off',
	'wal_level = logical', 'autovacuum = off');
start_with_clock($node, '+0');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), c int);
	CREATE TABLE s (id bigint PRIMARY KEY, c int);
	CREATE TABLE other (c int);
});

# What a feed on t delivers now, by what the rows are called.
my $feed = 'SELECT string_agg(c::text, \' \' ORDER BY id) FROM t WHERE id < snowflake_horizon()';
# The same where a transaction takes its snapshot before.
my $look = 'SELECT count(*) >= 0 FROM t';

sub session
{
	my ($on, $database) = @_;

	return ($on || $node)->background_psql($database || 'postgres');
}

sub insert
{
	my ($c) = @_;

	return "INSERT INTO t (c) VALUES ($c)";
}

# Begin with an empty table.
sub anew
{
	query($node, 'TRUNCATE t, s');
	return;
}

# ---- the proof ----

# Eight writers, of which some make their IDs long before they commit, roll
# back, prepare, or lose a subtransaction.
my %scripts = (
	'commit@6' => q{
		\set n random(1, 40)
		\set us random(0, 5000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, :n);
		\sleep :us us
		COMMIT;
	},
	'single@4' => 'INSERT INTO t (c) VALUES (0);',
	'batch@2' => q{
		\set n random(1, 40)
		\set us random(0, 5000)
		BEGIN;
		INSERT INTO t SELECT id, 0 FROM snowflake_nextval_batch(:n) id;
		\sleep :us us
		COMMIT;
	},
	'late@2' => q{
		\set us random(0, 5000)
		BEGIN;
		CREATE TEMP TABLE ids ON COMMIT DROP AS
			SELECT snowflake_nextval() AS id FROM generate_series(1, 10);
		\sleep :us us
		INSERT INTO t SELECT id, 0 FROM ids;
		COMMIT;
	},
	'subtransactions@2' => q{
		\set us random(0, 5000)
		BEGIN;
		SAVEPOINT a;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		\sleep :us us
		ROLLBACK TO a;
		SAVEPOINT b;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		RELEASE b;
		\sleep :us us
		COMMIT;
	},
	'rollback@2' => q{
		\set us random(0, 5000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		\sleep :us us
		ROLLBACK;
	},
	'prepare@2' => q{
		\set n random(1, 40)
		\set us random(0, 5000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, :n);
		PREPARE TRANSACTION 'p:client_id';
		\sleep :us us
		COMMIT PREPARED 'p:client_id';
	},
	'unprepare@1' => q{
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		PREPARE TRANSACTION 'p:client_id';
		ROLLBACK PREPARED 'p:client_id';
	});

# A reader of random pages: each in one statement and a transaction of its own.
# It is done when it has found nothing since all writers have ended.
query($node, q{
	CREATE TABLE seen (n bigserial, reader text, id bigint);
	CREATE TABLE ended ();
	CREATE PROCEDURE read(reader text, horizon text) LANGUAGE plpgsql AS $$
	DECLARE
		last bigint := 0;
		got bigint;
		no_more boolean;
	BEGIN
		LOOP
			COMMIT;
			SELECT count(*) > 0 FROM ended INTO no_more;
			EXECUTE format('WITH page AS (SELECT id FROM t
						WHERE id > $2 AND id < %s ORDER BY id LIMIT $3),
					kept AS (INSERT INTO seen (reader, id)
						SELECT $1, id FROM page ORDER BY id RETURNING id)
				SELECT max(id) FROM kept', horizon)
				INTO got USING reader, last, (1 + random() ^ 4 * 500)::int;
			EXIT WHEN got IS NULL AND no_more;
			last := coalesce(got, last);
			IF got IS NULL THEN
				PERFORM pg_sleep(0.001 * random());
			END IF;
		END LOOP;
	END $$;
});

my @readers = ('read committed', 'repeatable read', 'none');
my @handles;
foreach my $reader (@readers)
{
	my $horizon = $reader eq 'none' ? '9223372036854775807' : 'snowflake_horizon()';
	local $ENV{PGOPTIONS} = '-c enable_seqscan=off';
	$ENV{PGOPTIONS} .= ' -c default_transaction_isolation=repeatable\\ read'
	  if $reader eq 'repeatable read';
	push @handles, IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
			$node->connstr('postgres'), '-c', "CALL read('$reader', '$horizon')" ]);
}
# about 11 rows are committed in a transaction
my $transactions = int($rows / 11 / 8) + 1;
$node->pgbench(
	"--no-vacuum --client=8 --jobs=2 --transactions=$transactions",
	0, [qr{processed: (\d+)/\1}], [qr{^$}], 'eight writers', \%scripts);
query($node, 'INSERT INTO ended DEFAULT VALUES');
foreach my $h (@handles)
{
	ok($h->finish, 'a reader comes to the end');
}
my $written = query($node, 'SELECT count(*) FROM t');
cmp_ok($written, '>', $rows * 0.8, "$written rows were committed");
foreach my $reader (@readers)
{
	my ($missed, $twice, $unordered) = split /\|/, query($node, qq{
		SELECT (SELECT count(*) FROM t WHERE NOT EXISTS
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
		"$reader: each row was seen once, and in order");
}
is(query($node, 'SELECT count(*) FROM seen WHERE NOT EXISTS
	(SELECT FROM t WHERE t.id = seen.id)'),
	'0', 'nothing else was seen');

$node->stop;
done_testing();
