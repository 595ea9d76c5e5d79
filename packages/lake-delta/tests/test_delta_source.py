"""The source `delta`: snapshots, changes of every kind, tables that change their columns or are made anew."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from mainstem import PermanentError
from mainstem_lake.testing import changes_of, rows_of
from mainstem_lake_delta.options import DeltaSourceOptions
from mainstem_lake_delta.table import DeltaReceiver, Table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
DAY = date(2026, 1, 2)
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def table(tmp_path):
    path = str(tmp_path / "table")
    DeltaTable.create(path, schema=SCHEMA, partition_by=["day"], configuration=FEED)
    return path


def add(path, *rows, mode="append"):
    made = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    write_deltalake(path, made, mode=mode)


def merge(path, changes):
    (
        DeltaTable(path)
        .merge(pa.table(changes), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_delete("s.gone")
        .when_matched_update({"name": "s.name"}, "NOT s.gone")
        .when_not_matched_insert({"id": "s.id", "name": "s.name"}, "NOT s.gone")
        .execute()
    )


@contextmanager
def receiver(path, cursor=None, **more):
    given = {
        "path": path,
        "key": ["id"],
        "schema": "id BIGINT, name STRING, day DATE",
        "poll": "1 ms",
        **more,
    }
    made = DeltaReceiver(DeltaSourceOptions.model_validate(given), 0, "node")
    made.connect(cursor)
    yield made
    made.close()


def test_the_table_as_it_is_then_each_change(table):
    """Pass: inserts of the version that is there; updates, deletes and inserts of later ones, in order."""
    add(table, (1, "a", DAY), (2, "b", None))
    add(table, (3, "c", DAY))
    with receiver(table) as made:
        assert made.waiting() == 3
        assert sorted(changes_of(made)) == [
            ("insert", 1, "a", 2, "1"),
            ("insert", 2, "b", 2, "1"),
            ("insert", 3, "c", 2, "1"),
        ]
        assert made.caught_up()
        merge(table, {"id": [2, 9, 1], "name": ["B", "n", ""], "gone": [False, False, True]})
        DeltaTable(table).optimize.compact()
        add(table, (5, "e", DAY))
        found = changes_of(made)
    assert found[0] == ("delete", 1, "a", 3, "0")
    assert sorted(found[1:3]) == [("insert", 9, "n", 3, "1"), ("update_postimage", 2, "B", 3, "1")]
    assert [change[:3] for change in found[3:]] == [("insert", 5, "e")]


def test_a_row_that_is_replaced_in_one_version_goes_before_it_comes(table):
    add(table, (1, "a", DAY), (2, "b", DAY))
    with receiver(table, snapshot="never") as made:
        add(table, (1, "A", DAY), mode="overwrite")
        found = changes_of(made)
    assert sorted(found[:2]) == [("delete", 1, "a", 2, "0"), ("delete", 2, "b", 2, "0")]
    assert found[2:] == [("insert", 1, "A", 2, "1")]


def test_an_update_that_gives_a_row_another_key_is_one_row_less_and_one_more(table):
    """Pass: the old key is deleted, also where others are updated beside it."""
    add(table, (1, "a", DAY), (2, "b", DAY))
    with receiver(table, snapshot="never") as made:
        DeltaTable(table).update(updates={"id": "id * 9", "name": "'x'"}, predicate="id = 1")
        DeltaTable(table).update(updates={"name": "'y'"}, predicate="id = 2")
        found = changes_of(made)
    assert found[:2] == [("delete", 1, "a", 2, "0"), ("insert", 9, "x", 2, "1")]
    assert [change[:3] for change in found[2:]] == [("update_postimage", 2, "y")]


def test_changes_of_partitions_that_the_library_does_not_find_are_told(tmp_path):
    """Pass: with what it is; the rows of a snapshot of them are read."""
    path = str(tmp_path / "table")
    DeltaTable.create(path, schema=SCHEMA, partition_by=["name"], configuration=FEED)
    add(path, (1, "New York", DAY))
    with receiver(path) as made:
        assert changes_of(made)[0][:3] == ("insert", 1, "New York")
        add(path, (2, "New York", DAY))
        with pytest.raises(PermanentError, match="other signs than letters and digits"):
            changes_of(made)


def test_a_table_whose_files_have_other_names_is_not_read(table, monkeypatch):
    """Pass: with column mapping all would be null."""
    monkeypatch.setattr(Table, "_mapped", lambda _: ["delta.columnMapping.mode name"])
    with pytest.raises(PermanentError, match="columns of other names"), receiver(table):
        pass


def test_values_of_other_types_are_not_read_as_if_they_were_of_these(tmp_path):
    """Pass: no text becomes a number, and none is rounded; what is wider holds what is narrower."""
    path = str(tmp_path / "table")
    DeltaTable.create(path, schema=SCHEMA, configuration=FEED)
    add(path, (1, "007", DAY))
    for schema, told in (
        ("id BIGINT, name BIGINT", "name is no BIGINT"),
        ("id INT, name STRING", "id is no INT"),
    ):
        with receiver(path, schema=schema) as made, pytest.raises(PermanentError, match=told):
            changes_of(made)
    with receiver(path, schema="id DECIMAL(20,0), name STRING, day DATE") as made:
        assert changes_of(made)[0][:3] == ("insert", 1, "007")


def test_rows_as_they_were_are_told_if_asked_for(table):
    add(table, (1, "a", DAY))
    for asked in (False, True):
        with receiver(table, preimages=asked, snapshot="never") as made:
            merge(table, {"id": [1], "name": ["x"], "gone": [False]})
            kinds = [change[0] for change in changes_of(made)]
        assert kinds == (["update_preimage"] if asked else []) + ["update_postimage"]


def test_a_snapshot_goes_on_in_the_middle(table, monkeypatch):
    """Pass: from any cursor of it the rest comes, once, though the table is another one by now."""
    monkeypatch.setattr("mainstem_lake.receiver._ROWS", 7)
    for first in (0, 20, 40):
        add(table, *((n, str(n), DAY if n % 3 else None) for n in range(first, first + 20)))
    with receiver(table) as made:
        cursors, whole = [made.cursor()], []
        while json.loads(made.cursor())["given"] is not None:
            whole += [row["id"] for row in rows_of(made.take(0))]
            cursors.append(made.cursor())
    assert sorted(whole) == list(range(60))
    DeltaTable(table).delete("id < 30")
    for cursor in cursors[:-1]:
        given = json.loads(cursor)["given"]
        with receiver(table, cursor) as made:
            found = changes_of(made)
        rest = [change[1] for change in found if change[0] == "insert"]
        assert rest == whole[given:]
        assert sorted(change[1] for change in found if change[0] == "delete") == list(range(30))


def test_a_column_that_is_new_is_null_before_it_was_there(table):
    add(table, (1, "a", DAY))
    with receiver(table) as made:
        cursor, _ = made.cursor(), changes_of(made)
    add(table, (2, "b", DAY))
    DeltaTable(table).alter.add_columns([Field("more", PrimitiveType("integer"))])
    with receiver(table, cursor, schema="id BIGINT, name STRING, more INT") as made:
        assert [change[:2] for change in changes_of(made)] == [("insert", 1), ("insert", 2)]


def test_what_can_not_be_read_is_told(table, tmp_path):
    """Pass: another table at the place, versions whose files are gone, a value that does not fit."""
    add(table, (1, "a", DAY))
    with receiver(table) as made:
        changes_of(made)
        cursor = made.cursor()
    with (
        pytest.raises(PermanentError, match="made anew"),
        receiver(table, json.dumps(json.loads(cursor) | {"table": "x"})),
    ):
        pass
    add(table, (2, "b", DAY))
    add(table, (3, "c", DAY), mode="overwrite")
    with (
        receiver(table, schema="id BIGINT, name BIGINT") as made,
        pytest.raises(PermanentError, match="name is no BIGINT"),
    ):
        changes_of(made)
    for file in (tmp_path / "table").rglob("*.parquet"):
        file.unlink()
    with receiver(table, cursor) as made, pytest.raises(PermanentError):
        changes_of(made)
    with receiver(table) as made, pytest.raises(PermanentError, match="are gone"):
        changes_of(made)


def test_a_table_that_changes_while_it_is_read_ends_the_run(table):
    """Pass: one that is made anew, with more versions than were read; one that loses a column."""
    add(table, (1, "a", DAY))
    with receiver(table) as made:
        changes_of(made)
        write_deltalake(
            table, pa.table({"id": [2], "day": [DAY]}), mode="overwrite", schema_mode="overwrite"
        )
        with pytest.raises(PermanentError, match="has no column name"):
            made.take(0.01)
    with receiver(table, schema="id BIGINT, day DATE") as made:
        list(made.take(0.01))
        shutil.rmtree(table)
        DeltaTable.create(table, schema=SCHEMA, configuration=FEED)
        for number in range(4):
            add(table, (number, "c", DAY))
        with pytest.raises(PermanentError, match="made anew"):
            made.take(0.01)
