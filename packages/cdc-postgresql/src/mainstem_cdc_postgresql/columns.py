"""Columns of values as PostgreSQL prints them, as Arrow has them.

Arrow reads most texts itself, a column at a time. Where it can't, one value of the column may be at
fault, and `values` reads them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mainstem.columns import arrow_type

from mainstem_cdc_postgresql.protocol import UNCHANGED, Value
from mainstem_cdc_postgresql.values import Misfit, reader

_LACKING = (
    "the log has not its value, which did not change: give the table REPLICA IDENTITY FULL, or read it "
    "from the table (`unchanged: read`)"
)


def column(kind: str, values: Sequence[Value]) -> tuple[Any, dict[int, str]]:
    """Return a column, and by their numbers why values are refused; those are null in it.

    Args:
        kind: the type, in Spark's short form.
    """
    target = arrow_type(kind)
    read = _BY_COLUMN.get(kind.partition("(")[0])
    if read is not None:
        try:
            return read(pa.array(values, pa.binary()), target), {}
        except (pa.ArrowException, TypeError, ValueError):
            pass  # of some of them, or of text that Arrow does not know
    return _one_by_one(kind, target, values)


def _one_by_one(kind: str, target: Any, values: Sequence[Value]) -> tuple[Any, dict[int, str]]:
    read, refused = reader(kind), {}
    found: list[Any] = []
    for at, value in enumerate(values):
        made = None
        try:
            if value is UNCHANGED:
                raise Misfit(_LACKING)
            if isinstance(value, bytes):
                made = read(value.decode())
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


def _boolean(values: Any, _: Any) -> Any:
    texts: Any = values.cast(pa.string())
    if not pc.all(pc.is_in(texts, pa.array(["t", "f", None]))).as_py():
        raise ValueError("no boolean")
    return pc.equal(texts, pa.scalar("t"))


def _number(values: Any, target: Any) -> Any:
    """Return floating numbers; infinity is what is written so, and not what is too large."""
    made = _cast(values, target)
    if pc.any(pc.is_inf(made)).as_py():
        raise ValueError("infinity")
    return made


_BY_COLUMN: Mapping[str, Callable[[Any, Any], Any]] = {
    "boolean": _boolean,
    "tinyint": _cast,
    "smallint": _cast,
    "int": _cast,
    "bigint": _cast,
    "decimal": _cast,
    "float": _number,
    "double": _number,
    "string": _text,
    "date": _cast,
    "timestamp": _cast,
    "timestamp_ntz": _cast,
}
