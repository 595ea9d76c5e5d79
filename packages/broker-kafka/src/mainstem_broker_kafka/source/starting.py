"""Where reading starts, and whether it still can start there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from mainstem import OptionError

from mainstem_broker_kafka.source.offsets import Brokers, Partition, Places, by_topic, places
from mainstem_broker_kafka.source.options import EARLIEST, KafkaSourceOptions, Offsets


def resolved(options: KafkaSourceOptions, brokers: Brokers) -> str | datetime | Offsets:
    """Return the start as Spark takes it: offsets are of all partitions.

    An end or a time is found out by Spark in the first batch of a checkpoint, and kept there.
    """
    start = options.start
    if not isinstance(start, Mapping):
        return start
    given = places(start)
    known = brokers.partitions()
    strange = sorted(given.keys() - set(known))
    if strange:
        message = f"there is no partition {strange[0]} to start at"
        raise OptionError(message, option="start")
    return by_topic({partition: given.get(partition, EARLIEST) for partition in known})


def check_is_there(brokers: Brokers, start: str | datetime | Offsets) -> None:
    """Hold a point against what the topics still have.

    Raises:
        OptionError: messages from that point on are gone; says from where on they are there.
    """
    if isinstance(start, str):
        return
    known = brokers.partitions()
    beginnings = brokers.beginnings(known)
    if isinstance(start, Mapping):
        given = places(start)
        ends = brokers.ends(given.keys() & beginnings.keys())
        for partition, offset in sorted(given.items()):
            first, end = beginnings.get(partition), ends.get(partition)
            if first is None or end is None:
                raise OptionError(f"there is no partition {partition}", option="start")
            if offset >= 0 and not first <= offset <= end:
                message = f"{partition} has the offsets {first} to {end}, and not {offset}"
                raise OptionError(message, option="start")
        return
    trimmed = {p: offset for p, offset in beginnings.items() if offset > 0}
    for partition, written in sorted(brokers.times(trimmed).items()):
        if written is not None and written > start.timestamp():
            begins = datetime.fromtimestamp(written, UTC).isoformat(timespec="milliseconds")
            message = (
                f"{partition} begins at {begins} (offset {trimmed[partition]}), "
                "what came before is gone"
            )
            raise OptionError(message, option="start")


def gone(brokers: Brokers, since: Places) -> str:
    """Return which partitions no longer have what comes from some offsets on; 0 of those left out."""
    known = brokers.partitions()
    found = []
    for partition, first in sorted(brokers.beginnings(known).items()):
        wanted = since.get(partition, 0)
        if first > wanted:
            found.append(f"{partition}: offsets {wanted} to {first - 1}")
    missing: list[Partition] = sorted(since.keys() - set(known))
    return "; ".join([*found, *(f"{partition}: the partition" for partition in missing)])
