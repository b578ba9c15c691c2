# Remedies about lines of settings, as a robot types them (Robot.pm): lines that the files
# have lost, values of ALTER SYSTEM, and values of the server's command line. Then a database
# that was filled with another layout, beside one that was not; and a column with equal IDs.
#
# takes: 30 s
use SnowflakeTest;
use Robot;

my $node = new_server('main', "snowflake.layout = 'javascript'", "snowflake.epoch = '2023-01-01'", "snowflake.shard_layout = 'timestamp:41 shard:8 sequence:14'");
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

# ---- lines that the files have lost ----

# The robot types this while the server runs.
sub lost
{
	my ($check, %how) = @_;
	my $tries = 0;

	follow_remedies(sub { $tries++ >= ($how{lines} // 1) ? wait_for_check($check, 'ok') : remedy_of($node, $check) },
		name => "lost lines, $check", node => $node, as => 'super', %how);
	return;
}

$node->start;
my $superuser = query($node, 'SELECT current_user');
query($node, 'CREATE EXTENSION snowflake; CREATE ROLE app LOGIN');
query($node, $next);
$node->adjust_conf('postgresql.conf', $_, undef) foreach qw(shared_preload_libraries snowflake.node_id snowflake.layout snowflake.epoch snowflake.shard_layout);
$node->reload;
wait_for_check('node id', 'warning');
lost('layout', lines => 2, types => 'To keep the present one, ');
lost('shard layout');
lost('preload', types => 'preconditions.c: ^To keep it, %s');
unlike(answer($node, q{SELECT * FROM snowflake_status()}), qr/^(?:preload|layout|shard layout)\|warning/m, 'lost lines: they are back');
follow('lost lines', sub { remedy_of($node, 'node id') eq '' ? '' : wait_for_check('node id', 'warning') }, only => qr/node_id|reload/)
  if remedy_of($node, 'node id') ne '';

# ---- another layout of shards, beside an epoch of the node's layout ----

$node->adjust_conf('postgresql.conf', 'snowflake.shard_layout', q{'timestamp:41 shard:7 sequence:15'});
$node->restart;
unlike(told($next, $superuser), qr/snowflake\.epoch/, 'another layout of shards: the epoch stays');
follow('another layout of shards, beside an epoch', sub { told($next, $superuser) }, only => qr/shard_layout/, stays => 1,
	types => 'To keep the recorded configuration, ');

# ---- a role that may not see the other libraries ----

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', undef);
$node->reload;
wait_for_check('preload', 'warning');
my $kept = 0;
follow('a lost library, as any role', sub { $kept++ ? '' : query($node, q{SET ROLE app; SELECT remedy FROM snowflake_status() WHERE check_name = 'preload'}) },
	types => 'preconditions.c: ^To keep it, add snowflake to shared_preload_libraries in postgresql.conf, or this line, if it has none');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', undef);
$node->restart;
follow('a library that is not there, as any role', sub { told($next, 'app') }, types => 'preconditions.c: ^Add snowflake to shared_preload_libraries', stays => 1);

# ---- values of ALTER SYSTEM ----

# Wait until the server knows that the files have other libraries.
sub wait_for_other_libraries
{
	$node->poll_query_until('postgres', q{SELECT pending_restart FROM pg_settings WHERE name = 'shared_preload_libraries'}) or die;
	return;
}

alter_system($node, q{SET shared_preload_libraries = 'auto_explain'});
my $tries = 0;
wait_for_other_libraries();
follow('a list of libraries that waits, without this one', sub { $tries++ ? '' : remedy_of($node, 'preload') },
	types => 'To keep it, run: %s');
is(query($node, 'SHOW shared_preload_libraries'), 'auto_explain, snowflake', '... and the others are preloaded, too');
alter_system($node, 'RESET shared_preload_libraries');
alter_system($node, q{SET shared_preload_libraries = 'snowflake', 'auto_explain'});
wait_for_other_libraries();
is(remedy_of($node, 'preload'), '', 'a list of libraries that waits, with this one');
alter_system($node, 'RESET shared_preload_libraries');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', qq{'auto_explain,\tsnowflake'});
$node->reload;
wait_for_other_libraries();
is(remedy_of($node, 'preload'), '', '... behind a tab');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', 'snowflake');
alter_system($node, 'RESET shared_preload_libraries');
# with an empty name, or two in one literal, the server would not start
foreach my $list ([ q{''}, 'snowflake' ], [ q{'auto_explain, snowflake'}, 'auto_explain, snowflake' ])
{
	alter_system($node, "SET shared_preload_libraries = $list->[0]");
	wait_for_other_libraries();
	$tries = 0;
	follow("a list of libraries that the server cannot read: $list->[0]", sub { $tries++ ? '' : remedy_of($node, 'preload') });
	is(query($node, 'SHOW shared_preload_libraries'), $list->[1], '... and it can then');
	alter_system($node, 'RESET shared_preload_libraries');
}
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', undef);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'auto_explain,'");
$node->restart;
follow('a list of libraries with a comma too many', sub { told($next, $superuser) }, types => 'preconditions.c: ^Add to', stays => 1);
is(query($node, 'SHOW shared_preload_libraries'), 'auto_explain, snowflake', '... and the others are preloaded, too');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', undef);
$node->restart;
alter_system($node, q{SET shared_preload_libraries = 'auto_explain', 'passwordcheck'});
wait_for_other_libraries();
follow('libraries that wait for a restart', sub { told($next, $superuser) }, stays => 1, says => qr/\Aread: ALTER SYSTEM has set/);
like(query($node, 'SHOW shared_preload_libraries'), qr/^auto_explain, passwordcheck, snowflake$/, '... and these are preloaded, too');
alter_system($node, q{SET shared_preload_libraries = 'auto_explain'});
$node->restart;
like(told($next, 'app'), qr/If that changes nothing, see this as a superuser\.$/, 'a role that may not see where a value comes from: so says the HINT');
alter_system($node, 'RESET shared_preload_libraries');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'snowflake'\nsnowflake.shards = '0-5'");
$node->restart;
alter_system($node, q{SET snowflake.shards = '1'});
like(told('SELECT snowflake_shard_nextval(5)', 'app'), qr/If that changes nothing, see this as a superuser\.$/, '... also for a line');
unlike(told('SELECT snowflake_shard_nextval(5)', $superuser), qr/changes nothing/, '... but not for a superuser');
alter_system($node, 'RESET snowflake.shards');

# ---- values of the command line ----

sub start_with
{
	my ($options) = @_;

	$node->stop;
	system_or_bail('pg_ctl', '-w', '-s', '-D', $node->data_dir, '-l', $node->logfile, '-o', $options, 'start');
	$node->_update_pid(1);
	return;
}

# The robot puts more onto a command line that has this already.
sub follow_arguments
{
	my ($name, $options, $call, %how) = @_;

	start_with($options);
	follow_remedies(sub { told($call, $superuser) }, name => $name, node => $node, as => 'super',
		arguments => sub { start_with("$options $_[0]") }, %how);
	like(answer($node, $call), qr/^\d+$/, "$name: IDs are made");
	return;
}

follow_arguments('a shard on the command line', "-c snowflake.shards='1'", 'SELECT snowflake_shard_nextval(4)',
	says => qr/If no server has the shard now, set this on the server's command line:\n-c snowflake\.shards='1,4'\nand restart this server\.$/m, given => { ID => 1 }, only => qr/^-c/);
follow_arguments('a library on the command line', '-c shared_preload_libraries=auto_explain', $next,
	types => q{preconditions.c: Set this on the server's command line, and}, says => qr/\n-c shared_preload_libraries='auto_explain,snowflake'$/m);
$node->stop;
$node->start;

# ---- a column with equal IDs ----

query($node, q{CREATE TABLE "Equal" (id bigint DEFAULT snowflake_nextval()); INSERT INTO "Equal" VALUES (1), (1)});
my $create = q{SELECT substring(remedy FROM 'CREATE [^;]*;') FROM snowflake_status() WHERE check_name = 'unique indexes'};
answer($node, query($node, $create)) foreach 1 .. 2;
follow('two indexes that could not be made', sub { remedy_of($node, 'unique indexes') }, stays => 1, types => 'An index is invalid, since two rows have one ID',
	hands => [ qr/Give one of these rows another ID/ => sub { query($node, 'DELETE FROM "Equal"') } ]);
is(query($node, q{SELECT count(*), count(*) FILTER (WHERE indisvalid) FROM pg_index WHERE indrelid = '"Equal"'::regclass}), '1|1',
	'two indexes that could not be made: none of them is left');

# ---- a database that was filled with another layout ----

$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake'\nsnowflake.epoch = ''");
$node->restart;
like(told($next, $superuser), qr/^To keep the recorded configuration, which stops IDs in databases of the present one, add .*\nsnowflake\.layout = '.*\nIf only this database was restored, or the change is meant, run .*snowflake_accept\('configuration'::pg_catalog\.text\);$/s,
	'a database of another layout, where no other one has made IDs');
query($node, 'CREATE DATABASE production');
query($node, "CREATE EXTENSION snowflake; $next", database => 'production');
follow('a database of another layout, beside production', sub { told($next, $superuser) },
	types => 'If this database was restored beside others, which');
like(answer($node, $next, database => 'production'), qr/^\d+$/, '... which goes on making IDs');

# a line that says what is the default
$node->adjust_conf('postgresql.conf', 'snowflake.layout', undef);
$node->reload;
$node->poll_query_until('postgres', q{SELECT pending_restart FROM pg_settings WHERE name = 'snowflake.layout'}) or die;
is(remedy_of($node, 'layout'), '', 'a lost line that says what is the default: nothing is wrong');

done_testing();
