"""Tables as values: how much their rows may take, and what their types may be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from mainstem.columns import read_columns
from mainstem.formats.table_values import TableValues
from pyarrow import parquet

LIMIT = 1 << 20


def read(kind, value, schema, limit=LIMIT, **more):
    given = {"missing": True, "extra": True, **more}
    made = TableValues(read_columns(schema), kind, **given).read(pa.array([value]), limit)
    rows = [array.to_pylist() for array in made.rows]
    return rows, made.reasons[0]


def file(table, **more):
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, **more)
    return sink.getvalue().to_pybytes()


def stream(batches, schema, codec=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def dictionary(size, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))


def test_what_is_not_read_does_not_count():
    """Pass: columns of other names, however large, and texts that are written once and used often."""
    rows = 10_000
    wide = pa.array([[0.0] * 64] * rows, pa.list_(pa.float32()))
    for kind, value in (
        ("parquet", file(pa.table({"id": range(rows), "wide": wide}))),
        (
            "parquet",
            file(pa.table({"id": range(rows), "city": [f"c{n % 5000}" for n in range(rows)]})),
        ),
    ):
        found, reason = read(kind, value, "id BIGINT, city STRING")
        assert (reason, found[0]) == (None, list(range(rows)))
        assert read(kind, value, "other STRING")[1] is None


@pytest.mark.parametrize("nested", [False, True])
def test_texts_that_are_written_once_count_as_often_as_they_are_there(nested):
    """Pass: over all parts of a table, and within others; a message is small, and what it holds is not."""
    array = dictionary(1_000, 100)
    array = pa.StructArray.from_arrays([array], ["s"]) if nested else array
    schema = "v STRUCT<s: STRING>" if nested else "v STRING"
    batch = pa.record_batch({"v": array})
    value = stream([batch] * 60, batch.schema)
    assert read("arrow", value, schema)[1] == f"more than {LIMIT} bytes of rows"
    assert read("arrow", value, schema, limit=10 * LIMIT)[1] is None
    assert len(value) < 100_000


def test_texts_of_parquet_count_as_often_as_they_are_there():
    """Pass: before they are written plainly."""
    value = file(pa.table({"v": ["x" * 10_000] * 5_000}))
    assert len(value) < 100_000
    assert read("parquet", value, "v STRING")[1] == f"more than {LIMIT} bytes of rows"


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_compressed_counts_as_what_it_becomes_before_it_does(codec, monkeypatch):
    """Pass: by what messages say; nothing is decompressed then."""
    batch = pa.record_batch({"v": pa.array([0] * 1_000_000, pa.int64())})
    value = stream([batch], batch.schema, codec)
    assert len(value) < 100_000
    before = pa.total_allocated_bytes()
    assert read("arrow", value, "v BIGINT")[1] == f"more than {LIMIT} bytes of rows"
    assert pa.total_allocated_bytes() - before < LIMIT
    assert read("arrow", value, "v BIGINT", limit=20 * LIMIT)[1] is None


@pytest.mark.parametrize(
    "kind", ["ARRAY<TIMESTAMP>", "STRUCT<at: TIMESTAMP>", "MAP<STRING, TIMESTAMP>"]
)
def test_times_within_others_are_of_the_years_that_there_are(kind):
    """Pass: as those that stand alone."""
    at = pa.timestamp("us", "UTC")
    makers = {
        "ARRAY<TIMESTAMP>": lambda n: pa.array([[n], None], pa.list_(at)),
        "STRUCT<at: TIMESTAMP>": lambda n: pa.array([{"at": n}, None], pa.struct([("at", at)])),
        "MAP<STRING, TIMESTAMP>": lambda n: pa.array([[("k", n)], None], pa.map_(pa.string(), at)),
    }
    for number, wanted in ((0, None), (2**62, "v is beyond the years 1 to 9999")):
        table = pa.record_batch({"v": makers[kind](number)})
        rows, reason = read("arrow", stream([table], table.schema), f"v {kind}")
        assert reason == wanted
        assert wanted or rows[0][1] is None


def test_a_decimal_of_odd_scale_is_refused(monkeypatch):
    """Pass: such as only a hostile message claims; Arrow itself would end the process."""
    batch = pa.record_batch({"v": pa.array([1], pa.decimal128(9, 2))})
    odd = bytearray(stream([batch], batch.schema))
    at = odd.find((9).to_bytes(4, "little"), 8)
    places = [n for n in range(len(odd) - 3) if odd[n : n + 4] == (2).to_bytes(4, "little")]
    assert at >= 0
    for place in places:
        changed = bytes(odd[:place]) + (9_000_000).to_bytes(4, "little") + bytes(odd[place + 4 :])
        _, reason = read("arrow", changed, "v DECIMAL(10, 2)")
        assert reason is None or reason
    assert any(
        "decimal128(9, 9000000)" in (read("arrow", bytes(odd[:p]) + (9_000_000).to_bytes(4, "little") + bytes(odd[p + 4 :]), "v DECIMAL(10, 2)")[1] or "")
        for p in places
    )  # fmt: skip
