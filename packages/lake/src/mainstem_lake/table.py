"""A table of a lake as sinks and receivers need it; each format has its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from mainstem import Batch
from mainstem.sinks import Step, ledger_step

#: The column of changes that says that a row goes.
GONE = "__gone"


class File(NamedTuple):
    """A file of rows, which is no part of the table yet.

    Attributes:
        path: below the table's folder of files.
        size: in bytes.
        partition: the values of partition columns, as texts.
        footer: the file's own Parquet metadata, which tells of its rows.
    """

    path: str
    size: int
    partition: dict[str, str | None]
    footer: bytes


class Room(ABC):
    """Where a table's files are written. It is sent to Spark's tasks.

    Attributes:
        parts_in_files: whether files have the columns too by whose values they are parted.
    """

    parts_in_files: ClassVar[bool] = False

    @abstractmethod
    def open(self, path: str) -> Any:
        """Return Arrow's stream into a new file below the table's folder of files."""

    @abstractmethod
    def keep(self, path: str) -> None:
        """See that a file, which is closed, is safe on its storage."""


class LakeTable(ABC):
    """A table at one of its versions: the newest, if nothing else is said.

    All methods raise TransientError or PermanentError, with secrets hidden.
    """

    #: What errors call it.
    place: str

    # -- what it is -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def there(self) -> bool:
        """Whether the table exists. Where it does not, only `make` may be called."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them; files are written with just these."""

    @property
    @abstractmethod
    def partition_by(self) -> list[str]:
        """The columns by whose values files are parted."""

    @abstractmethod
    def demands(self) -> list[str]:
        """Return what the table demands of its rows that nobody looks at who writes files."""

    @abstractmethod
    def make(self, schema: pa.Schema) -> None:
        """Make the table; nothing where another has just made it."""

    @abstractmethod
    def add(self, fields: Sequence[pa.Field[Any]]) -> None:
        """Add columns."""

    # -- the ledger, which is in the table's own log ----------------------------------------------

    @abstractmethod
    def known(self, entry: str) -> int | None:
        """Return a number that a commit has left with the table."""

    def step(self, batch: Batch, *, once: bool = True) -> Step:
        """Return what is to be done with a batch.

        Raises:
            FencedError: a later run, or a later batch of this checkpoint, is in.
        """
        name = ledger(batch)
        last, epoch = self.known(name), self.known(f"{name}:run")
        return ledger_step(batch, last=-1 if last is None else last, epoch=epoch or 0, once=once)

    @staticmethod
    def entries(batch: Batch, *, once: bool) -> dict[str, int]:
        """Return what a commit leaves with the table."""
        name = ledger(batch)
        return {f"{name}:run": batch.epoch} | ({name: batch.id} if once else {})

    # -- commits; a batch's has the ledger's entries ----------------------------------------------

    @abstractmethod
    def room(self) -> Room:
        """Return where files are written."""

    @abstractmethod
    def append(self, files: Sequence[File], batch: Batch, *, once: bool) -> None:
        """Make files a part of the table; of no files only the entries are left.

        Raises:
            TransientError: another commit came before; or it can't be said.
        """

    @abstractmethod
    def merge(
        self, changes: pa.Table, key: Sequence[str], batch: Batch, *, once: bool, guarded: bool
    ) -> None:
        """Set and delete rows by their key.

        Args:
            changes: one of each key, with `GONE`.
            guarded: a row stays that has a greater `_sequence` than its change.

        Raises:
            TransientError: another commit came before; or it can't be said.
        """

    @abstractmethod
    def compact(self) -> tuple[int, int]:
        """Make larger files of small ones; return how many became how many.

        Raises:
            TransientError: another commit came before.
        """

    # -- reading ----------------------------------------------------------------------------------

    @abstractmethod
    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, of those columns that there are."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells it from a table that was made anew at its place."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of its version; later ones have greater numbers."""

    @abstractmethod
    def count(self) -> int | None:
        """Return how many rows it has, if that is known without reading."""

    @abstractmethod
    def check_feed(self) -> None:
        """See that the changes of later versions can be read.

        Raises:
            PermanentError: they can't; says what to do.
        """

    @abstractmethod
    def following(self, version: int) -> int | None:
        """Return the version after another one; None if that is the newest.

        Raises:
            PermanentError: the table does not remember that one.
        """

    @abstractmethod
    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, always in the same order for a version."""

    @abstractmethod
    def changes(self, version: int, key: Sequence[str], names: Sequence[str]) -> pa.Table | None:
        """Return what a version has changed.

        Args:
            version: one that is not newer than this.
            key: the columns that tell rows apart.
            names: the columns of interest.

        Returns:
            rows with `_change_type` and `_commit_timestamp`, in any order; None if there are none.

        Raises:
            PermanentError: it is not there any more.
        """


