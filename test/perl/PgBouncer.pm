# pgbouncer in front of a server, for tests, with the configuration of examples/,
# except for addresses and users. Ended with the script.
package PgBouncer;

use strict;
use warnings FATAL => 'all';

use File::Basename;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

# Debian installs it outside the users' path.
my $program = -x '/usr/sbin/pgbouncer' ? '/usr/sbin/pgbouncer' : 'pgbouncer';
my @all;

# Return the version as a number: 1.21 is the first with prepared statements.
sub version
{
	my ($major, $minor) = `$program -V` =~ /^PgBouncer (\d+)\.(\d+)/i
	  or die "$program does not say its version";

	return sprintf('%d.%02d', $major, $minor);
}

# Create a pgbouncer, not started, with these settings besides those of examples/.
sub new
{
	my ($class, $node, %settings) = @_;
	my $name = 'pgbouncer-' . $node->name;
	my $self = bless {
		port => PostgreSQL::Test::Cluster::get_free_port(),
		file => $node->basedir . '/pgbouncer.ini',
		log => "$PostgreSQL::Test::Utils::log_path/$name.log",
	}, $class;
	my $ini = slurp_file(dirname(__FILE__) . "/../../examples/pgbouncer.ini");
	my %own = (
		'ids' => 'host=' . $node->host . ' port=' . $node->port
		  . ' dbname=postgres user=' . getpwuid($>),
		'listen_port' => $self->{port},
		'auth_type' => 'any',
		'auth_file' => '',
		'unix_socket_dir' => '',
		'max_client_conn' => 100,
		%settings);

	foreach my $what (sort keys %own)
	{
		$ini =~ s/^\Q$what\E = .*$/$what = $own{$what}/m
		  or $ini .= "$what = $own{$what}\n";
	}
	append_to_file($self->{file}, $ini);
	push @all, $self;
	return $self;
}

sub port { my ($self) = @_; return $self->{port} }

sub connstr
{
	my ($self) = @_;

	return "host=127.0.0.1 port=$self->{port} dbname=ids";
}

# Start it, and wait until a query succeeds.
sub start
{
	my ($self) = @_;
	my $last = time + $PostgreSQL::Test::Utils::timeout_default;

	$self->{pid} = fork // die "fork: $!";
	if ($self->{pid} == 0)
	{
		open STDOUT, '>>', $self->{log} or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec $program, $self->{file} or POSIX::_exit(1);
	}
	until (system('psql', '-XAtq', '-d', $self->connstr, '-o', '/dev/null',
			'-c', 'SELECT 1') == 0)
	{
		die "pgbouncer does not start:\n" . slurp_file($self->{log})
		  if time > $last || waitpid($self->{pid}, POSIX::WNOHANG) != 0;
		usleep(50_000);
	}
	return $self;
}

# Return the result of a query through pgbouncer.
sub query
{
	my ($self, $sql) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->connstr, '-c', $sql ],
		'>', \$out, '2>', \$err)
	  or die "$sql: $err";
	chomp $out;
	return $out;
}

sub kill9
{
	my ($self) = @_;

	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

END
{
	my $status = $?;

	foreach my $self (grep { $_->{pid} } @all)
	{
		$self->kill9;
	}
	$? = $status;
}

1;
