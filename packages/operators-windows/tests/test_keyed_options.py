"""What `sort`, `deduplicate` and `top` take, and what is told of what they do not."""

from __future__ import annotations

import pytest
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan

TIMED = {"watermark": {"column": "at", "delay": "1 minute"}}


def plan(use: str, source: dict | None = None, **options):
    rows = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "k STRING, at TIMESTAMP, v DOUBLE, m MAP<STRING, INT>",
    }
    return make_plan(
        {
            "pipeline": "p",
            "trigger": {"available_now": True},
            "sources": {
                "rows": {"use": "files", "with": rows, **(TIMED if source is None else source)}
            },
            "operators": {"node": {"use": use, "from": "rows", "with": options}},
            "sinks": {"out": {"use": "console", "from": "node"}},
        }
    )


@pytest.mark.parametrize(
    ("use", "source", "options", "words"),
    [
        ("sort", {}, {}, "no event time"),
        ("sort", None, {"by": ["x"]}, "'x'"),
        ("deduplicate", {}, {"by": ["k"], "within": "1 hour"}, "no event time"),
        ("deduplicate", None, {"by": ["x"], "within": "1 hour"}, "'x'"),
        ("top", {}, {"by": ["k"], "order": ["v DESCENDING"], "n": 3}, "is no column with ASC or DESC"),
        ("top", {}, {"by": ["k"], "order": ["x"], "n": 3}, "'x'"),
        ("top", {}, {"by": ["k"], "order": ["m"], "n": 3}, "can't be ranked by"),
        ("top", {}, {"by": ["k"], "order": ["v"], "n": 3, "rank": "v"}, "is taken"),
        ("top", {}, {"by": ["k"], "order": ["v"], "n": 3, "emit": "final"}, "no event time"),
        ("top", None, {"by": ["k"], "order": ["v"], "n": 3, "emit": "final"}, "among the keys"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_told(use, source, options, words):
    """Pass: an error of the document that names it."""
    with pytest.raises(DocumentError) as caught:
        plan(use, source, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "descending", "nulls_last"),
    [
        ("v", False, False),
        ("v desc", True, True),
        ("`v` ASC NULLS LAST", False, True),
        ("v DESC nulls first", True, False),
    ],
)
def test_an_order_is_written_as_in_sql(text, descending, nulls_last):
    """Pass: null is the least, unless said otherwise."""
    node = plan("top", {}, by=["k"], order=[text], n=3).nodes["node"]
    (term,) = node.component._terms(
        plan("top", {}, by=["k"], order=[text], n=3).nodes["rows"].shape
    )
    assert (term.column, term.descending, term.nulls_last) == ("v", descending, nulls_last)
