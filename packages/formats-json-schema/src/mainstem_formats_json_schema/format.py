"""Format `json-schema`: JSON objects that a schema describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from mainstem import ArrowEncoder, Decoder, Format, LocalPath, OptionError, ValueWriter, option
from mainstem.columns import Column, json_sql, parts_of
from mainstem_registry import (
    FramedOptions,
    RegistryOptions,
    Schemas,
    SubjectOptions,
    headers_of,
    schema_text,
)

from mainstem_formats_json_schema import schemas


class JsonSchemaDecoderOptions(FramedOptions):
    """Options of reading `json-schema`."""

    framing: Literal["none", "confluent", "apicurio", "apicurio_headers", "glue"] = option(  # type: ignore[assignment]
        "none",
        description="What stands before a value: nothing, or the schema's number at a registry, as "
        "Confluent's serializers write it, or Apicurio's with global ids (`apicurio_headers`: in a "
        "header of the message, or its content id), or AWS Glue's with a version's.",
    )
    schema_file: LocalPath = option(
        description="The file with the schema of an object, whose properties are the columns.",
        example="./order.schema.json",
    )


@dataclass(frozen=True)
class JsonSchemaReader:
    """Reads values; what it has is the schema's text."""

    schema: str
    columns: tuple[Column, ...]
    framing: str
    registry: RegistryOptions | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem_formats_json_schema.reading import JsonSchemaValues

        return JsonSchemaValues(self.schema, self.columns, self.registry, self.framing).read


class JsonSchemaDecoder(Decoder):
    """Objects that a schema allows; its properties are the columns, or those of the document."""

    options: JsonSchemaDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        try:
            if schema is None:
                return schemas.columns(self._text)
            schemas.check(self._text)
        except ValueError as error:
            raise OptionError(str(error), option="schema_file") from None
        return schema

    def reader(self, schema: Sequence[Column] | None) -> JsonSchemaReader:
        options = self.options
        columns = tuple(self.columns(schema))
        return JsonSchemaReader(self._text, columns, options.framing, options.registry)

    @property
    def headers(self) -> Sequence[str]:
        return headers_of(self.options.framing)

    @cached_property
    def _text(self) -> str:
        return schema_text(self.options.schema_file, "schema_file")


class JsonSchemaEncoderOptions(SubjectOptions):
    """Options of writing `json-schema`."""

    schema_file: LocalPath = option(
        description="The file with the schema that each object must be allowed by.",
        example="./order.schema.json",
    )


@dataclass(frozen=True)
class JsonSchemaWriter:
    """Writes rows; what it has is the schema's text."""

    schema: str
    framing: str
    registry: RegistryOptions | None
    subject: str | None
    register: bool

    def open(self) -> Callable[..., Any]:
        """Return what writes a batch."""
        from mainstem_formats_json_schema.writing import JsonSchemaRows

        head = b""
        if self.registry is not None:
            from mainstem_registry.client import Schema

            known = Schemas(self.registry, self.framing)
            schema = Schema(self.schema, "JSON")
            head = known.head(self.subject or "", schema, register=self.register)
        return JsonSchemaRows(self.schema, head=head).write


class JsonSchemaEncoder(ArrowEncoder):
    """Objects of the columns, as `json` writes them, each looked at by the schema."""

    options: JsonSchemaEncoderOptions

    def check(self, columns: Sequence[Column]) -> None:
        names = [column.name for column in columns]
        try:
            needed, others = schemas.top(self._text)
        except ValueError as error:
            raise OptionError(str(error), option="schema_file") from None
        if lacking := [name for name in needed if name not in names]:
            told = f"the schema's {', '.join(lacking)} is required, and there is no such column"
            raise OptionError(told, option="schema_file")
        if others is not None and (more := [name for name in names if name not in others]):
            told = f"the schema allows no {', '.join(more)} beside {', '.join(sorted(others))}"
            raise OptionError(told, option="schema_file", hint="Choose among them with `columns`.")
        for column in columns:
            if odd := _odd_key(column.type or ""):
                message = f"JSON has no keys as those of column {column.name}, of type {odd}"
                raise OptionError(message, option="format", hint="Give the map keys of text.")

    def given(self, columns: Sequence[Column]) -> Sequence[str]:
        names = [column.name for column in columns]
        return [json_sql(names), json_sql(names, nulls=True)]

    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        options = self.options
        return JsonSchemaWriter(
            self._text, options.framing, options.registry, options.subject, options.register_schema
        )

    @cached_property
    def _text(self) -> str:
        return schema_text(self.options.schema_file, "schema_file")


def _odd_key(kind: str) -> str | None:
    """Return the map in a type whose keys are no texts."""
    parts = [part.type or "" for part in parts_of(kind)]
    if kind.startswith("map<") and parts[0] != "string":
        return kind
    return next(filter(None, map(_odd_key, parts)), None)


class JsonSchema(Format):
    """JSON: an object that a schema in a file describes."""

    decoder, encoder = JsonSchemaDecoder, JsonSchemaEncoder
