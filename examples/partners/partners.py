"""The partners: makes what their brokers must have, and sends orders.

    python partners.py make            makes the queues, topics and subscriptions
    python partners.py send [HOW_MANY] sends so many orders of each partner, numbered from 0

Every fiftieth order is broken. Where the brokers are is told by the same variables as in `partners.yaml`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Any

KAFKA = os.environ.get("KAFKA", "localhost:9092")
PULSAR = os.environ.get("PULSAR", "pulsar://localhost:6650")
ARTEMIS = os.environ.get("ARTEMIS", "amqp://localhost:5672")
PROJECT = os.environ.get("PROJECT", "my-partners")


def order(partner: str, number: int) -> bytes:
    """Return an order as it is sent."""
    if number % 50 == 49:
        return b"an order that nobody can read"
    return json.dumps({"partner": partner, "number": number, "cents": 100 + number}).encode()


def shop(orders: Iterable[bytes]) -> None:
    """Send to Pulsar, whose topics are there when they are asked for."""
    import pulsar

    with closing(pulsar.Client(PULSAR)) as client:
        # The subscription has what comes once it is there.
        client.subscribe("orders", "partners", pulsar.ConsumerType.Shared).close()
        producer = client.create_producer("orders")
        for each in orders:
            producer.send(each)


def mainframe(orders: Iterable[bytes]) -> None:
    """Send to Artemis; each message has an id, which tells its copies apart."""
    from proton import Data, Link, Message, symbol
    from proton.reactor import LinkOption
    from proton.utils import BlockingConnection

    class Queue(LinkOption):  # type: ignore[misc]
        """Says that the address is a queue's, not a topic's."""

        def apply(self, link: Link) -> None:
            said = link.target.capabilities
            said.put_array(False, Data.SYMBOL)
            said.enter()
            said.put_symbol(symbol("queue"))

    with closing(BlockingConnection(ARTEMIS)) as connection:
        sender = connection.create_sender("orders", options=Queue())
        for number, each in enumerate(orders):
            sender.send(Message(each, id=f"order-{number}", durable=True, inferred=True))


def market(orders: Iterable[bytes]) -> None:
    """Send to SQS; the queue is made if it is not there."""
    import boto3

    client = boto3.client("sqs")
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    for each in orders:
        client.send_message(QueueUrl=url, MessageBody=each.decode())


def app(orders: Iterable[bytes]) -> None:
    """Publish to Pub/Sub: to the emulator that `PUBSUB_EMULATOR_HOST` names, if it names one."""
    from google.api_core.exceptions import AlreadyExists
    from google.cloud import pubsub_v1

    topic, subscription = (
        f"projects/{PROJECT}/topics/orders",
        f"projects/{PROJECT}/subscriptions/orders",
    )
    with pubsub_v1.SubscriberClient() as subscriber:
        publisher = pubsub_v1.PublisherClient()
        with suppress(AlreadyExists):
            publisher.create_topic(name=topic)
        with suppress(AlreadyExists):
            subscriber.create_subscription(name=subscription, topic=topic, ack_deadline_seconds=60)
        for sent in [publisher.publish(topic, each) for each in orders]:
            sent.result()


def depot(orders: Iterable[bytes]) -> None:
    """Send to Kafka; the topic is made if it is not there, and the group begins where it begins."""
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": KAFKA})
    with suppress(KafkaException):  # it is there
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
    producer = Producer({"bootstrap.servers": KAFKA})
    for each in orders:
        producer.produce("orders", each)
    producer.flush()


PARTNERS: dict[str, Callable[[Iterable[bytes]], None]] = {
    each.__name__: each for each in (shop, mainframe, market, app, depot)
}


def main(command: str = "", count: Any = 500) -> None:
    """Do what the command says."""
    if command not in ("make", "send"):
        sys.exit(__doc__)
    count = int(count) if command == "send" else 0
    for name, send in PARTNERS.items():
        send([order(name, number) for number in range(count)])
    print(f"sent {count} orders of each of {len(PARTNERS)} partners, {count // 50} of them broken")


if __name__ == "__main__":
    main(*sys.argv[1:])
