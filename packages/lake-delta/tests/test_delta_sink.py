"""What becomes of rows in Delta tables, and what others read of them."""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable
from mainstem import DocumentError, OptionError
from mainstem_lake.files import written
from mainstem_lake.testing import LedgerBatch
from mainstem_lake_delta.commands import app
from mainstem_lake_delta.options import DeltaOptions
from mainstem_lake_delta.table import Table, failure, statistics
from typer.testing import CliRunner

SCHEMA = "id INT, day STRING, note STRING, at BIGINT, gone BOOLEAN"


def document(pipeline, schema=SCHEMA, table=False, more=(), **options):
    """Write a document of rows into a table, a batch for each file."""
    lines = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    changes = {"key": ["id"], "sequence": "at", "delete": "gone"}
    operators = {"changes": {"use": "changelog", "from": "rows", "with": changes}} if table else {}
    sink = {"use": "delta", "from": "changes" if table else "rows"}
    return pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators=operators,
        sinks={"lake": {**sink, "with": {"path": "./lake", **options}}, **dict(more)},
    )


def lake(pipeline):
    return DeltaTable(str(pipeline.folder / "lake"))


def rows(pipeline, *names):
    found = lake(pipeline).to_pyarrow_table().to_pylist()
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


ODD = ["a/b", "x=y z", "50%", "é", "", None]


@pytest.mark.in_turn
def test_partitions_are_folders_by_any_text(pipeline):
    """Pass: values come back as they were, in other libraries too; an empty text, which would come back as null, is refused."""
    import polars as pl

    bad = pipeline.sink("bad", "lake.rejected")
    pipeline.feed("0.jsonl", [{"id": n, "day": day} for n, day in enumerate(ODD)])
    document(pipeline, partition_by=["day"], more={"bad": bad}).run()
    expected = sorted(((n, d) for n, d in enumerate(ODD) if d != ""), key=repr)
    assert rows(pipeline, "id", "day") == expected
    seen = pl.read_delta(str(pipeline.folder / "lake")).select("id", "day").rows()
    assert sorted(seen, key=repr) == expected
    (refused,) = pipeline.rows("bad")
    assert "day is empty" in refused["reason"]
    assert lake(pipeline).metadata().partition_columns == ["day"]


@pytest.mark.in_turn
def test_a_table_is_kept_in_step(pipeline):
    """Pass: of a batch the newest change of each key, older ones of later batches have no effect, deletions delete."""
    batches = [
        [(1, 5, "b"), (1, 4, "a"), (2, 5, "x"), (3, 5, "y")],
        [(1, 3, "older"), (2, 6, None), (3, 6, "z"), (4, 1, None)],
    ]
    for number, batch in enumerate(batches):
        lines = [{"id": i, "at": at, "note": note, "gone": note is None} for i, at, note in batch]
        pipeline.feed(f"{number}.jsonl", lines)
        document(pipeline, table=True).run()
    assert rows(pipeline, "id", "note", "_sequence") == [(1, "b", 5), (3, "z", 6)]


@pytest.mark.in_turn
def test_columns_that_are_new_are_added(pipeline):
    """Pass: null in the rows of before; or the run does not start, as the document says; a column of another type never."""
    pipeline.feed("0.jsonl", [{"id": 1, "note": "x"}])
    document(pipeline, "id INT, note STRING").run()
    pipeline.feed("1.jsonl", [{"id": 2, "note": "y", "size": 7}])
    wider = "id INT, note STRING, size BIGINT"
    with pytest.raises((DocumentError, OptionError), match="the table has no column size"):
        document(pipeline, wider, on_new_column="fail").run()
    document(pipeline, wider).run()
    assert rows(pipeline, "id", "size") == [(1, None), (2, 7)]
    with pytest.raises((DocumentError, OptionError), match="column id is int32 in the table"):
        document(pipeline, "id STRING, note STRING").run()


@pytest.mark.in_turn
def test_small_files_become_larger_ones(pipeline):
    """Pass: by option after some batches, and by command; vacuum removes what no version has."""
    for number in range(5):
        pipeline.feed(f"{number}.jsonl", [{"id": number}])
    document(pipeline, "id INT", compact_every=4).run()
    assert len(lake(pipeline).file_uris()) == 2
    for command, told in (("compact", "2 files became 1"), ("vacuum", "files removed")):
        more = ["--hours", "0"] if command == "vacuum" else []
        ended = CliRunner().invoke(app, [command, str(pipeline.file), "lake", *more])
        assert told in ended.output, ended.output
    assert len(list((pipeline.folder / "lake").glob("*.parquet"))) == 1
    assert rows(pipeline, "id") == [(n,) for n in range(5)]


