"""The messages of a range of a topic's positions, read by a reader of the vendor's library."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
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
    position,
)

if TYPE_CHECKING:
    from mainstem_broker_pulsar.log import TopicLog

#: Rows go to Spark in batches of about so many, or so many bytes.
_ROWS, _BYTES = 4_000, 16 * 2**20
#: For how long a reader is waited for before it is asked whether there is more, in milliseconds.
_WAIT = 200
#: After how long without a message what is missing is looked at, in milliseconds.
_SILENCE = 2000
#: How far back the first part of a message in parts is looked for, in entries.
_BACK = 10_000
_GONE = (
    "the topic no longer has it: removed by its retention, or truncated, before it was read; how many "
    "messages there were is not known"
)


class EarlierError(Exception):
    """A message begins before the range: it is read again from `Range._back` on."""


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
        #: What came and was not yielded: positions, places, and what messages hold.
        self._found: list[tuple[int, tuple[int, int, int], Content]] = []
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
            except EarlierError:
                self._forget()
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
        self._found, self._size = [], 0

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
        begun, end, called = self._position, self._part.end, self._log.called(self._part.partition)
        last, reached = ledgers.upto(end), begun
        # The entry that was reached: no other is between it and one that follows it in its ledger.
        ledger, entry, _ = place_at(reached)
        there = last is not None and (*last, LAST) > (ledger, entry, reached % (LAST + 1))
        if self._log.options.compacted and ledgers.compacted:  # what is left is of no ledger here
            there = there or place_at(begun + 1).ledger < min(ledgers.sizes, default=0)
        quiet = 0
        read_next, found = reader.read_next, self._found
        while there:
            try:
                message = read_next(_WAIT)
            except Timeout:
                if not reader.has_message_available():
                    break
                quiet += _WAIT
                if quiet > _SILENCE:
                    if self._log.options.compacted:
                        raise TransientError(
                            f"{called}: there is more, and nothing comes"
                        ) from None
                    break  # what is not accounted for is read again
                continue
            quiet = 0
            own = message.message_id()
            place = own.ledger_id(), own.entry_id(), max(0, own.batch_index())
            if place[2] > LAST:
                raise PermanentError(f"{called}: an entry has more than {LAST + 1:,} messages")
            at = position(place)
            if at > end:
                break
            if at <= begun:
                continue
            if place[0] != ledger or place[1] > entry + 1:
                yield from self._missing(reached, at - 1, ledgers, schema)
                found = self._found
            reached = at
            ledger, entry, _ = place
            held = content(message)
            found.append((at, place, held))
            self._size += len(held.value or b"")
            if len(found) >= _ROWS or self._size >= _BYTES:
                yield self._chunk(schema)
                found = self._found
            if place[:2] == last and not reader.has_message_available():
                break
        yield from self._missing(reached, end, ledgers, schema)
        if self._found:
            yield self._chunk(schema)
        self._position, self._back = end, None

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
        if found.chunk[1] < found.chunk[2] - 1:
            return ""
        begin, parts = self._parts(ledger, entry, found, ledgers)
        if found.chunk[1] in parts:
            return ""  # its sender has sent the end of it twice
        if begin is None:
            return "it ends a message in parts, whose first are gone"
        if self._back is None or self._back >= begin:
            self._back = begin - 1
            raise EarlierError
        if parts != list(range(found.chunk[1])):
            return f"it ends a message in parts that do not follow each other: {parts}"
        raise TransientError(f"{where} ends a message that did not come")

    def _parts(
        self, ledger: int, entry: int, last: Entry, ledgers: Ledgers
    ) -> tuple[int | None, list[int]]:
        """Return where the first part of a message is, None if it is gone, and its parts up to here.

        Raises:
            PermanentError: it is too far back.
        """
        assert last.chunk is not None  # noqa: S101
        before = (
            (each, number)
            for each in sorted(ledgers.sizes, reverse=True)
            if each <= ledger
            for number in reversed(range(entry if each == ledger else ledgers.sizes[each]))
        )
        parts: list[int] = []
        for count, place in enumerate(before):
            if count == _BACK:
                called = self._log.called(self._part.partition)
                raise PermanentError(
                    f"{called}: entry {ledger}:{entry} ends a message that begins more than {_BACK:,} "
                    "entries before"
                )
            found = self._log.admin.entry(self._topic, *place)
            if found and found.chunk and found.chunk[0] == last.chunk[0]:
                parts.insert(0, found.chunk[1])
                if found.chunk[1] == 0:
                    return position(Place(*place, 0)), parts
        return None, parts

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
        found = self._found
        self._position = found[-1][0]
        self._forget()
        positions, places, held = zip(*found, strict=True)
        values, keys, headers, published, events, producers = zip(*held, strict=True)
        count = len(found)
        times = pa.timestamp("us", "UTC")
        columns: dict[str, Any] = {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(headers, schema.field("headers").type),
            "timestamp": pa.array(published, times),
            "origin": pa.repeat(pa.scalar(self._log.options.topic), count),
            "partition": pa.repeat(pa.scalar(self._part.partition), count),
            "position": pa.array([f"{each:0{self._log.digits}}" for each in positions]),
            "event_time": pa.array(events, times),
            "producer": pa.array(producers, pa.string()),
            "message_id": pa.array([f"{a}:{b}:{c}" for a, b, c in places]),
        }
        arrays = [
            each if (each := columns[field.name]).type == field.type else each.cast(field.type)
            for field in schema
        ]
        return Chunk(pa.RecordBatch.from_arrays(arrays, schema=schema))
