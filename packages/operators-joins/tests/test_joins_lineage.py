"""Which columns joins take from which side."""

from __future__ import annotations

import pytest
from mainstem.lineage import Lineage
from mainstem.plan.build import make_plan

SCHEMA = "id BIGINT NOT NULL, city STRING, town STRING, at TIMESTAMP NOT NULL"


def files(path):
    return {
        "use": "files",
        "with": {"path": path, "format": "jsonlines", "schema": SCHEMA},
        "watermark": {"column": "at", "delay": "1 hour"},
    }


@pytest.mark.parametrize(
    ("word", "ports", "options"),
    [
        ("stream_table_join", ("stream", "table"), {"on": {"id": "id"}}),
        ("table_table_join", ("left", "right"), {"on": {"id": "id"}}),
        (
            "stream_stream_join",
            ("left", "right"),
            {"on": {"id": "id"}, "within": {"after": "1 hour"}},
        ),
    ],
)
def test_columns_are_of_the_side_that_they_are_taken_from(word, ports, options):
    """Pass: under a name that both sides have, too."""
    table = {"use": "changelog", "with": {"key": ["id"], "sequence": "at"}}
    tables = {"right": {**table, "from": "b"}}
    first = "a"
    if word == "table_table_join":
        tables["left"] = {**table, "from": "a"}
        first = "left"
    second = "b" if word == "stream_stream_join" else "right"
    join = {
        "use": word,
        "from": dict(zip(ports, (first, second), strict=True)),
        "with": {**options, "take": {"taken": "town"}},
    }
    plan = make_plan(
        {
            "pipeline": "p",
            "sources": {"a": files("/a"), "b": files("/b")},
            "operators": {**({} if second == "b" else tables), "joined": join},
            "sinks": {"out": {"use": "console", "from": "joined"}},
        }
    )
    (write,) = Lineage(plan).writes
    told = {
        name: {f"{dataset.name}:{column}" for dataset, column in made}
        for name, made in write.made_of.items()
    }
    assert told["taken"] == {"/b:town"}
    assert told["city"] == {"/a:city"}
