# The commands of the documentation. Each page has a server of its own, on which its
# blocks of SQL, shell and configuration run in the order of the page. HTML comments
# before a block, which readers do not see, say how to run the block:
#
#	<!-- not run: why -->		not run; the test lists it with the reason
#	<!-- run by: test/x -->		run by this test (or two tests), which has its words
#	<!-- fails: 55000 -->		must fail with this SQLSTATE
#	<!-- first: SQL; -->		runs this SQL first
#	<!-- $1 = 7 -->			the value that a driver would give for a parameter
#	<!-- new database -->		this block and those after it run in a new database
#	<!-- needs: extension -->	not run if the server cannot create the extension
#	<!-- server: b -->		runs on the server b, and not on the page's ("main")
#	<!-- output -->			shows what the block before prints
#	<!-- output: shape -->		the same, but numbers may differ, and … stands for anything
#	<!-- inline: SQL; -->		runs this SQL before the queries within the text
#
# A database has the extension, unless its first block creates it. Blocks share a
# session of psql. A new session begins at a block of configuration (which restarts the
# server), in a new database, and on another server. In SQL and configuration, the name
# b.example stands for the server b, and host 'b.example' also for its port. Queries in
# backquotes within the text run too.
#
# takes: 60 s
use SnowflakeTest;

my @pages = @ARGV ? @ARGV : map { substr($_, length("$root/")) }
  ("$root/README.md", sort(glob("$root/{doc,examples,examples/*}/*.md")),
	"$root/CONTRIBUTING.md");

my $MARKERS = qr/not run|run by|fails|first|\$\d|new database|needs|server|output|inline/;
my $LOOKS_RUN = qr/^[ \t]*(?:[\$#] |(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER
	|DROP|BEGIN|COMMIT|GRANT|REVOKE|WITH|EXPLAIN|COPY|VACUUM|SET)\b
	|(?:sudo|make|psql|apt|apt-get|createdb|pg_\w+|test\/\w+|etcdctl)[ ]
	|\w+[ ]+=[ ]|\w+\.\w+[ ]*=)/mx;
my (@left_out, $run);

# ---- pages ----

