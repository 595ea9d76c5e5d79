"""Time of `test` and `preview` from a cold start, as multiples of a bare Spark session start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROUNDS = 3
FLIGHTS = Path(__file__).parents[1] / "examples" / "flights" / "flights.yaml"
BARE = (
    "from pyspark.sql import SparkSession; "
    "SparkSession.builder.master('local[*]').config('spark.ui.enabled', 'false').getOrCreate()"
)
LINE = '{"carrier":"UA","flight":1,"scheduled":"2013-01-01T05:15:00Z","dep_delay":2}\n'


def seconds(*command: str | Path) -> float:
    """Return how long a command takes; it must succeed."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *map(str, command)], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Run all in turn and print a table."""
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as folder:
        (Path(folder) / "lines.jsonl").write_text(LINE * 1000)
        place = f"sources.lines.with.path={folder}"
        mainstem = ("-m", "mainstem")
        commands = {
            "a bare Spark session": ("-c", BARE),
            "preview of a decoded node": (*mainstem, "preview", FLIGHTS, "flight", "--set", place),
            "preview behind a window": (*mainstem, "preview", FLIGHTS, "hourly", "--set", place),
            "test, four cases": (*mainstem, "test", FLIGHTS),
        }
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                found[name].append(seconds(*command))
    table = Table(title="Cold starts, medians", title_justify="left")
    for column in ("command", "seconds", "times a bare session"):
        table.add_column(column, justify="left" if column == "command" else "right")
    bare = median(found["a bare Spark session"])
    for name, times in found.items():
        table.add_row(name, f"{median(times):.1f}", f"{median(times) / bare:.2f}")
    Console().print(table)
    Console().print("goal: test under 20 s")


if __name__ == "__main__":
    main()
