# The checker of IDs finds the errors that it is meant to find.
#
# takes: 3 s
use Test::Tester;    # the first of all
use SnowflakeTest;
use IdChecker;

my $round = 0;

# Return the checker's verdict on these sessions: the number of IDs, and the faults.
sub verdict
{
	my (@sessions) = @_;
	my $checker =
	  IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/' . ++$round);

	$checker->saw('node', @$_) foreach @sessions;
	return join("\n", $checker->_check($checker->{clients}{node}));
}

# Return the checker's verdict on a file as a client leaves it.
sub verdict_of_text
{
	my ($text) = @_;
	my $checker =
	  IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/' . ++$round);

	append_to_file($checker->session('node'), $text);
	return join("\n", $checker->_check($checker->{clients}{node}));
}

is(verdict([ 1, 5, 9 ], [ 2, 10, 9223372036854775807 ]),
	'6', 'IDs of two sessions, of any length');
is(verdict([ 1, 5, 9 ], [ 2, 5 ]), "5\nID 5 is there twice",
	'one ID in two sessions');
is(verdict([100], [ 2, 3 ], [100]), "4\nID 100 is there twice",
	'not next to each other');
like(verdict([ 1, 5, 5 ]), qr/line 3: 5 follows 5/, 'one ID in one session');
like(verdict([ 1, 5, 4 ]), qr/line 3: 4 follows 5/, 'a session that descends');
is(verdict_of_text("1\n5\n"), '2', 'a file');
is(verdict_of_text("1\n5\n12"), '2', 'the last line is cut short');
like(verdict_of_text("1\n\n12\n"), qr/line 2 is no ID/, 'an empty line');
like(verdict_of_text("1\nERROR\n12\n"), qr/line 2 is no ID: ERROR/,
	'a line that is no ID');
is(verdict_of_text("1\nERR"), '1', 'unless it is cut short');

# ---- reports by groups ----

sub new_checker
{
	return IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/' . ++$round);
}

# Return the results of the tests that this runs: their names, and why they fail.
sub reported
{
	my ($run) = @_;
	my ($premature, @results) = run_tests($run);

	return join("\n", map {
		($_->{ok} ? '' : 'not ') . "ok $_->{name}" . ($_->{ok} ? '' : ": $_->{diag}") =~ s/\s+\z//r
	} @results);
}

my $checker = new_checker();
my $twice = 'no ID reached clients twice, each session ascends';
$checker->saw([ 'a', 'both' ], 1, 5);
$checker->saw([ 'b', 'both' ], 5, 9);
is(reported(sub { $checker->clients }), "ok a: $twice (2 checked)\nok b: $twice (2 checked)\n"
	  . "not ok both: $twice (4 checked): ID 5 is there twice", 'a session of two groups');
is($checker->checked, 8, 'what was checked is counted');

# the floor: all IDs after a crash are above all IDs before it
my %highest;
foreach my $step (
	[ 'at first', [ 1, 5 ], [ 2, 9 ], 'ok', '' ],
	[ 'above', [ 10, 11 ], [12], 'ok', '' ],
	[ 'equal to the highest', [12], [13], 'not ok', ': ID 12 is there twice' ],
	[ 'below the highest', [ 12, 14 ], [ 15, 20 ], 'not ok', ': ID 12 is below those before' ],
	[ 'above what was there at last', [21], [100], 'ok', '' ],
	[ 'longer than the highest', [1000], [200], 'ok', '' ],
	[ 'shorter than the highest', [999], [2000], 'not ok', ': ID 999 is below those before' ])
{
	my ($name, $one, $two, $verdict, $why) = @$step;
	my $n = @$one + @$two;

	$checker->forget;
	$checker->saw('node', @$_) foreach ($one, $two);
	is(reported(sub { $checker->clients(\%highest) }),
		"$verdict node: $twice ($n checked)$why", "the floor: $name");
}
$checker->forget;
$checker->saw('node', 500);
$checker->saw('shard', 7);
is(reported(sub { $checker->clients(\%highest) }),
	"not ok node: $twice (1 checked): ID 500 is below those before\nok shard: $twice (1 checked)",
	'each group has a floor of its own');
$checker->saw('shard', 2001);
like(reported(sub { $checker->clients(\%highest) }),
	qr/^not ok node: .* 500 is below those before\nnot ok shard: .* 7 is there twice\z/,
	'a fault lowers no floor, and what was not forgotten is found again');
$checker->forget;
append_to_file($checker->session('node'), '');
is(reported(sub { $checker->clients }), "not ok node: $twice (0 checked): there are no IDs",
	'no IDs at all');

