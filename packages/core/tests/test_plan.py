"""The plan: anchors and queries, guarantees with reasons, warnings, identity, and how it is shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mainstem import (
    Accepts,
    Branching,
    Delivery,
    DeliveryCapabilities,
    Events,
    Operator,
    OptionError,
    Options,
    Promise,
    Sink,
    SinkCapabilities,
    Source,
    SourceCapabilities,
    StateFacts,
    Stateful,
)
from mainstem.contracts.shapes import LOST, MESSAGE_COLUMNS, REJECTED, messages
from mainstem.discovery import Word
from mainstem.errors import DocumentError
from mainstem.plan.build import make_plan
from mainstem.plan.derive import derive, on_this_machine
from mainstem.plan.model import Plan
from mainstem.plan.rendering import as_json, as_mermaid, as_text
from mainstem.registry import Registry
from mainstem.run.session import settings


class NoOptions(Options):
    """None."""


class Counted(Operator, Stateful):
    """Keeps state."""

    options: NoOptions

    def shape(self, inputs):
        return Events("k STRING, n BIGINT", identity=["k"])

    def state(self, inputs):
        holds = timedelta(hours=1)
        return StateFacts(version=1, grows="by a key a day.", holds=holds, keyed=True)

    def apply(self, inputs, ctx):
        raise NotImplementedError


class Joined(Operator):
    """Has two ports."""

    options: NoOptions
    ports = {"left": Accepts(), "right": Accepts()}

    def shape(self, inputs):
        return inputs["left"].with_columns(inputs["left"].columns)

    def apply(self, inputs, ctx):
        raise NotImplementedError


class Radio(Source):
    """Loses and repeats."""

    options: NoOptions
    capabilities = SourceCapabilities(
        lossy=True, may_duplicate=True, why="it is radio", assumptions=("the sun is quiet",)
    )

    def shape(self):
        return Events("k STRING, n BIGINT")

    def load(self, ctx):
        raise NotImplementedError


class Mouth(Sink):
    """Shouts into the wind."""

    options: NoOptions
    capabilities = SinkCapabilities(lossy=True, why="nobody listens")

    def write(self, frame, batch):
        raise NotImplementedError


class Once(Delivery):
    """Promises everything, to sinks called console only."""

    options: NoOptions

    def promise(self, sink, shape):
        if type(sink).__name__ != "Console":
            raise OptionError("needs the ability Transactional", hint="Use another strategy.")
        return Promise(assumptions=("the ledger is kept",))

    def write(self, sink, frame, batch):
        raise NotImplementedError


class Voice(Source, Branching):
    """Gives messages that nothing tells from each other, and what it could not hear."""

    options: NoOptions

    def shape(self):
        return Events(MESSAGE_COLUMNS)

    def outputs(self, inputs):
        return {"lost": LOST, "rejected": REJECTED}

    def load(self, ctx):
        raise NotImplementedError


class Log(Voice):
    """Knows the place of each message."""

    def shape(self):
        return messages()


class Book(Sink):
    """Knows rows by their ids, if it is asked to."""

    options: NoOptions

    def write(self, frame, batch):
        raise NotImplementedError


class Known(Delivery):
    """Writes rows that are not there yet, into books only."""

    options: NoOptions
    capabilities = DeliveryCapabilities(needs_id=True)

    def promise(self, sink, shape):
        if not isinstance(sink, Book):
            raise OptionError("needs a book")
        return Promise()

    def write(self, sink, frame, batch):
        raise NotImplementedError


class Extended(Registry):
    """What the core brings, and the components above."""

    def __init__(self) -> None:
        own = [Word("operator", w, "tests", "1", "x") for w in ("counted", "joined")]
        own += [
            Word("source", "radio", "tests", "1", "x"),
            Word("delivery", "once", "tests", "1", "x"),
            Word("sink", "mouth", "tests", "1", "x"),
            Word("source", "voice", "tests", "1", "x"),
            Word("source", "log", "tests", "1", "x"),
            Word("sink", "book", "tests", "1", "x"),
            Word("delivery", "known", "tests", "1", "x"),
        ]
        super().__init__([w for w in Registry().words if w.distribution == "mainstem"] + own)
        for word in own:
            self._components[word.kind, f"tests:{word.name}"] = MADE[word.name]


MADE = {
    "counted": Counted,
    "joined": Joined,
    "radio": Radio,
    "once": Once,
    "mouth": Mouth,
    "voice": Voice,
    "log": Log,
    "book": Book,
    "known": Known,
}
LINES = {"use": "files", "with": {"path": "in", "format": "message"}}
DECODE = {"use": "decode", "with": {"format": "json", "schema": "k STRING, n BIGINT, at TIMESTAMP"}}


def plan(**parts: Any) -> Plan:
    whole = {"pipeline": "test", "sources": {"lines": LINES}, **parts}
    return make_plan(whole, Extended())


def row(source: str = "lines", **more: Any) -> dict[str, Any]:
    return {**DECODE, "from": source, "on_rejected": "drop", **more}


def console(stream: Any, **more: Any) -> dict[str, Any]:
    return {"use": "console", "from": stream, **more}


def select(stream: str) -> dict[str, Any]:
    return {"use": "select", "from": stream, "with": {"where": "n > 1"}}


def shapes(made: Plan) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    return {q.name: (q.anchor, q.streaming, q.per_batch, q.sinks) for q in made.queries}


def test_sinks_below_one_source_share_its_query():
    """Pass: one query, anchored at the source, its stateless steps done batch by batch."""
    made = plan(operators={"row": row()}, sinks={"a": console("row"), "b": console("row.rejected")})
    assert shapes(made) == {"lines": ("lines", ("lines",), ("row",), ("a", "b"))}


def test_steps_that_one_node_alone_reads_are_planned_once_with_the_query():
    """Pass: as far down as nothing branches, and no further than what only a batch has or knows."""
    text = {"use": "select", "from": "row", "with": {"columns": {"k": "k", "at": "at"}}}
    both = {"a": console("text"), "b": console("text")}

    def tail(**parts: Any) -> str:
        (query,) = plan(**parts).queries
        return query.tail

    assert tail(operators={"row": row(), "text": text}, sinks=both) == "text"
    timed = {**text, "watermark": {"column": "at", "delay": "1 minute"}}
    assert tail(operators={"row": row(), "text": timed}, sinks=both) == "row"
    two = {"a": console("text"), "b": console("row")}
    assert tail(operators={"row": row(), "text": text}, sinks=two) == "row"
    refused = {"a": console("text"), "b": console("row.rejected")}
    assert tail(operators={"row": row(), "text": text}, sinks=refused) == "row"
    other = {**text, "from": "other"}
    many = {"row": row(), "other": row(), "text": text, "last": other}
    assert tail(operators=many, sinks={"a": console(["text", "last"])}) == "lines"
    counted = {"use": "counted", "from": "row"}
    below = {**text, "from": "counted"}
    steps = {"row": row(), "counted": counted, "text": below}
    assert tail(operators=steps, sinks=both) == "text"


def test_state_anchors_a_query_and_its_own_sink_waits_for_nobody():
    """Pass: a query each for the state, for the rejected rows above it, and for the own sink."""
    made = plan(
        operators={"row": row(), "counted": {"use": "counted", "from": "row"}},
        sinks={
            "total": console("counted"),
            "bad": console("row.rejected"),
            "own": console("row", query="own"),
        },
    )
    assert shapes(made) == {
        "counted": ("counted", ("lines", "row", "counted"), (), ("total",)),
        "lines": ("lines", ("lines",), ("row",), ("bad",)),
        "own": ("lines", ("lines",), ("row",), ("own",)),
    }
    assert any("lines: read once for each of the queries" in text for text in made.warnings)


def test_state_by_key_asks_for_a_store_that_can_hold_it():
    """Pass: the error names the store and what wants it; without state by key any store will do."""
    steps = {"row": row(), "counted": {"use": "counted", "from": "row"}}
    with pytest.raises(DocumentError, match="'memory' can't hold the state of counted") as caught:
        plan(state={"use": "memory"}, operators=steps, sinks={"a": console("counted")})
    assert "Use `rocksdb`" in str(caught.value)
    with pytest.raises(DocumentError) as caught:
        plan(state={"use": "memory"}, operators={**steps, "x": row("nobody")}, sinks={"a": console("counted")})  # fmt: skip
    assert len(caught.value.problems) == 2
    made = plan(state={"use": "memory"}, operators={"row": row()}, sinks={"a": console("row")})
    assert made.state_word == "memory"


def test_what_the_document_says_of_refused_rows_is_not_warned_of():
    """Pass: a step that fails by default is warned of, and one that is to fail is not."""
    step = {**DECODE, "from": "lines"}
    for more, warned in (({}, True), ({"on_rejected": "fail"}, False)):
        made = plan(operators={"row": {**step, **more}}, sinks={"a": console("row")})
        assert any("nobody reads row.rejected" in text for text in made.warnings) == warned


def test_streams_of_different_anchors_meet_in_a_query_of_their_own():
    """Pass: a sink over two sources anchors at itself; a union of one source's branches does not."""
    two = {"lines": LINES, "more": LINES}
    made = plan(
        sources=two, operators={"a": row(), "b": row("more")}, sinks={"out": console(["a", "b"])}
    )
    assert shapes(made) == {"out": ("out", ("lines", "more", "a", "b", "out"), (), ("out",))}
    made = plan(operators={"a": row(), "b": row()}, sinks={"out": console(["a", "b"])})
    assert shapes(made) == {"lines": ("lines", ("lines",), ("a", "b"), ("out",))}


