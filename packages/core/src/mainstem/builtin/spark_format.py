"""Source and sink `spark`: any format that Spark can read or write, without a plugin of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from mainstem import (
    Batch,
    Events,
    Needs,
    OptionError,
    Options,
    Schema,
    Shape,
    Sink,
    SinkCapabilities,
    Source,
    SourceCapabilities,
    SourceContext,
    option,
)
from mainstem.builtin.declared import misfits
from mainstem.columns import Column, quoted
from mainstem.contracts.abilities import Typed
from mainstem.contracts.columns import find_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Formats of files: Spark reads a stream of them only by a schema that it is given.
_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
#: Types that formats of Spark's own can't hold, or hold as nobody can read them (bytes in csv).
_NOT_HELD = {
    "csv": ("array<", "map<", "struct<", "variant", "binary", "void"),
    "orc": ("variant", "void"),
    "parquet": ("void",),
}


def _read_location(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a path or a URL")
    if "://" in value or value.startswith("file:/"):
        return value
    return str(Path((info.context or {}).get("folder") or "", value))


#: A path, relative to the document, or a URL (`s3a://bucket/folder`), left as it is.
Location = Annotated[
    str, PlainValidator(_read_location), WithJsonSchema({"type": "string", "minLength": 1})
]
Value = str | int | float | bool


class FormatOptions(Options):
    """What the source and the sink share."""

    format: str = option(
        min_length=1, description="Spark's name of the format, or a class.", example="parquet"
    )
    path: Location | None = option(
        None, description="Where the data is: a path, relative to the document, or a URL."
    )
    options: dict[str, Value] = option(
        dict,
        description="The format's own options, as its documentation names them.",
        example={"maxFilesPerTrigger": 10},
    )
    packages: list[str] = option(
        list,
        description="Maven coordinates of the format, where it does not come with Spark.",
        example=["org.apache.spark:spark-avro_2.13:4.0.0"],
    )
    jars: list[Location] = option(list, description="Jar files of the format: paths or URLs.")


class SparkSourceOptions(FormatOptions):
    """Options of the source `spark`."""

    table_schema: Schema = option(
        alias="schema",
        description="The columns that it gives; others that the format has are left out.",
        example="id BIGINT, name STRING",
    )
    identity: list[str] = option(
        list,
        description="The columns that tell a row from every other, the same after a replay; for "
        "sinks that need it.",
    )
    give_schema: bool | None = option(
        None,
        description="Whether the format is given the schema, and does not find its own. When left "
        "out: for Spark's formats of files.",
        advanced=True,
    )


class SparkSource(Source):
    """Reads any format that Spark can stream; what it promises rests on the format."""

    options: SparkSourceOptions

    def __init__(self, options: SparkSourceOptions) -> None:
        super().__init__(options)
        _check_path(options)

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """Replayable as far as the format is, which the user has to know."""
        word = self.options.format
        if word.lower() == "socket":
            return SourceCapabilities(replayable=False, why="a socket keeps nothing that was read")
        return SourceCapabilities(
            assumptions=(f"the format {word} gives the same rows when a batch is read again",)
        )

    def shape(self) -> Events:
        for name in self.options.identity:
            find_column(self.options.table_schema, name, "identity")
        return Events(self.options.table_schema, self.options.identity)

    def needs(self) -> Needs:
        return _needs(self.options)

    def load(self, ctx: SourceContext) -> DataFrame:
        options = self.options
        reader = ctx.reader().format(options.format).options(**options.options)
        files = options.format.lower() in _FILE_FORMATS
        if files if options.give_schema is None else options.give_schema:
            reader = reader.schema(", ".join(column.ddl for column in options.table_schema))
        try:
            frame = reader.load(options.path)
        except Exception as error:
            message = f"{options.format} can't be read: {_first_line(error)}"
            hint = "Name its coordinates as `packages`." if "NOT_FOUND" in message else ""
            raise OptionError(message, option="format", hint=hint) from error
        self._check(frame)
        return frame.select(*(quoted(column.name) for column in options.table_schema))

    def _check(self, frame: DataFrame) -> None:
        types = dict(frame.dtypes)
        wrong = misfits(self.options.table_schema, types)
        if wrong:
            given = ", ".join(f"{name} {kind.upper()}" for name, kind in types.items())
            message = f"does not fit what {self.options.format} gives: {'; '.join(wrong)}"
            raise OptionError(message, option="schema", hint=f"It gives: {given}.")


class SparkSinkOptions(FormatOptions):
    """Options of the sink `spark`."""

    table: str | None = option(
        None,
        min_length=1,
        description="The table of Spark's catalog to write to, instead of a path.",
        example="lake.sales.orders",
    )
    mode: Literal["append", "overwrite", "error"] = option(
        "append",
        description="What each batch does with what is there: adds to it, replaces it, or refuses "
        "it. What else it means is the format's affair.",
    )


class SparkSink(Sink, Typed):
    """Writes any format that Spark can; at-least-once, since a retried batch is written again."""

    options: SparkSinkOptions

    def __init__(self, options: SparkSinkOptions) -> None:
        super().__init__(options)
        if options.table is not None and options.path is not None:
            raise OptionError("goes without `path`: give one of them", option="table")
        _check_path(options)

    @property
    def capabilities(self) -> SinkCapabilities:  # type: ignore[override]
        """Nothing is known of the format but that it writes."""
        word = self.options.format
        told = [f"the format {word} keeps what it has written when it says so"]
        if self.options.mode == "overwrite":
            told.append("each batch replaces the last one: only the newest is wanted")
        return SinkCapabilities(assumptions=tuple(told))

    def needs(self) -> Needs:
        return _needs(self.options)

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse what Spark's own formats can't hold; of others nothing is known."""
        word = self.options.format
        for column in columns:
            if (column.type or "").startswith(_NOT_HELD.get(word.lower(), ())):
                message = f"{word} can't hold column {column.name}, of type {column.type}"
                raise OptionError(message, option="format")

    def write(self, frame: DataFrame, batch: Batch) -> None:
        options = self.options
        writer = frame.write.format(options.format).options(**options.options).mode(options.mode)
        if options.table is not None:
            writer.saveAsTable(options.table)
        else:
            writer.save(options.path)


def _check_path(options: FormatOptions) -> None:
    if options.path is not None and "path" in options.options:
        raise OptionError("has a `path`, which stands beside it already", option="options")


def _needs(options: FormatOptions) -> Needs:
    return Needs(packages=tuple(options.packages), jars=tuple(options.jars))


def _first_line(error: Exception) -> str:
    """Return what Spark says, without Java's stack."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)
