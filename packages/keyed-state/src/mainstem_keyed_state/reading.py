"""Reads the state of a node back from its checkpoint, without running the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from mainstem import PipelineError

from mainstem_keyed_state.columns import spark_type
from mainstem_keyed_state.directory import Directory
from mainstem_keyed_state.entries import opened
from mainstem_keyed_state.frames import state_name
from mainstem_keyed_state.hashes import keyed_by
from mainstem_keyed_state.keys import KeyKind
from mainstem_keyed_state.layout import Layout
from mainstem_keyed_state.logic import KEY
from mainstem_keyed_state.outputs import Whole, placed
from mainstem_keyed_state.page_codec import decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The column with a key's values, as text.
KEY_TEXT = "_key"


def read_state(
    spark: SparkSession,
    checkpoint: Path,
    node: str,
    layout: Layout,
    *,
    name: str = "",
    key: Sequence[str] | None = None,
    batch: int | None = None,
) -> dict[str, DataFrame]:
    """Return the state that a query has of a node after its last batch, or an earlier one.

    Args:
        spark: a session whose state store is the query's.
        checkpoint: the query's checkpoint.
        node: the operator's name.
        layout: that of the state; see `layouts_in`.
        name: which of the node's states, if it has several.
        key: the values of one key, as text; all keys when left out.
        batch: the number of the batch; only the last few are kept.

    Returns:
        A frame by table, with the columns of its rows and `_key`, an array of the key's values as text;
        null in tables that all keys share.
        Columns that a row lacks, for it is of an older version, are null.

    Raises:
        PipelineError: the query has no state of the node, or the key has another number of values.
        DamagedError: an entry was changed after it was written (its rows: when the frame is read).
    """
    entries = _entries(spark, checkpoint, node, name, batch)
    wanted: bytes | None = None
    if key is not None:
        wanted = _key_bytes(spark, layout.keys, key)
        bucket = layout.labels[int.from_bytes(wanted[:4], "big") % len(layout.labels)]
        entries = entries.where(f"bucket = {bucket}")
    directories = {
        row["bucket"]: Directory.of_bytes(_bytes_of(row.asDict()))
        for row in entries.where("table = ''").collect()
    }
    schemas = {
        bucket: [layout.schema for layout in directory.layouts]
        for bucket, directory in directories.items()
    }
    found = {}
    for table in _tables(directories):
        columns = _columns(directories, table)
        pages = entries.where("table <> ''").where(f"table = '{table}'")
        kept = [bucket for bucket, each in directories.items() if table in each.shared]
        if kept:  # each bucket has them all
            pages = pages.where(f"bucket = {min(kept)}")
        rows = _rows_of(schemas, columns, None if kept else layout.keys, None if kept else wanted)
        found[table] = pages.mapInArrow(rows, _spark_schema(columns))
    return found


def _entries(
    spark: SparkSession, checkpoint: Path, node: str, name: str, batch: int | None
) -> DataFrame:
    """Return the entries of all buckets: bucket, table, page, layout, data."""
    path = str(checkpoint)
    known = spark.read.format("state-metadata").load(path)
    operators = (
        known.where("operatorName LIKE 'transformWithState%'").select("operatorId").distinct()
    )
    for row in operators.orderBy("operatorId").collect():
        reader = (
            spark.read.format("statestore")
            .option("operatorId", row["operatorId"])
            .option("stateVarName", state_name(node, name))
        )
        if batch is not None:
            reader = reader.option("batchId", batch)
        try:
            frame = reader.load(path)
        except Exception as error:
            if "STDS_INVALID_OPTION_VALUE" in str(error):  # another node's operator
                continue
            raise
        return frame.selectExpr(
            "key.bucket", "user_map_key.table", "user_map_key.page",
            "user_map_value.layout", "user_map_value.data",
        )  # fmt: skip
    raise PipelineError(f"{checkpoint} has no state by key of {node!r}")


def _bytes_of(row: Mapping[str, Any]) -> bytes:
    """Return an entry's bytes, of its row of the state store; `DamagedError` if it was changed."""
    found = opened((row["table"], row["page"]), (row["layout"], bytes(row["data"])))
    assert found is not None  # noqa: S101
    return found[1]


def _key_bytes(spark: SparkSession, kind: KeyKind, key: Sequence[str]) -> bytes:
    if len(key) != len(kind.types):
        message = f"the key has {len(kind.types)} values ({', '.join(kind.types)}), not {len(key)}"
        raise PipelineError(message)
    frame = spark.createDataFrame([tuple(key)], ", ".join(f"c{n} STRING" for n in range(len(key))))
    names = [f"unhex(c{n})" if t == "binary" else f"c{n}" for n, t in enumerate(kind.types)]
    row = frame.selectExpr(f"{kind.sql(names)} AS k").first()
    assert row is not None  # noqa: S101
    keys, _ = keyed_by(pa.array([row["k"]], pa.binary()))
    return bytes(keys[0].as_py())


def _tables(directories: dict[Any, Directory]) -> list[str]:
    kept = {table for d in directories.values() for page in d.pages for table in page.tables}
    kept |= {table for d in directories.values() for table in d.shared}
    return sorted(kept | {t for d in directories.values() for t, q in d.queues.items() if q})


def _columns(directories: dict[Any, Directory], table: str) -> pl.Schema:
    """Return the columns that a table has, of the latest version that wrote some of it."""
    layouts = [x for d in directories.values() for x in d.layouts if x.table == table]
    latest = max(layouts, key=lambda layout: layout.version)
    columns = dict(pl.from_arrow(latest.schema.empty_table()).schema)  # type: ignore[union-attr]
    del columns[KEY]
    return pl.Schema(columns)


def _spark_schema(columns: pl.Schema) -> Any:
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    fields = [StructField(KEY_TEXT, ArrayType(StringType()))]
    return StructType([*fields, *(StructField(n, spark_type(t)) for n, t in columns.items())])


def _rows_of(
    schemas: dict[Any, list[pa.Schema]],
    columns: pl.Schema,
    kind: KeyKind | None,
    wanted: bytes | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that turns pages into their rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    whole = Whole(to_arrow_schema(_spark_schema(columns), timezone="UTC"), {})

    def rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for page in batch.to_pylist():
                schema = schemas[page["bucket"]][page["layout"]]
                rows = decode(schema, [_bytes_of(page)])
                if wanted is not None:
                    rows = rows.filter(pl.col(KEY) == wanted)
                missing = [
                    pl.lit(None, t).alias(n) for n, t in columns.items() if n not in rows.columns
                ]
                keys = [None if kind is None else kind.texts(k) for k in rows[KEY]]
                text = pl.Series(KEY, keys, pl.List(pl.String))
                rows = rows.with_columns(text, *missing).select(KEY, *columns)
                if rows.height:
                    yield placed(whole, "", rows)

    return rows_of
