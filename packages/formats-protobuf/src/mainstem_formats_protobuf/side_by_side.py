"""Messages, read side by side: a step for each field of many messages, and not for each of each.

What is odd about a value is not told here: it is marked, and read by itself (`single_values`), which
takes it after all or tells the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from mainstem.columns import arrow_type, read_columns
from mainstem.cursors import Array, Cursors, Items, Rows, twice

from mainstem_formats_protobuf.json_values import json_text
from mainstem_formats_protobuf.schemas import Node
from mainstem_formats_protobuf.single_values import FIRST, LAST, Options, symbols_by_number
from mainstem_formats_protobuf.wire import EIGHT, FOUR, SIZED, VARINT

#: So many tags that are next in messages, and so many of them for each of these, are quicker read alone.
_TAGS, _SHARE = 16, 8
#: Reads what is next in some values; returns an array of as many.
_Read = Callable[[Cursors, Rows], Array]
#: How numbers of fixed size are kept.
_PLAIN = {
    "double": "<f8", "float": "<f4", "fixed32": "<u4", "fixed64": "<u8", "sfixed32": "<i4",
    "sfixed64": "<i8",
}  # fmt: skip


def message(
    nodes: Sequence[Node], options: Options
) -> Callable[[Cursors, Rows, Items | None], list[Array]]:
    """Return what reads messages that go up to the values' ends: an array for each field.

    It is given the messages' rows, and what gathers the fields that nobody knows, in pieces.
    """
    fields = [_Field(node, options) for node in nodes]
    by_tag = {tag: field for field in fields for tag in field.tags}
    numbers = frozenset(node.number for node in nodes)

    def read(cursors: Cursors, rows: Rows, unknown: Items | None) -> list[Array]:
        found = [_Found(rows, field) for field in fields]
        known = dict(zip(fields, found, strict=True))
        members: dict[int, Rows] = {}
        active = np.arange(len(rows))
        if not cursors.worth(rows, len(fields)):
            active = active[:0]
        while True:
            going = ~(cursors.ended(rows[active]) | cursors.marked[rows[active]])
            active = active[going]
            if not active.size:
                break
            if not cursors.worth(rows[active]):
                break
            begin = cursors.at[rows[active]]
            tags = cursors.varint(rows[active])
            by_number = _by_number(tags)
            if len(by_number) > max(_TAGS, active.size // _SHARE):
                cursors.mark(rows[active])
                break
            for tag, chosen in by_number:
                owners = active[chosen]
                field = by_tag.get(tag)
                if field is None:
                    _skip(cursors, rows[owners], tag, numbers)
                    if unknown is not None:
                        its = cursors.between(rows[owners], begin[chosen])
                        unknown.add(owners, its)
                    continue
                known[field].add(cursors, owners, packed=tag == field.packed_tag)
                if (group := field.node.oneof) is not None:
                    if group not in members:
                        members[group] = np.full(len(rows), -1)
                    members[group][owners] = field.node.number
        return [each.array(cursors, members) for each in found]

    return read


def _by_number(tags: Any) -> list[tuple[int, Any]]:
    """Return the tags that there are, each with the places where it is."""
    first = tags[0]
    if (tags == first).all():
        return [(int(first), slice(None))]
    return [(int(tag), np.flatnonzero(tags == tag)) for tag in np.unique(tags)]


def _skip(cursors: Cursors, rows: Rows, tag: int, known: frozenset[int]) -> None:
    number, wire = tag >> 3, tag & 7
    if not 0 < number < 2**29 or number in known:
        cursors.mark(rows)
    elif wire == VARINT:
        cursors.varint(rows)
    elif wire == SIZED:
        cursors.skip(rows, cursors.varint(rows))
    elif wire in (FOUR, EIGHT):
        cursors.skip(rows, np.full(len(rows), 4 if wire == FOUR else 8))
    else:  # a group
        cursors.mark(rows)


class _Field:
    """How a field is read."""

    def __init__(self, node: Node, options: Options) -> None:
        self.node = node
        self.is_map = node.word == "map"
        self.is_list = node.repeated
        self.kind: Any = arrow_type(read_columns(f"c {node.ddl}")[0].type or "")
        kind: Any = self.kind
        self.parts = (kind.key_type, kind.item_type) if self.is_map else ()
        item = kind.value_type if self.is_list else kind
        self.whole = bool(node.fields) or node.word in ("json", "empty")
        wire = SIZED
        if self.is_map:
            self.entry = _inside(message(node.fields, options))
        elif self.whole:
            self.read = _message(node, item, options)
        else:
            wire, self.read = _scalar(node, item)
        self.tags = [node.number << 3 | wire]
        self.packed_tag = -1
        if self.is_list and wire != SIZED:
            self.packed_tag = node.number << 3 | SIZED
            self.tags.append(self.packed_tag)
        self.default = None
        if not (self.is_list or self.is_map) and node.default is not None:
            self.default = pa.scalar(node.default, self.kind)


class _Found:
    """What was read of a field, in pieces."""

    def __init__(self, rows: Rows, field: _Field) -> None:
        self._rows, self._field = rows, field
        self._items = Items(rows)
        self._owners: list[Rows] = []
        self._parts: list[Array] = []

    def add(self, cursors: Cursors, owners: Rows, *, packed: bool) -> None:
        """Read the next piece of some messages, numbers in the message's own rows."""
        field, rows = self._field, self._rows
        if field.is_map:
            self._items.add(owners, *field.entry(cursors, rows[owners]))
        elif packed:
            ends = cursors.enter(rows[owners], cursors.varint(rows[owners]))
            going = owners
            while True:
                going = going[~(cursors.ended(rows[going]) | cursors.marked[rows[going]])]
                if not going.size:
                    break
                if not cursors.worth(rows[going]):
                    break
                self._items.add(going, field.read(cursors, rows[going]))
            cursors.leave(rows[owners], ends)
        elif field.is_list:
            self._items.add(owners, field.read(cursors, rows[owners]))
        else:
            self._owners.append(owners)
            self._parts.append(field.read(cursors, rows[owners]))

    def array(self, cursors: Cursors, members: dict[int, Rows]) -> Array:
        """Return the field's values."""
        field, rows = self._field, self._rows
        if field.is_map:
            offsets, (keys, values), owners = self._items.lists(*field.parts)
            if values.null_count:  # a message that is not there is an empty one
                gone = values.is_null().to_numpy(zero_copy_only=False)
                cursors.mark(rows[np.unique(owners[gone])])
            cursors.mark(rows[twice(owners, keys)])
            return pa.MapArray.from_arrays(offsets, keys, values, type=field.kind)
        if field.is_list:
            offsets, (held,), _ = self._items.lists(field.kind.value_type)
            return pa.ListArray.from_arrays(offsets, held, type=field.kind)
        return self._single(cursors, members)

    def _single(self, cursors: Cursors, members: dict[int, Rows]) -> Array:
        node, rows = self._field.node, self._rows
        count = len(rows)
        if len(self._owners) == 1 and len(self._owners[0]) == count:
            found = self._parts[0]  # active rows are in order
            there = np.ones(count, np.bool_)
        else:
            where = np.full(count, -1)
            if self._owners:
                owners = np.concatenate(self._owners)
                where[owners] = np.arange(len(owners))
                if self._field.whole and len(owners) > 1:
                    cursors.mark(rows[np.flatnonzero(np.bincount(owners, minlength=count) > 1)])
            there = where >= 0
            held = pa.concat_arrays(self._parts) if self._parts else pa.array([], self._field.kind)
            found = held.take(pa.array(where, mask=~there))
        if node.oneof is not None and node.oneof in members:
            other = members[node.oneof] != node.number
            if (there & other).any():
                found = found.take(pa.array(np.arange(count), mask=other))
        if not there.all():
            if node.required:
                cursors.mark(rows[~there])
            elif self._field.default is not None:
                found = found.fill_null(self._field.default)
        return found


