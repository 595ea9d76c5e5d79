"""Storing: each id once, whichever receiver it reaches, as long as it is remembered."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from ingress_far import HERE, messages, store_of, values_in
from mainstem_ingress import LogError, Message, Values
from mainstem_ingress import retention as retention_module
from mainstem_ingress import segments as segments_module
from mainstem_ingress import writer as storing_module
from mainstem_ingress.log import Log
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import (
    IDS_SUFFIX,
    as_batch,
    file_of,
    numbers,
    open_segment,
    read_header,
    schema_of,
)
from mainstem_ingress.writer import Store


class Clock:
    """The time, in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        for module in (storing_module, retention_module):
            monkeypatch.setattr(module, "time", self)

    monotonic = staticmethod(time.monotonic)

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def read_all(log: Log) -> None:
    """Let a consumer have read everything, and remove what may be removed."""
    with log.consumers.locked():
        log.consumers.put("all", log.ends())
    for name in log.receivers():
        Retention(log, name, IngressOptions()).tidy_whole()


def test_a_second_copy_within_a_group_is_dropped(log: Log) -> None:
    store = store_of(log)
    store.store(messages(1, 2, 1, 3, 3, ids=True))
    assert values_in(log) == [1, 2, 3]
    assert (store.counts.stored, store.counts.duplicates) == (3, 2)


def test_a_second_copy_in_a_later_group_is_dropped(log: Log) -> None:
    store = store_of(log)
    for group in ([1, 2], [2, 3], [1, 2, 3]):
        store.store(messages(*group, ids=True))
    assert values_in(log) == [1, 2, 3]
    assert store.next == 2, "a group of duplicates alone makes no segment"
    assert store.counts.duplicates == 4


def test_a_group_of_too_many_bytes_becomes_several_segments(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: all are there in order, with their ids and where to go on; one too large alone is an error."""
    monkeypatch.setattr(segments_module, "_MOST", 100)
    given = [Message(b"%d" % n * 25, id=b"%d" % n, cursor=f"{n}") for n in range(9)]
    store = store_of(log)
    store.store(given)
    store.store(Values([b"9" * 60, b"9" * 50], cursor="10"))
    assert [len(open_segment(file_of(store.folder, n))[1]) for n in range(store.next)] == [
        *(4, 2, 3),
        *(1, 1),
    ]
    found = [int(value) for value in values_in(log)[:9]]
    assert found == [int(b"%d" % n * 25) for n in range(9)]
    assert store.counts.stored == 11
    again = store_of(log)
    assert again.cursor == store.cursor == "10"
    again.store(given)
    assert again.counts.duplicates == 9
    with pytest.raises(OverflowError):
        again.store([Message(bytes(101))])


def test_a_group_of_several_segments_of_which_the_second_fails_is_stored_once(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: the disk is full after the first; when the group comes again, only the rest is stored."""
    monkeypatch.setattr(segments_module, "_MOST", 100)
    given = [Message(b"%d" % n * 25, id=b"%d" % n) for n in range(9)]
    store, written = store_of(log), []
    real = storing_module.write

    def write(*arguments: object) -> int:
        written.append(arguments)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "no room")
        return real(*arguments)

    monkeypatch.setattr(storing_module, "write", write)
    with pytest.raises(OSError, match="no room"):
        store.store(given)
    assert values_in(log) == [int(b"%d" % n * 25) for n in range(4)]
    store.store(given)
    assert values_in(log) == [int(b"%d" % n * 25) for n in range(9)]
    assert store.counts.duplicates == 4


