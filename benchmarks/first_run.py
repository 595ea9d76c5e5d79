"""A document run once in a fresh Java, against the same by hand. Goal: <= 1.3 times the processor time.

NEXMark's q1 (what bids are in another currency) over 300,000 events, from Parquet to Parquet files. All
processes that come of a run count, Java and Python's workers among them. The last side is the document
with an archive of classes that `mainstem class-archive` has made.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from nexmark.__main__ import SPARK, document
from nexmark.events import write_events
from rich.console import Console
from rich.table import Table

QUERY, EVENTS, FILES, ROUNDS, GOAL = "q1", 300_000, 4, 5, 1.3
#: prctl(2): who loses its parent becomes a child of this process, so that its time is told here.
_SET_CHILD_SUBREAPER = 36
_BY_HAND = """\
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from nexmark.by_hand import run_by_hand
builder = SparkSession.builder.master({master!r})
for key, value in {conf!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
run_by_hand(spark, {query!r}, Path({events!r}), Path({folder!r}), {files})
spark.stop()
"""


def spent(command: list[str], cache: Path) -> tuple[float, float]:
    """Return the seconds of a command, which must succeed, and of processors, its children's too.

    Args:
        cache: the user's cache, in which an archive of classes may be.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "XDG_CACHE_HOME": str(cache)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, told = process.communicate()
    took = time.perf_counter() - began
    if process.returncode:
        sys.exit(told.decode())
    while True:  # those that were left, such as Java
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Run both in turn and print a table."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    table = Table(title=f"{QUERY}, {EVENTS:,} events, each in a fresh Java", title_justify="left")
    for column in ("medians", "s", "of by hand", "processor, s", "of by hand"):
        table.add_column(column, justify="right" if table.columns else "left")
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as name:
        events, folder, file = Path(name, "in"), Path(name, "work"), Path(name, "query.yaml")
        write_events(events, EVENTS, FILES)
        file.write_text(json.dumps(document(QUERY, events, folder, FILES)))
        conf = {key: str(value).lower() for key, value in SPARK["conf"].items()}
        conf["spark.sql.streaming.queryEvolution.enableSourceEvolution"] = (
            "true"  # names of sources
        )
        given = {"query": QUERY, "events": str(events), "folder": str(folder), "files": FILES}
        code = _BY_HAND.format(master=SPARK["master"], conf=conf, **given)
        plain, archived = Path(name, "plain"), Path(name, "archived")
        ours = [sys.executable, "-m", "mainstem"]
        spent([*ours, "class-archive"], archived)
        commands = {
            "document": ([*ours, "run", str(file)], plain),
            "by hand": ([sys.executable, "-c", code], plain),
            "document, archive of classes": ([*ours, "run", str(file)], archived),
        }
        for number in range(ROUNDS + 1):
            for side, (command, cache) in commands.items():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                took = spent(command, cache)
                assert list(folder.glob("out/**/*.parquet"))
                if number:  # the first round brings files into memory
                    found.setdefault(side, []).append(took)
    hand = found["by hand"]
    for side, each in found.items():
        row: list[float] = []
        for which in (0, 1):
            row.append(median(took[which] for took in each))
            row.append(median(a[which] / b[which] for a, b in zip(each, hand, strict=True)))
        table.add_row(side, *(f"{value:.2f}" for value in row))
    console = Console()
    console.print(table)
    console.print(f"goal: <= {GOAL} times the processor time")


if __name__ == "__main__":
    main()
