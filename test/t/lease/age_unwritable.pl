# A server notices that its registry has lost data, and cannot write that to its disk.
# It writes it as soon as it can. Another worker remembers what the one before did.
#
# takes: 20 s
use SnowflakeTest;
use LeaseTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);
my $a = start_holder('a');
my $file = $a->data_dir . '/snowflake.age';
my $from;

wait_for_lease($a, q{state = 'held'});
$a->stop;
rename $file, "$file.kept" or die "$file: $!";
mkdir $file or die "$file: $!";
$from = -s $a->logfile;
$a->start;
wait_for_lease($a, q{state = 'held'});
like_log($a, qr/could not (?:open|rename) file "snowflake\.age.*WARNING:  snowflake SF403: could not write file "snowflake\.age"/s,
	$from, 'it cannot be written');
query($registry, 'UPDATE snowflake_registry.slot SET version = 1');
query($a, 'SELECT pg_reload_conf()');
wait_for_lease($a, q{problem ~ 'it is older'});
rmdir $file or die "$file: $!";
$a->stop;
ok(-f $file, 'it is written when that is possible again');
$a->start;
wait_for_lease($a, q{problem ~ 'it is older'});
pass('and a loss is known over a restart');

# ---- a file that cannot be opened is not one that is missing ----

# as after a restore by root; otherwise the server would accept any registry
query($registry, q{SELECT snowflake_registry.recover('90 s')});
$a->stop;
chmod 0000, $file or die "$file: $!";
$from = -s $a->logfile;
$a->start;
wait_for_lease($a, q{problem ~ 'snowflake.age" cannot be opened'});
like_log($a, qr/ERROR:  could not read what is known of the registry.*DETAIL:  File "snowflake\.age" cannot be opened/s, $from, 'the worker says so');
refused($a, $next, '55000', qr/cannot be opened.*HINT:  In the data directory, run as root: /s, 'and calls do');
refused($a, 'SELECT * FROM snowflake_registry_recover()', 'F0000', qr/cannot be opened/, 'an administrator is told, too');
my ($typed) = lease_of($a, 'remedy') =~ /run as root: "(.*)"/ or die;
system('cd ' . $a->data_dir . " && $typed") == 0 or die $typed;
wait_for_lease($a, q{problem IS NULL OR problem ~ 'recovery'});
pass('after the command it goes on with what it knew');
$a->stop;

# ---- another worker goes on where the one before has ended ----

my $new = qq{TRUNCATE snowflake_registry.registry, snowflake_registry.slot;
	SELECT snowflake_registry.init('$layout')};
query($registry, $new);
my $b = new_holder('b', "snowflake.lease_reserve = '10min'", 'snowflake.lease_wait = 0');
mkdir $b->data_dir . '/snowflake.age' or die;
$b->start;
query($b, 'CREATE EXTENSION snowflake');
wait_for_lease($b, q{state = 'held'});
set_lease($b, 'reserve', 6000);
query($registry, 'ALTER ROLE worker NOLOGIN');
query($registry, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'worker'});
my $pid = lease_of($b, 'pid');
kill 'TERM', $pid;
wait_for_lease($b, qq{pid <> $pid AND problem ~ 'role "worker"'});

# until the registry would give that away
my $former = query($registry, q{SELECT lpad(to_hex(generation), 16, '0') FROM snowflake_registry.registry});
query($registry, qq{$new; SELECT snowflake_registry.recover('1 s', '0 s', '$former'); ALTER ROLE worker LOGIN});
wait_for_lease($b, q{problem ~ 'would give away what it has confirmed to this server'});
refused($b, $next, '55000', qr/$none.*would give away/s, 'it is withdrawn at once');
my $remedy = lease_of($b, 'remedy');
like($remedy, qr/arguments: interval '[56]\d\d s', interval '5 s', '$former'/, 'the remedy waits for all of it');
$b->stop;
$registry->stop;
done_testing();
