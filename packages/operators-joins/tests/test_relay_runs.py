"""Relays in runs: their end, kills, starting over, taking back, replays, and values of every type."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from mainstem.errors import DocumentError, PipelineError
from mainstem.pipeline import Pipeline
from mainstem.plan.build import make_plan
from mainstem.plan.rendering import as_json, as_mermaid, as_text
from mainstem.plan.replay import replay_plan
from mainstem.run.checkpoints import copy
from mainstem.run.rollback import refusals, take_back
from mainstem.run.runner import run
from mainstem_testkit import PipelineFolder, crash_at_every_point, wait_for

START = datetime(2026, 3, 1, tzinfo=UTC)
POINTS = ("relay.before-segment", "relay.before-entry", "relay.after-entry")


def window(above: str, on: str, length: str, **columns: str) -> dict[str, Any]:
    made = {"on": on, "tumbling": length, "start": "begins", "end": "ends"}
    return {
        "use": "aggregate",
        "from": above,
        "with": {"by": ["k"], "window": made, "columns": columns},
    }


def parts(**changed: Any) -> dict[str, Any]:
    """Return the parts of a document: the most events that an hour of each day has, by key."""
    rows = {
        "use": "files",
        "with": {
            "path": "./in",
            "format": "jsonlines",
            "schema": "k STRING, at TIMESTAMP",
            "max_files": 1,
        },
        "watermark": {"column": "at", "delay": "10 minutes"},
    }
    out = {"path": "./days", "format": "jsonlines"}
    return {
        "trigger": {"available_now": True, "flush": True},
        "sources": {"rows": rows},
        "operators": {
            "hours": window("rows", "at", "1 hour", n="count(*)"),
            "days": window("hours", "ends", "24 hours", n="max(n)"),
        },
        "sinks": {"days_out": {"use": "files", "from": "days", "with": out}},
        **changed,
    }


def feed(pipeline, day: int) -> None:
    """Feed a day: `day + 2` events of `a` in the hour before midnight, one of `b` at noon."""
    at = START + timedelta(days=day)
    times = [("b", at + timedelta(hours=12))]
    times += [("a", at + timedelta(hours=23, minutes=5 * n)) for n in range(day + 2)]
    pipeline.feed(f"{day}.json", [{"k": k, "at": t.isoformat()} for k, t in times])
    # Spark takes files in the order of their times, which ties leave open.
    os.utime(pipeline.folder / "in" / f"{day}.json", (1_700_000_000 + day,) * 2)


def found(pipeline, name: str = "days") -> Counter[Any]:
    return Counter((row["k"], row["begins"][:10], row["n"]) for row in pipeline.rows(name))


def expected(*days: int) -> Counter[Any]:
    dates = {day: (START + timedelta(days=day)).date().isoformat() for day in days}
    return Counter(
        [("b", date, 1) for date in dates.values()]
        + [("a", date, n + 2) for n, date in dates.items()]
    )


@pytest.mark.in_turn
def test_a_bounded_run_closes_what_is_above_and_then_what_is_below(pipeline):
    """Pass: each day once, also the last one; a second run goes on from there.

    A flush says that nothing older will come: so what comes next is of the day after the next.
    """
    pipeline.document(**parts())
    for day in range(2):
        feed(pipeline, day)
    told = pipeline.run()
    assert found(pipeline) == expected(0, 1)
    assert told["queries"]["hours"]["nodes"]["rows"]["rows"] == 7
    feed(pipeline, 3)
    pipeline.run()
    assert found(pipeline) == expected(0, 1, 3)


@pytest.mark.timeout(900)
@pytest.mark.in_turn
@pytest.mark.parametrize("here", [True, False], ids=["dies", "killed"])
def test_killed_at_each_step_nothing_is_lost_or_doubled(pipeline, turn, here):
    """Pass: each day once, whoever dies at a step of writing a segment, on either side of it."""
    pipeline.document(**parts())
    for day in range(2):
        feed(pipeline, day)

    def check(done) -> None:
        assert found(done) == expected(0, 1)

    def chosen(points: list[str]) -> list[str]:
        assert {*POINTS} <= {*points}
        return turn.one([*POINTS, "run.before-batch", "run.after-batch"])

    crash_at_every_point(pipeline, check, points=chosen, passes=(2,), here=here)


@pytest.mark.in_turn
def test_a_query_above_starts_over_with_all_that_reads_its_relay(pipeline):
    """Pass: what is below can't start over alone, for what it has read is gone; from above all comes again."""
    pipeline.document(**parts())
    for day in range(3):
        feed(pipeline, day)
    pipeline.run()
    with pytest.raises(PipelineError, match="days can't start over alone.*--fresh hours"):
        run(pipeline.plan(), fresh=["days"])
    run(pipeline.plan(), fresh=["hours"])
    assert found(pipeline) == expected(0, 1, 2) + expected(0, 1, 2)
    relays = pipeline.folder / "checkpoints" / "test"
    assert len(list(relays.glob("set-aside/*/relays/hours_relay"))) == 1


