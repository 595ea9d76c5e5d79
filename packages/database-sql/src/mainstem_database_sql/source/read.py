"""One read of a table, as those who plan its batches are given it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mainstem_database_sql.source.options import SQLSourceOptions


@dataclass(frozen=True)
class TableRead:
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
