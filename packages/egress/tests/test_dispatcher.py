"""What is in flight, what is sent again, and when it is given up, over a model of the external system."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem import PermanentError
from mainstem_egress import Answer, Fate, LaneDispatcher

sys.path.insert(0, str(Path(__file__).parent))

from egress_model import ACCEPT, LATER, LOSE, LOSE_AFTER, REFUSE, SILENT, Model, dispatcher, message


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """Let pauses pass at once; the time that is left stays as it is."""
    monkeypatch.setattr("mainstem.patience.pause_after", lambda *_: 0.0)


STEPS = st.lists(
    st.sampled_from([ACCEPT, ACCEPT, ACCEPT, LATER, REFUSE, LOSE, LOSE_AFTER, SILENT]), max_size=80
)


@settings(max_examples=400, deadline=None)
@given(
    lanes=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=40),
    steps=STEPS,
    in_flight=st.integers(1, 8),
    ordered=st.booleans(),
    away=st.integers(0, 2),
)
@pytest.mark.in_turn
def test_each_message_is_accepted_or_refused_whatever_happens(
    lanes, steps, in_flight, ordered, away
):
    """Pass: none is lost; never are more in flight than may be; in an order, the last copies of a lane are in
    it; each connection is closed once."""
    script = iter(steps)
    model = Model(lambda: next(script, ACCEPT))
    model.refusing = away
    refused = []
    made = dispatcher(model, refused, in_flight=in_flight, ordered=ordered)
    for number, lane in enumerate(lanes):
        made.send(message(number, lane))
    made.flush()
    gone = [number for number, _ in refused]
    assert sorted({*model.there, *gone}) == list(range(len(lanes)))
    # One whose answer was lost may be there and be refused at the next try: nobody can tell.
    assert max(Counter(gone).values(), default=1) == 1
    assert model.most <= in_flight
    if ordered:
        for lane in ("a", "b"):
            mine = [n for n in model.there if lanes[n] == lane and n not in gone]
            lasts = list(dict.fromkeys(reversed(mine)))
            assert lasts == sorted(lasts, reverse=True)
    made.close()
    made.close()
    assert model.connections == model.closed
    counts = made.counts
    assert counts.accepted + counts.refused == len(lanes)
    assert counts.sent - counts.again == len(lanes)


@settings(max_examples=400, deadline=None)
@given(
    lanes=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=40),
    steps=STEPS,
    in_flight=st.integers(1, 8),
    unfit=st.sets(st.integers(0, 39), max_size=4),
    blamed=st.sets(st.integers(0, 39), max_size=3),
)
@pytest.mark.in_turn
def test_one_of_a_lane_is_in_flight_whatever_happens(lanes, steps, in_flight, unfit, blamed):
    """Pass: no message is lost; never are two of a lane in flight; the first copies of a lane are in order, and
    there are none but of what had no answer."""
    script = iter(steps)
    model = Model(lambda: next(script, ACCEPT))
    model.unfit, model.blamed = unfit, blamed
    refused = []
    made = dispatcher(model, refused, in_flight=in_flight, kind=LaneDispatcher)
    for number, lane in enumerate(lanes):
        made.send(message(number, lane))
    made.flush()
    gone = [number for number, _ in refused]
    assert sorted({*model.there, *gone}) == list(range(len(lanes)))
    assert not model.lanes_twice
    assert model.most <= in_flight
    for lane in ("a", "b"):
        mine = [n for n in model.there if lanes[n] == lane]
        assert mine == sorted(mine)
    assert (made.counts.accepted, made.counts.refused) == (len(lanes) - len(gone), len(gone))
    made.close()
    assert model.connections == model.closed


def test_other_lanes_go_on_while_one_waits_for_its_answer():
    """Pass: of two lanes the silent one has one message in flight, and the other all of its messages there; what
    waits counts as in flight."""

    class Slow(Model):
        def answers(self, seconds):
            found = []
            for number, content in list(self._waiting):
                if content != 0 or len(self.there) == 5:
                    self._waiting.remove((number, content))
                    self.there.append(content)
                    found.append(Answer(number, number))
            return found

    model = Slow()
    made = dispatcher(model, [], in_flight=4, kind=LaneDispatcher)
    for number, lane in enumerate("aababbbbaa"):
        made.send(message(number, lane))
    made.flush()
    assert model.there == [2, 4, 5, 6, 7, 0, 1, 3, 8, 9]
    assert not model.lanes_twice


def test_what_can_be_taken_later_takes_later_ones_of_its_lane_with_it():
    """Pass: the last of the lane is the last; another lane's message goes once."""
    steps = iter([ACCEPT, LATER, ACCEPT, ACCEPT])
    model, refused = Model(lambda: next(steps, ACCEPT)), []
    made = dispatcher(model, refused, in_flight=10)
    for number, lane in enumerate("aaba"):
        made.send(message(number, lane))
    made.flush()
    assert model.there == [0, 2, 3, 1, 3]
    assert (made.counts.sent, made.counts.again, made.counts.accepted) == (6, 2, 4)
    assert model.connections == 1


