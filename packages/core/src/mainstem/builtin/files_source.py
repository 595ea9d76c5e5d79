"""Source `files`: a folder into which files are moved is a log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlparse

from mainstem import (
    REJECTED,
    Events,
    Inputs,
    Lag,
    Level,
    LocalPath,
    Needs,
    OptionError,
    Options,
    Reached,
    Schema,
    Shape,
    Shown,
    Size,
    Source,
    SourceCapabilities,
    SourceContext,
    messages,
    option,
)
from mainstem.builtin.csv_files import CsvFiles
from mainstem.builtin.decoding import NO_VARIANT, Decoding, with_variants
from mainstem.builtin.formats.csv import (
    DecimalMark,
    check_csv,
    codec,
    decimal_option,
    encoding_option,
    separator_option,
    thousands_option,
)
from mainstem.builtin.formats.json import JsonReader
from mainstem.builtin.formats.options import check_readable
from mainstem.columns import Column, literal, quoted
from mainstem.contracts.abilities import Branching, Dataset, Located, Measurable, Rewindable
from mainstem.contracts.far_times import FAR_TIME, far_time
from mainstem.contracts.formats import Times
from mainstem.formats.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Every task reads one block of one file, and blocks are cut here: so a row's number within its
#: block is the same whenever, and beside whatever other files, it is read. Changing this changes
#: every `_id`.
BLOCK = 64 * 1024 * 1024

#: Spark passes over a file that is older than the newest one read by more than this (by default a
#: week): none is, whatever time of change it was moved here with.
MAX_AGE = "36500d"

#: Up to so many bytes of unread files, their rows are counted.
COUNTED = 16 * 1024 * 1024

_TYPED = ("jsonlines", "csv", "parquet")
#: What Spark's format of that name gives; bytes that nobody asks for are not read.
_BINARY_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


class FilesOptions(Options):
    """Options of the source `files`."""

    path: LocalPath = option(
        description="The folder (or a glob of folders) to watch. Files must appear in it whole: "
        "write elsewhere, then move. Names that begin with `_` or `.` are passed over.",
        example="./incoming",
    )
    format: Literal["message", "text", "jsonlines", "csv", "parquet"] = option(
        description="`message`: each line is a message (for `decode`); `text`: each line is a "
        "column `value`; the others are read by `schema`. A row of jsonlines or csv that does not fit "
        "goes to `rejected`; a file of parquet that does not, or has a time beyond the years 1 to "
        "9999, ends the run."
    )
    table_schema: Schema | None = option(
        None, alias="schema", description="The columns, for jsonlines, csv and parquet."
    )
    max_files: int = option(1000, gt=0, description="The most files in one batch.")
    max_bytes: Size | None = option(
        None, description="About the most bytes in one batch, instead of `max_files`."
    )
    header: bool = option(
        True,
        description="Whether csv files begin with the columns' names, which can then be in any order.",
    )
    separator: str = separator_option()
    decimal: DecimalMark = decimal_option()
    thousands: str = thousands_option()
    encoding: str = encoding_option()
    times: Times = option(
        Times,
        description="jsonlines and csv: how times are written, where they are no ISO 8601 text.",
    )


class Files(Source, Branching, Measurable, Rewindable, Located):
    """Reads the files that appear in a folder, each once, as messages, text or typed rows.

    A file is read however old it is.
    """

    options: FilesOptions
    capabilities = SourceCapabilities(
        replayable=True,
        assumptions=("files are moved into the folder whole, and stay until they were read",),
        shown=Shown(Level.EXACTLY_ONCE, "packages/core/tests/spark/test_conformance_sources.py"),
    )

    def __init__(self, options: FilesOptions) -> None:
        super().__init__(options)
        self._since: datetime | None = None

    def shape(self) -> Shape:
        schema, kind = self.options.table_schema, self.options.format
        if kind in _TYPED:
            if schema is None:
                raise OptionError(f"format {kind} needs a `schema`", option="format")
            if kind != "parquet":
                check_readable(schema, kind, nested=kind != "csv")
                check_csv(self.options.encoding, self.options.thousands, self.options.decimal)
            return Events(schema, identity=["_origin", "_position"])
        if schema is not None:
            hint = "Follow it with `decode`." if kind == "message" else ""
            raise OptionError(f"format {kind} takes no `schema`", option="schema", hint=hint)
        if kind == "text":
            return Events("value STRING", identity=["_origin", "_position"])
        return messages()

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [Dataset("file", str(self.options.path))]

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        return {"rejected": REJECTED} if self.options.format in ("jsonlines", "csv") else {}

    def needs(self) -> Needs:
        return Needs(
            {
                "spark.sql.files.maxPartitionBytes": str(BLOCK),
                "spark.sql.files.openCostInBytes": str(BLOCK),
            }
        )

    def load(self, ctx: SourceContext) -> DataFrame:
        options = self.options
        reader = ctx.reader().option("maxFileAge", MAX_AGE)
        if options.max_bytes is not None:
            reader = reader.option("maxBytesPerTrigger", options.max_bytes)
        else:
            reader = reader.option("maxFilesPerTrigger", options.max_files)
        if options.format == "parquet" and options.table_schema is not None:
            reader = reader.schema(", ".join(column.ddl for column in options.table_schema))
        elif options.format == "csv":  # of which nothing but the names is read here
            reader = reader.schema(_BINARY_FILE)
        spark_format = {"parquet": "parquet", "csv": "binaryFile"}.get(options.format, "text")
        frame = reader.format(spark_format).load(str(options.path))
        if self._since is not None:
            frame = frame.where(
                f"_metadata.file_modification_time >= TIMESTAMP '{self._since.isoformat()}'"
            )
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
        if options.format == "csv":
            return self._csv(frame, ctx)
        if options.format == "jsonlines":
            return self._jsonlines(frame, position, ctx)
        columns = [_checked(column) for column in options.table_schema or ()] or ["*"]
        if ctx.identified:
            columns += [f"{origin} AS _origin", f"{position} AS _position"]
        return frame.selectExpr(*columns)

    def _csv(self, frame: DataFrame, ctx: SourceContext) -> DataFrame:
        options = self.options
        files = CsvFiles(
            options.table_schema or (),
            options.separator,
            Rules(options.decimal, options.thousands, options.times.unit),
            header=options.header,
            encoding=codec(options.encoding),
        )
        rows = frame.selectExpr("_metadata.file_path AS origin").mapInArrow(files, files.returned)
        return self._split(rows, files.selected(), ctx)

    def _jsonlines(self, frame: DataFrame, position: str, ctx: SourceContext) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        schema = self.options.table_schema or ()
        reader = JsonReader(tuple(schema), Rules(unit=self.options.times.unit))
        decoding = Decoding("json", tuple(schema), reader)
        mark = literal("\ufeff")
        rows = (
            frame.selectExpr(
                f"CAST(IF(startswith(value, {mark}), substring(value, 2), value) AS BINARY) AS payload",
                "_metadata.file_path AS origin",
                f"{position} AS position",
                "element_at(split(_metadata.file_path, '/'), -1) AS name",
            )
            .where("trim(CAST(payload AS STRING)) != ''")
            .select("*", decoding.call(F.col("payload")).alias("__read"))
        )
        lacking = (
            f"WHEN __read.c{n} IS NOT NULL AND {with_variants(f'__read.c{n}', c.type or '')} IS NULL "
            f"THEN {literal(f'{c.name} {NO_VARIANT}')}"
            for n, c in enumerate(schema)
            if c.type == "variant"
        )
        why = f"CASE {' '.join(lacking)} WHEN true THEN __read.reason END"
        # The number is that of the line in the block, which is the file's own up to 64 MiB.
        line = "CAST(right(position, 10) AS BIGINT) + 1, "
        start = "CAST(left(position, 15) AS BIGINT)"
        block = f"IF({start} = 0, '', concat(' after byte ', {start}))"
        rows = rows.selectExpr(
            *(
                f"{with_variants(f'__read.c{n}', c.type or '')} AS c{n}"
                for n, c in enumerate(schema)
            ),
            f"concat(name, ', line ', {line} {block}, ': ', {why}) AS reason",
            "payload",
            "origin",
            "position",
        )
        return self._split(rows, [f"c{n} AS {quoted(c.name)}" for n, c in enumerate(schema)], ctx)

    def _split(self, rows: DataFrame, columns: Sequence[str], ctx: SourceContext) -> DataFrame:
        """Return rows in the columns of the schema, those that are refused marked as such.

        Args:
            columns: names each, which may be any, also those of `rows` that are not the schema's.
        """
        told = "IF(reason IS NOT NULL, struct(reason, payload), NULL) AS _rejected"
        return rows.selectExpr(
            *columns,
            *(["origin AS _origin", "position AS _position"] if ctx.identified else []),
            "IF(reason IS NOT NULL, 'rejected', NULL) AS _output",
            *([told] if "rejected" in ctx.wanted else []),
        )

    # -- measuring and going back -----------------------------------------------------------

    def end(self, home: Path) -> Mapping[str, str]:
        """Return the name of the newest file."""
        newest = max(self._files(), key=lambda file: (Path(file).stat().st_mtime, file), default="")
        return {"0": newest}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return the rows in files not read yet, and the age of the oldest of these."""
        read = _logged(reached.spark_folder, upto=_number(reached))
        unread = [Path(file) for file in self._files() if file not in read]
        if not unread:
            return [Lag("0", 0, 0.0)]
        oldest = min(file.stat().st_mtime for file in unread)
        return [Lag("0", self._rows(unread), max(0.0, time.time() - oldest))]

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Files:
        """Return this source with the files changed since a time, or with all."""
        if not isinstance(point, datetime) and point != "earliest":
            raise OptionError(f"files start at `earliest` or at a time, not at {point!r}")
        other = Files(self.options)
        other._since = point if isinstance(point, datetime) else None
        return other

    def gone(self, since: Reached) -> str:
        """Return which files were read after a point and are no longer there."""
        logged = _logged(since.spark_folder, after=_number(since))
        names = [file.name for file in map(Path, sorted(logged)) if not file.exists()]
        return f"{len(names)} files, such as {names[0]}" if names else ""

    def _files(self) -> Iterator[str]:
        """Yield what Spark would read: files, also in `key=value` folders, but for hidden ones.

        By the names under which Spark logs them: absolute, without dots, and links are not followed.
        """
        path = Path(os.path.normpath(self.options.path.absolute()))
        pattern = path.relative_to(path.anchor)
        for found in Path(path.anchor).glob(str(pattern)):
            yield from [str(found)] if found.is_file() else _visible(str(found))

    def _rows(self, files: Sequence[Path]) -> int | None:
        options = self.options
        if sum(file.stat().st_size for file in files) > COUNTED:
            return None
        if options.format == "parquet":
            import pyarrow.parquet as pq

            return sum(int(pq.read_metadata(file).num_rows) for file in files)
        above = 1 if options.format == "csv" and options.header else 0
        return sum(
            max(0, sum(1 for line in file.read_bytes().split(b"\n") if line.strip()) - above)
            for file in files
        )


