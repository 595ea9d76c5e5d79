"""Reads topics with the second client, where they have a message that Spark's reader fails for.

Offsets are those of Spark's own source, and the first one of a checkpoint is kept where that keeps it: so
each of the two goes on where the other was, also in a batch that was planned by the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa
from mainstem import Offset, PermanentError, PipelineError, Planner, Reading, TransientError
from mainstem.durable import made_folder, write_whole
from mainstem.patience import Patience

from mainstem_broker_kafka import client
from mainstem_broker_kafka.connection import librdkafka
from mainstem_broker_kafka.source.columns import SCHEMA, record_batch
from mainstem_broker_kafka.source.lag import beginning_to_read, initial, written
from mainstem_broker_kafka.source.offsets import GONE, Brokers, Partition, Places, by_topic, places
from mainstem_broker_kafka.source.options import KafkaSourceOptions, Offsets

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

T = TypeVar("T")

#: For how long brokers may fail to answer, in planning and in a task, in seconds.
_PATIENCE, _SILENCE = 60.0, 120.0
#: Spark asks for news a hundred times in a second; the brokers are asked so often at most, and for new
#: partitions so often, in seconds.
_EVERY, _KNOWN = 0.25, 10.0
#: A record batch has so many messages at most.
_ROWS = 5_000
#: Errors of connections, which the client makes anew, and of the group, in which nothing is done.
_PASSES = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "GROUP_")
#: The first message, and more of them, are waited for so long, in seconds.
_POLL, _MORE = 1.0, 0.01

_GONE = (
    "Messages were gone before they were read: {what}. `on_loss: report` goes on after them, and tells "
    "in the output `lost` which offsets are gone; `--fresh` starts over at `start`."
)


class Part(NamedTuple):
    """Offsets of a partition for one task, from one up to, and without, another."""

    topic: str
    number: int
    first: int
    end: int


@dataclass(frozen=True)
class MessageReading(Reading):
    """One read of a node.

    `start` is where a new checkpoint begins, with offsets of all partitions, and `first` the file in
    which that is kept.
    """

    options: KafkaSourceOptions
    start: str | datetime | Offsets
    first: Path
    bounded: bool

    def schema(self) -> str:
        return SCHEMA

    def planner(self) -> Planner:
        return MessagePlanner(self)

    def read(self, part: Part, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        with closing(Messages(self.options, part)) as messages:
            for found in messages.chunks():
                yield record_batch(found, schema, headers=self.options.headers)


# -- beside the driver --------------------------------------------------------------------------


class MessagePlanner(Planner):
    """Says what each batch reads, as Spark's own source would.

    Args:
        reading: the read.
    """

    def __init__(self, reading: MessageReading) -> None:
        self._reading = reading
        self._options = reading.options
        self._brokers = Brokers(reading.options)
        self._asked = -_EVERY
        self._since = time.monotonic()
        self._until: Places | None = None
        #: The partitions that are read, and when they were looked for.
        self._known: list[Partition] = []
        self._looked = -_KNOWN

    def initial(self) -> Offset:
        """Return the first offset of the checkpoint, found out once."""
        first = initial(self._reading.first.parent)
        if first is None:
            first = _patiently(self._begin)
            made_folder(self._reading.first.parent)
            write_whole(self._reading.first, written(first), checked=False)
        return by_topic(first)

    def _begin(self) -> Places:
        given = self._options.model_copy(update={"start": self._reading.start})
        known = self._brokers.partitions()
        begins = self._brokers.beginnings(known)
        return begins | beginning_to_read(given, self._brokers, self._brokers.ends(known))

    def prepare(self) -> None:
        """Let the batches to come end where the topics end now."""
        self._until = _patiently(self._ends)

    def _ends(self) -> Places:
        if time.monotonic() >= self._looked + _KNOWN:
            self._known = self._brokers.partitions_left()
            self._looked = time.monotonic()
        return self._brokers.ends(self._known)

    def latest(self, start: Offset) -> Offset:
        """Return where the next batch ends; `start` if there is nothing new."""
        now = time.monotonic()
        if self._until is None and now < self._asked + _EVERY:
            return start
        read = places(start)
        ends = self._until or _patiently(self._ends)
        self._asked = time.monotonic()
        if read == ends:
            return start
        begins = _patiently(lambda: self._beginnings(read, ends))
        waiting = {p: max(0, ends[p] - begins[p]) for p in ends}
        if not any(waiting.values()):
            return start
        if sum(waiting.values()) < self._least(now):
            return start
        self._since = time.monotonic()
        taken = shared(waiting, self._options.max_rows)
        return by_topic({p: begins[p] + taken[p] for p in ends})

    def _least(self, now: float) -> int:
        """Return how many messages are worth a batch now."""
        late = now >= self._since + self._options.max_delay.total_seconds()
        return 0 if self._reading.bounded or late else self._options.min_rows or 0

    def _beginnings(self, read: Places, ends: Iterable[Partition]) -> Places:
        """Return where each partition is read on; a new one from its beginning.

        Raises:
            PermanentError: something is gone that was not read, and that is the run's end.
        """
        there = self._brokers.beginnings(ends)
        begins = {p: max(read.get(p, 0), there.get(p, 0)) for p in ends}
        if self._options.on_loss == "fail":
            gone = [
                f"{p} begins at {there[p]}, and was read up to {o}"
                for p, o in read.items()
                if p in there and there[p] > o
            ]
            gone += [f"{p} is no more" for p in read if p not in begins]
            if gone:
                raise PermanentError(_GONE.format(what="; ".join(sorted(gone))))
        return begins

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        """Return what the tasks of a batch read: a partition each, or parts of it (`min_partitions`)."""
        read = places(start)
        ranges = {p: (read.get(p, 0), upto) for p, upto in places(end).items()}
        ranges = {p: (low, high) for p, (low, high) in ranges.items() if high > low}
        rows = sum(high - low for low, high in ranges.values())
        found = []
        for partition, (low, high) in sorted(ranges.items()):
            wanted = (self._options.min_partitions or 0) * (high - low) / max(rows, 1)
            tasks = min(max(1, round(wanted)), high - low)
            cuts = [low + (high - low) * n // tasks for n in range(tasks + 1)]
            found += [Part(*partition, cuts[n], cuts[n + 1]) for n in range(tasks)]
        return found


def _patiently(ask: Callable[[], T]) -> T:
    """Ask the brokers, and again while they don't answer, for a while."""
    patience = Patience(_PATIENCE)
    while True:
        try:
            return ask()
        except PermanentError:
            raise
        except PipelineError:
            pause = patience.pause()
            if pause > patience.left():
                raise
        time.sleep(pause)


