"""Rows from Arrow into a table, as fast as each product takes them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from mainstem import CHANGE_TYPE
from mainstem_database.connecting import Unheld
from pyarrow import csv

from mainstem_database_sql.sink.target import ID, quoted


def load(connection: sa.Connection, path: str, names: Sequence[str], rows: pa.Table) -> None:
    """Put rows into a table.

    Args:
        connection: in a transaction.
        path: the table, quoted for the database (see `Target.path`).
        names: the columns, as they are named in both.
        rows: in Arrow; other columns are left out.

    Raises:
        Exception: the driver's; for what it means see `connecting.meaning`.
    """
    if not rows.num_rows:
        return
    product = connection.dialect.name
    columns = ", ".join(quoted(name, product) for name in names)
    into = f"{path.replace(chr(92) + ':', ':')} ({columns})"
    wanted = rows.select(list(names))
    _near(wanted)
    driver: Any = connection.connection.driver_connection
    if product == "postgresql" and rows.num_rows > _FEW:
        _copy(driver, f"COPY {into} FROM STDIN (FORMAT csv)", wanted)
        return
    mark = "?" if product == "sqlite" else "%s"
    if mark == "%s":
        into = into.replace("%", "%%")
    insert = f"INSERT INTO {into} VALUES ({', '.join([mark] * len(names))})"
    lists = [bound(wanted.column(name), name, product) for name in names]
    values = list(zip(*lists, strict=True))
    with closing(driver.cursor()) as cursor:
        if len(values) == 1:
            cursor.execute(insert, values[0])  # psycopg's executemany costs twice as much
        else:
            cursor.executemany(insert, values)


#: The years 1 to 9999, in days: what is beyond, no driver brings to a database as it is.
_DAYS = (-719_162, 2_932_896)


def _near(rows: pa.Table) -> None:
    """Make sure that all times can be written.

    Raises:
        Unheld: one is beyond the years 1 to 9999.
    """
    for name in rows.column_names:
        column = rows.column(name)
        if _far(column):
            raise Unheld(f"column {name} is beyond the years 1 to 9999")


def _far(column: Any) -> bool:
    """Whether a column has a date or a time beyond the years 1 to 9999."""
    first, last = _DAYS
    if pa.types.is_date32(column.type):
        numbers: Any = pc.cast(column, pa.int32())
    elif pa.types.is_timestamp(column.type):
        numbers = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
        first, last = first * 86_400_000_000, (last + 1) * 86_400_000_000 - 1
    else:
        return False
    limits: Any = pc.min_max(numbers).as_py()
    return limits["min"] is not None and (limits["min"] < first or limits["max"] > last)


# -- PostgreSQL -------------------------------------------------------------------------------

#: Up to so many rows, INSERT is quicker than COPY.
_FEW = 8


def _copy(driver: Any, statement: str, rows: pa.Table) -> None:
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for part in rows.to_batches(max_chunksize=65_536):
            text = io.BytesIO()
            columns = [_text(column) for column in part.columns]
            csv.write_csv(pa.table(columns, names=rows.column_names), text, options)
            copy.write(text.getbuffer())


def _text(column: Any) -> Any:
    """Return a column as PostgreSQL reads it from CSV, if pyarrow writes it otherwise."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(
            [None if value is None else rf"\x{value.hex()}" for value in column.to_pylist()],
            pa.string(),
        )
    if pa.types.is_timestamp(kind):
        return _in_utc(column, "postgresql")
    if pa.types.is_float32(kind):  # its shortest text is another number in DOUBLE PRECISION
        return pc.cast(column, pa.float64())
    return pc.cast(column, pa.string()) if pa.types.is_decimal(kind) else column


def _in_utc(column: Any, product: str) -> Any:
    """Return times as text, in UTC: Arrow writes offsets, such as those of 1800, in whole minutes."""
    text = pc.cast(pc.cast(column, pa.timestamp("us")), pa.string())
    if product != "postgresql" or column.type.tz is None:
        return text
    return pc.binary_join_element_wise(text, pa.scalar("+00"), pa.scalar(""))


# -- MySQL and SQLite -------------------------------------------------------------------------


def bound(column: Any, name: str, product: str) -> list[Any]:
    """Return a column's values as drivers are given them.

    Raises:
        Unheld: one is no value of the product's.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = _in_utc(column, product)
    elif pa.types.is_decimal(kind) or pa.types.is_date(kind):
        column = pc.cast(column, pa.string())
    elif pa.types.is_floating(kind) and product == "sqlite" and pc.any(pc.is_nan(column)).as_py():
        raise Unheld(f"column {name}: SQLite holds no NaN")  # it would make a null of it
    return list(column.to_pylist())


# -- rows by themselves -----------------------------------------------------------------------


def refused(rows: pa.Table, number: int, reason: str) -> dict[str, Any]:
    """Return what is told of a row that the database refuses."""
    one = rows.slice(number, 1)
    for place, name in enumerate(one.column_names):
        if _far(one.column(name)):  # Python has no such times: their number since 1970 is told
            kind = pa.int32() if pa.types.is_date32(one.column(name).type) else pa.int64()
            one = one.set_column(place, name, pc.cast(one.column(name), kind))
    (row,) = one.to_pylist()
    return {"_id": row.get(ID), "reason": reason, "payload": payload(row)}


def payload(row: Mapping[str, Any]) -> bytes:
    """Return a row as JSON, for those who read what was refused."""
    plain = {name: _in_json(value) for name, value in row.items()}
    return json.dumps(plain, default=_shown, ensure_ascii=False, allow_nan=False).encode()


def _in_json(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def known(rows: pa.Table, names: Sequence[str]) -> None:
    """Make sure that rows can be compared with others: a null is neither equal nor older.

    Raises:
        Unheld: one of the columns has a null.
    """
    for name in names:
        if rows.column(name).null_count:
            raise Unheld(f"column {name}, by which rows are compared, is null")


def deletes(rows: pa.Table) -> bool:
    """Whether some changes delete."""
    gone = pc.is_in(rows.column(CHANGE_TYPE), value_set=pa.array(["delete"]))
    return bool(pc.any(gone).as_py())
