"""Format `json-schema`: JSON objects that a schema describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mainstem import Decoder, Format, LocalPath, OptionError, option
from mainstem.columns import Column
from mainstem_registry import FramedOptions, RegistryOptions, schema_text

from mainstem_formats_json_schema import schemas


class JsonSchemaDecoderOptions(FramedOptions):
    """Options of reading `json-schema`."""

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

    @cached_property
    def _text(self) -> str:
        return schema_text(self.options.schema_file, "schema_file")


class JsonSchema(Format):
    """JSON: an object that a schema in a file describes."""

    decoder = JsonSchemaDecoder
