"""What the tests of both components need: queues of a real broker, filled and looked at."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager, suppress

import pika


@contextmanager
def channel(server):
    """A channel of pika's, with publisher confirms."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    try:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened
    finally:
        if connection.is_open:
            connection.close()


def make_queue(server, kind="classic", name=None, **arguments):
    """Make a queue of its own name and return that."""
    name = name or f"q-{uuid.uuid4()}"
    with channel(server) as opened:
        opened.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **arguments})
    return name


def publish(server, queue, bodies, ids=False, **properties):
    """Publish to a queue; with `ids`, each message's body is its id."""
    with channel(server) as opened:
        for body in bodies:
            text = str(body)
            given = pika.BasicProperties(
                delivery_mode=2, message_id=text if ids else None, **properties
            )
            for _ in range(100):  # a stream takes none for a moment after its node has started
                with suppress(pika.exceptions.UnroutableError):
                    opened.basic_publish("", queue, text.encode(), given, mandatory=True)
                    break
                time.sleep(0.1)
            else:
                raise AssertionError(f"{queue} takes no messages")


def ready(server, queue):
    """How many messages wait in a queue, not counting those given out and not acknowledged."""
    with channel(server) as opened:
        return opened.queue_declare(queue, passive=True).method.message_count


def messages(server, queue):
    """How many messages the broker holds of a queue, given out or not."""
    for line in server.control("list_queues", "name", "messages").splitlines():
        name, _, count = line.partition("\t")
        if name == queue:
            return int(count)
    raise AssertionError(f"there is no queue {queue}")
