"""A document with a lookup is tested by the answers that its tests give; nobody is asked."""

from __future__ import annotations

import json
import re

import pytest
from mainstem import DocumentError
from mainstem.testing.running import run_tests

DOCUMENT = {
    "pipeline": "known",
    "trigger": {"available_now": True},
    "sources": {"orders": {"use": "files", "with": {
        "path": "./in", "format": "jsonlines", "schema": "customer BIGINT, day DATE"}}},
    "operators": {"known": {"use": "http_lookup", "from": "orders", "with": {
        "url": "http://127.0.0.1:1/customers/{customer}/{day}", "allow_private": True,
        "schema": "name STRING, since DATE, owed DECIMAL(5,2)", "missing": "reject", "give_up": "1 second"}}},
    "sinks": {
        "out": {"use": "files", "from": "known", "with": {"path": "./out", "format": "parquet"}},
        "bad": {"use": "files", "from": "known.rejected", "with": {"path": "./bad", "format": "jsonlines"}},
    },
}  # fmt: skip
STEPS = [{"rows": {"orders": [
    {"customer": 7, "day": "2026-01-02"}, {"customer": 8, "day": "2026-01-02"}, {"customer": 7, "day": "2026-01-03"},
]}}, "crash"]  # fmt: skip
ANSWER = {"customer": 7, "day": "2026-01-02", "name": "Ada", "since": "2020-02-29", "owed": 1.5}


def results(folder, **tests):
    (folder / "known.yaml").write_text(json.dumps(DOCUMENT))
    file = folder / "known.test.yaml"
    file.write_text(json.dumps({"tests": tests}))
    return {result.name: result for result in run_tests(file)}


@pytest.mark.in_turn
def test_rows_get_the_answers_of_the_test(tmp_path):
    """Pass: a key's answer in the types of the schema, and nothing for keys that no row has."""
    expect = {
        "out": [{"customer": 7, "name": "Ada", "since": "2020-02-29", "owed": 1.5}],
        "bad": [{"reason": "there is nothing for customer, day"}] * 2,
    }
    found = results(
        tmp_path,
        known={"steps": STEPS, "answers": {"known": [ANSWER]}, "expect": expect},
        other={
            "steps": STEPS,
            "answers": {"known": [{k.upper(): v for k, v in {**ANSWER, "name": "Bob"}.items()}]},
            "expect": {"out": [{"customer": 7, "name": "Bob"}]},
        },
    )
    assert {name: (each.error, each.differences) for name, each in found.items()} == {
        "known": ("", []),
        "other": ("", []),
    }


@pytest.mark.parametrize(("answers", "words"), [
    ({}, "known asks an external system\n    Say what that answers"),
    ({"orders": []}, "there is no node that asks an external system 'orders'"),
    ({"known": [{**ANSWER, "nmae": "x"}]}, "there is no column nmae"),
    ({"known": [{"customer": 7, "name": "x"}]}, "day, by which it is asked, is null"),
    ({"known": [ANSWER, {**ANSWER, "name": "x"}]}, "there is an answer for that key already"),
])  # fmt: skip
def test_answers_that_can_not_be_are_told(tmp_path, answers, words):
    """Pass: an error with its line that names the node or the column, before anything runs."""
    with pytest.raises(DocumentError, match=re.escape(words)) as caught:
        results(tmp_path, wrong={"steps": STEPS, "answers": answers, "expect": {"out": []}})
    assert all(problem.line for problem in caught.value.problems)


def test_an_answer_of_another_type_is_told(tmp_path):
    """Pass: the test fails by an error that names the column."""
    answers = {"known": [{**ANSWER, "since": "soon"}]}
    found = results(tmp_path, wrong={"steps": STEPS, "answers": answers, "expect": {"out": []}})
    assert "since is no DATE" in found["wrong"].error
