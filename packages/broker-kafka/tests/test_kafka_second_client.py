"""The second client's reading, without brokers: rows, limits of batches, and the first offset of a checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from mainstem_broker_kafka.source.columns import record_batch
from mainstem_broker_kafka.source.lag import initial, written
from mainstem_broker_kafka.source.offsets import Partition
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.reading import MessagePlanner, MessageReading, Part, shared

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.map_(pa.string(), pa.binary())),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("partition", pa.string()),
        ("position", pa.string()),
    ]
)
ONE, TWO = Partition("t", 0), Partition("t", 1)


class Record:
    """A message as the client gives it."""

    def __init__(self, offset, millis, headers=None, value=b"v"):
        self._all = {"offset": offset, "timestamp": (1, millis), "headers": headers}
        self._all |= {"value": value, "key": None, "topic": "t", "partition": 3}

    def __getattr__(self, name):
        return lambda: self._all[name]


def planner(tmp_path, **options):
    given = {"servers": "h:1", "topics": ["t"], **options}
    made = KafkaSourceOptions.model_validate(given)
    return MessagePlanner(MessageReading(made, "earliest", tmp_path / "0", bounded=True))


def test_rows_are_those_of_sparks_reader():
    """Pass: fixed-width positions; of headers with one name the last; a time that no column can hold is a header,
    also where headers are left out."""
    headers = [("x", b"1"), ("y", None), ("x", b"2")]
    far = 1_711_848_600_000_000_000
    messages = [Record(7, 1_500, headers), Record(8, far), Record(9, -1)]
    rows = record_batch(messages, SCHEMA, headers=True).to_pylist()
    assert [row["position"] for row in rows] == [f"{n:019d}" for n in (7, 8, 9)]
    assert {(row["origin"], row["partition"]) for row in rows} == {("t", "3")}
    assert rows[0]["headers"] == [("y", None), ("x", b"2")]
    assert rows[0]["timestamp"] == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert (rows[1]["timestamp"], rows[1]["headers"]) == (
        None,
        [("mainstem-timestamp", str(far).encode())],
    )
    assert rows[2]["headers"] == []
    plain = record_batch(messages, SCHEMA, headers=False).to_pylist()
    assert [row["headers"] for row in plain] == [None, rows[1]["headers"], None]


@pytest.mark.parametrize(
    ("waiting", "most", "taken"),
    [
        ({ONE: 10, TWO: 30}, None, {ONE: 10, TWO: 30}),
        ({ONE: 10, TWO: 30}, 20, {ONE: 5, TWO: 15}),
        ({ONE: 1, TWO: 1000}, 10, {ONE: 1, TWO: 9}),
        ({ONE: 0, TWO: 1000}, 10, {ONE: 0, TWO: 10}),
    ],
)
def test_a_batch_takes_of_each_partition_in_proportion(waiting, most, taken):
    """Pass: and one at least of each that has any."""
    assert shared(waiting, most) == taken


def test_ranges_are_cut_among_tasks(tmp_path):
    """Pass: together they are the batch, without a gap; one that has nothing gets none."""
    start, end = {"t": {"0": 5, "1": 10}}, {"t": {0: 105, 1: 10, 2: 50}}
    assert planner(tmp_path).parts(start, end) == [Part("t", 0, 5, 105), Part("t", 2, 0, 50)]
    cut = planner(tmp_path, min_partitions=6).parts(start, end)
    assert [part for part in cut if part.number == 0] == [
        Part("t", 0, 5 + 25 * n, 30 + 25 * n) for n in range(4)
    ]
    assert [part for part in cut if part.number == 2] == [Part("t", 2, 0, 25), Part("t", 2, 25, 50)]


def test_the_first_offset_is_kept_as_spark_keeps_it(tmp_path):
    """Pass: what is written is read again, and a checkpoint that has it asks no broker."""
    assert initial(tmp_path) is None
    (tmp_path / "0").write_text(written({ONE: 3, TWO: 9}))
    assert initial(tmp_path) == {ONE: 3, TWO: 9}
    assert planner(tmp_path).initial() == {"t": {0: 3, 1: 9}}
