"""Time of a small batch: a document against the same job by hand in PySpark. Goal: <= 1.05 times."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median

from job import Job, make_input
from rich.console import Console
from rich.table import Table

FILES = 30  # one a batch
ROWS = 10  # in each file
STEP = timedelta(seconds=30)  # so that every batch closes windows
SKIP = 5  # batches at the start of each run, while it warms up
ROUNDS = 4
GOAL = 1.05


def main() -> None:
    """Run both sides in turn and print a table."""
    console = Console()
    # Spark may still tidy its state in there when all is done.
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        make_input(Path(name, "in"), files=FILES, rows=ROWS, step=STEP)
        job = Job(Path(name, "in"), Path(name, "out"), max_files=1)
        spark = job.session()
        table = Table(
            title=f"Batches of {ROWS} rows, medians",
            title_justify="left",
        )
        for column in ("round", "document, ms", "by hand, ms", "times"):
            table.add_column(column, justify="right")
        found = []
        for number, (document, hand) in enumerate(job.rounds(ROUNDS), 1):
            one, other = (1000 * median(side.batches[SKIP:]) for side in (document, hand))
            found.append((one, other, one / other))
            table.add_row(str(number), f"{one:.0f}", f"{other:.0f}", f"{one / other:.3f}")
        table.add_section()
        one, other, times = (median(column) for column in zip(*found, strict=True))
        table.add_row("median", f"{one:.0f}", f"{other:.0f}", f"{times:.3f}", style="bold")
        console.print(table)
        console.print(f"goal: <= {GOAL} times")
        spark.stop()


if __name__ == "__main__":
    main()
