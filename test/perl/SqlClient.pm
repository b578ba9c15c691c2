# Runs what a test gives to psql(), safe_psql() and poll_query_until() of
# PostgreSQL::Test::Cluster without psql: over the server's socket, with the results, errors
# and exit statuses that psql has. A test calls them hundreds of times, and where a fork is
# slow, most of the suite's time went into starting psql. Each call still has a session of
# its own.
#
# What only psql can do, psql does: commands with a backslash, variables, COPY from standard
# input, options other than -U and VERBOSITY, time limits, passwords, TCP.
# t/harness/sql_client.pl compares the two. The protocol:
# https://www.postgresql.org/docs/current/protocol.html
package SqlClient;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# How many calls were not for psql.
our $calls = 0;

my ($psql, $poll);
my $LOST = "server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally\n"
  . "\tbefore or while processing the request.\n";

# Take the place of the three functions.
sub install
{
	return if $psql;
	$psql = PostgreSQL::Test::Cluster->can('psql');
	$poll = PostgreSQL::Test::Cluster->can('poll_query_until');
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::psql = \&psql;
	*PostgreSQL::Test::Cluster::poll_query_until = \&poll_query_until;
	return;
}

# Run SQL: see psql() of PostgreSQL::Test::Cluster.
sub psql
{
	my ($node, $database, $sql, %how) = @_;
	my ($user, $verbose) = options_of(%how);
	my $socket = defined $user && is_plain($sql) ? begin($node, $database, $user, \my $notices) : undef;

	return $psql->($node, $database, $sql, %how) if !defined $socket;
	$calls++;
	my ($status, $out, $err) = $socket ? run($socket, $sql, $how{on_error_stop} // 1, $verbose) : (2, '', '');

	$err = $notices . $err;
	chomp($out, $err);
	if (wantarray || $how{stdout}) { ${ $how{stdout} } = $out if $how{stdout} }
	else { print STDOUT "$out\n" if $out ne '' }
	if (wantarray || $how{stderr}) { ${ $how{stderr} } = $err if $how{stderr} }
	else { print STDERR "$err\n" if $err ne '' }
	if ($status && $how{on_error_die})
	{
		die(($status == 2 ? "connection error: '$err'" : "error running SQL: '$err'") . "\nwhile running it on " . $node->name . " with sql '$sql'");
	}
	return wantarray ? ($status, $out, $err) : $status;
}

# Run a query until it has this result: see poll_query_until() of PostgreSQL::Test::Cluster.
sub poll_query_until
{
	my ($node, $database, $query, $expected, @more) = @_;
	my ($status, $out, $err);

	return $poll->(@_) if @more || !defined $query || $query !~ /^\s*(?:SELECT|WITH|TABLE|VALUES)\b/i;
	$expected //= 't';
	my $until = time + 2 * $PostgreSQL::Test::Utils::timeout_default;

	while (time < $until)
	{
		($status, $out, $err) = $node->psql($database, $query, on_error_stop => 0);
		return 1 if $out eq $expected && $err eq '';
		usleep(100_000);
	}
	diag("poll_query_until timed out executing this query:\n$query\nexpecting this output:\n$expected\nlast actual query output:\n$out\nwith stderr:\n$err");
	return 0;
}

# ---- what psql must do itself ----

# Return the user's name, and whether errors are verbose; or nothing, if there are other
# options.
sub options_of
{
	my (%how) = @_;
	my @more = @{ delete $how{extra_params} // [] };
	my ($user, $verbose) = ($ENV{PGUSER} // scalar getpwuid($<), 0);

	delete @how{qw(stdout stderr on_error_stop on_error_die)};
	return if %how || grep { /^PG[A-Z]+$/ && !/^PG(?:APPNAME|OPTIONS|USER|HOST|PORT|DATABASE|PASSWORD|DATA|CTLTIMEOUT)$/ } keys %ENV;
	while (my $option = shift @more)
	{
		my $value = shift @more // '';

		if ($option eq '-U') { $user = $value }
		elsif ($option eq '-v' && $value eq 'VERBOSITY=verbose') { $verbose = 1 }
		else { return }
	}
	return ($user, $verbose);
}

# Return true if psql would send this as it stands.
sub is_plain
{
	my ($sql) = @_;

	return defined $sql && $sql !~ /[\\\0]|(?<!:):[{'"?]*[A-Z_]{4}/ && $sql !~ /\bstd(?:in|out)\b|\bBEGIN\s+ATOMIC\b|\bLISTEN\b/i;
}

# ---- the protocol ----

sub put
{
	my ($socket, $type, $body) = @_;
	my $message = $type . pack('N', length($body) + 4) . $body;

	while ($message ne '')
	{
		my $n = syswrite($socket, $message) // ($!{EINTR} ? 0 : return 0);
		substr($message, 0, $n, '');
	}
	return 1;
}

# Return the next message as its type and its body, or nothing after the last one.
sub get
{
	my ($socket) = @_;
	my $head = read_bytes($socket, 5) // return;
	my ($type, $length) = unpack('a N', $head);
	my $body = read_bytes($socket, $length - 4) // return;

	return ($type, $body);
}

my %buffer;

sub read_bytes
{
	my ($socket, $n) = @_;
	my $have = \$buffer{ fileno $socket };

	$$have //= '';
	while (length $$have < $n)
	{
		my $got = sysread($socket, $$have, 65536, length $$have);

		next if !defined $got && $!{EINTR};
		return if !$got;
	}
	return substr($$have, 0, $n, '');
}

# Begin a session, and return its socket; or 0 if it fails, and nothing if a password is
# asked for. Set the notices of the begin, or the error.
sub begin
{
	my ($node, $database, $user, $notices) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	my $failed = sub { $$notices .= qq{psql: error: connection to server on socket "$path" failed: $_[0]}; return 0 };

	return if $node->host !~ m{^/};
	$$notices = '';
	local $SIG{PIPE} = 'IGNORE';
	my $socket = IO::Socket::UNIX->new(Peer => $path)
	  // return $failed->("$!\n\tIs the server running locally and accepting connections on that socket?\n");
	my %start = (user => $user, database => $database, application_name => $ENV{PGAPPNAME} // 'psql');

	$start{options} = $ENV{PGOPTIONS} if defined $ENV{PGOPTIONS};
	utf8::encode($_) foreach grep { utf8::is_utf8($_) } values %start;
	delete $buffer{ fileno $socket };
	put($socket, '', pack('N', 3 << 16) . join('', map { "$_\0$start{$_}\0" } sort keys %start) . "\0");
	while (my ($type, $body) = get($socket))
	{
		return $socket if $type eq 'Z';
		return $failed->(message($body, '', 0, 1)) if $type eq 'E';
		return if $type eq 'R' && unpack('N', $body) != 0;
		$$notices .= message($body, '', 0) if $type eq 'N';
	}
	return $failed->($LOST);
}

# End a session, and wait until the server has ended it, or is stopped.
sub end
{
	my ($socket) = @_;

	put($socket, 'X', '');
	IO::Select->new($socket)->can_read(5);
	return;
}

# ---- statements ----

# Split SQL as psql does: return the statements, each with the number of its last line.
sub statements
{
	my ($sql) = @_;
	my ($line, $depth, $text, $comments, $is_sent) = (1, 0, '', 0, 0);
	my @statements;
	my $end = sub {
		push @statements, [ $text =~ s/^\s+//r, $line ] if $is_sent;
		($text, $is_sent) = ('', 0);
	};

	# a text with '' in it is two texts here, which splits as well
	while ($sql =~ m{\G(
		/\* | \*/ | '[^']*(?:'|\z) | "[^"]*(?:"|\z) | --[^\n]*
		| \$(?<tag>(?:[A-Za-z_\x80-\xff][A-Za-z_0-9\x80-\xff]*)?)\$.*?(?:\$\k<tag>\$|\z)
		| [A-Za-z_\x80-\xff][A-Za-z_0-9\$\x80-\xff]* | \s+ | . )}gxs)
	{
		my $token = $1;

		if ($comments && $token !~ m{^(?:/\*|\*/)$})
		{
			# what looks like a text may end behind the comment
			$token = substr($token, 0, 1);
			pos($sql) = $-[0] + 1;
		}
		$comments++ if $token eq '/*';
		$comments-- if $token eq '*/' && $comments > 0;
		$text .= $token;
		$line += $token =~ tr/\n//;
		$is_sent = 1 if $token !~ /^(?:\s|--|;$)/ || $comments;
		next if $comments;
		$depth++ if $token eq '(';
		$depth-- if $token eq ')' && $depth > 0;
		$end->() if $token eq ';' && $depth == 0;
	}
	$line-- if $sql =~ /\n\z/;
	$end->();
	return @statements;
}

# Run statements one by one. Return an exit status, output and errors of psql.
sub run
{
	my ($socket, $sql, $stop, $verbose) = @_;
	my ($status, $out, $err) = (0, '', '');
	local $SIG{PIPE} = 'IGNORE';

	utf8::encode($sql) if !utf8::downgrade($sql, 1);
	foreach my $statement (statements($sql))
	{
		my ($text, $line) = @$statement;
		my ($failed, $ready, $rows) = (0, 0, '');

		put($socket, 'Q', "$text\0");
		while (my ($type, $body) = get($socket))
		{
			if ($type eq 'D') { $rows .= row($body) }
			elsif ($type eq 'C') { $out .= $rows; $rows = '' }
			elsif ($type =~ /[EN]/)
			{
				$err .= "psql:<stdin>:$line: " . message($body, $text, $verbose, $type eq 'E');
				# rows before an error are not printed
				($failed, $rows) = (1, '') if $type eq 'E';
			}
			elsif ($type eq 'Z') { $ready = 1; last }
		}
		if (!$ready)
		{
			$err .= "psql:<stdin>:$line: ${LOST}psql:<stdin>:$line: error: connection to server was lost\n";
			return (2, $out, $err);
		}
		if ($failed && $stop) { $status = 3; last }
	}
	end($socket);
	return ($status, $out, $err);
}

# Return a row as psql prints it.
sub row
{
	my ($body) = @_;
	my $n = unpack('n', $body);
	my ($at, @values) = (2);

	foreach (1 .. $n)
	{
		my $length = unpack('l>', substr($body, $at, 4));

		$at += 4;
		push @values, $length < 0 ? '' : substr($body, $at, $length);
		$at += $length if $length > 0;
	}
	return $n ? join('|', @values) . "\n" : '';
}

# Return the text of an error or a notice as libpq makes it, in whole lines.
sub message
{
	my ($body, $sql, $verbose, $is_error) = @_;
	my %field = map { /\A(.)(.*)\z/s ? ($1 => $2) : () } split /\0/, $body;
	my $text = "$field{S}:  " . ($verbose ? "$field{C}: " : '') . "$field{M}\n";
	my ($query, $position) = defined $field{P} ? ($sql, $field{P}) : ($field{q}, $field{p});

	$text .= position($query, $position) if defined $query && defined $position;
	$text .= "DETAIL:  $field{D}\n" if defined $field{D};
	$text .= "HINT:  $field{H}\n" if defined $field{H};
	$text .= "QUERY:  $field{q}\n" if defined $field{q};
	$text .= "CONTEXT:  $field{W}\n" if defined $field{W} && $is_error;
	return $text if !$verbose;
	foreach (['SCHEMA', 's'], ['TABLE', 't'], ['COLUMN', 'c'], ['DATATYPE', 'd'], ['CONSTRAINT', 'n'])
	{
		$text .= "$_->[0] NAME:  $field{ $_->[1] }\n" if defined $field{ $_->[1] };
	}
	return $text . (defined $field{F} ? "LOCATION:  $field{R}, $field{F}:$field{L}\n" : '');
}

# Return the line of a query in which an error is, and a line that points to it. Unlike
# libpq, do not shorten it.
sub position
{
	my ($query, $position) = @_;

	my $has_letters = utf8::decode($query);
	my $before = substr($query, 0, $position - 1);
	my ($line) = $before =~ /([^\n]*)\z/;
	my ($rest) = substr($query, $position - 1) =~ /\A([^\n]*)/;
	my $head = 'LINE ' . (1 + ($before =~ tr/\n//)) . ': ';
	my $text = $head . ($line . $rest) =~ tr/\t/ /r . "\n" . ' ' x length($head . $line) . "^\n";

	utf8::encode($text) if $has_letters;
	return $text;
}

1;
