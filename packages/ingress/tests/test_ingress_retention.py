"""Retention: what everybody has read goes, what somebody wants stays, and no reader is surprised."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from ingress_far import (
    Far,
    FarOptions,
    Process,
    QueueReceiver,
    messages,
    store_of,
    values_in,
    wait_for,
)
from ingress_far_plugin import FarQueue
from mainstem import Reached
from mainstem.durable import read_whole
from mainstem_ingress import LogError
from mainstem_ingress import log as log_module
from mainstem_ingress import retention as retention_module
from mainstem_ingress import writer as storing_module
from mainstem_ingress.log import Log, end_since, run_of
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import ID, IDS_SUFFIX, file_of, numbers, open_segment, write
from mainstem_ingress.writer import Store


def filled(log: Log, number: int = 0, count: int = 10) -> Store:
    store = store_of(log, number)
    for n in range(count):
        store.store(messages(n))
    log.consumers.folder.mkdir(exist_ok=True)
    return store


def tidy(store: Store, **options: object) -> list[int]:
    """Tidy up once, and return which segments are left."""
    Retention(store.log, store.name, IngressOptions(**options)).tidy(store.next, store.bytes)
    return numbers(store.folder)


def test_nothing_goes_while_nobody_has_come(log: Log) -> None:
    assert tidy(filled(log)) == list(range(10))


def test_what_is_behind_every_consumer_goes(log: Log) -> None:
    store = filled(log)
    retention = Retention(log, "0", IngressOptions())
    for slow, quick, left in ((0, 9, 0), (3, 9, 3), (3, 10, 3), (8, 10, 8), (10, 10, 9)):
        log.consumers.put("slow", {"0": slow})
        log.consumers.put("quick", {"0": quick})
        retention.tidy(store.next, store.bytes)
        assert numbers(store.folder) == list(range(left, 10))
        assert retention.first == log.earliest("0") == left


def test_the_newest_stays_and_tells_where_to_go_on(log: Log) -> None:
    store = filled(log)
    log.consumers.put("all", {"0": 10})
    assert tidy(store) == [9]
    again = store_of(log)
    assert (again.next, again.rows, again.bytes) == (10, 10, store.bytes)


def test_a_consumer_that_knows_no_receiver_of_that_number_wants_all_of_it(log: Log) -> None:
    store = filled(log)
    other = filled(log, 1)
    log.consumers.put("old", {"0": 10})
    assert tidy(store) == [9]
    assert tidy(other) == list(range(10))


def test_a_consumer_that_is_forgotten_holds_nothing(log: Log) -> None:
    store = filled(log)
    log.consumers.put("gone", {"0": 2})
    log.consumers.put("here", {"0": 7})
    assert tidy(store) == list(range(2, 10))
    assert log.consumers.forget("gone")
    assert not log.consumers.forget("gone")
    assert tidy(store) == [7, 8, 9]


def test_a_consumer_that_has_not_begun_is_held_for_and_one_that_has_keeps_its_place(
    log: Log,
) -> None:
    """Pass: what there was when it was announced stays for it; announced again, it is where it was."""
    store = filled(log)
    log.hold("waiting")
    log.consumers.put("quick", {"0": 10})
    assert tidy(store) == list(range(10))
    log.consumers.put("waiting", {"0": 4})
    log.hold("waiting")
    assert tidy(store) == list(range(4, 10))


def test_a_read_is_held_for_from_the_moment_its_frame_is_made(log: Log) -> None:
    """Pass: before Spark asks where to begin, which is when the read's turn comes."""
    store = filled(log)
    log.consumers.put("quick", {"0": 10})
    ctx = MagicMock(read_name="test.joined.events", wanted=frozenset())
    FarQueue(FarOptions(folder=str(log.folder))).load(ctx)
    (reading,) = ctx.read_planned.call_args.args
    assert reading.consumer == "test.joined.events"
    assert tidy(store) == list(range(10))


def test_progress_that_cannot_be_read_removes_nothing(log: Log) -> None:
    store = filled(log)
    log.consumers.put("all", {"0": 10})
    log.consumers.file("broken").write_text('{"0":')
    with pytest.raises(LogError, match=r"consumers/broken\.json can't be read"):
        tidy(store)
    assert numbers(store.folder) == list(range(10))


@pytest.mark.in_turn
def test_progress_is_never_seen_half_written(log: Log) -> None:
    filled(log)
    stop = threading.Event()
    faults: list[BaseException] = []

    def look() -> None:
        try:
            while not stop.is_set():
                log.consumers.all()
        except BaseException as error:
            faults.append(error)

    log.consumers.put("a b/c", {"0": 0})
    thread = threading.Thread(target=look)
    thread.start()
    for n in range(500):
        log.consumers.put("a b/c", {str(r): n for r in range(50)})
    stop.set()
    thread.join()
    assert not faults
    assert list(log.consumers.all().values()) == [{str(r): 499 for r in range(50)}]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return self.now


