"""What an observer is told of the headers of messages: some values, and nobody else sees them."""

from __future__ import annotations

import json
import sys

import pytest
from mainstem.discovery import Word, installed_words
from mainstem.observation.reporter import Silent
from mainstem.plan.build import make_plan
from mainstem.registry import Registry
from mainstem.run.runner import run
from mainstem.run.telling import headed

PLUGIN = '''
from mainstem import Events, Observer, Options, Source, option
from mainstem.contracts.shapes import MESSAGE_COLUMNS
from mainstem.hookspecs import hookimpl


class NoOptions(Options):
    """None."""


class HeadedOptions(Options):
    """Where lines are."""

    path: str = option(description="A folder.")


class Headed(Source):
    """Messages whose header is their value; every third has none."""

    options: HeadedOptions

    def shape(self):
        return Events(MESSAGE_COLUMNS, identity=["value"])

    def load(self, ctx):
        text = ctx.reader().format("text").load(self.options.path)
        n = "CAST(value AS BIGINT)"
        return text.selectExpr(
            "CAST(NULL AS BINARY) AS key",
            "CAST(value AS BINARY) AS value",
            f"IF({n} % 3 = 0, NULL, map('t', CAST(concat('h', {n} % 5) AS BINARY))) AS headers",
            "CAST(NULL AS TIMESTAMP) AS timestamp",
            "'in' AS origin",
            "'0' AS partition",
            "value AS position",
        )


class Asking(Observer):
    """Asks for a header."""

    options: NoOptions
    told = []  # a plan may be made again, with components of its own

    def header(self):
        return "t"

    def batch(self, facts):
        self.told.append(facts)


@hookimpl
def mainstem_sources():
    return {"headed": Headed}


@hookimpl
def mainstem_observers():
    return {"asking": Asking}
'''


class Told(Silent):
    def __init__(self):
        self.facts = []

    def batch(self, facts):
        self.facts.append(facts)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    (tmp_path / "headed_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [
        Word("source", "headed", "told", "1", "headed_plugin"),
        Word("observer", "asking", "told", "1", "headed_plugin"),
    ]
    yield Registry([*installed_words(), *words])
    sys.modules.pop("headed_plugin", None)


@pytest.mark.parametrize("all_", [False, True])
def test_an_observer_gets_values_of_the_header_it_asks_for(spark, tmp_path, registry, all_):
    """Pass: each once, of each batch; rows are counted once; the run's own report has none of them. SQL that names all
    columns sees what it sees without an observer; below it nothing is known of headers.
    """
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.txt").write_text("\n".join(map(str, range(30))))
    file = tmp_path / "pipeline.yaml"
    columns = {"value": "value", **({"all": "to_json(struct(*))"} if all_ else {})}
    document = {
        "pipeline": "p",
        "trigger": {"available_now": True},
        "sources": {"lines": {"use": "headed", "with": {"path": str(tmp_path / "in")}}},
        "operators": {"kept": {"use": "select", "from": "lines", "with": {"columns": columns}}},
        "sinks": {
            "out": {"use": "files", "from": "kept", "with": {"path": "out", "format": "jsonlines"}}
        },
        "observers": {"asking": {"use": "asking"}},
    }
    file.write_text(json.dumps(document))
    told = Told()
    run(make_plan(file, registry), reporter=told)
    (facts,) = sys.modules["headed_plugin"].Asking.told
    assert facts["nodes"]["lines"]["rows"] == facts["nodes"]["out"]["rows"] == 30
    files = [file for file in (tmp_path / "out").rglob("*.json*") if file.name[0] not in "._"]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(rows) == 30
    assert not {name for row in rows for name in row if name.startswith("_")}
    assert "_asked" not in str(rows)
    if all_:
        assert "headers" not in facts
        return
    assert sorted(facts["headers"]["t"]) == [f"h{n}" for n in range(5)]
    assert [{**each, "headers": facts["headers"]} for each in told.facts] == [facts]


def test_a_column_headers_that_is_none_of_messages_is_left_alone(spark):
    """Pass: such as a database's table may have."""
    for text in ("'x'", "map('a', 'b')", "array(1)"):
        frame = spark.sql(f"SELECT {text} AS headers")
        assert headed(frame, {"t"}).columns == ["headers"]
    assert "_asked" in headed(spark.sql("SELECT map('a', X'00') AS headers"), {"t"}).columns
