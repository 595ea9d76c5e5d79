"""How far reading is behind: by partition, in offsets and in seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from mainstem import Lag, Reached

from mainstem_broker_kafka.source.offsets import Brokers, Partition, Places, by_topic, places
from mainstem_broker_kafka.source.options import EARLIEST, LATEST, KafkaSourceOptions

#: The file, in Spark's folder of the source, that has the first offsets of a checkpoint.
FIRST = "0"


def lag(options: KafkaSourceOptions, brokers: Brokers, reached: Reached) -> Sequence[Lag]:
    """Return the lag of each partition; see `Measurable.lag`.

    Rows are offsets: aborted messages, marks of transactions and what compaction removed count too, as
    they do to Kafka's own tools.
    """
    known = brokers.partitions()
    ends = brokers.ends(known)
    beginnings = brokers.beginnings(known)
    read = _read(options, brokers, reached, ends)
    ahead: Places = {}
    for partition, end in ends.items():
        first = beginnings.get(partition, 0)
        since = max(read.get(partition, first), first)
        if since < end:
            ahead[partition] = since
    written = brokers.times(ahead)
    now = time.time()
    return [
        Lag(
            str(partition),
            ends[partition] - ahead.get(partition, ends[partition]),
            _age(written[partition], now) if partition in ahead else 0.0,
        )
        for partition in sorted(ends)
    ]


def _age(written: float | None, now: float) -> float | None:
    return None if written is None else max(0.0, now - written)


def _read(options: KafkaSourceOptions, brokers: Brokers, reached: Reached, ends: Places) -> Places:
    """Return the next offset to be read; a partition that is left out is read from its beginning."""
    if reached.offset is not None:
        return places(reached.offset)
    found = initial(reached.spark_folder)
    return found if found is not None else beginning_to_read(options, brokers, ends)


def beginning_to_read(options: KafkaSourceOptions, brokers: Brokers, ends: Places) -> Places:
    """Return where `start` is now; a partition that is left out is read from its beginning."""
    start = options.start
    if start == "latest":
        return ends
    if isinstance(start, datetime):
        return brokers.at(start, ends)
    if isinstance(start, Mapping):
        given = places(start)
        return {
            partition: ends.get(partition, 0) if offset == LATEST else offset
            for partition, offset in given.items()
            if offset != EARLIEST
        }
    return {}


def initial(folder: Path) -> dict[Partition, int] | None:
    """Return the offsets that a new checkpoint was found to begin at, if that was found out.

    Args:
        folder: where Spark keeps the source's files.
    """
    file = folder / FIRST
    if not file.exists():
        return None
    # A zero byte, for a Spark of long ago; a line with the version; JSON.
    text = file.read_text(encoding="utf-8").lstrip("\x00")
    _, _, offsets = text.partition("\n")
    return places(json.loads(offsets))


def written(found: Mapping[Partition, int]) -> str:
    """Return such offsets as Spark writes them."""
    return f"\x00v1\n{json.dumps(by_topic(found), separators=(',', ':'))}"
