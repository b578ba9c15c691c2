# IDs as a service: sixteen clients ask one server for batches of 100 IDs. They ask
# through pgbouncer in transaction mode, with examples/pgbouncer.ini, and directly. The
# example has two servers; this is its load when one of them is dead. pgbench measures how
# long a client waits: once without pauses, and once while each client asks for a hundred
# batches per second.

use strict;
use warnings;
use Bench;
use FindBin;
use IO::Socket::INET;
use POSIX ();

my $program = -x '/usr/sbin/pgbouncer' ? '/usr/sbin/pgbouncer' : 'pgbouncer';
my $clients = 16;
my $seconds = $quick ? 2 : 10;
my $here = "$dir/service";
my $pid;

END
{
	my $status = $?;

	kill 'KILL', $pid if $pid;
	$? = $status;
}

# Return a port that no process listens at.
sub free_port
{
	return IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)->sockport;
}

sub start_pgbouncer
{
	my %own = (
		ids => "host=$dir/default dbname=postgres user=postgres",
		listen_port => free_port(), auth_type => 'any', auth_file => '',
		unix_socket_dir => '');

	open my $in, '<', "$FindBin::Bin/../examples/pgbouncer.ini" or die "pgbouncer.ini: $!";
	my $ini = join '', <$in>;
	for my $what (sort keys %own)
	{
		$ini =~ s/^\Q$what\E = .*$/$what = $own{$what}/m
			or $ini .= "$what = $own{$what}\n";
	}
	open my $out, '>', "$here/pgbouncer.ini" or die "pgbouncer.ini: $!";
	print $out $ini;
	close $out or die;
	$pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDERR, '>', "$here/log" or POSIX::_exit(1);
		exec $program, '-q', "$here/pgbouncer.ini" or POSIX::_exit(1);
	}
	my $connstr = "host=127.0.0.1 port=$own{listen_port} dbname=ids";
	my $limit = time + 10;
	until (system("$bindir/psql -X -q -d '$connstr' -c 'SELECT 1' >$here/out 2>&1") == 0)
	{
		die "pgbouncer does not start: see $here/log" if time > $limit;
		sleep 0.02;
	}
	return $connstr;
}

# Run pgbench. Return percentiles of the times of its transactions in ms, and the
# transactions per second.
sub ask
{
	my ($connstr, @options) = @_;
	my @ms;

	unlink glob "$here/latency.*";
	system("$bindir/pgbench -n -c $clients -j 2 -T $seconds -M extended"
		  . " -f $here/batch.sql -l --log-prefix=$here/latency @options"
		  . " '$connstr' >$here/out 2>&1") == 0
		or die "pgbench failed: see $here/out";
	for my $file (glob "$here/latency.*")
	{
		open my $in, '<', $file or die "$file: $!";
		while (<$in>)
		{
			push @ms, (split ' ')[2] / 1000;
		}
	}
	die 'pgbench has written nothing' unless @ms;
	@ms = sort { $a <=> $b } @ms;
	return {
		(map { ("p$_" => $ms[ $#ms * $_ / 100 ]) } 50, 99, 99.9),
		rate => @ms / $seconds };
}

if (system("$program -V >/dev/null 2>&1") != 0)
{
	left_out('IDs as a service: there is no pgbouncer');
	return 1;
}
mkdir $here or die "$here: $!";
open my $script, '>', "$here/batch.sql" or die "batch.sql: $!";
print $script "SELECT snowflake_nextval_batch(100);\n";
close $script or die;
my $through = start_pgbouncer();
my $directly = "host=$dir/default dbname=postgres user=postgres";

for ([ 'without a pause' ], [ '1,600 batches/s', '-R', 1600 ])
{
	my ($how, @options) = @$_;
	my @names = ('through pgbouncer', 'directly');

	say_step("service, $clients clients, $how");
	my $v = rounds(5, map {
		my $name = $_;
		[ $name, sub { ask($name eq 'directly' ? $directly : $through, @options) } ];
	} @names);
	record(work => 'service', figure => "$_, $clients clients, $how",
		names => \@names, unit => 'ms', ours => 'through pgbouncer',
		values => $v->{$_}) for 'p50', 'p99', 'p99.9';
	record(work => 'service', figure => "batches, $clients clients, $how",
		names => \@names, unit => 'batches/s', better => 'more',
		ours => 'through pgbouncer', values => $v->{rate});
}
kill 'KILL', $pid;
waitpid $pid, 0;
undef $pid;

1;
