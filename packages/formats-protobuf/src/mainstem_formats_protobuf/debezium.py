"""Format `debezium-protobuf`: the changes of a table, as Debezium writes them by Protobuf converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from mainstem import ChangesDecoder, ChangesOptions, Format, LocalPath, OptionError, option
from mainstem.columns import Column
from mainstem_registry import FramedOptions, RegistryOptions
from pydantic import model_validator

from mainstem_formats_protobuf import schemas
from mainstem_formats_protobuf.format import Loaded, loaded
from mainstem_formats_protobuf.schemas import Node


class DebeziumProtobufDecoderOptions(ChangesOptions, FramedOptions):
    """Options of reading `debezium-protobuf`."""

    schema_file: LocalPath = option(
        description="The .proto file, or a descriptor set, with the message of values: an envelope with "
        "`before`, `after` and `op`. The fields of `after` are the columns.",
        example="./customers-value.proto",
    )
    import_folders: tuple[LocalPath, ...] = option(
        (), description="Where what a .proto file imports is looked for, beside its own folder."
    )
    message: str | None = option(
        None,
        min_length=1,
        description="The envelope's name, with its package; not needed where there is only one message "
        "that no other has.",
        example="shop.public.customers.Envelope",
    )
    key_schema_file: LocalPath | None = option(
        None,
        description="The file with the message of the messages' keys. Without pre-images a message "
        "without a value deletes the key that its own key tells: it needs this.",
        example="./customers-key.proto",
    )
    key_message: str | None = option(
        None, min_length=1, description="The name of the keys' message, as `message` is."
    )

    @model_validator(mode="after")
    def _key_has_file(self) -> Self:
        if self.key_message is not None and self.key_schema_file is None:
            raise ValueError("`key_message` needs a `key_schema_file`")
        return self


@dataclass(frozen=True)
class DebeziumProtobufReader:
    """Reads envelopes by their fields, and keys by theirs; `Loaded` has a message's name too."""

    message: Loaded
    key_message: Loaded | None
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    preimages: bool
    framing: str
    registry: RegistryOptions | None

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem.changes import Records, RowEnvelopes

        from mainstem_formats_protobuf.heads import Heads
        from mainstem_formats_protobuf.reading import ProtobufValues

        def records(its: Loaded) -> Records:
            heads = None
            if self.registry is not None:
                heads = Heads(self.registry, self.framing, [its.name])
            read = ProtobufValues(its.nodes, heads=heads).read
            return Records(read, [node.name for node in its.nodes])

        keys = None if self.key_message is None else records(self.key_message)
        values = records(self.message)
        return RowEnvelopes(values, keys, self.columns, self.key, preimages=self.preimages).read


class DebeziumProtobufDecoder(ChangesDecoder):
    """Envelopes of changes."""

    options: DebeziumProtobufDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError(
                "debezium-protobuf has the columns of its `schema_file`", option="schema"
            )
        parts = {node.name: node for node in self._envelope.nodes}
        after, op = parts.get("after"), parts.get("op")
        if not _is_row(after) or op is None or op.ddl != "STRING":
            raise OptionError(
                f"{self._envelope.name} is no envelope: it has no message `after`, or no text `op`",
                option="schema_file",
            )
        assert after is not None  # noqa: S101
        if parts.get("before", after).ddl != after.ddl:
            raise OptionError("`before` and `after` have other fields", option="schema_file")
        return schemas.columns(after.fields)

    def reader(self, schema: Sequence[Column] | None) -> DebeziumProtobufReader:
        options = self.options
        return DebeziumProtobufReader(
            self._envelope, self._key, tuple(self.columns(schema)), tuple(options.key or ()),
            options.preimages, options.framing, options.registry,
        )  # fmt: skip

    @cached_property
    def _envelope(self) -> Loaded:
        options = self.options
        names = ("schema_file", "message")
        return loaded(options.schema_file, options.import_folders, options.message, names)

    @cached_property
    def _key(self) -> Loaded | None:
        options, file = self.options, self.options.key_schema_file
        if file is None:
            return None
        names = ("key_schema_file", "key_message")
        return loaded(file, options.import_folders, options.key_message, names)


def _is_row(node: Node | None) -> bool:
    return node is not None and node.word == "message" and not node.repeated


class DebeziumProtobuf(Format):
    """The envelopes of changes that Debezium writes in Protocol Buffers; they become a changelog."""

    decoder = DebeziumProtobufDecoder