def ledger(batch: Batch) -> str:
    """Return the name of the ledger's entry of a batch's checkpoint."""
    return f"mainstem:{batch.pipeline}:{batch.sink}:{batch.query_id}"


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns of a table, null where they lack one."""
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(table.column(field.name).cast(field.type))
        else:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
    return pa.Table.from_arrays(columns, schema=schema)


def names_folders(kind: Any) -> bool:
    """Whether the values of a type can be folders' names."""
    kinds = pa.types
    of = (*_TEXTS, kinds.is_integer, kinds.is_date32, kinds.is_boolean)
    return any(each(kind) for each in of)


def fits(given: Any, there: Any, *, whole: bool = True) -> bool:
    """Whether a type's values can be held by another as they are, none rounded, cut or read anew.

    Args:
        whole: whether structs must keep all their fields.
    """
    kinds = pa.types
    given = given.value_type if kinds.is_dictionary(given) else given
    given = getattr(given, "storage_type", given)  # a UUID's are its bytes
    if given == there or kinds.is_null(given):
        return True
    if any(of(given) for of in _TEXTS):
        return any(of(there) for of in _TEXTS)
    if kinds.is_fixed_size_binary(given) or any(of(given) for of in _OCTETS):
        return any(of(there) for of in _OCTETS)  # bytes of any length are none of a fixed one
    if kinds.is_integer(given):
        unsigned = kinds.is_unsigned_integer(given)
        if kinds.is_decimal(there):
            digits = {8: 3, 16: 5, 32: 10, 64: 20 if unsigned else 19}[given.bit_width]
            return bool(there.precision - there.scale >= digits)
        least = given.bit_width * (2 if unsigned else 1)
        if kinds.is_floating(there):
            return bool(least * 2 <= there.bit_width)
        return bool(kinds.is_signed_integer(there) and there.bit_width >= least)
    if kinds.is_floating(given):
        return bool(kinds.is_floating(there) and there.bit_width >= given.bit_width)
    if kinds.is_decimal(given) and kinds.is_decimal(there):
        before = [kind.precision - kind.scale for kind in (given, there)]
        return bool(there.scale >= given.scale and before[1] >= before[0])
    if kinds.is_date(given) or kinds.is_time(given):
        later = kinds.is_date(given) and kinds.is_timestamp(there)
        return bool(later or any(of(there) for of in _TEXTS))
    if kinds.is_timestamp(given) and kinds.is_timestamp(there):  # a cast refuses a finer time
        return (given.tz is None) == (there.tz is None)
    if _is_list(given) and _is_list(there):
        return fits(given.value_type, there.value_type, whole=whole)
    if kinds.is_map(given) and kinds.is_map(there):
        pairs = ((given.key_type, there.key_type), (given.item_type, there.item_type))
        return all(fits(one, other, whole=whole) for one, other in pairs)
    if kinds.is_struct(given) and kinds.is_struct(there):
        known = {field.name: field.type for field in there}
        fields = [field for field in given if whole or field.name in known]
        return all(f.name in known and fits(f.type, known[f.name], whole=whole) for f in fields)
    return False


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_OCTETS = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def actual(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return columns as a table writes them: by their names whatever their case; those that it has."""
    known: Mapping[str, str] = {name.lower(): name for name in there}
    return [known[name.lower()] for name in wanted if name.lower() in known]
