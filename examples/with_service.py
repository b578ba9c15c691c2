#!/usr/bin/env python3
"""IDs before the insert, from servers that need do nothing else, with psycopg 3
and through pgbouncer in transaction mode (pgbouncer.ini). SNOWFLAKE_IDS is the
connection string of those servers, as in "host=ids1,ids2 port=6432 dbname=ids".
The rows go to the server that is named by PGHOST and the like; where there is no
SNOWFLAKE_IDS, the IDs come from there, too."""
import os
import time

import psycopg
from psycopg.conninfo import conninfo_to_dict


def ids(conninfo, batch=100):
    """IDs without end, taken from a server a batch at a time. One generator is
    for one thread."""
    server = conninfo_to_dict(conninfo, connect_timeout=2, tcp_user_timeout=3000)
    failures = 0
    while True:
        try:
            # a statement that is prepared is so in a connection of pgbouncer's,
            # and the next transaction may get another one
            with psycopg.connect(**server, autocommit=True, prepare_threshold=None) as conn:
                while True:
                    keys = conn.execute("SELECT snowflake_nextval_batch(%s)", [batch]).fetchall()
                    failures = 0
                    for (key,) in keys:
                        yield key
        except psycopg.OperationalError:
            # It is gone, or refuses. libpq would take the first one that answers,
            # which may be the pgbouncer of a dead server: so begin with the next.
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
        # the default is for those who insert without an ID
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

        # a row and what refers to it: their keys are known before the server hears
        # of any, so all of it goes at once
        key = next(new_id)
        lines = [(next(new_id), key, note) for note in ("wrap it", "quickly")]
        with conn.pipeline():
            conn.execute("INSERT INTO orders (id, item) VALUES (%s, %s)", [key, "book"])
            for line in lines:
                conn.execute("INSERT INTO order_lines VALUES (%s, %s, %s)", line)
        print("inserted", key)
        for line in lines:
            print("line", line[0], "of", line[1])

        # many rows, which nothing has to come back of
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
