# Shards move from server to server under load, as doc/shards.md says. The clocks of the
# servers differ by 2 s, so the next server goes through the same times again.
#
# takes: 15 s
# quick
use SnowflakeTest;
use IdChecker;
use Load;

my $checker = IdChecker->new("$PostgreSQL::Test::Utils::tmp_check/ids");
my ($a, $b) = map { new_server($_, 'snowflake.max_clock_wait = 10s', "snowflake.shards = ''") } qw(a b);

start_with_clock($a, 2);
start_with_clock($b, 0);
query($_, 'CREATE EXTENSION snowflake; CREATE DATABASE other;' . load_tables()) foreach $a, $b;
query($_, 'CREATE EXTENSION snowflake', database => 'other') foreach $a, $b;

# Return what a server says of its shards.
sub said
{
	my ($node, %options) = @_;

	return query($node, q{SELECT found FROM snowflake_status() WHERE check_name = 'shards';}, %options);
}

# Give a server these shards by a reload, and wait until it says so.
sub give
{
	my ($node, $shards) = @_;
	my $found = $shards eq '' ? 'snowflake.shards is empty' : "this server makes IDs of $shards";

	$node->adjust_conf('postgresql.conf', 'snowflake.shards', "'$shards'");
	query($node, 'SELECT pg_reload_conf();');
	$node->poll_query_until('postgres', qq{SELECT found ~ '^$found(;|\$)' FROM snowflake_status() WHERE check_name = 'shards'})
	  or die 'no reload: ' . said($node);
	return;
}

# Return the last ID of the shards that a server has given away.
sub last_id
{
	my ($node, $shards, %options) = @_;
	my $found = said($node, %options);

	$found =~ /; no longer of $shards: none of their IDs in this database is above (\d+)$/ or die $found;
	return $1;
}

sub make_ids
{
	my ($node, $shard, %options) = @_;
	my @ids = split /\n/, query($node, "SELECT snowflake_shard_nextval_batch($shard, 100)", %options);

	$checker->saw('all servers, shards', @ids);
	return @ids;
}

# ---- under load ----

# Clients call on both servers all the time, also where they are refused.
give($a, '3-5');
give($b, '7-8');
give($b, '8');
is(said($b), 'this server makes IDs of 8; no longer of 7: they have no ID in this database', 'a server that has made no ID');
my %load = map { ($_->name => start_load($checker, 'all servers', $_->connstr('postgres'), 4, 3, 0.001, 'shard', 'shard_batch')) } $a, $b;
$load{a}->more(2000);
$load{b}->heard;
foreach (1 .. 3)
{
	foreach my $move ([ $a, '5', $b, '3-4,8' ], [ $b, '8', $a, '3-5' ])
	{
		my ($from, $rest, $to, $all) = @$move;

		give($from, $rest);
		my $moved = $from == $a ? '3-4' : '3-4,7';
		my $last = last_id($from, $moved);
		query($to, "SELECT snowflake_advance('$last'::bigint, 'shard');");
		give($to, $all);
		my ($first) = make_ids($to, 3);
		cmp_ok($first, '>', $last, $to->name . ' begins above the last ID of ' . $from->name);
		$load{ $to->name }->more(1000);
		cmp_ok(last_id($from, $moved), '<=', $last, 'which stays the last one');
	}
}
is(join(' ', sort keys %{ $_->finish }), '55000', 'clients have met nothing but refusals') foreach values %load;
is(query($a, q{SELECT count(*) FROM s WHERE snowflake_shard(id, 'shard') NOT IN (3, 4)}), '0', 'with IDs of the shards that have moved');

# ---- the last ID ----

# This life has made no ID of the shard, nor loaded a mark.
my $last = (make_ids($a, 3))[-1];
$last = (make_ids($a, 3, database => 'other'))[-1];
$a->stop('immediate');
start_with_clock($a, 2);
give($a, '4-5');
cmp_ok(last_id($a, '3', database => 'other'), '>=', $last, 'IDs of an earlier life count');
is(last_id($a, '3', database => 'other') & ~0x7fffff, query($a, q{SELECT snowflake_min_id(to_timestamp((last_value - 1) / 1000.0), 'shard')
	FROM snowflake_state.snowflake_mark}, database => 'other'), 'by the mark of the database');
query($a, 'SELECT snowflake_shard_nextval(4)', database => 'other');
cmp_ok(last_id($a, '3', database => 'other'), '>=', $last, 'also when that is loaded');
my $locker = begin_session($a, 'BEGIN; ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER');
is(query($a, q{SELECT status || ' ' || (found ~ 'no longer of 3: their last ID depends on the mark: .*locked') FROM snowflake_status()
	WHERE check_name = 'shards'}), 'warning true', 'a mark that cannot be read');
$locker->query_safe('ROLLBACK');
$locker->quit;
give($a, '');
like(said($a), qr/^snowflake.shards is empty; no longer of 3-5: /, 'all are given away');
give($a, '3-4');
like(said($a), qr/^this server makes IDs of 3-4; no longer of 5: /, 'some are back');
make_ids($a, 3);

# the HINT, typed
my $hint = refused($a, 'SELECT snowflake_shard_nextval(5)', '55000', qr/SELECT public\.snowflake_advance\('ID'::bigint, 'shard'\);\n/, 'a shard that is gone');
my ($step) = $hint =~ /add this line to .*:\n(.*)\nand run:\nSELECT pg_catalog\.pg_reload_conf\(\);/ or die $hint;
$a->append_conf('postgresql.conf', $step);
query($a, 'SELECT pg_reload_conf();');
$a->poll_query_until('postgres', q{SELECT found = 'this server makes IDs of 3-5' FROM snowflake_status() WHERE check_name = 'shards'})
  or die said($a);
make_ids($a, 5);

$_->stop foreach $a, $b;
$checker->clients;
done_testing();
