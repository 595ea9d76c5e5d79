"""From a POST to the sink: webhooks through the ingress log, beside a rate stream.

    python benchmarks/webhook_latency.py [SECONDS]

A client posts 500 requests a second, each with the time in it, and a document takes them into a sink that
notes when it was given them (`trigger: {every: 100 ms}`). Beside it, in the same session, Spark's rate
stream of 500 rows a second into the same sink: what a batch costs when there is nothing but Spark. Prints
how long answers took, p50 and p99 of the latency to the sink, and the time of batches on both sides.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx
from latency import WARM, measure, report
from mainstem_testkit.servers.server import free_port

RATE = 500


async def post(port: int, seconds: float, answered: list[float]) -> None:
    """Post at a steady rate, in steps of 10 ms, without waiting for the answers of those before."""

    async def one() -> None:
        at = time.time()
        answer = await client.post(f"http://127.0.0.1:{port}/hook", content=b"%.6f" % at)
        assert answer.status_code == 200, answer.text
        answered.append(time.time() - at)

    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client, asyncio.TaskGroup() as group:
        began = time.time()
        for step in range(int(seconds * 100)):
            for _ in range(RATE // 100):
                group.create_task(one())
            await asyncio.sleep(max(0.0, began + (step + 1) / 100 - time.time()))


def serving(port: int) -> bool:
    """Whether the server answers."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").is_success
    except httpx.TransportError:
        return False


def main(seconds: float) -> None:
    """Measure and print."""
    answered: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place, port = Path(name), free_port()
        options = {"port": port, "paths": {"/hook": {"verify": {"use": "none"}}}}
        batches, latencies = measure(
            {"use": "webhook", "with": options, "on_rejected": "drop"},
            "CAST(STRING(value) AS DOUBLE)",
            place / "webhook",
            seconds,
            lambda: asyncio.run(post(port, WARM + seconds, answered)),
            lambda: serving(port),
        )
        cuts = statistics.quantiles(answered, n=100)
        print(f"answers, ms: p50 {1000 * cuts[49]:.0f}, p99 {1000 * cuts[98]:.0f}")
        report("requests", batches, latencies, place, RATE)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
