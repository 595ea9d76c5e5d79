"""Values of CBOR and Python's; the only module that imports the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Inexact, InvalidOperation, Overflow, localcontext
from io import BytesIO
from typing import Any

import cbor2
from mainstem.columns import Column
from mainstem.objects import Misfit, ObjectColumns, ObjectRows

#: What the heads of tags look like by which parts of a value are there again.
_SHARED = re.compile(
    rb"\xd8[\x19\x1c\x1d]|\xd9(?:\x00[\x19\x1c\x1d]|\x01\x00)|\xda\x00\x00|\xdb\x00\x00", re.DOTALL
)
#: What tag 0 before a text looks like, and such a text with more digits than microseconds have.
_DATED = re.compile(rb"(?:\xc0|\xd8\0|\xd9\0{2}|\xda\0{4}|\xdb\0{8})[\x60-\x7f]")
_FINER = re.compile(rb"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d\.\d{6}0*[1-9]")
#: What the heads of tags 4 and 5, of numbers by digits and exponent, look like.
_EXACT = re.compile(rb"[\xc4\xc5]|\xd8[\x04\x05]|\xd9\0[\x04\x05]|\xda\0{3}|\xdb\0{7}")
#: So many digits of them are computed with, and none is rounded.
_DIGITS = Context(prec=1500, traps=[Inexact, InvalidOperation, Overflow])
#: How large a value with such parts may be, in bytes: so many times what it is written in, within limits;
#: and what each part takes at least.
_TIMES, _SMALL, _LARGEST, _EACH = 100, 64 * 2**10, 16 * 2**20, 8
_BYTES, _TEXT, _TAG, _BREAK = 2, 3, 6, 0xFF
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
        if _EXACT.search(value):
            with localcontext(_DIGITS):
                made = cbor2.load(stream)
        else:
            made = cbor2.load(stream)
    except RecursionError:
        raise
    except Exception:  # of many kinds, as of tags whose values are none
        raise Misfit("not CBOR, or a value that is none") from None
    if stream.tell() < len(value):
        raise Misfit("more bytes after the value")
    # Which the library cuts. A text that comes in parts has another head.
    may = _DATED.search(value) and (_FINER.search(value) or b"\x7f" in value)
    if may and any(map(_FINER.match, _dated(value))):
        raise Misfit("a time is finer than microseconds")
    if _SHARED.search(value):
        _check_size(made, max(_SMALL, min(_LARGEST, _TIMES * len(value))))
    return made


def _dated(value: bytes) -> Iterator[bytes]:
    """Yield the texts of tag 0 of a value that was read: all its parts stand one behind the other."""
    at, tagged = 0, False
    while at < len(value):
        major, number, at = _head(value, at)
        text = b""
        if major in (_BYTES, _TEXT) and number is not None:
            text, at = value[at : at + number], at + number
        elif major == _TEXT:
            while value[at] != _BREAK:
                _, size, at = _head(value, at)
                text, at = text + value[at : at + (size or 0)], at + (size or 0)
        if tagged and major == _TEXT:
            yield text
        tagged = major == _TAG and number == 0


def _head(value: bytes, at: int) -> tuple[int, int | None, int]:
    """Return the kind of a part, its number, None where it has none, and what is behind its head."""
    major, info, at = value[at] >> 5, value[at] & 31, at + 1
    if info < 24:
        return major, info, at
    if info == 31:
        return major, None, at
    end = at + (1 << info - 24)
    return major, int.from_bytes(value[at:end], "big"), end


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
