"""What a sink's table holds, and how rows are removed from it, to be compared and put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa
from mainstem import Batch, Changelog, Shape
from mainstem.columns import Column, quoted

from mainstem_database_sql.sink.bulk_load import bound
from mainstem_database_sql.sink.options import SQLSinkOptions
from mainstem_database_sql.sink.target import ID
from mainstem_database_sql.sink.transactions import Transaction
from mainstem_database_sql.sink.writing import Writer
from mainstem_database_sql.source.selecting import Database, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def held(
    options: SQLSinkOptions, writer: Writer, columns: Sequence[Column], shape: Shape,
    take: Callable[[pa.RecordBatch], None],
) -> None:  # fmt: skip
    """Give the rows of the table in the columns that are not reserved, and `_id` of events."""
    writer.prepare(tuple(columns), shape)  # it may not be there yet
    read = [column for column in columns if not column.name.startswith("_")]
    if not isinstance(shape, Changelog):
        read.append(Column(ID, "binary"))
    database = Database(options, read)

    def work(table: Table) -> None:
        for part in table.parts():
            take(part)

    try:
        database.read(work, patiently=False)
    finally:
        database.close()


def rows(options: SQLSinkOptions, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of the table, with those of the columns that it has."""
    database = Database(options, columns)
    found: list[pa.RecordBatch] = []

    def work(table: Table) -> None:
        found.clear()
        found.extend(table.parts())

    try:
        database.read(work)
    finally:
        database.close()
    for part in found:
        yield from part.to_pylist()


def remove(writer: Writer, frame: DataFrame, batch: Batch) -> None:
    """Remove the rows of some keys, and what is remembered of their deletion."""
    names = writer.target.key if isinstance(batch.shape, Changelog) else (ID,)
    keys = frame.selectExpr(*map(quoted, names)).toArrow()
    if not keys.num_rows:
        return

    def work(transaction: Transaction) -> None:
        target = writer.target
        # As they were written: a driver may write a time in another way.
        columns = [bound(keys.column(at), n, target.dialect.name) for at, n in enumerate(names)]
        given = [
            {f"k{at}": value for at, value in enumerate(row)} for row in zip(*columns, strict=True)
        ]
        tables = [target.name, *([target.deleted_name] if target.sequenced else [])]
        for table in tables:
            same = " AND ".join(f"{target.quoted(name)} = :k{at}" for at, name in enumerate(names))
            statement = sa.text(f"DELETE FROM {target.path(table)} WHERE {same}")
            transaction.connection.execute(statement, given)

    writer.transact(work)
