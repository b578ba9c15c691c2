# Clients that ask for IDs until they are stopped, and write each ID into a file. Some
# commit, some roll back, and some only select; they make single IDs, batches, IDs of
# shards, and IDs of two other layouts, one of which has ticks of 10 ms. Every second
# client has synchronous_commit off, so a crash loses what it has committed last.
package Load;

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use List::Util qw(min sum);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use Exporter 'import';
use SnowflakeTest;

our @EXPORT = qw(load_tables start_load start_trickle live_again writer_scripts);

# After an error a client pauses, or it would see nothing but refusals.
my $PAUSE = "\\if :ERROR\n\\! sleep 0.02\n\\endif\n";

my %STATEMENTS = (
	commit => 'INSERT INTO t SELECT FROM generate_series(1, 20) RETURNING id;',
	rollback => "BEGIN;\nINSERT INTO t SELECT FROM generate_series(1, 20)"
	  . " RETURNING id;\n${PAUSE}ROLLBACK;",
	select => 'SELECT snowflake_nextval() FROM generate_series(1, 40);',
	single => 'SELECT snowflake_nextval();',
	many => 'SELECT snowflake_nextval() FROM generate_series(1, 5000);',
	batch => 'INSERT INTO t SELECT * FROM snowflake_nextval_batch(100) RETURNING id;',
	batch_select => 'SELECT snowflake_nextval_batch(100);',
	shard => 'INSERT INTO s SELECT snowflake_shard_nextval(SHARD)'
	  . ' FROM generate_series(1, 20) RETURNING id;',
	shard_batch => 'SELECT snowflake_shard_nextval_batch(SHARD + 1, 50);',
	pgedge => q{SELECT snowflake_nextval('pgedge') FROM generate_series(1, 20);},
	sonyflake => q{SELECT snowflake_nextval_batch(50, 'sonyflake');});