@pytest.mark.in_turn
def test_a_query_that_is_new_below_has_what_is_kept(pipeline):
    """Pass: what others have read is there for it, by `keep`; the plan says for how long."""
    made = parts(operators={}, sinks={"one": {**pipeline.sink("one", "rows"), "query": "own"}})
    made["sources"]["rows"]["relay"] = {"keep": "1 day"}
    plan = pipeline.document(**made).plan()
    assert "(`relay: true`); kept for 1 day" in as_text(plan)
    assert [relay["keep"] for relay in as_json(plan)["relays"]] == ["1 day"]
    for day in range(4):
        feed(pipeline, day)
    pipeline.run()
    made["sinks"]["two"] = {**pipeline.sink("two", "rows"), "query": "own"}
    pipeline.document(**made).run()
    assert len(pipeline.rows("one")) == len(pipeline.rows("two")) == 4 + sum(range(2, 6))


@pytest.mark.in_turn
def test_a_query_above_is_taken_back_once_what_is_below_is(pipeline):
    """Pass: first what has read later batches; then both go on, and all is there once."""
    pipeline.document(**parts(trigger={"available_now": True}))
    for day in range(4):
        feed(pipeline, day)
        pipeline.run()
    plan = pipeline.plan()
    hours, days = plan.query("hours"), plan.query("days")
    below, above = _batches(pipeline, "days"), _batches(pipeline, "hours")
    (why,) = refusals(plan, hours, above[-3])
    assert "days has read what later batches gave: take it back first" in why
    take_back(plan, days, below[-3])
    segments = sorted(plan.checkpoint.glob("relays/hours_relay/*.json"))
    batch = json.loads(segments[0].read_text().splitlines()[0])["batch"]
    assert refusals(plan, hours, max(batch, above[-3])) == []
    take_back(plan, hours, max(batch, above[-3]))
    pipeline.document(**parts())
    pipeline.run()
    assert found(pipeline) == expected(0, 1, 2, 3)


@pytest.mark.in_turn
def test_a_copy_knows_which_batches_are_in(pipeline):
    """Pass: a batch that was in hand when the checkpoint was copied is not in the copy's relay twice."""
    pipeline.document(**parts(trigger={"available_now": True}))
    for day in range(3):
        feed(pipeline, day)
    pipeline.run()
    last = _batches(pipeline, "hours")[-1]
    commits = pipeline.plan().query_folder("hours") / "commits"
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    copied = copy(pipeline.plan(), pipeline.folder / "other")
    pipeline.document(**parts(checkpoint="./other"))
    pipeline.run()
    entries = [json.loads(f.read_text().splitlines()[0]) for f in copied.glob("relays/*/*.json")]
    batches = [entry["batch"] for entry in entries]
    assert len(batches) == len(set(batches))
    assert found(pipeline) == expected(0, 1, 2)


def _batches(pipeline, query: str) -> list[int]:
    folder = pipeline.folder / "checkpoints" / "test" / "queries" / query / "commits"
    return sorted(int(file.name) for file in folder.glob("[0-9]*"))


