# A nasty database, in which tests make situations that print remedies, and a robot types
# what the remedies say (Robot.pm). The database has tables with IDs of shards, of a second
# layout and of the type snowflake, foreign keys, a domain, partitions, a table that refers
# to itself, and names with blanks, quotes and capitals. After each situation no row is
# lost, no key has changed that was not meant to, no ID comes twice, each table gets rows, no
# reference leads nowhere, and a feed of each table has read each row.
package NastyDatabase;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Utils;
use Robot;
use SnowflakeTest;
use Test::More;
use Exporter 'import';

our @EXPORT = qw($node @tables %now nasty_database as_owner insert_rows situation of_the_future count_rows keep go_back restart);

our $node;

# ---- the database ----

# Create a server with these settings, and with the database; start it with a clock.
sub nasty_database
{
	$node = new_server('main', "snowflake.shards = '3'", 'snowflake.reserve = 1s', 'snowflake.max_clock_wait = 10s', @_);
	start_with_clock($node, 0);
	query($node, q{CREATE ROLE "The Owner" LOGIN; CREATE EXTENSION snowflake;
		CREATE SCHEMA "My Schema" AUTHORIZATION "The Owner";
		ALTER ROLE "The Owner" SET search_path = "My Schema", public;
		ALTER ROLE "The Owner" SET statement_timeout = '15s'});
	my ($made, undef, $error) = as_owner(q{
		CREATE TABLE "Order's" (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'order');
		CREATE TABLE "Line Items" (id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
			"order" snowflake REFERENCES "Order's", v text DEFAULT 'line');
		CREATE TABLE tree (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), parent bigint REFERENCES tree, v text DEFAULT 'leaf');
		CREATE TABLE js (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript epoch:2024-02-02'), v text DEFAULT 'js');
		CREATE TABLE sharded (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(3), v text DEFAULT 'shard');
		CREATE DOMAIN "Key" AS bigint;
		CREATE TABLE domained ("ID" "Key" PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'domain');
		CREATE TABLE "of domained" (id "Key" PRIMARY KEY DEFAULT snowflake_nextval(), domained "Key" REFERENCES domained, v text DEFAULT 'of');
		CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v text DEFAULT 'part') PARTITION BY RANGE (id);
		CREATE TABLE parts_rest PARTITION OF parts DEFAULT});
	$made == 0 or BAIL_OUT($error);
	insert_rows() eq '' or BAIL_OUT('no rows') for 1 .. 3;
	return;
}

# Run something as the owner of the tables.
sub as_owner
{
	my ($sql) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-U', 'The Owner' ], on_error_stop => 1);

	return ($status, $out, $err);
}

# Rows for each table, in statements of the owner's.
my @inserts = (
	q{INSERT INTO "Order's" DEFAULT VALUES RETURNING id},
	q{INSERT INTO "Line Items" ("order") SELECT id FROM "Order's" ORDER BY id DESC LIMIT 1 RETURNING id},
	q{INSERT INTO tree (parent) VALUES ((SELECT max(id) FROM tree)) RETURNING id},
	q{INSERT INTO js DEFAULT VALUES RETURNING id},
	q{INSERT INTO sharded DEFAULT VALUES RETURNING id},
	q{INSERT INTO domained DEFAULT VALUES RETURNING "ID"},
	q{INSERT INTO "of domained" (domained) SELECT "ID" FROM domained ORDER BY 1 DESC LIMIT 1 RETURNING id},
	q{INSERT INTO parts DEFAULT VALUES RETURNING id});
