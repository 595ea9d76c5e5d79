"""A table is loaded before the first event: phases on one checkpoint, kills, sources that come later."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime

import pytest
from mainstem.durable import read_whole
from mainstem.errors import PipelineError
from mainstem.history import History
from mainstem.observation.reporter import Silent
from mainstem_testkit import crash_at_every_point

pytestmark = pytest.mark.usefixtures("looking")


def files(name, schema):
    options = {"path": f"./{name}", "format": "jsonlines", "schema": schema, "max_files": 1}
    return {"use": "files", "with": options}


STREAM, TABLE = "n BIGINT, k STRING", "k STRING, t STRING"


def look(stream="stream", table="table"):
    return {"use": "look", "from": {"stream": stream, "table": table}}


def document(pipeline, **parts):
    whole = {
        "sources": {"stream": files("stream", STREAM), "table": files("table", TABLE)},
        "operators": {"looked": look()},
        "sinks": {"out": pipeline.sink("out", "looked")},
        **parts,
    }
    for name in whole["sources"]:
        (pipeline.folder / name).mkdir(exist_ok=True)
    return pipeline.document(**whole)


def feed(pipeline, folder, name, rows):
    hidden = pipeline.folder / f".{folder}-{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Spark takes the files in the order of their times, which ties leave open.
    there = 1_700_000_000 + len(list((pipeline.folder / folder).iterdir()))
    os.utime(hidden, (there, there))
    hidden.rename(pipeline.folder / folder / name)


def ask(pipeline, name, *rows):
    feed(pipeline, "stream", name, [{"n": n, "k": k} for n, k in rows])


def tell(pipeline, name, table="table", **rows):
    feed(pipeline, table, name, [{"k": k, "t": t} for k, t in rows.items()])


def found(pipeline):
    return sorted((row["n"], row["t"]) for row in pipeline.rows("out"))


class Told(Silent):
    """Keeps what a run tells."""

    def __init__(self):
        self.news, self.batches = [], []

    def loading(self, facts):
        self.news.append((facts["event"], facts["phase"], facts["of"], *facts["reads"]))

    def batch(self, facts):
        assert facts["nodes"]["looked"]["rows"] == 0 or "stream" not in facts["loading"]
        self.batches.append(facts["loading"])


def record(pipeline, query="looked"):
    file = pipeline.folder / "checkpoints/test/queries" / query / "loaded.json"
    return json.loads(read_whole(file)) if file.exists() else None


@pytest.mark.in_turn
def test_a_table_in_many_batches_is_there_before_the_first_event_and_only_the_first_time(pipeline):
    """Pass: rows that came first see the whole table; loading is told; the next run does not load."""
    document(pipeline)
    ask(pipeline, "1", (1, "a"), (2, "b"), (3, "c"))
    tell(pipeline, "1", a="old")
    tell(pipeline, "2", b="B")
    tell(pipeline, "3", a="A")
    told = Told()
    pipeline.run(reporter=told)
    assert found(pipeline) == [(1, "A"), (2, "B"), (3, "-")]
    assert told.news == [("loading", 1, 2, "table"), ("loaded", 1, 2, "table")]
    assert told.batches == [["table"]] * 3 + [[]]
    assert record(pipeline)["table"]["batch"] == 2
    assert record(pipeline)["table"]["ends"]["0"].endswith("/table/3")
    tell(pipeline, "4", c="C")
    pipeline.run(reporter=(again := Told()))
    ask(pipeline, "2", (4, "c"), (5, "a"))
    pipeline.run(reporter=again)
    assert found(pipeline)[3:] == [(4, "C"), (5, "A")]
    assert again.news == []
    assert again.batches == [[], []]


@pytest.mark.in_turn
def test_an_empty_table_is_loaded_too(pipeline):
    """Pass: without a row in the table the stream begins all the same, and loading is over for good."""
    document(pipeline)
    ask(pipeline, "1", (1, "a"))
    pipeline.run()
    assert found(pipeline) == [(1, "-")]
    assert record(pipeline)["table"]["batch"] == -1
    pipeline.run(reporter=(told := Told()))
    assert told.news == []


@pytest.mark.in_turn
def test_the_watermark_goes_on_from_what_was_loaded(pipeline):
    """Pass: it is where the table is, which has no row after loading, and not at the beginning of time."""
    timed = {"column": "at", "delay": "1 minute", "idle_after": "1 hour"}
    sources = {
        name: {**files(name, f"{schema}, at TIMESTAMP"), "watermark": timed}
        for name, schema in (("stream", STREAM), ("table", TABLE))
    }
    document(pipeline, sources=sources)
    feed(pipeline, "stream", "1", [{"n": 1, "k": "a", "at": "2026-01-01T12:10:00Z"}])
    for number, minute in enumerate((3, 5, 4)):
        at = f"2026-01-01T12:0{minute}:00Z"
        feed(pipeline, "table", str(number), [{"k": "a", "t": "A", "at": at}])
    pipeline.run()
    assert found(pipeline) == [(1, "A")]
    history = History(pipeline.folder / "checkpoints/test/queries/looked")
    assert history.watermark() == datetime(2026, 1, 1, 12, 4, tzinfo=UTC)


def whole_table_seen(pipeline):
    assert found(pipeline) == [(1, "A"), (2, "B"), (3, "-"), (4, "A")]
    assert set(record(pipeline)) == {"table"}


def for_crashes(pipeline):
    document(pipeline)
    ask(pipeline, "1", (1, "a"), (2, "b"))
    ask(pipeline, "2", (3, "c"), (4, "a"))
    tell(pipeline, "1", a="old", b="old")
    tell(pipeline, "2", a="A")
    tell(pipeline, "3", b="B")


@pytest.mark.in_turn
def test_a_kill_between_the_phases(pipeline):
    """Pass: killed with kill -9 before and after a phase is written down, the next run goes on from there."""
    for_crashes(pipeline)
    points = crash_at_every_point(
        pipeline,
        whole_table_seen,
        points=lambda points: [point for point in points if point.startswith("bootstrap.")],
    )
    assert points == ["bootstrap.before-done", "bootstrap.after-done"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_kill_in_each_batch_of_each_phase(pipeline):
    """Pass: killed with kill -9 before and after each batch, loading or not, nothing is lost or joined early."""
    for_crashes(pipeline)
    crash_at_every_point(
        pipeline,
        whole_table_seen,
        points=lambda points: [point for point in points if point.startswith("run.")],
        passes=(1, 2, 3, 4, 5),
    )


@pytest.mark.in_turn
def test_a_kill_in_the_middle_of_loading(pipeline):
    """Pass: killed in the second of three batches, the run after it loads the rest, then begins."""
    for_crashes(pipeline)
    broken = pipeline.command(MAINSTEM_FAILPOINT="run.before-batch:2:kill")
    assert broken.returncode == -signal.SIGKILL
    assert record(pipeline) is None
    pipeline.run(reporter=(told := Told()))
    whole_table_seen(pipeline)
    # The batch in hand first, as it was planned.
    assert told.batches == [[], ["table"], [], []]


@pytest.mark.in_turn
@pytest.mark.usefixtures("sources_by_name")
def test_a_source_that_the_table_gains_is_loaded_before_the_stream_goes_on(pipeline):
    """Pass: later rows see the new source's table; none of the stream's rows is lost or comes twice."""
    document(pipeline)
    tell(pipeline, "1", a="A")
    ask(pipeline, "1", (1, "a"), (2, "b"))
    pipeline.run()
    sources = {
        "stream": files("stream", STREAM),
        "table": files("table", TABLE),
        "more": files("more", TABLE),
    }
    document(pipeline, sources=sources, operators={"looked": look(table=["table", "more"])})
    ask(pipeline, "2", (3, "a"), (4, "b"), (5, "c"))
    tell(pipeline, "1", table="more", b="B")
    tell(pipeline, "2", table="more", c="C")
    pipeline.run(reporter=(told := Told()))
    assert found(pipeline) == [(1, "A"), (2, "-"), (3, "A"), (4, "B"), (5, "C")]
    assert told.news == [("loading", 1, 2, "more"), ("loaded", 1, 2, "more")]
    assert record(pipeline)["table"]["batch"] < record(pipeline)["more"]["batch"]
    ask(pipeline, "3", (6, "c"))
    pipeline.run()
    assert found(pipeline)[5:] == [(6, "C")]


@pytest.mark.in_turn
@pytest.mark.usefixtures("sources_by_name")
def test_a_batch_in_hand_is_finished_as_it_was_planned_before_a_new_source_is_loaded(pipeline):
    """Pass: the batch that was killed is written once, as planned; what follows sees the new source."""
    document(pipeline)
    tell(pipeline, "1", a="A")
    ask(pipeline, "1", (1, "b"))
    ask(pipeline, "2", (2, "b"))
    broken = pipeline.command(MAINSTEM_FAILPOINT="run.before-batch:2:kill")
    assert broken.returncode == -signal.SIGKILL
    assert found(pipeline) == []
    sources = {
        "stream": files("stream", STREAM),
        "table": files("table", TABLE),
        "more": files("more", TABLE),
    }
    document(pipeline, sources=sources, operators={"looked": look(table=["table", "more"])})
    tell(pipeline, "1", table="more", b="B")
    pipeline.run(reporter=(told := Told()))
    assert found(pipeline) == [(1, "-"), (2, "B")]
    assert told.batches[:2] == [[], ["more", "table"]]


@pytest.mark.in_turn
def test_a_table_made_by_a_table_is_loaded_in_its_turn(pipeline):
    """Pass: three phases; a row of the stream sees what rows of the second table saw in the first."""
    document(
        pipeline,
        sources={
            "stream": files("stream", STREAM),
            "second": files("second", STREAM),
            "table": files("table", TABLE),
        },
        operators={"inner": look("second", "table"), "looked": look("stream", "inner")},
    )
    ask(pipeline, "1", (1, "a"), (2, "b"))
    feed(pipeline, "second", "1", [{"n": 0, "k": "a"}])
    tell(pipeline, "1", a="old")
    tell(pipeline, "2", a="A")
    pipeline.run(reporter=(told := Told()))
    assert found(pipeline) == [(1, "A"), (2, "-")]
    assert [news for news in told.news if news[0] == "loading"] == [
        ("loading", 1, 3, "table"),
        ("loading", 2, 3, "second"),
    ]


@pytest.mark.in_turn
def test_two_tables_of_one_query_are_loaded_together(pipeline):
    """Pass: one phase for both; a row is looked up in one, then in the other."""
    document(
        pipeline,
        sources={
            "stream": files("stream", STREAM),
            "table": files("table", TABLE),
            "more": files("more", TABLE),
        },
        operators={"inner": look("stream", "table"), "looked": look("inner", "more")},
    )
    ask(pipeline, "1", (1, "a"), (2, "b"))
    tell(pipeline, "1", a="A", b="B")
    tell(pipeline, "1", table="more", a="1")
    pipeline.run(reporter=(told := Told()))
    assert found(pipeline) == [(1, "A1"), (2, "B-")]
    assert [news for news in told.news if news[0] == "loading"] == [
        ("loading", 1, 2, "more", "table")
    ]


@pytest.mark.in_turn
def test_a_source_on_both_sides_is_read_twice_and_loaded_by_one_of_the_reads(pipeline):
    """Pass: the first row sees what the last row of the same source tells."""
    both = "n BIGINT, k STRING, t STRING"
    document(
        pipeline,
        sources={"stream": files("stream", both)},
        operators={
            "asks": {"use": "select", "from": "stream", "with": {"columns": {"n": "n", "k": "k"}}},
            "tells": {
                "use": "select",
                "from": "stream",
                "with": {"columns": {"k": "k", "t": "t"}, "where": "t IS NOT NULL"},
            },
            "looked": look("asks", "tells"),
        },
    )
    feed(pipeline, "stream", "1", [{"n": 1, "k": "a"}])
    feed(pipeline, "stream", "2", [{"n": 2, "k": "b", "t": "B"}, {"n": 3, "k": "a", "t": "A"}])
    pipeline.run(reporter=(told := Told()))
    assert found(pipeline) == [(1, "A"), (2, "B"), (3, "A")]
    assert told.news == [("loading", 1, 2, "stream__2"), ("loaded", 1, 2, "stream__2")]


@pytest.mark.in_turn
def test_an_endless_run_loads_first_and_tells_so(pipeline):
    """Pass: the JSON lines tell of loading, of its batches and of its end before the stream's rows."""
    document(pipeline, trigger={"every": "200 milliseconds"})
    ask(pipeline, "1", (1, "a"))
    tell(pipeline, "1", a="old")
    tell(pipeline, "2", a="A")
    with pipeline.start() as process:
        process.wait_for(lambda: found(pipeline), 120)
        tell(pipeline, "3", b="B")
        process.wait_for(lambda: History(queries(pipeline)).last() >= 3)
        ask(pipeline, "2", (2, "b"))
        process.wait_for(lambda: len(found(pipeline)) == 2)
        process.kill(signal.SIGTERM)
        ended = process.wait()
    assert ended.returncode == 0, ended.stderr
    assert found(pipeline) == [(1, "A"), (2, "B")]
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    events = [(line["event"], line.get("loading")) for line in lines if line["event"] != "doing"]
    loading, loaded = events.index(("loading", None)), events.index(("loaded", None))
    assert events[loading + 1 : loaded] == [("batch", ["table"])] * 2
    assert ("batch", ["table"]) not in events[loaded:]


def queries(pipeline):
    return pipeline.folder / "checkpoints/test/queries/looked"


@pytest.mark.in_turn
def test_a_broken_record_is_told(pipeline):
    """Pass: the error names the file."""
    document(pipeline)
    pipeline.run()
    (queries(pipeline) / "loaded.json").write_text("{")
    with pytest.raises(PipelineError, match=r"loaded\.json can't be read"):
        pipeline.run()