@pytest.mark.in_turn
def test_a_replay_of_what_is_below_reads_the_sources_again(pipeline):
    """Pass: into a shadow, from the earliest, through a relay of the replay's own; the pipeline's is as it was."""
    shadow = {
        "use": "files",
        "from": "days",
        "query": "replay",
        "with": {"path": "./again", "format": "jsonlines"},
    }
    made = parts()
    made["sinks"]["again"] = shadow
    pipeline.document(**made)
    for day in range(3):
        feed(pipeline, day)
    pipeline.run()
    segments = sorted(pipeline.plan().checkpoint.glob("relays/*/*.json"))
    replayed = replay_plan(pipeline.plan(), "days", "earliest", {"days_out": "again"})
    run(replayed)
    # A replay ends where the pipeline would go on, with windows that are open: so it closes none.
    assert found(pipeline, "again") <= expected(0, 1, 2)
    assert found(pipeline, "again")
    assert sorted(pipeline.plan().checkpoint.glob("relays/*/*.json")) == segments


@pytest.mark.in_turn
def test_damage_in_a_relay_is_found(pipeline, capsys):
    """Pass: `checkpoint verify` names the segment."""
    from mainstem.cli.app import app
    from typer.testing import CliRunner

    pipeline.document(**parts())
    feed(pipeline, 0)
    pipeline.run()
    (entry, *_) = sorted(pipeline.plan().checkpoint.glob("relays/hours_relay/*.json"))
    entry.write_text(entry.read_text().replace('"batch": ', '"batch": 1'))
    told = CliRunner().invoke(app, ["checkpoint", "verify", str(pipeline.file)])
    assert told.exit_code == 1
    assert "hours_relayed" in told.output


@pytest.mark.in_turn
def test_a_run_without_an_end_goes_on_through_relays(pipeline):
    """Pass: days come out while the run goes on, as the next ones come."""
    pipeline.document(**parts(trigger={"every": "100 milliseconds"}))
    running = Pipeline(pipeline.file).start()
    try:
        for day in range(3):
            feed(pipeline, day)
        wait_for(lambda: found(pipeline) == expected(0, 1), 60)
    finally:
        running.stop()


@pytest.mark.in_turn
def test_windows_below_a_source_that_asks_for_a_relay_are_final(tmp_path, quick_java):
    """Pass: without a flush, as later rows come; the query above keeps no state, and has a watermark.

    What the folder is called is none of a relay's business.
    """
    pipeline = PipelineFolder(tmp_path / "a b\u00fc %20")
    made = parts(trigger={"available_now": True})
    made["sources"]["rows"]["relay"] = True
    del made["operators"]["days"]
    made["sinks"]["days_out"]["from"] = "hours"
    pipeline.document(**made)
    for day in range(3):
        feed(pipeline, day)
        pipeline.run()
    # Each batch of the relay has the watermark of those before it.
    assert found(pipeline) - expected(0, 1) == Counter()
    assert found(pipeline) >= expected(0)


@pytest.mark.in_turn
def test_what_a_join_has_held_back_is_not_late_below_a_relay(pipeline):
    """Pass: a pair whose left row has waited for most of an hour is in that row's window, though a run before
    has moved the watermark below the relay past it."""

    def source(name):
        given = {"path": f"./{name}", "format": "jsonlines", "schema": "k STRING, at TIMESTAMP"}
        time = {"column": "at", "delay": "1 minute"}
        return {"use": "files", "with": given, "watermark": time}

    def feed_sides(number, key, minute):
        for side, k in (("left", f"left {minute}"), ("right", key)):
            folder = pipeline.folder / side
            folder.mkdir(exist_ok=True)
            row = {"k": k, "at": (START + timedelta(minutes=minute)).isoformat()}
            text = json.dumps(row) + "\n"
            if minute == 0 and side == "left":
                text += json.dumps({**row, "k": "a"}) + "\n"
            (folder / f"{number}.json").write_text(text)

    join = {"on": ["k"], "within": {"after": "1 hour"}, "take": {"seen": "at"}}
    pairs = {"use": "stream_stream_join", "from": {"left": "left", "right": "right"}, "with": join}
    made = {
        "sources": {side: source(side) for side in ("left", "right")},
        "operators": {
            "pairs": {**pairs, "relay": True},
            "totals": window("pairs", "at", "10 minutes", n="count(*)"),
        },
        "sinks": {"totals_out": pipeline.sink("totals", "totals")},
    }
    pipeline.document(**made)
    for number, (key, minute) in enumerate([("x", 0), ("y", 40), ("a", 50)]):
        feed_sides(number, key, minute)
        summary = pipeline.run()
        assert not any(query["late_rows"] for query in summary["queries"].values())
    pipeline.document(trigger={"available_now": True, "flush": True}, **made)
    pipeline.run()
    assert [(row["k"], row["n"]) for row in pipeline.rows("totals")] == [("a", 1)]


