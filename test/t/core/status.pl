# snowflake_status(): each check in each of its states, and a healthy server without a
# complaint.
#
# takes: 30 s
use SnowflakeTest;
use POSIX qw(strftime);

my $stamp = qr/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^|:]*/;

# Check the answer of one check. If it is not ok, it must have a remedy.
sub says
{
	my ($node, $check, $status, $found, $name, %options) = @_;
	my $as = $options{as} || '';
	my $row = answer($node,
		qq{$as SELECT status, found, remedy FROM snowflake_status() WHERE check_name = '$check'},
		%options);

	like($row, qr/^$status\|(?s:.*)$found/, "$check, $status: $name");
	if ($status eq 'ok') { like($row, qr/\|$/, "$check: and no remedy"); }
	else { like($row, qr/\|[A-Z](?s:.*)[.;>'"]$/, "$check: and a remedy"); }
	return;
}

# Return the epoch that leaves this many days of 2^40 ms.
sub epoch_for
{
	my ($days) = @_;

	return strftime('%Y-%m-%d', gmtime(time() - 2**40 / 1000 + $days * 86400));
}

# Return the names of the checks that are not ok.
sub complaints
{
	my ($node, %options) = @_;

	return query($node,
		q{SELECT check_name || ': ' || found FROM snowflake_status() WHERE status <> 'ok'},
		%options);
}

# ---- a server that does not preload the library ----

my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init;
$bare->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_stat_statements'");
$bare->start;
query($bare, q{CREATE EXTENSION snowflake; CREATE ROLE mallory;
	CREATE TABLE narrow (id integer PRIMARY KEY DEFAULT snowflake_nextval())});
says($bare, 'preload', 'error',
	qr/not preloaded.*Add to \/\S*\/postgresql.conf, and restart the server:\nshared_preload_libraries = 'pg_stat_statements, snowflake'$/,
	'the line to add, and to which file');
says($bare, 'preload', 'error', qr/Add snowflake to shared_preload_libraries in postgresql\.conf, or this line, if it has none, and restart the server:\nshared_preload_libraries = 'snowflake'\nIf that changes nothing, see this as a superuser\.$/,
	'without what not everybody may see', as => 'SET ROLE mallory;');
says($bare, 'column types', 'error', qr/1 of 1 columns .*public\.narrow\.id/,
	'tables are looked at all the same');
says($bare, 'rows above', 'warning', qr/not looked at: this server has no node id\|Add to \/\S*\/postgresql.conf, .*\nshared_preload_libraries = .*$/,
	'but not their rows; and what is to be typed for that');
is(query($bare, q{SELECT string_agg(check_name, ', ' ORDER BY check_name COLLATE "C") FROM snowflake_status()}),
	'clock synchronisation, column types, preload, privileges, role, rows above, subscriptions, summary, unique indexes',
	'what needs no shared memory');
says($bare, 'summary', 'error', qr/3 of 8 checks need attention: preload, column types, .*\|Begin with the remedy of the check "preload"\.$/,
	'what is an error comes first');

# a line in postgresql.conf does not change what ALTER SYSTEM has set; the remedy works
query($bare, q{ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements', '$libdir/auto_explain'});
$bare->restart;
says($bare, 'preload', 'error', qr/\(in postgresql.auto.conf\).*\nALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements', '\$libdir\/auto_explain', 'snowflake';$/,
	'a statement');
says($bare, 'preload', 'error', qr/\|Add snowflake to shared_preload_libraries in postgresql\.conf, /, 'not for everybody', as => 'SET ROLE mallory;');
my ($statement) = query($bare, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'preload'})
  =~ /^(ALTER SYSTEM .*;)$/m;
query($bare, $statement);
$bare->append_conf('postgresql.conf', "snowflake.node_id = '1'");
$bare->restart;
like(query($bare, 'SELECT snowflake_nextval()'), qr/^\d+$/, 'which help');
$bare->stop;

# ---- a healthy server ----

my $node = new_server('main', "snowflake.shards = '3'", 'snowflake.max_databases = 3',
	'snowflake.reserve = 2s', 'snowflake.max_clock_wait = 60s', 'max_prepared_transactions = 1');
my $kernel = $node->basedir . '/kernel';

sub kernel_says
{
	my ($text) = @_;

	unlink "$kernel.new";
	append_to_file("$kernel.new", "$text\n");
	rename("$kernel.new", $kernel) or die "$kernel: $!";
	return;
}

$ENV{SHIM_KERNEL} = $kernel;
kernel_says('synchronized 1500 20');
start_with_clock($node, 0);
query($node, q{CREATE EXTENSION snowflake; CREATE ROLE mallory;
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), v integer);
	CREATE TABLE s (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(3))});
is(complaints($node), '', 'a server that was just set up: nothing but ok');
says($node, 'summary', 'ok', qr/all 25 checks are ok/, 'nothing to sum up');
says($node, 'mark', 'ok', qr/not loaded: no ID was made/, 'before the first ID');
says($node, 'recorded configuration', 'ok', qr/none: no ID was made/, 'likewise');
says($node, 'rows above', 'ok', qr/0 of 1 columns/, 'which loads no mark');
query($node, 'INSERT INTO t (v) SELECT generate_series(1, 100); INSERT INTO s DEFAULT VALUES');
is(complaints($node), '', 'a server that makes IDs: nothing but ok');
is(complaints($node, database => 'template1'), '', 'nor elsewhere')
  if query($node, 'CREATE EXTENSION snowflake; SELECT 1', database => 'template1');
is(query($node, q{SELECT string_agg(check_name, ', ') FROM snowflake_status()}),
	'summary, preload, role, clock synchronisation, node id, lease, clock offset, clock steps, drift, capacity, '
	  . 'layout, shard layout, shards, other layouts, mark, recorded configuration, refusals, copied data directory, databases, privileges, column types, column layouts, unique indexes, subscriptions, partitions, rows above',
	'the checks');
says($node, @$_) foreach (
	[ 'preload', 'ok', qr/is preloaded/, 'loaded' ],
	[ 'role', 'ok', qr/primary/, 'a primary' ],
	[ 'clock synchronisation', 'ok', qr/wrong by at most 1500 us/, 'kept right' ],
	[ 'node id', 'ok', qr/1 is configured/, 'configured' ],
	[ 'lease', 'ok', qr/registry is not set/, 'none' ],
	[ 'shards', 'ok', qr/this server makes IDs of 3\|/, 'those that are listed' ],
	[ 'layout', 'ok', qr/\d\d\.\d years are left/, 'long' ],
	[ 'mark', 'ok', qr/loaded, at .* the clock/, 'loaded' ],
	[ 'recorded configuration', 'ok', qr/layouts are those that/, 'the same' ],
	[ 'databases', 'ok', qr/1 of 3/, 'room' ],
	[ 'privileges', 'ok', qr/no role was granted more than/, 'nobody else' ],
	[ 'column types', 'ok', qr/0 of 2 columns/, 'wide enough' ],
	[ 'column layouts', 'ok', qr/0 of 1 columns/, 'the shard has its own' ],
	[ 'unique indexes', 'ok', qr/0 of 2 columns/, 'unique' ],
	[ 'partitions', 'ok', qr/0 of 0 columns/, 'none' ],
	[ 'rows above', 'ok', qr/0 of 1 columns .*; 1 not looked at/, 'not those of shards' ]);

# ---- roles that may write the durable numbers ----

query($node, q{
	CREATE ROLE "App";
	CREATE ROLE worker;
	CREATE EXTENSION snowflake_registry;
	GRANT ALL ON ALL SEQUENCES IN SCHEMA snowflake_state TO "App";
	GRANT SELECT ON ALL SEQUENCES IN SCHEMA snowflake_state TO mallory;
	GRANT INSERT, DELETE ON snowflake_registry.slot TO PUBLIC;
	SELECT snowflake_registry.grant('worker', administer => true)});
says($node, 'privileges', 'warning',
	qr/: PUBLIC may DELETE, INSERT snowflake_registry.slot; "App" may UPDATE, USAGE snowflake_state.snowflake_mark, snowflake_state.snowflake_recorded_epoch, [^;]*\|/,
	'not who leases or administers, but who got all');
says($node, 'privileges', 'warning', qr/"App" may/, 'whoever asks', as => 'SET ROLE mallory;');
query($node, query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'privileges'}));
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'once the remedy is typed');
is( query($node, q{SELECT has_sequence_privilege('mallory', 'snowflake_state.snowflake_mark', 'SELECT')}),
	't', 'which leaves the right to dump');
