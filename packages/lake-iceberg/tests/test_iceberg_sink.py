"""What becomes of rows in Iceberg tables, and what others read of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from iceberg_tables import catalog, held
from mainstem import DocumentError, FencedError, OptionError, PermanentError, TransientError
from mainstem.sinks import Step
from mainstem_lake.files import written
from mainstem_lake.testing import LedgerBatch
from mainstem_lake_iceberg.commands import app
from mainstem_lake_iceberg.options import IcebergOptions
from mainstem_lake_iceberg.table import Table, failure
from pyiceberg.transforms import BucketTransform
from typer.testing import CliRunner

SCHEMA = "id INT, day DATE, note STRING, at BIGINT, gone BOOLEAN"


def document(pipeline, schema=SCHEMA, keyed=False, key=("id",), more=(), **options):
    """Write a document of rows into a table, a batch for each file."""
    lines = {"path": "./in", "format": "jsonlines", "schema": schema, "max_files": 1}
    changes = {"key": [*key], "sequence": "at", "delete": "gone"}
    operators = {"changes": {"use": "changelog", "from": "rows", "with": changes}} if keyed else {}
    sink = {"use": "iceberg", "from": "changes" if keyed else "rows"}
    given = {"path": "./lake", "table": "shop.orders", **options}
    return pipeline.document(
        sources={"rows": {"use": "files", "with": lines}},
        operators=operators,
        sinks={"lake": {**sink, "with": given}, **dict(more)},
    )


def lake(pipeline):
    return catalog(pipeline.folder / "lake").load_table("shop.orders")


def rows(pipeline, *names):
    found = held(lake(pipeline)).to_pylist()
    return sorted((tuple(row[name] for name in names) for row in found), key=repr)


ODD = ["a/b", "x=y z", "50%", "é", "", None]


@pytest.mark.in_turn
def test_parts_are_told_by_any_text_and_date(pipeline):
    """Pass: values come back as they were, in another library too, which leaves out files by them."""
    import polars as pl

    schema = "id INT, day STRING, date DATE"
    lines = [{"id": n, "day": day, "date": f"2026-01-0{n + 1}"} for n, day in enumerate(ODD)]
    pipeline.feed("0.jsonl", lines)
    document(pipeline, schema, partition_by=["day", "date"]).run()
    expected = sorted(((n, d) for n, d in enumerate(ODD)), key=repr)
    assert rows(pipeline, "id", "day") == expected
    seen = pl.scan_iceberg(lake(pipeline)).select("id", "day").collect().rows()
    assert sorted(seen, key=repr) == expected
    for n, day in enumerate(ODD[:5]):
        scan = lake(pipeline).scan(row_filter=f"day = '{day}' AND date = '2026-01-0{n + 1}'")
        assert len([*scan.plan_files()]) == 1
        assert scan.to_arrow().column("id").to_pylist() == [n]


@pytest.mark.in_turn
@pytest.mark.parametrize("parted", [[], ["day"]])
def test_a_table_is_kept_in_step(pipeline, parted):
    """Pass: of a batch the newest change of each key, older ones of later batches have no effect, deletions delete."""
    batches = [
        [(1, 5, "b"), (1, 4, "a"), (2, 5, "x"), (3, 5, "y"), (7, 5, "stays")],
        [(1, 3, "older"), (2, 6, None), (3, 6, "z"), (4, 1, None)],
    ]
    for number, batch in enumerate(batches):
        lines = [
            {"id": i, "at": at, "note": note, "gone": note is None, "day": f"2026-01-0{i}"}
            for i, at, note in batch
        ]
        pipeline.feed(f"{number}.jsonl", lines)
        document(pipeline, keyed=True, partition_by=parted).run()
    expected = [(1, "b", 5), (3, "z", 6), (7, "stays", 5)]
    assert rows(pipeline, "id", "note", "_sequence") == expected


def test_rows_are_told_apart_by_several_columns(pipeline):
    """Pass: only the row whose columns are all the same is set."""
    lines = [
        {"id": i, "day": f"2026-01-0{d}", "at": 1, "note": "old"} for i in (1, 2) for d in (1, 2)
    ]
    pipeline.feed("0.jsonl", lines)
    pipeline.feed("1.jsonl", [{"id": 1, "day": "2026-01-02", "at": 2, "note": "new"}])
    document(pipeline, keyed=True, key=["id", "day"]).run()
    found = [(i, str(d), note) for i, d, note in rows(pipeline, "id", "day", "note")]
    assert found == [
        (1, "2026-01-01", "old"),
        (1, "2026-01-02", "new"),
        (2, "2026-01-01", "old"),
        (2, "2026-01-02", "old"),
    ]


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
    """Pass: by option after some batches, and by command; snapshots expire."""
    for number in range(5):
        pipeline.feed(f"{number}.jsonl", [{"id": number}])
    document(pipeline, "id INT", compact_every=4).run()
    assert len([*lake(pipeline).scan().plan_files()]) == 2
    for command, told in (("compact", "2 files became 1"), ("expire", "6 snapshots expired")):
        more = ["--hours", "0"] if command == "expire" else []
        ended = CliRunner().invoke(app, [command, str(pipeline.file), "lake", *more])
        assert told in ended.output, ended.output
    assert rows(pipeline, "id") == [(n,) for n in range(5)]


def test_files_are_brought_together_so_many_rows_at_a_time(tmp_path, monkeypatch):
    """Pass: no more rows are read at once than a file may have, and none is lost."""
    schema = pa.schema([("id", pa.int64())])
    table = Table(options(tmp_path, file_rows=10))
    table.make(schema)
    for number in range(7):
        put(table, pa.table({"id": range(4 * number, 4 * number + 4)}), number)
    seen, read = [], Table._read
    monkeypatch.setattr(
        Table,
        "_read",
        lambda self, tasks: (found := read(self, tasks), seen.append(found.num_rows))[0],
    )
    assert table.compact() == (6, 3)
    assert seen == [8, 8, 8]
    assert sorted(row["id"] for row in table.open.scan().to_arrow().to_pylist()) == list(range(28))


def test_a_key_can_be_of_any_number_of_rows_and_values(tmp_path):
    """Pass: a change of more keys than are looked for one by one; nulls, and lists that are null, stay so."""
    kind = pa.list_(pa.struct([("a", pa.int32())]))
    schema = pa.schema([("id", pa.int64()), ("x", kind), ("_sequence", pa.int64())])
    table = Table(options(tmp_path))
    table.make(schema)
    there = pa.table(
        {"id": [*range(1000)], "x": pa.array([None, []] * 500, kind), "_sequence": [1] * 1000},
        schema=schema,
    )
    put(table, there, 0)
    changes = pa.table(
        {
            "id": [*range(600)],
            "x": pa.array([[{"a": 1}]] * 600, kind),
            "_sequence": [0, 2] * 300,
            "__gone": [False, False, True, True] * 150,
        }
    ).cast(pa.schema([*schema, ("__gone", pa.bool_())]))
    Table(options(tmp_path)).merge(changes, ["id"], LedgerBatch(1), once=True, guarded=True)
    found = {row["id"]: row["x"] for row in held(catalog(tmp_path).load_table("s.t")).to_pylist()}
    expected = {n: [] if n % 2 else None for n in range(1000)}
    for n in range(1, 600, 4):
        expected[n] = [{"a": 1}]
        del expected[n + 2]
    assert found == expected


def merged(folder, *rows, **columns):
    """Set or delete rows of a table by `id`."""
    kinds = pa.schema([*columns.items(), ("__gone", pa.bool_())])
    changes = pa.Table.from_pylist(
        [dict(zip(kinds.names, row, strict=True)) for row in rows], kinds
    )
    Table(options(folder)).merge(changes, ["id"], LedgerBatch(1), once=False, guarded=False)


def made(folder, rows):
    """Make a table of rows."""
    table = Table(options(folder))
    table.make(rows.schema)
    put(table, rows, 0)


def test_what_a_change_does_not_tell_stays(tmp_path):
    """Pass: columns that others fill keep their values; a new row has none."""
    made(tmp_path, pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"], "mine": ["x", "y", "z"]}))
    changes = [(3, "C", False), (4, "d", False), (1, None, True)]
    merged(tmp_path, *changes, id=pa.int64(), v=pa.string())
    found = sorted(map(tuple, (r.values() for r in rows_of(tmp_path))))
    assert found == [(2, "b", "y"), (3, "C", "z"), (4, "d", None)]


def rows_of(folder):
    return held(catalog(folder).load_table("s.t")).to_pylist()


@pytest.mark.parametrize("count", [0, 300])
def test_keys_may_be_fractions(tmp_path, count):
    """Pass: of two noughts there is one, and a key that is no number is one too, among few keys and many."""
    nan = float("nan")
    made(tmp_path, pa.table({"id": [0.0, 1.5, nan], "v": ["a", "b", "c"]}))
    more = [(float(n), "m", False) for n in range(1, count)]
    changes = [(-0.0, "A", False), (nan, "C", False), *more]
    merged(tmp_path, *changes, id=pa.float64(), v=pa.string())
    found = {str(abs(row["id"])): row["v"] for row in rows_of(tmp_path) if row["v"] != "m"}
    assert found == {"0.0": "A", "1.5": "b", "nan": "C"}


def test_files_that_were_added_as_they_are_are_told(tmp_path):
    """Pass: their columns have no ids, by which they could be found; appending goes on."""
    rows = pa.table({"id": [1], "v": ["a"]})
    Table(options(tmp_path)).make(rows.schema)
    pa.parquet.write_table(rows, tmp_path / "other.parquet")
    catalog(tmp_path).load_table("s.t").add_files([f"file://{tmp_path}/other.parquet"])
    put(Table(options(tmp_path)), rows, 0)
    with pytest.raises(PermanentError, match="have no ids"):
        merged(tmp_path, (1, "b", False), id=pa.int64(), v=pa.string())


def test_a_text_that_is_the_folder_of_nulls_is_a_text(tmp_path):
    """Pass: it and null are in two files, and found by what they are."""
    text = "__HIVE_DEFAULT_PARTITION__"
    table = Table(options(tmp_path, partition_by=["day"]))
    rows = pa.table({"id": [1, 2], "day": [text, None]})
    table.make(rows.schema)
    batches, given = rows.to_batches(), options(tmp_path)
    table.append(
        written(table.room(), given, table.schema, ["day"], "t", batches), LedgerBatch(0), once=True
    )
    there = catalog(tmp_path).load_table("s.t")
    assert there.scan(row_filter=f"day = '{text}'").to_arrow().column("id").to_pylist() == [1]
    assert there.scan(row_filter="day IS NULL").to_arrow().column("id").to_pylist() == [2]


def test_times_that_python_has_not_are_held(tmp_path):
    """Pass: manifests tell nothing of them, and they come back."""
    days, at = [2_932_897, -719_163, 0], [300_000_000_000_000_000, 0, 1]
    given = {
        "id": [1, 2, 3],
        "day": pa.array(days, pa.date32()),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
    }
    made(tmp_path, pa.table(given))
    there = catalog(tmp_path).load_table("s.t")
    (task,) = there.scan().plan_files()
    assert [*task.file.lower_bounds] == [1]
    found = held(there)
    assert found.column("day").cast(pa.int32()).to_pylist() == days
    assert found.column("at").cast(pa.int64()).to_pylist() == at


def test_a_column_that_is_written_otherwise_is_told(pipeline):
    """Pass: it is not added beside the one that is there."""
    made(pipeline.folder / "lake", pa.table({"ID": pa.array([1], pa.int32())}))
    pipeline.feed("0.jsonl", [{"id": 5}])
    with pytest.raises((DocumentError, OptionError), match="column id is written ID in the table"):
        document(pipeline, "id INT", table="s.t").run()


def test_a_table_that_is_made_anew_at_its_place_is_the_new_one(tmp_path):
    """Pass: also in a process that has known the old one; a source makes no folder."""
    import shutil

    nowhere = tmp_path / "nowhere"
    assert not Table(options(nowhere)).there
    assert not nowhere.exists()
    made(tmp_path / "lake", pa.table({"id": [1]}))
    shutil.rmtree(tmp_path / "lake")
    made(tmp_path / "lake", pa.table({"id": [2]}))
    assert rows_of(tmp_path / "lake") == [{"id": 2}]


def test_catalogs_are_told_apart_by_name(tmp_path):
    """Pass: a table of one is none of another's in the same database."""
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}",
    }
    one, other = (
        IcebergOptions.model_validate({"table": "s.t", "catalog": {**settings, "name": name}})
        for name in ("one", "other")
    )
    Table(one).make(pa.schema([("id", pa.int64())]))
    assert Table(one).there
    assert not Table(other).there