TYPES = """
    b BOOLEAN, i TINYINT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38, 10), s STRING, x BINARY, t DATE,
    at TIMESTAMP, z TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING, TIMESTAMP>,
    r STRUCT<`odd name`: ARRAY<STRUCT<q: DECIMAL(5, 2)>>, w: DATE>
"""
VALUES = [
    """true, -128, 9223372036854775807, float('nan'), double('-infinity'), 1234567890.0123456789, 'ä\\u0000 ', x'00ff',
    date'0001-01-01', timestamp'1500-03-01 00:00:00.000001', timestamp_ntz'1969-12-31 23:59:59.999999',
    array(1, null), map('k', timestamp'1900-01-01 00:00:00'),
    named_struct('odd name', array(named_struct('q', 1.25BD)), 'w', date'1582-10-10')""",
    """false, 0, 0, 0.0, -0.0, -0.0000000001, '', x'', date'9999-12-31', timestamp'9999-12-31 23:59:59.999999',
    timestamp_ntz'0001-01-01', array(), map(), null""",
    ", ".join(["null"] * 14),
]


@pytest.mark.in_turn
def test_values_of_every_type_come_through_as_they_were(pipeline, spark):
    """Pass: rows by a relay equal those without one, bit for bit; nulls, odd names and far times too."""
    names = ["b", "i", "l", "f", "d", "n", "s", "x", "t", "at", "z", "a", "m", "r"]
    rows = " UNION ALL ".join(f"SELECT {values}" for values in VALUES)
    spark.sql(f"SELECT * FROM ({rows}) AS t({', '.join(names)})").selectExpr(
        "CAST(b AS BOOLEAN) b", "CAST(i AS TINYINT) i", "CAST(l AS BIGINT) l", "CAST(f AS FLOAT) f",
        "CAST(d AS DOUBLE) d", "CAST(n AS DECIMAL(38, 10)) n", "CAST(s AS STRING) s", "CAST(x AS BINARY) x",
        "CAST(t AS DATE) t", "CAST(at AS TIMESTAMP) at", "CAST(z AS TIMESTAMP_NTZ) z",
        "CAST(a AS ARRAY<INT>) a", "CAST(m AS MAP<STRING, TIMESTAMP>) m",
        "CAST(r AS STRUCT<`odd name`: ARRAY<STRUCT<q: DECIMAL(5, 2)>>, w: DATE>) r",
    ).write.mode("overwrite").parquet((pipeline.folder / "typed").as_uri())  # fmt: skip
    given = {"path": "./typed", "format": "parquet", "schema": " ".join(TYPES.split())}
    sinks = {
        name: {
            "use": "files",
            "from": "rows",
            "query": "own",
            "with": {"path": f"./{name}", "format": "parquet"},
        }
        for name in ("one", "two")
    }
    pipeline.document(sources={"rows": {"use": "files", "with": given, "relay": True}}, sinks=sinks)
    assert [relay.stream.node for relay in pipeline.plan().relays] == ["rows"]
    pipeline.run()
    exact = [f"hex(CAST({n} AS BINARY)) {n}" for n in ("s", "x")]
    text = [f"to_json(struct({', '.join(n for n in names if n not in 'sx')})) rest", *exact]
    first = spark.read.parquet((pipeline.folder / "typed").as_uri()).selectExpr(*text).collect()
    for name in sinks:
        again = spark.read.parquet(f"{(pipeline.folder / name).as_uri()}/*").selectExpr(*text)
        assert sorted(map(str, again.collect())) == sorted(map(str, first))


