"""Files of rows, and what fits into a table."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mainstem.columns import arrow_type, read_columns
from mainstem_lake.files import write_files, written
from mainstem_lake.options import LakeOptions
from mainstem_lake.receiver import _behind
from mainstem_lake.table import Room, actual, fitted
from mainstem_lake.table import fits as types_fit


class Folder(Room):
    """A folder of a test's own."""

    def __init__(self, path):
        self.path = path
        self.kept = []

    def open(self, path):
        (self.path / path).parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(self.path / path), "wb")

    def keep(self, path):
        assert pq.read_metadata(self.path / path).num_rows
        self.kept.append(path)


class Whole(Folder):
    parts_in_files = True


ROWS = pa.table(
    {
        "n": [1, 2, 3, 4, None],
        "day": [date(2026, 1, 2), None, date(2026, 1, 2), date(2026, 1, 3), None],
        "at": ["a/b", "", "a/b", None, ""],
    }
)
PLACES = {
    "day=2026-01-02/at=a%2Fb": [1, 3],
    "day=__HIVE_DEFAULT_PARTITION__/at=": [2, None],
    "day=2026-01-03/at=__HIVE_DEFAULT_PARTITION__": [4],
}


@pytest.mark.parametrize("room", [Folder, Whole])
def test_rows_are_parted_into_folders_by_their_values(tmp_path, room):
    """Pass: nulls and empty texts too, in batches of any size; files have these columns or not, as the table wants."""
    place = room(tmp_path)
    found = written(place, LakeOptions(), ROWS.schema, ["day", "at"], "x", ROWS.to_batches(2))
    assert place.kept == [file.path for file in found]
    names = ["n", "day", "at"] if room is Whole else ["n"]
    seen = {}
    for file in found:
        rows = pq.ParquetFile(tmp_path / file.path).read()
        assert rows.column_names == names
        assert file.size == (tmp_path / file.path).stat().st_size
        assert pq.read_metadata(pa.BufferReader(file.footer)).num_rows == rows.num_rows
        seen[file.path.rpartition("/")[0]] = rows.column("n").to_pylist()
    assert seen == PLACES
    assert {"day": "2026-01-02", "at": "a/b"} in [file.partition for file in found]
    assert {"day": None, "at": ""} in [file.partition for file in found]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_file_has_so_many_rows_at_most(tmp_path, size):
    """Pass: however large its batches are; what a task tells of them is what they are."""
    options = LakeOptions(file_rows=2)
    rows = pa.table({"n": [*range(5)]})
    schema = rows.schema.serialize().to_pybytes()
    told = write_files(Folder(tmp_path), options, schema, [], "x", rows.to_batches(size))
    (batch,) = told
    counts = []
    for each in batch.to_pylist():
        assert json.loads(each["partition"]) == {}
        counts.append(pq.read_metadata(tmp_path / each["path"]).num_rows)
    assert counts == [2, 2, 1]
    assert [*write_files(Folder(tmp_path), options, schema, [], "x", [])] == []


def test_a_partition_of_a_long_value_has_a_folder_too(tmp_path):
    """Pass: one for each value, whose name no file system refuses; the value itself is told beside."""
    rows = pa.table({"n": [1, 2, 3], "at": ["é" * 90, "é" * 91, "é" * 90]})
    found = written(Folder(tmp_path), LakeOptions(), rows.schema, ["at"], "x", rows.to_batches())
    assert sorted(len(f.partition["at"]) for f in found) == [90, 91]
    folders = [file.path.rpartition("/")[0] for file in found]
    assert len(set(folders)) == 2
    assert all(len(folder) < 255 for folder in folders)


@pytest.mark.parametrize(
    ("given", "there", "fits"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("STRUCT<a: INT>", "STRUCT<a: INT, b: INT>", True),
        ("STRUCT<a: INT, b: INT>", "STRUCT<a: INT>", False),
        ("ARRAY<STRUCT<a: INT>>", "ARRAY<STRUCT<a: STRING>>", False),
        ("ARRAY<INT>", "STRUCT<a: INT>", False),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", True),
        ("TIMESTAMP", "TIMESTAMP_NTZ", False),
        ("STRING", "BIGINT", False),
        ("BIGINT", "STRING", False),
        ("BIGINT", "BOOLEAN", False),
        ("BIGINT", "TIMESTAMP", False),
        ("DOUBLE", "FLOAT", False),
        ("DECIMAL(19,2)", "DOUBLE", False),
        ("DECIMAL(10,2)", "DECIMAL(12,2)", True),
        ("DECIMAL(10,2)", "DECIMAL(12,5)", False),
        ("INT", "DECIMAL(12,2)", True),
        ("INT", "DECIMAL(11,2)", False),
        ("BIGINT", "DOUBLE", False),
        ("INT", "DOUBLE", True),
        ("INT", "FLOAT", False),
        ("SMALLINT", "FLOAT", True),
        ("DATE", "TIMESTAMP", True),
        ("DATE", "STRING", True),
        ("TIMESTAMP", "DATE", False),
    ],
)
def test_types_that_hold_all_values_fit(given, there, fits):
    """Pass: within structs, lists and maps too; no field of a struct is left out."""
    one, two = (arrow_type(read_columns(f"x {kind}")[0].type) for kind in (given, there))
    assert types_fit(one, two) is fits


def test_bytes_of_any_length_are_none_of_a_fixed_length():
    """Pass: these are bytes of any length, and not the other way; a UUID is its bytes."""
    assert types_fit(pa.binary(16), pa.binary())
    assert types_fit(pa.uuid(), pa.binary())
    assert not types_fit(pa.binary(), pa.binary(16))
    assert not types_fit(pa.binary(8), pa.binary(16))


def test_rows_are_brought_into_the_columns_of_a_table():
    """Pass: in its order and types, null where they lack one."""
    there = pa.schema([("b", pa.int64()), ("c", pa.string())])
    rows = pa.table({"a": [1], "b": pa.array([2], pa.int32())})
    assert fitted(rows, there).to_pylist() == [{"b": 2, "c": None}]
    assert actual(["ID", "other", "Name"], ["id", "name"]) == ["id", "name"]


@pytest.mark.parametrize("passed", [0, 1, 3, 4, 7])
def test_what_was_given_before_is_passed_over(passed):
    batches = [pa.record_batch({"n": [*range(at, at + 3)]}) for at in (0, 3)]
    found = [n for batch in _behind(iter(batches), passed) for n in batch.column(0).to_pylist()]
    assert found == [*range(6)][passed:]
