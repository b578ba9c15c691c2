# What every kind of registry does with the requests of the state machines, in one order:
# called without the worker, through RegistryDriver. A test gives the registry by its URL
# and by functions that look at what is stored there, and change it:
#
#	kept			returns true if the registry has the record of a slot
#	present			returns the owner that is present at a slot, or undef
#	lose_presence	ends the presence at a slot
#	forget			deletes the record of a slot, and its presence
#	released_at		the address that stays when an administrator releases a slot
#	latest			the last until that it takes, if not the largest bigint
package RegistryLife;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use JSON::PP;
use RegistryDriver;
use Test::More;

our @EXPORT = qw(check_urls check_clock record_stored check_lease check_largest check_recovery
  check_initialize);

my $layout = 'timestamp:41 sequence:22';

# Check which URLs are refused, and that no reason tells a password, which begins with
# "sec"; and that these are accepted.
sub check_urls
{
	my ($session, $refused, @accepted) = @_;

	foreach (@$refused)
	{
		my ($url, $pattern) = @$_;
		my $reason = try_open($session, $url);

		like($reason, $pattern, "$url: $reason");
		unlike($reason, qr/sec/, 'which tells no secret');
	}
	is(try_open($session, $_), 'ok', $_) foreach @accepted;
	return;
}

sub check_clock
{
	my ($w) = @_;

	cmp_ok(abs(ask($w, 'read')->{clock_ms} / 1000 - time), '<', 60, 'says what time it is');
	return;
}

# Return what a store of keys holds after a claim by owner 11.
sub record_stored
{
	return { epoch => 3, owner => '000000000000000b', server => '0000000000000004',
		write_id => '0000000000000015', until => 1000, offset_ms => -5, reserve_ms => 0,
		released => JSON::PP::false, host => 'here', process => 6, since_ms => 7,
		address => '127.0.0.1' };
}

# A lease from its claim until an administrator's release, in an empty registry of
# generation 7. Slot 5 stays, released, with an until of 1700. Return its version.
sub check_lease
{
	my ($url, %registry) = @_;
	my $w = worker($url);
	my $other = worker($url);
	my ($v, $v2);
	my $line = "initialized 7 100 $layout\n5: written epoch 3 owner 11 server 4 "
	  . "write 21 until 1000 offset -5 held host 'here' process 6 since 7 address '127.0.0.1' present 11";

	# Claim.
	is(reading($_), "initialized 7 100 $layout", 'a registry, empty') foreach $w, $other;
	claim($w, 'of another generation', 'CONFLICT', generation => 8);
	claim($w, 'of a record that is not there', 'CONFLICT', version => 3);
	ok(!$registry{kept}->(5), 'nothing was written');
	$v = claim($w, 'claim', 'DONE');
	is($registry{present}->(5), 11, 'somebody is there');
	is(reading($w), $line, 'read as it was written');
	claim($other, 'never written, but it was', 'CONFLICT', owner => 12, displaced => 11);
	claim($other, 'of an older version', 'CONFLICT', owner => 12, displaced => 11, version => $v - 1);
	claim($other, 'of a younger version', 'CONFLICT', owner => 12, displaced => 11, version => $v + 1);
	claim($other, 'somebody is present', 'CONFLICT', owner => 12, version => $v);
	claim($other, 'somebody else is present', 'CONFLICT', owner => 12, version => $v, displaced => 13);
	is(reading($w), $line, 'nothing was written');

	# Extend and keep alive.
	$v2 = asked($w, 'extend', 'DONE', qr/^$/, 'extend', version => $v, until => 2000, write_id => 22);
	cmp_ok($v2, '>', $v, 'the version has grown');
	asked($w, 'extend what was extended', 'CONFLICT', qr/^$/, 'extend', version => $v);
	asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
	asked($w, 'another owner\'s', 'ABSENT', qr/^$/, 'keepalive', owner => 12);

	# The presence is lost, and made again.
	$registry{lose_presence}->(5);
	asked($w, 'keep alive what is lost', 'ABSENT', qr/^$/, 'keepalive') foreach 1 .. 2;
	like(reading($w), qr/until 2000 .* present 0$/m, 'nobody is there');
	$v = asked($w, 'extend without presence', 'DONE', qr/^$/, 'extend', version => $v2);
	is($registry{present}->(5), undef, 'which makes none');
	$v = asked($w, 'extend with presence', 'DONE', qr/^$/, 'extend', version => $v, presence => 1);
	asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive');
	like(reading($_), qr/present 11$/, 'somebody is there') foreach $w, $other;

	# Displace, and be displaced.
	$v2 = claim($w, 'displace', 'DONE', owner => 12, displaced => 11, version => $v);
	asked($other, 'extend what is lost', 'CONFLICT', qr/^$/, 'extend', version => $v);
	asked($other, 'somebody else is present', 'CONFLICT', qr/^$/, 'extend', version => $v2);
	asked($other, 'release what is lost', 'CONFLICT', qr/^$/, 'release', version => $v2);
	asked($w, 'nor be kept alive', 'ABSENT', qr/^$/, 'keepalive');
	asked($w, 'keep alive', 'DONE', qr/^$/, 'keepalive', owner => 12);

	# Release.
	$v = asked($w, 'release', 'DONE', qr/^$/, 'release', owner => 12, version => $v2, until => 1500);
	like(reading($w), qr/^5: .* until 1500 .* released .* present 0$/m, 'released, and nobody there');
	is($registry{present}->(5), undef, 'the presence is deleted');
	asked($w, 'keep alive', 'ABSENT', qr/^$/, 'keepalive', owner => 12);

	# An administrator's release displaces the server that is present.
	$v = claim($w, 'claim', 'DONE', version => $v, owner => 12);
	asked($other, 'released, but somebody else is there', 'CONFLICT', qr/^$/, 'release', owner => 0,
		displaced => 13, version => $v);
	$v = asked($other, 'released for who is there', 'DONE', qr/^$/, 'release', owner => 0, displaced => 12,
		version => $v, address => '10.0.0.1', until => 1700);
	like(reading($w), qr/^5: .* owner 0 .* until 1700 .* released .* address '$registry{released_at}' present 0$/m,
		'nobody has it; the address stays');
	is($registry{present}->(5), undef, 'nor is anybody there');
	$_->quit foreach $w, $other;
	return $v;
}

