# Conversions of keys to Snowflake keys, and back. The test compares what pg_dump
# writes of the schema before and after, and lists every difference that it allows.
#
# takes: 30 s
use SnowflakeTest;

# The mark of a copied database continues from the mark of the original. A short
# reserve keeps the marks near the clock.
my $node = new_server('main', "snowflake.shards = '5'", 'wal_level = logical',
	'snowflake.reserve = 100ms');
$node->start;
query($node, 'CREATE ROLE bob; CREATE ROLE carol; CREATE ROLE "dave ""D"');
my $major = query($node, 'SELECT current_setting($$server_version_num$$)::integer / 10000');

# ---- dumps ----

# Return the schema as pg_dump writes it: a hash from the kind and name of an object to
# its lines.
sub dump_schema
{
	my ($database, $server) = @_;
	my ($out) = run_command([ 'pg_dump', '--schema-only',
			($server || $node)->connstr($database) ]);
	my %dump;

	foreach my $entry (split /^-- Name: /m, $out)
	{
		my ($head, @lines) = split /\n/, $entry;
		my ($name, $type) = $head =~ /^(.*?); Type: (.*?); Schema/ or next;
		$dump{"$type $name"} = [ grep { !/^(--.*|\\.*)?$/ } @lines ];
	}
	die "pg_dump writes nothing of $database" unless %dump;
	return \%dump;
}