def test_what_a_relay_can_not_hold_is_refused_with_the_way_on(pipeline):
    """Pass: an interval, before any query starts."""
    made = parts()
    made["operators"] = {
        "lasting": {
            "use": "select",
            "from": "rows",
            "relay": True,
            "with": {"columns": {"k": "k", "at": "at", "age": "current_timestamp() - at"}},
        },
        "total": {
            "use": "aggregate",
            "from": "lasting",
            "with": {"by": ["k"], "columns": {"n": "count(age)"}, "emit": "changes"},
        },
    }
    made["sinks"]["days_out"]["from"] = "total"
    pipeline.document(**made)
    feed(pipeline, 0)
    with pytest.raises(DocumentError, match="a relay can't hold the column age, of type interval"):
        pipeline.run()


# -- plans --------------------------------------------------------------------------------------------


def test_a_relay_is_told_with_its_reason(pipeline):
    """Pass: in text, JSON and Mermaid; what it costs too."""
    plan = pipeline.document(**parts()).plan()
    told = as_text(plan)
    assert "relays: what reads them has its rows a trigger later" in told
    assert (
        "hours by hours_relay to hours_relayed: days goes by the time of what hours gives" in told
    )
    assert "watermark of the query above, on ends" in told
    (relay,) = as_json(plan)["relays"]
    assert (relay["stream"], relay["sink"]) == ("hours", "hours_relay")
    assert "hours_relay -.-> hours_relayed" in as_mermaid(plan)
    assert [query.name for query in plan.queries] == ["hours", "days"]


def test_a_source_that_asks_for_it_is_read_once(pipeline):
    """Pass: two windows of one source are two queries that read it; with `relay: true` one query does."""
    made = parts()
    made["operators"]["halves"] = window("rows", "at", "30 minutes", n="count(*)")
    del made["operators"]["days"]
    made["sinks"]["days_out"]["from"] = "hours"
    made["sinks"]["halves_out"] = {"use": "console", "from": "halves"}

    def reading(plan: Any) -> list[str]:
        return [query.name for query in plan.queries if "rows" in query.reads]

    assert reading(pipeline.document(**made).plan()) == ["hours", "halves"]
    made["sources"]["rows"]["relay"] = True
    assert reading(pipeline.document(**made).plan()) == ["rows"]


def test_steps_without_state_stay_with_what_is_above(pipeline):
    """Pass: what a relay takes is the last of them, and the sink beside reads no relay."""
    made = parts()
    made["operators"]["short"] = {
        "use": "select",
        "from": "hours",
        "with": {"columns": {"k": "k", "ends": "ends", "n": "n"}, "where": "n > 1"},
    }
    made["operators"]["days"]["from"] = "short"
    made["sinks"]["hours_out"] = {"use": "console", "from": "short"}
    plan = pipeline.document(**made).plan()
    assert [str(relay.stream) for relay in plan.relays] == ["short"]
    assert {*plan.query("hours").sinks} == {"hours_out", "short_relay"}


def test_a_name_that_a_relay_has_is_refused(pipeline):
    """Pass: the problem says which relay."""
    made = parts()
    made["sinks"]["hours_relay"] = {"use": "console", "from": "hours"}
    with pytest.raises(DocumentError, match="the relay of hours has the name 'hours_relay' too"):
        make_plan(pipeline.document(**made).file)


@pytest.mark.parametrize("first", ["days", "own"])
def test_the_names_of_a_relay_do_not_go_by_the_order_of_the_document(pipeline, first):
    """Pass: who goes by the carried watermark, and who by one of its own, read the same ends either way."""
    made = parts()
    steps = made["operators"]
    steps["own"] = {
        "use": "select",
        "from": "hours",
        "with": {"columns": {"k": "k", "ends": "ends"}},
        "watermark": {"column": "ends", "delay": "1 hour"},
    }
    steps = {first: steps[first], **steps}
    made["operators"] = steps
    made["sinks"] = {f"{name}_out": {"use": "console", "from": name} for name in ("days", "own")}
    plan = pipeline.document(**made).plan()
    assert [str(stream) for stream in plan.nodes["days"].streams] == ["hours_relayed"]
    assert [str(stream) for stream in plan.nodes["own"].streams] == ["hours_untimed_relayed"]


