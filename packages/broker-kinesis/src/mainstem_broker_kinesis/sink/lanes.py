"""Records that wait to be sent: each lane's in their order, one of a lane at a time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mainstem_broker_kinesis.sink.records import Record


class Lanes:
    """Records by lane, of which the first may be in flight and all others wait for it.

    Attributes:
        size: bytes of all records, those in flight too.
        messages: how many messages they hold.
    """

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[Record]] = {}
        #: Lanes whose first record can be sent, in the order in which that came about.
        self._ready: deque[Hashable] = deque()
        #: Lanes whose first record waits for its time.
        self._later: list[tuple[float, int, Hashable]] = []
        self._ticket = count()
        self.size = 0
        self.messages = 0

    def __bool__(self) -> bool:
        return bool(self._lanes)

    @property
    def ready(self) -> int:
        """How many records can be sent now, or soon."""
        return len(self._ready)

    def add(self, record: Record) -> None:
        """Put a record last in its lane."""
        lane = self._lanes.get(record.lane)
        if lane is None:
            self._lanes[record.lane] = deque([record])
            self._ready.append(record.lane)
        else:
            lane.append(record)
        self.size += record.size
        self.messages += len(record.messages)

    def grew(self, size: int) -> None:
        """Count a message that was added to a record that is here."""
        self.size += size
        self.messages += 1

    def last(self, lane: Hashable) -> Record | None:
        """Return the last record of a lane if it has not been sent yet."""
        records = self._lanes.get(lane)
        return records[-1] if records and not records[-1].sent else None

    def take(
        self, now: float, most: int, room: int, held: Callable[[Record, float], float]
    ) -> list[Record]:
        """Return the records of the next call; they stay here until they are settled.

        Args:
            now: the time.
            most: how many.
            room: how many bytes of them; one record is taken whatever it has.
            held: returns until when a record must wait, given the time.
        """
        while self._later and self._later[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._later)[2])
        taken: list[Record] = []
        size = 0
        while self._ready and len(taken) < most:
            lane = self._ready[0]
            record = self._lanes[lane][0]
            if (until := held(record, now)) > now:
                self._ready.popleft()
                heapq.heappush(self._later, (until, next(self._ticket), lane))
                continue
            if taken and (record.alone or size + record.size > room):
                break
            self._ready.popleft()
            record.sent = True
            size += record.size
            taken.append(record)
            if record.alone:
                break
        return taken

    def due(self) -> float | None:
        """Return when the next record that waits for its time can be sent; None if there is none."""
        return self._later[0][0] if self._later else None

    def settled(self, record: Record) -> None:
        """Forget a record that is in, or refused; the next of its lane can be sent."""
        self._instead(record, ())

    def split(self, record: Record, parts: Iterable[Record]) -> None:
        """Put others in a record's place."""
        self._instead(record, parts)

    def again(self, record: Record, at: float) -> None:
        """Let a record be sent again, at a time."""
        heapq.heappush(self._later, (at, next(self._ticket), record.lane))

    def _instead(self, record: Record, parts: Iterable[Record]) -> None:
        lane = self._lanes[record.lane]
        lane.popleft()
        self.size -= record.size
        self.messages -= len(record.messages)
        for part in reversed(list(parts)):
            lane.appendleft(part)
            self.size += part.size
            self.messages += len(part.messages)
        if lane:
            self._ready.append(record.lane)
        else:
            del self._lanes[record.lane]
