"""An exchange: sends a morning's trades by MoldUDP64 to two feeds, and loses some.

    python exchange.py TRADES

Every eleventh packet is lost on feed A, every thirteenth on feed B; those that both lose are asked for
again; three messages nobody has any more. It ends when nothing was asked for for a while.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import time

SESSION = b"20260102AA"
STOCKS = ("AAPL", "MSFT", "NVDA")
#: The numbers of messages that the re-request server has not.
GONE = (143, 144, 300)
_HEAD, _LENGTH = struct.Struct(">10sQH"), struct.Struct(">H")
_TRADE = struct.Struct(">cHH6sQcI8sIQ")
_PER_PACKET = 4


def messages(count: int) -> list[bytes]:
    """Return a morning's messages, always the same: trades, and now and then an event of the system."""
    noise = random.Random(64)
    prices = dict.fromkeys(STOCKS, 1_000_000)
    found = []
    for number in range(count):
        ns = (9 * 3600 + 1800) * 10**9 + number * 400_000_000
        if number % 25 == 7:
            found.append(b"S" + struct.pack(">HH6s", 0, 0, ns.to_bytes(6, "big")) + b"Q")
            continue
        stock = noise.choice(STOCKS)
        prices[stock] += noise.randrange(-500, 501)
        side, shares = noise.choice([b"B", b"S"]), noise.randrange(1, 1000)
        name = stock.ljust(8).encode()
        found.append(
            _TRADE.pack(
                b"P", 1, 0, ns.to_bytes(6, "big"), number, side, shares, name, prices[stock], number
            )
        )
    return found


def trades(found: list[bytes]) -> list[dict[str, object]]:
    """Return the trades among messages, as they are meant."""
    made = []
    for number, data in enumerate(found, 1):
        if data[:1] == b"P":
            _, _, _, ns, _, _, shares, stock, price, _ = _TRADE.unpack(data)
            seconds = int.from_bytes(ns, "big") / 10**9
            made.append(
                {"number": number, "seconds": seconds, "stock": stock.decode().strip(),
                 "shares": shares, "price": price / 10_000}
            )  # fmt: skip
    return made


def _packet(first: int, part: list[bytes], count: int | None = None) -> bytes:
    blocks = b"".join(_LENGTH.pack(len(each)) + each for each in part)
    return _HEAD.pack(SESSION, first, len(part) if count is None else count) + blocks


def _place(name: str) -> tuple[str, int]:
    host, _, port = os.environ[name].rpartition(":")
    return host, int(port)


def main(count: int) -> None:
    """Send all, and answer who asks."""
    feeds = [(_place("FEED_A"), 11), (_place("FEED_B"), 13)]
    again = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    again.bind(_place("FEED_AGAIN"))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found = messages(count)
    for at in range(0, count, _PER_PACKET):
        part = found[at : at + _PER_PACKET]
        lost = any(at < number <= at + _PER_PACKET for number in GONE)
        for place, every in feeds:
            if (at // _PER_PACKET) % every and not lost:
                sender.sendto(_packet(at + 1, part), place)
        time.sleep(0.001)
    again.settimeout(0.5)
    quiet = time.monotonic()
    while time.monotonic() - quiet < 6:
        for place, _ in feeds:
            sender.sendto(_packet(count + 1, [], 0xFFFF), place)
        try:
            data, who = again.recvfrom(64)
        except TimeoutError:
            continue
        quiet = time.monotonic()
        _, first, wanted = _HEAD.unpack(data)
        part = []
        for number in range(first, min(first + min(wanted, 20), count + 1)):
            if number in GONE:
                break
            part.append(found[number - 1])
        if part:
            again.sendto(_packet(first, part), who)


if __name__ == "__main__":
    main(int(sys.argv[1]))
