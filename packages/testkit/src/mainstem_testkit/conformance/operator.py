"""The standard tests of operators.

What comes out must hang on the rows alone: not on how they were cut into batches and partitions, nor on
where the process died between. And no row may be gone in silence.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from mainstem import (
    Changelog,
    Column,
    Expressions,
    Inputs,
    Operator,
    Shape,
    StateFacts,
    Stateful,
    read_columns,
)
from mainstem.contracts.shapes import MESSAGE_COLUMNS, REJECTED
from mainstem.plan.identity import place
from mainstem.plan.model import Plan

from mainstem_testkit.conformance.examples import (
    HOUR,
    START,
    Row,
    drawn,
    grown,
    samples,
    try_out,
)
from mainstem_testkit.conformance.suite import Suite, not_claimed, not_given, proves

if TYPE_CHECKING:
    from mainstem.testing.trial import Trial
    from pyspark.sql import DataFrame

Rows = Mapping[str, Sequence[Row]]

_DAY = timedelta(days=1)
#: What stands before a row: a new batch, a new file in the batch, or nothing. Tried in this order.
_CUTS = ("batch", "nothing", "file", "nothing")


@dataclass(frozen=True)
class Course:
    """How rows come in: batch by batch the files for each port, and after which batches it crashes."""

    batches: Sequence[Mapping[str, Sequence[Sequence[Row]]]]
    crashes: Sequence[bool]

    @property
    def whole(self) -> Course:
        """The same rows in one batch, with one file for each port, and no crash."""
        rows: dict[str, list[Row]] = {}
        for batch in self.batches:
            for port, files in batch.items():
                rows.setdefault(port, []).extend(row for file in files for row in file)
        return Course([{port: [each] for port, each in rows.items()}], [False])


class OperatorSuite(Suite):
    """The standard tests of an operator.

    ```python
    class TestAggregate(OperatorSuite):
        use = "aggregate"
        inputs = {"input": "k STRING, at TIMESTAMP, v INT"}
        event_time = {"input": "at"}

        def options(self):
            window = {"on": "at", "tumbling": "10 minutes"}
            return {"by": ["k"], "window": window, "columns": {"n": "sum(v)"}}
    ```
    """

    kind: ClassVar[str] = "operator"
    #: What stands at each port: the DDL of columns; `messages`; or for a changelog, `columns` (its
    #: DDL) beside the options of the operator `changelog`: `key`, `sequence` and `delete`.
    inputs: ClassVar[Mapping[str, str | Mapping[str, Any]]] = {}
    #: The column that carries the watermark, for each port that has one.
    event_time: ClassVar[Mapping[str, str]] = {}
    #: The column whose value grows from row to row, for ports that need one; a changelog's sequence
    #: does so anyway.
    growing: ClassVar[Mapping[str, str]] = {}
    #: How many courses of rows, batches, files and crashes are tried.
    tries: ClassVar[int] = 2

    def examples(self, port: str) -> st.SearchStrategy[Any]:
        """Return a strategy for one row at a port: JSON values by column, times in the hour of `START`.

        When left out, each column has a few values, so that keys meet again. For messages better
        give some that the operator can read, and some that it can't.
        """
        full = self._always_full(port)
        values = {
            column.name: samples(column.type) + [None] * (column.name not in full)
            for column in self._columns(port)
        }
        return st.fixed_dictionaries({name: st.sampled_from(v) for name, v in values.items()})

    def parts(self, **changes: Any) -> dict[str, Any]:
        """Return a document that reads each port's rows from files and shows what comes out."""
        sources: dict[str, Any] = {}
        operators: dict[str, Any] = {}
        ports: dict[str, str] = {}
        for port, what in self.inputs.items():
            name = ports[port] = f"from_{port}"
            table = {} if isinstance(what, str) else dict(what)
            columns = table.pop("columns", what)
            read = {"format": "jsonlines", "schema": columns}
            if columns == "messages":
                read = {"format": "message"}
            sources[name] = {"use": "files", "with": {"path": "./in", **read}}
            if column := self.event_time.get(port):
                sources[name]["watermark"] = {"column": column, "delay": "1 hour"}
            if table:
                ports[port] = f"table_{port}"
                used = {"use": "changelog", "from": name, "with": table, "on_rejected": "drop"}
                operators[ports[port]] = used
        own = {**self.options(), **changes}
        operators["subject"] = {"use": self.use, "from": ports, "with": own}
        sinks = {"out": {"use": "console", "from": "subject"}}
        return {"sources": sources, "operators": operators, "sinks": sinks}

    # -- columns ----------------------------------------------------------------------------

    @proves("shape")
    def test_planning_needs_no_spark_and_always_gives_the_same(self) -> None:
        """Shape, outputs, state and expressions need no pyspark, and asking again changes nothing."""
        command = [sys.executable, "-c", _PLANNING, str(self.pipeline().file)]
        planned = subprocess.run(command, capture_output=True, text=True, check=False)
        assert planned.returncode == 0, f"can't be planned without pyspark:\n{planned.stderr}"
        inputs = _inputs(self.plan())
        for name in ("shape", "outputs", "state"):
            if ask := getattr(self.operator, name, None):
                first, again = ask(inputs), ask(inputs)
                assert first == again, f"{name} is {first}, and when asked again {again}"
        if isinstance(self.operator, Expressions):
            first, again = self.operator.expressions(), self.operator.expressions()
            assert first == again, f"expressions are {first}, and when asked again {again}"

    @proves("shape")
    def test_outputs_have_the_announced_columns_and_types(self) -> None:
        """Frames and rows are as announced, in streams and in batches, at the named outputs too."""
        plan = self.plan()
        for streaming in (True,) if self.stateful else (False, True):
            frame = self._applied(plan, self._frames(plan, {}, streaming=streaming))
            over = f"over {'streams' if streaming else 'batches'}"
            wrong = [f"{over}, {each}" for each in _misfits(plan, frame)]
            assert not wrong, "\n".join(wrong)
        with self._trial(plan) as trial:
            self._feed(trial, self._some(6))
            self._close(trial)
            for output, shape in _outputs(plan).items():
                for column in (c.name for c in shape.columns if not c.nullable):
                    nulls = [row for row in trial.rows(output) if row[column] is None]
                    assert not nulls, f"{output}: {column} is NOT NULL, but null in {nulls}"

    # -- rows -------------------------------------------------------------------------------

    @proves("batches")
    def test_batches_partitions_and_restarts_do_not_show(self) -> None:
        """However the input is cut, and wherever it crashes, the same rows (or table) come out."""
        outputs = _outputs(self.plan())
        tables = {
            output: shape
            for output, shape in outputs.items()
            if isinstance(shape, Changelog) and not (self._invariant and shape.sequence)
        }
        compared = outputs if self._invariant else tables
        if not compared:
            not_claimed("batch_invariant")

        came: dict[str, int] = dict.fromkeys(outputs, 0)

        def check(course: Course) -> None:
            whole, cut = self._play(course.whole), self._play(course)
            for output in outputs:
                came[output] += len(whole[output])
            for output in compared:
                as_told = partial(_table, tables[output]) if output in tables else list
                _same(output, as_told(whole[output]), as_told(cut[output]))

        self._each_course(self.tries, check)
        assert came["out"], f"of all examples no row came out: write `examples`; there were: {came}"

    @proves("identity")
    def test_each_row_has_an_id_of_its_own_that_stays(self) -> None:
        """Where rows have an identity no two have one `_id`, and no other batches change it."""
        plan = self.plan()
        if not _identify(plan):
            not_claimed("an identity of rows")
        shape = _outputs(plan)["out"]
        by_batch = isinstance(shape, Changelog) and not shape.sequence

        def check(course: Course) -> None:
            cut = self._play(course, identify=True)["out"]
            ids = [row["_id"] for row in cut]
            shared = [row for row in cut if row["_id"] is None or ids.count(row["_id"]) > 1]
            assert not shared, f"rows without an `_id` of their own: {shared}"
            if self._invariant and not by_batch:
                _same("out", self._play(course.whole, identify=True)["out"], cut)

        self._each_course(2, check)

    @proves("row_wise")
    def test_reserved_columns_pass_untouched(self) -> None:
        """A row-wise operator leaves `_id`, and columns it never heard of, to each row as they came."""
        if not self.operator.capabilities.row_wise:
            not_claimed("row_wise")
        plan = self.plan()
        came: dict[bytes, str] = {}
        rows = {} if self.stateful else self._some_and_odd(4)
        frames = self._frames(plan, rows, streaming=self.stateful, reserved=came)
        frame = self._applied(plan, frames)
        lost = {"_id": "binary", "_extra": "string"}.items() - dict(frame.dtypes).items()
        assert not lost, f"does not pass on {', '.join(sorted(name for name, _ in lost))}"
        if not self.stateful:  # the ids of rows that take a stream are another test's
            found = [(row["_id"], row["_extra"]) for row in frame.collect()]
            changed = [each for each in found if each not in came.items()]
            assert not changed, f"rows came out with other reserved columns: {changed}"
            assert len(set(found)) == len(found), f"rows were made several of: {sorted(found)}"

    @proves("keeps_rows")
    def test_each_row_comes_out_once(self) -> None:
        """As many rows come out, at the main output and the named ones, as went in."""
        if not self.operator.capabilities.keeps_rows:
            not_claimed("keeps_rows")
        rows, plan = self._some_and_odd(6), self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, rows)
            self._close(trial)
            out = {output: len(trial.rows(output)) for output in _outputs(plan)}
        count = sum(map(len, rows.values()))
        assert sum(out.values()) == count, f"{count} rows went in, and came out: {out}"

    @proves("odd values")
    def test_nulls_and_odd_text_do_not_end_the_run(self) -> None:
        """Rows of nulls, or of text that nobody expects, become rows or refused rows, not errors."""
        with self._trial(self.plan()) as trial:
            self._feed(trial, self._some_and_odd(2))
            self._close(trial)

    @proves("odd values")
    def test_nothing_comes_of_an_empty_batch(self) -> None:
        """A batch without rows is no error, and gives none."""
        plan = self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            self._close(trial)
            made = {output: rows for output in _outputs(plan) if (rows := trial.rows(output))}
        assert not made, f"rows came of nothing: {made}"

    # -- state and time ---------------------------------------------------------------------

    @proves("late rows")
    def test_no_late_row_is_lost_in_silence(self) -> None:
        """A row far behind the watermark comes out somewhere, or is counted as late.

        The rows come one by one: where Spark first sums up a task's rows by key, it counts what is
        late after that, so several late rows of one key count as one.
        """
        state, plan, silent = self._state_in_time(), self.plan(), []
        with self._trial(plan) as trial:

            def accounted() -> int:
                late = sum(facts["late_rows"] for facts in trial.facts)
                return int(late) + sum(len(trial.rows(output)) for output in _outputs(plan))

            self._feed(trial, self._some(4))
            to = self._close(trial)
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            trial.batch()  # what is late is told by the watermark of the batch before the last
            for port, column in self.event_time.items():
                for row in self._some(3)[port]:
                    late = {**row, column: (START - 2 * (state.holds + _DAY)).isoformat()}
                    before, to = accounted(), to + state.holds + _DAY
                    self._feed(trial, {port: [late]})
                    self._close(trial, to)
                    if accounted() == before:
                        silent.append(f"{port}: {late}")
        assert not silent, "late rows neither came out nor were counted:\n" + "\n".join(silent)

    @proves("state")
    def test_state_is_gone_once_time_has_passed(self) -> None:
        """Unless `grows` says why it stays, the watermark's passing by `holds` leaves no state."""
        state = self._state_in_time()
        if state.grows:
            not_claimed(f"state that shrinks: {state.grows}")
        with self._trial(self.plan()) as trial:
            self._feed(trial, self._some(6))
            self._close(trial)
            self._feed(trial, dict.fromkeys(self.inputs, ()))
            trial.batch()
            held = [facts["state_rows"] for facts in trial.facts]
            left = held[-1]
        assert max(held), "there never was any state"
        assert left == 0, f"{left} rows of state are left, and `StateFacts.grows` does not say why"

    @proves("state")
    def test_all_has_come_out_once_time_has_passed(self) -> None:
        """`holds` is long enough: when much more time passes, nothing more comes out."""
        state, plan = self._state_in_time(), self.plan()
        with self._trial(plan) as trial:
            self._feed(trial, self._some(6))
            to = self._close(trial)
            before = {output: trial.rows(output) for output in _outputs(plan)}
            self._close(trial, to + 30 * (state.holds + _DAY))
            for output, rows in before.items():
                _same(f"{output}, {state.holds} and much later", rows, trial.rows(output))

    # -- what is tested ---------------------------------------------------------------------

    @property
    def operator(self) -> Operator:
        """The operator, made as a document makes it."""
        assert isinstance(self.component, Operator)
        return self.component

    @property
    def stateful(self) -> bool:
        """Whether it keeps state, so that it is only given streams."""
        return isinstance(self.component, Stateful)

    @property
    def _invariant(self) -> bool:
        return self.operator.capabilities.batch_invariant

    def _state_in_time(self) -> StateFacts:
        """Return what the state is; end the test if there is none, or no time."""
        state = self.can(Stateful).state(_inputs(self.plan()))
        if not self.event_time:
            not_given("event_time")
        assert isinstance(state, StateFacts)
        return state

    def _columns(self, port: str) -> Sequence[Column]:
        what = self.inputs[port]
        if what == "messages":
            return MESSAGE_COLUMNS[:4]  # the others say where a message stood
        return read_columns(what if isinstance(what, str) else what["columns"])

    def _grows(self, port: str) -> str:
        what = self.inputs[port]
        return self.growing.get(port, "") if isinstance(what, str) else what["sequence"]

    def _always_full(self, port: str, *, odd: bool = False) -> set[str]:
        """Return the columns that are null in no example, or in no odd row either."""
        what = self.inputs[port]
        names = {column.name for column in self._columns(port) if not column.nullable}
        names |= {self._grows(port)} | set(() if isinstance(what, str) else what["key"])
        return names if odd else names | {self.event_time.get(port, "")}

    # -- example rows -----------------------------------------------------------------------

    def _numbered(self, port: str, rows: Sequence[Row]) -> list[Row]:
        """Return rows with the values of their growing column."""
        name = self._grows(port)
        kinds = {column.name: column.type or "" for column in self._columns(port)}
        return [
            {**row, **({name: grown(kinds[name], n)} if name else {})} for n, row in enumerate(rows)
        ]

    def _some(self, count: int) -> dict[str, list[Row]]:
        """Return up to so many example rows for each port, always the same ones."""
        return {
            port: self._numbered(port, drawn(count, self.examples(port))) for port in self.inputs
        }

    def _some_and_odd(self, count: int) -> Rows:
        """Return example rows, and for each port a row of nulls and one of odd text."""
        rows = {}
        for port, some in self._some(count).items():
            full, columns = self._always_full(port, odd=True), self._columns(port)
            first: Row = {column.name: samples(column.type)[0] for column in columns}
            text = {c.name: "\0 é" for c in columns if c.type in ("string", "binary")}
            nulls = dict.fromkeys(first)
            odd = [
                {**first, **{n: v for n, v in new.items() if n not in full}}
                for new in (nulls, text)
            ]
            rows[port] = self._numbered(port, [*some, *odd])
        return rows

    def _each_course(self, tries: int, check: Callable[[Course], None]) -> None:
        @st.composite
        def courses(draw: st.DrawFn) -> Course:
            cut: dict[str, list[list[list[Row]]]] = {}
            for port in self.inputs:
                batches = cut[port] = [[[]]]
                rows = draw(st.lists(self.examples(port), min_size=3, max_size=6))
                for row in self._numbered(port, rows):
                    match draw(st.sampled_from(_CUTS)):
                        case "batch":
                            batches.append([[]])
                        case "file":
                            batches[-1].append([])
                    batches[-1][-1].append(row)
            numbers = range(max(map(len, cut.values())))
            crashes = [draw(st.sampled_from((True, False))) for _ in numbers]
            return Course(
                [{port: b[n] for port, b in cut.items() if n < len(b)} for n in numbers], crashes
            )

        try_out(tries, courses(), check)

    # -- trials -----------------------------------------------------------------------------

    @contextmanager
    def _trial(self, plan: Plan) -> Iterator[Trial]:
        """Try a plan out, and keep the rows of all the subject's outputs."""
        from mainstem.run.session import start
        from mainstem.testing.trial import Trial

        named = [output for output in _outputs(plan) if output != "out"]
        with Trial(plan, self._folder(), start(plan), named) as trial:
            yield trial

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.place))

    def _feed(self, trial: Trial, rows: Rows) -> None:
        for port, each in rows.items():
            trial.feed(f"from_{port}", each)

    def _close(self, trial: Trial, to: datetime | None = None) -> datetime:
        """Run what was fed, and move time past all examples, or to where it is told."""
        state = self.plan().nodes["subject"].state
        to = to or START + HOUR + (state.holds if state else _DAY) + timedelta(milliseconds=1)
        for port in self.event_time:
            trial.advance(f"from_{port}", to)
        trial.batch()
        return to

    def _play(self, course: Course, *, identify: bool = False) -> dict[str, list[Row]]:
        """Run a course to its end; return the rows of each output, with `_id` if asked."""
        plan = self.plan()
        if identify:
            _identify(plan)
        with self._trial(plan) as trial:
            for batch, crash in zip(course.batches, course.crashes, strict=True):
                for port, files in batch.items():
                    for file in files:
                        trial.feed(f"from_{port}", file)
                trial.batch()
                if crash:
                    trial.crash()
            self._close(trial)
            found: dict[str, list[Row]] = {}
            for output, shape in _outputs(plan).items():
                moment = {"at"} if shape == REJECTED else set()  # when it was refused
                found[output] = [
                    {name: value for name, value in row.items() if name not in moment}
                    for row in trial.rows(output)
                ]
            return found

    # -- frames -----------------------------------------------------------------------------

    def _frames(
        self,
        plan: Plan,
        rows: Rows,
        *,
        streaming: bool,
        reserved: dict[bytes, str] | None = None,
    ) -> Inputs[DataFrame]:
        """Return frames for the ports.

        Args:
            reserved: asks for the columns `_id` and `_extra`, and is filled with their values.
        """
        from mainstem.run.session import start
        from mainstem.testing.stand_ins import Given
        from pyspark.sql import functions as F  # noqa: N812

        spark = start(plan)
        frames: Inputs[DataFrame] = Inputs()
        for port, shape in _inputs(plan).items():
            real: Any = SimpleNamespace(shape=lambda s=shape: replace(s, identity=()))
            real.capabilities = None
            source = Given(port, real, self._folder())
            source.feed([_as_change(shape, row) for row in rows.get(port, ())])
            reader: Any = spark.readStream.name(f"from_{port}") if streaming else spark.read
            context: Any = SimpleNamespace(reader=lambda r=reader: r)
            frame = source.load(context)
            if reserved is not None and streaming:
                frame = frame.withColumns({"_id": F.lit(b"1"), "_extra": F.lit("1")})
            elif reserved is not None:
                known = {f"{port} {n}".encode(): row for n, row in enumerate(frame.collect())}
                reserved |= {each: f"of {each.decode()}" for each in known}
                schema = frame.schema.add("_id", "binary").add("_extra", "string")
                values = [(*row, each, reserved[each]) for each, row in known.items()]
                frame = spark.createDataFrame(values, schema)
            if streaming and shape.event_time:
                frame = frame.withWatermark(shape.event_time.column, "1 hour")
            frames[port] = frame
        return frames

    def _applied(self, plan: Plan, frames: Inputs[DataFrame]) -> DataFrame:
        """Return what the operator makes of frames, with each of its outputs wanted."""
        from mainstem.run.frames import check_streaming

        node = plan.nodes["subject"]
        context: Any = SimpleNamespace(
            node=node.name,
            spark=next(iter(frames.values())).sparkSession,
            wanted=frozenset(node.outputs),
            folder=self._folder,
        )
        frame = node.operator.apply(frames, context)
        if frame.isStreaming:
            check_streaming(frame, node.state.output_mode if node.state else "append")
        return frame


