"""How the values of each type are written in JSON.

A value is read in one of two ways with the same result: most by msgspec, as an annotation says; one
of which that makes an error by `convert`, from its own text. `array` does what is quicker for a whole
column.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal, DecimalException
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Raw

from mainstem.contracts.ddl import parts_of
from mainstem.cursors import twice
from mainstem.formats import scalars
from mainstem.formats.arrow import Array, pa, pc
from mainstem.formats.kinds import arrow_type
from mainstem.formats.rules import Rules
from mainstem.formats.scalars import Misfit, Read
from mainstem.formats.words import word_of

_NULL = b"null"
_NOTHING = Raw(_NULL)
_NUMBERS = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
#: What has no digits in JSON, and is written as text.
_NOT_FINITE = {b'"NaN"': "NaN", b'"Infinity"': "Infinity", b'"-Infinity"': "-Infinity"}
_NUMBER_IN_TEXT = re.compile(rb'"[ ]*[+-]*(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ ]*"')
_VARIANT_DIGITS = 38

_text = msgspec.json.Decoder(str)
_items = msgspec.json.Decoder(list[Raw])
members = msgspec.json.Decoder(dict[str, Raw])


class Kind(ABC):
    """A type: `annotation` is msgspec's, and `nothing` the value that stands for null."""

    annotation: Any
    nothing: Any = None

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.arrow = arrow_type(kind)
        self.no = f"is no {kind.upper()}"

    @property
    def optional(self) -> Any:
        """The annotation of a value that may be null."""
        return self.annotation if self.annotation is Raw else self.annotation | None

    @abstractmethod
    def convert(self, raw: bytes) -> Any:
        """Return what msgspec would have made of a value that is not null, or as good.

        Raises:
            Misfit: the value is not of the type.
            msgspec.DecodeError: it is no JSON.
        """

    def array(self, values: list[Any]) -> Read:
        """Return the array of values as msgspec or `convert` made them."""
        return pa.array(values, self.arrow), {}

    def either(self, raw: Raw | bytes) -> Any:
        """Return `convert` of a value that may be null."""
        text = bytes(raw)
        return self.nothing if text == _NULL else self.convert(text)


class _Boolean(Kind):
    annotation = bool

    def convert(self, raw: bytes) -> bool:
        if raw not in (b"true", b"false"):
            raise Misfit(self.no)
        return raw == b"true"


class _Number(Kind):
    """A number; `text_numbers` takes also a text that is one."""

    def __init__(self, kind: str, *, text_numbers: bool) -> None:
        super().__init__(kind)
        self._text_numbers = text_numbers

    def digits(self, raw: bytes) -> str:
        """Return how the number is written."""
        if raw.startswith(b'"') and self._text_numbers:
            return _text.decode(raw)
        if not raw or raw[0] not in b"-0123456789":
            raise Misfit(self.no)
        return raw.decode()


class _Integer(_Number):
    def __init__(self, kind: str, *, text_numbers: bool) -> None:
        super().__init__(kind, text_numbers=text_numbers)
        self._bits = self.arrow.bit_width
        limit = 1 << self._bits - 1
        self.annotation = Annotated[int, Meta(ge=-limit, le=limit - 1)]

    def convert(self, raw: bytes) -> int:
        return scalars.integer(self.digits(raw), self._bits, self.no)


class _Floating(_Number):
    annotation = float

    def convert(self, raw: bytes) -> float:
        if raw in _NOT_FINITE:
            return float(_NOT_FINITE[raw])
        single = self.arrow.bit_width == 32
        return scalars.floating(self.digits(raw), self.no, single=single)

    def array(self, values: list[Any]) -> Read:
        found = pa.array(values, pa.float64())
        if self.arrow == found.type:
            return found, {}
        single = found.cast(self.arrow, safe=False)
        large = pc.and_(pc.is_inf(single), pc.invert(pc.is_inf(found)))
        return single, dict.fromkeys(np.flatnonzero(_plain(large)).tolist(), self.no)


class _Decimal(_Number):
    annotation = Raw
    nothing = _NOTHING

    def convert(self, raw: bytes) -> Raw:
        self.digits(raw)
        return Raw(raw)

    def array(self, values: list[Any]) -> Read:
        raws = pa.array([None if (b := bytes(v)) == _NULL else b for v in values], pa.binary())
        texts = raws.cast(pa.string())
        bad: dict[int, str] = {}
        if pc.any(pc.match_substring_regex(texts, "^[^-0-9]")).as_py():
            plain: list[str | None] = []
            for index, raw in enumerate(raws.to_pylist()):
                try:
                    plain.append(None if raw is None else self.digits(raw))
                except Misfit as misfit:
                    plain.append(None)
                    bad[index] = str(misfit)
            texts = pa.array(plain, pa.string())
        found, more = scalars.read(self.kind, texts, Rules())
        return found, more | bad


class _Text(Kind):
    """A text as it is; of anything else the JSON text, to the letter."""

    annotation = str

    def convert(self, raw: bytes) -> str:
        return _text.decode(raw) if raw.startswith(b'"') else raw.decode()


