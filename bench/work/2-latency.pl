# How long single calls take under load. The backend reads the clock after each call
# (bench_histogram). Reading it takes about 20 ns, which the figures include.

use strict;
use warnings;
use Bench;

my %function = (
	'ours, wide' => [ wide => 'snowflake_nextval()' ],
	'ours, LWLock' => [ lwlock => 'snowflake_nextval()' ],
	'ours, spinlock' => [ spinlock => 'snowflake_nextval()' ],
	'empty C function' => [ wide => 'bench_nothing()' ],
	'clock_timestamp()' => [ wide => 'clock_timestamp()' ],
	'nextval, CACHE 1' => [ wide => 'nextval(regclass)', 's1' ],
	'nextval, CACHE 32' => [ wide => 'nextval(regclass)', 's32' ],
	'gen_random_uuid()' => [ wide => 'gen_random_uuid()' ],
);
my @names = ('ours, wide', 'ours, LWLock', 'ours, spinlock',
	'empty C function', 'clock_timestamp()', 'nextval, CACHE 1',
	'nextval, CACHE 32', 'gen_random_uuid()');

# Return the longest time that a bucket counts, in ns.
sub bound
{
	my ($i) = @_;
	my $shift = $i < 32 ? 0 : int($i / 16) - 1;

	return (($i - $shift * 16) + 1) * 2**$shift - 1;
}

# Merge the counts of several backends, and compute percentiles.
sub percentiles
{
	my ($calls, @rows) = @_;
	my (@count, %p, $seen);
	my $worst = max(map { $_->[0][0] } @rows);

	for my $row (@rows)
	{
		my $h = $row->[0];
		$count[$_] += $h->[ $_ + 1 ] for 0 .. $#$h - 1;
	}
	my $total = sum(@count);
	for my $p (50, 99, 99.9)
	{
		my $seen = 0;
		for my $i (0 .. $#count)
		{
			$seen += $count[$i];
			next if $seen < $total * $p / 100;
			$p{"p$p"} = min(bound($i), $worst) / $calls;
			last;
		}
	}
	$p{maximum} = $worst / $calls;
	return \%p;
}

sub histogram
{
	my ($name, $clients, $calls, $ms) = @_;
	my ($cluster, $function, $sequence) = @{ $function{$name} };
	my $argument = $sequence ? "'$sequence'::regclass::oid::integer" : 0;

	return percentiles($calls, together($cluster, $clients,
		"SELECT bench_histogram('$function', $argument, $calls, START, $ms)"));
}

for my $clients ($quick ? (8) : (2, 8))
{
	say_step("latency, $clients clients");
	my $v = rounds(5, map {
		my $name = $_;
		[ $name, sub { histogram($name, $clients, 1, $quick ? 120 : 1500) } ];
	} @names);
	record(work => 'latency', figure => "$_, $clients clients",
		names => \@names, unit => 'ns', ours => 'ours, wide',
		values => $v->{$_}) for 'p50', 'p99', 'p99.9', 'maximum';
}

# ---- alone ----

say_step('one call, and a batch over a connection');
my $v = rounds(7, map {
	my $name = $_;
	[ $name, sub { histogram($name, 1, 100, $quick ? 100 : 400) } ];
} @names);
record(work => 'in-process', figure => 'one call', names => \@names,
	unit => 'ns', ours => 'ours, wide', values => $v->{p50});

my $batch = db('wide')->prepare('SELECT snowflake_nextval_batch(100)');
$v = rounds(7, [ 'ours, wide', sub {
	my @ms;
	for (1 .. 200)
	{
		my $begun = time;
		$batch->execute;
		die if @{ $batch->fetchall_arrayref } != 100;
		push @ms, (time - $begun) * 1000;
	}
	return { ms => median(@ms) };
} ]);
record(work => 'in-process', figure => 'batch of 100 over a connection',
	unit => 'ms', values => $v->{ms});

1;
