# The history of a registry in etcd: who held a slot or shards before, and why it holds
# them no more. The write that replaces the record writes it. Needs etcd.
#
# takes: 40 s
# needs: etcd-server etcd-client libcurl4-openssl-dev
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use JSON::PP;
use MIME::Base64;
use Time::HiRes qw(usleep);
use lib "$FindBin::RealBin/../../perl";
use Etcd;
use HistoryTest;
use SnowflakeTest;

my $etcd = Etcd->new('servers')->start;

sub new_holder
{
	my ($name) = @_;

	return new_server($name, "snowflake.node_id = '3'", "snowflake.registry = 'etcd://@{[ $etcd->host ]}/reg'",
		"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '2s'");
}

# Return the history, by the command of doc/leases.md.
sub history
{
	my ($out, $err) = run_command([ 'etcdctl', '--endpoints', $etcd->host, 'get', '--prefix', '--print-value-only', 'reg/history/' ]);

	return map { decode_json($_) } grep { /^\{/ } split /\n/, $out;
}

my ($a, $b) = map { new_holder($_) } 'a', 'b';
chomp(my $host = `hostname`);
hold($a);
is(scalar(history()), 0, 'nobody held the slot before');
my ($pid) = split /\n/, slurp_file($a->data_dir . '/postmaster.pid');
my $with_a = time_before($a, 0);
$a->stop;
hold($b);
my @rows = history();
is(scalar(@rows), 1, 'one tenure is over');
is("@{ $rows[0] }{qw(slot host address process ended)}", "3 $host:" . $a->port . " 127.0.0.1 $pid released", 'a clean stop: released');
cmp_ok($rows[0]{since}, 'le', $with_a, 'it began before');
cmp_ok($rows[0]{ended_at}, 'ge', $with_a, 'and ended after');
my $key = 'reg/history/' . $rows[0]{ended_at} . '/3/';
my ($keys) = run_command([ 'etcdctl', '--endpoints', $etcd->host, 'get', '--prefix', '--keys-only', 'reg/history/' ]);
like($keys, qr/^\Q$key\E\d+\s*$/, 'its key begins with its end');

my $with_b = time_before($b, 0);
$b->stop('immediate');
hold($a);
@rows = history();
is(join(', ', map { "$_->{host} $_->{ended}" } @rows), "$host:@{[ $a->port ]} released, $host:@{[ $b->port ]} expired", 'a crash: expired');
cmp_ok($rows[1]{ended_at}, 'ge', $with_b, 'after its last writes');

# the same from a server that leases
my ($a_host, $b_host) = map { "$host:" . $_->port } $a, $b;
is(tenures($a, 3), "$a_host released, $b_host expired, $a_host -", 'the server says it, too');
is(tenures($a, 3, $with_a), "$a_host released", 'who had it then');
is(tenures($a, 3, $with_b), "$b_host expired", 'and then');
is(query($a, qq{SELECT slot, address, process, since <= '$with_a', ended_at >= '$with_a', until IS NOT NULL
	FROM snowflake_registry_history(at => '$with_a') WHERE slot IS NOT NULL}), "3|127.0.0.1|$pid|t|t|t", 'all of it');
is(query($a, "SELECT ended_at <= until FROM snowflake_registry_history(3, '$with_b')"), 't',
	'until when it had reserved');
# It may renew its lease between the two readings.
is(query($a, q{SELECT greatest(h.until - s.until, s.until - h.until) < interval '1 day' AND h.since = s.since AND h.process = s.process
	AND h.address = s.address AND ended_at IS NULL
	FROM snowflake_registry_history(3) h, snowflake_registry_slots() s WHERE ended IS NULL}), 't', 'the holder is that of the slots');

# What is broken is left out, and nothing fails with it.
my %broken = (
	text => 'x', number => '1', array => '[{"slot":9}]', nothing => '', null => 'null', object => '{}',
	slot => '{"slot":9.5}', far => '{"slot":99999999999999999999}', time => '{"slot":9,"since":"2026-99-99T00:00:00.000Z"}',
	address => '{"slot":9,"address":"1.2.3.4.5.6"}', zero => '{"slot":9,"host":"\\u0000"}',
	deep => '{"slot":' x 100_000, half => '{"slot":9,"host":"h', nested => '{"slot":{"slot":9}}');
$etcd->put("reg/history/2999-$_/9/1", $broken{$_}) foreach sort keys %broken;
$etcd->put('reg/history/2999/9/2', qq{{"slot":9,"host":"\xff"}\n{"slot":9,"host":"ok","ended":"x"}\n\n});
is(query($a, q{SELECT string_agg(host || coalesce(ended, '-'), ', ' ORDER BY ended) FROM snowflake_registry_history(9)}), 'okx, ?-',
	'what can be read stays');
$etcd->delete("reg/history/2999$_") foreach '/9/2', map { "-$_/9/1" } keys %broken;

# A tenure older than the history is dropped, and one that is not stays.
sub old
{
	my ($days, $node) = @_;

	return "reg/history/" . time_before($node, $days) . "/9/1";
}

my ($six, $eight) = map { old($_, $a) } 6, 8;
$etcd->put($_, '{"host":"x","ended":"x"}') foreach $six, $eight;
query($a, 'SELECT snowflake_registry_release(3)');
# it finds that out at its next request, and claims the slot again
foreach (1 .. 6000)
{
	@rows = history();
	last if $rows[-1]{ended} eq 'displaced';
	usleep(10_000);
}
is($rows[-1]{ended}, 'displaced', 'an administrator freed it: displaced');
is(tenures($a, 3), "$a_host released, $b_host expired, $a_host displaced, $a_host -", 'by the function');
ok($etcd->get($six), 'what is six days old stays');
ok(!$etcd->get($eight), 'and what is eight days old goes');
$etcd->put('reg/keep_days', '5');
$a->stop;
hold($b);
ok(!$etcd->get($six), 'likewise after as many days as it is told');
is(scalar(history()), 4, 'the others stay');
$etcd->put('reg/keep_days', '0');
$b->stop;
hold($a);
is(scalar(history()), 0, 'none: no history is kept');
is(query($a, 'SELECT count(*) FROM snowflake_registry_slots()'), '1', 'and no slot is made of it');

# Many entries that ended before or after that time do not hide who held the slot then.
sub many
{
	my ($year) = @_;

	foreach my $hundred (0 .. 99)
	{
		$etcd->call('kv/txn', { success => [ map { { request_put => {
			key => encode_base64("reg/history/$year-01-01T00:00:00.000Z/9/" . ($hundred * 100 + $_), ''),
			value => encode_base64('{"slot":9}', '') } } } 1 .. 100 ] });
	}
	return;
}

# On a busy machine etcd may need longer than the time-out for so much: then ask again.
sub patiently
{
	my ($ask) = @_;

	foreach (1 .. 100)
	{
		my $text = eval { $ask->() };

		return $text if defined $text;
		die $@ if $@ !~ /timed out|in time/;
	}
	return 'etcd never answers in time';
}

sub patient_tenures
{
	my @arguments = @_;

	return patiently(sub { tenures($a, @arguments) });
}

$etcd->put('reg/keep_days', '36500');
$a->stop;
hold($b);
$with_b = time_before($b, 0);
$b->stop;
hold($a);
is(tenures($a, 3, $with_b), "$b_host released", 'an entry');
many($_) foreach 2001, 2998;
is(patient_tenures(3), "$a_host -", 'entries that are newer hide it');
is(patient_tenures(3, $with_b), "$b_host released", 'but not if the time is given');
is(patient_tenures(9, '2998-06-01'), '', 'a time after all of them');
$etcd->call('kv/deleterange', { key => encode_base64('reg/history/', ''), range_end => encode_base64('reg/history0', '') });

# A record of many broken lines does not keep the worker from renewing.
$etcd->put('reg/shards', "held \n" x 230_000);
is(patiently(sub { query($a, 'SELECT count(*) FROM snowflake_registry_history(3)') }), '1', 'a record of many lines');
is(lease_of($a, 'state'), 'held', 'and the server keeps its lease');
$etcd->delete('reg/shards');

# ---- shards ----

# Return the history of shards, as text.
sub shards
{
	return join ', ', map { "$_->{shards} $_->{host} $_->{ended}" } grep { defined $_->{shards} && $_->{shards} ne '0-4' } history();
}

$etcd->put('reg/keep_days', '7');
$a->stop;
hold_shards($a, '0-9');
my $until = query($a, q{SELECT until FROM snowflake_leases() WHERE kind = 'shards'});
wait_for_shards($a, "until > '$until'");
is(shards(), '', 'shards that nobody had before, and that are renewed');
$a->stop;
is(shards(), "0-9 $a_host released", 'shards that were given back');
hold_shards($b, '5-14');
$with_b = time_before($b, 0);
$b->stop('immediate');
hold_shards($a, '0-14');
is(shards(), "0-9 $a_host released, 5-14 $b_host expired", 'and those of a server that has crashed');
my ($row) = grep { ($_->{shards} // '') eq '5-14' } history();
ok($row->{since} lt $with_b && $row->{ended_at} gt $with_b, 'since when, and until when');
is(tenures($a, undef, $with_b), "5-14 $b_host expired", 'a server says who had them then');
is(tenures($a) =~ s/.*, //r, "0-14 $a_host -", 'and who has them now');
is(query($a, q{SELECT greatest(h.until - l.until, l.until - h.until) < interval '1 day' FROM snowflake_registry_history() h, snowflake_leases() l
	WHERE h.shards = l.shards AND h.ended IS NULL AND l.kind = 'shards'}), 't', 'by the layout of the shards');

# Others take some shards of a server that has crashed: only these have ended.
$a->stop;
hold_shards($b, '20-29');
$b->stop('immediate');
hold_shards($a, '25-27');
like(shards(), qr/, 0-14 $a_host released, 25-27 $b_host expired$/, 'some shards of a server that has crashed');
$a->poll_query_until('postgres', q{SELECT ended = 'expired' FROM snowflake_registry_history() WHERE shards = '20-24,28-29'})
  or die 'the others have not expired';
like(tenures($a), qr/20-24,28-29 $b_host expired/, 'the others have a row of their own');
$etcd->put('reg/keep_days', '0');
$a->stop;
is(scalar(history()), 0, 'none: no history of shards is kept either');
$etcd->stop;
done_testing();
