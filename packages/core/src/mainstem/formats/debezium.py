"""Debezium's JSON envelope: a message that tells how a row was and how it is now.

What an envelope holds, and how values are written in it, is told by Debezium's documentation of its
connectors (change events; data type mappings) and by Kafka Connect's (logical types).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from mainstem.contracts.ddl import Column
from mainstem.contracts.formats import Changes
from mainstem.formats import json_kinds, scalars
from mainstem.formats.arrow import Array, pa
from mainstem.formats.json_kinds import Kind, kind_of
from mainstem.formats.json_values import NOT_JSON, TOO_DEEP, AnyJson, as_object
from mainstem.formats.row_changes import UNAVAILABLE, RowChanges
from mainstem.formats.row_envelopes import PLACEHOLDER, PLACEHOLDERS
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import Misfit
from mainstem.formats.words import decimal_of, word_of

#: What numbers count, by the name of their type in a message's schema.
_TIMES = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_SCALED = "io.debezium.data.VariableScaleDecimal"
_SCHEMAS = 1000
_SCALE = re.compile(r"-?[0-9]{1,4}")
#: How many bytes a number may have: no column holds the digits of so many.
_LONGEST = 1000

_text = msgspec.json.Decoder(str)


@dataclass(frozen=True)
class _Written:
    """How a message's schema says that a column is written; empty where it has none."""

    type: str = ""
    name: str = ""
    scale: int | None = None


class _Field(msgspec.Struct):
    field: str = ""
    type: Any = ""
    name: str | None = ""
    parameters: dict[str, Any] | None = None
    fields: list[_Field] | None = None


_schema = msgspec.json.Decoder(_Field)


class Envelopes:
    """Turns envelopes into the changes that they tell.

    Args:
        columns: those of the table.
        key: the columns of the table's key.
        preimages: whether rows as they were before come out too.
        units: what a number counts where a TIMESTAMP is wanted and the message does not say, for each
            column.
        plain_decimals: whether a text is a number in digits where the message has no schema; else one
            that could be bytes is refused.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        key: Iterable[str],
        *,
        preimages: bool,
        units: Sequence[str],
        plain_decimals: bool = False,
    ) -> None:
        self._columns = columns
        self._rules = RowChanges(columns, key, preimages=preimages)
        self._values = [
            _Value(column, unit, plain_decimals)
            for column, unit in zip(columns, units, strict=True)
        ]
        self._schemas: dict[bytes, dict[str, dict[str, _Written]]] = {}

    def read(self, values: Array, keys: Array) -> Changes:
        """Return the changes that messages tell, given their values and keys as bytes."""
        made = Changes()
        rows: list[list[Any]] = []
        for value, key in zip(values.to_pylist(), keys.to_pylist(), strict=True):
            changes: list[tuple[str, list[Any]]] = []
            at = reason = None
            try:
                if value is None:
                    changes = self._rules.tombstone(partial(self._key, key))
                else:
                    changes, at = self._changes(value, key)
            except Misfit as misfit:
                reason = str(misfit)
            except RecursionError:
                reason = TOO_DEEP
            made.committed.append(at)
            made.reasons.append(reason)
            made.kinds += [kind for kind, _ in changes]
            rows += [row for _, row in changes]
            made.ends.append(len(rows))
        made.rows = [
            value.array([row[number] for row in rows]) for number, value in enumerate(self._values)
        ]
        return made

    # -- one message ------------------------------------------------------------------------

    def _changes(
        self, value: bytes, key: bytes | None
    ) -> tuple[list[tuple[str, list[Any]]], int | None]:
        told, reason = as_object(value)
        if reason is not None:
            raise Misfit(reason)
        types: Mapping[str, Mapping[str, _Written]] = {}
        if (inside := _object(told.get("payload"))) is not None:
            types = self._types(told.get("schema"))
            told = inside
        op = _plain_text(told.get("op"))
        images: dict[str, list[Any] | None] = {}
        misfits: list[str] = []
        for image in ("before", "after"):
            written = _object(told.get(image), image)
            images[image] = (
                None if written is None else self._row(written, types.get(image, {}), misfits)
            )
        if misfits:
            raise Misfit(", ".join(dict.fromkeys(misfits)))
        changes = self._rules.changes(
            op, images["before"], images["after"], partial(self._key, key)
        )
        return changes, _committed(told)

    def _row(
        self, told: Mapping[str, Raw], types: Mapping[str, _Written], misfits: list[str]
    ) -> list[Any]:
        made = []
        for column, value in zip(self._columns, self._values, strict=True):
            try:
                raw = bytes(told.get(column.name, b"null"))
                made.append(value.read(raw, types.get(column.name, _NO_TYPE)))
            except Misfit as misfit:
                made.append(None)
                misfits.append(f"{column.name} {misfit}")
            except msgspec.DecodeError:
                raise Misfit(NOT_JSON) from None
        return made

    def _key(self, key: bytes | None) -> list[Any] | None:
        """Return what a message's key tells of a row; None if that is not readable."""
        told, reason = as_object(key)
        if reason is not None:
            return None
        types: Mapping[str, _Written] = {}
        try:
            if (inside := _object(told.get("payload"))) is not None:
                types = self._types(told.get("schema")).get("", {})
                told = inside
            row = [None] * len(self._columns)
            for number in self._rules.keys:
                name = self._columns[number].name
                raw = bytes(told.get(name, b"null"))
                row[number] = self._values[number].read(raw, types.get(name, _NO_TYPE))
        except (Misfit, msgspec.MsgspecError):
            return None
        return row

    # -- schemas in messages ----------------------------------------------------------------

    def _types(self, schema: Raw | None) -> Mapping[str, Mapping[str, _Written]]:
        """Return how columns are written, by image; those of a key by an empty text."""
        if schema is None:
            return {}
        raw = bytes(schema)
        if raw not in self._schemas:
            if len(self._schemas) >= _SCHEMAS:
                self._schemas.clear()
            self._schemas[raw] = _read_schema(raw)
        return self._schemas[raw]


