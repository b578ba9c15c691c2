#!/usr/bin/env python3
"""Snowflake keys with psycopg 3. PGHOST and the like name the server."""
import psycopg

with psycopg.connect(autocommit=True) as conn:
    conn.execute("""
        CREATE TABLE orders (
            id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
            item text NOT NULL
        );
        CREATE TABLE order_lines (
            id bigint PRIMARY KEY DEFAULT snowflake_nextval(),
            order_id bigint NOT NULL REFERENCES orders,
            note text NOT NULL
        )""")

    # one row: psycopg returns its key as an int, which has no limit in Python
    (key,) = conn.execute(
        "INSERT INTO orders (item) VALUES (%s) RETURNING id", ["book"]).fetchone()
    print("inserted", key)

    # rows that refer to it
    lines = conn.execute(
        "INSERT INTO order_lines (order_id, note) SELECT %s, unnest(%s::text[])"
        " RETURNING id, order_id", [key, ["wrap it", "quickly"]])
    for line in lines:
        print("line", line[0], "of", line[1])

    # many rows: in one statement the order of the keys is that of the rows
    items = [f"item {n}" for n in range(500)]
    rows = conn.execute(
        "INSERT INTO orders (item) SELECT unnest(%s::text[]) RETURNING id", [items])
    print("bulk", *(key for (key,) in rows))

    # even more rows: COPY returns no keys, so take the keys first. Take them in the
    # transaction that inserts, or snowflake_horizon() does not cover the rows.
    items = [f"item {n}" for n in range(500, 1000)]
    with conn.transaction():
        keys = [key for (key,) in conn.execute(
            "SELECT snowflake_nextval_batch(%s)", [len(items)])]
        with conn.cursor().copy("COPY orders (id, item) FROM STDIN") as copy:
            for row in zip(keys, items):
                copy.write_row(row)
    print("bulk", *keys)

    # page by page: each page begins after the last key of the page before
    last = 0
    while page := conn.execute(
            "SELECT id, item FROM orders WHERE id > %s ORDER BY id LIMIT 300",
            [last]).fetchall():
        print("page", *(key for key, _ in page))
        last = page[-1][0]
