"""Python's values as columns: exactly or not at all; and rows as objects."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from mainstem.columns import arrow_type, check_maps, read_columns
from mainstem.errors import OptionError
from mainstem.objects import Misfit, ObjectColumns, ObjectRows, micros_of


def read(objects, schema, **more):
    """Return the rows of objects, and why they are refused."""
    columns = read_columns(schema)
    values = pa.array(
        [None if each is None else b"%d" % n for n, each in enumerate(objects)], pa.binary()
    )
    arrays, reasons = ObjectColumns(columns, **more).read(values, lambda value: objects[int(value)])
    for column, array in zip(columns, arrays, strict=True):
        assert array.type == arrow_type(column.type)
    names = [column.name for column in columns]
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*(a.to_pylist() for a in arrays), strict=True)
    ], reasons


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("BIGINT", 2**63, "is no BIGINT"),
        ("TINYINT", 128, "is no TINYINT"),
        ("INT", True, "is no INT"),
        ("INT", 1.0, "is no INT"),
        ("DOUBLE", 2**53 + 1, "is no DOUBLE"),
        ("FLOAT", 1e39, "is no FLOAT"),
        ("DOUBLE", "1", "is no DOUBLE"),
        ("DECIMAL(4,2)", 1.005, "is no DECIMAL(4,2)"),
        ("DECIMAL(4,2)", 100, "is no DECIMAL(4,2)"),
        ("DECIMAL(4,2)", float("nan"), "is no DECIMAL(4,2)"),
        ("STRING", 1, "is no STRING"),
        ("STRING", b"a", "is no STRING"),
        ("BINARY", "a", "is no BINARY"),
        ("BOOLEAN", 1, "is no BOOLEAN"),
        ("DATE", "2024-02-30", "is no DATE"),
        ("DATE", 1, "is no DATE"),
        ("TIMESTAMP", 1, "is no TIMESTAMP"),
        ("TIMESTAMP", "0000-01-01T00:00:00Z", "years 1 to 9999"),
        ("TIMESTAMP_NTZ", "2024-02-29T01:02:03Z", "is no TIMESTAMP_NTZ"),
        ("ARRAY<INT>", [1, "a"], "is no INT"),
        ("ARRAY<INT>", {"a": 1}, "is no ARRAY<INT>"),
        ("MAP<STRING, INT>", {1: 1}, "is no STRING"),
        ("STRUCT<b: INT>", {"b": "x"}, "is no INT"),
        ("VARIANT", {"a": b"x"}, "is no VARIANT"),
        ("VARIANT", {1: 2}, "is no VARIANT"),
        ("VARIANT", float("nan"), "is no VARIANT"),
    ],
)
def test_what_a_column_cannot_hold_is_refused(kind, value, told):
    """Pass: with the column and its type, beside a good one."""
    _, reasons = read([{"a": value}, {"a": None}], f"a {kind}")
    assert told in reasons[0]
    assert reasons[0].startswith("a ")
    assert reasons[1] is None


def test_numbers_are_taken_where_they_are_exact():
    """Pass: whole ones as floats and decimals, floats as they are written in digits, counts of a unit."""
    values = [
        {"a": 2**53, "b": 5, "c": 1700000000123},
        {"a": 1.5, "b": 0.1, "c": 0.5},
        {"a": float("inf"), "b": "1.50"},
    ]
    rows, reasons = read(values, "a DOUBLE, b DECIMAL(4,2), c TIMESTAMP", unit="ms")
    assert reasons == [None] * 3
    assert [(r["a"], r["b"]) for r in rows] == [
        (2.0**53, Decimal("5.00")), (1.5, Decimal("0.10")), (float("inf"), Decimal("1.50"))
    ]  # fmt: skip
    assert [r["c"] for r in rows[:2]] == [
        datetime(2023, 11, 14, 22, 13, 20, 123000, UTC), datetime(1970, 1, 1, microsecond=500, tzinfo=UTC)
    ]  # fmt: skip


def test_times_are_taken_of_any_zone_and_of_other_libraries():
    """Pass: to the microsecond; one without a zone is none; what a library has is asked for."""
    ahead = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    rows, reasons = read(
        [{"a": ahead}, {"a": ahead.replace(tzinfo=None)}, {"a": date(2024, 1, 1)}], "a TIMESTAMP"
    )
    assert rows[0]["a"] == ahead
    assert reasons == [None, "a is no TIMESTAMP", "a is no TIMESTAMP"]
    rows, reasons = read(
        [{"a": ("own", 5)}, {"a": ahead}],
        "a TIMESTAMP",
        instant=lambda v: v[1] if isinstance(v, tuple) else None,
    )
    assert rows[0]["a"] == datetime(1970, 1, 1, microsecond=5, tzinfo=UTC)
    assert reasons == [None, "a is no TIMESTAMP"]
    assert micros_of(datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)) == -1


def test_what_is_no_map_is_refused():
    """Pass: with the reason, beside good ones; nothing of nothing."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    rows, reasons = read([{"a": 1}, [1], None, {"a": None}, {}, {"a": 2, 5: 6}], "a INT NOT NULL")
    assert [row["a"] for row in rows] == [1, None, None, None, None, 2]
    assert reasons == [None, "no map", "the value is null", "a is null", "a is null", None]
    assert read([{"b": deep}], "a INT, b VARIANT")[1] == ["nested too deep"]
    assert read([], "a INT") == ([], [])


