"""How the suite of operators tries one out: a document on stand-ins, fed as a course of rows goes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from hypothesis import strategies as st
from mainstem import Changelog, Inputs, Operator, Shape, StateFacts, Stateful
from mainstem.columns import Column, read_columns
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
from mainstem_testkit.conformance.suite import Suite, not_given

if TYPE_CHECKING:
    from mainstem.testing.trial import Trial
    from pyspark.sql import DataFrame

Rows = Mapping[str, Sequence[Row]]

DAY = timedelta(days=1)
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


class TryingSuite(Suite):
    """What the standard tests of operators feed, run and read."""

    kind: ClassVar[str] = "operator"
    #: What stands at each port: the DDL of columns; `messages`; or for a changelog, `columns` (its
    #: DDL) beside the options of the operator `changelog`: `key`, `sequence` and `delete`.
    inputs: ClassVar[Mapping[str, str | Mapping[str, Any]]] = {}
    #: The column that carries the watermark, for each port that has one.
    event_time: ClassVar[Mapping[str, str]] = {}
    #: The column whose value grows from row to row, for ports that need one; a changelog's sequence
    #: does so anyway.
    growing: ClassVar[Mapping[str, str]] = {}
    #: Columns of a table that say in which batch a row came, and so hang on the batches.
    by_batch: ClassVar[Sequence[str]] = ()
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
        state = self.can(Stateful).state(inputs_of(self.plan()))
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

        named = [output for output in outputs_of(plan) if output != "out"]
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
        to = to or START + HOUR + (state.holds if state else DAY) + timedelta(milliseconds=1)
        for port in self.event_time:
            trial.advance(f"from_{port}", to)
        trial.batch()
        return to

    def _play(self, course: Course, *, identify: bool = False) -> dict[str, list[Row]]:
        """Run a course to its end; return the rows of each output, with `_id` if asked."""
        plan = self.plan()
        if identify:
            give_ids(plan)
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
            for output, shape in outputs_of(plan).items():
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
        for port, shape in inputs_of(plan).items():
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
            timed=frozenset(),
            node=node.name,
            spark=next(iter(frames.values())).sparkSession,
            wanted=frozenset(node.outputs),
            shapes=node.shapes,
            behind=lambda time: time.isNull() & time.isNotNull(),  # nothing is late here
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


def inputs_of(plan: Plan) -> Inputs[Shape]:
    """Return the shapes at the subject's ports."""
    ports = plan.nodes["subject"].inputs
    return Inputs({port: plan.shape(stream) for port, (stream,) in ports.items()})


def outputs_of(plan: Plan) -> dict[str, Shape]:
    """Return the shapes of the subject's outputs, by the names under which a trial keeps them."""
    node = plan.nodes["subject"]
    assert node.shape is not None
    return {"out": node.shape, **{f"subject.{name}": each for name, each in node.outputs.items()}}


def give_ids(plan: Plan) -> bool:
    """Give the sink `_id`; whether the rows have an identity to make it of."""
    problems: list[str] = []
    plan.sinks()[0].needs_id = True
    place(plan.nodes, lambda message, *_, **__: problems.append(message))
    return not problems
