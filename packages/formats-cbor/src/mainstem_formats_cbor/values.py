"""Values of CBOR and Python's; the only module that imports the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import cbor2
from mainstem.columns import Column
from mainstem.objects import Misfit, ObjectColumns, ObjectRows

#: What the heads of tags look like by which parts of a value are there again.
_SHARED = re.compile(
    rb"\xd8[\x19\x1c\x1d]|\xd9(?:\x00[\x19\x1c\x1d]|\x01\x00)|\xda\x00\x00|\xdb\x00\x00", re.DOTALL
)
#: A text of tag 0 with more digits than microseconds have.
_FINER = re.compile(
    rb"\xc0(?:[\x60-\x77]|\x78.)\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d\.\d{6}0*[1-9]", re.DOTALL
)
#: How large a value with such parts may be, in bytes: so many times what it is written in, within limits;
#: and what each part takes at least.
_TIMES, _SMALL, _LARGEST, _EACH = 100, 64 * 2**10, 16 * 2**20, 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def reader(columns: Sequence[Column], options: Mapping[str, Any]) -> Callable[..., Any]:
    """Return what reads an array of bytes: columns, and why rows are refused."""
    made = ObjectColumns(columns, **options)
    return lambda values: made.read(values, _object)


def writer(columns: Sequence[Column]) -> Callable[..., Any]:
    """Return what writes rows: values, and why rows have none."""
    return ObjectRows(columns, cbor2.dumps, _instant).write


def _object(value: bytes) -> Any:
    if _FINER.search(value):  # which the library cuts
        raise Misfit("a time is finer than microseconds")
    stream = BytesIO(value)
    try:
        made = cbor2.load(stream)
    except RecursionError:
        raise
    except Exception:  # of many kinds, as of tags whose values are none
        raise Misfit("not CBOR, or a value that is none") from None
    if stream.tell() < len(value):
        raise Misfit("more bytes after the value")
    if _SHARED.search(value):
        _check_size(made, max(_SMALL, min(_LARGEST, _TIMES * len(value))))
    return made


def _check_size(made: Any, most: int) -> None:
    """Refuse a value that is far larger than what it is written in, by parts that are there again."""
    waiting, size = [made], 0
    while waiting:
        each = waiting.pop()
        size += _EACH
        if isinstance(each, str | bytes):
            size += len(each)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            waiting += each
        if size + _EACH * len(waiting) > most:
            raise Misfit(f"it would take more than {most} bytes")


def _instant(micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise Misfit("a time is beyond the years 1 to 9999") from None
