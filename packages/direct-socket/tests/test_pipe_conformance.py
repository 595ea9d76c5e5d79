"""The source `pipe` passes the standard tests, as far as they ask anything of a lossy source."""

from __future__ import annotations

import os
import threading
import time

import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from mainstem_testkit.conformance import _receiver


class Writer:
    """Writes lines into a named pipe, as soon as somebody reads it; opens it again when nobody does."""

    def __init__(self, path):
        self.path, self.ended = path, threading.Event()
        self._lines, self._more = [], threading.Event()
        threading.Thread(target=self._write, daemon=True).start()

    def put(self, numbers):
        self._lines += [b"%d\n" % number for number in numbers]
        self._more.set()

    def _write(self):
        pipe = None
        while not self.ended.is_set():
            self._more.wait(0.05)
            try:
                if pipe is None:
                    pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
                while self._lines:
                    os.write(pipe, self._lines[0])
                    self._lines.pop(0)
            except BlockingIOError:  # it is full
                time.sleep(0.05)
            except OSError:  # it is not there yet, or nobody reads it
                if pipe is not None:
                    os.close(pipe)
                pipe = None
                time.sleep(0.05)
            self._more.clear()
        if pipe is not None:
            os.close(pipe)


class Lines:
    use = "pipe"

    @pytest.fixture(autouse=True)
    def _writers(self):
        self.made = []
        yield
        for each in self.made:
            each.ended.set()

    def prepare(self):
        self.writer = None

    def options(self):
        return {"path": str(self.place / "lines"), "keep": "1 day"}

    def put(self, numbers):
        if self.writer is None:
            self.writer = Writer(self.place / "lines")
            self.made.append(self.writer)
        self.writer.put(numbers)


class TestReceiver(Lines, ReceiverSuite):
    expected_failures = {
        "test_nothing_is_left_behind_after_closing": "it waits for the same message again and again, "
        "which a lossy source gives once"
    }

    @pytest.fixture(autouse=True)
    def _patience(self, request, monkeypatch):
        if request.node.name in self.expected_failures:
            monkeypatch.setattr(_receiver, "PATIENCE", 2.0)


class TestSource(Lines, SourceSuite):
    wrong_options = {"restart": {"restart": "sometimes"}, "framing": {"framing": "words"}}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
