# IDs in a browser, as doc/applications.md describes them, with Node.js and its driver
# for PostgreSQL (test/helpers/browser.js). The test uses the layout for browsers, and
# also the default layout, to show where JavaScript's numbers fail.
#
# takes: 10 s
# needs: nodejs pg_driver
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $node = new_server('node');

foreach my $layout ('javascript', 'snowflake')
{
	$node->append_conf('postgresql.conf', "snowflake.layout = '$layout'");
	$node->start;
	query($node, "CREATE DATABASE $layout");
	query($node, 'CREATE EXTENSION snowflake; CREATE TABLE ids (id bigint PRIMARY KEY);
		INSERT INTO ids SELECT snowflake_nextval_batch(1000)', database => $layout);

	local $ENV{PGHOST} = $node->host;
	local $ENV{PGPORT} = $node->port;
	local $ENV{PGDATABASE} = $layout;
	local $ENV{PGUSER} = query($node, 'SELECT current_user');
	my ($out, $err) = ('', '');
	my $ended = IPC::Run::run(
		[ 'node', "$FindBin::RealBin/../../helpers/browser.js", $layout ],
		'>', \$out, '2>', \$err);

	foreach my $line (split /\n/, $out)
	{
		ok($1 eq 'ok', $2) if $line =~ /^(ok|not ok) - (.*)/;
	}
	ok($ended && $out =~ /^done$/m, "$layout: the script came to its end")
	  or diag($err);
	diag($err) if $out =~ /^not ok/m;
	$node->stop;
}

done_testing();
