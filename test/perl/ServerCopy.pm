# A copy of the tested server, for tests that change the files of an extension. A
# server finds its files relative to its own place, so the copy uses its own files.
package ServerCopy;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use File::Basename;
use File::Path;
use PostgreSQL::Test::Utils;
use Exporter 'import';

our @EXPORT = qw(copy_server install_path extension_dir library write_file);

sub pg_config
{
	my ($option) = @_;
	my $out = `'$ENV{PG_CONFIG}' --$option`;

	die "$ENV{PG_CONFIG} --$option" if $? != 0;
	chomp $out;
	return realpath($out);
}

# Return a copy: a directory that holds the server's paths like "/".
sub copy_server
{
	my $copy = PostgreSQL::Test::Utils::tempdir();

	foreach my $dir (map { pg_config($_) } 'bindir', 'pkglibdir', 'sharedir')
	{
		next if -e "$copy$dir";
		mkpath(dirname("$copy$dir"));
		system_or_bail('cp', '-R', $dir, dirname("$copy$dir"));
	}
	return $copy;
}

# Return the install path for PostgreSQL::Test::Cluster.
sub install_path
{
	my ($copy) = @_;

	return dirname($copy . pg_config('bindir'));
}

sub extension_dir
{
	my ($copy) = @_;

	return $copy . pg_config('sharedir') . '/extension';
}

sub library
{
	my ($copy) = @_;

	return $copy . pg_config('pkglibdir') . '/snowflake.so';
}

sub write_file
{
	my ($path, $text) = @_;

	# write a new file, because a library in use must not change
	unlink $path;
	open(my $out, '>:raw', $path) or die "$path: $!";
	print $out $text;
	close $out or die "$path: $!";
	return;
}

1;