def test_without_an_order_only_what_failed_goes_again():
    """Pass: one copy of each."""
    steps = iter([ACCEPT, LATER, ACCEPT, ACCEPT])
    model = Model(lambda: next(steps, ACCEPT))
    made = dispatcher(model, [], in_flight=10, ordered=False)
    for number in range(4):
        made.send(message(number, "a"))
    made.flush()
    assert model.there == [0, 2, 3, 1]


def test_the_message_that_ends_a_connection_is_found_and_refused():
    """Pass: it alone, with the reason; the others arrive, in their order."""
    model, refused = Model(), []
    model.blamed = {5}
    made = dispatcher(model, refused, in_flight=20)
    for number in range(20):
        made.send(message(number, "a"))
    made.flush()
    assert refused == [(5, "5 is to blame")]
    assert list(dict.fromkeys(model.there)) == [n for n in range(20) if n != 5]
    assert model.connections == 3  # the first, one to find it, one after it


def test_what_send_refuses_needs_no_answer():
    """Pass: it is refused with the reason, alone or among others, the very first too."""
    model, refused = Model(), []
    model.unfit = {0, 3}
    made = dispatcher(model, refused, in_flight=2)
    for number in range(6):
        made.send(message(number, "a"))
    made.flush()
    assert refused == [(0, "0 does not fit"), (3, "3 does not fit")]
    assert model.there == [1, 2, 4, 5]
    assert model.connections == 1


def test_an_answer_can_be_of_many():
    """Pass: of those that have none yet; one of them that was refused before stays so."""

    class Many(Model):
        def answers(self, seconds):
            told = [(number, content) for number, content in self._waiting]
            self._waiting.clear()
            if not told:
                return []
            self.there += [content for _, content in told if content != 1]
            one = [Answer(n, n, Fate.REFUSED, "no") for n, content in told if content == 1]
            return [*one, Answer(1, told[-1][0])]

    model, refused = Many(), []
    made = dispatcher(model, refused, in_flight=10)
    for number in range(5):
        made.send(message(number))
    made.flush()
    assert (model.there, refused) == ([0, 2, 3, 4], [(1, "no")])


def test_bytes_in_flight_are_bounded_and_a_larger_message_goes_alone():
    """Pass: never more than 10 bytes together; one of 50 while nothing else is in flight."""
    model, seen = Model(), []

    class Sized(Model):
        def answers(self, seconds):
            seen.append([content[1] for _, content in self._waiting])
            return super().answers(seconds)

    model = Sized()
    made = dispatcher(model, [], in_flight_bytes=10)
    sizes = [4, 4, 4, 50, 1, 9, 1]
    for number, size in enumerate(sizes):
        made.send(message((number, size), size=size))
    made.flush()
    assert [content[1] for content in model.there] == sizes
    together = [each for each in seen if each]
    assert [50] in together
    assert all(sum(each) <= 10 or each == [50] for each in together)


def test_one_that_has_no_answer_while_others_have_ends_a_connection():
    """Pass: its answer got lost; it is sent again before the last message is."""

    class Deaf(Model):
        def answers(self, seconds):
            return [
                each for each in super().answers(seconds) if each[0] != 3 or self.connections > 1
            ]

    model = Deaf()
    made = dispatcher(model, [], in_flight=5, ordered=False, answer_timeout=0.05)
    number, until = 0, time.monotonic() + 20
    while model.connections < 2 and time.monotonic() < until:
        made.send(message(number))
        number += 1
        time.sleep(0.002)
    assert model.connections == 2
    made.flush()
    assert sorted(model.there) == sorted([*range(number), 2])


