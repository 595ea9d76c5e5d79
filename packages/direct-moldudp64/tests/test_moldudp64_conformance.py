"""The source and its receiver pass the standard tests: a sender, and a server that has all of it."""

from __future__ import annotations

import threading
import uuid

import pytest
from mainstem_testkit import ReceiverSuite, SourceSuite
from mainstem_testkit.server import free_port
from mold_peers import RequestServer, Sender


class Feed:
    """A session whose sender says now and then where it is, and a server that sends again."""

    def __init__(self):
        self.port = free_port()
        self.sender = Sender(uuid.uuid4().hex[:10].upper(), [self.port])
        self.server = RequestServer(self.sender)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self):
        self.server.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self.server.__exit__()
        self.sender.socket.close()

    def send(self, messages):
        with self._lock:
            self.sender.send(messages)

    def _beat(self):
        while not self._ended.wait(0.1):
            with self._lock:
                self.sender.heartbeat()


class MoldMixin:
    use = "moldudp64"

    @pytest.fixture(autouse=True)
    def _feeds(self):
        self.made = []
        yield
        for each in self.made:
            each.__exit__()

    def prepare(self):
        self.feed = Feed().__enter__()
        self.made.append(self.feed)

    def options(self):
        return {
            "feeds": [{"listen": f"127.0.0.1:{self.feed.port}"}],
            "servers": [self.feed.server.address],
            "start": "earliest",
            "ask_every": "20 ms",
            "recover_within": "30 s",
            "keep": "1 day",
        }

    def put(self, numbers):
        self.feed.send([b"%d" % number for number in numbers])


class TestReceiver(MoldMixin, ReceiverSuite):
    expected_failures = {
        "test_what_was_acknowledged_does_not_come_again": "a receiver without its cursor begins with the "
        "first message, which the server has"
    }

    def permanent(self):
        return {
            "an interface that is not there": {
                "feeds": [
                    {
                        "listen": f"0.0.0.0:{self.feed.port}",
                        "groups": ["239.77.1.2"],
                        "interface": "none0",
                    }
                ]
            }
        }


class TestSource(MoldMixin, SourceSuite):
    wrong_options = {
        "servers": {"servers": ["there"]},
        "ask_most": {"ask_most": 0},
        "hold": {"hold": 0},
    }

    # No `limited`: the messages of a packet are one segment, as the place of the feed is behind them all.
