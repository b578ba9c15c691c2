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

	my ($checker, $wrong) = map { IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/ids') } 1, 2;

	return bless { checker => $checker, wrong => $wrong, running => {} }, $class;
}

sub _start
{
	my ($self, $node, %todo) = @_;
	my ($shard) = query($node, 'SHOW snowflake.shards') =~ /^(\d+)/;

	return map {
		$_ => start_load($self->{ $todo{$_} ? 'wrong' : 'checker' }, 'all servers', $node->connstr('postgres'),
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

# End clients. Return what their server did: "ids" or "refused".
sub _end
{
	my ($load) = @_;
	my $errors = join ' ', sort keys %{ $load->finish };

	return $load->count == 0 && $errors eq '55000' ? 'refused' : $errors eq '' ? 'ids' : "errors: $errors";
}

# Check what a server does: "ids" or "refused", for its node id and for its shards. With
# "TODO" after it, that is what it should do; until it does, its IDs do not count.
sub does
{
	my ($self, $node, $of_node, $of_shards, $name) = @_;
	my %expected = (node => $of_node, shards => $of_shards);
	my %todo = map { $_ => $expected{$_} =~ s/ TODO$// } keys %expected;
	my %loads = $self->_start($node, %todo);

	foreach my $kind (sort keys %loads)
	{
		my $load = $loads{$kind};

		# so many that two servers would have equal ones
		$load->heard;
		$load->more(1000) if $load->goes_well;
		my $found = _end($load);
		Test::More->builder->todo_start('it makes IDs that another server makes') if $todo{$kind};
		is($found, $expected{$kind}, "$name: $kind");
		Test::More->builder->todo_end if $todo{$kind};
	}
	return;
}

# Start clients on several servers at a time. Check that one server makes IDs, of both kinds,
# and the others refuse them. Return that server.
sub compete
{
	my ($self, $name, @nodes) = @_;
	my %loads = map { $_->name => { $self->_start($_) } } @nodes;
	my %found;

	$_->heard foreach map { values %$_ } values %loads;
	foreach my $kind (sort keys %kinds)
	{
		wait_until { grep { $_->{$kind}->count > 0 } values %loads } "$name: nobody makes IDs";
		$_->more(1000) foreach grep { $_->count > 0 } map { $_->{$kind} } values %loads;
		push @{ $found{ _end($loads{$_}{$kind}) } }, $_ foreach sort keys %loads;
	}
	is(scalar(@{ $found{ids} }), 2, "$name: one server makes IDs of the node id, and one of shards");
	is($found{ids}[0], $found{ids}[1], '... and that is the same one');
	is(scalar(@{ $found{refused} }), 2 * $#nodes, '... and the others refuse them');
	return (grep { $_->name eq $found{ids}[0] } @nodes)[0];
}

# Add IDs that other clients have got: of the counter "node" or "shards".
sub saw
{
	my ($self, $counter, @ids) = @_;

	$self->{checker}->saw("all servers, $counter", @ids);
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
