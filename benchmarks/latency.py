"""How long rows take to a document's sink, beside a rate stream: shared by benchmarks of latency."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainstem.document.model import Trigger
from mainstem.pipeline import Running
from mainstem.plan.build import make_plan
from mainstem.plan.derive import derive
from mainstem.testing.stand_ins import Kept, standing_in

#: How long a run warms up: before anything is sent, and with it.
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


def measure(
    source: dict[str, Any],
    sent: str,
    folder: Path,
    seconds: float,
    work: Callable[[], object],
    ready: Callable[[], bool] = lambda: True,
) -> tuple[list[float], list[float]]:
    """Run a document for a while; return the batch times and latencies after the warm-up.

    Args:
        source: the entry of the document.
        sent: an expression for the time, in seconds since 1970, at which a row was sent.
        folder: for the checkpoint.
        work: sends rows, for as long as the warm-up and the measurement take.
        ready: whether there is somebody to send to.
    """
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
    while not ready():
        time.sleep(0.1)
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


def report(what: str, batches: list[float], latencies: list[float], place: Path, rate: int) -> None:
    """Print latencies, and the time of batches beside those of a rate stream of as many rows."""
    floor, _ = measure(
        {"use": "rate", "with": {"rows_per_second": rate}},
        "CAST(timestamp AS DOUBLE)",
        place / "rate",
        30.0,
        lambda: None,
    )
    cuts = statistics.quantiles(latencies, n=100)
    print(f"{len(latencies):,} {what}, {len(batches)} batches; rate stream: {len(floor)} batches")
    print(f"latency, ms: p50 {1000 * cuts[49]:.0f}, p99 {1000 * cuts[98]:.0f}")
    both = [1000 * statistics.median(times) for times in (batches, floor)]
    print(
        f"batch, ms, median: {both[0]:.0f}, rate stream {both[1]:.0f}, ratio {both[0] / both[1]:.2f}"
    )
