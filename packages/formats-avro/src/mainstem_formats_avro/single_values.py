"""Values of Avro, read each by itself: exactly, or with a reason.

What is read is looked at more closely than libraries do, which take a number of the wrong size, a branch
that is not there, or bytes behind a value: each type is read by a function from bytes and a place in them
to a value, as Arrow takes it, and the next place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstem_formats_avro.schemas import (
    NOTHING,
    Node,
    decimal_of,
    default_of,
    field_of,
)

#: The days, since 1970, and microseconds that columns can hold.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST, LAST = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1
_NO_BYTES = "an array of items that take no bytes"
_FAR = "a time is beyond the years 1 to 9999"
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

#: Reads at a place; returns the value and the next place.
Read = Callable[[bytes, int], tuple[Any, int]]


class Misfit(ValueError):  # noqa: N818
    """Bytes that are no value, or one that its column can't hold; says why."""


# -- types --------------------------------------------------------------------------------------


def long_of(held: bytes, at: int) -> tuple[int, int]:
    """Read a long."""
    byte = held[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
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
    return (value >> 1) ^ -(value & 1), at


def _int(held: bytes, at: int) -> tuple[int, int]:
    value, at = long_of(held, at)
    if not -(2**31) <= value < 2**31:
        raise Misfit("an int has more than 32 bits")
    return value, at


def _boolean(held: bytes, at: int) -> tuple[bool, int]:
    byte = held[at]
    if byte > 1:
        raise Misfit("a boolean is neither 0 nor 1")
    return byte == 1, at + 1


def _float(held: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(held, at)[0], at + 4


def _double(held: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(held, at)[0], at + 8


def bytes_of(held: bytes, at: int) -> tuple[bytes, int]:
    """Read bytes with their length before them."""
    size, at = long_of(held, at)
    end = at + size
    if size < 0:
        raise Misfit("a length is negative")
    if end > len(held):
        raise IndexError
    return held[at:end], end


def _string(held: bytes, at: int) -> tuple[str, int]:
    value, at = bytes_of(held, at)
    return value.decode(), at


_PLAIN: dict[str, Read] = {
    "boolean": _boolean, "int": _int, "long": long_of, "float": _float, "double": _double,
    "bytes": bytes_of, "string": _string,
}  # fmt: skip


def _reader(writer: Node, reader: Node) -> Read:
    """Return what reads a value of a writer's type as a reader's."""
    plain = _plain(writer, reader)
    if not writer.nullable:
        return plain
    null = 0 if writer.null_first else 1
    may = reader.nullable

    def maybe(held: bytes, at: int) -> tuple[Any, int]:
        branch, at = long_of(held, at)
        if branch == null:
            if not may:
                raise Misfit("a null where none may be")
            return None, at
        if branch != 1 - null:
            raise Misfit("a union has no such branch")
        return plain(held, at)

    return maybe


def _plain(writer: Node, reader: Node) -> Read:
    word = writer.word
    if word == "other":
        return skipping(*writer.raw)
    if word in _PLAIN:
        return _widened(_PLAIN[word], word, reader.word)
    if word == "date":
        return _time(_int, 1, FIRST_DAY, LAST_DAY)
    if "timestamp-" in word:
        return _time(long_of, 1000 if word.endswith("millis") else 1, FIRST, LAST)
    if word == "enum":
        return _enum(writer, reader)
    if word == "fixed":
        return _fixed(writer.size)
    if word.endswith("-decimal"):
        return _decimal(bytes_of if word == "bytes-decimal" else _fixed(writer.size), writer)
    if word == "array":
        if _is_nothing(writer.parts[0]):
            raise ValueError(_NO_BYTES)
        return _blocks(_reader(writer.parts[0], reader.parts[0]))
    if word == "map":
        return _map(_blocks(_pair(_reader(writer.parts[0], reader.parts[0]))))
    return _record(fields(writer, reader), reader.names)


def skipping(schema: Any, space: str, known: Mapping[str, tuple[Any, str]]) -> Read:
    """Return what goes over a value of any type, which nobody wants.

    Args:
        schema: as JSON has it.
        space: the namespace that it stands in.
        known: the named types, each with its own namespace.

    Raises:
        ValueError: it is no schema.
    """
    skips: dict[str, Read] = {}
    made: set[str] = set()

    def named(name: str) -> Read:
        if name not in known:
            raise ValueError(f"there is no type {name[:100]!r}")
        if name not in skips:
            skips[name] = lambda held, at: skips[name](held, at)  # of itself, until it is made
            skips[name] = of(*known[name])
            made.add(name)
        return skips[name] if name in made else lambda held, at: skips[name](held, at)

    def of(schema: Any, space: str) -> Read:
        while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
            schema = schema["type"]
        if isinstance(schema, list):
            return _branches([of(each, space) for each in schema])
        if not isinstance(schema, dict):
            if schema == "null":
                return _null
            if schema in _PLAIN:
                return _PLAIN[schema]
            return named(schema if "." in str(schema) or not space else f"{space}.{schema}")
        word = schema.get("type")
        if word in ("record", "error"):
            own = schema.get("namespace")
            name = str(schema.get("name"))
            inner = own if isinstance(own, str) else space
            inner = name.rpartition(".")[0] if "." in name else inner
            fields = [of(each.get("type"), inner) for each in schema.get("fields", ())]
            return _in_turn([step for step in fields if step is not _null])
        if word == "enum":
            return _int
        if word == "fixed":
            return _skipped_fixed(schema.get("size", 0))
        if word == "array":
            return _blocks(_something(of(schema.get("items"), space)))
        if word == "map":
            return _blocks(_pair(of(schema.get("values"), space)))
        return of(word, space)

    return of(schema, space)


def _null(_held: bytes, at: int) -> tuple[None, int]:
    return None, at


def _branches(each: Sequence[Read]) -> Read:
    def branch(held: bytes, at: int) -> tuple[None, int]:
        number, at = long_of(held, at)
        if not 0 <= number < len(each):
            raise Misfit("a union has no such branch")
        return None, each[number](held, at)[1]

    return branch


def _something(each: Read) -> Read:
    """Return what reads items of an array, which take bytes: else there may be any number of them.

    Raises:
        ValueError: they take none.
    """
    if each is _null:
        raise ValueError(_NO_BYTES)
    return each


def _is_nothing(node: Node) -> bool:
    """Whether values of a writer's type take no bytes."""
    if node.nullable:
        return False
    if node.word == "other":
        return skipping(*node.raw) is _null
    if node.word == "record":
        return all(map(_is_nothing, node.parts))
    return node.word == "fixed" and not node.size


def _skipped_fixed(size: Any) -> Read:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError("a fixed has no size")
    return _fixed(size) if size else _null


def _in_turn(each: Sequence[Read]) -> Read:
    if not each:
        return _null  # takes no bytes, however it is nested

    def all_of_them(held: bytes, at: int) -> tuple[None, int]:
        for step in each:
            at = step(held, at)[1]
        return None, at

    return all_of_them


def _widened(plain: Read, word: str, wanted: str) -> Read:
    """Return what reads a type as one that Avro widens it to."""
    if wanted == word or (word, wanted) in (("int", "long"), ("float", "double")):
        return plain
    if wanted in ("bytes", "string"):
        return _PLAIN[wanted]
    exact = 2**24 if wanted == "float" else 2**53

    def number(held: bytes, at: int) -> tuple[float, int]:
        value, at = plain(held, at)
        made = float(value)
        if abs(value) > exact and (wanted == "float" or int(made) != value):
            raise Misfit(f"a number is no {wanted}, exactly")
        return made, at

    return number


def _time(plain: Read, factor: int, first: int, last: int) -> Read:
    def time(held: bytes, at: int) -> tuple[int, int]:
        value, at = plain(held, at)
        value *= factor
        if not first <= value <= last:
            raise Misfit(_FAR)
        return value, at

    return time


def _enum(writer: Node, reader: Node) -> Read:
    """Return what reads symbols; one that the reader's type has not is its default."""
    known = [each if each in reader.symbols else reader.fallback for each in writer.symbols]

    def enum(held: bytes, at: int) -> tuple[str, int]:
        number, at = _int(held, at)
        if not 0 <= number < len(known):
            raise Misfit("an enum has no such symbol")
        found = known[number]
        if found is None:
            raise Misfit(f"the schema has no symbol {writer.symbols[number]}")
        return found, at

    return enum


def _fixed(size: int) -> Read:
    def fixed(held: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(held):
            raise IndexError
        return held[at:end], end

    return fixed


def _decimal(plain: Read, node: Node) -> Read:
    def decimal(held: bytes, at: int) -> tuple[Any, int]:
        value, at = plain(held, at)
        made = decimal_of(value, node)
        if made is NOTHING:
            raise Misfit(f"a decimal has more than {node.precision} digits")
        return made, at

    return decimal


def _blocks(each: Read) -> Read:
    """Return what reads items in blocks, each with its count and perhaps its bytes."""

    def blocks(held: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at = long_of(held, at)
            if count == 0:
                return found, at
            end = None
            if count < 0:
                size, at = long_of(held, at)
                if size < 0:
                    raise Misfit("a length is negative")
                count, end = -count, at + size
            for _ in range(count):
                value, at = each(held, at)
                found.append(value)
            if end not in (None, at):
                raise Misfit("a block has not as many bytes as it says")

    return blocks


def _pair(value: Read) -> Read:
    def pair(held: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _string(held, at)
        found, at = value(held, at)
        return (key, found), at

    return pair


def _map(pairs: Read) -> Read:
    def made(held: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        found, at = pairs(held, at)
        if len({key for key, _ in found}) < len(found):
            raise Misfit("a map has a key twice")
        return found, at

    return made


def _record(fields: Read, names: Sequence[str]) -> Read:
    def record(held: bytes, at: int) -> tuple[dict[str, Any], int]:
        row, at = fields(held, at)
        return dict(zip(names, row, strict=True)), at

    return record


def fields(writer: Node, reader: Node) -> Read:
    """Return what reads a record's fields, in the reader's order."""
    places = [
        field_of(writer, name, aliases)
        for name, aliases in zip(reader.names, reader.aliases, strict=True)
    ]
    steps = []
    for number, part in enumerate(writer.parts):
        wanted = [n for n, at in enumerate(places) if at == number]
        steps.append((_reader(part, reader.parts[wanted[0]] if wanted else part), wanted))
    if [wanted for _, wanted in steps] == [[n] for n in range(len(reader.names))]:
        plain = [step for step, _ in steps]

        def in_order(held: bytes, at: int) -> tuple[list[Any], int]:
            row = []
            for step in plain:
                value, at = step(held, at)
                row.append(value)
            return row, at

        return in_order
    empty = [
        None if at is not None else default_of(part, default, name)
        for at, part, default, name in zip(
            places, reader.parts, reader.defaults, reader.names, strict=True
        )
    ]

    def resolved(held: bytes, at: int) -> tuple[list[Any], int]:
        row = list(empty)
        for step, wanted in steps:
            value, at = step(held, at)
            for number in wanted:
                row[number] = value
        return row, at

    return resolved