def test_who_reads_what_a_sink_refused_is_part_of_its_query():
    """Pass: of a shared query and of one of its own, whoever asks for that, also through a step."""
    steps = {"row": row(), "total": {"use": "counted", "from": "row"}, "some": select("row")}
    for more in ({}, {"query": "own"}):
        for also in ({}, {"query": "own"}):
            sinks = {"board": console("some", **more), "bad": console("board.rejected", **also)}
            sinks["both"] = console(["row.rejected", "board.rejected"])
            sinks["count"] = console("total")
            made = plan(operators=steps, sinks=sinks)
            name = "board" if more else "lines"
            query = next(query for query in made.queries if query.name == name)
            assert query.sinks == ("board", "bad", "both")
            assert query.anchor == "lines"
            assert len(made.queries) == 2
    steps["of_bad"] = {**select("board.rejected"), "with": {"where": "reason IS NOT NULL"}}
    made = plan(operators=steps, sinks={"board": console("total"), "bad": console("of_bad")})
    assert shapes(made)["total"][2:] == (("of_bad",), ("board", "bad"))


@pytest.mark.parametrize(
    ("bad", "at", "words"),
    [
        (["row.rejected", "board.rejected"], "sinks.bad.from", "of query 'total', and row.rejected is not there"),
        (["one.rejected", "two.rejected"], "sinks.bad.from", "of query 'one', and two.rejected is not there"),
        ("state", "operators.state.from", "of query 'total', and state is kept between them"),
        ("shadow.rejected", "sinks.bad.from", "shadow.rejected is known to a replay alone"),
    ],
    ids=["other anchor", "other query", "state", "shadow"],
)  # fmt: skip
def test_what_a_sink_refused_is_read_nowhere_else(bad, at, words):
    """Pass: one problem, with its place and what to do."""
    state = {"state": {"use": "counted", "from": "board.rejected"}} if bad == "state" else {}
    with pytest.raises(DocumentError) as caught:
        plan(
            operators={"row": row(), "total": {"use": "counted", "from": "row"}, **state},
            sinks={
                "board": console("total"),
                "shadow": console("total", query="replay"),
                "one": console("row", query="own"),
                "two": console("row", query="own"),
                "bad": console(bad),
            },
        )
    (problem,) = caught.value.problems
    assert problem.key == at
    assert words in problem.message
    assert "a sink of its own." in problem.hint or "on_rejected: drop" in problem.hint


