# Remedies about settings, as a robot types them (Robot.pm): a server that does not start, a
# number that waits for a restart, layouts that end, a publisher, a clock. Each server
# makes IDs afterwards, above those of before.
#
# takes: 30 s
use SnowflakeTest;
use Robot;

my $node = new_server('main');
my @made;

# Make IDs, which must be above the last one.
sub make_ids
{
	my ($name) = @_;

	push @made, split /\n/, query($node, "$next FROM generate_series(1, 10)");
	is(join(' ', grep { $made[ $_ - 1 ] >= $made[$_] } 1 .. $#made), '', "$name: new IDs are above those before, so that none is there twice");
	return;
}

sub follow
{
	my ($name, $try, %how) = @_;

	follow_remedies($try, name => $name, node => $node, as => 'super', %how);
	make_ids($name);
	return;
}

sub check
{
	my ($check) = @_;

	return sub { remedy_of($node, $check) };
}

# What is tried once, and prints a HINT.
sub told_once
{
	my ($sql) = @_;
	my $runs = 0;

	return sub { $runs++ ? '' : hint_of(($node->psql('postgres', $sql))[2]) };
}

# ---- a server that does not start ----

sub start
{
	my $from = -s $node->logfile // 0;

	return '' if $node->start(fail_ok => 1);
	my ($hint) = substr(slurp_file($node->logfile), $from) =~ /.*HINT:  (.*?)(?=\n\d{4}-|\s*\z)/s;
	return $hint =~ s/\n\t/\n/gr;
}

my @stopped = (restart => sub { });

$node->start;
query($node, 'CREATE EXTENSION snowflake');
make_ids('before');
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.node_id = 'env:SF_TEST_NODE'");
follow('a variable that has gone', \&start, @stopped, given => { NUMBER => 1 }, types => q{Give the host's name or the variable this server's number again.});
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.node_id = 'seven'");
follow('a number that is none', \&start, @stopped, given => { NUMBER => 1 }, types => q{settings_node.c: ^Set snowflake.node_id = 'NUMBER', with a number that no other server has});
$node->stop;
$node->append_conf('postgresql.conf', "snowflake.layout = 'snowflake epoch:2023-01-01'\nsnowflake.epoch = '2024-01-01'");
follow('two epochs', \&start, @stopped, types => 'Take snowflake.epoch out of the configuration files',
	hands => [ qr/Take snowflake\.epoch out of the configuration files/ => sub { $node->adjust_conf('postgresql.conf', 'snowflake.epoch', undef) } ]);
$node->adjust_conf('postgresql.conf', 'snowflake.layout', undef);
$node->restart;

# ---- a number that waits for a restart ----

$node->adjust_conf('postgresql.conf', 'snowflake.node_id', undef);
$node->reload;
$node->poll_query_until('postgres', q{SELECT found ~ 'waits' FROM snowflake_status() WHERE check_name = 'node id'}) or die;
follow('a number that is gone from the files', check('node id'), types => [ 'status_server.c: After a restart this server %s.', 'status_server.c: To keep the old one, ' ]);
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '1', 'a number that is gone from the files: it is kept');

alter_system($node, q{SET snowflake.node_id = ''});
$node->poll_query_until('postgres', q{SELECT found ~ 'unset, which waits' FROM snowflake_status() WHERE check_name = 'node id'}) or die;
follow('a number that ALTER SYSTEM unsets', check('node id'));
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '1', 'a number that ALTER SYSTEM unsets: it is kept');

# ---- a registry that waits for a restart, and an epoch that no longer does ----

alter_system($node, q{SET snowflake.registry = 'postgresql://w@/r?host=/nowhere'});
$node->poll_query_until('postgres', q{SELECT found ~ 'name a registry' FROM snowflake_status() WHERE check_name = 'node id'}) or die;
follow('a registry that waits for a restart', check('node id'), only => qr/snowflake\.registry|reload/,
	types => 'To lease node ids, restart the server. To keep the number, ');
is(query($node, 'SELECT snowflake_node(snowflake_nextval())'), '1', 'a registry that waits for a restart: the number is kept');
alter_system($node, q{SET snowflake.epoch = '2023-01-01'});
$node->poll_query_until('postgres', q{SELECT status = 'warning' FROM snowflake_status() WHERE check_name = 'layout'}) or die;
alter_system($node, 'RESET snowflake.epoch');
$node->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'layout'});
is(query($node, q{SELECT status FROM snowflake_status() WHERE check_name = 'layout'}), 'ok', 'an epoch that ALTER SYSTEM has unset again');

