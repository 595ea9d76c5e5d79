"""The reader, asked as Spark asks it: offsets, limits, ranges, and what a consumer holds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from ingress_far import every, messages, store_of, values_in
from ingress_reads import SCHEMA, digest, read, reader, values
from mainstem_ingress import LogError, Message
from mainstem_ingress import writer as storing_module
from mainstem_ingress.log import Log
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.reading import _SCHEMA, LogPlanner, LogReading
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import file_of
from mainstem_ingress.writer import Store
from pyspark.sql.types import LongType, StructField, StructType


def groups(log: Log, number: int, *counts: int, first: int = 0) -> Store:
    """Store groups of so many messages each, numbered from `first`."""
    store = store_of(log, number)
    for count in counts:
        store.store(messages(*range(first, first + count)))
        first += count
    return store


def test_rows_are_what_was_stored_with_where_they_are(log: Log) -> None:
    given = [
        Message(b"v", b"k", [("h", b"1"), ("e", b"")], 1_700_000_000_000_001, "q"),
        Message(None, None, None, 0, ""),
        Message(b"", b"", [], -1, "é", refused="no"),
    ]
    store = store_of(log, 3)
    store.store(messages(0))
    store.store(given)
    made = reader(log)
    rows = read(made, made.initial(), {"3": 2})[1:]
    assert [(r["value"], r["key"], r["origin"], r["_reason"]) for r in rows] == [
        (b"v", b"k", "q", None), (None, None, "", None), (b"", b"", "é", "no"),
    ]  # fmt: skip
    assert [r["headers"] for r in rows] == [[("h", b"1"), ("e", b"")], None, []]
    assert [round(r["timestamp"].timestamp() * 1e6) for r in rows] == [m.timestamp for m in given]
    assert {r["partition"] for r in rows} == {"3"}
    assert [r["position"] for r in rows] == [f"000000000001.0000000{n}" for n in range(3)]


@pytest.mark.in_turn
def test_positions_grow_and_are_told_apart(log: Log) -> None:
    groups(log, 0, 1, 9000, 5, 30_000, 2)
    rows = read(reader(log), {}, {"0": 5})
    positions = [row["position"] for row in rows]
    assert positions == sorted(set(positions))
    assert len(positions) == 39_008
    assert values(rows) == list(range(39_008))


def test_columns_that_a_source_adds(log: Log) -> None:
    assert LogReading(log.folder, 1, 1, "n BIGINT").schema() == f"{_SCHEMA}, n BIGINT"
    assert LogReading(log.folder, 1, 1).schema() == _SCHEMA
    log.receiver(0).mkdir(parents=True)
    store = Store(log, 0, IngressOptions(), [pa.field("n", pa.int64())])
    store.store([Message(b"1", extra=(7,)), Message(b"2", extra=(None,))])
    schema = StructType([*SCHEMA.fields, StructField("n", LongType())])
    assert [row["n"] for row in read(reader(log), {}, {"0": 1}, schema)] == [7, None]


def test_a_log_that_is_empty_or_not_there_yet(log: Log) -> None:
    made = reader(log, consumer="q")
    start = made.initial()
    assert start == {}
    assert made.latest(start) == start
    assert made.newest() is None
    log.receiver(0).mkdir(parents=True)  # a receiver that has stored nothing
    assert made.latest(start) == start
    groups(log, 1, 2)
    end = made.latest(start)
    assert values(read(made, start, end)) == [0, 1]
    assert made.latest(end) == end
    assert made.parts(end, end) == []


def test_an_idle_log_has_no_new_offset(log: Log) -> None:
    groups(log, 0, 3)
    made = reader(log)
    end = made.latest(made.initial())
    for _ in range(3):
        assert made.latest(end) == end
        assert list(made.latest(end)) == list(end), "Spark compares them as text"


def test_receivers_that_come_between_calls(log: Log) -> None:
    groups(log, 1, 2)
    made = reader(log)
    start = made.initial()
    assert start == {"1": 0}
    first = made.latest(start)
    groups(log, 10, 2, first=10)
    groups(log, 0, 2, first=20)
    second = made.latest(first)
    assert list(second.items()) == [("0", 1), ("1", 1), ("10", 1)]
    assert values(read(made, first, second)) == [20, 21, 10, 11]
    again = reader(log)
    assert again.latest(first) == second
    assert made.newest() == second


def drained(made: LogPlanner) -> list[list[int]]:
    """Return what each batch reads until nothing is left."""
    start, found = made.initial(), []
    while (end := made.latest(start)) != start:
        assert all(end[name] >= number for name, number in start.items())
        found.append(values(read(made, start, end)))
        start = end
    return found


def test_a_batch_keeps_to_its_rows(log: Log) -> None:
    groups(log, 0, 3, 3, 3, 3)
    assert drained(reader(log, max_rows=6)) == [list(range(6)), list(range(6, 12))]
    assert drained(reader(log, max_rows=8)) == [list(range(6)), list(range(6, 12))]
    assert drained(reader(log, max_rows=1)) == [[n, n + 1, n + 2] for n in range(0, 12, 3)]


def test_receivers_share_a_batch(log: Log) -> None:
    for number in range(3):
        groups(log, number, *[2] * 6, first=100 * number)
    batches = drained(reader(log, max_rows=12))
    assert batches[0] == [0, 1, 2, 3, 100, 101, 102, 103, 200, 201, 202, 203]
    assert [len(batch) for batch in batches] == [12, 12, 12]
    assert sorted(v for batch in batches for v in batch) == sorted(values_in(log))


def test_a_receiver_that_has_nothing_leaves_its_share_to_the_others(log: Log) -> None:
    groups(log, 0, *[2] * 10)
    groups(log, 1, 2, first=100)
    log.receiver(2).mkdir()
    batches = drained(reader(log, max_rows=8))
    assert [len(batch) for batch in batches] == [6, 8, 8]


def test_a_batch_keeps_to_its_bytes(log: Log) -> None:
    groups(log, 0, *[5] * 9)
    sizes = [file.stat().st_size for file in every(log)]  # they differ a little, by their headers
    assert [len(b) for b in drained(reader(log, max_bytes=3 * max(sizes)))] == [15, 15, 15]
    assert [len(b) for b in drained(reader(log, max_bytes=4 * min(sizes) - 1))] == [15, 15, 15]
    assert [len(b) for b in drained(reader(log, max_bytes=1))] == [5] * 9


def test_available_now_ends_where_the_log_ended(log: Log) -> None:
    store = groups(log, 0, 3, 3, 3)
    made = reader(log, max_rows=3)
    start = made.initial()
    made.prepare()
    found = []
    for _ in range(6):
        end = made.latest(start)
        found += values(read(made, start, end))
        start = end
        store.store(messages(99))
        groups(log, 1, 1, first=77)
    assert found == list(range(9))
    # A query that was already beyond it stays there.
    assert made.latest({"0": 8, "1": 4}) == {"0": 8, "1": 4}


@pytest.mark.in_turn
def test_tasks_share_the_rows(log: Log) -> None:
    groups(log, 0, *[10_000] * 8)
    groups(log, 1, 5, first=100_000)
    parts = reader(log, tasks=4).parts({}, {"0": 8, "1": 1})
    assert [tuple(part) for part in parts] == [
        ("0", 0, 2), ("0", 2, 4), ("0", 4, 6), ("0", 6, 8), ("1", 0, 1),
    ]  # fmt: skip
    assert len(reader(log, tasks=1).parts({}, {"0": 8})) == 1
    assert len(reader(log, tasks=100).parts({}, {"0": 8})) == 4, "no task of a few rows"


def test_a_start_by_time_is_the_first_segment_stored_since(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 1000.0

        def time(self) -> float:
            return self.now

    monkeypatch.setattr(storing_module, "time", clock := Clock())
    stores = [store_of(log, number) for number in range(2)]
    for step in range(10):
        clock.now = 1000.0 + 10 * step
        stores[step % 2].store(messages(step))
    for start, found in (
        (0, {"0": 0, "1": 0}),
        (1020, {"0": 1, "1": 1}),
        (1021, {"0": 2, "1": 1}),
        (1090, {"0": 5, "1": 4}),
        (5000, {"0": 5, "1": 5}),
    ):
        assert reader(log, start=start).initial() == found
    log.consumers.folder.mkdir()
    log.consumers.put("q", {"0": 3, "1": 3})
    for store in stores:
        Retention(log, store.name, IngressOptions()).tidy(store.next, store.bytes)
    assert reader(log, start=1000).initial() == {"0": 3, "1": 3}


# -- consumers ------------------------------------------------------------------------------------


def test_a_consumer_holds_what_it_has_not_committed(log: Log) -> None:
    store = groups(log, 0, 2, 2, 2)
    retention = Retention(log, "0", IngressOptions())
    made = reader(log, consumer="q", max_rows=2)

    def left() -> int:
        retention.tidy(store.next, store.bytes)
        return retention.first

    start = made.initial()
    assert log.consumers.all() == {"q": {"0": 0}}
    first = made.latest(start)
    assert (log.consumers.all(), left()) == ({"q": {"0": 0}}, 0)
    rows = read(made, start, first)
    made.committed(first)
    assert left() == 0
    assert digest(read(made, start, first)) == digest(rows), "the batch in hand can be read again"
    second = made.latest(first)
    assert (log.consumers.all(), left()) == ({"q": {"0": 1}}, 1)
    with pytest.raises(LogError, match=r"000000000000\.segment is gone, and was not read yet"):
        read(made, start, first)
    # After a restart, in the middle of the second batch.
    again = reader(log, consumer="q", max_rows=2)
    assert values(read(again, first, second)) == [2, 3]
    assert left() == 1
    third = again.latest(second)
    assert values(read(again, second, third)) == [4, 5]
    assert left() == 2


def test_a_consumer_keeps_no_progress_when_nothing_has_changed(log: Log) -> None:
    groups(log, 0, 2)
    made = reader(log, consumer="q")
    end = made.latest(made.initial())
    made.latest(end)
    file = log.consumers.file("q")
    written = file.stat().st_ino
    for _ in range(5):
        made.latest(end)
    assert file.stat().st_ino == written


def test_who_reads_the_past_holds_nothing(log: Log) -> None:
    groups(log, 0, 2)
    made = reader(log, start=0)
    made.latest(made.initial())
    assert log.consumers.all() == {}


def test_a_new_consumer_begins_with_what_is_left(log: Log) -> None:
    store = groups(log, 0, *[1] * 6)
    old = reader(log, consumer="old")
    end = old.latest(old.initial())
    old.latest(end)
    Retention(log, "0", IngressOptions()).tidy(store.next, store.bytes)
    new = reader(log, consumer="new")
    assert new.initial() == {"0": 5}
    assert log.consumers.all() == {"old": {"0": 6}, "new": {"0": 5}}


# -- what can't be read ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_segment_that_is_gone_is_named_and_never_skipped(log: Log, missing: int) -> None:
    groups(log, 0, 1, 1, 1)
    file_of(log.receiver(0), missing).unlink()
    with pytest.raises(LogError, match=rf"00000000000{missing}\.segment is gone"):
        read(reader(log), {"0": 0}, {"0": 3})


def test_a_reader_behind_what_was_removed_is_told_and_does_not_wait_for_ever(log: Log) -> None:
    """One that holds nothing, while others made room."""
    store = groups(log, 0, 1, 1)
    made = reader(log)
    start = made.latest(made.initial())
    for n in range(2, 9):
        store.store(messages(n))
    log.consumers.folder.mkdir()
    log.consumers.put("other", {"0": 9})
    Retention(log, "0", IngressOptions()).tidy(store.next, store.bytes)
    with pytest.raises(LogError, match=r"000000000002\.segment is gone"):
        read(made, start, made.latest(start))


@pytest.mark.parametrize("damage", [0, 1])
def test_a_damaged_segment_is_named_and_never_skipped(log: Log, damage: int) -> None:
    groups(log, 0, 1, 1)
    file_of(log.receiver(0), damage).write_bytes(b"ARROW1 and nothing")
    made = reader(log)
    with pytest.raises(LogError, match=rf"00000000000{damage}\.segment can't be read"):
        read(made, {"0": 0}, made.latest({"0": 0}))


@pytest.mark.parametrize("left", [0, 3])
def test_a_log_that_ends_before_what_was_read_is_refused(log: Log, left: int) -> None:
    """Another folder, or one that went back: nothing of it is passed over in silence."""
    if left:
        groups(log, 0, *[1] * left)
    with pytest.raises(LogError, match=rf"ends at segment {left}, and the query has read to 10"):
        reader(log).latest({"0": 10})


def test_a_batch_ends_where_what_belongs_together_is_whole(log: Log) -> None:
    """Pass: over limits, while the rest is still to come, when it ends without messages, and after a restart of reader and writer."""
    store = store_of(log, 0)

    def put(number: int, complete: bool) -> None:
        store.store(messages(number), f"c{number}", complete=complete)

    made = reader(log, max_rows=1, most_together=10**9)
    for number, complete in enumerate([True, False, False, True, False]):
        put(number, complete)
    start = made.initial()
    assert (one := made.latest(start)) == {"0": 1}
    assert (two := made.latest(one)) == {"0": 4}, (
        "a limit of one row, and three that belong together"
    )
    assert made.latest(two) == two, "the rest is still to come"
    assert made.newest() == {"0": 5}
    store = store_of(log, 0)
    put(5, False)
    assert reader(log, max_rows=1, most_together=10**9).latest(two) == two
    store.keep("c6", complete=True)
    assert (three := made.latest(two)) == {"0": 6}
    assert reader(log, max_rows=1, most_together=10**9).latest(two) == three
    put(7, False)
    assert made.latest(three) == three
    put(8, True)
    assert made.latest(three) == {"0": 8}
    assert reader(log, max_rows=9).latest(two) == {"0": 8}, "nobody has asked for it"


def test_a_bounded_read_ends_where_it_is_whole(log: Log) -> None:
    store = store_of(log, 0)
    for number, complete in enumerate([True, False]):
        store.store(messages(number), "c", complete=complete)
    made = reader(log, most_together=10**9)
    made.prepare()
    assert made.latest({}) == {"0": 1}
    store.store(messages(2), "c", complete=True)
    assert made.latest({"0": 1}) == {"0": 1}
    store.store(messages(3), "c", complete=False)
    store.keep("d", complete=True)
    made = reader(log, most_together=10**9)
    made.prepare()
    store.store(messages(4), "e", complete=False)
    store.keep("f", complete=False)
    assert made.latest({"0": 1}) == {"0": 4}, "it was whole when the run began"


def test_what_belongs_together_and_has_no_room_is_told(log: Log) -> None:
    """Pass: the receiver waits for a reader, and the reader for the receiver: an error, with what to do."""
    store = store_of(log, 0)
    made = reader(log, most_together=1000)
    store.store(messages(9), "c", complete=False)
    with pytest.raises(LogError, match="high_water"):
        reader(log, most_together=10).latest({})
    for number in range(3):
        store.store(messages(number), "c", complete=False)
    with pytest.raises(LogError, match=r"of one transaction.*high_water"):
        made.latest({})
