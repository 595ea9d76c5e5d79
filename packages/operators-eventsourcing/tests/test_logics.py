"""What commands and events become, in any batches and beside a plain loop."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import polars as pl
import pytest
from carts import command, decide, driver, evolve, plain, table
from hypothesis import given, settings
from hypothesis import strategies as st
from mainstem import Events, EventTime
from mainstem.columns import read_columns
from mainstem_operators_eventsourcing import Rejected
from mainstem_operators_eventsourcing.base import order_of
from mainstem_operators_eventsourcing.values import Values
from shop import Cart

MADE = st.lists(
    st.tuples(
        st.sampled_from(["x", "y"]),
        st.sampled_from(["add", "add", "take", "pay", "look"]),
        st.sampled_from(["a", "b"]),
        st.integers(1, 3),
        st.none() | st.integers(0, 4),
        st.integers(0, 12),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(made=MADE, cuts=st.sets(st.integers(0, 25)), seed=st.integers(0, 999), kill=st.booleans())
def test_commands_become_what_a_plain_loop_makes_of_them(made, cuts, seed, kill):
    """Pass: events, table of states, answers and refusals, however commands are cut and mixed; `evolve` makes the same table of the events."""
    commands = [
        command(n, cart, kind, item, count, known, id=f"c{own}")
        for n, (cart, kind, item, count, known, own) in enumerate(made)
    ]
    events, states, answers, reasons = plain(commands)
    run, later = driver(decide(), pages=2, seed=seed), driver(evolve(), pages=2, seed=seed)
    begin = 0
    for end in sorted({*cuts, len(commands)} - {0}):
        part = commands[begin:end]
        random.Random(seed).shuffle(part)
        came = run.batch({"input": part})[""]
        later.batch({"input": came})
        later.batch({"input": came[:2]})  # again
        begin = max(begin, end)
        if kill:
            run.restart()
            later.restart()
    names = ("cart", "id", "version", "kind", "item", "count")
    found = [tuple(event[name] for name in names) for event in run.outputs[""]]
    assert sorted(found, key=repr) == sorted(events, key=repr)
    assert table(run.outputs["state"]) == states
    assert table(later.outputs[""]) == states
    names = ("id", "accepted", "reason", "version", "events", "repeated")
    told = [tuple(answer[name] for name in names) for answer in run.outputs["answers"]]
    assert sorted(told, key=repr) == sorted(answers, key=repr)
    assert sorted(r["reason"] for r in run.outputs["rejected"]) == sorted(reasons)


def test_states_are_told_version_by_version():
    """Pass: one change for each command that had events; a state that is no more is deleted, and may come again."""
    run = driver(decide())
    run.batch({"input": [command(1, "x", "add"), command(2, "x", "add"), command(3, "x", "look")]})
    run.batch({"input": [command(4, "x", "pay"), command(5, "x", "add", "b")]})
    told = [(r["_change_type"], r["_commit_version"], r["items"]) for r in run.outputs["state"]]
    assert told == [
        ("insert", 1, [{"key": "a", "value": 1}]),
        ("update_postimage", 2, [{"key": "a", "value": 2}]),
        ("delete", 4, None),
        ("insert", 5, [{"key": "b", "value": 1}]),
    ]


def test_commands_are_forgotten_when_it_is_time():
    """Pass: within the hour nothing comes of one that is seen again; after it the command is another one."""
    run = driver(decide())
    run.batch({"input": [command(1, "x", "add", id="c")]})
    run.batch({"input": [command(2, "x", "add", id="c", minutes=30)]})
    assert len(run.outputs[""]) == 1
    assert len(run.rows("seen")) == 1
    run.batch({"input": [command(3, "y", "add", minutes=90)]})
    run.batch()
    assert [row["command"] for row in run.rows("seen")] == ["c3"]
    run.batch({"input": [command(4, "x", "add", id="c", minutes=91)]})
    assert [event["version"] for event in run.outputs[""] if event["cart"] == "x"] == [1, 2]


def test_a_refused_command_can_be_read():
    """Pass: as JSON, with all its columns."""
    run = driver(decide(remembered=False, carried=["cart"]))
    run.batch({"input": [command(1, "x", "take", known=0)]})
    (refused,) = run.outputs["rejected"]
    assert refused["reason"] == "there are 0 of a"
    expected = {
        "cart": "x",
        "id": "c1",
        "at": "2026-01-01T00:00:00.001000Z",
        "n": 1,
        "kind": "take",
        "item": "a",
        "count": 1,
        "known": 0,
    }
    assert json.loads(refused["payload"]) == expected


class Meddling(Cart):
    """Changes what it is given, and then refuses."""

    @staticmethod
    def decide(state, command):
        if command["kind"] == "take":
            state["items"].clear()
            state["paid"] = 7
        return Cart.decide(state, command)


def test_what_a_function_is_given_is_its_own():
    """Pass: what `decide` changes of the state changes nothing."""
    run = driver(decide(Meddling))
    rows = [command(1, "x", "add"), command(2, "x", "take", "b"), command(3, "x", "add")]
    run.batch({"input": rows})
    assert table(run.outputs["state"]) == {"x": {"items": {"a": 2}, "paid": 0}}


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda *_: {"kind": "added"}, "decide returned one event, and no list of them"),
        (lambda *_: 5, "decide returned int, and no events"),
        (lambda *_: [5], "an event: int, and no mapping"),
        (lambda *_: [{"sort": 1}], "an event: sort is not declared"),
        (lambda *_: [{"kind": 5}], "an event: kind: a value is no STRING"),
        (lambda *_: [{"count": 2**70}], "an event: count: a value is no BIGINT"),
        (lambda *_: [{"count": 1.5}], "an event: count: a value is no BIGINT"),
        (lambda *_: 1 / 0, "decide raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_function_does_wrong_is_told(function, told):
    """Pass: without the values."""

    class Wrong(Cart):
        decide = staticmethod(function)

    class Idle(Wrong):
        evolve = staticmethod(lambda state, event: None)

    with pytest.raises(ValueError, match=told):
        driver(decide(Idle)).batch({"input": [command(1, "x", "add")]})


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"items": {"a": "b"}}, "items: a value is no"),
        ({"things": 1}, "things is not declared"),
        ([], "list, and no mapping"),
    ],
)
def test_a_state_that_is_none_is_told(state, told):
    class Wrong(Cart):
        evolve = staticmethod(lambda *_: state)

    with pytest.raises(ValueError, match=told):
        driver(decide(Wrong)).batch({"input": [command(1, "x", "add")]})


def values(ddl, **kinds):
    return Values(read_columns(ddl), pl.Schema(kinds), "a state")


def entries(key, value):
    return pl.List(pl.Struct({"key": key, "value": value}))


NESTED = values(
    "d DOUBLE, f FLOAT, m MAP<STRING, ARRAY<INT>>, n INT, c DECIMAL(10, 2), at TIMESTAMP, "
    "s STRUCT<m: MAP<STRING, MAP<STRING, BIGINT>>, x: INT>, b BINARY, day DATE",
    d=pl.Float64(),
    f=pl.Float32(),
    m=entries(pl.String(), pl.List(pl.Int32())),
    n=pl.Int32(),
    c=pl.Decimal(10, 2),
    at=pl.Datetime("us", "UTC"),
    s=pl.Struct({"m": entries(pl.String(), entries(pl.String(), pl.Int64())), "x": pl.Int32()}),
    b=pl.Binary(),
    day=pl.Date(),
)


def test_values_are_the_same_before_and_after_they_were_stored():
    """Pass: whole numbers in columns of fractions, single ones, decimals, zones, maps at any depth; nothing is shared."""
    east = timezone(timedelta(hours=5))
    row = NESTED.taken(
        {
            "d": 5,
            "f": 0.1,
            "m": {"a": [1], "b": None},
            "c": 3,
            "at": datetime(2026, 1, 1, 5, tzinfo=east),
            "s": {"m": {"a": {"b": 1}}},
            "b": bytearray(b"x"),
            "day": date(2026, 1, 2),
        }
    )
    stored = NESTED.frame([row], pl.Schema()).rows()[0]
    found = NESTED.given(row)
    assert found == NESTED.given(stored)
    assert repr(found["d"]) == "5.0"
    assert found["c"].as_tuple() == Decimal("3.00").as_tuple()
    assert found["at"].utcoffset() == timedelta(0)
    assert found["s"] == {"m": {"a": {"b": 1}}, "x": None}
    found["m"]["a"].append(2)
    found["s"]["m"]["a"]["b"] = 7
    assert NESTED.given(row)["m"] == {"a": [1], "b": None}
    assert NESTED.given(row)["s"]["m"] == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("m", {"a": [1.5]}),
        ("m", {"a": ["5"]}),
        ("m", {None: [1]}),
        ("m", [1]),
        ("n", 2**31),
        ("n", True),
        ("n", 1.0),
        ("d", "1"),
        ("d", 10**400),
        ("d", 2**53 + 1),
        ("m", [{"key": "a", "value": [1]}, {"key": "a", "value": [2]}]),
        ("f", 1e300),
        ("c", Decimal("1.005")),
        ("c", 1.25),
        ("c", Decimal("NaN")),
        ("c", 10**8),
        ("at", datetime(2026, 1, 1)),
        ("at", 5),
        ("day", datetime(2026, 1, 1, tzinfo=UTC)),
        ("s", {"y": 1}),
        ("s", {"m": {"a": {"b": 1.5}}}),
        ("b", "text"),
    ],
)
def test_a_value_that_does_not_fit_is_told(name, value):
    """Pass: at any depth; nothing is rounded, cut or guessed."""
    with pytest.raises(ValueError, match=f"a state: {name}: a value is no [A-Z]+"):
        NESTED.taken({name: value})


class Early(Cart):
    """Has something before the first event."""

    initial = {"items": {"gift": 1}, "paid": 0}

    @staticmethod
    def evolve(state, event):
        state["items"][event["item"]] = state["items"].get(event["item"], 0) + event["count"]
        state["paid"] += 1
        return state


def test_what_is_there_before_the_first_event_is_each_keys_own():
    """Pass: it may be changed, and another key has it as it was."""
    run = driver(decide(Early))
    run.batch({"input": [command(1, "x", "add"), command(2, "y", "add", "b")]})
    assert table(run.outputs["state"]) == {
        "x": {"items": {"gift": 1, "a": 1}, "paid": 1},
        "y": {"items": {"gift": 1, "b": 1}, "paid": 1},
    }


class Forgetful(Cart):
    """Leaves out of the state what it does not set, and looks whether it is there."""

    @staticmethod
    def evolve(state, event):
        if state is not None and "paid" in state:
            return {"items": state["items"] or {}, "paid": (state["paid"] or 0) + 1}
        return {}


def test_a_state_is_the_same_within_a_command_and_after_it():
    """Pass: between two events of one command it has all its columns, as it has in the next batch."""
    run = driver(decide(Forgetful))
    run.batch({"input": [command(1, "x", "add")]})
    run.batch({"input": [command(2, "x", "add")]})
    alone = table(run.outputs["state"])["x"]["paid"]

    class Twice(Forgetful):
        decide = staticmethod(lambda *_: [{"kind": "added"}, {"kind": "added"}])

    run = driver(decide(Twice))
    run.batch({"input": [command(1, "x", "add")]})
    assert table(run.outputs["state"])["x"]["paid"] == alone == 1


class Lazy(Cart):
    """Gives events one by one."""

    @staticmethod
    def decide(state, command):
        yield {"kind": "added", "item": "a", "count": 1}
        if command["kind"] == "take":
            raise Rejected("no")


def test_events_may_be_given_one_by_one():
    """Pass: what is refused behind the first has none."""
    run = driver(decide(Lazy))
    run.batch({"input": [command(1, "x", "add"), command(2, "x", "take")]})
    assert [event["version"] for event in run.outputs[""]] == [1]
    assert [row["reason"] for row in run.outputs["rejected"]] == ["no"]


def test_a_late_command_is_remembered_too():
    """Pass: for an hour from when it came, though its own time is long past."""
    run = driver(decide())
    run.batch({"input": [command(1, "y", "add", minutes=600)]})
    for number in (2, 3):
        run.batch({"input": [command(number, "x", "add", id="c")]})
    assert [event["version"] for event in run.outputs[""] if event["cart"] == "x"] == [1]


def test_events_may_be_counted_from_nought():
    """Pass: the first event of a key is one, whatever its version is; a second copy is not."""
    run = driver(evolve())
    event = {"cart": "x", "kind": "added", "item": "a", "count": 1}
    run.batch(
        {"input": [{**event, "version": 0}, {**event, "version": 0}, {**event, "version": 1}]}
    )
    assert table(run.outputs[""]) == {"x": {"items": {"a": 2}, "paid": 0}}


@pytest.mark.parametrize(
    ("columns", "named", "found"),
    [
        ("k STRING, partition STRING, position STRING", [], ["partition", "position"]),
        (
            "k STRING, origin STRING, partition STRING, position STRING",
            [],
            ["origin", "partition", "position"],
        ),
        (
            "k STRING, position STRING, at TIMESTAMP, m MAP<STRING, INT>",
            [],
            ["at", "k", "position"],
        ),
        (
            "k STRING, partition STRING, position STRING, n INT",
            ["N"],
            ["n", "k", "partition", "position"],
        ),
    ],
)
def test_rows_of_a_key_follow_each_other(columns, named, found):
    """Pass: by the log; or by time, or by columns that are named, and then by all that can be compared."""
    time = EventTime("at", timedelta(0)) if "at TIMESTAMP" in columns else None
    assert order_of(Events(columns, event_time=time), named) == found


def test_a_watermark_may_be_beyond_all_times():
    """Pass: as it is at the end of a run that flushes; commands go on."""
    run = driver(decide())
    run.advance(10**18)
    run.batch({"input": [command(1, "x", "add")]})
    assert len(run.outputs[""]) == 1
