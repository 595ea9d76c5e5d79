"""The stream-table join against plain computations, for any keys, times, orders, batches and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joins_fuzz import fuzz
from mainstem_keyed_state.testing import Driver, Paged, cut, micros
from mainstem_operators_joins.stream_table_logic import StreamTableLogic
from stream_table_model import (
    MINUTE,
    STREAM,
    TABLE,
    Model,
    OneVersionAgo,
    brief,
    change,
    driver,
    event,
    guarded,
    minute,
    settings,
    whole,
)

FAR = micros(minute(100_000))
_KEYS = st.sampled_from(["a", "a", "b"])
_MINUTES = st.integers(0, 12)


@st.composite
def _events(draw: st.DrawFn, most: int = 10) -> list[dict[str, Any]]:
    rows = draw(
        st.lists(
            st.tuples(st.one_of(_KEYS, st.none()), _MINUTES, st.sampled_from([0, 0, 0, 1, None])),
            max_size=most,
        )
    )
    return [event(n, k, at, j) for n, (k, at, j) in enumerate(rows)]


@st.composite
def _changes(draw: st.DrawFn, most: int = 10) -> list[dict[str, Any]]:
    """Changes of the table; of one key, time and sequence all are alike, some are there twice."""
    found: dict[Any, dict[str, Any]] = {}
    row = st.tuples(
        _KEYS,
        _MINUTES,
        st.sampled_from([None, 0, 1, 2]),
        st.one_of(st.none(), st.integers(0, 9), st.integers(0, 9)),
        st.sampled_from([0, 0, 1]),
    )
    for key, since, sequence, price, sub in draw(st.lists(row, max_size=most)):
        made = change(key, since, price, sequence, sub)
        found.setdefault((key, sub, since, made["_commit_version"]), made)
    rows = list(found.values())
    again = draw(st.lists(st.sampled_from(rows), max_size=2)) if rows else []
    return rows + again


@st.composite
def _arrivals(
    draw: st.DrawFn, rows: list[dict[str, Any]], column: str, delay: int
) -> list[dict[str, Any]]:
    """The rows in an order in which none is later than the delay allows."""
    jitter = draw(st.lists(st.integers(0, delay), min_size=len(rows), max_size=len(rows)))
    shuffled = draw(st.permutations(range(len(rows))))
    by = {
        n: (micros(rows[n][column]) + jitter[n] * 60_000_000, shuffled.index(n)) for n in shuffled
    }
    return [rows[n] for n in sorted(by, key=lambda n: by[n])]


@st.composite
def _interleaved(draw: st.DrawFn, **ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Batches: the ports' rows, each in its order, mixed and cut in any way."""
    turns = draw(st.permutations([port for port, rows in ports.items() for _ in rows]))
    left = {port: iter(rows) for port, rows in ports.items()}
    line = [(port, next(left[port])) for port in turns]
    places = draw(st.lists(st.integers(0, len(line)), max_size=6))
    batches = []
    for part in cut(line, places):
        batches.append({port: [row for at, row in part if at == port] for port in ports})
    return batches


@fuzz(200)
@given(st.data())
def test_a_complete_join_is_the_same_for_every_interleaving(data):
    """Pass: all output equals merge_asof over the whole data, whatever came when, and nothing is late."""
    delays = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    events, changes = data.draw(_events()), data.draw(_changes())
    join = data.draw(st.sampled_from(["inner", "left"]))
    expected, alone = whole(events, changes, join)
    for _ in range(2):
        run = driver(
            settings(join=join),
            delays,
            pages=data.draw(st.sampled_from([1, 3])),
            seed=data.draw(st.integers(0, 3)),
        )
        stream = data.draw(_arrivals(events, "at", delays[0]))
        table = data.draw(_arrivals(changes, "since", delays[1]))
        for batch in data.draw(_interleaved(stream=stream, table=table)):
            run.batch(batch)
            if data.draw(st.booleans()):
                run.restart()
        run.advance(FAR)
        assert brief(run.outputs[""]) == expected
        assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == alone
        assert not run.outputs["late"]
        assert not run.outputs["late_changes"]
        assert not run.outputs["rejected"]
        assert not run.rows("waiting")


@fuzz(200)
@given(st.data())
def test_a_version_that_is_too_far_is_none(data):
    """Pass: as pandas' merge_asof has it with a tolerance, backward, forward or nearest, however rows come;
    no version stays once no event can meet it."""
    delays = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    events, changes = data.draw(_events()), data.draw(_changes())
    within = data.draw(st.integers(1, 6)) * MINUTE
    direction = data.draw(st.sampled_from(["backward", "forward", "nearest"]))
    expected, alone = whole(events, changes, "inner", within, direction)
    by = data.draw(st.sampled_from([Driver, Paged]))
    run = driver(settings(within=within, direction=direction), delays, by=by, pages=2)
    stream = data.draw(_arrivals(events, "at", delays[0]))
    table = data.draw(_arrivals(changes, "since", delays[1]))
    for batch in data.draw(_interleaved(stream=stream, table=table)):
        run.batch(batch)
        if data.draw(st.booleans()):
            run.restart()
    run.advance(FAR)
    run.advance(FAR + MINUTE)
    assert brief(run.outputs[""]) == expected
    assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == alone
    assert not run.rows("waiting")
    assert not run.rows("versions")