query($node, 'GRANT INSERT, UPDATE ON snowflake_registry.slot TO worker');
says($node, 'privileges', 'warning', qr/worker may INSERT, UPDATE snowflake_registry.slot\|/, 'who leases needs no right on tables');
query($node, 'GRANT ALL ON SCHEMA snowflake_registry TO worker');
says($node, 'privileges', 'warning', qr/worker may CREATE snowflake_registry; /, 'nor to make anything in the schema');
query($node, 'REVOKE CREATE ON SCHEMA snowflake_registry FROM worker');
query($node, q{GRANT UPDATE (until, owner), SELECT (host) ON snowflake_registry.slot TO mallory});
says($node, 'privileges', 'warning', qr/: mallory may UPDATE snowflake_registry.slot; worker/, 'a column is enough');
query($node, query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'privileges'}));
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'which the remedy takes back');
query($node, q{GRANT USAGE ON SCHEMA snowflake_state TO worker, mallory;
	GRANT UPDATE ON SEQUENCE snowflake_state.snowflake_mark TO worker WITH GRANT OPTION;
	SET ROLE worker; GRANT UPDATE ON SEQUENCE snowflake_state.snowflake_mark TO mallory});
says($node, 'privileges', 'warning', qr/mallory may UPDATE snowflake_state.snowflake_mark; /, 'what was passed on');
query($node, query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'privileges'}));
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'is taken back, too');
query($node, 'DROP OWNED BY worker, "App", mallory');

# grants that the install script revokes from PUBLIC, and other owners
query($node, q{
	GRANT EXECUTE ON FUNCTION snowflake_accept(text) TO PUBLIC;
	GRANT CREATE ON SCHEMA snowflake_state TO worker;
	ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO "App"});
says($node, 'privileges', 'warning',
	qr/: PUBLIC may EXECUTE public.snowflake_accept\(text\); worker may CREATE snowflake_state; "App" owns snowflake_state.snowflake_mark\|/,
	'a function, a schema, an owner');
is(query($node, q{SELECT check_name FROM snowflake_status() LIMIT 2}), "summary\nprivileges", 'the worst is the second row');
is(query($node, q{SELECT status, found FROM snowflake_status() LIMIT 1}),
	'warning|1 of 25 checks need attention: privileges', 'which the first one names');
query($node, query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'privileges'}));
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'once the remedy is typed');

# what a managed platform gives to the role of its API; and where PUBLIC may execute
# nothing by default, a role that makes IDs is no administrator
query($node, q{CREATE DATABASE hardened TEMPLATE template0});
query($node, $_, database => 'hardened') foreach (
	'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC',
	'CREATE EXTENSION snowflake; GRANT EXECUTE ON FUNCTION snowflake_nextval() TO worker, PUBLIC');
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'functions for everybody', database => 'hardened');
query($node, 'DROP DATABASE hardened');
query($node, 'GRANT ALL ON ALL ROUTINES IN SCHEMA public TO worker');
says($node, 'privileges', 'warning',
	qr/: worker may EXECUTE public.snowflake_accept\(text\), public.snowflake_advance\(bigint\), public.snowflake_advance\(bigint, text\), public.snowflake_advance\(bigint, text, boolean\), public.snowflake_recover\(\), public.snowflake_registry_init\(\), public.snowflake_registry_init\(text\), public.snowflake_registry_recover\(\), public.snowflake_registry_recover\(interval\), public.snowflake_registry_recover\(interval, interval\), public.snowflake_registry_recover\(interval, interval, text\), public.snowflake_registry_release\(bigint\), public.snowflake_registry_slots\(\), public.snowflake_reset_mark\(timestamp with time zone\), public.snowflake_stat_reset\(\)\|/,
	'all that administrators may');
query($node, query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'privileges'}));
says($node, 'privileges', 'ok', qr/no role was granted more than/, 'once the remedy is typed');
query($node, 'DROP OWNED BY worker, "App", mallory; DROP EXTENSION snowflake_registry');
query($node, q{GRANT SELECT ON ALL SEQUENCES IN SCHEMA snowflake_state TO mallory});

# ---- tables ----

query($node, q{
	CREATE DOMAIN small AS integer;
	CREATE TABLE narrow (a integer UNIQUE DEFAULT snowflake_nextval(), b small UNIQUE DEFAULT snowflake_nextval(),
		c smallint UNIQUE DEFAULT snowflake_nextval(), d float8 UNIQUE DEFAULT snowflake_nextval(),
		e integer UNIQUE DEFAULT snowflake_shard_nextval(3), f integer, g integer DEFAULT 7,
		h text UNIQUE DEFAULT snowflake_encode(snowflake_nextval(), 'base58'))});
says($node, 'column types', 'error',
	qr/5 of 8 columns .*: public.narrow.a, public.narrow.b, public.narrow.c, public.narrow.d, public.narrow.e\|/,
	'too narrow, whichever function makes the IDs');
like(query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'column types'}),
	qr/^First public\.narrow\.a: Run .*: SELECT \* FROM public\.snowflake_convert\('public\.narrow'::pg_catalog\.regclass, 'a'::pg_catalog\.name, NULL::integer, false, NULL, 'bigint'\);$/,
	'the remedy is for the first of them');
for my $left (4, 3, 2, 1, 0)
{
	query($node, query($node, q{SELECT substring(remedy FROM '(?:SELECT|ALTER) .*') FROM snowflake_status() WHERE check_name = 'column types'}));
	says($node, 'column types', $left ? 'error' : 'ok', qr/$left of \d+ columns/, 'once it is typed');
}
query($node, q{CREATE TABLE unfit (a bigint UNIQUE DEFAULT snowflake_nextval('mastodon'),
	b bigint UNIQUE DEFAULT snowflake_nextval('timestamp:31 node:10 sequence:12 epoch:1990-01-01'),
	c bigint UNIQUE DEFAULT snowflake_nextval('timestamp:41 node:10 sequence:12 epoch:2190-01-01'),
	d bigint UNIQUE DEFAULT snowflake_nextval('javascript'))});
says($node, 'column layouts', 'error',
	qr/3 of \d+ columns .* for node id 1, .*: public.unfit.a \(inserts fail\), public.unfit.b \(inserts fail\), public.unfit.c \(inserts fail\)\|First public.unfit.a: Set a smaller snowflake\.node_id, which no other server has, and restart the server\.$/,
	'layouts in which this server makes no IDs');
query($node, q{DROP TABLE unfit});

# Any role can name a layout that ends soon: that is no matter of the server's. A column
# that names it is.
foreach my $case ([ 200, 'warning' ], [ 10, 'error' ])
{
	my ($days, $status) = @$case;
	my $soon = 'timestamp:40 node:10 sequence:2 epoch:' . epoch_for($days);

	query($node, "SET ROLE mallory; SELECT snowflake_nextval('$soon')");
	says($node, $_, 'ok', qr/./, "a call names a layout with $days days left") foreach 'other layouts', 'column layouts';
	query($node, "CREATE TABLE soon (id bigint PRIMARY KEY DEFAULT snowflake_nextval('$soon'))");
	says($node, 'column layouts', $status, qr/1 of \d+ columns .*: public.soon.id \(until \d{4}-[^|]*\)\|In one column, IDs of two layouts can be equal\. For a new one, run as the owner of the table: ALTER TABLE public\.soon ADD COLUMN NAME bigint DEFAULT public\.snowflake_nextval\('LAYOUT'::pg_catalog\.text\); These layouts last: SELECT \* FROM public\.snowflake_layouts\(\);$/, "a column names one with $days days left");
	query($node, 'DROP TABLE soon');
}
query($node, q{DROP TABLE narrow;
	CREATE SCHEMA ours;
	CREATE FUNCTION ours.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
	CREATE TABLE ours.t (id integer DEFAULT ours.snowflake_nextval())});
says($node, 'column types', 'ok', qr/0 of 2/, 'a function of that name which is no part of the extension');

