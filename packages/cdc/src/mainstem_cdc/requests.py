"""What is kept of a receiver beside its rows: its cursor, and what it was asked for meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from mainstem.durable import made_folder, read_whole, write_whole

from mainstem_cdc.snapshots import Position, Request


class Cursor(NamedTuple):
    """Where a receiver goes on.

    Attributes:
        place: what a new connection goes on by; see `DatabaseLog.place`.
        tables: the state of `SnapshotThenLog`.
    """

    place: Any
    tables: str

    def encoded(self) -> str:
        """Return it as text."""
        return json.dumps(self._asdict())

    @classmethod
    def decoded(cls, text: str) -> Cursor:
        """Return what `encoded` returned."""
        return cls(**json.loads(text))

    @property
    def state(self) -> dict[str, Any]:
        """What is said of the tables."""
        found: dict[str, Any] = json.loads(self.tables)
        return found

    @property
    def position(self) -> Position:
        """The position in the log."""
        return self.state["log"]

    @property
    def asked(self) -> int:
        """The last request that was followed."""
        return int(self.state["asked"])


class Requests:
    """Requests to a receiver, each a file of its own until what it asks for is stored.

    Args:
        folder: the receiver's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "requests"

    def waiting(self) -> list[Request]:
        """Return the requests that are there, in order."""
        try:
            files = sorted(self._folder.glob("*.json"))
        except FileNotFoundError:
            return []
        found = []
        for file in files:
            try:
                found.append(Request(int(file.stem), **json.loads(read_whole(file))))
            except FileNotFoundError:  # another process has just forgotten it
                continue
        return found

    def put(self, kind: Any, tables: list[str], where: str | None, after: int) -> Request:
        """Ask for something; returns the request.

        Args:
            after: the last request that was followed.
        """
        last = max((each.number for each in self.waiting()), default=0)
        number = max(time.time_ns(), after + 1, last + 1)
        made_folder(self._folder)
        told = {"kind": kind, "tables": tables, "where": where}
        write_whole(self._folder / f"{number:020d}.json", json.dumps(told))
        return Request(number, **told)

    def forget(self, number: int) -> None:
        """Remove the requests up to one."""
        for request in self.waiting():
            if request.number <= number:
                (self._folder / f"{request.number:020d}.json").unlink(missing_ok=True)
