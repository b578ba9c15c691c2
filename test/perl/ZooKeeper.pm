# A ZooKeeper for tests: started on the loopback interface, asked without a client
# program, and ended with the script.
package ZooKeeper;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Time::HiRes qw(usleep);

my %CODES = (create => 1, delete => 2, get => 4, set => 5, children => 8, auth => 100);
my ($NO_NODE, $NOT_EMPTY) = (-101, -111);
my %ERRORS = ($NO_NODE => 'no node', -102 => 'not authenticated', -110 => 'node exists');

# Milliseconds; sessions last for at least 2 ticks.
my $TICK = 200;

my @all;

# Create a ZooKeeper, not started.
sub new
{
	my ($class, $name) = @_;
	my $self = bless {
		name => $name,
		port => PostgreSQL::Test::Cluster::get_free_port(),
		dir => "$PostgreSQL::Test::Utils::tmp_check/zookeeper-$name",
		log => "$PostgreSQL::Test::Utils::log_path/zookeeper-$name.log",
		config => '',
	}, $class;

	push @all, $self;
	return $self;
}

sub host { my ($self) = @_; return "127.0.0.1:$self->{port}" }

# Use a clock of its own from the next start on. Return its file, which SnowflakeTest's
# write_clock() writes.
sub use_clock
{
	my ($self) = @_;

	$self->{clock} = new_clock("$self->{dir}.clock");
	return $self->{clock};
}

# Create the members of an ensemble, not started.
sub ensemble
{
	my ($class, @names) = @_;
	my @members = map { $class->new($_) } @names;
	my $config = "initLimit=100\nsyncLimit=10\n";

	$config .= sprintf("server.%d=127.0.0.1:%d:%d\n", $_,
		PostgreSQL::Test::Cluster::get_free_port(),
		PostgreSQL::Test::Cluster::get_free_port())
	  foreach 1 .. @members;
	foreach my $i (1 .. @members)
	{
		$members[ $i - 1 ]{config} = $config;
		$members[ $i - 1 ]{id} = $i;
	}
	return \@members;
}

sub start
{
	my ($self) = @_;

	$self->launch;
	$self->wait_until_ready;
	return $self;
}

sub launch
{
	my ($self) = @_;
	my $file = "$self->{dir}/zoo.cfg";

	mkdir $self->{dir};
	unlink $file;
	append_to_file($file, join("\n", "tickTime=$TICK", "dataDir=$self->{dir}",
		"clientPort=$self->{port}", 'clientPortAddress=127.0.0.1',
		'maxSessionTimeout=120000', 'admin.enableServer=false', 'forceSync=no',
		'4lw.commands.whitelist=srvr', $self->{config}));
	append_to_file("$self->{dir}/myid", $self->{id})
	  if defined $self->{id} && !-e "$self->{dir}/myid";

	local @ENV{qw(LD_PRELOAD SHIM_CLOCK)} = (preload(), $self->{clock}) if $self->{clock};
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>>', $self->{log} or die;
		open STDERR, '>&', \*STDOUT or die;
		exec 'java', '-XX:-UsePerfData', '-Xmx128m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1',
		  '-Dorg.slf4j.simpleLogger.showDateTime=true', '-cp',
		  '/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar',
		  'org.apache.zookeeper.server.quorum.QuorumPeerMain', $file
		  or die "java: $!";
	}
	$self->{pid} = $pid;
	return;
}

# Return the member's report on itself, or an empty text if it does not answer.
sub status
{
	my ($self) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})
	  or return '';

	my $answer = '';

	print $socket 'srvr';
	# while starting, it may drop a request
	while (IO::Select->new($socket)->can_read(1))
	{
		last if !sysread($socket, $answer, 1000, length $answer);
	}
	return $answer;
}

# Return true if this member is the leader.
sub leads { my ($self) = @_; return $self->status =~ /^Mode: leader/m }

sub wait_until_ready
{
	my ($self) = @_;

	foreach my $try (1 .. 6000)
	{
		return if $self->status =~ /^Mode: /m;
		die 'ZooKeeper has ended: ' . slurp_file($self->{log})
		  if waitpid($self->{pid}, 1) != 0;    # WNOHANG
		usleep(20_000);
	}
	die 'ZooKeeper does not start: ' . slurp_file($self->{log});
}

