"""Messages, read each by itself: exactly, or with a reason.

A field that is there twice is what its last value says, messages are merged, the last member of a oneof
is the one, as the encoding's specification has it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from mainstem_formats_protobuf.json_values import json_text
from mainstem_formats_protobuf.schemas import Node
from mainstem_formats_protobuf.wire import (
    EIGHT,
    FOUR,
    SIZED,
    VARINT,
    Cut,
    Misfit,
    signed,
    sized,
    skip,
    tag,
    unzigzag,
    varint,
)

#: The seconds, since 1970, that columns can hold.
FIRST, LAST = -62_135_596_800, 253_402_300_799

_Read = Callable[[bytes, int], tuple[Any, int]]
#: What was read of a message, by the fields' numbers; of messages in it the same, of lists their items.
_Found = dict[int, Any]
#: Reads one piece of a field into what there is of its message; is given its wire type too.
_Step = Callable[[bytes, int, int, _Found], int]


class Options:
    """How values are read.

    Args:
        cut: whether times finer than microseconds are cut, instead of refused.
    """

    def __init__(self, *, cut: bool = False) -> None:
        self.cut = cut


def message(nodes: Sequence[Node], options: Options) -> Callable[[bytes], tuple[list[Any], bytes]]:
    """Return what reads a message: its fields' values in order, and what of it nobody knows."""
    made = _Message(nodes, options)

    def read(held: bytes) -> tuple[list[Any], bytes]:
        found: _Found = {}
        unknown = made.read(held, found)
        return made.values(found), unknown

    return read


class _Message:
    """Reads a message in two steps, for it may come in parts: what is there, then the values."""

    def __init__(self, nodes: Sequence[Node], options: Options) -> None:
        self._steps = {node.number: _step(node, options) for node in nodes}
        self._ends = [_ending(node, options) for node in nodes]
        self._oneofs = {node.number: node.oneof for node in nodes if node.oneof is not None}

    def read(self, held: bytes, found: _Found) -> bytes:
        """Read a message, or a part of one, into what there is of it; return what of it nobody knows."""
        unknown = bytearray()
        at = 0
        while at < len(held):
            begin = at
            number, wire, at = tag(held, at)
            step = self._steps.get(number)
            if step is None:
                at = skip(held, at, number, wire)
                unknown += held[begin:at]
                continue
            if number in self._oneofs:
                # Kept by a number that no field has.
                group = -1 - self._oneofs[number]
                if (other := found.get(group, number)) != number:
                    found.pop(other, None)
                found[group] = number
            at = step(held, at, wire, found)
        return bytes(unknown)

    def values(self, found: _Found) -> list[Any]:
        """Return the fields' values."""
        return [end(found) for end in self._ends]


# -- fields -------------------------------------------------------------------------------------


def _step(node: Node, options: Options) -> _Step:
    number, many = node.number, node.repeated or node.word == "map"
    if node.fields or node.word == "empty":
        inner = _Message(node.fields, options)

        def part(held: bytes, at: int, wire: int, found: _Found) -> int:
            _expect(node, wire, SIZED)
            value, at = sized(held, at)
            if many:
                its: _Found = {}
                found.setdefault(number, []).append(its)
            else:
                its = found.setdefault(number, {})
            inner.read(value, its)
            return at

        return part
    if node.word == "json":
        return _json(node)
    kept, read = scalar(node)
    if many:
        return _items(node, kept, read)

    def single(held: bytes, at: int, wire: int, found: _Found) -> int:
        _expect(node, wire, kept)
        found[number], at = read(held, at)
        return at

    return single


def _json(node: Node) -> _Step:
    number, text = node.number, json_text(node.kind)

    def part(held: bytes, at: int, wire: int, found: _Found) -> int:
        _expect(node, wire, SIZED)
        value, at = sized(held, at)
        if node.repeated:
            found.setdefault(number, []).append(text(value))
        elif number in found:
            raise Misfit(f"{node.name} comes in parts, which a {node.kind} is not read in")
        else:
            found[number] = text(value)
        return at

    return part


def _items(node: Node, kept: int, read: _Read) -> _Step:
    number = node.number

    def item(held: bytes, at: int, wire: int, found: _Found) -> int:
        items = found.setdefault(number, [])
        if wire == SIZED and kept != SIZED:
            packed, at = sized(held, at)
            inside = 0
            while inside < len(packed):
                value, inside = read(packed, inside)
                items.append(value)
            return at
        _expect(node, wire, kept)
        value, at = read(held, at)
        items.append(value)
        return at

    return item


