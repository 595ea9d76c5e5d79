"""Runs the tests of a document, without any of its real systems."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.document.model import Trigger
from mainstem.errors import MainstemError, PipelineError, nearest
from mainstem.plan.deriving import derive, on_this_machine
from mainstem.plan.making import make_plan
from mainstem.plan.model import Plan, SinkNode, Stream
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.runner import Run
from mainstem.run.session import start
from mainstem.run.showing import Silent
from mainstem.testing.comparing import Row, differences
from mainstem.testing.model import Case, Step, read_tests
from mainstem.testing.stand_ins import Given, Kept, standing_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For a session that is small and quick to start.
_QUICK: Mapping[str, str | int | float | bool] = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 1,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@dataclass(frozen=True)
class Difference:
    """Where the rows of a sink or an output are not those expected."""

    output: str
    missing: list[Row]
    unexpected: list[Row]


@dataclass
class Result:
    """How a test ended: it passed if there is no difference and no error."""

    name: str
    seconds: float = 0.0
    differences: list[Difference] = field(default_factory=list)
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether all came out as expected."""
        return not self.differences and not self.error


def run_tests(file: Path, only: str = "") -> Iterator[Result]:
    """Run the tests in a file, one after another in one Spark session; yield each result.

    Args:
        file: the file of tests.
        only: run the tests alone whose names contain this.

    Raises:
        DocumentError: the file or the document is wrong.
    """
    tests, document = read_tests(file)
    with _environment(tests.env):
        plan = on_this_machine(make_plan(document), _QUICK)
        spark: SparkSession | None = None
        for name, case in tests.tests.items():
            if only not in name:
                continue
            spark = spark or start(plan)
            began = time.monotonic()
            result = Result(name)
            with tempfile.TemporaryDirectory(
                prefix="mainstem-test-", ignore_cleanup_errors=True
            ) as at:
                try:
                    result.differences = _Trial(plan, case, Path(at), spark).run()
                except MainstemError as error:
                    result.error = plan.scrubber.clean(str(error))
            result.seconds = time.monotonic() - began
            yield result


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Trial:
    """One test: the document on stand-ins, with a checkpoint of its own."""

    def __init__(self, plan: Plan, case: Case, folder: Path, spark: SparkSession) -> None:
        self._case = case
        self._spark = spark
        self._check_names(plan)
        self._given = {
            name: Given(name, node.source, folder / "given" / name)
            for name, node in plan.nodes.items()
            if node.kind == "source"
        }
        self._kept: dict[str, Kept] = {}
        sinks = [standing_in(sink, self._keep(sink)) for sink in plan.sinks() if not sink.shadow]
        for output in case.expect:
            if output not in self._kept:
                sinks.append(self._at(plan, output))
        self._plan = derive(
            plan,
            sinks,
            checkpoint=folder / "checkpoints",
            sources=self._given,
            trigger=Trigger(available_now=True),
            scripted=True,
        )

    def run(self) -> list[Difference]:
        """Go through the steps and return what came out otherwise than expected."""
        with Checkpoint(self._plan) as checkpoint:
            run = Run(self._plan, self._spark, checkpoint, Silent(), threading.Event(), True)
            run.prepare()
            for step in self._case.steps:
                if isinstance(step, Step):
                    self._take(step, run)
                else:
                    _lose_commits(run)
                run.once()
        found = []
        for output, expected in self._case.expect.items():
            missing, unexpected = differences(expected, self._kept[output].rows())
            if missing or unexpected:
                found.append(Difference(output, missing, unexpected))
        return found

    def _take(self, step: Step, run: Run) -> None:
        for name, rows in (step.rows or {}).items():
            self._given[name].feed(rows)
        for name, time_ in (step.advance or {}).items():
            try:
                when = datetime.fromisoformat(time_)
            except ValueError:
                message = f"advance {name}: expected an ISO 8601 time, not {time_!r}"
                raise PipelineError(message) from None
            for query in run.queries:
                query.watermarks().advance(name, when if when.tzinfo else when.replace(tzinfo=UTC))

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

    def _check_names(self, plan: Plan) -> None:
        """Refuse names that the document does not have."""
        sources = [name for name, node in plan.nodes.items() if node.kind == "source"]
        timed = [name for name, node in plan.nodes.items() if node.watermark]
        outputs = [*plan.nodes, *(f"{n}.{o}" for n, x in plan.nodes.items() for o in x.outputs)]
        steps = [step for step in self._case.steps if isinstance(step, Step)]
        for what, known, used in (
            ("source", sources, [n for s in steps for n in s.rows or {}]),
            ("node with a watermark", timed, [n for s in steps for n in s.advance or {}]),
            ("sink or output", outputs, list(self._case.expect)),
        ):
            for name in used:
                if name not in known:
                    hint = nearest(name, known) or f"There are: {', '.join(known)}."
                    raise PipelineError(f"there is no {what} {name!r}. {hint}")


def _lose_commits(run: Run) -> None:
    """Take back the commit of each query's last batch, as a crash before it would."""
    for query in run.queries:
        last = query.history.last()
        for name in (f"{last}", f".{last}.crc"):
            (query.history.folder / "commits" / name).unlink(missing_ok=True)


def as_table(differences: list[Difference]) -> Any:
    """Return a rich table of what is missing and what nobody expected."""
    from rich.table import Table
    from rich.text import Text  # what rows hold is no markup

    table = Table(show_lines=False)
    table.add_column("output")
    table.add_column("")
    table.add_column("row")
    for each in differences:
        for what, rows in (("missing", each.missing), ("unexpected", each.unexpected)):
            for row in rows:
                text = ", ".join(f"{name}: {value!r}" for name, value in row.items())
                table.add_row(each.output, what, Text(text))
    return table
