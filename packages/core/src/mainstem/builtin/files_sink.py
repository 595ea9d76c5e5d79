"""Sink `files`: each batch becomes a folder of files, put in place at once.

A batch is written beside the sink's folder, where no reader's glob finds it, and renamed into place
when it is whole, under a name that only this batch of this checkpoint has. A retry exchanges the folder
for its own, so that a reader sees each row once, and all of a batch or nothing of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mainstem import (
    Accepts,
    Batch,
    Changelog,
    Events,
    Level,
    LocalPath,
    OptionError,
    Options,
    PipelineError,
    Shape,
    Shown,
    Sink,
    SinkCapabilities,
    failpoint,
    option,
)
from mainstem.columns import Column
from mainstem.contracts.abilities import Dataset, Forgetful, Located, Readable, Typed
from mainstem.contracts.columns import find_column, odd_key
from mainstem.durable import made_folder, sync_folder, sync_tree
from mainstem.paths import for_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_FORMATS = {"parquet": "parquet", "jsonlines": "json", "csv": "csv"}
#: Times to the microsecond, where Spark writes three digits and cuts the rest.
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
#: Types whose values csv has no text for (Spark writes bytes as `[00 FF]`, which nobody reads).
_NO_TEXT = ("array<", "map<", "struct<", "variant", "binary", "void")
_WRITER_OPTIONS: dict[str, dict[str, str | bool]] = {
    "parquet": {},
    "jsonlines": {**_TIMES},
    "csv": {
        **_TIMES,
        "header": True,
        "escape": '"',  # RFC 4180: a quote within quotes is doubled
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
    },
}


class FilesSinkOptions(Options):
    """Options of the sink `files`."""

    path: LocalPath = option(
        description="The folder to write into, on this machine or a file system that all share.",
        example="./out",
    )
    format: Literal["parquet", "jsonlines", "csv"] = option(description="The files' format.")
    partition_by: list[str] = option(
        list, description="Columns whose values become folders (`city=Oslo/`)."
    )
    files_per_batch: int | None = option(
        None,
        gt=0,
        description="Merge what a batch writes into this many files (for each value of "
        "`partition_by`); as many as the batch has partitions when left out.",
    )
    compression: str | None = option(
        None,
        description="A codec that Spark has for the format; the format's usual one when left out.",
    )


class FilesSink(Sink, Typed, Forgetful, Readable, Located):
    """Writes files, one folder a batch; a retried batch replaces itself, so readers see rows once.

    Read them with `spark.read.parquet("out/*")`, DuckDB's `read_parquet('out/*/**/*.parquet')` or
    `pandas.read_parquet("out")`. In csv (RFC 4180), null is nothing and an empty text is `""`: Spark
    tells them apart with the option `nullValue` set to something that is no value, reads doubled
    quotes with `escape` set to a quote, and texts of several lines with `multiLine`. In JSON lines a
    null is left out, and bytes are base64.
    """

    options: FilesSinkOptions
    accepts = Accepts((Events, Changelog))
    capabilities = SinkCapabilities(
        replaces_batch=True,
        assumptions=("the folder's file system renames at once (local disks, NFS)",),
        shown={
            "microbatch": Shown(
                Level.EXACTLY_ONCE, "packages/core/tests/spark/test_conformance_sinks.py"
            )
        },
    )

    def __init__(self, options: FilesSinkOptions) -> None:
        super().__init__(options)
        if "://" in str(options.path) or ":/" in str(options.path):
            raise OptionError(
                f"{options.path} is no path of a mounted file system",
                option="path",
                hint="Object stores can't rename a folder at once; mount one that can.",
            )

    def datasets(self, output: str) -> Sequence[Dataset]:
        return [Dataset("file", str(self.options.path))]

    def check_types(self, columns: Sequence[Column], shape: Shape) -> None:
        """Refuse what the format can't hold: in csv what is no single text, in JSON odd map keys."""
        form = self.options.format
        types = {column.name.lower(): column.type or "" for column in columns}
        for name in self.options.partition_by:
            find_column(columns, name, "partition_by")
            if types[name.lower()].startswith(_NO_TEXT):
                message = f"column {name}, of type {types[name.lower()]}, can't be a folder's name"
                raise OptionError(message, option="partition_by")
        for column in columns:
            name, kind = column.name, column.type or ""
            if form == "csv" and kind.startswith(_NO_TEXT):
                raise OptionError(
                    f"csv can't hold column {name}, of type {kind}",
                    option="format",
                    hint="Write parquet or jsonlines, or make text of it: to_json(x), base64(x).",
                )
            if form == "parquet" and kind == "void":
                raise OptionError(
                    f"parquet can't hold column {name}, of type void", option="format"
                )
            if form == "jsonlines" and odd_key(kind):
                raise OptionError(
                    f"JSON can't hold column {name}, of type {kind}: keys of maps are text",
                    option="format",
                    hint="Write parquet, or give the map keys of text.",
                )

    def write(self, frame: DataFrame, batch: Batch) -> None:
        root = self.options.path
        name = f"{batch.query_id[:8]}-{batch.sink}-{batch.id:010d}"
        staging = root.with_name(f".{root.name}.staging")
        staged, final = staging / name, root / name
        for folder in (root, staging):
            made_folder(folder)
        if root.stat().st_dev != staging.stat().st_dev:
            raise PipelineError(f"{root} is a mount point; give a folder in it", node=batch.sink)
        shutil.rmtree(staged, ignore_errors=True)
        failpoint("files.before-write")
        rows = self._write(frame, staged)
        failpoint("files.after-write")
        for mark in staged.glob("_SUCCESS"):
            mark.unlink()
        for checksum in staged.rglob(".*.crc"):
            checksum.unlink()
        if not rows:  # Spark writes a file with no rows; nobody needs a folder for it
            shutil.rmtree(staged)
            shutil.rmtree(final, ignore_errors=True)
            sync_folder(root)
            return
        sync_tree(staged)
        failpoint("files.before-rename")
        if final.exists():
            _exchange(staged, final)
            sync_folder(root)
            shutil.rmtree(staged)
        else:
            staged.rename(final)
            sync_folder(root)
        failpoint("files.after-rename")

    def forget(self, query_id: str, after: int) -> None:
        """Remove the folders of a checkpoint's later batches."""
        for folder in self.options.path.glob(f"{query_id[:8]}-*"):
            if int(folder.name.rpartition("-")[2]) > after:
                shutil.rmtree(folder)
        sync_folder(self.options.path)

    def read(self, columns: Sequence[Column]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of Parquet files and of JSON lines."""
        from mainstem.builtin.stored_rows import stored_rows

        return stored_rows(self.options.path, self.options.format, columns)

    def _write(self, frame: DataFrame, path: Path) -> int:
        """Write the files and return how many rows they have.

        Parquet files tell that themselves; for the others Spark counts, which takes it some 15 ms.
        """
        import pyarrow.parquet as pq
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        options = self.options
        written = Observation()
        if options.format != "parquet":
            frame = frame.observe(written, F.count(F.lit(1)).alias("rows"))
        if options.files_per_batch is not None:
            frame = frame.coalesce(options.files_per_batch)
        writer = frame.write.mode("overwrite")
        if options.partition_by:
            writer = writer.partitionBy(*options.partition_by)
        if options.compression is not None:
            writer = writer.option("compression", options.compression)
        writer = writer.options(**_WRITER_OPTIONS[options.format])
        writer.format(_SPARK_FORMATS[options.format]).save(for_spark(path))
        if options.format != "parquet":
            return int(written.get["rows"])
        return sum(pq.read_metadata(file).num_rows for file in path.rglob("*.parquet"))


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders at once where the system can, else one after the other."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # not Linux
        done = False
    else:
        here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE: renameat2(2)
        done = rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
    if not done:
        aside = one.with_name(one.name + ".old")
        shutil.rmtree(aside, ignore_errors=True)
        other.rename(aside)
        one.rename(other)
        aside.rename(one)
