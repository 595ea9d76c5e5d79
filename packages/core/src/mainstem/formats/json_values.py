"""JSON values become columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mainstem.contracts.ddl import Column
from mainstem.formats.arrow import Array, pa, pc
from mainstem.formats.json_kinds import inexact, kind_of, members, record
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import Misfit

NULL = "the value is null"
NOT_UTF8 = "not UTF-8"
EMPTY = "the value is empty"
NOT_JSON = "not JSON"
NO_OBJECT = "no JSON object"
MORE_TEXT = "more text after the JSON value"
TOO_DEEP = "nested too deep"

#: How deep a value may be nested; without a limit of ours it hangs on the version of Python.
MOST_NESTED = 500
#: A text that is not closed reaches to the end, or each quote in it would begin another look at the rest.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)

#: A batch as columns, and by row why it is refused, or None.
Decoded = tuple[list[Array], list[str | None]]

_any = msgspec.json.Decoder(msgspec.Raw)


class JsonValues:
    """Reads JSON objects by a schema.

    Args:
        columns: those that come out. A column whose key an object does not have is null.
        rules: how times are written.
        loose: read as null what is not of its column's type, instead of refusing the row.
        missing: whether keys may be missing.
        extra: whether there may be others.
        text_numbers: whether a text may stand for a number.
        patterned: whether TIMESTAMPs have a pattern: they come out as texts.
        unknown: whether the last column, a VARIANT, has the members that are no other's.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        rules: Rules = Rules(),  # noqa: B008
        *,
        loose: bool = False,
        missing: bool = True,
        extra: bool = True,
        text_numbers: bool = False,
        patterned: bool = False,
        unknown: bool = False,
    ) -> None:
        self._unknown = columns[-1].name if unknown else None
        self._columns = columns = columns[:-1] if unknown else columns
        self._kinds = [
            kind_of(c.type or "", rules, text_numbers=text_numbers, patterned=patterned)
            for c in columns
        ]
        self._fields = [(c.name, k) for c, k in zip(columns, self._kinds, strict=True)]
        self._row = record(self._fields, missing=missing, extra=extra)
        self._quick = msgspec.json.Decoder(self._row).decode
        self._none = self._row(*(kind.nothing for kind in self._kinds))
        self._loose, self._missing, self._extra = loose, missing, extra

    def read(self, values: Array) -> Decoded:
        """Return the columns of an array of bytes, and why rows are refused."""
        reasons: list[str | None] = [None] * len(values)
        misfits: dict[int, list[str]] = {}
        rows = []
        utf8 = all_utf8(values)
        for index, value in enumerate(values.to_pylist()):
            try:
                if not utf8 and value is not None:
                    value.decode()
                if value is not None and _too_deep(value):
                    raise RecursionError
                rows.append(self._quick(value))
            except (msgspec.MsgspecError, RecursionError, TypeError, UnicodeDecodeError):
                row, reasons[index], found = self._slow(value)
                rows.append(row)
                if found:
                    misfits[index] = found
        arrays = self._arrays(rows, reasons, misfits)
        if self._unknown is not None:
            arrays.append(self._unknown_members(values, reasons))
        return arrays, reasons

    def _unknown_members(self, values: Array, reasons: list[str | None]) -> Array:
        """Return the JSON text of what objects have and the columns do not, null for nothing."""
        known = {column.name for column in self._columns}
        texts: list[str | None] = []
        for index, value in enumerate(values.to_pylist()):
            texts.append(None)
            if reasons[index] is not None or value is None:
                continue
            more = {name: raw for name, raw in members.decode(value).items() if name not in known}
            if not more:
                continue
            text = msgspec.json.encode(more)
            if (number := inexact(text)) is not None:
                reasons[index] = f"{self._unknown} can't hold {number[:50]} exactly"
            texts[-1] = text.decode()
        return pa.array(texts, pa.string())

    def _arrays(
        self, rows: list[Any], reasons: list[str | None], misfits: dict[int, list[str]]
    ) -> list[Array]:
        arrays = []
        for number, (column, kind) in enumerate(zip(self._columns, self._kinds, strict=True)):
            name = f"c{number}"
            array, bad = kind.array([getattr(row, name) for row in rows])
            arrays.append(array)
            for index, words in bad.items():
                misfits.setdefault(index, []).append(f"{column.name} {words}")
        for index, found in {} if self._loose else misfits.items():
            reasons[index] = reasons[index] or ", ".join(found)
        refuse_nulls(self._columns, arrays, reasons)
        return arrays

    def _slow(self, value: bytes | None) -> tuple[Any, str | None, list[str]]:
        """Return a row that msgspec could not make, why it is refused, and what does not fit."""
        found, reason = as_object(value)
        if reason is not None:
            return self._none, reason, []
        known = [name for name, _ in self._fields]
        for allowed, names, word in (
            (self._missing, [name for name in known if name not in found], "missing"),
            (self._extra, [name for name in found if name not in known], "unknown"),
        ):
            if not allowed and names:
                reason = reason or f"{word}: {', '.join(names)}"
        made, misfits = [], []
        for name, kind in self._fields:
            try:
                made.append(kind.either(found.get(name, b"null")))
            except Misfit as misfit:
                made.append(kind.nothing)
                misfits.append(f"{name} {misfit}")
            except msgspec.DecodeError:
                return self._none, NOT_JSON, []
            except RecursionError:
                return self._none, TOO_DEEP, []
        return self._row(*made), reason, misfits


