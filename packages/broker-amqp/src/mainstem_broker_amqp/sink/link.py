"""One connection with one channel that confirms what is published on it, driven by its user's calls.

pika's `BlockingConnection` waits for each confirm, so this is a `SelectConnection` whose loop runs while
`poll` is called. Messages are framed here, a message a piece of bytes, and handed over many at a time:
pika makes three writes to the socket of each message, and sets up three objects, which is most of what
publishing costs (see `benchmarks/amqp_sink.py`).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pika
from pika import exceptions, frame, spec
from pika.adapters.select_connection import IOLoop

_BASIC = 60  # class id of basic (AMQP 0-9-1, 1.8)
_END = b"\xce"
_HEADER = struct.Struct(">BHIHHQ")  # frame type, channel, size, class, weight, size of the body
_FRAME = struct.Struct(">BHI")
_FLAGS = struct.Struct(">HB")
_PLAIN_NAMES = {"delivery_mode", "message_id", "timestamp"}
#: Bytes that are gathered before they are handed to the connection.
_PIECE = 128 * 1024
#: A loop that takes the broker's word for this long at most, then looks at the clock.
_LONGEST_WAIT = 0.5


class Message(NamedTuple):
    """A message to publish.

    Messages with the same `lane` keep their order. `identity` and `payload` are the row's `_id` and
    value. `properties` are encoded; `message_id` and `routing_key` are there to recognize a returned
    message.
    """

    lane: bytes | str | None
    size: int
    identity: bytes | None
    payload: bytes | None
    routing_key: str
    message_id: str | None
    properties: bytes


@dataclass(frozen=True)
class Exchange:
    """Where to publish, and how to make sure that it is there.

    `declare` holds the arguments of `exchange_declare`; None looks whether the exchange is there.
    """

    name: str = ""
    declare: Mapping[str, Any] | None = field(default=None)


def encode_properties(properties: Mapping[str, Any], headers: Mapping[str, Any]) -> bytes:
    """Return the flags and the list of a content header (AMQP 0-9-1, 4.2.6.1).

    Raises:
        ValueError: a value is longer than AMQP allows.
    """
    # What nearly every message has; pika takes four times as long.
    if not headers and properties.keys() <= _PLAIN_NAMES and "delivery_mode" in properties:
        flags, parts = spec.BasicProperties.FLAG_DELIVERY_MODE, b""
        name: str | None = properties.get("message_id")
        if name is not None:
            flags |= spec.BasicProperties.FLAG_MESSAGE_ID
            encoded = name.encode()
            parts = len(encoded).to_bytes(2, "big")[1:] + encoded
        seconds: int | None = properties.get("timestamp")
        if seconds is not None:
            flags |= spec.BasicProperties.FLAG_TIMESTAMP
            parts += seconds.to_bytes(8, "big")
        if len(parts) < 256:
            return _FLAGS.pack(flags, properties["delivery_mode"]) + parts
    try:
        made = spec.BasicProperties(**properties, headers=dict(headers) or None)
        pieces: list[bytes] = made.encode()
        return b"".join(pieces)
    except exceptions.ShortStringTooLong as error:
        raise ValueError(
            f"a property or a header's name has more than 255 bytes: {error}"
        ) from None


class Link:
    """A connection with a channel in confirm mode; its callbacks tell the answers.

    Attributes:
        acked: called with a delivery tag and whether all before it are meant too.
        nacked: as `acked`, for messages that the broker could not take.
        returned: called with reply code and text, routing key, message id and body of a message that
            no queue was bound for; the message's `acked` comes after it.
        blocked: why the broker does not read from the connection now; empty when it does.
        error: what ended connection or channel; None while they are open.
    """

    def __init__(self, parameters: pika.ConnectionParameters, exchange: Exchange) -> None:
        self._parameters = parameters
        self._exchange = exchange
        self.acked: Callable[[int, bool], None] = _ignore
        self.nacked: Callable[[int, bool], None] = _ignore
        self.returned: Callable[[int, str, str, str | None, bytes], None] = _ignore
        self.blocked = ""
        self.error: BaseException | None = None
        self._loop = IOLoop()
        self._connection: Any = None
        self._channel: Any = None
        self._ready = False
        self._methods: dict[str, bytes] = {}
        self._pieces: list[bytes] = []
        self._size = 0
        self._mandatory = True
        self._body_max = 0

    def open(self, *, mandatory: bool) -> None:
        """Connect, open the channel, and see to the exchange.

        Raises:
            Exception: pika's, or OSError; the link is closed.
        """
        self._mandatory = mandatory
        self._loop.activate_poller()
        try:
            self._connection = pika.SelectConnection(
                self._parameters,
                on_open_callback=self._opened,
                on_open_error_callback=self._lost,
                on_close_callback=self._lost,
                custom_ioloop=self._loop,
            )
            # Once more for what comes after the connection: pika's own timeout ends with that.
            limit = time.monotonic() + 2 * float(self._parameters.stack_timeout or 10)
            while not self._ready and self.error is None:
                self.poll(_LONGEST_WAIT)
                if time.monotonic() > limit:
                    raise TimeoutError("the broker does not answer")
            if self.error is not None:
                raise self.error
        except BaseException:
            self.abandon()
            raise
        self._body_max = self._connection.params.frame_max - 8
        self._connection.add_on_connection_blocked_callback(self._block)
        self._connection.add_on_connection_unblocked_callback(self._unblock)

    def fits(self, message: Message) -> str:
        """Return why a message can't be framed, or an empty string."""
        if len(message.routing_key) > 63 and len(message.routing_key.encode()) > 255:
            return f"the routing key has more than 255 bytes: {message.routing_key[:40]!r}..."
        if len(message.properties) + 12 > self._body_max:
            return (
                f"properties and headers have {len(message.properties)} bytes, and the broker takes "
                f"{self._body_max - 12}"
            )
        return ""

    def put(self, message: Message) -> None:
        """Add a message to what `poll` will write; it must fit."""
        number = self._channel.channel_number
        method = self._methods.get(message.routing_key)
        if method is None:
            if len(self._methods) > 10_000:
                self._methods.clear()
            publish = spec.Basic.Publish(
                exchange=self._exchange.name,
                routing_key=message.routing_key,
                mandatory=self._mandatory,
            )
            method = self._methods[message.routing_key] = frame.Method(number, publish).marshal()
        _, _, _, payload, _, _, properties = message
        body = payload or b""
        size = len(body)
        head = _HEADER.pack(2, number, 12 + len(properties), _BASIC, 0, size)
        if size <= self._body_max:
            if size:
                parts = (method, head, properties, _END, _FRAME.pack(3, number, size), body, _END)
            else:
                parts = (method, head, properties, _END)  # type: ignore[assignment]
            self._pieces += parts
        else:
            self._pieces += (method, head, properties, _END)
            view = memoryview(body)
            for start in range(0, size, self._body_max):
                part = view[start : start + self._body_max]
                self._pieces += (_FRAME.pack(3, number, len(part)), bytes(part), _END)
        self._size += size + 200
        if self._size > _PIECE:
            self._write()

    def _write(self) -> None:
        pieces = self._pieces
        if pieces:
            self._pieces, self._size = [], 0
            if self.error is None:
                self._connection._output_marshaled_frames((b"".join(pieces),))

    def poll(self, seconds: float) -> None:
        """Write what was put, and take what comes, waiting for it so long at most."""
        self._write()
        loop = self._loop
        timer = loop.call_later(max(0.0, min(seconds, _LONGEST_WAIT)), _ignore)
        try:
            loop.poll()
            loop.process_timeouts()
        finally:
            loop.remove_timeout(timer)

    def close(self) -> None:
        """Take leave of the broker, if it is there to hear it."""
        if self.error is None and self._connection is not None and self._connection.is_open:
            limit = time.monotonic() + 2
            with suppress(exceptions.AMQPError):
                self._connection.close()
                while not self._connection.is_closed and time.monotonic() < limit:
                    self.poll(_LONGEST_WAIT)
        self.abandon()

    def abandon(self) -> None:
        """End the connection without a word."""
        if self.error is None:
            self.error = exceptions.ConnectionClosedByClient(200, "closed here")
        self._pieces = []
        connection, loop = self._connection, self._loop
        if connection is not None and not connection.is_closed:
            # The socket is closed in one of the loop's next rounds.
            connection._terminate_stream(exceptions.ConnectionClosedByClient(200, "closed here"))
            for _ in range(10):
                if connection.is_closed:
                    break
                self.poll(0)
        loop.close()

    # -- what pika calls --------------------------------------------------------------------

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._lost)
        exchange = self._exchange
        if not exchange.name:
            self._confirm()
        elif exchange.declare is None:
            channel.exchange_declare(exchange.name, passive=True, callback=self._confirm)
        else:
            channel.exchange_declare(exchange.name, callback=self._confirm, **exchange.declare)

    def _confirm(self, _: Any = None) -> None:
        self._channel.add_on_return_callback(self._return)
        self._channel.confirm_delivery(self._answer, callback=self._confirming)

    def _confirming(self, _: Any) -> None:
        self._ready = True

    def _answer(self, answer: Any) -> None:
        method = answer.method
        if method.INDEX == spec.Basic.Ack.INDEX:
            self.acked(method.delivery_tag, method.multiple)
        else:
            self.nacked(method.delivery_tag, method.multiple)

    def _return(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.returned(
            method.reply_code, method.reply_text, method.routing_key, properties.message_id, body
        )

    def _block(self, _: Any, method: Any) -> None:
        self.blocked = str(method.method.reason) or "it is short of something"

    def _unblock(self, _: Any, __: Any) -> None:
        self.blocked = ""

    def _lost(self, _: Any, error: BaseException) -> None:
        # A channel's end comes first when both end, and is the more telling one.
        if self.error is None:
            self.error = error


def _ignore(*_: Any) -> None:
    pass
