"""An Iceberg table, and what its errors mean: the one module that imports the vendor's library."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from mainstem import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    Batch,
    PermanentError,
    TransientError,
    failpoint,
)
from mainstem.durable import sync_file, sync_folder
from mainstem_lake.files import written
from mainstem_lake.options import SEQUENCE, LakeOptions
from mainstem_lake.receiver import LakeReceiver
from mainstem_lake.table import GONE, File, LakeTable, Room
from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
)
from pyiceberg.table import FileScanTask, TableProperties
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from sqlalchemy import exc as sql

from mainstem_lake_iceberg.files import read_file
from mainstem_lake_iceberg.options import IcebergOptions, IcebergSourceOptions, TableOptions
from mainstem_lake_iceberg.rows import difference, places

#: So many keys of changes are looked for one by one; of more, what lies between least and greatest.
_ONE_BY_ONE = 200
_TIME = pa.timestamp("us", "UTC")
_PASSING = (
    exceptions.CommitFailedException,
    exceptions.CommitStateUnknownException,
    exceptions.ServerError,
    exceptions.ServiceUnavailableError,
    exceptions.AuthorizationExpiredError,
    exceptions.TooManyRequestsError,
    exceptions.WaitingForLockException,
    sql.OperationalError,
    sql.InterfaceError,
    sql.TimeoutError,
    OSError,
)
#: Names of errors of services that pass, whoever raises them.
_PASSING_NAMES = re.compile("Timeout|Connect|Throttl|Transport")
#: Settings that are no secrets, and that errors are about.
_SHOWN = re.compile(r"type|name|warehouse|.*region")


class Storage(Room):
    """The table's folder of data files, at a storage that the library reaches."""

    parts_in_files = True

    def __init__(self, folder: str, settings: Mapping[str, str]) -> None:
        self._folder, self._settings = folder, dict(settings)

    def open(self, path: str) -> Any:
        place = f"{self._folder}/{path}"
        return load_file_io(self._settings, place).new_output(place).create()

    def keep(self, path: str) -> None:
        found = urlparse(f"{self._folder}/{path}")
        if found.scheme in ("", "file"):
            sync_file(Path(found.path))
            sync_folder(Path(found.path).parent)