# -- messages -----------------------------------------------------------------------------------


def _inside(
    whole: Callable[[Cursors, Rows, Items | None], list[Array]],
) -> Callable[[Cursors, Rows], list[Array]]:
    """Return what reads messages behind their lengths."""

    def read(cursors: Cursors, rows: Rows) -> list[Array]:
        ends = cursors.enter(rows, cursors.varint(rows))
        found = whole(cursors, rows, None)
        cursors.leave(rows, ends)
        return found

    return read


def _message(node: Node, kind: Any, options: Options) -> _Read:
    word = node.word
    if word == "json":
        return _json(node)
    inner = _inside(message(node.fields, options))
    if word == "empty":

        def empty(cursors: Cursors, rows: Rows) -> Array:
            inner(cursors, rows)
            return pa.array(np.ones(len(rows), np.bool_))

        return empty
    if word == "wrapper":
        return lambda cursors, rows: inner(cursors, rows)[0]
    if word == "timestamp":

        def time(cursors: Cursors, rows: Rows) -> Array:
            seconds, nanos = (each.to_numpy() for each in inner(cursors, rows))
            odd = (seconds < FIRST) | (seconds > LAST) | (nanos < 0) | (nanos > 999_999_999)
            if not options.cut:
                odd |= nanos % 1000 != 0
            if odd.any():
                cursors.mark(rows[odd])
                seconds = np.where(odd, 0, seconds)
            return pa.array(seconds * 1_000_000 + nanos // 1000).view(kind)

        return time
    fields = list(kind)
    return lambda cursors, rows: pa.StructArray.from_arrays(inner(cursors, rows), fields=fields)


def _json(node: Node) -> _Read:
    """Return what reads values as JSON: each by itself."""
    text = json_text(node.kind)

    def read(cursors: Cursors, rows: Rows) -> Array:
        made: list[str] = []
        odd = np.zeros(len(rows), np.bool_)
        held = cursors.slices(rows, cursors.varint(rows)).to_pylist()
        for number, value in enumerate(held):
            made.append("")
            try:
                made[-1] = text(value)
            except ValueError:
                odd[number] = True
        cursors.mark(rows[odd])
        return pa.array(made, pa.string())

    return read


# -- scalars ------------------------------------------------------------------------------------


def _scalar(node: Node, kind: Any) -> tuple[int, _Read]:
    """Return the wire type of a scalar, and what reads it."""
    word = node.word
    if word in _PLAIN:
        stored = _PLAIN[word]

        def plain(cursors: Cursors, rows: Rows) -> Array:
            found = cursors.plain(rows, stored)
            return _decimals(found, kind) if word == "fixed64" else pa.array(found).cast(kind)

        return (FOUR if stored.endswith("4") else EIGHT), plain
    if word in ("bytes", "string"):
        read = Cursors.texts if word == "string" else Cursors.slices
        return SIZED, lambda cursors, rows: read(cursors, rows, cursors.varint(rows))
    if word == "enum":
        return VARINT, _enum(node)

    def number(cursors: Cursors, rows: Rows) -> Array:
        found = cursors.varint(rows)
        if word == "uint64":
            return _decimals(found, kind)
        if word == "bool":
            _mark(cursors, rows, found > 1)
            return pa.array(found == 1)
        if word in ("uint32", "sint32"):
            found = np.where(_mark(cursors, rows, found >> np.uint64(32) != 0), np.uint64(0), found)
        if word in ("sint32", "sint64"):
            made = (found >> np.uint64(1)).astype(np.int64) ^ -(found & np.uint64(1)).astype(
                np.int64
            )
        else:
            made = found.astype(np.int64)
            if word in ("int32", "enum-number"):
                made = np.where(_mark(cursors, rows, _is_far(made)), 0, made)
        return pa.array(made).cast(kind)

    return VARINT, number


def _is_far(found: Any) -> Any:
    return (found < -(2**31)) | (found >= 2**31)


def _mark(cursors: Cursors, rows: Rows, odd: Any) -> Any:
    if odd.any():
        cursors.mark(rows[odd])
    return odd


def _decimals(found: Any, kind: Any) -> Array:
    """Return numbers of 64 bits without sign as decimals, which have 128."""
    made = np.zeros((len(found), 2), np.uint64)
    made[:, 0] = found
    return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(made.data)])


def _enum(node: Node) -> _Read:
    names = symbols_by_number(node.symbols)
    numbers = np.array(sorted(names), np.int64)
    symbols: Any = pa.array([names[each] for each in numbers.tolist()], pa.string())

    def enum(cursors: Cursors, rows: Rows) -> Array:
        found = cursors.varint(rows).astype(np.int64)
        where = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
        _mark(cursors, rows, numbers[where] != found)
        return symbols.take(pa.array(where))

    return enum
