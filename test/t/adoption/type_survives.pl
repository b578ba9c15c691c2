# The type snowflake survives what prints its operators or reads them again: a dump, a
# restore, pg_upgrade twice, a conversion to bigint and back, logical replication.
#
# One schema has each construct in which the server prints an operator, on columns of the
# type. Another has the same on columns of a domain over it. A third has the classes of
# examples/btree_gist.sql. What a user sees is compared before and after: the types of all
# columns, the rows as JSON, the conditions of plans, the rows that policies show, the
# definitions.
#
# pg_upgrade starts from the installation of OLD_PG_CONFIG, an earlier major that has the
# extension too, and otherwise from that of PG_CONFIG.
#
# takes: 30 s
# part older_major: older_server
# part gist: btree_gist
use strict;
use warnings FATAL => 'all';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FindBin;
use lib "$FindBin::RealBin/../../perl";
use SnowflakeTest;

my $examples = "$FindBin::RealBin/../../../examples";
my $dir = PostgreSQL::Test::Utils::tempdir();
my $gist = part('gist');

# ---- the constructs ----

# What a conversion of orders reaches. An ID is above 2^53, where a JSON number would be
# rounded by its readers.
my $converted = <<'SQL';
CREATE TABLE orders (id key_type PRIMARY KEY DEFAULT snowflake_nextval(), customer int NOT NULL,
	other key_type DEFAULT nullif('5'::key_type, 0), ids key_type[] DEFAULT '{5,6}', large boolean GENERATED ALWAYS AS (id > 100) STORED,
	positive key_type GENERATED ALWAYS AS (nullif(id, 0)) STORED,
	CHECK ((id, customer) > (0, 0)), CHECK (id IS DISTINCT FROM 6), CHECK (nullif(id, 0) = id), CHECK (id NOT IN (7, 8)),
	CHECK (CASE id WHEN 9 THEN customer > 5 ELSE true END), CHECK (id BETWEEN 1::smallint AND 9000000000000000000),
	CHECK (ids[1] > 4 AND ids @> '{5}' AND ids <> '{6}'));
CREATE TABLE lines (order_id key_type REFERENCES orders ON UPDATE CASCADE, line int, PRIMARY KEY (order_id, line));
INSERT INTO orders (id, customer) VALUES (1, 1), (2, 1), (3, 2), (5, 2), (9007199254740993, 3), (9007199254740994, 3);
INSERT INTO lines SELECT id, 1 FROM orders UNION ALL SELECT id, 2 FROM orders WHERE id > 3;

-- indexes and statistics
CREATE INDEX partial ON orders (customer) WHERE (id, customer) > (0, 0);
CREATE INDEX partial_nullif ON orders (customer) WHERE nullif(id, 0) > 3;
CREATE INDEX is_five ON orders ((id = 5));
CREATE INDEX of_nullif ON orders (nullif(id, 0));
CREATE INDEX descending ON orders (id DESC) INCLUDE (customer);
CREATE INDEX of_hash ON orders USING hash (id);
CREATE INDEX of_brin ON orders USING brin (id);
CREATE STATISTICS counted (mcv) ON (id = 5), (nullif(id, 0)), customer FROM orders;
CREATE TABLE excludes (id key_type, n int, EXCLUDE USING btree (id WITH =) WHERE (id > 3), EXCLUDE USING hash (id WITH =));
INSERT INTO excludes VALUES (1, 1), (2, 1), (5, 3);

