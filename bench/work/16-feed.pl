# How long a row takes from its commit until a reader may have it: on the server that made
# it, below snowflake_horizon(); and on a subscriber that collects the rows of two servers,
# below snowflake_feed_horizon(). There the row itself is the rival: replication without a
# feed. The workers publish with the default snowflake.feed_interval.

use strict;
use warnings;
use Bench;

my @writers = ('feed_a', 'feed_b');
my $reader = 'feed_c';
my $times = $quick ? 3 : 20;

# Ask until the answer is true. Return the ms since then.
sub wait_for
{
	my ($begun, $db, $query, @values) = @_;
	my $sth = $db->prepare_cached($query);

	until ($db->selectrow_array($sth, {}, @values))
	{
		die "no answer within a minute: $query" if time - $begun > 60;
		sleep 0.001;
	}
	return (time - $begun) * 1000;
}

say_step('feed: two servers, and one that collects');
for my $server (@writers, $reader)
{
	sql($server, 'CREATE TABLE f (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
	sql($server, 'SELECT snowflake_create_feed()');
}
for my $writer (@writers)
{
	sql($writer, 'SELECT snowflake_publish_horizon()');
	sql($writer, 'CREATE PUBLICATION f FOR TABLE f, snowflake_feed');
	sql($reader, "CREATE SUBSCRIPTION $writer CONNECTION 'host=$dir/$writer user=postgres dbname=postgres' PUBLICATION f");
}
wait_for(time, db($reader), q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});
wait_for(time, db($reader), 'SELECT count(*) = 2 FROM snowflake_feed');

my %delay;
for my $n (1 .. $times)
{
	my $writer = $writers[ $n % 2 ];

	sleep rand;				# to any moment between two that publish
	my ($id) = sql($writer, 'INSERT INTO f DEFAULT VALUES RETURNING id');
	my $committed = time;

	push @{ $delay{'ours, on its server'} }, wait_for($committed, db($writer), 'SELECT snowflake_horizon() > ?', $id);
	push @{ $delay{'the row, without a feed'} }, wait_for($committed, db($reader), 'SELECT count(*) = 1 FROM f WHERE id = ?', $id);
	push @{ $delay{'ours, over two servers'} }, wait_for($committed, db($reader), 'SELECT snowflake_feed_horizon() > ?', $id);
}
record(work => 'feed', figure => 'from the commit to the reader', unit => 'ms', values => \%delay,
	names => [ 'ours, on its server', 'the row, without a feed', 'ours, over two servers' ]);
for my $writer (@writers)
{
	sql($reader, "DROP SUBSCRIPTION $writer");
}

1;