# Return the lines that have gone (-) and that are new (+), each after the name of its
# object.
sub differences
{
	my ($before, $after) = @_;
	my (@diff, %names);

	$names{$_} = 1 foreach keys %$before, keys %$after;
	foreach my $name (sort keys %names)
	{
		if (!$after->{$name} || !$before->{$name})
		{
			push @diff, ($after->{$name} ? '+ ' : '- ') . $name;
			next;
		}
		my (%old, %new);
		$old{s/,$//r}++ foreach @{ $before->{$name} };
		$new{s/,$//r}++ foreach @{ $after->{$name} };
		push @diff, map { s/^\s+//; "$name: - $_" }
		  grep { !$new{$_} } map { s/,$//r } @{ $before->{$name} };
		push @diff, map { s/^\s+//; "$name: + $_" }
		  grep { !$old{$_} } map { s/,$//r } @{ $after->{$name} };
		push @diff, "$name: another order"
		  if join("\n", grep { $new{$_} } map { s/,$//r } @{ $before->{$name} }) ne
			join("\n", grep { $old{$_} } map { s/,$//r } @{ $after->{$name} });
	}
	return join "\n", @diff;
}

# Return a diff as a list, without IDs and without what only newer majors write.
sub plain
{
	my ($diff) = @_;

	$diff =~ s/ CONSTRAINT ("[^"]*"|\w+)+ NOT NULL/ NOT NULL/g;
	$diff =~ s/\b(av3|thread)\.//g;
	$diff =~ s/\b\d{18,19}$/(Snowflake)/mg;
	return listed($diff);
}

# Return lines sorted and without blanks around them.
sub listed
{
	my ($lines) = @_;

	return join "\n", sort grep { $_ ne '' } map { s/^\s+|\s+$//gr } split /\n/, $lines;
}

# Return the number of the table's rows, and a checksum of their contents.
sub rows_of
{
	my ($database, $table) = @_;

	return query($node, "SELECT count(*), md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM $table t",
		database => $database);
}

# Return what differs for a sequence that a conversion keeps: the column owns it no more,
# and its comment says which column did.
sub kept
{
	my ($sequence) = @_;

	return "- SEQUENCE OWNED BY $sequence\n+ COMMENT SEQUENCE "
	  . ($sequence =~ /\W/ ? qq{"$sequence"} : $sequence) . "\n";
}

# ---- shapes ----

# Convert a table and revert it, in a database of its own. The options: "with" has more
# arguments for the call; "owners" matches the names of objects with other owners, for
# which psql must run the script; "insert" makes a row (by default a row of default
# values); "converted" are the expected differences after the conversion. After the
# reversion those of types are left, "reverted" are further ones, and "all_reverted" are
# all, where this is not so.
my $shapes = 0;

sub convert
{
	my ($name, $table, $setup, %options) = @_;
	my %in = (database => 'shape' . ++$shapes);
	my $column = $options{column} // 'id';
	my $quoted = $options{quoted} // $column;
	my $call = "snowflake_convert(\$t\$$table\$t\$, '$column'" . ($options{with} // '');

	query($node, "CREATE DATABASE $in{database}");
	query($node, "CREATE EXTENSION snowflake; $setup", %in);
	my $before = dump_schema($in{database});
	my $rows = $options{made} ? undef : rows_of($in{database}, $table);

	# a dry run prints the script and changes nothing
	my $script = query($node, "SELECT statement FROM $call)", %in);
	is(differences($before, dump_schema($in{database})), '',
		"$name: a dry run changes nothing");
	like($script, qr/\ABEGIN\n.*\nCOMMIT\z/s, "$name: the script is a transaction");

	# psql runs the script in a copy, where the first schema of the path redefines
	# names
	query($node, "CREATE DATABASE copy TEMPLATE $in{database}");
	my ($status, $out, $err) = $node->psql('copy', qq{
		CREATE SCHEMA trap;
		CREATE FUNCTION trap.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT 1';
		CREATE FUNCTION trap.eq(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
		CREATE OPERATOR trap.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.eq);
		CREATE OPERATOR trap.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.eq);
		CREATE DOMAIN trap.snowflake AS text;
		CREATE FUNCTION trap.eq(public.snowflake, integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT 1 / 0 = 1';
		CREATE OPERATOR trap.> (LEFTARG = public.snowflake, RIGHTARG = integer, FUNCTION = trap.eq);
		SET search_path = trap, pg_catalog, public;
		SELECT statement FROM public.$call) \\gexec
		RESET search_path;
		DROP SCHEMA trap CASCADE;});
	is($status, 0, "$name: psql runs the script") or diag($err);
	my $by_psql = dump_schema('copy');
	query($node, 'DROP DATABASE copy');

	# the function runs the script itself, if one role owns everything
	if ($options{owners})
	{
		refused($node, "SELECT statement FROM $call, dry_run => false)", '42501',
			qr/have other owners than its table.*$options{owners}/s, "$name: is not run for several owners", %in);
		$node->psql($in{database}, "SELECT statement FROM $call) \\gexec", on_error_die => 1);
	}
	else
	{
		my $ran = query($node, "SELECT statement FROM $call, dry_run => false)", %in);
		is($ran, $script =~ s/\ABEGIN\n//r =~ s/\nCOMMIT\z//r,
			"$name: what is run is the script");
	}
	my $after = dump_schema($in{database});
	is(plain(differences($before, $after)), listed($options{converted}), "$name: all else is as before");
	is(differences($after, $by_psql), '', "$name: psql runs it with the same result");
	is(rows_of($in{database}, $table), $rows, "$name: so are the rows")
	  if defined $rows;

	# insert a row, and check what refers to it
	my $largest = query($node, "SELECT coalesce(max($quoted)::bigint, 0) FROM $table", %in);
	my $id = query($node, ($options{insert} // "INSERT INTO $table DEFAULT VALUES")
		. " RETURNING $quoted", %in);
	cmp_ok($id, '>', $largest, "$name: the next row is above");
	cmp_ok($id, '>', 2**40, "$name: with a Snowflake ID");
	$options{then}->($id, %in) if $options{then};

	# convert the key back
	my $back = "snowflake_revert(\$t\$$table\$t\$, '$column'" . ($options{back} // '');
	query($node, "SELECT $back)", %in);
	is(differences($after, dump_schema($in{database})), '',
		"$name: a dry run of the way back changes nothing");
	query($node, "SELECT $back, dry_run => false)", %in);
	my $types = $options{converted} =~ s/ DEFAULT public\.snowflake_(shard_)?nextval\((\(\d+\)::bigint)?\)//gr =~
	  s/^\s*(- (DEFAULT|SEQUENCE)|\+ COMMENT SEQUENCE) .*//gmr;
	is(plain(differences($before, dump_schema($in{database}))),
		listed($options{all_reverted} // $types . ($options{reverted} // '')), "$name: the way back");
	return \%in;
}

convert('plain integer', 'plain', q{
	CREATE TABLE plain (id integer PRIMARY KEY, note text DEFAULT 'x');
	COMMENT ON COLUMN plain.id IS 'the key';
	GRANT SELECT (id), UPDATE ON plain TO bob;
	INSERT INTO plain SELECT generate_series(1, 100)},
	converted => q{
		TABLE plain: - id integer NOT NULL
		TABLE plain: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	});

convert('bigserial', 'big', q{
	CREATE TABLE big (id bigserial PRIMARY KEY);
	CREATE VIEW over_big AS SELECT * FROM big;
	CREATE TABLE refers (big_id bigint REFERENCES big);
	INSERT INTO big SELECT FROM generate_series(1, 10)},
	converted => kept('big_id_seq') . q{
		- DEFAULT big id
		TABLE big: - id bigint NOT NULL
		TABLE big: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, all_reverted => '');

convert('serial', 'customer', q{
	CREATE TABLE customer (id serial PRIMARY KEY, boss integer, unit smallint,
		FOREIGN KEY (boss) REFERENCES customer ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED);
	CREATE TABLE orders (customer integer REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE,
		payer smallint DEFAULT 1, CHECK (payer > 0), EXCLUDE (customer WITH =));
	ALTER TABLE orders ADD CONSTRAINT later FOREIGN KEY (payer) REFERENCES customer
		ON DELETE SET DEFAULT ON UPDATE RESTRICT NOT VALID;
	COMMENT ON CONSTRAINT later ON orders IS 'not valid';
	COMMENT ON CONSTRAINT customer_pkey ON customer IS 'the key';
	COMMENT ON INDEX customer_pkey IS 'its index';
	CREATE TABLE note (customer integer PRIMARY KEY REFERENCES customer MATCH FULL DEFERRABLE);
	CREATE TABLE remark (note integer REFERENCES note, at timestamptz);
	CREATE UNIQUE INDEX odd ON customer ((id % 1000), boss DESC NULLS LAST) INCLUDE (unit)
		WITH (fillfactor = 70) WHERE id > 3;
	CREATE INDEX ON orders USING hash (customer);
	CREATE INDEX by_boss ON customer (boss); ALTER TABLE customer CLUSTER ON by_boss;
	ALTER TABLE note REPLICA IDENTITY USING INDEX note_pkey;
	CREATE STATISTICS both_of ON id, boss FROM customer;
	ALTER STATISTICS both_of SET STATISTICS 33;
	ALTER STATISTICS both_of OWNER TO bob;
	COMMENT ON STATISTICS both_of IS 'both';
	ALTER TABLE customer ALTER id SET STATISTICS 77, ALTER id SET (n_distinct = -1);
	INSERT INTO customer (boss) SELECT 1 FROM generate_series(1, 20);
	INSERT INTO orders SELECT id FROM customer;
	INSERT INTO note SELECT id FROM customer;
	INSERT INTO remark SELECT customer, now() FROM note},
	then => sub {
		my ($id, %in) = @_;
		query($node, "INSERT INTO note VALUES ($id); INSERT INTO remark VALUES ($id);
			INSERT INTO orders VALUES ($id); UPDATE customer SET boss = $id WHERE id = $id", %in);
		pass('all that refers to it holds its ID');
	},
	back => ', restart => 21',
	converted => kept('customer_id_seq') . q{
		- DEFAULT customer id
		INDEX odd: - CREATE UNIQUE INDEX odd ON public.customer USING btree (((id % 1000)), boss DESC NULLS LAST) INCLUDE (unit) WITH (fillfactor='70') WHERE (id > 3);
		INDEX odd: + CREATE UNIQUE INDEX odd ON public.customer USING btree (((id % (1000)::bigint)), boss DESC NULLS LAST) INCLUDE (unit) WITH (fillfactor='70') WHERE (id > 3);
		TABLE customer: - id integer NOT NULL
		TABLE customer: - boss integer
		TABLE customer: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE customer: + boss bigint
		TABLE note: - customer integer NOT NULL
		TABLE note: + customer bigint NOT NULL
		TABLE orders: - customer integer
		TABLE orders: - payer smallint DEFAULT 1
		TABLE orders: + customer bigint
		TABLE orders: + payer bigint DEFAULT 1
		TABLE remark: - note integer
		TABLE remark: + note bigint
	}, reverted => q{
		SEQUENCE customer_id_seq: - AS integer
		SEQUENCE customer_id_seq: - NO MAXVALUE
		SEQUENCE customer_id_seq: + MAXVALUE (Snowflake)
	});

convert('identity ALWAYS', 'always', q{
	CREATE TABLE always (id integer GENERATED ALWAYS AS IDENTITY (START 5 CACHE 3) PRIMARY KEY);
	INSERT INTO always SELECT FROM generate_series(1, 10)},
	back => ", 'always'",
	converted => q{
		- SEQUENCE always_id_seq
		TABLE always: - id integer NOT NULL
		TABLE always: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, reverted => q{
		SEQUENCE always_id_seq: - START WITH 5
		SEQUENCE always_id_seq: - CACHE 3
		SEQUENCE always_id_seq: + START WITH (Snowflake)
		SEQUENCE always_id_seq: + CACHE 1
	});

convert('identity BY DEFAULT', 'by_default', q{
	CREATE TABLE by_default (id smallint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY);
	INSERT INTO by_default SELECT FROM generate_series(1, 10)},
	back => ", 'by default', 11",
	converted => q{
		- SEQUENCE by_default_id_seq
		TABLE by_default: - id smallint NOT NULL
		TABLE by_default: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, reverted => q{
		SEQUENCE by_default_id_seq: - START WITH 1
		SEQUENCE by_default_id_seq: - NO MAXVALUE
		SEQUENCE by_default_id_seq: + START WITH 11
		SEQUENCE by_default_id_seq: + MAXVALUE (Snowflake)
	});

convert('partitions', 'parts', q{
	CREATE TABLE parts (id serial, made date, region text, more integer,
		PRIMARY KEY (id, made, region), UNIQUE (made, region, more, id)) PARTITION BY RANGE (made);
	CREATE SEQUENCE of_its_own;
	CREATE TABLE p1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-07-01');
	ALTER TABLE p1 ALTER id SET DEFAULT nextval('of_its_own');
	CREATE TABLE p2 PARTITION OF parts FOR VALUES FROM ('2026-07-01') TO ('2027-01-01') PARTITION BY HASH (region);
	CREATE TABLE p2a PARTITION OF p2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE p2b (gone text, more integer, made date NOT NULL, region text NOT NULL, id integer NOT NULL,
		CONSTRAINT "My Key" PRIMARY KEY (id, made, region) WITH (fillfactor = 60));
	ALTER TABLE p2b DROP gone;
	ALTER TABLE p2 ATTACH PARTITION p2b FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	COMMENT ON CONSTRAINT "My Key" ON p2b IS 'mine';
	COMMENT ON INDEX "My Key" IS 'my index';
	CREATE INDEX named ON ONLY parts (id DESC);
	CREATE INDEX named1 ON p1 (id DESC) WITH (fillfactor = 50);
	CREATE INDEX named2 ON ONLY p2 (id DESC);
	CREATE INDEX named2a ON p2a (id DESC);
	CREATE INDEX named2b ON p2b (id DESC);
	ALTER INDEX named2 ATTACH PARTITION named2a;
	ALTER INDEX named2 ATTACH PARTITION named2b;
	ALTER INDEX named ATTACH PARTITION named2;
	ALTER INDEX named ATTACH PARTITION named1;
	COMMENT ON INDEX named1 IS 'one';
	CREATE INDEX ON p1 (id, more);
	CREATE INDEX ON parts ((id + more));
	CREATE TABLE lines (part integer, made date, region text, line integer,
		FOREIGN KEY (part, made, region) REFERENCES parts ON DELETE CASCADE DEFERRABLE) PARTITION BY HASH (line);
	CREATE TABLE lines0 PARTITION OF lines FOR VALUES WITH (MODULUS 1, REMAINDER 0);
	COMMENT ON CONSTRAINT lines_part_made_region_fkey ON lines IS 'composite';
	CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER on_id AFTER UPDATE OF id ON parts FOR EACH ROW EXECUTE FUNCTION fired();
	CREATE TRIGGER on_when AFTER INSERT ON lines FOR EACH ROW WHEN (NEW.part > 0) EXECUTE FUNCTION fired();
	COMMENT ON TRIGGER on_id ON parts IS 'a trigger';
	COMMENT ON TRIGGER on_id ON p2b IS 'a clone';
	ALTER TABLE p2a DISABLE TRIGGER on_id;
	ALTER TABLE p1 REPLICA IDENTITY USING INDEX p1_pkey;
	ALTER TABLE p2b CLUSTER ON "My Key";
	CREATE UNIQUE INDEX referred ON parts (made, region, id);
	ALTER INDEX p1_made_region_id_idx RENAME TO of_p1;
	ALTER INDEX of_p1 SET (fillfactor = 40);
	COMMENT ON INDEX of_p1 IS 'of p1';
	ALTER TABLE p2b REPLICA IDENTITY USING INDEX p2b_made_region_id_idx;
	CREATE TABLE of_unique (made date, region text, part integer, FOREIGN KEY (made, region, part) REFERENCES parts (made, region, id));
	CREATE INDEX computed ON p1 ((id + 1)); ALTER INDEX computed ALTER COLUMN 1 SET STATISTICS 66;
	ALTER INDEX of_p1 DEPENDS ON EXTENSION plpgsql;
	ALTER TRIGGER on_id ON parts DEPENDS ON EXTENSION plpgsql;
	ALTER INDEX named DEPENDS ON EXTENSION plpgsql;
	ALTER INDEX computed DEPENDS ON EXTENSION plpgsql;
	CREATE PUBLICATION of_parts FOR TABLE p1, p2b;
	ALTER TABLE lines ENABLE ALWAYS TRIGGER on_when;
	INSERT INTO parts (made, region) SELECT date '2026-01-01' + i, i::text FROM generate_series(1, 300) i;
	INSERT INTO lines SELECT id, made, region, 1 FROM parts},
	insert => "INSERT INTO parts (made, region) VALUES ('2026-08-01', 'x')",
	then => sub {
		my ($id, %in) = @_;
		query($node, 'UPDATE parts SET more = 1', %in);
		pass('partitions have their replica identities, so that published rows are updated');
	},
	converted => kept('parts_id_seq') . q{
		- DEFAULT parts id
		TABLE lines: - part integer
		TABLE lines: + part bigint
		TABLE lines0: - part integer
		TABLE lines0: + part bigint
		TABLE of_unique: - part integer
		TABLE of_unique: + part bigint
		TABLE p1: - id integer DEFAULT nextval('public.of_its_own'::regclass) NOT NULL
		TABLE p1: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE p2: - id integer DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE p2a: - id integer DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2a: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE p2b: - id integer DEFAULT NULL NOT NULL
		TABLE p2b: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE parts: - id integer NOT NULL
		TABLE parts: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, all_reverted => q{
		SEQUENCE parts_id_seq: - AS integer
		TABLE lines: - part integer
		TABLE lines: + part bigint
		TABLE lines0: - part integer
		TABLE lines0: + part bigint
		TABLE of_unique: - part integer
		TABLE of_unique: + part bigint
		TABLE p1: - id integer DEFAULT nextval('public.of_its_own'::regclass) NOT NULL
		TABLE p1: + id bigint DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2: - id integer DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2: + id bigint DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2a: - id integer DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2a: + id bigint DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE p2b: - id integer DEFAULT NULL NOT NULL
		TABLE p2b: + id bigint DEFAULT nextval('public.parts_id_seq'::regclass) NOT NULL
		TABLE parts: - id integer NOT NULL
		TABLE parts: + id bigint NOT NULL
	});

convert('partitions with an identity', 'identified', q{
	CREATE TABLE identified (id integer GENERATED ALWAYS AS IDENTITY, made date) PARTITION BY RANGE (made);
	CREATE TABLE identified1 PARTITION OF identified DEFAULT PARTITION BY LIST (made);
	CREATE TABLE identified2 PARTITION OF identified1 DEFAULT;
	INSERT INTO identified (made) VALUES ('2026-01-01')},
	insert => "INSERT INTO identified (made) VALUES ('2026-08-01')",
	back => ", 'always', 2",
	converted => q{
		- SEQUENCE identified_id_seq
		TABLE identified: - id integer NOT NULL
		TABLE identified: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE identified1: - id integer NOT NULL
		TABLE identified1: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE identified2: - id integer NOT NULL
		TABLE identified2: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, reverted => q{
		SEQUENCE identified_id_seq: - START WITH 1
		SEQUENCE identified_id_seq: - NO MAXVALUE
		SEQUENCE identified_id_seq: + START WITH 2
		SEQUENCE identified_id_seq: + MAXVALUE (Snowflake)
	});

# From 18 on the server cannot alter a column's type if the column is inherited and
# also NOT NULL for a reason of the child's own, such as a primary key or an identity.
my $own_key = $major >= 18 ? 'UNIQUE' : 'PRIMARY KEY';
convert('inheritance', 'mother', qq{
	CREATE TABLE mother (id integer PRIMARY KEY, note text);
	CREATE SEQUENCE s;
	CREATE TABLE child (extra integer, $own_key (id)) INHERITS (mother);
	CREATE TABLE grandchild () INHERITS (child);
	CREATE TABLE other_child (UNIQUE (id, note)) INHERITS (mother);
	ALTER TABLE child ALTER id SET DEFAULT nextval('s');
	CREATE INDEX ON grandchild (id);
	CREATE TABLE of_child (child integer REFERENCES child (id), other integer);
	ALTER TABLE of_child ADD FOREIGN KEY (other) REFERENCES child (id);
	CREATE TABLE of_of_child (c integer) INHERITS (of_child);
	INSERT INTO child SELECT FROM generate_series(1, 5)},
	converted => q{
		DEFAULT child id: - ALTER TABLE ONLY public.child ALTER COLUMN id SET DEFAULT nextval('public.s'::regclass);
		DEFAULT child id: + ALTER TABLE ONLY public.child ALTER COLUMN id SET DEFAULT public.snowflake_nextval();
		DEFAULT grandchild id: - ALTER TABLE ONLY public.grandchild ALTER COLUMN id SET DEFAULT nextval('public.s'::regclass);
		DEFAULT grandchild id: + ALTER TABLE ONLY public.grandchild ALTER COLUMN id SET DEFAULT public.snowflake_nextval();
		+ DEFAULT other_child id
		TABLE mother: - id integer NOT NULL
		TABLE mother: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE of_child: - child integer
		TABLE of_child: - other integer
		TABLE of_child: + child bigint
		TABLE of_child: + other bigint
	}, all_reverted => q{
		- DEFAULT child id
		- DEFAULT grandchild id
		TABLE mother: - id integer NOT NULL
		TABLE mother: + id bigint NOT NULL
		TABLE of_child: - child integer
		TABLE of_child: - other integer
		TABLE of_child: + child bigint
		TABLE of_child: + other bigint
	});

convert('an identity of a child', 'mother', q{
	CREATE TABLE mother (id integer PRIMARY KEY);
	CREATE TABLE child (id integer GENERATED ALWAYS AS IDENTITY) INHERITS (mother);
	INSERT INTO child SELECT FROM generate_series(1, 5)},
	converted => q{
		- SEQUENCE child_id_seq
		TABLE child: - id integer
		TABLE child: + id bigint DEFAULT public.snowflake_nextval()
		TABLE mother: - id integer NOT NULL
		TABLE mother: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
	}, reverted => q{
		- SEQUENCE child_id_seq
	}) if $major < 18;

convert('composite keys', 'tenant_item', q{
	CREATE TABLE tenant_item (tenant integer, id integer, PRIMARY KEY (tenant, id), above integer,
		FOREIGN KEY (tenant, above) REFERENCES tenant_item);
	CREATE TABLE part_of (item integer, tenant integer, amount integer, UNIQUE (item, tenant, amount),
		CONSTRAINT part_of_item FOREIGN KEY (tenant, item) REFERENCES tenant_item ON UPDATE CASCADE);
	CREATE TABLE part_of_part (i integer, t integer, a integer,
		FOREIGN KEY (i, t, a) REFERENCES part_of (item, tenant, amount) MATCH FULL);
	INSERT INTO tenant_item SELECT 1, generate_series(1, 10)},
	insert => 'INSERT INTO tenant_item (tenant) VALUES (1)',
	converted => q{
		TABLE part_of: - item integer
		TABLE part_of: + item bigint
		TABLE part_of_part: - i integer
		TABLE part_of_part: + i bigint
		TABLE tenant_item: - id integer NOT NULL
		TABLE tenant_item: - above integer
		TABLE tenant_item: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE tenant_item: + above bigint
	});

convert('names', '"The ""Schema".  "Tab.le '.q{'}.'1"', q{
	CREATE SCHEMA "The ""Schema";
	SET search_path = "The ""Schema";
	CREATE TABLE "Tab.le '1" ("Row Id" serial PRIMARY KEY, "select" text,
		CONSTRAINT "ck""x" CHECK ("Row Id" > -5),
		"Gen %I" bigint GENERATED ALWAYS AS ("Row Id" + 1) STORED NOT NULL);
	CREATE INDEX "ix 'q" ON "Tab.le '1" ("Gen %I");
	CREATE TABLE "table" ("group" integer REFERENCES "Tab.le '1");
	CREATE VIEW "Vi""ew" AS SELECT "Row Id" AS "Out ""Id", "select" FROM "Tab.le '1";
	ALTER VIEW "Vi""ew" ALTER COLUMN "select" SET DEFAULT 'it''s';
	COMMENT ON COLUMN "Vi""ew"."Out ""Id" IS E'a \\\\ comment';
	GRANT SELECT ("Out ""Id"), INSERT ON "Vi""ew" TO "dave ""D";
	ALTER TABLE "Tab.le '1" ENABLE ROW LEVEL SECURITY;
	CREATE POLICY "po l" ON "Tab.le '1" AS RESTRICTIVE FOR UPDATE TO "dave ""D", PUBLIC
		USING ("Row Id" < 5) WITH CHECK ("Row Id" IN (SELECT "group" FROM "table"));
	CREATE POLICY other ON "table" USING (EXISTS (SELECT FROM "Vi""ew" WHERE "Out ""Id" = 7));
	COMMENT ON POLICY "po l" ON "Tab.le '1" IS 'policy';
	CREATE PUBLICATION "pu b" FOR TABLE "Tab.le '1" ("Row Id", "select") WHERE ("select" <> ')' AND "Row Id" > 0), "table";
	CREATE RULE "ru le" AS ON DELETE TO "table" WHERE OLD."group" > 1 DO ALSO INSERT INTO "Vi""ew" VALUES (1);
	ALTER TABLE "table" DISABLE RULE "ru le";
	COMMENT ON RULE "ru le" ON "table" IS 'rule';
	INSERT INTO "Tab.le '1" SELECT FROM generate_series(1, 5)},
	column => 'Row Id', quoted => '"Row Id"', made => 1,
	converted => kept("Tab.le '1_Row Id_seq") . q{
		- DEFAULT Tab.le '1 Row Id
		TABLE Tab.le '1: - "Row Id" integer NOT NULL
		TABLE Tab.le '1: + "Row Id" bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE table: - "group" integer
		TABLE table: + "group" bigint
	}, reverted => q{
		SEQUENCE Tab.le '1_Row Id_seq: - AS integer
	});

convert('views', 'base', q{
	CREATE TABLE base (id integer PRIMARY KEY, a text, b integer);
	CREATE TABLE far (base integer REFERENCES base, c text);
	CREATE FUNCTION one(bigint) RETURNS bigint STABLE COST 7 SET work_mem = '5MB'
		BEGIN ATOMIC SELECT count(*) FROM base WHERE id = $1; END;
	CREATE PROCEDURE two(n integer, INOUT m text DEFAULT 'a ''b') BEGIN ATOMIC DELETE FROM far WHERE base = n; SELECT m; END;
	GRANT EXECUTE ON FUNCTION one TO bob; REVOKE EXECUTE ON FUNCTION one FROM PUBLIC;
	ALTER FUNCTION one OWNER TO bob; COMMENT ON FUNCTION one IS 'one';
	GRANT CREATE, USAGE ON SCHEMA public TO bob, carol;
	GRANT SELECT ON base, far TO bob;
	CREATE VIEW v1 WITH (security_barrier) AS SELECT id, a, b FROM base WHERE id > 5 WITH LOCAL CHECK OPTION;
	ALTER VIEW v1 OWNER TO bob;
	GRANT SELECT ON v1 TO carol WITH GRANT OPTION;
	GRANT UPDATE (a, b), SELECT (a) ON v1 TO PUBLIC;
	REVOKE DELETE, TRUNCATE ON v1 FROM bob;
	SET ROLE carol; GRANT SELECT ON v1 TO "dave ""D"; RESET ROLE;
	COMMENT ON VIEW v1 IS 'it''s v1'; COMMENT ON COLUMN v1.a IS 'a';
	CREATE VIEW zv2 WITH (security_invoker, check_option = cascaded) AS SELECT id AS key, b FROM v1;
	CREATE VIEW av3 AS SELECT z.key, f.c, one(1) FROM zv2 z JOIN far f ON f.base = z.key;
	CREATE VIEW only_function AS SELECT one(2);
	CREATE RECURSIVE VIEW tree (id) AS SELECT id FROM base UNION SELECT t.id + 1 FROM tree t WHERE t.id < 3;
	CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TRIGGER ins INSTEAD OF INSERT ON av3 FOR EACH ROW EXECUTE FUNCTION instead();
	COMMENT ON TRIGGER ins ON av3 IS 'instead';
	CREATE RULE nothing AS ON DELETE TO zv2 DO INSTEAD NOTHING;
	CREATE MATERIALIZED VIEW m1 WITH (fillfactor = 80, toast.autovacuum_enabled = off) AS
		SELECT key, c, one(key) AS n FROM av3;
	ALTER MATERIALIZED VIEW m1 OWNER TO bob;
	CREATE UNIQUE INDEX m1_key ON m1 (key, c);
	CREATE INDEX m1_c ON m1 ((c || 'x')) WHERE key > 2;
	ALTER INDEX m1_c ALTER COLUMN 1 SET STATISTICS 55;
	COMMENT ON INDEX m1_c IS 'on c'; COMMENT ON MATERIALIZED VIEW m1 IS 'm1';
	ALTER MATERIALIZED VIEW m1 ALTER c SET STATISTICS 44, ALTER c SET STORAGE EXTERNAL, ALTER c SET (n_distinct = 9);
	ALTER MATERIALIZED VIEW m1 CLUSTER ON m1_key;
	GRANT SELECT ON m1 TO carol;
	CREATE STATISTICS m1_stats ON key, c FROM m1; COMMENT ON STATISTICS m1_stats IS 'm1';
	CREATE MATERIALIZED VIEW m2 AS SELECT * FROM m1 WITH NO DATA;
	CREATE VIEW over_m2 AS SELECT key FROM m2;
	ALTER DEFAULT PRIVILEGES GRANT INSERT ON TABLES TO carol;
	GRANT SELECT ON zv2, av3 TO bob;
	INSERT INTO base SELECT i, 'a', i FROM generate_series(1, 20) i; INSERT INTO far SELECT id, 'c' FROM base;
	REFRESH MATERIALIZED VIEW m1},
	owners => qr/view public\.v1 belongs to bob/,
	then => sub {
		my ($id, %in) = @_;
		is(query($node, q{SELECT count(*), sum(n), (SELECT relispopulated FROM pg_class WHERE relname = 'm2') FROM m1}, %in),
			'15|15|f', 'materialized views are filled as they were');
	},
	converted => q{
		MATERIALIZED VIEW m1: - public.one((key)::bigint) AS n
		MATERIALIZED VIEW m1: + public.one(key) AS n
		TABLE base: - id integer NOT NULL
		TABLE base: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE far: - base integer
		TABLE far: + base bigint
	});

convert('generated columns', 'gen', q{
	CREATE TABLE gen (id integer PRIMARY KEY, twice integer GENERATED ALWAYS AS (id * 2) STORED,
		named text COLLATE "C" GENERATED ALWAYS AS ('#' || id) STORED NOT NULL, last text DEFAULT 'l');
	COMMENT ON COLUMN gen.twice IS 'twice'; GRANT SELECT (twice) ON gen TO bob;
	ALTER TABLE gen ALTER named SET STATISTICS 12;
	CREATE INDEX gen_named ON gen (named, last) WHERE twice > 2;
	COMMENT ON INDEX gen_named IS 'named';
	CREATE VIEW over_gen AS SELECT named FROM gen;
	INSERT INTO gen SELECT generate_series(1, 5)},
	made => 1,
	converted => q{
		TABLE gen: - id integer NOT NULL
		TABLE gen: - twice integer GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gen: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE gen: + twice bigint GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gen: another order
	});

convert('generated columns of partitions', 'gp', q{
	CREATE TABLE gp (id integer NOT NULL, made date, twice integer GENERATED ALWAYS AS (id * 2) STORED)
		PARTITION BY RANGE (made);
	CREATE TABLE gp1 PARTITION OF gp FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') PARTITION BY LIST (made);
	CREATE TABLE gp2 PARTITION OF gp1 DEFAULT;
	CREATE INDEX gp_twice ON gp (twice, made);
	ALTER INDEX gp1_twice_made_idx RENAME TO of_gp1;
	COMMENT ON INDEX of_gp1 IS 'of gp1';
	COMMENT ON COLUMN gp2.twice IS 'of gp2';
	INSERT INTO gp (id, made) VALUES (1, '2026-01-01')},
	made => 1,
	insert => "INSERT INTO gp (made) VALUES ('2026-08-01')",
	converted => q{
		TABLE gp: - id integer NOT NULL
		TABLE gp: - twice integer GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gp: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE gp: + twice bigint GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gp1: - id integer NOT NULL
		TABLE gp1: - twice integer GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gp1: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE gp1: + twice bigint GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gp2: - id integer NOT NULL
		TABLE gp2: - twice integer GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE gp2: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE gp2: + twice bigint GENERATED ALWAYS AS ((id * 2)) STORED
	});

convert('virtual columns', 'virtual', q{
	CREATE TABLE virtual (id integer PRIMARY KEY, next integer GENERATED ALWAYS AS (id + 1) VIRTUAL)},
	made => 1,
	converted => q{
		TABLE virtual: - id integer NOT NULL
		TABLE virtual: - next integer GENERATED ALWAYS AS ((id + 1))
		TABLE virtual: + id bigint DEFAULT public.snowflake_nextval() NOT NULL
		TABLE virtual: + next bigint GENERATED ALWAYS AS ((id + 1))
	}) if $major >= 18;

convert('the type snowflake, from bigint', 'post', q{
	CREATE TABLE post (id bigserial PRIMARY KEY, above bigint REFERENCES post, note text,
		twice bigint GENERATED ALWAYS AS (id * 2) STORED, CONSTRAINT large CHECK (id > -5));
	CREATE UNIQUE INDEX odd ON post ((id % 1000), above) WHERE id > 3;
	CREATE STATISTICS both_of ON id, above FROM post; ALTER STATISTICS both_of SET STATISTICS 33;
	CREATE TABLE reply (post bigint REFERENCES post ON DELETE CASCADE, n integer) PARTITION BY LIST (n);
	CREATE TABLE reply1 PARTITION OF reply DEFAULT;
	CREATE INDEX ON reply (post);
	CREATE TABLE mention (reply integer) INHERITS (post);
	CREATE FUNCTION one(bigint) RETURNS bigint STABLE BEGIN ATOMIC SELECT count(*) FROM post WHERE id = $1; END;
	CREATE VIEW thread AS SELECT p.id, max(r.post) AS last FROM post p JOIN reply r ON r.post = p.id GROUP BY p.id;
	GRANT SELECT ON thread TO bob;
	CREATE MATERIALIZED VIEW counted AS SELECT id, one(id) AS n FROM thread;
	CREATE UNIQUE INDEX counted_id ON counted (id);
	CREATE POLICY own ON post USING (id <> 7);
	CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'DECLARE b bigint; BEGIN b := NEW.id; RETURN NEW; END';
	CREATE TRIGGER on_id BEFORE INSERT OR UPDATE OF id ON post FOR EACH ROW WHEN (NEW.id > 0) EXECUTE FUNCTION fired();
	INSERT INTO post (note) SELECT 'a' FROM generate_series(1, 10);
	INSERT INTO reply SELECT id FROM post;
	REFRESH MATERIALIZED VIEW counted},
	with => ", type => 'snowflake'", made => 1,
	then => sub {
		my ($id, %in) = @_;
		query($node, "INSERT INTO reply VALUES ($id); UPDATE post SET above = $id WHERE id = 1", %in);
		is(query($node, "SELECT to_json(p) ->> 'id', json_typeof(to_json(p) -> 'above') FROM post p WHERE id = 1;
			SELECT last = $id, pg_typeof(id) FROM thread WHERE id = $id; SELECT count(*), sum(n) FROM counted", %in),
			"1|string\nt|snowflake\n10|10", 'JSON has strings, and views show the rows');
	},
	converted => kept('post_id_seq') . q{
		- DEFAULT post id
		DEFAULT mention id: - ALTER TABLE ONLY public.mention ALTER COLUMN id SET DEFAULT nextval('public.post_id_seq'::regclass);
		DEFAULT mention id: + ALTER TABLE ONLY public.mention ALTER COLUMN id SET DEFAULT public.snowflake_nextval();
		INDEX odd: - CREATE UNIQUE INDEX odd ON public.post USING btree (((id % (1000)::bigint)), above) WHERE (id > 3);
		INDEX odd: + CREATE UNIQUE INDEX odd ON public.post USING btree ((((id)::bigint % (1000)::bigint)), above) WHERE (id > 3);
		MATERIALIZED VIEW counted: - public.one(id) AS n
		MATERIALIZED VIEW counted: + public.one((id)::bigint) AS n
		TABLE post: - above bigint
		TABLE post: - id bigint NOT NULL
		TABLE post: - twice bigint GENERATED ALWAYS AS ((id * 2)) STORED
		TABLE post: + above public.snowflake
		TABLE post: + id public.snowflake DEFAULT public.snowflake_nextval() NOT NULL
		TABLE post: + twice bigint GENERATED ALWAYS AS (((id)::bigint * 2)) STORED
		TABLE reply: - post bigint
		TABLE reply: + post public.snowflake
		TABLE reply1: - post bigint
		TABLE reply1: + post public.snowflake
	}, all_reverted => '');

convert('the type snowflake, from integers, for a shard', 'photo', q{
	CREATE TABLE photo (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, CHECK (id > 0));
	CREATE TABLE tag (photo smallint REFERENCES photo, same bigint REFERENCES photo);
	INSERT INTO photo SELECT FROM generate_series(1, 10); INSERT INTO tag VALUES (1, 2)},
	with => ", shard => 5, type => 'snowflake'", back => ", 'always'",
	then => sub {
		my ($id, %in) = @_;
		query($node, "INSERT INTO tag VALUES ($id, $id)", %in);
		is(query($node, "SELECT snowflake_shard(photo, 'instagram'), pg_typeof(photo), pg_typeof(same) FROM tag WHERE photo = $id", %in),
			'5|snowflake|snowflake', 'columns that refer to it have the type');
	},
	converted => q{
		- SEQUENCE photo_id_seq
		TABLE photo: - id integer NOT NULL
		TABLE photo: + id public.snowflake DEFAULT public.snowflake_shard_nextval((5)::bigint) NOT NULL
		TABLE tag: - photo smallint
		TABLE tag: - same bigint
		TABLE tag: + photo public.snowflake
		TABLE tag: + same public.snowflake
	}, all_reverted => q{
		SEQUENCE photo_id_seq: - START WITH 1
		SEQUENCE photo_id_seq: + START WITH (Snowflake)
		TABLE photo: - id integer NOT NULL
		TABLE photo: + id bigint NOT NULL
		TABLE tag: - photo smallint
		TABLE tag: + photo bigint
	});

convert('a shard', 'photos', q{
	CREATE TABLE photos (id serial PRIMARY KEY); INSERT INTO photos VALUES (1)},
	with => ', shard => 5',
	then => sub {
		my ($id, %in) = @_;
		is(query($node, "SELECT snowflake_shard($id, 'instagram')", %in), '5', 'of that shard');
	},
	converted => kept('photos_id_seq') . q{
		- DEFAULT photos id
		TABLE photos: - id integer NOT NULL
		TABLE photos: + id bigint DEFAULT public.snowflake_shard_nextval((5)::bigint) NOT NULL
	}, reverted => q{
		SEQUENCE photos_id_seq: - AS integer
	});

# ---- other sessions hold locks ----

query($node, q{
	CREATE DATABASE busy;
});
my %busy = (database => 'busy');
query($node, q{
	CREATE EXTENSION snowflake;
	CREATE TABLE busy (id serial PRIMARY KEY);
	CREATE TABLE refers (busy integer REFERENCES busy);
	CREATE VIEW over_refers AS SELECT * FROM refers;
	INSERT INTO busy SELECT FROM generate_series(1, 3)}, %busy);
my $writer = $node->background_psql('busy');

# Run a conversion while the writer's transaction holds its table. Then let the writer
# go on with a statement. The log must match the pattern.
sub convert_meanwhile
{
	my ($table, $statement, $pattern, $name) = @_;
	my $from = -s $node->logfile;
	my $converter = $node->background_psql('busy', on_error_stop => 0);

	$converter->query_until(qr/begun/,
		"\\echo begun\nSELECT count(*) FROM snowflake_convert('$table', dry_run => false);\n\\echo done\n");
	$node->poll_query_until('busy', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%dry_run => false%'})
	  or die 'the conversion does not wait';
	$writer->query_safe($statement);
	$converter->query_until(qr/done/, '');
	$converter->quit;
	like_log($node, $pattern, $from, $name);
	return;
}

$writer->query_safe('BEGIN; INSERT INTO busy DEFAULT VALUES');
is(query($node, "SELECT count(*) > 5 FROM snowflake_convert('busy')", %busy), 't',
	'a dry run waits for nobody');
convert_meanwhile('busy',
	'CREATE TABLE late (busy integer); ALTER TABLE late ADD FOREIGN KEY (busy) REFERENCES busy; COMMIT',
	qr/foreign keys or inheritance have changed meanwhile/,
	'a table that has come to refer to it meanwhile is found');
$writer->query_safe(q{CREATE TABLE ahead (id bigint); BEGIN; INSERT INTO ahead SELECT snowflake_min_id('2090-01-01')});
convert_meanwhile('ahead', 'COMMIT', qr/is not below the next one/,
	'and a row that was not committed before');
is(query($node, q{SELECT string_agg(format_type(atttypid, atttypmod), ' ' ORDER BY attrelid::regclass::text) FROM pg_attribute
		WHERE attrelid IN ('busy'::regclass, 'refers'::regclass, 'late'::regclass) AND attnum > 0}, %busy),
	'integer integer integer', 'nothing is converted then');
is(query($node, "SELECT count(*) > 5 FROM snowflake_convert('busy', dry_run => false)", %busy), 't',
	'the next time it goes through');
$writer->query_safe('BEGIN; INSERT INTO busy DEFAULT VALUES');
refused($node, "SET lock_timeout = '10s'; SELECT snowflake_convert('busy', dry_run => false)", '55000',
	qr/column id of public\.busy has been converted/, 'and then it is refused without a wait', %busy);
$writer->query_safe('ROLLBACK');
$writer->quit;

# ---- names that are redefined ----

query($node, q{
	CREATE SCHEMA trap;
	CREATE TABLE mine (id integer PRIMARY KEY); INSERT INTO mine VALUES (1);
	CREATE VIEW over_mine AS SELECT id FROM mine;
	CREATE FUNCTION trap.sprung(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0';
	CREATE FUNCTION trap.same(name, name) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
	CREATE OPERATOR trap.= (LEFTARG = name, RIGHTARG = name, FUNCTION = trap.same);
	CREATE AGGREGATE trap.max(integer) (SFUNC = int4larger, STYPE = integer, INITCOND = '2147483647');
	CREATE FUNCTION trap.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 1 / 0::bigint';
	ALTER TABLE mine OWNER TO bob; ALTER VIEW over_mine OWNER TO bob;
	GRANT ALL ON SCHEMA public, trap TO bob}, %busy);
foreach my $path ('trap, pg_catalog, public', 'pg_temp, trap, pg_catalog, public')
{
	is(query($node, qq{
			SET ROLE bob;
			CREATE TEMP TABLE pg_class AS SELECT 1 AS oid;
			CREATE TEMP TABLE mine (id text);
			CREATE TEMP VIEW pg_attribute AS SELECT 1 AS attrelid;
			SET search_path = $path;
			BEGIN;
			SELECT count(*) FROM snowflake_convert('public.mine', dry_run => false);
			INSERT INTO public.mine DEFAULT VALUES;
			SELECT count(*) FROM public.over_mine;
			SHOW search_path;
			SELECT count(*) FROM snowflake_revert('public.mine', dry_run => false);
			ROLLBACK}, %busy) =~ s/^\d+$//mgr,
		"\n\n$path\n", "an owner, with traps in $path");
}

# ---- a search_path that SET would not accept ----

foreach my $path ('$user,public', 'public,;SELECT/**/1/0', 'MySchema, "a b", public', '""')
{
	query($node, 'CREATE TABLE pathed (id serial PRIMARY KEY)', %busy);
	is(query($node, qq{
			SELECT set_config('search_path', '$path', false) <> 'x';
			SELECT count(*) > 0 FROM public.snowflake_convert('public.pathed', dry_run => false);
			SHOW search_path;
			DROP TABLE public.pathed}, %busy), "t\nt\n$path", "the path is $path");
}

# ---- the path that functions see, and the rows ----

# From 17 on, the server gives the functions of indexes and of materialized views a
# path of its own.
query($node, 'CREATE DATABASE paths');
my %paths = (database => 'paths');
query($node, q{
	CREATE EXTENSION snowflake; CREATE SCHEMA app; SET search_path = app, public;
	CREATE TABLE weight (v bigint); INSERT INTO weight VALUES (1), (2);
	CREATE FUNCTION lowered(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower($1)';
	CREATE FUNCTION folded(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN
			RETURN lowered($1);
		EXCEPTION WHEN undefined_function THEN
			RETURN $1;
		END $$;
	CREATE FUNCTION weighed(bigint) RETURNS bigint STABLE LANGUAGE plpgsql AS $$
		BEGIN
			RETURN (SELECT sum(v) FROM weight) + $1;
		EXCEPTION WHEN undefined_table THEN
			RETURN 0;
		END $$;
	CREATE TABLE item (id serial PRIMARY KEY, name text);
	INSERT INTO item (name) VALUES ('One'), ('TWO');
	CREATE UNIQUE INDEX ON item (folded(name));
	CREATE FUNCTION tenth(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1 / 10';
	CREATE TABLE reads (id serial PRIMARY KEY);
	CREATE INDEX ON reads (tenth(id));
	CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN NULL; END';
	CREATE EVENT TRIGGER "Watch" ON ddl_command_end EXECUTE FUNCTION app.seen()}, %paths);
if ($major < 17)
{
	query($node, 'SET search_path = app, public; CREATE MATERIALIZED VIEW heavy AS SELECT id, weighed(id) AS w FROM item', %paths);
	is(query($node, q{SET search_path = app, public;
			SELECT count(*) > 0 FROM snowflake_convert('item', dry_run => false);
			SET enable_seqscan = off;
			SELECT name FROM item WHERE folded(name) = 'two';
			SELECT sum(w) FROM heavy}, %paths), "t\nTWO\n9",
		'an index and a materialized view are filled by what their functions found before');
}
like(query($node, q{SELECT note FROM snowflake_convert('app.reads') WHERE step = 2}, %paths),
	qr/^event triggers see this path, too: "Watch"$/, 'the dry run says what else sees the safe path');
like(query($node, q{SELECT note FROM snowflake_convert('app.reads') WHERE statement ~ 'TYPE bigint'}, %paths),
	qr/; its functions see search_path = pg_catalog, pg_temp;/, 'and where functions do');

# A materialized view whose owner is subject to policies shows the same rows.
query($node, q{
	SET search_path = app, public; DROP EVENT TRIGGER "Watch";
	CREATE TABLE secret (id serial PRIMARY KEY); INSERT INTO secret SELECT FROM generate_series(1, 3);
	ALTER TABLE secret OWNER TO bob; GRANT CREATE, USAGE ON SCHEMA app TO bob;
	ALTER TABLE secret ENABLE ROW LEVEL SECURITY; ALTER TABLE secret FORCE ROW LEVEL SECURITY;
	CREATE POLICY later ON secret USING (id > 1);
	SET ROLE bob; CREATE MATERIALIZED VIEW shown AS SELECT id FROM secret}, %paths);
is(query($node, q{SELECT count(*) FROM app.shown;
		SELECT count(*) > 0 FROM snowflake_convert('app.secret', dry_run => false);
		SELECT count(*), (SELECT count(*) FROM app.secret) FROM app.shown}, %paths), "2\nt\n2|3",
	'under row security');

# ---- many partitions ----

my %scans;

query($node, 'CREATE TABLE many (id serial, part integer, PRIMARY KEY (id, part)) PARTITION BY LIST (part)', %paths);
foreach my $n (0, 100, 300)
{
	query($node, qq{DO \$\$ BEGIN
			FOR i IN (SELECT count(*) FROM pg_inherits WHERE inhparent = 'many'::regclass) + 1 .. $n LOOP
				EXECUTE format('CREATE TABLE many_%s PARTITION OF many FOR VALUES IN (%1\$s)', i);
			END LOOP;
		END \$\$}, %paths);
	$scans{$n} = catalog_scans($node, q{SELECT count(*) FROM snowflake_convert('many')}, %paths);
}
cmp_ok($scans{300} - $scans{0}, '<', 5 * ($scans{100} - $scans{0}),
	'three times as many partitions cost about three times as much');

# ---- a standby ----

my $standby = standby_of($node, 'standby', "snowflake.node_id = '2'");
$standby->start;
query($node, 'CREATE TABLE plan (id serial PRIMARY KEY); INSERT INTO plan VALUES (1)', %busy);
$node->wait_for_catchup($standby);
is(query($standby, "SELECT statement FROM snowflake_convert('plan')", %busy),
	query($node, "SELECT statement FROM snowflake_convert('plan')", %busy),
	'a standby prints the same script');
refused($standby, "SELECT snowflake_convert('plan', dry_run => false)", '25006',
	qr/cannot execute snowflake_convert\(\) during recovery/, 'and does not run it', %busy);
query($node, "SELECT snowflake_convert('plan', dry_run => false)", %busy);
$node->wait_for_catchup($standby);
is(query($standby, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'plan'::regclass AND attname = 'id'", %busy),
	'bigint', 'what the primary has converted arrives');
refused($standby, "SELECT snowflake_revert('plan', dry_run => false)", '25006',
	qr/cannot execute snowflake_revert\(\) during recovery/, 'nor the way back', %busy);
$standby->stop;

# ---- a subscriber ----

my $subscriber = new_server('subscriber', "snowflake.node_id = '2'");
$subscriber->start;
query($subscriber, 'CREATE TABLE sent (id integer PRIMARY KEY)');
query($node, q{
	CREATE TABLE sent (id serial PRIMARY KEY, other text);
	CREATE PUBLICATION sending FOR TABLE sent (id) WHERE (id > 1);
	INSERT INTO sent VALUES (1), (2)}, %busy);
query($subscriber, 'CREATE SUBSCRIPTION receiving CONNECTION ' .
	"\$c\$" . $node->connstr('busy') . "\$c\$ PUBLICATION sending");
$subscriber->wait_for_subscription_sync($node, 'receiving', 'postgres');
query($node, "SELECT snowflake_convert('sent', dry_run => false); INSERT INTO sent DEFAULT VALUES", %busy);
like_log($subscriber, qr/out of range for type integer/, 0,
	'a subscriber whose column is narrow stops at the first new row');
query($subscriber, 'ALTER TABLE sent ALTER id TYPE bigint');
$subscriber->poll_query_until('postgres', 'SELECT count(*) = 2 AND min(id) = 2 AND max(id) > 2::bigint ^ 40 FROM sent')
  or die 'the new row does not arrive';
pass('and goes on where it is widened; the publication has its columns and filter back');
query($subscriber, 'DROP SUBSCRIPTION receiving');
$subscriber->stop;
$node->stop;

done_testing();
