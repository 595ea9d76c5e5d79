"""The suite of position logs passes a sound one, and catches faulty ones."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from mainstem import OptionError, hookimpl, messages, option
from mainstem.positions import (
    Chunk,
    Gap,
    PositionLog,
    PositionOptions,
    PositionSource,
    Seen,
    Span,
)
from mainstem.positions.planner import offset_of
from mainstem.positions.reading import GAP
from mainstem_testkit import PositionLogSuite, install

sys.path.insert(0, str(Path(__file__).parent))


class JournalOptions(PositionOptions):
    """Options of `journal`."""

    folder: str = option(
        description="Where the journal is: a folder with a file for each partition."
    )
    fault: str = option("", description="What is wrong with it.")
    on_loss: str = option("fail", description="What happens when messages are gone.")


class JournalLog(PositionLog):
    """Files of lines, one for each partition; `gone` tells how many of the first were removed."""

    def __init__(self, options: JournalOptions, node: str, reader: str) -> None:
        self._folder, self._fault = Path(options.folder), options.fault

    def called(self, partition: str) -> str:
        return f"partition {partition} of the journal"

    def _lines(self, partition: str) -> list[list]:
        text = (self._folder / f"{partition}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def look(self) -> Seen:
        told = json.loads((self._folder / "told").read_text())
        if self._fault == "leaks":
            _LEAKED.append(os.open(os.devnull, os.O_RDONLY))
        spans = {}
        for file in sorted(self._folder.glob("*.jsonl")):
            count, gone = len(self._lines(file.stem)), told["gone"].get(file.stem, 0)
            spans[file.stem] = Span(gone + 1, count)
        return Seen("" if self._fault == "no identity" else told["made"], spans)

    def at(self, time: datetime):
        before = {}
        for partition in self.look().spans:
            stamps = [stamp for _, stamp in self._lines(partition)]
            late = self._fault == "begins late"
            before[partition] = sum(stamp < time.timestamp() for stamp in stamps) + late
        return before

    def read(self, part, schema, *, gaps):
        span = self.look().spans[part.partition]
        end = part.end - (self._fault == "loses the last")
        after = part.after - (self._fault == "doubles the first" and part.after > 0)
        end = None if self._fault == "reads on" else end
        lines = self._lines(part.partition)[max(after, span.first - 1) : end]
        if self._fault == "shuffles":
            lines = lines[::-1]
        made = []
        for place, (value, stamp) in enumerate(lines, max(after, span.first - 1) + 1):
            row = {
                "key": None, "value": value.encode(), "headers": None, "origin": "journal",
                "timestamp": datetime.fromtimestamp(stamp, UTC), "partition": part.partition,
                "position": f"{place:020}",
            }  # fmt: skip
            made.append(row)
        told = []
        if gaps and span.first - 1 > part.after and self._fault != "silent":
            last = min(span.first - 1, part.end)
            told.append(Gap(part.after + 1, last, last - part.after, "removed"))
        yield Chunk(pa.RecordBatch.from_pylist(made, schema=schema), told)

    def waiting(self, partition: str, after: int, last: int) -> int:
        return last - after + (self._fault == "counts too many")


_LEAKED = []


class Journal(PositionSource):
    """Reads a journal."""

    options: JournalOptions
    columns = (
        "key BINARY, value BINARY, headers MAP<STRING, BINARY>, timestamp TIMESTAMP, origin STRING, "
        "partition STRING, position STRING"
    )

    def shape(self):
        return messages()

    def opener(self, node):
        return partial(JournalLog, self.options, node)


@hookimpl
def mainstem_sources():
    return {"journal": Journal}


@pytest.fixture(autouse=True)
def installed(tmp_path_factory, monkeypatch):
    """Let plans find the word `journal`, which this module brings."""
    site = tmp_path_factory.mktemp("site")
    install(monkeypatch, site, "mainstem-journal", sources={"journal": __name__})


class TestJournal(PositionLogSuite):
    use = "journal"
    fault = ""

    def prepare(self):
        self.folder = self.place / "journal"
        self.folder.mkdir()
        self.make_anew()

    def options(self):
        return {"folder": str(self.folder), "fault": self.fault}

    def make_anew(self):
        made = {"made": str(time.monotonic_ns()), "gone": {}}
        (self.folder / "told").write_text(json.dumps(made))
        for partition in "ab":
            (self.folder / f"{partition}.jsonl").write_text("")

    def put(self, numbers):
        for number in numbers:
            file = self.folder / f"{'ab'[number % 2]}.jsonl"
            with file.open("a") as lines:
                lines.write(json.dumps([str(number), time.time()]) + "\n")

    def remove(self, count):
        told = json.loads((self.folder / "told").read_text())
        told["gone"] = dict.fromkeys("ab", count // 2)
        (self.folder / "told").write_text(json.dumps(told))


def test_where_a_new_partition_begins_is_of_the_batch(tmp_path):
    """Pass: what is removed of it between planning and reading is told, as of one that was there before."""
    suite = TestJournal()
    suite._move(tmp_path / "place")
    suite.put(range(4))
    reading = suite.reading(gaps="report")
    _, start = suite.batch(reading)
    lines = [json.dumps([str(number), time.time()]) for number in range(10, 16)]
    (suite.folder / "c.jsonl").write_text("\n".join(lines) + "\n")
    _, end = suite.batch(reading, start)
    told = json.loads((suite.folder / "told").read_text())
    (suite.folder / "told").write_text(json.dumps({**told, "gone": {"c": 2}}))
    rows = suite.read(reading, start, end)
    assert [suite.number(row) for row in rows if row[GAP] is None] == [12, 13, 14, 15]
    assert [json.loads(row[GAP])["count"] for row in rows if row[GAP] is not None] == [2]


FAULTS = {
    "loses the last": "test_each_message_is_a_row_once_and_in_order",
    "doubles the first": "test_each_message_is_a_row_once_and_in_order",
    "begins late": "test_it_begins_where_it_is_told",
    "counts too many": "test_the_lag_is_what_was_not_read",
    "silent": "test_what_was_removed_before_it_was_read_is_told",
    "no identity": "test_a_log_that_was_made_anew_is_not_taken_for_the_other",
    "leaks": "test_nothing_is_left_behind",
    "reads on": "test_a_range_is_read_the_same_each_time",
    "shuffles": "test_each_message_is_a_row_once_and_in_order",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_log_is_caught(tmp_path, fault):
    """Pass: the test that is for it fails, and passes without the fault."""
    for name, fails in (("", False), (fault, True)):
        suite = type("TestFaulty", (TestJournal,), {"fault": name})()
        suite._move(tmp_path / f"place-{fails}")
        test = getattr(suite, FAULTS[fault])
        if not fails:
            test()
            continue
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            test()


def test_an_offset_that_is_none_is_told(tmp_path):
    """Pass: of a bare number and a list, as of unknown words, the message has what is expected."""
    suite = TestJournal()
    suite._move(tmp_path / "place")
    log = suite.source().opener("rows")("somebody")
    for point in (42, [1], "earliest", {"reed": 1}):
        with pytest.raises(OptionError, match="expected an offset such as"):
            offset_of(log, point)
