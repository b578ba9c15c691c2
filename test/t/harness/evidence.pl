# What test/all never takes for a coincidence, and how a script says that something was
# not available (test/tap.sh, test/lib.sh).
#
# takes: 3 s
use SnowflakeTest;

my $scripts = "$root/test";
my $dir = PostgreSQL::Test::Utils::tempdir();

# Return what a function prints, or "no" if it returns false.
sub said
{
	my ($function, @args) = @_;
	my ($out, $err);

	IPC::Run::run([ 'bash', '-c', 'set -o pipefail; . "$0"; shift; "$@" || echo no',
			"$scripts/" . ($function eq 'is_left_out' ? 'lib.sh' : 'tap.sh'), '-', $function, @args ],
		'>', \$out, '2>', \$err);
	chomp $out;
	return $out . $err;
}

# Write a file, and return its name.
sub file
{
	my ($name, $text) = @_;

	unlink "$dir/$name";
	append_to_file("$dir/$name", $text);
	return "$dir/$name";
}

my $long = "a line of the log\n" x 1000;
foreach my $line ('not ok 3 - no ID twice', 'not ok 3 - no duplicate in the table', '# ID 5 is there twice', '# line 3: 5 follows 5',
	'# a and b have both issued IDs from 16 on', q{error running SQL: 'psql:<stdin>:1: ERROR:  duplicate key value violates unique constraint "t_pkey"},
	'LOG:  server process (PID 7) was terminated by signal 11: Segmentation fault',
	'LOG:  checkpointer process (PID 7) was terminated by signal 6: Aborted', 'TRAP: FailedAssertion("x")',
	'==7==ERROR: AddressSanitizer: heap-use-after-free', 'x.c:7:3: runtime error: signed integer overflow')
{
	is(said('find_evidence', file('prove.log', "ok 1\n"), $dir, "$dir/none", file('server.log', "$long$line\n$long")), $line,
		"evidence: $line");
}
foreach my $line ('ok 3 - no ID twice', 'not ok 3 - the server starts', 'LOG:  server process (PID 7) was terminated by signal 9: Killed',
	'ERROR:  duplicate key value violates unique constraint "pg_extension_name_index"',
	'ERROR:  duplicate key value violates unique constraint "meant"',
	'FATAL:  terminating connection due to administrator command')
{
	is(said('find_evidence', file('prove.log', "$line\n"), file('server.log', $long)), 'no', "none: $line");
}

mkdir "$dir/$_" for 'tmp_check', 'tmp_check/log';
foreach my $case ([ "ok 1\nno master at test.pl line 7.\n# at the end\n", 'no master at test.pl line 7.' ],
	[ "error running SQL: 'ERROR:  x\nwhile running at Cluster.pm line 9.\n", "error running SQL: 'ERROR:  x" ],
	[ "ok 1\ncould not read \"x\": no such file\n at test.pl line 7.\n", 'could not read "x": no such file at test.pl line 7.' ],
	[ "ok 1\n#   at test.pl line 7.\n", 'no' ])
{
	file('tmp_check/log/regress_log_x', $case->[0]);
	is(said('why_died', $dir), $case->[1], "why a test died: $case->[1]");
}

foreach my $case ([ 2, "LEFT OUT: x\n", '' ], [ 2, "LEFT OUT: x\n3 passed, 0 failed\n", '' ],
	[ 2, "LEFT OUT: x\n3 passed, 1 failed\n", 'no' ], [ 2, "LEFT OUT: x\nls: cannot access\n", 'no' ], [ 1, "LEFT OUT: x\n", 'no' ], [ 0, "LEFT OUT: x\n", 'no' ])
{
	my ($status, $log, $result) = @$case;

	is(said('is_left_out', $status, file('log', $log)), $result, "status $status, and " . $log =~ s/\n/ /gr);
}

done_testing();
