"""The ledger of transactional writing: which batches of a checkpoint are in, by offsets of a group.

Kafka's transactions take two things in together: messages, and offsets of a consumer group. So each
checkpoint has a group in which nobody consumes, named after pipeline, sink and checkpoint, with these
offsets on partitions of a topic that is there for this alone:

==========  ============================================================================
partition   offset
==========  ============================================================================
0           the batch after the last one that is wholly in; set once all writers are in
1           the highest epoch of a run, set before it writes, and again with entry 0
2 + n       the batch after the last one that writer n has in; set in its transaction
==========  ============================================================================

The brokers take offsets only for partitions that exist. A topic of its own, and not the one that is
written to, since that may have fewer partitions than there are writers, or be one of many; since offsets
go when their topic is deleted; and since tools that watch how far groups are behind would report batch
numbers as a lag: on an empty topic there is none. Beside each offset stand, as its metadata: which run
set it, with its epoch and its number of writers; how many rows the batch had, and a sum of their
identities, so that a batch that comes again with other rows is not taken for the one that is in; and
where the batch's refused rows are kept.

Offsets are forgotten 7 days after they were set (offsets.retention.minutes), one by one. Whoever asks
whether a writer has the batch in hand is told by an entry set during this batch, thus later than entry 0.
So as long as entry 0 is there, nothing that matters has been forgotten. If it is not, and an earlier run
may have written some of the batch, the run ends. A batch that was never begun needs no ledger: a new one
is begun.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mainstem import Batch, FencedError, PipelineError
from mainstem.sinks import ledger_step

from mainstem_broker_kafka.client import Heard, consumer, failure, library, unless_given
from mainstem_broker_kafka.connection import Properties
from mainstem_broker_kafka.sink.options import MAX_WRITERS
from mainstem_broker_kafka.sink.transaction import BACKOFF, Stuck, patiently

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

DONE, RUN, FIRST = 0, 1, 2
#: Seconds to wait for the end of transactions by whoever can do without.
_SHORTLY = 5.0


@dataclass(frozen=True)
class Totals:
    """What tells the rows of one batch from those of another, in whatever order: their count, and the sum
    of a hash of each one's identity, modulo 2 ** 64.
    """

    rows: int = 0
    sum: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.rows + other.rows, (self.sum + other.sum) % 2**64)


@dataclass(frozen=True)
class Entry:
    """One offset of the ledger.

    `next` is the offset. `run` and `epoch` are those of the run that set it, `writers` how many it had.
    `totals` are those of the rows that went in, refused ones included. `refused` is where the writer's
    refused rows are kept: their count, and the offsets of the first and the last message in the writer's
    partition of the ledger's topic.
    """

    next: int
    epoch: int
    run: str
    writers: int
    totals: Totals = Totals()
    refused: tuple[int, int, int] | None = None

    def metadata(self) -> str:
        """Return what stands beside the offset."""
        told = asdict(self)
        del told["next"]
        return json.dumps(told, separators=(",", ":"))


@dataclass(frozen=True)
class State:
    """What the ledger has of a checkpoint."""

    done: Entry | None
    run: Entry | None
    writers: Mapping[int, Entry]

    @property
    def epoch(self) -> int:
        """The highest epoch that was seen."""
        return max((entry.epoch for entry in self._all()), default=0)

    @property
    def count(self) -> int | None:
        """How many writers the newest run had; None where nothing is in the ledger."""
        newest = max(self._all(), key=lambda entry: entry.epoch, default=None)
        return newest.writers if newest is not None else None

    def held_by(self, epoch: int, run: str) -> bool:
        """Whether a run may write: none has taken over from it."""
        return self.run is not None and (self.run.epoch, self.run.run) == (epoch, run)

    def whole(self, batch: int) -> bool:
        """Whether all writers have a batch in."""
        return self.done is not None and self.done.next > batch

    @property
    def last(self) -> int:
        """The last batch of which anything is in; -1 if none is."""
        nexts = [entry.next for entry in self.writers.values()]
        return max([*nexts, self.done.next if self.done else 0], default=0) - 1

    def of(self, batch: int) -> dict[int, Entry]:
        """Return the entries of the writers that have a batch in as their last."""
        return {number: e for number, e in self.writers.items() if e.next == batch + 1}

    def _all(self) -> list[Entry]:
        return [*(e for e in (self.run, self.done) if e is not None), *self.writers.values()]


@dataclass(frozen=True)
class Place:
    """Which ledger: the topic, and the group of a checkpoint."""

    topic: str
    group: str

    @classmethod
    def of(cls, topic: str, batch: Batch) -> Place:
        """Return the place of a batch's ledger."""
        return cls(topic, f"mainstem.{batch.pipeline}.{batch.sink}.{batch.query_id}")

    def transactional_id(self, writer: int | str) -> str:
        """Return the transactional id of a writer, or of the run."""
        return f"{self.group}.{writer}"

    def offset(self, partition: int, entry: Entry) -> TopicPartition:
        """Return an entry as Kafka's client takes it."""
        kind = library().TopicPartition
        made: TopicPartition = kind(self.topic, partition, entry.next, entry.metadata())
        return made


