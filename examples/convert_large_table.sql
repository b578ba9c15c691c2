-- Widen the key of a large table from integer to bigint, and give it Snowflake IDs, while
-- clients read and write the table. Each lock lasts for a moment. Steps 2 to 5 add a second
-- column to each table, and step 6 exchanges the columns.
--
-- In the example orders has the key "id integer", the table lines refers to it, and the view
-- order_lines reads both. Write the names of your tables, and run the blocks one by one in
-- psql, as the owner of all three. They do not work in a partitioned table, whose indexes
-- cannot be made CONCURRENTLY.
--
-- If a block fails with "canceling statement due to lock timeout", it has changed nothing:
-- run it again. A lock_timeout far below deadlock_timeout (1 s) makes this session give up,
-- and not a client.

-- Step 1. See what uses the key. The dry run prints the statements that drop views, rules,
-- triggers and policies and make them again: take these for step 6. "\d orders" and
-- "\d lines" show the indexes and constraints that name the columns. Step 6 silently drops
-- them with the columns, and also the columns' grants and comments. So make each of them on
-- the new column in step 5, as lines_new_order_id here.

SELECT statement FROM snowflake_convert('orders');

-- Step 2. Add the new columns, and triggers that fill them in each row that is written from
-- now on, also by foreign keys ON UPDATE and by logical replication. Triggers fire in the
-- order of their names. These must be the last ones that change a row.
--
-- If a publication has these tables, its subscribers stop at the next row (missing
-- replicated column: "new_id"), and later at the first Snowflake ID. So run this block on
-- each subscriber first. It rewrites the tables there, and locks them until it ends. Drop
-- views that read the columns before, and make them again afterwards. After step 6 drop the
-- two new columns there.

ALTER TABLE orders ALTER COLUMN id TYPE bigint, ADD COLUMN new_id bigint;
ALTER TABLE lines ALTER COLUMN order_id TYPE bigint, ADD COLUMN new_order_id bigint;

-- On the server itself:

BEGIN;
SET LOCAL lock_timeout = '300ms';
ALTER TABLE orders ADD COLUMN new_id bigint;
CREATE FUNCTION orders_new_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.new_id := NEW.id;
    RETURN NEW;
END $$;
CREATE TRIGGER zz_new_id BEFORE INSERT OR UPDATE ON orders
    FOR EACH ROW EXECUTE FUNCTION orders_new_id();
ALTER TABLE orders ENABLE ALWAYS TRIGGER zz_new_id;
COMMIT;

BEGIN;
SET LOCAL lock_timeout = '300ms';
ALTER TABLE lines ADD COLUMN new_order_id bigint;
CREATE FUNCTION lines_new_order_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.new_order_id := NEW.order_id;
    RETURN NEW;
END $$;
CREATE TRIGGER zz_new_id BEFORE INSERT OR UPDATE ON lines
    FOR EACH ROW EXECUTE FUNCTION lines_new_order_id();
ALTER TABLE lines ENABLE ALWAYS TRIGGER zz_new_id;
COMMIT;

-- Step 3. Fill the older rows, 10,000 of them a transaction. If the loop is interrupted, run
-- it again: it passes over the rows that are filled. It writes each row once more, and fires
-- the table's triggers on UPDATE. Then it vacuums the tables. Otherwise autovacuum does, and
-- as long as it runs (SELECT * FROM pg_stat_progress_vacuum), the next blocks get no lock.

DO $$
DECLARE
    first bigint;
    last bigint;
    upto bigint;
BEGIN
    SELECT min(id), max(id) INTO first, last FROM orders;
    WHILE first <= last LOOP
        SELECT max(id) INTO upto
        FROM (SELECT id FROM orders WHERE id >= first ORDER BY id LIMIT 10000) next;
        UPDATE orders SET new_id = id
        WHERE id BETWEEN first AND upto AND new_id IS NULL;
        COMMIT;
        first := upto + 1;
    END LOOP;
    SELECT min(id), max(id) INTO first, last FROM lines;
    WHILE first <= last LOOP
        SELECT max(id) INTO upto
        FROM (SELECT id FROM lines WHERE id >= first ORDER BY id LIMIT 10000) next;
        UPDATE lines SET new_order_id = order_id
        WHERE id BETWEEN first AND upto AND new_order_id IS NULL;
        COMMIT;
        first := upto + 1;
    END LOOP;
