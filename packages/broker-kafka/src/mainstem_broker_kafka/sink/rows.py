"""From the columns of a stream to those of messages: topic, partition, headers, and why a row is refused.

Both ways of writing share this. What a row is refused for is found by Spark before anything is sent: a
broker that refuses one message of many fails them all. It is all SQL text, which Spark takes in one call
for a batch; a call for each expression would take longer than a small batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem import COMMIT_VERSION
from mainstem.columns import Column, check_types, find_column, literal, quoted

from mainstem_broker_kafka.sink.options import KafkaSinkOptions
from mainstem_broker_kafka.sink.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What a changelog's sequence is called among the columns of `messages`.
VERSION = f"_in_{COMMIT_VERSION}"
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


def check_columns(columns: Sequence[Column], options: KafkaSinkOptions) -> None:
    """Refuse columns that can't be what their names say, or lack what the options name.

    Raises:
        OptionError: names the column.
    """
    wanted = dict(_TYPES)
    more: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("topic_from", ("string",)),
        ("partition_from", _WHOLE),
    )
    for option, allowed in more:
        column = getattr(options, option)
        if column is not None:
            find_column(columns, column, option)
            wanted[column.lower()] = allowed
    check_types(columns, wanted)


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
        `value binary`, `headers map<string,binary>`, `_millis bigint`, `_id binary`, and
        `_reason string`, which says why a row is refused, null if it is not. Columns that tell a row's
        place among others come beside, with `_in_` before their names: `_commit_version`, `origin`,
        `partition`, `position`.
    """
    names = {name.lower(): name for name in frame.columns}

    def column(name: str | None, kind: str) -> str:
        found = names.get(name.lower()) if name is not None else None
        return f"CAST({quoted(found) if found else 'NULL'} AS {kind})"

    one = next(iter(topics)) if options.topic_from is None else None
    millis = f"unix_millis({column('timestamp', 'TIMESTAMP')})" if timed else "CAST(NULL AS BIGINT)"
    topic = column(options.topic_from, "STRING")
    if options.topic_from is not None and options.topic is not None:
        topic = f"coalesce({topic}, {literal(options.topic)})"
    made = {
        "_topic": topic,
        "_partition": column(options.partition_from, "BIGINT"),
        "key": column("key", "BINARY"),
        "value": column("value", "BINARY"),
        "headers": column("headers", "MAP<STRING, BINARY>"),
        "_millis": millis,
        "_id": column("_id", "BINARY"),
    }
    place = [n for n in (COMMIT_VERSION, "origin", "partition", "position") if n in names]
    made |= {f"_in_{name}": quoted(names[name]) for name in place}
    limits = _Limits(topics, literal(one) if one else "_topic")
    reason = _reason(limits, names, options, timed=timed)
    kept = [name for name in made if name != "_partition"]
    return frame.selectExpr(*(f"{text} AS {name}" for name, text in made.items())).selectExpr(
        *kept, "try_cast(_partition AS INT) AS _partition", f"{reason} AS _reason"
    )


def by_version(rows: DataFrame) -> DataFrame:
    """Bring each key's messages together and into the order of their versions, where they have versions.

    Of one version they keep the order in which they stand.
    """
    if VERSION not in rows.columns:
        return rows
    from pyspark.sql import functions as F  # noqa: N812

    # By `_id` without a key: those have no order among them, and would all be in one partition.
    placed = rows.selectExpr("*", "monotonically_increasing_id() AS _place")
    together = placed.repartition(F.expr("coalesce(key, _id)"))
    return together.sortWithinPartitions(VERSION, "_place").drop("_place")


