# Faulty connections: one process forwards TCP connections from ports of its own to
# those of registries. The mode of a port says what happens to its connections:
#
#	pass		data is forwarded as it comes
#	delay MS	data is forwarded that much later, in both directions
#	cut		connections are closed, and new ones refused
#	silent		nothing is forwarded any more, and nothing closed
#	hold		the same for new connections, while those from before go on
#	deaf		requests arrive, answers do not
#	late MS		requests arrive that much later, even when the client has gone
#	repeat		what a client has sent is sent again when it has gone
#	torn		every other piece of data ends early, and so does its connection
package FaultyProxy;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $MODE_SIZE = 16;
my @all;

# Create a process for several proxies; call add() for each, then start().
sub new
{
	my ($class) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/modes';

	append_to_file($file, '');
	my $self = bless { file => $file, routes => [] }, $class;
	push @all, $self;
	return $self;
}

# Add a proxy to this port of the loopback interface. Return its number, and the port
# to connect to instead.
sub add
{
	my ($self, $port) = @_;
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50, ReuseAddr => 1)
	  or die "listen: $!";

	push @{ $self->{routes} }, { listener => $listener, port => $port };
	append_to_file($self->{file}, pack("A$MODE_SIZE", 'pass'));
	return ($#{ $self->{routes} }, $listener->sockport);
}

# Set how a proxy treats its connections from now on.
sub set
{
	my ($self, $number, $mode) = @_;

	open(my $fh, '+<', $self->{file}) or die "$self->{file}: $!";
	sysseek($fh, $number * $MODE_SIZE, 0);
	syswrite($fh, pack("A$MODE_SIZE", $mode));
	close $fh;
	return;
}

sub start
{
	my ($self) = @_;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		$SIG{PIPE} = 'IGNORE';
		$SIG{TERM} = 'DEFAULT';
		eval { $self->_forward; 1 } or print STDERR "FaultyProxy: $@";
		require POSIX;
		POSIX::_exit(1);
	}
	$self->{pid} = $pid;
	close $_->{listener} foreach @{ $self->{routes} };
	return;
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

# ---- in the proxy's process ----

# Accept a connection: two sockets, and for each direction the data under way, as
# [when it is due, data].
sub _connect
{
	my ($route) = @_;
	my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $route->{port}, Timeout => 2);

	$server->blocking(0) if $server;
	return $server;
}

sub _read_modes
{
	my ($self) = @_;

	open(my $fh, '<', $self->{file}) or die "$self->{file}: $!";
	read($fh, my $modes, $MODE_SIZE * @{ $self->{routes} });
	close $fh;
	($_->{mode}, $_->{ms}) = split ' ', substr($modes, 0, $MODE_SIZE, '') foreach @{ $self->{routes} };
	return;
}

sub _forward
{
	my ($self) = @_;
	my @routes = @{ $self->{routes} };
	my @connections;
	my $listeners = IO::Select->new(map { $_->{listener} } @routes);

	while (1)
	{
		$self->_read_modes;

		my $reader = IO::Select->new(map { $_->{listener} } @routes);
		foreach my $c (@connections)
		{
			next if _is_silent($c);
			$reader->add(grep { $_ } @$c{qw(client server)});
		}
		my %ready = map { $_ => 1 } $reader->can_read(0.01);

		# a connection begins in the mode that was set before it was made
		$self->_read_modes;
		foreach my $route (grep { $ready{ $_->{listener} } } @routes)
		{
			my $client = $route->{listener}->accept or next;

			$client->blocking(0);
			next if $route->{mode} eq 'cut';
			my $server = _connect($route) or next;
			push @connections, { route => $route, client => $client, server => $server,
				is_new => $route->{mode} eq 'hold', up => [], down => [], sent => '' };
		}
		_serve($_, \%ready) foreach @connections;
		@connections = grep { $_->{client} || $_->{server} } @connections;
	}
}

sub _is_silent
{
	my ($c) = @_;

	return $c->{route}{mode} eq 'silent' || $c->{route}{mode} eq 'hold' && $c->{is_new};
}

sub _take
{
	my ($c, $from, $queue, $delay_ms) = @_;
	my $n = sysread($c->{$from}, my $data, 65536);

	if (!$n)
	{
		return if !defined $n && $!{EAGAIN};
		close delete $c->{$from};
		return;
	}
	push @$queue, [ time() + $delay_ms / 1000, $data ];
	$c->{sent} .= $data if $from eq 'client' && length $c->{sent} < 65536;
	return;
}

# Send the data that is due. Data for which there is no room is lost with the
# connection: a registry takes what it is sent.
sub _give
{
	my ($c, $to, $queue) = @_;

	while (@$queue && $queue->[0][0] <= time())
	{
		my $data = (shift @$queue)->[1];
		my $is_torn = $c->{route}{mode} eq 'torn' && rand 2 < 1;

		next unless $c->{$to};
		$data = substr($data, 0, rand length $data) if $is_torn;
		my $n = syswrite($c->{$to}, $data);
		close delete $c->{$to} if !defined $n || $n < length $data;
		_cut($c) if $is_torn;
	}
	return;
}

sub _cut
{
	my ($c) = @_;

	close delete $c->{$_} foreach grep { $c->{$_} } qw(client server);
	return;
}

sub _serve
{
	my ($c, $ready) = @_;
	my ($mode, $ms) = @{ $c->{route} }{qw(mode ms)};
	my $up_ms = $mode eq 'delay' || $mode eq 'late' ? $ms : 0;
	my $down_ms = $mode eq 'delay' ? $ms : 0;

	return _cut($c) if $mode eq 'cut';
	return if _is_silent($c);
	_take($c, 'client', $c->{up}, $up_ms) if $c->{client} && $ready->{ $c->{client} };
	_take($c, 'server', $c->{down}, $down_ms) if $c->{server} && $ready->{ $c->{server} };
	$c->{down} = [] if $mode eq 'deaf';
	_give($c, 'server', $c->{up});
	_give($c, 'client', $c->{down});

	# one end is closed: data under way to the other end still arrives
	if (!$c->{client} && $c->{server} && !@{ $c->{up} })
	{
		close delete $c->{server};
		_repeat($c) if $mode eq 'repeat' && $c->{sent} ne '';
	}
	elsif (!$c->{server} && $c->{client} && !@{ $c->{down} })
	{
		close delete $c->{client};
	}
	return;
}

# Send again all that a client has sent. The client does not get the answer.
sub _repeat
{
	my ($c) = @_;

	$c->{server} = _connect($c->{route}) or return;
	$c->{up} = [ [ time(), $c->{sent} ] ];
	$c->{sent} = '';
	return;
}

END
{
	my $status = $?;

	$_->stop foreach @all;
	$? = $status;
}

1;