_NO_TYPE = _Written()


def _read_schema(raw: bytes) -> dict[str, dict[str, _Written]]:
    try:
        whole = _schema.decode(raw)
    except msgspec.MsgspecError:
        return {}
    images = {each.field: _written(each.fields) for each in whole.fields or () if each.fields}
    return {**images, "": _written(whole.fields)}


def _written(fields: Iterable[_Field] | None) -> dict[str, _Written]:
    made = {}
    for each in fields or ():
        scale = str((each.parameters or {}).get("scale", ""))
        made[each.field] = _Written(
            each.type if isinstance(each.type, str) else "",
            each.name or "",
            int(scale) if _SCALE.fullmatch(scale) else None,
        )
    return made


class _Value:
    """How the values of one column are written."""

    def __init__(self, column: Column, unit: str, plain_decimals: bool) -> None:
        self._type = column.type or ""
        self._word = word_of(self._type)
        self._no = f"is no {self._type.upper()}"
        self._unit = unit
        self._plain_decimals = plain_decimals
        bare = [base64.b64encode(PLACEHOLDER.encode()).decode()] if self._word == "binary" else []
        held = self._word in ("string", "binary", "array", "map")
        self._unavailable = {msgspec.json.encode(each) for each in (*PLACEHOLDERS, *bare) if held}
        self._kind: Kind = kind_of(self._type, Rules(unit=unit))
        readers: dict[str, Callable[[bytes, _Written], Any]] = {
            "date": self._date,
            "timestamp": self._timestamp,
            "timestamp_ntz": self._timestamp,
            "decimal": self._decimal,
            "variant": self._variant,
        }
        self._read = readers.get(self._word, self._other)

    def read(self, raw: bytes, written: _Written) -> Any:
        """Return a value, None for null.

        Raises:
            Misfit: it is not of the column's type.
        """
        if raw == b"null":
            return None
        if raw in self._unavailable:
            return UNAVAILABLE
        return self._read(raw, written)

    def array(self, values: list[Any]) -> Array:
        """Return the array of what `read` gave."""
        values = [None if value is UNAVAILABLE else value for value in values]
        if self._word in ("date", "timestamp", "timestamp_ntz", "decimal", "variant"):
            return scalars.made(self._type, values)
        kept = [self._kind.nothing if value is None else value for value in values]
        return self._kind.array(kept)[0]

    def _other(self, raw: bytes, written: _Written) -> Any:
        value = self._kind.convert(raw)
        _, bad = self._kind.array([value]) if self._nested or self._word == "binary" else (None, {})
        if bad:
            raise Misfit(bad[0])
        return value

    @property
    def _nested(self) -> bool:
        return self._word in ("array", "map", "struct", "float")

    def _date(self, raw: bytes, written: _Written) -> int:
        if raw.startswith(b'"'):
            return scalars.days(_text.decode(raw), self._no)
        return scalars.days_of_number(_whole(raw, self._no))

    def _timestamp(self, raw: bytes, written: _Written) -> int:
        local = self._word == "timestamp_ntz"
        if raw.startswith(b'"'):
            text = _text.decode(raw)
            if not text[4:5] == "-":  # no bare number, and no time without a date
                raise Misfit(self._no)
            # Where the database's type has no zone, that of UTC is told with it.
            return scalars.micros(text.rstrip("Zz") if local else text, self._no, local=local)
        if written.name and written.name not in _TIMES:
            raise Misfit(self._no)
        _whole(raw, self._no)
        unit = _TIMES.get(written.name, self._unit)
        return scalars.micros_of_number(raw.decode(), unit, self._no)

    def _decimal(self, raw: bytes, written: _Written) -> Decimal:
        precision, scale = decimal_of(self._type)
        if written.name == _SCALED and raw.startswith(b"{"):
            parts = json_kinds.members.decode(raw)
            places = _whole(bytes(parts.get("scale", b"")), self._no)
            value = self._unscaled(bytes(parts.get("value", b"")), places)
        elif written.name == _DECIMAL and written.scale is not None:
            value = self._unscaled(raw, written.scale)
        elif raw.startswith(b'"'):
            text = _text.decode(raw)
            value = scalars.exact_decimal(text, precision, scale, self._no)
            if not (written.type or self._plain_decimals) and _could_be_bytes(text):
                raise Misfit(
                    f"{self._no}: {text[:20]} can be digits or bytes; see `plain_decimals`"
                )
            return value
        else:
            return scalars.exact_decimal(raw.decode(), precision, scale, self._no)
        return scalars.fitting(value, precision, scale, self._no)

    def _unscaled(self, raw: bytes, scale: int) -> Decimal:
        if not raw.startswith(b'"'):
            raise Misfit(self._no)
        held = scalars.base64_bytes(_text.decode(raw), self._no)
        if abs(scale) > 1000 or len(held) > _LONGEST:
            raise Misfit(self._no)
        number = int.from_bytes(held, "big", signed=True)
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))

    def _variant(self, raw: bytes, written: _Written) -> str:
        """Return JSON text: what stands in a text, or what stands there itself."""
        text = _text.decode(raw).encode() if raw.startswith(b'"') else raw
        _, (reason,) = AnyJson().read(pa.array([text], pa.binary()))
        if reason is not None:
            raise Misfit(self._no)
        return text.decode()


def _could_be_bytes(text: str) -> bool:
    """Whether a text that is digits could be base64 too."""
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _whole(raw: bytes, no: str) -> int:
    return scalars.integer(raw.decode(), 64, no)


def _object(raw: Raw | None, name: str = "") -> dict[str, Raw] | None:
    """Return the members of an object; None where there is none.

    Raises:
        Misfit: there is something else where `name` must be one.
    """
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return json_kinds.members.decode(raw)
    except msgspec.ValidationError:
        if name:
            raise Misfit(f"{name} is no object") from None
        return None
    except msgspec.DecodeError:
        raise Misfit(NOT_JSON) from None


def _plain_text(raw: Raw | None) -> str | None:
    if raw is None or bytes(raw) == b"null":
        return None
    text = bytes(raw)
    return _text.decode(text) if text.startswith(b'"') else text.decode()


def _committed(told: Mapping[str, Raw]) -> int | None:
    """Return when the database made the change, None if that is not told."""
    source = _object(told.get("source")) or {}
    for place in (source, told):
        raw = bytes(place.get("ts_ms", b"null"))
        if raw != b"null":
            try:
                return scalars.micros_of_number(str(_whole(raw, "")), "ms", "")
            except Misfit:
                return None
    return None
