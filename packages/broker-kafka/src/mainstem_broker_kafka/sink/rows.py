"""From the columns of a stream to those of messages: topic, partition, headers, and why a row is refused.

Both ways of writing share this. What a row is refused for is found by Spark before anything is sent: a
broker that refuses one message of many fails them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mainstem import Column, OptionError, quoted
from mainstem.errors import nearest

from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

#: The header that tells a message from every other, for ever: `_id` in hex.
ID_HEADER = "mainstem-id"
#: What a batch of one message takes beside key, value and headers: Kafka's message format 2 (KIP-98),
#: whose lengths take 5 bytes at most; Java's client reckons so too.
_OVERHEAD = 61 + 21
_LENGTH = 5

_TEXT = ("binary", "string")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "headers": ("map<string,binary>",),
    "timestamp": ("timestamp",),
}


def check_types(columns: Sequence[Column], options: KafkaSinkOptions) -> None:
    """Refuse columns that can't be what their names say, or lack what the options name.

    Raises:
        OptionError: names the column.
    """
    types = {column.name.lower(): column.type for column in columns}
    names = [column.name for column in columns]
    wanted = dict(_TYPES)
    more: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("topic_from", ("string",)),
        ("partition_from", _WHOLE),
    )
    for option, allowed in more:
        column = getattr(options, option)
        if column is None:
            continue
        if column.lower() not in types:
            hint = nearest(column, names) or f"Columns: {', '.join(names)}."
            raise OptionError(f"there is no column {column!r}", option=option, hint=hint)
        wanted[column.lower()] = allowed
    for name, allowed in wanted.items():
        if (kind := types.get(name)) is not None and kind.replace(" ", "") not in allowed:
            raise OptionError(
                f"column {name} is {kind}, and must be {' or '.join(allowed)}",
                hint="Turn it into that, or drop it, with the operator `select`.",
            )


def messages(
    frame: DataFrame, options: KafkaSinkOptions, topics: Mapping[str, Topic], *, timed: bool
) -> DataFrame:
    """Return a batch as messages.

    Args:
        frame: has the column `value`; what else there is of the message columns is used.
        options: the sink's.
        topics: those that messages may go to.
        timed: whether messages are written with the column `timestamp`.

    Returns:
        `_topic string` (null where the options name one for all), `_partition int`, `key binary`,
        `value binary`, `headers map<string,binary>`, `_millis bigint`, `_mark string` (the value of
        `ID_HEADER`), `_id binary`, and `_reason string`, which says why a row is refused, null if it is
        not. Columns that tell a row's place among others come beside, with `_in_` before their names:
        `_commit_version`, `origin`, `partition`, `position`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = {name.lower(): name for name in frame.columns}

    def column(name: str | None, kind: str) -> Expression:
        found = names.get(name.lower()) if name is not None else None
        return F.col(quoted(found)).cast(kind) if found else F.lit(None).cast(kind)

    topic = F.coalesce(column(options.topic_from, "string"), F.lit(options.topic).cast("string"))
    one = next(iter(topics)) if options.topic_from is None else None
    millis = (
        F.unix_millis(column("timestamp", "timestamp")) if timed else F.lit(None).cast("bigint")
    )
    made = {
        "_topic": F.lit(None).cast("string") if one else topic,
        "_partition": column(options.partition_from, "bigint"),
        "key": column("key", "binary"),
        "value": column("value", "binary"),
        "headers": column("headers", "map<string,binary>"),
        "_millis": millis,
        "_mark": F.lower(F.hex(column("_id", "binary"))),
        "_id": column("_id", "binary"),
    }
    place = [n for n in ("_commit_version", "origin", "partition", "position") if n in names]
    made |= {f"_in_{n.lower()}": F.col(quoted(names[n])) for n in place}
    plain = frame.select(*(value.alias(name) for name, value in made.items()))
    limits = _Limits(topics, F.lit(one) if one else F.col("_topic"))
    checked = plain.withColumn("_reason", _reason(limits, names, options, timed=timed))
    return checked.withColumn("_partition", F.col("_partition").try_cast("int"))


