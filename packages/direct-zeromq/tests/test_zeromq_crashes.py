"""What a crash loses, and what it does not: `kill -9` at each step, and in the middle of traffic."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import suppress

import pytest
import zmq
from mainstem_ingress import loss_of
from mainstem_testkit.conformance._receiver import TakingProcess, stored
from zeromq_peers import address, source

MARK = 50
BUFFER = 16_000
BODY = 1000
#: What the kernel and libzmq hold of one connection beside whole messages. The kernel doubles the size
#: that it is told, on both sides, and its bookkeeping is not counted; libzmq reads and writes 8 KiB.
ON_THE_WAY = (4 * BUFFER + 4 * 8192) // BODY


class Place:
    """A log, and the processes that fill it."""

    def __init__(self, folder, binds=True, **options):
        self.where = address()
        self.folder = folder
        #: Whether the receiver binds, and peers connect.
        self.binds = binds
        given = {"bind" if binds else "connect": self.where}
        given |= {"high_water_mark": MARK, "socket_buffer": BUFFER, "reconnect": "10 ms"}
        self.source = source(**given, **options)

    def start(self, **env):
        (process,) = self.source.processes("subject", self.folder)
        return TakingProcess(process, **env)

    def log(self):
        return stored(self.source.log(self.folder).folder)

    def numbers(self):
        return [int(message.value[:8]) for message in self.log()]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def message(number):
    return b"%08d" % number + b"x" * (BODY - 8)


def sender(peers, place, **settings):
    given = {"sndhwm": MARK, "sndbuf": BUFFER, "reconnect_ivl": 10, "sndtimeo": 100} | settings
    return peers.push(**{"connect" if place.binds else "bind": place.where}, **given)


def send_some(push, first, until):
    """Send messages, waiting where there is no room, until a condition holds; return the next number."""
    end = time.monotonic() + 60
    while not until():
        assert time.monotonic() < end, "it never came to that"
        with suppress(zmq.Again):
            for _ in range(20):  # the log is read whole each time
                push.send(message(first))
                first += 1
    return first


POINTS = (
    "zeromq.after-connect",
    "zeromq.after-take",
    "ingress.before-acknowledge",
    "ingress.after-acknowledge",
)


def test_it_passes_these_crash_points(place, peers, tmp_path):
    """Pass: those that the next test kills at are passed, and no others of ours."""
    trace = tmp_path / "trace"
    push = sender(peers, place)
    with place.start(MAINSTEM_FAILPOINT_TRACE=str(trace)) as process:
        send_some(push, 0, lambda: place.log())
        assert process.stop() == 0
    passed = set(trace.read_text().split())
    assert set(POINTS) <= passed
    assert {p for p in passed if p.startswith("zeromq.")} <= set(POINTS)


def all_points():
    """The points of the log's own protocol too, which every receiver passes."""
    own = [f"ingress.{step}" for step in ("before-write", "after-write", "after-rename")]
    return [*POINTS, *own]


@pytest.mark.parametrize(
    ("point", "binds"),
    # Of a peer that binds, what matters is when the connection ends: one step within the log's protocol will do.
    [*((point, True) for point in all_points()), *((point, False) for point in POINTS)],
)
@pytest.mark.in_turn
def test_a_kill_at_each_step_loses_no_more_than_was_in_memory(tmp_path, peers, point, binds):
    """Pass: with traffic all the time, killed at its second pass there and started again: what was stored before
    is there, nothing is there twice or out of order, and what is missing is one run of numbers, no longer than the
    mark allows: a group, libzmq's queue, what was on its way between the two kernels, and, of a peer that binds, the
    queue that waited there."""
    place = Place(tmp_path, binds)
    push = sender(peers, place)
    passes = 1 if point == "zeromq.after-connect" else 2
    with place.start(MAINSTEM_FAILPOINT=f"{point}:{passes}") as process:
        sent = send_some(push, 0, lambda: not process.running)
        assert process.wait() == -9
    before = place.numbers()
    with place.start() as process:
        sent = send_some(push, sent, lambda: len(place.numbers()) > len(before) + 3 * MARK)
        last = sent - 1
        process.until(lambda: place.numbers()[-1] == last, "all stored")
        assert process.stop() == 0, process.words()
    after = place.numbers()
    assert after[: len(before)] == before
    assert after == sorted(set(after)), "something is there twice, or out of order"
    missing = sorted(set(range(sent)) - set(after))
    assert missing == list(range(missing[0], missing[-1] + 1)) if missing else True
    theirs = 0 if binds else MARK
    assert len(missing) <= 2 * MARK + theirs + ON_THE_WAY, f"{len(missing)} are missing"


