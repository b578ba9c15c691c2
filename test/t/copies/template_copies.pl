# Copies of a database on the same server (CREATE DATABASE ... TEMPLATE). A copy has
# the mark of its source, which is ahead of the clock. Yet no call waits, since the
# counters are above all IDs of this life. The mark does count if the counters may be
# below it: after a crash, and if the mark was moved to where the counters were not
# raised.
#
# takes: 20 s
use SnowflakeTest;

my $node = new_server('main', "snowflake.shards = '3'", 'snowflake.reserve = 20s',
	'snowflake.max_clock_wait = 30s', 'restart_after_crash = on', 'autovacuum = off');
my %made;

# Make an ID of each counter in this database.
sub make
{
	my ($database) = @_;

	push @{ $made{$database} },
	  [ split /\n/, query($node, 'SELECT snowflake_nextval() UNION ALL SELECT snowflake_shard_nextval(3)',
			database => $database) ];
	return $made{$database}[-1][0];
}

sub copy
{
	my ($source, $copy, $options) = @_;

	query($node, "CREATE DATABASE $copy TEMPLATE $source " . ($options // ''));
	$made{$copy} = [ @{ $made{$source} } ];
	return;
}

# Check that no ID is twice in a database. The IDs of the source count too.
sub check_all
{
	my ($when) = @_;

	foreach my $database (sort keys %made)
	{
		check_ids("$database, node, $when", [ map { $_->[0] } @{ $made{$database} } ]);
		check_ids("$database, shard, $when", [ map { $_->[1] } @{ $made{$database} } ]);
	}
	return;
}

sub mark
{
	my ($database) = @_;

	return query($node, 'SELECT last_value FROM snowflake_state.snowflake_mark', database => $database);
}

# Return how many calls have waited for the clock or for the sequence.
sub waits
{
	return query($node, 'SELECT clock_waits + sequence_waits FROM pg_stat_snowflake');
}

start_with_clock($node, '+0');
query($node, 'CREATE DATABASE source');
query($node, 'CREATE EXTENSION snowflake', database => $_) foreach ('postgres', 'source');
make($_) foreach ('postgres', 'source');

# ---- nobody waits for a copy ----

my $source = 'source';
foreach my $strategy ('wal_log', 'file_copy', 'wal_log')
{
	my $copy = "copy_of_$source";
	my $mark = mark($source);

	copy($source, $copy, "STRATEGY $strategy");
	my $id = make($copy);
	cmp_ok(epoch_ms($id), '<', $mark, "$copy: its first ID is below the mark that it has inherited");
	cmp_ok(mark($copy), '>=', $mark, 'which has not fallen');
	make($_) foreach ('postgres', 'source');
	$source = $copy;
}

# the same OID again and again: the database finds its old slot
my $oid = query($node, "SELECT max(oid::bigint) + 1000 FROM pg_database");
foreach my $round (1 .. 3)
{
	copy('source', 'again', "OID $oid");
	make($_) foreach ('again', 'postgres');
	query($node, 'DROP DATABASE again');
	delete $made{again};
}
is(waits(), 0, 'no call has waited for the clock');
check_all('copies');

# ---- the mark was advanced beyond the counters ----

query($node, 'SELECT snowflake_advance(snowflake_min_id(now() + interval $$30 min$$))',
	database => $source);
copy($source, 'advanced');
refused_behind($node, 'SELECT snowflake_nextval()', 'a copy of a database that waits, waits',
	database => 'advanced');
set_clock($node, '+1805');
make($_) foreach (sort keys %made);
check_all('after the advance');

# ---- the stamp of a life that has ended does not count ----

foreach my $end ('a crash of one process', 'an immediate shutdown')
{
	copy('source', 'last') if $end =~ /crash/;
	make('last');
	if ($end =~ /crash/)
	{
		set_clock($node, '+5');
		crash($node, 'checkpointer');
	}
	else
	{
		$node->stop('immediate');
		start_with_clock($node, '+5');
	}
	foreach my $database (sort keys %made)
	{
		refused_behind($node, 'SELECT snowflake_nextval()', "$end, the clock half an hour back: $database",
			database => $database);
	}
	set_clock($node, '+1810');
	make($_) foreach (sort keys %made);
	check_all($end);
}
$node->stop;

done_testing();