-- views
CREATE VIEW v_row AS SELECT id FROM orders WHERE (id, customer) > (1, 1);
CREATE VIEW v_row_of_params AS SELECT id FROM orders WHERE (id, customer) <= (5::bigint, 2::smallint) OR (customer, id) >= (3, 5);
CREATE VIEW v_in_rows AS SELECT * FROM lines WHERE (order_id, line) IN (SELECT order_id, min(line) FROM lines GROUP BY order_id);
CREATE VIEW v_not_in_rows AS SELECT * FROM lines WHERE (order_id, line) NOT IN (SELECT order_id, 2 FROM lines);
CREATE VIEW v_any_rows AS SELECT * FROM lines WHERE (order_id, line) > (SELECT id, 1 FROM orders WHERE id = 3);
CREATE VIEW v_all AS SELECT id FROM orders WHERE id >= ALL (SELECT order_id FROM lines) OR id < ANY (SELECT line FROM lines);
CREATE VIEW v_equal_rows AS SELECT id FROM orders WHERE (id, customer) = (5, 2) OR (id, customer) <> (3, 2) OR (id, customer) IS DISTINCT FROM (2, 2);
CREATE VIEW v_in_values AS SELECT id FROM orders WHERE (id, customer) IN ((1, 1), (3, 2)) OR id IN (2, 5::bigint) OR id = ANY ('{3}');
CREATE VIEW v_not_in AS SELECT id FROM orders WHERE id NOT IN (1, 2) AND id <> ALL ('{3}'::bigint[]);
CREATE VIEW v_distinct_from AS SELECT id, id IS DISTINCT FROM 5 AS differs, id IS NOT DISTINCT FROM 5::bigint AS same FROM orders;
CREATE VIEW v_nullif AS SELECT nullif(id, 0) AS id, nullif(id, customer) AS a, nullif(customer, id) AS b FROM orders;
CREATE VIEW v_case AS SELECT CASE id WHEN 5 THEN id WHEN 6::bigint THEN NULL END AS id, CASE 5 WHEN id THEN 1 END AS n FROM orders;
CREATE VIEW v_using AS SELECT * FROM orders o JOIN lines l (id, line) USING (id);
CREATE VIEW v_using_full AS SELECT id, pg_typeof(id)::text AS type FROM orders FULL JOIN (VALUES (1), (4)) v (id) USING (id);
CREATE VIEW v_using_bigint AS SELECT id FROM orders JOIN (VALUES (1::bigint), (5)) v (id) USING (id);
CREATE VIEW v_natural AS SELECT id, customer, n FROM orders NATURAL JOIN excludes;
CREATE VIEW v_natural_series AS SELECT id FROM orders NATURAL JOIN generate_series(1, 5) g (id);
CREATE VIEW v_choices AS SELECT coalesce(id, 0) AS c, greatest(id, 3) AS g, least(id, customer) AS l FROM orders;
CREATE VIEW v_union AS SELECT id FROM orders UNION SELECT 4 UNION ALL SELECT customer FROM orders;
CREATE VIEW v_except AS SELECT id FROM orders EXCEPT SELECT 1 INTERSECT SELECT order_id FROM lines;
CREATE VIEW v_aggregates AS SELECT customer, min(id), max(id), count(DISTINCT id % 3), sum(id - id) AS sum, array_agg(id ORDER BY id DESC) AS ids,
	count(*) FILTER (WHERE id > 2) AS above, rank(3) WITHIN GROUP (ORDER BY id) AS rank, percentile_disc(0.5) WITHIN GROUP (ORDER BY id) AS middle,
	mode() WITHIN GROUP (ORDER BY id) AS mode, json_agg(id ORDER BY id) AS json FROM orders GROUP BY customer HAVING max(id) > 1;
CREATE VIEW v_grouping AS SELECT id, customer, grouping(id, customer), count(*) FROM orders GROUP BY GROUPING SETS ((id), (customer), ());
CREATE VIEW v_window AS SELECT id, sum(customer) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW), lag(id, 1, '0') OVER (ORDER BY id USING >),
	first_value(id) OVER (PARTITION BY customer ORDER BY id) AS first FROM orders;
CREATE VIEW v_order_using AS SELECT id FROM orders ORDER BY id USING > LIMIT 3;
CREATE VIEW v_distinct_on AS SELECT DISTINCT ON (id) id, line FROM (SELECT order_id AS id, line FROM lines) l ORDER BY id, line DESC;
CREATE VIEW v_between AS SELECT id FROM orders WHERE id BETWEEN 2 AND 5 AND id BETWEEN SYMMETRIC 5 AND 1 AND NOT id > 4::smallint;
CREATE VIEW v_recursive AS WITH RECURSIVE r (id, n) AS (SELECT id, 1 FROM orders WHERE id = 1
		UNION SELECT o.id, n + 1 FROM r JOIN orders o ON o.id > r.id WHERE n < 3)
	CYCLE id SET again USING path SELECT id, n, again FROM r;
CREATE VIEW v_lateral AS SELECT o.id, l.id AS next FROM orders o LEFT JOIN LATERAL (SELECT id FROM orders i WHERE i.id > o.id ORDER BY i.id LIMIT 1) l ON true;
CREATE VIEW v_arrays AS SELECT ids = '{5,6}' AS equal, ids && '{6}' AS common, ids[2] > id AS above, id = ANY (ids) AS has, array_position(ids, id) AS place FROM orders;
CREATE VIEW v_casts AS SELECT id::bigint AS b, id::numeric AS n, id::text AS t, id + 1 AS next, id % 10 AS digit, -id AS minus, snowflake_timestamp(id, 'snowflake') AS at, '5'::key_type AS five FROM orders;
CREATE VIEW v_exists AS SELECT id FROM orders o WHERE EXISTS (SELECT FROM lines WHERE order_id = o.id AND line = 2) AND id NOT IN (SELECT order_id FROM lines WHERE line > 2);
CREATE VIEW v_whole AS SELECT o, (o).id, row(o.id, 1) = row(5, 1) AS is_five FROM orders o;
CREATE VIEW v_updatable AS SELECT id, customer FROM orders WHERE id > 2 WITH CHECK OPTION;
ALTER VIEW v_updatable ALTER id SET DEFAULT nullif('12'::key_type, 0);
CREATE VIEW v_of_view AS SELECT nullif(id, 3) AS id FROM v_nullif WHERE (id, a) > (1, 1);
CREATE MATERIALIZED VIEW stored AS SELECT nullif(id, 0) AS id, customer FROM orders WHERE (id, customer) > (1, 1);
CREATE UNIQUE INDEX stored_id ON stored (id) WHERE (id, customer) >= (0, 0);

