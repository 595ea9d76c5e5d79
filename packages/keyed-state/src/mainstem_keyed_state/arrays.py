"""Arrow's arrays between Spark and Polars: values are the same, types are not all.

Polars is not loaded here: the workers that pack rows, and those that hand on what a step made, need none.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

#: An Arrow array of any type.
Array = Any


def to_plain(array: Array) -> Array:
    """Return an Arrow array of Spark's as one that Polars reads: maps become lists of structs."""
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return array.cast(pa.timestamp("us", "UTC"))  # the instant stays
    if not _has_map(kind):
        return array
    if pa.types.is_map(kind):
        array = _as_list(array)
        kind = array.type
    if pa.types.is_list(kind):
        values = to_plain(array.values)
        return _lists(array, values, pa.list_(values.type))
    children = [to_plain(array.field(i)) for i in range(kind.num_fields)]
    return pa.StructArray.from_arrays(
        children, names=[f.name for f in kind], mask=array.is_null() if array.null_count else None
    )


def _as_list(array: Array) -> Array:
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return _lists(array, entries, pa.list_(entries.type))


def _lists(of: Array, values: Array, kind: Any) -> Array:
    """Return lists as long as those of another array, with other values, or maps with other entries."""
    made = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
    validity, offsets = of.buffers()[:2]
    where = [validity, offsets]
    return made.from_buffers(kind, len(of), where, of.null_count, of.offset, [values])


def from_plain(array: Array, wanted: Any) -> Array:
    """Return an Arrow array of Polars' as one of Spark's type; the other end of `to_plain`."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_map(wanted):
        listed = from_plain(array, pa.list_(pa.struct([wanted.key_field, wanted.item_field])))
        return _lists(listed, listed.values, wanted)
    if pa.types.is_list(wanted) and _has_map(wanted):
        array = array.cast(pa.list_(array.type.value_type))  # from 64-bit offsets
        return _lists(array, from_plain(array.values, wanted.value_type), wanted)
    if pa.types.is_struct(wanted):
        children = [from_plain(array.field(i), f.type) for i, f in enumerate(wanted)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    return array.cast(wanted)


def record_batch(rows: Any) -> pa.RecordBatch:
    """Return a Polars frame as one record batch, sound for Arrow's messages.

    Lists that are all empty can come from Polars with elements that begin where there are none. Arrow
    then writes their buffer with a length below zero, and what stands behind it is read from elsewhere.
    """
    from polars import CompatLevel

    table = rows.rechunk().to_arrow(compat_level=CompatLevel.oldest())
    batch: pa.RecordBatch
    (batch,) = table.combine_chunks().to_batches()
    if not any(field.type.num_fields for field in batch.schema):
        return batch
    return pa.RecordBatch.from_arrays([_sound(each) for each in batch.columns], schema=batch.schema)


def _sound(array: Array) -> Array:
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values, (validity, offsets) = array.values, array.buffers()[:2]
        if not len(values):
            made, offsets = pa.array([], kind.value_type), pa.py_buffer(bytes(offsets.size))
        elif (made := _sound(values)) is values:
            return array
        of = type(array)
        return of.from_buffers(
            kind, len(array), [validity, offsets], array.null_count, array.offset, [made]
        )
    if pa.types.is_struct(kind) and kind.num_fields:
        given = [array.field(i) for i in range(kind.num_fields)]
        children = [_sound(each) for each in given]
        if any(one is not other for one, other in zip(children, given, strict=True)):
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return array


def _has_map(kind: Any) -> bool:
    if pa.types.is_map(kind):
        return True
    if pa.types.is_timestamp(kind):
        return kind.tz not in (None, "UTC")
    return (
        any(_has_map(kind.field(i).type) for i in range(kind.num_fields))
        if kind.num_fields
        else False
    )
