"""Logs in memory, filled by receivers that a test calls itself: what is stored, and what a crash forgets."""

from __future__ import annotations

import time

from mainstem import TransientError
from mainstem_broker_kinesis.source.options import KinesisSourceOptions
from mainstem_broker_kinesis.source.receiver import KinesisReceiver

#: Options by which nothing is waited for.
QUICK = {
    "poll_every": "1 ms",
    "reads_per_second": 100_000,
    "bytes_per_second": "100 GB",
}


class MemoryLog:
    """What receivers have stored: messages, in the order of storing, and cursors by receiver."""

    def __init__(self):
        self.messages = []
        self.kept = {}

    def cursors(self):
        return dict(self.kept)

    def values(self):
        return [m.value for m in self.messages if m.value is not None]


class Worker:
    """A receiver at work on a log, step by step.

    Args:
        clock: gives the stream's time, for a model whose clock jumps; None for the receiver's own.
    """

    def __init__(self, log, number=0, clock=None, **options):
        self.log, self.number, self.clock = log, number, clock
        self.options = KinesisSourceOptions.model_validate({"stream": "clicks", **QUICK, **options})
        self.receiver = None
        self.taken = []
        self.connected = False

    def start(self):
        made = KinesisReceiver
        if self.clock is not None:
            clock = self.clock

            class Clocked(KinesisReceiver):
                def _now(self):
                    return clock()

            made = Clocked
        self.receiver = made(self.options, self.number, "node")
        self.receiver.log = self.log
        self.connect()

    def connect(self):
        self.connected = False
        self.receiver.connect(self.log.kept.get(self.number))
        self.connected = True

    def take(self, seconds=0.0):
        """Take what there is; on a failure connect again next time, as the log does."""
        try:
            if self.receiver is None:
                self.start()
            elif not self.connected:
                self.connect()
            self.taken += self.receiver.take(seconds)
        except TransientError:
            self.crash(whole=False)

    def store(self):
        """Store what was taken, with the cursor, all at once."""
        if not self.connected:
            return
        cursor = self.receiver.cursor()
        if cursor is not None:
            self.log.messages += self.taken
            self.log.kept[self.number] = cursor
            self.taken = []

    def crash(self, *, whole=True):
        """Forget what was taken and not stored."""
        if self.receiver is not None:
            self.receiver.close()
        self.taken, self.connected = [], False
        if whole:
            self.receiver = None


def run(workers, done, seconds=20.0):
    """Let workers take and store until something holds."""
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, (
            f"not in {seconds:.0f} s: {[w.receiver and w.receiver.facts() for w in workers]}"
        )
        for worker in workers:
            worker.take(0.002)
            worker.store()


def settle(workers, seconds=0.05):
    """Let workers take and store what is left, for a moment."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for worker in workers:
            worker.take(0.002)
            worker.store()
