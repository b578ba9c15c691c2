# Remedies of a database that was filled with another layout, beside one that was not, and
# of a column with equal IDs, as a robot types them (Robot.pm).
#
# takes: 30 s
use SnowflakeTest;
use Robot;

my $node = new_server('main', "snowflake.layout = 'javascript'", "snowflake.shard_layout = 'timestamp:41 shard:8 sequence:14'");
my $conf = $node->data_dir . '/postgresql.conf';

sub follow
{
	my ($name, $try, %how) = @_;

	follow_remedies($try, name => $name, node => $node, as => 'super', %how);
	$node->restart if !$how{stays};
	like(answer($node, $next), qr/^\d+$/, "$name: after a restart IDs are made");
	return;
}

# Return the HINT of a call, as this role.
sub told
{
	my ($sql, $role, %options) = @_;
	my ($status, undef, $err) = $node->psql($options{database} // 'postgres', $sql, extra_params => [ '-U', $role ]);

	return $status == 0 ? '' : hint_of($err) || $err;
}

# Wait until a check says this, and return its remedy.
sub wait_for_check
{
	my ($check, $status) = @_;

	$node->poll_query_until('postgres', "SELECT status = '$status' FROM snowflake_status() WHERE check_name = '$check'")
	  or diag("$check is not '$status': " . answer($node, "SELECT snowflake_status()"));
	return remedy_of($node, $check);
}

$node->start;
my $superuser = query($node, 'SELECT current_user');
query($node, "CREATE EXTENSION snowflake; $next");

# ---- a column with equal IDs ----

query($node, q{CREATE TABLE "Equal" (id bigint DEFAULT snowflake_nextval()); INSERT INTO "Equal" VALUES (1), (1)});
my $create = q{SELECT substring(remedy FROM 'CREATE [^;]*;') FROM snowflake_status() WHERE check_name = 'unique indexes'};
answer($node, query($node, $create)) foreach 1 .. 2;
follow('two indexes that could not be made', sub { remedy_of($node, 'unique indexes') }, stays => 1, types => 'An index is invalid, since two rows have one ID',
	hands => [ qr/Give one of these rows another ID/ => sub { query($node, 'DELETE FROM "Equal"') } ]);
is(query($node, q{SELECT count(*), count(*) FILTER (WHERE indisvalid) FROM pg_index WHERE indrelid = '"Equal"'::regclass}), '1|1',
	'two indexes that could not be made: none of them is left');

# ---- a database that was filled with another layout ----

$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'");
$node->restart;
like(told($next, $superuser), qr/^To keep the recorded configuration, which stops IDs in databases of the present one, add .*\nsnowflake\.layout = '.*\nIf only this database was restored, or the change is meant, run .*snowflake_accept\('configuration'\);$/s,
	'a database of another layout, where no other one has made IDs');
query($node, 'CREATE DATABASE production');
query($node, "CREATE EXTENSION snowflake; $next", database => 'production');
follow('a database of another layout, beside production', sub { told($next, $superuser) },
	types => 'If this database was restored beside others, which');
like(answer($node, $next, database => 'production'), qr/^\d+$/, '... which goes on making IDs');

done_testing();
