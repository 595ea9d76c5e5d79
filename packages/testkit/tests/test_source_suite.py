"""The source suite passes a sound source, and catches each broken one by the test that should."""

from __future__ import annotations

import pytest
from mainstem_testkit.conformance import reading, source
from mainstem_testkit.conformance.source import SourceSuite
from zoo.log_server import LogServer, ask


class LogSuite(SourceSuite):
    use = "zoo_log"
    fault = ""

    def prepare(self):
        if self.server is not None:
            self.server.kill()
        self.server = LogServer(self.place / "server")
        self.server.start()

    @pytest.fixture(autouse=True)
    def _end_the_server(self):
        yield
        self.server.kill()

    def options(self):
        return {"port": self.server.port, "fault": self.fault}

    def limited(self, rows):
        return {"most": rows}

    def put(self, numbers):
        ask(self.server.port, {"append": list(numbers)})


@pytest.mark.slow
class TestASoundSource(LogSuite):
    """The source `files` passes the suite in every run; this one has a server."""


@pytest.mark.in_turn
def test_a_sound_source_outlives_its_server(tmp_path, quick_java):
    """Pass: the one standard test that no built-in source can show."""
    suite = TestASoundSource()
    suite._move(tmp_path / "place")
    try:
        suite.test_the_server_may_go_and_come_back()
    finally:
        suite.server.kill()


#: By fault: the test that catches it, and what that says.
CAUGHT = {
    "acknowledges too early": ("test_a_range_reads_the_same_three_times", "rows are missing"),
    "loses the tail": ("test_rows_are_as_announced", "lost: 9"),
    "position repeats": ("test_positions_only_grow", "is there more than once"),
    "position of no fixed width": ("test_positions_only_grow", "have widths"),
    "doubles on retry": ("test_a_range_reads_the_same_three_times", "1 rows are new"),
    "begins at the end": ("test_nothing_is_lost_or_doubled_over_stops", "lost: 0"),
    "never ends": ("test_a_bounded_run_ends", "did not end"),
    "ignores its limit": ("test_a_batch_keeps_to_its_limit", "rows by batch"),
    "gives up": ("test_the_server_may_go_and_come_back", "the run failed"),
    "leaks a thread": ("test_nothing_is_left_behind", "threads"),
    "leaks a process": ("test_nothing_is_left_behind", "processes"),
    "leaks memory": ("test_memory_stays_flat_over_many_batches", "grew by"),
    "lies about its lag": ("test_the_lag_is_what_was_not_read", "7 rows are not read"),
    "starts over after a crash": (
        "test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point", "lost:",
    ),
    "takes any option": ("test_each_wrong_option_is_refused_by_its_name", "taken as it is"),
}  # fmt: skip


#: Caught after much reading.
SLOW = (
    "begins at the end",
    "starts over after a crash",
    "leaks a thread",
    "leaks a process",
    "leaks memory",
)


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=pytest.mark.slow) if f in SLOW else f for f in CAUGHT]
)
@pytest.mark.in_turn
def test_a_broken_source_is_caught(tmp_path, quick_java, monkeypatch, fault):
    """Pass: the standard test that the fault is about fails on it, as it does not on the sound one."""
    test, words = CAUGHT[fault]
    # A run that gives up is waited for until it has begun, however long Java takes.
    monkeypatch.setattr(reading, "PATIENCE", 60.0 if fault == "gives up" else 10.0)
    monkeypatch.setattr(source, "SETTLING", 1.0)
    suite = LogSuite()
    suite.fault = fault
    if fault == "takes any option":
        suite.use = "zoo_log_of_anything"
    suite._move(tmp_path / "place")
    try:
        with pytest.raises(AssertionError, match=words):
            getattr(suite, test)()
    finally:
        suite.server.kill()


@pytest.mark.in_turn
def test_a_run_that_dies_here_finds_it_too(tmp_path, quick_java):
    """Pass: what is wrong after a crash alone is found without a kill."""
    suite = LogSuite()
    suite.fault = "starts over after a crash"
    suite._move(tmp_path / "place")
    try:
        with pytest.raises(AssertionError, match="zoo_log.planned:1:die: lost:"):
            suite.test_nothing_is_lost_or_doubled_by_a_run_that_dies_at_a_crash_point()
    finally:
        suite.server.kill()