# Return a page's blocks, each with its place in the page and what its comments say.
sub blocks_of
{
	my ($page) = @_;
	my (@blocks, @comments, $block, $indent, $fence, $comment);
	my ($n, $prose, $inline) = (0, '', '');

	foreach my $line (split /\n/, slurp_file("$root/$page"))
	{
		$n++;
		if ($block)
		{
			if ($line =~ /^\s*\Q$fence\E\s*$/)
			{
				push @blocks, $block;
				undef $block;
				next;
			}
			$line =~ s/^ {0,$indent}//;
			$block->{text} .= "$line\n";
		}
		elsif (defined $comment || $line =~ /^\s*<!--/)
		{
			$comment .= "$line\n";
			next unless $line =~ /-->\s*$/;
			$comment =~ s/^\s*<!--\s*|\s*-->\s*$//g;
			if ($comment =~ /^inline:(.*)/s) { $inline .= $1 }
			else { push @comments, $comment }
			undef $comment;
		}
		elsif ($line =~ /^(\s*)(`{3,}|~{3,})\s*(\S*)/)
		{
			($indent, $fence) = (length $1, $2);
			$block = { language => $3, line => $n, text => '', where => "$page:$n", says => {} };
			foreach (@comments)
			{
				my ($key, $value) = /^($MARKERS)(?:\s*[:=]\s*(.*))?$/s;
				if (defined $key) { $block->{says}{$key} = $value // '' }
				else { fail("$page:$n: this is no marker: $_") }
			}
			@comments = ();
		}
		elsif ($line =~ /\S/)
		{
			foreach (grep { /^$MARKERS\b/ } @comments)
			{
				fail("$page:$n: this marker stands before no block: $_");
			}
			@comments = ();
		}
		$prose .= "$line\n" unless $block;
	}
	ok(!$block && !defined $comment, "$page: blocks and comments end");
	return (\@blocks, inline_of($page, $prose, $inline));
}

# Return the queries in backquotes as blocks. Each of them is rolled back.
sub inline_of
{
	my ($page, $prose, $first) = @_;
	my @blocks;

	while ($prose =~ /`(SELECT\s[^`]+)`/g)
	{
		(my $query = $1) =~ s/\s+/ /g;

		next if $query =~ /\.\.\./;
		$query .= ';' unless $query =~ /;$|\\g/;
		push @blocks, { language => 'sql', text => "$query\n", where => "$page, `$query`",
			says => { first => 'BEGIN;', last => 'ROLLBACK;' } };
	}
	$blocks[0]{says}{first} = "$first\nBEGIN;" if @blocks;
	return \@blocks;
}

# Put aside blocks that are not run here. Attach each block of output to the block that
# prints it.
sub sort_out
{
	my (@blocks) = @_;
	my (@commands, $last);

	foreach my $block (@blocks)
	{
		my ($says, $where, $language) = @{$block}{qw(says where language)};

		if (defined $says->{output})
		{
			ok($last, "$where: output belongs to a block that is run")
			  and $last->{output} = $block;
		}
		elsif ($language eq '')
		{
			unlike($block->{text}, $LOOKS_RUN,
				"$where: a block without a language is no command");
		}
		elsif ($language !~ /^(sql|sh|conf)$/ && !exists $says->{'not run'}
			&& !exists $says->{'run by'})
		{
			fail("$where: a block of $language is run by another test, which it names");
		}
		else
		{
			push @commands, $block;
		}
		$last =
		  $language =~ /^(sql|sh)$/ && !exists $says->{'not run'}
		  && !exists $says->{'run by'} ? $block : undef;
	}
	return @commands;
}

# Return the words of a block that another test must contain if it claims to run the
# block: the extension's names, the statements, the scripts, and the commands and functions
# of shell and JavaScript.
sub words_of
{
	my ($block) = @_;
	my %words = map { $_ => 1 } $block->{text} =~ /\b(snowflake[._]\w+)/g;

	$words{$_} = 1 foreach grep { defined } $block->{language} eq 'sh'
	  ? $block->{text} =~ /^(?!cd )(?:\w+=\S+ )*([\w.\/-]+)(?!=)\b/mg
	  : $block->{text} =~ /^([A-Z]+ [A-Z]+)\b|^\\i (\S+)|\b([a-z]+[A-Z]\w*)\(/mg;
	return sort keys %words;
}

# Return true if the block is not run here, and print why.
sub is_left_out
{
	my ($page, $block) = @_;
	my ($says, $where) = @{$block}{qw(says where)};

	if (defined(my $why = $says->{'not run'}))
	{
		ok($why ne '', "$where: not run, for a reason");
		push @left_out, "$where: $why";
		return 1;
	}
	return 0 unless defined(my $by = $says->{'run by'});
	my $test = join '', map { -f "$root/$_" ? slurp_file("$root/$_") : '' } split /, /, $by;
	my @missing = grep { index($test, $_) < 0 } words_of($block);
	ok($test ne '' && ($test =~ /\Q$page\E/ || !@missing),
		"$where: $by runs it")
	  or diag("$by does not have: @missing");
	push @left_out, "$where: run by $by";
	return 1;
}

# Check that the Makefile has every target that the page tells make to build.
sub check_targets
{
	my ($page, @blocks) = @_;
	my %targets = map { $_ => 1 } qw(clean install installcheck uninstall),
	  slurp_file("$root/Makefile") =~ /^([a-z]+):/mg;
	my @texts = (slurp_file("$root/$page") =~ /`([^`\n]+)`/g,
		map { split /\n/, $_->{text} } grep { $_->{language} eq 'sh' } @blocks);
	my @told = map { grep { /^[a-z]+$/ } split }
	  map { /(?:^|\bsudo |^\w+=\S+ )make((?: [\w=\/]+)+)/g } @texts;

	is_deeply([ grep { !$targets{$_} } @told ],
		[], "$page: make knows its " . @told . ' targets');
	return;
}

# ---- servers ----

my (%servers, %database, $nservers, $ndatabases);

sub server
{
	my ($page, $name) = @_;

	if (!$servers{$name})
	{
		$servers{$name} =
		  new_server("page" . ++$nservers . "_$name", 'wal_level = logical',
			'max_prepared_transactions = 5');
		$servers{$name}->start;
	}
	return $servers{$name};
}

# Replace the names of other hosts by addresses on this machine.
sub with_addresses
{
	my ($page, $text) = @_;

	$text =~ s{(host ')?\b(\w+)\.example\b}{
		my $s = $servers{$2} or die "$page: there is no server $2";
		my $host = $s->host;
		defined $1 ? "$1$host', port '" . $s->port : $host =~ s{/}{%2F}gr . ':' . $s->port }ge;
	return $text;
}

# Write the block into the configuration, and restart the server.
sub configure
{
	my ($page, $block, $node) = @_;
	my $where = $block->{where};
	my %is = map { $_ => 1 } $block->{text} =~ /^\s*([\w.]+)\s*=/mg;
	my $from = -s $node->logfile;

	$node->append_conf('postgresql.conf', with_addresses($page, $block->{text}));
	$node->stop;
	my $started = $node->start(fail_ok => 1);
	ok($started, "$where: the server takes this configuration")
	  or diag(substr(slurp_file($node->logfile), $from))
	  or return;
	my @wrong = split /\n/, query($node, 'SELECT name, error FROM pg_file_settings WHERE error IS NOT NULL');
	delete $is{$_} foreach split /\n/, query($node,
		"SELECT name FROM pg_settings WHERE source = 'configuration file'");
	is_deeply([ @wrong, sort keys %is ], [], "$where: all of it");
	return;
}

# Return true, and list the block, if it needs an extension that this server lacks.
sub cannot_be_created
{
	my ($node, $block) = @_;
	my $extension = $block->{says}{needs} // return 0;

	return 0 if query($node, 'SELECT count(*) FROM pg_available_extensions'
		  . " WHERE name = '$extension'") eq '1';
	push @left_out, "$block->{where}: this server has no $extension";
	return 1;
}

# Make a database for this block and those after it.
sub new_database
{
	my ($block, $node) = @_;
	my $name = 'postgres';

	if (defined $block->{says}{'new database'})
	{
		$name = 'page' . ++$ndatabases;
		query($node, "CREATE DATABASE $name");
	}
	query($node, 'CREATE EXTENSION snowflake', database => $name)
	  unless $block->{text} =~ /^CREATE EXTENSION snowflake\b/m;
	return $name;
}

# ---- running ----

# Return the commands that run a block. For SQL they include the values of parameters.
# The output and the status of a shell block go to files.
sub commands_of
{
	my ($page, $block, $dir) = @_;
	my ($says, $text) = @{$block}{qw(says text)};

	if ($block->{language} eq 'sh')
	{
		append_to_file("$dir/script", $text);
		append_to_file("$dir/status", '');
		return "\\! cd '$root' && bash -eu '$dir/script' >'$dir/out' 2>'$dir/err' </dev/null; echo \$? >'$dir/status'\n";
	}
	foreach my $parameter (grep { /^\$/ } keys %$says)
	{
		$text =~ s/\Q$parameter\E(?!\d)/$says->{$parameter}/g;
	}
	(my $end = $text) =~ s/--.*$//mg;
	ok($end =~ /(?:;|\\g\w*[^\n]*)\s*$/, "$block->{where}: its last statement ends");
	return with_addresses($page, $text);
}

# Run these blocks in one session of psql, which stops at the first error.
sub run_session
{
	my ($page, $node, $database, @blocks) = @_;
	my $script = '';
	my ($out, $err) = ('', '');

	foreach my $i (0 .. $#blocks)
	{
		my ($block, $says) = ($blocks[$i], $blocks[$i]{says});
		my $dir = PostgreSQL::Test::Utils::tempdir();
		my $first = defined $says->{first} ? with_addresses($page, $says->{first}) : '';

		$block->{dir} = $dir;
		$script .= "\\warn \@\@first $i\n$first\n";
		$script .= "\\set ON_ERROR_STOP off\n" if defined $says->{fails};
		$script .= "\\echo \@\@begin $i\n\\warn \@\@begin $i\n"
		  . commands_of($page, $block, $dir)
		  . "\\echo \@\@end $i\n\\warn \@\@end $i\n\\set ON_ERROR_STOP on\n"
		  . ($says->{last} // '') . "\n";
	}
	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $database;
	IPC::Run::run(
		[ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose' ],
		'<', \$script, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	foreach my $i (0 .. $#blocks)
	{
		my ($before) = $err =~ /^\@\@first $i\n(.*?)(?:^\@\@|\z)/ms;
		my ($errors, $ended) = $err =~ /^\@\@begin $i\n(.*?)(^\@\@end $i\n|\z)/ms;
		my ($printed) = $out =~ /^\@\@begin $i\n(.*?)(?:^\@\@|\z)/ms;

		judge($blocks[$i], $printed // '', $errors // "not reached\n" . ($before // ''), $ended);
	}
	return;
}

sub plain
{
	my ($text, $shape) = @_;

	# the server leaves out a fraction of a second that is 0
	$text =~ s/\d+(?:\.\d+)?/0/g, $text =~ s/-+/-/g, $text =~ s/ +/ /g if $shape;
	$text =~ s/^\(\d+ rows?\)$//mg;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/^\n+|\n+\z//g;
	return "$text\n";
}

# Check what a block printed, and whether it failed as expected.
sub judge
{
	my ($block, $out, $err, $ended) = @_;
	my ($says, $where) = @{$block}{qw(says where)};
	my $is_right = $ended && $err !~ /^(?:psql:.*)?(?:ERROR|FATAL|error|invalid command|\\\w+:)/mi;

	if ($block->{language} eq 'sh')
	{
		my $status = slurp_file("$block->{dir}/status");
		$is_right &&= $status eq "0\n";
		$out = -e "$block->{dir}/out" ? slurp_file("$block->{dir}/out") : '';
		$err .= -e "$block->{dir}/err" ? slurp_file("$block->{dir}/err") : '';
	}
	elsif (defined $says->{fails})
	{
		$is_right = $ended && $err =~ /ERROR:  \Q$says->{fails}\E: /;
	}
	$run++;
	ok($is_right, "$where: $block->{language}"
		  . (defined $says->{fails} ? ", fails with $says->{fails}" : ''))
	  or diag("$block->{text}\nprints:\n$out\nand:\n$err");
	my $shown = $block->{output} or return;
	my $shape = $shown->{says}{output} eq 'shape';
	my $expected = plain($shown->{text}, $shape);
	my $pattern = join '.*', map { quotemeta } split /…/, $expected, -1;
	like(plain($out, $shape), qr/^$pattern\z/s, "$shown->{where}: what it prints")
	  if $shape;
	is(plain($out), $expected, "$shown->{where}: what it prints") unless $shape;
	return;
}

foreach my $page (@pages)
{
	my (@session, $node, $name);
	my $flush = sub {
		run_session($page, $node, $database{$name}, @session) if @session;
		@session = ();
	};

	%servers = %database = ();
	my ($blocks, $inline) = blocks_of($page);
	check_targets($page, @$blocks);
	foreach my $block (sort_out(@$blocks), @$inline)
	{
		my $says = $block->{says};
		my $on = $says->{server} // 'main';

		next if is_left_out($page, $block);
		$flush->() if $block->{language} eq 'conf' || defined $says->{'new database'}
		  || defined $name && $on ne $name;
		$name = $on;
		$node = server($page, $name);
		next if cannot_be_created($node, $block);
		if ($block->{language} eq 'conf')
		{
			configure($page, $block, $node);
			next;
		}
		delete $database{$name} if defined $says->{'new database'};
		$database{$name} //= new_database($block, $node);
		push @session, $block;
	}
	$flush->();
	$_->stop foreach values %servers;
}

# The picture of the layouts shows the extension's presets.
my @shown = slurp_file("$root/doc/pictures/layouts.svg") =~
  /<text>((?:timestamp:\d+)(?: \w+:\d+)*)(?: tick:\w+)? epoch:/g;
my $node = server('', 'layouts');
is_deeply(
	\@shown,
	[
		split /\n/,
		query($node, q{CREATE EXTENSION snowflake;
			SELECT substring(layout FROM '^(.*?)( tick:.*)? epoch:')
			FROM snowflake_layouts() WITH ORDINALITY WHERE NOT configured ORDER BY ordinality})
	],
	'the picture shows the presets');

# The tables of the reference give each setting's context, default, minimum and
# maximum. Values with a unit are compared in milliseconds.
my %ms = (ms => 1, s => 1000, min => 60_000, h => 3_600_000, days => 86_400_000, '' => 1);
my $reference = slurp_file("$root/doc/reference.md");
my %from = (postmaster => 'restart', sighup => 'reload', user => 'session', superuser => 'superuser');
my (%says, %is);

foreach (split /\n/, query($node,
	q{SELECT name, context, vartype, unit, boot_val, min_val, max_val
	FROM pg_settings WHERE name LIKE 'snowflake.%'}))
{
	my ($name, $context, $type, $unit, @values) = split /\|/, $_, -1;

	@values = $type eq 'integer' ? map { $_ * $ms{$unit} } @values : $values[0];
	$is{$name} = join ' ', $from{$context}, @values;
}
while ($reference =~ /^\| `(snowflake\.\w+)` \| (.*?) \| (restart|reload|session|superuser).*? \| (.*) \|$/mg)
{
	my ($name, $default, $from, $meaning) = ($1, $2, $3, $4);

	if ($default =~ /^(\d+)(?: (\w+))?$/)
	{
		my @values = $1 * $ms{ $2 // '' };
		push @values, $1 * $ms{ $2 // $4 // '' }, $3 * $ms{ $4 // '' }
		  if $meaning =~ /\b([\d.]+)(?: (ms|s|min|h))? to ([\d.]+)(?: (ms|s|min|h|days)\b)?/;
		$says{$name} = join ' ', $from, @values;
	}
	else
	{
		$default =~ s/^(?:unset|none|the layout's)$|`//g;
		$says{$name} = "$from $default";
	}
}
is_deeply(\%says, \%is, 'the reference has all settings, with their defaults and ranges');

# The reference names everything that a user may call or read, and no page names
# anything that does not exist.
my @names = split /\n/, query($node, q{
	SELECT DISTINCT coalesce(p.proname, c.relname, n.nspname)
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'snowflake'
		LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
		LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
		LEFT JOIN pg_namespace n ON d.classid = 'pg_namespace'::regclass AND n.oid = d.objid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND coalesce(p.proname, c.relname, n.nspname) IS NOT NULL
		AND p.pronamespace IS DISTINCT FROM 'snowflake_internal'::regnamespace ORDER BY 1});
# internal functions, and those that the reference names by a common prefix
my $INTERNAL = qr/^snowflake_is_ours$|^snowflake_recorded_/;
# names with the prefix that are not the extension's: a role, a table, extensions, libraries,
# functions of the portable version and of pgEdge, a metric, and prefixes of several names
my $OTHERS = qr/^snowflake_(?:status_level|worker|feed|servers|config|portable|set_node|set_shards|close|open|registry|postgresql|etcd|zookeeper|get_epoch|apply_and_log|registry_)$/;
my %there = map { $_ => 1 } @names,
  split /\n/, query($node, q{SELECT prosrc FROM pg_proc WHERE probin = '$libdir/snowflake'});

is_deeply([ grep { !/$INTERNAL/ && $reference !~ /\b\Q$_\E\b/ } @names ],
	[], 'the reference has all functions, views and tables');
foreach my $page (grep { m{^README|^doc/} } @pages)
{
	(my $text = slurp_file("$root/$page")) =~ s/^\s*```.*?^\s*```$//msg;
	my %named = map { $_ => 1 } $text =~ /\b(snowflake_[a-z]\w*)/g;

	is_deeply([ grep { !$there{$_} && !/$OTHERS/ } sort keys %named ],
		[], "$page: what it names is there");
}

ok($run, 'blocks were run: ' . ($run // 0));
diag("LEFT OUT: $_") foreach @left_out;
diag("$run blocks were run, " . @left_out . ' were not');
done_testing();
