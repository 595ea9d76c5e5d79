"""Sends messages by producers of a topic's partitions; the library answers for each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem import FencedError, PermanentError, RefusedRowError, TransientError
from mainstem.sinks import LANE, NUMBER, Refused, batch_of, micros_of, values_of
from mainstem_egress import Answer, Fate, Sender

from mainstem_broker_pulsar.client import LASTING, UNFIT, Client, Failure, Result, failure
from mainstem_broker_pulsar.options import PulsarOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: The property that holds a message's identity.
ID = "mainstem-id"
#: So many messages without a key go to one partition before it is the next one's turn.
_TURN = 500
#: Answers come close after each other; to wake for each costs more than to wait for some, in seconds.
_TOGETHER = 0.001
#: What a message has beside key, value and properties, about, in bytes.
_OVERHEAD = 200


class Outgoing(NamedTuple):
    """A message to send; see `mainstem_egress.Sendable`. `turn` places it if it has no key."""

    content: dict[str, Any]
    turn: int
    lane: Hashable
    size: int
    identity: bytes | None
    payload: bytes | None


class PulsarSender(Sender):
    """Sends over one client, with a producer for each partition.

    Keys go to partitions as clients in Java send them, so that both send a key to the same one.

    Args:
        options: of the sink.
        name: of the sink.
    """

    options: PulsarOptions

    def __init__(self, options: PulsarOptions, name: str) -> None:
        super().__init__(options, name)
        self._client: Client | None = None
        self._rows = 0
        self._topics: list[str] = []
        self._begin()

    def _begin(self) -> None:
        #: Those of each lane, or of all, by partition.
        self._producers: dict[tuple[Hashable, int], Any] = {}
        self._told = _Told()

    # -- messages -----------------------------------------------------------------------------------

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[Outgoing]:
        column = partial(values_of, batch)
        rows = zip(
            column("value"),
            column("key"),
            column("headers"),
            column("_id"),
            micros_of(batch, "event_time"),
            micros_of(batch, "deliver_at"),
            column(LANE),
            column(NUMBER),
            strict=False,
        )
        for value, key, headers, identity, event, due, lane, number in rows:
            self._rows += 1
            held = value.encode() if isinstance(value, str) else value
            try:
                content, size = _content(held, key, headers, identity, event, due)
            except ValueError as error:
                refused.add(identity, held, str(error))
                continue
            if number is not None:
                content["sequence_id"] = number
            # What comes after a higher number is dropped: all rows of a lane keep their order.
            own = key if lane is None else lane
            yield Outgoing(content, number or self._rows, own, size, identity, held)

    # -- sending ------------------------------------------------------------------------------------

    def connect(self) -> None:
        self._begin()
        self._client = Client(self.options)
        self._topics = self._client.partitions(self.options.topic)
        self._open()

    def _open(self) -> None:
        """Open the producers that there will be, as far as that is known."""
        batching = "none" if self.options.chunks else self.options.batching
        for partition in range(len(self._topics)):
            self._producers[None, partition] = self._opened(partition, None, batching)

    def _opened(self, partition: int, name: str | None, batching: str) -> Any:
        assert self._client is not None  # noqa: S101
        options = self.options
        return self._client.producer(
            self._topics[partition],
            name,
            batching=batching,
            compression=options.compression,
            chunks=options.chunks,
            pending=options.in_flight + 1,
            seconds=options.answer_timeout.total_seconds(),
        )

    def send(self, number: int, message: Outgoing) -> None:
        if message.size > self.options.max_message and not self.options.chunks:
            raise RefusedRowError(f"it has {message.size:,} bytes, and max_message is less")
        try:
            self._send(message, partial(self._told.add, number))
        except Failure as error:
            raise failure(error, self.options.place(), self.options.topic) from None

    def _send(self, message: Outgoing, told: Callable[[Any, Any], None]) -> None:
        made = self._producers[None, self._partition(message)]
        made.send_async(callback=told, **message.content)

    def _partition(self, message: Outgoing) -> int:
        if len(self._topics) == 1:
            return 0
        key = message.content.get("partition_key")
        if key is None:
            return message.turn // _TURN % len(self._topics)
        return partition_of(key, len(self._topics))

    def answers(self, seconds: float) -> Iterable[Answer]:
        found: list[Answer] = []
        first = last = 0
        for number, result in self._told.take(seconds):
            if result == Result.Ok:
                if number != last + 1 or not first:
                    if first:
                        found.append(Answer(first, last))
                    first = number
                last = number
            elif result in UNFIT:
                found.append(
                    Answer(number, number, Fate.REFUSED, f"{result}".removeprefix("Result."))
                )
            else:
                text = f"pulsar {self.options.place()}: {self.options.topic}: {result}"
                raise PermanentError(text) if result in LASTING else TransientError(text)
        if first:
            found.append(Answer(first, last))
        return found

    def close(self) -> None:
        client, self._client = self._client, None
        self._producers = {}
        if client is not None:
            client.close()

    def place(self) -> str:
        return f"{self.options.place()}: {self.options.topic}"


class NumberedSender(PulsarSender):
    """The same by producers of its own names, which the broker knows with the last number of each.

    Their messages are in no batches: the broker looks at the first number of a batch alone, and batches
    are cut by the clock. All rows are sent again in a retry, also those below the broker's last number:
    it may have handed them on, and not stored them yet; only its answer to each says that it has it.

    Args:
        options: of the sink.
        name: of the sink.
        producers: the beginning of the producers' names.
    """

    def __init__(self, options: PulsarOptions, name: str, *, producers: str) -> None:
        self._names = producers
        super().__init__(options, name)

    def _open(self) -> None:
        """Open none: which lanes there are is seen as rows come."""

    def _send(self, message: Outgoing, told: Callable[[Any, Any], None]) -> None:
        which = message.lane, self._partition(message)
        made = self._producers.get(which)
        if made is None:
            made = self._opened(which[1], f"{self._names}-{message.lane}", "none")
            there, batch = batch_of(made.last_sequence_id()), batch_of(message.turn)
            if there > batch:  # the ledger may be forgotten sooner
                raise FencedError(
                    f"rows of batch {there} of this checkpoint are there, and this is batch {batch}: the "
                    "checkpoint is an old copy, and what it would write need not be what is there. Go on "
                    "from the newest copy, or start over with `--fresh`"
                )
            self._producers[which] = made
        made.send_async(callback=told, **message.content)


class _Told:
    """What the library's thread says of messages, by number."""

    def __init__(self) -> None:
        self._came: deque[tuple[int, Any]] = deque()
        self._news = threading.Event()
        self._waits = False

    def add(self, number: int, result: Any, _: Any) -> None:
        """Note what became of a message; called in that thread."""
        self._came.append((number, result))
        if self._waits:
            self._news.set()

    def take(self, seconds: float) -> Iterator[tuple[int, Any]]:
        """Yield what was noted, waiting for the first."""
        if not self._came and seconds:
            self._news.clear()
            self._waits = True
            if not self._came and self._news.wait(seconds):
                time.sleep(_TOGETHER)
            self._waits = False
        for _ in range(len(self._came)):
            yield self._came.popleft()


