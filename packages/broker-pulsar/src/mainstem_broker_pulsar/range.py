"""The messages of a range of a topic's positions, read by a reader of the vendor's library."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from mainstem import PermanentError, TransientError, failpoint
from mainstem.patience import Patience
from mainstem.positions import Chunk, Gap, Part, another_log

from mainstem_broker_pulsar.admin import Entry, Ledgers
from mainstem_broker_pulsar.client import Client, Failure, Timeout, failure
from mainstem_broker_pulsar.content import (
    LAST,
    Content,
    Place,
    content,
    place_at,
    place_of,
    position,
)

if TYPE_CHECKING:
    from mainstem_broker_pulsar.log import TopicLog

#: Rows go to Spark in batches of about so many, or so many bytes.
_ROWS, _BYTES = 4_000, 16 * 2**20
#: A position's digits: a ledger has up to 19.
WIDTH = 34
#: For how long a reader is waited for before it is asked whether there is more, in milliseconds.
_WAIT = 200
#: After how long without a message what is missing is looked at, in seconds.
_SILENCE = 2.0
#: How far back the first part of a message in parts is looked for, in entries.
_BACK = 10_000
#: The header of a message whose key or properties are not what Pulsar says.
_UNREAD = "mainstem-unreadable"
_GONE = (
    "the topic no longer has it: removed by its retention, or truncated, before it was read; how many "
    "messages there were is not known"
)


class Range:
    """The messages after one position and up to another.

    All entries of it are accounted for: one that no message came of is looked at, whether it is a part
    of a message, of a transaction, or gone.

    Args:
        log: of which it is.
        part: which.
        name: of the reader.
        gaps: whether to tell of what is gone.
    """

    def __init__(self, log: TopicLog, part: Part, name: str, *, gaps: bool) -> None:
        self._log, self._part, self._gaps = log, part, gaps
        self._name, self._topic = name, log.topic(part.partition)
        #: What was yielded ends here.
        self._position = part.after
        #: Where to begin, if that is before it: at the first part of a message.
        self._back: int | None = None
        self._found: list[Any] = []
        self._places: list[Place] = []
        self._size = 0

    def chunks(self, schema: pa.Schema) -> Generator[Chunk]:
        """Yield all that is there, in order; retries while brokers are away, for `give_up`.

        Raises:
            ExternalError: they stay away, or the topic is another one.
        """
        options = self._log.options
        patience = Patience(options.give_up.total_seconds())
        while self._position < self._part.end:
            before = self._position
            try:
                for chunk in self._read(schema):
                    patience.progress()
                    yield chunk
            except TransientError:
                self._forget()
                if self._position > before:
                    patience.progress()
                pause = patience.pause()
                if pause > patience.left():
                    raise
                self._log.reset()
                time.sleep(pause)

    def _forget(self) -> None:
        self._found, self._places, self._size = [], [], 0

    def _read(self, schema: pa.Schema) -> Iterator[Chunk]:
        """Yield chunks of one reader, until it has come to the end of the range."""
        log, part, topic = self._log, self._part, self._topic
        first = log.admin.partitions(log.options.topic)[0]
        if (made := log.admin.made(first)) != part.identity:
            raise another_log(log.called(part.partition), made, part.identity)
        ledgers = log.admin.ledgers(topic)
        begin = place_at((self._position if self._back is None else self._back) + 1)
        client = Client(log.options)
        try:
            reader = client.reader(
                topic,
                begin.ledger,
                begin.entry - 1,
                compacted=log.options.compacted,
                name=self._name,
            )
            failpoint("pulsar.in-range")
            yield from self._all(reader, ledgers, schema)
        except Failure as error:
            raise failure(error, client.place, topic) from None
        finally:
            client.close()

    def _all(self, reader: Any, ledgers: Ledgers, schema: pa.Schema) -> Iterator[Chunk]:
        end, reached = self._part.end, self._position
        last = ledgers.upto(end)
        heard = time.monotonic()
        there = last is not None and (*last, LAST) > place_at(reached)
        while there:
            try:
                message = reader.read_next(_WAIT)
            except Timeout:
                if not reader.has_message_available():
                    break
                if time.monotonic() - heard > _SILENCE:
                    break  # what is not accounted for is read again
                continue
            heard = time.monotonic()
            try:
                place = place_of(message)
            except ValueError as error:
                raise PermanentError(f"{self._log.called(self._part.partition)}: {error}") from None
            at = position(place)
            if at > end:
                break
            if at <= self._position:
                continue
            if not self._follows(reached, place):
                yield from self._missing(reached, at - 1, ledgers, schema)
            reached = at
            self._found.append(message)
            self._places.append(place)
            self._size += len(message.data())
            if len(self._found) >= _ROWS or self._size >= _BYTES:
                yield self._chunk(schema)
            if place[:2] == last and not reader.has_message_available():
                break
        yield from self._missing(reached, end, ledgers, schema)
        if self._found:
            yield self._chunk(schema)
        self._position, self._back = end, None

    @staticmethod
    def _follows(reached: int, place: Place) -> bool:
        """Whether no entry lies between a position and a place."""
        before = place_at(reached)
        if before.ledger != place.ledger:
            return False
        # A range begins before the first place of an entry, which is after the last of the one before.
        return place.entry <= before.entry + 1

    # -- what no message came of ----------------------------------------------------------------------

    def _missing(
        self, after: int, end: int, ledgers: Ledgers, schema: pa.Schema
    ) -> Iterator[Chunk]:
        """Account for entries after a position and up to another one, of which no message came."""
        if self._log.options.compacted:
            return
        first, last = place_at(after + 1), place_at(end)
        oldest = min((each for each, size in ledgers.sizes.items() if size), default=None)
        begins = None if oldest is None else position(Place(oldest, 0, 0))
        if begins is None or begins > after + 1:
            gone = min(end, begins - 1) if begins is not None else end
            yield from self._gap(after + 1, gone, schema, _GONE)
        if first.batch:  # the entry at which we begin has given what comes after
            first = Place(first.ledger, first.entry + 1, 0)
        for ledger, size in ledgers.sizes.items():
            if not first.ledger <= ledger <= last.ledger:
                continue
            begin = first.entry if ledger == first.ledger else 0
            upto = size
            if ledger == last.ledger:  # the entry at the end is whole, or of the message that came
                upto = min(size, last.entry + (1 if last.batch == LAST else 0))
            for entry in range(begin, upto):
                if reason := self._explain(ledger, entry, ledgers):
                    at = position(Place(ledger, entry, 0))
                    yield from self._gap(at, at + LAST, schema, reason, 1)

    def _explain(self, ledger: int, entry: int, ledgers: Ledgers) -> str:
        """See why no message came of an entry that is there; return why it is lost, if it is.

        Raises:
            TransientError: one is to come yet; it is read again.
        """
        found = self._log.admin.entry(self._topic, ledger, entry)
        where = f"{self._log.called(self._part.partition)}: entry {ledger}:{entry}"
        if found is None:
            raise TransientError(f"{where} was there, and can't be read")
        if found.void:
            return ""
        if found.open:
            raise TransientError(f"{where} is of a transaction that is not ended")
        if found.chunk is None:
            raise TransientError(f"{where} is there, and was not given")
        if found.chunk[1] == found.chunk[2] - 1:
            begin = self._first(ledger, entry, found, ledgers)
            if begin is None:
                return "it ends a message in parts, whose first are gone"
            if self._back is not None and self._back < begin:
                raise TransientError(f"{where} ends a message that did not come")
            self._back = begin - 1
            raise TransientError(f"{where} ends a message that begins before the range")
        return ""

    def _first(self, ledger: int, entry: int, last: Entry, ledgers: Ledgers) -> int | None:
        """Return the position of the first part of a message; None if it is gone."""
        assert last.chunk is not None  # noqa: S101
        before = (
            (each, number)
            for each in sorted(ledgers.sizes, reverse=True)
            if each <= ledger
            for number in reversed(range(entry if each == ledger else ledgers.sizes[each]))
        )
        for place in islice(before, _BACK):
            found = self._log.admin.entry(self._topic, *place)
            if found and found.chunk and found.chunk[:2] == (last.chunk[0], 0):
                return position(Place(*place, 0))
        return None

    def _gap(
        self, first: int, last: int, schema: pa.Schema, reason: str, count: int | None = None
    ) -> Iterator[Chunk]:
        if not self._gaps:
            return
        if self._found:
            yield self._chunk(schema)
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        yield Chunk(empty, [Gap(first, last, count, reason)])

    # -- rows -----------------------------------------------------------------------------------------

    def _chunk(self, schema: pa.Schema) -> Chunk:
        found, places, partition = self._found, self._places, self._part.partition
        self._position = position(places[-1])
        self._forget()
        held = [_content(message) for message in found]
        count = len(held)
        times = pa.timestamp("us", "UTC")
        columns: dict[str, Any] = {
            "key": pa.array([each.key for each in held], pa.binary()),
            "value": pa.array([each.value for each in held], pa.binary()),
            "headers": pa.array([each.headers for each in held], schema.field("headers").type),
            "timestamp": pa.array([each.timestamp for each in held], times),
            "origin": pa.repeat(pa.scalar(self._log.options.topic), count),
            "partition": pa.repeat(pa.scalar(partition), count),
            "position": pa.array([f"{position(each):0{WIDTH}}" for each in places]),
            "event_time": pa.array([each.event_time for each in held], times),
            "producer": pa.array([each.producer for each in held], pa.string()),
            "message_id": pa.array([":".join(map(str, each)) for each in places]),
        }
        arrays = [columns[field.name].cast(field.type) for field in schema]
        return Chunk(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _content(message: Any) -> Content:
    """Return what a message holds; without its key and properties, if they can't be read."""
    try:
        return content(message)
    except ValueError as error:
        return Content(message.data(), None, [(_UNREAD, str(error).encode())], None, None, None)
