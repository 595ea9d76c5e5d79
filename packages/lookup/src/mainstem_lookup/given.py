"""The answers of a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainstem import PermanentError
from mainstem.arrays import json_reader
from mainstem.columns import Column

from mainstem_lookup.lookup import MISSING, Answer, Key, Lookup


class GivenAnswers(Lookup):
    """Answers by rows that a test gives, in place of an external system.

    Args:
        rows: JSON objects with the key columns and those of the answer, in lower case.
    """

    def __init__(
        self, rows: Sequence[str], options: Any, keys: Sequence[Column], columns: Sequence[Column]
    ) -> None:
        super().__init__(options, keys, columns)
        self._rows = rows
        self._known: dict[Key, Answer] = {}

    @property
    def most(self) -> int:
        return 1_000

    def connect(self) -> None:
        import pyarrow as pa

        # Case says nothing in names of columns.
        columns = [replace(c, name=c.name.lower()) for c in (*self.keys, *self.columns)]
        arrays, reasons = json_reader(columns)(
            pa.array([row.encode() for row in self._rows], pa.binary())
        )
        for row, reason in zip(self._rows, reasons, strict=True):
            if reason is not None:
                raise PermanentError(f"the answer {row} does not fit: {reason}")
        for values in zip(*(array.to_pylist() for array in arrays), strict=True):
            key, answer = values[: len(self.keys)], values[len(self.keys) :]
            self._known[key] = Answer(answer)

    def ask(self, keys: Sequence[Key]) -> Sequence[Answer]:
        return [self._known.get(key, MISSING) for key in keys]
