"""A Delta table, and what its errors mean: the one module that imports the vendor's library."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from mainstem import Batch, PermanentError, TransientError, failpoint
from mainstem.sinks import Step, ledger_step
from pyarrow import fs

from mainstem_lake_delta.options import DeltaOptions, TableOptions


class File(NamedTuple):
    """A file of rows, which is no part of the table yet.

    Attributes:
        path: below the table's folder, as its log has it.
        partition: the values of partition columns, as its log has them.
        stats: what the file's rows are, as JSON.
    """

    path: str
    size: int
    partition: dict[str, str | None]
    stats: str


def filesystem(options: TableOptions) -> fs.FileSystem:
    """Return where the table's files are; paths are below its folder."""
    if options.path is not None:
        return fs.SubTreeFileSystem(str(options.path), fs.LocalFileSystem())
    handler = DeltaStorageHandler(options.place, options.keys())
    return fs.PyFileSystem(handler)


class Table:
    """A table at its newest version, or at one of its versions.

    Raises:
        TransientError, PermanentError: it can't be read.
    """

    def __init__(self, options: TableOptions, version: int | None = None) -> None:
        self._options = options
        try:
            self.delta: DeltaTable | None = DeltaTable(
                options.place, version=version, storage_options=options.keys() or None
            )
        except TableNotFoundError:
            self.delta = None
        except (DeltaError, OSError) as error:
            raise failure(options, error) from None

    @property
    def open(self) -> DeltaTable:
        """The table, which is there."""
        if self.delta is None:
            raise PermanentError(f"there is no table at {self._options.place}")
        return self.delta

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them."""
        found: Any = self.open.schema().to_arrow()
        return pa.schema(found)

    @property
    def partition_by(self) -> list[str]:
        """The columns whose values are folders."""
        return list(self.open.metadata().partition_columns)

    def constraints(self) -> list[str]:
        """Return what the table demands of its rows: checks, and columns that are never null."""
        delta = self.open
        found = [
            f"{name.removeprefix('delta.constraints.')} ({text})"
            for name, text in delta.metadata().configuration.items()
            if name.startswith("delta.constraints.")
        ]
        for field in delta.schema().fields:
            if not field.nullable:
                found.append(f"{field.name} IS NOT NULL")
            if "delta.invariants" in (field.metadata or {}):
                found.append(f"{field.name}: {field.metadata['delta.invariants']}")
        return found

    def make(self, options: DeltaOptions, schema: pa.Schema) -> None:
        """Make the table; nothing where another has just made it."""
        if options.path is not None:
            options.path.mkdir(parents=True, exist_ok=True)
        try:
            self.delta = DeltaTable.create(
                options.place,
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=options.partition_by or None,
                configuration=dict(options.properties) or None,
                storage_options=options.keys() or None,
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            raise failure(options, error) from None

    def add(self, fields: Sequence[pa.Field[Any]]) -> None:
        """Add columns."""
        try:
            self.open.alter.add_columns(list(Schema.from_arrow(pa.schema(fields)).fields))
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    # -- the ledger, which is in the table's own log ----------------------------------------------

    def step(self, batch: Batch, *, once: bool = True) -> Step:
        """Return what is to be done with a batch.

        Raises:
            FencedError: a later run, or a later batch of this checkpoint, is in.
        """
        last = self._known(_ledger(batch))
        epoch = self._known(f"{_ledger(batch)}:run")
        return ledger_step(batch, last=-1 if last is None else last, epoch=epoch or 0, once=once)

    def _known(self, name: str) -> int | None:
        return self.open.transaction_version(name)

    def append(self, files: Sequence[File], batch: Batch, *, once: bool) -> None:
        """Make files a part of the table, with the ledger's entry.

        Raises:
            TransientError: somebody else came before.
        """
        now = time.time_ns() // 1_000_000
        actions: Any = [
            AddAction(each.path, each.size, each.partition, now, True, each.stats) for each in files
        ]
        table = self.open
        try:
            failpoint("delta.before-commit")
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                self.partition_by or None,
                commit_properties=_commit(batch, once=once),
            )
            failpoint("delta.after-commit")
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def merge(
        self, changes: pa.Table, key: Sequence[str], newer: str, batch: Batch, *, once: bool
    ) -> None:
        """Set and delete rows by their key, with the ledger's entry.

        Args:
            changes: one of each key, with `__gone`.
            newer: the condition that a change (`s`) is not older than the row (`t`).

        Raises:
            TransientError: somebody else came before.
        """
        names = [name for name in changes.column_names if name != "__gone"]
        sets = {_quoted(name): f"s.{_quoted(name)}" for name in names}
        same = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in key)
        try:
            failpoint("delta.before-commit")
            (
                self.open.merge(
                    changes,
                    same,
                    source_alias="s",
                    target_alias="t",
                    commit_properties=_commit(batch, once=once),
                )
                .when_matched_delete(f"s.__gone AND ({newer})")
                .when_matched_update(sets, f"NOT s.__gone AND ({newer})")
                .when_not_matched_insert(sets, "NOT s.__gone")
                .execute()
            )
            failpoint("delta.after-commit")
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        try:
            there = set(self.schema.names)
            wanted = [name for name in names if name in there]
            yield from self.open.to_pyarrow_dataset().to_batches(columns=wanted)
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def changes(self, version: int) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a version, as the table's change data feed has them.

        Raises:
            PermanentError: they are not there any more.
        """
        try:
            found = self.open.load_cdf(starting_version=version, ending_version=version)
            reader = pa.RecordBatchReader.from_stream(found)
            kinds = pa.schema([field.with_type(_plain(field.type)) for field in reader.schema])
            for batch in reader:
                yield batch.cast(kinds)
        except pa.ArrowInvalid as error:  # of a file, in the library's words
            gone = "not found" in str(error).lower()
            told: type[Exception] = PermanentError if gone else TransientError
            raise told(f"{self._options.place}, version {version}: {error}") from None
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows file by file, always in the same order for a version."""
        try:
            dataset = self.open.to_pyarrow_dataset()
            for each in sorted(dataset.get_fragments(), key=lambda fragment: fragment.path):
                # Columns of partitions are none of the file's.
                yield from each.to_batches(schema=dataset.schema, use_threads=False)
        except FileNotFoundError:
            raise PermanentError(
                f"{self._options.place}: files of version {self.open.version()} are gone"
            ) from None
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def note(self, batch: Batch) -> None:
        """Write the ledger's entry of a batch that changes nothing."""
        self.append([], batch, once=True)

    def compact(self) -> Mapping[str, Any]:
        """Make larger files of small ones; returns what was done.

        Raises:
            TransientError: somebody else came before.
        """
        try:
            return self.open.optimize.compact()
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def vacuum(self, hours: int) -> int:
        """Remove files that no version of so many hours has; returns how many."""
        try:
            gone = self.open.vacuum(
                hours, dry_run=False, enforce_retention_duration=False, full=True
            )
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None
        return len(gone)


def _plain(kind: Any) -> Any:
    """Return a type without views, which Arrow's functions do not all know."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _ledger(batch: Batch) -> str:
    return f"mainstem:{batch.pipeline}:{batch.sink}:{batch.query_id}"


def _commit(batch: Batch, *, once: bool) -> CommitProperties:
    name = _ledger(batch)
    entries = [Transaction(f"{name}:run", batch.epoch, None)]
    if once:
        entries.append(Transaction(name, batch.id, None))
    return CommitProperties(
        custom_metadata={"mainstem": json.dumps({"pipeline": batch.pipeline, "batch": batch.id})},
        max_commit_retries=5,
        app_transactions=entries,
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def failure(options: TableOptions, error: Exception) -> PermanentError | TransientError:
    """Return what an error is."""
    text = " ".join(str(error).split())
    for secret in filter(None, options.keys().values()):
        text = text.replace(secret, "***")
    words = f"{options.place}: {text}"
    if isinstance(error, CommitFailedError | OSError):
        return TransientError(words)
    return PermanentError(words)
