# One registry of any kind, which can be stopped and started, and of which a copy can
# be saved and restored.
package RegistryCopy;

use strict;
use warnings FATAL => 'all';

use Etcd;
use Load;
use PostgreSQL::Test::Cluster;
use SnowflakeTest;
use Test::More;
use ZooKeeper;
use Exporter 'import';

our @EXPORT = qw(new_registry_of start_holder_of initialize ask_again run_or_die replace);

sub run_or_die
{
	my (@command) = @_;

	system(@command) == 0 or die "@command: $?";
	return;
}

# Replace one directory by another.
sub replace
{
	my ($old, $new) = @_;

	run_or_die('rm', '-rf', $new);
	run_or_die('cp', '-a', $old, $new);
	return;
}

# Copy the directory of a registry that was stopped.
sub by_files
{
	my ($self) = @_;

	$self->{save} = sub { $self->{stop}->(); replace($self->{dir}, $_[0]); $self->{start}->() };
	$self->{restore} = sub { replace($_[0], $self->{dir}) };
	return $self;
}

sub postgresql
{
	my ($name) = @_;
	my $server = PostgreSQL::Test::Cluster->new($name);

	$server->init(allows_streaming => 1);
	$server->start;
	query($server, q{CREATE EXTENSION snowflake_registry; CREATE ROLE worker LOGIN;
		SELECT snowflake_registry.grant('worker', administer => true)});
	return by_files({
		server => $server,
		url => sprintf('postgresql://worker@/postgres?host=%s&port=%d',
			$server->host, $server->port),
		dir => $server->data_dir,
		start => sub { $server->start },
		stop => sub { $server->stop('fast') },
	});
}

# Copy and restore by etcdctl; or restore by etcdutl, which etcd has since 3.5, such
# that all revisions are above those that were lost.
sub etcd
{
	my ($name) = @_;
	my $etcd = Etcd->new($name)->start;
	my @restore = system('etcdutl version >/dev/null 2>&1') == 0
	  ? qw(etcdutl --bump-revision 1000000 --mark-compacted) : 'etcdctl';
	my $program = shift @restore;

	return {
		server => $etcd,
		url => 'etcd://' . $etcd->host . '/reg',
		dir => $etcd->{dir},
		start => sub { $etcd->start },
		stop => sub { $etcd->stop },
		save => sub {
			my ($file) = @_;
			local $ENV{ETCDCTL_API} = 3;

			run_or_die('etcdctl', '--endpoints', $etcd->host, 'snapshot', 'save', $file);
		},
		restore => sub {
			my ($file, @options) = @_;
			my $peer = "http://127.0.0.1:$etcd->{peer}";
			local $ENV{ETCDCTL_API} = 3;

			run_or_die('rm', '-rf', $etcd->{dir});
			run_or_die($program, 'snapshot', 'restore', $file, '--name', $name,
				'--data-dir', $etcd->{dir}, '--initial-cluster', "$name=$peer",
				'--initial-advertise-peer-urls', $peer, @restore, @options);
		},
	};
}

sub zookeeper
{
	my ($name) = @_;
	my $zookeeper = ZooKeeper->new($name)->start;

	return by_files({
		server => $zookeeper,
		url => 'zookeeper://' . $zookeeper->host . '/reg',
		dir => $zookeeper->{dir},
		start => sub { $zookeeper->start },
		stop => sub { $zookeeper->stop },
	});
}

# Start a registry that is not initialized: server, url, dir, start(), stop(),
# save(to) while it runs, and restore(from) while it is stopped.
sub new_registry_of
{
	my ($kind, $name) = @_;
	my %kinds = (postgresql => \&postgresql, etcd => \&etcd, zookeeper => \&zookeeper);

	return $kinds{$kind}->($name);
}

# Start a server that leases from this registry, with short times, its clock wrong by
# this many seconds. It has two shards of its own, and the tables of clients.
my $shards = 0;

sub start_holder_of
{
	my ($registry, $name, $offset, @settings) = @_;
	my $shard = 2 * ++$shards;
	my $node = new_server($name, "snowflake.node_id = ''",
		"snowflake.registry = '$registry->{url}'", "snowflake.lease_reserve = '6s'",
		"snowflake.lease_presence = '3s'", "snowflake.lease_timeout = '2s'",
		"snowflake.lease_wait = '0'", "snowflake.max_clock_wait = '10s'",
		sprintf("snowflake.shards = '%d-%d'", $shard, $shard + 1), @settings);

	$node->{shard} = $shard;
	start_with_clock($node, $offset);
	query($node, 'CREATE EXTENSION snowflake;' . load_tables());
	return $node;
}

# Ask until there is an answer, which a busy registry may not give in time.
sub ask_again(&)
{
	my ($ask) = @_;
	my $answer;

	wait_until { defined($answer = eval { $ask->() }) } 'the registry does not answer';
	return $answer;
}

# Make the registry of a server that finds none.
sub initialize
{
	my ($node, $name) = @_;

	wait_for_lease($node, q{problem ~ 'never initialized'});
	like(ask_again { query($node, 'SELECT snowflake_registry_init()') }, qr/^[tf]$/, "$name: init");
	return;
}

1;
