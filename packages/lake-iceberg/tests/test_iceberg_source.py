"""The source `iceberg`: snapshots, changes of every kind, tables that change their columns or are made anew."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from iceberg_tables import catalog
from mainstem import PermanentError
from mainstem_lake.testing import LedgerBatch, changes_of, rows_of
from mainstem_lake_iceberg.files import arranged
from mainstem_lake_iceberg.options import IcebergOptions, IcebergSourceOptions
from mainstem_lake_iceberg.rows import difference
from mainstem_lake_iceberg.table import IcebergReceiver, Table
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import LongType, StringType

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
DAY = date(2026, 1, 2)


@pytest.fixture
def table(tmp_path):
    made = catalog(tmp_path)
    made.create_namespace("s")
    return made.create_table("s.t", SCHEMA)


def of(*rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def merge(folder, *changes):
    """Set or delete rows in one snapshot, as the sink does."""
    options = IcebergOptions.model_validate({"path": str(folder), "table": "s.t"})
    kinds = pa.schema([*SCHEMA, ("__gone", pa.bool_())])
    rows = [dict(zip(kinds.names, change, strict=True)) for change in changes]
    made = pa.Table.from_pylist(rows, kinds)
    Table(options).merge(made, ["id"], LedgerBatch(), once=False, guarded=False)


@contextmanager
def receiver(folder, cursor=None, **more):
    given = {
        "path": str(folder),
        "table": "s.t",
        "key": ["id"],
        "schema": "id BIGINT, name STRING, day DATE",
        "poll": "1 ms",
        **more,
    }
    made = IcebergReceiver(IcebergSourceOptions.model_validate(given), 0, "node")
    made.connect(cursor)
    yield made
    made.close()


def test_the_table_as_it_is_then_each_change(table, tmp_path):
    """Pass: inserts of the snapshot that is there; updates, deletes and inserts of later ones; nothing of compaction."""
    table.append(of((1, "a", DAY), (2, "b", None)))
    table.append(of((3, "c", DAY)))
    with receiver(tmp_path) as made:
        assert made.waiting() == 3
        assert sorted(changes_of(made)) == [
            ("insert", 1, "a", 2, "1"),
            ("insert", 2, "b", 2, "1"),
            ("insert", 3, "c", 2, "1"),
        ]
        assert made.caught_up()
        merge(tmp_path, (2, "B", None, False), (9, "n", None, False), (3, "c", DAY, False))
        options = IcebergOptions.model_validate({"path": str(tmp_path), "table": "s.t"})
        assert Table(options).compact()[1] == 1
        table.refresh()
        table.delete(EqualTo("id", 1))
        table.append(of((5, "e", DAY)))
        found = [change[:3] for change in changes_of(made)]
    assert sorted(found[:2]) == [("insert", 9, "n"), ("update_postimage", 2, "B")]
    assert found[2:] == [("delete", 1, "a"), ("insert", 5, "e")]


def test_rows_as_they_were_are_told_if_asked_for(table, tmp_path):
    """Pass: of an update; of an overwrite, which the library does in two snapshots, a deletion and an insertion."""
    table.append(of((1, "a", DAY), (2, "b", DAY)))
    for asked in (False, True):
        with receiver(tmp_path, preimages=asked, snapshot="never") as made:
            merge(tmp_path, (1, "x", DAY, False))
            found = changes_of(made)
            merge(tmp_path, (1, "a", DAY, False))
            changes_of(made)
            before = [("update_preimage", 1, "a")] if asked else []
            assert [change[:3] for change in found] == [*before, ("update_postimage", 1, "x")]
            table.refresh()
            table.overwrite(of((1, "A", DAY)))
            found = changes_of(made)
            table.overwrite(of((1, "a", DAY), (2, "b", DAY)))
        assert sorted(change[:3] for change in found[:2]) == [
            ("delete", 1, "a"),
            ("delete", 2, "b"),
        ]
        assert [change[:3] for change in found[2:]] == [("insert", 1, "A")]


def test_a_snapshot_goes_on_in_the_middle(table, tmp_path, monkeypatch):
    """Pass: from any cursor of it the rest comes, once, though the table is another one by now."""
    monkeypatch.setattr("mainstem_lake.receiver._ROWS", 7)
    for first in (0, 20, 40):
        table.append(of(*((n, str(n), DAY) for n in range(first, first + 20))))
    with receiver(tmp_path) as made:
        cursors, whole = [made.cursor()], []
        while json.loads(made.cursor())["given"] is not None:
            whole += [row["id"] for row in rows_of(made.take(0))]
            cursors.append(made.cursor())
    assert sorted(whole) == list(range(60))
    table.delete("id < 30")
    for cursor in cursors[:-1]:
        given = json.loads(cursor)["given"]
        with receiver(tmp_path, cursor) as made:
            found = changes_of(made)
        rest = [change[1] for change in found if change[0] == "insert"]
        assert rest == whole[given:]
        assert sorted(change[1] for change in found if change[0] == "delete") == list(range(30))


def test_columns_are_found_by_what_they_are(table, tmp_path):
    """Pass: one that is new is null before it was there; one that has another name now is read by that."""
    table.append(of((1, "a", DAY)))
    with table.update_schema() as update:
        update.add_column("more", LongType())
        update.rename_column("name", "title")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    schema = "id BIGINT, name STRING, title STRING, more BIGINT"
    with receiver(tmp_path, schema=schema) as made:
        (row,) = rows_of(made.take(0))
    assert (row["name"], row["title"], row["more"]) == (None, "a", None)


def test_a_table_without_any_snapshot_is_empty(table, tmp_path):
    """Pass: nothing, and then what comes."""
    with receiver(tmp_path) as made:
        assert changes_of(made) == []
        assert made.caught_up()
        table.append(of((1, "a", DAY)))
        assert changes_of(made) == [("insert", 1, "a", 1, "1")]


def test_what_can_not_be_read_is_told(table, tmp_path):
    """Pass: another table at the place, snapshots that have expired, files that are gone, a value that does not fit."""
    table.append(of((1, "a", DAY)))
    with receiver(tmp_path) as made:
        changes_of(made)
        cursor = made.cursor()
    with (
        pytest.raises(PermanentError, match="made anew"),
        receiver(tmp_path, json.dumps(json.loads(cursor) | {"table": "x"})),
    ):
        pass
    table.append(of((2, "b", DAY)))
    with (
        receiver(tmp_path, schema="id BIGINT, name BIGINT") as made,
        pytest.raises(PermanentError, match="name is no BIGINT"),
    ):
        changes_of(made)
    for file in (tmp_path / "s").rglob("*.parquet"):
        file.unlink()
    with receiver(tmp_path) as made, pytest.raises(PermanentError, match="are gone"):
        changes_of(made)
    with receiver(tmp_path, cursor) as made, pytest.raises(PermanentError, match="are gone"):
        changes_of(made)
    table.overwrite(of((3, "c", DAY)))
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    with receiver(tmp_path, cursor) as made, pytest.raises(PermanentError, match="has expired"):
        changes_of(made)


def test_rows_that_were_deleted_beside_their_files_are_an_error(table, tmp_path, monkeypatch):
    """Pass: of the table as it is, and among changes: neither is read as if nothing had been deleted.

    The library writes no such tables, so what it would find in one is put before it.
    """
    table.append(of((1, "a", DAY)))
    with receiver(tmp_path) as made:
        changes_of(made)
        cursor = made.cursor()
        table.append(of((2, "b", DAY)))
    with monkeypatch.context() as patch:
        plan = DataScan.plan_files

        def planned(scan):
            return [FileScanTask(each.file, {each.file}) for each in plan(scan)]

        patch.setattr(DataScan, "plan_files", planned)
        with receiver(tmp_path) as made, pytest.raises(PermanentError, match="merge on read"):
            changes_of(made)
    found = Snapshot.manifests

    def manifests(snapshot, io):
        return [SimpleNamespace(content=ManifestContent.DELETES), *found(snapshot, io)]

    monkeypatch.setattr(Snapshot, "manifests", manifests)
    with receiver(tmp_path, cursor) as made, pytest.raises(PermanentError, match="merge on read"):
        changes_of(made)


def test_values_are_arranged_as_the_table_has_them_now():
    """Pass: by ids, at any depth, in another order and with more fields; nulls stay nulls, and are no empty ones."""

    def field(name, kind, number):
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    def kinds(inner):
        part = pa.struct(inner)
        entry = pa.map_(pa.field("key", pa.string(), False), field("value", part, 5))
        return [
            field("l", pa.list_(field("element", part, 3)), 1),
            field("m", entry, 2),
            field("s", part, 9),
        ]

    old = kinds([field("a", pa.int32(), 6), field("b", pa.string(), 7)])
    new = kinds([field("c", pa.string(), 7), field("n", pa.int64(), 8), field("a", pa.int64(), 6)])
    one, other = {"a": 1, "b": "x"}, {"c": "x", "n": None, "a": 1}
    for at, there, now in (
        (0, [[one, None], None, []], [[other, None], None, []]),
        (1, [[("k", one)], None, []], [[("k", other)], None, []]),
        (2, [one, None], [other, None]),
    ):
        found = arranged(pa.array(there, old[at].type), new[at])
        assert found.type == new[at].type
        assert found.to_pylist() == now


def test_a_row_is_the_same_whose_number_is_none():
    """Pass: what is written again without a change is no change: also NaN, in a column and within one."""
    nan = float("nan")
    for number in (nan, -nan):
        one = pa.table({"k": [1], "d": [number], "l": [[1.0]]})
        assert difference(one, one, ["k"]).num_rows == 0
    two = pa.table({"k": [1], "d": [1.0], "l": [[1.0]]})
    assert difference(one, two, ["k"]).num_rows == 2


ROWS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.none() | st.sampled_from("ab")),
    st.tuples(
        st.none() | st.integers(0, 1),
        st.none() | st.lists(st.none() | st.integers(0, 1), max_size=1),
    ),
)


@settings(max_examples=200, deadline=None)
@given(before=ROWS, after=ROWS)
def test_the_difference_of_rows_is_that_of_a_plain_comparison(before, after):
    """Pass: for keys of two columns with nulls, and values with nulls and lists."""
    kinds = pa.schema(
        [("a", pa.int64()), ("b", pa.string()), ("n", pa.int64()), ("l", pa.list_(pa.int64()))]
    )

    def table(rows):
        made = [dict(zip(kinds.names, (*k, *v), strict=True)) for k, v in rows.items()]
        return pa.Table.from_pylist(made, kinds)

    found = difference(table(before), table(after), ["a", "b"]).to_pylist()
    told = {(r["_change_type"], r["a"], r["b"], r["n"], str(r["l"])) for r in found}
    assert len(told) == len(found)
    expected = set()
    for key in {*before, *after}:
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        if was is not None:
            kind = "delete" if now is None else "update_preimage"
            expected.add((kind, *key, was[0], str(was[1])))
        if now is not None:
            kind = "insert" if was is None else "update_postimage"
            expected.add((kind, *key, now[0], str(now[1])))
    assert told == expected


def test_a_table_that_changes_while_it_is_read_ends_the_run(table, tmp_path):
    """Pass: one that loses the name of a column; one that is made anew, with more versions than were read."""
    table.append(of((1, "a", DAY)))
    with receiver(tmp_path) as made:
        changes_of(made)
        with table.update_schema() as update:
            update.rename_column("name", "title")
        table.append(of((2, "b", DAY)).rename_columns(["id", "title", "day"]))
        with pytest.raises(PermanentError, match="has no column name"):
            made.take(0.01)
    with receiver(tmp_path, schema="id BIGINT, day DATE") as made:
        list(made.take(0.01))
        lake = catalog(tmp_path)
        lake.drop_table("s.t")
        again = lake.create_table("s.t", SCHEMA)
        for number in range(4):
            again.append(of((number, "c", DAY)))
        with pytest.raises(PermanentError, match="made anew"):
            made.take(0.01)
