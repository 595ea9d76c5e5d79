"""Sends messages in requests of up to ten, several at once."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstem import RefusedRowError, TransientError
from mainstem.sinks import Refused, values_of
from mainstem_egress import Answer, Fate, OutMessage, Sender

from mainstem_broker_sqs.options import SQSOptions
from mainstem_broker_sqs.queue import MOST, Queue
from mainstem_broker_sqs.receiver import BASE64, ENCODING

if TYPE_CHECKING:
    import pyarrow as pa

#: The attribute that holds a message's identity.
ID = "mainstem-id"
#: What a body may not have in it: no character of XML's.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Names of attributes, and names of groups.
_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!(?i:aws|amazon)\.)[\w.-]{1,256}(?<!\.)", re.ASCII)
_GROUP = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_ATTRIBUTES = 10
#: What a request takes, if the queue does not say it.
_LARGEST = 262_144


class SQSSender(Sender):
    """Sends over one client; answers come request by request."""

    options: SQSOptions

    def __init__(self, options: SQSOptions, name: str) -> None:
        super().__init__(options, name)
        self._queue: Queue | None = None
        self._calls: ThreadPoolExecutor | None = None
        self._begin()

    def _begin(self) -> None:
        self._kept: list[tuple[int, dict[str, Any]]] = []
        self._size = 0
        self._out: dict[Future[dict[str, Any]], list[int]] = {}

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        options, column = self.options, partial(values_of, batch)
        rows = zip(column("value"), column("key"), column("headers"), column("_id"), strict=False)
        for value, key, headers, identity in rows:
            given = key.encode() if isinstance(key, str) else key
            try:
                content, size = self._content(value, given, headers, identity)
            except ValueError as error:
                refused.add(identity, _bytes(value), str(error))
                continue
            lane = content.get("MessageGroupId") if options.fifo else given
            yield OutMessage(content, lane, size, identity, _bytes(value))

    def _content(
        self, value: Any, key: bytes | None, headers: Any, identity: bytes | None
    ) -> tuple[dict[str, Any], int]:
        """Return a message as the library takes it, and its size.

        Raises:
            ValueError: no queue takes it.
        """
        options = self.options
        # Before its own, which a header of the same name must not replace.
        attributes: dict[str, dict[str, Any]] = {}
        for name, held in headers or ():
            if not _NAME.fullmatch(name):
                raise ValueError(f"a header can't be the name of an attribute: {name[:40]!r}")
            if held and name not in (ID, ENCODING):
                attributes[name] = _attribute(held)
        body = _text(value)
        if not body or _UNFIT.search(body):
            if not value:
                raise ValueError("a message of SQS is not empty")
            body = base64.b64encode(_bytes(value) or b"").decode()
            attributes[ENCODING] = {"DataType": "String", "StringValue": BASE64}
        content: dict[str, Any] = {"MessageBody": body}
        if identity is not None and not options.fifo:
            attributes[ID] = {"DataType": "String", "StringValue": identity.hex()}
        if key is not None and options.key is not None:
            attributes[options.key] = _attribute(key)
        if len(attributes) > _ATTRIBUTES:
            raise ValueError(f"it has more than {_ATTRIBUTES} attributes")
        if attributes:
            content["MessageAttributes"] = attributes
        if options.fifo:
            content |= self._place(key, identity)
        size = len(body.encode()) + sum(
            len(name) + len(each["DataType"]) + len(each.get("StringValue", "").encode())
            + len(each.get("BinaryValue", b""))
            for name, each in attributes.items()
        )  # fmt: skip
        return content, size

    def _place(self, key: bytes | None, identity: bytes | None) -> dict[str, Any]:
        """Return what a FIFO queue wants to know: whom a message follows, and what it is a copy of."""
        group = self.options.group if key is None else _text(key)
        if group is None:
            raise ValueError("it has no key, by which a FIFO queue groups messages (group)")
        if not _GROUP.fullmatch(group):
            group = hashlib.sha256(key or b"").hexdigest()
        return {
            "MessageGroupId": group,
            **({"MessageDeduplicationId": identity.hex()[:128]} if identity is not None else {}),
        }

    def connect(self) -> None:
        self._begin()
        self._queue = Queue(self.options, self.options.requests)
        self._largest = int(self._queue.facts.get("MaximumMessageSize", _LARGEST))
        self._calls = ThreadPoolExecutor(self.options.requests, "sqs")

    def send(self, number: int, message: OutMessage) -> None:
        if message.size > self._largest:
            raise RefusedRowError(f"the queue takes no more than {self._largest:,} bytes")
        if len(self._kept) == MOST or self._size + message.size > self._largest:
            self._submit()
        self._kept.append((number, message.content))
        self._size += message.size

    def _submit(self) -> None:
        kept, self._kept, self._size = self._kept, [], 0
        if kept:
            assert self._calls is not None  # noqa: S101
            entries = [{"Id": str(at), **content} for at, (_, content) in enumerate(kept)]
            self._out[self._calls.submit(self._send, entries)] = [number for number, _ in kept]

    def _send(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        assert self._queue is not None  # noqa: S101
        said: dict[str, Any] = self._queue.client.send_message_batch(
            QueueUrl=self._queue.url, Entries=entries
        )
        return said

    def answers(self, seconds: float) -> Iterable[Answer]:
        if seconds or len(self._kept) == MOST:
            self._submit()
        done, _ = wait(self._out, seconds, FIRST_COMPLETED)
        found: list[Answer] = []
        for each in done:
            numbers = self._out.pop(each)
            try:
                said = each.result()
            except Exception as error:
                assert self._queue is not None  # noqa: S101
                raise self._queue.failure(error) from None
            found += _told(numbers, said)
        return found

    def close(self) -> None:
        calls, self._calls = self._calls, None
        made, self._queue = self._queue, None
        if calls is not None:
            calls.shutdown(wait=False, cancel_futures=True)
        if made is not None:
            made.close()

    def place(self) -> str:
        return self.options.place()


class FIFOSender(SQSSender):
    """The same for a queue that keeps an order, and drops copies."""

    one_of_a_lane = True


def _told(numbers: list[int], said: dict[str, Any]) -> Iterator[Answer]:
    """Yield what became of each message of a request."""
    failed = {int(each["Id"]): each for each in said.get("Failed", ())}
    known = {int(each["Id"]) for each in said.get("Successful", ())} | failed.keys()
    if known != set(range(len(numbers))):
        raise TransientError("an answer does not tell of all messages")
    for at, number in enumerate(numbers):
        if (fault := failed.get(at)) is None:
            yield Answer(number, number)
            continue
        reason = f"{fault.get('Code', '')}: {fault.get('Message', '')}".strip(": ")
        fate = Fate.REFUSED if fault.get("SenderFault") and not _later(fault) else Fate.RETRY
        yield Answer(number, number, fate, reason)


def _later(fault: dict[str, Any]) -> bool:
    return "throttl" in str(fault.get("Code", "")).lower()


def _attribute(held: bytes | str) -> dict[str, Any]:
    """Return an attribute: text where it can be."""
    text = _text(held)
    if text and not _UNFIT.search(text):
        return {"DataType": "String", "StringValue": text}
    return {"DataType": "Binary", "BinaryValue": _bytes(held)}


def _text(held: bytes | str | None) -> str:
    """Return bytes as text; empty if they are none."""
    try:
        return held.decode() if isinstance(held, bytes) else held or ""
    except UnicodeDecodeError:
        return ""


def _bytes(held: bytes | str | None) -> bytes | None:
    return held.encode() if isinstance(held, str) else held