# ---- a mark that is before all IDs ----

query($node, q{CREATE TABLE kept AS SELECT snowflake_nextval() AS id; ALTER TABLE kept ALTER id SET DEFAULT snowflake_nextval()});
$node->restart;
query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1)});
is(query($node, q{SELECT status FROM snowflake_status() WHERE check_name = 'mark'}), 'warning', 'a mark that setval() has moved: the status says so');
follow('a mark that setval() has moved', check('mark'));
query($node, 'DROP TABLE kept');

# ---- layouts that end ----

my $short = "timestamp:36 node:10 sequence:12 epoch:2024-01-01";

query($node, qq{CREATE ROLE clerk LOGIN; CREATE SCHEMA clerk AUTHORIZATION clerk; CREATE TABLE clerk.t (id bigint DEFAULT snowflake_nextval('$short')); ALTER TABLE clerk.t OWNER TO clerk});
my $told = 0;
follow('a default in a layout that has ended', sub { $told++ ? '' : query($node, q{SELECT remedy FROM snowflake_status() WHERE remedy ~ 'In one column'}) },
	owner => 'clerk', given => { NAME => 'new_id', LAYOUT => 'javascript' }, types => 'In one column, IDs of two layouts can be equal.');
like(query($node, 'INSERT INTO clerk.t (id) VALUES (1) RETURNING new_id'), qr/^\d+$/, 'a default in a layout that has ended: a new column has IDs');
query($node, 'DROP TABLE clerk.t');

# a default whose layout has room for fewer numbers
$node->append_conf('postgresql.conf', "snowflake.node_id = '7'");
$node->restart;
query($node, q{CREATE TABLE clerk.t (id bigint DEFAULT snowflake_nextval('timestamp:41 node:2 sequence:12 epoch:2024-01-01'))});
follow('a number for which a layout has no room', check('column layouts'), types => 'Set a smaller snowflake.node_id, which no other server has, and',
	hands => [ qr/Set a smaller snowflake\.node_id/ => sub { $node->append_conf('postgresql.conf', "snowflake.node_id = '1'"); $node->restart } ]);
like(query($node, 'INSERT INTO clerk.t DEFAULT VALUES RETURNING id'), qr/^\d+$/, 'a number for which a layout has no room: IDs come');
query($node, 'DROP TABLE clerk.t');

# a column that is too narrow, and not convertible
query($node, q{CREATE TABLE clerk.narrow ("The Id" real DEFAULT snowflake_nextval()); ALTER TABLE clerk.narrow OWNER TO clerk});
follow('a key of a type that is too narrow', check('column types'), owner => 'clerk', types => 'status_tables.c: ^Run as the owner of the table; this rewrites and locks it: ',
	says => qr/ALTER TABLE clerk\.narrow ALTER COLUMN "The Id" TYPE bigint;/);
query($node, 'DROP TABLE clerk.narrow');

# ---- a publisher with the same number ----

my $publisher = start_server('publisher', 'wal_level = logical');