def test_answers_that_nobody_waits_for_are_not_missed():
    """Pass: messages come slowly, and a sender takes no answers between them: the connection stays, and that time
    does not count towards giving up."""

    class Lazy(Model):
        def answers(self, seconds):
            return super().answers(seconds) if seconds else []

    model = Lazy()
    made = dispatcher(model, [], in_flight=1000, answer_timeout=0.05, give_up=0.1)
    for number in range(130):
        made.send(message(number, "a"))
        time.sleep(0.001)
    made.flush()
    assert model.there == list(range(130))
    assert model.connections == 1


def test_a_connection_that_breaks_while_nobody_waits_is_made_again():
    """Pass: after a time without messages that is longer than `give_up`, which does not count."""

    class Breaks(Model):
        def send(self, number, message):
            if message.content == 1 and self.connections == 1:
                raise OSError("gone")
            super().send(number, message)

    model = Breaks()
    made = dispatcher(model, [], give_up=0.1)
    made.send(message(0))
    time.sleep(0.2)
    made.send(message(1))
    made.flush()
    assert model.there == [0, 1]
    assert model.connections == 2


def test_an_external_system_that_takes_nothing_is_not_silent():
    """Pass: as long as it says why, the connection stays; then it is given up, with the reason."""
    model = Model(lambda: SILENT)
    model.blocked = lambda: "its disk is full"
    made = dispatcher(model, [], answer_timeout=0.01, give_up=0.3)
    made.send(message(1))
    with pytest.raises(PermanentError, match=r"1 messages were not accepted, .*: its disk is full"):
        made.flush()
    assert model.connections == 1


def test_silence_ends_a_connection():
    """Pass: with no answer for `answer_timeout` what is in flight goes over another connection."""
    steps = iter([ACCEPT, SILENT, SILENT, SILENT])
    model = Model(lambda: next(steps, ACCEPT))
    made = dispatcher(model, [], answer_timeout=0.0)
    for number in range(3):
        made.send(message(number, "a"))
    made.flush()
    assert model.connections > 1
    assert sorted(set(model.there)) == [0, 1, 2]


@pytest.mark.parametrize(("script", "words"), [
    (lambda: LATER, r"model: 3 messages were not accepted, .* 0.2 s \(give_up\): \d: later"),
    (lambda: LOSE, r"model: 3 messages were not accepted, .*: the connection was lost: the connection broke"),
    (lambda: SILENT, r"model: 3 messages were not accepted, .*: no answer came"),
])  # fmt: skip
def test_it_is_given_up_without_progress(script, words):
    """Pass: after `give_up`, with where, how many and why."""
    made = dispatcher(Model(script), [], give_up=0.2)
    for number in range(3):
        made.send(message(number))
    with pytest.raises(PermanentError, match=words):
        made.flush()
    made.close()


def test_an_external_system_that_is_away_is_given_up():
    """Pass: says that it could not connect; nothing is in flight."""
    model = Model()
    model.refusing = 10**9
    made = dispatcher(model, [], give_up=0.2)
    with pytest.raises(PermanentError, match=r"could not connect, .*: can't connect: it is away"):
        made.connect()
    assert model.connections == model.closed


@pytest.mark.parametrize("where", ["connect", "send", "answers"])
def test_a_permanent_error_is_raised_at_once(where):
    """Pass: as it is, and the connection is closed once."""
    model = Model()
    error = PermanentError("never")

    def fail(*_):
        if where == "connect":
            model.open = True
        raise error

    setattr(model, where, fail)
    made = dispatcher(model, [])

    def deliver():
        made.send(message(1))
        made.flush()

    with pytest.raises(PermanentError, match="never"):
        deliver()
    made.close()
    assert not model.open


def test_progress_is_what_counts_not_time():
    """Pass: a batch that takes longer than `give_up` is through, as long as messages are accepted."""

    def slowly():
        time.sleep(0.02)
        return ACCEPT

    made = dispatcher(Model(slowly), [], in_flight=1, give_up=0.1)
    for number in range(15):
        made.send(message(number))
    made.flush()
    assert made.counts.accepted == 15
