"""Iceberg tables at an object store: an emulation of S3, with the catalog in SQLite."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mainstem import PermanentError, TransientError
from mainstem_lake.files import written
from mainstem_lake.testing import LedgerBatch, changes_of
from mainstem_lake_iceberg.options import IcebergOptions, IcebergSourceOptions
from mainstem_lake_iceberg.table import IcebergReceiver, Table
from pyiceberg.catalog import load_catalog

SECRET = "never-told"


@pytest.fixture
def settings(s3, tmp_path):
    """Return the settings of a catalog whose tables are in a bucket of their own."""
    return {
        "name": "mainstem",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{s3.bucket(tmp_path.name.replace('_', '-'))}/lake",
        "s3.endpoint": s3.url,
        "s3.region": "us-east-1",
        "s3.access-key-id": "id",
        "s3.secret-access-key": SECRET,
    }


def read(settings, table):
    return load_catalog(**settings).load_table(table).scan().to_arrow()


@pytest.mark.in_turn
def test_events_and_tables_are_written_by_tasks(pipeline, settings):
    """Pass: once also when a batch comes again; the newest change of a row stays; partitions are there."""
    lines = {"path": "./in", "format": "jsonlines", "max_files": 1}
    lines["schema"] = "id INT, day STRING, at BIGINT, gone BOOLEAN"
    changes = {"key": ["id"], "sequence": "at", "delete": "gone"}
    events = {"catalog": settings, "table": "shop.events", "partition_by": ["day"]}
    table = {"catalog": settings, "table": "shop.rows"}
    document = pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators={"changes": {"use": "changelog", "from": "rows", "with": changes}},
        sinks={
            "lake": {"use": "iceberg", "from": "rows", "with": events},
            "table": {"use": "iceberg", "from": "changes", "with": table},
        },
    )
    pipeline.feed("0.jsonl", [{"id": n, "day": f"d{n % 2}", "at": 1} for n in range(4)])
    killed = pipeline.command(MAINSTEM_FAILPOINT="lake.after-commit:1:kill")
    assert killed.returncode == -9, killed.stderr
    document.run()
    pipeline.feed("1.jsonl", [{"id": 1, "day": "new", "at": 3}, {"id": 2, "at": 2, "gone": True}])
    document.run()
    found = read(settings, "shop.events")
    assert sorted(found.column("id").to_pylist()) == [0, 1, 1, 2, 2, 3]
    kept = read(settings, "shop.rows").to_pylist()
    assert sorted((row["id"], row["day"]) for row in kept) == [(0, "d0"), (1, "new"), (3, "d1")]


def test_a_table_and_its_changes_are_read(settings):
    """Pass: a snapshot, and what a later one has changed."""
    options = IcebergOptions(catalog=settings, table="shop.rows")
    table = Table(options)
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
    table.make(rows.schema)
    files = written(table.room(), options, table.schema, [], "t", rows.to_batches())
    table.append(files, LedgerBatch(0), once=True)
    given = {"key": ["id"], "schema": "id INT, name STRING", "poll": "1 ms"}
    receiver = IcebergReceiver(
        IcebergSourceOptions(catalog=settings, table="shop.rows", **given), 0, "node"
    )
    receiver.connect(None)
    first = changes_of(receiver)
    assert sorted(each[:3] for each in first) == [("insert", 1, "a"), ("insert", 2, "b")]
    change = pa.table({"id": pa.array([2], pa.int32()), "name": ["c"], "__gone": [False]})
    Table(options).merge(change, ["id"], LedgerBatch(1), once=True, guarded=False)
    assert [each[:3] for each in changes_of(receiver)] == [("update_postimage", 2, "c")]
    receiver.close()


def test_errors_of_the_store_do_not_tell_secrets(settings):
    """Pass: of a bucket that is not there."""
    options = IcebergOptions(
        catalog={**settings, "warehouse": "s3://no-such-bucket/lake"}, table="shop.rows"
    )
    with pytest.raises((PermanentError, TransientError)) as told:
        Table(options).make(pa.schema([("id", pa.int32())]))
    assert SECRET not in str(told.value)
