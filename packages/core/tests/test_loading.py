"""What is loaded first: phases from the graph, how the plan tells them, what a checkpoint says of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mainstem import Accepts, Events, Operator, Options, StateFacts
from mainstem.contracts.abilities import LoadedFirst, Stateful
from mainstem.contracts.ability import abilities
from mainstem.discovery import Word
from mainstem.durable import read_whole, write_whole
from mainstem.errors import DocumentError, PipelineError, PluginError
from mainstem.history import History
from mainstem.plan.build import make_plan
from mainstem.plan.model import Plan
from mainstem.plan.rendering import as_json, as_text
from mainstem.plan.replay import replay_plan
from mainstem.registry import Registry
from mainstem.run.bootstrap import Loading, Waiting


class NoOptions(Options):
    """None."""


class Stateless(Operator, LoadedFirst):
    """Wants its table first, and keeps nothing."""

    options: NoOptions
    ports = {"stream": Accepts(), "table": Accepts()}

    def shape(self, inputs):
        return Events("k STRING, n BIGINT, at TIMESTAMP", identity=["n"])

    def loaded_first(self):
        return frozenset({"table"})

    def apply(self, inputs, ctx):
        raise NotImplementedError


class Look(Stateless, Stateful):
    """Keeps a table."""

    def state(self, inputs):
        return StateFacts(version=1)


class Plain(Operator):
    """Needs nothing first."""

    options: NoOptions

    def shape(self, inputs):
        return inputs.only

    def apply(self, inputs, ctx):
        raise NotImplementedError


class Wrong(Look):
    """Names a port that it does not have."""

    def loaded_first(self):
        return frozenset({"tabel"})


MADE = {"look": Look, "stateless": Stateless, "wrong": Wrong}


class Extended(Registry):
    """What the core brings, and the operators above."""

    def __init__(self) -> None:
        own = [Word("operator", word, "tests", "1", "x") for word in MADE]
        super().__init__([w for w in Registry().words if w.distribution == "mainstem"] + own)
        for word in own:
            self._components[word.kind, f"tests:{word.name}"] = MADE[word.name]


def source(**more: Any) -> dict[str, Any]:
    schema = "k STRING, n BIGINT, at TIMESTAMP"
    return {"use": "files", "with": {"path": "in", "format": "jsonlines", "schema": schema}, **more}


def look(stream: Any, table: Any, use: str = "look") -> dict[str, Any]:
    return {"use": use, "from": {"stream": stream, "table": table}}


def plan(operators: dict[str, Any], sources: Any = "s t u v", **parts: Any) -> Plan:
    whole = {
        "pipeline": "test",
        "sources": {n: source() for n in sources.split()} if isinstance(sources, str) else sources,
        "operators": operators,
        "sinks": {"sink": {"use": "console", "from": "out"}},
        **parts,
    }
    return make_plan(whole, Extended())


@pytest.mark.parametrize(
    ("operators", "loads"),
    [
        ({"out": look("s", "t")}, [["t"]]),
        ({"out": look("s", ["t", "u"])}, [["t", "u"]]),
        ({"in": look("s", "t"), "out": look("in", "u")}, [["t", "u"]]),
        ({"in": look("s", "t"), "out": look("u", "in")}, [["t"], ["s"]]),
        ({"a": look("s", "t"), "b": look("u", "v"), "out": look("a", "b")}, [["t", "v"], ["u"]]),
        ({"out": look("s", "s")}, [["s__2"]]),
        ({"in": look("s", "t"), "out": look("s", "in")}, [["t"], ["s__2"]]),
        ({"c": {"use": "select", "from": "t", "with": {"where": "n > 1"}}, "out": look("s", "c")}, [["t"]]),
    ],
)  # fmt: skip
def test_what_ports_need_first_decides_the_phases(operators, loads):
    """Pass: each read comes after all that an operator on its way needs first; the rest is last."""
    (query,) = plan(operators).queries
    assert [list(reads) for reads in query.loads] == loads


def test_a_stream_without_a_table_is_loaded_in_no_phase():
    """Pass: one phase names nobody."""
    (query,) = plan({"out": {"use": "select", "from": "s", "with": {"where": "n > 1"}}}).queries
    assert query.loads == ()


def test_who_says_what_is_loaded_first_has_the_ability():
    """Pass: `mainstem plugins show` lists it, of such operators alone."""
    assert "LoadedFirst" in abilities(Look)
    assert "LoadedFirst" not in abilities(Plain)


def test_the_plan_tells_the_phases():
    """Pass: in text by number, in JSON by query."""
    made = plan({"in": look("s", "t"), "out": look("u", "in")})
    text = as_text(made)
    assert "1. loads t, to the end as of the start" in text
    assert "2. then loads s, to the end as of the start" in text
    assert "3. then u begins, and all go on" in text
    assert as_json(made)["queries"][0]["loads"] == [["t"], ["s"]]


def test_a_step_without_state_can_not_have_its_inputs_loaded_first():
    """Pass: an error at the node, where both of its inputs come out of one batch."""
    with pytest.raises(
        DocumentError, match="wants table loaded before its other inputs"
    ) as failure:
        plan({"out": look("s", "s", use="stateless")})
    assert "operators.out.from" in str(failure.value)


def test_a_port_that_is_not_there_is_the_plugins_bug():
    """Pass: the error names distribution and port."""
    with pytest.raises(PluginError, match="tests wants tabel loaded first.*bug of tests"):
        plan({"out": look("s", "t", use="wrong")})


def watermarked(delay: str = "1 minute", **more: Any) -> dict[str, Any]:
    return source(watermark={"column": "at", "delay": delay, **more})


def test_a_table_that_may_be_silent_is_warned_of():
    """Pass: a warning for a watermark of a table's, none with `idle_after` or in a bounded run."""
    operators = {"out": look("s", "t")}
    stalls = "t: after each start the query out waits for its next row"
    sources = {"s": watermarked(), "t": watermarked()}
    made = plan(operators, sources)
    assert [text for text in made.warnings if text.startswith(stalls)]
    bounded = plan(operators, sources, trigger={"available_now": True})
    assert not [text for text in bounded.warnings if stalls in text]
    sources = {"s": watermarked(), "t": watermarked(idle_after="1 minute")}
    made = plan(operators, sources)
    assert not [text for text in made.warnings if stalls in text]
    assert "watermark at - 1 minute, idle after 1 minute" in as_text(made)


