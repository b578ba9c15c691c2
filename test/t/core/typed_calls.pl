# Statements that fail, or print a HINT, in a nasty database (NastyDatabase.pm); a robot types
# what the HINTs say, and then the statement again. It may only change what the statement is
# about. Then checks whose remedies are calls.
#
# takes: 60 s
use SnowflakeTest;
use NastyDatabase;
use Robot;

nasty_database('max_prepared_transactions = 2');
keep();

# Make a situation, and run a statement, as the owner of the tables or as a superuser. The
# robot reads its HINT, which can also be that of a NOTICE. If the statement need not
# succeed afterwards, it is run "once". The query "then" must return "t".
sub statement
{
	my ($name, $make, $sql, %how) = @_;
	my $runs = 0;
	my $as = $how{as} // 'owner';
	my $session = $how{session} // '';
	my $run = sub {
		my ($status, $out, $err) = $as eq 'owner' ? as_owner($session . $sql) : $node->psql('postgres', $session . $sql);

		return '' if $how{once} && $runs++ || $status == 0 && !$how{once};
		return hint_of($err) || "no remedy: $err";
	};

	situation($name, sub { ref $make ? $make->() : $as eq 'owner' ? run_as_owner($make) : query($node, $make) },
		try => $run, %how, session => \$session);
	is((as_owner($how{then}))[1], 't', "$name: what it was to do is done") if $how{then};
	return;
}

sub run_as_owner
{
	my ($sql) = @_;
	my ($status, $out, $err) = as_owner($sql);

	$status == 0 or die $err;
	return $out;
}

# ---- IDs and layouts ----

statement('an ID of a shard, decoded without its layout', '',
	'SELECT * FROM snowflake_decode((SELECT max(id) FROM sharded))', once => 1,
	types => 'If it is the ID of a shard, name that layout: ');
statement('an ID that does not fit its layout', '', q{SELECT snowflake_decode(9007199254740992, 'javascript')}, once => 1,
	types => 'See what the ID says in each layout: ');
statement('a layout that is none', '', q{SELECT snowflake_nextval('wordpress')}, once => 1,
	types => [ 'No sequence is needed, and snowflake.layout need not be named: ', 'layout_arg.c: See the presets: SELECT' ]);
statement('partitions for IDs of a layout that cannot be told',
	q{CREATE TABLE of_text (key bigint DEFAULT snowflake_nextval('java' || 'script')) PARTITION BY RANGE (key)},
	q{SELECT snowflake_create_partitions('of_text', '1 year', now(), now() + interval '1 year', NULL)},
	given => { KEY => 'key', LAYOUT => 'javascript' }, types => 'Name it: ALTER TABLE',
	then => q{SELECT count(*) > 0 FROM snowflake_partitions('of_text', NULL)});

# ---- raising the mark ----

statement('advance with an ID of another layout, below the mark', '',
	q{SELECT snowflake_advance((SELECT max(id) FROM "My Schema".js))}, as => 'super', once => 1,
	given => { LAYOUT => 'javascript epoch:2024-02-02' }, types => q{adminfuncs.c: 'LAYOUT');$});
statement('advance with an ID whose layout lies above', '',
	q{SELECT snowflake_advance(snowflake_min_id(now() - interval '1 hour', 'twitter'), 'twitter')}, as => 'super', once => 1,
	types => 'Or, if old and new IDs never share a column, run: ');
statement('advance with the ID of a wrong clock',
	q{INSERT INTO "My Schema".tree SELECT snowflake_max_id(now() + interval '3 days')},
	q{SELECT snowflake_advance((SELECT max(id) FROM "My Schema".tree))}, as => 'super', once => 1,
	given => { TABLE => '"My Schema".tree', COLUMN => 'id' },
	types => 'If a wrong clock made it, run as the owner of its table: ',
	renumbers => sub { is(of_the_future(), '', 'advance with the ID of a wrong clock: it is renumbered') });

# ---- renumber ----

my $renumber = q{SELECT * FROM snowflake_renumber('"Plain"', 'id', 1, 3, false)};
my $all_new = q{SELECT count(*) = 3 AND min(id) > 1000 FROM "Plain"};

statement('renumber a column without a default',
	q{CREATE TABLE "Plain" (id bigint PRIMARY KEY); INSERT INTO "Plain" VALUES (1), (2), (3)}, $renumber,
	types => 'renumberfuncs.c: ^Run as the owner of the table: ', then => $all_new);
