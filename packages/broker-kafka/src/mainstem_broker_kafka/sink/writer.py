"""A writer: the task that sends its share of a batch in one transaction; runs in an executor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from mainstem import FencedError, PipelineError, failpoint
from mainstem.sinks import Refused

from mainstem_broker_kafka.client import library, unless_given
from mainstem_broker_kafka.connection import Properties
from mainstem_broker_kafka.sink.ledger import (
    FIRST,
    Entry,
    Ledger,
    Place,
    State,
    Totals,
    other_rows,
)
from mainstem_broker_kafka.sink.refused_log import Notes, keep, recall, token
from mainstem_broker_kafka.sink.rows import ID_HEADER
from mainstem_broker_kafka.sink.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

_QUEUE_ROWS = 500_000
_QUEUE_KBYTES = 128 * 1024
_BATCH_BYTES = 1_000_000


#: What the row begins with that a writer tells what it was given by: its number, the count of rows, and
#: the sum of their hashes follow. No reason of a refused row begins so.
TOTALS = "\0totals "


@dataclass(frozen=True)
class Job:
    """What all writers of a batch are told.

    `known` are the writers that have the batch in, with what it refused then. If it comes `again`, each
    tells what it was given (see `TOTALS`). `epoch` and `run` are those of the run. `topic` is None if
    each row names its own. `largest` and `smallest` are the topics' max.message.bytes.
    """

    settings: Properties
    place: Place
    writers: int
    known: Mapping[int, Notes]
    batch: int
    again: bool
    epoch: int
    run: str
    sink: str
    topic: str | None
    largest: int
    smallest: int
    compression: str
    patience: float
    transaction_timeout: float


def write(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Write a task's rows and yield those that were refused.

    Raises:
        PipelineError: the brokers did not take them; nothing of this writer's share is in, or, if the
            answer to its commit did not come, the next try finds out.
    """
    refused = Refused()
    share: Share | None = None
    try:
        for writer, rows in _by_writer(batches):
            if share is None or share.writer != writer:
                if share is not None:
                    yield from share.finish()
                share = Share(job, writer, refused)
            share.take(rows)
        if share is not None:
            yield from share.finish()
            share = None
    finally:
        if share is not None:
            share.give_up()


