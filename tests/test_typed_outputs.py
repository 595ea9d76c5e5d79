"""Types of one topic in a whole document: joined to their time, with state below them."""

from __future__ import annotations

from mainstem.testing.running import run_tests
from ruamel.yaml import YAML

SCHEMAS = {"placed": "id BIGINT", "paid": "id BIGINT, cents BIGINT"}


def row(kind, at, **more):
    return {"kind": kind, "at": f"{at}Z", **more}


def test_a_wrong_time_of_a_type_makes_nothing_late(pipeline):
    """Pass: a row of a named output, dated 9999, moves the watermark of the others no more than one of theirs."""
    decode = {
        "use": "decode",
        "from": "lines",
        "with": {
            "format": "json",
            "by_type": {"field": "kind", "schemas": SCHEMAS, "others": "keep"},
            "keep": {"at": "CAST(get_json_object(CAST(value AS STRING), '$.at') AS TIMESTAMP)"},
        },
        "on_rejected": "drop",
        "watermark": {"column": "at", "delay": "1 minute", "ahead": "1 hour"},
    }
    hourly = {
        "use": "aggregate",
        "from": "event",
        "with": {
            "by": [],
            "window": {"on": "at", "tumbling": "1 hour"},
            "columns": {"n": "count(*)"},
        },
    }
    pipeline.document(
        sources={"lines": {"use": "files", "with": {"path": "./in", "format": "message"}}},
        operators={"event": decode, "hourly": hourly},
        sinks={
            "out": pipeline.sink("out", "hourly"),
            "placed": pipeline.sink("placed", "event.placed"),
        },
    )
    far = row("placed", "9999-01-01T00:00:00", id=1)
    steps = [
        {"rows": {"lines": [far, row("seen", "2026-01-01T08:10:00")]}},
        {"rows": {"lines": [row("seen", "2026-01-01T08:11:00")]}},
        {"advance": {"event": "2026-01-01T10:00:00Z"}},
    ]
    expect = {"out": [{"n": 2}], "placed": [{"id": 1}]}
    file = pipeline.folder / "pipeline.test.yaml"
    with file.open("w") as text:
        tests = {"tests": {"one": {"steps": steps, "expect": expect}}}
        YAML(typ="safe", pure=True).dump(tests, text)
    (result,) = run_tests(file)
    assert (result.error, result.differences) == ("", [])
