"""Values as the databases give them: which columns can be read as which type of Spark's, exactly."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from mainstem import PipelineError
from mainstem.columns import Column
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

from mainstem_database_sql.type_support import DECIMAL

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_ARROW: dict[str, pa.DataType] = {
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
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return columns as Arrow has them."""
    return pa.schema([pa.field(column.name, _arrow(column.type or "")) for column in columns])


def _arrow(kind: str) -> pa.DataType:
    decimal = DECIMAL.fullmatch(kind)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW[kind]


# -- columns ----------------------------------------------------------------------------------

#: How a column is asked for: as it is, as text that the database makes, as a DOUBLE.
AS_IS, TEXT, DOUBLE = "as it is", "text", "double"


def access(kind: str, there: TypeEngine[Any], dialect: sa.Dialect) -> str | None:
    """Return how a column is asked for, so that it is read as a Spark type; None if it can't be.

    It can be if the type has every value of the column. What the column's own type does not bound
    (all of SQLite's, PostgreSQL's NUMERIC, BIGINT UNSIGNED) is compared with the type value by value.
    """
    if dialect.name == "sqlite":
        return AS_IS
    if isinstance(there, postgresql.DOMAIN):
        there = there.data_type
    decimal = DECIMAL.fullmatch(kind)
    if kind == "string":
        return _as_text(there)
    if kind in _BITS:
        return AS_IS if _whole(there) <= _BITS[kind] else None
    if kind in ("float", "double"):
        return _floating(kind, there, dialect)
    fits: Any
    if decimal:
        fits = _fits_decimal(there, int(decimal[1]), int(decimal[2]))
    elif kind == "binary":
        fits = isinstance(there, sa.types._Binary | mysql.BIT)
    elif kind == "boolean":
        one_bit = isinstance(there, mysql.BIT) and there.length in (None, 1)
        fits = isinstance(there, sa.Boolean | mysql.TINYINT) or one_bit
    elif kind == "date":
        fits = isinstance(there, sa.Date)
    elif dialect.name == "postgresql":
        zoned = kind == "timestamp"
        fits = isinstance(there, sa.DateTime) and bool(there.timezone) is zoned
    else:
        fits = isinstance(there, sa.DateTime)
    return AS_IS if fits else None


def _as_text(there: TypeEngine[Any]) -> str | None:
    if isinstance(there, sa.String):
        return AS_IS
    # What has a type of Spark's is not turned into text on the way: how it looks is nobody's promise.
    typed = (sa.Numeric, sa.Integer, sa.Boolean, sa.Date, sa.DateTime, sa.types._Binary, mysql.BIT)
    return None if isinstance(there, typed) else TEXT


def _whole(there: TypeEngine[Any]) -> int:
    """Return how many bits hold every value of a column of whole numbers; many for others."""
    if isinstance(there, mysql.YEAR):
        return 16
    if isinstance(there, sa.Numeric) and not isinstance(there, sa.Float):
        digits = (there.precision or 99) if not there.scale else 99
        return next(
            (bits for bits, most in ((8, 2), (16, 4), (32, 9), (64, 18)) if digits <= most), 99
        )
    if not isinstance(there, sa.Integer):
        return 99
    unsigned = bool(getattr(there, "unsigned", False))
    if isinstance(there, mysql.TINYINT):
        return 16 if unsigned else 8
    if isinstance(there, sa.SmallInteger):
        return 32 if unsigned else 16
    if isinstance(there, mysql.MEDIUMINT):
        return 32
    if isinstance(there, sa.BigInteger):
        return 64  # unsigned too: values are looked at one by one
    return 64 if unsigned else 32


def _floating(kind: str, there: TypeEngine[Any], dialect: sa.Dialect) -> str | None:
    if not isinstance(there, sa.Float):
        return None
    single = isinstance(there, mysql.FLOAT if dialect.name == "mysql" else sa.REAL)
    if single:
        return DOUBLE  # drivers give the shortest digits, or six of them
    # MySQL has no other column for FLOAT, so each value tells whether it is one.
    return AS_IS if kind == "double" or dialect.name == "mysql" else None


