"""Writes a batch by transactions: the driver's part.

The rows are dealt out to a fixed number of writers by a hash of their key (of `_id` where there is none):
whenever a batch comes again, each writer gets the same rows, however the batch was partitioned. Each
writer is one task with one transaction, which takes in its rows and its entry in the ledger. If some
writers have a batch in and others have not, the next try makes up for the others alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from mainstem import Batch, MainstemError, PipelineError, failpoint, write_by_tasks

from mainstem_broker_kafka.sink import ledger as ledgers
from mainstem_broker_kafka.sink.keeping import Notes, recall
from mainstem_broker_kafka.sink.ledger import Entry, Ledger, Place, State
from mainstem_broker_kafka.sink.options import MAX_WRITERS, KafkaSinkOptions
from mainstem_broker_kafka.sink.producing import Transaction
from mainstem_broker_kafka.sink.rows import messages
from mainstem_broker_kafka.sink.topics import Topic, Topics
from mainstem_broker_kafka.sink.writer import Job, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Those that refused rows are kept for longer than brokers remember offsets.
_LEDGER_SETTINGS = {"cleanup.policy": "delete", "retention.ms": str(30 * 86_400_000)}
#: The errors of ours that a task ends with, in Spark's report of it.
_OURS = re.compile(r"mainstem\.errors\.\w+: (writer [^\n]+)")


class Transactions:
    """Writes batches of one sink.

    Args:
        options: the sink's.
        topics: what is known of the topics.
    """

    def __init__(self, options: KafkaSinkOptions, topics: Topics) -> None:
        self._options = options
        self._topics = topics
        self._ledgers: dict[Place, Ledger] = {}
        self._registered: set[tuple[Place, int]] = set()

    def committed(self, batch: Batch) -> bool:
        """Whether all writers have a batch in."""
        done = self._ledger(batch).read().done
        return done is not None and done.next > batch.id

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write a batch, or what of it is not in; return the rows that were refused.

        Raises:
            FencedError: see `ledger.check`.
            PipelineError: the brokers did not take it, or the ledger is missing.
        """
        ledger = self._ledger(batch)
        state = self._register(ledger, batch)
        whole = state.done is not None and state.done.next > batch.id
        topics = self._topics.known()
        job = self._job(ledger, state, batch, topics, whole=whole)
        dealt = deal(messages(frame, self._options, topics, timed=True), job.writers)
        try:
            refused = write_by_tasks(dealt, partial(write, job=job))
        except MainstemError:
            raise
        except Exception as error:
            self._explain(error, ledger, batch)
            raise
        failpoint("kafka.before-done")
        if not whole:
            ledger.set_done(ledgers.entered(batch, job.writers))
        failpoint("kafka.after-done")
        return refused

    def _job(
        self,
        ledger: Ledger,
        state: State,
        batch: Batch,
        topics: Mapping[str, Topic],
        *,
        whole: bool,
    ) -> Job:
        options = self._options
        known: dict[int, Notes] = {}
        for writer, entry in state.of(batch.id).items():
            known[writer] = recall(ledger.consumer, ledger.place, writer, entry, options.patience)
        if whole:  # the number of writers may have been another then
            every = {token: reason for notes in known.values() for token, reason in notes.items()}
            known = dict.fromkeys(range(MAX_WRITERS), every)
        return Job(
            settings=self._topics.settings,
            place=ledger.place,
            writers=options.writers,
            known=known,
            batch=batch.id,
            begins=batch.begins,
            epoch=batch.epoch,
            sink=batch.sink,
            topic=options.topic if options.topic_from is None else None,
            largest=max(topic.max_bytes for topic in topics.values()),
            smallest=min(topic.max_bytes for topic in topics.values()),
            compression=options.compression,
            patience=options.patience,
            transaction_timeout=options.transaction_timeout.total_seconds(),
        )

    # -- the ledger -------------------------------------------------------------------------

    def _ledger(self, batch: Batch) -> Ledger:
        place = Place.of(self._options.ledger, batch)
        if place not in self._ledgers:
            self._make_topic()
            made = Ledger(self._topics.settings, place, self._options.patience)
            self._ledgers[place] = made
        return self._ledgers[place]

    def _make_topic(self) -> None:
        """Make the ledger's topic, with a partition for each writer, or make it larger."""
        options, name = self._options, self._options.ledger
        wanted = ledgers.FIRST + options.writers
        found = self._topics.describe([name]).get(name)
        if found is None:
            replication = options.create.replication if options.create is not None else None
            self._topics.create([name], wanted, replication, _LEDGER_SETTINGS)
            found = self._topics.describe([name]).get(name)
        if found is not None and found.partitions < wanted:
            self._topics.grow(name, wanted)

    def _register(self, ledger: Ledger, batch: Batch) -> State:
        """Hold a batch against the ledger, and let the ledger know of this run before it writes.

        Once it does, a run that was replaced finds that out before it writes anything more.
        """
        state = ledger.read()
        begin = self._options.missing_ledger == "begin"
        ledgers.check(state, batch, begin=begin)
        writers = self._options.writers
        key = (ledger.place, batch.epoch)
        if key not in self._registered:
            if state.run is None or state.run.epoch < batch.epoch or state.run.writers != writers:
                state = self._enter_run(ledger, state, batch)
            failpoint("kafka.after-register")
            self._registered.add(key)
        if state.done is None:
            ledger.set_done(ledgers.begun(batch, writers))
            state = ledger.read()
        return state

    def _enter_run(self, ledger: Ledger, state: State, batch: Batch) -> State:
        """Set the run's epoch and its number of writers, unless another run has, with more right."""
        writers = self._options.writers
        run = self._transaction(ledger, "run")
        try:
            run.fence()
            state = ledger.read()  # nobody can change the entry any more without being noticed
            ledgers.check(state, batch, begin=self._options.missing_ledger == "begin")
            if state.count is not None and state.count != writers:
                state = self._change_writers(ledger, state, batch)
            run.begin()
            run.commit(ledger.place.offset(ledgers.RUN, Entry(batch.epoch, batch.epoch, writers)))
        finally:
            run.close()
        return ledger.read()

    def _change_writers(self, ledger: Ledger, state: State, batch: Batch) -> State:
        """Let another number of writers take over, once those before can write nothing more."""
        before = state.count or 0
        for number in range(before):
            former = self._transaction(ledger, number)
            try:
                former.fence()
            finally:
                former.close()
        state = ledger.read()
        if ledgers.half_written(state, batch):
            raise PipelineError(
                f"{batch.sink}: batch {batch.id} is in the middle of being written by {before} writers, "
                f"and some are done: {self._options.writers} would deal its rows out otherwise. Run it "
                f"with `writers: {before}` until the batch is in, and change the number then.",
                node=batch.sink,
            )
        return state

    def _transaction(self, ledger: Ledger, who: int | str) -> Transaction:
        return Transaction(
            self._topics.settings,
            ledger.place.transactional_id(who),
            ledger.consumer,
            patience=self._options.patience,
            timeout=self._options.transaction_timeout.total_seconds(),
        )

    def _explain(self, error: Exception, ledger: Ledger, batch: Batch) -> None:
        """Raise the error of ours that a task ended with, if it did."""
        found = _OURS.search(str(error))
        if found is None:
            return
        ledgers.check(ledger.read(), batch, begin=True)  # was it another run?
        raise PipelineError(f"{batch.sink}: {found[1]}", node=batch.sink) from None


def deal(rows: DataFrame, writers: int) -> DataFrame:
    """Deal messages out to writers, a partition for each, in the order in which they stand.

    A row's place is its position in its log where it has one; else, or where two have the same, its place
    in the batch as Spark has it: within a partition the order of the rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    by = F.coalesce(F.col("key"), F.col("_id"))
    # pmod, and not %: the hash may be below zero.
    writer = F.pmod(F.xxhash64(by), F.lit(writers)).cast("int")
    placed = rows.withColumns({"_writer": writer, "_place": F.monotonically_increasing_id()})
    log = [name for name in ("_in_origin", "_in_partition", "_in_position") if name in rows.columns]
    order = [*(log if "_in_position" in log else ()), "_place"]
    dealt = placed.repartitionById(writers, "_writer").sortWithinPartitions("_writer", *order)
    return dealt.drop("_place", "_in_origin", "_in_partition", "_in_position")
