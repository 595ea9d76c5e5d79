"""How Spark reads the zoo's log."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainstem import failpoint
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from zoo.log_server import ask


class LogDataSource(DataSource):
    """The log as Spark reads it."""

    @classmethod
    def name(cls):
        return "zoo_log"

    def schema(self):
        return (
            "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, "
            "origin STRING, partition STRING, position STRING"
        )

    def streamReader(self, schema):  # noqa: N802
        return _Reader(self.options)


class _Range(InputPartition):
    def __init__(self, start: int, end: int, entries: Any = None) -> None:
        self.start = start
        self.end = end
        self.entries = entries


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    _held: list[bytes] = []

    def __init__(self, options: Any) -> None:
        self._port = int(options["port"])
        self._most = int(options["most"])
        self._fault = options["fault"]
        self._folder = options["folder"]
        self._taken: dict[int, Any] = {}
        self._stop_at: int | None = None

    def _ask(self, request: dict[str, Any]) -> Any:
        until = time.monotonic() + 30
        while True:
            try:
                return ask(self._port, request)
            except OSError:
                if self._fault == "gives up" or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def initialOffset(self):  # noqa: N802
        return {"next": self._ask({"end": True}) if self._fault == "begins at the end" else 0}

    def getDefaultReadLimit(self):  # noqa: N802
        return ReadAllAvailable() if self._fault == "ignores its limit" else ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        end = self._stop_at
        if end is None:
            end = int(self._ask({"end": True}))
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["next"] + limit.max_rows)
        if self._fault == "acknowledges too early" and end > start["next"]:
            self._taken[start["next"]] = self._ask({"read": [start["next"], end]})
            self._ask({"trim": end})
        if self._fault == "leaks memory":
            self._held.append(b"x" * 2_000_000)
        offset = {"next": end}
        if self._fault == "never ends":
            offset["ticks"] = start.get("ticks", 0) + 1
        return offset

    def prepareForTriggerAvailableNow(self):  # noqa: N802
        self._stop_at = int(self._ask({"end": True}))

    def reportLatestOffset(self):  # noqa: N802
        return None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        afresh = self._fault == "starts over after a crash" and self._seen(start["next"])
        failpoint("zoo_log.planned")
        if afresh:
            return []
        entries = self._taken.pop(start["next"], None)
        return [_Range(start["next"], end["next"], entries)]

    def _seen(self, start: int) -> bool:
        """Whether a reader planned this range before."""
        mark = Path(self._folder, f"planned-{start}")
        seen = mark.exists()
        mark.touch()
        return seen

    def read(self, partition: Any) -> Any:
        entries = partition.entries
        if entries is None:
            entries = self._ask({"read": [partition.start, partition.end]})
        if self._fault == "loses the tail" and len(entries) > 1:
            entries = entries[:-1]
        if self._fault == "doubles on retry" and self._seen(partition.start):
            entries = [*entries, *entries[:1]]
        for number, entry in entries:
            position = f"{number:020}"
            if self._fault == "position repeats":
                position = f"{number % 10:020}"
            if self._fault == "position of no fixed width":
                position = str(number)
            at = datetime.fromtimestamp(1_700_000_000 + number, UTC)
            yield None, entry.encode(), None, at, "log", "0", position
