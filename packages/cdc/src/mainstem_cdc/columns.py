"""Columns of values as a database prints them, as Arrow has them.

Arrow reads most texts itself, a column at a time. Where it can't, one value of the column may be at
fault, and they are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mainstem.columns import arrow_type

from mainstem_cdc.values import DECIMAL, UNCHANGED, WHOLE, Misfit, Reader, Value

#: Makes a column of a type of an array of bytes; raises where it can't.
ColumnReader = Callable[[Any, Any], Any]

#: The years 1 to 9999, in microseconds since 1970.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAY = 86_400_000_000

_LACKING = (
    "the log has not its value, which did not change: let the database write whole rows into its log, or "
    "read it from the table (`unchanged: read`)"
)


class PrintedRows:
    """Rows of a chunk as columns of what the database prints.

    Args:
        columns: arrays of bytes, by name.
        key: the columns of the key.
    """

    def __init__(self, columns: Mapping[str, Any], key: Sequence[str]) -> None:
        self.columns = columns
        self._key = key
        self._superseded: set[tuple[Value, ...]] = set()

    def __len__(self) -> int:
        return len(self.columns[self._key[0]])

    @property
    def nbytes(self) -> int:
        """About how many bytes they have."""
        return sum(column.nbytes for column in self.columns.values())

    def pop(self, key: tuple[Value, ...], _: None = None) -> None:
        """Leave out the row of a key, if there is one."""
        self._superseded.add(key)

    def values(self) -> PrintedRows:
        """Return the rows that are left."""
        if not self._superseded:
            return self
        keys = zip(*(self.columns[name].to_pylist() for name in self._key), strict=True)
        left = pa.array([key not in self._superseded for key in keys])
        return PrintedRows({n: c.filter(left) for n, c in self.columns.items()}, self._key)

    def row(self, number: int) -> list[Value]:
        """Return the values of a row."""
        return [column[number].as_py() for column in self.columns.values()]

    def rows(self) -> list[list[Value]]:
        """Return the values of each row."""
        columns = [column.to_pylist() for column in self.columns.values()]
        return [list(row) for row in zip(*columns, strict=True)]


class ColumnReaders:
    """Makes columns of what a database prints.

    Args:
        reader: returns what makes a value of a type, in Spark's short form.
        columns: what makes whole columns, by type without arguments; replaces and adds to the usual ones.
        raw: types whose values are bytes as they are, and no text.
    """

    def __init__(
        self,
        reader: Callable[[str], Reader],
        columns: Mapping[str, ColumnReader],
        raw: frozenset[str] = frozenset(),
    ) -> None:
        self._reader = reader
        self._columns = {**_BY_COLUMN, **columns}
        self._raw = raw

    def read(self, kind: str, values: Any) -> tuple[Any, dict[int, str]]:
        """Return a column, and by their numbers why values are refused; those are null in it.

        Args:
            kind: the type, in Spark's short form.
            values: as the database prints them, in a sequence or an array.
        """
        target = arrow_type(kind)
        read = self._columns.get(kind.partition("(")[0])
        made = isinstance(values, pa.Array)
        if read is not None:
            try:
                return read(values if made else pa.array(values, pa.binary()), target), {}
            except (pa.ArrowException, TypeError, ValueError):
                pass  # of some of them, or of text that Arrow does not know
        return self._one_by_one(kind, target, values.to_pylist() if made else values)

    def _one_by_one(
        self, kind: str, target: Any, values: Sequence[Value]
    ) -> tuple[Any, dict[int, str]]:
        raw = kind in self._raw
        read: Callable[[Any], Any] = bytes if raw else self._reader(kind)
        refused: dict[int, str] = {}
        found: list[Any] = []
        for at, value in enumerate(values):
            made = None
            try:
                if value is UNCHANGED:
                    raise Misfit(_LACKING)
                if isinstance(value, bytes):
                    made = read(value if raw else value.decode())
                    pa.scalar(made, target)
            except Misfit as error:
                made, refused[at] = None, str(error)
            except (ArithmeticError, IndexError, TypeError, ValueError, pa.ArrowException):
                made, refused[at] = None, f"it is no {kind.upper()}"
            found.append(made)
        return pa.array(found, target), refused


def _text(values: Any, _: Any) -> Any:
    return values.cast(pa.string())


def _cast(values: Any, target: Any) -> Any:
    return values.cast(pa.string()).cast(target)


def _whole(values: Any, target: Any) -> Any:
    return _matching(values, WHOLE).cast(target)


def _decimal(values: Any, target: Any) -> Any:
    return _matching(values, DECIMAL).cast(target)


def _matching(values: Any, pattern: re.Pattern[str]) -> Any:
    """Return texts all of which are written so: Arrow reads others too, such as hex."""
    texts = values.cast(pa.string())
    if pc.all(pc.match_substring_regex(texts, f"^{pattern.pattern}$")).as_py() is False:
        raise ValueError("another text")
    return texts


def _time(values: Any, target: Any) -> Any:
    made = _cast(values, target)
    ends: Any = pc.min_max(made.cast(pa.int64()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is not None and (first < _FIRST or last > _LAST):
        raise ValueError("beyond the years 1 to 9999")
    return made


def _day(values: Any, target: Any) -> Any:
    made = _cast(values, target)
    ends: Any = pc.min_max(made.cast(pa.int32()))
    first, last = ends["min"].as_py(), ends["max"].as_py()
    if first is not None and (first < _FIRST // _DAY or last > _LAST // _DAY):
        raise ValueError("beyond the years 1 to 9999")
    return made


def boolean(true: str, false: str) -> ColumnReader:
    """Return what reads booleans that are printed so."""

    def read(values: Any, _: Any) -> Any:
        texts: Any = values.cast(pa.string())
        if not pc.all(pc.is_in(texts, pa.array([true, false, None]))).as_py():
            raise ValueError("no boolean")
        return pc.equal(texts, pa.scalar(true))

    return read


def raw(values: Any, _: Any) -> Any:
    """Return bytes as they are."""
    return values


def _number(values: Any, target: Any) -> Any:
    """Return floating numbers; infinity is what is written so, and not what is too large."""
    made = _cast(values, target)
    if pc.any(pc.is_inf(made)).as_py():
        raise ValueError("infinity")
    return made


_BY_COLUMN: Mapping[str, ColumnReader] = {
    "tinyint": _whole,
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "decimal": _decimal,
    "float": _number,
    "double": _number,
    "string": _text,
    "date": _day,
    "timestamp": _time,
    "timestamp_ntz": _time,
}
