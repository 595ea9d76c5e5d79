"""The options of the source `sql`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from mainstem import PositiveDuration, Schema, option
from mainstem.columns import Column, find_column
from mainstem_database.options import DatabaseOptions


class SQLSourceOptions(DatabaseOptions):
    """Options of the source `sql`."""

    table_schema: Schema = option(
        alias="schema",
        description="The columns that are read, with the types that they get; each must have every "
        "value of the table's column.",
        example="id BIGINT, name STRING",
    )
    mode: Literal["snapshot", "poll"] = option(
        "snapshot",
        description="`snapshot`: the table as it is when the checkpoint begins, once. `poll`: rows "
        "whose `column` has grown, again and again.",
    )
    key: tuple[str, ...] = option(
        (),
        description="The columns that tell a row of the table from every other, for sinks that need "
        "that. When polled, `column` is added to them.",
        example=["id"],
    )
    column: str | None = option(
        None,
        description="With `mode: poll`, the column that grows whenever a row is written: a whole "
        "number, a DECIMAL, a TIMESTAMP or a TIMESTAMP_NTZ (in UTC).",
        example="updated_at",
    )
    settle: PositiveDuration | None = option(
        None,
        description="With `mode: poll`, how late a row may be committed after it got its `column`: "
        "one that comes later is never read. Rows come so much later, too.",
        example="10 seconds",
    )
    every: PositiveDuration = option(
        timedelta(seconds=1), description="With `mode: poll`, the shortest time between two looks."
    )
    max_rows: int = option(
        100_000,
        gt=0,
        description="The most rows of a batch. Rows with one value of `column` are not parted.",
    )

    @property
    def polled(self) -> Column:
        """The column of `column`.

        Raises:
            OptionError: it is not in the schema.
        """
        return find_column(self.table_schema, self.column or "", "column")
