"""Reads the state of a node back from its checkpoint, without Spark, also while the pipeline runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from mainstem_keyed_state.directory import Directory
from mainstem_keyed_state.entries import opened
from mainstem_keyed_state.frames import state_name
from mainstem_keyed_state.hashes import key_of
from mainstem_keyed_state.keys import KEY_TEXT
from mainstem_keyed_state.layout import Layout
from mainstem_keyed_state.logic import KEY
from mainstem_keyed_state.page_codec import decode
from mainstem_keyed_state.state_files import Entry, GoneError, state_files

#: How often the last batch is looked for: of a query that runs it may be gone before it is read.
_TRIES = 5


def read_state(
    checkpoint: Path,
    node: str,
    layout: Layout,
    *,
    name: str = "",
    key: Sequence[str] | None = None,
    batch: int | None = None,
) -> State:
    """Return the state that a query has of a node after its last batch, or an earlier one.

    Args:
        checkpoint: the query's checkpoint.
        node: the operator's name.
        layout: that of the state; see `layouts_in`.
        name: which of the node's states, if it has several.
        key: the values of one key, as text; all keys when left out.
        batch: the number of the batch; only the last few are kept.

    Raises:
        PipelineError: the query has no state of the node, or the key has another number of values.
        DamagedError: an entry was changed after it was written (its rows: when they are read).
    """
    files = state_files(checkpoint, state_name(node, name), batch)
    wanted = None if key is None else key_of(layout.keys.of_texts(key))
    buckets = None
    if wanted is not None:
        buckets = [layout.labels[int.from_bytes(wanted[:4], "big") % len(layout.labels)]]
    for left in reversed(range(_TRIES)):
        try:
            return State(files.entries(buckets), layout, wanted, files.version - 1)
        except GoneError:
            if batch is not None or not left:
                raise
        # Others came meanwhile.
        files = state_files(checkpoint, state_name(node, name))
    raise AssertionError


class State:
    """The state of a node.

    Attributes:
        batch: the last batch that it has.
    """

    def __init__(
        self, entries: Sequence[Entry], layout: Layout, key: bytes | None, batch: int
    ) -> None:
        self.batch = batch
        self._layout = layout
        self._key = key
        self._pages = [entry for entry in entries if entry.table]
        self._directories = {
            each.bucket: Directory.of_bytes(_bytes_of(each)) for each in entries if not each.table
        }

    @property
    def tables(self) -> list[str]:
        """The tables that have rows, or had."""
        directories = self._directories.values()
        kept = {table for d in directories for page in d.pages for table in page.tables}
        kept |= {table for d in directories for table in d.shared}
        return sorted(kept | {t for d in directories for t, q in d.queues.items() if q})

    def columns(self, table: str) -> pl.Schema:
        """Return the columns that a table has, of the latest version that wrote some of it.

        One version has several layouts where columns came to it, which rows of before lack.
        """
        layouts = [x for d in self._directories.values() for x in d.layouts if x.table == table]
        latest = max(layout.version for layout in layouts)
        columns: dict[str, pl.DataType] = {}
        for layout in layouts:
            if layout.version == latest:
                # `Schema.empty_table` would import pandas.
                empty = pa.Table.from_batches([], schema=layout.schema)
                columns |= pl.from_arrow(empty).schema  # type: ignore[union-attr]
        del columns[KEY]
        return pl.Schema(columns)

    def rows(self, table: str) -> Iterator[pl.DataFrame]:
        """Yield the rows of a table, a page at a time.

        They have the table's columns, and `_key`, a list of the key's values as text; of nulls in tables
        that all keys share. Columns that a row lacks, for it is of an older version, are null.
        """
        columns = self.columns(table)
        # Of what all keys share each bucket has everything.
        shared = [bucket for bucket, each in self._directories.items() if table in each.shared]
        for page in self._pages:
            if page.table != table or (shared and page.bucket != min(shared)):
                continue
            schema = self._directories[page.bucket].layouts[page.layout].schema
            rows = decode(schema, [_bytes_of(page)])
            if self._key is not None and not shared:
                rows = rows.filter(pl.col(KEY) == self._key)
            if not rows.height:
                continue
            missing = [
                pl.lit(None, t).alias(n) for n, t in columns.items() if n not in rows.columns
            ]
            keys = [None if shared else self._layout.keys.texts(k) for k in rows[KEY]]
            text = pl.Series(KEY_TEXT, keys, pl.List(pl.String))
            yield rows.with_columns(text, *missing).select(KEY_TEXT, *columns)


def _bytes_of(entry: Entry) -> bytes:
    """Return an entry's bytes; `DamagedError` if it was changed."""
    found = opened((entry.table, entry.page), (entry.layout, entry.data))
    assert found is not None  # noqa: S101
    return found[1]
