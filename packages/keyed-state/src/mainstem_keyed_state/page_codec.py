"""Rows of a table by pages, and the bytes that a page's rows are kept as: Arrow's messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from mainstem_keyed_state.arrays import record_batch
from mainstem_keyed_state.directory import NEVER
from mainstem_keyed_state.hashes import hashes_of
from mainstem_keyed_state.logic import KEY


class Cut:
    """Rows of one table in the order of pages.

    Args:
        rows: the rows, those of a page together.
        bounds: where each page's rows begin, and where the last page's end.
    """

    def __init__(self, rows: pl.DataFrame, bounds: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        self._bounds = bounds
        self._arrow: pa.RecordBatch | None = None
        self._dues: dict[str, npt.NDArray[np.int64]] = {}

    def page(self, index: int) -> Stretch:
        """Return a page's rows."""
        start, end = self._bounds[index : index + 2]
        return Stretch(self, int(start), int(end))

    def heights(self) -> npt.NDArray[np.int64]:
        """Return how many rows each page has."""
        return np.diff(self._bounds)

    def arrow(self) -> pa.RecordBatch:
        """Return all rows as Arrow has them, brought there once for all pages."""
        if self._arrow is None:
            self._arrow = record_batch(self.rows)
        return self._arrow

    def dues(self, column: str) -> npt.NDArray[np.int64]:
        """Return when each row is due, in microseconds, brought here once for all pages."""
        if column not in self._dues:
            found = self.rows[column]
            none = found.null_count() == len(found)
            times = np.full(len(found), NEVER) if none else found.to_physical().fill_null(NEVER)
            self._dues[column] = np.asarray(times, np.int64)
        return self._dues[column]


class Stretch:
    """Some of the rows that were cut, from `start` to before `end`."""

    def __init__(self, of: Cut, start: int, end: int) -> None:
        self._of = of
        self._start = start
        self.height = end - start

    def rows(self) -> pl.DataFrame:
        return self._of.rows.slice(self._start, self.height)

    def encoded(self) -> bytes:
        """Return the rows as one Arrow record batch message, without the schema."""
        return bytes(self._of.arrow().slice(self._start, self.height).serialize())

    def due(self, column: str | None) -> int:
        """Return when the earliest row is due, in microseconds."""
        if column is None or not self.height:
            return NEVER
        return int(self._of.dues(column)[self._start : self._start + self.height].min())


def decode(schema: pa.Schema, messages: Sequence[bytes]) -> pl.DataFrame:
    """Return the rows of `Stretch.encoded` messages, read as one stream."""
    stream = b"".join((schema.serialize().to_pybytes(), *messages))
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        frame = pl.from_arrow(reader.read_all(), rechunk=False)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101
    return frame


def uncut(rows: pl.DataFrame) -> Stretch:
    """Return all of some rows."""
    return Cut(rows, np.array([0, rows.height])).page(0)


def cut_of(rows: pl.DataFrame, heights: npt.NDArray[np.int64]) -> Cut:
    """Return rows that stand by pages, so many for each."""
    return Cut(rows, np.concatenate([[0], np.cumsum(heights)]))


def cut_by(rows: pl.DataFrame, page: npt.NDArray[np.int64], pages: int) -> Cut:
    """Return rows by pages, given the page of each; in a page they keep their order."""
    if len(page) and (np.diff(page) < 0).any():
        order = np.argsort(page, kind="stable")
        rows, page = rows[order], page[order]
    return Cut(rows, np.searchsorted(page, np.arange(pages + 1)))


def cut_at(rows: pl.DataFrame, lows: Sequence[int]) -> Cut:
    """Return rows by the pages that begin at some hashes."""
    page = np.searchsorted(np.array(lows, np.uint32), hashes_of(rows[KEY]), "right") - 1
    return cut_by(rows, page, len(lows))


def same(one: Stretch, other: Stretch) -> bool:
    """Whether two stretches have the same rows in the same order."""
    return one.height == other.height and one.rows().equals(other.rows())


def joined(one: Stretch, other: Stretch) -> Stretch:
    """Return the rows of both."""
    return uncut(pl.concat([one.rows(), other.rows()]))
