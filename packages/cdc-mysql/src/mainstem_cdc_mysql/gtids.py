"""Sets of global transaction ids: those of MySQL, and the places in each domain that MariaDB has."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from uuid import UUID


class Gtids(ABC):
    """The transactions that were read, as the server writes them."""

    @abstractmethod
    def add(self, gtid: str) -> None:
        """Add a transaction."""

    @abstractmethod
    def within(self, other: str) -> bool:
        """Whether another set has all of these."""

    @abstractmethod
    def __str__(self) -> str: ...


class GtidSet(Gtids):
    """Transactions of MySQL: `UUID:1-5:7,UUID:1-3`.

    Raises:
        ValueError: there are tags in it, which MySQL has from 8.3 on.
    """

    def __init__(self, text: str) -> None:
        #: By server: the first number and the one behind the last, of each interval.
        self._intervals: dict[str, list[list[int]]] = {}
        for part in text.replace("\n", "").split(","):
            server, *ranges = part.strip().lower().split(":")
            found = self._intervals.setdefault(server, []) if server else []
            for each in ranges:
                first, _, last = each.partition("-")
                found.append([int(first), int(last or first) + 1])
            found[:] = _joined(found)

    def add(self, gtid: str) -> None:
        server, _, number = gtid.partition(":")
        self._add(server, int(number))

    def _add(self, server: str, number: int) -> None:
        intervals = self._intervals.setdefault(server, [])
        at = bisect_right(intervals, number, key=lambda each: each[0])
        before = intervals[at - 1] if at else None
        if before is not None and number < before[1]:
            return
        joins = at < len(intervals) and intervals[at][0] == number + 1
        if before is not None and before[1] == number:
            before[1] = intervals.pop(at)[1] if joins else number + 1
        elif joins:
            intervals[at][0] = number
        else:
            intervals.insert(at, [number, number + 1])

    def within(self, other: str) -> bool:
        there = GtidSet(other)._intervals
        return all(
            any(a <= first and last <= b for a, b in there.get(server, []))
            for server, intervals in self._intervals.items()
            for first, last in intervals
        )

    def encoded(self) -> bytes:
        """Return it as the server's protocol has it."""
        parts = [struct.pack("<Q", len(self._intervals))]
        for server, intervals in self._intervals.items():
            parts += [UUID(server).bytes, struct.pack("<Q", len(intervals))]
            parts += [struct.pack("<QQ", first, end) for first, end in intervals]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            ":".join([server, *(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in intervals)])
            for server, intervals in self._intervals.items()
        )


def _joined(intervals: list[list[int]]) -> list[list[int]]:
    """Return intervals in order, those that touch as one: a server writes them so, others may not."""
    found: list[list[int]] = []
    for first, end in sorted(intervals):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([first, end])
    return found


class GtidPosition(Gtids):
    """Of each domain of MariaDB the last transaction: `DOMAIN-SERVER-NUMBER,...`."""

    def __init__(self, text: str) -> None:
        self._last: dict[str, str] = {}
        for gtid in filter(None, text.split(",")):
            self.add(gtid)

    def add(self, gtid: str) -> None:
        self._last[gtid.partition("-")[0]] = gtid

    def within(self, other: str) -> bool:
        there = GtidPosition(other)._last
        return all(
            domain in there and _number(there[domain]) >= _number(gtid)
            for domain, gtid in self._last.items()
        )

    def __str__(self) -> str:
        return ",".join(self._last.values())


def _number(gtid: str) -> int:
    return int(gtid.rpartition("-")[2])
