"""The types of columns as Arrow has them."""

from __future__ import annotations

from mainstem.contracts.ddl import parts_of
from mainstem.formats.arrow import DataType, pa
from mainstem.formats.words import decimal_of, word_of

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    #: Read as JSON text, of which Spark then makes the variant.
    "variant": pa.string(),
}


def arrow_type(kind: str) -> DataType:
    """Return the Arrow type of a column.

    Args:
        kind: the type in Spark's short form.

    Raises:
        ValueError: no format has values of that type.
    """
    word = word_of(kind)
    if word in _SIMPLE:
        return _SIMPLE[word]
    if word == "decimal":
        return pa.decimal128(*decimal_of(kind))
    parts = parts_of(kind)
    if word == "array":
        return pa.list_(arrow_type(parts[0].type or ""))
    if word == "map":
        return pa.map_(*(arrow_type(part.type or "") for part in parts))
    if word == "struct":
        return pa.struct([pa.field(p.name, arrow_type(p.type or "")) for p in parts])
    raise ValueError(f"no format has values of type {kind}")
