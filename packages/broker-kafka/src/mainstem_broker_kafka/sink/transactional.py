"""Writes a batch by transactions: the driver's part.

The rows are dealt out to a fixed number of writers by a hash of their key (of `_id` where there is none):
whenever a batch comes again, each writer gets the same rows, however the batch was partitioned. Each
writer is one task with one transaction, which takes in its rows and its entry in the ledger. If some
writers have a batch in and others have not, the next try makes up for the others alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from mainstem import Batch, FencedError, PipelineError, failpoint
from mainstem.sinks import write_by_tasks

from mainstem_broker_kafka.sink import ledger as ledgers
from mainstem_broker_kafka.sink.fencing import Hold
from mainstem_broker_kafka.sink.ledger import Ledger, Place, State, Totals
from mainstem_broker_kafka.sink.options import MAX_WRITERS, KafkaSinkOptions
from mainstem_broker_kafka.sink.refused_log import Notes, recall
from mainstem_broker_kafka.sink.rows import VERSION, messages
from mainstem_broker_kafka.sink.topics import Topic, Topics
from mainstem_broker_kafka.sink.writer import TOTALS, Job, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Those that refused rows are kept for longer than brokers remember offsets.
_LEDGER_SETTINGS = {"cleanup.policy": "delete", "retention.ms": str(30 * 86_400_000)}


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
        self._holds: dict[Place, Hold] = {}
        #: Which runs have held which ledger, by this sink.
        self._held: set[tuple[Place, int, str]] = set()

    def committed(self, batch: Batch) -> bool:
        """Whether all writers have a batch in; not so while the entry that says so is being set."""
        return self._ledger(batch).now().whole(batch.id)

    def write(self, frame: DataFrame, batch: Batch) -> DataFrame | None:
        """Write a batch, or what of it is not in; return the rows that were refused.

        Raises:
            FencedError: see `ledger.check`.
            PipelineError: the brokers did not take it; the ledger is missing; or the batch is in with
                other rows.
        """
        ledger = self._ledger(batch)
        try:
            hold, state = self._take_hold(ledger, batch)
            return self._write(frame, batch, ledger, hold, state)
        except BaseException:
            self._let_go(ledger)
            raise

    def _write(
        self, frame: DataFrame, batch: Batch, ledger: Ledger, hold: Hold, state: State
    ) -> DataFrame | None:
        whole, before = state.whole(batch.id), state.of(batch.id)
        topics = self._topics.known()
        job = self._job(ledger, state, batch, topics)
        dealt = deal(messages(frame, self._options, topics, timed=True), job.writers)
        try:
            refused = write_by_tasks(dealt, partial(write, job=job))
        except PipelineError:
            ledgers.check(ledger.glance(), batch, held=True, begin=True)  # was it another run?
            raise
        if job.again:
            refused, now = heard(refused)
            if whole and state.done is not None and state.done.next == batch.id + 1:
                _compare(batch, state.done.totals, sum(now.values(), Totals()))
            else:
                for writer, entry in before.items():
                    _compare(batch, entry.totals, now.get(writer, Totals()))
        failpoint("kafka.before-done")
        if not whole:
            entries = hold.look(batch).of(batch.id).values()
            totals = sum((entry.totals for entry in entries), Totals())
            done = ledgers.entered(batch, job.writers, totals)
            try:
                hold.done(done, batch)
            except FencedError:
                raise
            except PipelineError:
                # A producer that was kept since the batch before may not get over a connection that has
                # gone. The writers are done, and a hold taken anew brings another producer.
                self._let_go(ledger)
                hold, _ = self._take_hold(ledger, batch)
                hold.done(done, batch)
        failpoint("kafka.after-done")
        return refused

    def _job(
        self,
        ledger: Ledger,
        state: State,
        batch: Batch,
        topics: Mapping[str, Topic],
    ) -> Job:
        options = self._options
        known: dict[int, Notes] = {}
        whole = state.whole(batch.id)
        for writer, entry in state.of(batch.id).items():
            known[writer] = recall(ledger.consumer, ledger.place, writer, entry, options.patience)
        if whole:  # the number of writers may have been another then
            every = {token: reason for notes in known.values() for token, reason in notes.items()}
            known = dict.fromkeys(range(MAX_WRITERS), every)
        sizes = [topic.max_bytes for topic in topics.values()]  # of none, where none may be written
        return Job(
            settings=self._topics.settings,
            place=ledger.place,
            writers=options.writers,
            known=known,
            again=whole or bool(known),
            batch=batch.id,
            epoch=batch.epoch,
            run=batch.run,
            sink=batch.sink,
            topic=options.topic if options.topic_from is None else None,
            largest=max(sizes, default=0),
            smallest=min(sizes, default=0),
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

    def _take_hold(self, ledger: Ledger, batch: Batch) -> tuple[Hold, State]:
        """Hold a batch against the ledger, and let the ledger know of this run before it writes.

        Once it does, a run that was replaced finds that out before it writes anything more.
        """
        place, hold = ledger.place, self._holds.get(ledger.place)
        key = (place, batch.epoch, batch.run)
        if hold is not None and key in self._held and not hold.old:
            state = hold.look(batch)
            if state.run is not None and state.done is not None:
                return hold, state
        if hold is not None:
            self._holds.pop(place).close()
        settings = self._topics.settings
        hold = Hold(settings, self._options, ledger, batch, held=key in self._held)
        self._holds[place] = hold
        self._held.add(key)
        failpoint("kafka.after-register")
        return hold, hold.look(batch)

    def _let_go(self, ledger: Ledger) -> None:
        """Start over with the next try: what has failed may have left a transaction open."""
        hold = self._holds.pop(ledger.place, None)
        if hold is not None:
            hold.close()
        if ledger.stuck:
            self._ledgers.pop(ledger.place, None)


def heard(told: DataFrame | None) -> tuple[DataFrame | None, dict[int, Totals]]:
    """Part what the writers of a batch told that comes again: the rows that were refused, and by writer
    what there was of rows.
    """
    if told is None:
        return None, {}
    ours = told["reason"].startswith(TOTALS)
    totals: dict[int, Totals] = {}
    for row in told.where(ours).select("reason").collect():
        writer, rows, total = map(int, row["reason"].removeprefix(TOTALS).split())
        totals[writer] = totals.get(writer, Totals()) + Totals(rows, total)
    refused = told.where(~ours)
    return (None if refused.isEmpty() else refused), totals


def _compare(batch: Batch, then: Totals, now: Totals) -> None:
    if then != now:
        words = ledgers.other_rows(then, now)
        raise PipelineError(f"{batch.sink}: batch {batch.id} {words}.", node=batch.sink)


def deal(rows: DataFrame, writers: int) -> DataFrame:
    """Deal messages out to writers, a partition for each, in the order in which they stand.

    A row's place is that of its change where it is one (`_commit_version`), then its position in its log
    where it has one; else, or where two have the same, its place in the batch as Spark has it: within a
    partition the order of the rows.
    """
    # pmod, and not %: the hash may be below zero.
    placed = rows.selectExpr(
        "*",
        f"CAST(pmod(xxhash64(coalesce(key, _id)), {writers}) AS INT) AS _writer",
        "CASE WHEN _id IS NULL THEN xxhash64(key, value) ELSE xxhash64(_id) END AS _hash",
        "monotonically_increasing_id() AS _place",
    )
    version = [VERSION] if VERSION in rows.columns else []
    log = [name for name in ("_in_origin", "_in_partition", "_in_position") if name in rows.columns]
    order = [*version, *(log if "_in_position" in log else ()), "_place"]
    dealt = placed.repartitionById(writers, "_writer").sortWithinPartitions("_writer", *order)
    return dealt.drop("_place", *version, "_in_origin", "_in_partition", "_in_position")
