# Calls a registry's library as the worker does, through
# test/helpers/registry_driver. Each session has one registry open.
package RegistryDriver;

use strict;
use warnings FATAL => 'all';

use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_driver try_open worker part_of ask asked claim fails reading
  $credentials write_credentials stand_in end_stand_in);

our $credentials;

INIT { $credentials = "$PostgreSQL::Test::Utils::tmp_check/credentials" }

my ($node, $library);

# Return a server that loads the library "snowflake_<kind>" in its sessions.
sub start_driver
{
	my ($kind) = @_;
	my $driver = abs_path(dirname(__FILE__) . '/../helpers/registry_driver') . '/registry_driver';

	$library = "snowflake_$kind";
	$node = PostgreSQL::Test::Cluster->new('main');
	$node->init;
	$node->start;
	$node->safe_psql('postgres', qq{
		CREATE FUNCTION registry_open(library text, url text,
			presence_ms integer, timeout_ms integer) RETURNS text
			LANGUAGE c AS '$driver';
		CREATE FUNCTION registry_close() RETURNS void LANGUAGE c AS '$driver';
		CREATE FUNCTION registry_part(part text) RETURNS text LANGUAGE c STRICT AS '$driver';
		CREATE FUNCTION registry_ask(kind text, node integer DEFAULT 5,
			generation bigint DEFAULT 7, version bigint DEFAULT 0,
			owner bigint DEFAULT 11, displaced bigint DEFAULT 0,
			presence boolean DEFAULT false, until bigint DEFAULT 1000,
			write_id bigint DEFAULT 21, host text DEFAULT 'here',
			twice boolean DEFAULT false,
			new_generation bigint DEFAULT 8, new_floor bigint DEFAULT 100,
			layout text DEFAULT 'timestamp:41 sequence:22',
			address text DEFAULT 'there', reserve bigint DEFAULT 0,
			new_former text DEFAULT '', OUT result text,
			OUT written bigint, OUT message text, OUT registry text,
			OUT clock_ms bigint, OUT failure text) LANGUAGE c AS '$driver'});
	return $node;
}

# Let the library open this text of snowflake.registry. Return "ok", or why it cannot.
sub try_open
{
	my ($session, $url, %options) = @_;

	return $session->query_safe("SELECT registry_open('$library', '$url', "
		  . ($options{presence} // 60000) . ', ' . ($options{timeout} // 60000) . ')');
}

# Return a session that has a registry open.
sub worker
{
	my ($url, %options) = @_;
	my $session = $node->background_psql('postgres');

	is(try_open($session, $url, %options), 'ok', "open $url") or die 'no registry is open';
	return $session;
}

# Return what a remedy says of the registry that is open.
sub part_of
{
	my ($session, $part) = @_;

	return $session->query_safe("SELECT registry_part('$part')");
}

# Return the answer to a request.
sub ask
{
	my ($session, $kind, %args) = @_;
	my $list = join ', ', "'$kind'",
	  map { "$_ => '" . ($args{$_} =~ s/'/''/gr) . "'" } sort keys %args;

	return decode_json(
		$session->query_safe("SELECT row_to_json(a) FROM registry_ask($list) a"));
}

# Check that the answer has this result, and matches the pattern. Return the version.
sub asked
{
	my ($session, $name, $result, $pattern, $kind, %args) = @_;
	my $answer = ask($session, $kind, %args);

	ok($answer->{result} eq $result && ($answer->{message} // '') =~ $pattern,
		"$name: $result" . (defined $answer->{message} ? ", \"$answer->{message}\"" : ''))
	  or diag(encode_json($answer));
	return $answer->{written};
}

sub claim
{
	my ($session, $name, $result, %args) = @_;

	return asked($session, $name, $result, qr//, 'claim', presence => 1, %args);
}

# Check that a request to the registry of this URL fails in this way. Return the
# message.
sub fails
{
	my ($url, $failure, $kind, %args) = @_;
	my $session = worker($url);
	my $answer = ask($session, $kind, %args);

	is($answer->{failure} // 'none', $failure, "$failure: " . ($answer->{message} // ''));
	$session->quit;
	return $answer->{message};
}

# Return the registry as it is read, with its records as lines.
sub reading
{
	my ($session, %args) = @_;
	my $answer = ask($session, 'read', %args);

	return $answer->{registry} // "$answer->{result} " . ($answer->{message} // '');
}

# Write the file of a user and a password.
sub write_credentials
{
	my ($text, $mode) = @_;

	unlink $credentials;
	append_to_file($credentials, $text);
	chmod $mode // 0600, $credentials;
	return;
}

# Start a stand-in for a registry, which does this with each client. Return its process
# and its address.
sub stand_in
{
	my ($serve) = @_;
	my $socket = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1') or die;
	my $pid = fork // die "fork: $!";

	return ($pid, '127.0.0.1:' . $socket->sockport) if $pid;
	$SIG{PIPE} = 'IGNORE';
	while (my $client = $socket->accept)
	{
		$serve->($client);
		close $client;
	}
	POSIX::_exit(0);
}

sub end_stand_in
{
	my ($pid) = @_;

	kill 'KILL', $pid;
	waitpid $pid, 0;
	return;
}

1;