our @tables = map { /INTO ("[^"]*"|\w+)/ } @inserts;
my %key = map { $_ => $_ eq 'domained' ? '"ID"' : 'id' } @tables;
my %highest;
our %now = (TIME => sub { query($node, 'SELECT clock_timestamp()') });

# The arguments that name the layout of a table's IDs, and whether the IDs were made before.
my %layout = (js => 'javascript epoch:2024-02-02', sharded => 'shard');
my (%was_made, @twice);

# Run a query of each table, which it names, in one statement. Return its rows, or the error.
sub of_each_table
{
	my ($query) = @_;
	my ($status, $out, $err) = as_owner(join ' UNION ALL ', map { $query->($_) } @tables);

	return $status == 0 ? $out : $err;
}

# Insert a row into each table, each in a session of its own, and return the remedy of the
# first error.
sub insert_rows
{
	foreach my $i (0 .. $#inserts)
	{
		my ($status, $id, $err) = as_owner($inserts[$i]);

		return hint_of($err) || "no remedy: $err" if $status != 0;
		push @{ $highest{ $tables[$i] } }, $id;
		push @twice, $id if $was_made{ $layout{ $tables[$i] } // '' }{$id}++;
	}
	read_feeds();
	return '';
}

# ---- a feed of each table ----

my (%cursor, %was_read);

# Read what is below the horizon, and above what was read before.
sub read_feeds
{
	my $read = of_each_table(sub {
		my ($table) = @_;
		my $horizon = !$layout{$table} ? 'snowflake_horizon()' : $table eq 'sharded' ? 'snowflake_shard_horizon(3)' : "snowflake_horizon('$layout{$table}')";

		return qq{SELECT \$\$$table\$\$, $key{$table}::bigint FROM $table WHERE $key{$table}::bigint > } . ($cursor{$table} // 0)
			. " AND $key{$table}::bigint < (SELECT $horizon)";
	});

	# an error is not read: some situations are one
	foreach my $row (grep { /\|\d+$/ } split /\n/, $read)
	{
		my ($table, $id) = split /\|/, $row;

		$was_read{$table}{$id} = 1;
		$cursor{$table} = $id if $id > ($cursor{$table} // 0);
	}
	return;
}

# Set back the cursors of which a remedy's rows say so.
sub set_cursors
{
	foreach my $row (map { split /\n/ } @_)
	{
		my ($column, $id) = $row =~ /("My Schema"\.[^|]*)\|.*a feed of this column whose cursor is above (\d+) must go on at that ID/ or next;
		my ($table) = grep { $column eq qq{"My Schema".$_.$key{$_}} } @tables;

		$cursor{$table} = $id if defined $table && ($cursor{$table} // 0) > $id;
	}
	return;
}

# Return the tables with rows that their feed has not read.
sub unread
{
	my %unread;

	foreach my $row (split /\n/, of_each_table(sub { qq{SELECT \$\$$_[0]\$\$, $key{$_[0]}::bigint FROM $_[0] WHERE $key{$_[0]}::bigint <= $highest{$_[0]}[-1]} }))
	{
		my ($table, $id) = split /\|/, $row;

		$unread{$table} = 1 if !defined $id || !$was_read{$table}{$id};
	}
	return join ' ', sort keys %unread;
}

# The same for a superuser, who may see more than the owner of tables.
sub next_as_superuser
{
	my ($status, undef, $err) = $node->psql('postgres', $next);

	return $status == 0 ? '' : hint_of($err);
}

# Return the rows of each table with keys up to an ID that was there, as a checksum.
sub rows
{
	my (%until) = @_;

	return of_each_table(sub { qq{SELECT \$\$$_[0]\$\$, count(*), md5(string_agg(t::text, ',' ORDER BY $key{$_[0]})) FROM $_[0] t WHERE $key{$_[0]}::bigint <= $until{$_[0]}} });
}

# Return the foreign keys, and how many references lead nowhere.
sub references
{
	my ($status, $out, $err) = as_owner(
		q{SELECT conrelid::regclass, pg_get_constraintdef(oid), convalidated FROM pg_constraint
			WHERE contype = 'f' AND conrelid IN ('"Line Items"'::regclass, 'tree'::regclass, '"of domained"'::regclass) ORDER BY conrelid::regclass::text COLLATE "C";
		SELECT count(*) FROM "Line Items" l WHERE NOT EXISTS (SELECT FROM "Order's" o WHERE o.id = l."order");
		SELECT count(*) FROM tree t WHERE parent IS NOT NULL AND NOT EXISTS (SELECT FROM tree p WHERE p.id = t.parent);
		SELECT count(*) FROM "of domained" o WHERE NOT EXISTS (SELECT FROM domained d WHERE d."ID" = o.domained)});

	return $status == 0 ? $out : $err;
}

# Return how many rows of each table lie more than a day ahead.
sub of_the_future
{
	return join ' ', map { s/\|/: /r } split /\n/, of_each_table(sub {
		my $layout = $layout{$_[0]} ? ", '$layout{$_[0]}'" : '';
		return qq{SELECT \$\$$_[0]\$\$, count(*) FROM $_[0] WHERE $key{$_[0]}::bigint > snowflake_max_id(now() + interval '1 day'$layout) HAVING count(*) > 0};
	});
}

sub count_rows
{
	return map { split /\|/ } split /\n/, of_each_table(sub { qq{SELECT \$\$$_[0]\$\$, count(*) FROM $_[0]} });
}

# The highest ID of each table.
sub last_ids
{
	return map { $_ => $highest{$_}[-1] } @tables;
}

# Make a situation, let the robot type, and look at the rows. What is tried is an
# insert into each table; or "try", which returns a remedy; or the remedy of a check. Where
# rows are to be renumbered, the test says how to look at them.
sub situation
{
	my ($name, $make, %how) = @_;
	my %last = last_ids();
	my $before = rows(%last);
	my $wrong = wrong_checks();
	my $references = references();
	my $try = $how{try} ? $how{try} : $how{as} ? \&next_as_superuser : !$how{check} ? \&insert_rows : sub { remedy_of($node, $how{check}) };

	die "$name: it has begun with an error: $_" foreach grep { /ERROR:/ } $before, $references;
	$make->();
	my @typed = follow_remedies($try, as => $how{check} ? 'super' : 'owner', %how, node => $node, name => $name, owner => 'The Owner');
	set_cursors(@typed);
	is(rows(%last), $before, "$name: no row is lost, and no key has changed");
	$how{renumbers}->() if $how{renumbers};
	is(insert_rows(), '', "$name: each table gets rows");
	is(join(' ', grep { !$how{renumbers} && $highest{$_}[-1] <= $last{$_} } @tables), '',
		"$name: the new IDs are above those before, so that none is there twice");
	is("@twice", '', "$name: no ID was made before");
	read_feeds();
	is(unread(), '', "$name: a feed of each table has read all rows");
	is(references(), $references, "$name: the foreign keys are there, and no reference leads nowhere");
	go_back() if wrong_checks() > $wrong;
	return @typed;
}

# ---- a copy of the server, to which a test goes back that has failed ----

my $copy;

sub wrong_checks
{
	return scalar grep { !$_ } Test::More->builder->summary;
}

sub keep
{
	$copy = $node->basedir . '/before';
	$node->stop;
	system_or_bail('rm', '-rf', $copy);
	system_or_bail('cp', '-a', $node->data_dir, $copy);
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

sub go_back
{
	set_clock($node, 0);
	$node->stop('immediate');
	system_or_bail('rm', '-rf', $node->data_dir);
	system_or_bail('cp', '-a', $copy, $node->data_dir);
	start_by_clock($node, $node->basedir . '/clock');
	$highest{$_} = [ (as_owner("SELECT max($key{$_}) FROM $_"))[1] ] foreach @tables;
	(%cursor, %was_read, @twice) = ();
	return;
}

# Restart the server as one is that nobody has told of a clock.
sub restart
{
	$node->stop;
	start_by_clock($node, $node->basedir . '/clock');
	return;
}

1;
