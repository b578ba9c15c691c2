# The checker of IDs: collects every ID that a client or a table has, and fails
# on the first one that is there twice, and on one that does not ascend.
#
# IDs are kept in files, one for each session and counter, so that there may be
# hundreds of millions. Each client writes what it got before it asks for more;
# the last line of a killed one may be cut short, and does not count.
#
# The promise has two halves, and each is asked for by its own name:
#
#	clients		no ID reached clients twice. The group says among whom: by
#				default a database, with its copies and successors, and a
#				counter ("node", or "shard"; the shard is in the ID)
#	states		no state of a database holds an ID twice
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
		dir => $dir, files => 0, clients => {}, states => {}, checked => 0
	}, $class;
}

sub _file
{
	my ($self) = @_;

	return sprintf('%s/%06d', $self->{dir}, ++$self->{files});
}

# The name of a file for one session and one counter, of this group, or of each
# in a list. Its lines are IDs in the order in which the session got them.
sub session
{
	my ($self, $groups) = @_;
	my $file = $self->_file;

	push @{ $self->{clients}{$_} }, $file foreach ref $groups ? @$groups : $groups;
	return $file;
}

# The same for IDs at hand.
sub saw
{
	my ($self, $group, @ids) = @_;
	my $file = $self->session($group);

	open(my $fh, '>', $file) or die "$file: $!";
	print $fh map { "$_\n" } @ids;
	close $fh or die "$file: $!";
	return;
}

# All IDs that a query finds in a database, as one state of it. What it held in
# another state is another name.
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

# The same for the column "id" of all tables in a database: those whose names
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

# Copy a file of IDs with leading zeros, so that text sorts as numbers do, up to
# what is wrong. Returns that.
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

# See that files ascend, and that no ID is twice in all of them, or not above
# the floor, which is raised to the last. Returns the number of IDs, and what
# is wrong.
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

# One test for each group. With the highest IDs of the groups before the last
# crash, all must be above those; they are brought up to date.
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

# Forget the IDs, once they are checked and no more of their group will come.
sub forget
{
	my ($self) = @_;

	unlink glob("$self->{dir}/*");
	$self->{clients} = {};
	$self->{states} = {};
	return;
}

# How many IDs that reached clients were checked so far.
sub checked
{
	my ($self) = @_;

	return $self->{checked};
}

1;
