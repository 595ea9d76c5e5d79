"""Taking: nothing is acknowledged before it is durable, and what is away or full is waited for."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ingress_far import (
    Far,
    FarOptions,
    QueueReceiver,
    StreamReceiver,
    Tells,
    messages,
    store_of,
    values_in,
    wait_for,
)
from mainstem import PermanentError, TransientError
from mainstem_ingress import LogError, Message, Receiver, Values
from mainstem_ingress import loop as taking_module
from mainstem_ingress import segments as segments_module
from mainstem_ingress.log import Log
from mainstem_ingress.loop import Taking
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import REASON, file_of, numbers, open_segment
from mainstem_ingress.writer import Store

NEVER = "1 hour"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses be short, so that tests are."""
    for name, value in {
        "_FIRST_PAUSE": 0.01,
        "_TIDY_EVERY": 0.0,
        "_WAIT": 0.01,
        "_RETRY": 0.02,
    }.items():
        monkeypatch.setattr(taking_module, name, value)


Step = Sequence[Message] | Exception | Callable[[], Any]


class Scripted(Receiver):
    """Gives what a test says, step by step, and notes what is asked of it."""

    def __init__(self, *steps: Step, waits: int | None = 0) -> None:
        super().__init__(None, 0, "scripted")
        self.steps = list(steps)
        self.events: list[Any] = []
        self.cursors: list[str | None] = []
        self.idle = threading.Event()
        self.waits = waits
        self.refuses: list[Exception] = []
        self.on_acknowledge: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    def connect(self, cursor: str | None) -> None:
        self.events.append("connect")
        self.cursors.append(cursor)
        if self.refuses:
            raise self.refuses.pop(0)

    def take(self, seconds: float) -> Sequence[Message]:
        if not self.steps:
            self.idle.set()
            threading.Event().wait(seconds)
            return []
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step()
            return []
        return step

    def acknowledge(self, taken: Sequence[Message]) -> None:
        self.on_acknowledge()
        self.events.append(("acknowledge", [_number(m.value) for m in taken]))

    def close(self) -> None:
        self.events.append("close")
        self.on_close()

    def pause(self) -> None:
        self.events.append("pause")

    def resume(self) -> None:
        self.events.append("resume")

    def waiting(self) -> int | None:
        return self.waits

    def facts(self) -> dict[str, Any]:
        return {"server": "here"}

    @property
    def acknowledged(self) -> list[list[int]]:
        return [event[1] for event in self.events if event[0] == "acknowledge"]


def _number(value: bytes | None) -> int | None:
    return int(value) if value and len(value) < 9 else None


class Work:
    """A receiver at work in a thread."""

    def __init__(self, receiver: Receiver, store: Store, options: IngressOptions) -> None:
        self.told = Tells()
        self.stop = threading.Event()
        self.error: BaseException | None = None
        retention = Retention(store.log, store.name, options)
        self.store = store
        self._taking = Taking(receiver, store, [retention], options, self.told, self.stop)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            self._taking.work()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


@contextmanager
def working(
    receiver: Receiver, log: Log, options: type[IngressOptions] = IngressOptions, **given: Any
) -> Iterator[Work]:
    """Let a receiver work; it is told to stop at the end, and whatever it raised is raised."""
    made = options(**given)
    work = Work(receiver, store_of(log, **given if options is IngressOptions else {}), made)
    try:
        yield work
    finally:
        work.end()
    if work.error is not None:
        raise work.error


# -- storing and acknowledging --------------------------------------------------------------------