-- code
CREATE FUNCTION rows_above() RETURNS SETOF orders LANGUAGE sql BEGIN ATOMIC SELECT * FROM orders WHERE (id, customer) > (2, 1); END;
CREATE FUNCTION first_of(lowest key_type) RETURNS key_type LANGUAGE sql BEGIN ATOMIC SELECT nullif(min(id), 0) FROM orders WHERE id >= lowest AND id <> 4; END;
CREATE PROCEDURE touch() LANGUAGE sql BEGIN ATOMIC UPDATE orders SET customer = customer WHERE (id, customer) = (5, 2); DELETE FROM lines WHERE order_id = 4; END;
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t_when BEFORE UPDATE ON orders FOR EACH ROW
	WHEN (OLD.id IS DISTINCT FROM NEW.id AND (NEW.id, NEW.customer) > (1, 1) AND nullif(NEW.id, 0) > 2) EXECUTE FUNCTION noted();
CREATE RULE r_nothing AS ON UPDATE TO lines WHERE NEW.order_id < 0 OR (OLD.order_id, OLD.line) < (0, 0) DO INSTEAD NOTHING;
CREATE RULE r_insert AS ON INSERT TO lines WHERE NEW.order_id = 5::bigint DO ALSO UPDATE orders SET customer = customer WHERE (id, customer) = (NEW.order_id, 2);
GRANT SELECT ON orders, lines TO reader;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY p_permissive ON orders FOR SELECT TO reader USING ((id, customer) >= (2, 0));
CREATE POLICY p_restrictive ON orders AS RESTRICTIVE FOR SELECT TO reader USING (nullif(id, 3) IS NOT NULL AND (id, customer) NOT IN (SELECT order_id, 2 FROM lines WHERE line = 2));
CREATE POLICY p_insert ON orders FOR INSERT TO reader WITH CHECK ((id, customer) > (5, 5) AND id IS DISTINCT FROM 9);
CREATE PUBLICATION pub_this_schema FOR TABLE orders (id, customer) WHERE (customer > 1), lines WITH (publish = 'insert');
SQL

