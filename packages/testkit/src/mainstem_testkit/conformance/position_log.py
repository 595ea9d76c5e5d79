"""The standard tests of sources on a position log, without Spark: planning and reading alone.

The suite thinks in numbers: `put` makes a message of each, and `number` tells a row's. A few tests of
`SourceSuite` show the rest of such a source.
"""

from __future__ import annotations

import gc
import json
import pickle
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from mainstem.columns import arrow_type, read_columns
from mainstem.contracts.abilities import Reached
from mainstem.errors import OptionError, PermanentError
from mainstem.positions import Part, PositionSource
from mainstem.positions.planner import PositionPlanner
from mainstem.positions.reading import GAP, PositionReading

from mainstem_testkit.conformance.suite import Suite, not_claimed, not_given, proves
from mainstem_testkit.pipelines import wait_for
from mainstem_testkit.processes import Resources

Row = Mapping[str, Any]
#: How long the log may take to show what was put, in seconds.
_PATIENCE = 20.0


class PositionLogSuite(Suite):
    """The standard tests of a position log.

    ```python
    class TestLog(PositionLogSuite):
        use = "journal"
        server_fixture = "journal_server"

        def prepare(self):
            self.topic = f"numbers-{uuid.uuid4()}"

        def options(self):
            return {"url": self.server.url, "topic": self.topic}

        def put(self, numbers):
            append(self.server, self.topic, [str(number) for number in numbers])
    ```
    """

    kind: ClassVar[str] = "source"

    def put(self, numbers: Iterable[int]) -> None:
        """Make a message of each number, in order, where the options point."""
        raise NotImplementedError

    def number(self, row: Row) -> int:
        """Return a row's number."""
        return int(row["value"])

    def remove(self, count: int) -> None:
        """Remove the oldest messages, so many of all partitions together, if the log can lose some."""
        not_given("remove")

    def make_anew(self) -> None:
        """Remove the log, and make another one under its name."""
        not_given("make_anew")

    def parts(self, **changes: Any) -> dict[str, Any]:
        source = {"use": self.use, "with": {**self.options(), **changes}}
        return {
            "sources": {"subject": source},
            "sinks": {"out": {"use": "console", "from": "subject"}},
        }

    @pytest.fixture(autouse=True)
    def _in_its_place(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:  # no Java
        assert self.use, f"{type(self).__name__} does not say which word is tested: `use`"
        self._turn = request.getfixturevalue("turn")
        if self.server_fixture:
            self.server = request.getfixturevalue(self.server_fixture)
        self._move(tmp_path / "place")

    # -- rows ---------------------------------------------------------------------------------------

    @proves("rows")
    def test_each_message_is_a_row_once_and_in_order(self) -> None:
        """100 messages, in batches and ranges of any size: each once, those of a partition in order."""
        self.put(range(100))
        for rows, tasks in ((1000, 1), (7, 3), (30, 2)):
            made = self.rows(self.reading(max_rows=rows, tasks=tasks, rows_per_task=1))
            found = [self.number(row) for row in made]
            assert sorted(found) == list(range(100)), f"batches of {rows}, {tasks} tasks: {found}"
            for partition in {row.get("partition") for row in made}:
                own = [
                    n for n, r in zip(found, made, strict=True) if r.get("partition") == partition
                ]
                assert own == sorted(own), f"partition {partition} is not in order: {own}"

    @proves("rows")
    def test_rows_are_as_announced(self) -> None:
        """The columns are those that the shape tells, whole or by a part."""
        self.put(range(3))
        reading = self.reading()
        names = [column.name for column in read_columns(reading.columns)]
        announced = [n for n in self.source().shape().names if not n.startswith("_")]
        assert [name for name in names if not name.startswith("_")] == announced
        for row in self.rows(reading):
            assert set(row) == set(names)

    @proves("replayable")
    def test_a_range_is_read_the_same_each_time(self) -> None:
        """Read three times, also when more has come since: the same rows."""
        self.put(range(20))
        reading = self.reading()
        start, end = self.batch(reading)
        before = self.read(reading, start, end)
        self.put(range(20, 30))
        for _ in range(2):
            assert self.read(reading, start, end) == before

    # -- offsets ------------------------------------------------------------------------------------

    @proves("offsets")
    def test_what_comes_is_read_after_what_was(self) -> None:
        """Batch by batch, each by a planner of its own: nothing twice; none when nothing has come."""
        reading, at, found = self.reading(), None, []
        for begin in (0, 10, 20):
            self.put(range(begin, begin + 10))
            start, at = self.batch(reading, at)
            found += [self.number(row) for row in self.read(reading, start, at)]
            json.dumps(at)
        assert sorted(found) == list(range(30))
        with closing(self.planner(reading)) as planner:
            assert at is not None
            assert planner.latest(at) == at, "nothing has come, and there is a batch"

    @proves("offsets")
    def test_the_first_offset_is_kept_once_a_batch_was_planned(self, tmp_path: Path) -> None:
        """`latest`, asked for again when more has come: as it was; not by another checkpoint."""
        self.put(range(5))
        planned = _Planned()
        first = tmp_path / "first" / "one.json"
        reading = replace(self.reading(), begin="latest", progress=planned, first=first)
        start, end = self.batch(reading, empty=True)
        planned.offset = end
        self.put(range(5, 9))
        with closing(self.planner(reading)) as planner:
            assert planner.initial() == start
        found = [self.number(row) for row in self.rows(reading, start)]
        assert sorted(found) == [5, 6, 7, 8]

    @proves("offsets")
    def test_a_bounded_run_ends_where_the_log_ended(self) -> None:
        """What comes after `prepare` is of the next run."""
        self.put(range(10))
        reading = self.reading(max_rows=4)
        found = []
        with closing(self.planner(reading)) as planner:
            at = planner.initial()
            self._until(planner, at)
            planner.prepare()
            self.put(range(10, 20))
            while (end := planner.latest(at)) != at:
                found += [self.number(row) for row in self.read(reading, at, end)]
                at = end
        assert sorted(found) == list(range(10))

    @proves("Rewindable")
    def test_it_begins_where_it_is_told(self) -> None:
        """From `earliest`, a time, an offset; not after an offset of another log, or beyond its end."""
        self.put(range(5))
        _, offset = self.batch(self.reading())
        time.sleep(1.1)
        since = datetime.now(UTC)
        time.sleep(0.1)
        self.put(range(5, 12))
        for point, first in (("earliest", 0), (since, 5), (offset, 5)):
            source = self.source().starting_at(point)
            found = self.numbers(self.reading(source))
            assert sorted(found) == list(range(first, 12)), f"from {point}: {sorted(found)}"
        ends = self.source().end(self.place)
        beyond = {partition: int(end) + 1_000_000 for partition, end in ends.items()}
        for wrong in ({**offset, "log": "another"}, {**offset, "read": beyond}, {"no": "offset"}):
            with pytest.raises(OptionError):
                self.source().starting_at(wrong)

    @proves("Measurable")
    def test_the_lag_is_what_was_not_read(self) -> None:
        """0 when all is read, then what has come since; the end moves with it."""
        self.put(range(10))
        _, offset = self.batch(self.reading())
        source, home = self.source(), self.place
        end = source.end(home)
        assert sum(lag.rows or 0 for lag in source.lag(Reached(offset, home, home))) == 0
        self.put(range(10, 17))
        wait_for(lambda: source.end(home) != end, _PATIENCE)
        assert sum(lag.rows or 0 for lag in source.lag(Reached(offset, home, home))) == 7

    # -- what is gone ---------------------------------------------------------------------------------

    @proves("losses")
    def test_what_was_removed_before_it_was_read_is_told(self) -> None:
        """Where a run goes on, as a gap with how many; else it ends. What is there is read."""
        if "on_loss" not in type(self.source().options).model_fields:
            not_claimed("on_loss")
        self.put(range(10))
        reading = self.reading(gaps="report")
        with closing(self.planner(reading)) as planner:
            start = planner.initial()
        self.remove(4)
        rows = self.rows(reading, start)
        kept = sorted(self.number(row) for row in rows if row[GAP] is None)
        assert kept == list(range(4, 10))
        told = [json.loads(row[GAP]) for row in rows if row[GAP] is not None]
        counts = [gap["count"] for gap in told]
        assert told, "nothing is told of what was removed"
        assert None in counts or sum(counts) == 4, f"told: {told}"
        failing = self.reading(gaps="fail")
        with closing(self.planner(failing)) as planner, pytest.raises(PermanentError):
            self._until(planner, start)
        assert self.source().gone(Reached(start, self.place, self.place))

    @proves("losses")
    def test_a_log_that_was_made_anew_is_not_taken_for_the_other(self) -> None:
        """Its positions mean something else: planning, reading and going back refuse them."""
        self.put(range(10))
        reading = self.reading()
        start, end = self.batch(reading)
        self.make_anew()
        self.put(range(30))
        with closing(self.planner(reading)) as planner:
            for ask in (lambda: planner.latest(end), lambda: planner.parts(start, end)):
                with pytest.raises(PermanentError):
                    ask()
        assert self.source().gone(Reached(end, self.place, self.place))

    # -- resources ------------------------------------------------------------------------------------

    @proves("resources")
    def test_nothing_is_left_behind(self) -> None:
        """After planning and reading, whole and broken off, no more threads, files or sockets."""
        self.put(range(20))
        reading = self.reading()
        start, end = self.batch(reading)

        def once() -> None:
            self.batch(reading)
            self.read(reading, start, end)
            for part in self._parts(reading, start, end):
                rows = reading.read(part, self._schema(reading))
                next(rows)
                rows.close()
            self.source().end(self.place)

        once()
        gc.collect()
        before = Resources.now()
        for _ in range(4):
            once()

        def grown() -> list[str]:
            gc.collect()
            return Resources.now().grown(before, by=1)

        try:
            wait_for(lambda: not grown(), 10)
        except AssertionError:
            raise AssertionError(f"four reads left: {', '.join(grown())}") from None

    # -- for the tests --------------------------------------------------------------------------------

    def source(self) -> PositionSource:
        """Return the source, made as a document makes it."""
        found = self.plan().nodes["subject"].component
        assert isinstance(found, PositionSource), "it is no source on a position log"
        return found

    def reading(self, source: PositionSource | None = None, **changed: Any) -> PositionReading:
        """Return a read of the source, as `load` makes it; it goes to Spark's processes and back."""
        made = (source or self.source()).reading("suite", 2)
        there: PositionReading = pickle.loads(pickle.dumps(replace(made, **changed)))
        return there

    def planner(self, reading: PositionReading) -> PositionPlanner:
        """Return the planner of a read."""
        made = reading.planner()
        assert isinstance(made, PositionPlanner)
        return made

    def batch(
        self,
        reading: PositionReading,
        start: dict[str, Any] | None = None,
        *,
        empty: bool = False,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the offsets of the next batch, once something has come, unless it is to be empty."""
        with closing(self.planner(reading)) as planner:
            begin = planner.initial() if start is None else start
            return begin, planner.latest(begin) if empty else self._until(planner, begin)

    def _until(self, planner: PositionPlanner, start: dict[str, Any]) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while (end := planner.latest(start)) == start:
            assert time.monotonic() < until, f"nothing has come after {start}"
            time.sleep(0.05)
        return end

    def _parts(
        self, reading: PositionReading, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[Part]:
        with closing(self.planner(reading)) as planner:
            return planner.parts(start, end)

    def _schema(self, reading: PositionReading) -> pa.Schema:
        columns = read_columns(reading.schema())
        return pa.schema([(column.name, arrow_type(column.type or "string")) for column in columns])

    def read(
        self, reading: PositionReading, start: dict[str, Any], end: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the rows of a batch, part by part."""
        schema = self._schema(reading)
        return [
            row
            for part in self._parts(reading, start, end)
            for rows in reading.read(part, schema)
            for row in rows.to_pylist()
        ]

    def rows(
        self, reading: PositionReading, start: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return all rows that are there, batch by batch."""
        found: list[dict[str, Any]] = []
        with closing(self.planner(reading)) as planner:
            at = planner.initial() if start is None else start
            end = self._until(planner, at)
            planner.prepare()
            while end != at:
                found += self.read(reading, at, end)
                at, end = end, planner.latest(end)
        return found

    def numbers(self, reading: PositionReading) -> list[int]:
        """Return the numbers of all rows that are there."""
        return [self.number(row) for row in self.rows(reading)]


class _Planned:
    """What a checkpoint says: nothing, until a batch was planned."""

    offset: Any = None

    def planned(self) -> tuple[int, Any] | None:
        return None if self.offset is None else (0, self.offset)

    committed = planned
