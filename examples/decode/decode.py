#!/usr/bin/env python3
"""What a Snowflake ID says, without a database."""


def decode(id, fields, epoch_ms, tick_ms=1):
    """decode(1541815603606036480, "timestamp:41 datacenter:5 worker:5
    sequence:12", 1288834974657): a dict of integers."""
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


# For the test: lines "ID epoch_ms tick_ms fields" are answered.
if __name__ == "__main__":
    import sys
    for line in sys.stdin:
        id, epoch_ms, tick_ms, fields = line.rstrip("\n").split(" ", 3)
        said = decode(int(id), fields, int(epoch_ms), int(tick_ms))
        print(" ".join(f"{name}={said[name]}" for name in sorted(said)))
