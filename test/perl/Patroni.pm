# Members of a Patroni cluster for tests: each with a PostgreSQL server of its own on
# the loopback interface, with a shared etcd, and ended with the script.
package Patroni;

use strict;
use warnings FATAL => 'all';

use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

my @all;

# Create a member, not started. Options: the cluster's name, its etcd, the settings
# of PostgreSQL that the members share, and those of this one. The server is "node",
# which Patroni makes, starts and stops.
sub new
{
	my ($class, $name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $self = bless {
		name => $name,
		cluster => $options{cluster},
		etcd => $options{etcd},
		node => $node,
		rest => '127.0.0.1:' . PostgreSQL::Test::Cluster::get_free_port(),
		file => $node->basedir . '/patroni.yml',
		log => "$PostgreSQL::Test::Utils::log_path/patroni-$name.log",
		http => HTTP::Tiny->new(timeout => 5),
	}, $class;

	# JSON is valid YAML
	append_to_file($self->{file}, encode_json($self->_configuration(%options)));
	push @all, $self;
	return $self;
}

sub _configuration
{
	my ($self, %options) = @_;
	my $node = $self->{node};
	my $address = '127.0.0.1:' . $node->port;
	my $bin_dir = `$ENV{PG_CONFIG} --bindir`;

	chomp $bin_dir;
	return {
		scope => $options{cluster},
		name => $self->{name},
		restapi => { listen => $self->{rest}, connect_address => $self->{rest} },
		etcd3 => { host => $options{etcd}->host },
		bootstrap => {
			# as short as possible: a dead leader is noticed after the TTL, unless
			# expire() ends its lease
			dcs => {
				ttl => 20, loop_wait => 1, retry_timeout => 3,
				postgresql => {
					use_pg_rewind => JSON::PP::true,
					parameters => $options{shared},
				},
			},
			initdb => [ { encoding => 'UTF8' }, { locale => 'C' }, 'data-checksums', 'no-sync' ],
		},
		postgresql => {
			listen => $address,
			connect_address => $address,
			bin_dir => $bin_dir,
			data_dir => $node->data_dir,
			pgpass => $node->basedir . '/pgpass',
			basebackup => { checkpoint => 'fast' },
			use_unix_socket => JSON::PP::true,
			authentication => {
				superuser => { username => scalar getpwuid($>) },
				replication => { username => 'replicator' },
			},
			pg_hba => [ 'local all all trust', 'host all all 127.0.0.1/32 trust',
				'host replication all 127.0.0.1/32 trust' ],
			parameters => {
				unix_socket_directories => $node->host,
				logging_collector => 'off',
				fsync => 'off',
				%{ $options{own} },
			},
		},
	};
}

sub node { my ($self) = @_; return $self->{node} }

# Start it in a process group, which does not include the server.
sub start
{
	my ($self) = @_;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>>', $self->{log} or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		setpgrp;
		exec 'patroni', $self->{file} or POSIX::_exit(1);
	}
	$self->{pid} = $pid;
	return $self;
}

# Return what the server answers, or nothing if it is down. The statement is an argument:
# a psql that finds no server would break the pipe of its input.
sub answer
{
	my ($self, $sql) = @_;

	return (run_command([ 'psql', '-XAt', '-c', $sql, $self->{node}->connstr('postgres') ]))[0];
}

# Return true if Patroni and its server both have this role. Patroni claims the role
# before the server is ready for it.
sub _is
{
	my ($self, $role) = @_;
	my $sql = 'SELECT ' . ($role eq 'leader' ? 'NOT ' : '') . 'pg_is_in_recovery()';

	return $self->{http}->get("http://$self->{rest}/$role")->{status} == 200
	  && $self->answer($sql) eq 't';
}

