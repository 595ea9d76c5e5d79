"""What a flush closes, and what it leaves open for the runs to come: on Spark, by the control stream."""

from __future__ import annotations

import pytest
from mainstem.event_time import LAST
from mainstem.history import History
from mainstem.run.rollback import take_back

pytestmark = pytest.mark.usefixtures("looking")


@pytest.fixture
def minutes(pipeline):
    """A pipeline that counts rows by minute, one file in each batch, and flushes."""
    read = {"path": "./in", "format": "message", "max_files": 1}
    decode = {"format": "json", "schema": "at TIMESTAMP, far BIGINT"}
    time = {"at": "coalesce(timestamp_millis(far), at)"}
    pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={"lines": {"use": "files", "with": read}},
        operators={
            "row": {"use": "decode", "from": "lines", "with": decode, "on_rejected": "drop"},
            "event": {
                "use": "select",
                "from": "row",
                "with": {"columns": time},
                "watermark": {"column": "at", "delay": "1 minute"},
            },
            "minute": {"use": "minutes", "from": "event"},
        },
        sinks={"out": pipeline.sink("out", "minute")},
    )
    return pipeline


def feed(pipeline, name, *times):
    pipeline.feed(name, [{"at": f"2026-01-01T{at}Z"} for at in times])


def counted(pipeline):
    return sorted((row["minute"], row["n"]) for row in pipeline.rows("out"))


def late(summary):
    return sum(query["late_rows"] for query in summary["queries"].values())


@pytest.mark.parametrize("more", ["", ".123", ".123456"], ids=["seconds", "millis", "micros"])
@pytest.mark.in_turn
def test_runs_with_nothing_new_do_not_make_the_next_rows_late(minutes, more):
    """Pass: after two runs without rows, those of the next minutes are counted, and none is late."""
    feed(minutes, "1.jsonl", "12:00:10", f"12:00:59{more}")
    for _ in range(3):
        assert late(minutes.run()) == 0
        assert counted(minutes) == [("12:00", 2)]
    feed(minutes, "2.jsonl", "12:01:20", f"12:02:30{more}")
    assert late(minutes.run()) == 0
    assert counted(minutes) == [("12:00", 2), ("12:01", 1), ("12:02", 1)]


def of_steps(pipeline):
    """Write a document whose source can be taken back."""
    watermark = {"column": "at", "delay": "1 minute"}
    pipeline.document(
        trigger={"available_now": True, "flush": True},
        sources={"event": {"use": "steps", "with": {"path": "./in"}, "watermark": watermark}},
        operators={"minute": {"use": "minutes", "from": "event"}},
        sinks={"out": pipeline.sink("out", "minute")},
    )


@pytest.mark.in_turn
def test_after_a_rollback_later_rows_are_not_late_and_a_flush_closes_again_what_it_had_closed(
    pipeline,
):
    """Pass: taken back to the first of three runs, and to before its flush, the next run gives all minutes as they
    were, each once."""
    of_steps(pipeline)
    ends = []
    plan = pipeline.plan()
    history = History(plan.query_folder("minute"))
    for number, files in enumerate([["00:10"], ["10:10", "11:10"], ["20:10", "21:10"]]):
        for time in files:  # Spark drops what is late by the watermark of the batch before
            pipeline.feed(f"{number}-{time[:2]}.txt", [f"2026-01-01T12:{time}+00:00"])
        pipeline.run()
        ends.append(history.last())
    expected = [(f"12:{minute}", 1) for minute in ("00", "10", "11", "20", "21")]
    assert counted(pipeline) == expected
    for batch in (ends[0], 0):
        take_back(plan, plan.queries[0], batch)
        assert late(pipeline.run()) == 0
        assert counted(pipeline) == expected


@pytest.mark.in_turn
def test_an_event_time_beyond_the_years_of_python_ends_no_run(minutes):
    """Pass: milliseconds read as seconds, beyond the year 57000: the run ends well, and so does the next."""
    minutes.feed("1.jsonl", [{"at": "2026-01-01T12:00:00Z"}, {"far": 1_767_225_600_000_000}])
    minutes.run()
    assert ("12:00", 1) in counted(minutes)
    assert History(minutes.plan().query_folder("minute")).watermark() == LAST
    feed(minutes, "2.jsonl", "12:01:00")
    assert late(minutes.run()) == 1


@pytest.mark.in_turn
def test_after_a_rollback_a_row_that_does_not_come_again_makes_none_late(pipeline):
    """Pass: a date of 2099 is rolled back and taken out; the next run's rows are counted, and none is late."""
    of_steps(pipeline)
    pipeline.feed("0.txt", ["2026-01-01T12:00:10+00:00"])
    pipeline.run()
    plan = pipeline.plan()
    before = History(plan.query_folder("minute")).last()
    pipeline.feed("1.txt", ["2099-01-01T12:00:00+00:00"])
    pipeline.run()
    assert before is not None
    take_back(plan, plan.queries[0], before)
    (pipeline.folder / "in" / "1.txt").unlink()
    for number in (2, 3):
        pipeline.feed(f"{number}.txt", [f"2026-01-01T12:{number}0:10+00:00"])
        assert late(pipeline.run()) == 0
    assert counted(pipeline) == [(f"12:{minute}", 1) for minute in ("00", "20", "30")]
