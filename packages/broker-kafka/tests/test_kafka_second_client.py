"""The second client's reading, without brokers: rows, limits of batches, and the first offset of a checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from mainstem import PermanentError, PipelineError
from mainstem_broker_kafka import client
from mainstem_broker_kafka.source.columns import record_batch
from mainstem_broker_kafka.source.lag import initial, written
from mainstem_broker_kafka.source.offsets import Partition
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.reading import (
    MessagePlanner,
    MessageReading,
    Messages,
    Part,
    shared,
)

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
        self._all |= {"error": None, "value": value, "key": None, "topic": "t", "partition": 3}

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
    ours = record_batch(
        [Record(8, far, [("mainstem-timestamp", b"x"), ("y", b"1")])], SCHEMA, headers=True
    )
    assert ours.to_pylist()[0]["headers"] == [("y", b"1"), *rows[1]["headers"]]
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


class Answers:
    """A consumer that gives messages and errors as it was told."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def assign(self, _):
        pass

    def consume(self, count, _):
        taken, self._answers = self._answers[:count], self._answers[count:]
        return taken

    def close(self):
        pass


def chunks(monkeypatch, *answers, **options):
    given = {"servers": "h:1", "topics": ["t"], **options}
    made = KafkaSourceOptions.model_validate(given)
    monkeypatch.setattr(client, "consumer", lambda *_, **__: Answers(*answers))
    return [[m.offset() for m in each] for each in Messages(made, Part("t", 3, 5, 8)).chunks()]


def failed(code, offset=None):
    kafka = client.library()
    found = Record(offset, 0)
    found._all["error"] = kafka.KafkaError(code)
    return found


def test_a_part_ends_where_its_offsets_end(monkeypatch):
    """Pass: by the last message, by one behind the end, or by the end of the partition, where a transaction's end is
    the last offset; errors of connections pass."""
    kafka = client.library().KafkaError
    one, two, three, four = (Record(n, 0) for n in (5, 6, 7, 8))
    assert chunks(monkeypatch, one, two, three, four) == [[5, 6, 7]]
    assert chunks(monkeypatch, one, four) == [[5]]
    assert chunks(monkeypatch, one, failed(kafka._TRANSPORT), failed(kafka._PARTITION_EOF, 8)) == [
        [5]
    ]


def test_what_is_gone_is_the_runs_end_or_is_passed_over(monkeypatch):
    """Pass: offsets that are gone and a partition that is no more: an error, or with `on_loss: report` the rest."""
    kafka = client.library().KafkaError
    with pytest.raises(PermanentError, match="no longer has offset 5"):
        chunks(monkeypatch, failed(kafka._AUTO_OFFSET_RESET))
    gone = failed(kafka.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(PipelineError, match="reading t/3 from offset 5"):
        chunks(monkeypatch, gone)
    assert chunks(monkeypatch, Record(5, 0), gone, on_loss="report") == [[5]]
