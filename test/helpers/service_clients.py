"""Clients of the service, one for each FILE. A client gets IDs from
examples/with_service.py, and writes them to its file before it asks for more,
until the process ends. Every second client tries the servers in reverse order.

    clients.py CONNINFO FILE..."""
import os
import sys
import threading
import time
import traceback

from psycopg.conninfo import conninfo_to_dict, make_conninfo

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples"))
from with_service import ids  # noqa: E402

BATCH = 100


def client(conninfo, path):
    try:
        new_id = ids(conninfo, BATCH)
        with open(path, "w") as out:
            while True:
                out.write("".join(f"{next(new_id)}\n" for _ in range(BATCH)))
                out.flush()
                # a client does something with its IDs, too; all share one process
                time.sleep(0.02)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


conninfo, *paths = sys.argv[1:]
turned = conninfo_to_dict(conninfo)
for what in turned.keys() & {"host", "port"}:
    turned[what] = ",".join(reversed(turned[what].split(",")))
turned = make_conninfo(**turned)
threads = [threading.Thread(target=client, args=([conninfo, turned][i % 2], path))
           for i, path in enumerate(paths)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