# The rest.
my $others = <<'SQL';
CREATE DOMAIN checked AS key_type DEFAULT '10' CHECK (VALUE > 0 AND nullif(VALUE, 7) IS NOT NULL AND (VALUE, 1) < (1000, 1));
CREATE TYPE pair AS (id key_type, n int);
CREATE TABLE composed (p pair, c checked, ps pair[], CHECK ((p).id > 4), CHECK (p >= row(1, 1)::pair), CHECK (((p).id, (p).n) > (1, 1)));
INSERT INTO composed VALUES ((5, 1), 3, '{"(9007199254740993,1)"}'), ((6, 2), 10, NULL);
CREATE VIEW v_composed AS SELECT (p).id, nullif((p).id, 5) AS n, p = row(5, 1)::pair AS same, c > 3 AS above, nullif(c, 3) AS c, ps FROM composed;
CREATE INDEX of_composed ON composed (((p).id)) WHERE p > row(0, 0)::pair;
CREATE TABLE by_range (id key_type, n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (id, n);
CREATE TABLE by_range_1 PARTITION OF by_range FOR VALUES FROM (MINVALUE, MINVALUE) TO (5, 1);
CREATE TABLE by_range_2 PARTITION OF by_range FOR VALUES FROM (5, 1) TO (9007199254740994, 1);
CREATE TABLE by_range_3 PARTITION OF by_range DEFAULT;
CREATE TABLE by_list (id key_type) PARTITION BY LIST (id);
CREATE TABLE by_list_1 PARTITION OF by_list FOR VALUES IN (1, 5, NULL);
CREATE TABLE by_list_2 PARTITION OF by_list FOR VALUES IN (2, 9007199254740993);
CREATE TABLE by_hash (id key_type) PARTITION BY HASH (id);
CREATE TABLE by_hash_0 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE by_hash_1 PARTITION OF by_hash FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE by_expression (id key_type) PARTITION BY LIST (nullif(id, 0));
CREATE TABLE by_expression_5 PARTITION OF by_expression FOR VALUES IN (5);
INSERT INTO by_range VALUES (1, 1), (5, 1), (9007199254740993, 1), (9007199254740994, 1);
INSERT INTO by_list VALUES (1), (2), (5), (9007199254740993), (NULL);
INSERT INTO by_hash SELECT generate_series(1, 9);
INSERT INTO by_expression VALUES (5);
CREATE VIEW v_partitions AS SELECT tableoid::regclass::text AS part, id FROM by_range UNION ALL SELECT tableoid::regclass::text, id FROM by_list
	UNION ALL SELECT tableoid::regclass::text, id FROM by_hash UNION ALL SELECT tableoid::regclass::text, id FROM by_expression;
CREATE TABLE brins (id key_type);
INSERT INTO brins SELECT generate_series(1, 2000);
CREATE INDEX brin ON brins USING brin (id);
CREATE INDEX brin_multi ON brins USING brin (id int8_minmax_multi_ops);
CREATE INDEX brin_bloom ON brins USING brin (id int8_bloom_ops);
CREATE TABLE hashes (id key_type);
INSERT INTO hashes SELECT generate_series(1, 2000);
CREATE INDEX hash ON hashes USING hash (id);
ALTER TABLE hashes REPLICA IDENTITY FULL;
CREATE TABLE fives (id key_type, n int);
INSERT INTO fives SELECT g, g FROM generate_series(1, 2000) g;
CREATE INDEX five ON fives ((id = 5));
CREATE INDEX above_one ON fives (n) WHERE (id, n) > (1, 1);
CREATE TABLE keys (k key_type PRIMARY KEY, b bigint UNIQUE, i int UNIQUE, s smallint UNIQUE);
CREATE TABLE mixed (b bigint REFERENCES keys ON UPDATE CASCADE, i int REFERENCES keys ON UPDATE CASCADE, s smallint REFERENCES keys ON UPDATE CASCADE,
	k key_type REFERENCES keys ON UPDATE CASCADE, kb key_type REFERENCES keys (b) ON UPDATE CASCADE);
INSERT INTO keys VALUES (1, 2, 3, 4), (5, 6, 7, 8);
ALTER TABLE mixed REPLICA IDENTITY FULL;
INSERT INTO mixed VALUES (1, 1, 1, 1, 2), (5, 5, 5, 5, 6);
CREATE VIEW v_mixed AS SELECT k.k, m.i, nullif(m.i, k.k) AS a, nullif(k.k, m.b) AS b FROM keys k JOIN mixed m ON (k.k, k.b) = (m.b, m.kb) AND m.s <= k.k;
SQL

# The classes of examples/btree_gist.sql, on a column of the type and of the domain.
my $by_gist = <<'SQL';
CREATE TABLE bookings (id public.snowflake, d public.key, room int, during tstzrange, EXCLUDE USING gist (id WITH =, during WITH &&),
	EXCLUDE USING gist (d WITH =, room WITH =) WHERE ((id, room) > (0, 0)));
INSERT INTO bookings SELECT g, g, g, tstzrange('2026-01-01 UTC', '2026-01-02 UTC') FROM generate_series(1, 1000) g;
CREATE INDEX of_gist ON bookings USING gist (id);
CREATE INDEX of_gist_domain ON bookings USING gist (d);
CREATE TABLE tags (id public.snowflake, d public.key, tags text[]);
INSERT INTO tags SELECT g, g, '{a}' FROM generate_series(1, 1000) g;
CREATE INDEX of_gin ON tags USING gin (id, tags);
CREATE INDEX of_gin_domain ON tags USING gin (d);
CREATE TABLE converted (id public.snowflake PRIMARY KEY DEFAULT public.snowflake_nextval(), during tstzrange, EXCLUDE USING gist (id WITH =, during WITH &&));
CREATE INDEX converted_gin ON converted USING gin (id);
INSERT INTO converted VALUES (5, '[2026-01-01 UTC, 2026-01-02 UTC)');
SQL

# Run examples/btree_gist.sql in a database.
sub make_classes
{
	my ($node, $database) = @_;

	is(answer($node, slurp_file("$examples/btree_gist.sql"), database => $database), '', "$database: btree_gist.sql runs");
	return;
}

# Make all constructs in a database.
sub make
{
	my ($node, $database) = @_;

	query($node, "CREATE DATABASE $database");
	query($node, 'CREATE EXTENSION snowflake; CREATE DOMAIN key AS snowflake', database => $database);
	foreach my $schema ('plain', 'domains')
	{
		my $type = $schema eq 'plain' ? 'public.snowflake' : 'public.key';

		is(answer($node, "CREATE SCHEMA $schema; SET search_path = $schema, public; SET client_min_messages = warning; "
			. "GRANT USAGE ON SCHEMA $schema TO reader; "
			. "$converted $others" =~ s/\bkey_type\b/$type/gr =~ s/this_schema/$schema/gr, database => $database),
			'', "$schema: each construct is made");
	}
	return if !$gist;
	query($node, 'CREATE EXTENSION btree_gist; CREATE EXTENSION btree_gin', database => $database);
	make_classes($node, $database) foreach (1, 2);
	is(answer($node, "CREATE SCHEMA gist; SET search_path = gist, public; $by_gist", database => $database), '', 'gist: each construct is made');
	return;
}

# ---- what a user sees ----

my $ours = q{IN (SELECT oid FROM pg_namespace WHERE nspname IN ('plain', 'domains', 'gist'))};

# The queries of a schema whose plans are compared.
my @queries = (
	(map { ("SELECT FROM orders WHERE $_") } 'id = 5', 'id = 5::bigint', q{id = '5'}, 'id > 5::smallint AND id < 9', '5 < id',
		'(id, customer) > (5, 1)', 'id IN (5, 6)', 'id IN (5, 6::bigint)', q{id = ANY ('{5,6}'::bigint[])},
		'id BETWEEN 2 AND 5::bigint', 'nullif(id, 0) = 5'),
	'SELECT FROM orders o JOIN lines ON id = order_id', 'SELECT FROM orders JOIN keys ON id = b', 'SELECT FROM orders JOIN keys ON id = i',
	'SELECT FROM orders JOIN keys ON id = s', 'SELECT FROM v_using', 'SELECT FROM v_natural_series', 'SELECT FROM v_using_bigint',
	'SELECT FROM v_in_rows', 'SELECT FROM v_mixed', 'SELECT FROM brins WHERE id > 5', 'SELECT FROM hashes WHERE id = 5::smallint',
	'SELECT FROM by_range WHERE id = 1', 'SELECT FROM by_list WHERE id = 5::bigint', 'SELECT FROM by_hash WHERE id = 5',
	'SELECT FROM fives WHERE (id = 5)', 'SELECT FROM fives WHERE n = 5 AND (id, n) > (1, 1)',
	'SELECT max(id) FROM orders');
my @gist_queries = ('SELECT id FROM bookings ORDER BY id <-> 5::bigint LIMIT 2');
foreach my $table ('bookings', 'tags')
{
	push @gist_queries, map { ("SELECT FROM $table WHERE $_ = 5::bigint", "SELECT FROM $table WHERE $_ = '5'",
			"SELECT FROM $table WHERE $_ > '5' AND $_ < 7::bigint") } ('id', 'd');
}

# Return the lines of the plans that say which conditions and partitions are used: of a
# hash join, and with indexes.
sub plans
{
	my ($node, $database, $schema, @of) = @_;
	my $sql = "SET search_path = $schema, public;\n";

	foreach my $settings ('SET enable_seqscan = off; SET enable_mergejoin = off; SET enable_hashjoin = off; SET enable_bitmapscan = on',
		'SET enable_nestloop = off; SET enable_hashjoin = on', 'SET enable_hashjoin = off; SET enable_mergejoin = on')
	{
		$sql .= "$settings;\n" . join '', map { "SELECT \$q\$$schema: $_\$q\$;\nEXPLAIN (COSTS OFF) $_;\n" } @of;
		@of = grep { /JOIN|v_/ } @of;
	}
	return join "\n", grep { /^\w+: |Cond: |Order By: |Scan .*\bby_/ } split /\n/, query($node, $sql, database => $database);
}

# Return what a user sees of a database: a hash of texts.
sub seen
{
	my ($node, $database) = @_;
	my %in = (database => $database);
	my %seen;

	query($node, 'ANALYZE', %in);
	$seen{types} = query($node, qq{SELECT c.oid::regclass, attname, format_type(atttypid, atttypmod) FROM pg_class c JOIN pg_attribute ON attrelid = c.oid
		WHERE relnamespace $ours AND attnum > 0 AND NOT attisdropped ORDER BY c.oid::regclass::text COLLATE "C", attname}, %in);
	my @relations = split /\n/, query($node, qq{SELECT oid::regclass FROM pg_class WHERE relnamespace $ours AND relkind IN ('r', 'v', 'm')
		ORDER BY oid::regclass::text COLLATE "C"}, %in);
	$seen{rows} = query($node, join('', map { qq{SELECT '$_', r FROM (SELECT to_json(t)::text AS r FROM $_ t) t ORDER BY r COLLATE "C";\n} } @relations), %in);
	$seen{shown} = query($node, 'SET ROLE reader; SELECT id FROM plain.orders ORDER BY id; SELECT id FROM domains.orders ORDER BY id', %in);
	$seen{code} = query($node, join('', map { qq{SET search_path = $_; SELECT to_json(r) FROM rows_above() r ORDER BY id; SELECT first_of(2);\n} } 'plain', 'domains'), %in);
	$seen{plans} = join "\n", plans($node, $database, 'plain', @queries), plans($node, $database, 'domains', @queries),
	  $gist ? plans($node, $database, 'gist', @gist_queries) : ();
	$seen{classes} = query($node, q{SELECT opcnamespace::regnamespace, opcname, amname, opcdefault, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
			WHERE opcintype = 'snowflake'::regtype ORDER BY 3;
		SELECT oprnamespace::regnamespace, oprname, oprleft::regtype, oprright::regtype FROM pg_operator WHERE 'snowflake'::regtype IN (oprleft, oprright) ORDER BY 2, 3, 4}, %in);

	# the server puts other parentheses around AND and OR that it reads again
	$seen{definitions} = query($node, qq{
		SELECT oid::regclass, pg_get_viewdef(oid) FROM pg_class WHERE relnamespace $ours AND relkind IN ('v', 'm');
		SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace $ours;
		SELECT pg_get_indexdef(oid) FROM pg_class WHERE relnamespace $ours AND relkind IN ('i', 'I');
		SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal;
		SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename LIKE 'r\\_%';
		SELECT polname, polrelid::regclass, polpermissive, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid) FROM pg_policy;
		SELECT pg_get_statisticsobjdef(oid) FROM pg_statistic_ext;
		SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace $ours;
		SELECT attrelid::regclass, attname, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum;
		SELECT oid::regclass, pg_get_expr(relpartbound, oid) FROM pg_class WHERE relpartbound IS NOT NULL;
		SELECT prrelid::regclass, pg_get_expr(prqual, prrelid), prattrs FROM pg_publication_rel}, %in);
	$seen{definitions} = join "\n", sort map { s/[()]//gr =~ s/^\s+//r } split /\n/, $seen{definitions};
	return \%seen;
}

# Return the lines that have gone (-) and that are new (+).
sub differences
{
	my ($before, $after) = @_;
	my %n;

	$n{$_}++ foreach split /\n/, $after;
	$n{$_}-- foreach split /\n/, $before;
	return join "\n", map { ($n{$_} > 0 ? '+ ' : '- ') . $_ } sort grep { $n{$_} } keys %n;
}

# Check that a user sees the same, but for these.
sub same
{
	my ($before, $after, $name, @except) = @_;

	foreach my $what (sort keys %$before)
	{
		next if grep { $_ eq $what } @except;
		is(differences($before->{$what}, $after->{$what}), '', "$name: the same $what");
	}
	return;
}

# ---- pg_upgrade, twice ----

# Make a cluster, and return it with the directory of its programs. From 18 on new
# clusters have checksums by default. pg_upgrade wants both clusters to agree on them.
sub cluster
{
	my ($name, $pg_config) = @_;
	my $bindir = `"$pg_config" --bindir`;

	chomp $bindir;
	my $cluster = PostgreSQL::Test::Cluster->new($name, install_path => $bindir =~ s{/bin/?\z}{}r);
	$cluster->init(extra => $cluster->pg_version >= 18 ? ['--no-data-checksums'] : []);
	$cluster->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'snowflake'", "snowflake.node_id = '1'",
		'wal_level = logical', 'max_wal_senders = 10', 'autovacuum = off', 'log_statement = none', ''));
	return ($cluster, $bindir);
}

