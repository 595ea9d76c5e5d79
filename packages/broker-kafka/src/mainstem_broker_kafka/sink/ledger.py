"""The ledger of transactional writing: which batches of a checkpoint are in, by offsets of a group.

Kafka's transactions take two things in together: messages, and offsets of a consumer group. So each
checkpoint has a group in which nobody consumes, named after pipeline, sink and checkpoint, with these
offsets on partitions of a topic that is there for this alone:

==========  ============================================================================
partition   offset
==========  ============================================================================
0           the batch after the last one that is wholly in; set once all writers are in
1           the highest epoch of a run, set before it writes
2 + n       the batch after the last one that writer n has in; set in its transaction
==========  ============================================================================

The brokers take offsets only for partitions that exist. A topic of its own, and not the one that is
written to, since that may have fewer partitions than there are writers, or be one of many; since offsets
go when their topic is deleted; and since tools that watch how far groups are behind would report batch
numbers as a lag: on an empty topic there is none. Beside each offset stand, as its metadata, the run's
epoch and its number of writers, and where the batch's refused rows are kept.

Offsets are forgotten 7 days after they were set (offsets.retention.minutes), one by one. Whoever asks
whether a writer has the batch in hand is told by an entry set during this batch, thus later than entry 0.
So as long as entry 0 is there, nothing that matters has been forgotten; if it is not, under a
checkpoint that is not new, the run ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mainstem import Batch, FencedError, PipelineError

from mainstem_broker_kafka.client import Heard, consumer, failure, library
from mainstem_broker_kafka.connecting import Properties
from mainstem_broker_kafka.sink.options import MAX_WRITERS
from mainstem_broker_kafka.sink.patience import Stuck, patiently

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

DONE, RUN, FIRST = 0, 1, 2


@dataclass(frozen=True)
class Entry:
    """One offset of the ledger.

    `next` is the offset. `refused` is where the writer's refused rows are kept: their count, and the
    offsets of the first and the last message in the writer's partition of the ledger's topic.
    """

    next: int
    epoch: int
    writers: int
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
        """How many writers the newest run had."""
        newest = max(self._all(), key=lambda entry: entry.epoch, default=None)
        return newest.writers if newest is not None else None

    @property
    def last(self) -> int:
        """The last batch of which anything is in; -1 if none is."""
        nexts = [entry.next for entry in self.writers.values()]
        return max([*nexts, self.done.next if self.done else 0], default=0) - 1

    def of(self, batch: int) -> dict[int, Entry]:
        """Return the entries of the writers that have a batch in as their last."""
        return {number: e for number, e in self.writers.items() if e.next == batch + 1}

    def _all(self) -> list[Entry]:
        return [*(e for e in (self.done, self.run) if e is not None), *self.writers.values()]


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
    """A client that reads a ledger, and sets the entry that says that a batch is wholly in.

    Args:
        settings: of a client on librdkafka.
        place: which ledger.
        patience: seconds to try on.
    """

    def __init__(self, settings: Properties, place: Place, patience: float) -> None:
        self.place = place
        self._settings = settings
        self._patience = patience
        self._heard = Heard()
        self._stuck = False
        self.consumer: Consumer = consumer(
            settings, self._heard, group_id=place.group, isolation_level="read_committed"
        )

    def read(self) -> State:
        """Return what the ledger has; transactions in the middle of their commit are waited for.

        Raises:
            PipelineError: the brokers do not tell, or an offset is none of ours.
        """
        topic = self.place.topic
        wanted = [library().TopicPartition(topic, number) for number in range(FIRST + MAX_WRITERS)]
        found = self._ask(
            f"reading the ledger {self.place.group}",
            lambda seconds: self.consumer.committed(wanted, timeout=seconds),
        )
        entries = {p.partition: _entry(self.place, p) for p in found if p.offset >= 0}
        done, run = entries.pop(DONE, None), entries.pop(RUN, None)
        return State(done, run, {number - FIRST: entry for number, entry in entries.items()})

    def set_done(self, entry: Entry) -> None:
        """Set the entry that says that all batches before `entry.next` are wholly in."""
        self._ask(
            f"setting the ledger {self.place.group}",
            lambda _: self.consumer.commit(
                offsets=[self.place.offset(DONE, entry)], asynchronous=False
            ),
        )

    def _ask(self, doing: str, call: Any) -> Any:

        try:
            return patiently(call, self._patience)
        except Stuck as error:
            self._stuck = True
            raise failure(error, doing, self._settings, self._heard) from None
        except library().KafkaException as error:
            raise failure(error, doing, self._settings, self._heard) from None

    def close(self) -> None:
        """End the client."""
        if not self._stuck:
            self.consumer.close()


def _entry(place: Place, found: TopicPartition) -> Entry:
    try:
        told = json.loads(found.metadata or "")
        refused = tuple(told["refused"]) if told["refused"] else None
        return Entry(found.offset, int(told["epoch"]), int(told["writers"]), refused)
    except (ValueError, KeyError, TypeError):
        raise PipelineError(
            f"the offset {found.offset} of group {place.group!r} on {found.topic}, partition "
            f"{found.partition}, was set by somebody else: which batches are in is not known any more. "
            "Begin anew with `--fresh`."
        ) from None


# -- what the ledger's state means for a batch ----------------------------------------------------


def check(state: State, batch: Batch, *, begin: bool) -> None:
    """Hold a batch against the ledger, before anything of it is written.

    Args:
        state: what the ledger has.
        batch: the batch.
        begin: whether a missing ledger is begun anew.

    Raises:
        FencedError: a run with a higher epoch has been here, or a later batch.
        PipelineError: the ledger is missing, though the checkpoint is not new.
    """
    if state.epoch > batch.epoch:
        raise FencedError(
            f"{batch.sink}: the ledger has seen run {state.epoch} of this checkpoint, and this is run "
            f"{batch.epoch}: another runner has taken over, or the checkpoint is an old copy. Begin anew "
            "with `--fresh` if the copy is what you want.",
            node=batch.sink,
        )
    if state.last > batch.id:
        raise FencedError(
            f"{batch.sink}: the ledger has batch {state.last} of this checkpoint, and this is batch "
            f"{batch.id}: the checkpoint is an old copy, and what it would write need not be what is "
            "there. Go on from the newest copy, or begin anew with `--fresh`.",
            node=batch.sink,
        )
    if state.done is None and batch.id > batch.begins and not begin:
        raise missing(batch)


def missing(batch: Batch) -> PipelineError:
    """Return the error for a ledger that should be there."""
    return PipelineError(
        f"{batch.sink}: the ledger of this checkpoint is gone, so whether batch {batch.id} is in is not "
        "known. Brokers forget the offsets of a group that stands still (offsets.retention.minutes, 7 "
        "days if left alone), or somebody has deleted them. Look whether the topic's last messages "
        "are those of this batch. If none is, `missing_ledger: begin` goes on with it; begin anew with "
        "`--fresh` otherwise. If the sink was written to by `microbatch` up to now, nothing is missing: "
        "`missing_ledger: begin`.",
        node=batch.sink,
    )


def half_written(state: State, batch: Batch) -> bool:
    """Whether some writers may have a batch in while others have not."""
    whole = state.done is not None and state.done.next > batch.id
    return bool(state.of(batch.id)) and not whole


def entered(batch: Batch, writers: int, refused: tuple[int, int, int] | None = None) -> Entry:
    """Return the entry of a batch that is in."""
    return Entry(batch.id + 1, batch.epoch, writers, refused)


def begun(batch: Batch, writers: int) -> Entry:
    """Return the entry of a ledger that has nothing yet before a batch."""
    return replace(entered(batch, writers), next=batch.id)
