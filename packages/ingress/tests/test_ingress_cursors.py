"""Where the far side goes on, kept with the messages and without any; and columns of a source's own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ingress_far import (
    Far,
    FarOptions,
    Process,
    SkippingReceiver,
    Tells,
    messages,
    store_of,
    values_in,
    wait_for,
)
from ingress_reads import read, reader
from mainstem import MESSAGE_COLUMNS, Events
from mainstem_ingress import IngressOptions, IngressSource, LogError, Message, Receiver
from mainstem_ingress import loop as taking_module
from mainstem_ingress import segments as segments_module
from mainstem_ingress.log import Log, ends_complete
from mainstem_ingress.loop import Taking
from mainstem_ingress.reading import _SCHEMA, LogReading
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import fields_of, file_of, read_header
from mainstem_ingress.writer import Store
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

COUNT = 60


# -- in the log ---------------------------------------------------------------------------------


def test_a_cursor_is_kept_with_messages_and_without(log: Log) -> None:
    """Pass: the newest of both is found again, and by others; a message's own does not count beside it."""
    store = store_of(log)
    assert log.cursors() == {}
    store.keep("a")
    assert store_of(log).cursor == "a"
    assert log.cursors() == {0: "a"}
    store.store([Message(b"1", cursor="own")], "b")
    assert store.cursor == store_of(log).cursor == "b"
    assert log.cursors() == {0: "b"}
    store.keep("c")
    store_of(log, 3).keep("d")
    assert store_of(log).cursor == "c"
    assert log.cursors() == {0: "c", 3: "d"}
    store.store(messages(2))
    assert log.cursors() == {0: "c", 3: "d"}, "a segment without a cursor of its own changes none"


def test_a_kept_cursor_that_a_segment_has_passed_is_not_found_again(log: Log) -> None:
    """Pass: though the newest segments are all that is left, and the file stays."""
    store = store_of(log)
    store.keep("a")
    for number in range(3):
        store.store(messages(number), f"b{number}")
    file_of(log.receiver(0), 0).unlink()
    assert store_of(log).cursor == "b2"
    assert log.cursors() == {0: "b2"}


def test_a_cursor_comes_with_a_group_of_which_a_part_is_dropped(log: Log) -> None:
    store = store_of(log)
    store.store(messages(1, 2, ids=True), "a")
    store.store(messages(2, 3, ids=True), "b")
    assert read_header(file_of(log.receiver(0), 1)).cursor == "b"
    assert values_in(log) == [1, 2, 3]


