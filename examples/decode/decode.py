#!/usr/bin/env python3
"""Print the fields of a Snowflake ID, without a database.

usage: decode.py ID [FIELDS EPOCH_MS [TICK_MS]]
       decode.py -      reads lines "ID EPOCH_MS TICK_MS FIELDS"

FIELDS are names and widths in bits, from high to low. EPOCH_MS is the Unix time of
the first tick, and TICK_MS the length of a tick, both in milliseconds. The default is
the extension's own layout: "timestamp:41 node:10 sequence:12" 1704067200000 1
"""


def decode(id, fields, epoch_ms, tick_ms=1):
    """Return the fields as a dict of integers. Example: decode(1541815603606036480,
    "timestamp:41 datacenter:5 worker:5 sequence:12", 1288834974657)"""
    widths = [(name, int(bits)) for name, bits in
              (field.split(":") for field in fields.split())]
    shift = sum(bits for _, bits in widths)
    said = {}
    for name, bits in widths:
        shift -= bits
        said[name] = id >> shift & (1 << bits) - 1
        if name in ("datacenter", "worker", "process"):  # parts of the node
            said["node"] = said.get("node", 0) << bits | said[name]
    said["unix_ms"] = epoch_ms + said.pop("timestamp") * tick_ms
    return said


def show(said, separator):
    return separator.join(f"{name}={said[name]}" for name in sorted(said))


if __name__ == "__main__":
    import sys
    from datetime import datetime, timedelta
    words = sys.argv[1:]
    try:
        if words == ["-"]:
            for line in sys.stdin:
                id, epoch_ms, tick_ms, fields = line.rstrip("\n").split(" ", 3)
                print(show(decode(int(id), fields, int(epoch_ms), int(tick_ms)), " "))
        elif len(words) in (1, 3, 4) and 0 <= int(words[0]) < 1 << 63:
            id, fields, epoch_ms, tick_ms = words + [
                "timestamp:41 node:10 sequence:12", "1704067200000", "1"][len(words) - 1:]
            said = decode(int(id), fields, int(epoch_ms), int(tick_ms))
            time = datetime(1970, 1, 1) + timedelta(milliseconds=said["unix_ms"])
            print(show(said, "\n"))
            print("time=" + time.isoformat(timespec="milliseconds") + "Z")
        else:
            sys.exit(__doc__.strip())
    except ValueError:
        sys.exit(__doc__.strip())
