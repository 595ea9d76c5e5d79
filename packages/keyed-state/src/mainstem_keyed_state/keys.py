"""The values of a row's key, as one column of bytes, made in Spark.

They are exact, and the same for values that SQL holds equal (1 and 1.0, -0.0 and 0.0), whichever port
they come from. State is kept under them (`hashes` puts their hash before them), so the same values must
give the same bytes in every later version, too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Any

from mainstem import OptionError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

#: The column of rows that are shown with their key's values, as text.
KEY_TEXT = "_key"
#: Types of one row of these give the same bytes for the same value.
_ALIKE = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))


@dataclass(frozen=True)
class KeyKind:
    """What kind of keys there are.

    Attributes:
        types: the types of the values, as Spark writes them.
        nulls_equal: whether null equals null; else a row with a null among its values has no key.
    """

    types: tuple[str, ...]
    nulls_equal: bool = False

    @staticmethod
    def of(
        ports: Mapping[str, tuple[DataFrame, Sequence[str]]], *, nulls_equal: bool = False
    ) -> KeyKind:
        """Return what kind of keys the ports have together.

        Args:
            ports: frame and key expressions (SQL over the frame) by port, as many for each.

        Raises:
            OptionError: the ports have other numbers of expressions, or of types that can't be equal.
        """
        counts = {port: len(key) for port, (_, key) in ports.items()}
        if len(set(counts.values())) > 1 or 0 in counts.values():
            told = ", ".join(f"{port} has {count}" for port, count in counts.items())
            raise OptionError(f"every port needs as many key columns as the others: {told}")
        parts = {port: frame.selectExpr(*_named(key)) for port, (frame, key) in ports.items()}
        for fields in zip(*(part.schema for part in parts.values()), strict=True):
            values = [field.dataType for field in fields]
            families = {_family(value) for value in values}
            if len(families) > 1 or "" in families:
                named = zip(ports, values, strict=True)
                told = ", ".join(f"{port}: {kind.simpleString()}" for port, kind in named)
                message = f"keys of these types can't be compared: {told}"
                hint = (
                    "Bring them to one type with `select`: numbers, text, times, BOOLEAN or BINARY."
                )
                raise OptionError(message, hint=hint)
        whole: Any = None
        for part in parts.values():
            whole = part if whole is None else whole.unionAll(part)  # for its types; never run
        types = tuple(field.dataType.simpleString() for field in whole.schema)
        return KeyKind(types, nulls_equal)

    def fits(self, other: KeyKind) -> bool:
        """Whether the same values give the same bytes."""
        return (
            self.nulls_equal == other.nulls_equal
            and len(self.types) == len(other.types)
            and all(
                one == another or any(one in alike and another in alike for alike in _ALIKE)
                for one, another in zip(self.types, other.types, strict=True)
            )
        )

    def sql(self, key: Sequence[str]) -> str:
        """Return the SQL that makes one value of the values of some expressions; null for no key."""
        parts = [_bytes(value, kind) for value, kind in zip(key, self.types, strict=True)]
        if self.nulls_equal:
            parts = [f"coalesce(concat(X'01', {part}), X'00')" for part in parts]
        if len(parts) > 1:
            parts = [f"{_four_bytes(f'octet_length({part})')}, {part}" for part in parts]
        return f"concat({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def of_texts(self, texts: Sequence[str]) -> bytes:
        """Return the value that `sql` makes of the values which some texts stand for.

        Args:
            texts: one for each value; of BINARY hexadecimal digits.

        Raises:
            PipelineError: there is another number of them, or one is of another type.
        """
        if len(texts) != len(self.types):
            told = f"the key has {len(self.types)} values ({', '.join(self.types)})"
            raise PipelineError(f"{told}, not {len(texts)}")
        parts = [_of_text(text, kind) for text, kind in zip(texts, self.types, strict=True)]
        if self.nulls_equal:
            parts = [b"\1" + part for part in parts]
        if len(parts) > 1:
            parts = [len(part).to_bytes(4, "big") + part for part in parts]
        return b"".join(parts)

    def texts(self, key: bytes | None) -> list[str | None]:
        """Return the values of a key as they can be read; BINARY as hexadecimal digits."""
        if key is None:
            return [None] * len(self.types)
        rest, parts = key[4:], []
        for _ in self.types:
            if len(self.types) > 1:
                size = int.from_bytes(rest[:4], "big")
                part, rest = rest[4 : 4 + size], rest[4 + size :]
            else:
                part = rest
            parts.append(part)
        if self.nulls_equal:
            found = [None if part == b"\0" else part[1:] for part in parts]
        else:
            found = list(parts)
        return [
            None if part is None else _text(part, kind)
            for part, kind in zip(found, self.types, strict=True)
        ]


def key_expressions(
    ports: Mapping[str, tuple[DataFrame, Sequence[str]]], *, nulls_equal: bool = False
) -> dict[str, str]:
    """Return the SQL of a key's values at each port; arguments and errors as those of `KeyKind.of`."""
    kind = KeyKind.of(ports, nulls_equal=nulls_equal)
    return {port: kind.sql(key) for port, (_, key) in ports.items()}


