"""What `write_by_tasks` hands to the tasks of a sink, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from mainstem import Refused, write_by_tasks


def told(batches: Iterable[Any]) -> Iterator[Any]:
    """Refuse every row, and say what it was given as headers."""
    refused = Refused()
    for batch in batches:
        headers = batch.column("headers")
        rows = zip(batch.column("value").to_pylist(), headers.to_pylist(), strict=True)
        for value, row in rows:
            refused.add(None, value, f"{row} of a {headers.type}")
    yield from refused.take()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("CAST(NULL AS MAP<STRING, BINARY>)", [None, None, None]),
        ("CAST(map() AS MAP<STRING, BINARY>)", [[], [], []]),
        (
            "IF(id = 1, map('a \"b\"', X'00FF', '', X'', 'none', NULL), NULL)",
            [None, [('a "b"', b"\x00\xff"), ("", b""), ("none", None)], None],
        ),
    ],
    ids=["null", "empty", "some"],
)
def test_headers_are_maps_again_on_the_other_side(spark, headers, expected):
    """Pass: all rows are handed over, with their headers as they were, in their order."""
    frame = spark.range(0, 3, 1, 1).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS value", f"{headers} AS headers"
    )
    found = write_by_tasks(frame, told)
    assert found is not None
    rows = sorted((bytes(row.payload), row.reason) for row in found.collect())
    assert rows == [
        (str(n).encode(), f"{given} of a map<string, binary>") for n, given in enumerate(expected)
    ]


def test_frames_without_headers_are_handed_over_as_they_are(spark):
    """Pass: a column of another type by that name, or none, is no matter of ours."""
    frame = spark.range(2).selectExpr("X'31' AS value", "CAST(NULL AS STRING) AS headers")
    found = write_by_tasks(frame, told)
    assert found is not None
    assert {row.reason for row in found.collect()} == {"None of a string"}
    assert write_by_tasks(frame.limit(0), told) is None
