"""The receiver of the source `zeromq`: one socket, read many messages at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import zmq
from mainstem import failpoint
from mainstem_ingress import Message, Receiver, Unmendable, Unreachable, Values

from mainstem_direct_zeromq.frames import KEPT, LOST, Layout, misfit, refused
from mainstem_direct_zeromq.link import Link, LinkError
from mainstem_direct_zeromq.sequence import Counts, Gap
from mainstem_direct_zeromq.source import ZeroMQSourceOptions

_KINDS = {"pull": zmq.PULL, "sub": zmq.SUB}
#: How many messages are read between two looks at their size.
_AT_ONCE = 100
#: How many messages one call gives at most: between two calls peers are attended to.
_MOST = 2000


class ZeroMQReceiver(Receiver):
    """Takes messages from a socket; no more than may be lost before they are stored."""

    options: ZeroMQSourceOptions

    def __init__(self, options: ZeroMQSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._layout = Layout(options.layout())
        self._origin = options.addresses()[0]
        self._link: Link | None = None
        self._counts: Counts | None = None
        self._paused = False
        #: How many messages were given out and are not stored yet.
        self._unstored = 0
        self._lost = 0

    def connect(self, cursor: str | None) -> None:
        options = self.options
        self._paused, self._unstored = False, 0
        counted = options.counted()
        if counted is not None:
            self._counts = Counts(counted, self._layout.names, cursor)
        settings: dict[int, Any] = {
            zmq.RCVHWM: options.high_water_mark,
            zmq.MAXMSGSIZE: options.max_frame,
        }
        try:
            link = Link(options, _KINDS[options.socket], settings)
        except LinkError as error:
            raise (Unreachable if error.mendable else Unmendable)(str(error)) from error
        self._link = link
        if options.socket == "sub":
            for topic in options.topics:
                link.socket.subscribe(topic.encode())
        failpoint("zeromq.after-connect")

    def take(self, seconds: float) -> Iterable[Message]:
        link = self._link
        assert link is not None  # noqa: S101
        # A group is no larger than a segment, which is no larger than the high-water mark.
        room = min(_MOST, self.options.segment_rows - self._unstored)
        messages: list[Message] | Values = []
        if self._paused or room <= 0:
            link.wait(seconds, 0)
        elif link.wait(seconds):
            messages = self._read(link.socket, room)
        if link.locked_out:
            raise Unmendable(f"{link.trouble}: it refuses the key, or the user or the password")
        if messages:
            self._unstored += len(messages)
            failpoint("zeromq.after-take")
        return messages

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._unstored -= len(messages)

    def pause(self) -> None:
        # What is not read fills libzmq up to its mark, then the kernel's buffers, then the peer's.
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"server": self._origin}
        link = self._link
        if link is not None:
            found |= {"peers": link.peers, "not_let_in": link.refused, "trouble": link.trouble}
        return found | ({"lost": self._lost} if self._counts is not None else {})

    # -- messages -----------------------------------------------------------------------------

    def _read(self, socket: Any, room: int) -> list[Message] | Values:
        """Return the messages that are there, but not many more bytes than fit into a segment."""
        left = self.options.segment_bytes
        if self._layout.names == ("value",):
            return self._read_single(socket, room, left)
        found: list[Message] = []
        while room > 0 and left > 0:
            count = min(room, _AT_ONCE)
            messages, size = self._read_frames(socket, count)
            found += messages
            left -= size
            room -= len(messages)
            if len(messages) < count:
                break
        if found and self._counts is not None:
            found[-1] = found[-1]._replace(cursor=self._counts.encoded())
        return found

    def _read_single(self, socket: Any, room: int, left: int) -> list[Message] | Values:
        """Read messages that ought to have one frame."""
        values: list[Any] = []
        add, receive, flag = values.append, socket.recv, int(zmq.NOBLOCK)
        try:
            while room > 0 and left > 0:
                known = len(values)
                for _ in range(min(room, _AT_ONCE)):
                    frame = receive(flag, False)
                    if frame.more:
                        frames, of = self._rest(socket, frame)
                        other = refused(frames, self._origin, misfit(of, self._layout.names))
                        return [*Values(values, self._origin), other]
                    add(frame)
                room -= len(values) - known
                left -= sum(map(len, values[known:]))
        except zmq.Again:
            pass
        return Values(values, self._origin)

    def _read_frames(self, socket: Any, count: int) -> tuple[list[Message], int]:
        """Read messages of many frames, and what is missing between them; return them and their bytes."""
        size = 0
        messages: list[Message] = []
        receive, flag, wanted = socket.recv, int(zmq.NOBLOCK), self._layout.count
        try:
            for _ in range(count):
                frame = receive(flag, False)
                frames = [frame.bytes]
                while frame.more and len(frames) < wanted:
                    frame = receive(flag, False)
                    frames.append(frame.bytes)
                of = len(frames)
                if frame.more:
                    more, count_of_rest = self._rest(socket, frame)
                    frames += more[1:]
                    of += count_of_rest - 1
                size += sum(map(len, frames))
                self._add(messages, frames, of)
        except zmq.Again:
            pass
        return messages, size

    def _rest(self, socket: Any, frame: Any) -> tuple[list[bytes], int]:
        """Read a message that has more frames than it should; return some, from this on, and how many."""
        frames, kept, count = [frame.bytes], 0, 1
        while frame.more:
            frame = socket.recv(int(zmq.NOBLOCK), False)
            count += 1
            if kept < KEPT:
                frames.append(bytes(frame.buffer[:KEPT]))
                kept += len(frames[-1]) + 2
        return frames, count

    def _add(self, messages: list[Message], frames: list[bytes], count: int) -> None:
        """Add a message, and before it what is missing."""
        if count != self._layout.count:
            reason = misfit(count, self._layout.names)
            messages.append(refused(frames, self._origin, reason))
            return
        gap: Gap | None = None
        message: Message | None = None
        if self._counts is not None:
            try:
                gap = self._counts.see(frames, self._counts.number(frames))
            except ValueError as error:
                message = refused(frames, self._origin, str(error))
        if message is None:
            message = self._layout.message(frames, self._origin)
        if gap is not None:
            self._lost += gap.missing
            headers = [(LOST, gap.encoded().encode())]
            messages.append(Message(None, headers=headers, origin=message.origin))
        messages.append(message)
