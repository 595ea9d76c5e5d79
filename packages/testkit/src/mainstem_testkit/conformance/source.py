"""The standard tests of sources.

The suite thinks in numbers: `put` makes an event of each, and `number` finds it in a row. So it knows
what was lost and what was doubled, whatever the events look like. A source that nobody can put events
into (it makes its own) is expected to count up from 0.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from mainstem import (
    Measurable,
    OptionError,
    Reached,
    Rewindable,
)
from mainstem.contracts.shapes import MESSAGE_COLUMNS
from mainstem.document.model import Trigger
from mainstem.pipeline import Running

from mainstem_testkit.conformance import reading as reads
from mainstem_testkit.conformance._source import Row, SourcingSuite
from mainstem_testkit.conformance.suite import not_claimed, not_given, proves
from mainstem_testkit.pipelines import PipelineFolder, wait_for
from mainstem_testkit.processes import resident

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How long what a run held may take to go, in seconds.
SETTLING = 10.0
#: How many batches the memory is watched over, and by how much it may grow meanwhile, in bytes.
_BATCHES, _GROWTH = 40, 24 * 1024 * 1024


class SourceSuite(SourcingSuite):
    """The standard tests of a source.

    ```python
    class TestOrders(SourceSuite):
        use = "orders"

        def options(self):
            return {"path": str(self.place / "in")}

        def put(self, numbers):
            append(self.place / "in", [f'{{"n": {n}}}' for n in numbers])

        def number(self, row):
            return row["n"]
    ```
    """

    @proves("shape")
    def test_rows_are_as_announced(self) -> None:
        """Names and types are the shape's; a message has time, origin, partition and position."""
        self._offer(range(10))
        reading = self.reading()
        self.read_to_end(reading, 5)
        self.check(reading.rows, range(10) if self.fed else None)
        shape = self.shape
        names = [name for name in shape.names if not name.startswith("_")]
        for row in reading.rows:
            found = [name for name in row if not name.startswith("_")]
            assert found == names, f"columns {found}, announced were {names}"
        if self._message:
            for row in reading.rows:
                empty = [
                    n for n in ("timestamp", "origin", "partition", "position") if row[n] is None
                ]
                assert not empty, f"a message without {empty[0]}"

    @proves("identity", runs=True)
    def test_no_two_rows_have_one_identity(self) -> None:
        """The identity that the shape announces tells each row from every other, over batches."""
        if not self.shape.identity:
            not_claimed("an identity")
        reading = self.reading()
        for start in (0, 10):
            self._offer(range(start, start + 10))
            self.read_to_end(reading, start + 5)
        ids = Counter(row["_id"] for row in reading.rows)
        assert None not in ids, "a row has no identity"
        twice = [row for row in reading.rows if ids[row["_id"]] > 1]
        assert not twice, f"{len(twice)} rows share an identity, such as {dict(twice[0])}"

    @proves("positions", runs=True, shown_by=("ingress", "positions"))
    def test_positions_only_grow(self) -> None:
        """Within a partition, positions are unique, of one width, and grow from batch to batch."""
        if not self._message:
            not_claimed("messages")
        reading = self.reading()
        for start in (0, 10, 20):
            self._feed(range(start, start + 10))
            reading.to_end()
        seen: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
        for batch, rows in reading.batches.items():
            for row in rows:
                place = (row["origin"], row["partition"])
                seen.setdefault(place, []).append((batch, row["position"], self.number(row)))
        for place, entries in seen.items():
            positions = [position for _, position, _ in entries]
            widths = {len(position.encode()) for position in positions}
            assert len(widths) == 1, f"positions of {place} have widths {sorted(widths)}"
            repeated = [p for p, count in Counter(positions).items() if count > 1]
            assert not repeated, f"position {repeated[0]} of {place} is there more than once"
            in_order = sorted(entries, key=lambda entry: entry[1])
            batches = [batch for batch, _, _ in in_order]
            assert batches == sorted(batches), f"positions of {place} go back in a later batch"
            if self.claims.ordered:
                numbers = [number for _, _, number in in_order]
                assert numbers == sorted(numbers), f"{place} is not in the order of its events"

    @proves("replayable", runs=True, shown_by=("ingress", "positions"))
    def test_a_range_reads_the_same_three_times(self) -> None:
        """A batch whose commit was lost is read again, twice, the last time with more behind it."""
        if not self.claims.replayable:
            not_claimed(f"replayable: {self.claims.why}")
        reading = self.reading()
        self._offer(range(20))
        self.read_to_end(reading, 5)
        last = max(number for number, rows in reading.batches.items() if rows)
        first = _sorted(reading.batches[last])
        for more in ((), range(20, 40)):
            self._offer(more)
            reading.lose_commit(last)
            reading.batches.clear()
            self.read_to_end(reading, 1)
            differs = _difference(first, _sorted(reading.batches.get(last, [])))
            assert not differs, f"batch {last}, read again: {differs}"

    @proves("resume", runs=True, shown_by=("ingress", "positions"))
    def test_nothing_is_lost_or_doubled_over_stops(self) -> None:
        """Runs that end and start again give each event once, as far as the source claims."""
        reading = self.reading()
        for start in (0, 10, 20):
            self._offer(range(start, start + 10))
            self.read_to_end(reading, start + 5)
        self.check(reading.rows, range(30) if self.fed else None)

    @proves("resume", runs=True, shown_by=("ingress", "positions"))
    def test_nothing_is_lost_or_doubled_when_stopped_in_the_middle(self) -> None:
        """A run that is told to stop while events come in, and one after it, give each once."""
        self._feed(range(5))
        reading = self.reading()
        with reading.running() as running:
            reading.wait(running, 1)
            self.put(range(5, 25))
        self.put(range(25, 30))
        reading.to_end()
        self.check(reading.rows, range(30))

    @proves("crashes", dear=True, shown_by=("ingress", "positions"))
    def test_one_event_and_a_kill_while_idle(self) -> None:
        """One event comes and none after it; killed by `kill -9` while idle, it is there once."""
        self._feed(())
        pipeline = self.pipeline()
        whole = {**self.parts(), "trigger": {"every": "200 ms"}}
        pipeline.document(**whole)
        with pipeline.start() as process:
            self.put([0])
            process.wait_for(lambda: pipeline.rows("out"))
            time.sleep(0.5)
            process.kill()
        pipeline.document(**self.parts())
        pipeline.run()
        self.check(map(_plain, pipeline.rows("out")), [0])

    @pytest.mark.timeout(1800)
    @proves("crashes", dear=True)
    def test_nothing_is_lost_or_doubled_by_a_kill_at_each_crash_point(self) -> None:
        """Killed as by `kill -9` at each of its crash points, and run again: as claimed."""
        self._break(here=False)

    @pytest.mark.timeout(900)
    @proves("crashes", shown_by=("ingress", "positions"))
    def test_nothing_is_lost_or_doubled_by_a_run_that_dies_at_a_crash_point(self) -> None:
        """The same, cheaper: the run dies by an exception that nobody catches, on the shared session."""
        self._break(here=True)

    def _break(self, *, here: bool) -> None:
        self._feed(())
        limits = self.limited(5) or {}
        whole: list[Row] = []

        def begin(pipeline: PipelineFolder) -> None:
            self._move(pipeline.folder / "place")
            pipeline.document(**self.parts(**limits))
            self.put(range(12))

        def oracle(pipeline: PipelineFolder) -> None:
            rows = [_plain(row) for row in pipeline.rows("out")]
            if rows or not whole or not self.claims.lossy:  # a kill may take all that came
                self.check(rows, range(12))
            whole.extend(rows)

        pipeline = self.pipeline(**limits)
        others = ("run.", "files.")
        self.break_at_crash_points(pipeline, oracle, begin, others, here=here)

    @proves("available_now", runs=True)
    def test_a_bounded_run_ends(self) -> None:
        """`available_now` reads what was there when it began, and ends; also with nothing there."""
        reading = self.reading()
        for count in (0, 10):
            self._offer(range(count))
            running = Running(reading.plan(Trigger(available_now=True)), show_rows=True, fresh=())
            try:
                running.wait(reads.PATIENCE)
            except TimeoutError:
                running.stop()
                raise AssertionError(
                    f"a bounded run did not end within {reads.PATIENCE:.0f} s"
                ) from None
        self.check(reading.rows, range(10) if self.fed else None)

    @proves("limits", runs=True, shown_by=("ingress", "positions"))
    def test_a_batch_keeps_to_its_limit(self) -> None:
        """With a limit of 3 rows no batch has more, and all come in the end."""
        limit = self.limited(3)
        if limit is None:
            not_given("limited")
        self._feed(range(10))
        reading = self.reading(**limit)
        reading.to_end()
        sizes = {batch: len(rows) for batch, rows in reading.batches.items()}
        assert all(size <= 3 for size in sizes.values()), f"rows by batch: {sizes}"
        self.check(reading.rows, range(10))

    @proves("resources", dear=True, shown_by=("ingress", "positions"))
    def test_memory_stays_flat_over_many_batches(self) -> None:
        """No Python process grows with the number of batches."""
        self._feed([0])
        reading = self.reading()
        before: Mapping[int, int] = {}
        with reading.running() as running:
            for number in range(1, _BATCHES):
                reading.wait(running, number)
                if number == _BATCHES // 4:
                    before = resident()
                self.put([number])
            reading.wait(running, _BATCHES)
            after = resident()
        grown = {pid: after[pid] - size for pid, size in before.items() if pid in after}
        most = max(grown.values())
        assert most < _GROWTH, f"a process grew by {most >> 20} MiB in {_BATCHES} batches"

    @proves("resources", dear=True, shown_by=("ingress", "positions"))
    def test_nothing_is_left_behind(self) -> None:
        """Runs leave no process, thread, file or socket of Python's behind.

        Spark keeps workers for later, and ends them, as it likes: what is left behind once may be one of
        these. What each run leaves is there again after the next three.
        """
        reading = self.reading()
        runs = itertools.count()

        def three() -> list[str]:
            before = self._held()
            for run in itertools.islice(runs, 3):
                self._offer(range(5 * run, 5 * run + 5))
                self.read_to_end(reading, 3 * run + 1)
            with suppress(AssertionError):
                wait_for(lambda: not self._held().grown(before, by=3), SETTLING)
            return self._held().grown(before, by=3)

        three()  # what is made once
        if three():
            grown = three()
            assert not grown, f"left behind by three runs: {', '.join(grown)}"

    @proves("server", dear=True)
    def test_the_server_may_go_and_come_back(self) -> None:
        """Restarted, stopped for a while and standing still: the run goes on and nothing is lost."""
        server = self.server
        if server is None:
            not_given("server")
        reading = self.reading()

        def gone() -> None:
            server.stop()
            time.sleep(2)
            server.start()

        def still() -> None:
            server.pause()
            time.sleep(2)
            server.resume()

        with reading.running() as running:
            for number, trouble in enumerate((server.restart, gone, still)):
                self._feed(range(number * 10, number * 10 + 5))
                reading.wait(running, number * 10 + 5)
                trouble()
                self.put(range(number * 10 + 5, number * 10 + 10))
                reading.wait(running, number * 10 + 10)
        self.check(reading.rows, range(30))

    @proves("Measurable", runs=True, shown_by=("ingress", "positions"))
    def test_the_lag_is_what_was_not_read(self) -> None:
        """The lag is 0 when all is read, and else tells the rows, or at least their age."""
        source: Measurable = self.can(Measurable)
        self._feed(range(10))
        reading = self.reading()
        reading.take()
        end = source.end(reading.home)
        assert end, "`end` tells of no partition"
        reading.to_end()
        rows, seconds = reading.lag()
        assert rows in (0, None), f"all is read, and the lag is {rows} rows"
        assert seconds in (0.0, None), f"all is read, and the lag is {seconds} s"
        self.put(range(10, 17))
        reading.take()
        time.sleep(0.1)
        rows, seconds = reading.lag()
        assert rows in (7, None), f"7 rows are not read, and the lag is {rows}"
        assert seconds is None or seconds > 0, f"7 rows are not read, and the lag is {seconds} s"
        assert (rows, seconds) != (None, None), "the lag tells neither rows nor seconds"
        assert source.end(reading.home) != end, "7 more rows, and `end` is where it was"

    @proves("Rewindable", runs=True, shown_by=("ingress", "positions"))
    def test_reading_can_begin_elsewhere(self) -> None:
        """From `earliest` all is read again; from a time, what came since; nothing is gone."""
        source: Rewindable = self.can(Rewindable)
        self._feed(range(5))
        reading = self.reading()
        reading.to_end()
        time.sleep(1.1)
        since = datetime.now(UTC)
        time.sleep(0.1)
        self.put(range(5, 12))
        reading.to_end()
        for point, expected in (("earliest", range(12)), (since, range(5, 12))):
            again = self.reading(f"from-{len(str(point))}", source.starting_at(point))
            again.to_end()
            self.check(again.rows, expected)
        assert source.gone(Reached(None, self.place / "no-such-folder", reading.home)) == "", (
            "all is there"
        )
        try:
            source.starting_at("no such point")
        except OptionError:
            return
        raise AssertionError("started at 'no such point'")

    @property
    def _message(self) -> bool:
        names = {column.name for column in MESSAGE_COLUMNS}
        return names <= set(self.shape.names)


def _sorted(rows: Iterable[Row]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _difference(first: Sequence[str], again: Sequence[str]) -> str:
    missing, more = Counter(first) - Counter(again), Counter(again) - Counter(first)
    parts = []
    if missing:
        parts.append(f"{missing.total()} rows are missing, such as {next(iter(missing))}")
    if more:
        parts.append(f"{more.total()} rows are new, such as {next(iter(more))}")
    return "; ".join(parts)


def _plain(row: Row) -> Row:
    """Return a row of a Parquet file with bytes as text, as JSON rows have them."""
    return {
        name: value.decode(errors="replace") if isinstance(value, bytes) else value
        for name, value in row.items()
    }
