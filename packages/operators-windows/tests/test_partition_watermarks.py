"""Watermarks by partition in documents: a fast partition makes nothing of a slow one late."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from mainstem import DocumentError
from mainstem_testkit import PipelineFolder, crash_at_every_point

START = datetime(2026, 1, 1)


def pipeline(folder, **watermark):
    whole = {"column": "at", "delay": "0 seconds", "by": ["p"], **watermark}
    decode = {"format": "json", "schema": "p STRING, at TIMESTAMP, v INT"}
    totals = {
        "by": ["p"],
        "window": {"on": "at", "tumbling": "1 minute"},
        "columns": {"n": "count(*)"},
    }
    made = PipelineFolder(folder)
    return made.document(
        operators={
            "rows": {"use": "decode", "from": "lines", "with": decode, "watermark": whole},
            "totals": {"use": "aggregate", "from": "rows", "with": totals},
        },
        sinks={
            "out": made.sink("out", "totals"),
            "raw": made.sink("raw", "rows"),
        },
        sources={
            "lines": {
                "use": "files",
                "with": {"path": "./in", "format": "message", "max_files": 1},
            }
        },
    )


def feed(made, number, **minutes):
    """Add a batch: for each partition one row in each of some minutes."""
    rows = [
        {"p": p, "at": f"{(START + timedelta(minutes=m)).isoformat()}Z", "v": m}
        for p, each in minutes.items()
        for m in each
    ]
    made.feed(f"{number:04}", rows)


def told(made):
    return sorted(
        (row["p"], datetime.fromisoformat(row["window_start"]).minute, row["n"])
        for row in made.rows("out")
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("by", [["p"], []])
def test_a_fast_partition_makes_nothing_late(spark, tmp_path, by):
    """Pass: with `by` all rows count; without it those of the slow partition are late."""
    made = pipeline(tmp_path, by=by)
    for number in range(4):
        feed(made, number, fast=[10 * number + n for n in range(3)], slow=[number])
    made.run()
    if by:
        # The slow one is at minute 3: what ends by then is out, of both.
        assert told(made) == [
            *(("fast", minute, 1) for minute in (0, 1, 2)),
            *(("slow", minute, 1) for minute in (0, 1, 2)),
        ]
    else:
        assert ("fast", 20, 1) in told(made)
        assert ("slow", 3, 1) not in told(made)
    assert len(made.rows("raw")) == 16
    assert bool(list((tmp_path / "checkpoints/test").glob("relays/*"))) == bool(by)


@pytest.mark.in_turn
def test_a_partition_that_is_idle_holds_nothing_back(spark, tmp_path):
    made = pipeline(tmp_path, idle_after="10 milliseconds")
    for number, minutes in enumerate([{"a": [0], "b": [0]}, {"a": [5]}, {"a": [6]}, {"a": [7]}]):
        feed(made, number, **minutes)
    made.run()
    assert told(made) == [("a", 0, 1), ("a", 5, 1), ("a", 6, 1), ("b", 0, 1)]
    feed(made, 4, a=[8])  # b may have rows that wait, as far as this run can know
    made.run()
    assert ("a", 7, 1) not in told(made)


@pytest.mark.in_turn
def test_a_watermark_on_a_step_goes_through_a_relay(spark, tmp_path):
    """Pass: of a step that Spark computes batch by batch, above a relay, the watermark closes windows."""
    made = pipeline(tmp_path, by=[])
    text = made.file.read_text()
    made.file.write_text(text.replace("    from: lines\n", "    from: lines\n    relay: true\n"))
    feed(made, 0, a=[0, 1], b=[2, 9])
    made.run()
    assert told(made) == [("a", 0, 1), ("a", 1, 1), ("b", 2, 1)]


@pytest.mark.in_turn
def test_a_flush_closes_what_is_open_and_no_more(spark, tmp_path):
    made = pipeline(tmp_path)
    text = made.file.read_text().replace("available_now: true", "available_now: true, flush: true")
    made.file.write_text(text)
    feed(made, 0, fast=[0, 9], slow=[1])
    made.run()
    assert told(made) == [("fast", 0, 1), ("fast", 9, 1), ("slow", 1, 1)]
    feed(made, 1, fast=[10], slow=[10])
    made.run()
    assert told(made)[1:3] == [("fast", 9, 1), ("fast", 10, 1)]


@pytest.mark.in_turn
def test_a_crash_forgets_no_partition(spark, tmp_path):
    made = pipeline(tmp_path)
    for number in range(3):
        feed(made, number, fast=[10 * number], slow=[number])

    def check(done):
        assert told(done) == [("fast", 0, 1), ("slow", 0, 1), ("slow", 1, 1)]

    def chosen(found):
        return [point for point in found if point.startswith("relay.")]

    crash_at_every_point(made, check, points=chosen, passes=(2,), here=True)


def test_it_needs_a_relay(tmp_path):
    made = pipeline(tmp_path)
    made.file.write_text(
        made.file.read_text().replace("    from: lines\n", "    from: lines\n    relay: false\n")
    )
    with pytest.raises(DocumentError, match="partitions of a watermark are kept by a relay"):
        made.plan()