def test_what_is_kept_by_time(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in (storing_module, retention_module):
        monkeypatch.setattr(module, "time", clock)
    store = store_of(log)
    for n in range(10):
        store.store(messages(n))
        clock.now += 60
    log.consumers.folder.mkdir()
    log.consumers.put("all", {"0": 8})
    assert tidy(store, keep="1 hour") == list(range(10))
    assert tidy(store, keep="5 minutes") == list(range(5, 10))
    clock.now += 120
    assert tidy(store, keep="5 minutes") == list(range(7, 10))
    clock.now += 3600
    assert tidy(store, keep="5 minutes") == [8, 9], "nobody has read them"
    log.consumers.put("all", {"0": 10})
    assert tidy(store, keep="5 minutes") == [9]


def test_what_is_kept_by_size(log: Log) -> None:
    store = filled(log)
    size = file_of(store.folder, 0).stat().st_size
    assert 9 * size < store.bytes < 11 * size
    log.consumers.put("all", {"0": 8})
    assert tidy(store, keep=21 * size // 2) == list(range(10))
    assert tidy(store, keep=9 * size // 2) == [6, 7, 8, 9]
    assert tidy(store, keep=9 * size, receivers=4) == [8, 9], "receivers share it"
    log.consumers.put("all", {"0": 10})
    assert tidy(store, keep=1) == [9]


def test_unread_bytes_are_those_of_the_slowest(log: Log) -> None:
    store = filled(log)
    retention = Retention(log, "0", IngressOptions())
    sizes = [file_of(store.folder, n).stat().st_size for n in range(10)]
    assert retention.unread(store.next, store.bytes) == sum(sizes)
    log.consumers.put("quick", {"0": 10})
    assert retention.unread(store.next, store.bytes) == 0
    log.consumers.put("slow", {"0": 7})
    assert retention.unread(store.next, store.bytes) == sum(sizes[7:])
    assert Retention(log, "0", IngressOptions()).unread(0, 0) == 0


def test_a_consumer_that_comes_in_while_segments_go_finds_what_it_was_told(log: Log) -> None:
    """Looking for the first segment and saying that it is wanted is one step, for those who remove."""
    store = filled(log, count=60)
    log.consumers.put("quick", {"0": 60})
    came: list[tuple[int, bool]] = []
    stop = threading.Event()

    def come() -> None:
        while not stop.is_set():
            with log.consumers.locked():
                first = log.earliest("0")
                log.consumers.put("new", {"0": first})
            came.append((first, file_of(store.folder, first).exists()))
            log.consumers.forget("new")

    thread = threading.Thread(target=come)
    thread.start()
    retention = Retention(log, "0", IngressOptions())

    def all_gone() -> bool:
        retention.tidy(store.next, store.bytes)
        return retention.first == 59

    try:
        wait_for(all_gone)
    finally:
        stop.set()
        thread.join()
    assert came
    assert all(there for _, there in came)


@pytest.mark.parametrize(
    ("found", "run"),
    [
        ([], (0, 0)),
        ([0], (0, 1)),
        ([7], (7, 8)),
        ([3, 4, 5], (3, 6)),
        ([0, 1, 5, 6], (5, 7)),
        ([0, 2, 4], (4, 5)),
    ],
)
def test_the_run_that_ends_with_the_newest_counts(found: list[int], run: tuple[int, int]) -> None:
    assert run_of(found) == run


def test_files_that_came_back_are_not_read_again(log: Log) -> None:
    store = filled(log)
    back = file_of(store.folder, 1)
    content = back.read_bytes()
    log.consumers.put("all", {"0": 6})
    assert tidy(store) == [6, 7, 8, 9]
    back.write_bytes(content)
    assert (log.earliest("0"), log.end("0")) == (6, 10)
    again = Retention(log, "0", IngressOptions())
    assert again.first == 6
    log.consumers.put("all", {"0": 8})
    again.tidy(store.next, store.bytes)
    assert log.earliest("0") == 8
    assert store_of(log).next == 10


def test_an_end_is_found_from_an_older_one(log: Log) -> None:
    """Also where all that was there then has been removed."""
    store = filled(log, count=4)
    folder = store.folder
    assert [end_since(folder, n) for n in (0, 2, 4)] == [4, 4, 4]
    assert log.end("0", 4) == 4
    for n in range(4, 9):
        store.store(messages(n))
    log.consumers.put("all", {"0": 9})
    assert tidy(store) == [8]
    assert end_since(folder, 4) is None
    assert log.end("0", 4) == 9
    assert [end_since(folder, n) for n in (8, 9)] == [9, 9]
    assert end_since(folder, 0) is None


def test_lag_is_counted_from_a_segment_on(log: Log) -> None:
    filled(log, count=4)
    rows, oldest = log.unread("0", 1)
    assert (rows, oldest) == (3, log.header("0", 1).created)
    assert log.unread("0", 4) == (0, 0.0)


def test_names_that_are_no_receivers_are_passed_over(log: Log) -> None:
    filled(log, 10)
    filled(log, 9)
    (log.folder / "receivers" / "lost+found").mkdir()
    assert log.receivers() == ["9", "10"]
    assert Log(log.folder / "nowhere").receivers() == []


@pytest.mark.in_turn
def test_a_receiver_that_is_no_longer_wanted_is_read_and_tidied_by_the_first(
    far: Far, log: Log
) -> None:
    filled(log, 1)
    log.consumers.put("all", {"0": 0, "1": 4})
    options = FarOptions(port=far.port, receivers=1)
    far.put(messages(100))
    with Process(QueueReceiver, log, options) as process:
        wait_for(lambda: numbers(log.receiver(1)) == list(range(4, 10)))
        process.told.wait_for(rows=1)
        assert values_in(log) == [100, *range(4, 10)]
        log.consumers.put("all", {"0": 1, "1": 10})
        wait_for(lambda: numbers(log.receiver(1)) == [9])
        # Nobody else can write there meanwhile.
        with Process(QueueReceiver, log, FarOptions(port=far.port, receivers=2), 1) as second:
            second.told.wait_for(state="elsewhere")
            assert process.release() == 0
            second.told.wait_for(state="running")
            far.put(messages(101))
            second.told.wait_for(rows=1)
    assert numbers(log.receiver(1))[-1] == 10
    assert values_in(log, 1)[-1] == 101


@pytest.mark.in_turn
def test_a_receiver_that_works_keeps_its_folder_for_itself(far: Far, log: Log) -> None:
    """The first one, started again with fewer receivers, while the second still runs."""
    with Process(QueueReceiver, log, FarOptions(port=far.port, receivers=2), 1) as second:
        second.told.wait_for(state="running")
        far.put(messages(1))
        second.told.wait_for(rows=1)
        with Process(QueueReceiver, log, FarOptions(port=far.port, receivers=1)) as first:
            first.told.wait_for(state="running")
            assert second.release() == 0
            assert first.release() == 0
    assert values_in(log) == [1]


def test_consumers_are_what_the_folder_says(log: Log, tmp_path: Path) -> None:
    assert log.consumers.all() == {}
    assert log.consumers.floor("0") == 0
    with log.consumers.locked():
        log.consumers.put("q", {"0": 3, "2": 1})
    assert json.loads(read_whole(log.consumers.file("q"))) == {"0": 3, "2": 1}
    assert [log.consumers.floor(r) for r in ("0", "1", "2")] == [3, 0, 1]


def test_a_listing_that_misses_a_file_is_no_gap(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is written to is listed without one of its files: the first is still the first."""
    filled(log)
    monkeypatch.setattr(log_module, "numbers", lambda _: [0, 1, 2, 3, 4, 5, 6, 8, 9])
    assert log.earliest("0") == 0
    assert log.end("0") == 10


def test_a_kill_between_ids_and_segment_leaves_nothing_that_trips_it_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids are there and the segment too: once the horizon has passed both are gone, quietly."""
    clock = Clock()
    for module in (storing_module, retention_module):
        monkeypatch.setattr(module, "time", clock)
    store = store_of(log)
    for n in range(3):
        store.store(messages(n, ids=True))
    log.consumers.folder.mkdir()
    log.consumers.put("all", {"0": 3})
    header, batch = open_segment(file_of(store.folder, 0))
    write(store.folder, header, batch.select([ID]), IDS_SUFFIX)
    retention = Retention(log, "0", IngressOptions())
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == [0, 1]
    clock.now += 3601
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == []
    assert numbers(store.folder) == [2]


def test_much_that_is_to_go_goes_in_pieces(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that removes has messages to take: one call ends after a piece, and the ids of a piece
    are in one file."""
    store = filled(log, count=0)
    for n in range(25):
        store.store(messages(n, ids=True))
    log.consumers.put("all", {"0": 25})
    monkeypatch.setattr(retention_module, "_TOGETHER", 10)
    monkeypatch.setattr(retention_module, "_PATIENCE", 0.0)
    retention = Retention(log, "0", IngressOptions())
    left = []
    while not retention.tidy(store.next, store.bytes):
        left.append((len(numbers(store.folder)), numbers(store.folder, IDS_SUFFIX)))
    assert left == [(15, [9]), (5, [9, 19]), (1, [9, 19, 23])]
    again = store_of(log)
    again.store(messages(*range(26), ids=True))
    assert again.counts.duplicates == 25


def test_the_source_tells_what_is_gone_since_a_point_and_since_the_beginning(log: Log) -> None:
    source = FarQueue(
        FarQueue.options_model().model_validate({"port": 1, "folder": str(log.folder)})
    )
    store = filled(log)

    def gone(offset: dict[str, int] | None) -> str:
        return source.gone(Reached(offset, log.folder, log.folder))

    assert gone(None) == gone({"0": 0}) == ""
    log.consumers.put("reader", {"0": 4})
    tidy(store)
    assert gone(None) == gone({"0": 0}) == "segments 0 to 3 of receiver 0"
    assert gone({"0": 4}) == ""
