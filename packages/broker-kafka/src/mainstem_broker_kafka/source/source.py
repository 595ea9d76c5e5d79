"""Source `kafka`: Spark's own reading of Kafka, with typed options and what it lacks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem import (
    LOST,
    Advising,
    AfterBatch,
    Branching,
    Dataset,
    Inputs,
    Lag,
    Level,
    Located,
    MachineError,
    MainstemError,
    Measurable,
    Needs,
    OptionError,
    Reached,
    Recovering,
    Rewindable,
    Shape,
    Shown,
    Source,
    SourceCapabilities,
    SourceContext,
    Trace,
    Traceable,
    messages,
)

from mainstem_broker_kafka import jars
from mainstem_broker_kafka.source import advice, lag, rows, starting, topics
from mainstem_broker_kafka.source.groups import Group
from mainstem_broker_kafka.source.offsets import Brokers, Partition, places
from mainstem_broker_kafka.source.options import KafkaSourceOptions, read_start, reading_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How long the brokers may take to tell the lag, in seconds: a run asks now and then, and waits.
_LAG_PATIENCE = 5.0


class KafkaSource(
    Source, Branching, Measurable, Rewindable, AfterBatch, Advising, Recovering, Traceable, Located
):
    """Reads topics of Kafka by offset."""

    options: KafkaSourceOptions

    def __init__(self, options: KafkaSourceOptions) -> None:
        super().__init__(options)
        self._group = Group(options) if options.group is not None else None
        self._looked = False
        self._rewound = False
        #: Whether Spark's reader has failed for a message that the second client can read.
        self._second = False
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """A log: what is read once can be read again, while the topic keeps it."""
        o = self.options
        assumptions = ["no topic is deleted and made anew under its name while a run reads it"]
        if not o.known_to_both:
            assumptions.append(
                "no topic is deleted and made anew under its name between two runs: Spark's client does "
                "not notice, and the other one can't log in (`kafka` says how, `librdkafka` does not)"
            )
        if o.isolation == "read_uncommitted":
            assumptions.append("messages of transactions that are aborted later count as written")
        goes_on = o.on_loss == "report"
        return SourceCapabilities(
            ordered=o.min_partitions is None,
            lossy=goes_on,
            why="with `on_loss: report` messages that the topic no longer has are told in the "
            "output `lost`, and not waited for"
            if goes_on
            else "",
            assumptions=tuple(assumptions),
            shown=Shown(
                Level.AT_MOST_ONCE if goes_on else Level.EXACTLY_ONCE,
                by="packages/broker-kafka/tests/test_kafka_source_conformance.py",
            ),
        )

    def needs(self) -> Needs:
        """Return the connector's jars."""
        return jars.needs(self.options)

    def datasets(self, output: str) -> Sequence[Dataset]:
        o = self.options
        return [o.dataset(topic) for topic in o.topics or o.assignment or [o.pattern or ""]]

    def shape(self) -> Shape:
        """Return the shape of every message source."""
        return messages()

    def outputs(self, inputs: Inputs[Shape]) -> Mapping[str, Shape]:
        """Return the output `lost`, if it is not the run's end."""
        return {"lost": LOST} if self.options.on_loss == "report" else {}

    def load(self, ctx: SourceContext) -> DataFrame:
        """Return what Spark reads, as message columns.

        Raises:
            OptionError: a topic, partition or file is not there.
            PipelineError: the brokers can't be reached, or let nobody in.
            MachineError: the session lacks Spark's Kafka connector.
        """
        from pyspark.errors import AnalysisException

        options = self.options
        jars.allow_token_endpoint(options, ctx.spark)
        brokers = self._look()
        start = starting.resolved(options, brokers)
        notes = topics.Notes.of(ctx, rewound=self._rewound)
        if options.on_loss == "fail" and options.known_to_both:
            topics.check_are_the_same(brokers, ctx, notes)
        if self._reads_with_second(brokers, ctx):
            from mainstem_broker_kafka.source.reading import MessageReading

            first = ctx.spark_folder / lag.FIRST
            found = ctx.read_planned(MessageReading(options, start, first, ctx.bounded))
        else:
            try:
                given = reading_options(options, start, bounded=ctx.bounded)
                frame = ctx.read_stream("kafka", **given)
            except AnalysisException as error:
                if jars.missing(error):
                    raise MachineError(jars.explained(options)) from None
                raise
            found = rows.messages(frame, headers=options.headers)
        if options.on_loss == "report":
            from mainstem_broker_kafka.source import data_loss

            return data_loss.with_losses(found, options, ctx, notes)
        return found

    def _reads_with_second(self, brokers: Brokers, ctx: SourceContext) -> bool:
        """Whether a message that is to be read is one that Spark's reader fails for."""
        if self._second or not self.options.known_to_both:
            return self._second
        done = ctx.progress.committed()
        read = places(done[1] if done is not None else None)
        found = brokers.unreadable(brokers.partitions_left())
        return any(offset >= read.get(partition, 0) for partition, offset in found.items())

    def _look(self) -> Brokers:
        """Find out, once, whether topics are there and can be read: Spark takes minutes to say no."""
        brokers = Brokers(self.options)
        with self._lock:
            if not self._looked and self.options.known_to_both:
                brokers.partitions()
            self._looked = True
        return brokers

    # -- abilities ----------------------------------------------------------------------------

    def end(self, home: Path) -> Mapping[str, str]:
        """Return the end of each partition: the next offset."""
        brokers = Brokers(self.options)
        found = brokers.ends(brokers.partitions())
        return {str(partition): str(offset) for partition, offset in sorted(found.items())}

    def lag(self, reached: Reached) -> Sequence[Lag]:
        """Return by partition the offsets not read yet, and the age of the first message there."""
        brokers = Brokers(self.options, min(_LAG_PATIENCE, self.options.seconds))
        return lag.lag(self.options, brokers, reached)

    def starting_at(self, point: datetime | str | Mapping[str, Any]) -> Source:
        """Return this source starting at a time, at `earliest`, or at an offset of the checkpoint.

        Raises:
            OptionError: it is none of these, or messages from there on are gone.
        """
        try:
            start = read_start(point)
        except ValueError as error:
            raise OptionError(str(error), option="start") from None
        starting.check_is_there(Brokers(self.options), start)
        made = KafkaSource(self.options.model_copy(update={"start": start, "group": None}))
        made._rewound = True
        return made

    def gone(self, since: Reached) -> str:
        """Return which partitions begin after an offset; see `Rewindable.gone`."""
        first = lag.initial(since.spark_folder) if since.offset is None else places(since.offset)
        return starting.gone(Brokers(self.options), first or {})

    def traces(self, home: Path, message: str, key: str) -> Iterator[Trace]:
        """Yield the message at TOPIC/PARTITION/OFFSET, if the topic still has it."""
        found = re.fullmatch(r"(.+)/(\d+)/(\d+)", message)
        if found is None:
            raise OptionError(
                "Kafka finds no message by its key or id: expected TOPIC/PARTITION/OFFSET"
            )
        partition, at = Partition(found[1], int(found[2])), int(found[3])
        brokers = Brokers(self.options)
        known = brokers.partitions()
        if partition not in known:
            return
        first, end = brokers.beginnings(known)[partition], brokers.ends(known)[partition]
        if first <= at < end:
            place = {"origin": partition.topic, "partition": found[2]}
            yield Trace(place | {"position": f"{at:0{rows.WIDTH}d}"}, f"offset {at} of {partition}")

    def reached(self, trace: Trace, offset: Any) -> bool:
        partition = Partition(trace.place["origin"], int(trace.place["partition"]))
        return places(offset).get(partition, 0) > int(trace.place["position"])

    def after_batch(self, ends: Sequence[Any]) -> None:
        """Publish to `group` what all reads have behind them.

        Raises:
            PipelineError: the brokers can't be reached, or somebody consumes in the group.
        """
        if self._group is not None:
            self._group.publish(ends)

    def recovers(self, failure: str) -> str:
        """Return which message Spark's reader fails for, where the second client can read it."""
        if self._second or not advice.overflows(failure) or not self.options.known_to_both:
            return ""
        brokers = Brokers(self.options)
        try:
            found = brokers.unreadable(brokers.partitions_left())
        except MainstemError:  # the failure itself is reported
            return ""
        self._second = bool(found)
        return advice.of_overflow(found) if found else ""

    def advice(self, failure: str) -> str:
        """Return what to do about a failure of reading."""
        return advice.advice(failure)
