"""The receiver of the source `zeromq`: one socket, read many messages at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any

import zmq
from mainstem import PermanentError, failpoint
from mainstem_ingress import Gap, Message, Receiver, Values, lost

from mainstem_direct_zeromq.frames import KEPT, Layout, misfit, refused
from mainstem_direct_zeromq.link import Link
from mainstem_direct_zeromq.source.options import ZeroMQSourceOptions
from mainstem_direct_zeromq.source.sequence import Counts

_KINDS = {"pull": zmq.PULL, "sub": zmq.SUB}
#: How many frames are read between two looks at their size.
_AT_ONCE = 100
_MORE = attrgetter("more")
#: How many messages one call gives at most: between two calls peers are attended to.
_MOST = 2000


class ZeroMQReceiver(Receiver):
    """Takes messages from a socket; no more than may be lost before they are stored."""

    options: ZeroMQSourceOptions
    gives_again = False

    def __init__(self, options: ZeroMQSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._layout = Layout(options.layout())
        self._origin = options.addresses()[0]
        self._link: Link | None = None
        self._counts: Counts | None = None
        self._paused = False
        #: Frames that were read and had no room in the group that was given out.
        self._held: list[Any] = []
        #: How many messages were given out and are not stored yet.
        self._unstored = 0

    def connect(self, cursor: str | None) -> None:
        options = self.options
        self._paused, self._unstored, self._held = False, 0, []
        counted = options.counted()
        if counted is not None:
            lost = self._counts.lost if self._counts is not None else 0
            self._counts = Counts(counted, self._layout.names, cursor)
            self._counts.lost = lost
        settings: dict[int, Any] = {
            zmq.RCVHWM: options.high_water_mark,
            zmq.MAXMSGSIZE: options.max_frame,
        }
        link = self._link = Link(options, _KINDS[options.socket], settings)
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
        if self._paused or room <= 0 or link.locked_out:
            link.wait(seconds, 0)
        elif link.wait(0 if self._held else seconds) or self._held:
            messages = self._read(link.socket, room)
        if link.locked_out and not messages and not self._unstored:
            raise PermanentError(
                f"{link.locked_out}: it refuses the key, or the user or the password"
            )
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
        return found | ({"lost": self._counts.lost} if self._counts is not None else {})

    # -- messages -----------------------------------------------------------------------------

    def _read(self, socket: Any, room: int) -> list[Message] | Values:
        """Return the messages that are there, but not more bytes than fit into a segment and one more."""
        left = self.options.segment_bytes
        if self._layout.names == ("value",) and self._counts is None:
            return self._read_single(socket, room, left)
        found: list[Message] = []
        with suppress(zmq.Again):
            while len(found) < room and left > 0:
                left -= self._read_frames(socket, found)
        if found and self._counts is not None:
            found[-1] = found[-1]._replace(cursor=self._counts.encoded())
        return found

    def _read_single(self, socket: Any, room: int, left: int) -> list[Message] | Values:
        """Read messages that ought to have one frame."""
        frames, self._held = self._held, []
        flag, size, known = int(zmq.NOBLOCK), 0, 0
        with suppress(zmq.Again):
            while True:
                size, known = size + sum(map(len, frames[known:])), len(frames)
                if known >= room or size >= left:
                    break
                count = min(room - known, _AT_ONCE)
                # As fast as Python goes; what came before there are no more is kept.
                frames.extend(map(socket.recv, repeat(flag, count), repeat(False)))
        several = any(map(_MORE, frames))
        if size + sum(map(len, frames[known:])) > left:
            at = bisect_left(list(accumulate(map(len, frames))), left) + 1
            while at < len(frames) and frames[at - 1].more:
                at += 1
            frames, self._held = frames[:at], frames[at:]
        return self._regrouped(socket, frames) if several else Values(frames, self._origin)

    def _regrouped(self, socket: Any, frames: list[Any]) -> list[Message]:
        """Return frames as messages, of which some have several; what the last one lacks is read."""
        found: list[Message] = []
        message: list[Any] = []
        for at, frame in enumerate(frames):
            message.append(frame)
            if frame.more and at < len(frames) - 1:
                continue
            rest, count = self._rest(socket, frame)
            count += len(message) - 1
            if count == 1:
                found.append(Message(frame.bytes, origin=self._origin))
            else:
                parts = [*(part.buffer for part in message[:-1]), *rest]
                found.append(refused(parts, self._origin, misfit(count, self._layout.names)))
            message = []
        return found

    def _read_frames(self, socket: Any, messages: list[Message]) -> int:
        """Read a message of several frames, and what is missing before it; return its bytes."""
        receive, flag, wanted = socket.recv, int(zmq.NOBLOCK), self._layout.count
        frame = receive(flag, False)
        frames: list[Any] = [frame.bytes]
        while frame.more and len(frames) < wanted:
            frame = receive(flag, False)
            frames.append(frame.bytes)
        count = len(frames)
        if frame.more:
            more, count_of_rest = self._rest(socket, frame)
            frames += more[1:]
            count += count_of_rest - 1
        self._add(messages, frames, count)
        return sum(map(len, frames))

    def _rest(self, socket: Any, frame: Any) -> tuple[list[Any], int]:
        """Read what follows a frame in its message; return it and the first of those, and how many."""
        frames, kept, count = [frame.buffer], 0, 1
        while frame.more:
            frame = socket.recv(int(zmq.NOBLOCK), False)
            count += 1
            if kept < KEPT:
                frames.append(frame.buffer)
                kept += len(frame) + 2
        return frames, count

    def _add(self, messages: list[Message], frames: list[Any], count: int) -> None:
        """Add a message, and before it what is missing."""
        if count != self._layout.count:
            reason = misfit(count, self._layout.names)
            messages.append(refused(frames, self._origin, reason))
            return
        gap: Gap | None = None
        message: Message | None = None
        if self._counts is not None:
            try:
                gap = self._counts.gap(frames)
            except ValueError as error:
                message = refused(frames, self._origin, str(error))
        if message is None:
            message = self._layout.message(frames, self._origin)
        if gap is not None:
            first, last = str(gap.first), str(gap.last)
            messages.append(
                lost(gap.reason, origin=message.origin, count=gap.missing, first=first, last=last)
            )
        messages.append(message)