def _content(
    value: bytes | None,
    key: Any,
    headers: Any,
    identity: bytes | None,
    event: int | None,
    due: int | None,
) -> tuple[dict[str, Any], int]:
    """Return a message as the library takes it, and its size, about.

    Raises:
        ValueError: the library takes no such message.
    """
    properties = {}
    for name, held in headers or ():
        properties[name] = _text(held or b"", f"the header {name[:40]!r}")
    if identity is not None:
        properties[ID] = identity.hex()
    content: dict[str, Any] = {"content": value, "properties": properties}
    if key:
        content["partition_key"] = _text(key, "the key")
    for name, at in (("event_timestamp", event), ("deliver_at", due)):
        if at is not None:
            if at < 0:
                raise ValueError(
                    f"its time is before 1970: {datetime.fromtimestamp(at / 1e6, UTC)}"
                )
            content[name] = at // 1000
    size = len(value or b"") + len(key or b"") + _OVERHEAD
    return content, size + sum(len(name) + len(held) for name, held in properties.items())


def _text(held: bytes | str, what: str) -> str:
    if isinstance(held, str):
        return held
    try:
        return held.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} is no UTF-8, as Pulsar's are") from None


@lru_cache(100_000)
def partition_of(key: str, partitions: int) -> int:
    """Return the partition that a key is sent to: by the hash of Java's strings."""
    if partitions == 1:
        return 0
    found = 0
    units = key.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + low + (high << 8)) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % partitions
