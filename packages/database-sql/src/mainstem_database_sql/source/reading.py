"""One read of a table: who plans its batches, and what a task does."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem import Planner, Reading, quoted

from mainstem_database_sql.source import storing
from mainstem_database_sql.source.polling import Polls
from mainstem_database_sql.source.snapshots import Snapshots
from mainstem_database_sql.source.source import SQLSourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TableReading(Reading):
    """One read of a node's table.

    `folder` is the node's durable folder, `key` names the read, `follows` says that it is a run of
    the pipeline and no preview or replay, `since` is the first time that is polled, in UTC, `tasks`
    how many read at once.
    """

    options: SQLSourceOptions
    folder: Path
    key: str
    follows: bool
    since: datetime | None
    tasks: int

    def schema(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.options.table_schema)

    def planner(self) -> Planner:
        """Return what plans the batches; it has not connected yet."""
        return Snapshots(self) if self.options.mode == "snapshot" else Polls(self)

    def read(self, part: storing.Rows, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        # A task reads files, and nothing else.
        yield from storing.read(*part, schema)
