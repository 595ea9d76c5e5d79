"""One query of a run: what it loads first, then the whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from mainstem.contracts.abilities import Recovering
from mainstem.durable import made_folder, write_whole
from mainstem.errors import MainstemError
from mainstem.history import History
from mainstem.observation.reporter import Reporter
from mainstem.observation.samples import Samples
from mainstem.plan.model import Plan, Query
from mainstem.run.batches import Batches, Stopping
from mainstem.run.bootstrap import Loading, Phase, Waiting, loaded_by
from mainstem.run.checkpoint import Checkpoint
from mainstem.run.facts import batch_facts, timed
from mainstem.run.failures import explain, lost_worker, of_an_expression, with_row
from mainstem.run.frames import Frames, check_streaming
from mainstem.run.idleness import Idleness
from mainstem.run.lag import Measuring, query_lags, summed
from mainstem.run.latest import LatestEvent
from mainstem.run.source_order import keep_order
from mainstem.run.telling import can_refuse, told
from mainstem.run.watermarks import Watermarks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: How long Spark may take to let go of a query that has ended, in seconds.
_LETTING_GO = 10
#: How often a query is restarted until its next batch is done; see `came_too_late`.
_RESTARTS = 5


class RunningQuery:
    """One query of a run."""

    def __init__(
        self,
        plan: Plan,
        query: Query,
        spark: SparkSession,
        checkpoint: Checkpoint,
        reporter: Reporter,
        samples: Samples,
    ) -> None:
        self.name = query.name
        self._plan = plan
        self._query = query
        self._spark = spark
        self._checkpoint = checkpoint
        self._reporter = reporter
        self._samples, self._show_rows = samples, samples.show_rows
        self.history = History(checkpoint.query(query.name))
        self.loading = Loading(plan, query, self.history)
        #: What is being loaded; None while the whole query runs.
        self._phase: Phase | None = None
        #: Whether nothing but the batch in hand is run, before a phase can begin.
        self._finishing = False
        self._idleness: Idleness | None = None
        self._running: StreamingQuery | None = None
        self._ended = False
        self._restarts = 0
        #: What an expression failed with, while the batch is run again to find out for which row.
        self._failed: MainstemError | None = None
        #: The last batch that was done before it.
        self._failed_after = -1
        self._reported = -1
        self._lag = Measuring(self._measure)
        self._latest = LatestEvent(checkpoint.query(query.name))
        #: By node, the latest event time that this run has loaded.
        self._loaded: dict[str, datetime] = {}
        self._batches: Batches

    @property
    def above(self) -> frozenset[str]:
        """The names of the queries that write the relays which this one reads."""
        return self._query.above

    @property
    def is_loading(self) -> bool:
        """Whether it has yet to load what there was when it began."""
        return self._phase is not None or bool(self.loading.sources())

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that take part."""
        return (*self._query.streaming, *self._query.per_batch, *self._query.sinks)

    def prepare(self) -> None:
        """Build all frames once, over no rows, so that every fault shows before any query starts."""
        frames = self._frames(checking=True)
        streaming = frames.streaming(self._query.tail)
        try:
            check_streaming(streaming, self._query.output_mode)
        except Exception as error:
            raise self._explained(error) from error
        keep_order(self.history, streaming)
        Batches(self._plan, self._query, frames, self._checkpoint, self._samples).check(streaming)

    def _frames(
        self,
        *,
        checking: bool = False,
        watermarks: Watermarks | None = None,
        waiting: Waiting | None = None,
    ) -> Frames:
        return Frames(
            self._plan,
            self._query,
            self._spark,
            self._checkpoint,
            watermarks or self.watermarks(),
            show_rows=self._show_rows,
            checking=checking,
            instead=waiting.read if waiting is not None else None,
            telling=self._failed is not None,
            headers=self._samples.headers,
        )

    def start(self) -> None:
        """Start the query on its checkpoint: what it loads first, or the whole."""
        phase = self.loading.phase()
        # A batch that was planned must be made of what it was planned with.
        self._finishing = phase is not None and self.loading.in_hand()
        self._phase = None if self._finishing else phase
        waiting = None
        if self._phase is not None:
            waiting = Waiting(self._plan, self._query, self._phase, self._spark, self._checkpoint)
            self._tell("loading", self._phase)
        watermarks = self.watermarks(waiting)
        frames = self._frames(watermarks=watermarks, waiting=waiting)
        streaming = frames.streaming(self._query.tail)
        keep_order(self.history, streaming)
        self._batches = Batches(self._plan, self._query, frames, self._checkpoint, self._samples)
        trigger = self._plan.document.trigger
        writer = (
            streaming.writeStream.queryName(f"{self._plan.pipeline}.{self._query.name}")
            .outputMode(self._query.output_mode)
            .option("checkpointLocation", str(self._checkpoint.query(self._query.name)))
            .foreachBatch(self._batches)
        )
        if self._finishing:
            writer = writer.trigger(once=True)  # runs just that batch
        elif trigger.every is not None and self._phase is None:
            writer = writer.trigger(
                processingTime=f"{round(trigger.every.total_seconds() * 1000)} milliseconds"
            )
        else:
            writer = writer.trigger(availableNow=True)
        self._ended = False
        idleness = Idleness(self._plan, self._query, watermarks)
        moving = idleness.used and watermarks.used and trigger.every is not None
        self._idleness = idleness if moving and not self._finishing and not self._phase else None
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
            made_folder(folder)
            write_whole(file, json.dumps({"id": str(uuid.uuid4())}), checked=False)
        return str(json.loads(file.read_text())["id"])

    def watermarks(self, waiting: Waiting | None = None) -> Watermarks:
        """Return what moves the query's watermarks."""
        return Watermarks(self._plan, self._query, self._spark, self._checkpoint, waiting)

    def flush(self) -> None:
        """Start the query once more, with control rows that close its windows."""
        if self.watermarks().flush(self._latest.time, self.history.watermark()):
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
                try:
                    query.stop()
                except Exception as error:
                    raise self._explained(error) from error
        active = bool(query.isActive)
        if not active and not self._ended:
            self._ended = True
            self._let_go(query)
        self._drain(report)
        if active:
            if self._idleness is not None:
                self._idleness.move()
            self._tell_lag()
            self._tell_batch()
            return True
        return self._restarted() or self._went_on()

    def _tell_lag(self) -> None:
        """Tell how far behind the query is also while no batch ends."""
        lag = self._lag.news()
        if lag is not None:
            facts = {"pipeline": self._plan.pipeline, "query": self.name}
            self._reporter.lag({"event": "lag", **facts, "lag": lag})

    def _tell_batch(self) -> None:
        """Tell which batch is in hand, if one is."""
        if (in_hand := self._batches.in_hand) is not None:
            batch, began = in_hand
            facts = {
                "event": "doing",
                "pipeline": self._plan.pipeline,
                "query": self.name,
                "what": "writes",
                "batch": batch,
                "node": self._batches.node or "",
                "seconds": round(time.monotonic() - began, 1),
            }
            self._reporter.doing(facts)

    def _restarted(self) -> bool:
        """Restart the query if what it failed with passes; whether it was.

        Raises:
            MainstemError: the query failed.
        """
        query = self._running
        failure = query.exception() if query is not None else None
        if failure is None:
            return False
        cause = self._batches.error or failure
        if isinstance(cause, Stopping) or (
            self._batches.stopping.is_set() and self._batches.error is None
        ):
            return False
        passes = lost_worker(cause) or self._recovers(cause)
        if not passes and self._looks_for_the_row(cause):
            self.start()
            return True
        if not passes or self._restarts == _RESTARTS:
            raise self._explained(cause) from failure
        self._restarts += 1
        facts = {"pipeline": self._plan.pipeline, "query": self.name}
        why = f"{passes} ({self._restarts} of {_RESTARTS})"
        self._reporter.restarted({"event": "restarted", **facts, "why": why})
        self.start()
        return True

    def _recovers(self, cause: BaseException) -> str:
        """Return why one of the sources goes on after a failure when it is loaded anew; empty if none."""
        sources = (self._plan.nodes[name].component for name in self._query.streaming)
        able = (source for source in sources if isinstance(source, Recovering))
        return next(filter(None, (source.recovers(str(cause)) for source in able)), "")

    def _looks_for_the_row(self, cause: BaseException) -> bool:
        """Whether an expression failed, and running the batch again may tell for which row."""
        if self._failed is not None or self._batches.stopping.is_set():
            return False
        nodes = [self._plan.nodes[name] for name in self.nodes]
        if not of_an_expression(cause, self._plan, [n for n in nodes if can_refuse(n)]):
            return False
        self._failed, self._failed_after = self._explained(cause), self._reported
        return True

    def _went_on(self) -> bool:
        """Start what comes after a phase that has come to its end; whether there is anything."""
        ended, self._phase = self._phase, None
        finished, self._finishing = self._finishing, False
        if self._batches.stopping.is_set() or not (ended or finished):
            return False
        if ended is not None:
            watermarks = self.watermarks()
            for node in loaded_by(self._plan, self._query, ended):
                watermarks.repeat(node, self._loaded.get(node))
            self.loading.done(ended)
            self._tell("loaded", ended)
        self.start()
        return True

    def _tell(self, event: str, phase: Phase) -> None:
        self._reporter.loading(
            {
                "event": event,
                "pipeline": self._plan.pipeline,
                "query": self.name,
                "phase": phase.number,
                "of": phase.of,
                "reads": list(phase.new),
                "ends": {read: dict(ends) for read, ends in phase.ends.items()},
            }
        )

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
        finished = self._finished()
        for progress in finished:
            self._restarts = 0
            self._reported = progress.batchId
            metrics = progress.observedMetrics or {}
            self._latest.hear(metrics)
            counts = self._batches.counts.pop(progress.batchId, {})
            facts = batch_facts(self._plan, self._query, progress, counts)
            idle = []
            if self._idleness is not None:
                self._idleness.hear(metrics)
                idle = self._idleness.idle()
            if self._phase is not None:
                for _, node, at in timed(metrics):
                    if at is not None:
                        self._loaded[node] = max(at, self._loaded.get(node, at))
            loading = sorted(self._phase.reads) if self._phase else []
            lag = self._lag.of_batch() if progress is finished[-1] else self._lag.known
            report({**facts, "loading": loading, "idle": idle, "lag": lag})
        for batch in [each for each in list(self._batches.counts) if each <= self._reported]:
            del self._batches.counts[batch]  # of batches that Spark no longer tells of

    def _measure(self) -> Mapping[str, Mapping[str, Any]]:
        return summed(query_lags(self._plan, self._query, self.history.folder))

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

    def _explained(self, error: BaseException) -> MainstemError:
        if (found := told(str(error))) is not None:
            again = self._failed if self._failed_after == self._reported else None
            return with_row(found, self._plan, again, show_rows=self._show_rows)
        return explain(error, self._plan, self._query.name, show_rows=self._show_rows)

    def end(self, report: Any) -> None:
        """Stop the query if it still runs (another one failed), and report its last batches.

        One that does not stop is told and left: what went wrong first is what ends the run.
        """
        if self._running is None:
            return
        if self._running.isActive:
            self._batches.stopping.set()
            try:
                self._running.stop()
            except Exception as error:  # Java's TimeoutException
                facts = {"pipeline": self._plan.pipeline, "query": self.name}
                why = str(self._explained(error))
                self._reporter.unstopped({"event": "unstopped", **facts, "why": why})
        self._let_go(self._running)
        self._drain(report)
        self._lag.close()
        self._running = None
