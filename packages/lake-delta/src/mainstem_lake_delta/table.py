"""A Delta table, and what its errors mean: the one module that imports the vendor's library."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from mainstem import Batch, PermanentError, TransientError, failpoint
from mainstem.durable import sync_file, sync_folder
from mainstem_lake.options import SEQUENCE
from mainstem_lake.receiver import LakeReceiver
from mainstem_lake.table import GONE, File, LakeTable, Room
from pyarrow import fs

from mainstem_lake_delta.options import DeltaOptions, DeltaSourceOptions, TableOptions

_FEED, _MAPPING = "delta.enableChangeDataFeed", "delta.columnMapping.mode"
#: What a column's metadata asks of writers, which nobody here does for it.
_KEPT_BY_WRITERS = ("delta.invariants", "delta.generationExpression", "__CHAR_VARCHAR_TYPE_STRING")
#: Texts in statistics are no longer.
_LONGEST = 32


class Folder(Room):
    """The table's folder."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options

    def open(self, path: str) -> Any:
        place = self._options.path
        if place is None:
            handler = DeltaStorageHandler(self._options.place, self._options.keys())
            return fs.PyFileSystem(handler).open_output_stream(path)
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        return fs.LocalFileSystem().open_output_stream(str(place / path))

    def keep(self, path: str) -> None:
        place = self._options.path
        if place is not None:
            sync_file(place / path)
            sync_folder((place / path).parent)


class Table(LakeTable):
    """A table at its newest version, or at one of its versions."""

    def __init__(self, options: TableOptions, version: int | None = None) -> None:
        self._options = options
        self.place = options.place
        try:
            self.delta: DeltaTable | None = DeltaTable(
                options.place, version=version, storage_options=options.keys() or None
            )
        except TableNotFoundError:
            self.delta = None
        except (DeltaError, OSError) as error:
            raise failure(options, error) from None

    @property
    def there(self) -> bool:
        return self.delta is not None

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

    def demands(self) -> list[str]:
        """Return checks, and columns that are never null."""
        delta = self.open
        found = [
            f"{name.removeprefix('delta.constraints.')} ({text})"
            for name, text in delta.metadata().configuration.items()
            if name.startswith("delta.constraints.")
        ]
        for field in delta.schema().fields:
            if not field.nullable:
                found.append(f"{field.name} IS NOT NULL")
            found += [
                f"{field.name}: {told} ({name})"
                for name, told in (field.metadata or {}).items()
                if name in _KEPT_BY_WRITERS or name.startswith("delta.identity.")
            ]
        return found + self._mapped()

    def _mapped(self) -> list[str]:
        """Return that columns have other names in files than in the table, where they do."""
        mode = self.open.metadata().configuration.get(_MAPPING) or "none"
        return [] if mode == "none" else [f"{_MAPPING} {mode}"]

    def make(self, schema: pa.Schema) -> None:
        options = self._options
        assert isinstance(options, DeltaOptions)  # noqa: S101
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
        try:
            self.open.alter.add_columns(list(Schema.from_arrow(pa.schema(fields)).fields))
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def known(self, entry: str) -> int | None:
        return self.open.transaction_version(entry)

    # -- commits ----------------------------------------------------------------------------------

    def room(self) -> Room:
        return Folder(self._options)

    def append(self, files: Sequence[File], batch: Batch, *, once: bool) -> None:
        now = time.time_ns() // 1_000_000
        actions: Any = [
            AddAction(each.path, each.size, each.partition, now, True, statistics(each.footer))
            for each in files
        ]
        table = self.open
        try:
            failpoint("lake.before-commit")
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                self.partition_by or None,
                commit_properties=self._commit(batch, once=once),
            )
            failpoint("lake.after-commit")
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def merge(
        self, changes: pa.Table, key: Sequence[str], batch: Batch, *, once: bool, guarded: bool
    ) -> None:
        names = [name for name in changes.column_names if name != GONE]
        sets = {_quoted(name): f"s.{_quoted(name)}" for name in names}
        same = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in key)
        newer = f"(t.{SEQUENCE} IS NULL OR s.{SEQUENCE} >= t.{SEQUENCE})" if guarded else "true"
        try:
            failpoint("lake.before-commit")
            before = self.open.version()
            (
                self.open.merge(
                    changes,
                    same,
                    source_alias="s",
                    target_alias="t",
                    commit_properties=self._commit(batch, once=once),
                )
                .when_matched_delete(f"s.{GONE} AND {newer}")
                .when_matched_update(sets, f"NOT s.{GONE} AND {newer}")
                .when_not_matched_insert(sets, f"NOT s.{GONE}")
                .execute()
            )
            if self.open.version() == before:  # nothing to change, and so no commit, nor entry
                self.open.create_write_transaction(
                    [],
                    "append",
                    self.open.schema(),
                    self.partition_by or None,
                    commit_properties=self._commit(batch, once=once),
                )
            failpoint("lake.after-commit")
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            there = set(self.schema.names)
            wanted = [name for name in names if name in there]
            yield from self.open.to_pyarrow_dataset().to_batches(columns=wanted)
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None

    # -- versions ---------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        return str(self.open.metadata().id)

    @property
    def version(self) -> int:
        return self.open.version()

    def count(self) -> int | None:
        counts = self.open.get_add_actions(flatten=True)
        numbers: list[Any] = pa.table(counts).column("num_records").to_pylist()
        return None if None in numbers else sum(numbers)

    def check_feed(self) -> None:
        if mapped := self._mapped():
            raise PermanentError(
                f"{self.place} has {mapped[0]}: its files have columns of other names, and are not read"
            )
        if self.open.metadata().configuration.get(_FEED) != "true":
            raise PermanentError(
                f"the table at {self.place} does not tell its changes: set its property {_FEED} to true "
                "(`properties` of the sink `delta`)"
            )

    def following(self, version: int) -> int | None:
        return version + 1 if version < self.version else None

    def changes(self, version: int, key: Sequence[str], names: Sequence[str]) -> pa.Table | None:
        """Return them by the table's change data feed."""
        try:
            found = self.open.load_cdf(starting_version=version, ending_version=version)
            reader = pa.RecordBatchReader.from_stream(found)
            kinds = pa.schema([field.with_type(_plain(field.type)) for field in reader.schema])
            batches = [batch.cast(kinds) for batch in reader if batch.num_rows]
        except pa.ArrowInvalid as error:  # of a file, in the library's words
            gone = "not found" in str(error).lower()
            told: type[Exception] = PermanentError if gone else TransientError
            # deltalake 1.6 looks for such files by names that were encoded twice.
            why = " (of partitions whose values have other signs than letters and digits none is read)"
            raise told(
                f"{self.place}, version {version}: {error}{why if '%25' in str(error) else ''}"
            ) from None
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None
        return pa.Table.from_batches(batches) if batches else None

    def rows(self) -> Iterator[pa.RecordBatch]:
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

    # -- care -------------------------------------------------------------------------------------

    def compact(self) -> tuple[int, int]:
        try:
            done = self.open.optimize.compact()
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None
        return done["numFilesRemoved"], done["numFilesAdded"]

    def vacuum(self, hours: int) -> int:
        """Remove files that no version of so many hours has; returns how many."""
        try:
            gone = self.open.vacuum(
                hours, dry_run=False, enforce_retention_duration=False, full=True
            )
        except (DeltaError, OSError) as error:
            raise failure(self._options, error) from None
        return len(gone)

    def _commit(self, batch: Batch, *, once: bool) -> CommitProperties:
        told = json.dumps({"pipeline": batch.pipeline, "batch": batch.id})
        return CommitProperties(
            custom_metadata={"mainstem": told},
            max_commit_retries=5,
            app_transactions=[
                Transaction(name, number, None)
                for name, number in self.entries(batch, once=once).items()
            ],
        )