class _Binary(Kind):
    annotation = str

    def convert(self, raw: bytes) -> str:
        if not raw.startswith(b'"'):
            raise Misfit(self.no)
        return _text.decode(raw)

    def array(self, values: list[Any]) -> Read:
        return scalars.read(self.kind, pa.array(values, pa.string()), Rules())


class _Time(Kind):
    """A date or a time: a text, or a number where the document says what it counts."""

    annotation: Any = str

    def __init__(self, kind: str, rules: Rules, *, text_numbers: bool) -> None:
        super().__init__(kind)
        self._text_numbers = text_numbers
        self._rules = Rules(unit=rules.unit) if word_of(kind) != "date" else Rules()
        if self._rules.unit is not None:
            self.annotation, self.nothing = Raw, _NOTHING

    def convert(self, raw: bytes) -> Any:
        if self._rules.unit is not None:
            return Raw(raw)
        if not raw.startswith(b'"'):
            raise Misfit(self.no)
        return _text.decode(raw)

    def array(self, values: list[Any]) -> Read:
        bad: dict[int, str] = {}
        if self._rules.unit is not None:
            raws = [bytes(value) for value in values]
            if not self._text_numbers:
                bad = {n: self.no for n, raw in enumerate(raws) if _NUMBER_IN_TEXT.fullmatch(raw)}
            values = [
                None if raw == _NULL or n in bad else _written(raw) for n, raw in enumerate(raws)
            ]
        found, more = scalars.read(self.kind, pa.array(values, pa.string()), self._rules)
        return found, more | bad


class _PatternedTime(_Text):
    """A TIMESTAMP in a pattern of the document's, which Spark reads: its text."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.arrow = pa.string()

    def convert(self, raw: bytes) -> str:
        if not raw.startswith(b'"'):
            raise Misfit(self.no)
        return _text.decode(raw)


class _Variant(Kind):
    """Any value, as the JSON text that Spark makes a VARIANT of, if that holds its numbers."""

    annotation = Raw
    nothing = _NOTHING

    def convert(self, raw: bytes) -> Raw:
        return Raw(raw)

    def array(self, values: list[Any]) -> Read:
        texts: list[str | None] = []
        bad: dict[int, str] = {}
        for index, raw in enumerate(map(bytes, values)):
            texts.append(None if raw == _NULL else raw.decode())
            if (number := inexact(raw)) is not None:
                texts[-1] = None
                bad[index] = f"{self.no}, which can't hold {number[:50]} exactly"
        return pa.array(texts, pa.string()), bad


def inexact(raw: bytes) -> str | None:
    """Return the first number of a JSON text that a VARIANT would not hold as it is, if there is one.

    A VARIANT holds up to 38 digits, and what has more or has an exponent as the nearest binary number.
    """
    if not re.search(rb"[0-9][eE]|[0-9.]{39}", raw):
        return None
    for number in _NUMBERS.findall(_TEXTS.sub(b"", raw)):
        digits = sum(map(number.partition(b"e")[0].count, (b"%d" % d for d in range(10))))
        if digits <= _VARIANT_DIGITS and not re.search(rb"[eE]", number):
            continue
        text: str = number.decode()
        binary = float(text)
        try:
            exact = Decimal(text)
        except DecimalException:  # an exponent that no number has
            return text
        if binary in (float("inf"), float("-inf")) or Decimal(repr(binary)) != exact:
            return text
    return None


class _Array(Kind):
    def __init__(self, kind: str, element: Kind) -> None:
        super().__init__(kind)
        self._element = element
        self.arrow = pa.list_(element.arrow)
        self.annotation = list[element.optional]  # type: ignore[name-defined]

    def convert(self, raw: bytes) -> list[Any]:
        if not raw.startswith(b"["):
            raise Misfit(self.no)
        return [_inner(self._element, item, self.no) for item in _items.decode(raw)]

    def array(self, values: list[Any]) -> Read:
        offsets, flat = _flattened(values)
        inner, bad = self._element.array(flat)
        mask = pa.array([value is None for value in values], pa.bool_())
        found = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), inner, self.arrow, mask=mask
        )
        return found, _outer(bad, offsets, self.no)


class _Map(Kind):
    def __init__(self, kind: str, key: str, value: Kind) -> None:
        super().__init__(kind)
        self._key = key
        self._value = value
        self.arrow = pa.map_(arrow_type(key), value.arrow)
        self.annotation = dict[str, value.optional]  # type: ignore[name-defined]

    def convert(self, raw: bytes) -> dict[str, Any]:
        if not raw.startswith(b"{"):
            raise Misfit(self.no)
        found = members.decode(raw)
        return {name: _inner(self._value, value, self.no) for name, value in found.items()}

    def array(self, values: list[Any]) -> Read:
        offsets, names = _flattened(values)
        _, flat = _flattened([None if value is None else value.values() for value in values])
        keys, bad = scalars.read(self._key, pa.array(names, pa.string()), Rules())
        inner, more = self._value.array(flat)
        if bad:  # no key may be null
            keys = pc.if_else(pc.is_null(keys), _some(keys.type), keys)
        if not pa.types.is_string(keys.type):  # "1" and "01" are one number
            owners = np.repeat(np.arange(len(values)), np.diff(offsets))
            more |= {offsets[row]: self.no for row in twice(owners, keys).tolist()}
        starts = [None if v is None else o for v, o in zip(values, offsets, strict=False)]
        found = pa.MapArray.from_arrays(
            pa.array([*starts, offsets[-1]], pa.int32()), keys, inner, self.arrow
        )
        return found, _outer(more | bad, offsets, self.no)


def _some(kind: Any) -> Any:
    """Return any value of a type of keys, for rows that are refused."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("", kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False, kind)
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)


