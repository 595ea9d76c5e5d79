"""Values that are tables, files of Parquet or Arrow IPC, become rows: exactly, or with a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from mainstem.contracts.ddl import Column
from mainstem.contracts.formats import Several
from mainstem.formats.arrow import Array, DataType, pa, pc
from mainstem.formats.arrow_messages import declared_size
from mainstem.formats.kinds import arrow_type

#: So many rows are made at a time, and what they take is looked at.
_PART = 1_000
_FILE = b"ARROW1"
_TOO_LARGE = "more than {} bytes of rows"

#: The names of all columns of a table, and some of its rows.
Part = tuple[Sequence[str], Array]
#: The first and the last time of the years 1 to 9999, in microseconds since 1970, and their days.
_TIMES = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAYS = -719_162, 2_932_896


class Misfit(ValueError):  # noqa: N818
    """A value is no table, or one that the columns can't hold; says why."""


class TableValues:
    """Reads tables by a schema; columns are found by their names.

    Args:
        columns: those that come out.
        kind: how a value is written.
        missing: whether a column that a value does not have is null, instead of a reason.
        extra: whether a value may have others.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        kind: Literal["parquet", "arrow"],
        *,
        missing: bool,
        extra: bool,
    ) -> None:
        self._columns = columns
        self._kinds = [arrow_type(column.type or "") for column in columns]
        self._parts = _parquet if kind == "parquet" else _arrow
        self._name = {"parquet": "Parquet", "arrow": "Arrow IPC"}[kind]
        self._missing, self._extra = missing, extra

    def read(self, values: Array, limit: int) -> Several:
        """Return the rows of each value, all of them or none.

        Raises:
            ValueError: the rows of all of them together are more than a batch can hold.
        """
        rows: list[list[Array]] = [[pa.nulls(0, kind)] for kind in self._kinds]
        found = Several()
        count = 0
        for value in values.to_pylist():
            try:
                parts = self._value(value, limit)
            except Misfit as why:
                found.reasons.append(str(why))
            except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, MemoryError):
                found.reasons.append(f"not {self._name}")
            else:
                found.reasons.append(None)
                for number, part in enumerate(parts):
                    rows[number] += part
                count += sum(map(len, parts[0]))
            found.ends.append(count)
        try:
            found.rows = [pa.concat_arrays(arrays) for arrays in rows]
        except pa.ArrowInvalid:
            raise ValueError(
                f"the rows of {len(values)} messages are more than a batch can hold: lower "
                "spark.sql.execution.arrow.maxRecordsPerBatch under spark.conf"
            ) from None
        return found

    def _value(self, value: bytes | None, limit: int) -> list[list[Array]]:
        """Return the columns of a value, each in parts."""
        if value is None:
            raise Misfit("the value is null")
        made: list[list[Array]] = [[] for _ in self._columns]
        size = 0
        for names, batch in self._parts(value, [column.name for column in self._columns], limit):
            batch.validate(full=True)  # a file can say anything of itself
            size += sum(_size(batch.column(n)) for n in range(batch.num_columns))
            if size > limit:
                raise Misfit(_TOO_LARGE.format(limit))
            for number, array in enumerate(self._fitting(names, batch)):
                made[number].append(array)
        return made

    def _fitting(self, names: Sequence[str], batch: Array) -> Iterator[Array]:
        """Yield the columns of a part of a table.

        Args:
            names: those of all the table's columns, of which the part may lack some.
        """
        if len(set(names)) < len(names):
            raise Misfit("two of its columns have one name")
        own = [column.name for column in self._columns]
        if not self._extra and (more := [name for name in names if name not in own]):
            raise Misfit(f"{more[0]} is not in the schema")
        for column, kind in zip(self._columns, self._kinds, strict=True):
            if column.name not in names:
                if not self._missing:
                    raise Misfit(f"{column.name} is missing")
                array = pa.nulls(batch.num_rows, kind)
            else:
                array = _as(batch.column(column.name), kind, column)
            if not column.nullable and array.null_count:
                raise Misfit(f"{column.name} is null")
            yield array


def _parquet(value: bytes, names: Sequence[str], limit: int) -> Iterator[Part]:
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(value))
    there, told = file.schema_arrow.names, file.metadata
    # What it says of single columns is not looked at: of odd ones Arrow ends the process.
    if told.num_rows > limit:
        raise Misfit(_TOO_LARGE.format(limit))
    # A text that is there a million times is kept once, until it is known how much that makes.
    texts = [f.name for f in file.schema_arrow if f.name in names and _is_text(f.type)]
    sparing = parquet.ParquetFile(pa.BufferReader(value), read_dictionary=texts)
    if not told.num_rows:
        yield there, pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
    for batch in sparing.iter_batches(_PART, columns=[n for n in there if n in names]):
        yield there, batch


def _arrow(value: bytes, _: Sequence[str], limit: int) -> Iterator[Part]:
    # A file is a stream with a head, and with places of its parts at its end.
    source = pa.BufferReader(value[8:] if value.startswith(_FILE) else value)
    size = 0
    for message in pa.ipc.MessageReader.open_stream(source):
        size += declared_size(message.metadata.to_pybytes(), message.body)
        if size > limit:
            raise Misfit(_TOO_LARGE.format(limit))
    source.seek(0)
    with pa.ipc.open_stream(source) as stream:
        yield stream.schema.names, pa.RecordBatch.from_pylist([], schema=stream.schema)
        for batch in stream:
            yield stream.schema.names, batch


def _size(array: Array) -> int:
    """Return how many bytes an array takes, written plainly."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            return len(array) * 8
        lengths = pc.binary_length(array.dictionary)
        return int(pc.sum(pc.take(lengths, array.indices)).as_py() or 0) + 4 * len(array)
    if pa.types.is_struct(kind):
        return sum(_size(array.field(n)) for n in range(kind.num_fields)) + len(array)
    if _family(kind) == "list":
        return _size(array.flatten()) + 4 * len(array)
    return int(array.nbytes)


