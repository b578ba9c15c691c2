# Calls per second, and CPU time and instructions per call. A backend executes one query
# repeatedly (bench_loop), so the figures include no client and no protocol. They include
# the executor's loop over rows, which every query has.

use strict;
use warnings;
use Bench;

my @names = grep { $contestant{$_} && $contestant{$_}{call} } (
	'ours, wide', 'ours, default', 'ours, Instagram', 'ours, 100 shards',
	'ours, JavaScript', 'ours, LWLock', 'ours, spinlock', 'empty C function',
	'clock_timestamp()', 'nextval, CACHE 1', 'nextval, CACHE 32', 'pgEdge',
	'gen_random_uuid()', 'uuidv7()', 'Instagram, PL/pgSQL',
	'Mastodon, PL/pgSQL');
my @locks = ('ours, wide', 'ours, LWLock', 'ours, spinlock');

sub frame
{
	my ($call, $rows) = @_;

	return "SELECT count($call) FROM (SELECT generate_series(1, $rows) AS i) s";
}

sub item
{
	my ($name, $clients) = @_;
	my $c = $contestant{$name};
	my $rows = $c->{slow} ? 1000 : 10000;

	return [ $name, sub {
		my $r = loop($c->{cluster}, $clients, frame($c->{call}, $rows), $rows,
			$quick ? 100 : 400);
		return { rate => $r->{rate}, cpu => $r->{cpu_ns} };
	} ];
}

sub clients
{
	return $_[0] == 1 ? '1 client' : "$_[0] clients";
}

for my $clients ($quick ? (1, 8) : (1, 2, 4, 8, 16, 64))
{
	my @in = grep { $clients <= 8 || $_ !~ /JavaScript|, Instagram/ } @names;

	my $figure = clients($clients);

	say_step("calls, $figure");
	my $v = rounds(5, map { item($_, $clients) } @in);
	record(work => 'calls', figure => $figure, names => \@in,
		unit => 'calls/s', better => 'more', ours => 'ours, wide',
		values => $v->{rate});
	record(work => 'calls', figure => "CPU, $figure", names => \@in,
		unit => 'ns/call', ours => 'ours, wide', values => $v->{cpu});
	if ($v->{rate}{'Instagram, PL/pgSQL'})
	{
		my $i = 'Instagram, PL/pgSQL';
		record(work => 'shards', figure => $figure,
			names => [ 'ours, 100 shards', $i ], unit => 'calls/s',
			better => 'more', ours => 'ours, 100 shards',
			values => { map { $_ => $v->{rate}{$_} } 'ours, 100 shards', $i });
	}
}
for my $clients ($quick ? () : (12))
{
	my $v = rounds(5, map { item($_, $clients) } @locks);
	record(work => 'calls', figure => clients($clients), names => \@locks,
		unit => 'calls/s', better => 'more', ours => 'ours, wide',
		values => $v->{rate});
}

# ---- the same with a client ----

# pgbench needs CPU time too, and a function in FROM stores its rows before the first
# call. Both cost the same for all contestants, so these differ less here.
say_step('calls by pgbench, 8 clients');
my @few = ('ours, wide', 'empty C function', 'clock_timestamp()',
	'nextval, CACHE 1', 'nextval, CACHE 32');
for my $calls (1000, 1)
{
	my $v = rounds(5, map {
		my $name = $_;
		my $call = $contestant{$name}{call};
		my $script = "$dir/calls.sql";
		my $count = $quick ? 200 : $calls == 1 ? 5000 : 800;
		[ $name, sub {
			open my $out, '>', $script or die;
			print $out $calls == 1 ? "SELECT $call;\n" :
				"SELECT count($call) FROM generate_series(1, $calls);\n";
			close $out;
			my $log = `$bindir/pgbench -h $dir/wide -U postgres -n -M prepared -c 8 -j 2 -t $count -f $script postgres 2>&1`;
			$log =~ /^tps = ([0-9.]+)/m or die $log;
			return { rate => $1 * $calls };
		} ];
	} @few);
	record(work => 'calls', figure => "pgbench, 8 clients, $calls a statement",
		names => \@few, unit => 'calls/s', better => 'more',
		ours => 'ours, wide', values => $v->{rate});
}

# ---- instructions ----

# valgrind counts them, in a single-user server. These counts do not vary, so one round
# is enough.
say_step('instructions per call, in callgrind');
my $rows = $quick ? 2000 : 20000;
my @single = grep { $contestant{$_}{cluster} eq 'wide' } @names;
my $script = '';
for my $name (@single)
{
	my $query = frame($contestant{$name}{call}, $rows);
	$script .= "$query\nSELECT bench_dump('-')\n$query\nSELECT bench_dump('$name')\n";
}
ctl('wide', qw(-m fast -w stop));
open my $out, '>', "$dir/single.sql" or die;
print $out $script;
close $out;
system("valgrind --tool=callgrind --callgrind-out-file=$dir/callgrind " .
	"$bindir/postgres --single -D $dir/wide/data postgres " .
	"<$dir/single.sql >$dir/single.log 2>&1") == 0 or
	do { system("tail -n 20 $dir/single.log"); die "callgrind failed" };
ctl('wide', qw(-w start));
my %count;
for my $file (glob "$dir/callgrind.*")
{
	open my $in, '<', $file or die;
	my ($label, $total);
	while (<$in>)
	{
		$label = $1 if /^desc: Trigger: Client Request: (.*)/;
		$total = $1 if /^(?:summary|totals): (\d+)/;
	}
	$count{$label} = [ sprintf '%.0f', $total / $rows ]
		if defined $label && $label ne '-';
}
die "callgrind counted nothing" if keys %count != @single;
record(work => 'calls', figure => 'instructions', names => \@single,
	unit => 'instructions/call', ours => 'ours, wide', values => \%count);

1;
