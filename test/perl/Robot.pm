# A robot that types what remedies say, and does not think: from the text of an error, or of
# snowflake_status(), it takes the first thing that can be typed, types it as the role that
# the text names, and tries again what had failed. If that fails in the same words, it types
# the next thing.
#
# Things that can be typed are lines of settings, statements of SQL up to their ";", and
# commands of a shell. The robot restarts or reloads the server if the text says so. It
# knows nothing that the text does not say, but for what the test gives it by name in place
# of words in capitals, as a person would. What people do with their hands, such as to set a
# clock right, the test does when the robot comes to these words.
#
# A test names the remedies that are typed, by words of theirs, after "types": test/remedies
# counts these.
package Robot;

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Utils;
use SnowflakeTest;
use Test::More;
use Exporter 'import';

our @EXPORT = qw(follow_remedies hint_of remedy_of things_in longest_remedy);


# The most words that a remedy may have, without the statement that moves rows: test/remedies.
my $most_words = 60;
my $rounds = 10;
my $longest = '';

# Return the HINT of what psql has printed on its standard error; the last one counts.
sub hint_of
{
	my ($err) = @_;
	my ($hint) = $err =~ /.*^HINT:  (.*?)(?=\n(?:[A-Z]+:  |psql:)|\s*\z)/ms;

	return $hint // '';
}

# Return the remedy of a check.
sub remedy_of
{
	my ($node, $check, %options) = @_;

	return query($node, "SELECT remedy FROM snowflake_status() WHERE check_name = '$check'", %options);
}

# Return the longest remedy that was met.
sub longest_remedy
{
	return $longest;
}

# Find what can be typed, in order: each as [kind, text, what stands before it,
# what stands between it and the thing before].
sub things_in
{
	my ($text) = @_;
	my $quoted = qr/(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|[^;'"])/;
	my $setting = qr/\b(?:snowflake\.\w+|shared_preload_libraries|max_\w+) = (?:'[^'\n]*'|\w+)(?!\))/;
	my @things;
	my $end = 0;

	while ($text =~ /(?<setting>$setting(?:\n$setting)*)
		|(?<sql>\bBEGIN;.*?\bCOMMIT;)
		|(?<sql>\b(?!ALTER[ ]SYSTEM[ ]has)(?:SELECT|ALTER|DROP|CREATE|REVOKE|GRANT|COMMIT|ROLLBACK|UPDATE|SHOW|SET|REINDEX|CALL|COMMENT)[ ]$quoted+;)
		|(?<argument>^-c[ ][^\n]+)
		|(?<psql>\\password[ ](?:\w+|"(?:[^"]|"")*"))
		|(?<shell>\bkill[ ]-\w+[ ]\d+)
		|(?<shell>\bexport[ ]ETCDCTL_[^;]+;(?:[ ]etcdctl[ ][^;\n]+(?:;|$))+)
		|"(?<shell>(?:openssl|etcdctl|zkCli\.sh|psql|pg_ctl|ls|lslocks|chown)[ ](?:[^"]|"[^" ]*")*)"/gxms)
	{
		my ($kind) = keys %+;

		my ($typed, $before, $between) = ($+{$kind}, substr($text, 0, $-[0]), substr($text, $end, $-[0] - $end));

		$end = $+[0];
		# statements that follow each other are typed together
		if ($kind eq 'sql' && $between =~ /^\s*$/ && @things && $things[-1][0] eq 'sql') { $things[-1][1] .= $between . $typed }
		else { push @things, [ $kind, $typed, $before, $between ] }
	}
	return @things;
}

