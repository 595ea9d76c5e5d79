"""Publishes messages in requests, several at once: one of an ordering key, any number without one."""

from __future__ import annotations

import queue
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import RefusedRowError, TransientError
from mainstem.sinks import Refused, values_of
from mainstem_egress import Answer, Fate, MessageFault, OutMessage, Sender

from mainstem_broker_pubsub.client import Client, message, status
from mainstem_broker_pubsub.options import PubSubOptions

if TYPE_CHECKING:
    import pyarrow as pa

#: The attribute that holds a message's identity.
ID = "mainstem-id"
#: What a message may have, and a request of several: it has more bytes than its messages.
_LARGEST, _TOGETHER, _MOST = 10_000_000, 9_000_000, 1000
#: After so many bytes a request is sent without being asked.
_ENOUGH = 1_000_000
_KEY, _NAME, _TEXT, _ATTRIBUTES = 1024, 256, 1024, 100
_NAMES = re.compile(r"(?!goog).+", re.DOTALL)


#: What passes: the messages of that request are sent again, and the line is good.
_PASSING = (
    "RESOURCE_EXHAUSTED",
    "ABORTED",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "UNKNOWN",
    "CANCELLED",
)
#: Attributes that are Google's own, of topics with schemas and of tracing.
_OWN = "googclient_"
#: Topics that this process has looked at, which Google counts: each task of a batch connects anew.
_looked: set[str] = set()


