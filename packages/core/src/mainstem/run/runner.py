"""Runs a plan: starts its queries, watches them, and ends them in good order."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from mainstem.analysis.java import in_session
from mainstem.analysis.process import Remembered
from mainstem.errors import PipelineError
from mainstem.observation.meeting import observed
from mainstem.observation.observers import Observers
from mainstem.observation.reporter import Reporter, Silent
from mainstem.observation.samples import Samples
from mainstem.observation.totals import Totals
from mainstem.plan.model import Plan
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.helpers import Helpers
from mainstem.run.offset_commit import Publishing
from mainstem.run.running_query import RunningQuery
from mainstem.run.session import own_scratch, start
from mainstem.run.shared_storage import check_shared
from mainstem.stopping import stopping_on_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL = 0.2
#: How long a process that was killed may take until that is known, in seconds.
_ENDS = 2.0


def run(
    plan: Plan,
    *,
    reporter: Reporter | None = None,
    debug: bool = False,
    show_rows: bool = False,
    stop: threading.Event | None = None,
    fresh: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a plan until it ends, fails or is told to stop; return the summary.

    Args:
        reporter: is told what happens; nothing is shown when left out.
        debug: let Spark log to standard error.
        show_rows: whether errors, and who looks at the run, may see the content of refused rows.
        stop: when set, the batches in hand are finished and the run ends. SIGINT and SIGTERM set
            it too when this is called in the main thread.
        fresh: the queries that start over; see `Checkpoint`.

    Raises:
        MainstemError: what went wrong, with the exit code of the command.
    """
    stop = stop or threading.Event()
    samples = Samples(show_rows=show_rows)
    with (
        Checkpoint(plan, fresh=fresh) as checkpoint,
        observed(plan, reporter or Silent(), samples) as reporter,
        stopping_on_signals(stop),
    ):
        began = time.monotonic()

        def doing(what: str) -> None:
            seconds = round(time.monotonic() - began, 1)
            facts = {"pipeline": plan.pipeline, "what": what, "seconds": seconds}
            reporter.doing({"event": "doing", **facts})

        doing("Spark starts")
        try:
            spark = start(plan, debug=debug, scratch=own_scratch(plan))
        except KeyboardInterrupt:  # from the handler of a SparkContext that is just there
            return Totals(plan).summary(plan, 0.0)
        doing("the document's steps are checked")
        check_shared(plan, spark)
        if plan.remade is not None:
            plan = plan.remade(Remembered(in_session(spark)))
            checkpoint.look_again(plan)
        # Again: a new SparkContext takes SIGINT for itself.
        with stopping_on_signals(stop), telling_of_a_lost_session():
            return Run(plan, spark, checkpoint, reporter, stop, samples).whole()


@contextmanager
def telling_of_a_lost_session() -> Iterator[None]:
    """Turn py4j's complaint that nobody answers into an error that says what happened."""
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:
        if isinstance(error, ConnectionError) and not _spark_has_ended():
            raise  # somebody else's connection
        raise PipelineError(
            "Spark's process is gone: it was killed, or had too little memory. The next run goes on "
            "after the last batch that was finished."
        ) from error


def _spark_has_ended() -> bool:
    """Whether Spark's process is gone, or about to be; one that others have started counts as gone."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return True
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS)
    return process.poll() is not None


class Run:
    """The queries of a plan on its checkpoint, in a session that is there already."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        checkpoint: Checkpoint,
        reporter: Reporter,
        stop: threading.Event,
        samples: Samples,
    ) -> None:
        self.plan = plan
        self.samples = samples
        self.reporter = reporter
        self.stop = stop
        self.totals = Totals(plan)
        self.observers = Observers(plan)
        samples.begin(plan, self.observers.headers())
        self.helpers: Helpers | None = None
        self.publishing: Publishing | None = None
        self.queries = [
            RunningQuery(plan, query, spark, checkpoint, reporter, samples)
            for query in plan.queries
        ]

    def whole(self) -> dict[str, Any]:
        """Run from start to end, and let the document's observers know; see `run`."""
        self.observers.started(self.plan)
        try:
            summary = self._whole()
        except BaseException as error:
            self.observers.ended(self.plan, error)
            raise
        self.observers.ended(self.plan, None)
        return summary

    def _whole(self) -> dict[str, Any]:
        began = time.monotonic()
        self.prepare()
        self.reporter.started(self.plan)
        try:
            with (
                telling_of_a_lost_session(),
                Helpers(self.plan, self.reporter, self._nodes()) as self.helpers,
                self._publishing() as self.publishing,
            ):
                if self.plan.document.trigger.every is None:
                    self.helpers.wait_until_ready(self.stop)
                self.once()
                if self.plan.flush:
                    self._flush()
        finally:
            summary = self.totals.summary(self.plan, time.monotonic() - began)
            self.reporter.ended(summary)
        return summary

    def prepare(self) -> None:
        """Find every fault that shows before a query starts."""
        for query in self.queries:
            query.prepare()

    def once(self) -> None:
        """Start all queries and wait until they have ended."""
        self._drive(RunningQuery.start, self.queries)

    def _flush(self) -> None:
        """Close what the queries hold; those below relays once they have read what that has given."""
        done: set[str] = set()
        while len(done) < len(self.queries) and not self.stop.is_set():
            ready = [q for q in self.queries if q.name not in done and q.above <= done]
            if below := [query for query in ready if query.above]:
                self._drive(RunningQuery.start, below)
            self._drive(RunningQuery.flush, ready)
            done |= {query.name for query in ready}

    def _nodes(self) -> set[str]:
        """Return the nodes that take part; those that nobody reads do not."""
        return {name for query in self.queries for name in query.nodes}

    def _publishing(self) -> Publishing:
        histories = {query.name: query.history for query in self.queries}
        return Publishing(self.plan, self.reporter, histories)

    def _drive(self, begin: Any, queries: Sequence[RunningQuery]) -> None:
        """Start queries by `begin` and watch them until all have ended."""
        try:
            queued = list(queries)
            active: list[RunningQuery] = []
            while True:
                for query in [each for each in queued if self._can_begin(each, queued, active)]:
                    queued.remove(query)
                    begin(query)
                active = [q for q in queries if q.watch(self._report, self.stop)]
                if not active and (not queued or self.stop.is_set()):
                    break
                if self.helpers is not None:
                    self.helpers.watch()
                if self.publishing is not None:
                    self.publishing.watch()
                self.reporter.tick()
                pause = _POLL if not self.stop.is_set() else _POLL / 4
                active[0].wait(pause) if active else self.stop.wait(pause)
        finally:
            with ExitStack() as ending:  # each, whatever goes wrong with another
                for query in reversed(queries):
                    ending.callback(query.end, self._report)

    def _can_begin(
        self,
        query: RunningQuery,
        queued: Sequence[RunningQuery],
        active: Sequence[RunningQuery],
    ) -> bool:
        """Whether what a query loads first is all there: what waits at the external system is stored.

        In a run that ends, what comes by a relay is there once the query above has ended.
        """
        for above in (each for each in (*queued, *active) if each.name in query.above):
            if self.plan.document.trigger.every is None or above.is_loading:
                return False
        return self.helpers is None or self.helpers.ready(query.loading.sources())

    def _report(self, facts: dict[str, Any]) -> None:
        self.totals.add(facts)
        self.reporter.batch(facts)
        if self.publishing is not None:
            self.publishing.tell()
        values = self.samples.values(facts["query"], facts["batch"])
        self.observers.batch({**facts, "headers": values} if values else facts)
