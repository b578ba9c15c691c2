# The kernel knows whether its clock is synchronized. The server shows it, warns, or
# refuses IDs. A library (test/helpers/shim.c) fakes the kernel's answer.
#
# takes: 15 s
use SnowflakeTest;

my $unsynchronized = qr/wall clock is not synchronized.*HINT:  Start chrony, ntpd or systemd-timesyncd on this machine, or on the host of this container; or set snowflake\.clock_check to "warn"\.$/ms;
my $node = new_server('main', "snowflake.shards = '3'");
my $kernel = $node->basedir . '/kernel';

# Replace the file as a whole, so that no process reads half of it.
sub kernel_says
{
	my ($text) = @_;

	unlink "$kernel.new";
	append_to_file("$kernel.new", "$text\n");
	rename("$kernel.new", $kernel) or die "$kernel: $!";
	return;
}

sub set_check
{
	my ($value) = @_;

	set_conf($node, "snowflake.clock_check = '$value'");
	$node->poll_query_until('postgres',
		"SELECT current_setting('snowflake.clock_check') = '$value'")
	  or die 'no reload';
	return;
}

# Return the level of the check in snowflake_status().
sub check_level
{
	return query($node, q{SELECT status FROM snowflake_status() WHERE check_name = 'clock synchronisation'});
}

# Wait until the clock has passed the mark.
sub wait_for_end_of_mark
{
	$node->poll_query_until('postgres', q{
		SELECT extract(epoch FROM clock_timestamp()) * 1000 > last_value FROM snowflake_state.snowflake_mark})
	  or die 'the mark is not used up';
	return;
}

sub warnings_since
{
	my ($from) = @_;

	return scalar(() = substr(slurp_file($node->logfile), $from) =~
		  /WARNING:  snowflake SF104: (wall clock is not|could not find out whether)/g);
}

{
	local $ENV{LD_PRELOAD} = preload();
	local $ENV{SHIM_KERNEL} = $kernel;
	kernel_says('unsynchronized 16000000 15000000');
	$node->start;
}
query($node, 'CREATE EXTENSION snowflake; CREATE ROLE mallory; CREATE DATABASE other');
query($node, 'CREATE EXTENSION snowflake', database => 'other');

# ---- as information ----

my $clock = q{SELECT synchronized, max_error, estimated_error, registry_offset FROM snowflake_clock()};
is(query($node, "SET ROLE mallory; $clock"), 'f|00:00:16|00:00:15|', 'a clock that nobody keeps right');
is(query($node, q{SELECT wall_clock BETWEEN statement_timestamp() AND clock_timestamp() FROM snowflake_clock()}),
	't', 'and what it says');
kernel_says('synchronized 1500 20');
is(query($node, $clock), 't|00:00:00.0015|00:00:00.00002|', 'one that is kept right');
kernel_says('forbidden');
is(query($node, $clock), '|||', 'one that we may not ask');

# ---- off ----

my $from = -s $node->logfile;
kernel_says('unsynchronized');
foreach (1 .. 3)
{
	like(query($node, $next), qr/^\d+$/, 'clock_check = off: nothing is refused');
	wait_for_end_of_mark();
}
is(warnings_since($from), 0, 'nor warned of');
is(check_level(), 'ok', 'nor is it a problem');
kernel_says('forbidden');
is(check_level(), 'ok', 'nor if the kernel does not say');

# ---- warn ----

set_check('warn');
kernel_says('synchronized');
wait_for_end_of_mark();
query($node, $next);
is(warnings_since($from), 0, 'clock_check = warn: nothing to warn of');
foreach my $state ('unsynchronized', 'forbidden')
{
	kernel_says($state);
	wait_for_end_of_mark();
	like(query($node, $next), qr/^\d+$/, "clock_check = warn, $state: it makes IDs");
	wait_for_end_of_mark();
	query($node, $next);
	is(check_level(), 'warning', 'and it shows');
}
is(warnings_since($from), 1, 'with one warning an hour');

# ---- error ----

set_check('error');
kernel_says('synchronized');
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe($next);
wait_for_end_of_mark();
$session->query_safe($next);
my $mark = 'SELECT last_value FROM snowflake_state.snowflake_mark';
my $before = $session->query_safe($mark);
kernel_says('unsynchronized');
my $tries = 0;
until ($session->query($next) !~ /^\d+$/ || $session->query($mark) ne $before)
{
	die 'it is not refused' if ++$tries > 100_000;
}
is(query($node, $mark), $before,
	'clock_check = error: the mark is not moved, neither early nor late');
cmp_ok($tries, '>', 0, 'what is below it is not refused');
is(check_level(), 'error', 'and it shows');
refused($node, $next, '55000', $unsynchronized, 'then it is');
refused($node, 'SELECT snowflake_ready()', '55000', $unsynchronized, 'the probe says the same');
refused($node, 'SELECT count(*) FROM snowflake_nextval_batch(10)', '55000', $unsynchronized, 'a batch as well');
refused($node, 'SELECT snowflake_shard_nextval(3)', '55000', $unsynchronized, 'and a shard');
refused($node, $next, '55000', $unsynchronized, 'a mark is not loaded either', database => 'other');
kernel_says('forbidden');
refused($node, $next, '55000',
	qr/could not find out whether the wall clock is synchronized: Operation not permitted.*HINT:  Let this server call adjtimex\(\), which some containers forbid; or set snowflake\.clock_check to "off"\.$/ms,
	'who may not ask is told so');
set_check('off');
like(query($node, $next), qr/^\d+$/, '... and what it is told helps');
set_check('error');
kernel_says('synchronized');
like($session->query($next), qr/^\d+$/, 'it goes on by itself');
like(query($node, $next, database => 'other'), qr/^\d+$/, 'elsewhere, too');
$session->quit;
kernel_says('unsynchronized');
wait_for_end_of_mark();
refused($node, $next, '55000', $unsynchronized, 'and is refused again');
set_check('warn');
like(query($node, $next), qr/^\d+$/, 'until the administrator wants to know no more');
$node->stop;

done_testing();
