"""Values as a database prints them, with the types that a document gives them: exactly, or refused."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

#: Makes a value of its text.
Reader = Callable[[str], Any]

#: How databases print numbers.
WHOLE = re.compile(r"-?[0-9]+", re.ASCII)
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_TOO_LARGE = "a number that is too large"


class Misfit(ValueError):  # noqa: N818
    """A value that its type does not hold; says why, without the value."""


class Unchanged:
    """The type of `UNCHANGED`."""

    def __repr__(self) -> str:
        return "UNCHANGED"


#: Stands for a value that a change left as it was, and that the log has not.
UNCHANGED = Unchanged()
#: A column's value as the database prints it, null, or `UNCHANGED`.
Value = bytes | None | Unchanged


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
        found = float("" if "_" in text else text)  # 1_000 is a number of Python's alone
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


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "date")) from None


def _timestamp(text: str) -> datetime:
    """Return a time; one with an offset is given in UTC."""
    _micros(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "time")) from None
    if found.tzinfo is None:
        raise Misfit("a time without a zone: read it as TIMESTAMP_NTZ")
    return found.astimezone(UTC)


def _local(text: str) -> datetime:
    _micros(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misfit(_beyond(text, "time")) from None
    if found.tzinfo is not None:
        raise Misfit("a time with a zone: read it as TIMESTAMP")
    return found


def _micros(text: str) -> None:
    """See that a time is in whole microseconds: Python would cut the rest."""
    finer = _FINER.search(text)
    if finer is not None and finer[1].strip("0"):
        raise Misfit("a time with parts of a microsecond")


_FINER = re.compile(r"[.,]\d{6}(\d+)")


def _beyond(text: str, what: str) -> str:
    if text in ("infinity", "-infinity"):
        return f"{text} is no {what} that other systems know"
    if "-00" in text[:10]:
        return f"a {what} with a month or day of zero"
    if text.endswith("BC") or text.startswith("0000-") or (text[:5].isdigit()):
        return f"a {what} beyond the years 1 to 9999"
    return f"no {what}"


#: By type, in Spark's short form without arguments. A source adds how its database prints others.
READERS: Mapping[str, Reader] = {
    "tinyint": _whole,
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "decimal": _decimal,
    "float": _small_float,
    "double": _float,
    "string": str,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
}
