"""Values of declared types: as functions of the user's have them, and as state and frames keep them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.types as kinds
from mainstem.columns import Column, arrow_type, has_arrow_type

#: Brings a value from one form to the other.
_Way = Callable[[Any], Any]
_EXACT = Context(prec=76, traps=[Inexact])


class _NoneSuchError(Exception):
    """A value is of another type."""


class Values:
    """Rows of declared columns: dictionaries for the user, tuples as they are kept.

    A MAP is a dictionary for the user, and a list of entries where it is kept, at any depth; one whose
    keys can't be a dictionary's stays a list. What the user gives has the form that it would have after
    it was stored, so that nothing depends on when that happens.

    Args:
        columns: the columns, with their types as the document has them.
        schema: the same for Polars.
        whose: what errors call the rows.
    """

    def __init__(self, columns: Sequence[Column], schema: pl.Schema, whose: str) -> None:
        self._columns, self.schema, self._whose = tuple(columns), schema, whose
        self.names = [*schema]
        self._known = frozenset(self.names)
        self._kinds = [(column.type or "").upper() for column in columns]
        arrow = [
            arrow_type(column.type) if column.type and has_arrow_type(column.type) else None
            for column in columns
        ]
        self._given = [
            (at, way)
            for at, kind in enumerate(arrow)
            if kind is not None and (way := _to_user(kind)) is not None
        ]
        self._taken = [_as_it_is if kind is None else _to_store(kind) for kind in arrow]

    def __reduce__(self) -> Any:
        """Return what makes another one: ways are made where they are needed."""
        return type(self), (self._columns, self.schema, self._whose)

    def given(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return a row for the user, whose it is."""
        found = dict(zip(self.names, values, strict=False))
        for at, way in self._given:
            name = self.names[at]
            if found[name] is not None:
                found[name] = way(found[name])
        return found

    def taken(self, row: Any) -> tuple[Any, ...]:
        """Return the user's row, in the order of the columns; what is left out is null.

        Raises:
            ValueError: it is no mapping, has something else, or a value that does not fit.
        """
        if type(row) is not dict and not isinstance(row, Mapping):
            raise ValueError(f"{self._whose}: {type(row).__name__}, and no mapping")
        if not row.keys() <= self._known:
            extra = ", ".join(map(str, sorted(set(row) - self._known, key=str)))
            raise ValueError(f"{self._whose}: {extra} is not declared")
        values = []
        for at, name in enumerate(self.names):
            value = row.get(name)
            if value is not None:
                try:
                    value = self._taken[at](value)
                except (_NoneSuchError, OverflowError, ValueError, TypeError):
                    told = f"{self._whose}: {name}: a value is no {self._kinds[at]}"
                    raise ValueError(told) from None
            values.append(value)
        return tuple(values)

    def frame(self, rows: Sequence[tuple[Any, ...]], more: pl.Schema) -> pl.DataFrame:
        """Return rows as a frame, behind columns that are not the user's.

        Args:
            rows: the values of `more`, and then those that `taken` returned.
        """
        schema = pl.Schema({**more, **self.schema})
        columns: Any = zip(*rows, strict=True) if rows else ((),) * len(schema)
        made = [
            pl.Series(name, values, kind, strict=True)
            for (name, kind), values in zip(schema.items(), columns, strict=True)
        ]
        return pl.DataFrame(made)


# -- as the user has it ------------------------------------------------------------------------------


def _to_user(kind: Any) -> _Way | None:
    """Return how a kept value becomes the user's; None where it is that already."""
    if kinds.is_list(kind):
        inner = _to_user(kind.value_type)
        return list if inner is None else lambda value: [_maybe(inner, each) for each in value]
    if kinds.is_struct(kind):
        ways = [(field.name, _to_user(field.type)) for field in kind]

        def parts(value: Mapping[str, Any]) -> dict[str, Any]:
            return {name: _maybe(way, value[name]) for name, way in ways}

        return parts
    if kinds.is_map(kind):
        key, item = _to_user(kind.key_type), _to_user(kind.item_type)
        if key is not None:
            return lambda value: [
                {"key": _maybe(key, each["key"]), "value": _maybe(item, each["value"])}
                for each in value
            ]
        return lambda value: {each["key"]: _maybe(item, each["value"]) for each in value}
    return None


