"""For authors of components: columns, by name and type, as documents, options and SQL have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem.contracts.columns import LOG_ORDER as LOG_ORDER
from mainstem.contracts.columns import check_fields as check_fields
from mainstem.contracts.columns import check_maps as check_maps
from mainstem.contracts.columns import check_names as check_names
from mainstem.contracts.columns import check_order as check_order
from mainstem.contracts.columns import check_types as check_types
from mainstem.contracts.columns import find_column as find_column
from mainstem.contracts.columns import json_sql as json_sql
from mainstem.contracts.columns import odd_key as odd_key
from mainstem.contracts.columns import version_sql as version_sql
from mainstem.contracts.columns import with_unknown as with_unknown
from mainstem.contracts.ddl import Column as Column
from mainstem.contracts.ddl import literal as literal
from mainstem.contracts.ddl import parts_of as parts_of
from mainstem.contracts.ddl import quoted as quoted
from mainstem.contracts.ddl import read_columns as read_columns
from mainstem.contracts.ddl import unquoted as unquoted
from mainstem.contracts.far_times import FAR_TIME as FAR_TIME
from mainstem.contracts.far_times import far_time as far_time
from mainstem.contracts.shapes import EVENT_TIME as EVENT_TIME
from mainstem.contracts.templates import Template as Template
from mainstem.contracts.templates import TemplateText as TemplateText

if TYPE_CHECKING:
    import pyarrow as pa

#: Types that Spark and Arrow share; `array`, `map` and `struct` of these.
_SHARED = frozenset(
    (
        *(
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "decimal",
            "string",
        ),
        *("binary", "date", "timestamp", "timestamp_ntz", "array", "map", "struct"),
    )
)


def has_arrow_type(kind: str) -> bool:
    """Whether values of a type, in Spark's short form, can be held by Arrow as well; imports no Arrow."""
    word = kind.partition("<")[0].partition("(")[0]
    return word in _SHARED and all(has_arrow_type(part.type or "") for part in parts_of(kind))


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a column.

    Args:
        kind: the type in Spark's short form, as `Column.type` has it.

    Raises:
        ValueError: there is none; see `has_arrow_type`.
    """
    from mainstem.formats.kinds import arrow_type as found

    made: pa.DataType = found(kind)
    return made


def evolved(
    rows: pa.RecordBatch, schema: pa.Schema, made: Mapping[str, Callable[[], pa.Array[Any]]] = {}
) -> pa.RecordBatch:
    """Return rows that were stored some time ago in the columns that there are now.

    Columns, and fields of a struct, are found by name; one that is new is null, and one that is gone is
    left out.

    Args:
        rows: as they were stored.
        schema: of what is returned.
        made: by name, what makes a column that the rows do not have.

    Raises:
        ValueError: a value does not fit into its column's type of now; the text says which.
    """
    import pyarrow as pa

    columns = []
    for field in schema:
        if field.name in rows.schema.names:
            array = rows.column(field.name)
        elif field.name in made:
            array = made[field.name]()
        else:
            array = pa.nulls(rows.num_rows, field.type)
        try:
            columns.append(_as(array, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(
                f"the column {field.name} was {array.type}, and it is {field.type} now: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    import pyarrow as pa

    if array.type == kind:
        return array
    if isinstance(array, pa.StructArray) and pa.types.is_struct(kind):
        known = {array.type.field(n).name: n for n in range(array.type.num_fields)}
        fields: list[Any] = [
            _as(array.field(known[f.name]), f.type)
            if f.name in known
            else pa.nulls(len(array), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    return array.cast(kind)
