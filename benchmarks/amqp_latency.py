"""From publishing to the sink: a queue through the ingress log, beside a rate stream.

    python benchmarks/amqp_latency.py [SECONDS]

A publisher sends 1,000 messages a second, each with the time in it, and a document takes them from a
classic queue into a sink that notes when it was given them (`trigger: {every: 100 ms}`). Beside it,
in the same session, Spark's rate stream of 1,000 rows a second into the same sink: what a batch costs
when there is nothing but Spark. Prints the time of batches on both sides, and p50 and p99 of the
latency. A rate stream makes its rows once a second, so its latency tells nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from latency import WARM, measure, report

RATE = 1000


def publish(url: str, seconds: float) -> None:
    """Publish at a steady rate, in steps of 10 ms."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("latency", durable=True)
    began = time.time()
    for step in range(int(seconds * 100)):
        for _ in range(RATE // 100):
            channel.basic_publish("", "latency", b"%.6f" % time.time() + b" " * 180)
        time.sleep(max(0.0, began + (step + 1) / 100 - time.time()))
    connection.close()


def main(seconds: float) -> None:
    """Measure and print."""
    from mainstem_broker_amqp.testing import RabbitMQ

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        with RabbitMQ(place / "rabbitmq") as server:
            publish(server.url, 0.01)
            batches, latencies = measure(
                {
                    "use": "amqp",
                    "with": {"url": server.url, "queue": "latency"},
                    "on_rejected": "drop",
                },
                "CAST(trim(STRING(value)) AS DOUBLE)",
                place / "amqp",
                seconds,
                lambda: publish(server.url, WARM + seconds),
            )
        report("messages", batches, latencies, place, RATE)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
