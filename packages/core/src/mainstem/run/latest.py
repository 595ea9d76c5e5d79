"""How far in event time the rows of a query go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from mainstem.durable import read_whole, write_whole
from mainstem.run.facts import timed

_NAME = "latest-event"


def forget_latest(folder: Path) -> None:
    """Forget how far the rows of a query went, some of which it may never read again.

    The watermark stands at how far those went that it has read.
    """
    (folder / _NAME).unlink(missing_ok=True)


class LatestEvent:
    """The latest event time of all rows that a query has read, in this run and those before.

    It is noted down when a batch is told of. After a kill between the two, or with a full disk, that
    batch's is not known, and the next flush may leave rows waiting until later ones come.

    Args:
        folder: Spark's checkpoint folder of the query.

    Attributes:
        time: the latest event time, or None while no row had one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _NAME
        self.time: datetime | None = None
        with suppress(FileNotFoundError):
            self.time = datetime.fromisoformat(read_whole(self._file))

    def hear(self, metrics: Mapping[str, Any]) -> None:
        """Take what Spark has counted in a finished batch."""
        before = self.time
        for _, _, at in timed(metrics):
            if at is not None:
                self.time = max(at, self.time or at)
        if self.time is not None and self.time != before:
            with suppress(OSError):
                write_whole(self._file, self.time.isoformat())
