"""Format `avro`: single values by a schema that the document names."""

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
from mainstem.columns import Column, check_fields, check_names, with_unknown
from mainstem_registry import (
    FramedOptions,
    RegistryOptions,
    SubjectOptions,
    headers_of,
    schema_text,
)
from pydantic import model_validator

from mainstem_formats_avro import schemas
from mainstem_formats_avro.references import whole

_Read = Literal[
    "none", "confluent", "apicurio", "apicurio_headers", "glue", "single_object", "container"
]  # fmt: skip


class AvroOptions(FramedOptions):
    """Options of `avro`, read and written."""

    framing: Literal["none", "confluent", "single_object"] = option(  # type: ignore[assignment]
        "none",
        description="What stands before a value: nothing; the schema's number at a registry, as "
        "Confluent's serializers write it; or its fingerprint, as Avro's single-object encoding has it.",
    )
    reference_files: tuple[LocalPath, ...] = option(
        (),
        description="Files with the schemas of types to which the others refer by name, in any order. "
        "What is registered at a registry is the whole, without references.",
        example=["./address.avsc"],
    )


class AvroDecoderOptions(AvroOptions):
    """Options of reading `avro`."""

    framing: _Read = option(  # type: ignore[assignment]
        "none",
        description="What stands before a value: nothing; the schema's number at a registry, as "
        "Confluent's serializers write it, or Apicurio's with global ids (`apicurio_headers`: in a "
        "header of the message, or its content id), or AWS Glue's with a version's; or its fingerprint, "
        "as Avro's single-object encoding has it. `container`: a value is an object container file, "
        "which has its schema, and many records.",
    )

    schema_file: LocalPath | None = option(
        None,
        description="The file (.avsc) with the schema of a record, whose fields are the columns.",
        example="./order.avsc",
    )
    types: dict[str, LocalPath] | None = option(
        None,
        min_length=1,
        description="Instead of `schema_file`, where values of several types come: an output for each, "
        "by name, and the file with its schema, whose fields are the columns. A value's type is the name "
        "of the record that it was written as.",
        example={"placed": "./order_placed.avsc", "paid": "./order_paid.avsc"},
    )
    other_types: Literal["refuse", "keep"] = option(
        "refuse",
        description="What becomes of a value whose type is none of `types`: it is refused, or a row of "
        "the main output, of what `keep` has.",
    )
    writer_files: tuple[LocalPath, ...] = option(
        (),
        description="Other schemas that values were written by (`framing: single_object`), each known by "
        "its fingerprint. They are read as Avro resolves them: new fields have their defaults, those "
        "that are gone are left out, types are widened.",
    )
    new_fields: Literal["ignore", "refuse"] = option(
        "ignore",
        description="What becomes of a value that was written with fields that the reader's schema does "
        "not have: it is read without them, or refused.",
    )
    unknown: str | None = option(
        None,
        min_length=1,
        description="The column of the fields that the value has and the schema does not, a VARIANT: "
        "null where there are none. Those of records in it are left out, and so are unions of several "
        "types.",
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Self:
        if (self.schema_file is None) == (self.types is None):
            raise ValueError("give a `schema_file`, or `types`")
        if self.types is not None and self.framing == "container":
            raise ValueError("a container file holds one type, and no `types`")
        if self.types is not None and self.framing == "none":
            raise ValueError("`types` need a `framing`: a value alone does not tell its type")
        if self.unknown is not None and (
            self.types is not None
            or self.framing in ("none", "container")
            or self.new_fields != "ignore"
        ):
            raise ValueError(
                "`unknown` is for values of one `schema_file` behind a schema of their own, whose new "
                "fields are not refused"
            )
        if self.types is None and self.other_types != "refuse":
            raise ValueError("`other_types` is for `types`")
        if self.framing == "none" and self.new_fields != "ignore":
            raise ValueError(
                "`new_fields` needs a `framing`: a value alone does not tell its schema"
            )
        return self


class AvroEncoderOptions(AvroOptions, SubjectOptions):
    """Options of writing `avro`."""

    schema_file: LocalPath = option(
        description="The file (.avsc) with the schema of a record, whose fields are the columns.",
        example="./order.avsc",
    )


@dataclass(frozen=True)
class AvroReader:
    """Reads values; what it has are the texts of schemas, several where each is a column."""

    schemas: tuple[str, ...]
    others: tuple[str, ...]
    framing: str
    registry: RegistryOptions | None
    new_fields: bool
    by_type: bool
    other_types: bool
    unknown: bool

    def open(self) -> Callable[..., Any]:
        """Return what reads a batch."""
        if self.framing == "container":
            from mainstem_formats_avro.containers import AvroFiles

            return AvroFiles(self.schemas[0], new_fields=self.new_fields).read
        from mainstem_formats_avro.reading import AvroValues

        return AvroValues(
            self.schemas, self.others, framing=self.framing, registry=self.registry,
            new_fields=self.new_fields, by_type=self.by_type, other_types=self.other_types,
            unknown=self.unknown,
        ).read  # fmt: skip


@dataclass(frozen=True)
class AvroWriter:
    """Writes rows with columns of these names; `subject` is that of a registry."""

    schema: str
    names: tuple[str, ...]
    framing: str
    registry: RegistryOptions | None
    subject: str | None
    register: bool

    def open(self) -> Callable[..., Any]:
        """Return what writes a batch."""
        from mainstem_formats_avro.writing import AvroRows, head_of

        head = head_of(self.schema, self.framing, self.registry, self.subject or "", self.register)
        return AvroRows(self.schema, self.names, head=head).write


class AvroDecoder(Decoder):
    """A record, whose fields are the columns."""

    options: AvroDecoderOptions

    def columns(self, schema: Sequence[Column] | None) -> Sequence[Column]:
        if schema is not None:
            raise OptionError(
                "avro has the columns of its own schemas", option="schema",
                hint="Choose among them with `select`.",
            )  # fmt: skip
        options = self.options
        if options.writer_files and options.framing != "single_object":
            message = "are for `framing: single_object`"
            raise OptionError(message, option="writer_files")
        wanted = [text.node for text in self._texts]
        for file, text in zip(options.writer_files, self._written, strict=True):
            try:
                writer = schemas.read(text, writer=True)
                number = schemas.named(text, [each.text for each in self._texts])
                if number is None:
                    raise ValueError("its record has another name")
                schemas.check_resolves(writer, wanted[number])
            except ValueError as error:
                raise OptionError(f"{file}: {error}", option="writer_files") from None
        if options.types is None:
            return with_unknown(schemas.columns(wanted[0]), options.unknown)
        check_names(options.types, "types")
        names = [name for each in self._texts for name in schemas.names_of(each.text)]
        if len(set(names)) < len(names):
            raise OptionError(
                "two have one name, or an alias that is another's name", option="types"
            )
        return [
            Column(name, schemas.kind(node))
            for name, node in zip(options.types, wanted, strict=True)
        ]

    def reader(self, schema: Sequence[Column] | None) -> AvroReader:
        options = self.options
        return AvroReader(
            tuple(text.text for text in self._texts), self._written, options.framing, options.registry,
            options.new_fields == "ignore", options.types is not None, options.other_types == "keep",
            options.unknown is not None,
        )  # fmt: skip

    @property
    def many(self) -> bool:
        return self.options.framing == "container"

    @property
    def types(self) -> Sequence[str]:
        return tuple(self.options.types or ())

    @property
    def headers(self) -> Sequence[str]:
        return headers_of(self.options.framing)

    @cached_property
    def _written(self) -> tuple[str, ...]:
        """The schemas of other writers."""
        known = [schema_text(file, "reference_files") for file in self.options.reference_files]
        found = []
        for file in self.options.writer_files:
            try:
                found.append(whole(schema_text(file, "writer_files"), known))
            except ValueError as error:
                raise OptionError(f"{file}: {error}", option="writer_files") from None
        return tuple(found)

    @cached_property
    def _texts(self) -> list[Text]:
        options = self.options
        if options.types is None:
            assert options.schema_file is not None  # noqa: S101
            return [loaded(options.schema_file, "schema_file", options.reference_files)]
        return [loaded(file, "types", options.reference_files) for file in options.types.values()]


class AvroEncoder(ArrowEncoder):
    """A record of the columns."""

    options: AvroEncoderOptions

    def check(self, columns: Sequence[Column]) -> None:
        node = self._text.node
        check_fields(columns, schemas.columns(node), "schema_file")
        names = {column.name for column in columns}
        if lacking := [name for name in schemas.needed(node) if name not in names]:
            told = f"the schema's {', '.join(lacking)} has no default, and there is no such column"
            raise OptionError(told, option="schema_file")

    def writer(self, columns: Sequence[Column]) -> ValueWriter:
        names = tuple(column.name for column in columns)
        options = self.options
        return AvroWriter(
            self._text.text, names, options.framing, options.registry, options.subject,
            options.register_schema,
        )  # fmt: skip

    @cached_property
    def _text(self) -> Text:
        return loaded(self.options.schema_file, "schema_file", self.options.reference_files)


class Avro(Format):
    """Avro: a record by a schema in a file."""

    decoder, encoder = AvroDecoder, AvroEncoder


class Text(NamedTuple):
    """A schema, read once for a use."""

    text: str
    node: schemas.Node


def loaded(file: Path, option: str, others: Sequence[Path] = ()) -> Text:
    """Return the schema in a file.

    Args:
        option: the option that names it.
        others: the files with those to which it refers.

    Raises:
        OptionError: it can't be read, or is none; says why.
    """
    known = [schema_text(each, "reference_files") for each in others]
    try:
        text = whole(schema_text(file, option), known)
        return Text(text, schemas.read(text))
    except ValueError as error:
        raise OptionError(str(error), option=option) from None
