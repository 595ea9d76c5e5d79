"""How far a pipeline's queries are behind their sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem.contracts.abilities import Lag, Measurable
from mainstem.errors import MachineError
from mainstem.history import History
from mainstem.plan.bootstrap import reads_of
from mainstem.plan.model import Plan, Query
from mainstem.run.background import Beside

#: Lag is measured anew after so many seconds, and after so many times as long as it took.
_EVERY, _SHARE = 5.0, 10
#: How long a batch waits to be told with the newest one, in seconds.
_WAITS = 1.0
#: How long the last one stands while a broker takes its time, in seconds.
_STANDS = 60.0

#: Rows and seconds behind, by source.
Lags = Mapping[str, Mapping[str, Any]]


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


class Measuring:
    """Measures the lag of a running query beside it: with its batches, and while none ends.

    Args:
        measure: returns the lag by source; what it raises makes it unknown.
        clock: seconds that only grow.
    """

    def __init__(
        self, measure: Callable[[], Lags], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._done = threading.Event()
        self._done.set()
        self._beside: Beside | None = None
        self._known: Lags = {}
        self._untold = False
        self._began = clock()
        self._took = 0.0
        self._with_batch: float | None = None

    @property
    def known(self) -> Lags:
        """The lag that is known; empty for none."""
        return self._known

    def of_batch(self) -> Lags:
        """Return the lag to be told with a batch, measured anew every few seconds at most."""
        now = self._clock()
        self._wait()
        due = self._with_batch is None or now - self._with_batch > _EVERY
        if due and self._done.is_set():
            self._with_batch = now
            self._begin()
            self._wait()
        self._untold = False
        return self._known

    def _wait(self) -> None:
        self._done.wait(_WAITS)

    def news(self) -> Lags | None:
        """Return the lag if it has been measured since anybody was told, else None; see that it is."""
        passed = self._clock() - self._began
        if not self._done.is_set():
            if self._known and passed > _STANDS:
                self._known = {}
                return self._known
            return None
        if self._untold:
            self._untold = False
            return self._known
        if passed > max(_EVERY, _SHARE * self._took):
            self._begin()
        return None

    def close(self) -> None:
        """Let the thread end; one that is wanted again is another."""
        if self._beside is not None:
            self._beside.close()
            self._beside = None

    def _begin(self) -> None:
        self._began = self._clock()
        self._done.clear()
        if self._beside is None:
            self._beside = Beside("lag", self._run)
            self._beside.start()
        self._beside.want()

    def _run(self) -> None:
        found: Lags = {}
        with suppress(Exception):  # a broker that can't be asked is no reason to end a run
            found = self._measure()
        self._took = self._clock() - self._began
        self._known, self._untold = found, True
        self._done.set()