class Table(LakeTable):
    """A table at its newest snapshot, or at one of its snapshots, by its sequence number."""

    def __init__(self, options: TableOptions, version: int | None = None) -> None:
        self._options = options
        self.place = options.table
        self._table: IcebergTable | None = None
        try:
            if options.path is None or (options.path / "catalog.db").exists():
                self._load()
        except exceptions.NoSuchTableError:
            pass
        except Exception as error:
            raise failure(options, error) from None
        self._snapshot = self._at(version) if version is not None else None

    def _load(self) -> None:
        self._table = self._catalog.load_table(self._options.table)
        # What others commit in between may be a later run's: the ledger is asked, and not the library,
        # which would commit once more.
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"

    @property
    def there(self) -> bool:
        return self._table is not None

    @property
    def _catalog(self) -> Catalog:
        path = self._options.path
        file = None if path is None else path / "catalog.db"
        number = file.stat().st_ino if file is not None and file.exists() else None
        return _catalog(tuple(self._options.settings().items()), number)

    @property
    def open(self) -> IcebergTable:
        """The table, which is there."""
        if self._table is None:
            raise PermanentError(f"there is no table {self.place}")
        return self._table

    # -- what it is -------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        return schema_to_pyarrow(self.open.schema())

    @property
    def partition_by(self) -> list[str]:
        spec, schema = self.open.spec(), self.open.schema()
        return [schema.find_column_name(field.source_id) or field.name for field in spec.fields]

    def demands(self) -> list[str]:
        """Return columns that are never null, and parts that are not plain columns."""
        table = self.open
        found = [f"{field.name} IS NOT NULL" for field in table.schema().fields if field.required]
        for field in table.spec().fields:
            if not isinstance(field.transform, IdentityTransform):
                found.append(f"the transform {field.transform} of {field.name}")
        found += [f"the first value of {name}" for name in self._defaults]
        return found

    def make(self, schema: pa.Schema) -> None:
        options = self._options
        assert isinstance(options, IcebergOptions)  # noqa: S101
        name = options.table
        try:
            if options.path is not None:
                options.path.mkdir(parents=True, exist_ok=True)
                (options.path / "catalog.db").touch()
            self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
            properties = dict(options.properties)
            with (
                self._catalog.create_table_transaction(name, schema, properties=properties) as new,
                new.update_spec() as spec,
            ):
                for column in options.partition_by:
                    spec.add_identity(column)
        except (exceptions.TableAlreadyExistsError, exceptions.CommitFailedException):
            pass  # another has just made it
        except Exception as error:
            raise failure(options, error) from None
        try:
            self._load()
        except Exception as error:
            raise failure(options, error) from None

    def add(self, fields: Sequence[pa.Field[Any]]) -> None:
        try:
            with self.open.update_schema() as update:
                update.union_by_name(pa.schema(fields))
        except Exception as error:
            raise failure(self._options, error) from None

    @property
    def _defaults(self) -> list[str]:
        """The columns that older files have a value of which is not in them."""
        fields = self.open.schema().fields
        return [field.name for field in fields if field.initial_default is not None]

    # -- the ledger -------------------------------------------------------------------------------

    def known(self, entry: str) -> int | None:
        found = self.open.properties.get(entry)
        return None if found is None else int(found)

    # -- commits ----------------------------------------------------------------------------------

    def room(self) -> Room:
        return Storage(self._folder, self.open.io.properties)

    @property
    def _folder(self) -> str:
        """The folder of data files."""
        table = self.open
        return table.properties.get("write.data.path", f"{table.location()}/data").rstrip("/")

    def append(self, files: Sequence[File], batch: Batch, *, once: bool) -> None:
        # Also of no files: it is the snapshot that another run's commit is told apart by.
        self._commit([], files, self.entries(batch, once=once), appends=True)

    def merge(
        self, changes: pa.Table, key: Sequence[str], batch: Batch, *, once: bool, guarded: bool
    ) -> None:
        """Set and delete rows by writing the files again that have rows of these keys."""
        options = self._options
        assert isinstance(options, LakeOptions)  # noqa: S101
        try:
            tasks = [*self.open.scan(row_filter=_among(changes, key[0])).plan_files()]
            wanted = [*key, SEQUENCE] if guarded else [*key]
            touched, stale = [], pa.array([], pa.int64())
            for task in tasks:
                rows = self._read([task], wanted)
                at: Any = places(rows, changes, key)
                there = pc.is_valid(at)
                if not pc.any(there).as_py():
                    continue
                touched.append(task)
                if guarded:
                    at, rows = at.filter(there), rows.filter(there)
                    given = changes.column(SEQUENCE).take(at.cast(pa.int64()))
                    older: Any = pc.less(given, rows.column(SEQUENCE))
                    older = pc.fill_null(older, pa.scalar(False))
                    more = at.filter(older).cast(pa.int64()).combine_chunks()
                    stale = pa.concat_arrays([stale, more])
            every = pa.array(range(changes.num_rows), pa.int64())
            fresh = changes.filter(pc.invert(pc.is_in(every, value_set=stale)))
            removed, files = [], []
            others = [name for name in self.schema.names if name not in changes.column_names]
            at_before, before = [], []
            for task in touched:
                rows = self._read([task])
                at = places(rows, fresh, key)
                kept: Any = pc.is_null(at)
                if pc.all(kept).as_py():
                    continue
                removed.append(task.file)
                files += self._written(rows.filter(kept))
                gone: Any = pc.is_valid(at)
                at_before += at.filter(gone).to_pylist()
                before.append(rows.filter(gone).select(others))
            new = fresh
            if others and before:  # what the changes do not tell stays as it was
                every = pa.array(range(fresh.num_rows), pa.int64())
                place: Any = pc.index_in(every, value_set=pa.array(at_before, pa.int64()))
                was = pa.concat_tables(before).take(place)
                for name in others:
                    new = new.append_column(name, was.column(name))
            files += self._written(new.filter(pc.invert(fresh.column(GONE))))
        except Exception as error:
            raise failure(self._options, error) from None
        self._commit(removed, files, self.entries(batch, once=once))

    def compact(self) -> tuple[int, int]:
        options = self._options
        assert isinstance(options, LakeOptions)  # noqa: S101
        small: dict[Any, list[FileScanTask]] = {}
        try:
            for task in self.open.scan().plan_files():
                if task.file.record_count * 2 <= options.file_rows:
                    small.setdefault((task.file.spec_id, task.file.partition), []).append(task)
            removed, files = [], []
            for each in small.values():
                for tasks in _bins(each, options.file_rows):
                    if len(tasks) > 1:
                        removed += [task.file for task in tasks]
                        files += self._written(self._read(tasks))
        except Exception as error:
            raise failure(self._options, error) from None
        if removed:
            self._commit(removed, files, {})
        return len(removed), len(files)

    def _written(self, rows: pa.Table) -> list[File]:
        options = self._options
        assert isinstance(options, LakeOptions)  # noqa: S101
        prefix = f"rewritten-{uuid.uuid4().hex[:8]}"
        batches = rows.to_batches()
        return written(self.room(), options, self.schema, self.partition_by, prefix, batches)

    def _commit(
        self, removed: Sequence[DataFile], files: Sequence[File], entries: Mapping[str, int],
        *, appends: bool = False,
    ) -> None:  # fmt: skip
        """Put files in the place of others, and leave entries, in one commit."""
        table = self.open
        try:
            added = [self._data_file(file) for file in files]
            failpoint("lake.before-commit")
            with table.transaction() as transaction:
                if entries:
                    transaction.set_properties({name: str(n) for name, n in entries.items()})
                update = transaction.update_snapshot()
                with update.fast_append() if appends else update.overwrite() as snapshot:
                    for file in removed:
                        snapshot.delete_data_file(file)
                    for file in added:
                        snapshot.append_data_file(file)
            failpoint("lake.after-commit")
        except Exception as error:
            raise failure(self._options, error) from None

    def _data_file(self, file: File) -> DataFile:
        """Return a file as manifests have it."""
        table = self.open
        schema, spec = table.schema(), table.spec()
        footer = pq.read_metadata(pa.BufferReader(file.footer))
        columns = parquet_path_to_id_mapping(schema)
        wanted = compute_statistics_plan(schema, table.properties)
        for path in _unread(footer):
            counted = MetricsMode(MetricModeTypes.COUNTS)
            wanted[columns[path]] = replace(wanted[columns[path]], mode=counted)
        known = data_file_statistics_from_parquet_metadata(footer, wanted, columns)
        values = []
        for field in spec.fields:
            text = file.partition[schema.find_column_name(field.source_id) or field.name]
            kind = schema.find_type(field.source_id)
            assert isinstance(kind, PrimitiveType)  # noqa: S101
            values.append(None if text is None else literal(text).to(kind).value)
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._folder}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **known.to_serialized_dict(),
        )

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, tasks: Iterable[FileScanTask], names: Sequence[str] | None = None) -> pa.Table:
        """Return rows of files, in the table's columns.

        The library's own scan makes empty lists of null ones that have structs (0.12).
        """
        table = self.open
        schema = self.schema
        if names is not None:
            schema = pa.schema([schema.field(name) for name in names])
        found = [schema.empty_table()]
        for task in tasks:
            if task.delete_files:
                raise PermanentError(
                    f"{self.place}: rows were deleted beside their files (merge on read): let the engine "
                    "that has done it rewrite the files"
                )
            with table.io.new_input(task.file.file_path).open() as stream:
                found.append(read_file(stream, schema, self._constants(task.file)))
        return pa.concat_tables(found)

    def _constants(self, file: DataFile) -> dict[str, Any]:
        """Return what a manifest says of columns that are the same in all of a file's rows."""
        spec, schema = self.open.specs()[file.spec_id], self.open.schema()
        return {
            name: file.partition[at]
            for at, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
            and (name := schema.find_column_name(field.source_id)) is not None
        }

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        there = set(self.schema.names)
        wanted = [name for name in names if name in there]
        try:
            for task in self.open.scan().plan_files():
                yield from self._read([task], wanted).to_batches()
        except Exception as error:
            raise failure(self._options, error) from None

    @property
    def identity(self) -> str:
        return str(self.open.metadata.table_uuid)

    @cached_property
    def _lineage(self) -> dict[int, Snapshot]:
        """The snapshots that have led to the newest one, in order, by their sequence numbers."""
        known = {each.snapshot_id: each for each in self.open.snapshots()}
        found = []
        at = self.open.current_snapshot()
        while at is not None:
            found.append(at)
            at = known.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
        return {each.sequence_number or 0: each for each in reversed(found)}

    def _at(self, version: int) -> Snapshot | None:
        """Return a snapshot; None stands for the table before the first one.

        Raises:
            PermanentError: it is not there, or no more.
        """
        if version == 0:
            return None
        found = self._lineage.get(version)
        if found is None:
            raise PermanentError(
                f"{self.place}: the snapshot with the number {version} has expired, or the table was "
                "set back behind it"
            )
        return found

    @property
    def version(self) -> int:
        newest = self._snapshot or self.open.current_snapshot()
        return 0 if newest is None else newest.sequence_number or 0

    def count(self) -> int | None:
        newest = self._snapshot or self.open.current_snapshot()
        if newest is None:
            return 0
        told = newest.summary["total-records"] if newest.summary is not None else None
        return None if told is None else int(told)

    def check_feed(self) -> None:
        if self.open.format_version < 2:
            raise PermanentError(
                f"the table {self.place} is of format 1, whose snapshots have no order: bring it to "
                "format 2 (the table's property `format-version`)"
            )
        if self._defaults:
            raise PermanentError(
                f"the table {self.place} has columns with first values, which are not read: "
                f"{', '.join(self._defaults)}"
            )

    def following(self, version: int) -> int | None:
        self._at(version)
        first = next(iter(self._lineage.values()), None)
        if version == 0 and first is not None and first.parent_snapshot_id is not None:
            raise PermanentError(f"{self.place}: its first snapshots have expired")
        return min((each for each in self._lineage if each > version), default=None)

    def rows(self) -> Iterator[pa.RecordBatch]:
        if self._snapshot is None:
            return
        try:
            scan = self.open.scan(snapshot_id=self._snapshot.snapshot_id)
            for task in sorted(scan.plan_files(), key=lambda each: each.file.file_path):
                yield from self._read([task]).to_batches()
        except FileNotFoundError:
            raise PermanentError(
                f"{self.place}: files of snapshot {self.version} are gone"
            ) from None
        except Exception as error:
            raise failure(self._options, error) from None

    def changes(self, version: int, key: Sequence[str], names: Sequence[str]) -> pa.Table | None:
        """Return them by comparing the rows of files that went and that came."""
        snapshot = self._at(version)
        assert snapshot is not None  # noqa: S101
        try:
            went, came = self._files(snapshot)
            if not went and not came:
                return None
            after = self._read(came, names)
            if went:
                found = difference(self._read(went, names), after, key)
            else:
                new = pa.array(["insert"] * after.num_rows, pa.string())
                found = after.append_column(CHANGE_TYPE, new)
        except FileNotFoundError:
            raise PermanentError(f"{self.place}: files of snapshot {version} are gone") from None
        except Exception as error:
            raise failure(self._options, error) from None
        if not found.num_rows:
            return None
        times = pa.array([snapshot.timestamp_ms * 1000] * found.num_rows, _TIME)
        return found.append_column(COMMIT_TIMESTAMP, times)

    def _files(self, snapshot: Snapshot) -> tuple[list[FileScanTask], list[FileScanTask]]:
        """Return the files that a snapshot has removed, and those that it has added."""
        went, came = [], []
        for manifest in snapshot.manifests(self.open.io):
            if manifest.content != ManifestContent.DATA:
                raise PermanentError(
                    f"{self.place}, snapshot {snapshot.sequence_number}: rows were deleted beside their "
                    "files (merge on read), which is not read as changes: let writers copy on write"
                )
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(self.open.io, discard_deleted=False):
                if entry.status == ManifestEntryStatus.DELETED:
                    went.append(FileScanTask(entry.data_file))
                elif entry.status == ManifestEntryStatus.ADDED:
                    came.append(FileScanTask(entry.data_file))
        return went, came

    # -- care -------------------------------------------------------------------------------------

    def expire(self, before: Any) -> int:
        """Forget snapshots from before a time; returns how many."""
        table = self.open
        count = len(table.snapshots())
        try:
            table.maintenance.expire_snapshots().older_than(before).commit()
        except Exception as error:
            raise failure(self._options, error) from None
        return count - len(table.refresh().snapshots())