# ---- each tick has one holder ----

# The IDs have a sequence of four bits, so 16 and 31 belong to one tick.
sub holders_of
{
	my (@sessions) = @_;

	$checker = new_checker();
	foreach my $session (@sessions)
	{
		my ($server, @ids) = @$session;
		my $file = $checker->session('node');

		append_to_file($file, join('', map { "$_\n" } @ids));
		$checker->held_by('node', $server, $file);
	}
	return reported(sub { $checker->holders('node', 4) }) =~ s/no two servers have issued for one node in one tick/holders/r;
}

is(holders_of([ 'a', 16, 31 ], [ 'b', 32 ], [ 'a', 17, 50 ]), 'ok holders (3 checked)',
	'two sessions of one server, and another tick of another');
is(holders_of([ 'a', 16, 48 ], [ 'b', 31 ]),
	'not ok holders (2 checked): a and b have both issued IDs from 16 on', 'one tick of two servers');
is(holders_of([ 'a', 16, 20 ], [ 'b', 17 ], [ 'a', 18 ]),
	"not ok holders (1 checked): a and b have both issued IDs from 16 on", 'and of three sessions');
is(holders_of(['a']), 'not ok holders (0 checked): there are no IDs', 'no holders at all');

# ---- IDs in the tables of databases ----

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

my $once = 'no ID is twice in a state of the database';
$checker = new_checker();
$checker->state('one', $node, 'postgres', 'SELECT generate_series(1, 3)');
$checker->state('one', $node, 'postgres', 'VALUES (9), (3)');
$checker->state('query', $node, 'postgres', 'VALUES (5), (5)');
$checker->state('sorted', $node, 'postgres', 'VALUES (10), (9)');
$checker->state('other', $node, 'postgres', 'SELECT 3');
my ($one, @others) = split /\n/, reported(sub { $checker->states });
is($one, "not ok one: $once (5 checked): ID 3 is there twice", 'an ID that two queries of one state find');
is(shift @others, "ok other: $once (1 checked)", 'and that of another state');
like(shift @others, qr/^not ok query: $once \(1 checked\): .* 5 follows 5$/, 'twice in one query');
is("@others", "ok sorted: $once (2 checked)", 'the order of rows does not matter');
ok(!eval { $checker->state('none', $node, 'postgres', 'SELECT id FROM no_table'); 1 },
	'a query that fails');

$node->safe_psql('postgres', q{
	CREATE SCHEMA "Other";
	CREATE TABLE t (id bigint);
	CREATE TABLE "Other"."T" (n integer, id bigint);
	CREATE TABLE part (id bigint) PARTITION BY RANGE (id);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (100) TO (200);
	CREATE UNLOGGED TABLE unlogged (id bigint);
	CREATE TABLE shard_t (id bigint);
	CREATE TABLE without (n integer);
	CREATE VIEW v AS SELECT id FROM t;
	INSERT INTO t VALUES (1), (2);
	INSERT INTO "Other"."T" VALUES (0, 3);
	INSERT INTO part VALUES (100);
	INSERT INTO unlogged VALUES (4);
	INSERT INTO shard_t VALUES (1), (2), (3)});

# Return the checker's verdict on the tables of the database.
sub tables
{
	my $tables = new_checker();

	$tables->database('d', $node, 'postgres');
	return reported(sub { $tables->states });
}

my $shards = "ok d: shard: $once (3 checked)";
is(tables(), "ok d: node: $once (5 checked)\n$shards", 'the tables of a database');
foreach my $added ([ 't', 3 ], [ '"Other"."T" (id)', 1 ], [ 't', 100 ], [ 'unlogged', 1 ], [ 't', 1 ])
{
	my ($table, $id) = @$added;
	my ($name) = $table =~ /^(\S+)/;

	$node->safe_psql('postgres', "INSERT INTO $table VALUES ($id)");
	like(tables(), qr/\Anot ok d: node: $once \(\d checked\): .*\b$id\b.*\n\Q$shards\E\z/,
		"an ID that is there, in $name: $id");
	$node->safe_psql('postgres',
		"DELETE FROM $name WHERE ctid = (SELECT max(ctid) FROM $name)");
}
is(tables(), "ok d: node: $once (5 checked)\n$shards", 'without it');
$node->safe_psql('postgres', 'INSERT INTO shard_t VALUES (2)');
like(tables(), qr/\Aok d: node: .*\nnot ok d: shard: $once \(\d checked\): .* 2 follows 2\z/,
	'of shards');
$node->stop;

done_testing();
