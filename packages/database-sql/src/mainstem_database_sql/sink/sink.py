"""Sink `sql`: a table in PostgreSQL, MySQL, MariaDB or SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mainstem import (
    Batch,
    Changelog,
    Comparable,
    Compared,
    Dataset,
    IdentifiedWrites,
    KeyedWrites,
    Level,
    Located,
    OptionError,
    Prepared,
    Readable,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    Staged,
    Swappable,
    Transactional,
    Typed,
)
from mainstem.columns import Column

from mainstem_database_sql.sink.options import SQLSinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mainstem_database_sql.sink.staging import StagedBatch
    from mainstem_database_sql.sink.writing import Writer


class SQLSink(
    Sink,
    Typed,
    Prepared,
    Transactional,
    Staged,
    KeyedWrites,
    IdentifiedWrites,
    Swappable,
    Comparable,
    Readable,
    Located,
):
    """Writes events as rows of a table, and keeps a table in step with changes.

    Events are appended. Changes (a changelog; operator `changelog` makes one of events) are set by
    their key: inserts and updates set a row, deletes remove it.
    """

    options: SQLSinkOptions
    capabilities = SinkCapabilities(
        shown={
            word: Shown(level, "packages/database-sql/tests/test_sql_conformance.py")
            for word, level in (
                ("transactional", Level.EXACTLY_ONCE),
                ("staged", Level.EXACTLY_ONCE),
                ("idempotent", Level.EXACTLY_ONCE),
                ("microbatch", Level.AT_LEAST_ONCE),
            )
        }
    )

    @cached_property
    def _writer(self) -> Writer:
        from mainstem_database_sql.sink.writing import Writer

        return Writer(self.options)

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [self.options.dataset(self.options.table)]

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse columns that the database has no type for."""
        from mainstem_database_sql.type_support import refusal

        refused = refusal(columns, shape, self.options.product)
        if refused:
            raise OptionError(refused)

    def prepare(self, columns: Sequence[Column], shape: Shape) -> None:
        """Make the table, or hold the one that is there against the columns."""
        self._writer.prepare(tuple(columns), shape)

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        return self._writer.put(frame, batch, ledger=False)

    # -- Transactional ----------------------------------------------------------------------

    def committed(self, batch: Batch) -> bool:
        """Whether the ledger has a batch, or a later one of its checkpoint."""
        return self._writer.has(batch)

    def write_once(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write rows and ledger entry in one transaction, unless the batch is in."""
        return self._writer.put(frame, batch, once=True)

    # -- Swappable --------------------------------------------------------------------------

    def beside(self, suffix: str) -> SQLSink:
        """Return a sink into a table whose name has a suffix, and which is made."""
        changed = {"table": f"{self.options.table}{suffix}", "create": True}
        return SQLSink(self.options.model_copy(update=changed))

    def clear(self) -> None:
        """Remove the table."""
        from mainstem_database_sql.sink import swapping

        swapping.clear(self._writer)

    def swap(self, built: SQLSink) -> None:
        """Put another table in the place of this one, by name, in one transaction."""
        from mainstem_database_sql.sink import swapping

        swapping.swap(self._writer, built._writer)

    # -- Comparable -------------------------------------------------------------------------

    def compared(self, columns: Sequence[Column], shape: Shape) -> Compared:
        """Compare rows by their key, events by `_id`, which `idempotent` alone writes."""
        from mainstem.changes import compared_by_columns

        return compared_by_columns(columns, shape)

    def held(
        self, columns: Sequence[Column], shape: Shape, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        """Read the table, in one transaction."""
        from mainstem_database_sql.sink import verifying

        verifying.held(self.options, self._writer, columns, shape, take)

    def repair(self, rows: DataFrame | None, extra: DataFrame | None, batch: Batch) -> None:
        """Remove rows, and that some were deleted, and write those that should be there."""
        from mainstem_database_sql.sink import verifying

        for frame in (rows, extra):
            if frame is not None:
                verifying.remove(self._writer, frame, batch)
        if rows is not None:
            self._writer.put(rows, batch, new=not isinstance(batch.shape, Changelog), ledger=False)

    # -- Readable ---------------------------------------------------------------------------

    def read(self, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the table."""
        from mainstem_database_sql.sink import verifying

        return verifying.rows(self.options, columns)

    # -- Staged -----------------------------------------------------------------------------

    def stage(self, frame: DataFrame, batch: Batch) -> StagedBatch:
        """Let the executors write a batch into tables of its own."""
        from mainstem_database_sql.sink import staging

        return staging.stage(self._writer, frame, batch)

    def publish(self, staged: StagedBatch, batch: Batch) -> DataFrame | None:
        """Move a staged batch into the table, with the ledger entry, unless the batch is in."""
        from mainstem_database_sql.sink import publishing

        return self._writer.told(publishing.publish(self._writer, staged, batch), batch)

    def discard(self, batch: Batch) -> None:
        """Remove the tables that earlier tries, and runs that were replaced, have left."""
        from mainstem_database_sql.sink import staging

        staging.discard(self._writer, batch)

    # -- IdentifiedWrites, KeyedWrites ------------------------------------------------------

    def write_new(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write the rows whose `_id` is not in the table yet."""
        return self._writer.put(frame, batch, new=True)

    def write_keyed(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Set rows by their key, an older change never over a newer one."""
        assert isinstance(batch.shape, Changelog)  # noqa: S101
        return self._writer.put(frame, batch)
