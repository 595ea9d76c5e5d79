"""Format `json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstem import Encoder, Format, OptionError, Options, option
from mainstem.builtin.csv_text import TIMESTAMP, TIMESTAMP_NTZ
from mainstem.builtin.formats.options import TextDecoder, TextOptions, check_readable
from mainstem.columns import Column, literal, quoted
from mainstem.contracts.columns import check_names
from mainstem.contracts.formats import FieldOptions
from mainstem.formats.rules import Rules
from mainstem.formats.words import odd_key


class JsonDecoderOptions(TextOptions, FieldOptions):
    """Options of reading `json`."""

    into: str = option(
        "value", min_length=1, description="The name of the VARIANT column, without a schema."
    )
    text_numbers: bool = option(
        False, description='Whether a text (`"1.50"`) may stand for a number.'
    )


@dataclass(frozen=True)
class JsonReader:
    """Reads JSON objects by columns, or any JSON as the only column; `options` are the reader's."""

    columns: tuple[Column, ...]
    rules: Rules = field(default_factory=Rules)
    options: tuple[tuple[str, Any], ...] = ()
    any: bool = False

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.json_values import AnyJson, JsonValues

        if self.any:
            return AnyJson().read
        return JsonValues(self.columns, self.rules, **dict(self.options)).read


class JsonDecoder(TextDecoder):
    """Objects by a schema; any value as a VARIANT without one."""

    options: JsonDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        check_names([self.options.into], "into")
        if schema is None:
            return (Column(self.options.into, "variant", nullable=False),)
        check_readable(schema, "json")
        return schema

    def reader(self, schema: Sequence[Column] | None) -> JsonReader:
        options, columns = self.options, tuple(self.columns(schema))
        if schema is None:
            return JsonReader(columns, any=True)
        given = {
            "missing": options.missing == "null",
            "extra": options.extra == "ignore",
            "text_numbers": options.text_numbers,
            **self.texts(),
        }
        return JsonReader(columns, Rules(unit=options.times.unit), tuple(given.items()))


class JsonEncoder(Encoder):
    """Objects, by Spark's `to_json`."""

    options: Options

    def check(self, columns: Sequence[Column]) -> None:
        for column in columns:
            if odd_key(column.type or ""):
                message = (
                    f"JSON has no keys as those of column {column.name}, of type {column.type}"
                )
                hint = "Give the map keys of text."
                raise OptionError(message, option="format", hint=hint)

    def value(self, columns: Sequence[Column]) -> str:
        return f"to_json(struct({', '.join(quoted(c.name) for c in columns)}), {_TIMES})"


class Json(Format):
    """JSON: an object by its schema, or any value as a VARIANT."""

    decoder, encoder = JsonDecoder, JsonEncoder


#: Times to the microsecond, where Spark writes three digits and cuts the rest.
_TIMES = (
    f"map('timestampFormat', {literal(TIMESTAMP)}, 'timestampNTZFormat', {literal(TIMESTAMP_NTZ)})"
)
