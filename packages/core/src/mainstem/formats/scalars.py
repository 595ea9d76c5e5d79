"""Texts become values of a type, exactly or not at all.

What is accepted is said in `docs/formats.md`. Each type has a function that reads one text, which is what
counts; most batches go a faster way, by a pattern that is narrower and one of Arrow's casts.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

import numpy as np

from mainstem.contracts.ddl import Column
from mainstem.formats.arrow import Array, DataType, pa, pc
from mainstem.formats.kinds import arrow_type
from mainstem.formats.rules import Rules
from mainstem.formats.words import decimal_of, word_of

#: Why a time does not fit that its format could hold.
FAR = "is beyond the years 1 to 9999"
#: Microseconds in one of each unit that a number of a time can count.
UNITS = {
    "s": Decimal(1_000_000),
    "ms": Decimal(1_000),
    "us": Decimal(1),
    "ns": Decimal("0.001"),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST = _FIRST_DAY * 86_400_000_000
_LAST = (_LAST_DAY + 1) * 86_400_000_000 - 1
#: No number that a column can hold needs more, and reckoning out much longer ones takes time.
_LONGEST = 1000

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"([+-]?)inf(?:inity)?|nan", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r" ?(?:(Z|UTC)|([+-])([0-9]{2}):?([0-9]{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)
#: What is in years that have more or fewer digits than four, as Java writes them.
_FAR = re.compile(r"[+-][0-9]{4,}-[0-9]{2}-[0-9]{2}.*|0000-.*", re.ASCII)


class Misfit(ValueError):  # noqa: N818
    """A value does not fit its type: the words go behind the column's name."""


#: An array and, by index, why a text did not fit.
Read = tuple[Array, dict[int, str]]


def read(kind: str, texts: Array, rules: Rules = Rules()) -> Read:  # noqa: B008
    """Read an array of texts as values of a type.

    Args:
        kind: the type in Spark's short form, not a nested one.
        texts: strings or nulls; a null stays one.
    """
    word = word_of(kind)
    if word in ("string", "variant"):
        return texts, {}
    pattern, cast = _fast(kind, rules)
    if pattern is not None and cast is not None:
        plain = pc.match_substring_regex(texts, pattern)
        if pc.all(plain, min_count=0).as_py() is not False:
            try:
                return cast(texts), {}
            except pa.ArrowInvalid:
                pass  # some text is a value that does not fit: which, is found one by one
    one = reader(kind, rules)
    values: list[Any] = []
    bad: dict[int, str] = {}
    for index, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else one(text))
        except Misfit as misfit:
            values.append(None)
            bad[index] = str(misfit)
    return made(kind, values), bad


def read_columns(
    columns: Sequence[Column],
    kinds: Sequence[str],
    texts: Sequence[Array],
    rules: Rules,
    reasons: list[str | None],
    *,
    loose: bool,
) -> list[Array]:
    """Return columns that are read of their texts.

    Args:
        kinds: their types, of which some are other than the columns' in the end.
        texts: an array for each.
        reasons: for each row why it is refused, to which misfits are added where there is none yet.
        loose: whether misfits are null instead.
    """
    arrays = []
    misfits: dict[int, list[str]] = {}
    for column, kind, written in zip(columns, kinds, texts, strict=True):
        array, bad = read(kind, written, rules)
        arrays.append(array)
        for index, words in {} if loose else bad.items():
            misfits.setdefault(index, []).append(f"{column.name} {words}")
    for index, names in misfits.items():
        reasons[index] = reasons[index] or ", ".join(names)
    return arrays


def made(kind: str, values: list[Any]) -> Array:
    """Return an array of what `reader` gives for texts: times are microseconds, dates are days."""
    word = word_of(kind)
    if word in ("timestamp", "timestamp_ntz"):
        return pa.array(values, pa.int64()).cast(arrow_type(kind))
    if word == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if word == "float":
        return pa.array(values, pa.float64()).cast(pa.float32(), safe=False)
    return pa.array(values, arrow_type(kind))


def reader(kind: str, rules: Rules) -> Callable[[str], Any]:
    """Return what reads one text, and raises `Misfit` where it does not fit."""
    word, no = word_of(kind), f"is no {kind.upper()}"
    if word in _BITS:
        return lambda text: integer(plain(text, rules, no), _BITS[word], no)
    if word == "boolean":
        return lambda text: _boolean(text, no)
    if word in ("float", "double"):
        return lambda text: floating(plain(text, rules, no), no, single=word == "float")
    if word == "decimal":
        precision, scale = decimal_of(kind)
        return lambda text: exact_decimal(plain(text, rules, no), precision, scale, no)
    if word == "date":
        return lambda text: days(text, no)
    if word in ("timestamp", "timestamp_ntz"):
        local = word == "timestamp_ntz"
        return lambda text: micros(text, no, unit=rules.unit, local=local)
    if word == "binary":
        return lambda text: base64_bytes(text, no)
    if word in ("string", "variant"):
        return lambda text: text
    raise ValueError(f"no text is written for values of type {kind}")


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def plain(text: str, rules: Rules, no: str) -> str:
    """Return a number's text with a point before its fraction, and nothing between its digits."""
    if rules.thousands and rules.thousands in text:
        whole, mark, rest = text.partition(rules.decimal)
        groups = whole.lstrip("+-").split(rules.thousands)
        if not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:]):
            raise Misfit(no)
        text = whole.replace(rules.thousands, "") + mark + rest
    if rules.decimal != ".":
        if "." in text:
            raise Misfit(no)
        text = text.replace(rules.decimal, ".", 1)
    return text


