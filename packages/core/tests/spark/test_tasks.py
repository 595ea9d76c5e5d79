"""What `write_by_tasks` hands to the tasks of a sink, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from mainstem.sinks import (
    LANE,
    NUMBER,
    Refused,
    in_partitions,
    micros_of,
    numbered,
    values_of,
    write_by_tasks,
)


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


@pytest.mark.in_turn
def test_frames_without_headers_are_handed_over_as_they_are(spark):
    """Pass: a column of another type by that name, or none, is no matter of ours."""
    frame = spark.range(2).selectExpr("X'31' AS value", "CAST(NULL AS STRING) AS headers")
    found = write_by_tasks(frame, told)
    assert found is not None
    assert {row.reason for row in found.collect()} == {"None of a string"}
    assert write_by_tasks(frame.limit(0), told) is None


def nothing(batches: Iterable[Any]) -> Iterator[Any]:
    """Write rows that are all taken."""
    for _ in batches:
        pass
    yield from Refused().take()


def jobs(spark, group):
    """Return how many of Spark's jobs a group has."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_a_batch_of_which_nothing_is_refused_takes_one_job(spark):
    """Pass: what the tasks tell is looked at in a second job only where they refused something, also when
    batches before have.
    """
    frame = spark.range(0, 3, 1, 2).selectExpr(
        "CAST(CAST(id AS STRING) AS BINARY) AS value",
        "CAST(NULL AS MAP<STRING, BINARY>) AS headers",
    )
    try:
        for group, task, number in (("refused", told, 3), ("taken", nothing, 0), ("more", told, 3)):
            spark.sparkContext.setJobGroup(group, group)
            found = write_by_tasks(frame, task)
            taken = jobs(spark, group)
            assert (0 if found is None else found.count()) == number
            assert taken == (1 if number == 0 else 2)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_values_are_found_by_name_case_aside():
    """Pass: a column's values; as many nulls as there are rows where there is none, or no name."""
    batch = pa.RecordBatch.from_pydict({"Key": [b"a", None]})
    assert list(values_of(batch, "key")) == [b"a", None]
    assert list(values_of(batch, "other")) == list(values_of(batch, None)) == [None, None]


@pytest.mark.parametrize(
    ("unit", "zone", "given"), [("us", "UTC", 1_500_000), ("ms", None, 1_500)], ids=["us", "ms"]
)
def test_times_are_microseconds_whatever_their_unit(unit, zone, given):
    """Pass: 1.5 s after 1970 is 1,500,000 from columns of either unit; null stays null."""
    batch = pa.RecordBatch.from_pydict({"at": pa.array([given, None], pa.timestamp(unit, zone))})
    assert list(micros_of(batch, "AT")) == [1_500_000, None]
    assert list(micros_of(batch, "when")) == [None, None]


@pytest.mark.in_turn
def test_a_keys_rows_come_into_one_partition_and_into_the_order_of_their_log(spark):
    """Pass: so by a key; without one there are at most as many partitions as asked for."""
    frame = spark.range(0, 40, 1, 8).selectExpr(
        "CAST(id % 5 AS STRING) AS key", "'log' AS origin", "'0' AS partition",
        "lpad(CAST(40 - id AS STRING), 3, '0') AS position",
    )  # fmt: skip
    for parts in (3, None):
        placed = in_partitions(frame, parts, "key").rdd.glom().collect()
        assert len(placed) == 3 or parts is None
        keys = [{row.key for row in part} for part in placed]
        assert sum(map(len, keys)) == 5
        positions = [[row.position for row in part] for part in placed]
        assert positions == [sorted(part) for part in positions]
        assert sum(map(len, positions)) == 40
    assert in_partitions(frame, 3).rdd.getNumPartitions() == 3
    assert in_partitions(frame, None).rdd.getNumPartitions() == 8


@pytest.mark.parametrize("place", ["_commit_version STRING", "position STRING"])
def test_numbers_of_a_key_go_up_with_its_changes(spark, place):
    """Pass: whatever their ids are, which are hashes; each lane has its own numbers."""
    kind = f"key BINARY, _id BINARY, origin STRING, partition STRING, {place}"
    rows = [(b"k%d" % (n % 3), b"%d" % (100 - n), "o", "0", f"{n:04}") for n in range(30)]
    frame = spark.createDataFrame(rows, kind).repartition(4)
    name = place.partition(" ")[0]
    found = numbered(frame, 2, 2, "key").select("key", LANE, NUMBER, name).collect()
    assert len({(row[LANE], row[NUMBER]) for row in found}) == 30
    for key in {bytes(row.key) for row in found}:
        mine = sorted((row for row in found if bytes(row.key) == key), key=lambda row: row[NUMBER])
        assert [row[name] for row in mine] == sorted(row[name] for row in mine)
