"""Format `protobuf`: single messages of a type that a file describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from mainstem import (
    ArrowEncoder,
    Decoder,
    Format,
    LocalPath,
    OptionError,
    ValueWriter,
    option,
)  # fmt: skip
from mainstem.columns import Column, check_fields, check_names
from mainstem_registry import File, FramedOptions, RegistryOptions, SubjectOptions
from pydantic import model_validator

from mainstem_formats_protobuf import schemas
from mainstem_formats_protobuf.compiler import load
from mainstem_formats_protobuf.schemas import Node
from mainstem_formats_protobuf.sources import places, with_imports


class ProtobufOptions(FramedOptions):
    """Options of `protobuf`, read and written."""

    schema_file: LocalPath = option(
        description="A descriptor set, as `protoc --include_imports --descriptor_set_out` writes it, or "
        "a .proto file, for which protoc is needed: `mainstem-formats-protobuf[protoc]` has one.",
        example="./order.proto",
    )
    import_folders: tuple[LocalPath, ...] = option(
        (), description="Where what a .proto file imports is looked for, beside its own folder."
    )
    message: str | None = option(
        None,
        min_length=1,
        description="The message's name, with its package; not needed where there is only one that no "
        "other message has.",
        example="shop.Order",
    )
    enums: Literal["names", "numbers"] = option(
        "names",
        description="What enums are: their names, and a number without one is refused, or INT.",
    )
    unknown: str | None = option(
        None,
        min_length=1,
        description="The column of the fields that the message has and the schema does not, as bytes: "
        "read, and written behind the others. Those of messages in it are left out.",
    )


class ProtobufDecoderOptions(ProtobufOptions):
    """Options of reading `protobuf`."""

    types: dict[str, str] | None = option(
        None,
        min_length=1,
        description="Instead of `message`, where messages of several names come (`framing: confluent`): "
        "an output for each, with its name, whose fields are the columns.",
        example={"placed": "shop.OrderPlaced", "paid": "shop.OrderPaid"},
    )
    other_types: Literal["refuse", "keep"] = option(
        "refuse",
        description="What becomes of a message of a name that is none of `types`: it is refused, or a "
        "row of the main output, of what `keep` has.",
    )
    finer: Literal["refuse", "cut"] = option(
        "refuse",
        description="What becomes of a Timestamp finer than microseconds: its row is refused, or it is "
        "cut.",
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if self.types is not None and (self.message is not None or self.registry is None):
            raise ValueError("`types` stand instead of a `message`, and need `framing: confluent`")
        if self.types is None and self.other_types != "refuse":
            raise ValueError("`other_types` is for `types`")
        return self


class ProtobufEncoderOptions(ProtobufOptions, SubjectOptions):
    """Options of writing `protobuf`."""


@dataclass(frozen=True)
class ProtobufReader:
    """Reads messages by their fields; what knows the schemas that values name is made of the rest."""

    nodes: tuple[Node, ...]
    unknown: bool
    cut: bool
    framing: str
    registry: RegistryOptions | None
    messages: tuple[str, ...]
    by_type: bool
    other_types: bool

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        from mainstem_formats_protobuf.heads import Heads
        from mainstem_formats_protobuf.reading import ProtobufValues

        heads = None
        if self.registry is not None:
            heads = Heads(self.registry, self.framing, self.messages, others=self.other_types)
        return ProtobufValues(
            self.nodes, unknown=self.unknown, cut=self.cut, heads=heads, by_type=self.by_type
        ).read


@dataclass(frozen=True)
class ProtobufWriter:
    """Writes rows with columns of these names; `files` are those of the schema, for a registry."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    unknown: str | None
    framing: str
    registry: RegistryOptions | None
    subject: str | None
    register: bool
    files: tuple[File, ...]
    name: str

    def open(self) -> Callable[..., Any]:
        """Return what writes a batch."""
        from mainstem_formats_protobuf.writing import ProtobufRows

        head = b""
        if self.registry is not None:
            from mainstem_formats_protobuf.heads import head_of

            head = head_of(
                self.registry,
                self.framing,
                self.subject or "",
                self.files,
                self.name,
                self.register,
            )
        return ProtobufRows(self.nodes, self.names, self.unknown, head=head).write