def _checked(column: Column) -> str:
    """Return SQL for a column, which ends the run at a time that others can't hold."""
    name = quoted(column.name)
    far = far_time(name, column.type)
    if far is None:
        return name
    return f"IF({far}, raise_error({literal(f'{column.name} {FAR_TIME}')}), {name}) AS {name}"


def _visible(folder: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for item in found:
            hidden = item.name.startswith("_") and "=" not in item.name
            if hidden or item.name.startswith(".") or item.name.endswith("._COPYING_"):
                continue
            if Path(item.path).is_file():  # false, and no error, of a link to itself
                yield item.path
            elif "=" in item.name:
                yield from _visible(item.path)


def _number(reached: Reached) -> int:
    return -1 if reached.offset is None else int(reached.offset["logOffset"])


def _logged(folder: Path, *, after: int = -1, upto: int | None = None) -> set[str]:
    """Return the paths of files in Spark's log of a file source, by the numbers of its entries.

    Every some batches Spark writes all that was before once more, as `NUMBER.compact`.
    """
    named = sorted(folder.glob("[0-9]*"))  # `7.compact` after `7`
    logs = {int(log.stem): log for log in named if log.stem.isdecimal()}
    whole = max((number for number, log in logs.items() if log.suffix == ".compact"), default=-1)
    found = set()
    for number, log in logs.items():
        if number < whole:
            continue
        with log.open() as lines:
            next(lines, "")  # the format's version
            for line in lines:
                entry = json.loads(line)
                if after < entry["batchId"] and (upto is None or entry["batchId"] <= upto):
                    found.add(unquote(urlparse(entry["path"]).path))
    return found
