"""A publisher in C over the system's libnats, neither ours nor nats-py, feeds the sources."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from mainstem_broker_nats.source.headers import pairs
from mainstem_broker_nats.source.nats_receiver import CoreReceiver
from mainstem_broker_nats.source.options import (
    JetStreamQueueOptions,
    JetStreamSourceOptions,
    NATSSourceOptions,
)
from mainstem_broker_nats.source.queue_receiver import QueueReceiver
from mainstem_broker_nats.source.ranges import Range
from mainstem_broker_nats.source.stream import Stream
from mainstem_testkit.plugin import required
from nats_streams import make_stream, unique

SOURCE = Path(__file__).parent / "nats_publisher.c"
COUNT = 1_000


@pytest.fixture(scope="module")
def publish(tmp_path_factory, nats):
    """The publisher, compiled; the tests are skipped without a compiler or libnats's headers."""
    made = tmp_path_factory.mktemp("nats") / "nats_publisher"
    missing = "gcc" if shutil.which("gcc") is None else ""
    if not missing and not Path("/usr/include/nats/nats.h").exists():
        missing = "libnats-dev"
    if missing:
        told = f"server missing: libnats: {missing} is not installed (services/apt.txt)"
        (pytest.fail if required("libnats") else pytest.skip)(told)
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", made, "-lnats"], check=True)

    def publish(subject, how):
        subprocess.run([made, nats.url, subject, str(COUNT), how], check=True, timeout=120)

    return publish


def headers(number, stored=True):
    identified = {"Nats-Msg-Id": b"%d" % number} if stored else {}
    return {"n": b"%x" % number, "kind": b"one, two", **identified}


def test_a_log(nats, publish):
    """Pass: each number once and in order, with both values of the header that is there twice."""
    name = make_stream(nats)
    publish(f"{name}.c", "stream")
    options = JetStreamSourceOptions.model_validate({"servers": nats.url, "stream": name})
    stream = Stream(options, name, (), "test")
    try:
        state = stream.state()
        chunks = list(Range(stream, state.created, 0, state.last, gaps=True).chunks())
    finally:
        stream.close()
    found = [raw for chunk in chunks for raw in chunk.messages]
    assert [int(raw.data) for raw in found] == list(range(COUNT))
    assert [dict(pairs(raw.headers)) for raw in found] == [headers(n) for n in range(COUNT)]
    assert [gap for chunk in chunks for gap in chunk.gaps] == []


def test_a_work_queue(nats, publish):
    """Pass: each number once, with its headers."""
    name = make_stream(nats, retention="workqueue")
    publish(f"{name}.c", "stream")
    given = {"servers": nats.url, "stream": name, "consumer": "c"}
    receiver = QueueReceiver(JetStreamQueueOptions.model_validate(given), 0, "t")
    found = drained(receiver, lambda: None)
    assert [int(message.value) for message in found] == list(range(COUNT))
    assert [dict(message.headers) for message in found] == [headers(n) for n in range(COUNT)]


def test_core_nats(nats, publish):
    """Pass: all come that were published while the receiver was there, in order, with their headers."""
    subject = unique("c")
    given = {"servers": nats.url, "subjects": [subject]}
    receiver = CoreReceiver(NATSSourceOptions.model_validate(given), 0, "t")
    found = drained(receiver, lambda: publish(subject, "core"))
    assert [int(message.value) for message in found] == list(range(COUNT))
    assert [dict(message.headers) for message in found] == [
        headers(n, stored=False) for n in range(COUNT)
    ]


def drained(receiver, publish):
    """Return all messages that a receiver takes, as many as are published."""
    receiver.connect(None)
    try:
        publish()
        found, until = [], time.monotonic() + 20
        while len(found) < COUNT:
            assert time.monotonic() < until, f"{len(found)} came"
            found += receiver.take(0.1)
        receiver.acknowledge(found)
        return found
    finally:
        receiver.close()