def _is_text(kind: DataType) -> bool:
    return _family(kind) in ("string", "binary") and not pa.types.is_fixed_size_binary(kind)


def _family(kind: DataType) -> str:
    """Return what kind of values a type has."""
    types = pa.types
    tests = {
        "null": types.is_null,
        "boolean": types.is_boolean,
        "integer": types.is_integer,
        "float": types.is_floating,
        "decimal": types.is_decimal,
        "string": lambda k: types.is_string(k) or types.is_large_string(k),
        "binary": lambda k: types.is_binary(k) or types.is_large_binary(k)
        or types.is_fixed_size_binary(k),
        "date": types.is_date,
        "list": lambda k: types.is_list(k) or types.is_large_list(k) or types.is_fixed_size_list(k),
        "struct": types.is_struct,
        "map": types.is_map,
    }  # fmt: skip
    if types.is_timestamp(kind):
        return "time" if kind.tz is None else "instant"
    return next((name for name, test in tests.items() if test(kind)), str(kind))


def _as(array: Array, kind: DataType, column: Column) -> Array:
    """Return the values of an array in a column's type.

    Raises:
        Misfit: that has not all of them.
    """
    if not _fits(array.type, kind):
        raise Misfit(f"{column.name} is no {column.type}: the table has {array.type}")
    try:
        return _cast(array, kind)
    except _Far:
        raise Misfit(f"{column.name} is beyond the years 1 to 9999") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Misfit(f"{column.name} is no {column.type}") from None


def _fits(given: DataType, wanted: DataType) -> bool:
    """Whether a type's values are of the kind of another's, which may still not hold all of them."""
    if pa.types.is_dictionary(given):
        return _fits(given.value_type, wanted)
    family = _family(given)
    if family == "null" or given == wanted:
        return True  # which a column's own type is: none of Spark's is odd
    if family != _family(wanted):
        return False
    if family == "decimal":
        return bool(0 <= given.scale <= given.precision)  # Arrow casts of any other, and crashes
    if family == "float":
        return bool(given.bit_width <= wanted.bit_width)
    if family == "list":
        return _fits(given.value_type, wanted.value_type)
    if family == "map":
        same = _fits(given.key_type, wanted.key_type)
        return same and _fits(given.item_type, wanted.item_type)
    if family == "struct":
        theirs = {field.name: field.type for field in given}
        return all(f.name not in theirs or _fits(theirs[f.name], f.type) for f in wanted)
    return True


class _Far(ValueError):  # noqa: N818
    """A time is beyond the years 1 to 9999."""


def _cast(array: Array, kind: DataType) -> Array:
    """Return values in a type of their kind.

    Raises:
        ArrowInvalid: the type has not all of them.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = [array.type.field(n).name for n in range(array.type.num_fields)]
        fields = [
            _cast(array.field(names.index(f.name)), f.type)
            if f.name in names
            else pa.nulls(len(array), f.type)
            for f in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and _family(array.type) == "list":
        plain = array.cast(pa.list_(array.type.value_type))
        items = _cast(plain.values, kind.value_type)
        made = pa.ListArray.from_arrays(plain.offsets, items, type=kind)
        return (
            pc.if_else(array.is_null(), pa.scalar(None, kind), made) if array.null_count else made
        )
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        keys, items = _cast(array.keys, kind.key_type), _cast(array.items, kind.item_type)
        made = pa.MapArray.from_arrays(array.offsets, keys, items, type=kind)
        return (
            pc.if_else(array.is_null(), pa.scalar(None, kind), made) if array.null_count else made
        )
    made = array if array.type == kind else array.cast(kind, safe=True)
    limits = _TIMES if pa.types.is_timestamp(kind) else _DAYS if pa.types.is_date(kind) else None
    if limits is not None and len(made):
        found = pc.min_max(made.cast(pa.int64() if limits is _TIMES else pa.int32()))
        least, most = found["min"].as_py(), found["max"].as_py()
        if least is not None and not (limits[0] <= least and most <= limits[1]):
            raise _Far
    return made
