# Remedies of leases that say until when there are no IDs, in a registry with eight slots. A
# robot waits as the text says, and types what ends the wait (Robot.pm). IDs come by
# themselves, none with a timestamp below the time that the text says, and none twice.
#
# takes: 60 s
use SnowflakeTest;
use LeaseTest;
use Robot;

my $layout = 'timestamp:41 node:3 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);
my @short = ('snowflake.lease_wait = 0', "snowflake.lease_reserve = '10s'");

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

# Let the robot follow the remedy of a problem, by waiting until the server leases, or by
# what it types. Then the server makes IDs; return the time of the first one.
sub follow
{
	my ($name, $node, $problem, %how) = @_;

	$told = '';
	wait_for_lease($node, "problem ~ '$problem'");
	follow_remedies(sub { lease_remedy($node) }, name => $name, node => $node, registry => $registry,
		%how);
	wait_until_held($node);
	my @ids = make_ids($node, 100);
	return query($node, "SELECT snowflake_timestamp($ids[0])");
}

# Check that a time was not before the one that a text has named.
sub not_before
{
	my ($name, $time, $pattern) = @_;
	my ($from) = $told =~ $pattern or return fail("$name: a time is told in \"$told\"");

	is(query($registry, "SELECT timestamptz '$time' >= timestamptz '$from'"), 't', "$name: the first ID is of $time, not before $from");
	return;
}

# ---- a slot that a server has left ----

my $one = new_holder('one', @short, "snowflake.node_id = '2'");
$one->start;
query($one, 'CREATE EXTENSION snowflake');
wait_until_held($one);
make_ids($one, 100);
$one->stop('immediate');

my $heir = new_holder('heir', @short, "snowflake.node_id = '2'");
$heir->start;
query($heir, 'CREATE EXTENSION snowflake');
my $time = follow('a slot that is reserved', $heir, 'is reserved until', only => qr/^$/,
	types => 'For any free number, as in a clone of a server that runs, ',
	hands => [ qr/This server will claim it/ => sub { wait_until_held($heir) } ]);
not_before('a slot that is reserved', $time, qr/until (\S+) by/);
is(lease_of($heir, 'node_id'), '2', '... and it has that number');

# ---- a registry that was recovered ----

# The server goes on until its right ends, and leases again when the text says.
query($registry, q{SELECT snowflake_registry.recover(interval '10 s', interval '0')});
wait_for_lease($heir, q{problem IS NOT NULL});
$time = follow('a registry that was recovered', $heir, '.', only => qr/^$/,
	types => [ 'until then it goes on making IDs.', 'It leases a node id again at' ],
	hands => [ qr/Do not restart this server before .*/ => sub {
		make_ids($heir, 10);
		wait_until_held($heir);
	} ]);
not_before('a registry that was recovered', $time, qr/leases a node id again at (\S+?)\.$/);

# A server that has just started waits.
query($registry, q{SELECT snowflake_registry.recover(interval '10 s', interval '0')});
my $new = new_holder('new', @short);
$new->start;
query($new, 'CREATE EXTENSION snowflake');
$time = follow('a new server of a registry that was recovered', $new, 'lets no server claim', only => qr/^$/,
	types => 'This server will claim one then.',
	hands => [ qr/This server will claim one then/ => sub { wait_until_held($new) } ]);
not_before('a new server of a registry that was recovered', $time, qr/slot before (\S+?)\.$/m);

wait_for_lease($heir, q{state = 'held' AND problem IS NULL});
make_ids($heir, 10);

# ---- a server that crashes again and again ----

# Where more slots are left than are free, the text says when it leases again, and which slot
# can be released before.
my $any = new_holder('any', @short, "snowflake.lease_reserve = '1h'");
$any->start;
query($any, 'CREATE EXTENSION snowflake');
while (lease_of($any, q{coalesce(problem, '')}) !~ /slots reserved/)
{
	wait_until_held($any);
	make_ids($any, 10);
	$any->stop('immediate');
	$any->start;
	wait_for_lease($any, q{state = 'held' OR problem IS NOT NULL});
}
follow('a server that crashes again and again', $any, 'slots reserved',
	types => 'Find out why this server starts again and again.');

$checker->clients;
done_testing();