def test_fields_may_be_refused():
    """Pass: missing ones and unknown ones, by their number and not by what they are called."""
    assert read([{"a": 1, "secret": 2}], "a INT", extra=False)[1] == ["unknown: 1 fields"]
    assert read([{"b": 2}, {"a": None}], "a INT", missing=False)[1] == ["a is missing", None]


def test_rows_become_objects():
    """Pass: without what is null, times as a library has them, dates and local times as texts; what fails is told."""
    columns = read_columns(
        "at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, price DECIMAL(4,2), line STRUCT<a: INT, t: TIMESTAMP>, "
        "tags ARRAY<DATE>, counts MAP<STRING, INT>, n BIGINT"
    )  # fmt: skip
    seen = []

    def packed(held):
        if held.get("n") == 0:
            raise OverflowError
        if held.get("n") == 1:
            raise Misfit("not one")
        seen.append(held)
        return b"x"

    at = datetime(1, 1, 1, tzinfo=UTC)
    row = {
        "at": at, "local": datetime(2024, 2, 29, 1, 2, 3), "day": date(9999, 12, 31), "price": Decimal("1.50"),
        "line": {"a": None, "t": at}, "tags": [date(1970, 1, 1), None], "counts": [("k", None)], "n": 5,
    }  # fmt: skip
    rows = [row, dict.fromkeys(row), {**row, "n": 0}, {**row, "n": 1}]
    arrays = [pa.array([each[c.name] for each in rows], arrow_type(c.type)) for c in columns]
    values, reasons = ObjectRows(columns, packed, lambda micros: ("own", micros)).write(*arrays)
    assert values.to_pylist() == [b"x", b"x", None, None]
    assert reasons == [None, None, "a number is too large for the format", "not one"]
    first = -62_135_596_800_000_000
    assert seen == [
        {
            "at": ("own", first), "local": "2024-02-29T01:02:03.000000", "day": "9999-12-31", "price": "1.50",
            "line": {"t": ("own", first)}, "tags": ["1970-01-01", None], "counts": {"k": None}, "n": 5,
        },
        {},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("MAP<STRUCT<a: INT>,INT>", "keys of type STRUCT<A:INT>"),
        ("ARRAY<MAP<ARRAY<INT>,INT>>", "keys of type ARRAY<INT>"),
        ("STRUCT<v: VARIANT>", "values of type VARIANT"),
    ],
)
def test_what_a_format_of_maps_can_not_write_is_told(kind, told):
    """Pass: with the column; keys of any type without parts can be written."""
    check_maps(read_columns("x MAP<TIMESTAMP,ARRAY<STRUCT<a: INT>>>, y INT"), "cbor")
    with pytest.raises(OptionError, match=f"cbor has no {told}, as column x"):
        check_maps(read_columns(f"x {kind}"), "cbor")


@pytest.mark.parametrize(
    ("kind", "arrow", "given", "key"),
    [
        (
            "TIMESTAMP",
            pa.timestamp("us", "UTC"),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            ("at", 10**6),
        ),
        (
            "TIMESTAMP_NTZ",
            pa.timestamp("us"),
            datetime(1970, 1, 1, 0, 0, 1),
            "1970-01-01T00:00:01.000000",
        ),
        ("DATE", pa.date32(), date(1970, 1, 2), "1970-01-02"),
    ],
)
def test_keys_of_maps_may_be_times(kind, arrow, given, key):
    """Pass: they are written as values of their types are."""
    rows = ObjectRows(
        read_columns(f"m MAP<{kind},INT>"),
        lambda value: repr(value).encode(),
        lambda at: ("at", at),
    )
    values, reasons = rows.write(pa.array([[(given, 1)]], pa.map_(arrow, pa.int32())))
    assert (values.to_pylist(), reasons) == ([repr({"m": {key: 1}}).encode()], [None])
