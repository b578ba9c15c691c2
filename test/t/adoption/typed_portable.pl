# Remedies of the portable functions that are calls, as a robot types them (Robot.pm). IDs
# come afterwards, none twice.
#
# takes: 10 s
use SnowflakeTest;
use Robot;

my $install = slurp_file("$root/sql/portable.sql");
my $node = new_server('main');
my %made;
my @twice;

$node->start;
query($node, 'CREATE ROLE tenant LOGIN; CREATE SCHEMA ids AUTHORIZATION tenant');

# Run a statement as the owner of the functions. Return the HINT of its error.
sub by_owner
{
	my ($sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET search_path = ids; $sql", extra_params => [ '-U', 'tenant' ], on_error_stop => 1);

	return hint_of($err) || "no remedy: $err" if $status != 0;
	push @twice, grep { $made{$_}++ } $out =~ /^(\d+)$/mg;
	return '';
}

sub statement
{
	my ($name, $sql, %how) = @_;
	my $runs = 0;

	follow_remedies(sub { $how{once} && $runs++ ? '' : by_owner($sql) }, name => $name, node => $node, owner => 'tenant', as => 'owner', %how);
	return;
}

statement('the functions of a role without CREATE', $install, types => 'As the owner of the database: GRANT');
statement('IDs without a number', 'SELECT ids.snowflake_nextval()', types => 'SELECT %s.snowflake_set_node(1); with another number on each server.');
statement('IDs of a shard without shards', 'SELECT ids.snowflake_shard_nextval(7)', types => q{SELECT %s.snowflake_set_shards('0-4095');});
statement('a layout that is none', q{SELECT ids.snowflake_nextval('wordpress')}, once => 1, types => 'portable.sql: See the presets: ');
statement('an ID of another layout', q{SELECT ids.snowflake_advance(1::bigint << 60, 'javascript')}, once => 1,
	types => 'Name the layout that the ID was made with: SELECT');
by_owner('SELECT ids.snowflake_close()');
statement('an exchange that is given up', 'SELECT ids.snowflake_nextval()', types => 'Call again. If their owner has given up the exchange');
by_owner('SELECT ids.snowflake_close()');
follow_remedies(sub { query($node, q{SELECT coalesce(remedy, '') FROM ids.snowflake_status() WHERE check_name = 'library'}) }, name => 'a check that finds an exchange', node => $node, owner => 'tenant', as => 'owner',
	types => 'Go on with the exchange. Or give it up');
is(by_owner('SELECT ids.snowflake_nextval() FROM generate_series(1, 100)'), '', 'IDs come again');
is("@twice", '', 'none was made before');
done_testing();
