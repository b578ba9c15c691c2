# A call may wait for the clock, for the sequence or for the mark. It ends at once when
# it is cancelled, when its timeout is over, or when its session is terminated. It
# leaves nothing behind that other sessions would wait for.
#
# takes: 15 s
use SnowflakeTest;

my $node = new_server('main', 'snowflake.max_clock_wait = 10min',
	"snowflake.shards = '3'", 'snowflake.reserve = 100ms');

start_with_clock($node, 0);
query($node, 'CREATE EXTENSION snowflake');

# For each kind of wait: how to make calls wait, the call, the sign that it waits, and
# how to end the wait.
my $holder;
my %waits = (
	clock => {
		begin => sub { query($node, $next); set_clock($node, -120) },
		call => 'SELECT snowflake_nextval() /* waits */',
		sign => waits_for($node, 'SnowflakeClock'),
		end => sub { set_clock($node, 0) }
	},

	# the IDs of four hours
	sequence => {
		begin => sub { },
		call => 'SELECT count(id) FROM (SELECT snowflake_nextval_batch(1000000) AS id '
		  . 'FROM (SELECT generate_series(1, 60000)) g) s /* waits */',
		sign => waits_for($node, 'SnowflakeSequence'),
		end => sub { }
	},
	mark => {
		begin => sub {
			$holder = begin_session($node,
				'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
		},
		call => 'SELECT count(snowflake_nextval()) '
		  . 'FROM (SELECT generate_series(1, 1000000000)) s /* waits */',
		sign => "wait_event_type = 'Lock'",
		end => sub { $holder->query_safe('ROLLBACK'); $holder->quit }
	});

foreach my $what (sort keys %waits)
{
	my $wait = $waits{$what};

	$wait->{begin}->();
	refused($node, "SET statement_timeout = '300ms'; $wait->{call}",
		'57014', qr/statement timeout/, "$what: a timeout");
	foreach my $case (
		[ 'pg_cancel_backend', qr/canceling statement due to user request/ ],
		[ 'pg_terminate_backend', qr/terminating connection/ ])
	{
		my ($function, $message) = @$case;
		my ($out, $err) = ('', '');
		my $client = IPC::Run::start(
			[
				'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
				$wait->{call}
			],
			'>', \$out, '2>', \$err);
		my $its = q{query LIKE '%/* waits */%' AND pid <> pg_backend_pid()};

		$node->poll_query_until('postgres',
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE $its AND $wait->{sign}")
		  or die "nobody waits for the $what";
		query($node, "SELECT $function(pid) FROM pg_stat_activity WHERE $its");
		$client->finish;
		like($err, $message, "$what: $function");
	}
	$wait->{end}->();
	like(query($node, $next), qr/^\d+$/, "$what: afterwards it goes on");
}

$node->stop;
done_testing();
