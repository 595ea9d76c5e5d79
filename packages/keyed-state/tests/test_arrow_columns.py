"""Arrow columns on their way through packing and unpacking, without Spark."""

from __future__ import annotations

import io
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from keyed_driver import key
from mainstem_keyed_state.arrays import from_plain, record_batch, to_plain
from mainstem_keyed_state.logic import KEY
from mainstem_keyed_state.outputs import Whole, packed_outputs, unpack
from mainstem_keyed_state.packing import packer, unpacked
from mainstem_keyed_state.page_codec import decode, uncut

AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
INNER = pa.map_(pa.string(), pa.int32())

#: Spark's Arrow types, with values.
CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, None, -3]),
    (pa.float64(), [1.5, None, float("inf")]),
    (pa.decimal128(38, 6), [Decimal("12345678901234567890.123456"), None, Decimal(0)]),
    (pa.string(), ["é", None, ""]),
    (pa.binary(), [b"\0\xff", None, b""]),
    (pa.date32(), [date(1969, 12, 31), None, date(2026, 1, 1)]),
    (pa.timestamp("us", "UTC"), [AT, None, AT]),
    (pa.timestamp("us"), [AT.replace(tzinfo=None), None, AT.replace(tzinfo=None)]),
    (pa.duration("us"), [timedelta(days=1, microseconds=5), None, timedelta(0)]),
    (pa.null(), [None, None, None]),
    (pa.list_(pa.int32()), [[1, None], None, []]),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}]),
    (INNER, [[("a", 1), ("b", None)], None, []]),
    (pa.map_(pa.int32(), INNER), [[(1, [("x", 2)]), (2, None)], None, []]),
    (pa.list_(INNER), [[[("a", 1)], None], None, []]),
    (pa.struct([("m", INNER), ("t", pa.timestamp("us", "UTC"))]), [{"m": [("k", 1)], "t": AT}, None, {"m": None, "t": None}]),
    (pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), [{"value": b"1", "metadata": b"2"}, None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
@pytest.mark.parametrize("skip", [0, 1], ids=["whole", "slice"])
def test_a_column_comes_back_as_it_went(kind: pa.DataType, values: list[Any], skip: int) -> None:
    """Pass: packed, read into Polars, put out and unpacked, type and values are what they were."""
    column = pa.array([values[0], *values], kind)[1:] if skip else pa.array(values, kind)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([key(1)] * len(values), pa.binary()), column], names=[KEY, "c"]
    )
    (packed,) = list(packer(0, (7,))(iter([batch])))
    assert packed.column(0).to_pylist() == [7]
    schema = pl.Schema(pl.from_arrow(pa.table({"c": to_plain(column)})).schema)
    rows = unpacked(packed.column(2)[0].as_py(), pl.Schema({KEY: pl.Binary(), **schema}))
    whole = Whole(pa.schema([("c", kind)]), {})
    out = pa.RecordBatch.from_arrays(
        [pa.array(packed_outputs(whole, "", rows.drop(KEY)), pa.binary())], names=["payload"]
    )
    (found,) = list(unpack(iter([out])))
    assert found.schema.field("c").type == kind
    assert found.column("c").to_pylist() == values


def test_times_of_another_zone_are_the_same_instants() -> None:
    """Pass: a session's zone changes neither what Polars sees nor what comes back."""
    there = pa.array([AT, None], pa.timestamp("us", "America/New_York"))
    plain = to_plain(there)
    assert plain.type == pa.timestamp("us", "UTC")
    assert plain.to_pylist() == [AT, None]
    inside = to_plain(pa.array([{"t": AT}], pa.struct([("t", there.type)])))
    assert inside.to_pylist() == [{"t": AT}]
    back = from_plain(plain, there.type)
    assert back.type == there.type
    assert back.to_pylist()[0] == AT


def test_named_outputs_become_structs_beside_the_main_columns() -> None:
    """Pass: rows of each output are in their columns, all others null; `_id` of refused rows is kept."""
    main = pa.schema([("k", pa.int64()), ("_id", pa.binary())])
    late = pa.schema([("at", pa.timestamp("us", "UTC")), ("m", INNER)])
    rejected = pa.schema([("reason", pa.string()), ("payload", pa.binary())])
    whole = Whole(main, {"late": late, "rejected": rejected})
    frames = {
        "": pl.DataFrame({"k": [1, 2], "_id": [b"a", b"b"]}),
        "late": pl.DataFrame({"at": [AT], "m": [[{"key": "x", "value": 1}]]}, schema_overrides={
            "m": pl.List(pl.Struct({"key": pl.String, "value": pl.Int32})),
            "at": pl.Datetime("us", "UTC"),
        }),
        "rejected": pl.DataFrame({"_id": [b"c"], "reason": ["bad"], "payload": [b"{}"]}),
    }  # fmt: skip
    payloads = [p for name, f in frames.items() for p in packed_outputs(whole, name, f)]
    batch = pa.RecordBatch.from_arrays([pa.array(payloads, pa.binary())], names=["payload"])
    found = [row for part in unpack(iter([batch])) for row in part.to_pylist()]
    nothing = {"k": None, "_id": None, "_output": None, "_late": None, "_rejected": None}
    assert found == [
        {**nothing, "k": 1, "_id": b"a"},
        {**nothing, "k": 2, "_id": b"b"},
        {**nothing, "_output": "late", "_late": {"at": AT, "m": [("x", 1)]}},
        {
            **nothing,
            "_output": "rejected",
            "_id": b"c",
            "_rejected": {"reason": "bad", "payload": b"{}"},
        },
    ]


