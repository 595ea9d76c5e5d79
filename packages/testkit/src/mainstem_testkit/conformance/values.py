"""Values of every type for the standard tests, and how to compare them, whoever has read them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from mainstem.columns import arrow_type, has_arrow_type, read_columns

#: A time that falls into the hour that the clocks of Europe skip.
EPOCH = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)

#: How the value of a column is made of a row's number, by type; null for other types.
MADE: Mapping[str, Callable[[int], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    "string": "row {}".format,
    "binary": lambda number: b"row %d" % number,
    "double": float,
    "timestamp": lambda number: EPOCH + timedelta(seconds=number),
    "map<string,binary>": lambda number: {"number": b"%d" % number},
}

_TIMES = (
    EPOCH.replace(microsecond=123456),
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(9999, 12, 30, tzinfo=UTC),
)
_TEXTS = (
    "plain", "", " ", " around ", "a,b;c\td", 'say "so"', "it's", "two\nlines", "cr\r\nlf", "back\\slash",
    '\\"', "null", "NULL", "\\N", "#1", "Ærøskøbing 漢字 😀",
)  # fmt: skip
#: Values of each type at its edges; each type is also tried with null.
TYPES: Mapping[str, Sequence[Any]] = {
    "boolean": (True, False),
    "tinyint": (127, -128),
    "smallint": (32767, -32768),
    "int": (2**31 - 1, -(2**31)),
    "bigint": (2**63 - 1, -(2**63)),
    "float": (1.5, 3.4028234663852886e38, float("nan"), float("inf"), float("-inf")),
    "double": (0.1, 5e-324, float("nan"), float("inf"), float("-inf")),
    "decimal(38,18)": (Decimal("12345678901234567890.123456789012345678"), Decimal("-1e-18")),
    "string": _TEXTS,
    "binary": (b"", b"\x00\xff\x10 ", "æ".encode()),
    "date": (date(1500, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    "timestamp": _TIMES,
    "timestamp_ntz": [time.replace(tzinfo=None) for time in _TIMES],
    "interval day to second": (
        timedelta(days=3, hours=4, microseconds=789012),
        timedelta(microseconds=-1),
    ),
    "array<int>": ([1, None, 3], []),
    "map<string,int>": ({"a": 1, "b": None}, {}),
    "struct<a:int,b:string>": ({"a": 1, "b": ""}, {"a": None, "b": "x"}),
    "array<struct<m:map<string,array<decimal(10,2)>>,t:timestamp>>": (
        [{"m": {"k": [Decimal("1.25")]}, "t": _TIMES[0]}],
    ),
    "variant": ({"a": [1, None, "x"], "b": {"c": True}}, [], "text"),
}  # fmt: skip


def plain(value: Any, *, local: bool) -> Any:
    """Return a value so that equal ones compare equal, whoever has read them.

    Args:
        local: times without a zone are in this machine's, as Spark gives them.
    """
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo or local else value
    if hasattr(value, "toPython"):  # Spark's variant
        value = value.toPython()
    if isinstance(value, bool | int | float):
        return type(value).__name__, value  # or else 1 were True, and 1.0
    value = mapping(value)
    if isinstance(value, Mapping):
        return {key: plain(value[key], local=local) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(item, local=local) for item in value]
    return value


def mapping(value: Any) -> Any:
    """Return a row or struct of Spark's as a mapping, anything else as it is."""
    return value.asDict() if hasattr(value, "asDict") else value


def as_json(value: Any) -> Any:
    """Return a value as Spark reads it from JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    return value


def json_row(schema: str, held: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as `mainstem.columns.json_sql` has written it: with values of its columns' types.

    Args:
        schema: its columns, in DDL; those of types that Arrow does not have come as they are.
        held: the object.
    """
    return {
        column.name: _of_json(
            arrow_type(column.type) if has_arrow_type(column.type or "") else None,  # type: ignore[arg-type]
            held.get(column.name),
        )
        for column in read_columns(schema)
    }


def _of_json(kind: Any, held: Any) -> Any:
    import pyarrow.types as kinds

    if held is None or kind is None:
        return held
    if kinds.is_struct(kind):
        return {field.name: _of_json(field.type, held.get(field.name)) for field in kind}
    if kinds.is_list(kind):
        return [_of_json(kind.value_type, item) for item in held]
    if kinds.is_map(kind):
        return {key: _of_json(kind.item_type, item) for key, item in held.items()}
    readers: Sequence[tuple[Callable[[Any], bool], Callable[[Any], Any]]] = (
        (kinds.is_binary, base64.b64decode),
        (kinds.is_date, date.fromisoformat),
        (kinds.is_timestamp, datetime.fromisoformat),
        (kinds.is_float32, lambda value: struct.unpack("f", struct.pack("f", float(value)))[0]),
        (kinds.is_float64, float),
        (kinds.is_decimal, Decimal),
    )
    return next((read(held) for is_one, read in readers if is_one(kind)), held)


def few(items: Sequence[str]) -> str:
    """Return the first of some texts, and how many more there are."""
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return (", ".join(items[:3]) or "none") + more