def _by_writer(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each writer in turn; they come sorted by writer."""
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            numbers = batch.column("_writer")
            number = numbers[start].as_py()
            end = batch.num_rows
            if numbers[end - 1].as_py() != number:
                end = next(n for n in range(start, end) if numbers[n].as_py() != number)
            yield number, batch.slice(start, end - start)
            start = end


class Share:
    """What one writer has to write of a batch."""

    def __init__(self, job: Job, writer: int, refused: Refused) -> None:
        self.writer = writer
        self._job = job
        self._refused = refused
        self._notes: Notes = {}
        #: What the batch refused then, if this writer has it in.
        self._then: Notes | None = job.known.get(writer)
        #: What it has in, if it was found out only here; and what it was given now.
        self._in: Totals | None = None
        self._given = Totals()
        self._ledger: Ledger | None = None
        self._transaction: Transaction | None = None
        if self._then is None:
            try:
                self._begin()
            except BaseException:
                self._end()
                raise

    # -- the protocol -----------------------------------------------------------------------

    def _begin(self) -> None:
        """See whether this share is in; if not, take over from who wrote it before, and look again."""
        job = self._job
        failpoint("kafka.before-transaction")
        self._ledger = Ledger(job.settings, job.place, job.patience)
        own = unless_given(
            job.settings,
            linger_ms=20,
            partitioner="murmur2_random",
            compression_type=job.compression,
            message_max_bytes=max(job.largest + 1024, 1_000_000),
            # librdkafka does not split a batch that the broker finds too large.
            batch_size=min(_BATCH_BYTES, job.smallest),
            queue_buffering_max_messages=_QUEUE_ROWS,
            # At least one message must fit.
            queue_buffering_max_kbytes=max(_QUEUE_KBYTES, job.largest // 1024 + 1024),
            delivery_report_only_error=True,
        )
        self._transaction = Transaction(
            job.settings,
            job.place.transactional_id(self.writer),
            job.place.topic,
            self._ledger.consumer,
            patience=job.patience,
            timeout=job.transaction_timeout,
            held=self._held,
            more=own,
        )
        try:
            # Before: a writer of a run that was replaced must not fence off that of the new one, nor one
            # that comes late that of the next batch.
            entry = self._look(self._ledger.glance(self.writer))
            if entry is None:
                self._transaction.fence()
                # And after: who was fenced off may have committed up to that moment.
                entry = self._look(self._ledger.read(self.writer))
            if entry is not None:
                self._then = recall(
                    self._ledger.consumer, job.place, self.writer, entry, job.patience
                )
                self._in = entry.totals
                self._end()
                return
            self._transaction.begin()
        except PipelineError as error:
            raise self._told(error) from None

    def _held(self) -> bool:
        assert self._ledger is not None  # noqa: S101
        return self._ledger.glance(self.writer).held_by(self._job.epoch, self._job.run)

    def _look(self, state: State) -> Entry | None:
        """Return this writer's entry in the ledger if it has the batch in.

        Raises:
            FencedError: another run has taken over, or a later batch is in.
            PipelineError: the ledger is gone.
        """
        job = self._job
        if state.epoch > job.epoch:
            raise FencedError(
                f"run {state.epoch} of the checkpoint has taken over from {job.epoch}"
            )
        if state.run is None or state.done is None:
            raise PipelineError("the ledger has gone while the batch was written")
        if not state.held_by(job.epoch, job.run):
            raise FencedError(f"another run {job.epoch} of the checkpoint has taken over")
        entry = state.writers.get(self.writer)
        if entry is not None and entry.next > job.batch + 1:
            raise FencedError(f"batch {entry.next - 1} is in, which is later than {job.batch}")
        return entry if entry is not None and entry.next == job.batch + 1 else None

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Commit; yield what was refused."""
        job, transaction = self._job, self._transaction
        if transaction is not None:
            try:
                transaction.flush()
                kept = keep(
                    job.settings, job.place, self.writer, job.batch, self._notes, job.patience
                )
                failpoint("kafka.before-entry")
                entry = Entry(job.batch + 1, job.epoch, job.run, job.writers, self._given, kept)
                transaction.enter([job.place.offset(FIRST + self.writer, entry)])
                failpoint("kafka.before-commit")
                transaction.commit()
                failpoint("kafka.after-commit")
            except PipelineError as error:
                raise self._told(error) from None
        elif self._in is not None and self._in != self._given:
            words = other_rows(self._in, self._given)
            raise self._told(PipelineError(f"batch {job.batch} {words}."))
        self._end()
        if job.again:
            total = self._given
            self._refused.add(None, None, f"{TOTALS}{self.writer} {total.rows} {total.sum}")
        yield from self._refused.take()

    def give_up(self) -> None:
        """Abort."""
        self._end()

    def _end(self) -> None:
        if self._transaction is not None:
            self._transaction.close()
            self._transaction = None
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _told(self, error: PipelineError) -> PipelineError:
        """Return an error that says who it was, in one line, for the driver to find."""
        text = " ".join(str(error).split())
        return type(error)(f"writer {self.writer} of {self._job.writers}: {text}")

    # -- the rows ---------------------------------------------------------------------------

    def take(self, rows: pa.RecordBatch) -> None:
        """Send some rows; if the batch is in, only see which of them were refused."""
        self._given += _totals(rows)
        if self._then is not None:
            if self._then:
                self._recall(rows)
            return
        reasons = rows.column("_reason")
        if reasons.null_count < len(reasons):
            self._refuse(rows)
            rows = rows.filter(reasons.is_null())
        assert self._transaction is not None  # noqa: S101
        failpoint("kafka.before-rows")
        self._send(rows, self._transaction)

    def _refuse(self, rows: pa.RecordBatch) -> None:
        bad = rows.filter(rows.column("_reason").is_valid())
        for identity, key, value, reason in _rows(bad, "_id", "key", "value", "_reason"):
            self._notes[token(identity, key, value)] = reason
            self._refused.add(identity, value, reason)

    def _recall(self, rows: pa.RecordBatch) -> None:
        assert self._then is not None  # noqa: S101
        for identity, key, value in _rows(rows, "_id", "key", "value"):
            if (reason := self._then.get(token(identity, key, value))) is not None:
                self._refused.add(identity, value, reason)

    def _send(self, rows: pa.RecordBatch, transaction: Transaction) -> None:

        produce, poll = transaction.producer.produce, transaction.producer.poll
        topics = repeat(self._job.topic) if self._job.topic else _values(rows, "_topic", None)
        fields = zip(
            topics,
            _values(rows, "value", None),
            _values(rows, "key", None),
            _values(rows, "_partition", -1),
            _values(rows, "_millis", 0),
            _headers(rows),
            strict=False,
        )
        try:
            for topic, value, key, partition, millis, headers in fields:
                if partition is None:
                    partition = -1
                while True:
                    try:
                        produce(
                            topic,
                            value,
                            key,
                            partition=partition,
                            timestamp=millis or 0,
                            headers=headers,
                        )
                        break
                    except (
                        BufferError
                    ):  # until messages that wait are sent, or have waited too long
                        poll(0.05)
            poll(0)
        except library().KafkaException as error:
            raise self._told(transaction.failed(error, "sending messages")) from None


def _totals(rows: pa.RecordBatch) -> Totals:
    import pyarrow.compute as pc

    # Whole numbers of 64 bits wrap around when they are added up.
    total = pc.sum(rows.column("_hash"), skip_nulls=True).as_py() or 0
    return Totals(rows.num_rows, total % 2**64)


def _values(rows: pa.RecordBatch, name: str, constant: Any) -> Any:
    """Return a column's values; a constant without end if all are null."""
    column = rows.column(name)
    return repeat(constant) if column.null_count == len(column) else column.to_pylist()


def _rows(rows: pa.RecordBatch, *names: str) -> Any:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _headers(rows: pa.RecordBatch) -> Iterator[list[tuple[str, bytes | None]] | None]:
    """Yield the headers of each row, its identity among them."""
    identities = _values(rows, "_id", None)
    given = rows.column("headers")
    if given.null_count == len(given):
        for _, identity in zip(range(rows.num_rows), identities, strict=False):
            yield None if identity is None else [(ID_HEADER, identity.hex())]
        return
    for own, identity in zip(given.to_pylist(), identities, strict=False):
        headers = [(name, value) for name, value in own or () if name != ID_HEADER]
        if identity is not None:
            headers.append((ID_HEADER, identity.hex()))
        yield headers or None
