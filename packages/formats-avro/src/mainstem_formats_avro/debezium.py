"""Format `debezium-avro`: the changes of a table, as Debezium writes them by Avro converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from mainstem import ChangesDecoder, ChangesOptions, Format, LocalPath, OptionError, option
from mainstem.columns import Column
from mainstem_registry import FramedOptions, RegistryOptions, headers_of

from mainstem_formats_avro import schemas
from mainstem_formats_avro.format import Text, loaded
from mainstem_formats_avro.schemas import Node


class DebeziumAvroDecoderOptions(ChangesOptions, FramedOptions):
    """Options of reading `debezium-avro`."""

    framing: Literal["none", "confluent", "apicurio", "apicurio_headers", "glue"] = option(  # type: ignore[assignment]
        "none",
        description="What stands before a value, and before a key: nothing, or the schema's number at a "
        "registry, as Confluent's converter writes it, or Apicurio's with global ids "
        "(`apicurio_headers`: in headers of the message, or content ids), or AWS Glue's with versions'.",
    )
    schema_file: LocalPath = option(
        description="The file (.avsc) with the schema of values: an envelope with `before`, `after` and "
        "`op`. The fields of `after` are the columns.",
        example="./customers-value.avsc",
    )
    key_schema_file: LocalPath | None = option(
        None,
        description="The file with the schema of the messages' keys. Without pre-images a message "
        "without a value deletes the key that its own key tells: it needs this.",
        example="./customers-key.avsc",
    )


@dataclass(frozen=True)
class DebeziumAvroReader:
    """Reads envelopes; what it has of schemas are texts."""

    schema: str
    key_schema: str | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    preimages: bool
    framing: str
    registry: RegistryOptions | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.changes import Records, RowEnvelopes

        from mainstem_formats_avro.reading import AvroValues

        def records(schema: str) -> Records:
            made = AvroValues([schema], framing=self.framing, registry=self.registry)
            return Records(made.read, schemas.read(schema).names)

        keys = None if self.key_schema is None else records(self.key_schema)
        values = records(self.schema)
        return RowEnvelopes(values, keys, self.columns, self.key, preimages=self.preimages).read


class DebeziumAvroDecoder(ChangesDecoder):
    """Envelopes of changes."""

    options: DebeziumAvroDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError("debezium-avro has the columns of its `schema_file`", option="schema")
        if self.options.key_schema_file is not None:
            loaded(self.options.key_schema_file, "key_schema_file")
        return schemas.columns(self._after)

    def reader(self, schema: Sequence[Column] | None) -> DebeziumAvroReader:
        options = self.options
        file = options.key_schema_file
        key_schema = None if file is None else loaded(file, "key_schema_file").text
        return DebeziumAvroReader(
            self._schema.text, key_schema, tuple(self.columns(schema)), tuple(options.key or ()),
            options.preimages, options.framing, options.registry,
        )  # fmt: skip

    @property
    def headers(self) -> Sequence[str]:
        framing = self.options.framing
        return (*headers_of(framing), *headers_of(framing, "key"))

    @property
    def _after(self) -> Node:
        node = self._schema.node
        parts = dict(zip(node.names, node.parts, strict=True))
        after, op = parts.get("after"), parts.get("op")
        if (
            after is None
            or after.word != "record"
            or op is None
            or op.word not in ("string", "enum")
        ):
            raise OptionError(
                "the schema is no envelope: it has no record `after`, or no text `op`",
                option="schema_file",
            )
        before = parts.get("before", after)
        if before.ddl != after.ddl:
            raise OptionError("`before` and `after` have other fields", option="schema_file")
        return after

    @cached_property
    def _schema(self) -> Text:
        return loaded(self.options.schema_file, "schema_file")


class DebeziumAvro(Format):
    """The envelopes of changes that Debezium writes in Avro; they become a changelog."""

    decoder = DebeziumAvroDecoder