query($publisher, 'CREATE TABLE arrivals (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); CREATE PUBLICATION p FOR ALL TABLES');
my @twins = split /\n/, query($publisher, 'SELECT snowflake_nextval() FROM generate_series(1, 2)');
query($node, qq{CREATE TABLE arrivals (id bigint CONSTRAINT meant PRIMARY KEY DEFAULT snowflake_nextval()); ALTER TABLE arrivals OWNER TO clerk;
	INSERT INTO arrivals VALUES ($twins[0]), ($twins[1]); ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'; SELECT pg_reload_conf()});
query($node, q{CREATE SUBSCRIPTION arriving CONNECTION '} . $publisher->connstr . q{ dbname=postgres' PUBLICATION p WITH (copy_data = false)});
query($publisher, "INSERT INTO arrivals VALUES ($_)") foreach @twins;
$node->poll_query_until('postgres', 'SELECT apply_error_count > 2 FROM pg_stat_subscription_stats') or die 'it does not fail';

# Return the ID in the way that the log names last.
sub id_in_the_way { return (slurp_file($node->logfile) =~ /Key \(id\)=\((\d+)\) already exists/g)[-1] }

# the second row has the number of before, which is another one then
foreach my $place (0, 1)
{
	my $tries = 0;

	follow("a publisher with the same number, row $place", sub {
		my $row = q{FROM snowflake_status() WHERE check_name = 'subscriptions'};
		my $gone = sub { $place == 0 ? id_in_the_way() == $twins[1] : query($node, "SELECT status = 'ok' $row") eq 't' };

		wait_until { $gone->() } 'the row comes' if $tries++ >= 3;
		return $gone->() ? '' : query($node, "SELECT remedy $row");
	}, owner => 'clerk', given => { ID => \&id_in_the_way }, types => q{If the log names a unique constraint or index (SQLSTATE 23505)},
		says => qr/run on both servers: SELECT node_id FROM [\w"]+\.pg_stat_snowflake; If these are equal, set another here, and run: .* If they never were, do not renumber: the row may be here already\./,
		hands => [ qr/If these are equal, set another here/ => sub { $node->append_conf('postgresql.conf', "snowflake.node_id = '2'") } ]);
}
is(query($node, 'SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE snowflake_node(id) = 2) FROM arrivals'), '4|4|2',
	'a publisher with the same number: its rows have come, and no ID is there twice');
query($node, 'DROP SUBSCRIPTION arriving');
$publisher->stop;

# ---- the server's own layout, once its time is over ----

my $young = new_server('young', "snowflake.layout = '$short'");
start_with_clock($young, '@2026-01-01 00:00:00');
query($young, 'CREATE EXTENSION snowflake');
my $old = query($young, $next);
set_clock($young, 0);
$young->stop;
start_by_clock($young, $young->basedir . '/clock');
query($young, q{SELECT snowflake_accept('clock')});
follow_remedies(sub { my ($status, $out, $err) = $young->psql('postgres', $next); $status == 0 ? '' : hint_of($err) || $err },
	name => 'the layout has ended', node => $young, as => 'super',
	hands => [ qr/Choose a layout with more bits for the timestamp/ => sub {
		$young->append_conf('postgresql.conf', "snowflake.layout = 'timestamp:41 node:10 sequence:12 epoch:2024-01-01'");
		$young->stop;
		start_by_clock($young, $young->basedir . '/clock');
	} ], types => 'Choose a layout with more bits for the timestamp as');
cmp_ok(query($young, $next), '>', $old, 'the layout has ended: new IDs are above those before');

# ---- rows of the future in a table that an application fills ----

my $future = new_server('future');
my $is_reset = 0;

start_with_clock($future, '+40d');
query($future, q{CREATE EXTENSION snowflake; CREATE ROLE clerk LOGIN; CREATE SCHEMA clerk AUTHORIZATION clerk;
	CREATE TABLE clerk."by hand" (id bigint); ALTER TABLE clerk."by hand" OWNER TO clerk;
	INSERT INTO clerk."by hand" SELECT snowflake_nextval() FROM generate_series(1, 3)});
set_clock($future, 0);
$future->stop;
start_by_clock($future, $future->basedir . '/clock');
follow_remedies(sub { $is_reset++ ? '' : remedy_of($future, 'mark') }, name => 'rows that an application has made', node => $future, as => 'super', owner => 'clerk',
	only => qr/reset_mark|renumber|DEFAULT/, given => {
		TIME => sub { query($future, 'SELECT clock_timestamp()') }, TABLE => 'clerk."by hand"', COLUMN => 'id',
		ID => sub { query($future, 'SELECT min(id) FROM clerk."by hand"') } },
	types => 'As the owner of such a table, with its lowest ID of the future: ');
is(query($future, q{SELECT count(*), count(DISTINCT id) FROM clerk."by hand" WHERE id < (SELECT snowflake_nextval())}), '3|3',
	'rows that an application has made: they are of the present, and none is there twice');
$future->stop;

# ---- a clock that is far past the mark, or was set ----

$node->stop;
start_with_clock($node, '+3d');
make_ids('far past the mark');
follow('a clock far past the mark', check('clock steps'), types => 'status_server.c: ^If the clock is wrong, correct it now: IDs made before the');
set_clock($node, '+4d');
follow('steps of the clock', check('clock steps'), types => 'To forget these, run as a superuser: SELECT');

done_testing();
