"""Messages become columns: exactly, or with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mainstem.columns import arrow_type
from mainstem.cursors import Cursors, Items, Rows, read_values

from mainstem_formats_protobuf import side_by_side, single_values
from mainstem_formats_protobuf.heads import Heads
from mainstem_formats_protobuf.schemas import Node, columns
from mainstem_formats_protobuf.single_values import Options
from mainstem_formats_protobuf.wire import Misfit


class ProtobufValues:
    """Reads messages by their fields: those of one name, or of several, each of which is a column.

    Args:
        nodes: the fields of the message, or the columns of the messages.
        unknown: whether there is a column more, of the fields that nobody knows.
        cut: whether times finer than microseconds are cut, instead of refused.
        heads: what knows the schemas that values name; None where they name none.
        by_type: whether there are several, each a column that is null in rows of another.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        unknown: bool = False,
        cut: bool = False,
        heads: Heads | None = None,
        by_type: bool = False,
    ) -> None:
        self._kinds: list[Any] = [arrow_type(column.type or "") for column in columns(nodes)]
        self._types, self._by_type = len(nodes) if by_type else 1, by_type
        self._unknown = unknown
        if unknown:
            self._kinds.append(pa.binary())
        self._heads = heads
        messages = [node.fields for node in nodes] if by_type else [nodes]
        self._names = [[node.name for node in each] for each in messages]
        self._side_by_side = [side_by_side.message(each, Options(cut=cut)) for each in messages]
        self._single = [single_values.message(each, Options(cut=cut)) for each in messages]

    def read(self, values: pa.Array[Any]) -> tuple[list[pa.Array[Any]], list[str | None]]:
        """Return the columns of an array of bytes, and why rows are refused.

        Raises:
            TransientError: the registry was away for too long.
            PermanentError: the registry refuses to be asked.
        """
        return read_values(values, self._kinds, self._together, self._alone)

    def _together(self, cursors: Cursors) -> Iterator[tuple[Rows, list[pa.Array[Any]]]]:
        rows = cursors.rows[~cursors.marked]
        parts = [(0, rows)] if self._heads is None else _behind_heads(cursors, rows, self._heads)
        for number, its in parts:
            items = Items(its) if self._unknown else None
            found: list[Any] = self._side_by_side[number](cursors, its, items)
            if self._by_type:
                whole = pa.StructArray.from_arrays(found, fields=list(self._kinds[number]))
                found = [pa.nulls(len(its), kind) for kind in self._kinds[: self._types]]
                found[number] = whole
            if items is not None:
                found.append(_joined(items, len(its)))
            yield its, found

    def _alone(self, value: bytes) -> Sequence[Any]:
        number, begin = (0, 0) if self._heads is None else self._heads.skip(value)
        if number is None:
            return [None] * len(self._kinds)
        try:
            found, unknown = self._single[number](value[begin:])
        except UnicodeDecodeError:
            raise Misfit("a text is not UTF-8") from None
        if self._by_type:
            its = dict(zip(self._names[number], found, strict=True))
            found = [its if n == number else None for n in range(self._types)]
        return [*found, unknown or None] if self._unknown else found


def _behind_heads(cursors: Cursors, rows: Rows, heads: Heads) -> Iterator[tuple[int, Rows]]:
    """Go behind the heads of values; yield by message those that have the usual one of a schema."""
    found = cursors.fixed(rows, heads.size).dictionary_encode()
    numbers = found.indices.to_numpy()
    for number, head in enumerate(found.dictionary.to_pylist()):
        try:
            places = heads.behind(head)
        except Misfit:
            continue  # each is told why by itself
        its = rows[numbers == number]
        for message, place in places:
            its = its[~cursors.marked[its]]
            long = its[cursors.end[its] - cursors.at[its] >= len(place)]
            equal: Any = pc.equal(cursors.peek(long, len(place)), pa.scalar(place, pa.binary()))
            there = long[equal.to_numpy(zero_copy_only=False)]
            cursors.skip(there, np.full(len(there), len(place)))
            yield message, there
            its = np.setdiff1d(its, there)


def _joined(items: Items, count: int) -> Any:
    """Return the pieces of each row as one value, null where there are none."""
    places, (pieces,), _ = items.lists(pa.binary())
    if not len(pieces):
        return pa.nulls(count, pa.binary())
    _, offsets, data = pieces.buffers()
    ends = np.frombuffer(offsets, np.int32)[pieces.offset :][places.to_numpy()]
    empty = ends[1:] == ends[:-1]
    held = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends.tobytes()), data])
    return pc.if_else(pa.array(empty), pa.scalar(None, pa.binary()), held)
