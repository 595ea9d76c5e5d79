"""Nulls of any type, for frames that hold nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

#: A column of text in which nothing ever is.
NOTHING = "nothing"


def unknown_null(kind: DataType) -> Column:
    """Return a null of a type, over a frame that has the column `NOTHING`, which holds nothing.

    Not a literal: where a batch has none but control rows on one side of a join, Spark would see that
    its keys are null, and drop the join from the batch, with the other side's rows.
    """
    nothing = F.col(NOTHING)
    if isinstance(kind, ArrayType):
        value = F.array(unknown_null(kind.elementType))
    elif isinstance(kind, MapType):
        value = F.create_map(unknown_null(kind.keyType), unknown_null(kind.valueType))
    elif isinstance(kind, StructType):
        value = F.struct(*(unknown_null(f.dataType).alias(f.name) for f in kind.fields))
    else:
        return F.lit(None) if isinstance(kind, NullType) else nothing.cast(kind)
    return F.when(nothing.isNotNull(), value)
