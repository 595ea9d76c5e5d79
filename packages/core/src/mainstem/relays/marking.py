"""Watermarks of partitions: each has its own latest event time, and the lowest counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

#: By partition, as JSON of its columns, its latest event time in microseconds since 1970, and when it
#: last had a row, in seconds.
Marks = dict[str, tuple[int, float]]


@dataclass(frozen=True)
class Marking:
    """How the watermark of a stream is made of its rows.

    Attributes:
        time: the column of the event time.
        delay: how far the watermark stays behind.
        by: the columns that tell partitions apart; none where all rows are one.
        idle_after: after how long without a row a partition no longer holds back the others.
    """

    time: str
    delay: timedelta
    by: tuple[str, ...]
    idle_after: timedelta | None = None

    def marks(
        self, known: Mapping[str, Iterable[float]], files: Iterable[Path], now: float
    ) -> Marks:
        """Return how far each partition is after some more rows.

        Args:
            known: how far they were before.
            files: the rows, as Parquet.
            now: in seconds since 1970.
        """
        found: Marks = {
            name: (int(at), seen)
            for name, (at, seen) in known.items()
            if json.loads(name).keys() == set(self.by)  # else they are those of another document
        }
        for file in files:
            for name, latest in self._latest(file):
                before = found.get(name)
                found[name] = (latest if before is None else max(before[0], latest), now)
        return found

    def watermark(self, marks: Marks, begun: float, until: float) -> int | None:
        """Return the watermark, in milliseconds since 1970; None before there is one.

        Args:
            begun: when the run began; what was before is nobody's idleness. In seconds since 1970.
            until: by when a partition's rows would be among those of `marks`.
        """
        idle = self.idle_after.total_seconds() if self.idle_after is not None else float("inf")
        active = [at for at, seen in marks.values() if until - max(seen, begun) < idle]
        if not active:
            return None
        return (min(active) - self.delay // timedelta(microseconds=1)) // 1000

    def _latest(self, file: Path) -> Iterable[tuple[str, int]]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [*dict.fromkeys((*self.by, self.time))]
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as rows:
            table = rows.read(names)
        times = table.column(self.time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        table = table.select([*self.by]).append_column("__time", times)
        latest = table.group_by([*self.by]).aggregate([("__time", "max")])
        for row in latest.to_pylist():
            if (at := row.pop("__time_max")) is not None:
                yield json.dumps({name: _text(row[name]) for name in self.by}), at


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.hex() if isinstance(value, bytes) else str(value)
