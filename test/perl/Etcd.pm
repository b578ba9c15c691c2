# An etcd for tests: started on the loopback interface, asked without a client
# program, and ended with the script.
package Etcd;

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP;
use MIME::Base64;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(usleep);

my @all;

# Create an etcd, not started. Options: arguments of etcd, and TLS files for requests.
sub new
{
	my ($class, $name, %options) = @_;
	my $self = bless {
		name => $name,
		port => PostgreSQL::Test::Cluster::get_free_port(),
		peer => PostgreSQL::Test::Cluster::get_free_port(),
		dir => "$PostgreSQL::Test::Utils::tmp_check/etcd-$name",
		log => "$PostgreSQL::Test::Utils::log_path/etcd-$name.log",
		args => $options{args} // [],
		scheme => $options{tls} ? 'https' : 'http',
		http => HTTP::Tiny->new(timeout => 60, SSL_options => $options{tls} // {},
			verify_SSL => 1),
	}, $class;

	push @all, $self;
	return $self;
}

sub host { my ($self) = @_; return "127.0.0.1:$self->{port}" }

# Create the members of one cluster, not started; options as above.
sub members
{
	my ($class, $names, %options) = @_;
	my @members = map { $class->new($_, %options) } @$names;
	my $cluster = join ',', map { "$_->{name}=http://127.0.0.1:$_->{peer}" } @members;

	$_->{cluster} = $cluster foreach @members;
	return @members;
}

# Create and start a cluster.
sub cluster
{
	my ($class, @names) = @_;
	my @members = $class->members(\@names);

	$_->launch foreach @members;
	$_->wait_until_ready foreach @members;
	return @members;
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
	my $url = "$self->{scheme}://" . $self->host;
	my $peer = "http://127.0.0.1:$self->{peer}";
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>>', $self->{log} or die;
		open STDERR, '>&', \*STDOUT or die;
		exec 'etcd', '--name', $self->{name}, '--data-dir', $self->{dir},
		  '--listen-client-urls', $url, '--advertise-client-urls', $url,
		  '--listen-peer-urls', $peer, '--initial-advertise-peer-urls', $peer,
		  '--initial-cluster', $self->{cluster} // "$self->{name}=$peer", @{ $self->{args} }
		  or die "etcd: $!";
	}
	$self->{pid} = $pid;
	return;
}

# Return true if this member is the leader.
sub leads
{
	my ($self) = @_;
	my $status = $self->call('maintenance/status', {});

	return ($status->{leader} // 0) eq ($status->{header}{member_id} // '');
}

# Wait until it listens, and its log says that it serves.
sub wait_until_ready
{
	my ($self) = @_;

	foreach my $try (1 .. 6000)
	{
		return
		  if IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})
		  && slurp_file($self->{log}, $self->{from} // 0) =~ /ready to serve client requests/;
		die 'etcd has ended: ' . slurp_file($self->{log})
		  if waitpid($self->{pid}, 1) != 0;    # WNOHANG
		usleep(10_000);
	}
	die 'etcd does not start: ' . slurp_file($self->{log});
}

sub stop
{
	my ($self, $signal) = @_;

	return unless $self->{pid};
	kill $signal // 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	$self->{from} = -s $self->{log};
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

	$self->stop;
	$self->forget;
	$self->start;
	return;
}

# Send a request; return the status and the answer.
sub post
{
	my ($self, $path, $what, $token) = @_;
	my $answer = $self->{http}->post("$self->{scheme}://" . $self->host . "/v3/$path",
		{ content => encode_json($what), headers => $token ? { Authorization => $token } : {} });

	die $answer->{content} if $answer->{status} == 599;
	return ($answer->{status}, decode_json($answer->{content}));
}

# Send a request that must succeed; return the answer.
sub call
{
	my ($self, $path, $what, $token) = @_;
	my ($status, $answer) = $self->post($path, $what, $token);

	die "$path: $status $answer->{message}" if $status != 200;
	return $answer;
}

sub put
{
	my ($self, $key, $value) = @_;

	return $self->call('kv/put',
		{ key => encode_base64($key, ''), value => encode_base64($value, '') });
}

# Return what is stored under a key (value and so on), or undef.
sub get
{
	my ($self, $key) = @_;
	my $kvs = $self->call('kv/range', { key => encode_base64($key, '') })->{kvs};

	return unless defined $kvs;
	$kvs->[0]{value} = decode_base64($kvs->[0]{value} // '');
	return $kvs->[0];
}

sub delete
{
	my ($self, $key) = @_;

	return $self->call('kv/deleterange', { key => encode_base64($key, '') });
}

END
{
	my $status = $?;

	$_->stop foreach @all;
	$? = $status;
}

1;
