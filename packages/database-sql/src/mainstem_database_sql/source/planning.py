"""One reading of a node, and who plans its batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mainstem_database_sql.source.polling import Polls
from mainstem_database_sql.source.selecting import Database
from mainstem_database_sql.source.snapshots import Snapshots
from mainstem_database_sql.source.source import SQLSourceOptions


@dataclass(frozen=True)
class Given:
    """What one reading of a node is.

    `folder` is the node's durable folder, `key` names the reading, `follows` says that it is a run of
    the pipeline and no preview or replay, `since` is the first time that is polled, in UTC, `tasks`
    how many read at once.
    """

    options: SQLSourceOptions
    folder: Path
    key: str
    follows: bool
    since: datetime | None
    tasks: int

    def planner(self) -> Snapshots | Polls:
        """Return what plans the batches; it has not connected yet."""
        o = self.options
        database = Database(o, o.table_schema)
        if o.mode == "snapshot":
            return Snapshots(
                database, self.folder, self.key, follows=self.follows, max_rows=o.max_rows
            )
        assert o.settle is not None  # noqa: S101
        return Polls(
            database,
            self.folder,
            self.key,
            follows=self.follows,
            column=o.polled,
            settle=o.settle,
            every=o.every,
            max_rows=o.max_rows,
            since=self.since,
        )
