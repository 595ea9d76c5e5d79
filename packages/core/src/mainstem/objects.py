"""For authors of formats whose values name their fields, such as MessagePack: Python's values as columns.

A library makes objects of bytes; what they are as columns, exactly or not at all, is the same for all.
Called in tasks.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from mainstem.arrays import write_rows
from mainstem.contracts.ddl import Column, parts_of
from mainstem.formats import scalars
from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_kinds import inexact
from mainstem.formats.json_values import refuse_nulls
from mainstem.formats.scalars import Misfit as Misfit
from mainstem.formats.words import decimal_of, word_of

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH, _START = date(1970, 1, 1), datetime(1970, 1, 1)
#: Makes of a value that is not null what Arrow takes.
_Takes = Callable[[Any], Any]
#: Returns the microseconds since 1970 of a library's own time, None for anything else.
Instant = Callable[[Any], int | None]


def micros_of(value: Any) -> int | None:
    """Return the microseconds since 1970 of a `datetime` with a zone, None for anything else."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    # In UTC it may be beyond what Python's own times are.
    since = value.replace(tzinfo=None) - _START - (value.utcoffset() or timedelta())
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class ObjectColumns:
    """Makes columns of maps by name.

    Args:
        columns: those that come out.
        unit: what a bare number counts since 1970, for TIMESTAMP columns; None to refuse numbers.
        missing: whether a column may be missing: it is null.
        extra: whether there may be fields that are no column.
        unknown: whether the last column, a VARIANT, has these.
        instant: knows the times of a library.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        unit: str | None = None,
        missing: bool = True,
        extra: bool = True,
        unknown: bool = False,
        instant: Instant = micros_of,
    ) -> None:
        self._all, self._unknown, self._instant = columns, unknown, instant
        self._columns = columns = columns[:-1] if unknown else columns
        self._takes = [_taking(column.type or "", unit, instant) for column in columns]
        self._names = frozenset(column.name for column in columns)
        self._missing, self._extra = missing, extra

    def read(
        self, values: Array, decoded: Callable[[bytes], Any]
    ) -> tuple[list[Array], list[str | None]]:
        """Return the columns of an array of bytes, and why rows are refused.

        Args:
            decoded: makes an object of a value, or raises `Misfit`.
        """
        rows: list[Sequence[Any]] = []
        reasons: list[str | None] = []
        none = (None,) * len(self._all)
        for value in values.to_pylist():
            try:
                if value is None:
                    raise Misfit("the value is null")
                rows.append(self._row(decoded(value)))
                reasons.append(None)
            except Misfit as misfit:
                rows.append(none)
                reasons.append(str(misfit))
            except RecursionError:
                rows.append(none)
                reasons.append("nested too deep")
        found = zip(*rows, strict=True) if rows else ((),) * len(none)
        arrays = [
            scalars.made(column.type or "", list(each))
            for column, each in zip(self._all, found, strict=True)
        ]
        refuse_nulls(self._all, arrays, reasons)
        return arrays, reasons

    def _row(self, held: Any) -> list[Any]:
        if not isinstance(held, dict):
            raise Misfit("no map")
        if not self._extra and (more := [name for name in held if name not in self._names]):
            raise Misfit(f"unknown: {len(more)} fields")
        made: list[Any] = []
        misfits: list[str] = []
        for column, take in zip(self._columns, self._takes, strict=True):
            value = held.get(column.name)
            if value is None:
                if not self._missing and column.name not in held:
                    misfits.append(f"{column.name} is missing")
                made.append(None)
                continue
            try:
                made.append(take(value))
            except Misfit as misfit:
                misfits.append(f"{column.name} {misfit}")
        if self._unknown:
            others = {name: value for name, value in held.items() if name not in self._names}
            try:
                made.append(_variant(_plain(others, self._instant)) if others else None)
            except Misfit as misfit:
                misfits.append(f"{self._all[-1].name} {misfit}")
        if misfits:
            raise Misfit(", ".join(misfits))
        return made


def _taking(kind: str, unit: str | None, instant: Instant) -> _Takes:
    """Return what takes a value of a type."""
    word, no = word_of(kind), f"is no {kind.upper()}"
    parts = [part.type or "" for part in parts_of(kind)]
    if word in _BITS:
        return _integer(1 << _BITS[word] - 1, no)
    if word in ("float", "double"):
        return _floating(word == "float", no)
    if word == "decimal":
        return _decimal(*decimal_of(kind), no)
    if word in ("boolean", "string", "binary"):
        return _of({"boolean": bool, "string": str, "binary": bytes}[word], no)
    if word == "date":
        return _date(no)
    if word in ("timestamp", "timestamp_ntz"):
        return _time(word, unit, instant, no)
    if word == "variant":
        return _variant
    if word == "array":
        return _array(_nullable(_taking(parts[0], unit, instant)), no)
    if word == "map":
        key, value = (_taking(part, unit, instant) for part in parts)
        return _map(key, _nullable(value), no)
    names = [part.name for part in parts_of(kind)]
    takes = [_nullable(_taking(part, unit, instant)) for part in parts]
    return _struct(dict(zip(names, takes, strict=True)), no)


def _nullable(take: _Takes) -> _Takes:
    return lambda value: None if value is None else take(value)


def _of(type_: type, no: str) -> _Takes:
    def take(value: Any) -> Any:
        if type(value) is not type_:
            raise Misfit(no)
        return value

    return take


def _integer(limit: int, no: str) -> _Takes:
    def take(value: Any) -> int:
        if type(value) is not int or not -limit <= value < limit:
            raise Misfit(no)
        return value

    return take


def _floating(single: bool, no: str) -> _Takes:
    def take(value: Any) -> float:
        if type(value) is int:
            if (
                abs(value) > (2**127 if single else 2**1000)
                or int(_nearest(value, single=single)) != value
            ):
                raise Misfit(no)
        elif type(value) is not float:
            raise Misfit(no)
        made = float(value)
        return made if not math.isfinite(made) else scalars.finite(made, no, single=single)

    return take


def _nearest(value: int, *, single: bool) -> float:
    """Return the nearest number of a column."""
    found: float = struct.unpack("<f", struct.pack("<f", value))[0] if single else float(value)
    return found


def _decimal(precision: int, scale: int, no: str) -> _Takes:
    def take(value: Any) -> Decimal:
        if type(value) is float and math.isfinite(value):
            value = Decimal(repr(value))  # as it is written in digits
        elif type(value) is int:
            if abs(value) >= 10**38:
                raise Misfit(no)
            value = Decimal(value)
        elif isinstance(value, str):
            return scalars.exact_decimal(value, precision, scale, no)
        if not isinstance(value, Decimal) or not value.is_finite() or abs(value.adjusted()) > 1000:
            raise Misfit(no)
        return scalars.fitting(value, precision, scale, no)

    return take


def _date(no: str) -> _Takes:
    def take(value: Any) -> int:
        if isinstance(value, str):
            return scalars.days(value, no)
        if type(value) is not date:
            raise Misfit(no)
        return (value - _EPOCH).days

    return take


def _time(word: str, unit: str | None, instant: Instant, no: str) -> _Takes:
    local = word == "timestamp_ntz"

    def take(value: Any) -> int:
        if isinstance(value, str):
            return scalars.micros(value, no, local=local)
        known = math.isfinite(value) if type(value) is float else type(value) is int
        if known and unit is not None and abs(value) < 10**38:
            return scalars.micros_of_number(repr(value), unit, no)
        micros = None if local else instant(value)
        if micros is None:
            raise Misfit(no)
        return scalars.micros_of_number(str(micros), "us", no)

    return take


def _array(take: _Takes, no: str) -> _Takes:
    def array(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise Misfit(no)
        return [take(each) for each in value]

    return array


def _map(key: _Takes, take: _Takes, no: str) -> _Takes:
    def mapped(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise Misfit(no)
        return [(key(one), take(other)) for one, other in value.items()]

    return mapped


def _struct(takes: Mapping[str, _Takes], no: str) -> _Takes:
    def struct(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit(no)
        return {name: take(value.get(name)) for name, take in takes.items()}

    return struct


def _variant(value: Any) -> str:
    try:
        _check_keys(value)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        raise Misfit("is no VARIANT: JSON has no such value") from None
    check_variant(text)
    return text


def check_variant(text: str) -> None:
    """Look whether a VARIANT holds the numbers of a JSON text as they are.

    Raises:
        Misfit: it does not.
    """
    if (number := inexact(text.encode(errors="replace"))) is not None:
        raise Misfit(f"is a VARIANT, which can't hold {number[:50]} exactly")


def _plain(value: Any, instant: Instant) -> Any:
    """Return a value as JSON has it: bytes as base64, times by ISO 8601, floats that are none as text.

    What JSON has nothing for stays as it is.
    """
    if isinstance(value, dict):
        return {key: _plain(each, instant) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, instant) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, Decimal | UUID):
        return str(value)
    micros = instant(value)
    if micros is None:
        return value.isoformat() if isinstance(value, date) else value
    try:
        return (_START + timedelta(microseconds=micros)).isoformat() + "Z"
    except OverflowError:
        raise Misfit(f"has a time that {scalars.FAR}") from None


def _check_keys(value: Any) -> None:
    """Refuse keys that are no texts, which JSON would make texts of."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError
        for each in value.values():
            _check_keys(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_keys(each)


# -- writing ------------------------------------------------------------------------------------


class ObjectRows:
    """Makes values of rows: maps by name, without what is null.

    Args:
        columns: those that are given, of any type but VARIANT.
        packed: makes bytes of an object.
        instant: makes a library's time of microseconds since 1970.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        packed: Callable[[Any], bytes],
        instant: Callable[[int], Any],
    ) -> None:
        self._names = [column.name for column in columns]
        self._gives = [_giving(column.type or "", instant) for column in columns]
        self._packed = packed

    def write(self, *arrays: Array) -> tuple[Array, list[str | None]]:
        """Return the values of rows, and why rows have none."""
        return write_rows(arrays, self._written)

    def _written(self, row: Sequence[Any]) -> bytes:
        try:
            return self._packed(
                {
                    name: give(value)
                    for name, give, value in zip(self._names, self._gives, row, strict=True)
                    if value is not None
                }
            )
        except OverflowError:
            raise Misfit("a number is too large for the format") from None


def _giving(kind: str, instant: Callable[[int], Any]) -> _Takes:
    word = word_of(kind)
    parts = [part.type or "" for part in parts_of(kind)]
    if word == "timestamp":
        return instant
    if word == "timestamp_ntz":
        return lambda micros: _text_of(micros, "timestamp_ntz")
    if word == "date":
        return lambda days: _text_of(days, "date")
    if word == "decimal":
        return str
    if word == "array":
        give = _nullable(_giving(parts[0], instant))
        return lambda items: [give(each) for each in items]
    if word == "map":
        key, value = _giving(parts[0], instant), _nullable(_giving(parts[1], instant))
        return lambda pairs: {key(one): value(other) for one, other in pairs}
    if word == "struct":
        gives = {part.name: _giving(part.type or "", instant) for part in parts_of(kind)}
        return lambda held: {
            name: give(held[name]) for name, give in gives.items() if held[name] is not None
        }
    return lambda value: value


def _text_of(number: int, kind: str) -> str:
    """Return a date or a local time as its text of ISO 8601."""
    array = scalars.made(kind, [number])
    text: str = array.cast(pa.string())[0].as_py()
    return text.replace(" ", "T")
