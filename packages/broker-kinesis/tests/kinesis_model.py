"""Receivers over the model of Kinesis: reached in place of AWS, with nothing to be waited for."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from kinesis_logs import MemoryLog, Worker, run, settle
from mainstem_broker_kinesis.source import reading as reading_module
from mainstem_broker_kinesis.source import receiver as receiver_module
from mainstem_ingress import loss_of


def hurry(monkeypatch):
    """Let nothing be waited for."""
    for name in ("_LIST_AGAIN", "_LOOK_EVERY", "_CHILDREN_EVERY", "_TICK"):
        monkeypatch.setattr(receiver_module, name, 0.001)
    for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE"):
        monkeypatch.setattr(reading_module, name, 0.001)


def reach(monkeypatch, fake):
    monkeypatch.setattr(receiver_module, "open_session", lambda _: None)
    monkeypatch.setattr(receiver_module, "connect", lambda *_, **__: fake)
    return fake


def put(kinesis, *numbers):
    for number in numbers:
        kinesis.put(f"key {number % 5}", str(number).encode())


def numbers(log):
    return [int(value) for value in log.values()]


def worker_of(kinesis, log=None, number=0, **options):
    return Worker(log or MemoryLog(), number, clock=lambda: kinesis.now, **options)


def read_all(kinesis, *workers):
    log = workers[0].log
    run(workers, lambda: len(log.values()) >= len(kinesis.puts))
    settle(workers)
    return numbers(log)


def check_order(kinesis, log):
    """Hold what is stored against what was put: all of it once, each key's in order."""
    assert Counter(log.values()) == Counter(data for _, _, data in kinesis.puts)
    put_by_key, found_by_key = defaultdict(list), defaultdict(list)
    for _, key, data in kinesis.puts:
        put_by_key[key.encode()].append(data)
    for message in log.messages:
        if message.value is not None:
            found_by_key[message.key].append(message.value)
    assert found_by_key == put_by_key


def idle(kinesis, workers, hours):
    """Let hours pass in which workers are at work."""
    for _ in range(hours):
        kinesis.wait(3600)
        settle(workers, 0.01)


def places_of(log, number=0):
    """Return the stored places of a receiver, by the end of the shard's name."""
    found = json.loads(log.kept[number])["places"]
    return {int(shard.rpartition("-")[2]): text for shard, (text, _) in found.items()}


def taking(worker):
    """Take for two seconds, without the log's patience."""
    for _ in range(200):
        worker.receiver.take(0.01)


def lost(log):
    return [found for m in log.messages if (found := loss_of(m))]
