"""From publishing to the sink: a queue through the ingress log, beside a rate stream.

    python benchmarks/amqp_latency.py [SECONDS]

A publisher sends 1,000 messages a second, each with the time in it, and a document takes them from a
classic queue into a sink that notes when it was given them (`trigger: {every: 100 ms}`). Beside it,
in the same session, Spark's rate stream of 1,000 rows a second into the same sink: what a batch costs
when there is nothing but Spark. Prints the time of batches on both sides, and p50 and p99 of the
latency. A rate stream makes its rows once a second, so its latency tells nothing.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainstem.document.model import Trigger
from mainstem.pipeline import Running
from mainstem.plan.deriving import derive
from mainstem.plan.making import make_plan
from mainstem.testing.stand_ins import Kept, standing_in

RATE = 1000
WARM = 10.0


class Noted(Kept):
    """Keeps the latency of each row, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.latencies: list[tuple[float, float]] = []

    def write(self, frame: Any, batch: Any) -> None:
        sent = [float(row[0]) for row in frame.select("sent").collect()]
        now = time.time()
        self.latencies += [(now, now - at) for at in sent]


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


def measure(source: dict[str, Any], sent: str, folder: Path, seconds: float, work: Any) -> Any:
    """Run a document for a while; return the batch times and latencies after the warm-up."""
    kept = Noted()
    plan = make_plan(
        {
            "pipeline": "latency",
            "checkpoint": str(folder),
            "spark": {"master": "local[2]", "conf": {"spark.ui.enabled": False}},
            "sources": {"rows": source},
            "operators": {
                "timed": {"use": "select", "from": "rows", "with": {"columns": {"sent": sent}}}
            },
            "sinks": {"out": {"use": "console", "from": "timed"}},
        }
    )
    made = derive(
        plan,
        [standing_in(plan.sinks()[0], kept)],
        checkpoint=folder / "derived",
        trigger=Trigger(every=timedelta(milliseconds=100)),
    )
    running = Running(made, show_rows=False, fresh=())
    time.sleep(WARM)
    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(WARM)
    since, first = time.time(), len(running.progress)
    time.sleep(seconds)
    batches = [facts["seconds"] for facts in running.progress[first:] if facts["rows_in"]]
    worker.join()
    time.sleep(2)
    running.stop()
    return batches, [latency for at, latency in kept.latencies if at > since]


def main(seconds: float) -> None:
    from mainstem_testkit.servers.rabbitmq import RabbitMQ

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
        floor, _ = measure(
            {"use": "rate", "with": {"rows_per_second": RATE}},
            "CAST(timestamp AS DOUBLE)",
            place / "rate",
            seconds,
            lambda: None,
        )
    cuts = statistics.quantiles(latencies, n=100)
    print(f"{len(latencies):,} messages, {len(batches)} batches; rate stream: {len(floor)} batches")
    print(f"latency, ms: p50 {1000 * cuts[49]:.0f}, p99 {1000 * cuts[98]:.0f}")
    both = [1000 * statistics.median(times) for times in (batches, floor)]
    print(
        f"batch, ms, median: {both[0]:.0f}, rate stream {both[1]:.0f}, ratio {both[0] / both[1]:.2f}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