def _ending(node: Node, options: Options) -> Callable[[_Found], Any]:
    """Return what makes the field's value of what was read."""
    number, default = node.number, node.default
    whole = _whole(node, options) if node.fields or node.word == "empty" else None
    if node.word == "map":
        entry = _Message(node.fields, options)
        _, value = node.fields
        empty = _whole(value, options) if value.fields or value.word == "empty" else None

        def mapped(found: _Found) -> Any:
            made = {}
            for held in found.get(number, ()):
                one, other = entry.values(held)
                if other is None:
                    if empty is None:
                        raise Misfit(f"{node.name}: an entry has no value")
                    other = empty({})
                made[one] = other
            return list(made.items())

        return mapped
    if node.repeated:

        def repeated(found: _Found) -> Any:
            items = found.get(number, [])
            return [whole(each) for each in items] if whole else items

        return repeated

    def single(found: _Found) -> Any:
        if number not in found:
            if node.required:
                raise Misfit(f"{node.name} is not there")
            return default
        return whole(found[number]) if whole else found[number]

    return single


def _expect(node: Node, wire: int, wanted: int) -> None:
    if wire != wanted:
        raise Misfit(f"{node.name} (field {node.number}) was written as another type")


def _whole(node: Node, options: Options) -> Callable[[_Found], Any]:
    """Return what makes a message's value of what was read of it."""
    word, inner = node.word, _Message(node.fields, options)
    if word == "empty":
        return lambda _: True
    if word == "wrapper":
        return lambda found: inner.values(found)[0]
    if word == "timestamp":

        def time(found: _Found) -> int:
            seconds, nanos = inner.values(found)
            if not FIRST <= seconds <= LAST:
                raise Misfit(f"{node.name}: a time is beyond the years 1 to 9999")
            if not 0 <= nanos < 1_000_000_000:
                raise Misfit(f"{node.name}: a time has other nanoseconds than 0 to 999,999,999")
            if nanos % 1000 and not options.cut:
                told = "a time is finer than microseconds (`finer: cut` cuts it)"
                raise Misfit(f"{node.name}: {told}")
            return int(seconds * 1_000_000 + nanos // 1000)

        return time
    names = [each.name for each in node.fields]
    return lambda found: dict(zip(names, inner.values(found), strict=True))


# -- scalars ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def symbols_by_number(symbols: tuple[tuple[int, str], ...]) -> dict[int, str]:
    """Return an enum's names; of several names of a number the first is the one."""
    return dict(reversed(symbols))


def scalar(node: Node) -> tuple[int, _Read]:
    """Return the wire type of a scalar, and what reads it."""
    word = node.word
    if word in FIXED:
        return (FOUR if FIXED[word].size == 4 else EIGHT), _fixed(FIXED[word], word)
    if word == "bytes":
        return SIZED, sized
    if word == "string":
        return SIZED, _string
    names = symbols_by_number(node.symbols)

    def number(held: bytes, at: int) -> tuple[Any, int]:
        value, at = varint(held, at)
        if word == "bool":
            if value > 1:
                raise Misfit("a boolean is neither 0 nor 1")
            return value == 1, at
        if word == "uint64":
            return Decimal(value), at
        if word == "uint32":
            if value >> 32:
                raise Misfit(_FAR)
            return value, at
        if word == "sint64":
            return unzigzag(value), at
        if word == "sint32":
            if value >> 32:
                raise Misfit(_FAR)
            return unzigzag(value), at
        value = signed(value)
        if word == "int64":
            return value, at
        if not -(2**31) <= value < 2**31:
            raise Misfit(_FAR)
        if word != "enum":
            return value, at
        if value not in names:
            raise Misfit(f"{node.name}: the enum has no name for {value}")
        return names[value], at

    return VARINT, number


_FAR = "a number has more than 32 bits"
FIXED = {
    "double": struct.Struct("<d"), "float": struct.Struct("<f"), "fixed32": struct.Struct("<I"),
    "fixed64": struct.Struct("<Q"), "sfixed32": struct.Struct("<i"), "sfixed64": struct.Struct("<q"),
}  # fmt: skip


def _fixed(kept: struct.Struct, word: str) -> _Read:
    def fixed(held: bytes, at: int) -> tuple[Any, int]:
        if at + kept.size > len(held):
            raise Cut
        value = kept.unpack_from(held, at)[0]
        return (Decimal(value) if word == "fixed64" else value), at + kept.size

    return fixed


def _string(held: bytes, at: int) -> tuple[str, int]:
    value, at = sized(held, at)
    return value.decode(), at