def _as_change(shape: Shape, row: Row) -> Row:
    if not isinstance(shape, Changelog):
        return row
    version = row[shape.sequence or ""]
    return {**row, "_change_type": "update_postimage", "_commit_version": version}


def _inputs(plan: Plan) -> Inputs[Shape]:
    """Return the shapes at the subject's ports."""
    ports = plan.nodes["subject"].inputs
    return Inputs({port: plan.shape(stream) for port, (stream,) in ports.items()})


def _outputs(plan: Plan) -> dict[str, Shape]:
    """Return the shapes of the subject's outputs, by the names under which a trial keeps them."""
    node = plan.nodes["subject"]
    assert node.shape is not None
    return {"out": node.shape, **{f"subject.{name}": each for name, each in node.outputs.items()}}


def _identify(plan: Plan) -> bool:
    """Give the sink `_id`; whether the rows have an identity to make it of."""
    problems: list[str] = []
    plan.sinks()[0].needs_id = True
    place(plan.nodes, lambda message, *_, **__: problems.append(message))
    return not problems


def _misfits(plan: Plan, frame: DataFrame) -> list[str]:
    """Return how a frame of the subject differs from what was announced."""
    node, shape, found = plan.nodes["subject"], _outputs(plan)["out"], dict(frame.dtypes)
    announced = {column.name: column.type for column in shape.columns}
    if isinstance(shape, Changelog):
        announced["_change_type"] = "string"
        if sequence := shape.column(shape.sequence or ""):
            announced |= {"_commit_version": sequence.type, "_commit_timestamp": "timestamp"}
    if node.outputs:
        announced["_output"] = "string"
    visible = {n: kind for n, kind in found.items() if n in announced or not n.startswith("_")}
    lines = _differences("the main output", announced, visible)
    for name, other in node.outputs.items():
        kinds = {column.name: column.type for column in other.columns}
        if other == REJECTED:
            kinds = {"reason": "string", "payload": "binary"}
        inside = frame.select(f"_{name}.*").dtypes if f"_{name}" in found else ()
        lines += _differences(f"the output {name}", kinds, dict(inside))
    return lines


