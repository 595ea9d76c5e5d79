"""Signals become an event; the second one acts as if we were not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from mainstem.stopping import stopping_on_signals

PROGRAM = """
import os, signal, sys, threading
from contextlib import ExitStack
from mainstem.stopping import stopping_on_signals
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored
stop = threading.Event()
with ExitStack() as nested:
    for _ in range(int(sys.argv[2])):
        nested.enter_context(stopping_on_signals(stop))
    os.kill(os.getpid(), int(sys.argv[1]))
    assert stop.wait(10)
    if sys.argv[3] == "inside":
        os.kill(os.getpid(), int(sys.argv[1]))
    nested.pop_all().close() if sys.argv[3] == "after" else None
    os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("where", ["inside", "after"])
def test_the_second_signal_ends_the_process_however_deep_the_first_was_handled(
    number, depth, where
):
    """Pass: the first sets the event, the second kills; also on the way out."""
    arguments = [sys.executable, "-c", PROGRAM, str(number.value), str(depth), where]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert "AssertionError" not in ended.stderr
    assert ended.returncode == -number


def test_without_a_signal_the_handlers_are_as_they_were():
    """Pass: after each level what was there before it; another thread changes nothing."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    stop = threading.Event()
    with stopping_on_signals(stop):
        outer = [signal.getsignal(number) for number in numbers]
        with stopping_on_signals(stop):
            assert [signal.getsignal(number) for number in numbers] != outer
        assert [signal.getsignal(number) for number in numbers] == outer
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.timeout(60)
def test_a_signal_that_comes_while_the_event_is_looked_at_hangs_nobody():
    """Pass: the event is set, though the thread that the signal interrupts holds the event's lock."""
    stop = threading.Event()
    with stopping_on_signals(stop):
        with stop._cond:  # as `wait` does, for a moment, each time that it is called
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)
