# Checker of IDs: collects every ID that a client or a table has, and fails if an ID
# is there twice, or does not ascend.
#
# IDs are kept in files, one for each session and counter, so that there may be
# hundreds of millions. Each client writes what it got before it asks for more. If a
# client is killed, its last line may be incomplete, and does not count.
#
# The guarantee has two halves, each checked by a function of its own:
#
#	clients		no ID reached clients twice. The group says among whom: by
#				default a database, with its copies and successors, and a
#				counter ("node", or "shard"; the shard is in the ID)
#	states		no state of a database holds an ID twice
#
# and, if each server must have a node id of its own, a third:
#
#	holders		no two servers have issued for one node or shard in one tick
package IdChecker;

use strict;
use warnings FATAL => 'all';

use File::Path qw(make_path);
use Test::More;

sub new
{
	my ($class, $dir) = @_;

	make_path($dir);
	return bless {
		dir => $dir, files => 0, clients => {}, states => {}, holders => {}, checked => 0
	}, $class;
}

sub _file
{
	my ($self) = @_;

	return sprintf('%s/%06d', $self->{dir}, ++$self->{files});
}

# Return the name of a file for one session and one counter, of this group, or of
# each in a list. Its lines are IDs in the order in which the session got them.
sub session
{
	my ($self, $groups) = @_;
	my $file = $self->_file;

	push @{ $self->{clients}{$_} }, $file foreach ref $groups ? @$groups : $groups;
	return $file;
}

# Add IDs directly.
sub saw
{
	my ($self, $group, @ids) = @_;
	my $file = $self->session($group);

	open(my $fh, '>', $file) or die "$file: $!";
	print $fh map { "$_\n" } @ids;
	close $fh or die "$file: $!";
	return;
}

# Add all IDs that a query finds in a database, as one state of it. Another state has
# another name.
sub state
{
	my ($self, $name, $node, $database, $sql) = @_;
	my $file = $self->_file;

	system('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
		$node->connstr($database), '-o', $file, '-c',
		"SELECT id FROM ($sql) AS s (id) ORDER BY id") == 0
	  or die "could not read the IDs of $database";
	push @{ $self->{states}{$name} }, $file;
	return;
}

# Do the same for the column "id" of all tables in a database: tables whose names
# begin with "shard" hold IDs of shards, the others the node's.
sub database
{
	my ($self, $name, $node, $database) = @_;

	foreach my $counter ([ 'node', '!~' ], [ 'shard', '~' ])
	{
		my $sql = $node->safe_psql($database, qq{
			SELECT string_agg(format('SELECT id FROM %s', c.oid::regclass), ' UNION ALL ')
			FROM pg_class c
				JOIN pg_namespace n ON n.oid = relnamespace
				JOIN pg_attribute a ON attrelid = c.oid AND attname = 'id'
			WHERE relkind = 'r' AND relpersistence <> 't'
				AND nspname NOT IN ('pg_catalog', 'information_schema')
				AND relname $counter->[1] '^shard'});
		$self->state("$name: $counter->[0]", $node, $database, $sql)
		  if $sql ne '';
	}
	return;
}

# Copy a file of IDs up to its first wrong line, and return that line. Add leading
# zeros, so that the texts sort like numbers.
sub _clean
{
	my ($file, $clean) = @_;
	my $last = -1;
	my $wrong;

	open(my $in, '<', $file) or die "$file: $!";
	open(my $out, '>', $clean) or die "$clean: $!";
	while (my $id = <$in>)
	{
		last if $id !~ /\n\z/;    # cut short
		chomp $id;
		$wrong =
			$id !~ /^\d{1,19}\z/ ? "line $. is no ID: $id"
		  : $id <= $last ? "line $.: $id follows $last"
		  :                "";
		last if $wrong;
		printf $out "%020d\n", $id;
		$last = $id;
	}
	close $out or die "$clean: $!";
	return $wrong ? "$file, $wrong" : ();
}

