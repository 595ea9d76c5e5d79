"""For authors of components: columns, by name and type, as documents, options and SQL have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.contracts.columns import check_names as check_names
from mainstem.contracts.columns import check_order as check_order
from mainstem.contracts.columns import check_types as check_types
from mainstem.contracts.columns import find_column as find_column
from mainstem.contracts.ddl import Column as Column
from mainstem.contracts.ddl import literal as literal
from mainstem.contracts.ddl import parts_of
from mainstem.contracts.ddl import quoted as quoted
from mainstem.contracts.ddl import read_columns as read_columns

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