# Upgrade a cluster, start it, and return what a user of the database sees.
sub upgrade
{
	my ($old, $old_bindir, $new, $new_bindir) = @_;

	$old->stop;
	chdir $new->basedir or die;
	command_ok([ "$new_bindir/pg_upgrade", '-b', $old_bindir, '-B', $new_bindir, '-d', $old->data_dir, '-D', $new->data_dir,
			'-s', $new->host, '-p', $old->port, '-P', $new->port ],
		'pg_upgrade from ' . $old->pg_version . ' to ' . $new->pg_version)
	  or diag(map { slurp_file($_) } glob($new->data_dir . '/pg_upgrade_output.d/*/log/*_dump_*.log'));
	$new->start;
	return seen($new, 'made');
}

my ($old, $old_bindir) = cluster('old', $ENV{OLD_PG_CONFIG} || $ENV{PG_CONFIG});
my ($middle, $bindir) = cluster('middle', $ENV{PG_CONFIG});
my ($node) = cluster('new', $ENV{PG_CONFIG});
$old->start;
query($old, 'CREATE ROLE reader');
make($old, 'made');
my $made = seen($old, 'made');
unlike($made->{classes}, qr/\|f$/m, 'the operator classes are valid');
is(() = $made->{classes} =~ /^pg_catalog\|/mg, 42, 'all operators lie in pg_catalog');
like($made->{shown}, qr/^2\n9007199254740993\n9007199254740994\n2\n/, 'a policy hides rows');
like($made->{plans}, qr/^plain: SELECT FROM orders WHERE id = $_\n *Index Cond/m, "an index serves = $_") foreach ('5', '5::bigint');
like($made->{plans}, qr/^plain: SELECT FROM v_using_bigint\n *Hash Cond/m, 'a join hashes');
if ($gist)
{
	is(() = $made->{plans} =~ /^gist: .*\n(?: *Recheck.*\n)? *(?:Index Cond|Order By)/mg, 13, 'indexes of GiST and GIN serve the type and bigint');
	refused($old, 'SET search_path = gist; INSERT INTO bookings SELECT id, 2000, room, during FROM bookings WHERE id = 7', '23P01',
		qr/bookings_id_during_excl/, 'an exclusion constraint compares the type', database => 'made');
	refused($old, 'SET search_path = gist; INSERT INTO bookings SELECT 2000, d, room, during FROM bookings WHERE id = 7', '23P01',
		qr/bookings_d_room_excl/, 'and a domain', database => 'made');
}
refused($old, 'CREATE PUBLICATION filtered FOR TABLE plain.orders WHERE (id > 1)', '0A000', qr/User-defined operators are not allowed/,
	'a row filter takes no column of the type', database => 'made');

