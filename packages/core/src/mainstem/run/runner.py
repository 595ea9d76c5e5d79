"""Runs a plan: starts its queries, watches them, and ends them in good order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from mainstem.errors import MainstemError, PipelineError
from mainstem.plan.model import Plan, Query
from mainstem.run.batches import Batches, Stopping
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.facts import Totals, batch_facts, latest_event
from mainstem.run.failures import explain
from mainstem.run.frames import Frames, check_streaming
from mainstem.run.helpers import Helpers
from mainstem.run.history import History
from mainstem.run.lagging import query_lags, summed
from mainstem.run.publishing import Publishing
from mainstem.run.session import start
from mainstem.run.sharing import check_shared
from mainstem.run.showing import Reporter, Silent
from mainstem.run.watermarks import Watermarks
from mainstem.stopping import stopping_on_signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL = 0.2
_LAG_EVERY = 5.0
#: How long Spark may take to let go of a query that has ended, in seconds.
_LETTING_GO = 10


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
        show_rows: whether errors may hold the content of rows.
        stop: when set, the batches in hand are finished and the run ends. SIGINT and SIGTERM set
            it too when this is called in the main thread.
        fresh: the queries that begin anew; see `Checkpoint`.

    Raises:
        MainstemError: what went wrong, with the exit code of the command.
    """
    stop = stop or threading.Event()
    with Checkpoint(plan, fresh=fresh) as checkpoint, stopping_on_signals(stop):
        try:
            spark = start(plan, debug=debug)
        except KeyboardInterrupt:  # from the handler of a SparkContext that is just there
            return Totals(plan).summary(plan, 0.0)
        check_shared(plan, spark)
        # Again: a new SparkContext takes SIGINT for itself.
        with stopping_on_signals(stop), telling_of_a_lost_session():
            return Run(plan, spark, checkpoint, reporter or Silent(), stop, show_rows).whole()


@contextmanager
def telling_of_a_lost_session() -> Iterator[None]:
    """Turn py4j's complaint that nobody answers into an error that says what happened."""
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:
        raise PipelineError(
            "Spark's process is gone: it was killed, or had too little memory. The next run goes on "
            "after the last batch that was finished."
        ) from error