class Ledger:
    """Clients that read a ledger.

    Args:
        settings: of a client on librdkafka.
        place: which ledger.
        patience: seconds to try on.

    Attributes:
        consumer: is in the ledger's group, and reads what is committed.
        stuck: whether a call did not come back, so that this must not be used again.
    """

    def __init__(self, settings: Properties, place: Place, patience: float) -> None:
        self.place = place
        self.stuck = False
        self._settings = settings
        self._patience = patience
        self._heard = Heard()
        self.consumer: Consumer = consumer(
            settings,
            self._heard,
            group_id=place.group,
            isolation_level="read_committed",
            **unless_given(settings, **BACKOFF),
        )
        self._hasty: Consumer | None = None

    def read(self, writer: int | None = None) -> State:
        """Return what the ledger has. Open transactions with entries of it are waited for: those who may
        have left one are to be fenced off before.

        Args:
            writer: of the writers' entries only this one's.

        Raises:
            PipelineError: the brokers do not tell, or an offset is none of ours.
        """
        return self._read(self.consumer, writer)

    def glance(self, writer: int | None = None) -> State:
        """Return what the ledger has, without that of transactions that are open; waits for nobody.

        Args and errors as of `read`.
        """
        if self._hasty is None:
            self._hasty = consumer(
                self._settings,
                self._heard,
                group_id=self.place.group,
                isolation_level="read_uncommitted",
                **unless_given(self._settings, **BACKOFF),
            )
        return self._read(self._hasty, writer)

    def now(self) -> State:
        """Return what the ledger has; open transactions are waited for, but not for long."""
        try:
            return self._read(self.consumer, None, min(self._patience, _SHORTLY))
        except PipelineError:
            return self.glance()

    def _read(self, client: Consumer, writer: int | None, patience: float | None = None) -> State:
        writers = range(MAX_WRITERS) if writer is None else (writer,)
        numbers = (DONE, RUN, *(FIRST + number for number in writers))
        wanted = [library().TopicPartition(self.place.topic, number) for number in numbers]
        found = self._ask(
            f"reading the ledger {self.place.group}",
            lambda seconds: client.committed(wanted, timeout=seconds),
            self._patience if patience is None else patience,
        )
        entries = {p.partition: _entry(self.place, p) for p in found if p.offset >= 0}
        done, run = entries.pop(DONE, None), entries.pop(RUN, None)
        return State(done, run, {number - FIRST: entry for number, entry in entries.items()})

    def _ask(self, doing: str, call: Any, patience: float) -> Any:

        try:
            return patiently(call, patience)
        except Stuck as error:
            self.stuck = True
            raise failure(error, doing, self._settings, self._heard) from None
        except library().KafkaException as error:
            raise failure(error, doing, self._settings, self._heard) from None

    def close(self) -> None:
        """End the client."""
        if self.stuck:
            return
        self.consumer.close()
        if self._hasty is not None:
            self._hasty.close()


