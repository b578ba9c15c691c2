# Servers that have the same data, with clients on all of them: each server makes IDs
# that no other one makes, or refuses them. One checker gets every ID that a client got,
# of node ids and of shards.
package Rivals;

use strict;
use warnings FATAL => 'all';

use IdChecker;
use Load;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;

my %kinds = (node => [qw(commit batch_select pgedge)], shards => [qw(shard shard_batch)]);

sub new
{
	my ($class) = @_;

	return bless { checker => IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids'), running => {} }, $class;
}

sub _start
{
	my ($self, $node) = @_;
	my ($shard) = query($node, 'SHOW snowflake.shards') =~ /^(\d+)/;

	return map {
		$_ => start_load($self->{checker}, 'all servers', $node->connstr('postgres'),
			scalar @{ $kinds{$_} }, $shard, 0.005, @{ $kinds{$_} })
	} sort keys %kinds;
}

# Start clients that run until end(), and wait until each has IDs.
sub begin
{
	my ($self, $node) = @_;
	my %loads = $self->_start($node);

	$_->more(100) foreach values %loads;
	$self->{running}{ $node->name } = \%loads;
	return;
}

# End them. They have seen no error, except that the server has ended.
sub end
{
	my ($self, $node, $name) = @_;
	my $loads = delete $self->{running}{ $node->name };
	my %errors = map { %{ $_->finish } } values %$loads;

	delete @errors{qw(57P01 57P02 57P03)};
	is_deeply(\%errors, {}, "$name: the clients of " . $node->name . ' see no error');
	return;
}

# Check what a server does: "ids" or "refused", for its node id and for its shards.
sub does
{
	my ($self, $node, $of_node, $of_shards, $name) = @_;
	my %expected = (node => $of_node, shards => $of_shards);
	my %loads = $self->_start($node);

	foreach my $kind (sort keys %loads)
	{
		my $load = $loads{$kind};

		# so that equal IDs of two servers would be many
		$expected{$kind} eq 'ids' ? eval { $load->more(1000) } : $load->heard;
		my $errors = join ' ', sort keys %{ $load->finish };
		my $found = $load->count == 0 && $errors eq '55000' ? 'refused' : $errors eq '' ? 'ids' : "errors: $errors";
		is($found, $expected{$kind}, "$name: $kind");
	}
	return;
}

# Check all IDs. The clients still running on servers go on.
sub check
{
	my ($self) = @_;

	$self->{checker}->clients;
	return;
}

1;
