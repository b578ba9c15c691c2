-- New IDs for rows: the script, each kind of table and of foreign key, and what is
-- refused.  t/adoption/convert_hostile.pl sets traps for a superuser.
SET client_min_messages = warning;
CREATE SCHEMA renumber;
SET search_path = renumber, public;
\pset null '-'
\pset format unaligned
\pset tuples_only
CREATE FUNCTION run(relation regclass, first bigint, last bigint, key name DEFAULT 'id') RETURNS bigint
LANGUAGE sql AS $$ SELECT count(*) FROM snowflake_renumber(relation, key, first, last, false) $$;

-- the script
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
CREATE TABLE lines (order_id bigint REFERENCES orders, n integer, PRIMARY KEY (order_id, n));
INSERT INTO orders VALUES (11, 'one'), (12, 'two'), (13, 'three');
INSERT INTO lines VALUES (11, 1), (12, 1), (12, 2), (13, 1);
SELECT * FROM snowflake_renumber('orders'::regclass, 'id'::name, '12'::bigint, '13'::bigint, true);
-- pasted
\set ECHO none
\o /dev/null
SELECT statement FROM snowflake_renumber('orders'::regclass, 'id'::name, '12'::bigint, '13'::bigint, true) \gexec
\o
\set ECHO all
SELECT item, id > 13 AS is_new, row_number() OVER (ORDER BY id) FROM orders ORDER BY id;
SELECT item, n FROM lines JOIN orders ON id = order_id ORDER BY id, n;
-- run; nothing is left to do the second time
SELECT run('orders', 11, 11);
SET client_min_messages = notice;
SELECT statement FROM snowflake_renumber('orders'::regclass, 'id'::name, '11'::bigint, '11'::bigint, false);
SET client_min_messages = warning;
SELECT item, n FROM lines JOIN orders ON id = order_id ORDER BY id, n;

-- whatever foreign keys do ON UPDATE; a chain of them; two in one table; a row of
-- itself, with an index or without
CREATE TABLE person (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text,
	boss bigint REFERENCES person, deputy bigint REFERENCES person ON UPDATE SET NULL);
