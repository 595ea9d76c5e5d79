"""Types: Spark's as columns of each product, and which columns that are there can hold them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.types import TypeEngine

from mainstem_database_sql.type_support import DECIMAL

#: Text and bytes in a key of MySQL's need a length: that many characters, or bytes.
KEY_LENGTH = 255
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def column_type(kind: str, dialect: sa.Dialect, *, key: bool = False) -> TypeEngine[Any]:
    """Return the type of a new column for a Spark type that can be held (see `holding`).

    Args:
        key: whether the column is part of a key.
    """
    name = dialect.name
    decimal = DECIMAL.fullmatch(kind)
    if decimal:
        # SQLite would make a binary float of it.
        return sa.Text() if name == "sqlite" else sa.Numeric(int(decimal[1]), int(decimal[2]))
    if kind.startswith(("char(", "varchar(")):
        kind = "string"
    if name == "mysql":
        return _mysql(kind, dialect, key=key)
    if name == "sqlite" and kind in ("date", "timestamp", "timestamp_ntz"):
        return sa.Text()
    return _PLAIN[kind]


_PLAIN: dict[str, TypeEngine[Any]] = {
    "boolean": sa.Boolean(),
    "tinyint": sa.SmallInteger(),
    "smallint": sa.SmallInteger(),
    "int": sa.Integer(),
    "bigint": sa.BigInteger(),
    "float": sa.Float(24).with_variant(sa.Double(), "sqlite"),
    "double": sa.Double(),
    "string": sa.Text(),
    "binary": sa.LargeBinary(),
    "date": sa.Date(),
    "timestamp": sa.DateTime(timezone=True),
    "timestamp_ntz": sa.DateTime(),
}


def _mysql(kind: str, dialect: sa.Dialect, *, key: bool) -> TypeEngine[Any]:
    if kind == "string":
        # Keys compare as they are: case, accents and blanks at the end count.
        exact = "utf8mb4_nopad_bin" if getattr(dialect, "is_mariadb", False) else "utf8mb4_0900_bin"
        if key:
            return mysql.VARCHAR(KEY_LENGTH, charset="utf8mb4", collation=exact)
        return mysql.LONGTEXT(charset="utf8mb4")
    if kind == "binary":
        return sa.VARBINARY(KEY_LENGTH) if key else mysql.LONGBLOB()
    if kind in ("timestamp", "timestamp_ntz"):
        return mysql.DATETIME(fsp=6)  # of `timestamp`: UTC
    if kind == "float":
        return sa.Double()  # FLOAT is shown with six digits
    if kind == "tinyint":
        return mysql.TINYINT()
    return _PLAIN[kind]


def misfit(kind: str, there: TypeEngine[Any], dialect: sa.Dialect) -> bool:
    """Whether a column that is there can't hold a Spark type, or would change its values.

    What a database checks by itself, row by row (lengths, ranges, formats of text), does not count; that
    it fills up what has a fixed length does.
    """
    if isinstance(there, postgresql.DOMAIN):
        there = there.data_type
    decimal = DECIMAL.fullmatch(kind)
    text = isinstance(there, sa.String)
    if dialect.name == "sqlite":
        return _sqlite_misfit(kind, there)
    if isinstance(there, sa.types.NullType):  # a type of the database's own, such as an extension's
        return kind != "string"
    if kind in _INTEGERS:
        return not _holds_integers(there, _INTEGERS[kind])
    if kind in ("float", "double"):
        if dialect.name == "mysql" and getattr(there, "scale", None) is not None:
            return True  # FLOAT(M,D) rounds
        wide = isinstance(there, sa.Double | postgresql.DOUBLE_PRECISION | mysql.DOUBLE)
        return not (wide or (kind == "float" and isinstance(there, sa.Float)))
    if decimal:
        return not _holds_decimals(there, int(decimal[1]), int(decimal[2]))
    if kind == "binary":
        return isinstance(there, sa.BINARY) or not isinstance(
            there, sa.LargeBinary | sa.types._Binary
        )
    if kind == "boolean":
        return not isinstance(there, sa.Boolean | mysql.TINYINT)
    if kind == "date":
        return not isinstance(there, sa.Date)
    if kind in ("timestamp", "timestamp_ntz"):
        zoned = kind == "timestamp" and dialect.name == "postgresql"
        there_zoned = isinstance(there, sa.DateTime) and bool(there.timezone)
        return not _holds_times(there, dialect) or (zoned and not there_zoned)
    # Text goes into whatever reads text: JSON, UUID, enums, addresses; not into numbers and bytes, nor
    # into times, which lose a zone, a fraction or half of them.
    other = isinstance(there, _NUMBERS | _CHANGING | sa.types._Binary)
    return isinstance(there, sa.CHAR | mysql.SET) or (not text and other)


#: In SQLAlchemy 2.1 a Float is no Numeric any more.
_NUMBERS: Any = sa.Numeric | sa.Float | sa.Integer | sa.Boolean


#: What makes other values of texts, without a word.
_CHANGING: Any = (
    sa.Date
    | sa.DateTime
    | sa.Time
    | sa.Interval
    | postgresql.INTERVAL
    | postgresql.MONEY
    | postgresql.BIT
    | mysql.YEAR
    | mysql.BIT
)


def _holds_times(there: TypeEngine[Any], dialect: sa.Dialect) -> bool:
    """Whether a column has six digits of a second; others round, without a word."""
    if dialect.name == "mysql":
        return isinstance(there, mysql.DATETIME | mysql.TIMESTAMP) and there.fsp == 6
    return isinstance(there, sa.DateTime) and getattr(there, "precision", None) in (None, 6)


def _sqlite_misfit(kind: str, there: TypeEngine[Any]) -> bool:
    """SQLite keeps what it is given, but for what a column makes numbers, or other numbers, of."""
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return isinstance(there, _NUMBERS)
    if kind == "string" or DECIMAL.fullmatch(kind):
        return isinstance(there, _NUMBERS | sa.Date | sa.DateTime | sa.Time | sa.JSON)
    if kind == "bigint" and isinstance(there, sa.Float):  # exact up to 2**53
        return True
    return kind not in ("binary",) and isinstance(there, sa.String)


def _holds_integers(there: TypeEngine[Any], bits: int) -> bool:
    if isinstance(there, sa.Numeric) and not isinstance(there, sa.Float):
        return _holds_decimals(there, len(str(2 ** (bits - 1))), 0)
    if isinstance(there, sa.BigInteger):
        return True
    if isinstance(there, mysql.TINYINT):
        return bits <= 8
    if isinstance(there, sa.SmallInteger):
        return bits <= 16
    return isinstance(there, sa.Integer) and bits <= 32


def _holds_decimals(there: TypeEngine[Any], precision: int, scale: int) -> bool:
    if not isinstance(there, sa.Numeric) or isinstance(there, sa.Float):
        return False
    if there.precision is None:
        return True
    has = there.scale or 0
    return has >= scale and there.precision - has >= precision - scale
