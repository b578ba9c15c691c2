# Remedies of leases that say until when there are no IDs, in a registry with eight slots. A
# robot waits as the text says, and types what ends the wait (Robot.pm). All servers have one
# clock, which stands a second after the time that the text says: IDs come by themselves, none
# with a timestamp below the time that the text says, and none twice.
#
# takes: 60 s
use SnowflakeTest;
use LeaseTest;
use Robot;

my $layout = 'timestamp:41 node:3 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);
my @long = ('snowflake.lease_wait = 0', "snowflake.lease_reserve = '10min'");
my $clock = new_clock("$PostgreSQL::Test::Utils::tmp_check/clock");

$registry->stop;
start_by_clock($registry, $clock);

sub start_waiter
{
	my ($name, @settings) = @_;
	my $node = new_holder($name, @long, @settings);

	start_by_clock($node, $clock);
	query($node, 'CREATE EXTENSION snowflake');
	return $node;
}

# Return the remedy of a server's lease, or an empty text if the server has one. Remember what
# was told last, with the problem.
my $told = '';

sub lease_remedy
{
	my ($node) = @_;
	my $sql = q{coalesce(problem || E'\n' || remedy, '')};

	# once something is typed, the worker has to see it
	eval { wait_for_lease($node, "$sql <> \$told\$$told\$told\$") } if $told ne '';
	my $row = lease_of($node, $sql);
	return '' if $row eq '';
	$told = $row;
	return (split /\n/, $row, 2)[1];
}

# Let the robot follow the remedy of a problem by what it types, or by waiting: where it comes to
# the words of "waits", the clock goes to a second after the time in what it was told, and stands
# there until the server has leased, and has made IDs.
sub follow
{
	my ($name, $node, $problem, %how) = @_;
	my $waits = delete $how{waits};
	my ($words, $pattern, $before) = @{ $waits // [] };
	my $time;

	$told = '';
	wait_for_lease($node, "problem ~ '$problem'");
	$how{hands} = [ $words => sub {
		($time) = $told =~ $pattern or die "no time in \"$told\"";
		$before->() if $before;
		write_clock($clock, 'frozen_us', query($registry, "SELECT (1000000 * (extract(epoch FROM timestamptz '$time') + 1))::bigint"));
		wait_until_held($node);
	} ] if $waits;
	follow_remedies(sub { lease_remedy($node) }, name => $name, node => $node, registry => $registry, %how);
	wait_until_held($node);
	my @ids = make_ids($node, 100);
	return if !$waits;
	is(query($node, "SELECT snowflake_timestamp($ids[0]) - timestamptz '$time' BETWEEN interval '0' AND interval '1.01 s'"), 't',
		"$name: the first ID is of $time, or up to a second later");

	# from there the clock goes on
	write_clock($clock, 'set_ms', sprintf('%.0f', read_clock($clock, 'frozen_us') / 1000 + 10 - 1000 * Time::HiRes::time()));
	write_clock($clock, 'frozen_us', 0);
	return;
}

# ---- a slot that a server has left ----

my $one = start_waiter('one', "snowflake.node_id = '2'");
wait_until_held($one);
make_ids($one, 100);
$one->stop('immediate');

my $heir = start_waiter('heir', "snowflake.node_id = '2'");
follow('a slot that is reserved', $heir, 'is reserved until', only => qr/^$/,
	types => 'For any free number, as in a clone of a server that runs, ',
	waits => [ qr/This server will claim it/, qr/until (\S+) by/ ]);
is(lease_of($heir, 'node_id'), '2', '... and it has that number');

# ---- a registry that was recovered ----

# The server goes on until its right ends, and leases again when the text says.
query($registry, q{SELECT snowflake_registry.recover(interval '10 s', interval '0')});
follow('a registry that was recovered', $heir, 'The registry was recovered', only => qr/^$/,
	types => [ 'until then it goes on making IDs.', 'It leases a node id again at' ],
	waits => [ qr/Do not restart this server before .*/, qr/leases a node id again at (\S+?)\.$/, sub { make_ids($heir, 10) } ]);

# A server that has just started waits.
query($registry, q{SELECT snowflake_registry.recover(interval '10 s', interval '0')});
follow('a new server of a registry that was recovered', start_waiter('new'), 'lets no server claim', only => qr/^$/,
	types => 'This server will claim one then.',
	waits => [ qr/This server will claim one then/, qr/slot before (\S+?)\.$/m ]);

wait_for_lease($heir, q{state = 'held' AND problem IS NULL});
make_ids($heir, 10);

# ---- a server that crashes again and again ----

# Where more slots are left than are free, the text says when it leases again, and which slot
# can be released before.
my $any = start_waiter('any');

sub crash_often
{
	while (lease_of($any, q{coalesce(problem, '')}) !~ /slots reserved/)
	{
		wait_until_held($any);
		make_ids($any, 10);
		$any->stop('immediate');
		start_by_clock($any, $clock);
		wait_for_lease($any, q{state = 'held' OR problem IS NOT NULL});
	}
	return;
}

crash_often();
follow('a server that crashes again and again', $any, 'slots reserved', only => qr/^$/,
	waits => [ qr/It leases again at/, qr/leases again at (\S+?)\. / ]);
crash_often();
follow('a server that crashes again and again, and is in a hurry', $any, 'slots reserved',
	types => 'Find out why this server starts again and again.');

$checker->clients;
done_testing();