def test_a_replay_reads_nothing_that_a_sink_of_the_pipeline_refused():
    """Pass: a shadow of it is a problem, and so is a plan derived for it: that would write into the sink."""
    sinks = {"board": console("row"), "bad": console("board.rejected")}
    made = plan(operators={"row": row()}, sinks=sinks)
    with pytest.raises(DocumentError, match="what 'board' refuses is known only where"):
        derive(made, [made.nodes["bad"]], checkpoint=Path("checkpoints"))
    assert derive(made, made.sinks(), checkpoint=Path("checkpoints")).queries[0].sinks == (
        "board",
        "bad",
    )
    sinks["shadow"] = console("board.rejected", query="replay")
    with pytest.raises(DocumentError, match="a replay does not write what that one writes"):
        plan(operators={"row": row()}, sinks=sinks)


def test_a_source_met_twice_above_an_anchor_is_read_twice_and_said_so():
    """Pass: the reads are counted and warned of."""
    made = plan(
        operators={
            "row": row(),
            "c": {"use": "counted", "from": "row"},
            "both": {"use": "joined", "from": {"left": "c", "right": "row"}},
        },
        sinks={"out": console("both")},
    )
    (query,) = made.queries
    assert (query.anchor, query.reads) == ("both", {"lines": 2})
    assert "lines: read 2 times in the query both." in made.warnings


