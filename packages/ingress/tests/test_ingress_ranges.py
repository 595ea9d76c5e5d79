"""Whatever happens in whatever order: a range covers whole segments without a hole, and stays as it is.

Receivers store, are killed at any step of it, acknowledge or not; segments that are read are removed;
queries plan at any time. Traps 2 and 3.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ingress_far import messages, values_in
from ingress_reads import digest, read, reader
from mainstem_ingress import segments as segments_module
from mainstem_ingress.log import Log
from mainstem_ingress.options import IngressOptions
from mainstem_ingress.retention import Retention
from mainstem_ingress.segments import file_of, numbers, open_segment
from mainstem_ingress.writer import Store

POINTS = ("before-write", "after-write", "after-fsync", "after-rename", "after-folder-fsync")
RECEIVERS = st.integers(0, 2)
OPTIONS = IngressOptions(duplicates_within="1 hour")


class Killed(BaseException):
    """Stands for the end of a process: nothing of it goes on, and nothing is tidied up."""


class Query:
    """A query that reads the log at its own pace, with its checkpoint."""

    def __init__(self, log: Log, name: str, max_rows: int) -> None:
        self.name, self.log, self.max_rows = name, log, max_rows
        self.made = reader(log, consumer=name, max_rows=max_rows)
        self.start = self.made.initial()
        self.began = dict(self.start)
        self.end: dict[str, int] | None = None
        self.digests: set[str] = set()
        self.values: list[int] = []

    def restart(self) -> None:
        self.made = reader(self.log, consumer=self.name, max_rows=self.max_rows)

    def look(self) -> None:
        """Read the range in hand once more: it is what it was."""
        assert self.end is not None
        rows = read(self.made, self.start, self.end)
        self.digests.add(digest(rows))
        assert len(self.digests) == 1
        self.latest = [int(row["value"]) for row in rows]


class Logs(RuleBasedStateMachine):
    """Receivers and queries of one log."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.log = Log(Path(self.folder.name) / "log")
        self.stores: dict[int, Store] = {}
        self.retentions: dict[int, Retention] = {}
        self.queries: dict[str, Query] = {}
        self.next = 0
        #: What the far side has not been told to forget, by receiver.
        self.unacknowledged: dict[int, list[int]] = {}
        self.durable: dict[tuple[str, int], str] = {}
        self.acknowledged: set[int] = set()
        self.ever: set[int] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def store(self, number: int) -> Store:
        if number not in self.stores:
            self.log.receiver(number).mkdir(parents=True, exist_ok=True)
            self.stores[number] = Store(self.log, number, OPTIONS)
            self.retentions[number] = Retention(self.log, str(number), OPTIONS)
        return self.stores[number]

    # -- receivers ------------------------------------------------------------------------------

    @rule(
        number=RECEIVERS, count=st.integers(1, 4), fresh=st.booleans(), acknowledged=st.booleans()
    )
    def take(self, number: int, count: int, fresh: bool, acknowledged: bool) -> None:
        """Store new messages, or those that were not acknowledged, with what comes new."""
        store = self.store(number)
        waiting = [] if fresh else self.unacknowledged.pop(number, [])
        group = waiting + list(range(self.next, self.next + count))
        self.next += count
        store.store(messages(*group, ids=True))
        if acknowledged:
            self.acknowledged |= set(group)
        else:
            self.unacknowledged.setdefault(number, []).extend(group)

    @rule(number=RECEIVERS, count=st.integers(1, 4), point=st.sampled_from(POINTS), to=RECEIVERS)
    def killed(self, number: int, count: int, point: str, to: int) -> None:
        """A process dies while it stores; the far side gives the messages again, to anybody."""
        store = self.store(number)
        group = list(range(self.next, self.next + count))
        self.next += count
        self.unacknowledged.setdefault(to, []).extend(group)

        def die(name: str) -> bool:
            if name == f"ingress.{point}":
                raise Killed
            return False

        before = set(store.folder.iterdir())
        passed, unlink = segments_module.failpoint, Path.unlink
        segments_module.failpoint = die
        Path.unlink = lambda *_, **__: None  # type: ignore[method-assign, assignment]
        try:
            store.store(messages(*group, ids=True))
        except Killed:
            if point == "after-write":  # what was not flushed is gone with the process
                for file in set(store.folder.iterdir()) - before:
                    os.truncate(file, file.stat().st_size // 2)
        finally:
            segments_module.failpoint, Path.unlink = passed, unlink  # type: ignore[method-assign]
        del self.stores[number], self.retentions[number]

    @precondition(lambda self: self.stores)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.stores)))
        del self.stores[number], self.retentions[number]

    @rule()
    def tidy(self) -> None:
        for number, retention in self.retentions.items():
            retention.tidy(self.stores[number].next, self.stores[number].bytes)

    # -- queries --------------------------------------------------------------------------------

    @precondition(lambda self: len(self.queries) < 3)
    @rule(max_rows=st.sampled_from([1, 3, 7, 10**6]))
    def come(self, max_rows: int) -> None:
        name = f"q{len(self.queries)}"
        self.queries[name] = Query(self.log, name, max_rows)

    @precondition(lambda self: self.queries)
    @rule(data=st.data(), restarts=st.booleans())
    def plan(self, data: st.DataObject, restarts: bool) -> None:
        """Commit the batch in hand, if any, and plan the next."""
        query = self.queries[data.draw(st.sampled_from(sorted(self.queries)))]
        if query.end is not None:
            query.look()
            query.values += query.latest
            query.start, query.end, query.digests = query.end, None, set()
        if restarts:
            query.restart()
        end = query.made.latest(query.start)
        assert all(end[name] >= first for name, first in query.start.items())
        for name, last in end.items():
            there = numbers(self.log.receiver(name))
            wanted = range(query.start.get(name, 0), last)
            assert set(wanted) <= set(there), "a hole"
        if end != query.start:
            query.end = end
            query.look()

    @precondition(lambda self: any(q.end for q in self.queries.values()))
    @rule(restarts=st.booleans())
    def read_again(self, restarts: bool) -> None:
        for query in self.queries.values():
            if query.end is not None:
                if restarts:
                    query.restart()
                query.look()

    # -- what always holds ----------------------------------------------------------------------

    @invariant()
    def segments_never_change(self) -> None:
        if not hasattr(self, "log"):
            return
        for name in self.log.receivers():
            folder = self.log.receiver(name)
            there = numbers(folder)
            assert there == list(range(there[0], there[-1] + 1)) if there else True
            for number in there:
                now = digest(open_segment(file_of(folder, number))[1].to_pylist())
                assert self.durable.setdefault((name, number), now) == now

    @invariant()
    def no_id_is_stored_twice_or_lost(self) -> None:
        if hasattr(self, "log"):
            found = values_in(self.log)
            assert len(found) == len(set(found))
            self.ever |= set(found)
            assert self.acknowledged <= self.ever, "lost"
            for query in self.queries.values():
                assert len(query.values) == len(set(query.values)), "a query saw one twice"


class TestRanges(Logs.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


@pytest.mark.slow
class TestManyRanges(Logs.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
