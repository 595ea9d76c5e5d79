"""Which rows of Arrow tables are of the same key, and which are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mainstem import CHANGE_TYPE


def places(rows: pa.Table, among: pa.Table, key: Sequence[str]) -> pa.ChunkedArray[Any]:
    """Return for each row where among others its key is; null where it is not.

    Keys are compared column by column: places of what was found so far and of the next column become one
    number, which is made small again.
    """
    found: Any = None
    known: Any = None
    for name in key:
        there = _comparable(among.column(name).combine_chunks())
        values = there.unique()
        given = _comparable(rows.column(name).cast(there.type))
        mine: Any = pc.index_in(given, value_set=values)
        its: Any = pc.index_in(there, value_set=values)
        mine, its = mine.cast(pa.int64()), its.cast(pa.int64())
        if found is None:
            found, known = mine, its
            continue
        width = pa.scalar(len(values), pa.int64())
        both: Any = pc.add(pc.multiply(known, width), its)
        combined = both.unique()
        found = pc.index_in(pc.add(pc.multiply(found, width), mine), value_set=combined)
        known = pc.index_in(both, value_set=combined)
        found, known = found.cast(pa.int64()), known.cast(pa.int64())
    at: Any = pc.index_in(found, value_set=known)
    return at if isinstance(at, pa.ChunkedArray) else pa.chunked_array([at])


def _comparable(values: Any) -> Any:
    """Return values of which those are the same that are equal: of two noughts there is one."""
    return (
        pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
    )


def difference(before: pa.Table, after: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return what has become of rows, as changes by their key.

    Args:
        before: the rows of files that went, one of each key.
        after: those of files that came, with the same columns, one of each key.
    """
    at: Any = places(before, after, key).combine_chunks()
    gone = before.filter(pc.is_null(at))
    left: Any = pc.is_in(pa.array(range(after.num_rows), at.type), value_set=at)
    come: Any = pc.invert(left)
    new = after.filter(come)
    both: Any = pc.is_valid(at)
    was, now = before.filter(both), after.take(at.filter(both))
    changed: Any = pc.invert(_same(was, now))
    parts = [
        _told(gone, "delete"),
        _told(was.filter(changed), "update_preimage"),
        _told(new, "insert"),
        _told(now.filter(changed), "update_postimage"),
    ]
    return pa.concat_tables(parts)


def _told(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(CHANGE_TYPE, pa.array([kind] * rows.num_rows, pa.string()))


def _same(one: pa.Table, other: pa.Table) -> Any:
    """Return which rows are alike, nulls too."""
    same: Any = pa.array([True] * one.num_rows, pa.bool_())
    for name in one.column_names:
        left, right = one.column(name), other.column(name)
        alike: Any
        if pa.types.is_nested(left.type):
            pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
            alike = pa.array([a == b for a, b in pairs], pa.bool_())
        else:
            kind: Any = left.type
            if isinstance(kind, pa.BaseExtensionType):
                left, right = left.cast(kind.storage_type), right.cast(kind.storage_type)
            nulls: Any = pc.and_(pc.is_null(left), pc.is_null(right))
            if pa.types.is_floating(left.type):
                both: Any = pc.and_(pc.is_nan(left), pc.is_nan(right))
                nulls = pc.or_(nulls, pc.fill_null(both, pa.scalar(False)))
            equal: Any = pc.equal(left, right)
            alike = pc.or_(pc.fill_null(equal, pa.scalar(False)), nulls)
        same = pc.and_(same, alike)
    return same
