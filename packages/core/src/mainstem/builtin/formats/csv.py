"""Format `csv`."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mainstem import Encoder, Format, OptionError, Options, option
from mainstem.builtin.csv_text import no_csv, record
from mainstem.builtin.formats.options import TextDecoder, TextOptions, check_readable, declared
from mainstem.columns import Column
from mainstem.formats.rules import Rules

DecimalMark = Literal[".", ","]


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


class CsvDecoderOptions(TextOptions):
    """Options of reading `csv`."""

    separator: str = separator_option()
    decimal: DecimalMark = decimal_option()
    thousands: str = thousands_option()
    encoding: str = encoding_option()


@dataclass(frozen=True)
class CsvReader:
    """Reads records; `options` are those of the reader."""

    columns: tuple[Column, ...]
    rules: Rules = field(default_factory=Rules)
    options: tuple[tuple[str, Any], ...] = ()

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.csv_values import CsvValues

        return CsvValues(self.columns, rules=self.rules, **dict(self.options)).read


class CsvDecoder(TextDecoder):
    """A record by a schema."""

    options: CsvDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, "csv")
        check_readable(columns, "csv", nested=False)
        check_csv(self.options.encoding, self.options.thousands, self.options.decimal)
        return columns

    def reader(self, schema: Sequence[Column] | None) -> CsvReader:
        options, columns = self.options, self.columns(schema)
        given = {
            "separator": options.separator,
            "encoding": codec(options.encoding),
            **self.texts(),
        }
        rules = Rules(options.decimal, options.thousands, options.times.unit)
        return CsvReader(tuple(columns), rules, tuple(given.items()))


class CsvEncoderOptions(Options):
    """Options of writing `csv`."""

    separator: str = separator_option()


class CsvEncoder(Encoder):
    """A record, quoted where that is needed."""

    options: CsvEncoderOptions

    def check(self, columns: Sequence[Column]) -> None:
        if found := no_csv(columns):
            message = f"csv has no values of type {found.type}, as column {found.name}"
            hint = "Write json, or make text of it first: to_json(x)."
            raise OptionError(message, option="format", hint=hint)

    def value(self, columns: Sequence[Column]) -> str:
        return record(columns, self.options.separator)


class Csv(Format):
    """CSV: one record, its values in the order of the columns."""

    decoder, encoder = CsvDecoder, CsvEncoder
