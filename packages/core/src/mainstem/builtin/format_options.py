"""What `decode`, `encode` and the source `files` have in common in their options."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from mainstem import OptionError, Options, option
from mainstem.columns import Column
from mainstem.formats.words import unwritten, word_of

DecimalMark = Literal[".", ","]


class Times(Options):
    """How times are written that are no text of ISO 8601."""

    unit: Literal["s", "ms", "us", "ns"] | None = option(
        None,
        description="What a bare number counts since 1970, for TIMESTAMP columns; numbers are refused "
        "when left out.",
    )


_SIZES = {
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 24, 32, 48, 64)},
    "float32": 4,
    "float64": 8,
}
_WHOLE = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "double",
    "float",
    "timestamp",
    "boolean",
)


class FixedField(Options):
    """Options of a field of `format: fixed`."""

    at: int = option(ge=0, description="Where it begins, in bytes from the record's start.")
    type: Literal[
        "int8", "int16", "int24", "int32", "int48", "int64",
        "uint8", "uint16", "uint24", "uint32", "uint48", "uint64",
        "float32", "float64", "text", "bytes",
    ] = option(
        description="How it is written. A text is UTF-8, and blanks and zeros at its end are none of it."
    )  # fmt: skip
    size: int | None = option(None, gt=0, description="How many bytes a text, or bytes, have.")
    byte_order: Literal["big", "little"] = option(
        "big", description="The order of a number's bytes."
    )
    scale: int = option(
        0, ge=0, le=18, description="How many digits of a whole number come after the point."
    )
    unit: Literal["s", "ms", "us", "ns"] = option(
        "us", description="What a whole number counts since 1970, where the column is a TIMESTAMP."
    )

    @model_validator(mode="after")
    def _sized(self) -> Self:
        if (self.type in ("text", "bytes")) != (self.size is not None):
            raise ValueError("size: give it with text and bytes, and only then")
        return self

    def place(self) -> tuple[Any, ...]:
        """Return what readers are given of it: see `formats.fixed_values.Place`."""
        kind = self.type.rstrip("0123456789")
        size = self.size or _SIZES[self.type]
        return kind, self.at, size, self.byte_order == "big", self.scale, self.unit


def check_fixed(columns: Iterable[Column], fields: Mapping[str, FixedField]) -> None:
    """Refuse a schema that does not fit the fields of records."""
    names = [column.name for column in columns]
    for name in fields:
        if name not in names:
            raise OptionError(f"{name!r} is no column of the schema", option=f"fields.{name}")
    for column in columns:
        field = fields.get(column.name)
        if field is None:
            raise OptionError(f"there is no field {column.name!r}", option="fields")
        word = word_of(column.type or "")
        fits = {
            "text": ("string",), "bytes": ("binary",),
            "float32": ("float", "double"), "float64": ("double",),
        }.get(field.type, _WHOLE)  # fmt: skip
        if word not in fits or (field.scale and word not in ("decimal", "double", "float")):
            message = f"a column of type {(column.type or '').upper()} can't hold {field.type}"
            if field.scale:
                message += f" with a scale of {field.scale}"
            raise OptionError(message, option=f"fields.{column.name}")


def separator_option() -> Any:
    """Declare the option `separator`."""
    return option(
        ",", min_length=1, max_length=1, description="What stands between the values in csv."
    )


def decimal_option() -> Any:
    """Declare the option `decimal`."""
    return option(".", description="csv: what stands before the fraction of a number.")


def thousands_option() -> Any:
    """Declare the option `thousands`."""
    return option(
        "",
        max_length=1,
        description="csv: what may stand between groups of three digits; nothing when left out.",
        example=".",
    )


def encoding_option() -> Any:
    """Declare the option `encoding`."""
    return option(
        "utf-8",
        description="csv: how text is written as bytes, by the name that Python has for it. Bytes that "
        "are not of it are refused.",
        example="latin-1",
    )


def codec(name: str) -> str:
    """Return an encoding's name as Python spells it.

    Raises:
        OptionError: there is none of that name.
    """
    try:
        return codecs.lookup(name).name
    except LookupError:
        hint = "Those of Python's `codecs` are known, such as latin-1, cp1252 or utf-16."
        raise OptionError(f"there is no encoding {name!r}", option="encoding", hint=hint) from None


def check_csv(encoding: str, thousands: str, decimal: str) -> None:
    """Refuse what can't be said of how csv is written."""
    codec(encoding)
    if thousands and thousands in f"0123456789+-{decimal}":
        raise OptionError(f"{thousands!r} has another meaning in numbers", option="thousands")


def check_readable(columns: Iterable[Column], format_: str) -> None:
    """Refuse columns of types that a format has no values of."""
    for column in columns:
        if found := unwritten(column.type or "", nested=format_ != "csv"):
            message = f"{format_} has no values of type {found}, as column {column.name}"
            raise OptionError(message, option="schema")
