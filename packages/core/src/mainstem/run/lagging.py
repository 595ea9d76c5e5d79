"""How far a pipeline's queries are behind their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Lag, Measurable
from mainstem.errors import MachineError
from mainstem.plan.loading import reads_of
from mainstem.plan.model import Plan, Query
from mainstem.run.history import History


@dataclass(frozen=True)
class SourceLag:
    """A source's lag in one query; `lag` is None where the source can't tell."""

    query: str
    source: str
    lag: Lag | None


def lags(plan: Plan) -> Iterator[SourceLag]:
    """Yield the lag of each query's sources, by partition, whether the pipeline runs or not.

    Raises:
        MachineError: a source can't be asked, or the checkpoint can't be read; says which.
    """
    for query in plan.queries:
        yield from query_lags(plan, query, plan.query_folder(query.name))


def query_lags(plan: Plan, query: Query, folder: Path) -> Iterator[SourceLag]:
    """Yield the lag of one query's sources; `folder` is Spark's checkpoint of it."""
    history = History(folder)
    for name in query.reads:
        source = plan.nodes[name].source
        if not isinstance(source, Measurable):
            yield SourceLag(query.name, name, None)
            continue
        try:
            reached = [history.reached(read, plan.home(name)) for read in reads_of(query, name)]
            found = [lag for each in reached for lag in source.lag(each)]
        except Exception as error:
            message = f"the lag of {name} can't be told: {type(error).__name__}: {error}"
            raise MachineError(plan.scrubber.clean(message)) from error
        for lag in found:
            yield SourceLag(query.name, name, lag)


def summed(found: Iterator[SourceLag]) -> Mapping[str, dict[str, Any]]:
    """Return rows and seconds behind by source: the sum, and the age of the oldest row."""
    whole: dict[str, dict[str, Any]] = {}
    for each in found:
        if each.lag is None:
            continue
        total = whole.setdefault(each.source, {"rows": 0, "seconds": 0.0})
        rows, seconds = each.lag.rows, each.lag.seconds
        total["rows"] = None if rows is None or total["rows"] is None else total["rows"] + rows
        if seconds is None or total["seconds"] is None:
            total["seconds"] = None
        else:
            total["seconds"] = round(max(total["seconds"], seconds), 1)
    return whole
