"""Packets of MoldUDP64, as version 1.00 of its specification has them; numbers are big-endian.

A packet that comes down has the session (10 characters), the number of its first message (8 bytes), how
many there are (2), then for each its length (2) and its bytes. Of a heartbeat the count is 0, of the end
of a session 0xFFFF; both have the number of the next message. A request is such a head.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEAD = struct.Struct(">10sQH")
_LENGTH = struct.Struct(">H")
END = 0xFFFF
#: The largest number that a message can have here: more than any session has.
_LAST = 2**63 - 1 - END


class PacketError(ValueError):
    """Bytes are no packet; says why."""


class Packet(NamedTuple):
    """What a packet says.

    Attributes:
        first: the number of its first message; without messages, of the next one.
        messages: in order.
        ends: whether the session has ended before `first`.
    """

    session: bytes
    first: int
    messages: list[bytes]
    ends: bool = False


def read(data: bytes) -> Packet:
    """Return what a packet says.

    Raises:
        PacketError: it is none, or is cut off.
    """
    if len(data) < _HEAD.size:
        raise PacketError(f"it has {len(data)} bytes, and a head has {_HEAD.size}")
    session, first, count = _HEAD.unpack_from(data)
    if not 0 < first <= _LAST:
        raise PacketError(f"the number {first} can be no message's")
    if count == END:
        if len(data) > _HEAD.size:
            raise PacketError("it is the end of a session, and has more")
        return Packet(session, first, [], ends=True)
    found, at, size = [], _HEAD.size, len(data)
    length_of = _LENGTH.unpack_from
    for _ in range(count):
        if at + 2 > size:
            raise PacketError("it is cut off")
        begin = at + 2
        at = begin + length_of(data, at)[0]
        if at > size:
            raise PacketError("it is cut off")
        found.append(data[begin:at])
    if at != size:
        raise PacketError(f"{size - at} bytes are left after its {count} messages")
    return Packet(session, first, found)


def written(packet: Packet) -> bytes:
    """Return a packet as bytes."""
    count = END if packet.ends else len(packet.messages)
    blocks = b"".join(_LENGTH.pack(len(each)) + each for each in packet.messages)
    return _HEAD.pack(packet.session, packet.first, count) + blocks


def request(session: bytes, first: int, count: int) -> bytes:
    """Return what asks for messages again."""
    return _HEAD.pack(session, first, count)


def read_request(data: bytes) -> tuple[bytes, int, int]:
    """Return session, first number and count of a request."""
    found: tuple[bytes, int, int] = _HEAD.unpack(data)
    return found
