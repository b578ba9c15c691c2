# pglogical replicates sequences with 1000 added. The numbers of the extension are then
# another record: the subscriber makes no ID until its remedy is typed, which names pglogical.
#
# takes: 6 s
# needs: pglogical
use SnowflakeTest;
use Robot;

my @settings = ('wal_level = logical', "shared_preload_libraries = 'snowflake,pglogical'", 'track_commit_timestamp = on');
my $provider = new_server('provider', @settings);
my $subscriber = new_server('subscriber', @settings, "snowflake.node_id = '2'");
foreach my $node ($provider, $subscriber)
{
	$node->start;
	# a setting of newer minor versions
	query($node, q{ALTER SYSTEM SET output_plugin_libraries = 'pglogical_output'}), $node->reload
	  if query($node, q{SELECT EXISTS (SELECT FROM pg_settings WHERE name = 'output_plugin_libraries')}) eq 't';
	query($node, 'CREATE EXTENSION snowflake; CREATE EXTENSION pglogical; CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval())');
	query($node, q{SELECT pglogical.create_node('} . $node->name . q{', $$} . $node->connstr('postgres') . q{$$)});
	query($node, 'INSERT INTO t DEFAULT VALUES');
}
query($provider, q{SELECT pglogical.replication_set_add_table('default', 't');
	SELECT pglogical.replication_set_add_all_sequences('default', '{snowflake_state}')});
my $record = 'SELECT ' . join ' + ', map { "(SELECT last_value FROM snowflake_state.snowflake_recorded_$_)" } qw(layout epoch shard_layout shard_epoch);
my $was = query($provider, $record);
query($subscriber, q{SELECT pglogical.create_subscription('sub', $$} . $provider->connstr('postgres') . q{$$)});
$subscriber->poll_query_until('postgres', q{SELECT status = 'replicating' FROM pglogical.show_subscription_status()}) or die;
query($provider, 'SELECT pglogical.synchronize_sequence(set_seqoid) FROM pglogical.replication_set_seq');
ok($subscriber->poll_query_until('postgres', "SELECT ($record) = $was + 4000"), 'pglogical adds 1000 to each number');
my $refusal = refused($subscriber, 'INSERT INTO t DEFAULT VALUES', '55000', qr/differs from what is recorded/, 'the subscriber makes no ID');
my ($remove) = hint_of($refusal) =~ /^pglogical has added 1000 to the recorded numbers\. On its provider: (SELECT .*?;) Then /;
ok($remove, 'the remedy names pglogical') or diag($refusal);
is(query($subscriber, q{SELECT remedy LIKE 'pglogical has added 1000%' FROM snowflake_status() WHERE remedy LIKE '%recorded numbers%'}), 't', '... also in the status');
follow_remedies(sub { my ($status, $out, $err) = $subscriber->psql('postgres', $next); $status == 0 ? '' : hint_of($err) },
	node => $subscriber, name => 'numbers of pglogical', as => 'super', only => qr/accept/,
	hands => [ qr/On its provider/ => sub { query($provider, $remove) } ], types => 'pglogical has added %lld to the recorded numbers');
my $largest = query($subscriber, 'SELECT max(id) FROM t');
cmp_ok(query($subscriber, 'INSERT INTO t DEFAULT VALUES RETURNING id'), '>', $largest, 'typed, it makes IDs again');
is(query($subscriber, $record), $was, '... with its own record');
is(query($provider, q{SELECT count(*) FROM pglogical.replication_set_seq}), '0', '... and nothing replicates the numbers any more');
$_->stop('immediate') foreach $provider, $subscriber;
done_testing();