# Check that each file ascends, that no ID is twice in all of them, and that all are
# above the floor. Raise the floor to the last ID. Return the number of IDs, and the
# error.
sub _check
{
	my ($self, $files, $floor) = @_;
	my $list = "$self->{dir}/list";
	my $previous = $floor && $$floor || '';
	my $n = 0;
	my (@wrong, @clean);

	open(my $fh, '>', $list) or die "$list: $!";
	foreach my $file (grep { -e } @$files)
	{
		push @wrong, _clean($file, "$file.clean");
		push @clean, "$file.clean";
		print $fh "$file.clean\0";
	}
	close $fh or die "$list: $!";
	return (0, @wrong) if !@clean;

	local $ENV{LC_ALL} = 'C';
	open(my $merged, '-|', 'sort', '-m', "--files0-from=$list")
	  or die "sort: $!";
	while (my $id = <$merged>)
	{
		$n++;
		push @wrong, 'ID ' . ($id + 0) . ' is there twice'
		  if $id eq $previous;
		push @wrong, 'ID ' . ($id + 0) . ' is below those before'
		  if $id lt $previous;
		$previous = $id;
	}
	$$floor = $previous if $floor && $previous gt ($$floor // '');
	close $merged or die "sort failed: $?";
	unlink @clean;
	return ($n, @wrong > 5 ? @wrong[ 0 .. 4 ] : @wrong);
}

sub _report
{
	my ($self, $groups, $what, $highest) = @_;

	foreach my $group (sort keys %$groups)
	{
		my ($n, @wrong) =
		  $self->_check($groups->{$group}, $highest ? \$highest->{$group} : ());

		ok($n > 0 && !@wrong, "$group: $what ($n checked)")
		  or diag(@wrong ? join("\n", @wrong) : 'there are no IDs');
		$self->{checked} += $n if $groups == $self->{clients};
	}
	return;
}

# Run one test for each group. If $highest has each group's highest ID before the last
# crash, all IDs must be above it, and it is updated.
sub clients
{
	my ($self, $highest) = @_;

	$self->_report($self->{clients},
		'no ID reached clients twice, each session ascends', $highest);
	return;
}

sub states
{
	my ($self) = @_;

	$self->_report($self->{states}, 'no ID is twice in a state of the database');
	return;
}

# Record that the sessions of these files were a server's. Their IDs are those of its
# node or of a shard.
sub held_by
{
	my ($self, $what, $server, @files) = @_;

	push @{ $self->{holders}{$what}{$server} }, @files;
	return;
}

# Shift IDs right by $bits, and write the results as ascending lines with the server's
# name.
sub _write_ticks
{
	my ($file, $ticks, $bits, $server) = @_;
	my $last = -1;

	open(my $in, '<', $file) or die "$file: $!";
	open(my $out, '>', $ticks) or die "$ticks: $!";
	while (my $id = <$in>)
	{
		last if $id !~ /^\d+\n\z/;    # cut short, or wrong: then clients() says so
		my $tick = $id >> $bits;

		printf $out "%020d %s\n", $tick, $server if $tick != $last;
		$last = $tick;
	}
	close $out or die "$ticks: $!";
	return;
}

# Run one test: no two servers have issued for one node, or one shard, in the same
# tick. The sequence has $bits bits. This is stricter than clients(): two servers' IDs
# in one tick may differ by chance.
sub holders
{
	my ($self, $what, $bits) = @_;
	my $servers = $self->{holders}{$what};
	my $list = "$self->{dir}/list";
	my ($before, $holder) = ('', '');
	my ($n, @wrong, @ticks) = (0);

	foreach my $server (sort keys %$servers)
	{
		foreach my $file (grep { -e } @{ $servers->{$server} })
		{
			push @ticks, "$file.ticks";
			_write_ticks($file, $ticks[-1], $bits, $server);
		}
	}
	open(my $fh, '>', $list) or die "$list: $!";
	print $fh map { "$_\0" } @ticks;
	close $fh or die "$list: $!";

	local $ENV{LC_ALL} = 'C';
	open(my $merged, '-|', 'sort', '-m', "--files0-from=$list") or die "sort: $!";
	while (my $line = <$merged>)
	{
		my ($tick, $server) = split ' ', $line;

		$n++ if $tick ne $before;
		push @wrong, sprintf('%s and %s have both issued IDs from %d on', $holder, $server, $tick << $bits)
		  if $tick eq $before && $server ne $holder && @wrong < 5;
		($before, $holder) = ($tick, $server);
	}
	close $merged or die "sort failed: $?";
	unlink @ticks;
	ok($n > 0 && !@wrong, "no two servers have issued for one $what in one tick ($n checked)")
	  or diag(@wrong ? join("\n", @wrong) : 'there are no IDs');
	return;
}

# Forget all IDs, after they were checked, if their groups get no more.
sub forget
{
	my ($self) = @_;

	unlink glob("$self->{dir}/*");
	$self->{clients} = {};
	$self->{states} = {};
	$self->{holders} = {};
	return;
}

# Return how many IDs that reached clients were checked so far.
sub checked
{
	my ($self) = @_;

	return $self->{checked};
}

1;
