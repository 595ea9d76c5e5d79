"""One read of a table: who plans its batches, and what a task does."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from mainstem import Planner, Reading
from mainstem.columns import quoted

from mainstem_database_sql.source import storing
from mainstem_database_sql.source.polling import Polls
from mainstem_database_sql.source.read import TableRead
from mainstem_database_sql.source.snapshots import Snapshots

if TYPE_CHECKING:
    import pyarrow as pa


class TableReading(TableRead, Reading):
    """One read of a node's table: its planner, and what a task of it does."""

    def schema(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.options.table_schema)

    def planner(self) -> Planner:
        """Return what plans the batches; it has not connected yet."""
        return Snapshots(self) if self.options.mode == "snapshot" else Polls(self)

    def read(self, part: storing.Rows, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        # A task reads files, and nothing else.
        yield from storing.read(*part, schema)
