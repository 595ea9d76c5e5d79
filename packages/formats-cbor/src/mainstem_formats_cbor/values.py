"""Values of CBOR and Python's; the only module that imports the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import cbor2
from mainstem.columns import Column
from mainstem.objects import Misfit, ObjectColumns, ObjectRows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reader(columns: Sequence[Column], options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what reads an array of bytes: columns, and why rows are refused."""
    made = ObjectColumns(columns, **options)
    return lambda values: made.read(values, _object)


def writer(columns: Sequence[Column]) -> Callable[..., Any]:
    """Return what writes rows: values, and why rows have none."""
    return ObjectRows(columns, cbor2.dumps, _instant).write


def _object(value: bytes) -> Any:
    stream = BytesIO(value)
    try:
        made = cbor2.load(stream)
    except RecursionError:
        raise
    except Exception:  # of many kinds, as of tags whose values are none
        raise Misfit("not CBOR, or a value that is none") from None
    if stream.tell() < len(value):
        raise Misfit("more bytes after the value")
    return made


def _instant(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise Misfit("a time is beyond the years 1 to 9999") from None
