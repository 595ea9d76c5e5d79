"""StatsD: how many lines a second are read into columns. Goal: >= 300,000.

Beside it a bare loop that splits the same lines and makes numbers of them, a tuple each. Datagrams have
ten lines, of which one is a set.
"""

from __future__ import annotations

import time

from beside import compare
from mainstem_direct_udp.metrics import read

DATAGRAMS, RUNS = 20_000, 5
LINES = [
    b"app.requests:1|c|#env:prod,route:home",
    b"app.latency:12.5|ms|@0.1|#env:prod",
    b"app.depth:17|g",
    b"app.size:1:2:3|h|#env:prod",
    b"app.requests:2|c|@0.5",
    b"app.latency:7|ms",
    b"app.depth:+2|g|#env:prod",
    b"app.size:250|d|#env:dev",
    b"app.hits:1|c",
    b"app.users:u17|s|#env:prod",
]
GOAL = 300_000


def main() -> None:
    """Print lines a second, and the ratio."""
    datagrams = [b"\n".join(LINES)] * DATAGRAMS
    times = [time.time_ns() // 1000] * DATAGRAMS
    count = DATAGRAMS * len(LINES)

    def ours() -> None:
        for at in range(0, DATAGRAMS, 2000):
            found = read(datagrams[at : at + 2000], times[at : at + 2000])
            assert found.metrics is not None
            assert not found.refused

    def bare() -> None:
        for data in datagrams:
            rows = []
            for line in data.decode().split("\n"):
                name, _, rest = line.partition(":")
                values, kind, *more = rest.split("|")
                numbers = [float(v) for v in values.split(":")] if kind != "s" else values
                rows.append((name, kind, numbers, more))

    ours()
    compare(f"statsd (goal {GOAL:,})", count, "lines", ours, bare, RUNS)


if __name__ == "__main__":
    main()