class _Limits:
    """SQL for what the topic of a row takes: a constant where all topics are alike."""

    def __init__(self, topics: Mapping[str, Topic], topic: Expression) -> None:
        self.topics = topics
        self.topic = topic

    def known(self) -> Expression | None:
        """Return whether the topic is one that rows may go to; None if it always is."""
        return self.topic.isin(list(self.topics)) if len(self.topics) != 1 else None

    def of(self, fact: Callable[[Topic], Any]) -> Expression:
        """Return a fact about the row's topic."""
        from pyspark.sql import functions as F  # noqa: N812

        facts = {name: fact(topic) for name, topic in self.topics.items()}
        if len(set(facts.values())) <= 1:
            return F.lit(next(iter(facts.values()), None))
        pairs: Iterable[Any] = (part for pair in facts.items() for part in map(F.lit, pair))
        return F.try_element_at(F.create_map(*pairs), self.topic)

    def any(self, fact: Callable[[Topic], Any]) -> bool:
        return any(map(fact, self.topics.values()))


def _reason(
    limits: _Limits, names: Mapping[str, str], options: KafkaSinkOptions, *, timed: bool
) -> Expression:
    """Return why a row is refused; null if it is not."""
    from pyspark.sql import functions as F  # noqa: N812

    size = _size(names)
    most = limits.of(lambda topic: topic.max_bytes)
    checks: list[tuple[Expression, Expression]] = []

    def check(refused: Expression, text: str, *values: Expression) -> None:
        checks.append((refused, F.format_string(text, *values) if values else F.lit(text)))

    if options.topic_from is not None:
        missing = f"no topic: column {options.topic_from!r} is null"
        check(limits.topic.isNull(), missing.replace("%", "%%"))
        known = limits.known()
        known = limits.topic == F.lit(next(iter(limits.topics))) if known is None else known
        check(~known, "there is no topic %s that messages may go to", limits.topic)
    check(
        size > most.cast("bigint"),
        "the message takes %d bytes before compression, and the topic's max.message.bytes is %d",
        size,
        most.cast("bigint"),
    )
    if limits.any(lambda topic: topic.compacted):
        check(
            limits.of(lambda topic: topic.compacted) & F.col("key").isNull(),
            "the topic is compacted, and takes no message without a key",
        )
    if options.partition_from is not None:
        number = F.col("_partition")
        count = limits.of(lambda topic: topic.partitions).cast("bigint")
        check(
            (number < 0) | (number >= count),
            "the topic has %d partitions, and none is %d",
            count,
            number,
        )
    if timed and "timestamp" in names:
        _check_times(limits, check)
    result = F.lit(None).cast("string")
    for refused, reason in reversed(checks):
        result = F.when(refused, reason).otherwise(result)
    return result


def _check_times(limits: _Limits, check: Callable[..., None]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    millis, now = F.col("_millis"), int(time.time() * 1000)
    # librdkafka's client takes 0 for "now", and less for a mistake.
    check(millis < 1, "the timestamp is before 1970, and can't be written")
    sides: tuple[tuple[Callable[[Topic], int | None], bool], ...] = (
        (lambda topic: topic.after_ms, True),
        (lambda topic: topic.before_ms, False),
    )
    for limit, late in sides:
        if all(limit(topic) is None for topic in limits.topics.values()):
            continue
        far = limits.of(limit).cast("bigint")
        distance = millis - F.lit(now) if late else F.lit(now) - millis
        side, name = ("future", "after") if late else ("past", "before")
        named = f"message.timestamp.{name}.max.ms"
        text = f"the timestamp lies %d ms in the {side}, and the topic's {named} is %d"
        check(distance > far, text, distance, far)


def _size(names: Mapping[str, str]) -> Expression:
    """Return the bytes that a message takes at most, by itself in a batch, uncompressed."""
    from pyspark.sql import functions as F  # noqa: N812

    def length(column: Expression) -> Expression:
        return F.coalesce(F.octet_length(column), F.lit(0)).cast("bigint")

    mark = F.lit(2 * _LENGTH + len(ID_HEADER)) + length(F.col("_mark"))
    size = F.lit(_OVERHEAD + 3 * _LENGTH) + length(F.col("key")) + length(F.col("value")) + mark
    if "headers" in names:
        entries = F.aggregate(
            F.map_entries("headers"),
            F.lit(0).cast("bigint"),
            lambda total, entry: (
                total + 2 * _LENGTH + length(entry["key"]) + length(entry["value"])
            ),
        )
        size = size + F.coalesce(entries, F.lit(0).cast("bigint"))
    return size
