"""Cases that others tell in their documentation, and single cases of our own, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from mainstem_keyed_state.guard import Guard
from mainstem_keyed_state.logic import Done, Step
from mainstem_keyed_state.testing import Driver, micros
from mainstem_operators_joins.stream_table_logic import StreamTableLogic
from stream_table_model import (
    KEYS,
    MINUTE,
    STREAM,
    TABLE,
    brief,
    change,
    driver,
    event,
    minute,
    settings,
)

FAR = micros(minute(100_000))


def values(rows: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    """Return (event, price) of output rows, sorted."""
    return sorted((row[:2] for row in brief(rows)), key=lambda row: row[0])


# -- Kafka Streams ------------------------------------------------------------------------------
#
# Its page on join semantics (cwiki.apache.org, "Kafka Streams Join Semantics") gives two streams with one
# key; here the first is the stream and the second the table. A letter is its number; None is null. We
# differ in one thing: a record of the stream without a value is skipped there, and here it is no event:
# `decode` refuses it, or tells it as one with nulls. So those of 1, 7 and 12 are left out.

_STREAM = {3: "A", 5: "B", 9: "C", 15: "D"}
_TABLE = {2: None, 4: 1, 6: 2, 8: None, 10: 3, 11: None, 13: None, 14: 4}
_KAFKA = [
    ("inner", [(5, 1), (15, 4)], [3, 9]),
    ("left", [(3, None), (5, 1), (9, None), (15, 4)], []),
]


@pytest.mark.parametrize(("join", "expected", "alone"), _KAFKA)
@pytest.mark.parametrize("mode", ["latest", "now", "complete"])
def test_the_truth_table_of_kafka_streams(mode, join, expected, alone):
    """Pass: a record a batch, as the newest row and as of event time, at once and complete: its rows."""
    as_of = "latest" if mode == "latest" else "event_time"
    run = driver(settings(join=join, as_of=as_of, when="complete" if mode == "complete" else "now"))
    for at in range(1, 16):
        run.batch(
            {
                "stream": [event(at, "k", at)] if at in _STREAM else [],
                "table": [change("k", at, _TABLE[at])] if at in _TABLE else [],
            }
        )
    run.advance(FAR)
    assert values(run.outputs[""]) == expected
    assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == alone


@pytest.mark.parametrize(("join", "expected", "alone"), _KAFKA)
def test_a_versioned_table_gives_that_also_when_all_of_the_table_is_there_first(
    join, expected, alone
):
    """Pass: the table is read whole before the first event, as Kafka's versioned tables allow: its rows."""
    run = driver(settings(join=join))
    run.batch({"table": [change("k", at, price) for at, price in _TABLE.items()]})
    run.batch({"stream": [event(at, "k", at) for at in _STREAM]})
    run.advance(FAR)
    assert values(run.outputs[""]) == expected
    assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == alone


def test_a_table_that_is_not_versioned_differs_when_its_rows_come_out_of_order():
    """Pass: `latest` takes the change that is newest by its sequence, not the one that came last.

    Kafka's plain tables take what comes last, whatever its time.
    """
    run = driver(settings(as_of="latest", when="now"))
    run.batch({"table": [change("k", 5, 2)]})
    run.batch({"table": [change("k", 3, 1)], "stream": [event(1, "k", 6)]})
    assert values(run.outputs[""]) == [(1, 2)]
    assert [row["price"] for row in run.outputs["late_changes"]] == [1]


# -- Flink --------------------------------------------------------------------------------------
#
# The example of its documentation of temporal joins: orders in currencies, rates to the yen; times are
# minutes since 9:00.

_RATES = [
    ("US Dollar", 0, 102), ("Euro", 0, 114), ("Yen", 0, 1), ("Euro", 105, 116), ("Euro", 135, 119),
    ("Pounds", 169, 108),
]  # fmt: skip
_ORDERS = [
    (75, 2, "Euro"),
    (90, 1, "US Dollar"),
    (92, 50, "Yen"),
    (112, 3, "Euro"),
    (124, 5, "US Dollar"),
]


@pytest.mark.parametrize("first", ["orders", "rates", "together"])
def test_the_temporal_join_of_flinks_documentation(first):
    """Pass: amount times the rate that held at each order's time, whichever side comes first."""
    run = driver(settings())
    orders = {"stream": [event(n, order[2], order[0]) for n, order in enumerate(_ORDERS)]}
    rates = {"table": [change(*rate) for rate in _RATES]}
    for batch in {
        "orders": [orders, rates],
        "rates": [rates, orders],
        "together": [orders | rates],
    }[first]:
        run.batch(batch)
    run.advance(FAR)
    yen = [price * _ORDERS[n][1] for n, price in values(run.outputs[""])]
    assert yen == [228, 102, 50, 348, 510]


