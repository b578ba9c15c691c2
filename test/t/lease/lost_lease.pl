# A server keeps or loses its lease of a node id: its worker is frozen or crashes, or
# an administrator frees its slot.
#
# takes: 34 s
use SnowflakeTest;
use LeaseTest;

# Two slots, so that a server that has lost its slot finds no other one.
my $layout = 'timestamp:41 node:1 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);
my $b = start_holder('b');
# this server keeps its lease, however busy the machine is
my $c = start_holder('c', "snowflake.lease_reserve = '60s'",
	"snowflake.lease_presence = '60s'", "snowflake.lease_timeout = '10s'");
my $e = new_holder('e', "snowflake.lease_wait = '0'");
wait_for_lease($_, q{state = 'held'}) foreach $b, $c;

# ---- a worker that is frozen for longer than the reserve ----

{
	set_lease($b, 'wait', 0);
	my $load = load_on($b);
	$load->more(1000);
	my $from = -s $b->logfile;
	my $pid = freeze_worker($b);
	wait_for_lease($b, 'until < clock_timestamp()');
	refused($b, $next, '55000', $none, 'a frozen worker: refused when the reserve is used up');

	# meanwhile another server takes its slot
	$registry->poll_query_until('postgres', 'SELECT count(*) = 1 FROM snowflake_registry.slots() WHERE NOT present')
	  or die 'still present';
	$e->start;
	query($e, 'CREATE EXTENSION snowflake');
	wait_for_lease($e, q{state = 'held'});
	is(lease_of($e, 'node_id'), lease_of($b, 'node_id'), 'another server has its slot');
	make_ids($e, 1000);
	kill 'CONT', $pid;
	wait_for_lease($b, q{problem ~ 'are taken'});
	like_log($b, qr/The process was frozen.*The lease of node id \d is lost: another server has claimed it/s,
		$from, 'when it goes on it finds that the lease is lost');
	make_ids($e, 1000);
	$e->stop;
	wait_for_lease($b, q{state = 'held'});
	$load->more(1000);
	is(refusals_of($load), '55000', 'and gets it back when that is free');
}

# ---- a crash ----

{
	my $load;

	set_lease($b, 'wait', 60000);
	$load = load_on($b);

	# both slots have a holder, so it must wait for its own
	$load->more(1000);
	$b->stop('immediate');
	$load->finish;
	$b->start;
	$load = load_on($b);
	$load->more(1000);
	is(refusals_of($load), '', 'after an immediate stop it claims a slot');
	$load = load_on($b);
	$load->more(1000);
	my $from = -s $b->logfile;
	alter_system($b, q{SET restart_after_crash = on});
	kill 'KILL', lease_of($b, 'pid');
	wait_for_restart($b, $from);
	$load->finish;
	$load = load_on($b);
	$load->more(1000);
	is(refusals_of($load), '', 'and after its worker was killed');
	my $pid = lease_of($b, 'pid');
	$load = load_on($b);
	kill 'TERM', $pid;
	wait_for_lease($b, "state = 'held' AND pid <> $pid");
	$load->more(1000);
	is(refusals_of($load), '', 'a worker that is ended alone is followed by another');

	# the next worker comes so late that it may be a copy
	my $postmaster = $b->{_pid};
	$from = -s $b->logfile;
	$pid = lease_of($b, 'pid');
	$load = load_on($b);
	kill 'STOP', $postmaster;
	kill 'TERM', $pid;
	sleep 4;
	kill 'CONT', $postmaster;
	wait_for_lease($b, "state = 'held' AND pid <> $pid");
	like_log($b, qr/snowflake SF205: .*The process was frozen/, $from, 'one that comes late has the lease confirmed first');
	$load->more(1000);
	is(refusals_of($load), '', 'for which calls wait');
}

# ---- an administrator frees the slot of a live server ----

{
	my $from = -s $b->logfile;
	my $node_id = lease_of($b, 'node_id');
	my $load;

	# the reserve is longer than other delays, so the server does not claim the same
	# slot again
	set_lease($b, 'reserve', 15000);
	$load = load_on($b);
	wait_for_lease($b, q{until > now() + interval '12 s'});
	$c->stop;
	$load->more(1000);
	my $audited = $b->background_psql('postgres');
	my @audited = split /\n/, $audited->query(q{SET snowflake.audit = on;
		BEGIN; SELECT snowflake_nextval(); SELECT snowflake_nextval()});
	is(query($registry, "SELECT snowflake_registry.release($node_id)"), 't', 'release');
	wait_until { slurp_file($b->logfile, $from) =~ /The lease of node id $node_id is lost/ } 'the holder does not notice';
	wait_for_lease($b, q{state = 'held'});
	$load->more(1000);
	is(refusals_of($load), '', 'the holder claims another, and nobody notices');
	isnt(lease_of($b, 'node_id'), $node_id, 'with another node');
	push @audited, $audited->query('SELECT snowflake_nextval()');
	$audited->query('COMMIT');
	$audited->quit;
	my @lines = slurp_file($b->logfile, $from) =~ /SF601: \{"end":"commit",(.*?),"layout"/g;
	is_deeply(\@lines, [ qq{"ids":2,"first":$audited[0],"last":$audited[1]}, qq{"ids":1,"first":$audited[2],"last":$audited[2]} ],
		'a transaction that made IDs with both has a line for each');
	my $running = $b->background_psql('postgres');
	my $before = $running->query('BEGIN; INSERT INTO t DEFAULT VALUES RETURNING id');
	my $other = $running->query(q{SELECT snowflake_nextval('javascript')});
	my $horizon_of_other = q{SELECT snowflake_horizon('javascript')};
	cmp_ok(query($b, 'SELECT snowflake_horizon()'), '<=', $before,
		'the horizon is not beyond a transaction that runs');
	cmp_ok(query($b, $horizon_of_other), '<=', $other, '... nor is that of another layout');
	$running->query('COMMIT');
	$running->quit;
	cmp_ok(query($b, 'SELECT snowflake_horizon()'), '>', $before,
		'and goes on when it has ended, with nobody else there');
	cmp_ok(query($b, $horizon_of_other), '>', $other, '... as does that of the other layout');
}

# ---- all slots are taken, and a holder is gone for good ----

{
	# the registry takes it for present for long, and e can only wait
	configure($c, "snowflake.lease_presence = '10min'");
	$c->start;
	wait_for_lease($c, q{state = 'held'});
	my $gone = lease_of($c, 'node_id');
	$c->stop('immediate');
	$e->start;
	wait_for_lease($e, q{problem ~ 'are taken'});
	my ($slots, $release) = lease_of($e, 'remedy') =~
	  /(snowflake_registry_slots\(\)); lists, run here: (SELECT public\.snowflake_registry_release\(SLOT::bigint\);)/;
	my ($name) = query($e, "SELECT slot FROM $slots WHERE slot <> " . lease_of($b, 'node_id'));
	is($name, $gone, 'the remedy names the list that has the slot');
	is(query($e, $release =~ s/SLOT/$name/r), 't', 'and the command that frees it');
	wait_for_lease($e, q{state = 'held'});
	is(lease_of($e, 'node_id'), $gone, 'then another server has it, at the end of what was reserved');
	make_ids($e, 1000);
}

$_->stop foreach $b, $e, $registry;
$checker->clients;
done_testing();
