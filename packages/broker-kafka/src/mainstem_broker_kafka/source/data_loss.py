"""Counts what is gone before it was read, as rows of the output `lost`.

With `failOnDataLoss` off, Spark's source skips what a topic no longer has and tells nobody. So a second
stream runs beside it: whenever a batch is planned, it holds where each partition now begins against
where reading is, as the checkpoint has it. What lies between is gone.

- What is gone beyond the last planned batch was never read: it is lost.
- What went while that batch was being read may have been read before it went: it is told as such, so that
  counts are never too low.

What was found is in the stream's offset, so that a batch that is run again tells the same. Up to where
partitions were looked at is noted beside the checkpoint (`Notes`): a run that ended before the look
after its last batch leaves that look to the next run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from mainstem import MainstemError, Offset, PipelineError, Planner, Reading, SourceContext
from pyspark.sql import functions as F  # noqa: N812

from mainstem_broker_kafka.source.lag import beginning_to_read
from mainstem_broker_kafka.source.offsets import Brokers, Partition, Places, by_topic, places
from mainstem_broker_kafka.source.options import KafkaSourceOptions
from mainstem_broker_kafka.source.topics import Notes

if TYPE_CHECKING:
    from mainstem import Progress
    from pyspark.sql import DataFrame

#: How often the brokers are asked while nothing is read, in seconds.
_EVERY = 1.0
#: How long brokers may fail to answer before a run ends, in seconds: reading goes on meanwhile.
_PATIENCE = 300.0

_SCHEMA = "`from` STRING, `to` STRING, `count` BIGINT, reason STRING"
_ROW = (
    f"STRUCT<node: STRING, {_SCHEMA.replace(' STRING', ': STRING').replace(' BIGINT', ': BIGINT')}>"
)

#: Why a range is told.
GONE = "the topic no longer had it when it was to be read"
WENT = (
    "the topic lost it while a batch over it was being read: some of it may have been read before"
)
DELETED = "the partition was deleted; how much of it was not read yet is not known"
ANEW = "the topic was deleted and made anew, and is not read from its beginning"

#: A range: topic, partition, first and last offset, reason; the last two are None if not known.
Range = tuple[str, int, int, int | None, str]


# -- what is gone -------------------------------------------------------------------------------


class Losses:
    """Finds what is gone, planning by planning.

    Args:
        began: what was to be read first, before any batch; by partition.
    """

    def __init__(self, began: Places) -> None:
        self._told = dict(began)

    @property
    def checked(self) -> Places:
        """Up to where it is known what was lost, once the last ranges are told."""
        return dict(self._told)

    def find(
        self, read: Places | None, beginnings: Places, anew: Collection[str] = ()
    ) -> list[Range]:
        """Return what is gone since this was last asked.

        Args:
            read: where the last planned batch ends; None before there is any.
            beginnings: where the partitions that there are begin now.
            anew: the topics that were made anew since.
        """
        found: list[Range] = []
        if read is None:
            self._forget_before(beginnings)
            return found
        for partition in sorted(read.keys() | beginnings.keys()):
            reached, first = read.get(partition), beginnings.get(partition)
            if partition.topic in anew and first is not None:
                found += self._of_another(partition, reached or 0, first)
            else:
                found += self._of(partition, reached, first)
        return found

    def _forget_before(self, beginnings: Places) -> None:
        # What a topic lost before its first batch was planned, nobody was to read.
        for partition, first in beginnings.items():
            self._told[partition] = max(first, self._told.get(partition, 0))

    def _of(self, partition: Partition, read: int | None, first: int | None) -> Iterator[Range]:
        if first is None:
            if self._told.pop(partition, None) is not None:
                yield (*partition, read or 0, None, DELETED)
            return
        reached = read or 0
        told = self._told.get(partition, 0)
        if told < first and told < reached:
            yield (*partition, told, min(first, reached) - 1, WENT)
        if max(told, reached) < first:
            yield (*partition, max(told, reached), first - 1, GONE)
        self._told[partition] = max(told, reached, first)

    def _of_another(self, partition: Partition, reached: int, first: int) -> Iterator[Range]:
        # What the old topic still had is not known; of the new one Spark skips what it takes for read.
        if first < reached:
            yield (*partition, first, reached - 1, ANEW)
        self._told[partition] = max(reached, first)


# -- as a stream --------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossReading(Reading):
    """What the stream of one read works on; `done` is what had been read when the run began."""

    options: KafkaSourceOptions
    progress: Progress
    done: Mapping[str, Any] | None
    notes: Notes
    bounded: bool

    def schema(self) -> str:
        return _SCHEMA

    def planner(self) -> Planner:
        return LossPlanner(self)

    def read(self, part: list[Range], schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
        yield pa.RecordBatch.from_pylist([row(each) for each in part], schema)


class LossPlanner(Planner):
    """Plans the batches of the stream: an offset has a number, the ranges told last and topics' ids.

    Args:
        reading: what the stream works on.
        patience: how long the brokers may fail to answer, in seconds.
    """

    def __init__(self, reading: LossReading, patience: float = _PATIENCE) -> None:
        self._reading = reading
        self._patience = patience
        self._failing: float | None = None
        self._losses: Losses | None = None
        self._asked = -_EVERY
        self._planned = -1
        self._known: dict[str, str] = {}

    def initial(self) -> Offset:
        """Return the offset before anything was told.

        Topics that a run with `fail` has read are known by the ids that they had then.

        Raises:
            OptionError: the client does not take the options.
            PipelineError: the brokers can't be asked.
        """
        planned = self._reading.progress.planned()
        read = (planned[1] if planned is not None else None) or {}
        ids = self._ids() | {t: i for t, i in self._reading.notes.ids().items() if t in read}
        # And forget up to where a checkpoint before this one was read.
        self._reading.notes.write(ids)
        return {"number": 0, "told": {}, "ranges": [], "ids": ids}

    def latest(self, start: Offset) -> Offset:
        """Return `start`, or the next offset if something is gone or a topic is another one.

        Brokers that can't be asked are asked again later, for a while: Spark's own source waits for them
        too, and what is gone meanwhile is found then. A bounded run may not have a later.

        Raises:
            OptionError: the client does not take the options.
            PipelineError: the brokers can't be asked, for too long.
        """
        planned = self._reading.progress.planned()
        number, end = planned if planned is not None else (-1, None)
        if number == self._planned and time.monotonic() < self._asked + _EVERY:
            return start
        self._asked, self._planned = time.monotonic(), number
        try:
            losses, found = self._find(start, None if end is None else places(end))
        except MainstemError as error:
            self._bear(error)
            return start
        self._failing, self._asked = None, time.monotonic()
        ids = start["ids"] | self._known
        if not found and ids == start["ids"]:
            # The batch before is done when the next one is planned: all that `start` tells is told.
            self._reading.notes.write(ids, by_topic(losses.checked))
            return start
        told = places(start["told"])
        for topic, partition, first, last, _ in found:
            told[Partition(topic, partition)] = first if last is None else last + 1
        ranges = [list(each) for each in found]
        number = start["number"] + 1
        return {"number": number, "told": by_topic(told), "ranges": ranges, "ids": ids}

    def parts(self, start: Offset, end: Offset) -> list[list[Range]]:
        """Return what a batch tells, for one task; nothing if it has told it."""
        found = end["ranges"] if end["number"] != start["number"] else []
        return [[tuple(each) for each in found]] if found else []

    def _bear(self, error: MainstemError) -> None:
        now = time.monotonic()
        if self._failing is None:
            self._failing = now
        if self._reading.bounded or now >= self._failing + self._patience:
            seconds = round(now - self._failing)
            raise PipelineError(
                f"whether messages were lost could not be found out for {seconds} s: {error}"
            ) from None

    def _ids(self) -> dict[str, str]:
        brokers = Brokers(self._reading.options)
        return brokers.ids(partition.topic for partition in brokers.partitions_left())

    def _find(self, start: Mapping[str, Any], read: Places | None) -> tuple[Losses, list[Range]]:
        brokers = Brokers(self._reading.options)
        known = brokers.partitions_left()
        beginnings = brokers.beginnings(known)
        if self._losses is None:
            self._losses = Losses(self._began(start, read, brokers, known))
        self._known = brokers.ids(partition.topic for partition in known)
        before = start["ids"]
        anew = {t for t, made in self._known.items() if before.get(t, made) != made}
        return self._losses, self._losses.find(read, beginnings, anew)

    def _began(
        self,
        start: Mapping[str, Any],
        read: Places | None,
        brokers: Brokers,
        known: list[Partition],
    ) -> Places:
        noted = self._reading.notes.checked() if read is not None else None
        if self._reading.done is not None:
            # Before a batch that was planned and is run again: it may have lost some of what it reads.
            began = places(self._reading.done)
            if noted is not None:
                checked = places(noted)
                began = {p: min(offset, checked.get(p, 0)) for p, offset in began.items()}
        elif noted is not None:
            began = places(noted)
        else:
            began = beginning_to_read(self._reading.options, brokers, brokers.ends(known))
        for partition, told in places(start["told"]).items():
            began[partition] = max(told, began.get(partition, 0))
        return began


def row(found: Range) -> dict[str, Any]:
    """Return a range as a row of the output `lost`, without its node."""
    topic, partition, first, last, reason = found
    return {
        "from": f"{topic}/{partition}/{first}",
        "to": None if last is None else f"{topic}/{partition}/{last}",
        "count": None if last is None else last - first + 1,
        "reason": reason,
    }


def with_losses(
    frame: DataFrame, options: KafkaSourceOptions, ctx: SourceContext, notes: Notes
) -> DataFrame:
    """Return messages together with what was lost, as the core splits them."""
    done = ctx.progress.committed()
    read = done[1] if done is not None else None
    reading = LossReading(options, ctx.progress, read, notes, ctx.bounded)
    told = ctx.read_planned(reading, "lost")
    columns = [F.lit(ctx.node).alias("node"), *(F.col(name) for name in told.columns)]
    lost = told.select(F.lit("lost").alias("_output"), F.struct(*columns).cast(_ROW).alias("_lost"))
    main = frame.withColumn("_output", F.lit(None).cast("string"))
    main = main.withColumn("_lost", F.lit(None).cast(_ROW))
    return main.unionByName(lost, allowMissingColumns=True)
