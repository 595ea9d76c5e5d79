"""Source `files`: a folder into which files are moved is a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mainstem import (
    Events,
    LocalPath,
    Needs,
    OptionError,
    Options,
    Schema,
    Shape,
    Size,
    Source,
    SourceCapabilities,
    SourceContext,
    messages,
    option,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Every task reads one block of one file, and blocks are cut here: so a row's number within its
#: block is the same whenever, and beside whatever other files, it is read. Changing this changes
#: every `_id`.
BLOCK = 64 * 1024 * 1024

_SPARK_FORMATS = {"jsonlines": "json", "csv": "csv", "parquet": "parquet"}


class FilesOptions(Options):
    """Options of the source `files`."""

    path: LocalPath = option(
        description="The folder (or a glob of folders) to watch. Files must appear in it whole: "
        "write elsewhere, then move. Names that begin with `_` or `.` are passed over.",
        example="./incoming",
    )
    format: Literal["message", "text", "jsonlines", "csv", "parquet"] = option(
        description="`message`: each line is a message (for `decode`); `text`: each line is a "
        "column `value`; the others are read by `schema`, and a file that does not fit ends the run."
    )
    table_schema: Schema | None = option(
        None, alias="schema", description="The columns, for jsonlines, csv and parquet."
    )
    max_files: int = option(1000, gt=0, description="The most files in one batch.")
    max_bytes: Size | None = option(
        None, description="About the most bytes in one batch, instead of `max_files`."
    )
    header: bool = option(True, description="Whether csv files begin with the columns' names.")
    separator: str = option(",", min_length=1, description="What stands between the values in csv.")


class Files(Source):
    """Reads the files that appear in a folder, each once, as messages, text or typed rows."""

    options: FilesOptions
    capabilities = SourceCapabilities(
        replayable=True,
        assumptions=("files are moved into the folder whole, and stay until they were read",),
    )

    def shape(self) -> Shape:
        schema, kind = self.options.table_schema, self.options.format
        if kind in _SPARK_FORMATS:
            if schema is None:
                raise OptionError(f"format {kind} needs a `schema`", option="format")
            return Events(schema, identity=["_origin", "_position"])
        if schema is not None:
            hint = "Follow it with `decode`." if kind == "message" else ""
            raise OptionError(f"format {kind} takes no `schema`", option="schema", hint=hint)
        if kind == "text":
            return Events("value STRING", identity=["_origin", "_position"])
        return messages()

    def needs(self) -> Needs:
        return Needs(
            {
                "spark.sql.files.maxPartitionBytes": str(BLOCK),
                "spark.sql.files.openCostInBytes": str(BLOCK),
            }
        )

    def load(self, ctx: SourceContext) -> DataFrame:
        options = self.options
        reader = ctx.reader()
        if options.max_bytes is not None:
            reader = reader.option("maxBytesPerTrigger", options.max_bytes)
        else:
            reader = reader.option("maxFilesPerTrigger", options.max_files)
        if options.table_schema is not None:
            reader = reader.schema(", ".join(column.ddl for column in options.table_schema))
            if options.format in ("jsonlines", "csv"):
                reader = reader.option("mode", "FAILFAST")
            if options.format == "csv":
                reader = reader.option("header", options.header).option("sep", options.separator)
                reader = reader.option("enforceSchema", not options.header)
        frame = reader.format(_SPARK_FORMATS.get(options.format, "text")).load(str(options.path))
        origin = "_metadata.file_path"
        # A block's first byte, then the line's number in the block: byte order is file order.
        position = (
            "concat(lpad(_metadata.file_block_start, 15, '0'), '.',"
            f" lpad({ctx.row_in_task}, 10, '0'))"
        )
        if options.format == "message":
            return frame.where("value != ''").selectExpr(
                "CAST(NULL AS BINARY) AS key",
                "CAST(value AS BINARY) AS value",
                "CAST(NULL AS MAP<STRING, BINARY>) AS headers",
                "_metadata.file_modification_time AS timestamp",
                f"{origin} AS origin",
                "'0' AS partition",
                f"{position} AS position",
            )
        if not ctx.identified:
            return frame
        return frame.selectExpr("*", f"{origin} AS _origin", f"{position} AS _position")
