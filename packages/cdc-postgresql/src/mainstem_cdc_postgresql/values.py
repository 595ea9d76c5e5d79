"""Values as PostgreSQL prints them, with the types that a document gives them: exactly, or refused."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from mainstem.columns import parts_of

Reader = Callable[[str], Any]

#: How the server prints numbers.
WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_TOO_LARGE = "a number that is too large"


class Misfit(ValueError):  # noqa: N818
    """A value that its type does not hold; says why, without the value."""


def has_reader(kind: str) -> bool:
    """Whether values can have a type, in Spark's short form."""
    if kind.startswith("array<"):
        return has_reader(parts_of(kind)[0].type or "")
    return kind.partition("(")[0] in _READERS


def reader(kind: str) -> Reader:
    """Return what makes values of a type from what PostgreSQL prints (ISO dates, UTC, bytes in hex).

    Raises:
        KeyError: there is none; see `has_reader`.
    """
    if kind.startswith("array<"):
        inner = reader(parts_of(kind)[0].type or "")
        return lambda text: _array(text, inner)
    return _READERS[kind.partition("(")[0]]


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise Misfit("no boolean")
    return text == "t"


def _whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise Misfit("no whole number")
    return int(text)


def _decimal(text: str) -> Decimal:
    if text in ("NaN", "Infinity", "-Infinity"):
        raise Misfit(f"{text} is no number that a DECIMAL holds")
    if not DECIMAL.fullmatch(text):
        raise Misfit("no decimal")
    return Decimal(text)


def _float(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise Misfit("no number") from None
    if math.isinf(found) and "inf" not in text.lower():
        raise Misfit(_TOO_LARGE)
    return found


def _small_float(text: str) -> float:
    found = _float(text)
    try:
        struct.pack("<f", found)
    except OverflowError:
        raise Misfit(_TOO_LARGE) from None
    return found


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise Misfit("no bytes in hex")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise Misfit("no bytes in hex") from None


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "date")) from None


def _timestamp(text: str) -> datetime:
    """Return a time; one with an offset is given in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "time")) from None
    if found.tzinfo is None:
        raise Misfit("a time without a zone: read it as TIMESTAMP_NTZ")
    return found.astimezone(UTC)


def _local(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "time")) from None
    if found.tzinfo is not None:
        raise Misfit("a time with a zone: read it as TIMESTAMP")
    return found


def _beyond(text: str, what: str) -> str:
    if text in ("infinity", "-infinity"):
        return f"{text} is no {what} that other systems know"
    if text.endswith("BC") or (text[:5].isdigit()):
        return f"a {what} beyond the years 1 to 9999"
    return f"no {what}"


_READERS: Mapping[str, Reader] = {
    "boolean": _boolean,
    "tinyint": _whole,
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "decimal": _decimal,
    "float": _small_float,
    "double": _float,
    "string": str,
    "binary": _bytes,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
}


# -- arrays: {1,NULL,"a \"b\""}, nested, perhaps with bounds before ([0:1]={1,2}) -----------------


def _array(text: str, inner: Reader) -> list[Any]:
    start = text.find("{")
    if start < 0 or (start and not (text.startswith("[") and text[:start].endswith("]="))):
        raise Misfit("no array")
    found, end = _elements(text, start, inner)
    if end != len(text):
        raise Misfit("no array")
    return found


def _elements(text: str, at: int, inner: Reader) -> tuple[list[Any], int]:
    """Return the elements of the array that begins at a place, and where it ends.

    Elements of elements have `inner` bound to the array's text: see `reader`.
    """
    found: list[Any] = []
    at += 1
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        elif text[at] == "{":
            end = _closing(text, at)
            found.append(inner(text[at:end]))
            at = end
        elif text[at] == '"':
            word, at = _quoted(text, at)
            found.append(inner(word))
        else:
            end = min(e for e in (text.find(",", at), text.find("}", at)) if e >= 0)
            word = text[at:end]
            found.append(None if word == "NULL" else inner(word))
            at = end
    return found, at + 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the quoted text that begins at a place, and where it ends."""
    parts: list[str] = []
    at += 1
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


def _closing(text: str, at: int) -> int:
    """Return where the array that begins at a place ends."""
    depth = 0
    while True:
        if text[at] == '"':
            at = _quoted(text, at)[1]
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if not depth:
            return at
