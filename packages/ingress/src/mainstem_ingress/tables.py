"""One receiver, many tables: rows that come out of named outputs of their source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem import Changelog, Shape
from mainstem.columns import arrow_type, quoted

if TYPE_CHECKING:
    import pyarrow as pa

#: The reserved columns of a changelog, which its rows have beside those of its shape.
_CHANGES = "_change_type: STRING, _commit_version: {sequence}, _commit_timestamp: TIMESTAMP"


def tables_ddl(tables: Mapping[str, Shape]) -> str:
    """Return the columns that a log has for rows of tables: which, and a struct for each.

    Raises:
        TypeError: a column's type is not declared.
    """
    structs = [
        f"{quoted(f'_{name}')} STRUCT<{_fields(name, shape)}>" for name, shape in tables.items()
    ]
    return ", ".join(("_output STRING", *structs))


def _fields(name: str, shape: Shape) -> str:
    for column in shape.columns:
        if column.type is None:
            raise TypeError(
                f"the table {name} of a source has a column without a type: {column.name}"
            )
    fields = ", ".join(f"{quoted(c.name)}: {c.type}" for c in shape.columns)
    if not isinstance(shape, Changelog):
        return fields
    return f"{fields}, {_CHANGES.format(sequence=shape.sequence_type or 'BIGINT')}"


def row_of(tables: Iterable[str], name: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a row of a table adds to `Message.extra`.

    Args:
        tables: the names of `IngressSource.tables`, in their order.
        name: the table's.
        values: the row's, by column; what is left out is null.
    """
    return (name, *(dict(values) if each == name else None for each in tables))


def no_row(tables: Iterable[str]) -> tuple[Any, ...]:
    """Return what a message that is of no table adds to `Message.extra`, where there are tables."""
    return (None, *(None for _ in tables))


def struct_type(name: str, shape: Shape) -> pa.DataType:
    """Return the type of a table's rows in a log."""
    return arrow_type(f"struct<{_fields(name, shape)}>")


def columns_of(kind: Any, columns: Mapping[str, Any]) -> pa.StructArray:
    """Return rows of a table, given their columns as Arrow arrays, for `Columns`.

    Args:
        kind: what `struct_type` returned.
        columns: by name, of the columns' types; what is left out is null.
    """
    import pyarrow as pa

    count = len(next(iter(columns.values())))
    fields = [kind.field(at) for at in range(kind.num_fields)]
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)
