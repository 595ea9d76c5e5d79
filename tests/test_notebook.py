"""The notebook of the examples, run as Jupyter runs it, and how pipelines and runs show in one."""

from __future__ import annotations

from ast import literal_eval
from html.parser import HTMLParser
from pathlib import Path

import mainstem
import nbformat
import pytest
from mainstem.observation.picture import Picture
from mainstem.observation.table import as_html, as_text
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook" / "notebook.ipynb"


class Texts(HTMLParser):
    """The texts and the tags of HTML, which must be closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.in_turn
def test_the_notebook_runs(monkeypatch):
    """Pass: every cell, in a kernel of its own; the table that was watched says what the run did."""
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    shown, watched, totals = outputs[2], outputs[6], outputs[7]
    assert "<svg" in shown[-1]["data"]["text/html"]
    tables = [each["data"]["text/plain"] for each in watched if "text/html" in each.get("data", {})]
    assert "ended" in tables[-1]
    assert "2,001" in tables[-1]
    assert literal_eval(totals[-1]["data"]["text/plain"]) == [
        {"city": "OSLO", "euros_sum": 499500.0},
        {"city": "ROME", "euros_sum": 499500.0},
    ]


def test_a_pipeline_shows_each_node_and_each_edge():
    """Pass: well-formed HTML, a box for each node, a line for each edge, no two boxes in one place."""
    pipeline = mainstem.Pipeline(ROOT / "examples" / "flights" / "flights.yaml")
    found = Texts(pipeline._repr_mimebundle_()["text/html"])
    plan = pipeline.plan
    boxes = [(a["x"], a["y"]) for tag, a in found.tags if tag == "rect" and "opacity" not in a]
    assert len(boxes) == len(set(boxes)) == len(plan.nodes)
    edges = sum(len(node.streams) for node in plan.nodes.values()) + len(plan.relays)
    assert sum(tag == "path" for tag, _ in found.tags) == edges
    assert {*plan.nodes} <= {*found.texts}
    for sink in plan.sinks():
        assert f"{sink.word}: {sink.promise.level}" in found.texts


def test_what_stands_in_a_document_is_text_in_a_notebook():
    """Pass: names and warnings that look like HTML are shown as they are, in runs too."""
    lines = {"use": "files", "with": {"path": "in", "format": "message"}}
    plan = mainstem.Pipeline(
        {
            "pipeline": "p",
            "sources": {"lines": lines},
            "sinks": {"out": {"use": "console", "from": "lines"}},
        }
    ).plan
    picture = Picture(plan)
    picture.failed(ValueError("<script>[bold]no[/bold]</script>"))
    facts = picture.facts()
    assert "<script>[bold]no[/bold]</script>" in as_text(facts)
    assert "<script>" not in as_html(facts)
    assert "<script>[bold]no[/bold]</script>" in "".join(Texts(as_html(facts)).texts)
