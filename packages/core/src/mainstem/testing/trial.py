"""A document tried out on stand-ins: rows and time come from the test, batch by batch."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.contracts.abilities import Recorded
from mainstem.contracts.components import Operator
from mainstem.document.model import Trigger
from mainstem.errors import OptionError, PipelineError
from mainstem.observation.reporter import Silent
from mainstem.observation.samples import Samples
from mainstem.plan.derive import derive
from mainstem.plan.model import Plan, SinkNode, Stream
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.runner import Run
from mainstem.testing import checking
from mainstem.testing.stand_ins import Kept, standing_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Trial:
    """A plan whose sources give what they are fed, and whose sinks keep what they get.

    Operators, watermarks, state and checkpoint are Spark's own. The queries run while `batch` is
    called and are ended between, so that each batch begins as after a restart. Use it in a `with`.

    Args:
        plan: of the document.
        folder: for the checkpoint and what is fed; empty.
        spark: the session; see `mainstem.run.session.start`.
        outputs: what to keep beside what reaches the sinks: `node` or `node.output`.
        answers: what external systems answer, by the node that asks; without it, they are asked.
        show_rows: whether errors may hold the content of rows; a run's do not, unless it is asked to.

    Attributes:
        facts: what each finished batch of each query reported, oldest first.
        samples: what batches leave of their rows for who looks.

    Raises:
        PipelineError: the plan has no such output, or what a node is answered is not said, or has
            other columns.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        spark: SparkSession,
        outputs: Sequence[str] = (),
        *,
        answers: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        show_rows: bool = False,
    ) -> None:
        self.samples = Samples(show_rows=show_rows)
        self._given = checking.stand_ins(plan, folder / "given")
        self._kept: dict[str, Kept] = {}
        sinks = [standing_in(sink, self._keep(sink)) for sink in plan.sinks() if not sink.shadow]
        for output in outputs:
            _check("sink or output", output, checking.outputs(plan))
            if output not in self._kept:
                sinks.append(self._at(plan, output))
        self._plan = derive(
            plan,
            sinks,
            checkpoint=folder / "checkpoints",
            components={**self._given, **({} if answers is None else _answered(plan, answers))},
            trigger=Trigger(available_now=True),
            scripted=True,
        )
        self.facts: list[Mapping[str, Any]] = []
        self._reporter = _Collect(self.facts)
        self._checkpoint = Checkpoint(self._plan)
        self._spark = spark
        self._run: Run | None = None

    def __enter__(self) -> Trial:
        self._checkpoint.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._checkpoint.__exit__(*problem)

    def feed(self, source: str, rows: Sequence[Any]) -> None:
        """Give a source rows for the next batch: mappings of its columns, or values of messages.

        Args:
            source: its name, or `name.output`.

        Raises:
            PipelineError: there is no such source, or it has no such column.
        """
        _check("source", source, checking.feeds(self._given))
        name, _, output = source.partition(".")
        self._given[name].feed(rows, output)

    def advance(self, node: str, to: datetime) -> None:
        """Move a node's watermark to a time with the next batch, if it is not beyond it.

        Raises:
            PipelineError: there is no such node, or it has no watermark.
        """
        _check("node with a watermark", node, checking.timed(self._plan))
        when = checking.in_utc(to)
        for query in self._running().queries:
            query.watermarks().advance(node, when)

    def crash(self) -> None:
        """Take back the commit of each query's last batch, as a crash before it would."""
        for query in self._running().queries:
            last = query.history.last()
            for name in (f"{last}", f".{last}.crc"):
                (query.history.folder / "commits" / name).unlink(missing_ok=True)

    def batch(self) -> None:
        """Run the queries until all that was fed has been read.

        Raises:
            MainstemError: what went wrong.
        """
        self._running().once()

    def rows(self, output: str) -> list[dict[str, Any]]:
        """Return the rows that reached a sink or an output so far, as JSON values."""
        return self._kept[output].rows()

    def _running(self) -> Run:
        if self._run is None:
            stop = threading.Event()
            self._run = Run(
                self._plan, self._spark, self._checkpoint, self._reporter, stop, self.samples
            )
            self._run.prepare()
        return self._run

    def _keep(self, sink: SinkNode) -> Kept:
        return self._kept.setdefault(sink.name, Kept(sink.sink))

    def _at(self, plan: Plan, output: str) -> SinkNode:
        """Return a sink for what a node gives."""
        name, _, named = output.partition(".")
        self._kept[output] = Kept()
        stream = Stream(name, named)
        made = SinkNode(
            f"expected__{name}_{named}".strip("_"), "sink", "kept", "mainstem", self._kept[output],
            {"input": (stream,)},
        )  # fmt: skip
        made.shape = plan.shape(stream)
        return standing_in(made, self._kept[output])  # type: ignore[no-any-return]


class _Collect(Silent):
    def __init__(self, facts: list[Mapping[str, Any]]) -> None:
        self._facts = facts

    def batch(self, facts: Mapping[str, Any]) -> None:
        self._facts.append(facts)


def _answered(
    plan: Plan, answers: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Operator]:
    """Return what takes the place of each operator that asks an external system."""
    asking = checking.asking(plan)
    found: dict[str, Operator] = {}
    for name in dict.fromkeys((*answers, *asking)):
        try:
            if name not in answers:
                raise checking.unanswered(name)
            found[name] = checking.answered(name, answers[name], asking)
        except OptionError as error:
            raise PipelineError(f"answers, {name}: {error}. {error.hint}".strip()) from None
    for name, node in plan.written.items():
        whole = found.get(node.step_of)
        if isinstance(whole, Recorded) and (first := whole.recorded()) is not None:
            found[name] = first
    return found


def _check(what: str, name: str, among: Sequence[str]) -> None:
    try:
        checking.known(what, name, among)
    except OptionError as error:
        raise PipelineError(f"{error}. {error.hint}") from None
