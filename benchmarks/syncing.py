"""What syncing costs a batch: small batches with `fsync` and, beside it, with one that does nothing.

    python benchmarks/syncing.py [ROUNDS]

Prints medians by batch: the whole batch both ways, and how often a file or a folder is synced by the
driver, many at a time. Not a goal: what is promised over a loss of power is promised at this price.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from job import Job, make_input
from rich.console import Console
from rich.table import Table
from small_batch import FILES, ROWS, SKIP, STEP


class Counted:
    """An `fsync` that counts its calls, which come from several threads."""

    def __init__(self, real: Callable[[int], None]) -> None:
        self._real = real
        self._calls: list[int] = []

    def __call__(self, file: int) -> None:
        self._calls.append(file)
        self._real(file)

    @property
    def calls(self) -> int:
        """How many there were, of all threads."""
        return len(self._calls)


def _idle(_: int) -> None:
    """Sync nothing."""


def main() -> None:
    """Run both in turn and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    real = os.fsync
    table = Table(title=f"Batches of {ROWS} rows, medians", title_justify="left")
    for column in ("round", "synced, ms", "not synced, ms", "calls"):
        table.add_column(column, justify="right")
    found = []
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-", ignore_cleanup_errors=True) as name:
        make_input(Path(name, "in"), files=FILES, rows=ROWS, step=STEP)
        job = Job(Path(name, "in"), Path(name, "out"), max_files=1)
        spark = job.session()
        job.by_document()  # warms up
        for _ in range(rounds):
            counted = Counted(real)
            os.fsync = counted
            synced = median(job.by_document().batches[SKIP:])
            os.fsync = _idle
            plain = median(job.by_document().batches[SKIP:])
            os.fsync = real
            found.append((synced, plain, counted.calls / FILES))
        for number, row in enumerate([*found, tuple(map(median, zip(*found, strict=True)))], 1):
            label = str(number) if number <= rounds else "median"
            synced, plain, calls = row
            table.add_row(label, f"{1000 * synced:.0f}", f"{1000 * plain:.0f}", f"{calls:.1f}")
        Console().print(table)
        spark.stop()


if __name__ == "__main__":
    main()