def _differences(
    what: str, announced: Mapping[str, str | None], found: Mapping[str, str]
) -> list[str]:
    lines = []
    for name in sorted(announced.keys() | found.keys()):
        told, there = announced.get(name, "nothing"), found.get(name, "nothing")
        same = there != "nothing" if told is None else there == told.replace("`", "")
        if not same:
            lines.append(f"{what}: column {name} is {there}, announced was {told or 'any type'}")
    return lines


def _table(shape: Changelog, changes: Sequence[Row]) -> list[Row]:
    """Return the table that changes make."""
    last: dict[str, Row] = {}
    for row in sorted(changes, key=lambda row: row["_commit_version"]):
        if row["_change_type"] != "update_preimage":
            last[repr([row[name] for name in shape.key])] = row
    there = [row for row in last.values() if row["_change_type"] != "delete"]
    return [{name: row[name] for name in shape.names} for row in there]


def _same(output: str, expected: Sequence[Row], found: Sequence[Row]) -> None:
    from mainstem.testing.comparing import differences

    missing, unexpected = differences(expected, found)
    lines = [f"  missing: {dict(row)}" for row in missing]
    lines += [f"  not expected: {dict(row)}" for row in unexpected]
    assert not lines, f"{output}: the rows differ:\n" + "\n".join(lines)


_PLANNING = """
import sys
sys.modules["pyspark"] = None
from mainstem.plan.making import make_plan
component = make_plan(sys.argv[1]).nodes["subject"].component
if hasattr(component, "expressions"):
    component.expressions()
"""
