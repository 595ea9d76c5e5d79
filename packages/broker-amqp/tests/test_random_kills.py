"""Rounds of random kills: `make crash ROUNDS=n`. Whatever is killed when, each message is there once."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from mainstem_testkit import PipelineFolder

ROUNDS = int(os.environ.get("MAINSTEM_CRASH_ROUNDS") or "2")
FIRST = int(os.environ.get("MAINSTEM_CRASH_SEED") or "1")
SECONDS = 15.0


class Publisher:
    """Publishes numbers, each with itself as message id, until stopped; again what was not confirmed."""

    def __init__(self, broker, queue, chance):
        self.broker, self.queue, self.chance = broker, queue, chance
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        while not self._stop.is_set():
            with suppress(pika.exceptions.AMQPError, OSError), self.broker.channel() as channel:
                channel.confirm_delivery()
                while not self._stop.is_set():
                    given = pika.BasicProperties(delivery_mode=2, message_id=str(self.sent))
                    channel.basic_publish("", self.queue, b"%d" % self.sent, given, mandatory=True)
                    self.sent += 1
                    if self.chance.random() < 0.1:
                        time.sleep(self.chance.random() * 0.2)
            time.sleep(0.2)

    def stop(self):
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the publisher does not end"


def receivers(process):
    """The processes that take messages, of a run."""
    return [
        pid
        for pid in process.living()
        if b"mainstem_ingress.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_each_message_is_there_once_whatever_is_killed(seed, broker, tmp_path, quick_java):
    """Pass: after 15 s of kills of driver, receivers and broker, and a run to the end, all that was
    published is in the files once. The seed is in the test's name; `MAINSTEM_CRASH_SEED` repeats it."""
    chance = random.Random(seed)
    kind = chance.choice(["classic", "quorum", "stream"])
    queue = broker.queue(kind)
    broker.server.sync()
    # A publisher that sends again what was not confirmed doubles in a stream, and nobody drops it there.
    troubles = ["driver", "receiver", "pause"] + ([] if kind == "stream" else ["broker"])
    source = {"url": broker.server.url, "queue": queue, "type": kind, "segment_rows": 50}
    source |= {"connect_timeout": "2 s", "prefetch": chance.choice([5, 100, 2000])}
    if kind != "stream":
        source |= {"ids": "always", "receivers": chance.choice([1, 2])}
    columns = {"n": "INT(STRING(value))"}
    parts = {
        "sources": {"rows": {"use": "amqp", "with": source, "on_rejected": "drop"}},
        "operators": {"number": {"use": "select", "from": "rows", "with": {"columns": columns}}},
        "sinks": {"out": PipelineFolder.sink("out", "number")},
    }
    pipeline = PipelineFolder(tmp_path).document(**parts, trigger={"every": "200 ms"})
    publisher = Publisher(broker, queue, random.Random(seed + 1))
    told = []
    until = time.monotonic() + SECONDS
    process = pipeline.start()
    try:
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.5, 4.0))
            trouble = chance.choice(troubles)
            told.append(trouble)
            if trouble == "driver":
                process.kill()
                process.end()
                process = pipeline.start()
            elif trouble == "receiver":
                for pid in receivers(process):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            elif trouble == "pause":
                broker.server.pause()
                time.sleep(chance.uniform(0.1, 2.0))
                broker.server.resume()
            else:
                broker.server.kill()
                broker.server.start()
        publisher.stop()
        process.kill()
    finally:
        process.end()
    pipeline.document(**parts)
    pipeline.run()
    found = Counter(row["n"] for row in pipeline.rows("out"))
    # The last one may have been taken by the broker without a confirm.
    lost = sorted(set(range(publisher.sent)) - found.keys())
    doubled = sorted(n for n, count in found.items() if count > 1)
    strange = sorted(n for n in found if n > publisher.sent)
    assert (lost, doubled, strange) == ([], [], []), f"{kind}, {publisher.sent} sent, {told}"
    assert publisher.sent > 100, "too few to tell"