# Return the things that can be typed, and those that hands do, in the order of the text.
sub steps_in
{
	my ($text, $how) = @_;
	my $only = $how->{only} // qr/^/;
	my @steps = grep { $_->[1] =~ $only && can_be_typed($_, $how->{given}) } things_in($text);
	my @hands = @{ $how->{hands} // [] };

	while (my ($words, $do) = splice(@hands, 0, 2))
	{
		push @steps, [ 'hand', $do, substr($text, 0, $-[0]), '', $& ] if $text =~ $words;
	}
	return sort { length $a->[2] <=> length $b->[2] } @steps;
}

# Put in what only a person can know.
sub fill_in
{
	my ($text, $given) = @_;

	foreach my $name (sort { length $b <=> length $a } keys %$given)
	{
		# a column can be named so
		my $no = $name eq 'ID' ? q{|'::(?:pg_catalog\.)?name} : '';
		my $what = qr/(?<![\w.])\Q$name\E(?!\w$no)/;

		next if $text !~ $what;
		my $value = ref $given->{$name} ? $given->{$name}->() : $given->{$name};
		$text =~ s/$what/$value/g;
	}
	return $text;
}

# Return the role that a text names last: the superuser, or the owner of the tables.
sub role_of
{
	my ($before, $default) = @_;
	my ($named) = $before =~ /.*\b(superuser|administrator|owner of the database|owner of|its owner|their owner)/s;

	return $default if !defined $named;
	return $named =~ /owner(?! of the database)/ ? 'owner' : 'super';
}

sub restart
{
	my ($how) = @_;

	$how->{restart} ? $how->{restart}->() : $how->{node}->restart;
	return;
}

# Type one thing. Return whether it worked, its output, and its errors.
sub type_thing
{
	my ($how, $thing, $text) = @_;
	my ($kind, $typed, $before, $between, $words) = @$thing;

	if ($kind eq 'hand')
	{
		$typed->($words);
		return (1, '', '', "by hand: $words");
	}
	my $in_registry = $how->{registry} &&
	  $before =~ /\b[Ii]n (?:the registry|(?:its )?database (?:"[^"]*"|\S+) of the registry|its database)\b(?!.*\b(?:here|this server)\b)/s;
	my $node = $in_registry ? $how->{registry} : $how->{node};
	my $role = $in_registry ? 'super' : role_of($before, $how->{as});

	$typed = fill_in($typed, $how->{given});
	if ($kind eq 'setting')
	{
		$node->append_conf('postgresql.conf', $typed);
		if ($text =~ /\brestart/ || !-e $node->data_dir . '/postmaster.pid') { restart($how) }
		else { $node->reload }
		return (1, '', '', "$typed (and a " . ($text =~ /\brestart/ ? 'restart' : 'reload') . ')');
	}
	if ($kind eq 'argument')
	{
		$how->{arguments}->($typed);
		return (1, '', '', "on the command line: $typed");
	}
	if ($kind eq 'psql')
	{
		# which asks for the password
		my ($who) = $typed =~ /^\\password (.*)/s;
		$typed = "ALTER ROLE $who PASSWORD '$how->{given}{PASSWORD}';";
	}
	if ($kind eq 'shell')
	{
		# each command may ask for a password, and may have it confirmed
		# a file, since a pipe breaks if the command ends without a look at it
		my $in = PostgreSQL::Test::Utils::tempdir_short() . '/in';
		my $line = ($how->{given}{PASSWORD} // '') . "\n";
		append_to_file($in, $line x 9);
		my ($said, $err) = ('', '');
		local @ENV{qw(ETCDCTL_API ETCDCTL_DIAL_TIMEOUT ETCDCTL_COMMAND_TIMEOUT)} = (3, '60s', '60s');
		my $status = IPC::Run::run([ 'bash', '-c', $typed ], '<', $in, '>', \$said, '2>', \$err,
			init => sub { chdir $node->data_dir if $text =~ /\bIn the data directory, run / });
		return ($status, $said, $err, $typed);
	}
	# "restart this server, and see"
	restart($how) if $kind eq 'sql' && $typed !~ /^ALTER SYSTEM/ && $between =~ /\brestart (?:this|the) server, and/;
	my @user = $role eq 'owner' && $how->{owner} ? ('-U', $how->{owner}) : ();
	my $database = $typed =~ /^CREATE DATABASE / ? 'postgres' : $in_registry ? database_in_registry($how, $before) : $how->{database} // 'postgres';
	local $ENV{PGOPTIONS} = '-c statement_timeout=10s';
	my ($status, $out, $err) = $node->psql($database, $typed, extra_params => [@user]);

	# what is set in a session is to stay
	${ $how->{session} } .= "$typed " if $how->{session} && $typed =~ /^SET (?!TRANSACTION)/;

	# so does who is in a hurry
	if ($status != 0 && hint_of($err) =~ /^Use DROP \.\.\. CASCADE/)
	{
		$typed =~ s/;$/ CASCADE;/;
		($status, $out, $err) = $node->psql($database, $typed, extra_params => [@user]);
	}

	restart($how) if $status == 0 && $typed =~ /^ALTER SYSTEM/ && $text =~ /\brestart/;
	return ($status == 0, $out, $err, ($in_registry ? 'registry' : $role) . ": $typed");
}

# Return the database of the registry that a text names last, also by making it.
sub database_in_registry
{
	my ($how, $before) = @_;
	my ($named) = $before =~ /.*\b(?:[Ii]n (?:its )?database|CREATE DATABASE) ("(?:[^"]|"")*"|\w+)/s;

	return $how->{registry_database} // 'postgres' if !defined $named;
	return $named =~ s/^"(.*)"$/$1/sr =~ s/""/"/gr;
}

sub in_words
{
	my ($text) = @_;

	return $text =~ s/\d+/N/gr;
}

# Count the words of a remedy, without the statement that is made for one table.
sub count_words
{
	my ($text) = @_;

	return scalar(() = $text =~ s/\bBEGIN;.*?\bCOMMIT;//sr =~ /\S+/g);
}

# Check the length of a text, and that it asks for no query over catalogs.
sub check_text
{
	my ($name, $text) = @_;
	my $words = count_words($text);

	$longest = $text if count_words($longest) < $words;
	cmp_ok($words, '<=', $most_words, "$name: a remedy of $words words") or diag($text);
	unlike($text, qr/\bpg_(?:class|locks|stat_activity|attrdef|settings)\b|\byour_table\b/, '... that asks for no query over catalogs');
	return;
}

# Return true if nothing stands in it that only a person can know, and the test has not given.
sub can_be_typed
{
	my ($thing, $given) = @_;

	return fill_in($thing->[1], $given) !~ /'(?:(?:LAYOUT|TIME|NUMBER|PASSWORD)'|ID'::bigint|TABLE'::(?:pg_catalog\.)?regclass|COLUMN'::(?:pg_catalog\.)?name)|\b(?:ID|SLOT)::|\b(?:TABLE|SEQUENCE) NAME\b|"NAME"|COLUMN KEY\b/;
}

# Try until it works. What is tried is a function that returns an empty text, or the remedy
# of what fails. Return the things that were typed. Options:
#
#	node		the server on which things are typed
#	name		of the test
#	says		what must stand in what the robot reads
#	types		words of the remedies that the robot must have followed, of each remedy
#			words that no other one has, with ^ or $ at its begin or end; after "FILE: "
#			words of a remedy in that file; %s and %lld stand for what is put in
#	hands		pairs of a pattern, and a function that does what a person does at these
#			words
#	as		'super' or 'owner': who types what names no role
#	owner		the role that owns the tables
#	given		what stands for words in capitals
#	registry	the server of the registry
#	registry_database	its database, if a text names none
#	only		a pattern of what is typed, where a text has one thing for each case
#	session		where to put what is set for a session
#	restart		a function that restarts the server in its own way
#	arguments	a function that restarts the server with more on its command line
sub follow_remedies
{
	my ($try, %how) = @_;
	my (%typed, @log, @followed, $wrong);

	$how{as} //= 'super';
	$how{given} //= {};
	my $text = $try->();
	ok($text ne '', "$how{name}: there is a remedy") or return;
	foreach my $round (1 .. $rounds)
	{
		my $key = in_words($text);

		if (!$typed{$key})
		{
			check_text($how{name}, $text);
			push @log, "read: $text";
		}
		my $thing = (steps_in($text, \%how))[ $typed{$key}++ // 0 ];

		if (!$thing) { $wrong = "nothing more can be typed of: $text"; last }
		push @followed, $text =~ s/\s+/ /gr;
		my ($worked, $out, $err, $log) = type_thing(\%how, $thing, $text);
		my $next = $worked ? '' : hint_of($err);

		push @log, $log . ($worked ? '' : " -> $err") . ($out ne '' ? " -> $out" : '');
		# what hands do is not all that the text says
		next if $thing->[0] eq 'hand' && (steps_in($text, \%how))[ $typed{$key} ];
		if ($worked && "$thing->[2]$thing->[1]" =~ /see the remedy of the check "([\w ]+)": SELECT \* FROM \S+$/)
		{
			$next = remedy_of($how{node}, $1);
		}
		elsif ($worked && $thing->[1] =~ /\bsnowflake_(?:recover|reset_mark|renumber)\b/)
		{
			# rows of these say what is to be typed next, which may have such rows, too
			my @rows = split /\n/, $out;

			while (defined(my $row = shift @rows))
			{
				$row =~ s/.*\|//;
				check_text("$how{name}, what comes next", $row) if things_in($row);
				foreach my $more (grep { can_be_typed($_, $how{given}) } things_in($row))
				{
					my ($did, $rows, $failed, $typed) = type_thing(\%how, $more, $row);

					# its HINT first, and then again
					foreach my $first ($did ? () : things_in(hint_of($failed)))
					{
						push @log, (type_thing({ %how, given => {} }, $first, hint_of($failed)))[3];
						($did, $rows, $failed, $typed) = type_thing(\%how, $more, $row);
					}
					push @log, $typed . ($failed ne '' ? " -> $failed" : ''), $rows;
					push @followed, $row;
					push @rows, split /\n/, $rows if $typed =~ /\bsnowflake_reset_mark\b/;
					# after that, the same call can do more
					delete $typed{$key};
				}
			}
		}
		$text = $next ne '' && !$typed{ in_words($next) } ? $next : $try->();
		last if $text eq '';
	}
	$wrong //= "still: $text" if $text ne '';
	ok(!defined $wrong, "$how{name}: what is typed helps") or diag(join("\n", @log, $wrong));
	like(join("\n", @log), $how{says}, "$how{name}: what it reads") if $how{says};
	foreach my $words (ref $how{types} ? @{ $how{types} } : $how{types} // ())
	{
		my $piece = quotemeta($words =~ s/^\w+\.\w+: //r) =~ s/^\\\^/^/r =~ s/\\\$$/\$/r =~ s/\\%(?:s|lld)/.*/gr;
		ok((grep { /$piece/ } @followed), "$how{name}: it has typed what says \"$words\"")
		  or diag(join("\n", @log));
	}
	note(join("\n", @log));
	return @log;
}

1;
