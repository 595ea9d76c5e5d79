"""The JSON Schema: valid itself, and never stricter than `validate`."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mainstem.document.schema import json_schema
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem.registry import Registry

RIGHT: dict[str, Any] = {
    "pipeline": "test",
    "trigger": {"every": "2 seconds"},
    "sources": {
        "lines": {"use": "files", "with": {"path": "in", "format": "message", "max_files": 3}},
        "ticks": {"use": "rate"},
    },
    "operators": {
        "row": {
            "use": "decode",
            "from": "lines",
            "with": {"format": "json", "schema": {"k": "STRING", "at": "TIMESTAMP"}},
            "watermark": {"column": "at", "delay": "10 minutes"},
            "on_rejected": "drop",
        },
        "all": {"use": "union", "from": ["row", "row"]},
    },
    "sinks": {
        "out": {"use": "console", "from": "all", "deliver": "microbatch"},
        "files": {"use": "files", "from": "ticks", "with": {"path": "x", "format": "csv"}},
    },
}
PATHS = [
    ("pipeline",), ("trigger",), ("trigger", "every"), ("sources",), ("sources", "lines", "use"),
    ("sources", "lines", "with"), ("sources", "lines", "with", "path"), ("sources", "ticks", "with"),
    ("sources", "lines", "with", "format"), ("sources", "lines", "with", "max_files"),
    ("operators", "row", "from"), ("operators", "row", "with", "schema"), ("operators", "all", "from"),
    ("operators", "row", "watermark"), ("operators", "row", "watermark", "delay"),
    ("operators", "row", "on_rejected"), ("sinks", "out", "deliver"), ("sinks", "files", "with"),
    ("sinks", "out", "query"), ("spark",), ("spark", "conf"), ("checkpoint",), ("state",), ("extra",),
]  # fmt: skip
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 5), st.floats(-2, 2),
        st.sampled_from(["", "in", "row", "json", "5", "2 seconds", "rocksdb", "own", "${env:X:-1}", "k INT"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["use", "with", "path", "format", "k", "delay", "every"]), inner, max_size=2),
    ),
    max_leaves=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def validator():
    schema = json_schema(Registry())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def is_right(document: dict[str, Any]) -> bool:
    try:
        make_plan(document)
    except DocumentError:
        return False
    return True


@pytest.mark.in_turn
def test_a_right_document_fits(validator):
    """Pass: schema and validate both take it."""
    assert list(validator.iter_errors(RIGHT)) == []
    assert is_right(RIGHT)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(path=st.sampled_from(PATHS), value=VALUES)
@pytest.mark.in_turn
def test_whatever_the_schema_refuses_validate_refuses_too(validator, path, value):
    """Pass: for any value put at any place, a refusal by the schema is one by validate."""
    document = copy.deepcopy(RIGHT)
    place = document
    for part in path[:-1]:
        place = place.setdefault(part, {})
    place[path[-1]] = value
    if not validator.is_valid(document):
        assert not is_right(document)


def test_the_schema_refuses_the_common_mistakes_itself(validator):
    """Pass: an editor marks a wrong word, an unknown option, a missing one and a wrong type."""
    for path, value in [
        (("sources", "lines", "use"), "file"),
        (("sources", "lines", "with"), {"path": "in", "format": "message", "max_file": 1}),
        (("sources", "lines", "with"), {"format": "message"}),
        (("sources", "lines", "with", "max_files"), "many"),
        (("sources", "lines", "with", "format"), "messages"),
        (("sinks", "out", "deliver"), "microbach"),
        (("sinks", "out", "deliver"), {"use": "microbach"}),
        (("sinks", "out", "deliver"), {"use": "microbatch", "with": {"nosuch": 1}}),
        (("nosuchkey",), 1),
    ]:
        document = copy.deepcopy(RIGHT)
        place = document
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        assert not validator.is_valid(document), (path, value)


@pytest.mark.parametrize(
    "deliver",
    ["microbatch", "mainstem:microbatch", "${env:X:-microbatch}", {"use": "microbatch"}, None],
)
def test_a_delivery_is_a_word_or_one_with_options(validator, deliver):
    """Pass: each way to write one fits, and an editor has the words."""
    document = copy.deepcopy(RIGHT)
    document["sinks"]["out"]["deliver"] = deliver
    assert validator.is_valid(document)
    assert is_right(document)
    offered = validator.schema["$defs"]["SinkNode"]["properties"]["deliver"]["anyOf"]
    assert '"microbatch"' in json.dumps(offered)


def test_every_option_of_the_schema_has_a_description():
    """Pass: an editor has something to show for each."""
    text = json.dumps(json_schema(Registry()))
    assert "Rows made each second." in text
    assert "How far the watermark stays behind" in text
