"""The receiver of the source `udp`: one socket, and what the kernel says of what it dropped."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mainstem import PermanentError, TransientError, failpoint
from mainstem_ingress import Message, Receiver, Sequences, lost

from mainstem_direct_udp.options import UDPSourceOptions

#: Linux's numbers, of which Python's module lacks some.
_RCVBUFFORCE, _TIMESTAMPNS, _RXQ_OVFL = 33, 35, 40
_ADD_SOURCE_MEMBERSHIP = 39
_MULTICAST_ALL, _MULTICAST_ALL_6 = (socket.IPPROTO_IP, 49), (socket.IPPROTO_IPV6, 29)
_ANCILLARY = socket.CMSG_SPACE(16) + socket.CMSG_SPACE(4)
_TIME, _COUNT = struct.Struct("qq"), struct.Struct("I")
#: How many datagrams one call gives at most, and how much is kept of one that is refused, in bytes.
_MOST, _KEPT = 2_000, 64 * 1024
#: How many senders' names are remembered.
_SENDERS = 1_000
#: Makes a message of its fields, as `Message._make` does, at a third of its cost; what is empty in it.
_made: Any = partial(tuple.__new__, Message)
_REST = (None, None, None, None, ())
_FULL = "the kernel dropped them, for its buffer was full: raise `receive_buffer`"


class UDPReceiver(Receiver):
    """Takes datagrams from a socket."""

    options: UDPSourceOptions

    def __init__(self, options: UDPSourceOptions, number: int, node: str) -> None:
        super().__init__(options, number, node)
        self._socket: socket.socket | None = None
        self._sequences: Sequences | None = None
        self._names: dict[Any, bytes] = {}
        self._lost = 0

    def connect(self, cursor: str | None) -> None:
        # `_dropped` is the kernel's count of what it dropped of this socket.
        self._paused, self._dropped = False, 0
        if self.options.sequence is not None:
            self._sequences = Sequences(self.options.sequence.remember, cursor)
        host, port = self.options.place()
        family = socket.AF_INET if host.version == 4 else socket.AF_INET6
        made = self._socket = socket.socket(family, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            self._set(made)
            made.bind((str(host), port))
            for group in self.options.groups:
                self._join(made, group)
        except OSError as error:
            # Whoever has the port may be about to end.
            kind = PermanentError if isinstance(error, PermissionError) else TransientError
            raise kind(f"can't listen at {self.options.listen}: {error.strerror}") from None
        failpoint("udp.after-connect")

    def _set(self, made: socket.socket) -> None:
        made.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        made.setsockopt(socket.SOL_SOCKET, _RXQ_OVFL, 1)
        if self.options.groups:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Else groups that other programs have joined come too.
            old = made.family == socket.AF_INET
            with suppress(OSError):
                made.setsockopt(*(_MULTICAST_ALL if old else _MULTICAST_ALL_6), 0)
        elif self.options.receivers > 1:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        wanted = self.options.receive_buffer
        if wanted is None:
            return
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
        if _buffer(made) < wanted:
            with suppress(PermissionError):
                made.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, wanted)
        if _buffer(made) < wanted:
            raise PermanentError(
                f"`receive_buffer` is {wanted:,} bytes, and the kernel gives {_buffer(made):,}: "
                f"sysctl -w net.core.rmem_max={wanted}"
            )

    def _join(self, made: socket.socket, group: str) -> None:
        where = self.options.interface
        if made.family == socket.AF_INET6:
            index = _index(where) if where else 0
            asked = socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, asked)
            return
        named = where is not None and not where[0].isdigit()
        address = socket.inet_aton(where) if where is not None and not named else bytes(4)
        if not self.options.sources:
            number = struct.pack("@i", _index(str(where))) if named else b""
            asked = socket.inet_aton(group) + address + number
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, asked)
        for sender in self.options.sources:
            asked = socket.inet_aton(group) + address + socket.inet_aton(sender)
            made.setsockopt(socket.IPPROTO_IP, _ADD_SOURCE_MEMBERSHIP, asked)

    def take(self, seconds: float) -> Iterable[Message]:
        made = self._socket
        assert made is not None  # noqa: S101
        if self._paused:
            select.select([], [], [], seconds)
            return []
        ready, _, _ = select.select([made], [], [], seconds)
        found = self._read(made) if ready else self._dropped_since(_drops(made))
        if found and self._sequences is not None:
            found[-1] = found[-1]._replace(cursor=self._sequences.encoded())
        failpoint("udp.after-take")
        return found

    def _read(self, made: socket.socket) -> list[Message]:
        found: list[Message] = []
        add, receive, seen, times = found.append, made.recvmsg_into, self._names, _TIME.unpack
        origin, plain = self.options.listen, self._sequences is None
        buffer = bytearray(self.options.max_datagram)
        into, view = [buffer], memoryview(buffer)
        with suppress(BlockingIOError):
            while len(found) < _MOST:
                size, ancillary, flags, sender = receive(into, _ANCILLARY)
                at = None
                for _, kind, held in ancillary:
                    if kind == _TIMESTAMPNS:
                        seconds, nanos = times(held)
                        at = seconds * 1_000_000 + nanos // 1000
                    elif kind == _RXQ_OVFL:
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
        host = f"[{sender[0]}]" if len(sender) > 2 else sender[0]
        name = self._names[sender] = f"{host}:{sender[1]}".encode()
        return name

    def _add(
        self, found: list[Message], data: bytes, sender: bytes, at: int | None, flags: int
    ) -> None:
        """Add a datagram, and before it what is missing by its number."""
        origin, refused, wanted = self.options.listen, None, self.options.sequence
        if flags & socket.MSG_TRUNC:
            refused = f"it has more than {self.options.max_datagram:,} bytes (max_datagram)"
        elif self._sequences is not None and wanted is not None:
            try:
                number = wanted.number(data)
                gap = self._sequences.see(sender if wanted.per == "sender" else b"", number)
            except ValueError as error:
                refused = str(error)
            else:
                if gap is not None:
                    self._lost += gap.missing
                    first, last = str(gap.first), str(gap.last)
                    found.append(
                        lost(gap.reason, origin=origin, count=gap.missing, first=first, last=last)
                    )
        kept = data[:_KEPT] if refused else data
        found.append(Message(kept, sender, None, at, origin, refused=refused))

    def _dropped_since(self, count: int) -> list[Message]:
        """Return what stands for what the kernel has dropped since its count was seen last."""
        new = (count - self._dropped) % 2**32
        if not 0 < new < 2**31:  # an older count, which was overtaken
            return []
        self._dropped = count
        if self._sequences is not None:
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
        self._socket = None

    def waiting(self) -> int | None:
        return 0  # nothing waits anywhere

    def facts(self) -> dict[str, Any]:
        made = self._socket
        held = {} if made is None else {"receive_buffer": _buffer(made), "dropped": self._dropped}
        return {"server": self.options.listen, "lost": self._lost, **held}


def _buffer(made: socket.socket) -> int:
    """Return the size of a socket's buffer; Linux reports twice what was asked for."""
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def _index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise PermanentError(f"there is no interface {name!r}") from None


def _drops(made: socket.socket) -> int:
    """Return the kernel's count of what it dropped, of a socket that gets nothing to tell it by."""
    table = "/proc/net/udp" if made.family == socket.AF_INET else "/proc/net/udp6"
    inode = Path(f"/proc/self/fd/{made.fileno()}").readlink().name.strip("socket:[]")
    lines = (line.split() for line in Path(table).read_text().splitlines()[1:])
    return next((int(fields[12]) for fields in lines if fields[9] == inode), 0)
