"""The receiver of the source `sqs`: threads ask for messages, which are deleted once they are stored."""

from __future__ import annotations

import base64
import binascii
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from mainstem import PipelineError, TransientError, failpoint
from mainstem_ingress import Message, Receiver

from mainstem_broker_sqs.options import SQSSourceOptions
from mainstem_broker_sqs.queue import MOST, Queue

#: The attribute by which a sink says that a body is base64 of the value.
ENCODING, BASE64 = "mainstem-encoding", "base64"
#: How many messages others can take, as far as SQS knows.
_VISIBLE = "ApproximateNumberOfMessages"
#: How many messages are handed on at a time.
_PART = 1_000
#: How much longer than a request waits its thread is waited for, in seconds.
_REST = 0.5
#: Messages are hidden for longer when so much of the time has passed.
_SHARE = 1 / 3


class SQSReceiver(Receiver):
    """Takes messages of a queue.

    What was taken and not deleted comes again, and is known by its id if it is stored.
    """

    options: SQSSourceOptions

    def __init__(self, options: SQSSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._queue: Queue | None = None
        self._polling: _Polling | None = None
        self._key = options.key

    def connect(self, cursor: str | None) -> None:
        made = self._queue = Queue(self.options, 2 * self.options.requests)
        failpoint("sqs.after-connect")
        # As of now: later some are with this receiver, and the queue does not count them.
        self._polling = _Polling(made, self.options, int(made.facts.get(_VISIBLE, 0)))

    def take(self, seconds: float) -> Iterable[Message]:
        polling = self._polling
        assert polling is not None  # noqa: S101
        polling.extend()
        if not polling.going:
            time.sleep(seconds)
            return []
        found = [self._message(each) for each in polling.take(seconds)]
        failpoint("sqs.after-take")
        return found

    def _message(self, given: dict[str, Any]) -> Message:
        facts, attributes = given.get("Attributes", {}), given.get("MessageAttributes", {})
        value, refused = _bytes(given.get("Body", "")), None
        headers: list[tuple[str, bytes]] = []
        group = facts.get("MessageGroupId")
        key = group.encode() if group is not None and self._key is None else None
        for name, held in attributes.items():
            said: bytes | None = held.get("BinaryValue")
            if said is None:
                said = _bytes(held.get("StringValue", ""))
            if name == self._key:
                key = said
            elif name == ENCODING and said == BASE64.encode():
                try:
                    value = base64.b64decode(value, validate=True)
                except binascii.Error:
                    refused = "it says that it is base64, and is not"
            else:
                headers.append((name, said))
        sent = facts.get("SentTimestamp")
        return Message(
            value,
            key,
            headers or None,
            int(sent) * 1000 if sent is not None else None,
            self.options.name,
            given["MessageId"].encode(),
            token=given["ReceiptHandle"],
            refused=refused,
            extra=(int(facts.get("ApproximateReceiveCount", 1)),),
        )

    def acknowledge(self, messages: Sequence[Message]) -> None:
        polling = self._polling
        if polling is None:
            raise TransientError("there is no connection")
        polling.delete([message.token for message in messages])
        failpoint("sqs.after-delete")

    def pause(self) -> None:
        if self._polling is not None:
            self._polling.pause()

    def resume(self) -> None:
        if self._polling is not None:
            self._polling.resume()

    def close(self) -> None:
        polling, self._polling = self._polling, None
        made, self._queue = self._queue, None
        if polling is not None:
            polling.end()
        if made is not None:
            made.close()

    def caught_up(self) -> bool | None:
        return self._polling is not None and self._polling.caught_up()

    def facts(self) -> dict[str, Any]:
        made = self._queue
        told = made.dead_letters if made is not None else None
        return {"server": self.options.place(), **({"dead_letters": told} if told else {})}


class _Polling:
    """The requests that threads have open for a receiver, and the messages that it has taken."""

    def __init__(self, made: Queue, options: SQSSourceOptions, there: int) -> None:
        self._queue, self._options = made, options
        #: How many messages there were, about, and the ids of those which came, until it is so many.
        self._there, self._ids = there, set[str]()
        self._visibility = max(1, int(options.visibility.total_seconds()))
        self._wait = max(1, int(options.wait.total_seconds()))
        self._came: queue.SimpleQueue[list[dict[str, Any]]] = queue.SimpleQueue()
        #: Guards what follows, and tells of each change of it.
        self._change = threading.Condition()
        #: By receipt, when a message that was taken will be seen by others again.
        self._held: dict[str, float] = {}
        #: The threads that have asked for messages and have no answer yet.
        self._asking: set[int] = set()
        #: Those that had when the queue was seen to be empty; None before that.
        self._out: set[int] | None = None
        self.going, self._ended = True, False
        #: Whether the last answers were full, so that more than one thread asks.
        self._many = False
        #: How many answers came, and were handed on.
        self._answers = self._handed = 0
        #: How many had come when all was here that there was; None before that.
        self._last: int | None = None if there else 0
        self._fault: Exception | None = None
        self._look = 0.0
        self._calls = ThreadPoolExecutor(options.requests, "sqs")
        self._threads = [
            threading.Thread(target=self._poll, args=(number,), daemon=True)
            for number in range(options.requests)
        ]
        for each in self._threads:
            each.start()

    # -- threads that ask -------------------------------------------------------------------------

    def _poll(self, number: int) -> None:
        try:
            while self._may_ask(number):
                found: list[dict[str, Any]] = []
                try:
                    found = self._receive(number)
                finally:
                    self._answered(number, found)
        except Exception as error:
            self._fault = self._queue.failure(error)

    def _may_ask(self, number: int) -> bool:
        """Wait until there is room for what a request may bring; whether it is not over."""

        def may() -> bool:
            wanted = self.going and (self._many or number == 0)
            taken = len(self._held) + MOST * len(self._asking)
            return self._ended or (wanted and taken + MOST <= self._options.prefetch)

        with self._change:
            self._change.wait_for(may)
            self._asking.add(number)
            return not self._ended

    def _answered(self, number: int, found: list[dict[str, Any]]) -> None:
        """Give on what a request has brought."""
        with self._change:
            self._asking.discard(number)
            if found and not self._ended:
                self._came.put(found)
                self._answers += 1
            if self._last is None:
                self._ids |= {each["MessageId"] for each in found}
                if self._out is not None:
                    self._out.discard(number)
                # The first thread's requests wait for messages: only an empty queue has none.
                elif number == 0 and not found:
                    self._out = set(self._asking)
                if self._out == set() or len(self._ids) >= self._there:
                    self._last, self._ids = self._answers, set()
            self._change.notify_all()

    def _receive(self, number: int) -> list[dict[str, Any]]:
        began = time.monotonic()
        said = self._queue.client.receive_message(
            QueueUrl=self._queue.url,
            MaxNumberOfMessages=MOST,
            VisibilityTimeout=self._visibility,
            WaitTimeSeconds=0 if number else self._wait,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        found: list[dict[str, Any]] = said.get("Messages", [])
        with self._change:
            self._held |= {each["ReceiptHandle"]: began + self._visibility for each in found}
            if len(found) == MOST or number or not found:
                self._many = len(found) == MOST
        return found

    # -- for the receiver -------------------------------------------------------------------------

    def take(self, seconds: float) -> list[dict[str, Any]]:
        """Return what came, waiting for the first."""
        if self._fault is not None and self._came.empty():
            raise self._fault
        found: list[dict[str, Any]] = []
        with suppress(queue.Empty):
            found += self._came.get(timeout=seconds)
            self._handed += 1
            while len(found) < _PART:
                found += self._came.get_nowait()
                self._handed += 1
        return found

    def caught_up(self) -> bool:
        """Whether all was handed on that was at the queue at first."""
        return self._last is not None and self._handed >= self._last

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages; one that can't be deleted comes again, and is known then."""
        self._all(receipts, self._delete)

    def _all(self, receipts: Sequence[str], call: Callable[[Sequence[str]], None]) -> None:
        parts = [receipts[at : at + MOST] for at in range(0, len(receipts), MOST)]
        try:
            list(self._calls.map(call, parts))
        except Exception as error:
            raise self._queue.failure(error) from None

    def _delete(self, part: Sequence[str]) -> None:
        entries = [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(part)]
        self._queue.client.delete_message_batch(QueueUrl=self._queue.url, Entries=entries)
        with self._change:  # there is room for as many
            for each in part:
                self._held.pop(each, None)
            self._change.notify_all()

    def extend(self) -> None:
        """Let messages that wait to be stored be hidden for longer."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + self._visibility * _SHARE / 2
        soon = now + self._visibility * (1 - _SHARE)
        with self._change:
            old = [receipt for receipt, until in self._held.items() if until < soon]
        self._all(old, lambda part: self._hide(part, self._visibility))
        with self._change:
            for receipt in old:
                if receipt in self._held:
                    self._held[receipt] = now + self._visibility

    def _hide(self, part: Sequence[str], seconds: int) -> None:
        entries = [
            {"Id": str(n), "ReceiptHandle": each, "VisibilityTimeout": seconds}
            for n, each in enumerate(part)
        ]
        # Of one that can't be hidden any more another copy comes, which is known.
        self._queue.client.change_message_visibility_batch(
            QueueUrl=self._queue.url, Entries=entries
        )

    def pause(self) -> None:
        """Ask for nothing more."""
        with self._change:
            self.going = False

    def resume(self) -> None:
        """Ask again."""
        with self._change:
            self.going = True
            self._change.notify_all()

    def end(self) -> None:
        """End the threads, and let others see at once what was not stored."""
        with self._change:
            self._ended = True
            self._change.notify_all()
        until = time.monotonic() + self._wait + _REST
        for each in self._threads:
            each.join(max(0.0, until - time.monotonic()))
        with self._change:
            held = list(self._held)
        with suppress(PipelineError):
            self._all(held, lambda part: self._hide(part, 0))
        self._calls.shutdown(wait=False, cancel_futures=True)


def _bytes(text: str) -> bytes:
    """Return the bytes of a text, which is what a sender has made of it, be it no character."""
    return text.encode(errors="surrogatepass")
