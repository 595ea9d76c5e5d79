"""A service that measures itself, and tells it by StatsD: python service.py CALLS."""

from __future__ import annotations

import os
import random
import socket
import sys
import time


def lines(count: int) -> list[bytes]:
    """Return what so many calls tell, always the same."""
    noise = random.Random(8125)
    found = []
    for number in range(count):
        route = noise.choice(["home", "cart"])
        found.append(b"%b.calls:1|c" % route.encode())
        if number % 4 == 0:  # a sample
            took = noise.randrange(5, 500)
            found.append(b"%b.took:%d|ms|@0.25|#env:prod" % (route.encode(), took))
        if number % 500 == 250:
            found.append(b"%b.took:slow|ms" % route.encode())
    return found


def main(count: int) -> None:
    """Send them, some to a datagram."""
    host, _, port = os.environ["STATSD"].rpartition(":")
    made = lines(count)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for at in range(0, len(made), 10):
            sender.sendto(b"\n".join(made[at : at + 10]), (host, int(port)))
            time.sleep(0.0005)


if __name__ == "__main__":
    main(int(sys.argv[1]))
