"""Freed memory goes back to the system, also what threads have freed between what they hold."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import threading
from pathlib import Path
from mainstem.run import memory

def held():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssAnon"))

kept = []

def work():
    made = [bytearray(1000 + number % 3000) for number in range(10_000)]
    kept.extend(made[::100])

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
before = held()
memory.give_back()
print(before, held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_what_was_freed_is_given_back():
    """Eight threads make 20 MiB each and keep a hundredth. Pass: most of what the process held is gone."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    before, after = map(int, done.stdout.split())
    assert before - after > 20, done.stdout


def test_it_is_done_now_and_then(monkeypatch):
    """Pass: not at once, when a minute has passed, and not again until the next one has."""
    from mainstem.run import memory

    now, done = [0.0], []
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(memory, "give_back", lambda: done.append(now[0]))
    giving = memory.GivingBack()
    for now[0] in (0.0, 59.0, 60.0, 61.0, 119.0, 121.0):
        giving.tick()
    assert done == [60.0, 121.0]