@pytest.mark.parametrize("binds", [True, False])
@pytest.mark.in_turn
def test_a_peer_that_binds_drops_its_queue_when_this_side_ends(tmp_path, peers, binds):
    """Pass: with marks of 50 here and 1,000 there, and next to nothing read: of a peer that connects, what was here
    and on its way is missing; of one that binds, its whole queue is too, as the README says."""
    place = Place(tmp_path, binds, high_water=1)
    push = sender(peers, place, sndhwm=1000, sndtimeo=20_000)
    with place.start() as process:
        process.until(lambda: any(t.get("peers") for t in process.told()), "connected")
        for number in range(1000):
            push.send(message(number))
        process.kill()
    kept = place.numbers()
    assert kept == list(range(len(kept)))
    given = {"bind" if binds else "connect": place.where, "high_water_mark": MARK}
    place.source = source(**given)
    with place.start() as process:
        push.send(message(1000))
        process.until(lambda: place.numbers()[-1:] == [1000], "stored")
        assert process.stop() == 0
    missing = 1001 - len(place.numbers())
    assert (missing <= 2 * MARK + ON_THE_WAY) == binds, f"{missing} are missing"


@pytest.mark.in_turn
def test_what_a_crash_lost_is_told_if_messages_have_numbers(peers, tmp_path):
    """Pass: after a kill in the middle of traffic the rows of the log say exactly which numbers are missing: the
    count goes on from what was stored."""
    place = Place(tmp_path, frames=["sequence", "value"], sequence={"per": []})
    push = sender(peers, place)

    def send(first, until):
        while not until():
            try:
                push.send_multipart([first.to_bytes(8, "big"), message(first)])
            except zmq.Again:
                continue
            first += 1
        return first

    with place.start() as process:
        sent = send(0, lambda: len(place.log()) > 2 * MARK)
        process.kill()
    kept = len(place.log())
    with place.start() as process:
        sent = send(sent, lambda: len(place.log()) > kept + 2 * MARK)
        last = message(sent - 1)
        process.until(lambda: place.log()[-1].value == last, "all stored")
        assert process.stop() == 0, process.words()
    log = place.log()
    came = {int(m.value[:8]) for m in log if m.value is not None}
    told = set()
    for row in log:
        if row.value is None:
            gap = loss_of(row)
            told |= set(range(int(gap["from"]), int(gap["to"]) + 1))
    assert told == set(range(sent)) - came
    assert told, "nothing was lost, so this shows nothing: was there no traffic when it was killed?"


@pytest.mark.in_turn
def test_a_stop_in_good_order_loses_nothing_that_was_taken(tmp_path, peers):
    """Pass: told to stop when all has been taken and nothing stored, it stores the group that it has in hand and ends
    with 0."""
    place = Place(tmp_path, frames=["sequence", "value"], sequence={"per": []}, linger="1 minute")
    push = sender(peers, place)
    with place.start() as process:
        process.until(lambda: any(t["state"] == "running" for t in process.told()), "running")
        numbers = [*range(19), 20]
        for number in numbers:  # it tells of the gap when it has taken the last
            push.send_multipart([number.to_bytes(8, "big"), message(number)])
        process.until(lambda: any(t.get("lost") for t in process.told()), "taken")
        assert place.log() == []
        assert process.stop() == 0, process.words()
    assert [int(m.value[:8]) for m in place.log() if m.value is not None] == numbers


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_kills(place, peers):
    """Pass: killed fifteen times at random moments under traffic: nothing twice, nothing out of order, nothing that
    was stored is lost, and each kill loses no more than was in memory."""
    seed = int(os.environ.get("MAINSTEM_SEED", "8"))
    dice = random.Random(seed)
    push = sender(peers, place)
    sent, kills, before = 0, 15, []
    for _ in range(kills):
        with place.start() as process:
            more = dice.randrange(1, 5 * MARK)
            goal = len(before) + more
            sent = send_some(push, sent, lambda goal=goal: len(place.numbers()) >= goal)
            process.kill()
        now = place.numbers()
        assert now[: len(before)] == before, f"seed {seed}"
        before = now
    with place.start() as process:
        sent = send_some(push, sent, lambda: len(place.numbers()) > len(before) + 3 * MARK)
        process.until(lambda: place.numbers()[-1] == sent - 1, "all stored")
    found = place.numbers()
    assert max(Counter(found).values()) == 1
    assert found == sorted(found)
    missing = sent - len(found)
    assert missing <= kills * (2 * MARK + ON_THE_WAY), f"seed {seed}: {missing} are missing"


@pytest.mark.in_turn
def test_a_log_without_room_takes_nothing(place, peers, tmp_path):
    """Pass: above the high-water mark of the log nothing more is taken, the peer is held back, and what was taken is
    stored; nothing of it is lost."""
    small = Place(tmp_path / "small", high_water=100_000, segment_rows=10)
    small.folder.mkdir()
    push = peers.push(small.where, sndhwm=MARK, sndbuf=BUFFER, sndtimeo=1000)
    with small.start() as process:
        sent = send_some(push, 0, lambda: any(t["state"] == "paused" for t in process.told()))
        with suppress(zmq.Again):
            while sent < 2000:
                push.send(message(sent))
                sent += 1
        kept = small.numbers()
        assert kept == list(range(len(kept)))
        # In libzmq here, on the way, and in libzmq there.
        assert sent <= len(kept) + 2 * MARK + ON_THE_WAY
        assert process.stop() == 0
    assert small.numbers() == kept
