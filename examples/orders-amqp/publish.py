"""Publishes orders to the queue `orders`, as a shop would: `python publish.py [HOW_MANY] [SECONDS]`.

Half an hour passes with each hundred orders. Each order has an id, every tenth is published twice, and
every fiftieth is broken. The queue `large-orders` is made too, for what comes back.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta

import pika

CITIES = ("Lagos", "Lima", "Lyon", "Łódź")


def order(number: int) -> bytes:
    """Return the body of an order."""
    if number % 50 == 49:
        return b"an order that nobody can read"
    placed = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=18 * number)
    return json.dumps(
        {
            "order_id": f"o-{number}",
            "city": CITIES[number % len(CITIES)],
            "placed": placed.isoformat(),
            "cents": 100 + 7919 * number % 60000,
        }
    ).encode()


def main(count: int = 1000, seconds: float = 0.0) -> None:
    """Publish so many orders, over so many seconds."""
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    channel = connection.channel()
    channel.confirm_delivery()
    for queue in ("orders", "large-orders"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    for number in range(count):
        properties = pika.BasicProperties(delivery_mode=2, message_id=f"o-{number}")
        for _ in range(2 if number % 10 == 0 else 1):
            channel.basic_publish("", "orders", order(number), properties, mandatory=True)
        time.sleep(seconds / count)
    connection.close()
    print(f"published {count} orders, {(count + 9) // 10} of them twice, {count // 50} broken")


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False)))