class _Slot:
    """What waits to be sent of one ordering key, or of none, in order: a request has no two keys."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.kept: deque[tuple[int, OutMessage]] = deque()
        self.size = 0
        self.requests = 0

    @property
    def free(self) -> bool:
        """Whether a request may begin: of a key one at a time, which keeps its order."""
        return not (self.key and self.requests)

    @property
    def full(self) -> bool:
        """Whether there is enough for a request."""
        return self.size > _ENOUGH or len(self.kept) >= _MOST

    def add(self, number: int, message: OutMessage) -> None:
        """Let a message wait."""
        self.kept.append((number, message))
        self.size += message.size

    def part(self) -> tuple[list[int], list[Any]]:
        """Return what goes into the next request, with its numbers."""
        numbers: list[int] = []
        found: list[Any] = []
        size = 0
        while self.kept and len(found) < _MOST:
            number, each = self.kept[0]
            if found and size + each.size > _TOGETHER:
                break
            self.kept.popleft()
            size += each.size
            found.append(each.content)
            numbers.append(number)
        self.size -= size
        return numbers, found


class PubSubSender(Sender):
    """Sends over one channel, with so many requests in flight as the options say."""

    options: PubSubOptions

    def __init__(self, options: PubSubOptions, name: str) -> None:
        super().__init__(options, name)
        self._client: Client | None = None
        self._begin()

    def _begin(self) -> None:
        #: By ordering key, what waits or is in flight.
        self._slots: dict[str, _Slot] = {}
        self._open = 0
        self._done: queue.SimpleQueue[tuple[_Slot, list[int], Any]] = queue.SimpleQueue()
        self._fault: Exception | None = None

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        column = partial(values_of, batch)
        rows = zip(column("value"), column("key"), column("headers"), column("_id"), strict=False)
        for value, key, headers, identity in rows:
            data = _bytes(value) or b""
            try:
                made = self._made(data, _text(key, "its key"), headers, identity)
            except ValueError as error:
                refused.add(identity, data, str(error))
                continue
            yield OutMessage(made, made.ordering_key or None, made.ByteSize(), identity, data)

    def _made(self, data: bytes, key: str | None, headers: Any, identity: bytes | None) -> Any:
        """Return a message as the library takes it.

        Raises:
            ValueError: no topic takes it.
        """
        attributes = {
            name: _text(held, f"header {name[:40]!r}") or ""
            for name, held in headers or ()
            if not name.startswith(_OWN)
        }
        ordering = ""
        if identity is not None:
            attributes[ID] = identity.hex()
        if key is not None and self.options.key is not None:
            attributes[self.options.key] = key
        elif key is not None:
            ordering = key
        if len(ordering.encode()) > _KEY:
            raise ValueError(
                f"its key has more than {_KEY:,} bytes, which an ordering key has at most"
            )
        if len(attributes) > _ATTRIBUTES:
            raise ValueError(f"it has more than {_ATTRIBUTES} attributes")
        for name, text in attributes.items():
            if not _NAMES.fullmatch(name) or len(name.encode()) > _NAME:
                raise ValueError(f"a header can't be the name of an attribute: {name[:40]!r}")
            if len(text.encode()) > _TEXT:
                raise ValueError(f"header {name[:40]!r} has more than {_TEXT:,} bytes")
        if not data and not attributes:
            raise ValueError("a message without attributes is not empty")
        return message("PubsubMessage", data=data, attributes=attributes, ordering_key=ordering)

    def connect(self) -> None:
        self._begin()
        self._client = Client(self.options)
        if self.place() not in _looked:
            self._client.look("GetTopic", topic=self.options.path)
            _looked.add(self.place())

    def send(self, number: int, message: OutMessage) -> None:
        if message.size > _LARGEST:
            raise RefusedRowError(f"Pub/Sub takes no more than {_LARGEST:,} bytes")
        key = message.content.ordering_key
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot(key)
        slot.add(number, message)
        if slot.full:
            self._submit(slot)

    def _submit(self, slot: _Slot) -> None:
        """Send what waits in a slot, as far as that may be now."""
        assert self._client is not None  # noqa: S101
        done = self._done
        while slot.kept and slot.free and self._open < self.options.requests:
            numbers, part = slot.part()
            request = message("PublishRequest", topic=self.options.path, messages=part)
            slot.requests += 1
            self._open += 1
            sent = self._client.begin("Publish", request)
            sent.add_done_callback(partial(_note, done, slot, numbers))

    def answers(self, seconds: float) -> Iterable[Answer]:
        if self._fault is not None:
            raise self._fault
        if seconds:
            self._submit_all()
        found: list[Answer] = []
        with suppress(queue.Empty):
            found += self._told(*self._done.get(timeout=seconds or None, block=bool(seconds)))
            while True:
                found += self._told(*self._done.get_nowait())
        if self._fault is not None and not found:
            raise self._fault
        return found

    def _submit_all(self) -> None:
        for slot in list(self._slots.values()):
            if self._open >= self.options.requests:
                break
            self._submit(slot)

    def _told(self, slot: _Slot, numbers: list[int], answer: Any) -> list[Answer]:
        """Return what became of a request's messages, and send what waits behind them."""
        assert self._client is not None  # noqa: S101
        slot.requests -= 1
        self._open -= 1
        try:
            ids = answer.result().message_ids
        except Exception as error:
            return self._not_taken(slot, numbers, error)
        if len(ids) != len(numbers):
            self._fault = TransientError("an answer does not tell of all messages")
            return []
        if not slot.kept and not slot.requests:
            self._slots.pop(slot.key, None)
        elif slot.full:
            self._submit(slot)
        return [Answer(number, number) for number in numbers]

    def _not_taken(self, slot: _Slot, numbers: list[int], error: Exception) -> list[Answer]:
        """Return what becomes of messages whose request has failed."""
        assert self._client is not None  # noqa: S101
        name, text = status(error)
        why = f"{name.lower().replace('_', ' ')}: {text}"
        if name in _PASSING:
            if slot.key:  # those behind them would overtake them
                numbers = [*numbers, *(number for number, _ in slot.kept)]
                slot.kept.clear()
                slot.size = 0
            return [Answer(number, number, Fate.RETRY, why) for number in numbers]
        if name == "INVALID_ARGUMENT" and len(numbers) == 1:
            return [Answer(numbers[0], numbers[0], Fate.REFUSED, why)]
        lost = MessageFault(text) if name == "INVALID_ARGUMENT" else self._client.failure(error)
        self._fault = self._fault or lost
        return []

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def place(self) -> str:
        return self.options.place()


def _note(done: Any, slot: _Slot, numbers: list[int], answer: Any) -> None:
    """Put down that an answer has come; called in a thread of the library's."""
    done.put((slot, numbers, answer))


def _text(held: bytes | str | None, what: str) -> str | None:
    """Return bytes as text.

    Raises:
        ValueError: they are none.
    """
    try:
        return held.decode() if isinstance(held, bytes) else held
    except UnicodeDecodeError:
        raise ValueError(f"{what} is no text (UTF-8), which Pub/Sub has there") from None


def _bytes(held: bytes | str | None) -> bytes | None:
    return held.encode() if isinstance(held, str) else held
