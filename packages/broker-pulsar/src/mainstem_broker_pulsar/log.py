"""A topic as a log that is read by position.

Entries of a partition are in ledgers, whose numbers grow and belong to one topic alone, and several
messages can share an entry. So a position is ledger, entry and place in the entry, as one number, and
most numbers are nobody's: `sparse`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

from mainstem import PermanentError
from mainstem.positions import Chunk, Part, PositionLog, Seen, Span

from mainstem_broker_pulsar.admin import Admin, Entry, Ledgers
from mainstem_broker_pulsar.content import LAST, Place, place_at, position
from mainstem_broker_pulsar.options import PulsarSourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: By how much our clock and a broker's may differ, in seconds.
_MARGIN = 30.0
#: So many entries are looked at one by one, to count their messages.
_FEW = 32


class TopicLog(PositionLog):
    """A topic, with its partitions.

    Args:
        options: of the source.
        node: names the readers, with who reads.
        reader: who reads.
    """

    sparse = True
    from_one = False
    digits = 34

    def __init__(self, options: PulsarSourceOptions, node: str, reader: str) -> None:
        self.options = options
        self._name = f"mainstem {node} {reader}"
        self._admin: Admin | None = None
        self._ledgers: dict[str, Ledgers] = {}
        #: By partition and ledger: where an entry was looked at, and how many messages it had.
        self._sampled: dict[tuple[str, int], tuple[int, int]] = {}
        #: By partition: its end when it was last looked at, and the time then.
        self._ends: dict[str, tuple[int, float]] = {}
        #: By partition: positions before which nothing was, back to another one.
        self._empty: dict[str, dict[int, int]] = {}
        #: For how long the topic kept messages when it was last looked at, in seconds; None before that.
        self._kept: float | None = None
        self._recalled: Mapping[str, Any] = {}
        #: For how long it keeps them, as it was asked for last, and when that was.
        self._told: tuple[float, float] | None = None

    @property
    def admin(self) -> Admin:
        """The administration; a connection is made when it is first asked."""
        if self._admin is None:
            self._admin = Admin(self.options)
        return self._admin

    def topic(self, partition: str) -> str:
        """Return the topic of a partition, whose name is the last part of it."""
        return f"{self.options.topic.rpartition('/')[0]}/{partition}"

    def called(self, partition: str) -> str:
        return f"the topic {self.topic(partition)!r}"

    def written(self, position: int) -> str:
        return ":".join(map(str, place_at(position)))

    def look(self) -> Seen:
        found = self.admin.partitions(self.options.topic)
        self._ledgers = {each.rpartition("/")[2]: self.admin.ledgers(each) for each in found}
        kept = self._retained()
        # If it was raised since, that does not bring back what is gone.
        least = kept if self._kept is None else min(kept, self._kept)
        spans = {name: self._intact(name, self._span(name), least) for name in self._ledgers}
        self._kept = kept
        return Seen(self.admin.made(found[0]), spans)

    def _retained(self) -> float:
        now = time.monotonic()
        if self._told is None or now - self._told[1] > _MARGIN:
            self._told = self.admin.retained(self.options.topic), now
        return self._told[0]

    def _intact(self, partition: str, span: Span, kept: float) -> Span:
        """Return a span that begins where nothing can have gone since.

        A topic that is moved to another broker gets another ledger, and loses one that is empty: that is
        no loss. What came since its end was looked at is there for as long as it retains it.
        """
        now = time.time()
        end, when = self._ends.get(partition, (span.last, now))
        empty = self._empty.setdefault(partition, {})
        first = span.first
        if first > end + 1 and first not in empty and now - when < kept - _MARGIN:
            empty[first] = end + 1
        while first in empty:
            first = empty[first]
        nothing = not any(self._ledgers[partition].sizes.values())
        self._ends[partition] = first - 1 if nothing else span.last, now
        return Span(first, span.last)

    def notes(self) -> Mapping[str, Any]:
        return {
            "kept": None if self._kept == inf else self._kept,
            "looked": round(min(when for _, when in self._ends.values())),
            "ends": {partition: end for partition, (end, _) in sorted(self._ends.items())},
        }

    def recall(self, notes: Mapping[str, Any]) -> None:
        if not notes or notes == self._recalled:
            return
        # Also after a look of ours: what is gone may be gone since the offset's.
        self._recalled = notes
        self._ends |= {name: (end, notes["looked"]) for name, end in notes["ends"].items()}
        self._kept = inf if notes["kept"] is None else notes["kept"]

    def _span(self, partition: str) -> Span:
        known = self._ledgers[partition]
        filled = [ledger for ledger, size in known.sizes.items() if size]
        newest = max(known.sizes, default=0)
        first = position(Place(filled[0] if filled else newest, 0, 0))
        if self.options.compacted and known.compacted:
            first = 0
        # A ledger that is read whole may go: what was read reaches to the next one.
        last = position(Place(newest, 0, 0)) - 1
        if filled:
            tail = filled[-1], known.sizes[filled[-1]] - 1
            # A transaction that is open holds up what comes after it.
            after = self._after(known.sizes, known.last) if known.last < tail else None
            last = max(last, self._end(tail)) if after is None else after - 1
        return Span(first, last)

    def _after(self, sizes: Mapping[int, int], last: tuple[int, int]) -> int | None:
        """Return the position of the entry after one; None if there is none."""
        if last[1] + 1 < sizes.get(last[0], 0):
            return self._place(last[0], last[1] + 1)
        return next((self._place(n, 0) for n, size in sizes.items() if n > last[0] and size), None)

    @staticmethod
    def _end(entry: tuple[int, int]) -> int:
        return position(Place(*entry, LAST))

    def at(self, time: datetime) -> Mapping[str, int]:
        found = {}
        for partition, span in self.look().spans.items():
            since = self.admin.since(self.topic(partition), time)
            before = span.last if since is None else position(Place(*since, 0)) - 1
            found[partition] = min(span.last, max(span.first - 1, before))
        return found

    # -- what is where --------------------------------------------------------------------------------

    def next(self, partition: str, position: int) -> int | None:
        known, (ledger, entry, _) = self._ledgers[partition], place_at(position)
        sizes = known.sizes
        if entry < sizes.get(ledger, 0):
            return position
        if self.options.compacted and known.compacted and ledger < min(sizes, default=0):
            return position  # compaction has kept it, perhaps
        after = next((each for each, size in sizes.items() if each > ledger and size), None)
        return None if after is None else self._place(after, 0)

    @staticmethod
    def _place(ledger: int, entry: int) -> int:
        return position(Place(ledger, entry, 0))

    def ahead(self, partition: str, after: int, rows: int) -> int:
        begin = self.next(partition, after + 1)
        if begin is None or rows <= 0:
            return after
        sizes = self._ledgers[partition].sizes
        ledger, entry, _ = place_at(begin)
        if ledger not in sizes:  # what compaction has left is one piece
            return self._place(min(sizes), 0) - 1
        left = max(1, rows // self._messages(partition, begin))
        numbers = list(sizes)
        for each in numbers[bisect_left(numbers, ledger) :]:
            here = sizes[each] - entry
            if left <= here:
                return self._end((each, entry + left - 1))
            left -= here
            entry = 0
        return self._end((numbers[-1], sizes[numbers[-1]] - 1))

    def between(self, partition: str, after: int, end: int) -> int:
        begin = self.next(partition, after + 1)
        if begin is None or begin > end:
            return 0
        known = self._ledgers[partition]
        count = sum(map(len, known.between(begin, end).values()))
        if place_at(begin).ledger not in known.sizes:
            count += known.compacted
        return count * self._messages(partition, begin)

    def _messages(self, partition: str, begin: int) -> int:
        """Return how many messages an entry has, about: as one near a position."""
        ledger, entry, _ = place_at(begin)
        where, count = self._sampled.get((partition, ledger), (-1, 1))
        if not 0 <= entry - where < 1000 or where < 0:
            found = self._entry(partition, begin)
            count = max(1, found.messages) if found is not None else 1
            self._sampled[partition, ledger] = (entry, count)
        return count

    def _entry(self, partition: str, begin: int) -> Entry | None:
        ledger, entry, _ = place_at(begin)
        return self.admin.entry(self.topic(partition), ledger, entry)

    def waiting(self, partition: str, after: int, last: int) -> int:
        begin = self.next(partition, after + 1)
        if begin is None or begin > last:
            return 0
        known, topic = self._ledgers[partition], self.topic(partition)
        entries = [(n, e) for n, found in known.between(begin, last).items() for e in found]
        if len(entries) > _FEW or place_at(begin).ledger not in known.sizes:
            return self.between(partition, after, last)
        found = (self.admin.entry(topic, *each) for each in entries)
        return sum(each.messages for each in found if each is not None)

    def age(self, partition: str, after: int) -> float | None:
        begin = self.next(partition, after + 1)
        found = None if begin is None else self._entry(partition, begin)
        if found is None or found.published is None:
            return None
        return max(0.0, (datetime.now(UTC) - found.published).total_seconds())

    # -- reading --------------------------------------------------------------------------------------

    def read(self, part: Part, schema: pa.Schema, *, gaps: bool) -> Generator[Chunk]:
        from mainstem_broker_pulsar.range import Range

        if gaps and self.options.compacted:
            raise PermanentError("what compaction has left has gaps that nobody counts")
        yield from Range(self, part, self._name, gaps=gaps).chunks(schema)

    def reset(self) -> None:
        self.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
