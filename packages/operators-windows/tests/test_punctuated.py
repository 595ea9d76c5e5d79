"""A source that reports its own event-time progress: its rows' times move nothing."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from mainstem import Events, EventTime, Options, Source, hookimpl, option
from mainstem.contracts.abilities import Punctuated
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem_testkit import install


class MarkedOptions(Options):
    """Options of `marked`."""

    path: str = option(description="The folder of files of JSON lines.")


class Marked(Source, Punctuated):
    """Reads JSON lines, some of which tell how far the time is."""

    options: MarkedOptions

    def shape(self):
        return Events("k STRING, at TIMESTAMP", event_time=EventTime("at", timedelta(0)))

    def punctuates(self):
        return True

    def load(self, ctx):
        reader = ctx.reader().schema("k STRING, at TIMESTAMP, _watermark TIMESTAMP")
        return reader.json(self.options.path)


@hookimpl
def mainstem_sources():
    return {"marked": Marked}


@pytest.fixture(autouse=True)
def installed(tmp_path_factory, monkeypatch):
    """Let plans find the word `marked`, which this module brings."""
    site = tmp_path_factory.mktemp("site")
    install(monkeypatch, site, "mainstem-marked", sources={"marked": __name__})


def parts(pipeline, **source):
    window = {"on": "at", "tumbling": "1 hour"}
    totals = {"by": ["k"], "window": window, "columns": {"n": "count(*)"}}
    given = {"path": (pipeline.folder / "in").as_uri()}
    return {
        "sources": {"rows": {"use": "marked", "with": given, **source}},
        "operators": {"hours": {"use": "aggregate", "from": "rows", "with": totals}},
        "sinks": {"out": pipeline.sink("out", "hours")},
    }


def test_the_source_has_the_watermark(pipeline):
    """Pass: the plan says so; one of the document's own is one too many."""
    pipeline.document(**parts(pipeline))
    assert pipeline.plan().nodes["rows"].watermark == EventTime("at", timedelta(0))
    made = parts(pipeline, watermark={"column": "at", "delay": "1 minute"})
    with pytest.raises(DocumentError, match="a stream has one watermark, and rows above has it"):
        make_plan(pipeline.document(**made).file)


@pytest.mark.in_turn
def test_a_window_is_final_when_the_source_says_so(pipeline):
    """Pass: not when a later row comes, but with the mark beyond its end; a row before that is in it."""
    pipeline.document(**parts(pipeline))

    def run(name, *lines):
        pipeline.feed(name, [json.dumps(line) for line in lines])
        pipeline.run()
        return sorted((row["k"], row["n"]) for row in pipeline.rows("out"))

    def row(k, at):
        return {"k": k, "at": f"2026-01-01T{at}Z"}

    assert run("0.json", row("a", "00:10:00"), row("b", "05:00:00")) == []
    assert run("1.json", row("a", "00:50:00"), {"_watermark": "2026-01-01T00:30:00Z"}) == []
    assert run("2.json", row("a", "00:59:59"), {"_watermark": "2026-01-01T02:00:00Z"}) == [("a", 3)]
    assert run("3.json", {"_watermark": "2026-01-02T00:00:00Z"}) == [("a", 3), ("b", 1)]