def _maybe(way: _Way | None, value: Any) -> Any:
    return value if way is None or value is None else way(value)


# -- as it is kept -----------------------------------------------------------------------------------


def _to_store(kind: Any) -> _Way:
    """Return how a value of the user's is kept; that raises if it does not fit."""
    if kinds.is_list(kind):
        inner = _to_store(kind.value_type)
        return lambda value: [_maybe(inner, each) for each in _instance(value, list | tuple)]
    if kinds.is_struct(kind):
        return _struct({field.name: _to_store(field.type) for field in kind})
    if kinds.is_map(kind):
        return _map(_to_store(kind.key_type), _to_store(kind.item_type))
    if kinds.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if kinds.is_signed_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return lambda value: _checked(_whole(value), -most <= value < most)
    if kinds.is_timestamp(kind):
        return _instant if kind.tz is not None else _local
    return _PLAIN.get(kind, _as_it_is)


def _as_it_is(value: Any) -> Any:
    return value


def _instance(value: Any, kind: Any) -> Any:
    return _checked(value, isinstance(value, kind))


def _checked(value: Any, fits: bool) -> Any:
    if not fits:
        raise _NoneSuchError
    return value


def _whole(value: Any) -> Any:
    return _checked(value, isinstance(value, int) and not isinstance(value, bool))


def _double(value: Any) -> float:
    number = float(_checked(value, isinstance(value, int | float) and not isinstance(value, bool)))
    return float(_checked(number, isinstance(value, float) or number == value))


def _single(value: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<f", _double(value)))[0])


def _day(value: Any) -> Any:
    return _checked(value, isinstance(value, date) and not isinstance(value, datetime))


def _instant(value: Any) -> Any:
    return _checked(value, isinstance(value, datetime) and value.tzinfo is not None).astimezone(UTC)


def _local(value: Any) -> Any:
    return _checked(value, isinstance(value, datetime) and value.tzinfo is None)


def _decimal(precision: int, scale: int) -> _Way:
    unit, most = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def way(value: Any) -> Any:
        if not isinstance(value, Decimal):
            value = Decimal(_whole(value))
        _checked(value, value.is_finite())
        try:
            found = value.quantize(unit, context=_EXACT)
        except ArithmeticError:  # it would be rounded
            raise _NoneSuchError from None
        return _checked(found, abs(found) < most)

    return way


def _struct(ways: Mapping[str, _Way]) -> _Way:
    def way(value: Any) -> Any:
        _checked(value, isinstance(value, Mapping) and value.keys() <= ways.keys())
        return {name: _maybe(inner, value.get(name)) for name, inner in ways.items()}

    return way


def _map(key: _Way, item: _Way) -> _Way:
    def way(value: Any) -> Any:
        if isinstance(value, Mapping):
            entries = [*value.items()]
        else:
            entries = [(each["key"], each["value"]) for each in _instance(value, list | tuple)]
        found = [
            {"key": key(_checked(one, one is not None)), "value": _maybe(item, other)}
            for one, other in entries
        ]
        # Keys that a dictionary tells apart may be one as they are kept.
        return _checked(found, len({repr(each["key"]) for each in found}) == len(found))

    return way


_PLAIN: Mapping[Any, _Way] = {
    pa.bool_(): lambda value: _instance(value, bool),
    pa.string(): lambda value: _instance(value, str),
    pa.binary(): lambda value: bytes(_instance(value, bytes | bytearray | memoryview)),
    pa.float64(): _double,
    pa.float32(): _single,
    pa.date32(): _day,
}