class _Limits:
    """SQL for what the topic of a row takes: a constant where all topics are alike."""

    def __init__(self, topics: Mapping[str, Topic], topic: str) -> None:
        self.topics = topics
        self.topic = topic

    def of(self, fact: Callable[[Topic], int | bool | None]) -> str:
        """Return a fact about the row's topic: BIGINT or BOOLEAN."""
        facts = {name: fact(topic) for name, topic in self.topics.items()}
        if len(set(facts.values())) <= 1:
            return _constant(next(iter(facts.values()), None))
        pairs = (f"{literal(name)}, {_constant(value)}" for name, value in facts.items())
        return f"try_element_at(map({', '.join(pairs)}), {self.topic})"

    def any(self, fact: Callable[[Topic], bool]) -> bool:
        return any(map(fact, self.topics.values()))


def _constant(value: int | bool | None) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "CAST(NULL AS BIGINT)" if value is None else f"{value}L"


def _reason(
    limits: _Limits, names: Mapping[str, str], options: KafkaSinkOptions, *, timed: bool
) -> str:
    """Return SQL for why a row is refused; null if it is not."""
    size = _size(names)
    most = limits.of(lambda topic: topic.max_bytes)
    cases: list[str] = []

    def check(refused: str, text: str, *values: str) -> None:
        words = f"format_string({', '.join([literal(text), *values])})" if values else literal(text)
        cases.append(f"WHEN {refused} THEN {words}")

    if options.topic_from is not None:
        check(f"{limits.topic} IS NULL", f"no topic: column {options.topic_from!r} is null")
        known = ", ".join(map(literal, limits.topics))
        check(
            f"{limits.topic} NOT IN ({known})" if known else "TRUE",
            "there is no topic %s that messages may go to",
            limits.topic,
        )
    check(
        f"{size} > {most}",
        "the message takes %d bytes before compression, and the topic's max.message.bytes is %d",
        size,
        most,
    )
    if limits.any(lambda topic: topic.compacted):
        check(
            f"{limits.of(lambda topic: topic.compacted)} AND key IS NULL",
            "the topic is compacted, and takes no message without a key",
        )
    if options.partition_from is not None:
        count = limits.of(lambda topic: topic.partitions)
        check(
            f"_partition < 0 OR _partition >= {count}",
            "the topic has %d partitions, and none is %d",
            count,
            "_partition",
        )
    if timed and "timestamp" in names:
        _check_times(limits, check)
    return f"CASE {' '.join(cases)} END"


def _check_times(limits: _Limits, check: Callable[..., None]) -> None:
    # librdkafka's client takes 0 for "now", and less for a mistake.
    check("_millis < 1", "the timestamp is before 1970, and can't be written")
    now = f"{int(time.time() * 1000)}L"
    sides: tuple[tuple[Callable[[Topic], int | None], str, str, str], ...] = (
        (lambda topic: topic.after_ms, f"_millis - {now}", "future", "after"),
        (lambda topic: topic.before_ms, f"{now} - _millis", "past", "before"),
    )
    for limit, distance, side, name in sides:
        if all(limit(topic) is None for topic in limits.topics.values()):
            continue
        far = limits.of(limit)
        named = f"message.timestamp.{name}.max.ms"
        text = f"the timestamp lies %d ms in the {side}, and the topic's {named} is %d"
        check(f"{distance} > {far}", text, distance, far)


def _size(names: Mapping[str, str]) -> str:
    """Return SQL for the bytes that a message takes at most, by itself in a batch, uncompressed."""

    def length(text: str) -> str:
        return f"coalesce(octet_length({text}), 0)"

    fixed = _OVERHEAD + 3 * _LENGTH + 2 * _LENGTH + len(ID_HEADER)
    parts = [f"{fixed}L", *map(length, ("key", "value")), f"2 * {length('_id')}"]
    if "headers" in names:
        entry = f"{2 * _LENGTH} + {length('entry.key')} + {length('entry.value')}"
        total = f"aggregate(map_entries(headers), 0L, (total, entry) -> total + {entry})"
        parts.append(f"coalesce({total}, 0L)")
    return f"({' + '.join(parts)})"