def test_it_is_acknowledged_after_all_is_safe(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Scripted(messages(1, 2))
    fsync = os.fsync

    def note(name: str) -> bool:
        receiver.events.append(name)
        return False

    def noted(opened: int) -> None:
        fsync(opened)
        receiver.events.append(f"fsync {Path(f'/proc/self/fd/{opened}').readlink().name}")

    def look() -> None:
        assert values_in(log) == [1, 2]
        assert not list(log.receiver(0).glob("*.new"))

    receiver.on_acknowledge = look
    for module in (segments_module, taking_module):
        monkeypatch.setattr(module, "failpoint", note)
    monkeypatch.setattr(segments_module.os, "fsync", noted)
    with working(receiver, log, linger="0 s"):
        receiver.idle.wait(30)
    assert receiver.events == [
        "fsync 0",  # what another may have left there
        "connect",
        "ingress.before-write",
        "ingress.after-write",
        "fsync 000000000000.segment.new",
        "ingress.after-fsync",
        "ingress.after-rename",
        "fsync 0",
        "ingress.after-folder-fsync",
        "ingress.before-acknowledge",
        ("acknowledge", [1, 2]),
        "ingress.after-acknowledge",
        "close",
    ]


def segments(log: Log) -> list[list[int]]:
    folder = log.receiver(0)
    return [
        [int(v) for v in open_segment(file_of(folder, n))[1].column("value").to_pylist()]
        for n in numbers(folder)
    ]


def test_groups_by_rows(log: Log) -> None:
    receiver = Scripted(
        messages(1, 2), messages(3, 4), messages(5), messages(6, 7, 8, 9), messages(10)
    )
    with working(receiver, log, segment_rows=3, linger=NEVER):
        receiver.idle.wait(30)
        assert segments(log) == receiver.acknowledged == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert segments(log)[3:] == receiver.acknowledged[3:] == [[10]], (
        "what was in hand when told to stop"
    )


def test_what_is_taken_at_once_is_cut_where_each_part_can_be_the_last(log: Log) -> None:
    """Pass: columns too; not messages that say where the external system goes on after all of them."""
    receiver = Scripted(
        column(1, 2, 3, 4, 5, origin="a"),
        column(6, 7, 8, cursor="8"),
        [Message(b"9"), Message(b"10"), Message(b"11", cursor="11")],
    )
    with working(receiver, log, segment_rows=2, linger="0 s"):
        receiver.idle.wait(30)
        assert segments(log) == [[1, 2], [3, 4], [5], [6, 7, 8], [9, 10, 11]]


def test_what_goes_on_after_all_that_was_taken_is_one_segment(log: Log) -> None:
    """Pass: the receiver's own place is one of all that it has given, so that a part would be given again."""

    class Placed(Scripted):
        def cursor(self) -> str:
            return "here"

    receiver = Placed(messages(1, 2, 3, 4, 5))
    with working(receiver, log, segment_rows=2, linger="0 s"):
        receiver.idle.wait(30)
        assert segments(log) == [[1, 2, 3, 4, 5]]


def test_groups_by_bytes(log: Log) -> None:
    receiver = Scripted(messages(1111), messages(2222), messages(3333), messages(4444, 5555, 6666))
    with working(receiver, log, segment_bytes=10, linger=NEVER):
        receiver.idle.wait(30)
        wait_for(lambda: len(segments(log)) == 2)
    assert segments(log) == [[1111, 2222, 3333], [4444, 5555, 6666]]


def test_groups_by_time(log: Log) -> None:
    receiver = Scripted(messages(1), messages(2))
    with working(receiver, log, linger="50 ms"):
        wait_for(lambda: [n for group in receiver.acknowledged for n in group] == [1, 2])


def test_what_is_held_is_stored_at_once(log: Log) -> None:
    """Pass: of a receiver that gives no more before it is acknowledged, each group is stored without waiting."""

    class Holding(Scripted):
        def held(self) -> bool:
            return True

    receiver = Holding(messages(1, 2), messages(3))
    with working(receiver, log, linger=NEVER):
        wait_for(lambda: receiver.acknowledged == [[1, 2], [3]])


def column(*n: int, origin: str = "", cursor: str | None = None) -> Values:
    return Values([b"%d" % each for each in n], origin, cursor)


def test_columns_of_values_and_messages_come_together(log: Log) -> None:
    """Pass: all are there in order, each with its origin, and one that is too large is refused."""
    receiver = Scripted(
        column(1, 2, origin="a"),
        column(3, origin="a", cursor="c3"),
        column(4, origin="a"),
        column(5, origin="b"),
        [Message(b"6", key=b"k", origin="c")],
        column(7, 88888, 9, origin="c"),
        [],
        column(10, origin="c"),
        TransientError("away"),
    )
    with working(receiver, log, segment_rows=10, max_message=4, linger=NEVER):
        receiver.idle.wait(30)
    (rows,) = (open_segment(file_of(log.receiver(0), 0))[1].to_pylist(),)
    assert [int(row["value"]) for row in rows] == [1, 2, 3, 4, 5, 6, 7, 88888, 9, 10]
    assert [row["origin"] for row in rows] == ["a"] * 4 + ["b"] + ["c"] * 5
    assert [row["key"] for row in rows] == [None] * 5 + [b"k"] + [None] * 4
    refused = "its value has 5 bytes, and max_message is 4"
    assert [row[REASON] for row in rows] == [None] * 7 + [refused] + [None] * 2
    assert receiver.acknowledged == [[1, 2, 3, 4, 5, 6, 7, 88888, 9, 10]]
    assert receiver.cursors == [None, "c3"]


def test_a_group_of_columns_alone_tells_where_to_go_on(log: Log) -> None:
    receiver = Scripted(
        column(1, cursor="1"), column(2, 3, cursor="3"), column(4), TransientError("")
    )
    with working(receiver, log, segment_rows=4, linger=NEVER):
        receiver.idle.wait(30)
    assert segments(log) == receiver.acknowledged == [[1, 2, 3, 4]]
    assert receiver.cursors == [None, "3"]


def test_a_column_is_a_sequence_of_messages() -> None:
    found = column(1, 2, 3, origin="o", cursor="c")
    each = [Message(b"%d" % n, origin="o", cursor="c" if n == 3 else None) for n in (1, 2, 3)]
    assert list(found) == [found[0], found[1], found[2]] == each == found[:]
    assert (found[-1], found[-3], found[1:], len(found)) == (each[2], each[0], each[1:], 3)
    with pytest.raises(IndexError):
        found[3]


@pytest.mark.in_turn
def test_a_group_of_duplicates_alone_is_acknowledged(log: Log) -> None:
    receiver = Scripted(messages(1, ids=True), messages(1, ids=True))
    with working(receiver, log, segment_rows=1) as work:
        facts = work.told.wait_for(duplicates=1)
    assert receiver.acknowledged == [[1], [1]]
    assert facts["rows"] == 1
    assert values_in(log) == [1]


def test_what_is_told(log: Log) -> None:
    receiver = Scripted([*messages(1, 1, ids=True), Message(b"2", refused="no")])
    with working(receiver, log, linger="0 s") as work:
        facts = work.told.wait_for(rows=1)
    size = sum(f.stat().st_size for f in log.receiver(0).glob("*.segment"))
    assert {**facts, "ready": True} == {
        "state": "running", "why": "", "rows": 1, "duplicates": 1, "refused": 1,
        "unread_bytes": size, "ready": True, "gauges": {}, "server": "here",
    }  # fmt: skip
    assert [f["state"] for f in work.told][:2] == ["connecting", "running"]


# -- connections that break -----------------------------------------------------------------------


def test_who_is_away_is_waited_for_with_its_reason(log: Log) -> None:
    receiver = Scripted(messages(1), TransientError("the cable is out"), messages(1, 2))
    receiver.refuses = [TransientError("nobody there"), TransientError("still nobody")]
    with working(receiver, log, linger=NEVER) as work:
        receiver.idle.wait(30)
    told = [(f["state"], f["why"]) for f in work.told]
    waits = [why for state, why in told if state == "waiting"]
    assert waits == ["nobody there", "still nobody", "the cable is out"]
    assert segments(log) == [[1, 2]], "what was taken and not stored is forgotten"
    assert receiver.acknowledged == [[1, 2]]
    assert receiver.events[:4] == ["connect", "close", "connect", "close"]
    assert receiver.events.count("connect") == receiver.events.count("close") == 4


def test_ids_do_not_age_while_the_external_system_is_away(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_module, "_FIRST_PAUSE", 0.5)
    monkeypatch.setattr(taking_module, "_LONGEST_PAUSE", 30.0)
    receiver = Scripted(messages(1), TransientError("the cable is out"), messages(2))
    receiver.refuses = [TransientError("nobody there")]
    with working(receiver, log, linger="0 s") as work:
        receiver.idle.wait(30)
        behind = time.time() - work.store.now()
    assert 0.7 < behind < 30, "two pauses, of a quarter and of half a second at least"


def test_any_other_fault_is_waited_for_too(log: Log) -> None:
    receiver = Scripted(ValueError("odd frame"), messages(1))
    with working(receiver, log) as work:
        receiver.idle.wait(30)
    assert "ValueError: odd frame" in [f["why"] for f in work.told if f["state"] == "waiting"]
    assert values_in(log) == [1]


def test_an_acknowledgement_that_fails_doubles_nothing_with_ids(log: Log) -> None:
    receiver = Scripted(messages(1, ids=True), messages(1, 2, ids=True))
    failures = [TransientError("gone")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    receiver.on_acknowledge = fail_once
    with working(receiver, log, linger="0 s"):
        wait_for(lambda: receiver.acknowledged)
    assert receiver.acknowledged == [[1, 2]]
    assert values_in(log) == [1, 2]


def test_the_external_system_goes_on_after_what_was_stored(log: Log) -> None:
    first = [m._replace(cursor="7") for m in messages(1)]
    lost = [m._replace(cursor="8") for m in messages(2)]
    receiver = Scripted(
        first, lambda: wait_for(lambda: True), TransientError(""), lost, TransientError("")
    )
    with working(receiver, log, segment_rows=1):
        receiver.idle.wait(30)
    assert receiver.cursors == [None, "7", "8"]


@pytest.mark.parametrize("where", ["connect", "take", "acknowledge"])
def test_what_no_retry_mends_ends_the_work(log: Log, where: str) -> None:
    receiver = Scripted(messages(1))
    error = PermanentError("no such queue")

    def fail() -> None:
        raise error

    def fail_to_close() -> None:
        raise OSError("not open")

    receiver.on_close = fail_to_close
    if where == "connect":
        receiver.refuses = [error]
    elif where == "take":
        receiver.steps = [error]
    else:
        receiver.on_acknowledge = fail
    work = Work(receiver, store_of(log), IngressOptions())
    work.thread.join(30)
    assert not work.thread.is_alive()
    assert work.error is error
    assert receiver.events[-1] == "close"


@pytest.mark.parametrize("error", [TransientError("gone"), PermanentError("broken")])
def test_what_nobody_gives_again_is_stored_before_it_is_connected_anew(
    log: Log, error: Exception
) -> None:
    """Pass: what came right before the connection broke is there once; of others it comes again."""
    receiver = Scripted(messages(1, 2), error)
    receiver.gives_again = False
    permanent = isinstance(error, PermanentError)
    with suppress(PermanentError), working(receiver, log, linger=NEVER) as work:
        wait_for(lambda: not work.thread.is_alive() if permanent else receiver.idle.is_set())
        assert values_in(log) == [1, 2]
    assert values_in(log) == [1, 2]
    again = Scripted(messages(3), TransientError("gone"), messages(3))
    with working(again, log, linger=NEVER):
        again.idle.wait(10)
        assert values_in(log) == [1, 2]
    assert values_in(log) == [1, 2, 3]


def test_the_reason_is_why_it_broke_and_not_why_it_did_not_close(log: Log) -> None:
    receiver = Scripted(TransientError("reset by peer"))
    faults = [OSError("not open")]

    def fail_to_close() -> None:
        if faults:
            raise faults.pop()

    receiver.on_close = fail_to_close
    with working(receiver, log) as work:
        work.told.wait_for(state="waiting")
    assert [f["why"] for f in work.told if f["state"] == "waiting"] == ["reset by peer"]


def test_a_log_that_cannot_be_used_ends_the_work(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    receiver = Scripted(messages(1))
    store = store_of(log)
    monkeypatch.setattr(segments_module.os, "fsync", broken)
    work = Work(receiver, store, IngressOptions())
    work.thread.join(30)
    assert isinstance(work.error, LogError)
    assert str(work.error).endswith("receivers/0: Input/output error")
    assert receiver.acknowledged == []


# -- messages that are too large ------------------------------------------------------------------


def test_a_message_that_is_too_large_is_refused_with_its_beginning(log: Log) -> None:
    large = b"12345" + b"x" * 200_000
    given = [Message(b"1"), Message(large, key=b"k"), Message(b"2"), Message(None)]
    receiver = Scripted(given)
    with working(receiver, log, max_message=100_000, linger="0 s") as work:
        facts = work.told.wait_for(refused=1)
    rows = open_segment(file_of(log.receiver(0), 0))[1].to_pylist()
    assert [r["value"] for r in rows] == [b"1", large[: 64 * 1024], b"2", None]
    assert [r[REASON] for r in rows] == [
        None,
        "its value has 200,005 bytes, and max_message is 100,000; here are the first 65,536",
        None,
        None,
    ]
    assert rows[1]["key"] == b"k"
    assert facts["rows"] == 3
    assert len(receiver.acknowledged) == 1


def test_a_small_message_that_is_too_large_is_whole(log: Log) -> None:
    receiver = Scripted([Message(b"12345"), Message(b"1234")])
    with working(receiver, log, max_message=4):
        receiver.idle.wait(30)
    rows = open_segment(file_of(log.receiver(0), 0))[1].to_pylist()
    assert [(r["value"], r[REASON]) for r in rows] == [
        (b"12345", "its value has 5 bytes, and max_message is 4"),
        (b"1234", None),
    ]


# -- room -----------------------------------------------------------------------------------------


def test_above_the_high_water_mark_it_pauses_until_all_have_read(log: Log) -> None:
    receiver = Scripted(messages(1, 2, 3))
    with working(receiver, log, high_water=100, linger="0 s") as work:
        facts = work.told.wait_for(state="paused")
        size = sum(f.stat().st_size for f in log.receiver(0).glob("*.segment"))
        assert facts["why"] == f"{size:,} bytes are unread"
        assert receiver.events[-1] == "pause"
        receiver.steps.append(messages(4))  # on its way already: taken as before
        wait_for(lambda: receiver.acknowledged == [[1, 2, 3], [4]])
        log.consumers.folder.mkdir()
        log.consumers.put("slow", {"0": 0})
        log.consumers.put("quick", {"0": 2})
        receiver.idle.clear()
        receiver.idle.wait(30)
        assert "resume" not in receiver.events, "one has not read it"
        log.consumers.put("slow", {"0": 2})
        wait_for(lambda: "resume" in receiver.events)
        work.told.wait_for(state="running", unread_bytes=0)
    assert receiver.events.count("pause") == 1


def test_receivers_share_the_high_water_mark(log: Log) -> None:
    receiver = Scripted(messages(1, 2, 3))
    with working(receiver, log, high_water=2000 * 4, receivers=1, linger="0 s") as work:
        work.told.wait_for(rows=3)
        receiver.idle.clear()
        receiver.idle.wait(30)
    assert "pause" not in receiver.events
    with working(Scripted(), log, high_water=2000, receivers=4) as work:
        work.told.wait_for(state="paused")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED, a full disk: no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.in_turn
def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_doubled(
    small_disk: Path, far: Far
) -> None:
    log = Log(small_disk / "log")
    options = FarOptions(port=far.port, segment_rows=1, linger="0 s", at_once=5)
    receiver = QueueReceiver(options, 0, "far")
    work = Work(receiver, store_of(log), options)
    far.put(messages(*range(5)))
    wait_for(lambda: far.left == 0)
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    far.put(messages(*range(5, 50)))
    facts = work.told.wait_for(state="full")
    assert "No space left on device" in facts["why"]
    assert "receivers/0" in facts["why"]
    acknowledged = len(far.acknowledged)
    assert sorted(int(m.value or b"") for m in far.acknowledged) == values_in(log)
    told = len(work.told)
    wait_for(lambda: len(work.told) > told)
    assert len(far.acknowledged) == acknowledged
    assert not list(log.receiver(0).glob("*.new"))
    ballast.unlink()
    wait_for(lambda: far.left == 0)
    assert work.told.wait_for(state="running", rows=50)
    work.end()
    assert work.error is None
    assert sorted(values_in(log)) == list(range(50))


def test_a_stop_on_a_full_disk_leaves_the_rest_at_the_external_system(
    small_disk: Path, far: Far
) -> None:
    log = Log(small_disk / "log")
    options = FarOptions(port=far.port, segment_rows=1, linger="0 s")
    work = Work(QueueReceiver(options, 0, "far"), store_of(log), options)
    work.told.wait_for(state="running")
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    far.put(messages(*range(20)))
    work.told.wait_for(state="full")
    work.end()
    assert work.error is None
    wait_for(lambda: far.left == 20)
    assert values_in(log) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_while_the_disk_is_full_it_does_not_spin(
    log: Log, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The receiver is asked to wait for what comes, as at any other time; so it is without a free file."""
    waits: list[float] = []

    class Watched(Scripted):
        def take(self, seconds: float) -> Sequence[Message]:
            waits.append(seconds)
            return super().take(seconds)

    def full(_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    receiver = Watched(messages(1))
    store = store_of(log)
    monkeypatch.setattr(store, "store", full)
    options = IngressOptions(linger="0 s")
    work = Work(receiver, store, options)
    work.told.wait_for(state="full")
    waits.clear()
    wait_for(lambda: len(waits) > 5)
    work.end()
    assert min(waits) > 0
    assert receiver.acknowledged == []


def test_a_disk_that_the_log_filled_has_room_when_all_is_read(small_disk: Path) -> None:
    """The ids of what goes are written before it goes: in what was too little for one more segment."""
    log = Log(small_disk / "log")
    store = store_of(log)
    log.consumers.folder.mkdir(parents=True)
    try:
        for n in range(10_000):
            store.store([Message(bytes(50_000), id=b"%d" % n)])
    except OSError as error:
        assert error.errno == 28  # noqa: PT017  # expected in the middle of a loop
    before = numbers(store.folder)
    assert len(before) > 5
    receiver = Scripted([Message(bytes(50_000), id=b"one more")])
    log.consumers.put("all", {"0": before[-1]})
    work = Work(receiver, store, IngressOptions(linger="0 s"))
    wait_for(lambda: receiver.acknowledged)
    work.end()
    assert work.error is None
    assert numbers(store.folder)[0] > before[0]
    # And the ids of what went are known for as long as they must.
    again = store_of(log)
    again.store([Message(b"again", id=b"0"), Message(b"7", id=b"new")])
    assert again.counts.duplicates == 1


# -- ending, and bounded runs ---------------------------------------------------------------------


def test_a_stop_stores_and_acknowledges_what_was_taken(far: Far, log: Log) -> None:
    far.put(messages(*range(25)))
    options = FarOptions(port=far.port, linger=NEVER)
    work = Work(QueueReceiver(options, 0, "far"), store_of(log), options)
    wait_for(lambda: far.unacknowledged == 25)
    assert values_in(log) == []
    work.end()
    assert values_in(log) == list(range(25))
    assert far.left == 0


def test_a_bounded_run_can_begin_when_what_was_waiting_is_stored(far: Far, log: Log) -> None:
    far.put(messages(*range(25), ids=True))
    far.put(messages(*range(5), ids=True))  # duplicates count as well
    with working(QueueReceiver(FarOptions(port=far.port), 0, "far"), log) as work:
        first = next(f for f in [work.told.wait_for(ready=True), *work.told] if f["ready"])
    assert first["rows"] + first["duplicates"] == 30
    assert not work.told[0]["ready"]


def test_a_bounded_run_does_not_wait_for_nothing(log: Log) -> None:
    with working(Scripted(), log) as work:
        work.told.wait_for(ready=True)


@pytest.mark.parametrize("waits", [None, 100])
def test_a_bounded_run_begins_when_nothing_comes_any_more(
    log: Log, waits: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can tell how many were waiting, or somebody else took some of them."""
    monkeypatch.setattr(taking_module, "_QUIET", 0.3)
    receiver = Scripted(messages(1), waits=waits)
    with working(receiver, log, linger="0 s") as work:
        facts = work.told.wait_for(ready=True)
    assert facts["rows"] == 1
    assert not any(f["ready"] for f in work.told if f["rows"] == 0)


def test_nobody_is_ready_while_the_external_system_is_away(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_module, "_QUIET", 0.0)
    receiver = Scripted()
    receiver.refuses = [TransientError("away")] * 3
    with working(receiver, log) as work:
        work.told.wait_for(ready=True)
    assert [f["state"] for f in work.told if not f["ready"]].count("waiting") == 3


# -- a far side over a network --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [QueueReceiver, StreamReceiver])
@pytest.mark.in_turn
def test_an_external_system_that_goes_and_comes_back(
    far: Far, log: Log, kind: type[QueueReceiver]
) -> None:
    put = far.put if kind is QueueReceiver else far.append
    put(messages(*range(10), ids=kind is QueueReceiver))
    options = FarOptions(port=far.port, at_once=3)
    with working(kind(options, 0, "far"), log, FarOptions, port=far.port) as work:
        work.told.wait_for(rows=10)
        far.down()
        work.told.wait_for(state="waiting")
        put(messages(*range(10, 20), ids=kind is QueueReceiver))
        far.up()
        work.told.wait_for(rows=20)
    assert sorted(values_in(log)) == list(range(20))


def test_nobody_listens(far: Far, log: Log) -> None:
    far.down()
    with working(QueueReceiver(FarOptions(port=far.port), 0, "far"), log) as work:
        facts = work.told.wait_for(state="waiting", why="nobody listens: Connection refused")
    assert facts["ready"] is False


@pytest.mark.in_turn
def test_a_full_disk_is_tried_again_over_a_new_connection(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group that had no room went with the connection; the state `full` does not outlive it, and
    a bounded run can begin, for only who reads can make room."""
    store = store_of(log)
    whole = store.store
    broken: list[bool] = [True]

    def full(taken: Sequence[Message], **_: object) -> None:
        if broken:
            raise OSError(28, "No space left on device")
        whole(taken)

    monkeypatch.setattr(store, "store", full)
    receiver = Scripted(messages(1), lambda: None)
    work = Work(receiver, store, IngressOptions(linger="0 s"))
    assert work.told.wait_for(state="full", ready=True)
    receiver.steps += [TransientError("cut"), broken.clear, [], messages(2)]
    work.told.wait_for(state="running", rows=1)
    work.end()
    assert work.error is None
    assert values_in(log) == [2]