_MODES = [
    {"as_of": "event_time", "when": "complete"},
    {"as_of": "event_time", "when": "now"},
    {"as_of": "event_time", "when": "now", "wait": -2 * MINUTE},
    {"as_of": "event_time", "when": "now", "wait": 1},
    {"as_of": "latest", "when": "now"},
    {"as_of": "latest", "when": "now", "wait": 3 * MINUTE},
]


@pytest.mark.parametrize("mode", _MODES, ids=lambda mode: "-".join(map(str, mode.values())))
@fuzz(160)
@given(st.data())
def test_rows_of_any_lateness_give_what_a_join_that_forgets_nothing_gives(mode, data):
    """Pass: in each mode all outputs equal the model's, batch by batch, though old versions are dropped."""
    delays = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    events, changes = data.draw(_events()), data.draw(_changes(12))
    chosen = settings(join=data.draw(st.sampled_from(["inner", "left"])), **mode)
    if mode["as_of"] == "latest":  # of one sequence there is one change
        changes = list({(c["key"], c["sub"], c["_commit_version"]): c for c in changes}.values())
    run = driver(chosen, delays, pages=data.draw(st.sampled_from([1, 3])))
    model = Model(chosen, delays)
    mixed = data.draw(_interleaved(stream=events, table=changes))
    for batch in mixed:
        run.batch(batch)
        model.batch(batch)
        assert brief(run.outputs[""]) == sorted(model.out, key=repr)
        assert run.watermark == model.watermark
        if data.draw(st.booleans()):
            run.restart()
    assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == sorted(model.unmatched)
    assert sorted(row["n"] for row in run.outputs.get("late", ())) == sorted(model.late)
    told = [(row["key"], row["sub"], row["_commit_version"]) for row in run.outputs["late_changes"]]
    assert sorted(told) == sorted(model.late_changes)
    if chosen.wait is not None or chosen.when == "complete":
        assert sorted(r["n"] for r in run.rows("waiting")) == sorted(r["n"] for r in model.waiting)
    else:
        assert not model.waiting


@fuzz(200)
@given(st.data())
def test_the_same_comes_of_state_on_pages(data):
    """Pass: on pages and in portions of any size, with timers as Spark calls for them, and whenever a run goes on
    from the state of an earlier version, all outputs equal the model's, and nothing waits in the end."""
    mode = data.draw(st.one_of(st.just(_MODES[0]), st.sampled_from(_MODES)))
    delays = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    events, changes = data.draw(_events(20)), data.draw(_changes(20))
    chosen = settings(join=data.draw(st.sampled_from(["inner", "left"])), **mode)
    if mode["as_of"] == "latest":  # of one sequence there is one change
        changes = list({(c["key"], c["sub"], c["_commit_version"]): c for c in changes}.values())
    old = chosen.when == "complete" and data.draw(st.sampled_from([True, True, False]))
    page, portion = data.draw(st.sampled_from([(64, 1), (300, 900), (65_536, 1 << 27)]))
    logic = OneVersionAgo if old else StreamTableLogic
    limits = {"page_bytes": page, "portion_bytes": portion}
    run = driver(chosen, delays, by=Paged, logic=logic, **limits)
    model = Model(chosen, delays)
    for batch in data.draw(_interleaved(stream=events, table=changes)):
        run.batch(batch)
        model.batch(batch)
        assert brief(run.outputs[""]) == sorted(model.out, key=repr)
        assert run.watermark == model.watermark
        if data.draw(st.booleans()):
            run.restart(guarded(StreamTableLogic(chosen, STREAM, TABLE), chosen))
    run.restart(guarded(StreamTableLogic(chosen, STREAM, TABLE), chosen))
    run.advance(FAR)
    model.watermark = FAR
    model.batch({})
    assert brief(run.outputs[""]) == sorted(model.out, key=repr)
    assert sorted(row["n"] for row in run.outputs.get("unmatched", ())) == sorted(model.unmatched)
    assert sorted(row["n"] for row in run.outputs.get("late", ())) == sorted(model.late)
    told = [(row["key"], row["sub"], row["_commit_version"]) for row in run.outputs["late_changes"]]
    assert sorted(told) == sorted(model.late_changes)
    run.advance(FAR + 1000 * MINUTE)
    assert not [row for table in ("waiting", "joined") for row in run.rows(table)]
