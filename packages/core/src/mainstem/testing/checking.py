"""What a file of tests names, looked for in the plan of its document before Spark starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Answerable
from mainstem.contracts.components import Operator
from mainstem.document.reading import Path_, Written
from mainstem.errors import DocumentError, OptionError, PipelineError, Problem, nearest
from mainstem.plan.model import Plan
from mainstem.testing.model import Case, Step, TestFile
from mainstem.testing.stand_ins import Given


def check(tests: TestFile, written: Written, plan: Plan) -> None:
    """Look for what the tests name that the plan has not, and for rows that do not fit it.

    Raises:
        DocumentError: with every problem found.
    """
    problems = [
        problem
        for name, case in tests.tests.items()
        for problem in _wrong(case, ("tests", name), written, plan)
    ]
    if problems:
        raise DocumentError(problems)


def known(what: str, name: str, among: Iterable[str]) -> None:
    """Do nothing if a name is among others.

    Raises:
        OptionError: it is not.
    """
    names = list(among)
    if name not in names:
        there = f"There are: {', '.join(names)}." if names else "There is none."
        raise OptionError(f"there is no {what} {name!r}", hint=nearest(name, names) or there)


def stand_ins(plan: Plan, folder: Path) -> dict[str, Given]:
    """Return what takes the place of each source, by the source's name.

    Args:
        folder: for the rows that they are fed.
    """
    return {
        name: Given(name, node.source, folder / name)
        for name, node in plan.written.items()
        if node.kind == "source"
    }


def feeds(given: Mapping[str, Given]) -> list[str]:
    """Return what rows can be given to: sources, and their outputs as `name.output`."""
    return [
        *given,
        *(f"{name}.{output}" for name, each in given.items() for output in each.outputs),
    ]


def outputs(plan: Plan) -> list[str]:
    """Return what rows come out of: sinks, nodes, and their outputs as `name.output`."""
    nodes = plan.written.items()
    return [*plan.written, *(f"{name}.{output}" for name, node in nodes for output in node.outputs)]


def timed(plan: Plan) -> list[str]:
    """Return the nodes that have a watermark."""
    return [name for name, node in plan.nodes.items() if node.watermark]


def asking(plan: Plan) -> dict[str, Answerable]:
    """Return the operators that ask an external system, by their names."""
    return {
        name: node.component
        for name, node in plan.written.items()
        if isinstance(node.component, Answerable)
    }


def answered(
    name: str, rows: Sequence[Mapping[str, Any]], among: Mapping[str, Answerable]
) -> Operator:
    """Return what takes the place of an operator that asks, with what it is answered.

    Raises:
        OptionError: it asks nothing, or rows are none that it could be answered.
    """
    known("node that asks an external system", name, among)
    return among[name].answered(rows)


def unanswered(name: str) -> OptionError:
    """Return the error of an operator that asks, of which no test says what it is answered."""
    hint = f"Say what that answers: `answers: {{{name}: [...]}}`"
    return OptionError(f"{name} asks an external system", hint=hint)


def moment(text: str) -> datetime:
    """Return a time of a test; one without a zone is in UTC.

    Raises:
        OptionError: it is none.
    """
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        raise OptionError(f"expected an ISO 8601 time, not {text!r}") from None


def in_utc(time: datetime) -> datetime:
    """Return a time; one without a zone is in UTC."""
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _wrong(case: Case, path: Path_, written: Written, plan: Plan) -> Iterator[Problem]:
    given = stand_ins(plan, Path())
    for number, step in enumerate(case.steps):
        if isinstance(step, Step):
            here = (*path, "steps", number)
            yield from _wrong_rows(step, (*here, "rows"), written, given)
            for node, text in (step.advance or {}).items():
                place = (*here, "advance", node)
                yield from _problem(
                    written, place, known, "node with a watermark", node, timed(plan)
                )
                yield from _problem(written, place, moment, text)
    among = asking(plan)
    for name, rows in case.answers.items():
        yield from _problem(written, (*path, "answers", name), answered, name, rows, among)
    for name in (each for each in among if each not in case.answers):
        error = unanswered(name)
        yield written.problem(error.message, path, hint=error.hint, at_key=True)
    for name in case.expect:
        place = (*path, "expect", name)
        yield from _problem(written, place, known, "sink or output", name, outputs(plan))


def _wrong_rows(
    step: Step, path: Path_, written: Written, given: Mapping[str, Given]
) -> Iterator[Problem]:
    for name, rows in (step.rows or {}).items():
        missing = list(_problem(written, (*path, name), known, "source", name, feeds(given)))
        yield from missing
        source, _, output = name.partition(".")
        for number, row in enumerate(() if missing else rows):
            yield from _problem(written, (*path, name, number), given[source].row, row, output)


def _problem(written: Written, path: Path_, look: Any, *args: Any) -> Iterator[Problem]:
    """Look at something that is written at a path; yield the problem if it is wrong."""
    try:
        look(*args)
    except OptionError as error:
        yield written.problem(error.message, path, hint=error.hint, at_key=True)
    except PipelineError as error:
        yield written.problem(str(error), path)
