"""What the source's options are, and how they are said to Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, ClassVar, Literal

from mainstem import (
    PositiveDuration,
    option,
)
from pydantic import (
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from mainstem_broker_kafka.connection import (
    Properties,
    SparkOptions,
    Texts,
    spark_options,
    topic_name,
)

#: Offsets by topic and partition, as in Spark's checkpoint; each is the next to be read.
Offsets = Mapping[str, Mapping[int, int]]

#: What stands for an end of a partition, in Spark's words.
EARLIEST, LATEST = -2, -1
_ENDS = {"earliest": EARLIEST, "latest": LATEST}

_EXPECTED = (
    "expected `earliest`, `latest`, a time such as 2026-01-31T08:00:00Z, or offsets by topic and "
    "partition: {orders: {0: 1200, 1: earliest}}"
)


def read_start(value: Any) -> datetime | str | dict[str, dict[int, int]]:
    """Read where a source starts: an end, a time (UTC without a zone), or offsets.

    Raises:
        ValueError: it is none of those.
    """
    if isinstance(value, Mapping):
        return {topic_name(topic): _partitions(found) for topic, found in value.items()}
    if isinstance(value, str) and value in _ENDS:
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(_EXPECTED) from None
    if not isinstance(value, datetime):
        raise ValueError(_EXPECTED)
    when = value if value.tzinfo else value.replace(tzinfo=UTC)
    if when.timestamp() < 0:
        raise ValueError("expected a time since 1970: a message has no earlier one")
    return when


def _partitions(found: Any) -> dict[int, int]:
    if not isinstance(found, Mapping) or not found:
        raise ValueError(_EXPECTED)
    return {_partition(number): _offset(offset) for number, offset in found.items()}


def _partition(number: Any) -> int:
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
        raise ValueError(f"{number!r} is no number of a partition")
    return number


def _offset(offset: Any) -> int:
    if isinstance(offset, str):
        offset = _ENDS.get(offset, offset)
    if isinstance(offset, bool) or not isinstance(offset, int) or not -2 <= offset < 2**63:
        raise ValueError(f"{offset!r} is no offset: a number, `earliest` or `latest`")
    return offset


def _write_start(start: Any) -> Any:
    return start.isoformat() if isinstance(start, datetime) else start


#: Where reading starts.
Start = Annotated[
    datetime | str | dict[str, dict[int, int]],
    PlainValidator(read_start),
    PlainSerializer(_write_start),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["earliest", "latest"]},
                {"type": "string", "format": "date-time"},
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": {
                            "anyOf": [{"type": "integer"}, {"enum": ["earliest", "latest"]}]
                        },
                    },
                },
            ]
        }
    ),
]


class KafkaSourceOptions(SparkOptions):
    """Options of the source `kafka`."""

    owned: ClassVar[Mapping[str, str]] = {
        **SparkOptions.owned,
        "isolation.level": "write `isolation`",
        "group.id": "write `group`, by which progress is published",
        "auto.offset.reset": "write `start` and `on_loss`",
        "enable.auto.commit": "what was read is in the checkpoint; `group` publishes it",
        "interceptor.classes": "Spark does not allow it",
    }

    topics: Texts | None = option(
        None, description="The topics; or write `pattern` or `assignment`.", example=["orders"]
    )
    pattern: str | None = option(
        None,
        min_length=1,
        description="A regular expression that the whole name of a topic matches. A topic that is made "
        "later is read from its beginning.",
        example="orders-.*",
    )
    assignment: dict[str, tuple[int, ...]] | None = option(
        None,
        description="Just these partitions, by topic; those that are added later are not read.",
        example={"orders": [0, 1]},
    )
    start: Start = option(
        "earliest",
        description="Where a new checkpoint begins: `earliest`, `latest`, a time (UTC without a zone), "
        "or the next offset to read by topic and partition (a partition left out begins at `earliest`). "
        "Found out once, and kept in the checkpoint. A partition that is added later is read from its "
        "beginning.",
        example="2026-01-31T08:00:00Z",
    )
    max_rows: int | None = option(
        None,
        gt=0,
        description="How many messages a batch has at most, all partitions together; each partition "
        "with anything to read gives at least one. All that there is when left out.",
    )
    min_rows: int | None = option(
        None, gt=0, description="How many messages a batch waits for, `max_delay` at most."
    )
    max_delay: PositiveDuration = option(
        timedelta(minutes=15), description="How long a batch waits for `min_rows` at most."
    )
    isolation: Literal["read_committed", "read_uncommitted"] = option(
        "read_committed",
        description="Whether messages of transactions are read when these are committed, or at once, "
        "also if they are aborted later.",
    )
    on_loss: Literal["fail", "report"] = option(
        "fail",
        description="What happens when messages are gone before they were read (retention, a topic that "
        "was deleted): the run fails, or goes on and tells what is gone in the output `lost`.",
    )
    group: str | None = option(
        None,
        min_length=1,
        description="A consumer group that is given the offsets of what has been read and written, so "
        "that Kafka's own tools and exporters of lag see it. Nobody may consume in it.",
        example="orders-job",
    )
    headers: bool = option(
        True,
        advanced=True,
        description="Whether the column `headers` is filled; without it reading is a little faster.",
    )
    min_partitions: int | None = option(
        None,
        gt=0,
        advanced=True,
        description="Into how many tasks a batch is cut at least: large partitions are shared by "
        "several, which then read at the same time.",
    )

    @field_validator("topics")
    @classmethod
    def _are_topics(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        if not value:
            raise ValueError("expected at least one topic")
        return tuple(dict.fromkeys(map(topic_name, value)))

    @field_validator("pattern")
    @classmethod
    def _is_expression(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return value

    @field_validator("assignment")
    @classmethod
    def _are_partitions(cls, value: Any) -> Any:
        for topic, partitions in (value or {}).items():
            topic_name(topic)
            if not partitions:
                raise ValueError(f"expected the numbers of partitions of {topic}")
            for number in partitions:
                _partition(number)
        if value is not None and not value:
            raise ValueError("expected partitions by topic")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> KafkaSourceOptions:
        named = [n for n in ("topics", "pattern", "assignment") if getattr(self, n) is not None]
        if len(named) != 1:
            given = f", not {' and '.join(named)}" if named else ""
            raise ValueError(f"expected one of `topics`, `pattern` and `assignment`{given}")
        if self.on_loss == "report" and not self.known_to_both:
            raise ValueError(
                "`on_loss: report` needs the second client, which tells what is lost, and `kafka` "
                "says how to log in for Spark's alone: say it under `librdkafka` too, in its words"
            )
        if self.min_rows and self.max_rows and self.min_rows > self.max_rows:
            raise ValueError("`min_rows` is more than `max_rows`")
        if "max_delay" in self.model_fields_set and self.min_rows is None:
            raise ValueError("`max_delay` is how long `min_rows` is waited for, which is not there")
        if isinstance(self.start, dict):
            for topic, partitions in self.start.items():
                if not self.names(topic) or any(
                    self.assignment and number not in self.assignment[topic]
                    for number in partitions
                ):
                    raise ValueError(f"`start` names what is not read: {topic} {list(partitions)}")
        return self

    def names(self, topic: str) -> bool:
        """Whether a topic is among those that are read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in (self.topics or self.assignment or ())

    @property
    def told(self) -> str:
        """What is read, for errors."""
        if self.pattern is not None:
            return f"topics that match {self.pattern!r}"
        if self.topics is not None:
            return f"topic {', '.join(self.topics)}"
        return f"partitions {self.assignment}"


