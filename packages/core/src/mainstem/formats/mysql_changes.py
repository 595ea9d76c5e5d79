"""What Maxwell and Canal write of a table's changes in MySQL: JSON, each in its own form.

Sources: Maxwell's page on its data format; Canal's FlatMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mainstem.contracts.ddl import Column
from mainstem.contracts.formats import Changes
from mainstem.formats import scalars
from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_kinds import Kind, kind_of
from mainstem.formats.json_values import NOT_JSON, TOO_DEEP, AnyJson, as_object
from mainstem.formats.row_changes import Told, changes_told
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import Misfit
from mainstem.formats.words import word_of

_NULL = b"null"
_any = msgspec.json.Decoder()
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw] | None])

_Object = Mapping[str, msgspec.Raw]
#: Reads a value that is not null.
_Reads = Callable[[bytes], Any]


class MySQLChanges:
    """Turns messages into the changes that they tell.

    Args:
        tool: `maxwell` or `canal`.
        columns: those of the table.
        key: the columns of the table's key.
        preimages: whether rows as they were before come out too.
        table: `DATABASE.TABLE`; messages of others tell nothing. None for any.
    """

    def __init__(
        self,
        tool: str,
        columns: Sequence[Column],
        key: Iterable[str],
        *,
        preimages: bool,
        table: str | None,
    ) -> None:
        self._columns, self._key, self._preimages = columns, tuple(key), preimages
        self._table = table
        self._told = {"maxwell": self._maxwell, "canal": self._canal}[tool]
        reader = {"maxwell": _json_reader, "canal": _text_reader}[tool]
        self._reads: dict[str, _Reads] = {each.name: reader(each) for each in columns}

    def read(self, values: Array, keys: Array) -> Changes:
        """Return the changes that messages tell, given their values and keys as bytes."""
        messages: list[Sequence[Told] | str] = []
        for value in values.to_pylist():
            told, reason = as_object(value)
            if reason is None:
                try:
                    messages.append(self._of(told))
                    continue
                except Misfit as misfit:
                    reason = str(misfit)
                except msgspec.MsgspecError:
                    reason = NOT_JSON
                except RecursionError:
                    reason = TOO_DEEP
            messages.append(reason)
        return changes_told(self._columns, self._key, messages, preimages=self._preimages)

    def _of(self, told: _Object) -> Sequence[Told]:
        its = f"{_plain(told, 'database')}.{_plain(told, 'table')}"
        if self._table is not None and its != self._table:
            return ()
        return self._told(told)

    def _maxwell(self, told: _Object) -> Sequence[Told]:
        kind = str(_plain(told, "type"))
        if kind in ("bootstrap-start", "bootstrap-complete"):
            return ()
        op = {"insert": "c", "bootstrap-insert": "r", "update": "u", "delete": "d"}.get(kind)
        data = _part(told, "data", _members)
        if op is None or data is None:
            raise Misfit(_no_change(kind))
        return [
            self._change(op, data, _part(told, "old", _members), _micros(told, "ts", 1_000_000))
        ]

    def _canal(self, told: _Object) -> Sequence[Told]:
        kind = str(_plain(told, "type"))
        op = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}.get(kind)
        data = _part(told, "data", _objects)
        if op is None or data is None or _plain(told, "isDdl") is True:
            raise Misfit(_no_change(kind))
        old = _part(told, "old", _objects) or [None] * len(data)
        if len(old) != len(data) or None in data:
            raise Misfit("data and old have not as many rows")
        at = _micros(told, "es", 1000)
        return [self._change(op, each, before, at) for each, before in zip(data, old, strict=True)]

    def _change(self, op: str, data: Any, old: Any, at: int | None) -> Told:
        """Return a change; `old` has what was otherwise before."""
        row = self._row(data)
        if op == "d":
            return Told(op, before=row, at=at)
        if op != "u":
            return Told(op, after=row, at=at)
        if old is None:
            raise Misfit("an update has no old")
        return Told(op, before={**row, **self._row(old)}, after=row, at=at)

    def _row(self, told: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        misfits = []
        for name, read in self._reads.items():
            if name not in told:
                continue
            raw = bytes(told[name])
            try:
                found[name] = None if raw == _NULL else read(raw)
            except Misfit as misfit:
                misfits.append(f"{name} {misfit}")
        if misfits:
            raise Misfit(", ".join(misfits))
        return found


def _no_change(kind: str) -> str:
    return f"type {kind[:40]} changes no row"


def _plain(told: _Object, name: str) -> Any:
    raw = bytes(told.get(name, _NULL))
    return None if raw[:1] in (b"{", b"[") else _any.decode(raw)


def _part(told: _Object, name: str, decoder: Any) -> Any:
    raw = bytes(told.get(name, _NULL))
    if raw == _NULL:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise Misfit(f"{name} is no object, or no list of them") from None


def _micros(told: _Object, name: str, factor: int) -> int | None:
    number = _plain(told, name)
    good = isinstance(number, int) and not isinstance(number, bool)
    return number * factor if good and 0 <= number * factor < _MOST else None


_MOST = 253_402_300_800_000_000


# -- values -------------------------------------------------------------------------------------


def _json_reader(column: Column) -> _Reads:
    """Return what reads a column's values that are JSON of their own kind."""
    kind: Kind = kind_of(column.type or "", Rules())
    word = word_of(column.type or "")
    if word == "variant":
        return _variant

    def read(raw: bytes) -> Any:
        if word == "boolean" and raw in (b"0", b"1"):  # of a TINYINT(1)
            return raw == b"1"
        array, bad = kind.array([kind.convert(raw)])
        if bad:
            raise Misfit(bad[0])
        return _plain_value(array)

    return read


def _text_reader(column: Column) -> _Reads:
    """Return what reads a column's values that are texts, whatever their type."""
    word, read = word_of(column.type or ""), scalars.reader(column.type or "", Rules())

    def text(raw: bytes) -> Any:
        value = _any.decode(raw)
        if not isinstance(value, str):
            raise Misfit("is no text")
        if word == "binary":
            return _latin(value)
        if word == "boolean" and value in ("0", "1"):
            return value == "1"
        return _plain_value(scalars.made(column.type or "", [read(value)]))

    return text


def _plain_value(array: Array) -> Any:
    """Return an array's only value, times as the numbers that Arrow takes."""
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())[0].as_py()
    return array[0].as_py()


def _variant(raw: bytes) -> str:
    _, (reason,) = AnyJson().read(pa.array([raw], pa.binary()))
    if reason is not None:
        raise Misfit("is no VARIANT")
    return raw.decode()


def _latin(value: str) -> bytes:
    """Return bytes that Canal has written as the letters of their numbers."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise Misfit("is no BINARY") from None
