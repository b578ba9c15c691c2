# The checker of IDs finds what it is there to find.
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib $FindBin::RealBin;
use IdChecker;

my $round = 0;

# What the checker says of these sessions: the number of IDs, and the faults.
sub verdict
{
	my (@sessions) = @_;
	my $checker =
	  IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/' . ++$round);

	$checker->saw('node', @$_) foreach @sessions;
	return join("\n", $checker->_check($checker->{clients}{node}));
}

# The content of a file, as a client left it.
sub verdict_of_text
{
	my ($text) = @_;
	my $checker =
	  IdChecker->new(PostgreSQL::Test::Utils::tempdir() . '/' . ++$round);

	append_to_file($checker->session('node'), $text);
	return join("\n", $checker->_check($checker->{clients}{node}));
}

is(verdict([ 1, 5, 9 ], [ 2, 10, 9223372036854775807 ]),
	'6', 'IDs of two sessions, of any length');
is(verdict([ 1, 5, 9 ], [ 2, 5 ]), "5\nID 5 is there twice",
	'one ID in two sessions');
is(verdict([100], [ 2, 3 ], [100]), "4\nID 100 is there twice",
	'not next to each other');
like(verdict([ 1, 5, 5 ]), qr/line 3: 5 follows 5/, 'one ID in one session');
like(verdict([ 1, 5, 4 ]), qr/line 3: 4 follows 5/, 'a session that descends');
is(verdict_of_text("1\n5\n"), '2', 'a file');
is(verdict_of_text("1\n5\n12"), '2', 'the last line is cut short');
like(verdict_of_text("1\n\n12\n"), qr/line 2 is no ID/, 'an empty line');
like(verdict_of_text("1\nERROR\n12\n"), qr/line 2 is no ID: ERROR/,
	'a line that is no ID');
is(verdict_of_text("1\nERR"), '1', 'unless it is cut short');

done_testing();