class _Struct(Kind):
    def __init__(self, kind: str, fields: Sequence[tuple[str, Kind]]) -> None:
        super().__init__(kind)
        self._fields = fields
        self.arrow = pa.struct([pa.field(name, field.arrow) for name, field in fields])
        self._made = record(fields)
        self.annotation = self._made

    def convert(self, raw: bytes) -> Any:
        if not raw.startswith(b"{"):
            raise Misfit(self.no)
        found = members.decode(raw)
        return self._made(
            *(_inner(field, found.get(name, _NOTHING), self.no) for name, field in self._fields)
        )

    def array(self, values: list[Any]) -> Read:
        arrays = []
        bad: dict[int, str] = {}
        for number, (_, field) in enumerate(self._fields):
            column = f"c{number}"
            inner, more = field.array(
                [field.nothing if value is None else getattr(value, column) for value in values]
            )
            arrays.append(inner)
            bad |= {index: _told(words, self.no) for index, words in more.items()}
        mask = pa.array([value is None for value in values], pa.bool_())
        if not arrays:
            return pa.array([None if v is None else {} for v in values], self.arrow), bad
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow), mask=mask), bad


def record(fields: Sequence[tuple[str, Kind]], *, missing: bool = True, extra: bool = True) -> Any:
    """Return a class whose attributes `c0`, `c1`, ... msgspec fills with an object's members.

    Args:
        missing: whether a member may be missing.
        extra: whether there may be others.
    """
    attributes: list[Any] = []
    for number, (_, kind) in enumerate(fields):
        plain = (f"c{number}", kind.optional)
        attributes.append((*plain, kind.nothing) if missing else plain)
    names = {f"c{number}": name for number, (name, _) in enumerate(fields)}
    return msgspec.defstruct(
        "Row", attributes, rename=names, gc=False, forbid_unknown_fields=not extra
    )


def kind_of(
    type_: str, rules: Rules, *, text_numbers: bool = False, patterned: bool = False
) -> Kind:
    """Return how values of a type are written.

    Args:
        type_: Spark's short form.
        text_numbers: whether a text may stand for a number.
        patterned: whether TIMESTAMPs have a pattern that Spark reads.
    """
    word = word_of(type_)
    if word in ("tinyint", "smallint", "int", "bigint"):
        return _Integer(type_, text_numbers=text_numbers)
    if word in ("float", "double"):
        return _Floating(type_, text_numbers=text_numbers)
    if word == "decimal":
        return _Decimal(type_, text_numbers=text_numbers)
    if word == "timestamp" and patterned:
        return _PatternedTime(type_)
    if word in ("date", "timestamp", "timestamp_ntz"):
        return _Time(type_, rules, text_numbers=text_numbers)
    plain: dict[str, type[Any]] = {
        "boolean": _Boolean,
        "string": _Text,
        "binary": _Binary,
        "variant": _Variant,
    }
    if word in plain:
        made: Kind = plain[word](type_)
        return made
    inner = [
        (part.name, part.type or "")
        if word == "map" and part.name == "key"
        else (part.name, kind_of(part.type or "", rules, text_numbers=text_numbers))
        for part in parts_of(type_)
    ]
    if word == "array":
        return _Array(type_, inner[0][1])  # type: ignore[arg-type]
    if word == "map":
        return _Map(type_, *(each for _, each in inner))  # type: ignore[arg-type]
    if word == "struct":
        return _Struct(type_, inner)  # type: ignore[arg-type]
    raise ValueError(f"JSON has no values of type {type_}")


def _written(raw: bytes) -> str:
    return _text.decode(raw) if raw.startswith(b'"') else raw.decode()


def _inner(kind: Kind, raw: Raw | bytes, no: str) -> Any:
    """Return a value inside another one, whose type is told if it does not fit."""
    try:
        return kind.either(raw)
    except Misfit as misfit:
        raise Misfit(_told(str(misfit), no)) from None


def _told(words: str, no: str) -> str:
    return words if words == scalars.FAR else no


def _flattened(values: list[Any]) -> tuple[list[int], list[Any]]:
    offsets, flat = [0], []
    for value in values:
        if value:
            flat.extend(value)
        offsets.append(len(flat))
    return offsets, flat


def _outer(bad: dict[int, str], offsets: list[int], no: str) -> dict[int, str]:
    """Return misfits of flat values by the index of what they are in."""
    return {bisect_right(offsets, index) - 1: _told(words, no) for index, words in bad.items()}


def _plain(flags: Array) -> Any:
    return pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