def _named(key: Sequence[str]) -> list[str]:
    return [f"({expression}) AS k{number}" for number, expression in enumerate(key)]


def _family(found: DataType) -> str:
    """Return what kind of values these are; only those of one kind compare."""
    from pyspark.sql import types as T  # noqa: N812

    if isinstance(found, T.StringType):
        return "text" if found.isUTF8BinaryCollation() else ""
    if isinstance(found, T.NumericType):
        return "number"
    if isinstance(found, T.DateType | T.TimestampType | T.TimestampNTZType):
        return "time"
    if isinstance(found, T.BooleanType | T.BinaryType):
        return found.simpleString()
    return ""


def _four_bytes(number: str) -> str:
    return f"unhex(lpad(hex({number}), 8, '0'))"


def _bytes(expression: str, kind: str) -> str:
    """Return the SQL of a value's bytes."""
    value = f"CAST(({expression}) AS {kind})"
    if kind == "binary":
        return value
    if kind in ("float", "double"):
        # Hexadecimal text is the value's bits; how Java writes a decimal text has changed once.
        text = f"format_string('%a', CAST({value} AS DOUBLE) + 0.0D)"
        return f"CAST(IF({value} IS NULL, NULL, {text}) AS BINARY)"
    if kind == "timestamp":
        value = f"unix_micros({value})"
    elif kind == "timestamp_ntz":
        value = f"unix_micros(CAST(CAST({value} AS STRING) || 'Z' AS TIMESTAMP))"
    elif kind == "date":
        value = f"unix_date({value})"
    return f"CAST(CAST({value} AS STRING) AS BINARY)"


def _of_text(text: str, kind: str) -> bytes:
    """Return a value's bytes, as the SQL of `_bytes` makes them of what a text stands for."""
    try:
        return _VALUES[kind.partition("(")[0]](text, kind)
    except (ArithmeticError, ValueError):
        raise PipelineError(f"{text!r} is no {kind.upper()}") from None
    except KeyError:
        raise PipelineError(f"no text stands for a {kind.upper()}") from None


def _of_number(text: str, kind: str) -> bytes:
    value = float(text)
    if kind == "float":
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    value += 0.0
    if math.isnan(value):
        return b"NaN"
    if math.isinf(value):
        return b"Infinity" if value > 0 else b"-Infinity"
    digits, _, exponent = value.hex().partition("p")
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}p{int(exponent)}".encode()


def _of_decimal(text: str, kind: str) -> bytes:
    digits, _, scale = kind.partition("(")[2].rstrip(")").partition(",")
    with localcontext(prec=76):
        value = Decimal(text).quantize(Decimal(1).scaleb(-int(scale)), ROUND_HALF_UP)
    if abs(value).scaleb(int(scale)) >= 10 ** int(digits):
        raise ValueError(text)
    return f"{abs(value) if value.is_zero() else value:f}".encode()


def _of_time(text: str, kind: str) -> bytes:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or kind == "timestamp_ntz":
        at = at.replace(tzinfo=UTC)
    return str((at - _EPOCH) // timedelta(microseconds=1)).encode()


def _of_boolean(text: str, _: str) -> bytes:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower().encode()


def _of_whole(text: str, kind: str) -> bytes:
    value, most = int(text), 1 << (_BITS[kind] - 1)
    if not -most <= value < most or "_" in text:
        raise ValueError(text)
    return str(value).encode()


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES: Mapping[str, Callable[[str, str], bytes]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _of_whole),
    **dict.fromkeys(("float", "double"), _of_number),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _of_time),
    "decimal": _of_decimal,
    "boolean": _of_boolean,
    "binary": lambda text, _: bytes.fromhex(text),
    "date": lambda text, _: str((date.fromisoformat(text) - _EPOCH.date()).days).encode(),
    "string": lambda text, _: text.encode(),
}


def _text(part: bytes, kind: str) -> str:
    if kind == "binary":
        return part.hex()
    text = part.decode(errors="replace")
    if kind in ("float", "double"):
        return repr(float.fromhex(text)) if text.startswith(("0x", "-0x")) else text
    try:
        if kind == "date":
            return (date(1970, 1, 1) + timedelta(days=int(text))).isoformat()
        if kind in ("timestamp", "timestamp_ntz"):
            at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text))
            return at.isoformat() if kind == "timestamp" else at.replace(tzinfo=None).isoformat()
    except OverflowError:  # in a year that Python has not
        unit = "days" if kind == "date" else "microseconds"
        return f"1970-01-01 {int(text):+d} {unit}"
    return text
