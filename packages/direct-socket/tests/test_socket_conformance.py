"""The source `socket` passes the standard tests, as far as they ask anything of a lossy source."""

from __future__ import annotations

import select
import socket
import threading
import time

import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from mainstem_testkit.conformance import _receiver
from mainstem_testkit.server import free_port


class Sender:
    """Sends lines over one connection, as soon as somebody listens."""

    def __init__(self, port):
        self.port, self.ended = port, threading.Event()
        self._lines, self._more = [], threading.Event()
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, numbers):
        self._lines += [b"%d\n" % number for number in numbers]
        self._more.set()

    def _send(self):
        made = None
        while not self.ended.is_set():
            self._more.wait(0.05)
            try:
                made = made or socket.create_connection(("127.0.0.1", self.port), 1)
                while self._lines:
                    if select.select([made], [], [], 0)[0]:
                        raise OSError("it has ended")
                    made.sendall(self._lines[0])
                    self._lines.pop(0)
            except OSError:
                made = None
                time.sleep(0.05)
            self._more.clear()


class Lines:
    use = "socket"

    @pytest.fixture(autouse=True)
    def _senders(self):
        self.made = []
        yield
        for each in self.made:
            each.ended.set()

    def prepare(self):
        self.port, self.sender = free_port(), None

    def options(self):
        return {"listen": f"127.0.0.1:{self.port}", "keep": "1 day"}

    def put(self, numbers):
        if self.sender is None:
            self.sender = Sender(self.port)
            self.made.append(self.sender)
        self.sender.put(numbers)


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
    wrong_options = {"listen": {"listen": "everywhere"}, "framing": {"framing": "words"}}

    def limited(self, rows):
        return {"max_rows": rows, "segment_rows": 1}