# The largest and smallest numbers, odd texts, and slots sorted by number, beside slot 5.
sub check_largest
{
	my ($w, $url, %registry) = @_;
	my $host = q{a"b\\c'd/<&>};
	my $until = $registry{latest} // 9223372036854775807;
	my @others;

	foreach my $slot (1000000, 10, 9, 0)
	{
		push @others, worker($url);
		reading($others[-1]);
		claim($others[-1], "node $slot", 'DONE', node => $slot, owner => -1, write_id => -2,
			until => $until, host => $host);
	}
	like(reading($w), qr/owner -1 server 4 write -2 until $until .*\Q$host\E.* present -1$/m,
		'as it was written');
	is(join(' ', reading($w) =~ /^(\d+):/mg), '0 5 9 10 1000000', 'by node');
	$_->quit foreach @others;
	asked($w, 'abandon', 'DONE', qr/^$/, 'read', twice => 1);
	$registry{forget}->($_) foreach 0, 9, 10, 1000000;
	return;
}

# A recovery is of the generation that was read, and lowers no floor; one
# slot's until above it counts for that slot alone. At the end it is generation 10.
sub check_recovery
{
	my ($w, %registry) = @_;
	my $former = join ' ', map { sprintf '%016x', $_ } 1 .. 32;

	asked($w, 'initialize what there is', 'CONFLICT', qr/^$/, 'initialize', new_generation => 9);
	asked($w, 'recover another one', 'CONFLICT', qr/^$/, 'recover', generation => 6);
	like(reading($w), qr/^initialized 7 100 $layout$/m, 'nothing was written');
	asked($w, 'recover', 'DONE', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
	asked($w, 'recover it twice', 'CONFLICT', qr/^$/, 'recover', new_generation => 9, new_floor => 1600);
	like(reading($w), qr/^initialized 9 1600 $layout$/m, 'with the floor that was asked for');
	asked($w, 'recover once more', 'DONE', qr/^$/, 'recover', generation => 9, new_generation => -2,
		new_floor => 2000, new_former => $former);
	like(reading($w), qr/^initialized -2 2000 $layout after $former$/m, 'and another one, with what it succeeds');
	asked($w, 'recover', 'DONE', qr/^$/, 'recover', generation => -2, new_generation => 10, new_floor => 5);
	like(reading($w), qr/^initialized 10 2000 /, 'nor lower than before');
	claim($w, 'how far is reserved', 'DONE', generation => 10, node => 11, reserve => 3600000);
	like(reading($w), qr/^11: .* present 11 reserve 3600000$/m, 'is read as it was written');
	$registry{forget}->(11);
	return;
}

sub check_initialize
{
	my ($url) = @_;
	my $w = worker($url);
	my $new = 'initialized -3 400 timestamp:40 sequence:22 after 00000000000000aa';

	is(reading($w), 'uninitialized 0 0 ', 'a registry that is none');
	claim($w, 'nothing to claim in', 'CONFLICT');
	asked($w, 'initialize', 'DONE', qr/^$/, 'initialize', new_generation => -3, new_floor => 400,
		layout => 'timestamp:40 sequence:22', new_former => '00000000000000aa');
	is(reading($w), $new, 'is one');
	asked($w, 'initialize again', 'CONFLICT', qr/^$/, 'initialize');
	is(reading($w), $new, 'which changes nothing');
	claim($w, 'claim', 'DONE', generation => -3);
	$w->quit;
	return;
}

1;
