"""Events of older forms: brought up by steps, exactly; what has none stays as it is; what fails is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mainstem import DocumentError, OptionError
from mainstem_operators_eventsourcing.app import App
from mainstem_operators_eventsourcing.upcasting import Upcasting, steps_of

FOLDER = str(Path(__file__).parent)


def fails(said):
    raise KeyError("amount")


def in_cents(said):
    said["cents"] = said.pop("amount") * 100
    return said


class Upcasts:
    steps = {
        ("Placed", 1): lambda said: {**said, "currency": "EUR"},
        ("Placed", 2): in_cents,
        ("Broken", 1): fails,
        ("Empty", 1): lambda said: None,
        ("Odd", 1): lambda said: {"at": object()},
    }


def up(*rows, made=Upcasts):
    app = App(made, "shop:Upcasts", Path(FOLDER), {})
    call = Upcasting(app, steps_of(app))
    kinds, versions, payloads = zip(*rows, strict=True)
    given = [each.encode() if isinstance(each, str) else each for each in payloads]
    found = call(pa.array(kinds), pa.array(versions, pa.int64()), pa.array(given, pa.binary()))
    told = [tuple(row.values()) for row in found.to_pylist()]
    return [
        (version, payload and payload.decode(errors="replace"), why)
        for version, payload, why in told
    ]


def test_steps_lead_to_the_newest_form():
    """Pass: from each version; null is the first; what is new, and what has no steps, is as it was."""
    old = json.dumps({"amount": 3, "é": "ü"})
    newest = {"é": "ü", "currency": "EUR", "cents": 300}
    (first, third, none, other) = up(
        ("Placed", 1, old), ("Placed", 3, old), ("Placed", None, old), ("Other", 1, "no json")
    )
    assert (first[0], json.loads(first[1]), first[2]) == (3, newest, None)
    assert none == first
    assert third == (3, old, None)
    assert other == (1, "no json", None)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("Placed", 1, "no json"), "no JSON object"),
        (("Placed", 1, "[1]"), "no JSON object"),
        (("Placed", 1, None), "no JSON object"),
        (("Placed", 2, "{}"), "the step of Placed from version 2 raised KeyError: 'amount'"),
        (("Broken", 1, "{}"), "(test_upcast.py, line"),
        (("Empty", 1, "{}"), "gives NoneType"),
        (("Odd", 1, "{}"), "is no JSON"),
        (("Placed", 1, '{"amount": 1, "name": "\\ud83d"}'), "what Placed became is no JSON"),
        (("Placed", 1, '{"amount": NaN}'), "what Placed became is no JSON"),
    ],
)
def test_what_fails_is_refused_by_itself(row, told):
    """Pass: with its version and payload as they were, and the rows beside it come."""
    good = ("Placed", 1, '{"amount": 1}')
    before, (version, payload, reason), after = up(good, row, good)
    assert told in reason
    assert (version, payload) == (row[1], row[2])
    assert before == after
    assert before[2] is None


@given(st.lists(st.tuples(st.integers(1, 4), st.dictionaries(st.text(), st.integers()))))
def test_all_ways_to_the_newest_form_agree(rows):
    """Pass: an event that was brought up to a version is brought up to the same newest form."""
    steps = {("T", v): lambda said, v=v: {**said, f"v{v}": v} for v in range(1, 4)}
    made = type("Made", (), {"steps": steps})
    if not rows:
        return
    for version, said in rows:
        ((reached, payload, reason),) = up(("T", version, json.dumps(said)), made=made)
        plain = dict(said)
        for v in range(version, 4):
            plain = steps["T", v](plain)
        assert (reached, json.loads(payload), reason) == (4, plain, None)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (None, "no dictionary"),
        ({}, "no dictionary"),
        ({"Placed": fails}, "not the place of a step"),
        ({("Placed", 0): fails}, "not the place of a step"),
        ({("Placed", 1): 7}, "not the place of a step"),
        ({("Placed", 1): fails, ("Placed", 3): fails}, "one is missing between"),
    ],
)
def test_steps_that_are_none_are_told(steps, told):
    """Pass: before anything runs."""
    with pytest.raises(OptionError, match=told):
        steps_of(App(type("Made", (), {"steps": steps}), "a:B", Path(FOLDER), {}))


def test_a_payload_that_is_no_text_is_refused_by_itself():
    """Pass: also where its type has no step, and then it is left as it is."""
    (bad, other) = up(("Placed", 1, b'{"a": "\xff"}'), ("Other", 1, b"\xff"))
    assert "no JSON object" in bad[2]
    assert other == (1, "\ufffd", None)


def test_numbers_that_no_step_changes_stay_as_they_are_written():
    """Pass: with more digits than a float has, however deep; a step computes with what a float holds."""
    numbers = '{"big": 10000000000000000.01, "many": [{"r": 0.12345678901234567890}], "huge": 1e400, "amount": 1.5}'
    (found,) = up(("Placed", 1, numbers))
    assert found[1] == (
        '{"big": 10000000000000000.01, "many": [{"r": 0.12345678901234567890}], "huge": 1e400, '
        '"currency": "EUR", "cents": 150.0}'
    )
    (exact,) = up(("Placed", 2, '{"amount": 0.12345678901234567890}'))
    assert json.loads(exact[1]) == {"cents": 12.345678901234567}


@pytest.mark.in_turn
def test_events_come_up_in_a_document(pipeline):
    """Pass: through Spark, the other columns as they were; what fails in `rejected`, as it came."""
    rows = {"path": "./in", "format": "jsonlines"}
    rows["schema"] = "id INT, type STRING, version INT, payload STRING"
    given_ = {"call": "test_upcast:Upcasts", "folder": FOLDER}
    pipeline.document(
        sources={"stored": {"use": "files", "with": rows}},
        operators={"newest": {"use": "upcast", "from": "stored", "with": given_}},
        sinks={
            "out": pipeline.sink("out", "newest"),
            "bad": pipeline.sink("bad", "newest.rejected"),
        },
    )
    lines = [
        {"id": 1, "type": "Placed", "payload": '{"amount": 2}'},
        {"id": 2, "type": "Placed", "version": 3, "payload": '{"cents": 7}'},
        {"id": 3, "type": "Broken", "version": 1, "payload": "{}"},
    ]
    pipeline.feed("1.jsonl", lines)
    pipeline.run()
    first, second = sorted(pipeline.rows("out"), key=lambda row: row["id"])
    assert (first["version"], json.loads(first["payload"])) == (
        3,
        {"currency": "EUR", "cents": 200},
    )
    assert (second["version"], second["payload"]) == (3, '{"cents": 7}')
    (bad,) = pipeline.rows("bad")
    assert "KeyError" in bad["reason"]


def test_columns_that_do_not_fit_are_told(pipeline):
    """Pass: when the document is planned."""
    rows = {
        "path": "./in",
        "format": "jsonlines",
        "schema": "type INT, version INT, payload STRING",
    }
    pipeline.document(
        sources={"stored": {"use": "files", "with": rows}},
        operators={"newest": {"use": "upcast", "from": "stored", "with": {"call": "a:B"}}},
        sinks={"out": pipeline.sink("out", "newest")},
    )
    with pytest.raises(DocumentError, match="type is no text"):
        pipeline.plan()
