"""What Spark says of a row is hidden; what it advises is not."""

from __future__ import annotations

import pytest
from mainstem.plan.build import make_plan
from mainstem.run.failures import first_line, of_a_refusal, without_values

KEPT = [
    "You can set the config 'spark.sql.ansi.enabled' to 'false'.",
    "It can't be done: don't set 'spark.sql.streaming.x' to 'true'.",
    "Correct the value as per the syntax, or change its target type. Use `try_cast` to tolerate it.",
    'Cannot resolve "(at > 5)" due to data type mismatch: ("TIMESTAMP" and "INT").',
    "Use 'try_to_number()' instead.",
]
HIDDEN = {
    "The value 'se''cret' of the type \"STRING\" cannot be cast": "The value '?' of the type \"STRING\" cannot be cast",
    "The value 'secret' of a type can't be 'other secret'.": "The value '?' of a type can't be '?'.",
    "The value 123.45 of the type": "The value ? of the type",
    "The 12.345 rounded half up from 12.3449 cannot be represented": "The ? rounded half up from ? cannot be represented",
    "Malformed records are detected: [secret, row].": "Malformed records are detected: [?].",
}  # fmt: skip


@pytest.mark.parametrize("message", KEPT)
def test_advice_stays(message):
    """Pass: settings, functions and apostrophes are as Spark wrote them."""
    assert without_values(message) == message


@pytest.mark.parametrize("message", HIDDEN)
def test_values_are_hidden(message):
    """Pass: nothing of the row is left, and all around it is."""
    assert without_values(message) == HIDDEN[message]


def test_a_refusal_tells_columns_and_nodes_and_no_values():
    """Pass: what is quoted stays only if it is a name of the plan, whatever is within the quotes."""
    read = {"path": "in", "format": "jsonlines", "schema": "cents INT, secret STRING"}
    plan = make_plan(
        {
            "pipeline": "test",
            "sources": {"orders": {"use": "files", "with": read}},
            "sinks": {"out": {"use": "console", "from": "orders"}},
        }
    )
    told = r'value "a \"quoted\" row" of "cents" in "orders" is "wide"'
    shown = 'value "?" of "cents" in "orders" is "?"'
    assert of_a_refusal(told, plan) == shown


def test_plans_and_inner_names_are_not_shown():
    """Pass: neither Catalyst's plan nor a name that is ours comes with the message."""
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `centz` cannot be resolved. "
        "Did you mean one of the following? [`_left_m`, `cents`]. SQLSTATE: 42703;\n"
        "'Project ['centz]\n+- ~Aggregate [k#1]\n   +- ~Relation [k#1]"
    )
    shown = first_line(ValueError(text))
    assert "Project" not in shown
    assert "Aggregate" not in shown
    assert "_left_m" not in shown
    assert "[`cents`]" in shown
    only = "Cannot. Did you mean one of the following? [`_left_m`].\n~Aggregate [k#1]"
    assert first_line(ValueError(only)) == "Cannot."
