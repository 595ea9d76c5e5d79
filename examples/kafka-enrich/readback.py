"""Reads the topic `departures` as any client would, and counts: `python readback.py`."""

from __future__ import annotations

import json
import os
from collections import Counter

from confluent_kafka import Consumer, TopicPartition


def main() -> None:
    """Read all that is committed, and print how often flights come, and how late airlines are."""
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": "readback",
            "isolation.level": "read_committed",  # librdkafka's default; Java's clients must be told
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics("departures", timeout=30).topics["departures"].partitions
    consumer.assign([TopicPartition("departures", number, 0) for number in partitions])
    left = len(partitions)
    flights: Counter[str] = Counter()
    late: Counter[str] = Counter()
    while left:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            left -= 1  # the end of a partition
            continue
        row = json.loads(message.value())
        flights[row["flight_id"]] += 1
        late[row["airline"]] += row["delay"] == "late"
    consumer.close()
    twice = sum(count > 1 for count in flights.values())
    print(f"{len(flights)} departures, {twice} of them more than once")
    for airline, count in late.most_common(5):
        print(f"{count:6} late: {airline}")


if __name__ == "__main__":
    main()
