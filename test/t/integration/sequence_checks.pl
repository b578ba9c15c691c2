# Tools that warn of sequences that end soon, of Nagios: check_postgres and OPM's
# check_pgactivity. They find none in a database with the extension or the portable
# functions, and still find a sequence of the application's.
#
# takes: 20 s
# needs: check-postgres check-pgactivity
use SnowflakeTest;

my $node = new_server('node', "snowflake.shards = '3'");
my $install = slurp_file("$root/sql/portable.sql");
$node->start;
query($node, 'CREATE DATABASE closed; CREATE DATABASE fresh; CREATE DATABASE unused');
query($node, 'CREATE EXTENSION snowflake', database => $_) foreach 'fresh', 'postgres', 'unused';
query($node, 'SELECT snowflake_nextval(), snowflake_shard_nextval(3)', database => $_) foreach 'fresh', 'postgres';
query($node, qq{CREATE SCHEMA ids; SET search_path = ids; $install
	SELECT snowflake_set_node(5), snowflake_set_shards('3-4'); SELECT snowflake_nextval(), snowflake_shard_nextval(3)}, database => $_)
  foreach 'postgres', 'closed';
query($node, 'SELECT ids.snowflake_close()', database => 'closed');

# Return what a tool says: its status, and what it prints.
sub says
{
	my (@command) = @_;
	my $out = '';

	IPC::Run::run([ @command ], '>', \$out, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return ($? >> 8) . ": $out";
}
my $user = query($node, 'SELECT current_user');
my %tool = (
	check_postgres => sub { says('check_postgres', '--action=sequence', '--host=' . $node->host, '--port=' . $node->port, "--dbuser=$user", "--dbname=$_[0]") },
	check_pgactivity => sub {
		says('/usr/lib/nagios/plugins/check_pgactivity', '--service=sequences_exhausted', '-w', '85%', '-c', '95%', '--host=' . $node->host, '--port=' . $node->port, "--username=$user");
	});

foreach my $database ('postgres', 'fresh', 'closed', 'unused')
{
	like($tool{check_postgres}->($database), qr/^0: POSTGRES_SEQUENCE OK/, "check_postgres: $database");
}
like($tool{check_pgactivity}->(), qr/^0: POSTGRES_CHECK_SEQ_EXHAUSTED OK/, 'check_pgactivity, all databases');

# check_pgactivity leaves the database postgres out
query($node, q{CREATE TABLE t (id smallserial); SELECT setval('t_id_seq', 32700)}, database => 'fresh');
like($tool{check_postgres}->('fresh'), qr/^2: POSTGRES_SEQUENCE CRITICAL: .*t_id_seq=100%/, 'a sequence of the application is found by check_postgres');
like($tool{check_pgactivity}->(), qr/^2: POSTGRES_CHECK_SEQ_EXHAUSTED CRITICAL/, '... and by check_pgactivity');

# nextval() moves none of ours, also of those that were never written, and setval() writes them
foreach my $database ('postgres', 'unused')
{
	my @sequences = split /\n/, query($node, q{SELECT c.oid::regclass FROM pg_sequence s JOIN pg_class c ON c.oid = seqrelid JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname ~ '_state$' AND seqincrement <> 1 ORDER BY 1}, database => $database);

	cmp_ok(scalar(@sequences), '>=', 5, "$database: sequences that guard the IDs");
	foreach my $sequence (@sequences)
	{
		my $read = "SELECT last_value FROM $sequence";
		my $was = query($node, $read, database => $database);

		foreach (1, 2)
		{
			$node->psql($database, "SELECT nextval('$sequence')");
			is(query($node, $read, database => $database), $was, "nextval('$sequence') moves nothing");
		}
		is(query($node, "SELECT setval('$sequence', 9223372036854775806)", database => $database), '9223372036854775806', '... and setval() writes it');
		refused($node, "SELECT nextval('$sequence')", '2200H', qr/reached minimum/, '... nor does nextval() then', database => $database);
	}
}
$node->stop('immediate');
done_testing();
