"""Time of a small batch with `--metrics`, scraped every second, against without. Goal: <= 1.02 times."""

from __future__ import annotations

import tempfile
import threading
import urllib.request
from pathlib import Path
from statistics import median

from job import Job, Timing, make_input
from mainstem.observation.metrics import Metrics
from mainstem.observation.reporter import Reporter, Several
from rich.console import Console
from rich.table import Table
from small_batch import FILES, ROWS, SKIP, STEP

ROUNDS = 8
GOAL = 1.02


def with_metrics(job: Job) -> Timing:
    """Run the document while metrics are served and scraped."""
    done = threading.Event()

    def scrape(port: int) -> None:
        while not done.wait(1):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read()

    def reporting(inner: Reporter) -> Reporter:
        made = Metrics(0)
        threading.Thread(target=scrape, args=(made.port,), daemon=True).start()
        return Several(made, inner)

    try:
        return job.by_document(reporting)
    finally:
        done.set()


def main() -> None:
    """Run both in turn and print a table."""
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        make_input(Path(name, "in"), files=FILES, rows=ROWS, step=STEP)
        job = Job(Path(name, "in"), Path(name, "out"), max_files=1)
        spark = job.session()
        found = []
        for number in range(ROUNDS + 2):
            sides = [with_metrics, Job.by_document]
            timings = {side: side(job) for side in (sides if number % 2 else sides[::-1])}
            if number >= 2:  # the first ones warm up
                middle = [1000 * median(timings[side].batches[SKIP:]) for side in sides]
                found.append((*middle, middle[0] / middle[1]))
        spark.stop()
    table = Table(title=f"Batches of {ROWS} rows, medians", title_justify="left")
    for column in ("round", "with metrics, ms", "without, ms", "times"):
        table.add_column(column, justify="right")
    for number, (one, other, times) in enumerate(found, 1):
        table.add_row(str(number), f"{one:.0f}", f"{other:.0f}", f"{times:.3f}")
    one, other, times = (median(column) for column in zip(*found, strict=True))
    table.add_row("median", f"{one:.0f}", f"{other:.0f}", f"{times:.3f}", style="bold")
    Console().print(table)
    Console().print(f"goal: <= {GOAL} times")


if __name__ == "__main__":
    main()