# Return true if it has a member that follows.
sub _is_followed
{
	my ($self) = @_;

	return $self->answer(q{SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'}) eq 't';
}

# Return what Patroni and its server have logged.
sub log { my ($self) = @_; return slurp_file($self->{log}) }

# Return the log without the lines that Patroni writes each second.
sub _log
{
	my ($self) = @_;

	return join "\n", "$self->{name}:",
	  grep { !/INFO: no action/ } split /\n/, slurp_file($self->{log});
}

# Wait until a condition holds and return its value; die if a Patroni ends.
sub _wait_until
{
	my ($condition, $otherwise, @members) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	while (1)
	{
		if (my $result = $condition->())
		{
			return $result;
		}
		die join "\n", $otherwise, map { $_->_log } @members
		  if time > $end || grep { waitpid($_->{pid}, POSIX::WNOHANG) != 0 } @members;
		usleep(50_000);
	}
}

# Wait until the member has this role. Return the seconds that this took.
sub wait_for
{
	my ($self, $role) = @_;
	my $start = time;

	_wait_until(sub { $self->_is($role) }, "$self->{name} is no $role", $self);
	return time - $start;
}

# Wait until one of two members leads, and the other one follows. Return them in this
# order.
sub settle
{
	my @members = @_;
	my $result = _wait_until(
		sub {
			foreach my $order ([ @members ], [ reverse @members ])
			{
				my ($leader, $follower) = @$order;

				return $order
				  if $leader->_is('leader') && $follower->_is('replica') && $leader->_is_followed;
			}
			return;
		},
		'the roles are not settled',
		@members);

	return @$result;
}

# Send a signal to Patroni alone: the server goes on.
sub signal
{
	my ($self, $signal) = @_;

	kill($signal, $self->{pid}) == 1 or die "cannot signal $self->{pid}: $!";
	if ($signal eq 'KILL')
	{
		waitpid $self->{pid}, 0;
		delete $self->{pid};
	}
	return;
}

# Ask Patroni for something, such as a switchover, and wait until the log says that it has
# been done.
sub ask
{
	my ($self, $what, $done, %options) = @_;
	my $from = -s $self->{log};
	my $answer = HTTP::Tiny->new(timeout => $PostgreSQL::Test::Utils::timeout_default)
	  ->post("http://$self->{rest}/$what", { content => encode_json(\%options) });

	die "$what: $answer->{status} $answer->{content}" if !$answer->{success};
	_wait_until(sub { substr(slurp_file($self->{log}), $from) =~ $done }, "$what: not done", $self);
	return;
}

# Turn on failsafe_mode for a leader and its followers, and wait until all know it.
sub use_failsafe_mode
{
	my (@members) = @_;
	my ($self) = @members;
	my $answer = $self->{http}->request('PATCH', "http://$self->{rest}/config", { content => '{"failsafe_mode": true}' });

	die "config: $answer->{status} $answer->{content}" if !$answer->{success};
	_wait_until(sub { !grep { $self->{http}->get("http://$_->{rest}/failsafe")->{status} != 200 } @members },
		'no failsafe_mode', @members);
	return;
}

# End a leader's lease in etcd, as etcd itself does after the TTL, if the leader no
# longer extends it: its lock is gone at once, and the others see that.
sub expire
{
	my ($self) = @_;
	my $lock = $self->{etcd}->get("/service/$self->{cluster}/leader");

	die "$self->{name} does not lead" unless $lock && $lock->{value} eq $self->{name};
	$self->{etcd}->call('lease/revoke', { ID => $lock->{lease} });
	return;
}

# Return the server's process, which works in its directory; undef if there is none,
# even if a killed one has left its file.
sub postmaster_pid
{
	my ($self) = @_;
	my $dir = $self->{node}->data_dir;
	my $file = "$dir/postmaster.pid";
	my ($pid) = -e $file ? slurp_file($file) =~ /^(\d+)\n/ : ();

	return $pid && (readlink("/proc/$pid/cwd") // '') eq $dir ? $pid : undef;
}

sub kill_server
{
	my ($self) = @_;
	my $pid = $self->postmaster_pid // die 'no server';

	kill('KILL', $pid) == 1 or die "cannot kill $pid: $!";
	return;
}

# End it at once, in any state.
sub end
{
	my ($self) = @_;

	if ($self->{pid})
	{
		kill 'KILL', -$self->{pid};
		waitpid $self->{pid}, 0;
		delete $self->{pid};
	}
	foreach my $try (1 .. 600)
	{
		my $pid = $self->postmaster_pid // return;

		kill $try == 600 ? 'KILL' : 'QUIT', $pid;
		usleep(50_000);
	}
	return;
}

END
{
	my $status = $?;

	$_->end foreach @all;
	$? = $status;
}

1;