def test_rows_of_before_are_older_than_any_change(pipeline):
    """Pass: a table that was filled without a sequence is kept in step too."""
    import pyarrow as pa
    from deltalake import write_deltalake

    there = {"id": pa.array([1, 2], pa.int32()), "note": ["old", "old"]}
    write_deltalake(str(pipeline.folder / "lake"), pa.table(there))
    lines = [{"id": 1, "at": 5, "note": "new"}, {"id": 2, "at": 5, "gone": True}]
    pipeline.feed("0.jsonl", lines)
    document(pipeline, table=True).run()
    assert rows(pipeline, "id", "note", "_sequence") == [(1, "new", 5)]


def test_tables_that_demand_what_nobody_looks_at_are_told(pipeline):
    """Pass: a check, and a column that is never null."""
    import pyarrow as pa
    from deltalake import write_deltalake

    place = str(pipeline.folder / "lake")
    write_deltalake(place, pa.table({"id": pa.array([1], pa.int32())}))
    DeltaTable(place).alter.add_constraint({"positive": "id > 0"})
    pipeline.feed("0.jsonl", [{"id": -5}])
    with pytest.raises(
        (DocumentError, OptionError), match=r"the table demands positive \(id > 0\)"
    ):
        document(pipeline, "id INT").run()


@pytest.mark.parametrize(
    "values",
    [[datetime(2020, 1, 1)], [b"ab"], [0.5, float("nan")]],
    ids=["time", "bytes", "double"],
)
def test_a_table_whose_folders_are_no_texts_is_told(pipeline, values):
    """Pass: before anything is written: its log could not be read again, or rows would be in no folder."""
    import pyarrow as pa
    from deltalake import write_deltalake

    place = str(pipeline.folder / "lake")
    given = {"id": pa.array(range(len(values)), pa.int32()), "part": values}
    write_deltalake(place, pa.table(given), partition_by=["part"])
    pipeline.feed("0.jsonl", [{"id": 5}])
    with pytest.raises((DocumentError, OptionError), match="the table is partitioned by part"):
        document(pipeline, "id INT").run()
    assert DeltaTable(place).version() == 0


def test_times_that_python_has_not_are_held(tmp_path):
    """Pass: the log tells nothing of their columns, and they come back."""
    import pyarrow as pa

    days, at = [2_932_897, -719_163, 0], [300_000_000_000_000_000, 0, 1]
    table = pa.table(
        {"day": pa.array(days, pa.date32()), "at": pa.array(at, pa.timestamp("us", "UTC"))}
    )
    made, file = put(tmp_path, table)
    assert json.loads(statistics(file.footer))["minValues"] == {}
    made.append([file], LedgerBatch(0), once=True)
    found = DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert found.column("day").cast(pa.int32()).to_pylist() == days
    assert found.column("at").cast(pa.int64()).to_pylist() == at


@pytest.mark.in_turn
def test_a_day_that_python_has_not_is_no_folder(pipeline):
    """Pass: the row is refused by itself."""
    bad = pipeline.sink("bad", "lake.rejected")
    pipeline.feed("0.jsonl", [{"id": n} for n in range(2)])
    far = {"id": "id", "day": "date_add(DATE '9999-12-31', id)"}
    pipeline.document(
        sources={
            "rows": {
                "use": "files",
                "with": {"path": "./in", "format": "jsonlines", "schema": "id INT"},
            }
        },
        operators={"days": {"use": "select", "from": "rows", "with": {"columns": far}}},
        sinks={
            "lake": {
                "use": "delta",
                "from": "days",
                "with": {"path": "./lake", "partition_by": ["day"]},
            },
            "bad": bad,
        },
    )
    pipeline.run()
    assert rows(pipeline, "id") == [(0,)]
    (refused,) = pipeline.rows("bad")
    assert "is beyond the years 1 to 9999" in refused["reason"]