class ProtobufDecoder(Decoder):
    """A message, whose fields are the columns."""

    options: ProtobufDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError(
                "protobuf has the columns of its `schema_file`", option="schema",
                hint="Choose among them with `select`.",
            )  # fmt: skip
        unknown = self.options.unknown
        check_names(self.options.types or (), "types")
        if unknown is not None:
            check_names([unknown], "unknown")
            if unknown.lower() in {node.name.lower() for node in self._nodes}:
                raise OptionError(f"the message has a field {unknown}", option="unknown")
        return schemas.columns(self._nodes, unknown)

    def reader(self, schema: Sequence[Column] | None) -> ProtobufReader:
        options = self.options
        return ProtobufReader(
            self._nodes, options.unknown is not None, options.finer == "cut", options.framing,
            options.registry, tuple(each.name for each in self._messages), options.types is not None,
            options.other_types == "keep",
        )  # fmt: skip

    @property
    def types(self) -> Sequence[str]:
        return tuple(self.options.types or ())

    @property
    def _nodes(self) -> tuple[Node, ...]:
        """The fields of the message, or the columns of the messages."""
        if self.options.types is None:
            return self._messages[0].nodes
        pairs = zip(self.options.types, self._messages, strict=True)
        return tuple(schemas.as_column(name, each.nodes) for name, each in pairs)

    @cached_property
    def _messages(self) -> list[Loaded]:
        options = self.options
        if options.types is None:
            return [_loaded(options, options.message, "message")]
        return [_loaded(options, name, "types") for name in options.types.values()]


class ProtobufEncoder(ArrowEncoder):
    """A message of the columns."""

    options: ProtobufEncoderOptions

    def check(self, columns: Sequence[Column]) -> None:
        fields, unknown = schemas.columns(self._message.nodes), self.options.unknown
        names = {column.name for column in columns}
        if unknown is not None:
            if unknown not in names:
                raise OptionError(f"there is no column {unknown}", option="unknown")
            if unknown in {field.name for field in fields}:
                raise OptionError(f"the message has a field {unknown}", option="unknown")
            fields = (*fields, Column(unknown, "binary"))
        check_fields(columns, fields, "schema_file")
        for field in fields:
            if field.name in names and "variant" in (field.type or ""):
                told = f"column {field.name} would be a Struct, which is only read"
                raise OptionError(told, option="schema_file")
        if self.options.registry is not None:
            _check_registered(self.options, self._message.name)
        lacking = [
            node.name for node in self._message.nodes if node.required and node.name not in names
        ]
        if lacking:
            told = f"the message's {', '.join(lacking)} is required, and there is no such column"
            raise OptionError(told, option="schema_file")

    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        names = tuple(column.name for column in columns)
        options = self.options
        files = () if options.registry is None else _files(options)
        return ProtobufWriter(
            self._message.nodes, names, options.unknown, options.framing, options.registry,
            options.subject, options.register_schema, files, self._message.name,
        )  # fmt: skip

    @cached_property
    def _message(self) -> Loaded:
        return _loaded(self.options, self.options.message, "message")


class Protobuf(Format):
    """Protocol Buffers: a message that a file describes."""

    decoder, encoder = ProtobufDecoder, ProtobufEncoder


class Loaded(NamedTuple):
    """A message, read once for a use: its whole name and its fields."""

    name: str
    nodes: tuple[Node, ...]


def _check_registered(options: ProtobufOptions, name: str) -> None:
    """Look whether a registry can be given the schema: it keeps texts."""
    file = options.schema_file
    if file.suffix != ".proto":
        raise OptionError("a registry keeps the .proto file: give that", option="schema_file")
    found = places(_files(options)[-1].text)
    if name not in found:
        raise OptionError(f"{name} is not in the file itself", option="message")
    if not found[name]:
        told = f"the place of {name} is not sure: the message around it has maps"
        raise OptionError(told, option="message")


def _files(options: ProtobufOptions) -> tuple[File, ...]:
    """Return the .proto file behind those that it imports, and they do."""
    try:
        return with_imports(options.schema_file, options.import_folders)
    except ValueError as error:
        raise OptionError(str(error), option="schema_file") from None


def loaded(
    file: Path,
    folders: Sequence[Path],
    message: str | None,
    options: tuple[str, str],
    *,
    numbers: bool = False,
) -> Loaded:
    """Return a message that a file describes.

    Args:
        folders: in which what a .proto file imports is looked for.
        message: its name; None for the only one that no other has.
        options: those that name the file, and the message.
        numbers: whether enums are their numbers.

    Raises:
        OptionError: the file can't be read, or there is no such message; says why.
    """
    of_file, of_message = options
    try:
        held = load(file, folders)
    except ValueError as error:
        raise OptionError(str(error), option=of_file) from None
    try:
        name = schemas.full_name(held, message)
    except ValueError as error:
        where = of_message if "descriptor set" not in str(error) else of_file
        raise OptionError(str(error), option=where) from None
    try:
        return Loaded(name, schemas.message(held, name, numbers=numbers))
    except ValueError as error:
        raise OptionError(str(error), option=of_file) from None


def _loaded(options: ProtobufOptions, message: str | None, key: str) -> Loaded:
    return loaded(
        options.schema_file, options.import_folders, message, ("schema_file", key),
        numbers=options.enums == "numbers",
    )  # fmt: skip
