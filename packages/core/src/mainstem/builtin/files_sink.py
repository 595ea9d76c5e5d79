"""Sink `files`: each batch becomes a folder of files, put in place at once.

A batch is written beside the sink's folder, where no reader's glob finds it, and renamed into place
when it is whole, under a name that only this batch of this checkpoint has. A retry exchanges the folder
for its own, so that a reader sees each row once, and all of a batch or nothing of it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mainstem import (
    Accepts,
    Batch,
    Changelog,
    Events,
    LocalPath,
    OptionError,
    Options,
    PipelineError,
    Sink,
    SinkCapabilities,
    failpoint,
    option,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SPARK_FORMATS = {"parquet": "parquet", "jsonlines": "json", "csv": "csv"}


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


class FilesSink(Sink):
    """Writes files, one folder a batch; a retried batch replaces itself, so readers see rows once.

    Read them with `spark.read.parquet("out/*")`, DuckDB's `read_parquet('out/*/**/*.parquet')` or
    `pandas.read_parquet("out")`.
    """

    options: FilesSinkOptions
    accepts = Accepts((Events, Changelog))
    capabilities = SinkCapabilities(
        replaces_batch=True,
        assumptions=("the folder's file system renames at once (local disks, NFS)",),
    )

    def __init__(self, options: FilesSinkOptions) -> None:
        super().__init__(options)
        if "://" in str(options.path) or ":/" in str(options.path):
            raise OptionError(
                f"{options.path} is no path of a mounted file system",
                option="path",
                hint="Object stores can't rename a folder at once; mount one that can.",
            )

    def write(self, frame: DataFrame, batch: Batch) -> None:
        root = self.options.path
        name = f"{batch.query_id[:8]}-{batch.id:010d}"
        staging = root.with_name(f".{root.name}.staging")
        staged, final = staging / name, root / name
        for folder in (root, staging):
            folder.mkdir(parents=True, exist_ok=True)
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
            return
        failpoint("files.before-rename")
        if final.exists():
            _exchange(staged, final)
            shutil.rmtree(staged)
        else:
            staged.rename(final)
        failpoint("files.after-rename")

    def forget(self, query_id: str, after: int) -> None:
        """Remove the folders of a checkpoint's later batches."""
        for folder in self.options.path.glob(f"{query_id[:8]}-*"):
            if int(folder.name.partition("-")[2]) > after:
                shutil.rmtree(folder)

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
        if options.format == "csv":
            writer = writer.option("header", True)
        writer.format(_SPARK_FORMATS[options.format]).save(path.absolute().as_uri())
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
