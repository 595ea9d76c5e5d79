"""Documents: from bytes, as text, and as Extended JSON. All of bson is here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any
from uuid import UUID

from bson import (
    CodecOptions,
    DatetimeConversion,
    Decimal128,
    Int64,
    ObjectId,
    Timestamp,
    UuidRepresentation,
    decode,
    encode,
    json_util,
)
from bson.errors import BSONError
from bson.json_util import JSONMode, JSONOptions
from bson.raw_bson import RawBSONDocument
from mainstem import PermanentError

ID = "_id"
#: How documents are read, and how they are left as they are.
READ: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    uuid_representation=UuidRepresentation.STANDARD,
    unicode_decode_error_handler="backslashreplace",
)
RAW: Any = CodecOptions(document_class=RawBSONDocument)

_EXACTLY, _FOR_PEOPLE = (
    JSONOptions(
        json_mode=mode, tz_aware=True, tzinfo=UTC, uuid_representation=UuidRepresentation.STANDARD
    )
    for mode in (JSONMode.CANONICAL, JSONMode.RELAXED)
)
#: Floating numbers below this are whole ones exactly.
_EXACT = 2**53
_MIDNIGHT = time_of_day(0, tzinfo=None)

#: A token begins with this, eight digits of seconds since 1970, and eight of a counter.
_MARK = "82"
TIME = slice(2, 18)


def read(data: bytes) -> dict[str, Any]:
    """Return a document of its bytes."""
    return decode(data, READ)


# -- times in tokens ------------------------------------------------------------------------------


def place_of(stamp: Timestamp, after: int = 0) -> str:
    """Return what the tokens of a time begin with, or of one that is later by some counts."""
    return f"{_MARK}{stamp.time:08X}{stamp.inc + after:08X}"


def stamp_of(token: str) -> Timestamp:
    """Return the time of a token."""
    return Timestamp(int(token[2:10], 16), int(token[10:18], 16))


def before(stamp: Timestamp) -> Timestamp:
    """Return the time before one."""
    if stamp.inc:
        return Timestamp(stamp.time, stamp.inc - 1)
    return Timestamp(stamp.time - 1, 2**32 - 1)


def shown_time(token: str) -> str:
    """Return the time of a token, for people."""
    stamp = stamp_of(token)
    return (
        f"{datetime.fromtimestamp(stamp.time, UTC):%Y-%m-%d %H:%M:%S}Z ({stamp.time}.{stamp.inc})"
    )


# -- ids and conditions ---------------------------------------------------------------------------


def as_key(value: Any) -> str:
    """Return an id as text: its bytes in hexadecimal, so that each type stays what it is."""
    return encode({ID: value}, codec_options=READ).hex()


def of_key(text: str) -> Any:
    """Return what `as_key` was given, as a document of nothing but it, which is sent as it is."""
    return RawBSONDocument(bytes.fromhex(text))


def same_id(document: Mapping[str, Any], key: str) -> bool:
    """Whether a document has an id, as `as_key` returns it."""
    return as_key(document[ID]) == key


def as_condition(where: str | None) -> dict[str, Any]:
    """Return which documents a filter in Extended JSON means.

    Raises:
        PermanentError: it is none.
    """
    if where is None:
        return {}
    try:
        found = json_util.loads(where, json_options=_EXACTLY)
    except (ArithmeticError, BSONError, KeyError, TypeError, ValueError) as error:
        raise PermanentError(f"no filter as JSON: {error}") from None
    if not isinstance(found, dict):
        raise PermanentError("no filter: expected a JSON object")
    return found


# -- values ---------------------------------------------------------------------------------------


def printed(value: Any, kind: str) -> bytes | None:
    """Return a field's value as text; null for null and for none.

    Documents, arrays and what other databases do not have are relaxed Extended JSON.

    Args:
        kind: the type that it is read as, in Spark's short form.
    """
    return None if value is None else _text(value, kind).encode()


def _text(value: Any, kind: str) -> str:
    if isinstance(value, str) and type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) in (int, Int64):
        return str(int(value))
    if isinstance(value, float):
        return _number(value, kind)
    if isinstance(value, Decimal128):
        found = value.to_decimal()
        if not found.is_finite():
            return "NaN" if found.is_nan() else _odd(float(found))
        return format(found, "f")
    if isinstance(value, datetime):
        midnight = kind == "date" and value.time() == _MIDNIGHT
        return value.date().isoformat() if midnight else value.isoformat()
    if isinstance(value, (ObjectId, UUID)):
        return str(value)
    if type(value) is bytes:
        return f"\\x{value.hex()}"
    return json_util.dumps(value, json_options=_FOR_PEOPLE, ensure_ascii=False)


def _number(value: float, kind: str) -> str:
    if not math.isfinite(value):
        return _odd(value)
    # Shells write whole numbers as floating ones.
    if value.is_integer() and abs(value) < _EXACT and kind not in ("float", "double"):
        return str(int(value))
    text = repr(value)
    return format(Decimal(text), "f") if kind.startswith("decimal") else text


def _odd(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
