# A server notices that its registry has lost data, and cannot write that to its disk.
# It writes it as soon as it can.
#
# takes: 20 s
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use LeaseTest;
use SnowflakeTest;

my $layout = 'timestamp:41 node:2 sequence:12 epoch:2024-01-01';
my ($registry, $checker) = new_registry($layout);

grant_registry();
query($registry, "SELECT snowflake_registry.init('$layout')");
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
query($registry, 'UPDATE snowflake_registry.tenure SET version = 1');
query($a, 'SELECT pg_reload_conf()');
wait_for_lease($a, q{problem ~ 'it is older'});
rmdir $file or die "$file: $!";
$a->stop;
ok(-f $file, 'it is written when that is possible again');
$a->start;
wait_for_lease($a, q{problem ~ 'it is older'});
pass('and a loss is known over a restart');
query($registry, 'SELECT snowflake_registry.recover()');
$a->stop;
$registry->stop;
done_testing();
