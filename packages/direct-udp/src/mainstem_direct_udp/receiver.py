"""The receiver of the source `udp`: one socket, and what the kernel says of what it dropped."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from mainstem import failpoint
from mainstem_ingress import Message, Receiver, Sequences, lost
from mainstem_ingress.datagrams import RXQ_OVFL, TIMESTAMPNS, buffer_of, datagram_socket, drops_of
from mainstem_ingress.sequences import Gap

from mainstem_direct_udp.copies import Copies
from mainstem_direct_udp.options import PortOptions, UDPSourceOptions

_ANCILLARY = socket.CMSG_SPACE(16) + socket.CMSG_SPACE(4)
_TIME, _COUNT = struct.Struct("qq"), struct.Struct("I")
#: How many datagrams one call gives at most, and how much is kept of one that is refused, in bytes.
_MOST, _KEPT = 2_000, 64 * 1024
#: How soon it is looked again for what is missing, in seconds.
_SOON = 0.02
#: How many senders' names are remembered.
_SENDERS = 1_000
#: Makes a message of its fields, as `Message._make` does, at a third of its cost; what is empty in it.
_made: Any = partial(tuple.__new__, Message)
_REST = (None, None, None, None, ())
_FULL = "the kernel dropped them, for its buffer was full: raise `receive_buffer`"


class UDPReceiver(Receiver):
    """Takes datagrams from a socket."""

    options: PortOptions
    gives_again = False

    def __init__(self, options: PortOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._socket: socket.socket | None = None
        self._numbered = options.sequence if isinstance(options, UDPSourceOptions) else None
        self._sequences: Sequences | None = None
        self._copies: Copies | None = None
        self._names: dict[Any, bytes] = {}
        self._lost = 0

    def connect(self, cursor: str | None) -> None:
        # `_dropped` is the kernel's count of what it dropped of this socket.
        self._paused, self._dropped = False, 0
        if self._numbered is not None:
            remember, within = self._numbered.remember, self._numbered.copies_within
            if within is None:
                self._sequences = Sequences(remember, cursor)
            else:
                self._copies = Copies(within.total_seconds(), remember, cursor)
        self._socket = datagram_socket(self.options, shared=self.options.receivers > 1)
        failpoint("udp.after-connect")

    def take(self, seconds: float) -> Iterable[Message]:
        return self._taken(seconds)

    def _taken(self, seconds: float) -> list[Message]:
        """Return the datagrams that have come, and what stands for those that were dropped."""
        made = self._socket
        assert made is not None  # noqa: S101
        if self._paused:
            select.select([], [], [], seconds)
            return []
        if self._copies is not None and self._copies.waiting:
            seconds = min(seconds, _SOON)
        ready, _, _ = select.select([made], [], [], seconds)
        found = self._read(made) if ready else self._dropped_since(drops_of(made))
        if self._copies is not None:
            for gap in self._copies.due(time.monotonic()):
                self._report(gap, found)
        counts = self._copies or self._sequences
        if found and counts is not None:
            found[-1] = found[-1]._replace(cursor=counts.encoded())
        failpoint("udp.after-take")
        return found

    def _read(self, made: socket.socket) -> list[Message]:
        found: list[Message] = []
        add, receive, seen, times = found.append, made.recvmsg_into, self._names, _TIME.unpack
        origin, plain = self.options.listen, self._numbered is None
        buffer = bytearray(self.options.max_datagram)
        into, view = [buffer], memoryview(buffer)
        with suppress(BlockingIOError):
            while len(found) < _MOST:
                size, ancillary, flags, sender = receive(into, _ANCILLARY)
                at = None
                for _, kind, held in ancillary:
                    if kind == TIMESTAMPNS:
                        seconds, nanos = times(held)
                        at = seconds * 1_000_000 + nanos // 1000
                    elif kind == RXQ_OVFL:
                        found += self._dropped_since(_COUNT.unpack(held)[0])
                name = seen.get(sender) or self._name(sender)
                if plain and not flags:
                    add(_made((bytes(view[:size]), name, None, at, origin, *_REST)))
                else:
                    self._add(found, bytes(view[:size]), name, at, flags)
        return found

    def _name(self, sender: Any) -> bytes:
        """Return what a sender is known by; the last ones are remembered."""
        if len(self._names) >= _SENDERS:
            self._names.clear()
        if not isinstance(sender, tuple):  # of a socket of this machine: its path, if it has one
            return os.fsencode(sender or "") if isinstance(sender, str) else b""
        host = f"[{sender[0]}]" if len(sender) > 2 else sender[0]
        name = self._names[sender] = f"{host}:{sender[1]}".encode()
        return name

    def _add(
        self, found: list[Message], data: bytes, sender: bytes, at: int | None, flags: int
    ) -> None:
        """Add a datagram, and before it what is missing by its number."""
        origin, refused, wanted = self.options.listen, None, self._numbered
        if flags & socket.MSG_TRUNC:
            refused = f"it has more than {self.options.max_datagram:,} bytes (max_datagram)"
        elif wanted is not None:
            name = sender if wanted.per == "sender" else b""
            try:
                number = wanted.number(data)
                if self._copies is not None and not self._copies.first(
                    name, number, time.monotonic()
                ):
                    return
                gap = self._sequences.see(name, number) if self._sequences is not None else None
            except ValueError as error:
                refused = str(error)
            else:
                if gap is not None:
                    self._report(gap, found)
        kept = data[:_KEPT] if refused else data
        found.append(Message(kept, sender, None, at, origin, refused=refused))

    def _report(self, gap: Gap, found: list[Message]) -> None:
        """Tell of what is missing."""
        self._lost += gap.missing
        first, last = str(gap.first), str(gap.last)
        told = lost(
            gap.reason, origin=self.options.listen, count=gap.missing, first=first, last=last
        )
        found.append(told)

    def _dropped_since(self, count: int) -> list[Message]:
        """Return what stands for what the kernel has dropped since its count was seen last."""
        new = (count - self._dropped) % 2**32
        if not 0 < new < 2**31:  # an older count, which was overtaken
            return []
        self._dropped = count
        if self._numbered is not None:
            return []  # the gap tells which ones
        self._lost += new
        return [lost(_FULL, origin=self.options.listen, count=new)]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass  # nobody waits for it

    def pause(self) -> None:
        # What is not read fills the kernel's buffer, and what comes then is dropped and counted.
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            if self.options.path is not None:
                self.options.path.unlink(missing_ok=True)
        self._socket = None

    def waiting(self) -> int | None:
        return 0  # nothing waits anywhere

    def facts(self) -> dict[str, Any]:
        made = self._socket
        held = {} if made is None else {"receive_buffer": buffer_of(made), "dropped": self._dropped}
        return {"server": self.options.listen, "lost": self._lost, **held}
