"""Runs the tests of a document, without any of its real systems."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.errors import MainstemError
from mainstem.plan.build import make_plan
from mainstem.plan.derive import on_this_machine
from mainstem.plan.model import Plan
from mainstem.run.session import start
from mainstem.testing.checking import check, moment
from mainstem.testing.comparing import Row, differences
from mainstem.testing.model import Case, Step, read_tests
from mainstem.testing.trial import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For a session that is small and quick to start. Without its second compiler Java has 48 MB for code,
#: which the queries of four tests fill; then it compiles no more.
_QUICK: Mapping[str, str | int | float | bool] = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 1,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
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
    tests, written, document = read_tests(file)
    with _environment(tests.env):
        plan = on_this_machine(make_plan(document), _QUICK)
        check(tests, written, plan)
        spark: SparkSession | None = None
        for name, case in tests.tests.items():
            if only not in name:
                continue
            spark = spark or start(_inside(plan))
            began = time.monotonic()
            result = Result(name)
            with tempfile.TemporaryDirectory(
                prefix="mainstem-test-", ignore_cleanup_errors=True
            ) as at:
                try:
                    result.differences = _play(plan, case, Path(at), spark)
                except MainstemError as error:
                    result.error = plan.scrubber.clean(str(error))
            result.seconds = time.monotonic() - began
            yield result


def _inside(plan: Plan) -> Plan:
    """Return a plan for a session that lacks what sources and sinks need, for they are replaced."""
    operators = {name: node for name, node in plan.nodes.items() if node.kind == "operator"}
    return replace(plan, nodes=operators)


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


def _play(plan: Plan, case: Case, folder: Path, spark: SparkSession) -> list[Difference]:
    """Go through the steps of a test and return what came out otherwise than expected."""
    with Trial(
        plan, folder, spark, list(case.expect), answers=case.answers, show_rows=True
    ) as trial:
        for step in case.steps:
            if isinstance(step, Step):
                for source, rows in (step.rows or {}).items():
                    trial.feed(source, rows)
                for node, time_ in (step.advance or {}).items():
                    trial.advance(node, moment(time_))
            else:
                trial.crash()
            trial.batch()
        found = []
        for output, expected in case.expect.items():
            missing, unexpected = differences(expected, trial.rows(output))
            if missing or unexpected:
                found.append(Difference(output, missing, unexpected))
        return found


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