def test_ports_must_all_be_connected():
    """Pass: a missing port, an unknown one and no map are each an error with the port's name."""
    for given, words in [
        ({"left": "row"}, "port 'right' is not connected"),
        ({"left": "row", "wright": "row"}, "has no port 'wright'"),
        ("row", "has 2 ports"),
    ]:
        with pytest.raises(DocumentError, match=words):
            plan(operators={"row": row(), "both": {"use": "joined", "from": given}}, sinks={"out": console("both")})  # fmt: skip


def test_a_guarantee_is_the_sum_of_its_path_with_a_reason_for_each_step_down():
    """Pass: levels, reasons and assumptions of three paths."""
    made = plan(
        sources={"lines": LINES, "radio": {"use": "radio"}},
        operators={"row": row()},
        sinks={
            "exact": {"use": "files", "from": "row", "with": {"path": "x", "format": "csv"}},
            "least": console("row", deliver="microbatch"),
            "none": console("radio", deliver="microbatch"),
        },
    )
    promises = {sink.name: sink.promise for sink in made.sinks()}
    assert [str(p.level) for p in promises.values()] == ["exactly-once", "at-least-once", "none"]
    assert promises["exact"].reasons == ()
    assert promises["none"].reasons == (
        "radio can lose events: it is radio",
        "radio can give an event twice: it is radio",
        "none: a batch that is retried after a failure is written again",
    )
    assert "radio: the sun is quiet" in promises["none"].assumptions
    assert any("row counts and drops" in text for text in promises["exact"].assumptions)


def test_only_a_node_that_can_refuse_rows_is_said_to_drop_them():
    """Pass: a step that refuses rows says so; `on_rejected` on a node without that output is a mistake."""
    made = plan(operators={"row": row()}, sinks={"out": console("row")})
    said = [text for text in made.sinks()[0].promise.assumptions if "drops the rows" in text]
    assert said == ["row counts and drops the rows it refuses (on_rejected: drop)"]
    sources = {"lines": {**LINES, "on_rejected": "drop"}}
    with pytest.raises(DocumentError, match="sources.lines.on_rejected: does nothing"):
        plan(sources=sources, operators={"row": row()}, sinks={"out": console("row")})


def test_a_cluster_on_this_machine_is_a_cluster():
    """Pass: `local` and `local[...]` are local, to the session and to all that shares files; nothing else is."""
    for master, local in (
        ("local", True),
        ("local[2]", True),
        ("local[*, 4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://far:7077", False),
    ):
        made = plan(
            spark={"master": master}, operators={"row": row()}, sinks={"out": console("row")}
        )
        assert made.local == local
        assert (made.shared() == {}) == local
        assert ("spark.sql.shuffle.partitions" in settings(made)) == local
        here = on_this_machine(made, {}).document.spark.master
        assert here == (master if local else "local[*]")