class Run:
    """The queries of a plan on its checkpoint, in a session that is there already."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        checkpoint: Checkpoint,
        reporter: Reporter,
        stop: threading.Event,
        show_rows: bool,
    ) -> None:
        self.plan = plan
        self.reporter = reporter
        self.stop = stop
        self.totals = Totals(plan)
        self.helpers: Helpers | None = None
        self.publishing: Publishing | None = None
        self.queries = [
            RunningQuery(plan, query, spark, checkpoint, show_rows=show_rows)
            for query in plan.queries
        ]

    def whole(self) -> dict[str, Any]:
        """Run from start to end; see `run`."""
        began = time.monotonic()
        self.prepare()
        self.plan.registry.hook.mainstem_run_started(plan=self.plan)
        self.reporter.started(self.plan)
        error: MainstemError | None = None
        try:
            with (
                Helpers(self.plan, self.reporter, self._nodes()) as self.helpers,
                self._publishing() as self.publishing,
            ):
                if self.plan.document.trigger.every is None:
                    self.helpers.wait_until_ready(self.stop)
                self.once()
                if self.plan.flush and not self.stop.is_set():
                    self._drive(RunningQuery.flush)
        except MainstemError as failure:
            error = failure
            raise
        finally:
            summary = self.totals.summary(self.plan, time.monotonic() - began)
            self.reporter.ended(summary)
            self.plan.registry.hook.mainstem_run_ended(plan=self.plan, error=error)
        return summary

    def prepare(self) -> None:
        """Find every fault that shows before a query starts."""
        for query in self.queries:
            query.prepare()

    def once(self) -> None:
        """Start all queries and wait until they have ended."""
        self._drive(RunningQuery.start)

    def _nodes(self) -> set[str]:
        """Return the nodes that take part; those that nobody reads do not."""
        return {name for query in self.queries for name in query.nodes}

    def _publishing(self) -> Publishing:
        histories = {query.name: query.history for query in self.queries}
        return Publishing(self.plan, self.reporter, histories)

    def _drive(self, begin: Any) -> None:
        """Start every query by `begin` and watch them until all have ended."""
        try:
            for query in self.queries:
                begin(query)
            while active := [q for q in self.queries if q.watch(self._report, self.stop)]:
                if self.helpers is not None:
                    self.helpers.watch()
                if self.publishing is not None:
                    self.publishing.watch()
                self.reporter.tick()
                active[0].wait(_POLL if not self.stop.is_set() else _POLL / 4)
        finally:
            for query in self.queries:
                query.end(self._report)

    def _report(self, facts: dict[str, Any]) -> None:
        self.totals.add(facts)
        self.reporter.batch(facts)
        if self.publishing is not None:
            self.publishing.tell()
        self.plan.registry.hook.mainstem_run_progress(facts=facts)


class RunningQuery:
    """One query of a run."""

    def __init__(
        self,
        plan: Plan,
        query: Query,
        spark: SparkSession,
        checkpoint: Checkpoint,
        *,
        show_rows: bool,
    ) -> None:
        self.name = query.name
        self._plan = plan
        self._query = query
        self._spark = spark
        self._checkpoint = checkpoint
        self._show_rows = show_rows
        self.history = History(checkpoint.query(query.name))
        self._running: StreamingQuery | None = None
        self._ended = False
        self._reported = -1
        self._measured = 0.0
        self._lags: Mapping[str, Mapping[str, Any]] = {}
        self._latest: datetime | None = None
        self._batches: Batches

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that take part."""
        return (*self._query.streaming, *self._query.per_batch, *self._query.sinks)

    def prepare(self) -> None:
        """Build all frames once, over no rows, so that every fault shows before any query starts."""
        frames = self._frames(checking=True)
        streaming = frames.streaming(self._query.anchor)
        try:
            check_streaming(streaming, self._query.output_mode)
        except Exception as error:
            raise self._explained(error) from error
        Batches(self._plan, self._query, frames, self._checkpoint).check(streaming)

    def _frames(self, *, checking: bool = False) -> Frames:
        return Frames(
            self._plan,
            self._query,
            self._spark,
            self._checkpoint,
            self.watermarks().put,
            show_rows=self._show_rows,
            checking=checking,
        )

    def start(self) -> None:
        """Start the query on its checkpoint."""
        frames = self._frames()
        streaming = frames.streaming(self._query.anchor)
        self._batches = Batches(self._plan, self._query, frames, self._checkpoint)
        trigger = self._plan.document.trigger
        writer = (
            streaming.writeStream.queryName(f"{self._plan.pipeline}.{self._query.name}")
            .outputMode(self._query.output_mode)
            .option("checkpointLocation", str(self._checkpoint.query(self._query.name)))
            .foreachBatch(self._batches)
        )
        if trigger.every is not None:
            writer = writer.trigger(
                processingTime=f"{round(trigger.every.total_seconds() * 1000)} milliseconds"
            )
        else:
            writer = writer.trigger(availableNow=True)
        self._ended = False
        # Spark makes the id with the checkpoint; the first batch can begin before `start` returns.
        self._batches.query_id = self._known_id() or ""
        try:
            self._running = writer.start()
        except Exception as error:
            raise self._explained(error) from error

    def _known_id(self) -> str:
        """Return the query's id, writing it into a new checkpoint as Spark itself would."""
        import uuid

        folder = self._checkpoint.query(self._query.name)
        file = folder / "metadata"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / ".metadata.new"
            new.write_text(json.dumps({"id": str(uuid.uuid4())}))
            new.replace(file)
        return str(json.loads(file.read_text())["id"])

    def watermarks(self) -> Watermarks:
        """Return what moves the query's watermarks."""
        return Watermarks(self._plan, self._query, self._spark, self._checkpoint)

    def flush(self) -> None:
        """Start the query once more, with control rows that close its windows."""
        if self.watermarks().flush(self._latest, self.history.watermark()):
            self.start()

    def watch(self, report: Any, stop: threading.Event) -> bool:
        """Report finished batches; return whether the query still runs.

        Raises:
            MainstemError: the query failed.
        """
        query = self._running
        if query is None:
            return False
        if stop.is_set():
            self._batches.stopping.set()
            if query.isActive and not query.status["isTriggerActive"]:
                query.stop()
        active = bool(query.isActive)
        if not active and not self._ended:
            self._ended = True
            self._let_go(query)
        self._drain(report)
        if not active:
            self._check()
        return active

    @staticmethod
    def _let_go(query: StreamingQuery) -> None:
        """Wait until Spark has let go of a query that has ended, and so of its name."""
        with suppress(StreamingQueryException):  # `watch` tells
            query.awaitTermination(_LETTING_GO)

    def wait(self, seconds: float) -> None:
        """Wait until the query ends, or some seconds have passed."""
        if self._running is not None:
            with suppress(StreamingQueryException):  # `watch` finds out
                self._running.awaitTermination(seconds)  # type: ignore[arg-type]  # any number

    def _drain(self, report: Any) -> None:
        for progress in self._finished():
            self._reported = progress.batchId
            latest = latest_event(progress)
            if latest is not None:
                self._latest = max(latest, self._latest or latest)
            counts = self._batches.counts.pop(progress.batchId, {})
            facts = batch_facts(self._plan, self._query, progress, counts)
            report({**facts, "lag": self._lag()})

    def _lag(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the lag by source, measured anew every few seconds at most."""
        if time.monotonic() - self._measured > _LAG_EVERY:
            self._measured = time.monotonic()
            self._lags = {}
            with suppress(Exception):  # a broker that can't be asked is no reason to end a run
                self._lags = summed(query_lags(self._plan, self._query, self.history.folder))
        return self._lags

    def _finished(self) -> list[StreamingQueryProgress]:
        """Return the progress of the batches not yet reported, in order.

        Spark keeps a hundred; converting them all, again and again, would slow down the batches.
        """
        running: Any = self._running
        recent = running._jsq.recentProgress() if running is not None else []
        found: list[StreamingQueryProgress] = []
        for index in range(len(recent) - 1, -1, -1):
            if recent[index].batchId() <= self._reported:
                break
            progress = StreamingQueryProgress.fromJson(json.loads(recent[index].json()))
            # An idle trigger reports the id of the batch to come, with no time spent on one.
            if "addBatch" in progress.durationMs:
                found.append(progress)
        return found[::-1]

    def _check(self) -> None:
        query = self._running
        failure = query.exception() if query is not None else None
        if failure is None:
            return
        cause = self._batches.error or failure
        if isinstance(cause, Stopping) or (
            self._batches.stopping.is_set() and self._batches.error is None
        ):
            return
        raise self._explained(cause) from failure

    def _explained(self, error: BaseException) -> MainstemError:
        return explain(error, self._plan, self._query.name, show_rows=self._show_rows)

    def end(self, report: Any) -> None:
        """Stop the query if it still runs (another one failed), and report its last batches."""
        if self._running is None:
            return
        if self._running.isActive:
            self._batches.stopping.set()
            self._running.stop()
        self._let_go(self._running)
        self._drain(report)
        self._running = None