def test_two_relays_of_one_name_are_refused(pipeline):
    """Pass: of a named output, and of a node that is called as that would be; the problem names both."""
    made = joined()
    made["operators"]["joined_unmatched"] = window("rows", "at", "1 hour", n="count(*)")
    made["operators"]["days"] = window("joined_unmatched", "ends", "24 hours", n="max(n)")
    totals = {"by": ["k"], "columns": {"n": "count(*)"}, "emit": "changes"}
    lost = {"use": "aggregate", "from": "joined.unmatched", "with": totals}
    made["operators"]["lost"] = lost
    made["sinks"] = {f"{name}_out": {"use": "console", "from": name} for name in ("days", "lost")}
    made["sinks"]["joined_out"] = {"use": "console", "from": "joined"}
    with pytest.raises(
        DocumentError, match="joined_unmatched.*would both be 'joined_unmatched_relay'"
    ):
        make_plan(pipeline.document(**made).file)


@pytest.mark.in_turn
def test_changes_below_a_relay_are_newer_when_the_query_above_starts_over(pipeline):
    """Pass: their sequence is above all that were given before, though batches are numbered from 0."""
    made = joined()
    del made["operators"]["joined"]
    del made["sources"]["events"]
    made["operators"]["best"]["relay"] = True
    made["sinks"]["days_out"]["from"] = "best"
    pipeline.document(**made)

    def sequences() -> set[int]:
        return {row["_commit_version"] for row in pipeline.rows("days")}

    for day in range(2):
        feed(pipeline, day)
    pipeline.run()
    before = sequences()
    assert len(before) == 2
    run(pipeline.plan(), fresh=["best"])
    after = sequences() - before
    assert len(after) == 2
    assert min(after) > max(before)


def joined() -> dict[str, Any]:
    """Return a document that joins events with totals that change, as a table."""
    events = {
        "use": "files",
        "with": {"path": "./events", "format": "jsonlines", "schema": "k STRING, n INT"},
    }
    made = parts()
    made["sources"]["events"] = events
    made["operators"] = {
        "best": {
            "use": "aggregate",
            "from": "rows",
            "with": {"by": ["k"], "columns": {"times": "count(*)"}, "emit": "changes"},
        },
        "joined": {
            "use": "stream_table_join",
            "from": {"stream": "events", "table": "best"},
            "with": {"on": ["k"], "as_of": "latest"},
        },
    }
    made["sinks"]["days_out"]["from"] = "joined"
    return made


def test_what_is_loaded_first_is_loaded_through_relays(pipeline):
    """Pass: the query above a table that a join needs first loads all that there is before."""
    plan = pipeline.document(**joined()).plan()
    assert plan.query("best").loads == (("rows",),)
    assert plan.query("joined").loads == (("best_relayed",),)


@pytest.mark.in_turn
@pytest.mark.parametrize("trigger", [{"available_now": True}, {"every": "100 milliseconds"}])
def test_events_meet_all_of_a_table_that_comes_by_a_relay(pipeline, trigger):
    """Pass: each event is joined with the totals of all rows that were there, also in a run without an end."""
    pipeline.document(**{**joined(), "trigger": trigger})
    for day in range(3):
        feed(pipeline, day)
    (pipeline.folder / "events").mkdir()
    lines = [json.dumps({"k": k, "n": n}) for n, k in enumerate("abc")]
    (pipeline.folder / "events" / "0.json").write_text("\n".join(lines))
    running = Pipeline(pipeline.file).start()
    try:
        wait_for(lambda: len(pipeline.rows("days")) == 2, 120)
    finally:
        running.stop()
    rows = {row["k"]: row["times"] for row in pipeline.rows("days")}
    assert rows == {"a": 2 + 3 + 4, "b": 3}