def _fits_decimal(there: TypeEngine[Any], precision: int, scale: int) -> bool:
    if isinstance(there, sa.Integer):
        digits = {8: 3, 16: 5, 32: 10}.get(_whole(there), 19)
        if isinstance(there, mysql.BIGINT) and there.unsigned:
            digits = 20
        return digits <= precision - scale
    if not isinstance(there, sa.Numeric) or isinstance(there, sa.Float):
        return False
    if there.precision is None:
        return True
    has = there.scale or 0
    return has <= scale and there.precision - has <= precision - scale


# -- values -----------------------------------------------------------------------------------


class MisfitError(PipelineError):
    """A value of a table does not fit the type that it is to be read as."""


def as_array(values: Sequence[Any], column: Column, table: str) -> pa.Array[Any]:
    """Return a column's values in Arrow.

    Raises:
        MisfitError: one does not fit the type; names column and table, and not the value.
    """
    kind = column.type or ""
    take, made = taker(kind), _arrow(kind)
    if not column.nullable and None in values:
        raise MisfitError(
            f"table {table}: column {column.name} has a null, and is declared NOT NULL"
        )
    try:
        return pa.array([None if value is None else take(value) for value in values], made)
    except (ValueError, TypeError, ArithmeticError):
        for value in values:
            _check(value, take, column, table)
        raise


def _check(value: Any, take: Callable[[Any], Any], column: Column, table: str) -> None:
    kind = column.type or ""
    try:
        pa.array([None if value is None else take(value)], _arrow(kind))
    except (ValueError, TypeError, ArithmeticError):
        where = f"table {table}: column {column.name} has a value ({type(value).__name__})"
        raise MisfitError(f"{where} that is no {kind.upper()}") from None


def taker(kind: str) -> Callable[[Any], Any]:
    """Return what turns a driver's value into the one of a Spark type; it raises if there is none."""
    decimal = DECIMAL.fullmatch(kind)
    if decimal:
        return partial(_take_decimal, step=Decimal(1).scaleb(-int(decimal[2])))
    return _TAKERS[kind]


def _take_whole(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    raise ValueError("no whole number")


def _take_double(value: Any) -> float:
    if type(value) is float or (type(value) is int and int(float(value)) == value):
        return float(value)
    raise ValueError("no such number")


def _take_float(value: Any) -> float:
    number = _take_double(value)
    if number == number and struct.unpack("f", struct.pack("f", number))[0] != number:
        raise ValueError("has more digits")
    return number


_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def _take_decimal(value: Any, step: Decimal) -> Decimal:
    if type(value) is float:  # of SQLite, which keeps a number of up to 15 digits as one
        value = Decimal(repr(value))
    elif type(value) is int or (type(value) is str and _NUMBER.fullmatch(value)):
        value = Decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError("no such number")
    return value.quantize(step, context=_EXACT)


def _take_boolean(value: Any) -> bool:
    found = {0: False, 1: True, b"\x00": False, b"\x01": True}.get(
        value if isinstance(value, int | bytes) else None
    )
    if found is None:
        raise ValueError("neither 0 nor 1")
    return found


def _take_string(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def _take_binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise ValueError("no bytes")
    return bytes(value)


def _take_date(value: Any) -> date:
    if type(value) is date:
        return value
    if type(value) is str and len(value) == len("2000-01-01"):
        return date.fromisoformat(value)
    raise ValueError("no date")


def _take_time(value: Any) -> datetime:
    if type(value) is str:
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError("no time")
    return value  # one without a zone is in UTC


def _take_local_time(value: Any) -> datetime:
    found = _take_time(value)
    if found.tzinfo is not None:
        raise ValueError("has a zone")
    return found


_TAKERS: dict[str, Callable[[Any], Any]] = {
    "boolean": _take_boolean,
    "tinyint": _take_whole,
    "smallint": _take_whole,
    "int": _take_whole,
    "bigint": _take_whole,
    "float": _take_float,
    "double": _take_double,
    "string": _take_string,
    "binary": _take_binary,
    "date": _take_date,
    "timestamp": _take_time,
    "timestamp_ntz": _take_local_time,
}
