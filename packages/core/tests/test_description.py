"""What a checkpoint holds of a plan, where the plan has secrets."""

from __future__ import annotations

import json

import pytest
from mainstem.document.scrubber import Scrubber
from mainstem.plan.build import make_plan
from mainstem.run.description import changes, describe

SECRET = """hunter2 "of" the \\ sea"""


def described(secret: str, where: str = "x = '${env:CANARY}'", by: str = "k") -> dict:
    rows = {
        "use": "files",
        "with": {
            "path": "./in",
            "format": "jsonlines",
            "schema": "k STRING, x STRING, t TIMESTAMP",
        },
    }
    document = {
        "pipeline": "secrets",
        "sources": {"rows": {**rows, "watermark": {"column": "t", "delay": "1 s"}}},
        "operators": {
            "totals": {
                "use": "aggregate",
                "from": "rows",
                "with": {
                    "by": [by],
                    "window": {"on": "t", "tumbling": "1 minute"},
                    "columns": {"n": f"count_if({where})"},
                },
            }
        },
        "sinks": {
            "out": {
                "use": "files",
                "from": "totals",
                "with": {"path": "./out", "format": "parquet"},
            }
        },
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", secret)
        return describe(make_plan(document))["queries"]["totals"]


def test_a_secret_in_what_shapes_state_is_not_written_and_still_looked_at():
    """Pass: its text is nowhere; the same one is served, another one refused, and neither is shown."""
    before = described("hunter2-of-the-sea")
    assert "hunter2" not in json.dumps(before)
    assert "${env:CANARY}" in json.dumps(before)
    assert changes(before, described("hunter2-of-the-sea"), set()) == []
    (told,) = changes(before, described("another-of-the-sea"), set())
    assert "had columns" in told
    assert "hunter2" not in told
    assert "another" not in told


def test_what_becomes_a_secret_or_is_none_any_more_is_no_change():
    """Pass: a checkpoint written with the text itself serves a document that takes it from a variable, and
    the other way; a text that some other variable happens to hold is the same text."""
    plain, secret = described("unused-value", "x = 'hunter2'"), described("hunter2")
    assert changes(plain, secret, set()) == []
    assert changes(secret, plain, set()) == []
    assert changes(described("k" * 9, by="k"), described("k" * 9, by="k"), set()) == []


@pytest.mark.parametrize("written", [json.dumps, repr, lambda text: f"url?password={text}"])
def test_a_secret_is_hidden_however_it_is_escaped(written):
    """Pass: in JSON, in what Python shows of a value, and as it is."""
    scrubber = Scrubber()
    scrubber.hide(SECRET, "${env:CANARY}")
    assert "hunter2" not in scrubber.clean(f"before {written(SECRET)} behind")
