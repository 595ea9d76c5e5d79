"""Delta tables at an object store: an emulation of S3."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from mainstem import PermanentError, TransientError
from mainstem.sinks import Step
from mainstem_lake.files import written
from mainstem_lake.testing import LedgerBatch, changes_of
from mainstem_lake_delta.options import DeltaOptions, DeltaSourceOptions
from mainstem_lake_delta.table import DeltaReceiver, Table

SECRET = "never-told"


@pytest.fixture
def place(s3, tmp_path):
    """Return the options of a table in a bucket of its own."""
    storage = {
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    return {"url": f"s3://{s3.bucket(tmp_path.name.replace('_', '-'))}/lake", "storage": storage}


def read(place):
    return DeltaTable(place["url"], storage_options=place["storage"]).to_pyarrow_table()


@pytest.mark.in_turn
def test_events_and_tables_are_written_by_tasks(pipeline, place):
    """Pass: once also when a batch comes again; the newest change of a row stays; partitions are there."""
    lines = {"path": "./in", "format": "jsonlines", "max_files": 1}
    lines["schema"] = "id INT, day STRING, at BIGINT, gone BOOLEAN"
    changes = {"key": ["id"], "sequence": "at", "delete": "gone"}
    tables = {"url": place["url"] + "-table"}
    document = pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators={"changes": {"use": "changelog", "from": "rows", "with": changes}},
        sinks={
            "lake": {"use": "delta", "from": "rows", "with": {**place, "partition_by": ["day"]}},
            "table": {"use": "delta", "from": "changes", "with": {**place, **tables}},
        },
    )
    pipeline.feed("0.jsonl", [{"id": n, "day": f"d{n % 2}", "at": 1} for n in range(4)])
    killed = pipeline.command(MAINSTEM_FAILPOINT="lake.after-commit:1:kill")
    assert killed.returncode == -9, killed.stderr
    document.run()
    pipeline.feed("1.jsonl", [{"id": 1, "day": "new", "at": 3}, {"id": 2, "at": 2, "gone": True}])
    document.run()
    found = read(place)
    assert sorted(found.column("id").to_pylist()) == [0, 1, 1, 2, 2, 3]
    kept = read({**place, **tables}).to_pylist()
    assert sorted((row["id"], row["day"]) for row in kept) == [(0, "d0"), (1, "new"), (3, "d1")]


def test_of_two_runs_that_commit_at_once_one_does(place):
    """Pass: the store refuses the second, which looks again and finds the batch there."""
    options = DeltaOptions(**place)
    rows = pa.table({"id": [1]})
    made = Table(options)
    made.make(rows.schema)
    (file,) = written(made.room(), options, made.schema, [], "t", rows.to_batches())
    one, two = Table(options), Table(options)
    one.append([file], LedgerBatch(0), once=True)
    with pytest.raises(TransientError):
        two.append([file], LedgerBatch(0), once=True)
    assert Table(options).step(LedgerBatch(0)) is Step.SKIP
    assert read(place).num_rows == 1


def test_a_table_and_its_changes_are_read(place):
    """Pass: a snapshot, and what a later version has changed."""
    feed = {"properties": {"delta.enableChangeDataFeed": "true"}}
    options = DeltaOptions(**place, **feed)
    table = Table(options)
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
    table.make(rows.schema)
    files = written(table.room(), options, table.schema, [], "t", rows.to_batches())
    table.append(files, LedgerBatch(0), once=True)
    given = DeltaSourceOptions(**place, key=["id"], schema="id INT, name STRING", poll="1 ms")
    receiver = DeltaReceiver(given, 0, "node")
    receiver.connect(None)
    first = changes_of(receiver)
    assert sorted(each[:3] for each in first) == [("insert", 1, "a"), ("insert", 2, "b")]
    change = pa.table({"id": pa.array([2], pa.int32()), "name": ["c"], "__gone": [False]})
    Table(options).merge(change, ["id"], LedgerBatch(1), once=True, guarded=False)
    assert [each[:3] for each in changes_of(receiver)] == [("update_postimage", 2, "c")]
    receiver.close()


def test_errors_of_the_store_do_not_tell_secrets(place):
    """Pass: of a bucket that is not there, and of a store that does not answer."""
    nowhere = {**place, "url": "s3://no-such-bucket/lake"}
    silent = {**place, "storage": {**place["storage"], "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}}
    for options in (nowhere, {**silent, "storage": {**silent["storage"], "max_retries": "0"}}):
        with pytest.raises((PermanentError, TransientError)) as told:
            Table(DeltaOptions(**options)).make(pa.schema([("id", pa.int32())]))
        assert SECRET not in str(told.value)