def test_require_is_a_gate_for_one_sink_or_all():
    """Pass: refused with the reason below the level, served at it."""
    parts = {"operators": {"row": row()}, "sinks": {"out": console("row", deliver="microbatch")}}
    plan(**parts, require="at-least-once")
    with pytest.raises(
        DocumentError, match="sink 'out' is at-least-once, not exactly-once: out: a batch"
    ):
        plan(**parts, require="exactly-once")


def test_the_strongest_delivery_is_chosen_and_a_weaker_one_warned_of():
    """Pass: left out, the strategy that promises most; named, an unfit one is refused."""
    made = plan(operators={"row": row()}, sinks={"out": console("row")})
    assert made.sinks()[0].delivery_word == "once"
    made = plan(operators={"row": row()}, sinks={"out": console("row", deliver="microbatch")})
    assert any("offers exactly-once by `deliver: once`" in text for text in made.warnings)
    files = {
        "use": "files",
        "from": "row",
        "with": {"path": "x", "format": "csv"},
        "deliver": "once",
    }
    with pytest.raises(DocumentError, match="needs the ability Transactional"):
        plan(operators={"row": row()}, sinks={"out": files})


class Firm(Once):
    """Promises as much, and assumes nothing, for rows that can be told apart."""

    capabilities = DeliveryCapabilities(needs_id=True)

    def promise(self, sink, shape):
        return Promise(grounds=("it is firm",))


def test_of_equally_strong_deliveries_the_one_that_assumes_least_is_chosen():
    """Pass: unless it needs ids and the rows have none; a changelog's rows need none."""
    registry = Extended()
    registry.words = sorted([*registry.words, Word("delivery", "firm", "tests", "1", "x")])
    registry._components["delivery", "tests:firm"] = Firm

    def chosen(stream, **operators):
        parts = {"sources": {"lines": LINES, "radio": {"use": "radio"}}, "operators": operators}
        whole = {"pipeline": "test", **parts, "sinks": {"out": console(stream)}}
        made = make_plan(whole, registry)
        return made.sinks()[0].delivery_word, made

    word, made = chosen("row", row=row())
    assert word == "firm"
    assert made.nodes["lines"].makes_id
    assert "    since out: it is firm" in as_text(made)
    assert as_json(made)["guarantees"][0]["grounds"] == ["out: it is firm"]
    assert chosen("radio")[0] == "once"
    changes = {"use": "changelog", "from": "row", "with": {"key": ["k"], "sequence": "n"}}
    word, made = chosen("changes", row=row(), changes=changes)
    assert word == "firm"
    assert not made.nodes["lines"].makes_id
    assert not made.nodes["changes"].makes_id


def test_the_plan_names_the_tests_that_have_shown_a_level():
    """Pass: for the source and for the sink by its delivery; nothing where nothing was shown."""
    with_files = {"use": "files", "from": "row", "with": {"path": "x", "format": "csv"}}
    made = plan(operators={"row": row()}, sinks={"out": with_files, "seen": console("row")})
    shown = {g["sink"]: {s["what"]: s for s in g["shown"]} for g in as_json(made)["guarantees"]}
    assert shown["out"].keys() == {"source files", "sink files by microbatch"}
    assert shown["out"]["sink files by microbatch"]["level"] == "exactly-once"
    assert shown["seen"].keys() == {"source files"}
    assert "sink files by microbatch is shown to be exactly-once by packages/core/" in as_text(made)


def test_what_will_hurt_later_is_warned_of():
    """Pass: unread rejected rows, growing state, a delay of 0, a node that nobody reads."""
    made = plan(
        operators={
            "row": {**DECODE, "from": "lines", "watermark": {"column": "at", "delay": "0 seconds"}},
            "counted": {"use": "counted", "from": "row"},
            "idle": {"use": "union", "from": "row"},
        },
        sinks={"out": console("counted")},
    )
    text = "\n".join(made.warnings)
    assert "nobody reads row.rejected, so the first row it refuses ends the run" in text
    assert "counted: its state grows without bound: by a key a day." in text
    assert "a watermark delay of 0" in text
    assert "idle: nobody reads it" in text
    dropped = plan(operators={"row": row()}, sinks={"out": console("row")})
    assert not any("rejected" in text for text in dropped.warnings)


