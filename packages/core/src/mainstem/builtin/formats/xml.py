"""Format `xml`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem import Decoder, Format, OptionError, option
from mainstem.builtin.formats.options import check_readable, declared
from mainstem.columns import Column, parts_of
from mainstem.contracts.formats import FieldOptions, Times
from mainstem.formats.rules import Rules


class XmlDecoderOptions(FieldOptions):
    """Options of reading `xml`."""

    row: str | None = option(
        None,
        min_length=1,
        description="The name of the elements that are rows, wherever they are in a value, which may "
        "have several; the whole is one row when left out.",
        example="order",
    )
    text: str = option(
        "value",
        min_length=1,
        description="The field of a STRUCT that has the text of its element, beside its attributes.",
    )
    times: Times = option(
        Times, description="How times are written, where they are no ISO 8601 text."
    )


@dataclass(frozen=True)
class XmlReader:
    """Reads documents; `options` are the reader's."""

    columns: tuple[Column, ...]
    rules: Rules
    row: str | None
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.xml_values import XmlValues

        made = XmlValues(self.columns, self.rules, row=self.row, **dict(self.options))
        return made.read if self.row is None else made.read_rows


class XmlDecoder(Decoder):
    """A document, or each of its elements of one name, by a schema."""

    options: XmlDecoderOptions

    @property
    def many(self) -> bool:
        return self.options.row is not None

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        columns = declared(schema, "xml")
        check_readable(columns, "xml")
        for column in columns:
            if odd := _odd(column.type or ""):
                told = f"xml has no values of type {odd}, as column {column.name}"
                raise OptionError(told, option="schema")
        return columns

    def reader(self, schema: Sequence[Column] | None) -> XmlReader:
        options, columns = self.options, tuple(self.columns(schema))
        given = {
            "text": options.text,
            "missing": options.missing == "null",
            "extra": options.extra == "ignore",
        }
        return XmlReader(columns, Rules(unit=options.times.unit), options.row, tuple(given.items()))


def _odd(kind: str) -> str | None:
    """Return the type in a type of which elements are no values."""
    parts = [part.type or "" for part in parts_of(kind)]
    lists = kind.startswith("array<") and parts[0].startswith("array<")
    keys = kind.startswith("map<") and bool(parts_of(parts[0]))
    if kind == "variant" or lists or keys:
        return kind
    return next(filter(None, map(_odd, parts)), None)


class Xml(Format):
    """XML: elements and attributes by name, a document or each element of one name a row."""

    decoder = XmlDecoder
