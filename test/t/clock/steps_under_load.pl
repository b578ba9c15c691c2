# Steps of the clock while clients ask for IDs. Small steps change nothing or make
# calls sleep. After large ones IDs are refused until the clock is right again.
#
# takes: 20 s
use SnowflakeTest;
use Time::HiRes qw(usleep);
use IdChecker;
use Load;

my $node = new_server('main', "snowflake.shards = '3-4'",
	'snowflake.max_clock_jump = 1h');
my $checker = IdChecker->new($node->basedir . '/ids');
my $offset = 0;
my $seed = $ENV{SEED} || time;

srand($seed);
note "SEED=$seed";
start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake; ' . load_tables());

sub start
{
	return start_load($checker, 'main', $node->connstr('postgres'), 8);
}

# Steps that a call can wait for give no client an error. The clock is moved, and moved
# back.
foreach my $step (-0.001, -0.004, -0.008, -0.250, -1, 1, 600)
{
	my $load = start();

	$load->more(1000);
	set_clock($node, $offset + $step);
	$load->more(1000);
	if ($step > 1)
	{
		$offset += $step;    # that is the right time from now on
	}
	else
	{
		set_clock($node, $offset);
		$load->more(1000);
	}
	is_deeply($load->finish, {}, "a step by $step s: nobody has an error");
}

# At a leap second, the clock shows the last second of the day twice.
my $load = start();
$load->more(1000);
$offset -= 1;
set_clock($node, $offset);
$load->more(5000);
is_deeply($load->finish, {}, 'a leap second: nobody has an error');

# after larger steps calls are refused, and later the clients go on by themselves
my $frozen = query($node,
	q{SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '1 s', 'YYYY-MM-DD HH24:MI:SS')});
foreach my $case (
	[ $offset - 3600, qr/wall clock is 1 h behind/, 'an hour back' ],
	[ $offset + 2 * 86400, qr/wall clock jumped forward by [\w ]*(?:h|days?)$/m,
		'two days ahead' ],
	[ $frozen, qr/wall clock (stands still|is \d+ m?s behind)/, 'frozen' ])
{
	my ($clock, $message, $name) = @$case;

	$load = start();
	$load->more(1000);
	set_clock($node, $clock);
	refused($node, 'SELECT count(*) FROM snowflake_nextval_batch(1000000)',
		'58000', $message, "$name: refused");
	set_clock($node, $offset);
	$load->more(1000);
	my $errors = $load->finish;
	delete $errors->{58000};
	is_deeply($errors, {}, "$name: the clients had no other error, and go on");
}

# Random steps, every 10 ms. A waiting call can fail if other sessions overtake it
# again and again: it never meets a moment at which the clock is ahead of their IDs.
my $steps = $ENV{SNOWFLAKE_STEPS} || 500;
$load = start();
foreach (1 .. $steps)
{
	set_clock($node, $offset + rand(0.6) - 0.3);
	usleep(10_000);
}
set_clock($node, $offset);
$load->more(1000);
my $errors = $load->finish;
delete $errors->{58000};
is_deeply($errors, {}, "$steps steps at random: only refusals for the clock");
$load = start();
$load->more(1000);
is_deeply($load->finish, {}, 'afterwards nobody has an error');

$checker->state('tables', $node, 'postgres',
	'SELECT id FROM t UNION ALL SELECT id FROM s');
$checker->clients;
$checker->states;
note sprintf 'steps: %d IDs; %d steps of a clock', $checker->checked, $steps;
$node->stop;
done_testing();