@pytest.mark.parametrize(
    ("catalog", "kind", "told"),
    [
        ({"type": "nothing"}, PermanentError, "nothing"),
        ({"type": "sql", "uri": "what is this"}, PermanentError, "s.t: "),
        ({"type": "sql", "uri": "sqlite:////nowhere/at/all.db"}, TransientError, "s.t: "),
        ({"type": "rest", "uri": "http://127.0.0.1:9"}, TransientError, "s.t: "),
    ],
)
def test_errors_of_catalogs_are_told(catalog, kind, told):
    """Pass: what may pass is tried again, and nothing else is."""
    given = IcebergOptions.model_validate({"table": "s.t", "catalog": catalog})
    with pytest.raises(kind, match=told):
        Table(given)


def options(folder, **more):
    return IcebergOptions.model_validate({"path": str(folder), "table": "s.t", **more})


def put(table, rows, number, epoch=1):
    files = written(table.room(), table._options, table.schema, [], "t", rows.to_batches())
    table.append(files, LedgerBatch(number, epoch), once=True)


def test_of_two_runs_that_commit_at_once_one_does(tmp_path):
    """Pass: the second is told to look again, and then that the batch is in, or that it was replaced."""
    given, one_row = options(tmp_path), pa.table({"n": [1]})
    Table(given).make(one_row.schema)
    one, two, empty = Table(given), Table(given), Table(given)
    assert one.step(LedgerBatch(0)) is two.step(LedgerBatch(0)) is Step.WRITE
    put(one, one_row, 0)
    for other in (two, empty):
        with pytest.raises(TransientError, match=r"(?i)branch main"):
            put(other, one_row if other is two else one_row.slice(1), 0)
    assert Table(given).step(LedgerBatch(0)) is Step.SKIP
    put(Table(given), one_row.slice(1), 1, epoch=2)
    with pytest.raises(FencedError, match="run 2"):
        Table(given).step(LedgerBatch(1, epoch=1))
    assert held(catalog(tmp_path).load_table("s.t")).num_rows == 1


