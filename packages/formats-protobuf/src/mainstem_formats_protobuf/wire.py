"""How Protocol Buffers keep values: tags, numbers and lengths, read and written one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: The wire types.
VARINT, EIGHT, SIZED, GROUP, END, FOUR = range(6)
#: How deep groups may be in groups that nobody knows.
_DEEPEST = 100


class Misfit(ValueError):  # noqa: N818
    """Bytes that are no value, or one that its column can't hold; says why."""


class Cut(Misfit):
    """Bytes that end too soon."""

    def __init__(self) -> None:
        super().__init__("the value is cut")


def varint(held: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the next place."""
    value, shift = 0, 0
    while True:
        if at >= len(held):
            raise Cut
        byte = held[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Misfit("a number has more than 64 bits")
    if value >> 64:
        raise Misfit("a number has more than 64 bits")
    return value, at


def signed(value: int) -> int:
    """Return a number of 64 bits as one with a sign."""
    return value - 2**64 if value >> 63 else value


def unzigzag(value: int) -> int:
    """Return the number of which the lowest bit is the sign."""
    return (value >> 1) ^ -(value & 1)


def tag(held: bytes, at: int) -> tuple[int, int, int]:
    """Return a field's number, its wire type, and the next place."""
    value, at = varint(held, at)
    number, wire = value >> 3, value & 7
    if not 0 < number < 2**29:
        raise Misfit("a field has a number that none can have")
    return number, wire, at


def sized(held: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes behind their length, and the next place."""
    size, at = varint(held, at)
    end = at + size
    if end > len(held):
        raise Cut
    return held[at:end], end


def skip(held: bytes, at: int, number: int, wire: int, depth: int = 0) -> int:
    """Return the place behind a field that nobody knows."""
    if wire == VARINT:
        return varint(held, at)[1]
    if wire == SIZED:
        return sized(held, at)[1]
    if wire in (EIGHT, FOUR):
        end = at + (8 if wire == EIGHT else 4)
        if end > len(held):
            raise Cut
        return end
    if wire != GROUP:
        raise Misfit("a group ends that has not begun" if wire == END else "no such wire type")
    if depth >= _DEEPEST:
        raise Misfit("groups are nested too deep")
    while True:
        inner, its, at = tag(held, at)
        if its == END:
            if inner != number:
                raise Misfit("a group ends that has not begun")
            return at
        at = skip(held, at, inner, its, depth + 1)


def fields(held: Any) -> Iterator[tuple[int, int, Any]]:
    """Yield the fields of a message: number, wire type, and what is kept.

    That is a number for a varint, else bytes, of a group with its end.

    Args:
        held: bytes, or a memoryview, which is not copied.
    """
    at = 0
    while at < len(held):
        number, wire, at = tag(held, at)
        if wire == VARINT:
            value, at = varint(held, at)
            yield number, wire, value
        elif wire == SIZED:
            part, at = sized(held, at)
            yield number, wire, part
        else:
            begin, at = at, skip(held, at, number, wire)
            yield number, wire, held[begin:at]


def as_varint(value: int) -> bytes:
    """Return a number without sign as it is kept."""
    if value < 0x80:
        return bytes((value,))
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
