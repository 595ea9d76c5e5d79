"""Mode `snapshot`: the table once, as it is when the checkpoint begins.

A table that lives can't be read twice with the same result, and Spark must be able to read every
range again. So it is read into a file in the node's durable folder, in one transaction, and from then
on the file is the source. An offset is `{"rows": how many were read, "snapshot": the file's name}`.

All queries of a pipeline read the newest file, so they see one state of the table. A query that has
begun with that one before, and now starts over, takes a new one: `begun/` says who began with which.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem import Offset, PipelineError, Planner, failpoint
from mainstem.durable import made_folder, read_whole, write_whole

from mainstem_database_sql.source import storing
from mainstem_database_sql.source.selecting import Database
from mainstem_database_sql.source.storing import SUFFIX, Rows

if TYPE_CHECKING:
    from mainstem_database_sql.source.read import TableRead

_NAME, _APART = "snapshot-", "apart-"
#: For how long a file is kept that a preview, or a replay, took before there was a run, in seconds.
_APART_KEPT = 7 * 24 * 3600.0


class Snapshots(Planner):
    """Plans the batches of one reading of a table's snapshot.

    Args:
        reading: the reading; nothing is connected yet.
    """

    def __init__(self, reading: TableRead) -> None:
        self._database = Database(reading.options, reading.options.table_schema)
        self._folder = reading.folder
        self._key = reading.key
        self._follows = reading.follows
        self._max_rows = reading.options.max_rows
        self._tasks = reading.tasks
        self._counts: dict[str, int] = {}
        self._marked = ""

    # -- offsets ------------------------------------------------------------------------------

    def initial(self) -> Offset:
        """Return the offset before the first batch."""
        return {"rows": 0, "snapshot": ""}

    def latest(self, start: Offset) -> Offset:
        """Return the end of the next batch; takes the snapshot if there is none yet."""
        if "rows" not in start:
            raise PipelineError(_OTHER_MODE)
        name = start["snapshot"] or self._begin()
        rows = min(self._count(name), start["rows"] + self._max_rows)
        return {"rows": rows, "snapshot": name}

    def parts(self, start: Offset, end: Offset) -> list[Rows]:
        """Return what a batch reads. Called when its offsets are in the checkpoint."""
        name = end["snapshot"]
        self._count(name)  # looks at the file
        self._mark(name)
        return storing.split([Rows(self._file(name), start["rows"], end["rows"])], self._tasks)

    def close(self) -> None:
        """End the connections."""
        self._database.close()

    # -- files --------------------------------------------------------------------------------

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _count(self, name: str) -> int:
        if name not in self._counts:
            file = self._file(name)
            differs = storing.misfit(file, self._database.columns, self._database.name)
            if differs:
                raise PipelineError(
                    f"the snapshot {file} {differs}. Start over with `--fresh`, or change the "
                    "options back."
                )
            self._counts[name] = storing.count(file)
        return self._counts[name]

    def _begin(self) -> str:
        """Return the snapshot to begin with; take one where there is none to share."""
        with storing.locked(self._folder):
            newest = self._fitting(newest_of(self._folder))
            if not self._follows:
                return newest or self._take(f"{_APART}{uuid.uuid4().hex}")
            if newest and newest != self._begun().get(self._key):
                return newest
            number = int((newest_of(self._folder) or f"{_NAME}0").removeprefix(_NAME)) + 1
            return self._take(f"{_NAME}{number:06d}")

    def _fitting(self, name: str) -> str:
        """Return a snapshot's name if it has the rows that are wanted now."""
        columns, table = self._database.columns, self._database.name
        return name if name and not storing.misfit(self._file(name), columns, table) else ""

    def _take(self, name: str) -> str:
        storing.remove_unfinished(self._folder)
        database, file = self._database, self._file(name)
        database.read(
            lambda table: storing.write(
                file, database.columns, database.name, table.parts(), "sql.snapshot"
            )
        )
        database.close()  # it is not needed any more
        return name

    # -- who began with which -----------------------------------------------------------------

    def _mark(self, name: str) -> None:
        """Keep which snapshot this reading has begun with, and remove those that nobody reads."""
        if self._marked == name:
            return
        with storing.locked(self._folder):
            if self._begun().get(self._key) != name:
                made_folder(self._folder / "begun")
                write_whole(self._folder / "begun" / self._key, name)
                failpoint("sql.snapshot-after-mark")
            if self._follows:
                self._sweep()
        self._marked = name

    def _begun(self) -> Mapping[str, str]:
        return {
            file.name: read_whole(file)
            for file in (self._folder / "begun").glob("*")
            if not file.suffix
        }

    def _sweep(self) -> None:
        kept = {*self._begun().values(), newest_of(self._folder)}
        for file in self._folder.glob(f"*{SUFFIX}"):
            apart = file.name.startswith(_APART)
            old = not apart or time.time() - file.stat().st_mtime > _APART_KEPT
            if file.stem not in kept and old:
                file.unlink()


def newest_of(folder: Path) -> str:
    """Return the name of the newest snapshot that a run took; empty if there is none."""
    return max((file.stem for file in folder.glob(f"{_NAME}*{SUFFIX}")), default="")


def file_of(folder: Path, name: str) -> Path:
    """Return where a snapshot is."""
    return folder / f"{name}{SUFFIX}"


def has_begun(folder: Path, key: str) -> bool:
    """Whether a reading has begun with a snapshot, so that it does without the database."""
    return (folder / "begun" / key).exists()


_OTHER_MODE = (
    "the checkpoint was begun with `mode: poll`; start over with `--fresh`, or change the mode back"
)