def test_ids_are_made_where_an_identity_begins_and_only_if_somebody_needs_them():
    """Pass: reading rejected rows makes them at the source; state in between begins a new one."""

    def makers(made: Plan) -> list[str]:
        return [node.name for node in made.nodes.values() if node.makes_id]

    operators = {
        "row": row(),
        "some": {"use": "select", "from": "row", "with": {"where": "n > 1"}},
        "table": {"use": "changelog", "from": "some", "with": {"key": ["k"], "sequence": "n"}, "on_rejected": "drop"},
    }  # fmt: skip
    assert makers(plan(operators=operators, sinks={"out": console("table")})) == []
    sinks = {"out": console("table"), "bad": console("table.rejected")}
    assert makers(plan(operators=operators, sinks=sinks)) == ["lines"]


@pytest.mark.parametrize("step", [False, True], ids=["itself", "encoded"])
@pytest.mark.parametrize(
    ("stream", "makes"),
    [
        ("log.rejected", ["log"]),
        ("of_log.rejected", ["log"]),
        ("known.rejected", ["log"]),
        ("voice.rejected", None),
        ("of_voice.rejected", None),
        ("told.rejected", None),
        ("log.lost", None),
    ],
)
def test_refused_rows_are_told_apart_if_the_rows_that_came_in_are(stream, makes, step):
    """Pass: then ids are made where those begin and written by; else the sink is written to without them, and a
    problem if it is to be by them. Outputs without `_id`, and what a sink refused that uses none, have none."""
    operators = {
        "of_log": row("log"),
        "of_voice": row("voice"),
        "some": {"use": "encode", "from": stream, "with": {"format": "json"}},
    }
    sinks: dict[str, Any] = {
        "known": {"use": "book", "from": "of_log"},
        "told": console("of_log"),
        "bad": {"use": "book", "from": "some" if step else stream},
    }
    if stream != "known.rejected":
        del sinks["known"]  # which wants ids itself
    sources = {"log": {"use": "log"}, "voice": {"use": "voice"}}
    whole = {"sources": sources, "operators": operators, "sinks": sinks}
    made = plan(**whole)
    (bad,) = [sink for sink in made.sinks() if sink.name == "bad"]
    assert (bad.delivery_word, bad.needs_id) == (
        ("known", True) if makes else ("microbatch", False)
    )
    sinks["bad"]["deliver"] = "known"
    if makes:
        made = plan(**whole)
        assert [node.name for node in made.nodes.values() if node.makes_id] == makes
    else:
        with pytest.raises(DocumentError, match="needs a row's identity") as caught:
            plan(**whole)
        assert caught.value.problems[0].key == "sinks.bad.from"


def test_a_sink_is_asked_of_its_columns_when_the_document_is_planned():
    """Pass: columns that are missing or of a type that can't be held are problems, all at once, each with its
    option; nothing is said of a column whose type only Spark can know, nor of a changelog's own columns."""
    shown = {"path": "out", "format": "csv"}
    changes = {"key": ["k"], "sequence": "n"}
    operators = {
        "row": {**row(), "with": {"format": "json", "schema": "k STRING, n BIGINT, m MAP<STRING, INT>"}},
        "plain": {"use": "select", "from": "row", "with": {"columns": {"k": "k", "x": "upper(k)"}}},
        "table": {"use": "changelog", "from": "row", "with": changes, "on_rejected": "drop"},
    }  # fmt: skip

    def files(stream: str, **more: Any) -> dict[str, Any]:
        return {"use": "files", "from": stream, "with": {**shown, **more}}

    good = {
        "a": files("plain", partition_by=["x"]),
        "b": files("table", format="jsonlines", partition_by=["_change_type"]),
    }
    plan(operators=operators, sinks=good)
    bad = {
        "map": files("row"),
        "missing": files("plain", partition_by=["kk"]),
    }
    with pytest.raises(DocumentError) as caught:
        plan(operators=operators, sinks=bad)
    found = {each.key: (each.message, each.hint) for each in caught.value.problems}
    assert "csv can't hold column m, of type map<string,int>" in found["sinks.map.with.format"][0]
    assert found["sinks.missing.with.partition_by"][1] == "Did you mean 'k'?"