# majors print definitions and plans differently
my @by_major = int($old->pg_version->major) == int($node->pg_version->major) ? () : ('definitions', 'plans');
my $once = upgrade($old, $old_bindir, $middle, $bindir);
same($made, $once, 'pg_upgrade', @by_major);
my $before = upgrade($middle, $bindir, $node, $bindir);
same($once, $before, 'pg_upgrade again');

# ---- dumps ----

command_ok([ 'pg_dump', '-f', "$dir/text", $node->connstr('made') ], 'pg_dump');
command_ok([ 'pg_dump', '-Fc', '-f', "$dir/custom", $node->connstr('made') ], 'pg_dump -Fc');
query($node, 'CREATE DATABASE by_psql');
query($node, 'CREATE DATABASE by_pg_restore');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/out", '-f', "$dir/text", $node->connstr('by_psql') ], 'psql restores');
command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('by_pg_restore'), "$dir/custom" ], 'pg_restore');
same($before, seen($node, 'by_psql'), 'psql');
same($before, seen($node, 'by_pg_restore'), 'pg_restore');

# ---- logical replication ----

command_ok([ 'pg_dump', '--schema-only', '-f', "$dir/schema", $node->connstr('made') ], 'pg_dump --schema-only');
query($node, 'CREATE DATABASE subscriber');
command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/out", '-f', "$dir/schema", $node->connstr('subscriber') ], 'psql restores the schema');
query($node, 'CREATE PUBLICATION everything FOR ALL TABLES', database => 'made');
query($node, q{SELECT pg_create_logical_replication_slot('everything', 'pgoutput')}, database => 'made');
query($node, qq{CREATE SUBSCRIPTION everything CONNECTION '@{[ $node->connstr('made') =~ s/'/''/gr ]}' PUBLICATION everything
	WITH (create_slot = false, slot_name = everything)}, database => 'subscriber');