query($node, q{
	CREATE TABLE "Bare" (id bigint DEFAULT snowflake_nextval());
	CREATE TABLE partial (id bigint DEFAULT snowflake_nextval());
	CREATE UNIQUE INDEX ON partial (id) WHERE id > 0;
	CREATE TABLE included (id bigint DEFAULT snowflake_nextval(), v integer);
	CREATE UNIQUE INDEX ON included (v) INCLUDE (id);
	CREATE TABLE plain (id bigint DEFAULT snowflake_nextval());
	CREATE INDEX ON plain (id);
	CREATE TABLE tenants (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
	CREATE TABLE p (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
	CREATE TABLE p2 PARTITION OF p DEFAULT;
	CREATE UNIQUE INDEX ON p1 (id);
	CREATE TABLE q (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE q1 PARTITION OF q DEFAULT;
	CREATE TABLE invalid (id bigint DEFAULT snowflake_nextval());
	INSERT INTO invalid VALUES (1), (1)});
$node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY ON invalid (id)');
says($node, 'unique indexes', 'warning',
	qr/6 of 10 columns .*: public."Bare".id, public.included.id, public.invalid.id, public.p.id, public.partial.id, public.plain.id\|/,
	'none, one of a part, one that only includes it, one that is not valid');
query($node, query($node, q{SELECT substring(remedy FROM 'CREATE [^;]*;') FROM snowflake_status() WHERE check_name = 'unique indexes'}));
says($node, 'unique indexes', 'warning', qr/5 of 10 columns .*: public\.included\.id/, 'once the remedy is typed for the first of them');
query($node, 'CREATE UNIQUE INDEX ON p2 (id); DROP TABLE "Bare", partial, included, plain, invalid');
says($node, 'unique indexes', 'ok', qr/0 of 5/, 'partitions that each have one');
query($node, 'DROP TABLE p, q, tenants');
query($node, q{DO $$ BEGIN FOR i IN 1 .. 12 LOOP
	EXECUTE format('CREATE TABLE n%s (id bigint DEFAULT snowflake_nextval())', i); END LOOP; END $$});
says($node, 'unique indexes', 'warning', qr/12 of 14 columns .*, and 2 more\|/, 'many');
query($node, q{DO $$ BEGIN FOR i IN 1 .. 12 LOOP EXECUTE format('DROP TABLE n%s', i); END LOOP; END $$});

# ---- partitions that end soon ----

my $partitions = q{SELECT count(*) FROM snowflake_create_partitions('days', '%s', now() %s, now() + interval '1 us' %s)};
query($node, q{CREATE TABLE days (v integer, id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)});
says($node, 'partitions', 'error', qr/1 of 1 columns .*: public.days.id \(has none\)\|Run this now, .*: SELECT public\.snowflake_create_partitions\('public.days'::pg_catalog\.regclass, interval '1 month', pg_catalog\.now\(\), pg_catalog\.now\(\) OPERATOR\(pg_catalog\.\+\) interval '3 month', NULL\);$/, 'a table without one');
query($node, 'CREATE TABLE days_rest PARTITION OF days DEFAULT');
says($node, 'partitions', 'ok', qr/0 of 1/, 'one that has but a default partition');
query($node, sprintf($partitions, '1 hour', ("- interval '3 days'") x 2));
query($node, 'INSERT INTO days (v) VALUES (1), (2)');
query($node, q{INSERT INTO days VALUES (3, snowflake_min_id(now() - interval '36 hours'))});
refused($node, sprintf($partitions, '1 hour', ('') x 2), '23514', qr/updated partition constraint for default partition "days_rest" would be violated/,
	'whose rows are in the way of another one');
my $later = q{SELECT substring(remedy FROM 'SELECT[^;]*;') FROM snowflake_status() WHERE check_name = 'partitions'};
my $begins = qr/timestamp with time zone '([^']*)', timestamp with time zone/;
my $called = qr/SELECT public\.snowflake_create_partitions\('public.days'::pg_catalog\.regclass, interval '(?:1 day|60 minutes)', $begins '[^']*', NULL\);/;
says($node, 'partitions', 'warning', qr/public.days.id \(until \d{4}-.*\)\|Run once, as the owner of the table: $called/, 'the last one is over, and rows go to the default partition');
is(query($node, qq{SELECT '$1' > now() + interval '59 minutes', '$1' < now() + interval '121 minutes'}), 't|t', 'others begin soon, though not at once')
  if query($node, $later) =~ $called;
query($node, q{INSERT INTO days VALUES (4, snowflake_min_id(now() + interval '20 hours'))});
query($node, qq{SET timezone = 'Asia/Kolkata'; SET datestyle = 'German'; @{[query($node, "SET timezone = 'America/Caracas'; SET datestyle = 'SQL, DMY'; $later")]}});
says($node, 'partitions', 'ok', qr/0 of 1/, 'once the remedy is typed');
is(query($node, q{SELECT count(*), bool_and(tableoid = 'days_rest'::regclass),
		(SELECT count(*) FILTER (WHERE p.from_id > max(d.id)) FROM snowflake_partitions('days', NULL) p) FROM days d}),
	'4|t|3', 'which makes partitions above all rows, and moves none');
query($node, q{INSERT INTO days (v) VALUES (5)});
says($node, 'partitions', 'ok', qr/0 of 1/, 'and until they begin, rows go to the default partition');

my $rest = q{DROP TABLE days;
	CREATE TABLE days (v integer, id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE days_rest PARTITION OF days DEFAULT PARTITION BY RANGE (id);
	CREATE TABLE days_rest_1 PARTITION OF days_rest DEFAULT;} . sprintf($partitions, '1 day', ("- interval '3 days'") x 2);
query($node, "$rest; INSERT INTO days (v) VALUES (1); CREATE TABLE checked (v integer CHECK (v > 0))");
my $locker = begin_session($node, 'BEGIN; LOCK TABLE days_rest_1, checked');
my $call = query($node, "SET lock_timeout = '1s'; $later");
like($call, $called, 'a locked partition is not waited for, nor another table');
is(query($node, qq{SELECT '$1' > now() + interval '1 day'}), 't', 'others begin a day later then') if $call =~ $called;
$locker->query_safe('ROLLBACK');
$locker->quit;
query($node, $call);
says($node, 'partitions', 'ok', qr/0 of 1/, 'once that is typed');

# rows of a wrong clock are not waited for
query($node, $rest =~ s/nextval\(\)/nextval('javascript')/r . q{; INSERT INTO days (v) VALUES (1)});
query($node, q{INSERT INTO days VALUES (2, snowflake_min_id(now() + interval '100 days', 'javascript'))});
query($node, q{INSERT INTO days VALUES (3, 1::bigint << 60)});
says($node, 'partitions', 'warning', qr/public.days.id \(until .*\|If the default or .*: SELECT \* FROM public\.snowflake_renumber\('public.days'::pg_catalog\.regclass, 'id'::pg_catalog\.name, '\d+'::bigint, '\d+'::bigint, false\);$/,
	'rows far ahead are to get new IDs first');
query($node, query($node, $later));
query($node, query($node, $later));
says($node, 'partitions', 'ok', qr/0 of 1/, 'once the two remedies are typed');
is(query($node, q{SELECT count(*), count(*) FILTER (WHERE id < snowflake_min_id(now() + interval '1 hour', 'javascript')) FROM days}), '3|2',
	'and one that is no ID of the layout is in nobody\'s way');
query($node, 'DROP TABLE checked');
my $over = 'DROP TABLE days; CREATE TABLE days (v integer, id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);'
  . sprintf($partitions, '1 day', ("- interval '3 days'") x 2);
query($node, $over);
says($node, 'partitions', 'error', qr/public.days.id \(until/, 'or nowhere');
refused($node, 'INSERT INTO days (v) VALUES (1)', '23514', qr/no partition of relation "days" found for row/, 'so that inserts fail');
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT.*') FROM snowflake_status() WHERE check_name = 'partitions'}));
query($node, "INSERT INTO days (v) VALUES (1); $over");
query($node, sprintf($partitions, '1 day', ('') x 2));
says($node, 'partitions', 'warning',
	qr/public.days.id \(until .*\|.*: SELECT public\.snowflake_create_partitions\('public.days'::pg_catalog\.regclass, interval '1 day', pg_catalog\.now\(\), pg_catalog\.now\(\) OPERATOR\(pg_catalog\.\+\) interval '3 day', NULL\);$/,
	'the last one is that of now');
says($node, 'partitions', 'ok', qr/0 of 0 columns .*; \d+ not looked at/, 'not for those who may not read the table',
	as => 'SET ROLE mallory;');
{
	my $locker = begin_session($node, 'BEGIN; LOCK TABLE days');
	says($node, 'partitions', 'ok', qr/0 of 0 columns .*; 1 not looked at/, 'it waits for no lock',
		as => 'SET statement_timeout = 60000;');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
}
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT.*') FROM snowflake_status() WHERE check_name = 'partitions'}));
says($node, 'partitions', 'ok', qr/0 of 1/, 'once the remedy is typed');
is(query($node, q{SELECT count(*) FROM snowflake_partitions('days')}), '5', 'which makes more of the same length');
foreach my $step ('1 month', '2 years', '1 week', '90 minutes')
{
	query($node, q{DROP TABLE days; CREATE TABLE days (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(3)) PARTITION BY RANGE (id)});
	query($node, sprintf($partitions =~ s/\)\}?$//r . q{, current_setting('snowflake.shard_layout'))}, $step, ('') x 2));
	says($node, 'partitions', 'warning', qr/public.days.id \(until/, "$step, of a shard");
	query($node, query($node, q{SELECT substring(remedy FROM 'SELECT.*') FROM snowflake_status() WHERE check_name = 'partitions'}));
	says($node, 'partitions', 'ok', qr/0 of 1/, 'once the remedy is typed');
}
query($node, q{DROP TABLE days; CREATE TABLE days (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE days_all PARTITION OF days FOR VALUES FROM (0) TO (MAXVALUE)});
says($node, 'partitions', 'ok', qr/0 of 1/, 'one without an end');
query($node, q{DROP TABLE days; CREATE TABLE days (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	SELECT snowflake_create_partitions('days', '1 year', '2060-01-01', '2061-01-01')});
says($node, 'partitions', 'error', qr/public.days.id \(has none for the present\)\|Run this now/, 'all begin later');
query($node, 'CREATE TABLE days_rest PARTITION OF days DEFAULT');
says($node, 'partitions', 'ok', qr/0 of 1/, 'and a default partition takes what comes before');
query($node, q{DROP TABLE days_rest; SELECT snowflake_create_partitions('days', '1 day', now() - interval '3 days', now() - interval '2 days')});
says($node, 'partitions', 'error', qr/public.days.id \(until/, 'a gap where the present is');
query($node, sprintf($partitions, '1 day', ('') x 2));
says($node, 'partitions', 'warning', qr/public.days.id \(until/, 'a gap after the present');
query($node, q{DROP TABLE days; CREATE TABLE days (id bigint DEFAULT snowflake_nextval(), v integer, PRIMARY KEY (id, v)) PARTITION BY RANGE (v)});
says($node, 'partitions', 'ok', qr/0 of 0/, 'a table that is divided by another column');
query($node, 'DROP TABLE days');

# Tables that are nested are each visited once.
my %scans;

query($node, 'CREATE TABLE chain_0 (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id)');
foreach my $depth (0, 100, 300)
{
	query($node, qq{DO \$\$ BEGIN
			FOR i IN (SELECT count(*) FROM pg_class WHERE relname ~ '^chain_') .. $depth LOOP
				EXECUTE format('CREATE TABLE chain_%s PARTITION OF chain_%s DEFAULT PARTITION BY RANGE (id)', i, i - 1);
			END LOOP;
		END \$\$});
	$scans{$depth} = catalog_scans($node, 'SELECT count(*) FROM snowflake_status()');
}
cmp_ok($scans{300} - $scans{0}, '<', 5 * ($scans{100} - $scans{0}),
	'three times as many nested tables cost about three times as much');
query($node, 'DROP TABLE chain_0');

# ---- rows that are not of this server ----

my $above = q{INSERT INTO %s (id) SELECT snowflake_min_id(clock_timestamp() + interval '1 day') + (%d << 12) + 7 RETURNING id};
query($node, sprintf($above, 't', 2));
says($node, 'rows above', 'ok', qr/0 of 1/, 'one of another node');
my $twin = query($node, sprintf($above, 't', 1));
says($node, 'rows above', 'error', qr/1 of 1 columns .*: public.t.id \($twin\); 1 not looked at\|If another server made these rows, give it another node id: .*If the default or this server had another layout, set that again\./, 'one of ours');
says($node, 'rows above', 'ok', qr/0 of 0 columns .*; 2 not looked at/,
	'tables that the caller may not read', as => 'SET ROLE mallory;');
says($node, 'column types', 'ok', qr/0 of 0 columns .*; 2 not looked at/,
	'are not named to him', as => 'SET ROLE mallory;');
query($node, 'REVOKE SELECT ON pg_catalog.pg_subscription_rel FROM PUBLIC');
says($node, $_, 'error', qr/the catalogs cannot be read: permission denied for table pg_subscription_rel\|See the server's log/, 'a catalog that the caller may not read', as => 'SET ROLE mallory;')
  foreach 'column types', 'rows above';
query($node, 'GRANT SELECT ON pg_catalog.pg_subscription_rel TO PUBLIC');
query($node, 'GRANT SELECT (id) ON t TO mallory');
says($node, 'rows above', 'error', qr/public.t.id/, 'one column is enough', as => 'SET ROLE mallory;');
query($node, q{CREATE SEQUENCE seen; GRANT USAGE ON SEQUENCE seen TO mallory;
	CREATE FUNCTION sees(bigint) RETURNS boolean LANGUAGE SQL AS 'SELECT nextval(''seen'') > 0';
	ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY see ON t USING (sees(id))});
query($node, "SET ROLE mallory; SELECT id FROM t WHERE id = $twin");
my $seen = query($node, 'SELECT last_value, is_called FROM seen');
like($seen, qr/\|t$/, 'a policy is run by a query');
says($node, 'rows above', 'ok', qr/2 not looked at/, 'a table with policies', as => 'SET ROLE mallory;');
is(query($node, 'SELECT last_value, is_called FROM seen'), $seen, 'of which none is run');
query($node, 'DROP POLICY see ON t; ALTER TABLE t DISABLE ROW LEVEL SECURITY');
query($node, q{CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE part PARTITION OF parts DEFAULT;
	CREATE TABLE bare_parts (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
	CREATE TABLE bare_part PARTITION OF bare_parts DEFAULT;
	ALTER TABLE bare_part ADD UNIQUE (id)});
my $holder = $node->background_psql('postgres');
foreach my $lock ('LOCK TABLE t', 'LOCK TABLE part', 'REINDEX INDEX part_pkey', 'REINDEX INDEX t_pkey')
{
	$holder->query_safe("BEGIN; LOCK TABLE bare_part; $lock");
	says($node, 'rows above', $lock =~ /part/ ? 'error' : 'ok', qr/ of 1 columns .*3 not looked at/,
		"not waited for: $lock", as => 'SET statement_timeout = 60000;');
	$holder->query_safe('ROLLBACK');
}
$holder->query_safe('BEGIN');
$holder->query_safe(q{SELECT count(*) FROM snowflake_status()});
is(query($node, q{SELECT string_agg(DISTINCT relation::regclass::text, ' ') FROM pg_locks
	WHERE relation IN ('t'::regclass, 'parts'::regclass, 'part'::regclass, 'part_pkey'::regclass, 'bare_parts'::regclass, 'bare_part'::regclass)}), '',
	'and it keeps no lock');
$holder->query_safe('ROLLBACK');
$holder->quit;
query($node, 'DROP TABLE parts, bare_parts');
says($node, 'rows above', 'error', qr/public.t.id/, 'read-only',
	as => 'SET default_transaction_read_only = on;');
query($node, 'ALTER TABLE t DROP CONSTRAINT t_pkey');
says($node, 'rows above', 'ok', qr/2 not looked at/, 'without an index');
query($node, "DELETE FROM t WHERE id = $twin; ALTER TABLE t ADD PRIMARY KEY (id)");

# keys of another layout than the configured one, which their default names
my $js = q{INSERT INTO js SELECT snowflake_min_id(clock_timestamp() + interval '%s', 'javascript') + (%d << 5) RETURNING id};
query($node, q{CREATE TABLE js (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'));
	INSERT INTO js SELECT FROM generate_series(1, 100)});
query($node, sprintf($js, '1 hour', 2));
says($node, 'rows above', 'ok', qr/0 of 2 columns .*; 1 not looked at/, 'our own ones of another layout, and one of another node');
$twin = query($node, sprintf($js, '1 hour', 1));
says($node, 'rows above', 'error', qr/: public.js.id \($twin\); .*: SELECT \* FROM public\.snowflake_renumber\('public.js'::pg_catalog\.regclass, 'id'::pg_catalog\.name, '\d+'::bigint, '$twin'::bigint, false\);$/,
	'one of ours');
my $others = query($node, 'SELECT count(*) FROM js');
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT \* FROM public\.snowflake_renumber.*') FROM snowflake_status() WHERE check_name = 'rows above'}));
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'once the remedy is typed');
is(query($node, q{SELECT count(*), count(*) FILTER (WHERE id BETWEEN snowflake_min_id(now() - interval '1 minute', 'javascript')
	AND snowflake_min_id(now() + interval '1 minute', 'javascript')) FROM js}), "$others|$others",
	'the rows of the future have new IDs');
query($node, sprintf($js, '1 hour', 2));
$twin = query($node, sprintf($js, '1 second', 1));
says($node, 'rows above', 'error', qr/: public.js.id \($twin\); .*: SELECT public\.snowflake_advance\('$twin'::bigint, 'javascript'\);$/,
	'one that stops nothing');
like(query($node, query($node, q{SELECT substring(remedy FROM 'SELECT \* FROM public\.snowflake_node_conflicts.*?;') FROM snowflake_status() WHERE check_name = 'rows above'})),
	qr/^$twin\|/, 'the remedy shows the rows');
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT public\.snowflake_advance.*') FROM snowflake_status() WHERE check_name = 'rows above'}));
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'once the remedy is typed');
query($node, "DELETE FROM js WHERE id = $twin");
$twin = query($node, sprintf($js, '2 days', 2));
says($node, 'rows above', 'warning', qr/: public.js.id \($twin, more than a day ahead\); .*\|If the default or this server had another layout, set that again/,
	'one of another node that no clock explains');
query($node, "DELETE FROM js WHERE id = $twin; INSERT INTO js VALUES (1::bigint << 60)");
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'one that is wider than the layout');
query($node, q{ALTER TABLE js ALTER id SET DEFAULT snowflake_nextval('java' || 'script')});
says($node, 'rows above', 'ok', qr/0 of 1 columns .*; 2 not looked at/, 'a layout that cannot be told');

# a default that was changed to another layout
query($node, q{DROP TABLE js; CREATE TABLE moved (id bigint PRIMARY KEY DEFAULT snowflake_nextval('sonyflake'));
	INSERT INTO moved DEFAULT VALUES});
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'as the layout of the default has it');
query($node, 'ALTER TABLE moved ALTER id SET DEFAULT snowflake_nextval()');
says($node, 'rows above', 'warning', qr/: public.moved.id \(\d+, more than a day ahead\)/, 'new IDs will reach those that are there');
query($node, q{ALTER TABLE moved ALTER id SET DEFAULT snowflake_nextval('twitter')});
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'a layout with larger IDs');
query($node, q{INSERT INTO moved DEFAULT VALUES; ALTER TABLE moved ALTER id SET DEFAULT snowflake_nextval('discord')});
says($node, 'rows above', 'error', qr/: public.moved.id \(\d+\)/, 'new ones of this node');
query($node, 'DROP TABLE moved');
query($node, q{CREATE TABLE days (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript')) PARTITION BY RANGE (id)});
query($node, sprintf($partitions, '1 day', ('') x 2));
says($node, 'partitions', 'warning', qr/public.days.id \(until/, 'partitions by keys of another layout');
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT.*') FROM snowflake_status() WHERE check_name = 'partitions'}));
says($node, 'partitions', 'ok', qr/0 of 1/, 'once the remedy is typed');
is(query($node, q{INSERT INTO days DEFAULT VALUES
	RETURNING tableoid::regclass::text = 'days_p' || to_char(snowflake_timestamp(id, 'javascript') AT TIME ZONE 'UTC', 'YYYY_MM_DD')}),
	't', 'the one of now');
query($node, 'DROP TABLE days');

# a publisher with the same node id, whose IDs are ahead
my $publisher = start_server('publisher', 'wal_level = logical');
query($publisher, q{CREATE TABLE arrivals (id bigint CONSTRAINT meant PRIMARY KEY DEFAULT snowflake_nextval());
	CREATE PUBLICATION p FOR ALL TABLES});
query($node, q{CREATE TABLE arrivals (id bigint CONSTRAINT meant PRIMARY KEY DEFAULT snowflake_nextval())});
query($node, q{CREATE SUBSCRIPTION arriving CONNECTION '} . $publisher->connstr
	. q{ dbname=postgres' PUBLICATION p});
$node->wait_for_subscription_sync($publisher, 'arriving');
says($node, 'rows above', 'ok', qr/0 of 2 columns/, 'a subscription that has brought nothing');
query($publisher, 'INSERT INTO arrivals DEFAULT VALUES');
$publisher->wait_for_catchup('arriving');
says($node, 'rows above', 'error', qr/public\.arrivals\.id \(\d+, has rows of the subscription arriving\)/,
	'one whose publisher has our node id');
says($node, 'subscriptions', 'ok', qr/0 of 3 columns/, 'which does not fail');

# ... and makes an ID that this server has made, too
query($node, 'ALTER SUBSCRIPTION arriving DISABLE');
query($node, q{ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'; SELECT pg_reload_conf()});
$twin = query($publisher, 'INSERT INTO arrivals DEFAULT VALUES RETURNING id');
query($node, "INSERT INTO arrivals VALUES ($twin)");
query($node, 'ALTER SUBSCRIPTION arriving ENABLE');
$node->poll_query_until('postgres', 'SELECT apply_error_count > 2 FROM pg_stat_subscription_stats') or die 'it does not fail';
says($node, 'subscriptions', 'warning', qr/1 of 3 columns .*: public\.arrivals\.id \(arriving: \d+ errors\)/, 'it fails again and again');
my ($remedy) = query($node, q{SELECT remedy FROM snowflake_status() WHERE check_name = 'subscriptions'});
my ($show, $renumber) = $remedy =~ /(SELECT node_id .*?;).*(SELECT \* FROM public\.snowflake_renumber.*;)$/;
is(query($node, $show), query($publisher, $show), 'the two have one node id');
my ($in_the_way) = slurp_file($node->logfile) =~ /(?:duplicate key value|conflict=insert_exists)(?s:.*?)[Kk]ey \(id\)=\((\d+)\)/;
is($in_the_way, $twin, 'the log names the ID');
query($node, "ALTER SYSTEM SET snowflake.node_id = '2'");
$node->restart;
refused($node, $renumber, '42703', qr/column "id" does not exist/, 'the ID is to be filled in');
query($node, $renumber =~ s/\bID\b/$in_the_way/gr);
$publisher->wait_for_catchup('arriving');
is(query($node, q{SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE snowflake_node(id) = 2) FROM arrivals}), '3|3|1', 'the row has come, and no ID is there twice');
$node->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'subscriptions'}) or die 'it still fails';
query($node, 'ALTER SYSTEM RESET ALL');
$node->stop;
start_with_clock($node, 0);
query($node, 'DROP SUBSCRIPTION arriving; DROP TABLE arrivals');
$publisher->stop;
query($node, 'CREATE TABLE child () INHERITS (t)');
says($node, 'rows above', 'ok', qr/3 not looked at/, 'a table with a child that has no index');
query($node, 'ALTER TABLE child ADD UNIQUE (id)');
query($node, sprintf($above, 'child', 1));
says($node, 'rows above', 'error', qr/public.t.id/, 'one whose child has a row of ours');
query($node, 'DROP TABLE child');
$node->stop;
start_with_clock($node, 0);
$twin = query($node, sprintf($above, 't', 1));
says($node, 'rows above', 'error', qr/public.t.id \($twin\)/, 'before the mark is loaded, by what is recorded');
query($node, "DELETE FROM t WHERE id = $twin");
is(complaints($node), '', 'all is well again');

# ---- the kernel's clock ----

my $nobody = qr/not known to be right: the kernel says that no program keeps the wall clock right/;
my $silent = qr/not known to be right: the kernel does not say \(Operation not permitted\)/;

sub set_clock_check
{
	my ($value) = @_;

	set_conf($node, "snowflake.clock_check = '$value'");
	$node->poll_query_until('postgres', "SELECT current_setting('snowflake.clock_check') = '$value'") or die;
	return;
}

kernel_says('unsynchronized 16000000 15000000');
says($node, 'clock synchronisation', 'ok', qr/$nobody; snowflake.clock_check = 'warn' makes this a warning\|/, 'nobody keeps it right, as in a container');
kernel_says('forbidden');
says($node, 'clock synchronisation', 'ok', qr/$silent; snowflake.clock_check/, 'nobody says');
says($node, 'summary', 'ok', qr/all 2\d checks are ok/, 'and nobody asked for it');
set_clock_check('warn');
says($node, 'clock synchronisation', 'warning', qr/$silent\|Let this server call adjtimex\(\), which some containers forbid\.$/, 'where it was asked for');
says($node, 'summary', 'warning', qr/1 of 2\d checks need attention: clock synchronisation/, 'which counts');
set_clock_check('error');
says($node, 'clock synchronisation', 'error', qr/$silent\|/, 'where that is a condition');
kernel_says('unsynchronized');
says($node, 'clock synchronisation', 'error', qr/$nobody\|Start chrony, ntpd or systemd-timesyncd on this machine, or on the host of this container\.$/, 'likewise');
set_clock_check('off');
kernel_says('synchronized 1500 20');

# ---- the wall clock ----

# Call until a step of the clock is counted.
sub meet_step
{
	my ($column) = @_;
	my $before = query($node, "SELECT $column FROM pg_stat_snowflake");

	$node->poll_query_until('postgres', "SELECT snowflake_nextval() > 0
		AND (SELECT $column FROM pg_stat_snowflake) > $before") or die "no call has met the step: $column";
	return;
}


query($node, $next);
set_clock($node, -30);
says($node, 'clock steps', 'warning', qr/was set back by (?:29|30) s, which no call has met yet.*\|See what sets the clock of this machine, such as a suspended virtual machine or an ntpdate job, and let chrony or ntpd slew the clock instead\.$/, 'a step back, at once');
says($node, 'drift', 'warning', qr/ahead of the clock: calls wait until $stamp\|/, 'a clock that is waited for, and until when');
set_clock($node, -1);
meet_step('clock_steps_back');
set_clock($node, 0);
meet_step('clock_steps_forward');
set_clock($node, -30);
says($node, 'mark', 'warning', qr/loaded, at .* s ahead of the clock/, 'likewise');
set_clock($node, 0);
query($node, "$next; SELECT snowflake_stat_reset()");
set_clock($node, -3600);
says($node, 'drift', 'error', qr/1 h ahead of the clock: calls are refused until $stamp\|Correct the server's clock\. IDs resume when the clock reaches $stamp\. If the clock is right now, and was wrong before, stop all clients, restart this server, and see the remedy of the check "mark": SELECT \* FROM public\.snowflake_status\(\);$/,
	'one that is not, and the way back if the clock is right');
says($node, 'mark', 'error', qr/loaded, at .*1 h ahead of the clock/, 'further than the reserve');
says($node, 'capacity', 'ok', qr/in the last \d+ m?s all sessions together have waited 0 ms/,
	'that a clock was set back has nothing to do with time that passes');
is(query($node, 'SELECT clock_steps_back FROM pg_stat_snowflake'), '0', 'no call has met the step');
refused($node, $next, '58000', qr/behind/, 'and so it is');
says($node, 'refusals', 'warning', qr/1 for the clock; the last one that was not read-only \d+ m?s ago\|See the errors of these calls in the server's log\. .*SELECT public\.snowflake_stat_reset\(\);$/, 'by kind');
is(query($node, 'SELECT clock_steps_back, max_clock_step_back BETWEEN 3590000 AND 3610000 FROM pg_stat_snowflake'), '1|t',
	'the call that is refused has seen the step');
says($node, 'clock steps', 'warning', qr/1 back, by up to 1 h; /, 'which shows');
set_clock($node, 7200);
says($node, 'clock steps', 'error', qr/jumped forward by 2 h(?: 1 min)?: calls are refused\|If the clock is wrong, correct it: IDs resume by themselves.*accept\('clock'::pg_catalog\.text\)/, 'a jump');
set_clock($node, 0);
meet_step('clock_steps_forward');
says($node, 'clock steps', 'warning', qr/\d+ back, by up to .*; \d+ forward, .* seen at .*\|See what sets the clock of this machine, such as a suspended virtual machine or an ntpdate job, and let chrony or ntpd slew the clock instead\. To forget these, run as a superuser: SELECT public\.snowflake_stat_reset\(\);$/, 'steps within a day');
says($node, 'drift', 'ok', qr/ahead of the clock/, 'and it goes on');
query($node, 'SELECT snowflake_stat_reset()');
refused($node, "BEGIN READ ONLY; $next", '25006', qr/read-only/, 'a refusal of another kind');
says($node, 'refusals', 'ok', qr/none within a day but for read-only transactions; since the counts began 1 read-only\|/,
	'which is the client\'s affair');
refused($node, 'SELECT snowflake_shard_nextval(4)', '55000', qr/shard 4/, 'and one more');
says($node, 'refusals', 'warning', qr/1 for the configuration, 1 read-only; the last one/, 'each by its kind');
query($node, 'SELECT snowflake_stat_reset()');
is(complaints($node), '', 'after a reset nothing of that is left');

# ---- the mark ----

query($node, 'CREATE DATABASE far TEMPLATE template1');
query($node, q{SELECT setval('snowflake_state.snowflake_mark', (extract(epoch FROM clock_timestamp() + interval '1 day') * 1000)::bigint)},
	database => 'far');
says($node, 'mark', 'error', qr/not loaded; at .*1 day ahead of the clock.*SELECT \* FROM public\.snowflake_reset_mark\(timestamp with time zone 'TIME'\);$/,
	'one in the far future', database => 'far');
refused($node, $next, '58000', qr/behind the mark/, 'which is refused', database => 'far');
query($node, 'SELECT snowflake_stat_reset()');
query($node, 'ALTER SEQUENCE snowflake_state.snowflake_mark SET UNLOGGED', database => 'far');
says($node, 'mark', 'error', qr/cannot be read: "snowflake_mark" is not a logged sequence\|Run as a superuser: ALTER SEQUENCE snowflake_state.snowflake_mark SET LOGGED;$/,
	'one that is damaged', database => 'far');
says($node, 'recorded configuration', 'error', qr/cannot be read: /, 'nor can this', database => 'far');
query($node, 'ALTER SEQUENCE snowflake_state.snowflake_mark SET LOGGED; ALTER SEQUENCE snowflake_state.snowflake_recorded_epoch SET UNLOGGED',
	database => 'far');
says($node, 'recorded configuration', 'error', qr/cannot be read: "snowflake_recorded_epoch" .*\|Run as a superuser: ALTER SEQUENCE snowflake_state.snowflake_recorded_epoch SET LOGGED;$/,
	'a record that is damaged, where the mark is not', database => 'far');
query($node, query($node, q{SELECT substring(remedy FROM 'ALTER.*') FROM snowflake_status() WHERE check_name = 'recorded configuration'},
	database => 'far'), database => 'far');
says($node, 'recorded configuration', 'ok', qr/the layouts are those/, 'once the remedy is typed', database => 'far');

# a mark that is lost, where a configuration is recorded; a restart has cleared the
# published mark
query($node, q{CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
	INSERT INTO t SELECT snowflake_max_id(clock_timestamp() - interval '1 h');
	SELECT setval('snowflake_state.snowflake_mark', 1, false)}, database => 'far');
says($node, 'mark', 'warning', qr/not set, though a configuration is recorded: .*\|Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);$/,
	'one that is lost', database => 'far');
says($node, 'recorded configuration', 'warning', qr/not in force.*\|Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);$/,
	'without which a record is not in force', database => 'far');
my $layout = query($node, q{SELECT last_value FROM snowflake_state.snowflake_recorded_layout}, database => 'far');
query($node, q{SELECT setval('snowflake_state.snowflake_recorded_layout', last_value - 1)
	FROM snowflake_state.snowflake_recorded_shard_layout}, database => 'far');
says($node, 'recorded configuration', 'warning', qr/not in force.*was filled with.*\|Run on the primary, as a superuser: SELECT \* FROM public\.snowflake_recover\(\);$/,
	'and is written over, if it is another one', database => 'far');
my $other = query($node, 'SELECT last_value FROM snowflake_state.snowflake_recorded_layout', database => 'far');
like(query($node, 'SELECT * FROM snowflake_recover()', database => 'far'),
	qr/^mark\|not loaded: epoch or layout of this server differs from what is recorded.*\|.*SELECT public\.snowflake_accept\('configuration'::pg_catalog\.text\);/m,
	'... but not by snowflake_recover(), which says what to do');
is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_recorded_layout', database => 'far'), $other, '... it stays');
query($node, q{SET client_min_messages = error; SELECT snowflake_accept('configuration'); SELECT snowflake_stat_reset()}, database => 'far');
is(query($node, 'SELECT last_value FROM snowflake_state.snowflake_recorded_layout', database => 'far'), $layout, '... unless an administrator accepts what is configured');
query($node, "SELECT setval('snowflake_state.snowflake_recorded_layout', $layout)", database => 'far');
query($node, query($node, q{SELECT substring(remedy FROM 'SELECT[^;]*;') FROM snowflake_status() WHERE check_name = 'mark'}, database => 'far'),
	database => 'far');
is(complaints($node, database => 'far'), '', 'once the remedy is typed');
query($node, 'DROP DATABASE far');

# a mark that is lost while the server runs
query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)});
says($node, 'mark', 'warning', qr/loaded, at .*, and lost from its sequence.*\|.*SELECT public\.snowflake_nextval\(\);$/, 'lost, and known');
says($node, 'recorded configuration', 'ok', qr/the layouts are those/, 'with the record in force');
query($node, $next);
is(complaints($node), '', 'which the next session mends');

# a mark that is locked
my $dropper = begin_session($node, 'SET client_min_messages = warning; BEGIN; DROP EXTENSION snowflake CASCADE');
my $dropping = query($node, q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%DROP EXTENSION%' AND pid <> pg_backend_pid()});
foreach my $check ('mark', 'recorded configuration')
{
	says($node, $check, 'warning', qr/not looked at: .*locked.*\|.*SELECT pg_catalog.pg_terminate_backend\($dropping\);$/,
		'not waited for; the remedy tells who it is', as => q{SET lock_timeout = '1s';});
}
$dropper->query_safe('ROLLBACK; BEGIN; ALTER SEQUENCE snowflake_state.snowflake_recorded_epoch OWNER TO CURRENT_USER');
says($node, 'mark', 'warning', qr/not looked at: .*locked/, 'nor is one of the record', as => q{SET lock_timeout = '1s';});
$dropper->query_safe("ROLLBACK; BEGIN; DROP EXTENSION snowflake CASCADE; PREPARE TRANSACTION 'gone'");
$dropper->quit;
says($node, 'mark', 'warning', qr/not looked at: .*locked.*\|The transaction is prepared\. End it as its coordinator has decided: COMMIT PREPARED 'gone'; or ROLLBACK PREPARED 'gone';$/,
	'also if it is prepared', as => q{SET search_path = snowflake_state, public; SET lock_timeout = '1s';});
query($node, "ROLLBACK PREPARED 'gone'");
# a reader of the mark holds up DDL, and so all others: it is the one to be ended
my $reading = begin_session($node, q{BEGIN; SELECT pg_sequence_last_value('snowflake_state.snowflake_mark')});
my $reader = query($node, q{SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'});
my $altering = $node->background_psql('postgres', on_error_stop => 0);
$altering->query_until(qr/altering/, "\\echo altering\nALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO CURRENT_USER;\n");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE relation = 'snowflake_state.snowflake_mark'::regclass AND NOT granted}) or die;
says($node, 'mark', 'warning', qr/not looked at: .*locked.*\|.*SELECT pg_catalog.pg_terminate_backend\($reader\);$/, 'nor is one for which DDL waits');
$reading->query_safe('ROLLBACK');
$_->quit foreach $altering, $reading;
query($node, 'SELECT snowflake_create_feed()');
my $feeding = begin_session($node, 'BEGIN; LOCK TABLE snowflake_feed');
my $feeder = query($node, q{SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'});
says($node, 'feed', 'warning', qr/not looked at: another session has locked its table\|.*SELECT pg_catalog.pg_terminate_backend\($feeder\);$/, 'nor is the feed waited for');
$feeding->query_safe('ROLLBACK');
$feeding->quit;
query($node, 'DROP TABLE snowflake_feed');
query($node, "CREATE TABLE bystander (); BEGIN; LOCK TABLE bystander; PREPARE TRANSACTION 'bystander'");
is(complaints($node), '', 'and no prepared one that has nothing to do with it');
query($node, "ROLLBACK PREPARED 'bystander'; DROP TABLE bystander");
is(complaints($node), '', 'once that has ended, all is well');

# ---- the configuration file has a wrong node id ----

foreach my $case ([ 'abc', qr/snowflake.node_id is "abc", which is refused: It must be a number from 0 up to what the layout has room for/ ],
	[ 'env:SF_NO_SUCH_NAME', qr/snowflake.node_id is "env:SF_NO_SUCH_NAME", which is refused: The environment variable "SF_NO_SUCH_NAME" of the server is not set/ ],
	[ '5000', qr/snowflake.node_id is "5000", which is refused: snowflake.node_id is 5000, and the layout has room for 0 to 1023/ ])
{
	my ($value, $pattern) = @$case;
	my $logged = -s $node->logfile;

	set_conf($node, "snowflake.node_id = '$value'");
	like_log($node, qr/invalid value for parameter "snowflake.node_id"/, $logged, "$value is refused");
	says($node, 'node id', 'warning', qr/1; in the configuration files $pattern.*\|To keep the old one, add this line to \/\S*\/postgresql.conf:\nsnowflake.node_id = '1'\nand run:\nALTER SYSTEM RESET snowflake.node_id;\nSELECT pg_catalog\.pg_reload_conf\(\);$/, 'which shows');
}
set_conf($node, "snowflake.node_id = '1'");
$node->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'node id'})
  or die 'the node id stays refused';

# one in another encoding, or cut within a character, does not break the query
query($node, q{CREATE DATABASE utf8 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
query($node, 'CREATE EXTENSION snowflake', database => 'utf8');
foreach my $value ('x' . "\xc3\xa4" x 50, "\xe4")
{
	my $logged = -s $node->logfile;

	set_conf($node, "snowflake.node_id = '$value'");
	like_log($node, qr/invalid value for parameter "snowflake.node_id"/, $logged, 'no ASCII: it is refused');
	says($node, 'node id', 'warning', qr/snowflake.node_id is "x?\?+", which is refused/,
		'which shows with ? for its characters', as => q{SET client_encoding = 'LATIN1';}, database => 'utf8');
}
query($node, 'DROP DATABASE utf8');
set_conf($node, "snowflake.node_id = '1'");
$node->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'node id'})
  or die 'the node id stays refused';

# ---- databases ----

foreach my $name ('second', 'third')
{
	query($node, "CREATE DATABASE $name TEMPLATE template1");
	query($node, $next, database => $name);
}
says($node, 'databases', 'warning', qr/3 of 3.*max_databases = '6'.*its place at once: DROP DATABASE/s, 'no room');
query($node, 'SELECT snowflake_stat_reset(); CREATE DATABASE fourth TEMPLATE template1');
says($node, 'databases', 'error', qr/3 of 3.*: calls are refused in this one\|.*max_databases/s, 'for another one', database => 'fourth');
refused($node, $next, '53400', qr/too many databases/, 'so it is', database => 'fourth');
says($node, 'refusals', 'warning', qr/1 for the configuration/, 'which counts');
query($node, 'SELECT snowflake_stat_reset(); DROP DATABASE fourth');
query($node, 'DROP DATABASE third');
says($node, 'databases', 'ok', qr/2 of 3/, 'one that is gone makes room');
query($node, 'DROP DATABASE second');

# ---- a standby, and a copied directory ----

my $standby = standby_of($node, 'standby', "snowflake.node_id = '2'");
{
	local $ENV{LD_PRELOAD} = preload();
	$standby->start;
}
$node->wait_for_catchup($standby);
is(complaints($standby), '', 'a standby: nothing but ok');
says($standby, 'role', 'ok', qr/standby/, 'knows what it is');
says($standby, 'node id', 'ok', qr/a standby makes no IDs; once it is promoted, it issues as 2\|/, 'and what it will be');
says($standby, 'shards', 'ok', qr/once this standby is promoted, it makes IDs of 3\|/, 'with which shards');
is(query($standby, q{SELECT string_agg(check_name, ', ') FROM snowflake_status() WHERE found = 'a standby makes no IDs'}),
	'lease, clock offset, clock steps, drift, capacity, other layouts, mark, databases, column layouts, subscriptions, partitions, rows above',
	'and what makes no sense there');
$standby->stop;
$node->stop;

foreach my $check ('warn', 'error')
{
	my $copy = PostgreSQL::Test::Cluster->new("copy_$check");
	$copy->init_from_backup($node, 'standby');
	$copy->append_conf('postgresql.conf', "snowflake.copy_check = '$check'");
	$copy->start;
	says($copy, 'copied data directory', $check eq 'warn' ? 'warning' : 'error',
		qr/another server with these data may have.*accept\('copy'::pg_catalog\.text\)/s, 'a copy');
	query($copy, q{SELECT snowflake_accept('copy')});
	says($copy, 'copied data directory', 'ok', qr/no copy/, 'accepted');
	$copy->stop;
}

# ---- no node id; layouts near their end; capacity ----

# After a crash the mark lies ahead of the clock, here for longer than a call waits.
my $crashed = start_server('crashed', "snowflake.reserve = '60s'", 'restart_after_crash = on');
query($crashed, $next);
crash($crashed, 'walwriter');
says($crashed, 'mark', 'error', qr/not loaded; .*: calls are refused until .*\|If the clock is right, wait until it reaches .*: after a crash that takes at most/, 'after a crash');
refused($crashed, $next, '58000', qr/wall clock is \d+ (?:s|min) behind the mark.*\nHINT:  If the clock is right, wait until it reaches /s, 'as calls say');
$crashed->stop;

my $end = start_server('ending', "snowflake.node_id = ''");
says($end, 'node id', 'error', qr/node_id is not set.*\|If the other servers have a snowflake.registry, set the same one here, and restart this server\. Otherwise choose a number that no other server has, and add this line to \/\S*\/postgresql.conf:\nsnowflake.node_id = 'NUMBER'\nand run:\nSELECT pg_catalog\.pg_reload_conf\(\);$/, 'none');
query($end, 'CREATE DATABASE other');
query($end, 'CREATE EXTENSION snowflake', database => 'other');
refused($end, $next, '55000', qr/HINT:  If the other servers have a snowflake.registry, .* add this line to \/\S*\/postgresql.conf:(?!.*ALTER SYSTEM)/s,
	'the same hint, which names no file that is copied', database => 'other');
query($end, q{CREATE ROLE mallory; ALTER SYSTEM SET snowflake.node_id = ''});
refused($end, "SET ROLE mallory; $next", '55000', qr/add this line to postgresql.conf:(?!.*ALTER SYSTEM)/s,
	'where it is, is not for everybody', database => 'other');
$end->restart;
refused($end, $next, '55000', qr/and run:\nALTER SYSTEM RESET snowflake.node_id;\nSELECT pg_catalog\.pg_reload_conf/, 'unless one has it already', database => 'other');
query($end, 'ALTER SYSTEM RESET ALL');
$end->restart;
says($end, 'rows above', 'ok', qr/0 of 0 columns/, 'nothing to look for');
says($end, $_, 'ok', qr/shards is empty/, 'no shards, no end') foreach 'shard layout', 'shards';
my $end_log = -s $end->logfile;
set_conf($end, "snowflake.node_id = 'db'");
like_log($end, qr/invalid value for parameter "snowflake.node_id"/, $end_log, 'one that is refused');
says($end, 'node id', 'error', qr/node_id is not set; in the configuration files snowflake.node_id is "db", which is refused: /, 'is none, with the reason');
$end->append_conf('postgresql.conf', "snowflake.node_id = ''");
set_conf($end, "snowflake.shards = '3'");
$end->poll_query_until('postgres', q{SELECT current_setting('snowflake.shards') = '3'}) or die;
says($end, 'node id', 'ok', qr/for shards only/, 'shards need none');
set_conf($end, "snowflake.node_id = '5'");
$end->poll_query_until('postgres', q{SELECT current_setting('snowflake.node_id') = '5'}) or die;
says($end, 'node id', 'ok', qr/5 is configured/, 'set, and not taken yet');
$end->stop;
foreach my $case ([ 200, 'warning' ], [ 10, 'error' ], [ -10, 'error' ])
{
	my ($days, $status) = @$case;
	my $epoch = epoch_for($days);

	$end->append_conf('postgresql.conf',
		"snowflake.layout = 'timestamp:40 node:10 sequence:2 epoch:$epoch'\n"
		  . "snowflake.shard_layout = 'timestamp:40 shard:10 sequence:10 epoch:$epoch'");
	$end->append_conf('postgresql.conf', "snowflake.node_id = '6'") if $days < 0;
	$end->start;
	says($end, 'node id', 'ok', $days < 0 ? qr/6 is configured; before it was 5\|/ : qr/5 is configured\|/,
		$days < 0 ? 'another one' : 'the same one');
	says($end, $_, $status, qr/0\.\d years are left/, "$days days are left") foreach ('layout', 'shard layout');
	if ($days == 200)
	{
		query($end, 'SELECT snowflake_stat_reset(); SELECT count(snowflake_nextval()) FROM generate_series(1, 4000)');
		says($end, 'capacity', 'warning', qr/in the last \d+ m?s all sessions together have waited \d+ m?s for a full sequence\|Ask for IDs only where they are needed; let other servers make some; or choose a layout with more bits for the sequence\.$/, 'too many for the sequence');
	}
	elsif ($days == 10)
	{
		refused($end, $next, '55000', qr/differs from what is recorded/, 'filled with another layout');
		query($end, q{CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
			INSERT INTO t SELECT snowflake_max_id(clock_timestamp() + interval '1 day', 'snowflake')});
		says($end, 'rows above', 'warning', qr/not looked at: this server's layouts .*See the check "recorded configuration"/,
			'rows that it would decode wrongly');
		query($end, 'DROP TABLE t');
		says($end, 'recorded configuration', 'error',
			qr/IDs are refused here: snowflake.layout is ".*, and this database was filled with "(.*)"\. snowflake.shard_layout is ".*:\nsnowflake.layout = '\1'\nsnowflake.shard_layout = '.*'\nand restart this server\.\n.*snowflake_accept\('configuration'::pg_catalog\.text\)/,
			'which says with which');
		query($end, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)});
	}
	$end->stop;
}

# an epoch that has not come yet; before the first call, too
$end->append_conf('postgresql.conf', "snowflake.shard_layout = 'instagram'");
$end->append_conf('postgresql.conf', "snowflake.layout = 'timestamp:40 node:10 sequence:2 epoch:" . epoch_for(2**40 / 86400000 + 2) . "'");
$end->start;
says($end, 'layout', 'error', qr/it begins at $stamp.*: calls are refused\|Correct the server's clock. Or set the epoch in snowflake.layout/, 'one to come');
says($end, 'shard layout', 'ok', qr/years are left/, 'the other one has begun');
refused($end, $next, '58000', qr/wall clock is before the layout's epoch/, 'and so it is');
$end->stop;

# ---- a lease ----

delete $ENV{SHIM_KERNEL};
my $registry = PostgreSQL::Test::Cluster->new('registry');
$registry->init;
$registry->start;
query($registry, 'CREATE EXTENSION snowflake; CREATE ROLE worker SUPERUSER LOGIN');
says($registry, 'preload', 'error', qr/not preloaded/, 'a database that is no registry');
query($registry, 'CREATE EXTENSION snowflake_registry');
my $leased = new_server('leased', "snowflake.node_id = ''",
	sprintf("snowflake.registry = 'postgresql://worker:secret@/postgres?host=%s&port=%d'",
		$registry->host, $registry->port),
	"snowflake.lease_reserve = '6s'", "snowflake.lease_presence = '3s'",
	"snowflake.lease_timeout = '1s'", 'snowflake.lease_wait = 0', "snowflake.max_clock_wait = '10s'");
start_with_clock($leased, 1);
query($leased, 'CREATE EXTENSION snowflake');
wait_for_lease($leased, q{problem ~ 'never initialized'});
says($leased, 'lease', 'error', qr/searching: The registry was never initialized.*snowflake_registry\.init/, 'no registry yet');
says($leased, 'node id', 'error', qr/none is leased from "postgresql:\/\/.*\|See the check "lease"\.$/, 'and no node');
query($registry, q{SELECT snowflake_registry.init('snowflake')});
says($registry, 'preload', 'ok', qr/a registry, which needs no library/, 'a registry need not preload anything');
says($registry, 'preload', 'ok', qr/a registry, which needs no library/, 'whoever asks', as => 'SET ROLE nobody;')
  if query($registry, 'CREATE ROLE nobody; SELECT 1');
wait_for_lease($leased, "state = 'held'");
says($leased, 'lease', 'ok', qr/held until .*, to be extended at/, 'held');
says($leased, 'node id', 'ok', qr/\d+ is leased from "postgresql:\/\//, 'leased');
unlike(query($leased, 'SELECT * FROM snowflake_status()'), qr/secret/, 'no password is shown');
says($leased, 'clock offset', 'warning', qr/\d+ ms ahead of the registry/, 'a second');
$registry->stop;
wait_for_lease($leased, q{remedy ~ 'start the registry'});
says($leased, 'lease', 'warning', qr/held until.*: .*\|Do not restart this server before \S+, unless the registry answers: until then it goes on making IDs\. If other servers lease elsewhere .*, start the registry's server/, 'held, while the registry is gone');
wait_for_lease($leased, q{until < clock_timestamp() - interval '1 s'});
wait_for_lease($leased, q{state = 'expired' AND next_renewal IS NULL AND remedy ~ 'start the registry'});
is(query($leased, q{SELECT node_state FROM pg_stat_snowflake}), 'expired', 'nothing says that it is held');
says($leased, 'lease', 'error', qr/expired, so that calls are refused: it lasted until $stamp: .*\|(?:Do not restart this server before \S+, unless the registry answers: .*)?If other servers lease elsewhere .*, start the registry's server/, 'run out');
says($leased, 'node id', 'error', qr/the lease of \d+ from "postgresql:.*" has expired: calls are refused\|See the check "lease"\.$/, 'likewise');
refused($leased, $next, '55000', qr/no lease of a node id/, 'and so it is');
like_log($leased, qr/WARNING:  snowflake SF207: node id from registry .*: The lease of node id \d+ has expired: no ID is made before the registry extends it\..*\n.*HINT:/,
	0, 'the log says when');
unlike(slurp_file($leased->logfile), qr/^\w+:  /m, 'and has no lines that the registry has sent');
set_clock($leased, 20);
wait_for_lease($leased, q{state = 'halted'});
says($leased, 'lease', 'error', qr/held, but cannot be used at present/, 'the clock was set, and the registry is gone');
says($leased, 'node id', 'error', qr/one is leased from "postgresql:.*", but cannot be used at present\|/, 'likewise');
$registry->start;
set_clock($leased, 0);
$leased->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'clock offset'})
  or die 'the offset stays';
says($leased, 'clock offset', 'ok', qr/ms (?:ahead of|behind) the registry's/, 'set right');
wait_for_lease($leased, "state = 'held' AND problem IS NULL");
says($leased, 'lease', 'ok', qr/held until/, 'held again');
unlike(join(' ', slurp_file($leased->logfile) =~ /snowflake (SF20[34]):/g), qr/^SF204|SF204 SF204/,
	'the log says that nothing is over which it has not said before');

# a worker that somebody has stopped, and a clock that goes on
set_conf($leased, "snowflake.lease_reserve = '180s'");
wait_for_lease($leased, q{until > clock_timestamp() + interval '150 s'});
my $worker = query($leased, q{SELECT pid FROM snowflake_lease()});
is(kill('STOP', $worker), 1, 'the worker is stopped');
set_clock($leased, 70);
says($leased, 'lease', 'warning', qr/held until .*, which was to be extended at .*\|.* ps -o pid,state,cmd $worker; .*: kill -CONT $worker;$/s,
	'which shows while calls still get IDs, and what to do');
set_clock($leased, 300);
says($leased, 'lease', 'error', qr/expired, .*\|.*: kill -CONT $worker;$/s, 'and afterwards');
my $ask = q{SELECT * FROM public.snowflake_status();};
refused($leased, $next, '55000', qr/no lease of a node id.*HINT:  See the server's log, and see the remedy of the check "lease": \Q$ask\E/s, 'a call names what says so');
like(query($leased, $ask), qr/^lease\|error\|expired, .*: kill -CONT $worker;$/m, 'which is run');
set_clock($leased, 0);
is(kill('CONT', $worker), 1, 'that is done');
$leased->poll_query_until('postgres', q{SELECT status = 'ok' FROM snowflake_status() WHERE check_name = 'lease'})
  or die 'the lease stays late';
$leased->stop;

# one for which there is no room
$leased->append_conf('postgresql.conf', 'max_worker_processes = 0');
$leased->start;
says($leased, 'lease', 'error', qr/that extends it is not running.*\|.*increase max_worker_processes, and restart/, 'no worker');
$leased->stop;
$registry->stop;

# ---- a registry whose message is cut within a character ----

foreach my $prefix ('', 'x')
{
	my $far = new_server("far$prefix", "snowflake.node_id = ''",
		"snowflake.registry = 'postgresql:///postgres?host=/$prefix" . "\xc3\xa4" x 100 . "'");

	$far->start;
	query($far, q{CREATE DATABASE utf8 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
	query($far, 'CREATE EXTENSION snowflake', database => 'utf8');
	$far->poll_query_until('utf8', q{SELECT problem IS NOT NULL FROM snowflake_lease()}) or die;
	says($far, 'lease', 'error', qr/searching: .*\xe4\|/, 'its message shows',
		as => q{SET client_encoding = 'LATIN1';}, database => 'utf8');
	$far->stop;
}

done_testing();
