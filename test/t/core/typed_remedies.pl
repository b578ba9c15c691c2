# Situations that print remedies, in a nasty database (NastyDatabase.pm), where a robot types
# what the remedies say: the mark and the record, the clock, settings, copies.
#
# takes: 60 s
use SnowflakeTest;
use NastyDatabase;
use Robot;

nasty_database('max_prepared_transactions = 2', 'wal_level = logical');

# ---- the mark ----

keep();

# Overwrite the magic number in the mark's page, which is that of a sequence.
sub damage_mark
{
	my $file = query($node, q{SELECT pg_relation_filepath('snowflake_state.snowflake_mark')});

	$node->stop;
	open(my $page, '+<:raw', $node->data_dir . "/$file") or die "$file: $!";
	seek($page, 8184, 0);
	print $page "\1\2\3\4";
	close $page or die "$file: $!";
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

situation('a damaged mark', \&damage_mark, restart => \&restart,
	types => q{^Run on the primary, as a superuser: SELECT},
	says => qr/Run as a superuser, with its highest ID and the layout/);
situation('a lost mark', sub {
	query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark});
	restart();
}, restart => \&restart);
my $is_told = 0;

situation('a row of the future, seen by snowflake_recover()', sub {
	as_owner(q{INSERT INTO tree SELECT snowflake_max_id(now() + interval '3 days')});
}, try => sub { $is_told++ ? '' : 'Run as a superuser: SELECT * FROM snowflake_recover();' },
	types => 'If a wrong clock made these, and no subscription brought them, stop all clients', renumbers => sub {
	is(of_the_future(), '', 'it is renumbered');
});
situation('a lost mark, and a row of the future', sub {
	as_owner(q{INSERT INTO tree SELECT snowflake_max_id(now() + interval '3 days')});
	query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark});
	restart();
}, restart => \&restart, given => \%now, renumbers => sub {
	is(of_the_future(), '', 'it is renumbered');
});
situation('a lost record', sub {
	query($node, q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_recorded_layout; DROP SEQUENCE snowflake_state.snowflake_recorded_layout});
	restart();
}, restart => \&restart, types => 'If the IDs of this database were made with another layout');
situation('a mark that was set back', sub {
	query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)});
	restart();
}, check => 'mark', restart => \&restart, says => qr/Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);/);
situation('a mark of the future', sub {
	query($node, q{SELECT setval('snowflake_state.snowflake_mark', last_value + 400 * 86400000::bigint) FROM snowflake_state.snowflake_mark});
	restart();
}, restart => \&restart, given => \%now, types => [ q{clock_trust.c: Correct the server's clock. IDs resume when the clock reaches}, 'a wrong clock or a restore has set the mark' ]);
situation('a mark on which nothing is logged', sub {
	query($node, q{ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED});
}, types => 'Run as a superuser: ALTER SEQUENCE') if $node->pg_version >= 15;

my $locker;

situation('a mark that a session has locked', sub {
	$locker = begin_session($node, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
}, check => 'mark', types => 'Wait until process');
eval { $locker->quit };
situation('a mark that a prepared transaction has locked', sub {
	query($node, q{BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER; PREPARE TRANSACTION 'it''s "locked"'});
}, check => 'mark', types => 'The transaction is prepared. End it as its coordinator has decided: ');

# ---- the clock ----

situation('a clock that has jumped', sub { insert_rows(); wait_for_clock($node, clock_ms($node) + 1200); set_clock($node, '+2d') }, restart => \&restart, types => 'IDs resume by themselves. If the clock is right');
set_clock($node, 0);
go_back();

# When a text says from which time of the clock on IDs are made, they are: not ten seconds
# before (a call waits so long), and at that time at once, with timestamps that are not
# below it.
sub wait_as_told
{
	my ($words) = @_;
	my $told = $words =~ /\d/ ? $words : query($node, q{SELECT found FROM snowflake_status() WHERE check_name IN ('drift', 'mark') AND status = 'error' ORDER BY 1});
	my ($day, $time) = $told =~ /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00/ or die "no time in: $told";
	my $early = query($node, "SELECT to_char(timestamp '$day $time' - interval '11 s', 'YYYY-MM-DD HH24:MI:SS.MS')");

	set_clock($node, $early);
	like(answer($node, $next), qr/ERROR.*behind/, "11 s before $time there are no IDs");
	set_clock($node, "$day $time");
	my $id = answer($node, $next);
	like($id, qr/^\d+$/, "at $time there are");
	is(answer($node, "SELECT snowflake_timestamp('$id') BETWEEN '$day $time' AND timestamptz '$day $time' + interval '1 s'"), 't', '... from then on');
	set_clock($node, "\@$day $time");
	return;
}

sub set_behind { insert_rows(); set_clock($node, -3600); answer($node, $next) }

my @wait = (only => qr/^$/, hands => [ qr/(?:IDs resume when the clock|wait until it) reaches (?:the mark|that time|[-\d]+ [:.\d]+\+00)/ => \&wait_as_told ]);

situation('a clock that is behind', \&set_behind, @wait);
go_back();
situation('a clock that is behind, as a check says it', \&set_behind, @wait, check => 'drift',
	types => 'clock_trust.c: If the clock is right now, and was wrong before');
go_back();

# here a crash leaves the mark further ahead than a call waits
situation('a mark after a crash', sub {
	alter_system($node, q{SET snowflake.reserve = '60s'});
	insert_rows();
	lose_power($node);
	start_by_clock($node, $node->basedir . '/clock');
}, @wait, types => 'clock_trust.c: If the clock is right, wait');
alter_system($node, 'RESET snowflake.reserve');
go_back();

# a server that has restarted knows only the mark
sub know_the_mark
{
	set_clock($node, '+40d');
	restart();
	insert_rows();
	set_clock($node, 0);
	restart();
	return;
}

situation('a mark ahead of the clock', \&know_the_mark, @wait, types => q{clock_trust.c: Correct the server's clock. IDs resume});
go_back();

# rows of the future, in each table, which nobody wants
my %counted;

situation('a clock that was wrong', sub {
	set_clock($node, '+40d');
	restart();
	is(insert_rows(), '', 'rows of the future');
	%counted = count_rows();
	set_clock($node, 0);
}, restart => \&restart, given => \%now,
	says => qr/If the clock is right now, and was wrong before, stop all clients, restart this server.*If no subscription brought them, run as the owner of the table: SELECT \* FROM public\.snowflake_renumber\('"My Schema"."Order''s"'::pg_catalog.regclass/s,
	types => [ q{clock_trust.c: Correct the server's clock. IDs resume}, 'If no subscription brought them, run as the owner of the table: ' ],
	renumbers => sub {
	is(of_the_future(), '', 'no row of the future is left');
	my %now = count_rows();
	is(join(' ', grep { $now{$_} != $counted{$_} + 1 } @tables), '', 'and none is lost: each table has a row more, that of the last try');
});
go_back();
situation('rows of the future that a restore has brought', sub {
	as_owner(q{INSERT INTO tree SELECT snowflake_max_id(now() + interval '3 days')});
	as_owner(q{INSERT INTO js SELECT snowflake_max_id(now() + interval '3 days', 'javascript epoch:2024-02-02')});
}, check => 'rows above', given => \%now, types => 'If this clock is behind, correct it. If a wrong clock made the rows', renumbers => sub {
	is(of_the_future(), '', 'none of these is left');
});
go_back();

# ---- settings ----

# Set something that is wrong, and restart the server.
sub wrongly_set
{
	my (@settings) = @_;

	return sub { $node->append_conf('postgresql.conf', join("\n", @settings)); restart() };
}

situation('no node id', wrongly_set(q{snowflake.node_id = ''}), restart => \&restart,
	given => { NUMBER => 1 }, types => 'If the other servers have a snowflake.registry');
situation('no node id, by ALTER SYSTEM', sub { query($node, q{ALTER SYSTEM SET snowflake.node_id = ''}); restart() },
	as => 'super', restart => \&restart, given => { NUMBER => 1 });
situation('the library is not preloaded', wrongly_set(q{shared_preload_libraries = ''}), restart => \&restart, types => 'preconditions.c: ^Add snowflake to');
situation('another layout', wrongly_set(q{snowflake.layout = 'timestamp:41 node:8 sequence:14 epoch:2024-01-01'}), restart => \&restart, types => 'To keep the recorded configuration, ');
go_back();
situation('another layout of shards', wrongly_set(q{snowflake.shard_layout = 'timestamp:41 shard:8 sequence:14 epoch:2024-01-01'}), restart => \&restart);
go_back();
situation('a shard that is not listed', wrongly_set(q{snowflake.shards = '4'}), restart => \&restart, types => 'If no server has the shard now, ');
go_back();
situation('too many layouts', wrongly_set('snowflake.max_layouts = 1'), restart => \&restart, types => 'To give it a place that no role can take, ');
go_back();
situation('too many layouts, as a check says it', wrongly_set('snowflake.max_layouts = 1'), check => 'other layouts', restart => \&restart, types => 'layout_slot.c: For more, ');
go_back();
situation('too many databases', sub {
	wrongly_set('snowflake.max_databases = 1')->();
	query($node, 'CREATE DATABASE other');
	query($node, q{CREATE EXTENSION snowflake; SELECT snowflake_nextval()}, database => 'other');
}, restart => \&restart, types => 'db_slot.c: For more, ');
go_back();

situation('a database that nobody needs', sub {
	wrongly_set('snowflake.max_databases = 1')->();
	query($node, 'CREATE DATABASE "Other"');
	query($node, q{CREATE EXTENSION snowflake; SELECT snowflake_nextval()}, database => 'Other');
}, as => 'super', given => { NAME => 'Other' }, only => qr/DROP/);
go_back();
situation('another layout that is meant', wrongly_set(q{snowflake.layout = 'timestamp:41 node:8 sequence:14 epoch:2024-01-01'}), only => qr/accept/);
go_back();
situation('a shard that another server had', wrongly_set(q{snowflake.shards = '4'}),
	given => { ID => sub { (as_owner('SELECT max(id) FROM sharded'))[1] } }, types => 'If another server had the shard, first run here');
go_back();
situation('the library is not preloaded, by ALTER SYSTEM', sub { query($node, q{ALTER SYSTEM SET shared_preload_libraries = 'plpgsql'}); restart() },
	as => 'super', restart => \&restart, types => [ 'ALTER SYSTEM has set shared_preload_libraries', 'preconditions.c: ALTER SYSTEM SET shared_preload_libraries' ]);
go_back();

# ---- tables ----

situation('a key that is too narrow', sub {
	as_owner(q{CREATE TABLE narrow ("Id" integer PRIMARY KEY DEFAULT snowflake_nextval())});
}, check => 'column types', types => 'Run as the owner of the table; this rewrites and locks it: ');
situation('a default partition that gets the rows', sub {
	as_owner(q{SELECT snowflake_create_partitions('parts', '1 day', now() - interval '5 days', now() - interval '4 days')});
}, check => 'partitions', types => 'Run once, as the owner of the table: ');
situation('a role that may write the mark', sub {
	query($node, q{GRANT ALL ON SEQUENCE snowflake_state.snowflake_mark TO "The Owner"});
}, check => 'privileges', types => 'status_rights.sql: ^REVOKE');
situation('a key without an index', sub {
	as_owner(q{CREATE TABLE bare (id bigint DEFAULT snowflake_nextval())});
}, check => 'unique indexes', types => [ 'CREATE UNIQUE INDEX', 'It refuses an ID that a second server' ]);

# ---- a copy ----

# A copy of the data directory, in which both servers have the same number.
$node->backup('copy');
my $twin = PostgreSQL::Test::Cluster->new('twin');
$twin->init_from_backup($node, 'copy');
$twin->start;
follow_remedies(sub { my ($status, $out, $err) = $twin->psql('postgres', $next); $status == 0 ? '' : hint_of($err) || $err },
	node => $twin, name => 'a copy', types => 'Only if all other servers with these data are gone for good', owner => 'The Owner', as => 'owner', given => { NUMBER => 2, SHARDS => '' });
isnt((split /\|/, answer($twin, 'SELECT snowflake_node(snowflake_nextval())'))[0], '1',
	'a copy: it makes IDs with another number than the original, so none twice');
unlike(answer($twin, 'SELECT snowflake_shard_nextval(3)'), qr/^\d/, 'a copy: it makes no IDs of the original\'s shards, so none twice');

# ---- a standby that is promoted while its primary runs ----

my $standby = standby_of($node, 'standby');
$standby->start;
$node->wait_for_catchup($standby);
$standby->promote;
follow_remedies(sub { remedy_of($standby, 'node id') },
	node => $standby, name => 'a promoted standby', types => [ 'node.c: a number that no other server has, and', 'Only if that server never runs again, run instead' ], as => 'super', given => { NUMBER => 3, SHARDS => '' });
isnt(answer($standby, 'SELECT snowflake_node(snowflake_nextval())'), '1',
	'a promoted standby: it makes IDs with another number than its primary, so none twice');

# ---- the others are gone for good ----

# What makes a copy the only server is refused while the original runs here.
$twin->stop;
$standby->stop;
my $last = PostgreSQL::Test::Cluster->new('last');
$last->init_from_backup($node, 'copy');
$last->start;
follow_remedies(sub { my ($status, $out, $err) = $last->psql('postgres', $next); $status == 0 ? '' : hint_of($err) || $err },
	node => $last, name => 'a copy whose original is to go', as => 'super', only => qr/accept/,
	hands => [ qr/all other servers with these data are gone for good/ => sub { $node->stop } ]);
is(answer($last, 'SELECT snowflake_node(snowflake_nextval())'), '1', 'a copy whose original has gone: it goes on with its number');

# One that is accepted, and warns of the original, which may run after all.
$last->stop;
my $late = PostgreSQL::Test::Cluster->new('late');
my $is_accepted = 0;
$late->init_from_backup($node, 'copy');
$late->start;
follow_remedies(sub { $is_accepted++ ? '' : hint_of(($late->psql('postgres', $accept))[2]) },
	node => $late, name => 'a copy that was accepted', as => 'super', given => { NUMBER => 4, SHARDS => '' }, types => 'If one of them may run, ');
is(answer($late, 'SELECT snowflake_node(snowflake_nextval())'), '4', 'a copy that was accepted: it has another number than the original');

note('the longest remedy: ' . longest_remedy());
done_testing();
