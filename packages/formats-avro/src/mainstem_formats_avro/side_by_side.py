"""Values of Avro, read side by side: a step for each field, and not for each value.

What is odd about a value is not told here: it is marked, and read by itself (`single_values`), which
takes it after all or tells the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from mainstem.columns import arrow_type
from mainstem.cursors import Array, Cursors, Items, Rows, spread, twice

from mainstem_formats_avro.schemas import Node, default_of, field_of, kind
from mainstem_formats_avro.single_values import FIRST, FIRST_DAY, LAST, LAST_DAY

#: Reads what is next in some values; returns an array of as many.
_Read = Callable[[Cursors, Rows], Array]


def columns(writer: Node, reader: Node) -> Callable[[Cursors, Rows], list[Array]]:
    """Return what reads a record's fields, in the reader's order."""
    places = [
        field_of(writer, name, aliases)
        for name, aliases in zip(reader.names, reader.aliases, strict=True)
    ]
    steps: list[_Read] = []
    for number, part in enumerate(writer.parts):
        wanted = [n for n, at in enumerate(places) if at == number]
        steps.append(_reader(part, reader.parts[wanted[0]] if wanted else part))
    kinds = [_kind(part) for part in reader.parts]
    new = {
        number: pa.array(
            [default_of(reader.parts[number], reader.defaults[number], reader.names[number])],
            kinds[number],
        )
        for number, at in enumerate(places)
        if at is None
    }

    def fields(cursors: Cursors, rows: Rows) -> list[Array]:
        found = [step(cursors, rows) for step in steps]
        return [
            new[number].take(pa.array(np.zeros(len(rows), np.int64))) if at is None else found[at]
            for number, at in enumerate(places)
        ]

    return fields


def _kind(node: Node) -> Any:
    return arrow_type(kind(node))


def _reader(writer: Node, reader: Node) -> _Read:
    """Return what reads values of a writer's type as a reader's."""
    plain = _plain(writer, reader)
    if not writer.nullable:
        return plain
    null, may = (0 if writer.null_first else 1), reader.nullable

    def maybe(cursors: Cursors, rows: Rows) -> Array:
        branch = cursors.zigzag(rows)
        there = branch == 1 - null
        odd = ~there if not may else ~there & (branch != null)
        if odd.any():
            cursors.mark(rows[odd])
        return spread(plain(cursors, rows[there]), there)

    return maybe


def _plain(writer: Node, reader: Node) -> _Read:
    if writer.word == "other":
        return _other
    word, kind = writer.word, _kind(reader)
    if word in ("int", "long"):
        return _number(word, reader.word, kind)
    if word == "date":
        return _time("int", 1, FIRST_DAY, LAST_DAY, kind)
    if "timestamp-" in word:
        return _time("long", 1000 if word.endswith("millis") else 1, FIRST, LAST, kind)
    if word in ("float", "double"):
        stored = "<f4" if word == "float" else "<f8"
        return lambda cursors, rows: pa.array(cursors.plain(rows, stored)).cast(kind)
    if word == "boolean":
        return _boolean
    if word in ("bytes", "string"):
        return _sized("string" in (word, reader.word), kind)
    if word == "enum":
        return _enum(writer, reader)
    if word == "fixed":
        return lambda cursors, rows: cursors.fixed(rows, writer.size)
    if word.endswith("-decimal"):
        return _decimal(writer, kind)
    if word == "array":
        each = _reader(writer.parts[0], reader.parts[0])
        return _array(each, kind, _width(writer.parts[0]))
    if word == "map":
        return _map(_reader(writer.parts[0], reader.parts[0]), kind, _width(writer.parts[0]))
    inner = columns(writer, reader)
    fields = list(kind)
    return lambda cursors, rows: pa.StructArray.from_arrays(inner(cursors, rows), fields=fields)


def _other(cursors: Cursors, rows: Rows) -> Array:
    """Leave values alone that have what is only gone over."""
    cursors.mark(rows)
    return pa.nulls(len(rows), pa.binary())


def _int(cursors: Cursors, rows: Rows) -> Any:
    found = cursors.zigzag(rows)
    far = (found < -(2**31)) | (found >= 2**31)
    if far.any():
        cursors.mark(rows[far])
        found[far] = 0
    return found


def _number(word: str, wanted: str, kind: Any) -> _Read:
    read = _int if word == "int" else Cursors.zigzag
    exact = 2**24 if wanted == "float" else 2**53

    def number(cursors: Cursors, rows: Rows) -> Array:
        found = read(cursors, rows)
        if wanted in ("float", "double"):
            # Larger ones may be exact all the same: that is looked at one by one.
            far = (found > exact) | (found < -exact)
            if far.any():
                cursors.mark(rows[far])
                found = np.where(far, 0, found)
        return pa.array(found).cast(kind)

    return number


def _time(word: str, factor: int, first: int, last: int, kind: Any) -> _Read:
    read = _int if word == "int" else Cursors.zigzag
    lowest, highest = -(-first // factor), last // factor

    def time(cursors: Cursors, rows: Rows) -> Array:
        found = read(cursors, rows)
        far = (found < lowest) | (found > highest)
        if far.any():
            cursors.mark(rows[far])
            found = np.where(far, 0, found)
        if word == "int":
            return pa.array(found.astype(np.int32)).view(kind)
        return pa.array(found * factor).view(kind)

    return time


def _boolean(cursors: Cursors, rows: Rows) -> Array:
    found = cursors.byte(rows)
    if (odd := found > 1).any():
        cursors.mark(rows[odd])
    return pa.array(found == 1)


def _sized(text: bool, kind: Any) -> _Read:
    read = Cursors.texts if text else Cursors.slices
    return lambda cursors, rows: read(cursors, rows, cursors.zigzag(rows)).view(kind)


def _enum(writer: Node, reader: Node) -> _Read:
    """Return what reads symbols; one that the reader's type has not is its default."""
    known = [each if each in reader.symbols else reader.fallback for each in writer.symbols]
    symbols = pa.array(known, pa.string())
    lacking = np.array([each is None for each in known], np.bool_)

    def enum(cursors: Cursors, rows: Rows) -> Array:
        number = _int(cursors, rows)
        odd = (number < 0) | (number >= len(known))
        number[odd] = 0
        odd |= lacking[number]
        if odd.any():
            cursors.mark(rows[odd])
        return symbols.take(pa.array(number))

    return enum