@pytest.mark.parametrize(
    ("configuration", "metadata", "told"),
    [
        ({"delta.columnMapping.mode": "name"}, {}, "delta.columnMapping.mode name"),
        ({}, {"delta.generationExpression": "id + 1"}, "day: id + 1"),
        ({}, {"delta.identity.start": 1}, "day: 1"),
        ({}, {}, None),
    ],
)
def test_what_writers_are_to_do_and_nobody_here_does_is_told(configuration, metadata, told):
    """Pass: columns by other names, and those that are computed; rows would be null there without a word."""
    table = Table.__new__(Table)
    field = SimpleNamespace(name="day", nullable=True, metadata=metadata)
    table.delta = SimpleNamespace(
        metadata=lambda: SimpleNamespace(configuration=configuration),
        schema=lambda: SimpleNamespace(fields=[field]),
    )
    demands = table.demands()
    assert demands == [] if told is None else told in demands[0]


def test_a_batch_that_changes_nothing_is_in_the_ledger_too(tmp_path):
    """Pass: a delete of a key that is not there makes no commit of the library's own, and one of ours."""
    import pyarrow as pa
    from mainstem_lake.testing import LedgerBatch

    made, _ = put(tmp_path / "t", pa.table({"id": [1], "_sequence": ["1"]}))
    changes = pa.table({"id": [7], "_sequence": ["2"], "__gone": [True]})
    before = made.version
    made.merge(changes, ["id"], LedgerBatch(), once=True, guarded=True)
    again = Table(DeltaOptions(path=str(tmp_path / "t")))
    assert again.version == before + 1
    assert any(again.known(entry) is not None for entry in made.entries(LedgerBatch(), once=True))


def put(folder, table):
    """Write rows into a table's folder, as a task does; return the table, and what the file is."""
    options = DeltaOptions(path=str(folder))
    made = Table(options)
    made.make(table.schema)
    (file,) = written(made.room(), options, made.schema, [], "t", table.to_batches())
    return made, file


def test_what_files_hold_is_told(tmp_path):
    """Pass: rows, nulls, least and greatest of plain columns; nothing of floats, and of long texts."""
    import pyarrow as pa

    table = pa.table(
        {
            "n": [3, None, 1],
            "t": ["b", "a", None],
            "long": ["x" * 99, "y", "z"],
            "f": [0.5, 1.0, 2.0],
        }
    )
    _, file = put(tmp_path, table)
    stats = json.loads(statistics(file.footer))
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"n": 1, "t": "a"}
    assert stats["maxValues"] == {"n": 3, "t": "b"}
    assert stats["nullCount"] == {"n": 1, "t": 1, "long": 0, "f": 0}


def test_of_two_runs_that_commit_at_once_one_does(tmp_path):
    """Pass: the second is told to look again, and then that the batch is in, or that it was replaced."""
    import pyarrow as pa
    from mainstem import FencedError, TransientError
    from mainstem.sinks import Step

    _, file = put(tmp_path, pa.table({"n": [1]}))
    options = DeltaOptions(path=str(tmp_path))
    one, two = Table(options), Table(options)
    files = [file]
    assert one.step(LedgerBatch(0)) is two.step(LedgerBatch(0)) is Step.WRITE
    one.append(files, LedgerBatch(0), once=True)
    with pytest.raises(TransientError, match=r"(?i)concurrent"):
        two.append(files, LedgerBatch(0), once=True)
    assert Table(options).step(LedgerBatch(0)) is Step.SKIP
    Table(options).append([], LedgerBatch(1, epoch=2), once=True)
    with pytest.raises(FencedError, match="run 2"):
        Table(options).step(LedgerBatch(1, epoch=1))
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 1


def test_secrets_of_the_storage_are_not_shown():
    """Pass: neither in errors nor in the options."""
    options = DeltaOptions(url="s3://bucket/t", storage={"AWS_SECRET_ACCESS_KEY": "hunter2"})
    assert "hunter2" not in repr(options)
    assert "hunter2" not in str(failure(options, OSError("denied for hunter2")))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": None}, "expected either path or url"),
        ({"url": "s3://b/t"}, "expected either path or url"),
        ({"partition_by": ["nothing"]}, "nothing"),
        ({"partition_by": ["size"]}, "can't be a folder's name"),
    ],
)
def test_wrong_documents_are_told(pipeline, options, told):
    """Pass: before anything runs."""
    with pytest.raises(DocumentError, match=told):
        document(pipeline, "id INT, size DOUBLE", **options).plan()