END $$;
VACUUM ANALYZE orders, lines;

-- Step 4. Check that every row is filled. If a row is not, VALIDATE fails (check
-- constraint "new_id_equal" of relation "orders" is violated by some row): repeat step 3.
-- With these constraints step 6 need not scan the tables. If order_id can be NULL, leave out
-- its SET NOT NULL in step 6, and write here:
--     CHECK (new_order_id IS NOT DISTINCT FROM order_id)

BEGIN;
SET LOCAL lock_timeout = '300ms';
ALTER TABLE orders ADD CONSTRAINT new_id_equal
    CHECK (new_id IS NOT NULL AND new_id = id) NOT VALID;
COMMIT;

BEGIN;
SET LOCAL lock_timeout = '300ms';
ALTER TABLE lines ADD CONSTRAINT new_id_equal
    CHECK (new_order_id IS NOT NULL AND new_order_id = order_id) NOT VALID;
COMMIT;

ALTER TABLE orders VALIDATE CONSTRAINT new_id_equal;
ALTER TABLE lines VALIDATE CONSTRAINT new_id_equal;

-- Step 5. Make the indexes and the foreign key. Give the foreign key the ON UPDATE, the ON
-- DELETE and the DEFERRABLE of the old one. If CREATE INDEX fails, drop the invalid index
-- that it leaves, and repeat it.

CREATE UNIQUE INDEX CONCURRENTLY orders_new_id ON orders (new_id);
CREATE INDEX CONCURRENTLY lines_new_order_id ON lines (new_order_id);

BEGIN;
SET LOCAL lock_timeout = '300ms';
ALTER TABLE lines ADD CONSTRAINT lines_new_order_id_fkey FOREIGN KEY (new_order_id)
    REFERENCES orders (new_id) ON UPDATE CASCADE ON DELETE CASCADE NOT VALID;
COMMIT;

ALTER TABLE lines VALIDATE CONSTRAINT lines_new_order_id_fkey;

-- Step 6. Exchange the columns, in one short transaction. If something still reads the old
-- column, such as another view, DROP COLUMN fails and nothing has changed. It drops the old
-- sequence, too. If the block gets no lock again and again, look for a long transaction:
-- SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start;
--
-- The last statement gives the key, which is bigint by then, its default. The key is then
-- the last column of its table: name the columns in each INSERT and COPY. The way back is
--     snowflake_revert('orders', identity => 'by default')

BEGIN;
SET LOCAL lock_timeout = '300ms';
LOCK TABLE order_lines, orders, lines IN ACCESS EXCLUSIVE MODE;
DROP VIEW order_lines;
DROP TRIGGER zz_new_id ON orders;
DROP TRIGGER zz_new_id ON lines;
DROP FUNCTION orders_new_id(), lines_new_order_id();
ALTER TABLE orders ALTER COLUMN new_id SET NOT NULL;
ALTER TABLE lines ALTER COLUMN new_order_id SET NOT NULL;
ALTER TABLE lines DROP CONSTRAINT lines_order_id_fkey;
ALTER TABLE lines DROP COLUMN order_id;
ALTER TABLE orders DROP COLUMN id;
ALTER TABLE orders RENAME COLUMN new_id TO id;
ALTER TABLE lines RENAME COLUMN new_order_id TO order_id;
ALTER TABLE orders ADD CONSTRAINT orders_pkey PRIMARY KEY USING INDEX orders_new_id;
ALTER TABLE lines RENAME CONSTRAINT lines_new_order_id_fkey TO lines_order_id_fkey;
ALTER INDEX lines_new_order_id RENAME TO lines_order_id;
CREATE VIEW order_lines AS
    SELECT o.id, count(l.id) AS lines
    FROM orders o LEFT JOIN lines l ON l.order_id = o.id GROUP BY o.id;
SELECT * FROM snowflake_convert('orders', dry_run => false);
COMMIT;