def test_an_only_watermark_has_none_to_go_on_with():
    """Pass: `idle_after` on the only watermark of a query is warned of."""
    sources = {"s": source(), "t": watermarked(idle_after="1 minute")}
    made = plan({"out": look("s", "t")}, sources)
    assert any("t: `idle_after` does nothing" in text for text in made.warnings)


def test_a_replay_from_a_time_reads_the_table_whole():
    """Pass: the stream begins at the time, the table at its start; one source for both is refused."""
    shadow = {"use": "console", "from": "out", "query": "replay"}
    sinks = {"sink": {"use": "console", "from": "out"}, "shadow": shadow}
    made = plan({"out": look("s", "t")}, sinks=sinks)
    replayed = replay_plan(made, "out", "2026-01-01T00:00:00Z", {"sink": "shadow"})
    since = {name: replayed.nodes[name].source._since for name in "st"}
    assert since["t"] is None
    assert since["s"].year == 2026
    assert replayed.queries[0].loads == (("t",),)
    made = plan({"out": look("s", "s")}, sinks=sinks)
    with pytest.raises(PipelineError, match="s: it is read twice.*replay from `earliest`"):
        replay_plan(made, "out", "2026-01-01T00:00:00Z", {"sink": "shadow"})


@pytest.fixture
def begin(tmp_path):
    """Return what gives the record of a plan's only query, with so many batches planned and done."""

    def make(operators, planned=0, done=0):
        for folder, count in (("offsets", planned), ("commits", done)):
            (tmp_path / folder).mkdir(exist_ok=True)
            for old in (tmp_path / folder).iterdir():
                old.unlink()
            for number in range(count):
                (tmp_path / folder / str(number)).write_text("v2\n{}\n")
        made = plan(operators)
        return Loading(made, made.queries[0], History(tmp_path))

    return make


def phase(loading):
    found = loading.phase()
    return found and (found.number, found.of, set(found.reads), found.new)


TABLE_OF_A_TABLE = {"in": look("s", "t"), "out": look("u", "in")}


def test_each_phase_reads_what_the_ones_before_it_read_too(begin):
    """Pass: one phase after the other, each only until it is written down; then the whole query."""
    loading = begin(TABLE_OF_A_TABLE)
    assert phase(loading) == (1, 3, {"t"}, ("t",))
    assert phase(loading) == (1, 3, {"t"}, ("t",))
    assert loading.sources() == {"s", "t"}
    loading.done(loading.phase())
    loading = begin(TABLE_OF_A_TABLE, planned=4, done=4)
    assert phase(loading) == (2, 3, {"s", "t"}, ("s",))
    loading.done(loading.phase())
    assert loading.phase() is None
    assert loading.sources() == set()