def test_rows_are_packed_by_the_hash_of_their_key() -> None:
    """Pass: a key is in one bucket only, and rows without one are shared out."""
    count = 1000
    keys = [key(n % 50) if n % 2 else None for n in range(count)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(range(count))], names=[KEY, "n"]
    )
    labels = (10, 20, 30)
    (packed,) = list(packer(3, labels)(iter([batch.slice(0, 400), batch.slice(400)])))
    schema = pl.Schema({KEY: pl.Binary(), "n": pl.Int64()})
    seen: dict[bytes, int] = {}
    numbers: list[int] = []
    for label, port, payload in zip(*(c.to_pylist() for c in packed.columns), strict=True):
        assert port == 3
        rows = unpacked(payload, schema)
        numbers += rows["n"].to_list()
        assert 150 < rows[KEY].null_count() < 180
        for each in rows[KEY].drop_nulls().unique():
            assert seen.setdefault(each, label) == label
            assert labels[int.from_bytes(each[:4], "big") % 3] == label
    assert sorted(numbers) == list(range(count))


@pytest.mark.parametrize(("width", "most"), [(10, 50_000), (40_000, 1_000)])
@pytest.mark.in_turn
def test_many_rows_of_an_output_are_packed_in_parts(width: int, most: int) -> None:
    """Pass: no part has more than 50,000 rows, or much above 32 MB; together they are the rows, in order."""
    rows = pl.DataFrame({"n": range(most * 5 // 2)}).with_columns(
        text=pl.col("n").cast(pl.String).str.pad_end(width)
    )
    whole = Whole(pa.schema([("n", pa.int64()), ("text", pa.string())]), {})
    payloads = list(packed_outputs(whole, "", rows))
    parts = [pl.read_ipc_stream(io.BytesIO(payload)) for payload in payloads]
    assert pl.concat(parts).equals(rows)
    assert max(part.height for part in parts) <= most
    assert max(map(len, payloads)) < 40_000_000
    assert sum(map(len, payloads)) < 2 * rows.estimated_size(), "a part drags the others along"


INT, MAP = pl.List(pl.Int64), pl.List(pl.Struct({"key": pl.String, "value": pl.Int64}))
LISTS: list[tuple[Any, Any, list[Any]]] = [
    (pl.List(pl.Int32), pa.list_(pa.int32()), [None, [], [1], [2, None]]),
    (pl.List(pl.Decimal(10, 2)), pa.list_(pa.decimal128(10, 2)), [None, [], [Decimal("1.50")]]),
    (MAP, pa.map_(pa.string(), pa.int64()), [None, [], [{"key": "k", "value": 1}]]),
    (pl.List(INT), pa.list_(pa.list_(pa.int64())), [None, [], [[]], [None], [[1]]]),
    (pl.Struct({"a": INT}), pa.struct([("a", pa.list_(pa.int64()))]), [None, {"a": None}, {"a": []}, {"a": [1]}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "of_spark", "values"), LISTS, ids=[str(k) for k, _, _ in LISTS])
def test_lists_of_nothing_spoil_nothing_beside_them(
    kind: Any, of_spark: Any, values: list[Any]
) -> None:
    """Rows are gathered from frames that were filtered, as state is. Pass: pages and outputs hold what was in them."""
    chance = random.Random(7)
    whole = Whole(pa.schema([("l", of_spark), ("n", pa.int64())]), {})
    for _ in range(300):
        parts = []
        for _ in range(chance.randint(1, 3)):
            held = chance.choices(values, k=chance.randint(1, 3))
            given = {KEY: [b"k"] * len(held), "l": held, "n": chance.choices(range(9), k=len(held))}
            part = pl.DataFrame(given, schema={KEY: pl.Binary, "l": kind, "n": pl.Int64})
            few = chance.choice([True, False])
            parts.append(part.filter(pl.Series([not few or v in values[:3] for v in held])))
        rows = pl.concat(parts)
        if not rows.height:
            continue
        rows = rows[list(range(rows.height))]
        page = uncut(rows)
        assert decode(record_batch(rows).schema, [page.encoded()]).equals(rows)
        payloads = pa.array(packed_outputs(whole, "", rows.drop(KEY)), pa.binary())
        (found,) = unpack(iter([pa.RecordBatch.from_arrays([payloads], names=["payload"])]))
        again = pl.from_arrow(
            pa.table(
                {n: to_plain(c) for n, c in zip(found.schema.names, found.columns, strict=True)}
            )
        )
        assert isinstance(again, pl.DataFrame)
        assert again.select("l", "n").equals(rows.select("l", "n"))
