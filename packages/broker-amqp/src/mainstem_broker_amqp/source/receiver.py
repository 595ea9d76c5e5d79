"""The receiver of the source `amqp`: one connection, one channel, one consumer of one queue."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import pika
import pika.data
from mainstem import PermanentError, TransientError
from mainstem_ingress import Message, Receiver
from pika import exceptions

from mainstem_broker_amqp.connection import parameters, places
from mainstem_broker_amqp.errors import permanent, words
from mainstem_broker_amqp.properties import to_headers
from mainstem_broker_amqp.source.options import AMQPSourceOptions, Binding

#: How long the broker may take to answer what sets a consumer up, in seconds.
_ANSWER = 60.0
#: How long it may take to answer a farewell.
_FAREWELL = 5.0
#: How long a stream may take to give its last messages, and how long nothing comes after those.
_LAST, _QUIET = 10.0, 1.0
_OFFSET = "x-stream-offset"
_NOT_FOUND = 404
_NO_ID = "it has no message id, and `ids: always` asks for one"

#: pika's method and properties of a message, and its body.
_Delivery = tuple[Any, Any, bytes]
#: What comes of a property or header that is not what AMQP says.
_NOT_HELD = (ArithmeticError, AttributeError, TypeError, ValueError)


class AMQPReceiver(Receiver):
    """Takes messages from a queue; acknowledges them many at once."""

    options: AMQPSourceOptions

    def __init__(self, options: AMQPSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # what matters is told by our states
        pika.data.decode_value = _decoded
        try:
            self._parameters = parameters(options, f"mainstem {node}-{number}")
        except OSError as error:  # a file of `tls`
            raise PermanentError(str(error)) from error
        self._places = places(options)
        self._turn = 0
        self._served = False
        self._begin(None)

    def _begin(self, cursor: str | None) -> None:
        self._connection: Any = None
        self._channel: Any = None
        self._loop: Any = None
        self._tag = ""
        self._wanted, self._paused_whole = True, False
        self._waiting: int | None = None
        self._lost: BaseException | None = None
        self._taken: list[_Delivery] = []
        #: The offset of the next message of a stream; None to begin where the options say.
        self._next = None if cursor is None else int(cursor) + 1
        #: The last message that is stored, which is asked for again: it shows that nothing is missing.
        self._again = None if cursor is None else int(cursor)

    # -- what the log asks for ----------------------------------------------------------------

    def connect(self, cursor: str | None) -> None:
        self._begin(cursor)
        at = self._turn % len(self._parameters)
        self._turn += 1
        try:
            self._open(self._parameters[at])
            self._set_up()
        except Exception as error:
            raise self._told(error, self._places[at]) from error
        self._turn = at
        self._served = True

    def take(self, seconds: float) -> Iterable[Message]:
        self._round(seconds)
        if self._lost is not None:
            raise self._told(self._lost, self._places[self._turn % len(self._places)])
        if not self._taken:
            return []
        taken, self._taken = self._taken, []
        if self.options.type == "stream":
            return self._streamed(taken)
        return self._messages(taken, self.options.ids)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._channel.basic_ack(messages[-1].token, multiple=True)

    def pause(self) -> None:
        self._wanted = False
        if self._tag:
            self._channel.basic_cancel(self._tag, callback=self._paused)
            # Else pika would send back what is still in flight: out of order, counted against the
            # delivery limit of a quorum queue, and forbidden on streams.
            self._channel._cancelled.discard(self._tag)
            self._tag = ""

    def resume(self) -> None:
        self._wanted = True
        if self._paused_whole:
            self._consume()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(Exception):  # it may be broken already
            if not connection.is_closed:
                if connection.is_open:
                    connection.close()
                until = time.monotonic() + _FAREWELL
                while not connection.is_closed and time.monotonic() < until:
                    self._round(0.1)
        self._loop.deactivate_poller()
        with suppress(Exception):
            self._loop.close()

    def waiting(self) -> int | None:
        return self._waiting

    def facts(self) -> dict[str, Any]:
        return {"server": self._places[self._turn % len(self._places)]}

    # -- messages -----------------------------------------------------------------------------

    def _messages(self, taken: list[_Delivery], ids: str) -> list[Message]:
        made = []
        for delivery in taken:
            try:
                made.append(self._message(*delivery, ids))
            except (
                _NOT_HELD
            ) as error:  # raised again and again, it would hold up the queue for ever
                reason = f"it can't be read: {type(error).__name__}: {error}"
                token = delivery[0].delivery_tag
                made.append(Message(delivery[2], token=token, refused=reason))
        return made

    def _message(self, method: Any, properties: Any, body: bytes, ids: str) -> Message:
        identifier = None if ids == "never" else properties.message_id or None
        at = properties.timestamp
        return Message(
            body,
            _bytes(method.routing_key),
            to_headers(properties, method.exchange, method.redelivered),
            None if at is None else at * 1_000_000,
            self.options.queue,
            None if identifier is None else _bytes(identifier),
            None,
            method.delivery_tag,
            _NO_ID if identifier is None and ids == "always" else None,
        )

    def _streamed(self, taken: list[_Delivery]) -> list[Message]:
        """Return messages of a stream with their offsets, none twice.

        The others are acknowledged at once: nobody else would, and each counts against the prefetch.
        """
        made = []
        messages = self._messages(taken, "never")
        for message, (method, properties, _) in zip(messages, taken, strict=True):
            offset = properties.headers[_OFFSET]
            if self._next is None or offset >= self._next:
                if self._again is not None and offset > self._again:
                    made.append(_removed(self._again, offset))
                self._again = None
                self._next = offset + 1
                made.append(message._replace(cursor=str(offset)))
                continue
            if offset == self._again:
                self._again = None
            self._channel.basic_ack(method.delivery_tag)
        return made

    # -- the connection -----------------------------------------------------------------------

    def _open(self, given: pika.ConnectionParameters) -> None:
        opened: list[Any] = []
        self._connection = pika.SelectConnection(
            given,
            on_open_callback=opened.append,
            on_open_error_callback=lambda _, error: self._lose(error),
            on_close_callback=lambda _, error: self._lose(error),
        )
        self._loop = self._connection.ioloop
        self._loop.activate_poller()
        self._until(lambda: bool(opened), _ANSWER)

    def _set_up(self) -> None:
        options = self.options
        self._ask(lambda done: self._connection.channel(on_open_callback=self._has_channel(done)))
        self._ask(lambda done: self._channel.basic_qos(0, options.prefetch, callback=done))
        declare = options.declare
        arguments = {"x-queue-type": options.type, **(declare.arguments if declare else {})}
        if declare is not None and declare.single_active_consumer:
            arguments["x-single-active-consumer"] = True
        answer = self._ask(
            lambda done: self._channel.queue_declare(
                options.queue,
                passive=declare is None,
                durable=declare is None or declare.durable,
                auto_delete=declare is not None and declare.auto_delete,
                arguments=arguments if declare is not None else None,
                callback=done,
            )
        )
        for binding in declare.bindings if declare else ():
            self._bind(binding)
        self._waiting = None if options.type == "stream" else answer.method.message_count
        if options.type != "stream" and self._is_stream():
            raise PermanentError(f"the queue {options.queue!r} is a stream: write `type: stream`")
        if options.type == "stream" and self._again is not None:
            self._see_end(self._again)
        self._channel.add_on_cancel_callback(self._cancelled)
        self._ask(self._consume)

    def _bind(self, binding: Binding) -> None:
        queue, exchange, key = self.options.queue, binding.exchange, binding.routing_key
        arguments = binding.arguments or None
        self._ask(lambda done: self._channel.queue_bind(queue, exchange, key, arguments, done))

    def _is_stream(self) -> bool:
        """Ask, on a channel of its own, for what the broker refuses of all queues but streams."""
        answers: list[bool] = []

        def ask(channel: Any) -> None:
            channel.add_on_close_callback(lambda *_: answers.append(False))
            channel.basic_qos(0, 1)
            accepted = lambda _: answers.append(True)  # noqa: E731
            channel.basic_consume(
                self.options.queue, _ignore, arguments={_OFFSET: "next"}, callback=accepted
            )
            opened.append(channel)

        opened: list[Any] = []
        self._connection.channel(on_open_callback=ask)
        self._until(lambda: bool(answers), _ANSWER)
        if opened[0].is_open:
            opened[0].close()
        return answers[0]

    def _see_end(self, stored: int) -> None:
        """See that the stream still goes to the last message that is stored.

        Of one that was made anew, or that lost its end with a disk, the broker would give nothing until
        it has grown beyond that message, and then only what comes after it.
        """
        queue = self.options.queue
        seen: list[tuple[int, float]] = []
        opened: list[Any] = []

        def look(channel: Any) -> None:
            opened.append(channel)
            channel.add_on_close_callback(closed)
            channel.basic_qos(0, self.options.prefetch)
            channel.basic_consume(queue, note, arguments={_OFFSET: "last"})

        def note(channel: Any, method: Any, properties: Any, _: bytes) -> None:
            seen.append((properties.headers[_OFFSET], time.monotonic()))
            channel.basic_ack(method.delivery_tag)

        def closed(_: Any, error: BaseException) -> None:
            if not isinstance(error, exceptions.ChannelClosedByClient):
                self._lose(error)

        def done() -> bool:
            return bool(seen) and (seen[-1][0] >= stored or time.monotonic() - seen[-1][1] > _QUIET)

        self._connection.channel(on_open_callback=look)
        self._until(done, _LAST)
        if seen[-1][0] < stored:
            raise PermanentError(
                f"the stream {queue!r} ends with message {seen[-1][0]}, and {stored} was read already: "
                "it was made anew, or its end was lost. To read what is there, give the source another "
                "name"
            )
        opened[0].close()

    def _consume(self, done: Callable[[Any], None] | None = None) -> None:
        self._paused_whole = False
        arguments: dict[str, Any] = {}
        if self.options.priority is not None:
            arguments["x-priority"] = self.options.priority
        if self.options.type == "stream":
            first = self._next if self._again is None else self._again
            arguments[_OFFSET] = self.options.offset if first is None else first
        self._tag = self._channel.basic_consume(
            self.options.queue, self._deliver, arguments=arguments, callback=done
        )

    def _deliver(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._taken.append((method, properties, body))

    def _paused(self, _: Any) -> None:
        """The broker has stopped to deliver."""
        self._paused_whole = True
        if self._wanted:
            self._consume()

    def _has_channel(self, done: Callable[[Any], None]) -> Callable[[Any], None]:
        def has(channel: Any) -> None:
            self._channel = channel
            channel.add_on_close_callback(lambda _, error: self._lose(error))
            done(channel)

        return has

    def _cancelled(self, _: Any) -> None:
        self._lose(
            TransientError(
                f"the broker ended the consumer: is the queue {self.options.queue!r} gone?"
            )
        )

    def _lose(self, error: BaseException) -> None:
        if self._lost is None:
            self._lost = error

    def _ask(self, ask: Callable[[Callable[[Any], None]], Any]) -> Any:
        """Ask the broker for something and return its answer."""
        answers: list[Any] = []
        ask(answers.append)
        self._until(lambda: bool(answers), _ANSWER)
        return answers[0]

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Let pika work until a condition holds.

        Raises:
            Exception: the connection broke, or the condition does not hold in time.
        """
        until = time.monotonic() + seconds
        while not condition():
            if self._lost is not None:
                raise self._lost
            if time.monotonic() > until:
                raise TransientError(f"no answer for {seconds:.0f} s")
            self._round(0.1)

    def _round(self, seconds: float) -> None:
        """Let pika do one round: what has come is read at once, else it waits so long at most."""
        timer = self._loop.call_later(seconds, _nothing)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(timer)

    def _told(self, error: BaseException, place: str) -> Exception:
        """Return what the log is told of an error."""
        if isinstance(error, PermanentError):
            return error
        if isinstance(error, TransientError):
            return TransientError(f"{place}: {error}")
        gone = isinstance(error, exceptions.ChannelClosed) and error.reply_code == _NOT_FOUND
        why = permanent(error)
        # A queue that was there and is not can come again; one that never was is a slip of the pen.
        if why is not None and not (gone and self._served):
            return PermanentError(f"{place}: {why}")
        return TransientError(f"{place}: {words(error)}")


def _removed(stored: int, offset: int) -> Message:
    """Return what stands for messages of a stream that may be missing."""
    return Message(
        None,
        refused=f"messages between {stored} and {offset} may be lost: the stream removed {stored}, the "
        "last one that was stored, before it was read on",
    )


def _ignore(*_: Any) -> None:
    """Take no notice of a message."""


def _nothing() -> None:
    """End a wait of pika's loop."""


_decode = pika.data.decode_value


def _decoded(encoded: bytes, offset: int) -> tuple[Any, int]:
    """Decode a header's value as pika does; a time beyond what Python can tell is its number.

    pika raises, which ends the connection, and the message comes again: milliseconds in place of seconds,
    a slip that is often made, would hold up the queue for ever.
    """
    try:
        return _decode(encoded, offset)
    except (ArithmeticError, OSError, ValueError):
        if encoded[offset : offset + 1] != b"T":
            raise
        return struct.unpack_from(">Q", encoded, offset + 1)[0], offset + 9


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()