def reading_options(
    options: KafkaSourceOptions, start: str | datetime | Offsets, *, bounded: bool
) -> Properties:
    """Return the options of Spark's streaming source.

    Args:
        options: the source's.
        start: where a new checkpoint begins; offsets are of all partitions.
        bounded: whether the run ends when all is read: Spark would leave a rest below `min_rows`.
    """
    made = spark_options(options)
    if options.topics is not None:
        made["subscribe"] = ",".join(options.topics)
    elif options.pattern is not None:
        made["subscribePattern"] = options.pattern
    else:
        made["assign"] = json.dumps(options.assignment)
    if isinstance(start, datetime):
        made["startingTimestamp"] = str(int(start.timestamp() * 1000))
        made["startingOffsetsByTimestampStrategy"] = "latest"  # nothing is that new yet
    else:
        made["startingOffsets"] = start if isinstance(start, str) else json.dumps(start)
    if options.max_rows is not None:
        made["maxOffsetsPerTrigger"] = str(options.max_rows)
    if options.min_rows is not None and not bounded:
        made["minOffsetsPerTrigger"] = str(options.min_rows)
        made["maxTriggerDelay"] = f"{round(options.max_delay.total_seconds() * 1000)}ms"
    if options.min_partitions is not None:
        made["minPartitions"] = str(options.min_partitions)
    made["kafka.isolation.level"] = options.isolation
    made["failOnDataLoss"] = str(options.on_loss == "fail").lower()
    made["includeHeaders"] = str(options.headers).lower()
    return made
