"""Publishes messages, many in flight."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem import RefusedRowError, TransientError
from mainstem.sinks import Refused, values_of
from mainstem_egress import Answer, Fate, MessageFault, OutMessage, Sender

from mainstem_broker_mqtt.options import MQTTOptions, unfit, unfit_text

if TYPE_CHECKING:
    import pyarrow as pa

#: The user properties that hold a message's identity, and its key.
ID, KEY = "mainstem-id", "key"
#: What a packet has beside topic, payload and properties, in bytes, at most.
_HEAD = 32


class _Content(NamedTuple):
    topic: str
    payload: bytes
    properties: Any


class MQTTSender(Sender):
    """Publishes over one connection."""

    options: MQTTOptions

    def __init__(self, options: MQTTOptions, name: str) -> None:
        super().__init__(options, name)
        self._connection: Any = None

    def messages(self, batch: pa.RecordBatch, refused: Refused) -> Iterator[OutMessage]:
        from mainstem_broker_mqtt.connection import user_properties

        options = self.options
        five = options.version == "5"
        expiry = None if options.expiry is None else max(1, int(options.expiry.total_seconds()))
        column = partial(values_of, batch)
        topics = repeat(options.topic) if options.topic else column(options.topic_from)
        rows = zip(
            column("value"), column("key"), column("headers"), column("_id"), topics, strict=False
        )
        for value, key, headers, identity, topic in rows:
            named = topic.decode(errors="replace") if isinstance(topic, bytes) else topic or ""
            if why := unfit(named):
                refused.add(identity, value, f"its topic can't be published to: {why}")
                continue
            payload = value or b""
            properties, size = None, len(payload)
            if five:
                pairs = [(ID, identity.hex())] if identity is not None else []
                try:
                    if key is not None:
                        pairs.append((KEY, _text(key)))
                    pairs += [(name, _text(held or b"")) for name, held in headers or ()]
                except UnicodeDecodeError:
                    refused.add(identity, value, "a header or the key is no text of UTF-8")
                    continue
                if any(unfit_text(text) for pair in pairs for text in pair):
                    why = "a header or the key is too long, or has control characters"
                    refused.add(identity, value, why)
                    continue
                properties = user_properties(pairs, expiry)
                size += sum(len(text.encode()) + 4 for pair in pairs for text in pair)
            content = _Content(named, payload, properties)
            yield OutMessage(content, key if key is not None else named, size, identity, value)

    def connect(self) -> None:
        from mainstem_broker_mqtt.connection import Connection

        #: By packet id, the number of each message that has no answer.
        self._waiting: dict[int, int] = {}
        self._answers: list[Answer] = []
        self._named = False
        self._early: list[tuple[int, int]] = []
        self._connection = Connection(
            self.options, published=self._published, in_flight=self.options.in_flight
        )

    def send(self, number: int, message: OutMessage) -> None:
        content, options = message.content, self.options
        if message.size + len(content.topic.encode()) + _HEAD > self._connection.largest:
            raise RefusedRowError(
                f"the server takes no more than {self._connection.largest:,} bytes"
            )
        until = time.monotonic() + options.answer_timeout.total_seconds()
        while len(self._waiting) >= self._connection.most:  # the server says so
            self._connection.work(max(0.0, until - time.monotonic()))
            if time.monotonic() > until:
                raise TransientError("the server does not answer")
        topic = content.topic
        if options.topic is not None and self._connection.aliases:
            # The server knows the one topic by its number after the first message.
            content.properties.TopicAlias = 1
            topic = "" if self._named else topic
            self._named = True
        packet = self._connection.publish(
            topic,
            content.payload,
            options.qos,
            retain=options.retain,
            properties=content.properties,
        )
        self._waiting[packet] = number
        if self._early:  # told before it was known
            early, self._early = self._early, []
            for known, reason in early:
                self._published(known, reason)

    def _published(self, packet: int, reason: int) -> None:
        from mainstem_broker_mqtt.connection import PASSING

        number = self._waiting.pop(packet, None)
        if number is None:
            self._early.append((packet, reason))
            return
        fate = Fate.ACCEPTED
        if reason >= 0x80:
            fate = Fate.RETRY if reason in PASSING else Fate.REFUSED
        told = f"the server says {reason:#x}" if reason >= 0x80 else ""
        self._answers.append(Answer(number, number, fate, told))

    def answers(self, seconds: float) -> Iterable[Answer]:
        try:
            self._connection.work(0 if self._answers else seconds)
        except TransientError:
            # What was answered before counts: some servers end the connection of who is refused.
            if not self._answers:
                if self._connection.fault and self._waiting:
                    raise MessageFault(
                        f"the server has ended the connection: {self._connection.fault}"
                    ) from None
                raise
        found, self._answers = self._answers, []
        return found

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def place(self) -> str:
        host, port = self.options.place()
        return f"{host}:{port}"


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else data.decode()
