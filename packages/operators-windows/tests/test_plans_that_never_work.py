"""Plans that look right and never give a row are refused, and each hint leads to one that works."""

from __future__ import annotations

import copy

import pytest
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan


def document(**operators):
    rows = {
        "use": "files",
        "with": {"path": "./in", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP, n INT"},
        "watermark": {"column": "at", "delay": "1 minute"},
    }
    return {
        "pipeline": "test",
        "sources": {"rows": rows},
        "operators": operators,
        "sinks": {"out": {"use": "console", "from": list(operators)[-1]}},
    }


def window(above, on="at", emit="final", columns=None, **more):
    made = {"by": ["k"], "emit": emit, "columns": columns or {"n": "count(*)"}, **more}
    if emit == "final":
        made["window"] = {"on": on, "tumbling": "1 hour"}
    return {"use": "aggregate", "from": above, "with": made}


MARK = {"column": "at", "delay": "1 minute"}
NESTED = document(
    hours=window("rows"),
    timed={
        "use": "select", "from": "hours", "watermark": MARK,
        "with": {"columns": {"k": "k", "at": "window_start", "n": "n"}},
    },
    days=window("timed"),
)  # fmt: skip


def refused(made):
    with pytest.raises(DocumentError) as caught:
        make_plan(made)
    return str(caught.value)


def test_a_second_watermark_below_state_needs_a_relay():
    """Pass: where relays are forbidden, one problem that says why; its hint gives a document that is right."""
    forbidden = copy.deepcopy(NESTED)
    forbidden["operators"]["hours"]["relay"] = False
    told = refused(forbidden)
    assert told.startswith(
        "operators.timed.watermark: a watermark can't be put here: hours keeps state"
    )
    assert "Take away `relay: false`" in told
    (relay,) = make_plan(NESTED).relays
    assert str(relay.stream) == "hours"
    assert "timed has a watermark of its own" in relay.why


def test_two_watermarks_along_one_stream_are_refused():
    """Pass: the second is refused; without the first the document is right."""
    later = {
        "use": "select", "from": "rows", "watermark": {**MARK, "column": "later"},
        "with": {"columns": {"k": "k", "later": "at + INTERVAL 1 HOUR"}},
    }  # fmt: skip
    made = document(later=later, total=window("later", on="later"))
    # What SQL gives is known once Spark has looked at it.
    told = refused(made)
    assert "a stream has one watermark, and rows above has it" in told
    assert "Take away that of rows" in told
    del made["sources"]["rows"]["watermark"]
    make_plan(made)


def test_changes_do_not_follow_on_rows_that_wait_for_the_watermark():
    """Pass: `emit: changes` below final windows is refused without a relay; with one it is right."""
    made = document(
        hours=window("rows"), best=window("hours", emit="changes", columns={"m": "max(n)"})
    )
    assert [str(relay.stream) for relay in make_plan(made).relays] == ["hours"]
    made["operators"]["hours"]["relay"] = False
    told = refused(made)
    assert (
        "operators.best: emits changes with each batch, and 'hours' above gives rows only when"
        in told
    )
    make_plan(document(best=window("rows", emit="changes", columns={"m": "max(n)"})))


def test_a_window_without_event_time_is_told_what_works_here():
    """Pass: where there is a watermark above, the hint does not ask for a second one."""
    lost = {
        "use": "select",
        "from": "rows",
        "with": {"columns": {"k": "k", "then": "at + INTERVAL 1 DAY"}},
    }
    told = refused(document(lost=lost, total=window("lost", on="then")))
    assert "The node rows above has the watermark, and a stream has one" in told
    plain = document(total=window("rows"))
    del plain["sources"]["rows"]["watermark"]
    assert "Give the input node `watermark: {column: at, delay: ...}`" in refused(plain)


@pytest.mark.parametrize("name", ["window_start", "window_end"])
def test_a_key_can_have_the_name_of_the_windows_columns(name):
    """Pass: it is refused with the option that renames them, and right with that."""
    made = document(total=window("rows"))
    made["sources"]["rows"]["with"]["schema"] = f"{name} STRING, at TIMESTAMP"
    made["operators"]["total"]["with"]["by"] = [name]
    assert f"a key has the name '{name}' too" in refused(made)
    made["operators"]["total"]["with"]["window"] |= {"start": "from", "end": "to"}
    names = make_plan(made).nodes["total"].shape.names
    assert names == (name, "from", "to", "n")


@pytest.mark.in_turn
def test_names_beyond_ascii_and_with_blanks_and_dots_are_served(trial):
    """Pass: watermarks, windows and fields of any name, and columns named as Spark names its own."""
    for time in ("größe", "evt.at", "event time"):
        made = document(
            total=window("rows", on=time, columns={"n": "max(window)", "m": "min(session_window)"})
        )
        schema = f"k STRING, `{time}` TIMESTAMP, window STRING, session_window STRING, s STRUCT<`länge`: INT>"
        made["sources"]["rows"]["with"]["schema"] = schema
        made["sources"]["rows"]["watermark"]["column"] = time
        made["sources"]["rows"]["on_rejected"] = "drop"
        run = trial(made)
        run.feed(
            "rows", [{"k": "a", time: "2024-01-01T00:10:00Z", "window": "w", "session_window": "s"}]
        )
        run.batch()
        run.feed("rows", [{"k": "a", time: "2024-01-01T05:10:00Z"}])
        run.batch()
        run.batch()
        assert [(row["n"], row["m"]) for row in run.rows("out")] == [("w", "s")]


@pytest.mark.in_turn
def test_distinct_totals_are_refused_with_what_to_write(tmp_path):
    """Pass: Spark's analyser is asked, and says what streams can't do and what can stand there instead."""
    from mainstem.analysis.process import Process, Remembered

    process = Process(pytest.fail)
    made = document(total=window("rows", columns={
        "users": "max(distinct n)", "other": "n", "twice": "explode(collect_list(n))",
    }))  # fmt: skip
    with pytest.raises(DocumentError) as caught:
        make_plan(made, analyse=Remembered(process, tmp_path))
    process.close()
    told = str(caught.value)
    assert "total.with.columns.users: has an aggregate over DISTINCT values" in told
    assert "count, sum and avg can be over DISTINCT values" in told
    assert "total.with.columns.twice: has several rows for one" in told
    assert "total.with.columns.other: " in told
