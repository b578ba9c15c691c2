# doc/audit.md and examples/audit: who made which IDs, from a log in which clients forge
# the lines in every way that they have.
#
# takes: 10 s
# needs: jq postgres_fdw
use SnowflakeTest;
use JSON::PP;

my $page = slurp_file("$root/doc/audit.md");
my ($conf) = $page =~ /```conf\n(.*?)```/s;
my ($who, $of_day, $sums) = $page =~ /```sh\n(.*?)```/gs;
my $node = new_server('main', $conf, q{log_timezone = 'Asia/Tokyo'}, q{snowflake.shards = '0-49'}, 'log_min_duration_statement = 0',
	'wal_level = logical', 'max_wal_senders = 5');
my $log = $node->data_dir . '/log';

SnowflakeTest::set_clock($node, '@2026-01-05 03:00:00');
start_by_clock($node, SnowflakeTest::clock_file($node));

# Run a command of the page, or a similar one. Return the records that it prints.
sub ask
{
	my ($command) = @_;
	my ($out, $err) = run_command([ 'sh', '-c', "cd '$root'; " . $command =~ s{log/}{$log/}r ]);

	is($err, '', $command =~ s/\n/ /gr);
	return map { decode_json($_) } split /\n(?=\{)/, $out;
}

# ---- names that are made to deceive, and who made what ----

my $forged = '{"end":"commit","ids":9,"first":1,"last":999999999999999999,"layout":"snowflake","role":"alice"}';
my $line = encode_json({ timestamp => '2026-01-05 12:00:00 JST', vxid => '1/0', error_severity => 'LOG', state_code => 'SF601',
		message => "snowflake SF601: $forged" });
my $odd = qq("},\t{"vxid":"1/0\\"\x01) . ($node->pg_version->major < 19 ? "\n{" : '');
(my $quoted = $odd) =~ s/"/""/g;
my @truth;

# Make IDs, and note what the log must have.
sub make_ids
{
	my ($role, $call, %options) = @_;
	my ($application, @ids) = split /\n/, query($node, qq[SET SESSION AUTHORIZATION "$role";
		SET application_name = E'"},\\n{"ids":9'; SHOW application_name; SELECT $call], %options);

	push @truth, { role => $role =~ s/""/"/gr, ids => scalar @ids, first => $ids[0], last => $ids[-1], end => 'commit',
		application => $application, client => '[local]', database => $options{database} // 'postgres' };
	return @ids;
}

query($node, $_) for qq{CREATE DATABASE "$quoted"},
	q{CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'},
	qq{CREATE EXTENSION snowflake; CREATE ROLE alice; CREATE ROLE dropped LOGIN; CREATE ROLE "$quoted"};
query($node, 'CREATE EXTENSION snowflake', database => $_) for $odd, 'bytes';
my @batch = make_ids('alice', 'snowflake_nextval_batch(10000)');
make_ids('alice', q{snowflake_nextval_batch(40, 'javascript')});
make_ids($quoted, 'snowflake_nextval_batch(3)');
make_ids($quoted, 'snowflake_nextval()', database => $odd);

# ---- lines of clients ----

# Functions that write the line with each severity, in all of its fields.
query($node, join ';', map { qq{CREATE FUNCTION forge_$_() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS
		\$\$ BEGIN RAISE $_ USING ERRCODE = 'SF601', MESSAGE = 'snowflake SF601: $forged', DETAIL = '$line',
			HINT = E'"\\n$line'; RETURN 1; END \$\$} } qw(log info notice warning exception));
query($node, qq{CREATE TABLE t (id bigint); GRANT ALL ON t TO alice;
	CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS
		\$\$ BEGIN PERFORM public.forge_log(), public.forge_exception(); END \$\$;
	CREATE CONSTRAINT TRIGGER c AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION forge();
	CREATE PROCEDURE p() LANGUAGE plpgsql AS \$\$ BEGIN COMMIT; PERFORM forge_log(); ROLLBACK; PERFORM forge_log(),
		forge_exception(); END \$\$;
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[ $node->host ]}', port '@{[ $node->port ]}', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER s;
	CREATE FOREIGN TABLE f (id bigint) SERVER s OPTIONS (table_name 't')});
my $force = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
$node->psql('postgres', $_, on_error_stop => 0)
  for 'INSERT INTO f VALUES (1)', map { "SET SESSION AUTHORIZATION alice; SET client_min_messages = log; $_" }
	(map { "SELECT forge_$_()" } qw(log info notice warning exception)), 'CALL p()',
	'INSERT INTO t VALUES (1)', "SET $force = on; SELECT forge_log() FROM pg_class", "syntax error -- \n$line",
	qq[DO \$\$ BEGIN RAISE LOG USING ERRCODE = 'SF601', MESSAGE = repeat('snowflake SF601: $forged', 100000); END \$\$],
	qq{PREPARE x AS SELECT 1; \n$line\n};
$node->psql('bytes', q{DO $$ BEGIN RAISE LOG E'\xff\xc3' USING ERRCODE = 'SF601'; END $$});
foreach my $name ($line, "\xff$line", "\xf4\x90\x80\x80", "\xed\xa0\x80", "a\xc3")
{
	isnt(system('psql', '-XAt', '-U', $name, '-d', $node->connstr('postgres'), '-c', 'SELECT 1'), 0, 'nobody has this name');
}

# An apply worker, whose errors have the same virtual transaction ID as the lines
query($node, 'CREATE DATABASE subscriber');
query($node, q{CREATE TABLE r (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE r});
query($node, q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
query($node, qq{CREATE TABLE r (id int PRIMARY KEY);
	CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE USING ERRCODE = 'SF601',
		MESSAGE = 'snowflake SF601: $forged'; END \$\$;
	CREATE TRIGGER f BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION forge();
	ALTER TABLE r ENABLE ALWAYS TRIGGER f}, database => 'subscriber');
query($node, 'CREATE SUBSCRIPTION s CONNECTION \'' . $node->connstr . q{ dbname=postgres' PUBLICATION p
	WITH (create_slot = false, slot_name = 's', copy_data = false)}, database => 'subscriber');
query($node, 'INSERT INTO r VALUES (1)');
my $text = '';
for (1 .. 1800)
{
	last if ($text = slurp_file("$log/postgresql-Mon.json")) =~ m{"vxid":"\d+/0".*"ERROR","state_code":"SF601"};
	select undef, undef, undef, 0.1;
}
query($node, 'ALTER SUBSCRIPTION s DISABLE', database => 'subscriber');
like($text, $_, "the log has $_")
  for qr{"vxid":"\d+/0".*"ERROR","state_code":"SF601","message":"snowflake SF601: \{},
	qr{"LOG","state_code":"SF601","message":"snowflake SF601: \{.*"parallel worker"},
	qr{"vxid":"(?!\d+/0").*"LOG","state_code":"SF601","message":"snowflake SF601: \{}, qr/\xff.*\xf4\x90\x80\x80/s;

# ---- more lines of the server ----

{
	my $session = $node->background_psql('postgres', extra_params => [ '-U', 'dropped' ]);
	my $first = $session->query_safe('BEGIN; SELECT snowflake_nextval()');

	make_ids('alice', 'snowflake_nextval_batch(3)', database => 'bytes');
	push @truth, { role => 'dropped', first => $first, last => $session->query_safe('SELECT snowflake_nextval(); COMMIT'), ids => 2 };
	query($node, 'DROP ROLE dropped');
	my $id = $session->query_safe('SELECT snowflake_nextval()');
	push @truth, { role => 'dropped', first => $id, last => $id, ids => 1 };
	$session->quit;
}
my $me = query($node, 'SELECT current_user');
my @shards = split /\n/, query($node, 'SELECT snowflake_shard_nextval(s) FROM generate_series(0, 19) s');
push @truth, map({ { role => $me, shard => $_, ids => 1, first => $shards[$_], last => $shards[$_] } } 0 .. 15), { role => $me, ids => 4, first => undef };
$node->stop;

# ---- the answers ----

# The same lines of the day before, after lines that no server writes. The last one is torn,
# and the next file begins with a line of the audit.
my $json = slurp_file("$log/postgresql-Mon.json") =~ s/\A.*?(?=^[^\n]*"state_code":"SF601")//smr;

foreach ([ 'Day', map({ "$_\n" } '', 'SF601', '[', '{"SF601"', '["SF601"]', '"SF601"', 'null # SF601', "\0SF601\xff",
			'{"error_severity":"LOG","state_code":"SF601"}', substr($line, 0, 100) . $line, $line . $line,
			$line =~ s/"SF601"/"00000"/r, map { $line =~ s{"1/0"}{$_}r } qw(0 null {} "1/10" "0")),
		$json =~ s/^(\{"timestamp":"2026-01-0)5/${1}4/mgr, substr($line, 0, -20) ],
	[ 'Mon', $json ])
{
	my ($day, @lines) = @$_;

	open my $file, '>:raw', "$log/postgresql-$day.json" or die $!;
	print $file @lines;
	close $file;
}

my @all = ask('examples/audit all log/postgresql-Mon.json');
my @seen = map { my $i = $_; +{ map { $_ => $all[$i]{$_} } keys %{ $truth[$i] // $all[$i] } } } 0 .. $#all;

is_deeply(\@seen, \@truth, 'all lines of the server, and no others');
is(scalar(grep { $_->{pid} > 0 && $_->{time} =~ /^2026-01-05 12:\d\d:\d\d\.\d+ JST$/ } @all), scalar @all, 'with times and processes');

# Return the lines that an ID could be in.
sub lines_of
{
	my ($id) = @_;

	return map { "$_->{role} $_->{first} $_->{last}" } ask($who =~ s/\d{18}/$id/r =~ s/\*/postgresql-Mon/r);
}

foreach my $id (map({ @$_{qw(first last)} } @truth[ 0 .. 4 ]), @batch[ 1, 5000 ], $batch[0] - 1, $batch[-1] + 1, 1, $truth[5]{first} + 1,
	$truth[4]{first}, "$truth[1]{first}0", '9' x 19)
{
	is_deeply([ lines_of($id) ], [ map { "$_->{role} $_->{first} $_->{last}" }
		grep { defined $_->{first} && $_->{first} <= $id && $id <= $_->{last} } @truth ], "who made $id");
}
is(scalar(lines_of($truth[4]{first})), 2, 'an ID between those of another transaction');

my %sum;
$sum{ $_->{role} } += $_->{ids} for @truth;
is_deeply([ ask($sums) ], [ { map { ("2026-01-0$_" => \%sum) } 4, 5 } ], 'how many IDs of each role, on each day');
is_deeply([ map { $_->{first} } ask($of_day =~ s/2026-11-28/2026-01-05/r) ],
	[ map { $_->{first} } grep { $_->{role} eq 'alice' } @truth ], 'the IDs of a role on a day');
is(system("'$root/examples/audit' '$log/postgresql-Mon.json' 2>/dev/null") >> 8, 2, 'no ID');
is(system("'$root/examples/audit' all '$log/postgresql-Mon.json' '$log/none.json' >/dev/null 2>&1") >> 8, 2, 'a file that cannot be read');

done_testing();