class DeltaReceiver(LakeReceiver):
    """Reads a Delta table."""

    options: DeltaSourceOptions

    def table(self, version: int | None = None) -> Table:
        return Table(self.options, version)


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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def statistics(footer: bytes) -> str:
    """Return what the log says of a file's rows: least and greatest of plain columns, and nulls."""
    told: Any = pq.read_metadata(pa.BufferReader(footer))
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for at in range(told.num_columns):
        chunks = [told.row_group(group).column(at) for group in range(told.num_row_groups)]
        name = chunks[0].path_in_schema
        known = [chunk.statistics for chunk in chunks]
        if "." in name or any(each is None for each in known):
            continue
        if all(each.has_null_count for each in known):
            nulls[name] = sum(each.null_count for each in known)
        bounds = [_bounds(each) for each in known]
        if all(bounds):
            least[name] = _shown(min(each[0] for each in bounds if each))
            greatest[name] = _shown(max(each[1] for each in bounds if each))
    found: Mapping[str, Any] = {
        "numRecords": told.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls,
    }  # fmt: skip
    return json.dumps(found)


def _bounds(known: Any) -> tuple[Any, Any] | None:
    """Return the least and the greatest value, if they are of those that the log tells."""
    if not known.has_min_max:
        return None
    try:
        values = (known.min, known.max)
    except (OverflowError, ValueError):  # a time that Python has not
        return None
    if all(isinstance(value, str) for value in values):
        return values if all(len(value) <= _LONGEST for value in values) else None
    return values if all(type(value) in (int, date) for value in values) else None


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def failure(options: TableOptions, error: Exception) -> PermanentError | TransientError:
    """Return what an error is."""
    text = " ".join(str(error).split())
    for secret in filter(None, options.keys().values()):
        text = text.replace(secret, "***")
    words = f"{options.place}: {text}"
    if isinstance(error, CommitFailedError | OSError):
        return TransientError(words)
    return PermanentError(words)
