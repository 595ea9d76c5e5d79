"""Format `json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mainstem import Encoder, Format, OptionError, Options, Schema, option
from mainstem.builtin.formats.options import TextDecoder, TextOptions, check_readable
from mainstem.columns import Column, json_sql, quoted
from mainstem.contracts.columns import check_names, odd_key, with_unknown
from mainstem.contracts.formats import UnknownOptions
from mainstem.formats.rules import Rules


class JsonTypesOptions(Options):
    """Several types of objects, which one of their fields tells apart."""

    field: str = option(min_length=1, description="The field that says what an object is, a text.")
    schemas: dict[str, Schema] = option(
        min_length=1,
        description="The columns of each type. Each is an output of its name.",
        example={"placed": "id BIGINT NOT NULL, city STRING", "paid": "id BIGINT, cents BIGINT"},
    )
    names: dict[str, str] = option(
        dict,
        description="What the field says of a type, where that is not its name here.",
        example={"placed": "com.example.OrderPlaced"},
    )
    others: Literal["refuse", "keep"] = option(
        "refuse",
        description="What becomes of an object of no such type: it is refused, or a row of the main "
        "output, of what `keep` has.",
    )


class JsonDecoderOptions(TextOptions, UnknownOptions):
    """Options of reading `json`."""

    into: str = option(
        "value", min_length=1, description="The name of the VARIANT column, without a schema."
    )
    text_numbers: bool = option(
        False, description='Whether a text (`"1.50"`) may stand for a number.'
    )
    by_type: JsonTypesOptions | None = option(
        None,
        description="Instead of a `schema`, where objects of several types come: an output for each.",
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


@dataclass(frozen=True)
class JsonTypesReader:
    """Reads objects of several types; `types` are the name of each in values, and its columns."""

    field: str
    types: tuple[tuple[str, tuple[Column, ...]], ...]
    rules: Rules
    others: bool
    options: tuple[tuple[str, Any], ...]

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.formats.json_types import JsonTypes

        options = dict(self.options)
        return JsonTypes(self.field, self.types, self.rules, others=self.others, **options).read


class JsonDecoder(TextDecoder):
    """Objects by a schema; any value as a VARIANT without one."""

    options: JsonDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        options = self.options
        check_names([options.into], "into")
        if options.unknown is not None and (schema is None or options.by_type is not None):
            raise OptionError("`unknown` is for a `schema`", option="unknown")
        if self.options.by_type is not None:
            return self._typed(schema, self.options.by_type)
        if schema is None:
            return (Column(self.options.into, "variant", nullable=False),)
        check_readable(schema, "json")
        return with_unknown(schema, options.unknown)

    def _typed(
        self, schema: Sequence[Column] | None, options: JsonTypesOptions
    ) -> Sequence[Column]:
        """Return a column for each type."""
        if schema is not None:
            raise OptionError("`by_type` has the schemas", option="schema")
        if self.pattern is not None:
            told = "is for TIMESTAMP columns of a `schema`, not of `by_type`"
            raise OptionError(told, option="timestamp_format")
        check_names(options.schemas, "by_type")
        if odd := sorted(options.names.keys() - options.schemas.keys()):
            raise OptionError(f"`names` has {odd[0]}, and `schemas` has not", option="by_type")
        said = [options.names.get(name, name) for name in options.schemas]
        if len(set(said)) < len(said):
            raise OptionError("two types have one name", option="by_type")
        columns = []
        for name, own in options.schemas.items():
            check_readable(own, "json")
            check_names((column.name for column in own), "by_type")
            fields = ",".join(f"{quoted(column.name)}:{column.type}" for column in own)
            columns.append(Column(name, f"struct<{fields}>"))
        return columns

    @property
    def types(self) -> Sequence[str]:
        return tuple(self.options.by_type.schemas) if self.options.by_type else ()

    def reader(self, schema: Sequence[Column] | None) -> JsonReader | JsonTypesReader:
        options, columns = self.options, tuple(self.columns(schema))
        if schema is None and options.by_type is None:
            return JsonReader(columns, any=True)
        given = {
            "missing": options.missing == "null",
            "extra": options.extra == "ignore",
            "unknown": options.unknown is not None,
            "text_numbers": options.text_numbers,
            **self.texts(),
        }
        rules, more = Rules(unit=options.times.unit), tuple(given.items())
        if (by := options.by_type) is None:
            return JsonReader(columns, rules, more)
        types = ((by.names.get(name, name), tuple(own)) for name, own in by.schemas.items())
        return JsonTypesReader(by.field, tuple(types), rules, by.others == "keep", more)


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
        return json_sql(column.name for column in columns)


class Json(Format):
    """JSON: an object by its schema, or any value as a VARIANT."""

    decoder, encoder = JsonDecoder, JsonEncoder