# -- our own ------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_versions_that_no_event_can_meet_any_more_are_gone():
    """Pass: of a thousand versions only what holds at the watermark or later is left, touched or not."""
    run = driver(settings(), (1, 1))
    for at in range(0, 1000, 5):
        rows = [change("a", at + n, n) for n in range(5)]
        run.batch({"table": rows, "stream": [event(at, "b", at + 4)]})
        assert len(run.rows("versions")) <= 12
    run.advance(FAR)
    assert [row["_time"] for row in run.rows("versions")] == [minute(999)]
    assert run.rows("waiting") == []


def test_many_versions_of_a_key_that_is_never_touched_again_go_with_the_watermark():
    """Pass: the key is woken, and what was replaced before the watermark is gone."""
    run = driver(settings())
    run.batch({"table": [change("a", at, at) for at in range(100)]})
    assert len(run.rows("versions")) == 100
    run.advance(micros(minute(98)))
    assert [row["_time"] for row in run.rows("versions")] == [minute(98), minute(99)]


def test_a_key_that_gets_nothing_costs_nothing():
    """Pass: a batch touches the keys of its rows alone, however many versions wait beside them."""
    run = driver(settings(), (60, 60))
    run.batch({"table": [change(f"k{n}", n % 7, n) for n in range(50)]})
    run.batch({"table": [change("k1", 9, 1)], "stream": [event(1, "k2", 9)]})
    assert run.touched == 2


@pytest.mark.parametrize("as_of", ["event_time", "latest"])
def test_a_deletion_is_remembered_as_long_as_was_asked(as_of):
    """Pass: a change from before it does not bring the key back; after `deletes_within` none is left."""
    when = "complete" if as_of == "event_time" else "now"
    run = driver(settings(as_of=as_of, when=when, deletes_within=30 * MINUTE))
    run.batch({"table": [change("a", 1, 7), change("a", 10, None)]})
    run.advance(micros(minute(39)))
    run.batch({"table": [change("a", 5, 8)], "stream": [event(1, "a", 39)]})
    run.advance(micros(minute(40)) - 1)
    assert [row["_gone"] for row in run.rows("versions")] == [True]
    run.advance(micros(minute(40)))
    assert run.size() == 0
    assert run.outputs[""] == []
    assert [row["n"] for row in run.outputs["unmatched"]] == [1]
    assert [row["price"] for row in run.outputs["late_changes"]] == [8]


@pytest.mark.parametrize("direction", ["nearest", "forward"])
@pytest.mark.parametrize("touched", [False, True])
def test_a_deletion_that_events_may_look_ahead_to_is_known_as_long_as_they_come(direction, touched):
    """Pass: the same comes out with `deletes_within` as without, whether or not the key is touched between."""
    found = []
    for within in (None, MINUTE):
        chosen = settings(within=60 * MINUTE, direction=direction, deletes_within=within)
        run = driver(chosen)
        run.batch({"table": [change("a", 5, 1), change("a", 10, None)]})
        run.batch({"stream": [event(1, "a", 8), event(2, "a", 12)]})
        run.advance(micros(minute(30)))
        if touched:
            run.batch({"stream": [event(3, "a", 35)]})
        run.batch({"table": [change("a", 40, 4)]})
        run.advance(FAR)
        found.append(
            (values(run.outputs[""]), sorted(row["n"] for row in run.outputs["unmatched"]))
        )
    assert found[0] == found[1]


def test_a_crowded_key_that_looks_ahead_is_woken_once():
    """Pass: versions that are of no use yet for a while are looked at when they can go, and not in each batch."""
    run = driver(settings(within=60 * MINUTE, direction="nearest"))
    run.batch({"table": [change("a", at, at) for at in range(1, 12)]})
    woken = 0
    for at in range(20, 60):
        before = run.touched
        run.advance(micros(minute(at)))
        woken += run.touched > before
    assert woken <= 2


def test_a_change_older_than_the_watermark_is_still_one_of_the_table():
    """Pass: a late first row of a key is met by the events that come after, and is told as late."""
    run = driver(settings())
    run.batch({"table": [change("other", 50, 0)], "stream": [event(0, "other", 50)]})
    run.batch({"table": [change("a", 10, 5)], "stream": [event(1, "a", 60), event(2, "a", 20)]})
    run.advance(FAR)
    assert (1, 5) in values(run.outputs[""])
    assert [row["n"] for row in run.outputs["late"]] == [2]
    assert [row["key"] for row in run.outputs["late_changes"]] == ["a"]


