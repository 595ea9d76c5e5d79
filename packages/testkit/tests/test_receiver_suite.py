"""The receiver suite passes sound receivers, and catches each broken one by the test that should."""

from __future__ import annotations

import uuid

import pytest
from mainstem_testkit import ReceiverSuite, serve
from mainstem_testkit.conformance import _receiver, receiver
from zoo.queue_server import QueueServer, ask


@pytest.fixture(scope="module")
def queue_server(request, tmp_path_factory):
    yield from serve(QueueServer, request, tmp_path_factory)


class QueueSuite(ReceiverSuite):
    use = "zoo_queue"
    server_fixture = "queue_server"
    fault = ""
    log = False

    def prepare(self):
        self.queue = f"q-{uuid.uuid4()}"
        ask(self.server.port, f"make {self.queue}")

    def options(self):
        given = {"port": self.server.port, "queue": self.queue}
        return {**given, "fault": self.fault, "log": self.log}

    def put(self, numbers):
        ask(self.server.port, f"put {self.queue} {','.join(map(str, numbers))}")

    def left(self):
        return None if self.log else int(ask(self.server.port, f"left {self.queue}"))

    def permanent(self):
        return {
            "a wrong password": {"password": "sesame street"},
            "a queue that is not there": {"queue": "nowhere"},
        }


class TestASoundReceiver(QueueSuite):
    pass


@pytest.mark.slow
class TestASoundReceiverOfALog(QueueSuite):
    log = True


#: By fault: the test that catches it, and what that says.
CAUGHT = {
    "acknowledges before it is stored": (
        "test_what_was_not_acknowledged_comes_again", "0 of 10 messages came",
    ),
    "never acknowledges": ("test_what_was_acknowledged_does_not_come_again", "not expected: 0"),
    "acknowledges the last alone": (
        "test_what_was_acknowledged_does_not_come_again", "not expected: 0",
    ),
    "acknowledges others too": (
        "test_acknowledging_the_first_leaves_the_rest", "0 of 6 messages came",
    ),
    "doubles on reconnect": (
        "test_what_was_acknowledged_does_not_come_again", "not expected: 0",
    ),
    "ignores the cursor": ("test_it_goes_on_after_the_cursor", "not expected: 0"),
    "skips one": ("test_it_goes_on_after_the_cursor", "lost: 1|8 of 9 messages came"),
    "hangs in take": ("test_taking_waits_for_messages_and_not_for_ever", "hangs"),
    "never sleeps": ("test_taking_waits_for_messages_and_not_for_ever", "of the processor"),
    "out of order": ("test_messages_keep_their_order", "came where"),
    "loses one": ("test_messages_keep_their_order", "299 of 300"),
    "ignores a pause": ("test_nothing_comes_while_it_is_paused", "came during a pause"),
    "loses on a pause": ("test_nothing_comes_while_it_is_paused", "0 of 5 messages came"),
    "stays paused": ("test_pauses_lose_nothing", "messages came"),
    "says that nothing waits": ("test_a_bounded_run_begins_with_what_was_waiting", "lost: "),
    "closes once": ("test_closing_does_no_harm", "closed twice"),
    "leaks a thread": ("test_nothing_is_left_behind_after_closing", "threads"),
    "leaks a socket": ("test_nothing_is_left_behind_after_closing", "sockets"),
    "leaks a process": ("test_one_message_and_a_kill", "in vain"),
    "swallows a refusal": ("test_what_no_retry_mends_is_told", "neither"),
    "waits for ever": ("test_what_no_retry_mends_is_told", "wrong password: TransientError"),
    "tells a secret": ("test_what_no_retry_mends_is_told", "hold a secret"),
    "gives up": ("test_a_server_that_is_gone_is_told_and_comes_back", "told as permanent"),
    "misses the end": ("test_a_server_that_is_gone_is_told_and_comes_back", "does not raise"),
    "waits for an answer": ("test_a_server_that_stands_still_hangs_nobody", "hangs"),
    "makes ids up": ("test_a_kill_at_each_crash_point_loses_nothing", r"after-rename\S* and later ones: more than once: \d"),
}  # fmt: skip


_OF_A_LOG = {"ignores the cursor", "skips one", "leaks a socket"}
#: Those that are caught by tests of the process, which takes a while to start.
_SLOW = {"leaks a process", "makes ids up", "says that nothing waits"}


@pytest.fixture
def broken(queue_server, tmp_path, monkeypatch):
    """Makes a suite over a receiver with a fault, which is soon given up."""
    monkeypatch.setattr(QueueSuite, "quiet", 0.4)
    monkeypatch.setattr(receiver, "SETTLING", 1.0)

    def make(fault, patience=2.0):
        monkeypatch.setattr(_receiver, "PATIENCE", 10.0 if fault in _SLOW else patience)
        suite = QueueSuite()
        suite.fault, suite.log = fault, fault in _OF_A_LOG
        suite.server = queue_server
        suite._move(tmp_path / "place")
        return suite

    yield make
    queue_server.resume()


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=[pytest.mark.slow] if f in _SLOW else []) for f in CAUGHT]
)
@pytest.mark.in_turn
def test_a_broken_receiver_is_caught(broken, fault):
    """Pass: the standard test that the fault is about fails on it, as it does not on the sound one."""
    test, words = CAUGHT[fault]
    with pytest.raises((AssertionError, RuntimeError), match=words):
        getattr(broken(fault), test)()


@pytest.mark.slow
def test_an_early_acknowledgement_is_caught_by_kills_too(broken):
    """Pass: what was acknowledged before it was stored is lost at the first crash point."""
    suite = broken("acknowledges before it is stored", patience=10.0)
    with pytest.raises(AssertionError, match=r"after a kill at ingress\.\S+: lost: 20, 21"):
        suite.test_a_kill_at_each_crash_point_loses_nothing()