class IcebergReceiver(LakeReceiver):
    """Reads an Iceberg table."""

    options: IcebergSourceOptions

    def table(self, version: int | None = None) -> Table:
        return Table(self.options, version)


@lru_cache(maxsize=16)
def _catalog(settings: tuple[tuple[str, str], ...], number: int | None) -> Catalog:  # noqa: ARG001
    """Return a catalog, whose connections stay for the next time.

    Args:
        number: of the file that it is in, which tells it from one that was there before; while that is
            open, no other file has its number.
    """
    given = dict(settings)
    return load_catalog(given.pop("name", "mainstem"), **given)


def _among(changes: pa.Table, name: str) -> BooleanExpression:
    """Return a condition that holds for all rows of the changes' keys, and for few others."""
    if pa.types.is_floating(changes.schema.field(name).type):
        return AlwaysTrue()  # of NaN, and of two noughts, there are no bounds
    values: list[Any] = changes.column(name).unique().to_pylist()
    made: Any = In
    if len(values) <= _ONE_BY_ONE:
        return cast("BooleanExpression", made(name, values))
    least: Any = GreaterThanOrEqual
    greatest: Any = LessThanOrEqual
    return And(least(name, min(values)), greatest(name, max(values)))


def _unread(footer: Any) -> Iterator[str]:
    """Yield the columns of a file whose least or greatest value is a time that Python has not."""
    for at in range(footer.num_columns):
        chunks = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        try:
            for chunk in chunks:
                if chunk.is_stats_set and chunk.statistics.has_min_max:
                    _ = chunk.statistics.min, chunk.statistics.max
        except (OverflowError, ValueError):
            yield chunks[0].path_in_schema
        except pa.ArrowNotImplementedError:
            pass  # it is left out anyway


def failure(options: TableOptions, error: Exception) -> PermanentError | TransientError:
    """Return what an error is."""
    if isinstance(error, PermanentError | TransientError):
        return error
    text = " ".join(str(error).split()) or type(error).__name__
    hidden = [
        value.get_secret_value()
        for name, value in options.catalog.items()
        if not _SHOWN.fullmatch(name)
    ]
    for secret in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(secret, "***")
    words = f"{options.table}: {text}"
    passing = isinstance(error, _PASSING) and not isinstance(error, FileNotFoundError)
    if passing or _PASSING_NAMES.search(type(error).__name__):
        return TransientError(words)
    return PermanentError(words)


def _bins(tasks: Iterable[FileScanTask], rows: int) -> Iterator[list[FileScanTask]]:
    """Yield files that can become one, each time so many rows at most: they are all in memory then."""
    found: list[FileScanTask] = []
    count = 0
    for task in tasks:
        if count + task.file.record_count > rows:
            yield found
            found, count = [], 0
        found.append(task)
        count += task.file.record_count
    yield found
