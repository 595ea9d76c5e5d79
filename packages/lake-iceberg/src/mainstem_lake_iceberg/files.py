"""Reads Parquet files into a table's columns by the ids of fields, with every null where it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds
from mainstem import PermanentError

_ID = b"PARQUET:field_id"


def read_file(stream: Any, wanted: pa.Schema, constants: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a file.

    Args:
        stream: the file, open for reading.
        wanted: the columns, with their ids; a column that the file has not is null.
        constants: values of columns that a file may lack, for they are in its manifest.
    """
    file = pq.ParquetFile(stream)
    there = file.schema_arrow
    if not any(_ID in (field.metadata or {}) for field in there):
        raise PermanentError(
            "a file's columns have no ids: it was added as it is, by an engine that must rewrite it"
        )
    at = [_find(field, there) for field in wanted]
    found = file.read(columns=[there.field(each).name for each in at if each is not None])
    columns = []
    for field, place in zip(wanted, at, strict=True):
        if place is not None:
            name = there.field(place).name
            columns.append(arranged(_whole(found.column(name)), field))
        elif field.name in constants:
            value = constants[field.name]
            # Days, as manifests have dates.
            stored: Any = pa.int32() if kinds.is_date32(field.type) else field.type
            columns.append(pa.array([value] * found.num_rows, stored).cast(field.type))
        else:
            columns.append(pa.nulls(found.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=wanted)


def arranged(array: Any, wanted: Any) -> Any:
    """Return values as the table has them: fields by their ids, types that have grown.

    Args:
        array: from its beginning, not a slice.
        wanted: the field.

    Raises:
        PermanentError: it can't be.
    """
    kind, goal = array.type, wanted.type
    if kind.equals(goal, check_metadata=True):
        return array
    if kinds.is_struct(goal) and kinds.is_struct(kind):
        fields = [goal.field(each) for each in range(goal.num_fields)]
        parts = []
        for field in fields:
            place = _find(field, [kind.field(each) for each in range(kind.num_fields)])
            if place is None:
                parts.append(pa.nulls(len(array), field.type))
            else:
                parts.append(arranged(array.field(place), field))
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    made: Any
    if kinds.is_map(goal) and kinds.is_map(kind):
        keys, items = arranged(array.keys, goal.key_field), arranged(array.items, goal.item_field)
        made = pa.MapArray.from_arrays
        return made(array.offsets, keys, items, type=goal, mask=array.is_null())
    if _is_list(goal) and _is_list(kind):
        values = arranged(array.values, goal.value_field)
        made = pa.LargeListArray if kinds.is_large_list(goal) else pa.ListArray
        offsets = array.offsets.cast(pa.int64() if kinds.is_large_list(goal) else pa.int32())
        return made.from_arrays(offsets, values, type=goal, mask=array.is_null())
    try:
        return array.cast(goal)
    except pa.ArrowException as error:
        raise PermanentError(
            f"{wanted.name} is {kind} in a file, and {goal} now: {error}"
        ) from None


def _is_list(kind: Any) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def _find(field: Any, there: Any) -> int | None:
    """Return where a field is, by its id."""
    number = (field.metadata or {}).get(_ID)
    same = [at for at, each in enumerate(there) if (each.metadata or {}).get(_ID) == number]
    return same[0] if same else None


def _whole(column: Any) -> Any:
    """Return a column as one array that is no slice."""
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, column.type)
    return found