def test_a_source_that_comes_later_is_the_only_new_one(begin):
    """Pass: its phase reads the others of the table too; what they have is not forgotten."""
    loading = begin({"out": look("s", "t")}, planned=1, done=1)
    loading.done(loading.phase())
    loading = begin({"out": look("s", ["t", "u"])}, planned=5, done=5)
    assert phase(loading) == (1, 2, {"t", "u"}, ("u",))
    loading.done(loading.phase())
    assert {read: facts["batch"] for read, facts in record(loading).items()} == {"t": 0, "u": 4}
    assert begin({"out": look("s", ["t", "u"])}, planned=5, done=5).phase() is None


def test_who_is_taken_back_behind_the_end_of_a_phase_loads_again(begin):
    """Pass: at the last batch of the phase it is loaded, before that it is not."""
    operators = {"out": look("s", "t")}
    loading = begin(operators, planned=4, done=4)
    loading.done(loading.phase())
    assert begin(operators, planned=9, done=9).phase() is None
    assert begin(operators, planned=4, done=4).phase() is None
    assert phase(begin(operators, planned=3, done=3)) == (1, 2, {"t"}, ("t",))


def test_a_batch_that_was_planned_and_not_finished_is_in_hand(begin):
    """Pass: told by the numbers of offsets and commits, also before the first batch is done."""
    operators = {"out": look("s", "t")}
    assert not begin(operators).in_hand()
    assert begin(operators, planned=1).in_hand()
    assert begin(operators, planned=3, done=2).in_hand()
    assert not begin(operators, planned=3, done=3).in_hand()


@pytest.mark.parametrize("text", ["{", "[]", '{"t": 3}', '{"t": {"batch": "x"}}'])
def test_a_record_that_can_not_be_read_is_told(begin, tmp_path, text):
    """Pass: the error names the file; nothing is taken for loaded."""
    write_whole(tmp_path / "loaded.json", text)
    with pytest.raises(PipelineError, match=r"loaded\.json can't be read"):
        begin({"out": look("s", "t")}).phase()


def record(loading):
    return json.loads(read_whole(loading._file))


def test_only_control_rows_of_what_is_loaded_come_while_it_is(tmp_path, monkeypatch):
    """Pass: those of the table come; those of the stream, and of a node made of both, come with its rows."""
    sources = {"s": watermarked(), "t": watermarked()}
    columns = {"k": "k", "n": "n", "at": "at"}
    made = plan({"out": look("s", "c"), "c": {"use": "select", "from": "t", "with": {"columns": columns}}}, sources)  # fmt: skip
    (query,) = made.queries
    monkeypatch.setattr(Waiting, "_instead", lambda self, streams, frame: streams)
    phase = Loading(made, query, History(tmp_path)).phase()

    class Place:
        path = tmp_path

        def query(self, name):
            return tmp_path

    waiting = Waiting(made, query, phase, None, Place())
    assert waiting.control("t", "t__control", "rows") == "rows"
    assert waiting.control("c", "c__control", "rows") == "rows"
    assert waiting.control("s", "s__control", "rows") == ["s__control"]
    assert waiting.control("out", "out__control", "rows") == ["out__control"]
    assert waiting.read("t", "rows") == "rows"
    assert waiting.read("s", "rows") == ["s"]


def test_what_a_source_reads_beside_stands_still_with_it(tmp_path, monkeypatch, begin):
    """Pass: a stream that had begun is known by all its names; other reads and controls are not among them."""
    operators = {"out": look("s", "t")}
    phase = begin(operators).phase()
    made = plan(operators)
    names = ("s", "s__lost", "s__control", "s__2", "t", "sx__lost")
    lines = [f'{name}:{{"n": 1}}' for name in names]
    (tmp_path / "offsets" / "0").write_text("\n".join(["v2", "{}", *lines]) + "\n")
    (tmp_path / "commits" / "0").write_text("v1\n{}\n")
    monkeypatch.setattr(Waiting, "_instead", lambda self, streams, frame: streams)

    class Place:
        path = tmp_path

        def query(self, name):
            return tmp_path

    assert Waiting(made, made.queries[0], phase, None, Place()).read("s", "rows") == [
        "s",
        "s__lost",
    ]
