"""Rows per second: a document against the same job by hand in PySpark. Goal: ratio >= 0.97."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median

from job import Job, make_input
from rich.console import Console
from rich.table import Table

FILES = 16
ROWS = 100_000  # in each file
STEP = timedelta(milliseconds=20)
MAX_FILES = 4
ROUNDS = 5
GOAL = 0.97


def main() -> None:
    """Run both sides in turn and print a table."""
    console = Console()
    rows = FILES * ROWS
    # Spark may still tidy its state in there when all is done.
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        make_input(Path(name, "in"), files=FILES, rows=ROWS, step=STEP)
        job = Job(Path(name, "in"), Path(name, "out"), max_files=MAX_FILES)
        spark = job.session()
        table = Table(
            title=f"Throughput: {rows:,} rows, {FILES // MAX_FILES} batches", title_justify="left"
        )
        for column in (
            "round",
            "document, rows/s",
            "by hand, rows/s",
            "ratio",
            "batches",
            "processor",
        ):
            table.add_column(column, justify="right")
        found = []
        for number, (document, hand) in enumerate(job.rounds(ROUNDS), 1):
            values = (
                rows / document.whole,
                rows / hand.whole,
                hand.whole / document.whole,
                sum(hand.batches) / sum(document.batches),
                hand.processor / document.processor,
            )
            found.append(values)
            table.add_row(str(number), *_texts(values))
        table.add_section()
        middle = tuple(median(column) for column in zip(*found, strict=True))
        table.add_row("median", *_texts(middle), style="bold")
        console.print(table)
        console.print(f"goal: ratio >= {GOAL}; both sides wrote the same: {job.same(1, 2)}")
        spark.stop()


def _texts(values: tuple[float, ...]) -> tuple[str, ...]:
    document, hand, *ratios = values
    return f"{document:,.0f}", f"{hand:,.0f}", *(f"{ratio:.3f}" for ratio in ratios)


if __name__ == "__main__":
    main()