def test_tables_that_demand_what_nobody_looks_at_are_told(tmp_path, pipeline):
    """Pass: columns that are never null, and parts by what is no plain column."""
    made = catalog(pipeline.folder / "lake")
    made.create_namespace("shop")
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    table = made.create_table("shop.orders", schema)
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(4))
    pipeline.feed("0.jsonl", [{"id": 5}])
    with pytest.raises((DocumentError, OptionError), match="the table demands id IS NOT NULL"):
        document(pipeline, "id INT").run()
    given = {"path": str(pipeline.folder / "lake"), "table": "shop.orders"}
    told = Table(IcebergOptions.model_validate(given)).demands()
    assert "the transform bucket[4] of id_bucket_4" in told


def test_secrets_of_the_catalog_are_not_shown():
    """Pass: neither in errors nor in the options."""
    given = {"type": "sql", "uri": "postgresql://u:hunter2@db/x"}
    options = IcebergOptions.model_validate({"table": "s.t", "catalog": given})
    assert "hunter2" not in repr(options)
    assert "hunter2" not in str(failure(options, OSError(f"no {given['uri']}")))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"path": None}, "expected either path or catalog"),
        ({"catalog": {"type": "rest"}}, "expected either path or catalog"),
        ({"table": "orders"}, "with.table"),
        ({"partition_by": ["nothing"]}, "nothing"),
        ({"partition_by": ["ID"]}, "Write id."),
        ({"path": "./a#b"}, "is no address"),
        ({"partition_by": ["size"]}, "can't be a folder's name"),
    ],
)
def test_wrong_documents_are_told(pipeline, options, told):
    """Pass: before anything runs."""
    with pytest.raises(DocumentError, match=told):
        document(pipeline, "id INT, size DOUBLE", **options).plan()