def test_event_time_follows_its_column_under_other_names():
    """Pass: a renamed column carries the watermark on, a computed one does not."""
    watermark = {"column": "at", "delay": "1 hour"}
    operators = {
        "row": row(watermark=watermark),
        "renamed": {"use": "select", "from": "row", "with": {"columns": {"time": "at"}}},
        "computed": {
            "use": "select",
            "from": "row",
            "with": {"columns": {"at": "at + INTERVAL 1 DAY"}},
        },
    }
    made = plan(operators=operators, sinks={"a": console("renamed"), "b": console("computed")})
    event_time = made.nodes["renamed"].shape.event_time
    assert (event_time.column, event_time.delay) == ("time", timedelta(hours=1))
    assert made.nodes["computed"].shape.event_time is None


def test_a_changelog_keeps_its_key_through_select():
    """Pass: leaving out or changing the key is refused."""
    operators = {
        "row": row(),
        "table": {"use": "changelog", "from": "row", "with": {"key": ["k"], "sequence": "n"}, "on_rejected": "drop"},
        "cut": {"use": "select", "from": "table", "with": {"columns": {"n": "n"}}},
    }  # fmt: skip
    with pytest.raises(DocumentError, match="key column 'k' must stay"):
        plan(operators=operators, sinks={"out": console("cut")})


def test_a_plan_is_shown_as_text_mermaid_and_json():
    """Pass: each form has nodes, queries, guarantee and warnings; JSON has a version."""
    made = plan(
        operators={"row": row(), "counted": {"use": "counted", "from": "row"}},
        sinks={"out": console("counted"), "bad": console("row.rejected")},
    )
    text = as_text(made)
    for words in ("query counted (anchor counted, append)", "row: decode <- lines", "out: exactly-once",
                  "as long as out: the ledger is kept", "warnings"):  # fmt: skip
        assert words in text
    mermaid = as_mermaid(made)
    assert mermaid.startswith("flowchart LR\n")
    assert "row -->|rejected| bad" in mermaid
    shown = as_json(made)
    assert shown["version"] == 1
    assert [node["name"] for node in shown["nodes"]] == list(made.nodes)
    assert shown["guarantees"][0]["level"] == "exactly-once"
    assert shown["queries"][0]["reads"] == {"lines": 1}


def test_a_sink_that_may_lose_promises_nothing_more():
    """Pass: whatever the strategy, the plan says what is lost and why; more can't be required."""
    made = plan(sinks={"out": {"use": "mouth", "from": "lines", "deliver": "microbatch"}})
    (out,) = made.sinks()
    assert out.promise.level == "none"
    assert "out: can lose rows: nobody listens" in out.promise.reasons
    with pytest.raises(
        DocumentError, match="sink 'out' is none, not at-least-once: .*nobody listens"
    ):
        plan(require="at-least-once", sinks={"out": {"use": "mouth", "from": "lines"}})


def test_what_one_strategy_takes_for_granted_is_told_with_that_strategy_alone():
    """Pass: the sink's condition for `once` is among its assumptions, and not with `microbatch`."""

    class Shelf(Mouth):
        capabilities = SinkCapabilities(assumptions_by={"once": ("the shelf stands",)})

    def assumed(word: str) -> str:
        registry = Extended()
        registry._components["sink", "tests:mouth"] = type("Console", (Shelf,), {})
        sinks = {"out": {"use": "mouth", "from": "lines", "deliver": word}}
        whole = {"pipeline": "test", "sources": {"lines": LINES}, "sinks": sinks}
        return as_text(make_plan(whole, registry))

    assert "as long as out: the shelf stands" in assumed("once")
    assert "as long as out: the shelf stands" in assumed("tests:once")
    assert "shelf" not in assumed("microbatch")
