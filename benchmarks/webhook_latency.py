"""From a POST to the sink: webhooks through the ingress log, beside a rate stream.

    python benchmarks/webhook_latency.py [SECONDS]

A client, a process of its own, posts 500 requests a second over 16 connections, each with the time in it
at which it was due, and a document takes them into a sink that notes when it was given them
(`trigger: {every: 100 ms}`). Beside it, in the same session, Spark's rate stream of 500 rows a second
into the same sink: what a batch costs when there is nothing but Spark. Prints how long answers took,
p50 and p99 of the latency to the sink, and the time of batches on both sides.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from latency import WARM, measure, report
from mainstem_testkit.server import free_port

RATE = 500
CONNECTIONS = 16


async def post(port: int, seconds: float) -> None:
    """Post at a steady rate, in steps of 10 ms; print how long each answer took, in seconds."""
    due: asyncio.Queue[float] = asyncio.Queue()
    took: list[float] = []

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            at = await due.get()
            body = b"%.6f" % at
            head = b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            took.append(time.time() - at)
            due.task_done()

    workers = [asyncio.create_task(work()) for _ in range(CONNECTIONS)]
    began = time.time()
    for step in range(int(seconds * 100)):
        await asyncio.sleep(max(0.0, began + step / 100 - time.time()))
        for _ in range(RATE // 100):
            due.put_nowait(time.time())
    await due.join()
    for worker in workers:
        worker.cancel()
    print(json.dumps(took))


def posted(port: int, seconds: float) -> list[float]:
    """Post from a process of its own; return how long each answer took, in seconds."""
    argv = [sys.executable, __file__, "post", str(port), str(seconds)]
    found: list[float] = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return found


def serving(port: int) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
            return True
    except OSError:
        return False


def main(seconds: float) -> None:
    """Measure and print."""
    took: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place, port = Path(name), free_port()
        options = {"port": port, "paths": {"/hook": {"verify": {"use": "none"}}}}
        batches, latencies = measure(
            {"use": "webhook", "with": options, "on_rejected": "drop"},
            "CAST(STRING(value) AS DOUBLE)",
            place / "webhook",
            seconds,
            lambda: took.extend(posted(port, WARM + seconds)),
            lambda: serving(port),
        )
        cuts = statistics.quantiles(took, n=100)
        print(f"answers, ms: p50 {1000 * cuts[49]:.0f}, p99 {1000 * cuts[98]:.0f}", flush=True)
        report("requests", batches, latencies, place, RATE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["post"]:
        asyncio.run(post(int(sys.argv[2]), float(sys.argv[3])))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
