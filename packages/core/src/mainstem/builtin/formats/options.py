"""What formats, and the source `files`, have in common in their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from mainstem import Decoder, OptionError, Options, option
from mainstem.columns import Column
from mainstem.contracts.formats import Times
from mainstem.formats.words import unwritten


class TextOptions(Options):
    """Options of formats whose values are texts."""

    types: Literal["strict", "null"] = option(
        "strict",
        description="A value of another type, or a time beyond the years 1 to 9999: `strict` refuses "
        "the row, `null` reads it as null.",
    )
    times: Times = option(
        Times, description="How times are written, where they are no ISO 8601 text."
    )
    timestamp_format: str | None = option(
        None,
        description="Spark's pattern for TIMESTAMP columns (not for those inside other values); ISO 8601 "
        "when left out. Times without a zone are UTC.",
    )


class TextDecoder(Decoder):
    """What decoders of formats whose values are texts share."""

    options: TextOptions

    @property
    def pattern(self) -> str | None:
        return self.options.timestamp_format

    @property
    def loose(self) -> bool:
        return self.options.types == "null"

    def texts(self) -> dict[str, bool]:
        """Return what readers are told of `types` and `timestamp_format`."""
        return {"loose": self.loose, "patterned": self.pattern is not None}


def declared(schema: Any, word: str) -> tuple[Column, ...]:
    """Return the columns that a document declares.

    Raises:
        OptionError: it declares none.
    """
    if schema is None:
        raise OptionError(f"{word} needs a `schema`", option="format")
    return tuple(schema)


def check_readable(columns: Iterable[Column], word: str, *, nested: bool = True) -> None:
    """Refuse columns of types that a format has no values of.

    Args:
        word: the format's.
        nested: whether it has values in values.
    """
    for column in columns:
        if found := unwritten(column.type or "", nested=nested):
            message = f"{word} has no values of type {found}, as column {column.name}"
            raise OptionError(message, option="schema")
