"""What a task of the sink does: turns rows into frames and hands them to ZeroMQ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import zmq
from mainstem import PermanentError, failpoint
from mainstem.sinks import Refused, values_of

from mainstem_direct_zeromq.frames import Fields, Layout
from mainstem_direct_zeromq.link import Link

if TYPE_CHECKING:
    from mainstem_direct_zeromq.sink.options import ZeroMQSinkOptions

#: How many messages go out between two looks at who waits at the door.
_ATTEND = 1000
#: How long to wait before a full PUB socket is retried: it can't be polled. In seconds.
_AGAIN = 0.005
_STEP = 0.1
_MOST_READ = 64 * 1024


class Sender:
    """A PUSH or PUB socket that is made with the first message.

    Raises:
        ExternalError: by `send`: an address can't be bound or connected to.
    """

    def __init__(self, options: ZeroMQSinkOptions) -> None:
        self._options = options
        self._give_up = options.give_up.total_seconds()
        self._publishes = options.socket == "pub"
        self._link: Link | None = None
        self._sent = 0

    def send(self, frames: Sequence[bytes]) -> None:
        """Hand over a message; waits for room.

        Raises:
            PermanentError: there was none for `give_up`, or the peer does not let us in.
        """
        link = self._link or self._open()
        self._sent += 1
        if self._sent % _ATTEND == 0:
            self._attend(link)
        if not _handed_over(link.socket, frames):
            self._wait(link, frames)

    def _open(self) -> Link:
        options = self._options
        mark: dict[int, Any] = {
            zmq.SNDHWM: options.high_water_mark,
            # A larger frame ends its connection: readers send subscriptions at most.
            zmq.MAXMSGSIZE: _MOST_READ,
        }
        if not self._publishes:
            # Without IMMEDIATE messages would also wait for peers that are away, or refuse us.
            self._link = Link(options, zmq.PUSH, mark | {zmq.IMMEDIATE: 1})
            return self._link
        # An XPUB socket is a PUB socket that is told who subscribes.
        told: dict[int, Any] = {zmq.XPUB_VERBOSE: 1, zmq.XPUB_NODROP: options.when_full == "wait"}
        link = self._link = Link(options, zmq.XPUB, mark | told)
        until = time.monotonic() + self._give_up
        wanted = options.subscriptions
        while wanted > 0:
            if link.wait(_STEP):
                wanted -= _subscribed(link.socket)
            self._locked_out(link)
            if wanted > 0 and time.monotonic() > until:
                who = "no subscriber is" if wanted == options.subscriptions else "too few are"
                raise self._gave_up(link, f"{who} there")
        return link

    def _wait(self, link: Link, frames: Sequence[bytes]) -> None:
        until = time.monotonic() + self._give_up
        while True:
            if self._publishes:
                self._attend(link)
                time.sleep(_AGAIN)
            else:
                link.wait(_STEP, zmq.POLLOUT)
            self._locked_out(link)
            if _handed_over(link.socket, frames):
                return
            if time.monotonic() > until:
                raise self._gave_up(link, "no peer took a message")

    def _attend(self, link: Link) -> None:
        link.attend()
        if self._publishes:
            _subscribed(link.socket)

    def _locked_out(self, link: Link) -> None:
        if link.locked_out:
            raise PermanentError(
                f"{link.locked_out}: it refuses the key, or the user or the password"
            )

    def _gave_up(self, link: Link, what: str) -> PermanentError:
        where = ", ".join(self._options.addresses())
        trouble = f" (last: {link.trouble})" if link.trouble else ""
        return PermanentError(f"{where}: {what} for {self._give_up:g} s{trouble}")

    def flush(self) -> None:
        """Wait until all messages have gone out to the network.

        Raises:
            PermanentError: they had not within `give_up`, or a peer does not let us in.
        """
        link = self._link
        if link is not None:
            link.attend()
            self._locked_out(link)
            self._link = None
            if not link.close(self._give_up) and self._options.when_full == "wait":
                raise self._gave_up(link, "not all messages could be handed to peers")

    def close(self) -> None:
        """End the connections; what has not gone out is dropped."""
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _handed_over(socket: Any, frames: Sequence[bytes]) -> bool:
    """Hand over a message, or nothing of it if there is no room."""
    last = len(frames) - 1
    for at, frame in enumerate(frames):
        try:
            socket.send(frame, zmq.NOBLOCK | (zmq.SNDMORE if at < last else 0))
        except zmq.Again:
            if 0 < at < last:
                # The peer went away in the middle: libzmq drops what comes up to a message's end.
                socket.send(b"", zmq.NOBLOCK)
            return False
    return True


def _subscribed(socket: Any) -> int:
    """Read what subscribers have told; return how many subscriptions came, less those that ended."""
    count = 0
    with suppress(zmq.Again):
        while True:
            told = socket.recv(zmq.NOBLOCK)
            count += {1: 1, 0: -1}.get(told[0] if told else 2, 0)
    return count


def publish(batches: Iterable[pa.RecordBatch], options: ZeroMQSinkOptions) -> Iterator[Any]:
    """Send the rows of a task and yield those that make no message; runs in an executor."""
    refused = Refused()
    sender = Sender(options)
    try:
        for batch in batches:
            failpoint("zeromq.before-send")
            for frames in messages(batch, options, refused):
                sender.send(frames)
            yield from refused.take()
        failpoint("zeromq.after-send")
        sender.flush()
        failpoint("zeromq.after-flush")
    finally:
        sender.close()


def messages(
    batch: pa.RecordBatch, options: ZeroMQSinkOptions, refused: Refused
) -> Iterator[list[bytes]]:
    """Yield the frames of each row; a row that makes none is noted as refused."""
    layout = Layout(options.layout())
    column = partial(values_of, batch)
    topics = column(options.topic_from) if options.topic is None else repeat(options.topic)
    headers = column("headers") if "headers" in layout.needs else repeat(None)
    keys = column("key") if "key" in layout.needs else repeat(None)
    rows = zip(column("value"), keys, topics, headers, column("_id"), strict=False)
    for value, key, topic, header, identity in rows:
        named = None if header is None else dict(header)
        try:
            yield layout.frames(Fields(value, key, topic, named, identity))
        except ValueError as error:
            refused.add(identity, value, str(error))