CREATE TABLE of_no_action (person bigint REFERENCES person);
CREATE TABLE of_restrict (person bigint REFERENCES person ON UPDATE RESTRICT);
CREATE TABLE of_cascade (person bigint REFERENCES person ON UPDATE CASCADE);
CREATE TABLE of_set_null (person bigint REFERENCES person ON UPDATE SET NULL);
CREATE TABLE of_set_default (person bigint DEFAULT 1 REFERENCES person ON UPDATE SET DEFAULT);
CREATE TABLE of_deferred (person bigint REFERENCES person DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE two (a bigint REFERENCES person, b bigint REFERENCES person ON UPDATE SET DEFAULT);
CREATE TABLE chain (person bigint PRIMARY KEY REFERENCES person);
CREATE TABLE end_of_chain (person bigint REFERENCES chain, x integer);
INSERT INTO person VALUES (1, 'one', NULL, NULL), (2, 'two', 1, 2), (3, 'three', 2, 1), (4, 'four', 4, 3);
INSERT INTO of_no_action VALUES (1), (2), (NULL);
INSERT INTO of_restrict SELECT * FROM of_no_action;
INSERT INTO of_cascade SELECT * FROM of_no_action;
INSERT INTO of_set_null SELECT * FROM of_no_action;
INSERT INTO of_set_default SELECT * FROM of_no_action;
INSERT INTO of_deferred SELECT * FROM of_no_action;
INSERT INTO two VALUES (1, 2), (2, 2), (2, 3), (NULL, 2), (4, 4);
INSERT INTO chain VALUES (2), (3);
INSERT INTO end_of_chain VALUES (2, 1), (2, 2), (3, 3);
CREATE FUNCTION names() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT 'person: ' || concat_ws(', ', p.name, b.name, d.name) FROM person p
		LEFT JOIN person b ON b.id = p.boss LEFT JOIN person d ON d.id = p.deputy
	UNION ALL SELECT 'no action: ' || name FROM of_no_action JOIN person ON id = person
	UNION ALL SELECT 'restrict: ' || name FROM of_restrict JOIN person ON id = person
	UNION ALL SELECT 'cascade: ' || name FROM of_cascade JOIN person ON id = person
	UNION ALL SELECT 'set null: ' || name FROM of_set_null JOIN person ON id = person
	UNION ALL SELECT 'set default: ' || name FROM of_set_default JOIN person ON id = person
	UNION ALL SELECT 'deferred: ' || name FROM of_deferred JOIN person ON id = person
	UNION ALL SELECT 'two: ' || concat_ws(', ', p.name, q.name) FROM two
		LEFT JOIN person p ON p.id = a LEFT JOIN person q ON q.id = b
	UNION ALL SELECT 'chain: ' || concat_ws(', ', name, x) FROM end_of_chain JOIN chain USING (person) JOIN person ON id = person
$$;
CREATE TABLE before AS SELECT names() AS name;
SELECT statement, note FROM snowflake_renumber('person'::regclass, 'id'::name, '2'::bigint, '9'::bigint, true);
SELECT run('person', 2, 9);
SELECT id = 1, id > 9, name FROM person ORDER BY id;
SELECT * FROM before EXCEPT ALL SELECT names();
SELECT count(*), (SELECT count(*) FROM names()) FROM before;
DROP TABLE before;

-- composite keys
CREATE TABLE composite (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
CREATE TABLE of_composite (id bigint, tenant integer, FOREIGN KEY (tenant, id) REFERENCES composite);
INSERT INTO composite VALUES (1, 5), (1, 6), (2, 7);
INSERT INTO of_composite VALUES (5, 1), (7, 2), (5, NULL);
SELECT run('composite', 5, 7);
SELECT tenant, id > 7 AS is_new FROM of_composite ORDER BY tenant;

-- equal IDs: each row gets its own, unless foreign keys refer to them
CREATE TABLE equal (id bigint DEFAULT snowflake_nextval(), n integer, UNIQUE (id, n));
INSERT INTO equal VALUES (1, 1), (1, 2), (2, 3);
SELECT run('equal', 1, 2);
SELECT count(DISTINCT id), min(id) > 2 FROM equal;
INSERT INTO equal VALUES (1, 1), (1, 2);
CREATE TABLE of_equal (id bigint, n integer, FOREIGN KEY (id, n) REFERENCES equal (id, n));
SELECT run('equal', 1, 2);
SELECT run('equal', 0, 1);
SELECT run('equal', 1, 1);
CREATE TABLE equals (tenant integer, id bigint DEFAULT snowflake_nextval(), PRIMARY KEY (tenant, id));
CREATE TABLE of_equals (tenant integer, id bigint, FOREIGN KEY (tenant, id) REFERENCES equals);
INSERT INTO equals VALUES (1, 1), (2, 1), (1, 2), (2, 3);
INSERT INTO of_equals TABLE equals;
SELECT run('equals', 1, 9);
SELECT run('equals', 2, 9);
SELECT tenant, count(*) FROM equals JOIN of_equals USING (tenant, id) GROUP BY 1 ORDER BY 1;
-- IDs that other rows have already: of each 10 ms of ten minutes
CREATE TABLE taken (id bigint DEFAULT snowflake_nextval('sonyflake'));
INSERT INTO taken SELECT snowflake_min_id(now() + n * interval '10 ms', 'sonyflake') + sequence * 65536 + 7
	FROM generate_series(0, 60000) n, generate_series(0, 1) sequence;
INSERT INTO taken VALUES (1);
SELECT run('taken', 1, 3);

-- shards, other layouts, the type snowflake, domains; each default's IDs are in its own
-- layout
CREATE TABLE shards (id bigint PRIMARY KEY DEFAULT snowflake_shard_nextval(5), n integer);
INSERT INTO shards VALUES (1, 1), (2, 2);
SELECT run('shards', 1, 2);
SELECT n, (snowflake_decode(id, 'shard')).shard_id FROM shards ORDER BY id;
CREATE TABLE javascript (id bigint PRIMARY KEY DEFAULT snowflake_nextval('javascript'));
INSERT INTO javascript VALUES (1);
SELECT run('javascript', 1, 2);
SELECT id > snowflake_min_id(now() - interval '1 h', 'javascript') AND id < snowflake_min_id(now() + interval '1 h', 'javascript') FROM javascript;
CREATE TABLE typed (id snowflake PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE of_typed (id snowflake REFERENCES typed ON UPDATE CASCADE, other bigint REFERENCES typed);
INSERT INTO typed VALUES (1), (2);
INSERT INTO of_typed VALUES (1, 2);
SELECT run('typed', 1, 2);
SELECT t.id > 2 AND o.id > 2 FROM of_typed x JOIN typed t ON t.id = x.id JOIN typed o ON o.id = x.other;
CREATE DOMAIN key AS bigint CHECK (VALUE > 0);
CREATE DOMAIN typed_key AS snowflake;
CREATE TABLE domains (id key PRIMARY KEY DEFAULT snowflake_nextval(), other typed_key DEFAULT snowflake_nextval() UNIQUE);
CREATE TABLE of_domains (id key REFERENCES domains, other typed_key REFERENCES domains (other));
INSERT INTO domains VALUES (1, 2);
INSERT INTO of_domains VALUES (1, 2);
SELECT run('domains', 1, 1), run('domains', 2, 2, 'other');
SELECT d.id > 2, d.other > 2::snowflake FROM domains d JOIN of_domains o ON d.id = o.id AND d.other = o.other;

-- partitions on both sides, with a move; quoted names
CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_nextval()) PARTITION BY RANGE (id);
CREATE TABLE parts_old PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_rest PARTITION OF parts DEFAULT;
CREATE TABLE of_parts (id bigint REFERENCES parts, again bigint REFERENCES parts) PARTITION BY HASH (id);
CREATE TABLE of_parts0 PARTITION OF of_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE of_parts1 PARTITION OF of_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts VALUES (1), (2), (3);
INSERT INTO of_parts VALUES (1, 2), (2, 2), (3, 1);
SELECT run('parts', 2, 3);
SELECT tableoid::regclass, id > 3 FROM parts ORDER BY id;
SELECT i.id > 3, a.id > 3 FROM of_parts o JOIN parts i ON i.id = o.id JOIN parts a ON a.id = o.again ORDER BY i.id;
SELECT run('parts_old', 1, 1);
CREATE TABLE "Parent ""x""" ("Key '" bigint DEFAULT snowflake_nextval() PRIMARY KEY);
CREATE TABLE "of it" ("a\b" bigint REFERENCES "Parent ""x""");
INSERT INTO "Parent ""x""" VALUES (1);
INSERT INTO "of it" VALUES (1);
SELECT run('"Parent ""x"""', 1, 2, 'Key ''');
SELECT count(*) FROM "of it" JOIN "Parent ""x""" p ON p."Key '" = "a\b" WHERE "a\b" > 2;

-- inheritance joins tables whose values are no references: a parent, a sibling, another
-- partition; without it, the others keep theirs
CREATE TABLE child (PRIMARY KEY ("Key '")) INHERITS ("Parent ""x""");
SELECT run('"Parent ""x"""', 1, 2, 'Key ''');
CREATE TABLE notes (person bigint);
CREATE TABLE of_person () INHERITS (notes);
CREATE TABLE of_others () INHERITS (notes);
CREATE TABLE member (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
ALTER TABLE of_person ADD FOREIGN KEY (person) REFERENCES member;
INSERT INTO member VALUES (1);
INSERT INTO of_person VALUES (1);
INSERT INTO of_others VALUES (1);
SELECT run('member', 1, 1);
ALTER TABLE of_person NO INHERIT notes;
SELECT run('member', 1, 1);
SELECT (SELECT person > 1 FROM of_person), person FROM of_others;
CREATE TABLE listed (person bigint) PARTITION BY LIST (person);
CREATE TABLE listed1 PARTITION OF listed FOR VALUES IN (1);
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;
ALTER TABLE listed_rest ADD FOREIGN KEY (person) REFERENCES member;
SELECT run('member', 1, 9);

-- triggers fire; one that keeps a row is refused
CREATE TABLE triggered (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer DEFAULT 0);
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := NEW.n + 1; RETURN NEW; END';
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := OLD.id; RETURN NEW; END';
CREATE TRIGGER fire BEFORE UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION fire();
INSERT INTO triggered VALUES (1), (2);
SELECT run('triggered', 1, 1);
SELECT id > 2, n FROM triggered ORDER BY id;
CREATE TRIGGER keep BEFORE UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION keep();
SELECT run('triggered', 1, 2);

-- one that keeps a reference, which ON UPDATE would change
CREATE TABLE kept (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
CREATE TABLE of_kept (id bigint REFERENCES kept ON UPDATE SET NULL) PARTITION BY RANGE (id);
CREATE TABLE of_kept_low PARTITION OF of_kept FOR VALUES FROM (0) TO (9);
CREATE TABLE of_kept_rest PARTITION OF of_kept DEFAULT;
INSERT INTO kept VALUES (1);
INSERT INTO of_kept VALUES (1);
CREATE FUNCTION keep_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER keep BEFORE DELETE ON of_kept FOR EACH ROW EXECUTE FUNCTION keep_it();
CREATE TRIGGER "keep it" BEFORE UPDATE ON of_kept_low FOR EACH ROW EXECUTE FUNCTION keep();
SELECT run('kept', 1, 1);
ALTER TABLE of_kept DISABLE TRIGGER keep;
ALTER TABLE of_kept_low DISABLE TRIGGER "keep it";
SELECT run('kept', 1, 1);
SELECT count(*) FROM kept JOIN of_kept USING (id) WHERE id > 1;

-- policies of row security hide no row
CREATE TABLE secured (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
INSERT INTO secured VALUES (1), (2);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY one ON secured USING (id <> 1);
CREATE ROLE regress_renumber;
GRANT USAGE ON SCHEMA renumber TO regress_renumber;
ALTER TABLE secured OWNER TO regress_renumber;
SELECT run('secured', 1, 2);
SHOW row_security;
ALTER TABLE secured NO FORCE ROW LEVEL SECURITY;
SELECT run('secured', 1, 2);
SELECT count(*) FROM secured WHERE id > 2;

-- what is refused
SELECT run(NULL, 1, 2);
SELECT run('orders', NULL, 2);
SELECT run('orders', 2, 1);
CREATE TABLE without (id bigint PRIMARY KEY, x text DEFAULT 'x', one bigint DEFAULT 1, nothing bigint DEFAULT NULL::bigint);
INSERT INTO without (id) VALUES (1), (2);
INSERT INTO without (id, one, nothing) VALUES (3, 7, 1), (4, 8, 1);
SELECT run('without', 1, 2);
SELECT run('without', 1, 2, 'x');
SELECT run('without', 7, 8, 'one');
CREATE FUNCTION make() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN snowflake_nextval(); END';
CREATE TABLE makes (id bigint DEFAULT make(), either bigint DEFAULT coalesce(make(), snowflake_nextval()),
	same bigint GENERATED ALWAYS AS IDENTITY, narrow integer DEFAULT snowflake_nextval());
SELECT run('makes', 1, 2);
SELECT run('makes', 1, 2, 'either');
SELECT run('makes', 1, 2, 'same');
SELECT run('makes', 1, 2, 'narrow');
SELECT run('lines', 1, 2, 'order_id');
SELECT run('of_equal', 1, 2, 'nix');
SELECT run('pg_settings', 1, 2, 'name');
SELECT run('without', 1, 2, 'nothing');
-- a copy of the key, which the server keeps
CREATE TABLE copied (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), copy bigint GENERATED ALWAYS AS (id) STORED UNIQUE);
CREATE TABLE of_copy (copy bigint REFERENCES copied (copy) ON UPDATE SET NULL);
INSERT INTO copied VALUES (1);
INSERT INTO of_copy VALUES (1);
SELECT run('copied', 1, 1);
SELECT * FROM of_copy;
INSERT INTO orders VALUES (14);
DO $$ BEGIN
	PERFORM run('orders', 0, 9223372036854775807);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RAISE WARNING '%', SQLERRM;
END $$;
-- other owners
ALTER TABLE lines OWNER TO regress_renumber;
SELECT note FROM snowflake_renumber('orders'::regclass, 'id'::name, '14'::bigint, '14'::bigint, true);
SELECT run('orders', 14, 14);
SET ROLE regress_renumber;
SELECT run('orders', 14, 14);
RESET ROLE;
-- also where the server changes the other table, after a trigger
CREATE TABLE copied_by_hand (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), copy bigint UNIQUE);
CREATE TABLE of_hand (copy bigint PRIMARY KEY REFERENCES copied_by_hand (copy) ON UPDATE CASCADE);
CREATE TABLE of_of_hand (copy bigint REFERENCES of_hand ON UPDATE CASCADE);
INSERT INTO copied_by_hand VALUES (1, 1);
ALTER TABLE of_of_hand OWNER TO regress_renumber;
SELECT run('copied_by_hand', 1, 1);
BEGIN READ ONLY;
SELECT run('orders', 14, 14);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT run('orders', 14, 14);
ROLLBACK;
SET client_min_messages = error;
DROP SCHEMA renumber CASCADE;
DROP ROLE regress_renumber;
