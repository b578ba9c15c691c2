# The client that runs SQL in place of psql (test/perl/SqlClient.pm) gives the same status,
# output and errors as psql. And a session of psql may be older than its time.
#
# takes: 10 s
# quick
use SnowflakeTest;
use SqlClient;

my $node = start_server('main');
my ($compared, $by_us) = (0, 0);

query($node, q{CREATE ROLE other LOGIN; CREATE TABLE t (id integer CONSTRAINT meant PRIMARY KEY, v text DEFAULT 'x'); GRANT ALL ON t TO other;
	CREATE FUNCTION says(what text, n integer DEFAULT 1) RETURNS integer LANGUAGE plpgsql AS $$
		BEGIN RAISE NOTICE USING MESSAGE = what, DETAIL = 'a detail', HINT = 'a hint'; RETURN n; END $$;
	CREATE FUNCTION fails() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN 1; END $$;
	CREATE FUNCTION tries() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT nothing'; RETURN 1; END $$});

# Run a script in both ways.
sub same
{
	my ($name, $sql, @how) = @_;
	my $calls = $SqlClient::calls;
	my @ours = $node->psql('postgres', $sql, @how);
	my $was_ours = $SqlClient::calls - $calls;
	# psql has an option more, which changes nothing
	my %how = @how;
	my @psql = $node->psql('postgres', $sql, %how, extra_params => [ @{ $how{extra_params} // [] }, '--no-psqlrc' ]);

	is(join("\n--\n", @ours), join("\n--\n", @psql), $name);
	is($SqlClient::calls - $calls, $was_ours, '... which was compared with psql');
	$compared++;
	$by_us += $was_ours;
	return $was_ours;
}

query($node, q{CREATE ROLE warned LOGIN; ALTER ROLE warned SET default_text_search_config = 'none'});

same('a row', 'SELECT 1');
same('rows, NULL, an empty text, a truth value, bytes', q{SELECT 1, NULL, '', true, 'ab'::bytea, ARRAY[1, NULL], 1.50 FROM generate_series(1, 3)});
same('no rows', 'SELECT 1 WHERE false');
same('a row without columns', 'SELECT FROM t; SELECT 1; SELECT FROM generate_series(1, 2); SELECT 1');
same('several statements', "SELECT 1; SELECT 2;\nSELECT\n3;");
same('a statement without an end', "SELECT 1;\nSELECT 2");
same('nothing', '');
same('blanks, comments and empty statements', "  ; -- a comment; with a ;\n;; /* one; /* two; */ ; */ SELECT 1 /* and ; */ ; -- no more\n");
same('texts with a ;', q{SELECT ';', 'it''s;', $$;$$, $a$ $$ ; $b$ $a$, "a;b"."a;""b" FROM (SELECT 1 AS "a;""b") "a;b"});
same('parentheses', 'CREATE RULE r AS ON DELETE TO t DO INSTEAD (SELECT 1; SELECT 2); DELETE FROM t; DROP RULE r ON t');
same('lines in a text', "SELECT E'a', 'one\ntwo';\nSELECT fails()");
same('statements that give no rows', q{INSERT INTO t VALUES (1); UPDATE t SET v = 'y'; DELETE FROM t});
same('rows that are returned', q{INSERT INTO t VALUES (1), (2) RETURNING *; DELETE FROM t RETURNING id});
same('a transaction for each statement', q{INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)});
same('which is committed', 'SELECT * FROM t');
same('a transaction that fails', q{BEGIN; DELETE FROM t; SELECT fails(); COMMIT}, on_error_stop => 0);
same('a failure stops the script', "SELECT 1;\nSELECT fails();\nSELECT 2");
same('or does not', "SELECT 1;\nSELECT fails();\nSELECT 2", on_error_stop => 0);
same('rows before an error', 'SELECT 1 / (3 - n) FROM generate_series(1, 3) n; SELECT 1', on_error_stop => 0);
same('what has no transaction', 'CREATE DATABASE more; DROP DATABASE more');
same('a notice', "SELECT\nsays('a notice');\nSELECT says('another', 2)");
same('a notice with lines', "SELECT says('one\ntwo')");
same('an error with a place', "SELECT 1,\n\tnothing,\n 2");
same('an error with a place, after others', "\n-- first\n\nSELECT 1; SELECT nothing FROM t; SELECT 3");
same('letters of two bytes', "SELECT '\xc3\xa4\xc3\xb6', nothing");
same('an error inside a function', 'SELECT tries()');
same('an error with all that it has', 'SELECT fails()', extra_params => [ '-v', 'VERBOSITY=verbose' ]);
same('of a constraint', q{INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
same('an error of the extension', q{SELECT snowflake_nextval('none'); SELECT 1}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
same('another role', 'SELECT current_user, session_user', extra_params => [ '-U', 'other' ]);
same('a warning when the session begins', 'SELECT fails()', extra_params => [ '-U', 'warned', '-v', 'VERBOSITY=verbose' ]);
same('a role that there is not', 'SELECT 1', extra_params => [ '-U', 'nobody' ]);
same('the session that ends itself', "SELECT 1;\nSELECT pg_terminate_backend(pg_backend_pid());\nSELECT 2");
same('what a session is', q{SELECT application_name, client_addr, state, query FROM pg_stat_activity WHERE pid = pg_backend_pid();
	SHOW client_encoding; SHOW DateStyle; SHOW TimeZone; SHOW standard_conforming_strings});
{
	local $ENV{PGOPTIONS} = '-c work_mem=1MB -c enable_seqscan=off';
	same('options', 'SHOW work_mem; SHOW enable_seqscan; SELECT fails()');
}
same('a colon that is no variable', q{SELECT ':none', 1::text, (ARRAY[1, 2, 3])[1:2], '12:30'::time});
same('letters in names', "SELECT \$\xc3\xa4\$a;b\$\xc3\xa4\$; SELECT 1 AS \xc3\xa4\$b\$; SELECT 2");
same('letters of no encoding', "SELECT '\xe4', nothing");
same('a long text, a long comment', "SELECT length('" . "''" x 70000 . "') /* " . 'x / * ' x 70000 . " */;\n" . "-- x\n" x 70000 . 'SELECT 1');
same('numbers of many digits', 'SELECT 9223372036854775807, 0.1::float8, 1e300, 123456789012345678901234567890');
same('a long row', q{SELECT repeat('x', 300000), repeat('y', 3)});

is($by_us, $compared, 'all of these went without psql');

# what psql does itself
is(same('a variable', "SELECT 1 AS a \\gset\nSELECT :a, :'DBNAME', :{?DBNAME}"), 0, '... is psql\'s');
is(same('a copy', 'COPY (SELECT 1) TO STDOUT'), 0, '... too');

my ($status, $out, $err) = $node->psql('none', 'SELECT 1');
like($err, qr/\Apsql: error: connection to server on socket .* failed: FATAL:  database "none" does not exist\z/, 'a database that there is not');
is($status, 2, '... as psql says it');
ok(!eval { query($node, 'SELECT fails()') }, 'safe_psql() dies');
like($@, qr/\Aerror running SQL: 'psql:<stdin>:1: ERROR:  division by zero/, '... of the error');
ok($node->poll_query_until('postgres', 'SELECT 1', '1'), 'it waits for a result');
my $session = begin_session($node, 'SELECT 1');
$session->{timeout}->end_time(1);
is(eval { $session->query_safe('SELECT 2') }, '2', 'a session whose time is over runs a statement');
$session->{timeout}->end_time(1);
ok(eval { $session->quit }, '... and ends');
$node->stop;
($status, $out, $err) = $node->psql('postgres', 'SELECT 1');
is($err, join("\n", (($node->psql('postgres', 'SELECT 1', extra_params => [ '--no-psqlrc' ]))[2])), 'a server that has stopped');
is($status, 2, '... as psql says it');

done_testing();