sub stop
{
	my ($self, $signal) = @_;

	return unless $self->{pid};
	kill $signal // 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

# Delete all data while it is stopped.
sub forget
{
	my ($self) = @_;

	die "could not remove $self->{dir}" if system('rm', '-rf', $self->{dir}) != 0;
	return;
}

# Delete all data while it runs.
sub wipe
{
	my ($self) = @_;

	$self->stop('KILL');
	$self->forget;
	$self->start;
	return;
}

# ---- the protocol ----

sub text { my ($text) = @_; return pack('l> a*', length $text, $text) }

sub take
{
	my ($socket) = @_;
	my ($length, $payload);

	die 'no answer of ZooKeeper' if read($socket, $length, 4) != 4;
	die 'half an answer'
	  if read($socket, $payload, unpack('N', $length)) != unpack('N', $length);
	return $payload;
}

# Send one request in a session of its own, as the digest's user if one is given.
# Return the answer, or the number of an error.
sub ask
{
	my ($self, $what, $payload, $digest) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})
	  or die "connect: $!";
	my $answer;

	print $socket text(pack('l> q> l> q> a* C', 0, 0, 30000, 0, text("\0" x 16), 0));
	take($socket);
	if (defined $digest)
	{
		print $socket text(pack('l> l> l> a* a*', -4, $CODES{auth}, 0, text('digest'), text($digest)));
		take($socket);
	}
	print $socket text(pack('l> l> a*', 1, $CODES{$what}, $payload));
	$answer = take($socket);
	print $socket text(pack('l> l>', 2, -11));
	take($socket);
	my (undef, undef, $error, $rest) = unpack('l> q> l> a*', $answer);
	return $error == 0 ? ($rest, 0) : (undef, $error);
}

# Send a request that must succeed; return the answer.
sub call
{
	my ($self, $what, $payload, $digest) = @_;
	my ($answer, $error) = $self->ask($what, $payload, $digest);

	die "$what: " . ($ERRORS{$error} // $error) unless defined $answer;
	return $answer;
}

# Write a node. Create it, and the nodes above it, if they do not exist.
sub put
{
	my ($self, $path, $value, $digest) = @_;
	my $open = pack('l> l> a* a*', 1, 31, text('world'), text('anyone'));
	my ($parent) = $path =~ m{^(/.*)/};
	my (undef, $error) = $self->ask('create', text($path) . text($value) . $open . pack('l>', 0), $digest);

	if ($error == $NO_NODE)
	{
		$self->put($parent, '', $digest);
		$self->put($path, $value, $digest);
	}
	elsif ($error == -110)
	{
		$self->call('set', text($path) . text($value) . pack('l>', -1), $digest);
	}
	die "create: $error" if $error != 0 && $error != $NO_NODE && $error != -110;
	return;
}

# Return what is stored under a path (value and so on), or undef.
sub get
{
	my ($self, $path, $digest) = @_;
	my ($answer, $error) = $self->ask('get', text($path) . "\0", $digest);

	return undef if $error == $NO_NODE;
	die "get: $error" if $error != 0;
	my ($value, @stat) = unpack('l>/a q> q> q> q> l> l> l> q> l> l> q>', $answer);
	return { value => $value, czxid => $stat[0], mtime => $stat[3], version => $stat[4],
		session => $stat[7] };
}

sub children
{
	my ($self, $path, $digest) = @_;
	my $answer = $self->call('children', text($path) . "\0", $digest);

	return unpack('l>/(l>/a)', $answer);
}

# Delete a node and everything below. Servers that run may delete some of it first, or
# create more below it.
sub delete
{
	my ($self, $path, $digest) = @_;
	my ($answer, $error);

	do
	{
		($answer, $error) = $self->ask('children', text($path) . "\0", $digest);
		if ($error == 0)
		{
			$self->delete("$path/$_", $digest) foreach unpack('l>/(l>/a)', $answer);
			(undef, $error) = $self->ask('delete', text($path) . pack('l>', -1), $digest);
		}
	} while ($error == $NOT_EMPTY);
	die 'delete: ' . ($ERRORS{$error} // $error) if $error != 0 && $error != $NO_NODE;
	return;
}

END
{
	my $status = $?;

	$_->stop('KILL') foreach @all;
	$? = $status;
}

1;
