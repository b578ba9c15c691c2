#!/usr/bin/env python3
"""Snowflake keys with psycopg 3, from servers that only make IDs, before the insert.
A client reaches these servers through pgbouncer in transaction mode (pgbouncer.ini).
SNOWFLAKE_IDS is their connection string, as in "host=ids1,ids2 port=6432 dbname=ids".
PGHOST and the like name the server that gets the rows. If SNOWFLAKE_IDS is not set,
that server makes the IDs, too."""
import os
import time

import psycopg
from psycopg.conninfo import conninfo_to_dict


def ids(conninfo, batch=100):
    """Yield IDs without end. Take them from a server, a batch at a time. Each
    thread needs a generator of its own, and so does a forked process: otherwise
    both get the same IDs. A generator that has raised an error yields no more."""
    server = conninfo_to_dict(conninfo, connect_timeout=2, tcp_user_timeout=3000)
    failures = 0
    while True:
        try:
            # Prepare no statement: pgbouncer may give the next transaction another
            # connection, in which the statement is not prepared.
            with psycopg.connect(**server, autocommit=True, prepare_threshold=None) as conn:
                while True:
                    keys = conn.execute("SELECT snowflake_nextval_batch(%s)", [batch]).fetchall()
                    failures = 0
                    for (key,) in keys:
                        yield key
        except psycopg.OperationalError:
            # The server is gone, or refuses. libpq takes the first host that answers,
            # which may be the pgbouncer of a dead server: begin with the next host.
            for what in server.keys() & {"host", "port"}:
                first, *others = server[what].split(",")
                server[what] = ",".join([*others, first])
            failures += 1
            if failures > 20:
                raise
            time.sleep(0.1 * (failures // 2))


def main():
    new_id = ids(os.environ.get("SNOWFLAKE_IDS", ""))
    with psycopg.connect(autocommit=True) as conn:
        # the default is for clients that insert without an ID
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

        # a row, and rows that refer to it: their keys are known before the insert,
        # so all rows go to the server at once
        key = next(new_id)
        lines = [(next(new_id), key, note) for note in ("wrap it", "quickly")]
        with conn.pipeline():
            conn.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", [key, "book"])
            for line in lines:
                conn.execute("INSERT INTO order_lines VALUES (%s, %s, %s)", line)
        print("inserted", key)
        for line in lines:
            print("line", line[0], "of", line[1])

        # many rows: the server need not return their keys
        rows = [(next(new_id), f"item {n}") for n in range(1000)]
        with conn.cursor().copy("COPY orders (id, item) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        print("bulk", *(key for key, _ in rows))

        last = 0
        while page := conn.execute(
                "SELECT id, item FROM orders WHERE id > %s ORDER BY id LIMIT 300",
                [last]).fetchall():
            print("page", *(key for key, _ in page))
            last = page[-1][0]


if __name__ == "__main__":
    main()
