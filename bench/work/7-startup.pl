# How long the first ID takes after a crash, an immediate stop and a clean restart. The
# time begins with the server's first answer to another query.
#
# Also the first ID after 2.5 s without a call, which is longer than the reserve (2 s).
# An idle hour has the same effect: the mark, a durable time that all IDs are below, lies
# in the past. So the call has to extend it, and waits for the disk.

use strict;
use warnings;
use Bench;

# Make IDs, stop the server, and start it. Return the time of the first query that makes
# an ID, in ms.
sub first
{
	my ($what, $mode, $query) = @_;
	my $db;

	sql('default', "SELECT count($query) FROM generate_series(1, 100000)");
	ctl('default', '-m', $mode, '-w', 'stop');
	# after a crash there is no shutdown file, but here the postmaster was told to stop
	unlink "$dir/default/data/snowflake.shutdown" if $what eq 'crash';
	ctl('default', '-W', 'start');
	my $limit = time + 60;
	until ($db = eval { fresh('default') })
	{
		die "the server does not answer" if time > $limit;
		sleep 0.002;
	}
	$db->selectrow_array('SELECT 1');
	my $begun = time;
	$db->selectrow_array("SELECT $query");
	my $ms = (time - $begun) * 1000;
	$db->disconnect;
	return { ms => $ms };
}

for ([ crash => 'immediate' ], [ 'immediate stop' => 'immediate' ], [ 'clean restart' => 'fast' ])
{
	my ($what, $mode) = @$_;

	my $after = ($what =~ /^i/ ? 'after an ' : 'after a ') . $what;

	say_step("first ID $after");
	my $v = rounds($quick ? 1 : 5, map {
		my $name = $_;
		[ $name, sub { first($what, $mode, $contestant{$name}{call}) } ];
	} 'ours, default', 'nextval, CACHE 1');
	record(work => 'start-up', figure => $after,
		names => [ 'ours, default', 'nextval, CACHE 1' ], unit => 'ms',
		values => $v->{ms});
}

say_step('first ID after an idle time');
my $v = rounds($quick ? 1 : 5, [ 'ours, default', sub {
	my $sth = db('default')->prepare('SELECT snowflake_nextval()');
	my %ms;

	$sth->execute for 1 .. 10;
	sleep 2.5;
	for my $which ('first', 'second')
	{
		my $begun = time;
		$sth->execute;
		$ms{$which} = (time - $begun) * 1000;
	}
	return \%ms;
} ]);
record(work => 'start-up', figure => 'after 2.5 s without a call: the first',
	unit => 'ms', values => $v->{first});
record(work => 'start-up', figure => 'after 2.5 s without a call: the second',
	unit => 'ms', values => $v->{second});

1;