def test_what_was_joined_too_early_is_counted():
    """Pass: with `now` a change from before an event that is out already is told in `late_changes`."""
    run = driver(settings(when="now"), (60, 60))
    run.batch({"table": [change("a", 1, 1)], "stream": [event(1, "a", 10)]})
    run.batch({"table": [change("a", 5, 2), change("a", 11, 3), change("b", 5, 4)]})
    assert values(run.outputs[""]) == [(1, 1)]
    assert [row["price"] for row in run.outputs["late_changes"]] == [2]


def test_a_change_that_can_not_be_late_is_not_told_as_late():
    """Pass: changes that a join above has let out after waiting are behind the watermark, and punctual."""
    for punctual in (False, True):
        run = driver(settings(table_punctual=punctual))
        run.batch({"table": [change("other", 50, 0)], "stream": [event(0, "other", 50)]})
        run.batch({"table": [change("a", 10, 5)]})
        assert bool(run.outputs["late_changes"]) != punctual


def test_an_event_waits_for_its_version_as_long_as_was_asked():
    """Pass: a version within the wait is met at once; without one the event comes out when it is over."""
    run = driver(settings(when="now", wait=-5 * MINUTE), (10, 10))
    run.batch({"stream": [event(1, "a", 20), event(2, "b", 20)], "table": [change("c", 20, 0)]})
    assert run.outputs["unmatched"] == []
    run.batch({"table": [change("a", 15, 7)]})
    assert values(run.outputs[""]) == [(1, 7)]
    run.advance(micros(minute(15)) - 1)
    assert run.outputs["unmatched"] == []
    run.advance(micros(minute(15)))
    assert [row["n"] for row in run.outputs["unmatched"]] == [2]


def test_the_version_that_was_used_is_told():
    """Pass: sequence and time of the version; null where there is none."""
    run = driver(settings(join="left"))
    run.batch({"table": [change("a", 3, 7, 42)], "stream": [event(1, "a", 5), event(2, "b", 5)]})
    run.advance(FAR)
    assert brief(run.outputs[""]) == [(1, 7, 42, 3), (2, None, None, None)]


@pytest.mark.parametrize("mode", [{}, {"when": "now"}, {"when": "now", "wait": 1}])
@pytest.mark.parametrize("name", ["due", "known", "matched", "until", "time", "version_time"])
def test_a_column_may_have_any_name(name, mode):
    """Pass: a column of the table, named as one of the logic's own, comes out with its value."""
    table = pl.Schema({name if n == "price" else n: kind for n, kind in TABLE.items()})
    logic = StreamTableLogic(settings(takes={name: name}, **mode), STREAM, table)
    run = Driver(logic, KEYS, {"stream": ("at", 0), "table": ("since", 0)})
    changed = {name if n == "price" else n: value for n, value in change("a", 3, 7).items()}
    run.batch({"table": [changed], "stream": [event(1, "a", 5)]})
    run.advance(FAR)
    assert [(row["n"], row[name]) for row in run.outputs[""]] == [(1, 7)]


def test_rows_with_columns_of_the_names_that_refusals_have_are_refused():
    """Pass: `reason` and `payload` of `rejected` are the refusal's, also where the row has such columns."""
    schema = pl.Schema({"reason": pl.String(), "payload": pl.Binary(), "_id": pl.Binary()})
    logic: Any = SimpleNamespace(
        version=1, tables={}, everywhere=(), ports={"input": schema}, outputs={"": schema},
        step=lambda step: Done({"": step.rows["input"]}, {}),
    )  # fmt: skip
    guard = Guard(logic, ["input"], None, None)
    row = {"reason": "mine", "payload": b"mine", "_id": b"1"}
    rows = pl.DataFrame(
        [
            {**row, "_refused": None, "_payload": None},
            {**row, "_refused": "why", "_payload": b"row"},
        ],
        schema=guard.ports["input"],
    )
    outputs = guard.step(Step({"input": rows}, {}, None)).outputs
    assert outputs[""].rows() == [("mine", b"mine", b"1")]
    assert outputs["rejected"].rows() == [("why", b"row", b"1")]


def test_rows_that_lack_what_is_needed_are_refused_with_the_reason():
    """Pass: one refused row for each, with its payload; the others are joined."""
    run = driver(settings())
    bad_event = {**event(1, "a", 5), "at": None, "_refused": "at is null", "_payload": b"event"}
    bad = [
        {**change("a", 1, 1), name: None, "_refused": f"{name} is null", "_payload": b"change"}
        for name in ("since", "_commit_version")
    ]
    run.batch({"stream": [bad_event, event(2, "a", 5)], "table": [*bad, change("a", 2, 9)]})
    run.advance(FAR)
    assert values(run.outputs[""]) == [(2, 9)]
    told = {(row["reason"], row["payload"]) for row in run.outputs["rejected"]}
    assert told == {
        ("at is null", b"event"),
        ("since is null", b"change"),
        ("_commit_version is null", b"change"),
    }
