"""How far a flush moves the watermark, and event times that Python does not know."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from mainstem.contracts.shapes import EventTime
from mainstem.event_time import (
    FIRST,
    LAST,
    from_micros,
    from_text,
    in_millis,
    moved,
)
from mainstem.history import History
from mainstem.observation.metrics import Metrics
from mainstem.run.facts import timed
from mainstem.run.idleness import Idleness
from mainstem.run.latest import LatestEvent, forget_latest
from mainstem.run.watermarks import Watermarks

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
#: Milliseconds since 1970, read as seconds.
FAR = 1_767_225_600_000


class Flushed:
    """A query that sums up hours and waits for ten minutes, with the watermark as Spark keeps it."""

    def __init__(self, folder: Path) -> None:
        rows = SimpleNamespace(
            name="rows",
            watermark=EventTime("at", timedelta(minutes=10)),
            state=None,
            partitions=None,
        )
        state = SimpleNamespace(holds=timedelta(hours=1))
        total = SimpleNamespace(name="total", watermark=None, state=state)
        plan = SimpleNamespace(nodes={"rows": rows, "total": total}, controlled=lambda _: True)
        query = SimpleNamespace(name="total", streaming=("rows", "total"))
        self.folder = folder
        self.latest: datetime | None = None
        self.millis = 0
        self._watermarks = Watermarks(plan, query, None, SimpleNamespace(node=lambda _: folder))

    @property
    def watermark(self) -> datetime | None:
        return BEGINNING + timedelta(milliseconds=self.millis) if self.millis else None

    def run(self, *events: datetime) -> bool:
        """Take events, then flush; whether that wrote a row."""
        self.latest = max([*events, self.latest] if self.latest else events, default=None)
        self._hear(*events)
        wrote = self._watermarks.flush(self.latest, self.watermark)
        self._hear()
        return wrote

    def _hear(self, *events: datetime) -> None:
        rows = [json.loads(file.read_text()) for file in self.folder.rglob("*.json")]
        for at in [*events, *(datetime.fromisoformat(row["at"]) for row in rows)]:
            self.millis = max(self.millis, (at - BEGINNING) // MILLISECOND - 600_000)


@pytest.mark.parametrize("micros", [0, 1, 123_000, 123_456, 998_999])
def test_a_flush_with_nothing_new_moves_nothing(tmp_path, micros):
    """Pass: the watermark is an hour past the last event, to the millisecond, also after runs without events; the
    next hour's events are not late."""
    query = Flushed(tmp_path)
    for hour in range(1, 5):
        first = datetime(2026, 1, 1, hour, tzinfo=UTC)
        last = first + timedelta(minutes=59, seconds=59, microseconds=micros)
        assert query.watermark is None or query.watermark < first + timedelta(hours=1)
        assert query.run(first, last)
        at = query.watermark
        assert last + timedelta(hours=1) < at <= last + timedelta(hours=1) + MILLISECOND
        for _ in range(3):
            assert not query.run()
        assert query.watermark == at


def test_a_flush_with_microseconds_of_an_earlier_version_is_known(tmp_path):
    """Pass: its watermark counts as no event."""
    query = Flushed(tmp_path)
    query.run(datetime(2026, 1, 1, 1, 59, 59, 123_456, UTC))
    (file,) = tmp_path.rglob("*.json")
    at = "2026-01-01T03:09:59.124456+00:00"
    file.with_name("20260101T030959.124456.json").write_text(json.dumps({"at": at}))
    file.unlink()
    before = query.watermark
    query.latest = None  # not known, as in a checkpoint from before it was written down
    assert not query.run()
    assert query.watermark == before


@pytest.mark.parametrize(("millis", "known"), [(FAR * 1000, LAST), (-FAR * 1000, FIRST)])
def test_a_time_that_python_does_not_know_ends_no_run(tmp_path, millis, known):
    """Pass: batches, offsets, commits, what was heard and flushes go on with the nearest time that is known."""
    metrics = {"row__watermark1": {"rows": 1, "latest": millis * 1000}}
    assert list(timed(metrics)) == [("row__watermark1", "row", known)]
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    offsets = json.dumps({"batchWatermarkMs": millis, "conf": {}})
    (tmp_path / "offsets/0").write_text(f'v2\n{offsets}\nlines:{{"logOffset":1}}')
    (tmp_path / "commits/0").write_text("v1\n" + json.dumps({"nextBatchWatermarkMs": millis}))
    history = History(tmp_path)
    assert history.problems(stateful=False) == []
    assert history.offsets(0).watermark == history.watermark() == known
    latest = LatestEvent(tmp_path)
    latest.hear(metrics)
    assert LatestEvent(tmp_path).time == known
    forget_latest(tmp_path)
    assert LatestEvent(tmp_path).time is None
    query = Flushed(tmp_path / "query")
    query.latest = known
    flush = query._watermarks.flush
    assert flush(known, known)
    assert not flush(known, known if known == LAST else None)
    query._watermarks.advance("rows", known)


def test_a_node_whose_rows_are_far_off_is_idle_as_any_other():
    """Pass: the other goes on to the nearest time that is known, and no further."""
    node = {"watermark": EventTime("at", timedelta(minutes=10)), "idle_after": timedelta(seconds=1)}
    nodes = {n: SimpleNamespace(name=n, **node) for n in ("a", "b")}
    told: list[tuple[str, datetime]] = []
    marks = SimpleNamespace(advance=lambda *row: told.append(row), streams=lambda _: 1)
    now = [0.0]
    query = SimpleNamespace(streaming=("a", "b"))
    idleness = Idleness(SimpleNamespace(nodes=nodes), query, marks, lambda: now[0])
    now[0] = 5.0
    for micros in (-FAR * 1_000_000, FAR * 1_000_000):
        idleness.hear({"a__watermark1": {"rows": 1, "latest": micros}})
        idleness.move()
        now[0] += 0.5
    assert told[0] == ("b", FIRST)


def test_metrics_tell_a_watermark_that_python_does_not_know():
    """Pass: as Spark writes it, it is served as the last second of 9999; another one as it is."""
    metrics = Metrics(0)
    facts = {
        "pipeline": "p", "query": "q", "seconds": 1.0, "at": "2026-01-01T00:00:00Z", "late_rows": 0, "state_rows": 0, "nodes": {}, "idle": [],
    }  # fmt: skip
    try:
        for text, seconds in (("+57971-08-12T00:00:00.000Z", LAST), ("1970-01-01T00:00:01Z", None)):
            metrics.batch({**facts, "watermark": text})
            with urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            (line,) = [each for each in lines if each.startswith("mainstem_watermark_seconds{")]
            assert float(line.split()[-1]) == (seconds.timestamp() if seconds else 1.0)
    finally:
        metrics.ended({})


def test_times_are_kept_to_those_that_python_knows():
    """Pass: to the microsecond within, the nearest one beyond, and in whole milliseconds."""
    assert from_micros(1) == BEGINNING + timedelta(microseconds=1)
    assert from_micros(-1) == BEGINNING - timedelta(microseconds=1)
    assert moved(LAST, timedelta(days=1)) == LAST
    assert moved(FIRST, -timedelta(days=1)) == FIRST
    assert in_millis(from_micros(1999)) == from_micros(1000)
    assert in_millis(from_micros(2000)) == from_micros(2000)
    assert in_millis(LAST) == LAST
    assert from_text("57971-08-12T00:00:00.000Z") == LAST
