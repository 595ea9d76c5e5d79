"""Which of a Redis Cluster's slots a name belongs to."""

from __future__ import annotations

import binascii
from functools import cache
from itertools import count

SLOTS = 16384


def slot_of(name: bytes) -> int:
    """Return a name's slot: by what is in its first braces, if there is anything, else by all of it."""
    _, opened, rest = name.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return binascii.crc_hqx(tag if opened and closed and tag else name, 0) % SLOTS


@cache
def tags() -> list[str]:
    """Return a text for each slot that belongs to it."""
    found: dict[int, str] = {}
    for number in count():
        if len(found) == SLOTS:
            return [found[slot] for slot in range(SLOTS)]
        found.setdefault(slot_of(b"%d" % number), str(number))
    raise AssertionError


def beside(prefix: str, name: bytes) -> bytes:
    """Return a name with a prefix that belongs to the slot of the name alone."""
    _, opened, rest = name.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    tagged = opened and closed and tag
    return prefix.encode() + (name if tagged else b"{" + name + b"}")