def _entry(place: Place, found: TopicPartition) -> Entry:
    try:
        told = json.loads(found.metadata or "")
        refused = tuple(told["refused"]) if told["refused"] else None
        totals = Totals(int(told["totals"]["rows"]), int(told["totals"]["sum"]))
        epoch, writers = int(told["epoch"]), int(told["writers"])
        return Entry(found.offset, epoch, str(told["run"]), writers, totals, refused)
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"the offset {found.offset} of group {place.group!r} on {found.topic}, partition "
            f"{found.partition}, was set by somebody else: which batches are in is not known any more. "
            "Start over with `--fresh`."
        ) from None


# -- what the ledger's state means for a batch ----------------------------------------------------


def check(state: State, batch: Batch, *, held: bool, begin: bool) -> None:
    """Hold a batch against the ledger, before anything of it is written.

    Args:
        state: what the ledger has.
        batch: the batch.
        held: whether this run has set the ledger's entry of the run.
        begin: whether a missing ledger starts over.

    Raises:
        FencedError: a run with a higher epoch has been here, a later one with the same, or a later
            batch.
        PipelineError: the ledger is missing or old, and an earlier run may have written of the batch.
    """
    other = held and state.run is not None and state.run.run != batch.run
    if other and state.epoch <= batch.epoch:
        raise FencedError(
            f"{batch.sink}: another run {batch.epoch} of this checkpoint has taken over: there are two "
            "copies of the checkpoint, and both run. Go on from one of them, and start over the other "
            "with `--fresh`.",
            node=batch.sink,
        )
    ledger_step(batch, last=state.last, epoch=state.epoch)
    # A batch that no run before this one has planned is not in, whatever the ledger has forgotten. Of the
    # first batch nobody can tell a ledger that is gone from one that was never begun.
    if begin or not batch.retried or batch.id <= batch.begins:
        return
    if state.done is None:
        raise missing(batch, "the ledger of this checkpoint is gone")
    if state.done.next < batch.id:
        raise missing(batch, f"the ledger of this checkpoint ends with batch {state.done.next - 1}")


def missing(batch: Batch, what: str) -> PipelineError:
    """Return the error for a ledger that does not tell what it should."""
    return PipelineError(
        f"{batch.sink}: {what}, and an earlier run has begun batch {batch.id}, so whether it is in is "
        "not known. Brokers forget the offsets of a group that stands still (offsets.retention.minutes, "
        "7 days if left alone), or somebody has deleted them. Look whether the topic's last messages "
        "are those of this batch. If none is, `missing_ledger: begin` goes on with it; start over with "
        "`--fresh` otherwise. If the batches before were written by `microbatch`, they may be doubled in "
        "any case: `missing_ledger: begin`.",
        node=batch.sink,
    )


def other_rows(then: Totals, now: Totals) -> str:
    """Return what to say of a batch that is in and comes again with other rows."""
    return (
        f"is in with {then.rows} rows, and has come again with "
        f"{now.rows if now.rows != then.rows else 'as many others'}. The checkpoint is an old copy, "
        "which has planned the batch anew, or the document was changed while the batch was being "
        "written. Go on from the newest copy and with the former document, or start over with `--fresh`: "
        "what the topic has of this batch stays there"
    )


def entered(
    batch: Batch,
    writers: int,
    totals: Totals | None = None,
) -> Entry:
    """Return the entry of a batch that is wholly in."""
    return Entry(batch.id + 1, batch.epoch, batch.run, writers, totals or Totals())


def begun(batch: Batch, writers: int) -> Entry:
    """Return the entry of a ledger that has nothing yet before a batch."""
    return replace(entered(batch, writers), next=batch.id)


def registered(batch: Batch, writers: int) -> Entry:
    """Return the entry of a run."""
    return Entry(batch.epoch, batch.epoch, batch.run, writers)
