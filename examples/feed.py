#!/usr/bin/env python3
"""A feed with psycopg 3: read each row of the table orders once, in the order of the
keys, although many servers make the rows (doc/feeds.md). SNOWFLAKE_FEED is the
connection string of a server that has the rows of all, such as a standby. PGHOST and
the like name the server that gets what the program makes of the rows: here it counts
the orders of each item. End the program at any moment, also by kill -9, and start it
again: no row is counted twice, and none is left out."""
import os
import time

import psycopg


def next_page(feed, last):
    # the horizon is asked for in the statement that reads, so both see the same rows
    return feed.execute("""
        SELECT id, item FROM orders
        WHERE id > %s AND id < snowflake_feed_horizon()
        ORDER BY id LIMIT 100""", [last]).fetchall()


def process_page(feed, conn):
    """Process a page. Return true if it had rows."""
    # One transaction has the effect of the rows and the cursor. The lock keeps out
    # another run of this program.
    with conn.transaction():
        (last,) = conn.execute(
            "SELECT last_id FROM cursors WHERE name = 'count orders' FOR UPDATE").fetchone()
        page = next_page(feed, last)
        for key, item in page:
            conn.execute("""
                INSERT INTO items VALUES (%s, 1)
                ON CONFLICT (item) DO UPDATE SET orders = items.orders + 1""", [item])
            conn.execute(
                "UPDATE cursors SET last_id = %s WHERE name = 'count orders'", [key])
    return bool(page)


def main():
    # without transactions of its own, each page has a new snapshot
    with psycopg.connect(os.environ.get("SNOWFLAKE_FEED", ""), autocommit=True) as feed, \
            psycopg.connect(autocommit=True) as conn:
        conn.execute("""
            CREATE TABLE IF NOT EXISTS cursors (name text PRIMARY KEY, last_id bigint NOT NULL);
            CREATE TABLE IF NOT EXISTS items (item text PRIMARY KEY, orders bigint NOT NULL);
            INSERT INTO cursors VALUES ('count orders', 0) ON CONFLICT DO NOTHING""")
        while True:
            if not process_page(feed, conn):
                time.sleep(0.5)     # servers publish their horizons once a second


if __name__ == "__main__":
    main()