statement('renumber an identity column',
	q{DROP TABLE "Plain"; CREATE TABLE "Plain" (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
		INSERT INTO "Plain" SELECT FROM generate_series(1, 3)}, $renumber,
	types => 'renumberfuncs.c: ^Run as the owner of the table: ', then => $all_new);
statement('renumber equal IDs to which rows refer',
	q{CREATE TABLE equal (id bigint DEFAULT snowflake_nextval(), n integer, PRIMARY KEY (id, n));
		CREATE TABLE of_equal (id bigint, n integer, FOREIGN KEY (id, n) REFERENCES equal);
		INSERT INTO equal VALUES (2, 1), (2, 2), (1, 1), (3, 1); INSERT INTO of_equal TABLE equal},
	q{SELECT * FROM snowflake_renumber('equal', 'id', 2, 3, false)}, once => 1,
	types => 'Leave these rows as they are.',
	then => q{SELECT array_agg(id ORDER BY id) FILTER (WHERE id < 9) = '{1,2,2}' AND count(*) = 4 FROM equal});
statement('renumber a parent of inheritance',
	q{CREATE TABLE "Parent" (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); CREATE TABLE child (PRIMARY KEY (id)) INHERITS ("Parent");
		INSERT INTO "Parent" VALUES (1), (2); INSERT INTO child VALUES (1)},
	q{SELECT * FROM snowflake_renumber('"Parent"', 'id', 1, 2, false)},
	types => 'As their owner, run first, and take it back afterwards: ',
	then => q{SELECT min(id) > 9 AND count(*) = 2 AND (SELECT id = 1 FROM child) FROM "Parent"});
statement('renumber rows that a trigger keeps',
	q{CREATE TABLE kept (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO kept VALUES (1), (2);
		CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := OLD.id; RETURN NEW; END';
		CREATE TRIGGER "Keep it" BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION keep()},
	q{SELECT * FROM snowflake_renumber('kept', 'id', 1, 2, false)},
	types => 'As the owner of the table, run first, and with ENABLE afterwards: ',
	then => 'SELECT min(id) > 9 AND count(*) = 2 FROM kept');
statement('renumber where triggers could keep references',
	q{CREATE TABLE to_keep (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); INSERT INTO to_keep VALUES (1);
		CREATE TABLE keeps (id bigint REFERENCES to_keep ON UPDATE CASCADE); INSERT INTO keeps VALUES (1);
		CREATE FUNCTION keep_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER "Keep it" BEFORE DELETE ON keeps FOR EACH ROW EXECUTE FUNCTION keep_row();
		CREATE TRIGGER keep_it BEFORE UPDATE ON keeps FOR EACH ROW EXECUTE FUNCTION keep_row()},
	q{SELECT * FROM snowflake_renumber('to_keep', 'id', 1, 1, false)},
	types => 'As the owner of the tables, run first, and with ENABLE afterwards: ',
	then => 'SELECT t.id > 9 AND t.id = k.id FROM to_keep t, keeps k');

my $slow = 'timestamp:42 node:4 sequence:10 tick:1000ms epoch:2020-01-01';

my $of_tick = q{SELECT * FROM snowflake_renumber('slow', 'id', (SELECT min(id) FROM slow), (SELECT max(id) FROM slow), false)};
my $is_told = 0;

situation('renumber all IDs of a tick that has begun', sub {
	run_as_owner(qq{CREATE TABLE slow (id bigint PRIMARY KEY DEFAULT snowflake_nextval('$slow'))});
}, types => 'Run as a superuser, and call it again: ', try => sub {
	my $err = '';

	return hint_of((as_owner($of_tick))[2]) if $is_told++;
	# until the tick does not end meanwhile
	while ($err !~ /call it again/)
	{
		(undef, undef, $err) = as_owner(qq{DELETE FROM slow; INSERT INTO slow SELECT unnest(ARRAY[snowflake_min_id(t, '$slow'), snowflake_max_id(t, '$slow')])
			FROM date_trunc('second', clock_timestamp()) t; $of_tick});
	}
	return hint_of($err);
});
is((as_owner('SELECT count(*) FROM slow'))[1], '2', '... and its rows are there');
foreach my $unique ('', 'PRIMARY KEY')
{
	statement("renumber into IDs that other rows have: $unique",
		qq{DROP TABLE IF EXISTS taken; CREATE TABLE taken (id bigint DEFAULT snowflake_nextval('sonyflake') @{[ $unique && "CONSTRAINT meant $unique" ]});
			INSERT INTO taken SELECT snowflake_min_id(now() + n * interval '10 ms', 'sonyflake') + sequence * 65536 + 1
				FROM generate_series(0, 200) n, generate_series(0, 1) sequence;
			INSERT INTO taken VALUES (1)},
		q{SELECT * FROM snowflake_renumber('taken', 'id', 1, 3, false)},
		types => $unique ? 'Perhaps another row has a new ID. Run on the primary' : 'adminfuncs.c: ^Run on the primary, as a superuser: SELECT',
		then => 'SELECT min(id) > 9 AND count(*) = 403 FROM taken');
	is((as_owner('SELECT count(*) FROM (SELECT FROM taken GROUP BY id HAVING count(*) > 1) t'))[1], '0', '... and no ID is there twice');
}

# ---- convert and revert ----

statement('convert a key that a domain refers to',
	q{CREATE DOMAIN small AS integer; CREATE TABLE "A Key" (id integer PRIMARY KEY); CREATE TABLE of_key (key small REFERENCES "A Key");
		INSERT INTO "A Key" VALUES (1), (2); INSERT INTO of_key VALUES (1)},
	q{SELECT * FROM snowflake_convert('"A Key"', 'id', NULL, false, NULL, 'bigint')},
	types => '^As the owner of the table, run first: ', then => q{SELECT array_agg(id ORDER BY id) = '{1,2}' FROM "A Key"});
statement('convert where somebody else could make what an index calls',
	q{CREATE ROLE nobody; CREATE SCHEMA "His %s"; CREATE FUNCTION "His %s".same(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1';
		GRANT ALL ON SCHEMA "His %s" TO nobody WITH GRANT OPTION; SET ROLE nobody; GRANT CREATE ON SCHEMA "His %s" TO PUBLIC;
		CREATE FUNCTION "His %s".same(snowflake) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT 1::bigint'; RESET ROLE;
		CREATE TABLE calls (id bigserial PRIMARY KEY); CREATE INDEX ON calls ("His %s".same(id)); INSERT INTO calls DEFAULT VALUES},
	q{SELECT * FROM snowflake_convert('calls', 'id', NULL, false, NULL, 'snowflake')}, as => 'super',
	types => 'script.c: Run as a superuser: %s');
statement('convert a table with a foreign one',
	q{CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE TABLE mixed (id bigint, x integer) PARTITION BY LIST (x);
		CREATE FOREIGN TABLE "far away" PARTITION OF mixed FOR VALUES IN (1) SERVER s; CREATE FOREIGN TABLE far PARTITION OF mixed FOR VALUES IN (2) SERVER s},
	q{SELECT * FROM snowflake_convert('mixed', 'id', NULL, false, NULL, 'bigint')}, as => 'super',
	types => 'Take them out: ');
statement('convert where a backslash escapes', 'CREATE TABLE escaped (id serial PRIMARY KEY); INSERT INTO escaped SELECT FROM generate_series(1, 3)',
	q{SELECT * FROM snowflake_convert('escaped', 'id', NULL, false, NULL, 'bigint')},
	session => 'SET standard_conforming_strings = off;', types => 'script.c: Run: SET',
	then => q{SELECT array_agg(id ORDER BY id) = '{1,2,3}' FROM escaped}) if $node->pg_version->major < 19;
statement('convert to a layout whose IDs are lower',
	q{CREATE TABLE of_js (id bigint PRIMARY KEY); INSERT INTO of_js SELECT snowflake_max_id(clock_timestamp() + interval '4 s', 'javascript')},
	q{SELECT * FROM snowflake_convert('of_js', 'id', NULL, false, 'javascript', 'bigint')},
	types => 'If these IDs were made in this layout, run as a superuser: ');
statement('convert to a layout whose IDs are higher',
	q{CREATE TABLE of_twitter (id bigint PRIMARY KEY); INSERT INTO of_twitter SELECT snowflake_max_id(clock_timestamp() + interval '4 s', 'twitter')},
	q{SELECT * FROM snowflake_convert('of_twitter', 'id', NULL, false, 'twitter', 'bigint')},
	types => 'If these IDs were made in this layout, run as a superuser: ');
my $named = 'javascript';

situation('convert a key whose time has not come', sub {
	run_as_owner(q{CREATE TABLE of_later (id bigint PRIMARY KEY); INSERT INTO of_later SELECT snowflake_min_id(clock_timestamp() + interval '1 h', 'javascript')});
}, types => 'Name a layout whose IDs are larger', hands => [ qr/^Name a layout whose IDs are larger/ => sub { $named = 'snowflake' } ],
	try => sub { return hint_of((as_owner(qq{SELECT * FROM snowflake_convert('of_later', 'id', NULL, false, '$named', 'bigint')}))[2]) });

my @sequences = qw(many_id_seq second);

statement('revert a column with two sequences',
	q{CREATE TABLE many (id serial PRIMARY KEY); INSERT INTO many SELECT FROM generate_series(1, 3);
		SELECT count(*) FROM snowflake_convert('many', 'id', NULL, false, NULL, 'bigint');
		CREATE SEQUENCE second; COMMENT ON SEQUENCE second IS '[snowflake_revert() gives it back to "My Schema".many.id]'},
	q{SELECT * FROM snowflake_revert('many', 'id', NULL, NULL, false)},
	given => { NAME => sub { push @sequences, shift @sequences; '"My Schema".' . $sequences[-1] } },
	types => 'Run for the sequence that it is to use again: ',
	then => q{SELECT array_agg(id ORDER BY id) = '{1,2,3}' FROM many});
statement('revert to a number that the sequence has passed',
	q{CREATE TABLE passed (id serial PRIMARY KEY); INSERT INTO passed SELECT FROM generate_series(1, 3);
		SELECT count(*) FROM snowflake_convert('passed', 'id', NULL, false, NULL, 'bigint'); ALTER SEQUENCE passed_id_seq RESTART 50},
	q{SELECT * FROM snowflake_revert('passed', 'id', NULL, 40, false)},
	types => 'Use a larger number, or detach it first: ',
	then => q{SELECT array_agg(id ORDER BY id) = '{1,2,3}' FROM passed});

# ---- partitions ----

statement('a partition whose name is taken',
	q{CREATE TABLE named (id bigint) PARTITION BY RANGE (id); CREATE VIEW named_p2026_11_21 AS SELECT 1},
	q{SELECT snowflake_create_partitions('named', '1 day', '2026-11-20', '2026-11-22', NULL)},
	given => { NAME => '"The 21st"' }, types => 'As the owner of the table, run with another name: ');
statement('a default partition of another owner',
	q{CREATE TABLE "My Schema".parted (id bigint) PARTITION BY RANGE (id); ALTER TABLE "My Schema".parted OWNER TO "The Owner";
		CREATE TABLE "My Schema"."The Rest" PARTITION OF "My Schema".parted DEFAULT;
		INSERT INTO "My Schema".parted VALUES (1), (2)},
	q{SELECT snowflake_create_partitions('"My Schema".parted', '1 day', now(), now() + interval '1 day', NULL)}, as => 'super',
	types => 'As the owner of the table, detach the default partition: ');
is(query($node, 'SELECT count(*) FROM "My Schema"."The Rest"'), '2', '... with its rows');
statement('an owner that may not create tables',
	q{CREATE SCHEMA "No Room"; GRANT USAGE ON SCHEMA "No Room" TO "The Owner"; CREATE TABLE "No Room".t (id bigint) PARTITION BY RANGE (id);
		ALTER TABLE "No Room".t OWNER TO "The Owner"},
	q{SELECT snowflake_create_partitions('"No Room".t', '1 day', now(), now() + interval '1 day', NULL)}, as => 'super',
	types => 'GRANT CREATE ON SCHEMA');
statement('a column of another owner that refers to the key',
	q{CREATE DOMAIN narrow AS integer; CREATE TABLE public.of_super (id serial PRIMARY KEY); GRANT REFERENCES ON public.of_super TO "The Owner";
		CREATE TABLE "My Schema".refers_to (ref narrow REFERENCES public.of_super); ALTER TABLE "My Schema".refers_to OWNER TO "The Owner"},
	q{SELECT snowflake_convert('public.of_super')}, as => 'super',
	types => 'The owner of each of these tables must log in',
	hands => [ qr/must log in, and change the type/ => sub { run_as_owner('ALTER TABLE "My Schema".refers_to ALTER ref TYPE bigint') } ]);
statement('an owner that may not create tables in the schema of the extension',
	q{CREATE TABLE public.in_ext (id bigint) PARTITION BY RANGE (id); ALTER TABLE public.in_ext OWNER TO "The Owner"},
	q{SELECT snowflake_create_partitions((SELECT oid::regclass FROM pg_class WHERE relname = 'in_ext'), '1 day', now(), now() + interval '1 day', NULL)}, as => 'super',
	given => { NAME => '"My Schema"' }, types => 'Choose a schema in which the owner may create: ');
statement('a default partition of another owner, and a foreign key',
	q{CREATE TABLE "My Schema".refers (id bigint PRIMARY KEY) PARTITION BY RANGE (id); ALTER TABLE "My Schema".refers OWNER TO "The Owner";
		CREATE TABLE "My Schema"."The Other Rest" PARTITION OF "My Schema".refers DEFAULT; CREATE TABLE refers (id bigint CONSTRAINT to_refers REFERENCES "My Schema".refers)},
	q{SELECT snowflake_create_partitions('"My Schema".refers', '1 day', now(), now() + interval '1 day', NULL)}, as => 'super',
	types => 'First drop the foreign keys that refer to', hands => [ qr/First drop the foreign keys/ => sub { query($node, 'ALTER TABLE refers DROP CONSTRAINT to_refers') } ]);

# no partition of the present: the IDs may have another layout than the robot thinks
my $drop = q{SELECT snowflake_drop_partitions('%s', now() - interval '1 year', NULL)};

statement('old partitions without one of the present',
	q{CREATE TABLE logged (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
		SELECT snowflake_create_partitions('logged', '1 month', '2024-04-01', '2024-06-01', NULL);
		INSERT INTO logged SELECT snowflake_min_id('2024-04-03')}, sprintf($drop, 'logged'),
	given => { LAYOUT => 'snowflake' }, types => [ 'Otherwise make the partition of the present first: ', 'Name the layout with which the old IDs were made: SELECT' ],
	then => q{SELECT count(*) = 0 FROM logged});
statement('partitions of an earlier layout, in which the rows are new',
	q{CREATE TABLE moved (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
		SELECT snowflake_create_partitions('moved', '1 week', now(), now() + interval '1 minute', NULL);
		INSERT INTO moved DEFAULT VALUES;
		SELECT snowflake_convert('moved', 'id', NULL, false, 'timestamp:41 node:10 sequence:12 epoch:2020-01-01', 'bigint');
		SELECT snowflake_create_partitions('moved', '1 day', now(), now() + interval '1 minute', NULL)}, sprintf($drop, 'moved'),
	once => 1, given => { LAYOUT => 'snowflake' }, types => 'Name the layout with which the old IDs were made: SELECT',
	then => 'SELECT count(*) = 1 FROM moved');
statement('partitions of IDs that an application makes in another layout',
	q{CREATE TABLE of_application (id bigint) PARTITION BY RANGE (id);
		SELECT snowflake_create_partitions('of_application', '1 week', now() - interval '2 weeks', now() + interval '1 week', 'javascript');
		INSERT INTO of_application SELECT snowflake_min_id(now(), 'javascript')}, sprintf($drop, 'of_application'),
	once => 1, given => { LAYOUT => 'javascript' }, types => 'Name the layout with which the old IDs were made: SELECT',
	then => 'SELECT count(*) = 1 FROM of_application');

# ---- recover ----

# The robot types all that the rows of snowflake_recover() say.
my $recover = 'SELECT * FROM snowflake_recover()';
my $lose = q{ALTER EXTENSION snowflake DROP SEQUENCE snowflake_state.snowflake_mark; DROP SEQUENCE snowflake_state.snowflake_mark; };

situation('a table in place of the mark', sub {
	query($node, $lose . 'CREATE TABLE snowflake_state.snowflake_mark (); ALTER EXTENSION snowflake ADD TABLE snowflake_state.snowflake_mark');
}, types => 'Run on the primary, as a superuser: ALTER EXTENSION');
statement('a view in place of the mark',
	$lose . 'DROP TABLE IF EXISTS snowflake_state.snowflake_mark_old; CREATE VIEW snowflake_state.snowflake_mark AS SELECT 1', $recover, as => 'super',
	types => 'Run as a superuser, and call again: ALTER TABLE');

my $locker;

situation('a lost mark, and a table that is locked', sub {
	query($node, $lose);
	$locker = begin_session($node, 'BEGIN; LOCK TABLE "My Schema".tree');
}, given => { LAYOUT => 'node', ID => sub {
	$locker->quit if $locker;
	$locker = undef;
	return query($node, 'SELECT max(id) FROM "My Schema".tree');
} }, types => 'Run as a superuser, with its highest ID and the layout');

# ---- feeds of several servers ----

statement('a feed that nobody has begun', '', 'SELECT snowflake_feed_horizon()', as => 'super',
	types => [ 'On each primary that makes or collects the rows, run: ', 'On each server that makes the IDs, run: ' ]);
statement('a feed with a view in place of its table', q{DROP TABLE snowflake_feed; GRANT CREATE ON SCHEMA public TO "The Owner";
		SET ROLE "The Owner"; CREATE VIEW public.snowflake_feed AS SELECT 1}, 'SELECT snowflake_feed_horizon()', as => 'super',
	types => 'Drop the triggers, columns, constraints or indexes that were added to it. Only if no publication has it, run instead as its owner: ', then => 'SELECT count(*) = 1 FROM snowflake_feed_servers');
statement('a mark that was lowered', q{UPDATE snowflake_feed SET horizon = snowflake_min_id(now() + interval '1 hour')},
	'SELECT snowflake_publish_horizon()', as => 'super', types => 'Stop all clients, and join anew: ',
	then => 'SELECT horizon < snowflake_max_id(clock_timestamp()) FROM snowflake_feed_servers');
statement('a server that is not in the feed', '', 'SELECT snowflake_leave_feed(5)', as => 'super', once => 1,
	types => 'See the servers: ');

my $other = q{INSERT INTO snowflake_feed SELECT 5, layout, %s, 8, 'other:1', %s FROM snowflake_feed};

statement('a server that joins beside one whose clock was far ahead',
	sprintf($other, q{snowflake_min_id(now() + interval '3 days')}, 'now()') . '; SELECT snowflake_leave_feed()',
	'SELECT snowflake_publish_horizon()', as => 'super', types => q{the other server's was wrong: correct that, and take its row out here: },
	then => 'SELECT count(*) = 1 AND max(node) = 1 FROM snowflake_feed_servers');
statement('a server that is taken out by one that makes no IDs', sprintf($other, 1, 'now()'), 'SELECT snowflake_leave_feed(5)', as => 'super', once => 1,
	types => 'If it makes no IDs for this feed, run here: ', then => 'SELECT count(*) = 0 FROM snowflake_feed_servers');

statement('a server that is taken out while it publishes', sub { query($node, 'SELECT snowflake_publish_horizon()') }, 'WITH gone AS (DELETE FROM snowflake_feed RETURNING 1) SELECT snowflake_publish_horizon() FROM gone',
	as => 'super', once => 1, types => 'To join again, run: ', then => 'SELECT count(*) = 1 FROM snowflake_feed_servers');

my $writer;

statement('a server that leaves with transactions', sub {
	$writer = begin_session($node, 'SELECT snowflake_publish_horizon(); BEGIN; INSERT INTO "My Schema".tree DEFAULT VALUES');
	query($node, q{BEGIN; INSERT INTO "My Schema".tree DEFAULT VALUES; PREPARE TRANSACTION 'the bank''s'});
}, 'SELECT snowflake_leave_feed()', as => 'super', types => 'Stop the application, and end its last transactions:',
	then => 'SELECT count(*) = 0 FROM snowflake_feed_servers');
undef $writer;

# ---- checks ----

# Make a situation of which a check says what to do.
sub checked
{
	my ($check, $name, $make, %how) = @_;

	situation($name, sub { ref $make ? $make->() : run_as_owner($make) }, check => $check, %how);
	return;
}

checked('partitions', 'a table with partitions of the present alone',
	q{DROP TABLE IF EXISTS logged, named, of_application, of_text; CREATE TABLE lasting (id bigint DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
		SELECT snowflake_create_partitions('lasting', '1 day', now(), now() + interval '1 second', NULL)},
	types => 'Run this now, and from cron, as the owner of the table: ');
checked('rows above', 'rows restored without their mark',
	q{INSERT INTO js SELECT snowflake_min_id(clock_timestamp() + interval '6 s', 'javascript epoch:2024-02-02') + 32},
	types => [ q{If the rows are this server's own, restored without their mark}, 'If another server made these rows, give it another node id: ' ]);
checked('mark', 'a mark that is lost while the server runs', sub { query($node, q{SELECT setval('snowflake_state.snowflake_mark', 1, false)}) },
	types => 'Make an ID in a new session, which writes it again: ');
checked('refusals', 'calls that were refused', sub { answer($node, 'SELECT snowflake_shard_nextval(4)') },
	types => 'When their cause is gone, run as a superuser: ');
checked('privileges', 'a number that another role owns', sub { query($node, 'ALTER SEQUENCE snowflake_state.snowflake_mark OWNER TO "The Owner"') },
	types => 'status_rights.sql: OWNER TO');
checked('recorded configuration', 'a record of another layout, and a mark that is lost', sub {
	query($node, q{SELECT setval('snowflake_state.snowflake_recorded_layout', last_value - 1) FROM snowflake_state.snowflake_recorded_shard_layout;
		SELECT setval('snowflake_state.snowflake_mark', 1, false)});
	restart();
}, types => 'That records what is configured.');
checked('feed', 'a server that has published nothing for long', sub {
	query($node, q{SELECT snowflake_publish_horizon(); UPDATE snowflake_feed SET published = now() - interval '2 minutes'});
}, types => 'Publish, or see why that fails: SELECT %s;$');
checked('feed', 'a server that is down', sub { query($node, sprintf($other, 1, q{now() - interval '2 minutes'})) },
	types => 'unless this server has taken its place.');
checked('feed', 'a server that is held back', sub { query($node, q{UPDATE snowflake_feed SET horizon = 1 WHERE server <> 5}) },
	types => 'End the transactions that this shows', hands => [ qr/^End the transactions/, sub { query($node, 'SELECT snowflake_publish_horizon()') } ]);
checked('feed', 'another server that is held back', sub { query($node, sprintf($other, 1, 'now()')) },
	types => 'On that server, end the transactions that this shows', hands => [ qr/On that server, end/, sub { query($node, 'DELETE FROM snowflake_feed WHERE server = 5') } ]);
checked('feed', 'two servers with one node id', sub {
	query($node, q{SELECT snowflake_publish_horizon(); INSERT INTO snowflake_feed SELECT n, layout, horizon, 8, 'other:' || n, now() FROM snowflake_feed, generate_series(6, 7) n});
}, types => 'On one of them, choose a number that no other server has', hands => [ qr/On one of them/, sub { query($node, 'UPDATE snowflake_feed SET node = 9 WHERE server = 6') } ]);
query($node, 'DELETE FROM snowflake_feed WHERE server < 8');
checked('feed', 'a server with the node id of this one', sub {
	query($node, q{SELECT snowflake_publish_horizon(); INSERT INTO snowflake_feed SELECT 6, layout, horizon, node, 'other:6', now() FROM snowflake_feed});
}, given => { NUMBER => 11 }, types => 'node.c: a number that no other server has, and');
query($node, 'DELETE FROM snowflake_feed WHERE server < 8');
checked('feed', 'a feed of a database that does not exist, and another one that the server has not joined', sub {
	query($node, 'SELECT snowflake_leave_feed()');
	$node->append_conf('postgresql.conf', q{snowflake.feed_databases = 'nowhere, postgres, postgres'});
	restart();
}, restart => \&restart, types => [ 'Create it, and its worker begins within a minute.', 'If it has left the feed, take ' ]);
checked('feed', 'a worker whose table is gone', sub { query($node, 'DROP TABLE snowflake_feed') }, types => 'Create it, and publish: ');
# last, since the clock of this server goes on ahead
statement('a server that joins with a clock that is behind', sub {
	query($node, sprintf($other, q{snowflake_min_id(now() + interval '30 minutes')}, 'now()') . '; SELECT snowflake_leave_feed()');
}, 'SELECT snowflake_publish_horizon()', as => 'super', types => 'Let no application connect here yet. Correct the clock',
	hands => [ qr/Correct the clock that is wrong/, sub { set_clock($node, 31 * 60) } ]);

done_testing();
