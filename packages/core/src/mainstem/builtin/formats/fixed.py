"""Format `fixed`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import model_validator

from mainstem import Decoder, Format, OptionError, Options, option
from mainstem.builtin.formats.options import declared
from mainstem.columns import Column
from mainstem.formats.words import word_of

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


class FixedDecoderOptions(Options):
    """Options of reading `fixed`."""

    fields: dict[str, FixedField] = option(
        dict,
        description="Where each column of the schema stands in a record.",
        example={"price": {"at": 32, "type": "uint32", "scale": 4}},
    )
    length: int | None = option(
        None,
        gt=0,
        description="How many bytes a record has at most; any number when left out.",
    )


@dataclass(frozen=True)
class FixedReader:
    """Reads records of fields at places, no longer than `most` bytes."""

    columns: tuple[Column, ...]
    places: tuple[tuple[Any, ...], ...]
    most: int | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.fixed_values import FixedValues, Place

        return FixedValues(self.columns, [Place(*each) for each in self.places], self.most).read


class FixedDecoder(Decoder):
    """A record whose fields stand at fixed places."""

    options: FixedDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, "fixed")
        _check(columns, self.options.fields)
        return columns

    def reader(self, schema: Sequence[Column] | None) -> FixedReader:
        columns, fields = tuple(self.columns(schema)), self.options.fields
        places = tuple(fields[column.name].place() for column in columns)
        return FixedReader(columns, places, self.options.length)


class Fixed(Format):
    """A record whose values stand at fixed places."""

    decoder = FixedDecoder


def _check(columns: Iterable[Column], fields: Mapping[str, FixedField]) -> None:
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
