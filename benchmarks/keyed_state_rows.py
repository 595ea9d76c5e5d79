"""The join of keyed_state.py by PySpark's row API; a module of its own, for workers to import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class RowJoin(StatefulProcessor):
    """Gives rows of the stream the latest row of the table with their key."""

    def init(self, handle: Any) -> None:
        self._rate = handle.getValueState("rate", "rate DOUBLE")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        known = self._rate.get()
        rate = known[0] if known else None
        given = sorted(rows, key=lambda row: row["at"])
        told = [row for row in given if row["port"] == 1]
        if told:
            rate = told[-1]["amount"]
            self._rate.update((rate,))
        for row in given:
            if row["port"] == 0:
                yield Row(**row.asDict(), rate=rate)

    def close(self) -> None:
        """Nothing is held between keys."""