# Transactions of pgbench that write a table t (id, c). Some make their IDs long before they
# commit; some roll back, prepare, or roll back a subtransaction.
my %WRITERS = (
	commit => q{
		\set n random(1, 40)
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, :n);
		\sleep :us us
		COMMIT;
	},
	single => 'INSERT INTO t (c) VALUES (0);',
	batch => q{
		\set n random(1, 40)
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO t SELECT id, 0 FROM snowflake_nextval_batch(:n) id;
		\sleep :us us
		COMMIT;
	},
	subtransactions => q{
		\set us random(0, 20000)
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
	rollback => q{
		\set us random(0, 20000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		\sleep :us us
		ROLLBACK;
	},
	prepare => q{
		\set n random(1, 40)
		\set us random(0, 50000)
		\set gid random(1, 1000000000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, :n);
		PREPARE TRANSACTION 'p:gid';
		\sleep :us us
		COMMIT PREPARED 'p:gid';
	},
	unprepare => q{
		\set gid random(1, 1000000000)
		BEGIN;
		INSERT INTO t (c) SELECT generate_series(1, 10);
		PREPARE TRANSACTION 'p:gid';
		ROLLBACK PREPARED 'p:gid';
	});

my @KINDS = qw(commit rollback select shard pgedge
  batch single batch_select shard_batch sonyflake);

# The number of clients so far. Each new client is of the next kind.
my $started = 0;

# The scripts of start_trickle(), by statement.
my %trickles;

# Return the SQL that creates the clients' tables, for a database with the extension.
sub load_tables
{
	return q{
		CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
		CREATE TABLE s (id bigint PRIMARY KEY);
	};
}

# Return scripts of pgbench, given names and weights of writers.
sub writer_scripts
{
	my (%weights) = @_;

	return map { ("$_\@$weights{$_}" => $WRITERS{$_}) } keys %weights;
}

# Start $n clients on a database. IDs of the node's counter go to one group of the
# checker, IDs of shards to another, and those of each other layout to one of its own.
# If $group is a list, this holds for each name in it. The shards are $shard and the
# next one. With a pace, each client pauses for that many seconds after each statement,
# which leaves the machine time for other things. The clients are of these kinds, or of
# all.
sub start_load
{
	my ($checker, $group, $connstr, $n, $shard, $pace, @kinds) = @_;
	my $self = bless { clients => [] }, __PACKAGE__;
	my $dir = PostgreSQL::Test::Utils::tempdir();

	@kinds = @KINDS if !@kinds;
	my $rest = $pace ? "DO 'BEGIN PERFORM pg_sleep($pace); END';\n" : '';

	foreach (1 .. $n)
	{
		my $kind = $kinds[ $started % @kinds ];
		my $counter = $kind =~ /shard/ ? 'shards' : $kind =~ /pgedge|sony/ ? $kind : 'node';
		my $out = $checker->session(
			[ map { "$_, $counter" } ref $group ? @$group : $group ]);
		my $sync = ($started + int($started / @kinds)) % 2 ? 'on' : 'off';
		my $script = "$dir/$kind.$sync.sql";
		my $statement = $STATEMENTS{$kind} =~ s/SHARD/$shard || 3/er;

		append_to_file($script,
			"SET synchronous_commit = $sync;\n"
			  . "$statement\n$PAUSE$rest" x 10000)
		  if !-e $script;
		append_to_file($out, '');
		my $h = IPC::Run::start(
			[
				'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $connstr,
				('-f', $script) x 100
			],
			'>', $out, '2>', "$out.err");
		push @{ $self->{clients} },
		  { handle => $h, out => $out, counter => $counter };
		$started++;
	}
	return $self;
}

# Start a client that makes a few IDs every few milliseconds, so that one machine can
# serve many servers. It writes nothing to the database. It uses the node's counter,
# unless the statement uses another one.
sub start_trickle
{
	my ($checker, $group, $connstr, $statement, $counter) = @_;
	my $out = $checker->session("$group, " . ($counter //= 'node'));

	$statement //= 'SELECT snowflake_nextval() FROM generate_series(1, 3), pg_sleep(0.003);';
	if (!$trickles{$statement})
	{
		$trickles{$statement} = PostgreSQL::Test::Utils::tempdir() . '/trickle.sql';
		append_to_file($trickles{$statement}, "$statement\n$PAUSE" x 10000);
	}
	append_to_file($out, '');
	my $h = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate',
			'-d', $connstr, ('-f', $trickles{$statement}) x 100 ], '>', $out, '2>', "$out.err");
	return bless { clients => [ { handle => $h, out => $out, counter => $counter } ] },
	  __PACKAGE__;
}

# Go through the time before a crash once more: clients ask for IDs while the clock is
# behind, until it has passed the time of the crash (in Unix ms). If the mark does not
# cover the IDs of the crashed life, they come twice. Return the clients' errors.
sub live_again
{
	my ($checker, $group, $node, $n, $crashed) = @_;
	my $load = start_load($checker, $group, $node->connstr('postgres'), $n);

	$load->more(500);
	wait_for_clock($node, $crashed);
	return $load->finish;
}

# Return the IDs that the clients have got so far: their number, or a list.
sub ids
{
	my ($self) = @_;

	return map { split /\n/, slurp_file($_->{out}) } @{ $self->{clients} };
}

# Return the files that they write.
sub files
{
	my ($self) = @_;

	return map { $_->{out} } @{ $self->{clients} };
}

sub count
{
	my ($self) = @_;

	return scalar(my @ids = $self->ids);
}

# Return how much the clients have written, and whether each has got an ID.
sub _bytes
{
	my ($self) = @_;
	my @bytes = map { -s $_->{out} } @{ $self->{clients} };

	return (sum(@bytes), min(@bytes) >= 20);
}

# Wait until the clients have $n more IDs, and each has at least one.
sub more
{
	my ($self, $n) = @_;
	my ($start) = $self->_bytes;
	my $tries = 0;

	while (1)
	{
		my ($bytes, $all) = $self->_bytes;

		last if $all && $bytes >= $start + 19 * $n;
		die 'the clients get no IDs. The last line of each one\'s errors: '
		  . join('; ', map { (split /\n/, slurp_file("$_->{out}.err"))[-1] // 'none' } @{ $self->{clients} })
		  if ++$tries > 18000;
		usleep(10_000);
	}
	return;
}

# Wait until each client has got an ID or an error.
sub heard
{
	my ($self) = @_;

	wait_until { !grep { !-s $_->{out} && !-s "$_->{out}.err" } @{ $self->{clients} } } 'the clients hear nothing';
	return;
}

# Return true if no client has got an error yet.
sub goes_well
{
	my ($self) = @_;

	return !grep { -s "$_->{out}.err" } @{ $self->{clients} };
}

# Stop the clients that still run. Return their errors, by SQLSTATE, as a hash of
# counts. The error of a crash does not count.
sub finish
{
	my ($self) = @_;
	my %errors;

	foreach my $client (@{ $self->{clients} })
	{
		$client->{handle}->signal('TERM');
		eval { $client->{handle}->finish };
		my $err = slurp_file("$client->{out}.err");
		$errors{$1}++ while $err =~ /(?:ERROR|PANIC):  (\w{5})/g;
		unlink "$client->{out}.err";
	}
	return \%errors;
}

1;
