"""What `decode`, `encode` and the source `files` have in common in their options."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any, Literal

from mainstem import OptionError, Options, option
from mainstem.columns import Column
from mainstem.formats.words import unwritten

DecimalMark = Literal[".", ","]


class Times(Options):
    """How times are written that are no text of ISO 8601."""

    unit: Literal["s", "ms", "us", "ns"] | None = option(
        None,
        description="What a bare number counts since 1970, for TIMESTAMP columns; numbers are refused "
        "when left out.",
    )


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
