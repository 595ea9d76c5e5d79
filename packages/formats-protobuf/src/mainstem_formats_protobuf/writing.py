"""Rows become messages; what no field can hold is refused.

What is its default is left out where absent and default are the same, fields stand in the order of their
numbers, and numbers of a list in one piece where the schema says so: what protoc's own code writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from mainstem.arrays import write_rows

from mainstem_formats_protobuf.schemas import Node
from mainstem_formats_protobuf.single_values import FIRST, FIXED, LAST
from mainstem_formats_protobuf.wire import EIGHT, FOUR, SIZED, VARINT, Misfit, as_varint, fields

#: Makes of a value what is kept of it, without its tag.
_Keep = Callable[[Any], bytes]


class ProtobufRows:
    """Writes rows as messages.

    Args:
        nodes: the message's fields.
        names: of the columns that are given, in their order.
        unknown: the one of them that has fields that nobody knows, None for none.
        head: what stands before each message.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        names: Sequence[str],
        unknown: str | None = None,
        *,
        head: bytes = b"",
    ) -> None:
        self._head = head
        by_name = {node.name: node for node in nodes}
        given = [(by_name[name], number) for number, name in enumerate(names) if name != unknown]
        given.sort(key=lambda field: field[0].number)
        self._fields = [(number, _field(node, node.name)) for node, number in given]
        self._oneofs = _oneofs([node for node, _ in given], [number for _, number in given])
        self._numbers = frozenset(node.number for node in nodes)
        self._rest = unknown
        self._unknown = names.index(unknown) if unknown is not None else None

    def write(self, *arrays: pa.Array[Any]) -> tuple[pa.Array[Any], list[str | None]]:
        """Return the values of rows, and why rows have none."""
        return write_rows(arrays, self._written)

    def _written(self, row: Sequence[Any]) -> bytes:
        self._oneofs(row)
        made = self._head + b"".join([field(row[number]) for number, field in self._fields])
        if self._unknown is not None:
            made += self._checked(row[self._unknown] or b"")
        return made

    def _checked(self, rest: bytes) -> bytes:
        """Return the fields that nobody knows, if they are such."""
        for number, _, _ in fields(rest):
            if number in self._numbers:
                raise Misfit(f"{self._rest} has a field that the message knows ({number})")
        return rest


def _field(node: Node, path: str) -> _Keep:
    """Return what writes a field, with its tag; an absent one is nothing."""
    if node.word == "map":
        return _map(node, path)
    wire, keep = _value(node, path)
    tag = as_varint(node.number << 3 | wire)
    if node.repeated:
        return _list(node, path, tag, keep)

    def field(value: Any) -> bytes:
        if value is None:
            if not node.nullable:
                raise Misfit(f"{path} is null")
            return b""
        if value == node.default and not _is_minus_zero(value):
            return b""
        return tag + keep(value)

    return field


def _is_minus_zero(value: Any) -> bool:
    return isinstance(value, float) and struct.pack("<d", value) == _MINUS_ZERO


_MINUS_ZERO = struct.pack("<d", -0.0)


def _list(node: Node, path: str, tag: bytes, keep: _Keep) -> _Keep:
    packed = as_varint(node.number << 3 | SIZED)

    def items(values: Any) -> bytes:
        if values is None or None in values:
            raise Misfit(f"{path} is null, or has one")
        if not values:
            return b""
        kept = [keep(each) for each in values]
        if node.packed:
            made = b"".join(kept)
            return packed + as_varint(len(made)) + made
        return b"".join([tag + each for each in kept])

    return items


def _map(node: Node, path: str) -> _Keep:
    (key_wire, key), (value_wire, value) = (_value(each, path) for each in node.fields)
    tag = as_varint(node.number << 3 | SIZED)
    key_tag, value_tag = as_varint(1 << 3 | key_wire), as_varint(2 << 3 | value_wire)

    def entries(pairs: Any) -> bytes:
        if pairs is None:
            raise Misfit(f"{path} is null")
        made = []
        for one, other in pairs:
            if other is None:
                raise Misfit(f"{path} is null, or has one")
            entry = key_tag + key(one) + value_tag + value(other)
            made += [tag, as_varint(len(entry)), entry]
        return b"".join(made)

    return entries


def _value(node: Node, path: str) -> tuple[int, _Keep]:
    """Return a field's wire type, and what makes bytes of a value."""
    word = node.word
    if word in FIXED:
        return (FOUR if FIXED[word].size == 4 else EIGHT), _fixed(FIXED[word], word, path)
    if word in ("string", "bytes"):

        def sized(value: Any) -> bytes:
            held: bytes = value.encode() if word == "string" else value
            return as_varint(len(held)) + held

        return SIZED, sized
    if node.fields or word == "empty":
        return SIZED, _message(node, path)
    if word == "enum":
        numbers = {name: as_varint(number % 2**64) for number, name in node.symbols}

        def symbol(value: str) -> bytes:
            if value not in numbers:
                raise Misfit(f"{path}: the enum has no such name")
            return numbers[value]

        return VARINT, symbol
    return VARINT, _number(word, path)


def _number(word: str, path: str) -> _Keep:
    bits = {"uint32": 32, "uint64": 64}.get(word)

    def number(value: Any) -> bytes:
        whole = int(value)
        if bits is not None and not 0 <= whole < 2**bits:
            raise Misfit(f"{path}: a number does not fit into {word}")
        if word in ("sint32", "sint64"):
            whole = whole * 2 if whole >= 0 else -whole * 2 - 1
        return as_varint(whole % 2**64)

    return number


def _fixed(kept: struct.Struct, word: str, path: str) -> _Keep:
    def fixed(value: Any) -> bytes:
        try:
            return kept.pack(int(value) if isinstance(value, Decimal) else value)
        except struct.error:
            raise Misfit(f"{path}: a number does not fit into {word}") from None

    return fixed


def _message(node: Node, path: str) -> _Keep:
    """Return what writes a message behind its length."""
    word = node.word
    if word == "empty":

        def empty(value: bool) -> bytes:
            if not value:
                raise Misfit(f"{path}: there is an empty message (true) or none (null)")
            return b"\0"

        return empty
    fields = sorted(node.fields, key=lambda each: each.number)
    writers = [(each.name, _field(each, f"{path}.{each.name}")) for each in fields]
    check = _oneofs(fields, [each.name for each in fields], path)

    def message(value: Any) -> bytes:
        if word == "wrapper":
            value = {fields[0].name: value}
        elif word == "timestamp":
            seconds, micros = divmod(value, 1_000_000)
            if not FIRST <= seconds <= LAST:
                raise Misfit(f"{path}: a time is beyond the years 1 to 9999")
            value = {"seconds": seconds, "nanos": micros * 1000}
        check(value)
        made = b"".join([field(value[name]) for name, field in writers])
        return as_varint(len(made)) + made

    return message


def _oneofs(nodes: Sequence[Node], keys: Sequence[Any], path: str = "") -> Callable[[Any], None]:
    """Return what refuses a message with two members of a oneof."""
    groups: dict[int, list[tuple[Any, str]]] = {}
    for node, key in zip(nodes, keys, strict=True):
        if node.oneof is not None:
            groups.setdefault(node.oneof, []).append((key, f"{path}.{node.name}".lstrip(".")))
    several = [members for members in groups.values() if len(members) > 1]

    def check(held: Any) -> None:
        for members in several:
            there = [name for key, name in members if held[key] is not None]
            if len(there) > 1:
                raise Misfit(f"{' and '.join(there)} are of one oneof: one alone may be there")

    return check