def test_messages_of_one_cursor_are_never_two_segments(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: too many bytes are an error that says what to do, and nothing is stored."""
    monkeypatch.setattr(segments_module, "_MOST", 100)
    with pytest.raises(LogError, match="segment_bytes"):
        store_of(log).store([Message(bytes(60)), Message(bytes(60))], "a")
    assert values_in(log) == []
    assert log.cursors() == {}


def test_a_cursor_file_that_can_not_be_read_is_an_error(log: Log) -> None:
    store_of(log).keep("a")
    (log.receiver(0) / "cursor.json").write_text("{")
    with pytest.raises(LogError, match=r"cursor\.json can't be read"):
        store_of(log)
    with pytest.raises(LogError, match=r"cursor\.json can't be read"):
        log.cursors()


# -- at work ------------------------------------------------------------------------------------


class Moving(Receiver):
    """Gives what a test says: messages, and where it is after them."""

    def __init__(self, *steps: tuple[Sequence[Message], str]) -> None:
        super().__init__(None, 0, "moving")
        self.steps = list(steps)
        self.at: str | None = None
        self.begins: list[str | None] = []
        self.all_here = False

    def connect(self, cursor: str | None) -> None:
        self.at = cursor
        self.begins.append(cursor)

    def take(self, seconds: float) -> Sequence[Message]:
        if not self.steps:
            threading.Event().wait(seconds)
            return []
        found, self.at = self.steps.pop(0)
        return found

    def acknowledge(self, messages: Sequence[Message]) -> None:
        pass

    def cursor(self) -> str | None:
        return self.at

    def caught_up(self) -> bool | None:
        return self.all_here


class Work:
    """A receiver at work in a thread; use it in a `with`."""

    def __init__(self, receiver: Receiver, store: Store) -> None:
        self.told, self.stop = Tells(), threading.Event()
        options = IngressOptions(linger="0 s")
        retention = Retention(store.log, store.name, options)
        taking = Taking(receiver, store, [retention], options, self.told, self.stop)
        self.thread = threading.Thread(target=taking.work, daemon=True)

    def __enter__(self) -> Work:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


def test_where_a_receiver_is_is_stored_though_it_took_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: with messages in their segment; alone when it moves on, once; `connect` is given it again."""
    kept: list[str] = []
    store = store_of(log)
    keep = store.keep
    monkeypatch.setattr(
        store, "keep", lambda cursor, **more: (kept.append(cursor), keep(cursor, **more))
    )
    receiver = Moving(([], "a"), (messages(1, 2), "b"), ([], "b"), ([], "c"), ([], "c"))
    with Work(receiver, store):
        wait_for(lambda: log.cursors() == {0: "c"})
    assert kept == ["a", "c"]
    assert read_header(file_of(log.receiver(0), 0)).cursor == "b"
    again = Moving()
    with Work(again, store_of(log)) as work:
        work.told.wait_for(state="running")
    assert again.begins == ["c"]


def test_messages_that_are_all_dropped_move_it_on(log: Log) -> None:
    """Pass: a group of duplicates makes no segment, and its cursor is stored all the same."""
    store = store_of(log)
    receiver = Moving((messages(1, ids=True), "a"), (messages(1, ids=True), "b"))
    with Work(receiver, store):
        wait_for(lambda: log.cursors() == {0: "b"})
    assert values_in(log) == [1]


def test_a_bounded_run_begins_when_the_receiver_says_so(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: not because nothing comes for long; at once when all is stored that was there."""
    monkeypatch.setattr(taking_module, "_QUIET", 0.0)
    monkeypatch.setattr(taking_module, "_TELL_EVERY", 0.0)
    receiver = Moving((messages(1), "a"))
    with Work(receiver, store_of(log)) as work:
        wait_for(lambda: log.cursors() == {0: "a"})
        wait_for(lambda: len(work.told) > 5)
        assert not any(told["ready"] for told in work.told)
        receiver.all_here = True
        work.told.wait_for(ready=True)


@pytest.mark.in_turn
def test_above_the_high_water_mark_a_bounded_run_begins(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: though not all is here: only who reads can make room."""
    receiver = Moving((messages(1), "a"))
    work = Work(receiver, store_of(log))
    with work:
        work.told.wait_for(state="running")
        monkeypatch.setattr(Retention, "unread", lambda *_: 10**15)
        work.told.wait_for(state="paused", ready=True)


def test_a_receiver_sees_the_cursors_of_all(log: Log) -> None:
    receiver = Moving()
    assert receiver.stored_cursors() == {}
    receiver.log = log
    store_of(log, 1).keep("a")
    assert receiver.stored_cursors() == {1: "a"}


POINTS = ["before-write", "after-rename", "before-cursor", "after-cursor", "after-acknowledge"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.in_turn
def test_a_kill_doubles_nothing_where_cursors_are_the_receivers(
    far: Far, log: Log, tmp_path: Path, point: str
) -> None:
    """Pass: killed there, with and without messages, a second process stores the rest once, in order."""
    far.append(messages(*range(COUNT)))
    options = FarOptions(port=far.port, segment_rows=10, linger="0 s")
    trace = tmp_path / "trace"
    env = {
        "MAINSTEM_FAILPOINT": f"ingress.{point}:2:kill",
        "MAINSTEM_FAILPOINT_TRACE": str(trace),
    }
    with Process(SkippingReceiver, log, options, env=env) as process:
        assert process.wait() == -9
    with Process(SkippingReceiver, log, options) as process:
        wait_for(lambda: log.cursors() == {0: str(COUNT - 1)})
        assert process.release() == 0
    assert values_in(log) == [n for n in range(COUNT) if n % 20 < 10]


# -- columns of a source's own ------------------------------------------------------------------


class Placed(IngressSource):
    extra = "partition STRING, position STRING, n BIGINT"

    def receiver(self) -> type[Receiver]:
        return Moving


def test_a_source_may_give_partition_and_position_itself(log: Log) -> None:
    """Pass: they stand where the log's own would, and tell rows apart; each column is there once."""
    shape = Placed(IngressOptions()).shape()
    assert isinstance(shape, Events)
    assert [c.name for c in shape.columns or ()] == [*(c.name for c in MESSAGE_COLUMNS), "n"]
    assert shape.identity == ("origin", "partition", "position")
    assert LogReading(log.folder, 1, 1, Placed.extra).schema() == f"{_SCHEMA}, `n` bigint"
    fields = [pa.field("partition", pa.string()), pa.field("position", pa.string())]
    log.receiver(0).mkdir(parents=True)
    Store(log, 0, IngressOptions(), fields).store([Message(b"1", extra=("shard-7", "0042"))])
    (row,) = read(reader(log), {}, {"0": 1})
    assert (row["partition"], row["position"]) == ("shard-7", "0042")


TYPED = {
    "flag BOOLEAN": True,
    "tiny TINYINT": -128,
    "small SMALLINT": 32767,
    "real FLOAT": 0.5,
    "money DECIMAL(38,9)": Decimal("12345678901234567890123456789.123456789"),
    "day DATE": date(9999, 12, 31),
    "at TIMESTAMP": datetime(1, 1, 1, tzinfo=UTC),
    "local TIMESTAMP_NTZ": datetime(2026, 3, 29, 2, 30, 0, 1),
    "words ARRAY<STRING>": ["a", None, "é"],
    "counts MAP<STRING, INT>": [("a", 1), ("b", None)],
    "line STRUCT<item: STRING, price: DECIMAL(10,2), tags: ARRAY<BINARY>>": {
        "item": "x",
        "price": Decimal("1.10"),
        "tags": [b"\x00"],
    },
}


def test_columns_of_a_source_may_have_any_type(log: Log, spark: SparkSession) -> None:
    """Pass: each value is read as it was stored, and null where there was none."""

    class Typed(Placed):
        extra = ", ".join(TYPED)

    columns = Typed(IngressOptions())._extra()
    fields = fields_of([(column.name, column.type or "") for column in columns])
    log.receiver(0).mkdir(parents=True)
    store = Store(log, 0, IngressOptions(), fields)
    nothing = (None,) * len(TYPED)
    store.store([Message(b"1", extra=tuple(TYPED.values())), Message(b"2", extra=nothing)])
    reading = LogReading(log.folder, 10, 10**9, Typed.extra)
    schema = StructType.fromDDL(reading.schema())
    full, empty = read(reading.planner(), {}, {"0": 1}, schema)
    assert [full[column.name] for column in columns] == list(TYPED.values())
    assert [empty[column.name] for column in columns] == list(nothing)


def _stored(log: Log, columns: str, *values: tuple[Any, ...]) -> None:
    """Store a segment of messages with columns beside, as an earlier version of a source did."""
    made = type("Before", (Placed,), {"extra": columns})(IngressOptions())
    fields = fields_of([(column.name, column.type or "") for column in made._extra()])
    log.receiver(0).mkdir(parents=True, exist_ok=True)
    Store(log, 0, IngressOptions(), fields).store([Message(b"x", extra=each) for each in values])


def _read_now(log: Log, columns: str, end: int, **more: Any) -> list[dict[str, Any]]:
    reading = LogReading(log.folder, 10, 10**9, columns, **more)
    return read(reading.planner(), {}, {"0": end}, StructType.fromDDL(reading.schema()))


def test_segments_of_other_columns_are_read_with_those_of_now(
    log: Log, spark: SparkSession
) -> None:
    """Pass: a new column is null, also one within a table; one that is gone is left out; INT becomes BIGINT."""
    _stored(log, "n INT, old STRING, t STRUCT<a: INT>", (1, "gone", {"a": 7}), (2, None, None))
    columns = "n BIGINT, fresh DATE, t STRUCT<b: STRING, a: BIGINT>"
    _stored(log, columns, (3, None, {"b": "there", "a": 8}))
    found = _read_now(log, columns, 2)
    assert [(row["n"], row["fresh"], row["t"]) for row in found] == [
        (1, None, {"b": None, "a": 7}), (2, None, None), (3, None, {"b": "there", "a": 8}),
    ]  # fmt: skip


def test_a_value_that_does_not_fit_into_a_new_type_ends_the_run(
    log: Log, spark: SparkSession
) -> None:
    """Pass: the error names segment, column and both types; values that fit are read."""
    _stored(log, "n BIGINT", (5,), (2**40,))
    with pytest.raises(LogError, match=r"stored when the column n was int64, and it is int32 now"):
        _read_now(log, "n INT", 1)
    with pytest.raises(LogError, match="column n was int64, and it is"):
        _read_now(log, "n ARRAY<INT>", 1)


@pytest.mark.parametrize("columns", ["n BIGINT, more INT", "", "n STRING"])
def test_other_columns_can_be_refused(log: Log, spark: SparkSession, columns: str) -> None:
    """Pass: `on_new_columns: fail` tells both, and reads what is alike."""
    _stored(log, "n BIGINT", (5,))
    assert [row["n"] for row in _read_now(log, "n BIGINT", 1, evolves=False)] == [5]
    with pytest.raises(LogError, match="was stored with the columns .* and the source has"):
        _read_now(log, columns, 1, evolves=False)


@pytest.mark.parametrize("kind", ["VARIANT", "ARRAY<VARIANT>", "STRUCT<a: INTERVAL DAY TO SECOND>"])
def test_what_spark_alone_has_is_no_column_of_a_log(kind: str) -> None:
    """Pass: an error of the plugin that names the column."""
    made = type("Wrong", (Placed,), {"extra": f"n {kind}"})
    with pytest.raises(TypeError, match="no column of a log is `?n`?"):
        made(IngressOptions()).shape()


@pytest.mark.parametrize("extra", ["value STRING", "origin STRING", "partition BIGINT"])
def test_no_other_message_column_is_a_sources_own(extra: str) -> None:
    made = type("Wrong", (Placed,), {"extra": extra})
    with pytest.raises(TypeError, match="is a message's column"):
        made(IngressOptions()).shape()


def test_whether_all_is_whole_is_stored(log: Log) -> None:
    """Pass: what the receiver says after what it gave, with messages and with a cursor alone."""
    store = store_of(log)

    class Parted(Moving):
        def complete(self) -> bool:
            return self.at in ("a", "c", "e")

    steps = (
        (messages(1), "a"),
        (messages(2), "b"),
        (messages(3), "c"),
        (messages(4), "d"),
        ([], "e"),
    )
    with Work(Parted(*steps), store):
        wait_for(lambda: log.cursors() == {0: "e"})
    folder = log.receiver(0)
    assert [log.header("0", number).complete for number in range(4)] == [True, False, True, False]
    assert [ends_complete(folder, end) for end in range(5)] == [True, True, False, True, True]