$node->wait_for_subscription_sync($node, 'everything', 'subscriber');

# Return what a user of the subscriber sees.
sub replicated
{
	query($node, 'REFRESH MATERIALIZED VIEW plain.stored; REFRESH MATERIALIZED VIEW domains.stored', database => $_)
		foreach ('made', 'subscriber');
	return seen($node, 'subscriber');
}

same($before, replicated(), 'a subscriber');
foreach my $schema ('plain', 'domains')
{
	query($node, "SET search_path = $schema, public; UPDATE orders SET id = 9007199254740995 WHERE id = 9007199254740994;
		INSERT INTO orders (id, customer) VALUES (12, 4); DELETE FROM lines WHERE order_id = 5; UPDATE keys SET k = 9 WHERE k = 5;
		UPDATE by_range SET id = 9 WHERE id = 5; UPDATE hashes SET id = 3000 WHERE id = 5", database => 'made');
}
$node->wait_for_catchup('everything');
my $replicated = replicated();
same(seen($node, 'made'), $replicated, 'a subscriber after changes');
isnt($replicated->{rows}, $before->{rows}, 'there were changes');
query($node, 'DROP SUBSCRIPTION everything', database => 'subscriber');

# ---- conversions ----

my %in = (database => 'by_psql');
my $to_bigint = q{snowflake_convert('plain.orders'};
my $to_type = q{snowflake_convert('plain.orders', type => 'snowflake'};

# Return rows without the quotes around numbers.
sub unquoted { return $_[0]{rows} =~ s/"(\d+)"/$1/gr }

# The definition of a view has casts, which come back as casts.
my $cast = <<'DIFFERENCES' =~ s/\n\z//r;
+ plain.v_case|id|bigint
- plain.v_case|id|snowflake
- plain.v_casts|b|bigint
+ plain.v_casts|b|snowflake
+ plain.v_choices|c|bigint
- plain.v_choices|c|snowflake
+ plain.v_choices|g|bigint
- plain.v_choices|g|snowflake
+ plain.v_choices|l|bigint
- plain.v_choices|l|snowflake
+ plain.v_window|lag|bigint
- plain.v_window|lag|snowflake
DIFFERENCES

my $script = query($node, "SELECT statement FROM $to_bigint)", %in);
same($before, seen($node, 'by_psql'), 'a dry run');
my $noted = query($node, "SELECT substring(statement FROM 'VIEW (\\S+)') FROM $to_bigint) WHERE note LIKE '%cast to bigint or snowflake%' ORDER BY 1", %in);
foreach my $view ('v_case', 'v_casts', 'v_choices', 'v_window')
{
	like($noted, qr/^plain\.$view$/m, "a dry run notes that $view has casts");
}
is(query($node, "SELECT statement FROM $to_bigint, dry_run => false)", %in), $script =~ s/\ABEGIN\n//r =~ s/\nCOMMIT\z//r, 'orders become bigint');
my $bigint = seen($node, 'by_psql');
is(query($node, q{SELECT DISTINCT atttypid::regtype FROM pg_attribute WHERE (attrelid, attname)
	IN (('plain.orders'::regclass, 'id'), ('plain.lines'::regclass, 'order_id'), ('plain.v_using'::regclass, 'id'), ('plain.v_nullif'::regclass, 'id'))}, %in),
	'bigint', '... with the columns that refer to them, and views');
is(unquoted($bigint) =~ s/"type":"\w+"//gr, unquoted($before) =~ s/"type":"\w+"//gr, '... and the same rows');
is($bigint->{$_}, $before->{$_}, "... the same $_") foreach ('shown', 'classes');
is(() = $bigint->{plans} =~ /^plain: .*\n.*Cond/mg, () = $before->{plans} =~ /^plain: .*\n.*Cond/mg, '... as many conditions of plans');

sub back
{
	my ($name) = @_;
	my $after = seen($node, 'by_psql');

	is(differences($before->{types}, $after->{types}), $cast, "$name: the same types, but for casts in views");
	is(unquoted($after), unquoted($before), "$name: the same rows");
	my ($old, $new) = map { join "\n", grep { !/COALESCE|GREATEST|LEAST|\blag|array_position|rank|WHEN|ELSE|AS [bt]\b/ } split /\n/, $_->{definitions} } $before, $after;
	is(differences($old, $new), '', "$name: the same definitions");
	is($after->{$_}, $before->{$_}, "$name: the same $_") foreach ('shown', 'classes', 'plans');
	return;
}

query($node, "SELECT count(*) FROM $to_type, dry_run => false)", %in);
back('back to the type');
query($node, q{SELECT count(*) FROM snowflake_revert('plain.orders', dry_run => false)}, %in);
is(unquoted(seen($node, 'by_psql')) =~ s/"type":"\w+"//gr, unquoted($before) =~ s/"type":"\w+"//gr, 'reverted orders have the same rows');
query($node, "SELECT count(*) FROM $to_type, dry_run => false)", %in);
back('converted again');

# what cannot come along is refused by the dry run
refused($node, q{SELECT snowflake_convert('domains.orders')}, '42804', qr/column "id" of relation "orders" is of type public\.key/, 'a domain is refused', %in);
refused($node, "SELECT snowflake_convert('plain.$_')", '0A000', qr/Column id is part of the partition key of plain\.$_\./, "$_ is refused", %in)
  foreach ('by_range', 'by_list', 'by_hash', 'by_expression');
if ($gist)
{
	my $row = 'SELECT to_json(c), pg_typeof(id) FROM gist.converted c';
	my $kept = query($node, $row, %in);

	query($node, q{SELECT count(*) FROM snowflake_convert('gist.converted', dry_run => false)}, %in);
	like(query($node, $row, %in), qr/"id":5,.*\|bigint$/, 'a column with an exclusion constraint becomes bigint');
	query($node, q{SELECT count(*) FROM snowflake_convert('gist.converted', type => 'snowflake', dry_run => false)}, %in);
	is(query($node, $row, %in), $kept, '... and the type again');
	refused($node, 'INSERT INTO gist.converted SELECT * FROM gist.converted', '23(P01|505)', qr/converted/, '... the constraint holds', %in);
	query($node, q{CREATE EXTENSION snowflake; CREATE EXTENSION btree_gist;
		CREATE TABLE bookings (id bigint PRIMARY KEY, during tstzrange, EXCLUDE USING gist (id WITH =, during WITH &&))});
	refused($node, q{SELECT snowflake_convert('bookings', type => 'snowflake')}, '0A000',
		qr/constraint bookings_id_during_excl on table public\.bookings compares column id of public\.bookings: the access method gist has no operator class for public\.snowflake\./,
		'without the class of examples/btree_gist.sql a dry run refuses the constraint');
	make_classes($node, 'postgres');
	query($node, q{SELECT count(*) FROM snowflake_convert('bookings', type => 'snowflake', dry_run => false)});
	is(query($node, q{SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 'bookings'::regclass AND attname = 'id'}), 'snowflake',
		'with the class it has the type');
	my $temporal = 'CREATE TABLE temporal (id snowflake, during tstzrange, PRIMARY KEY (id, during WITHOUT OVERLAPS))';
	is(answer($node, $temporal), '', 'a key without overlaps') if $node->pg_version >= 18;
	is(answer($node, qq{ALTER EXTENSION btree_gist UPDATE;
		ALTER OPERATOR FAMILY public.snowflake_ops USING gist ADD FUNCTION 12 ("any", "any") public.gist_translate_cmptype_btree(integer);
		$temporal}, database => 'made'), '', 'a key without overlaps, with a class of an earlier major')
	  if $node->pg_version >= 18 && $old->pg_version < 18;
	is(answer($node, 'DROP TABLE gist.bookings, gist.converted; DROP OPERATOR FAMILY public.snowflake_ops USING gist', database => 'by_pg_restore'), '', 'the class is dropped');
	make_classes($node, 'by_pg_restore');
}

$node->stop;
done_testing();
