"""Workers of Python do not look through what modules have brought after each task."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import types
import weakref

import pyarrow as pa
import pytest
from mainstem.run.worker_daemon import sparing


def _of_this_worker(batches):
    """Tell which process this is, and how many objects it has set aside."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"pid": [os.getpid()], "aside": [gc.get_freeze_count()]})


def test_a_worker_sets_aside_what_is_there_after_its_first_task(spark):
    """Pass: a worker that comes to another task has nearly all its objects set aside, the same for each later one."""
    aside: dict[int, list[int]] = {}
    while all(len(counts) < 4 for counts in aside.values()) and len(aside) < 100:  # they take turns
        rows = spark.range(1, numPartitions=1).mapInArrow(_of_this_worker, "pid LONG, aside LONG")
        for row in rows.collect():
            aside.setdefault(row.pid, []).append(row.aside)
    later = [counts[-2:] for counts in aside.values() if len(counts) > 3]
    assert later, aside
    assert all(before == last > 10_000 for before, last in later)


def test_what_is_set_aside_is_what_came_with_modules(monkeypatch):
    """Pass: objects are set aside when modules have come, and not by a task without; garbage is removed before."""

    class Knot:
        def __init__(self):
            self.me = self

    garbage = []

    def work(number):
        knot = Knot()
        garbage.append(weakref.ref(knot))
        for name in ("first", "second")[:number]:
            monkeypatch.setitem(sys.modules, f"_brought_{name}", types.ModuleType(name))
        return 0

    calls = []
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    monkeypatch.setattr(gc, "freeze", lambda: calls.append([ref() for ref in garbage]))
    worker = sparing(work)
    assert not any(worker(number) for number in (0, 0, 1, 1, 2, 2))
    assert len(calls) == 3
    assert not any(any(alive) for alive in calls)


def _bringing(monkeypatch, code):
    """Return work that brings a module each time, and what counts the times at which all is set aside."""
    numbers, calls = itertools.count(), []

    def work():
        monkeypatch.setitem(sys.modules, f"_brought_{next(numbers)}", types.ModuleType("brought"))
        return code

    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    return sparing(work), calls


def test_modules_that_come_with_each_task_are_set_aside_a_few_times(monkeypatch):
    """Pass: not for ever, as what is set aside may become garbage that nobody collects."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    worker, calls = _bringing(monkeypatch, 0)
    assert not any(worker() for _ in range(50))
    assert len(calls) == 5


@pytest.mark.parametrize(("reuse", "code"), [("", 0), ("1", -1)])
def test_a_worker_that_ends_sets_nothing_aside(monkeypatch, reuse, code):
    """Pass: neither where workers have one task each, nor after one that went wrong."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", reuse)
    worker, calls = _bringing(monkeypatch, code)
    assert worker() == code
    assert calls == []