def integer(text: str, bits: int, no: str) -> int:
    """Read a whole number of so many bits."""
    if len(text) > _LONGEST or not _INTEGER.fullmatch(text):
        raise Misfit(no)
    value = int(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise Misfit(no)
    return value


def floating(text: str, no: str, *, single: bool = False) -> float:
    """Read a binary number: the nearest one; what is too large for any is refused, not infinite."""
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise Misfit(no)
    return finite(float(text), no, single=single)


def finite(value: float, no: str, *, single: bool) -> float:
    """Return a number that was written in digits, if it is not too large."""
    with np.errstate(over="ignore"):
        if math.isinf(np.float32(value) if single else value):
            raise Misfit(no)
    return value


def exact_decimal(text: str, precision: int, scale: int, no: str) -> Decimal:
    """Read a decimal number that needs no rounding."""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise Misfit(no)
    return fitting(_number(text, no), precision, scale, no)


def _number(text: str, no: str) -> Decimal:
    """Return a number in digits, but for one whose exponent no number has."""
    try:
        return Decimal(text)
    except DecimalException:
        raise Misfit(no) from None


def fitting(value: Decimal, precision: int, scale: int, no: str) -> Decimal:
    """Return a decimal number with a column's scale, if that neither rounds it nor is too short."""
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return value.quantize(Decimal(1).scaleb(-scale), context=context)
    except DecimalException:
        raise Misfit(no) from None


def days(text: str, no: str) -> int:
    """Read a date (ISO 8601: 2024-02-29) as days since 1970-01-01."""
    if not _DATE.fullmatch(text):
        raise Misfit(FAR if _FAR.fullmatch(text) else no)
    if text.startswith("0000"):
        raise Misfit(FAR)
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
    except ValueError:
        raise Misfit(no) from None


def days_of_number(number: int) -> int:
    """Return days since 1970-01-01, if no program makes an error of them."""
    if not _FIRST_DAY <= number <= _LAST_DAY:
        raise Misfit(FAR)
    return number


def micros(text: str, no: str, *, unit: str | None = None, local: bool = False) -> int:
    """Read a time as microseconds since 1970-01-01 in UTC.

    A time (ISO 8601) has a date; without seconds they are 0, without a zone it is UTC. Finer than
    microseconds it can't be.

    Args:
        unit: what a bare number counts; refused where it is None.
        local: it has no zone, so that one that is written is refused.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        if unit is not None and _NUMBER.fullmatch(text):
            return micros_of_number(text, unit, no)
        raise Misfit(FAR if _FAR.fullmatch(text) else no)
    day, hour, minute, second, fraction, utc, sign, hours, minutes = found.groups()
    if local and (utc or sign):
        raise Misfit(no)
    fraction = (fraction or "").ljust(9, "0")
    if fraction[6:] != "000":
        raise Misfit(no)
    if day.startswith("0000"):
        raise Misfit(FAR)
    try:
        when = datetime.fromisoformat(f"{day}T{hour or '00'}:{minute or '00'}:{second or '00'}")
        ahead = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    except ValueError:
        raise Misfit(no) from None
    if int(minutes or 0) > 59 or ahead > timedelta(hours=18):
        raise Misfit(no)
    since = when.replace(tzinfo=UTC) - _EPOCH
    value = (since.days * 86_400 + since.seconds) * 1_000_000 + int(fraction[:6])
    shift = int(ahead.total_seconds()) * 1_000_000
    return _near(value + shift if sign == "-" else value - shift)


def micros_of_number(text: str, unit: str, no: str) -> int:
    """Read a number of a unit as microseconds since 1970-01-01 in UTC."""
    if len(text) > _LONGEST:
        raise Misfit(no)
    value = _number(text, no) * UNITS[unit]
    if value.is_zero():
        return 0
    if value.adjusted() > 20:
        raise Misfit(FAR)
    whole = int(value)
    if whole != value:
        raise Misfit(no)
    return _near(whole)


def _near(value: int) -> int:
    if not _FIRST <= value <= _LAST:
        raise Misfit(FAR)
    return value


def base64_bytes(text: str, no: str) -> bytes:
    """Read bytes that are written in base64 (RFC 4648, with padding)."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise Misfit(no) from None


def _boolean(text: str, no: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise Misfit(no)
    return word == "true"


# -- the fast way ---------------------------------------------------------------------------


def _fast(kind: str, rules: Rules) -> tuple[str | None, Callable[[Array], Array] | None]:
    """Return a pattern of plain texts and what reads an array of nothing else."""
    word, type_ = word_of(kind), arrow_type(kind)
    grouped = bool(rules.thousands) or rules.decimal != "."
    if word in _BITS and not rules.thousands:
        return r"^-?[0-9]{1,19}$", lambda texts: texts.cast(type_)
    if word == "boolean":
        return r"^(true|false)$", lambda texts: texts.cast(type_)
    if word == "decimal" and not grouped:
        precision, scale = decimal_of(kind)
        # No more digits than the column has: of numbers that are too large, Arrow makes other ones.
        whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
        part = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
        return f"^-?{whole}{part}$", lambda texts: texts.cast(type_)
    if word == "double" and not grouped:
        # Few enough digits that none is too large.
        return r"^-?[0-9]{1,200}(\.[0-9]{1,200})?$", lambda texts: texts.cast(type_)
    if word == "date":
        return r"^([1-9][0-9]{3}|0[0-9]{2}[1-9])-[0-9]{2}-[0-9]{2}$", lambda t: t.cast(type_)
    if word in ("timestamp", "timestamp_ntz"):
        zone = "Z?" if word == "timestamp" else ""
        pattern = (
            r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
            f"{zone}$"
        )
        return pattern, lambda texts: _times(texts, type_)
    return None, None


def _times(texts: Array, type_: DataType) -> Array:
    local = pc.utf8_rtrim(texts, characters="Z").cast(pa.timestamp("us"))
    return local.cast(pa.int64()).cast(type_)