def shared(waiting: Mapping[Partition, int], most: int | None) -> dict[Partition, int]:
    """Return how much of what waits in each partition a batch takes: in proportion, one at least."""
    whole = sum(waiting.values())
    if most is None or whole <= most:
        return dict(waiting)
    return {p: min(count, max(1, count * most // whole)) for p, count in waiting.items()}


# -- in a task ----------------------------------------------------------------------------------


class Messages:
    """The messages of one part.

    Args:
        options: the source's.
        part: which.
    """

    def __init__(self, options: KafkaSourceOptions, part: Part) -> None:
        self._options = options
        self._part = part
        self._settings = librdkafka(options)
        self._heard = client.Heard()
        self._consumer: Consumer = client.consumer(
            self._settings,
            self._heard,
            group_id="mainstem",  # needed by the client; nothing is committed in it
            enable_partition_eof=True,
            isolation_level=options.isolation,
            auto_offset_reset="error" if options.on_loss == "fail" else "earliest",
            fetch_wait_max_ms=10,
        )

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def chunks(self) -> Generator[list[Message[bytes, bytes]]]:
        """Yield messages in the order of their offsets.

        Raises:
            PipelineError: the brokers don't give them, for too long.
            PermanentError: they are gone.
        """
        kafka = client.library()
        part = self._part
        doing = f"reading {part.topic}/{part.number} from offset {part.first}"
        heard_of = time.monotonic()
        with client.asking(doing, self._settings, self._heard):
            self._consumer.assign([kafka.TopicPartition(part.topic, part.number, part.first)])
            while True:
                # It waits for as many as it is asked for: for the first, and for what follows at once.
                found = self._consumer.consume(1, _POLL)
                found += self._consumer.consume(_ROWS, _MORE) if found else []
                rows: list[Message[bytes, bytes]] = []
                last, over = part.first, False
                for message in found:
                    error = message.error()
                    offset = message.offset()
                    if error is None or error.code() == kafka.KafkaError._PARTITION_EOF:
                        # The end of a transaction is an offset without a message, so may be the last one.
                        over = offset is not None and offset >= part.end
                        if over:
                            break
                        if error is None:
                            rows.append(message)
                            last = offset or 0
                    elif error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:
                        what = f"{part.topic}/{part.number} no longer has offset {part.first}"
                        raise PermanentError(_GONE.format(what=what))
                    elif error.name() in GONE and self._options.on_loss == "report":
                        over = True  # `lost` tells
                        break
                    elif not error.name().startswith(_PASSES):
                        raise client.failure(
                            client.raised(error), doing, self._settings, self._heard
                        )
                if rows:
                    heard_of = time.monotonic()
                    yield rows
                    over = over or last + 1 >= part.end
                if over:
                    return
                if time.monotonic() > heard_of + _SILENCE:
                    raise TransientError(
                        f"{doing} failed at {self._settings.servers}: nothing came for {_SILENCE:g} s"
                    )