def _decimal(node: Node, kind: Any) -> _Read:
    """Return what reads decimals: of sixteen bytes, the lowest first, as Arrow has them."""

    def decimal(cursors: Cursors, rows: Rows) -> Array:
        sizes = np.full(len(rows), node.size) if node.size else cursors.zigzag(rows)
        if (far := sizes > 16).any():
            cursors.mark(rows[far])
            sizes = np.where(far, 0, sizes)
        held = cursors.slices(rows, sizes)
        _, offsets, data = held.buffers()
        places = np.frombuffer(offsets, np.int32, len(rows) + 1)
        begin, sizes = places[:-1], np.diff(places)
        found = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        found = np.append(found, np.uint8(0))
        sign = np.where(sizes > 0, found[np.minimum(begin, len(found) - 1)] >> 7, 0)
        made = np.repeat(np.where(sign, 255, 0).astype(np.uint8)[:, None], 16, axis=1)
        for number in range(16):
            there = np.flatnonzero(sizes > number)
            made[there, number] = found[begin[there] + sizes[there] - 1 - number]
        array = pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(made.data)])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:  # one has too many digits: which, is found one by one
            cursors.mark(rows)
            return pa.nulls(len(rows), kind)
        return array

    return decimal


def _blocks(
    cursors: Cursors, rows: Rows, items: Items, width: int, each: Callable[[Rows], Sequence[Array]]
) -> None:
    """Read items in blocks, each with its count; one that tells its bytes is left to be read alone."""
    owners = np.arange(len(rows))
    left = np.zeros(len(rows), np.int64)
    while owners.size:
        empty = owners[left[owners] == 0]
        if empty.size:
            count = cursors.zigzag(rows[empty])
            if (odd := count < 0).any():
                cursors.mark(rows[empty[odd]])
                count[odd] = 0
            left[empty] = count
            owners = owners[left[owners] > 0]
        cursors.worth(rows[owners], width)
        owners = owners[~cursors.marked[rows[owners]]]
        if owners.size:
            items.add(owners, *each(rows[owners]))
            left[owners] -= 1


def _width(node: Node) -> int:
    """Return how many steps a value takes at least."""
    return 1 + sum(map(_width, node.parts))


def _array(each: _Read, kind: Any, width: int) -> _Read:
    def array(cursors: Cursors, rows: Rows) -> Array:
        items = Items(rows)
        _blocks(cursors, rows, items, width, lambda some: [each(cursors, some)])
        offsets, (held,), _ = items.lists(kind.value_type)
        return pa.ListArray.from_arrays(offsets, held, type=kind)

    return array


def _map(each: _Read, kind: Any, width: int) -> _Read:
    key = _sized(True, pa.string())

    def made(cursors: Cursors, rows: Rows) -> Array:
        items = Items(rows)
        _blocks(cursors, rows, items, width, lambda some: [key(cursors, some), each(cursors, some)])
        offsets, (keys, values), owners = items.lists(kind.key_type, kind.item_type)
        cursors.mark(rows[twice(owners, keys)])
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return made