def test_what_was_renamed_before_a_kill_is_safe_before_it_counts(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pass: a folder is synced before its ids are learned, and those of others before a copy of what is
    in them counts as stored."""
    store_of(log, 0).store(messages(1, ids=True))
    synced: list[str] = []
    monkeypatch.setattr(storing_module, "sync_folder", lambda folder: synced.append(folder.name))

    def told(name: str) -> None:
        learn = getattr(Store, name)
        monkeypatch.setattr(Store, name, lambda self: (synced.append("learn"), learn(self)))

    told("_learn")
    told("_learn_all")
    another = store_of(log, 1)
    assert synced == ["1", "learn"]
    synced.clear()
    another.store(messages(2, ids=True))
    assert synced == ["learn"]
    another.store(messages(1, ids=True))
    assert synced == ["learn", "learn", "0"]
    assert values_in(log) == [1, 2]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_second_copy_that_reaches_another_receiver_is_dropped(
    log: Log, order: tuple[int, int]
) -> None:
    stores = {number: store_of(log, number) for number in (0, 1)}
    first, second = (stores[number] for number in order)
    first.store(messages(1, 2, ids=True))
    second.store(messages(2, 3, ids=True))
    first.store(messages(3, 4, ids=True))
    second.store(messages(1, 4, 5, ids=True))
    assert values_in(log, order[0]) == [1, 2, 4]
    assert values_in(log, order[1]) == [3, 5]


def test_a_receiver_that_begins_later_knows_what_the_others_have(log: Log) -> None:
    store_of(log, 0).store(messages(1, ids=True))
    late = store_of(log, 5)
    late.store(messages(1, 2, ids=True))
    store_of(log, 1).store(messages(2, 3, ids=True))
    late.store(messages(3, 4, ids=True))
    assert sorted(values_in(log)) == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [0, 1])
def test_ids_are_known_after_a_restart(log: Log, number: int) -> None:
    store_of(log).store(messages(1, ids=True))
    store_of(log).store(messages(2, ids=True))
    store_of(log, number).store(messages(1, 2, 3, ids=True))
    assert values_in(log) == [1, 2, 3]


@pytest.mark.parametrize("number", [0, 1])
def test_ids_outlast_their_segments(log: Log, number: int) -> None:
    store = store_of(log)
    for n in range(4):
        store.store(messages(n, ids=True))
    read_all(log)
    assert numbers(store.folder) == [3]
    assert numbers(store.folder, IDS_SUFFIX) == [2]
    store_of(log, number).store(messages(0, 1, 2, 3, 4, ids=True))
    assert values_in(log) == [3, 4]


def test_the_ids_file_keeps_what_its_segment_said(log: Log) -> None:
    store = store_of(log)
    store.store(messages(1, 2, ids=True))
    store.store(messages(3, ids=True))
    header = read_header(file_of(store.folder, 0))
    read_all(log)
    assert read_header(file_of(store.folder, 0, IDS_SUFFIX)) == header


def test_a_slow_receiver_learns_what_came_and_went_meanwhile(log: Log) -> None:
    """Segments with and without ids, whole and removed, stored since it last looked."""
    quick, slow = store_of(log, 0), store_of(log, 1)
    slow.store(messages(100, ids=True))
    quick.store(messages(1, ids=True))
    slow.store(messages(101, ids=True))
    quick.store(messages(2, ids=True))
    quick.store(messages(3))  # leaves nothing behind
    quick.store(messages(4, ids=True))
    quick.store(messages(5))
    read_all(log)
    quick.store(messages(6, ids=True))
    assert numbers(quick.folder) == [4, 5]
    slow.store(messages(1, 2, 4, 6, 7, ids=True))
    quick.store(messages(8, ids=True))
    slow.store(messages(8, 9, ids=True))
    assert values_in(log, 1)[-2:] == [7, 9]


def test_a_slow_receiver_learns_though_ids_have_gone_as_well(log: Log, clock: Clock) -> None:
    quick = store_of(log, 0, duplicates_within="10 s")
    retention = Retention(log, "0", IngressOptions(duplicates_within="10 s"))
    slow = store_of(log, 1, duplicates_within="10 s")
    quick.store(messages(1, ids=True))
    slow.store(messages(2, ids=True))
    for n in range(3, 6):
        quick.store(messages(n, ids=True))
    clock.now += 60
    quick.store(messages(6, ids=True))
    with log.consumers.locked():
        log.consumers.put("all", log.ends())
    retention.tidy_whole()
    assert numbers(quick.folder, IDS_SUFFIX) == []
    slow.store(messages(6, 7, ids=True))
    assert values_in(log, 1) == [2, 7]


def test_a_segment_that_is_removed_while_it_is_looked_for(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are removed under another lock than that of storing."""
    quick, slow = store_of(log, 0), store_of(log, 1)
    for n in range(3):
        quick.store(messages(n, ids=True))
    listed = storing_module.numbers
    seen: list[object] = []

    def then_remove(folder: Path, suffix: str = ".segment") -> list[int]:
        found = listed(folder, suffix)
        if folder == quick.folder and not seen:
            seen.append(folder)
            read_all(log)
        return found

    monkeypatch.setattr(storing_module, "numbers", then_remove)
    late = store_of(log, 2)
    assert numbers(quick.folder) == [2]
    late.store(messages(0, 1, 2, 3, ids=True))
    slow.store(messages(0, 1, 2, 3, 4, ids=True))
    assert sorted(values_in(log, 1, 2)) == [3, 4]


def test_a_damaged_segment_of_another_receiver_is_not_passed_over(log: Log) -> None:
    store_of(log, 0).store(messages(1, ids=True))
    other = store_of(log, 1)
    damaged = file_of(log.receiver(0), 1)
    damaged.write_bytes(b"no segment")
    with pytest.raises(LogError, match=r"receivers/0/000000000001\.segment"):
        other.store(messages(1, 2, ids=True))
    with pytest.raises(LogError, match=r"receivers/0/000000000001\.segment"):
        store_of(log, 2)


def test_beyond_the_horizon_an_id_is_new(log: Log, clock: Clock) -> None:
    store = store_of(log, duplicates_within="10 s")
    store.store(messages(1, ids=True))
    clock.now += 10
    store.store(messages(1, ids=True))
    assert values_in(log) == [1]
    clock.now += 30
    store.store(messages(2, ids=True))
    clock.now += 30
    store.store(messages(1, ids=True))
    assert values_in(log) == [1, 2, 1]


@pytest.mark.parametrize(("age", "found"), [(9.0, [1, 2]), (11.0, [1, 2, 1])])
def test_a_restart_learns_the_horizon_and_no_more(
    log: Log, clock: Clock, age: float, found: list[int]
) -> None:
    store = store_of(log, duplicates_within="10 s")
    store.store(messages(1, ids=True))
    clock.now += age
    store.store(messages(2, ids=True))
    store_of(log, duplicates_within="10 s").store(messages(1, 2, ids=True))
    assert values_in(log) == found


def test_ids_do_not_age_while_nobody_takes(log: Log, clock: Clock) -> None:
    """What was stored and not acknowledged comes again, however long that takes; in several groups."""
    options = {"duplicates_within": "10 s"}
    store_of(log, **options).store(messages(1, 2, 3, ids=True))
    clock.now += 1000
    store = store_of(log, **options)
    store.store(messages(1, 4, ids=True))
    read_all(log)
    clock.now += 1000
    store.away(1000)
    store.store(messages(2, ids=True))
    store.store(messages(3, 5, ids=True))
    assert values_in(log)[-1] == 5
    assert store.counts.duplicates == 3
    clock.now += 30
    store.store(messages(6, ids=True))
    clock.now += 30
    store.store(messages(1, ids=True))
    assert store.counts.duplicates == 3


def test_a_restart_remembers_the_newest_ids_of_all_receivers(log: Log, clock: Clock) -> None:
    """Though each receiver has stored more than are remembered."""
    options = {"duplicates_most": 1000, "receivers": 2}
    first, second = (store_of(log, number, **options) for number in (0, 1))
    for start in range(0, 2500, 50):
        first.store(messages(*range(start, start + 50), ids=True))
        second.store(messages(*range(10_000 + start, 10_050 + start), ids=True))
        clock.now += 1
    again = store_of(log, 0, **options)
    again.store(messages(*range(2450, 2500), ids=True))
    assert again.counts.duplicates == 50


def test_ids_files_go_when_the_horizon_has_passed(log: Log, clock: Clock) -> None:
    store = store_of(log, duplicates_within="10 s")
    retention = Retention(log, "0", IngressOptions(duplicates_within="10 s"))
    for n in range(3):
        store.store(messages(n, ids=True))
        clock.now += 4
    log.consumers.folder.mkdir()
    log.consumers.put("all", log.ends())
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == [1]
    clock.now += 4
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == []


def test_ids_files_of_before_a_long_stop_stay_for_the_horizon_and_no_longer(
    log: Log, clock: Clock
) -> None:
    """Pass: a second kill soon after a stop forgets nothing, and what came since goes in its time."""
    options = {"duplicates_within": "10 s"}
    store_of(log, **options).store(messages(1, ids=True))
    clock.now += 1000
    store = store_of(log, **options)
    retention = Retention(log, "0", IngressOptions(duplicates_within="10 s"))
    store.store(messages(2, ids=True))
    store.store(messages(3, ids=True))
    log.consumers.folder.mkdir()
    log.consumers.put("all", log.ends())
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == [1]
    clock.now += 9
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == [1]
    clock.now += 2
    retention.tidy(store.next, store.bytes)
    assert numbers(store.folder, IDS_SUFFIX) == []


def test_a_horizon_of_nothing_drops_nothing(log: Log) -> None:
    store = store_of(log, duplicates_within=timedelta(0))
    store.store(messages(1, 1, ids=True))
    store.store(messages(1, ids=True))
    assert values_in(log) == [1, 1, 1]


def test_rows_without_an_id_are_never_dropped(log: Log) -> None:
    stores = [store_of(log, 0), store_of(log, 1)]
    mixed = [*messages(1, 1), *messages(2, ids=True), *messages(1), *messages(2, ids=True)]
    for store in stores:
        store.store(messages(1, 1))
        store.store(mixed)
    assert values_in(log, 0) == [1, 1, 1, 1, 2, 1]
    assert values_in(log, 1) == [1, 1, 1, 1, 1]
    assert stores[1].counts.duplicates == 2


def test_an_empty_id_is_an_id(log: Log) -> None:
    store = store_of(log)
    store.store([Message(b"1", id=b""), Message(b"2", id=b"")])
    assert values_in(log) == [1]


def test_a_group_that_was_not_written_is_not_remembered(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(log)

    def full(*_: object) -> int:
        raise OSError(28, "no room")

    with monkeypatch.context() as broken:
        broken.setattr(storing_module, "write", full)
        with pytest.raises(OSError, match="no room"):
            store.store(messages(1, 2, ids=True))
    assert store.counts.taken == 0
    store.store(messages(1, 2, 3, ids=True))
    assert values_in(log) == [1, 2, 3]


def test_counts_are_of_what_was_taken(log: Log) -> None:
    store = store_of(log)
    store.store([*messages(1, 1, 2, ids=True), Message(b"3", refused="no")])
    assert (store.counts.stored, store.counts.duplicates, store.counts.refused) == (2, 1, 1)
    assert store.counts.taken == 4


@pytest.mark.parametrize("ids", [False, True])
def test_the_cursor_is_that_of_the_last_message_taken(log: Log, ids: bool) -> None:
    def given(*numbers: int) -> list[Message]:
        return [m._replace(cursor=m.value.decode()) for m in messages(*numbers, ids=ids)]

    store = store_of(log)
    assert store.cursor is None
    store.store(given(1, 2))
    assert store.cursor == store_of(log).cursor == "2"
    store.store(given(3, 1))  # with ids the last one is dropped, and is passed all the same
    assert store.cursor == store_of(log).cursor == "1"
    store.store([*given(4), *messages(5, ids=ids)])
    assert store_of(log).cursor == "4"
    store.store(messages(6, ids=ids))
    assert store.cursor == store_of(log).cursor == "4", "a message without a cursor changes none"


def test_more_than_offsets_reach_is_no_batch() -> None:
    """Not made with what would be read as other values."""
    large = bytes(2**30)
    for given in ([Message(large), Message(large)], Values([large, large])):
        with pytest.raises(OverflowError, match="too many for one segment"):
            as_batch(given, None, schema_of())


STORING = """
import sys
from ingress_far import messages, store_of
from mainstem_ingress.log import Log
from pathlib import Path
import random

folder, number, count, seed = sys.argv[1], *map(int, sys.argv[2:])
store = store_of(Log(Path(folder)), number)
order = list(range(count))
random.Random(seed).shuffle(order)
chance = random.Random(number)
while order:
    print("ready", flush=True)
    sys.stdin.readline()
    size = chance.randint(1, 40)
    store.store(messages(*order[:size], ids=True))
    del order[:size]
print(store.counts.stored, store.counts.duplicates)
"""


def stored_by_two(log: Log, count: int, seeds: tuple[int, int]) -> list[tuple[int, int]]:
    """Let two processes store the same ids at once; return what each counted.

    They begin each batch together: one that has the processor for itself would be done before the other.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-c", STORING, log.folder, str(number), str(count), str(seed)],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, seed in enumerate(seeds)
    ]
    told: dict[int, tuple[int, int]] = {}
    while len(told) < len(running):
        ready = []
        for number, process in enumerate(running):
            if number in told:
                continue
            assert process.stdout is not None
            line = process.stdout.readline()
            if line == "ready\n":
                ready.append(process)
            else:
                stored, duplicates = line.split()
                told[number] = (int(stored), int(duplicates))
        for process in ready:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
    return [told[number] for number in range(len(running))]


@pytest.mark.parametrize(
    ("count", "seeds"),
    [
        (2000, (1, 1)),
        (2000, (1, 2)),
        pytest.param(40_000, (1, 1), marks=pytest.mark.slow),
        pytest.param(40_000, (1, 2), marks=pytest.mark.slow),
    ],
)
@pytest.mark.in_turn
def test_two_processes_that_store_the_same_ids_store_each_once(
    log: Log, count: int, seeds: tuple[int, int]
) -> None:
    """In the same order, so that they meet at every id; and in two orders."""
    told = stored_by_two(log, count, seeds)
    assert Counter(values_in(log)) == Counter(range(count))
    assert sum(stored for stored, _ in told) == count
    assert sum(duplicates for _, duplicates in told) == count
    if seeds[0] != seeds[1]:  # in the same order one may always be the later one
        assert all(stored for stored, _ in told), "both were at work"


@pytest.mark.parametrize(
    "odd",
    [
        {"timestamp": 2**70},
        {"headers": [("\ud800", b"x")]},
        {"key": "text"},
        {"value": "text"},
        {"origin": 7},
    ],
)
def test_a_message_that_no_column_can_hold_is_refused_and_the_others_are_stored(tmp_path, odd):
    """Pass: its neighbours are as they were, and it is there with the reason."""
    log = Log(tmp_path)
    log.receiver(0).mkdir(parents=True)
    store = storing_module.Store(log, 0, IngressOptions())
    good = Message(b"good", origin="q")
    store.store([good, Message(**{"value": b"odd", **odd}), good])
    rows = open_segment(file_of(log.receiver(0), 0))[1].to_pylist()
    assert [row["value"] for row in rows][::2] == [b"good", b"good"]
    assert [row["_reason"] is None for row in rows] == [True, False, True]
    assert "can't be stored" in rows[1]["_reason"]
    assert (store.counts.stored, store.counts.refused) == (2, 1)
