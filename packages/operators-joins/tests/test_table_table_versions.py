"""Versions as Spark makes them sort as the sequences do that they are made of."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from mainstem import OptionError
from mainstem.columns import version_sql
from mainstem_operators_joins.table_table_versions import check_sequence, known, version
from table_table_world import version as modelled

#: Values in their order, by type; texts in the order of their bytes.
VALUES: dict[str, list[Any]] = {
    "tinyint": [-128, -1, 0, 1, 127],
    "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 5, 1, tzinfo=UTC),
        datetime(2024, 5, 1, 0, 0, 0, 1, tzinfo=UTC),
    ],
    "timestamp_ntz": [datetime(1969, 12, 31), datetime(2024, 5, 1), datetime(2024, 5, 1, 1)],
    "date": [date(1969, 12, 31), date(1970, 1, 1), date(2024, 5, 1)],
    "decimal(10,2)": [Decimal("-12345678.90"), Decimal("-0.01"), Decimal(0), Decimal("99.10"), Decimal("99.2")],
    "decimal(37,0)": [Decimal(-(10**37) + 1), Decimal(-1), Decimal(0), Decimal(10**37 - 1)],
    "decimal(33,5)": [Decimal(f"{sign}{'9' * 28}.99999") for sign in "-+"],
    "decimal(32,32)": [Decimal(f"{sign}0.{'9' * 32}") for sign in "-+"],
    "decimal(32,18)": [Decimal(f"{sign}{'9' * 14}.{'9' * 18}") for sign in "-+"],
    "binary": [bytearray(b"\0"), bytearray(b"\0\1"), bytearray(b"a"), bytearray(b"\xff")],
    "string": [
        "\x01", "\x01\x01", " ", "!", "-", ".", "..", "./", ".A", "/", "/.", "0", "0-1", "0.", "0.1",
        "0/", "00", "1", "A", "A B", "a", "~", "\xe9", "\u20ac", "\U0001f600",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_versions_sort_as_their_sequences(spark, kind):
    """Pass: by left sequence, then taken back, then no right row, then right sequence; all differ."""
    values = VALUES[kind]
    rows = [
        (left, right, retracts)
        for left in (None, *values)
        for retracts, rights in ((True, [None]), (False, [None, *values]))
        for right in rights
        if left is not None or (right is not None and not retracts)
    ]
    numbered = [(n, *row) for n, row in enumerate(rows)]
    frame = spark.createDataFrame(numbered, f"n INT, l {kind}, r {kind}, b BOOLEAN")
    text = version("l", kind, "r", kind, "b")
    found = {row["n"]: row["v"] for row in frame.selectExpr("n", f"{text} AS v").collect()}
    made = [found[n].encode() for n in range(len(rows))]
    assert made == sorted(made), f"first out of order: {_first(rows, made)}"
    assert len(set(made)) == len(made)
    if kind in ("bigint", "string"):  # the tests of the logic go by a model of it
        assert [
            modelled({"_left_sequence": row[0], "_right_sequence": row[1], "_retracts": row[2]})
            for row in rows
        ] == [each.decode() for each in made]


@pytest.mark.parametrize(("kind", "values"), [
    ("bigint", [0, 7, 2**63 - 1]),
    ("timestamp", [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 5, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    ("decimal(10,2)", [Decimal(0), Decimal("99.10"), Decimal("99.2")]),
    ("string", ["00000000000000a1-0000", "00000000000000a2-0000", "7000000000000000-ffff"]),
])  # fmt: skip
@pytest.mark.parametrize("b", ["true", "false"])
def test_stores_that_compare_numbers_take_them(spark, kind, values, b):
    """Pass: numbers in the order of the left sequences, whatever the right ones; none of what is below 0."""
    made = version("l", kind, "r", "bigint", b)
    rows = [(n, value, right) for n, value in enumerate(values) for right in (None, -5, 5)]
    frame = spark.createDataFrame(rows, f"n INT, l {kind}, r BIGINT").selectExpr(
        "n", f"{made} AS v"
    )
    number = (version_sql("string") or "").format("v")
    found = frame.selectExpr("n", f"{number} AS number").collect()
    by_left = {n: {row["number"] for row in found if row["n"] == n} for n in range(len(values))}
    assert all(len(each) == 1 for each in by_left.values())
    numbers = [each for (each,) in by_left.values()]
    assert None not in numbers
    assert numbers == sorted(set(numbers))
    negative = version("-1L", "bigint", "1L", "bigint", b)
    (none,) = spark.sql(
        f"SELECT {(version_sql('string') or '').format('v')} FROM (SELECT {negative} AS v)"
    ).head()
    assert none is None


def test_versions_of_local_times_do_not_go_by_the_sessions_zone(spark):
    """Pass: times that a zone has twice, or not at all, have versions of their own, alike in every zone."""
    texts = [
        "2024-03-31 01:30:00",
        "2024-03-31 02:30:00",
        "2024-03-31 03:30:00",
        "2024-10-27 02:30:00",
    ]
    values = ", ".join(f"(TIMESTAMP_NTZ'{text}')" for text in texts)
    made = version("x", "timestamp_ntz", "x", "timestamp_ntz", "false")
    before = spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for zone in ("UTC", "Europe/Berlin"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            rows = spark.sql(f"SELECT {made} AS v FROM VALUES {values} AS t(x)").collect()
            found.append([row["v"] for row in rows])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found[0] == found[1]
    assert len(set(found[0])) == len(texts)


def _first(rows: list[Any], made: list[bytes]) -> Any:
    return next((r for r, a, b in zip(rows, made, made[1:], strict=False) if a >= b), None)


def test_types_without_an_order_of_text_are_refused():
    """Pass: floating point and wide decimals are an error that names the side and what serves."""
    wide = ("decimal(38,0)", "decimal(33,6)", "decimal(34,5)", "decimal(37,18)")
    for kind in ("double", "float", *wide, "array<int>", "boolean"):
        with pytest.raises(OptionError, match="left changelog's sequence is"):
            check_sequence(kind, "left")


def test_an_empty_sequence_counts_as_none(spark):
    """Pass: it is null, so that its change is refused: a version could not tell it from no row."""
    (row,) = spark.sql(f"SELECT {known('x', 'string')} AS v FROM VALUES ('') AS t(x)").collect()
    assert row["v"] is None