class AnyJson:
    """Reads JSON values of every kind as their text, for a VARIANT."""

    def read(self, values: Array) -> Decoded:
        """Return the only column of an array of bytes, and why rows are refused."""
        texts: list[str | None] = []
        reasons: list[str | None] = []
        for value in values.to_pylist():
            reason = _flaw(value)
            if reason is None and (number := inexact(value)) is not None:
                reason = f"a VARIANT can't hold {number[:50]} exactly"
            reasons.append(reason)
            texts.append(None if reason else value.decode())
        return [pa.array(texts, pa.string())], reasons


def _flaw(value: bytes | None) -> str | None:
    """Return why bytes are not one JSON value."""
    if value is None:
        return NULL
    try:
        value.decode()
        if not value.strip():
            return EMPTY
        if _too_deep(value):
            return TOO_DEEP
        _any.decode(value)
    except UnicodeDecodeError:
        return NOT_UTF8
    except RecursionError:
        return TOO_DEEP
    except msgspec.DecodeError as error:
        return MORE_TEXT if "trailing characters" in str(error) else NOT_JSON
    return None


def _too_deep(value: bytes) -> bool:
    """Whether a text that may be JSON is nested deeper than it may be."""
    if len(value) < 2 * MOST_NESTED or value.count(b"[") + value.count(b"{") <= MOST_NESTED:
        return False
    depth = 0
    for found in _BRACKETS.finditer(value):
        first = found[0][:1]
        depth += (first in b"[{") - (first in b"]}")
        if depth > MOST_NESTED:
            return True
    return False


def as_object(value: bytes | None) -> tuple[dict[str, msgspec.Raw], str | None]:
    """Return the members of a JSON object, each as its text; or why there are none."""
    try:
        reason = _flaw(value)
        return (members.decode(value), None) if reason is None and value else ({}, reason)
    except msgspec.ValidationError:
        return {}, NO_OBJECT
    except RecursionError:
        return {}, TOO_DEEP
    except msgspec.DecodeError:
        return {}, NOT_JSON


def all_utf8(values: Array) -> bool:
    """Whether bytes are UTF-8, all of them."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def refuse_nulls(
    columns: Sequence[Column], arrays: Sequence[Array], reasons: list[str | None]
) -> None:
    """Give a reason to rows that have no value where there must be one."""
    for column, array in zip(columns, arrays, strict=True):
        if column.nullable or not array.null_count:
            continue
        for index in np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False)).tolist():
            reasons[index] = reasons[index] or f"{column.name} is null"
